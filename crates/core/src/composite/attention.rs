//! Scaled dot-product attention, `softmax(scale q kᵀ + mask) v` (Vaswani et al., 2017). The rule reads the inputs, the
//! output and the logarithm of each row's sum, and computes the probabilities again (Dao et al., "FlashAttention",
//! 2022), so nothing of size `[queries, keys]` is saved. A row that is masked everywhere gives zeros, as in PyTorch.
use super::{Compound, RuleArgs, Saves, StackedInput, dropout::keep_factors, whole};
use crate::{AxisSet, DType, Error, Result, Shape, Tensor, composite::Cotangents, op::ReduceOp};
pub use adamant_ir::composite::attention::*;
use smallvec::{SmallVec, smallvec};

/// The scores with everything that is masked at -inf, in f32 or wider.
fn scores(of: &Attention, q: &Tensor, k: &Tensor, mask: Option<&Tensor>) -> Tensor {
    let mut s = q.matmul(k.mt()) * of.scale;
    if let Some(mask) = mask {
        s = if mask.meta().dtype == DType::Bool { mask.where_(&s, f64::NEG_INFINITY) } else { s + mask.widened() };
    }
    if of.causal {
        let shape = s.meta().shape;
        let rank = shape.rank();
        let plane = Tensor::full_on([shape[rank - 2], shape[rank - 1]], 0, DType::I32, s.meta().device);
        let hidden = plane.iota_like(1, DType::I32).gt(plane.iota_like(0, DType::I32));
        s = hidden.where_(f64::NEG_INFINITY, &s);
    }
    s
}
/// k or v with each head repeated for the query heads that share it.
pub(super) fn repeat_heads(x: &Tensor, q: &Shape) -> Result<Tensor> {
    let s = x.meta().shape;
    let rank = s.rank();
    if rank < 3 || s[rank - 3] == q[rank - 3] {
        return Ok(x.clone());
    }
    let ratio = q[rank - 3] / s[rank - 3];
    let fail = |k| Error::new("adamant.attention", k);
    let apart = s.insert(rank - 2, 1).map_err(fail)?;
    Ok(x.reshape(apart).expand(apart.with(rank - 2, ratio)).reshape(s.with(rank - 3, q[rank - 3])))
}
/// The inverse of `repeat_heads` for cotangents: those of the repetitions added up.
fn sum_heads(g: Tensor, shape: &Shape) -> Result<Tensor> {
    let from = g.meta().shape;
    let rank = from.rank();
    if from == *shape {
        return Ok(g);
    }
    let ratio = from[rank - 3] / shape[rank - 3];
    let apart = shape.insert(rank - 2, ratio).map_err(|k| Error::new("adamant.attention", k))?;
    Ok(g.reshape(apart).sum(rank - 2))
}
fn keep(of: &Attention, key: Option<&Tensor>, p: &Tensor) -> Option<Tensor> {
    key.map(|key| keep_factors(key, p.meta().shape, of.dropout, p.meta().dtype))
}
/// The inputs from `at` on, which are the mask and the key, as they belong to stacks of tensors of `rank` axes: a mask
/// with its examples' axis before theirs. `None`: each example has a key.
fn stacked_rest(of: &Attention, inputs: &[StackedInput], at: usize, rank: usize, examples: usize) -> Option<Vec<Tensor>> {
    let aligned = |s: &StackedInput, each: bool| {
        let t = if each { s.of_each(examples) } else { s.tensor.clone() };
        let shape = t.meta().shape;
        if shape.rank() == 0 || !(s.batched || each) {
            return t;
        }
        let apart = std::iter::repeat_n(1, rank + 1 - shape.rank());
        let dims: SmallVec<[usize; 8]> = std::iter::once(shape[0]).chain(apart).chain(shape[1..].iter().copied()).collect();
        t.reshape(&dims[..])
    };
    let mut rest = inputs.get(at..)?.iter();
    let mut out = Vec::new();
    if of.mask {
        let mask = rest.next()?;
        // A float mask has a gradient of its own in each example.
        out.push(aligned(mask, mask.tensor.meta().dtype.is_float()));
    }
    if of.dropout > 0.0 {
        let key = rest.next().filter(|key| !key.batched)?;
        out.push(key.tensor.clone());
    }
    out.extend(rest.map(|s| s.of_each(examples)));
    Some(out)
}

