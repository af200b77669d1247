//! What a described model asks of a rank, layer by layer: operations, bytes, parameters, what is kept for the walk back, and how a layer may be
//! cut. From the captured graph of one part's forward pass; the walk back takes twice as long (Narayanan et al. 2021, section 2).
//!
//! Must not know clusters.
use adamant_nn::glob_matches;
use adamant_parallel::tensor::ParallelStyle;
use adamant_train::{
    Document, Failure, GradientCompression,
    config::Section,
    summarise,
    summary::{Row, Summary},
};
use std::path::Path;

/// A described run, as far as it takes time and memory.
#[derive(Clone, Debug)]
pub struct RunLoad {
    /// the layers, in the order of the forward pass
    pub layers: Vec<LayerLoad>,
    /// rows of a step, of all ranks together
    pub rows: usize,
    /// parts that a step is cut into, where the description says it
    pub shards: Option<usize>,
    /// bytes of gradients that travel at once
    pub bucket_bytes: f64,
    /// how gradients travel with fewer bytes
    pub compress: Option<GradientCompression>,
    /// what the description shares out beside the rows
    pub zero: usize,
    /// numbers that the optimizer keeps for each parameter
    pub slots: usize,
    /// is it computed in 16 bits?
    pub half: bool,
    /// bytes of the model's input, and of what it gives, for each row
    pub ends: [f64; 2],
    /// what was measured of it here; none: times follow from the cluster's rates
    pub times: Option<MeasuredTimes>,
}
/// A layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerLoad {
    /// where it stands in the model
    pub path: String,
    /// the layer of the description that it is of, which a stage of a pipeline has as a whole
    pub block: usize,
    /// elements of its parameters
    pub parameters: f64,
    /// operations of the forward pass for each row
    pub flops: f64,
    /// bytes moved for each row, without the parameters
    pub bytes: f64,
    /// bytes for each row that the walk back reads
    pub saved: f64,
    /// bytes for each row of what it reads, and of what it makes
    pub ends: [f64; 2],
    /// how ranks may share it out
    pub piece: LayerPiece,
}
/// How ranks may share a layer out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerPiece {
    /// not at all: each has all of it
    Whole,
    /// `Column`: so many outputs, and a `Row` follows
    Column(usize),
    /// `Row`: the inputs that a `Column` gave
    Row,
    /// what lies between those two
    Between,
    /// attention of so many heads; of 0 it is not known how many
    Heads(usize),
    /// what is part of an attention
    OfHeads,
    /// a table of so many rows
    Vocabulary(usize),
    /// a head that is tied to it
    Tied,
}
/// What steps took on one rank of this machine that had a device of its own.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct MeasuredTimes {
    /// by the executor of runs
    pub run: PassTimes,
    /// by a program of one's own that uses `adamant::parallel`
    pub program: PassTimes,
}
/// Times of an executor.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PassTimes {
    /// forward and back by the number of rows, ascending; never empty where it was measured
    pub passes: Vec<(f64, f64)>,
    /// the update of all parameters
    pub update: f64,
    /// what a step takes longer that is shared, before anything travels
    pub sharing: f64,
    /// what a rank works besides where parameters are gathered in units and gradients scattered
    pub units: f64,
}
impl PassTimes {
    /// Forward and back of so many rows: on the line between the nearest two that were measured.
    pub fn pass(&self, rows: f64) -> Option<f64> {
        let at = self.passes.partition_point(|(known, _)| *known < rows);
        let (a, b) = match (at, &self.passes[..]) {
            (_, []) => return None,
            (_, [(known, seconds)]) => return Some(seconds * rows / known.max(1e-9)),
            (0, all) => (all[0], all[1]),
            (at, all) if at == all.len() => (all[at - 2], all[at - 1]),
            (at, all) => (all[at - 1], all[at]),
        };
        let slope = (b.1 - a.1) / (b.0 - a.0).max(1e-9);
        // Noise must not make work vanish.
        Some((a.1 + slope.max(0.0) * (rows - a.0)).max(0.1 * a.1.min(b.1) * (rows / a.0).min(1.0)))
    }
}
const BUCKET: f64 = 25.0 * 1048576.0;

