//! The first index of the extreme value along an axis. NaN counts as extreme, as in PyTorch.
use super::Call;
pub(super) use super::computes as supports;
use crate::{
    device::Runtime,
    element::{Number, Wide, with_number},
    lines::AxisLines,
    operand::{In, Out, internal},
    scratch::scratch_vec,
};
use adamant_runtime::{ErrorKind, op::ArgOp};

type Fields<'a> = (&'a ArgOp, &'a u8);

/// Runs an ArgReduce step.
///
/// # Errors
/// Operands that do not fit.
pub(super) fn run((op, axis): Fields<'_>, call: &Call<'_>, inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<(), ErrorKind> {
    let ([x], [out]) = (inputs, outputs) else { return Err(internal("an arg-reduction has one input and one output")) };
    let lines = AxisLines::new(call.space, *axis as usize, &[&x.layout.strides]);
    let out: &mut [i64] = out.dense()?;
    if out.is_empty() {
        return Ok(());
    }
    with_number!(x.dtype, T => find(call.runtime, &lines, x.elements::<T>()?, x.layout.offset as isize, *op == ArgOp::Max, out))
}
fn find<T: Number>(runtime: &Runtime, lines: &AxisLines, x: &[T], base: isize, max: bool, out: &mut [i64]) -> Result<(), ErrorKind> {
    let inner = lines.inner.len();
    let places = lines.inner_offsets(0)?;
    let step = lines.steps[0];
    let groups = (64 * 1024 / (inner * lines.n).max(1)).max(1);
    runtime.threads.try_for_chunks_mut(out, groups * inner, |task, out| {
        let mut best = scratch_vec(inner)?;
        for (g, out) in out.chunks_mut(inner).enumerate() {
            let start = base + lines.outer.offset(0, task * groups + g);
            best.clear();
            best.extend(places.iter().map(|p| x[(start + p) as usize].wide()));
            out.fill(0);
            for k in 1..lines.n {
                let row = start + k as isize * step;
                for ((o, b), p) in out.iter_mut().zip(&mut best).zip(&places) {
                    let v = x[(row + p) as usize].wide();
                    if v.beats(*b, max) {
                        (*b, *o) = (v, k as i64);
                    }
                }
            }
        }
        Ok(())
    })
}
