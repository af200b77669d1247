//! Attention over keys and values that are held as codes: what a decoder keeps of the tokens before. A row is the numbers of one
//! token in one head; it has its codes, a scale of its own and, where codes are affine, a code of 0. Rows may lie in a longer tensor
//! than there are tokens: a number that is an input, and so no part of the structure, says how many there are. One plan then
//! serves all lengths.
//!
//! A score is `Σ q (code - zero)`, summed in f32 and then multiplied by `row's scale · scale`; a weight is multiplied by the value's
//! scale before it meets the codes. So codes are multiplied as the integers they are, and no number is made of them one by one.
//!
//! Must not know how codes are found, or who keeps them.
use super::{
    Attr, Attrs, Composite, Given,
    packed::{Packing, narrow_floats, same},
};
use crate::{DType, ErrorKind, Shape, TensorType, Types};
use smallvec::smallvec;

/// The numbers of tokens, `[.., tokens, features]`, as codes: what [`Packing`] says of rows without groups.
#[derive(Clone, Copy, Debug)]
pub struct RowCodes<'a, T> {
    /// `[.., tokens, bytes]`
    pub codes: &'a T,
    /// `[.., tokens, 1]`, f32 or f16
    pub scale: &'a T,
    /// `[.., tokens, 1]`, u8, of an affine packing
    pub zero_point: Option<&'a T>,
}
impl RowCodes<'_, TensorType> {
    /// Are these the codes of so many features a row?
    ///
    /// # Errors
    /// A packing with groups or of 3 bits; other dtypes; shapes that do not go together.
    pub fn check(&self, packing: &Packing, features: usize) -> Result<(), ErrorKind> {
        if packing.group.is_some() || !matches!(packing.bits, 4 | 8) {
            return Err(ErrorKind::Argument(format!("codes of tokens have 8 or 4 bits and one scale a row, not {packing:?}")));
        }
        let shape = self.codes.shape;
        if shape.rank() < 2 {
            return Err(ErrorKind::Shape { shape, expected: "codes [.., tokens, bytes]".into() });
        }
        let last = shape.rank() - 1;
        same("codes", self.codes, shape.with(last, packing.row_bytes(features)), &[packing.dtype()])?;
        same("scales", self.scale, shape.with(last, 1), &[DType::F32, DType::F16])?;
        match (self.zero_point, packing.symmetric) {
            (Some(zero_point), false) => same("zero points", zero_point, shape.with(last, 1), &[DType::U8]),
            (None, true) => Ok(()),
            (Some(_), true) => Err(ErrorKind::Argument("a symmetric packing has no zero points".into())),
            (None, false) => Err(ErrorKind::Argument("an affine packing needs zero points".into())),
        }
    }
}

