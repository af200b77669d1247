//! A few vectors times a matrix of which each row lies in words of 32 bits, several numbers to a word: codes of 8, 4 or 3 bits, or bf16.
//!
//! A word of each of many rows stands in a lane ([`WordRows::stage`]); numbers are made of it there, so a lane is a sum, in the order of
//! k, and nothing is packed that memory would have to take. What is staged at a time stays in the L1 cache.
//! Must not know what numbers stand for, or how sums of regions are added.
use super::micro::{CHUNK, prefetch};
use crate::{
    isa::Isa,
    simd::{Arithmetic, Float, Integer, Simd, SimdKernel, dispatch},
};

/// Columns that are staged at a time.
pub(crate) const REGION: usize = CHUNK;
/// Words of a lane that a region takes at most.
const MOST_WORDS: usize = REGION / 2;
/// Vectors of rows that are staged side by side for one vector of x, whose chains are short of company, and for more.
const SIDE_BY_SIDE: [usize; 2] = [4, 2];
/// Added to a code as bits, it makes a number; taken away, it leaves the code.
pub(crate) const CODE_BASE: f32 = 8_388_608.0;

/// What a word holds, after it is staged.
pub(crate) trait WordNumbers {
    /// numbers of a word
    const PER: usize;
    /// Number `index` of each lane: of codes, [`CODE_BASE`] more than the code.
    fn number<V: Float<Elem = f32, Int: Integer<Elem = i32>>>(word: V::Int, index: usize) -> V;
}
/// Codes of so many bits.
pub(crate) struct UnsignedCodes<const BITS: u32>;
impl<const BITS: u32> WordNumbers for UnsignedCodes<BITS> {
    const PER: usize = if BITS == 8 { 4 } else { 8 };
    #[inline(always)]
    fn number<V: Float<Elem = f32, Int: Integer<Elem = i32>>>(word: V::Int, index: usize) -> V {
        let code = word.shr(BITS * index as u32).and(V::Int::constant((1 << BITS) - 1));
        V::from_bits(code.or(V::Int::constant(i64::from(CODE_BASE.to_bits()))))
    }
}
/// Signed codes of 8 bits, 128 more than they are.
pub(crate) struct SignedCodes;
impl WordNumbers for SignedCodes {
    const PER: usize = 4;
    #[inline(always)]
    fn number<V: Float<Elem = f32, Int: Integer<Elem = i32>>>(word: V::Int, index: usize) -> V {
        UnsignedCodes::<8>::number(word.xor(V::Int::constant(i64::from(i32::from_ne_bytes([0x80; 4])))), index)
    }
}
/// Two bf16.
pub(crate) struct Bf16Pairs;
impl WordNumbers for Bf16Pairs {
    const PER: usize = 2;
    #[inline(always)]
    fn number<V: Float<Elem = f32, Int: Integer<Elem = i32>>>(word: V::Int, index: usize) -> V {
        V::from_bits(if index == 0 { word.shl(16) } else { word.and(V::Int::constant(-65536)) })
    }
}
/// Two f16.
pub(crate) struct F16Pairs;
impl WordNumbers for F16Pairs {
    const PER: usize = 2;
    #[inline(always)]
    fn number<V: Float<Elem = f32, Int: Integer<Elem = i32>>>(word: V::Int, index: usize) -> V {
        /// What its exponent is too small by, once its bits are where those of f32 are.
        const SCALE: f64 = (1u128 << 112) as f64;
        let half = if index == 0 { word.shl(16) } else { word };
        let (sign, size) = (half.and(V::Int::constant(i64::from(i32::MIN))), half.shr(16).and(V::Int::constant(0x7fff)));
        // Exact, also of subnormals; infinity and NaN keep what lies behind their exponent.
        let number = V::from_bits(size.shl(13)).mul(V::constant(SCALE)).to_bits();
        let endless = number.or(V::Int::constant(0x7f80_0000));
        let is_endless = size.gt(V::Int::constant(0x7bff));
        V::from_bits(V::select(is_endless, V::from_bits(endless), V::from_bits(number)).to_bits().or(sign))
    }
}

