//! Scaled dot-product attention, `softmax(scale q kᵀ + mask) v` (Vaswani et al., 2017). The rule reads the inputs, the
//! output and the logarithm of each row's sum, and computes the probabilities again (Dao et al., "FlashAttention",
//! 2022), so nothing of size `[queries, keys]` is saved. A row that is masked everywhere gives zeros, as in PyTorch.
use super::{
    Attr, Attrs, Composite, RuleArgs, Saves, StackedInput,
    dropout::keep_factors,
    whole,
    wide::{floats, one_device, same_dtype, wide},
};
use crate::{AxisSet, DType, Error, ErrorKind, Meta, Result, Shape, Tensor, composite::Cotangents, op::Metas, op::ReduceOp};
use smallvec::{SmallVec, smallvec};

/// Inputs: q `[.., heads, queries, e]`, k `[.., kv heads, keys, e]`, v `[.., kv heads, keys, ev]` with equal leading
/// axes (heads: a multiple of the kv heads), then, where there are, a mask that broadcasts to `[.., queries, keys]`
/// (bool: true takes part; float: added to the scores) and a random key for dropout. Auxiliary output: the
/// logarithm of the sum of each row's exponentials, `[.., heads, queries, 1]`, -inf where all is masked.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// factor of the scores
    pub scale: f64,
    /// does query i see only the keys 0..=i?
    pub causal: bool,
    /// is there a mask?
    pub mask: bool,
    /// probability that an attention weight is dropped; 0: no key is given
    pub dropout: f64,
}
/// Inputs: the cotangent of the output, q, k, v, mask and key where there are, the output, the row sums' logarithm
/// and, where `with_lse`, the latter's cotangent. Outputs: cotangents of q, k, v and of a float mask.
#[derive(Clone, Copy, Debug)]
pub struct AttentionBackward {
    /// the attention
    pub forward: Attention,
    /// is the cotangent of the auxiliary output given?
    pub with_lse: bool,
}

