//! Parameters that are computed from others: a constraint on a weight as a function of what is trained.
//!
//! A [`Parametrization`] put on `weight` of a layer makes the layer read what it computes, and the optimizer train what it computes
//! from. In the state dict these stand under PyTorch's names: `parametrizations.weight.original` (or `original0`, `original1`, ..
//! of one that takes several), and its own parameters and buffers under `parametrizations.weight.0`. Any layer's parameter can
//! have one, also those of recurrent layers (`weight_hh_l0`) and, by its path, one in a model (`features.0.weight`). Make the
//! optimizer afterwards. Functions that were compiled before are captured anew.
//!
//! Source: `torch.nn.utils.parametrize`, `torch.nn.utils.parametrizations`.
use crate::{Copies, Param, Role, Visit, Walk, Walker, duplicate::DuplicateParametrization};
use adamant_core::{Error, ErrorKind, Meta, Result, Tensor, grad::no_grad};
use std::sync::Arc;

mod orthogonal;
mod spectral_norm;
mod weight_norm;
pub use orthogonal::{Orthogonal, OrthogonalMap, OrthogonalOptions, orthogonal};
pub use spectral_norm::{SpectralNorm, SpectralNormOptions, spectral_norm};
pub use weight_norm::{WeightNorm, weight_norm};

/// A function that a parameter is computed by.
///
/// ```
/// # use adamant_core::{Result, Tensor};
/// # use adamant_nn::{Linear, Module, Walk, parametrize::{Parametrization, register_parametrization}};
/// # adamant_core::Device::reference().make_current();
/// #[derive(Module)]
/// struct Symmetric;
/// impl Parametrization for Symmetric {
///     fn forward(&self, originals: &[Tensor]) -> Result<Tensor> {
///         let upper = originals[0].triu(0);
///         (&upper + upper.triu(1).transpose(0, 1)).ok()
///     }
/// }
/// let layer = Linear::new(3, 3)?;
/// register_parametrization(&layer, "weight", Symmetric)?;
/// let weight = layer.weight.detached();
/// assert_eq!(weight.to_vec::<f32>()?, weight.transpose(0, 1).to_vec::<f32>()?);
/// assert_eq!(layer.named_parameters()[0].0, "parametrizations.weight.original");
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub trait Parametrization: Walk + DuplicateParametrization {
    /// The value, from the tensors that are trained: one, or as many as [`Parametrization::right_inverse`] makes. Of a
    /// parametrization on top of another: from what that one computes.
    ///
    /// # Errors
    /// The function's own.
    #[track_caller]
    fn forward(&self, originals: &[Tensor]) -> Result<Tensor>;
    /// Tensors that the value, or one near it, is computed from: what training starts with. The default is the value itself.
    ///
    /// # Errors
    /// A value that cannot be had.
    #[track_caller]
    fn right_inverse(&self, value: &Tensor) -> Result<Vec<Tensor>> {
        Ok(vec![value.clone()])
    }
    /// What a tensor becomes that the one the value is computed from is set to, by an optimizer's step or a state dict: what holds of
    /// it then holds in all that is saved. Asked of a parametrization that comes first and computes from one tensor. The default
    /// is that tensor.
    ///
    /// # Errors
    /// The function's own.
    #[track_caller]
    fn project(&self, original: &Tensor) -> Result<Tensor> {
        Ok(original.clone())
    }
}

