//! The primitives, as data. An op is one only if its access pattern cannot be written with the others
//! without asymptotic loss, or (scalar functions) if composing it loses accuracy. The set is closed under
//! its own gradients.
//!
//! Each primitive is one file: its spec, its rule of shapes, its cost and its meaning in plain f64. Here is what they have in
//! common, and who is asked.
//!
//! An [`Op`] holds structure (what a plan is compiled for) and sizes; what changes from call to call —
//! a scalar operand, the start of a slice — is an [`Arg`] beside it and never part of a plan's key.
use crate::{
    DType, DeviceId, ErrorKind, HostArray, Scalar, Shape, TensorType, Types,
    composite::Keyed,
    cost::Cost,
    fault::Fault,
    hash::{hash_of, mix},
    kernel::KernelKind,
    scalar::{Binary, Unary},
    shape::AxisSet,
};
use smallvec::smallvec;
use std::{fmt, sync::Arc};

pub(crate) mod arg_reduce;
pub(crate) mod collective;
pub(crate) mod concat;
pub(crate) mod conv;
pub mod form;
pub(crate) mod gather;
pub(crate) mod map;
pub(crate) mod matmul;
pub(crate) mod pad;
pub(crate) mod reduce;
mod rules;
pub(crate) mod scan;
pub(crate) mod scatter;
pub(crate) mod segment_reduce;
pub(crate) mod sort;
pub(crate) mod update_slice;
pub(crate) mod view;
pub(crate) mod window;

pub use arg_reduce::ArgOp;
pub use collective::{CollectiveKind, Group, RankUse, rank_parts, tree_nodes};
pub use conv::{ConvRole, ConvSpec};
pub use pad::PadSpec;
pub use reduce::ReduceOp;
use rules::arity;
pub use rules::broadcast;
pub use scan::ScanOp;
pub use scatter::ScatterMode;
pub use segment_reduce::{SegmentOp, segment};
pub use view::View;
pub use window::{WindowOp, WindowSpec, window_size};

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
    /// (data, offsets): `[lead.., n, rest..]` and `[lead.., segments + 1]` give `[lead.., segments, rest..]`, each segment being
    /// the elements along the axis from its offset to the next one.
    SegmentReduce { op: SegmentOp, axis: u8 },
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

/// The list of the primitives, which every crate that has a file for each expands: the file's name, the op, and what of the op
/// its functions are given. Where a primitive is listed, its file is part of the crate, and a function that it lacks is an
/// error of the compiler; so a new primitive is a variant of [`Op`], a row here, and its files.
///
/// Expands `$then! { planned { rows } kernels { rows } }`, a row being `file: pattern => (fields);`.
///
/// `planned` are ops that the planner knows by themselves: it makes programs, copies and fused kernels of them. `kernels` are
/// those that one kernel runs as they are ([`KernelKind::Primitive`]): its inputs are the
/// op's, any strides unless the op says otherwise, and its outputs are the op's, dense.
#[macro_export]
macro_rules! primitives {
    ($then:ident) => {
        $then! {
            planned {
                constant: $crate::Op::Input | $crate::Op::Const(_) => ();
                iota: $crate::Op::Iota { axis, .. } => (axis);
                random_bits: $crate::Op::RandomBits { shape } => (shape);
                unary: $crate::Op::Unary(function) => (function);
                binary: $crate::Op::Binary(function) => (function);
                binary_scalar: $crate::Op::BinaryScalar(function, side) => (function, side);
                select: $crate::Op::Select => ();
                cast: $crate::Op::Cast(to) => (to);
                bitcast: $crate::Op::Bitcast(_) => ();
                view: $crate::Op::View(view) => (view);
                pad: $crate::Op::Pad(spec) => (spec);
                concat: $crate::Op::Concat { axis } => (axis);
                update_slice: $crate::Op::UpdateSlice { axis } => (axis);
                reduce: $crate::Op::Reduce { op, axes } => (op, axes);
                matmul: $crate::Op::Matmul => ();
                conv: $crate::Op::Conv(spec) => (spec);
                scatter: $crate::Op::Scatter { axis, mode } => (axis, mode);
                transfer: $crate::Op::Transfer(to) => (to);
                collective: $crate::Op::Collective { kind, group } => (kind, group);
                stop_grad: $crate::Op::StopGrad => ();
            }
            kernels {
                arg_reduce: $crate::Op::ArgReduce { op, axis } => (op, axis);
                scan: $crate::Op::Scan { op, axis, reverse } => (op, axis, reverse);
                window: $crate::Op::Window(spec) => (spec);
                gather: $crate::Op::Gather { axis } => (axis);
                sort: $crate::Op::Sort { axis, descending } => (axis, descending);
                segment_reduce: $crate::Op::SegmentReduce { op, axis } => (op, axis);
            }
        }
    };
}

