//! A trained run as one with weights at zero, or with fewer channels: a folder of its own that `eval`, `predict`, `generate` and
//! `quantize` take as they take the run's; and what in a run's model looks as if it could go.
use crate::{
    Failure, Trained, evaluate, folder,
    quantized::{self, batches_of},
    trained::PRUNING,
};
use adamant_core::{Device, Grads, Tensor, no_grad};
use adamant_data::DataLoader;
use adamant_nn::Walk;
pub use adamant_quant::prune::{LayerSignals, PruneAmount, PruneSignals, SignalLimits, StructuredImportance};
use adamant_quant::prune::{PruneImportance, Pruner, SparsityReport, StructuredPruner, StructuredReport, prune_signals, save_sparse};
use serde_json::{Value, json};
use std::path::Path;

/// What a weight or a channel is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PruneMethod {
    /// single weights, by their size; of all layers together or of each
    Magnitude {
        /// of all layers together
        global: bool,
    },
    /// single weights, by what the loss of rows of the training part changes by
    Gradient {
        /// of all layers together
        global: bool,
    },
    /// whole channels
    Channels(StructuredImportance),
}
/// What of a run's model goes.
#[derive(Clone, Debug)]
pub struct PrunePlan {
    /// what goes first
    pub method: PruneMethod,
    /// how much; of channels a share
    pub amount: PruneAmount,
    /// rows of the training part that gradients are of, where the method needs them
    pub rows: usize,
}
/// What became of a model.
#[derive(Clone, Debug)]
pub enum PrunedEnd {
    /// weights that are zero
    Weights(SparsityReport),
    /// channels that have left
    Channels(StructuredReport),
}
impl PrunedEnd {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        match self {
            PrunedEnd::Weights(report) => {
                let layers: Vec<Value> = report.layers.iter().map(|l| json!({ "path": l.path, "elements": l.elements, "zeros": l.zeros })).collect();
                json!({ "zeros": report.zeros(), "elements": report.elements(), "layers": layers })
            }
            PrunedEnd::Channels(report) => {
                let families = report.pruned.iter().map(|family| {
                    let of: Vec<Value> = family.parameters.iter().map(|(path, axis)| json!({ "path": path, "axis": axis })).collect();
                    json!({ "channels": family.channels, "removed": family.removed, "parameters": of })
                });
                let kept = report.kept.iter().map(|kept| json!({ "path": kept.path, "axis": kept.axis, "reason": kept.reason }));
                json!({
                    "elements_before": report.elements_before,
                    "elements": report.elements_after,
                    "pruned": families.collect::<Vec<_>>(),
                    "kept": kept.collect::<Vec<_>>(),
                })
            }
        }
    }
}
/// Reads a run's model, prunes it and writes the folder `out`: the model, its description, and what has left as `pruning.json`.
///
/// # Errors
/// `Usage`: `out` holds a model already, or a plan that does not suit the model. `Input`: the run or its data cannot be read.
/// `Storage`: `out` cannot be written.
pub fn prune(run: &Path, out: &Path, data: &Path, plan: &PrunePlan) -> Result<PrunedEnd, Failure> {
    let weights = out.join("weights.safetensors");
    if weights.exists() {
        return Err(Failure::Usage(format!("{}: there is a model already", weights.display())));
    }
    let trained = Trained::open(run)?;
    of_numbers(&trained, run, "prune first, then `adamant quantize`")?;
    let (done, shapes) = match plan.method {
        PruneMethod::Channels(importance) => channels(&trained, data, plan, importance)?,
        PruneMethod::Magnitude { global } => (single(&trained, None, PruneImportance::Magnitude, global, plan.amount)?, json!({})),
        PruneMethod::Gradient { global } => {
            let grads = gradients(&trained, data, plan.rows)?;
            (single(&trained, Some(&grads), PruneImportance::Gradient, global, plan.amount)?, json!({}))
        }
    };
    quantized::keep_description(run, out)?;
    let mut told = done.to_json();
    // Of a run that had lost channels before, shapes are those of now.
    told["shapes"] = merged(run, shapes)?;
    folder::write(&out.join(PRUNING), format!("{told:#}\n").as_bytes())?;
    // The weights come last: with them the folder is a model.
    save_sparse(&weights, &trained.model.state_dict())?;
    Ok(done)
}
fn of_numbers(trained: &Trained, run: &Path, hint: &str) -> Result<(), Failure> {
    if adamant_quant::is_quantized(&trained.weights)? {
        return Err(Failure::Usage(format!("{}: its weights are codes already; {hint}", run.display())));
    }
    Ok(())
}
fn refused(e: &adamant_core::Error) -> Failure {
    Failure::Usage(e.kind().to_string() + &e.hint_text().map(|h| format!(" ({h})")).unwrap_or_default())
}
fn single(trained: &Trained, grads: Option<&Grads>, importance: PruneImportance, global: bool, amount: PruneAmount) -> Result<PrunedEnd, Failure> {
    let pruner = if global { Pruner::new(importance).global() } else { Pruner::new(importance) };
    let pruner = match amount {
        // A first layer of three colours has no neighbours to choose among.
        PruneAmount::Keep { m, .. } => pruner.targets(trained.model.named_parameters().into_iter().filter_map(|(path, p)| {
            let shape = p.meta().shape;
            (path.ends_with("weight") && shape.rank() >= 2 && shape[1].is_multiple_of(m)).then_some(path)
        })),
        PruneAmount::Share(_) => pruner,
    };
    let pruned = match grads {
        Some(grads) => pruner.prune_by(&trained.model, amount, grads),
        None => pruner.prune(&trained.model, amount),
    };
    let pruned = pruned.map_err(|e| refused(&e))?;
    let report = pruned.report()?;
    pruned.remove()?;
    Ok(PrunedEnd::Weights(report))
}
fn channels(trained: &Trained, data: &Path, plan: &PrunePlan, importance: StructuredImportance) -> Result<(PrunedEnd, Value), Failure> {
    let PruneAmount::Share(share) = plan.amount else {
        return Err(Failure::Usage("of channels a share goes: a pattern is of single weights".into()));
    };
    let model = &trained.model;
    let example = batches_of(trained, data, 2, Device::current()?)?.into_iter().next().ok_or_else(|| Failure::Input("the training part has no rows".into()))?;
    let pruner = StructuredPruner::new(share).map_err(|e| refused(&e))?.importance(importance);
    let found = match importance {
        StructuredImportance::Taylor => pruner.compute_importance_by(model, &example, &gradients(trained, data, plan.rows)?),
        _ => pruner.compute_importance(model, &example),
    };
    let report = pruner.prune(model, &found.map_err(|e| refused(&e))?).map_err(|e| refused(&e))?;
    let shapes = json!(report.shapes(model));
    Ok((PrunedEnd::Channels(report), shapes))
}
/// The gradients of the loss of rows of the training part, which are answered at once.
fn gradients(trained: &Trained, data: &Path, rows: usize) -> Result<Grads, Failure> {
    let (objective, parts) = trained.data(data)?;
    let device = Device::current()?;
    let mut loader = DataLoader::new(parts.train).batch_size(rows).shuffle(0).build()?;
    let (x, y) = loader.epoch().next().ok_or_else(|| Failure::Input("the training part has no rows".into()))??;
    let outputs = evaluate::answer(&trained.model, &x.to(device).ok()?, trained.region.as_ref())?;
    Ok(objective.loss(&outputs, &y.to(device).ok()?)?.backward()?)
}
/// The shapes that a run's folder tells, with those of now in their places.
fn merged(run: &Path, now: Value) -> Result<Value, Failure> {
    let mut all = crate::trained::shapes(run)?.map(|shapes| json!(shapes)).unwrap_or_else(|| json!({}));
    if let (Some(all), Value::Object(now)) = (all.as_object_mut(), now) {
        all.extend(now);
    }
    Ok(all)
}
/// Looks at what a run's model makes of rows of the training part, for what could go.
///
/// # Errors
/// `Input`: the run or its data cannot be read. `Usage`: no rows, or activations that are not finite.
pub fn signals(run: &Path, data: &Path, rows: usize, limits: SignalLimits) -> Result<PruneSignals, Failure> {
    let trained = Trained::open(run)?;
    of_numbers(&trained, run, "look at the run that they were made of")?;
    let batches: Vec<Tensor> = no_grad(|| batches_of(&trained, data, rows, Device::current()?))?;
    prune_signals(&trained.model, &batches, limits).map_err(|e| refused(&e))
}
/// What was found, as JSON.
pub fn signals_to_json(found: &PruneSignals) -> Value {
    let layer = |l: &LayerSignals| {
        let redundant: Vec<Value> =
            l.redundant.iter().map(|(unit, other, r)| json!({ "unit": unit, "as": other, "correlation": folder::number(*r) })).collect();
        json!({
            "path": l.path, "kind": l.kind, "units": l.units, "dead": l.dead, "static": l.constant, "redundant": redundant,
            "rank": l.rank, "full_rank": l.full_rank, "low_rank": l.low_rank, "bits": l.bits,
            "decibels": { "8": folder::number(l.decibels[0]), "4": folder::number(l.decibels[1]), "3": folder::number(l.decibels[2]) },
        })
    };
    json!({ "layers": found.layers.iter().map(layer).collect::<Vec<_>>() })
}
