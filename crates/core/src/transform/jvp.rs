//! Tangents: how the outputs of an op move when its inputs do. One exhaustive match over the primitives. A scalar
//! function's tangent is its gradient row with the tangent in the place of the cotangent, as the row is linear in it;
//! the rule of a composite is linear in the cotangent too, and its transpose is the tangent. Written in tensor code, so
//! that it can be differentiated, batched and pushed forward itself. Must not know how frames are kept.
//!
//! Griewank and Walther, "Evaluating Derivatives", 2008, chapter 3; JAX, "Autodidax", 2021.
use super::reverse::transposed;
use crate::{
    Arg, AxisSet, DType, Error, ErrorKind, Op, Result, Shape, Tensor,
    composite::{InTensors, Keyed, RuleArgs},
    grad::rules::{exclusive_product, expand_to, rounded_once, scan, shifted},
    op::{CollectiveKind, ConvSpec, PadSpec, ReduceOp, ScanOp, ScatterMode, Side, WindowOp, WindowSpec},
    scalar::{Binary, binary_gradients, unary_gradient},
    shape::MAX_RANK,
};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// A value and how it moves; `None`: it does not.
pub(super) struct Dual {
    pub primal: Tensor,
    pub tangent: Option<Tensor>,
}
type Tangents = SmallVec<[Option<Tensor>; 3]>;

