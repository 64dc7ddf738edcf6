//! A row as a text step reads it, and rows as it makes them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Float32Array, Float32Builder, Int64Array, Int64Builder,
    ListArray, ListBuilder, RecordBatch, StringArray, StringBuilder, UInt64Array,
};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, Int64Type};

use crate::example::ExampleRow;
use crate::preprocess::text::{Kind, Made};
use crate::preprocess::{PreprocessError, StepContext};
use crate::rng::Draws;

/// A column that is read.
pub(super) enum Column {
    Text(StringArray),
    Texts(ListArray),
    Whole(Int64Array),
    Number(Float32Array),
    Wholes(ListArray),
}

impl Column {
    pub(super) fn open(column: &ArrayRef, kind: Kind) -> Result<Self, PreprocessError> {
        let list = |item: DataType| DataType::List(Arc::new(Field::new_list_field(item, true)));
        Ok(match kind {
            Kind::Text => Self::Text(cast(column, &DataType::Utf8)?.as_string().clone()),
            Kind::Texts => Self::Texts(cast(column, &list(DataType::Utf8))?.as_list().clone()),
            Kind::Whole => Self::Whole(cast(column, &DataType::Int64)?.as_primitive().clone()),
            Kind::Number => Self::Number(cast(column, &DataType::Float32)?.as_primitive().clone()),
            Kind::Wholes => match column.data_type() {
                DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                    Self::Wholes(cast(column, &list(DataType::Int64))?.as_list().clone())
                }
                _ => Self::Whole(cast(column, &DataType::Int64)?.as_primitive().clone()),
            },
        })
    }
}

/// A row of the examples. Columns are named by their place among those that the step reads.
pub(super) struct Row<'a> {
    pub(super) step: &'static str,
    pub(super) index: usize,
    pub(super) names: &'a [(String, Kind)],
    pub(super) columns: &'a [Column],
    pub(super) row: &'a ExampleRow,
    pub(super) ctx: &'a StepContext,
}

impl<'a> Row<'a> {
    /// A text; the empty one for a null.
    pub(super) fn text(&self, column: usize) -> &'a str {
        match &self.columns[column] {
            Column::Text(texts) if texts.is_valid(self.index) => texts.value(self.index),
            _ => "",
        }
    }

    /// A list of texts, nulls in it as empty texts; no texts for a null.
    pub(super) fn texts(&self, column: usize) -> Vec<&'a str> {
        let Column::Texts(lists) = &self.columns[column] else { return Vec::new() };
        if lists.is_null(self.index) {
            return Vec::new();
        }
        let texts = lists.values().as_string::<i32>();
        let (from, to) = (lists.value_offsets()[self.index], lists.value_offsets()[self.index + 1]);
        (from as usize..to as usize).map(|at| if texts.is_valid(at) { texts.value(at) } else { "" }).collect()
    }

    /// A whole number; `None` for a null.
    pub(super) fn whole(&self, column: usize) -> Option<i64> {
        match &self.columns[column] {
            Column::Whole(numbers) => numbers.is_valid(self.index).then(|| numbers.value(self.index)),
            _ => None,
        }
    }

    /// A number; `None` for a null.
    pub(super) fn number(&self, column: usize) -> Option<f32> {
        match &self.columns[column] {
            Column::Number(numbers) => numbers.is_valid(self.index).then(|| numbers.value(self.index)),
            _ => None,
        }
    }

    /// Whole numbers; none for a null, nulls in a list left out.
    pub(super) fn wholes(&self, column: usize) -> Vec<i64> {
        match &self.columns[column] {
            Column::Wholes(lists) if lists.is_valid(self.index) => {
                lists.value(self.index).as_primitive::<Int64Type>().iter().flatten().collect()
            }
            Column::Wholes(_) => Vec::new(),
            _ => self.whole(column).into_iter().collect(),
        }
    }

    /// 63 bits of the example's id.
    pub(super) fn number_of_id(&self) -> i64 {
        let [a, b, c, d, e, f, g, h, ..] = self.row.id.0;
        i64::from_be_bytes([a & 0x7f, b, c, d, e, f, g, h])
    }

    /// The random numbers for this example.
    pub(super) fn draws(&self) -> Draws {
        self.ctx.random.example(&self.row.id)
    }

    /// The error that a column's value in this row cannot be used.
    pub(super) fn fail(&self, column: usize, problem: impl Into<String>) -> PreprocessError {
        PreprocessError::row(self.step, &self.names[column].0, problem.into(), self.row)
    }
}

