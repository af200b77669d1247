//! Losses of elements and of pairs, as formulas on tensors: the elements' losses first, then one reduction. 16-bit
//! floats compute in f32 and round once. Losses of class indices stand in `functional::classes`.
use crate::{
    AxisSet, Compound, ErrorKind, Result, Tensor, TensorType, Types,
    composite::Cotangents,
    composite::{
        Attrs, Composite, RuleArgs, Saves, StackedInput,
        loss::Reduction,
        of_stacks,
        wide::{floats, same_dtype},
    },
    op::broadcast,
    promotion::alike,
    tensor::compose::{Built, compose, refuse},
};
use crate::{DType, Shape};
use smallvec::{SmallVec, smallvec};

/// The losses of the elements as one number, or as they are.
pub(super) fn reduce(each: Tensor, reduction: Reduction, dtype: DType) -> Tensor {
    let shape: Shape = each.meta().shape;
    let count = |n: usize| n as f64;
    match reduction {
        Reduction::None => each,
        Reduction::Sum => each.sum(..),
        Reduction::Mean => each.sum(..) / count(shape.elements()),
        Reduction::BatchMean => each.sum(..) / count(shape.first().copied().unwrap_or(1)),
    }
    .cast(dtype)
}
/// Tensors in the dtype in which they meet, which is of floats, with shapes that broadcast.
fn meeting<const N: usize>(inputs: [&Tensor; N]) -> Built<([Tensor; N], DType)> {
    let all = alike(inputs)?;
    let dtype = check(&all.each_ref())?;
    Ok((all, dtype))
}
/// Float tensors of one dtype whose shapes broadcast.
fn check(inputs: &[&Tensor]) -> Built<DType> {
    let first = floats(&inputs[0].meta())?;
    let mut shape = first.shape;
    for t in &inputs[1..] {
        same_dtype(&first, &t.meta())?;
        shape = broadcast(&shape, &t.meta().shape)?;
    }
    Ok(first.dtype)
}
/// Of two shapes that broadcast, one is that of the result. `[n, 1]` beside `[n]` would pair every prediction with every
/// target, which PyTorch warns of or does in silence.
fn one_repeats(left: &Shape, right: &Shape) -> Built<()> {
    let all = broadcast(left, right)?;
    if all != *left && all != *right {
        let expected = "the prediction's shape is not the target's, and each would be repeated along the other (reshape one)";
        return Err(ErrorKind::ShapeMismatch { left: *left, right: *right, axes: None, expected }.into());
    }
    Ok(())
}
/// A loss of two tensors, element by element, in the dtype in which they meet: of one shape, or one has that of the result.
#[track_caller]
fn of_two(op: &'static str, x: &Tensor, target: &Tensor, reduction: Reduction, f: impl FnOnce(Tensor, Tensor) -> Built<Tensor>) -> Tensor {
    compose(op, &[x, target], || {
        let [x, target] = &alike([x, target])?;
        let dtype = check(&[x, target])?;
        one_repeats(&x.meta().shape, &target.meta().shape)?;
        Ok(reduce(f(x.widened(), target.widened())?, reduction, dtype))
    })
}
/// As [`of_two`], of which one without axes is first repeated to the other's: beside 16 bits its dtype counts, as in PyTorch.
#[track_caller]
fn of_repeated(op: &'static str, x: &Tensor, target: &Tensor, reduction: Reduction, f: impl FnOnce(Tensor, Tensor) -> Built<Tensor>) -> Tensor {
    let one = |t: &Tensor, other: &Tensor| if t.error().is_none() && t.rank() == 0 && other.rank() > 0 { t.unsqueeze(0) } else { t.clone() };
    of_two(op, &one(x, target), &one(target, x), reduction, f)
}
/// As [`of_repeated`], of a float x whose dtype the loss has, as in PyTorch.
#[track_caller]
fn of_prediction(op: &'static str, x: &Tensor, target: &Tensor, reduction: Reduction, f: impl FnOnce(Tensor, Tensor) -> Built<Tensor>) -> Tensor {
    compose(op, &[x, target], || {
        let dtype = floats(&x.meta())?.dtype;
        Ok(of_repeated(op, x, target, reduction, f).cast(dtype))
    })
}

