//! `Tensor`: a cheap handle on a value. What is wrong makes a failed tensor, with one typed error and its line; the first read returns it.
use crate::{
    Arg, DType, Device, Element, Error, ErrorKind, Meta, Op, Origin, Result, Scalar, Shape, TensorType,
    buffer::Buffer,
    grad::Tape,
    op::Side,
    promotion, record,
    recycle::Shared,
    scalar::{Binary, Class, Unary},
    scope,
    shape::ToShape,
    value::{Stored, Value},
};
use adamant_runtime::Metas;
use smallvec::SmallVec;
use std::sync::Arc;

mod advanced;
mod arithmetic;
pub(crate) mod compose;
mod create;
mod decompose;
mod dense;
mod diagonal;
mod display;
mod distance;
mod draws;
mod einsum;
mod equations;
mod factored;
mod fourier;
mod fourier_axes;
mod index;
mod indexing;
mod joining;
mod linalg;
mod low_rank;
mod matrix;
mod meta;
#[cfg(feature = "ndarray")]
mod ndarray;
mod next_after;
mod packed;
mod parts;
mod places;
mod polynomials;
mod read;
mod reading;
mod rearrange;
mod reduce;
mod refused;
mod scan;
mod shaping;
mod sort;
mod statistics;
mod views;

pub use create::Nested;
pub(crate) use decompose::factor;
pub use display::{PrintOptions, set_printoptions};
pub use distance::MatrixNorm;
pub(crate) use draws::PoissonCounts;
pub use factored::QrMode;
pub use fourier::FftNorm;
pub use index::{BagMode, ScatterReduce};
pub use indexing::{Ellipsis, IndexItem, IndexNumber, IndexSlice, NewAxis, ToIndex, ToIndexItem, stepped};
pub use joining::Indexing;
pub use low_rank::Lobpcg;
pub(crate) use packed::packed;
pub use reading::Reading;
use refused::{fail_all, failures, refused};
pub use statistics::Interpolation;

/// An n-dimensional array on a device. Cloning copies a handle; the elements are shared and never change.
///
/// ```
/// # use adamant_core::{Device, Tensor, tensor};
/// # Device::reference().make_current();
/// let x = tensor![1.0, 2.0];
/// let mut y = x.clone();
/// y = y + 1.0; // a new tensor: what x shows does not change
/// assert_eq!((x.to_vec::<f32>()?, y.to_vec::<f32>()?), (vec![1.0, 2.0], vec![2.0, 3.0]));
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// Numbers may stand on either side of an operator ([`promotion`] says of which types).
#[derive(Clone)]
pub struct Tensor {
    value: Shared<Value>,
    tape: Option<(Shared<Tape>, u8)>,
}

/// The outputs of one op.
pub type Outputs = SmallVec<[Tensor; 3]>;

#[cold]
fn no_difference() -> ErrorKind {
    ErrorKind::Dtype("bools have no difference: use logical_xor, or cast them to a dtype of numbers".into())
}

