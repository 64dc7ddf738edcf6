//! safetensors files: a header of JSON, then the tensors, one after the other.
//!
//! ```text
//! 8 bytes: length of the header | {"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} | 8 bytes: the numbers of `a`
//! ```
//!
//! Written and read tensor by tensor: files may be larger than the memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::checkpoint::disk::{self, NewFile};
use crate::checkpoint::element::Element;
use crate::checkpoint::error::{BoxError, CheckpointError};
use crate::checkpoint::{TensorSource, TensorSpec, checked_elements, no_tensor, zeros};
use crate::shape::Shape;

/// No reader of the format takes longer headers.
const LONGEST_HEADER: u64 = 100_000_000;

/// What is read at once of tensors that are not stored as they are used.
const BLOCK: usize = 1 << 18;

/// An open file.
#[derive(Debug)]
pub struct Safetensors {
    path: PathBuf,
    file: File,
    tensors: BTreeMap<String, Placed>,
    metadata: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Placed {
    spec: TensorSpec,
    at: u64,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

impl Safetensors {
    /// Opens a file and reads its header.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let damaged = |problem: String| CheckpointError::damaged(path, problem);
        let read = |error| CheckpointError::io("read", path)(error);
        let file = File::open(path).map_err(read)?;
        let length = file.metadata().map_err(read)?.len();
        if length < 8 {
            return Err(damaged(format!("it has only {length} bytes, and a safetensors file begins with 8")));
        }
        let mut head = [0; 8];
        file.read_exact_at(&mut head, 0).map_err(read)?;
        let header = u64::from_le_bytes(head);
        if header > LONGEST_HEADER {
            return Err(damaged(format!("it begins with {header}, which is no length of a header")));
        }
        let Some(space) = (length - 8).checked_sub(header) else {
            return Err(damaged(format!("its header of {header} bytes is cut off")));
        };
        let mut bytes = vec![0; header as usize];
        file.read_exact_at(&mut bytes, 8).map_err(read)?;
        let (tensors, metadata) = parse(&bytes, 8 + header, space).map_err(damaged)?;
        Ok(Self { path: path.to_owned(), file, tensors, metadata })
    }

    /// What its writer said about it.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    fn fill(&self, placed: &Placed, values: &mut [f32]) -> Result<(), CheckpointError> {
        let read = |error| CheckpointError::io("read", &self.path)(error);
        let element = placed.spec.element;
        if element == Element::F32 && cfg!(target_endian = "little") {
            return self.file.read_exact_at(bytemuck::cast_slice_mut(values), placed.at).map_err(read);
        }
        let mut bytes = vec![0; BLOCK.min(values.len()) * element.bytes()];
        let mut at = placed.at;
        for values in values.chunks_mut(BLOCK) {
            let bytes = &mut bytes[..values.len() * element.bytes()];
            self.file.read_exact_at(bytes, at).map_err(read)?;
            element
                .to_f32(bytes, values)
                .map_err(|problem| CheckpointError::unsupported(&self.path, problem))?;
            at += bytes.len() as u64;
        }
        Ok(())
    }
}

impl TensorSource for Safetensors {
    fn origin(&self) -> String {
        self.path.display().to_string()
    }

    fn names(&self) -> Vec<&str> {
        self.tensors.keys().map(String::as_str).collect()
    }

    fn spec(&self, name: &str) -> Option<&TensorSpec> {
        self.tensors.get(name).map(|placed| &placed.spec)
    }

    fn read(&self, name: &str) -> Result<Vec<f32>, CheckpointError> {
        let placed = self.tensors.get(name).ok_or_else(|| no_tensor(self, name))?;
        let mut values = zeros(placed.spec.shape.elements())
            .map_err(|problem| CheckpointError::tensor(name)(problem.into()))?;
        self.fill(placed, &mut values)?;
        Ok(values)
    }
}

type Header = (BTreeMap<String, Placed>, BTreeMap<String, String>);

