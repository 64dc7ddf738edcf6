//! Every file and folder name of a cache.
//!
//! ```text
//! <root>/<task>/<fingerprint>-<source digest>/   a cache; `team:docs` is the folder `team/docs`
//! <root>/<task>/.building-<fingerprint>/         one that is being built
//!     cache/                                     files as they will be in the cache
//!     <split>.work/                              spills, and a record of each thing committed
//!     temporary/                                 what a query cannot hold in memory; worth nothing once the job is dead
//! <root>/<task>/.converting-<cache>/             the same cache, compressed or decompressed, before it takes its place
//! <root>/<task>/.lock-<fingerprint>              held by the job that builds or converts
//! <root>/<task>/.lock-<fingerprint>.worker-1-of-4  held by one of several workers
//! ```

use std::path::{Path, PathBuf};

use crate::share::Share;

/// The file that makes a folder a cache.
pub(crate) const MANIFEST: &str = "manifest.json";
/// What varies from one build to the next.
pub(crate) const BUILD_LOG: &str = "build.log.json";
/// The folder of vocabulary files.
pub(crate) const VOCABULARY: &str = "vocabulary";
/// The folder in a building folder that becomes the cache.
pub(crate) const STAGED: &str = "cache";
/// The folder in a building folder for what a query cannot hold in memory.
pub(crate) const TEMPORARY: &str = "temporary";

const BUILDING: &str = ".building-";
const REMOVED: &str = ".removed-";
const CONVERTING: &str = ".converting-";

/// The folder of a task's caches.
pub(crate) fn task_folder(root: &Path, task: &str) -> PathBuf {
    task.split(':').fold(root.to_owned(), |folder, part| folder.join(file_name(part)))
}

/// The name of a finished cache's folder.
pub(crate) fn cache_folder(fingerprint: &[u8; 32], source_digest: &[u8; 32]) -> String {
    format!("{}-{}", short_hex(fingerprint), short_hex(source_digest))
}

/// Whether a folder's name is that of a finished cache.
pub(crate) fn is_cache_folder(name: &str) -> bool {
    name.split_once('-').is_some_and(|(fingerprint, digest)| {
        [fingerprint, digest].iter().all(|part| part.len() == 16 && is_hex(part))
    })
}

/// The fingerprint's short form in the name of a finished cache.
pub(crate) fn cache_fingerprint(name: &str) -> Option<&str> {
    name.split_once('-').map(|(fingerprint, _)| fingerprint)
}

/// The name of the folder in which a cache is brought into another form.
pub(crate) fn converting_folder(cache: &str) -> String {
    format!("{CONVERTING}{cache}")
}

/// Whether a folder is one in which a cache is brought into another form.
pub(crate) fn is_converting_folder(name: &str) -> bool {
    name.starts_with(CONVERTING)
}

/// The name of the folder in which a cache is built.
pub(crate) fn building_folder(fingerprint: &[u8; 32]) -> String {
    format!("{BUILDING}{}", short_hex(fingerprint))
}

/// The fingerprint's short form in the name of a building folder.
pub(crate) fn building_fingerprint(name: &str) -> Option<&str> {
    name.strip_prefix(BUILDING).filter(|part| part.len() == 16 && is_hex(part))
}

/// The name of the file that a building job locks.
pub(crate) fn lock_file(fingerprint: &str) -> String {
    format!(".lock-{fingerprint}")
}

/// The name of the file that a worker locks.
pub(crate) fn worker_lock_file(fingerprint: &str, share: Share) -> String {
    format!("{}.{}", lock_file(fingerprint), worker_stem(share))
}

/// The worker whose lock a file is.
pub(crate) fn share_of_lock_file(name: &str, fingerprint: &str) -> Option<Share> {
    share_of_stem(name.strip_prefix(lock_file(fingerprint).as_str())?.strip_prefix('.')?)
}

/// The name of the record in which a worker tells how far it is.
pub(crate) fn worker_record(share: Share) -> String {
    format!("{}.json", worker_stem(share))
}

/// The worker whose record a file is.
pub(crate) fn share_of_record(name: &str) -> Option<Share> {
    share_of_stem(name.strip_suffix(".json")?)
}

fn worker_stem(share: Share) -> String {
    format!("worker-{}-of-{}", share.index(), share.count())
}

fn share_of_stem(stem: &str) -> Option<Share> {
    let (index, count) = stem.strip_prefix("worker-")?.split_once("-of-")?;
    Share::new(index.parse().ok()?, count.parse().ok()?)
}

/// The name under which a folder is deleted, so that half of it never looks like a cache.
pub(crate) fn removed_folder(name: &str) -> String {
    format!("{REMOVED}{}-{name}", std::process::id())
}

