//! What packing decides for one window: rows, and the pieces of items in each.

use crate::convert::ConvertError;

/// A stretch of one feature of an item, in tokens after the edits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First token.
    pub from: u32,
    /// Number of tokens.
    pub len: u32,
}

/// What a row holds of one item: a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Place of the item in the window.
    pub item: u32,
    /// What is taken of each feature, in the order of the limits.
    pub spans: &'a [Span],
}

/// The rows of one window, in flat arrays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowPlan {
    pub(super) num_features: usize,
    /// Row r holds the pieces `row_starts[r]..row_starts[r + 1]`.
    pub(super) row_starts: Vec<u32>,
    /// The item of each piece.
    pub(super) items: Vec<u32>,
    /// `num_features` spans a piece.
    pub(super) spans: Vec<Span>,
    pub(super) counts: PackCounts,
}

/// What became of a window's items and tokens. Tokens are counted over all features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackCounts {
    /// Items in the window.
    pub items: u64,
    /// Items without a token in any feature: they are in no row when packed.
    pub empty_items: u64,
    /// Tokens in rows.
    pub tokens: u64,
    /// Items split over several pieces because they are longer than a row.
    pub split_items: u64,
    /// Tokens of split items in other pieces than the first: kept, but without what came before them.
    pub cut_tokens: u64,
    /// Items that were trimmed.
    pub trimmed_items: u64,
    /// Tokens trimmed off: they are in no row.
    pub dropped_tokens: u64,
}

impl PackCounts {
    /// Refuses to go on if items were trimmed: SeqIO's length check, for whoever would rather stop than lose tokens.
    pub fn ensure_nothing_dropped(&self) -> Result<(), ConvertError> {
        match (self.trimmed_items, self.dropped_tokens) {
            (0, 0) => Ok(()),
            (items, tokens) => Err(ConvertError::Overlong { items, tokens }),
        }
    }
}

impl std::ops::AddAssign for PackCounts {
    fn add_assign(&mut self, other: Self) {
        self.items += other.items;
        self.empty_items += other.empty_items;
        self.tokens += other.tokens;
        self.split_items += other.split_items;
        self.cut_tokens += other.cut_tokens;
        self.trimmed_items += other.trimmed_items;
        self.dropped_tokens += other.dropped_tokens;
    }
}

impl WindowPlan {
    /// Number of rows; 0 if all items are empty and `best_fit` packs them.
    pub fn num_rows(&self) -> usize {
        self.row_starts.len().saturating_sub(1)
    }

    /// Number of pieces in all rows.
    pub fn num_pieces(&self) -> usize {
        self.items.len()
    }

    /// Counts over the window.
    pub fn counts(&self) -> PackCounts {
        self.counts
    }

    /// The pieces of row `row`, in the order of their items.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> Row<'_> {
        let pieces = self.row_starts[row] as usize..self.row_starts[row + 1] as usize;
        Row {
            num_features: self.num_features,
            items: &self.items[pieces.clone()],
            spans: &self.spans[pieces.start * self.num_features..pieces.end * self.num_features],
        }
    }

    /// All rows in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        (0..self.num_rows()).map(|row| self.row(row))
    }
}

/// The pieces of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    num_features: usize,
    items: &'a [u32],
    spans: &'a [Span],
}

impl<'a> Row<'a> {
    /// Number of pieces.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing stands in the row.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Piece `index`; its segment id is `index + 1`.
    pub fn piece(&self, index: usize) -> Option<Piece<'a>> {
        let item = *self.items.get(index)?;
        Some(Piece { item, spans: &self.spans[index * self.num_features..(index + 1) * self.num_features] })
    }

    /// All pieces in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'a>> + Clone + use<'a> {
        let spans = self.spans.chunks_exact(self.num_features.max(1));
        self.items.iter().zip(spans).map(|(item, spans)| Piece { item: *item, spans })
    }
}
