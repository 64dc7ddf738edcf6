//! Checkpoints that T5X's own checkpointer wrote, before Orbax: a MessagePack file and zarr arrays.
//!
//! ```text
//! checkpoint_1000/checkpoint                         {"version": 3, "optimizer": {"target": …, "state": …}}
//!                 target.encoder.encoder_norm.scale/ an array that is only named in there
//! ```
//!
//! Names are the paths in that tree: `target/encoder/encoder_norm/scale`, `state/step`,
//! `state/param_states/encoder/encoder_norm/scale/v`.

mod msgpack;
mod zarr;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::checkpoint::element::Element;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::{TensorSource, TensorSpec, Under, checked_elements, no_tensor, zeros};
use crate::shape::Shape;
use msgpack::Value;
use zarr::ZarrArray;

/// What T5X writes since 2021. Version 2 differs in arrays of bfloat16 alone, which it wrote as whole numbers.
const VERSIONS: [u64; 2] = [2, 3];

/// What Orbax writes for an array that is elsewhere.
const PLACEHOLDER: &[u8] = b"PLACEHOLDER://";

/// The path to the slots of T5X's optimizers.
const SLOTS: &str = "state/param_states/";

/// An open checkpoint of T5X.
#[derive(Debug)]
pub struct T5xCheckpoint {
    path: PathBuf,
    /// The MessagePack file.
    bytes: Vec<u8>,
    tensors: BTreeMap<String, Leaf>,
}

/// Where a tensor is.
#[derive(Debug)]
enum Leaf {
    /// In the MessagePack file, in pieces.
    Inline(TensorSpec, Vec<Range<usize>>),
    /// A plain number there.
    Number(TensorSpec, f32),
    /// In a folder of its own.
    Zarr(ZarrArray),
}

impl Leaf {
    fn spec(&self) -> &TensorSpec {
        match self {
            Self::Inline(spec, _) | Self::Number(spec, _) => spec,
            Self::Zarr(array) => array.spec(),
        }
    }
}

impl T5xCheckpoint {
    /// Opens a checkpoint by its folder, `checkpoint_<step>`, or by the file `checkpoint` in it.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let path = if path.is_dir() { path.join("checkpoint") } else { path.to_owned() };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(none_at(&path)),
            Err(error) => return Err(CheckpointError::io("read", &path)(error)),
        };
        if bytes.starts_with(b"model_checkpoint_path") {
            return Err(tensorflow(&path));
        }
        // Orbax has such a file too, in which texts stand for the arrays.
        if bytes.windows(PLACEHOLDER.len()).any(|window| window == PLACEHOLDER) {
            return Err(orbax(&path));
        }
        let root = msgpack::parse(&bytes, 0..bytes.len())
            .map_err(|problem| CheckpointError::damaged(&path, problem))?;
        let mut leaves = Leaves { path: &path, bytes: &bytes, tensors: BTreeMap::new() };
        leaves.add("", optimizer_of(&path, &root)?)?;
        let tensors = leaves.tensors;
        Ok(Self { path, bytes, tensors })
    }

    /// Updates done.
    pub fn step(&self) -> Result<u64, CheckpointError> {
        let values = self.read("state/step")?;
        match values[..] {
            [step] if step >= 0.0 => Ok(step as u64),
            _ => Err(CheckpointError::damaged(&self.path, "its `state/step` is not a number")),
        }
    }

    /// The parameters, by their names in the model.
    pub fn parameters(&self) -> Under<'_> {
        Under::new(self, "target/")
    }

    /// The state of the optimizer, as `encoder/encoder_norm/scale/v`. Slots that Adafactor does not use for a tensor,
    /// of which T5X writes one zero, are left out.
    pub fn optimizer(&self) -> Under<'_> {
        let mut under = Under::new(self, SLOTS);
        under.retain(|name| !self.is_unused(name));
        under
    }

    fn is_unused(&self, slot: &str) -> bool {
        let Some(Leaf::Inline(spec, places)) = self.tensors.get(&format!("{SLOTS}{slot}")) else {
            return false;
        };
        let is_zero = |place: &Range<usize>| self.bytes[place.clone()].iter().all(|byte| *byte == 0);
        spec.shape.dims() == [1] && places.iter().all(is_zero)
    }

    fn read_pieces(&self, spec: &TensorSpec, places: &[Range<usize>]) -> Result<Vec<f32>, String> {
        let mut values = zeros(spec.shape.elements())?;
        let mut rest = &mut values[..];
        for place in places {
            let piece;
            (piece, rest) = rest.split_at_mut(place.len() / spec.element.bytes());
            spec.element.to_f32(&self.bytes[place.clone()], piece)?;
        }
        Ok(values)
    }
}

