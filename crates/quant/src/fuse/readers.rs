//! Which layer makes what a norm reads, and who else reads it: by the graph of a forward pass. Must not know what is done with it.
use crate::{
    method::{Hooks, locked},
    select::evaluating,
};
use adamant_core::{Op, Result, Tensor, grad::no_grad, graph::Graph, scope};
use adamant_nn::{Module, Submodule};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// The op that a batch norm is in evaluation.
const NORM: &str = "adamant.batch_norm_inference";

/// A forward pass of a model.
pub(super) struct NormReaders {
    graph: Graph,
    modules: Vec<Submodule>,
    /// how often each module was called, by its number
    calls: BTreeMap<usize, usize>,
}
impl NormReaders {
    /// Of a model that evaluates, on an example, which is not run.
    ///
    /// # Errors
    /// A forward pass that cannot be captured.
    #[track_caller]
    pub fn of(model: &(impl Module + ?Sized), example: &Tensor) -> Result<NormReaders> {
        let meta = example.try_meta()?;
        let mut modules: Vec<Submodule> = Vec::new();
        for module in model.modules() {
            let Ok(site) = module.site() else { continue };
            let is_known = modules.iter().any(|m| m.site().is_ok_and(|known| known.same(site)));
            if !is_known && (site.eps().is_some() || site.takes_bias()) {
                modules.push(module);
            }
        }
        // Hooks of the user are told by the places' counts, so these are gone before anyone asks.
        let (calls, mut hooks) = (Arc::new(Mutex::new(BTreeMap::new())), Hooks::default());
        for (k, module) in modules.iter().enumerate() {
            let calls = calls.clone();
            hooks.0.push(module.site()?.register_forward_pre_hook(move |_, _| {
                *locked(&calls).entry(k).or_default() += 1;
                Ok(None)
            })?);
        }
        let forward = |x: &[Tensor]| Ok(vec![x.first().map_or_else(|| model.forward(example), |x| model.forward(x))?]);
        let graph = evaluating(model, || no_grad(|| Graph::capture(meta.device, &[meta], forward)));
        drop(hooks);
        let calls = std::mem::take(&mut *locked(&calls));
        Ok(NormReaders { graph: graph?, modules, calls })
    }
    /// The batch norms of the model.
    pub fn norms(&self) -> impl Iterator<Item = &Submodule> {
        self.modules.iter().filter(|m| m.site().is_ok_and(|site| site.eps().is_some()))
    }
    /// How often a module was called.
    fn calls(&self, of: &Submodule) -> usize {
        let number = self.modules.iter().position(|m| m.path() == of.path());
        number.and_then(|k| self.calls.get(&k)).copied().unwrap_or(0)
    }
    fn path(of: &Submodule) -> String {
        of.site().map_or_else(|_| String::new(), |site| site.path().to_string())
    }
    /// The layer whose output a norm alone reads, or why there is none.
    pub fn layer_before(&self, norm: &Submodule) -> std::result::Result<Submodule, String> {
        match self.calls(norm) {
            1 => {}
            0 => return Err("the model does not apply it to the example".into()),
            n => return Err(format!("it is applied {n} times")),
        }
        let own = NormReaders::path(norm);
        let mut nodes = self.graph.nodes.iter().filter(|n| n.op.name() == NORM && matches!(n.op, Op::Composite(_)) && scope::path(n.scope) == own);
        let (Some(node), None) = (nodes.next(), nodes.next()) else { return Err("what it computes is not known".into()) };
        let Some(read) = node.inputs.first().copied() else { return Err("what it reads is not known".into()) };
        let Some(maker) = self.graph.nodes.iter().find(|n| n.outputs.contains(&read)) else {
            return Err("it reads the model's input".into());
        };
        let made_in = scope::path(maker.scope);
        let layer = self.modules.iter().find(|m| m.site().is_ok_and(|site| site.takes_bias()) && NormReaders::path(m) == made_in);
        let Some(layer) = layer else {
            let place = if made_in.is_empty() { String::new() } else { format!(" in `{made_in}`") };
            return Err(format!("what it reads is made by `{}`{place}, and by no convolution or linear layer", maker.op.name()));
        };
        let path = layer.path();
        if self.calls(layer) != 1 {
            return Err(format!("`{path}` is applied {} times", self.calls(layer)));
        }
        let others = self.graph.nodes.iter().flat_map(|n| &n.inputs).chain(&self.graph.outputs).filter(|v| **v == read).count();
        if others + self.graph.writes.iter().filter(|w| w.value == read).count() != 1 {
            return Err(format!("it is not alone in reading what `{path}` returns"));
        }
        let rank = self.graph.values.get(read as usize).map(|ty| ty.shape.rank());
        if layer.parameter("weight").is_some_and(|weight| Some(weight.meta().shape.rank()) != rank) {
            return Err(format!("its channels are not those of `{path}`, which is given an input of other axes than samples and features"));
        }
        Ok(layer.clone())
    }
}
