//! Scaled dot-product attention and its gradient.
use super::{
    Attr, Attrs, Composite, OperandSet,
    wide::{floats, same_dtype, wide},
};
use crate::{DType, ErrorKind, Shape, TensorType, Types};
use smallvec::smallvec;

impl Attention {
    fn attributes(&self) -> Attrs {
        smallvec![
            ("scale", Attr::Float(self.scale)),
            ("causal", Attr::Bool(self.causal)),
            ("mask", Attr::Bool(self.mask)),
            ("dropout", Attr::Float(self.dropout))
        ]
    }
}

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
    /// q, k, v, and the output.
    fn rows(&self) -> OperandSet {
        OperandSet { inputs: 0b111, outputs: 1 }
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
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
        let out = TensorType { shape: q.shape.with(rank - 1, v.shape[rank - 1]), ..q };
        Ok(smallvec![out, TensorType { shape: scores.with(rank - 1, 1), dtype: wide(q.dtype) }])
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
    /// The cotangent, q, k, v, the output, and the cotangents of q, k, v.
    fn rows(&self) -> OperandSet {
        let out = 4 + u32::from(self.forward.mask) + u32::from(self.forward.dropout > 0.0);
        OperandSet { inputs: 0b1111 | 1 << out, outputs: 0b111 }
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let mut out = Types::from_slice(&inputs[1..4]);
        if self.forward.mask && inputs[4].dtype.is_float() {
            out.push(inputs[4]);
        }
        Ok(out)
    }
}
