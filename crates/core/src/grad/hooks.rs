//! Hooks: functions that see, and may replace, a gradient on its way back.
//!
//! A hook is called by the walk that computes the gradient, with the whole gradient of its tensor, and what it computes is
//! recorded like any rule: in a compiled step it becomes part of the plan, and `backward_graph` differentiates it. Where no
//! hook is registered in the process, a walk asks one number for each node.
use super::{Grads, Parent, Tape, TapeKind, tape::NEXT};
use crate::{
    Cell, Error, ErrorKind, Origin, Result, Tensor,
    compile::{capture_number, decide_once},
    composite::Cotangents,
    recycle::Shared,
};
use parking_lot::{Mutex, RwLock};
use smallvec::{SmallVec, smallvec};
use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

/// What a registration gives: the hook can be taken away by it. Dropping it leaves the hook where it is.
#[derive(Clone)]
pub struct HookHandle(Arc<dyn Fn() + Send + Sync>);
impl HookHandle {
    /// Of what takes the hook away, which is called once for each [`HookHandle::remove`].
    pub fn new(remove: impl Fn() + Send + Sync + 'static) -> HookHandle {
        HookHandle(Arc::new(remove))
    }
    /// Takes the hook away; a second time nothing happens.
    pub fn remove(&self) {
        (self.0)();
    }
}
impl fmt::Debug for HookHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookHandle")
    }
}

/// Counts registrations and removals that a capture of before may not know of.
static CHANGES: AtomicU64 = AtomicU64::new(0);
/// The key by which a capture notes that it is good for the hooks there are: no cell has this number.
const CHANGES_KEY: u64 = u64::MAX;
/// A hook was registered or taken away: functions that were compiled before are captured anew. What a capture itself registers
/// goes with it.
pub fn hooks_changed() {
    if capture_number() == 0 {
        CHANGES.fetch_add(1, Relaxed);
    }
}
/// The capture at work, if there is one, is good only while the hooks are those of now.
#[inline]
pub fn depends_on_hooks() {
    if capture_number() != 0 {
        let seen = CHANGES.load(Relaxed);
        decide_once(CHANGES_KEY, move || CHANGES.load(Relaxed) == seen);
    }
}

type TensorHook = Arc<dyn Fn(&Tensor) -> Option<Tensor> + Send + Sync>;
/// The hooks of one place on the tape.
struct PlaceHooks {
    is_leaf: bool,
    retained: AtomicBool,
    list: Mutex<Vec<(u64, TensorHook)>>,
}
/// By the number of a node and of its output. A node that goes takes its entries along.
static PLACES: LazyLock<RwLock<HashMap<(u64, u8), Arc<PlaceHooks>>>> = LazyLock::new(Default::default);
/// How many places there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Is there any hook in the process?
#[inline]
pub(super) fn any() -> bool {
    COUNT.load(Relaxed) != 0
}
fn hooks_of(node: &Shared<Tape>, output: u8) -> Arc<PlaceHooks> {
    let mut places = PLACES.write();
    let is_leaf = matches!(node.kind, TapeKind::Leaf);
    let hooks =
        places.entry((node.id, output)).or_insert_with(|| Arc::new(PlaceHooks { is_leaf, retained: AtomicBool::new(false), list: Mutex::default() })).clone();
    node.hooked.store(true, Relaxed);
    COUNT.store(places.len(), Relaxed);
    hooks
}
fn found(id: u64, output: u8) -> Option<Arc<PlaceHooks>> {
    PLACES.read().get(&(id, output)).cloned()
}
/// A node with hooks goes.
#[cold]
pub(super) fn forget(id: u64, outputs: usize) {
    let mut gone = Vec::new();
    {
        let mut places = PLACES.write();
        gone.extend((0..outputs.max(1)).filter_map(|k| places.remove(&(id, k as u8))));
        COUNT.store(places.len(), Relaxed);
    }
    // A user's closure is dropped while nothing is locked.
    drop(gone);
}
fn add(hooks: &Arc<PlaceHooks>, hook: TensorHook) -> HookHandle {
    let number = NUMBERS.fetch_add(1, Relaxed);
    hooks.list.lock().push((number, hook));
    // Of what is computed, a function captured before knows nothing.
    let changed = |hooks: &PlaceHooks| {
        if hooks.is_leaf {
            hooks_changed()
        }
    };
    changed(hooks);
    let weak = Arc::downgrade(hooks);
    HookHandle::new(move || {
        let Some(hooks) = weak.upgrade() else { return };
        let mut list = hooks.list.lock();
        let gone = list.iter().position(|(n, _)| *n == number).map(|k| list.remove(k));
        drop(list);
        changed(&hooks);
        drop(gone);
    })
}
impl PlaceHooks {
    /// What the hooks make of a gradient, in the order of registration.
    fn run(&self, mut gradient: Tensor) -> Result<Tensor> {
        // Not locked while they run: a hook may register or remove others.
        let all: SmallVec<[TensorHook; 4]> = self.list.lock().iter().map(|(_, hook)| hook.clone()).collect();
        for hook in all {
            if let Some(other) = hook(&gradient) {
                gradient = replaced("register_hook", &gradient, other)?;
            }
        }
        Ok(gradient)
    }
}
/// What stands for a gradient has its shape, dtype and device.
fn replaced(op: &'static str, gradient: &Tensor, other: Tensor) -> Result<Tensor> {
    let other = other.ok()?;
    let (want, got) = (gradient.meta(), other.meta());
    let kind = if want.shape != got.shape {
        ErrorKind::ShapeMismatch { left: want.shape, right: got.shape, axes: None, expected: "what a hook returns has the shape of the gradient" }
    } else if want.dtype != got.dtype {
        ErrorKind::DtypeMismatch { left: want.dtype, right: got.dtype }
    } else if want.device != got.device {
        ErrorKind::DeviceMismatch { left: want.device.to_string(), right: got.device.to_string() }
    } else {
        return Ok(other);
    };
    Err(Error::new(op, kind))
}
/// The key of a retained gradient: that of the node, or beside it for outputs after the first.
pub(super) fn key(id: u64, output: u8) -> u64 {
    id | (output as u64) << 56
}
/// All that came to a node's outputs goes through their hooks; what is retained is noted.
#[cold]
pub(super) fn run_at(node: &Tape, cotangents: &mut Cotangents, grads: &mut Grads) -> Result<()> {
    if !node.hooked.load(Relaxed) {
        return Ok(());
    }
    for (k, g) in cotangents.iter_mut().enumerate() {
        let (Some(hooks), Some(arrived)) = (found(node.id, k as u8), g.take()) else { continue };
        let arrived = hooks.run(arrived)?;
        if hooks.retained.load(Relaxed) {
            grads.add(key(node.id, k as u8), arrived.clone());
        }
        *g = Some(arrived);
    }
    Ok(())
}
/// The gradients of leaves, and of the places where a walk ended, once all has come to them.
pub(super) fn run_at_ends(grads: &mut Grads, ends: &[u64]) -> Result<()> {
    depends_on_hooks();
    if !any() {
        return Ok(());
    }
    let mut ids: Vec<u64> = grads.by_leaf.keys().copied().collect();
    ids.sort_unstable();
    for id in ids {
        let Some(hooks) = found(id, 0).filter(|h| h.is_leaf || ends.contains(&id)) else { continue };
        if let Some(g) = grads.by_leaf.remove(&id) {
            let g = hooks.run(g)?;
            grads.by_leaf.insert(id, g);
        }
    }
    Ok(())
}

