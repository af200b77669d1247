//! Models that ranks share: what each of them holds, computes and exchanges.
//!
//! A [`Mesh`] numbers the ranks along the axes data, pipeline, tensor and expert. Everything is made of the collectives of core, whose
//! gradients tell partial from replicated values: [`tensor`] cuts layers of an ordinary model into pieces.
//!
//! Architecture invariant: this crate names no backend and no engine, and writes no gradient; it composes functions of core and layers of
//! nn. It does not know how ranks are started.
#![forbid(unsafe_code)]

pub mod collective;
mod mesh;
pub mod tensor;

pub use mesh::{Mesh, MeshAxis, MeshPlace, MeshShape};