impl RunLoad {
    /// Looks at a description. `input` is the shape and dtype of one input; without it the data are asked.
    ///
    /// # Errors
    /// A description that makes no sense, with its line; data that cannot be read or do not tell.
    pub fn of(document: &Document, folder: &Path, input: Option<(Vec<usize>, adamant_core::DType)>, batch: Option<usize>) -> Result<RunLoad, Failure> {
        let summary = summarise(document, folder, input, batch)?.summary;
        let root = document.root()?;
        let (mut bucket_bytes, mut shards, mut zero, mut compress) = (BUCKET, None, 0, None);
        if let Some(s) = root.section("distributed")? {
            bucket_bytes = s.size("bucket_mb")?.map_or(BUCKET, |mib| mib.max(1) as f64 * 1048576.0);
            shards = s.size("shards")?.filter(|n| *n > 0);
            zero = s.size("zero")?.unwrap_or(0).min(3);
            compress = match s.text("compress")? {
                Some("bf16") => Some(GradientCompression::Bf16),
                Some("powersgd") => Some(GradientCompression::PowerSgd { rank: s.size("compress_rank")?.unwrap_or(4) }),
                Some("topk") => Some(GradientCompression::TopK { share: s.number("compress_share")?.unwrap_or(0.01) }),
                _ => None,
            };
        }
        let slots = match root.section("optimizer")? {
            Some(s) => slots(&s)?,
            None => 0,
        };
        let blocks = blocks(&root)?;
        Ok(RunLoad { bucket_bytes, shards, zero, compress, slots, ..RunLoad::from_summary(&summary, &blocks) })
    }
    /// Of a summary, and of the names and heads of the description's layers. AdamW without anything shared out.
    fn from_summary(summary: &Summary, blocks: &[(String, usize)]) -> RunLoad {
        let rows = summary.input.first().copied().unwrap_or(1).max(1);
        let of_row = |bytes: u64| bytes as f64 / rows as f64;
        let block = |path: &str| {
            let holds = |name: &str| path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            blocks.iter().enumerate().filter(|(_, (name, _))| holds(name)).max_by_key(|(_, (name, _))| name.len()).map_or(0, |(k, _)| k)
        };
        let mut layers: Vec<LayerLoad> = summary
            .rows
            .iter()
            .map(|row| LayerLoad {
                path: row.path.clone(),
                block: block(&row.path),
                parameters: row.parameters as f64,
                flops: of_row(row.figures.flops),
                bytes: (row.figures.bytes_moved as f64 - 4.0 * row.parameters as f64).max(0.0) / rows as f64,
                saved: of_row(row.figures.activation_bytes),
                ends: [&row.input, &row.output].map(|shape| 4.0 * shape.as_ref().map_or(0.0, |s| s.iter().product::<usize>() as f64 / rows as f64)),
                piece: LayerPiece::Whole,
            })
            .collect();
        pieces(&mut layers, &summary.rows, blocks);
        let ends = [&summary.input, &summary.output].map(|shape| 4.0 * shape.iter().product::<usize>() as f64 / rows as f64);
        let half = summary.totals.flops_16bit > summary.totals.flops / 2;
        RunLoad { layers, rows, shards: None, bucket_bytes: BUCKET, compress: None, zero: 0, slots: 2, half, ends, times: None }
    }
    /// Elements of all parameters.
    pub fn parameters(&self) -> f64 {
        self.layers.iter().map(|l| l.parameters).sum()
    }
    /// How many layers a pipeline can be cut into.
    pub fn blocks(&self) -> usize {
        self.layers.iter().map(|l| l.block + 1).max().unwrap_or(0)
    }
    /// Which layers ranks share out, by patterns over paths, as `adamant::parallel::parallelize` takes them.
    pub fn styles(&self) -> Vec<(String, ParallelStyle)> {
        let style = |l: &LayerLoad| match l.piece {
            LayerPiece::Column(_) => Some(ParallelStyle::Column),
            LayerPiece::Row => Some(ParallelStyle::Row),
            LayerPiece::Heads(_) => Some(ParallelStyle::Heads),
            LayerPiece::Vocabulary(_) => Some(ParallelStyle::Vocabulary),
            LayerPiece::Tied => Some(ParallelStyle::Column),
            LayerPiece::Whole | LayerPiece::Between | LayerPiece::OfHeads => None,
        };
        let mut all: Vec<(String, ParallelStyle)> = Vec::new();
        for (l, of) in self.layers.iter().filter_map(|l| Some((l, style(l)?))) {
            // One pattern for all blocks, where it means no other layer.
            let parts: Vec<&str> = l.path.split('.').map(|part| if part.bytes().all(|b| b.is_ascii_digit()) { "*" } else { part }).collect();
            let pattern = parts.join(".");
            let is_good = self.layers.iter().all(|other| !glob_matches(&pattern, &other.path) || style(other) == Some(of));
            let said = if is_good { pattern } else { l.path.clone() };
            if !all.iter().any(|(known, _)| *known == said) {
                all.push((said, of));
            }
        }
        all
    }
    /// Is the layer that a pattern means tied to a table?
    pub fn is_tied(&self, pattern: &str) -> bool {
        self.layers.iter().any(|l| l.piece == LayerPiece::Tied && glob_matches(pattern, &l.path))
    }
    /// The share of a layer that each of so many ranks has.
    pub fn share(&self, layer: &LayerLoad, tensor: usize) -> f64 {
        if layer.piece == LayerPiece::Whole { 1.0 } else { 1.0 / tensor.max(1) as f64 }
    }
}
/// Numbers that the optimizer keeps for each parameter: what `train` has to have memory for.
fn slots(s: &Section<'_>) -> Result<usize, Failure> {
    let momentum = s.number("momentum").ok().flatten().is_some_and(|m| m > 0.0);
    Ok(match s.text("kind")?.unwrap_or_default() {
        "Adam" | "AdamW" | "Adamax" | "NAdam" | "RAdam" | "LAMB" | "Adadelta" | "Rprop" | "SparseAdam" => 2,
        "RMSprop" | "Adagrad" | "ASGD" | "Lion" | "Muon" => 1,
        "SGD" if momentum => 1,
        _ => 0,
    })
}
/// Names of the model's layers, in order, and the heads of each.
fn blocks(root: &Section<'_>) -> Result<Vec<(String, usize)>, Failure> {
    let mut blocks = Vec::new();
    let Some(model) = root.section("model")? else { return Ok(blocks) };
    for layer in model.sections("layers")?.unwrap_or_default() {
        let (name, times) = (layer.text("name")?, layer.size("repeat")?);
        let heads = layer.size("nhead")?.or(layer.size("num_heads")?).unwrap_or(0);
        for k in 0..times.unwrap_or(1) {
            let name = match (name, times) {
                (None, _) => blocks.len().to_string(),
                (Some(name), None) => name.to_string(),
                (Some(name), Some(_)) => format!("{name}.{k}"),
            };
            blocks.push((name, heads));
        }
    }
    Ok(blocks)
}
/// The path without its last name.
fn above(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(above, _)| above)
}
/// How each layer may be shared out: attention by heads, tables by rows, and of two `Linear` layers with nothing but functions of elements between
/// them the first by outputs and the second by inputs (Shoeybi et al. 2019, "Megatron-LM").
fn pieces(layers: &mut [LayerLoad], rows: &[Row], blocks: &[(String, usize)]) {
    let mut first: Option<usize> = None;
    let mut table = false;
    for k in 0..layers.len() {
        let row = &rows[k];
        let last = |shape: &Option<Vec<usize>>| shape.as_ref().and_then(|s| s.last().copied()).unwrap_or(0);
        let inside = layers[..k].iter().any(|l| matches!(l.piece, LayerPiece::Heads(_)) && row.path.strip_prefix(&l.path).is_some_and(|r| r.starts_with('.')));
        match row.kind.as_str() {
            _ if inside => layers[k].piece = LayerPiece::OfHeads,
            "MultiheadAttention" => {
                layers[k].piece = LayerPiece::Heads(blocks.get(layers[k].block).map_or(0, |(_, heads)| *heads));
                first = None;
            }
            "Embedding" => {
                let width = last(&row.output).max(1);
                layers[k].piece = LayerPiece::Vocabulary(row.parameters / width);
                (table, first) = (true, None);
            }
            "Linear" if row.parameters == 0 && table => layers[k].piece = LayerPiece::Tied,
            "Linear" => match first.filter(|f| above(&rows[*f].path) == above(&row.path)) {
                Some(f) => {
                    layers[f].piece = LayerPiece::Column(last(&rows[f].output));
                    layers[k].piece = LayerPiece::Row;
                    (f + 1..k).for_each(|between| layers[between].piece = LayerPiece::Between);
                    first = None;
                }
                None => first = Some(k),
            },
            // A function of elements.
            _ if row.parameters == 0 && row.input == row.output => {}
            _ => first = None,
        }
    }
}
