//! Walking a model: every part under the path of its fields, always in the same order. Counting, freezing, moving,
//! loading, saving and naming are all visitors of this one walk.
use crate::{Param, Role};
use adamant_core::{DType, Device, Error, ErrorKind, Flag, Result, Tensor, scope};
use parking_lot::RwLock;
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

/// Where a layer stands: its path in the model, for errors and profiles, and whether it is training.
/// Every layer holds one. Clones are the same place.
#[derive(Clone)]
pub struct Site(Arc<SitePlace>);
struct SitePlace {
    kind: &'static str,
    path: RwLock<Arc<str>>,
    training: Flag,
}
impl Site {
    /// The place of a layer of a kind (`"Linear"`), which stands for the path until the model is walked.
    pub fn new(kind: &'static str) -> Site {
        Site(Arc::new(SitePlace { kind, path: RwLock::new("".into()), training: Flag::new(true) }))
    }
    /// Enters the layer: what is applied until the guard drops names its path.
    #[track_caller]
    pub fn enter(&self) -> scope::ScopeGuard {
        let path = self.0.path.read().clone();
        if path.is_empty() { scope::enter(self.0.kind) } else { scope::enter_path(&path) }
    }
    /// Training (dropout on, batch statistics) or evaluating?
    pub fn is_training(&self) -> bool {
        self.0.training.get()
    }
    /// The layer's kind.
    pub fn kind(&self) -> &'static str {
        self.0.kind
    }
    /// The path, empty until the model was walked.
    pub fn path(&self) -> Arc<str> {
        self.0.path.read().clone()
    }
}
impl Walk for Site {
    fn walk(&self, walker: &mut Walker<'_>) {
        longer(&self.0.path, &walker.path);
        walker.visit.site(&walker.path, self);
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

/// What is done at the parts of a model.
pub trait Visit {
    /// A parameter or buffer. A shared one is met at every place it has.
    fn param(&mut self, _path: &str, _param: &Param) {}
    /// A plain tensor: a constant of the model.
    fn constant(&mut self, _path: &str, _tensor: &Tensor) {}
    /// A layer.
    fn site(&mut self, _path: &str, _site: &Site) {}
}
/// Carries a visitor through a model and keeps the path.
pub struct Walker<'a> {
    path: String,
    visit: &'a mut dyn Visit,
}
impl Walker<'_> {
    /// Walks a part under a name.
    pub fn child(&mut self, name: &str, part: &(impl Walk + ?Sized)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        part.walk(self);
        self.path.truncate(length);
    }
}

