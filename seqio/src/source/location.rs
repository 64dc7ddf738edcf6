//! Where a pattern looks for files: on this machine's disks, or elsewhere by URL.
//!
//! ```text
//! data/train-*.jsonl              a path, as it is
//! file:///corpus/a%20b-*.jsonl    the path `/corpus/a b-*.jsonl`, and the same example ids
//! s3://bucket/train-*.jsonl       refused, with what to do now
//! ```
//!
//! A store that is read by URL is a module beside `patterns.rs`, which lists the files of a disk, and an arm in
//! [`local_pattern`].

use std::borrow::Cow;

use url::Url;

use crate::source::SourceError;
use crate::text::nearest;

/// How to get the data of a store to a disk, by the schemes of its URLs.
const STORES: [(&[&str], &str); 6] = [
    (&["s3", "s3a", "s3n"], "copy them, as with `aws s3 sync`"),
    (&["gs", "gcs"], "copy them, as with `gcloud storage cp -r`"),
    (&["az", "abfs", "abfss", "adl"], "copy them, as with `azcopy copy`"),
    (&["http", "https"], "download them, as with `curl -O`"),
    (&["hf"], "download them, as with `hf download`"),
    (&["hdfs"], "copy them, as with `hdfs dfs -get`"),
];

/// The path that a pattern stands for, with its wildcards.
pub(super) fn local_pattern(pattern: &str) -> Result<Cow<'_, str>, SourceError> {
    let refuse = |problem: String| Err(SourceError::Location { pattern: pattern.to_owned(), problem });
    let Some((scheme, rest)) = scheme_of(pattern) else { return Ok(Cow::Borrowed(pattern)) };
    if scheme == "file" {
        return match path_of_file_url(pattern, rest) {
            Ok(path) => Ok(Cow::Owned(path)),
            Err(problem) => refuse(problem),
        };
    }
    let store = STORES.iter().find(|(schemes, _)| schemes.contains(&scheme.as_str()));
    if let Some((_, how)) = store {
        return refuse(format!(
            "files are read from this machine's disks, not from `{scheme}://`; {how}, or mount the store, and name \
             the files there"
        ));
    }
    let known = STORES.iter().flat_map(|(schemes, _)| schemes.iter().copied()).chain(["file"]);
    match nearest(&scheme, known) {
        Some("file") => refuse(format!("there are no `{scheme}://` files; did you mean `file://{rest}`?")),
        _ => refuse(format!(
            "files are read from this machine's disks, not from `{scheme}://`; copy them there and name them by path; if \
             this is a path, write `./{pattern}`"
        )),
    }
}

/// The scheme of a pattern that is a URL, in small letters, and what follows its colon (and two slashes).
///
/// A colon is a character of file names too: `2024:a.txt` and `C:\a.txt` are paths.
fn scheme_of(pattern: &str) -> Option<(String, &str)> {
    let (scheme, rest) = pattern.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let scheme = scheme.to_ascii_lowercase();
    match rest.strip_prefix("//") {
        Some(rest) if is_scheme => Some((scheme, rest)),
        None if scheme == "file" => Some((scheme, rest)),
        _ => None,
    }
}

/// The path in a `file:` URL: decoded, but for wildcards.
fn path_of_file_url(pattern: &str, rest: &str) -> Result<String, String> {
    let absolute = "a file has three slashes and its whole path, as `file:///data/train-*.jsonl`";
    // Relative ones mean different places to different programs.
    let authority = pattern.len() > "file:".len() && pattern["file:".len()..].starts_with("//");
    let Some(start) = rest.find('/').filter(|start| authority || *start == 0) else {
        return Err(format!("this URL has no path from the root: {absolute}, or no `file:` at all"));
    };
    let (host, path) = rest.split_at(start);
    if !host.is_empty() {
        // Says what is wrong with a name that is none, and knows the names of this machine.
        match Url::parse(&format!("file://{host}/")) {
            Ok(url) if url.host().is_none() && url.path() == "/" => {}
            Ok(_) => return Err(format!("this URL names a machine, `{host}`: {absolute}")),
            Err(error) => return Err(format!("this URL names a machine, and badly ({error}): {absolute}")),
        }
    }
    if path.contains('#') {
        return Err("a `#` begins what is no path in a URL; write it as `%23`".to_owned());
    }
    decoded(path)
}

