//! Pooling by powers, by windows that are drawn, and back.
use super::dimensions;
use crate::{Module, Site, conv::each, init};
use adamant_core::{
    DType, Error, ErrorKind, Result, Tensor,
    functional::{self, FractionalMaxPoolOptions, Sizes},
};

/// The p-th root of the sum of p-th powers of each window.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{LpPool2d, Module};
/// # adamant_core::Device::reference().make_current();
/// let pool = LpPool2d::new(2.0, 2);
/// assert_eq!(pool.forward(&Tensor::ones([1, 1, 4, 4]))?.to_vec::<f32>()?, [2.0; 4]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// Source: `torch.nn.LPPool2d`.
#[derive(Clone, Module)]
pub struct LpPool<const N: usize> {
    site: Site,
    norm_type: f64,
    #[module(skip)]
    kernel_size: Sizes,
    #[module(skip)]
    stride: Option<Sizes>,
    ceil_mode: bool,
}
names!(LpPool: LpPool1d LpPool2d LpPool3d);
impl<const N: usize> LpPool<N> {
    /// Windows side by side.
    pub fn new(norm_type: f64, kernel_size: impl Into<Sizes>) -> LpPool<N> {
        LpPool::with(norm_type, kernel_size, None, false)
    }
    /// With steps, `None` being the window's sizes; `ceil_mode`: a window that begins in the input counts, even if it ends outside.
    pub fn with(norm_type: f64, kernel_size: impl Into<Sizes>, stride: Option<Sizes>, ceil_mode: bool) -> LpPool<N> {
        LpPool { site: Site::with_hooks(Self::KIND), norm_type, kernel_size: kernel_size.into(), stride, ceil_mode }
    }
}
impl<const N: usize> Module for LpPool<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let (kernel, stride) = (self.kernel_size.clone(), self.stride.clone());
        let y = match N {
            1 => functional::lp_pool1d(x, self.norm_type, kernel, stride, self.ceil_mode),
            2 => functional::lp_pool2d(x, self.norm_type, kernel, stride, self.ceil_mode),
            3 => functional::lp_pool3d(x, self.norm_type, kernel, stride, self.ceil_mode),
            n => return Err(dimensions(n)),
        }
        .ok()?;
        call.end(y)
    }
}

/// What a max pooling took put back where it lay, zeros elsewhere: as far as it can be, its inverse.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{MaxPool1d, MaxUnpool1d};
/// # adamant_core::Device::reference().make_current();
/// let (y, indices) = MaxPool1d::new(2).forward_indices(&Tensor::from_slice(&[1.0f32, 5.0, 7.0, 3.0], [1, 1, 4]))?;
/// assert_eq!(MaxUnpool1d::new(2).forward(&y, &indices, None)?.to_vec::<f32>()?, [0.0, 5.0, 7.0, 0.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// Source: `torch.nn.MaxUnpool1d`.
#[derive(Clone, Module)]
pub struct MaxUnpool<const N: usize> {
    site: Site,
    #[module(skip)]
    kernel_size: Sizes,
    #[module(skip)]
    stride: Option<Sizes>,
    #[module(skip)]
    padding: Sizes,
}
names!(MaxUnpool: MaxUnpool1d MaxUnpool2d MaxUnpool3d);
impl<const N: usize> MaxUnpool<N> {
    /// Of windows side by side.
    pub fn new(kernel_size: impl Into<Sizes>) -> MaxUnpool<N> {
        MaxUnpool::with(kernel_size, None, 0)
    }
    /// With the steps and padding of the pooling; steps `None` are the window's sizes.
    pub fn with(kernel_size: impl Into<Sizes>, stride: Option<Sizes>, padding: impl Into<Sizes>) -> MaxUnpool<N> {
        MaxUnpool { site: Site::with_hooks(Self::KIND), kernel_size: kernel_size.into(), stride, padding: padding.into() }
    }
    /// The maxima at their indices in a plane of `output_size`; `None`: the smallest that the pooling may have had.
    ///
    /// # Errors
    /// Values and indices of different shapes, or of another number of axes; an output size that no such pooling has.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, indices: &Tensor, output_size: Option<[usize; N]>) -> Result<Tensor> {
        let call = self.site.begin(&[x, indices])?;
        let (x, indices) = (call.input(0, x), call.input(1, indices));
        let shape = x.shape()?;
        if !(N + 1..=N + 2).contains(&shape.rank()) {
            let expected = format!("{} axes, or {} without a batch", N + 2, N + 1);
            return Err(Error::new("max_unpool", ErrorKind::Shape { shape, expected }));
        }
        let kernel = each::<N>(&self.kernel_size, "kernel_size")?;
        let stride = self.stride.as_ref().map_or(Ok(kernel), |s| each::<N>(s, "stride"))?;
        let padding = each::<N>(&self.padding, "padding")?;
        let mut size = [0; N];
        for k in 0..N {
            let pooled = shape[shape.rank() - N + k].max(1);
            let least = ((pooled - 1) * stride[k] + kernel[k]).saturating_sub(2 * padding[k]);
            size[k] = output_size.map_or(least, |given| given[k]);
            if size[k] + stride[k] <= least || size[k] >= least + stride[k] {
                let text =
                    format!("output size {} along axis {k}: it lies between {} and {}", size[k], (least + 1).saturating_sub(stride[k]), least + stride[k] - 1);
                return Err(Error::new("max_unpool", ErrorKind::Argument(text)));
            }
        }
        let y = functional::max_unpool(x, indices, &size).ok()?;
        call.end(y)
    }
}

