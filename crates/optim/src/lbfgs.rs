//! L-BFGS: steps by the curvature that earlier steps showed. It evaluates the objective several times in a step, so it takes a
//! function instead of gradients, and decides by what it reads.
mod wolfe;

use crate::{Hyperparameters, Optimizer, Rates};
use adamant_core::{Device, Error, ErrorKind, Grads, Origin, Result, Tensor, grad::no_grad, is_capturing, step};
use adamant_nn::Param;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use wolfe::{Probe, Search};

/// How far a step of [`Lbfgs`] goes along its direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineSearch {
    /// by the learning rate
    #[default]
    Fixed,
    /// until the strong Wolfe conditions hold
    StrongWolfe,
}
/// Options of [`Lbfgs`], with PyTorch's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct LbfgsOptions {
    /// the learning rate: the length that a step, or its search, begins with
    pub lr: f64,
    /// iterations in a step
    pub max_iter: usize,
    /// evaluations of the objective in a step (`None`: 5/4 of `max_iter`)
    pub max_eval: Option<usize>,
    /// a step ends where no element of the gradient is larger
    pub tolerance_grad: f64,
    /// a step ends where the objective, and where all weights change by less
    pub tolerance_change: f64,
    /// how many steps the curvature is told by
    pub history_size: usize,
    /// how far a step goes
    pub line_search: LineSearch,
    /// climb instead of descend
    pub maximize: bool,
}
impl Default for LbfgsOptions {
    fn default() -> LbfgsOptions {
        LbfgsOptions {
            lr: 1.0,
            max_iter: 20,
            max_eval: None,
            tolerance_grad: 1e-7,
            tolerance_change: 1e-9,
            history_size: 100,
            line_search: LineSearch::Fixed,
            maximize: false,
        }
    }
}
/// What is known of the curvature, all parameters as one vector.
#[derive(Clone, Default)]
struct Curvature {
    func_evals: u64,
    n_iter: u64,
    direction: Option<Tensor>,
    t: f64,
    /// differences of gradients and of weights, the oldest first, and the reciprocals of their products
    old_dirs: Vec<Tensor>,
    old_stps: Vec<Tensor>,
    ro: Vec<Tensor>,
    h_diag: Option<Tensor>,
    prev_flat_grad: Option<Tensor>,
    prev_loss: f64,
}
/// L-BFGS (Nocedal and Wright 2006, algorithm 7.5), as `torch.optim.LBFGS`: for small models and full batches, where it takes far fewer
/// evaluations than a first-order method. The objective is a function that computes the loss anew ([`Lbfgs::step_with`]).
///
/// All parameters are of one dtype on one device, and there are no groups. A step keeps `2 * history_size + 4` vectors as long as all
/// parameters together. An error takes the whole step back. It reads what it decides by, so it cannot be part of a captured step.
///
/// ```
/// # use adamant_core::{Tensor, Result};
/// # use adamant_nn::Param;
/// # use adamant_optim::{Lbfgs, LbfgsOptions, LineSearch};
/// # adamant_core::Device::reference().make_current();
/// // Rosenbrock's valley, whose floor is at (1, 1).
/// let place = Param::new(&Tensor::from_vec(vec![-1.5f64, 2.0], [2]))?;
/// let valley = || {
///     let (x, y) = (place.get().narrow(0, 0, 1), place.get().narrow(0, 1, 1));
///     Ok(((x.neg() + 1.0).square() + (y - x.square()).square() * 100.0).sum(..))
/// };
/// let options = LbfgsOptions { line_search: LineSearch::StrongWolfe, max_iter: 100, ..LbfgsOptions::default() };
/// let mut optimizer = Lbfgs::new([place.clone()], options)?;
/// optimizer.step_with(valley)?;
/// assert!(place.detached().to_vec::<f64>()?.iter().all(|v| (v - 1.0).abs() < 1e-4));
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[doc(alias = "LBFGS")]
pub struct Lbfgs {
    parameters: Vec<Param>,
    options: LbfgsOptions,
    lr: Arc<LbfgsRate>,
    memory: Curvature,
}
/// The learning rate, where a schedule finds it.
struct LbfgsRate(Mutex<f64>);
impl LbfgsRate {
    fn get(&self) -> f64 {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
impl Rates for LbfgsRate {
    fn lrs(&self) -> Vec<f64> {
        vec![self.get()]
    }
    fn set_lrs(&self, lrs: &[f64]) {
        lrs.iter().take(1).for_each(|lr| *self.0.lock().unwrap_or_else(PoisonError::into_inner) = *lr);
    }
    fn set_momentum(&self, _: f64) {}
}
#[track_caller]
fn refused(text: String) -> Error {
    Error::new("lbfgs", ErrorKind::Argument(text))
}
/// A 0-d tensor as a number.
fn number(x: &Tensor) -> Result<f64> {
    x.to_vec_as::<f64>()?.first().copied().ok_or_else(|| Error::new("lbfgs", ErrorKind::Internal("a number without an element".into())))
}
fn largest(x: &Tensor) -> Result<f64> {
    number(&x.abs().amax(..))
}
fn is_right(options: &LbfgsOptions) -> std::result::Result<(), String> {
    for (name, v) in [("lr", options.lr), ("tolerance_grad", options.tolerance_grad), ("tolerance_change", options.tolerance_change)] {
        crate::rules::not_negative(name, v)?;
    }
    for (name, v) in [("max_iter", options.max_iter), ("max_eval", options.max_eval.unwrap_or(1)), ("history_size", options.history_size)] {
        if v == 0 {
            return Err(format!("{name} is 0, it must be at least 1"));
        }
    }
    Ok(())
}
impl Lbfgs {
    /// Over parameters, frozen ones left out.
    ///
    /// # Errors
    /// Options that make no sense; no parameters, or such of two dtypes or devices.
    #[track_caller]
    pub fn new(parameters: impl IntoIterator<Item = Param>, options: LbfgsOptions) -> Result<Lbfgs> {
        if let Err(text) = is_right(&options) {
            return Err(refused(text));
        }
        let parameters: Vec<Param> = parameters.into_iter().filter(Param::is_trainable).collect();
        let Some(first) = parameters.first().map(Param::meta) else {
            return Err(refused("it has no parameters".into()).hint("a model that is frozen, or has no layers yet, gives an empty list of parameters"));
        };
        if let Some(other) = parameters.iter().map(Param::meta).find(|m| (m.dtype, m.device) != (first.dtype, first.device)) {
            return Err(refused(format!(
                "its parameters are one vector, and cannot be {} on {} and {} on {}",
                first.dtype, first.device, other.dtype, other.device
            )));
        }
        let lr = Arc::new(LbfgsRate(Mutex::new(options.lr)));
        Ok(Lbfgs { parameters, options, lr, memory: Curvature::default() })
    }
    /// Evaluations of the objective so far.
    pub fn evaluations(&self) -> u64 {
        self.memory.func_evals
    }
    /// One step of up to `max_iter` iterations. `closure` computes the loss from the present weights, each time anew; it comes back as
    /// it was before the step.
    ///
    /// # Errors
    /// Those of the closure, a loss that depends on none of the parameters, a call in a function that is being captured. Then nothing
    /// has changed.
    #[track_caller]
    pub fn step_with(&mut self, mut closure: impl FnMut() -> Result<Tensor>) -> Result<Tensor> {
        if is_capturing() {
            return Err(refused("a step decides by what it reads, so it cannot be part of a captured function".into())
                .hint("compile the closure's forward instead, and step outside"));
        }
        let (memory, here) = (self.memory.clone(), Origin::here());
        let done = step(|| self.iterate(&mut closure, here));
        if done.is_err() {
            self.memory = memory;
        }
        done
    }
    fn iterate(&mut self, closure: &mut dyn FnMut() -> Result<Tensor>, here: Origin) -> Result<Tensor> {
        let LbfgsOptions { max_iter, tolerance_grad, tolerance_change, line_search, .. } = self.options.clone();
        let max_eval = self.options.max_eval.unwrap_or(max_iter * 5 / 4);
        let (before, mut loss, mut flat_grad) = self.evaluate(closure, here)?;
        let (mut evaluations, mut n_iter) = (1, 0);
        self.memory.func_evals += 1;
        if largest(&flat_grad)? <= tolerance_grad {
            return Ok(before);
        }
        while n_iter < max_iter {
            n_iter += 1;
            self.memory.n_iter += 1;
            let direction = no_grad(|| self.direction(&flat_grad))?;
            (self.memory.prev_flat_grad, self.memory.prev_loss) = (Some(flat_grad.clone()), loss);
            let lr = self.lr.get();
            let mut t = if self.memory.n_iter == 1 { (1.0 / number(&flat_grad.abs().sum(..))?).min(1.0) * lr } else { lr };
            let slope = number(&flat_grad.dot(&direction))?;
            self.memory.direction = Some(direction.clone());
            self.memory.t = t;
            if slope > -tolerance_change {
                break;
            }
            let mut more = 0;
            let mut is_least = false;
            if line_search == LineSearch::StrongWolfe {
                let search = Search { reach: largest(&direction)?, tolerance_change, most: max_eval.saturating_sub(evaluations) };
                let start = Probe { t: 0.0, value: loss, slope, gradient: flat_grad.clone() };
                let found = self.search(&search, &start, &direction, t, closure, here)?;
                (t, loss, flat_grad, more) = (found.0.t, found.0.value, found.0.gradient, found.1);
                self.move_by(t, &direction)?;
                is_least = largest(&flat_grad)? <= tolerance_grad;
            } else {
                self.move_by(t, &direction)?;
                // Not after the last one, where nobody looks at it.
                if n_iter != max_iter {
                    (_, loss, flat_grad) = self.evaluate(closure, here)?;
                    is_least = largest(&flat_grad)? <= tolerance_grad;
                    more = 1;
                }
            }
            self.memory.t = t;
            evaluations += more;
            self.memory.func_evals += more as u64;
            let ends = n_iter == max_iter || evaluations >= max_eval || is_least;
            if ends || largest(&direction)? * t.abs() <= tolerance_change || (loss - self.memory.prev_loss).abs() < tolerance_change {
                break;
            }
        }
        Ok(before)
    }
    /// Along the direction, until a point will do; the weights are afterwards where they were.
    fn search(
        &self,
        search: &Search,
        start: &Probe<Tensor>,
        direction: &Tensor,
        t: f64,
        closure: &mut dyn FnMut() -> Result<Tensor>,
        here: Origin,
    ) -> Result<(Probe<Tensor>, usize)> {
        let weights: Vec<Tensor> = self.parameters.iter().map(Param::detached).collect();
        search.run(start, t, &mut |t| {
            self.move_by(t, direction)?;
            let (_, value, gradient) = self.evaluate(closure, here)?;
            self.parameters.iter().zip(&weights).try_for_each(|(p, w)| p.set(w))?;
            Ok(Probe { t, value, slope: number(&gradient.dot(direction))?, gradient })
        })
    }
    /// The loss as it is, the number that is made small, and its gradient as one vector.
    fn evaluate(&self, closure: &mut dyn FnMut() -> Result<Tensor>, here: Origin) -> Result<(Tensor, f64, Tensor)> {
        let loss = closure()?;
        let grads = loss.backward()?;
        let mut reached = false;
        let parts: Vec<Tensor> = self
            .parameters
            .iter()
            .map(|p| match grads.of(&p.cell()) {
                Some(g) => {
                    reached = true;
                    g.reshape(-1)
                }
                None => p.detached().zeros_like().reshape(-1),
            })
            .collect();
        if !reached {
            let text = format!("the loss depends on none of its {} parameters", self.parameters.len());
            return Err(Error::at("lbfgs", ErrorKind::Argument(text), here).hint("is it over the parameters of the model that the loss is of?"));
        }
        let flat = Tensor::cat(&parts, 0);
        let flat = if self.options.maximize { flat.neg() } else { flat };
        flat.materialize()?;
        let value = number(&loss)?;
        Ok((loss.detach(), if self.options.maximize { -value } else { value }, flat))
    }
    fn move_by(&self, t: f64, direction: &Tensor) -> Result<()> {
        no_grad(|| {
            let mut at = 0;
            self.parameters.iter().try_for_each(|p| {
                let meta = p.meta();
                let part = direction.narrow(0, at, meta.shape.elements()).reshape(meta.shape);
                at += meta.shape.elements();
                let next = p.detached() + part * t;
                next.materialize()?;
                p.set(&next)
            })
        })
    }
    /// The gradient times the inverse curvature, downward; what was learned since the last time is taken in.
    fn direction(&mut self, flat_grad: &Tensor) -> Result<Tensor> {
        let m = &mut self.memory;
        let (Some(d), Some(before)) = (&m.direction, &m.prev_flat_grad) else {
            let direction = flat_grad.neg();
            direction.materialize()?;
            (m.old_dirs, m.old_stps, m.ro, m.h_diag) = (Vec::new(), Vec::new(), Vec::new(), None);
            return Ok(direction);
        };
        let (y, s) = (flat_grad - before, d * m.t);
        let ys = y.dot(&s);
        if number(&ys)? > 1e-10 {
            if m.old_dirs.len() >= self.options.history_size {
                m.old_dirs.remove(0);
                m.old_stps.remove(0);
                m.ro.remove(0);
            }
            let (ro, h_diag) = (ys.reciprocal(), &ys / y.dot(&y));
            for t in [&y, &s, &ro, &h_diag] {
                t.materialize()?;
            }
            m.old_dirs.push(y);
            m.old_stps.push(s);
            m.ro.push(ro);
            m.h_diag = Some(h_diag);
        }
        let mut q = flat_grad.neg();
        let mut along: Vec<Tensor> = Vec::with_capacity(m.ro.len());
        for ((y, s), ro) in m.old_dirs.iter().zip(&m.old_stps).zip(&m.ro).rev() {
            let a = s.dot(&q) * ro;
            q = q - y * &a;
            along.push(a);
        }
        let mut r = match &m.h_diag {
            Some(h) => q * h,
            None => q,
        };
        for (((y, s), ro), a) in m.old_dirs.iter().zip(&m.old_stps).zip(&m.ro).zip(along.iter().rev()) {
            let b = y.dot(&r) * ro;
            r = r + s * (a - b);
        }
        r.materialize()?;
        Ok(r)
    }
}
/// Names in a state.
const PREFIX: &str = "lbfgs.";
impl Optimizer for Lbfgs {
    fn name(&self) -> &'static str {
        "LBFGS"
    }
    /// Refused: gradients at one place are not enough.
    fn step(&mut self, _: &Grads) -> Result<()> {
        Err(refused("it evaluates the loss several times in a step".into()).hint("call `step_with` and give it a closure that computes the loss"))
    }
    fn lrs(&self) -> Vec<f64> {
        self.lr.lrs()
    }
    fn set_lrs(&mut self, lrs: &[f64]) {
        self.lr.set_lrs(lrs);
    }
    fn rates(&self) -> Arc<dyn Rates> {
        self.lr.clone()
    }
    fn set_momentum(&mut self, _: f64) {}
    fn hyperparameters(&self) -> Vec<Hyperparameters> {
        vec![BTreeMap::from([("lr".to_string(), self.lr.get())])]
    }
    fn parameters(&self) -> Vec<Param> {
        self.parameters.clone()
    }
    /// All parameters are one vector, in their order: `lbfgs.d`, `lbfgs.prev_flat_grad`, and `lbfgs.old_dirs.<k>`, `lbfgs.old_stps.<k>`,
    /// `lbfgs.ro.<k>` from the oldest on, with numbers (f64) `lbfgs.t`, `lbfgs.prev_loss`, `lbfgs.n_iter`, `lbfgs.func_evals`.
    fn state_dict(&self) -> Vec<(String, Tensor)> {
        let m = &self.memory;
        let scalar = |name: &str, v: f64| (format!("{PREFIX}{name}"), Tensor::from_vec_on(vec![v], (), Device::reference()));
        let mut all = vec![scalar("func_evals", m.func_evals as f64), scalar("n_iter", m.n_iter as f64), scalar("t", m.t), scalar("prev_loss", m.prev_loss)];
        for (name, t) in [("d", &m.direction), ("H_diag", &m.h_diag), ("prev_flat_grad", &m.prev_flat_grad)] {
            all.extend(t.iter().map(|t| (format!("{PREFIX}{name}"), t.clone())));
        }
        for (name, list) in [("old_dirs", &m.old_dirs), ("old_stps", &m.old_stps), ("ro", &m.ro)] {
            all.extend(list.iter().enumerate().map(|(k, t)| (format!("{PREFIX}{name}.{k}"), t.clone())));
        }
        all
    }
    fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        let elements = self.parameters.iter().map(Param::elements).sum::<usize>();
        let Some(meta) = self.parameters.first().map(Param::meta) else { return Ok(()) };
        let mut m = Curvature::default();
        let mut lists: BTreeMap<(&str, usize), Tensor> = BTreeMap::new();
        for (name, value) in state {
            let Some(own) = name.strip_prefix(PREFIX) else { return Err(refused(format!("`{name}` is no part of the state of L-BFGS"))) };
            let (list, k) = own.rsplit_once('.').map_or((own, None), |(list, k)| (list, k.parse::<usize>().ok()));
            let is_vector = !matches!(list, "func_evals" | "n_iter" | "t" | "prev_loss" | "H_diag" | "ro");
            if is_vector && value.shape()?.elements() != elements {
                return Err(refused(format!("`{name}` has {} elements, and the parameters {elements}", value.shape()?.elements())));
            }
            let placed = || value.cast(meta.dtype).to(meta.device).ok();
            match (list, k) {
                ("func_evals", None) => m.func_evals = number(value)?.max(0.0) as u64,
                ("n_iter", None) => m.n_iter = number(value)?.max(0.0) as u64,
                ("t", None) => m.t = number(value)?,
                ("prev_loss", None) => m.prev_loss = number(value)?,
                ("d", None) => m.direction = Some(placed()?),
                ("H_diag", None) => m.h_diag = Some(placed()?),
                ("prev_flat_grad", None) => m.prev_flat_grad = Some(placed()?),
                ("old_dirs" | "old_stps" | "ro", Some(k)) => drop(lists.insert((list, k), placed()?)),
                _ => return Err(refused(format!("`{name}` is no part of the state of L-BFGS"))),
            }
        }
        // In the order of their numbers, which are the second part of the keys.
        let of = |name: &str| lists.iter().filter(|((list, _), _)| *list == name).map(|(_, t)| t.clone()).collect::<Vec<_>>();
        (m.old_dirs, m.old_stps, m.ro) = (of("old_dirs"), of("old_stps"), of("ro"));
        if m.old_dirs.len() != m.old_stps.len() || m.old_dirs.len() != m.ro.len() {
            return Err(refused(format!("the state has {} gradients, {} steps and {} products", m.old_dirs.len(), m.old_stps.len(), m.ro.len())));
        }
        self.memory = m;
        Ok(())
    }
}
