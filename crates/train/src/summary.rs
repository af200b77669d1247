//! The summary of a model: layers with their shapes, parameters, FLOPs and bytes, without running it.
//!
//! [`summary`] captures the graph of a forward pass ([`adamant_core::graph`]), gives each op to the layer it was
//! applied in, and adds up what the ops cost ([`adamant_core::cost`]). Invariant: no kernel is launched and no device memory is asked
//! for; the model and its cells stay as they are.
mod table;

pub use table::Style;
pub(crate) use table::{fitted, folded, name_of, shape_of};

use adamant_core::{
    DType, Device, Meta, Op, Result, Shape,
    cost::{self, Cost},
    graph::{Graph, Node, saved},
    op::View,
    profile::record_function,
    scope,
};
use adamant_nn::{Module, Param, Role, Site, Visit};
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// A layer.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// where it stands in the model; empty for the model itself
    pub path: String,
    /// what it is: `Linear`, `Conv2d`, ...; `model` for what belongs to no layer
    pub kind: String,
    /// where the same layer stands besides: its ops name one place only, so all it does is told here
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// shape of what it reads first, with the batch; `None` if nothing was computed in it
    pub input: Option<Vec<usize>>,
    /// shape of what it makes, with the batch
    pub output: Option<Vec<usize>>,
    /// dtype of what it makes, which in mixed precision is what its class says
    #[serde(serialize_with = "by_name")]
    pub dtype: Option<DType>,
    /// elements of its own parameters, frozen ones too; a shared one counts at its first place
    pub parameters: usize,
    /// the figures of its own ops
    #[serde(flatten)]
    pub figures: Figures,
}
/// What ops compute and move.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Figures {
    /// floating-point operations of the forward pass, as [`adamant_core::cost`] counts them
    pub flops: u64,
    /// multiply-adds of products and convolutions among them
    pub multiply_adds: u64,
    /// floating-point operations of ops that read 16 bits
    pub flops_16bit: u64,
    /// bytes that are read and written if each op reads its inputs and writes its outputs once: what fusion keeps in
    /// registers is counted, so this is an upper bound
    pub bytes_moved: u64,
    /// bytes of results that backward reads, each once, without parameters, the model's inputs, and element-wise
    /// results that are computed again from what is kept anyway. An estimate from structure alone
    pub activation_bytes: u64,
}
impl Figures {
    /// FLOPs for each byte moved.
    pub fn intensity(&self) -> f64 {
        if self.bytes_moved == 0 { 0.0 } else { self.flops as f64 / self.bytes_moved as f64 }
    }
}
/// All layers and their totals.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// the layers, in the order of the model
    pub rows: Vec<Row>,
    /// shape of the input, with the batch
    pub input: Vec<usize>,
    /// shape of the output, with the batch
    pub output: Vec<usize>,
    /// elements of all parameters, shared ones once
    pub parameters: usize,
    /// those that gradients flow to
    pub trainable: usize,
    /// bytes of parameters, buffers and constants
    pub parameter_bytes: usize,
    /// sums over the layers
    #[serde(flatten)]
    pub totals: Figures,
    /// ops whose FLOPs are not known and not counted
    pub uncounted: Vec<String>,
}

