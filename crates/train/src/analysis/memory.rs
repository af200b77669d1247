//! The plan of a model's memory by origin: what each layer holds, and the moment of a pass at which the most is held, from the graph
//! alone. Each op is taken to write its outputs: what fusion keeps in registers is counted, and what a kernel needs for its own work,
//! as a convolution for its patches, is not. In training
//! a backward pass is thought behind the forward that has run: it goes through the same ops from the last to the first, and holds the
//! gradient of each value from its last reader to its maker. What was kept for it is held until all of it has run, for it is
//! recorded and planned as a whole.
use crate::{summary::Looked, summary::size};
use serde::Serialize;
use std::{
    collections::{HashMap, HashSet},
    fmt,
};

/// Where the memory goes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ModelMemory {
    /// what the layers hold, in the order of the model
    pub rows: Vec<MemoryRow>,
    /// the most that a forward pass without gradients holds
    pub inference: Peak,
    /// the most that a forward and a backward pass hold, without the optimizer's state
    pub training: Peak,
}
/// What a layer holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Default)]
#[non_exhaustive]
pub struct MemoryRow {
    /// the layer
    pub layer: String,
    /// bytes of parameters and buffers
    pub parameters: u64,
    /// bytes of gradients of parameters
    pub gradients: u64,
    /// bytes of results that backward reads
    pub saved: u64,
}
/// A moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Default)]
#[non_exhaustive]
pub struct Peak {
    /// how much is held
    pub bytes: u64,
    /// in the backward pass?
    pub backward: bool,
    /// the layer whose op runs then
    pub layer: String,
    /// the op
    pub op: String,
    /// what is held then, largest first
    pub alive: Vec<Alive>,
}
/// What is held of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alive {
    /// the layer; `input` for the model's input
    pub layer: String,
    /// what it is
    pub holds: Holds,
    /// how much
    pub bytes: u64,
}
/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Holds {
    /// parameters, buffers and constants
    Parameters,
    /// results that backward reads
    Saved,
    /// results on their way to the next op
    Passing,
    /// gradients of results and of parameters
    Gradients,
}
impl fmt::Display for Peak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layer = if self.layer.is_empty() { "the model".into() } else { crate::failure::shown(&self.layer) };
        write!(f, "{} at most, in {layer} ({}{})", size(self.bytes), self.op, if self.backward { ", backward" } else { "" })
    }
}

