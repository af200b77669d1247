//! Elements from bytes: read into vectors of their own type, so that a file's data is in memory once.
use adamant_core::{Arg, DType, Device, Element, HostVec, Op, Shape, Tensor};
use bytemuck::Pod;
use std::io::Read;

/// Where the number of bytes is only claimed, memory is taken in pieces as they arrive, from this on doubling.
#[cfg(feature = "npz")]
const PIECE: usize = 64 << 10;

/// How far the number of elements can be trusted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The bytes are there: checked against the file's length.
    Checked,
    /// A header says so.
    #[cfg(feature = "npz")]
    Claimed,
}

/// Reads `count` elements, row-major, in the machine's byte order or the other one. fp8 comes as its bytes.
pub(crate) fn read(source: &mut dyn Read, dtype: DType, count: usize, swapped: bool, trust: Trust) -> Result<HostVec, String> {
    let mut read = match dtype {
        DType::Bool => return bools(typed::<u8>(source, count, trust)?).map(HostVec::Bool),
        DType::U8 | DType::F8E4M3 | DType::F8E5M2 => HostVec::U8(typed(source, count, trust)?),
        DType::I8 => HostVec::I8(typed(source, count, trust)?),
        DType::I16 => HostVec::I16(typed(source, count, trust)?),
        DType::U16 => HostVec::U16(typed(source, count, trust)?),
        DType::I32 => HostVec::I32(typed(source, count, trust)?),
        DType::U32 => HostVec::U32(typed(source, count, trust)?),
        DType::I64 => HostVec::I64(typed(source, count, trust)?),
        DType::U64 => HostVec::U64(typed(source, count, trust)?),
        DType::F16 => HostVec::F16(typed(source, count, trust)?),
        DType::BF16 => HostVec::BF16(typed(source, count, trust)?),
        DType::F32 => HostVec::F32(typed(source, count, trust)?),
        DType::F64 => HostVec::F64(typed(source, count, trust)?),
    };
    if swapped {
        read.bytes_mut().chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    }
    Ok(read)
}
fn typed<T: Element + Pod>(source: &mut dyn Read, count: usize, trust: Trust) -> Result<Vec<T>, String> {
    let mut values: Vec<T> = Vec::new();
    while values.len() < count {
        let start = values.len();
        let end = match trust {
            Trust::Checked => count,
            #[cfg(feature = "npz")]
            Trust::Claimed => count.min(start + start.max(PIECE / size_of::<T>())),
        };
        values.try_reserve_exact(end - start).map_err(|e| e.to_string())?;
        values.resize(end, T::zeroed());
        source.read_exact(bytemuck::cast_slice_mut(&mut values[start..])).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => format!("its data ends before {count} elements"),
            _ => e.to_string(),
        })?;
    }
    Ok(values)
}
fn bools(bytes: Vec<u8>) -> Result<Vec<bool>, String> {
    match bytes.iter().position(|b| *b > 1) {
        Some(place) => Err(format!("element {place} is {}, which is no bool", bytes[place])),
        None => Ok(bytes.into_iter().map(|b| b != 0).collect()),
    }
}

/// Elements from little-endian, row-major bytes.
///
/// # Errors
/// Bytes that do not make up whole elements, or are no bool.
pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Result<HostVec, String> {
    if !bytes.len().is_multiple_of(dtype.size()) {
        return Err(format!("{} bytes are no whole number of {dtype}", bytes.len()));
    }
    read(&mut &*bytes, dtype, bytes.len() / dtype.size(), cfg!(target_endian = "big"), Trust::Checked)
}
/// A tensor of host elements; those of fp8 are its bytes.
pub fn to_tensor(dtype: DType, shape: Shape, elements: HostVec, device: Device) -> Tensor {
    macro_rules! adopt {
        ($($variant:ident),*) => { match elements { $(HostVec::$variant(v) => Tensor::from_vec_on(v, shape, device),)* } };
    }
    let tensor = adopt!(Bool, U8, I8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64);
    // No Rust type stands for fp8: the bytes are the elements.
    if matches!(dtype, DType::F8E4M3 | DType::F8E5M2) { Tensor::apply(Op::Bitcast(dtype), Arg::None, &[&tensor]) } else { tensor }
}
/// Column-major elements of a shape in row-major order.
pub(crate) fn transposed(elements: HostVec, shape: &Shape) -> HostVec {
    if shape.rank() < 2 {
        return elements;
    }
    macro_rules! each {
        ($($variant:ident),*) => { match elements { $(HostVec::$variant(v) => HostVec::$variant(gather(&v, shape)),)* } };
    }
    each!(Bool, U8, I8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64)
}
fn gather<T: Copy>(from: &[T], shape: &Shape) -> Vec<T> {
    let mut out = Vec::with_capacity(from.len());
    let mut index = vec![0; shape.rank()];
    let mut place = 0;
    for _ in 0..from.len() {
        out.push(from[place]);
        // An odometer over the row-major index; the first axis has stride 1 in the source.
        for axis in (0..shape.rank()).rev() {
            let stride: usize = shape[..axis].iter().product();
            index[axis] += 1;
            place += stride;
            if index[axis] < shape[axis] {
                break;
            }
            place -= stride * shape[axis];
            index[axis] = 0;
        }
    }
    out
}
