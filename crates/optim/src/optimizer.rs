//! What all optimizers share: groups, slots, the step, saving and loading.
use crate::taken_back::Past;
use adamant_core::{Cell, DType, Error, ErrorKind, Grads, Origin, Result, Tensor, bf16, f16, step};
use adamant_nn::Param;
use std::collections::BTreeMap;

/// A formula that changes one parameter by its gradient, with its hyper-parameters.
///
/// This is all there is to writing an optimizer:
///
/// ```
/// use adamant_core::{Result, Tensor};
/// use adamant_nn::{Linear, Module, Walk};
/// use adamant_optim::{Optimizer, Slots, UpdateRule};
///
/// /// Signed momentum: each weight moves by the learning rate against the sign of the running mean gradient.
/// #[derive(Clone)]
/// struct SignMomentum { lr: f64, beta: f64 }
///
/// impl UpdateRule for SignMomentum {
///     fn name(&self) -> &'static str { "SignMomentum" }
///     fn lr(&self) -> f64 { self.lr }
///     fn set_lr(&mut self, lr: f64) { self.lr = lr; }
///     fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_>) -> Result<Tensor> {
///         let mean = slots.zeros("mean")? * self.beta + g * (1.0 - self.beta);
///         slots.set("mean", &mean)?;
///         Ok(p - mean.sign() * self.lr)
///     }
/// }
///
/// # adamant_core::Device::reference().make_current();
/// let model = Linear::new(3, 1)?;
/// let mut optimizer = SignMomentum { lr: 0.1, beta: 0.9 }.over(model.parameters());
/// let x = Tensor::ones([4, 3]);
/// let before = model.forward(&x)?.sum(..).item::<f32>()?;
/// optimizer.step(&model.forward(&x)?.sum(..).backward()?)?;
/// assert!(model.forward(&x)?.sum(..).item::<f32>()? < before);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub trait UpdateRule: Clone + Send + Sync {
    /// The optimizer's name.
    fn name(&self) -> &'static str;
    /// The learning rate.
    fn lr(&self) -> f64;
    /// Changes the learning rate.
    fn set_lr(&mut self, lr: f64);
    /// Changes the momentum (of Adam's kind: the first beta), for schedules that cycle it. Does nothing where there is none.
    fn set_momentum(&mut self, _momentum: f64) {}
    /// The numbers of the rule that may change while it trains, by name: they are saved with the state and restored by bits. `lr`
    /// is saved in any case, and a schedule sets the momentum again; name what else your program changes.
    fn hyperparameters(&mut self) -> Vec<(String, &mut f64)> {
        Vec::new()
    }
    /// Is the objective maximized? Then the gradient's sign is turned before [`UpdateRule::update`] sees it.
    fn maximize(&self) -> bool {
        false
    }
    /// Hyper-parameters that make no sense.
    ///
    /// # Errors
    /// A text that names the one.
    fn check(&self) -> std::result::Result<(), String> {
        Ok(())
    }
    /// The new value of a parameter `p` with gradient `g`; the running state is in `slots`.
    ///
    /// # Errors
    /// Whatever its ops return.
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_>) -> Result<Tensor>;
    /// An optimizer of these parameters by this rule. What of them lies in adopted vectors is brought to where a step is fast
    /// ([`Cell::align`]): best load weights before.
    #[track_caller]
    fn over(self, parameters: impl IntoIterator<Item = Param>) -> Updater<Self> {
        Updater { groups: vec![Group::new(self, parameters)], state: BTreeMap::new(), past: Past::default() }
    }
}

/// Parameters that share hyper-parameters.
pub struct Group<R> {
    /// the formula and its hyper-parameters
    pub rule: R,
    /// what it changes
    pub parameters: Vec<Param>,
    /// the line that made it, which hyper-parameters that make no sense are told of
    made: Origin,
}

/// The state of one parameter. Tensors are cells; numbers that follow from the step count are kept as numbers.
#[derive(Clone, Default)]
struct State {
    cells: BTreeMap<&'static str, Cell>,
    numbers: BTreeMap<&'static str, f64>,
    /// loaded from a checkpoint and not asked for yet
    loaded: BTreeMap<String, Tensor>,
}
const STEP: &str = "step";

