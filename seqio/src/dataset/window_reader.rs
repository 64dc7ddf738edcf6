//! Windows of examples read and preprocessed on the fly, in the order of the source: a stream without a cache.
//!
//! ```text
//! reader (3 examples), window 2, 2 epochs:   [0 1] [2 0] [1 2]
//! ```
//!
//! One window is in memory at a time. Every epoch is read again; how many examples there are is known at the end of
//! the first one.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::dataset::error::DatasetError;
use crate::dataset::in_memory::InMemoryExamples;
use crate::example::Examples;

/// What went wrong while reading or preprocessing.
pub type ReadError = Box<dyn Error + Send + Sync>;

/// Chunks of preprocessed examples, in the order of the source.
pub type ExampleReader = Box<dyn Iterator<Item = Result<Examples, ReadError>> + Send>;

/// Begins to read an epoch. Every call must give the same examples.
pub type OpenExamples = Arc<dyn Fn() -> Result<ExampleReader, ReadError> + Send + Sync>;

/// Reads through the positions of a stream: epoch after epoch, window after window.
pub(crate) struct WindowReader {
    task: String,
    split: String,
    features: Vec<String>,
    window: u64,
    epochs: Option<u64>,
    open: OpenExamples,
    reader: Option<ExampleReader>,
    /// The chunk being read, and how many of its examples are used up.
    chunk: Option<(Examples, usize)>,
    epoch: u64,
    /// Examples of the epoch that are used up.
    place: u64,
    /// Known once an epoch has been read to its end.
    num_examples: Option<u64>,
    next_window: u64,
    /// Becomes true when nobody wants the examples any more.
    stop: Arc<AtomicBool>,
}

impl fmt::Debug for WindowReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WindowReader({}, epoch {}, example {})", self.task, self.epoch, self.place)
    }
}

impl WindowReader {
    pub(crate) fn new(
        (task, split): (&str, &str),
        features: Vec<String>,
        window: u64,
        epochs: Option<u64>,
        open: OpenExamples,
    ) -> Self {
        Self {
            task: task.to_owned(),
            split: split.to_owned(),
            features,
            window,
            epochs,
            open,
            reader: None,
            chunk: None,
            epoch: 0,
            place: 0,
            num_examples: None,
            next_window: 0,
            stop: Arc::default(),
        }
    }

    /// The examples of window number `index`, which must not lie before the last one read; `None` after the end.
    pub(crate) fn read(&mut self, index: u64) -> Result<Option<InMemoryExamples>, DatasetError> {
        let skipped = (index - self.next_window).saturating_mul(self.window);
        if self.pass(skipped, &mut None)? < skipped {
            return Ok(None);
        }
        let mut examples = InMemoryExamples::new(self.features.iter().cloned());
        let read = self.pass(self.window, &mut Some(&mut examples))?;
        self.next_window = index + 1;
        Ok((read > 0).then_some(examples))
    }

    /// The next examples of one epoch, up to `count` of them, and the epoch; `None` after the end.
    pub(crate) fn read_group(&mut self, count: u64) -> Result<Option<(u64, InMemoryExamples)>, DatasetError> {
        while self.epochs.is_none_or(|epochs| self.epoch < epochs) {
            let epoch = self.epoch;
            let mut examples = InMemoryExamples::new(self.features.iter().cloned());
            let (mut left, mut ended) = (count, false);
            while left > 0 && !ended {
                let taken = self.take(left, &mut Some(&mut examples))?;
                ended = taken.is_none();
                left -= taken.unwrap_or(0);
            }
            if ended {
                self.end_epoch()?;
            }
            if left < count {
                return Ok(Some((epoch, examples)));
            }
        }
        Ok(None)
    }

    /// Stops reading, with an error that nobody will see, once the flag is true.
    pub(crate) fn stop_at(&mut self, flag: Arc<AtomicBool>) {
        self.stop = flag;
    }

    /// This many windows one after the other hold every example, once that is known.
    pub(crate) fn windows_an_epoch(&self) -> Option<u64> {
        self.num_examples.map(|examples| examples.div_ceil(self.window) + 1)
    }

    /// Passes over up to `count` examples, keeping them if they are wanted, and says how many there were.
    fn pass(&mut self, count: u64, kept: &mut Option<&mut InMemoryExamples>) -> Result<u64, DatasetError> {
        let mut left = count;
        while left > 0 && self.epochs.is_none_or(|epochs| self.epoch < epochs) {
            if kept.is_none() {
                left -= self.pass_epochs(left);
            }
            match self.take(left, kept)? {
                Some(taken) => left -= taken,
                None => self.end_epoch()?,
            }
        }
        Ok(count - left)
    }

    /// Passes over examples of one chunk, up to `most`, keeping them if they are wanted, and says how many there were;
    /// `None` at the end of the epoch.
    fn take(
        &mut self,
        most: u64,
        kept: &mut Option<&mut InMemoryExamples>,
    ) -> Result<Option<u64>, DatasetError> {
        let Some((chunk, used)) = self.fill_chunk()? else { return Ok(None) };
        let (from, taken) = (*used, (chunk.len() - *used).min(usize::try_from(most).unwrap_or(usize::MAX)));
        *used += taken;
        if let Some(kept) = kept
            && let Err(error) = kept.append(chunk, from, from + taken)
        {
            return Err(self.failed(error.into()));
        }
        self.place += taken as u64;
        Ok(Some(taken as u64))
    }

