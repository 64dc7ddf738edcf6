//! From the columns of a task to the columns of a file.
//!
//! ```text
//! targets: List<Int32>, text: Utf8   ->   targets: List<UInt16>, text: Utf8, _id: FixedSizeBinary(16),
//!                                         _origin: List<Struct{file, row, offset, length}>   (, _key in spills)
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, ListArray, RecordBatch, StringArray, StructArray,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int32Type, Schema, SchemaRef};
use seqio::{ExampleRow, Origin};

use crate::error::CacheError;
use crate::manifest::StoredFeature;

/// The column of example ids.
pub(crate) const ID: &str = "_id";
/// The column of origins.
pub(crate) const ORIGIN: &str = "_origin";
/// The column of keys, if the source names its rows by some.
pub(crate) const SQL_KEY: &str = "_sql_key";
/// The column of sort keys, in spills only.
pub(crate) const KEY: &str = "_key";
/// A vocabulary of at most this many ids is stored in 16 bits.
const NARROW_IDS: usize = 1 << 16;

/// A token feature as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenColumn {
    /// Its name.
    pub(crate) name: String,
    /// Its place among the columns.
    pub(crate) index: usize,
    /// Number of ids of its vocabulary.
    pub(crate) vocab_size: usize,
}

impl TokenColumn {
    /// Bytes of one id.
    pub(crate) fn id_bytes(&self) -> u64 {
        if self.is_narrow() { 2 } else { 4 }
    }

    pub(crate) fn is_narrow(&self) -> bool {
        self.vocab_size <= NARROW_IDS
    }
}

/// The columns of a task's cache.
#[derive(Clone, Debug)]
pub(crate) struct StoredColumns {
    /// The columns of a shard.
    pub(crate) shard: SchemaRef,
    /// The columns of a spill: those and the key.
    pub(crate) spill: SchemaRef,
    /// The token features, sorted by name.
    pub(crate) tokens: Vec<TokenColumn>,
    /// Number of columns that come from the task.
    pub(crate) num_task_columns: usize,
    /// Whether there is a column of keys, between origins and sort keys.
    pub(crate) has_sql_keys: bool,
}

impl StoredColumns {
    /// Lays out `columns`, among them the token features with the sizes of their vocabularies.
    pub(crate) fn new(columns: &Schema, vocab_sizes: &BTreeMap<String, usize>) -> Result<Self, CacheError> {
        let mut fields = Vec::new();
        let mut tokens = Vec::new();
        for (index, field) in columns.fields().iter().enumerate() {
            if [ID, ORIGIN, SQL_KEY, KEY].contains(&field.name().as_str()) {
                return Err(column_error(
                    field.name(),
                    "a cache has a column of this name; rename it with `rekey`",
                ));
            }
            match (vocab_sizes.get(field.name()), field.data_type()) {
                (Some(&vocab_size), DataType::List(item)) if *item.data_type() == DataType::Int32 => {
                    let token = TokenColumn { name: field.name().clone(), index, vocab_size };
                    let ids = if token.is_narrow() { DataType::UInt16 } else { DataType::UInt32 };
                    fields.push(Arc::new(Field::new(field.name(), list_of(ids), false)));
                    tokens.push(token);
                }
                _ => fields.push(stored_field(field, field.name())?),
            }
        }
        tokens.sort_by(|a, b| a.name.cmp(&b.name));
        let num_task_columns = fields.len();
        fields.push(Arc::new(Field::new(ID, DataType::FixedSizeBinary(16), false)));
        fields.push(Arc::new(Field::new(ORIGIN, origin_type(), false)));
        let shard = Arc::new(Schema::new(fields.clone()));
        fields.push(Arc::new(Field::new(KEY, DataType::FixedSizeBinary(16), false)));
        Ok(Self {
            shard,
            spill: Arc::new(Schema::new(fields)),
            tokens,
            num_task_columns,
            has_sql_keys: false,
        })
    }

