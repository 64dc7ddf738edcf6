//! What the columns of a CSV file are called, and where in a record each stands.
//!
//! ```text
//! a.csv   text,label     columns label, text -> places 1, 0
//! b.csv   label,text     the same columns    -> places 0, 1
//! c.csv   text           refused: c.csv has no column `label`, only `text`
//! ```

use std::collections::BTreeMap;

use crate::source::column::ColumnSpec;
use crate::source::csv::{CsvRecords, FieldReader};
use crate::source::csv_records::RecordScan;
use crate::source::dialect::CsvDialect;
use crate::source::lines::{Cutting, LineChunks};
use crate::source::{SourceError, SourceFile};
use crate::text::{counted, nearest, quoted};

/// The names of a file's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CsvHead {
    /// In the order of the file; none if the file has no records.
    pub(super) names: Vec<String>,
    /// First byte of the record that holds them; `None` if none does.
    pub(super) offset: Option<u64>,
}

impl CsvHead {
    /// Reads the names from the file unless the dialect has them.
    pub(super) fn read(
        file: &SourceFile,
        dialect: &CsvDialect,
        cutting: Cutting,
    ) -> Result<Self, SourceError> {
        if let Some(names) = &dialect.names {
            return Ok(Self { names: names.clone(), offset: None });
        }
        let scan = RecordScan::new(dialect);
        for chunk in LineChunks::open(file, 0, None, cutting, Some(scan), Box::new(|_| false))? {
            let chunk = chunk?;
            let Some(record) = CsvRecords::new(&chunk, dialect).find(|record| record.content.is_some())
            else {
                continue;
            };
            let mut reader = FieldReader::new(dialect);
            let fields = reader.read(&record, dialect).map_err(|reason| {
                SourceError::malformed(
                    &file.path,
                    format!("the header (line {}) {reason}", record.ordinal + 1),
                )
            })?;
            let names = fields.iter().map(str::to_owned).collect();
            return Ok(Self { names, offset: Some(record.offset) });
        }
        Ok(Self { names: Vec::new(), offset: None })
    }

    /// Where in a record each column stands; optional ones may be absent.
    pub(super) fn places(
        &self,
        columns: &BTreeMap<String, ColumnSpec>,
    ) -> Result<Vec<Option<usize>>, String> {
        if self.names.is_empty() {
            return Ok(vec![None; columns.len()]);
        }
        columns.iter().map(|(name, column)| self.place(name, column.optional)).collect()
    }

    fn place(&self, name: &str, optional: bool) -> Result<Option<usize>, String> {
        let mut places = (0..self.names.len()).filter(|&place| self.names[place] == name);
        let hint = || match nearest(name, self.names.iter().map(String::as_str)) {
            Some(near) => format!(" (did you mean `{near}`?)"),
            None => String::new(),
        };
        match (places.next(), places.next()) {
            (Some(_), Some(_)) => Err(format!("the header names column `{name}` twice")),
            (Some(place), None) => Ok(Some(place)),
            _ if optional => Ok(None),
            _ => {
                Err(format!("has no column `{name}`, only {}{}", quoted(self.names.iter().take(50)), hint()))
            }
        }
    }

    /// An error unless a record of so many fields has one for each column.
    pub(super) fn check_number(&self, found: usize) -> Result<(), String> {
        if found == self.names.len() {
            return Ok(());
        }
        Err(format!("has {} instead of {}", counted(found as u64, "field"), self.names.len()))
    }
}
