//! Convolutions (cross-correlations, as the field calls them) in one to three dimensions, and their transposes, over
//! the three roles of the one primitive.
use super::{PackedWeight, QuantizedInput, Sizes};
use crate::{
    Arg, Error, ErrorKind, Meta, Op, Scalar, Shape, Tensor,
    composite::{
        conv::BiasedConv,
        packed::{CodeLevels, CodedInputs, QuantizedConv},
    },
    op::{ConvRole, ConvSpec, PadSpec},
    tensor::compose::compose,
};
use smallvec::SmallVec;

/// Zeros around the input of a convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// As many as keep the spatial sizes (stride 1 only); an odd one comes after.
    Same,
    /// None.
    Valid,
    /// So many before and after each axis.
    Zeros(Sizes),
}
impl Default for Padding {
    fn default() -> Padding {
        Padding::Zeros(0.into())
    }
}
impl<T: Into<Sizes>> From<T> for Padding {
    fn from(sizes: T) -> Padding {
        Padding::Zeros(sizes.into())
    }
}
impl std::str::FromStr for Padding {
    type Err = Error;
    /// From PyTorch's word: `same` or `valid`.
    #[track_caller]
    fn from_str(s: &str) -> crate::Result<Padding> {
        match s {
            "same" => Ok(Padding::Same),
            "valid" => Ok(Padding::Valid),
            _ => Err(Error::new("conv", ErrorKind::Argument(format!("padding is a number, `same` or `valid`, not `{s}`")))),
        }
    }
}

/// Options of a convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvOptions {
    /// step of the window
    pub stride: Sizes,
    /// zeros around the input
    pub padding: Padding,
    /// spacing of the kernel's elements
    pub dilation: Sizes,
    /// independent groups of channels
    pub groups: usize,
}
impl Default for ConvOptions {
    fn default() -> ConvOptions {
        ConvOptions { stride: 1.into(), padding: Padding::default(), dilation: 1.into(), groups: 1 }
    }
}
/// Options of a transposed convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvTransposeOptions {
    /// step of the window over the output
    pub stride: Sizes,
    /// what the convolution that is transposed pads: it is cut off the output
    pub padding: Sizes,
    /// added to one side of the output's sizes, of which several lead to one input size
    pub output_padding: Sizes,
    /// spacing of the kernel's elements
    pub dilation: Sizes,
    /// independent groups of channels
    pub groups: usize,
}
impl Default for ConvTransposeOptions {
    fn default() -> ConvTransposeOptions {
        ConvTransposeOptions { stride: 1.into(), padding: 0.into(), output_padding: 0.into(), dilation: 1.into(), groups: 1 }
    }
}

macro_rules! dimensions {
    ($($n:literal $conv:ident $transpose:ident $shape:literal;)*) => { $(
        #[doc = concat!("The convolution of x `[batch, in, ", $shape, "]` (the batch may be missing) with a weight `[out, in / groups, ..kernel]`, and a bias `[out]`.")]
        #[track_caller]
        pub fn $conv(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
            finish(stringify!($conv), x, weight, bias, $n, |_, n| convolve(&weight.meta().shape, options, n))
        }
        #[doc = concat!("The transposed convolution of x `[batch, in, ", $shape, "]` (the batch may be missing) with a weight `[in, out / groups, ..kernel]`, and a bias `[out]`: the gradient of a convolution with respect to its input.")]
        #[track_caller]
        pub fn $transpose(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, options: &ConvTransposeOptions) -> Tensor {
            finish(stringify!($transpose), x, weight, bias, $n, |x, n| transpose(x, weight, options, n))
        }
    )* };
}
dimensions! {
    1 conv1d conv_transpose1d "length";
    2 conv2d conv_transpose2d "height, width";
    3 conv3d conv_transpose3d "depth, height, width";
}