/// Something that is held for a while.
struct Stay {
    row: Option<usize>,
    holds: Holds,
    bytes: u64,
    from: usize,
    /// the last moment, included
    to: usize,
}
impl ModelMemory {
    pub(crate) fn of(looked: &Looked) -> ModelMemory {
        let names: Vec<String> = looked.summary.rows.iter().map(|r| r.path.clone()).collect();
        let spans = |training| Life::of(looked, training).spans();
        let mut rows: Vec<MemoryRow> = names.iter().map(|layer| MemoryRow { layer: layer.clone(), ..MemoryRow::default() }).collect();
        for (path, p) in &looked.leaves {
            let bytes = p.meta().bytes() as u64;
            if let Some(row) = looked.row_of(path) {
                rows[row].parameters += bytes;
                rows[row].gradients += if p.is_trainable() { bytes } else { 0 };
            }
        }
        for (row, of) in rows.iter_mut().zip(&looked.summary.rows) {
            row.saved = of.figures.activation_bytes;
        }
        let (inference, training) = (peak(looked, &names, &spans(false)), peak(looked, &names, &spans(true)));
        ModelMemory { rows, inference, training }
    }
}
/// By value of the graph: when it is held. Views are what they show.
struct Life<'l> {
    looked: &'l Looked,
    training: bool,
    maker: HashMap<u32, usize>,
    root: Vec<u32>,
    /// the last node that reads a value or a view of it
    last: Vec<Option<usize>>,
}
impl<'l> Life<'l> {
    fn of(looked: &'l Looked, training: bool) -> Life<'l> {
        let graph = &looked.graph;
        let mut root: Vec<u32> = (0..graph.values.len() as u32).collect();
        let mut last = vec![None; graph.values.len()];
        for (k, node) in graph.nodes.iter().enumerate() {
            for &v in &node.inputs {
                last[root[v as usize] as usize] = Some(k);
            }
            if node.op.is_view() {
                root[node.outputs.start as usize] = root[node.inputs[0] as usize];
            }
        }
        Life { looked, training, maker: looked.maker(), root, last }
    }
    fn nodes(&self) -> usize {
        self.looked.graph.nodes.len()
    }
    /// The moment at which a node is gone through backward.
    fn back(&self, node: usize) -> usize {
        2 * self.nodes() - 1 - node
    }
    fn end(&self) -> usize {
        if self.training { (2 * self.nodes()).saturating_sub(1) } else { self.nodes().saturating_sub(1) }
    }
    fn spans(&self) -> Vec<Stay> {
        let mut spans = self.parameters();
        let graph = &self.looked.graph;
        let outputs: Vec<u32> = graph.outputs.iter().map(|&v| self.root[v as usize]).collect();
        let kept: HashSet<u32> = if self.training { self.looked.kept.iter().copied().collect() } else { HashSet::new() };
        for v in (0..graph.values.len() as u32).filter(|&v| self.root[v as usize] == v) {
            let (maker, bytes) = (self.maker.get(&v).copied(), self.looked.bytes(v));
            let is_input = graph.inputs.contains(&v);
            // What nobody reads is made and let go of.
            let mut to = self.last[v as usize].or(maker).unwrap_or(0);
            if outputs.contains(&v) || is_input {
                to = self.nodes().saturating_sub(1);
            }
            let (row, from, holds) = match maker {
                Some(node) if kept.contains(&v) => {
                    to = self.end();
                    (Some(self.looked.owners[node]), node, Holds::Saved)
                }
                Some(node) => (Some(self.looked.owners[node]), node, Holds::Passing),
                None if is_input => {
                    to = self.end();
                    (None, 0, Holds::Passing)
                }
                // A parameter or a constant.
                None => continue,
            };
            spans.push(Stay { row, holds, bytes, from, to });
            if self.training
                && self.looked.tracked.contains(&v)
                && let Some(node) = maker
            {
                let from = if outputs.contains(&v) { self.nodes() } else { self.back(self.last[v as usize].unwrap_or(node)) };
                spans.push(Stay { row: Some(self.looked.owners[node]), holds: Holds::Gradients, bytes, from, to: self.back(node) });
            }
        }
        spans
    }
    /// Parameters for the whole pass, and their gradients from the first rule that makes them.
    fn parameters(&self) -> Vec<Stay> {
        let read: HashMap<u64, u32> = self.looked.graph.cells.iter().filter_map(|c| Some((c.id, c.read?))).collect();
        let mut spans = Vec::new();
        for (path, p) in &self.looked.leaves {
            let (row, bytes) = (self.looked.row_of(path), p.meta().bytes() as u64);
            spans.push(Stay { row, holds: Holds::Parameters, bytes, from: 0, to: self.end() });
            let reader = read.get(&p.cell().id()).and_then(|v| self.last[*v as usize]);
            if let Some(reader) = reader.filter(|_| self.training && p.is_trainable()) {
                spans.push(Stay { row, holds: Holds::Gradients, bytes, from: self.back(reader), to: self.end() });
            }
        }
        let constants = self.looked.graph.constants.iter().map(|c| self.looked.bytes(c.value)).sum();
        spans.push(Stay { row: None, holds: Holds::Parameters, bytes: constants, from: 0, to: self.end() });
        spans
    }
}
fn peak(looked: &Looked, names: &[String], spans: &[Stay]) -> Peak {
    let moments = spans.iter().map(|s| s.to + 2).max().unwrap_or(1);
    let mut change = vec![0i128; moments];
    for s in spans {
        change[s.from] += i128::from(s.bytes);
        change[s.to + 1] -= i128::from(s.bytes);
    }
    let held = change.iter().scan(0, |held, change| {
        *held += change;
        Some(*held)
    });
    // The first of equal moments.
    let (at, most) = held.enumerate().fold((0, 0), |best, (k, held)| if held > best.1 { (k, held) } else { best });
    let mut alive: Vec<Alive> = Vec::new();
    let mut places: HashMap<(Option<usize>, Holds), usize> = HashMap::new();
    for s in spans.iter().filter(|s| (s.from..=s.to).contains(&at) && s.bytes > 0) {
        let place = *places.entry((s.row, s.holds)).or_insert_with(|| {
            let layer = match (s.row, s.holds) {
                (Some(row), _) => names[row].clone(),
                (None, Holds::Passing) => "input".into(),
                (None, _) => String::new(),
            };
            alive.push(Alive { layer, holds: s.holds, bytes: 0 });
            alive.len() - 1
        });
        alive[place].bytes += s.bytes;
    }
    alive.sort_by_key(|a| std::cmp::Reverse(a.bytes));
    let nodes = looked.graph.nodes.len();
    let node = if at < nodes { at } else { (2 * nodes).saturating_sub(1 + at) };
    let (layer, op) = match looked.graph.nodes.get(node) {
        Some(n) => (names[looked.owners[node]].clone(), n.op.name().to_string()),
        None => Default::default(),
    };
    Peak { bytes: u64::try_from(most).unwrap_or(0), backward: at >= nodes && nodes > 0, layer, op, alive }
}
