//! One exhaustive match over the primitives: what each rule reads and what it returns, in tensor code, so that it
//! serves every backend and higher order comes free.
use crate::{
    Arg, DType, Error, ErrorKind, Meta, Op, Result, Scalar, Shape, Tensor, communicator,
    composite::{Cotangents, InTensors, Keyed, RuleArgs, Saves},
    op::{ConvRole, ConvSpec, PadSpec, ReduceOp, ScanOp, ScatterMode, Side, View, WindowOp, WindowSpec},
    scalar::{Binary, Saved, Unary, binary_gradients, unary_gradient},
    shape::{AxisSet, Dims, MAX_RANK},
};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Does a gradient flow through the op at all?
pub(super) fn differentiable(op: &Op) -> bool {
    match op {
        Op::Input | Op::Const(_) | Op::Iota { .. } | Op::RandomBits { .. } | Op::Bitcast(_) | Op::ArgReduce { .. } | Op::StopGrad => false,
        Op::Unary(f) => f.row().differentiable,
        Op::Binary(f) | Op::BinaryScalar(f, _) => f.row().differentiable,
        Op::Cast(d) => d.is_float(),
        _ => true,
    }
}

/// Which inputs and outputs the rule reads.
pub(super) fn saves(op: &Op, inputs: usize) -> Saves {
    let both = |s: Saved| match s {
        Saved::Nothing => Saves::default(),
        Saved::Input => Saves { inputs: 0b11, outputs: 0 },
        Saved::Output => Saves { inputs: 0, outputs: 1 },
        Saved::Both => Saves { inputs: 0b11, outputs: 1 },
    };
    let i = |inputs: u32| Saves { inputs, outputs: 0 };
    match op {
        Op::Unary(f) => both(f.row().saves),
        Op::Binary(f) => both(f.row().saves),
        // The other side is a number and needs no saving, but a product with a number does not read its tensor.
        Op::BinaryScalar(Binary::Mul, _) | Op::BinaryScalar(Binary::Div, Side::Right) => Saves::default(),
        Op::BinaryScalar(f, _) => both(f.row().saves),
        Op::Select => i(0b001),
        Op::Reduce { op: ReduceOp::Sum, .. } | Op::Scan { op: ScanOp::Sum, .. } => Saves::default(),
        Op::Reduce { op: ReduceOp::Prod, .. } => i(1),
        Op::Reduce { .. } => Saves { inputs: 1, outputs: 1 },
        Op::Scan { op: ScanOp::LinearRecurrence, .. } => Saves { inputs: 1, outputs: 1 },
        Op::Scan { op: ScanOp::Prod, .. } => i(1),
        Op::Scan { .. } => Saves { inputs: 1, outputs: 1 },
        Op::Matmul | Op::Conv(_) => i(0b11),
        Op::Window(w) if w.op == WindowOp::Max => Saves { inputs: 0, outputs: 0b10 },
        Op::Gather { .. } => i(0b10),
        Op::Scatter { mode: ScatterMode::Set | ScatterMode::Add, .. } => i(0b010),
        Op::Scatter { mode: ScatterMode::Mul, .. } => i(0b111),
        Op::Scatter { .. } => Saves { inputs: 0b111, outputs: 1 },
        Op::Sort { .. } => Saves { inputs: 0, outputs: 0b10 },
        Op::Composite(c) => c.saves().unwrap_or_else(|| Saves::inputs(inputs)),
        _ => Saves::default(),
    }
}

/// Which inputs and outputs of an op its gradient reads; none, if no gradient flows through it.
pub(crate) fn reads_of(op: &Op, inputs: usize) -> Saves {
    if differentiable(op) { saves(op, inputs) } else { Saves::default() }
}

