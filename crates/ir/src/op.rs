//! The primitives, as data. An op is one only if its access pattern cannot be written with the others
//! without asymptotic loss, or (scalar functions) if composing it loses accuracy. The set is closed under
//! its own gradients.
//!
//! An [`Op`] holds structure (what a plan is compiled for) and sizes; what changes from call to call —
//! a scalar operand, the start of a slice — is an [`Arg`] beside it and never part of a plan's key.
use crate::{
    DType, DeviceId, ErrorKind, Scalar, Shape, TensorType,
    composite::Keyed,
    scalar::{Binary, Unary},
    shape::{AxisSet, Dims, MAX_RANK},
};
use smallvec::{SmallVec, smallvec};
use std::{any::Any, fmt, sync::Arc};

/// Types of an op's outputs.
pub type Types = SmallVec<[TensorType; 3]>;

/// What changes from call to call without a new plan.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Arg {
    /// No argument.
    #[default]
    None,
    /// The value of a [`Op::Const`], the scalar side of a [`Op::BinaryScalar`], the fill of a [`Op::Pad`].
    Scalar(Scalar),
    /// The start of a slice or of an update, in elements of its axis.
    Start(usize),
}

/// One primitive.
#[allow(missing_docs, reason = "a variant's line explains its fields")]
#[derive(Clone)]
pub enum Op {
    /// A value that exists already (only inside graphs and windows).
    Input,
    /// A tensor filled with the scalar argument.
    Const(TensorType),
    /// 0, 1, 2, ... along an axis.
    Iota { axis: u8, ty: TensorType },
    /// Philox4x32-10 bits (u32) of (key tensor `[seed lo, seed hi, stream, counter]`; logical element index).
    RandomBits { shape: Shape },
    /// An element-wise function of one tensor.
    Unary(Unary),
    /// An element-wise function of two tensors, broadcast.
    Binary(Binary),
    /// The same with a scalar argument on one side.
    BinaryScalar(Binary, Side),
    /// condition ? a : b, broadcast.
    Select,
    /// Converts the values: floats to integers truncate toward zero, integers wrap.
    Cast(DType),
    /// Reads the same bits as another dtype of the same size.
    Bitcast(DType),
    /// Another view of the same elements.
    View(View),
    /// Surrounds with the scalar argument; negative widths cut off.
    Pad(Box<PadSpec>),
    /// Joins along an axis.
    Concat { axis: u8 },
    /// (destination, source): the source written into the destination from the start argument along an axis.
    UpdateSlice { axis: u8 },
    /// Combines all elements along the axes, which keep size 1.
    Reduce { op: ReduceOp, axes: AxisSet },
    /// The first index of the extreme value along an axis (NaN counts as extreme), i64, which keeps size 1.
    ArgReduce { op: ArgOp, axis: u8 },
    /// Running combination along an axis.
    Scan { op: ScanOp, axis: u8, reverse: bool },
    /// Batched matrix product `[.., m, k] x [.., k, n]`, equal batch axes.
    Matmul,
    /// Convolution in one of its three roles.
    Conv(Arc<ConvSpec>),
    /// Sliding windows over the trailing axes.
    Window(Arc<WindowSpec>),
    /// (x, index): `out[i0, .., ia, ..] = x[i0, .., index[i0, .., ia, ..], ..]`; the output has the index's shape.
    Gather { axis: u8 },
    /// (destination, index, source): the inverse of gather; the output has the destination's shape.
    Scatter { axis: u8, mode: ScatterMode },
    /// Stable sort along an axis: values and i64 indices.
    Sort { axis: u8, descending: bool },
    /// The same values on another device.
    Transfer(DeviceId),
    /// Combines a tensor over all ranks of a group.
    Collective { kind: CollectiveKind, group: Group },
    /// The same value, through which no gradient flows.
    StopGrad,
    /// A named function with a plain body.
    Composite(Keyed),
}

/// On which side of a binary function the scalar argument stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// `scalar op tensor`
    Left,
    /// `tensor op scalar`
    Right,
}

/// A view: the same elements, found by other strides.
#[allow(missing_docs, reason = "a variant's line explains its fields")]
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum View {
    /// The same row-major order in another shape.
    Reshape(Shape),
    /// Axis k of the output is axis `perm[k]` of the input.
    Permute([u8; MAX_RANK]),
    /// Broadcasts to the shape.
    Expand(Shape),
    /// `len` elements of an axis from the start argument on, every `step`-th.
    Slice { axis: u8, len: usize, step: usize },
    /// Reverses the axes.
    Flip(AxisSet),
}

/// How many elements are added before and after each axis (negative: cut off).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PadSpec {
    /// (before, after) for each axis
    pub widths: SmallVec<[(isize, isize); MAX_RANK]>,
}

