//! Parquet files: a range is a row group, a record a row.
//!
//! ```text
//! a.parquet  row groups of 1,000 and 500 rows   -> ranges 0 and 1 of 1,000 and 500 records
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{ConvertedType, LogicalType};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use crate::source::column::ColumnSpec;
use crate::source::columnar::{catching, chunk_rows, parse_columns, pin_columns, roots, row_number};
use crate::source::jsonl::declared_schema;
use crate::source::listing::Listing;
use crate::source::{
    DataSource, FileRanges, ParsedChunk, RawChunk, RawChunks, RawRecords, SourceError, SourceFile,
    SourceRange,
};

/// A source of Parquet files.
#[derive(Debug)]
pub(super) struct ParquetSource {
    listing: Listing,
    columns: BTreeMap<String, ColumnSpec>,
    schema: SchemaRef,
}

impl ParquetSource {
    /// A source with these columns, which are declared or have been inferred.
    pub(super) fn new(listing: Listing, columns: BTreeMap<String, ColumnSpec>) -> Self {
        let schema = declared_schema(&columns);
        Self { listing, columns, schema }
    }
}

/// The columns of a Parquet source: the declared ones if the first file has them, else those of the first file.
pub(super) fn pin_parquet_columns(
    listing: &Listing,
    declared: &BTreeMap<String, ColumnSpec>,
) -> Result<BTreeMap<String, ColumnSpec>, SourceError> {
    let Some(split) = listing.split_names().into_iter().next() else { return Ok(declared.clone()) };
    let Some(file) = listing.files(&split)?.into_iter().next() else { return Ok(declared.clone()) };
    let opened = ParquetFile::open(&file)?;
    pin_columns(&file, opened.metadata.schema().fields(), declared)
}

/// A file with its footer read.
struct ParquetFile {
    file: File,
    metadata: ArrowReaderMetadata,
}

impl ParquetFile {
    fn open(file: &SourceFile) -> Result<Self, SourceError> {
        let opened = File::open(&file.path).map_err(|error| SourceError::io(&file.path, error))?;
        let metadata = guarded(file, || ArrowReaderMetadata::load(&opened, reader_options()))?;
        Ok(Self { file: opened, metadata })
    }

    /// The same file with its string columns as bytes, so that one bad string spoils only its row.
    fn with_strings_as_bytes(self, file: &SourceFile) -> Result<Self, SourceError> {
        guarded(file, || {
            let schema = without_text_marks(&self.metadata.parquet_schema().root_schema_ptr())?;
            let options = reader_options().with_parquet_schema(Arc::new(SchemaDescriptor::new(schema)));
            Ok(Self { metadata: ArrowReaderMetadata::load(&self.file, options)?, file: self.file })
        })
    }

    /// The places of the columns in the file; optional ones may be absent.
    fn roots(
        &self,
        file: &SourceFile,
        columns: &BTreeMap<String, ColumnSpec>,
    ) -> Result<Vec<usize>, SourceError> {
        roots(file, self.metadata.schema().fields(), columns)
    }

    /// Rows of each row group.
    fn row_counts(&self, file: &SourceFile) -> Result<Vec<u64>, SourceError> {
        let groups = self.metadata.metadata().row_groups().iter();
        let counts = groups.map(|group| u64::try_from(group.num_rows()));
        counts.collect::<Result<_, _>>().map_err(|_| {
            SourceError::malformed(
                &file.path,
                "the file is corrupt: a row group has a negative number of rows",
            )
        })
    }
}

/// The embedded Arrow schema is left aside: what it adds (large, view and dictionary types) is of no use here.
fn reader_options() -> ArrowReaderOptions {
    ArrowReaderOptions::new().with_skip_arrow_metadata(true)
}

/// The schema with strings as plain byte arrays.
fn without_text_marks(node: &TypePtr) -> parquet::errors::Result<TypePtr> {
    let info = node.get_basic_info();
    let id = info.has_id().then(|| info.id());
    match node.as_ref() {
        Type::GroupType { fields, .. } => {
            let fields = fields.iter().map(without_text_marks).collect::<Result<_, _>>()?;
            let mut group = Type::group_type_builder(info.name())
                .with_converted_type(info.converted_type())
                .with_logical_type(info.logical_type_ref().cloned())
                .with_fields(fields)
                .with_id(id);
            if info.has_repetition() {
                group = group.with_repetition(info.repetition());
            }
            group.build().map(Arc::new)
        }
        Type::PrimitiveType { physical_type, .. } => {
            let text = matches!(info.logical_type_ref(), Some(LogicalType::String | LogicalType::Json))
                || matches!(info.converted_type(), ConvertedType::UTF8 | ConvertedType::JSON);
            if !text {
                return Ok(Arc::clone(node));
            }
            Type::primitive_type_builder(info.name(), *physical_type)
                .with_repetition(info.repetition())
                .with_id(id)
                .build()
                .map(Arc::new)
        }
    }
}