/// The summary of a model in its present mode (training or evaluation), for a batch of inputs of a shape (without the
/// batch) and dtype (`I64` for what is embedded).
///
/// ```
/// # use adamant_core::DType;
/// # use adamant_nn::{Linear, Relu, Sequential};
/// # adamant_core::Device::reference().make_current();
/// let net = Sequential::new().add(Linear::new(4, 8)?).add(Relu::new()).add(Linear::new(8, 2)?);
/// let summary = adamant_train::summary::summary(&net, &[4], DType::F32, 16)?;
/// assert_eq!((summary.parameters, summary.output), (58, vec![16, 2]));
/// assert_eq!(summary.rows[0].figures.flops, 16 * (2 * 4 * 8 + 8));
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A shape that the model does not take, with the layer; a model that reads data in its forward pass.
#[track_caller]
pub fn summary(model: &dyn Module, input: &[usize], dtype: DType, batch: usize) -> Result<Summary> {
    let dims: Vec<usize> = std::iter::once(batch).chain(input.iter().copied()).collect();
    Ok(look(model, &dims, dtype)?.summary)
}
/// A model that was looked at: what [`summary()`] tells, and what it follows from.
pub(crate) struct Looked {
    pub summary: Summary,
    pub graph: Graph,
    /// by node of the graph: its row of the summary
    pub owners: Vec<usize>,
    pub leaves: Vec<(String, Param)>,
    /// the values that backward keeps
    pub kept: Vec<u32>,
    /// the values that a gradient flows to
    pub tracked: HashSet<u32>,
    layers: Layers,
    /// The model itself is no row of the summary.
    without_model: bool,
}
impl Looked {
    /// The row that a path belongs to.
    pub fn row_of(&self, path: &str) -> Option<usize> {
        self.layers.owner(path).checked_sub(usize::from(self.without_model))
    }
    pub fn bytes(&self, value: u32) -> u64 {
        self.graph.values[value as usize].bytes() as u64
    }
    /// The node that makes a value.
    pub fn maker(&self) -> HashMap<u32, usize> {
        maker(&self.graph)
    }
}
fn maker(graph: &Graph) -> HashMap<u32, usize> {
    graph.nodes.iter().enumerate().flat_map(|(k, n)| n.outputs.clone().map(move |v| (v, k))).collect()
}
/// Looks at a model for an input of a shape, with the batch.
#[track_caller]
pub(crate) fn look(model: &dyn Module, dims: &[usize], dtype: DType) -> Result<Looked> {
    let _range = record_function("shape");
    let leaves = model.leaves();
    let device = match leaves.first() {
        Some((_, p)) => p.meta().device,
        None => Device::current()?,
    };
    let shape = Shape::new(dims).map_err(|kind| adamant_core::Error::new("summary", kind))?;
    // Walking gives the layers their paths.
    let mut layers = Layers::default();
    model.visit(&mut layers);
    layers.join();
    let graph = Graph::capture(device, &[Meta { shape, dtype, device }], |x| Ok(vec![model.forward(&x[0])?]))?;
    let mut owners: Vec<usize> = graph.nodes.iter().map(|n| layers.owner(&scope::path(n.scope))).collect();
    let (mut all, uncounted) = figures(&graph, &owners, layers.rows.len())?;
    let maker = maker(&graph);
    let (kept, tracked) = kept(&graph, &maker, &leaves);
    for value in &kept {
        if let Some(&node) = maker.get(value) {
            let sum = &mut all[owners[node]].activation_bytes;
            *sum = sum.saturating_add(graph.values[*value as usize].bytes() as u64);
        }
    }
    let mut seen = HashSet::new();
    for (path, p) in leaves.iter().filter(|(_, p)| p.role() == Role::Trainable && seen.insert(p.id())) {
        let owner = layers.owner(path);
        layers.rows[owner].parameters = layers.rows[owner].parameters.saturating_add(p.elements());
    }
    let mut rows = std::mem::take(&mut layers.rows);
    let count = rows.len();
    for ((row, figures), (input, output)) in rows.iter_mut().zip(all).zip(ends(&graph, &owners, count)) {
        (row.figures, row.input) = (figures, input);
        (row.output, row.dtype) = output.map_or((None, None), |(shape, dtype)| (Some(shape), Some(dtype)));
    }
    let totals = rows.iter().fold(Figures::default(), |sum, row| plus(sum, row.figures));
    // The model itself is a row only where something is its own.
    let of_model = &rows[0];
    let without_model = of_model.kind == MODEL && of_model.parameters == 0 && of_model.figures == Figures::default() && !owners.contains(&0);
    if without_model {
        rows.remove(0);
        owners.iter_mut().for_each(|owner| *owner -= 1);
    }
    let output = graph.outputs.first().map(|&v| graph.values[v as usize].shape.to_vec()).unwrap_or_default();
    let summary = Summary {
        rows,
        input: dims.to_vec(),
        output,
        parameters: model.parameter_count(),
        trainable: model.trainable_parameters().iter().map(Param::elements).sum(),
        parameter_bytes: model.memory_usage(),
        totals,
        uncounted: uncounted.into_iter().map(str::to_string).collect(),
    };
    Ok(Looked { summary, graph, owners, leaves, kept, tracked, layers, without_model })
}
fn plus(a: Figures, b: Figures) -> Figures {
    Figures {
        flops: a.flops.saturating_add(b.flops),
        multiply_adds: a.multiply_adds.saturating_add(b.multiply_adds),
        flops_16bit: a.flops_16bit.saturating_add(b.flops_16bit),
        bytes_moved: a.bytes_moved.saturating_add(b.bytes_moved),
        activation_bytes: a.activation_bytes.saturating_add(b.activation_bytes),
    }
}

