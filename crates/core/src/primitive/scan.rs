//! Running combination along an axis.
use super::{Backward, Batching, Body, Forward, Stacks, gather::gather, one, scatter::scatter, sum};
use crate::{
    Arg, DType, Op, Result, Scalar, Tensor,
    composite::{Cotangents, Saves},
    op::{PadSpec, ScanOp, ScatterMode},
    schedule::lower,
};
use smallvec::{SmallVec, smallvec};

type Fields<'a> = (&'a ScanOp, &'a u8, &'a bool);

pub(super) fn scan(op: ScanOp, axis: u8, reverse: bool, inputs: &[&Tensor]) -> Tensor {
    Tensor::apply(Op::Scan { op, axis, reverse }, Arg::None, inputs)
}
/// x one step later along an axis (earlier if `reverse`), `fill` where nothing comes from.
fn shifted(x: &Tensor, axis: u8, reverse: bool, fill: f64) -> Tensor {
    let mut widths: SmallVec<[(isize, isize); 8]> = SmallVec::from_elem((0, 0), x.meta().shape.rank());
    if x.meta().shape[axis as usize] == 0 {
        return x.clone();
    }
    widths[axis as usize] = if reverse { (-1, 1) } else { (1, -1) };
    Tensor::apply(Op::Pad(Box::new(PadSpec { widths })), Arg::Scalar(Scalar::Float(fill)), &[x])
}
/// The product of all elements before (after) each one along the last axis.
pub(super) fn exclusive_product(x: &Tensor, reverse: bool) -> Tensor {
    let axis = (x.meta().shape.rank() - 1) as u8;
    shifted(&scan(ScanOp::Prod, axis, reverse, &[x]), axis, reverse, 1.0)
}
/// Which element set each running extreme: the latest that equals it, and every NaN.
fn setter(x: &Tensor, y: &Tensor, axis: u8, reverse: bool) -> Tensor {
    let n = x.meta().shape[axis as usize];
    let at = x.iota_like(axis as usize, DType::I64);
    let sets = x.eq(y).logical_or(&x.isnan());
    if reverse { scan(ScanOp::Min, axis, true, &[&sets.where_(&at, n as i64)]) } else { scan(ScanOp::Max, axis, false, &[&sets.where_(&at, 0i64)]) }
}

pub(super) fn reads((op, _, _): Fields<'_>) -> Option<Saves> {
    Some(match op {
        ScanOp::Sum => Saves::default(),
        ScanOp::Prod => Saves { inputs: 1, outputs: 0 },
        ScanOp::Max | ScanOp::Min | ScanOp::LinearRecurrence => Saves { inputs: 1, outputs: 1 },
    })
}
pub(super) fn gradient((op, axis, reverse): Fields<'_>, back: &Backward<'_>) -> Result<Cotangents> {
    let (g, args, axis, reverse) = (back.cotangent, back.args, *axis, *reverse);
    match op {
        ScanOp::Sum => one(scan(ScanOp::Sum, axis, !reverse, &[g]).cast(args.metas[0].dtype)),
        ScanOp::Prod => {
            // h[i] = g[i] + x[i+1] h[i+1], dx[i] = (product before i) h[i]: linear time, right also with zeros.
            let x = args.input(0)?;
            let next = shifted(x, axis, !reverse, 1.0);
            let h = scan(ScanOp::LinearRecurrence, axis, !reverse, &[&next, g]);
            let before = shifted(&scan(ScanOp::Prod, axis, reverse, &[x]), axis, reverse, 1.0);
            one(before * h)
        }
        // Each output's gradient goes to the element that set it.
        ScanOp::Max | ScanOp::Min => {
            let index = setter(args.input(0)?, args.output(0)?, axis, reverse);
            one(scatter(axis, ScatterMode::Add, &g.zeros_like(), &index, g))
        }
        ScanOp::LinearRecurrence => {
            let (a, h) = (args.input(0)?, args.output(0)?);
            let next = shifted(a, axis, !reverse, 0.0);
            let l = scan(ScanOp::LinearRecurrence, axis, !reverse, &[&next, g]);
            let before = shifted(h, axis, reverse, 0.0);
            Ok(smallvec![back.needs(0).then(|| &l * before), Some(l)])
        }
    }
}
pub(super) fn tangent((op, axis, reverse): Fields<'_>, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    let (x, y, axis, reverse) = (forward.primal(0), &forward.outputs[0], *axis, *reverse);
    Ok(match (op, forward.tangent(0)) {
        (ScanOp::Sum, Some(t)) => Some(scan(ScanOp::Sum, axis, reverse, &[t])),
        // y[i] = x[i] y[i-1], so y'[i] = x[i] y'[i-1] + x'[i] y[i-1].
        (ScanOp::Prod, Some(t)) => {
            let before = shifted(y, axis, reverse, 1.0);
            Some(scan(ScanOp::LinearRecurrence, axis, reverse, &[x, &(t * before)]))
        }
        (ScanOp::Max | ScanOp::Min, Some(t)) => Some(gather(axis, t, &setter(x, y, axis, reverse))),
        // h[i] = a[i] h[i-1] + b[i], so h'[i] = a[i] h'[i-1] + a'[i] h[i-1] + b'[i].
        (ScanOp::LinearRecurrence, a) => {
            let through = a.map(|t| t * shifted(y, axis, reverse, 0.0));
            sum(through, forward.tangent(1).cloned()).map(|moved| scan(ScanOp::LinearRecurrence, axis, reverse, &[x, &moved]))
        }
        (_, None) => None,
    })
}
pub(super) fn batched((op, axis, reverse): Fields<'_>, batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_stacks(Op::Scan { op: *op, axis: axis + 1, reverse: *reverse })
}
pub(super) fn body((op, axis, reverse): Fields<'_>) -> Option<Body> {
    let (op, axis, reverse) = (*op, *axis as usize, *reverse);
    Some(Box::new(move |x| Ok(vec![lower::scan::body(op, axis, reverse, x)])))
}