/// How a reduction combines. Sums of 16-bit floats run in f32 and round once; those of integers in i64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReduceOp {
    /// sum; of bool and integers: i64
    Sum,
    /// product; of bool and integers: i64
    Prod,
    /// maximum, NaN if any is NaN; empty is an error
    Max,
    /// minimum, NaN if any is NaN; empty is an error
    Min,
}
/// Which extreme an [`Op::ArgReduce`] finds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ArgOp {
    /// the largest
    Max,
    /// the smallest
    Min,
}
/// How a scan combines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScanOp {
    /// running sum
    Sum,
    /// running product
    Prod,
    /// running maximum (NaN sticks)
    Max,
    /// running minimum (NaN sticks)
    Min,
    /// (a, b): `h[t] = a[t] * h[t-1] + b[t]`, `h[-1] = 0`
    LinearRecurrence,
}
/// What a scatter does where it writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScatterMode {
    /// overwrite; of equal indices the last wins
    Set,
    /// add, in index order
    Add,
    /// multiply, in index order
    Mul,
    /// maximum
    Max,
    /// minimum
    Min,
}

/// One bilinear form, three roles: each role's gradients are the other two, so the primitive closes
/// without flips or dilated inputs. Shapes: x `[n, groups*ci, ..in]`, w `[groups*co, ci, ..k]`, y `[n, groups*co, ..out]`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ConvSpec {
    /// which of the three products
    pub role: ConvRole,
    /// step of the window, per spatial axis
    pub stride: SmallVec<[usize; 3]>,
    /// zeros before and after, per spatial axis
    pub padding: SmallVec<[(usize, usize); 3]>,
    /// spacing of kernel elements, per spatial axis
    pub dilation: SmallVec<[usize; 3]>,
    /// independent groups of channels
    pub groups: usize,
    /// spatial sizes of the output that the inputs leave open: x's for `InputGrad`, w's for `WeightGrad`, empty for `Forward`
    pub open: SmallVec<[usize; 3]>,
}
/// The role of a convolution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConvRole {
    /// (x, w) → y
    Forward,
    /// (y, w) → x: the transposed convolution
    InputGrad,
    /// (x, y) → w
    WeightGrad,
}

/// Sliding windows over the last axes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WindowSpec {
    /// what is done in a window
    pub op: WindowOp,
    /// window size, per spatial axis
    pub size: SmallVec<[usize; 3]>,
    /// step, per spatial axis
    pub stride: SmallVec<[usize; 3]>,
    /// padding before and after, per spatial axis (of the op's identity)
    pub padding: SmallVec<[(usize, usize); 3]>,
    /// spacing inside the window, per spatial axis
    pub dilation: SmallVec<[usize; 3]>,
    /// for `SumTransposed`: the spatial sizes of its output
    pub open: SmallVec<[usize; 3]>,
}
/// What happens in a window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WindowOp {
    /// maximum (NaN wins) and its flat index in the spatial plane, i64
    Max,
    /// sum
    Sum,
    /// the transposed sum: each input element is added to every position of its window
    SumTransposed,
}

/// A collective operation.
#[allow(missing_docs, reason = "a variant's line explains its fields")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CollectiveKind {
    /// the sum over ranks, on every rank, added in rank order
    AllReduceSum,
    /// the tensor of one rank, on every rank
    Broadcast { root: usize },
}
/// A group of ranks. What it is and how its ranks reach each other, only those know who made it.
#[derive(Clone)]
pub struct Group {
    /// Tells groups apart. Each rank's group is its own, also where ranks are threads of one process.
    pub id: u64,
    /// what carries it out
    pub handle: Arc<dyn Any + Send + Sync>,
}

/// Folds a word into a hash: a full 64 x 64 bit product, its halves xored (the idea of wyhash).
pub fn mix(hash: u64, word: u64) -> u64 {
    let m = (hash.rotate_left(23) ^ word ^ 0x2D35_8DCC_AA6C_78A5) as u128 * 0x9E37_79B9_7F4A_7C15u128;
    (m >> 64) as u64 ^ m as u64
}
/// A hash of a spec.
pub fn hash_of(value: &impl std::hash::Hash) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut h = DefaultHasher::new();
    value.hash(&mut h);
    h.finish()
}

