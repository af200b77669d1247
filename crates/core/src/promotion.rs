//! Which dtype an op of several dtypes computes in: PyTorch's rule ([torch.result_type]), by which every op whose sides are alike
//! (binary functions, `where`, `clamp`, `cat`, losses of two tensors) brings them to one dtype before it is applied. What is applied
//! has one dtype: interceptors, transforms, graphs and backends meet casts, and never two dtypes.
//!
//! Sides count by kind: tensors with axes before scalars (tensors without), and those before Rust numbers. A lower kind has a say
//! only where its sort of number (bool, integer, float) is wider than that of all above: `i32[3] + i64[]` is i32, `i32[3] + 0.5`
//! is f32, and `f16[3] * 0.5` is f16. Within a kind the dtypes meet by [`DType::promote`].
//!
//! A number never loses its value on the way: one out of the range of an integer dtype is refused, where PyTorch wraps it.
//!
//! Ops whose sides mean different things (products of matrices, `linear`, layers, `scatter`, `lerp`) refuse two dtypes, as in
//! PyTorch; [`promote`] brings two tensors together by hand.
//!
//! # Numbers
//! A number may stand on either side of an operator. On the right it is of any type; on the left it is an f64 or an i64, so that the
//! types of literals follow and methods may be called on what is computed:
//!
//! ```
//! # use adamant_core::{Device, tensor};
//! # Device::reference().make_current();
//! let t = tensor![1.0, 2.0];
//! let y = 1.0 + &t - 0.5 * &t;
//! let powers = (1.0 - &t).exp() * (2 * &t).sqrt();
//! let inverse = (1.0f64 / &t).log();
//! let (k, n) = (2.0, 3);
//! let scaled = (k * &t).exp() + (n * &t).abs();
//! # assert_eq!(y.to_vec::<f32>()?, [1.5, 2.0]);
//! # for t in [powers, inverse, scaled] { t.materialize()?; }
//! # Ok::<(), adamant_core::Error>(())
//! ```
//!
//! An f32 or i32 there is refused at compile time: with two float types Rust could not tell which one the `1.0` of `(1.0 - &t).exp()`
//! is (E0282). Write `f64::from(s) - &t`, or put it on the right, where `-&t + s` is the same.
//!
//! ```compile_fail,E0277
//! # use adamant_core::tensor;
//! let s: f32 = 1.0;
//! let y = s - tensor![1.0];
//! ```
//!
//! [torch.result_type]: https://docs.pytorch.org/docs/stable/generated/torch.result_type.html
use crate::{
    DType, Error, ErrorKind, Origin, Result, Scalar, Tensor,
    record::{context, with_switch},
    tensor::{Operand, OperandRef},
};

/// Runs `f` with no promotion between tensors or with numbers: two dtypes in one op are an error, as is a float beside integers.
/// It holds for this thread, and travels with an [`Ambient`](crate::Ambient).
///
/// ```
/// # use adamant_core::{Device, Tensor, promotion};
/// # Device::reference().make_current();
/// let (x, mask) = (Tensor::from_vec(vec![1.5f32, 2.5], [2]), Tensor::from_vec(vec![true, false], [2]));
/// assert_eq!((&mask * &x).to_vec::<f32>()?, [1.5, 0.0]);
/// let refused = promotion::strict(|| &mask * &x);
/// assert!(refused.materialize().is_err_and(|e| e.to_string().starts_with("mul: dtypes differ: left bool, right f32")));
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn strict<R>(f: impl FnOnce() -> R) -> R {
    with_switch(|c| &c.strict, true, f)
}
/// Are two dtypes in one op refused here?
pub fn is_strict() -> bool {
    context(|c| c.strict.get())
}
/// The dtype in which two sides meet: tensors or numbers.
///
/// ```
/// # use adamant_core::{DType, Device, Tensor, promotion::result_type};
/// # Device::reference().make_current();
/// let ids = Tensor::from_vec(vec![1i64, 2], [2]);
/// assert_eq!(result_type(&ids, 0.5)?, DType::F32);
/// assert_eq!(result_type(&ids, Tensor::from_vec(vec![0.5f64], []))?, DType::F64);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// The error a tensor carries; dtypes that PyTorch's table has no common one for; inside of [`strict`], two dtypes.
#[track_caller]
pub fn result_type(a: impl Operand, b: impl Operand) -> Result<DType> {
    let sides = [a.operand(), b.operand()];
    for side in &sides {
        if let OperandRef::Tensor(t) = side
            && let Some(error) = t.error()
        {
            return Err(error);
        }
    }
    common(&sides).map_err(|kind| Error::at("result_type", kind, Origin::here()))
}
/// Both tensors in the dtype in which they meet.
///
/// ```
/// # use adamant_core::{DType, Device, Tensor, promotion::promote};
/// # Device::reference().make_current();
/// let (a, b) = promote(&Tensor::ones([2, 2]), &Tensor::eye(2).cast(DType::F64));
/// assert_eq!(a.matmul(&b).dtype()?, DType::F64);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[track_caller]
pub fn promote(a: &Tensor, b: &Tensor) -> (Tensor, Tensor) {
    match result_type(a, b) {
        Ok(dtype) => (a.cast(dtype), b.cast(dtype)),
        Err(e) => (Tensor::failed(e.clone()), Tensor::failed(e)),
    }
}

