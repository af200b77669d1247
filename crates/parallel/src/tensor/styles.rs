//! Which layers of a model are cut, and how: patterns over paths. All is looked at before anything changes.
use super::{
    around::{Border, of_heads},
    cut::{CutLine, CutParam, Sharding, all_places},
};
use crate::{Mesh, MeshAxis};
use adamant_core::{Error, ErrorKind, Result, Tensor, grad::no_grad, op::Group};
use adamant_nn::{Param, Site, Submodule, Walk, glob_matches};

/// What becomes of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParallelStyle {
    /// A `Linear` of which each rank computes some outputs: `[.., in]` to `[.., out / ranks]`. A head that is tied to a table is cut as the table.
    Column,
    /// As `Column`, and the outputs are joined: `[.., out]` on every rank.
    ColumnGathered,
    /// A `Linear` of which each rank has some inputs, `[.., in / ranks]` (of `[.., in]` each takes its own) to `[.., out]`: the ranks are added, and the bias
    /// once.
    Row,
    /// A `MultiheadAttention`, with its projections: each rank has some heads.
    Heads,
    /// An `Embedding`, or a table that a `Column` head is tied to: each rank has some rows. The rows need not be a multiple of the ranks.
    Vocabulary,
    /// A layer that computes on what is this rank's own, between `Column` and `Row` or on a slice of the sequence: random numbers differ from rank to
    /// rank, and parameters, which stay whole, get the sum of the ranks' gradients.
    Apart,
    /// What the layer returns, alike on all ranks, is cut along the sequence.
    Scatter,
    /// What the layer returns, a slice of the sequence, is joined: alike on all ranks.
    Gather,
}
impl ParallelStyle {
    fn cuts(self) -> bool {
        matches!(self, ParallelStyle::Column | ParallelStyle::ColumnGathered | ParallelStyle::Row | ParallelStyle::Heads | ParallelStyle::Vocabulary)
    }
}
/// Options of [`parallelize_with`].
#[derive(Clone, Copy, Default, Debug)]
pub struct TensorOptions {
    /// The axis of activations that is cut between pieces of layers: 1 of `[batch, sequence, features]`. `None`: what lies there is whole on every rank.
    pub sequence_axis: Option<usize>,
}

