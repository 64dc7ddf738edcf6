//! The frames of a TFRecord file: each holds one record between checksums.
//!
//! ```text
//! length 8 | its checksum 4 | data | checksum of the data 4        numbers little-endian, checksums CRC-32C, masked
//! ```
//!
//! Only lengths are checked here, so that running through a file is cheap; the data are checked where they are parsed.
//! A frame whose length cannot be trusted, or that the file does not hold whole, ends what can be read of it.

use crate::source::compression::{Blocks, Compression, check_name};
use crate::source::crc32c::masked_crc32c;
use crate::source::{SourceError, SourceFile};

/// Bytes before the data: the length and its checksum.
const HEAD: usize = 12;
/// Bytes after the data.
const TAIL: usize = 4;

/// A record may have this many bytes: its values may take eight times as much once they are decoded.
pub(super) const MAX_RECORD_BYTES: u64 = 1 << 28;

/// Reads the frames of a file from front to back.
pub(super) struct Frames {
    blocks: Blocks,
    /// Bytes read and not yet taken.
    buffer: Vec<u8>,
    /// Offset of the buffer in the decompressed file.
    at: u64,
    /// Bytes of the buffer that have been passed.
    passed: usize,
}

/// What stands at the place that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A whole frame of so many bytes.
    Frame(usize),
    /// Something that cannot be read; says why.
    Damage(String),
    /// The end of the file.
    End,
}

/// What stands where a length should.
enum Head {
    Length(u64),
    Mismatch,
    Short,
    End,
}

impl Frames {
    pub(super) fn open(file: &SourceFile) -> Result<Self, SourceError> {
        Ok(Self { blocks: Blocks::open(file)?, buffer: Vec::new(), at: 0, passed: 0 })
    }

    /// Offset in the decompressed file of what comes next.
    pub(super) fn offset(&self) -> u64 {
        self.at + self.passed as u64
    }

    /// Bytes passed since the last were taken.
    pub(super) fn passed(&self) -> usize {
        self.passed
    }

    /// Reads until there are `bytes` bytes; false if the file ends before.
    fn fill(&mut self, bytes: usize) -> Result<bool, SourceError> {
        while self.buffer.len() - self.passed < bytes {
            if !self.blocks.read_block(&mut self.buffer)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn head(&mut self) -> Result<Head, SourceError> {
        let whole = self.fill(HEAD)?;
        let head = match self.buffer[self.passed..].first_chunk::<HEAD>() {
            Some(head) if whole => head,
            _ if self.buffer.len() > self.passed || self.blocks.damage().is_some() => return Ok(Head::Short),
            _ => return Ok(Head::End),
        };
        let &[a, b, c, d, e, f, g, h, checksum @ ..] = head;
        let length = [a, b, c, d, e, f, g, h];
        Ok(match masked_crc32c(&length) == u32::from_le_bytes(checksum) {
            true => Head::Length(u64::from_le_bytes(length)),
            false => Head::Mismatch,
        })
    }

    /// Sees what comes next; of a frame all bytes are read.
    pub(super) fn peek(&mut self) -> Result<Next, SourceError> {
        let offset = self.offset();
        let length = match self.head()? {
            Head::End => return Ok(Next::End),
            Head::Short => return Ok(self.cut(format!("the head of the record at byte {offset}"))),
            Head::Mismatch => {
                let problem = format!(
                    "the length of the record at byte {offset} fails its checksum, so that nothing after it can be found"
                );
                return Ok(Next::Damage(problem));
            }
            Head::Length(length) => length,
        };
        let Some(length) = usize::try_from(length).ok().filter(|_| length <= MAX_RECORD_BYTES) else {
            let problem = format!(
                "the record at byte {offset} has {length} bytes; no record may have more than {MAX_RECORD_BYTES}"
            );
            return Err(SourceError::malformed(self.blocks.path(), problem));
        };
        let frame = HEAD + length + TAIL;
        if !self.fill(frame)? {
            return Ok(self.cut(format!("the record at byte {offset}, which should have {length} bytes")));
        }
        Ok(Next::Frame(frame))
    }

    fn cut(&self, within: String) -> Next {
        Next::Damage(match self.blocks.damage() {
            Some(damage) => format!("{damage}, within {within}"),
            None => format!("the file ends within {within}"),
        })
    }

    /// Passes a frame of so many bytes.
    pub(super) fn pass(&mut self, frame: usize) {
        self.passed = (self.passed + frame).min(self.buffer.len());
    }

    /// The bytes that were passed.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let rest = self.buffer.split_off(self.passed);
        self.at += self.passed as u64;
        self.passed = 0;
        std::mem::replace(&mut self.buffer, rest)
    }
}

/// Sees that a file begins like a TFRecord file: with a length and its checksum, or with nothing.
pub(super) fn check_begins(file: &SourceFile) -> Result<(), SourceError> {
    let mut frames = Frames::open(file)?;
    let problem = match frames.head()? {
        // Where a compressed stream is damaged, reading says so.
        Head::Length(_) | Head::End => return Ok(()),
        _ if frames.blocks.damage().is_some() => return Ok(()),
        Head::Short => "it has fewer bytes than the head of a record",
        Head::Mismatch => "it does not begin with a length and its checksum",
    };
    // A length may look like the head of a compressed file, so that this comes second.
    if Compression::of(&file.path) == Compression::Plain {
        check_name(file)?;
    }
    Err(SourceError::malformed(&file.path, format!("is no TFRecord file: {problem}")))
}

/// A frame taken apart.
pub(super) struct Frame<'a> {
    /// Where it begins, in the bytes it is part of.
    pub(super) start: usize,
    /// Its bytes, with head and tail.
    pub(super) bytes: usize,
    data: &'a [u8],
    checksum: u32,
}

impl<'a> Frame<'a> {
    /// The frame at the beginning of `bytes`, if they hold a whole one.
    pub(super) fn first(bytes: &'a [u8], start: usize) -> Option<Self> {
        let rest = bytes.get(start..)?;
        let length = usize::try_from(u64::from_le_bytes(*rest.first_chunk()?)).ok()?;
        let end = HEAD.checked_add(length)?;
        let data = rest.get(HEAD..end)?;
        let checksum = u32::from_le_bytes(*rest.get(end..)?.first_chunk()?);
        Some(Self { start, bytes: end + TAIL, data, checksum })
    }

    /// Its data, or what is wrong with them; `offset` is its place in the file.
    pub(super) fn data(&self, offset: u64) -> Result<&'a [u8], String> {
        let found = masked_crc32c(self.data);
        if found == self.checksum {
            return Ok(self.data);
        }
        let (stored, bytes) = (self.checksum, self.data.len());
        Err(format!(
            "the data of the record at byte {offset} ({bytes} bytes) fail their checksum: {stored:08x} is stored, \
             {found:08x} is found"
        ))
    }
}

/// The frames of bytes that hold whole ones.
pub(super) fn frames_of(bytes: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    std::iter::successors(Frame::first(bytes, 0), |frame| Frame::first(bytes, frame.start + frame.bytes))
}
