//! Cross entropy of class indices: a pass over each row of logits, and one more for their cotangent, or both at once
//! ([`both`]). Class weights, smoothed labels and targets that are probabilities run as the body.
mod both;
mod columns;

use super::{
    known, one_float,
    rows::{StoredElement, Summed, map_to, max, rows_of_a_task, sum_twice, update},
    softmax::log_of,
};
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    element::with_float,
    isa::Isa,
    map::{load, loops::Real},
    math::elementary::exp,
    operand::{In, internal},
    reduce::tree::{BLOCK, ReducedElement, Sum, Total},
    scratch::{KeptElement, ScratchVec, collected, filled, scratch_vec},
    simd::{
        Arithmetic, Simd, SimdKernel, dispatch,
        stream::{self, ReadAhead, STREAMED},
        twice::Twice,
    },
};
use adamant_runtime::{
    Composite, DType, ErrorKind,
    composite::loss::{CrossEntropy, CrossEntropyBackward, Reduction},
    kernel::{Fault, FaultWord},
};

/// Bytes of a row beside which the next one fits into the L2 cache.
const AHEAD: usize = 512 * 1024;
/// Elements that are made in the L1 cache before they are written by non-temporal stores.
const PIECE: usize = 2048;

/// The loss.
pub(super) struct EntropyForwardKernel;
/// Its backward.
pub(super) struct EntropyBackwardKernel;
pub(super) use both::Both;

fn plain(loss: &CrossEntropy) -> bool {
    !loss.probabilities && !loss.weight && loss.label_smoothing == 0.0
}
/// `[outer, classes, inner]`, and how targets are read.
struct LabelledRows {
    classes: usize,
    inner: usize,
    targets: ScratchVec<i64>,
    ignore: i64,
}
/// What a row's target is.
#[derive(Clone, Copy, PartialEq)]
enum TargetClass {
    At(usize),
    Ignored,
    /// outside of the classes: a fault
    Bad(i64),
}
impl LabelledRows {
    fn new(loss: &CrossEntropy, x: &In<'_>, target: &In<'_>, isa: Isa) -> Result<LabelledRows, ErrorKind> {
        let rank = x.shape.rank();
        let axis = usize::from(rank > 1);
        if rank == 0 || target.shape != x.shape.without(axis) || !target.is_dense {
            return Err(internal("targets of another shape"));
        }
        let mut targets = filled(0i64, target.shape.elements())?;
        load::decode(isa, target.dtype, target.dense_bytes()?, &mut targets);
        Ok(LabelledRows { classes: x.shape[axis], inner: x.shape[axis + 1..].iter().product(), targets, ignore: loss.ignore_index })
    }
    fn count(&self) -> usize {
        self.targets.len()
    }
    /// What row k's target is.
    fn class(&self, k: usize) -> TargetClass {
        match self.targets[k] {
            i if i == self.ignore => TargetClass::Ignored,
            i => usize::try_from(i).ok().filter(|&i| i < self.classes).map_or(TargetClass::Bad(i), TargetClass::At),
        }
    }
    /// How many rows take part.
    fn taken(&self) -> usize {
        self.targets.iter().filter(|&&i| i != self.ignore).count()
    }
    /// Tells of the first target that is no class.
    fn report(&self, fault: &FaultWord) {
        // An index that is negative is, without its sign, behind all classes.
        let is_bad = |index: i64| (index as u64 >= self.classes as u64) & (index != self.ignore);
        // All of them first, without a branch at each.
        if !self.targets.iter().fold(false, |any, &index| any | is_bad(index)) {
            return;
        }
        if let Some((position, index)) = self.targets.iter().copied().enumerate().find(|&(_, index)| is_bad(index)) {
            fault.set(Fault::Index { index, bound: self.classes, position });
        }
    }
    /// Where element `class` of row k lies.
    fn place(&self, k: usize, class: usize) -> usize {
        (k / self.inner * self.classes + class) * self.inner + k % self.inner
    }
    /// Where the elements of row k lie.
    fn elements(&self, k: usize) -> impl Iterator<Item = usize> {
        (0..self.classes).map(move |c| self.place(k, c))
    }
    /// The scratch that [`LabelledRows::row`] writes into.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn column<M: KeptElement>(&self) -> Result<ScratchVec<M>, ErrorKind> {
        scratch_vec(if self.inner == 1 { 0 } else { self.classes })
    }
    /// The elements of row k as a row.
    fn row<'x, M: KeptElement>(&self, x: &'x [M], k: usize, scratch: &'x mut ScratchVec<M>) -> &'x [M] {
        let (n, inner) = (self.classes, self.inner);
        if inner == 1 {
            return &x[k * n..(k + 1) * n];
        }
        scratch.clear();
        scratch.extend(self.elements(k).map(|at| x[at]));
        scratch
    }
}

