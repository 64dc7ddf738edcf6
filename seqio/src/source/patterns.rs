//! From the patterns of a split to its files.
//!
//! ```text
//! base `/corpus`, patterns `data/en/*.jsonl`, `data/fr/a.jsonl`
//!   prefix /corpus/data        the longest folder common to what stands before the first wildcard of each
//!   files  en/x.jsonl, en/y.jsonl, fr/a.jsonl        sorted by name; names enter example ids
//! ```
//!
//! `*`, `?` and `[..]` match inside one folder or file name, `**` any number of folders (linked ones aside). As in a
//! shell, a wildcard does not match a leading dot. Folders that `**` meets are passed over; any other folder or special file that a
//! pattern matches is an error, for its data would be missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::source::location::local_pattern;
use crate::source::{SourceError, SourceFile};

/// Lists the files that `patterns` match, sorted by name, and sees that each can be opened.
pub(super) fn list_files(base_dir: &Path, patterns: &[String]) -> Result<Vec<SourceFile>, SourceError> {
    let patterns: Vec<_> = patterns.iter().map(|pattern| local_pattern(pattern)).collect::<Result<_, _>>()?;
    let prefix = common_prefix(patterns.iter().map(|pattern| clean(&base_dir.join(fixed_prefix(pattern)))));
    let mut found: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    let mut files = Vec::new();
    for pattern in &patterns {
        let recursive = pattern.split('/').any(|part| part == "**");
        let before = files.len();
        for path in matches(base_dir, pattern)? {
            let metadata = fs::metadata(&path).map_err(|error| SourceError::io(&path, error))?;
            if metadata.is_dir() && recursive {
                continue;
            }
            if !metadata.is_file() {
                return Err(not_a_file(&path, metadata.is_dir()));
            }
            let same = fs::canonicalize(&path).map_err(|error| SourceError::io(&path, error))?;
            if let Some(other) = found.insert(same, path.clone()) {
                return Err(read_twice(&path, &other));
            }
            // An unreadable file is better known before hours of encoding than after.
            File::open(&path).map_err(|error| SourceError::io(&path, error))?;
            let modified = metadata.modified().map_err(|error| SourceError::io(&path, error))?;
            files.push(SourceFile {
                name: name_below(&prefix, &path)?,
                bytes: metadata.len(),
                modified_ns: nanoseconds(modified),
                path,
            });
        }
        if files.len() == before {
            return Err(no_files(base_dir, pattern));
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// Sees that each pattern is well formed and matches something, without a look at what it matches.
pub(super) fn check_patterns(base_dir: &Path, patterns: &[String]) -> Result<(), SourceError> {
    for pattern in patterns {
        let pattern = local_pattern(pattern)?;
        if matches(base_dir, &pattern)?.is_empty() {
            return Err(no_files(base_dir, &pattern));
        }
    }
    Ok(())
}

/// The paths that a pattern matches, sorted; none is an answer too.
fn matches(base_dir: &Path, pattern: &str) -> Result<Vec<PathBuf>, SourceError> {
    let mut parts: Vec<Part> = Vec::new();
    for part in pattern.split('/').filter(|&part| !matches!(part, "" | ".")) {
        match part {
            // Two of them match what one does.
            "**" if matches!(parts.last(), Some(Part::Folders)) => {}
            "**" => parts.push(Part::Folders),
            part if has_wildcard(part) => {
                let compiled = glob::Pattern::new(part).map_err(|error| SourceError::Definition {
                    problem: format!("pattern `{pattern}`: `{part}`: {}", error.msg),
                })?;
                parts.push(Part::Wildcard(compiled));
            }
            part => parts.push(Part::Name(part.to_owned())),
        }
    }
    if matches!(parts.last(), Some(Part::Folders)) {
        parts.push(Part::Wildcard(glob::Pattern::new("*").expect("`*` is a pattern")));
    }
    let mut found = BTreeSet::new();
    let start = if pattern.starts_with('/') { Path::new("/") } else { base_dir };
    walk(start, &parts, &mut found)?;
    Ok(found.into_iter().collect())
}

/// A part of a pattern between slashes.
enum Part {
    Name(String),
    Wildcard(glob::Pattern),
    /// `**`
    Folders,
}

/// Adds what `parts` match below `folder`.
fn walk(folder: &Path, parts: &[Part], found: &mut BTreeSet<PathBuf>) -> Result<(), SourceError> {
    let Some((part, rest)) = parts.split_first() else {
        found.insert(folder.to_owned());
        return Ok(());
    };
    match part {
        // A dangling link is there, and is reported as what it is when it is opened.
        Part::Name(name) => match fs::symlink_metadata(folder.join(name)) {
            Ok(_) => walk(&folder.join(name), rest, found),
            Err(error) if is_absent(&error) => Ok(()),
            Err(error) => Err(SourceError::io(&folder.join(name), error)),
        },
        Part::Wildcard(pattern) => {
            for entry in entries(folder)? {
                let name = entry.file_name();
                if pattern.matches_with(&name.to_string_lossy(), LIKE_A_SHELL) {
                    walk(&folder.join(name), rest, found)?;
                }
            }
            Ok(())
        }
        Part::Folders => {
            walk(folder, rest, found)?;
            for entry in entries(folder)? {
                // Linked folders are not entered, for links can form loops.
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && !entry.file_name().to_string_lossy().starts_with('.') {
                    walk(&folder.join(entry.file_name()), parts, found)?;
                }
            }
            Ok(())
        }
    }
}

const LIKE_A_SHELL: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// What is in a folder; nothing if it is none.
fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>, SourceError> {
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = fs::read_dir(here).and_then(Iterator::collect);
    match entries {
        Err(error) if is_absent(&error) => Ok(Vec::new()),
        entries => entries.map_err(|error| SourceError::io(here, error)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The folders before the first component that has a wildcard; the last component is never one of them.
fn fixed_prefix(pattern: &str) -> PathBuf {
    let clean = clean(Path::new(pattern));
    let parent = clean.parent().unwrap_or(Path::new(""));
    parent.components().take_while(|part| !has_wildcard(&part.as_os_str().to_string_lossy())).collect()
}

fn common_prefix(folders: impl Iterator<Item = PathBuf>) -> PathBuf {
    folders
        .reduce(|a, b| {
            a.components().zip(b.components()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect()
        })
        .unwrap_or_default()
}

/// The path without `.` components.
fn clean(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

fn name_below(prefix: &Path, path: &Path) -> Result<String, SourceError> {
    let clean = clean(path);
    let below = clean.strip_prefix(prefix).unwrap_or(&clean);
    let parts: Option<Vec<&str>> = below.components().map(|part| part.as_os_str().to_str()).collect();
    parts.map(|parts| parts.join("/")).ok_or_else(|| not_unicode(path))
}

fn nanoseconds(time: std::time::SystemTime) -> i128 {
    let positive = |span: std::time::Duration| i128::try_from(span.as_nanos()).unwrap_or(i128::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => positive(after),
        Err(before) => -positive(before.duration()),
    }
}

fn no_files(base_dir: &Path, pattern: &str) -> SourceError {
    SourceError::NoFiles { pattern: base_dir.join(pattern).display().to_string() }
}

fn not_a_file(path: &Path, is_dir: bool) -> SourceError {
    let problem = if is_dir {
        format!("is a folder, not a file; name the files in it, as `{}/*`", path.display())
    } else {
        "is neither a file nor a folder; a source is read more than once, so copy it to a file".to_owned()
    };
    SourceError::Malformed { path: path.to_owned(), problem }
}

fn read_twice(path: &Path, other: &Path) -> SourceError {
    let problem = if path == other {
        format!("`{}` is matched by two patterns; leave one of them out", path.display())
    } else {
        format!("`{}` and `{}` are the same file; leave one of them out", other.display(), path.display())
    };
    SourceError::Definition { problem }
}

fn not_unicode(path: &Path) -> SourceError {
    SourceError::Malformed {
        path: path.to_owned(),
        problem: "the name is not valid UTF-8; rename it, for names enter example ids".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        dir
    }

    fn names(dir: &Path, patterns: &[&str]) -> Vec<String> {
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        list_files(dir, &patterns).unwrap().into_iter().map(|file| file.name).collect()
    }

    fn error(dir: &Path, patterns: &[&str]) -> String {
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let error = list_files(dir, &patterns).unwrap_err().to_string();
        error.replace(dir.to_str().unwrap(), "DIR")
    }

    #[test]
    fn names_stand_below_the_longest_common_folder_and_are_sorted() {
        let dir = folder(&["data/en/y.txt", "data/en/x.txt", "data/fr/a.txt", "data/fr/sub/b.txt"]);
        let dir = dir.path();
        assert_eq!(names(dir, &["data/en/*.txt"]), ["x.txt", "y.txt"]);
        assert_eq!(names(dir, &["data/en/x.txt"]), ["x.txt"]);
        assert_eq!(names(dir, &["./data/fr/../en/[xz].txt"]), ["x.txt"]);
        assert_eq!(names(dir, &["data/fr/a.txt", "data/en/?.txt"]), ["en/x.txt", "en/y.txt", "fr/a.txt"]);
        assert_eq!(names(dir, &["data/*/*.txt"]), ["en/x.txt", "en/y.txt", "fr/a.txt"]);
        assert_eq!(names(dir, &["data/**/*.txt"]), ["en/x.txt", "en/y.txt", "fr/a.txt", "fr/sub/b.txt"],);
        assert_eq!(names(dir, &["data/**/*"]).len(), 4);
        assert_eq!(names(dir, &["data/**"]).len(), 4);
        assert_eq!(names(dir, &["**/**/f*/**/b.txt"]), ["data/fr/sub/b.txt"]);
        let absolute = dir.join("data/en/*.txt");
        assert_eq!(names(Path::new("elsewhere"), &[absolute.to_str().unwrap()]), ["x.txt", "y.txt"]);
    }

    #[test]
    fn a_file_url_lists_what_its_path_lists_under_the_same_names() {
        let dir = folder(&["data/en/y b.txt", "data/en/x%20.txt", "data/fr/a*.txt", "data/fr/ab.txt"]);
        let at = |rest: &str| format!("file://{}/{rest}", dir.path().display());
        let path = |rest: &str| format!("{}/{rest}", dir.path().display());
        let listed = |pattern: String| list_files(Path::new("elsewhere"), &[pattern]).unwrap();
        for (url, pattern) in [
            ("data/en/*.txt", "data/en/*.txt"),
            ("data/**/*.txt", "data/**/*.txt"),
            ("data/en/y%20?.txt", "data/en/y ?.txt"),
            ("data/en/x%2520.txt", "data/en/x%20.txt"),
            ("data/fr/a%2A.txt", "data/fr/a[*].txt"),
        ] {
            assert_eq!(listed(at(url)), listed(path(pattern)), "{url}");
        }
        assert_eq!(
            names(dir.path(), &["data/fr/ab.txt", &at("data/en/*b.txt")]),
            ["en/y b.txt", "fr/ab.txt"]
        );
        insta::assert_snapshot!(error(dir.path(), &[&at("none-*.txt")]), @"no file matches `DIR/none-*.txt`");
    }

    #[test]
    fn wildcards_in_the_folder_of_the_task_file_are_taken_as_they_are() {
        let dir = folder(&["a[1]*/x.txt", "a1/x.txt"]);
        assert_eq!(names(&dir.path().join("a[1]*"), &["*.txt"]), ["x.txt"]);
    }

    #[test]
    fn hidden_files_are_matched_only_by_name() {
        let dir = folder(&["a.txt", ".a.txt.swp", ".hidden/b.txt"]);
        assert_eq!(names(dir.path(), &["*"]), ["a.txt"]);
        assert_eq!(names(dir.path(), &["**/*"]), ["a.txt"]);
        assert_eq!(names(dir.path(), &[".hidden/b.txt"]), ["b.txt"]);
    }

    #[test]
    fn a_pattern_that_matches_nothing_is_named_as_resolved() {
        let dir = folder(&["a.txt"]);
        insta::assert_snapshot!(error(dir.path(), &["a.txt", "data/*.txt"]), @"no file matches `DIR/data/*.txt`");
        insta::assert_snapshot!(error(dir.path(), &["b.txt"]), @"no file matches `DIR/b.txt`");
    }

    #[test]
    fn a_malformed_pattern_is_explained() {
        let dir = folder(&["a.txt"]);
        assert!(error(dir.path(), &["b/a[.txt"]).starts_with("pattern `b/a[.txt`: `a[.txt`: "));
        assert!(error(dir.path(), &["a**.txt"]).starts_with("pattern `a**.txt`: "));
    }

    #[test]
    fn the_same_file_twice_is_refused_even_through_a_link() {
        let dir = folder(&["a.txt"]);
        insta::assert_snapshot!(error(dir.path(), &["a.txt", "*.txt"]), @"`DIR/a.txt` is matched by two patterns; leave one of them out");
        std::os::unix::fs::symlink("a.txt", dir.path().join("b.txt")).unwrap();
        insta::assert_snapshot!(error(dir.path(), &["*.txt"]), @"`DIR/a.txt` and `DIR/b.txt` are the same file; leave one of them out");
    }

    #[test]
    fn folders_special_files_and_dangling_links_are_named() {
        let dir = folder(&["data/a.txt"]);
        insta::assert_snapshot!(error(dir.path(), &["data"]), @"DIR/data: is a folder, not a file; name the files in it, as `DIR/data/*`");
        insta::assert_snapshot!(error(dir.path(), &["*"]), @"DIR/data: is a folder, not a file; name the files in it, as `DIR/data/*`");
        let socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        insta::assert_snapshot!(error(dir.path(), &["socket"]), @"DIR/socket: is neither a file nor a folder; a source is read more than once, so copy it to a file");
        drop(socket);
        std::os::unix::fs::symlink("nowhere", dir.path().join("data/link.txt")).unwrap();
        insta::assert_snapshot!(error(dir.path(), &["data/*"]), @"cannot read DIR/data/link.txt: No such file or directory (os error 2)");
        insta::assert_snapshot!(error(dir.path(), &["data/link.txt"]), @"cannot read DIR/data/link.txt: No such file or directory (os error 2)");
    }

    #[test]
    fn a_file_that_the_system_refuses_is_named() {
        let dir = folder(&["a.txt"]);
        // Root may read whatever its mode is, so the link loop is what every user is refused.
        std::os::unix::fs::symlink("loop.txt", dir.path().join("loop.txt")).unwrap();
        let error = error(dir.path(), &["*.txt"]);
        assert!(error.starts_with("cannot read DIR/loop.txt: "), "{error}");
    }

    #[test]
    fn a_name_that_is_not_unicode_is_refused() {
        let dir = folder(&["a.txt"]);
        fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"b\xff.txt")), "").unwrap();
        assert!(error(dir.path(), &["*.txt"]).contains("the name is not valid UTF-8"));
    }
}
