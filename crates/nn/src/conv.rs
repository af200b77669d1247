//! Convolutions and their transposes, in one to three dimensions.
use crate::{
    Module, Param, Site,
    folded::LateBias,
    init,
    linear::{lazy, materialize_default},
    packed::ReadWeight,
};
use adamant_core::{
    Error, ErrorKind, Result, Tensor,
    functional::{self, PadMode, Padding, Sizes},
};

/// Options of a convolution layer; the defaults are PyTorch's.
#[derive(Clone, Debug)]
pub struct ConvOptions {
    /// step of the window
    pub stride: Sizes,
    /// what is added around the input
    pub padding: Padding,
    /// spacing of the kernel's elements
    pub dilation: Sizes,
    /// independent groups of channels
    pub groups: usize,
    /// with a bias?
    pub bias: bool,
    /// what stands in the padding
    pub padding_mode: PadMode,
}
impl Default for ConvOptions {
    fn default() -> ConvOptions {
        ConvOptions { stride: 1.into(), padding: Padding::default(), dilation: 1.into(), groups: 1, bias: true, padding_mode: PadMode::default() }
    }
}
/// A size for each of `N` axes.
#[track_caller]
pub(crate) fn each<const N: usize>(sizes: &Sizes, what: &str) -> Result<[usize; N]> {
    match sizes.as_slice() {
        [one] => Ok([*one; N]),
        all => match <[usize; N]>::try_from(all) {
            Ok(all) => Ok(all),
            Err(_) => Err(Error::new("layer", ErrorKind::Argument(format!("{what} has {} sizes for {N} spatial axes", all.len())))),
        },
    }
}
/// The weight's shape `[first, second, ..kernel]`.
#[track_caller]
fn weight_shape<const N: usize>(first: usize, second: usize, groups: usize, kernel: &Sizes) -> Result<Vec<usize>> {
    if groups == 0 || !first.is_multiple_of(groups) || !second.is_multiple_of(groups) {
        return Err(Error::new("conv", ErrorKind::Argument(format!("{groups} groups do not divide {first} and {second} channels"))));
    }
    let mut shape = vec![first, second / groups];
    shape.extend(each::<N>(kernel, "kernel_size")?);
    Ok(shape)
}
/// The channels of the first input of a lazy layer.
#[track_caller]
fn channels<const N: usize>(x: &Tensor, groups: usize) -> Result<usize> {
    let shape = x.shape()?;
    if !(N + 1..=N + 2).contains(&shape.rank()) {
        let expected = format!("{} axes, or {} without a batch", N + 2, N + 1);
        return Err(Error::new("conv", ErrorKind::Shape { shape, expected }));
    }
    let channels = shape[shape.rank() - N - 1];
    if channels == 0 || !channels.is_multiple_of(groups) {
        return Err(Error::new("conv", ErrorKind::Argument(format!("{groups} groups do not divide {channels} channels"))));
    }
    Ok(channels)
}
const KINDS: [&str; 3] = ["Conv1d", "Conv2d", "Conv3d"];
const TRANSPOSED: [&str; 3] = ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"];

