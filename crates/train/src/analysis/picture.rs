//! The architecture as a picture: each computation of a layer is a box, in the order in which they ran, with an arrow from each box
//! whose result another reads. A layer that is used twice is two boxes; ops between the layers are boxes of their own.
//!
//! Invariant: equal models give equal text, and no name of a layer is markup in it.
use crate::{
    plot::{DARK, LIGHT, escape},
    summary::Looked,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt::Write};

/// An architecture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[non_exhaustive]
pub struct ArchitecturePicture {
    /// the boxes, in the order of computation; the first is the input and the last the output
    pub nodes: Vec<PictureNode>,
    /// (from, to), both numbers of boxes
    pub edges: Vec<(usize, usize)>,
}
/// A box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PictureNode {
    /// the layer's path, or the names of ops
    pub name: String,
    /// the layer's kind; empty for ops of no layer
    pub kind: String,
    /// shape of what it makes
    pub shape: Vec<usize>,
    /// elements of the layer's parameters
    pub parameters: usize,
    /// its row of the summary
    #[serde(skip)]
    row: Option<usize>,
}
/// The most boxes that are drawn, and the most names of ops in one.
const MOST_NODES: usize = 1000;
const MOST_OPS: usize = 4;
/// More arrows than this are no picture of a model.
const MOST_EDGES: usize = 20_000;