/// The running state of one parameter during one update.
pub struct Slots<'a> {
    parameter: &'a Param,
    state: &'a mut State,
}
impl Slots<'_> {
    /// The number of this update of the parameter, from 1.
    pub fn step(&self) -> f64 {
        self.state.numbers.get(STEP).copied().unwrap_or(1.0)
    }
    /// The parameter.
    pub fn parameter(&self) -> &Param {
        self.parameter
    }
    /// The slot's value; zeros of the parameter's shape at first.
    ///
    /// # Errors
    /// No memory.
    #[track_caller]
    pub fn zeros(&mut self, name: &'static str) -> Result<Tensor> {
        let m = self.parameter.meta();
        if let Some(cell) = self.state.cells.get(name) {
            return Ok(cell.read());
        }
        // In memory from the start: the first step is of the same structure as all that follow.
        let n = m.shape.elements();
        let zeros = match m.dtype {
            DType::F64 => Tensor::from_vec_on(vec![0f64; n], m.shape, m.device),
            DType::F32 => Tensor::from_vec_on(vec![0f32; n], m.shape, m.device),
            DType::F16 => Tensor::from_vec_on(vec![f16::ZERO; n], m.shape, m.device),
            DType::BF16 => Tensor::from_vec_on(vec![bf16::ZERO; n], m.shape, m.device),
            dtype => Tensor::full_on(m.shape, 0.0, dtype, m.device),
        };
        self.get_or(name, &zeros)
    }
    /// The slot's value; `initial` at first.
    ///
    /// # Errors
    /// No memory, or a checkpoint whose slot has another shape.
    #[track_caller]
    pub fn get_or(&mut self, name: &'static str, initial: &Tensor) -> Result<Tensor> {
        if !self.state.cells.contains_key(name) {
            let want = initial.try_meta()?;
            let first = match self.state.loaded.remove(name) {
                Some(t) if t.shape()? != want.shape => {
                    let text = format!("`{}.{name}` has shape {} in the checkpoint and {} here", self.parameter.path(), t.shape()?, want.shape);
                    return Err(Error::new("optimizer", ErrorKind::Argument(text)));
                }
                Some(t) => t.cast(want.dtype).to(want.device),
                None => initial.clone(),
            };
            self.state.cells.insert(name, slot(&first)?);
        }
        self.state.cells.get(name).map(Cell::read).ok_or_else(|| Error::new("optimizer", ErrorKind::Internal(format!("slot {name} is gone"))))
    }
    /// Replaces a slot's value.
    ///
    /// # Errors
    /// Another shape or dtype than it began with, or a tensor that failed.
    #[track_caller]
    pub fn set(&mut self, name: &'static str, value: &Tensor) -> Result<()> {
        if !self.state.cells.contains_key(name) {
            // A write like any other, so that it can be taken back.
            self.get_or(name, &value.zeros_like())?;
        }
        self.state.cells.get(name).map_or(Ok(()), |cell| cell.set(value))
    }
    /// A running number that does not depend on data (a product of scheduled momenta).
    pub fn number(&mut self, name: &'static str, initial: f64) -> &mut f64 {
        // It stays among what was loaded: if this step is taken back, it is asked for again.
        let loaded = || self.state.loaded.get(name).and_then(|t| t.item::<f64>().ok());
        self.state.numbers.entry(name).or_insert_with(|| loaded().unwrap_or(initial))
    }
}

/// A cell for a slot, which is written at every step.
#[track_caller]
fn slot(value: &Tensor) -> Result<Cell> {
    let cell = Cell::new(value, false)?;
    cell.align()?;
    Ok(cell)
}
impl<R> Group<R> {
    #[track_caller]
    fn new(rule: R, parameters: impl IntoIterator<Item = Param>) -> Group<R> {
        let parameters: Vec<Param> = parameters.into_iter().collect();
        // Where there is no memory for that, a step takes longer and nothing else.
        parameters.iter().filter(|p| p.is_trainable()).for_each(|p| drop(p.cell().align()));
        Group { rule, parameters, made: Origin::here() }
    }
}

