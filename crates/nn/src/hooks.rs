//! Hooks of modules: functions called before and after a layer computes, and when gradients pass back through it.
//!
//! Registered on a module ([`Walk::register_forward_hook`](crate::Walk::register_forward_hook) and its like), on the module at a
//! path (`net.get_submodule("features.0")?.site()?.register_forward_hook(..)`), or for all modules ([`register_module_forward_hook`]
//! and its like, which run before those of the module). Hooks run in the order of registration; each sees what the one before left.
//! What is returned takes the place of what was given, `None` leaves it. [`HookHandle::remove`] takes a hook away; to drop the handle
//! does not.
//!
//! | hook | is called with | may replace |
//! |---|---|---|
//! | forward pre | inputs | inputs |
//! | forward | inputs, outputs | outputs |
//! | full backward pre | gradients of outputs | these |
//! | full backward | gradients of inputs, gradients of outputs | gradients of inputs |
//!
//! **Which modules.** All layers of this library that compute, also in `Sequential` and in modules of one's own, and
//! [`Sequential`](crate::Sequential). A module of one's own runs hooks if its `forward` goes through [`Site::begin`], or if it is
//! wrapped in [`Hooked`](crate::Hooked). On any other, registration is an error that says so: no hook is dropped silently. Hooks of
//! [`Param`](crate::Param)s and tensors ([`Tensor::register_hook`]) see their gradients.
//!
//! **What it costs.** Without hooks a forward pass asks two numbers for each layer, and a backward pass one for each node.
//!
//! **Compiled functions.** A hook runs when the function is captured: what it computes from its tensors is recorded and runs at each
//! call. What it does in Rust it does once, unless by [`effect`](adamant_core::compile::effect); to read a tensor there is the error of all
//! reads in a capture. To register or remove a hook makes functions that were captured before be captured anew at their next call.
//!
//! **Transforms and checkpoints.** Under `vmap`, `jvp` and `grad` hooks see the tensors of the transformed function. A stretch that
//! is computed again calls them again.
//!
//! Source: `torch.nn.Module.register_forward_hook` and its like, `torch.nn.modules.module.register_module_forward_hook`.
use crate::{Site, site::Place};
pub use adamant_core::grad::HookHandle;
use adamant_core::{
    Error, ErrorKind, Result, Tensor,
    grad::{grad_enabled, hooks_changed, tap},
};
use parking_lot::{Mutex, RwLock};
use std::sync::{
    Arc, LazyLock, Weak,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

type Gradients = [Option<Tensor>];
type PreHook = Arc<dyn Fn(&Site, &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync>;
type ForwardHook = Arc<dyn Fn(&Site, &[Tensor], &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync>;
type BackwardPreHook = Arc<dyn Fn(&Site, &Gradients) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync>;
type BackwardHook = Arc<dyn Fn(&Site, &Gradients, &Gradients) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync>;

#[derive(Default)]
pub(crate) struct SiteHooks {
    pre: Vec<(u64, PreHook)>,
    forward: Vec<(u64, ForwardHook)>,
    backward_pre: Vec<(u64, BackwardPreHook)>,
    backward: Vec<(u64, BackwardHook)>,
}
impl SiteHooks {
    pub fn is_empty(&self) -> bool {
        self.pre.is_empty() && self.forward.is_empty() && self.backward_pre.is_empty() && self.backward.is_empty()
    }
    /// Takes a hook out, which is dropped by the caller: it is a user's closure.
    fn take(&mut self, number: u64) -> SiteHooks {
        fn out<T>(list: &mut Vec<(u64, T)>, number: u64) -> Vec<(u64, T)> {
            list.iter().position(|(n, _)| *n == number).map(|k| list.remove(k)).into_iter().collect()
        }
        let (pre, forward) = (out(&mut self.pre, number), out(&mut self.forward, number));
        SiteHooks { pre, forward, backward_pre: out(&mut self.backward_pre, number), backward: out(&mut self.backward, number) }
    }
}
static GLOBAL: LazyLock<RwLock<SiteHooks>> = LazyLock::new(Default::default);
static HAS_GLOBAL: AtomicBool = AtomicBool::new(false);
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Are there hooks of all modules?
#[inline]
pub(crate) fn any_global() -> bool {
    HAS_GLOBAL.load(Relaxed)
}
fn count_global() {
    HAS_GLOBAL.store(!GLOBAL.read().is_empty(), Relaxed);
    hooks_changed();
}
fn register_global(put: impl FnOnce(&mut SiteHooks, u64)) -> HookHandle {
    let number = NUMBERS.fetch_add(1, Relaxed);
    put(&mut GLOBAL.write(), number);
    count_global();
    HookHandle::new(move || {
        let gone = GLOBAL.write().take(number);
        count_global();
        drop(gone);
    })
}
#[track_caller]
fn register(site: &Site, op: &'static str, put: impl FnOnce(&mut SiteHooks, u64)) -> Result<HookHandle> {
    if !site.runs_hooks() {
        let (kind, path) = (site.kind(), site.path());
        let place = if path.is_empty() { String::new() } else { format!(" at `{path}`") };
        return Err(Error::new(op, ErrorKind::Argument(format!("the {kind}{place} runs no hooks")))
            .hint("wrap it in `Hooked`, or give it a `Site::with_hooks` and have its `forward` go through `Site::begin`"));
    }
    let number = NUMBERS.fetch_add(1, Relaxed);
    put(&mut site.place().hooks.write(), number);
    site.place().count_hooks();
    hooks_changed();
    let place: Weak<Place> = site.weak();
    Ok(HookHandle::new(move || {
        let Some(place) = place.upgrade() else { return };
        let gone = place.hooks.write().take(number);
        place.count_hooks();
        hooks_changed();
        drop(gone);
    }))
}
impl Site {
    /// Calls a function before each forward pass of the layer, with its inputs.
    ///
    /// # Errors
    /// A layer that runs no hooks.
    #[track_caller]
    pub fn register_forward_pre_hook(&self, hook: impl Fn(&Site, &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync + 'static) -> Result<HookHandle> {
        register(self, "register_forward_pre_hook", |hooks, n| hooks.pre.push((n, Arc::new(hook))))
    }
    /// Calls a function after each forward pass of the layer, with its inputs and outputs.
    ///
    /// # Errors
    /// A layer that runs no hooks.
    #[track_caller]
    pub fn register_forward_hook(
        &self,
        hook: impl Fn(&Site, &[Tensor], &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        register(self, "register_forward_hook", |hooks, n| hooks.forward.push((n, Arc::new(hook))))
    }
    /// Calls a function at each backward pass with the gradients of the outputs, before they pass through the layer.
    ///
    /// # Errors
    /// A layer that runs no hooks.
    #[track_caller]
    pub fn register_full_backward_pre_hook(
        &self,
        hook: impl Fn(&Site, &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        register(self, "register_full_backward_pre_hook", |hooks, n| hooks.backward_pre.push((n, Arc::new(hook))))
    }
    /// Calls a function at each backward pass with the gradients of inputs and outputs, once they are there. No gradient: `None`. Where
    /// no input is tracked, it is called when the outputs' gradients arrive, with none for the inputs.
    ///
    /// # Errors
    /// A layer that runs no hooks.
    #[track_caller]
    pub fn register_full_backward_hook(
        &self,
        hook: impl Fn(&Site, &[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        register(self, "register_full_backward_hook", |hooks, n| hooks.backward.push((n, Arc::new(hook))))
    }
}
/// As [`Site::register_forward_pre_hook`], of all modules that run hooks.
pub fn register_module_forward_pre_hook(hook: impl Fn(&Site, &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync + 'static) -> HookHandle {
    register_global(|hooks, n| hooks.pre.push((n, Arc::new(hook))))
}
/// As [`Site::register_forward_hook`], of all modules that run hooks.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Module, Relu, Sequential, hooks::register_module_forward_hook};
/// # use std::sync::{Arc, Mutex};
/// # adamant_core::Device::reference().make_current();
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let note = seen.clone();
/// let handle = register_module_forward_hook(move |site, _, _| {
///     note.lock().unwrap().push(site.kind());
///     Ok(None)
/// });
/// Sequential::new().add(Linear::new(2, 2)?).add(Relu::new()).forward(&Tensor::ones([1, 2]))?;
/// handle.remove();
/// assert_eq!(*seen.lock().unwrap(), ["Linear", "ReLU", "Sequential"]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn register_module_forward_hook(hook: impl Fn(&Site, &[Tensor], &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync + 'static) -> HookHandle {
    register_global(|hooks, n| hooks.forward.push((n, Arc::new(hook))))
}
/// As [`Site::register_full_backward_pre_hook`], of all modules that run hooks.
pub fn register_module_full_backward_pre_hook(
    hook: impl Fn(&Site, &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync + 'static,
) -> HookHandle {
    register_global(|hooks, n| hooks.backward_pre.push((n, Arc::new(hook))))
}
/// As [`Site::register_full_backward_hook`], of all modules that run hooks.
pub fn register_module_full_backward_hook(
    hook: impl Fn(&Site, &[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync + 'static,
) -> HookHandle {
    register_global(|hooks, n| hooks.backward.push((n, Arc::new(hook))))
}

/// The hooks of all modules and then those of a layer, of one kind. Taken out: they run while nothing is locked.
fn both<T: Clone>(site: &Site, list: fn(&SiteHooks) -> &Vec<(u64, T)>) -> Vec<T> {
    let mut all: Vec<T> = list(&GLOBAL.read()).iter().map(|(_, hook)| hook.clone()).collect();
    all.extend(list(&site.place().hooks.read()).iter().map(|(_, hook)| hook.clone()));
    all
}
#[track_caller]
fn as_many<T>(hook: &'static str, was: usize, others: Vec<T>) -> Result<Vec<T>> {
    if others.len() == was {
        return Ok(others);
    }
    Err(Error::new(hook, ErrorKind::Argument(format!("a hook returns {} tensors in the place of {was}", others.len()))))
}

/// What stands between the gradients of a layer's outputs and those of its inputs.
struct BackwardHooks {
    site: Site,
    pre: Vec<BackwardPreHook>,
    hooks: Vec<BackwardHook>,
    inputs: usize,
    /// The gradients of the outputs, until those of the inputs arrive.
    outputs: Mutex<Vec<Option<Tensor>>>,
}
impl BackwardHooks {
    fn outputs_arrived(&self, arrived: &Gradients, runs_here: bool) -> Result<Option<Vec<Option<Tensor>>>> {
        let mut gradients = arrived.to_vec();
        for hook in &self.pre {
            if let Some(others) = hook(&self.site, &gradients)? {
                gradients = as_many("register_full_backward_pre_hook", gradients.len(), others)?;
            }
        }
        if runs_here {
            let none = vec![None; self.inputs];
            for hook in &self.hooks {
                hook(&self.site, &none, &gradients)?;
            }
        } else {
            *self.outputs.lock() = gradients.clone();
        }
        Ok(Some(gradients))
    }
    fn inputs_arrived(&self, arrived: &Gradients) -> Result<Option<Vec<Option<Tensor>>>> {
        let outputs = std::mem::take(&mut *self.outputs.lock());
        let mut gradients = arrived.to_vec();
        for hook in &self.hooks {
            if let Some(others) = hook(&self.site, &gradients, &outputs)? {
                gradients = as_many("register_full_backward_hook", gradients.len(), others)?;
            }
        }
        Ok(Some(gradients))
    }
}

/// A layer with hooks at work.
pub(crate) struct HookedCall {
    inputs: Vec<Tensor>,
    /// With whether an input is tracked.
    back: Option<(Arc<BackwardHooks>, bool)>,
}
impl HookedCall {
    #[track_caller]
    #[cold]
    pub fn begin(site: &Site, inputs: &[&Tensor]) -> Result<HookedCall> {
        let mut inputs: Vec<Tensor> = inputs.iter().map(|t| (*t).clone()).collect();
        for hook in both(site, |h| &h.pre) {
            if let Some(others) = hook(site, &inputs)? {
                inputs = as_many("register_forward_pre_hook", inputs.len(), others)?;
            }
        }
        let (pre, hooks) = (both(site, |h| &h.backward_pre), both(site, |h| &h.backward));
        if (pre.is_empty() && hooks.is_empty()) || !grad_enabled() {
            return Ok(HookedCall { inputs, back: None });
        }
        let back = Arc::new(BackwardHooks { site: site.clone(), pre, hooks, inputs: inputs.len(), outputs: Mutex::default() });
        let tracked = inputs.iter().any(Tensor::is_tracked);
        if tracked {
            let arrives = back.clone();
            inputs = tap(&inputs.iter().collect::<Vec<_>>(), move |gradients| arrives.inputs_arrived(gradients))?;
        }
        Ok(HookedCall { inputs, back: Some((back, tracked)) })
    }
    pub fn input(&self, number: usize) -> Option<&Tensor> {
        self.inputs.get(number)
    }
    #[track_caller]
    #[cold]
    pub fn end_one(self, site: &Site, output: Tensor) -> Result<Tensor> {
        let [output] = self.end(site, [output])?;
        Ok(output)
    }
    #[track_caller]
    #[cold]
    pub fn end<const N: usize>(self, site: &Site, outputs: [Tensor; N]) -> Result<[Tensor; N]> {
        let mut outputs = outputs.to_vec();
        for hook in both(site, |h| &h.forward) {
            if let Some(others) = hook(site, &self.inputs, &outputs)? {
                outputs = as_many("register_forward_hook", outputs.len(), others)?;
            }
        }
        if let Some((back, tracked)) = self.back {
            outputs = tap(&outputs.iter().collect::<Vec<_>>(), move |gradients| back.outputs_arrived(gradients, !tracked))?;
        }
        outputs.try_into().map_err(|_| Error::new("register_forward_hook", ErrorKind::Internal("another number of outputs".into())))
    }
}