impl ArchitecturePicture {
    pub(crate) fn of(looked: &Looked) -> ArchitecturePicture {
        let (graph, summary) = (&looked.graph, &looked.summary);
        let mut picture = ArchitecturePicture::default();
        picture.nodes.push(PictureNode { name: "input".into(), kind: String::new(), shape: summary.input.clone(), parameters: 0, row: None });
        let mut place: Vec<Option<usize>> = vec![None; graph.values.len()];
        graph.inputs.iter().for_each(|&v| place[v as usize] = Some(0));
        let mut edges = BTreeSet::new();
        let mut last = None;
        for (node, &owner) in graph.nodes.iter().zip(&looked.owners) {
            let row = &summary.rows[owner];
            // What the model does between its layers is told by its ops.
            let is_bare = row.path.is_empty() && row.kind == "model";
            if last != Some(owner) {
                let (name, kind) = if is_bare { (String::new(), String::new()) } else { (row.path.clone(), row.kind.clone()) };
                picture.nodes.push(PictureNode { name, kind, shape: Vec::new(), parameters: row.parameters, row: Some(owner) });
                last = Some(owner);
            }
            let this = picture.nodes.len() - 1;
            let node_of = &mut picture.nodes[this];
            if is_bare {
                add_op(&mut node_of.name, node.op.name());
            }
            node_of.shape = graph.values[node.outputs.start as usize].shape.to_vec();
            edges.extend(node.inputs.iter().filter_map(|&v| place[v as usize]).filter(|from| *from != this).map(|from| (from, this)));
            node.outputs.clone().for_each(|v| place[v as usize] = Some(this));
        }
        let output = picture.nodes.len();
        picture.nodes.push(PictureNode { name: "output".into(), kind: String::new(), shape: summary.output.clone(), parameters: 0, row: None });
        edges.extend(graph.outputs.iter().filter_map(|&v| place[v as usize]).map(|from| (from, output)));
        picture.edges = edges.into_iter().collect();
        picture
    }
    /// The kind of the one layer whose result a row's only box reads, if nobody else reads it.
    pub(crate) fn only_source(&self, row: usize) -> Option<&str> {
        let mut boxes = self.nodes.iter().enumerate().filter(|(_, n)| n.row == Some(row));
        let (Some((this, _)), None) = (boxes.next(), boxes.next()) else { return None };
        let mut sources = self.edges.iter().filter(|(_, to)| *to == this);
        let (Some(&(from, _)), None) = (sources.next(), sources.next()) else { return None };
        let is_only = self.edges.iter().filter(|(f, _)| *f == from).count() == 1;
        is_only.then(|| &*self.nodes[from].kind)
    }
    /// Do its arrows go from boxes to later boxes, each once and in order? What was read from a file may be anything.
    pub(crate) fn is_sound(&self) -> bool {
        self.edges.iter().all(|(from, to)| from < to && *to < self.nodes.len()) && self.edges.is_sorted_by(|a, b| a < b) && self.edges.len() <= MOST_EDGES
    }
    /// The lines of a box.
    fn label(node: &PictureNode) -> [String; 2] {
        let name = if node.kind.is_empty() { node.name.clone() } else { format!("{}: {}", node.name, node.kind) };
        let name = if node.name.is_empty() { node.kind.clone() } else { name };
        let parameters = if node.parameters > 0 { format!(", {} parameters", node.parameters) } else { String::new() };
        [name, format!("{:?}{parameters}", node.shape)]
    }
    /// The picture in the language of Mermaid, which many pages draw.
    pub fn mermaid(&self) -> String {
        let mut out = String::from("flowchart TB\n");
        for (k, node) in self.nodes.iter().enumerate() {
            let [name, shape] = ArchitecturePicture::label(node);
            let _ = writeln!(out, "    n{k}[\"{}<br/>{}\"]", mermaid_text(&name), mermaid_text(&shape));
        }
        for (from, to) in &self.edges {
            let _ = writeln!(out, "    n{from} --> n{to}");
        }
        out
    }
    /// The picture in the language of Graphviz.
    pub fn dot(&self) -> String {
        let plain = |text: &str| text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().replace('\\', "\\\\").replace('"', "\\\"");
        let mut out = String::from("digraph model {\n    node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
        for (k, node) in self.nodes.iter().enumerate() {
            let [name, shape] = ArchitecturePicture::label(node);
            let _ = writeln!(out, "    n{k} [label=\"{}\\n{}\"];", plain(&name), plain(&shape));
        }
        for (from, to) in &self.edges {
            let _ = writeln!(out, "    n{from} -> n{to};");
        }
        out + "}\n"
    }
    /// The picture as a file of its own, light and dark.
    pub fn document(&self) -> String {
        self.draw("architecture", &format!(":root{{{LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{DARK}}}}}"))
    }
    /// The picture for a page that defines the colours. `id` is its name in the page: letters, digits and `-`.
    pub fn svg(&self, id: &str) -> String {
        self.draw(id, "")
    }
    fn draw(&self, id: &str, colours: &str) -> String {
        let shown = self.nodes.len().min(MOST_NODES);
        let edges: Vec<(usize, usize)> = self.edges.iter().copied().filter(|(_, to)| *to < shown).collect();
        let lanes = lanes(&edges);
        let right = 2.0 * MARGIN + WIDTH + LANE * (1 + lanes.iter().flatten().max().map_or(0, |l| l + 1)) as f64;
        let height = 2.0 * MARGIN + shown as f64 * STEP - (STEP - BOX) + if shown < self.nodes.len() { STEP } else { 0.0 };
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"net\" viewBox=\"0 0 {right} {height}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\" \
             style=\"max-width:{right}px\"><title id=\"{id}-title\">Architecture</title><desc id=\"{id}-desc\">{}</desc><style>{colours}{CSS}</style>",
            escape(&self.description())
        );
        let _ = write!(
            out,
            "<defs><marker id=\"{id}-tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
             <path class=\"tip\" d=\"M0 0l8 4-8 4z\"/></marker></defs><rect class=\"ground\" width=\"{right}\" height=\"{height}\"/>"
        );
        let top = |k: usize| MARGIN + k as f64 * STEP;
        for (&(from, to), lane) in edges.iter().zip(&lanes) {
            let (begin, end) = (top(from) + BOX, top(to));
            let d = match lane {
                None => format!("M{} {begin}V{end}", MARGIN + WIDTH / 2.0),
                // Around the boxes between: out on the right, down, and in again.
                Some(lane) => {
                    let (side, x) = (MARGIN + WIDTH, MARGIN + WIDTH + LANE * (*lane as f64 + 1.0));
                    format!("M{side} {}H{x}V{}H{side}", begin - BOX * 0.3, end + BOX * 0.3)
                }
            };
            let _ = write!(out, "<path class=\"edge\" marker-end=\"url(#{id}-tip)\" d=\"{d}\"/>");
        }
        for (k, node) in self.nodes.iter().take(shown).enumerate() {
            let [name, shape] = ArchitecturePicture::label(node);
            let class = if node.kind.is_empty() { "bare" } else { "layer" };
            let _ = write!(
                out,
                "<g><title>{}</title><rect class=\"{class}\" x=\"{MARGIN}\" y=\"{}\" width=\"{WIDTH}\" height=\"{BOX}\" rx=\"6\"/>\
                 <text class=\"name\" x=\"{x}\" y=\"{}\">{}</text><text x=\"{x}\" y=\"{}\">{}</text></g>",
                escape(&format!("{name} {shape}")),
                top(k),
                top(k) + 17.0,
                escape(&short(&name)),
                top(k) + 33.0,
                escape(&short(&shape)),
                x = MARGIN + WIDTH / 2.0
            );
        }
        if shown < self.nodes.len() {
            let _ = write!(out, "<text x=\"{}\" y=\"{}\">{} more</text>", MARGIN + WIDTH / 2.0, top(shown) + 17.0, self.nodes.len() - shown);
        }
        out + "</svg>"
    }
    /// What a screen reader says of it.
    fn description(&self) -> String {
        let layers = self.nodes.iter().filter(|n| !n.kind.is_empty());
        let named: Vec<String> = layers.clone().take(40).map(|n| ArchitecturePicture::label(n)[0].clone()).collect();
        format!("{} layers from input to output: {}.", layers.count(), named.join(", "))
    }
}
/// Names an op in a box of ops, each once.
fn add_op(name: &mut String, op: &str) {
    let named = name.split(", ").filter(|n| !n.is_empty()).count();
    if name.split(", ").any(|n| n == op) || named > MOST_OPS {
        return;
    }
    if named > 0 {
        *name += ", ";
    }
    *name += if named == MOST_OPS { "..." } else { op };
}

