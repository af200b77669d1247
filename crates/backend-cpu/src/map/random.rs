//! Philox bits for a run of elements, as integers or as numbers in [0, 1). The words of a block are used by four
//! neighbours, so dense runs compute each block once. Must not know tiles.
use crate::{
    isa::Isa,
    simd::{
        Arithmetic, Float, Halves, Integer, Simd, SimdKernel, dispatch,
        stream::{self, ReadAhead},
    },
};
use adamant_runtime::philox::element_bits;
use bytemuck::Pod;

/// `out[k]` = the bits of element `first + k * stride` under `key`.
pub(crate) fn fill(isa: Isa, key: [u32; 4], first: u64, stride: u64, out: &mut [i64]) {
    draw(isa, key, (first, stride), out, &[], &Traffic::default(), |bits, _| bits as i64);
}
/// The factor from 24 bits to a number in [0, 1).
pub(crate) const UNIT: f32 = 1.0 / 16_777_216.0;
/// How numbers go to memory.
#[derive(Default)]
pub(crate) struct Traffic<'a> {
    /// by non-temporal stores: [`stream::publish`] then comes before anybody else may read them
    pub past: bool,
    /// what is asked for meanwhile
    pub soon: &'a [ReadAhead<'a>],
}
/// What is made of 24 bits.
#[derive(Clone, Copy)]
pub(crate) enum DrawKind {
    /// they times [`UNIT`]
    Uniform,
    /// `yes` if they are fewer than `limit`, else `no`
    Either { limit: u32, yes: f32, no: f32 },
}
impl DrawKind {
    /// `yes` where a uniform number is below `limit`, else `no`.
    pub fn below(limit: f32, yes: f32, no: f32) -> DrawKind {
        // As many of the 2^24 numbers are below it; the scaling is exact, and a cast cuts off at 0, as for no number.
        DrawKind::Either { limit: (f64::from(limit) / f64::from(UNIT)).ceil() as u32, yes, no }
    }
    /// `out[k]` = what is made of the upper 24 bits of element `first + k * stride` under `key`, times `factors[k]`, if
    /// there are any; `run` is `(first, stride)`.
    pub fn fill(self, isa: Isa, key: [u32; 4], run: (u64, u64), out: &mut [f32], factors: &[f32], traffic: &Traffic<'_>) {
        match self {
            // As signed integers, which every set converts; 24 bits are exact in f32.
            DrawKind::Uniform => {
                let number = |bits: u32| (bits >> 8) as i32 as f32 * UNIT;
                match factors {
                    [] => draw(isa, key, run, out, &[], traffic, move |bits, _| number(bits)),
                    _ => draw(isa, key, run, out, factors, traffic, move |bits, x| number(bits) * x),
                }
            }
            DrawKind::Either { limit, yes, no } => {
                let (yes, no) = (yes.to_bits(), no.to_bits());
                match factors {
                    [] => draw(
                        isa,
                        key,
                        run,
                        out,
                        &[],
                        traffic,
                        #[inline(always)]
                        move |bits, _| either(bits, limit, yes, no),
                    ),
                    _ => draw(
                        isa,
                        key,
                        run,
                        out,
                        factors,
                        traffic,
                        #[inline(always)]
                        move |bits, x| either(bits, limit, yes, no) * x,
                    ),
                }
            }
        }
    }
}
/// The number of one of two bit patterns: what looks like a branch would be one, taken at random.
#[inline(always)]
fn either(bits: u32, limit: u32, yes: u32, no: u32) -> f32 {
    f32::from_bits(no ^ (no ^ yes) & u32::from(bits >> 8 < limit).wrapping_neg())
}

