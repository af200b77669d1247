//! Pooling over windows, in one to three dimensions.
use crate::{Module, Site};
use adamant_core::{
    Error, ErrorKind, Result, Tensor,
    functional::{self, Sizes},
};

#[track_caller]
fn dimensions(n: usize) -> Error {
    Error::new("pool", ErrorKind::Argument(format!("pooling has one to three spatial axes, not {n}")))
}
macro_rules! names {
    ($generic:ident: $one:ident $two:ident $three:ident) => {
        /// Over `[batch, channels, length]`.
        pub type $one = $generic<1>;
        /// Over `[batch, channels, height, width]`.
        pub type $two = $generic<2>;
        /// Over `[batch, channels, depth, height, width]`.
        pub type $three = $generic<3>;
        impl<const N: usize> $generic<N> {
            const KIND: &'static str = [stringify!($one), stringify!($two), stringify!($three)][if N == 0 || N > 3 { 0 } else { N - 1 }];
        }
    };
}
mod further;
pub use further::{
    FractionalMaxPool, FractionalMaxPool2d, FractionalMaxPool3d, LpPool, LpPool1d, LpPool2d, LpPool3d, MaxUnpool, MaxUnpool1d, MaxUnpool2d, MaxUnpool3d,
};

/// The maximum of each window.
#[derive(Clone, Module)]
pub struct MaxPool<const N: usize> {
    site: Site,
    #[module(skip)]
    options: functional::MaxPoolOptions,
}
names!(MaxPool: MaxPool1d MaxPool2d MaxPool3d);
impl<const N: usize> MaxPool<N> {
    /// Windows side by side.
    pub fn new(kernel_size: impl Into<Sizes>) -> MaxPool<N> {
        MaxPool::with(functional::MaxPoolOptions::new(kernel_size))
    }
    /// With options.
    pub fn with(options: functional::MaxPoolOptions) -> MaxPool<N> {
        MaxPool { site: Site::with_hooks(Self::KIND), options }
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
        let (y, indices) = match N {
            1 => functional::max_pool1d(x, &self.options),
            2 => functional::max_pool2d(x, &self.options),
            3 => functional::max_pool3d(x, &self.options),
            n => return Err(dimensions(n)),
        };
        Ok((y.ok()?, indices.ok()?))
    }
}
impl<const N: usize> Module for MaxPool<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let y = self.pooled(call.input(0, x))?.0;
        call.end(y)
    }
}
/// The mean of each window.
#[derive(Clone, Module)]
pub struct AvgPool<const N: usize> {
    site: Site,
    #[module(skip)]
    options: functional::AvgPoolOptions,
}
names!(AvgPool: AvgPool1d AvgPool2d AvgPool3d);
impl<const N: usize> AvgPool<N> {
    /// Windows side by side.
    pub fn new(kernel_size: impl Into<Sizes>) -> AvgPool<N> {
        AvgPool::with(functional::AvgPoolOptions::new(kernel_size))
    }
    /// With options.
    pub fn with(options: functional::AvgPoolOptions) -> AvgPool<N> {
        AvgPool { site: Site::with_hooks(Self::KIND), options }
    }
}
impl<const N: usize> Module for AvgPool<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let y = match N {
            1 => functional::avg_pool1d(x, &self.options),
            2 => functional::avg_pool2d(x, &self.options),
            3 => functional::avg_pool3d(x, &self.options),
            n => return Err(dimensions(n)),
        }
        .ok()?;
        call.end(y)
    }
}
/// Mean pooling to a given output size. `None` keeps an axis.
#[derive(Clone, Module)]
pub struct AdaptiveAvgPool<const N: usize> {
    site: Site,
    #[module(skip)]
    output_size: [Option<usize>; N],
}
names!(AdaptiveAvgPool: AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d);
impl<const N: usize> AdaptiveAvgPool<N> {
    /// One size for every axis.
    pub fn new(output_size: usize) -> AdaptiveAvgPool<N> {
        AdaptiveAvgPool::with([Some(output_size); N])
    }
    /// A size for each axis.
    pub fn with(output_size: [Option<usize>; N]) -> AdaptiveAvgPool<N> {
        AdaptiveAvgPool { site: Site::with_hooks(Self::KIND), output_size }
    }
}
impl<const N: usize> Module for AdaptiveAvgPool<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let y = functional::adaptive_avg_pool(x, &self.output_size).ok()?;
        call.end(y)
    }
}
/// Max pooling to a given output size. `None` keeps an axis.
#[derive(Clone, Module)]
pub struct AdaptiveMaxPool<const N: usize> {
    site: Site,
    #[module(skip)]
    output_size: [Option<usize>; N],
}
names!(AdaptiveMaxPool: AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d);
impl<const N: usize> AdaptiveMaxPool<N> {
    /// One size for every axis.
    pub fn new(output_size: usize) -> AdaptiveMaxPool<N> {
        AdaptiveMaxPool::with([Some(output_size); N])
    }
    /// A size for each axis.
    pub fn with(output_size: [Option<usize>; N]) -> AdaptiveMaxPool<N> {
        AdaptiveMaxPool { site: Site::with_hooks(Self::KIND), output_size }
    }
}
impl<const N: usize> Module for AdaptiveMaxPool<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let x = call.input(0, x);
        let y = functional::adaptive_max_pool(x, &self.output_size).0.ok()?;
        call.end(y)
    }
}
