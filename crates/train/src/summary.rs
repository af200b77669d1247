//! The summary of a model: layers with their shapes, parameters, FLOPs and bytes, without running it.
//!
//! [`summary`] captures the graph of a forward pass ([`adamant_core::graph`]), gives each op to the layer it was
//! applied in, and adds up what the ops cost ([`adamant_core::cost`]). Invariant: no kernel is launched and no device memory is asked
//! for; the model and its cells stay as they are.
use crate::plot::scale::number;
use adamant_core::{
    DType, Device, Meta, Op, Result, Shape,
    cost::{self, Cost},
    graph::{Graph, Node},
    op::View,
    profile::record_function,
    scope,
};
use adamant_nn::{Module, Param, Role, Site, Visit};
use serde::Serialize;
use std::{
    collections::{HashMap, HashSet},
    fmt,
};

/// A layer.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// where it stands in the model; empty for the model itself
    pub path: String,
    /// what it is: `Linear`, `Conv2d`, ...; `model` for what belongs to no layer
    pub kind: String,
    /// shape of what it reads first, with the batch; `None` if nothing was computed in it
    pub input: Option<Vec<usize>>,
    /// shape of what it makes, with the batch
    pub output: Option<Vec<usize>>,
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
    let _range = record_function("shape");
    let leaves = model.leaves();
    let device = match leaves.first() {
        Some((_, p)) => p.meta().device,
        None => Device::current()?,
    };
    let dims: Vec<usize> = std::iter::once(batch).chain(input.iter().copied()).collect();
    let shape = Shape::new(&dims).map_err(|kind| adamant_core::Error::new("summary", kind))?;
    // Walking gives the layers their paths.
    let mut layers = Layers::default();
    model.visit(&mut layers);
    let graph = Graph::capture(device, &[Meta { shape, dtype, device }], |x| Ok(vec![model.forward(&x[0])?]))?;
    let owners: Vec<usize> = graph.nodes.iter().map(|n| layers.owner(&scope::path(n.scope))).collect();
    let (figures, uncounted) = figures(&graph, &owners, layers.rows.len(), &leaves)?;
    let mut rows = layers.rows;
    let mut seen = HashSet::new();
    for (path, p) in leaves.iter().filter(|(_, p)| p.role() == Role::Trainable && seen.insert(p.id())) {
        let owner = nearest(&rows, path);
        rows[owner].parameters += p.elements();
    }
    for (k, row) in rows.iter_mut().enumerate() {
        row.figures = figures[k];
        (row.input, row.output) = ends(&graph, &owners, k);
    }
    let totals = rows.iter().fold(Figures::default(), |sum, row| plus(sum, row.figures));
    // The model itself is a row only where something is its own.
    rows.retain(|r| !r.path.is_empty() || r.kind != MODEL || r.parameters > 0 || r.figures != Figures::default());
    let output = graph.outputs.first().map(|&v| graph.values[v as usize].shape.to_vec()).unwrap_or_default();
    Ok(Summary {
        rows,
        input: dims,
        output,
        parameters: model.parameter_count(),
        trainable: model.parameters().iter().map(Param::elements).sum(),
        parameter_bytes: model.memory_usage(),
        totals,
        uncounted: uncounted.into_iter().map(str::to_string).collect(),
    })
}
fn plus(a: Figures, b: Figures) -> Figures {
    Figures {
        flops: a.flops.saturating_add(b.flops),
        multiply_adds: a.multiply_adds.saturating_add(b.multiply_adds),
        bytes_moved: a.bytes_moved.saturating_add(b.bytes_moved),
        activation_bytes: a.activation_bytes.saturating_add(b.activation_bytes),
    }
}

