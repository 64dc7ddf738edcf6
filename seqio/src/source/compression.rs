//! The decompressed bytes of a file, block by block: plain, gzip (`.gz`, any number of members) or Zstandard (`.zst`,
//! any number of frames).
//!
//! A damaged stream is not an error here: what stands before the damage is given out, and then what the damage is.
//! Blocks have a fixed size, so what is given out before the damage depends on the file alone.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;

use crate::source::{SourceError, SourceFile};

/// Bytes read at once.
pub(super) const BLOCK_BYTES: usize = 64 << 10;

/// How a file is packed, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Plain,
    Gzip,
    Zstd,
}

impl Compression {
    pub(super) fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Self::Gzip,
            Some("zst") => Self::Zstd,
            _ => Self::Plain,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// Reads a file from front to back, or a plain one from anywhere.
pub(super) struct Blocks {
    path: PathBuf,
    compression: Compression,
    input: Input,
    ended: bool,
    damage: Option<String>,
}

enum Input {
    Plain(Bounded),
    Gzip(GzipMembers),
    Zstd(Box<zstd::Decoder<'static, BufReader<Bounded>>>),
}

impl Blocks {
    /// Opens a file at its beginning.
    pub(super) fn open(file: &SourceFile) -> Result<Self, SourceError> {
        let compression = Compression::of(&file.path);
        let io = |error| SourceError::io(&file.path, error);
        let bounded = Bounded { file: File::open(&file.path).map_err(io)?, left: file.bytes, failure: None };
        let mut blocks = Self {
            path: file.path.clone(),
            compression,
            input: Input::Plain(bounded),
            ended: false,
            damage: None,
        };
        if compression == Compression::Plain {
            return Ok(blocks);
        }
        if file.bytes == 0 {
            blocks.damage =
                Some(format!("the file is empty, where a {} stream should be", compression.name()));
            blocks.ended = true;
            return Ok(blocks);
        }
        let Input::Plain(bounded) = blocks.input else { unreachable!("a file is opened as a plain one") };
        let buffered = BufReader::with_capacity(BLOCK_BYTES, bounded);
        blocks.input = match compression {
            Compression::Zstd => Input::Zstd(Box::new(zstd::Decoder::with_buffer(buffered).map_err(io)?)),
            _ => Input::Gzip(GzipMembers { member: Member::Open(Box::new(GzDecoder::new(buffered))) }),
        };
        Ok(blocks)
    }

    /// Opens a plain file at an offset.
    pub(super) fn open_at(file: &SourceFile, offset: u64) -> Result<Self, SourceError> {
        let io = |error| SourceError::io(&file.path, error);
        let mut opened = File::open(&file.path).map_err(io)?;
        opened.seek(SeekFrom::Start(offset)).map_err(io)?;
        let bounded = Bounded { file: opened, left: file.bytes.saturating_sub(offset), failure: None };
        Ok(Self {
            path: file.path.clone(),
            compression: Compression::Plain,
            input: Input::Plain(bounded),
            ended: false,
            damage: None,
        })
    }

    /// Appends the next block to `out`; false at the end, where `damage` says whether it came too early.
    pub(super) fn read_block(&mut self, out: &mut Vec<u8>) -> Result<bool, SourceError> {
        if self.ended {
            return Ok(false);
        }
        let start = out.len();
        if out.capacity() < start + BLOCK_BYTES {
            // A quarter more at a time: a line of any length is copied few times, and little room is left unused.
            out.reserve_exact(BLOCK_BYTES.max(start / 4));
        }
        out.resize(start + BLOCK_BYTES, 0);
        let mut filled = 0;
        while filled < BLOCK_BYTES {
            match self.input.read(&mut out[start + filled..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    if let Some(failure) = self.input.bounded().and_then(|bounded| bounded.failure.take()) {
                        out.truncate(start);
                        return Err(SourceError::io(&self.path, failure));
                    }
                    self.damage = Some(self.describe(&error));
                    self.ended = true;
                    break;
                }
            }
        }
        out.truncate(start + filled);
        Ok(filled > 0)
    }