impl TensorSource for T5xCheckpoint {
    fn origin(&self) -> String {
        self.path.display().to_string()
    }

    fn names(&self) -> Vec<&str> {
        self.tensors.keys().map(String::as_str).collect()
    }

    fn spec(&self, name: &str) -> Option<&TensorSpec> {
        self.tensors.get(name).map(Leaf::spec)
    }

    fn read(&self, name: &str) -> Result<Vec<f32>, CheckpointError> {
        match self.tensors.get(name).ok_or_else(|| no_tensor(self, name))? {
            Leaf::Zarr(array) => array.read(),
            Leaf::Number(_, value) => Ok(vec![*value]),
            Leaf::Inline(spec, places) => self
                .read_pieces(spec, places)
                .map_err(|problem| CheckpointError::tensor(name)(problem.into())),
        }
    }
}

/// What lies under `optimizer`, if the version is one that can be read.
fn optimizer_of<'v, 'a>(path: &Path, root: &'v Value<'a>) -> Result<&'v Value<'a>, CheckpointError> {
    let refused = |problem: String| CheckpointError::Unsupported {
        path: path.to_owned(),
        problem,
        hint: Some("load and save it with T5X, which writes version 3"),
    };
    match root.get("version").map(Value::as_u64) {
        Some(Some(version)) if VERSIONS.contains(&version) => {}
        Some(Some(version)) => {
            return Err(refused(format!(
                "it has version {version} of T5X's format, and only 2 and 3 can be read"
            )));
        }
        _ => return Err(refused("it has no version, so it is none of T5X's since version 2".to_owned())),
    }
    root.get("optimizer").ok_or_else(|| CheckpointError::damaged(path, "it has no entry `optimizer`"))
}

/// Why there is no file `checkpoint`, as far as can be seen.
fn none_at(path: &Path) -> CheckpointError {
    let mut index = path.as_os_str().to_owned();
    index.push(".index");
    let folder = path.parent().unwrap_or(path);
    let has = |test: fn(&str) -> bool| {
        let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.any(|entry| entry.file_name().to_str().is_some_and(test))
    };
    if Path::new(&index).exists() || has(|name| name.ends_with(".index")) {
        return tensorflow(path);
    }
    let refused = |problem: &str, hint| CheckpointError::Unsupported {
        path: folder.to_owned(),
        problem: problem.to_owned(),
        hint,
    };
    if has(|name| {
        ["manifest.ocdbt", "_CHECKPOINT_METADATA", "_METADATA", "_sharding", "state"].contains(&name)
    }) {
        return orbax(folder);
    }
    if has(|name| name.starts_with("checkpoint_")) {
        return refused(
            "it holds checkpoints, but is none",
            Some("name one of its folders `checkpoint_<step>`"),
        );
    }
    refused("there is no file `checkpoint`", None)
}

fn orbax(path: &Path) -> CheckpointError {
    CheckpointError::Unsupported {
        path: path.to_owned(),
        problem: "it was written by Orbax, not by T5X's own checkpointer".to_owned(),
        hint: Some("save it again with T5X, with `use_orbax = False`"),
    }
}

fn tensorflow(path: &Path) -> CheckpointError {
    CheckpointError::Unsupported {
        path: path.to_owned(),
        problem: "it is a checkpoint of TensorFlow, as Mesh TensorFlow's T5 wrote them".to_owned(),
        hint: Some("convert it with T5X's `scripts/convert_tf_checkpoint.py`"),
    }
}

