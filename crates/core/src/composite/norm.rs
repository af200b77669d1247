//! Normalisation: `(x - mean) / sqrt(var + eps)` over some axes, then a weight and a bias per feature. Layer, RMS,
//! group and batch normalisation differ only in which axes those are, so they are one composite with four names;
//! the rule reads the input and the statistics (never the normalised values) and is itself a composite.
//!
//! Ba et al., "Layer Normalization", 2016; Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019;
//! Wu and He, "Group Normalization", 2018; Ioffe and Szegedy, "Batch Normalization", 2015.
use super::{Composite, Compound, RuleArgs, Saves, StackedInput, of_first, of_samples, whole};
use crate::{AxisSet, Result, Shape, Tensor, composite::Cotangents};
pub use adamant_ir::composite::norm::*;
use smallvec::{SmallVec, smallvec};

impl Compound for Norm {
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
        if let Some(more) = through_statistics(self, args, x, &statistics)? {
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

fn through_statistics(of: &Norm, args: &RuleArgs<'_>, x: &Tensor, statistics: &[&Tensor]) -> Result<Option<Tensor>> {
    let cotangents = &args.cotangents[1..];
    if !args.needs[0] || cotangents.iter().all(|g| g.is_none()) {
        return Ok(None);
    }
    let m = x.meta();
    let seen = of.seen(&m.shape).map_err(|k| crate::Error::new(of.name(), k))?;
    let kept = seen.axes.iter().fold(seen.view, |s, a| s.with(a, 1));
    let n = seen.count as f64;
    let x = x.widened().reshape(seen.view);
    let (g_mean, g_scale) = if of.centered() { (cotangents[0].as_ref(), cotangents[1].as_ref()) } else { (None, cotangents[0].as_ref()) };
    let mut sum = None;
    if let Some(g) = g_scale {
        let centered = if of.centered() { &x - statistics[0].reshape(kept) } else { x.clone() };
        // d var / dx = 2 (x - mean) / n, d rstd / dx = -rstd³ (x - mean) / n.
        let slope = if of.over == Over::Batch {
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

impl Compound for NormBackward {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let norm = &self.0;
        let m = inputs[1].meta();
        let seen = norm.seen(&m.shape).map_err(|k| crate::Error::new(self.name(), k))?;
        let kept = seen.axes.iter().fold(seen.view, |s, a| s.with(a, 1));
        let (g, x) = (inputs[0].widened(), inputs[1].widened().reshape(seen.view));
        let statistics = &inputs[2 + norm.weight as usize..];
        let scale = statistics[statistics.len() - 1].reshape(kept);
        let rstd = if norm.over == Over::Batch { 1.0 / (scale + norm.eps).sqrt() } else { scale };
        let hat = if norm.centered() { (&x - statistics[0].reshape(kept)) * &rstd } else { &x * &rstd };
        let weighted = if norm.weight { &g * inputs[2].widened().reshape(seen.broadcast) } else { g.clone() }.reshape(seen.view);
        let dx = if let Over::Group { .. } = norm.over {
            // A group is a row of a layer norm, whose kernel makes one pass of this.
            let rows = Norm { over: Over::Layer { axes: 1 }, weight: false, bias: false, ..*norm };
            Tensor::composite1(NormBackward(rows), &[&weighted, &x, &statistics[0], &statistics[1]])
        } else {
            let mut dx = &weighted - &hat * (&weighted * &hat).mean_of(seen.axes);
            if norm.centered() {
                dx = dx - weighted.mean_of(seen.axes);
            }
            dx * rstd
        };
        let mut out = vec![dx.reshape(m.shape).cast(m.dtype)];
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

impl Compound for BatchNormInference {
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
        let over = |t: Tensor, k: usize| args.rounded(k, t.sum_keepdim(others).reshape(args.metas[k].shape));
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
