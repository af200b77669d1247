//! Memory for time: a stretch of the computation of which only the inputs are kept, and which is computed again during
//! the walk back.
use super::{Grads, NEXT, Parent, Region, Saved, Tape, TapeKind, TapeWalk, alias, grad_enabled, no_grad, pull, with_tape};
use crate::{
    Ambient, Origin, Result, Tensor,
    cell::{Overlay, OverlayGuard, OverlayKind},
    composite::{Cotangents, RuleArgs},
    intercept,
    recycle::Shared,
    scope,
    value::Kept,
};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

type Function = Arc<dyn Fn(&[Tensor]) -> Result<Tensor> + Send + Sync>;
/// What a checkpoint needs to run again.
pub(crate) struct Redo {
    f: Function,
    ambient: Ambient,
    cells: HashMap<u64, Kept>,
    trainable: bool,
}
impl Redo {
    /// Does a gradient flow to a cell that it reads?
    pub(super) fn reads_parameters(&self) -> bool {
        self.trainable
    }
}

/// Runs `f` on `inputs` and keeps only them: what lies between is computed again during the walk back, with the
/// cells as they were (also the random counters), so the bits are those of the plain run.
///
/// # Errors
/// Whatever `f` returns. During `backward`: `f` captures a tracked tensor that is neither an input nor a parameter.
#[track_caller]
pub fn checkpoint(inputs: &[&Tensor], f: impl Fn(&[Tensor]) -> Result<Tensor> + Send + Sync + 'static) -> Result<Tensor> {
    let origin = Origin::here();
    // A transform interprets what runs inside it op by op: there the stretch is one like any other.
    if crate::transform::any() {
        let inputs: Vec<Tensor> = inputs.iter().map(|t| (*t).clone()).collect();
        return f(&inputs);
    }
    let plain: Vec<Tensor> = inputs.iter().map(|t| t.detach()).collect();
    let tracking = grad_enabled();
    if !tracking {
        return f(&plain);
    }
    let overlay = OverlayGuard::push(Overlay::new(OverlayKind::Snapshot));
    let y = no_grad(|| f(&plain));
    let Some(overlay) = overlay.pop() else { return y };
    let y = y?.ok()?;
    let trainable = overlay.touched.iter().any(|c| c.is_trainable());
    if !trainable && !inputs.iter().any(|t| t.is_tracked()) {
        return Ok(y);
    }
    let cells = overlay.values.iter().map(|(id, t)| (*id, Kept::new(t.value()))).collect();
    let tape = Shared::new(Tape {
        id: NEXT.fetch_add(1, Relaxed),
        kind: TapeKind::Checkpoint(Redo { f: Arc::new(f), ambient: Ambient::current(), cells, trainable }),
        parents: inputs.iter().map(|t| Parent::of(t)).collect(),
        metas: inputs.iter().map(|t| t.meta()).collect(),
        outputs: SmallVec::from_elem(y.meta(), 1),
        saved: Mutex::new(Some(Saved { inputs: inputs.iter().map(|t| Some(Kept::new(t.value()))).collect(), ..Default::default() })),
        origin,
        hooked: AtomicBool::new(false),
    });
    Ok(y.with_tape(Some((tape, 0))))
}

/// Will gradients flow through what is computed now: is the tape on, or is this what a [`checkpoint()`] computes again later? What is
/// remembered of a training step is remembered here, and not where a model only answers.
///
/// ```
/// # use adamant_core::{Tensor, grad::{checkpoint, is_for_backward}, no_grad};
/// # adamant_core::Device::reference().make_current();
/// let x = Tensor::ones([2]).tracked();
/// assert!(is_for_backward() && !no_grad(is_for_backward));
/// checkpoint(&[&x], |x| {
///     assert!(is_for_backward());
///     Ok(x[0].exp())
/// })?;
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn is_for_backward() -> bool {
    grad_enabled() || crate::cell::is_first_pass()
}
/// Computes a checkpoint again, with its gradient, and walks back from it: the cotangents of its inputs. Those of the
/// parameters go into `grads`.
pub(super) fn run_again(redo: &Redo, args: &RuleArgs<'_>, grads: &mut Grads, walk: TapeWalk, origin: Origin) -> Result<Cotangents> {
    let floor = NEXT.load(Relaxed);
    // With the tape on, what is computed again must lead back to the inputs.
    let begin = |x: &Tensor| if !x.meta().dtype.is_float() { x.clone() } else { alias(x, walk.graph) };
    let inputs: Vec<Tensor> = (0..args.metas.len()).map(|k| args.input(k).map(begin)).collect::<Result<_>>()?;
    let values = redo.cells.iter().map(|(id, v)| (*id, Tensor::from_value((**v).clone()))).collect();
    // With what stood around it then: an interceptor that casts casts again, whoever walks back.
    let _around = redo.ambient.enter();
    let overlay = OverlayGuard::push(Overlay { values, ..Overlay::new(OverlayKind::Recompute) });
    scope::inherit(None);
    let y = with_tape(true, || (redo.f)(&inputs));
    drop(overlay);
    let y = y?.ok()?;
    let mut inner = Grads::default();
    if let (Some((t, k)), Some(Some(g))) = (y.tape(), args.cotangents.first()) {
        let ends: Vec<u64> = inputs.iter().filter_map(|x| Some(x.tape()?.0.id)).collect();
        // The walk back meets none of them, as everywhere.
        let root = [(t.clone(), *k, g.clone())];
        intercept::below(|| pull(root, &mut inner, TapeWalk { floor, is_whole: false, ..walk }, &Region::until(&ends), origin))?;
    }
    let out = inputs.iter().map(|x| x.tape().and_then(|t| inner.by_leaf.remove(&t.0.id))).collect();
    // What is left reached parameters.
    let mut rest: Vec<_> = inner.by_leaf.drain().collect();
    rest.sort_by_key(|(id, _)| *id);
    for (id, g) in rest {
        grads.add(id, g);
    }
    Ok(out)
}