    /// The same columns with one for the keys of rows.
    pub(crate) fn with_sql_keys(mut self) -> Self {
        let with_key = |schema: &Schema, place: usize| {
            let mut fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
            fields.insert(place, Arc::new(Field::new(SQL_KEY, DataType::Utf8, false)));
            Arc::new(Schema::new(fields))
        };
        let place = self.num_task_columns + 2;
        self.shard = with_key(&self.shard, place);
        self.spill = with_key(&self.spill, place);
        self.has_sql_keys = true;
        self
    }

    /// The place of the sort keys in a spill.
    pub(crate) fn key_place(&self) -> usize {
        self.num_task_columns + 2 + usize::from(self.has_sql_keys)
    }

    /// The columns of an existing cache; `None` if a token feature is not among them.
    pub(crate) fn of_shard(shard: &SchemaRef, features: &BTreeMap<String, StoredFeature>) -> Option<Self> {
        let token = |(name, feature): (&String, &StoredFeature)| {
            let vocab_size = usize::try_from(feature.vocab_size).ok()?;
            Some(TokenColumn { name: name.clone(), index: shard.index_of(name).ok()?, vocab_size })
        };
        let tokens = features.iter().map(token).collect::<Option<Vec<_>>>()?;
        let num_task_columns = shard.index_of(ID).ok()?;
        let mut fields: Vec<FieldRef> = shard.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(KEY, DataType::FixedSizeBinary(16), false)));
        Some(Self {
            shard: Arc::clone(shard),
            spill: Arc::new(Schema::new(fields)),
            tokens,
            num_task_columns,
            has_sql_keys: shard.index_of(SQL_KEY).is_ok(),
        })
    }

    /// Brings examples into the form of a spill. `keys` has one sort key for each row.
    pub(crate) fn store(
        &self,
        columns: &RecordBatch,
        rows: &[ExampleRow],
        keys: &[[u8; 16]],
    ) -> Result<RecordBatch, CacheError> {
        let mut stored: Vec<ArrayRef> = Vec::with_capacity(self.spill.fields().len());
        for (index, column) in columns.columns().iter().enumerate() {
            let wanted = self.spill.field(index);
            let array = match self.tokens.iter().find(|token| token.index == index) {
                Some(token) => narrow(token, column.as_list())?,
                None if column.data_type() == wanted.data_type() => Arc::clone(column),
                None => arrow::compute::cast(column, wanted.data_type())?,
            };
            stored.push(array);
        }
        let ids: Vec<u8> = rows.iter().flat_map(|row| row.id.0).collect();
        stored.push(binary_16(ids));
        stored.push(origins(rows.iter().map(|row| row.origins.as_slice())));
        if self.has_sql_keys {
            stored.push(Arc::new(StringArray::from_iter_values(
                rows.iter().map(|row| row.key.as_deref().unwrap_or_default()),
            )));
        }
        stored.push(binary_16(keys.concat()));
        Ok(RecordBatch::try_new(Arc::clone(&self.spill), stored)?)
    }
}

/// `List<item: ids not null>`.
fn list_of(ids: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(ids, false)))
}

fn origin_fields() -> Fields {
    Fields::from(vec![
        Field::new("file", DataType::UInt32, false),
        Field::new("row", DataType::UInt64, false),
        Field::new("offset", DataType::UInt64, false),
        Field::new("length", DataType::UInt64, false),
    ])
}

fn origin_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Struct(origin_fields()), false)))
}

/// A column of 16-byte values.
pub(crate) fn binary_16(bytes: Vec<u8>) -> ArrayRef {
    let array = FixedSizeBinaryArray::try_new(16, Buffer::from_vec(bytes), None);
    Arc::new(array.expect("whole values of 16 bytes"))
}

/// A column of origins.
pub(crate) fn origins<'a>(rows: impl Iterator<Item = &'a [Origin]>) -> ArrayRef {
    let mut columns = OriginColumns::default();
    for row in rows {
        for origin in row {
            columns.push(*origin);
        }
        columns.end_row();
    }
    columns.finish()
}

/// Collects a column of origins.
#[derive(Debug)]
pub(crate) struct OriginColumns {
    ends: Vec<i32>,
    file: Vec<u32>,
    row: Vec<u64>,
    offset: Vec<u64>,
    length: Vec<u64>,
}

