//! Multi-head attention (Vaswani et al. 2017), as `torch.nn.MultiheadAttention`.
use crate::{
    Linear, Module, Param, Site,
    cache::{CachedAttentionOptions, open_step},
    init,
    site::LayerFacts,
};
use adamant_core::{
    DType, Error, ErrorKind, Outputs, Result, Tensor,
    composite::split::Split,
    functional::{self, AttentionOptions},
    scope,
};

/// Options of [`MultiheadAttention`]; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug)]
pub struct MultiheadAttentionOptions {
    /// probability that an attention weight is dropped, in training
    pub dropout: f64,
    /// with biases?
    pub bias: bool,
    /// a trained key and value at the end of every sequence?
    pub add_bias_kv: bool,
    /// a key and value of zeros at the end of every sequence?
    pub add_zero_attn: bool,
    /// features of the keys (`None`: embed_dim)
    pub kdim: Option<usize>,
    /// features of the values (`None`: embed_dim)
    pub vdim: Option<usize>,
    /// is the batch the first axis? Else the sequence is.
    pub batch_first: bool,
}
impl Default for MultiheadAttentionOptions {
    fn default() -> MultiheadAttentionOptions {
        MultiheadAttentionOptions { dropout: 0.0, bias: true, add_bias_kv: false, add_zero_attn: false, kdim: None, vdim: None, batch_first: false }
    }
}
/// What hides keys from queries. Bool masks are true where a key is hidden, as `torch.nn.MultiheadAttention`'s; float masks
/// are added to the scores.
#[derive(Clone, Copy, Default)]
pub struct Masks<'a> {
    /// `[queries, keys]` or `[batch · heads, queries, keys]`
    pub attn_mask: Option<&'a Tensor>,
    /// `[batch, keys]`
    pub key_padding_mask: Option<&'a Tensor>,
    /// does query i see only the keys 0..=i?
    pub is_causal: bool,
}

