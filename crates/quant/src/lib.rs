//! Smaller models: what makes a trained model cheaper to adapt, to store and to run.
//!
//! Whatever is done here is done to any `#[derive(Module)]` model from outside: no struct of the user changes, a weight is
//! addressed by its path or by a glob over paths, and what is put on it is state that is saved, moved and copied with the model.
//!
//! Architecture invariant: this crate names no backend, no optimizer and no training loop.
#![forbid(unsafe_code)]

mod select;

pub mod distill;
pub mod lora;
pub mod prune;