/// Rows of a matrix: `length` bytes each, one `stride` bytes behind the other.
#[derive(Clone, Copy)]
pub(crate) struct WordRows<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) stride: usize,
    pub(crate) length: usize,
    pub(crate) rows: usize,
    /// of a number
    pub(crate) bits: usize,
}
impl WordRows<'_> {
    /// Rows that are staged side by side for so many vectors of x.
    pub(crate) fn width(isa: Isa, vectors: usize) -> usize {
        side_by_side(vectors) * lanes(isa)
    }
    /// How many floats [`WordRows::stage`] writes at most.
    pub(crate) fn space(width: usize) -> usize {
        2 * MOST_WORDS * width
    }
    /// Words of `columns` columns, no more than [`REGION`], from `column` on, which begins a byte: word `w` of row `row + r` at
    /// `w · width + r`. Rows that are not there are zeros; what lies behind the columns is of any content. Of 3 bits, a word has 8 codes.
    pub(crate) fn stage<'s>(&self, isa: Isa, row: usize, column: usize, columns: usize, width: usize, space: &'s mut [f32]) -> &'s [f32] {
        let (words, spread) = space.split_at_mut(MOST_WORDS * width);
        dispatch(isa, StageWords { of: self, row, column, columns, width, words });
        if self.bits != 3 {
            return words;
        }
        dispatch(isa, SpreadThrees { words, width, columns, spread });
        spread
    }
}
fn side_by_side(vectors: usize) -> usize {
    SIDE_BY_SIDE[usize::from(vectors > 1)]
}
fn lanes(isa: Isa) -> usize {
    struct LaneCount;
    impl SimdKernel for LaneCount {
        type Output = usize;
        #[inline(always)]
        fn run<S: Simd>(self) -> usize {
            S::F32::LANES
        }
    }
    dispatch(isa, LaneCount)
}

struct StageWords<'a> {
    of: &'a WordRows<'a>,
    row: usize,
    column: usize,
    columns: usize,
    width: usize,
    words: &'a mut [f32],
}
impl SimdKernel for StageWords<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let StageWords { of: &WordRows { bytes, stride, length, rows, bits }, row, column, columns, width, words } = self;
        let (lanes, first, count) = (S::F32::LANES, column * bits / 8, (columns * bits).div_ceil(32));
        let more = 4 * count + first < length;
        for r in 0..width.min(rows.saturating_sub(row)) {
            // The next region, or the beginning of the rows to come.
            let next = if more { (row + r) * stride + first + 4 * count } else { (row + width + r) * stride };
            for line in 0..count.div_ceil(16) {
                prefetch(bytes.as_ptr().wrapping_add(next + 64 * line));
            }
        }
        for (v, at) in (row..row + width).step_by(lanes).enumerate() {
            let have = rows.saturating_sub(at).min(lanes);
            for w in (0..count).step_by(lanes) {
                let from = at * stride + first + 4 * w;
                let near = if have == lanes && stride.is_multiple_of(4) { bytes.get(from..) } else { None };
                let near: Option<&[f32]> = near.and_then(|b| bytemuck::try_cast_slice(&b[..b.len() / 4 * 4]).ok());
                let to = &mut words[w * width + v * lanes..];
                let near = near.filter(|near| (lanes - 1) * (stride / 4) + lanes <= near.len());
                if let (Some(near), true) = (near, count - w >= lanes) {
                    S::F32::transpose_block(near, stride / 4, to, width);
                    continue;
                }
                let mut square = [0f32; 16 * 16];
                let block = if let Some(near) = near {
                    S::F32::transposed(near, stride / 4)
                } else {
                    for (line, r) in square.chunks_exact_mut(lanes).zip(at..at + have) {
                        let of_row = bytes.get(r * stride + first + 4 * w..r * stride + length).unwrap_or_default();
                        for (word, bytes) in line.iter_mut().zip(of_row.chunks(4)) {
                            let mut four = [0; 4];
                            four[..bytes.len()].copy_from_slice(bytes);
                            *word = f32::from_bits(u32::from_ne_bytes(four));
                        }
                    }
                    S::F32::transposed(&square, lanes)
                };
                for (i, vector) in block.iter().enumerate().take(lanes.min(count - w)) {
                    vector.write(&mut to[i * width..]);
                }
            }
        }
    }
}
/// Makes words of 8 codes of three words of 32 bits.
struct SpreadThrees<'a> {
    words: &'a [f32],
    width: usize,
    columns: usize,
    spread: &'a mut [f32],
}
impl SimdKernel for SpreadThrees<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let SpreadThrees { words, width, columns, spread } = self;
        let three = words.chunks_exact(3 * width).zip(spread.chunks_exact_mut(4 * width)).take(columns.div_ceil(32));
        for (words, spread) in three {
            for at in (0..width).step_by(S::F32::LANES) {
                let word = |k: usize| S::F32::from_slice(&words[k * width + at..]).to_bits();
                let (a, b, c) = (word(0), word(1), word(2));
                let four = [a, a.shr(24).or(b.shl(8)), b.shr(16).or(c.shl(16)), c.shr(8)];
                for (k, bits) in four.into_iter().enumerate() {
                    S::F32::from_bits(bits).write(&mut spread[k * width + at..]);
                }
            }
        }
    }
}

