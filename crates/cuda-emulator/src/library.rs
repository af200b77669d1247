//! Libraries beside the driver: cuBLASLt, which multiplies matrices, and NVML, which tells of a card's load.
//!
//! Must not know: kernels, PTX.
#![allow(unsafe_code, reason = "functions that C calls, and what C hands over")]

use crate::driver::clock::Engine;
use crate::driver::code::Answer;
use crate::driver::order::Present;
use crate::driver::state::State;

/// A product that is yet to run.
pub(crate) struct Product;

/// What the libraries keep.
#[derive(Default)]
pub(crate) struct Library;

impl Library {
    /// A context goes.
    pub fn forget(&mut self, _context: u64) {}
}
impl State {
    /// Runs a product.
    pub fn perform_product(&mut self, _product: &Product, _present: &Present, ready: f64, _by_graph: bool) -> Answer<(Engine, f64, f64)> {
        Ok((Engine::Compute, ready, ready))
    }
}
/// The functions of cuBLASLt.
pub(crate) fn cublaslt_exports() -> Vec<crate::driver::entry::Export> {
    Vec::new()
}
/// The functions of NVML.
pub(crate) fn nvml_exports() -> Vec<crate::driver::entry::Export> {
    Vec::new()
}