impl Attention {
    fn attributes(&self) -> Attrs {
        smallvec![
            ("scale", Attr::Float(self.scale)),
            ("causal", Attr::Bool(self.causal)),
            ("mask", Attr::Bool(self.mask)),
            ("dropout", Attr::Float(self.dropout))
        ]
    }
    /// The scores with everything that is masked at -inf, in f32 or wider.
    fn scores(&self, q: &Tensor, k: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let mut s = q.matmul(k.mt()) * self.scale;
        if let Some(mask) = mask {
            s = if mask.meta().dtype == DType::Bool { mask.select(&s, f64::NEG_INFINITY) } else { s + mask.widened() };
        }
        if self.causal {
            let shape = s.meta().shape;
            let rank = shape.rank();
            let plane = Tensor::full_on([shape[rank - 2], shape[rank - 1]], 0, DType::I32, s.meta().device);
            let hidden = plane.iota_like(1, DType::I32).gt(plane.iota_like(0, DType::I32));
            s = hidden.select(f64::NEG_INFINITY, &s);
        }
        s
    }
    /// k or v with each head repeated for the query heads that share it.
    fn repeat_heads(&self, x: &Tensor, q: &Shape) -> Result<Tensor> {
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
    fn sum_heads(&self, g: Tensor, shape: &Shape) -> Result<Tensor> {
        let from = g.meta().shape;
        let rank = from.rank();
        if from == *shape {
            return Ok(g);
        }
        let ratio = from[rank - 3] / shape[rank - 3];
        let apart = shape.insert(rank - 2, ratio).map_err(|k| Error::new("adamant.attention", k))?;
        Ok(g.reshape(apart).sum(rank - 2))
    }
    /// The inputs from `at` on, which are the mask and the key, as they belong to stacks of tensors of `rank` axes: a mask
    /// with its examples' axis before theirs. `None`: each example has a key.
    fn stacked_rest(&self, inputs: &[StackedInput], at: usize, rank: usize, examples: usize) -> Option<Vec<Tensor>> {
        let aligned = |s: &StackedInput, each: bool| {
            let t = if each { s.of_each(examples) } else { s.tensor.clone() };
            let shape = t.meta().shape;
            (shape.rank() > 0 && (s.batched || each)).then(|| {
                let dims: SmallVec<[usize; 8]> =
                    std::iter::once(shape[0]).chain(std::iter::repeat_n(1, rank + 1 - shape.rank())).chain(shape[1..].iter().copied()).collect();
                t.reshape(&dims[..])
            }).unwrap_or(t)
        };
        let mut rest = inputs.get(at..)?.iter();
        let mut out = Vec::new();
        if self.mask {
            let mask = rest.next()?;
            // A float mask has a gradient of its own in each example.
            out.push(aligned(mask, mask.tensor.meta().dtype.is_float()));
        }
        if self.dropout > 0.0 {
            let key = rest.next().filter(|key| !key.batched)?;
            out.push(key.tensor.clone());
        }
        out.extend(rest.map(|s| s.of_each(examples)));
        Some(out)
    }
    fn keep(&self, key: Option<&Tensor>, p: &Tensor) -> Option<Tensor> {
        key.map(|key| keep_factors(key, p.meta().shape, self.dropout, p.meta().dtype))
    }
}

impl Composite for Attention {
    fn name(&self) -> &'static str {
        "adamant.attention"
    }
    fn attrs(&self) -> Attrs {
        self.attributes()
    }
    fn auxiliary(&self) -> usize {
        1
    }
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> {
        one_device(inputs)?;
        let (q, k, v) = (floats(&inputs[0])?, &inputs[1], &inputs[2]);
        same_dtype(&q, k)?;
        same_dtype(&q, v)?;
        let rank = q.shape.rank();
        if rank < 2 || k.shape.rank() != rank || v.shape.rank() != rank {
            return Err(ErrorKind::ShapeMismatch {
                left: q.shape,
                right: k.shape,
                axes: None,
                expected: "queries, keys and values have equally many axes, at least two",
            });
        }
        let differ = |left: Shape, right: Shape, a: usize, b: usize, expected| Err(ErrorKind::ShapeMismatch { left, right, axes: Some((a, b)), expected });
        if q.shape[rank - 1] != k.shape[rank - 1] {
            return differ(q.shape, k.shape, rank - 1, rank - 1, "queries and keys must have equally many features");
        }
        if k.shape[rank - 2] != v.shape[rank - 2] {
            return differ(k.shape, v.shape, rank - 2, rank - 2, "there must be as many keys as values");
        }
        for a in 0..rank - 2 {
            if k.shape[a] != v.shape[a] {
                return differ(k.shape, v.shape, a, a, "keys and values must have equal leading axes");
            }
            let shared = a == rank - 3 && k.shape[a] != 0 && q.shape[a] % k.shape[a] == 0;
            if q.shape[a] != k.shape[a] && !shared {
                return differ(q.shape, k.shape, a, a, "queries and keys must have equal leading axes; only heads may be shared, in equal groups");
            }
        }
        let scores = q.shape.with(rank - 1, k.shape[rank - 2]);
        if self.mask {
            let m = &inputs[3];
            if m.dtype != DType::Bool && m.dtype != q.dtype && m.dtype != wide(q.dtype) {
                return Err(ErrorKind::Dtype(format!("a mask is bool, or {} to be added, not {}", q.dtype, m.dtype)));
            }
            if m.shape.broadcast(&scores) != Some(scores) {
                return Err(ErrorKind::ShapeMismatch { left: scores, right: m.shape, axes: None, expected: "the mask must broadcast to [.., queries, keys]" });
            }
        }
        if !(0.0..=1.0).contains(&self.dropout) {
            return Err(ErrorKind::Argument(format!("a probability lies between 0 and 1, not {}", self.dropout)));
        }
        let out = Meta { shape: q.shape.with(rank - 1, v.shape[rank - 1]), ..q };
        Ok(smallvec![out, Meta { shape: scores.with(rank - 1, 1), dtype: wide(q.dtype), ..q }])
    }
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let m = inputs[0].meta();
        let q = inputs[0].widened();
        let (k, v) = (self.repeat_heads(&inputs[1].widened(), &m.shape)?, self.repeat_heads(&inputs[2].widened(), &m.shape)?);
        let s = self.scores(&q, &k, inputs.get(3).filter(|_| self.mask));
        let last = AxisSet::one(m.shape.rank() - 1);
        if s.meta().shape[m.shape.rank() - 1] == 0 {
            // No keys at all: every row is masked everywhere.
            let lse = s.sum_keepdim(last) + f64::NEG_INFINITY;
            return Ok(vec![s.matmul(&v).cast(m.dtype), lse]);
        }
        let max = s.reduce(ReduceOp::Max, last, true);
        let max = max.eq(f64::NEG_INFINITY).select(0.0, &max);
        let e = (&s - &max).exp();
        let sum = e.sum_keepdim(last);
        let lse = max + sum.log();
        let mut p = &e / sum.eq(0.0).select(1.0, &sum);
        if let Some(keep) = self.keep(inputs.last().filter(|_| self.dropout > 0.0), &p) {
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
        all.extend(self.stacked_rest(inputs, 3, rank, examples)?);
        Some(Ok(whole(*self, &all.iter().collect::<SmallVec<[&Tensor; 8]>>())))
    }
}

