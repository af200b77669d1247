//! How ranks may share a run: along which axes of a mesh, and what beside the rows.
//!
//! What cannot be is told with its reason, as the trainer and `adamant::parallel` would refuse it.
use crate::{
    load::{LayerPiece, RunLoad},
    quantity::QuantityUnit,
};
use adamant_parallel::{MeshShape, pipeline::PipelineSchedule};
use std::fmt;

/// How ranks share a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeshStrategy {
    /// how many there are along each axis
    pub mesh: MeshShape,
    /// what ranks share out beside the rows, 0 to 3
    pub zero: usize,
    /// the order in which stages work, and micro-batches of a step
    pub schedule: PipelineSchedule,
    /// 1 without a pipeline
    pub micro_batches: usize,
}
/// Why ranks cannot share a run so.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Infeasible {
    /// a rank would need more memory than it may have: both, in bytes
    Memory {
        /// what it would need
        needed: f64,
        /// what it may have
        available: f64,
    },
    /// a rank, or a micro-batch, would have no rows
    Rows {
        /// rows of a step
        rows: usize,
        /// of which each has one at least
        among: usize,
    },
    /// a layer that ranks do not divide
    Divides {
        /// its path
        layer: String,
        /// what is divided
        what: &'static str,
        /// how many there are
        count: usize,
        /// among how many ranks
        among: usize,
    },
    /// nothing of the model can be cut into pieces
    NoPieces,
    /// fewer layers than stretches of a pipeline
    Layers {
        /// layers
        layers: usize,
        /// stretches
        stretches: usize,
    },
    /// fewer parts than ranks
    Shards {
        /// parts
        shards: usize,
        /// ranks
        ranks: usize,
    },
    /// what does not go together
    Together(&'static str),
}
impl fmt::Display for Infeasible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |n: f64| QuantityUnit::Bytes.show(n);
        match self {
            Infeasible::Memory { needed, available } => write!(f, "memory: a rank needs {} and may have {}", bytes(*needed), bytes(*available)),
            Infeasible::Rows { rows, among } => write!(f, "rows: {rows} are too few for {among}"),
            Infeasible::Divides { layer, what, count, among } => write!(f, "`{layer}`: {among} ranks do not divide {count} {what}"),
            Infeasible::NoPieces => f.write_str("no layer can be cut into pieces"),
            Infeasible::Layers { layers, stretches } => write!(f, "layers: {layers} are too few for {stretches} stretches"),
            Infeasible::Shards { shards, ranks } => write!(f, "`shards = {shards}`: there are no more ranks than that, and {ranks} were asked for"),
            Infeasible::Together(text) => f.write_str(text),
        }
    }
}
impl fmt::Display for MeshStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.mesh)?;
        if self.zero > 0 {
            write!(f, ", zero {}", self.zero)?;
        }
        if self.mesh.pipeline > 1 {
            write!(f, ", {} of {}", self.schedule, self.micro_batches)?;
        }
        Ok(())
    }
}
/// More stages than that are not looked at.
const MOST_STAGES: usize = 64;

impl MeshStrategy {
    /// Rows alone are shared out.
    pub fn data(ranks: usize, zero: usize) -> MeshStrategy {
        MeshStrategy { mesh: MeshShape { data: ranks, ..MeshShape::default() }, zero, schedule: PipelineSchedule::OneForwardOneBackward, micro_batches: 1 }
    }
    /// Do rows alone get shared out?
    pub fn is_of_rows(&self) -> bool {
        self.mesh.pipeline == 1 && self.mesh.tensor == 1
    }
    /// All ways to share a run among so many ranks.
    pub fn all(ranks: usize, load: &RunLoad) -> Vec<MeshStrategy> {
        let divisors = |n: usize| (1..=n).filter(move |d| n.is_multiple_of(*d));
        let mut all = Vec::new();
        for tensor in divisors(ranks) {
            for pipeline in divisors(ranks / tensor).filter(|p| *p <= MOST_STAGES) {
                let mesh = MeshShape { data: ranks / tensor / pipeline, pipeline, tensor, expert: 1 };
                if tensor == 1 && pipeline == 1 {
                    all.extend((0..=if ranks > 1 { 3 } else { 0 }).map(|zero| MeshStrategy::data(ranks, zero)));
                } else if pipeline == 1 {
                    all.push(MeshStrategy { mesh, ..MeshStrategy::data(ranks, 0) });
                } else {
                    let schedules = [PipelineSchedule::Gpipe, PipelineSchedule::OneForwardOneBackward, PipelineSchedule::Interleaved { chunks: 2 }];
                    let fits = |s: &PipelineSchedule| s.chunks() * pipeline <= load.blocks().max(pipeline);
                    for schedule in schedules.into_iter().filter(fits) {
                        all.extend([pipeline, 4 * pipeline].map(|micro_batches| MeshStrategy { mesh, zero: 0, schedule, micro_batches }));
                    }
                }
            }
        }
        all
    }
    /// Can ranks share it so, memory apart?
    ///
    /// # Errors
    /// The reason why not.
    pub fn check(&self, load: &RunLoad, rows: usize) -> Result<(), Infeasible> {
        let MeshShape { data, pipeline, tensor, .. } = self.mesh;
        if self.zero > 0 && !self.is_of_rows() {
            return Err(Infeasible::Together("`zero` goes with ranks that share rows out, and not with stages or pieces"));
        }
        if !self.is_of_rows() && load.compress.is_some() {
            return Err(Infeasible::Together("`compress` goes with ranks that share rows out, and not with stages or pieces"));
        }
        if self.zero > 1 && load.compress.is_some() {
            return Err(Infeasible::Together("`compress` is of whole gradients, which `zero = 2` and 3 scatter"));
        }
        if let Some(shards) = load.shards.filter(|shards| *shards < data) {
            return Err(Infeasible::Shards { shards, ranks: data });
        }
        let among = data * self.micro_batches.max(1);
        if rows < among {
            return Err(Infeasible::Rows { rows, among });
        }
        let stretches = pipeline * if pipeline > 1 { self.schedule.chunks() } else { 1 };
        if load.blocks() < stretches {
            return Err(Infeasible::Layers { layers: load.blocks(), stretches });
        }
        if tensor > 1 {
            let mut cut = false;
            for l in &load.layers {
                let (what, count) = match l.piece {
                    LayerPiece::Column(n) => ("features", n),
                    LayerPiece::Heads(n) => ("heads", n),
                    LayerPiece::Vocabulary(n) if n < tensor => ("rows of a table", n),
                    _ => continue,
                };
                cut = true;
                if count == 0 || !count.is_multiple_of(tensor) {
                    return Err(Infeasible::Divides { layer: l.path.clone(), what, count, among: tensor });
                }
            }
            if !cut && !load.layers.iter().any(|l| matches!(l.piece, LayerPiece::Vocabulary(_))) {
                return Err(Infeasible::NoPieces);
            }
        }
        Ok(())
    }
}
