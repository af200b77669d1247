//! The modules of a model by path, and what is asked and done by the names in it.
use crate::{Param, Role, Site, Visit, state::nearest, walk::Visiting};
use adamant_core::{DType, Error, ErrorKind, Result, Tensor};
use std::collections::HashMap;

/// A module in a model.
#[derive(Clone)]
pub struct Submodule {
    /// PyTorch's name of the layer, or that of a type of one's own
    pub kind: &'static str,
    /// Its own parameters and buffers by name, not those of modules in it.
    pub parameters: Vec<(String, Param)>,
    path: String,
    site: Option<Site>,
}
impl Submodule {
    /// The path in the model that was asked.
    pub fn path(&self) -> &str {
        &self.path
    }
    /// Its own parameter or buffer of a name.
    pub fn parameter(&self, name: &str) -> Option<&Param> {
        self.parameters.iter().find(|(n, _)| n == name).map(|(_, p)| p)
    }
    /// The place where hooks are registered.
    ///
    /// # Errors
    /// A module without one.
    #[track_caller]
    pub fn site(&self) -> Result<&Site> {
        self.site.as_ref().ok_or_else(|| {
            let place = if self.path.is_empty() { String::new() } else { format!(" at `{}`", self.path) };
            Error::new("hook", ErrorKind::Argument(format!("the {}{place} has no place for hooks", self.kind)))
                .hint("wrap it in `Hooked`, or give it a field `site: Site` (`Site::with_hooks`) and have its `forward` go through `Site::begin`")
        })
    }
}
impl std::fmt::Debug for Submodule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Submodule").field("kind", &self.kind).field("path", &self.path).field("parameters", &self.parameters).finish()
    }
}
#[derive(Default)]
struct ModulesByPath {
    all: Vec<Submodule>,
    by_path: HashMap<String, usize>,
    /// the place of the last parameter that holds codes, which are met under its name behind it
    packed: Option<String>,
}
impl ModulesByPath {
    fn at(&mut self, path: &str, kind: &'static str) -> &mut Submodule {
        let next = self.all.len();
        let k = match self.by_path.get(path) {
            Some(k) => *k,
            None => {
                self.by_path.insert(path.to_string(), next);
                self.all.push(Submodule { kind, parameters: Vec::new(), path: path.to_string(), site: None });
                next
            }
        };
        &mut self.all[k]
    }
}
impl Visit for ModulesByPath {
    fn module(&mut self, path: &str, kind: &'static str) {
        self.at(path, kind);
    }
    fn site(&mut self, path: &str, site: &Site) {
        let module = self.at(path, site.kind());
        // What a module is wrapped in comes first, and has its hooks.
        if module.site.as_ref().is_none_or(|s| !s.runs_hooks()) {
            module.site = Some(site.clone());
        }
        module.kind = site.kind();
    }
    fn container(&mut self, path: &str, site: &Site) {
        self.site(path, site);
    }
    fn packed(&mut self, path: &str, p: &Param) {
        self.param(path, p);
        self.packed = Some(path.into());
    }
    fn param(&mut self, path: &str, p: &Param) {
        if self.packed.as_deref() == Some(path) {
            return;
        }
        let (of, name) = path.rsplit_once('.').unwrap_or(("", path));
        // The nearest module around it: a list is none.
        let mut holder = Some(of);
        while let Some(at) = holder {
            if let Some(module) = self.by_path.get(at).and_then(|k| self.all.get_mut(*k)) {
                let own = if at.len() == of.len() { name } else { path.strip_prefix(at).unwrap_or(path).trim_start_matches('.') };
                module.parameters.push((own.to_string(), p.clone()));
                return;
            }
            holder = if at.is_empty() { None } else { Some(at.rsplit_once('.').map_or("", |(of, _)| of)) };
        }
    }
}
pub(crate) fn named(model: &Visiting<'_>) -> Vec<(String, Submodule)> {
    let mut named = ModulesByPath::default();
    model(&mut named);
    named.all.into_iter().map(|m| (m.path.clone(), m)).collect()
}
#[track_caller]
pub(crate) fn at(model: &Visiting<'_>, path: &str) -> Result<Submodule> {
    let all = named(model);
    match all.iter().find(|(p, _)| p == path) {
        Some((_, module)) => Ok(module.clone()),
        None if path.is_empty() => Ok(Submodule { kind: "module", parameters: Vec::new(), path: String::new(), site: None }),
        None => {
            let error = Error::new("get_submodule", ErrorKind::Argument(format!("there is no module at `{path}`")));
            Err(match nearest(path, all.iter().map(|(p, _)| p.as_str())) {
                Some(near) => error.hint(format!("the nearest one is `{near}`")),
                None => error,
            })
        }
    }
}
/// Parts before what holds them, in the order of PyTorch's `apply`.
pub(crate) fn innermost_first(all: Vec<(String, Submodule)>) -> Vec<(String, Submodule)> {
    let holds = |outer: &str, inner: &str| outer.is_empty() || inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'));
    let (mut order, mut open): (Vec<(String, Submodule)>, Vec<(String, Submodule)>) = (Vec::new(), Vec::new());
    for module in all {
        while open.last().is_some_and(|(outer, _)| !holds(outer, &module.0)) {
            order.extend(open.pop());
        }
        open.push(module);
    }
    order.extend(open.into_iter().rev());
    order
}

