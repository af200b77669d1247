//! What all optimizers share: groups, the step, saving and loading.
//!
//! All that a step changes is a cell: weights, slots, the [`clock`](crate::slots)s' counts. All that a schedule or a program
//! changes is a number of a rule, which is an argument of a captured step.
use crate::{
    numbers::{Hyperparameters, LR, another, checked_behind_a_schedule, numbers, same_names},
    pieces::ParameterPieces,
    rule::{Rates, Rule},
    slots::{Clock, Concerned, ParameterState, Slots, dict, loaded},
    weights::{StoredDtypes, WeightUpdate},
};
use adamant_core::{DType, Error, ErrorKind, Grads, Hint, Meta, Origin, Result, Shape, Tensor, compile::decide, is_capturing, scope, step};
use adamant_nn::Param;
use std::{
    collections::{BTreeMap, BTreeSet},
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
    /// Does [`UpdateRule::update`] compute each element of a parameter from that element of the parameter, the gradient and the slots alone?
    /// Then ranks may share a parameter out ([`Optimizer::share_out`]).
    const IS_ELEMENTWISE: bool = false;
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
    /// Parameters that the formula is not for, by shape and dtype.
    ///
    /// # Errors
    /// A text that says why.
    fn check_parameter(&self, _meta: &Meta) -> std::result::Result<(), String> {
        Ok(())
    }
    /// The new value of a parameter `p` with gradient `g`, both of [`Slots::dtype`]; the running state is in `slots`.
    ///
    /// # Errors
    /// Whatever its ops return.
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor>;
    /// An optimizer of these parameters by this rule. What of them lies in adopted vectors is brought to where a step is fast
    /// ([`Cell::align`](adamant_core::Cell::align)): best load weights before.
    ///
    /// Building never fails, as with tensors: [`Updater::ok`] tells at once what makes no sense, and the first step tells it
    /// otherwise, both naming this line.
    #[track_caller]
    fn over(self, parameters: impl IntoIterator<Item = Param>) -> Updater<Self> {
        Updater {
            groups: vec![Group::new(self, parameters)],
            state: BTreeMap::new(),
            clocks: Vec::new(),
            storage: StoredDtypes::default(),
            arrangement: Arc::default(),
            doubt: true,
            pieces: None,
        }
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
    /// Told at the line that made the group.
    fn refusal(&self, text: String) -> Error {
        Error::at("step", ErrorKind::Argument(format!("{}: {text}", self.rule.read(R::name))), self.made)
    }
    fn sense(&self) -> Result<()> {
        self.rule.read(R::check).map_err(|text| self.refusal(text))
    }
}
/// A parameter as an error names it.
pub(crate) fn named(p: &Param) -> String {
    let path = p.path();
    if path.is_empty() { format!("of shape {}", p.meta().shape) } else { format!("`{path}`") }
}
fn no_parameters<R: UpdateRule>(group: &Group<R>) -> Error {
    group.refusal("it has no parameters".into()).hint("a model that is frozen, or has no layers yet, gives an empty list of parameters")
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
    /// The parameters of each group, in order.
    fn parameter_groups(&self) -> Vec<Vec<Param>> {
        vec![self.parameters()]
    }
    /// The slots as `<parameter path>.<slot>`; step counts are numbers (f64).
    fn state_dict(&self) -> Vec<(String, Tensor)>;
    /// Takes over slots that [`Optimizer::state_dict`] gave.
    ///
    /// # Errors
    /// A name that belongs to no parameter; a state of another [`WeightUpdate`].
    #[track_caller]
    fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()>;
    /// As [`Updater::weight_update`], of an optimizer that is made already.
    ///
    /// # Errors
    /// An optimizer that has none, a parameter that the policy is not for, a call after the first step or after a state was loaded. Then
    /// nothing has changed.
    #[track_caller]
    fn set_weight_update(&mut self, _by: WeightUpdate) -> Result<()> {
        Err(unsupported("set_weight_update", self.name()))
    }
    /// As [`Updater::slot_dtype`], of an optimizer that is made already: f32 or bf16.
    ///
    /// # Errors
    /// An optimizer that has none, another dtype, a call after the first step or after a state was loaded. Then nothing has changed.
    #[track_caller]
    fn set_slot_dtype(&mut self, _dtype: DType) -> Result<()> {
        Err(unsupported("set_slot_dtype", self.name()))
    }
    /// Takes over, before the first step, what f32 masters (each of its parameter's shape) have beyond the weights that were made of
    /// them: a model that was initialised in f32 and cast loses nothing. Of parameters that are not given the weights are the masters.
    /// [`WeightUpdate::Split`] keeps every bit, [`WeightUpdate::Kahan`] what its compensation holds; the other policies, and parameters of f32
    /// and f64, keep nothing, and are checked alone.
    ///
    /// ```
    /// # use adamant_core::{DType, Tensor};
    /// # use adamant_nn::Param;
    /// # use adamant_optim::{AdamW, Optimizer, UpdateRule, WeightUpdate};
    /// # adamant_core::Device::reference().make_current();
    /// let master = Tensor::from_vec(vec![0.1f32, 0.2, 0.3], [3]);
    /// let weight = Param::new(&master.cast(DType::BF16))?;
    /// let mut optimizer = AdamW::new(1e-3).over([weight.clone()]).weight_update(WeightUpdate::Split).ok()?;
    /// optimizer.adopt_masters(&[(weight, master)])?;
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// An optimizer without a [`WeightUpdate`], a call after the first step or after a state was loaded; a parameter of another optimizer; a
    /// master of another shape or dtype, or one that is not its weight when it is rounded to nearest even. They name the parameter;
    /// nothing has changed then.
    #[track_caller]
    fn adopt_masters(&mut self, _masters: &[(Param, Tensor)]) -> Result<()> {
        Err(unsupported("adopt_masters", self.name()))
    }
    /// Is an update computed element by element, so that pieces of a parameter are updated as the whole is? Unless it is known, it is not.
    fn is_elementwise(&self) -> bool {
        false
    }
    /// From now on only these pieces of its parameters are changed here: gradients are given of them (of one axis, none of a parameter of
    /// which nothing is changed here), slots are of their lengths, and what [`Optimizer::state_dict`] gives and
    /// [`Optimizer::load_state_dict`] takes are the pieces' own.
    ///
    /// # Errors
    /// A rule that looks at a parameter as a whole, a parameter whose bits below its dtype are kept ([`WeightUpdate`]), a call after the first
    /// step or after a state was loaded. Then nothing has changed.
    #[track_caller]
    fn share_out(&mut self, _pieces: Arc<dyn ParameterPieces>) -> Result<()> {
        Err(unsupported("share_out", self.name()))
    }
}
#[track_caller]
fn unsupported(op: &'static str, name: &str) -> Error {
    Error::new(op, ErrorKind::Argument(format!("{name} has no `{op}`: it is unsupported by this optimizer")))
}

/// Groups of parameters under one rule, with their state.
pub struct Updater<R> {
    groups: Vec<Group<R>>,
    /// by the parameter's id
    pub(crate) state: BTreeMap<usize, ParameterState>,
    /// counts of steps, each of the parameters that made the same ones
    pub(crate) clocks: Vec<Clock>,
    pub(crate) storage: StoredDtypes,
    /// How often it changed which cells hold what: a captured step is good for those that it knows.
    arrangement: Arc<AtomicU64>,
    /// were the groups not looked at since they changed?
    pub(crate) doubt: bool,
    /// what of the parameters is changed here; none: all
    pieces: Option<Arc<dyn ParameterPieces>>,
}
impl<R: UpdateRule> Updater<R> {
    /// Adds a group with hyper-parameters of its own.
    #[must_use]
    #[track_caller]
    pub fn group(mut self, rule: R, parameters: impl IntoIterator<Item = Param>) -> Updater<R> {
        self.groups.push(Group::new(rule, parameters));
        self.doubt = true;
        self
    }
    /// The optimizer, if it makes sense: the way to be told where it is made instead of at its first step.
    ///
    /// ```
    /// # use adamant_nn::{Linear, Walk};
    /// # use adamant_optim::{Adam, UpdateRule};
    /// # adamant_core::Device::reference().make_current();
    /// let model = Linear::new(2, 2)?;
    /// let error = Adam::new(-1.0).over(model.parameters()).ok().err().unwrap();
    /// assert!(error.to_string().contains("lr is -1, it must be a number from 0 on"));
    /// assert!(Adam::new(0.1).over([]).ok().is_err());
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Hyper-parameters that make no sense, no parameters, one that stands in two groups or twice in one, one that the rule is not
    /// for, nor the [`WeightUpdate`]; a dtype that slots are not stored in. They name the line of the group, or that of the call.
    pub fn ok(mut self) -> Result<Updater<R>> {
        self.groups.iter().try_for_each(Group::sense)?;
        self.look()?;
        Ok(self)
    }
    /// What the groups hold, once after each change: a steady step allocates nothing.
    fn look(&mut self) -> Result<()> {
        if !self.doubt {
            return Ok(());
        }
        if let Some(told) = &self.storage.refused {
            return Err(told.clone());
        }
        let mut met = BTreeSet::new();
        for group in &self.groups {
            let refuse = |p: &Param, text: &str| Err(group.refusal(format!("the parameter {}{text}", named(p))));
            for p in &group.parameters {
                if !met.insert(p.id()) {
                    return refuse(p, " is given twice; a step would change it twice");
                }
                if let Err(text) = group.rule.read(|rule| rule.check_parameter(&p.meta())) {
                    return refuse(p, &format!(": {text}"));
                }
                if let Some(kind) = self.storage.refuses(p.meta().dtype) {
                    let text = format!("{}: the parameter {}: {kind}", group.rule.read(R::name), named(p));
                    return Err(Error::at("step", ErrorKind::Dtype(text), group.made));
                }
            }
        }
        self.storage.number(self.groups.iter().flat_map(|g| &g.parameters));
        match self.groups.first() {
            Some(first) if met.is_empty() => Err(no_parameters(first)),
            _ => {
                self.doubt = false;
                Ok(())
            }
        }
    }
    /// Adds a group after the optimizer was made, as `Optimizer.add_param_group`: layers that are unfrozen later. A
    /// [`Scheduler`](crate::schedule::Scheduler) that is there already takes the group up by
    /// [`Scheduler::follow`](crate::schedule::Scheduler::follow); captured steps see it.
    ///
    /// # Errors
    /// As [`Updater::ok`]; then no group was added.
    #[track_caller]
    pub fn add_param_group(&mut self, rule: R, parameters: impl IntoIterator<Item = Param>) -> Result<()> {
        let group = Group::new(rule, parameters);
        if group.parameters.is_empty() {
            return Err(no_parameters(&group));
        }
        self.groups.push(group);
        let sense = self.groups.last().map_or(Ok(()), Group::sense);
        self.doubt = true;
        if let Err(e) = sense.and_then(|()| self.look()) {
            self.groups.pop();
            return Err(e);
        }
        self.arrangement.fetch_add(1, Relaxed);
        Ok(())
    }
    /// Moves the parameters that a filter picks into a group of their own, with their running state: biases and norms that shall
    /// not decay, say. Gives how many there are.
    ///
    /// ```
    /// # use adamant_nn::{Linear, Walk};
    /// # use adamant_optim::{AdamW, Optimizer, UpdateRule};
    /// # adamant_core::Device::reference().make_current();
    /// let mut optimizer = AdamW::new(1e-3).over(Linear::new(2, 2)?.parameters()).ok()?;
    /// let rule = optimizer.groups()[0].rule().weight_decay(0.0);
    /// assert_eq!(optimizer.regroup(rule, |p| p.path().ends_with("bias"))?, 1);
    /// assert_eq!(optimizer.groups().len(), 2);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The filter picks none; hyper-parameters that make no sense, a parameter that the rule is not for. Then nothing has changed.
    #[track_caller]
    pub fn regroup(&mut self, rule: R, mut filter: impl FnMut(&Param) -> bool) -> Result<usize> {
        let picked: Vec<Param> = self.groups.iter().flat_map(|g| &g.parameters).filter(|p| filter(p)).cloned().collect();
        let group = Group::new(rule, picked);
        if group.parameters.is_empty() {
            let known = self.groups.iter().flat_map(|g| &g.parameters).take(4).map(named).collect::<Vec<_>>().join(", ");
            return Err(group.refusal("the filter picks none of its parameters".into()).hint(format!("they are {known}, ..")));
        }
        group.sense()?;
        for p in &group.parameters {
            if let Err(text) = group.rule.read(|rule| rule.check_parameter(&p.meta())) {
                return Err(group.refusal(format!("the parameter {}: {text}", named(p))));
            }
        }
        let ids: BTreeSet<usize> = group.parameters.iter().map(Param::id).collect();
        self.groups.iter_mut().for_each(|g| g.parameters.retain(|p| !ids.contains(&p.id())));
        self.groups.push(group);
        self.arrangement.fetch_add(1, Relaxed);
        Ok(ids.len())
    }
    /// The groups; [`Group::edit`] changes hyper-parameters.
    pub fn groups(&self) -> &[Group<R>] {
        &self.groups
    }
    #[track_caller]
    fn update(&mut self, grads: &Grads) -> Result<()> {
        self.look()?;
        if let Some((group, p)) = self.groups.iter().find_map(|g| Some((g, g.parameters.iter().find(|p| p.is_uninitialized())?))) {
            let text = format!("`{}` of a lazy layer has no value yet: its shape follows from the layer's first input", p.path());
            return Err(Error::at("step", ErrorKind::Argument(text), group.made).hint("run the model once on an example, or load a state dict"));
        }
        if let Some((group, p)) = self.groups.iter().find_map(|g| Some((g, g.parameters.iter().find(|p| p.packed().is_some())?))) {
            let text = format!("`{}` holds integer codes, which have no gradient", p.path());
            return Err(Error::at("step", ErrorKind::Argument(text), group.made)
                .hint("train adapters beside it (`quant::lora`), or `unpack` it before the optimizer is made"));
        }
        if let Some(text) = changes_nothing(&mut self.groups.iter().flat_map(|g| &g.parameters), grads) {
            return Err(Error::new("step", ErrorKind::Argument(format!("{}: {text}", self.name())))
                .hint(Hint::new("make it over the parameters of the model that the loss is of").code("Sgd::default().over(model.parameters())")));
        }
        let Updater { groups, state, clocks, storage, arrangement, pieces, .. } = self;
        for group in groups.iter() {
            let rule = group.rule();
            group.sense()?;
            group.rule.watch();
            let concerned = Concerned { parameters: &group.parameters, grads };
            if Clock::assign(clocks, state, &concerned)? {
                arrangement.fetch_add(1, Relaxed);
            }
            for p in concerned.iter() {
                let Some(g) = grads.of(&p.cell()) else { continue };
                let Some((state, clock)) = state.get_mut(&p.id()).and_then(|s| s.clock().and_then(|k| clocks.get_mut(k)).map(|c| (s, c))) else {
                    return Err(Error::new("step", ErrorKind::Internal("a parameter without a clock".into())));
                };
                let shape = pieces.as_ref().map_or(Ok(p.meta().shape), |pieces| Shape::new(&[pieces.piece(p).len()]));
                let mut slots = Slots::new(&group.rule, p, (shape.map_err(|kind| Error::new("step", kind))?, state), clock, storage);
                let negated = rule.maximize().then(|| -g);
                let g = negated.as_ref().unwrap_or(g);
                if let Some(pieces) = pieces {
                    pieces.write(p, &rule.update(&pieces.read(p)?, g, &mut slots)?)?;
                    continue;
                }
                match storage.policy(p.meta().dtype) {
                    None => p.set(&rule.update(&p.detached(), g, &mut slots)?)?,
                    Some(policy) => {
                        let wide = policy.widened(p, storage.place(p), slots.running())?;
                        let updated = rule.update(&wide, &g.cast(slots.dtype()), &mut slots)?;
                        policy.narrow(p, &updated, slots.running())?;
                    }
                }
            }
            // Held, they would be kept in memory when the step runs.
            clocks.iter_mut().for_each(Clock::forget);
        }
        pieces.as_ref().map_or(Ok(()), |pieces| pieces.finish())?;
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
    Some(format!("none of the {} gradients is of one of its {count} parameters", grads.len()))
}
impl<R: UpdateRule> Optimizer for Updater<R> {
    fn name(&self) -> &'static str {
        self.groups.first().map_or("", |g| g.rule.read(UpdateRule::name))
    }
    fn step(&mut self, grads: &Grads) -> Result<()> {
        let _call = scope::call("step");
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
            if let Err(text) = checked_behind_a_schedule(&mut rule) {
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
    fn parameter_groups(&self) -> Vec<Vec<Param>> {
        self.groups.iter().map(|g| g.parameters.clone()).collect()
    }
    fn state_dict(&self) -> Vec<(String, Tensor)> {
        dict(&self.parameters(), &self.state, &self.clocks)
    }
    fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        let parameters = self.parameters();
        let state = loaded(&parameters, state)?;
        for p in &parameters {
            if let Some(loaded) = state.get(&p.id()) {
                self.storage.check(p, loaded)?;
            }
        }
        self.state = state;
        self.clocks = Vec::new();
        self.arrangement.fetch_add(1, Relaxed);
        Ok(())
    }
    fn set_weight_update(&mut self, by: WeightUpdate) -> Result<()> {
        self.tell_weights(by)
    }
    fn set_slot_dtype(&mut self, dtype: DType) -> Result<()> {
        self.tell_slots(dtype)
    }
    fn adopt_masters(&mut self, masters: &[(Param, Tensor)]) -> Result<()> {
        self.adopt(masters)
    }
    fn is_elementwise(&self) -> bool {
        R::IS_ELEMENTWISE
    }
    fn share_out(&mut self, pieces: Arc<dyn ParameterPieces>) -> Result<()> {
        let refused = |text: String| Err(Error::new("share_out", ErrorKind::Argument(format!("{} {text}", self.name()))));
        if !R::IS_ELEMENTWISE {
            return refused("looks at each parameter as a whole, which ranks cannot share out".into());
        }
        if let Some(p) = self.parameters().iter().find(|p| self.storage.policy(p.meta().dtype).is_some()) {
            return refused(format!("keeps more of {} than its dtype holds, which ranks do not share out", named(p)));
        }
        if !self.is_fresh_but_for(&[]) {
            return refused("has made a step or loaded a state: parameters are shared out before".into());
        }
        self.pieces = Some(pieces);
        Ok(())
    }
}