/// Anything that holds parameters. `#[derive(Module)]` writes [`Walk::walk`]; the rest comes with it.
///
/// ```
/// # use adamant_nn::{Linear, Module, Walk};
/// # use adamant_core::{Result, Tensor};
/// # adamant_core::Device::reference().make_current();
/// #[derive(Module)]
/// struct Net { hidden: Linear, head: Linear }
/// impl Module for Net {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.head.forward(&self.hidden.forward(x)?.relu())
///     }
/// }
/// let net = Net { hidden: Linear::new(4, 8)?, head: Linear::new(8, 2)? };
/// let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["hidden.weight", "hidden.bias", "head.weight", "head.bias"]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no part of a model",
    label = "cannot be walked",
    note = "write #[derive(Module)] on the type, or #[module(skip)] on the field if it holds no parameters"
)]
pub trait Walk: Send + Sync {
    /// Hands every part to the walker under its name, in a fixed order.
    fn walk(&self, walker: &mut Walker<'_>);

    /// Walks the whole model.
    fn visit(&self, visit: &mut dyn Visit) {
        self.walk(&mut Walker { path: String::new(), visit });
    }
    /// The parameters, frozen ones too, in the order of the fields, shared ones once.
    fn parameters(&self) -> Vec<Param> {
        self.named_parameters().into_iter().map(|(_, p)| p).collect()
    }
    /// As [`Walk::parameters`], with the path of the first place of each.
    fn named_parameters(&self) -> Vec<(String, Param)> {
        self.leaves().into_iter().filter(|(_, p)| p.role() == Role::Trainable).collect()
    }
    /// The parameters that gradients flow to: [`Walk::parameters`] without the frozen ones.
    fn trainable_parameters(&self) -> Vec<Param> {
        self.parameters().into_iter().filter(Param::is_trainable).collect()
    }
    /// The buffers, saved or not.
    fn named_buffers(&self) -> Vec<(String, Param)> {
        self.leaves().into_iter().filter(|(_, p)| p.role() != Role::Trainable).collect()
    }
    /// All parameters (frozen ones too) and buffers, shared ones once.
    fn leaves(&self) -> Vec<(String, Param)> {
        leaves(&|visit| self.visit(visit))
    }
    /// Number of elements of all parameters, frozen ones too.
    fn parameter_count(&self) -> usize {
        self.leaves().iter().filter(|(_, p)| p.role() == Role::Trainable).map(|(_, p)| p.elements()).sum()
    }
    /// Bytes of parameters, buffers and constants, shared ones once.
    fn memory_usage(&self) -> usize {
        memory_usage(&|visit| self.visit(visit))
    }
    /// Training mode for every layer: dropout drops, batch norm uses and updates batch statistics.
    fn train(&self) {
        self.set_training(true);
    }
    /// Evaluation mode for every layer.
    fn eval(&self) {
        self.set_training(false);
    }
    /// Training or evaluation mode for every layer.
    fn set_training(&self, training: bool) {
        struct SetMode(bool);
        impl Visit for SetMode {
            fn site(&mut self, _: &str, site: &Site) {
                site.0.training.set(self.0);
            }
        }
        self.visit(&mut SetMode(training));
    }
    /// Is the first layer training? A model without layers counts as evaluating.
    fn is_training(&self) -> bool {
        struct FirstMode(Option<bool>);
        impl Visit for FirstMode {
            fn site(&mut self, _: &str, site: &Site) {
                self.0.get_or_insert(site.is_training());
            }
        }
        let mut first = FirstMode(None);
        self.visit(&mut first);
        first.0.unwrap_or(false)
    }
    /// No gradients flow to the parameters from now on.
    fn freeze(&self) {
        self.leaves().iter().for_each(|(_, p)| p.set_frozen(true));
    }
    /// Gradients flow to the parameters again.
    fn unfreeze(&self) {
        self.leaves().iter().for_each(|(_, p)| p.set_frozen(false));
    }
    /// Moves parameters and buffers to a device. Make the optimizer afterwards.
    ///
    /// # Errors
    /// No memory there; a field that is a plain tensor, which cannot move.
    #[track_caller]
    fn to(&self, device: Device) -> Result<()> {
        to(&|visit| self.visit(visit), device)
    }
    /// Converts parameters and buffers that hold floats to another float dtype.
    ///
    /// # Errors
    /// A dtype that has no gradients.
    #[track_caller]
    fn cast(&self, dtype: DType) -> Result<()> {
        for (_, p) in self.leaves() {
            p.cast(dtype)?;
        }
        Ok(())
    }
    /// Parameters and saved buffers by path, in the order of the fields. A shared one stands at every place it has, as in PyTorch.
    fn state_dict(&self) -> Vec<(String, Tensor)> {
        crate::state::state_dict(&|visit| self.visit(visit))
    }
    /// Takes over the values of a state dict: every name must be there and no other. Values are converted to the parameters' dtype and device.
    ///
    /// # Errors
    /// Missing or unknown names (with the nearest known spelling) or another shape; then nothing has changed.
    #[track_caller]
    fn load_state_dict(&self, state: &[(String, Tensor)]) -> Result<()> {
        crate::state::load_state_dict(&|visit| self.visit(visit), state)
    }
}

/// How a model is walked. What walks do stands below in functions of this, and is compiled once: every type that is walked has
/// all of [`Walk`].
pub(crate) type Visiting<'a> = dyn Fn(&mut dyn Visit) + 'a;

fn leaves(model: &Visiting<'_>) -> Vec<(String, Param)> {
    #[derive(Default)]
    struct Leaves(Vec<(String, Param)>, HashSet<usize>);
    impl Visit for Leaves {
        fn param(&mut self, path: &str, p: &Param) {
            if self.1.insert(p.id()) {
                self.0.push((path.to_string(), p.clone()));
            }
        }
    }
    let mut leaves = Leaves::default();
    model(&mut leaves);
    leaves.0
}
fn memory_usage(model: &Visiting<'_>) -> usize {
    struct Constants(usize);
    impl Visit for Constants {
        fn constant(&mut self, _: &str, t: &Tensor) {
            self.0 += t.try_meta().map_or(0, |m| m.bytes());
        }
    }
    let mut constants = Constants(0);
    model(&mut constants);
    constants.0 + leaves(model).iter().map(|(_, p)| p.meta().bytes()).sum::<usize>()
}
#[track_caller]
fn to(model: &Visiting<'_>, device: Device) -> Result<()> {
    struct Fixed(Option<String>, Device);
    impl Visit for Fixed {
        fn constant(&mut self, path: &str, t: &Tensor) {
            if t.device().is_ok_and(|d| d != self.1) {
                self.0.get_or_insert(path.to_string());
            }
        }
    }
    let mut fixed = Fixed(None, device);
    model(&mut fixed);
    if let Some(path) = fixed.0 {
        return Err(Error::new("to", ErrorKind::Argument(format!("`{path}` is a plain tensor and cannot move with the model")))
            .hint(adamant_core::Hint::new("make the field a buffer").code("Param::buffer(&x)?")));
    }
    for (_, p) in leaves(model) {
        p.move_to(device)?;
    }
    Ok(())
}

/// A module from one tensor to one tensor.
pub trait Module: Walk {
    /// The output for an input.
    ///
    /// # Errors
    /// The first error met, naming the layer's path and the caller's line.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor>;
}

impl Walk for Param {
    fn walk(&self, walker: &mut Walker<'_>) {
        self.name_it(&walker.path);
        walker.visit.param(&walker.path, self);
    }
}
impl Walk for Tensor {
    fn walk(&self, walker: &mut Walker<'_>) {
        walker.visit.constant(&walker.path, self);
    }
}
/// A random generator is state of its own and no part of the weights.
impl Walk for adamant_core::Rng {
    fn walk(&self, _: &mut Walker<'_>) {}
}
impl<T: Walk> Walk for Option<T> {
    fn walk(&self, walker: &mut Walker<'_>) {
        if let Some(part) = self {
            part.walk(walker);
        }
    }
}
impl<T: Walk> Walk for [T] {
    fn walk(&self, walker: &mut Walker<'_>) {
        for (k, part) in self.iter().enumerate() {
            walker.child(&k.to_string(), part);
        }
    }
}
impl<T: Walk> Walk for Vec<T> {
    fn walk(&self, walker: &mut Walker<'_>) {
        self.as_slice().walk(walker);
    }
}
impl<T: Walk, const N: usize> Walk for [T; N] {
    fn walk(&self, walker: &mut Walker<'_>) {
        self.as_slice().walk(walker);
    }
}
impl<T: Walk> Walk for BTreeMap<String, T> {
    fn walk(&self, walker: &mut Walker<'_>) {
        for (name, part) in self {
            walker.child(name, part);
        }
    }
}
macro_rules! through { ($($pointer:ty),*) => { $(
    impl<T: Walk + ?Sized> Walk for $pointer {
        fn walk(&self, walker: &mut Walker<'_>) {
            (**self).walk(walker);
        }
    }
    impl<T: Module + ?Sized> Module for $pointer {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            (**self).forward(x)
        }
    }
)* } }
through!(Box<T>, Arc<T>);
