//! Batching rules: what an op does to a stack of examples, whose axis is the first one. A primitive's file has its rule; a
//! composite may say how it is applied. None loops over the examples. A value that all examples share stays as it is where the
//! op lets it, so that a shared weight is neither repeated nor read once per example. Must not know how frames are kept.
//!
//! `jax.vmap` (Bradbury et al., 2018); PyTorch's functorch, `BatchRulesX.cpp`.
use crate::{
    Arg, DType, Error, ErrorKind, Meta, Op, Result,
    composite::{InTensors, Keyed, StackedInput},
    primitive::{self, Batching, ExampleAxis, MaybeBatched, Stacks},
};
use adamant_runtime::Metas;
use smallvec::SmallVec;

/// The outputs of an op on lanes of which one is batched, or which draws. `metas` and `made` are those of one example.
/// `None`: a composite that is to be run by its body.
///
/// # Errors
/// Whatever the rule's ops return; more axes than a tensor can have.
pub(super) fn outputs(batch: &ExampleAxis, op: &Op, arg: Arg, x: &[MaybeBatched], metas: &[Meta], made: &Metas) -> Result<Option<SmallVec<[MaybeBatched; 3]>>> {
    let stacked = match op {
        Op::Composite(c) => match composite(batch, c, x, made)? {
            Some(outputs) => outputs,
            None => return Ok(None),
        },
        _ => primitive::batched(&Batching { axis: batch, op, arg, lanes: x, metas, made })?,
    };
    Ok(Some(stacked.into_iter().map(|tensor| MaybeBatched { tensor, batched: true }).collect()))
}
/// A composite that says how it is applied to stacks; what it gives are stacks of the outputs' elements.
fn composite(batch: &ExampleAxis, c: &Keyed, x: &[MaybeBatched], made: &Metas) -> Result<Option<Stacks>> {
    let lanes: SmallVec<[StackedInput; 6]> = x.iter().map(|lane| StackedInput { tensor: lane.tensor.clone(), batched: lane.batched }).collect();
    // A draw that is each example's own is one of the stack's shape, which the first examples of all begin.
    let draws = lanes.iter().any(|l| l.tensor.meta().dtype == DType::U32 && l.tensor.meta().shape.last() == Some(&4));
    if draws && (!batch.draws_differ || batch.first > 0) {
        return Ok(None);
    }
    let Some(outputs) = c.stacked(&lanes, batch.size) else {
        if c.is_host() {
            let what = format!("{} over a batch: it is defined on the host and does not say how it is applied to stacks", c.name());
            return Err(Error::new("vmap", ErrorKind::Unsupported { backend: "any".into(), what }));
        }
        return Ok(None);
    };
    let outputs = outputs?;
    outputs.into_iter().zip(made).map(|(t, meta)| Ok(t.ok()?.reshape(batch.stack(meta.shape)?))).collect::<Result<_>>().map(Some)
}
