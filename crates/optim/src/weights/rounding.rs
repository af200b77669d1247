//! From f32 to 16 bits and back, by bits: floats of one sign are in the order of their bits, and so are their distances within a
//! binade.
use adamant_core::{Arg, DType, Op, Result, Tensor, bf16, f16, functional};

/// A master beyond its weight by as much is the upper one of the two ties.
pub(super) const TIE: i32 = 1 << 15;
/// The value of the lowest bit of a bf16's, in an f32's bits.
const UNIT: i64 = 1 << 16;

fn bits(x: &Tensor, dtype: DType) -> Tensor {
    Tensor::apply(Op::Bitcast(dtype), Arg::None, &[x])
}
/// The weights' bits where the masters' stand.
fn high(weight: &Tensor) -> Tensor {
    bits(weight, DType::I16).cast(DType::I32) * UNIT
}
/// Rounded to the dtype with 16 uniform bits or more at the upper end of `draw` (u32, of `x`'s shape or without axes): up if they are
/// below the distance to the lower neighbour. Beyond the largest finite number, NaN and infinities as rounded to nearest.
#[track_caller]
pub(super) fn rounded_by(x: &Tensor, draw: &Tensor, dtype: DType) -> Tensor {
    let (lost, largest) = if dtype == DType::F16 { (13u32, f16::MAX.to_f64()) } else { (16, bf16::MAX.to_f64()) };
    let magnitude = x.abs();
    // Added below the bits that stay, they carry as often as the bits there say.
    let carried = bits(x, DType::I32) + draw.bitwise_right_shift(32 - lost).cast(DType::I32);
    let mut rounded = bits(&carried.bitwise_and(-(1i64 << lost)), DType::F32);
    if dtype == DType::F16 {
        // f16's numbers below its normal ones lie as far apart as the least normal ones, f32's there do not.
        let scaled = &magnitude * 2f64.powi(24);
        let whole = scaled.floor();
        let chance = draw.bitwise_right_shift(8u32).cast(DType::F32) * 2f64.powi(-24);
        let stepped = (&whole + chance.lt(&(scaled - &whole)).cast(DType::F32)) * 2f64.powi(-24);
        rounded = magnitude.lt(f16::MIN_POSITIVE.to_f64()).where_(stepped.copysign(x), rounded);
    }
    magnitude.le(largest).where_(rounded, x).cast(dtype)
}
/// What the masters' bits are beyond the weights', i16, and where that is the upper tie, for which the lower one's number stands there.
/// NaN keeps nothing: it is one by its first half.
#[track_caller]
pub(super) fn low_bits(master: &Tensor, weight: &Tensor) -> (Tensor, Tensor) {
    let beyond = bits(master, DType::I32) - high(weight);
    let beyond = master.isnan().where_(0i64, beyond);
    let above = beyond.eq(i64::from(TIE));
    (above.where_(-i64::from(TIE), beyond).cast(DType::I16), above)
}
/// A bool tensor as bits: u8 `[⌈n / 8⌉]`, the first element at the lowest bit.
#[track_caller]
pub(super) fn ties(above: &Tensor) -> Result<Tensor> {
    let n = above.shape()?.elements();
    let bytes = n.div_ceil(8);
    let flat = above.cast(DType::I32).reshape([n]);
    let flat = if n % 8 == 0 { flat } else { functional::pad(&flat, &[0, (bytes * 8 - n) as isize], functional::PadMode::default()) };
    let rows = flat.reshape([bytes, 8]);
    rows.bitwise_left_shift(rows.iota_like(1, DType::I32)).sum(1).cast(DType::U8).ok()
}
/// The masters of weights.
#[track_caller]
pub(super) fn joined(weight: &Tensor, low: &Tensor, ties: &Tensor) -> Result<Tensor> {
    let (shape, bytes) = (weight.shape()?, ties.shape()?.elements());
    let spread = ties.cast(DType::I32).reshape([bytes, 1]).expand([bytes, 8]);
    let above = spread.bitwise_right_shift(spread.iota_like(1, DType::I32)).bitwise_and(1i64);
    let above = above.reshape([bytes * 8]).narrow(0, 0, shape.elements()).reshape(shape);
    // From the lower tie to the upper one is a unit.
    bits(&(high(weight) + low.cast(DType::I32) + above * UNIT), DType::F32).ok()
}
/// As [`low_bits`] of one master, by the host: from -2¹⁵ to 2¹⁵.
pub(super) fn beyond(master: f32) -> i32 {
    let high = u32::from(bf16::from_f32(master).to_bits()) << 16;
    if master.is_nan() { 0 } else { master.to_bits().wrapping_sub(high) as i32 }
}
/// Rounded to nearest even.
pub(super) fn nearest(x: f32, dtype: DType) -> f32 {
    match dtype {
        DType::F16 => f16::from_f32(x).to_f32(),
        DType::BF16 => bf16::from_f32(x).to_f32(),
        _ => x,
    }
}