/// Cuts layers of a model into pieces for the ranks along a mesh's `tensor` axis, by patterns over the paths of its modules (`*` stands for any
/// characters). The model has the same values on all of them. Make the optimizer afterwards, over this rank's pieces. A copy of the model
/// ([`Walk::deep_copy`]) has no hooks, and is of no use.
///
/// ```
/// use adamant_core::{communicator, Tensor};
/// use adamant_distributed::local::local_threads;
/// use adamant_nn::{Gelu, Linear, Module, Sequential, manual_seed};
/// use adamant_parallel::{Mesh, MeshShape, tensor::{ParallelStyle::{Column, Row}, parallelize}};
///
/// let model = || -> adamant_core::Result<Sequential> {
///     manual_seed(1);
///     Ok(Sequential::new().add_named("fc", Linear::new(4, 8)?).add(Gelu::new()).add_named("proj", Linear::new(8, 4)?))
/// };
/// adamant_core::Device::reference().make_current();
/// let alone = model()?.forward(&Tensor::ones([2, 4]))?.to_vec::<f32>()?;
/// std::thread::scope(|scope| {
///     let ranks: Vec<_> = local_threads(2).map_err(|e| e.to_string())?.into_iter().map(|on| {
///         scope.spawn(move || {
///             adamant_core::Device::reference().make_current();
///             let mesh = Mesh::new(&communicator::group(&on), MeshShape { tensor: 2, ..MeshShape::default() })?;
///             let model = model()?;
///             parallelize(&model, &mesh, &[("fc", Column), ("proj", Row)])?;
///             model.forward(&Tensor::ones([2, 4]))?.to_vec::<f32>()
///         })
///     }).collect();
///     for rank in ranks {
///         let got = rank.join().unwrap()?;
///         assert!(got.iter().zip(&alone).all(|(a, b)| (a - b).abs() < 1e-6));
///     }
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A pattern that no module has; a layer of another kind; features, heads that the ranks do not divide, fewer rows than ranks; a parameter that
/// is tied to one that is cut, and is not cut itself. Then nothing has changed.
#[track_caller]
pub fn parallelize(model: &(impl Walk + ?Sized), mesh: &Mesh, styles: &[(&str, ParallelStyle)]) -> Result<Sharding> {
    parallelize_with(model, mesh, styles, TensorOptions::default())
}
/// The same with options.
///
/// # Errors
/// As [`parallelize`].
#[track_caller]
pub fn parallelize_with(model: &(impl Walk + ?Sized), mesh: &Mesh, styles: &[(&str, ParallelStyle)], options: TensorOptions) -> Result<Sharding> {
    cut_over(model, mesh.group(MeshAxis::Tensor), styles, options)
}
/// A layer and what becomes of it.
struct StyledLayer {
    path: String,
    module: Submodule,
    style: ParallelStyle,
    /// its projection, of attention
    out_proj: Option<Submodule>,
}
#[track_caller]
fn refuse(text: String) -> Error {
    Error::new("parallelize", ErrorKind::Argument(text))
}
fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}.{name}") }
}
/// The same over a group.
#[track_caller]
pub(crate) fn cut_over(model: &(impl Walk + ?Sized), group: &Group, styles: &[(&str, ParallelStyle)], options: TensorOptions) -> Result<Sharding> {
    let layers = chosen(model, styles, options)?;
    if group.size == 1 {
        return Ok(Sharding { group: group.clone(), cut: Vec::new() });
    }
    let cut = cuts(model, &layers, group.size as usize)?;
    let (rank, size) = (group.rank as usize, group.size as usize);
    let piece = |cut: &CutParam| {
        let piece = no_grad(|| cut.line().piece(&cut.param.detached(), rank, size))?.contiguous();
        piece.materialize()?;
        Ok(piece)
    };
    let pieces: Vec<Tensor> = cut.iter().map(piece).collect::<Result<_>>()?;
    cut.iter().zip(&pieces).try_for_each(|(cut, piece)| cut.param.resize(piece))?;
    let border = Border { group: group.clone(), sequence_axis: options.sequence_axis };
    layers.iter().try_for_each(|layer| hook(&border, layer, &cut))?;
    Ok(Sharding { group: group.clone(), cut })
}
/// The layers that patterns match.
#[track_caller]
fn chosen(model: &(impl Walk + ?Sized), styles: &[(&str, ParallelStyle)], options: TensorOptions) -> Result<Vec<StyledLayer>> {
    let modules = model.named_modules();
    let mut layers: Vec<StyledLayer> = Vec::new();
    for (pattern, style) in styles {
        let found: Vec<&(String, Submodule)> = modules.iter().filter(|(path, _)| glob_matches(pattern, path)).collect();
        if found.is_empty() {
            let all: Vec<&str> = modules.iter().map(|(path, _)| path.as_str()).filter(|path| !path.is_empty()).collect();
            return Err(refuse(format!("no module has a path like `{pattern}`")).hint(format!("there are {}", all.join(", "))));
        }
        if options.sequence_axis.is_none() && matches!(style, ParallelStyle::Scatter | ParallelStyle::Gather) {
            return Err(refuse(format!("`{pattern}` is to be cut or joined along the sequence, and which axis that is was not said"))
                .hint("parallelize_with(.., TensorOptions { sequence_axis: Some(1) })"));
        }
        for (path, module) in found {
            let site = module.site()?;
            let shared = |layer: &&StyledLayer| layer.module.site().is_ok_and(|other| other.same(site));
            if let Some(other) = layers.iter().filter(shared).find(|layer| layer.style == *style || (layer.style.cuts() && style.cuts())) {
                // One layer in two places is met twice.
                if other.style == *style && other.path != *path {
                    continue;
                }
                return Err(refuse(format!("`{path}` is to be {:?} and {style:?}: two patterns match it", other.style)));
            }
            let out_proj = joined(path, "out_proj");
            let out_proj = modules.iter().find(|(path, _)| *path == out_proj).map(|(_, module)| module.clone()).filter(|_| *style == ParallelStyle::Heads);
            layers.push(StyledLayer { path: path.clone(), module: module.clone(), style: *style, out_proj });
        }
    }
    Ok(layers)
}
/// The parameters that are cut, after all that could be wrong was looked for.
#[track_caller]
fn cuts(model: &(impl Walk + ?Sized), layers: &[StyledLayer], size: usize) -> Result<Vec<CutParam>> {
    let mut cut: Vec<CutParam> = Vec::new();
    let tables: Vec<&Param> = layers.iter().filter(|l| l.style == ParallelStyle::Vocabulary).filter_map(|l| l.module.parameter("weight")).collect();
    for layer in layers {
        for (name, param, line) in of_layer(layer, size, &tables)? {
            let whole = param.meta().shape;
            match cut.iter().find(|known| known.param.same(&param)) {
                Some(known) if known.line() != line => {
                    return Err(refuse(format!("`{}` is tied to `{}`, and would be cut along another axis", joined(&layer.path, &name), known.path)));
                }
                Some(_) => {}
                None => cut.push(CutParam { path: joined(&layer.path, &name), param, whole, axis: line.axis, sections: line.sections }),
            }
        }
    }
    let planned = |path: &str| {
        layers
            .iter()
            .any(|layer| layer.style.cuts() && path.strip_prefix(layer.path.as_str()).is_some_and(|rest| rest.starts_with('.') || layer.path.is_empty()))
    };
    for (path, param) in all_places(model) {
        if let (Some(known), false) = (cut.iter().find(|known| known.param.same(&param)), planned(&path)) {
            return Err(refuse(format!("`{path}` is tied to `{}`, which is cut", known.path))
                .hint("give the layer a style too: `Column` of a head that is tied to a table"));
        }
    }
    Ok(cut)
}
/// What of a layer is cut, and how.
#[track_caller]
fn of_layer(layer: &StyledLayer, size: usize, tables: &[&Param]) -> Result<Vec<(String, Param, CutLine)>> {
    let (path, module) = (&layer.path, &layer.module);
    let is = |kind: &str| {
        if module.kind == kind {
            return Ok(());
        }
        Err(refuse(format!("`{path}` is of the kind {}, and {:?} is for layers of the kind {kind}", module.kind, layer.style)))
    };
    let weight = || module.parameter("weight").cloned().ok_or_else(|| refuse(format!("`{path}` has no weight of its own that could be cut")));
    let divides = |n: usize, what: &str| {
        if n.is_multiple_of(size) {
            return Ok(());
        }
        Err(refuse(format!("`{path}` has {n} {what}, of which {size} ranks cannot each have as many")))
    };
    match layer.style {
        ParallelStyle::Apart | ParallelStyle::Scatter | ParallelStyle::Gather => Ok(Vec::new()),
        ParallelStyle::Column | ParallelStyle::ColumnGathered => {
            is("Linear")?;
            let weight = weight()?;
            let is_tied = tables.iter().any(|table| table.same(&weight));
            if !is_tied || layer.style == ParallelStyle::ColumnGathered {
                divides(weight.meta().shape[0], "output features")?;
            }
            let bias = module.parameter("bias").map(|bias| ("bias".to_string(), bias.clone(), CutLine::ROWS));
            Ok([("weight".to_string(), weight, CutLine::ROWS)].into_iter().chain(bias).collect())
        }
        ParallelStyle::Row => {
            is("Linear")?;
            let weight = weight()?;
            divides(weight.meta().shape[1], "input features")?;
            Ok(vec![("weight".to_string(), weight, CutLine::COLUMNS)])
        }
        ParallelStyle::Vocabulary => {
            is("Embedding")?;
            let weight = weight()?;
            let rows = weight.meta().shape[0];
            if rows < size {
                return Err(refuse(format!("`{path}` has {rows} rows, and {size} ranks hold one at least")));
            }
            Ok(vec![("weight".to_string(), weight, CutLine::ROWS)])
        }
        ParallelStyle::Heads => {
            is("MultiheadAttention")?;
            let Some(out) = layer.out_proj.as_ref().and_then(|module| module.parameter("weight")).cloned() else {
                return Err(refuse(format!("`{path}` has no projection `out_proj.weight` of its own that could be cut")));
            };
            let (features, head_dim) = (out.meta().shape[1], module.site()?.head_dim().unwrap_or(1).max(1));
            divides(features / head_dim, "heads")?;
            let own = module.parameters.iter().filter_map(|(name, param)| Some((name.clone(), param.clone(), of_heads(name)?)));
            Ok(own.chain([("out_proj.weight".to_string(), out, CutLine::COLUMNS)]).collect())
        }
    }
}
/// What is exchanged around a layer.
#[track_caller]
fn hook(border: &Border, layer: &StyledLayer, cut: &[CutParam]) -> Result<()> {
    let site: &Site = layer.module.site()?;
    let whole = |param: &Param| cut.iter().find(|known| known.param.same(param)).map_or(param.meta().shape, |known| known.whole);
    let weight = layer.module.parameter("weight");
    match layer.style {
        ParallelStyle::Column => border.enters(site),
        ParallelStyle::ColumnGathered => {
            border.enters(site)?;
            border.joins_features(site)
        }
        ParallelStyle::Row => border.adds(site, weight.map_or(0, |w| whole(w)[1]), layer.module.parameter("bias")),
        ParallelStyle::Heads => {
            border.enters(site)?;
            border.draws_apart(site)?;
            let Some(out) = &layer.out_proj else { return Ok(()) };
            border.adds(out.site()?, out.parameter("weight").map_or(0, |w| whole(w)[1]), out.parameter("bias"))
        }
        ParallelStyle::Vocabulary => weight.map_or(Ok(()), |table| border.looks_up(site, table, whole(table)[0])),
        ParallelStyle::Apart => border.stands_apart(site, &layer.module.parameters),
        ParallelStyle::Scatter => border.sequence_axis.map_or(Ok(()), |axis| border.scatters(site, axis)),
        ParallelStyle::Gather => border.sequence_axis.map_or(Ok(()), |axis| border.gathers(site, axis)),
    }
}
