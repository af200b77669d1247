//! The published table: how far a backend's result may lie from the reference's, for every primitive and dtype.
//!
//! | op | bound |
//! |---|---|
//! | integers and bool; views, copies, selections, comparisons, extremes, sorting, indices, casts | the same value |
//! | `+ - * /`, square, square root, rounding functions, sign, abs | the same bits (one rounding) |
//! | other scalar functions | [`FUNCTION_ULP`] ULP of the result in f32 and f64, 1 ULP in 16-bit floats |
//! | sums: `sum`, `cumsum`, `matmul`, `conv`, window sums, scattered sums, linear recurrences | n · eps · (the same op on absolute values), plus 1 ULP of the result; eps is that of f32 for 16-bit floats |
//! | products: `prod`, `cumprod`, scattered products | n · eps relative, plus 1 ULP |
//!
//! A device without f64 evaluates functions in f32, where those that cross zero between large terms keep the error of the
//! terms: it is held to twice the row's own ULP, of no less than the terms' size ([`check_on`]).
//!
//! An infinite or NaN result must be the same, but for these: where the absolute values alone overflow the accumulator
//! anything goes; where the factors of a product, taken in some order, leave the accumulator's range anything goes, and so it
//! does in a linear recurrence on a device that has no kernel for it, whose body takes products of factors ([`check_on`]); where
//! an input of a convolution holds an infinity or NaN, a result may be NaN, for zeros of the padding may be multiplied with it.
use adamant_core::{
    Arg, DType, Device, ErrorKind, HostArray, Op, TensorType,
    backend::Support,
    communicator,
    kernel::Fault,
    op::{ReduceOp, ScanOp, ScatterMode, SegmentOp, WindowOp},
    reference::{self, HostData},
    scalar::{Binary, Unary},
};

/// ULPs by which a scalar function that is no single rounding may miss, in f32 and f64.
pub const FUNCTION_ULP: f64 = 4.0;

/// ULPs of its largest element by which a result of several ops may miss, in f32 and f64; 16-bit floats: an eighth.
pub const COMPOSED_ULP: f64 = 64.0;

/// Compares the results of a function that is composed of several ops.
///
/// # Errors
/// The first element out of bounds, in words.
pub fn composed(got: &HostArray, want: &HostArray) -> Result<(), String> {
    if (got.shape, got.dtype) != (want.shape, want.dtype) {
        return Err(format!("{}{}, the reference gives {}{}", got.dtype, got.shape, want.dtype, want.shape));
    }
    let (HostData::Float(gs), HostData::Float(ws)) = (&got.data, &want.data) else {
        return if got.data == want.data { Ok(()) } else { Err(differ(0, got, want, "the same value")) };
    };
    let largest = ws.iter().filter(|v| v.is_finite()).fold(0.0f64, |m, v| m.max(v.abs()));
    let allowed = ulp(got.dtype, largest) * if got.dtype.size() == 2 { COMPOSED_ULP / 8.0 } else { COMPOSED_ULP };
    match gs.iter().zip(ws).position(|(&x, &y)| !(x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= allowed)) {
        None => Ok(()),
        Some(k) => Err(format!("element {k} ({}): got {:e}, the reference gives {:e}, allowed {allowed:e}", got.dtype, gs[k], ws[k])),
    }
}
/// The distance between neighbours at `v` in a dtype.
///
/// ```
/// # use adamant_conformance::tolerance::ulp;
/// # use adamant_core::DType;
/// assert_eq!([ulp(DType::F64, 1.0), ulp(DType::F32, 1.0)], [f64::EPSILON, f64::from(f32::EPSILON)]);
/// // Also below the normal numbers.
/// assert_eq!([ulp(DType::F64, 0.0), ulp(DType::F32, 1e-40)], [f64::from_bits(1), f64::from(f32::from_bits(1))]);
/// ```
pub fn ulp(dtype: DType, v: f64) -> f64 {
    let (digits, least) = match dtype {
        DType::F16 => (11, -14),
        DType::BF16 => (8, -126),
        DType::F32 => (24, -126),
        DType::F64 => (53, -1022),
        DType::F8E4M3 => (4, -6),
        DType::F8E5M2 => (3, -14),
        _ => return 1.0,
    };
    let exponent = if v == 0.0 || !v.is_finite() { least } else { (libm_exponent(v)).max(least) };
    let last = exponent - digits + 1;
    // The reciprocal that a power of a negative exponent is has overflowed where the power has not yet.
    if last < -1022 { f64::from_bits(1 << (last + 1074)) } else { 2f64.powi(last) }
}
/// The exponent e of v = m · 2^e, 1 <= m < 2.
fn libm_exponent(v: f64) -> i32 {
    let bits = (v.to_bits() >> 52 & 0x7ff) as i32;
    if bits == 0 { -1022 } else { bits - 1023 }
}
/// The unit roundoff of what sums of a dtype are accumulated in.
fn accumulator_eps(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 }
}
/// The largest number an accumulator of a dtype holds.
fn accumulator_max(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::MAX } else { f32::MAX as f64 }
}

