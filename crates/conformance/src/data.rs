//! Host arrays on their way to a device and back, and the values tests draw from.
use crate::random::Random;
use adamant_core::{
    DType, Device, Element, HostArray, Result, Shape, Tensor, bf16, f16,
    reference::{HostData, round_float, wrap_int},
};

/// What the elements of a drawn array are like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Spread {
    /// Multiples of 1/8 in [-2, 2]: sums are exact and ties frequent.
    Coarse,
    /// Uniform in a range.
    Within(f64, f64),
    /// Coarse, with NaN, infinities, signed zeros, subnormals and extremes among them.
    Special,
    /// Coarse without zero.
    NonZero,
    /// Whole numbers below a bound: indices.
    Below(usize),
    /// Whole numbers of which some are out of range.
    Wild(usize),
    /// Along the last axis numbers from 0 to this one that never fall: where segments begin, and the end.
    Cuts(usize),
}

/// The values at which functions differ between implementations.
pub fn specials(dtype: DType) -> Vec<f64> {
    if !dtype.is_float() {
        let (low, high) = dtype.int_range().unwrap_or((0, 1));
        return vec![low as f64, 0.0, 1.0, high as f64];
    }
    let (tiny, subnormal, huge) = match dtype {
        DType::F16 => (6.103515625e-5, 5.960464477539063e-8, 65504.0),
        DType::BF16 => (f32::MIN_POSITIVE as f64, 9.183549615799121e-41, 3.3895313892515355e38),
        DType::F64 => (f64::MIN_POSITIVE, 5e-324, f64::MAX),
        _ => (f32::MIN_POSITIVE as f64, 1.401298464324817e-45, f32::MAX as f64),
    };
    let half = [0.0, 1.0, 0.5, 1.5, 2.5, tiny, subnormal, huge, f64::INFINITY, std::f64::consts::PI, 100.0, 1e4];
    half.iter().flat_map(|&v| [v, -v]).chain([f64::NAN]).map(|v| round_float(v, dtype)).collect()
}

/// An array of drawn elements.
pub fn draw(shape: Shape, dtype: DType, spread: Spread, random: &mut Random) -> HostArray {
    let n = shape.elements();
    if dtype.is_float() {
        let special = specials(dtype);
        let coarse = |r: &mut Random| match spread {
            Spread::Within(low, high) => low + (high - low) * r.unit(),
            Spread::Special if r.one_in(4) => *r.pick(&special),
            Spread::NonZero => (r.between(1, 16) as f64 / 8.0) * if r.one_in(2) { 1.0 } else { -1.0 },
            Spread::Below(n) => r.below(n) as f64,
            _ => r.between(0, 32) as f64 / 8.0 - 2.0,
        };
        return HostArray::floats(shape, dtype, (0..n).map(|_| coarse(random)).collect::<Vec<_>>());
    }
    let signed = dtype.is_signed();
    let special = specials(dtype);
    let whole = |r: &mut Random| match spread {
        Spread::Below(n) => r.below(n) as i64,
        Spread::Cuts(n) => r.between(0, n) as i64,
        Spread::Wild(n) => r.below(n + 2) as i64 - signed as i64,
        Spread::NonZero => r.between(1, 5) as i64 * if signed && r.one_in(2) { -1 } else { 1 },
        Spread::Special if r.one_in(4) => {
            let v = *r.pick(&special);
            // i64::MAX is no f64.
            if dtype == DType::I64 && v > 1.0 { i64::MAX } else { v as i64 }
        }
        Spread::Within(low, high) => (low + (high - low) * r.unit()) as i64,
        _ if dtype == DType::Bool => r.below(2) as i64,
        _ => r.between(0, 8) as i64 - if signed { 4 } else { 0 },
    };
    let mut drawn = (0..n).map(|_| whole(random)).collect::<Vec<_>>();
    if let (Spread::Cuts(n), Some(&count)) = (spread, shape.last().filter(|&&count| count > 0)) {
        for line in drawn.chunks_mut(count) {
            line.sort_unstable();
            (line[0], line[count - 1]) = (0, n as i64);
        }
    }
    HostArray::ints(shape, dtype, drawn)
}

fn elements<T: Element>(a: &HostArray, device: Device) -> Tensor {
    let data: Vec<T> = match &a.data {
        HostData::Float(v) => v.iter().map(|&v| T::from_f64(v)).collect(),
        HostData::Int(v) => v.iter().map(|&v| T::from_i64(v)).collect(),
    };
    Tensor::from_vec_on(data, a.shape, device)
}
/// The array as a tensor on a device.
pub fn upload(a: &HostArray, device: Device) -> Tensor {
    match a.dtype {
        DType::Bool => elements::<bool>(a, device),
        DType::U8 => elements::<u8>(a, device),
        DType::I8 => elements::<i8>(a, device),
        DType::I16 => elements::<i16>(a, device),
        DType::U16 => elements::<u16>(a, device),
        DType::I32 => elements::<i32>(a, device),
        DType::U32 => elements::<u32>(a, device),
        DType::I64 => elements::<i64>(a, device),
        DType::U64 => elements::<u64>(a, device),
        DType::F16 => elements::<f16>(a, device),
        DType::BF16 => elements::<bf16>(a, device),
        DType::F32 => elements::<f32>(a, device),
        DType::F64 => elements::<f64>(a, device),
        DType::F8E4M3 | DType::F8E5M2 => elements::<f32>(&HostArray { dtype: DType::F32, ..a.clone() }, device).cast(a.dtype),
    }
}
/// A tensor's elements on the host.
///
/// # Errors
/// Whatever reading it returns.
pub fn download(t: &Tensor) -> Result<HostArray> {
    let meta = t.try_meta()?;
    Ok(HostArray::from_bytes(meta.shape, meta.dtype, &t.to_bytes()?))
}
/// The array with each element put through `f`, rounded or wrapped to its dtype.
pub fn map(a: &HostArray, f: impl Fn(f64) -> f64) -> HostArray {
    let data = match &a.data {
        HostData::Float(v) => HostData::Float(v.iter().map(|&v| round_float(f(v), a.dtype)).collect()),
        HostData::Int(v) => HostData::Int(v.iter().map(|&v| wrap_int(f(v as f64) as i64, a.dtype)).collect()),
    };
    HostArray { data, ..a.clone() }
}
/// Equal bits, element by element; one NaN is as good as another.
pub fn same_bits(a: &HostArray, b: &HostArray) -> bool {
    a.shape == b.shape
        && a.dtype == b.dtype
        && match (&a.data, &b.data) {
            (HostData::Float(x), HostData::Float(y)) => x.iter().zip(y).all(|(x, y)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan())),
            (HostData::Int(x), HostData::Int(y)) => x == y,
            _ => false,
        }
}
