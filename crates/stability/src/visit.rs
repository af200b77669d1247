//! A step that is looked into while it runs: each op that it applies, and each rule of the walk back, is shown to a visitor, which may look at
//! the values, wait as long as it likes, and put others in their place ([`visit_ops`]).
//!
//! Data flow: an interceptor has the results of an op computed below it and shows them ([`OpVisitor::visit`]). On the op's inputs it puts a tap, so
//! that what the op's rule makes of gradients is shown too, when the walk comes by. What the visitor wants changed is recorded as an op that
//! no interceptor sees: the element is a constant from there on, and no gradient flows through it.
//!
//! Invariant: a visitor that only looks changes no bit. What it computes itself is not shown to it.
use crate::{StepPhase, TracedOp};
use adamant_core::{
    Arg, Op, Origin, Outputs, Tensor,
    grad::{grad_enabled, tap},
    intercept::{self, Interceptor},
};
use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Which values of an op are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VisitedValues {
    /// what it gave
    Results,
    /// what its rule made of gradients: one of each input that has one
    Gradients,
}
/// An op of the step that is running.
#[derive(Debug)]
pub struct VisitedOp {
    /// the op, its layer, its line and the part of the step
    pub op: TracedOp,
    /// its number in the step, from 0, in the order in which ops are applied
    pub number: usize,
    /// which values are shown
    pub shows: VisitedValues,
    /// what the op was given
    pub inputs: Vec<Tensor>,
    /// the values: results in their order, or the gradient of each input, none where there is none
    pub values: Vec<Option<Tensor>>,
}
/// Elements of a value that become another number.
#[derive(Clone, Debug)]
pub struct ValueChange {
    /// which of [`VisitedOp::values`]
    pub value: usize,
    /// which elements: booleans of the value's shape
    pub mask: Tensor,
    /// what they become
    pub to: f64,
}
impl ValueChange {
    /// A value after the change.
    ///
    /// ```
    /// # use adamant_core::{DType, Tensor};
    /// # use adamant_stability::ValueChange;
    /// # adamant_core::Device::reference().make_current();
    /// let change = ValueChange { value: 0, mask: Tensor::from_vec(vec![false, true], [2]), to: 7.0 };
    /// assert_eq!(change.of(&Tensor::ones([2])).to_vec::<f32>()?, [1.0, 7.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    pub fn of(&self, value: &Tensor) -> Tensor {
        value.masked_fill(&self.mask, self.to)
    }
}
/// Who is shown the ops of a step.
pub trait OpVisitor: Send + Sync + 'static {
    /// Behind an op, or behind its rule in the walk back. Changes are made in their order.
    fn visit(&self, seen: &VisitedOp) -> Vec<ValueChange>;
}
/// Runs `f`, and shows each op that it applies to a visitor. `f` must not be captured: it would be shown where it is recorded, and not where it
/// runs.
///
/// ```
/// # use adamant_core::{DType, Tensor};
/// # use adamant_stability::{OpVisitor, ValueChange, VisitedOp, VisitedValues, visit_ops};
/// # use std::sync::{Arc, Mutex};
/// # adamant_core::Device::reference().make_current();
/// #[derive(Default)]
/// struct Names(Mutex<Vec<String>>);
/// impl OpVisitor for Names {
///     fn visit(&self, seen: &VisitedOp) -> Vec<ValueChange> {
///         let back = if seen.shows == VisitedValues::Gradients { "back of " } else { "" };
///         self.0.lock().unwrap().push(format!("{back}{}", seen.op.name()));
///         Vec::new()
///     }
/// }
/// let names = Arc::new(Names::default());
/// let x = Tensor::ones([2]).tracked();
/// visit_ops(names.clone(), || x.exp().sum(..).backward())?;
/// assert_eq!(*names.0.lock().unwrap(), ["exp", "sum", "back of sum", "back of exp"]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn visit_ops<R>(visitor: Arc<dyn OpVisitor>, f: impl FnOnce() -> R) -> R {
    intercept::with(Arc::new(ShownOps { visitor, ops: AtomicUsize::new(0) }), f)
}

struct ShownOps {
    visitor: Arc<dyn OpVisitor>,
    ops: AtomicUsize,
}
thread_local! {
    /// Is a visitor at work? What it computes is its own affair.
    static VISITING: Cell<bool> = const { Cell::new(false) };
}
/// Shows an op; a visitor that panics leaves the next one in peace.
fn visit(visitor: &dyn OpVisitor, seen: &VisitedOp) -> Vec<ValueChange> {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            VISITING.set(false);
        }
    }
    VISITING.set(true);
    let _restore = Restore;
    visitor.visit(seen)
}
/// Makes the changes that are of one value.
fn changed(changes: &[ValueChange], k: usize, value: &Tensor) -> Tensor {
    VISITING.set(true);
    let value = changes.iter().filter(|change| change.value == k).fold(value.clone(), |value, change| change.of(&value));
    VISITING.set(false);
    value
}
impl Interceptor for ShownOps {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs {
        if VISITING.get() {
            return next(op, arg, inputs);
        }
        let number = self.ops.fetch_add(1, Ordering::Relaxed);
        let traced = TracedOp::here(op.name(), Origin::here());
        let given: Vec<Tensor> = inputs.iter().map(|t| t.detach()).collect();
        let (visitor, behind, of) = (self.visitor.clone(), given.clone(), TracedOp { phase: StepPhase::Backward, ..traced.clone() });
        let shown = move |gradients: &[Option<Tensor>]| {
            let values = gradients.iter().map(|g| g.as_ref().map(Tensor::detach)).collect();
            let seen = VisitedOp { op: of.clone(), number, shows: VisitedValues::Gradients, inputs: behind.clone(), values };
            let changes = visit(&*visitor, &seen);
            if changes.is_empty() {
                return Ok(None);
            }
            Ok(Some(gradients.iter().enumerate().map(|(k, g)| g.as_ref().map(|g| changed(&changes, k, g))).collect()))
        };
        // An op whose inputs cannot be tapped is applied to them as they are: it fails by itself.
        let tapped = if grad_enabled() { tap(inputs, shown).ok() } else { None };
        let outputs = match &tapped {
            Some(tapped) => next(op, arg, &tapped.iter().collect::<Vec<_>>()),
            None => next(op, arg, inputs),
        };
        if outputs.iter().any(|x| x.error().is_some()) {
            return outputs;
        }
        let values = outputs.iter().map(|x| Some(x.detach())).collect();
        let changes = visit(&*self.visitor, &VisitedOp { op: traced, number, shows: VisitedValues::Results, inputs: given, values });
        if changes.is_empty() {
            return outputs;
        }
        outputs.iter().enumerate().map(|(k, x)| changed(&changes, k, x)).collect()
    }
}
