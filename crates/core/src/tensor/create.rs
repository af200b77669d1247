//! Making tensors: filled, ranges, from slices, iterators and nested literals, random.
use super::{
    Tensor,
    compose::{compose, refuse},
};
use crate::{Arg, DType, Device, Element, ErrorKind, Op, Origin, Rng, Scalar, Shape, TensorType, scope::call, shape::ToShape};

impl Tensor {
    /// A tensor that copies a slice into memory of the device, which on the CPU lies in huge pages where it is large;
    /// [`Tensor::from_vec`] takes a vector over where it lies.
    #[track_caller]
    pub fn from_slice<T: Element>(data: &[T], shape: impl ToShape) -> Tensor {
        match Device::current() {
            Ok(device) => {
                let copied = || device.pool().copied(device, bytemuck::cast_slice(data));
                Tensor::in_memory("from_slice", T::DTYPE, data.len(), shape, device, copied)
            }
            Err(e) => Tensor::failed(e),
        }
    }
    /// A vector of the elements of an iterator.
    #[allow(clippy::should_implement_trait, reason = "the trait has no place for a failed shape or a device")]
    #[track_caller]
    pub fn from_iter<T: Element>(data: impl IntoIterator<Item = T>) -> Tensor {
        let data = data.into_iter();
        let mut collected: Vec<T> = match reserved("from_iter", data.size_hint().0) {
            Ok(empty) => empty,
            Err(failed) => return failed,
        };
        for element in data {
            if collected.len() == collected.capacity() && collected.try_reserve(1).is_err() {
                return out_of_memory::<T>("from_iter", collected.len() + 1);
            }
            collected.push(element);
        }
        let len = collected.len();
        Tensor::from_vec(collected, len)
    }
    /// A tensor without axes that holds one element.
    #[track_caller]
    pub fn scalar<T: Element>(value: T) -> Tensor {
        let _call = call("scalar");
        Tensor::from_vec(vec![value], ())
    }
    /// A tensor from nested arrays, slices or vectors of any depth. Elements keep their Rust type.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # Device::reference().make_current();
    /// let rows = vec![vec![1.0f32, 2.0], vec![3.0, 4.0]];
    /// assert_eq!(Tensor::from_nested(&rows).dims::<2>()?, [2, 2]);
    /// let ragged = vec![vec![1.0f32, 2.0], vec![3.0]];
    /// assert!(Tensor::from_nested(&ragged).ok().unwrap_err().to_string().contains("[1]"));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result is a failed tensor if rows have different lengths; the error names the row.
    #[track_caller]
    pub fn from_nested<N: Nested>(nested: &N) -> Tensor {
        let _call = call("from_nested");
        let (mut sizes, mut data) = (Vec::new(), Vec::new());
        match nested.flatten(0, &mut sizes, &mut data) {
            Ok(()) => Tensor::from_vec(data, sizes),
            Err(kind) => Tensor::fail("from_nested", kind),
        }
    }
    /// What the macro [`tensor!`](crate::tensor!) makes: floats as f32 and integers as i64, PyTorch's defaults.
    #[doc(hidden)]
    #[track_caller]
    pub fn from_literal<N: Nested>(nested: &N) -> Tensor {
        let _call = call("from_literal");
        let kind = N::Item::DTYPE;
        if kind.is_float() {
            Tensor::from_literal_as::<f32, N>(nested)
        } else if kind.is_int() {
            Tensor::from_literal_as::<i64, N>(nested)
        } else {
            Tensor::from_nested(nested)
        }
    }
    /// As [`Tensor::from_literal`], with an element type.
    #[doc(hidden)]
    #[track_caller]
    pub fn from_literal_as<T: Element, N: Nested>(nested: &N) -> Tensor {
        let (mut sizes, mut data) = (Vec::new(), Vec::new());
        if let Err(kind) = nested.flatten(0, &mut sizes, &mut data) {
            return Tensor::fail("tensor", kind);
        }
        let mut converted: Vec<T> = match reserved("tensor", data.len()) {
            Ok(empty) => empty,
            Err(failed) => return failed,
        };
        for v in data {
            match v.to_scalar().fit(T::DTYPE) {
                Ok(Scalar::Float(f)) => converted.push(T::from_f64(f)),
                Ok(s) => converted.push(T::from_i64(s.to_i64())),
                Err(kind) => return Tensor::fail("tensor", kind),
            }
        }
        Tensor::from_vec(converted, sizes)
    }

