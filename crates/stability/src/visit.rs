//! A step that is looked into while it runs: each op that it applies, and each rule of the walk back, is shown to a visitor, which may look at
//! the values, wait as long as it likes, and put others in their place ([`visit_ops`]).
//!
//! Data flow: an interceptor has the results of an op computed below it and shows them ([`OpVisitor::visit`]). On the results it puts a tap, so
//! that their gradients are shown too, when the walk comes by, and one on inputs that no op of the step has made: parameters. What the visitor wants
//! changed is recorded as an op that no interceptor sees: the element is a constant from there on, and no gradient flows through it.
//!
//! Invariant: a visitor that only looks changes no bit. So nothing stands between a cast to 16 bits and the op that it is for: the op's rule gives
//! the gradient of what was cast in the wide dtype, which a tap would round. What a visitor computes itself is not shown to it.
use crate::{
    StepPhase, TracedOp,
    trace::{fills, moves},
};
use adamant_core::{
    Arg, DType, Op, Origin, Outputs, Tensor,
    grad::{grad_enabled, tap},
    intercept::{self, Interceptor},
};
use parking_lot::Mutex;
use std::{
    cell::Cell,
    collections::HashMap,
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
    /// the gradients of what it gave, in the walk back: what its rule begins with
    Gradients,
    /// what its rule made for inputs that no op of the step has made, such as parameters
    InputGradients,
}
impl VisitedValues {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            VisitedValues::Results => "results",
            VisitedValues::Gradients => "gradients",
            VisitedValues::InputGradients => "input_gradients",
        }
    }
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
    /// Does it only move values, whose bits stay: a view, a concatenation, a copy?
    pub moves: bool,
    /// Does it put an infinity where its caller wanted one?
    pub fills_infinity: bool,
    /// what the op was given
    pub inputs: Vec<Tensor>,
    /// which inputs are tracked, and made by no op of the step: parameters
    pub leaves: Vec<bool>,
    /// the values: of each result or input, in their order; none where there is none
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
    /// Behind an op, or in the walk back before its rule, or behind it. Changes are made in their order.
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
///         self.0.lock().unwrap().push(format!("{} of {}", seen.shows.name(), seen.op.name()));
///         Vec::new()
///     }
/// }
/// let names = Arc::new(Names::default());
/// let x = Tensor::ones([2]).tracked();
/// visit_ops(names.clone(), || x.exp().sum(..).backward())?;
/// // `backward` begins with ops of its own.
/// names.0.lock().unwrap().retain(|name| name.ends_with("exp") || name.ends_with("sum"));
/// assert_eq!(
///     *names.0.lock().unwrap(),
///     ["results of exp", "results of sum", "gradients of sum", "gradients of exp", "input_gradients of exp"]
/// );
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn visit_ops<R>(visitor: Arc<dyn OpVisitor>, f: impl FnOnce() -> R) -> R {
    intercept::with(Arc::new(ShownOps { visitor, ops: AtomicUsize::new(0), made: Mutex::default() }), f)
}

