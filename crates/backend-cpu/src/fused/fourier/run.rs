//! Runs transforms of rows of pairs (real, imaginary). Every transform is computed by the same operations in the same order,
//! whoever lies in the lanes beside it.
use super::{
    FourierElement,
    plan::{ABREAST, Butterfly, ComplexParts, Method, Plan, RADIX},
};
use crate::{
    isa::Isa,
    scratch::{ScratchVec, filled},
    simd::{Arithmetic, Float, Simd, SimdKernel, dispatch},
    threads::Threads,
};
use adamant_runtime::ErrorKind;

/// How many pairs make a task.
const TASK: usize = 16 * 1024;

/// Transforms the rows of `x`, pairs, into `out`, times `scale`.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn rows<T: FourierElement>(isa: Isa, threads: &Threads, plan: &Plan<T>, inverse: bool, scale: T, x: &[T], out: &mut [T]) -> Result<(), ErrorKind> {
    let width = 2 * plan.n;
    let count = x.len() / width;
    if let Method::Stages(stages) = &plan.method {
        let some = (TASK / plan.n).max(1).min(count.div_ceil(threads.count())).next_multiple_of(ABREAST);
        return threads.try_for_parts(x.chunks(some * width).zip(out.chunks_mut(some * width)), |_, (x, out)| {
            let mut scratch = StageBuffers::new(plan.n * ABREAST)?;
            for (x, out) in x.chunks(ABREAST * width).zip(out.chunks_mut(ABREAST * width)) {
                dispatch(isa, Abreast { stages, scratch: &mut scratch, inverse, scale, x, out, n: plan.n });
            }
            Ok(())
        });
    }
    let row = |threads: &Threads, x: &[T], out: &mut [T]| match &plan.method {
        Method::Halves { columns, rows, twist } => halves(isa, threads, [columns, rows], twist, inverse, scale, x, out),
        Method::Convolution { chirp, spectrum, long } => convolution(isa, threads, chirp, spectrum, long, inverse, scale, x, out),
        Method::Stages(_) => Ok(()),
    };
    if count < threads.count() {
        return x.chunks(width).zip(out.chunks_mut(width)).try_for_each(|(x, out)| row(threads, x, out));
    }
    threads.try_for_parts(x.chunks(width).zip(out.chunks_mut(width)), |_, (x, out)| row(Threads::alone(), x, out))
}