    /// f32 zeros on the current device.
    #[track_caller]
    pub fn zeros(shape: impl ToShape) -> Tensor {
        let _call = call("zeros");
        Tensor::full(shape, 0.0f32, DType::F32)
    }
    /// f32 ones on the current device.
    #[track_caller]
    pub fn ones(shape: impl ToShape) -> Tensor {
        let _call = call("ones");
        Tensor::full(shape, 1.0f32, DType::F32)
    }
    /// f32 zeros: there are no uninitialised tensors.
    #[track_caller]
    pub fn empty(shape: impl ToShape) -> Tensor {
        let _call = call("empty");
        Tensor::zeros(shape)
    }
    /// Zeros of a dtype on a device.
    #[track_caller]
    pub fn zeros_on(shape: impl ToShape, dtype: DType, device: Device) -> Tensor {
        let _call = call("zeros_on");
        Tensor::full_on(shape, 0i64, dtype, device)
    }
    /// Ones of a dtype on a device.
    #[track_caller]
    pub fn ones_on(shape: impl ToShape, dtype: DType, device: Device) -> Tensor {
        let _call = call("ones_on");
        Tensor::full_on(shape, 1i64, dtype, device)
    }
    /// One number in every element, on the current device.
    #[track_caller]
    pub fn full(shape: impl ToShape, value: impl Into<Scalar>, dtype: DType) -> Tensor {
        let _call = call("full");
        match Device::current() {
            Ok(device) => Tensor::full_on(shape, value, dtype, device),
            Err(e) => Tensor::failed(e),
        }
    }
    /// `start, start + step, ...` up to and without `end`. Integers are exact; floats are `start + k * step`.
    #[track_caller]
    pub fn arange(start: impl Into<Scalar>, end: impl Into<Scalar>, step: impl Into<Scalar>, dtype: DType) -> Tensor {
        let _call = call("arange");
        match Device::current() {
            Ok(device) => Tensor::arange_on(start, end, step, dtype, device),
            Err(e) => Tensor::failed(e),
        }
    }
    /// As [`Tensor::arange`], on a device.
    #[track_caller]
    pub fn arange_on(start: impl Into<Scalar>, end: impl Into<Scalar>, step: impl Into<Scalar>, dtype: DType, device: Device) -> Tensor {
        let (start, end, step) = (start.into(), end.into(), step.into());
        compose("arange_on", &[], || {
            if step.to_f64() == 0.0 || !(start.to_f64().is_finite() && end.to_f64().is_finite() && step.to_f64().is_finite()) {
                return refuse(format!("a range from {start} to {end} by {step} has no end"));
            }
            let count = match (start, end, step) {
                (Scalar::Float(_), _, _) | (_, Scalar::Float(_), _) | (_, _, Scalar::Float(_)) => ((end.to_f64() - start.to_f64()) / step.to_f64()).ceil(),
                _ => {
                    let (span, step) = (end.to_i64() as i128 - start.to_i64() as i128, step.to_i64() as i128);
                    (span / step + (span % step != 0 && (span > 0) == (step > 0)) as i128) as f64
                }
            };
            if count < 0.0 || (end.to_f64() - start.to_f64()) * step.to_f64() < 0.0 {
                return refuse(format!("a range from {start} to {end} never gets there by steps of {step}"));
            }
            let shape = Shape::new(&[count as usize])?;
            let (start, step) = if dtype.is_float() { (start, step) } else { (Scalar::Int(start.to_i64()), Scalar::Int(step.to_i64())) };
            Ok(progression(shape, start, step, dtype, device))
        })
    }
    /// `steps` numbers from `start` to `end`, both included, evenly spaced.
    #[track_caller]
    pub fn linspace(start: f64, end: f64, steps: usize, dtype: DType) -> Tensor {
        compose("linspace", &[], || {
            let (shape, device) = (Shape::new(&[steps])?, Device::current()?);
            let wide = computed_in(dtype, device);
            if steps < 2 {
                return Ok(Tensor::full_on(shape, start, wide, device).cast(dtype));
            }
            // From both ends, so that the last number is `end` itself.
            let step = (end - start) / (steps - 1) as f64;
            let at = Tensor::source(Op::Iota { axis: 0, ty: TensorType { shape, dtype: wide } }, Arg::None, device, Origin::here());
            let up = &at * step + start;
            let down = (&at - (steps - 1) as f64) * step + end;
            Ok(at.lt((steps / 2) as f64).where_(up, down).cast(dtype))
        })
    }
    /// `base` to the powers of [`Tensor::linspace`].
    #[track_caller]
    pub fn logspace(start: f64, end: f64, steps: usize, base: f64, dtype: DType) -> Tensor {
        compose("logspace", &[], || {
            let wide = computed_in(dtype, Device::current()?);
            Ok(Tensor::linspace(start, end, steps, wide).binary_reversed(crate::scalar::Binary::Pow, base).cast(dtype))
        })
    }
    /// The f32 identity matrix of size n.
    #[track_caller]
    pub fn eye(n: usize) -> Tensor {
        let _call = call("eye");
        match Device::current() {
            Ok(device) => Tensor::eye_on(n, n, DType::F32, device),
            Err(e) => Tensor::failed(e),
        }
    }
    /// Ones where row and column are equal, zeros elsewhere.
    #[track_caller]
    pub fn eye_on(rows: usize, columns: usize, dtype: DType, device: Device) -> Tensor {
        compose("eye_on", &[], || {
            let ty = TensorType { shape: Shape::new(&[rows, columns])?, dtype: DType::I64 };
            let at = |axis| Tensor::source(Op::Iota { axis, ty }, Arg::None, device, Origin::here());
            Ok(at(0).eq(at(1)).cast(dtype))
        })
    }
    /// Row and column indices (i64, `[2, n]`) of the lower triangle of a matrix, up to the given diagonal.
    #[track_caller]
    pub fn tril_indices(rows: usize, columns: usize, diagonal: isize) -> Tensor {
        let _call = call("tril_indices");
        triangle_indices(rows, columns, |i, j| j - i <= diagonal)
    }
    /// Row and column indices (i64, `[2, n]`) of the upper triangle of a matrix, from the given diagonal on.
    #[track_caller]
    pub fn triu_indices(rows: usize, columns: usize, diagonal: isize) -> Tensor {
        let _call = call("triu_indices");
        triangle_indices(rows, columns, |i, j| j - i >= diagonal)
    }