/// The smallest normal number an accumulator of a dtype holds.
fn accumulator_min(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::MIN_POSITIVE } else { f32::MIN_POSITIVE as f64 }
}

/// How a primitive is bounded.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ToleranceBound {
    /// the same value
    Same,
    /// this many ULP of the result
    Ulp(f64),
    /// n terms are added
    Sum(usize),
    /// n factors are multiplied
    Product(usize),
}
fn unary_bound(f: Unary, dtype: DType) -> ToleranceBound {
    const ONE_ROUNDING: [&str; 22] = [
        "abs",
        "neg",
        "sign",
        "square",
        "sqrt",
        "relu",
        "trunc",
        "floor",
        "ceil",
        "round",
        "frac",
        "reciprocal",
        "isnan",
        "isinf",
        "isfinite",
        "isposinf",
        "isneginf",
        "signbit",
        "logical_not",
        "bitwise_not",
        "positive",
        "relu6",
    ];
    if !dtype.is_float() || ONE_ROUNDING.contains(&f.name()) { ToleranceBound::Same } else { function_bound(dtype) }
}
fn binary_bound(f: Binary, dtype: DType) -> ToleranceBound {
    const FUNCTIONS: [&str; 16] = [
        "polygamma",
        "pow",
        "atan2",
        "hypot",
        "logaddexp",
        "logaddexp2",
        "xlogy",
        "xlog1py",
        "floor_divide",
        "remainder",
        "zeta",
        "float_power",
        "fmod",
        "igamma",
        "igammac",
        "ldexp",
    ];
    if dtype.is_float() && FUNCTIONS.contains(&f.name()) { function_bound(dtype) } else { ToleranceBound::Same }
}
fn function_bound(dtype: DType) -> ToleranceBound {
    ToleranceBound::Ulp(if dtype.size() == 2 { 1.0 } else { FUNCTION_ULP })
}
/// The bound of a primitive on inputs of these types.
pub fn bound(op: &Op, inputs: &[HostArray]) -> ToleranceBound {
    let Some(x) = inputs.first() else { return ToleranceBound::Same };
    let dtype = x.dtype;
    let sum = |n: usize| if dtype.is_float() { ToleranceBound::Sum(n) } else { ToleranceBound::Same };
    let along = |axis: u8| x.shape[axis as usize];
    match op {
        Op::Unary(f) => unary_bound(*f, dtype),
        Op::Binary(f) | Op::BinaryScalar(f, _) => binary_bound(*f, dtype),
        Op::Reduce { op: ReduceOp::Sum, axes } => sum(axes.iter().map(|a| x.shape[a]).product()),
        Op::Reduce { op: ReduceOp::Prod, axes } if dtype.is_float() => ToleranceBound::Product(axes.iter().map(|a| x.shape[a]).product()),
        Op::Scan { op: ScanOp::Sum, axis, .. } => sum(along(*axis)),
        Op::Scan { op: ScanOp::LinearRecurrence, axis, .. } => sum(2 * along(*axis)),
        Op::Scan { op: ScanOp::Prod, axis, .. } if dtype.is_float() => ToleranceBound::Product(along(*axis)),
        Op::Matmul => sum(x.shape[x.shape.rank() - 1]),
        Op::Conv(_) => sum(x.len().max(inputs.get(1).map_or(0, HostArray::len))),
        Op::Window(w) if w.op != WindowOp::Max => sum(w.size.iter().product()),
        Op::SegmentReduce { op: SegmentOp::Sum, axis } => sum(along(*axis)),
        Op::Scatter { mode: ScatterMode::Add, .. } => sum(1 + inputs[1].len()),
        Op::Scatter { mode: ScatterMode::Mul, .. } if dtype.is_float() => ToleranceBound::Product(1 + inputs[1].len()),
        _ => ToleranceBound::Same,
    }
}