struct ShownOps {
    visitor: Arc<dyn OpVisitor>,
    ops: AtomicUsize,
    /// what ops of the step have made: kept, so that no other value comes to its address
    made: Mutex<HashMap<u64, Tensor>>,
}
thread_local! {
    /// Is a visitor at work? What it computes is its own affair.
    static VISITING: Cell<bool> = const { Cell::new(false) };
}
/// Runs `f`, whose ops nobody is shown; a visitor that panics leaves the next one in peace.
pub(crate) fn unseen<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            VISITING.set(self.0);
        }
    }
    let _restore = Restore(VISITING.replace(true));
    f()
}
/// Makes the changes that are of one value.
fn changed(changes: &[ValueChange], k: usize, value: &Tensor) -> Tensor {
    unseen(|| changes.iter().filter(|change| change.value == k).fold(value.clone(), |value, change| change.of(&value)))
}
/// An op, for the walk back.
#[derive(Clone)]
struct VisitedStep {
    visitor: Arc<dyn OpVisitor>,
    op: TracedOp,
    number: usize,
    moves: bool,
    fills_infinity: bool,
    inputs: Vec<Tensor>,
    leaves: Vec<bool>,
}
impl VisitedStep {
    fn seen(&self, shows: VisitedValues, values: Vec<Option<Tensor>>) -> VisitedOp {
        let VisitedStep { op, number, moves, fills_infinity, inputs, leaves, .. } = self;
        let phase = if shows == VisitedValues::Results { op.phase } else { StepPhase::Backward };
        VisitedOp {
            op: TracedOp { phase, ..op.clone() },
            number: *number,
            shows,
            moves: *moves,
            fills_infinity: *fills_infinity,
            inputs: inputs.clone(),
            leaves: leaves.clone(),
            values,
        }
    }
    /// Tensors whose gradients are shown. Those that cannot be tapped stay as they are.
    fn all_tapped(&self, tensors: Vec<Tensor>, shows: VisitedValues) -> Vec<Tensor> {
        let this = self.clone();
        let shown = move |gradients: &[Option<Tensor>]| {
            let seen = this.seen(shows, gradients.iter().map(|g| g.as_ref().map(Tensor::detach)).collect());
            let changes = unseen(|| this.visitor.visit(&seen));
            if changes.is_empty() {
                return Ok(None);
            }
            Ok(Some(gradients.iter().enumerate().map(|(k, g)| g.as_ref().map(|g| changed(&changes, k, g))).collect()))
        };
        match grad_enabled() {
            true => tap(&tensors.iter().collect::<Vec<_>>(), shown).unwrap_or(tensors),
            false => tensors,
        }
    }
}
impl ShownOps {
    /// Has no op of the step made it?
    fn is_leaf(&self, x: &Tensor) -> bool {
        x.is_tracked() && !self.made.lock().contains_key(&x.value_address())
    }
}
impl Interceptor for ShownOps {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs {
        if VISITING.get() {
            return next(op, arg, inputs);
        }
        let number = self.ops.fetch_add(1, Ordering::Relaxed);
        let is_cast = matches!(op, Op::Cast(_));
        let visited = VisitedStep {
            visitor: self.visitor.clone(),
            op: TracedOp::here(op.name(), Origin::here()),
            number,
            moves: moves(&op),
            fills_infinity: fills(&op, &arg),
            inputs: inputs.iter().map(|t| t.detach()).collect(),
            leaves: inputs.iter().map(|x| self.is_leaf(x)).collect(),
        };
        // A cast to 16 bits may stand before one of them.
        let is_tapped = |(x, is_leaf): (&&Tensor, &bool)| *is_leaf && matches!(x.dtype(), Ok(DType::F32 | DType::F64));
        let foreign: Vec<bool> = inputs.iter().zip(&visited.leaves).map(is_tapped).collect();
        let mut tapped: Vec<Tensor> = inputs.iter().map(|t| (*t).clone()).collect();
        if foreign.iter().any(|is_foreign| *is_foreign) {
            let all = visited.all_tapped(tapped.clone(), VisitedValues::InputGradients);
            // Of the others the gradients are those of the ops that made them.
            tapped.iter_mut().zip(all).zip(&foreign).filter(|(_, is_foreign)| **is_foreign).for_each(|((was, tapped), _)| *was = tapped);
        }
        let outputs = next(op, arg, &tapped.iter().collect::<Vec<_>>());
        if outputs.iter().any(|x| x.error().is_some()) {
            return outputs;
        }
        let seen = visited.seen(VisitedValues::Results, outputs.iter().map(|x| Some(x.detach())).collect());
        let changes = unseen(|| self.visitor.visit(&seen));
        let outputs: Vec<Tensor> = outputs.iter().enumerate().map(|(k, x)| if changes.is_empty() { x.clone() } else { changed(&changes, k, x) }).collect();
        let outputs = if is_cast { outputs } else { visited.all_tapped(outputs, VisitedValues::Gradients) };
        self.made.lock().extend(outputs.iter().map(|x| (x.value_address(), x.detach())));
        outputs.into_iter().collect()
    }
}
