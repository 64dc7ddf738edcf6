//! The decompressed bytes of a file, block by block: plain, gzip (`.gz`), bzip2 (`.bz2`), xz (`.xz`) or Zstandard
//! (`.zst`), with any number of members, streams or frames one after the other.
//!
//! ```text
//! a.jsonl.xz   two streams and padding   -> the lines of both
//! a.jsonl.bz2  cut off                   -> the lines before the cut, then `the bzip2 stream ends early`
//! ```
//!
//! A damaged stream is not an error here: what stands before the damage is given out, and then what the damage is.
//! Blocks have a fixed size, so what is given out before the damage depends on the file alone.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use crate::source::members::Members;
use crate::source::{SourceError, SourceFile};

/// Bytes read at once.
pub(super) const BLOCK_BYTES: usize = 64 << 10;

/// What reading an xz stream may take. `xz -9` needs 65 MiB; a header can ask for 4 GiB.
const XZ_MEMORY: u64 = 512 << 20;

/// How a file is packed, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Plain,
    Gzip,
    Bzip2,
    Xz,
    Zstd,
}

impl Compression {
    pub(super) fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Self::Gzip,
            Some("bz2") => Self::Bzip2,
            Some("xz") => Self::Xz,
            Some("zst") => Self::Zstd,
            _ => Self::Plain,
        }
    }

    /// The name with its article.
    fn phrase(self) -> String {
        let article = if self == Self::Xz { "an" } else { "a" };
        format!("{article} {}", self.name())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
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
    Gzip(Members<GzDecoder<Packed>>),
    Bzip2(Members<BzDecoder<Packed>>),
    Xz(Box<XzDecoder<Packed>>),
    Zstd(Box<zstd::Decoder<'static, Packed>>),
}

/// The bytes of a compressed file as they are.
pub(super) type Packed = BufReader<Bounded>;

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
                Some(format!("the file is empty, where {} stream should be", compression.phrase()));
            blocks.ended = true;
            return Ok(blocks);
        }
        let Input::Plain(bounded) = blocks.input else { unreachable!("a file is opened as a plain one") };
        let buffered = BufReader::with_capacity(BLOCK_BYTES, bounded);
        blocks.input = match compression {
            Compression::Zstd => Input::Zstd(Box::new(zstd::Decoder::with_buffer(buffered).map_err(io)?)),
            Compression::Xz => {
                let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED);
                let stream = stream.map_err(|error| io(error.into()))?;
                Input::Xz(Box::new(XzDecoder::new_stream(buffered, stream)))
            }
            Compression::Bzip2 => Input::Bzip2(Members::new(buffered)),
            Compression::Gzip | Compression::Plain => Input::Gzip(Members::new(buffered)),
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
        let words = words.trim_start_matches("bzip2: ");
        let hint = if words.contains("too much memory") {
            "; compress it again with a window of at most 128 MiB (`zstd --long=27`)"
        } else if words.contains("memory limit reached") {
            "; to read it takes more than 512 MiB: compress it again with a smaller dictionary (`xz -9` has 64 MiB)"
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
            Self::Bzip2(members) => members.read(out),
            Self::Xz(decoder) => decoder.read(out),
            Self::Zstd(decoder) => decoder.read(out),
        }
    }

    fn bounded(&mut self) -> Option<&mut Bounded> {
        match self {
            Self::Plain(bounded) => Some(bounded),
            Self::Gzip(members) => members.packed().map(BufReader::get_mut),
            Self::Bzip2(members) => members.packed().map(BufReader::get_mut),
            Self::Xz(decoder) => Some(decoder.get_mut().get_mut()),
            Self::Zstd(decoder) => Some(decoder.get_mut().get_mut()),
        }
    }
}