/// Two sides of real and imaginary parts, from one to the other and back.
struct StageBuffers<T: FourierElement> {
    from: ComplexParts<T>,
    to: ComplexParts<T>,
}
impl<T: FourierElement> StageBuffers<T> {
    fn new(len: usize) -> Result<StageBuffers<T>, ErrorKind> {
        let side = || -> Result<ComplexParts<T>, ErrorKind> { Ok([filled(T::ZERO, len)?, filled(T::ZERO, len)?]) };
        Ok(StageBuffers { from: side()?, to: side()? })
    }
}
/// Up to [`ABREAST`] rows at once: element j of row l at `j * rows + l`.
struct Abreast<'a, T: FourierElement> {
    stages: &'a [Butterfly<T>],
    scratch: &'a mut StageBuffers<T>,
    inverse: bool,
    scale: T,
    x: &'a [T],
    out: &'a mut [T],
    n: usize,
}
impl<T: FourierElement> SimdKernel for Abreast<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Abreast { stages, scratch, inverse, scale, x, out, n } = self;
        let rows = x.len() / (2 * n);
        // The inverse is the transform with real and imaginary parts swapped, before and after.
        let (first, second) = if inverse { (1, 0) } else { (0, 1) };
        for (l, x) in x.chunks_exact(2 * n).enumerate() {
            for (j, pair) in x.chunks_exact(2).enumerate() {
                scratch.from[first][j * rows + l] = pair[0];
                scratch.from[second][j * rows + l] = pair[1];
            }
        }
        run_stages::<S, T>(stages, rows, n, scratch);
        for (l, out) in out.chunks_exact_mut(2 * n).enumerate() {
            for (j, pair) in out.chunks_exact_mut(2).enumerate() {
                pair[0] = scratch.from[first][j * rows + l] * scale;
                pair[1] = scratch.from[second][j * rows + l] * scale;
            }
        }
    }
}
/// All stages over `lanes` transforms; the result is where the numbers were.
#[inline(always)]
fn run_stages<S: Simd, T: FourierElement>(stages: &[Butterfly<T>], lanes: usize, n: usize, scratch: &mut StageBuffers<T>) {
    for stage in stages {
        let s = stage.step * lanes;
        let len = n * lanes;
        let ([re, im], [to_re, to_im]) = (&scratch.from, &mut scratch.to);
        let sides = StageSides { re: &re[..len], im: &im[..len], to_re: &mut to_re[..len], to_im: &mut to_im[..len] };
        match stage.radix {
            4 => stage_of_four::<S, T>(stage, s, sides),
            2 => stage_of_two::<S, T>(stage, s, sides),
            _ => odd_stage::<S, T>(stage, s, sides),
        }
        std::mem::swap(&mut scratch.from, &mut scratch.to);
    }
}
struct StageSides<'a, T> {
    re: &'a [T],
    im: &'a [T],
    to_re: &'a mut [T],
    to_im: &'a mut [T],
}
/// A vector of complex numbers.
#[derive(Clone, Copy)]
struct Complex<V> {
    re: V,
    im: V,
}
impl<V: Float> Complex<V> {
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        Complex { re: self.re.add(o.re), im: self.im.add(o.im) }
    }
    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        Complex { re: self.re.sub(o.re), im: self.im.sub(o.im) }
    }
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        Complex { re: self.re.mul(o.re).sub(self.im.mul(o.im)), im: self.re.mul(o.im).add(self.im.mul(o.re)) }
    }
    /// Times -i.
    #[inline(always)]
    fn rotated(self) -> Self {
        Complex { re: self.im, im: self.re.neg() }
    }
}
impl<T: FourierElement> StageSides<'_, T> {
    #[inline(always)]
    fn load<S: Simd>(&self, at: usize, count: usize) -> Complex<T::V<S>> {
        if count == T::V::<S>::LANES {
            Complex { re: T::V::<S>::from_slice(&self.re[at..at + count]), im: T::V::<S>::from_slice(&self.im[at..at + count]) }
        } else {
            Complex { re: T::V::<S>::from_partial(&self.re[at..at + count]), im: T::V::<S>::from_partial(&self.im[at..at + count]) }
        }
    }
    #[inline(always)]
    fn store<S: Simd>(&mut self, at: usize, count: usize, v: Complex<T::V<S>>) {
        if count == T::V::<S>::LANES {
            v.re.write(&mut self.to_re[at..at + count]);
            v.im.write(&mut self.to_im[at..at + count]);
        } else {
            v.re.write_partial(&mut self.to_re[at..at + count]);
            v.im.write_partial(&mut self.to_im[at..at + count]);
        }
    }
}
/// The twist of output k of the transforms from `p` on; k = 0 has none.
#[inline(always)]
fn twist<S: Simd, T: FourierElement>(stage: &Butterfly<T>, p: usize, k: usize) -> Complex<T::V<S>> {
    let at = p * (stage.radix - 1) + k - 1;
    Complex { re: T::V::<S>::splat(stage.twist[0][at]), im: T::V::<S>::splat(stage.twist[1][at]) }
}
#[inline(always)]
fn stage_of_four<S: Simd, T: FourierElement>(stage: &Butterfly<T>, s: usize, mut sides: StageSides<'_, T>) {
    let m = stage.m;
    for p in 0..m {
        let w = [twist::<S, T>(stage, p, 1), twist::<S, T>(stage, p, 2), twist::<S, T>(stage, p, 3)];
        let mut q = 0;
        while q < s {
            let count = (s - q).min(T::V::<S>::LANES);
            let a = sides.load::<S>(s * p + q, count);
            let b = sides.load::<S>(s * (p + m) + q, count);
            let c = sides.load::<S>(s * (p + 2 * m) + q, count);
            let d = sides.load::<S>(s * (p + 3 * m) + q, count);
            let (sum, difference) = (a.add(c), a.sub(c));
            let (other, rotated) = (b.add(d), b.sub(d).rotated());
            let to = 4 * s * p + q;
            sides.store::<S>(to, count, sum.add(other));
            sides.store::<S>(to + s, count, difference.add(rotated).mul(w[0]));
            sides.store::<S>(to + 2 * s, count, sum.sub(other).mul(w[1]));
            sides.store::<S>(to + 3 * s, count, difference.sub(rotated).mul(w[2]));
            q += count;
        }
    }
}
#[inline(always)]
fn stage_of_two<S: Simd, T: FourierElement>(stage: &Butterfly<T>, s: usize, mut sides: StageSides<'_, T>) {
    let m = stage.m;
    for p in 0..m {
        let w = twist::<S, T>(stage, p, 1);
        let mut q = 0;
        while q < s {
            let count = (s - q).min(T::V::<S>::LANES);
            let (a, b) = (sides.load::<S>(s * p + q, count), sides.load::<S>(s * (p + m) + q, count));
            sides.store::<S>(2 * s * p + q, count, a.add(b));
            sides.store::<S>(2 * s * p + s + q, count, a.sub(b).mul(w));
            q += count;
        }
    }
}
/// Of an odd radix: elements that lie opposite each other share cosines, and sines but for the sign.
#[inline(always)]
fn odd_stage<S: Simd, T: FourierElement>(stage: &Butterfly<T>, s: usize, mut sides: StageSides<'_, T>) {
    const PAIRS: usize = RADIX / 2;
    let (m, radix) = (stage.m, stage.radix);
    let pairs = radix / 2;
    for p in 0..m {
        let mut q = 0;
        while q < s {
            let count = (s - q).min(T::V::<S>::LANES);
            let first = sides.load::<S>(s * p + q, count);
            let (mut sums, mut differences) = ([first; PAIRS], [first; PAIRS]);
            let mut all = first;
            for j in 1..=pairs {
                let (a, b) = (sides.load::<S>(s * (p + m * j) + q, count), sides.load::<S>(s * (p + m * (radix - j)) + q, count));
                sums[j - 1] = a.add(b);
                differences[j - 1] = a.sub(b);
                all = all.add(sums[j - 1]);
            }
            let to = radix * s * p + q;
            sides.store::<S>(to, count, all);
            for k in 1..=pairs {
                let mut even = first;
                let zero = T::V::<S>::splat(T::ZERO);
                let mut odd = Complex { re: zero, im: zero };
                for j in 1..=pairs {
                    let turn = j * k % radix;
                    let (c, s) = (T::V::<S>::splat(stage.turns[0][turn]), T::V::<S>::splat(stage.turns[1][turn]));
                    let (sum, difference) = (sums[j - 1], differences[j - 1]);
                    even = Complex { re: even.re.add(sum.re.mul(c)), im: even.im.add(sum.im.mul(c)) };
                    // i times the sine: turns[1] is that of the negative angle.
                    odd = Complex { re: odd.re.sub(difference.im.mul(s)), im: odd.im.add(difference.re.mul(s)) };
                }
                sides.store::<S>(to + k * s, count, even.add(odd).mul(twist::<S, T>(stage, p, k)));
                sides.store::<S>(to + (radix - k) * s, count, even.sub(odd).mul(twist::<S, T>(stage, p, radix - k)));
            }
            q += count;
        }
    }
}