/// `(x - target)²`.
#[track_caller]
pub fn mse_loss(x: &Tensor, target: &Tensor, reduction: Reduction) -> Tensor {
    of_repeated("mse_loss", x, target, reduction, |x, t| Ok((x - t).square()))
}
/// `|x - target|`.
#[track_caller]
pub fn l1_loss(x: &Tensor, target: &Tensor, reduction: Reduction) -> Tensor {
    of_repeated("l1_loss", x, target, reduction, |x, t| Ok((x - t).abs()))
}
/// `d² / (2 beta)` where `d = |x - target|` is below beta, else `d - beta / 2` (Girshick, "Fast R-CNN", 2015).
#[track_caller]
pub fn smooth_l1_loss(x: &Tensor, target: &Tensor, beta: f64, reduction: Reduction) -> Tensor {
    of_repeated("smooth_l1_loss", x, target, reduction, |x, t| {
        let d = (x - t).abs();
        if beta < 0.0 {
            return refuse(format!("beta is at least 0, not {beta}"));
        }
        Ok(if beta == 0.0 { d } else { d.lt(beta).where_(d.square() * (0.5 / beta), &d - 0.5 * beta) })
    })
}
/// `d² / 2` where `d = |x - target|` is at most delta, else `delta (d - delta / 2)` (Huber, 1964).
#[track_caller]
pub fn huber_loss(x: &Tensor, target: &Tensor, delta: f64, reduction: Reduction) -> Tensor {
    of_prediction("huber_loss", x, target, reduction, |x, t| {
        if delta.is_nan() || delta <= 0.0 {
            return refuse(format!("delta is greater than 0, not {delta}"));
        }
        let d = (x - t).abs();
        let near = d.le(delta);
        // The square of a far distance may be infinite, and a gradient 0 times that.
        Ok(near.where_(near.where_(&d, 0.0).square() * 0.5, (&d - 0.5 * delta) * delta))
    })
}

