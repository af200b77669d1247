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
        return staged(isa, threads, stages, StageEnds::Pairs, [plan.n; 3], inverse, scale, some, x, out);
    }
    let row = |threads: &Threads, x: &[T], out: &mut [T]| match &plan.method {
        Method::Halves { columns, rows, twist } => halves(isa, threads, [columns, rows], twist, inverse, scale, x, out),
        Method::Convolution { chirp, spectrum, long } => convolution(isa, threads, chirp, spectrum, long, inverse, scale, x, out),
        Method::Stages(_) => Ok(()),
    };
    if count < threads.count() {
        return x.chunks(width).zip(out.chunks_mut(width)).try_for_each(|(x, out)| row(threads, x, out));
    }
    // A convolution's own transforms go abreast.
    let some = if matches!(plan.method, Method::Convolution { .. }) { ABREAST.min(count.div_ceil(threads.count())) } else { 1 };
    threads.try_for_parts(x.chunks(some * width).zip(out.chunks_mut(some * width)), |_, (x, out)| row(Threads::alone(), x, out))
}

/// Transforms rows by stages, [`ABREAST`] of them at once and `some` in a task. `sizes`: the pairs of a row of the input, of the
/// transform, of the output.
///
/// # Errors
/// `OutOfMemory`.
#[allow(clippy::too_many_arguments)]
fn staged<T: FourierElement>(
    isa: Isa,
    threads: &Threads,
    stages: &[Butterfly<T>],
    ends: StageEnds<'_, T>,
    sizes: [usize; 3],
    inverse: bool,
    scale: T,
    some: usize,
    x: &[T],
    out: &mut [T],
) -> Result<(), ErrorKind> {
    let (from, to) = (2 * sizes[0], 2 * sizes[2]);
    threads.try_for_parts(x.chunks(some * from).zip(out.chunks_mut(some * to)), |_, (x, out)| {
        // A half transform has one pair more than the transform that it is made of.
        let mut scratch = StageBuffers::new((sizes[1] + 1) * ABREAST)?;
        for (x, out) in x.chunks(ABREAST * from).zip(out.chunks_mut(ABREAST * to)) {
            dispatch(isa, Abreast { stages, ends, scratch: &mut scratch, inverse, scale, x, out, sizes });
        }
        Ok(())
    })
}
/// Transforms rows of real numbers to the halves of their transforms, or back, by a plan for half as many pairs. False: it has no
/// stages, and nothing was done.
///
/// # Errors
/// `OutOfMemory`.
#[allow(clippy::too_many_arguments)]
pub(super) fn real_rows<T: FourierElement>(
    isa: Isa,
    threads: &Threads,
    plan: &Plan<T>,
    ends: StageEnds<'_, T>,
    inverse: bool,
    scale: T,
    x: &[T],
    out: &mut [T],
) -> Result<bool, ErrorKind> {
    let Method::Stages(stages) = &plan.method else { return Ok(false) };
    let n = plan.n;
    let sizes = match ends {
        StageEnds::Pairs => [n; 3],
        StageEnds::ToHalf(_) => [n, n, n + 1],
        StageEnds::FromHalf(_) => [n + 1, n, n],
    };
    let count = x.len() / (2 * sizes[0]);
    let some = (TASK / n).max(1).min(count.div_ceil(threads.count())).next_multiple_of(ABREAST);
    staged(isa, threads, stages, ends, sizes, inverse, scale, some, x, out)?;
    Ok(true)
}
/// What is before the stages, or behind them. Roots: `exp(-2 pi i k / n)` of a row's n numbers, in pairs, up to half of n.
#[derive(Clone, Copy)]
pub(super) enum StageEnds<'a, T> {
    /// nothing: complex numbers on both sides
    Pairs,
    /// the transform of a row's numbers in pairs becomes the first half of that of the row
    ToHalf(&'a [T]),
    /// the other way round
    FromHalf(&'a [T]),
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
    ends: StageEnds<'a, T>,
    scratch: &'a mut StageBuffers<T>,
    inverse: bool,
    scale: T,
    x: &'a [T],
    out: &'a mut [T],
    /// the pairs of a row of the input, of the transform, of the output
    sizes: [usize; 3],
}
impl<T: FourierElement> SimdKernel for Abreast<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Abreast { stages, ends, scratch, inverse, scale, x, out, sizes: [from, n, to] } = self;
        let rows = x.len() / (2 * from);
        // The inverse is the transform with real and imaginary parts swapped, before and after.
        let parts = if inverse { [1, 0] } else { [0, 1] };
        let is_plain = matches!(ends, StageEnds::Pairs);
        read_rows::<S, T>(x, from, rows, &mut scratch.from, if is_plain { parts } else { [0, 1] });
        if let StageEnds::FromHalf(roots) = ends {
            from_half::<S, T>(scratch, n, rows, roots, inverse);
            std::mem::swap(&mut scratch.from, &mut scratch.to);
        }
        if inverse && !is_plain {
            scratch.from.swap(0, 1);
        }
        run_stages::<S, T>(stages, rows, n, scratch);
        if inverse && !is_plain {
            scratch.from.swap(0, 1);
        }
        if let StageEnds::ToHalf(roots) = ends {
            to_half::<S, T>(scratch, n, rows, roots, inverse);
            std::mem::swap(&mut scratch.from, &mut scratch.to);
        }
        write_rows::<S, T>(&scratch.from, if is_plain { parts } else { [0, 1] }, scale, out, to, rows);
    }
}
/// Rows of `n` pairs into lanes: whole blocks of all rows are transposed in registers, the rest is moved number by number.
#[inline(always)]
fn read_rows<S: Simd, T: FourierElement>(x: &[T], n: usize, rows: usize, to: &mut ComplexParts<T>, parts: [usize; 2]) {
    let (lanes, pairs) = (T::V::<S>::LANES, T::V::<S>::LANES / 2);
    let whole = if rows == ABREAST && pairs > 0 { n / pairs * pairs } else { 0 };
    for l in (0..rows).step_by(lanes) {
        for j in (0..whole).step_by(pairs.max(1)) {
            into_lanes::<S, T>(&x[2 * (l * n + j)..], 2 * n, to, parts, j * rows + l);
        }
    }
    for (l, x) in x.chunks_exact(2 * n).enumerate() {
        for (j, pair) in x.chunks_exact(2).enumerate().skip(whole) {
            to[parts[0]][j * rows + l] = pair[0];
            to[parts[1]][j * rows + l] = pair[1];
        }
    }
}
/// The way back, times `scale`.
#[inline(always)]
fn write_rows<S: Simd, T: FourierElement>(from: &ComplexParts<T>, parts: [usize; 2], scale: T, out: &mut [T], n: usize, rows: usize) {
    let (lanes, pairs) = (T::V::<S>::LANES, T::V::<S>::LANES / 2);
    let whole = if rows == ABREAST && pairs > 0 { n / pairs * pairs } else { 0 };
    for l in (0..rows).step_by(lanes) {
        for j in (0..whole).step_by(pairs.max(1)) {
            out_of_lanes::<S, T>(from, parts, j * rows + l, scale, &mut out[2 * (l * n + j)..], 2 * n);
        }
    }
    for (l, out) in out.chunks_exact_mut(2 * n).enumerate() {
        for (j, pair) in out.chunks_exact_mut(2).enumerate().skip(whole) {
            pair[0] = from[parts[0]][j * rows + l] * scale;
            pair[1] = from[parts[1]][j * rows + l] * scale;
        }
    }
}
/// The first half of the transforms of real rows from those of their numbers in pairs: even numbers' and odd numbers' transforms
/// are taken out of them and put together.
#[inline(always)]
fn to_half<S: Simd, T: FourierElement>(scratch: &mut StageBuffers<T>, half: usize, rows: usize, roots: &[T], inverse: bool) {
    let ([re, im], [to_re, to_im]) = (&scratch.from, &mut scratch.to);
    let mut sides = StageSides { re, im, to_re, to_im };
    let share = T::V::<S>::splat(T::nearest(0.5));
    for k in 0..=half {
        let w = root_at::<S, T>(roots, k, inverse);
        let (a, b) = ((k % half) * rows, ((half - k) % half) * rows);
        for l in (0..rows).step_by(T::V::<S>::LANES) {
            let count = (rows - l).min(T::V::<S>::LANES);
            let (x, y) = (sides.load::<S>(a + l, count), sides.load::<S>(b + l, count));
            let even = Complex { re: x.re.add(y.re).mul(share), im: x.im.sub(y.im).mul(share) };
            let odd = Complex { re: x.im.add(y.im).mul(share), im: y.re.sub(x.re).mul(share) };
            sides.store::<S>(k * rows + l, count, even.add(odd.mul(w)));
        }
    }
}
/// The other way round. The imaginary parts of the first point and the middle one are not read.
#[inline(always)]
fn from_half<S: Simd, T: FourierElement>(scratch: &mut StageBuffers<T>, half: usize, rows: usize, roots: &[T], inverse: bool) {
    // Their places are those of elements 0 and `half`, which meet each other alone.
    for at in [0, half] {
        scratch.from[1][at * rows..][..rows].fill(T::ZERO);
    }
    let ([re, im], [to_re, to_im]) = (&scratch.from, &mut scratch.to);
    let mut sides = StageSides { re, im, to_re, to_im };
    for k in 0..half {
        let w = root_at::<S, T>(roots, k, inverse);
        for l in (0..rows).step_by(T::V::<S>::LANES) {
            let count = (rows - l).min(T::V::<S>::LANES);
            let (x, y) = (sides.load::<S>(k * rows + l, count), sides.load::<S>((half - k) * rows + l, count));
            let sum = Complex { re: x.re.add(y.re), im: x.im.sub(y.im) };
            let difference = Complex { re: x.re.sub(y.re), im: x.im.add(y.im) };
            // And times i, below.
            let rotated = difference.mul(w);
            sides.store::<S>(k * rows + l, count, Complex { re: sum.re.sub(rotated.im), im: sum.im.add(rotated.re) });
        }
    }
}
/// `exp(-2 pi i k / n)`, or its conjugate.
#[inline(always)]
fn root_at<S: Simd, T: FourierElement>(roots: &[T], k: usize, conjugate: bool) -> Complex<T::V<S>> {
    let im = if conjugate { -roots[2 * k + 1] } else { roots[2 * k + 1] };
    Complex { re: T::V::<S>::splat(roots[2 * k]), im: T::V::<S>::splat(im) }
}
/// As many pairs of as many rows as fill a vector, one part of a pair in each vector.
#[inline(always)]
fn into_lanes<S: Simd, T: FourierElement>(x: &[T], width: usize, to: &mut ComplexParts<T>, parts: [usize; 2], at: usize) {
    let block = T::V::<S>::transposed(x, width);
    for (e, vector) in block.into_iter().enumerate().take(T::V::<S>::LANES) {
        vector.write(&mut to[parts[e % 2]][at + e / 2 * ABREAST..]);
    }
}
/// The way back, times `scale`.
#[inline(always)]
fn out_of_lanes<S: Simd, T: FourierElement>(from: &ComplexParts<T>, parts: [usize; 2], at: usize, scale: T, out: &mut [T], width: usize) {
    let (lanes, scale) = (T::V::<S>::LANES, T::V::<S>::splat(scale));
    let mut block = [T::ZERO; ABREAST * ABREAST];
    for e in 0..lanes {
        T::V::<S>::from_slice(&from[parts[e % 2]][at + e / 2 * ABREAST..]).mul(scale).write(&mut block[e * lanes..]);
    }
    T::V::<S>::transpose_block(&block, T::V::<S>::LANES, out, width);
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
/// Rows whose length has a large prime: times a chirp, as convolutions with the chirp's other half.
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
    let (n, m) = (chirp[0].len(), long.n);
    let len = x.len() / n * m;
    let (mut pairs, mut other) = (filled(T::ZERO, len)?, filled(T::ZERO, len)?);
    // The inverse is the transform with real and imaginary parts swapped, before and after.
    for (x, to) in x.chunks_exact(2 * n).zip(pairs.chunks_exact_mut(2 * m)) {
        dispatch(isa, TimesRoots { x, roots: chirp, swapped: [inverse, false], scale: T::ONE, out: &mut to[..2 * n] });
    }
    self::rows(isa, threads, long, false, T::ONE, &pairs, &mut other)?;
    for (x, to) in other.chunks_exact(2 * m).zip(pairs.chunks_exact_mut(2 * m)) {
        dispatch(isa, TimesRoots { x, roots: spectrum, swapped: [false; 2], scale: T::ONE, out: to });
    }
    self::rows(isa, threads, long, true, T::ONE, &pairs, &mut other)?;
    for (x, to) in other.chunks_exact(2 * m).zip(out.chunks_exact_mut(2 * n)) {
        dispatch(isa, TimesRoots { x: &x[..2 * n], roots: chirp, swapped: [false, inverse], scale, out: to });
    }
    Ok(())
}
/// Each pair times a complex number and `scale`; of what is read, or of what is written, the parts may be swapped.
struct TimesRoots<'a, T: FourierElement> {
    x: &'a [T],
    roots: &'a ComplexParts<T>,
    swapped: [bool; 2],
    scale: T,
    out: &'a mut [T],
}
impl<T: FourierElement> SimdKernel for TimesRoots<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let TimesRoots { x, roots: [cosines, sines], swapped, scale, out } = self;
        let (re, to) = (usize::from(swapped[0]), usize::from(swapped[1]));
        for (((x, out), &c), &s) in x.chunks_exact(2).zip(out.chunks_exact_mut(2)).zip(cosines.iter()).zip(sines.iter()) {
            let (re, im) = (x[re], x[1 - re]);
            out[to] = (re * c - im * s) * scale;
            out[1 - to] = (re * s + im * c) * scale;
        }
    }
}
