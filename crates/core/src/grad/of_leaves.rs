//! Gradients by some tensors only: what leads elsewhere is not walked.
use super::{Region, TapeKind, pull_to};
use crate::{Error, ErrorKind, Origin, Result, Tensor};

/// How [`gradients`] walks.
#[derive(Clone, Copy, Default)]
pub struct GradOptions<'a> {
    /// A cotangent for each output, of its shape and dtype; none: ones, for outputs of a single number.
    pub cotangents: &'a [Tensor],
    /// Leave the gradients on the tape, to be differentiated themselves.
    pub create_graph: bool,
    /// Keep what was saved for another walk; also so with `create_graph`.
    pub keep: bool,
    /// A tensor that the outputs do not depend on has no gradient, where otherwise that is an error.
    pub allow_unused: bool,
}

/// Gradients of the sum of `outputs` times their cotangents by `leaves` and no others: by tensors that are tracked, weights that were read, or
/// what was computed of these on the way. Only what leads to them is computed, and other leaves get nothing.
///
/// ```
/// # use adamant_core::{Device, tensor, grad::{GradOptions, gradients}};
/// # Device::reference().make_current();
/// let (x, w) = (tensor![1.0, 2.0].tracked(), tensor![3.0, 4.0].tracked());
/// let h = &x * &w;
/// let y = h.square().sum(..);
/// let graph = GradOptions { create_graph: true, ..Default::default() };
/// let [gx, gh] = &gradients(&[&y], &[&x, &h], &graph)?[..] else { unreachable!() };
/// assert_eq!(gx.as_ref().unwrap().to_vec::<f32>()?, [18.0, 64.0]);
/// assert_eq!(gh.as_ref().unwrap().to_vec::<f32>()?, [6.0, 16.0]);
/// // The penalty of a gradient, by the weights alone.
/// let penalty = gx.as_ref().unwrap().square().sum(..);
/// let by_weights = gradients(&[&penalty], &[&w], &GradOptions::default())?;
/// assert_eq!(by_weights[0].as_ref().unwrap().to_vec::<f32>()?, [432.0, 4096.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// What the tensors carry; an output of more than one element without a cotangent, or one that is no float or not tracked; cotangents
/// of another number, shape or dtype; a leaf that is not tracked, or one of several results of one op; unless `allow_unused`, a leaf on which no
/// output depends; saved values that are gone already.
///
/// Source: `torch.autograd.grad`.
#[doc(alias = "grad")]
#[track_caller]
pub fn gradients(outputs: &[&Tensor], leaves: &[&Tensor], options: &GradOptions<'_>) -> Result<Vec<Option<Tensor>>> {
    let here = Origin::here();
    let error = |kind| Error::at("gradients", kind, here);
    let roots = roots(outputs, options.cotangents).map_err(|e| e.unwrap_or_else(&error))?;
    let mut ends = Vec::new();
    let mut inner = false;
    for (k, leaf) in leaves.iter().enumerate() {
        leaf.try_meta()?;
        let Some((node, _)) = leaf.tape() else {
            return Err(error(ErrorKind::Backward(format!("leaf {k} is not tracked: make it by `tracked`, before what is computed of it"))));
        };
        if node.outputs.len() > 1 {
            let why = format!("leaf {k} is one of {} results of one op; differentiate by one that is alone", node.outputs.len());
            return Err(error(ErrorKind::Backward(why)));
        }
        inner |= !matches!(node.kind, TapeKind::Leaf);
        ends.push(node.id);
    }
    let keep = options.keep || options.create_graph;
    let walk = |ends: &[u64], keep: bool| {
        let region = Region::between(outputs.iter().copied(), ends);
        pull_to(&roots, &region, options.create_graph, keep, here)
    };
    let found = if inner {
        // A walk ends at each of its ends, so tensors that depend on each other have one of their own.
        let last = ends.len().saturating_sub(1);
        let each = ends.iter().enumerate().map(|(k, &end)| Ok(walk(&[end], keep || k < last)?.into_iter().next().flatten()));
        each.collect::<Result<Vec<_>>>()?
    } else {
        // The same leaf may be asked for twice.
        let mut once = ends.clone();
        once.sort_unstable();
        once.dedup();
        let by_end = walk(&once, keep)?;
        ends.iter().map(|end| once.binary_search(end).ok().and_then(|at| by_end[at].clone())).collect()
    };
    if let Some(k) = found.iter().position(Option::is_none).filter(|_| !options.allow_unused) {
        let why = format!("no output depends on leaf {k}; with `allow_unused` it has no gradient instead");
        return Err(error(ErrorKind::Backward(why)));
    }
    Ok(found)
}
/// Outputs with their cotangents. An error is whole, or a kind that the caller's name is missing from.
#[allow(clippy::type_complexity, reason = "said where it is returned")]
fn roots<'a>(outputs: &[&'a Tensor], cotangents: &[Tensor]) -> std::result::Result<Vec<(&'a Tensor, Tensor)>, std::result::Result<Error, ErrorKind>> {
    if !cotangents.is_empty() && cotangents.len() != outputs.len() {
        return Err(Err(ErrorKind::Argument(format!("{} cotangents for {} outputs", cotangents.len(), outputs.len()))));
    }
    let one = |(k, y): (usize, &&'a Tensor)| {
        let meta = y.try_meta().map_err(Ok)?;
        if !y.is_tracked() {
            return Err(Err(ErrorKind::Backward(format!("output {k} depends on no tracked tensor or trainable parameter"))));
        }
        let Some(g) = cotangents.get(k) else {
            if meta.shape.elements() != 1 {
                let why = format!("only a single number has a gradient, not output {k} of shape {}; give cotangents", meta.shape);
                return Err(Err(ErrorKind::Backward(why)));
            }
            return Ok((*y, y.detach().ones_like()));
        };
        let given = g.try_meta().map_err(Ok)?;
        if given.shape != meta.shape {
            let expected = "a cotangent has the shape of its tensor";
            return Err(Err(ErrorKind::ShapeMismatch { left: meta.shape, right: given.shape, axes: None, expected }));
        }
        if given.dtype != meta.dtype {
            return Err(Err(ErrorKind::DtypeMismatch { left: meta.dtype, right: given.dtype }));
        }
        Ok((*y, g.clone()))
    };
    outputs.iter().enumerate().map(one).collect()
}
