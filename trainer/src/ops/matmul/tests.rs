use super::*;
use crate::testing::{Case, check};

/// Ragged, aligned, and thin; larger than a tile, and with more than one step over the depth.
const SIZES: [(usize, usize, usize); 8] = [
    (1, 1, 1),
    (3, 5, 7),
    (17, 33, 9),
    (64, 32, 64),
    (68, 36, 132),
    (130, 70, 66),
    (1, 40, 200),
    (200, 8, 4),
];

fn shapes(op: Matmul, (m, k, n): (usize, usize, usize)) -> (Vec<usize>, Vec<usize>) {
    match op.layout {
        Layout::Nn => (vec![m, k], vec![k, n]),
        Layout::Nt => (vec![m, k], vec![n, k]),
        Layout::Tn => (vec![k, m], vec![k, n]),
    }
}

/// The laws, with these kernels. Sums of up to 200 terms in another order: a relative 2e-6 of the root mean square
/// was the most seen.
fn obeys(op: Matmul, kernels: Kernels, a: Vec<usize>, b: Vec<usize>) {
    let op = op.with_kernels(kernels);
    check(Case::new(31).normal("a", &a[..]).normal("b", &b[..]).tolerance(1e-5), |tape, inputs| {
        tape.record_all(op, inputs)
    });
}

fn obeys_with(kernels: Kernels) {
    for op in [Matmul::nn(), Matmul::nt(), Matmul::tn()] {
        for sizes in SIZES {
            let (a, b) = shapes(op, sizes);
            obeys(op, kernels, a, b);
        }
        for (batch, sizes) in [(1, (4, 8, 4)), (3, (5, 7, 6)), (2, (20, 12, 36))] {
            let (mut a, mut b) = shapes(op, sizes);
            a.insert(0, batch);
            b.insert(0, batch);
            obeys(op.batched(), kernels, a, b);
        }
    }
}

#[test]
fn the_laws_hold_with_registers_alone() {
    obeys_with(Kernels::Direct);
}

#[test]
fn the_laws_hold_with_workgroup_memory() {
    obeys_with(Kernels::Tiled);
}

#[test]
fn leading_axes_are_rows() {
    obeys(Matmul::nn(), Kernels::Direct, vec![2, 3, 5], vec![5, 4]);
    obeys(Matmul::nt(), Kernels::Direct, vec![2, 3, 5], vec![4, 5]);
    obeys(Matmul::tn(), Kernels::Direct, vec![2, 3, 5], vec![2, 3, 4]);
    obeys(Matmul::nn(), Kernels::Direct, vec![5], vec![5, 4]);
    obeys(Matmul::tn(), Kernels::Direct, vec![5], vec![4]);
}

#[test]
fn a_matrix_may_be_multiplied_by_itself() {
    check(Case::new(32).normal("x", [6, 6]), |tape, inputs| {
        tape.record_all(Matmul::nn(), &[inputs[0], inputs[0]])
    });
}

#[test]
fn shapes_that_do_not_go_together_are_named() {
    let wrong = |op: Matmul, a: &[usize], b: &[usize]| {
        op.outputs(&[Spec::f32(a), Spec::f32(b)]).expect_err("shapes that do not go together")
    };
    assert_eq!(
        wrong(Matmul::nn(), &[2, 3], &[4, 5]),
        "it sums over an axis of 3 on the left and of 4 on the right"
    );
    assert_eq!(
        wrong(Matmul::nt(), &[2, 3], &[3, 5]),
        "it sums over an axis of 3 on the left and of 5 on the right"
    );
    assert_eq!(
        wrong(Matmul::tn(), &[2, 3, 4], &[3, 2, 4]),
        "it sums over all axes but the last, which must be those of both sides"
    );
    assert_eq!(wrong(Matmul::nn(), &[2, 3], &[3]), "its right side needs two axes");
    assert_eq!(wrong(Matmul::nn(), &[], &[3, 3]), "its left side needs at least one axis");
    assert_eq!(
        wrong(Matmul::nn().batched(), &[2, 3], &[3, 2]),
        "batched, it takes two tensors of three axes"
    );
    assert_eq!(
        wrong(Matmul::nn().batched(), &[2, 3, 3], &[3, 3, 2]),
        "batched, it takes as many matrices on the left as on the right"
    );
    assert_eq!(
        Matmul::nn().outputs(&[Spec::f32([2, 3]), Spec::i32([3, 3])]),
        Err("it takes floats".to_owned())
    );
}
