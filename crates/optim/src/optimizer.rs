//! What all optimizers share: groups, the step, saving and loading.
//!
//! All that a step changes is a cell: weights, slots, the [`clock`](crate::slots)s' counts. All that a schedule or a program
//! changes is a number of a rule, which is an argument of a captured step.
use crate::{
    rule::{Rates, Rule},
    slots::{Clock, Concerned, ParameterState, Slots, dict, loaded},
};
use adamant_core::{Error, ErrorKind, Grads, Origin, Result, Tensor, compile::decide, is_capturing, step};
use adamant_nn::Param;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

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
///     const NUMBERS_ARE_ARGUMENTS: bool = true;
///     fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
///         let (beta, rest) = (slots.rate("beta", |r| r.beta)?, slots.rate("rest", |r| 1.0 - r.beta)?);
///         let mean = slots.zeros("mean")? * beta + g * rest;
///         slots.set("mean", &mean)?;
///         Ok(p - mean.sign() * slots.rate("lr", |r| r.lr)?)
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
pub trait UpdateRule: Clone + Send + Sync + 'static {
    /// Does [`UpdateRule::update`] ask for its numbers by [`Slots::rate`] and decide by [`Slots::decide`]? Then a captured step goes
    /// on with numbers that change. A rule that reads them from itself is captured anew after each change, which with a schedule is
    /// each step.
    const NUMBERS_ARE_ARGUMENTS: bool = false;
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
    /// Is the objective maximized? Then the gradient is negated before [`UpdateRule::update`] sees it.
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
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor>;
    /// An optimizer of these parameters by this rule. What of them lies in adopted vectors is brought to where a step is fast
    /// ([`Cell::align`](adamant_core::Cell::align)): best load weights before.
    #[track_caller]
    fn over(self, parameters: impl IntoIterator<Item = Param>) -> Updater<Self> {
        Updater { groups: vec![Group::new(self, parameters)], state: BTreeMap::new(), clocks: Vec::new(), arrangement: Arc::default() }
    }
}

/// Parameters that share hyper-parameters.
pub struct Group<R> {
    rule: Arc<Rule<R>>,
    /// what it changes
    pub parameters: Vec<Param>,
    /// the line that made it, which hyper-parameters that make no sense are told of
    made: Origin,
}