/// Inputs: q `[.., heads, queries, e]`; codes, scales and, of an affine packing, zero points of the keys `[.., kv heads, keys, e]`;
/// those of the values `[.., kv heads, keys, features]`; how many of the keys there are (i32, a single number); the mask if there is
/// one, which broadcasts to `[.., queries, keys]` (bool: true takes part; float: added to the scores). Leading axes are equal, heads a
/// multiple of the kv heads. Result: `[.., heads, queries, features]` in q's dtype; all is computed in f32 and rounded once. A query
/// that sees nothing gets zeros.
#[derive(Clone, Copy, Debug)]
pub struct QuantizedAttention {
    /// factor of the scores
    pub scale: f64,
    /// Are the queries the last of the tokens, each seeing itself and those before? Else each sees all.
    pub causal: bool,
    /// is there a mask?
    pub mask: bool,
    /// features of a value
    pub features: usize,
    /// how codes stand for numbers
    pub packing: Packing,
}
/// The inputs of a [`QuantizedAttention`] by their roles.
#[derive(Clone, Copy, Debug)]
pub struct QuantizedAttentionInputs<'a, T> {
    /// queries
    pub q: &'a T,
    /// keys
    pub keys: RowCodes<'a, T>,
    /// values
    pub values: RowCodes<'a, T>,
    /// how many keys there are
    pub tokens: &'a T,
    /// the mask
    pub mask: Option<&'a T>,
}
impl QuantizedAttention {
    /// Made of attributes.
    ///
    /// # Errors
    /// One that is missing or of another kind.
    pub fn given(given: &mut Given) -> Result<QuantizedAttention, ErrorKind> {
        Ok(QuantizedAttention {
            scale: given.float("scale")?,
            causal: given.bool("causal")?,
            mask: given.bool("mask")?,
            features: given.size("features")?,
            packing: Packing::given(given)?,
        })
    }
    /// How many inputs it takes.
    pub fn inputs(&self) -> usize {
        6 + 2 * usize::from(!self.packing.symmetric) + usize::from(self.mask)
    }
    /// Its inputs by their roles.
    ///
    /// # Errors
    /// Another number of them.
    pub fn roles<'a, T>(&self, inputs: &'a [T]) -> Result<QuantizedAttentionInputs<'a, T>, ErrorKind> {
        if inputs.len() != self.inputs() {
            return Err(ErrorKind::Argument(format!("attention over codes with {} inputs, not {}", self.inputs(), inputs.len())));
        }
        let mut left = inputs.iter();
        let mut next = || left.next().ok_or_else(|| ErrorKind::Internal("an input fewer than were counted".into()));
        let q = next()?;
        let mut rows = || Ok(RowCodes { codes: next()?, scale: next()?, zero_point: if self.packing.symmetric { None } else { Some(next()?) } });
        let (keys, values) = (rows()?, rows()?);
        Ok(QuantizedAttentionInputs { q, keys, values, tokens: next()?, mask: if self.mask { Some(next()?) } else { None } })
    }
    fn check_heads(q: &Shape, keys: &Shape, values: &Shape) -> Result<(), ErrorKind> {
        let rank = q.rank();
        let differ = |left: &Shape, right: &Shape, axes, expected| Err(ErrorKind::ShapeMismatch { left: *left, right: *right, axes, expected });
        if rank < 2 || keys.rank() != rank || values.rank() != rank {
            return differ(q, keys, None, "queries and the codes of keys and values have equally many axes, at least two");
        }
        for a in 0..rank - 1 {
            if keys[a] != values[a] {
                return differ(keys, values, Some((a, a)), "there must be as many keys as values, in equal leading axes");
            }
        }
        for a in 0..rank - 2 {
            let shared = a + 3 == rank && keys[a] != 0 && q[a].is_multiple_of(keys[a]);
            if q[a] != keys[a] && !shared {
                return differ(q, keys, Some((a, a)), "queries and keys must have equal leading axes; only heads may be shared, in equal groups");
            }
        }
        Ok(())
    }
}
impl Composite for QuantizedAttention {
    fn name(&self) -> &'static str {
        "adamant.quantized_attention"
    }
    fn attrs(&self) -> Attrs {
        let own = [
            ("scale", Attr::Float(self.scale)),
            ("causal", Attr::Bool(self.causal)),
            ("mask", Attr::Bool(self.mask)),
            ("features", Attr::Int(self.features as i64)),
        ];
        own.into_iter().chain(self.packing.attrs()).collect()
    }
    fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        let of = self.roles(inputs)?;
        let q = narrow_floats(of.q)?;
        QuantizedAttention::check_heads(&q.shape, &of.keys.codes.shape, &of.values.codes.shape)?;
        let rank = q.shape.rank();
        let (features, stored) = (q.shape[rank - 1], of.keys.codes.shape[rank - 1]);
        if stored != self.packing.row_bytes(features) {
            return Err(ErrorKind::ShapeMismatch {
                left: q.shape,
                right: of.keys.codes.shape,
                axes: Some((rank - 1, rank - 1)),
                expected: "queries must have as many features as the keys have codes",
            });
        }
        of.keys.check(&self.packing, features)?;
        of.values.check(&self.packing, self.features)?;
        same("the number of tokens", of.tokens, Shape::new(&[])?, &[DType::I32])?;
        if let Some(mask) = of.mask {
            let scores = q.shape.with(rank - 1, of.keys.codes.shape[rank - 2]);
            if mask.dtype != DType::Bool && mask.dtype != q.dtype && mask.dtype != DType::F32 {
                return Err(ErrorKind::Dtype(format!("a mask is bool, or {} to be added, not {}", q.dtype, mask.dtype)));
            }
            if mask.shape.broadcast(&scores) != Some(scores) {
                return Err(ErrorKind::ShapeMismatch {
                    left: scores,
                    right: mask.shape,
                    axes: None,
                    expected: "the mask must broadcast to [.., queries, keys]",
                });
            }
        }
        Ok(smallvec![TensorType { shape: q.shape.with(rank - 1, self.features), ..q }])
    }
}