/// Several attentions side by side over projections of queries, keys and values.
#[derive(Clone, Module)]
pub struct MultiheadAttention {
    site: Site,
    in_proj_weight: Option<Param>,
    q_proj_weight: Option<Param>,
    k_proj_weight: Option<Param>,
    v_proj_weight: Option<Param>,
    in_proj_bias: Option<Param>,
    bias_k: Option<Param>,
    bias_v: Option<Param>,
    out_proj: Linear,
    /// features of one head; how many heads there are, the weights say: pruning takes some out
    head_dim: usize,
    #[module(skip)]
    options: MultiheadAttentionOptions,
}
impl MultiheadAttention {
    /// PyTorch's defaults.
    ///
    /// # Errors
    /// As [`MultiheadAttention::with`].
    #[track_caller]
    pub fn new(embed_dim: usize, num_heads: usize) -> Result<MultiheadAttention> {
        MultiheadAttention::with(embed_dim, num_heads, MultiheadAttentionOptions::default())
    }
    /// With options.
    ///
    /// # Errors
    /// Heads that do not divide the features; a dropout that is no probability.
    #[track_caller]
    pub fn with(embed_dim: usize, num_heads: usize, options: MultiheadAttentionOptions) -> Result<MultiheadAttention> {
        let _call = scope::call("MultiheadAttention");
        let refuse = |text: String| Error::new("MultiheadAttention", ErrorKind::Argument(text));
        if num_heads == 0 || embed_dim == 0 || !embed_dim.is_multiple_of(num_heads) {
            return Err(refuse(format!("{num_heads} heads do not divide {embed_dim} features")));
        }
        if !(0.0..=1.0).contains(&options.dropout) {
            return Err(refuse(format!("dropout is {}, a probability is from 0 to 1", options.dropout)));
        }
        let (kdim, vdim) = (options.kdim.unwrap_or(embed_dim), options.vdim.unwrap_or(embed_dim));
        let (mut in_proj_weight, mut q, mut k, mut v) = (None, None, None, None);
        if kdim == embed_dim && vdim == embed_dim {
            in_proj_weight = Some(Param::new(&init::xavier_uniform([3 * embed_dim, embed_dim], 1.0)?)?);
        } else {
            q = Some(Param::new(&init::xavier_uniform([embed_dim, embed_dim], 1.0)?)?);
            k = Some(Param::new(&init::xavier_uniform([embed_dim, kdim], 1.0)?)?);
            v = Some(Param::new(&init::xavier_uniform([embed_dim, vdim], 1.0)?)?);
        }
        let in_proj_bias = if options.bias { Some(Param::new(&init::zeros(3 * embed_dim)?)?) } else { None };
        let (mut bias_k, mut bias_v) = (None, None);
        if options.add_bias_kv {
            bias_k = Some(Param::new(&init::xavier_normal([1, 1, embed_dim], 1.0)?)?);
            bias_v = Some(Param::new(&init::xavier_normal([1, 1, embed_dim], 1.0)?)?);
        }
        let out_weight = Param::new(&init::default_weight([embed_dim, embed_dim])?)?;
        let out_bias = if options.bias { Some(Param::new(&init::zeros(embed_dim)?)?) } else { None };
        let out_proj = Linear::of(out_weight, out_bias);
        Ok(MultiheadAttention {
            site: Site::with_facts("MultiheadAttention", LayerFacts { head_dim: Some(embed_dim / num_heads), ..LayerFacts::default() }),
            in_proj_weight,
            q_proj_weight: q,
            k_proj_weight: k,
            v_proj_weight: v,
            in_proj_bias,
            bias_k,
            bias_v,
            out_proj,
            head_dim: embed_dim / num_heads,
            options,
        })
    }
    /// The output for queries, keys and values.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn forward(&self, query: &Tensor, key: &Tensor, value: &Tensor, masks: &Masks<'_>) -> Result<Tensor> {
        Ok(self.run(query, key, value, masks, false)?.0)
    }
    /// The output, and the attention weights averaged over the heads, `[batch, queries, keys]`.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn forward_weights(&self, query: &Tensor, key: &Tensor, value: &Tensor, masks: &Masks<'_>) -> Result<(Tensor, Tensor)> {
        match self.run(query, key, value, masks, true)? {
            (y, Some(weights)) => Ok((y, weights)),
            _ => Err(Error::new("MultiheadAttention", ErrorKind::Internal("no weights".into()))),
        }
    }
    #[track_caller]
    fn run(&self, query: &Tensor, key: &Tensor, value: &Tensor, masks: &Masks<'_>, need_weights: bool) -> Result<(Tensor, Option<Tensor>)> {
        let call = self.site.begin(&[query, key, value])?;
        let _called = scope::call(self.site.kind());
        let (query, key, value) = (call.input(0, query), call.input(1, key), call.input(2, value));
        let batched = query.shape()?.rank() == 3;
        let [q, mut k, mut v] = self.projections(query, key, value)?;
        let [batch, queries, features] = q.dims()?;
        let (heads, width) = (features / self.head_dim, self.head_dim);
        let append = |t: &Tensor, extra: &Tensor| Tensor::cat(&[t, &extra.expand([batch, 1, features])], 1);
        let mut extra = 0;
        if let (Some(bias_k), Some(bias_v)) = (&self.bias_k, &self.bias_v) {
            (k, v) = (append(&k, &bias_k.get()), append(&v, &bias_v.get()));
            extra += 1;
        }
        if self.options.add_zero_attn {
            let zeros = Tensor::full_on([1, 1, features], 0.0, q.dtype()?, q.device()?);
            (k, v) = (append(&k, &zeros), append(&v, &zeros));
            extra += 1;
        }
        let [_, keys, _] = k.dims()?;
        let split = |t: &Tensor, len: usize| t.reshape([batch, len, heads, width]).transpose(1, 2);
        let (q, k, v) = (split(&q, queries), split(&k, keys), split(&v, keys));
        let dropout = if self.site.is_training() && self.options.dropout > 0.0 { Some((self.options.dropout, init::generator(q.device()?)?)) } else { None };
        let drawn = dropout.as_ref().map(|(p, rng)| (*p, rng));
        let cached = open_step(|step| {
            let alone = masks.is_causal && masks.attn_mask.is_none() && masks.key_padding_mask.is_none() && extra == 0 && !need_weights && keys == queries;
            if !alone {
                let text = "a cache serves causal self-attention without other masks, biases or weights that are asked for";
                return Err(Error::new("MultiheadAttention", ErrorKind::Argument(text.into())));
            }
            step.attend(&q, &k, &v, &CachedAttentionOptions { dropout: drawn, ..Default::default() })
        });
        // A causal mask alone is no tensor: what it hides is not computed.
        let causal = masks.is_causal && masks.attn_mask.is_none() && masks.key_padding_mask.is_none() && extra == 0 && !need_weights;
        let mask = if causal || cached.is_some() { None } else { self.mask(masks, &q, keys, extra)? };
        let (y, weights) = if let Some(cached) = cached {
            (cached?, None)
        } else if need_weights {
            let scores = (q * (1.0 / (width as f64).sqrt())).matmul(k.mt());
            let scores = match &mask {
                Some(mask) => scores + mask,
                None => scores,
            };
            let weights = scores.softmax(-1);
            let kept = match &dropout {
                Some((p, rng)) => functional::dropout(&weights, *p, rng),
                None => weights,
            };
            (kept.matmul(v), Some(kept.mean(1)))
        } else {
            let options = AttentionOptions { mask: mask.as_ref(), is_causal: causal, dropout: drawn, ..Default::default() };
            (functional::scaled_dot_product_attention(&q, &k, &v, &options), None)
        };
        let y = self.out_proj.forward(&y.transpose(1, 2).reshape([batch, queries, features]))?;
        let y = match (batched, self.options.batch_first) {
            (false, _) => y.squeeze(0),
            (true, true) => y,
            (true, false) => y.transpose(0, 1),
        };
        let y = y.ok()?;
        match weights {
            Some(w) => {
                let [y, w] = call.end_all([y, (if batched { w } else { w.squeeze(0) }).ok()?])?;
                Ok((y, Some(w)))
            }
            None => Ok((call.end(y)?, None)),
        }
    }
    /// As `[batch, sequence, features]`.
    #[track_caller]
    fn inside(&self, x: &Tensor) -> Result<Tensor> {
        let shape = x.shape()?;
        match shape.rank() {
            2 => Ok(x.unsqueeze(0)),
            3 if self.options.batch_first => Ok(x.clone()),
            3 => Ok(x.transpose(0, 1)),
            _ => Err(Error::new(
                "MultiheadAttention",
                ErrorKind::Shape { shape, expected: "[sequence, batch, features] (or batch first), or [sequence, features]".into() },
            )),
        }
    }
    /// Queries, keys and values, `[batch, sequence, embed_dim]` each. What comes from one tensor is projected at once.
    #[track_caller]
    fn projections(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<[Tensor; 3]> {
        let (one, pair) = (std::ptr::eq(query, key) && std::ptr::eq(key, value), std::ptr::eq(key, value));
        // As `chunk`, without a vector of its own.
        let parts = |x: &Tensor, first: usize, count: usize| -> Result<Outputs> {
            let all = self.project(&self.inside(x)?, first, count)?;
            Ok(Tensor::composite(Split { axis: all.rank() - 1, parts: count }, &[&all]))
        };
        let one_by_one = |first: usize, count: usize| (0..count).map(move |k| self.project(&self.inside([query, key, value][first + k])?, first + k, 1));
        let all: Outputs = match (&self.in_proj_weight, one, pair) {
            (Some(_), true, _) => parts(query, 0, 3)?,
            (Some(_), false, true) => one_by_one(0, 1).chain(parts(key, 1, 2)?.into_iter().map(Ok)).collect::<Result<_>>()?,
            _ => one_by_one(0, 3).collect::<Result<_>>()?,
        };
        let mut all = all.into_iter();
        match (all.next(), all.next(), all.next()) {
            (Some(q), Some(k), Some(v)) => Ok([q.ok()?, k.ok()?, v.ok()?]),
            _ => Err(Error::new("MultiheadAttention", ErrorKind::Internal("no three projections".into()))),
        }
    }
    /// Features of all heads together.
    fn features(&self) -> usize {
        let all = self.in_proj_weight.as_ref().map(|weight| weight.meta().shape[0] / 3);
        all.or_else(|| self.q_proj_weight.as_ref().map(|weight| weight.meta().shape[0])).unwrap_or(0)
    }
    /// `count` projections of a tensor from number `first` on: queries (0), keys (1), values (2), side by side.
    #[track_caller]
    fn project(&self, x: &Tensor, first: usize, count: usize) -> Result<Tensor> {
        let own = [&self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight][first];
        let weight = match (own, &self.in_proj_weight) {
            (Some(own), _) => own.read(),
            (None, Some(all)) if count == 3 => all.read(),
            (None, Some(all)) => all.read().narrow(first * self.features(), count * self.features()),
            (None, None) => return Err(Error::new("MultiheadAttention", ErrorKind::Internal("no projection".into()))),
        };
        let bias = self.in_proj_bias.as_ref().map(|b| if count == 3 { b.get() } else { b.get().narrow(0, first * self.features(), count * self.features()) });
        weight.linear(x, bias.as_ref()).ok()
    }
    /// All masks together as numbers to add to scores of `[batch, heads, queries, keys]`.
    #[track_caller]
    fn mask(&self, masks: &Masks<'_>, q: &Tensor, keys: usize, extra: usize) -> Result<Option<Tensor>> {
        let [batch, heads, queries, _] = q.dims()?;
        let (dtype, device) = (q.dtype()?, q.device()?);
        let as_numbers = |mask: &Tensor| -> Result<Tensor> {
            if mask.dtype()? == DType::Bool {
                Tensor::full_on(mask.shape()?, 0.0, dtype, device).masked_fill(mask, f64::NEG_INFINITY).ok()
            } else {
                mask.cast(dtype).ok()
            }
        };
        let visible = |mask: &Tensor| -> Tensor {
            // Appended keys are seen by every query.
            let mut widths = vec![0isize; 2 * mask.rank()];
            if let Some(behind) = widths.get_mut(1) {
                *behind = extra as isize;
            }
            if extra == 0 { mask.clone() } else { mask.pad_constant(widths, 0.0) }
        };
        let mut all: Option<Tensor> = None;
        let mut join = |mask: Tensor| {
            all = Some(match all.take() {
                Some(sum) => sum + mask,
                None => mask,
            });
        };
        if masks.is_causal {
            let hidden = Tensor::full_on([queries, keys - extra], 1.0, dtype, device).triu(1).gt(0.0);
            join(visible(&as_numbers(&hidden)?));
        }
        if let Some(mask) = masks.attn_mask {
            let mask = visible(&as_numbers(mask)?);
            join(if mask.rank() == 3 { mask.reshape([batch, heads, queries, keys]) } else { mask });
        }
        if let Some(mask) = masks.key_padding_mask {
            let mask = if mask.rank() == 1 { mask.unsqueeze(0) } else { mask.clone() };
            join(visible(&as_numbers(&mask)?).reshape([batch, 1, 1, keys]));
        }
        match all {
            Some(mask) => Ok(Some(mask.ok()?)),
            None => Ok(None),
        }
    }
}