/// `-(t log x + (1 - t) log(1 - x))` with the logarithms no lower than -100. Its rule divides by `x (1 - x)`, no
/// smaller than 1e-12, as PyTorch's does.
#[derive(Clone, Copy, Debug)]
pub struct BinaryCrossEntropy;
impl Composite for BinaryCrossEntropy {
    fn name(&self) -> &'static str {
        "adamant.binary_cross_entropy"
    }
    fn attrs(&self) -> Attrs {
        Attrs::new()
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        adamant_ir::composite::wide::same_dtype(&inputs[0], &inputs[1])?;
        if inputs[0].shape != inputs[1].shape {
            return Err(ErrorKind::ShapeMismatch { left: inputs[0].shape, right: inputs[1].shape, axes: None, expected: "input and target have one shape" });
        }
        Ok(smallvec![adamant_ir::composite::wide::floats(&inputs[0])?])
    }
}
impl Compound for BinaryCrossEntropy {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, t) = (&inputs[0], &inputs[1]);
        let floor = |log: Tensor| log.lt(-100.0).where_(-100.0, &log);
        Ok(vec![((t - 1.0) * floor(x.neg().log1p())) - t * floor(x.log())])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::inputs(2))
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let Some(g) = &args.cotangents[0] else { return Ok(smallvec![None, None]) };
        let (x, t) = (args.input(0)?, args.input(1)?);
        let spread = (1.0f64 - x) * x;
        let spread = spread.lt(1e-12).where_(1e-12, &spread);
        Ok(smallvec![args.needs[0].then(|| g * (x - t) / spread), args.needs[1].then(|| g * (x.neg().log1p() - x.log()))])
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        of_stacks(*self, inputs, examples)
    }
}
/// Cross entropy of probabilities x in [0, 1] with targets of the same shape, times `weight` where there is one. An x
/// outside gives NaN.
#[track_caller]
pub fn binary_cross_entropy(x: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: Reduction) -> Tensor {
    let inputs: SmallVec<[&Tensor; 4]> = [x, target].into_iter().chain(weight).collect();
    compose("binary_cross_entropy", &inputs, || {
        let dtype = check(&inputs)?;
        let mut each = Tensor::composite1(BinaryCrossEntropy, &[&x.widened(), &target.widened()]).ok()?;
        if let Some(w) = weight {
            each = each * w.widened();
        }
        Ok(reduce(each, reduction, dtype))
    })
}
/// Cross entropy of the sigmoid of logits with targets of the same shape, without forming the sigmoid; `pos_weight`
/// weighs the positive class.
#[track_caller]
pub fn binary_cross_entropy_with_logits(
    logits: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    pos_weight: Option<&Tensor>,
    reduction: Reduction,
) -> Tensor {
    let inputs: SmallVec<[&Tensor; 4]> = [logits, target].into_iter().chain(weight).chain(pos_weight).collect();
    compose("binary_cross_entropy_with_logits", &inputs, || {
        for t in &inputs {
            floats(&t.meta())?;
        }
        let [logits, target] = &alike([logits, target])?;
        let dtype = logits.meta().dtype;
        if logits.meta().shape != target.meta().shape {
            return Err(ErrorKind::ShapeMismatch {
                left: logits.meta().shape,
                right: target.meta().shape,
                axes: None,
                expected: "input and target have one shape",
            }
            .into());
        }
        let (x, t) = (logits.widened(), target.widened());
        // (1 - t) max(x, 0) + p t max(-x, 0) + (1 - t + p t) ln(1 + exp(-|x|)): no term cancels another, where the one that is
        // left is a small number. -|x| is chosen by the sign, so that its slope at 0 is one side's and not none.
        let (below, other) = (x.lt(0.0), 1.0 - &t);
        let positive = pos_weight.map_or_else(|| t.clone(), |p| p.widened() * &t);
        let line = below.where_(&(&positive * x.neg()), &(&other * &x));
        let tail = below.where_(&x, &x.neg()).softplus();
        let mut each = if pos_weight.is_some() { line + (other + positive) * tail } else { line + tail };
        if let Some(w) = weight {
            each = each * w.widened();
        }
        Ok(reduce(each, reduction, dtype))
    })
}
/// `target (log target - x)`, x being log-probabilities; with `log_target` the targets are too.
#[track_caller]
pub fn kl_div(x: &Tensor, target: &Tensor, log_target: bool, reduction: Reduction) -> Tensor {
    compose("kl_div", &[x, target], || {
        floats(&x.meta()).and_then(|_| floats(&target.meta()))?;
        Ok(of_two("kl_div", x, target, reduction, |x, t| Ok(if log_target { t.exp() * (&t - x) } else { t.xlogy(&t) - &t * x })))
    })
}