/// Sums a cotangent over the axes that broadcast, back to the shape of the operand.
pub(crate) fn sum_to(g: &Tensor, shape: &Shape) -> Tensor {
    let from = g.meta().shape;
    if from == *shape || g.error().is_some() {
        return g.clone();
    }
    let lead = from.rank() - shape.rank();
    let axes = AxisSet::of((0..from.rank()).filter(|&k| k < lead || (shape[k - lead] == 1 && from[k] != 1)));
    let summed = if axes.0 == 0 { g.clone() } else { g.sum_keepdim(axes) };
    if lead > 0 { summed.reshape(*shape) } else { summed }
}
type Body<'a> = &'a dyn Fn(&Keyed, &RuleArgs<'_>) -> Result<Cotangents>;

/// Cotangents of the inputs.
pub(super) fn rule(op: &Op, arg: Arg, outputs: &[Meta], args: &RuleArgs<'_>, body: impl Fn(&Keyed, &RuleArgs<'_>) -> Result<Cotangents>) -> Result<Cotangents> {
    rule_inner(op, arg, outputs, args, &body)
}

fn rule_inner(op: &Op, arg: Arg, outputs: &[Meta], args: &RuleArgs<'_>, body: Body<'_>) -> Result<Cotangents> {
    if let Op::Composite(c) = op {
        return if c.saves().is_some() { c.rule(args) } else { body(c, args) };
    }
    let none = || smallvec![None; args.metas.len()];
    let Some(g) = args.cotangents.first().and_then(|g| g.as_ref()) else { return Ok(none()) };
    let shape = |k: usize| args.metas[k].shape;
    let one = |g: Tensor| Ok(smallvec![Some(g)]);
    let start = match arg {
        Arg::Start(s) => s,
        _ => 0,
    };
    let unused = g;
    match op {
        Op::Input | Op::Const(_) | Op::Iota { .. } | Op::RandomBits { .. } | Op::Bitcast(_) | Op::ArgReduce { .. } | Op::StopGrad => Ok(none()),
        Op::Unary(f) => match unary_gradient(*f) {
            None => Ok(none()),
            Some(grad) => {
                let x = if matches!(f.row().saves, Saved::Input | Saved::Both) { args.input(0)? } else { unused };
                let y = if matches!(f.row().saves, Saved::Output | Saved::Both) { args.output(0)? } else { unused };
                let one_op = f.row().saves == Saved::Nothing || matches!(f, Unary::Relu | Unary::Exp);
                one(rounded_once(one_op, [g, x, y], |[g, x, y]| grad(g, x, y)))
            }
        },
        Op::Binary(f) => match binary_gradients(*f) {
            None => Ok(none()),
            Some((left, right)) => {
                let reads = matches!(f.row().saves, Saved::Input | Saved::Both);
                let (x, y) = if reads { (args.input(0)?, args.input(1)?) } else { (unused, unused) };
                let out = if matches!(f.row().saves, Saved::Output | Saved::Both) { args.output(0)? } else { unused };
                let one_op = f.row().saves == Saved::Nothing || *f == Binary::Mul;
                let side = |k: usize, grad: crate::scalar::BinaryRule| {
                    args.needs[k].then(|| sum_to(&expand_to(&rounded_once(one_op, [g, x, y, out], |[g, x, y, out]| grad(g, x, y, out)), g), &shape(k)))
                };
                Ok(smallvec![side(0, left), side(1, right)])
            }
        },
        Op::BinaryScalar(f, side) => match (binary_gradients(*f), arg) {
            (Some((left, right)), Arg::Scalar(s)) => {
                let c = g.full_like(s);
                let reads = matches!(f.row().saves, Saved::Input | Saved::Both);
                let x = match (f, side) {
                    (Binary::Mul, _) | (Binary::Div, Side::Right) => &c,
                    _ if reads => args.input(0)?,
                    _ => unused,
                };
                let y = if matches!(f.row().saves, Saved::Output | Saved::Both) { args.output(0)? } else { unused };
                one(match (f, side) {
                    (Binary::Mul, _) => scale(g, s),
                    (_, Side::Right) => rounded_once(f.row().saves == Saved::Nothing, [g, x, &c, y], |[g, x, c, y]| left(g, x, c, y)),
                    (_, Side::Left) => rounded_once(f.row().saves == Saved::Nothing, [g, &c, x, y], |[g, c, x, y]| right(g, c, x, y)),
                })
            }
            _ => Ok(none()),
        },
        Op::Select => {
            let c = args.input(0)?;
            Ok(smallvec![None, args.needs[1].then(|| sum_to(&c.select(g, 0.0), &shape(1))), args.needs[2].then(|| sum_to(&c.select(0.0, g), &shape(2)))])
        }
        Op::Cast(_) => {
            let from = args.metas[0].dtype;
            if from.is_float() { one(g.cast(from)) } else { Ok(none()) }
        }
        Op::View(View::Reshape(_)) => one(g.reshape(shape(0))),
        Op::View(View::Permute(perm)) => {
            let rank = shape(0).rank();
            let mut inverse = [0isize; MAX_RANK];
            for k in 0..rank {
                inverse[perm[k] as usize] = k as isize;
            }
            one(g.permute(&inverse[..rank]))
        }
        Op::View(View::Expand(_)) => one(sum_to(g, &shape(0))),
        Op::View(View::Slice { axis, len, step }) => {
            let size = shape(0)[*axis as usize];
            if *len == 0 {
                return one(Tensor::full_on(shape(0), 0, g.meta().dtype, g.meta().device));
            }
            let mut spread = g.clone();
            if *step > 1 {
                // Put zeros between the elements: a pad of an added axis, merged into the sliced one.
                let a = *axis as usize;
                let s = g.meta().shape;
                let wide = g.reshape(s.insert(a + 1, 1).map_err(|k| Error::new("slice", k))?);
                let mut widths: SmallVec<[(isize, isize); 8]> = SmallVec::from_elem((0, 0), s.rank() + 1);
                widths[a + 1] = (0, *step as isize - 1);
                let padded = Tensor::apply(Op::Pad(Box::new(PadSpec { widths })), Arg::Scalar(Scalar::Float(0.0)), &[&wide]);
                let merged = padded.reshape(s.with(a, len * step));
                spread = merged.narrow(a, 0, (len - 1) * step + 1);
            }
            let span = (len - 1) * step + 1;
            let mut widths: SmallVec<[(isize, isize); 8]> = SmallVec::from_elem((0, 0), shape(0).rank());
            widths[*axis as usize] = (start as isize, (size - start - span) as isize);
            one(Tensor::apply(Op::Pad(Box::new(PadSpec { widths })), Arg::Scalar(Scalar::Float(0.0)), &[&spread]))
        }
        Op::View(View::Flip(axes)) => one(g.flip(*axes)),
        Op::Pad(p) => {
            let widths = p.widths.iter().map(|(a, b)| (-a, -b)).collect();
            one(Tensor::apply(Op::Pad(Box::new(PadSpec { widths })), Arg::Scalar(Scalar::Float(0.0)), &[g]))
        }
        Op::Concat { axis } => {
            let mut at = 0;
            Ok(args
                .metas
                .iter()
                .zip(args.needs)
                .map(|(m, need)| {
                    let len = m.shape[*axis as usize];
                    let part = need.then(|| g.narrow(*axis as usize, at, len));
                    at += len;
                    part
                })
                .collect())
        }
        Op::UpdateSlice { axis } => {
            let len = shape(1)[*axis as usize];
            let hole = Tensor::full_on(shape(1), 0, g.meta().dtype, g.meta().device);
            Ok(smallvec![args.needs[0].then(|| Tensor::apply(op.clone(), arg, &[g, &hole])), args.needs[1].then(|| g.narrow(*axis as usize, start, len))])
        }
        Op::Reduce { op: ReduceOp::Sum, .. } => one(back_to(g, &args.metas[0])),
        Op::Reduce { op: ReduceOp::Prod, axes } => {
            // Products of all others, without dividing.
            one(g * crate::transform::others(args.input(0)?, *axes)?)
        }
        Op::Reduce { op: ReduceOp::Max | ReduceOp::Min, axes } => {
            // Equal extremes share the gradient, as torch.amax does; NaN takes it where NaN won.
            let (x, y) = (args.input(0)?, args.output(0)?);
            let hit = x.eq(y).logical_or(&x.isnan().logical_and(&y.isnan())).cast(g.meta().dtype);
            let count = hit.sum_keepdim(*axes);
            one(hit * (g / count))
        }
        Op::Scan { op: ScanOp::Sum, axis, reverse } => one(scan(ScanOp::Sum, *axis, !reverse, &[g]).cast(args.metas[0].dtype)),
        Op::Scan { op: ScanOp::Prod, axis, reverse } => {
            // h[i] = g[i] + x[i+1] h[i+1], dx[i] = (product before i) h[i]: linear time, right also with zeros.
            let x = args.input(0)?;
            let next = shifted(x, *axis, !*reverse, 1.0);
            let h = scan(ScanOp::LinearRecurrence, *axis, !reverse, &[&next, g]);
            let before = shifted(&scan(ScanOp::Prod, *axis, *reverse, &[x]), *axis, *reverse, 1.0);
            one(before * h)
        }
        Op::Scan { op: ScanOp::Max | ScanOp::Min, axis, reverse } => {
            // Each output's gradient goes to the element that set it: the latest where x equals the running extreme.
            let (x, y) = (args.input(0)?, args.output(0)?);
            let n = shape(0)[*axis as usize];
            let at = x.iota_like(*axis as usize, DType::I64);
            let setter = x.eq(y).logical_or(&x.isnan());
            let index = if *reverse {
                scan(ScanOp::Min, *axis, true, &[&setter.select(&at, n as i64)])
            } else {
                scan(ScanOp::Max, *axis, false, &[&setter.select(&at, 0i64)])
            };
            one(Tensor::apply(Op::Scatter { axis: *axis, mode: ScatterMode::Add }, Arg::None, &[&g.zeros_like(), &index, g]))
        }
        Op::Scan { op: ScanOp::LinearRecurrence, axis, reverse } => {
            let (a, h) = (args.input(0)?, args.output(0)?);
            let next = shifted(a, *axis, !*reverse, 0.0);
            let l = scan(ScanOp::LinearRecurrence, *axis, !reverse, &[&next, g]);
            let before = shifted(h, *axis, *reverse, 0.0);
            Ok(smallvec![args.needs[0].then(|| &l * before), Some(l)])
        }
        Op::Matmul => {
            let (a, b) = (args.input(0)?, args.input(1)?);
            Ok(smallvec![args.needs[0].then(|| g.matmul(b.mt())), args.needs[1].then(|| a.mt().matmul(g))])
        }
        Op::Conv(spec) => conv_rule(spec, g, args),
        Op::Window(spec) => match spec.op {
            WindowOp::Max => {
                let index = args.output(1)?;
                let s = shape(0);
                let (lead, plane) = (s.rank() - spec.spatial(), s[s.rank() - spec.spatial()..].iter().product::<usize>());
                let mut flat = Dims::from_slice(&s[..lead]);
                flat.push(plane);
                let mut small = flat.clone();
                small[lead] = outputs[0].shape[lead..].iter().product();
                let (flat, small) = (Shape::new(&flat).map_err(|k| Error::new("max_pool", k))?, Shape::new(&small).map_err(|k| Error::new("max_pool", k))?);
                let zeros = Tensor::full_on(flat, 0, g.meta().dtype, g.meta().device);
                let spread =
                    Tensor::apply(Op::Scatter { axis: lead as u8, mode: ScatterMode::Add }, Arg::None, &[&zeros, &index.reshape(small), &g.reshape(small)]);
                one(spread.reshape(s))
            }
            WindowOp::Sum => {
                let s = shape(0);
                let open = SmallVec::from_slice(&s[s.rank() - spec.spatial()..]);
                one(Tensor::apply(crate::specs::window_op(WindowSpec { op: WindowOp::SumTransposed, open, ..(**spec).clone() }), Arg::None, &[g]))
            }
            WindowOp::SumTransposed => {
                one(Tensor::apply(crate::specs::window_op(WindowSpec { op: WindowOp::Sum, open: SmallVec::new(), ..(**spec).clone() }), Arg::None, &[g]))
            }
        },
        Op::Gather { axis } => {
            let zeros = Tensor::full_on(shape(0), 0, g.meta().dtype, g.meta().device);
            Ok(smallvec![Some(Tensor::apply(Op::Scatter { axis: *axis, mode: ScatterMode::Add }, Arg::None, &[&zeros, args.input(1)?, g])), None])
        }
        Op::Scatter { axis, mode } => scatter_rule(*axis, *mode, g, args),
        Op::Sort { axis, .. } => {
            let zeros = Tensor::full_on(shape(0), 0, g.meta().dtype, g.meta().device);
            one(Tensor::apply(Op::Scatter { axis: *axis, mode: ScatterMode::Add }, Arg::None, &[&zeros, args.output(1)?, g]))
        }
        Op::Transfer(_) => one(g.to(args.metas[0].device)),
        Op::Collective { kind, group } => match kind {
            crate::op::CollectiveKind::AllReduceSum => one(Tensor::apply(Op::Collective { kind: *kind, group: group.clone() }, Arg::None, &[g])),
            crate::op::CollectiveKind::Broadcast { root } => {
                let sum = Tensor::apply(Op::Collective { kind: crate::op::CollectiveKind::AllReduceSum, group: group.clone() }, Arg::None, &[g]);
                let rank = communicator::of(group).map_err(|kind| Error::new("broadcast", kind))?.rank();
                one(if rank == *root { sum } else { sum.zeros_like() })
            }
        },
        Op::Composite(_) => Err(Error::new("backward", ErrorKind::Internal("composites are handled above".into()))),
    }
}

