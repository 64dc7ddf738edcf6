//! What a model eats: named dense arrays of one fixed shape.

/// The numbers of an array.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Token ids, segment ids, positions.
    I32(Vec<i32>),
    /// Loss weights.
    F32(Vec<f32>),
}

/// One model feature of a batch, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// SeqIO's name, as `decoder_target_tokens`.
    pub name: String,
    /// Width of a row: 0 for one number a row (shape `[B]`), else shape `[B, T]`.
    pub length: usize,
    /// The numbers, `B * max(length, 1)` of them.
    pub values: Values,
}

/// The rows of one step that one host owns.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The step it belongs to.
    pub step: u64,
    /// Index of its first row in the stream of rows.
    pub first_row: u64,
    /// Number of rows held here.
    pub num_rows: usize,
    /// Features sorted by name; among them `row_valid`, `[B]`: 0 for rows that only fill up the last batch.
    pub arrays: Vec<Array>,
}
