//! A product of operands that are rounded to 8 bits, and its gradient, whose operands are too: the numbers of hardware that multiplies
//! fp8, not its speed. Rounded values and their products are exact in f32, so what remains is the order of the sums.
use adamant_core::{
    Composite, Compound, DType, ErrorKind, Result, Tensor, TensorType, Types,
    composite::{Attr, Attrs, Cotangents, RuleArgs, Saves},
};
use smallvec::smallvec;

/// Where the scales of operands come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ScaleSource {
    /// three more inputs: those of both operands and of the gradient
    Given,
    /// each operand's largest magnitude, now
    Current { margin: i32 },
    /// that of each 32 elements along the axis that is summed over, by powers of two
    Blocks,
}
/// Elements of a block of [`ScaleSource::Blocks`].
const BLOCK: usize = 32;

/// `a b (+ bias)`, of \[.., m, k\], \[.., k, n\] and \[n\] in one 16-bit dtype, with operands in E4M3, and the gradient's in E5M2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fp8Product {
    pub scales: ScaleSource,
    pub bias: bool,
    /// is b given as \[.., n, k\], as a dense layer has it?
    pub transposed: bool,
}
/// The largest finite number.
pub(super) fn most(dtype: DType) -> f64 {
    if dtype == DType::F8E4M3 { 448.0 } else { 57344.0 }
}
/// By what values of a largest magnitude are multiplied to fill the range of a dtype; 1 where there are none, or not finite ones.
pub(super) fn scale_of(amax: &Tensor, dtype: DType, margin: i32) -> Tensor {
    let usable = amax.gt(0.0).logical_and(amax.isfinite());
    let scale = (usable.where_(amax, 1.0).reciprocal() * (most(dtype) * f64::powi(2.0, -margin))).minimum(f64::from(f32::MAX));
    usable.where_(scale, 1.0)
}
/// The largest magnitude of all, in f32.
pub(super) fn amax(x: &Tensor) -> Tensor {
    x.float().abs().amax(..)
}
/// An operand as it is multiplied: what was rounded, in f32, and by what the product is multiplied for it.
struct Rounded {
    values: Tensor,
    inverse: Option<Tensor>,
}
fn rounded_to(dtype: DType, scaled: &Tensor) -> Tensor {
    scaled.clamp(-most(dtype), most(dtype)).cast(dtype).cast(DType::F32)
}
impl Fp8Product {
    /// Rounds an operand that is summed over along an axis (-1 or -2). `given` is its scale, where that is an input.
    fn round(&self, x: &Tensor, dtype: DType, axis: isize, given: impl FnOnce() -> Result<Tensor>) -> Result<Rounded> {
        let x = x.float();
        let scale = match self.scales {
            ScaleSource::Given => given()?,
            ScaleSource::Current { margin } => scale_of(&amax(&x), dtype, margin),
            ScaleSource::Blocks => return blocks(&x, dtype, axis).map(|values| Rounded { values, inverse: None }),
        };
        Ok(Rounded { values: rounded_to(dtype, &(&x * &scale)), inverse: Some(scale.reciprocal()) })
    }
    /// The second operand as \[.., k, n\].
    fn second(&self, b: &Tensor) -> Tensor {
        if self.transposed { b.mt() } else { b.clone() }
    }
    fn given(self, inputs: &[Option<Tensor>], operand: usize) -> Result<Tensor> {
        let at = 2 + usize::from(self.bias) + operand;
        inputs.get(at).cloned().flatten().ok_or_else(|| adamant_core::Error::new("fp8", ErrorKind::Internal(format!("input {at} was not saved"))))
    }
}
/// Each block by its own power of two, as the OCP formats for microscaling have it: the largest element's exponent comes to be the format's
/// largest.
fn blocks(x: &Tensor, dtype: DType, axis: isize) -> Result<Tensor> {
    let last = x.movedim(axis, -1);
    let shape = last.shape()?;
    let (rank, k) = (shape.rank(), shape[shape.rank() - 1]);
    let count = k.div_ceil(BLOCK);
    let missing = count * BLOCK - k;
    let whole = if missing == 0 { last } else { last.pad_constant([0, missing], 0.0) };
    let mut dims = shape.to_vec();
    dims.truncate(rank - 1);
    let split = whole.reshape([&dims[..], &[count, BLOCK]].concat());
    let largest = split.abs().amax_keepdim(-1);
    // A magnitude is m 2^e with m from a half to 1.
    let (_, exponent) = largest.frexp();
    let top = if dtype == DType::F8E4M3 { 8 } else { 15 };
    let usable = largest.gt(0.0).logical_and(largest.isfinite());
    let exponent = usable.where_(exponent - (top + 1), 0);
    let values = rounded_to(dtype, &split.ldexp(exponent.neg())).ldexp(&exponent);
    let joined = values.reshape([&dims[..], &[count * BLOCK]].concat());
    joined.narrow(-1, 0, k).movedim(-1, axis).ok()
}
/// The product of two rounded operands in f32.
fn product(a: &Rounded, b: &Rounded) -> Tensor {
    [&a.inverse, &b.inverse].into_iter().flatten().fold(a.values.matmul(&b.values), |y, inverse| y * inverse)
}

