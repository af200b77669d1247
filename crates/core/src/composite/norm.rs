//! Normalisation: `(x - mean) / sqrt(var + eps)` over some axes, then a weight and a bias per feature. Layer, RMS,
//! group and batch normalisation differ only in which axes those are, so they are one composite with four names;
//! the rule reads the input and the statistics (never the normalised values) and is itself a composite.
//!
//! Ba et al., "Layer Normalization", 2016; Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019;
//! Wu and He, "Group Normalization", 2018; Ioffe and Szegedy, "Batch Normalization", 2015.
use super::{
    Attr, Attrs, Composite, RuleArgs, Saves, StackedInput, of_first, of_samples, whole,
    wide::{floats, one_device, wide},
};
use crate::{AxisSet, ErrorKind, Meta, Result, Shape, Tensor, composite::Cotangents, op::Metas};
use smallvec::{SmallVec, smallvec};

/// What is normalised together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The last `axes` axes; outputs y and, auxiliary, mean and 1 / standard deviation, `[outer, 1]`.
    Layer {
        /// how many
        axes: usize,
    },
    /// The last `axes` axes without subtracting the mean; auxiliary output: 1 / root mean square, `[outer, 1]`.
    Rms {
        /// how many
        axes: usize,
    },
    /// Groups of channels of each sample; auxiliary outputs: mean and 1 / standard deviation, `[samples, groups, 1]`.
    Group {
        /// how many
        groups: usize,
    },
    /// Each channel over the batch; outputs y, mean and biased variance, `[channels]`, which running statistics need.
    Batch,
}
/// Inputs: x, then weight and bias where there are. Statistics are f32 for 16-bit floats.
#[derive(Clone, Copy, Debug)]
pub struct Norm {
    /// what is normalised together
    pub over: Over,
    /// added to the variance
    pub eps: f64,
    /// is there a weight?
    pub weight: bool,
    /// is there a bias?
    pub bias: bool,
}
/// Inputs: the cotangent of y, x, weight where there is one, then the statistics that [`Norm`] gives. Outputs: the
/// cotangents of x and, where there are, of weight and bias.
#[derive(Clone, Copy, Debug)]
pub struct NormBackward(pub Norm);
/// Inputs: x, running mean and variance `[channels]`, then weight and bias where there are.
#[derive(Clone, Copy, Debug)]
pub struct BatchNormInference {
    /// added to the variance
    pub eps: f64,
    /// is there a weight?
    pub weight: bool,
    /// is there a bias?
    pub bias: bool,
}

/// How a norm sees its input.
struct Seen {
    /// the input's shape with the axes brought together
    view: Shape,
    /// the axes of the view that are normalised together
    axes: AxisSet,
    /// the shape of weight and bias
    param: Shape,
    /// weight and bias as they broadcast to the input
    broadcast: Shape,
    /// axes of the input over which the cotangent of weight and bias is summed
    summed: AxisSet,
    /// elements behind one statistic
    count: usize,
}

