//! From an op's name to the call of the library, by family. A family answers `None` to names that are not its own.
//!
//! A family's `dispatch` is `apply(case).transpose()`; its `apply` is one match over names, so that `?` works in it.
use super::call::{OpCall, unsupported};
use adamant::{Error, Tensor};

mod activation;
mod attention;
mod binary;
mod cast;
pub mod conv;
mod create;
mod fft;
mod index;
mod linalg;
mod loss;
mod matmul;
mod norm;
pub mod pool;
mod quant;
mod reduce;
mod shape;
mod softmax;
mod sort;
mod unary;

type Family = fn(&OpCall) -> Option<Result<Vec<Tensor>, Error>>;
const FAMILIES: &[Family] = &[
    unary::dispatch,
    activation::dispatch,
    binary::dispatch,
    cast::dispatch,
    create::dispatch,
    shape::dispatch,
    index::dispatch,
    reduce::dispatch,
    sort::dispatch,
    matmul::dispatch,
    linalg::dispatch,
    fft::dispatch,
    conv::dispatch,
    pool::dispatch,
    norm::dispatch,
    softmax::dispatch,
    loss::dispatch,
    attention::dispatch,
    quant::dispatch,
];

/// The outputs of a call, or why there are none. An op that no family knows is unsupported.
pub fn dispatch(case: &OpCall) -> Result<Vec<Tensor>, Error> {
    FAMILIES.iter().find_map(|family| family(case)).unwrap_or_else(|| Err(unsupported(format!("no family knows the op {}", case.op()))))
}