/// The tangents of an op's outputs. At least one input moves.
///
/// # Errors
/// Whatever the rule's ops return.
pub(super) fn tangents(op: &Op, arg: Arg, x: &[Dual], y: &[Tensor]) -> Result<Tangents> {
    if let Op::Composite(c) = op {
        return composite(c, x, y);
    }
    let mut out: Tangents = smallvec![None; y.len()];
    out[0] = if y[0].meta().dtype.is_float() { tangent(op, arg, x, y)? } else { None };
    Ok(out)
}
/// The tangent of the first output of a primitive; the second, where there is one, is an index.
fn tangent(op: &Op, arg: Arg, x: &[Dual], y: &[Tensor]) -> Result<Option<Tensor>> {
    let t = |k: usize| x.get(k).and_then(|d| d.tangent.as_ref());
    let primal = |k: usize| &x[k].primal;
    // The same op on the tangent of a linear function's only input that moves.
    let same = |k: usize| t(k).map(|t| Tensor::apply(op.clone(), arg, &[t]));
    let moved = |k: usize| t(k).cloned().unwrap_or_else(|| primal(k).zeros_like());
    Ok(match op {
        Op::Input | Op::Const(_) | Op::Iota { .. } | Op::RandomBits { .. } | Op::Bitcast(_) | Op::ArgReduce { .. } | Op::StopGrad => None,
        Op::Unary(f) => match (unary_gradient(*f), t(0)) {
            (Some(row), Some(t)) => Some(rounded_once(false, [t, primal(0), &y[0]], |[t, x, y]| row(t, x, y))),
            _ => None,
        },
        Op::Binary(f) => binary_gradients(*f).and_then(|(left, right)| {
            let side = |k: usize, row: crate::scalar::BinaryRule| {
                t(k).map(|t| expand_to(&rounded_once(false, [t, primal(0), primal(1), &y[0]], |[t, a, b, y]| row(t, a, b, y)), &y[0]))
            };
            sum(side(0, left), side(1, right))
        }),
        Op::BinaryScalar(f, side) => match (binary_gradients(*f), arg, t(0)) {
            (Some(_), Arg::Scalar(s), Some(t)) if *f == Binary::Mul => Some(Tensor::apply(op.clone(), Arg::Scalar(s), &[t])),
            (Some((left, right)), Arg::Scalar(s), Some(t)) => {
                let c = t.full_like(s);
                Some(match side {
                    Side::Right => rounded_once(false, [t, primal(0), &c, &y[0]], |[t, x, c, y]| left(t, x, c, y)),
                    Side::Left => rounded_once(false, [t, &c, primal(0), &y[0]], |[t, c, x, y]| right(t, c, x, y)),
                })
            }
            _ => None,
        },
        Op::Select => {
            let side = |k: usize| t(k).cloned().unwrap_or_else(|| Tensor::full_on((), 0, y[0].meta().dtype, y[0].meta().device));
            let chosen = Tensor::apply(Op::Select, Arg::None, &[primal(0), &side(1), &side(2)]);
            Some(expand_to(&chosen, &y[0]))
        }
        Op::Cast(_) if !primal(0).meta().dtype.is_float() => None,
        Op::Cast(_) | Op::View(_) | Op::Transfer(_) => same(0),
        Op::Collective { kind: CollectiveKind::AllReduceSum | CollectiveKind::Broadcast { .. }, .. } => same(0),
        Op::Pad(widths) => t(0).map(|t| padded(t, widths)),
        Op::Concat { .. } => {
            let parts: Vec<Tensor> = (0..x.len()).map(moved).collect();
            Some(Tensor::apply(op.clone(), arg, &parts.iter().collect::<SmallVec<[&Tensor; 8]>>()))
        }
        Op::UpdateSlice { .. } => Some(Tensor::apply(op.clone(), arg, &[&moved(0), &moved(1)])),
        Op::Reduce { op: reduce, axes } => t(0).map(|t| reduced(*reduce, *axes, t, primal(0), &y[0])).transpose()?,
        Op::Scan { op: scanned, axis, reverse } => scan_tangent(*scanned, *axis, *reverse, x, &y[0])?,
        Op::Matmul => sum(t(0).map(|t| t.matmul(primal(1))), t(1).map(|t| primal(0).matmul(t))),
        Op::Conv(spec) => {
            let product = |a: &Tensor, b: &Tensor| Tensor::apply(crate::specs::conv_op(ConvSpec::clone(spec)), Arg::None, &[a, b]);
            sum(t(0).map(|t| product(t, primal(1))), t(1).map(|t| product(primal(0), t)))
        }
        Op::Window(spec) => t(0).map(|t| window(spec, t, y)).transpose()?,
        Op::Gather { axis } => t(0).map(|t| gather(*axis, t, primal(1))),
        Op::Scatter { axis, mode } => scatter_tangent(*axis, *mode, x, &y[0])?,
        Op::Sort { axis, .. } => t(0).map(|t| gather(*axis, t, &y[1])),
        Op::Composite(_) => return Err(Error::new("jvp", ErrorKind::Internal("composites are handled above".into()))),
    })
}

fn sum(a: Option<Tensor>, b: Option<Tensor>) -> Option<Tensor> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}
fn padded(t: &Tensor, widths: &PadSpec) -> Tensor {
    Tensor::apply(Op::Pad(Box::new(widths.clone())), Arg::Scalar(crate::Scalar::Float(0.0)), &[t])
}
fn gather(axis: u8, x: &Tensor, index: &Tensor) -> Tensor {
    Tensor::apply(Op::Gather { axis }, Arg::None, &[x, index])
}
fn scatter(axis: u8, mode: ScatterMode, x: &Tensor, index: &Tensor, source: &Tensor) -> Tensor {
    Tensor::apply(Op::Scatter { axis, mode }, Arg::None, &[x, index, source])
}

