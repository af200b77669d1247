//! Tangents: how the outputs of an op move when its inputs do. A primitive's file has its rule; the gradient rule of a composite
//! is linear in the cotangent, and its transpose is the tangent. Must not know how frames are kept.
//!
//! Griewank and Walther, "Evaluating Derivatives", 2008, chapter 3; JAX, "Autodidax", 2021.
use super::reverse::transposed;
use crate::{
    Arg, Error, ErrorKind, Op, Result, Tensor,
    composite::{InTensors, Keyed, RuleArgs},
    primitive::{self, Dual, Forward},
};
use smallvec::{SmallVec, smallvec};

type Tangents = SmallVec<[Option<Tensor>; 3]>;

/// The tangents of an op's outputs. At least one input moves.
///
/// # Errors
/// Whatever the rule's ops return.
pub(super) fn tangents(op: &Op, arg: Arg, x: &[Dual], y: &[Tensor]) -> Result<Tangents> {
    if let Op::Composite(c) = op {
        return composite(c, x, y);
    }
    let mut out: Tangents = smallvec![None; y.len()];
    out[0] = if y[0].meta().dtype.is_float() { primitive::tangent(&Forward { op, arg, inputs: x, outputs: y })? } else { None };
    Ok(out)
}
/// The tangents of a composite that brings a gradient rule, which is linear in the cotangents: its transpose.
fn composite(c: &Keyed, x: &[Dual], y: &[Tensor]) -> Result<Tangents> {
    let Some(saves) = c.saves() else {
        return Err(Error::new(c.name(), ErrorKind::Unsupported { backend: "any".into(), what: format!("the derivative of {}", c.name()) }));
    };
    let inputs: Vec<Option<Tensor>> = x.iter().enumerate().map(|(k, d)| saves.has_input(k).then(|| d.primal.clone())).collect();
    let outputs: Vec<Option<Tensor>> = y.iter().enumerate().map(|(k, y)| saves.has_output(k).then(|| y.clone())).collect();
    let metas: Vec<crate::Meta> = x.iter().map(|d| d.primal.meta()).collect();
    let needs: Vec<bool> = x.iter().map(|d| d.tangent.is_some()).collect();
    let rule =
        |cotangents: &[Option<Tensor>]| c.rule(&RuleArgs { inputs: &inputs, outputs: &outputs, metas: &metas, cotangents, needs: &needs, takes_wide: &[] });
    let moved: Vec<Option<Tensor>> = x.iter().map(|d| d.tangent.clone()).collect();
    transposed(rule, y, &moved)
}
