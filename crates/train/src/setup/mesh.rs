//! A model that ranks share, made from a description: which layers are cut, whether what comes of it is the model that one process would have, and
//! which layers are this rank's.
//!
//! ```text
//! the whole model, alike on every rank -> loss and gradients of a few rows
//!   -> pieces of layers, by patterns   -> the same loss and gradients, or it is refused
//!   -> stages, by cost                 -> this rank's
//! ```
//!
//! Every rank makes the whole model, and lets go of what is not its own before the optimizer is made.
use super::portions::part_sizes;
use crate::{
    Failure,
    config::Section,
    dataset::Parts,
    objective::Objective,
    recipe::{MeshRecipe, TensorStyles},
    session::{MeshedModel, PassOf, WholeModel, gather},
};
use adamant_core::{DType, Device, Error, ErrorKind, Result as Computed, Tensor, communicator::of, grad::no_grad, op::Group, op::rank_parts};
use adamant_data::Dataset;
use adamant_nn::{Module, Sequential, Submodule, Walk, Walker, rng_state, set_rng_state};
use adamant_parallel::{
    Mesh, MeshAxis, convert_sync_batchnorm,
    pipeline::{Pipeline, cut_by_cost, layer_costs},
    tensor::{ParallelStyle, Sharding, TensorOptions, parallelize_with},
};
use std::{collections::HashMap, ops::Range, sync::Arc};

/// The model of a run, as far as this rank has it.
pub enum RunModel {
    /// all of its layers, perhaps in pieces
    Whole(Sequential),
    /// those of one stage of a pipeline
    Stage(Box<Pipeline>),
}
impl RunModel {
    /// The layers, where all of them are here.
    pub fn layers(&self) -> Option<&Sequential> {
        if let RunModel::Whole(model) = self { Some(model) } else { None }
    }
}
impl Walk for RunModel {
    fn walk(&self, walker: &mut Walker<'_>) {
        match self {
            RunModel::Whole(model) => model.walk(walker),
            RunModel::Stage(pipeline) => pipeline.walk(walker),
        }
    }
}
/// What the whole model gives. Of stages, all call it.
impl Module for RunModel {
    fn forward(&self, x: &Tensor) -> Computed<Tensor> {
        match self {
            RunModel::Whole(model) => model.forward(x),
            RunModel::Stage(pipeline) => pipeline.outputs(x),
        }
    }
}
/// How the ranks of a run share its model.
pub(crate) struct ModelSharing {
    pub mesh: Option<(Mesh, MeshRecipe)>,
    /// the ranks whose rows batch norms see
    pub norms_over: Option<Group>,
    /// parts of a step
    pub parts: usize,
}
/// What a model is cut for.
pub(super) struct CutPlace<'p, 'd> {
    pub root: &'p Section<'d>,
    pub parts: &'p Parts,
    pub objective: &'p Objective,
    pub batch: usize,
}
/// Rows by which it is looked whether pieces compute what the whole does.
const LOOKED_AT: usize = 4;
/// So far the gradients of pieces may be from those of the whole, as a share of their largest number: sums are rounded otherwise, no more.
const NEAR: f64 = 1e-3;

