//! Zarr arrays, version 2, in folders: chunks of one size, each a file, compressed with gzip or not at all.
//!
//! ```text
//! target.encoder.encoder_norm.scale/.zarray   {"shape": [512], "chunks": [256], "dtype": "<f4", …}
//!                                   0, 1      the chunks
//! ```

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::checkpoint::element::Element;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::{TensorSpec, checked_elements, zeros};
use crate::number;
use crate::shape::Shape;

/// An array whose metadata were read.
#[derive(Debug)]
pub(super) struct ZarrArray {
    folder: PathBuf,
    spec: TensorSpec,
    chunks: Vec<usize>,
    is_gzip: bool,
    fill: f32,
    separator: char,
}

/// What `.zarray` holds.
#[derive(Deserialize)]
struct Metadata {
    zarr_format: u64,
    shape: Vec<usize>,
    chunks: Vec<usize>,
    dtype: Value,
    compressor: Option<Compressor>,
    fill_value: Value,
    order: String,
    #[serde(default)]
    filters: Value,
    #[serde(default)]
    dimension_separator: Option<char>,
}

#[derive(Deserialize)]
struct Compressor {
    id: String,
}

impl ZarrArray {
    /// Opens an array by its folder.
    pub(super) fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let path = folder.join(".zarray");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(CheckpointError::damaged(&path, "it is missing"));
            }
            Err(error) => return Err(CheckpointError::io("read", &path)(error)),
        };
        let metadata: Metadata = serde_json::from_slice(&text)
            .map_err(|error| CheckpointError::damaged(&path, format!("it describes no array: {error}")))?;
        Self::of(folder, metadata).map_err(|problem| CheckpointError::unsupported(&path, problem))
    }

    fn of(folder: &Path, metadata: Metadata) -> Result<Self, String> {
        let Metadata { zarr_format, shape, chunks, dtype, compressor, fill_value, .. } = metadata;
        if zarr_format != 2 {
            return Err(format!("it has zarr format {zarr_format}, and only format 2 can be read"));
        }
        let element = dtype.as_str().and_then(Element::of_zarr);
        let element =
            element.ok_or_else(|| format!("its elements are of kind {dtype}, which is not known"))?;
        let is_gzip = match compressor.as_ref().map(|compressor| compressor.id.as_str()) {
            None => false,
            Some("gzip") => true,
            Some(other) => {
                return Err(format!("it is compressed with `{other}`, and only `gzip` can be read"));
            }
        };
        let order = metadata.order;
        if order != "C" {
            return Err(format!("its elements are in order `{order}`, and only `C`, row-major, can be read"));
        }
        if !metadata.filters.is_null() {
            let filters = metadata.filters;
            return Err(format!(
                "its elements are filtered by {filters}, and only unfiltered ones can be read"
            ));
        }
        // Without a value, chunks that were never written are zeros, as for TensorStore.
        let fill = match &fill_value {
            Value::Null => Some(0.0),
            Value::Bool(value) => Some(f64::from(u8::from(*value))),
            value => number::from_json(value),
        };
        let fill = fill.ok_or_else(|| format!("its fill value is {fill_value}, which is no number"))? as f32;
        let separator = metadata.dimension_separator.unwrap_or('.');
        if chunks.len() != shape.len() || chunks.contains(&0) || !['.', '/'].contains(&separator) {
            return Err(format!(
                "its shape {shape:?} is cut into chunks of {chunks:?}, their numbers separated by `{separator}`"
            ));
        }
        if checked_elements(&shape).is_none() || checked_elements(&chunks).is_none() {
            return Err(format!("its shape is said to be {shape:?}, in chunks of {chunks:?}"));
        }
        let spec = TensorSpec { shape: Shape::new(shape), element };
        Ok(Self { folder: folder.to_owned(), spec, chunks, is_gzip, fill, separator })
    }

    pub(super) fn spec(&self) -> &TensorSpec {
        &self.spec
    }

    /// All numbers; beside them there is one chunk in memory.
    pub(super) fn read(&self) -> Result<Vec<f32>, CheckpointError> {
        let shape = self.spec.shape.dims();
        let unsupported = |problem| CheckpointError::unsupported(&self.folder, problem);
        let mut values = zeros(self.spec.shape.elements()).map_err(unsupported)?;
        if values.is_empty() {
            return Ok(values);
        }
        if self.fill != 0.0 {
            values.fill(self.fill);
        }
        let counts: Vec<usize> =
            shape.iter().zip(&self.chunks).map(|(dim, chunk)| dim.div_ceil(*chunk)).collect();
        let mut index = vec![0; shape.len()];
        let mut bytes = Vec::new();
        loop {
            let path = self.chunk_path(&index);
            if self.read_chunk(&path, &mut bytes)? {
                self.place(&index, &bytes, &mut values)
                    .map_err(|problem| CheckpointError::unsupported(&path, problem))?;
            }
            if !advance(&mut index, &counts) {
                return Ok(values);
            }
        }
    }

    fn chunk_path(&self, index: &[usize]) -> PathBuf {
        let numbers: Vec<String> = index.iter().map(usize::to_string).collect();
        let name =
            if numbers.is_empty() { "0".to_owned() } else { numbers.join(&self.separator.to_string()) };
        self.folder.join(name)
    }

    /// Reads a chunk; false if it was never written.
    fn read_chunk(&self, path: &Path, bytes: &mut Vec<u8>) -> Result<bool, CheckpointError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(CheckpointError::io("read", path)(error)),
        };
        let wanted = self.chunks.iter().product::<usize>() * self.spec.element.bytes();
        bytes.clear();
        // No more than is wanted, and one to tell that there is more.
        let limit = wanted as u64 + 1;
        let read = if self.is_gzip {
            flate2::read::MultiGzDecoder::new(file).take(limit).read_to_end(bytes)
        } else {
            file.take(limit).read_to_end(bytes)
        };
        let problem = match read {
            Ok(found) if found == wanted => return Ok(true),
            Ok(found) if found < wanted => format!("it has {found} bytes of {wanted}"),
            Ok(_) => format!("it has more than {wanted} bytes"),
            Err(error) if error.raw_os_error().is_some() => {
                return Err(CheckpointError::io("read", path)(error));
            }
            Err(error) => format!("it cannot be decompressed: {error}"),
        };
        Err(CheckpointError::damaged(path, problem))
    }

    /// Puts a chunk in its place. Chunks at the edge are whole too, and what lies beyond is left out.
    fn place(&self, index: &[usize], bytes: &[u8], values: &mut [f32]) -> Result<(), String> {
        let shape = self.spec.shape.dims();
        let element = self.spec.element;
        let Some(last) = shape.len().checked_sub(1) else { return element.to_f32(bytes, values) };
        let start: Vec<usize> = index.iter().zip(&self.chunks).map(|(index, chunk)| index * chunk).collect();
        let inside: Vec<usize> =
            (0..=last).map(|axis| self.chunks[axis].min(shape[axis] - start[axis])).collect();
        let mut row = vec![0; last];
        loop {
            let (mut from, mut to) = (0, 0);
            for axis in 0..last {
                from = from * self.chunks[axis] + row[axis];
                to = to * shape[axis] + start[axis] + row[axis];
            }
            let from = from * self.chunks[last] * element.bytes();
            let to = to * shape[last] + start[last];
            let run = inside[last];
            element.to_f32(&bytes[from..from + run * element.bytes()], &mut values[to..to + run])?;
            if !advance(&mut row, &inside[..last]) {
                return Ok(());
            }
        }
    }
}

