//! The tree by which elements are combined, fixed by their number alone: blocks of 256 elements, in each of which 16
//! lanes take every 16th element and are folded by halves; blocks left to right into segments of 256 blocks and those
//! into the total, in a wider type (f64 for sums of f32). Must not know where elements come from.
use crate::{
    isa::Isa,
    map::{self, loops, tile::odd, tiles::Lane},
    scratch::KeptElement,
    simd::{self, Float, Simd, SimdKernel, dispatch, stream},
};
use adamant_runtime::DType;

/// Lanes of a block.
pub(crate) const LANES: usize = 16;
/// Elements of a block.
pub(crate) const BLOCK: usize = 256;
/// Elements of a segment.
pub(crate) const SEGMENT: usize = 256 * BLOCK;

/// What lanes hold, and the wider type of totals.
pub(crate) trait ReducedElement: Lane + KeptElement + Send + Sync {
    type Wide: KeptElement + PartialEq + Send + Sync;
    const ZERO: Self;
    const ONE: Self;
    const LOWEST: Self;
    const HIGHEST: Self;
    /// Is no element beyond these two? Then no maximum changes at the highest, and no minimum at the lowest.
    const IS_BOUNDED: bool = false;
    fn widen(self) -> Self::Wide;
    fn plus(self, o: Self) -> Self;
    fn times(self, o: Self) -> Self;
    fn larger(self, o: Self) -> Self;
    fn smaller(self, o: Self) -> Self;
    fn wide_plus(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn wide_times(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn wide_larger(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn wide_smaller(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// The total as a lane of the output.
    fn finish(v: Self::Wide, dtype: DType) -> Self;
    /// Four whole blocks, folded: their chains are independent and overlap. What lies `behind` each element is asked for.
    #[inline(always)]
    fn quad<S: Simd, C: CombineRule>(x: [&[Self]; 4], _behind: usize) -> [Self; 4] {
        let mut lanes = [[C::identity::<Self>(); LANES]; 4];
        for at in (0..BLOCK).step_by(LANES) {
            for (x, lanes) in x.iter().zip(&mut lanes) {
                for (l, &v) in lanes.iter_mut().zip(&x[at..at + LANES]) {
                    *l = C::lanes(*l, v);
                }
            }
        }
        let mut out = [C::identity::<Self>(); 4];
        for (out, lanes) in out.iter_mut().zip(lanes) {
            *out = fold::<Self, C>(lanes);
        }
        out
    }
    /// Four rows of one length, below a block's, each folded.
    #[inline(always)]
    fn short<S: Simd, C: CombineRule>(x: [&[Self]; 4]) -> [Self; 4] {
        let mut out = [C::identity(); 4];
        for (out, x) in out.iter_mut().zip(x) {
            *out = block::<Self, C>(x);
        }
        out
    }
    /// Combines rows with `sum`, in their order: the first begins with `x`, and it is `stride` from one to the next. What
    /// lies `behind` each element is asked for.
    #[inline(always)]
    fn add_rows<S: Simd, C: CombineRule>(x: &[Self], stride: usize, _behind: usize, sum: &mut [Self]) {
        for row in x.chunks(stride) {
            for (l, &v) in sum.iter_mut().zip(row) {
                *l = C::lanes(*l, v);
            }
        }
    }
}
/// Four whole blocks, folded, in vectors. Nothing here calls a function of the standard library with a closure: what the
/// compiler does not inline has not the instructions of the set.
#[inline(always)]
fn quad<V: Float<Elem = T>, T: ReducedElement, C: CombineRule>(x: [&[T]; 4], behind: usize) -> [T; 4] {
    let [Some(xa), Some(xb), Some(xc), Some(xd)] =
        [x[0].first_chunk::<BLOCK>(), x[1].first_chunk::<BLOCK>(), x[2].first_chunk::<BLOCK>(), x[3].first_chunk::<BLOCK>()]
    else {
        return [C::identity(); 4];
    };
    let start = V::group(V::splat(C::identity()));
    let (mut a, mut b, mut c, mut d) = (start, start, start, start);
    for step in (0..BLOCK).step_by(LANES) {
        for x in [xa, xb, xc, xd] {
            stream::hint(x.as_ptr().wrapping_add(behind + step));
        }
        for v in 0..LANES / V::LANES {
            let at = step + v * V::LANES;
            let (a, b, c, d) = (&mut a.as_mut()[v], &mut b.as_mut()[v], &mut c.as_mut()[v], &mut d.as_mut()[v]);
            *a = C::vectors(*a, V::from_slice(&xa[at..]));
            *b = C::vectors(*b, V::from_slice(&xb[at..]));
            *c = C::vectors(*c, V::from_slice(&xc[at..]));
            *d = C::vectors(*d, V::from_slice(&xd[at..]));
        }
    }
    fold_four::<V, T, C>([a, b, c, d])
}
/// As [`ReducedElement::short`], in vectors.
#[inline(always)]
fn short<V: Float<Elem = T>, T: ReducedElement, C: CombineRule>(x: [&[T]; 4]) -> [T; 4] {
    let mut groups = [V::group(V::splat(C::identity())); 4];
    for (group, x) in groups.iter_mut().zip(x) {
        let (whole, rest) = x.as_chunks::<LANES>();
        for x in whole {
            for v in 0..LANES / V::LANES {
                group.as_mut()[v] = C::vectors(group.as_mut()[v], V::from_slice(&x[v * V::LANES..]));
            }
        }
        if !rest.is_empty() {
            // What changes nothing stands for what is missing.
            let mut last = [C::identity::<T>(); LANES];
            for (l, &v) in last.iter_mut().zip(rest) {
                *l = v;
            }
            for v in 0..LANES / V::LANES {
                group.as_mut()[v] = C::vectors(group.as_mut()[v], V::from_slice(&last[v * V::LANES..]));
            }
        }
    }
    fold_four::<V, T, C>(groups)
}
/// Four groups of lanes, folded.
#[inline(always)]
pub(crate) fn fold_four<V: Float<Elem = T>, T: ReducedElement, C: CombineRule>(groups: [V::Group; 4]) -> [T; 4] {
    V::fold_four(
        groups,
        #[inline(always)]
        |a, b| C::vectors(a, b),
        #[inline(always)]
        |a, b| C::lanes(a, b),
    )
}
/// Rows that are added at a time, while their sums are in registers. More would meet in the same places of the caches,
/// where a row has a power of two of bytes.
pub(crate) const TOGETHER: usize = 4;
/// Elements of a strip of rows: in vectors of 16 as many as memory is asked for at once.
const STRIP: usize = 64;
/// Rows combined with `sum`, in vectors; asks for what lies `behind` each element.
#[inline(always)]
fn add_rows<V: Float, C: CombineRule>(x: &[V::Elem], stride: usize, behind: usize, sum: &mut [V::Elem]) {
    let (n, rows) = (sum.len(), x.len().div_ceil(stride));
    let mut c = 0;
    if rows == TOGETHER {
        // Strips without checks: a processor looks only so many instructions ahead for memory to ask for.
        let (a, b) = (&x[..n], &x[stride..][..n]);
        let (c_row, d) = (&x[2 * stride..][..n], &x[3 * stride..][..n]);
        let strips = sum.as_chunks_mut::<STRIP>().0.iter_mut();
        let inputs = a.as_chunks::<STRIP>().0.iter().zip(b.as_chunks::<STRIP>().0).zip(c_row.as_chunks::<STRIP>().0.iter().zip(d.as_chunks::<STRIP>().0));
        for (sum, ((a, b), (c, d))) in strips.zip(inputs) {
            for at in (0..STRIP).step_by(V::LANES) {
                let mut total = V::from_slice(&sum[at..]);
                for x in [a, b, c, d] {
                    stream::hint(x.as_ptr().wrapping_add(behind + at));
                    total = C::vectors(total, V::from_slice(&x[at..]));
                }
                total.write(&mut sum[at..]);
            }
        }
        c = n / STRIP * STRIP;
    }
    while c < n {
        let count = V::LANES.min(n - c);
        let mut total = V::from_partial(&sum[c..c + count]);
        for row in 0..rows {
            let here = &x[row * stride + c..][..count];
            stream::hint(here.as_ptr().wrapping_add(behind));
            total = C::vectors(total, V::from_partial(here));
        }
        total.write_partial(&mut sum[c..c + count]);
        c += count;
    }
}
/// The 16 lanes of a group.
#[inline(always)]
pub(crate) fn write_lanes<V: Float>(group: &V::Group, lanes: &mut [V::Elem; LANES]) {
    for v in 0..LANES / V::LANES {
        group.as_ref()[v].write(&mut lanes[v * V::LANES..]);
    }
}
macro_rules! float_element {
    ($t:ty, $vector:ident, $finish:expr) => {
        impl ReducedElement for $t {
            type Wide = f64;
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const LOWEST: $t = <$t>::NEG_INFINITY;
            const HIGHEST: $t = <$t>::INFINITY;
            #[inline(always)]
            fn widen(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn plus(self, o: $t) -> $t {
                self + o
            }
            #[inline(always)]
            fn times(self, o: $t) -> $t {
                self * o
            }
            #[inline(always)]
            fn larger(self, o: $t) -> $t {
                loops::larger(self, o)
            }
            #[inline(always)]
            fn smaller(self, o: $t) -> $t {
                loops::smaller(self, o)
            }
            #[inline(always)]
            fn wide_plus(a: f64, b: f64) -> f64 {
                a + b
            }
            #[inline(always)]
            fn wide_times(a: f64, b: f64) -> f64 {
                a * b
            }
            #[inline(always)]
            fn wide_larger(a: f64, b: f64) -> f64 {
                loops::larger(a, b)
            }
            #[inline(always)]
            fn wide_smaller(a: f64, b: f64) -> f64 {
                loops::smaller(a, b)
            }
            fn finish(v: f64, dtype: DType) -> $t {
                ($finish)(v, dtype)
            }
            #[inline(always)]
            fn quad<S: Simd, C: CombineRule>(x: [&[$t]; 4], behind: usize) -> [$t; 4] {
                quad::<S::$vector, $t, C>(x, behind)
            }
            #[inline(always)]
            fn short<S: Simd, C: CombineRule>(x: [&[$t]; 4]) -> [$t; 4] {
                short::<S::$vector, $t, C>(x)
            }
            #[inline(always)]
            fn add_rows<S: Simd, C: CombineRule>(x: &[$t], stride: usize, behind: usize, sum: &mut [$t]) {
                add_rows::<S::$vector, C>(x, stride, behind, sum);
            }
        }
    };
}
float_element!(f32, F32, |v: f64, dtype: DType| if dtype == DType::F32 { v as f32 } else { map::load::round_value(odd(v), dtype) });
float_element!(f64, F64, |v: f64, _| v);
impl ReducedElement for i64 {
    type Wide = i64;
    const ZERO: i64 = 0;
    const ONE: i64 = 1;
    const LOWEST: i64 = i64::MIN;
    const HIGHEST: i64 = i64::MAX;
    const IS_BOUNDED: bool = true;
    #[inline(always)]
    fn widen(self) -> i64 {
        self
    }
    #[inline(always)]
    fn plus(self, o: i64) -> i64 {
        self.wrapping_add(o)
    }
    #[inline(always)]
    fn times(self, o: i64) -> i64 {
        self.wrapping_mul(o)
    }
    #[inline(always)]
    fn larger(self, o: i64) -> i64 {
        self.max(o)
    }
    #[inline(always)]
    fn smaller(self, o: i64) -> i64 {
        self.min(o)
    }
    #[inline(always)]
    fn wide_plus(a: i64, b: i64) -> i64 {
        a.wrapping_add(b)
    }
    #[inline(always)]
    fn wide_times(a: i64, b: i64) -> i64 {
        a.wrapping_mul(b)
    }
    #[inline(always)]
    fn wide_larger(a: i64, b: i64) -> i64 {
        a.max(b)
    }
    #[inline(always)]
    fn wide_smaller(a: i64, b: i64) -> i64 {
        a.min(b)
    }
    fn finish(v: i64, _: DType) -> i64 {
        v
    }
}

/// Truth values: a sum is whether any is true, a product whether all are.
impl ReducedElement for u8 {
    type Wide = u8;
    const ZERO: u8 = 0;
    const ONE: u8 = 1;
    const LOWEST: u8 = 0;
    const HIGHEST: u8 = 1;
    const IS_BOUNDED: bool = true;
    #[inline(always)]
    fn widen(self) -> u8 {
        self
    }
    #[inline(always)]
    fn plus(self, o: u8) -> u8 {
        self | o
    }
    #[inline(always)]
    fn times(self, o: u8) -> u8 {
        self & o
    }
    #[inline(always)]
    fn larger(self, o: u8) -> u8 {
        self | o
    }
    #[inline(always)]
    fn smaller(self, o: u8) -> u8 {
        self & o
    }
    #[inline(always)]
    fn wide_plus(a: u8, b: u8) -> u8 {
        a | b
    }
    #[inline(always)]
    fn wide_times(a: u8, b: u8) -> u8 {
        a & b
    }
    #[inline(always)]
    fn wide_larger(a: u8, b: u8) -> u8 {
        a | b
    }
    #[inline(always)]
    fn wide_smaller(a: u8, b: u8) -> u8 {
        a & b
    }
    fn finish(v: u8, _: DType) -> u8 {
        v
    }
}

/// How two elements, and two totals, are combined.
pub(crate) trait CombineRule: Send + Sync + 'static {
    fn identity<T: ReducedElement>() -> T;
    fn lanes<T: ReducedElement>(a: T, b: T) -> T;
    fn vectors<V: Float>(a: V, b: V) -> V;
    fn totals<T: ReducedElement>(a: T::Wide, b: T::Wide) -> T::Wide;
    /// Does nothing change this total any more?
    fn is_final<T: ReducedElement>(total: T::Wide) -> bool;
}
macro_rules! combine {
    ($($name:ident $identity:ident $lanes:ident $totals:ident $last:expr, $vectors:expr;)*) => { $(
        pub(crate) struct $name;
        impl CombineRule for $name {
            #[inline(always)]
            fn identity<T: ReducedElement>() -> T { T::$identity }
            #[inline(always)]
            fn lanes<T: ReducedElement>(a: T, b: T) -> T { a.$lanes(b) }
            #[inline(always)]
            fn vectors<V: Float>(a: V, b: V) -> V { ($vectors)(a, b) }
            #[inline(always)]
            fn totals<T: ReducedElement>(a: T::Wide, b: T::Wide) -> T::Wide { T::$totals(a, b) }
            #[inline(always)]
            fn is_final<T: ReducedElement>(total: T::Wide) -> bool {
                let last: Option<T> = $last;
                T::IS_BOUNDED && last.is_some_and(|last| last.widen() == total)
            }
        }
    )* };
}
combine! {
    Sum ZERO plus wide_plus None, V::add;
    Prod ONE times wide_times None, V::mul;
    Max LOWEST larger wide_larger Some(T::HIGHEST), |a: V, b| V::select(a.is_nan(), a, a.max(b));
    Min HIGHEST smaller wide_smaller Some(T::LOWEST), |a: V, b| V::select(a.is_nan(), a, a.min(b));
}

/// Totals that grow side by side, block by block.
pub(crate) struct Totals<T: ReducedElement, const N: usize> {
    segments: [T::Wide; N],
    totals: [T::Wide; N],
    /// of the open segment
    blocks: usize,
}
impl<T: ReducedElement, const N: usize> Totals<T, N> {
    #[inline(always)]
    pub fn new<C: CombineRule>() -> Totals<T, N> {
        Totals::from(C::identity())
    }
    /// With what changes nothing.
    #[inline(always)]
    fn from(identity: T) -> Totals<T, N> {
        let identity = identity.widen();
        Totals { segments: [identity; N], totals: [identity; N], blocks: 0 }
    }
    /// The next block of each.
    #[inline(always)]
    pub fn push<C: CombineRule>(&mut self, blocks: [T; N]) {
        for k in 0..N {
            self.segments[k] = C::totals::<T>(self.segments[k], blocks[k].widen());
        }
        self.blocks += 1;
        if self.blocks == SEGMENT / BLOCK {
            for k in 0..N {
                self.totals[k] = C::totals::<T>(self.totals[k], self.segments[k]);
            }
            self.segments = [C::identity::<T>().widen(); N];
            self.blocks = 0;
        }
    }
    #[inline(always)]
    pub fn values<C: CombineRule>(mut self) -> [T::Wide; N] {
        if self.blocks > 0 {
            for k in 0..N {
                self.totals[k] = C::totals::<T>(self.totals[k], self.segments[k]);
            }
        }
        self.totals
    }
}
/// One total that grows block by block.
pub(crate) struct Total<T: ReducedElement>(Totals<T, 1>);
impl<T: ReducedElement> Total<T> {
    #[inline(always)]
    pub fn new<C: CombineRule>() -> Total<T> {
        Total(Totals::new::<C>())
    }
    /// With what changes nothing.
    #[inline(always)]
    pub fn from(identity: T) -> Total<T> {
        Total(Totals::from(identity))
    }
    #[inline(always)]
    pub fn push<C: CombineRule>(&mut self, block: T) {
        self.0.push::<C>([block]);
    }
    /// The next blocks.
    pub fn push_all<C: CombineRule>(&mut self, blocks: &[T]) {
        blocks.iter().for_each(|&block| self.push::<C>(block));
    }
    /// The next segment, which ends none that is open.
    pub fn push_segment<C: CombineRule>(&mut self, segment: T::Wide) {
        self.0.totals[0] = C::totals::<T>(self.0.totals[0], segment);
    }
    /// Does no further block change it?
    pub fn is_final<C: CombineRule>(&self) -> bool {
        C::is_final::<T>(self.0.totals[0]) || C::is_final::<T>(self.0.segments[0])
    }
    /// What the blocks of a segment give, which has no others.
    pub fn segment(&self) -> T::Wide {
        if self.0.blocks == 0 { self.0.totals[0] } else { self.0.segments[0] }
    }
    #[inline(always)]
    pub fn value<C: CombineRule>(self) -> T::Wide {
        self.0.values::<C>()[0]
    }
}

/// One block.
#[inline(always)]
pub(crate) fn block<T: ReducedElement, C: CombineRule>(x: &[T]) -> T {
    let mut lanes = [C::identity::<T>(); LANES];
    let mut chunks = x.chunks_exact(LANES);
    for c in &mut chunks {
        for (l, &v) in lanes.iter_mut().zip(c) {
            *l = C::lanes(*l, v);
        }
    }
    for (l, &v) in lanes.iter_mut().zip(chunks.remainder()) {
        *l = C::lanes(*l, v);
    }
    fold::<T, C>(lanes)
}
#[inline(always)]
pub(crate) fn fold<T: ReducedElement, C: CombineRule>(lanes: [T; LANES]) -> T {
    simd::fold(
        lanes,
        #[inline(always)]
        |a, b| C::lanes(a, b),
    )
}
/// Pushes a run of elements that starts at a block's start.
struct PushRow<'a, T: ReducedElement, C>(&'a [T], &'a mut Total<T>, std::marker::PhantomData<C>);
impl<T: ReducedElement, C: CombineRule> SimdKernel for PushRow<'_, T, C> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let PushRow(x, total, _) = self;
        let mut quads = x.chunks_exact(4 * BLOCK);
        for q in &mut quads {
            let blocks = [&q[..BLOCK], &q[BLOCK..2 * BLOCK], &q[2 * BLOCK..3 * BLOCK], &q[3 * BLOCK..]];
            // The four blocks behind these: a processor does not fetch beyond a page by itself.
            for block in T::quad::<S, C>(blocks, 4 * BLOCK) {
                total.push::<C>(block);
            }
        }
        for b in quads.remainder().chunks(BLOCK) {
            total.push::<C>(block::<T, C>(b));
        }
    }
}
/// The totals of rows of `n` elements that lie one behind the other. Four rows are read side by side: memory gives several
/// runs faster than one.
struct RowTotals<'a, T: ReducedElement, C> {
    x: &'a [T],
    n: usize,
    totals: &'a mut [T::Wide],
    how: std::marker::PhantomData<C>,
}
impl<T: ReducedElement, C: CombineRule> SimdKernel for RowTotals<'_, T, C> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let RowTotals { x, n, totals, .. } = self;
        let mut groups = x.chunks_exact(4 * n);
        let (of_groups, of_rest) = totals.split_at_mut(totals.len() / 4 * 4);
        for (x, totals) in (&mut groups).zip(of_groups.chunks_exact_mut(4)) {
            let rows = [&x[..n], &x[n..2 * n], &x[2 * n..3 * n], &x[3 * n..]];
            let mut of_rows = Totals::<T, 4>::new::<C>();
            let whole = n / BLOCK * BLOCK;
            for at in (0..whole).step_by(BLOCK) {
                of_rows.push::<C>(T::quad::<S, C>([&rows[0][at..], &rows[1][at..], &rows[2][at..], &rows[3][at..]], BLOCK));
            }
            if whole < n {
                of_rows.push::<C>(T::short::<S, C>([&rows[0][whole..], &rows[1][whole..], &rows[2][whole..], &rows[3][whole..]]));
            }
            totals.copy_from_slice(&of_rows.values::<C>());
        }
        for (row, to) in groups.remainder().chunks_exact(n).zip(of_rest) {
            let mut total = Total::new::<C>();
            PushRow(row, &mut total, self.how).run::<S>();
            *to = total.value::<C>();
        }
    }
}
/// The lanes of blocks, which lie one behind the other, each folded.
struct FoldedBlocks<'a, T, C>(&'a [T], &'a mut [T], std::marker::PhantomData<C>);
impl<T: ReducedElement, C: CombineRule> SimdKernel for FoldedBlocks<'_, T, C> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let FoldedBlocks(lanes, blocks, _) = self;
        let (fours, rest) = lanes.as_chunks::<{ 4 * LANES }>();
        let (of_fours, of_rest) = blocks.as_chunks_mut::<4>();
        for (x, of_four) in fours.iter().zip(of_fours) {
            *of_four = T::short::<S, C>([&x[..LANES], &x[LANES..2 * LANES], &x[2 * LANES..3 * LANES], &x[3 * LANES..]]);
        }
        for (x, block) in rest.as_chunks::<LANES>().0.iter().zip(of_rest) {
            *block = fold::<T, C>(*x);
        }
    }
}
/// Folds the lanes of as many blocks.
pub(crate) fn fold_blocks<T: ReducedElement, C: CombineRule>(isa: Isa, lanes: &[T], blocks: &mut [T]) {
    dispatch(if blocks.len() < 4 { Isa::Scalar } else { isa }, FoldedBlocks::<T, C>(lanes, blocks, std::marker::PhantomData));
}
/// The totals of rows that are one block each.
pub(crate) fn each_block<T: ReducedElement, C: CombineRule>(blocks: &[T], totals: &mut [T::Wide]) {
    for (&block, to) in blocks.iter().zip(totals) {
        let mut total = Total::new::<C>();
        total.push::<C>(block);
        *to = total.value::<C>();
    }
}
/// The totals of as many rows of `n` elements, which lie one behind the other.
pub(crate) fn rows<T: ReducedElement, C: CombineRule>(isa: Isa, x: &[T], n: usize, totals: &mut [T::Wide]) {
    dispatch(if x.len() < 2 * LANES { Isa::Scalar } else { isa }, RowTotals::<T, C> { x, n, totals, how: std::marker::PhantomData });
}
pub(crate) fn push_row<T: ReducedElement, C: CombineRule>(isa: Isa, x: &[T], total: &mut Total<T>) {
    dispatch(if x.len() < 2 * LANES { Isa::Scalar } else { isa }, PushRow::<T, C>(x, total, std::marker::PhantomData));
}