/// The tensors of a header, `start` being where the numbers begin and `space` how many bytes of them there are.
fn parse(bytes: &[u8], start: u64, space: u64) -> Result<Header, String> {
    let header: BTreeMap<String, Value> = serde_json::from_slice(bytes)
        .map_err(|error| format!("its header is not what it should be: {error}"))?;
    let mut tensors = BTreeMap::new();
    let mut metadata = BTreeMap::new();
    let mut places = Vec::new();
    for (name, value) in header {
        let wrong = |problem: String| format!("tensor `{name}` of its header {problem}");
        if name == "__metadata__" {
            metadata = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
            continue;
        }
        let Entry { dtype, shape, data_offsets: (from, to) } =
            serde_json::from_value(value).map_err(|error| wrong(format!("is not one: {error}")))?;
        let element = Element::of_safetensors(&dtype)
            .ok_or_else(|| wrong(format!("has elements of kind `{dtype}`, which is not known")))?;
        let bytes = checked_elements(&shape)
            .map(|elements| elements as u64 * element.bytes() as u64)
            .ok_or_else(|| wrong(format!("is said to be {shape:?}")))?;
        if to.checked_sub(from) != Some(bytes) || to > space {
            return Err(wrong(format!(
                "is {dtype} {shape:?} and so takes {bytes} bytes, but lies at {from}..{to} of {space}"
            )));
        }
        places.push((from, to));
        let spec = TensorSpec { shape: Shape::new(shape), element };
        tensors.insert(name, Placed { spec, at: start + from });
    }
    places.sort_unstable();
    let mut end = 0;
    for (from, to) in places {
        if from != end {
            return Err(format!("its tensors overlap or leave a hole, at {end} and {from}"));
        }
        end = to;
    }
    if end != space {
        return Err(format!("its tensors take {end} bytes, and there are {space}"));
    }
    Ok((tensors, metadata))
}

/// Writes a file of floats, the tensors in this order; `read` hands over one at a time. Under its name it is whole.
pub fn write_safetensors(
    path: &Path,
    tensors: &[(String, Shape)],
    metadata: &BTreeMap<String, String>,
    read: impl FnMut(&str) -> Result<Vec<f32>, BoxError>,
) -> Result<(), CheckpointError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(disk::suffix());
    let aside = PathBuf::from(aside);
    let written = NewFile::create(&aside).and_then(|mut file| {
        write(&mut file, path, tensors, metadata, read)?;
        file.finish()?;
        disk::rename(&aside, path)
    });
    if written.is_err() {
        // Nothing more can be done about a file that cannot even be removed.
        let _ = fs::remove_file(&aside);
    }
    written
}

/// Writes tensors of floats in this order. `read` hands over one at a time.
pub(super) fn write(
    out: &mut impl Write,
    path: &Path,
    tensors: &[(String, Shape)],
    metadata: &BTreeMap<String, String>,
    mut read: impl FnMut(&str) -> Result<Vec<f32>, BoxError>,
) -> Result<(), CheckpointError> {
    let failed = |error| CheckpointError::io("write", path)(error);
    out.write_all(&header(tensors, metadata)?).map_err(failed)?;
    for (name, shape) in tensors {
        let values = read(name).map_err(CheckpointError::tensor(name))?;
        if values.len() != shape.elements() {
            let problem = format!("it is {shape}, but {} numbers were handed over", values.len());
            return Err(CheckpointError::tensor(name)(problem.into()));
        }
        if cfg!(target_endian = "little") {
            out.write_all(bytemuck::cast_slice(&values)).map_err(failed)?;
        } else {
            for value in values {
                out.write_all(&value.to_le_bytes()).map_err(failed)?;
            }
        }
    }
    Ok(())
}

