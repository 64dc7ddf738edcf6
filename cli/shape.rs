//! From options to a request for batches, and from a task to its data set.

use seqio::{
    BatchSizes, Conversion, Converter, DEFAULT_BLOCK, Dataset, DatasetConfig, FeatureLengths, Host,
    OrderKind, Packing, StreamTask, Task,
};

use crate::args::{BatchSize, OrderName, PackName, RunRange, Shape};
use crate::report::usage;
use crate::session::Opened;
use crate::value::LengthList;

/// The converter asked for, or the one that fits the task's features.
pub(crate) fn converter(asked: Option<&Conversion>, task: &Task) -> anyhow::Result<Conversion> {
    let has = |feature: &str| task.features().contains_key(feature);
    match asked {
        Some(asked) => Ok(asked.clone()),
        None if has("inputs") && has("targets") => Ok(Converter::EncDec.into()),
        None if has("targets") => Ok(Converter::Lm.into()),
        None => Err(usage(format!(
            "no converter fits task `{}`: `lm` needs a feature `targets` and `enc_dec` also `inputs`, but it has {}",
            task.name(),
            seqio::quoted(task.features().keys())
        ))),
    }
}

/// The lengths asked for, each with its feature, for those features that the converter reads.
pub(crate) fn lengths(
    lists: &[LengthList],
    converter: &Conversion,
    task: &Task,
) -> anyhow::Result<FeatureLengths> {
    let features = converter.features_of(task.features().keys());
    let lengths = LengthList::resolve(lists, &features).map_err(usage)?;
    converter.check_lengths(&lengths).map_err(|error| usage(error.to_string()))?;
    Ok(lengths)
}

/// The way of packing.
pub(crate) fn packing(name: PackName) -> Packing {
    match name {
        PackName::BestFit => Packing::BestFit,
        PackName::Greedy => Packing::Greedy,
        PackName::None => Packing::None,
    }
}

/// The request that the options make for this task and split.
pub(crate) fn config(
    task: &Task,
    split: &str,
    shape: &Shape,
    batch_size: BatchSize,
) -> anyhow::Result<DatasetConfig> {
    let converter = converter(shape.converter.as_ref(), task)?;
    let order = match (shape.order, shape.block) {
        (OrderName::Blocks, block) => OrderKind::Blocks { size: block.unwrap_or(DEFAULT_BLOCK) },
        (_, Some(_)) => return Err(usage("`--block` is for `--order blocks`")),
        (OrderName::Full, None) => OrderKind::Full,
        (OrderName::Storage, None) => OrderKind::Storage,
    };
    let lengths = lengths(&shape.lengths, &converter, task)?;
    let mut config = DatasetConfig::new(split, converter, []);
    config.lengths = lengths;
    config.packing = packing(shape.pack);
    config.window = shape.window;
    config.order = order;
    config.seed = shape.seed;
    config.epochs = shape.epochs.and_then(|epochs| epochs.0);
    config.batch_sizes = BatchSizes::constant(batch_size.batch_size.into());
    config.drop_remainder = shape.drop_remainder;
    config.converter.check_packing(config.is_packed()).map_err(|error| usage(error.to_string()))?;
    Ok(config)
}

/// Adds whose rows are wanted and how far ahead they are made.
pub(crate) fn for_run(mut config: DatasetConfig, run: &RunRange, threads: Option<u32>) -> DatasetConfig {
    config.host = Host { index: run.host.host.into(), count: run.host.of.into() };
    config.threads = threads.map(|threads| threads as usize);
    if let Some(read_ahead) = run.read_ahead {
        config.read_ahead = read_ahead;
    }
    config
}

/// The task as a stream sees it.
pub(crate) fn stream_task(task: &Task, data: String, lengths: &FeatureLengths) -> anyhow::Result<StreamTask> {
    let stream = StreamTask::new(task.name(), data);
    Ok(match task.item_steps(lengths)? {
        Some(steps) => stream.items(steps),
        None => stream.edits(task.token_edits(lengths)?),
    })
}

/// The batches of a cached split.
pub(crate) fn dataset(opened: &Opened, config: DatasetConfig) -> anyhow::Result<Dataset> {
    let task = stream_task(&opened.task, opened.data(), &config.lengths)?;
    Ok(Dataset::new(task, opened.store(), config)?.with_index_folders(opened.index_folders()))
}
