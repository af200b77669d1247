//! Smaller models: what makes a trained model cheaper to adapt, to store and to run.
//!
//! Whatever is done here is done to any `#[derive(Module)]` model from outside: no struct of the user changes, a weight is
//! addressed by its path or by a glob over paths, and what is put on it is state that is saved, moved and copied with the model.
//!
//! | what | where |
//! |---|---|
//! | weights as integer codes after training | [`quantize_model`], [`quantize_dynamic`], [`QuantizationConfig`] |
//! | batch norms that become part of the layer before them | [`fuse_modules`], [`fuse_modules_on`] |
//! | how the codes of weights are found: rounding, GPTQ, AWQ | [`WeightMethod`] |
//! | the range of values that codes span | [`observe`] |
//! | training with what codes stand for | [`qat`] |
//! | files of quantized models | [`save_quantized`], [`load_quantized`] |
//! | folders of GPTQ and AWQ, files of GGUF | [`exchange`] |
//! | low-rank adapters | [`lora`] |
//! | adapters on what layers return: FiLM, bottlenecks | [`adapters`] |
//! | weights that are zero and stay so | [`prune`] |
//! | a student that learns from a teacher | [`distill`] |
//!
//! Architecture invariant: this crate names no backend, no optimizer and no training loop.
#![forbid(unsafe_code)]

mod faster;
mod file;
mod fuse;
mod method;
mod quantize;
mod report;
mod scheme;
mod select;

pub mod adapters;
pub mod distill;
pub mod exchange;
pub mod lora;
pub mod observe;
pub mod prune;
pub mod qat;

pub use file::{is_quantized, load_quantized, save_quantized};
pub use fuse::{folded_pairs, fuse_modules, fuse_modules_on};
pub use method::{AwqOptions, GptqOptions, WeightMethod};
pub use qat::{Qat, QatOptions, convert, prepare_qat, remove_qat};
pub use quantize::{quantize_dynamic, quantize_model, quantize_model_with};
pub use report::{FuseReport, LayerReport, MethodReport, NormOutcome, NormReport, Outcome, QuantizationReport};
pub use scheme::{InputScheme, LayerKind, LayerScheme, QuantizationConfig};
