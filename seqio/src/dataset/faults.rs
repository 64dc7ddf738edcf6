//! What happens when stores fail or panic, consumers are slow or go away, and folders cannot be written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{ArrayRef, ListArray, RecordBatch};
use arrow::datatypes::Int32Type;

use crate::batch::Batch;
use crate::convert::{Converter, Packing};
use crate::dataset::*;
use crate::example::{ExampleId, ExampleRow, Examples, Origin};
use crate::preprocess::TokenEdit;

/// A store that counts what is asked of it, and fails where it is told to.
#[derive(Debug)]
struct Watched {
    inner: InMemoryExamples,
    lengths_read: AtomicU64,
    tokens_read: AtomicU64,
    /// Reading this example is an error.
    unreadable: Option<u64>,
    /// Reading this example, or its length, is a panic.
    panics: Option<(u64, bool)>,
}

impl Watched {
    /// Example i has `i % 7 + 1` ids.
    fn new(num_examples: usize) -> Self {
        let sequences = (0..num_examples).map(|example| vec![example as i32; example % 7 + 1]).collect();
        Self {
            inner: InMemoryExamples::of([("targets", sequences)]),
            lengths_read: AtomicU64::new(0),
            tokens_read: AtomicU64::new(0),
            unreadable: None,
            panics: None,
        }
    }
}

impl ExampleStore for Watched {
    fn num_examples(&self) -> u64 {
        self.inner.num_examples()
    }

    fn features(&self) -> &[String] {
        self.inner.features()
    }

    fn lengths(&self, feature: usize, examples: &[u64], out: &mut [u32]) {
        self.lengths_read.fetch_add(examples.len() as u64, Ordering::Relaxed);
        let panics = self.panics.is_some_and(|(example, planning)| planning && examples.contains(&example));
        assert!(!panics, "a torn length");
        self.inner.lengths(feature, examples, out);
    }

    fn read_tokens(
        &self,
        feature: usize,
        example: u64,
        from: usize,
        out: &mut [i32],
    ) -> Result<(), StoreError> {
        self.tokens_read.fetch_add(out.len() as u64, Ordering::Relaxed);
        assert_ne!(self.panics, Some((example, false)), "a torn page");
        if self.unreadable == Some(example) {
            return Err(StoreError::new("shard 3, batch 9: the checksum does not fit"));
        }
        self.inner.read_tokens(feature, example, from, out)
    }

    fn id(&self, example: u64) -> Result<ExampleId, StoreError> {
        self.inner.id(example)
    }

    fn origins(&self, example: u64) -> Result<Vec<Origin>, StoreError> {
        self.inner.origins(example)
    }
}

fn config() -> DatasetConfig {
    DatasetConfig::new("train", Converter::Lm, [("targets", 16)])
        .window(32)
        .batch_size(2)
        .order(OrderKind::Storage)
        .read_ahead(8, 2)
}

fn dataset(store: &Arc<Watched>, config: DatasetConfig) -> Dataset {
    let task = StreamTask::new("docs", "test");
    Dataset::new(task, Arc::clone(store) as Arc<dyn ExampleStore>, config).unwrap()
}

fn batches(store: &Arc<Watched>, config: DatasetConfig) -> Vec<Result<Batch, String>> {
    let batches = dataset(store, config).iter().unwrap();
    batches.take(40).map(|batch| batch.map_err(|error| error.to_string())).collect()
}

#[test]
fn an_unreadable_example_is_the_error_of_its_batches_alone() {
    let sound = batches(&Arc::new(Watched::new(100)), config());
    for read_ahead in [0, 8] {
        let store = Arc::new(Watched { unreadable: Some(40), ..Watched::new(100) });
        let found = batches(&store, config().read_ahead(read_ahead, 2));
        assert_eq!(found.len(), sound.len());
        let mut errors = 0;
        for (found, sound) in found.iter().zip(&sound) {
            match found {
                Ok(_) => assert_eq!(found, sound),
                Err(error) => {
                    errors += 1;
                    let step = sound.as_ref().unwrap().step;
                    assert!(
                        error.starts_with(&format!("task `docs`, split `train`, step {step}, row ")),
                        "{error}"
                    );
                    assert!(error.ends_with("shard 3, batch 9: the checksum does not fit"), "{error}");
                }
            }
        }
        assert!(errors > 1, "the example is in every epoch");
    }
}

