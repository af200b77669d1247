//! What attention keeps of the tokens before as codes, and the attention that reads them.
use crate::{
    DType, Error, ErrorKind, Origin, Result, Shape, Tensor,
    composite::{
        packed::{Packing, packed},
        quantized_attention::{QuantizedAttention, RowCodes, centered},
    },
    tensor::compose::compose,
};
use smallvec::SmallVec;

/// Numbers of tokens, `[.., tokens, features]`, as codes of 8 or 4 bits. Each row of features has a scale of its own in f16 and, where
/// codes are affine, a code of 0: a number is `(code - zero) · scale`.
///
/// ```
/// # use adamant_core::{Device, DType, Tensor, functional::TokenCodes, composite::packed::Packing};
/// # Device::reference().make_current();
/// let keys = Tensor::from_vec(vec![0.5f32, -1.0, 2.0, 4.0], [1, 2, 2]);
/// let codes = TokenCodes::round(&keys, Packing { bits: 8, group: None, symmetric: true })?;
/// assert_eq!(codes.codes().to_vec::<i8>()?, [64, -127, 64, 127]);
/// assert_eq!((codes.tokens(), codes.bytes()), (2, 2 * (2 + 2)));
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TokenCodes {
    packing: Packing,
    features: usize,
    codes: Tensor,
    scale: Tensor,
    zero_point: Option<Tensor>,
}
impl TokenCodes {
    /// Of tensors that hold it: codes as they are stored, `[.., tokens, bytes]`; scales `[.., tokens, 1]`, f16 or f32; of an affine
    /// packing zero points, u8, likewise.
    ///
    /// # Errors
    /// A packing with groups or of 3 bits; tensors of other shapes or dtypes.
    #[track_caller]
    pub fn new(packing: Packing, features: usize, codes: &Tensor, scale: &Tensor, zero_point: Option<&Tensor>) -> Result<TokenCodes> {
        let here = Origin::here();
        let ty = |t: &Tensor| t.try_meta().map(|m| m.ty());
        let (codes_type, scale_type, zero_type) = (ty(codes)?, ty(scale)?, zero_point.map(ty).transpose()?);
        let rows = RowCodes { codes: &codes_type, scale: &scale_type, zero_point: zero_type.as_ref() };
        rows.check(&packing, features).map_err(|kind| Error::at("token codes", kind, here))?;
        Ok(TokenCodes { packing, features, codes: codes.clone(), scale: scale.clone(), zero_point: zero_point.cloned() })
    }
    /// Each number rounded to the nearest code by the scale as it is stored. A row's scale is that of its largest absolute value
    /// (symmetric), or of its range with 0 in it (affine); rows whose scale f16 rounds to 0 count as zeros. A row with a number that is
    /// not finite, or that f16 has no scale for, has a scale that is no finite number: it stands for NaN, and who sees it gets NaN.
    /// No data is read, and nothing has a gradient.
    ///
    /// # Errors
    /// Numbers that are no floats, or of fewer than two axes; a packing with groups or of 3 bits.
    #[track_caller]
    pub fn round(x: &Tensor, packing: Packing) -> Result<TokenCodes> {
        let here = Origin::here();
        let refuse = |kind| Error::at("token codes", kind, here);
        let m = x.try_meta()?;
        if !m.dtype.is_float() {
            return Err(refuse(ErrorKind::Dtype(format!("numbers are floats, not {}", m.dtype))));
        }
        if m.shape.rank() < 2 || m.shape[m.shape.rank() - 1] == 0 {
            return Err(refuse(ErrorKind::Shape { shape: m.shape, expected: "[.., tokens, features] with at least one feature".into() }));
        }
        if packing.group.is_some() || !matches!(packing.bits, 4 | 8) {
            return Err(refuse(ErrorKind::Argument(format!("codes of tokens have 8 or 4 bits and one scale a row, not {packing:?}"))));
        }
        let last = m.shape.rank() - 1;
        let x = x.detach().cast(DType::F32);
        let (low, high) = packing.range();
        // Codes are found by the scale as f16 has it.
        let stored = |largest: Tensor| {
            let scale = (largest / f64::from(high)).cast(DType::F16);
            scale.eq(0.0).where_(1.0, &scale)
        };
        let steps = |scale: &Tensor| (&x / scale.cast(DType::F32)).round();
        let (scale, zero_point, steps) = if packing.symmetric {
            let scale = stored(x.abs().amax_keepdim(last));
            let steps = steps(&scale);
            (scale, None, steps)
        } else {
            let (least, most) = (x.amin_keepdim(last).minimum(0.0), x.amax_keepdim(last).maximum(0.0));
            let scale = stored(most - &least);
            let zero_point = (-least / scale.cast(DType::F32)).round().minimum(f64::from(high));
            let steps = steps(&scale) + &zero_point;
            (scale, Some(zero_point.cast(DType::U8)), steps)
        };
        let codes = steps.maximum(f64::from(low)).minimum(f64::from(high)).cast(DType::I32);
        let codes = if packing.bits == 8 {
            codes.cast(packing.dtype())
        } else {
            let rows = m.shape[..last].iter().product::<usize>();
            let flat = codes.reshape([rows, m.shape[last]]) + i64::from(packing.offset());
            packed(&packing, &flat).reshape(m.shape.with(last, packing.row_bytes(m.shape[last])))
        };
        Ok(TokenCodes { packing, features: m.shape[last], codes, scale, zero_point })
    }
    /// How codes stand for numbers.
    pub fn packing(&self) -> Packing {
        self.packing
    }
    /// The shape of the numbers, `[.., tokens, features]`.
    pub fn shape(&self) -> Shape {
        let shape = self.codes.meta().shape;
        shape.with(shape.rank() - 1, self.features)
    }
    /// How many tokens there is space for.
    pub fn tokens(&self) -> usize {
        let shape = self.codes.meta().shape;
        shape[shape.rank() - 2]
    }
    /// The codes as they are stored.
    pub fn codes(&self) -> &Tensor {
        &self.codes
    }
    /// Scales, `[.., tokens, 1]`.
    pub fn scale(&self) -> &Tensor {
        &self.scale
    }
    /// Zero points of an affine packing, u8 `[.., tokens, 1]`.
    pub fn zero_point(&self) -> Option<&Tensor> {
        self.zero_point.as_ref()
    }
    /// Bytes of the tensors that hold it.
    pub fn bytes(&self) -> usize {
        self.parts().map(|t| t.meta().ty().bytes()).sum()
    }
    /// The tensors that hold it.
    pub fn parts(&self) -> impl Iterator<Item = &Tensor> {
        [Some(&self.codes), Some(&self.scale), self.zero_point.as_ref()].into_iter().flatten()
    }
    /// With space for so many tokens more, which are zeros.
    ///
    /// # Errors
    /// No memory that large.
    #[track_caller]
    pub fn extended(&self, tokens: usize) -> Result<TokenCodes> {
        self.each(|t| t.pad_constant([0, 0, 0, tokens as isize], 0))
    }
    /// With others in the place of the tokens from `start` on.
    ///
    /// # Errors
    /// Codes of another packing, of other leading axes or features, or more of them than there is space for.
    #[track_caller]
    pub fn updated(&self, start: usize, tokens: &TokenCodes) -> Result<TokenCodes> {
        if self.packing != tokens.packing || self.features != tokens.features {
            let text =
                format!("codes of {:?}, {} features a row, among codes of {:?}, {} features", tokens.packing, tokens.features, self.packing, self.features);
            return Err(Error::at("token codes", ErrorKind::Argument(text), Origin::here()));
        }
        let mut new = tokens.parts();
        self.each(|t| new.next().map_or_else(|| t.clone(), |new| t.update_slice(t.rank() as isize - 2, start, new)))
    }
    /// So many tokens from one on: views of its tensors.
    ///
    /// # Errors
    /// Tokens that it has not.
    #[track_caller]
    pub fn narrow(&self, start: usize, len: usize) -> Result<TokenCodes> {
        self.each(|t| t.narrow(t.rank() as isize - 2, start, len))
    }
    #[track_caller]
    fn each(&self, mut f: impl FnMut(&Tensor) -> Tensor) -> Result<TokenCodes> {
        let (codes, scale) = (f(&self.codes).ok()?, f(&self.scale).ok()?);
        let zero_point = self.zero_point.as_ref().map(|z| f(z).ok()).transpose()?;
        Ok(TokenCodes { codes, scale, zero_point, ..*self })
    }
    /// The numbers, `[.., tokens, features]` in a float dtype; each is computed in f32 and rounded once.
    #[track_caller]
    pub fn dequantize(&self, dtype: DType) -> Tensor {
        compose("dequantize", &[&self.codes, &self.scale], || {
            if !dtype.is_float() {
                return Err(ErrorKind::Dtype(format!("numbers are floats, not {dtype}")).into());
            }
            let rows = RowCodes { codes: &self.codes, scale: &self.scale, zero_point: self.zero_point.as_ref() };
            Ok((centered(&self.packing, &rows, self.features) * self.scale.cast(DType::F32)).cast(dtype))
        })
    }
}

