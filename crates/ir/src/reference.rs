//! The reference interpreter: every primitive in plain f64 (integers in i64), one rounding to the dtype at the end.
//! It shares no code with rules, kernels or fusion, and is what they are compared with.
use crate::{
    DType, ErrorKind, Scalar, Shape, TensorType,
    kernel::Fault,
    op::{Arg, ArgOp, CollectiveKind, ConvRole, ConvSpec, Op, ReduceOp, ScanOp, ScatterMode, Side, View, WindowOp, WindowSpec},
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
    fn from_scalars(meta: &TensorType, it: impl Iterator<Item = Scalar>) -> HostArray {
        if meta.dtype.is_float() {
            HostArray::floats(meta.shape, meta.dtype, it.map(Scalar::to_f64))
        } else {
            HostArray::ints(meta.shape, meta.dtype, it.map(Scalar::to_i64))
        }
    }
    /// Row-major index of a coordinate.
    fn at(&self, index: &[usize]) -> usize {
        index.iter().zip(self.shape.iter()).fold(0, |at, (&i, &d)| at * d + i)
    }
    /// Row-major index of a coordinate of a larger shape that this one broadcasts to.
    fn at_broadcast(&self, index: &[usize]) -> usize {
        let lead = index.len() - self.shape.rank();
        index[lead..].iter().zip(self.shape.iter()).fold(0, |at, (&i, &d)| at * d + if d == 1 { 0 } else { i })
    }
}

