//! Stable sorts along an axis. Values become unsigned keys in their order (NaN largest, both zeros equal), so that
//! a pair of key and place is a total order and an unstable sort is stable.
use super::Call;
pub(super) use super::computes as supports;
use crate::{
    device::Runtime,
    element::{Number, Wide, with_number},
    lines::AxisLines,
    operand::{In, Out, internal},
    scratch::list,
};
use adamant_runtime::ErrorKind;

type Fields<'a> = (&'a u8, &'a bool);

/// A wide value as a key of the same order.
pub(crate) trait SortKey: Wide {
    fn key(self) -> u64;
}
impl SortKey for i64 {
    fn key(self) -> u64 {
        self as u64 ^ (1 << 63)
    }
}
impl SortKey for f64 {
    fn key(self) -> u64 {
        if self.is_nan() {
            return u64::MAX;
        }
        // -0 + 0 is +0.
        let bits = (self + 0.0).to_bits();
        if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
    }
}

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
    with_number!(x.dtype, T => sort::<T>(runtime, &lines, x.elements()?, x.layout.offset as isize, descending, values.dense()?, order.dense()?))
}
fn sort<T: Number>(runtime: &Runtime, lines: &AxisLines, x: &[T], base: isize, descending: bool, values: &mut [T], order: &mut [i64]) -> Result<(), ErrorKind>
where
    T::Wide: SortKey,
{
    let (inner, n) = (lines.inner.len(), lines.n);
    let places = lines.inner_offsets(0)?;
    let group = (16 * 1024 / (inner * n)).max(1);
    let parts = values.chunks_mut(group * inner * n).zip(order.chunks_mut(group * inner * n));
    runtime.threads.try_for_parts(parts, |task, (values, order)| {
        let mut line: Vec<(u64, usize)> = list(n)?;
        for (g, (values, order)) in values.chunks_mut(inner * n).zip(order.chunks_mut(inner * n)).enumerate() {
            let start = base + lines.outer.offset(0, task * group + g);
            for (j, p) in places.iter().enumerate() {
                let at = |k: usize| x[(start + p + k as isize * lines.steps[0]) as usize];
                line.clear();
                line.extend((0..n).map(|k| {
                    let key = at(k).wide().key();
                    (if descending { !key } else { key }, k)
                }));
                line.sort_unstable();
                for (t, &(_, k)) in line.iter().enumerate() {
                    values[t * inner + j] = at(k);
                    order[t * inner + j] = k as i64;
                }
            }
        }
        Ok(())
    })
}