/// The numbers of one group's rule by name.
pub type Hyperparameters = BTreeMap<String, f64>;
const LR: &str = "lr";

/// The state of another optimizer.
#[track_caller]
fn another(name: &str, wants: String) -> Error {
    Error::new("optimizer", ErrorKind::Argument(format!("the state is of another optimizer: {name} has {wants}")))
}

/// What a training loop needs of any optimizer.
pub trait Optimizer: Send {
    /// The optimizer's name.
    fn name(&self) -> &'static str;
    /// Changes every parameter that has a gradient. All changes commit or none; everything runs once, at the end.
    ///
    /// # Errors
    /// Hyper-parameters that make no sense, no parameters, gradients that are all of other parameters, memory, a fault in the data
    /// behind the gradients, a call inside [`adamant_core::compile()`]: then nothing has changed.
    #[track_caller]
    fn step(&mut self, grads: &Grads) -> Result<()>;
    /// The learning rate of each group.
    fn lrs(&self) -> Vec<f64>;
    /// Changes the learning rate of each group.
    fn set_lrs(&mut self, lrs: &[f64]);
    /// Changes the learning rate of all groups.
    fn set_lr(&mut self, lr: f64) {
        let n = self.lrs().len();
        self.set_lrs(&vec![lr; n]);
    }
    /// Changes the momentum of all groups, where the rule has one.
    fn set_momentum(&mut self, momentum: f64);
    /// All numbers of each group's rule by name, `lr` among them: what a schedule or a program may have changed since the optimizer
    /// was made. Together with [`Optimizer::state_dict`] it is the optimizer's whole state.
    fn hyperparameters(&self) -> Vec<Hyperparameters> {
        self.lrs().into_iter().map(|lr| BTreeMap::from([(LR.to_string(), lr)])).collect()
    }
    /// Takes over what [`Optimizer::hyperparameters`] gave, bit by bit.
    ///
    /// # Errors
    /// Another number of groups, or other names: it was another optimizer. Then nothing has changed.
    #[track_caller]
    fn set_hyperparameters(&mut self, groups: &[Hyperparameters]) -> Result<()> {
        let lrs: Option<Vec<f64>> = groups.iter().map(|g| g.get(LR).copied()).collect();
        match lrs {
            Some(lrs) if lrs.len() == self.lrs().len() => {
                self.set_lrs(&lrs);
                Ok(())
            }
            _ => Err(another(self.name(), format!("{} groups with a learning rate, not {groups:?}", self.lrs().len()))),
        }
    }
    /// All parameters, in order.
    fn parameters(&self) -> Vec<Param>;
    /// The slots as `<parameter path>.<slot>`; step counts are numbers (f64).
    fn state_dict(&self) -> Vec<(String, Tensor)>;
    /// Takes over slots that [`Optimizer::state_dict`] gave.
    ///
    /// # Errors
    /// A name that belongs to no parameter.
    #[track_caller]
    fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()>;
}

