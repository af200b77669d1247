//! Scaled dot-product attention under PyTorch's options.
use crate::{ErrorKind, Rng, Shape, Tensor, composite::attention::Attention, shape::Dims, tensor::compose::compose};
use smallvec::{SmallVec, smallvec};

/// Options of [`scaled_dot_product_attention`].
#[derive(Clone, Copy, Default)]
pub struct AttentionOptions<'a> {
    /// broadcasts to `[.., queries, keys]`; bool: true takes part; float: added to the scores
    pub mask: Option<&'a Tensor>,
    /// does query i see only the keys 0..=i?
    pub is_causal: bool,
    /// factor of the scores; 1 / sqrt(features) if it is not given
    pub scale: Option<f64>,
    /// may groups of query heads (third axis from the end) share a key and value head?
    pub enable_gqa: bool,
    /// probability that an attention weight is dropped, and whence the draws come
    pub dropout: Option<(f64, &'a Rng)>,
}

/// `softmax(scale q kᵀ + mask) v`: q `[.., queries, features]`, k `[.., keys, features]`, v `[.., keys, values]`; leading
/// axes broadcast. A query that every mask hides gives zeros. Nothing of size `[queries, keys]` is saved for the
/// gradient.
#[track_caller]
pub fn scaled_dot_product_attention(q: &Tensor, k: &Tensor, v: &Tensor, options: &AttentionOptions<'_>) -> Tensor {
    let all = [Some(q), Some(k), Some(v), options.mask];
    if let Some(e) = all.into_iter().flatten().find_map(|t| t.error()) {
        return Tensor::failed(e);
    }
    let run = || -> Result<Tensor, ErrorKind> {
        if options.is_causal && options.mask.is_some() {
            return Err(ErrorKind::Argument("a mask and is_causal exclude each other".into()));
        }
        let (qs, ks, vs) = (q.meta().shape, k.meta().shape, v.meta().shape);
        let rank = qs.rank().max(ks.rank()).max(vs.rank());
        if qs.rank() < 2 || ks.rank() < 2 || vs.rank() < 2 {
            return Err(ErrorKind::ShapeMismatch { left: qs, right: ks, axes: None, expected: "queries, keys and values have at least two axes" });
        }
        // Leading axes broadcast, but for the heads where they are shared in groups.
        let shared = options.enable_gqa && rank > 2;
        let lead = rank - 2 - shared as usize;
        let wide = |s: &Shape| -> Result<Shape, ErrorKind> {
            let mut s = *s;
            while s.rank() < rank {
                s = s.insert(0, 1)?;
            }
            Ok(s)
        };
        let (qw, kw, vw) = (wide(&qs)?, wide(&ks)?, wide(&vs)?);
        let front = |s: &Shape| Shape::new(&s[..lead]);
        let batch = front(&qw)?.broadcast(&front(&kw)?).and_then(|s| s.broadcast(&front(&vw).ok()?));
        let batch = batch.ok_or(ErrorKind::ShapeMismatch {
            left: qs,
            right: if qs[..qs.rank() - 2] == ks[..ks.rank() - 2] { vs } else { ks },
            axes: None,
            expected: "leading axes must broadcast",
        })?;
        if shared && (kw[lead] == 0 || kw[lead] != vw[lead] || qw[lead] % kw[lead] != 0) {
            return Err(ErrorKind::ShapeMismatch {
                left: qs,
                right: ks,
                axes: None,
                expected: "the number of query heads must be a multiple of that of key and value heads",
            });
        }
        let onto = |t: &Tensor, s: &Shape| -> Result<Tensor, ErrorKind> {
            let mut dims = Dims::from_slice(&batch);
            dims.extend_from_slice(&s[lead..]);
            Ok(t.reshape(*s).expand(Shape::new(&dims)?))
        };
        let (q, k, v) = (onto(q, &qw)?, onto(k, &kw)?, onto(v, &vw)?);
        let (p, rng) = options.dropout.map_or((0.0, None), |(p, rng)| (p, Some(rng)));
        let features = qs[qs.rank() - 1];
        let scale = options.scale.unwrap_or_else(|| 1.0 / (features as f64).sqrt());
        let composite = Attention { scale, causal: options.is_causal, mask: options.mask.is_some(), dropout: p };
        let key = rng.filter(|_| p > 0.0).map(|r| r.key());
        let mut inputs: SmallVec<[&Tensor; 5]> = smallvec![&q, &k, &v];
        inputs.extend(options.mask);
        inputs.extend(&key);
        Ok(Tensor::composite1(composite, &inputs))
    };
    compose("scaled_dot_product_attention", &[q, k, v], || Ok(run()?))
}

/// Rotary positions (Su et al., 2021) on the two halves of the last axis: `x cos + (-x2, x1) sin`, cos and sin of x's
/// width broadcasting to it.
#[track_caller]
pub fn rotary_half(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Tensor {
    compose("rotary_half", &[x, cos, sin], || {
        let m = x.meta();
        let rank = m.shape.rank();
        if rank == 0 || !m.shape[rank - 1].is_multiple_of(2) {
            return Err(ErrorKind::Shape { shape: m.shape, expected: "a last axis of an even size".into() }.into());
        }
        let half = m.shape[rank - 1] / 2;
        let wide = x.widened();
        let rotated = Tensor::cat(&[wide.narrow(rank - 1, half, half).neg(), wide.narrow(rank - 1, 0, half)], rank - 1);
        Ok((wide * cos.widened() + rotated * sin.widened()).cast(m.dtype))
    })
}
