//! Which examples a batch is made of, and when an example is seen.
//!
//! ```text
//! trace(step 3)    row 24: segment 1 = example 812 of epoch 0, targets 0..512; segment 2 = …
//! find(812, 0..2)  epoch 0: step 3, row 24, segment 1, targets 0..512; epoch 1: step 977, …
//! ```

use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

use crate::convert::Piece;
use crate::dataset::cursor::{Cursor, NoStep};
use crate::dataset::dataset::Dataset;
use crate::dataset::error::DatasetError;
use crate::dataset::window::Window;
use crate::item::StoredSpan;

/// What a batch is made of, over all hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepTrace {
    /// The step.
    pub step: u64,
    /// Index of its first row in the stream.
    pub first_row: u64,
    /// Its rows; those that only fill up the last batch are left out.
    pub rows: Vec<RowTrace>,
}

/// What a row is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowTrace {
    /// Index of the row in the stream.
    pub row: u64,
    /// The window it was planned in.
    pub window: u64,
    /// Its segments in order.
    pub pieces: Vec<PieceTrace>,
}

/// One segment of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PieceTrace {
    /// Its segment id, from 1.
    pub segment: u32,
    /// Position in the stream.
    pub position: u64,
    /// The epoch of the position.
    pub epoch: u64,
    /// The stored example: the first, if the item is made of several.
    pub example: u64,
    /// What of the item is here.
    pub parts: Vec<PartTrace>,
    /// The stretches of stored examples that the item is made of, if a step below the boundary made it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceTrace>,
}

/// A stretch of a stored sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceTrace {
    /// The stored feature.
    pub feature: String,
    /// The stored example.
    pub example: u64,
    /// First token.
    pub from: u32,
    /// Number of tokens.
    pub len: u32,
}

/// A stretch of one feature of an example, counted after the steps below the cache boundary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartTrace {
    /// The task feature.
    pub feature: String,
    /// First token.
    pub from: u32,
    /// Number of tokens.
    pub len: u32,
}

/// One time that an example is seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sighting {
    /// The epoch.
    pub epoch: u64,
    /// Position in the stream.
    pub position: u64,
    /// The window of the position.
    pub window: u64,
    /// Where its pieces are; none if the example is empty and packed.
    pub pieces: Vec<SightedPiece>,
}

/// Where one piece of an example is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SightedPiece {
    /// The step; `None` if the row is left out at the end, or the batch sizes do not reach back so far.
    pub step: Option<u64>,
    /// The row in the stream.
    pub row: u64,
    /// The segment id in the row, from 1.
    pub segment: u32,
    /// What of the example is there.
    pub parts: Vec<PartTrace>,
}

impl Dataset {
    /// What the batch of `step` is made of.
    pub fn trace(&self, step: u64) -> Result<StepTrace, DatasetError> {
        let position = self.position_of(step)?;
        let mut windows = Vec::new();
        let sizes = self.config().batch_sizes.clone();
        let mut cursor = Cursor::<Window>::new(
            position,
            sizes,
            self.config().drop_remainder,
            self.windows.barren_windows(),
        );
        let rows = cursor.next(|index| {
            let window = self.windows.window(index)?.map(Arc::new);
            windows.extend(window.iter().map(|window| (index, Arc::clone(window))));
            Ok::<_, DatasetError>(window)
        });
        let rows = match rows {
            Ok(rows) => rows,
            Err(NoStep::End) => return Err(self.beyond(step, self.num_steps()?)),
            Err(NoStep::Barren) => return Err(self.stream.no_tokens()),
            Err(NoStep::Failed(error)) => return Err(error),
        };
        let mut traced = Vec::new();
        for stretch in &rows.stretches {
            let index = windows.iter().find(|(_, window)| Arc::ptr_eq(window, &stretch.window));
            let window = index.map_or(position.window, |(index, _)| *index);
            for row in stretch.rows.clone() {
                let pieces = (1..).zip(stretch.window.row(row).pieces());
                let pieces =
                    pieces.map(|(segment, piece)| self.piece(&stretch.window, window, segment, piece));
                let row = rows.row + traced.len() as u64;
                traced.push(RowTrace { row, window, pieces: pieces.collect::<Result<_, _>>()? });
            }
        }
        Ok(StepTrace { step, first_row: rows.row, rows: traced })
    }

    /// When `example` is seen in each of these epochs; epochs beyond the end of the stream are left out.
    pub fn find(&self, example: u64, epochs: Range<u64>) -> Result<Vec<Sighting>, DatasetError> {
        let epochs = epochs.start..self.config().epochs.map_or(epochs.end, |last| epochs.end.min(last));
        if example >= self.num_examples() {
            return Err(DatasetError::Task {
                task: self.stream.task.clone(),
                problem: format!("there is no example {example}; there are {}", self.num_examples()),
            });
        }
        let mut found = Vec::new();
        for epoch in epochs {
            for position in self.windows.positions_of(example, epoch)? {
                found.push(self.sighting(position, epoch)?);
            }
        }
        Ok(found)
    }

    fn sighting(&self, position: u64, epoch: u64) -> Result<Sighting, DatasetError> {
        let window = position / self.stream.window;
        let rows_before = self.rows_before(window)?;
        let item = (position % self.stream.window) as u32;
        let rows = match self.num_rows_if_known()? {
            Some(rows) if self.config().drop_remainder => {
                self.config().batch_sizes.row_of(self.steps_of(rows)).unwrap_or(rows)
            }
            _ => u64::MAX,
        };
        let pieces = self.windows.with_plan(window, |plan| {
            let mut found = Vec::new();
            for (row, pieces) in (rows_before..).zip(plan.rows()) {
                let step = if row < rows { self.config().batch_sizes.step_of(row) } else { None };
                for (segment, piece) in (1..).zip(pieces.pieces()).filter(|(_, piece)| piece.item == item) {
                    found.push(SightedPiece { step, row, segment, parts: self.parts(piece) });
                }
            }
            // Pieces of one item are shuffled with their rows; a reader wants them in reading order.
            found.sort_by_key(|piece| piece.parts.iter().map(|part| part.from).max());
            found
        })?;
        Ok(Sighting { epoch, position, window, pieces })
    }

    /// The number of rows, where it can matter: for dropping a remainder.
    fn num_rows_if_known(&self) -> Result<Option<u64>, DatasetError> {
        if self.config().drop_remainder { self.num_rows() } else { Ok(None) }
    }

    fn piece(
        &self,
        window: &Window,
        index: u64,
        segment: u32,
        piece: Piece<'_>,
    ) -> Result<PieceTrace, DatasetError> {
        let position = self.windows.positions(index).start + u64::from(piece.item);
        let (epoch, _) = self.windows.epoch_of(position)?;
        let (example, parts) = (window.stored_example(piece.item), self.parts(piece));
        let store = self.windows.store();
        let name = |feature: usize| store.features().get(feature).cloned().unwrap_or_default();
        let source = |span: StoredSpan| SourceTrace {
            feature: name(span.feature),
            example: span.example,
            from: span.from,
            len: span.len,
        };
        let sources = window.sources(piece.item).into_iter().map(source).collect();
        Ok(PieceTrace { segment, position, epoch, example, parts, sources })
    }

    fn parts(&self, piece: Piece<'_>) -> Vec<PartTrace> {
        let features = self.stream.features().iter().zip(piece.spans);
        features
            .map(|(feature, span)| PartTrace { feature: feature.clone(), from: span.from, len: span.len })
            .collect()
    }
}