impl Norm {
    fn seen(&self, shape: &Shape) -> std::result::Result<Seen, ErrorKind> {
        let rank = shape.rank();
        let channels_last = |s: &Shape| -> std::result::Result<(Shape, Shape, AxisSet), ErrorKind> {
            let param = Shape::new(&[s[1]])?;
            let broadcast = Shape::along(0, s[1], rank - 1);
            let mut summed = AxisSet::all(rank);
            summed.0 &= !0b10;
            Ok((param, broadcast, summed))
        };
        match self.over {
            Over::Layer { axes } | Over::Rms { axes } => {
                if axes == 0 || axes > rank {
                    return Err(ErrorKind::Shape { shape: *shape, expected: format!("at least {} axes to normalise over", axes.max(1)) });
                }
                let (outer, inner) = shape.split_at(rank - axes);
                let count = inner.iter().product();
                let view = Shape::new(&[outer.iter().product(), count])?;
                let param = Shape::new(inner)?;
                Ok(Seen { view, axes: AxisSet::one(1), param, broadcast: param, summed: AxisSet::all(rank - axes), count })
            }
            Over::Group { groups } => {
                if rank < 2 {
                    return Err(ErrorKind::Shape { shape: *shape, expected: "a batch of channels [samples, channels, ..]".into() });
                }
                if groups == 0 || !shape[1].is_multiple_of(groups) {
                    return Err(ErrorKind::Shape { shape: *shape, expected: format!("axis 1 divisible into {groups} groups") });
                }
                let (param, broadcast, summed) = channels_last(shape)?;
                let count = shape[1] / groups * shape[2..].iter().product::<usize>();
                Ok(Seen { view: Shape::new(&[shape[0], groups, count])?, axes: AxisSet::one(2), param, broadcast, summed, count })
            }
            Over::Batch => {
                if rank < 2 {
                    return Err(ErrorKind::Shape { shape: *shape, expected: "a batch of channels [samples, channels, ..]".into() });
                }
                let (param, broadcast, summed) = channels_last(shape)?;
                let inner: usize = shape[2..].iter().product();
                let count = shape[0].saturating_mul(inner);
                if count == 1 {
                    return Err(ErrorKind::Shape { shape: *shape, expected: "more than one value per channel to take statistics of".into() });
                }
                Ok(Seen { view: Shape::new(&[shape[0], shape[1], inner])?, axes: AxisSet(0b101), param, broadcast, summed, count })
            }
        }
    }
    fn centered(&self) -> bool {
        !matches!(self.over, Over::Rms { .. })
    }
    fn statistics(&self) -> usize {
        if self.centered() { 2 } else { 1 }
    }
    fn attributes(&self) -> Attrs {
        let size = match self.over {
            Over::Layer { axes } | Over::Rms { axes } => ("axes", Attr::Int(axes as i64)),
            Over::Group { groups } => ("groups", Attr::Int(groups as i64)),
            Over::Batch => ("training", Attr::Bool(true)),
        };
        smallvec![size, ("eps", Attr::Float(self.eps)), ("weight", Attr::Bool(self.weight)), ("bias", Attr::Bool(self.bias))]
    }
    /// Shapes of the statistics: as the view keeps them, `[channels]` for a batch norm, whose statistics are the user's.
    fn statistic_shape(&self, seen: &Seen) -> Shape {
        if self.over == Over::Batch { seen.param } else { seen.axes.iter().fold(seen.view, |s, a| s.with(a, 1)) }
    }
}
/// A weight or bias has the features' shape, and the input's dtype or the one the norm computes in.
fn check_param(x: &Meta, p: &Meta, shape: &Shape) -> std::result::Result<(), ErrorKind> {
    if p.dtype != x.dtype && p.dtype != wide(x.dtype) {
        return Err(ErrorKind::DtypeMismatch { left: x.dtype, right: p.dtype });
    }
    if p.shape != *shape {
        return Err(ErrorKind::ShapeMismatch {
            left: x.shape,
            right: p.shape,
            axes: None,
            expected: "weight and bias have the shape of the normalised features",
        });
    }
    Ok(())
}