fn reduced(op: ReduceOp, axes: AxisSet, t: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    Ok(match op {
        ReduceOp::Sum => t.reduce(ReduceOp::Sum, axes, true),
        // The product of all others, without dividing.
        ReduceOp::Prod => (t * others(x, axes)?).reduce(ReduceOp::Sum, axes, true),
        // Equal extremes share, as they share the gradient; NaN moves what it won.
        ReduceOp::Max | ReduceOp::Min => {
            let hit = x.eq(y).logical_or(&x.isnan().logical_and(&y.isnan())).cast(t.meta().dtype);
            (&hit * t).reduce(ReduceOp::Sum, axes, true) / hit.reduce(ReduceOp::Sum, axes, true)
        }
    })
}
/// For each element the product of all others along the axes: running products from both sides.
pub(crate) fn others(x: &Tensor, axes: AxisSet) -> Result<Tensor> {
    let shape = x.meta().shape;
    let rank = shape.rank();
    let (kept, reduced): (Vec<usize>, Vec<usize>) = (0..rank).partition(|&k| !axes.has(k));
    let order: Vec<isize> = kept.iter().chain(&reduced).map(|&k| k as isize).collect();
    let n: usize = reduced.iter().map(|&k| shape[k]).product();
    let outer: usize = kept.iter().map(|&k| shape[k]).product();
    let flat = x.permute(&order).reshape([outer, n]);
    let product = exclusive_product(&flat, false) * exclusive_product(&flat, true);
    let moved: Vec<usize> = order.iter().map(|&k| shape[k as usize]).collect();
    let mut inverse = [0isize; MAX_RANK];
    for (k, &p) in order.iter().enumerate() {
        inverse[p as usize] = k as isize;
    }
    Ok(product.reshape(Shape::new(&moved).map_err(|k| Error::new("prod", k))?).permute(&inverse[..rank]))
}
fn scan_tangent(op: ScanOp, axis: u8, reverse: bool, x: &[Dual], y: &Tensor) -> Result<Option<Tensor>> {
    let t = |k: usize| x[k].tangent.as_ref();
    Ok(match (op, t(0)) {
        (ScanOp::Sum, Some(t)) => Some(scan(ScanOp::Sum, axis, reverse, &[t])),
        // y[i] = x[i] y[i-1], so y'[i] = x[i] y'[i-1] + x'[i] y[i-1].
        (ScanOp::Prod, Some(t)) => {
            let before = shifted(y, axis, reverse, 1.0);
            Some(scan(ScanOp::LinearRecurrence, axis, reverse, &[&x[0].primal, &(t * before)]))
        }
        (ScanOp::Max | ScanOp::Min, Some(t)) => Some(gather(axis, t, &setter(&x[0].primal, y, axis, reverse))),
        // h[i] = a[i] h[i-1] + b[i], so h'[i] = a[i] h'[i-1] + a'[i] h[i-1] + b'[i].
        (ScanOp::LinearRecurrence, a) => {
            let through = a.map(|t| t * shifted(y, axis, reverse, 0.0));
            sum(through, t(1).cloned()).map(|moved| scan(ScanOp::LinearRecurrence, axis, reverse, &[&x[0].primal, &moved]))
        }
        (_, None) => None,
    })
}
/// Which element set each running extreme: the latest that equals it, and every NaN.
fn setter(x: &Tensor, y: &Tensor, axis: u8, reverse: bool) -> Tensor {
    let n = x.meta().shape[axis as usize];
    let at = x.iota_like(axis as usize, DType::I64);
    let sets = x.eq(y).logical_or(&x.isnan());
    if reverse { scan(ScanOp::Min, axis, true, &[&sets.select(&at, n as i64)]) } else { scan(ScanOp::Max, axis, false, &[&sets.select(&at, 0i64)]) }
}
fn window(spec: &Arc<WindowSpec>, t: &Tensor, y: &[Tensor]) -> Result<Tensor> {
    if spec.op != WindowOp::Max {
        return Ok(Tensor::apply(crate::specs::window_op(WindowSpec::clone(spec)), Arg::None, &[t]));
    }
    // The index of each largest element, in its plane.
    let (from, to) = (t.meta().shape, y[0].meta().shape);
    let lead = from.rank() - spec.spatial();
    let flat = |s: &Shape| {
        let dims: SmallVec<[usize; MAX_RANK]> = s[..lead].iter().copied().chain([s[lead..].iter().product()]).collect();
        Shape::new(&dims).map_err(|k| Error::new("max_pool", k))
    };
    Ok(gather(lead as u8, &t.reshape(flat(&from)?), &y[1].reshape(flat(&to)?)).reshape(to))
}
fn scatter_tangent(axis: u8, mode: ScatterMode, x: &[Dual], y: &Tensor) -> Result<Option<Tensor>> {
    let (into, index, source) = (&x[0].primal, &x[1].primal, &x[2].primal);
    let (t, s) = (x[0].tangent.as_ref(), x[2].tangent.as_ref());
    let zeros = |of: &Tensor| of.zeros_like();
    Ok(Some(match mode {
        ScatterMode::Set | ScatterMode::Add => {
            let (t, s) = (t.cloned().unwrap_or_else(|| zeros(into)), s.cloned().unwrap_or_else(|| zeros(source)));
            scatter(axis, mode, &t, index, &s)
        }
        ScatterMode::Mul => {
            // Each factor moves the product of the others; where one of these is zero, counts of zeros tell.
            let dtype = y.meta().dtype;
            let (zero_x, zero_s) = (into.eq(0.0), source.eq(0.0));
            let (full_x, full_s) = (zero_x.select(1.0, into), zero_s.select(1.0, source));
            let rest = scatter(axis, ScatterMode::Mul, &full_x, index, &full_s);
            let zeros = scatter(axis, ScatterMode::Add, &zero_x.cast(dtype), index, &zero_s.cast(dtype));
            let share = |zero: &Tensor, zeros: &Tensor, rest: &Tensor, full: &Tensor| (zeros - zero.cast(dtype)).eq(0.0).select(rest / full, 0.0);
            let of_x = t.map(|t| t * share(&zero_x, &zeros, &rest, &full_x));
            let of_s = s.map(|s| s * share(&zero_s, &gather(axis, &zeros, index), &gather(axis, &rest, index), &full_s));
            let base = of_x.unwrap_or_else(|| y.zeros_like());
            of_s.map_or(base.clone(), |s| scatter(axis, ScatterMode::Add, &base, index, &s))
        }
        ScatterMode::Max | ScatterMode::Min => {
            let dtype = y.meta().dtype;
            let (hit_x, hit_s) = (into.eq(y).cast(dtype), source.eq(&gather(axis, y, index)).cast(dtype));
            let count = scatter(axis, ScatterMode::Add, &hit_x, index, &hit_s);
            let base = t.map_or_else(|| y.zeros_like(), |t| &hit_x * t);
            s.map_or(base.clone(), |s| scatter(axis, ScatterMode::Add, &base, index, &(&hit_s * s))) / count
        }
    }))
}

/// The tangents of a composite that brings a gradient rule, which is linear in the cotangents: its transpose.
fn composite(c: &Keyed, x: &[Dual], y: &[Tensor]) -> Result<Tangents> {
    let Some(saves) = c.saves() else {
        return Err(Error::new(c.name(), ErrorKind::Unsupported { backend: "any".into(), what: format!("the derivative of {}", c.name()) }));
    };
    let inputs: Vec<Option<Tensor>> = x.iter().enumerate().map(|(k, d)| saves.has_input(k).then(|| d.primal.clone())).collect();
    let outputs: Vec<Option<Tensor>> = y.iter().enumerate().map(|(k, y)| saves.has_output(k).then(|| y.clone())).collect();
    let metas: Vec<crate::Meta> = x.iter().map(|d| d.primal.meta()).collect();
    let needs: Vec<bool> = x.iter().map(|d| d.tangent.is_some()).collect();
    let rule = |cotangents: &[Option<Tensor>]| c.rule(&RuleArgs { inputs: &inputs, outputs: &outputs, metas: &metas, cotangents, needs: &needs });
    let moved: Vec<Option<Tensor>> = x.iter().map(|d| d.tangent.clone()).collect();
    transposed(rule, y, &moved)
}