/// The next index below these counts, row-major; false after the last.
fn advance(index: &mut [usize], counts: &[usize]) -> bool {
    for (index, count) in index.iter_mut().zip(counts).rev() {
        *index += 1;
        if *index < *count {
            return true;
        }
        *index = 0;
    }
    false
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Writes an array that counts up from 1.
    fn write(folder: &Path, shape: &[usize], chunks: &[usize], metadata: &Value) {
        let text = json!({
            "zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<f4", "order": "C", "filters": null,
            "compressor": { "id": "gzip", "level": 1 }, "fill_value": null,
        });
        let mut text = text.as_object().unwrap().clone();
        text.extend(metadata.as_object().unwrap().clone());
        fs::write(folder.join(".zarray"), Value::Object(text.clone()).to_string()).unwrap();
        let counts: Vec<usize> = shape.iter().zip(chunks).map(|(dim, chunk)| dim.div_ceil(*chunk)).collect();
        let mut index = vec![0; shape.len()];
        loop {
            let mut bytes = Vec::new();
            let mut at = vec![0; shape.len()];
            loop {
                let place: Vec<usize> =
                    (0..at.len()).map(|axis| index[axis] * chunks[axis] + at[axis]).collect();
                let is_inside = place.iter().zip(shape).all(|(place, dim)| place < dim);
                let number = place.iter().zip(shape).fold(0, |number, (place, dim)| number * dim + place);
                let value = if is_inside { number as f32 + 1.0 } else { f32::NAN };
                bytes.extend(value.to_le_bytes());
                if !advance(&mut at, chunks) {
                    break;
                }
            }
            let separator = text.get("dimension_separator").map_or(".", |text| text.as_str().unwrap());
            let numbers: Vec<String> = index.iter().map(usize::to_string).collect();
            let name = if numbers.is_empty() { "0".to_owned() } else { numbers.join(separator) };
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, if text["compressor"].is_null() { bytes } else { gzip(&bytes) }).unwrap();
            if !advance(&mut index, &counts) {
                break;
            }
        }
    }

    fn counted(shape: &[usize], chunks: &[usize], metadata: Value) -> Vec<f32> {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), shape, chunks, &metadata);
        ZarrArray::open(folder.path()).unwrap().read().unwrap()
    }

    fn up_to(elements: usize) -> Vec<f32> {
        (1..=elements).map(|number| number as f32).collect()
    }

    #[test]
    fn arrays_of_any_rank_and_cut_come_together() {
        assert_eq!(counted(&[], &[], json!({})), [1.0]);
        assert_eq!(counted(&[5], &[2], json!({})), up_to(5));
        assert_eq!(counted(&[4, 6], &[2, 3], json!({})), up_to(24));
        assert_eq!(counted(&[5, 7], &[2, 3], json!({})), up_to(35));
        assert_eq!(counted(&[3, 2, 5, 4], &[2, 1, 3, 9], json!({})), up_to(120));
        assert_eq!(counted(&[5, 7], &[2, 3], json!({ "dimension_separator": "/" })), up_to(35));
        assert_eq!(counted(&[5, 7], &[2, 3], json!({ "compressor": null })), up_to(35));
    }

    #[test]
    fn chunks_that_were_never_written_are_filled() {
        let fills = [(Value::Null, 0.0), (0.5.into(), 0.5), ("-Infinity".into(), f32::NEG_INFINITY)];
        for (fill, value) in fills {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), &[3, 4], &[2, 2], &json!({ "fill_value": fill }));
            fs::remove_file(folder.path().join("0.1")).unwrap();
            let read = ZarrArray::open(folder.path()).unwrap().read().unwrap();
            assert_eq!(read, [1.0, 2.0, value, value, 5.0, 6.0, value, value, 9.0, 10.0, 11.0, 12.0]);
        }
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &[0], &[2], &json!({}));
        assert!(ZarrArray::open(folder.path()).unwrap().read().unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let tell = |metadata: Value, spoil: fn(&Path)| {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), &[4], &[2], &json!({}));
            let path = folder.path().join(".zarray");
            let mut text: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            text.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
            fs::write(path, text.to_string()).unwrap();
            spoil(folder.path());
            let error = ZarrArray::open(folder.path()).and_then(|array| array.read()).unwrap_err();
            error.to_string().replace(folder.path().to_str().unwrap(), "array")
        };
        let meta = |metadata: Value| tell(metadata, |_| ());
        let told = [
            meta(json!({ "zarr_format": 3 })),
            meta(json!({ "dtype": ">f4" })),
            meta(json!({ "dtype": [["x", "<f4"]] })),
            meta(json!({ "compressor": { "id": "blosc", "cname": "lz4" } })),
            meta(json!({ "order": "F" })),
            meta(json!({ "filters": [{ "id": "delta" }] })),
            meta(json!({ "fill_value": "AAAA" })),
            meta(json!({ "chunks": [2, 2] })),
            meta(json!({ "chunks": [0] })),
            meta(json!({ "shape": [1u64 << 62] })),
            tell(json!({}), |folder| fs::remove_file(folder.join(".zarray")).unwrap()),
            tell(json!({}), |folder| fs::write(folder.join(".zarray"), "{}").unwrap()),
            tell(json!({}), |folder| fs::write(folder.join("1"), gzip(&[0; 7])).unwrap()),
            tell(json!({}), |folder| fs::write(folder.join("1"), gzip(&[0; 9])).unwrap()),
            tell(json!({}), |folder| fs::write(folder.join("1"), [0; 8]).unwrap()),
            tell(json!({}), |folder| fs::write(folder.join("1"), &gzip(&[0; 8])[..9]).unwrap()),
        ];
        insta::assert_snapshot!(told.join("\n"), @r#"
        array/.zarray cannot be read: it has zarr format 3, and only format 2 can be read
        array/.zarray cannot be read: its elements are of kind ">f4", which is not known
        array/.zarray cannot be read: its elements are of kind [["x","<f4"]], which is not known
        array/.zarray cannot be read: it is compressed with `blosc`, and only `gzip` can be read
        array/.zarray cannot be read: its elements are in order `F`, and only `C`, row-major, can be read
        array/.zarray cannot be read: its elements are filtered by [{"id":"delta"}], and only unfiltered ones can be read
        array/.zarray cannot be read: its fill value is "AAAA", which is no number
        array/.zarray cannot be read: its shape [4] is cut into chunks of [2, 2], their numbers separated by `.`
        array/.zarray cannot be read: its shape [4] is cut into chunks of [0], their numbers separated by `.`
        array/.zarray cannot be read: its shape is said to be [4611686018427387904], in chunks of [2]
        array/.zarray is damaged: it is missing
        array/.zarray is damaged: it describes no array: missing field `zarr_format` at line 1 column 2
        array/1 is damaged: it has 7 bytes of 8
        array/1 is damaged: it has more than 8 bytes
        array/1 is damaged: it cannot be decompressed: unexpected end of file
        array/1 is damaged: it cannot be decompressed: unexpected end of file
        "#);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn damage_is_an_error_and_no_panic(
            at: prop::sample::Index,
            bit in 0u8..8,
            cut: prop::sample::Index,
        ) {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), &[5, 7], &[2, 3], &json!({}));
            let array = ZarrArray::open(folder.path()).unwrap();
            let path = folder.path().join("1.2");
            let good = fs::read(&path).unwrap();
            fs::write(&path, &good[..cut.index(good.len())]).unwrap();
            prop_assert!(array.read().is_err());
            let mut bytes = good.clone();
            bytes[at.index(good.len())] ^= 1 << bit;
            fs::write(&path, bytes).unwrap();
            // A flip in the header of gzip may be of no consequence.
            if let Ok(values) = array.read() {
                prop_assert_eq!(values, up_to(35));
            }
            let path = folder.path().join(".zarray");
            let mut bytes = fs::read(&path).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            fs::write(&path, bytes).unwrap();
            let _ = ZarrArray::open(folder.path()).and_then(|array| array.read());
        }
    }
}