impl Compound for Attention {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let m = inputs[0].meta();
        let q = inputs[0].widened();
        let (k, v) = (repeat_heads(&inputs[1].widened(), &m.shape)?, repeat_heads(&inputs[2].widened(), &m.shape)?);
        let s = scores(self, &q, &k, inputs.get(3).filter(|_| self.mask));
        let last = AxisSet::one(m.shape.rank() - 1);
        if s.meta().shape[m.shape.rank() - 1] == 0 {
            // No keys at all: every row is masked everywhere.
            let lse = s.sum_keepdim(last) + f64::NEG_INFINITY;
            return Ok(vec![s.matmul(&v).cast(m.dtype), lse]);
        }
        let max = s.reduce(ReduceOp::Max, last, true);
        let max = max.eq(f64::NEG_INFINITY).where_(0.0, &max);
        let e = (&s - &max).exp();
        let sum = e.sum_keepdim(last);
        let lse = max + sum.log();
        let mut p = &e / sum.eq(0.0).where_(1.0, &sum);
        if let Some(keep) = keep(self, inputs.last().filter(|_| self.dropout > 0.0), &p) {
            p = p * keep;
        }
        Ok(vec![p.matmul(&v).cast(m.dtype), lse])
    }
    fn saves(&self) -> Option<Saves> {
        let inputs = 3 + self.mask as usize + (self.dropout > 0.0) as usize;
        Some(Saves { outputs: 0b11, ..Saves::inputs(inputs) })
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let n = args.metas.len();
        let mut out = smallvec![None; n];
        let zero;
        let g = match (&args.cotangents[0], &args.cotangents[1]) {
            (None, None) => return Ok(out),
            (Some(g), _) => g,
            (None, Some(_)) => {
                zero = args.output(0)?.zeros_like();
                &zero
            }
        };
        let mut inputs: SmallVec<[&Tensor; 8]> = smallvec![g];
        for k in 0..n {
            inputs.push(args.input(k)?);
        }
        inputs.extend([args.output(0)?, args.output(1)?]);
        inputs.extend(&args.cotangents[1]);
        let backward = AttentionBackward { forward: *self, with_lse: args.cotangents[1].is_some() };
        for (k, d) in Tensor::composite(backward, &inputs).into_iter().enumerate() {
            out[k] = args.needs[k].then_some(d);
        }
        Ok(out)
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        let rank = inputs.first()?.tensor.rank() - usize::from(inputs[0].batched);
        let mut all: Vec<Tensor> = inputs.get(..3)?.iter().map(|x| x.of_each(examples)).collect();
        all.extend(stacked_rest(self, inputs, 3, rank, examples)?);
        Some(Ok(whole(*self, &all.iter().collect::<SmallVec<[&Tensor; 8]>>())))
    }
}

impl Compound for AttentionBackward {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let f = &self.forward;
        let m = inputs[1].meta();
        let (g, q) = (inputs[0].widened(), inputs[1].widened());
        let (k, v) = (repeat_heads(&inputs[2].widened(), &m.shape)?, repeat_heads(&inputs[3].widened(), &m.shape)?);
        let mask = inputs.get(4).filter(|_| f.mask);
        let key = inputs.get(4 + f.mask as usize).filter(|_| f.dropout > 0.0);
        let rest = &inputs[4 + f.mask as usize + key.is_some() as usize..];
        let (out, lse) = (rest[0].widened(), &rest[1]);
        let last = AxisSet::one(m.shape.rank() - 1);
        // exp(s - lse); where a row is masked everywhere, s - inf = -inf gives the zeros it must.
        let lse = lse.eq(f64::NEG_INFINITY).where_(f64::INFINITY, lse);
        let p = (scores(f, &q, &k, mask) - lse).exp();
        let keep = keep(f, key, &p);
        let mut dp = g.matmul(v.mt());
        let mut dropped = p.clone();
        if let Some(keep) = keep {
            dp = dp * &keep;
            dropped = dropped * keep;
        }
        // The row's dot product of p and dp is that of output and cotangent, unless the output was rounded to 16 bits:
        // where one key has all the weight, dp - delta must cancel. The cotangent of lse adds to p.
        let rounded = m.dtype != g.meta().dtype;
        let mut delta = if rounded { (&p * &dp).sum_keepdim(last) } else { (&g * out).sum_keepdim(last) };
        if self.with_lse {
            delta = delta - &rest[2];
        }
        let ds = p * (dp - delta);
        let scaled = &ds * f.scale;
        let mut result = vec![
            scaled.matmul(&k).cast(m.dtype),
            sum_heads(scaled.mt().matmul(&q), &inputs[2].meta().shape)?.cast(m.dtype),
            sum_heads(dropped.mt().matmul(&g), &inputs[3].meta().shape)?.cast(m.dtype),
        ];
        if let Some(mask) = mask.filter(|m| m.meta().dtype.is_float()) {
            result.push(crate::primitive::sum_to(&ds, &mask.meta().shape).cast(mask.meta().dtype));
        }
        Ok(result)
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        let rank = inputs.get(1)?.tensor.rank() - usize::from(inputs[1].batched);
        let mut all: Vec<Tensor> = inputs.get(..4)?.iter().map(|x| x.of_each(examples)).collect();
        all.extend(stacked_rest(&self.forward, inputs, 4, rank, examples)?);
        Some(Ok(whole(*self, &all.iter().collect::<SmallVec<[&Tensor; 8]>>())))
    }
}
