//! Saves that fail, or whose process dies, at every point there is.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::checkpoint::{CheckpointError, Keep, RunState, Saving, TensorSource, latest, list, remove_after};
use crate::shape::Shape;
use crate::testing::Random;

/// What happens to changes of the disk on this thread.
#[derive(Default)]
struct Faults {
    /// Changes so far.
    log: Vec<(&'static str, PathBuf)>,
    /// The change that goes wrong.
    at: Option<usize>,
    kind: Fault,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Fault {
    /// That one fails.
    #[default]
    Once,
    /// All from there on fail.
    FromThere,
    /// The process dies.
    Death,
}

thread_local! {
    static FAULTS: RefCell<Faults> = RefCell::default();
}

/// Asked before every change of the disk.
pub(super) fn before(action: &'static str, path: &Path) -> io::Result<()> {
    FAULTS.with_borrow_mut(|faults| {
        let now = faults.log.len();
        faults.log.push((action, path.to_owned()));
        match (faults.at, faults.kind) {
            #[allow(clippy::exit)]
            (Some(at), Fault::Death) if now == at => std::process::exit(DEAD),
            (Some(at), Fault::Once) if now == at => Err(io::ErrorKind::StorageFull.into()),
            (Some(at), Fault::FromThere) if now >= at => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    })
}

/// Runs something with a fault, and says what it changed.
fn with_fault<T>(
    at: Option<usize>,
    kind: Fault,
    run: impl FnOnce() -> T,
) -> (T, Vec<(&'static str, PathBuf)>) {
    FAULTS.set(Faults { log: Vec::new(), at, kind });
    let result = run();
    (result, FAULTS.take().log)
}

/// The exit code of a process that died on purpose.
const DEAD: i32 = 86;

fn shapes(name: &str) -> Vec<(String, Shape)> {
    vec![(format!("{name}/a"), Shape::new([20, 30])), (format!("{name}/b"), Shape::new([7]))]
}

/// The number in every tensor of a checkpoint.
fn number(step: u64, salt: u64) -> f32 {
    (100 * step + salt) as f32
}

fn save(run: &Path, step: u64, salt: u64) -> Result<PathBuf, CheckpointError> {
    let dataset = serde_json::json!({ "salt": salt });
    let state = RunState { step, dataset, configuration: "[model]".to_owned(), metrics: BTreeMap::new() };
    let mut saving = Saving::begin(run, state)?;
    let shapes = [shapes("parameters"), shapes("optimizer")];
    let read = |shapes: &[(String, Shape)], name: &str| {
        let shape = &shapes.iter().find(|shape| shape.0 == name).unwrap().1;
        Ok(vec![number(step, salt); shape.elements()])
    };
    saving.parameters(&shapes[0], |name| read(&shapes[0], name))?;
    saving.optimizer(&shapes[1], |name| read(&shapes[1], name))?;
    saving.commit()
}

/// The step and the salt of the newest checkpoint, all of which is checked.
fn newest(run: &Path) -> (u64, u64) {
    let checkpoint = latest(run).unwrap().unwrap();
    let state = checkpoint.state();
    let salt = state.dataset["salt"].as_u64().unwrap();
    for file in [checkpoint.parameters().unwrap(), checkpoint.optimizer().unwrap()] {
        assert_eq!(file.names().len(), 2);
        for name in file.names() {
            assert!(file.read(name).unwrap().iter().all(|x| *x == number(state.step, salt)));
        }
    }
    (state.step, salt)
}

fn names_in(run: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(run.join("checkpoints")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn with_checkpoints(steps: &[u64]) -> tempfile::TempDir {
    let run = tempfile::tempdir().unwrap();
    for step in steps {
        save(run.path(), *step, 0).unwrap();
    }
    run
}

#[test]
fn what_was_saved_comes_back() {
    let run = with_checkpoints(&[]);
    assert!(latest(run.path()).unwrap().is_none());
    let path = save(run.path(), 1000, 3).unwrap();
    assert_eq!(path, run.path().join("checkpoints/step-00001000"));
    assert_eq!(newest(run.path()), (1000, 3));
    save(run.path(), 123_456_789, 0).unwrap();
    assert_eq!(newest(run.path()), (123_456_789, 0));
    save(run.path(), 123_456_789, 1).unwrap();
    assert_eq!(newest(run.path()), (123_456_789, 1), "the one of the same step is replaced");
    let steps: Vec<u64> = list(run.path()).unwrap().iter().map(|one| one.step).collect();
    assert_eq!(steps, [1000, 123_456_789]);
    assert_eq!(names_in(run.path()).len(), 3);
}

#[test]
fn everything_is_on_the_disk_before_it_gets_its_name() {
    let run = with_checkpoints(&[1]);
    let (_, log) = with_fault(None, Fault::Once, || save(run.path(), 2, 0).unwrap());
    let mut last = Vec::new();
    for (action, path) in &log {
        if *action != "write" {
            let name = path.strip_prefix(run.path()).unwrap().to_str().unwrap();
            let (name, rest) =
                name.split_once(".tmp-").map_or((name, None), |(name, rest)| (name, Some(rest)));
            let file = rest.and_then(|rest| rest.split_once('/')).map_or("", |(_, file)| file);
            last.push(format!("{action}: {name}{} {file}", if rest.is_some() { " (aside)" } else { "" }));
        }
    }
    insta::assert_snapshot!(last.join("\n"), @r"
    create folder: checkpoints/step-00000002 (aside) 
    create: checkpoints/step-00000002 (aside) parameters.safetensors
    sync: checkpoints/step-00000002 (aside) parameters.safetensors
    create: checkpoints/step-00000002 (aside) optimizer.safetensors
    sync: checkpoints/step-00000002 (aside) optimizer.safetensors
    create: checkpoints/step-00000002 (aside) state.json
    sync: checkpoints/step-00000002 (aside) state.json
    sync folder: checkpoints/step-00000002 (aside) 
    rename: checkpoints/step-00000002 (aside) 
    sync folder: checkpoints 
    sync folder:
    ");
}

#[test]
fn an_error_at_any_point_leaves_older_checkpoints_untouched() {
    for kind in [Fault::Once, Fault::FromThere] {
        // Beside an older one, and in place of one of the same step.
        for older in [&[1][..], &[1, 2]] {
            for at in 0.. {
                let run = with_checkpoints(older);
                let (result, log) = with_fault(Some(at), kind, || save(run.path(), 2, 7));
                let found = newest(run.path());
                if result.is_ok() {
                    assert_eq!(found, (2, 7));
                    if log.len() <= at {
                        break;
                    }
                }
                let renamed =
                    log[..at.min(log.len())].iter().any(|one| matches!(one.0, "rename" | "exchange"));
                let before = (*older.last().unwrap(), 0);
                assert_eq!(found, if renamed { (2, 7) } else { before }, "{:?}", log.last());
                save(run.path(), 2, 8).unwrap();
                assert_eq!(newest(run.path()), (2, 8));
                let names = [".lock", "step-00000001", "step-00000002"].map(str::to_owned);
                assert_eq!(names_in(run.path()), names.into(), "{kind:?} at {at}");
            }
        }
    }
}

#[test]
fn a_full_disk_is_told() {
    let run = with_checkpoints(&[1]);
    let (result, log) = with_fault(Some(5), Fault::FromThere, || save(run.path(), 2, 0));
    assert_eq!(log[5].0, "write");
    let error = result.unwrap_err();
    let text = error.to_string().replace(run.path().to_str().unwrap(), "run");
    let (before, after) = text.split_once(".tmp-").unwrap();
    let after = after.split_once('/').unwrap().1;
    insta::assert_snapshot!(format!("{before}.tmp-…/{after}"), @"could not write run/checkpoints/step-00000002.tmp-…/parameters.safetensors: no storage space");
    insta::assert_snapshot!(error.hint().unwrap(), @"make room; the checkpoints saved before are untouched");
}

#[test]
fn an_error_while_old_ones_are_removed_costs_no_new_one() {
    for at in 0.. {
        let run = with_checkpoints(&[1, 2, 3]);
        let keep = Keep { newest: 1.try_into().ok(), best: None };
        let (result, log) = with_fault(Some(at), Fault::FromThere, || keep.apply(run.path()));
        assert_eq!(newest(run.path()), (3, 0));
        assert!(list(run.path()).unwrap().iter().all(|one| one.state.is_ok()));
        if log.len() <= at {
            result.unwrap();
            break;
        }
        keep.apply(run.path()).unwrap();
        save(run.path(), 4, 0).unwrap();
        let names = [".lock", "step-00000003", "step-00000004"].map(str::to_owned);
        assert_eq!(names_in(run.path()), names.into());
    }
}

#[test]
fn later_checkpoints_can_be_given_up() {
    let run = with_checkpoints(&[1, 2, 3]);
    assert_eq!(remove_after(run.path(), 3).unwrap(), Vec::<PathBuf>::new());
    assert_eq!(remove_after(run.path(), 1).unwrap().len(), 2);
    assert_eq!(newest(run.path()), (1, 0));
    save(run.path(), 5, 0).unwrap();
    fs::write(run.path().join("checkpoints/step-00000005/PINNED"), "").unwrap();
    assert!(matches!(remove_after(run.path(), 1), Err(CheckpointError::Pinned { .. })));
    assert!(matches!(save(run.path(), 5, 1), Err(CheckpointError::Pinned { .. })));
    assert_eq!(newest(run.path()), (5, 0));
}

#[test]
fn damage_is_told_with_the_checkpoint_before() {
    let told = |step: u64, file: &str, damage: fn(&Path)| {
        let run = with_checkpoints(&[1, 2, 3]);
        for step in step..=3 {
            damage(&run.path().join(format!("checkpoints/step-{step:08}/{file}")));
        }
        let error = latest(run.path()).unwrap_err();
        let text = format!("{error}\nhint: {}", error.hint().unwrap_or_default());
        text.replace(run.path().to_str().unwrap(), "run")
    };
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        let at = bytes.len() - 9;
        bytes[at] ^= 4;
        fs::write(path, bytes).unwrap();
    };
    let cut = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    };
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let all = [
        told(3, "parameters.safetensors", flip),
        told(2, "optimizer.safetensors", flip),
        told(3, "optimizer.safetensors", cut),
        told(3, "state.json", flip),
        told(3, "state.json", cut),
        told(3, "state.json", remove),
        told(1, "parameters.safetensors", remove),
    ];
    insta::assert_snapshot!(all.join("\n\n"), @r"
    run/checkpoints/step-00000003/parameters.safetensors is damaged: its hash is not the one it was written with
    hint: the newest one before it is run/checkpoints/step-00000002

    run/checkpoints/step-00000003/optimizer.safetensors is damaged: its hash is not the one it was written with
    hint: the newest one before it is run/checkpoints/step-00000001

    run/checkpoints/step-00000003/optimizer.safetensors is damaged: it has 1290 bytes, but was written with 2580
    hint: the newest one before it is run/checkpoints/step-00000002

    run/checkpoints/step-00000003/state.json is damaged: its checksum, the last line, does not fit the lines above
    hint: the newest one before it is run/checkpoints/step-00000002

    run/checkpoints/step-00000003/state.json is damaged: its last line, the checksum, is missing
    hint: the newest one before it is run/checkpoints/step-00000002

    run/checkpoints/step-00000003 is damaged: `state.json` is missing
    hint: the newest one before it is run/checkpoints/step-00000002

    run/checkpoints/step-00000003/parameters.safetensors is damaged: it is missing
    hint:
    ");
}

#[test]
fn every_byte_of_a_checkpoint_is_checked() {
    let run = with_checkpoints(&[1]);
    let folder = run.path().join("checkpoints/step-00000001");
    let mut random = Random::new(3);
    for file in ["parameters.safetensors", "optimizer.safetensors", "state.json"] {
        let path = folder.join(file);
        let good = fs::read(&path).unwrap();
        for _ in 0..100 {
            let mut bytes = good.clone();
            bytes[random.below(good.len())] ^= 1 << random.below(8);
            fs::write(&path, &bytes).unwrap();
            latest(run.path()).unwrap_err();
            fs::write(&path, &good[..random.below(good.len())]).unwrap();
            latest(run.path()).unwrap_err();
        }
        fs::write(&path, &good).unwrap();
    }
    assert_eq!(newest(run.path()), (1, 0));
}

#[test]
fn two_savers_at_once_are_refused() {
    let run = with_checkpoints(&[1]);
    let saving = Saving::begin(run.path(), RunState { step: 2, ..RunState::default() }).unwrap();
    let error = save(run.path(), 3, 0).unwrap_err();
    assert!(matches!(error, CheckpointError::Busy { .. }), "{error}");
    drop(saving);
    save(run.path(), 3, 0).unwrap();
}

#[test]
fn only_our_leftovers_are_removed() {
    let run = with_checkpoints(&[1]);
    let folder = run.path().join("checkpoints");
    let mine = folder.join("step-00000002.tmp-1f-2e-0");
    let others = [
        "checkpoint_2.tmp-1700000000",
        "step-2.tmp-1",
        "step-00000002.tmp-",
        "step-00000002.tmp-a b",
        "notes",
    ];
    for folder in others.iter().map(|name| folder.join(name)).chain([mine.clone()]) {
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("parameters.safetensors"), "half").unwrap();
    }
    save(run.path(), 3, 0).unwrap();
    assert!(!mine.exists());
    assert!(others.iter().all(|name| folder.join(name).join("parameters.safetensors").exists()));
}

/// The process that dies in the tests below; alone it does nothing.
#[test]
fn child() {
    let Ok(run) = std::env::var("SEQIO_TEST_CHECKPOINT_RUN") else { return };
    let run = Path::new(&run);
    match std::env::var("SEQIO_TEST_CHECKPOINT_DIES_AT") {
        Ok(at) => {
            with_fault(Some(at.parse().unwrap()), Fault::Death, || {
                save(run, 2, 7).unwrap();
                Keep { newest: 1.try_into().ok(), best: None }.apply(run).unwrap();
            });
        }
        Err(_) => {
            let next = latest(run).unwrap().map_or(0, |checkpoint| checkpoint.state().step) + 1;
            for step in next.. {
                save(run, step, 0).unwrap();
                Keep { newest: 2.try_into().ok(), best: None }.apply(run).unwrap();
            }
        }
    }
}

fn child_of(run: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "checkpoint::faults::child"]).env("SEQIO_TEST_CHECKPOINT_RUN", run);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn a_process_that_dies_at_any_point_of_a_save_leaves_the_checkpoint_before() {
    for older in [&[1][..], &[1, 2]] {
        let mut before = 0;
        for at in 0.. {
            let run = with_checkpoints(older);
            let status =
                child_of(run.path()).env("SEQIO_TEST_CHECKPOINT_DIES_AT", at.to_string()).status().unwrap();
            let found = newest(run.path());
            if status.success() {
                assert!(at > 20, "the child was not killed");
                break;
            }
            assert_eq!(status.code(), Some(DEAD));
            // The one before up to the moment of the new name, the new one from then on.
            let is_before = found == (*older.last().unwrap(), 0);
            assert!(is_before || found == (2, 7), "{found:?} at {at}");
            assert!(!is_before || before == at, "the old one came back at {at}");
            before += usize::from(is_before);
            save(run.path(), 3, 0).unwrap();
            assert!(names_in(run.path()).iter().all(|name| !name.contains(".tmp-")));
        }
        assert!(before > 10);
    }
}

#[test]
fn a_process_killed_at_random_leaves_a_checkpoint() {
    let run = with_checkpoints(&[1]);
    let mut random = Random::new(11);
    let mut step = 1;
    for _ in 0..12 {
        let mut child = child_of(run.path()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20 + random.below(60) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let (found, _) = newest(run.path());
        assert!(found >= step, "{found} after {step}");
        step = found;
    }
    save(run.path(), step + 1, 0).unwrap();
    assert!(names_in(run.path()).iter().all(|name| !name.contains(".tmp-")));
}