/// All coordinates of a shape in row-major order.
fn coordinates(shape: &Shape) -> impl Iterator<Item = Vec<usize>> + use<> {
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

/// Runs one primitive. Bad data (an index out of range) gives zero there and the first fault beside the result.
///
/// # Errors
/// An op that cannot run here, or a lost peer.
pub fn run(op: &Op, arg: Arg, inputs: &[HostArray], metas: &[TensorType]) -> Result<(Vec<HostArray>, Option<Fault>), ErrorKind> {
    let meta = &metas[0];
    let mut fault: Option<Fault> = None;
    let scalar = match arg {
        Arg::Scalar(s) => s,
        _ => Scalar::Int(0),
    };
    let start = match arg {
        Arg::Start(s) => s,
        _ => 0,
    };
    let one = |a: HostArray| Ok((vec![a], None));
    let map = |f: &mut dyn FnMut(&[usize]) -> Scalar| HostArray::from_scalars(meta, coordinates(&meta.shape).map(|i| f(&i)));
    match op {
        Op::Input => Err(ErrorKind::Internal("an input is never run".into())),
        Op::Const(_) => one(map(&mut |_| scalar)),
        Op::Iota { axis, .. } => one(map(&mut |i| Scalar::Int(i[*axis as usize] as i64))),
        Op::RandomBits { .. } => {
            let key = [0, 1, 2, 3].map(|k| inputs[0].int(k) as u32);
            let mut k = 0;
            one(map(&mut |_| {
                k += 1;
                Scalar::Int(crate::philox::element_bits(key, k - 1) as i64)
            }))
        }
        Op::Unary(f) => one(map(&mut |i| unary(*f, inputs[0].scalar(inputs[0].at(i)), inputs[0].dtype))),
        Op::Binary(_) | Op::BinaryScalar(..) => {
            let dtype = inputs[0].dtype;
            let out = map(&mut |i| {
                let (f, x, y) = match op {
                    Op::Binary(f) => (f, inputs[0].scalar(inputs[0].at_broadcast(i)), inputs[1].scalar(inputs[1].at_broadcast(i))),
                    Op::BinaryScalar(f, side) => {
                        let x = inputs[0].scalar(inputs[0].at(i));
                        let c =
                            if dtype.is_float() { Scalar::Float(round_float(scalar.to_f64(), dtype)) } else { Scalar::Int(wrap_int(scalar.to_i64(), dtype)) };
                        if *side == Side::Left { (f, c, x) } else { (f, x, c) }
                    }
                    _ => return Scalar::Int(0),
                };
                binary(*f, x, y, dtype).unwrap_or_else(|| {
                    fault.get_or_insert(Fault::DivisionByZero);
                    Scalar::Int(0)
                })
            });
            Ok((vec![out], fault))
        }
        Op::Select => one(map(&mut |i| {
            let k = if inputs[0].int(inputs[0].at_broadcast(i)) != 0 { 1 } else { 2 };
            inputs[k].scalar(inputs[k].at_broadcast(i))
        })),
        Op::Cast(d) => one(map(&mut |i| {
            let s = inputs[0].scalar(inputs[0].at(i));
            if *d == DType::Bool { Scalar::Int((s.to_f64() != 0.0) as i64) } else { s }
        })),
        Op::Bitcast(d) => one(HostArray::from_bytes(meta.shape, *d, &inputs[0].to_bytes())),
        Op::StopGrad | Op::Transfer(_) => one(inputs[0].clone()),
        Op::View(v) => {
            let x = &inputs[0];
            one(match v {
                View::Reshape(shape) => HostArray { shape: *shape, ..x.clone() },
                View::Permute(p) => map(&mut |i| {
                    let mut from = vec![0; i.len()];
                    for k in 0..i.len() {
                        from[p[k] as usize] = i[k];
                    }
                    x.scalar(x.at(&from))
                }),
                View::Expand(_) => map(&mut |i| x.scalar(x.at_broadcast(i))),
                View::Slice { axis, step, .. } => map(&mut |i| {
                    let mut from = i.to_vec();
                    from[*axis as usize] = start + i[*axis as usize] * step;
                    x.scalar(x.at(&from))
                }),
                View::Flip(axes) => map(&mut |i| {
                    let from: Vec<usize> = i.iter().enumerate().map(|(k, &v)| if axes.has(k) { x.shape[k] - 1 - v } else { v }).collect();
                    x.scalar(x.at(&from))
                }),
            })
        }
        Op::Pad(p) => one(map(&mut |i| {
            let from: Option<Vec<usize>> =
                i.iter().enumerate().map(|(k, &v)| usize::try_from(v as isize - p.widths[k].0).ok().filter(|&v| v < inputs[0].shape[k])).collect();
            from.map_or(scalar, |f| inputs[0].scalar(inputs[0].at(&f)))
        })),
        Op::Concat { axis } => one(map(&mut |i| {
            let mut from = i.to_vec();
            for x in inputs {
                let n = x.shape[*axis as usize];
                if from[*axis as usize] < n {
                    return x.scalar(x.at(&from));
                }
                from[*axis as usize] -= n;
            }
            Scalar::Int(0)
        })),
        Op::UpdateSlice { axis } => {
            let (d, s) = (&inputs[0], &inputs[1]);
            one(map(&mut |i| {
                let a = *axis as usize;
                match i[a].checked_sub(start).filter(|&k| k < s.shape[a]) {
                    Some(k) => {
                        let mut from = i.to_vec();
                        from[a] = k;
                        s.scalar(s.at(&from))
                    }
                    None => d.scalar(d.at(i)),
                }
            }))
        }
        Op::Reduce { op, axes } => {
            let x = &inputs[0];
            let float = x.dtype.is_float();
            let identity = match op {
                ReduceOp::Sum => Scalar::Int(0),
                ReduceOp::Prod => Scalar::Int(1),
                _ => Scalar::Int(0),
            };
            let mut acc: Vec<Option<Scalar>> = vec![None; meta.shape.elements()];
            for i in coordinates(&x.shape) {
                let out: Vec<usize> = i.iter().enumerate().map(|(k, &v)| if axes.has(k) { 0 } else { v }).collect();
                let at = out.iter().zip(meta.shape.iter()).fold(0, |at, (&i, &d)| at * d + i);
                let v = x.scalar(x.at(&i));
                acc[at] = Some(match acc[at] {
                    None => v,
                    Some(a) => combine(*op, a, v, float),
                });
            }
            one(HostArray::from_scalars(meta, acc.into_iter().map(|a| a.unwrap_or(identity))))
        }
        Op::ArgReduce { op, axis } => {
            let x = &inputs[0];
            let a = *axis as usize;
            one(map(&mut |i| {
                let mut from = i.to_vec();
                let mut best: Option<(usize, Scalar)> = None;
                for k in 0..x.shape[a] {
                    from[a] = k;
                    let v = x.scalar(x.at(&from));
                    let better = match best {
                        None => true,
                        Some((_, b)) => beats(*op == ArgOp::Max, v, b),
                    };
                    if better {
                        best = Some((k, v));
                    }
                }
                Scalar::Int(best.map_or(0, |b| b.0 as i64))
            }))
        }
        Op::Scan { op, axis, reverse } => {
            let a = *axis as usize;
            let x = &inputs[0];
            let n = x.shape[a];
            let mut out: Vec<Scalar> = vec![Scalar::Int(0); x.len()];
            let lines = x.shape.with(a, 1);
            for i in coordinates(&lines) {
                let mut from = i.clone();
                let mut acc: Option<Scalar> = None;
                for step in 0..n {
                    from[a] = if *reverse { n - 1 - step } else { step };
                    let at = x.at(&from);
                    let v = x.scalar(at);
                    let next = match (op, acc) {
                        (ScanOp::LinearRecurrence, acc) => {
                            let h = acc.map_or(0.0, Scalar::to_f64);
                            // An absent past adds nothing, even where the coefficient is infinite.
                            let past = if acc.is_none() { 0.0 } else { v.to_f64() * h };
                            Scalar::Float(past + inputs[1].float(at))
                        }
                        (_, None) => v,
                        (ScanOp::Sum, Some(s)) => combine(ReduceOp::Sum, s, v, x.dtype.is_float()),
                        (ScanOp::Prod, Some(s)) => combine(ReduceOp::Prod, s, v, x.dtype.is_float()),
                        (ScanOp::Max, Some(s)) => combine(ReduceOp::Max, s, v, x.dtype.is_float()),
                        (ScanOp::Min, Some(s)) => combine(ReduceOp::Min, s, v, x.dtype.is_float()),
                    };
                    acc = Some(next);
                    out[at] = next;
                }
            }
            one(HostArray::from_scalars(meta, out.into_iter()))
        }
        Op::Matmul => {
            let (x, y) = (&inputs[0], &inputs[1]);
            let r = meta.shape.rank();
            let k = x.shape[r - 1];
            let int = !meta.dtype.is_float();
            one(map(&mut |i| {
                let (mut ia, mut ib) = (i.to_vec(), i.to_vec());
                let (mut sum, mut whole) = (0.0, 0i64);
                for p in 0..k {
                    ia[r - 1] = p;
                    ib[r - 2] = p;
                    let (a, b) = (x.at(&ia), y.at(&ib));
                    if int { whole = whole.wrapping_add(x.int(a).wrapping_mul(y.int(b))) } else { sum += x.float(a) * y.float(b) }
                }
                if int { Scalar::Int(whole) } else { Scalar::Float(sum) }
            }))
        }
        Op::Conv(spec) => one(conv(spec, inputs, meta)),
        Op::Window(spec) => Ok((window(spec, &inputs[0], metas), None)),
        Op::Gather { axis } => {
            let (x, index) = (&inputs[0], &inputs[1]);
            let a = *axis as usize;
            let out = map(&mut |i| {
                let position = index.at(i);
                match in_range(index.int(position), x.shape[a], position, &mut fault) {
                    Some(k) => {
                        let mut from = i.to_vec();
                        from[a] = k;
                        x.scalar(x.at(&from))
                    }
                    None => Scalar::Int(0),
                }
            });
            Ok((vec![out], fault))
        }
        Op::Scatter { axis, mode } => {
            let (x, index, s) = (&inputs[0], &inputs[1], &inputs[2]);
            let float = x.dtype.is_float();
            let mut out: Vec<Scalar> = (0..x.len()).map(|k| x.scalar(k)).collect();
            for i in coordinates(&index.shape) {
                let position = index.at(&i);
                let Some(k) = in_range(index.int(position), x.shape[*axis as usize], position, &mut fault) else { continue };
                let mut to = i.clone();
                to[*axis as usize] = k;
                let (to, v) = (x.at(&to), s.scalar(position));
                out[to] = match mode {
                    ScatterMode::Set => v,
                    ScatterMode::Add => combine(ReduceOp::Sum, out[to], v, float),
                    ScatterMode::Mul => combine(ReduceOp::Prod, out[to], v, float),
                    ScatterMode::Max => combine(ReduceOp::Max, out[to], v, float),
                    ScatterMode::Min => combine(ReduceOp::Min, out[to], v, float),
                };
            }
            Ok((vec![HostArray::from_scalars(meta, out.into_iter())], fault))
        }
        Op::Sort { axis, descending } => {
            let x = &inputs[0];
            let a = *axis as usize;
            let n = x.shape[a];
            let mut order = vec![0i64; x.len()];
            let mut sorted: Vec<Scalar> = vec![Scalar::Int(0); x.len()];
            for i in coordinates(&x.shape.with(a, 1)) {
                let mut from = i.clone();
                let mut at = |k: usize| {
                    from[a] = k;
                    x.at(&from)
                };
                let places: Vec<usize> = (0..n).map(&mut at).collect();
                let mut line: Vec<usize> = (0..n).collect();
                // NaN is the largest; equal elements keep their order either way.
                line.sort_by(|&p, &q| {
                    let (p, q) = (x.scalar(places[p]), x.scalar(places[q]));
                    let up = compare(p, q);
                    if *descending { up.reverse() } else { up }
                });
                for (k, &l) in line.iter().enumerate() {
                    sorted[places[k]] = x.scalar(places[l]);
                    order[places[k]] = l as i64;
                }
            }
            Ok((vec![HostArray::from_scalars(meta, sorted.into_iter()), HostArray::ints(metas[1].shape, DType::I64, order)], None))
        }
        Op::Collective { .. } => Err(ErrorKind::Internal("what other ranks hold is not known here".into())),
        Op::Composite(c) => match c.host(inputs) {
            Some(Ok(out)) => Ok((out, None)),
            Some(Err(ErrorKind::Index { index, bound, position })) => {
                Ok((metas.iter().map(zeros).collect(), Some(Fault::Index { index, bound, position: position.unwrap_or(0) })))
            }
            Some(Err(ErrorKind::Domain(s))) => Ok((metas.iter().map(zeros).collect(), Some(Fault::Domain(s)))),
            Some(Err(e)) => Err(e),
            None => Err(ErrorKind::Internal(format!("{} has neither a body that was inlined nor a host function", c.name()))),
        },
    }
}
/// What a collective returns, from the tensors of all ranks in their order.
///
/// # Errors
/// A root that is no rank; a group without ranks.
pub fn combine_ranks(kind: CollectiveKind, parts: &[HostArray]) -> Result<HostArray, ErrorKind> {
    let Some(first) = parts.first() else { return Err(ErrorKind::Internal("a group without ranks".into())) };
    match kind {
        CollectiveKind::Broadcast { root } => parts.get(root).cloned().ok_or_else(|| ErrorKind::Argument(format!("rank {root} does not exist"))),
        CollectiveKind::AllReduceSum => parts[1..].iter().try_fold(first.clone(), |sum, part| {
            let metas = [TensorType { shape: sum.shape, dtype: sum.dtype }];
            let (mut out, _) = run(&Op::Binary(Binary::Add), Arg::None, &[sum, part.clone()], &metas)?;
            Ok(out.swap_remove(0))
        }),
    }
}
fn zeros(m: &TensorType) -> HostArray {
    HostArray::from_scalars(m, (0..m.shape.elements()).map(|_| Scalar::Int(0)))
}
fn in_range(index: i64, bound: usize, position: usize, fault: &mut Option<Fault>) -> Option<usize> {
    match usize::try_from(index).ok().filter(|&i| i < bound) {
        Some(i) => Some(i),
        None => {
            fault.get_or_insert(Fault::Index { index, bound, position });
            None
        }
    }
}
fn combine(op: ReduceOp, a: Scalar, b: Scalar, float: bool) -> Scalar {
    if float {
        let (x, y) = (a.to_f64(), b.to_f64());
        return Scalar::Float(match op {
            ReduceOp::Sum => x + y,
            ReduceOp::Prod => x * y,
            ReduceOp::Max => {
                if x.is_nan() || y.is_nan() {
                    f64::NAN
                } else {
                    x.max(y)
                }
            }
            ReduceOp::Min => {
                if x.is_nan() || y.is_nan() {
                    f64::NAN
                } else {
                    x.min(y)
                }
            }
        });
    }
    let (x, y) = (a.to_i64(), b.to_i64());
    Scalar::Int(match op {
        ReduceOp::Sum => x.wrapping_add(y),
        ReduceOp::Prod => x.wrapping_mul(y),
        ReduceOp::Max => x.max(y),
        ReduceOp::Min => x.min(y),
    })
}
/// Is v more extreme than b? NaN beats everything but NaN.
fn beats(max: bool, v: Scalar, b: Scalar) -> bool {
    if let (Scalar::Float(v), Scalar::Float(b)) = (v, b) {
        return !b.is_nan() && (v.is_nan() || if max { v > b } else { v < b });
    }
    if max { v.to_i64() > b.to_i64() } else { v.to_i64() < b.to_i64() }
}
fn compare(a: Scalar, b: Scalar) -> std::cmp::Ordering {
    match (a, b) {
        (Scalar::Float(x), Scalar::Float(y)) => x.partial_cmp(&y).unwrap_or_else(|| x.is_nan().cmp(&y.is_nan())),
        _ => a.to_i64().cmp(&b.to_i64()),
    }
}
fn conv(spec: &ConvSpec, inputs: &[HostArray], meta: &TensorType) -> HostArray {
    let mut out = vec![0f64; meta.shape.elements()];
    let result = |i: &[usize]| i.iter().zip(meta.shape.iter()).fold(0, |at, (&i, &d)| at * d + i);
    let s = spec.spatial();
    // Shapes of the three tensors of the bilinear form.
    let (x, w, y) = match spec.role {
        ConvRole::Forward => (inputs[0].shape, inputs[1].shape, meta.shape),
        ConvRole::InputGrad => (meta.shape, inputs[1].shape, inputs[0].shape),
        ConvRole::WeightGrad => (inputs[0].shape, meta.shape, inputs[1].shape),
    };
    let (ci, co) = (w[1], w[0] / spec.groups);
    for iy in coordinates(&y) {
        let group = iy[1] / co.max(1);
        for ik in coordinates(&w.with(0, 1)) {
            let mut ix = vec![iy[0], group * ci + ik[1]];
            for d in 0..s {
                let p = (iy[2 + d] * spec.stride[d] + ik[2 + d] * spec.dilation[d]) as isize - spec.padding[d].0 as isize;
                match usize::try_from(p).ok().filter(|&p| p < x[2 + d]) {
                    Some(p) => ix.push(p),
                    None => break,
                }
            }
            if ix.len() < 2 + s {
                continue;
            }
            let mut iw = ik.clone();
            iw[0] = iy[1];
            match spec.role {
                ConvRole::Forward => out[result(&iy)] += inputs[0].float(inputs[0].at(&ix)) * inputs[1].float(inputs[1].at(&iw)),
                ConvRole::InputGrad => out[result(&ix)] += inputs[0].float(inputs[0].at(&iy)) * inputs[1].float(inputs[1].at(&iw)),
                ConvRole::WeightGrad => out[result(&iw)] += inputs[0].float(inputs[0].at(&ix)) * inputs[1].float(inputs[1].at(&iy)),
            }
        }
    }
    HostArray::floats(meta.shape, meta.dtype, out)
}
fn window(spec: &WindowSpec, x: &HostArray, metas: &[TensorType]) -> Vec<HostArray> {
    let s = spec.spatial();
    let lead = x.shape.rank() - s;
    let transposed = spec.op == WindowOp::SumTransposed;
    // `wide` is what the windows slide over, `narrow` has one element per window.
    let (wide, narrow) = if transposed { (metas[0].shape, x.shape) } else { (x.shape, metas[0].shape) };
    let float = x.dtype.is_float();
    let mut values: Vec<Option<Scalar>> = vec![None; metas[0].shape.elements()];
    let mut at_index = vec![0i64; if spec.op == WindowOp::Max { values.len() } else { 0 }];
    let Ok(kernel) = Shape::new(&spec.size) else { return Vec::new() };
    for i in coordinates(&narrow) {
        for k in coordinates(&kernel) {
            let mut from = i[..lead].to_vec();
            for d in 0..s {
                let p = (i[lead + d] * spec.stride[d] + k[d] * spec.dilation[d]) as isize - spec.padding[d].0 as isize;
                match usize::try_from(p).ok().filter(|&p| p < wide[lead + d]) {
                    Some(p) => from.push(p),
                    None => break,
                }
            }
            if from.len() < lead + s {
                continue;
            }
            let flat = |i: &[usize], sh: &Shape| i.iter().zip(sh.iter()).fold(0, |at, (&i, &d)| at * d + i);
            let (read, write) = if transposed { (flat(&i, &narrow), flat(&from, &wide)) } else { (flat(&from, &wide), flat(&i, &narrow)) };
            let v = x.scalar(read);
            match (spec.op, values[write]) {
                (WindowOp::Max, old) => {
                    if old.is_none_or(|b| beats(true, v, b)) {
                        values[write] = Some(v);
                        at_index[write] = from[lead..].iter().zip(&wide[lead..]).fold(0, |at, (&i, &d)| at * d + i) as i64;
                    }
                }
                (_, None) => values[write] = Some(v),
                (_, Some(a)) => values[write] = Some(combine(ReduceOp::Sum, a, v, float)),
            }
        }
    }
    let empty = if spec.op == WindowOp::Max && float { Scalar::Float(f64::NEG_INFINITY) } else { Scalar::Int(0) };
    let mut out = vec![HostArray::from_scalars(&metas[0], values.into_iter().map(|v| v.unwrap_or(empty)))];
    if spec.op == WindowOp::Max {
        out.push(HostArray::ints(metas[1].shape, DType::I64, at_index));
    }
    out
}
