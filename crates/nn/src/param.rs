//! `Param`: a leaf of a model. A handle on one cell, with the path it has in the model and the role it plays.
//! Clones are the same parameter, so weights are tied by cloning.
use crate::{
    Copies,
    packed::PackedParts,
    parametrize::{Parametrization, Parametrized},
    site::longer,
};
use adamant_core::{
    Cell, DType, Device, Error, ErrorKind, Flag, Meta, Result, Tensor,
    compile::decide_once,
    grad::{HookHandle, no_grad},
    is_capturing, scope,
};
use parking_lot::{RwLock, RwLockReadGuard};
use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering::Relaxed},
};

/// What a leaf of a model is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Gradients flow to it and optimizers change it.
    Trainable,
    /// State that is saved but not trained (running statistics).
    Buffer,
    /// State that is neither trained nor saved.
    Transient,
}

/// A parameter or buffer: a shared cell. Clones are the same parameter.
#[derive(Clone)]
pub struct Param(Arc<Inner>);
struct Inner {
    /// Replaced as a whole when the parameter moves to another device or dtype: a cell keeps its own for life.
    cell: RwLock<Cell>,
    path: RwLock<Arc<str>>,
    role: Role,
    frozen: Flag,
    state: AtomicU8,
    /// what its value is computed from, in the state `COMPUTED`
    parametrized: RwLock<Option<Arc<Parametrized>>>,
    /// the codes that it holds, in the state `PACKED`
    packed: RwLock<Option<Arc<PackedParts>>>,
    /// what every value that is set passes through, of one that another is computed from
    projection: RwLock<Option<Arc<dyn Parametrization>>>,
}
/// It holds a value.
const PLAIN: u8 = 0;
/// It has no value yet: its shape follows from the first input of its layer.
const LAZY: u8 = 1;
/// Its value is computed from other parameters.
const COMPUTED: u8 = 2;
/// It holds integer codes.
const PACKED: u8 = 3;
/// It holds nothing any more: its norm was folded into another layer.
const GIVEN_UP: u8 = 4;