impl Op {
    /// The op's name as errors, profiles and the text form give it.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Input => "input",
            Op::Const(_) => "full",
            Op::Iota { .. } => "iota",
            Op::RandomBits { .. } => "random_bits",
            Op::Unary(u) => u.name(),
            Op::Binary(b) | Op::BinaryScalar(b, _) => b.name(),
            Op::Select => "select",
            Op::Cast(_) => "cast",
            Op::Bitcast(_) => "bitcast",
            Op::View(View::Reshape(_)) => "reshape",
            Op::View(View::Permute(_)) => "permute",
            Op::View(View::Expand(_)) => "expand",
            Op::View(View::Slice { .. }) => "slice",
            Op::View(View::Flip(_)) => "flip",
            Op::Pad(_) => "pad",
            Op::Concat { .. } => "concat",
            Op::UpdateSlice { .. } => "update_slice",
            Op::Reduce { op, .. } => match op {
                ReduceOp::Sum => "sum",
                ReduceOp::Prod => "prod",
                ReduceOp::Max => "amax",
                ReduceOp::Min => "amin",
            },
            Op::ArgReduce { op: ArgOp::Max, .. } => "argmax",
            Op::ArgReduce { op: ArgOp::Min, .. } => "argmin",
            Op::Scan { op, .. } => match op {
                ScanOp::Sum => "cumsum",
                ScanOp::Prod => "cumprod",
                ScanOp::Max => "cummax",
                ScanOp::Min => "cummin",
                ScanOp::LinearRecurrence => "linear_recurrence",
            },
            Op::Matmul => "matmul",
            Op::Conv(c) => match c.role {
                ConvRole::Forward => "conv",
                ConvRole::InputGrad => "conv_transpose",
                ConvRole::WeightGrad => "conv_weight_grad",
            },
            Op::Window(w) => match w.op {
                WindowOp::Max => "max_pool",
                WindowOp::Sum => "sum_pool",
                WindowOp::SumTransposed => "sum_pool_transposed",
            },
            Op::Gather { .. } => "gather",
            Op::Scatter { .. } => "scatter",
            Op::Sort { .. } => "sort",
            Op::Transfer(_) => "to",
            Op::Collective { kind: CollectiveKind::AllReduceSum, .. } => "all_reduce",
            Op::Collective { kind: CollectiveKind::Broadcast { .. }, .. } => "broadcast",
            Op::StopGrad => "stop_grad",
            Op::Composite(c) => c.name(),
        }
    }
    /// Element-wise over the index space of its output: it can live inside any fused kernel.
    pub fn is_map(&self) -> bool {
        matches!(
            self,
            Op::Const(_)
                | Op::Iota { .. }
                | Op::RandomBits { .. }
                | Op::Unary(_)
                | Op::Binary(_)
                | Op::BinaryScalar(..)
                | Op::Select
                | Op::Cast(_)
                | Op::Bitcast(_)
        )
    }
    /// Only the layout differs from the input.
    pub fn is_view(&self) -> bool {
        matches!(self, Op::View(_) | Op::StopGrad)
    }
    /// Its execution matters even if nobody reads the result.
    pub fn is_effect(&self) -> bool {
        matches!(self, Op::Collective { .. })
    }
    /// Can the kernel find bad values in its data?
    pub fn can_fault(&self) -> bool {
        match self {
            Op::Gather { .. } | Op::Scatter { .. } => true,
            Op::Composite(c) => c.can_fault(),
            _ => false,
        }
    }
    /// Two ops with the same code and the same ranks, dtypes and broadcasts are the same work, sizes apart.
    pub fn structure(&self) -> u64 {
        let b = |x: u8| x as u64;
        match self {
            Op::Input => 1,
            Op::Const(_) => 2,
            Op::Iota { axis, .. } => mix(3, b(*axis)),
            Op::RandomBits { .. } => 4,
            Op::Unary(u) => 0x1_0000 + *u as u64,
            Op::Binary(u) => 0x2_0000 + *u as u64,
            Op::BinaryScalar(u, s) => 0x3_0000 + *u as u64 + (((*s == Side::Left) as u64) << 24),
            Op::Select => 5,
            Op::Cast(_) => 6,
            Op::Bitcast(_) => 7,
            Op::View(View::Reshape(_)) => 8,
            Op::View(View::Permute(p)) => mix(9, u64::from_le_bytes(*p)),
            Op::View(View::Expand(_)) => 10,
            Op::View(View::Slice { axis, .. }) => mix(11, b(*axis)),
            Op::View(View::Flip(a)) => mix(12, b(a.0)),
            Op::Pad(_) => 13,
            Op::Concat { axis } => mix(14, b(*axis)),
            Op::UpdateSlice { axis } => mix(15, b(*axis)),
            Op::Reduce { op, axes } => mix(16, b(axes.0) << 8 | *op as u64),
            Op::ArgReduce { op, axis } => mix(17, b(*axis) << 8 | *op as u64),
            Op::Scan { op, axis, reverse } => mix(18, b(*axis) << 16 | (*reverse as u64) << 8 | *op as u64),
            Op::Matmul => 19,
            Op::Conv(c) => mix(20, hash_of(c)),
            Op::Window(w) => mix(21, hash_of(w)),
            Op::Gather { axis } => mix(22, b(*axis)),
            Op::Scatter { axis, mode } => mix(23, b(*axis) << 8 | *mode as u64),
            Op::Sort { axis, descending } => mix(24, b(*axis) << 8 | *descending as u64),
            Op::Transfer(d) => mix(25, d.0 as u64),
            Op::Collective { kind, group } => mix(mix(26, hash_of(kind)), group.id),
            Op::StopGrad => 27,
            Op::Composite(c) => mix(28, c.key()),
        }
    }
    /// The sizes inside the op that its output's shape does not tell.
    pub fn sizes(&self) -> u64 {
        match self {
            Op::View(View::Slice { len, step, .. }) => mix(*len as u64, *step as u64),
            Op::Pad(p) => hash_of(p),
            _ => 0,
        }
    }

    /// The types of the outputs, or why the op cannot be applied.
    ///
    /// # Errors
    /// Shapes, dtypes or axes that do not go together.
    pub fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        match self {
            Op::Composite(c) => c.infer(inputs),
            // The values, and where they came from.
            Op::Sort { .. } => self.infer_first(inputs).map(|values| smallvec![values, TensorType { dtype: DType::I64, ..values }]),
            Op::Window(spec) if spec.op == WindowOp::Max => {
                self.infer_first(inputs).map(|values| smallvec![values, TensorType { dtype: DType::I64, ..values }])
            }
            _ => self.infer_first(inputs).map(|only| smallvec![only]),
        }
    }
    /// Has it one output, whatever its inputs?
    pub fn has_one_output(&self) -> bool {
        match self {
            Op::Composite(_) | Op::Sort { .. } => false,
            Op::Window(spec) => spec.op != WindowOp::Max,
            _ => true,
        }
    }
    /// The type of the first output.
    pub fn infer_first(&self, inputs: &[TensorType]) -> Result<TensorType, ErrorKind> {
        let arity = |n: usize| {
            if inputs.len() == n { Ok(()) } else { Err(ErrorKind::Internal(format!("{} takes {n} inputs, got {}", self.name(), inputs.len()))) }
        };
        let compute = |d: DType| {
            if d.computes() { Ok(()) } else { Err(ErrorKind::Dtype(format!("{d} is a storage dtype; cast to a dtype with arithmetic first"))) }
        };
        let axis_in = |axis: u8, shape: &Shape| {
            if (axis as usize) < shape.rank() { Ok(axis as usize) } else { Err(ErrorKind::Axis { axis: axis as isize, rank: shape.rank() }) }
        };
        match self {
            Op::Input => Err(ErrorKind::Internal("an input is never applied".into())),
            Op::Const(ty) => {
                arity(0)?;
                Ok(*ty)
            }
            Op::Iota { axis, ty } => {
                arity(0)?;
                compute(ty.dtype)?;
                axis_in(*axis, &ty.shape)?;
                Ok(*ty)
            }
            Op::RandomBits { shape } => {
                arity(1)?;
                if inputs[0].dtype != DType::U32 || *inputs[0].shape != [4] {
                    return Err(ErrorKind::Shape { shape: inputs[0].shape, expected: "a random key is u32[4]".into() });
                }
                Ok(TensorType { shape: *shape, dtype: DType::U32 })
            }
            Op::Unary(u) => {
                arity(1)?;
                compute(inputs[0].dtype)?;
                Ok(TensorType { dtype: u.infer(inputs[0].dtype)?, ..inputs[0] })
            }
            Op::Binary(b) => {
                arity(2)?;
                let (l, r) = (&inputs[0], &inputs[1]);
                if l.dtype != r.dtype {
                    return Err(ErrorKind::DtypeMismatch { left: l.dtype, right: r.dtype });
                }
                compute(l.dtype)?;
                let shape = broadcast(&l.shape, &r.shape)?;
                Ok(TensorType { shape, dtype: b.infer(l.dtype)? })
            }
            Op::BinaryScalar(b, _) => {
                arity(1)?;
                compute(inputs[0].dtype)?;
                Ok(TensorType { dtype: b.infer(inputs[0].dtype)?, ..inputs[0] })
            }
            Op::Select => {
                arity(3)?;
                if inputs[0].dtype != DType::Bool {
                    return Err(ErrorKind::Dtype(format!("the condition of select is bool, not {}", inputs[0].dtype)));
                }
                if inputs[1].dtype != inputs[2].dtype {
                    return Err(ErrorKind::DtypeMismatch { left: inputs[1].dtype, right: inputs[2].dtype });
                }
                let shape = broadcast(&broadcast(&inputs[0].shape, &inputs[1].shape)?, &inputs[2].shape)?;
                Ok(TensorType { shape, ..inputs[1] })
            }
            Op::Cast(d) => {
                arity(1)?;
                Ok(TensorType { dtype: *d, ..inputs[0] })
            }
            Op::Bitcast(d) => {
                arity(1)?;
                if d.size() != inputs[0].dtype.size() || *d == DType::Bool {
                    return Err(ErrorKind::Dtype(format!("{} cannot be read as {d}: sizes differ or not every bit pattern is valid", inputs[0].dtype)));
                }
                Ok(TensorType { dtype: *d, ..inputs[0] })
            }
            Op::View(v) => {
                arity(1)?;
                Ok(TensorType { shape: v.infer(&inputs[0].shape)?, ..inputs[0] })
            }
            Op::Pad(p) => {
                arity(1)?;
                if p.widths.len() != inputs[0].shape.rank() {
                    return Err(ErrorKind::Argument(format!("{} pairs of widths for {} axes", p.widths.len(), inputs[0].shape.rank())));
                }
                let mut dims: SmallVec<[usize; MAX_RANK]> = SmallVec::new();
                for (&d, &(lo, hi)) in inputs[0].shape.iter().zip(&p.widths) {
                    let size = (d as i128) + lo as i128 + hi as i128;
                    // A cut may not reach past what is there, even if the other side adds it back.
                    if size < 0 || (d as i128 + lo as i128) < 0 || (d as i128 + hi as i128) < 0 {
                        return Err(ErrorKind::Argument(format!("padding ({lo}, {hi}) leaves nothing of an axis of size {d}")));
                    }
                    dims.push(usize::try_from(size).map_err(|_| ErrorKind::Argument("padding is too large".into()))?);
                }
                Ok(TensorType { shape: Shape::new(&dims)?, ..inputs[0] })
            }
            Op::Concat { axis } => {
                let first = inputs.first().ok_or_else(|| ErrorKind::Argument("nothing to concatenate".into()))?;
                let a = axis_in(*axis, &first.shape)?;
                let mut total = 0usize;
                for m in inputs {
                    if m.dtype != first.dtype {
                        return Err(ErrorKind::DtypeMismatch { left: first.dtype, right: m.dtype });
                    }
                    if m.shape.rank() != first.shape.rank() {
                        return Err(ErrorKind::ShapeMismatch { left: first.shape, right: m.shape, axes: None, expected: "ranks must be equal" });
                    }
                    if let Some(k) = (0..m.shape.rank()).find(|&k| k != a && m.shape[k] != first.shape[k]) {
                        return Err(ErrorKind::ShapeMismatch {
                            left: first.shape,
                            right: m.shape,
                            axes: Some((k, k)),
                            expected: "sizes must be equal on all axes but the joined one",
                        });
                    }
                    total = total.saturating_add(m.shape[a]);
                }
                let mut dims = Dims::from_slice(&first.shape);
                dims[a] = total;
                Ok(TensorType { shape: Shape::new(&dims)?, ..*first })
            }
            Op::UpdateSlice { axis } => {
                arity(2)?;
                let (d, s) = (&inputs[0], &inputs[1]);
                if d.dtype != s.dtype {
                    return Err(ErrorKind::DtypeMismatch { left: d.dtype, right: s.dtype });
                }
                let a = axis_in(*axis, &d.shape)?;
                if d.shape.rank() != s.shape.rank() {
                    return Err(ErrorKind::ShapeMismatch { left: d.shape, right: s.shape, axes: None, expected: "ranks must be equal" });
                }
                if let Some(k) = (0..d.shape.rank()).find(|&k| k != a && d.shape[k] != s.shape[k] || s.shape[k] > d.shape[k]) {
                    return Err(ErrorKind::ShapeMismatch {
                        left: d.shape,
                        right: s.shape,
                        axes: Some((k, k)),
                        expected: "the source must fit into the destination",
                    });
                }
                Ok(*d)
            }
            Op::Reduce { op, axes } => {
                arity(1)?;
                compute(inputs[0].dtype)?;
                let m = inputs[0];
                let mut shape = m.shape;
                for a in axes.iter() {
                    axis_in(a as u8, &m.shape)?;
                    if m.shape[a] == 0 && matches!(op, ReduceOp::Max | ReduceOp::Min) {
                        return Err(ErrorKind::Shape { shape: m.shape, expected: format!("axis {a} is empty, and an extreme of nothing does not exist") });
                    }
                    shape = shape.with(a, 1);
                }
                let dtype = match op {
                    ReduceOp::Sum | ReduceOp::Prod => m.dtype.sum_dtype(),
                    _ => m.dtype,
                };
                Ok(TensorType { shape, dtype, ..m })
            }
            Op::ArgReduce { axis, .. } => {
                arity(1)?;
                compute(inputs[0].dtype)?;
                let a = axis_in(*axis, &inputs[0].shape)?;
                if inputs[0].shape[a] == 0 {
                    return Err(ErrorKind::Shape { shape: inputs[0].shape, expected: format!("axis {a} is empty, and an extreme of nothing does not exist") });
                }
                Ok(TensorType { shape: inputs[0].shape.with(a, 1), dtype: DType::I64, ..inputs[0] })
            }
            Op::Scan { op, axis, .. } => {
                arity(if *op == ScanOp::LinearRecurrence { 2 } else { 1 })?;
                compute(inputs[0].dtype)?;
                axis_in(*axis, &inputs[0].shape)?;
                let dtype = match op {
                    ScanOp::Sum | ScanOp::Prod => inputs[0].dtype.sum_dtype(),
                    _ => inputs[0].dtype,
                };
                if *op == ScanOp::LinearRecurrence {
                    if !dtype.is_float() {
                        return Err(ErrorKind::Dtype(format!("a linear recurrence needs floats, not {dtype}")));
                    }
                    if inputs[1].dtype != dtype {
                        return Err(ErrorKind::DtypeMismatch { left: dtype, right: inputs[1].dtype });
                    }
                    if inputs[0].shape != inputs[1].shape {
                        return Err(ErrorKind::ShapeMismatch {
                            left: inputs[0].shape,
                            right: inputs[1].shape,
                            axes: None,
                            expected: "coefficients and inputs must have one shape",
                        });
                    }
                }
                Ok(TensorType { dtype, ..inputs[0] })
            }
            Op::Matmul => {
                arity(2)?;
                let (a, b) = (&inputs[0], &inputs[1]);
                if a.dtype != b.dtype {
                    return Err(ErrorKind::DtypeMismatch { left: a.dtype, right: b.dtype });
                }
                compute(a.dtype)?;
                if a.dtype == DType::Bool {
                    return Err(ErrorKind::Dtype("matmul is not defined for bool".into()));
                }
                let r = a.shape.rank();
                if r < 2 || b.shape.rank() != r {
                    return Err(ErrorKind::ShapeMismatch {
                        left: a.shape,
                        right: b.shape,
                        axes: None,
                        expected: "both must be matrices, or batches of equal rank",
                    });
                }
                if a.shape[r - 1] != b.shape[r - 2] {
                    return Err(ErrorKind::ShapeMismatch { left: a.shape, right: b.shape, axes: Some((r - 1, r - 2)), expected: "inner sizes must be equal" });
                }
                if let Some(k) = (0..r - 2).find(|&k| a.shape[k] != b.shape[k]) {
                    return Err(ErrorKind::ShapeMismatch { left: a.shape, right: b.shape, axes: Some((k, k)), expected: "batch sizes must be equal" });
                }
                Ok(TensorType { shape: a.shape.with(r - 1, b.shape[r - 1]), ..*a })
            }
            Op::Conv(spec) => {
                arity(2)?;
                Ok(TensorType { shape: spec.infer(&inputs[0], &inputs[1])?, ..inputs[0] })
            }
            Op::Window(spec) => {
                arity(1)?;
                Ok(TensorType { shape: spec.infer(&inputs[0])?, ..inputs[0] })
            }
            Op::Gather { axis } => {
                arity(2)?;
                index_shapes(*axis, &inputs[0], &inputs[1])?;
                Ok(TensorType { shape: inputs[1].shape, ..inputs[0] })
            }
            Op::Scatter { axis, .. } => {
                arity(3)?;
                index_shapes(*axis, &inputs[0], &inputs[1])?;
                if inputs[0].dtype != inputs[2].dtype {
                    return Err(ErrorKind::DtypeMismatch { left: inputs[0].dtype, right: inputs[2].dtype });
                }
                if inputs[1].shape != inputs[2].shape {
                    return Err(ErrorKind::ShapeMismatch {
                        left: inputs[1].shape,
                        right: inputs[2].shape,
                        axes: None,
                        expected: "index and source must have one shape",
                    });
                }
                Ok(inputs[0])
            }
            Op::Sort { axis, .. } => {
                arity(1)?;
                compute(inputs[0].dtype)?;
                axis_in(*axis, &inputs[0].shape)?;
                Ok(inputs[0])
            }
            Op::Transfer(_) => {
                arity(1)?;
                Ok(inputs[0])
            }
            Op::Collective { .. } => {
                arity(1)?;
                compute(inputs[0].dtype)?;
                Ok(inputs[0])
            }
            Op::StopGrad => {
                arity(1)?;
                Ok(inputs[0])
            }
            Op::Composite(c) => c.infer(inputs)?.first().copied().ok_or_else(|| ErrorKind::Internal(format!("{} has no output", c.name()))),
        }
    }
}

