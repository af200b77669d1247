//! Adamant: deep learning in Rust. This crate is the one to depend on: it re-exports the parts and picks the
//! backends by Cargo features.
//!
//! Architecture invariant: no code of its own; the only crate that names backends.
#![forbid(unsafe_code)]

/// Mixed precision: regions of 16 bits, and the loss scaler.
#[cfg(feature = "amp")]
pub use adamant_amp as amp;
/// The CPU backend's own types: builders, contexts, threads.
#[cfg(feature = "cpu")]
pub use adamant_backend_cpu as cpu;
/// The CUDA backend's own types.
#[cfg(feature = "cuda")]
pub use adamant_backend_cuda as cuda;
/// The wgpu backend's own types.
#[cfg(feature = "wgpu")]
pub use adamant_backend_wgpu as wgpu;
pub use adamant_core::*;
/// Data sets and the loader.
#[cfg(feature = "data")]
pub use adamant_data as data;
/// ```
/// # fn main() -> adamant::Result<()> {
/// use adamant::{Tensor, profile};
///
/// #[profile]
/// fn forward(x: &Tensor) -> Tensor {
///     x.exp()
/// }
/// forward(&Tensor::ones([4])).materialize()?;
/// # Ok(())
/// # }
/// ```
pub use adamant_derive::profile;
/// Ranks that train together: who they are, how they are started, the engine of one host.
#[cfg(feature = "distributed")]
pub use adamant_distributed as distributed;
pub use adamant_distributions as distributions;
pub use adamant_formats as formats;
/// Metrics as accumulators on the device.
pub use adamant_metrics as metrics;
/// Well-known networks, and their weights from files of torchvision and transformers.
#[cfg(feature = "models")]
pub use adamant_models as models;
pub use adamant_optim as optim;
/// Models that ranks share: meshes, tensor, pipeline and expert parallel.
#[cfg(feature = "distributed")]
pub use adamant_parallel as parallel;
/// Smaller models: low-rank adapters, pruning, distillation.
#[cfg(feature = "quant")]
pub use adamant_quant as quant;
/// Numbers that are not finite: policies, and where they come from.
#[cfg(feature = "stability")]
pub use adamant_stability as stability;
/// The training loop with run folder, checkpoints and resume, for modules of one's own.
#[cfg(feature = "train")]
pub use adamant_train as train;

/// Layers, parameters and initialisers.
pub mod nn {
    // The derive that writes this crate's paths, in place of the one that writes `adamant_nn`'s.
    pub use adamant_derive::FacadeModule as Module;
    pub use adamant_nn::*;
}

/// What nearly every program takes: tensors and their macros, layers, optimizers, and the traits whose methods they have.
///
/// ```
/// use adamant::prelude::*;
///
/// # fn main() -> adamant::Result<()> {
/// nn::manual_seed(0);
/// let model = nn::Sequential::new().add(nn::Linear::new(2, 8)?).add(nn::Relu::new()).add(nn::Linear::new(8, 1)?);
/// let mut adam = optim::Adam::new(1e-2).over(model.parameters());
/// let (x, y) = (tensor![[0.0, 1.0], [1.0, 0.0]], tensor![[1.0], [-1.0]]);
/// let loss = F::mse_loss(&model.forward(&x)?, &y, Reduction::Mean);
/// adam.step(&loss.backward()?)?;
/// # Ok(())
/// # }
/// ```
pub mod prelude {
    pub use crate::{
        DType, Device, Error, Result, Rng, Tensor, compile,
        distributions::{self, Distribution as _},
        functional::{self as F, Reduction},
        index,
        metrics::{self, Metric as _},
        nn::{self, Criterion as _, Module, Param, Walk as _},
        no_grad,
        optim::{self, Optimizer as _, UpdateRule as _},
        step, tensor,
    };
}