impl Op {
    /// The axis that the op's index points into.
    pub fn indexed_axis(&self) -> Option<usize> {
        match self {
            Op::Gather { axis } | Op::Scatter { axis, .. } | Op::SegmentReduce { axis, .. } => Some(*axis as usize),
            Op::Composite(c) if c.name() == "adamant.embedding" => Some(0),
            _ => None,
        }
    }
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
            Op::View(View::Diagonal(_)) => "diagonal",
            Op::View(View::Windows { .. }) => "windows",
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
            Op::SegmentReduce { op, .. } => op.name(),
            Op::Transfer(_) => "to",
            Op::Collective { kind, .. } => kind.name(),
            Op::StopGrad => "stop_grad",
            Op::Composite(c) => c.name(),
        }
    }
    /// The family of its kernel, one word for the functions that it combines by.
    pub fn family(&self) -> &'static str {
        match self {
            Op::ArgReduce { .. } => "arg_reduce",
            Op::Scan { .. } => "scan",
            Op::Window(_) => "window",
            Op::SegmentReduce { .. } => "segment_reduce",
            op => op.name(),
        }
    }
    /// Element-wise over the index space of its output: it can live inside any fused kernel.
    #[inline]
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
    #[inline]
    pub fn is_view(&self) -> bool {
        matches!(self, Op::View(_) | Op::StopGrad)
    }
    /// Its execution matters even if nobody reads the result.
    #[inline]
    pub fn is_effect(&self) -> bool {
        matches!(self, Op::Collective { .. })
    }
    /// Can the kernel find bad values in its data?
    pub fn can_fault(&self) -> bool {
        match self {
            Op::Gather { .. } | Op::Scatter { .. } | Op::SegmentReduce { .. } => true,
            Op::Composite(c) => c.can_fault(),
            _ => false,
        }
    }
    /// Two ops with the same code and the same ranks, dtypes and broadcasts are the same work, sizes apart.
    #[inline]
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
            Op::View(View::Diagonal(a)) => mix(30, b(a.0)),
            Op::View(View::Windows { axis, .. }) => mix(31, b(*axis)),
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
            Op::SegmentReduce { op, axis } => mix(29, b(*axis) << 8 | *op as u64),
        }
    }
    /// The sizes inside the op that its output's shape does not tell.
    #[inline]
    pub fn sizes(&self) -> u64 {
        match self {
            Op::View(View::Slice { len, step, .. } | View::Windows { size: len, step, .. }) => mix(*len as u64, *step as u64),
            Op::Pad(p) => hash_of(p),
            _ => 0,
        }
    }

    /// The cost of a primitive that reads and makes values of these types; of a composite, that it is not known.
    ///
    /// ```
    /// # use adamant_ir::{DType, Op, Shape, TensorType};
    /// let f32s = |shape: &[usize]| Shape::new(shape).map(|shape| TensorType { shape, dtype: DType::F32 }).map_err(|e| e.to_string());
    /// let product = Op::Matmul.cost(&[f32s(&[2, 3])?, f32s(&[3, 5])?], &[f32s(&[2, 5])?]);
    /// assert_eq!(product.flops, 2 * 2 * 3 * 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cost(&self, inputs: &[TensorType], outputs: &[TensorType]) -> Cost {
        let Some(made) = outputs.first() else { return Cost::default() };
        let is_of_floats = inputs.iter().any(|x| x.dtype.is_float());
        match self {
            Op::Matmul => matmul::cost(inputs, made),
            Op::Conv(spec) => conv::cost(spec, inputs, made),
            Op::Composite(composite) => Cost { unknown: vec![composite.name()], ..Cost::default() },
            // Positions, counts and masks are no floating-point numbers.
            _ if !is_of_floats => Cost::default(),
            Op::Unary(_) | Op::Binary(_) | Op::BinaryScalar(..) => Cost::elementwise(made.shape.elements()),
            Op::Reduce { .. } | Op::ArgReduce { .. } => reduce::cost(inputs),
            Op::Scan { op, .. } => scan::cost(*op, inputs),
            Op::Scatter { mode, .. } => scatter::cost(*mode, inputs),
            Op::SegmentReduce { .. } => segment_reduce::cost(inputs),
            Op::Window(spec) => window::cost(spec, made),
            // Moving, choosing, converting and comparing positions.
            _ => Cost::default(),
        }
    }

    /// What a primitive gives for these inputs, each output in plain f64 and rounded once, and the first fault in the data.
    ///
    /// # Errors
    /// An op that has no meaning without a device or other ranks; inputs that are missing.
    pub(crate) fn run(&self, arg: Arg, inputs: &[HostArray], types: &[TensorType]) -> Result<(Vec<HostArray>, Option<Fault>), ErrorKind> {
        let absent = || ErrorKind::Internal(format!("{} without its inputs or its type", self.name()));
        let ty = types.first().ok_or_else(absent)?;
        let input = |k: usize| inputs.get(k).ok_or_else(absent);
        let scalar = if let Arg::Scalar(s) = arg { s } else { Scalar::Int(0) };
        let start = if let Arg::Start(s) = arg { s } else { 0 };
        let one = |a: HostArray| Ok((vec![a], None));
        let faulty = |(a, fault): (HostArray, Option<Fault>)| Ok((vec![a], fault));
        match self {
            Op::Input => Err(ErrorKind::Internal("an input is never run".into())),
            op if op.is_map() => faulty(map::run(op, arg, inputs, ty)?),
            Op::StopGrad | Op::Transfer(_) => one(input(0)?.clone()),
            Op::View(v) => one(view::run(v, start, input(0)?, ty)),
            Op::Pad(p) => one(pad::run(p, scalar, input(0)?, ty)),
            Op::Concat { axis } => one(concat::run(*axis, inputs, ty)),
            Op::UpdateSlice { axis } => one(update_slice::run(*axis, start, [input(0)?, input(1)?], ty)),
            Op::Reduce { op, axes } => one(reduce::run(*op, *axes, input(0)?, ty)),
            Op::ArgReduce { op, axis } => one(arg_reduce::run(*op, *axis, input(0)?, ty)),
            Op::Scan { op, axis, reverse } => one(scan::run(*op, *axis, *reverse, inputs, ty)),
            Op::Matmul => one(matmul::run([input(0)?, input(1)?], ty)),
            Op::Conv(spec) => one(conv::run(spec, inputs, ty)),
            Op::Window(spec) => Ok((window::run(spec, input(0)?, types), None)),
            Op::Gather { axis } => faulty(gather::run(*axis, [input(0)?, input(1)?], ty)),
            Op::Scatter { axis, mode } => faulty(scatter::run(*axis, *mode, [input(0)?, input(1)?, input(2)?], ty)),
            Op::SegmentReduce { op, axis } => faulty(segment_reduce::run(*op, *axis, [input(0)?, input(1)?], ty)),
            Op::Sort { axis, descending } => Ok((sort::run(*axis, *descending, input(0)?, types), None)),
            Op::Collective { .. } => Err(ErrorKind::Internal("what other ranks hold is not known here".into())),
            _ => Err(ErrorKind::Internal(format!("{} has no meaning here", self.name()))),
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
    /// How many outputs it has, whatever its inputs; `None`: a composite, which may have any number.
    #[inline]
    pub fn outputs(&self) -> Option<usize> {
        match self {
            Op::Composite(_) => None,
            Op::Sort { .. } => Some(2),
            Op::Window(spec) if spec.op == WindowOp::Max => Some(2),
            _ => Some(1),
        }
    }
    /// Has it one output, whatever its inputs?
    #[inline]
    pub fn has_one_output(&self) -> bool {
        self.outputs() == Some(1)
    }
    /// The kernel that runs the op as it is; `None`: it is planned otherwise.
    pub fn kernel(&self) -> Option<KernelKind> {
        macro_rules! is_listed {
            (planned $planned:tt kernels { $($name:ident: $op:pat => $fields:tt;)* }) => {
                #[allow(unused_variables, reason = "the fields are for those who run the kernel")]
                match self {
                    Op::Matmul => Some(KernelKind::Matmul),
                    Op::Conv(spec) => Some(KernelKind::Conv(spec.clone())),
                    $($op => Some(KernelKind::Primitive(self.clone())),)*
                    Op::Composite(c) => Some(KernelKind::Composite(c.function().clone())),
                    _ => None,
                }
            };
        }
        crate::primitives!(is_listed)
    }
    /// Of an op that is a kernel of its own: must its inputs be dense in memory?
    pub fn reads_dense(&self) -> bool {
        matches!(self, Op::Conv(_) | Op::Window(_) | Op::Composite(_))
    }
    /// Which input holds the indices in which a kernel may find a fault.
    pub fn indices(&self) -> Option<usize> {
        match self {
            Op::Gather { .. } | Op::Scatter { .. } | Op::SegmentReduce { .. } => Some(1),
            _ => None,
        }
    }
    /// The type of the first output.
    ///
    /// # Errors
    /// As [`Op::infer`].
    #[inline]
    pub fn infer_first(&self, inputs: &[TensorType]) -> Result<TensorType, ErrorKind> {
        match self {
            Op::Input => Err(ErrorKind::Internal("an input is never applied".into())),
            op if op.is_map() => map::infer(op, inputs),
            Op::View(v) => Ok(TensorType { shape: v.infer(inputs)?, ..inputs[0] }),
            Op::Pad(p) => pad::infer(p, inputs),
            Op::Concat { axis } => concat::infer(*axis, inputs),
            Op::UpdateSlice { axis } => update_slice::infer(*axis, inputs),
            Op::Reduce { op, axes } => reduce::infer(*op, *axes, inputs),
            Op::ArgReduce { axis, .. } => arg_reduce::infer(*axis, inputs),
            Op::Scan { op, axis, .. } => scan::infer(*op, *axis, inputs),
            Op::Matmul => matmul::infer(inputs),
            Op::Conv(spec) => Ok(TensorType { shape: spec.infer(inputs)?, ..inputs[0] }),
            Op::Window(spec) => Ok(TensorType { shape: spec.infer(inputs)?, ..inputs[0] }),
            Op::Gather { axis } => gather::infer(*axis, inputs),
            Op::Scatter { axis, .. } => scatter::infer(*axis, inputs),
            Op::Sort { axis, .. } => sort::infer(*axis, inputs),
            Op::SegmentReduce { op, axis } => segment_reduce::infer(*op, *axis, inputs),
            Op::Composite(c) => c.infer(inputs)?.first().copied().ok_or_else(|| ErrorKind::Internal(format!("{} has no output", c.name()))),
            Op::Collective { kind, group } => collective::infer((kind, group), inputs),
            // The same type: values that are moved or stopped.
            op => {
                arity(op.name(), 1, inputs)?;
                Ok(inputs[0])
            }
        }
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
            Op::SegmentReduce { axis, .. } => write!(f, "{}{{axis: {axis}}}", self.name()),
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