    /// f32, uniform in [0, 1).
    #[track_caller]
    pub fn rand(shape: impl ToShape, rng: &Rng) -> Tensor {
        let _call = call("rand");
        rng.uniform(shape, DType::F32)
    }
    /// f32, standard normal. The same seed gives the same numbers on every device.
    ///
    /// ```
    /// # use adamant_core::{Device, Rng, Tensor};
    /// # Device::reference().make_current();
    /// let draw = |seed| Tensor::randn([2, 3], &Rng::new(seed)?).to_vec::<f32>();
    /// assert_eq!(draw(1)?, draw(1)?);
    /// assert_ne!(draw(1)?, draw(2)?);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    pub fn randn(shape: impl ToShape, rng: &Rng) -> Tensor {
        let _call = call("randn");
        rng.normal(shape, DType::F32)
    }
    /// i64, uniform in `low..high`. A range wider than 2³² is refused.
    #[track_caller]
    pub fn randint(low: i64, high: i64, shape: impl ToShape, rng: &Rng) -> Tensor {
        compose("randint", &[], || {
            let span = high as i128 - low as i128;
            if !(1..=1 << 32).contains(&span) {
                return refuse(format!("integers from {low} to {high}: the range must not be empty, nor wider than 2^32"));
            }
            // The upper half of bits * span (Lemire 2019, without the rejection: bias below span / 2^32). In two
            // parts, so that the product stays inside i64.
            let bits = rng.bits(shape.to_shape()?).cast(DType::I64);
            let (span_high, span_low) = (span as i64 >> 16, span as i64 & 0xFFFF);
            let low_part = (&bits * span_low).bitwise_right_shift(16i64);
            Ok((bits * span_high + low_part).bitwise_right_shift(16i64) + low)
        })
    }
    /// A random order of 0..n, i64.
    #[track_caller]
    pub fn randperm(n: usize, rng: &Rng) -> Tensor {
        // Two words in each key: equal keys, which would keep their order, are then out of question.
        compose("randperm", &[], || {
            let word = || rng.bits(n).cast(DType::I64);
            Ok((word().bitwise_right_shift(1i64) * (1i64 << 32) + word()).argsort(0, false))
        })
    }
}