/// What a parameter is computed from.
pub(crate) struct Parametrized {
    originals: Vec<Param>,
    list: Vec<Arc<dyn Parametrization>>,
}
impl Parametrized {
    #[track_caller]
    pub fn value(&self) -> Result<Tensor> {
        let mut at: Vec<Tensor> = self.originals.iter().map(Param::get).collect();
        for parametrization in &self.list {
            at = vec![parametrization.forward(&at)?.ok()?];
        }
        at.pop().ok_or_else(|| Error::new("parametrize", ErrorKind::Internal("a parametrization of nothing".into())))
    }
    pub fn meta(&self) -> Option<Meta> {
        self.originals.first().map(Param::meta)
    }
    /// Sets what the value is computed from.
    #[track_caller]
    pub fn set(&self, value: &Tensor) -> Result<()> {
        let mut at = vec![value.detach().ok()?];
        for parametrization in self.list.iter().rev() {
            let [value] = at.as_slice() else { return Err(several()) };
            at = no_grad(|| parametrization.right_inverse(value))?;
        }
        if at.len() != self.originals.len() {
            return Err(several());
        }
        adamant_core::step(|| self.originals.iter().zip(&at).try_for_each(|(p, value)| p.set(value)))
    }
    #[track_caller]
    pub fn apart(&self, copies: &mut Copies) -> Result<Parametrized> {
        Ok(Parametrized { originals: self.originals.duplicate(copies)?, list: self.list.duplicate(copies)? }.projected())
    }
    /// With an original that holds only what the first parametrization lets it.
    fn projected(self) -> Parametrized {
        if let ([original], Some(first)) = (self.originals.as_slice(), self.list.first()) {
            original.project_by(first.clone());
        }
        self
    }
    pub fn originals(&self) -> &[Param] {
        &self.originals
    }
}
#[track_caller]
fn several() -> Error {
    Error::new("parametrize", ErrorKind::Argument("only the first parametrization may compute from several tensors".into()))
}
/// Walks what a parameter is computed from, under PyTorch's names.
pub(crate) fn walk(parts: &Parametrized, param: &Param, walker: &mut Walker<'_>) {
    let path = walker.path.clone();
    walker.visit.parametrized(&path, param);
    let (of, name) = path.rsplit_once('.').map_or(("", path.as_str()), |(of, name)| (of, name));
    walker.path = if of.is_empty() { format!("parametrizations.{name}") } else { format!("{of}.parametrizations.{name}") };
    for (k, original) in parts.originals.iter().enumerate() {
        let name = if parts.originals.len() == 1 { "original".to_string() } else { format!("original{k}") };
        walker.child(&name, original);
    }
    for (k, parametrization) in parts.list.iter().enumerate() {
        walker.child(&k.to_string(), parametrization);
    }
    walker.path = path;
}

