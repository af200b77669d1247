//! Functions of two f32 that are computed in f64, a stretch at a time: there they have digits to spare. What a formula does not
//! cover is computed by its exact meaning, one by one.
use super::loops::{Src, spread, zip};
use crate::{
    isa::Isa,
    math::{MathFn, unary_f64},
    simd::{Arithmetic, Float, Mask, Simd, SimdKernel, dispatch, twice::Twice},
};

/// Elements done at a time.
const PIECE: usize = 256;

/// `len` of the elements from `from` on.
fn stretch<T: Copy>(of: Src<'_, T>, from: usize, len: usize) -> Src<'_, T> {
    match of {
        Src::Slice(all) => Src::Slice(&all[from..][..len]),
        splat => splat,
    }
}
fn at(of: Src<'_, f32>, k: usize) -> f32 {
    match of {
        Src::Slice(all) => all[k],
        Src::Splat(v) => v,
    }
}
/// Calls `f` with stretches of both operands, each a number for each element.
pub(super) fn by_stretches<T: Copy + Default>(x: Src<'_, T>, y: Src<'_, T>, out: &mut [T], f: impl Fn(&[T], &[T], &mut [T])) {
    let mut buffers = [[T::default(); PIECE]; 2];
    for (k, out) in out.chunks_mut(PIECE).enumerate() {
        let [first, second] = &mut buffers;
        let n = out.len();
        f(spread(stretch(x, k * PIECE, n), &mut first[..n]), spread(stretch(y, k * PIECE, n), &mut second[..n]), out);
    }
}

/// `x^y` as `2^(y log2 x)`; what has no logarithm is computed by itself.
pub(super) fn pow(isa: Isa, x: Src<'_, f32>, y: Src<'_, f32>, out: &mut [f32]) {
    let (mut base, mut log) = ([0.0f64; PIECE], [0.0f64; PIECE]);
    for (k, out) in out.chunks_mut(PIECE).enumerate() {
        let (x, y) = (stretch(x, k * PIECE, out.len()), stretch(y, k * PIECE, out.len()));
        let (base, log) = (&mut base[..out.len()], &mut log[..out.len()]);
        zip(x, x, base, |x, _| x as f64);
        unary_f64(isa, MathFn::Log2, base, log);
        match y {
            Src::Slice(y) => log.iter_mut().zip(y).for_each(|(log, &y)| *log *= y as f64),
            Src::Splat(y) => log.iter_mut().for_each(|log| *log *= y as f64),
        }
        unary_f64(isa, MathFn::Exp2, log, base);
        for (j, (out, power)) in out.iter_mut().zip(base.iter()).enumerate() {
            let argument = at(x, j);
            *out = if argument > 0.0 && !power.is_nan() { *power } else { (argument as f64).powf(at(y, j) as f64) } as f32;
        }
    }
}

/// `ln(e^x + e^y)` as the larger one and what the smaller one adds.
pub(super) fn log_add_exp(isa: Isa, x: Src<'_, f32>, y: Src<'_, f32>, out: &mut [f32]) {
    let (mut apart, mut added) = ([0.0f64; PIECE], [0.0f64; PIECE]);
    for (k, out) in out.chunks_mut(PIECE).enumerate() {
        let (x, y) = (stretch(x, k * PIECE, out.len()), stretch(y, k * PIECE, out.len()));
        let (apart, added) = (&mut apart[..out.len()], &mut added[..out.len()]);
        // Equal infinities are not apart.
        zip(x, y, apart, |x, y| if x == y { 0.0 } else { -(x as f64 - y as f64).abs() });
        unary_f64(isa, MathFn::Exp, apart, added);
        unary_f64(isa, MathFn::Log1p, added, apart);
        zip(x, y, out, |x, y| if x > y { x } else { y });
        for (out, apart) in out.iter_mut().zip(apart.iter()) {
            *out = (*out as f64 + apart) as f32;
        }
    }
}

/// A function of what a division leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemainderFn {
    /// with the sign of x
    Fmod,
    /// with the sign of y
    Remainder,
    /// the quotient, down to a whole number
    FloorDivide,
}
/// The quotient of two f32 up to here, times the divisor, is a number of f64, and so is what it leaves.
const QUOTIENT: f64 = 536_870_912.0;