impl Param {
    /// A trainable parameter that starts as `value`.
    ///
    /// # Errors
    /// The error `value` carries, or a dtype that has no gradients.
    #[track_caller]
    pub fn new(value: &Tensor) -> Result<Param> {
        let dtype = value.dtype()?;
        if !dtype.is_float() {
            return Err(Error::new("parameter", ErrorKind::Dtype(format!("only floats can be trained, not {dtype}")))
                .hint(adamant_core::Hint::new("state that is not trained is a buffer").code("Param::buffer(&x)?")));
        }
        Param::with_role(value, Role::Trainable)
    }
    /// A buffer: saved and moved with the model, not trained.
    ///
    /// # Errors
    /// The error `value` carries.
    #[track_caller]
    pub fn buffer(value: &Tensor) -> Result<Param> {
        Param::with_role(value, Role::Buffer)
    }
    /// A leaf of a given role.
    ///
    /// # Errors
    /// The error `value` carries.
    #[track_caller]
    pub fn with_role(value: &Tensor, role: Role) -> Result<Param> {
        Param::in_state(value, role, PLAIN)
    }
    #[track_caller]
    fn in_state(value: &Tensor, role: Role, state: u8) -> Result<Param> {
        let cell = RwLock::new(Cell::new(&value.detach(), role == Role::Trainable)?);
        let (path, frozen, state) = (RwLock::new("".into()), Flag::new(false), AtomicU8::new(state));
        let (parametrized, packed, projection) = (RwLock::default(), RwLock::default(), RwLock::default());
        Ok(Param(Arc::new(Inner { cell, path, role, frozen, state, parametrized, packed, projection })))
    }
    /// A leaf whose shape is not known yet: the sizes that are not are 0. It gets its value by [`Param::materialize`], or when a
    /// state dict is loaded. Until then its value is an error that names it.
    ///
    /// # Errors
    /// There is no device.
    ///
    /// Source: `torch.nn.parameter.UninitializedParameter`.
    #[track_caller]
    pub fn uninitialized(shape: impl adamant_core::ToShape, dtype: DType, role: Role) -> Result<Param> {
        Param::in_state(&Tensor::full_on(shape, 0, dtype, Device::current()?), role, LAZY)
    }
    /// Has it no value yet?
    #[inline]
    pub fn is_uninitialized(&self) -> bool {
        self.0.state.load(Relaxed) == LAZY
    }
    /// Gives a parameter that has no value yet its first one, in its dtype and on its device. To one that has a value nothing is done.
    ///
    /// # Errors
    /// The error `value` carries; in a function that is being compiled.
    #[track_caller]
    pub fn materialize(&self, value: &Tensor) -> Result<()> {
        if is_capturing() {
            let error = Error::new("lazy layer", ErrorKind::Argument(format!("{} gets its shape while a function is compiled", self.called())));
            return Err(error.hint("run the model once on an example before"));
        }
        let mut cell = self.0.cell.write();
        if self.is_uninitialized() {
            let meta = cell.meta();
            let made = Cell::new(&value.detach().cast(meta.dtype).to(meta.device), self.0.role == Role::Trainable)?;
            made.adopt_hooks(&cell);
            *cell = made;
            self.0.state.store(PLAIN, Relaxed);
        }
        Ok(())
    }
    /// Does it hold a value of its own?
    pub(crate) fn is_plain(&self) -> bool {
        self.0.state.load(Relaxed) == PLAIN
    }
    /// Was it given up ([`crate::Submodule::fold_into`])? No walk meets it then.
    #[inline]
    pub(crate) fn is_given_up(&self) -> bool {
        self.0.state.load(Relaxed) == GIVEN_UP && self.depends_on_cell()
    }
    /// A captured function is good for the cell, which is another one in each state.
    #[cold]
    fn depends_on_cell(&self) -> bool {
        drop(self.now());
        true
    }
    /// Holds nothing from now on. Gives what held its value.
    #[track_caller]
    pub(crate) fn give_up(&self) -> Result<Cell> {
        let empty = Cell::new(&Tensor::shape_only(self.meta()), self.0.role == Role::Trainable)?;
        let mut cell = self.0.cell.write();
        self.0.state.store(GIVEN_UP, Relaxed);
        Ok(std::mem::replace(&mut *cell, empty))
    }
    /// Holds what it gave up.
    pub(crate) fn take_back(&self, cell: Cell) {
        *self.0.cell.write() = cell;
        self.0.state.store(PLAIN, Relaxed);
    }
    pub(crate) fn called(&self) -> String {
        let path = self.path();
        let nameless = if self.is_uninitialized() { "a lazy parameter" } else { "a parameter" };
        if path.is_empty() { nameless.into() } else { format!("`{path}`") }
    }
    #[cold]
    #[track_caller]
    fn no_value(&self) -> Error {
        if self.is_given_up() {
            return Error::new("folded norm", ErrorKind::Argument(format!("{} was given up: its norm is part of the layer before it", self.called())))
                .hint("that layer's weight and bias have what it held");
        }
        Error::new("lazy layer", ErrorKind::Argument(format!("{} has no value yet: its shape follows from the layer's first input", self.called())))
            .hint("run the model once on an example, or load a state dict")
    }
    /// Its value, if it is no cell's own.
    #[cold]
    #[track_caller]
    fn special(&self) -> Tensor {
        if let Some(parts) = self.parts() {
            return parts.value();
        }
        match self.parametrized() {
            Some(parts) => parts.value().unwrap_or_else(Tensor::failed),
            None => Tensor::failed(self.no_value()),
        }
    }
    /// What it is computed from, if it is ([`crate::parametrize`]).
    pub(crate) fn parametrized(&self) -> Option<Arc<Parametrized>> {
        if self.0.state.load(Relaxed) == COMPUTED { self.0.parametrized.read().clone() } else { None }
    }
    /// Every value that is set from now on is what a parametrization makes of it.
    pub(crate) fn project_by(&self, parametrization: Arc<dyn Parametrization>) {
        *self.0.projection.write() = Some(parametrization);
    }
    /// Is computed from other parameters from now on, or, by `None`, holds the value. Functions that were captured before are
    /// captured anew: they are good for a cell.
    #[track_caller]
    pub(crate) fn compute_from(&self, parts: Option<Arc<Parametrized>>, value: &Tensor) -> Result<()> {
        let cell = Cell::new(value, self.0.role == Role::Trainable)?;
        let state = if parts.is_some() { COMPUTED } else { PLAIN };
        *self.0.parametrized.write() = parts;
        *self.0.packed.write() = None;
        self.0.state.store(state, Relaxed);
        *self.0.cell.write() = cell;
        Ok(())
    }
    /// What holds its codes, if it holds such ([`crate::packed`]).
    #[inline]
    pub(crate) fn parts(&self) -> Option<Arc<PackedParts>> {
        if self.0.state.load(Relaxed) == PACKED { self.now_packed() } else { None }
    }
    #[cold]
    fn now_packed(&self) -> Option<Arc<PackedParts>> {
        // A captured function is good for the cell, which packing and unpacking replace.
        drop(self.now());
        self.0.packed.read().clone()
    }
    /// Another parameter that holds the same codes.
    #[track_caller]
    pub(crate) fn with_its_codes(&self) -> Result<Param> {
        let other = Param::in_state(&Tensor::shape_only(self.meta()), self.0.role, PLAIN)?;
        other.hold(self.parts(), &Tensor::shape_only(self.meta()))?;
        Ok(other)
    }
    /// Holds codes from now on, or, by `None`, the value.
    #[track_caller]
    pub(crate) fn hold(&self, parts: Option<Arc<PackedParts>>, value: &Tensor) -> Result<()> {
        let cell = Cell::new(value, self.0.role == Role::Trainable)?;
        let state = if parts.is_some() { PACKED } else { PLAIN };
        *self.0.packed.write() = parts;
        self.0.state.store(state, Relaxed);
        *self.0.cell.write() = cell;
        Ok(())
    }
    /// Calls a function with its gradient at each backward pass; what it returns stands for the gradient. The hook stays when the
    /// parameter moves to another device or dtype.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Linear, Module};
    /// # adamant_core::Device::reference().make_current();
    /// let layer = Linear::no_bias(2, 1)?;
    /// layer.weight.register_hook(|gradient| Some(gradient.clamp(-1.0, 1.0)))?;
    /// let grads = layer.forward(&Tensor::from_slice(&[0.5f32, 9.0], [1, 2]))?.sum(..).backward()?;
    /// assert_eq!(grads.of(&layer.weight.cell()).map(|g| g.to_vec::<f32>()).transpose()?, Some(vec![0.5, 1.0]));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// A buffer; a parameter that is computed from others, which have gradients.
    #[track_caller]
    pub fn register_hook(&self, hook: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static) -> Result<HookHandle> {
        if self.0.state.load(Relaxed) == COMPUTED {
            return Err(Error::new("register_hook", ErrorKind::Argument("a parametrized parameter has no gradient of its own".into()))
                .hint("register on the parameters it is computed from: `named_parameters` gives them"));
        }
        if self.parts().is_some() {
            return Err(self.holds_codes("register_hook"));
        }
        if self.is_given_up() {
            return Err(self.no_value());
        }
        self.0.cell.read().register_hook(hook)
    }
    /// A parameter of its own with the same value, name and role.
    #[track_caller]
    pub(crate) fn apart(&self, copies: &mut Copies) -> Result<Param> {
        let held = self.0.cell.read().clone();
        let state = self.0.state.load(Relaxed);
        let copy = Param::in_state(&held.detached(), self.0.role, state)?;
        *copy.0.path.write() = self.path();
        copy.0.frozen.set(self.0.frozen.get());
        if let Some(parts) = self.parametrized() {
            *copy.0.parametrized.write() = Some(Arc::new(parts.apart(copies)?));
        }
        if let Some(parts) = self.parts() {
            *copy.0.packed.write() = Some(Arc::new(parts.apart(copies)?));
        }
        Ok(copy)
    }
    /// The cell, which a captured function is good for: moved to another device, it lives in another one.
    fn now(&self) -> RwLockReadGuard<'_, Cell> {
        let cell = self.0.cell.read();
        if is_capturing() {
            let (inner, id) = (self.0.clone(), cell.id());
            decide_once(id, move || inner.cell.read().id() == id);
        }
        cell
    }
    /// The present value; gradients flow to it unless it is a buffer or frozen.
    #[track_caller]
    pub fn get(&self) -> Tensor {
        let cell = self.now();
        if self.0.state.load(Relaxed) != PLAIN {
            drop(cell);
            return self.special();
        }
        if self.0.frozen.get() { cell.detached() } else { cell.get() }
    }
    /// The present value without a gradient: [`Param::get`], detached.
    #[track_caller]
    pub fn detached(&self) -> Tensor {
        let cell = self.now();
        if self.0.state.load(Relaxed) != PLAIN {
            drop(cell);
            return no_grad(|| self.special()).detach();
        }
        cell.detached()
    }
    /// Replaces the value.
    ///
    /// # Errors
    /// As [`Cell::set`]: a failed tensor, another shape, dtype or device.
    #[track_caller]
    pub fn set(&self, value: &Tensor) -> Result<()> {
        if self.0.state.load(Relaxed) != PLAIN {
            return match self.parametrized() {
                Some(parts) => parts.set(value),
                None if self.parts().is_some() => Err(self.holds_codes("set")),
                None => Err(self.no_value()),
            };
        }
        let projection = self.0.projection.read().clone();
        let projected = projection.map(|by| by.project(value)).transpose()?;
        let value = projected.as_ref().unwrap_or(value);
        let result = self.cell().set(value);
        if result.is_ok() {
            return result;
        }
        let path = self.path();
        match result {
            // What is refused here is refused for this parameter; an error that the value carries has a place of its own.
            Err(e) if value.error().is_none() && !path.is_empty() => {
                let _scope = scope::enter_path(&path);
                Err(e.within(scope::current()))
            }
            result => result,
        }
    }
    /// Holds a value of another shape from now on, which the layer must know what to do with: a pruned layer's channels. It lives in
    /// another cell then, so gradients and slots made before are not of it; functions that were captured before are captured anew.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Linear, Module};
    /// # adamant_core::Device::reference().make_current();
    /// let layer = Linear::no_bias(4, 3)?;
    /// layer.weight.resize(&layer.weight.detached().narrow(0, 0, 2))?;
    /// assert_eq!(layer.forward(&Tensor::ones([1, 4]))?.dims()?, [1, 2]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// A parameter that is computed or has no value yet; another dtype; the error that the value carries.
    #[track_caller]
    pub fn resize(&self, value: &Tensor) -> Result<()> {
        let refuse = |text: String| Err(Error::new("resize", ErrorKind::Argument(text)));
        if self.0.state.load(Relaxed) != PLAIN {
            return refuse(format!("{} holds no value of its own", self.called()));
        }
        let (old, new) = (self.meta(), value.try_meta()?);
        if old.dtype != new.dtype {
            return refuse(format!("{} holds {}, not {}", self.called(), old.dtype, new.dtype));
        }
        self.replace(value.detach().to(old.device))
    }
    /// The cell it lives in now.
    pub fn cell(&self) -> Cell {
        self.now().clone()
    }
    /// Shape, dtype and device.
    pub fn meta(&self) -> Meta {
        let meta = self.0.cell.read().meta();
        if let Some(parts) = self.parts() {
            return parts.meta();
        }
        match self.parametrized() {
            // Those move, and this is where they are.
            Some(parts) => Meta { shape: meta.shape, ..parts.meta().unwrap_or(meta) },
            None => meta,
        }
    }
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.meta().shape.elements()
    }
    /// What it is for.
    pub fn role(&self) -> Role {
        self.0.role
    }
    /// Do gradients flow to it now?
    pub fn is_trainable(&self) -> bool {
        self.0.role == Role::Trainable && !self.0.frozen.get() && !matches!(self.0.state.load(Relaxed), PACKED | GIVEN_UP)
    }
    /// Stops or resumes the flow of gradients. A frozen parameter is passed over by optimizers.
    pub fn set_frozen(&self, frozen: bool) {
        self.0.frozen.set(frozen);
    }
    /// The dotted path in the model, empty until the model was walked.
    pub fn path(&self) -> Arc<str> {
        self.0.path.read().clone()
    }
    /// Do two handles name the same parameter?
    pub fn same(&self, other: &Param) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// A number that tells parameters apart while they live.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
    /// Moves it to a device. Gradients and slots made before belong to the old place.
    ///
    /// # Errors
    /// No memory there, or a value that carries an error.
    #[track_caller]
    pub fn move_to(&self, device: Device) -> Result<()> {
        if let Some(parts) = self.parametrized() {
            return parts.originals().iter().try_for_each(|p| p.move_to(device));
        }
        if let Some(parts) = self.parts() {
            return parts.move_to(device);
        }
        self.replace(self.held().to(device))
    }
    /// Converts it to a dtype, if it holds floats.
    ///
    /// # Errors
    /// A dtype that has no gradients, for a trainable parameter.
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Result<()> {
        if !self.meta().dtype.is_float() {
            return Ok(());
        }
        if !dtype.is_float() && self.0.role == Role::Trainable {
            return Err(Error::new("cast", ErrorKind::Dtype(format!("a parameter cannot be trained as {dtype}"))));
        }
        if let Some(parts) = self.parametrized() {
            return parts.originals().iter().try_for_each(|p| p.cast(dtype));
        }
        if self.parts().is_some() {
            // Codes and scales are what they are.
            return Ok(());
        }
        self.replace(self.held().cast(dtype))
    }
    /// The value in the cell, also of a lazy one.
    fn held(&self) -> Tensor {
        if self.is_uninitialized() { self.now().detached() } else { self.detached() }
    }
    #[track_caller]
    fn replace(&self, value: Tensor) -> Result<()> {
        if value.try_meta()? != self.meta() {
            let cell = Cell::new(&value, self.0.role == Role::Trainable)?;
            let mut own = self.0.cell.write();
            cell.adopt_hooks(&own);
            *own = cell;
        }
        Ok(())
    }
    pub(crate) fn name_it(&self, path: &str) {
        longer(&self.0.path, path);
    }
}
impl std::fmt::Debug for Param {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let m = self.meta();
        write!(f, "Param({:?} {} {} {:?})", &*self.path(), m.shape, m.dtype, self.0.role)
    }
}
