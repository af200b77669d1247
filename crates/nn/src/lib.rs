//! Layers, parameters and initialisers, with PyTorch's constructors, defaults and state-dict names.
//!
//! A model is a struct of its parts with `#[derive(Module)]`; what runs is `forward`. Every layer enters its path
//! before it computes and checks its result before it returns it, so an error names `features.0.conv` and the
//! caller's line. Paths are given when a model is first walked (`parameters()`, `state_dict()`, `train()`, ...).
//!
//! Architecture invariant: this crate names no backend and writes no gradient; it composes functions of core.
#![forbid(unsafe_code)]

extern crate self as adamant_nn;

pub mod init;
mod linear;
mod param;
mod sequential;
mod state;
mod walk;

pub use adamant_derive::Module;
pub use init::manual_seed;
pub use linear::Linear;
pub use param::{Param, Role};
pub use sequential::Sequential;
pub use state::nearest;
pub use walk::{Module, Site, Visit, Walk, Walker};