/// The broadcast shape, or an error that names the axes that differ.
pub fn broadcast(a: &Shape, b: &Shape) -> Result<Shape, ErrorKind> {
    a.broadcast(b).ok_or_else(|| {
        let axes = (1..=a.rank().min(b.rank())).map(|k| (a.rank() - k, b.rank() - k)).find(|&(i, j)| a[i] != b[j] && a[i] != 1 && b[j] != 1);
        ErrorKind::ShapeMismatch { left: *a, right: *b, axes, expected: "shapes do not broadcast" }
    })
}

fn index_shapes(axis: u8, x: &TensorType, index: &TensorType) -> Result<(), ErrorKind> {
    if !index.dtype.is_int() {
        return Err(ErrorKind::Dtype(format!("an index is an integer tensor, not {}", index.dtype)));
    }
    let a = axis as usize;
    if a >= x.shape.rank() {
        return Err(ErrorKind::Axis { axis: a as isize, rank: x.shape.rank() });
    }
    if index.shape.rank() != x.shape.rank() {
        return Err(ErrorKind::ShapeMismatch { left: x.shape, right: index.shape, axes: None, expected: "index and tensor must have the same number of axes" });
    }
    match (0..x.shape.rank()).find(|&k| k != a && index.shape[k] > x.shape[k]) {
        Some(k) if index.shape.elements() > 0 => Err(ErrorKind::ShapeMismatch {
            left: x.shape,
            right: index.shape,
            axes: Some((k, k)),
            expected: "the index may not be larger than the tensor on other axes",
        }),
        _ => Ok(()),
    }
}

