//! One suite for all backends, a third party's too: `adamant_conformance::suite!(|| device)` writes its tests.
//!
//! What is tested comes from the scalar tables and the registry of public functions; what it is compared with is the
//! plain f64 interpreter in core, which shares no code with rules, kernels or fusion.
//!
//! Architecture invariant: this crate knows core only. It names no backend but the plain loops it brings along.
#![forbid(unsafe_code)]

pub mod data;
pub mod fuzz;
pub mod gradcheck;
pub mod graphs;
pub mod kinks;
pub mod late;
pub mod layouts;
pub mod lines;
pub mod plain;
pub mod products;
pub mod programs;
pub mod random;
pub mod ranks;
pub mod registry;
pub mod segments;
pub mod share;
pub mod suite;
pub mod tolerance;
pub mod torture;
pub mod transforms;
pub mod wrong;