/// A convolution over `N` spatial axes of an input `[batch, in_channels, ..]` (the batch may be missing).
/// Weight and bias start uniform in ±1/√(in_channels / groups · kernel), as PyTorch's.
#[derive(Clone, Module)]
pub struct Conv<const N: usize> {
    site: Site,
    /// `[out_channels, in_channels / groups, ..kernel]`
    pub weight: Param,
    /// `[out_channels]`
    pub bias: Option<Param>,
    #[module(flatten)]
    late_bias: LateBias,
    #[module(skip)]
    options: ConvOptions,
    outputs_per_group: usize,
    is_depthwise: bool,
}
/// Over `[batch, in_channels, length]`.
pub type Conv1d = Conv<1>;
/// Over `[batch, in_channels, height, width]`.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Conv2d, ConvOptions, Module};
/// # adamant_core::Device::reference().make_current();
/// let same = Conv2d::with(3, 8, 3, ConvOptions { padding: 1.into(), ..Default::default() })?;
/// assert_eq!(same.forward(&Tensor::ones([2, 3, 5, 5]))?.dims()?, [2, 8, 5, 5]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub type Conv2d = Conv<2>;
/// Over `[batch, in_channels, depth, height, width]`.
pub type Conv3d = Conv<3>;
impl<const N: usize> Conv<N> {
    /// Stride 1, no padding, a bias.
    ///
    /// # Errors
    /// As [`Conv::with`].
    #[track_caller]
    pub fn new(in_channels: usize, out_channels: usize, kernel_size: impl Into<Sizes>) -> Result<Conv<N>> {
        Conv::with(in_channels, out_channels, kernel_size, ConvOptions::default())
    }
    /// With options.
    ///
    /// # Errors
    /// Groups that do not divide the channels; another number of sizes than axes.
    #[track_caller]
    pub fn with(in_channels: usize, out_channels: usize, kernel_size: impl Into<Sizes>, options: ConvOptions) -> Result<Conv<N>> {
        let shape = weight_shape::<N>(out_channels, in_channels, options.groups, &kernel_size.into())?;
        let weight = Param::new(&init::default_weight(shape.as_slice())?)?;
        let bias = if options.bias { Some(Param::new(&init::default_bias(out_channels, shape)?)?) } else { None };
        Ok(Conv::of(weight, bias, out_channels, in_channels, options))
    }
    /// Of as many input channels as its first input has; see [`Linear::lazy`](crate::Linear::lazy).
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Conv2d, ConvOptions, Module};
    /// # adamant_core::Device::reference().make_current();
    /// let conv = Conv2d::lazy(8, 3, ConvOptions::default())?;
    /// conv.forward(&Tensor::ones([1, 4, 5, 5]))?;
    /// assert_eq!(*conv.weight.meta().shape, [8, 4, 3, 3]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Groups that do not divide the output channels; another number of sizes than axes.
    ///
    /// Source: `torch.nn.LazyConv2d`.
    #[track_caller]
    #[doc(alias = "LazyConv1d")]
    #[doc(alias = "LazyConv2d")]
    #[doc(alias = "LazyConv3d")]
    pub fn lazy(out_channels: usize, kernel_size: impl Into<Sizes>, options: ConvOptions) -> Result<Conv<N>> {
        let weight = lazy(weight_shape::<N>(out_channels, 0, options.groups, &kernel_size.into())?)?;
        let bias = if options.bias { Some(lazy(out_channels)?) } else { None };
        Ok(Conv::of(weight, bias, out_channels, 0, options))
    }
    #[cold]
    #[track_caller]
    fn materialize(&self, x: &Tensor) -> Result<()> {
        let (mut shape, groups) = (self.weight.meta().shape.to_vec(), self.options.groups);
        shape[1] = channels::<N>(x, groups)? / groups;
        materialize_default(&shape, &self.weight, self.bias.as_ref())
    }
    fn of(weight: Param, bias: Option<Param>, out_channels: usize, in_channels: usize, options: ConvOptions) -> Conv<N> {
        let (outputs_per_group, is_depthwise) = (out_channels / options.groups, options.groups > 1 && in_channels == options.groups);
        let site = Site::taking_bias(KINDS[(N - 1).min(2)]);
        Conv { late_bias: LateBias::at(&site), site, weight, bias, options, outputs_per_group, is_depthwise }
    }
    /// Of a depthwise convolution as many as its weight has now, which may have been pruned; else those of its options.
    fn groups(&self) -> usize {
        if self.is_depthwise { self.weight.meta().shape[0] / self.outputs_per_group.max(1) } else { self.options.groups }
    }
    /// The options it was made with.
    pub fn options(&self) -> &ConvOptions {
        &self.options
    }
    /// Widths around the spatial axes, last axis first, for the modes that are not zeros.
    #[track_caller]
    fn widths(&self) -> Result<Vec<isize>> {
        let kernel = self.weight.meta().shape;
        let dilation = each::<N>(&self.options.dilation, "dilation")?;
        let mut widths = Vec::with_capacity(2 * N);
        for k in (0..N).rev() {
            let (before, after) = match &self.options.padding {
                Padding::Valid => (0, 0),
                Padding::Zeros(sizes) => (each::<N>(sizes, "padding")?[k], each::<N>(sizes, "padding")?[k]),
                Padding::Same => {
                    let total = dilation[k] * (kernel[2 + k] - 1);
                    (total / 2, total - total / 2)
                }
            };
            widths.extend([before as isize, after as isize]);
        }
        Ok(widths)
    }
}
impl<const N: usize> Module for Conv<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        if self.weight.is_uninitialized() {
            self.materialize(x)?;
        }
        let o = &self.options;
        let mut conv = functional::ConvOptions { stride: o.stride.clone(), padding: o.padding.clone(), dilation: o.dilation.clone(), groups: self.groups() };
        let bias = self.late_bias.or(self.bias.as_ref());
        let padded;
        let x = if o.padding_mode == PadMode::default() {
            x
        } else {
            conv.padding = Padding::Valid;
            padded = functional::pad(x, &self.widths()?, o.padding_mode);
            &padded
        };
        let bias = bias.as_ref();
        let y = match (self.weight.read(), N) {
            (ReadWeight::Codes(weight, parts), _) => parts.with_input(|input| functional::quantized_conv(x, &weight, bias, &conv, input)),
            (ReadWeight::Numbers(weight), 1) => functional::conv1d(x, &weight, bias, &conv),
            (ReadWeight::Numbers(weight), 2) => functional::conv2d(x, &weight, bias, &conv),
            (ReadWeight::Numbers(weight), 3) => functional::conv3d(x, &weight, bias, &conv),
            (_, n) => return Err(dimensions(n)),
        }
        .ok()?;
        call.end(y)
    }
}
#[track_caller]
fn dimensions(n: usize) -> Error {
    Error::new("conv", ErrorKind::Argument(format!("convolutions have one to three spatial axes, not {n}")))
}

