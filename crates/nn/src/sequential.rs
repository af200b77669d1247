//! Layers one after another.
use crate::{Boxed, Copies, Module, Site, Walk, Walker, dict::NamedPart, site::Names};
use adamant_core::{Result, Tensor};

/// Layers one after another, named "0", "1", ... unless they are given a name.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Module, Sequential, Walk};
/// # adamant_core::Device::reference().make_current();
/// let net = Sequential::new().add(Linear::new(4, 8)?).add(Linear::new(8, 2)?);
/// assert_eq!(net.forward(&Tensor::ones([3, 4]))?.dims()?, [3, 2]);
/// assert_eq!(net.named_parameters()[2].0, "1.weight");
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct Sequential {
    site: Site,
    layers: Vec<(String, Box<dyn Module>)>,
}
impl Default for Sequential {
    fn default() -> Sequential {
        Sequential::new()
    }
}
impl Sequential {
    /// No layers: the identity.
    pub fn new() -> Sequential {
        Sequential { site: Site::container("Sequential"), layers: Vec::new() }
    }
    /// Appends a layer, named by its position.
    #[allow(clippy::should_implement_trait)]
    #[must_use]
    pub fn add(self, layer: impl Module + 'static) -> Sequential {
        let name = self.layers.len().to_string();
        self.add_named(&name, layer)
    }
    /// Appends a layer under a name.
    #[must_use]
    pub fn add_named(mut self, name: &str, layer: impl Module + 'static) -> Sequential {
        self.push(name, Box::new(layer));
        self
    }
    /// Appends a boxed layer under a name.
    pub fn push(&mut self, name: &str, layer: Box<dyn Module>) {
        // Gives the layer its path, for errors before the model is first walked.
        NamedPart(name, &layer).visit(&mut Names);
        self.layers.push((name.to_string(), layer));
    }
    /// Number of layers.
    pub fn len(&self) -> usize {
        self.layers.len()
    }
    /// No layers?
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }
    /// The layers and their names, taken out: a pipeline shares them out.
    pub fn into_layers(self) -> Vec<(String, Box<dyn Module>)> {
        self.layers
    }
    /// The layers and their names.
    pub fn layers(&self) -> impl Iterator<Item = (&str, &dyn Module)> {
        self.layers.iter().map(|(name, layer)| (name.as_str(), &**layer))
    }
}
impl Walk for Sequential {
    fn walk(&self, walker: &mut Walker<'_>) {
        self.site.walk(walker);
        for (name, layer) in &self.layers {
            walker.child(name, layer);
        }
    }
    fn duplicate(&self, copies: &mut Copies) -> Result<Sequential> {
        let site = self.site.duplicate(copies)?;
        let layers = self.layers.iter().map(|(name, layer)| Ok((name.clone(), (**layer).boxed_duplicate(copies)?)));
        Ok(Sequential { site, layers: layers.collect::<Result<_>>()? })
    }
}
impl Module for Sequential {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin_within(&[x])?;
        let mut x = call.input(0, x).clone();
        for (_, layer) in &self.layers {
            x = layer.forward(&x)?;
        }
        call.end(x)
    }
}