/// The largest, and the logarithm of the sum of e^(x - largest). With both, -log p of a class is
/// (x - largest - logarithm) times -1. Meanwhile the row that comes next is asked for.
struct LogSum<'a, T> {
    row: &'a [T],
    next: ReadAhead<'a>,
}
impl<T: Summed> SimdKernel for LogSum<'_, T> {
    type Output = (T, T);
    #[inline(always)]
    fn run<S: Simd>(self) -> (T, T) {
        let most = max::<S, T>(self.row);
        let largest = Twice::<T::V<S>>::splat(most);
        let total = T::nearest(sum_twice::<S, T>(
            self.row,
            None,
            #[inline(always)]
            |x| {
                self.next.fetch_line();
                self.next.fetch_line();
                exp(x.sub(largest))
            },
        ));
        (most, log_of::<S, T>(total))
    }
}
/// e^x of one number.
#[inline(always)]
fn exp_of<S: Simd, T: Summed>(x: T) -> T {
    let mut out = [x];
    update::<S, T, 0>(
        &mut out,
        [],
        #[inline(always)]
        |x, []| exp(x),
    );
    out[0]
}
/// e^-log_sum, by which e^(x - largest) is a probability.
struct ProbabilityShare<T>(T);
impl<T: Summed> SimdKernel for ProbabilityShare<T> {
    type Output = T;
    #[inline(always)]
    fn run<S: Simd>(self) -> T {
        exp_of::<S, T>(-T::ONE * self.0)
    }
}
/// What makes a row's gradient of its exponentials: e share g, and at the row's class (e share - 1) g.
#[derive(Clone, Copy)]
struct Factors<T> {
    share: T,
    g: T,
    class: Option<usize>,
}
impl<T: Summed> Factors<T> {
    fn new(class: TargetClass, share: T, g: T) -> Factors<T> {
        match class {
            TargetClass::At(class) => Factors { share, g, class: Some(class) },
            // A share of zero.
            _ => Factors { share: share * T::ZERO, g, class: None },
        }
    }
    /// For `count` elements from `first` on.
    fn from(self, first: usize, count: usize) -> Factors<T> {
        Factors { class: self.class.and_then(|c| c.checked_sub(first)).filter(|c| *c < count), ..self }
    }
}
/// The gradient of neighbouring classes.
struct EntropyGradient<'a, T> {
    x: &'a [T],
    largest: T,
    factors: Factors<T>,
    out: &'a mut [T],
    /// it is written by non-temporal stores
    past: bool,
}
impl<T: Summed> SimdKernel for EntropyGradient<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let EntropyGradient { x, largest, factors: Factors { share, g, class }, out, past } = self;
        let splat = Twice::<T::V<S>>::splat;
        let (most, by, factor) = (splat(largest), splat(share), splat(g));
        map_to::<S, T>(
            past,
            out,
            x,
            #[inline(always)]
            |x| exp(x.sub(most)).mul(by).mul(factor),
        );
        if let Some(class) = class {
            out[class] = (exp_of::<S, T>(x[class] - largest) * share - T::ONE) * g;
        }
    }
}

