//! An Arrow IPC file or stream, opened: its columns, and its messages one by one.
//!
//! ```text
//! a.arrow    ARROW1 … batch, batch, dictionary … footer, ARROW1     what is where stands in the footer
//! a.arrows   schema, dictionary, batch, batch …                     known from the front only
//! ```
//!
//! Which of the two a file is, is told by how it begins. Nothing is read that a length asks for before the length was
//! held against the file. Strings are read as bytes, so that one that is no text spoils only its row.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::{Block, Endianness, MessageHeader, MetadataVersion, root_as_footer, root_as_message};

use crate::source::arrow_layout::needed_buffers;
use crate::source::columnar::catching;
use crate::source::{SourceError, SourceFile};

/// How a file begins and ends; a stream does not.
const MAGIC: &[u8] = b"ARROW1";
/// Length of the footer, and [`MAGIC`].
const TRAILER: u64 = 10;
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageAt {
    pub(super) offset: u64,
    /// Bytes before the body.
    head: u64,
    body: u64,
}

impl MessageAt {
    pub(super) fn end(self) -> u64 {
        self.offset + self.head + self.body
    }
}

/// A file with its columns known.
pub(super) struct ArrowFile {
    source: SourceFile,
    file: File,
    /// The columns as they are.
    schema: SchemaRef,
    version: MetadataVersion,
    kind: Kind,
}

enum Kind {
    File {
        dictionaries: Vec<MessageAt>,
        batches: Vec<MessageAt>,
    },
    /// The first message after the schema.
    Stream {
        first: u64,
    },
}

/// What comes next in a stream.
pub(super) enum StreamNext {
    Batch(MessageAt),
    /// A dictionary that was read, up to here.
    Passed(u64),
    End,
    /// It cannot be read on from here.
    Damage {
        offset: u64,
        reason: String,
    },
}

/// Why a message cannot be read.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The file is not as it should be.
    Corrupt(String),
    /// The system says no.
    System(SourceError),
}

impl From<String> for Trouble {
    fn from(problem: String) -> Self {
        Self::Corrupt(problem)
    }
}

impl From<SourceError> for Trouble {
    fn from(error: SourceError) -> Self {
        Self::System(error)
    }
}

impl ArrowFile {
    pub(super) fn open(source: &SourceFile) -> Result<Self, SourceError> {
        let file = File::open(&source.path).map_err(|error| SourceError::io(&source.path, error))?;
        let mut opened = Self {
            source: source.clone(),
            file,
            schema: Arc::new(Schema::empty()),
            version: MetadataVersion::V5,
            kind: Kind::Stream { first: 0 },
        };
        let mut start = vec![0; usize::try_from(source.bytes.min(8)).unwrap_or(8)];
        opened.read_at(0, &mut start)?;
        let found = match &start[..] {
            [] => Some("an empty file"),
            [b'F', b'E', b'A', b'1', ..] => Some("Feather of version 1; write it again as version 2"),
            [b'P', b'A', b'R', b'1', ..] => Some("Parquet; write `parquet` instead of `arrow`"),
            [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                Some("compressed as a whole; decompress it (its buffers can be compressed instead)")
            }
            _ => None,
        };
        if let Some(found) = found {
            return Err(SourceError::malformed(
                &source.path,
                format!("cannot be read as Arrow: it is {found}"),
            ));
        }
        let read = if start.starts_with(MAGIC) { opened.read_footer() } else { opened.read_stream_head() };
        match read {
            Ok(()) => Ok(opened),
            Err(trouble) => Err(opened.error(trouble)),
        }
    }

    /// The columns of the file.
    pub(super) fn fields(&self) -> &Fields {
        self.schema.fields()
    }

    /// The record batches in order; `None` of a stream.
    pub(super) fn batches(&self) -> Option<&[MessageAt]> {
        match &self.kind {
            Kind::File { batches, .. } => Some(batches),
            Kind::Stream { .. } => None,
        }
    }

    /// What went wrong, with the file's name.
    pub(super) fn error(&self, trouble: Trouble) -> SourceError {
        match trouble {
            Trouble::System(error) => error,
            Trouble::Corrupt(problem) => {
                SourceError::malformed(&self.source.path, format!("cannot be read as Arrow: {problem}"))
            }
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        let mut file = &self.file;
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(out));
        read.map_err(|error| {
            let error = if error.kind() == io::ErrorKind::UnexpectedEof {
                io::Error::new(error.kind(), "the file has become shorter since it was listed")
            } else {
                error
            };
            SourceError::io(&self.source.path, error)
        })
    }

