//! TensorBoard's event files: records with checksums, each a protocol buffer.
//!
//! ```text
//! 8 bytes: length | 4: its checksum | the event: {wall_time, step, summary: [{tag: "loss", simple_value: 3.5}]} | 4: checksum
//! ```

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::Path;

use prost::Message;

use crate::log::LogError;
use crate::log::append::Append;

/// The open file: each start of a run makes its own.
#[derive(Debug)]
pub(super) struct Events {
    file: Append,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    #[prost(double, tag = "1")]
    pub(super) wall_time: f64,
    #[prost(int64, tag = "2")]
    pub(super) step: i64,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
    #[prost(message, optional, tag = "7")]
    session_log: Option<SessionLog>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    tag: String,
    /// Optional, so that a zero is written.
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
    #[prost(message, optional, tag = "8")]
    tensor: Option<Tensor>,
    #[prost(message, optional, tag = "9")]
    metadata: Option<Metadata>,
}

/// A tensor without axes that holds a text.
#[derive(Clone, PartialEq, Message)]
struct Tensor {
    #[prost(int32, tag = "1")]
    dtype: i32,
    #[prost(message, optional, tag = "2")]
    tensor_shape: Option<TensorShape>,
    #[prost(bytes, repeated, tag = "8")]
    string_val: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct TensorShape {}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(message, optional, tag = "1")]
    plugin_data: Option<PluginData>,
    #[prost(int32, tag = "4")]
    data_class: i32,
}