/// Rows of x: `count` of them, one `stride` behind the other.
#[derive(Clone, Copy)]
pub(crate) struct FewVectors<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) stride: usize,
    pub(crate) count: usize,
}
/// What codes count from, as numbers with [`CODE_BASE`].
#[derive(Clone, Copy)]
pub(crate) enum Origins<'a> {
    Same(f32),
    /// of each group and row: `[groups, width]`
    Each(&'a [f32]),
}
impl Origins<'_> {
    #[inline(always)]
    fn vectors<V: Float<Elem = f32>, const G: usize>(&self, at: usize) -> [V; G] {
        let mut vectors = [V::splat(0.0); G];
        for (g, vector) in vectors.iter_mut().enumerate() {
            *vector = match self {
                Origins::Same(origin) => V::splat(*origin),
                Origins::Each(origins) => V::from_slice(&origins[at + g * V::LANES..]),
            };
        }
        vectors
    }
}
/// Groups of columns, each with scales of its own: `[groups, width]`.
#[derive(Clone, Copy)]
pub(crate) struct ScaledGroups<'a> {
    pub(crate) size: usize,
    pub(crate) scales: &'a [f32],
    pub(crate) origins: Origins<'a>,
}
/// What is made of a region.
#[derive(Clone, Copy)]
pub(crate) enum RegionSum<'a> {
    /// Sums of products with `(code - origin) · scale`, or with the numbers as they are, over all of it.
    Numbers(Option<ScaledGroups<'a>>),
    /// Sums of products with `code - origin`, over pieces of so many columns: `[pieces, vectors, width]`.
    Pieces(usize, Origins<'a>),
}
/// Sums of `columns` columns from `column` on with staged words, in the order of k and by fma from zero, into `[vectors, width]`.
#[allow(clippy::too_many_arguments)]
pub(crate) fn multiply<N: WordNumbers>(
    isa: Isa,
    words: &[f32],
    width: usize,
    x: FewVectors<'_>,
    column: usize,
    columns: usize,
    region: RegionSum<'_>,
    sums: &mut [f32],
) {
    let mut first = 0;
    while first < x.count {
        let left = x.count - first;
        let of = RegionSums::<N> { words, width, x, first, column, columns, region, sums: &mut *sums, numbers: std::marker::PhantomData };
        first += match (x.count, left) {
            (1, _) => dispatch(isa, Together::<N, 1, 4>(of)),
            (_, 1) => dispatch(isa, Together::<N, 1, 2>(of)),
            (_, 2 | 3) => dispatch(isa, Together::<N, 2, 2>(of)),
            _ => dispatch(isa, Together::<N, 4, 2>(of)),
        };
    }
}
struct RegionSums<'a, N> {
    words: &'a [f32],
    width: usize,
    x: FewVectors<'a>,
    first: usize,
    column: usize,
    columns: usize,
    region: RegionSum<'a>,
    sums: &'a mut [f32],
    numbers: std::marker::PhantomData<N>,
}
/// `M` vectors of x with `G` vectors of rows; how many vectors of x were taken.
struct Together<'a, N, const M: usize, const G: usize>(RegionSums<'a, N>);
// No vector goes through a closure or a function of the standard library that takes one: what the compiler does not inline has not the
// instructions of the set.
impl<N: WordNumbers, const M: usize, const G: usize> SimdKernel for Together<'_, N, M, G> {
    type Output = usize;
    #[inline(always)]
    fn run<S: Simd>(self) -> usize {
        let RegionSums { words, width, x, first, column, columns, region, sums, .. } = self.0;
        let lanes = S::F32::LANES;
        assert!(width == G * lanes);
        let mut rows = [&x.data[..0]; M];
        for (r, row) in rows.iter_mut().enumerate() {
            *row = &x.data[(first + r) * x.stride + column..][..columns];
        }
        let zero = [[S::F32::splat(0.0); G]; M];
        match region {
            RegionSum::Numbers(None) => {
                let totals = stretch::<S::F32, N, AsTheyAre, M, G>(words, &rows, 0, columns, zero, &AsTheyAre);
                write(&totals, &mut sums[first * width..]);
            }
            RegionSum::Numbers(Some(ScaledGroups { size, scales, origins })) => {
                let (mut totals, mut at) = (zero, 0);
                while at < columns {
                    let group = (column + at) / size;
                    let end = columns.min((group + 1) * size - column);
                    let mut scale = [S::F32::splat(0.0); G];
                    for (g, scale) in scale.iter_mut().enumerate() {
                        *scale = S::F32::from_slice(&scales[group * width + g * lanes..]);
                    }
                    let made = Scaled::<_, G> { origin: origins.vectors(group * width), scale };
                    totals = stretch::<S::F32, N, _, M, G>(words, &rows, at, end, totals, &made);
                    at = end;
                }
                write(&totals, &mut sums[first * width..]);
            }
            RegionSum::Pieces(piece, origins) => {
                let vectors = sums.len() / width / columns.div_ceil(piece);
                for (p, sums) in sums.chunks_exact_mut(vectors * width).enumerate() {
                    let made = FromOrigin::<_, G> { origin: origins.vectors(p * width) };
                    let totals = stretch::<S::F32, N, _, M, G>(words, &rows, p * piece, columns.min((p + 1) * piece), zero, &made);
                    write(&totals, &mut sums[first * width..]);
                }
            }
        }
        M
    }
}
#[inline(always)]
fn write<V: Float<Elem = f32>, const M: usize, const G: usize>(of: &[[V; G]; M], to: &mut [f32]) {
    for (of, to) in of.iter().zip(to.chunks_exact_mut(G * V::LANES)) {
        for (g, v) in of.iter().enumerate() {
            v.write(&mut to[g * V::LANES..]);
        }
    }
}
/// What is multiplied, of a number as it was staged.
trait MadeNumber<V> {
    fn made(&self, number: V, g: usize) -> V;
}
struct AsTheyAre;
impl<V> MadeNumber<V> for AsTheyAre {
    #[inline(always)]
    fn made(&self, number: V, _: usize) -> V {
        number
    }
}
struct FromOrigin<V, const G: usize> {
    origin: [V; G],
}
impl<V: Arithmetic, const G: usize> MadeNumber<V> for FromOrigin<V, G> {
    #[inline(always)]
    fn made(&self, number: V, g: usize) -> V {
        number.sub(self.origin[g])
    }
}
struct Scaled<V, const G: usize> {
    origin: [V; G],
    scale: [V; G],
}
impl<V: Arithmetic, const G: usize> MadeNumber<V> for Scaled<V, G> {
    #[inline(always)]
    fn made(&self, number: V, g: usize) -> V {
        number.sub(self.origin[g]).mul(self.scale[g])
    }
}
/// Adds the products of columns from `first`, which begins a word, to `end`.
#[inline(always)]
fn stretch<V: Float<Elem = f32, Int: Integer<Elem = i32>>, N: WordNumbers, F: MadeNumber<V>, const M: usize, const G: usize>(
    words: &[f32],
    x: &[&[f32]; M],
    first: usize,
    end: usize,
    mut sums: [[V; G]; M],
    made: &F,
) -> [[V; G]; M] {
    let row = G * V::LANES;
    let (line, whole) = (first / N::PER, (end - first) / N::PER);
    for (w, line) in words[line * row..][..whole * row].chunks_exact(row).enumerate() {
        let mut factors = [&x[0][..0]; M];
        for (factors, x) in factors.iter_mut().zip(x) {
            *factors = &x[first + w * N::PER..][..N::PER];
        }
        for index in 0..N::PER {
            add_number::<V, N, F, M, G>(line, &factors, index, made, &mut sums);
        }
    }
    let rest = first + whole * N::PER;
    if rest < end {
        let mut factors = [&x[0][..0]; M];
        for (factors, x) in factors.iter_mut().zip(x) {
            *factors = &x[rest..end];
        }
        for index in 0..end - rest {
            add_number::<V, N, F, M, G>(&words[(line + whole) * row..], &factors, index, made, &mut sums);
        }
    }
    sums
}
#[inline(always)]
fn add_number<V: Float<Elem = f32, Int: Integer<Elem = i32>>, N: WordNumbers, F: MadeNumber<V>, const M: usize, const G: usize>(
    line: &[f32],
    factors: &[&[f32]; M],
    index: usize,
    made: &F,
    sums: &mut [[V; G]; M],
) {
    for g in 0..G {
        let number = made.made(N::number(V::from_slice(&line[g * V::LANES..]).to_bits(), index), g);
        for (sums, factors) in sums.iter_mut().zip(factors) {
            sums[g] = V::splat(factors[index]).mul_add(number, sums[g]);
        }
    }
}