const MODEL: &str = "model";
/// A row for each layer, the model itself first.
struct Layers {
    rows: Vec<Row>,
    by_path: HashMap<String, usize>,
    sites: Vec<(Site, usize)>,
}
impl Default for Layers {
    fn default() -> Layers {
        Layers { rows: vec![row("", MODEL)], by_path: HashMap::from([(String::new(), 0)]), sites: Vec::new() }
    }
}
fn row(path: &str, kind: &str) -> Row {
    Row { path: path.into(), kind: kind.into(), also: Vec::new(), input: None, output: None, dtype: None, parameters: 0, figures: Figures::default() }
}
impl Visit for Layers {
    fn site(&mut self, path: &str, site: &Site) {
        if path.is_empty() {
            self.rows[0].kind = site.kind().into();
        } else if !self.by_path.contains_key(path) {
            self.by_path.insert(path.into(), self.rows.len());
            self.sites.push((site.clone(), self.rows.len()));
            self.rows.push(row(path, site.kind()));
        }
    }
}
impl Layers {
    /// One row for a layer that stands at several places: its site knows one path, whichever place is computed.
    fn join(&mut self) {
        let mut first: HashMap<String, usize> = HashMap::new();
        let mut to: Vec<usize> = (0..self.rows.len()).collect();
        for (site, k) in self.sites.drain(..) {
            let own = *first.entry(site.path().to_string()).or_insert(k);
            // A part of a larger model that is looked at alone computes under its path there.
            self.by_path.entry(site.path().to_string()).or_insert(k);
            if own != k {
                let path = self.rows[k].path.clone();
                self.rows[own].also.push(path);
                to[k] = own;
            }
        }
        let (mut place, mut next) = (Vec::with_capacity(to.len()), 0);
        for (k, own) in to.iter().enumerate() {
            place.push(next);
            next += usize::from(k == *own);
        }
        let mut stays = to.iter().enumerate().map(|(k, own)| k == *own);
        self.rows.retain(|_| stays.next().unwrap_or(true));
        self.by_path.values_mut().for_each(|row| *row = place[to[*row]]);
    }
    /// The row with the longest path that holds this one, else the model's.
    fn owner(&self, path: &str) -> usize {
        let mut path = path;
        loop {
            match (self.by_path.get(path), path.rfind('.')) {
                (Some(row), _) => return *row,
                (None, Some(dot)) => path = &path[..dot],
                (None, None) => return 0,
            }
        }
    }
}