/// A file as long as it was when it was listed; remembers what the system refused, which is no damage of the stream.
pub(super) struct Bounded {
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

/// Refuses a file that is compressed, but whose name does not say so.
pub(super) fn check_name(file: &SourceFile) -> Result<(), SourceError> {
    if Compression::of(&file.path) == Compression::Plain { check_not_compressed(file) } else { Ok(()) }
}

/// Refuses a plain file whose first bytes say that it is compressed after all.
fn check_not_compressed(file: &SourceFile) -> Result<(), SourceError> {
    let mut blocks = Blocks::open_at(file, 0)?;
    let mut head = [0; 10];
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
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(("Zstandard", "zst")),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(("xz", "xz")),
        // The head of a stream and of its first block, or of its end: `BZh9` alone may be text.
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59]
        | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90] => Some(("bzip2", "bz2")),
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

    /// The endings of compressed files.
    pub(in crate::source) const SUFFIXES: [&str; 4] = ["gz", "bz2", "xz", "zst"];

    /// Compressed by `suffix`, one of [`SUFFIXES`] or anything else for plain bytes.
    pub(in crate::source) fn pack(bytes: &[u8], suffix: &str) -> Vec<u8> {
        match suffix {
            "gz" => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            "bz2" => {
                let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            "xz" => {
                let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
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
    fn members_streams_and_frames_follow_each_other() {
        for suffix in SUFFIXES {
            let (a, b) = (pack(&text(), suffix), pack(b"more\n", suffix));
            let (out, damage) = read(&format!("a.{suffix}"), &[a, pack(b"", suffix), b].concat());
            assert_eq!((out, damage), ([text(), b"more\n".to_vec()].concat(), None));
        }
    }

    #[test]
    fn zeros_after_a_member_or_stream_are_padding() {
        for suffix in ["gz", "bz2", "xz"] {
            let padded = [pack(b"a", suffix), vec![0; 1000], pack(b"b", suffix), vec![0; 100_000]].concat();
            assert_eq!(read(&format!("a.{suffix}"), &padded), (b"ab".to_vec(), None));
        }
    }

    #[test]
    fn an_xz_file_that_takes_too_much_memory_is_refused_in_words() {
        // After the stream's head of 12 bytes the block's: size, flags, filter, size of its settings, dictionary.
        let mut packed = pack(b"text", "xz");
        let end = 12 + (usize::from(packed[12]) + 1) * 4 - 4;
        packed[16] = 36;
        let mut crc = flate2::Crc::new();
        crc.update(&packed[12..end]);
        packed[end..end + 4].copy_from_slice(&crc.sum().to_le_bytes());
        let (out, damage) = read("a.xz", &packed);
        assert_eq!(out, b"");
        assert_eq!(
            damage.unwrap(),
            "the xz stream is corrupt: memory limit reached; to read it takes more than 512 MiB: compress it again \
             with a smaller dictionary (`xz -9` has 64 MiB)"
        );
    }

    #[test]
    fn a_stream_that_is_cut_gives_what_stands_before_the_cut() {
        for (suffix, words) in [
            ("gz", "the gzip stream ends early"),
            ("bz2", "the bzip2 stream ends early"),
            ("xz", "the xz stream ends early"),
            ("zst", "the zstd stream ends early"),
        ] {
            let packed = pack(&text(), suffix);
            let (out, damage) = read(&format!("a.{suffix}"), &packed[..packed.len() - 20]);
            assert!(text().starts_with(&out) && out.len() > 100_000, "{suffix} gave {}", out.len());
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
            ("a.bz2", b"", "the file is empty, where a bzip2 stream should be"),
            ("a.bz2", b"plain text", "the bzip2 stream is corrupt: bz2 header missing"),
            ("a.xz", b"", "the file is empty, where an xz stream should be"),
            (
                "a.xz",
                b"plain text of twelve bytes or more",
                "the xz stream is corrupt: stream/file format not recognized",
            ),
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
    fn any_flipped_byte_of_a_checked_stream_is_damage_or_changes_nothing() {
        let text = text()[..120].to_vec();
        for suffix in ["gz", "bz2", "xz"] {
            let packed = pack(&text, suffix);
            for at in 0..packed.len() {
                let mut flipped = packed.clone();
                flipped[at] ^= 1 << (at % 8);
                let (out, damage) = read(&format!("a.{suffix}"), &flipped);
                assert!(damage.is_some() || out == text, "{suffix}, byte {at}");
            }
        }
    }

    #[test]
    fn a_stream_cut_at_any_byte_is_damage() {
        let text = text()[..120].to_vec();
        for suffix in SUFFIXES {
            let packed = pack(&text, suffix);
            for end in 0..packed.len() {
                let (out, damage) = read(&format!("a.{suffix}"), &packed[..end]);
                assert!(damage.is_some() && text.starts_with(&out), "{suffix}, {end} bytes");
            }
        }
    }

    #[test]
    fn a_file_that_shrinks_or_that_the_system_cannot_read_is_an_error_and_no_damage() {
        for suffix in SUFFIXES.into_iter().chain(["txt"]) {
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
        for suffix in SUFFIXES {
            let (_dir, file) = listed("a.txt", &pack(b"text", suffix));
            let error = check_not_compressed(&file).unwrap_err().to_string();
            assert!(error.ends_with(&format!("does not end in `.{suffix}`; rename it")), "{error}");
        }
        for text in [&b"t"[..], b"BZh9 is how bzip2 begins"] {
            let (_dir, file) = listed("a.txt", text);
            check_not_compressed(&file).unwrap();
        }
    }
}