/// `out[k] = f(bits, x[k])`, or without an `x`.
fn draw<T: Pod>(isa: Isa, key: [u32; 4], run: (u64, u64), out: &mut [T], x: &[f32], traffic: &Traffic<'_>, f: impl Fn(u32, f32) -> T + Copy) {
    let (first, stride) = run;
    let each = |first: u64, out: &mut [T], x: &[f32]| {
        for (k, o) in out.iter_mut().enumerate() {
            *o = f(element_bits(key, first.wrapping_add((k as u64).wrapping_mul(stride))), x.get(k).copied().unwrap_or_default());
        }
    };
    if stride != 1 {
        return each(first, out, x);
    }
    let lead = ((4 - first % 4) % 4).min(out.len() as u64) as usize;
    let (head, rest) = out.split_at_mut(lead);
    let (x_head, x) = x.split_at(lead.min(x.len()));
    each(first, head, x_head);
    let (body, tail) = rest.split_at_mut(rest.len() / 4 * 4);
    let (x, x_tail) = x.split_at(body.len().min(x.len()));
    let next = first + lead as u64;
    each(next + body.len() as u64, tail, x_tail);
    dispatch(isa, RandomBlocks { key, first: next / 4, out: body, x, traffic, f });
}
/// What `f` makes of the words of neighbouring blocks, and of `x` where it is not empty.
struct RandomBlocks<'a, T, F> {
    key: [u32; 4],
    first: u64,
    out: &'a mut [T],
    x: &'a [f32],
    traffic: &'a Traffic<'a>,
    f: F,
}
/// Vectors whose chains of products overlap: what keeps the multiplier busy, in every set.
const TOGETHER: usize = 4;
/// As many lanes of 64 bits as a vector has at most.
const WIDEST: usize = 8;
/// As many numbers as those vectors give at most.
const NUMBERS: usize = 4 * TOGETHER * WIDEST;
impl<T: Pod, F: Fn(u32, f32) -> T + Copy> SimdKernel for RandomBlocks<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let lanes = <S::F64 as Float>::LANES;
        // As wide as a lane, so that they are spread from memory, which costs the unit that shuffles nothing.
        let mut keys = [[0i64; 2]; 10];
        for (round, keys) in (0u32..).zip(&mut keys) {
            let step = |key: u32, by: u32| key.wrapping_add(by.wrapping_mul(round)).into();
            *keys = [step(self.key[0], 0x9E37_79B9), step(self.key[1], 0xBB67_AE85)];
        }
        let mut words = [[0u64; 2]; TOGETHER * WIDEST];
        let words = &mut words[..TOGETHER * lanes];
        let (mut first, together, f) = (self.first, 4 * words.len(), self.f);
        let (nothing, mut line) = ([0.0; NUMBERS], [T::zeroed(); NUMBERS]);
        for (k, out) in self.out.chunks_mut(together).enumerate() {
            philox::<S>(&keys, [self.key[2], self.key[3]], first, words);
            first += words.len() as u64;
            let x = self.x.get(k * together..).filter(|x| !x.is_empty()).unwrap_or(&nothing);
            let made = if self.traffic.past { &mut line[..out.len()] } else { &mut *out };
            // Without references: a number that a write may change is read again for each element.
            for ((made, &word), &x) in made.iter_mut().zip(bytemuck::cast_slice::<_, u32>(words)).zip(x) {
                *made = f(u32::from_le(word), x);
            }
            if self.traffic.past {
                write_past::<S, T>(&line[..out.len()], out, x, self.traffic.soon);
                continue;
            }
            for ahead in self.traffic.soon {
                (0..size_of_val(out)).step_by(64).for_each(|_| ahead.fetch_line());
            }
        }
    }
}
/// Writes numbers by non-temporal stores, as many as fill vectors. For each of these, one line after another so that none waits for
/// the others, what lies behind `x` is asked for and what will be read `soon`.
#[inline(always)]
fn write_past<S: Simd, T: Pod>(made: &[T], out: &mut [T], x: &[f32], soon: &[ReadAhead<'_>]) {
    let (made, out): (&[f32], &mut [f32]) = (bytemuck::cast_slice(made), bytemuck::cast_slice_mut(out));
    let whole = made.len() / S::F32::LANES * S::F32::LANES;
    for k in (0..whole).step_by(S::F32::LANES) {
        stream::hint_ahead(x.as_ptr().wrapping_add(k));
        soon.iter().for_each(ReadAhead::fetch_line);
        S::F32::from_slice(&made[k..]).write_past(&mut out[k..]);
    }
    out[whole..].copy_from_slice(&made[whole..]);
}
const EVEN: u32 = 0xD251_1F53;
const ODD: u32 = 0xCD9E_8D57;
/// The words of blocks `first ..`, little-endian: [`adamant_runtime::philox::philox`] with a word of 32 bits in each lane of 64,
/// whose upper half is not cleaned: a product reads the lower one alone.
#[inline(always)]
fn philox<S: Simd>(keys: &[[i64; 2]; 10], stream: [u32; 2], first: u64, out: &mut [[u64; 2]]) {
    type Int<S> = <<S as Simd>::F64 as Arithmetic>::Int;
    let splat = |word: u32| Int::<S>::splat(word.into());
    let lanes = <S::F64 as Float>::LANES;
    // The block of a lane, so that pairs of lanes come out one block behind the other.
    let mut places = [0.0; WIDEST];
    for (k, place) in places.iter_mut().enumerate().take(lanes) {
        *place = f64::from_bits((k / 2 + k % 2 * (lanes / 2)) as u64);
    }
    let places = S::F64::from_slice(&places).to_bits();
    let block = |v: usize| Int::<S>::splat(first.wrapping_add((v * lanes) as u64) as i64).add(places);
    let upper = |block: u64| (block >> 32) as u32;
    let mut c = [[splat(0); 4]; TOGETHER];
    let mut rounds = &keys[..];
    if upper(first) == upper(first.wrapping_add((TOGETHER * lanes) as u64)) {
        // All blocks have the upper word in common, so half of the first two rounds is the same for all of them.
        let key = |round: usize, k: usize| keys[round][k] as u32;
        let product = |x: u32, y: u32| u64::from(x) * u64::from(y);
        let p1 = product(stream[0], ODD);
        let p0 = product(upper(p1) ^ upper(first) ^ key(0, 0), EVEN);
        for (v, c) in c.iter_mut().enumerate() {
            let q0 = block(v).mul_halves(splat(EVEN));
            let q1 = q0.upper().xor(splat(stream[1] ^ key(0, 1))).mul_halves(splat(ODD));
            *c = [q1.upper().xor(splat(p1 as u32 ^ key(1, 0))), q1, q0.xor(splat(upper(p0) ^ key(1, 1))), splat(p0 as u32)];
        }
        rounds = &keys[2..];
    } else {
        for (v, c) in c.iter_mut().enumerate() {
            *c = [block(v), block(v).upper(), splat(stream[0]), splat(stream[1])];
        }
    }
    for keys in rounds {
        let keys = [Int::<S>::splat(keys[0]), Int::<S>::splat(keys[1])];
        for c in &mut c {
            let (p0, p1) = (c[0].mul_halves(splat(EVEN)), c[2].mul_halves(splat(ODD)));
            *c = [p1.upper().xor(c[1]).xor(keys[0]), p1, p0.upper().xor(c[3]).xor(keys[1]), p0];
        }
    }
    let words: &mut [f64] = bytemuck::cast_slice_mut(&mut *out);
    for (v, c) in c.iter().enumerate() {
        for (half, pair) in c[0].join(c[1]).pairs(c[2].join(c[3])).into_iter().enumerate() {
            S::F64::from_bits(pair).write(&mut words[2 * v * lanes + half * lanes..]);
        }
    }
    out.iter_mut().flatten().for_each(|word| *word = word.to_le());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_the_bits_of_its_elements() {
        let key = [7, 9, 1, 3];
        for first in [0u64, 1, 2, 3, 4, 1000, (1 << 34) - 5, (1 << 34) - 600, (1 << 40) + 8] {
            for n in [0, 1, 3, 4, 5, 130, 1000] {
                for stride in [1, 3] {
                    let mut out = vec![0; n];
                    fill(Isa::detect(), key, first, stride, &mut out);
                    let want: Vec<i64> = (0..n as u64).map(|k| element_bits(key, first + k * stride) as i64).collect();
                    assert_eq!(out, want, "{first} {n} {stride}");
                    let mut numbers = vec![0.0; n];
                    let factors: Vec<f32> = (0..n).map(|k| k as f32 - 40.0).collect();
                    let times = |x: &[f32]| x.iter().zip(&factors).map(|(x, f)| x * f).collect::<Vec<f32>>();
                    let mut fill = |draw: DrawKind, factors: &[f32]| {
                        let (mut near, past) = (vec![0.0; n], Traffic { past: true, soon: &[] });
                        draw.fill(Isa::detect(), key, (first, stride), &mut near, factors, &Traffic::default());
                        draw.fill(Isa::detect(), key, (first, stride), &mut numbers, factors, &past);
                        stream::publish();
                        assert_eq!(near, numbers);
                        near
                    };
                    let want: Vec<f32> = want.iter().map(|bits| (bits >> 8) as f32 / 16_777_216.0).collect();
                    assert_eq!(fill(DrawKind::Uniform, &[]), want, "{first} {n} {stride}");
                    assert_eq!(fill(DrawKind::Uniform, &factors), times(&want), "{first} {n} {stride}");
                    // A limit that is one of the numbers, one between two of them, and what no number is below.
                    for limit in [0.0, 0.1, want.first().copied().unwrap_or(0.5), 0.5, 1.0, 2.0, -1.0, f32::NAN] {
                        let want: Vec<f32> = want.iter().map(|&u| if u < limit { 3.0 } else { 4.0 }).collect();
                        assert_eq!(fill(DrawKind::below(limit, 3.0, 4.0), &[]), want, "{first} {n} {stride} {limit}");
                        assert_eq!(fill(DrawKind::below(limit, 3.0, 4.0), &factors), times(&want), "{first} {n} {stride} {limit}");
                    }
                }
            }
        }
    }
}
