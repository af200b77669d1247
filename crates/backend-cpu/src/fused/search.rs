//! Places in sorted rows, by halving, a value at a time: the steps of the composite's body, which settle also what rows that are
//! not sorted, or hold NaN, give.
use super::known;
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    element::{Number, with_number},
    operand::internal,
};
use adamant_runtime::{Composite, DType, ErrorKind, composite::search::SearchSorted, kernel::FaultWord};

pub(super) struct SearchSortedKernel;
/// How many values make a task.
const TASK: usize = 8 * 1024;
/// Rows up to this length are searched by counting.
const COUNTED: usize = 64;

impl CpuKernel for SearchSortedKernel {
    fn supports(&self, _: &dyn Composite, dtypes: &[DType]) -> bool {
        matches!(dtypes, [rows, values, DType::I64] if rows == values && rows.computes())
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let search = known::<SearchSorted>(composite).ok_or_else(|| internal("a search of another make"))?;
        let ([rows, values], [out]) = (operands.inputs, &mut *operands.outputs) else { return Err(internal("a search has two inputs and one output")) };
        let out: &mut [i64] = out.dense()?;
        let rank = rows.shape.rank();
        let n = rank.checked_sub(1).map(|last| rows.shape[last]).ok_or_else(|| internal("a search in no row"))?;
        // How many values go with one row.
        let each = if rank == 1 { out.len() } else { values.shape[rank - 1] };
        with_number!(rows.dtype, T => {
            let (rows, values): (&[T], &[T]) = (rows.dense()?, values.dense()?);
            runtime.threads.for_chunks_mut(out, TASK, |task, out| {
                for (k, out) in out.iter_mut().enumerate() {
                    let at = task * TASK + k;
                    let row = &rows[at / each * n..][..n];
                    let value = values[at].wide();
                    *out = place(row, |v| is_before(v.wide(), value, search.right)) as i64;
                }
            });
            Ok(())
        })
    }
}
/// Does an element stand before a value, or before what follows the equal ones? NaN is the largest of all, as in sorting.
#[inline(always)]
#[allow(clippy::eq_op)]
fn is_before<W: PartialOrd>(element: W, value: W, right: bool) -> bool {
    let (is_number, is_last) = (element == element, value != value);
    if right { element <= value || is_last } else { element < value || (is_number && is_last) }
}
/// How many elements stand before a value.
#[inline(always)]
fn place<T: Number>(row: &[T], before: impl Fn(T) -> bool) -> usize {
    if row.len() <= COUNTED {
        return row.iter().filter(|v| before(**v)).count();
    }
    let (mut low, mut high) = (0, row.len());
    while low < high {
        let middle = (low + high) / 2;
        if before(row[middle]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
