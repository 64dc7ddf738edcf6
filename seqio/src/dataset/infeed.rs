//! Work done ahead of a consumer, delivered in order: bounded, and gone when the consumer goes.
//!
//! A dispatcher thread cuts the work into jobs; workers do them in any order; the consumer gets the results in the
//! order in which the jobs were given out. At most `read_ahead` results are waiting or being worked on, so a slow
//! consumer holds up the dispatcher and memory stays flat.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::caught::words_of;

/// What dropping the consumer's end does about threads that are at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtDrop {
    /// Waits until they have noticed, which is soon.
    Waits,
    /// Leaves them to end by themselves: they may be waiting for other people's code.
    Leaves,
}

type Job = Box<dyn FnOnce() + Send>;

/// The consumer's end. Dropping it stops the threads.
pub(crate) struct Infeed<T> {
    results: Option<Receiver<Receiver<T>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    at_drop: AtDrop,
}

/// The dispatcher's end.
pub(crate) struct Dispatcher<T> {
    results: Sender<Receiver<T>>,
    jobs: Sender<Job>,
    stop: Arc<AtomicBool>,
}

/// The consumer is gone: nothing more is wanted.
#[derive(Debug)]
pub(crate) struct Stopped;

impl<T: Send + 'static> Infeed<T> {
    /// Starts `threads` workers and one dispatcher, which ends when `dispatch` returns.
    pub(crate) fn start(
        threads: usize,
        read_ahead: usize,
        at_drop: AtDrop,
        dispatch: impl FnOnce(&Dispatcher<T>) -> Result<(), Stopped> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (results_sender, results) = bounded(read_ahead.max(1));
        let (jobs_sender, jobs) = unbounded::<Job>();
        let stop = Arc::new(AtomicBool::new(false));
        let mut infeed =
            Self { results: Some(results), stop: Arc::clone(&stop), threads: Vec::new(), at_drop };
        for worker in 0..threads.max(1) {
            let (jobs, stop) = (jobs.clone(), Arc::clone(&stop));
            let thread = std::thread::Builder::new().name(format!("infeed-{worker}")).spawn(move || {
                for job in jobs {
                    // Jobs after the stop are dropped unrun; whoever waits for them sees the channel close.
                    if !stop.load(Ordering::Relaxed) {
                        job();
                    }
                }
            })?;
            infeed.threads.push(thread);
        }
        let dispatcher = Dispatcher { results: results_sender, jobs: jobs_sender, stop };
        let thread = std::thread::Builder::new().name("infeed-dispatch".to_owned()).spawn(move || {
            // A stop is the consumer's wish; there is nobody left to tell.
            let _ = dispatch(&dispatcher);
        })?;
        infeed.threads.push(thread);
        Ok(infeed)
    }

    /// The next result; `None` when the dispatcher has ended and all is delivered.
    pub(crate) fn next(&mut self) -> Option<Result<T, Stopped>> {
        let result = self.results.as_ref()?.recv().ok()?;
        Some(result.recv().map_err(|_| Stopped))
    }
}

impl<T> Drop for Infeed<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.results = None;
        if self.at_drop == AtDrop::Leaves {
            return;
        }
        for thread in self.threads.drain(..) {
            // Jobs catch their own panics, and a panic of the dispatcher has been delivered as a closed channel.
            let _ = thread.join();
        }
    }
}

impl<T: Send + 'static> Dispatcher<T> {
    /// Gives out a job whose result goes to the consumer; waits while `read_ahead` results are not consumed.
    pub(crate) fn deliver(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<(), Stopped> {
        let (sender, receiver) = bounded(1);
        self.results.send(receiver).map_err(|_| Stopped)?;
        self.run(sender, job)
    }

    /// Gives out a job whose result the dispatcher itself waits for.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Result<Receiver<R>, Stopped> {
        let (sender, receiver) = bounded(1);
        self.run(sender, job)?;
        Ok(receiver)
    }

    /// Becomes true when the consumer goes, for work that takes long to look at.
    pub(crate) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Gives the consumer what is there already, in its turn.
    pub(crate) fn hand_over(&self, result: T) -> Result<(), Stopped> {
        let (sender, receiver) = bounded(1);
        // The receiver is at hand and the channel empty.
        let _ = sender.send(result);
        self.results.send(receiver).map_err(|_| Stopped)
    }

    fn run<R: Send + 'static>(
        &self,
        sender: Sender<R>,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Result<(), Stopped> {
        let job = Box::new(move || {
            // A job makes its own panics into errors; of any other nothing is left but a closed channel. The receiver
            // is gone when the consumer is.
            let _ = caught(job).map(|result| sender.send(result));
        });
        self.jobs.send(job).map_err(|_| Stopped)
    }
}

/// Runs `work`, turning a panic into its message.
pub(crate) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| words_of(&*panic).unwrap_or("no message").to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;

    fn counting(threads: usize, read_ahead: usize, started: &Arc<AtomicUsize>) -> Infeed<usize> {
        let started = Arc::clone(started);
        Infeed::start(threads, read_ahead, AtDrop::Waits, move |dispatcher| {
            for number in 0..200 {
                let started = Arc::clone(&started);
                dispatcher.deliver(move || {
                    started.fetch_add(1, Ordering::Relaxed);
                    assert!(number != 50, "fifty");
                    if number % 7 == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    number
                })?;
            }
            Ok(())
        })
        .unwrap()
    }

    #[test]
    fn results_come_in_order_and_a_panic_takes_only_its_own() {
        for (threads, read_ahead) in [(1, 1), (2, 3), (8, 64)] {
            let mut infeed = counting(threads, read_ahead, &Arc::default());
            for number in 0..200 {
                let result = infeed.next().unwrap();
                assert_eq!(result.ok(), (number != 50).then_some(number));
            }
            assert!(infeed.next().is_none());
        }
    }

    #[test]
    fn a_slow_consumer_holds_up_the_work() {
        let started = Arc::default();
        let mut infeed = counting(2, 4, &started);
        infeed.next();
        std::thread::sleep(Duration::from_millis(100));
        // One consumed, four waiting, and one whose place in the queue opened when the first was taken.
        assert!(started.load(Ordering::Relaxed) <= 6, "{}", started.load(Ordering::Relaxed));
    }

    #[test]
    fn a_consumer_that_goes_away_ends_the_threads() {
        let started = Arc::default();
        let mut infeed = counting(3, 4, &started);
        infeed.next();
        // Joins the threads, so that returning at all is the proof.
        drop(infeed);
        assert!(started.load(Ordering::Relaxed) < 50);
        assert_eq!(Arc::strong_count(&started), 1, "no job is left over");
    }
}
