//! Which channels of which parameters go together: the ops of a captured forward pass, primitive by primitive, from the parameters to
//! what the model returns. Must not know what a channel is worth.
use super::{
    STRUCTURED,
    labels::{AxisLabel, ChannelSets},
};
use crate::select::{evaluating, placed_params, refusal};
use adamant_core::{
    Arg, Error, ErrorKind, Op, Result, Tensor,
    grad::no_grad,
    graph::{Graph, Node},
    op::{ConvRole, ConvSpec, View},
    scope,
};
use adamant_nn::{Module, Param};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    rc::Rc,
};

/// An axis of a parameter.
pub(super) type ParamAxis = (usize, usize);
/// Channels of which any may go: each is the elements along axes of parameters that go with it.
pub(super) struct ChannelFamily {
    /// each parameter's axes
    pub axes: BTreeSet<ParamAxis>,
    pub channels: Vec<Vec<(ParamAxis, usize)>>,
}
/// What was found.
pub(super) struct Dependencies {
    pub params: Vec<(String, Param)>,
    pub families: Vec<ChannelFamily>,
    /// axes of which something stays, with the reason
    pub staying: Vec<(ParamAxis, Rc<str>)>,
    /// axes that are summed over: those of inputs
    pub consumed: BTreeSet<ParamAxis>,
}

#[track_caller]
pub(super) fn dependencies(model: &impl Module, x: &Tensor) -> Result<Dependencies> {
    let meta = x.try_meta()?;
    let forward = |x: &[Tensor]| Ok(vec![model.forward(&x[0])?]);
    let mut graph = evaluating(model, || no_grad(|| Graph::capture(meta.device, &[meta], forward)))?;
    graph.run(&["expand"]).map_err(|e| Error::new(STRUCTURED, ErrorKind::Graph(Box::new(e))))?;
    let mut by_cell: HashMap<u64, (String, Param)> = HashMap::new();
    for place in placed_params(model) {
        if place.is_computed {
            return Err(refusal(STRUCTURED, format!("`{}` is computed from other parameters", place.path))
                .hint("make it a plain one first: `remove` of masks, `merge` of adapters, `remove_parametrizations`"));
        }
        by_cell.entry(place.param.cell().id()).or_insert((place.path, place.param));
    }
    let mut walk = GraphWalk::new(&graph);
    let mut params = Vec::new();
    for state in &graph.cells {
        let (Some(value), Some((path, param))) = (state.read, by_cell.get(&state.id)) else { continue };
        let labels = state.ty.shape.iter().enumerate().map(|(axis, size)| {
            let channels = walk.channels.fresh(*size);
            walk.owners.extend(std::iter::repeat_n((params.len(), axis), *size));
            AxisLabel::Channels(channels)
        });
        walk.labels[value as usize] = labels.collect();
        params.push((path.clone(), param.clone()));
    }
    graph.inputs.iter().for_each(|value| walk.of_data[*value as usize] = true);
    graph.nodes.iter().for_each(|node| walk.node(node));
    for value in graph.outputs.iter().copied().chain(graph.writes.iter().map(|write| write.value)) {
        let labels = walk.labels[value as usize].clone();
        labels.iter().for_each(|label| walk.channels.axis_stays(label, "the model returns it"));
    }
    Ok(walk.families(params))
}

