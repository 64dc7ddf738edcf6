//! A host's rows of one step, written into a batch whose memory is used again.

use std::sync::{Mutex, PoisonError};

use crate::batch::{Batch, Values};
use crate::convert::{Dtype, RowWriter};
use crate::dataset::cursor::StepRows;
use crate::dataset::error::DatasetError;
use crate::dataset::stream::Stream;
use crate::dataset::window::Window;

/// Batches that consumers have given back; the last one first, since it may still be in the processor's cache.
#[derive(Debug, Default)]
pub(crate) struct BatchPool {
    batches: Mutex<Vec<Batch>>,
    limit: usize,
}

impl BatchPool {
    pub(crate) fn new(limit: usize) -> Self {
        Self { batches: Mutex::default(), limit }
    }

    pub(crate) fn give_back(&self, batch: Batch) {
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        if batches.len() < self.limit {
            batches.push(batch);
        }
    }

    fn take(&self) -> Option<Batch> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// Writes the rows of `step` that belong to the stream's host. Tokens of other rows are not read.
pub(crate) fn fill(
    stream: &Stream,
    writer: &RowWriter,
    step: &StepRows<Window>,
    pool: &BatchPool,
) -> Result<Batch, DatasetError> {
    let wanted = stream.config.host.rows(step.size);
    let num_rows = (wanted.end - wanted.start) as usize;
    let mut batch =
        Batch { step: step.step, first_row: step.row + wanted.start, num_rows, arrays: Vec::new() };
    batch.arrays = match pool.take() {
        // Every row is written from end to end, so what stands in it does not matter.
        Some(used) if used.num_rows == num_rows && fits(writer, &used) => used.arrays,
        _ => writer.new_arrays(num_rows),
    };
    let place = |offset: u64| (offset - wanted.start) as usize;
    let mut first = 0;
    for stretch in &step.stretches {
        let end = first + (stretch.rows.end - stretch.rows.start);
        for offset in wanted.start.max(first)..wanted.end.min(end) {
            let row = stretch.rows.start + offset - first;
            stretch.window.write_row(row, &mut batch.arrays, place(offset)).map_err(|error| {
                DatasetError::Row {
                    task: stream.task.clone(),
                    split: stream.config.split.clone(),
                    step: step.step,
                    row: step.row + offset,
                    error,
                }
            })?;
        }
        first = end;
    }
    for offset in wanted.start.max(first)..wanted.end {
        writer.write_padding(&mut batch.arrays, place(offset));
    }
    Ok(batch)
}

/// Whether a batch that was given back is one of this writer's: consumers may mix streams up.
fn fits(writer: &RowWriter, batch: &Batch) -> bool {
    let arrays = writer.arrays();
    batch.arrays.len() == arrays.len()
        && arrays.iter().zip(&batch.arrays).all(|(wanted, array)| {
            let values = wanted.length.max(1) * batch.num_rows;
            array.name == wanted.name
                && array.length == wanted.length
                && match (&array.values, wanted.dtype) {
                    (Values::I32(found), Dtype::I32) => found.len() == values,
                    (Values::F32(found), Dtype::F32) => found.len() == values,
                    _ => false,
                }
        })
}
