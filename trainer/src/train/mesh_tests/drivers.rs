//! One run over adapters of several drivers.

use super::{on_cpu, partitioning, tiny};
use crate::engine::Target;
use crate::gpu::{Device, adapters};
use crate::mesh::Mesh;
use crate::train::tests::Place;

/// All adapters of the machine, up to three, a rank on each.
#[test]
#[ignore = "minutes long"]
fn adapters_of_different_drivers_train_together() {
    let mut found = adapters();
    found.retain(|adapter| adapter.lacks.is_empty());
    found.truncate(3);
    let open = |index: usize| Target::Gpu(Device::open(&index.to_string()).unwrap());
    let config = tiny::config(6);
    let expected = tiny::losses(&mut tiny::trainer(&on_cpu((1, 1), (1, 1)), &config), 20);
    for mode in [(1, 1), (2, 2)] {
        let place = Place {
            name: found.iter().map(|adapter| format!("{adapter}, ")).collect(),
            mesh: Mesh::new(1, found.len()).unwrap(),
            partitioning: partitioning(mode),
            targets: found.iter().map(|adapter| open(adapter.index)).collect(),
        };
        let losses = tiny::losses(&mut tiny::trainer(&place, &config), 20);
        let apart = tiny::apart(&expected, &losses);
        println!("{}{mode:?}: losses apart by {apart:.1e}", place.name);
        assert!(apart <= 1e-4, "{}: {apart}", place.name);
    }
}