/// The parameter or buffer at a path.
#[track_caller]
fn find(module: &(impl Walk + ?Sized), path: &str, op: &'static str) -> Result<Param> {
    #[derive(Default)]
    struct All(Vec<(String, Param)>);
    impl Visit for All {
        fn param(&mut self, path: &str, param: &Param) {
            self.0.push((path.to_string(), param.clone()));
        }
        fn parametrized(&mut self, path: &str, param: &Param) {
            self.0.push((path.to_string(), param.clone()));
        }
        // It comes before the codes that are met under its name.
        fn packed(&mut self, path: &str, param: &Param) {
            self.0.push((path.to_string(), param.clone()));
        }
    }
    let mut all = All::default();
    module.visit(&mut all);
    if let Some((_, param)) = all.0.iter().find(|(p, _)| p == path) {
        return Ok(param.clone());
    }
    let error = Error::new(op, ErrorKind::Argument(format!("there is no parameter `{path}`")));
    Err(match crate::nearest(path, all.0.iter().map(|(p, _)| p.as_str())) {
        Some(near) => error.hint(format!("the nearest one is `{near}`")),
        None => error,
    })
}
/// Has a parameter of a layer, or one at a path in a model, be computed. On one that is computed already, the new function takes
/// what the others compute. The value stays what it was as far as the function's [`Parametrization::right_inverse`] allows.
///
/// # Errors
/// No such parameter, which is named with the nearest; a lazy one; a function whose value has another shape or dtype.
#[track_caller]
pub fn register_parametrization(module: &(impl Walk + ?Sized), name: &str, parametrization: impl Parametrization + 'static) -> Result<()> {
    register(&find(module, name, "register_parametrization")?, Arc::new(parametrization))
}
#[track_caller]
fn register(param: &Param, parametrization: Arc<dyn Parametrization>) -> Result<()> {
    let want = param.meta();
    let parts = match param.parametrized() {
        Some(known) => {
            let list = known.list.iter().cloned().chain([parametrization]).collect();
            Parametrized { originals: known.originals.clone(), list }
        }
        None if param.packed().is_some() => {
            // Codes stay what the value is computed from, where they can.
            let values = no_grad(|| parametrization.right_inverse(&param.detached().ok()?))?;
            if values.len() != 1 {
                return Err(param.holds_codes("register_parametrization"));
            }
            Parametrized { originals: vec![param.with_its_codes()?], list: vec![parametrization] }
        }
        None => {
            let values = no_grad(|| parametrization.right_inverse(&param.detached().ok()?))?;
            let frozen = param.role() == Role::Trainable && !param.is_trainable();
            let originals = values.iter().map(|value| Param::with_role(value, param.role())).collect::<Result<Vec<_>>>()?;
            originals.iter().for_each(|p| p.set_frozen(frozen));
            Parametrized { originals, list: vec![parametrization] }.projected()
        }
    };
    let got = no_grad(|| parts.value())?.try_meta()?;
    if got.shape != want.shape {
        let expected = "a parametrization keeps the parameter's shape";
        return Err(Error::new("register_parametrization", ErrorKind::ShapeMismatch { left: want.shape, right: got.shape, axes: None, expected }));
    }
    if got.dtype != want.dtype {
        return Err(Error::new("register_parametrization", ErrorKind::DtypeMismatch { left: want.dtype, right: got.dtype }));
    }
    // The old value is let go of: the place keeps its shape alone.
    param.compute_from(Some(Arc::new(parts)), &Tensor::shape_only(want))
}
/// Has a parameter hold a value again: what it was computed as, or what it was computed from, if that is one tensor.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Module, Walk, parametrize::{remove_parametrizations, weight_norm}};
/// # adamant_core::Device::reference().make_current();
/// let layer = Linear::new(3, 2)?;
/// weight_norm(&layer, "weight", Some(0))?;
/// remove_parametrizations(&layer, "weight", true)?;
/// assert_eq!(layer.named_parameters()[0].0, "weight");
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A parameter that is not computed; `leave_parametrized: false` of one computed from several tensors.
#[track_caller]
pub fn remove_parametrizations(module: &(impl Walk + ?Sized), name: &str, leave_parametrized: bool) -> Result<()> {
    let param = find(module, name, "remove_parametrizations")?;
    let refuse = |text: String| Error::new("remove_parametrizations", ErrorKind::Argument(text));
    let Some(parts) = param.parametrized() else { return Err(refuse(format!("`{name}` has no parametrization"))) };
    if let (false, [one]) = (leave_parametrized, parts.originals())
        && one.packed().is_some()
    {
        param.compute_from(None, &one.detached())?;
        return param.hold(one.parts(), &Tensor::shape_only(param.meta()));
    }
    let value = match (leave_parametrized, parts.originals()) {
        (true, _) => no_grad(|| parts.value())?,
        (false, [one]) => one.detached(),
        (false, all) => {
            return Err(refuse(format!("`{name}` is computed from {} tensors, none of which can take its place", all.len()))
                .hint("leave_parametrized: true keeps the value"));
        }
    };
    param.compute_from(None, &value)
}
/// Is the parameter at a path computed from others? Without a path: is any?
pub fn is_parametrized(module: &(impl Walk + ?Sized), name: Option<&str>) -> bool {
    struct FindParametrized<'a>(Option<&'a str>, bool);
    impl Visit for FindParametrized<'_> {
        fn parametrized(&mut self, path: &str, _: &Param) {
            self.1 |= self.0.is_none_or(|name| name == path);
        }
    }
    let mut any = FindParametrized(name, false);
    module.visit(&mut any);
    any.1
}
