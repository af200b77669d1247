//! Stable sorts along an axis. A value and its place become one integer in the order of the values (see [`crate::order`]), so an
//! unstable sort is stable.
use super::Call;
pub(super) use super::computes as supports;
use crate::{
    device::Runtime,
    element::with_number,
    lines::AxisLines,
    operand::{In, Out, internal},
    order::{Ordered, Placed, is_short, placed},
    scratch::list,
};
use adamant_runtime::ErrorKind;

type Fields<'a> = (&'a u8, &'a bool);

/// Runs a Sort step.
///
/// # Errors
/// Operands that do not fit.
pub(super) fn run((axis, descending): Fields<'_>, call: &Call<'_>, inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<(), ErrorKind> {
    let ([x], [values, order]) = (inputs, outputs) else { return Err(internal("a sort has one input and two outputs")) };
    let (runtime, axis, descending) = (call.runtime, *axis as usize, *descending);
    if axis >= x.shape.rank() {
        return Err(internal("a sort along no axis"));
    }
    let lines = AxisLines::new(&x.shape, axis, &[&x.layout.strides]);
    if x.shape.elements() == 0 {
        return Ok(());
    }
    with_number!(x.dtype, T => {
        let (x, base, values, order) = (x.elements::<T>()?, x.layout.offset as isize, values.dense()?, order.dense()?);
        if is_short::<T>(lines.n) {
            sort::<T, u64>(runtime, &lines, x, base, descending, values, order)
        } else {
            sort::<T, u128>(runtime, &lines, x, base, descending, values, order)
        }
    })
}
fn sort<T: Ordered, P: Placed>(
    runtime: &Runtime,
    lines: &AxisLines,
    x: &[T],
    base: isize,
    descending: bool,
    values: &mut [T],
    order: &mut [i64],
) -> Result<(), ErrorKind> {
    let (inner, n) = (lines.inner.len(), lines.n);
    let places = lines.inner_offsets(0)?;
    let group = (16 * 1024 / (inner * n)).max(1);
    let parts = values.chunks_mut(group * inner * n).zip(order.chunks_mut(group * inner * n));
    runtime.threads.try_for_parts(parts, |task, (values, order)| {
        let mut line: Vec<P> = list(n)?;
        for (g, (values, order)) in values.chunks_mut(inner * n).zip(order.chunks_mut(inner * n)).enumerate() {
            let start = base + lines.outer.offset(0, task * group + g);
            for (j, p) in places.iter().enumerate() {
                let at = |k: usize| x[(start + p + k as isize * lines.steps[0]) as usize];
                line.clear();
                line.extend((0..n).map(|k| placed::<T, P>(at(k), k, descending)));
                line.sort_unstable();
                for (t, element) in line.iter().enumerate() {
                    values[t * inner + j] = at(element.place());
                    order[t * inner + j] = element.place() as i64;
                }
            }
        }
        Ok(())
    })
}