#[test]
fn a_state_taken_after_an_error_still_names_the_batch_that_failed() {
    let store = Arc::new(Watched { unreadable: Some(40), ..Watched::new(100) });
    let dataset = dataset(&store, config());
    let mut iterator = dataset.iter().unwrap();
    let good = iterator.by_ref().take_while(Result::is_ok).count() as u64;
    assert_eq!(iterator.state().step, good);
    let again = dataset.resume(&iterator.state()).unwrap().next().unwrap();
    assert!(again.unwrap_err().to_string().contains(&format!("step {good}, row ")));
}

#[test]
fn panics_in_workers_are_errors() {
    for read_ahead in [0, 8] {
        let reading = Arc::new(Watched { panics: Some((40, false)), ..Watched::new(100) });
        let found = batches(&reading, config().read_ahead(read_ahead, 2));
        let error = found.iter().find_map(|batch| batch.as_ref().err()).unwrap();
        assert!(error.starts_with("task `docs`, split `train`, step "), "{error}");
        assert!(error.contains("a worker panicked: ") && error.contains("a torn page"), "{error}");
        assert_eq!(found.len(), 40, "the stream goes on");

        let planning = Arc::new(Watched { panics: Some((40, true)), ..Watched::new(100) });
        let found = batches(&planning, config().read_ahead(read_ahead, 2));
        let last = found.last().unwrap().as_ref().unwrap_err();
        assert_eq!(last, "task `docs`, split `train`, window 1: a worker panicked: a torn length");
        assert!(found.len() < 40, "without its window the stream cannot go on");
        assert!(found[..found.len() - 1].iter().all(Result::is_ok));
    }
}

#[test]
fn a_host_reads_the_tokens_of_its_own_rows_alone() {
    let read = |host, hosts| {
        let store = Arc::new(Watched::new(500));
        let iterator = dataset(&store, config().batch_size(4).epochs(1).host(host, hosts)).iter().unwrap();
        assert!(iterator.map(Result::unwrap).count() > 20);
        store.tokens_read.load(Ordering::Relaxed)
    };
    let whole = read(0, 1);
    assert_eq!(read(0, 2) + read(1, 2), whole);
    assert!(read(0, 2) * 10 < whole * 6);
}

#[test]
fn a_consumer_that_sleeps_holds_up_the_workers() {
    let store = Arc::new(Watched::new(5000));
    let mut iterator = dataset(&store, config().read_ahead(4, 2)).iter().unwrap();
    iterator.next().unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    // One batch taken, four waiting, and one for the place that the first left: 6 batches of 2 rows of 16 tokens.
    let tokens = store.tokens_read.load(Ordering::Relaxed);
    assert!(tokens <= 6 * 2 * 16, "{tokens}");
}

#[test]
fn dropping_the_iterator_ends_its_work() {
    let store = Arc::new(Watched::new(5000));
    let mut iterator = dataset(&store, config().read_ahead(64, 8)).iter().unwrap();
    iterator.next().unwrap().unwrap();
    drop(iterator);
    assert_eq!(Arc::strong_count(&store), 1, "no thread holds the store any more");
}

#[test]
fn waiting_is_measured() {
    let store = Arc::new(Watched::new(5000));
    let mut iterator = dataset(&store, config()).iter().unwrap();
    assert_eq!(iterator.infeed_wait_ms(), 0.0);
    iterator.next().unwrap().unwrap();
    assert!(iterator.infeed_wait_ms() > 0.0);
}

#[test]
fn a_stream_that_can_never_fill_a_row_is_an_error() {
    let empty =
        || Watched { inner: InMemoryExamples::of([("targets", vec![vec![]; 70])]), ..Watched::new(0) };
    for read_ahead in [0, 8] {
        let found = batches(&Arc::new(empty()), config().read_ahead(read_ahead, 2));
        let expected =
            "task `docs`, split `train` has no example with a token in `targets`, so it cannot fill a batch";
        assert_eq!(found, [Err(expected.to_owned())]);
    }
    let dataset = dataset(&Arc::new(empty()), config());
    assert!(dataset.iter_from(5).is_err());
    assert!(dataset.plan(Horizon::Steps(5)).is_err());
    let none =
        Dataset::new(StreamTask::new("docs", ""), Arc::new(InMemoryExamples::new(["targets"])), config());
    let error = none.unwrap_err().to_string();
    assert_eq!(error, "task `docs`, split `train` has no examples, so it cannot fill a batch");
}