/// The length of the header and the header, padded so that the numbers are aligned.
fn header(
    tensors: &[(String, Shape)],
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, CheckpointError> {
    let mut map = Map::new();
    if !metadata.is_empty() {
        map.insert("__metadata__".to_owned(), json!(metadata));
    }
    let mut names = BTreeSet::new();
    let mut end = 0u64;
    for (name, shape) in tensors {
        if !names.insert(name) || name == "__metadata__" {
            return Err(CheckpointError::tensor(name)("two tensors cannot have this name".into()));
        }
        let start = end;
        end += 4 * shape.elements() as u64;
        map.insert(
            name.clone(),
            json!({ "dtype": "F32", "shape": shape.dims(), "data_offsets": [start, end] }),
        );
    }
    let mut text = Value::Object(map).to_string();
    text.push_str(&" ".repeat(text.len().next_multiple_of(8) - text.len()));
    Ok([&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tensors(length: usize) -> Vec<(String, Shape, Vec<f32>)> {
        vec![
            ("b/kernel".to_owned(), Shape::new([2, 3]), vec![1.0, -2.0, 0.5, f32::MAX, -0.0, 3e-45]),
            ("a".to_owned(), Shape::new([]), vec![f32::INFINITY]),
            ("empty".to_owned(), Shape::new([0, 4]), vec![]),
            ("größe \"x\"".to_owned(), Shape::new([length]), (0..length).map(|i| i as f32).collect()),
        ]
    }

    fn written(length: usize) -> Vec<u8> {
        let tensors = tensors(length);
        let specs: Vec<_> = tensors.iter().map(|(name, shape, _)| (name.clone(), shape.clone())).collect();
        let mut bytes = Vec::new();
        let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
        write(&mut bytes, Path::new("x"), &specs, &metadata, |name| {
            Ok(tensors.iter().find(|tensor| tensor.0 == name).unwrap().2.clone())
        })
        .unwrap();
        bytes
    }

    fn opened(folder: &Path, bytes: &[u8]) -> Result<Safetensors, CheckpointError> {
        let path = folder.join("x.safetensors");
        fs::write(&path, bytes).unwrap();
        Safetensors::open(&path)
    }

    /// A file with this header and so many bytes after it.
    fn file(header: &str, bytes: &[u8]) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), bytes].concat()
    }

    #[test]
    fn tensors_come_back_bit_by_bit() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = written(300_000);
        let file = opened(folder.path(), &bytes).unwrap();
        assert_eq!(file.names(), ["a", "b/kernel", "empty", "größe \"x\""]);
        for (name, shape, values) in tensors(300_000) {
            assert_eq!(file.spec(&name).unwrap().shape, shape);
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&file.read(&name).unwrap()), bits(&values), "{name}");
        }
        assert_eq!(file.metadata()["format"], "pt");
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert_eq!(header % 8, 0);
        let error = file.read("b/kernels").unwrap_err();
        assert_eq!(error.hint().as_deref(), Some("did you mean `b/kernel`?"));
    }

    #[test]
    fn other_kinds_of_numbers_become_floats() {
        let folder = tempfile::tempdir().unwrap();
        let header = r#"{"h":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"i":{"dtype":"I64","shape":[1],"data_offsets":[4,12]}}"#;
        let file =
            opened(folder.path(), &file(header, &[0x80, 0x3f, 0, 0xc0, 7, 0, 0, 0, 0, 0, 0, 0])).unwrap();
        assert_eq!(file.read("h").unwrap(), [1.0, -2.0]);
        assert_eq!(file.read("i").unwrap(), [7.0]);
    }

    #[test]
    fn tensors_beyond_four_gigabytes_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let end = 4u64 << 30;
        let header = format!(
            r#"{{"a":{{"dtype":"F32","shape":[32768,32768],"data_offsets":[0,{end}]}},"b":{{"dtype":"F32","shape":[1],"data_offsets":[{end},{}]}}}}"#,
            end + 4
        );
        let head = file(&header, &[]);
        let path = folder.path().join("large.safetensors");
        // Nothing is stored of what was not written.
        let file = File::create(&path).unwrap();
        file.write_all_at(&head, 0).unwrap();
        file.write_all_at(&2.5f32.to_le_bytes(), head.len() as u64 + end).unwrap();
        assert_eq!(Safetensors::open(&path).unwrap().read("b").unwrap(), [2.5]);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let tell = |bytes: &[u8]| {
            let error = opened(folder.path(), bytes).unwrap_err().to_string();
            error.split_once("is damaged: ").unwrap().1.to_owned()
        };
        let told = [
            tell(b"short"),
            tell(b"<html>\n</html>\n"),
            tell(&100u64.to_le_bytes()),
            tell(&file("{", &[])),
            tell(&file(r#"{"a":{"dtype":"F32","shape":[2]}}"#, &[])),
            tell(&file(r#"{"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}}"#, &[0; 8])),
            tell(&file(r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#, &[0; 4])),
            tell(&file(r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, &[0; 4])),
            tell(&file(r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#, &[0; 8])),
            tell(&file(r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, &[0; 8])),
            tell(&file(
                &format!(r#"{{"a":{{"dtype":"F32","shape":[{0},{0}],"data_offsets":[0,8]}}}}"#, 1u64 << 40),
                &[0; 8],
            )),
        ];
        insta::assert_snapshot!(told.join("\n"), @r"
        it has only 5 bytes, and a safetensors file begins with 8
        it begins with 4326339027456518204, which is no length of a header
        its header of 100 bytes is cut off
        its header is not what it should be: EOF while parsing an object at line 1 column 1
        tensor `a` of its header is not one: missing field `data_offsets`
        tensor `a` of its header has elements of kind `Q4`, which is not known
        tensor `a` of its header is F32 [2] and so takes 8 bytes, but lies at 0..4 of 4
        tensor `a` of its header is F32 [2] and so takes 8 bytes, but lies at 0..8 of 4
        its tensors overlap or leave a hole, at 0 and 4
        its tensors take 4 bytes, and there are 8
        tensor `a` of its header is said to be [1099511627776, 1099511627776]
        ");
    }

    #[test]
    fn a_file_that_cannot_be_written_whole_does_not_appear() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let specs = [("a".to_owned(), Shape::new([1])), ("b".to_owned(), Shape::new([1]))];
        let write = |fails: bool| {
            write_safetensors(&path, &specs, &BTreeMap::new(), |name| match name {
                "b" if fails => Err("lost".into()),
                _ => Ok(vec![2.0]),
            })
        };
        write(true).unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        write(false).unwrap();
        assert_eq!(Safetensors::open(&path).unwrap().read("b").unwrap(), [2.0]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn wrong_tensors_are_not_written() {
        let write = |names: &[&str], values: Result<Vec<f32>, BoxError>| {
            let specs: Vec<_> = names.iter().map(|name| ((*name).to_owned(), Shape::new([2]))).collect();
            let mut values = Some(values);
            super::write(&mut Vec::new(), Path::new("x"), &specs, &BTreeMap::new(), |_| {
                values.take().unwrap()
            })
            .unwrap_err()
        };
        insta::assert_snapshot!(write(&["a"], Ok(vec![1.0])), @"tensor `a`: it is [2], but 1 numbers were handed over");
        insta::assert_snapshot!(write(&["a"], Err("the device was lost".into())), @"tensor `a`: the device was lost");
        insta::assert_snapshot!(write(&["a", "a"], Ok(vec![])), @"tensor `a`: two tensors cannot have this name");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn no_damage_of_the_header_is_a_panic(at in 0usize..400, byte: u8, cut in 0usize..1000) {
            let folder = tempfile::tempdir().unwrap();
            let mut bytes = written(1000);
            bytes.truncate(bytes.len() - cut);
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(file) = opened(folder.path(), &bytes) {
                for name in file.names() {
                    let _ = file.read(name);
                }
            }
            prop_assert!(cut == 0 || opened(folder.path(), &bytes).is_err());
        }
    }
}
