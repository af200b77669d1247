//! What in a trained model looks as if it could go: units that say nothing, always the same or what another one says, weights of low
//! rank, weights that few bits hold. Nothing is changed. Must not know how any of it is taken out.
use super::PRUNE;
use crate::{
    method::{Hooks, locked},
    report::decibels,
    select::{check, evaluating, joined},
};
use adamant_core::{DType, Result, Tensor, composite::packed::Packing, functional::PackedWeight, grad::no_grad};
use adamant_nn::{Module, Submodule};
use std::{
    fmt,
    sync::{Arc, Mutex},
};

/// From where on something counts as a signal.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SignalLimits {
    /// A unit is static if its standard deviation is at most this part of the root mean square of its layer's activations.
    pub deviation: f64,
    /// A unit is redundant if the absolute value of its correlation with one before it is at least this.
    pub correlation: f64,
    /// The rank of a weight is how many singular values hold this part of the sum of their squares.
    pub energy: f64,
    /// A weight is quantizable to the fewest bits whose signal-to-noise ratio, in decibels, is at least this, a scale for each row.
    pub decibels: f64,
    /// rows and places of activations that are looked at, for each layer
    pub rows: usize,
}
impl Default for SignalLimits {
    fn default() -> SignalLimits {
        SignalLimits { deviation: 1e-3, correlation: 0.99, energy: 0.99, decibels: 20.0, rows: 4096 }
    }
}
/// What was found of one layer.
#[derive(Clone, PartialEq, Debug)]
pub struct LayerSignals {
    /// its path
    pub path: String,
    /// PyTorch's name of its kind
    pub kind: &'static str,
    /// its outputs: features or channels
    pub units: usize,
    /// units that are 0 for all data, behind the norm and the activation that follow the layer at once
    pub dead: Vec<usize>,
    /// units that are the same number for all data, and not 0: a bias of the next layer would say it
    pub constant: Vec<usize>,
    /// units that say what one before them says, with that one and the correlation
    pub redundant: Vec<(usize, usize, f64)>,
    /// singular values that hold nearly all of the weight as a matrix `[units, rest]`
    pub rank: usize,
    /// how many there are
    pub full_rank: usize,
    /// Would two factors of this rank have fewer elements than the weight?
    pub low_rank: bool,
    /// the fewest of 3, 4 and 8 bits that hold the weight, if any do
    pub bits: Option<u32>,
    /// the signal-to-noise ratio of 8, 4 and 3 bits, in decibels
    pub decibels: [f64; 3],
}
/// What was found of a model; its text is a table.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PruneSignals {
    /// linear layers and convolutions, in the model's order
    pub layers: Vec<LayerSignals>,
}
impl fmt::Display for PruneSignals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.layers.iter().map(|layer| layer.path.len()).max().unwrap_or(0).max(5);
        write!(f, "{:width$}  {:>6} {:>6} {:>7} {:>10}  {:>12}  bits", "layer", "units", "dead", "static", "redundant", "rank")?;
        for l in &self.layers {
            let rank = format!("{} of {}{}", l.rank, l.full_rank, if l.low_rank { " *" } else { "" });
            let bits = l.bits.map_or("-".to_string(), |bits| bits.to_string());
            write!(f, "\n{:width$}  {:>6} {:>6} {:>7} {:>10}  {rank:>12}  {bits}", l.path, l.units, l.dead.len(), l.constant.len(), l.redundant.len())?;
        }
        if self.layers.iter().any(|layer| layer.low_rank) {
            write!(f, "\n* two factors of this rank are smaller than the weight")?;
        }
        Ok(())
    }
}
/// What follows a layer at once and makes its outputs what the next one reads.
fn shapes_units(kind: &str) -> bool {
    const ACTIVATIONS: [&str; 18] = [
        "ReLU",
        "ReLU6",
        "LeakyReLU",
        "PReLU",
        "RReLU",
        "ELU",
        "CELU",
        "SELU",
        "GELU",
        "SiLU",
        "Mish",
        "Hardswish",
        "Hardtanh",
        "Hardsigmoid",
        "Sigmoid",
        "Tanh",
        "Softplus",
        "Dropout",
    ];
    ACTIVATIONS.contains(&kind) || kind.starts_with("BatchNorm")
}
/// Activations of one layer.
#[derive(Default)]
struct SeenUnits {
    /// `[rows, units]`, f64
    rows: Vec<Tensor>,
    count: usize,
}
/// Looks at a model while it answers batches, evaluating and without a graph.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Relu, Sequential};
/// # use adamant_quant::prune::{SignalLimits, prune_signals};
/// # adamant_core::Device::reference().make_current();
/// let model = Sequential::new().add(Linear::new(3, 4)?).add(Relu::new()).add(Linear::new(4, 2)?);
/// let x = Tensor::from_vec((0..30).map(|k| (k * k % 7) as f32).collect(), [10, 3]);
/// let found = prune_signals(&model, &[x], SignalLimits::default())?;
/// assert_eq!((found.layers.len(), found.layers[0].units), (2, 4));
/// println!("{found}");
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// No batches, a batch that the model does not take, numbers that are not finite.
#[track_caller]
pub fn prune_signals(model: &impl Module, batches: &[Tensor], limits: SignalLimits) -> Result<PruneSignals> {
    check(PRUNE, !batches.is_empty(), || "there are no batches to look at activations by".into())?;
    let layers: Vec<Submodule> = model.named_modules().into_iter().map(|(_, module)| module).collect();
    let looked_at = |layer: &Submodule| (layer.kind == "Linear" || layer.kind.starts_with("Conv")) && layer.parameter("weight").is_some();
    let places: Vec<usize> = (0..layers.len()).filter(|k| looked_at(&layers[*k])).collect();
    let seen = watched(model, &layers, &places, batches, limits)?;
    let found = places.iter().zip(seen).map(|(place, seen)| signals(&layers[*place], &seen, limits));
    Ok(PruneSignals { layers: found.collect::<Result<_>>()? })
}
/// The activations of layers at places, each behind what shapes them.
#[track_caller]
fn watched(model: &impl Module, layers: &[Submodule], places: &[usize], batches: &[Tensor], limits: SignalLimits) -> Result<Vec<SeenUnits>> {
    /// The layer whose units the last output is of, and the activations of each.
    #[derive(Default)]
    struct WatchedUnits {
        of: Option<usize>,
        last: Vec<Option<Tensor>>,
    }
    let state = Arc::new(Mutex::new(WatchedUnits { of: None, last: vec![None; places.len()] }));
    let mut hooks = Hooks::default();
    for (k, layer) in layers.iter().enumerate() {
        let Ok(site) = layer.site() else { continue };
        if !site.runs_hooks() {
            continue;
        }
        let (state, own, shapes) = (state.clone(), places.iter().position(|place| *place == k), shapes_units(layer.kind));
        hooks.0.push(site.register_forward_hook(move |_, _, outputs| {
            let mut state = locked(&state);
            let of = own.or(if shapes { state.of } else { None });
            state.of = of;
            if let (Some(of), Some(output)) = (of, outputs.first())
                && let Some(last) = state.last.get_mut(of)
            {
                *last = Some(output.detach());
            }
            Ok(None)
        })?);
    }
    let mut seen: Vec<SeenUnits> = places.iter().map(|_| SeenUnits::default()).collect();
    for x in batches {
        evaluating(model, || no_grad(|| model.forward(x)?.materialize()))?;
        let mut state = locked(&state);
        for ((seen, last), place) in seen.iter_mut().zip(&mut state.last).zip(places) {
            let Some(output) = last.take() else { continue };
            let shape = output.shape()?;
            // Places lie behind the units, as many axes as the kernel has; an example may come without a batch.
            let spatial = layers[*place].parameter("weight").map_or(0, |weight| weight.meta().shape.rank().saturating_sub(2));
            let Some(axis) = shape.rank().checked_sub(1 + spatial) else { continue };
            let rows = output.movedim([axis as isize], [-1]).reshape([-1, shape[axis] as isize]);
            let take = rows.shape()?[0].min(limits.rows.saturating_sub(seen.count));
            if take > 0 {
                let rows = rows.narrow(0, 0, take).cast(DType::F64);
                rows.materialize()?;
                seen.count += take;
                seen.rows.push(rows);
            }
        }
    }
    Ok(seen)
}
#[track_caller]
fn signals(layer: &Submodule, seen: &SeenUnits, limits: SignalLimits) -> Result<LayerSignals> {
    let path = joined(layer.path(), "weight");
    let Some(weight) = layer.parameter("weight").map(adamant_nn::Param::detached) else {
        return Err(crate::select::refusal(PRUNE, format!("`{path}` is not there")));
    };
    let axis = usize::from(layer.kind.starts_with("ConvTranspose"));
    let shape = weight.shape()?;
    let matrix = weight.cast(DType::F32).movedim([axis], [0]).reshape([shape[axis] as isize, -1]);
    let values = matrix.to_vec::<f32>()?;
    check(PRUNE, values.iter().all(|v| v.is_finite()), || format!("`{path}` has a number that is not finite"))?;
    let (singular, full_rank) = (matrix.cast(DType::F64).svdvals().to_vec::<f64>()?, matrix.shape()?.iter().copied().min().unwrap_or(0));
    let whole: f64 = singular.iter().map(|s| s * s).sum();
    let mut held = 0.0;
    let rank = singular
        .iter()
        .take_while(|s| {
            let more = held < limits.energy * whole;
            held += **s * **s;
            more
        })
        .count();
    let [rows, columns] = matrix.dims()?;
    let bits = [8, 4, 3].map(|bits| noise(&matrix, &values, bits));
    let mut decibels = [0.0; 3];
    for (to, from) in decibels.iter_mut().zip(bits) {
        *to = from?;
    }
    let units = units(&path, seen, limits)?;
    Ok(LayerSignals {
        path: layer.path().to_string(),
        kind: layer.kind,
        units: if axis == 1 { shape[1] } else { shape[0] },
        dead: units.dead,
        constant: units.constant,
        redundant: units.redundant,
        rank,
        full_rank,
        low_rank: rank * (rows + columns) < rows * columns,
        bits: [3u32, 4, 8].into_iter().zip(decibels.iter().rev()).find(|(_, found)| **found >= limits.decibels).map(|(bits, _)| bits),
        decibels,
    })
}
#[track_caller]
fn noise(matrix: &Tensor, values: &[f32], bits: u32) -> Result<f64> {
    let packed = PackedWeight::round(matrix, Packing { bits, group: None, symmetric: true })?;
    let rounded = packed.dequantize(DType::F32).to_vec::<f32>()?;
    let square = |v: f32| f64::from(v) * f64::from(v);
    Ok(decibels(values.iter().map(|v| square(*v)).sum(), values.iter().zip(rounded).map(|(v, r)| square(v - r)).sum()))
}
/// Of a layer's units those that could go.
#[derive(Default)]
struct UnitSignals {
    dead: Vec<usize>,
    constant: Vec<usize>,
    redundant: Vec<(usize, usize, f64)>,
}
#[track_caller]
fn units(path: &str, seen: &SeenUnits, limits: SignalLimits) -> Result<UnitSignals> {
    let mut found = UnitSignals::default();
    if seen.rows.is_empty() {
        return Ok(found);
    }
    let rows = Tensor::cat(&seen.rows, 0);
    let [count, units] = rows.dims()?;
    let values = rows.to_vec::<f64>()?;
    check(PRUNE, values.iter().all(|v| v.is_finite()), || format!("the layer of `{path}` gives numbers that are not finite"))?;
    let column = |unit: usize| values.iter().skip(unit).step_by(units.max(1));
    let scale = (values.iter().map(|v| v * v).sum::<f64>() / values.len().max(1) as f64).sqrt();
    // Each unit about its mean, and of length 1.
    let mut centered = vec![0.0; values.len()];
    let mut varies = Vec::new();
    for unit in 0..units {
        let mean = column(unit).sum::<f64>() / count.max(1) as f64;
        let spread = column(unit).map(|v| (v - mean) * (v - mean)).sum::<f64>();
        let deviation = (spread / count.max(1) as f64).sqrt();
        if column(unit).all(|v| *v == 0.0) {
            found.dead.push(unit);
        } else if deviation <= limits.deviation * scale {
            found.constant.push(unit);
        } else {
            varies.push(unit);
            (0..count).for_each(|row| centered[row * units + unit] = (values[row * units + unit] - mean) / spread.sqrt());
        }
    }
    let centered = Tensor::from_vec_on(centered, [count, units], rows.device()?);
    let correlations = centered.mt().matmul(&centered).to_vec::<f64>()?;
    let mut first: Vec<usize> = Vec::new();
    for unit in varies {
        match first.iter().map(|other| (*other, correlations[unit * units + other])).find(|(_, r)| r.abs() >= limits.correlation) {
            Some((other, r)) => found.redundant.push((unit, other, r)),
            None => first.push(unit),
        }
    }
    Ok(found)
}
