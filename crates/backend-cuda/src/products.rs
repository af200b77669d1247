//! Which steps are matrix products that a library computes, and how it sees them. The library counts column by column, so a
//! product of rows is given to it as its transposed: `dᵀ = bᵀ aᵀ`, whose columns are our rows.
//!
//! A step that bad data may forbid is never one of these: a library's launch looks at no word.
use crate::blaslt::{BlasLt, LtMatrix, LtProduct};
use adamant_kernels::{Array, Work};
use adamant_runtime::{
    DType,
    backend::When,
    kernel::{KernelKind, Step},
    product::Sums,
};

/// Is it a matrix product with more than its sums, of a dtype whose sums are left to the library?
pub(crate) fn is_fused(kernel: &KernelKind, is_left: impl Fn(DType) -> bool) -> bool {
    matches!(kernel, KernelKind::Product(product) if product.sums == Sums::Matmul && is_left(product.dtype))
}
/// The product of a step as the library sees it, if it is one for it; `address` gives an operand's.
pub(crate) fn of(step: &Step<'_>, work: &Work<'_>, address: impl Fn(usize) -> Option<u64>) -> Option<(LtProduct, [u64; 3])> {
    let (KernelKind::Matmul, When::Always) = (&step.kernel.kind, step.guard.when) else { return None };
    let ([a, b], [out]) = (work.inputs, work.outputs) else { return None };
    let dtype = out.dtype;
    if !BlasLt::computes(dtype) || a.dtype != dtype || b.dtype != dtype || !out.dense {
        return None;
    }
    let (row, column) = (a.shape.rank().checked_sub(2)?, a.shape.rank() - 1);
    let (rows, depth, columns) = (a.shape[row], a.shape[column], b.shape[column]);
    let batch: usize = (0..row).map(|x| a.shape[x]).product();
    if rows * depth * columns * batch == 0 {
        return None;
    }
    let place = |array: &Array| Some(address(array.buffer)? + (array.offset * dtype.size()) as u64);
    let [at_a, at_b, at_d] = [place(a)?, place(b)?, place(out)?];
    let left = matrix(b, columns, depth, at_b)?;
    let right = matrix(a, depth, rows, at_a)?;
    let d = LtMatrix {
        rows: columns as u64,
        columns: rows as u64,
        leading: columns as i64,
        batched: (rows * columns) as i64,
        alignment: alignment(at_d),
        is_transposed: false,
    };
    Some((LtProduct { dtype, batch: i32::try_from(batch).ok()?, a: left, b: right, d }, [at_b, at_a, at_d]))
}
/// An array's matrices, transposed: of so many rows and columns then. None where neither axis is in order, or where the matrices
/// of a batch are not evenly apart.
fn matrix(array: &Array, rows: usize, columns: usize, address: u64) -> Option<LtMatrix> {
    let (row, column) = (array.shape.rank() - 2, array.shape.rank() - 1);
    // Our columns are the library's rows.
    let (along, across) = (array.strides[column], array.strides[row]);
    let is_one = |extent: usize, step: isize| extent == 1 || step == 1;
    let (is_transposed, leading, within, others) = if is_one(rows, along) && (columns == 1 || across >= rows as isize) {
        (false, if columns == 1 { rows as isize } else { across }, rows, columns)
    } else if is_one(columns, across) && (rows == 1 || along >= columns as isize) {
        (true, if rows == 1 { columns as isize } else { along }, columns, rows)
    } else {
        return None;
    };
    let batched = evenly(array, row)?;
    Some(LtMatrix { rows: within as u64, columns: others as u64, leading: leading as i64, batched, alignment: alignment(address), is_transposed })
}
/// The step between neighbouring matrices, where all are evenly apart: the axes before `row` are one axis.
fn evenly(array: &Array, row: usize) -> Option<i64> {
    let mut step = None;
    let mut next = 0isize;
    for x in (0..row).rev().filter(|x| array.shape[*x] != 1) {
        match step {
            None => step = Some(array.strides[x]),
            Some(_) if array.strides[x] == next => {}
            Some(_) => return None,
        }
        next = array.strides[x] * array.shape[x] as isize;
    }
    let step = step.unwrap_or(0);
    (step >= 0).then_some(step as i64)
}
fn alignment(address: u64) -> u32 {
    1 << address.trailing_zeros().min(8)
}
