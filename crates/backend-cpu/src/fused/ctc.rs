//! The alignments of connectionist temporal classification, and their gradient: a sample goes through all steps of time by itself, its
//! states in vectors.
use super::rows::Summed;
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    isa::Isa,
    map::loops::{Real, larger},
    math::MathFn,
    operand::internal,
    scratch::{filled, list},
};
use adamant_runtime::{
    Composite, DType, ErrorKind,
    composite::ctc::IMPOSSIBLE,
    kernel::{Fault, FaultWord},
};

/// Both directions.
pub(super) struct CtcKernel {
    pub backward: bool,
}
impl CpuKernel for CtcKernel {
    fn supports(&self, _: &dyn Composite, dtypes: &[DType]) -> bool {
        let of = |float: DType| match self.backward {
            false => dtypes == [float, DType::I64, DType::Bool, DType::I64, DType::I64, float, float],
            true => dtypes == [float, float, DType::I64, DType::Bool, DType::I64, DType::I64, float, float],
        };
        of(DType::F32) || of(DType::F64)
    }
    fn run(&self, _: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, fault: &FaultWord) -> Result<(), ErrorKind> {
        match (self.backward, operands.dtype(0)?) {
            (false, DType::F32) => forward::<f32>(operands, runtime, fault),
            (false, _) => forward::<f64>(operands, runtime, fault),
            (true, DType::F32) => backward::<f32>(operands, runtime, fault),
            (true, _) => backward::<f64>(operands, runtime, fault),
        }
    }
}
/// An element that alignments are computed in.
trait LogFloat: Summed + bytemuck::Pod + Send + Sync {}
impl<T: Summed + bytemuck::Pod + Send + Sync> LogFloat for T {}