/// Groups of parameters under one rule, with their state.
pub struct Updater<R> {
    groups: Vec<Group<R>>,
    /// by the parameter's id
    state: BTreeMap<usize, State>,
    /// what the states' numbers were before steps that may be taken back
    past: Past<Numbers>,
}
/// The numbers of states: whose, and under which name.
type Numbers = Vec<(usize, &'static str, f64)>;
impl<R: UpdateRule> Updater<R> {
    /// Where steps were taken back with a step around them, the numbers follow the cells.
    fn settle(&mut self) {
        let state = &mut self.state;
        self.past.settle(|numbers| {
            state.values_mut().for_each(|s| s.numbers.clear());
            for (id, name, x) in numbers {
                if let Some(s) = state.get_mut(id) {
                    s.numbers.insert(name, *x);
                }
            }
        });
    }
    /// Adds a group with hyper-parameters of its own.
    #[must_use]
    #[track_caller]
    pub fn group(mut self, rule: R, parameters: impl IntoIterator<Item = Param>) -> Updater<R> {
        self.groups.push(Group::new(rule, parameters));
        self
    }
    /// The groups.
    pub fn groups(&self) -> &[Group<R>] {
        &self.groups
    }
    /// The groups, to change hyper-parameters.
    pub fn groups_mut(&mut self) -> &mut [Group<R>] {
        &mut self.groups
    }
    /// Gradients of another model would change nothing, without a word.
    #[track_caller]
    fn concerned(&self, grads: &Grads) -> Result<()> {
        let mut parameters = self.groups.iter().flat_map(|g| &g.parameters).peekable();
        let text = if parameters.peek().is_none() {
            "it has no parameters".to_string()
        } else if !grads.is_empty() && !parameters.any(|p| grads.of(&p.cell()).is_some()) {
            let count: usize = self.groups.iter().map(|g| g.parameters.len()).sum();
            format!("none of the {} gradients is of one of its {count} parameters", grads.len())
        } else {
            return Ok(());
        };
        Err(Error::new("optimizer", ErrorKind::Argument(format!("{}: {text}", self.name())))
            .hint("is it over the parameters of the model that the loss is of?"))
    }
    #[track_caller]
    fn update(&mut self, grads: &Grads) -> Result<()> {
        self.concerned(grads)?;
        for group in &self.groups {
            if let Err(text) = group.rule.check() {
                return Err(Error::at("optimizer", ErrorKind::Argument(format!("{}: {text}", group.rule.name())), group.made));
            }
            for p in group.parameters.iter().filter(|p| p.is_trainable()) {
                let Some(g) = grads.of(&p.cell()) else { continue };
                let state = self.state.entry(p.id()).or_default();
                let mut slots = Slots { parameter: p, state };
                *slots.number(STEP, 0.0) += 1.0;
                let g = if group.rule.maximize() { -g } else { g.clone() };
                let updated = group.rule.update(&p.read(), &g, &mut slots)?;
                p.set(&updated)?;
            }
        }
        Ok(())
    }
}
/// All numbers of a rule.
fn numbers(rule: &mut impl UpdateRule) -> Hyperparameters {
    let mut all = BTreeMap::from([(LR.to_string(), rule.lr())]);
    all.extend(rule.hyperparameters().into_iter().map(|(name, v)| (name, *v)));
    all
}
impl<R: UpdateRule> Optimizer for Updater<R> {
    fn name(&self) -> &'static str {
        self.groups.first().map_or("", |g| g.rule.name())
    }
    fn step(&mut self, grads: &Grads) -> Result<()> {
        if adamant_core::is_capturing() {
            // The replays would repeat the step number and the learning rate of the capture.
            let text = format!("{} counts its steps in Rust numbers, which `compile` would fix", self.name());
            return Err(Error::new("optimizer", ErrorKind::Argument(text)).hint("compile the gradients, and step outside"));
        }
        self.settle();
        let mut before = self.past.room();
        before.clear();
        before.extend(self.state.iter().flat_map(|(id, s)| s.numbers.iter().map(|(name, x)| (*id, *name, *x))));
        let (witness, mark) = self.past.begin(before)?;
        let done = adamant_core::grad::with_grad(false, || {
            step(|| {
                witness.set(&mark)?;
                self.update(grads)
            })
        });
        if done.is_ok() {
            self.past.end();
        }
        self.settle();
        done
    }
    fn lrs(&self) -> Vec<f64> {
        self.groups.iter().map(|g| g.rule.lr()).collect()
    }
    fn set_lrs(&mut self, lrs: &[f64]) {
        self.groups.iter_mut().zip(lrs).for_each(|(g, lr)| g.rule.set_lr(*lr));
    }
    fn set_momentum(&mut self, momentum: f64) {
        self.groups.iter_mut().for_each(|g| g.rule.set_momentum(momentum));
    }
    fn hyperparameters(&self) -> Vec<Hyperparameters> {
        self.groups.iter().map(|g| numbers(&mut g.rule.clone())).collect()
    }
    fn set_hyperparameters(&mut self, groups: &[Hyperparameters]) -> Result<()> {
        if groups.len() != self.groups.len() {
            return Err(another(self.name(), format!("{} groups of parameters, not {}", self.groups.len(), groups.len())));
        }
        let mut rules = Vec::with_capacity(groups.len());
        for (group, given) in self.groups.iter().zip(groups) {
            let mut rule = group.rule.clone();
            let known = numbers(&mut rule);
            if !known.keys().eq(given.keys()) {
                let names = |of: &Hyperparameters| of.keys().cloned().collect::<Vec<_>>().join(", ");
                return Err(another(rule.name(), format!("{}, not {}", names(&known), names(given))));
            }
            if let Some(lr) = given.get(LR) {
                rule.set_lr(*lr);
            }
            for (name, place) in rule.hyperparameters() {
                given.get(&name).into_iter().for_each(|v| *place = *v);
            }
            if let Err(text) = rule.check() {
                return Err(Error::new(rule.name(), ErrorKind::Argument(format!("the state makes no sense: {text}"))));
            }
            rules.push(rule);
        }
        self.groups.iter_mut().zip(rules).for_each(|(group, rule)| group.rule = rule);
        Ok(())
    }
    fn parameters(&self) -> Vec<Param> {
        self.groups.iter().flat_map(|g| g.parameters.iter().cloned()).collect()
    }
    fn state_dict(&self) -> Vec<(String, Tensor)> {
        state_dict(&self.parameters(), &self.state, self.past.holding())
    }
    fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        self.state = loaded(&self.parameters(), state)?;
        self.past = Past::default();
        Ok(())
    }
}
// What does not depend on the rule is compiled once for all of them.
fn state_dict(parameters: &[Param], states: &BTreeMap<usize, State>, taken_back: Option<&Numbers>) -> Vec<(String, Tensor)> {
    let mut all = Vec::new();
    for p in parameters {
        let Some(s) = states.get(&p.id()) else { continue };
        let path = p.path();
        let numbers: BTreeMap<&str, f64> = match taken_back {
            Some(numbers) => numbers.iter().filter(|(id, ..)| *id == p.id()).map(|(_, name, v)| (*name, *v)).collect(),
            None => s.numbers.iter().map(|(name, v)| (*name, *v)).collect(),
        };
        let there = |name: &str| numbers.contains_key(name) || s.cells.contains_key(name);
        let loaded = s.loaded.iter().filter(|(name, _)| !there(name));
        let number = |v: f64| Tensor::full_on((), v, DType::F64, adamant_core::Device::reference());
        all.extend(numbers.iter().map(|(name, v)| (format!("{path}.{name}"), number(*v))));
        all.extend(s.cells.iter().map(|(name, c)| (format!("{path}.{name}"), c.read())));
        all.extend(loaded.map(|(name, t)| (format!("{path}.{name}"), t.clone())));
    }
    all
}
#[track_caller]
fn loaded(parameters: &[Param], state: &[(String, Tensor)]) -> Result<BTreeMap<usize, State>> {
    let mut fresh: BTreeMap<usize, State> = BTreeMap::new();
    let by_path: BTreeMap<String, usize> = parameters.iter().map(|p| (p.path().to_string(), p.id())).collect();
    for (name, value) in state {
        let (path, slot) = name.rsplit_once('.').unwrap_or(("", name));
        let Some(id) = by_path.get(path) else {
            let error = Error::new("optimizer", ErrorKind::Argument(format!("`{name}` is a slot of no parameter of this optimizer")));
            return Err(match adamant_nn::nearest(path, by_path.keys().map(String::as_str)) {
                Some(near) => error.hint(format!("there is `{near}`")),
                None => error,
            });
        };
        let value = value.clone().ok()?;
        let s = fresh.entry(*id).or_default();
        if slot == STEP {
            s.numbers.insert(STEP, value.item::<f64>()?);
        } else {
            s.loaded.insert(slot.to_string(), value);
        }
    }
    Ok(fresh)
}