/// Memory for so many elements, or the failed tensor that says that there is none.
#[track_caller]
fn reserved<T>(op: &'static str, len: usize) -> Result<Vec<T>, Tensor> {
    let mut empty = Vec::new();
    match empty.try_reserve_exact(len) {
        Ok(()) => Ok(empty),
        Err(_) => Err(out_of_memory::<T>(op, len)),
    }
}
#[track_caller]
fn out_of_memory<T>(op: &'static str, len: usize) -> Tensor {
    let in_use = Device::current().map_or(0, |d| d.memory().live_bytes);
    Tensor::fail(op, ErrorKind::OutOfMemory { asked: len.saturating_mul(size_of::<T>()), in_use, cap: None })
}
/// `start + k * step` in a shape of one axis.
fn progression(shape: Shape, start: Scalar, step: Scalar, dtype: DType, device: Device) -> Tensor {
    let wide = match dtype {
        DType::F64 => DType::F64,
        d if d.is_float() => DType::F32,
        _ => DType::I64,
    };
    let at = Tensor::source(Op::Iota { axis: 0, ty: TensorType { shape, dtype: wide } }, Arg::None, device, Origin::here());
    let scaled = if step.to_f64() == 1.0 { at } else { at * step };
    let moved = if start.to_f64() == 0.0 { scaled } else { scaled + start };
    moved.cast(dtype)
}
#[track_caller]
fn triangle_indices(rows: usize, columns: usize, inside: impl Fn(isize, isize) -> bool) -> Tensor {
    let pairs: Vec<(i64, i64)> =
        (0..rows as i64).flat_map(|i| (0..columns as i64).map(move |j| (i, j))).filter(|&(i, j)| inside(i as isize, j as isize)).collect();
    let n = pairs.len();
    Tensor::from_vec(pairs.iter().map(|p| p.0).chain(pairs.iter().map(|p| p.1)).collect(), [2, n])
}

/// A nested literal: what `tensor![[1.0, 2.0], [3.0, 4.0]]` and `Tensor::from_nested` take.
pub trait Nested {
    /// The element type.
    type Item: Element;
    /// Appends sizes (outermost first) and elements.
    ///
    /// # Errors
    /// Rows of different lengths, named by their index.
    fn flatten(&self, depth: usize, sizes: &mut Vec<usize>, data: &mut Vec<Self::Item>) -> Result<(), ErrorKind>;
}
macro_rules! nested_elements { ($($t:ty),*) => { $(impl Nested for $t {
    type Item = $t;
    fn flatten(&self, _: usize, _: &mut Vec<usize>, data: &mut Vec<$t>) -> Result<(), ErrorKind> {
        data.push(*self);
        Ok(())
    }
})* } }
nested_elements!(bool, u8, i8, i16, u16, i32, u32, i64, u64, f32, f64, half::f16, half::bf16);

