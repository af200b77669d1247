//! Stable sorts along an axis, by the digits of the values' keys (see [`crate::order`]). Of a line longer than a place of 32 bits can
//! tell, a value and its place become one integer in the order of the values, so an unstable sort is stable.
use super::Call;
pub(super) use super::computes as supports;
use crate::{
    device::Runtime,
    element::with_number,
    lines::AxisLines,
    operand::{In, Out, internal},
    order::{OrderKey, Ordered, Placed, placed},
    radix::RadixSorter,
    scratch::reserve,
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
        let job = SortJob { lines: &lines, x: x.elements::<T>()?, base: x.layout.offset as isize, descending };
        job.run(runtime, values.dense()?, order.dense()?)
    })
}
struct SortJob<'a, T> {
    lines: &'a AxisLines,
    x: &'a [T],
    base: isize,
    descending: bool,
}
impl<T: Ordered> SortJob<'_, T> {
    fn run(&self, runtime: &Runtime, values: &mut [T], order: &mut [i64]) -> Result<(), ErrorKind> {
        let (inner, n, step) = (self.lines.inner.len(), self.lines.n, self.lines.steps[0]);
        let places = self.lines.inner_offsets(0)?;
        let group = (16 * 1024 / (inner * n)).max(1);
        let parts = values.chunks_mut(group * inner * n).zip(order.chunks_mut(group * inner * n));
        runtime.threads.try_for_parts(parts, |task, (values, order)| {
            let mut sorter = RadixSorter::default();
            let mut line: Vec<u128> = Vec::new();
            for (g, (values, order)) in values.chunks_mut(inner * n).zip(order.chunks_mut(inner * n)).enumerate() {
                let start = self.base + self.lines.outer.offset(0, task * group + g);
                for (j, p) in places.iter().enumerate() {
                    let at = |k: usize| self.x[(start + p + k as isize * step) as usize];
                    let results = values[j..].iter_mut().step_by(inner).zip(order[j..].iter_mut().step_by(inner));
                    let put = |((value, order), place): ((&mut T, &mut i64), usize)| (*value, *order) = (at(place), place as i64);
                    if let Ok(n) = u32::try_from(n) {
                        let key = |k: usize| if self.descending { at(k).key().reversed() } else { at(k).key() }.unsigned();
                        results.zip(sorter.order(n, key)?).for_each(put);
                    } else {
                        line.clear();
                        reserve(&mut line, n)?;
                        line.extend((0..n).map(|k| placed::<T, u128>(at(k), k, self.descending)));
                        line.sort_unstable();
                        results.zip(line.iter().map(|element| element.place())).for_each(put);
                    }
                }
            }
            Ok(())
        })
    }
}