/// ColumnPass of a long row as a matrix `[n1, n2]`, a block of them abreast: loaded, transformed, twisted.
struct ColumnPass<'a, T: FourierElement> {
    stages: &'a [Butterfly<T>],
    scratch: &'a mut StageBuffers<T>,
    inverse: bool,
    x: &'a [T],
    first: usize,
    n: [usize; 2],
    twist: [&'a [T]; 2],
    /// real parts `[n1, block]`, then imaginary ones
    out: &'a mut [T],
}
impl<T: FourierElement> SimdKernel for ColumnPass<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let ColumnPass { stages, scratch, inverse, x, first, n: [n1, n2], twist, out } = self;
        let block = out.len() / (2 * n1);
        let (re, im) = if inverse { (1, 0) } else { (0, 1) };
        for j in 0..n1 {
            let x = &x[2 * (j * n2 + first)..][..2 * block];
            for l in 0..block {
                scratch.from[re][j * block + l] = x[2 * l];
                scratch.from[im][j * block + l] = x[2 * l + 1];
            }
        }
        run_stages::<S, T>(stages, block, n1, scratch);
        let (out_re, out_im) = out.split_at_mut(n1 * block);
        let len = n1 * block;
        let ([re, im], [w_re, w_im]) = ([&scratch.from[0][..len], &scratch.from[1][..len]], [&twist[0][..len], &twist[1][..len]]);
        for k in 0..len {
            out_re[k] = re[k] * w_re[k] - im[k] * w_im[k];
            out_im[k] = re[k] * w_im[k] + im[k] * w_re[k];
        }
    }
}
/// RowPass of the matrix that the columns left, a block of them abreast.
struct RowPass<'a, T: FourierElement> {
    stages: &'a [Butterfly<T>],
    scratch: &'a mut StageBuffers<T>,
    /// what the columns left
    x: &'a [T],
    first: usize,
    n: [usize; 2],
    /// real parts `[n2, block]`, then imaginary ones
    out: &'a mut [T],
}
impl<T: FourierElement> SimdKernel for RowPass<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let RowPass { stages, scratch, x, first, n: [n1, n2], out } = self;
        let block = out.len() / (2 * n2);
        for (b, x) in x.chunks(2 * n1 * ABREAST).enumerate() {
            let columns = x.len() / (2 * n1);
            for (part, x) in x.chunks_exact(n1 * columns).enumerate() {
                let to = &mut scratch.from[part][b * ABREAST * block..][..columns * block];
                for r in 0..block {
                    let x = &x[(first + r) * columns..][..columns];
                    for l in 0..columns {
                        to[l * block + r] = x[l];
                    }
                }
            }
        }
        run_stages::<S, T>(stages, block, n2, scratch);
        let len = n2 * block;
        out[..len].copy_from_slice(&scratch.from[0][..len]);
        out[len..].copy_from_slice(&scratch.from[1][..len]);
    }
}
fn stages_of<T: FourierElement>(plan: &Plan<T>) -> &[Butterfly<T>] {
    match &plan.method {
        Method::Stages(stages) => stages,
        _ => &[],
    }
}
/// One long row by its halves: columns, rows, and the elements in their order.
fn halves<T: FourierElement>(
    isa: Isa,
    threads: &Threads,
    [columns, rows]: [&Plan<T>; 2],
    twist: &ComplexParts<T>,
    inverse: bool,
    scale: T,
    x: &[T],
    out: &mut [T],
) -> Result<(), ErrorKind> {
    let n = [columns.n, rows.n];
    let [n1, n2] = n;
    let (mut between, mut ordered): (ScratchVec<T>, ScratchVec<T>) = (filled(T::ZERO, 2 * n1 * n2)?, filled(T::ZERO, 2 * n1 * n2)?);
    threads.try_for_parts(between.chunks_mut(2 * n1 * ABREAST), |block, out| {
        let mut scratch = StageBuffers::new(n1 * ABREAST)?;
        let at = block * ABREAST * n1..(block * ABREAST * n1 + out.len() / 2);
        let twist = [&twist[0][at.clone()], &twist[1][at]];
        dispatch(isa, ColumnPass { stages: stages_of(columns), scratch: &mut scratch, inverse, x, first: block * ABREAST, n, twist, out });
        Ok::<(), ErrorKind>(())
    })?;
    threads.try_for_parts(ordered.chunks_mut(2 * n2 * ABREAST), |block, out| {
        let mut scratch = StageBuffers::new(n2 * ABREAST)?;
        dispatch(isa, RowPass { stages: stages_of(rows), scratch: &mut scratch, x: &between, first: block * ABREAST, n, out });
        Ok::<(), ErrorKind>(())
    })?;
    let (first, second) = if inverse { (1, 0) } else { (0, 1) };
    let some = (TASK / n1).max(1);
    threads.for_chunks_mut(out, 2 * n1 * some, |task, out| {
        for (k, out) in out.chunks_exact_mut(2 * n1).enumerate() {
            let k2 = task * some + k;
            for (out, ordered) in out.chunks_mut(2 * ABREAST).zip(ordered.chunks(2 * n2 * ABREAST)) {
                let block = out.len() / 2;
                let parts = [&ordered[k2 * block..][..block], &ordered[(n2 + k2) * block..][..block]];
                for (l, pair) in out.chunks_exact_mut(2).enumerate() {
                    pair[0] = parts[first][l] * scale;
                    pair[1] = parts[second][l] * scale;
                }
            }
        }
    });
    Ok(())
}
/// One row whose length has a large prime: times a chirp, as a convolution with the chirp's other half.
fn convolution<T: FourierElement>(
    isa: Isa,
    threads: &Threads,
    chirp: &ComplexParts<T>,
    spectrum: &ComplexParts<T>,
    long: &Plan<T>,
    inverse: bool,
    scale: T,
    x: &[T],
    out: &mut [T],
) -> Result<(), ErrorKind> {
    let m = long.n;
    let (mut pairs, mut other) = (filled(T::ZERO, 2 * m)?, filled(T::ZERO, 2 * m)?);
    let (first, second) = if inverse { (1, 0) } else { (0, 1) };
    for (j, (to, x)) in pairs.chunks_exact_mut(2).zip(x.chunks_exact(2)).enumerate() {
        let (re, im, c, s) = (x[first], x[second], chirp[0][j], chirp[1][j]);
        to[0] = re * c - im * s;
        to[1] = re * s + im * c;
    }
    self::rows(isa, threads, long, false, T::ONE, &pairs, &mut other)?;
    for (k, pair) in other.chunks_exact_mut(2).enumerate() {
        let (re, im, c, s) = (pair[0], pair[1], spectrum[0][k], spectrum[1][k]);
        pair[0] = re * c - im * s;
        pair[1] = re * s + im * c;
    }
    self::rows(isa, threads, long, true, T::ONE, &other, &mut pairs)?;
    for (j, (to, pair)) in out.chunks_exact_mut(2).zip(pairs.chunks_exact(2)).enumerate() {
        let (re, im, c, s) = (pair[0], pair[1], chirp[0][j], chirp[1][j]);
        to[first] = (re * c - im * s) * scale;
        to[second] = (re * s + im * c) * scale;
    }
    Ok(())
}
