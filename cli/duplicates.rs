//! What steps dropped, above all as duplicates, for people.
//!
//! ```text
//! step 2, deduplicate by text: 100 of 1,000 examples dropped (10.0 %), copies of 40
//!   from b.jsonl 60, a.jsonl 40
//!   most copies: 17 of a.jsonl:12, 9 of b.jsonl:3
//!   all of them: caches/docs/…/train.duplicates.jsonl
//! ```

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use seqio::{ChoiceReport, Scratch, Split, SplitChoices, Task, WholeSplitStep};
use seqio_cache::{DroppedExamples, DuplicateStatistics};

use crate::format::{count, counted, dropped_in_words, percent};
use crate::interrupt::Interrupt;
use crate::output::{Notes, Out};

/// Files and examples that are named.
const NAMED: usize = 5;

/// Prints how many examples each step dropped; of duplicates which ones too, and where every case is listed.
pub(crate) fn print_dropped(
    dropped: &[DroppedExamples],
    duplicates: &[DuplicateStatistics],
    listing: Option<&Path>,
    out: &mut Out,
) -> anyhow::Result<()> {
    let others = dropped.iter().filter(|dropped| duplicates.iter().all(|step| step.step != dropped.step));
    for dropped in others {
        writeln!(out, "  {}", dropped_in_words(dropped.step, &dropped.op, dropped.examples))?;
    }
    print_duplicates(duplicates, listing, out)
}

fn print_duplicates(
    steps: &[DuplicateStatistics],
    listing: Option<&Path>,
    out: &mut Out,
) -> anyhow::Result<()> {
    for step in steps {
        writeln!(
            out,
            "  {}",
            in_words(step.step, &step.op, &step.by, step.examples, step.dropped, step.repeated)
        )?;
        if step.without_key > 0 {
            writeln!(out, "    {} without a value to compare kept", counted(step.without_key, "example"))?;
        }
        if step.dropped == 0 {
            continue;
        }
        let mut files: Vec<(&String, u64)> =
            step.dropped_by_file.iter().map(|(file, dropped)| (file, *dropped)).collect();
        files.sort_by_key(|(file, dropped)| (std::cmp::Reverse(*dropped), *file));
        let named = files.iter().take(NAMED).map(|(file, dropped)| format!("{file} {}", count(*dropped)));
        let mut named = named.collect::<Vec<_>>().join(", ");
        if files.len() > NAMED {
            named += &format!(", and {} more", counted((files.len() - NAMED) as u64, "file"));
        }
        writeln!(out, "    from {named}")?;
        let most = step.most_repeated.iter().take(NAMED);
        let most = most.map(|most| format!("{} of {}:{}", count(most.copies), most.file, most.row + 1));
        writeln!(out, "    most copies: {}", most.collect::<Vec<_>>().join(", "))?;
    }
    if let Some(listing) = listing.filter(|_| steps.iter().any(|step| step.dropped > 0)) {
        writeln!(out, "    all of them: {}", listing.display())?;
    }
    Ok(())
}

/// `step 2, deduplicate by text: 100 of 1,000 examples dropped (10.0 %), copies of 40`
pub(crate) fn in_words(
    step: usize,
    op: &str,
    by: &[String],
    examples: u64,
    dropped: u64,
    repeated: u64,
) -> String {
    let words = format!(
        "step {step}, {op} by {}: {} of {} dropped ({})",
        by.join(", "),
        count(dropped),
        counted(examples, "example"),
        percent(dropped as f64, examples as f64)
    );
    if dropped > 0 { format!("{words}, copies of {}", count(repeated)) } else { words }
}

/// What the steps keep that compare all examples of the split: it is read for them first.
pub(crate) fn choices(
    task: &Arc<Task>,
    split: &Split,
    memory_bytes: u64,
    interrupt: &Interrupt,
    notes: Notes,
) -> anyhow::Result<SplitChoices> {
    if task.whole_split_steps().is_empty() {
        return Ok(SplitChoices::none());
    }
    let name = task.name();
    notes
        .note(format!("`{name}`, split `{split}`: reading it once to find duplicates, as there is no cache"));
    let mut scratch = Scratch::temporary(memory_bytes);
    scratch.stop = Arc::clone(interrupt.flag());
    let found = SplitChoices::find(task, split, &scratch).map_err(anyhow::Error::from);
    let go_on = "run the same command again to begin anew; a cache would go on where it was";
    let (choices, reports) = interrupt.told(found, go_on)?;
    for ChoiceReport { step, examples, counts } in reports {
        let WholeSplitStep { number, op, by } = &step;
        let words = in_words(*number, op, by, examples, counts.dropped, counts.repeated_keys);
        notes.note(format!("`{name}`, split `{split}`: {words}"));
    }
    Ok(choices)
}