/// Runs a part of the Parquet reader, which panics on some corrupt files.
fn guarded<T>(
    file: &SourceFile,
    read: impl FnOnce() -> parquet::errors::Result<T>,
) -> Result<T, SourceError> {
    catching(read).map_err(|error| corrupt(file, &error))
}

fn corrupt(file: &SourceFile, error: &dyn std::fmt::Display) -> SourceError {
    SourceError::malformed(&file.path, format!("cannot be read as Parquet: {error}"))
}

/// The chunks of the wanted row groups in order.
struct GroupChunks {
    source: SourceFile,
    index: u32,
    opened: ParquetFile,
    roots: Vec<usize>,
    /// Row groups still to be read, with their rows.
    groups: std::vec::IntoIter<(usize, u64)>,
    current: Option<Group>,
    skip: Box<dyn Fn(u64) -> bool + Send>,
}

struct Group {
    number: usize,
    num_rows: u64,
    given: u64,
    reader: ParquetRecordBatchReader,
}

impl GroupChunks {
    fn start(&self, number: usize, num_rows: u64) -> Result<Group, SourceError> {
        let metadata = self.opened.metadata.clone();
        let group = metadata.metadata().row_group(number);
        let parquet_schema = metadata.parquet_schema();
        let bytes: i64 = (0..group.num_columns())
            .filter(|&leaf| self.roots.contains(&parquet_schema.get_column_root_idx(leaf)))
            .map(|leaf| group.column(leaf).uncompressed_size().max(0))
            .fold(0, i64::saturating_add);
        let rows = chunk_rows(num_rows, u64::try_from(bytes).unwrap_or(0));
        let mask = ProjectionMask::roots(parquet_schema, self.roots.iter().copied());
        let file = self.opened.file.try_clone().map_err(|error| SourceError::io(&self.source.path, error))?;
        let reader = guarded(&self.source, || {
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone())
                .with_row_groups(vec![number])
                .with_projection(mask)
                .with_batch_size(rows)
                .build()
        })?;
        Ok(Group { number, num_rows, given: 0, reader })
    }

    fn next_chunk(&mut self) -> Result<Option<RawChunk>, SourceError> {
        let group = match &mut self.current {
            Some(group) => group,
            None => {
                let Some((number, num_rows)) = self.groups.find(|&(number, _)| !(self.skip)(number as u64))
                else {
                    return Ok(None);
                };
                let group = self.start(number, num_rows)?;
                self.current.insert(group)
            }
        };
        let batch = guarded(&self.source, || group.reader.next().transpose().map_err(Into::into))?;
        let batch = batch.unwrap_or_else(|| RecordBatch::new_empty(group.reader_schema()));
        let start = group.number as u64;
        let num_records = batch.num_rows() as u64;
        let chunk = RawChunk {
            range: SourceRange { file: self.index, start, end: start + 1 },
            first_ordinal: group.given,
            num_records,
            first_offset: group.given,
            records: RawRecords::Columns(batch),
            last_of_range: group.given + num_records == group.num_rows,
            damage: None,
        };
        group.given += num_records;
        if group.given > group.num_rows || (num_records == 0 && !chunk.last_of_range) {
            let problem =
                format!("row group {start} has not the {} rows that the footer counts", group.num_rows);
            return Err(corrupt(&self.source, &problem));
        }
        if chunk.last_of_range {
            self.current = None;
        }
        Ok(Some(chunk))
    }
}

impl Group {
    fn reader_schema(&self) -> SchemaRef {
        use arrow::array::RecordBatchReader;
        self.reader.schema()
    }
}

impl Iterator for GroupChunks {
    type Item = Result<RawChunk, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = self.next_chunk();
        if chunk.is_err() {
            self.groups = Vec::new().into_iter();
            self.current = None;
        }
        chunk.transpose()
    }
}