impl Default for OriginColumns {
    fn default() -> Self {
        Self { ends: vec![0], file: Vec::new(), row: Vec::new(), offset: Vec::new(), length: Vec::new() }
    }
}

impl OriginColumns {
    pub(crate) fn push(&mut self, origin: Origin) {
        self.file.push(origin.file);
        self.row.push(origin.row);
        self.offset.push(origin.offset);
        self.length.push(origin.length);
    }

    pub(crate) fn end_row(&mut self) {
        self.ends.push(i32::try_from(self.file.len()).expect("a batch has fewer than 2^31 origins"));
    }

    pub(crate) fn finish(self) -> ArrayRef {
        let children: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(self.file)),
            Arc::new(UInt64Array::from(self.row)),
            Arc::new(UInt64Array::from(self.offset)),
            Arc::new(UInt64Array::from(self.length)),
        ];
        let values = StructArray::new(origin_fields(), children, None);
        list_array(Arc::new(values), self.ends)
    }
}

/// A list column without nulls from its values and the ends of its rows (with a 0 in front).
pub(crate) fn list_array(values: ArrayRef, ends: Vec<i32>) -> ArrayRef {
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), false));
    Arc::new(ListArray::new(item, OffsetBuffer::new(ScalarBuffer::from(ends)), values, None))
}

/// Token ids in as few bits as the vocabulary needs. A null sequence is an empty one.
fn narrow(token: &TokenColumn, lists: &ListArray) -> Result<ArrayRef, CacheError> {
    let ids = lists.values().as_primitive::<Int32Type>();
    let mut ends = Vec::with_capacity(lists.len() + 1);
    ends.push(0i32);
    let offsets = lists.value_offsets();
    let first = offsets.first().map_or(0, |&first| first as usize);
    let last = offsets.last().map_or(0, |&last| last as usize);
    if lists.null_count() == 0 && ids.null_count() == 0 {
        let kept = &ids.values()[first..last];
        ends.extend(offsets.iter().skip(1).map(|&end| end - first as i32));
        return narrow_ids(token, kept, ends);
    }
    let mut kept: Vec<i32> = Vec::with_capacity(last - first);
    for row in 0..lists.len() {
        if lists.is_valid(row) {
            for at in offsets[row] as usize..offsets[row + 1] as usize {
                if ids.is_null(at) {
                    let problem = "a token sequence holds a null; fill or drop nulls before the boundary";
                    return Err(column_error(&token.name, problem));
                }
                kept.push(ids.value(at));
            }
        }
        ends.push(kept.len() as i32);
    }
    narrow_ids(token, &kept, ends)
}

fn narrow_ids(token: &TokenColumn, ids: &[i32], ends: Vec<i32>) -> Result<ArrayRef, CacheError> {
    let size = token.vocab_size.min(i32::MAX as usize) as u32;
    // One pass that the compiler turns into vector code; the bad id is looked for only if there is one.
    let fits = ids.iter().fold(true, |fits, &id| fits & ((id as u32) < size));
    if !fits {
        let id = ids.iter().copied().find(|&id| id as u32 >= size).expect("one of them does not fit");
        return Err(CacheError::IdOutOfRange {
            feature: token.name.clone(),
            id: id.into(),
            size: token.vocab_size,
        });
    }
    let values: ArrayRef = if token.is_narrow() {
        Arc::new(UInt16Array::from_iter_values(ids.iter().map(|&id| id as u16)))
    } else {
        Arc::new(UInt32Array::from_iter_values(ids.iter().map(|&id| id as u32)))
    };
    Ok(list_array(values, ends))
}

/// A field as it is stored: without metadata, dictionaries and views spelled out.
fn stored_field(field: &FieldRef, column: &str) -> Result<FieldRef, CacheError> {
    let data_type = stored_type(field.data_type(), column)?;
    Ok(Arc::new(Field::new(field.name(), data_type, field.is_nullable())))
}