fn forward<M: StoredElement>(loss: &CrossEntropy, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, fault: &FaultWord) -> Result<(), ErrorKind> {
    let ([x, target], [out, largest, log_sums]) = (operands.inputs, &mut *operands.outputs) else {
        return Err(internal("a cross entropy with other operands"));
    };
    let rows = LabelledRows::new(loss, x, target, runtime.isa)?;
    let (x, out): (&[M], &mut [M]) = (x.dense()?, out.dense()?);
    let (largest, log_sums): (&mut [M::Real], &mut [M::Real]) = (largest.dense()?, log_sums.dense()?);
    if largest.len() != rows.count() || log_sums.len() != rows.count() {
        return Err(internal("a cross entropy with other operands"));
    }
    let isa = runtime.isa;
    rows.report(fault);
    if columns::are(&rows) {
        let strips = columns::strips::<M>(&rows, largest, log_sums, None)?;
        runtime.threads.try_for_parts(strips, |_, strip| strip.run(isa, &rows, x, false, |_| M::Real::ZERO))?;
        return losses(loss, &rows, x, (largest, log_sums), out, isa);
    }
    let per_task = rows_of_a_task(&runtime.threads, rows.count(), rows.classes);
    let tasks = largest.chunks_mut(per_task).zip(log_sums.chunks_mut(per_task));
    runtime.threads.try_for_parts(tasks, |task, (largest, log_sums)| -> Result<(), ErrorKind> {
        let (mut column, mut scratch) = (rows.column()?, M::scratch_vec(rows.classes)?);
        for (k, (largest, log_sum)) in largest.iter_mut().zip(log_sums).enumerate() {
            let k = task * per_task + k;
            if rows.class(k) == TargetClass::Ignored {
                (*largest, *log_sum) = (M::Real::ZERO, M::Real::ZERO);
                continue;
            }
            let row = M::read(isa, rows.row(x, k, &mut column), &mut scratch);
            let next = if rows.inner == 1 && size_of_val(row) <= AHEAD { x.get((k + 1) * rows.classes..).unwrap_or_default() } else { &[] };
            (*largest, *log_sum) = dispatch(isa, LogSum { row, next: ReadAhead::of(next) });
        }
        Ok(())
    })?;
    losses(loss, &rows, x, (largest, log_sums), out, isa)
}
/// The losses from what is known of the rows, reduced.
fn losses<M: StoredElement>(
    loss: &CrossEntropy,
    rows: &LabelledRows,
    x: &[M],
    (largest, log_sums): (&[M::Real], &[M::Real]),
    out: &mut [M],
    isa: Isa,
) -> Result<(), ErrorKind> {
    let loss_of = |k: usize| match rows.class(k) {
        TargetClass::At(class) => {
            let at = rows.place(k, class);
            let mut number = [M::Real::ZERO];
            (M::read(isa, &x[at..at + 1], &mut number)[0] - largest[k] - log_sums[k]) * -M::Real::ONE
        }
        TargetClass::Ignored => M::Real::ZERO,
        // Nothing was read: -1 times zero.
        TargetClass::Bad(_) => -M::Real::ZERO,
    };
    let mut scratch = M::scratch_vec(out.len())?;
    if loss.reduction == Reduction::None {
        M::write(isa, out, &mut scratch, |out| out.iter_mut().enumerate().for_each(|(k, o)| *o = loss_of(k)));
        return Ok(());
    }
    let (mut total, mut block) = (Total::<M::Real>::new::<Sum>(), [M::Real::ZERO; BLOCK]);
    for first in (0..rows.count()).step_by(BLOCK) {
        let losses = &mut block[..BLOCK.min(rows.count() - first)];
        losses.iter_mut().enumerate().for_each(|(k, o)| *o = loss_of(first + k));
        total.push::<Sum>(crate::reduce::tree::block::<M::Real, Sum>(losses));
    }
    let mut value = M::Real::nearest(total.value::<Sum>());
    if loss.reduction == Reduction::Mean {
        value = value / M::Real::nearest(rows.taken() as f64);
        if rows.count() * rows.classes == 0 {
            value = M::Real::nearest(f64::NAN);
        }
    }
    M::write(isa, out, &mut scratch, |out| out[0] = value);
    Ok(())
}
/// The factors of the rows' gradients: one for each row, or one for all.
///
/// # Errors
/// `OutOfMemory`; a cotangent of another shape.
fn cotangents<M: StoredElement>(loss: &CrossEntropy, rows: &LabelledRows, g: &[M], isa: Isa) -> Result<ScratchVec<M::Real>, ErrorKind> {
    if g.len() != if loss.reduction == Reduction::None { rows.count() } else { 1 } {
        return Err(internal("a cotangent of another shape"));
    }
    let (mut scratch, count) = (M::scratch_vec(g.len())?, M::Real::nearest(rows.taken() as f64));
    let scaled = |&g: &M::Real| if loss.reduction == Reduction::Mean { g / count } else { g };
    let mut factors = filled(M::Real::ZERO, g.len())?;
    factors.iter_mut().zip(M::read(isa, g, &mut scratch)).for_each(|(to, g)| *to = scaled(g));
    Ok(factors)
}
fn backward<M: StoredElement>(loss: &CrossEntropy, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime) -> Result<(), ErrorKind> {
    let ([g, x, target, largest, log_sums], [out]) = (operands.inputs, &mut *operands.outputs) else {
        return Err(internal("a cross entropy with other operands"));
    };
    let (largest, log_sums): (&[M::Real], &[M::Real]) = (largest.dense()?, log_sums.dense()?);
    let rows = LabelledRows::new(loss, x, target, runtime.isa)?;
    let (g, x, out): (&[M], &[M], &mut [M]) = (g.dense()?, x.dense()?, out.dense()?);
    if out.is_empty() {
        return Ok(());
    }
    let (isa, n, inner) = (runtime.isa, rows.classes, rows.inner);
    let streamed = inner == 1 && size_of_val(out) >= STREAMED;
    let g = cotangents(loss, &rows, g, isa)?;
    if largest.len() != rows.count() || log_sums.len() != rows.count() {
        return Err(internal("sums of another shape"));
    }
    if columns::are(&rows) {
        let (mut largest, mut log_sums) = (collected(largest.len(), largest.iter().copied())?, collected(log_sums.len(), log_sums.iter().copied())?);
        let strips = columns::strips(&rows, &mut largest, &mut log_sums, Some(out))?;
        return runtime.threads.try_for_parts(strips, |_, strip| strip.run(isa, &rows, x, true, |k| g[if g.len() == 1 { 0 } else { k }]));
    }
    let per_task = rows_of_a_task(&runtime.threads, rows.count() / inner, n * inner);
    runtime.threads.try_for_chunks_mut(out, per_task * n * inner, |task, out| {
        let (mut column, mut scratch, mut result) = (rows.column()?, M::scratch_vec(n)?, M::scratch_vec(n)?);
        let mut row = filled(M::zeroed(), if inner == 1 { 0 } else { n })?;
        let mut piece = [M::zeroed(); PIECE];
        let mut gradient = |k: usize, out: &mut [M]| {
            let class = rows.class(k);
            if class == TargetClass::Ignored {
                return out.fill(M::zeroed());
            }
            let x = M::read(isa, rows.row(x, k, &mut column), &mut scratch);
            let factors = Factors::new(class, dispatch(isa, ProbabilityShare(log_sums[k])), g[if g.len() == 1 { 0 } else { k }]);
            let mut part = |first: usize, out: &mut [M]| {
                let (x, factors) = (&x[first..first + out.len()], factors.from(first, out.len()));
                M::write(isa, out, &mut result, |out| {
                    dispatch(isa, EntropyGradient { x, largest: largest[k], factors, out, past: streamed && M::AS_IS });
                });
            };
            if !streamed || M::AS_IS {
                return part(0, out);
            }
            in_pieces(out, &mut piece, part);
        };
        for (o, out) in out.chunks_exact_mut(n * inner).enumerate() {
            let first = (task * per_task + o) * inner;
            if inner == 1 {
                gradient(first, out);
                continue;
            }
            for j in 0..inner {
                gradient(first + j, &mut row);
                row.iter().enumerate().for_each(|(c, &v)| out[c * inner + j] = v);
            }
        }
        if streamed {
            stream::publish();
        }
        Ok(())
    })
}