/// How many windows a fractional pooling has.
#[derive(Clone, Debug)]
enum OutputSize {
    Given(Sizes),
    Ratio(Vec<f64>),
}
/// Max pooling whose windows start at drawn places, so that sizes shrink by factors that are no whole numbers (Graham 2014). The
/// draws come from the thread's generator, in evaluation too.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{FractionalMaxPool2d, Module};
/// # adamant_core::Device::reference().make_current();
/// let pool = FractionalMaxPool2d::ratio(2, [0.7, 0.5])?;
/// assert_eq!(pool.forward(&Tensor::ones([1, 3, 10, 8]))?.dims()?, [1, 3, 7, 4]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// Source: `torch.nn.FractionalMaxPool2d`, `FractionalMaxPool3d`.
#[derive(Clone, Module)]
pub struct FractionalMaxPool<const N: usize> {
    site: Site,
    #[module(skip)]
    kernel_size: Sizes,
    #[module(skip)]
    output: OutputSize,
}
/// Over `[batch, channels, height, width]`.
pub type FractionalMaxPool2d = FractionalMaxPool<2>;
/// Over `[batch, channels, depth, height, width]`.
pub type FractionalMaxPool3d = FractionalMaxPool<3>;
impl<const N: usize> FractionalMaxPool<N> {
    /// Of an output size.
    pub fn new(kernel_size: impl Into<Sizes>, output_size: impl Into<Sizes>) -> FractionalMaxPool<N> {
        FractionalMaxPool::of(kernel_size.into(), OutputSize::Given(output_size.into()))
    }
    /// Of an output size as a share of the input's, for each axis.
    ///
    /// # Errors
    /// A share that is not between 0 and 1.
    #[track_caller]
    pub fn ratio(kernel_size: impl Into<Sizes>, ratio: [f64; N]) -> Result<FractionalMaxPool<N>> {
        match ratio.iter().find(|r| !(**r > 0.0 && **r < 1.0)) {
            Some(r) => Err(Error::new("fractional_max_pool", ErrorKind::Argument(format!("an output ratio of {r}: it lies between 0 and 1")))),
            None => Ok(FractionalMaxPool::of(kernel_size.into(), OutputSize::Ratio(ratio.to_vec()))),
        }
    }
    fn of(kernel_size: Sizes, output: OutputSize) -> FractionalMaxPool<N> {
        let kind = if N == 3 { "FractionalMaxPool3d" } else { "FractionalMaxPool2d" };
        FractionalMaxPool { site: Site::with_hooks(kind), kernel_size, output }
    }
    /// The maxima and their indices in the flat plane.
    ///
    /// # Errors
    /// An input of another number of axes; windows that do not fit.
    #[track_caller]
    pub fn forward_indices(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let call = self.site.begin(&[x])?;
        let (y, indices) = self.pooled(call.input(0, x))?;
        let [y, indices] = call.end_all([y, indices])?;
        Ok((y, indices))
    }
    #[track_caller]
    fn pooled(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let shape = x.shape()?;
        if !(N + 1..=N + 2).contains(&shape.rank()) {
            let expected = format!("{} axes, or {} without a batch", N + 2, N + 1);
            return Err(Error::new("fractional_max_pool", ErrorKind::Shape { shape, expected }));
        }
        let lead = shape.rank() - N;
        let output_size = match &self.output {
            OutputSize::Given(sizes) => sizes.clone(),
            OutputSize::Ratio(ratio) => ratio.iter().zip(&shape[lead..]).map(|(r, &size)| (size as f64 * r) as usize).collect::<Vec<_>>().into(),
        };
        let mut drawn = shape[..lead].to_vec();
        drawn.push(N);
        let samples = init::generator(x.device()?)?.uniform(drawn, if x.dtype()? == DType::F64 { DType::F64 } else { DType::F32 });
        let windows = FractionalMaxPoolOptions { kernel_size: self.kernel_size.clone(), output_size };
        let (y, indices) = functional::fractional_max_pool(x, &windows, &samples);
        Ok((y.ok()?, indices.ok()?))
    }
}
impl<const N: usize> Module for FractionalMaxPool<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let y = self.pooled(call.input(0, x))?.0;
        call.end(y)
    }
}
