//! Rows of numbers: loads from memory of any float dtype, sums by the fixed tree, maps, all in vectors. Must not know
//! what a compound computes.
use crate::{
    isa::Isa,
    map::{
        PARTS, load,
        loops::{self, Real},
    },
    operand::{In, Out, internal},
    reduce::tree::{BLOCK, LANES, ReducedElement, Sum, Total, fold, fold_four, write_lanes},
    scratch::{self, KeptElement, ScratchVec},
    simd::{self, Arithmetic, Float, Simd, stream, stream::LINE, twice::Twice},
    threads::Threads,
};
use adamant_runtime::ErrorKind;
use bytemuck::Pod;
use half::{bf16, f16, slice::HalfFloatSliceExt};

/// What compounds compute in: f32 or f64, with the tree that sums them.
pub(crate) trait Summed: Real + ReducedElement<Wide = f64> {}
impl<T: Real + ReducedElement<Wide = f64>> Summed for T {}

/// An element in memory, and what it is computed in.
pub(crate) trait StoredElement: Pod + KeptElement + Send + Sync {
    type Real: Summed;
    /// Memory holds the numbers themselves.
    const AS_IS: bool;
    /// The scratch that `n` numbers need where memory holds others.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn scratch_vec(n: usize) -> Result<ScratchVec<Self::Real>, ErrorKind>;
    /// The numbers; written into `scratch`, made for as many, where memory holds others.
    fn read<'a>(isa: Isa, x: &'a [Self], scratch: &'a mut [Self::Real]) -> &'a [Self::Real];
    /// Lets `f` write the numbers, into `scratch`, made for as many, where memory holds others.
    fn write(isa: Isa, out: &mut [Self], scratch: &mut [Self::Real], f: impl FnOnce(&mut [Self::Real]));
}
macro_rules! stored_as_is {
    ($($t:ty),*) => { $(impl StoredElement for $t {
        type Real = $t;
        const AS_IS: bool = true;
        fn scratch_vec(_: usize) -> Result<ScratchVec<$t>, ErrorKind> {
            Ok(ScratchVec::default())
        }
        #[inline(always)]
        fn read<'a>(_: Isa, x: &'a [$t], _: &'a mut [$t]) -> &'a [$t] {
            x
        }
        #[inline(always)]
        fn write(_: Isa, out: &mut [$t], _: &mut [$t], f: impl FnOnce(&mut [$t])) {
            f(out);
        }
    })* };
}
stored_as_is!(f32, f64);
impl StoredElement for bf16 {
    type Real = f32;
    const AS_IS: bool = false;
    fn scratch_vec(n: usize) -> Result<ScratchVec<f32>, ErrorKind> {
        scratch::filled(0.0, n)
    }
    fn read<'a>(isa: Isa, x: &'a [bf16], scratch: &'a mut [f32]) -> &'a [f32] {
        let scratch = &mut scratch[..x.len()];
        loops::convert(isa, x, scratch, |v| f32::from_bits((v.to_bits() as u32) << 16));
        scratch
    }
    #[inline(always)]
    fn write(isa: Isa, out: &mut [bf16], scratch: &mut [f32], f: impl FnOnce(&mut [f32])) {
        let scratch = &mut scratch[..out.len()];
        f(scratch);
        loops::round_to_bf16(isa, scratch, out);
    }
}
impl StoredElement for f16 {
    type Real = f32;
    const AS_IS: bool = false;
    fn scratch_vec(n: usize) -> Result<ScratchVec<f32>, ErrorKind> {
        scratch::filled(0.0, n)
    }
    fn read<'a>(_: Isa, x: &'a [f16], scratch: &'a mut [f32]) -> &'a [f32] {
        let scratch = &mut scratch[..x.len()];
        x.convert_to_f32_slice(scratch);
        scratch
    }
    #[inline(always)]
    fn write(_: Isa, out: &mut [f16], scratch: &mut [f32], f: impl FnOnce(&mut [f32])) {
        let scratch = &mut scratch[..out.len()];
        f(scratch);
        out.convert_from_f32_slice(scratch);
    }
}
/// All the numbers of an operand, in `scratch` where memory holds others.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn widened<'a, M: StoredElement>(isa: Isa, x: &'a [M], scratch: &'a mut ScratchVec<M::Real>) -> Result<&'a [M::Real], ErrorKind> {
    *scratch = M::scratch_vec(x.len())?;
    Ok(M::read(isa, x, scratch))
}
/// All the numbers of an operand of any float dtype, as small as a row.
///
/// # Errors
/// `OutOfMemory`; an operand that is not dense.
pub(crate) fn all<T: Summed + load::Decode>(isa: Isa, i: &In<'_>) -> Result<ScratchVec<T>, ErrorKind> {
    let bytes = i.dense_bytes()?;
    let mut out = scratch::filled(T::default(), bytes.len() / i.dtype.size())?;
    load::decode(isa, i.dtype, bytes, &mut out);
    Ok(out)
}