/// The right side of a binary method: a tensor or a Rust number, which takes the tensor's dtype unless it is a float beside integers
/// ([`promotion`]).
pub trait Operand {
    /// Which of the two it is.
    fn operand(&self) -> OperandRef<'_>;
}
/// A tensor or a number.
#[derive(Clone, Copy)]
pub enum OperandRef<'a> {
    /// a tensor
    Tensor(&'a Tensor),
    /// a number
    Scalar(Scalar),
}
impl Operand for Tensor {
    fn operand(&self) -> OperandRef<'_> {
        OperandRef::Tensor(self)
    }
}
impl Operand for &Tensor {
    fn operand(&self) -> OperandRef<'_> {
        OperandRef::Tensor(self)
    }
}
macro_rules! operand { ($($t:ty),*) => { $(impl Operand for $t { fn operand(&self) -> OperandRef<'_> { OperandRef::Scalar(Scalar::from(*self)) } })* } }
operand!(f32, f64, i32, i64, u8, u32, usize, bool, half::f16, half::bf16);
impl Operand for Scalar {
    fn operand(&self) -> OperandRef<'_> {
        OperandRef::Scalar(*self)
    }
}

impl Tensor {
    pub(crate) fn from_value(value: Shared<Value>) -> Tensor {
        Tensor { value, tape: None }
    }
    pub(crate) fn value(&self) -> &Shared<Value> {
        &self.value
    }
    pub(crate) fn tape(&self) -> Option<&(Shared<Tape>, u8)> {
        self.tape.as_ref()
    }
    pub(crate) fn with_leaf(self, leaf: Shared<Tape>) -> Tensor {
        Tensor { tape: Some((leaf, 0)), ..self }
    }
    pub(crate) fn with_tape(self, tape: Option<(Shared<Tape>, u8)>) -> Tensor {
        Tensor { tape, ..self }
    }
    /// A value with no data yet: the input of a captured body.
    pub(crate) fn placeholder(meta: Meta) -> Tensor {
        let stored = crate::schedule::no_buffer(meta);
        Tensor::from_value(record::ready(meta, Origin::here(), stored))
    }
    /// A tensor that has a shape and no data, for what looks at shapes only ([`crate::graph::Graph::capture`]). It takes no
    /// memory; to read it, or what was computed from it, is an error.
    ///
    /// ```
    /// # use adamant_core::{DType, Device, Meta, Shape, Tensor};
    /// let shape = Shape::new(&[1 << 20, 1 << 20]).map_err(|e| e.to_string())?;
    /// let huge = Tensor::shape_only(Meta { shape, dtype: DType::F32, device: Device::reference() });
    /// assert_eq!(huge.dims::<2>()?, [1 << 20, 1 << 20]);
    /// assert!(huge.sum(..).item::<f32>().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shape_only(meta: Meta) -> Tensor {
        Tensor::placeholder(meta)
    }
    /// A tensor that carries an error: every op on it gives the same one, every read returns it.
    pub fn failed(error: Error) -> Tensor {
        // A failed tensor has no meta anybody may see; the reference device is always there.
        let meta = Meta { shape: Shape::SCALAR, dtype: DType::F32, device: Device::reference() };
        let origin = Origin { at: error.location(), scope: Default::default(), called: Default::default() };
        Tensor::from_value(Value::failed(meta, origin, record::CAPTURE, error))
    }
    #[track_caller]
    pub(crate) fn fail(op: &'static str, kind: ErrorKind) -> Tensor {
        Tensor::failed(Error::new(op, kind))
    }
    /// What a function of this tensor gives that refuses it.
    #[track_caller]
    pub(crate) fn refused(&self, op: &'static str, kind: ErrorKind) -> Tensor {
        Tensor::failed(Error::new(op, kind).given([self.value.meta.ty()]))
    }
    /// The error this tensor carries, without running anything.
    pub fn error(&self) -> Option<Error> {
        self.value.error()
    }
    /// The tensor itself, or the error it carries, without running anything.
    ///
    /// # Errors
    /// The error of the op that failed, wherever it was.
    pub fn ok(self) -> Result<Tensor> {
        match self.error() {
            Some(e) => Err(e),
            None => Ok(self),
        }
    }
    /// Shape, dtype and device.
    pub(crate) fn meta(&self) -> Meta {
        self.value.meta
    }
    /// Does a gradient flow through it?
    pub fn is_tracked(&self) -> bool {
        self.tape.is_some()
    }
    /// The same value as a new leaf: `Grads::get` finds its gradient.
    #[track_caller]
    #[must_use]
    pub fn tracked(&self) -> Tensor {
        if self.value.is_failed() {
            return self.clone();
        }
        if !self.value.meta.dtype.is_float() {
            return Tensor::fail("tracked", ErrorKind::Dtype(format!("only floats have gradients, not {}", self.value.meta.dtype)));
        }
        let leaf = crate::grad::leaf(self.value.meta, Origin::here());
        Tensor { value: self.value.clone(), tape: Some((leaf, 0)) }
    }
    /// The same value outside the tape: no gradient flows through it. Nothing is copied.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// let x = tensor![3.0].tracked();
    /// let grads = (x.detach() * &x).sum(..).backward()?; // as if one factor were a constant
    /// assert_eq!(grads.get(&x).unwrap().item::<f32>()?, 3.0);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn detach(&self) -> Tensor {
        let records = crate::graph::records_stops() && self.value.meta.dtype.is_float();
        if (records || crate::transform::any()) && !self.value.is_failed() {
            return Tensor::apply_at(Op::StopGrad, Arg::None, &[self], Origin::here());
        }
        self.untaped()
    }
    /// The same value with no place on the tape of this thread. What transforms around it know of it stays.
    pub(crate) fn untaped(&self) -> Tensor {
        Tensor { value: self.value.clone(), tape: None }
    }

    /// Applies an op with one output.
    #[track_caller]
    pub fn apply(op: Op, arg: Arg, inputs: &[&Tensor]) -> Tensor {
        Tensor::apply_at(op, arg, inputs, Origin::here())
    }
    pub(crate) fn apply_at(op: Op, arg: Arg, inputs: &[&Tensor], origin: Origin) -> Tensor {
        Tensor::apply_single(op, arg, inputs, None, origin)
    }
    /// An op that reads no tensor, on a device.
    pub(crate) fn source(op: Op, arg: Arg, device: Device, origin: Origin) -> Tensor {
        Tensor::apply_single(op, arg, &[], Some(device), origin)
    }
    fn apply_single(op: Op, arg: Arg, inputs: &[&Tensor], source: Option<Device>, origin: Origin) -> Tensor {
        if op.has_one_output() && !crate::intercept::any() {
            return Tensor::apply_one(op, arg, inputs, source, scope::inherited().unwrap_or(origin));
        }
        let name = op.name();
        let mut out = Tensor::dispatch(op, arg, inputs, source, origin);
        out.truncate(1);
        out.pop().unwrap_or_else(|| Tensor::failed(Error::at(name, ErrorKind::Internal("no output".into()), origin)))
    }
    /// Applies an op with all its outputs. One that reads no tensor is on the current device.
    pub fn apply_many(op: Op, arg: Arg, inputs: &[&Tensor], origin: Origin) -> Outputs {
        Tensor::dispatch(op, arg, inputs, None, origin)
    }
    /// As [`Tensor::apply_many`], with the device of an op that reads no tensor.
    pub fn apply_many_on(device: Device, op: Op, arg: Arg, inputs: &[&Tensor], origin: Origin) -> Outputs {
        Tensor::dispatch(op, arg, inputs, Some(device), origin)
    }
    /// The general dispatch: every op is applied here or, if it has one output and no interceptor is there, by `apply_one`.
    fn dispatch(op: Op, arg: Arg, inputs: &[&Tensor], source: Option<Device>, origin: Origin) -> Outputs {
        let origin = scope::inherited().unwrap_or(origin);
        if let Some(e) = inputs.iter().find_map(|t| t.error()) {
            return fail_all(&op, e);
        }
        if crate::intercept::any() {
            return crate::intercept::apply(op, arg, inputs, source, origin);
        }
        Tensor::apply_below(op, arg, inputs, source, origin)
    }
    /// As `dispatch`, below the interceptors.
    pub(crate) fn apply_below(op: Op, arg: Arg, inputs: &[&Tensor], source: Option<Device>, origin: Origin) -> Outputs {
        if crate::transform::any() {
            return Tensor::apply_transformed(op, arg, inputs, source, origin);
        }
        if op.has_one_output() {
            return smallvec::smallvec![Tensor::apply_one(op, arg, inputs, source, origin)];
        }
        if let Some(e) = inputs.iter().find_map(|t| t.error()) {
            return fail_all(&op, e);
        }
        let outputs = match infer(&op, inputs, source) {
            Ok(outputs) => outputs,
            Err(kind) => return fail_all(&op, refused(&op, kind, inputs, origin)),
        };
        let on_tape = is_on_tape(&op, inputs).then(|| op.clone());
        let fails = failures(&op);
        let values = match record::record(op, arg, inputs, &outputs, origin) {
            Err(e) => return (0..fails).map(|_| Tensor::failed(e.clone())).collect(),
            Ok(values) => values,
        };
        let tape = on_tape.and_then(|op| crate::grad::record(op, arg, inputs, &values, origin));
        outputs_at(tape, values)
    }
    /// Applies an op below the interceptors and inside a transform: the innermost one interprets it, and the tape, which is
    /// that of the code inside, notes it as any other.
    fn apply_transformed(op: Op, arg: Arg, inputs: &[&Tensor], source: Option<Device>, origin: Origin) -> Outputs {
        if let Some(e) = inputs.iter().find_map(|t| t.error()) {
            return fail_all(&op, e);
        }
        let outputs = match infer(&op, inputs, source) {
            Ok(outputs) => outputs,
            Err(kind) => return fail_all(&op, refused(&op, kind, inputs, origin)),
        };
        let values = match crate::transform::apply(&op, arg, inputs, &outputs, origin) {
            Ok(values) => values,
            Err(e) => return fail_all(&op, e),
        };
        let tape = if is_on_tape(&op, inputs) { crate::grad::record(op, arg, inputs, &values, origin) } else { None };
        outputs_at(tape, values)
    }
    /// Applies an op with one output below the interceptors: what nearly every op takes, so it makes no lists.
    fn apply_one(op: Op, arg: Arg, inputs: &[&Tensor], source: Option<Device>, origin: Origin) -> Tensor {
        if let Some(failed) = inputs.iter().find(|t| t.value.is_failed()) {
            return failed.untaped();
        }
        if crate::transform::any() {
            let lost = || Tensor::failed(Error::at("transform", ErrorKind::Internal("no output".into()), origin));
            return Tensor::apply_transformed(op, arg, inputs, source, origin).into_iter().next().unwrap_or_else(lost);
        }
        if let Some(value) = record::ahead::run(&op, arg, inputs, origin) {
            let tape = if value.meta.dtype.is_float() && is_on_tape(&op, inputs) { tape_of(op, arg, inputs, &value, origin) } else { None };
            return Tensor { tape, value };
        }
        let inferred = device_of(inputs, source).and_then(|device| {
            let ty = match inputs {
                [] => op.infer_first(&[]),
                [a] => op.infer_first(&[a.value.meta.ty()]),
                [a, b] => op.infer_first(&[a.value.meta.ty(), b.value.meta.ty()]),
                _ => op.infer_first(&inputs.iter().map(|t| t.value.meta.ty()).collect::<SmallVec<[TensorType; 4]>>()),
            }?;
            Ok(Meta::new(ty, device))
        });
        let meta = match inferred {
            Ok(meta) => meta,
            Err(kind) => return Tensor::failed(refused(&op, kind, inputs, origin)),
        };
        if let (Op::Transfer(to), [input]) = (&op, inputs) {
            return match Device::of_id(*to) {
                Ok(to) => crate::transfer::transfer(input, to, origin),
                Err(kind) => Tensor::failed(Error::at("to", kind, origin)),
            };
        }
        if !(meta.dtype.is_float() && is_on_tape(&op, inputs)) {
            return match record::record_one(op, arg, inputs, meta, origin) {
                Ok(value) => Tensor::from_value(value),
                Err(e) => Tensor::failed(e),
            };
        }
        match record::record_one(op.clone(), arg, inputs, meta, origin) {
            Ok(value) => Tensor { tape: tape_of(op, arg, inputs, &value, origin), value },
            Err(e) => Tensor::failed(e),
        }
    }

    /// A unary function of the table. Integers are cast to f32 first where the function needs floats.
    #[track_caller]
    pub fn unary(&self, f: Unary) -> Tensor {
        if f.row().class == Class::Float && !self.value.meta.dtype.is_float() && !self.value.is_failed() {
            return self.cast(DType::F32).unary(f);
        }
        // The bits of a bool are one: flipped, they are its negation.
        let f = if f == Unary::BitNot && self.value.meta.dtype == DType::Bool { Unary::LogicalNot } else { f };
        Tensor::apply_at(Op::Unary(f), Arg::None, &[self], Origin::here())
    }
    /// A binary function of the table, broadcast. Sides of two dtypes meet by the rule of [`promotion`]; integers are cast to f32
    /// first where the function needs floats.
    #[track_caller]
    pub fn binary(&self, f: Binary, other: impl Operand) -> Tensor {
        self.binary_side(f, other.operand(), Side::Right)
    }
    /// A binary function with this tensor on the right: `scalar f self`.
    #[track_caller]
    pub fn binary_reversed(&self, f: Binary, left: impl Into<Scalar>) -> Tensor {
        self.binary_side(f, OperandRef::Scalar(left.into()), Side::Left)
    }
    #[track_caller]
    fn binary_side(&self, f: Binary, other: OperandRef<'_>, side: Side) -> Tensor {
        let origin = Origin::here();
        let dtype = self.value.meta.dtype;
        let float = f.row().class == Class::Float && !self.value.is_failed();
        match other {
            OperandRef::Tensor(t) => {
                if t.value.meta.dtype != dtype {
                    return self.binary_of_two_dtypes(f, t);
                }
                if float && !dtype.is_float() && !t.value.is_failed() {
                    let (a, b) = (self.cast(DType::F32), t.cast(DType::F32));
                    return Tensor::apply_at(Op::Binary(f), Arg::None, &[&a, &b], origin);
                }
                Tensor::apply_at(Op::Binary(f), Arg::None, &[self, t], origin)
            }
            OperandRef::Scalar(s) => {
                if self.value.is_failed() {
                    return self.clone();
                }
                if f == Binary::Pow && side == Side::Right && !dtype.is_float() && matches!(s, Scalar::Int(power) if power < 0) {
                    let why = format!("a negative power of integers ({dtype}) is a fraction: cast the tensor to a float dtype first");
                    return Tensor::fail("pow", ErrorKind::Argument(why));
                }
                if float && !dtype.is_float() {
                    return self.cast(DType::F32).binary_side(f, OperandRef::Scalar(s), side);
                }
                if !dtype.is_float()
                    && let Some(wider) = promotion::wider_for(s, dtype)
                {
                    if f == Binary::Sub && dtype == DType::Bool {
                        return Tensor::failed(refused(&Op::Binary(f), no_difference(), &[self], origin));
                    }
                    return self.cast(wider).binary_side(f, OperandRef::Scalar(s), side);
                }
                match s.fit(dtype) {
                    Ok(s) => Tensor::apply_at(Op::BinaryScalar(f, side), Arg::Scalar(s), &[self], origin),
                    Err(kind) => Tensor::failed(Error::at(f.name(), kind, origin)),
                }
            }
        }
    }
    #[cold]
    #[track_caller]
    fn binary_of_two_dtypes(&self, f: Binary, other: &Tensor) -> Tensor {
        if self.value.is_failed() || other.value.is_failed() {
            return Tensor::apply_at(Op::Binary(f), Arg::None, &[self, other], Origin::here());
        }
        // Integers become floats each by itself: -4 is no u8 on its way.
        let each = f.row().class == Class::Float && [self, other].iter().all(|t| !t.value.meta.dtype.is_float()) && !promotion::is_strict();
        match if each { Ok([self.cast(DType::F32), other.cast(DType::F32)]) } else { promotion::alike([self, other]) } {
            // No difference of bools, nor of one and a number: PyTorch's refusal.
            Ok(_) if f == Binary::Sub && [self, other].iter().any(|t| t.value.meta.dtype == DType::Bool) => {
                Tensor::failed(refused(&Op::Binary(f), no_difference(), &[self, other], Origin::here()))
            }
            Ok([a, b]) => a.binary(f, b),
            Err(kind) => Tensor::failed(refused(&Op::Binary(f), kind, &[self, other], Origin::here())),
        }
    }
    /// Converts the elements to another dtype: one rounding; floats to integers truncate toward zero; integers wrap.
    #[track_caller]
    #[must_use]
    pub fn cast(&self, dtype: DType) -> Tensor {
        if self.value.meta.dtype == dtype && !self.value.is_failed() {
            self.clone()
        } else {
            Tensor::apply_at(Op::Cast(dtype), Arg::None, &[self], Origin::here())
        }
    }
    /// The same values on another device.
    #[track_caller]
    #[must_use]
    pub fn to(&self, device: Device) -> Tensor {
        if self.value.meta.device == device && !self.value.is_failed() {
            self.clone()
        } else {
            Tensor::apply_at(Op::Transfer(device.id()), Arg::None, &[self], Origin::here())
        }
    }

    /// A tensor from a vector, which is adopted without a copy where the device can.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # Device::reference().make_current();
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [2, 2]);
    /// assert_eq!(x.sum(..).item::<f32>()?, 10.0);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    pub fn from_vec<T: Element>(data: Vec<T>, shape: impl ToShape) -> Tensor {
        match Device::current() {
            Ok(device) => Tensor::from_vec_on(data, shape, device),
            Err(e) => Tensor::failed(e),
        }
    }
    /// A tensor from a vector on a device.
    #[track_caller]
    pub fn from_vec_on<T: Element>(data: Vec<T>, shape: impl ToShape, device: Device) -> Tensor {
        Tensor::in_memory("from_vec", T::DTYPE, data.len(), shape, device, || device.pool().adopt(device, T::into_host(data)))
    }
    /// A tensor of `len` elements that `buffer` gives the memory of.
    #[track_caller]
    pub(crate) fn in_memory(
        op: &'static str,
        dtype: DType,
        len: usize,
        shape: impl ToShape,
        device: Device,
        buffer: impl FnOnce() -> std::result::Result<Arc<Buffer>, ErrorKind>,
    ) -> Tensor {
        let origin = Origin::here();
        let make = || -> std::result::Result<Tensor, ErrorKind> {
            let shape = shape.to_shape()?;
            if shape.elements() != len {
                return Err(ErrorKind::Shape { shape, expected: format!("{} elements, but {len} were given", shape.elements()) });
            }
            let stored = Stored::dense(buffer()?);
            Ok(Tensor::from_value(record::ready(Meta { shape, dtype, device }, origin, stored)))
        };
        make().unwrap_or_else(|kind| Tensor::failed(Error::at(op, kind, origin)))
    }
    /// A tensor filled with one number, not computed until it is needed.
    #[track_caller]
    pub fn full_on(shape: impl ToShape, value: impl Into<Scalar>, dtype: DType, device: Device) -> Tensor {
        let origin = Origin::here();
        match shape.to_shape().and_then(|shape| Ok((shape, value.into().fit(dtype)?))) {
            Ok((shape, value)) => Tensor::source(Op::Const(TensorType { shape, dtype }), Arg::Scalar(value), device, origin),
            Err(kind) => Tensor::failed(Error::at("full", kind, origin)),
        }
    }
    /// Zeros of the same shape, dtype and device.
    #[track_caller]
    #[must_use]
    pub fn zeros_like(&self) -> Tensor {
        self.full_like(Scalar::Int(0))
    }
    /// Ones of the same shape, dtype and device.
    #[track_caller]
    #[must_use]
    pub fn ones_like(&self) -> Tensor {
        self.full_like(Scalar::Int(1))
    }
    /// One number in the same shape, dtype and device.
    #[track_caller]
    pub fn full_like(&self, value: impl Into<Scalar>) -> Tensor {
        if self.value.is_failed() {
            return self.clone();
        }
        let m = self.value.meta;
        match value.into().fit(m.dtype) {
            Ok(value) => Tensor::full_on(m.shape, value, m.dtype, m.device),
            Err(kind) => self.refused("full_like", kind),
        }
    }

    /// Computes the value now, so that it lies in its device's memory. Reading a tensor does the same; call it to say when.
    ///
    /// # Errors
    /// The error this tensor carries, memory that could not be had, a fault found in data.
    #[doc(alias = "eval")]
    #[doc(alias = "realize")]
    pub fn materialize(&self) -> Result<()> {
        record::evaluate(&self.value)?;
        if self.value.is_in_memory() { Ok(()) } else { self.is_good() }
    }
    /// Computes the value, and says what is known of the data behind it without waiting for the device.
    pub(crate) fn begin(&self) -> Result<()> {
        record::evaluate(&self.value)?;
        if self.value.is_in_memory() {
            return Ok(());
        }
        self.value.stored().and_then(Stored::known_fault).map_or(Ok(()), Err)
    }
    /// Is a value that was computed good? Waits for the device, if it still looks.
    pub(crate) fn is_good(&self) -> Result<()> {
        match self.value.stored().and_then(Stored::fault) {
            Some(fault) => Err(fault),
            None => {
                self.value.is_good();
                Ok(())
            }
        }
    }
}
/// The one device that the inputs of an op are on; of an op without inputs, the one that is given, or the current one.
fn device_of(inputs: &[&Tensor], source: Option<Device>) -> std::result::Result<Device, ErrorKind> {
    match Device::common(inputs.iter().map(|t| t.value.meta.device))?.or(source) {
        Some(device) => Ok(device),
        None => Device::current().map_err(|e| e.kind().clone()),
    }
}
/// Shape, dtype and device of each output of an op: where its inputs are, or elsewhere if it moves them.
fn infer(op: &Op, inputs: &[&Tensor], source: Option<Device>) -> std::result::Result<Metas, ErrorKind> {
    let device = device_of(inputs, source)?;
    let device = if let Op::Transfer(to) = op { Device::of_id(*to)? } else { device };
    let types: SmallVec<[TensorType; 8]> = inputs.iter().map(|t| t.value.meta.ty()).collect();
    Ok(op.infer(&types)?.into_iter().map(|ty| Meta::new(ty, device)).collect())
}
/// The outputs of an op at their places on the tape, which only floats have.
fn outputs_at(tape: Option<Shared<Tape>>, values: impl IntoIterator<Item = Shared<Value>>) -> Outputs {
    let place = |k: usize, value: &Value| tape.clone().filter(|_| value.meta.dtype.is_float()).map(|t| (t, k as u8));
    values.into_iter().enumerate().map(|(k, value)| Tensor { tape: place(k, &value), value }).collect()
}
/// The place on the tape of an op's only output.
fn tape_of(op: Op, arg: Arg, inputs: &[&Tensor], value: &Shared<Value>, origin: Origin) -> Option<(Shared<Tape>, u8)> {
    crate::grad::record(op, arg, inputs, std::slice::from_ref(value), origin).map(|tape| (tape, 0))
}
/// Does a gradient flow from the inputs through the op?
fn is_on_tape(op: &Op, inputs: &[&Tensor]) -> bool {
    inputs.iter().any(|t| t.tape.is_some()) && !record::context(|c| c.grad_off.get()) && !matches!(op, Op::StopGrad)
}
