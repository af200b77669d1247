//! Parts of a model by name, in the order in which they were put in.
use crate::{Copies, Module, Param, Walk, Walker, site::Names};
use adamant_core::{Error, ErrorKind, Result};

/// Parts by name, in the order in which they were put in. In a state dict, what is in a part has the part's name before its own. A
/// dict does not say in which order its parts run: that is the model's `forward`.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Module, ModuleDict, Relu, Walk};
/// # adamant_core::Device::reference().make_current();
/// let mut heads: ModuleDict = ModuleDict::new();
/// heads.insert("classes", Box::new(Linear::new(4, 3)?))?;
/// heads.insert("act", Box::new(Relu::new()))?;
/// let names: Vec<String> = heads.state_dict().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["classes.weight", "classes.bias"]);
/// if let Some(head) = heads.get("classes") {
///     assert_eq!(head.forward(&Tensor::ones([2, 4]))?.dims()?, [2, 3]);
/// }
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone)]
pub struct ModuleDict<T = Box<dyn Module>> {
    parts: Vec<(String, T)>,
}
/// Parameters and buffers by name, in the order in which they were put in.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Param, ParameterDict, Walk};
/// # adamant_core::Device::reference().make_current();
/// let scales = ParameterDict::of([("b", Param::new(&Tensor::ones([2]))?), ("a", Param::new(&Tensor::ones([3]))?)])?;
/// assert_eq!(scales.named_parameters()[0].0, "b");
/// assert_eq!(scales.get("a").map(Param::elements), Some(3));
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub type ParameterDict = ModuleDict<Param>;

impl<T: Walk> ModuleDict<T> {
    /// No parts.
    pub fn new() -> ModuleDict<T> {
        ModuleDict { parts: Vec::new() }
    }
    /// Of names and parts.
    ///
    /// # Errors
    /// As [`ModuleDict::insert`].
    #[track_caller]
    pub fn of<N: Into<String>>(parts: impl IntoIterator<Item = (N, T)>) -> Result<ModuleDict<T>> {
        let mut dict = ModuleDict::new();
        for (name, part) in parts {
            dict.insert(name, part)?;
        }
        Ok(dict)
    }
    /// Puts a part in under a name; a part of that name gives up its place and is returned.
    ///
    /// # Errors
    /// A name that is empty or has a dot: in a state dict it would be another's.
    #[track_caller]
    pub fn insert(&mut self, name: impl Into<String>, part: T) -> Result<Option<T>> {
        let name = name.into();
        if name.is_empty() || name.contains('.') {
            let kind = ErrorKind::Argument(format!("`{name}` is no name of a part: it is empty or has a dot"));
            return Err(Error::new("insert", kind).hint("dots stand between a part's name and the names in it"));
        }
        // Gives the layers their paths, for errors before the model is first walked.
        NamedPart(&name, &part).visit(&mut Names);
        match self.parts.iter_mut().find(|(n, _)| *n == name) {
            Some((_, place)) => Ok(Some(std::mem::replace(place, part))),
            None => {
                self.parts.push((name, part));
                Ok(None)
            }
        }
    }
    /// Takes a part out; the others keep their order.
    pub fn remove(&mut self, name: &str) -> Option<T> {
        let at = self.parts.iter().position(|(n, _)| n == name)?;
        Some(self.parts.remove(at).1)
    }
    /// The part of a name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.iter().find(|(n, _)| *n == name).map(|(_, part)| part)
    }
    /// Number of parts.
    pub fn len(&self) -> usize {
        self.parts.len()
    }
    /// No parts?
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
    /// The names and parts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.parts.iter().map(|(name, part)| (name.as_str(), part))
    }
    /// The names.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }
    /// The parts.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, part)| part)
    }
}
impl<T: Walk> Default for ModuleDict<T> {
    fn default() -> ModuleDict<T> {
        ModuleDict::new()
    }
}
impl<T> IntoIterator for ModuleDict<T> {
    type Item = (String, T);
    type IntoIter = std::vec::IntoIter<(String, T)>;
    fn into_iter(self) -> Self::IntoIter {
        self.parts.into_iter()
    }
}
impl<T: Walk> Walk for ModuleDict<T> {
    fn walk(&self, walker: &mut Walker<'_>) {
        walker.module("ModuleDict");
        for (name, part) in self.iter() {
            walker.child(name, part);
        }
    }
    fn duplicate(&self, copies: &mut Copies) -> Result<ModuleDict<T>> {
        let parts = self.parts.iter().map(|(name, part)| Ok((name.clone(), part.duplicate(copies)?)));
        Ok(ModuleDict { parts: parts.collect::<Result<_>>()? })
    }
}

/// A part under its name in what holds it.
pub(crate) struct NamedPart<'a>(pub &'a str, pub &'a dyn Walk);
impl Walk for NamedPart<'_> {
    fn walk(&self, walker: &mut Walker<'_>) {
        walker.child(self.0, self.1);
    }
}