/// The figures of each row, and the ops that cannot be counted.
fn figures(graph: &Graph, owners: &[usize], rows: usize) -> Result<(Vec<Figures>, Vec<&'static str>)> {
    let mut all = vec![Figures::default(); rows];
    let mut total = Cost::default();
    let bytes = |value: &u32| graph.values[*value as usize].bytes() as u64;
    for (node, &owner) in graph.nodes.iter().zip(owners) {
        let cost = cost::of_node(graph, node)?;
        let moved =
            if node.op.is_view() { 0 } else { node.inputs.iter().copied().chain(node.outputs.clone()).fold(0, |sum: u64, v| sum.saturating_add(bytes(&v))) };
        let is_low = node.inputs.iter().any(|v| matches!(graph.values[*v as usize].dtype, DType::F16 | DType::BF16));
        let flops_16bit = if is_low { cost.flops } else { 0 };
        let of_node = Figures { flops: cost.flops, multiply_adds: cost.multiply_adds, flops_16bit, bytes_moved: moved, activation_bytes: 0 };
        all[owner] = plus(all[owner], of_node);
        total.add(&cost);
    }
    Ok((all, total.unknown))
}
/// The values that backward keeps in memory: what rules read of the nodes that a gradient flows through, views traced
/// back to what they show, without what can be had without keeping it. And all values that a gradient flows to.
fn kept(graph: &Graph, maker: &HashMap<u32, usize>, leaves: &[(String, Param)]) -> (Vec<u32>, HashSet<u32>) {
    let trained: HashSet<u64> = leaves.iter().filter(|(_, p)| p.is_trainable()).map(|(_, p)| p.cell().id()).collect();
    let mut tracked: HashSet<u32> = graph.cells.iter().filter(|cell| trained.contains(&cell.id)).filter_map(|cell| cell.read).collect();
    let node_of = |value: u32| maker.get(&value).map(|&k| &graph.nodes[k]);
    let shown = |mut value: u32| {
        while let Some(source) = node_of(value).filter(|n| matches!(n.op, Op::View(View::Reshape(_) | View::Permute(_) | View::Expand(_)) | Op::StopGrad)) {
            value = source.inputs[0];
        }
        value
    };
    let mut wanted: Vec<u32> = Vec::new();
    for node in &graph.nodes {
        if node.inputs.iter().any(|v| tracked.contains(v)) && !matches!(node.op, Op::StopGrad) {
            tracked.extend(node.outputs.clone().filter(|&v| graph.values[v as usize].dtype.is_float()));
            wanted.extend(saved(node).into_iter().map(shown));
        }
    }
    let mut seen = HashSet::new();
    wanted.retain(|v| maker.contains_key(v) && seen.insert(*v));
    wanted.sort_unstable();
    // What an element-wise op makes of values that are there anyway is made again in the kernel that reads it.
    let mut there: HashSet<u32> = HashSet::new();
    let is_there = |there: &HashSet<u32>, v: u32| there.contains(&shown(v)) || !maker.contains_key(&shown(v));
    let again = |there: &HashSet<u32>, node: &Node| node.op.is_map() && node.inputs.iter().all(|&v| is_there(there, v));
    wanted.retain(|&v| {
        let kept = node_of(v).is_none_or(|node| !again(&there, node));
        there.insert(v);
        kept
    });
    (wanted, tracked)
}
fn by_name<S: serde::Serializer>(dtype: &Option<DType>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    dtype.map(|d| d.to_string()).serialize(serializer)
}
type Ends = (Option<Vec<usize>>, Option<(Vec<usize>, DType)>);
/// For each row the shape of the first value that enters it from outside, and of the last that it makes for others, with its dtype.
fn ends(graph: &Graph, owners: &[usize], rows: usize) -> Vec<Ends> {
    let mut ends: Vec<Ends> = vec![(None, None); rows];
    let values = graph.values.len();
    let mut owner_of: Vec<Option<usize>> = vec![None; values];
    for (node, &owner) in graph.nodes.iter().zip(owners) {
        node.outputs.clone().for_each(|v| owner_of[v as usize] = Some(owner));
    }
    let mut is_parameter = vec![false; values];
    graph.cells.iter().filter_map(|cell| cell.read).for_each(|value| is_parameter[value as usize] = true);
    let mut is_given = vec![false; values];
    graph.outputs.iter().for_each(|v| is_given[*v as usize] = true);
    let shape = |value: u32| Some(graph.values[value as usize].shape.to_vec());
    // A random key is state, also where an earlier layer has moved it on.
    let is_key = |v: u32| graph.values[v as usize].dtype == DType::U32;
    for (node, &owner) in graph.nodes.iter().zip(owners) {
        for &v in node.inputs.iter().filter(|v| owner_of[**v as usize] != Some(owner)) {
            is_given[v as usize] = true;
            if ends[owner].0.is_none() && !is_parameter[v as usize] && !is_key(v) {
                ends[owner].0 = shape(v);
            }
        }
    }
    for (node, &owner) in graph.nodes.iter().zip(owners) {
        if let Some(v) = node.outputs.clone().find(|v| is_given[*v as usize]) {
            ends[owner].1 = shape(v).map(|shape| (shape, graph.values[v as usize].dtype));
        }
    }
    ends
}
/// 1536 as `1.5 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}