    fn read_footer(&mut self) -> Result<(), Trouble> {
        let unfinished =
            || Trouble::Corrupt("it has no footer: it was cut off, or is still being written".to_owned());
        let trailer_start = self.source.bytes.checked_sub(TRAILER).ok_or_else(unfinished)?;
        let mut trailer = [0; TRAILER as usize];
        self.read_at(trailer_start, &mut trailer)?;
        if !trailer.ends_with(MAGIC) {
            return Err(unfinished());
        }
        let length = read_footer_length(trailer).map_err(|error| error.to_string())?;
        let footer_start = trailer_start.checked_sub(length as u64).filter(|&start| start >= 8);
        let footer_start = footer_start.ok_or_else(|| "its footer is longer than the file".to_owned())?;
        let mut bytes = vec![0; length];
        self.read_at(footer_start, &mut bytes)?;
        let footer = root_as_footer(&bytes).map_err(|error| format!("its footer is corrupt: {error}"))?;
        let schema = footer.schema().ok_or_else(|| "its footer has no schema".to_owned())?;
        (self.schema, self.version) = (schema_of(schema)?, footer.version());
        let dictionaries = places(footer.dictionaries().into_iter().flatten(), footer_start)?;
        let batches = places(footer.recordBatches().into_iter().flatten(), footer_start)?;
        if batches.windows(2).any(|pair| pair[1].offset < pair[0].end()) {
            return Err("its footer names record batches that are not one after the other".to_owned().into());
        }
        self.kind = Kind::File { dictionaries, batches };
        Ok(())
    }

    fn read_stream_head(&mut self) -> Result<(), Trouble> {
        let (at, head) = match self.message_at(0) {
            Ok(Some(found)) => found,
            Ok(None) => return Err("it ends before its schema".to_owned().into()),
            Err(Trouble::Corrupt(reason)) => {
                return Err(format!("it is neither a file nor a stream: {reason}").into());
            }
            Err(trouble) => return Err(trouble),
        };
        let message = root_as_message(&head).map_err(|_| "it is neither a file nor a stream".to_owned())?;
        let schema = message.header_as_schema().ok_or_else(|| "it begins without a schema".to_owned())?;
        (self.schema, self.version) = (schema_of(schema)?, message.version());
        self.kind = Kind::Stream { first: at.end() };
        Ok(())
    }

    /// The message of a stream at `offset` and its head; `None` at the end.
    fn message_at(&self, offset: u64) -> Result<Option<(MessageAt, Vec<u8>)>, Trouble> {
        let left = self.source.bytes.saturating_sub(offset);
        let early = || Trouble::Corrupt("the stream ends early".to_owned());
        if left == 0 {
            return Ok(None);
        }
        let mut word = [0; 4];
        let mut prefix = 4;
        if left < prefix {
            return Err(early());
        }
        self.read_at(offset, &mut word)?;
        if word == CONTINUATION {
            prefix = 8;
            if left < prefix {
                return Err(early());
            }
            self.read_at(offset + 4, &mut word)?;
        }
        let length = i32::from_le_bytes(word);
        if length == 0 {
            return Ok(None);
        }
        let length = u64::try_from(length).map_err(|_| format!("a message has a head of {length} bytes"))?;
        if length > left - prefix {
            return Err(early());
        }
        let mut head = vec![0; usize::try_from(length).map_err(|error| error.to_string())?];
        self.read_at(offset + prefix, &mut head)?;
        let body = {
            let message = root_as_message(&head).map_err(|error| format!("a message is corrupt: {error}"))?;
            u64::try_from(message.bodyLength())
                .map_err(|_| "a message has a body of negative length".to_owned())?
        };
        if body > left - prefix - length {
            return Err(early());
        }
        Ok(Some((MessageAt { offset, head: prefix + length, body }, head)))
    }

    /// The head of a message of a file, without its prefix.
    fn head(&self, at: MessageAt) -> Result<Vec<u8>, Trouble> {
        let mut head = vec![0; usize::try_from(at.head).map_err(|error| error.to_string())?];
        self.read_at(at.offset, &mut head)?;
        let prefix = if head.starts_with(&CONTINUATION) { 8 } else { 4 };
        Ok(head.split_off(prefix))
    }