/// The inputs that both directions have.
struct Alignments<'a, T> {
    emitted: &'a [T],
    label: &'a [i64],
    skip: &'a [u8],
    steps: &'a [i64],
    labels: &'a [i64],
    time: usize,
    n: usize,
    classes: usize,
    count: usize,
    isa: Isa,
}
impl<'a, T: LogFloat> Alignments<'a, T> {
    /// From the operands, of which those from number `first` on are these.
    fn of(operands: &KernelOperands<'_, 'a, '_>, first: usize, isa: Isa) -> Result<Alignments<'a, T>, ErrorKind> {
        let (shape, states) = (operands.shape(first)?, operands.shape(first + 1)?);
        let (&[time, n, classes], &[_, count]) = (&shape[..], &states[..]) else { return Err(internal("alignments of other shapes")) };
        let (steps, labels) = (operands.input(first + 3)?, operands.input(first + 4)?);
        Ok(Alignments {
            emitted: operands.input(first)?,
            label: operands.input(first + 1)?,
            skip: operands.input(first + 2)?,
            steps,
            labels,
            time,
            n,
            classes,
            count,
            isa,
        })
    }
    /// A class or an end that is nowhere is a fault; what it names counts as 0.
    fn report(&self, fault: &FaultWord) {
        let nowhere = |all: &[i64], bound: usize| all.iter().position(|&i| usize::try_from(i).map_or(true, |i| i >= bound)).map(|k| (k, all[k]));
        if let Some((position, index)) = nowhere(self.label, self.classes) {
            fault.set(Fault::Index { index, bound: self.classes, position });
        }
        let last = |k: usize| self.labels[k].wrapping_mul(2);
        if let Some(position) = (0..self.n).find(|&k| usize::try_from(last(k)).map_or(true, |i| i >= self.count)) {
            fault.set(Fault::Index { index: last(position), bound: self.count, position });
        }
    }
    fn class(&self, label: i64) -> Option<usize> {
        usize::try_from(label).ok().filter(|&c| c < self.classes)
    }
    /// The log-probabilities of a sample at a step.
    fn row(&self, t: usize, k: usize) -> &'a [T] {
        &self.emitted[(t * self.n + k) * self.classes..][..self.classes]
    }
    /// How many states of sample `k` lead to an end.
    fn inside(&self, k: usize) -> usize {
        usize::try_from(self.labels[k].wrapping_mul(2)).map_or(0, |last| last.saturating_add(1).min(self.count))
    }
    /// What each state of sample `k` emits at a step.
    fn of_states(&self, t: usize, k: usize, out: &mut [T]) {
        let (row, none) = (self.row(t, k), T::nearest(IMPOSSIBLE));
        for (out, &label) in out.iter_mut().zip(self.labels_of(k)) {
            let e = self.class(label).map_or(T::ZERO, |c| row[c]);
            *out = if e < none { none } else { e };
        }
    }
    fn labels_of(&self, k: usize) -> &'a [i64] {
        &self.label[k * self.count..][..self.count]
    }
    fn is_live(&self, t: usize, k: usize) -> bool {
        self.steps[k] > t as i64
    }
    /// From what was reached at the step before: what comes to each state from itself, from the one before and from the one before that,
    /// as shares of the largest, their sum, and the logarithm of the largest.
    fn meet(&self, k: usize, before: &[T], of: &mut StepBuffers<'_, T>) {
        let none = T::nearest(IMPOSSIBLE);
        let skip = &self.skip[k * self.count..][..self.count];
        let StepBuffers { parts, exponents, sum, max, .. } = of;
        let n = sum.len();
        for s in 0..n {
            let one = if s >= 1 { before[s - 1] } else { none };
            let two = if s >= 2 && skip[s] != 0 { before[s - 2] } else { none };
            let most = larger(larger(before[s], one), two);
            max[s] = most;
            for (j, from) in [before[s], one, two].into_iter().enumerate() {
                exponents[j * n + s] = from - most;
            }
        }
        T::math(self.isa, MathFn::Exp, exponents, parts);
        for (s, sum) in sum.iter_mut().enumerate() {
            *sum = parts[s] + parts[n + s] + parts[2 * n + s];
        }
    }
    /// One number's logarithm, and its exponential.
    fn math(&self, f: MathFn, x: T) -> T {
        let mut out = [T::ZERO];
        T::math(Isa::Scalar, f, &[x], &mut out);
        out[0]
    }
    /// The shares of the two last states, their places, and the logarithm of the larger.
    fn ends(&self, k: usize, alpha: &[T]) -> ([i64; 2], [T; 2], T) {
        let none = T::nearest(IMPOSSIBLE);
        let last = self.labels[k].wrapping_mul(2);
        let before = last.wrapping_sub(1).max(0);
        let at = |i: i64| usize::try_from(i).ok().and_then(|i| alpha.get(i)).copied().unwrap_or(T::ZERO);
        let (end, label_end) = (at(last), if self.labels[k] > 0 { at(before) } else { none });
        let max = larger(end, label_end);
        ([last, before], [end, label_end].map(|v| self.math(MathFn::Exp, v - max)), max)
    }
    /// The rows of a tensor `[time, batch, ..]` by sample.
    fn by_sample<'o>(&self, all: &'o mut [T]) -> Result<Vec<Vec<&'o mut [T]>>, ErrorKind> {
        let mut samples: Vec<Vec<&mut [T]>> = (0..self.n).map(|_| list(self.time)).collect::<Result<_, _>>()?;
        if self.n > 0 {
            let width = all.len() / (self.time * self.n).max(1);
            for rows in all.chunks_mut((self.n * width).max(1)) {
                rows.chunks_mut(width.max(1)).zip(&mut samples).for_each(|(row, sample)| sample.push(row));
            }
        }
        Ok(samples)
    }
}
/// What a step of one sample needs, a number for each state.
struct StepBuffers<'b, T> {
    /// of itself, of the one before, of the one before that
    parts: &'b mut [T],
    exponents: &'b mut [T],
    sum: &'b mut [T],
    max: &'b mut [T],
    emitted: &'b mut [T],
}
/// How many numbers [`StepBuffers`] have for each state.
const BUFFERS: usize = 9;
impl<'b, T: Real> StepBuffers<'b, T> {
    fn of(all: &'b mut [T], count: usize) -> Option<StepBuffers<'b, T>> {
        let (parts, rest) = all.split_at_mut_checked(3 * count)?;
        let (exponents, rest) = rest.split_at_mut_checked(3 * count)?;
        let (sum, rest) = rest.split_at_mut_checked(count)?;
        let (max, rest) = rest.split_at_mut_checked(count)?;
        Some(StepBuffers { parts, exponents, sum, max, emitted: rest.get_mut(..count)? })
    }
}

fn forward<T: LogFloat>(operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, fault: &FaultWord) -> Result<(), ErrorKind> {
    let of = &Alignments::<T>::of(operands, 0, runtime.isa)?;
    of.report(fault);
    let [totals, reached] = &mut *operands.outputs else { return Err(internal("alignments have two outputs")) };
    let (totals, reached): (&mut [T], &mut [T]) = (totals.dense()?, reached.dense()?);
    let parts: Vec<_> = of.by_sample(reached)?.into_iter().zip(totals).collect();
    runtime.threads.try_for_parts(parts, |k, (mut rows, total)| {
        let (inside, none) = (of.inside(k), T::nearest(IMPOSSIBLE));
        let mut memory = filled(T::ZERO, BUFFERS * inside)?;
        let Some(mut buffers) = StepBuffers::of(&mut memory, inside) else { return Err(internal("alignments without space")) };
        for t in 0..of.time {
            of.of_states(t, k, buffers.emitted);
            let (done, rest) = rows.split_at_mut(t);
            let (alpha, outside) = rest[0].split_at_mut(inside);
            outside.fill(none);
            let Some(before) = done.last() else {
                alpha.copy_from_slice(buffers.emitted);
                alpha.iter_mut().skip(2).for_each(|a| *a = none);
                continue;
            };
            if !of.is_live(t, k) {
                alpha.copy_from_slice(&before[..inside]);
                continue;
            }
            of.meet(k, before, &mut buffers);
            T::math(of.isa, MathFn::Log, buffers.sum, alpha);
            for (s, alpha) in alpha.iter_mut().enumerate() {
                let next = *alpha + buffers.max[s] + buffers.emitted[s];
                *alpha = if next < none { none } else { next };
            }
        }
        *total = match rows.last() {
            Some(alpha) if of.is_live(0, k) => {
                let (_, [end, label_end], max) = of.ends(k, alpha);
                of.math(MathFn::Log, end + label_end) + max
            }
            _ if of.labels[k] == 0 => T::ZERO,
            _ => none,
        };
        Ok(())
    })
}
fn backward<T: LogFloat>(operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, fault: &FaultWord) -> Result<(), ErrorKind> {
    let of = &Alignments::<T>::of(operands, 1, runtime.isa)?;
    of.report(fault);
    let (g, reached): (&[T], &[T]) = (operands.input(0)?, operands.input(6)?);
    let parts = of.by_sample(operands.output(0)?)?;
    runtime.threads.try_for_parts(parts, |k, mut rows| {
        let inside = of.inside(k);
        let mut memory = filled(T::ZERO, (BUFFERS + 2) * inside)?;
        let (cotangents, memory) = memory.split_at_mut(2 * inside);
        let (mut d, mut next) = cotangents.split_at_mut(inside);
        let Some(mut buffers) = StepBuffers::of(memory, inside) else { return Err(internal("alignments without space")) };
        let alpha = |t: usize| &reached[(t * of.n + k) * of.count..][..of.count];
        let (places, shares, _) = of.ends(k, alpha(of.time - 1));
        let of_all = (if of.is_live(0, k) { g[k] } else { T::ZERO }) / (shares[0] + shares[1]);
        let leads = [true, of.labels[k] > 0];
        for ((place, share), leads) in places.into_iter().zip(shares).zip(leads) {
            if let Some(s) = usize::try_from(place).ok().filter(|&s| s < inside) {
                d[s] = d[s] + if leads { of_all * share } else { T::ZERO };
            }
        }
        for t in (0..of.time).rev() {
            let row = &mut *rows[t];
            let is_live = of.is_live(t, k);
            if !is_live {
                row.fill(T::ZERO);
            } else {
                T::math(of.isa, MathFn::Exp, of.row(t, k), row);
                row.iter_mut().for_each(|v| *v = -(*v * g[k]));
            }
            // Behind the end of its time a sample only hands on; at the first step an alignment begins in one of two states.
            let emits = if t == 0 {
                2.min(inside)
            } else if is_live {
                inside
            } else {
                0
            };
            for (s, &label) in of.labels_of(k).iter().enumerate() {
                if let Some(c) = of.class(label) {
                    row[c] = row[c] + if s < emits { d[s] } else { T::ZERO };
                }
            }
            if t == 0 || !is_live {
                continue;
            }
            of.meet(k, alpha(t - 1), &mut buffers);
            let StepBuffers { parts, sum, .. } = &mut buffers;
            sum.iter_mut().zip(&*d).for_each(|(sum, &d)| *sum = d / *sum);
            let skip = &of.skip[k * of.count..][..of.count];
            for s in 0..inside {
                let one = if s + 1 < inside { sum[s + 1] * parts[inside + s + 1] } else { T::ZERO };
                let two = if s + 2 < inside && skip[s + 2] != 0 { sum[s + 2] * parts[2 * inside + s + 2] } else { T::ZERO };
                next[s] = T::ZERO + sum[s] * parts[s] + one + two;
            }
            std::mem::swap(&mut d, &mut next);
        }
        Ok(())
    })
}