    /// Passes over whole epochs by arithmetic, once their length is known.
    fn pass_epochs(&mut self, count: u64) -> u64 {
        let Some(num_examples) = self.num_examples.filter(|num| *num > 0 && self.place == 0) else {
            return 0;
        };
        let left = self.epochs.map_or(u64::MAX, |epochs| epochs - self.epoch);
        let epochs = (count / num_examples).min(left);
        self.epoch += epochs;
        epochs * num_examples
    }

    /// A chunk with examples left in it, or nothing at the end of the epoch.
    fn fill_chunk(&mut self) -> Result<Option<&mut (Examples, usize)>, DatasetError> {
        while self.chunk.as_ref().is_none_or(|(chunk, used)| *used == chunk.len()) {
            if self.reader.is_none() {
                self.reader = Some((self.open)().map_err(|error| self.failed(error))?);
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(self.failed("stopped".into()));
            }
            let next = self.reader.as_mut().and_then(Iterator::next);
            match next.transpose().map_err(|error| self.failed(error))? {
                Some(chunk) => self.chunk = Some((chunk, 0)),
                None => return Ok(None),
            }
        }
        Ok(self.chunk.as_mut())
    }

    fn end_epoch(&mut self) -> Result<(), DatasetError> {
        let known = *self.num_examples.get_or_insert(self.place);
        if known != self.place {
            let problem = format!(
                "the epoch has {} examples, but the first had {known}: the source has changed",
                self.place
            );
            return Err(self.failed(problem.into()));
        }
        if known == 0 {
            let (task, split) = (self.task.clone(), self.split.clone());
            return Err(DatasetError::Empty { task, split, what: "examples".to_owned() });
        }
        (self.reader, self.chunk) = (None, None);
        self.epoch += 1;
        self.place = 0;
        Ok(())
    }

    fn failed(&self, error: ReadError) -> DatasetError {
        DatasetError::Read {
            task: self.task.clone(),
            split: self.split.clone(),
            epoch: self.epoch,
            example: self.place,
            error,
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ListArray, RecordBatch};
    use arrow::datatypes::{Field, Int32Type, Schema};

    use super::*;
    use crate::dataset::store::ExampleStore;
    use crate::example::{ExampleId, ExampleRow};

    /// Chunks of `cuts` examples; example i is the sequence `[i]`.
    fn open(cuts: &'static [i32]) -> OpenExamples {
        Arc::new(move || {
            let mut first = 0;
            Ok(Box::new(cuts.iter().map(move |count| {
                let ids = first..first + count;
                first += count;
                let lists =
                    ListArray::from_iter_primitive::<Int32Type, _, _>(ids.clone().map(|id| Some([Some(id)])));
                let schema = Schema::new(vec![
                    Field::new_list_field(arrow::array::Array::data_type(&lists).clone(), true)
                        .with_name("targets"),
                ]);
                let columns = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(lists)]).unwrap();
                let rows = ids.map(|id| ExampleRow::new(ExampleId::new("", "", 0, id as u64), vec![]));
                Ok(Examples::new(columns, rows.collect()))
            })) as ExampleReader)
        })
    }

    fn reader(cuts: &'static [i32], window: u64, epochs: Option<u64>) -> WindowReader {
        WindowReader::new(("docs", "train"), vec!["targets".to_owned()], window, epochs, open(cuts))
    }

    fn ids(store: &InMemoryExamples) -> Vec<i32> {
        let mut id = [0];
        let read = |example| store.read_tokens(0, example, 0, &mut id).map(|()| id[0]);
        (0..store.num_examples()).map(read).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn windows_run_over_chunks_and_epochs() {
        for cuts in [&[3][..], &[1, 1, 1], &[0, 2, 0, 1, 0]] {
            let mut reader = reader(cuts, 2, Some(2));
            let mut windows = Vec::new();
            while let Some(window) = reader.read(windows.len() as u64).unwrap() {
                windows.push(ids(&window));
            }
            assert_eq!(windows, [vec![0, 1], vec![2, 0], vec![1, 2]]);
        }
    }

    #[test]
    fn skipping_gives_the_same_windows() {
        let mut all = reader(&[3, 4], 3, None);
        let expected: Vec<_> = (0..40).map(|index| ids(&all.read(index).unwrap().unwrap())).collect();
        for first in 0..40 {
            for second in first + 1..40 {
                let mut reader = reader(&[3, 4], 3, None);
                for index in [first, second] {
                    assert_eq!(ids(&reader.read(index).unwrap().unwrap()), expected[index as usize]);
                }
            }
        }
        assert!(reader(&[3, 4], 3, Some(2)).read(5).unwrap().is_none());
    }

    #[test]
    fn no_examples_are_an_error_and_not_an_endless_search() {
        let error = reader(&[0, 0], 3, None).read(0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "task `docs`, split `train` has no examples, so it cannot fill a batch"
        );
    }

    #[test]
    fn an_error_says_where_it_stands() {
        let broken: OpenExamples = Arc::new(|| {
            let chunks = open(&[2])()?.chain(std::iter::once_with(|| Err("a torn page".into())));
            Ok(Box::new(chunks))
        });
        let mut reader = WindowReader::new(("docs", "train"), vec!["targets".to_owned()], 9, None, broken);
        let error = reader.read(0).unwrap_err();
        assert_eq!(error.to_string(), "task `docs`, split `train`, example 2 of epoch 0: a torn page");
    }
}