#[test]
fn a_feature_that_the_examples_lack_is_named() {
    let task = StreamTask::new("docs", "");
    let config = DatasetConfig::new("train", Converter::EncDec, [("inputs", 4), ("targets", 4)]);
    let error = Dataset::new(task, Arc::new(Watched::new(3)), config).unwrap_err().to_string();
    assert_eq!(
        error,
        "task `docs`: converter `enc_dec` needs feature `inputs`, but the examples have only `targets`"
    );
}

#[test]
fn an_index_is_made_once_and_made_again_if_it_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let blocked = folder.path().join("blocked");
    std::fs::write(&blocked, "a file where a folder should be").unwrap();
    let kept = folder.path().join("kept");
    let start = |store: &Arc<Watched>| {
        let dataset = dataset(store, config().epochs(60)).with_index_folders([blocked.clone(), kept.clone()]);
        let batch = dataset.iter_from(500).unwrap().next().unwrap().unwrap();
        (batch, store.lengths_read.load(Ordering::Relaxed))
    };
    let (first, counted) = start(&Arc::new(Watched::new(100)));
    let (second, looked_up) = start(&Arc::new(Watched::new(100)));
    assert_eq!(second, first);
    assert!(looked_up * 4 < counted, "{looked_up} of {counted} lengths were read again");

    let files: Vec<_> = std::fs::read_dir(&kept).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    let mut bytes = std::fs::read(&files[0]).unwrap();
    bytes[60] ^= 1;
    std::fs::write(&files[0], bytes).unwrap();
    let (third, counted_again) = start(&Arc::new(Watched::new(100)));
    assert_eq!(third, first);
    assert!(counted_again * 2 > counted);
    let (fourth, looked_up) = start(&Arc::new(Watched::new(100)));
    assert_eq!(fourth, first);
    assert!(looked_up * 4 < counted, "it was mended");
}

#[test]
fn going_on_from_a_state_plans_one_window_and_needs_no_index() {
    let far = dataset(&Arc::new(Watched::new(100)), config()).iter_from(5000).unwrap();
    let store = Arc::new(Watched::new(100));
    let mut resumed = dataset(&store, config().read_ahead(0, 1)).resume(&far.state()).unwrap();
    resumed.next().unwrap().unwrap();
    assert!(
        store.lengths_read.load(Ordering::Relaxed) <= 2 * 32,
        "a window, or two if the batch runs over a border"
    );
}

#[test]
fn a_state_of_another_stream_is_refused_in_words() {
    let store = Arc::new(Watched::new(100));
    let state = dataset(&store, config()).iter().unwrap().state();
    let other = dataset(&store, DatasetConfig::new("train", Converter::Lm, [("targets", 8)]).seed(3));
    let error = other.resume(&state).unwrap_err().to_string();
    assert_eq!(
        error,
        "the state was saved by another stream, and going on would repeat or skip examples; state → now: \
         lengths: targets 16 → targets 8; order: storage → blocks of 4096; seed: 0 → 3; window: 32 → 16384"
    );
}

#[test]
fn a_state_stays_small_whatever_the_names_and_however_many_restarts() {
    let long = "x".repeat(300);
    let edits = vec![TokenEdit::Trim { max_length: 1_000_000 }, TokenEdit::Append { id: 100_000 }];
    let edits = BTreeMap::from([("inputs".to_owned(), edits.clone()), ("targets".to_owned(), edits)]);
    let task = StreamTask::new(long.clone(), long.clone()).edits(edits);
    let store = InMemoryExamples::of([("inputs", vec![vec![1; 5]; 9]), ("targets", vec![vec![1; 5]; 9])]);
    let mut config = DatasetConfig::new(&long, Converter::EncDec, [("inputs", 65_536), ("targets", 65_536)]);
    config = config.packing(Packing::None).seed(u64::MAX).epochs(u64::MAX / 9).read_ahead(0, 1);
    let store: Arc<dyn ExampleStore> = Arc::new(store);
    let restarted = |sizes: BatchSizes| {
        let config = DatasetConfig { batch_sizes: sizes, ..config.clone() };
        Dataset::new(task.clone(), Arc::clone(&store), config).unwrap()
    };
    let changes = (0..40).map(|change| (change * 100_000_000, 100_000 + change)).collect();
    let state = restarted(BatchSizes::changing(changes)).iter_from(4_000_000_000).unwrap().state();
    let json = state.to_json();
    assert!(json.len() < 1000, "{} bytes: {json}", json.len());
    let resumed =
        restarted(BatchSizes::constant(3)).resume(&DatasetState::from_json(&json).unwrap()).unwrap();
    assert_eq!(resumed.state().row, state.row);
    assert_eq!(resumed.batch_sizes().row_of(4_000_000_001), Some(state.row + 3));
}