impl View {
    fn infer(&self, shape: &Shape) -> Result<Shape, ErrorKind> {
        match self {
            View::Reshape(to) => {
                if to.elements() != shape.elements() {
                    return Err(ErrorKind::ShapeMismatch { left: *shape, right: *to, axes: None, expected: "the number of elements must stay the same" });
                }
                Ok(*to)
            }
            View::Permute(perm) => {
                let mut seen = 0u16;
                let mut out = *shape;
                for k in 0..shape.rank() {
                    let p = perm[k] as usize;
                    if p >= shape.rank() || seen >> p & 1 == 1 {
                        return Err(ErrorKind::Argument(format!("{:?} is no permutation of {} axes", &perm[..shape.rank()], shape.rank())));
                    }
                    seen |= 1 << p;
                    out = out.with(k, shape[p]);
                }
                Ok(out)
            }
            View::Expand(to) => {
                if shape.broadcast(to) == Some(*to) {
                    Ok(*to)
                } else {
                    Err(ErrorKind::ShapeMismatch { left: *shape, right: *to, axes: None, expected: "only axes of size 1 expand, and leading axes are added" })
                }
            }
            View::Slice { axis, len, step } => {
                let a = *axis as usize;
                if a >= shape.rank() {
                    return Err(ErrorKind::Axis { axis: a as isize, rank: shape.rank() });
                }
                if *step == 0 {
                    return Err(ErrorKind::Argument("the step of a slice is at least 1".into()));
                }
                // Where it starts is an argument and is checked by the caller.
                if *len > 0 && (len - 1).saturating_mul(*step) >= shape[a] {
                    return Err(ErrorKind::Index { index: ((len - 1).saturating_mul(*step)) as i64, bound: shape[a], position: None });
                }
                Ok(shape.with(a, *len))
            }
            View::Flip(axes) => match axes.iter().find(|&a| a >= shape.rank()) {
                Some(a) => Err(ErrorKind::Axis { axis: a as isize, rank: shape.rank() }),
                None => Ok(*shape),
            },
        }
    }
}