    /// What is wrong with the stream, once its end is reached.
    pub(super) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn describe(&self, error: &io::Error) -> String {
        let name = self.compression.name();
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return format!("the {name} stream ends early");
        }
        let words = error.to_string();
        let hint = if words.contains("too much memory") {
            "; compress it again with a window of at most 128 MiB (`zstd --long=27`)"
        } else {
            ""
        };
        format!("the {name} stream is corrupt: {words}{hint}")
    }
}

impl Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(bounded) => bounded.read(out),
            Self::Gzip(members) => members.read(out),
            Self::Zstd(decoder) => decoder.read(out),
        }
    }

    fn bounded(&mut self) -> Option<&mut Bounded> {
        match self {
            Self::Plain(bounded) => Some(bounded),
            Self::Gzip(members) => match &mut members.member {
                Member::Open(decoder) => Some(decoder.get_mut().get_mut()),
                Member::Closed(buffered) => Some(buffered.get_mut()),
                Member::Last => None,
            },
            Self::Zstd(decoder) => Some(decoder.get_mut().get_mut()),
        }
    }
}

/// A file as long as it was when it was listed; remembers what the system refused, which is no damage of the stream.
struct Bounded {
    file: File,
    left: u64,
    failure: Option<io::Error>,
}

impl Read for Bounded {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.left).map_or(out.len(), |left| left.min(out.len()));
        if room == 0 {
            return Ok(0);
        }
        let failure = match self.file.read(&mut out[..room]) {
            Ok(0) => io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file has become shorter since it was listed",
            ),
            Ok(read) => {
                self.left -= read as u64;
                return Ok(read);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => error,
        };
        let kind = failure.kind();
        self.failure = Some(failure);
        Err(kind.into())
    }
}

/// The members of a gzip file, one after the other; zero bytes after a member are padding.
struct GzipMembers {
    member: Member,
}

enum Member {
    Open(Box<GzDecoder<BufReader<Bounded>>>),
    Closed(BufReader<Bounded>),
    Last,
}

impl Read for GzipMembers {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.member, Member::Last) {
                Member::Open(mut decoder) => {
                    let read = decoder.read(out);
                    self.member = match read {
                        Ok(0) if !out.is_empty() => Member::Closed(decoder.into_inner()),
                        _ => Member::Open(decoder),
                    };
                    if !matches!(read, Ok(0)) || out.is_empty() {
                        return read;
                    }
                }
                Member::Closed(mut input) => {
                    let (zeros, len) = match input.fill_buf() {
                        Ok(bytes) => (bytes.iter().take_while(|&&byte| byte == 0).count(), bytes.len()),
                        Err(error) => {
                            self.member = Member::Closed(input);
                            return Err(error);
                        }
                    };
                    input.consume(zeros);
                    self.member = match len {
                        0 => Member::Last,
                        _ if zeros == len => Member::Closed(input),
                        _ => Member::Open(Box::new(GzDecoder::new(input))),
                    };
                }
                Member::Last => return Ok(0),
            }
        }
    }
}

