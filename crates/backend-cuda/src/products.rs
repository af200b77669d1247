//! Which steps are matrix products that a library computes, and how it sees them. The library counts column by column, so a
//! product of rows is given to it as its transposed: `dᵀ = bᵀ aᵀ`, whose columns are our rows.
//!
//! A product with ends is the library's whole where it has these ends (`ends`) and their operands lie as it wants them; else its sums
//! are the library's and the rest is a Map in their place; else all of it is one kernel of ours. Which one it is follows from
//! the structure and from what the library takes. The first reads and writes the result once, and its sums are those of the
//! second: ours need longer.
//!
//! A step that bad data may forbid is never one of these: a library's launch looks at no word.
use crate::{
    blaslt::{BlasLt, LtBehind, LtBias, LtMatrix, LtPlaces, LtProduct},
    ends::{self, LtEnding},
    opened::Opened,
};
use adamant_kernels::{Array, Work};
use adamant_runtime::{
    backend::When,
    kernel::{KernelKind, Step},
    product::Sums,
};

/// Is it a matrix product with ends whose sums are left to the library, and which has not got these ends?
pub(crate) fn is_apart(kernel: &KernelKind, opened: &Opened) -> bool {
    let KernelKind::Product(product) = kernel else { return false };
    let has = |ending: LtEnding| ending.paths(product.dtype).all(|path| opened.paths.is_on(path));
    product.sums == Sums::Matmul && opened.multiplies(product.dtype) && !ends::read(product).is_some_and(has)
}
/// What the library may be asked for in a step's place.
pub(crate) struct AskedProduct {
    /// sums alone, in the result's place
    pub sums: (LtProduct, LtPlaces),
    /// all of it, where the library has that
    pub whole: Option<(LtProduct, LtPlaces)>,
}
/// The product of a step as the library sees it, if it is one for it; `address` gives an operand's.
pub(crate) fn of(step: &Step<'_>, work: &Work<'_>, address: impl Fn(usize) -> Option<u64>) -> Option<AskedProduct> {
    let ending = match (&step.kernel.kind, step.guard.when) {
        (KernelKind::Matmul, When::Always) => None,
        (KernelKind::Product(product), When::Always) => Some(ends::read(product)?),
        _ => return None,
    };
    let ([a, b, others @ ..], [out]) = (work.inputs, work.outputs) else { return None };
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
    // The library's first factor is our second.
    let [at_a, at_b, at_d] = [place(b)?, place(a)?, place(out)?];
    let left = matrix(b, columns, depth, at_a)?;
    let right = matrix(a, depth, rows, at_b)?;
    let d = LtMatrix {
        rows: columns as u64,
        columns: rows as u64,
        leading: columns as i64,
        batched: (rows * columns) as i64,
        alignment: alignment(at_d),
        is_transposed: false,
    };
    let product = LtProduct { dtype, batch: i32::try_from(batch).ok()?, a: left, b: right, d, behind: LtBehind::default() };
    let sums = (product, LtPlaces { a: at_a, b: at_b, d: at_d, added: at_d, bias: 0 });
    let whole = match ending {
        None => Some(sums),
        Some(ending) => behind(&ending, others, out, [batch, rows, columns], place).map(|(behind, [added, bias])| {
            let added = added.unwrap_or(at_d);
            (LtProduct { behind, ..product }, LtPlaces { added, bias: bias.unwrap_or(0), ..sums.1 })
        }),
    };
    Some(AskedProduct { sums, whole })
}
/// What comes behind the sums, with the addresses of the matrix and of the bias that are added.
fn behind(ending: &LtEnding, others: &[Array], out: &Array, sizes: [usize; 3], place: impl Fn(&Array) -> Option<u64>) -> Option<(LtBehind, [Option<u64>; 2])> {
    let mut behind = LtBehind { negated: ending.negated, activation: ending.activation, ..LtBehind::default() };
    let mut places = [None; 2];
    for input in &ending.addends {
        let array = others.get(usize::from(*input).checked_sub(1)?).filter(|o| o.dtype == out.dtype)?;
        let at = place(array)?;
        match of_columns(array, sizes) {
            Some(batched) if behind.bias.is_none() => {
                behind.bias = Some(LtBias { batched, alignment: alignment(at) });
                places[1] = Some(at);
            }
            _ if behind.added.is_none() && array.dense && array.shape == out.shape => {
                behind.added = Some(alignment(at));
                places[0] = Some(at);
            }
            _ => return None,
        }
    }
    Some((behind, places))
}
/// Has an array, seen in the result's shape, one number for each column, side by side, the same for all rows? Then the step to those
/// of the next matrix.
fn of_columns(array: &Array, [_, rows, columns]: [usize; 3]) -> Option<i64> {
    let mut axes = (0..array.shape.rank()).rev().map(|x| (array.shape[x], array.strides[x])).filter(|(extent, _)| *extent != 1);
    let mut covered = 1;
    while covered < columns {
        let (extent, step) = axes.next()?;
        if step != covered as isize {
            return None;
        }
        covered *= extent;
    }
    let mut repeated = 1;
    while repeated < rows {
        let (extent, step) = axes.next()?;
        if step != 0 {
            return None;
        }
        repeated *= extent;
    }
    if covered == columns && repeated == rows { evenly(axes) } else { None }
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
    let batched = evenly((0..row).rev().map(|x| (array.shape[x], array.strides[x])))?;
    Some(LtMatrix { rows: within as u64, columns: others as u64, leading: leading as i64, batched, alignment: alignment(address), is_transposed })
}
/// The step between neighbours, where all are evenly apart: these axes, the innermost first, are one axis.
fn evenly(axes: impl Iterator<Item = (usize, isize)>) -> Option<i64> {
    let mut step = None;
    let mut next = 0isize;
    for (extent, stride) in axes.filter(|(extent, _)| *extent != 1) {
        match step {
            None => step = Some(stride),
            Some(_) if stride == next => {}
            Some(_) => return None,
        }
        next = stride * extent as isize;
    }
    let step = step.unwrap_or(0);
    (step >= 0).then_some(step as i64)
}
fn alignment(address: u64) -> u32 {
    1 << address.trailing_zeros().min(8)
}
