//! A loss and its gradient at once: a row's exponentials are formed once, for their sum and for the gradient. Of a result
//! that is written past the caches, a row is written while the exponentials of the next one are formed, so that memory
//! is busy while numbers are computed.
use super::{
    super::{
        known, one_float,
        rows::{Stored, Summed, map_to, max, rows_of_a_task, sum_twice},
        softmax::log_of,
    },
    AHEAD, Class, Factors, PIECE, Rows, cotangents, exp_of, in_pieces, losses, plain,
};
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    element::with_float,
    math::elementary::exp,
    operand::internal,
    reduce::tree::{Element, LANES},
    scratch::{collected, filled},
    simd::{
        Arithmetic, Kernel, Simd, dispatch,
        stream::{self, Ahead, STREAMED},
        twice::Twice,
    },
};
use adamant_core::{
    Composite, DType, ErrorKind,
    composite::loss::{CrossEntropy, CrossEntropyWithBackward},
    kernel::FaultWord,
};

/// The loss and its gradient.
pub(in super::super) struct Both;

/// e^(x - largest) of a row into `e`. Meanwhile memory is kept busy: the gradient of the row before is written past the
/// caches, if there is one; the largest of the next row is found, if that is in the cache; and what comes soon is asked for.
struct Exponentials<'a, T> {
    x: &'a [T],
    /// if it was found already
    largest: Option<T>,
    e: &'a mut [T],
    before: Option<Gradient<'a, T>>,
    next: &'a [T],
    soon: Ahead<'a>,
}
/// What is known of a row when its exponentials are: the largest, the logarithm of their sum, and the sum's inverse as
/// e^-logarithm, by which the gradient alone multiplies.
struct Known<T> {
    largest: T,
    log_sum: T,
    share: T,
    largest_of_next: T,
}
impl<T: Summed> Kernel for Exponentials<'_, T> {
    type Output = Known<T>;
    #[inline(always)]
    fn run<S: Simd>(self) -> Known<T> {
        let Exponentials { x, largest, e, before, next, soon } = self;
        let largest = match largest {
            Some(largest) => largest,
            None => max::<S, T>(x),
        };
        let all = Twice::<T::V<S>>::splat(largest);
        let mut before = before.map(Steps::new::<S>);
        let (lanes, mut seen, mut most) = (Twice::<T::V<S>>::LANES, 0, Twice::<T::V<S>>::splat(T::LOWEST));
        let total = sum_twice::<S, T>(
            x,
            Some(e),
            #[inline(always)]
            |x| {
                soon.fetch_line();
                soon.fetch_line();
                if seen + lanes <= next.len() {
                    most = Twice::from_slice(&next[seen..]).max(most);
                    seen += lanes;
                }
                if let Some(before) = &mut before {
                    before.step::<S>();
                }
                exp(x.sub(all))
            },
        );
        if let Some(before) = before {
            before.finish::<S>();
        }
        let mut candidates = [T::LOWEST; 2 * LANES];
        most.write(&mut candidates);
        let largest_of_next = max::<S, T>(&[max::<S, T>(&candidates[..lanes]), max::<S, T>(&next[seen..])]);
        let log_sum = log_of::<S, T>(T::nearest(total));
        Known { largest, log_sum, share: exp_of::<S, T>(-T::ONE * log_sum), largest_of_next }
    }
}

/// The gradient of neighbouring classes.
struct Gradient<'a, T> {
    e: &'a [T],
    factors: Factors<T>,
    out: &'a mut [T],
}
impl<T: Summed> Gradient<'_, T> {
    /// Writes the elements from `first` on, past the caches if asked for.
    #[inline(always)]
    fn write<S: Simd>(&mut self, past: bool, first: usize, count: usize) {
        let (share, g) = (Twice::<T::V<S>>::splat(self.factors.share), Twice::splat(self.factors.g));
        map_to::<S, T>(
            past,
            &mut self.out[first..first + count],
            &self.e[first..first + count],
            #[inline(always)]
            |e| e.mul(share).mul(g),
        );
    }
    fn correct(self) {
        let Factors { share, g, class } = self.factors;
        if let Some(class) = class {
            self.out[class] = (self.e[class] * share - T::ONE) * g;
        }
    }
}
/// All of it at once, into the caches.
impl<T: Summed> Kernel for Gradient<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        self.write::<S>(false, 0, self.out.len());
        self.correct();
    }
}
/// A gradient on its way past the caches, two vectors at a time.
struct Steps<'a, T> {
    of: Gradient<'a, T>,
    done: usize,
}
impl<'a, T: Summed> Steps<'a, T> {
    /// Begins where a line of the result does.
    #[inline(always)]
    fn new<S: Simd>(mut of: Gradient<'a, T>) -> Steps<'a, T> {
        // Only an interpreter of Rust may decline to tell.
        let done = of.out.as_ptr().align_offset(64).min(of.out.len());
        of.write::<S>(false, 0, done);
        Steps { of, done }
    }
    #[inline(always)]
    fn step<S: Simd>(&mut self) {
        let (lanes, Gradient { e, factors, out }) = (Twice::<T::V<S>>::LANES, &mut self.of);
        if self.done + lanes <= out.len() {
            let e = Twice::<T::V<S>>::from_slice(&e[self.done..]);
            e.mul(Twice::splat(factors.share)).mul(Twice::splat(factors.g)).write_past(&mut out[self.done..]);
            self.done += lanes;
        }
    }
    #[inline(always)]
    fn finish<S: Simd>(mut self) {
        self.of.write::<S>(true, self.done, self.of.out.len() - self.done);
        self.of.correct();
    }
}
/// The last row's gradient, which has no next row to be written beside.
struct Last<'a, T>(Gradient<'a, T>);
impl<T: Summed> Kernel for Last<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        Steps::new::<S>(self.0).finish::<S>();
    }
}

