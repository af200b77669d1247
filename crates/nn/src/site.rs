//! A layer's place in a model: path, mode, hooks.
use crate::{Copies, Visit, Walk, Walker, folded::FoldedParts, hooks};
use adamant_core::{Flag, Result, Tensor, grad::depends_on_hooks, scope};
use parking_lot::RwLock;
use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// Where a layer stands: its path in the model, for errors and profiles, whether it is training, and its [hooks].
/// Every layer holds one. Clones are the same place.
///
/// A module of one's own that holds one runs hooks by it:
///
/// ```
/// # use adamant_core::{Result, Tensor};
/// # use adamant_nn::{Module, Site, Walk};
/// # adamant_core::Device::reference().make_current();
/// #[derive(Module)]
/// struct Double { site: Site }
/// impl Module for Double {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         let call = self.site.begin(&[x])?;
///         let y = (call.input(0, x) * 2.0).ok()?;
///         call.end(y)
///     }
/// }
/// let double = Double { site: Site::with_hooks("Double") };
/// double.register_forward_hook(|_, _, outputs| Ok(Some(vec![&outputs[0] + 1.0])))?;
/// assert_eq!(double.forward(&Tensor::ones([1]))?.item::<f32>()?, 3.0);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Site(Arc<Place>);
pub(crate) struct Place {
    kind: &'static str,
    path: RwLock<Arc<str>>,
    training: Flag,
    runs_hooks: bool,
    /// Does it hold layers, and compute nothing under a path of its own?
    is_container: bool,
    facts: LayerFacts,
    has_hooks: AtomicBool,
    pub(crate) hooks: RwLock<hooks::SiteHooks>,
    pub(crate) folded: FoldedParts,
}
/// What is known of a layer beside its parameters, for who changes models from outside.
#[derive(Clone, Copy, Default)]
pub(crate) struct LayerFacts {
    /// of batch norms: what is added to variances
    pub eps: Option<f64>,
    /// of batch norms: weight of the newest batch in the running statistics
    pub momentum: Option<f64>,
    /// of embeddings: the row that is not trained
    pub padding_idx: Option<usize>,
    /// of attention: features of one head
    pub head_dim: Option<usize>,
}
impl Site {
    /// The place of a layer of a kind (`"Linear"`), which stands for the path until the model is walked. To register a hook at it
    /// is an error: use [`Site::with_hooks`] in a layer whose `forward` runs them.
    pub fn new(kind: &'static str) -> Site {
        Site::of(kind, false, false, LayerFacts::default(), FoldedParts::new(false))
    }
    /// As [`Site::new`], of a layer whose `forward` goes through [`Site::begin`] and [`SiteCall::end`], and so runs its hooks.
    pub fn with_hooks(kind: &'static str) -> Site {
        Site::with_facts(kind, LayerFacts::default())
    }
    /// Of a layer with hooks of which more is known.
    pub(crate) fn with_facts(kind: &'static str, facts: LayerFacts) -> Site {
        Site::of(kind, true, false, facts, FoldedParts::new(false))
    }
    /// Of a layer with hooks that adds a bias also if it was made without one ([`crate::folded::LateBias`]).
    pub(crate) fn taking_bias(kind: &'static str) -> Site {
        Site::of(kind, true, false, LayerFacts::default(), FoldedParts::new(true))
    }
    /// Of what holds layers and passes tensors on: it has hooks, but no path of its own in errors and profiles.
    pub(crate) fn container(kind: &'static str) -> Site {
        Site::of(kind, true, true, LayerFacts::default(), FoldedParts::new(false))
    }
    fn of(kind: &'static str, runs_hooks: bool, is_container: bool, facts: LayerFacts, folded: FoldedParts) -> Site {
        let (path, training, has_hooks) = (RwLock::new("".into()), Flag::new(true), AtomicBool::new(false));
        Site(Arc::new(Place { kind, path, training, runs_hooks, is_container, facts, has_hooks, hooks: RwLock::default(), folded }))
    }
    /// Enters the layer: what is applied until the guard drops names its path.
    #[track_caller]
    pub fn enter(&self) -> scope::ScopeGuard {
        let path = self.0.path.read().clone();
        if path.is_empty() { scope::enter(self.0.kind) } else { scope::enter_path(&path) }
    }
    /// Enters the layer with its inputs: hooks before the forward pass are called. What the layer computes with is
    /// [`SiteCall::input`], and what it returns goes through [`SiteCall::end`].
    ///
    /// # Errors
    /// Those of hooks.
    #[track_caller]
    #[inline]
    pub fn begin(&self, inputs: &[&Tensor]) -> Result<SiteCall<'_>> {
        let scope = self.enter();
        self.begin_in(inputs, Some(scope))
    }
    /// As [`Site::begin`], without a scope of its own: for what only passes tensors on.
    #[track_caller]
    #[inline]
    pub(crate) fn begin_within(&self, inputs: &[&Tensor]) -> Result<SiteCall<'_>> {
        self.begin_in(inputs, None)
    }
    #[track_caller]
    #[inline]
    fn begin_in(&self, inputs: &[&Tensor], scope: Option<scope::ScopeGuard>) -> Result<SiteCall<'_>> {
        depends_on_hooks();
        let hooked = if self.0.has_hooks.load(Relaxed) || hooks::any_global() { Some(Box::new(hooks::HookedCall::begin(self, inputs)?)) } else { None };
        Ok(SiteCall { site: self, hooked, _scope: scope })
    }
    /// Training (dropout on, batch statistics) or evaluating?
    pub fn is_training(&self) -> bool {
        self.0.training.get()
    }
    /// Training or evaluating from now on.
    pub fn set_training(&self, training: bool) {
        self.0.training.set(training);
    }
    /// The layer's kind.
    pub fn kind(&self) -> &'static str {
        self.0.kind
    }
    /// The path, empty until the model was walked.
    pub fn path(&self) -> Arc<str> {
        self.0.path.read().clone()
    }
    /// Does the layer run hooks?
    pub fn runs_hooks(&self) -> bool {
        self.0.runs_hooks
    }
    /// What a [`BatchNorm`](crate::BatchNorm) adds to variances, for hooks that normalise as it does; `None` of other layers.
    ///
    /// ```
    /// # use adamant_nn::{BatchNorm1d, Walk};
    /// # adamant_core::Device::reference().make_current();
    /// assert_eq!(BatchNorm1d::new(4)?.get_submodule("")?.site()?.eps(), Some(1e-5));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    pub fn eps(&self) -> Option<f64> {
        self.0.facts.eps
    }
    /// The weight that a [`BatchNorm`](crate::BatchNorm) gives the newest batch in its running statistics, as [`Site::eps`]; `None` also if
    /// all batches count the same.
    pub fn momentum(&self) -> Option<f64> {
        self.0.facts.momentum
    }
    /// The row of an [`Embedding`](crate::Embedding) that is not trained; `None`: all are, or it is another layer.
    pub fn padding_idx(&self) -> Option<usize> {
        self.0.facts.padding_idx
    }
    /// The features of one head of a [`MultiheadAttention`](crate::MultiheadAttention); `None` of other layers.
    pub fn head_dim(&self) -> Option<usize> {
        self.0.facts.head_dim
    }
    /// Are there hooks that run when the layer does: its own, or those of all modules?
    pub fn has_hooks(&self) -> bool {
        self.0.has_hooks.load(Relaxed) || hooks::any_global()
    }
    /// Do two handles name the same place?
    pub fn same(&self, other: &Site) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    pub(crate) fn place(&self) -> &Place {
        &self.0
    }
    pub(crate) fn weak(&self) -> Weak<Place> {
        Arc::downgrade(&self.0)
    }
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
    /// Another place with the same name and mode, without hooks.
    #[track_caller]
    pub(crate) fn apart(&self, copies: &mut Copies) -> Result<Site> {
        let copy = Site::of(self.0.kind, self.0.runs_hooks, self.0.is_container, self.0.facts, self.0.folded.apart(copies)?);
        *copy.0.path.write() = self.path();
        copy.set_training(self.is_training());
        Ok(copy)
    }
}
impl Place {
    /// To be called when hooks were registered or removed.
    pub(crate) fn count_hooks(&self) {
        self.has_hooks.store(!self.hooks.read().is_empty(), Relaxed);
    }
}
impl Walk for Site {
    fn walk(&self, walker: &mut Walker<'_>) {
        longer(&self.0.path, &walker.path);
        match self.0.is_container {
            true => walker.visit.container(&walker.path, self),
            false => walker.visit.site(&walker.path, self),
        }
    }
    fn duplicate(&self, copies: &mut Copies) -> Result<Site> {
        copies.site(self)
    }
}
/// A part walked on its own has a shorter path than in its model; the longer one is right.
pub(crate) fn longer(own: &RwLock<Arc<str>>, path: &str) {
    let depth = |p: &str| if p.is_empty() { 0 } else { 1 + p.matches('.').count() };
    let known = own.read().clone();
    if *known != *path && depth(path) >= depth(&known) {
        *own.write() = path.into();
    }
}