struct GraphWalk<'a> {
    graph: &'a Graph,
    channels: ChannelSets,
    /// of each value's axes
    labels: Vec<Vec<AxisLabel>>,
    /// does a value depend on the model's input?
    of_data: Vec<bool>,
    /// the parameter's axis that each channel began as
    owners: Vec<ParamAxis>,
    consumed: BTreeSet<ParamAxis>,
}
impl<'a> GraphWalk<'a> {
    fn new(graph: &'a Graph) -> GraphWalk<'a> {
        let labels = graph.values.iter().map(|ty| vec![AxisLabel::Free; ty.shape.rank()]).collect();
        GraphWalk { graph, channels: ChannelSets::default(), labels, of_data: vec![false; graph.values.len()], owners: Vec::new(), consumed: BTreeSet::new() }
    }
    fn sizes(&self, value: u32) -> Vec<usize> {
        self.graph.values[value as usize].shape.to_vec()
    }
    fn of(&self, value: u32) -> Vec<AxisLabel> {
        self.labels[value as usize].clone()
    }
    fn node(&mut self, node: &Node) {
        let data = node.inputs.iter().any(|v| self.of_data[*v as usize]);
        node.outputs.clone().for_each(|v| self.of_data[v as usize] = data);
        let Some(out) = node.outputs.clone().next() else { return };
        let place = scope::path(node.scope);
        let place = if place.is_empty() { String::new() } else { format!(" in `{place}`") };
        let reason = format!("`{}`{place} needs all of them", node.op.name());
        let made = match &node.op {
            Op::Const(ty) => vec![AxisLabel::Uniform; ty.shape.rank()],
            Op::Unary(_) | Op::BinaryScalar(..) | Op::Cast(_) | Op::StopGrad | Op::Transfer(_) => self.of(node.inputs[0]),
            Op::Binary(_) | Op::Select => self.element_wise(&node.inputs, &self.sizes(out), &reason),
            Op::Reduce { axes, .. } => {
                let mut labels = self.of(node.inputs[0]);
                for axis in axes.iter() {
                    self.channels.axis_stays(&labels[axis], &reason);
                    labels[axis] = AxisLabel::Uniform;
                }
                labels
            }
            Op::Matmul => self.product(node, &reason),
            Op::Conv(spec) => self.convolution(node, spec, &reason),
            Op::Concat { axis } => self.joined(&node.inputs, *axis as usize, &reason),
            Op::Pad(spec) => {
                let labels = self.of(node.inputs[0]);
                for (label, width) in labels.iter().zip(&spec.widths) {
                    if *width != (0, 0) {
                        self.channels.axis_stays(label, &reason);
                    }
                }
                labels.into_iter().zip(&spec.widths).map(|(label, width)| if *width == (0, 0) { label } else { AxisLabel::Free }).collect()
            }
            Op::Window(spec) => {
                let (mut labels, spatial) = (self.of(node.inputs[0]), spec.size.len());
                let first = labels.len() - spatial;
                for label in &mut labels[first..] {
                    self.channels.axis_stays(label, &reason);
                    *label = AxisLabel::Free;
                }
                labels
            }
            Op::Gather { axis } => self.gathered(node, *axis as usize, &reason),
            Op::View(view) => self.view(node, view, &self.sizes(out), &reason),
            _ => {
                self.all_stay(&node.inputs, &reason);
                return;
            }
        };
        self.labels[out as usize] = made;
    }
    fn all_stay(&mut self, values: &[u32], reason: &str) {
        for value in values {
            let labels = self.of(*value);
            labels.iter().for_each(|label| self.channels.axis_stays(label, reason));
        }
    }
    /// Axes that are aligned from the last on: their channels are one.
    fn element_wise(&mut self, inputs: &[u32], sizes: &[usize], reason: &str) -> Vec<AxisLabel> {
        let mut out = Vec::with_capacity(sizes.len());
        for (axis, size) in sizes.iter().enumerate() {
            let (mut first, mut is_free): (Option<Rc<[u32]>>, bool) = (None, false);
            for value in inputs {
                let (own, labels) = (self.sizes(*value), &self.labels[*value as usize]);
                let Some(at) = (axis + own.len()).checked_sub(sizes.len()) else { continue };
                match (&labels[at], &first) {
                    // One channel beside many is repeated, and can neither go nor stay alone.
                    (AxisLabel::Channels(channels), _) if own[at] != *size => self.channels.stay(channels, reason),
                    (AxisLabel::Channels(channels), Some(known)) => self.channels.unite_all(known, channels),
                    (AxisLabel::Channels(channels), None) => first = Some(channels.clone()),
                    (AxisLabel::Free, _) if own[at] == *size && *size != 1 => is_free = true,
                    _ => {}
                }
            }
            if let (Some(channels), true) = (&first, is_free) {
                self.channels.stay(channels, reason);
            }
            out.push(match first {
                Some(channels) => AxisLabel::Channels(channels),
                None if is_free => AxisLabel::Free,
                None => AxisLabel::Uniform,
            });
        }
        out
    }
    /// What is summed over in a product of data with a weight: each of the two's elements is of the other's channel.
    fn summed(&mut self, data: &AxisLabel, weight: &AxisLabel, reason: &str) {
        if let AxisLabel::Channels(channels) = weight {
            self.consumed.extend(channels.iter().map(|channel| self.owners[*channel as usize]));
        }
        match (data, weight) {
            (AxisLabel::Channels(left), AxisLabel::Channels(right)) => self.channels.unite_all(left, right),
            (AxisLabel::Channels(_), _) => self.channels.axis_stays(data, reason),
            // A state of zeros is as wide as what reads it.
            (AxisLabel::Uniform, _) => {}
            (AxisLabel::Free, _) => self.channels.axis_stays(weight, "the model's input has them"),
        }
    }
    fn product(&mut self, node: &Node, reason: &str) -> Vec<AxisLabel> {
        let (left, right) = (self.of(node.inputs[0]), self.of(node.inputs[1]));
        let rank = left.len();
        let [of_left, of_right] = [0, 1].map(|k| self.of_data[node.inputs[k] as usize]);
        let is_state = !of_left && !of_right && matches!(left[rank - 1], AxisLabel::Uniform);
        match (of_left || is_state, of_right) {
            (true, false) => self.summed(&left[rank - 1], &right[rank - 2], reason),
            (false, true) => self.summed(&right[rank - 2], &left[rank - 1], reason),
            _ => {
                self.channels.axis_stays(&left[rank - 1], reason);
                self.channels.axis_stays(&right[rank - 2], reason);
            }
        }
        let mut out = Vec::with_capacity(rank);
        for (l, r) in left[..rank - 2].iter().zip(&right) {
            // A product for each channel: both sides have it, or none goes.
            out.push(match (l, r) {
                (AxisLabel::Channels(a), AxisLabel::Channels(b)) => {
                    self.channels.unite_all(a, b);
                    l.clone()
                }
                _ => {
                    self.channels.axis_stays(l, reason);
                    self.channels.axis_stays(r, reason);
                    AxisLabel::Free
                }
            });
        }
        out.extend([left[rank - 2].clone(), right[rank - 1].clone()]);
        out
    }
    /// Data `[batch, groups · in, ..]` and a weight, `[groups · out, in, ..]`, transposed `[groups · in, out, ..]`.
    fn convolution(&mut self, node: &Node, spec: &ConvSpec, reason: &str) -> Vec<AxisLabel> {
        let (x, w) = (self.of(node.inputs[0]), self.of(node.inputs[1]));
        let sizes = self.sizes(node.inputs[1]);
        let mut out = vec![AxisLabel::Free; x.len()];
        out[0] = x[0].clone();
        x[2..].iter().chain(&w[2..]).for_each(|label| self.channels.axis_stays(label, "the kernel is one"));
        let [AxisLabel::Channels(first), AxisLabel::Channels(second)] = [&w[0], &w[1]] else {
            self.all_stay(&node.inputs, reason);
            return out;
        };
        if !self.of_data[node.inputs[0] as usize] || self.of_data[node.inputs[1] as usize] || spec.role == ConvRole::WeightGrad {
            self.all_stay(&node.inputs, reason);
            return out;
        }
        let (groups, per_group) = (spec.groups, sizes[0] / spec.groups.max(1));
        let repeated = |of: &[u32]| -> Rc<[u32]> { of.iter().copied().cycle().take(of.len() * groups).collect() };
        // Of a depthwise convolution whole groups go: what is per group has one input channel.
        let inputs_per_group = if spec.role == ConvRole::Forward { sizes[1] } else { per_group };
        if groups > 1 && inputs_per_group == 1 {
            self.channels.stay(second, "the outputs of a group of a depthwise convolution go together");
            let of_groups: Rc<[u32]> = (0..groups).map(|group| first[group * per_group]).collect();
            (0..first.len()).for_each(|k| self.channels.unite(of_groups[k / per_group], first[k]));
            match &x[1] {
                AxisLabel::Channels(data) => self.channels.unite_all(data, &of_groups),
                _ => self.channels.stay(&of_groups, "the model's input has them"),
            }
            let outputs = if spec.role == ConvRole::Forward { per_group } else { sizes[1] };
            out[1] = AxisLabel::Channels((0..groups * outputs).map(|k| of_groups[k / outputs]).collect());
            return out;
        }
        // Else each group loses the same ones.
        (0..first.len()).for_each(|k| self.channels.unite(first[k % per_group], first[k]));
        let (summed, left) = match spec.role {
            ConvRole::Forward => (repeated(second), first.clone()),
            _ => (first.clone(), repeated(second)),
        };
        self.summed(&x[1], &AxisLabel::Channels(summed), reason);
        out[1] = AxisLabel::Channels(left);
        out
    }
    fn joined(&mut self, inputs: &[u32], axis: usize, reason: &str) -> Vec<AxisLabel> {
        let Some(first) = inputs.first() else { return Vec::new() };
        let rank = self.labels[*first as usize].len();
        let mut out = Vec::with_capacity(rank);
        for at in 0..rank {
            let parts: Vec<AxisLabel> = inputs.iter().map(|v| self.labels[*v as usize][at].clone()).collect();
            let any = parts.iter().any(|part| matches!(part, AxisLabel::Channels(_)));
            if at != axis || !any {
                let known: Vec<&Rc<[u32]>> = parts.iter().filter_map(|part| if let AxisLabel::Channels(c) = part { Some(c) } else { None }).collect();
                known.iter().skip(1).for_each(|channels| self.channels.unite_all(known[0], channels));
                if at != axis && any && parts.iter().any(|part| matches!(part, AxisLabel::Free)) {
                    self.channels.stay(known[0], reason);
                }
                let is_uniform = at != axis && parts.iter().all(|part| matches!(part, AxisLabel::Uniform));
                let other = if is_uniform { AxisLabel::Uniform } else { AxisLabel::Free };
                out.push(known.first().map_or(other, |channels| AxisLabel::Channels((*channels).clone())));
                continue;
            }
            let mut all = Vec::new();
            for (part, value) in parts.iter().zip(inputs) {
                match part {
                    AxisLabel::Channels(channels) => all.extend(channels.iter().copied()),
                    _ => {
                        // What is of the data has no channels: it stays, and so does what is summed with it.
                        let count = self.sizes(*value)[axis];
                        let fresh = self.channels.fresh(count);
                        self.owners.extend(std::iter::repeat_n(NOBODY, count));
                        self.channels.stay(&fresh, "the model's input has them");
                        all.extend(fresh.iter().copied());
                    }
                }
            }
            out.push(AxisLabel::Channels(all.into()));
        }
        out
    }
    fn view(&mut self, node: &Node, view: &View, to: &[usize], reason: &str) -> Vec<AxisLabel> {
        let (labels, from) = (self.of(node.inputs[0]), self.sizes(node.inputs[0]));
        match view {
            View::Reshape(_) => self.channels.reshaped(&labels, &from, to, reason),
            View::Permute(permutation) => (0..to.len()).map(|k| labels[permutation[k] as usize].clone()).collect(),
            View::Expand(_) => {
                let new = to.len() - from.len();
                let mut out = vec![AxisLabel::Uniform; new];
                for (k, label) in labels.into_iter().enumerate() {
                    if from[k] == to[new + k] {
                        out.push(label);
                    } else {
                        self.channels.axis_stays(&label, reason);
                        out.push(AxisLabel::Uniform);
                    }
                }
                out
            }
            View::Slice { axis, len, .. } if from[*axis as usize] == *len && matches!(node.arg, Arg::None | Arg::Start(0)) => labels,
            View::Slice { axis, len, step } => {
                let (mut out, axis) = (labels, *axis as usize);
                let start = if let Arg::Start(start) = node.arg { start } else { 0 };
                out[axis] = match &out[axis] {
                    AxisLabel::Channels(all) if *step == 1 && *len > 0 && from[axis].is_multiple_of(*len) && start.is_multiple_of(*len) => {
                        self.equal_parts(&all.clone(), *len, start)
                    }
                    AxisLabel::Uniform => AxisLabel::Uniform,
                    label => {
                        self.channels.axis_stays(label, reason);
                        AxisLabel::Free
                    }
                };
                out
            }
            _ => {
                self.all_stay(&node.inputs, reason);
                vec![AxisLabel::Free; to.len()]
            }
        }
    }
    /// One of equal parts, as of gates, and of queries, keys and values: each part loses the same ones, so that they stay equal.
    fn equal_parts(&mut self, all: &Rc<[u32]>, len: usize, start: usize) -> AxisLabel {
        (len..all.len()).for_each(|k| self.channels.unite(all[k % len], all[k]));
        AxisLabel::Channels(all.iter().copied().skip(start).take(len).collect())
    }
    /// Rows of a table by numbers that are the same along all other axes.
    fn gathered(&mut self, node: &Node, axis: usize, reason: &str) -> Vec<AxisLabel> {
        let (table, index) = (self.of(node.inputs[0]), self.of(node.inputs[1]));
        let mut out = Vec::with_capacity(table.len());
        for (at, (label, by)) in table.into_iter().zip(index).enumerate() {
            out.push(match (label, by) {
                (AxisLabel::Channels(channels), AxisLabel::Uniform) if at != axis => AxisLabel::Channels(channels),
                (label, by) => {
                    self.channels.axis_stays(&label, reason);
                    self.channels.axis_stays(&by, reason);
                    AxisLabel::Free
                }
            });
        }
        out
    }
    fn families(mut self, params: Vec<(String, Param)>) -> Dependencies {
        let mut channels: BTreeMap<u32, Vec<(ParamAxis, usize)>> = BTreeMap::new();
        let mut staying: BTreeMap<ParamAxis, Rc<str>> = BTreeMap::new();
        let (mut at, mut last) = (0, NOBODY);
        for channel in 0..self.owners.len() {
            let owner = self.owners[channel];
            at = if owner == last { at + 1 } else { 0 };
            last = owner;
            if owner == NOBODY {
                continue;
            }
            match self.channels.reason(channel as u32) {
                Some(reason) => drop(staying.entry(owner).or_insert(reason)),
                None => channels.entry(self.channels.find(channel as u32)).or_default().push((owner, at)),
            }
        }
        let mut families: BTreeMap<Vec<ParamAxis>, ChannelFamily> = BTreeMap::new();
        for members in channels.into_values() {
            let axes: BTreeSet<ParamAxis> = members.iter().map(|(axis, _)| *axis).collect();
            let key: Vec<ParamAxis> = axes.iter().copied().collect();
            families.entry(key).or_insert_with(|| ChannelFamily { axes, channels: Vec::new() }).channels.push(members);
        }
        Dependencies { params, families: families.into_values().collect(), staying: staying.into_iter().collect(), consumed: self.consumed }
    }
}
/// The owner of what is no parameter's.
const NOBODY: ParamAxis = (usize::MAX, 0);
