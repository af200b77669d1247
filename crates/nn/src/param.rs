//! `Param`: a leaf of a model. A handle on one cell, with the path it has in the model and the role it plays.
//! Clones are the same parameter, so weights are tied by cloning.
use adamant_core::{Cell, DType, Device, Error, ErrorKind, Flag, Meta, Result, Tensor, compile::decide_once, is_capturing, scope};
use parking_lot::{RwLock, RwLockReadGuard};
use std::sync::Arc;

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
}

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
        let cell = Cell::new(&value.detach(), role == Role::Trainable)?;
        Ok(Param(Arc::new(Inner { cell: RwLock::new(cell), path: RwLock::new("".into()), role, frozen: Flag::new(false) })))
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
    pub fn get(&self) -> Tensor {
        let cell = self.now();
        if self.0.frozen.get() { cell.detached() } else { cell.get() }
    }
    /// The present value without a gradient: [`Param::get`], detached.
    pub fn detached(&self) -> Tensor {
        self.now().detached()
    }
    /// Replaces the value.
    ///
    /// # Errors
    /// As [`Cell::set`]: a failed tensor, another shape, dtype or device.
    #[track_caller]
    pub fn set(&self, value: &Tensor) -> Result<()> {
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
    /// The cell it lives in now.
    pub fn cell(&self) -> Cell {
        self.now().clone()
    }
    /// Shape, dtype and device.
    pub fn meta(&self) -> Meta {
        self.0.cell.read().meta()
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
        self.0.role == Role::Trainable && !self.0.frozen.get()
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
        self.replace(self.detached().to(device))
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
        self.replace(self.detached().cast(dtype))
    }
    #[track_caller]
    fn replace(&self, value: Tensor) -> Result<()> {
        if value.try_meta()? != self.meta() {
            *self.0.cell.write() = Cell::new(&value, self.0.role == Role::Trainable)?;
        }
        Ok(())
    }
    pub(crate) fn name_it(&self, path: &str) {
        crate::walk::longer(&self.0.path, path);
    }
}
impl std::fmt::Debug for Param {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let m = self.meta();
        write!(f, "Param({:?} {} {} {:?})", &*self.path(), m.shape, m.dtype, self.0.role)
    }
}