fn stored_type(data_type: &DataType, column: &str) -> Result<DataType, CacheError> {
    Ok(match data_type {
        DataType::Dictionary(_, values) => stored_type(values, column)?,
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) => DataType::List(stored_field(item, column)?),
        DataType::LargeList(item) => DataType::LargeList(stored_field(item, column)?),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(stored_field(item, column)?, *size),
        DataType::Struct(fields) => DataType::Struct(
            fields.iter().map(|field| stored_field(field, column)).collect::<Result<Fields, _>>()?,
        ),
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::Boolean
        | DataType::FixedSizeBinary(_) => data_type.clone(),
        plain if plain.is_primitive() => plain.clone(),
        other => {
            let problem =
                format!("a cache cannot hold its type, {other}; leave it out of the source's columns");
            return Err(column_error(column, &problem));
        }
    })
}

fn column_error(column: &str, problem: &str) -> CacheError {
    CacheError::Column { column: column.to_owned(), problem: problem.to_owned() }
}

/// Adds to `sizes` the bytes that each row of `array` takes: of fixed-size values their width (a boolean is one
/// byte), of strings and lists their content.
pub(crate) fn add_row_bytes(array: &dyn Array, sizes: &mut [u64]) {
    match array.data_type() {
        DataType::Utf8 => add_spans(array.as_string::<i32>().value_offsets(), sizes),
        DataType::Binary => add_spans(array.as_binary::<i32>().value_offsets(), sizes),
        DataType::LargeUtf8 => add_spans(array.as_string::<i64>().value_offsets(), sizes),
        DataType::LargeBinary => add_spans(array.as_binary::<i64>().value_offsets(), sizes),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            add_nested(lists.value_offsets(), lists.values(), sizes);
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            add_nested(lists.value_offsets(), lists.values(), sizes);
        }
        DataType::FixedSizeList(_, width) => {
            let lists = array.as_fixed_size_list();
            let ends: Vec<i64> = (0..=array.len() as i64).map(|row| row * i64::from(*width)).collect();
            let start = lists.value_offset(0) as usize;
            let values = lists.values().slice(start, array.len() * *width as usize);
            add_nested(&ends, &values, sizes);
        }
        DataType::Struct(_) => {
            for column in array.as_struct().columns() {
                add_row_bytes(column, sizes);
            }
        }
        DataType::FixedSizeBinary(width) => sizes.iter_mut().for_each(|size| *size += *width as u64),
        DataType::Boolean => sizes.iter_mut().for_each(|size| *size += 1),
        plain => {
            let width = plain.primitive_width().unwrap_or(0) as u64;
            sizes.iter_mut().for_each(|size| *size += width);
        }
    }
}

fn add_spans<O: Copy + Into<i64>>(offsets: &[O], sizes: &mut [u64]) {
    for (size, span) in sizes.iter_mut().zip(offsets.windows(2)) {
        *size += (span[1].into() - span[0].into()) as u64;
    }
}