/// A layer at work: what it computes meanwhile names its path.
#[must_use = "what the layer returns goes through `end`"]
pub struct SiteCall<'a> {
    site: &'a Site,
    hooked: Option<Box<hooks::HookedCall>>,
    _scope: Option<scope::ScopeGuard>,
}
impl SiteCall<'_> {
    /// The input of a number, which was given as `x`: as hooks have left it.
    #[inline]
    pub fn input<'b>(&'b self, number: usize, x: &'b Tensor) -> &'b Tensor {
        match &self.hooked {
            None => x,
            Some(hooked) => hooked.input(number).unwrap_or(x),
        }
    }
    /// What the layer returns: hooks after the forward pass are called.
    ///
    /// # Errors
    /// Those of hooks.
    #[track_caller]
    #[inline]
    pub fn end(self, output: Tensor) -> Result<Tensor> {
        match self.hooked {
            None => Ok(output),
            Some(hooked) => hooked.end_one(self.site, output),
        }
    }
    /// As [`SiteCall::end`], of several tensors.
    ///
    /// # Errors
    /// Those of hooks.
    #[track_caller]
    pub fn end_all<const N: usize>(self, outputs: [Tensor; N]) -> Result<[Tensor; N]> {
        match self.hooked {
            None => Ok(outputs),
            Some(hooked) => hooked.end(self.site, outputs),
        }
    }
}
/// Runs a layer of one input or more between its hooks: what a `forward` of the library consists of. A block and not a closure,
/// which would lose the caller's line.
macro_rules! run {
    ($site:expr, $($x:ident),+ => $body:expr) => {{
        let call = $site.begin(&[$($x),+])?;
        let mut number = 0;
        $(
            let $x = call.input(number, $x);
            #[allow(unused_assignments)]
            { number += 1; }
        )+
        let output = $body.ok()?;
        call.end(output)
    }};
}
pub(crate) use run;