const MARGIN: f64 = 12.0;
const WIDTH: f64 = 300.0;
const BOX: f64 = 42.0;
const STEP: f64 = 60.0;
const LANE: f64 = 14.0;
/// Characters that a box is wide.
const LINE: usize = 44;
const CSS: &str = "\
.net{font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}.net .ground{fill:var(--ground)}.net text{fill:var(--quiet);text-anchor:middle}\
.net .name{fill:var(--ink);font-weight:600}.net .layer{fill:var(--page);stroke:var(--series-1);stroke-width:1.5}\
.net .bare{fill:var(--page);stroke:var(--axis)}.net .edge{fill:none;stroke:var(--axis);stroke-width:1.5}.net .tip{fill:var(--axis)}";

fn short(text: &str) -> String {
    let length = text.chars().count();
    if length <= LINE { text.to_string() } else { text.chars().take(LINE / 2).chain(['…']).chain(text.chars().skip(length - LINE / 2 + 1)).collect() }
}
/// For each arrow that goes past a box the lane on the right that it takes, so that no two arrows of a lane overlap; those that go
/// least far are the nearest.
fn lanes(edges: &[(usize, usize)]) -> Vec<Option<usize>> {
    let mut order: Vec<usize> = (0..edges.len()).filter(|&k| edges[k].1 > edges[k].0 + 1).collect();
    order.sort_by_key(|&k| (edges[k].1 - edges[k].0, edges[k].0));
    let mut taken: Vec<Vec<(usize, usize)>> = Vec::new();
    let mut lanes = vec![None; edges.len()];
    for k in order {
        let (from, to) = edges[k];
        let free = taken.iter().position(|lane| lane.iter().all(|&(f, t)| to < f || t < from)).unwrap_or(taken.len());
        if free == taken.len() {
            taken.push(Vec::new());
        }
        taken[free].push((from, to));
        lanes[k] = Some(free);
    }
    lanes
}
/// A text in a box of Mermaid's: it knows `#name;` for characters that are its own, and no backslash.
pub(crate) fn mermaid_text(text: &str) -> String {
    let text = escape(text).replace('#', "#35;").replace("&amp;", "#amp;").replace("&lt;", "#lt;").replace("&gt;", "#gt;");
    text.replace("&quot;", "#quot;").replace("&#35;39;", "#39;").replace(['\n', '\t'], " ").replace('`', "#96;")
}