fn both<M: Stored>(loss: &CrossEntropy, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, fault: &FaultWord) -> Result<(), ErrorKind> {
    let ([x, target, g], [out, largest, log_sums, gradient]) = (operands.inputs, &mut *operands.outputs) else {
        return Err(internal("a cross entropy with other operands"));
    };
    let rows = Rows::new(loss, x, target)?;
    let (x, g, out, gradient): (&[M], &[M], &mut [M], &mut [M]) = (x.dense()?, g.dense()?, out.dense()?, gradient.dense()?);
    let (largest, log_sums): (&mut [M::Real], &mut [M::Real]) = (largest.dense()?, log_sums.dense()?);
    let (isa, n, inner) = (runtime.isa, rows.classes, rows.inner);
    if largest.len() != rows.count() || log_sums.len() != rows.count() || gradient.len() != x.len() {
        return Err(internal("a cross entropy with other operands"));
    }
    rows.report(fault);
    let g = cotangents(loss, &rows, g, isa)?;
    let factor = |k: usize| g[if g.len() == 1 { 0 } else { k }];
    let streamed = inner == 1 && size_of_val(gradient) >= STREAMED;
    // What has one index along the first axis lies in a block of memory, its rows apart by one element.
    let per_task = rows_of_a_task(&runtime.threads, rows.count() / inner.max(1), n * inner);
    let (rows_of_task, block) = ((per_task * inner).max(1), (per_task * n * inner).max(1));
    let mut blocks = gradient.chunks_mut(block);
    let numbers = largest.chunks_mut(rows_of_task).zip(log_sums.chunks_mut(rows_of_task));
    let tasks: Vec<_> = collected(rows.count().div_ceil(rows_of_task), numbers.map(|numbers| (numbers, blocks.next().unwrap_or_default())))?;
    runtime.threads.try_for_parts(tasks, |task, ((largest, log_sums), gradient)| -> Result<(), ErrorKind> {
        let (mut column, mut room, mut result) = (rows.column()?, M::room(n)?, M::room(n)?);
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
            if class == Class::Ignored {
                (*largest, *log_sum) = (M::Real::ZERO, M::Real::ZERO);
                rows.elements(r).for_each(|at| gradient[at] = M::zeroed());
                continue;
            }
            let row = M::read(isa, rows.row(x, k, &mut column), &mut room);
            // The next row is in the cache, asked for beside the row before this one; here the one behind it is.
            let next = if is_seen_ahead && r + 1 < count && rows.class(k + 1) != Class::Ignored { &x[(k + 1) * n..(k + 2) * n] } else { &[] };
            let soon = if is_near { x.get((k + 1 + is_seen_ahead as usize) * n..).unwrap_or_default() } else { &[] };
            let next = M::read(isa, next, &mut []);
            let (mut known, largest_here) = (None, largest_of_next.take());
            let mut form = |before: Option<Gradient<'_, M::Real>>| {
                known = Some(dispatch(isa, Exponentials { x: row, largest: largest_here, e: &mut e, before, next, soon: Ahead::of(soon) }));
            };
            match before.take() {
                Some((factors, r)) => M::write(isa, &mut gradient[r * n..(r + 1) * n], &mut [], |out| form(Some(Gradient { e: &of_before, factors, out }))),
                None => form(None),
            }
            let Some(known) = known else { return Err(internal("a row without a sum")) };
            (*largest, *log_sum) = (known.largest, known.log_sum);
            largest_of_next = (!next.is_empty()).then_some(known.largest_of_next);
            let factors = Factors::new(class, known.share, factor(k));
            if interleaved {
                std::mem::swap(&mut e, &mut of_before);
                before = Some((factors, r));
                continue;
            }
            let mut write = |first: usize, out: &mut [M]| {
                let (e, factors) = (&e[first..first + out.len()], factors.from(first, out.len()));
                M::write(isa, out, &mut result, |out| dispatch(isa, Gradient { e, factors, out }));
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
        if let Some((factors, r)) = before {
            M::write(isa, &mut gradient[r * n..(r + 1) * n], &mut [], |out| dispatch(isa, Last(Gradient { e: &of_before, factors, out })));
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
