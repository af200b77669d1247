//! Smaller models: what makes a trained model cheaper to adapt, to store and to run.
//!
//! Whatever is done here is done to any `#[derive(Module)]` model from outside: no struct of the user changes, a weight is
//! addressed by its path or by a glob over paths, and what is put on it is state that is saved, moved and copied with the model.
//!
//! | what | where |
//! |---|---|
//! | weights as integer codes after training | [`quantize_model`], [`quantize_dynamic`], [`QuantizationConfig`] |
//! | how the codes of weights are found: rounding, GPTQ, AWQ | [`WeightMethod`] |
//! | the range of values that codes span | [`observe`] |
//! | training with what codes stand for | [`qat`] |
//! | files of quantized models | [`save_quantized`], [`load_quantized`] |
//! | folders of GPTQ and AWQ, files of GGUF | [`exchange`] |
//! | low-rank adapters | [`lora`] |
//! | weights that are zero and stay so | [`prune`] |
//! | a student that learns from a teacher | [`distill`] |
//!
//! Architecture invariant: this crate names no backend, no optimizer and no training loop.
#![forbid(unsafe_code)]

mod file;
mod method;
mod quantize;
mod report;
mod scheme;
mod select;

pub mod distill;
pub mod exchange;
pub mod lora;
pub mod observe;
pub mod prune;
pub mod qat;

pub use file::{is_quantized, load_quantized, save_quantized};
pub use method::{AwqOptions, GptqOptions, WeightMethod};
pub use qat::{Qat, QatOptions, convert, prepare_qat, remove_qat};
pub use quantize::{quantize_dynamic, quantize_model, quantize_model_with};
pub use report::{LayerReport, MethodReport, Outcome, QuantizationReport};
pub use scheme::{InputScheme, LayerKind, LayerScheme, QuantizationConfig};