#[test]
fn a_window_that_is_too_small_to_fill_rows_is_noticed() {
    let store = Arc::new(Watched::new(5000));
    let plan = dataset(&store, config()).plan(Horizon::Epochs(1)).unwrap();
    assert_eq!((plan.examples, plan.windows, plan.window, plan.epochs), (5000, 157, 32, 1.0));
    assert!(plan.fill["targets"] < 0.999);
    // A row of 16 takes 4 examples, so that 2,000 rows take 8,000.
    assert_eq!(plan.proposed_window, Some(8192));
    let full = dataset(&store, config().window(8192)).plan(Horizon::Epochs(4)).unwrap();
    assert!(full.fill["targets"] > 0.999, "{}", full.fill["targets"]);
    assert_eq!(full.proposed_window, None);
    let unpacked = dataset(&store, config().packing(Packing::None)).plan(Horizon::Epochs(1)).unwrap();
    assert_eq!((unpacked.rows, unpacked.steps, unpacked.proposed_window), (5000, 2500, None));
}

#[test]
fn an_error_or_a_panic_while_reading_without_a_cache_ends_the_stream() {
    for (read_ahead, panics) in [(0, false), (8, false), (0, true), (8, true)] {
        let open: OpenExamples = Arc::new(move || {
            assert!(!panics, "a torn pipe");
            Err("the source is gone".into())
        });
        let task = StreamTask::new("docs", "");
        let dataset = UncachedDataset::new(task, open, config().read_ahead(read_ahead, 2)).unwrap();
        let found: Vec<_> = dataset.iter().unwrap().map(|batch| batch.unwrap_err().to_string()).collect();
        let expected = if panics {
            "task `docs`, split `train`, window 0: a worker panicked: a torn pipe"
        } else {
            "task `docs`, split `train`, example 0 of epoch 0: the source is gone"
        };
        assert_eq!(found, [expected]);
    }
}

#[test]
fn a_stream_without_a_cache_and_without_tokens_is_an_error() {
    let store = InMemoryExamples::of([("targets", vec![vec![]; 3])]);
    let found = uncached(store, config()).iter().unwrap().map(|batch| batch.unwrap_err().to_string());
    let expected =
        "task `docs`, split `train` has no example with a token in `targets`, so it cannot fill a batch";
    assert_eq!(found.collect::<Vec<_>>(), [expected]);
}

#[test]
fn a_consumer_without_a_cache_goes_away_at_once_also_from_a_reader_that_hangs() {
    let hangs = Arc::new(std::sync::Barrier::new(2));
    let open: OpenExamples = {
        let hangs = Arc::clone(&hangs);
        Arc::new(move || {
            hangs.wait();
            Err("let go".into())
        })
    };
    let task = StreamTask::new("docs", "");
    let iterator = UncachedDataset::new(task, Arc::clone(&open), config()).unwrap().iter().unwrap();
    drop(iterator);
    // Only now may the reader go on: the drop did not wait for it. It lets its thread end, and `open` with it.
    hangs.wait();
    while Arc::strong_count(&open) > 1 {
        std::thread::yield_now();
    }
}

/// A stream of a store's examples as if they were read and preprocessed on the fly.
fn uncached(store: InMemoryExamples, config: DatasetConfig) -> UncachedDataset {
    let open: OpenExamples = Arc::new(move || {
        let mut ids = Vec::new();
        let mut rows = Vec::new();
        for example in 0..store.num_examples() {
            let mut length = [0];
            store.lengths(0, &[example], &mut length);
            let mut sequence = vec![0; length[0] as usize];
            store.read_tokens(0, example, 0, &mut sequence)?;
            ids.push(Some(sequence.into_iter().map(Some).collect::<Vec<_>>()));
            rows.push(ExampleRow::new(store.id(example)?, store.origins(example)?));
        }
        let targets: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(ids));
        let columns = RecordBatch::try_from_iter([("targets", targets)])?;
        Ok(Box::new(std::iter::once(Ok(Examples::new(columns, rows)))))
    });
    let task = StreamTask::new("docs", "");
    UncachedDataset::new(task, open, config).unwrap()
}
