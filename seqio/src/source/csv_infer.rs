//! The columns of a CSV source where the definition declares none, and an early look at those it declares.
//!
//! The first 1,000 records of the first file that has any decide: a column whose values are all whole numbers is one of
//! `int64`, of numbers `float64`, of `true` and `false` `bool`, and every other one of `string`. What would not be
//! written again as it was (`007`, `1e3` among whole numbers, 20 digits) is text. Empty values and nulls fit all.
//!
//! ```text
//! text,zip,n,score      ->   text: string, zip: string, n: int64, score: float64
//! hello,01234,7,0.5
//! "",98765,,1
//! ```

use std::collections::BTreeMap;

use crate::source::column::{ColumnSpec, ScalarType};
use crate::source::csv::{CsvRecords, FieldReader, parse_csv, truth};
use crate::source::csv_head::CsvHead;
use crate::source::csv_records::RecordScan;
use crate::source::dialect::CsvDialect;
use crate::source::infer::{SAMPLE_RECORDS, pin_by_records};
use crate::source::jsonl::declared_schema;
use crate::source::lines::{Cutting, LineChunks};
use crate::source::listing::Listing;
use crate::source::{SourceError, SourceFile};
use crate::text::quoted;

/// The columns of a CSV source: the declared ones if they fit its first records, else those of these records.
pub(super) fn pin_csv_columns(
    listing: &Listing,
    dialect: &CsvDialect,
    declared: &BTreeMap<String, ColumnSpec>,
) -> Result<BTreeMap<String, ColumnSpec>, SourceError> {
    pin_by_records(listing, declared, |file| {
        let head = CsvHead::read(file, dialect, Cutting::csv())?;
        if declared.is_empty() {
            return infer_columns(file, dialect, &head);
        }
        Ok(check_declared(file, dialect, &head, declared)?.then(|| declared.clone()))
    })
}

/// Infers the columns of a file; `None` if it has no records.
fn infer_columns(
    file: &SourceFile,
    dialect: &CsvDialect,
    head: &CsvHead,
) -> Result<Option<BTreeMap<String, ColumnSpec>>, SourceError> {
    let mut shapes = vec![Shape::Null; head.names.len()];
    let mut fields = FieldReader::new(dialect);
    let (mut records, mut good, mut first_bad) = (0, 0, None);
    let scan = RecordScan::new(dialect);
    'file: for chunk in LineChunks::open(file, 0, None, Cutting::csv(), Some(scan), Box::new(|_| false))? {
        let chunk = chunk?;
        for record in CsvRecords::new(&chunk, dialect) {
            if record.content.is_none() || head.offset == Some(record.offset) {
                continue;
            }
            if records == SAMPLE_RECORDS {
                break 'file;
            }
            records += 1;
            let read = fields.read(&record, dialect).and_then(|fields| {
                head.check_number(fields.len())?;
                Ok(fields)
            });
            match read {
                Ok(fields) => {
                    good += 1;
                    for (shape, field) in shapes.iter_mut().zip(fields.iter()) {
                        *shape = shape.join(Shape::of(field, dialect));
                    }
                }
                Err(reason) => {
                    first_bad.get_or_insert((record.ordinal + 1, reason));
                }
            }
        }
        if chunk.range.start > 0 {
            break;
        }
    }
    if let (0, Some((line, reason))) = (good, first_bad) {
        let problem = format!("none of the first {records} records can be read: line {line} {reason}");
        return Err(SourceError::malformed(&file.path, problem));
    }
    if good == 0 {
        return Ok(None);
    }
    let named = head.names.iter().zip(shapes).filter(|(name, _)| !name.is_empty());
    let mut columns = BTreeMap::new();
    for (name, shape) in named {
        if columns.insert(name.clone(), ColumnSpec::from(shape.scalar())).is_some() {
            let problem = format!(
                "the header names column `{name}` twice; declare the columns to read, as `columns = {{ … }}`"
            );
            return Err(SourceError::malformed(&file.path, problem));
        }
    }
    if columns.is_empty() {
        let problem = format!("its header names no columns, only {}", quoted(&head.names));
        return Err(SourceError::malformed(&file.path, problem));
    }
    Ok(Some(columns))
}

