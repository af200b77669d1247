//! A loss and its gradient at once: a row's exponentials are formed once, for their sum and for the gradient.
use super::{
    super::{
        interleaved::{Exponentials, LastRow, MadeRow, Writing},
        known, one_float,
        rows::{StoredElement, Summed, rows_of_a_task},
        softmax::log_of,
    },
    AHEAD, Factors, LabelledRows, PIECE, TargetClass, columns, cotangents, exp_of, in_pieces, losses, plain,
};
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    element::with_float,
    operand::internal,
    reduce::tree::ReducedElement,
    scratch::filled,
    simd::{
        Arithmetic, Simd, SimdKernel, dispatch,
        stream::{self, ReadAhead, STREAMED},
        twice::Twice,
    },
};
use adamant_runtime::{
    Composite, DType, ErrorKind,
    composite::loss::{CrossEntropy, CrossEntropyWithBackward},
    kernel::FaultWord,
};

/// The loss and its gradient.
pub(in super::super) struct Both;

impl<T: Summed> MadeRow<T> for Factors<T> {
    #[inline(always)]
    fn of<S: Simd>(self, e: Twice<T::V<S>>) -> Twice<T::V<S>> {
        e.mul(Twice::splat(self.share)).mul(Twice::splat(self.g))
    }
    fn correct(self, e: &[T], out: &mut [T]) {
        if let Some(class) = self.class {
            out[class] = (e[class] * self.share - T::ONE) * self.g;
        }
    }
}
/// The logarithm of a row's sum, and the sum's inverse as e^-logarithm, by which the gradient alone multiplies.
struct LogAndShare<T>(T);
impl<T: Summed> SimdKernel for LogAndShare<T> {
    type Output = (T, T);
    #[inline(always)]
    fn run<S: Simd>(self) -> (T, T) {
        let log_sum = log_of::<S, T>(self.0);
        (log_sum, exp_of::<S, T>(-T::ONE * log_sum))
    }
}