/// Output size of a window along one axis, or `None` if the window does not fit.
pub fn window_size(size: usize, window: usize, stride: usize, (lo, hi): (usize, usize), dilation: usize) -> Option<usize> {
    let reach = window.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
    let padded = size.checked_add(lo)?.checked_add(hi)?;
    Some(padded.checked_sub(reach)? / stride + 1)
}

impl ConvSpec {
    /// Number of spatial axes.
    pub fn spatial(&self) -> usize {
        self.stride.len()
    }
    fn infer(&self, a: &TensorType, b: &TensorType) -> Result<Shape, ErrorKind> {
        let s = self.spatial();
        if a.dtype != b.dtype {
            return Err(ErrorKind::DtypeMismatch { left: a.dtype, right: b.dtype });
        }
        if !a.dtype.is_float() || !a.dtype.computes() {
            return Err(ErrorKind::Dtype(format!("convolution needs floats, not {}", a.dtype)));
        }
        if !(1..=3).contains(&s) || self.padding.len() != s || self.dilation.len() != s {
            return Err(ErrorKind::Argument("stride, padding and dilation need one entry per spatial axis (1 to 3)".into()));
        }
        if self.groups == 0 || self.stride.contains(&0) || self.dilation.contains(&0) {
            return Err(ErrorKind::Argument("groups, stride and dilation are at least 1".into()));
        }
        for m in [a, b] {
            if m.shape.rank() != s + 2 {
                return Err(ErrorKind::Shape { shape: m.shape, expected: format!("{} axes: two and {s} spatial ones", s + 2) });
            }
        }
        let g = self.groups;
        let differ = |i: usize, j: usize, expected| ErrorKind::ShapeMismatch { left: a.shape, right: b.shape, axes: Some((i, j)), expected };
        let mut dims: SmallVec<[usize; 5]> = SmallVec::new();
        match self.role {
            ConvRole::Forward => {
                if a.shape[1] != b.shape[1].saturating_mul(g) {
                    return Err(differ(1, 1, "the input's channels must be groups times the weight's"));
                }
                if b.shape[0] % g != 0 {
                    return Err(ErrorKind::Argument(format!("{} output channels do not divide into {g} groups", b.shape[0])));
                }
                dims.extend([a.shape[0], b.shape[0]]);
                for k in 0..s {
                    let out = window_size(a.shape[2 + k], b.shape[2 + k], self.stride[k], self.padding[k], self.dilation[k]);
                    dims.push(out.ok_or_else(|| ErrorKind::ShapeMismatch {
                        left: a.shape,
                        right: b.shape,
                        axes: Some((2 + k, 2 + k)),
                        expected: "the kernel must fit into the padded input",
                    })?);
                }
            }
            ConvRole::InputGrad => {
                if a.shape[1] != b.shape[0] {
                    return Err(differ(1, 0, "the input's channels must be the weight's first axis"));
                }
                if b.shape[0] % g != 0 {
                    return Err(ErrorKind::Argument(format!("{} channels do not divide into {g} groups", b.shape[0])));
                }
                dims.extend([a.shape[0], b.shape[1] * g]);
                self.check_open(&a.shape[2..], &b.shape[2..], &self.open)?;
                dims.extend(self.open.iter().copied());
            }
            ConvRole::WeightGrad => {
                if a.shape[0] != b.shape[0] {
                    return Err(differ(0, 0, "batch sizes must be equal"));
                }
                if a.shape[1] % g != 0 || b.shape[1] % g != 0 {
                    return Err(ErrorKind::Argument(format!("channels {} and {} do not divide into {g} groups", a.shape[1], b.shape[1])));
                }
                dims.extend([b.shape[1], a.shape[1] / g]);
                self.check_open(&b.shape[2..], &self.open, &a.shape[2..])?;
                dims.extend(self.open.iter().copied());
            }
        }
        Shape::new(&dims)
    }
    fn check_open(&self, y: &[usize], w: &[usize], x: &[usize]) -> Result<(), ErrorKind> {
        for k in 0..self.spatial() {
            let (Some(&w), Some(&x)) = (w.get(k), x.get(k)) else {
                return Err(ErrorKind::Argument("an open size per spatial axis is needed".into()));
            };
            if window_size(x, w, self.stride[k], self.padding[k], self.dilation[k]) != Some(y[k]) {
                return Err(ErrorKind::Argument(format!("an input of size {x} with a kernel of {w} does not give an output of {}", y[k])));
            }
        }
        Ok(())
    }
}
impl WindowSpec {
    /// Number of spatial axes.
    pub fn spatial(&self) -> usize {
        self.size.len()
    }
    fn infer(&self, x: &TensorType) -> Result<Shape, ErrorKind> {
        let s = self.spatial();
        let r = x.shape.rank();
        if !x.dtype.computes() || x.dtype == DType::Bool {
            return Err(ErrorKind::Dtype(format!("windows need numbers, not {}", x.dtype)));
        }
        if !(1..=3).contains(&s) || self.stride.len() != s || self.padding.len() != s || self.dilation.len() != s || r < s {
            return Err(ErrorKind::Shape {
                shape: x.shape,
                expected: format!("at least {s} axes, and one size, stride, padding and dilation for each spatial one"),
            });
        }
        if self.stride.contains(&0) || self.dilation.contains(&0) || self.size.contains(&0) {
            return Err(ErrorKind::Argument("size, stride and dilation of a window are at least 1".into()));
        }
        let mut dims: SmallVec<[usize; MAX_RANK]> = SmallVec::from_slice(&x.shape);
        for k in 0..s {
            let axis = r - s + k;
            let (size, pad) = (self.size[k], self.padding[k]);
            if self.op == WindowOp::Max && (pad.0 * 2 > self.dilation[k] * (size - 1) + 1 || pad.1 >= self.dilation[k] * (size - 1) + 1 + self.stride[k]) {
                return Err(ErrorKind::Argument(format!("padding {} is more than half of the reach of a window of {size}", pad.0)));
            }
            if self.op == WindowOp::SumTransposed {
                let open = *self.open.get(k).ok_or_else(|| ErrorKind::Argument("an open size per spatial axis is needed".into()))?;
                if window_size(open, size, self.stride[k], pad, self.dilation[k]) != Some(x.shape[axis]) {
                    return Err(ErrorKind::Argument(format!("windows of {size} over {open} do not give {}", x.shape[axis])));
                }
                dims[axis] = open;
            } else {
                dims[axis] = window_size(x.shape[axis], size, self.stride[k], pad, self.dilation[k])
                    .ok_or_else(|| ErrorKind::Shape { shape: x.shape, expected: format!("axis {axis} padded by {pad:?} must hold a window of {size}") })?;
            }
        }
        Shape::new(&dims)
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Const(m) => write!(f, "full{}", m.shape),
            Op::Iota { axis, .. } => write!(f, "iota{{axis: {axis}}}"),
            Op::BinaryScalar(b, Side::Left) => write!(f, "scalar_{}", b.name()),
            Op::BinaryScalar(b, Side::Right) => write!(f, "{}_scalar", b.name()),
            Op::Cast(d) => write!(f, "cast{{{d}}}"),
            Op::Bitcast(d) => write!(f, "bitcast{{{d}}}"),
            Op::View(v) => write!(f, "{v:?}"),
            Op::Pad(p) => write!(f, "pad{:?}", p.widths),
            Op::Concat { axis } => write!(f, "concat{{axis: {axis}}}"),
            Op::UpdateSlice { axis } => write!(f, "update_slice{{axis: {axis}}}"),
            Op::Reduce { axes, .. } => write!(f, "{}{axes:?}", self.name()),
            Op::ArgReduce { axis, .. } => write!(f, "{}{{axis: {axis}}}", self.name()),
            Op::Scan { axis, reverse, .. } => write!(f, "{}{{axis: {axis}, reverse: {reverse}}}", self.name()),
            Op::Conv(c) => write!(f, "{}{{stride: {:?}, padding: {:?}, dilation: {:?}, groups: {}}}", self.name(), c.stride, c.padding, c.dilation, c.groups),
            Op::Window(w) => write!(f, "{}{{size: {:?}, stride: {:?}, padding: {:?}}}", self.name(), w.size, w.stride, w.padding),
            Op::Gather { axis } => write!(f, "gather{{axis: {axis}}}"),
            Op::Scatter { axis, mode } => write!(f, "scatter{{axis: {axis}, mode: {mode:?}}}"),
            Op::Sort { axis, descending } => write!(f, "sort{{axis: {axis}, descending: {descending}}}"),
            Op::Composite(c) => {
                write!(f, "{}{{", c.name())?;
                for (k, (name, value)) in c.attrs().iter().enumerate() {
                    write!(f, "{}{name}: {value}", if k > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
            _ => f.write_str(self.name()),
        }
    }
}
