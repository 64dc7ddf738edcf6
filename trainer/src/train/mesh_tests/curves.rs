//! Fifty steps on several meshes: the curves are one.

use super::{on_cpu, tiny};

#[test]
fn curves_of_all_meshes_are_those_of_one_rank() {
    let config = tiny::config(4);
    let curve = |sizes, mode| tiny::losses(&mut tiny::trainer(&on_cpu(sizes, mode), &config), 50);
    let expected = curve((1, 1), (1, 1));
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    let (begins, ends) = (mean(&expected[..8]), mean(&expected[42..]));
    assert!(ends < 0.8 * begins, "nothing was learnt: {begins} {ends}");
    for (sizes, mode) in [((1, 2), (1, 1)), ((2, 2), (2, 2)), ((4, 1), (1, 2))] {
        let apart = tiny::apart(&expected, &curve(sizes, mode));
        println!("{sizes:?}, {mode:?}: the curve from {begins:.1} to {ends:.1} is apart by {apart:.1e}");
        // Numbers are summed in another order, and fifty updates carry that on.
        assert!(apart <= 1e-4, "{sizes:?}, {mode:?}: {apart}");
    }
}