impl DataSource for ParquetSource {
    fn name(&self) -> &str {
        &self.listing.name
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> Vec<String> {
        self.listing.split_names()
    }

    fn files(&self, split: &str) -> Result<Vec<SourceFile>, SourceError> {
        self.listing.files(split)
    }

    fn ranges(&self, file: &SourceFile, index: u32) -> Result<FileRanges, SourceError> {
        let opened = ParquetFile::open(file)?;
        opened.roots(file, &self.columns)?;
        Ok(FileRanges::Known(self.count_records(file, index)?.into_iter().map(|(range, _)| range).collect()))
    }

    fn read(
        &self,
        file: &SourceFile,
        index: u32,
        range: Option<SourceRange>,
        skip: Box<dyn Fn(u64) -> bool + Send>,
    ) -> Result<RawChunks, SourceError> {
        let opened = ParquetFile::open(file)?;
        let roots = opened.roots(file, &self.columns)?;
        let groups: Vec<(usize, u64)> = opened
            .row_counts(file)?
            .into_iter()
            .enumerate()
            .filter(|&(number, _)| range.is_none_or(|range| range.start == number as u64))
            .collect();
        Ok(Box::new(GroupChunks {
            source: file.clone(),
            index,
            opened: opened.with_strings_as_bytes(file)?,
            roots,
            groups: groups.into_iter(),
            current: None,
            skip,
        }))
    }

    fn parse(&self, file: &SourceFile, chunk: &RawChunk) -> Result<ParsedChunk, SourceError> {
        parse_columns(&self.listing.name, &self.columns, &self.schema, file, chunk)
    }

    fn count_records(&self, file: &SourceFile, index: u32) -> Result<Vec<(SourceRange, u64)>, SourceError> {
        let counts = ParquetFile::open(file)?.row_counts(file)?;
        let ranges = (0..).map(|start| SourceRange { file: index, start, end: start + 1 });
        Ok(ranges.zip(counts).collect())
    }

    fn line_of(&self, file: &SourceFile, range: SourceRange, ordinal: u64) -> Result<u64, SourceError> {
        Ok(row_number(&self.count_records(file, range.file)?, range, ordinal))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use arrow::array::{
        ArrayRef, BooleanArray, Date32Array, Float64Array, Int8Array, Int64Array, LargeStringArray,
        ListArray, StringArray, StringDictionaryBuilder, StringViewArray, StructArray, UInt16Array,
    };
    use arrow::datatypes::{DataType, Field, Int32Type};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;
    use proptest::prelude::*;

    use super::*;
    use crate::example::ExampleId;
    use crate::source::column::{ColumnType, ScalarType};
    use crate::source::testing::show;
    use crate::source::{OnBadRow, SourceSpec};

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
            .unwrap()
    }

    fn write(path: &Path, batch: &RecordBatch, group_rows: usize, compression: Compression) {
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_max_row_group_row_count(Some(group_rows))
            .build();
        let file = File::create(path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
    }

    fn numbers(rows: i64) -> RecordBatch {
        let texts: StringArray = (0..rows).map(|row| Some(format!("text {row}"))).collect();
        let numbers: Int64Array = (0..rows).collect();
        batch(vec![("text", Arc::new(texts)), ("n", Arc::new(numbers))])
    }

    fn open(dir: &Path, spec: &SourceSpec) -> Arc<dyn DataSource> {
        spec.open("docs", dir).unwrap()
    }

    fn error(dir: &Path, spec: &SourceSpec) -> String {
        spec.open("docs", dir).unwrap_err().to_string().replace(dir.to_str().unwrap(), "DIR")
    }

    fn spec() -> SourceSpec {
        SourceSpec::parquet([("train", "*.parquet")])
    }

    fn read_split(source: &dyn DataSource) -> String {
        let mut shown = String::new();
        for (index, file) in (0..).zip(source.files("train").unwrap()) {
            for chunk in source.read(&file, index, None, Box::new(|_| false)).unwrap() {
                let chunk = chunk.unwrap();
                shown.push_str(&format!("{} group {}\n", file.name, chunk.range.start));
                shown.push_str(&show(&source.parse(&file, &chunk).unwrap()));
            }
        }
        shown
    }

    #[test]
    fn ranges_are_row_groups_and_ids_are_of_group_and_row() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("a.parquet"), &numbers(5), 2, Compression::SNAPPY);
        let source = open(dir.path(), &spec());
        insta::assert_snapshot!(read_split(&*source), @r"
        a.parquet group 0
        row 0 @0+0: n=0 text=text 0
        row 1 @1+0: n=1 text=text 1
        a.parquet group 1
        row 0 @0+0: n=2 text=text 2
        row 1 @1+0: n=3 text=text 3
        a.parquet group 2
        row 0 @0+0: n=4 text=text 4
        ");
        let file = &source.files("train").unwrap()[0];
        let counts = source.count_records(file, 3).unwrap();
        let group = |start| SourceRange { file: 3, start, end: start + 1 };
        assert_eq!(counts, [(group(0), 2), (group(1), 2), (group(2), 1)]);
        assert_eq!(source.ranges(file, 3).unwrap(), FileRanges::Known(vec![group(0), group(1), group(2)]));
        assert_eq!(source.line_of(file, group(1), 1).unwrap(), 4);
        let chunks: Vec<RawChunk> =
            source.read(file, 3, Some(group(1)), Box::new(|_| false)).unwrap().map(Result::unwrap).collect();
        let rows = source.parse(file, &chunks[0]).unwrap().examples.rows;
        assert_eq!(rows[1].id, ExampleId::new("docs", "a.parquet", 1, 1));
        let skipped = source.read(file, 3, None, Box::new(|start| start != 2)).unwrap();
        assert_eq!(skipped.map(|chunk| chunk.unwrap().range.start).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn every_supported_type_is_read_and_others_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut dictionary = StringDictionaryBuilder::<Int32Type>::new();
        dictionary.append_value("x");
        dictionary.append_null();
        let lists =
            || Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), Some(2)]), None]));
        let inner = Arc::new(Int64Array::from(vec![1, 2]));
        let structs =
            StructArray::from(vec![(Arc::new(Field::new("k", DataType::Int64, true)), inner as ArrayRef)]);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("bool", Arc::new(BooleanArray::from(vec![Some(true), None]))),
            ("date", Arc::new(Date32Array::from(vec![1, 2]))),
            ("dictionary", Arc::new(dictionary.finish())),
            ("f64", Arc::new(Float64Array::from(vec![0.5, -1.0]))),
            ("i8", Arc::new(Int8Array::from(vec![-1, 2]))),
            ("large", Arc::new(LargeStringArray::from(vec!["é", ""]))),
            ("lists", lists()),
            ("struct", Arc::new(structs)),
            ("u16", Arc::new(UInt16Array::from(vec![65535, 0]))),
            ("view", Arc::new(StringViewArray::from(vec!["a view of some length", "b"]))),
        ];
        for compression in
            [Compression::UNCOMPRESSED, Compression::ZSTD(Default::default()), Compression::LZ4_RAW]
        {
            write(&dir.path().join("a.parquet"), &batch(columns.clone()), 10, compression);
            let source = open(dir.path(), &spec());
            insta::allow_duplicates!(insta::assert_snapshot!(read_split(&*source), @r"
            a.parquet group 0
            row 0 @0+0: bool=true dictionary=x f64=0.5 i8=-1 large=é lists=[1, 2] u16=65535 view=a view of some length
            row 1 @1+0: bool=null dictionary=null f64=-1.0 i8=2 large= lists=null u16=0 view=b
            "));
        }
        let source = open(dir.path(), &spec().column("lists", ColumnType::List(ScalarType::Int64)));
        assert_eq!(*source.schema().field(0).data_type(), ColumnType::List(ScalarType::Int64).arrow());
        assert_eq!(read_split(&*source).lines().last(), Some("row 1 @1+0: lists=null"));
        let wanted = |name: &str, scalar: ScalarType| error(dir.path(), &spec().column(name, scalar));
        insta::assert_snapshot!(wanted("date", ScalarType::String), @"DIR/a.parquet: column `date` should be a string, but is Date32");
        insta::assert_snapshot!(wanted("f64", ScalarType::Int64), @"DIR/a.parquet: column `f64` should be an int64, but is Float64");
        insta::assert_snapshot!(wanted("views", ScalarType::String), @"DIR/a.parquet: has no column `views`, only `bool`, `date`, `dictionary`, `f64`, `i8`, `large`, `lists`, `struct`, `u16`, `view` (did you mean `view`?)");
    }

    #[test]
    fn rows_that_do_not_fit_are_bad_and_the_others_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = arrow::array::BinaryArray::from_vec(vec![b"good", b"caf\xe9", b"fine", b"also"]);
        let ids = ListArray::from_iter_primitive::<arrow::datatypes::Int64Type, _, _>([
            Some(vec![Some(1)]),
            Some(vec![]),
            Some(vec![Some(7), Some(1 << 40)]),
            Some(vec![Some(2)]),
        ]);
        write(
            &dir.path().join("a.parquet"),
            &batch(vec![("text", Arc::new(bytes)), ("ids", Arc::new(ids))]),
            10,
            Compression::SNAPPY,
        );
        let spec = spec()
            .column("text", ScalarType::String)
            .column("ids", ColumnType::List(ScalarType::Int32))
            .column("extra", ColumnSpec::from(ScalarType::Int32).optional())
            .on_bad_row(OnBadRow::Skip);
        insta::assert_snapshot!(read_split(&*open(dir.path(), &spec)), @r"
        a.parquet group 0
        row 0 @0+0: extra=null ids=[1] text=good
        bad 1 @1: `text` is not valid UTF-8 at byte 4
        bad 2 @2: `ids` item 2 should be an int32, but is 1099511627776
        row 3 @3+0: extra=null ids=[2] text=also
        ");
    }

    #[test]
    fn a_string_column_with_bytes_that_are_no_text_spoils_only_its_rows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        let texts: StringArray =
            [Some("first text"), None, Some("other text"), Some("third text")].into_iter().collect();
        write(&path, &batch(vec![("text", Arc::new(texts))]), 10, Compression::UNCOMPRESSED);
        let mut bytes = std::fs::read(&path).unwrap();
        let places: Vec<usize> = memchr::memmem::find_iter(&bytes, b"other text").collect();
        for place in places {
            bytes[place] = 0xff;
        }
        std::fs::write(&path, &bytes).unwrap();
        insta::assert_snapshot!(read_split(&*open(dir.path(), &spec())), @r"
        a.parquet group 0
        row 0 @0+0: text=first text
        row 1 @1+0: text=null
        bad 2 @2: `text` is not valid UTF-8 at byte 1
        row 3 @3+0: text=third text
        ");
    }

    #[test]
    fn a_row_group_is_read_in_small_chunks_whose_sizes_depend_on_the_file_alone() {
        let dir = tempfile::tempdir().unwrap();
        let texts: StringArray = (0..3000).map(|row| Some(format!("{row:010000}"))).collect();
        write(
            &dir.path().join("a.parquet"),
            &batch(vec![("text", Arc::new(texts))]),
            3000,
            Compression::SNAPPY,
        );
        let source = open(dir.path(), &spec());
        let file = &source.files("train").unwrap()[0];
        let chunks: Vec<RawChunk> =
            source.read(file, 0, None, Box::new(|_| false)).unwrap().map(Result::unwrap).collect();
        assert!(chunks.iter().all(|chunk| chunk.num_records <= 105), "{}", chunks[0].num_records);
        let mut ordinal = 0;
        for chunk in &chunks {
            assert_eq!(chunk.first_ordinal, ordinal);
            ordinal += chunk.num_records;
            assert_eq!(chunk.last_of_range, ordinal == 3000);
        }
    }

    #[test]
    fn a_file_without_rows_has_no_ranges() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("a.parquet"), &numbers(0), 10, Compression::SNAPPY);
        let source = open(dir.path(), &spec());
        let file = &source.files("train").unwrap()[0];
        assert_eq!(source.count_records(file, 0).unwrap(), []);
        assert_eq!(read_split(&*source), "");
    }

    #[test]
    fn a_later_file_without_a_column_is_named_before_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("a.parquet"), &numbers(1), 10, Compression::SNAPPY);
        let other: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        write(&dir.path().join("b.parquet"), &batch(vec![("n", other)]), 10, Compression::SNAPPY);
        let source = open(dir.path(), &spec());
        let file = &source.files("train").unwrap()[1];
        let error = source.ranges(file, 1).unwrap_err().to_string();
        assert!(error.ends_with("b.parquet: has no column `text`, only `n`"), "{error}");
    }

    #[test]
    fn what_is_not_parquet_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for bytes in [&b""[..], b"PAR1", b"plain text that is no Parquet at all"] {
            std::fs::write(dir.path().join("a.parquet"), bytes).unwrap();
            let error = error(dir.path(), &spec());
            assert!(error.starts_with("DIR/a.parquet: cannot be read as Parquet: "), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_damaged_file_is_read_or_refused_without_a_panic(
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            tail in any::<bool>(),
            cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.parquet");
            write(&path, &numbers(20), 7, Compression::SNAPPY);
            let mut bytes = std::fs::read(&path).unwrap();
            let from = if tail { bytes.len() / 2 } else { 0 };
            for (index, byte) in flips {
                let index = from + index.index(bytes.len() - from);
                bytes[index] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            std::fs::write(&path, &bytes).unwrap();
            let spec = spec().column("text", ScalarType::String);
            if let Ok(source) = spec.open("docs", dir.path()) {
                let file = &source.files("train").unwrap()[0];
                let _ = source.ranges(file, 0);
                let Ok(chunks) = source.read(file, 0, None, Box::new(|_| false)) else { return Ok(()) };
                for chunk in chunks {
                    let Ok(chunk) = chunk else { return Ok(()) };
                    let parsed = source.parse(file, &chunk).unwrap();
                    prop_assert_eq!(parsed.examples.len() + parsed.bad_rows.len(), chunk.num_records as usize);
                }
            }
        }
    }
}