/// Is what x leaves exact?
#[inline(always)]
fn is_exact(x: f64, y: f64) -> bool {
    // A divisor of infinity gives a quotient of 0.
    ((x / y).abs() < QUOTIENT) & (y.abs() < f64::INFINITY)
}
#[inline(always)]
fn left<V: Arithmetic>(x: V, y: V) -> V {
    let (a, b) = (x.abs(), y.abs());
    let left = a.sub(a.div(b).trunc().mul(b));
    // A quotient just below a whole number may have been rounded up to it.
    V::select(left.lt(V::constant(0.0)), left.add(b), left).copysign(x)
}
#[inline(always)]
fn with_left<V: Arithmetic>(f: RemainderFn, x: V, y: V) -> V {
    let (left, zero, one) = (left(x, y), V::constant(0.0), V::constant(1.0));
    let (below, divisor_below) = (left.lt(zero), y.lt(zero));
    let is_across = below.and(divisor_below.not()).or(zero.lt(left).and(divisor_below));
    match f {
        RemainderFn::Fmod => left,
        RemainderFn::Remainder => V::select(is_across, left.add(y), left),
        RemainderFn::FloorDivide => {
            let quotient = x.sub(left).div(y).sub(V::select(is_across, one, zero));
            let down = quotient.floor();
            let whole = V::select(V::constant(0.5).lt(quotient.sub(down)), down.add(one), down);
            V::select(quotient.eq(zero), zero.copysign(x.div(y)), whole)
        }
    }
}
/// x and y, in whose place the result comes.
struct RemainderLoop<'a>(RemainderFn, &'a mut [f64], &'a [f64]);
impl SimdKernel for RemainderLoop<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let RemainderLoop(f, x, y) = self;
        match f {
            RemainderFn::Fmod => remainders::<S::F64>(RemainderFn::Fmod, x, y),
            RemainderFn::Remainder => remainders::<S::F64>(RemainderFn::Remainder, x, y),
            RemainderFn::FloorDivide => remainders::<S::F64>(RemainderFn::FloorDivide, x, y),
        }
    }
}
#[inline(always)]
fn remainders<V: Float<Elem = f64>>(f: RemainderFn, x: &mut [f64], y: &[f64]) {
    let lanes = Twice::<V>::LANES;
    for (x, y) in x.chunks_mut(lanes).zip(y.chunks(lanes)) {
        if x.len() == lanes {
            with_left(f, Twice::<V>::from_slice(x), Twice::from_slice(y)).write(x);
        } else {
            with_left(f, Twice::<V>::from_partial(x), Twice::from_partial(y)).write_partial(x);
        }
    }
}
/// `out = f(x, y)`, where `exact` is its meaning.
pub(super) fn remainder(isa: Isa, f: RemainderFn, exact: fn(f64, f64) -> f64, x: Src<'_, f32>, y: Src<'_, f32>, out: &mut [f32]) {
    let mut buffers = [[0.0f64; PIECE]; 2];
    for (k, out) in out.chunks_mut(PIECE).enumerate() {
        let (x, y) = (stretch(x, k * PIECE, out.len()), stretch(y, k * PIECE, out.len()));
        let [wide_x, wide_y] = buffers.each_mut().map(|b| &mut b[..out.len()]);
        zip(x, x, wide_x, |x, _| x as f64);
        zip(y, y, wide_y, |y, _| y as f64);
        let all = wide_x.iter().zip(&*wide_y).fold(true, |all, (&x, &y)| all & is_exact(x, y));
        dispatch(isa, RemainderLoop(f, wide_x, wide_y));
        for (j, (out, wide)) in out.iter_mut().zip(&*wide_x).enumerate() {
            *out = *wide as f32;
            if !all {
                let (x, y) = (at(x, j) as f64, at(y, j) as f64);
                if !is_exact(x, y) {
                    *out = exact(x, y) as f32;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Magnitudes of all kinds, whole numbers, multiples of each other.
    fn numbers() -> Vec<f32> {
        let mut state = 7u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        let mut all: Vec<f32> = (0..4000).map(|_| f32::from_bits(next())).collect();
        all.extend((0..4000).map(|_| (next() % 2001) as f32 - 1000.0));
        all.extend((0..4000).map(|_| ((next() % 2001) as f32 - 1000.0) * 0.1));
        all.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, f32::MAX, 1e-45]);
        all
    }
    #[test]
    fn remainders_have_the_bits_of_their_meaning() {
        use adamant_runtime::scalar::Binary;
        let x = numbers();
        let kinds = [(RemainderFn::Fmod, Binary::Fmod), (RemainderFn::Remainder, Binary::Remainder), (RemainderFn::FloorDivide, Binary::FloorDivide)];
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for (f, row) in kinds {
                let exact = row.row().exact;
                for shift in [1, 17, 4001, 8003] {
                    let y: Vec<f32> = x.iter().cycle().skip(shift).take(x.len()).copied().collect();
                    let mut out = vec![0.0; x.len()];
                    remainder(isa, f, exact, Src::Slice(&x), Src::Slice(&y), &mut out);
                    for k in 0..x.len() {
                        let want = exact(x[k] as f64, y[k] as f64) as f32;
                        assert!(out[k].to_bits() == want.to_bits() || out[k].is_nan() && want.is_nan(), "{f:?}({}, {}) = {}, not {want}", x[k], y[k], out[k]);
                    }
                }
            }
        }
    }
    #[test]
    fn sums_of_powers_are_near_their_meaning() {
        let exact = adamant_runtime::scalar::Binary::Logaddexp.row().exact;
        let x: Vec<f32> = numbers().into_iter().map(|x| if x.abs() > 1e6 { x } else { x * 0.01 }).collect();
        for shift in [0, 1, 17, 4001] {
            let y: Vec<f32> = x.iter().cycle().skip(shift).take(x.len()).copied().collect();
            let mut out = vec![0.0; x.len()];
            log_add_exp(Isa::detect(), Src::Slice(&x), Src::Slice(&y), &mut out);
            for k in 0..x.len() {
                let want = exact(x[k] as f64, y[k] as f64) as f32;
                let is_near = out[k] == want || (out[k] - want).abs() <= 2e-7 * want.abs() || out[k].is_nan() && want.is_nan();
                assert!(is_near, "({}, {}) = {}, not {want}", x[k], y[k], out[k]);
            }
        }
    }
}
