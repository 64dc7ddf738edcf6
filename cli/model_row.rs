//! A row of a batch as people read it: tokens with segments, positions and loss weights beside.

use std::io::Write as _;

use seqio::{Batch, Task, Values, Vocabulary};
use serde_json::{Map, Value, json};

use crate::format::{counted, percent};
use crate::output::{Out, Style};
use crate::tokens::{Beside, TokenGrid, shown_piece};

/// One row of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelRow<'a> {
    batch: &'a Batch,
    row: usize,
}

/// The rows of a batch.
pub(crate) fn rows(batch: &Batch) -> impl Iterator<Item = ModelRow<'_>> {
    (0..batch.num_rows).map(move |row| ModelRow { batch, row })
}

/// The side of a model that reads or says tokens of one task feature.
#[derive(Clone, Copy, Debug)]
struct Side<'a> {
    /// The task feature.
    feature: &'a str,
    /// The model feature shown first.
    name: &'a str,
    ids: &'a [i32],
    beside: Beside<'a>,
}

impl<'a> ModelRow<'a> {
    /// Whether the row holds examples, and does not just fill up the last batch.
    pub(crate) fn is_valid(self) -> bool {
        self.i32("row_valid").is_none_or(|valid| valid.first().is_none_or(|valid| *valid != 0))
    }

    /// The model feature that holds the tokens of a task feature, perhaps among those of others, and its ids in this
    /// row, all segments and the padding.
    pub(crate) fn holder(self, feature: &str) -> (&'a str, &'a [i32]) {
        let sides = self.sides();
        let own = sides.iter().find(|side| side.feature == feature);
        // Inputs and suffixes stand in the decoder's row where there is no other.
        let holder = own.or_else(|| sides.iter().find(|side| side.name == "decoder_target_tokens"));
        holder.map_or(("", &[]), |side| (side.name, side.ids))
    }

    fn i32(self, name: &str) -> Option<&'a [i32]> {
        let array = self.batch.arrays.iter().find(|array| array.name == name)?;
        let width = array.length.max(1);
        match &array.values {
            Values::I32(values) => values.get(self.row * width..(self.row + 1) * width),
            Values::F32(_) => None,
        }
    }

    fn f32(self, name: &str) -> Option<&'a [f32]> {
        let array = self.batch.arrays.iter().find(|array| array.name == name)?;
        let width = array.length.max(1);
        match &array.values {
            Values::F32(values) => values.get(self.row * width..(self.row + 1) * width),
            Values::I32(_) => None,
        }
    }

    fn sides(self) -> Vec<Side<'a>> {
        let encoder = self.i32("encoder_input_tokens").map(|ids| Side {
            feature: "inputs",
            name: "encoder_input_tokens",
            ids,
            beside: Beside {
                segments: self.i32("encoder_segment_ids"),
                positions: self.i32("encoder_positions"),
                weights: self.f32("encoder_loss_weights"),
                ..Beside::default()
            },
        });
        let said = self.i32("encoder_target_tokens").map(|ids| Side {
            feature: "targets",
            name: "encoder_target_tokens",
            ids,
            beside: Beside {
                segments: self.i32("encoder_segment_ids"),
                weights: self.f32("encoder_loss_weights"),
                ..Beside::default()
            },
        });
        let decoder = self.i32("decoder_target_tokens").map(|ids| Side {
            feature: "targets",
            name: "decoder_target_tokens",
            ids,
            beside: Beside {
                segments: self.i32("decoder_segment_ids"),
                positions: self.i32("decoder_positions"),
                weights: self.f32("decoder_loss_weights"),
                inputs: self.i32("decoder_input_tokens"),
                prefix: self.i32("decoder_causal_attention"),
            },
        });
        let copied = self.batch.arrays.iter().filter_map(|array| {
            let of_a_side =
                ["encoder_", "decoder_", "target_suffix"].iter().any(|start| array.name.starts_with(start));
            let ids = self.i32(&array.name).filter(|_| array.length > 0 && !of_a_side)?;
            Some(Side { feature: &array.name, name: &array.name, ids, beside: Beside::default() })
        });
        encoder.into_iter().chain(said).chain(decoder).chain(copied).collect()
    }

    /// Prints the row, at most `limit` tokens a side.
    pub(crate) fn print(self, task: &Task, limit: usize, out: &mut Out) -> anyhow::Result<()> {
        let title = format!("row {}", self.batch.first_row + self.row as u64);
        writeln!(out, "{}", out.paint.text(Style::Strong, title))?;
        self.print_sides(task, limit, out)
    }

    /// Prints what the row holds, without its number.
    pub(crate) fn print_sides(self, task: &Task, limit: usize, out: &mut Out) -> anyhow::Result<()> {
        for side in self.sides() {
            let (paint, width) = (out.paint, out.width());
            writeln!(out, "  {}: {}", paint.text(Style::Strong, side.name), side.summary())?;
            let Some(vocabulary) = vocabulary(task, side.feature) else { continue };
            TokenGrid::new(side.ids, vocabulary, side.beside, limit).write(out, paint, 4, width)?;
        }
        Ok(())
    }

    /// The row as JSON: every model feature, and the pieces of the tokens.
    pub(crate) fn json(self, task: &Task) -> Value {
        let mut features = Map::new();
        for array in &self.batch.arrays {
            let value = match (self.i32(&array.name), self.f32(&array.name)) {
                (Some([valid]), _) if array.length == 0 => json!(valid),
                (Some(values), _) => json!(values),
                (None, values) => json!(values.unwrap_or_default()),
            };
            features.insert(array.name.clone(), value);
        }
        let mut pieces = Map::new();
        for side in self.sides() {
            let Some(vocabulary) = vocabulary(task, side.feature) else { continue };
            let shown: Vec<String> = side.ids.iter().map(|id| shown_piece(*id, vocabulary)).collect();
            pieces.insert(side.name.to_owned(), json!(shown));
        }
        json!({ "row": self.batch.first_row + self.row as u64, "features": features, "pieces": pieces })
    }
}

impl Side<'_> {
    fn summary(&self) -> String {
        let length = self.ids.len();
        let used = match (self.beside.segments, self.beside.weights) {
            (Some(segments), _) => segments.iter().filter(|segment| **segment != 0).count(),
            (None, Some(weights)) => weights.iter().filter(|weight| **weight != 0.0).count(),
            (None, None) => length - self.ids.iter().rev().take_while(|id| **id == 0).count(),
        };
        let mut words =
            format!("{used} of {}, {}", counted(length as u64, "token"), percent(used as f64, length as f64));
        if let Some(segments) = self.beside.segments {
            let segments = segments.iter().copied().max().unwrap_or(0);
            words.push_str(&format!(", {}", counted(segments.unsigned_abs().into(), "segment")));
        }
        words
    }
}

fn vocabulary<'a>(task: &'a Task, feature: &str) -> Option<&'a dyn Vocabulary> {
    task.features().get(feature).map(|feature| feature.vocabulary.as_ref())
}