/// The dtype in which sides of an op meet; the tensors among them have not failed.
pub(crate) fn common(sides: &[OperandRef<'_>]) -> std::result::Result<DType, ErrorKind> {
    let mut kinds = [None::<DType>; 3];
    let mut first = None;
    for side in sides {
        let (kind, dtype) = match side {
            OperandRef::Tensor(t) if t.rank() > 0 => (0, t.meta().dtype),
            OperandRef::Tensor(t) => (1, t.meta().dtype),
            OperandRef::Scalar(s) => (2, of_number(*s)),
        };
        if kind < 2 {
            let first = *first.get_or_insert(dtype);
            if first != dtype && is_strict() {
                return Err(ErrorKind::DtypeMismatch { left: first, right: dtype });
            }
        }
        kinds[kind] = Some(match kinds[kind] {
            Some(before) => meet(before, dtype)?,
            None => dtype,
        });
    }
    if let Some(dtype) = first.filter(|_| is_strict()) {
        return Ok(dtype);
    }
    let mut lower = None;
    for dtype in kinds.into_iter().rev().flatten() {
        lower = Some(match lower {
            Some(lower) if sort(lower) > sort(dtype) => meet(dtype, lower)?,
            _ => dtype,
        });
    }
    lower.ok_or_else(|| ErrorKind::Internal("no side gives a dtype".into()))
}
/// Tensors in the dtype in which they meet.
#[track_caller]
pub(crate) fn alike<const N: usize>(tensors: [&Tensor; N]) -> std::result::Result<[Tensor; N], ErrorKind> {
    let dtype = common(&tensors.map(OperandRef::Tensor))?;
    let mut alike = tensors.map(Tensor::clone);
    // No closure: the casts are of the caller's line.
    for t in &mut alike {
        *t = t.cast(dtype);
    }
    Ok(alike)
}
/// The wider dtype to which a tensor goes for a number of another sort: floats beside integers, integers beside bools.
pub(crate) fn wider_for(number: Scalar, dtype: DType) -> Option<DType> {
    let wide = of_number(number);
    (sort(wide) > sort(dtype) && !is_strict()).then_some(wide)
}
/// What a Rust number is on its own: PyTorch's default dtypes.
fn of_number(number: Scalar) -> DType {
    match number {
        Scalar::Bool(_) => DType::Bool,
        Scalar::Int(_) => DType::I64,
        Scalar::Float(_) => DType::F32,
    }
}
fn meet(left: DType, right: DType) -> std::result::Result<DType, ErrorKind> {
    left.promote(right).ok_or(ErrorKind::DtypeMismatch { left, right })
}
/// Bool, integer, float: the wider sort is the larger number.
fn sort(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 0,
        d if d.is_float() => 2,
        _ => 1,
    }
}
