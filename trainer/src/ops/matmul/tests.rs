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

/// The laws, with both families of kernels. The most seen is 1.3e-6 of the root mean square.
fn obeys(op: Matmul, a: &[usize], b: &[usize]) {
    let case = Case::new(31).normal("a", a).normal("b", b).tolerance(5e-6);
    check(case, |tape, inputs| tape.record_all(op, inputs));
}

#[test]
fn the_laws_hold() {
    for op in [Matmul::nn(), Matmul::nt(), Matmul::tn()] {
        for sizes in SIZES {
            let (a, b) = shapes(op, sizes);
            obeys(op, &a, &b);
        }
        for (batch, sizes) in [(1, (4, 8, 4)), (3, (5, 7, 6)), (2, (20, 12, 36))] {
            let (mut a, mut b) = shapes(op, sizes);
            a.insert(0, batch);
            b.insert(0, batch);
            obeys(op.batched(), &a, &b);
        }
    }
}

/// Exact, and with ragged edges, in the kernel that large products get in software.
#[test]
fn the_laws_hold_with_large_blocks() {
    for op in [Matmul::nn(), Matmul::nt(), Matmul::tn()] {
        for sizes in [(512, 4, 512), (516, 12, 508)] {
            let (a, b) = shapes(op, sizes);
            obeys(op, &a, &b);
        }
        let (mut a, mut b) = shapes(op, (60, 8, 248));
        a.insert(0, 16);
        b.insert(0, 16);
        obeys(op.batched(), &a, &b);
    }
}

#[test]
fn the_laws_hold_with_many_large_tiles() {
    obeys(Matmul::nn().batched(), &[32, 132, 20], &[32, 20, 136]);
}

#[test]
fn leading_axes_are_rows() {
    obeys(Matmul::nn(), &[2, 3, 5], &[5, 4]);
    obeys(Matmul::nt(), &[2, 3, 5], &[4, 5]);
    obeys(Matmul::tn(), &[2, 3, 5], &[2, 3, 4]);
    obeys(Matmul::nn(), &[5], &[5, 4]);
    obeys(Matmul::tn(), &[5], &[4]);
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
