//! A random program as data: it can be run in any mode on any device, shrunk, and printed.
use super::coverage::{Coverage, Layout, Primitive, primitive_of};
use crate::{
    data::{Spread, download, draw, upload},
    random::Random,
    ranks,
};
use adamant_core::{
    Arg, Cell, DType, Device, Error, HostArray, Op, Origin, Shape, Tensor, communicator::group, flush, op::Group, step, with_eager, with_window,
};
use std::{collections::BTreeMap, fmt};

/// Output `output` of node `node`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Ref {
    /// which node
    pub node: usize,
    /// which of its outputs
    pub output: usize,
}
/// Where a node's value comes from.
#[allow(missing_docs, reason = "a variant's line explains its fields")]
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// Drawn numbers. `fresh`: made anew in every round, so that its buffer may be given away.
    Leaf { spread: Spread, tracked: bool, fresh: bool },
    /// The value of cell number k.
    Read(usize),
    /// An op, with one argument for each round.
    Apply { op: Op, args: Vec<Arg> },
    /// A round trip over the reference device.
    Transfer,
}
/// One line of a program.
#[derive(Clone, Debug)]
pub struct Node {
    /// what it is
    pub kind: NodeKind,
    /// what it reads
    pub inputs: Vec<Ref>,
    /// shape and dtype of its outputs
    pub metas: Vec<(Shape, DType)>,
    /// a handle stays until the end of the round, where it is read
    pub held: bool,
    /// it is evaluated as soon as it is recorded
    pub read_now: bool,
    /// how its first output lies, by the view it is made by
    pub layout: Layout,
}
/// A random program.
#[derive(Clone, Debug)]
pub struct RandomProgram {
    /// the seed it is made from
    pub seed: u64,
    /// the lines, in order
    pub nodes: Vec<Node>,
    /// shape and dtype of each cell; all are trainable floats
    pub cells: Vec<(Shape, DType)>,
    /// (cell, new value): one step commits all at the end of a round
    pub writes: Vec<(usize, Ref)>,
    /// the values whose sums are added up and differentiated
    pub loss: Vec<Ref>,
    /// twice
    pub second_order: bool,
    /// how often everything is done
    pub rounds: usize,
}
/// How a program is run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mode {
    /// in whole windows
    Fused,
    /// in windows that close at so many ops
    Window(usize),
    /// op by op
    Eager,
}
/// What was seen, by name.
pub type Seen = Vec<(String, Value)>;
/// The elements, or the kind of the error and its text.
pub type Value = Result<HostArray, (&'static str, String)>;

fn failed(e: Error) -> (&'static str, String) {
    (e.kind().word(), e.to_string())
}

/// A group of one rank.
pub fn alone() -> Group {
    group(&ranks::group_of(1)[0])
}

impl RandomProgram {
    /// How a value lies.
    pub fn layout_of(&self, r: Ref) -> Layout {
        let shape = self.nodes[r.node].metas[r.output].0;
        if shape.elements() == 0 {
            Layout::Empty
        } else if shape.rank() == 0 {
            Layout::Scalar
        } else if r.output > 0 {
            Layout::Dense
        } else {
            self.nodes[r.node].layout
        }
    }
    /// Notes what occurs in it.
    pub fn cover(&self, coverage: &mut Coverage) {
        for (k, n) in self.nodes.iter().enumerate() {
            let primitive = match &n.kind {
                NodeKind::Apply { op, .. } => primitive_of(op),
                NodeKind::Transfer => Some(Primitive::Transfer),
                _ => None,
            };
            let Some(primitive) = primitive else { continue };
            let own = [Ref { node: k, output: 0 }];
            let counted = match n.inputs.as_slice() {
                [] => &own[..],
                // The dtype of a selection is that of its sides, not of its condition.
                [_, sides @ ..] if primitive == Primitive::Select => sides,
                [first, ..] => std::slice::from_ref(first),
            };
            for r in counted {
                coverage.note(primitive, self.nodes[r.node].metas[r.output].1, self.layout_of(*r));
            }
        }
    }
    /// Number of rounds after which each node's value is no longer needed: its last reader.
    fn last_use(&self) -> Vec<usize> {
        let mut last: Vec<usize> = (0..self.nodes.len()).collect();
        for (k, n) in self.nodes.iter().enumerate() {
            for r in &n.inputs {
                last[r.node] = last[r.node].max(k);
            }
        }
        for r in self.loss.iter().chain(self.writes.iter().map(|(_, r)| r)) {
            last[r.node] = usize::MAX;
        }
        last
    }
    /// Runs the program and returns everything that was read. Watching every value (`all`) keeps them all alive.
    pub fn run(&self, device: Device, mode: Mode, all: bool) -> Seen {
        let body = || device.scoped(|| self.rounds_on(device, all));
        match mode {
            Mode::Fused => body(),
            Mode::Window(n) => with_window(n, body),
            Mode::Eager => with_eager(true, body),
        }
    }
    fn rounds_on(&self, device: Device, all: bool) -> Seen {
        let random = Random::new(self.seed);
        let mut seen: Seen = Vec::new();
        let cell = |k: usize| {
            let (shape, dtype) = self.cells[k];
            Cell::new(&upload(&draw(shape, dtype, Spread::Coarse, &mut random.part(1000 + k as u64)), device), true)
        };
        let cells: Vec<Cell> = match (0..self.cells.len()).map(cell).collect() {
            Ok(cells) => cells,
            Err(e) => return vec![("cells".into(), Err(failed(e)))],
        };
        let leaf = |k: usize, round: usize| -> Option<Tensor> {
            let n = &self.nodes[k];
            let NodeKind::Leaf { spread, .. } = n.kind else { return None };
            let (shape, dtype) = n.metas[0];
            Some(upload(&draw(shape, dtype, spread, &mut random.part((round * 10_000 + k) as u64)), device))
        };
        let lasting: BTreeMap<usize, Tensor> = (0..self.nodes.len())
            .filter(|&k| matches!(self.nodes[k].kind, NodeKind::Leaf { fresh: false, .. }))
            .filter_map(|k| Some((k, leaf(k, 0)?)))
            .collect();
        for round in 0..self.rounds {
            self.round(round, device, all, &cells, &lasting, &leaf, &mut seen);
        }
        for (k, c) in cells.iter().enumerate() {
            seen.push((format!("cell {k}"), download(&c.detached()).map_err(failed)));
        }
        seen
    }
    #[allow(clippy::too_many_arguments)]
    fn round(
        &self,
        round: usize,
        device: Device,
        all: bool,
        cells: &[Cell],
        lasting: &BTreeMap<usize, Tensor>,
        leaf: &dyn Fn(usize, usize) -> Option<Tensor>,
        seen: &mut Seen,
    ) {
        let last = self.last_use();
        let origin = Origin::here();
        let mut values: Vec<Vec<Tensor>> = Vec::with_capacity(self.nodes.len());
        let mut tracked: Vec<(usize, Tensor)> = Vec::new();
        for (k, n) in self.nodes.iter().enumerate() {
            let made: Vec<Tensor> = {
                let input = |r: &Ref| values[r.node].get(r.output).or_else(|| values[r.node].first()).cloned();
                let inputs: Vec<Tensor> = n.inputs.iter().filter_map(input).collect();
                match &n.kind {
                    NodeKind::Leaf { tracked: is, .. } => {
                        let Some(x) = lasting.get(&k).cloned().or_else(|| leaf(k, round)) else { return };
                        let x = if *is { x.tracked() } else { x };
                        if *is {
                            tracked.push((k, x.clone()));
                        }
                        vec![x]
                    }
                    NodeKind::Read(c) => {
                        let x = cells[*c].get();
                        vec![x]
                    }
                    NodeKind::Apply { op, args } => {
                        let refs: Vec<&Tensor> = inputs.iter().collect();
                        Tensor::apply_many_on(device, op.clone(), args[round % args.len()], &refs, origin).into_vec()
                    }
                    NodeKind::Transfer => inputs.iter().map(|x| x.to(Device::reference()).to(device)).collect(),
                }
            };
            values.push(made);
            if n.read_now {
                for (o, t) in values[k].iter().enumerate().take(n.metas.len()) {
                    seen.push((format!("round {round} now {k}.{o}"), download(t).map_err(failed)));
                }
            }
            if !all {
                for r in n.inputs.iter().map(|r| r.node).chain([k]) {
                    if last[r] <= k && !self.nodes[r].held {
                        values[r].clear();
                    }
                }
            }
        }
        let gradients = self.gradients(&values, &tracked, cells);
        let write = || -> Result<(), Error> {
            step(|| {
                for (c, r) in &self.writes {
                    if let Some(v) = values[r.node].get(r.output) {
                        cells[*c].set(&v.detach())?;
                    }
                }
                if let Ok(grads) = &gradients {
                    for (k, g) in grads.iter().filter_map(|(name, g)| Some((name.strip_prefix("cell ")?.parse::<usize>().ok()?, g))) {
                        if !self.writes.iter().any(|w| w.0 == k) {
                            cells[k].set(&(cells[k].detached() - g * (0.125 / (round + 1) as f64)))?;
                        }
                    }
                }
                Ok(())
            })
        };
        if (!self.writes.is_empty() || gradients.as_ref().is_ok_and(|g| !g.is_empty()))
            && let Err(e) = write()
        {
            seen.push((format!("round {round} step"), Err(failed(e))));
        }
        let _ = flush();
        match gradients {
            Err(e) => seen.push((format!("round {round} backward"), Err(failed(e)))),
            Ok(grads) => {
                for (name, g) in grads {
                    seen.push((format!("round {round} gradient of {name}"), download(&g).map_err(failed)));
                }
            }
        }
        for (k, n) in self.nodes.iter().enumerate().filter(|(_, n)| n.held || all) {
            for (o, t) in values[k].iter().enumerate().take(n.metas.len()) {
                seen.push((format!("round {round} value {k}.{o}"), download(t).map_err(failed)));
            }
        }
    }
    fn gradients(&self, values: &[Vec<Tensor>], tracked: &[(usize, Tensor)], cells: &[Cell]) -> Result<Vec<(String, Tensor)>, Error> {
        let mut loss: Option<Tensor> = None;
        for r in &self.loss {
            let Some(v) = values[r.node].get(r.output) else { continue };
            let wide = crate::suite::widest_float(v.try_meta()?.device);
            let term = v.sum(..).cast(wide);
            loss = Some(match loss {
                None => term,
                Some(l) => l + term,
            });
        }
        let Some(loss) = loss.filter(Tensor::is_tracked) else { return Ok(Vec::new()) };
        let named = |g: &adamant_core::Grads| {
            let leaves = tracked.iter().filter_map(|(k, x)| Some((format!("leaf {k}"), g.get(x)?.clone())));
            let states = cells.iter().enumerate().filter_map(|(k, c)| Some((format!("cell {k}"), g.of(c)?.clone())));
            leaves.chain(states).collect::<Vec<_>>()
        };
        if !self.second_order {
            return Ok(named(&loss.backward()?));
        }
        let first = loss.backward_graph()?;
        let mut norm: Option<Tensor> = None;
        let wide = crate::suite::widest_float(loss.try_meta()?.device);
        for g in named(&first).iter().map(|(_, g)| g.square().sum(..).cast(wide)) {
            norm = Some(match norm {
                None => g,
                Some(n) => n + g,
            });
        }
        drop(loss);
        match norm.filter(Tensor::is_tracked) {
            Some(n) => Ok(named(&n.backward()?)),
            None => Ok(named(&first)),
        }
    }
}

impl fmt::Display for RandomProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph of seed {:#x}, {} rounds", self.seed, self.rounds)?;
        for (k, (shape, dtype)) in self.cells.iter().enumerate() {
            writeln!(f, "  cell {k}: {dtype}{shape}")?;
        }
        for (k, n) in self.nodes.iter().enumerate() {
            let metas: Vec<String> = n.metas.iter().map(|(s, d)| format!("{d}{s}")).collect();
            let inputs: Vec<String> =
                n.inputs.iter().map(|r| if r.output == 0 { format!("%{}", r.node) } else { format!("%{}.{}", r.node, r.output) }).collect();
            let what = match &n.kind {
                NodeKind::Leaf { spread, tracked, fresh } => {
                    format!("leaf {spread:?}{}{}", if *tracked { ", tracked" } else { "" }, if *fresh { ", fresh" } else { "" })
                }
                NodeKind::Read(c) => format!("read cell {c}"),
                NodeKind::Apply { op, args } => match args.first() {
                    None | Some(Arg::None) => format!("{op:?}"),
                    Some(_) => format!("{op:?} {args:?}"),
                },
                NodeKind::Transfer => "to reference and back".into(),
            };
            writeln!(
                f,
                "  %{k}: {} = {what}({}){}{}",
                metas.join(", "),
                inputs.join(", "),
                if n.held { " held" } else { "" },
                if n.read_now { " read" } else { "" }
            )?;
        }
        for (c, r) in &self.writes {
            writeln!(f, "  cell {c} := %{}.{}", r.node, r.output)?;
        }
        if !self.loss.is_empty() {
            let loss: Vec<String> = self.loss.iter().map(|r| format!("%{}.{}", r.node, r.output)).collect();
            writeln!(f, "  backward{} of the sum of {}", if self.second_order { ", twice," } else { "" }, loss.join(", "))?;
        }
        Ok(())
    }
}