/// Whether a folder is one that was being deleted when its job died.
pub(crate) fn is_removed_folder(name: &str) -> bool {
    name.starts_with(REMOVED)
}

/// The folder of a split's spills.
pub(crate) fn work_folder(split: &str) -> String {
    format!("{}.work", file_name(split))
}

/// The split whose spills a folder holds.
pub(crate) fn split_of_work_folder(name: &str) -> Option<String> {
    from_file_name(name.strip_suffix(".work")?)
}

/// A shard's name without its ending: `train-00000-of-00016`.
pub(crate) fn shard_stem(split: &str, index: usize, count: usize) -> String {
    format!("{}-{index:05}-of-{count:05}", file_name(split))
}

/// The file that tells what a split's steps dropped as duplicates.
pub(crate) fn duplicates_file(split: &str) -> String {
    format!("{}.duplicates.jsonl", file_name(split))
}

/// The path of a shard's file with the ending `arrow`, `lengths` or `sums`.
pub(crate) fn shard_file(folder: &Path, stem: &str, ending: &str) -> PathBuf {
    folder.join(format!("{stem}.{ending}"))
}

/// The paths of a shard's three files.
pub(crate) fn shard_files(folder: &Path, stem: &str) -> [PathBuf; 3] {
    ["arrow", "lengths", "sums"].map(|ending| shard_file(folder, stem, ending))
}

/// The name of the file of a split's bad records: `train.rejects.jsonl`.
pub fn rejects_file(split: &str) -> String {
    format!("{}.rejects.jsonl", file_name(split))
}

/// Spells any name as a file name: bytes but letters, digits, `-`, `_` and `.` become `~` and two hex digits, and so
/// does a `.` in front.
pub(crate) fn file_name(name: &str) -> String {
    let mut spelled = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || (byte == b'.' && at > 0);
        if plain {
            spelled.push(char::from(byte));
        } else {
            spelled.push_str(&format!("~{byte:02X}"));
        }
    }
    spelled
}

/// The inverse of [`file_name`].
pub(crate) fn from_file_name(spelled: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(spelled.len());
    let mut rest = spelled.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'~' {
            let digits = after.get(..2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

/// Lower-case hex digits of bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first 16 hex digits.
pub(crate) fn short_hex(hash: &[u8; 32]) -> String {
    hex(&hash[..8])
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_slice_is_a_file_name_that_reads_back() {
        insta::assert_snapshot!(file_name("train[:1%]"), @"train~5B~3A1~25~5D");
        assert_eq!(from_file_name("train~5B~3A1~25~5D").as_deref(), Some("train[:1%]"));
    }

    #[test]
    fn colons_in_a_task_name_become_folders() {
        assert_eq!(task_folder(Path::new("root"), "team:docs"), Path::new("root/team/docs"));
        assert_eq!(task_folder(Path::new("root"), "..:docs"), Path::new("root/~2E./docs"));
    }

    #[test]
    fn folders_of_tasks_are_those_of_seqio() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/seqio/names.jsonl");
        let text = std::fs::read_to_string(path).unwrap();
        let mut elsewhere = Vec::new();
        for line in text.lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            if row["fn"] != "get_task_dir_from_name" {
                elsewhere.push(row["fn"].as_str().unwrap().to_owned());
                continue;
            }
            let cases = row["cases"].as_array().unwrap();
            assert_eq!(cases.len(), 5);
            for case in cases {
                let [name, folder] = [0, 1].map(|at| case[at].as_str().unwrap());
                assert_eq!(task_folder(Path::new("root"), name), Path::new("root").join(folder), "{name}");
            }
        }
        // A task whose lengths are fixed has the name that its task file gives it.
        assert_eq!(elsewhere, ["_get_fully_cached_name"]);
    }

    #[test]
    fn files_of_workers_say_which_worker_they_are_of() {
        let share = Share::new(1, 4).unwrap();
        let lock = worker_lock_file("0123456789abcdef", share);
        assert_eq!(lock, ".lock-0123456789abcdef.worker-1-of-4");
        assert_eq!(share_of_lock_file(&lock, "0123456789abcdef"), Some(share));
        assert_eq!(share_of_lock_file(&lock, "0123456789abcdee"), None);
        assert_eq!(share_of_lock_file(".lock-0123456789abcdef", "0123456789abcdef"), None);
        assert_eq!(share_of_record(&worker_record(share)), Some(share));
        assert_eq!(share_of_record("worker-4-of-4.json"), None);
    }

    proptest! {
        #[test]
        fn any_name_survives_its_spelling(name in "\\PC{0,20}") {
            let spelled = file_name(&name);
            prop_assert!(!spelled.contains('/') && !spelled.starts_with('.'));
            prop_assert_eq!(from_file_name(&spelled), Some(name));
        }
    }
}