    /// What a stream goes on with at `offset`, past dictionaries, which `decoder` keeps.
    pub(super) fn stream_next(
        &self,
        mut offset: u64,
        mut decoder: Option<&mut BatchDecoder>,
    ) -> Result<StreamNext, SourceError> {
        loop {
            let mut next = || -> Result<StreamNext, Trouble> {
                let Some((at, head)) = self.message_at(offset)? else { return Ok(StreamNext::End) };
                let message =
                    root_as_message(&head).map_err(|error| format!("a message is corrupt: {error}"))?;
                match message.header_type() {
                    MessageHeader::RecordBatch => Ok(StreamNext::Batch(at)),
                    MessageHeader::DictionaryBatch => {
                        if let Some(decoder) = &mut decoder {
                            decoder.read(self, at)?;
                        }
                        Ok(StreamNext::Passed(at.end()))
                    }
                    other => Err(format!("a message is neither batch nor dictionary, but {other:?}").into()),
                }
            };
            match next() {
                Ok(StreamNext::Passed(end)) => offset = end,
                Ok(next) => return Ok(next),
                Err(Trouble::System(error)) => return Err(error),
                Err(Trouble::Corrupt(reason)) => return Ok(StreamNext::Damage { offset, reason }),
            }
        }
    }

    /// Where the first message of a stream is after its schema; of a file 0.
    pub(super) fn first(&self) -> u64 {
        match self.kind {
            Kind::File { .. } => 0,
            Kind::Stream { first } => first,
        }
    }

    /// Rows of a record batch, from its head alone.
    pub(super) fn num_rows(&self, at: MessageAt) -> Result<u64, SourceError> {
        let rows = || -> Result<u64, Trouble> {
            let head = self.head(at)?;
            let message = root_as_message(&head).map_err(|error| format!("a message is corrupt: {error}"))?;
            let batch =
                message.header_as_record_batch().ok_or_else(|| "a message is no record batch".to_owned())?;
            Ok(u64::try_from(batch.length())
                .map_err(|_| "a record batch has a negative number of rows".to_owned())?)
        };
        rows().map_err(|trouble| self.error(trouble))
    }
}

/// Where the messages are that a footer names; they must lie before it.
fn places<'a>(blocks: impl Iterator<Item = &'a Block>, footer_start: u64) -> Result<Vec<MessageAt>, String> {
    let inside = |at: &MessageAt| at.offset >= 8 && at.head >= 8 && at.end() <= footer_start;
    let places = blocks.map(|block| place(block).filter(inside));
    places.collect::<Option<_>>().ok_or_else(|| "its footer names a message outside of the file".to_owned())
}

fn place(block: &Block) -> Option<MessageAt> {
    let place = MessageAt {
        offset: u64::try_from(block.offset()).ok()?,
        head: u64::try_from(block.metaDataLength()).ok()?,
        body: u64::try_from(block.bodyLength()).ok()?,
    };
    place.offset.checked_add(place.head)?.checked_add(place.body)?;
    Some(place)
}

/// The columns that a file says it has.
fn schema_of(schema: arrow::ipc::Schema<'_>) -> Result<SchemaRef, String> {
    if schema.endianness() == Endianness::Big {
        return Err("its numbers are big-endian".to_owned());
    }
    let schema = catching(|| {
        schema.fields().map(|_| fb_to_schema(schema)).ok_or_else(|| "its schema has no columns".to_owned())
    })
    .map_err(|reason| format!("its columns cannot be made out: {reason}"))?;
    Ok(Arc::new(schema))
}

/// Makes record batches of messages, and keeps the dictionaries.
pub(super) struct BatchDecoder {
    decoder: FileDecoder,
    /// All columns of the file, strings as bytes.
    fields: Fields,
    /// Those that are read.
    roots: Vec<usize>,
    /// The dictionaries that those need, with the types of their values.
    dictionaries: BTreeMap<i64, FieldRef>,
}

impl BatchDecoder {
    /// A decoder of the columns at `roots`, which for a file has its dictionaries.
    pub(super) fn new(file: &ArrowFile, roots: Vec<usize>) -> Result<Self, SourceError> {
        let fields: Fields = file.fields().iter().map(|field| bytes_field(field)).collect();
        let mut dictionaries = BTreeMap::new();
        roots.iter().for_each(|&root| add_dictionaries(&fields[root], &mut dictionaries));
        let schema = Arc::new(Schema::new(fields.clone()));
        let decoder = FileDecoder::new(schema, file.version).with_projection(roots.clone());
        let mut made = Self { decoder, fields, roots, dictionaries };
        if let Kind::File { dictionaries, .. } = &file.kind {
            for &at in dictionaries {
                made.read(file, at).map_err(|trouble| file.error(trouble))?;
            }
        }
        Ok(made)
    }