const MODEL: &str = "model";
/// A row for each layer, the model itself first.
struct Layers {
    rows: Vec<Row>,
}
impl Default for Layers {
    fn default() -> Layers {
        Layers { rows: vec![row("", MODEL)] }
    }
}
fn row(path: &str, kind: &str) -> Row {
    Row { path: path.into(), kind: kind.into(), input: None, output: None, parameters: 0, figures: Figures::default() }
}
impl Visit for Layers {
    fn site(&mut self, path: &str, site: &Site) {
        if path.is_empty() {
            self.rows[0].kind = site.kind().into();
        } else if !self.rows.iter().any(|r| r.path == path) {
            self.rows.push(row(path, site.kind()));
        }
    }
}
impl Layers {
    /// The row that ops of a scope belong to.
    fn owner(&self, scope: &str) -> usize {
        nearest(&self.rows, scope)
    }
}
/// The row with the longest path that holds `path`, else the model's.
fn nearest(rows: &[Row], path: &str) -> usize {
    let holds = |r: &Row| path.strip_prefix(&*r.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let longest = rows.iter().enumerate().filter(|(_, r)| !r.path.is_empty() && holds(r)).max_by_key(|(_, r)| r.path.len());
    longest.map_or(0, |(k, _)| k)
}

/// The figures of each row, and the ops that cannot be counted.
fn figures(graph: &Graph, owners: &[usize], rows: usize, leaves: &[(String, Param)]) -> Result<(Vec<Figures>, Vec<&'static str>)> {
    let mut all = vec![Figures::default(); rows];
    let mut total = Cost::default();
    let bytes = |value: &u32| graph.values[*value as usize].bytes() as u64;
    for (node, &owner) in graph.nodes.iter().zip(owners) {
        let cost = cost::of_node(graph, node)?;
        let moved = if node.op.is_view() { 0 } else { node.inputs.iter().map(bytes).sum::<u64>() + node.outputs.clone().map(|v| bytes(&v)).sum::<u64>() };
        let of_node = Figures { flops: cost.flops, multiply_adds: cost.multiply_adds, bytes_moved: moved, activation_bytes: 0 };
        all[owner] = plus(all[owner], of_node);
        total.add(&cost);
    }
    let maker: HashMap<u32, usize> = graph.nodes.iter().enumerate().flat_map(|(k, n)| n.outputs.clone().map(move |v| (v, k))).collect();
    for value in kept(graph, &maker, leaves) {
        if let Some(&node) = maker.get(&value) {
            all[owners[node]].activation_bytes += bytes(&value);
        }
    }
    Ok((all, total.unknown))
}
/// The values that backward keeps in memory: what rules read of the nodes that a gradient flows through, views traced
/// back to what they show, without what can be had without keeping it.
fn kept(graph: &Graph, maker: &HashMap<u32, usize>, leaves: &[(String, Param)]) -> Vec<u32> {
    let trained: HashSet<u64> = leaves.iter().filter(|(_, p)| p.is_trainable()).map(|(_, p)| p.cell().id()).collect();
    let mut tracked: HashSet<u32> = graph.cells.iter().filter(|(_, cell)| trained.contains(cell)).map(|(value, _)| *value).collect();
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
            wanted.extend(node.saved.iter().map(|&v| shown(v)));
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
    wanted
}
/// The shape of the first value that enters a layer from outside, and of the last that it makes for others.
fn ends(graph: &Graph, owners: &[usize], row: usize) -> (Option<Vec<usize>>, Option<Vec<usize>>) {
    let own = |k: &usize| owners[*k] == row;
    let made: HashSet<u32> = (0..owners.len()).filter(own).flat_map(|k| graph.nodes[k].outputs.clone()).collect();
    let parameters: HashSet<u32> = graph.cells.iter().map(|(value, _)| *value).collect();
    let shape = |value: u32| graph.values[value as usize].shape.to_vec();
    // A random key is state, also where an earlier layer has moved it on.
    let is_key = |v: u32| graph.values[v as usize].dtype == DType::U32;
    let mut read = (0..owners.len()).filter(own).flat_map(|k| graph.nodes[k].inputs.iter().copied());
    let input = read.find(|&v| !made.contains(&v) && !parameters.contains(&v) && !is_key(v));
    let elsewhere: HashSet<u32> = (0..owners.len()).filter(|k| !own(k)).flat_map(|k| graph.nodes[k].inputs.iter().copied()).collect();
    let given = |v: &u32| elsewhere.contains(v) || graph.outputs.contains(v);
    let output = (0..owners.len()).rev().filter(own).flat_map(|k| graph.nodes[k].outputs.clone()).find(given);
    (input.map(shape), output.map(shape))
}

impl fmt::Display for Summary {
    /// A table of the layers, and the totals below it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header(["Layer", "Input", "Output", "Parameters", "FLOPs", "Moved", "FLOP/B", "Kept for backward"]);
        let shape = |dims: &Option<Vec<usize>>| dims.as_ref().map_or_else(|| "–".into(), |d| format!("{d:?}"));
        for row in &self.rows {
            let depth = if row.path.is_empty() { 0 } else { row.path.matches('.').count() };
            let name = if row.path.is_empty() { row.kind.clone() } else { format!("{}{}: {}", "  ".repeat(depth), row.path, row.kind) };
            let figures = &row.figures;
            let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
            let or_dash = |n: u64, text: String| if n == 0 { "–".into() } else { text };
            table.add_row([
                Cell::new(name),
                Cell::new(shape(&row.input)),
                Cell::new(shape(&row.output)),
                right(or_dash(row.parameters as u64, row.parameters.to_string())),
                right(or_dash(figures.flops, number(figures.flops as f64))),
                right(or_dash(figures.bytes_moved, size(figures.bytes_moved))),
                right(or_dash(figures.flops, format!("{:.1}", figures.intensity()))),
                right(or_dash(figures.activation_bytes, size(figures.activation_bytes))),
            ]);
        }
        let t = &self.totals;
        writeln!(f, "{table}")?;
        writeln!(f, "input {:?}, output {:?}", self.input, self.output)?;
        writeln!(f, "{} parameters, {} trainable, {} with buffers", self.parameters, self.trainable, size(self.parameter_bytes as u64))?;
        writeln!(f, "{} FLOPs forward, {} multiply-adds", number(t.flops as f64), number(t.multiply_adds as f64))?;
        write!(f, "{} moved without fusion, {:.1} FLOP/B; {} kept for backward", size(t.bytes_moved), t.intensity(), size(t.activation_bytes))?;
        if !self.uncounted.is_empty() {
            write!(f, "\nFLOPs not counted: {}", self.uncounted.join(", "))?;
        }
        Ok(())
    }
}
/// 1536 as `1.5 KiB`.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}
