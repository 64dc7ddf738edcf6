//! Records of TensorFlow and SeqIO, by the laws of sources, and damaged in every way.

use std::path::Path;

use arrow::array::AsArray as _;
use arrow::datatypes::{Float32Type, Int32Type, Int64Type};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::frames::MAX_RECORD_BYTES;
use super::proto::{Values, features};
use super::*;
use crate::source::compression::tests::{SUFFIXES, pack};
use crate::source::crc32c::masked_crc32c;
use crate::source::testing::{assert_source_laws, show};
use crate::source::{OnBadRow, SourceSpec};
use crate::vocabulary::golden::{bytes as golden_bytes, rows as golden_rows};

/// A record between its checksums.
pub(in crate::source) fn frame(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let checksum = |bytes| masked_crc32c(bytes).to_le_bytes();
    [&length[..], &checksum(&length), data, &checksum(data)].concat()
}

/// Field `number` of a protocol buffer, with these bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut length = bytes.len();
    let mut out = vec![number << 3 | 2];
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    [out, bytes.to_vec()].concat()
}

fn varint(number: i64) -> Vec<u8> {
    let mut left = number as u64;
    let mut out = Vec::new();
    while left >= 0x80 {
        out.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
    out
}

/// A feature: `null` has no kind, texts are bytes, numbers with a point floats.
fn feature(value: &Value) -> Vec<u8> {
    let Value::Array(values) = value else { return Vec::new() };
    let texts: Vec<u8> =
        values.iter().filter_map(Value::as_str).flat_map(|text| field(1, text.as_bytes())).collect();
    let numbers = || values.iter().filter(|value| value.is_number());
    match values.first() {
        Some(Value::String(_)) => field(1, &texts),
        Some(first) if first.is_f64() => {
            let floats = numbers().flat_map(|number| (number.as_f64().unwrap() as f32).to_le_bytes());
            field(2, &field(1, &floats.collect::<Vec<u8>>()))
        }
        _ => field(
            3,
            &field(1, &numbers().flat_map(|number| varint(number.as_i64().unwrap())).collect::<Vec<u8>>()),
        ),
    }
}

/// A `tf.train.Example` with these features.
pub(in crate::source) fn example(features: &Value) -> Vec<u8> {
    let entries = features.as_object().unwrap().iter().flat_map(|(name, value)| {
        let entry = [field(1, name.as_bytes()), field(2, &feature(value))].concat();
        field(1, &entry)
    });
    field(1, &entries.collect::<Vec<u8>>())
}

/// A file of these examples.
pub(in crate::source) fn file(examples: &[Value]) -> Vec<u8> {
    examples.iter().flat_map(|features| frame(&example(features))).collect()
}

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

fn spec() -> SourceSpec {
    SourceSpec::tfrecord([("train", "*.tfrecord*")])
}

fn declared(columns: &[(&str, &str)]) -> SourceSpec {
    columns
        .iter()
        .fold(spec(), |spec, (name, column)| spec.column(*name, column.parse::<ColumnSpec>().unwrap()))
}

/// A source of the files in `dir`, cut at small sizes.
fn source(dir: &Path, spec: &SourceSpec, cutting: Cutting) -> TfRecordSource {
    let columns = spec.columns.clone();
    TfRecordSource::new(spec.listing("docs", dir), columns).with_cutting(cutting)
}

fn read(dir: &Path, spec: &SourceSpec) -> String {
    let source = spec.open("docs", dir).unwrap();
    assert_source_laws(&*source, "train")
}

/// What one file of these bytes comes to.
fn read_bytes(columns: &[(&str, &str)], bytes: &[u8]) -> String {
    let dir = folder(&[("a.tfrecord", bytes)]);
    assert_source_laws(&source(dir.path(), &declared(columns), Cutting::default()), "train")
}

fn open_error(spec: &SourceSpec, bytes: &[u8]) -> String {
    let dir = folder(&[("a.tfrecord", bytes)]);
    let error = spec.open("docs", dir.path()).unwrap_err().to_string();
    error.replace(dir.path().to_str().unwrap(), "DIR")
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn records_are_decoded_as_seqio_made_them() {
    let rows = golden_rows("seqio/tfexample.jsonl");
    assert_eq!(rows.len(), 8);
    for row in rows {
        let found = features(&hex(row["serialized_hex"].as_str().unwrap())).unwrap();
        let found: serde_json::Map<String, Value> = found
            .into_iter()
            .map(|(name, feature)| {
                let values = match feature.values.unwrap() {
                    Values::Bytes(list) => {
                        let texts = list
                            .value
                            .iter()
                            .map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
                        json!({ "bytes_list": texts.collect::<Vec<_>>() })
                    }
                    Values::Floats(list) => json!({ "float_list": list.value }),
                    Values::Ints(list) => json!({ "int64_list": list.value }),
                };
                (name, values)
            })
            .collect();
        assert_eq!(Value::from(found), row["features"], "{}", row["name"]);
    }
}

/// The first 32 bits of the fraction of a prime's root, square (`power` 2) or cube (3).
fn root_bits(prime: u128, power: u32) -> u32 {
    // The largest number whose power is at most the prime, in units of 2^-32.
    let (mut low, mut high) = (0u128, 1u128 << 37);
    let fits = |root: u128| root.pow(power) <= prime << (32 * power);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    low as u32
}

/// SHA-256 as FIPS 180-4 has it, by which SeqIO's records are told.
fn sha256(bytes: &[u8]) -> String {
    let primes: Vec<u128> = (2u128..).filter(|n| (2..*n).all(|d| n % d != 0)).take(64).collect();
    let constants: Vec<u32> = primes.iter().map(|&prime| root_bits(prime, 3)).collect();
    let mut state: Vec<u32> = primes[..8].iter().map(|&prime| root_bits(prime, 2)).collect();
    let zeros = (119 - bytes.len() % 64) % 64;
    let length = (bytes.len() as u64 * 8).to_be_bytes();
    let padded = [bytes, &[0x80], &vec![0; zeros], &length].concat();
    for block in padded.chunks(64) {
        let mut words: Vec<u32> =
            block.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
        for at in 16..64 {
            let (a, b) = (words[at - 15], words[at - 2]);
            let a = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
            let b = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
            words.push(words[at - 16].wrapping_add(a).wrapping_add(words[at - 7]).wrapping_add(b));
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h]: [u32; 8] =
            state.clone().try_into().unwrap();
        for (word, constant) in words.iter().zip(&constants) {
            let sum = (e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25))
                .wrapping_add((e & f) ^ (!e & g))
                .wrapping_add(h)
                .wrapping_add(*constant)
                .wrapping_add(*word);
            let other = (a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22))
                .wrapping_add((a & b) ^ (a & c) ^ (b & c));
            (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(sum), c, b, a, sum.wrapping_add(other));
        }
        state = state.iter().zip([a, b, c, d, e, f, g, h]).map(|(old, new)| old.wrapping_add(new)).collect();
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

#[test]
fn shards_of_a_cache_have_the_records_that_seqio_counts() {
    assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let files: Value = serde_json::from_slice(&golden_bytes("seqio/cache_files.json")).unwrap();
    let mut checked = 0;
    for (name, entry) in files.as_object().unwrap() {
        let bytes = golden_bytes(&format!("seqio/cache/genesis/seq2seq/{name}"));
        let frames: Vec<_> = frames_of(&bytes).collect();
        let sizes: Vec<usize> = frames.iter().map(|frame| frame.data(0).unwrap().len()).collect();
        assert_eq!(json!(sizes), entry["record_sizes"], "{name}");
        assert_eq!(json!(bytes.len()), entry["bytes"]);
        assert_eq!(json!(frames.len()), entry["records"]);
        let joined: Vec<u8> = frames.iter().flat_map(|frame| frame.data(0).unwrap()).copied().collect();
        assert_eq!(json!(sha256(&joined)), entry["sha256_of_records"], "{name}");
        checked += 1;
    }
    assert_eq!(checked, 8);
}

#[test]
fn features_become_columns_of_every_type() {
    let bytes = file(&[
        json!({ "b": [1], "d": [0.5], "f": [2.5], "i": [-7], "l": [1_099_511_627_776i64], "li": [1, 2], "ls": ["x", ""],
                "s": ["é\n"], "fromint": [3] }),
        json!({ "b": [0], "d": [1.0], "f": [-1.5], "i": [0], "l": [-1], "li": [], "ls": null, "s": [""], "fromint": [0],
                "more": ["x"] }),
    ]);
    let columns = [
        ("b", "bool"),
        ("d", "float64"),
        ("f", "float32"),
        ("fromint", "float32"),
        ("i", "int32"),
        ("l", "int64"),
        ("li", "list<int32>"),
        ("ls", "list<string>"),
        ("none", "int32?"),
        ("s", "string"),
    ];
    insta::assert_snapshot!(read_bytes(&columns, &bytes), @r"
    row 0 @0+160: b=true d=0.5 f=2.5 fromint=3.0 i=-7 l=1099511627776 li=[1, 2] ls=[x, ] none=null s=é\n
    row 1 @160+158: b=false d=1.0 f=-1.5 fromint=0.0 i=0 l=-1 li=[] ls=[] none=null s=
    ");
}

#[test]
fn what_does_not_fit_is_a_bad_record_and_says_why() {
    let bytes = file(&[
        json!({ "text": ["a", "b"] }),
        json!({ "texts": ["a"], "n": [1] }),
        json!({ "text": [1] }),
        json!({ "text": null }),
        json!({ "text": ["good"], "n": [3_000_000_000i64] }),
        json!({ "text": ["good"], "n": [1.5] }),
        json!({ "text": ["good"], "n": [] }),
        json!({ "text": ["good"], "ids": [1, 3_000_000_000i64] }),
        json!({ "text": ["good"], "flag": [2] }),
    ]);
    let more = [
        frame(b"\x0a\xff"),
        frame(&[example(&json!({ "text": ["a"] })), field(2, b"")].concat()),
        frame(
            &example(&json!({ "text": ["caf?"] }))
                .iter()
                .map(|&b| if b == b'?' { 0xe9 } else { b })
                .collect::<Vec<_>>(),
        ),
        frame(b""),
    ];
    let columns = [("flag", "bool?"), ("ids", "list<int32>?"), ("n", "int32?"), ("text", "string")];
    insta::assert_snapshot!(read_bytes(&columns, &[bytes, more.concat()].concat()), @"
    bad 0 @0: `text` should be a string, but has 2 values
    bad 1 @36: there is no feature `text`, only `n`, `texts` (did you mean `texts`?)
    bad 2 @82: `text` should be a string, but holds whole numbers
    bad 3 @115: `text` has no value
    bad 4 @143: `n` should be an int32, but is the number 3000000000
    bad 5 @195: `n` should be an int32, but holds floats
    row 6 @246+47: flag=null ids=null n=null text=good
    bad 7 @293: item 2 of `ids` should be an int32, but is the number 3000000000
    bad 8 @348: `flag` should be a bool, but is the number 2
    bad 9 @399: is no `tf.train.Example`: failed to decode Protobuf message: ExampleProto.features: invalid varint
    bad 10 @417: is a `tf.train.SequenceExample`, and no `tf.train.Example`
    bad 11 @452: `text` is not valid UTF-8 at byte 4
    bad 12 @488: there is no feature `text`, only nothing
    ");
}

#[test]
fn infinities_and_what_is_no_number_are_floats() {
    let floats = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE];
    let packed: Vec<u8> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
    let entry = [field(1, b"f"), field(2, &field(2, &field(1, &packed)))].concat();
    let bytes = frame(&field(1, &field(1, &entry)));
    let shown = read_bytes(&[("f", "list<float32>")], &bytes);
    assert!(shown.ends_with("f=[inf, -inf, NaN, 1.1754944e-38]\n"), "{shown}");
}

#[test]
fn columns_are_inferred_from_the_first_records() {
    let dir = folder(&[
        ("a.tfrecord", b""),
        (
            "b.tfrecord",
            &file(&[
                json!({ "text": ["a"], "ids": [1, 2], "label": [3], "big": [1, 3_000_000_000i64], "none": null, "e": [] }),
                json!({ "text": ["b"], "ids": [], "label": [4], "score": [0.5], "big": [], "e": [0.5] }),
            ]),
        ),
        ("c.tfrecord", &file(&[json!({ "other": [1] })])),
    ]);
    let pinned = spec().pin("docs", dir.path()).unwrap();
    let columns: Vec<_> = pinned.columns.iter().map(|(name, column)| format!("{name}: {column}")).collect();
    assert_eq!(
        columns,
        [
            "big: list<int64>",
            "e: list<float32>",
            "ids: list<int32>",
            "label: int64",
            "score: float32?",
            "text: string"
        ]
    );
    let shown = read(dir.path(), &spec());
    assert!(shown.contains("there is no feature `big`, only `other`"), "{shown}");
}

#[test]
fn mistakes_are_told_when_a_source_is_opened() {
    let good = file(&[json!({ "text": ["a"] })]);
    insta::assert_snapshot!(open_error(&spec(), b"some text that is no TFRecord"), @"DIR/a.tfrecord: is no TFRecord file: it does not begin with a length and its checksum");
    insta::assert_snapshot!(open_error(&spec(), b"short"), @"DIR/a.tfrecord: is no TFRecord file: it has fewer bytes than the head of a record");
    insta::assert_snapshot!(open_error(&spec(), &pack(&good, "gz")), @"DIR/a.tfrecord: is gzip, but its name does not end in `.gz`; rename it");
    insta::assert_snapshot!(open_error(&spec(), b""), @r#"the files of `docs` hold no records, so its columns cannot be inferred; declare them, as `columns = { text = "string" }`"#);
    insta::assert_snapshot!(open_error(&spec(), &good[..20]), @"DIR/a.tfrecord: the file ends within the record at byte 0, which should have 17 bytes");
    insta::assert_snapshot!(open_error(&spec(), &frame(b"{\"text\": \"a\"}")), @"DIR/a.tfrecord: none of the first 1 records can be read: record 1: is no `tf.train.Example`: failed to decode Protobuf message: buffer underflow");
    insta::assert_snapshot!(open_error(&spec(), &file(&[json!({ "a": [1] }), json!({ "a": ["x"], "b": [1, 2] })])), @r#"DIR/a.tfrecord: feature `a` holds whole numbers and texts, which no column can; declare the columns to read, as `columns = { b = "list<int32>?" }`"#);
    insta::assert_snapshot!(open_error(&declared(&[("txt", "string")]), &good), @"DIR/a.tfrecord: none of the first 1 records fits the declared columns: record 1: there is no feature `txt`, only `text` (did you mean `text`?)");
    let mut image = example(&json!({ "jpeg": ["????"] }));
    image.iter_mut().filter(|byte| **byte == b'?').for_each(|byte| *byte = 0xff);
    insta::assert_snapshot!(open_error(&spec(), &frame(&image)), @"DIR/a.tfrecord: has no feature that can be read, only what is empty or bytes that are no text: `jpeg`");
    let head = (MAX_RECORD_BYTES + 1).to_le_bytes();
    let long = [&head[..], &masked_crc32c(&head).to_le_bytes(), &[0; 100]].concat();
    insta::assert_snapshot!(open_error(&spec(), &long), @"DIR/a.tfrecord: the record at byte 0 has 268435457 bytes; no record may have more than 268435456");
}

#[test]
fn a_length_that_looks_like_the_head_of_gzip_is_a_length() {
    let text = "x".repeat(0x8b1f - 29);
    let bytes = file(&[json!({ "text": [text] })]);
    let found = u16::from_le_bytes([bytes[0], bytes[1]]);
    let short = "x".repeat(text.len() + 0x8b1f - usize::from(found));
    let bytes = file(&[json!({ "text": [short] })]);
    assert_eq!(bytes[..2], [0x1f, 0x8b]);
    let dir = folder(&[("a.tfrecord", &bytes)]);
    assert_eq!(spec().open("docs", dir.path()).unwrap().files("train").unwrap().len(), 1);
    assert!(read(dir.path(), &spec()).starts_with("row 0 "));
}

/// Ten records of growing length.
fn ten() -> Vec<u8> {
    let record = |n: usize| json!({ "text": ["x".repeat(n * 3)], "n": [n] });
    file(&(0..10).map(record).collect::<Vec<_>>())
}

const TEN: &[(&str, &str)] = &[("n", "int64"), ("text", "string")];

#[test]
fn a_flipped_bit_spoils_its_record_or_what_follows() {
    let whole = ten();
    let starts: Vec<usize> = frames_of(&whole).map(|frame| frame.start).collect();
    let mut bytes = whole.clone();
    bytes[starts[3] + 20] ^= 4;
    let shown = read_bytes(TEN, &bytes);
    assert_eq!(shown.lines().count(), 10);
    let bad = shown.lines().nth(3).unwrap();
    insta::assert_snapshot!(bad, @"bad 3 @141: the data of the record at byte 141 (37 bytes) fail their checksum: 3e52ac3c is stored, 97434eab is found");
    let mut bytes = whole.clone();
    bytes[starts[3] + 1] ^= 4;
    let shown = read_bytes(TEN, &bytes);
    assert_eq!(shown.lines().count(), 4);
    insta::assert_snapshot!(shown.lines().last().unwrap(), @"bad 3 @141: the length of the record at byte 141 fails its checksum, so that nothing after it can be found");
    let cut = read_bytes(TEN, &whole[..starts[7] + 30]);
    assert_eq!(cut.lines().count(), 8);
    insta::assert_snapshot!(cut.lines().last().unwrap(), @"bad 7 @371: the file ends within the record at byte 371, which should have 49 bytes");
    let cut = read_bytes(TEN, &whole[..starts[7] + 5]);
    insta::assert_snapshot!(cut.lines().last().unwrap(), @"bad 7 @371: the file ends within the head of the record at byte 371");
}

#[test]
fn the_bytes_of_a_bad_record_are_its_frame() {
    let mut bytes = ten();
    let starts: Vec<usize> = frames_of(&bytes).map(|frame| frame.start).collect();
    bytes[starts[3] + 20] ^= 4;
    let dir = folder(&[("a.tfrecord", &bytes)]);
    let spec = declared(TEN).on_bad_row(OnBadRow::SetAside);
    let source = spec.open("docs", dir.path()).unwrap();
    let file = &source.files("train").unwrap()[0];
    let chunk = source.read(file, 0, None, Box::new(|_| false)).unwrap().next().unwrap().unwrap();
    let parsed = source.parse(file, &chunk).unwrap();
    assert_eq!(chunk.bytes_of(&parsed.bad_rows[0]), Some(&bytes[starts[3]..starts[4]]));
}

#[test]
fn a_compressed_file_has_the_records_of_the_plain_one_also_cut() {
    // So many that a cut stream of any kind has some whole ones.
    let records: Vec<Value> = (0..6000)
        .map(|n: i64| json!({ "text": [format!("{}", n * n * 7919 % 100_003)], "n": [n] }))
        .collect();
    let bytes = file(&records);
    let plain = read_bytes(TEN, &bytes);
    for suffix in SUFFIXES {
        let name = format!("a.tfrecord.{suffix}");
        let packed = pack(&bytes, suffix);
        let dir = folder(&[(&name, &packed)]);
        assert_eq!(read(dir.path(), &spec()), plain);
        std::fs::write(dir.path().join(&name), &packed[..packed.len() - 10]).unwrap();
        let shown = read(dir.path(), &declared(TEN));
        assert!(shown.lines().last().unwrap().contains(" stream ends early, within the "), "{shown}");
        assert_eq!(shown.matches("bad").count(), 1);
    }
}

#[test]
fn a_genuine_cache_is_read_as_plain_records_too() {
    let bytes = golden_bytes("seqio/cache/genesis/seq2seq/train.tfrecord-00000-of-00004");
    let dir = folder(&[("train.tfrecord-00000-of-00004", &bytes)]);
    let source = spec().open("docs", dir.path()).unwrap();
    let file = &source.files("train").unwrap()[0];
    let chunk = source.read(file, 0, None, Box::new(|_| false)).unwrap().next().unwrap().unwrap();
    let columns = source.parse(file, &chunk).unwrap().examples.columns;
    assert_eq!(columns.num_rows(), 90);
    let ids = columns.column_by_name("id").unwrap().as_primitive::<Int64Type>();
    let scores = columns.column_by_name("score").unwrap().as_primitive::<Float32Type>();
    let matrix = columns.column_by_name("matrix").unwrap().as_list::<i32>();
    for row in 0..90 {
        assert_eq!(scores.value(row), ids.value(row) as f32 / 8.0);
        let id = i32::try_from(ids.value(row)).unwrap();
        let flat = matrix.value(row);
        assert_eq!(flat.as_primitive::<Int32Type>().values()[..], (id..id + 6).collect::<Vec<_>>()[..]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn files_obey_the_laws_wherever_they_are_cut(
        lengths in prop::collection::vec(0..60usize, 0..30), range_bytes in 1..400u64, chunk_bytes in 1..200usize,
    ) {
        let records: Vec<Value> = lengths.iter().map(|&n| json!({ "text": ["x".repeat(n)], "n": [n] })).collect();
        let bytes = file(&records);
        let dir = folder(&[("a.tfrecord", &bytes), ("b.tfrecord.gz", &pack(&bytes, "gz"))]);
        let cutting = Cutting { range_bytes, chunk_bytes };
        let shown = assert_source_laws(&source(dir.path(), &declared(TEN), cutting), "train");
        prop_assert_eq!(shown.lines().count(), 2 * records.len());
        let (plain, packed) = shown.split_at(shown.len() / 2);
        prop_assert_eq!(plain, packed);
    }

    #[test]
    fn any_bytes_are_read_or_refused_without_a_panic(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        how in 0..4u8,
    ) {
        let mut bytes = match how {
            0 => noise,
            // Checksums are good, and what they guard is not.
            1 => frame(&noise),
            _ => ten(),
        };
        for (index, byte) in flips {
            if !bytes.is_empty() {
                let index = index.index(bytes.len());
                bytes[index] = byte;
            }
        }
        if how == 3 {
            // As above, in each record.
            bytes = frames_of(&ten()).zip(bytes.chunks(37)).flat_map(|(_, data)| frame(data)).collect();
        }
        if let Some(cut) = cut.filter(|_| !bytes.is_empty()) {
            bytes.truncate(cut.index(bytes.len()));
        }
        let dir = folder(&[("a.tfrecord", &bytes)]);
        let _ = spec().open("docs", dir.path());
        let _ = declared(TEN).open("docs", dir.path());
        let source = source(dir.path(), &declared(TEN), Cutting { range_bytes: 50, chunk_bytes: 20 });
        let file = &source.files("train").unwrap()[0];
        let _ = source.ranges(file, 0);
        let mut records = 0;
        for chunk in source.read(file, 0, None, Box::new(|_| false)).unwrap() {
            // A length with a good checksum may be too large.
            let Ok(chunk) = chunk else { return Ok(()) };
            records += chunk.num_records;
            show(&source.parse(file, &chunk).unwrap());
        }
        let counted: u64 = source.count_records(file, 0).unwrap().iter().map(|(_, count)| count).sum();
        prop_assert_eq!(counted, records);
    }
}
