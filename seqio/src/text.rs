//! Words for messages: quoted lists and nearest names.

/// `` `a`, `b` `` or `nothing`.
pub fn quoted<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{}`", name.as_ref())).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// The candidate that `name` is most likely a misspelling of, if any comes near.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= name.len().max(candidate.len()).div_ceil(3))
        .min()
        .map(|(_, candidate)| candidate)
}

/// `1 step`, `2 steps`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Where records are in a file: the line of the one at fault, or where to begin looking for it.
pub fn lines_in_words(line: u64, exact: bool) -> String {
    if exact { format!("line {line}") } else { format!("records from line {line} on") }
}