/// x no smaller than 0, with no gradient at 0 itself, as [`Tensor::clamp_min`].
fn at_least_zero(x: &Tensor) -> Tensor {
    x.le(0.0).where_(0.0, x)
}
/// Labels of 1 and -1 in a dtype that has both.
fn signed(target: &Tensor) -> Tensor {
    if target.meta().dtype.is_float() { target.clone() } else { target.cast(DType::I64) }
}
/// For pairs of vectors x1, x2 `[batch, features]` with labels `[batch]`: `1 - cos` where the label is 1,
/// `max(0, cos - margin)` where it is -1.
#[track_caller]
pub fn cosine_embedding_loss(x1: &Tensor, x2: &Tensor, target: &Tensor, margin: f64, reduction: Reduction) -> Tensor {
    compose("cosine_embedding_loss", &[x1, x2, target], || {
        let ([x1, x2], dtype) = meeting([x1, x2])?;
        let target = signed(target);
        let (a, b, t) = (x1.meta().shape, x2.meta().shape, target.meta().shape);
        if a != b || a.rank() != t.rank() + 1 || t.rank() > 1 || a[..t.rank()] != t[..] {
            return Err(
                ErrorKind::ShapeMismatch { left: a, right: t, axes: None, expected: "x1 and x2 [batch, features] of one shape and a target [batch]" }.into()
            );
        }
        let last = AxisSet::one(a.rank() - 1);
        let over = |t: Tensor| t.sum(last);
        let (x1, x2) = (x1.widened(), x2.widened());
        let (m1, m2) = (over(x1.square()) + 1e-12, over(x2.square()) + 1e-12);
        let cos = over(x1 * x2) / (m1 * m2).sqrt();
        let apart = at_least_zero(&(&cos - margin));
        Ok(reduce(target.eq(1).where_(1.0 - cos, target.eq(-1).where_(&apart, 0.0)), reduction, dtype))
    })
}
/// `max(0, margin - target (x1 - x2))`, targets being 1 or -1.
#[track_caller]
pub fn margin_ranking_loss(x1: &Tensor, x2: &Tensor, target: &Tensor, margin: f64, reduction: Reduction) -> Tensor {
    compose("margin_ranking_loss", &[x1, x2, target], || {
        let ([x1, x2, target], dtype) = meeting([x1, x2, target])?;
        let t = target.widened();
        one_repeats(&x1.meta().shape, &x2.meta().shape)?;
        one_repeats(&broadcast(&x1.meta().shape, &x2.meta().shape)?, &t.meta().shape)?;
        Ok(reduce(at_least_zero(&((x2.widened() - x1.widened()) * t + margin)), reduction, dtype))
    })
}
/// x where the target is 1, `max(0, margin - x)` where it is -1.
#[track_caller]
pub fn hinge_embedding_loss(x: &Tensor, target: &Tensor, margin: f64, reduction: Reduction) -> Tensor {
    compose("hinge_embedding_loss", &[x, target], || {
        let dtype = check(&[x])?;
        let target = signed(target);
        one_repeats(&x.meta().shape, &target.meta().shape)?;
        let x = x.widened();
        let apart = at_least_zero(&(margin - &x));
        Ok(reduce(target.ne(1).where_(&apart, 0.0) + target.ne(-1).where_(&x, 0.0), reduction, dtype))
    })
}
/// `log(1 + exp(-target x))`, targets being 1 or -1.
#[track_caller]
pub fn soft_margin_loss(x: &Tensor, target: &Tensor, reduction: Reduction) -> Tensor {
    of_prediction("soft_margin_loss", x, target, reduction, |x, t| Ok((x * t).neg().softplus()))
}
/// Options of [`triplet_margin_loss`].
#[derive(Clone, Copy, Debug)]
pub struct TripletMarginOptions {
    /// by how much the negative must be farther
    pub margin: f64,
    /// the distance's norm
    pub p: f64,
    /// added to the differences, so that the gradient of the norm exists
    pub eps: f64,
    /// is the nearer of the two distances to the negative taken?
    pub swap: bool,
    /// how losses are reduced
    pub reduction: Reduction,
}
impl Default for TripletMarginOptions {
    fn default() -> TripletMarginOptions {
        TripletMarginOptions { margin: 1.0, p: 2.0, eps: 1e-6, swap: false, reduction: Reduction::Mean }
    }
}
/// `max(0, margin + distance(anchor, positive) - distance(anchor, negative))` over the last axis.
#[track_caller]
pub fn triplet_margin_loss(anchor: &Tensor, positive: &Tensor, negative: &Tensor, options: &TripletMarginOptions) -> Tensor {
    compose("triplet_margin_loss", &[anchor, positive, negative], || {
        let (triplet, dtype) = meeting([anchor, positive, negative])?;
        let [anchor, positive, negative] = triplet.each_ref().map(Tensor::widened);
        let distance = |x: &Tensor, y: &Tensor| (x - y + options.eps).vector_norm(options.p, -1);
        let each = triplet_margins([&anchor, &positive, &negative], distance, options.margin, options.swap)?;
        Ok(reduce(each, options.reduction, dtype))
    })
}
/// [`triplet_margin_loss`] with a distance of one's own: a function of two tensors, whose result has a number for each pair.
///
/// ```
/// # use adamant_core::{Result, Tensor, functional::{Reduction, triplet_margin_with_distance_loss}};
/// # adamant_core::Device::reference().make_current();
/// let [anchor, near, far] = [[0.0f32, 0.0], [0.0, 1.0], [3.0, 0.5]].map(|v| Tensor::from_slice(&v, [1, 2]));
/// let largest = |x: &Tensor, y: &Tensor| (x - y).abs().amax(-1);
/// let loss = triplet_margin_with_distance_loss(&anchor, &near, &far, largest, 2.5, false, Reduction::Mean);
/// assert_eq!(loss.item::<f32>()?, 0.5);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[track_caller]
pub fn triplet_margin_with_distance_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    distance: impl Fn(&Tensor, &Tensor) -> Tensor,
    margin: f64,
    swap: bool,
    reduction: Reduction,
) -> Tensor {
    compose("triplet_margin_with_distance_loss", &[anchor, positive, negative], || {
        let (triplet, dtype) = meeting([anchor, positive, negative])?;
        Ok(reduce(triplet_margins(triplet.each_ref(), distance, margin, swap)?, reduction, dtype))
    })
}
/// The margin of each triplet of anchor, positive and negative. `swap`: the nearer of the two distances to the negative
/// counts (Balntas et al., 2016).
fn triplet_margins(triplet: [&Tensor; 3], distance: impl Fn(&Tensor, &Tensor) -> Tensor, margin: f64, swap: bool) -> Built<Tensor> {
    let [anchor, positive, negative] = triplet;
    let shape = anchor.meta().shape;
    if shape.rank() == 0 {
        return Err(ErrorKind::Shape { shape, expected: "at least one axis, of features".into() }.into());
    }
    for other in [positive, negative] {
        let right = other.meta().shape;
        if right.rank() != shape.rank() {
            return Err(ErrorKind::ShapeMismatch { left: shape, right, axes: None, expected: "anchor, positive and negative have as many axes" }.into());
        }
    }
    if margin.is_nan() || margin <= 0.0 {
        return refuse(format!("margin is greater than 0, not {margin}"));
    }
    let near = distance(anchor, positive).ok()?;
    let mut far = distance(anchor, negative).ok()?;
    if swap {
        far = far.minimum(distance(positive, negative).ok()?);
    }
    Ok(at_least_zero(&(near.widened() - far.widened() + margin)))
}
/// Cross entropy of the sigmoid of each class, averaged over the classes (last axis), with a weight per class.
#[track_caller]
pub fn multilabel_soft_margin_loss(x: &Tensor, target: &Tensor, weight: Option<&Tensor>, reduction: Reduction) -> Tensor {
    let inputs: SmallVec<[&Tensor; 4]> = [x, target].into_iter().chain(weight).collect();
    compose("multilabel_soft_margin_loss", &inputs, || {
        floats(&x.meta())?;
        let (weighted, dtype) = match weight {
            Some(w) => meeting([x, target, w]).map(|([x, target, w], dtype)| ((x, target, Some(w)), dtype))?,
            None => meeting([x, target]).map(|([x, target], dtype)| ((x, target, None), dtype))?,
        };
        let (x, target, weight) = weighted;
        let shape = x.meta().shape;
        if shape.rank() == 0 || shape != target.meta().shape {
            return Err(ErrorKind::ShapeMismatch {
                left: shape,
                right: target.meta().shape,
                axes: None,
                expected: "input and target have one shape, with an axis of classes",
            }
            .into());
        }
        let (x, t) = (x.widened(), target.widened());
        let mut each = (&t * x.log_sigmoid() + (1.0 - &t) * x.neg().log_sigmoid()).neg();
        if let Some(w) = weight {
            each = each * w.widened();
        }
        let last = shape.rank() - 1;
        Ok(reduce(each.sum(last) / shape[last] as f64, reduction, dtype))
    })
}
/// Options of [`poisson_nll_loss`].
#[derive(Clone, Copy, Debug)]
pub struct PoissonNllOptions {
    /// is the input the logarithm of the rate?
    pub log_input: bool,
    /// is Stirling's approximation of the target's factorial added?
    pub full: bool,
    /// added to the rate before its logarithm
    pub eps: f64,
    /// how losses are reduced
    pub reduction: Reduction,
}
impl Default for PoissonNllOptions {
    fn default() -> PoissonNllOptions {
        PoissonNllOptions { log_input: true, full: false, eps: 1e-8, reduction: Reduction::Mean }
    }
}
/// `exp(x) - target x`, the negative log-likelihood of counts under a Poisson distribution of log-rate x.
#[track_caller]
pub fn poisson_nll_loss(x: &Tensor, target: &Tensor, options: &PoissonNllOptions) -> Tensor {
    let x = if x.error().is_none() && !x.meta().dtype.is_float() { &x.cast(DType::F32) } else { x };
    of_two("poisson_nll_loss", x, target, options.reduction, |x, t| {
        let mut each = if options.log_input { x.exp() - &t * &x } else { &x - &t * (&x + options.eps).log() };
        if options.full {
            // Targets up to 1 have no such term; taking 1 in their place keeps the logarithm's gradient finite.
            let many = t.gt(1.0);
            let t = many.where_(&t, 1.0);
            let stirling = &t * t.log() - &t + (&t * std::f64::consts::TAU).log() * 0.5;
            each = each + many.where_(&stirling, 0.0);
        }
        Ok(each)
    })
}
/// `(log var + (x - target)² / var) / 2`, with var no smaller than `eps`; `full` adds `log(2π) / 2`. var has the
/// shape of x, or 1 (or nothing) in place of its last axis.
#[track_caller]
pub fn gaussian_nll_loss(x: &Tensor, target: &Tensor, var: &Tensor, full: bool, eps: f64, reduction: Reduction) -> Tensor {
    compose("gaussian_nll_loss", &[x, target, var], || {
        floats(&var.meta())?;
        let [x, target, var] = alike([x, target, var])?;
        let dtype = check(&[&x, &target])?;
        one_repeats(&x.meta().shape, &target.meta().shape)?;
        let (shape, vs) = (x.meta().shape, var.meta().shape);
        let mut v = var.widened();
        if vs != shape {
            let rank = shape.rank();
            let short = rank > 0 && vs == shape.without(rank - 1);
            if short {
                v = v.reshape(shape.with(rank - 1, 1));
            } else if rank == 0 || vs.rank() != rank || vs[..rank - 1] != shape[..rank - 1] || vs[rank - 1] != 1 {
                return Err(
                    ErrorKind::ShapeMismatch { left: shape, right: vs, axes: None, expected: "var has the input's shape, or 1 on its last axis" }.into()
                );
            }
        }
        // The floor is no part of the function that is differentiated, as in PyTorch.
        let floor = v.lt(eps).where_(eps - v.detach(), 0.0);
        let v = v + floor;
        let mut each = ((x.widened() - target.widened()).square() / &v + v.log()) * 0.5;
        if full {
            each = each + 0.5 * std::f64::consts::TAU.ln();
        }
        Ok(reduce(each, reduction, dtype))
    })
}