/// Refuses a plain file whose first bytes say that it is compressed after all.
pub(super) fn check_not_compressed(file: &SourceFile) -> Result<(), SourceError> {
    let mut blocks = Blocks::open_at(file, 0)?;
    let mut head = [0; 4];
    let Input::Plain(bounded) = &mut blocks.input else { unreachable!("a file is opened as a plain one") };
    let mut filled = 0;
    while filled < head.len() {
        match bounded.read(&mut head[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let error = bounded.failure.take().unwrap_or(error);
                return Err(SourceError::io(&file.path, error));
            }
        }
    }
    let found = match head {
        [0x1f, 0x8b, ..] => Some(("gzip", "gz")),
        [0x28, 0xb5, 0x2f, 0xfd] => Some(("Zstandard", "zst")),
        _ => None,
    };
    match found {
        Some((format, suffix)) => Err(SourceError::Malformed {
            path: file.path.clone(),
            problem: format!("is {format}, but its name does not end in `.{suffix}`; rename it"),
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use super::*;

    /// Compressed by `suffix`: `gz`, `zst` or anything else for plain bytes.
    pub(in crate::source) fn pack(bytes: &[u8], suffix: &str) -> Vec<u8> {
        match suffix {
            "gz" => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            "zst" => zstd::encode_all(bytes, 1).unwrap(),
            _ => bytes.to_vec(),
        }
    }

    /// A listed file of these bytes in a folder of its own.
    pub(in crate::source) fn listed(name: &str, bytes: &[u8]) -> (tempfile::TempDir, SourceFile) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(name), bytes).unwrap();
        let files = super::super::patterns::list_files(dir.path(), &[name.to_owned()]).unwrap();
        (dir, files.into_iter().next().unwrap())
    }

    fn read(name: &str, bytes: &[u8]) -> (Vec<u8>, Option<String>) {
        let (_dir, file) = listed(name, bytes);
        let mut blocks = Blocks::open(&file).unwrap();
        let mut out = Vec::new();
        while blocks.read_block(&mut out).unwrap() {}
        (out, blocks.damage().map(str::to_owned))
    }

    fn text() -> Vec<u8> {
        (0..40_000u32).flat_map(|i| format!("{}\n", i.wrapping_mul(2_654_435_761)).into_bytes()).collect()
    }

    #[test]
    fn members_and_frames_follow_each_other() {
        for suffix in ["gz", "zst"] {
            let (a, b) = (pack(&text(), suffix), pack(b"more\n", suffix));
            let (out, damage) = read(&format!("a.{suffix}"), &[a, pack(b"", suffix), b].concat());
            assert_eq!((out, damage), ([text(), b"more\n".to_vec()].concat(), None));
        }
    }

    #[test]
    fn zeros_after_a_gzip_member_are_padding() {
        let padded = [pack(b"a", "gz"), vec![0; 1000], pack(b"b", "gz"), vec![0; 100_000]].concat();
        assert_eq!(read("a.gz", &padded), (b"ab".to_vec(), None));
    }

    #[test]
    fn a_stream_that_is_cut_gives_what_stands_before_the_cut() {
        for (suffix, words) in [("gz", "the gzip stream ends early"), ("zst", "the zstd stream ends early")] {
            let packed = pack(&text(), suffix);
            let (out, damage) = read(&format!("a.{suffix}"), &packed[..packed.len() - 20]);
            assert!(text().starts_with(&out) && out.len() > 100_000);
            assert_eq!(damage.as_deref(), Some(words));
        }
    }

    #[test]
    fn what_is_no_stream_is_damage_from_the_start() {
        for (name, bytes, words) in [
            ("a.gz", &b"plain text"[..], "the gzip stream is corrupt: invalid gzip header"),
            ("a.gz", b"", "the file is empty, where a gzip stream should be"),
            ("a.zst", b"", "the file is empty, where a zstd stream should be"),
            ("a.zst", b"plain text", "the zstd stream is corrupt: Unknown frame descriptor"),
        ] {
            assert_eq!(read(name, bytes), (Vec::new(), Some(words.to_owned())));
        }
    }

    #[test]
    fn a_wrong_checksum_is_damage() {
        let mut packed = pack(b"some text\n", "gz");
        let at = packed.len() - 8;
        packed[at] ^= 1;
        let (out, damage) = read("a.gz", &packed);
        assert_eq!(out, b"some text\n");
        assert!(damage.unwrap().starts_with("the gzip stream is corrupt: "));
    }

    #[test]
    fn a_file_that_shrinks_or_that_the_system_cannot_read_is_an_error_and_no_damage() {
        for suffix in ["txt", "gz", "zst"] {
            let (_dir, mut file) = listed(&format!("a.{suffix}"), &pack(&text(), suffix));
            file.bytes += 1;
            let mut blocks = Blocks::open(&file).unwrap();
            let mut out = Vec::new();
            let error = loop {
                match blocks.read_block(&mut out) {
                    Ok(more) => assert!(more, "the end was reached"),
                    Err(error) => break error,
                }
            };
            assert!(
                error.to_string().ends_with("the file has become shorter since it was listed"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_compressed_file_with_a_plain_name_is_refused() {
        for suffix in ["gz", "zst"] {
            let (_dir, file) = listed("a.txt", &pack(b"text", suffix));
            let error = check_not_compressed(&file).unwrap_err().to_string();
            assert!(error.ends_with(&format!("does not end in `.{suffix}`; rename it")), "{error}");
        }
        let (_dir, file) = listed("a.txt", b"t");
        check_not_compressed(&file).unwrap();
    }
}