/// Compares what an op gave with what the reference gives on the same inputs. `Err` says where and by how much.
///
/// # Errors
/// The first element out of bounds, in words.
pub fn check(op: &Op, arg: Arg, inputs: &[HostArray], got: &[HostArray]) -> Result<(), String> {
    check_within(op, arg, inputs, got, None)
}
/// As [`check`], for a device that may have no f64, or no kernel for a recurrence.
///
/// # Errors
/// As [`check`].
pub fn check_on(device: Device, op: &Op, arg: Arg, inputs: &[HostArray], got: &[HostArray]) -> Result<(), String> {
    if multiplies_factors(device, op, inputs)? {
        return Ok(());
    }
    let function = match op {
        Op::Unary(f) => Some((f.name(), f.row().ulp)),
        Op::Binary(f) | Op::BinaryScalar(f, _) => Some((f.name(), f.row().ulp)),
        _ => None,
    };
    let narrow = function.filter(|_| !device.info().dtypes.contains(&DType::F64));
    check_within(op, arg, inputs, got, narrow.map(|(name, ulps)| (2.0 * ulps, size_of_terms(name))))
}
/// Is it a recurrence that the device says with other ops, and do products of its factors leave the accumulator's range?
fn multiplies_factors(device: Device, op: &Op, inputs: &[HostArray]) -> Result<bool, String> {
    let (Op::Scan { op: ScanOp::LinearRecurrence, axis, reverse }, Some(factors), Some(kernel)) = (op, inputs.first(), op.kernel()) else {
        return Ok(false);
    };
    let dtype = factors.dtype;
    if device.backend().supports(&kernel, &[dtype; 3]) == Support::Native {
        return Ok(false);
    }
    let op = Op::Scan { op: ScanOp::Prod, axis: *axis, reverse: *reverse };
    let out = TensorType { shape: factors.shape, dtype: DType::F64 };
    let [high, low] = extremes(&op, Arg::None, std::slice::from_ref(factors), &[out])?;
    Ok((0..factors.len()).any(|k| leaves_range(dtype, high[0].float(k), low[0].float(k))))
}
/// The largest and the smallest magnitude that part of a product can have, in any order.
fn extremes(op: &Op, arg: Arg, inputs: &[HostArray], types: &[TensorType]) -> Result<[Vec<HostArray>; 2], String> {
    let part = |clip: fn(f64) -> f64| -> Result<Vec<HostArray>, String> {
        let clipped = |a: &HostArray| HostArray::floats(a.shape, DType::F64, (0..a.len()).map(|k| clip(a.float(k).abs())));
        let inputs: Vec<HostArray> = inputs.iter().map(|a| if a.dtype.is_float() { clipped(a) } else { a.clone() }).collect();
        Ok(reference::run(op, arg, &inputs, types).map_err(|e| e.to_string())?.0)
    };
    Ok([part(|v| if v.is_finite() { v.max(1.0) } else { 1.0 })?, part(|v| if v == 0.0 { 1.0 } else { v.min(1.0) })?])
}
fn leaves_range(dtype: DType, high: f64, low: f64) -> bool {
    !(high < accumulator_max(dtype) / 2.0 && low > accumulator_min(dtype) * 2.0)
}
/// How large the terms are between which a function crosses zero.
fn size_of_terms(function: &str) -> f64 {
    match function {
        "bessel_j0" | "bessel_j1" | "bessel_y0" | "bessel_y1" | "sinc_derivative" | "lgamma" | "airy_ai" | "airy_ai_derivative" => 0.5,
        "logaddexp" | "logaddexp2" | "digamma" | "igamma" | "igammac" => 0.25,
        _ => 0.0,
    }
}
/// What the reference says. What ranks exchange, it does not know: their group carries it out.
fn meaning(op: &Op, arg: Arg, inputs: &[HostArray], types: &[TensorType]) -> Result<(Vec<HostArray>, Option<Fault>), ErrorKind> {
    match (op, inputs) {
        (Op::Collective { kind, group }, [x]) => Ok((vec![communicator::exchange_array(*kind, group, x, None)?], None)),
        _ => reference::run(op, arg, inputs, types),
    }
}
fn check_within(op: &Op, arg: Arg, inputs: &[HostArray], got: &[HostArray], in_f32: Option<(f64, f64)>) -> Result<(), String> {
    let types: Vec<TensorType> = got.iter().map(|a| TensorType { shape: a.shape, dtype: a.dtype }).collect();
    let (want, fault) = meaning(op, arg, inputs, &types).map_err(|e| e.to_string())?;
    if let Some(fault) = fault {
        return Err(format!("bad data was not reported: {fault:?}"));
    }
    let bound = bound(op, inputs);
    // What the sum of magnitudes is, for the bound of sums.
    let magnitude = match bound {
        ToleranceBound::Sum(_) => {
            let positive: Vec<HostArray> = inputs.iter().map(|a| if a.dtype.is_float() { wide(a) } else { a.clone() }).collect();
            let wide_types: Vec<TensorType> = types.iter().map(|m| if m.dtype.is_float() { TensorType { dtype: DType::F64, ..*m } } else { *m }).collect();
            Some(reference::run(op, arg, &positive, &wide_types).map_err(|e| e.to_string())?.0)
        }
        _ => None,
    };
    let parts = match bound {
        ToleranceBound::Product(_) => {
            let wide_types: Vec<TensorType> = types.iter().map(|m| if m.dtype.is_float() { TensorType { dtype: DType::F64, ..*m } } else { *m }).collect();
            Some(extremes(op, arg, inputs, &wide_types)?)
        }
        _ => None,
    };
    let wild = matches!(op, Op::Conv(_)) && inputs.iter().any(|a| (0..a.len()).any(|k| !a.float(k).is_finite()));
    for (k, (g, w)) in got.iter().zip(&want).enumerate() {
        let (HostData::Float(gs), HostData::Float(ws)) = (&g.data, &w.data) else {
            if g.data != w.data {
                return Err(differ(k, g, w, "the same value"));
            }
            continue;
        };
        for (at, (&x, &y)) in gs.iter().zip(ws).enumerate() {
            if x == y || (x.is_nan() && y.is_nan()) || (wild && x.is_nan()) {
                continue;
            }
            let allowed = match (bound, &magnitude) {
                (ToleranceBound::Same, _) => 0.0,
                (ToleranceBound::Ulp(n), _) => {
                    let in_f32 = in_f32.map_or(0.0, |(ulps, terms)| ulps * ulp(DType::F32, terms.max(y.abs())));
                    (n * ulp(g.dtype, y)).max(in_f32)
                }
                (ToleranceBound::Sum(n), Some(m)) => {
                    let m = m[k].float(at);
                    if !m.is_finite() || m >= accumulator_max(g.dtype) / 2.0 {
                        continue;
                    }
                    // Each term may be rounded to a number below the normal ones by itself.
                    let least = ulp(if g.dtype == DType::F64 { DType::F64 } else { DType::F32 }, 0.0);
                    n as f64 * (accumulator_eps(g.dtype) * m + least) + ulp(g.dtype, y)
                }
                (ToleranceBound::Product(n), _) => {
                    let leaves = |[high, low]: &[Vec<HostArray>; 2]| leaves_range(g.dtype, high[k].float(at), low[k].float(at));
                    if parts.as_ref().is_some_and(leaves) {
                        continue;
                    }
                    n as f64 * accumulator_eps(g.dtype) * y.abs() + ulp(g.dtype, y)
                }
                _ => 0.0,
            };
            // The largest finite number and infinity are neighbours.
            let near = |v: f64| if v.is_infinite() { v.signum() * (max_of(g.dtype) + ulp(g.dtype, max_of(g.dtype))) } else { v };
            // NaN is a failure, so this is not `>`.
            let close = (near(x) - near(y)).abs() <= allowed;
            if !close {
                return Err(format!("element {at} of output {k} ({}): got {x:e}, the reference gives {y:e}, allowed {allowed:e} ({bound:?})", g.dtype));
            }
        }
    }
    Ok(())
}
fn max_of(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65504.0,
        DType::BF16 => 3.3895313892515355e38,
        DType::F32 => f32::MAX as f64,
        DType::F8E4M3 => 448.0,
        DType::F8E5M2 => 57344.0,
        _ => f64::MAX,
    }
}
fn wide(a: &HostArray) -> HostArray {
    HostArray::floats(a.shape, DType::F64, (0..a.len()).map(|k| a.float(k).abs()))
}
fn differ(k: usize, got: &HostArray, want: &HostArray, what: &str) -> String {
    let at = (0..got.len().min(want.len())).find(|&i| got.scalar(i) != want.scalar(i));
    match at {
        Some(i) => format!("element {i} of output {k} ({}): got {}, the reference gives {}, expected {what}", got.dtype, got.scalar(i), want.scalar(i)),
        None => format!("output {k} ({}): {} elements, the reference gives {}", got.dtype, got.len(), want.len()),
    }
}
