//! `seqio adapters`: what this machine has to train on.

use std::io::Write as _;

use seqio_trainer::gpu::{AdapterError, AdapterInfo, adapters};
use serde::Serialize;

use crate::args::AdaptersArgs;
use crate::format::{bytes, count};
use crate::output::{Align, Out, Table};
use crate::report::WithHint as _;

/// An adapter, or the processor itself.
#[derive(Serialize)]
struct Line {
    /// What a run file calls it.
    adapter: String,
    #[serde(flatten)]
    info: AdapterInfo,
}

/// Of adapters: the index is what a run file calls them. Of the processor there are its threads.
#[derive(Serialize)]
struct Processor {
    adapter: &'static str,
    name: &'static str,
    threads: usize,
}

/// Runs the command.
pub(crate) fn run(args: &AdaptersArgs, out: &mut Out) -> anyhow::Result<()> {
    let lines: Vec<Line> =
        adapters().into_iter().map(|info| Line { adapter: info.index.to_string(), info }).collect();
    let processor = Processor {
        adapter: "cpu",
        name: "this machine's processor, without a driver",
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    if args.json.wanted {
        json(&lines, &processor, out)?;
    } else {
        print(&lines, &processor, out)?;
    }
    if lines.is_empty() {
        out.flush()?;
        return Err(AdapterError::None).hint(|| AdapterError::None.hint().to_owned());
    }
    Ok(())
}

fn json(lines: &[Line], processor: &Processor, out: &mut Out) -> anyhow::Result<()> {
    let mut all = lines.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    all.push(serde_json::to_value(processor)?);
    out.json(&all)
}

fn print(lines: &[Line], processor: &Processor, out: &mut Out) -> anyhow::Result<()> {
    let mut table = Table::new([
        ("adapter", Align::Left),
        ("type", Align::Left),
        ("back end", Align::Left),
        ("largest tensor", Align::Right),
        ("workgroup", Align::Right),
        ("", Align::Right),
        ("features", Align::Left),
        ("name", Align::Left),
    ]);
    for Line { adapter, info } in lines {
        table.row([
            adapter.clone(),
            info.device_type.clone(),
            info.backend.clone(),
            bytes(info.max_binding_bytes),
            count(info.workgroup_invocations.into()),
            bytes(info.workgroup_bytes.into()),
            info.features.join(" "),
            info.name.clone(),
        ]);
    }
    table.row([
        processor.adapter.to_owned(),
        "cpu".to_owned(),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        processor.name.to_owned(),
    ]);
    let paint = out.paint;
    table.write(out, paint, 0)?;
    for Line { adapter, info } in lines.iter().filter(|line| !line.info.lacks.is_empty()) {
        writeln!(out, "\nadapter {adapter} cannot be used: it lacks {}", info.lacks.join(", "))?;
    }
    Ok(())
}