/// Sees that the file has the declared columns, and that they fit at least one of its first records; false if it has
/// no records.
fn check_declared(
    file: &SourceFile,
    dialect: &CsvDialect,
    head: &CsvHead,
    declared: &BTreeMap<String, ColumnSpec>,
) -> Result<bool, SourceError> {
    let schema = declared_schema(declared);
    let (mut records, mut first_bad) = (0, None);
    let scan = RecordScan::new(dialect);
    for chunk in LineChunks::open(file, 0, None, Cutting::csv(), Some(scan), Box::new(|_| false))? {
        let mut chunk = chunk?;
        // A damaged file is looked at when it is read.
        chunk.damage = None;
        let parsed = parse_csv("", declared, &schema, dialect, head, file, &chunk)?;
        if !parsed.examples.is_empty() {
            return Ok(true);
        }
        records += parsed.bad_rows.len();
        if let Some(bad) = parsed.bad_rows.into_iter().next() {
            first_bad.get_or_insert((bad.ordinal + 1, bad.reason));
        }
        if records >= SAMPLE_RECORDS || chunk.range.start > 0 {
            break;
        }
    }
    match first_bad {
        None => Ok(false),
        Some((line, reason)) => Err(SourceError::malformed(
            &file.path,
            format!("none of the first {records} records fits the declared columns: line {line}: {reason}"),
        )),
    }
}

/// What the values of a column have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Null,
    Bool,
    Int,
    Float,
    String,
}

impl Shape {
    fn of(field: &str, dialect: &CsvDialect) -> Self {
        if field.is_empty() || dialect.nulls.contains(field) {
            Self::Null
        } else if truth(field).is_some() {
            Self::Bool
        } else if is_plain_number(field, false) && field.parse::<i64>().is_ok() {
            Self::Int
        } else if is_plain_number(field, true) && field.parse::<f64>().is_ok_and(f64::is_finite) {
            Self::Float
        } else {
            Self::String
        }
    }

    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Null, shape) | (shape, Self::Null) => shape,
            (Self::Int | Self::Float, Self::Int | Self::Float) if self != other => Self::Float,
            (a, b) if a == b => a,
            _ => Self::String,
        }
    }

    fn scalar(self) -> ScalarType {
        match self {
            // Nothing is known of it, and text is what examples have most.
            Self::Null | Self::String => ScalarType::String,
            Self::Bool => ScalarType::Bool,
            Self::Int => ScalarType::Int64,
            Self::Float => ScalarType::Float64,
        }
    }
}

/// Whether a field is a number in its usual spelling: no plus, no zeros in front; with a point or an exponent if it
/// `may_have_point`.
fn is_plain_number(field: &str, may_have_point: bool) -> bool {
    let digits = field.strip_prefix('-').unwrap_or(field);
    let (whole, rest) = digits.split_at(digits.bytes().take_while(u8::is_ascii_digit).count());
    if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) {
        return false;
    }
    if rest.is_empty() {
        // A whole number beyond 64 bits is more likely an id, which a float would not keep.
        return !may_have_point || whole.len() < 19;
    }
    let fraction = rest.strip_prefix('.').unwrap_or(rest);
    let (decimals, exponent) = fraction.split_at(fraction.bytes().take_while(u8::is_ascii_digit).count());
    let needs_decimals = rest.starts_with('.');
    let exponent_digits =
        exponent.strip_prefix(['e', 'E']).map(|rest| rest.strip_prefix(['+', '-']).unwrap_or(rest));
    may_have_point
        && (decimals.is_empty() != needs_decimals)
        && match exponent_digits {
            None => exponent.is_empty(),
            Some(digits) => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
        }
}