impl Tensor {
    #[track_caller]
    fn place_for_hooks(&self, op: &'static str) -> Result<&(Shared<Tape>, u8)> {
        if let Some(e) = self.error() {
            return Err(e);
        }
        self.tape().ok_or_else(|| {
            Error::new(op, ErrorKind::Backward("no gradient comes to a tensor that depends on no tracked tensor or trainable parameter".into()))
                .hint("track it (`Tensor::tracked`), or register before what is computed with gradients on")
        })
    }
    /// Calls `hook` with this tensor's gradient at each backward pass through it, once all of it has arrived. What the hook
    /// returns stands for the gradient from there on; `None` leaves it. Hooks run in the order of registration. A copy of this
    /// tensor is the same place, what is computed from it is another. The hook stays as long as the tensor's place on the tape
    /// does: that of a parameter for the life of its cell.
    ///
    /// The gradient that a hook gets is recorded, not computed: to read it computes it, which inside a compiled step is an error.
    /// Functions compiled before a hook was registered on a leaf, or removed, are captured anew.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # Device::reference().make_current();
    /// let x = Tensor::ones([2]).tracked();
    /// let y = &x * 3.0;
    /// let handle = y.register_hook(|gradient| Some(gradient * 10.0))?;
    /// assert_eq!(y.sum(..).backward_keep()?.get(&x).map(|g| g.to_vec::<f32>()).transpose()?, Some(vec![30.0, 30.0]));
    /// handle.remove();
    /// assert_eq!(y.sum(..).backward()?.get(&x).map(|g| g.to_vec::<f32>()).transpose()?, Some(vec![3.0, 3.0]));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// A tensor that no gradient comes to. At the backward pass: a gradient of another shape, dtype or device; an error that it
    /// carries.
    ///
    /// Source: `torch.Tensor.register_hook`.
    #[track_caller]
    pub fn register_hook(&self, hook: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static) -> Result<HookHandle> {
        let (node, output) = self.place_for_hooks("register_hook")?;
        Ok(add(&hooks_of(node, *output), Arc::new(hook)))
    }
    /// Has [`Grads`] hold this tensor's gradient too, as it is behind the hooks. Leaves have theirs anyway.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # Device::reference().make_current();
    /// let x = Tensor::ones([2]).tracked();
    /// let y = &x * 3.0;
    /// y.retain_grad()?;
    /// let grads = y.square().sum(..).backward()?;
    /// assert_eq!(grads.get(&y).map(|g| g.to_vec::<f32>()).transpose()?, Some(vec![6.0, 6.0]));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// A tensor that no gradient comes to.
    ///
    /// Source: `torch.Tensor.retain_grad`.
    #[track_caller]
    pub fn retain_grad(&self) -> Result<()> {
        let (node, output) = self.place_for_hooks("retain_grad")?;
        if !matches!(node.kind, TapeKind::Leaf) {
            hooks_of(node, *output).retained.store(true, Relaxed);
        }
        Ok(())
    }
}
impl Cell {
    /// As [`Tensor::register_hook`], of the gradient that comes to the cell.
    ///
    /// # Errors
    /// A cell that is not trainable.
    #[track_caller]
    pub fn register_hook(&self, hook: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static) -> Result<HookHandle> {
        match self.leaf() {
            Some(leaf) => Ok(add(&hooks_of(leaf, 0), Arc::new(hook))),
            None => Err(Error::new("register_hook", ErrorKind::Backward("no gradient comes to a cell that is not trainable".into()))),
        }
    }
    /// Takes over the hooks of another cell, whose place it takes: their handles are good for both.
    pub fn adopt_hooks(&self, from: &Cell) {
        let (Some(own), Some(other)) = (self.leaf(), from.leaf()) else { return };
        if let Some(hooks) = found(other.id, 0) {
            own.hooked.store(true, Relaxed);
            let mut places = PLACES.write();
            places.insert((own.id, 0), hooks);
            COUNT.store(places.len(), Relaxed);
        }
    }
}