fn both<M: StoredElement>(loss: &CrossEntropy, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, fault: &FaultWord) -> Result<(), ErrorKind> {
    let ([x, target, g], [out, largest, log_sums, gradient]) = (operands.inputs, &mut *operands.outputs) else {
        return Err(internal("a cross entropy with other operands"));
    };
    let rows = LabelledRows::new(loss, x, target, runtime.isa)?;
    let (x, g, out, gradient): (&[M], &[M], &mut [M], &mut [M]) = (x.dense()?, g.dense()?, out.dense()?, gradient.dense()?);
    let (largest, log_sums): (&mut [M::Real], &mut [M::Real]) = (largest.dense()?, log_sums.dense()?);
    let (isa, n, inner) = (runtime.isa, rows.classes, rows.inner);
    if largest.len() != rows.count() || log_sums.len() != rows.count() || gradient.len() != x.len() {
        return Err(internal("a cross entropy with other operands"));
    }
    rows.report(fault);
    let g = cotangents(loss, &rows, g, isa)?;
    let factor = |k: usize| g[if g.len() == 1 { 0 } else { k }];
    if columns::are(&rows) {
        let strips = columns::strips(&rows, largest, log_sums, Some(gradient))?;
        runtime.threads.try_for_parts(strips, |_, strip| strip.run(isa, &rows, x, false, factor))?;
        return losses(loss, &rows, x, (largest, log_sums), out, isa);
    }
    let streamed = inner == 1 && size_of_val(gradient) >= STREAMED;
    // What has one index along the first axis lies in a block of memory, its rows apart by one element.
    let per_task = rows_of_a_task(&runtime.threads, rows.count() / inner.max(1), n * inner);
    let (rows_of_task, block) = ((per_task * inner).max(1), (per_task * n * inner).max(1));
    let mut blocks = gradient.chunks_mut(block);
    let numbers = largest.chunks_mut(rows_of_task).zip(log_sums.chunks_mut(rows_of_task));
    let tasks = numbers.map(|numbers| (numbers, blocks.next().unwrap_or_default()));
    runtime.threads.try_for_parts(tasks, |task, ((largest, log_sums), gradient)| -> Result<(), ErrorKind> {
        let (mut column, mut scratch, mut result) = (rows.column()?, M::scratch_vec(n)?, M::scratch_vec(n)?);
        let interleaved = streamed && M::AS_IS;
        let mut e = filled(M::Real::ZERO, n)?;
        let mut of_before = filled(M::Real::ZERO, if interleaved { n } else { 0 })?;
        let (mut before, mut largest_of_next) = (None::<(Factors<M::Real>, usize)>, None);
        let is_near = inner == 1 && n * size_of::<M>() <= AHEAD;
        let is_seen_ahead = interleaved && is_near;
        let (mut line, mut piece) = (filled(M::zeroed(), if inner == 1 { 0 } else { n })?, [M::zeroed(); PIECE]);
        let count = largest.len();
        for (r, (largest, log_sum)) in largest.iter_mut().zip(log_sums).enumerate() {
            let k = task * rows_of_task + r;
            let class = rows.class(k);
            if class == TargetClass::Ignored {
                (*largest, *log_sum) = (M::Real::ZERO, M::Real::ZERO);
                rows.elements(r).for_each(|at| gradient[at] = M::zeroed());
                continue;
            }
            let row = M::read(isa, rows.row(x, k, &mut column), &mut scratch);
            // The next row is in the cache, asked for beside the row before this one; here the one behind it is.
            let next = if is_seen_ahead && r + 1 < count && rows.class(k + 1) != TargetClass::Ignored { &x[(k + 1) * n..(k + 2) * n] } else { &[] };
            let soon = if is_near { x.get((k + 1 + is_seen_ahead as usize) * n..).unwrap_or_default() } else { &[] };
            let next = M::read(isa, next, &mut []);
            let (mut known, largest_here) = (None, largest_of_next.take());
            let mut form = |before: Option<Writing<'_, M::Real, Factors<M::Real>>>| {
                known = Some(dispatch(isa, Exponentials { x: row, largest: largest_here, e: Some(&mut e), before, next, soon: ReadAhead::of(soon) }));
            };
            match before.take() {
                Some((made, r)) => M::write(isa, &mut gradient[r * n..(r + 1) * n], &mut [], |out| form(Some(Writing { from: &of_before, made, out }))),
                None => form(None),
            }
            let Some(known) = known else { return Err(internal("a row without a sum")) };
            let (log, share) = dispatch(isa, LogAndShare(known.total));
            (*largest, *log_sum) = (known.largest, log);
            largest_of_next = (!next.is_empty()).then_some(known.largest_of_next);
            let factors = Factors::new(class, share, factor(k));
            if interleaved {
                std::mem::swap(&mut e, &mut of_before);
                before = Some((factors, r));
                continue;
            }
            let mut write = |first: usize, out: &mut [M]| {
                let (from, made) = (&e[first..first + out.len()], factors.from(first, out.len()));
                M::write(isa, out, &mut result, |out| dispatch(isa, Writing { from, made, out }));
            };
            if inner > 1 {
                write(0, &mut line);
                rows.elements(r).zip(&line).for_each(|(at, v)| gradient[at] = *v);
            } else if streamed {
                in_pieces(&mut gradient[r * n..(r + 1) * n], &mut piece, write);
            } else {
                write(0, &mut gradient[r * n..(r + 1) * n]);
            }
        }
        if let Some((made, r)) = before {
            M::write(isa, &mut gradient[r * n..(r + 1) * n], &mut [], |out| dispatch(isa, LastRow(Writing { from: &of_before, made, out })));
        }
        if streamed {
            stream::publish();
        }
        Ok(())
    })?;
    losses(loss, &rows, x, (largest, log_sums), out, isa)
}

impl CpuKernel for Both {
    fn supports(&self, composite: &dyn Composite, dtypes: &[DType]) -> bool {
        known::<CrossEntropyWithBackward>(composite).is_some_and(|c| plain(&c.0))
            && matches!(dtypes, [x, _, g, loss, _, _, out] if one_float(&[*x, *g, *loss, *out]))
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, fault: &FaultWord) -> Result<(), ErrorKind> {
        let loss = known::<CrossEntropyWithBackward>(composite).ok_or_else(|| internal("a cross entropy of another make"))?;
        with_float!(operands.inputs[0].dtype, M => both::<M>(&loss.0, operands, runtime, fault))
    }
}