impl ModelSharing {
    /// This rank's part of a model.
    ///
    /// # Errors
    /// Patterns that do not go together, more stages than layers, with the line; ranks that begin with other weights; a lost peer.
    pub(super) fn cut(&self, model: Sequential, place: &CutPlace<'_, '_>) -> Result<(RunModel, Option<MeshedModel>), Failure> {
        let device = Device::current()?;
        let section = place.root.need("distributed", place.root.section("distributed")?)?;
        if let Some(group) = &self.norms_over {
            self.joins_norms(&model, group, &section, place)?;
        }
        let Some((mesh, recipe)) = &self.mesh else { return Ok((RunModel::Whole(model), None)) };
        begins_alike(&model, mesh)?;
        let whole = WholeModel::of(&model);
        // Nothing here counts among the numbers that the run draws.
        let random = rng_state(device)?;
        let (x, y) = rows(place, device)?;
        model.set_training(false);
        let (model, costs) = if recipe.pipelines() > 1 { costs(model, &x).map(|(model, costs)| (model, Some(costs)))? } else { (model, None) };
        let sharding = pieces(&model, mesh, recipe, &section, (place.objective, &x, &y))?;
        model.set_training(true);
        set_rng_state(device, random)?;
        let model = match costs {
            None => RunModel::Whole(model),
            Some(costs) => self.stage(model, mesh, recipe, &costs, &section, place)?,
        };
        Ok((model, Some(MeshedModel::new(mesh.clone(), sharding, whole))))
    }
    fn joins_norms(&self, model: &Sequential, group: &Group, section: &Section<'_>, place: &CutPlace<'_, '_>) -> Result<(), Failure> {
        let (ranks, rows) = (group.size as usize, place.parts.train.len());
        if self.parts != ranks {
            return Err(section.wrong_key("sync_bn", format!("a norm sees one part of each rank: {ranks} shards on {ranks} ranks, not {}", self.parts)));
        }
        let last = rows % place.batch;
        let fewest = if last > 0 { last } else { rows.min(place.batch) };
        if fewest < ranks {
            let told = format!("of {rows} rows a batch has {fewest} (`batch = {}`), and each of {ranks} ranks has one at least", place.batch);
            return Err(section.wrong_key("sync_bn", told));
        }
        match convert_sync_batchnorm(model, group)? {
            0 => Err(section.wrong_key("sync_bn", "the model has no batch norm")),
            _ => Ok(()),
        }
    }
    fn stage(
        &self,
        model: Sequential,
        mesh: &Mesh,
        recipe: &MeshRecipe,
        costs: &[f64],
        section: &Section<'_>,
        place: &CutPlace<'_, '_>,
    ) -> Result<RunModel, Failure> {
        let (stages, schedule) = (mesh.size(MeshAxis::Pipeline), recipe.schedule);
        let wrong = |e: Error| section.wrong_key("mesh", e.kind());
        let trains: Vec<bool> = model.layers().map(|(_, layer)| !layer.trainable_parameters().is_empty()).collect();
        let groups = learning_groups(&trains);
        if groups.len() < stages * schedule.chunks() {
            let told =
                format!("{} layers are trained, and {schedule} on {stages} stages cuts them into {} stretches", groups.len(), stages * schedule.chunks());
            return Err(section.wrong_key("mesh", told));
        }
        let of_groups: Vec<f64> = groups.iter().map(|group| costs.get(group.clone()).unwrap_or_default().iter().sum()).collect();
        let stretches = cut_by_cost(&of_groups, stages * schedule.chunks()).map_err(wrong)?;
        let stretches = stretches.into_iter().filter_map(|s| Some(groups.get(s.start)?.start..groups.get(s.end.checked_sub(1)?)?.end)).collect();
        let smallest = part_sizes(place.parts.train.len(), place.batch, self.parts, true).first().copied().unwrap_or(0);
        if schedule.chunks() > 1 && smallest < stages {
            let told = format!(
                "{schedule} takes as many micro-batches as there are stages ({stages}), and a part of a step has {smallest} rows: \"1f1b\", or a larger `batch`"
            );
            return Err(section.wrong_key("schedule", told));
        }
        Ok(RunModel::Stage(Box::new(Pipeline::with_stretches(model.into_layers(), mesh, schedule, stretches).map_err(wrong)?)))
    }
}
/// Layers that are trained, each with those behind it that are not, the first also with those before it: what a stage has one of at least.
fn learning_groups(trains: &[bool]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut has_one = false;
    for (k, is) in trains.iter().enumerate() {
        match groups.last_mut() {
            Some(last) if !(*is && has_one) => last.end = k + 1,
            _ => groups.push(k..k + 1),
        }
        has_one |= is;
    }
    groups
}
/// Have all ranks the same weights?
fn begins_alike(model: &Sequential, mesh: &Mesh) -> Result<(), Failure> {
    let mut weights = blake3::Hasher::new();
    for (name, tensor) in model.state_dict() {
        weights.update(name.as_bytes());
        weights.update(&tensor.to_bytes()?);
    }
    let fail = |kind| Failure::from(Error::new("mesh", kind));
    let own = weights.finalize();
    let all = gather(of(mesh.world()).map_err(fail)?, own.as_bytes()).map_err(fail)?;
    match all.iter().position(|other| other.as_slice() != own.as_bytes()) {
        None => Ok(()),
        Some(rank) => Err(Failure::Usage(format!("rank {} and rank {rank} begin with other weights: all ranks of a run begin alike", mesh.world().rank))),
    }
}
/// The first rows of the training part.
fn rows(place: &CutPlace<'_, '_>, device: Device) -> Result<(Tensor, Tensor), Failure> {
    let mut loader = place.parts.loader(0, LOOKED_AT.min(place.parts.train.len()), None)?;
    let (x, y) = loader.next_batch().transpose()?.ok_or_else(|| Failure::Input("there is no row to look at the model with".into()))?;
    Ok((x.to(device), y.to(device)))
}
/// What layers cost, and the model again.
fn costs(model: Sequential, x: &Tensor) -> Result<(Sequential, Vec<f64>), Failure> {
    let layers = model.into_layers();
    let costs = no_grad(|| layer_costs(&layers, x))?;
    let mut model = Sequential::new();
    layers.into_iter().for_each(|(name, layer)| model.push(&name, layer));
    Ok((model, costs))
}
/// The loss of some rows, and the gradient of each parameter that has one: whole, as numbers.
type LookedGradients = (f64, Vec<(String, Vec<f64>)>);
fn looked(model: &Sequential, sharding: Option<&Sharding>, (objective, x, y): (&Objective, &Tensor, &Tensor)) -> Computed<LookedGradients> {
    let loss = objective.loss(&model.forward(x)?, y)?;
    let value = loss.cast(DType::F64).item::<f64>()?;
    let grads = loss.backward()?;
    let whole = match sharding {
        Some(sharding) => sharding.gradients(model, &grads)?,
        None => model.named_parameters().into_iter().filter_map(|(path, p)| Some((path, grads.of(&p.cell())?.clone()))).collect(),
    };
    let numbers = whole.into_iter().map(|(path, g)| Ok((path, g.cast(DType::F64).to_vec::<f64>()?))).collect::<Computed<_>>()?;
    Ok((value, numbers))
}
/// Cuts layers by the patterns, and looks whether loss and gradients are still those of the whole model.
fn pieces(model: &Sequential, mesh: &Mesh, recipe: &MeshRecipe, section: &Section<'_>, rows: (&Objective, &Tensor, &Tensor)) -> Result<Sharding, Failure> {
    let styles = match &recipe.styles {
        TensorStyles::Patterns(styles) => styles.clone(),
        TensorStyles::Auto => automatic(model, mesh.size(MeshAxis::Tensor)),
    };
    if styles.is_empty() && recipe.tensors() > 1 {
        return Err(section.wrong_key("tensor", "no layer is cut: there is none whose kind tells how, or there is no pattern"));
    }
    let table = if section.is_text("tensor") { None } else { section.section("tensor")? };
    // The pattern that is meant, where the text names one.
    let wrong = |told: String, hint: Option<&str>| {
        let told = hint.map_or_else(|| told.clone(), |hint| format!("{told}; {hint}"));
        match &table {
            Some(table) => match styles.iter().find(|(pattern, _)| told.contains(&format!("`{pattern}`")) && table.has(pattern)) {
                Some((pattern, _)) => table.wrong_key(pattern, told),
                None => section.wrong_key("tensor", told),
            },
            None => section.wrong_key("tensor", told),
        }
    };
    let by_name: Vec<(&str, ParallelStyle)> = styles.iter().map(|(pattern, style)| (pattern.as_str(), *style)).collect();
    let options = TensorOptions { sequence_axis: recipe.sequence_axis };
    let before = if recipe.tensors() > 1 { Some(looked(model, None, rows)?) } else { None };
    let sharding = parallelize_with(model, mesh, &by_name, options).map_err(|e| wrong(e.kind().to_string(), e.hint_text()))?;
    let Some((loss, gradients)) = before else { return Ok(sharding) };
    let together = "what a `column` cuts a `row` takes up, with `apart` for what lies between; the last layer is `column_gathered`, or whole";
    let (now, of_pieces) =
        looked(model, Some(&sharding), rows).map_err(|e| wrong(format!("these patterns do not go together: {}", e.kind()), Some(together)))?;
    // A loss that is no number is not near.
    let is_near = (now - loss).abs() <= NEAR * loss.abs() + 1e-6;
    if !is_near {
        return Err(wrong(format!("with these patterns the loss is {now}, and {loss} of the whole model"), Some(together)));
    }
    let of_pieces: HashMap<String, Vec<f64>> = of_pieces.into_iter().collect();
    for (path, want) in &gradients {
        let got = of_pieces.get(path).map_or(&[][..], Vec::as_slice);
        let largest = want.iter().fold(0f64, |most, v| most.max(v.abs()));
        let near = got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() <= NEAR * largest + 1e-6);
        if !near {
            return Err(wrong(format!("with these patterns the gradient of {path} is another one than of the whole model"), Some(together)));
        }
    }
    Ok(sharding)
}
/// Which layers can be cut, as their kinds tell: attention by heads, a block's two linear layers, and two linear layers with nothing but an activation, or
/// dropout, between them.
fn automatic(model: &Sequential, ranks: usize) -> Vec<(String, ParallelStyle)> {
    let modules: Vec<(String, Submodule)> = model.named_modules();
    let by_path: HashMap<&str, &Submodule> = modules.iter().map(|(path, module)| (path.as_str(), module)).collect();
    let width = |path: &str, axis: usize| by_path.get(path).filter(|m| m.kind == "Linear").and_then(|m| m.parameter("weight")).map(|w| w.meta().shape[axis]);
    let pairs = |column: &str, row: &str| width(column, 0).is_some_and(|n| width(row, 1) == Some(n) && n.is_multiple_of(ranks));
    let mut styles = Vec::new();
    for (path, module) in &modules {
        if module.kind == "MultiheadAttention"
            && heads(module, by_path.get(format!("{path}.out_proj").as_str()).copied()).is_some_and(|n| n.is_multiple_of(ranks))
        {
            styles.push((path.clone(), ParallelStyle::Heads));
        }
        let (column, row) = (format!("{path}.linear1"), format!("{path}.linear2"));
        if module.kind.starts_with("Transformer") && pairs(&column, &row) {
            styles.extend([(column, ParallelStyle::Column), (row, ParallelStyle::Row)]);
            let dropout = format!("{path}.dropout");
            styles.extend(by_path.contains_key(dropout.as_str()).then_some((dropout, ParallelStyle::Apart)));
        }
    }
    // Layers one behind another.
    let tied = |path: &str| {
        let weight = by_path.get(path).and_then(|m| m.parameter("weight"));
        weight.is_some_and(|w| modules.iter().filter(|(_, m)| m.parameters.iter().any(|(_, p)| p.same(w))).count() > 1)
    };
    let (mut open, mut between): (Option<&str>, Vec<&str>) = (None, Vec::new());
    for (name, _) in model.layers() {
        match by_path.get(name).map_or("", |m| m.kind) {
            "Linear" => match open {
                Some(column) if pairs(column, name) && !tied(column) && !tied(name) => {
                    styles.extend([(column.to_string(), ParallelStyle::Column), (name.to_string(), ParallelStyle::Row)]);
                    styles.extend(between.iter().map(|name| (name.to_string(), ParallelStyle::Apart)));
                    open = None;
                }
                _ => open = Some(name),
            },
            "Dropout" => {
                between.push(name);
                continue;
            }
            "ReLU" | "Relu" | "GELU" | "Gelu" | "SiLU" | "Silu" | "Tanh" | "Sigmoid" | "LeakyReLU" | "LeakyRelu" | "ELU" | "Elu" | "Mish" | "Hardswish"
            | "Softplus" => continue,
            _ => open = None,
        }
        between.clear();
    }
    styles
}
fn heads(attention: &Submodule, out_proj: Option<&Submodule>) -> Option<usize> {
    let features = out_proj?.parameter("weight")?.meta().shape[1];
    Some(features / attention.site().ok()?.head_dim()?.max(1))
}
/// How a batch goes through all stages: in micro-batches of nearly as many rows, whose losses count by their rows.
pub(crate) fn pass(objective: Objective, recipe: &MeshRecipe) -> PassOf<RunModel, (Tensor, Tensor)> {
    let recipe = recipe.clone();
    Arc::new(move |model, (x, y)| {
        let RunModel::Stage(pipeline) = model else {
            return Err(Error::new("step", ErrorKind::Internal("a pass through stages of a model that has none".into())));
        };
        let n = x.shape()?.first().copied().unwrap_or(0);
        let micros = recipe.micro_batches_of(n);
        let cuts: Vec<_> = (0..micros).map(|k| rank_parts(n, k, micros)).collect();
        let of = |t: &Tensor| -> Vec<Tensor> { cuts.iter().map(|cut| t.narrow(0, cut.start, cut.len())).collect() };
        let (inputs, targets) = (of(x), of(y));
        let step = pipeline.step(&inputs, |k, outputs| match (targets.get(k), cuts.get(k)) {
            (Some(target), Some(cut)) => (objective.loss(outputs, target)? * cut.len() as f64).ok(),
            _ => Err(Error::new("step", ErrorKind::Internal(format!("there is no micro-batch {k}")))),
        })?;
        // Added as one process adds losses of batches: in their type, one behind the other.
        let total = step.losses.iter().fold(0f32, |total, loss| total + *loss as f32);
        Ok((Tensor::full_on([0usize; 0], f64::from(total), DType::F32, x.device()?), step.grads))
    })
}
#[cfg(test)]
mod tests {
    use super::learning_groups;

    #[test]
    fn a_stage_that_learns_nothing() {
        for (trains, want) in [("1", "0"), ("11", "01"), ("0110", "0011"), ("1001", "0001"), ("00", "00"), ("01001", "00001"), ("101010", "001122")] {
            let trains: Vec<bool> = trains.chars().map(|c| c == '1').collect();
            let told: String = learning_groups(&trains).into_iter().enumerate().flat_map(|(k, group)| group.map(move |_| k.to_string())).collect();
            assert_eq!(told, want);
        }
    }
}
