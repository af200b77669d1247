//! Adamant: deep learning in Rust. This crate is the one to depend on: it re-exports the parts and picks the
//! backends by Cargo features.
//!
//! Architecture invariant: no code of its own; the only crate that names backends.
#![forbid(unsafe_code)]

pub use adamant_core::*;
pub use adamant_formats as formats;