/// A value of a column that is made.
pub(super) enum Value<'a> {
    Text(&'a str),
    Texts(&'a [String]),
    Flag(bool),
    Number(f32),
    Pair([i64; 2]),
}

/// A column while it is made.
enum Maker {
    Text(StringBuilder),
    Texts(ListBuilder<StringBuilder>),
    Flag(BooleanBuilder),
    Number(Float32Builder),
    Pair(ListBuilder<Int64Builder>),
    /// A column of the input, by its place.
    Kept(usize),
}

/// The rows that are made.
pub(super) struct Pieces {
    makers: Vec<Maker>,
    parents: Vec<usize>,
    /// The row that is being worked on.
    pub(super) parent: usize,
}

impl Pieces {
    pub(super) fn new(makes: &[Made], input: &RecordBatch) -> Result<Self, PreprocessError> {
        let maker = |made: &Made| -> Result<Maker, PreprocessError> {
            Ok(match made {
                Made::Text(_) => Maker::Text(StringBuilder::new()),
                Made::Texts(_) => Maker::Texts(ListBuilder::new(StringBuilder::new())),
                Made::Flag(_) => Maker::Flag(BooleanBuilder::new()),
                Made::Number(_) => Maker::Number(Float32Builder::new()),
                Made::Pair(_) => Maker::Pair(ListBuilder::new(Int64Builder::new())),
                Made::Kept { from, .. } => Maker::Kept(input.schema_ref().index_of(from)?),
            })
        };
        let makers = makes.iter().map(maker).collect::<Result<_, _>>()?;
        Ok(Self { makers, parents: Vec::new(), parent: 0 })
    }

    /// Adds a row: a value for each column that is made and not kept, in order.
    pub(super) fn push(&mut self, row: &Row<'_>, values: &[Value<'_>]) -> Result<(), PreprocessError> {
        let mut values = values.iter();
        for maker in &mut self.makers {
            if matches!(maker, Maker::Kept(_)) {
                continue;
            }
            match (maker, values.next()) {
                (Maker::Text(column), Some(Value::Text(text))) => {
                    check_room(row, column, text)?;
                    column.append_value(text);
                }
                (Maker::Texts(column), Some(Value::Texts(texts))) => {
                    for text in *texts {
                        check_room(row, column.values(), text)?;
                        column.values().append_value(text);
                    }
                    column.append(true);
                }
                (Maker::Flag(column), Some(Value::Flag(flag))) => column.append_value(*flag),
                (Maker::Number(column), Some(Value::Number(number))) => column.append_value(*number),
                (Maker::Pair(column), Some(Value::Pair(pair))) => {
                    column.values().append_slice(pair);
                    column.append(true);
                }
                // A column without its value comes out too short, which Arrow refuses in words.
                _ => {}
            }
        }
        self.parents.push(self.parent);
        Ok(())
    }

    /// The columns that were made, and for each row the one it was made from.
    pub(super) fn finish(self, input: &RecordBatch) -> Result<(Vec<ArrayRef>, Vec<usize>), PreprocessError> {
        let is_whole =
            self.parents.len() == input.num_rows() && self.parents.iter().copied().eq(0..input.num_rows());
        let parents = UInt64Array::from_iter_values(self.parents.iter().map(|parent| *parent as u64));
        let finish = |maker: Maker| -> Result<ArrayRef, PreprocessError> {
            Ok(match maker {
                Maker::Text(mut column) => Arc::new(column.finish()),
                Maker::Texts(mut column) => Arc::new(column.finish()),
                Maker::Flag(mut column) => Arc::new(column.finish()),
                Maker::Number(mut column) => Arc::new(column.finish()),
                Maker::Pair(mut column) => Arc::new(column.finish()),
                Maker::Kept(column) if is_whole => Arc::clone(input.column(column)),
                Maker::Kept(column) => take(input.column(column), &parents, None)?,
            })
        };
        let columns = self.makers.into_iter().map(finish).collect::<Result<_, _>>()?;
        Ok((columns, self.parents))
    }
}

/// The texts of a column, of which a chunk's worth is made at a time, have to stay below 2 GiB.
fn check_room(row: &Row<'_>, column: &StringBuilder, text: &str) -> Result<(), PreprocessError> {
    if column.values_slice().len() + text.len() <= i32::MAX as usize {
        return Ok(());
    }
    let problem = "the texts made from this chunk of the source take more than 2 GiB; let a step before this one drop or \
                   shorten what is that long";
    Err(PreprocessError::row(row.step, "inputs", problem.to_owned(), row.row))
}