/// Options of a transposed convolution layer; the defaults are PyTorch's.
#[derive(Clone, Debug)]
pub struct ConvTransposeOptions {
    /// strides, padding, output padding, dilation and groups
    pub conv: functional::ConvTransposeOptions,
    /// with a bias?
    pub bias: bool,
}
impl Default for ConvTransposeOptions {
    fn default() -> ConvTransposeOptions {
        ConvTransposeOptions { conv: functional::ConvTransposeOptions::default(), bias: true }
    }
}
/// A transposed convolution over `N` spatial axes of an input `[batch, in_channels, ..]` (the batch may be missing).
#[derive(Clone, Module)]
pub struct ConvTranspose<const N: usize> {
    site: Site,
    /// `[in_channels, out_channels / groups, ..kernel]`
    pub weight: Param,
    /// `[out_channels]`
    pub bias: Option<Param>,
    #[module(flatten)]
    late_bias: LateBias,
    #[module(skip)]
    options: ConvTransposeOptions,
    is_depthwise: bool,
}
/// Over `[batch, in_channels, length]`.
pub type ConvTranspose1d = ConvTranspose<1>;
/// Over `[batch, in_channels, height, width]`.
pub type ConvTranspose2d = ConvTranspose<2>;
/// Over `[batch, in_channels, depth, height, width]`.
pub type ConvTranspose3d = ConvTranspose<3>;
impl<const N: usize> ConvTranspose<N> {
    /// Stride 1, no padding, a bias.
    ///
    /// # Errors
    /// As [`ConvTranspose::with`].
    #[track_caller]
    pub fn new(in_channels: usize, out_channels: usize, kernel_size: impl Into<Sizes>) -> Result<ConvTranspose<N>> {
        ConvTranspose::with(in_channels, out_channels, kernel_size, ConvTransposeOptions::default())
    }
    /// With options.
    ///
    /// # Errors
    /// Groups that do not divide the channels; another number of sizes than axes.
    #[track_caller]
    pub fn with(in_channels: usize, out_channels: usize, kernel_size: impl Into<Sizes>, options: ConvTransposeOptions) -> Result<ConvTranspose<N>> {
        let shape = weight_shape::<N>(in_channels, out_channels, options.conv.groups, &kernel_size.into())?;
        let weight = Param::new(&init::default_weight(shape.as_slice())?)?;
        let bias = if options.bias { Some(Param::new(&init::default_bias(out_channels, shape)?)?) } else { None };
        let is_depthwise = options.conv.groups > 1 && in_channels == options.conv.groups;
        Ok(ConvTranspose::of(weight, bias, options, is_depthwise))
    }
    /// Of as many input channels as its first input has; see [`Linear::lazy`](crate::Linear::lazy).
    ///
    /// # Errors
    /// Groups that do not divide the output channels; another number of sizes than axes.
    ///
    /// Source: `torch.nn.LazyConvTranspose2d`.
    #[track_caller]
    #[doc(alias = "LazyConvTranspose1d")]
    #[doc(alias = "LazyConvTranspose2d")]
    #[doc(alias = "LazyConvTranspose3d")]
    pub fn lazy(out_channels: usize, kernel_size: impl Into<Sizes>, options: ConvTransposeOptions) -> Result<ConvTranspose<N>> {
        let weight = lazy(weight_shape::<N>(0, out_channels, options.conv.groups, &kernel_size.into())?)?;
        let bias = if options.bias { Some(lazy(out_channels)?) } else { None };
        Ok(ConvTranspose::of(weight, bias, options, false))
    }
    fn of(weight: Param, bias: Option<Param>, options: ConvTransposeOptions, is_depthwise: bool) -> ConvTranspose<N> {
        let site = Site::taking_bias(TRANSPOSED[(N - 1).min(2)]);
        ConvTranspose { late_bias: LateBias::at(&site), site, weight, bias, options, is_depthwise }
    }
    #[cold]
    #[track_caller]
    fn materialize(&self, x: &Tensor) -> Result<()> {
        let mut shape = self.weight.meta().shape.to_vec();
        shape[0] = channels::<N>(x, self.options.conv.groups)?;
        materialize_default(&shape, &self.weight, self.bias.as_ref())
    }
}
impl<const N: usize> Module for ConvTranspose<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        if self.weight.is_uninitialized() {
            self.materialize(x)?;
        }
        let (weight, bias) = (self.weight.get(), self.late_bias.or(self.bias.as_ref()));
        // Of a depthwise one as many groups as its weight has now, which may have been pruned.
        let pruned;
        let conv = if self.is_depthwise {
            pruned = functional::ConvTransposeOptions { groups: self.weight.meta().shape[0], ..self.options.conv.clone() };
            &pruned
        } else {
            &self.options.conv
        };
        let y = match N {
            1 => functional::conv_transpose1d(x, &weight, bias.as_ref(), conv),
            2 => functional::conv_transpose2d(x, &weight, bias.as_ref(), conv),
            3 => functional::conv_transpose3d(x, &weight, bias.as_ref(), conv),
            n => return Err(dimensions(n)),
        }
        .ok()?;
        call.end(y)
    }
}
