//! An Arrow IPC stream: a record batch a step, a column a feature.
//!
//! ```text
//! decoder_target_tokens: fixed_size_list<int32>[2048]    a row of tokens
//! row_valid: int32                                       one number a row
//! ```
//!
//! The schema's metadata holds `seqio.first_step`; steps follow each other from there.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListArray, Float32Array, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::ipc::writer::StreamWriter;
use seqio::{Array, Batch, Values};

use super::BatchWriter;

/// Writes an Arrow IPC stream.
pub(crate) struct ArrowStream<W: Write> {
    /// The writer until the first batch tells the schema.
    waiting: Option<W>,
    stream: Option<(SchemaRef, StreamWriter<W>)>,
}

impl<W: Write> ArrowStream<W> {
    /// Writes to `writer`.
    pub(crate) fn new(writer: W) -> Self {
        Self { waiting: Some(writer), stream: None }
    }
}

impl<W: Write> BatchWriter for ArrowStream<W> {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        if let Some(writer) = self.waiting.take() {
            let schema = schema(batch);
            let stream = StreamWriter::try_new(writer, &schema)?;
            self.stream = Some((schema, stream));
        }
        if let Some((schema, stream)) = &mut self.stream {
            let columns = batch.arrays.iter().map(|array| column(array));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            stream.write(&RecordBatch::try_new(Arc::clone(schema), columns)?)?;
            stream.flush()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        // A stream without a batch still is a stream: one without columns.
        if let Some(writer) = self.waiting.take() {
            StreamWriter::try_new(writer, &Schema::empty())?.finish()?;
        }
        if let Some((_, stream)) = &mut self.stream {
            stream.finish()?;
            stream.flush()?;
        }
        Ok(())
    }
}

fn schema(batch: &Batch) -> SchemaRef {
    let fields: Vec<Field> = batch
        .arrays
        .iter()
        .map(|array| {
            let number = number_type(array);
            let kind = match array.length {
                0 => number,
                length => DataType::FixedSizeList(item(number), length as i32),
            };
            Field::new(&array.name, kind, false)
        })
        .collect();
    let metadata = [("seqio.first_step".to_owned(), batch.step.to_string())].into();
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

fn number_type(array: &Array) -> DataType {
    match array.values {
        Values::I32(_) => DataType::Int32,
        Values::F32(_) => DataType::Float32,
    }
}

fn item(number: DataType) -> FieldRef {
    Arc::new(Field::new("item", number, false))
}

fn column(array: &Array) -> Result<ArrayRef, arrow::error::ArrowError> {
    let numbers: ArrayRef = match &array.values {
        Values::I32(values) => Arc::new(Int32Array::from(values.clone())),
        Values::F32(values) => Arc::new(Float32Array::from(values.clone())),
    };
    match array.length {
        0 => Ok(numbers),
        length => {
            let list = FixedSizeListArray::try_new(item(number_type(array)), length as i32, numbers, None)?;
            Ok(Arc::new(list))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::tests::tiny_batch;
    use arrow::array::AsArray as _;
    use arrow::datatypes::Int32Type;
    use arrow::ipc::reader::StreamReader;

    #[test]
    fn each_step_is_a_record_batch_of_fixed_size_lists() {
        let mut bytes = Vec::new();
        let mut writer = ArrowStream::new(&mut bytes);
        writer.write(&tiny_batch(3)).unwrap();
        writer.write(&tiny_batch(4)).unwrap();
        writer.finish().unwrap();
        drop(writer);

        let reader = StreamReader::try_new(bytes.as_slice(), None).unwrap();
        assert_eq!(reader.schema().metadata()["seqio.first_step"], "3");
        let batches: Vec<RecordBatch> = reader.map(|batch| batch.unwrap()).collect();
        assert_eq!(batches.len(), 2);
        let tokens = batches[0].column_by_name("decoder_target_tokens").unwrap().as_fixed_size_list();
        assert_eq!(tokens.value_length(), 3);
        assert_eq!(tokens.value(0).as_primitive::<Int32Type>().values(), &[7, 1, 0]);
        assert_eq!(
            batches[1].column_by_name("row_valid").unwrap().as_primitive::<Int32Type>().values(),
            &[1, 0]
        );
    }

    #[test]
    fn a_stream_without_batches_can_be_read() {
        let mut bytes = Vec::new();
        let mut writer = ArrowStream::new(&mut bytes);
        writer.finish().unwrap();
        drop(writer);
        assert_eq!(StreamReader::try_new(bytes.as_slice(), None).unwrap().count(), 0);
    }
}