/// A row of results that are written by non-temporal stores: where memory holds other numbers than are computed, a piece at a time.
fn in_pieces<M: StoredElement>(out: &mut [M], scratch: &mut [M; PIECE], mut write: impl FnMut(usize, &mut [M])) {
    for (p, out) in out.chunks_mut(PIECE).enumerate() {
        let piece = &mut scratch[..out.len()];
        write(p * PIECE, piece);
        stream::copy(bytemuck::cast_slice(piece), bytemuck::cast_slice_mut(out), &[]);
    }
}

impl CpuKernel for EntropyForwardKernel {
    fn supports(&self, composite: &dyn Composite, dtypes: &[DType]) -> bool {
        known::<CrossEntropy>(composite).is_some_and(plain) && matches!(dtypes, [x, _, loss, _, _] if one_float(&[*x, *loss]))
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, fault: &FaultWord) -> Result<(), ErrorKind> {
        let loss = known::<CrossEntropy>(composite).ok_or_else(|| internal("a cross entropy of another make"))?;
        with_float!(operands.inputs[0].dtype, M => forward::<M>(loss, operands, runtime, fault))
    }
}
impl CpuKernel for EntropyBackwardKernel {
    fn supports(&self, composite: &dyn Composite, dtypes: &[DType]) -> bool {
        known::<CrossEntropyBackward>(composite).is_some_and(|c| plain(&c.0)) && matches!(dtypes, [g, x, _, _, _, out] if one_float(&[*g, *x, *out]))
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let loss = known::<CrossEntropyBackward>(composite).ok_or_else(|| internal("the backward of a cross entropy of another make"))?;
        with_float!(operands.inputs[1].dtype, M => backward::<M>(&loss.0, operands, runtime))
    }
}
