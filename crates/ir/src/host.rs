//! Tensors on the host in the widest arithmetic, and the meaning of scalar functions on them: what every primitive's meaning is
//! written with.
use crate::{
    DType, Scalar, Shape, TensorType,
    scalar::{Binary, Class, Unary},
};
use half::{bf16, f16};

/// A tensor on the host, in the widest arithmetic: floats as f64, integers and bool as i64. Row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct HostArray {
    /// its shape
    pub shape: Shape,
    /// its dtype, to which every element is rounded
    pub dtype: DType,
    /// its elements
    pub data: HostData,
}
/// Elements of a [`HostArray`].
#[derive(Clone, Debug, PartialEq)]
pub enum HostData {
    /// of a float dtype
    Float(Vec<f64>),
    /// of bool or an integer dtype
    Int(Vec<i64>),
}

/// Rounds a float to a dtype.
pub fn round_float(v: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => v as f32 as f64,
        DType::F16 => crate::dtype::f16_from_f64(v).to_f64(),
        DType::BF16 => crate::dtype::bf16_from_f64(v).to_f64(),
        DType::F8E4M3 | DType::F8E5M2 => crate::dtype::f8_to_f32(crate::dtype::f32_to_f8(v as f32, dtype), dtype) as f64,
        _ => v,
    }
}
/// Wraps an integer to a dtype.
pub fn wrap_int(v: i64, dtype: DType) -> i64 {
    match dtype {
        DType::Bool => (v != 0) as i64,
        DType::U8 => v as u8 as i64,
        DType::I8 => v as i8 as i64,
        DType::U16 => v as u16 as i64,
        DType::I16 => v as i16 as i64,
        DType::U32 => v as u32 as i64,
        DType::I32 => v as i32 as i64,
        _ => v,
    }
}

impl HostArray {
    /// An array from floats, rounded to the dtype.
    pub fn floats(shape: Shape, dtype: DType, data: impl IntoIterator<Item = f64>) -> HostArray {
        HostArray { shape, dtype, data: HostData::Float(data.into_iter().map(|v| round_float(v, dtype)).collect()) }
    }
    /// An array from integers, wrapped to the dtype.
    pub fn ints(shape: Shape, dtype: DType, data: impl IntoIterator<Item = i64>) -> HostArray {
        HostArray { shape, dtype, data: HostData::Int(data.into_iter().map(|v| wrap_int(v, dtype)).collect()) }
    }
    /// An array from its elements' bytes (row-major, native byte order).
    pub fn from_bytes(shape: Shape, dtype: DType, bytes: &[u8]) -> HostArray {
        fn read<T: bytemuck::AnyBitPattern, O>(bytes: &[u8], f: impl Fn(T) -> O) -> Vec<O> {
            bytes.chunks_exact(size_of::<T>()).map(|c| f(bytemuck::pod_read_unaligned(c))).collect()
        }
        let data = match dtype {
            DType::Bool | DType::U8 => HostData::Int(read(bytes, |v: u8| v as i64)),
            DType::I8 => HostData::Int(read(bytes, |v: i8| v as i64)),
            DType::I16 => HostData::Int(read(bytes, |v: i16| v as i64)),
            DType::U16 => HostData::Int(read(bytes, |v: u16| v as i64)),
            DType::I32 => HostData::Int(read(bytes, |v: i32| v as i64)),
            DType::U32 => HostData::Int(read(bytes, |v: u32| v as i64)),
            DType::I64 => HostData::Int(read(bytes, |v: i64| v)),
            DType::U64 => HostData::Int(read(bytes, |v: u64| v as i64)),
            DType::F16 => HostData::Float(read(bytes, |v: f16| v.to_f64())),
            DType::BF16 => HostData::Float(read(bytes, |v: bf16| v.to_f64())),
            DType::F32 => HostData::Float(read(bytes, |v: f32| v as f64)),
            DType::F64 => HostData::Float(read(bytes, |v: f64| v)),
            DType::F8E4M3 | DType::F8E5M2 => HostData::Float(read(bytes, |v: u8| crate::dtype::f8_to_f32(v, dtype) as f64)),
        };
        HostArray { shape, dtype, data }
    }
    /// The elements' bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        fn write<T: bytemuck::NoUninit>(it: impl Iterator<Item = T>) -> Vec<u8> {
            it.flat_map(|v| bytemuck::bytes_of(&v).to_vec()).collect()
        }
        let i = |k: usize| self.int(k);
        let f = |k: usize| self.float(k);
        let n = 0..self.len();
        match self.dtype {
            DType::Bool | DType::U8 => write(n.map(|k| i(k) as u8)),
            DType::I8 => write(n.map(|k| i(k) as i8)),
            DType::I16 => write(n.map(|k| i(k) as i16)),
            DType::U16 => write(n.map(|k| i(k) as u16)),
            DType::I32 => write(n.map(|k| i(k) as i32)),
            DType::U32 => write(n.map(|k| i(k) as u32)),
            DType::I64 => write(n.map(i)),
            DType::U64 => write(n.map(|k| i(k) as u64)),
            DType::F16 => write(n.map(|k| crate::dtype::f16_from_f64(f(k)))),
            DType::BF16 => write(n.map(|k| crate::dtype::bf16_from_f64(f(k)))),
            DType::F32 => write(n.map(|k| f(k) as f32)),
            DType::F64 => write(n.map(f)),
            DType::F8E4M3 | DType::F8E5M2 => write(n.map(|k| crate::dtype::f32_to_f8(f(k) as f32, self.dtype))),
        }
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        match &self.data {
            HostData::Float(v) => v.len(),
            HostData::Int(v) => v.len(),
        }
    }
    /// Has it no elements?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Element k as a float.
    pub fn float(&self, k: usize) -> f64 {
        match &self.data {
            HostData::Float(v) => v[k],
            HostData::Int(v) => v[k] as f64,
        }
    }
    /// Element k as an integer (floats truncate).
    pub fn int(&self, k: usize) -> i64 {
        match &self.data {
            HostData::Float(v) => v[k] as i64,
            HostData::Int(v) => v[k],
        }
    }
    /// Element k as a number.
    pub fn scalar(&self, k: usize) -> Scalar {
        match &self.data {
            HostData::Float(v) => Scalar::Float(v[k]),
            HostData::Int(v) => Scalar::Int(v[k]),
        }
    }
    pub(crate) fn from_scalars(meta: &TensorType, it: impl Iterator<Item = Scalar>) -> HostArray {
        if meta.dtype.is_float() {
            HostArray::floats(meta.shape, meta.dtype, it.map(Scalar::to_f64))
        } else {
            HostArray::ints(meta.shape, meta.dtype, it.map(Scalar::to_i64))
        }
    }
    /// Row-major index of a coordinate.
    pub(crate) fn at(&self, index: &[usize]) -> usize {
        index.iter().zip(self.shape.iter()).fold(0, |at, (&i, &d)| at * d + i)
    }
    /// Row-major index of a coordinate of a larger shape that this one broadcasts to.
    pub(crate) fn at_broadcast(&self, index: &[usize]) -> usize {
        let lead = index.len() - self.shape.rank();
        index[lead..].iter().zip(self.shape.iter()).fold(0, |at, (&i, &d)| at * d + if d == 1 { 0 } else { i })
    }
}

