//! From f32 to 16 bits by chance, and to the two halves of an f32 and back. The former in floats, which a device computes in the loop of
//! the rule's formula; the latter in bits: floats of one sign are in the order of their bits.
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
/// The neighbour of a magnitude (f32, with a number of the dtype in it), away from 0 or toward it. By rounding: a bit more than half
/// the distance to it, and less than one and a half, is between 1/256 and 1/128 of a bf16 (1/2048 and 1/1024 of an f16).
fn neighbour(magnitude: &Tensor, away: &Tensor, dtype: DType) -> Tensor {
    let (part, least) = if dtype == DType::F16 { (1.01 / 2048.0, 0.75 * 2f64.powi(-24)) } else { (1.01 / 256.0, 0.75 * 2f64.powi(-133)) };
    let offset = (magnitude * part).maximum(least);
    (magnitude + away.where_(&offset, offset.neg())).cast(dtype).cast(DType::F32)
}
/// Rounded to the dtype by a number in [0, 1) of `draw`'s upper 23 bits (u32, of `x`'s shape or without axes): to the neighbour that is
/// not the nearest one if it is below the part of the way to that. The part has at most 16 bits, but in f16 below its normal numbers,
/// where it is rounded up to 23. Beyond the largest finite number, NaN and infinities as rounded to nearest, for then nothing is below.
#[track_caller]
pub(super) fn rounded_by(x: &Tensor, draw: &Tensor, dtype: DType) -> Tensor {
    // With 24 bits it would be a uniform number as dropout's, which the CPU draws in a loop of its own.
    let chance = draw.bitwise_right_shift(9u32).cast(DType::F32) * (1.0 / 8_388_608.0);
    let magnitude = x.abs();
    let near = magnitude.cast(dtype).cast(DType::F32);
    let lost = &magnitude - &near;
    let other = neighbour(&near, &lost.gt(0.0), dtype);
    let part = lost.abs() / (&other - &near).abs();
    chance.lt(&part).where_(other, near).copysign(x).cast(dtype)
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
    let flat = above.cast(DType::U8).reshape([n]);
    let flat = if n % 8 == 0 { flat } else { functional::pad(&flat, &[0, (bytes * 8 - n) as isize], functional::PadMode::default()) };
    // Eight columns side by side, where a sum along rows of eight would begin anew for each byte.
    let rows = flat.reshape([bytes, 8]);
    let column = |k: usize| rows.narrow(1, k, 1).bitwise_left_shift(k as i64);
    (1..8).fold(column(0), |byte, k| byte.bitwise_or(column(k))).reshape([bytes]).ok()
}
/// The masters of weights.
#[track_caller]
pub(super) fn joined(weight: &Tensor, low: &Tensor, ties: &Tensor) -> Result<Tensor> {
    let (shape, bytes) = (weight.shape()?, ties.shape()?.elements());
    let column = ties.reshape([bytes, 1]);
    let columns: Vec<Tensor> = (0..8).map(|k| column.bitwise_and(1i64 << k)).collect();
    let above = Tensor::cat(&columns, 1).reshape([bytes * 8]).narrow(0, 0, shape.elements()).reshape(shape).ne(0i64).cast(DType::I32);
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