impl Composite for AttentionBackward {
    fn name(&self) -> &'static str {
        "adamant.attention_backward"
    }
    fn attrs(&self) -> Attrs {
        let mut attrs = self.forward.attributes();
        attrs.push(("with_lse", Attr::Bool(self.with_lse)));
        attrs
    }
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> {
        let mut out = Metas::from_slice(&inputs[1..4]);
        if self.forward.mask && inputs[4].dtype.is_float() {
            out.push(inputs[4]);
        }
        Ok(out)
    }
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let f = &self.forward;
        let m = inputs[1].meta();
        let (g, q) = (inputs[0].widened(), inputs[1].widened());
        let (k, v) = (f.repeat_heads(&inputs[2].widened(), &m.shape)?, f.repeat_heads(&inputs[3].widened(), &m.shape)?);
        let mask = inputs.get(4).filter(|_| f.mask);
        let key = inputs.get(4 + f.mask as usize).filter(|_| f.dropout > 0.0);
        let rest = &inputs[4 + f.mask as usize + key.is_some() as usize..];
        let (out, lse) = (rest[0].widened(), &rest[1]);
        let last = AxisSet::one(m.shape.rank() - 1);
        // exp(s - lse); where a row is masked everywhere, s - inf = -inf gives the zeros it must.
        let lse = lse.eq(f64::NEG_INFINITY).select(f64::INFINITY, lse);
        let p = (f.scores(&q, &k, mask) - lse).exp();
        let keep = f.keep(key, &p);
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
            f.sum_heads(scaled.mt().matmul(&q), &inputs[2].meta().shape)?.cast(m.dtype),
            f.sum_heads(dropped.mt().matmul(&g), &inputs[3].meta().shape)?.cast(m.dtype),
        ];
        if let Some(mask) = mask.filter(|m| m.meta().dtype.is_float()) {
            result.push(crate::grad::sum_to(&ds, &mask.meta().shape).cast(mask.meta().dtype));
        }
        Ok(result)
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        let rank = inputs.get(1)?.tensor.rank() - usize::from(inputs[1].batched);
        let mut all: Vec<Tensor> = inputs.get(..4)?.iter().map(|x| x.of_each(examples)).collect();
        all.extend(self.forward.stacked_rest(inputs, 4, rank, examples)?);
        Some(Ok(whole(*self, &all.iter().collect::<SmallVec<[&Tensor; 8]>>())))
    }
}