/// A convolution that is checked, and zeros that its output gets at its end.
struct PlannedConv {
    spec: ConvSpec,
    zeros: Option<PadSpec>,
}
/// Adds a missing batch axis for the while, and the bias.
#[track_caller]
fn finish(
    op: &'static str,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    n: usize,
    plan: impl FnOnce(&Meta, usize) -> Result<PlannedConv, ErrorKind>,
) -> Tensor {
    let inputs: SmallVec<[&Tensor; 3]> = [x, weight].into_iter().chain(bias).collect();
    compose(op, &inputs, || {
        let ws = weight.meta().shape;
        if ws.rank() != n + 2 {
            return Err(ErrorKind::Shape { shape: ws, expected: format!("a weight of {} axes: two of channels and {n} of the kernel", n + 2) }.into());
        }
        let (batched, single) = batched(x, n)?;
        let PlannedConv { spec, zeros } = plan(&batched.meta(), n)?;
        let spec = crate::specs::shared_conv(spec);
        let pad = |y: &Tensor, p: PadSpec| Tensor::apply(Op::Pad(Box::new(p)), Arg::Scalar(Scalar::Float(0.0)), &[y]);
        let y = match (bias, zeros) {
            (None, None) => Tensor::apply(Op::Conv(spec), Arg::None, &[&batched, weight]),
            (None, Some(zeros)) => pad(&Tensor::apply(Op::Conv(spec), Arg::None, &[&batched, weight]), zeros),
            (Some(b), None) => Tensor::composite1(BiasedConv(spec), &[&batched, weight, b]),
            (Some(b), Some(zeros)) => {
                // The bias also stands where only zeros are.
                let zero = b.zeros_like();
                let y = pad(&Tensor::composite1(BiasedConv(spec), &[&batched, weight, &zero]), zeros);
                let dims = Shape::along(0, b.meta().shape.elements(), n + 1);
                (y.widened() + b.widened().reshape(dims)).cast(x.meta().dtype)
            }
        }
        .ok()?;
        Ok(if single { y.reshape(y.meta().shape.without(0)) } else { y })
    })
}

/// A convolution with a weight of codes `[out, in / groups, ..kernel]` over as many spatial axes as that has: x `[batch, in, ..]` (the
/// batch may be missing), bias `[out]`, result in x's dtype. Where x becomes codes too, they are multiplied as integers, exactly; of
/// [`QuantizedInput::PerToken`] each sample has its own scale. The gradient of x is that of the weight's numbers.
///
/// ```
/// # use adamant_core::{Device, Tensor, functional::{ConvOptions, PackedWeight, QuantizedInput, quantized_conv}, composite::packed::Packing};
/// # Device::reference().make_current();
/// let weight = PackedWeight::round(&Tensor::ones([1, 1, 3, 3]), Packing { bits: 8, group: None, symmetric: true })?;
/// let x = Tensor::ones([1, 1, 4, 4]);
/// let y = quantized_conv(&x, &weight, None, &ConvOptions { padding: 1.into(), ..Default::default() }, QuantizedInput::PerToken { symmetric: true });
/// assert!((y.amax(..).item::<f32>()? - 9.0).abs() < 0.1);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// Shapes or options that do not go together; an input of f64.
#[track_caller]
pub fn quantized_conv(x: &Tensor, weight: &PackedWeight, bias: Option<&Tensor>, options: &ConvOptions, input: QuantizedInput<'_>) -> Tensor {
    let parts = weight.inputs(x, input, bias);
    compose("quantized_conv", &parts, || {
        let ws = weight.shape();
        if !(3..=5).contains(&ws.rank()) {
            return Err(ErrorKind::Shape { shape: ws, expected: "a weight of 3 to 5 axes: two of channels and those of the kernel".into() }.into());
        }
        let n = ws.rank() - 2;
        let (batched, single) = batched(x, n)?;
        let PlannedConv { spec, .. } = convolve(&ws, options, n)?;
        if weight.levels() != CodeLevels::Even {
            // Nothing multiplies such codes here: they become numbers.
            let numbers = weight.dequantize(x.meta().dtype);
            let convolution = match n {
                1 => conv1d,
                2 => conv2d,
                _ => conv3d,
            };
            return Ok(convolution(x, &numbers, bias, options));
        }
        let codes = CodedInputs { packing: weight.packing(), activations: input.activations(), bias: bias.is_some() };
        let conv = QuantizedConv { conv: crate::specs::shared_conv(spec), weight: ws, codes };
        let y = Tensor::composite1(conv, &weight.inputs(&batched, input, bias)).ok()?;
        Ok(if single { y.reshape(y.meta().shape.without(0)) } else { y })
    })
}
/// x with a batch axis, and whether it had none.
fn batched(x: &Tensor, n: usize) -> Result<(Tensor, bool), ErrorKind> {
    let xs = x.meta().shape;
    let single = xs.rank() == n + 1;
    if !single && xs.rank() != n + 2 {
        return Err(ErrorKind::Shape {
            shape: xs,
            expected: format!("an input of {} axes: batch, channels and {n} spatial ones (or without the batch)", n + 2),
        });
    }
    Ok((if single { x.reshape(xs.insert(0, 1)?) } else { x.clone() }, single))
}
fn convolve(weight: &Shape, options: &ConvOptions, n: usize) -> Result<PlannedConv, ErrorKind> {
    let (stride, dilation) = (options.stride.each(n, "stride")?, options.dilation.each(n, "dilation")?);
    let kernel = &weight[2..];
    let padding = match &options.padding {
        Padding::Valid => SmallVec::from_elem((0, 0), n),
        Padding::Zeros(p) => p.each(n, "padding")?.iter().map(|&p| (p, p)).collect(),
        Padding::Same => {
            if stride.iter().any(|&s| s != 1) {
                return Err(ErrorKind::Argument("padding `same` needs stride 1".into()));
            }
            let total = |k: usize| dilation[k].saturating_mul(kernel[k].saturating_sub(1));
            (0..n).map(|k| (total(k) / 2, total(k) - total(k) / 2)).collect()
        }
    };
    Ok(PlannedConv { spec: ConvSpec { role: ConvRole::Forward, stride, padding, dilation, groups: options.groups, open: SmallVec::new() }, zeros: None })
}