/// The tensors of a tree, while they are found.
struct Leaves<'p> {
    path: &'p Path,
    bytes: &'p [u8],
    tensors: BTreeMap<String, Leaf>,
}

impl Leaves<'_> {
    fn add(&mut self, name: &str, value: &Value<'_>) -> Result<(), CheckpointError> {
        let damaged = |problem: String| CheckpointError::damaged(self.path, format!("`{name}` {problem}"));
        let under = |child: &str| if name.is_empty() { child.to_owned() } else { format!("{name}/{child}") };
        let leaf = match value {
            // A parameter that no optimizer updates has no state.
            Value::Nil => return Ok(()),
            Value::Map(_) if value.get("driver").is_some() && value.get("kvstore").is_some() => {
                self.zarr(name, value)?
            }
            Value::Map(_) if value.get(CHUNKED).is_some() => self.chunked(value).map_err(damaged)?,
            Value::Map(entries) => {
                return entries.iter().try_for_each(|(child, value)| self.add(&under(child), value));
            }
            Value::List(values) => {
                let mut values = values.iter().enumerate();
                return values.try_for_each(|(i, value)| self.add(&under(&i.to_string()), value));
            }
            // An array, or a number of numpy's, in the same form.
            Value::Ext(1 | 3, place) => {
                let (spec, place) = self.inline(place.clone()).map_err(damaged)?;
                Leaf::Inline(spec, vec![place])
            }
            Value::Uint(number) => self.number(Element::Uint(8), &number.to_le_bytes()).map_err(damaged)?,
            Value::Int(number) => self.number(Element::Int(8), &number.to_le_bytes()).map_err(damaged)?,
            Value::Float(number) => self.number(Element::F64, &number.to_le_bytes()).map_err(damaged)?,
            Value::Bool(value) => self.number(Element::Bool, &[u8::from(*value)]).map_err(damaged)?,
            Value::Text(_) | Value::Bytes(_) => return Err(damaged("is a text, not a tensor".to_owned())),
            Value::Ext(kind, _) => {
                return Err(damaged(format!("is of MessagePack's extension {kind}, not a tensor")));
            }
        };
        if self.tensors.insert(name.to_owned(), leaf).is_some() {
            return Err(damaged("is there twice".to_owned()));
        }
        Ok(())
    }

    fn number(&self, element: Element, bytes: &[u8]) -> Result<Leaf, String> {
        let mut value = [0.0];
        element.to_f32(bytes, &mut value)?;
        Ok(Leaf::Number(TensorSpec { shape: Shape::new([]), element }, value[0]))
    }

    /// The array at a place: its shape, numpy's name of its elements, and its bytes.
    fn inline(&self, place: Range<usize>) -> Result<(TensorSpec, Range<usize>), String> {
        let value = msgpack::parse(self.bytes, place)?;
        let Value::List(parts) = value else { return Err("is no array".to_owned()) };
        let [shape, element, Value::Bytes(place)] = &parts[..] else { return Err("is no array".to_owned()) };
        let (Some(shape), Some(name)) = (shape.as_dims(), element.as_text()) else {
            return Err("is no array".to_owned());
        };
        let element =
            Element::of_numpy(name).ok_or_else(|| format!("has elements of unknown kind `{name}`"))?;
        let wanted = checked_elements(&shape).map(|elements| elements as u64 * element.bytes() as u64);
        if wanted != Some(place.len() as u64) {
            return Err(format!("is {name} {shape:?}, but has {} bytes", place.len()));
        }
        Ok((TensorSpec { shape: Shape::new(shape), element }, place.clone()))
    }

    /// An array in pieces, as Flax writes those over a gigabyte.
    fn chunked(&self, value: &Value<'_>) -> Result<Leaf, String> {
        let numbered = |name: &str| match value.get(name) {
            Some(Value::Map(entries)) => {
                let in_order = entries.iter().enumerate().all(|(i, (name, _))| *name == i.to_string());
                in_order.then(|| entries.iter().map(|(_, value)| value).collect::<Vec<_>>())
            }
            _ => None,
        };
        let (Some(shape), Some(chunks)) = (numbered("shape"), numbered("chunks")) else {
            return Err("is no array in pieces".to_owned());
        };
        let shape: Option<Vec<usize>> =
            shape.into_iter().map(|dim| usize::try_from(dim.as_u64()?).ok()).collect();
        let mut element = None;
        let mut places = Vec::new();
        let mut found = 0;
        for chunk in chunks {
            let Value::Ext(1, place) = chunk else { return Err("is no array in pieces".to_owned()) };
            let (spec, place) = self.inline(place.clone())?;
            if *element.get_or_insert(spec.element) != spec.element {
                return Err("has pieces of different kinds".to_owned());
            }
            found += spec.shape.elements();
            places.push(place);
        }
        match (shape, element) {
            (Some(shape), Some(element)) if checked_elements(&shape) == Some(found) => {
                Ok(Leaf::Inline(TensorSpec { shape: Shape::new(shape), element }, places))
            }
            _ => Err("has pieces that do not make up its shape".to_owned()),
        }
    }

    /// An array that lies beside the file.
    fn zarr(&self, name: &str, value: &Value<'_>) -> Result<Leaf, CheckpointError> {
        let unsupported =
            |problem: String| CheckpointError::unsupported(self.path, format!("`{name}` {problem}"));
        let damaged = |problem: &str| CheckpointError::damaged(self.path, format!("`{name}` {problem}"));
        let driver = value.get("driver").and_then(Value::as_text);
        if driver != Some("zarr") {
            return Err(unsupported(format!("is stored by `{}`, not `zarr`", driver.unwrap_or_default())));
        }
        // Before TensorStore 0.1.14 the path stood beside the store, and stores of Google's are copied to files.
        let store = value.get("kvstore").and_then(|store| store.get("path"));
        let path = store.or_else(|| value.get("path")).and_then(Value::as_text);
        // An array is always right beside the file; a path that leads elsewhere is of where it was written.
        let folder = path.and_then(|path| Path::new(path.trim_end_matches('/')).file_name());
        let folder = folder.ok_or_else(|| damaged("has no path"))?;
        let array = ZarrArray::open(&self.path.parent().unwrap_or(self.path).join(folder))?;
        let is_u16 = value.get("dtype").and_then(Value::as_text) == Some("uint16");
        if is_u16 || array.spec().element == Element::Uint(2) {
            return Err(CheckpointError::Unsupported {
                path: self.path.to_owned(),
                problem: format!("`{name}` is bfloat16 written as uint16, as T5X did up to version 2"),
                hint: Some("load and save it with T5X, which writes version 3"),
            });
        }
        let shape = value.get("metadata").and_then(|metadata| metadata.get("shape")).and_then(Value::as_dims);
        if shape.is_some_and(|shape| shape != array.spec().shape.dims()) {
            return Err(damaged("has another shape in its folder"));
        }
        Ok(Leaf::Zarr(array))
    }
}