/// Writes numbers of any float dtype: for results as small as a row.
///
/// # Errors
/// `OutOfMemory`; an output of another size.
pub(crate) fn store_all<T: Summed>(isa: Isa, x: impl ExactSizeIterator<Item = T>, out: &mut Out<'_>) -> Result<(), ErrorKind> {
    let dtype = out.dtype;
    let bytes = out.dense_bytes()?;
    if bytes.len() != x.len() * dtype.size() {
        return Err(internal("an output of another size"));
    }
    let mut rounded = scratch::filled(T::ZERO, x.len())?;
    rounded.iter_mut().zip(x).for_each(|(to, v)| *to = T::finish(v.widen(), dtype));
    load::store(isa, loops::Src::Slice(&rounded), dtype, bytes);
    Ok(())
}

/// How many rows of `n` elements make a task.
pub(crate) fn rows_of_a_task(threads: &Threads, rows: usize, n: usize) -> usize {
    const TASK: usize = 16 * 1024;
    (TASK / n.max(1)).max(rows.div_ceil(threads.count() * PARTS)).max(1)
}

// Below nothing calls a function of the standard library with a closure (not even an array's `map`): what the compiler
// does not inline has not the instructions of the set.

/// The vectors from `at` on of each slice.
#[inline(always)]
fn at<V: Float, const K: usize>(x: &[&[V::Elem]; K], at: usize) -> [V; K] {
    let mut out = [V::splat(V::Elem::default()); K];
    for k in 0..K {
        out[k] = V::from_slice(&x[k][at..]);
    }
    out
}
/// `count` elements from `at` on of each slice, in front of zeros.
#[inline(always)]
fn rest<V: Float, const K: usize>(x: &[&[V::Elem]; K], at: usize, count: usize) -> [V; K] {
    let mut out = [V::splat(V::Elem::default()); K];
    for k in 0..K {
        out[k] = V::from_partial(&x[k][at..at + count]);
    }
    out
}
/// `count` elements from `first` on of each slice.
#[inline(always)]
fn part<'a, T, const K: usize>(x: &[&'a [T]; K], first: usize, count: usize) -> [&'a [T]; K] {
    let mut out = *x;
    for k in 0..K {
        out[k] = &x[k][first..first + count];
    }
    out
}
/// `L` elements from `from` on of each slice, if there are so many: reading parts of them needs no checks.
#[inline(always)]
fn pieces<'a, T, const K: usize, const L: usize>(x: &[&'a [T]; K], from: usize) -> Option<[&'a [T; L]; K]> {
    let mut out = [x[0].get(from..)?.first_chunk()?; K];
    for k in 0..K {
        out[k] = x[k].get(from..)?.first_chunk()?;
    }
    Some(out)
}
/// The vectors from `at` on of each piece.
#[inline(always)]
fn vectors<V: Float, const K: usize, const L: usize>(x: &[&[V::Elem; L]; K], at: usize) -> [V; K] {
    let mut out = [V::splat(V::Elem::default()); K];
    for k in 0..K {
        out[k] = V::from_slice(&x[k][at..]);
    }
    out
}
/// The sums of `f` over `N` whole blocks from `first` on; their chains of additions are independent and overlap. `None`: there
/// are not so many.
#[inline(always)]
fn whole_blocks<S: Simd, T: Summed, const K: usize, const N: usize>(x: &[&[T]; K], first: usize, f: &impl Fn([T::V<S>; K]) -> T::V<S>) -> Option<[T; 4]> {
    let mut blocks = [pieces::<T, K, BLOCK>(x, first)?; N];
    for b in 1..N {
        blocks[b] = pieces(x, first + b * BLOCK)?;
    }
    let lanes = T::V::<S>::LANES;
    let mut groups = [T::V::<S>::group(T::V::<S>::splat(T::ZERO)); 4];
    for step in (0..BLOCK).step_by(LANES) {
        for v in 0..LANES / lanes {
            for b in 0..N {
                let sum = &mut groups[b].as_mut()[v];
                *sum = sum.add(f(vectors(&blocks[b], step + v * lanes)));
            }
        }
    }
    Some(fold_four::<T::V<S>, T, Sum>(groups))
}
/// The sum of `f` over all elements, by the tree.
#[inline(always)]
pub(crate) fn sum<S: Simd, T: Summed, const K: usize>(x: [&[T]; K], f: impl Fn([T::V<S>; K]) -> T::V<S>) -> f64 {
    let n = x[0].len();
    let x = part(&x, 0, n);
    let mut total = Total::<T>::new::<Sum>();
    let mut first = 0;
    while first < n {
        let whole = ((n - first) / BLOCK).min(4);
        let sums = match whole {
            4 => whole_blocks::<S, T, K, 4>(&x, first, &f),
            3 => whole_blocks::<S, T, K, 3>(&x, first, &f),
            2 => whole_blocks::<S, T, K, 2>(&x, first, &f),
            1 => whole_blocks::<S, T, K, 1>(&x, first, &f),
            _ => None,
        };
        let Some(sums) = sums else {
            let [share] = block_sums::<S, T, K, 1>(
                &part(&x, first, n - first),
                #[inline(always)]
                |x| [f(x)],
            );
            total.push::<Sum>(share);
            break;
        };
        for &share in &sums[..whole] {
            total.push::<Sum>(share);
        }
        first += whole * BLOCK;
    }
    total.value::<Sum>()
}
/// The sum of `f` of all elements, by the tree; they are written to `out`, if there is one.
#[inline(always)]
pub(crate) fn sum_twice<S: Simd, T: Summed>(x: &[T], mut out: Option<&mut [T]>, mut f: impl FnMut(Twice<T::V<S>>) -> Twice<T::V<S>>) -> f64 {
    let lanes = T::V::<S>::LANES;
    let together = LANES / lanes;
    let mut total = Total::<T>::new::<Sum>();
    let zero = T::V::<S>::group(T::V::<S>::splat(T::ZERO));
    let mut first = 0;
    while first + BLOCK <= x.len() {
        let blocks = ((x.len() - first) / BLOCK).min(4);
        let mut groups = [zero; 4];
        for group in &mut groups[..blocks] {
            let piece = &x[first..first + BLOCK];
            let mut lanes_of_it = zero;
            for at in (0..BLOCK).step_by(2 * lanes) {
                let y = f(Twice::from_slice(&piece[at..]));
                if let Some(out) = &mut out {
                    y.write(&mut out[first + at..]);
                }
                for (k, y) in [y.0, y.1].into_iter().enumerate() {
                    let sum = &mut lanes_of_it.as_mut()[(at / lanes + k) % together];
                    *sum = sum.add(y);
                }
            }
            *group = lanes_of_it;
            first += BLOCK;
        }
        let sums = fold_four::<T::V<S>, T, Sum>(groups);
        for &share in &sums[..blocks] {
            total.push::<Sum>(share);
        }
    }
    if first < x.len() {
        let mut scratch = [T::ZERO; BLOCK];
        let scratch = &mut scratch[..x.len() - first];
        map_twice::<S, T>(scratch, &x[first..], f);
        if let Some(out) = &mut out {
            out[first..].copy_from_slice(scratch);
        }
        let [share] = block_sums::<S, T, 1, 1>(
            &[&*scratch],
            #[inline(always)]
            |y| y,
        );
        total.push::<Sum>(share);
    }
    total.value::<Sum>()
}
/// Which lanes are among the first `count`.
#[inline(always)]
fn first_lanes<V: Float<Elem = T>, T: Summed>(count: usize) -> V::Mask {
    let mut index = [T::ZERO; LANES];
    for (l, index) in index.iter_mut().enumerate() {
        *index = T::nearest(l as f64);
    }
    V::from_slice(&index).lt(V::splat(T::nearest(count as f64)))
}
/// Sums of one block.
#[inline(always)]
fn block_sums<S: Simd, T: Summed, const K: usize, const N: usize>(x: &[&[T]; K], f: impl Fn([T::V<S>; K]) -> [T::V<S>; N]) -> [T; N] {
    let (count, lanes) = (x[0].len(), T::V::<S>::LANES);
    let mut groups = [T::V::<S>::group(T::V::<S>::splat(T::ZERO)); N];
    let whole = count / LANES * LANES;
    for step in (0..whole).step_by(LANES) {
        for v in 0..LANES / lanes {
            let terms = f(at(x, step + v * lanes));
            for k in 0..N {
                let sum = &mut groups[k].as_mut()[v];
                *sum = sum.add(terms[k]);
            }
        }
    }
    // The last few: lanes beyond them stay as they are (a zero added to -0 would change it).
    let mut v = 0;
    while whole + v * lanes < count {
        let from = whole + v * lanes;
        let here = lanes.min(count - from);
        let terms = f(rest(x, from, here));
        let taken = first_lanes::<T::V<S>, T>(here);
        for k in 0..N {
            let sum = &mut groups[k].as_mut()[v];
            *sum = T::V::<S>::select(taken, sum.add(terms[k]), *sum);
        }
        v += 1;
    }
    let mut blocks = [[T::ZERO; LANES]; N];
    for k in 0..N {
        write_lanes::<T::V<S>>(&groups[k], &mut blocks[k]);
    }
    let mut out = [T::ZERO; N];
    for k in 0..N {
        out[k] = fold::<T, Sum>(blocks[k]);
    }
    out
}
/// Several sums over the same elements, each by the tree.
#[inline(always)]
pub(crate) fn sums<S: Simd, T: Summed, const K: usize, const N: usize>(x: [&[T]; K], f: impl Fn([T::V<S>; K]) -> [T::V<S>; N]) -> [T; N] {
    let n = x[0].len();
    let x = part(&x, 0, n);
    let mut totals = [const { None::<Total<T>> }; N];
    for total in &mut totals {
        *total = Some(Total::new::<Sum>());
    }
    let mut first = 0;
    while first < n {
        let count = BLOCK.min(n - first);
        let shares = block_sums::<S, T, K, N>(&part(&x, first, count), &f);
        for k in 0..N {
            if let Some(total) = &mut totals[k] {
                total.push::<Sum>(shares[k]);
            }
        }
        first += count;
    }
    let mut out = [T::ZERO; N];
    for (out, total) in out.iter_mut().zip(totals) {
        *out = T::nearest(total.map_or(0.0, |t| t.value::<Sum>()));
    }
    out
}
/// The largest; a NaN counts as nothing (what is computed from it is one again).
#[inline(always)]
pub(crate) fn max<S: Simd, T: Summed>(x: &[T]) -> T {
    let [most] = extremes::<S, T, 1>(x);
    most
}
/// The largest and, if asked for, minus the smallest. A NaN counts as nothing.
#[inline(always)]
pub(crate) fn extremes<S: Simd, T: Summed, const N: usize>(x: &[T]) -> [T; N] {
    let lanes = T::V::<S>::LANES;
    let lowest = T::V::<S>::splat(T::LOWEST);
    let mut most = [[lowest; 4]; N];
    let mut k = 0;
    while k + 4 * lanes <= x.len() {
        for l in 0..4 {
            let v = T::V::<S>::from_slice(&x[k + l * lanes..]);
            for (n, most) in most.iter_mut().enumerate() {
                most[l] = if n == 0 { v } else { v.neg() }.max(most[l]);
            }
        }
        k += 4 * lanes;
    }
    while k < x.len() {
        let count = lanes.min(x.len() - k);
        let v = T::V::<S>::from_partial(&x[k..k + count]);
        let taken = first_lanes::<T::V<S>, T>(count);
        for (n, most) in most.iter_mut().enumerate() {
            most[0] = T::V::<S>::select(taken, if n == 0 { v } else { v.neg() }, lowest).max(most[0]);
        }
        k += count;
    }
    let mut out = [T::LOWEST; N];
    for (out, most) in out.iter_mut().zip(&most) {
        let most = most[0].max(most[1]).max(most[2].max(most[3]));
        let mut each = [T::LOWEST; LANES];
        most.write(&mut each[..lanes]);
        *out = simd::fold(
            each,
            #[inline(always)]
            |a, b| if b > a { b } else { a },
        );
    }
    out
}
/// Elements that are mapped without asking whether there are so many.
const STRIP: usize = 4 * LANES;
/// `out = f(x)`.
#[inline(always)]
pub(crate) fn map<S: Simd, T: Summed, const K: usize>(out: &mut [T], x: [&[T]; K], f: impl Fn([T::V<S>; K]) -> T::V<S>) {
    let (n, lanes) = (out.len(), T::V::<S>::LANES);
    let x = part(&x, 0, n);
    let mut k = 0;
    // Strips without checks: a processor looks only so many instructions ahead for memory to ask for.
    let out_strips = out.as_chunks_mut::<STRIP>().0;
    let count = out_strips.len();
    let mut strips: [&[[T; STRIP]]; K] = [&[]; K];
    for (strips, x) in strips.iter_mut().zip(&x) {
        *strips = &x.as_chunks().0[..count];
    }
    for (c, out) in out_strips.iter_mut().enumerate() {
        let mut here = [&strips[0][c]; K];
        for (here, strips) in here.iter_mut().zip(&strips) {
            *here = &strips[c];
        }
        for v in (0..STRIP).step_by(lanes) {
            f(vectors(&here, v)).write(&mut out[v..]);
        }
        k += STRIP;
    }
    while k + lanes <= n {
        f(at(&x, k)).write(&mut out[k..]);
        k += lanes;
    }
    if k < n {
        f(rest(&x, k, n - k)).write_partial(&mut out[k..]);
    }
}
/// `out = f(x)`, two vectors at a time: for functions of many steps.
#[inline(always)]
pub(crate) fn map_twice<S: Simd, T: Summed>(out: &mut [T], x: &[T], mut f: impl FnMut(Twice<T::V<S>>) -> Twice<T::V<S>>) {
    let (n, lanes) = (out.len(), Twice::<T::V<S>>::LANES);
    let x = &x[..n];
    let mut k = 0;
    while k + lanes <= n {
        f(Twice::from_slice(&x[k..])).write(&mut out[k..]);
        k += lanes;
    }
    if k < n {
        f(Twice::from_partial(&x[k..])).write_partial(&mut out[k..]);
    }
}
/// As [`map_twice`]; `past` the caches, if asked for: [`stream::publish`] then comes before anybody else may read it, and
/// what lies behind `x` is asked for.
#[inline(always)]
#[allow(clippy::redundant_closure, reason = "a reference to a function is called through the standard library, without the instructions of the set")]
pub(crate) fn map_to<S: Simd, T: Summed>(past: bool, out: &mut [T], x: &[T], f: impl Fn(Twice<T::V<S>>) -> Twice<T::V<S>>) {
    if !past {
        return map_twice::<S, T>(out, x, f);
    }
    let (n, lanes) = (out.len(), T::V::<S>::LANES);
    let x = &x[..n];
    // Only an interpreter of Rust may decline to tell.
    let head = out.as_ptr().align_offset(LINE).min(n);
    map_twice::<S, T>(
        &mut out[..head],
        &x[..head],
        #[inline(always)]
        |x| f(x),
    );
    let mut k = head;
    while k + 2 * lanes <= n {
        for line in (0..size_of::<Twice<T::V<S>>>()).step_by(LINE) {
            stream::hint_ahead(x[k..].as_ptr().cast::<u8>().wrapping_add(line));
        }
        let y = f(Twice::from_slice(&x[k..]));
        y.write_past(&mut out[k..]);
        k += 2 * lanes;
    }
    map_twice::<S, T>(&mut out[k..], &x[k..], f);
}
/// `out = f(out, x)`.
#[inline(always)]
pub(crate) fn update<S: Simd, T: Summed, const K: usize>(out: &mut [T], x: [&[T]; K], f: impl Fn(T::V<S>, [T::V<S>; K]) -> T::V<S>) {
    let (n, lanes) = (out.len(), T::V::<S>::LANES);
    let x = part(&x, 0, n);
    let mut k = 0;
    while k + lanes <= n {
        f(T::V::<S>::from_slice(&out[k..]), at(&x, k)).write(&mut out[k..]);
        k += lanes;
    }
    if k < n {
        f(T::V::<S>::from_partial(&out[k..]), rest(&x, k, n - k)).write_partial(&mut out[k..]);
    }
}