/// Does a text match a pattern of `*` (any characters) and `?` (one)?
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // Where the last star stands, and how much of the text it has taken.
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, t) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}
pub(crate) fn freeze_matching(leaves: Vec<(String, Param)>, pattern: &str, frozen: bool) -> usize {
    let found = leaves.iter().filter(|(path, p)| p.role() == Role::Trainable && glob_matches(pattern, path));
    found.map(|(_, p)| p.set_frozen(frozen)).count()
}

/// What the numbers of a parameter are like.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterStats {
    /// the path in the model
    pub path: String,
    /// the number of elements
    pub elements: usize,
    /// Do gradients flow to it?
    pub trainable: bool,
    /// their mean
    pub mean: f64,
    /// their standard deviation, over all of them
    pub std: f64,
    /// the smallest
    pub min: f64,
    /// the largest
    pub max: f64,
    /// the square root of the sum of squares
    pub norm: f64,
    /// how many are zero
    pub zeros: usize,
    /// how many are no finite numbers
    pub not_finite: usize,
}
#[track_caller]
pub(crate) fn stats(leaves: Vec<(String, Param)>) -> Result<Vec<ParameterStats>> {
    leaves.into_iter().filter(|(_, p)| p.role() == Role::Trainable).map(|(path, p)| stats_of(path, &p)).collect()
}
#[track_caller]
fn stats_of(path: String, p: &Param) -> Result<ParameterStats> {
    let values = p.detached().to_vec_as::<f32>().map(|v| v.into_iter().map(f64::from).collect::<Vec<f64>>());
    let values = if p.meta().dtype == DType::F64 { p.detached().to_vec::<f64>() } else { values }?;
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    Ok(ParameterStats {
        path,
        elements: values.len(),
        trainable: p.is_trainable(),
        mean,
        std: (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt(),
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        norm: values.iter().map(|v| v * v).sum::<f64>().sqrt(),
        zeros: values.iter().filter(|v| **v == 0.0).count(),
        not_finite: values.iter().filter(|v| !v.is_finite()).count(),
    })
}

/// The values of parameters one behind the other, in one axis.
///
/// ```
/// # use adamant_nn::{Linear, Walk, parameters_to_vector, vector_to_parameters};
/// # adamant_core::Device::reference().make_current();
/// let layer = Linear::new(3, 2)?;
/// let all = parameters_to_vector(&layer.parameters())?;
/// assert_eq!(all.dims()?, [8]);
/// vector_to_parameters(&(all * 2.0), &layer.parameters())?;
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// No parameters; a lazy one; two devices.
///
/// Source: `torch.nn.utils.parameters_to_vector`.
#[track_caller]
pub fn parameters_to_vector(parameters: &[Param]) -> Result<Tensor> {
    if parameters.is_empty() {
        return Err(Error::new("parameters_to_vector", ErrorKind::Argument("there are no parameters".into())));
    }
    let flat: Vec<Tensor> = parameters.iter().map(|p| p.get().reshape([p.elements()])).collect();
    Tensor::cat(&flat, 0).ok()
}
/// Sets parameters to what stands one behind the other in a vector: all of them, or, after an error, none.
///
/// # Errors
/// Another number of elements than the parameters have.
///
/// Source: `torch.nn.utils.vector_to_parameters`.
#[track_caller]
pub fn vector_to_parameters(vector: &Tensor, parameters: &[Param]) -> Result<()> {
    let (shape, total) = (vector.shape()?, parameters.iter().map(Param::elements).sum::<usize>());
    if *shape != [total] {
        return Err(Error::new("vector_to_parameters", ErrorKind::Shape { shape, expected: format!("[{total}], one element for each of the parameters'") }));
    }
    let mut start = 0;
    adamant_core::step(|| {
        parameters.iter().try_for_each(|p| {
            let (meta, n) = (p.meta(), p.elements());
            start += n;
            p.set(&vector.detach().narrow(0, start - n, n).reshape(meta.shape).cast(meta.dtype))
        })
    })
}
