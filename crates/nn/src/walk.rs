//! Walking a model: every part under the path of its fields, always in the same order. Counting, freezing, moving,
//! loading, saving and naming are all visitors of this one walk.
use crate::{
    Copies, LoadOptions, LoadReport, Param, ParameterStats, Role, Site, Submodule,
    duplicate::{Boxed, by_hand},
    modules, state,
};
use adamant_core::{DType, Device, Error, ErrorKind, Result, Tensor, grad::HookHandle};
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

/// What is done at the parts of a model.
pub trait Visit {
    /// A parameter or buffer. A shared one is met at every place it has.
    fn param(&mut self, _path: &str, _param: &Param) {}
    /// A plain tensor: a constant of the model.
    fn constant(&mut self, _path: &str, _tensor: &Tensor) {}
    /// A layer.
    fn site(&mut self, _path: &str, _site: &Site) {}
    /// What holds layers and computes nothing under a path of its own (`Sequential`).
    fn container(&mut self, _path: &str, _site: &Site) {}
    /// A type that is walked by a derive, or a container of this library's: its name. Its [`Visit::site`] comes behind, if it has one.
    fn module(&mut self, _path: &str, _kind: &'static str) {}
    /// A parameter that is computed from others, which are met behind it ([`crate::parametrize`]).
    fn parametrized(&mut self, _path: &str, _param: &Param) {}
    /// A parameter that holds integer codes; the tensors that hold them are met behind it ([`Param::pack`]).
    fn packed(&mut self, _path: &str, _param: &Param) {}
}
/// Carries a visitor through a model and keeps the path.
pub struct Walker<'a> {
    pub(crate) path: String,
    pub(crate) visit: &'a mut dyn Visit,
}
impl Walker<'_> {
    /// Says what kind of module is walked here.
    pub fn module(&mut self, kind: &'static str) {
        self.visit.module(&self.path, kind);
    }
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

    /// The same parts anew, as [`Walk::deep_copy`] makes them. A derive writes it; without it, a type is not copied.
    ///
    /// # Errors
    /// A part that cannot be copied.
    #[track_caller]
    fn duplicate(&self, _copies: &mut Copies) -> Result<Self>
    where
        Self: Sized,
    {
        by_hand(std::any::type_name::<Self>())
    }

    /// A model of its own with the values, modes, names and frozen parameters of this one: parameters and buffers are new ones,
    /// and what was tied is tied. `Clone` of a layer, in contrast, is the same layer once more: its parameters are these. Values
    /// are shared until one side changes them, so a copy takes no memory before. Hooks stay with the original.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Linear, Module, Relu, Sequential, Walk};
    /// # adamant_core::Device::reference().make_current();
    /// let online = Sequential::new().add(Linear::new(4, 8)?).add(Relu::new()).add(Linear::new(8, 2)?);
    /// let target = online.deep_copy()?;
    /// let x = Tensor::ones([1, 4]);
    /// let before = target.forward(&x)?.to_vec::<f32>()?;
    /// for p in online.parameters() {
    ///     p.set(&(p.detached() + 1.0))?;
    /// }
    /// assert_eq!(target.forward(&x)?.to_vec::<f32>()?, before);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// A part that cannot be copied: a type whose `Walk` is written by hand, a field that is passed over and not `Clone`.
    #[track_caller]
    fn deep_copy(&self) -> Result<Self>
    where
        Self: Sized,
    {
        self.duplicate(&mut Copies::default())
    }
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
                site.set_training(self.0);
            }
            fn container(&mut self, _: &str, site: &Site) {
                site.set_training(self.0);
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
        state::state_dict(&|visit| self.visit(visit))
    }
    /// Takes over the values of a state dict: every name must be there and no other. Values are converted to the parameters' dtype and device.
    ///
    /// # Errors
    /// Missing or unknown names (with the nearest known spelling) or another shape; then nothing has changed.
    #[track_caller]
    fn load_state_dict(&self, state: &[(String, Tensor)]) -> Result<()> {
        state::load(&|visit| self.visit(visit), state, LoadOptions::default()).map(|_| ())
    }
    /// As [`Walk::load_state_dict`] with options, and says what did not go together. `strict: false` takes what is there under a
    /// name of the model and leaves the rest.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Linear, LoadOptions, Walk, map_keys};
    /// # adamant_core::Device::reference().make_current();
    /// let layer = Linear::new(2, 1)?;
    /// let saved = vec![("module.weight".to_string(), Tensor::ones([1, 2])), ("module.scale".to_string(), Tensor::ones([1]))];
    /// let state = map_keys(&saved, |name| Some(name.strip_prefix("module.")?.to_string()));
    /// let report = layer.load_state_dict_with(&state, LoadOptions { strict: false, ..Default::default() })?;
    /// assert_eq!((report.missing, report.unexpected), (vec!["bias".to_string()], vec!["scale".to_string()]));
    /// assert_eq!(layer.weight.detached().to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Strict: a missing or unexpected name. Another shape, unless the options pass it over. Then nothing has changed.
    #[track_caller]
    fn load_state_dict_with(&self, state: &[(String, Tensor)], options: LoadOptions) -> Result<LoadReport> {
        state::load(&|visit| self.visit(visit), state, options)
    }
    /// Every module in the model by path, itself first under an empty one, in the order of the fields; a shared one stands at
    /// every place it has.
    ///
    /// ```
    /// # use adamant_nn::{Linear, Relu, Sequential, Walk};
    /// # adamant_core::Device::reference().make_current();
    /// let net = Sequential::new().add(Linear::new(4, 8)?).add(Relu::new());
    /// let found: Vec<(String, &str)> = net.named_modules().into_iter().map(|(path, m)| (path, m.kind)).collect();
    /// assert_eq!(found, [("".into(), "Sequential"), ("0".into(), "Linear"), ("1".into(), "ReLU")]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    fn named_modules(&self) -> Vec<(String, Submodule)> {
        modules::named(&|visit| self.visit(visit))
    }
    /// As [`Walk::named_modules`], without the paths.
    fn modules(&self) -> Vec<Submodule> {
        self.named_modules().into_iter().map(|(_, m)| m).collect()
    }
    /// The module at a path, an empty one being this.
    ///
    /// # Errors
    /// No such path; the nearest one is named.
    #[track_caller]
    fn get_submodule(&self, path: &str) -> Result<Submodule> {
        modules::at(&|visit| self.visit(visit), path)
    }
    /// Calls a function with every module, parts before what holds them, as `torch.nn.Module.apply`.
    ///
    /// ```
    /// # use adamant_nn::{Linear, Sequential, Walk, init};
    /// # adamant_core::Device::reference().make_current();
    /// let net = Sequential::new().add(Linear::new(4, 8)?).add(Linear::new(8, 2)?);
    /// net.apply(&mut |module| match module.parameter("bias") {
    ///     Some(bias) if module.kind == "Linear" => bias.set(&bias.detached().zeros_like()),
    ///     _ => Ok(()),
    /// })?;
    /// assert_eq!(net.named_parameters()[3].1.detached().to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The function's first.
    fn apply(&self, f: &mut dyn FnMut(&Submodule) -> Result<()>) -> Result<()> {
        modules::innermost_first(self.named_modules()).iter().try_for_each(|(_, m)| f(m))
    }
    /// Freezes the parameters whose path a pattern matches, and says how many those are. In a pattern `*` stands for any
    /// characters, dots too, and `?` for one.
    ///
    /// ```
    /// # use adamant_nn::{Linear, Sequential, Walk};
    /// # adamant_core::Device::reference().make_current();
    /// let net = Sequential::new().add(Linear::new(4, 8)?).add(Linear::new(8, 2)?);
    /// assert_eq!(net.freeze_matching("0.*"), 2);
    /// assert_eq!((net.parameters().len(), net.trainable_parameters().len()), (4, 2));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    fn freeze_matching(&self, pattern: &str) -> usize {
        modules::freeze_matching(self.leaves(), pattern, true)
    }
    /// As [`Walk::freeze_matching`], the other way.
    fn unfreeze_matching(&self, pattern: &str) -> usize {
        modules::freeze_matching(self.leaves(), pattern, false)
    }
    /// Mean, standard deviation, extremes and more of every parameter, frozen ones too. Reads them.
    ///
    /// ```
    /// # use adamant_nn::{LayerNorm, Walk};
    /// # adamant_core::Device::reference().make_current();
    /// let stats = LayerNorm::new([3])?.parameter_stats()?;
    /// assert_eq!((stats[0].path.as_str(), stats[0].mean, stats[0].std, stats[1].zeros), ("weight", 1.0, 0.0, 3));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// A parameter that cannot be read.
    #[track_caller]
    fn parameter_stats(&self) -> Result<Vec<ParameterStats>> {
        modules::stats(self.leaves())
    }
    /// Calls a function before each forward pass of this module; see [`crate::hooks`].
    ///
    /// # Errors
    /// A module that runs no hooks; the hint says what to do.
    #[track_caller]
    fn register_forward_pre_hook(&self, hook: impl Fn(&Site, &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync + 'static) -> Result<HookHandle>
    where
        Self: Sized,
    {
        self.get_submodule("")?.site()?.register_forward_pre_hook(hook)
    }
    /// Calls a function after each forward pass of this module; see [`crate::hooks`].
    ///
    /// # Errors
    /// As [`Walk::register_forward_pre_hook`].
    #[track_caller]
    fn register_forward_hook(&self, hook: impl Fn(&Site, &[Tensor], &[Tensor]) -> Result<Option<Vec<Tensor>>> + Send + Sync + 'static) -> Result<HookHandle>
    where
        Self: Sized,
    {
        self.get_submodule("")?.site()?.register_forward_hook(hook)
    }
    /// Calls a function with the gradients of this module's outputs at each backward pass, before they pass through it; see
    /// [`crate::hooks`].
    ///
    /// # Errors
    /// As [`Walk::register_forward_pre_hook`].
    #[track_caller]
    fn register_full_backward_pre_hook(
        &self,
        hook: impl Fn(&Site, &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync + 'static,
    ) -> Result<HookHandle>
    where
        Self: Sized,
    {
        self.get_submodule("")?.site()?.register_full_backward_pre_hook(hook)
    }
    /// Calls a function with the gradients of this module's inputs and outputs at each backward pass; see [`crate::hooks`].
    ///
    /// # Errors
    /// As [`Walk::register_forward_pre_hook`].
    #[track_caller]
    fn register_full_backward_hook(
        &self,
        hook: impl Fn(&Site, &[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync + 'static,
    ) -> Result<HookHandle>
    where
        Self: Sized,
    {
        self.get_submodule("")?.site()?.register_full_backward_hook(hook)
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
pub trait Module: Walk + crate::duplicate::DuplicateModule {
    /// The output for an input.
    ///
    /// # Errors
    /// The first error met, naming the layer's path and the caller's line.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor>;
}

impl Walk for Param {
    fn walk(&self, walker: &mut Walker<'_>) {
        if self.is_given_up() {
            return;
        }
        self.name_it(&walker.path);
        if let Some(parts) = self.parts() {
            return crate::packed::walk(&parts, self, walker);
        }
        match self.parametrized() {
            Some(parts) => crate::parametrize::walk(&parts, self, walker),
            None => walker.visit.param(&walker.path, self),
        }
    }
    fn duplicate(&self, copies: &mut Copies) -> Result<Param> {
        copies.param(self)
    }
}
impl Walk for Tensor {
    fn walk(&self, walker: &mut Walker<'_>) {
        walker.visit.constant(&walker.path, self);
    }
    fn duplicate(&self, _: &mut Copies) -> Result<Tensor> {
        Ok(self.clone())
    }
}
/// A random generator is state of its own and no part of the weights.
impl Walk for adamant_core::Rng {
    fn walk(&self, _: &mut Walker<'_>) {}
    fn duplicate(&self, _: &mut Copies) -> Result<adamant_core::Rng> {
        let copy = adamant_core::Rng::new_on(0, 0, self.cell().meta().device)?;
        copy.cell().set(&self.cell().detached())?;
        Ok(copy)
    }
}
impl<T: Walk> Walk for Option<T> {
    fn walk(&self, walker: &mut Walker<'_>) {
        if let Some(part) = self {
            part.walk(walker);
        }
    }
    fn duplicate(&self, copies: &mut Copies) -> Result<Option<T>> {
        self.as_ref().map(|part| part.duplicate(copies)).transpose()
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
    fn duplicate(&self, copies: &mut Copies) -> Result<Vec<T>> {
        self.iter().map(|part| part.duplicate(copies)).collect()
    }
}
impl<T: Walk, const N: usize> Walk for [T; N] {
    fn walk(&self, walker: &mut Walker<'_>) {
        self.as_slice().walk(walker);
    }
    fn duplicate(&self, copies: &mut Copies) -> Result<[T; N]> {
        let parts: Vec<T> = self.iter().map(|part| part.duplicate(copies)).collect::<Result<_>>()?;
        parts.try_into().map_err(|_| Error::new("deep_copy", ErrorKind::Internal("another number of parts".into())))
    }
}
impl<T: Walk> Walk for BTreeMap<String, T> {
    fn walk(&self, walker: &mut Walker<'_>) {
        for (name, part) in self {
            walker.child(name, part);
        }
    }
    fn duplicate(&self, copies: &mut Copies) -> Result<BTreeMap<String, T>> {
        self.iter().map(|(name, part)| Ok((name.clone(), part.duplicate(copies)?))).collect()
    }
}
macro_rules! through { ($($pointer:ident),*) => { $(
    impl<T: Walk + Boxed + ?Sized> Walk for $pointer<T> {
        fn walk(&self, walker: &mut Walker<'_>) {
            (**self).walk(walker);
        }
        fn duplicate(&self, copies: &mut Copies) -> Result<$pointer<T>> {
            Ok((**self).boxed_duplicate(copies)?.into())
        }
    }
    impl<T: Module + Boxed + ?Sized> Module for $pointer<T> {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            (**self).forward(x)
        }
    }
)* } }
through!(Box, Arc);
