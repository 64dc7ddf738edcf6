//! What in a definition is allowed but looks like an oversight.

use crate::explain::{Explanation, Stage, StagePlace};
use crate::preprocess::{Step, TokenEdit};
use crate::task::Task;
use crate::text::quoted;

pub(super) fn warnings(task: &Task, explanation: &Explanation) -> Vec<String> {
    let mut warnings = Vec::new();
    for feature in &explanation.features {
        let name = &feature.name;
        if !feature.present {
            warnings.push(format!("feature `{name}` is optional, and the examples do not have it"));
            continue;
        }
        if feature.add_eos && feature.eos.is_some() && !task.appends_eos(name) {
            warnings.push(format!(
                "feature `{name}` asks for an EOS, but no step appends one: add `append_eos`, or set `add_eos = false`"
            ));
        }
        if let Some((eos, trim)) = cut_off(explanation, name) {
            warnings.push(format!(
                "step {trim} may cut off the EOS that step {eos} gives `{name}`: `append_eos_after_trim` keeps it"
            ));
        }
    }
    warnings.extend(of_chats(task, explanation));
    for stage in &explanation.stages {
        if stage.does.is_some() {
            // It says itself what it lacks.
            continue;
        }
        if let (Some(number), false) = (stage.number, stage.lengths_missing.is_empty()) {
            warnings.push(format!(
                "step {number} (`{}`) cuts nothing of {} unless a run gives a length: `--lengths {}=2048`",
                stage.op,
                quoted(&stage.lengths_missing),
                stage.lengths_missing[0],
            ));
        }
    }
    let unused = explanation.stages.iter().filter(|stage| stage.place == StagePlace::Cache);
    let unused = unused.flat_map(|stage| &stage.columns).map(|column| column.name.as_str());
    let unused: Vec<&str> = unused.filter(|name| !task.features().contains_key(*name)).collect();
    if !unused.is_empty() {
        warnings.push(format!(
            "the cache also holds {}, which no feature needs: a `select` or `rekey` step that leaves them out saves room",
            quoted(unused)
        ));
    }
    let splits = &explanation.source.splits;
    if task.spec().shuffle.is_none() && !splits.is_empty() && !splits.iter().any(|split| split.shuffled) {
        warnings.push(
            "no split is named `train`, so none is stored shuffled: name some, `shuffle = [...]`".to_owned(),
        );
    }
    warnings
}

/// Of conversations: what of a template comes out as text, and that turns may be cut off.
fn of_chats(task: &Task, explanation: &Explanation) -> Vec<String> {
    let mut warnings = Vec::new();
    for (number, step) in (1..).zip(&task.spec().steps) {
        let Step::Chat(chat) = step else { continue };
        let Some(feature) = task.features().get(&chat.feature) else { continue };
        let unknown = chat.unknown_specials(feature);
        if !unknown.is_empty() {
            warnings.push(format!(
                "the template of step {number} writes {}, which vocabulary `{}` has not among its special tokens: they \
                 come out in pieces, as text",
                quoted(&unknown),
                feature.vocabulary_name
            ));
        }
        let trims = |stage: &&Stage| {
            let edits = stage.edits.get(&chat.feature).map(Vec::as_slice).unwrap_or_default();
            edits.iter().any(|edit| matches!(edit, TokenEdit::Trim { .. }))
        };
        if let (Some(trim), true) = (
            explanation.stages.iter().find(trims).and_then(|stage| stage.number),
            task.features().contains_key(&chat.loss_name()),
        ) {
            warnings.push(format!(
                "step {trim} may cut off every token of a conversation that counts, and the rest then has no loss: \
                 `inspect` shows what counts of examples as they are cut"
            ));
        }
    }
    warnings
}

/// The steps that end a feature with EOS and that trim it afterwards, if there are such.
fn cut_off(explanation: &Explanation, feature: &str) -> Option<(usize, usize)> {
    let mut ended = None;
    for stage in &explanation.stages {
        let edits = stage.edits.get(feature).map(Vec::as_slice).unwrap_or_default();
        if let (Some(eos), Some(TokenEdit::Trim { .. })) = (ended, edits.first()) {
            return Some((eos, stage.number?));
        }
        if edits.iter().any(|edit| matches!(edit, TokenEdit::Append { .. })) {
            ended = stage.number;
        }
    }
    None
}