/// A scalar function's rule in a 16-bit dtype computes in f32 and rounds at its end, so that a gradient is as good as
/// its function. A rule of one op needs none of that.
pub(crate) fn rounded_once<const N: usize>(one_op: bool, args: [&Tensor; N], rule: impl Fn([&Tensor; N]) -> Tensor) -> Tensor {
    let dtype = args[0].meta().dtype;
    if one_op || dtype.size() != 2 || args[0].error().is_some() {
        return rule(args);
    }
    let wide = args.map(|t| t.cast(DType::F32));
    rule(wide.each_ref()).cast(dtype)
}
fn scale(g: &Tensor, s: Scalar) -> Tensor {
    Tensor::apply(Op::BinaryScalar(Binary::Mul, Side::Right), Arg::Scalar(s), &[g])
}
/// A rule may return a tensor that does not depend on the cotangent (zeros): give it the cotangent's shape.
pub(crate) fn expand_to(d: &Tensor, g: &Tensor) -> Tensor {
    if d.error().is_none() && d.meta().shape != g.meta().shape { d.expand(g.meta().shape) } else { d.clone() }
}
/// A sum's cotangent back on its input: expanded and, where the sum widened the dtype, cast.
fn back_to(g: &Tensor, meta: &Meta) -> Tensor {
    g.cast(meta.dtype).expand(meta.shape)
}
pub(crate) fn scan(op: ScanOp, axis: u8, reverse: bool, inputs: &[&Tensor]) -> Tensor {
    Tensor::apply(Op::Scan { op, axis, reverse }, Arg::None, inputs)
}
/// x one step later along an axis (earlier if `reverse`), `fill` where nothing comes from.
pub(crate) fn shifted(x: &Tensor, axis: u8, reverse: bool, fill: f64) -> Tensor {
    let mut widths: SmallVec<[(isize, isize); 8]> = SmallVec::from_elem((0, 0), x.meta().shape.rank());
    if x.meta().shape[axis as usize] == 0 {
        return x.clone();
    }
    widths[axis as usize] = if reverse { (-1, 1) } else { (1, -1) };
    Tensor::apply(Op::Pad(Box::new(PadSpec { widths })), Arg::Scalar(Scalar::Float(fill)), &[x])
}
/// The product of all elements before (after) each one along the last axis.
pub(crate) fn exclusive_product(x: &Tensor, reverse: bool) -> Tensor {
    let axis = (x.meta().shape.rank() - 1) as u8;
    shifted(&scan(ScanOp::Prod, axis, reverse, &[x]), axis, reverse, 1.0)
}
fn conv_rule(spec: &Arc<ConvSpec>, g: &Tensor, args: &RuleArgs<'_>) -> Result<Cotangents> {
    let (a, b) = (args.input(0)?, args.input(1)?);
    let spatial = |m: &Meta| SmallVec::from_slice(&m.shape[2..]);
    let conv = |role, open, x: &Tensor, y: &Tensor| Tensor::apply(crate::specs::conv_op(ConvSpec { role, open, ..(**spec).clone() }), Arg::None, &[x, y]);
    let none = SmallVec::new;
    let (x_role, w_role, y_role) = (ConvRole::InputGrad, ConvRole::WeightGrad, ConvRole::Forward);
    Ok(match spec.role {
        // y(x, w)
        ConvRole::Forward => {
            smallvec![args.needs[0].then(|| conv(x_role, spatial(&args.metas[0]), g, b)), args.needs[1].then(|| conv(w_role, spatial(&args.metas[1]), a, g))]
        }
        // x(y, w)
        ConvRole::InputGrad => smallvec![args.needs[0].then(|| conv(y_role, none(), g, b)), args.needs[1].then(|| conv(w_role, spatial(&args.metas[1]), g, a))],
        // w(x, y)
        ConvRole::WeightGrad => {
            smallvec![args.needs[0].then(|| conv(x_role, spatial(&args.metas[0]), b, g)), args.needs[1].then(|| conv(y_role, none(), a, g))]
        }
    })
}
fn scatter_rule(axis: u8, mode: ScatterMode, g: &Tensor, args: &RuleArgs<'_>) -> Result<Cotangents> {
    let index = args.input(1)?;
    let gather = |x: &Tensor| Tensor::apply(Op::Gather { axis }, Arg::None, &[x, index]);
    let scatter = |x: &Tensor, mode, s: &Tensor| Tensor::apply(Op::Scatter { axis, mode }, Arg::None, &[x, index, s]);
    Ok(match mode {
        ScatterMode::Add => smallvec![Some(g.clone()), None, args.needs[2].then(|| gather(g))],
        ScatterMode::Set => {
            let src = args.metas[2].shape;
            let zeros = Tensor::full_on(src, 0, g.meta().dtype, g.meta().device);
            smallvec![args.needs[0].then(|| scatter(g, ScatterMode::Set, &zeros)), None, args.needs[2].then(|| gather(g))]
        }
        ScatterMode::Mul => {
            // The product over the others: the product of what is not zero, by the factor where that is not zero, and
            // nothing where another factor is. Counts of zeros tell which.
            let (x, s) = (args.input(0)?, args.input(2)?);
            let dtype = g.meta().dtype;
            let (zero_x, zero_s) = (x.eq(0.0), s.eq(0.0));
            let (full_x, full_s) = (zero_x.select(1.0, x), zero_s.select(1.0, s));
            let rest = g * scatter(&full_x, ScatterMode::Mul, &full_s);
            let zeros = scatter(&zero_x.cast(dtype), ScatterMode::Add, &zero_s.cast(dtype));
            let others = |zero: &Tensor, zeros: &Tensor, rest: &Tensor, full: &Tensor| (zeros - zero.cast(dtype)).eq(0.0).select(rest / full, 0.0);
            smallvec![
                args.needs[0].then(|| others(&zero_x, &zeros, &rest, &full_x)),
                None,
                args.needs[2].then(|| others(&zero_s, &gather(&zeros), &gather(&rest), &full_s)),
            ]
        }
        ScatterMode::Max | ScatterMode::Min => {
            let (x, s, y) = (args.input(0)?, args.input(2)?, args.output(0)?);
            let hit_x = x.eq(y).cast(g.meta().dtype);
            let hit_s = s.eq(&gather(y)).cast(g.meta().dtype);
            let count = scatter(&hit_x, ScatterMode::Add, &hit_s);
            let share = g / count;
            smallvec![args.needs[0].then(|| hit_x * &share), None, args.needs[2].then(|| hit_s * gather(&share))]
        }
    })
}