/// All coordinates of a shape in row-major order.
pub(crate) fn coordinates(shape: &Shape) -> impl Iterator<Item = Vec<usize>> + use<> {
    let shape = *shape;
    (0..shape.elements()).map(move |mut k| {
        let mut index = vec![0; shape.rank()];
        for a in (0..shape.rank()).rev() {
            index[a] = k % shape[a];
            k /= shape[a];
        }
        index
    })
}

/// The meaning of a unary function in a dtype.
pub fn unary(f: Unary, x: Scalar, dtype: DType) -> Scalar {
    let row = f.row();
    match (x, row.int) {
        (Scalar::Float(v), _) => Scalar::Float(row.exact_in(dtype)(v)),
        (v, Some(int)) => Scalar::Int(int(v.to_i64())),
        (v, None) => Scalar::Float((row.exact)(v.to_f64())),
    }
}
/// The meaning of a binary function in a dtype; `None` is a fault.
pub fn binary(f: Binary, x: Scalar, y: Scalar, dtype: DType) -> Option<Scalar> {
    let row = f.row();
    Some(match (x, y, row.int) {
        (Scalar::Float(a), Scalar::Float(b), _) => Scalar::Float((row.exact)(a, b)),
        (a, b, Some(int)) => {
            let v = int(a.to_i64(), b.to_i64())?;
            Scalar::Int(if dtype == DType::Bool && row.class != Class::ToBool { (v != 0) as i64 } else { v })
        }
        (a, b, None) => Scalar::Float((row.exact)(a.to_f64(), b.to_f64())),
    })
}

/// An array whose elements `f` gives, asked in row-major order with their coordinates.
pub(crate) fn map(ty: &TensorType, mut f: impl FnMut(&[usize]) -> Scalar) -> HostArray {
    HostArray::from_scalars(ty, coordinates(&ty.shape).map(|i| f(&i)))
}
