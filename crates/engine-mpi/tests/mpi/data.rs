//! What ranks bring, and what must come of it: computed from seeds, without the functions that are tested.
use adamant_ir::DType;
use half::{bf16, f16};

/// A number that looks random, of a seed.
pub fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
/// Bytes of a seed.
pub fn bytes(seed: u64, n: usize) -> Vec<u8> {
    (0..n).map(|i| mixed(seed ^ ((i as u64) << 20)) as u8).collect()
}
/// All dtypes that ranks reduce.
pub const DTYPES: [DType; 12] =
    [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64];
macro_rules! elements {
    ($dtype:expr, $with:ident) => {
        match $dtype {
            DType::F32 => $with!(f32, |x: u64| (x % 20_001) as f32 / 977.0 - 10.0, |a: f32, b: f32| a + b),
            DType::F64 => $with!(f64, |x: u64| (x % 20_001) as f64 / 977.0 - 10.0, |a: f64, b: f64| a + b),
            DType::BF16 => $with!(bf16, |x: u64| bf16::from_f32((x % 20_001) as f32 / 977.0), |a: bf16, b: bf16| bf16::from_f32(f32::from(a) + f32::from(b))),
            DType::F16 => $with!(f16, |x: u64| f16::from_f32((x % 20_001) as f32 / 977.0), |a: f16, b: f16| f16::from_f32(f32::from(a) + f32::from(b))),
            DType::I8 => $with!(i8, |x: u64| x as i8, i8::wrapping_add),
            DType::I16 => $with!(i16, |x: u64| x as i16, i16::wrapping_add),
            DType::I32 => $with!(i32, |x: u64| x as i32, i32::wrapping_add),
            DType::I64 => $with!(i64, |x: u64| x as i64, i64::wrapping_add),
            DType::U8 => $with!(u8, |x: u64| x as u8, u8::wrapping_add),
            DType::U16 => $with!(u16, |x: u64| x as u16, u16::wrapping_add),
            DType::U32 => $with!(u32, |x: u64| x as u32, u32::wrapping_add),
            DType::U64 => $with!(u64, |x: u64| x, u64::wrapping_add),
            other => panic!("{other} is not reduced"),
        }
    };
}
/// Elements of a dtype, of a seed.
pub fn elements(dtype: DType, seed: u64, n: usize) -> Vec<u8> {
    macro_rules! make {
        ($t:ty, $of:expr, $add:expr) => {{
            let of: fn(u64) -> $t = $of;
            (0..n).flat_map(|i| of(mixed(seed ^ ((i as u64) << 20))).to_ne_bytes()).collect()
        }};
    }
    elements!(dtype, make)
}
/// The sum of two, element by element.
pub fn added(dtype: DType, a: &[u8], b: &[u8]) -> Vec<u8> {
    macro_rules! add {
        ($t:ty, $of:expr, $add:expr) => {{
            let add: fn($t, $t) -> $t = $add;
            let read = |bytes: &[u8]| <$t>::from_ne_bytes(bytes.try_into().unwrap());
            let size = size_of::<$t>();
            a.chunks(size).zip(b.chunks(size)).flat_map(|(a, b)| add(read(a), read(b)).to_ne_bytes()).collect()
        }};
    }
    elements!(dtype, add)
}
/// The sum of the parts from `from` to `to` along the tree in which a node covers a power of two of them: the left
/// half's sum plus the right half's, where the left half is the largest power of two that leaves something over.
pub fn tree_sum(dtype: DType, part: &dyn Fn(usize) -> Vec<u8>, from: usize, to: usize) -> Vec<u8> {
    if to - from == 1 {
        return part(from);
    }
    let mut half = 1;
    while half * 2 < to - from {
        half *= 2;
    }
    added(dtype, &tree_sum(dtype, part, from, from + half), &tree_sum(dtype, part, from + half, to))
}
/// The numbers of bytes, as far as they are floats.
pub fn floats(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        DType::F32 => bytes.chunks(4).map(|b| f64::from(f32::from_ne_bytes(b.try_into().unwrap()))).collect(),
        DType::F64 => bytes.chunks(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap())).collect(),
        _ => Vec::new(),
    }
}