#[derive(Clone, PartialEq, Message)]
struct PluginData {
    #[prost(string, tag = "1")]
    plugin_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct SessionLog {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// `DT_STRING`.
const STRING: i32 = 7;
/// `DATA_CLASS_TENSOR`.
const TENSOR: i32 = 2;
/// `SessionLog.START`: what is of the step of this event or later is void.
const START: i32 = 1;

/// What every name of these files has in it.
const NAME: &str = "events.out.tfevents.";

impl Events {
    /// Begins a new file.
    pub(super) fn create(folder: &Path, time: f64, restored: Option<u64>) -> Result<Self, LogError> {
        // Readers go through the files by name, so that a new one has to have a later time in it, however soon it is made.
        let earlier = latest(folder)?;
        let seconds = earlier.map_or(time as u64, |earlier| (time as u64).max(earlier + 1));
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host: String = host
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' })
            .collect();
        let path = folder.join(format!("{NAME}{seconds:010}.{host}.{}.0", std::process::id()));
        let mut events = Self { file: Append::open(&path, OpenOptions::new().create_new(true))? };
        events.write(&version(time))?;
        events.write(&start(time, restored))?;
        Ok(events)
    }

    pub(super) fn scalars(
        &mut self,
        step: u64,
        time: f64,
        scalars: &BTreeMap<String, f64>,
    ) -> Result<(), LogError> {
        self.write(&scalars_event(step, time, scalars))
    }

    pub(super) fn text(&mut self, step: u64, time: f64, name: &str, text: &str) -> Result<(), LogError> {
        self.write(&text_event(step, time, name, text))
    }

    fn write(&mut self, event: &Event) -> Result<(), LogError> {
        self.file.piece(&record(&event.encode_to_vec()))
    }
}

/// The latest time in the name of a file.
fn latest(folder: &Path) -> Result<Option<u64>, LogError> {
    let entries = fs::read_dir(folder).map_err(LogError::io("read", folder))?;
    let time = |name: &str| name.strip_prefix(NAME)?.split('.').next()?.parse().ok();
    Ok(entries.flatten().filter_map(|entry| time(entry.file_name().to_str()?)).max())
}

fn version(time: f64) -> Event {
    Event { wall_time: time, file_version: Some("brain.Event:2".to_owned()), ..Event::default() }
}

fn start(time: f64, restored: Option<u64>) -> Event {
    let step = restored.map_or(0, |restored| restored as i64 + 1);
    Event { wall_time: time, step, session_log: Some(SessionLog { status: START }), ..Event::default() }
}

fn scalars_event(step: u64, time: f64, scalars: &BTreeMap<String, f64>) -> Event {
    let value = scalars.iter().map(|(name, value)| Value {
        tag: name.clone(),
        simple_value: Some(*value as f32),
        ..Value::default()
    });
    let summary = Some(Summary { value: value.collect() });
    Event { wall_time: time, step: step as i64, summary, ..Event::default() }
}

fn text_event(step: u64, time: f64, name: &str, text: &str) -> Event {
    let tensor = Tensor {
        dtype: STRING,
        tensor_shape: Some(TensorShape {}),
        string_val: vec![text.as_bytes().to_vec()],
    };
    let metadata =
        Metadata { plugin_data: Some(PluginData { plugin_name: "text".to_owned() }), data_class: TENSOR };
    let value =
        Value { tag: name.to_owned(), simple_value: None, tensor: Some(tensor), metadata: Some(metadata) };
    let summary = Some(Summary { value: vec![value] });
    Event { wall_time: time, step: step as i64, summary, ..Event::default() }
}

/// An event as it lies in the file.
fn record(event: &[u8]) -> Vec<u8> {
    let length = (event.len() as u64).to_le_bytes();
    [&length, &masked(&length).to_le_bytes()[..], event, &masked(event).to_le_bytes()].concat()
}

/// The checksum of a record, mixed so that checksums of what holds checksums stay good.
fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The cyclic redundancy check of Castagnoli.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let mut crc = i as u32;
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
                bit += 1;
            }
            table[i] = crc;
            i += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc, byte| TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ crc >> 8)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    impl Event {
        pub(in crate::log) fn is_start(&self) -> bool {
            self.session_log.as_ref().is_some_and(|log| log.status == START)
        }

        pub(in crate::log) fn scalar(&self, tag: &str) -> Option<f32> {
            self.summary.as_ref()?.value.iter().find(|value| value.tag == tag)?.simple_value
        }
    }

    /// All events of a folder, in the order of the names of its files.
    pub(in crate::log) fn events_in(folder: &Path) -> Vec<Event> {
        let mut paths: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_str().unwrap().contains(NAME))
            .collect();
        paths.sort();
        paths.iter().flat_map(|path| decoded(&fs::read(path).unwrap())).collect()
    }

    fn decoded(mut bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        while !bytes.is_empty() {
            let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
            let (check, rest) = rest.split_first_chunk::<4>().unwrap();
            assert_eq!(u32::from_le_bytes(*check), masked(length));
            let (event, rest) = rest.split_at(u64::from_le_bytes(*length) as usize);
            let (check, rest) = rest.split_first_chunk::<4>().unwrap();
            assert_eq!(u32::from_le_bytes(*check), masked(event));
            events.push(Event::decode(event).unwrap());
            bytes = rest;
        }
        events
    }

    #[test]
    fn checksums_are_the_known_ones() {
        // From RFC 3720, appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn events_are_those_of_tensorboards_own_writer_byte_by_byte() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/tensorboard/run.tfevents");
        let scalars = [("train/loss", 3.5), ("train/zero", 0.0), ("train/nan", f64::NAN), ("größe", 1e-3)];
        let scalars = BTreeMap::from(scalars.map(|(name, value)| (name.to_owned(), value)));
        let written: Vec<u8> = [
            version(1_700_000_000.25),
            start(1_700_000_000.5, Some(41)),
            scalars_event(42, 1_700_000_001.0, &scalars),
            text_event(1 << 40, 1_700_000_002.0, "samples", "| a | b |\n|---|---|\n| ü | 2 |\n"),
        ]
        .iter()
        .flat_map(|event| record(&event.encode_to_vec()))
        .collect();
        assert_eq!(written, fs::read(golden).unwrap());
    }

    #[test]
    fn every_start_has_a_file_of_its_own_after_those_before() {
        let folder = tempfile::tempdir().unwrap();
        for start in 0..3 {
            Events::create(folder.path(), 1_700_000_000.0, Some(start)).unwrap();
        }
        let starts: Vec<i64> = events_in(folder.path())
            .iter()
            .filter(|event| event.is_start())
            .map(|event| event.step)
            .collect();
        assert_eq!(starts, [1, 2, 3]);
    }
}