fn flatten_rows<N: Nested>(rows: &[N], depth: usize, sizes: &mut Vec<usize>, data: &mut Vec<N::Item>) -> Result<(), ErrorKind> {
    match sizes.get(depth) {
        None => sizes.push(rows.len()),
        Some(&n) if n != rows.len() => {
            return Err(ErrorKind::Argument(format!("rows of different lengths: {} elements where the first row has {n}", rows.len())));
        }
        Some(_) => {}
    }
    for (k, row) in rows.iter().enumerate() {
        row.flatten(depth + 1, sizes, data).map_err(|e| match e {
            // The path to the row grows from the inside out: row [1][0].
            ErrorKind::Argument(s) => ErrorKind::Argument(match s.strip_prefix("row ") {
                Some(rest) => format!("row [{k}]{rest}"),
                None => format!("row [{k}]: {s}"),
            }),
            e => e,
        })?;
    }
    Ok(())
}
impl<N: Nested, const M: usize> Nested for [N; M] {
    type Item = N::Item;
    fn flatten(&self, depth: usize, sizes: &mut Vec<usize>, data: &mut Vec<N::Item>) -> Result<(), ErrorKind> {
        flatten_rows(self, depth, sizes, data)
    }
}
impl<N: Nested> Nested for [N] {
    type Item = N::Item;
    fn flatten(&self, depth: usize, sizes: &mut Vec<usize>, data: &mut Vec<N::Item>) -> Result<(), ErrorKind> {
        flatten_rows(self, depth, sizes, data)
    }
}
impl<N: Nested> Nested for Vec<N> {
    type Item = N::Item;
    fn flatten(&self, depth: usize, sizes: &mut Vec<usize>, data: &mut Vec<N::Item>) -> Result<(), ErrorKind> {
        flatten_rows(self, depth, sizes, data)
    }
}
impl<N: Nested + ?Sized> Nested for &N {
    type Item = N::Item;
    fn flatten(&self, depth: usize, sizes: &mut Vec<usize>, data: &mut Vec<N::Item>) -> Result<(), ErrorKind> {
        (**self).flatten(depth, sizes, data)
    }
}

/// A tensor from a literal: `tensor![[1.0, 2.0], [3.0, 4.0]]`, `tensor![1, 2, 3]`, `tensor![1, 2, 3; f64]`.
///
/// Floats become f32 and integers i64, PyTorch's defaults, whatever Rust type the literals have; an element type after
/// a semicolon says otherwise. Vectors of rows go through [`Tensor::from_nested`](crate::Tensor::from_nested), which keeps
/// the Rust type.
///
/// ```
/// use adamant_core::{tensor, DType, Device};
/// # Device::reference().make_current();
/// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].dtype()?, DType::F32);
/// assert_eq!(tensor![1, 2, 3].to_vec::<i64>()?, [1, 2, 3]);
/// assert_eq!(tensor![0.1, 0.2; f64].to_vec::<f64>()?, [0.1, 0.2]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[macro_export]
macro_rules! tensor {
    () => { $crate::Tensor::zeros([0usize]) };
    ($($row:expr),+ $(,)?) => { $crate::Tensor::from_literal(&[$($row),+]) };
    ($($row:expr),+ ; $t:ty) => { $crate::Tensor::from_literal_as::<$t, _>(&[$($row),+]) };
}

/// The float dtype in which evenly spaced numbers are computed.
fn computed_in(dtype: DType, device: Device) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        d if d.is_float() => DType::F32,
        _ => device.widest_float(),
    }
}