impl<R: UpdateRule> Group<R> {
    #[track_caller]
    fn new(rule: R, parameters: impl IntoIterator<Item = Param>) -> Group<R> {
        let parameters: Vec<Param> = parameters.into_iter().collect();
        // Where there is no memory for that, a step takes longer and nothing else.
        parameters.iter().filter(|p| p.is_trainable()).for_each(|p| drop(p.cell().align()));
        Group { rule: Arc::new(Rule::new(rule)), parameters, made: Origin::here() }
    }
}
impl<R: UpdateRule> Group<R> {
    /// The formula and its hyper-parameters as they are now.
    pub fn rule(&self) -> R {
        self.rule.read(R::clone)
    }
    /// Changes hyper-parameters. Captured steps see it.
    pub fn edit<T>(&self, f: impl FnOnce(&mut R) -> T) -> T {
        self.rule.edit(f)
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
    /// Changes every parameter that has a gradient. All changes commit or none; everything runs once, at the end. Inside
    /// [`adamant_core::compile()`] it is part of the function: counts are cells and rates are asked for at each call.
    ///
    /// # Errors
    /// Hyper-parameters that make no sense, no parameters, gradients that are all of other parameters, memory, a fault in the data
    /// behind the gradients: then nothing has changed.
    #[track_caller]
    fn step(&mut self, grads: &Grads) -> Result<()>;
    /// The learning rate of each group.
    fn lrs(&self) -> Vec<f64>;
    /// Changes the learning rate of each group.
    fn set_lrs(&mut self, lrs: &[f64]);
    /// The rates of its groups, for who moves them while the optimizer is elsewhere: a schedule in a captured step.
    fn rates(&self) -> Arc<dyn Rates>;
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
    state: BTreeMap<usize, ParameterState>,
    /// counts of steps, each of the parameters that made the same ones
    clocks: Vec<Clock>,
    /// How often it changed which cells hold what: a captured step is good for those that it knows.
    arrangement: Arc<AtomicU64>,
}
impl<R: UpdateRule> Updater<R> {
    /// Adds a group with hyper-parameters of its own.
    #[must_use]
    #[track_caller]
    pub fn group(mut self, rule: R, parameters: impl IntoIterator<Item = Param>) -> Updater<R> {
        self.groups.push(Group::new(rule, parameters));
        self
    }
    /// The groups; [`Group::edit`] changes hyper-parameters.
    pub fn groups(&self) -> &[Group<R>] {
        &self.groups
    }
    #[track_caller]
    fn update(&mut self, grads: &Grads) -> Result<()> {
        if let Some((group, p)) = self.groups.iter().find_map(|g| Some((g, g.parameters.iter().find(|p| p.is_uninitialized())?))) {
            let text = format!("`{}` of a lazy layer has no value yet: its shape follows from the layer's first input", p.path());
            return Err(Error::at("optimizer", ErrorKind::Argument(text), group.made).hint("run the model once on an example, or load a state dict"));
        }
        if let Some(text) = changes_nothing(&mut self.groups.iter().flat_map(|g| &g.parameters), grads) {
            return Err(Error::new("optimizer", ErrorKind::Argument(format!("{}: {text}", self.name())))
                .hint("is it over the parameters of the model that the loss is of?"));
        }
        let Updater { groups, state, clocks, arrangement } = self;
        for group in groups.iter() {
            let rule = group.rule();
            if let Err(text) = rule.check() {
                return Err(Error::at("optimizer", ErrorKind::Argument(format!("{}: {text}", rule.name())), group.made));
            }
            group.rule.watch();
            let concerned = Concerned { parameters: &group.parameters, grads };
            if Clock::assign(clocks, state, &concerned)? {
                arrangement.fetch_add(1, Relaxed);
            }
            for p in concerned.iter() {
                let Some(g) = grads.of(&p.cell()) else { continue };
                let Some((state, clock)) = state.get_mut(&p.id()).and_then(|s| s.clock().and_then(|k| clocks.get_mut(k)).map(|c| (s, c))) else {
                    return Err(Error::new("optimizer", ErrorKind::Internal("a parameter without a clock".into())));
                };
                let mut slots = Slots::new(&group.rule, p, state, clock);
                let negated = rule.maximize().then(|| -g);
                let updated = rule.update(&p.read(), negated.as_ref().unwrap_or(g), &mut slots)?;
                p.set(&updated)?;
            }
            // Held, they would be kept in memory when the step runs.
            clocks.iter_mut().for_each(Clock::forget);
        }
        if is_capturing() {
            let (arrangement, known) = (arrangement.clone(), arrangement.load(Relaxed));
            decide(move || arrangement.load(Relaxed) == known);
        }
        Ok(())
    }
}
/// Gradients of another model would change nothing, without a word.
fn changes_nothing(parameters: &mut dyn Iterator<Item = &Param>, grads: &Grads) -> Option<String> {
    let mut count = 0;
    for p in parameters {
        if grads.is_empty() || grads.of(&p.cell()).is_some() {
            return None;
        }
        count += 1;
    }
    Some(match count {
        0 => "it has no parameters".into(),
        _ => format!("none of the {} gradients is of one of its {count} parameters", grads.len()),
    })
}
/// Are the numbers that are given those of this rule, by their names?
#[track_caller]
fn same_names(rule: &str, known: &Hyperparameters, given: &Hyperparameters) -> Result<()> {
    if known.keys().eq(given.keys()) {
        return Ok(());
    }
    let names = |of: &Hyperparameters| of.keys().cloned().collect::<Vec<_>>().join(", ");
    Err(another(rule, format!("{}, not {}", names(known), names(given))))
}
/// All numbers of a rule.
fn numbers(rule: &mut impl UpdateRule) -> Hyperparameters {
    let mut all = BTreeMap::from([(LR.to_string(), rule.lr())]);
    all.extend(rule.hyperparameters().into_iter().map(|(name, v)| (name, *v)));
    all
}
impl<R: UpdateRule> Optimizer for Updater<R> {
    fn name(&self) -> &'static str {
        self.groups.first().map_or("", |g| g.rule.read(UpdateRule::name))
    }
    fn step(&mut self, grads: &Grads) -> Result<()> {
        adamant_core::grad::with_grad(false, || step(|| self.update(grads)))
    }
    fn lrs(&self) -> Vec<f64> {
        self.groups.iter().map(|g| g.rule.read(UpdateRule::lr)).collect()
    }
    fn set_lrs(&mut self, lrs: &[f64]) {
        self.groups.iter().zip(lrs).for_each(|(g, lr)| g.edit(|rule| rule.set_lr(*lr)));
    }
    fn set_momentum(&mut self, momentum: f64) {
        self.groups.iter().for_each(|g| g.edit(|rule| rule.set_momentum(momentum)));
    }
    fn rates(&self) -> Arc<dyn Rates> {
        Arc::new(self.groups.iter().map(|g| g.rule.clone()).collect::<Vec<_>>())
    }
    fn hyperparameters(&self) -> Vec<Hyperparameters> {
        self.groups.iter().map(|g| numbers(&mut g.rule())).collect()
    }
    fn set_hyperparameters(&mut self, groups: &[Hyperparameters]) -> Result<()> {
        if groups.len() != self.groups.len() {
            return Err(another(self.name(), format!("{} groups of parameters, not {}", self.groups.len(), groups.len())));
        }
        let mut rules = Vec::with_capacity(groups.len());
        for (group, given) in self.groups.iter().zip(groups) {
            let mut rule = group.rule();
            same_names(rule.name(), &numbers(&mut rule), given)?;
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
        self.groups.iter().zip(rules).for_each(|(group, rule)| group.edit(|old| *old = rule));
        Ok(())
    }
    fn parameters(&self) -> Vec<Param> {
        self.groups.iter().flat_map(|g| g.parameters.iter().cloned()).collect()
    }
    fn state_dict(&self) -> Vec<(String, Tensor)> {
        dict(&self.parameters(), &self.state, &self.clocks)
    }
    fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        self.state = loaded(&self.parameters(), state)?;
        self.clocks = Vec::new();
        self.arrangement.fetch_add(1, Relaxed);
        Ok(())
    }
}