impl Composite for Fp8Product {
    fn name(&self) -> &'static str {
        "adamant.fp8_product"
    }
    fn attrs(&self) -> Attrs {
        let (scales, margin) = match self.scales {
            ScaleSource::Given => ("given", 0),
            ScaleSource::Current { margin } => ("current", margin),
            ScaleSource::Blocks => ("blocks", 0),
        };
        smallvec![
            ("scales", Attr::Text(scales.into())),
            ("margin", Attr::Int(margin.into())),
            ("bias", Attr::Bool(self.bias)),
            ("transposed", Attr::Bool(self.transposed))
        ]
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let [a, b, others @ ..] = inputs else { return Err(ErrorKind::Argument("a product has two operands".into())) };
        let wanted = usize::from(self.bias) + if self.scales == ScaleSource::Given { 3 } else { 0 };
        if others.len() != wanted {
            return Err(ErrorKind::Argument(format!("a product with {wanted} more inputs, not {}", others.len())));
        }
        if !matches!(a.dtype, DType::F16 | DType::BF16) || a.dtype != b.dtype {
            return Err(ErrorKind::DtypeMismatch { left: a.dtype, right: b.dtype });
        }
        let (m, n) = (a.shape.rank(), b.shape.rank());
        let (inner, outer) = if self.transposed { (1, 2) } else { (2, 1) };
        if m < 2 || n != m || a.shape[m - 1] != b.shape[m - inner] || a.shape[..m - 2] != b.shape[..m - 2] {
            return Err(ErrorKind::ShapeMismatch { left: a.shape, right: b.shape, axes: None, expected: "[.., m, k] and [.., k, n]" });
        }
        Ok(smallvec![TensorType { shape: a.shape.with(m - 1, b.shape[m - outer]), dtype: a.dtype }])
    }
}
impl Compound for Fp8Product {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let all: Vec<Option<Tensor>> = inputs.iter().cloned().map(Some).collect();
        let a = self.round(&inputs[0], DType::F8E4M3, -1, || self.given(&all, 0))?;
        let b = self.round(&self.second(&inputs[1]), DType::F8E4M3, -2, || self.given(&all, 1))?;
        let y = product(&a, &b);
        let y = if self.bias { y + inputs[2].float() } else { y };
        Ok(vec![y.cast(inputs[0].dtype()?)])
    }
    fn saves(&self) -> Option<Saves> {
        // The bias is not read.
        let given = if self.scales == ScaleSource::Given { 0b111 << (2 + u32::from(self.bias)) } else { 0 };
        Some(Saves { inputs: 0b11 | given, outputs: 0 })
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let mut out: Cotangents = smallvec![None; args.metas.len()];
        let Some(g) = &args.cotangents[0] else { return Ok(out) };
        let (a, b) = (args.input(0)?, args.input(1)?);
        let gradient = |axis| self.round(g, DType::F8E5M2, axis, || self.given(args.inputs, 2));
        if args.needs[0] {
            // Summed over n.
            let b = self.round(&self.second(b).mt(), DType::F8E4M3, -2, || self.given(args.inputs, 1))?;
            out[0] = Some(args.rounded(0, product(&gradient(-1)?, &b)));
        }
        if args.needs[1] {
            // Summed over m.
            let scale = || self.given(args.inputs, 0);
            out[1] = Some(args.rounded(
                1,
                if self.transposed {
                    let g = self.round(&g.mt(), DType::F8E5M2, -1, || self.given(args.inputs, 2))?;
                    product(&g, &self.round(a, DType::F8E4M3, -2, scale)?)
                } else {
                    product(&self.round(&a.mt(), DType::F8E4M3, -1, scale)?, &gradient(-2)?)
                },
            ));
        }
        if self.bias && args.needs[2] {
            let axes: Vec<isize> = (0..args.metas[0].shape.rank() as isize - 1).collect();
            out[2] = Some(args.rounded(2, g.float().sum(&axes[..])));
        }
        Ok(out)
    }
}
