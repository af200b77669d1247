//! How sparse a model is, layer by layer.
use crate::select::placed_params;
use adamant_core::Result;
use adamant_nn::{Param, Role, Walk};
use std::{collections::HashSet, fmt};

/// The zeros of one weight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayerSparsity {
    /// the weight's path
    pub path: String,
    /// how many elements it has
    pub elements: usize,
    /// how many of them are zero
    pub zeros: usize,
}
impl LayerSparsity {
    /// The share of zeros.
    pub fn sparsity(&self) -> f64 {
        self.zeros as f64 / self.elements.max(1) as f64
    }
}
/// The zeros of several weights; its text is a table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SparsityReport {
    /// each weight, in the model's order
    pub layers: Vec<LayerSparsity>,
}
impl SparsityReport {
    /// All elements.
    pub fn elements(&self) -> usize {
        self.layers.iter().map(|layer| layer.elements).sum()
    }
    /// All zeros.
    pub fn zeros(&self) -> usize {
        self.layers.iter().map(|layer| layer.zeros).sum()
    }
    /// The share of zeros among all elements.
    pub fn sparsity(&self) -> f64 {
        self.zeros() as f64 / self.elements().max(1) as f64
    }
}
impl fmt::Display for SparsityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.layers.iter().map(|layer| layer.path.len()).max().unwrap_or(0).max(5);
        for layer in &self.layers {
            writeln!(f, "{:width$}  {:>12} elements  {:>12} zeros  {:>6.2} %", layer.path, layer.elements, layer.zeros, 100.0 * layer.sparsity())?;
        }
        write!(f, "{:width$}  {:>12} elements  {:>12} zeros  {:>6.2} %", "all", self.elements(), self.zeros(), 100.0 * self.sparsity())
    }
}
/// The zeros of every trained parameter of a model, masked or not; of a computed one, of what it computes. Reads them.
///
/// ```
/// # use adamant_nn::{Linear, Sequential};
/// # use adamant_quant::prune::{PruneImportance, Pruner, sparsity_report};
/// # adamant_core::Device::reference().make_current();
/// let model = Sequential::new().add(Linear::no_bias(10, 10)?);
/// Pruner::new(PruneImportance::Random(1)).prune(&model, 0.3)?;
/// assert_eq!(sparsity_report(&model)?.layers[0].zeros, 30);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A parameter that cannot be read.
#[track_caller]
pub fn sparsity_report(model: &(impl Walk + ?Sized)) -> Result<SparsityReport> {
    let mut known = HashSet::new();
    let own = |p: &crate::select::PlacedParam| p.is_computed || !format!(".{}", p.path).contains(".parametrizations.");
    let placed = placed_params(model).into_iter().filter(|p| p.param.role() == Role::Trainable && own(p) && known.insert(p.param.id()));
    of(placed.map(|p| (p.path, p.param)))
}
#[track_caller]
pub(super) fn of(weights: impl Iterator<Item = (String, Param)>) -> Result<SparsityReport> {
    let layers = weights.map(|(path, param)| {
        let zeros = param.detached().eq(0.0).cast(adamant_core::DType::I64).sum(..).item::<i64>()? as usize;
        Ok(LayerSparsity { path, elements: param.elements(), zeros })
    });
    Ok(SparsityReport { layers: layers.collect::<Result<_>>()? })
}