impl Composite for Norm {
    fn name(&self) -> &'static str {
        match self.over {
            Over::Layer { .. } => "adamant.layer_norm",
            Over::Rms { .. } => "adamant.rms_norm",
            Over::Group { .. } => "adamant.group_norm",
            Over::Batch => "adamant.batch_norm",
        }
    }
    fn attrs(&self) -> Attrs {
        self.attributes()
    }
    fn auxiliary(&self) -> usize {
        if self.over == Over::Batch { 0 } else { self.statistics() }
    }
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> {
        one_device(inputs)?;
        let x = floats(&inputs[0])?;
        let seen = self.seen(&x.shape)?;
        for p in &inputs[1..] {
            check_param(&x, p, &seen.param)?;
        }
        let statistic = Meta { shape: self.statistic_shape(&seen), dtype: wide(x.dtype), ..x };
        let mut out = smallvec![x];
        out.extend(std::iter::repeat_n(statistic, self.statistics()));
        Ok(out)
    }
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let m = inputs[0].meta();
        let seen = self.seen(&m.shape).map_err(|k| crate::Error::new(self.name(), k))?;
        let x = inputs[0].widened().reshape(seen.view);
        let mean = self.centered().then(|| x.mean_of(seen.axes));
        let centered = mean.as_ref().map_or_else(|| x.clone(), |mean| &x - mean);
        let var = centered.square().mean_of(seen.axes);
        let rstd = 1.0 / (&var + self.eps).sqrt();
        let mut y = (centered * &rstd).reshape(m.shape);
        let mut params = inputs[1..].iter();
        if let Some(w) = params.next().filter(|_| self.weight) {
            y = y * w.widened().reshape(seen.broadcast);
        }
        if let Some(b) = inputs.last().filter(|_| self.bias) {
            y = y + b.widened().reshape(seen.broadcast);
        }
        let scale = if self.over == Over::Batch { var } else { rstd };
        let shape = self.statistic_shape(&seen);
        let mut out = vec![y.cast(m.dtype)];
        out.extend(mean.into_iter().chain([scale]).map(|s| s.reshape(shape)));
        Ok(out)
    }
    fn saves(&self) -> Option<Saves> {
        let statistics = if self.centered() { 0b110 } else { 0b10 };
        Some(Saves { inputs: if self.weight { 0b11 } else { 0b1 }, outputs: statistics })
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let mut out: Cotangents = smallvec![None; args.metas.len()];
        let x = args.input(0)?;
        let statistics: SmallVec<[&Tensor; 2]> = (1..=self.statistics()).map(|k| args.output(k)).collect::<Result<_>>()?;
        if let Some(g) = &args.cotangents[0] {
            let mut inputs: SmallVec<[&Tensor; 6]> = smallvec![g, x];
            if self.weight {
                inputs.push(args.input(1)?);
            }
            inputs.extend(statistics.iter().copied());
            for (k, d) in Tensor::composite(NormBackward(*self), &inputs).into_iter().enumerate() {
                out[k] = args.needs[k].then_some(d);
            }
        }
        // The statistics are functions of x as well: their cotangents come from a backward that is differentiated
        // again or, for a batch norm, from whoever uses them.
        if let Some(more) = self.through_statistics(args, x, &statistics)? {
            out[0] = Some(match out[0].take() {
                Some(d) => d + more,
                None => more,
            });
        }
        Ok(out)
    }
    fn stacked(&self, inputs: &[StackedInput], _: usize) -> Option<Result<Vec<Tensor>>> {
        match self.over {
            Over::Layer { .. } | Over::Rms { .. } => of_first(*self, inputs),
            Over::Group { .. } => of_samples(*self, inputs),
            Over::Batch => None,
        }
    }
}
impl Norm {
    fn through_statistics(&self, args: &RuleArgs<'_>, x: &Tensor, statistics: &[&Tensor]) -> Result<Option<Tensor>> {
        let cotangents = &args.cotangents[1..];
        if !args.needs[0] || cotangents.iter().all(|g| g.is_none()) {
            return Ok(None);
        }
        let m = x.meta();
        let seen = self.seen(&m.shape).map_err(|k| crate::Error::new(self.name(), k))?;
        let kept = seen.axes.iter().fold(seen.view, |s, a| s.with(a, 1));
        let n = seen.count as f64;
        let x = x.widened().reshape(seen.view);
        let (g_mean, g_scale) = if self.centered() { (cotangents[0].as_ref(), cotangents[1].as_ref()) } else { (None, cotangents[0].as_ref()) };
        let mut sum = None;
        if let Some(g) = g_scale {
            let centered = if self.centered() { &x - statistics[0].reshape(kept) } else { x.clone() };
            // d var / dx = 2 (x - mean) / n, d rstd / dx = -rstd³ (x - mean) / n.
            let slope = if self.over == Over::Batch {
                g.reshape(kept) * 2.0
            } else {
                let rstd = statistics[statistics.len() - 1];
                (g * rstd.square() * rstd).reshape(kept).neg()
            };
            sum = Some(centered * (slope / n));
        }
        if let Some(g) = g_mean {
            let share = (g.reshape(kept) / n).expand(seen.view);
            sum = Some(match sum {
                Some(s) => s + share,
                None => share,
            });
        }
        Ok(sum.map(|s| s.reshape(m.shape).cast(m.dtype)))
    }
}