fn add_nested<O: Copy + Into<i64>>(offsets: &[O], values: &ArrayRef, sizes: &mut [u64]) {
    if let Some(width) = values.data_type().primitive_width() {
        for (size, span) in sizes.iter_mut().zip(offsets.windows(2)) {
            *size += (span[1].into() - span[0].into()) as u64 * width as u64;
        }
        return;
    }
    let mut inner = vec![0; values.len()];
    add_row_bytes(values, &mut inner);
    for (size, span) in sizes.iter_mut().zip(offsets.windows(2)) {
        let (start, end): (i64, i64) = (span[0].into(), span[1].into());
        *size += inner[start as usize..end as usize].iter().sum::<u64>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, ListBuilder, StringDictionaryBuilder};
    use arrow::array::{Int32Builder, StringBuilder};
    use arrow::datatypes::Int8Type;
    use seqio::ExampleId;

    fn token_lists(rows: Vec<Option<Vec<i32>>>) -> ArrayRef {
        let mut lists = ListBuilder::new(Int32Builder::new());
        for row in rows {
            match row {
                Some(ids) => {
                    lists.values().append_slice(&ids);
                    lists.append(true);
                }
                None => lists.append(false),
            }
        }
        Arc::new(lists.finish())
    }

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
            .unwrap()
    }

    fn rows(count: u64) -> Vec<ExampleRow> {
        (0..count)
            .map(|row| {
                ExampleRow::new(
                    ExampleId::new("s", "f", 0, row),
                    vec![Origin { file: 0, row, offset: 10 * row, length: 10 }],
                )
            })
            .collect()
    }

    #[test]
    fn ids_are_stored_in_as_few_bits_as_the_vocabulary_needs_and_nulls_as_empty() {
        let examples = batch(vec![
            ("small", token_lists(vec![Some(vec![1, 65_535]), None, Some(vec![])])),
            ("large", token_lists(vec![Some(vec![70_000]), Some(vec![3]), None])),
        ]);
        let sizes = BTreeMap::from([("small".to_owned(), 65_536), ("large".to_owned(), 100_000)]);
        let columns = StoredColumns::new(&examples.schema(), &sizes).unwrap();
        let stored = columns.store(&examples, &rows(3), &[[0; 16]; 3]).unwrap();
        assert_eq!(stored.column(0).data_type(), &list_of(DataType::UInt16));
        assert_eq!(stored.column(1).data_type(), &list_of(DataType::UInt32));
        assert_eq!(stored.column(0).as_list::<i32>().value_offsets(), [0, 2, 2, 2]);
        assert_eq!(
            columns.tokens.iter().map(|token| token.name.as_str()).collect::<Vec<_>>(),
            ["large", "small"]
        );
    }

    #[test]
    fn an_id_outside_the_vocabulary_is_refused_with_its_feature() {
        for id in [-1, 10] {
            let examples = batch(vec![("targets", token_lists(vec![Some(vec![id])]))]);
            let sizes = BTreeMap::from([("targets".to_owned(), 10)]);
            let columns = StoredColumns::new(&examples.schema(), &sizes).unwrap();
            let error = columns.store(&examples, &rows(1), &[[0; 16]]).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("feature `targets` has the id {id}, but ids go from 0 to 9")
            );
        }
    }

    #[test]
    fn a_slice_of_a_batch_is_stored_like_a_batch_of_its_own() {
        let examples = batch(vec![
            ("targets", token_lists(vec![Some(vec![1]), Some(vec![2, 3]), Some(vec![4])])),
            ("text", Arc::new(StringArray::from(vec!["a", "bc", "d"]))),
        ]);
        let sizes = BTreeMap::from([("targets".to_owned(), 10)]);
        let columns = StoredColumns::new(&examples.schema(), &sizes).unwrap();
        let stored = columns.store(&examples.slice(1, 2), &rows(2), &[[0; 16]; 2]).unwrap();
        let lists = stored.column(0).as_list::<i32>();
        assert_eq!(lists.value_offsets(), [0, 2, 3]);
        let mut bytes = vec![0; 2];
        add_row_bytes(stored.column(1), &mut bytes);
        assert_eq!(bytes, [2, 1]);
    }

    #[test]
    fn dictionaries_are_spelled_out_and_reserved_names_refused() {
        let mut words = StringDictionaryBuilder::<Int8Type>::new();
        words.append_value("a");
        words.append_value("a");
        let examples = batch(vec![("word", Arc::new(words.finish()))]);
        let columns = StoredColumns::new(&examples.schema(), &BTreeMap::new()).unwrap();
        let stored = columns.store(&examples, &rows(2), &[[0; 16]; 2]).unwrap();
        assert_eq!(stored.column(0).data_type(), &DataType::Utf8);
        let reserved = Schema::new(vec![Field::new("_id", DataType::Int32, true)]);
        assert!(StoredColumns::new(&reserved, &BTreeMap::new()).is_err());
    }

    #[test]
    fn row_bytes_count_the_content_of_nested_columns() {
        let mut words = ListBuilder::new(StringBuilder::new());
        words.values().append_value("abc");
        words.values().append_value("d");
        words.append(true);
        words.append(true);
        let mut bytes = vec![0; 2];
        add_row_bytes(&words.finish(), &mut bytes);
        add_row_bytes(&BooleanArray::from(vec![true, false]), &mut bytes);
        assert_eq!(bytes, [5, 1]);
    }
}