/// Options of [`quantized_attention`].
#[derive(Clone, Copy, Default)]
pub struct QuantizedAttentionOptions<'a> {
    /// how many of the keys are tokens, where there is space for more; all if it is not given
    pub tokens: Option<usize>,
    /// Are the queries the last of the tokens, each seeing itself and those before? Else each sees all.
    pub is_causal: bool,
    /// broadcasts to `[.., queries, keys]`; bool: true takes part; float: added to the scores
    pub mask: Option<&'a Tensor>,
    /// factor of the scores; 1 / sqrt(features) if it is not given
    pub scale: Option<f64>,
}

/// Attention of q `[.., heads, queries, features]` over keys `[.., kv heads, keys, features]` and values `[.., kv heads, keys, values]`
/// that are held as codes, which are read as they are: `[.., heads, queries, values]` in q's dtype. Leading axes are equal; groups of
/// heads may share a key and value head. A query that sees nothing gets zeros. q has the gradient of the attention over the codes'
/// numbers.
///
/// ```
/// # use adamant_core::{Device, Tensor, composite::packed::Packing};
/// # use adamant_core::functional::{QuantizedAttentionOptions, TokenCodes, quantized_attention};
/// # Device::reference().make_current();
/// let packing = Packing { bits: 8, group: None, symmetric: true };
/// let keys = TokenCodes::round(&Tensor::from_vec(vec![8.0f32, 0.0, 0.0, 8.0], [1, 2, 2]), packing)?;
/// let values = TokenCodes::round(&Tensor::from_vec(vec![1.0f32, 2.0], [1, 2, 1]), packing)?;
/// let q = Tensor::from_vec(vec![9.0f32, 0.0], [1, 1, 2]);
/// let y = quantized_attention(&q, &keys, &values, &QuantizedAttentionOptions::default());
/// assert!((y.item::<f32>()? - 1.0).abs() < 1e-3);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// Shapes that do not go together; keys and values of two packings; q of f64, since all is computed in f32; more tokens than keys.
#[track_caller]
pub fn quantized_attention(q: &Tensor, keys: &TokenCodes, values: &TokenCodes, options: &QuantizedAttentionOptions<'_>) -> Tensor {
    compose("quantized_attention", &[q, &keys.codes, &values.codes], || {
        if keys.packing != values.packing {
            return Err(ErrorKind::Argument(format!("keys and values have one packing, not {:?} and {:?}", keys.packing, values.packing)).into());
        }
        let capacity = keys.tokens();
        let tokens = options.tokens.unwrap_or(capacity);
        if tokens > capacity {
            return Err(ErrorKind::Argument(format!("{tokens} tokens are more than the {capacity} keys")).into());
        }
        let m = q.meta();
        let Some(&features) = m.shape.last() else {
            return Err(ErrorKind::Shape { shape: m.shape, expected: "queries [.., heads, queries, features]".into() }.into());
        };
        let attention = QuantizedAttention {
            scale: options.scale.unwrap_or_else(|| 1.0 / (features.max(1) as f64).sqrt()),
            causal: options.is_causal,
            mask: options.mask.is_some(),
            features: values.features,
            packing: keys.packing,
        };
        let count = Tensor::full_on((), tokens as i64, DType::I32, m.device);
        let mut inputs: SmallVec<[&Tensor; 9]> = SmallVec::new();
        inputs.push(q);
        inputs.extend(keys.parts());
        inputs.extend(values.parts());
        inputs.push(&count);
        inputs.extend(options.mask);
        Ok(Tensor::composite1(attention, &inputs))
    })
}