fn transpose(x: &Meta, weight: &Tensor, options: &ConvTransposeOptions, n: usize) -> Result<PlannedConv, ErrorKind> {
    let (stride, pad) = (options.stride.each(n, "stride")?, options.padding.each(n, "padding")?);
    let (dilation, extra) = (options.dilation.each(n, "dilation")?, options.output_padding.each(n, "output_padding")?);
    let (xs, ws) = (x.shape, weight.meta().shape);
    let mut padding = SmallVec::new();
    let mut open = SmallVec::new();
    let mut widths: SmallVec<[(isize, isize); 8]> = SmallVec::from_elem((0, 0), n + 2);
    for k in 0..n {
        if stride[k] == 0 || dilation[k] == 0 {
            return Err(ErrorKind::Argument("stride and dilation are at least 1".into()));
        }
        if extra[k] >= stride[k].max(dilation[k]) {
            return Err(ErrorKind::Argument(format!("output_padding {} must be smaller than stride {} or dilation {}", extra[k], stride[k], dilation[k])));
        }
        let full =
            xs[2 + k].saturating_sub(1).saturating_mul(stride[k]).saturating_add(dilation[k].saturating_mul(ws[2 + k].saturating_sub(1))).saturating_add(1);
        let size = (full + extra[k]).checked_sub(pad[k].saturating_mul(2)).filter(|_| xs[2 + k] > 0);
        let size = size.ok_or_else(|| ErrorKind::ShapeMismatch {
            left: xs,
            right: ws,
            axes: Some((2 + k, 2 + k)),
            expected: "an output whose sizes are not below 0",
        })?;
        if extra[k] < stride[k] {
            padding.push((pad[k], pad[k]));
            open.push(size);
        } else {
            // The output is longer than any that the convolution maps to this input: cut less off its end and,
            // where nothing was cut, add the zeros that no kernel reaches.
            let zeros = extra[k].saturating_sub(pad[k]);
            padding.push((pad[k], pad[k].saturating_sub(extra[k])));
            open.push(size - zeros);
            widths[2 + k].1 = zeros as isize;
        }
    }
    let spec = ConvSpec { role: ConvRole::InputGrad, stride, padding, dilation, groups: options.groups, open };
    Ok(PlannedConv { spec, zeros: widths.iter().any(|w| w.1 > 0).then_some(PadSpec { widths }) })
}
/// A convolution over time with the axes of x `[time, batch, in]`, weight `[kernel, in, out]` and bias `[out]` in this order; `pad`
/// zeros on both sides of time. Result `[time + 2 pad - kernel + 1, batch, out]`.
///
/// # Errors
/// Other numbers of axes; channels that do not fit.
///
/// Source: `torch.conv_tbc`.
#[track_caller]
pub fn conv_tbc(x: &Tensor, weight: &Tensor, bias: &Tensor, pad: usize) -> Tensor {
    let _call = crate::scope::call("conv_tbc");
    if let Some(t) = [x, weight].into_iter().find(|t| t.error().is_some()) {
        return t.clone();
    }
    for (shape, expected) in [(x.meta().shape, "[time, batch, in]"), (weight.meta().shape, "a weight [kernel, in, out]")] {
        if shape.rank() != 3 {
            return x.refused("conv_tbc", ErrorKind::Shape { shape, expected: expected.into() });
        }
    }
    let options = ConvOptions { padding: Padding::Zeros(pad.into()), ..ConvOptions::default() };
    conv1d(&x.permute([1, 2, 0]), &weight.permute([2, 1, 0]), Some(bias), &options).permute([2, 0, 1])
}