    /// Reads a message: the rows of a record batch, or a dictionary, which is kept.
    pub(super) fn read(&mut self, file: &ArrowFile, at: MessageAt) -> Result<Option<RecordBatch>, Trouble> {
        let head = file.head(at)?;
        let message = root_as_message(&head).map_err(|error| format!("a message is corrupt: {error}"))?;
        let body = usize::try_from(at.body).map_err(|error| error.to_string())?;
        let is_batch = message.header_type() == MessageHeader::RecordBatch;
        let needed = if let Some(batch) = message.header_as_record_batch() {
            needed_buffers(&batch, &self.fields, &self.roots, message.version(), body)?
        } else if let Some(dictionary) = message.header_as_dictionary_batch() {
            let Some(field) = self.dictionaries.get(&dictionary.id()) else { return Ok(None) };
            let data = dictionary.data().ok_or_else(|| "a dictionary has no values".to_owned())?;
            needed_buffers(&data, std::slice::from_ref(field), &[0], message.version(), body)?
        } else {
            return Err("a message is neither batch nor dictionary".to_owned().into());
        };
        // Only what is needed is read, and the system gives no memory for the rest, which is never written to.
        let start = 8 + head.len();
        let mut buffer = MutableBuffer::from_len_zeroed(start + body);
        buffer[..4].copy_from_slice(&CONTINUATION);
        buffer[4..8]
            .copy_from_slice(&u32::try_from(head.len()).map_err(|error| error.to_string())?.to_le_bytes());
        buffer[8..start].copy_from_slice(&head);
        for place in &needed.places {
            let offset = at.offset + at.head + place.start as u64;
            file.read_at(offset, &mut buffer[start + place.start..start + place.end])?;
        }
        needed.check_sizes(&buffer[start..])?;
        let buffer = Buffer::from(buffer);
        let head = i32::try_from(start).map_err(|error| error.to_string())?;
        let block = Block::new(0, head, i64::try_from(body).map_err(|error| error.to_string())?);
        // What is checked above makes Arrow's reader panic or allocate without end. Other contradictions it tells
        // itself, as nothing of its own checks is skipped; a panic that is left is caught here.
        let decoder = &mut self.decoder;
        if !is_batch {
            catching(|| decoder.read_dictionary(&block, &buffer))?;
            return Ok(None);
        }
        let batch = catching(|| decoder.read_record_batch(&block, &buffer))?;
        Ok(Some(batch.ok_or_else(|| "a record batch is empty".to_owned())?))
    }
}

/// A column with its strings as bytes, which look the same in a file.
fn bytes_field(field: &Field) -> Field {
    field.clone().with_data_type(bytes_type(field.data_type()))
}

fn bytes_type(found: &DataType) -> DataType {
    let item = |item: &FieldRef| Arc::new(bytes_field(item));
    match found {
        DataType::Utf8 => DataType::Binary,
        DataType::LargeUtf8 => DataType::LargeBinary,
        DataType::Utf8View => DataType::BinaryView,
        DataType::List(field) => DataType::List(item(field)),
        DataType::LargeList(field) => DataType::LargeList(item(field)),
        DataType::ListView(field) => DataType::ListView(item(field)),
        DataType::LargeListView(field) => DataType::LargeListView(item(field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(item(field), *size),
        DataType::Dictionary(keys, values) => {
            DataType::Dictionary(keys.clone(), Box::new(bytes_type(values)))
        }
        found => found.clone(),
    }
}

/// Adds the dictionaries of a column, by their ids.
fn add_dictionaries(field: &Field, found: &mut BTreeMap<i64, FieldRef>) {
    match field.data_type() {
        DataType::Dictionary(_, values) => {
            let values_field = Field::new("", values.as_ref().clone(), true);
            add_dictionaries(&values_field, found);
            #[allow(deprecated, reason = "a file's dictionaries are known by the ids of its columns alone")]
            if let Some(id) = field.dict_id() {
                found.insert(id, Arc::new(values_field));
            }
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => add_dictionaries(item, found),
        _ => {}
    }
}
