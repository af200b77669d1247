//! Running combinations in log2(n) rounds (Hillis and Steele, Data Parallel Algorithms, 1986): after round k each element is
//! the combination of the 2^k last ones. n log n work instead of n. For a linear recurrence the pairs (a, b) are combined
//! (Blelloch, Prefix Sums and Their Applications, 1990, section 1.4.1), so products of coefficients are taken that a loop
//! never takes: where these alone leave the dtype's range, the result does too.
use crate::{Tensor, op::ScanOp, scalar::Binary};

pub(crate) fn body(op: ScanOp, axis: usize, reverse: bool, inputs: &[Tensor]) -> Tensor {
    let flipped = |x: &Tensor| if reverse { x.flip(axis) } else { x.clone() };
    let x = flipped(&inputs[0]);
    let dtype = x.meta().dtype;
    let scanned = match (op, inputs.get(1)) {
        (ScanOp::LinearRecurrence, Some(b)) => recurrence(x.widened(), flipped(b).widened(), axis).cast(dtype),
        // 16-bit floats run in f32 and are rounded once, integers in i64.
        (ScanOp::Sum, _) => doubled(x.cast(dtype.sum_dtype()).widened(), Binary::Add, axis).cast(dtype.sum_dtype()),
        (ScanOp::Prod, _) => doubled(x.cast(dtype.sum_dtype()).widened(), Binary::Mul, axis).cast(dtype.sum_dtype()),
        (ScanOp::Min, _) => doubled(x, Binary::Minimum, axis),
        _ => doubled(x, Binary::Maximum, axis),
    };
    flipped(&scanned)
}
/// 1, 2, 4, ... below the size of the axis.
fn rounds(x: &Tensor, axis: usize) -> impl Iterator<Item = usize> + use<> {
    let n = x.meta().shape[axis];
    std::iter::successors(Some(1usize), |k| k.checked_mul(2)).take_while(move |&k| k < n)
}
/// (the first `k` elements, the rest, and before each of the rest the one that is `k` earlier).
fn apart(x: &Tensor, axis: usize, k: usize) -> (Tensor, Tensor, Tensor) {
    let n = x.meta().shape[axis];
    (x.narrow(axis, 0, k), x.narrow(axis, k, n - k), x.narrow(axis, 0, n - k))
}
fn doubled(mut x: Tensor, combine: Binary, axis: usize) -> Tensor {
    for k in rounds(&x, axis) {
        let (first, rest, earlier) = apart(&x, axis, k);
        x = Tensor::cat(&[first, earlier.binary(combine, &rest)], axis);
    }
    x
}
fn recurrence(mut a: Tensor, mut b: Tensor, axis: usize) -> Tensor {
    for k in rounds(&b, axis) {
        let (a_first, a_rest, a_earlier) = apart(&a, axis, k);
        let (b_first, b_rest, b_earlier) = apart(&b, axis, k);
        b = Tensor::cat(&[b_first, &a_rest * b_earlier + b_rest], axis);
        a = Tensor::cat(&[a_first, a_earlier * a_rest], axis);
    }
    b
}
