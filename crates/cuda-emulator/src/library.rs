//! Libraries beside the driver: cuBLASLt, which multiplies matrices, and NVML, which tells of a card's load.
//!
//! Must not know: kernels, PTX.
#![allow(unsafe_code, reason = "functions that C calls, and what C hands over")]

pub(crate) mod nvml;

/// cuBLASLt: descriptors, what it offers, and products in plain loops.
pub(crate) mod cublaslt {
    pub(crate) mod check;
    pub(crate) mod descriptors;
    pub(crate) mod matmul;
    pub(crate) mod multiply;
    pub(crate) mod number;
    pub(crate) mod offer;
}

use crate::driver::entry::Export;
pub(crate) use cublaslt::check::EmulatedProduct;
use cublaslt::descriptors::Descriptor;
use std::collections::{HashMap, HashSet};

/// What the libraries keep.
#[derive(Default)]
pub(crate) struct LibraryState {
    /// Handles of cuBLASLt.
    pub handles: HashSet<u64>,
    /// Its descriptors, of every kind.
    pub descriptors: HashMap<u64, Descriptor>,
    /// How often NVML was initialised.
    pub nvml: u32,
}

/// The functions of cuBLASLt.
pub(crate) fn cublaslt_exports() -> Vec<Export> {
    [cublaslt::descriptors::exports(), cublaslt::offer::exports(), cublaslt::matmul::exports(), cublaslt::matmul::plain_exports()].concat()
}
/// The functions of NVML.
pub(crate) fn nvml_exports() -> Vec<Export> {
    [nvml::exports(), nvml::plain_exports()].concat()
}
