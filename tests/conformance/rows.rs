//! Our rows for a golden case: the packing and the converter that a stream would use, on a store in memory.

use std::collections::BTreeMap;

use seqio::{
    Array, Conversion, ConvertError, FeatureLengths, InMemoryExamples, Packing, RowWriter, Values,
    WindowPlanner,
};

use crate::golden::{Example, Output};

/// How a case asks for its rows.
pub(crate) struct Request<'a> {
    pub(crate) converter: Conversion,
    pub(crate) lengths: &'a FeatureLengths,
    pub(crate) packing: Packing,
    /// Refuse examples that are too long instead of trimming them.
    pub(crate) check_lengths: bool,
}

/// The examples as a store has them.
pub(crate) fn store(examples: &[Example]) -> InMemoryExamples {
    let names = examples.first().into_iter().flat_map(|example| example.keys());
    InMemoryExamples::of(names.map(|name| {
        let sequences = examples.iter().map(|example| example[name].clone()).collect();
        (name.as_str(), sequences)
    }))
}

/// All rows of all examples as one window.
pub(crate) fn rows(request: &Request<'_>, examples: &[Example]) -> Result<Vec<Array>, ConvertError> {
    use seqio::ExampleStore;

    let store = store(examples);
    let packed = request.packing != Packing::None;
    let edits = BTreeMap::new();
    let writer =
        RowWriter::new(request.converter.clone(), request.lengths, packed, store.features(), &edits)?;
    let limits = request.converter.limits(request.lengths)?;
    let all: Vec<u64> = (0..store.num_examples()).collect();
    let lengths: Vec<Vec<u32>> = writer
        .task_features()
        .map(|(feature, _)| {
            let mut lengths = vec![0; all.len()];
            store.lengths(feature, &all, &mut lengths);
            lengths
        })
        .collect();
    let lengths: Vec<&[u32]> = lengths.iter().map(Vec::as_slice).collect();
    let kind = request.converter.kind.resolved(request.lengths);
    let planner = WindowPlanner::new(&limits, request.packing, 7, "golden")?;
    let plan = planner.with_joined_features(kind.joins_features()).plan(&lengths, 0);
    if request.check_lengths {
        plan.counts().ensure_nothing_dropped()?;
    }
    let mut arrays = writer.new_arrays(plan.num_rows());
    for (index, row) in plan.rows().enumerate() {
        let pieces = row.pieces().map(|piece| (u64::from(piece.item), piece.spans));
        writer.write_row(&store, pieces, &mut arrays, index).unwrap();
    }
    Ok(arrays)
}

/// The arrays row by row, without `row_valid`; weights, which are 0 or 1, as integers like SeqIO's.
pub(crate) fn output(arrays: &[Array]) -> Output {
    let features = arrays.iter().filter(|array| array.name != "row_valid");
    let integers = |array: &Array| -> Vec<i64> {
        match &array.values {
            Values::I32(values) => values.iter().map(|value| i64::from(*value)).collect(),
            Values::F32(values) => {
                assert!(values.iter().all(|weight| *weight == 0.0 || *weight == 1.0));
                values.iter().map(|weight| *weight as i64).collect()
            }
        }
    };
    let rows = |array: &Array| integers(array).chunks(array.length).map(<[i64]>::to_vec).collect();
    features.map(|array| (array.name.clone(), rows(array))).collect()
}