/// What a [`tap`] does with the gradients of its tensors: `None`, where there is none.
type TapHook = Arc<dyn Fn(&[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync>;
pub(crate) struct Tap(TapHook);
impl Tap {
    pub fn pulled(&self, cotangents: &Cotangents) -> Result<Cotangents> {
        let Some(others) = (self.0)(cotangents)? else { return Ok(cotangents.clone()) };
        if others.len() != cotangents.len() {
            return Err(Error::new("tap", ErrorKind::Argument(format!("{} gradients stand for {}", others.len(), cotangents.len()))));
        }
        let checked = |(was, other): (&Option<Tensor>, Option<Tensor>)| match (was, other) {
            (Some(was), Some(other)) => replaced("tap", was, other).map(Some),
            (None, Some(other)) => other.ok().map(Some),
            (_, None) => Ok(None),
        };
        cotangents.iter().zip(others).map(checked).collect()
    }
}
/// The same values at one new place of the tape, and a function that sees, and may replace, their gradients together when they
/// pass there. It is called once in a walk, if any of the gradients arrives; only what flows through the tensors that are
/// returned passes. Where nothing is tracked the tensors are returned as they are, and the function is never called.
///
/// ```
/// # use adamant_core::{Device, Tensor, grad::tap};
/// # Device::reference().make_current();
/// let x = Tensor::ones([1]).tracked();
/// let tapped = tap(&[&x], |gradients| Ok(Some(gradients.iter().map(|g| g.as_ref().map(|g| g * 10.0)).collect())))?;
/// let grads = (&tapped[0] * 2.0 + &x).sum(..).backward()?;
/// assert_eq!(grads.get(&x).map(Tensor::item::<f32>).transpose()?, Some(21.0));
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// More than 255 tensors; the error of one. At the backward pass: what the function returns; another number of gradients, or one
/// of another shape, dtype or device.
#[track_caller]
pub fn tap(tensors: &[&Tensor], f: impl Fn(&[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync + 'static) -> Result<Vec<Tensor>> {
    let origin = Origin::here();
    if let Some(e) = tensors.iter().find_map(|t| t.error()) {
        return Err(e);
    }
    if !super::grad_enabled() || !tensors.iter().any(|t| t.is_tracked()) {
        return Ok(tensors.iter().map(|t| (*t).clone()).collect());
    }
    if tensors.len() > u8::MAX as usize {
        return Err(Error::at("tap", ErrorKind::Argument(format!("{} tensors: at most 255 share a place on the tape", tensors.len())), origin));
    }
    let metas: SmallVec<[_; 4]> = tensors.iter().map(|t| t.meta()).collect();
    let tape: Shared<Tape> = Shared::new(Tape {
        id: NEXT.fetch_add(1, Relaxed),
        kind: TapeKind::Tap(Tap(Arc::new(f))),
        parents: tensors.iter().map(|t| Parent::of(t)).collect(),
        outputs: metas.iter().copied().collect(),
        metas,
        saved: Mutex::new(Some(super::Saved { inputs: smallvec![None; tensors.len()], ..Default::default() })),
        origin,
        hooked: AtomicBool::new(false),
    });
    let placed = |(k, t): (usize, &&Tensor)| if t.is_tracked() { t.untaped().with_tape(Some((tape.clone(), k as u8))) } else { (*t).clone() };
    Ok(tensors.iter().enumerate().map(placed).collect())
}
