//! Layers that rearrange, resize, pad or compare.
use crate::{Module, Site};
use adamant_core::{
    Result, Tensor,
    functional::{self, InterpolateOptions, PadMode, Resize, Sizes, UnfoldOptions},
};

/// Axes `start` to `end` joined into one.
#[derive(Clone, Module)]
pub struct Flatten {
    site: Site,
    start: isize,
    end: isize,
}
impl Flatten {
    /// Joins all axes but the first.
    pub fn new() -> Flatten {
        Flatten::with(1, -1)
    }
    /// Joins axes `start` to `end`.
    pub fn with(start: isize, end: isize) -> Flatten {
        Flatten { site: Site::with_hooks("Flatten"), start, end }
    }
}
impl Default for Flatten {
    fn default() -> Flatten {
        Flatten::new()
    }
}
impl Module for Flatten {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let y = x.flatten(self.start, self.end).ok()?;
        call.end(y)
    }
}
/// One axis split into several.
#[derive(Clone, Module)]
pub struct Unflatten {
    site: Site,
    dim: isize,
    sizes: Vec<isize>,
}
impl Unflatten {
    /// Axis `dim` becomes axes of these sizes; one may be -1.
    pub fn new(dim: isize, sizes: impl Into<Vec<isize>>) -> Unflatten {
        Unflatten { site: Site::with_hooks("Unflatten"), dim, sizes: sizes.into() }
    }
}
impl Module for Unflatten {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let y = x.unflatten(self.dim, &self.sizes).ok()?;
        call.end(y)
    }
}
/// Pads the last axes: by a constant, by reflection, by the edge, or around the circle. The widths are PyTorch's: before and
/// after, from the last axis on.
///
/// ```
/// # use adamant_core::{Tensor, functional::PadMode};
/// # use adamant_nn::{Module, Pad};
/// # adamant_core::Device::reference().make_current();
/// let reflect = Pad::new([1, 1, 2, 2], PadMode::Reflect);
/// assert_eq!(reflect.forward(&Tensor::ones([1, 1, 4, 4]))?.dims()?, [1, 1, 8, 6]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct Pad {
    site: Site,
    widths: Vec<isize>,
    #[module(skip)]
    mode: PadMode,
}
impl Pad {
    /// Of widths before and after, from the last axis on.
    pub fn new(widths: impl Into<Vec<isize>>, mode: PadMode) -> Pad {
        Pad { site: Site::with_hooks("Pad"), widths: widths.into(), mode }
    }
    /// The same width on every side of `axes` spatial axes, as `ReflectionPad2d(1)`.
    pub fn around(width: isize, axes: usize, mode: PadMode) -> Pad {
        Pad::new(vec![width; 2 * axes], mode)
    }
}
impl Module for Pad {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let y = functional::pad(x, &self.widths, self.mode).ok()?;
        call.end(y)
    }
}
/// Resizes the spatial axes of `[batch, channels, ..]`.
#[derive(Clone, Module)]
pub struct Upsample {
    site: Site,
    #[module(skip)]
    to: Resize,
    #[module(skip)]
    options: InterpolateOptions,
}
impl Upsample {
    /// To sizes or by factors, each element from its nearest neighbour.
    pub fn new(to: Resize) -> Upsample {
        Upsample::with(to, InterpolateOptions::default())
    }
    /// To sizes or by factors, in a given mode.
    pub fn with(to: Resize, options: InterpolateOptions) -> Upsample {
        Upsample { site: Site::with_hooks("Upsample"), to, options }
    }
}
impl Module for Upsample {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let y = functional::interpolate(x, &self.to, self.options).ok()?;
        call.end(y)
    }
}
macro_rules! by_factor {
    ($($(#[$doc:meta])* $name:ident $function:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Module)]
        pub struct $name {
            site: Site,
            factor: usize,
        }
        impl $name {
            /// By a factor (or number of groups).
            pub fn new(factor: usize) -> $name {
                $name { site: Site::with_hooks(stringify!($name)), factor }
            }
        }
        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                let call = self.site.begin(&[x])?;
                let x = call.input(0, x);
                let y = functional::$function(x, self.factor).ok()?;
                call.end(y)
            }
        }
    )* };
}
by_factor! {
    /// `[.., channels · r², height, width]` to `[.., channels, height · r, width · r]` (Shi et al. 2016).
    PixelShuffle pixel_shuffle;
    /// The inverse of [`PixelShuffle`].
    PixelUnshuffle pixel_unshuffle;
    /// Channels dealt out over groups (Zhang et al. 2018).
    ChannelShuffle channel_shuffle;
}
/// Every window of `[batch, channels, height, width]` as a column: `[batch, channels · window, positions]`.
#[derive(Clone, Module)]
pub struct Unfold {
    site: Site,
    #[module(skip)]
    options: UnfoldOptions,
}
impl Unfold {
    /// Of windows of a size, at each place.
    pub fn new(kernel_size: impl Into<Sizes>) -> Unfold {
        Unfold::with(UnfoldOptions::new(kernel_size))
    }
    /// Of windows with a stride, padding or dilation.
    pub fn with(options: UnfoldOptions) -> Unfold {
        Unfold { site: Site::with_hooks("Unfold"), options }
    }
}
impl Module for Unfold {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let y = functional::unfold(x, &self.options).ok()?;
        call.end(y)
    }
}
/// Columns added back where their windows lay: the transpose of [`Unfold`].
#[derive(Clone, Module)]
pub struct Fold {
    site: Site,
    #[module(skip)]
    output_size: [usize; 2],
    #[module(skip)]
    options: UnfoldOptions,
}
impl Fold {
    /// To an output size, of windows of a size that stood at each place.
    pub fn new(output_size: [usize; 2], kernel_size: impl Into<Sizes>) -> Fold {
        Fold::with(output_size, UnfoldOptions::new(kernel_size))
    }
    /// To an output size, of windows with a stride, padding or dilation.
    pub fn with(output_size: [usize; 2], options: UnfoldOptions) -> Fold {
        Fold { site: Site::with_hooks("Fold"), output_size, options }
    }
}
impl Module for Fold {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let y = functional::fold(x, self.output_size, &self.options).ok()?;
        call.end(y)
    }
}
/// The cosine of the angle between two tensors' vectors along an axis.
#[derive(Clone, Module)]
pub struct CosineSimilarity {
    site: Site,
    dim: isize,
    eps: f64,
}
impl CosineSimilarity {
    /// Along axis 1; norms below 1e-8 count as 1e-8.
    pub fn new() -> CosineSimilarity {
        CosineSimilarity::with(1, 1e-8)
    }
    /// Along axis `dim`; norms below `eps` count as `eps`.
    pub fn with(dim: isize, eps: f64) -> CosineSimilarity {
        CosineSimilarity { site: Site::with_hooks("CosineSimilarity"), dim, eps }
    }
    /// The similarity of two tensors.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    #[track_caller]
    pub fn forward(&self, left: &Tensor, right: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[left, right])?;
        let (left, right) = (call.input(0, left), call.input(1, right));
        let y = left.cosine_similarity(right, self.dim, self.eps).ok()?;
        call.end(y)
    }
}
impl Default for CosineSimilarity {
    fn default() -> CosineSimilarity {
        CosineSimilarity::new()
    }
}
/// The p-norm of the difference of two tensors' last axes.
#[derive(Clone, Module)]
pub struct PairwiseDistance {
    site: Site,
    p: f64,
    eps: f64,
    keepdim: bool,
}
impl PairwiseDistance {
    /// p 2, eps 1e-6, no kept axis.
    pub fn new() -> PairwiseDistance {
        PairwiseDistance::with(2.0, 1e-6, false)
    }
    /// With p, eps, and the last axis kept or not.
    pub fn with(p: f64, eps: f64, keepdim: bool) -> PairwiseDistance {
        PairwiseDistance { site: Site::with_hooks("PairwiseDistance"), p, eps, keepdim }
    }
    /// The distance of two tensors.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    #[track_caller]
    pub fn forward(&self, left: &Tensor, right: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[left, right])?;
        let (left, right) = (call.input(0, left), call.input(1, right));
        let (p, eps) = (self.p, self.eps);
        let y = if self.keepdim { left.pairwise_distance_keepdim(right, p, eps) } else { left.pairwise_distance(right, p, eps) }.ok()?;
        call.end(y)
    }
}
impl Default for PairwiseDistance {
    fn default() -> PairwiseDistance {
        PairwiseDistance::new()
    }
}