/// A path without percent codes. A wildcard that is written as a code is a character like any other.
fn decoded(path: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let digits = after.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
            let code: String = after.chars().take(2).collect();
            return Err(format!("`%{code}` is no character in a URL; write a percent sign as `%25`"));
        };
        match byte {
            b'/' => return Err("`%2F` is a slash in the name of a file, which no file has".to_owned()),
            0 => return Err("`%00` is in the name of no file".to_owned()),
            b'*' | b'?' | b'[' => bytes.extend_from_slice(&[b'[', byte, b']']),
            byte => bytes.push(byte),
        }
        rest = &after[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes)
        .map_err(|_| "its percent codes are not UTF-8, as names of files must be".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(pattern: &str) -> String {
        local_pattern(pattern).unwrap().into_owned()
    }

    fn problem(pattern: &str) -> String {
        local_pattern(pattern).unwrap_err().to_string()
    }

    #[test]
    fn paths_are_taken_as_they_are() {
        for pattern in [
            "data/*.txt",
            "/a/b?.txt",
            "./c",
            "2024:a.txt",
            "a:b://c",
            "C:\\data\\*.txt",
            "c:/x",
            "",
            "%20",
            ":",
            "://x",
            "1a://x",
            "é://x",
        ] {
            assert_eq!(path(pattern), pattern);
        }
    }

    #[test]
    fn a_file_url_is_its_path_with_its_wildcards() {
        for (url, expected) in [
            ("file:///corpus/train-*.jsonl", "/corpus/train-*.jsonl"),
            ("FILE:///a/**/[ab]?.txt", "/a/**/[ab]?.txt"),
            ("file://localhost/a", "/a"),
            ("file:/a", "/a"),
            ("file:///a%20b/%C3%A9%25.txt", "/a b/é%.txt"),
            ("file:///100%25", "/100%"),
            ("file:///é b", "/é b"),
            ("file:///a%2A%3f%5B].txt", "/a[*][?][[]].txt"),
        ] {
            assert_eq!(path(url), expected, "{url}");
        }
    }

    #[test]
    fn what_is_no_file_here_is_refused_with_what_to_do() {
        let all = [
            "file:data/a.txt",
            "file:./a.txt",
            "file:",
            "file://",
            "file://data/a.txt",
            "file://[::1/a.txt",
            "file:///a%2Fb",
            "file:///a%zz",
            "file:///a%",
            "file:///a%ff",
            "file:///a%00",
            "file:///a#b",
            "s3://bucket/train-*.jsonl",
            "gs://bucket/x",
            "abfss://c@account.dfs.core.windows.net/x",
            "https://example.org/a.jsonl",
            "hf://datasets/allenai/c4/en/*.json.gz",
            "hdfs://name/x",
            "files:///a.txt",
            "ftp://host/x",
        ];
        insta::assert_snapshot!(all.map(problem).join("\n"), @r"
        `file:data/a.txt`: this URL has no path from the root: a file has three slashes and its whole path, as `file:///data/train-*.jsonl`, or no `file:` at all
        `file:./a.txt`: this URL has no path from the root: a file has three slashes and its whole path, as `file:///data/train-*.jsonl`, or no `file:` at all
        `file:`: this URL has no path from the root: a file has three slashes and its whole path, as `file:///data/train-*.jsonl`, or no `file:` at all
        `file://`: this URL has no path from the root: a file has three slashes and its whole path, as `file:///data/train-*.jsonl`, or no `file:` at all
        `file://data/a.txt`: this URL names a machine, `data`: a file has three slashes and its whole path, as `file:///data/train-*.jsonl`
        `file://[::1/a.txt`: this URL names a machine, and badly (invalid IPv6 address): a file has three slashes and its whole path, as `file:///data/train-*.jsonl`
        `file:///a%2Fb`: `%2F` is a slash in the name of a file, which no file has
        `file:///a%zz`: `%zz` is no character in a URL; write a percent sign as `%25`
        `file:///a%`: `%` is no character in a URL; write a percent sign as `%25`
        `file:///a%ff`: its percent codes are not UTF-8, as names of files must be
        `file:///a%00`: `%00` is in the name of no file
        `file:///a#b`: a `#` begins what is no path in a URL; write it as `%23`
        `s3://bucket/train-*.jsonl`: files are read from this machine's disks, not from `s3://`; copy them, as with `aws s3 sync`, or mount the store, and name the files there
        `gs://bucket/x`: files are read from this machine's disks, not from `gs://`; copy them, as with `gcloud storage cp -r`, or mount the store, and name the files there
        `abfss://c@account.dfs.core.windows.net/x`: files are read from this machine's disks, not from `abfss://`; copy them, as with `azcopy copy`, or mount the store, and name the files there
        `https://example.org/a.jsonl`: files are read from this machine's disks, not from `https://`; download them, as with `curl -O`, or mount the store, and name the files there
        `hf://datasets/allenai/c4/en/*.json.gz`: files are read from this machine's disks, not from `hf://`; download them, as with `hf download`, or mount the store, and name the files there
        `hdfs://name/x`: files are read from this machine's disks, not from `hdfs://`; copy them, as with `hdfs dfs -get`, or mount the store, and name the files there
        `files:///a.txt`: there are no `files://` files; did you mean `file:///a.txt`?
        `ftp://host/x`: files are read from this machine's disks, not from `ftp://`; copy them there and name them by path; if this is a path, write `./ftp://host/x`
        ");
    }

    proptest! {
        #[test]
        fn no_text_panics_and_any_name_can_be_written_as_a_url(pattern in any::<String>(), name in "[^/\0*?\\[]{1,12}") {
            let _ = local_pattern(&pattern);
            let _ = local_pattern(&format!("file://{pattern}"));
            let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
            prop_assert_eq!(path(&format!("file:///{encoded}")), format!("/{name}"));
        }
    }
}
