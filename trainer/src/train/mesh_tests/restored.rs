//! Two runs on one mesh, and one run on two meshes.

use super::{MODES, on_cpu, stored, tiny};
use crate::engine::Target;
use crate::train::{Beginning, TrainerConfig};

#[test]
fn a_mesh_gives_the_same_bits_whatever_the_threads_of_its_ranks() {
    let config = TrainerConfig { microbatches: 2, ..tiny::config(4) };
    for mode in MODES {
        let trained = |threads: [usize; 4]| {
            let mut place = on_cpu((2, 2), mode);
            place.targets = threads.map(|threads| Target::Cpu { threads }).to_vec();
            let mut trainer = tiny::trainer(&place, &config);
            (tiny::losses(&mut trainer, 4), stored(&mut trainer))
        };
        assert_eq!(trained([1, 1, 1, 1]), trained([3, 1, 2, 1]), "{mode:?}");
    }
}

#[test]
fn a_checkpoint_of_one_mesh_is_that_of_any_other() {
    let (config, folder) =
        (tiny::config(4), |name: &str| tempfile::Builder::new().prefix(name).tempdir().unwrap());
    let home = on_cpu((2, 2), (2, 2));
    let whole = folder("whole");
    let mut trainer = tiny::trainer(&home, &config);
    let expected = tiny::run(&mut trainer, whole.path(), None, 6).losses;
    let last = stored(&mut trainer);

    let half = folder("half");
    let mut trainer = tiny::trainer(&home, &config);
    tiny::run(&mut trainer, half.path(), None, 3).ended.unwrap();
    let middle = stored(&mut trainer);

    for (sizes, mode) in
        [((1, 1), (1, 1)), ((1, 4), (2, 1)), ((4, 1), (1, 2)), ((2, 2), (1, 1)), ((2, 2), (2, 2))]
    {
        let place = on_cpu(sizes, mode);
        // There, without a step.
        let there = folder("there");
        let mut trainer = tiny::trainer(&place, &config);
        let run = tiny::run(&mut trainer, there.path(), Some(half.path()), 3);
        assert!(matches!(run.beginning, Beginning::Restored { step: 3, .. }), "{:?}", run.beginning);
        assert_eq!(run.ended.unwrap().step, 3);
        assert!(stored(&mut trainer) == middle, "{}", place.name);

        // There, to the end.
        let end = folder("end");
        let mut trainer = tiny::trainer(&place, &config);
        let run = tiny::run(&mut trainer, end.path(), Some(half.path()), 6);
        let apart = tiny::apart(expected.range(4..).map(|(_, loss)| loss), run.losses.values());
        println!("{}: losses after it was restored are apart by {apart:.1e}", place.name);
        assert_eq!(run.losses.len(), 3);
        assert!(apart <= 1e-5, "{}: {apart}", place.name);
        if place.name == home.name {
            assert!(apart == 0.0 && stored(&mut trainer) == last);
        }

        // And back.
        let back = folder("back");
        let mut trainer = tiny::trainer(&home, &config);
        let run = tiny::run(&mut trainer, back.path(), Some(there.path()), 6);
        assert!(run.losses.iter().eq(expected.range(4..)), "{:?}, {expected:?}", run.losses);
        assert!(stored(&mut trainer) == last, "back from {}", place.name);
    }
}