/// What marks an array in pieces.
const CHUNKED: &str = "__msgpack_chunked_array__";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checkpoint::Safetensors;

    fn golden() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/t5x/checkpoint")
    }

    fn expected(folder: &Path) -> Safetensors {
        let packed = fs::read(golden().join("expected_state.safetensors.zst")).unwrap();
        let path = folder.join("expected.safetensors");
        fs::write(&path, zstd::decode_all(&packed[..]).unwrap()).unwrap();
        Safetensors::open(&path).unwrap()
    }

    /// To the nearest bfloat16, ties to even.
    fn rounded(value: f32) -> f32 {
        let bits = value.to_bits();
        f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000)
    }

    #[test]
    fn checkpoints_that_t5x_wrote_are_read_exactly() {
        let folder = tempfile::tempdir().unwrap();
        let expected = expected(folder.path());
        for kind in ["float32", "bfloat16"] {
            let found = T5xCheckpoint::open(&golden().join(kind).join("checkpoint_3")).unwrap();
            assert_eq!(found.names(), expected.names());
            assert_eq!(found.step().unwrap(), 3);
            for name in expected.names() {
                let is_cast = kind == "bfloat16" && name.starts_with("target/");
                let cast = |value: &f32| if is_cast { rounded(*value) } else { *value };
                let wanted: Vec<u32> =
                    expected.read(name).unwrap().iter().map(|value| cast(value).to_bits()).collect();
                let values: Vec<u32> =
                    found.read(name).unwrap().iter().map(|value| value.to_bits()).collect();
                assert_eq!(values, wanted, "{name}");
                let dims = found.spec(name).unwrap().shape.dims().to_vec();
                let dims = if dims.is_empty() { vec![1] } else { dims };
                assert_eq!(dims, expected.spec(name).unwrap().shape.dims(), "{name}");
            }
        }
    }

    #[test]
    fn parameters_and_slots_have_the_names_of_the_model() {
        let checkpoint = T5xCheckpoint::open(&golden().join("float32/checkpoint_3/checkpoint")).unwrap();
        let parameters = checkpoint.parameters();
        assert_eq!(parameters.names().len(), 29);
        assert_eq!(parameters.spec("token_embedder/embedding").unwrap().shape.dims(), [64, 16]);
        let kernels: Vec<_> = checkpoint
            .optimizer()
            .names()
            .into_iter()
            .filter(|name| name.contains("token_embedder") || name.contains("encoder_norm"))
            .map(str::to_owned)
            .collect();
        assert_eq!(
            kernels,
            [
                "encoder/encoder_norm/scale/v",
                "token_embedder/embedding/v_col",
                "token_embedder/embedding/v_row"
            ]
        );
        let error = parameters.read("token_embedder/embeding").unwrap_err();
        assert_eq!(error.hint().as_deref(), Some("did you mean `token_embedder/embedding`?"));
    }

    /// What a file `checkpoint` with these bytes is refused with.
    fn refused(bytes: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("checkpoint"), bytes).unwrap();
        words(folder.path())
    }

    fn words(folder: &Path) -> String {
        let error = T5xCheckpoint::open(folder).unwrap_err();
        let text = format!("{error}\n  hint: {}", error.hint().unwrap_or_default());
        text.replace(folder.to_str().unwrap(), "run")
    }

    /// A map in MessagePack.
    fn map(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0x80 | entries.len() as u8];
        for (name, value) in entries {
            bytes.extend([0xd9, name.len() as u8]);
            bytes.extend(name.bytes());
            bytes.extend(*value);
        }
        bytes
    }

    /// An array as Flax packs it.
    fn array(kind: u8, shape: &[u8], element: &str, values: &[u8]) -> Vec<u8> {
        let mut inner = vec![0x93, 0x90 | shape.len() as u8];
        inner.extend(shape);
        inner.push(0xa0 | element.len() as u8);
        inner.extend(element.bytes());
        inner.extend([0xc4, values.len() as u8]);
        inner.extend(values);
        [&[0xc7, inner.len() as u8, kind], &inner[..]].concat()
    }

    fn version_3(target: &[u8]) -> Vec<u8> {
        map(&[("version", &[3]), ("optimizer", &map(&[("target", target)]))])
    }

    #[test]
    fn numbers_and_arrays_in_every_form() {
        let folder = tempfile::tempdir().unwrap();
        let one = 1f32.to_le_bytes();
        let two = [1f32, 2.0].map(f32::to_le_bytes).concat();
        let pieces = map(&[
            (CHUNKED, &[0xc3]),
            ("shape", &map(&[("0", &[1]), ("1", &[3])])),
            (
                "chunks",
                &map(&[("0", &array(1, &[2], "float32", &two)), ("1", &array(1, &[1], "float32", &one))]),
            ),
        ]);
        let target = map(&[
            ("array", &array(1, &[2, 1], "float32", &two)),
            ("scalar", &array(3, &[], "int32", &7i32.to_le_bytes())),
            ("number", &[0xcc, 200]),
            ("nothing", &[0xc0]),
            ("list", &[0x92, 1, 2]),
            ("pieces", &pieces),
        ]);
        fs::write(folder.path().join("checkpoint"), version_3(&target)).unwrap();
        let checkpoint = T5xCheckpoint::open(folder.path()).unwrap();
        let parameters = checkpoint.parameters();
        assert_eq!(parameters.names(), ["array", "list/0", "list/1", "number", "pieces", "scalar"]);
        assert_eq!(parameters.read("array").unwrap(), [1.0, 2.0]);
        assert_eq!(parameters.read("scalar").unwrap(), [7.0]);
        assert_eq!(parameters.read("number").unwrap(), [200.0]);
        assert_eq!(parameters.read("list/1").unwrap(), [2.0]);
        assert_eq!(parameters.read("pieces").unwrap(), [1.0, 2.0, 1.0]);
        assert_eq!(parameters.spec("pieces").unwrap().shape.dims(), [1, 3]);
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let zarr = |driver: &str, path: &str, element: &str| {
            let text = |text: &str| [&[0xa0 | text.len() as u8], text.as_bytes()].concat();
            map(&[
                ("driver", &text(driver)),
                ("dtype", &text(element)),
                ("kvstore", &map(&[("driver", &text("gcs")), ("path", &text(path))])),
                ("metadata", &map(&[("shape", &[0x91, 2])])),
            ])
        };
        let with_array = |dtype: &str, shape: u64, spec: &[u8], version: u8| {
            let folder = tempfile::tempdir().unwrap();
            let array = folder.path().join("target.x");
            fs::create_dir(&array).unwrap();
            let metadata = serde_json::json!({
                "zarr_format": 2, "shape": [shape], "chunks": [2], "dtype": dtype, "compressor": null,
                "fill_value": null, "order": "C", "filters": null,
            });
            fs::write(array.join(".zarray"), metadata.to_string()).unwrap();
            let target = map(&[("x", spec)]);
            let tree = map(&[("version", &[version]), ("optimizer", &map(&[("target", &target)]))]);
            fs::write(folder.path().join("checkpoint"), tree).unwrap();
            match T5xCheckpoint::open(folder.path()) {
                Ok(checkpoint) => format!("{:?}", checkpoint.read("target/x").unwrap()),
                Err(_) => words(folder.path()),
            }
        };
        let beside = |entry: &str| {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join(entry), "").unwrap();
            words(folder.path())
        };
        let told = [
            refused(b"not msgpack"),
            refused(b""),
            refused(&map(&[("version", &[1]), ("optimizer", &[0x80])])),
            refused(&map(&[("version", &[4]), ("optimizer", &[0x80])])),
            refused(&map(&[("params", &[0x80])])),
            refused(&map(&[("version", &[3])])),
            refused(&version_3(&map(&[("x", &array(1, &[3], "float32", &[0; 4]))]))),
            refused(&version_3(&map(&[("x", &array(1, &[1], "float8", &[0; 1]))]))),
            refused(&version_3(&map(&[("x", &array(2, &[1], "float32", &[0; 4]))]))),
            refused(&version_3(&map(&[("x", &[0xa1, b'y'])]))),
            refused(&version_3(&map(&[("x", &[1]), ("x", &[1])]))),
            refused(&version_3(&zarr("zarr3", "target.x/", "float32"))),
            refused(&version_3(&map(&[("x", &zarr("zarr", "/", "float32"))]))),
            refused(&version_3(&map(&[("x", &zarr("zarr", "target.x/", "float32"))]))),
            with_array("<f4", 3, &zarr("zarr", "target.x/", "float32"), 3),
            with_array("<u2", 2, &zarr("zarr", "target.x/", "uint16"), 2),
            with_array("<f4", 2, &zarr("zarr", "/cns/far/away/target.x/", "float32"), 2),
            refused(b"model_checkpoint_path: \"model.ckpt-0\"\n"),
            beside("model.ckpt-0.index"),
            refused(&map(&[("_optimizer", &map(&[("step", b"\xafPLACEHOLDER://x")]))])),
            beside("_METADATA"),
            beside("checkpoint_1000"),
            beside("anything"),
        ];
        insta::assert_snapshot!(told.join("\n"), @r"
        run/checkpoint is damaged: after its end at byte 1 come 10 more
          hint: 
        run/checkpoint is damaged: at byte 0 it ends within a value
          hint: 
        run/checkpoint cannot be read: it has version 1 of T5X's format, and only 2 and 3 can be read
          hint: load and save it with T5X, which writes version 3
        run/checkpoint cannot be read: it has version 4 of T5X's format, and only 2 and 3 can be read
          hint: load and save it with T5X, which writes version 3
        run/checkpoint cannot be read: it has no version, so it is none of T5X's since version 2
          hint: load and save it with T5X, which writes version 3
        run/checkpoint is damaged: it has no entry `optimizer`
          hint: 
        run/checkpoint is damaged: `target/x` is float32 [3], but has 4 bytes
          hint: 
        run/checkpoint is damaged: `target/x` has elements of unknown kind `float8`
          hint: 
        run/checkpoint is damaged: `target/x` is of MessagePack's extension 2, not a tensor
          hint: 
        run/checkpoint is damaged: `target/x` is a text, not a tensor
          hint: 
        run/checkpoint is damaged: `target/x` is there twice
          hint: 
        run/checkpoint cannot be read: `target` is stored by `zarr3`, not `zarr`
          hint: 
        run/checkpoint is damaged: `target/x` has no path
          hint: 
        run/target.x/.zarray is damaged: it is missing
          hint: 
        run/checkpoint is damaged: `target/x` has another shape in its folder
          hint: 
        run/checkpoint cannot be read: `target/x` is bfloat16 written as uint16, as T5X did up to version 2
          hint: load and save it with T5X, which writes version 3
        [0.0, 0.0]
        run/checkpoint cannot be read: it is a checkpoint of TensorFlow, as Mesh TensorFlow's T5 wrote them
          hint: convert it with T5X's `scripts/convert_tf_checkpoint.py`
        run/checkpoint cannot be read: it is a checkpoint of TensorFlow, as Mesh TensorFlow's T5 wrote them
          hint: convert it with T5X's `scripts/convert_tf_checkpoint.py`
        run/checkpoint cannot be read: it was written by Orbax, not by T5X's own checkpointer
          hint: save it again with T5X, with `use_orbax = False`
        run cannot be read: it was written by Orbax, not by T5X's own checkpointer
          hint: save it again with T5X, with `use_orbax = False`
        run cannot be read: it holds checkpoints, but is none
          hint: name one of its folders `checkpoint_<step>`
        run cannot be read: there is no file `checkpoint`
          hint:
        ");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn damage_is_no_panic(
            at: prop::sample::Index,
            bytes in prop::collection::vec(any::<u8>(), 1..5),
            cut: prop::sample::Index,
        ) {
            let folder = golden().join("float32/checkpoint_3");
            let path = folder.join("checkpoint");
            let good = fs::read(&path).unwrap();
            let opened = |bytes: &[u8]| {
                let root = msgpack::parse(bytes, 0..bytes.len())
                    .map_err(|problem| CheckpointError::damaged(&path, problem))?;
                let mut leaves = Leaves { path: &path, bytes, tensors: BTreeMap::new() };
                leaves.add("", optimizer_of(&path, &root)?)?;
                let tensors = leaves.tensors;
                let checkpoint = T5xCheckpoint { path: path.clone(), bytes: bytes.to_vec(), tensors };
                checkpoint.names().into_iter().try_for_each(|name| checkpoint.read(name).map(drop))
            };
            prop_assert!(opened(&good[..cut.index(good.len())]).is_err());
            let mut bad = good.clone();
            let at = at.index(good.len() - bytes.len());
            bad[at..at + bytes.len()].copy_from_slice(&bytes);
            let _ = opened(&bad);
        }
    }
}