impl Composite for NormBackward {
    fn name(&self) -> &'static str {
        match self.0.over {
            Over::Layer { .. } => "adamant.layer_norm_backward",
            Over::Rms { .. } => "adamant.rms_norm_backward",
            Over::Group { .. } => "adamant.group_norm_backward",
            Over::Batch => "adamant.batch_norm_backward",
        }
    }
    fn attrs(&self) -> Attrs {
        self.0.attributes()
    }
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> {
        let x = inputs[1];
        let seen = self.0.seen(&x.shape)?;
        let mut out = smallvec![x];
        let param = |dtype| Meta { shape: seen.param, dtype, ..x };
        if self.0.weight {
            out.push(param(inputs[2].dtype));
        }
        if self.0.bias {
            out.push(param(if self.0.weight { inputs[2].dtype } else { x.dtype }));
        }
        Ok(out)
    }
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let norm = &self.0;
        let m = inputs[1].meta();
        let seen = norm.seen(&m.shape).map_err(|k| crate::Error::new(self.name(), k))?;
        let kept = seen.axes.iter().fold(seen.view, |s, a| s.with(a, 1));
        let (g, x) = (inputs[0].widened(), inputs[1].widened().reshape(seen.view));
        let statistics = &inputs[2 + norm.weight as usize..];
        let scale = statistics[statistics.len() - 1].reshape(kept);
        let rstd = if norm.over == Over::Batch { 1.0 / (scale + norm.eps).sqrt() } else { scale };
        let hat = if norm.centered() { (x - statistics[0].reshape(kept)) * &rstd } else { x * &rstd };
        let weighted = if norm.weight { &g * inputs[2].widened().reshape(seen.broadcast) } else { g.clone() }.reshape(seen.view);
        let mut dx = &weighted - &hat * (&weighted * &hat).mean_of(seen.axes);
        if norm.centered() {
            dx = dx - weighted.mean_of(seen.axes);
        }
        let mut out = vec![(dx * rstd).reshape(m.shape).cast(m.dtype)];
        let param_dtype = if norm.weight { inputs[2].meta().dtype } else { m.dtype };
        let over = |t: Tensor| t.sum_keepdim(seen.summed).reshape(seen.param).cast(param_dtype);
        if norm.weight {
            out.push(over(&g * hat.reshape(m.shape)));
        }
        if norm.bias {
            out.push(over(g));
        }
        Ok(out)
    }
    /// Only where nothing is summed over the examples: the gradients of weight and bias would be.
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        let norm = &self.0;
        if norm.weight || norm.bias || !matches!(norm.over, Over::Layer { .. } | Over::Rms { .. }) {
            return None;
        }
        let mut all: SmallVec<[Tensor; 6]> = inputs.iter().map(|x| x.of_each(examples)).collect();
        let shape = all.get(1)?.meta().shape;
        let statistic = norm.seen(&shape).map(|seen| norm.statistic_shape(&seen)).ok()?;
        all.iter_mut().skip(2).for_each(|s| *s = s.reshape(statistic));
        Some(Ok(whole(*self, &all.iter().collect::<SmallVec<[&Tensor; 6]>>())))
    }
}

impl Composite for BatchNormInference {
    fn name(&self) -> &'static str {
        "adamant.batch_norm_inference"
    }
    fn attrs(&self) -> Attrs {
        smallvec![("eps", Attr::Float(self.eps)), ("weight", Attr::Bool(self.weight)), ("bias", Attr::Bool(self.bias))]
    }
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> {
        one_device(inputs)?;
        let x = floats(&inputs[0])?;
        if x.shape.rank() < 2 {
            return Err(ErrorKind::Shape { shape: x.shape, expected: "a batch of channels [samples, channels, ..]".into() });
        }
        let param = Shape::new(&[x.shape[1]])?;
        for p in &inputs[1..] {
            check_param(&x, p, &param)?;
        }
        Ok(smallvec![x])
    }
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let m = inputs[0].meta();
        let per_channel = |t: &Tensor| channelwise(t, &m.shape);
        let mut y = (inputs[0].widened() - per_channel(&inputs[1])) * (1.0 / (per_channel(&inputs[2]) + self.eps).sqrt());
        if self.weight {
            y = y * per_channel(&inputs[3]);
        }
        if let Some(b) = inputs.last().filter(|_| self.bias) {
            y = y + per_channel(b);
        }
        Ok(vec![y.cast(m.dtype)])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves { inputs: if self.weight { 0b1111 } else { 0b111 }, outputs: 0 })
    }
    /// The running statistics are no function of the input: no gradient flows to them, as in PyTorch.
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let mut out = smallvec![None; args.metas.len()];
        let Some(g) = &args.cotangents[0] else { return Ok(out) };
        let m = args.metas[0];
        let mut others = AxisSet::all(m.shape.rank());
        others.0 &= !0b10;
        let g = g.widened();
        let rstd = 1.0 / (channelwise(args.input(2)?, &m.shape) + self.eps).sqrt();
        let over = |t: Tensor, k: usize| t.sum_keepdim(others).reshape(args.metas[k].shape).cast(args.metas[k].dtype);
        if args.needs[0] {
            let scale = if self.weight { &rstd * channelwise(args.input(3)?, &m.shape) } else { rstd.clone() };
            out[0] = Some((&g * scale).cast(m.dtype));
        }
        if self.weight && args.needs[3] {
            let hat = (args.input(0)?.widened() - channelwise(args.input(1)?, &m.shape)) * rstd;
            out[3] = Some(over(&g * hat, 3));
        }
        let bias = 3 + self.weight as usize;
        if self.bias && args.needs[bias] {
            out[bias] = Some(over(g, bias));
        }
        Ok(out)
    }
    fn stacked(&self, inputs: &[StackedInput], _: usize) -> Option<Result<Vec<Tensor>>> {
        of_samples(*self, inputs)
    }
}
/// One number per channel, as it broadcasts to `[samples, channels, ..]`.
fn channelwise(t: &Tensor, shape: &Shape) -> Tensor {
    let dims = Shape::along(0, shape[1], shape.rank() - 1);
    t.widened().reshape(dims)
}