/// Any module with a place of its own, so that it can have hooks: one of one's own that holds no [`Site`]. Its parts keep their
/// names.
///
/// ```
/// # use adamant_core::{Result, Tensor};
/// # use adamant_nn::{Hooked, Linear, Module, Walk};
/// # adamant_core::Device::reference().make_current();
/// #[derive(Module)]
/// struct Block { fc: Linear }
/// impl Module for Block {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.fc.forward(&x.relu())
///     }
/// }
/// let block = Hooked::new(Block { fc: Linear::new(2, 3)? });
/// block.register_forward_hook(|site, inputs, outputs| {
///     assert_eq!((site.kind(), inputs[0].dims()?, outputs[0].dims()?), ("Block", [1, 2], [1, 3]));
///     Ok(None)
/// })?;
/// block.forward(&Tensor::ones([1, 2]))?;
/// assert_eq!(block.named_parameters()[0].0, "fc.weight");
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Hooked<M> {
    site: Site,
    inner: M,
}
impl<M: Walk> Hooked<M> {
    /// Around a module.
    pub fn new(inner: M) -> Hooked<M> {
        let name = std::any::type_name::<M>();
        let name = name.split('<').next().unwrap_or(name);
        Hooked { site: Site::container(name.rsplit("::").next().unwrap_or(name)), inner }
    }
    /// What it was made around.
    pub fn into_inner(self) -> M {
        self.inner
    }
}
impl<M> std::ops::Deref for Hooked<M> {
    type Target = M;
    fn deref(&self) -> &M {
        &self.inner
    }
}
impl<M: Walk> Walk for Hooked<M> {
    fn walk(&self, walker: &mut Walker<'_>) {
        self.site.walk(walker);
        self.inner.walk(walker);
    }
    fn duplicate(&self, copies: &mut Copies) -> Result<Hooked<M>> {
        Ok(Hooked { site: self.site.duplicate(copies)?, inner: self.inner.duplicate(copies)? })
    }
}
impl<M: crate::Module> crate::Module for Hooked<M> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin_within(&[x])?;
        let output = self.inner.forward(call.input(0, x))?;
        call.end(output)
    }
}

/// Does nothing at a model's parts: to be walked gives them their paths.
pub(crate) struct Names;
impl Visit for Names {}
