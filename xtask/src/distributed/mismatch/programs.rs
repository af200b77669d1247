//! The planted programs: three ranks train a small net by [`Trainer`], with collectives of the program's own in its loss, and one rank
//! does something else. What each step had in common is drawn from a seed; what the planted rank does is a line of its own, so that errors
//! can be asked for it.
use crate::{
    distributed::rank::{now, opened},
    torture::CaseDraw,
};
use adamant::{
    Arg, DType, Device, Op, Result, Tensor, communicator,
    data::{BadRecord, DataLoader, Dataset, Place, Policy},
    nn::{Linear, Module, Param, Walk, manual_seed},
    op::{CollectiveKind, Group, RankUse, ReduceOp, rank_parts},
    optim::{AdamW, UpdateRule},
    train::{Trainer, Watch},
};
use adamant_distributed::{Communicator, place::RankPlace};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

/// What one rank does that it should not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlantedMismatch {
    None,
    OtherOp,
    OtherOrder,
    OtherDtype,
    OtherShape,
    OtherRoot,
    OneTooMany,
    OneTooFew,
    BranchByRank,
    IndexFault,
    NotANumber,
    NoMemory,
    ReadOnOneRank,
    UnusedParameter,
    EmptyPart,
    SkippedRecord,
    OtherProgram,
}
impl PlantedMismatch {
    pub const ALL: [PlantedMismatch; 16] = {
        use PlantedMismatch::*;
        [
            OtherOp,
            OtherOrder,
            OtherDtype,
            OtherShape,
            OtherRoot,
            OneTooMany,
            OneTooFew,
            BranchByRank,
            IndexFault,
            NotANumber,
            NoMemory,
            ReadOnOneRank,
            UnusedParameter,
            EmptyPart,
            SkippedRecord,
            OtherProgram,
        ]
    };
    pub fn words(self) -> &'static str {
        match self {
            PlantedMismatch::None => "no fault",
            PlantedMismatch::OtherOp => "another op",
            PlantedMismatch::OtherOrder => "another order",
            PlantedMismatch::OtherDtype => "another dtype",
            PlantedMismatch::OtherShape => "another shape",
            PlantedMismatch::OtherRoot => "another root",
            PlantedMismatch::OneTooMany => "one too many",
            PlantedMismatch::OneTooFew => "one too few",
            PlantedMismatch::BranchByRank => "a branch by rank",
            PlantedMismatch::IndexFault => "an index fault",
            PlantedMismatch::NotANumber => "a NaN",
            PlantedMismatch::NoMemory => "no memory",
            PlantedMismatch::ReadOnOneRank => "a read on one rank",
            PlantedMismatch::UnusedParameter => "an unused parameter",
            PlantedMismatch::EmptyPart => "an empty part",
            PlantedMismatch::SkippedRecord => "a skipped record",
            PlantedMismatch::OtherProgram => "another version of the program",
        }
    }
    /// Is what ranks call told apart by them?
    pub fn is_of_calls(self) -> bool {
        use PlantedMismatch::*;
        matches!(self, OtherOp | OtherOrder | OtherDtype | OtherShape | OtherRoot | OneTooMany | OneTooFew | BranchByRank)
    }
    /// Does it do no harm?
    pub fn is_harmless(self) -> bool {
        use PlantedMismatch::*;
        matches!(self, None | ReadOnOneRank | UnusedParameter | EmptyPart | SkippedRecord)
    }
    /// Are the program's own collectives a part of it? A rank without rows does not come to its loss.
    fn has_calls(self) -> bool {
        !matches!(self, PlantedMismatch::UnusedParameter | PlantedMismatch::EmptyPart | PlantedMismatch::SkippedRecord)
    }
}
/// One program: a fault, who has it, in which pass of the loss and at which of its calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlantedProgram {
    pub planted: PlantedMismatch,
    pub seed: u64,
    pub victim: usize,
    pub pass: u64,
    pub at: usize,
    /// how many parts a batch has
    pub parts: usize,
}
/// What a rank saw.
#[derive(Debug, Serialize, Deserialize)]
pub struct PlantedReport {
    /// when it did what it should not
    pub planted_at: Option<f64>,
    pub ended_at: f64,
    pub error: Option<String>,
    /// the hash of its weights behind each step, the first one's before any
    pub weights: Vec<String>,
    /// the same in the end
    pub end: String,
}
pub const CALLS: usize = 3;
pub const STEPS: u64 = 4;
const ROWS: usize = 12;
const FEATURES: usize = 6;

#[derive(Module)]
struct SmallNet {
    hidden: Linear,
    head: Linear,
    /// past the hidden layer, where it is used
    around: Linear,
}
/// Rows and what is to be learned of them; a record that cannot be read; fewer rows in the last batch.
struct SmallTable {
    rows: usize,
    bad: Option<usize>,
}
impl Dataset for SmallTable {
    type Record = usize;
    type Batch = (Tensor, Tensor);
    fn len(&self) -> usize {
        self.rows
    }
    fn read(&self, index: usize) -> std::result::Result<usize, BadRecord> {
        let place = Place { file: "<memory>".into(), index, offset: 0 };
        if self.bad == Some(index) { Err(BadRecord::new(place, "planted")) } else { Ok(index) }
    }
    fn collate(&self, rows: Vec<usize>) -> Result<(Tensor, Tensor)> {
        let number = |row: usize, column: usize| ((row * 31 + column * 17) as f32 * 0.618_034).fract() - 0.5;
        let x: Vec<f32> = rows.iter().flat_map(|row| (0..FEATURES).map(move |column| number(*row, column))).collect();
        let y: Vec<f32> = rows.iter().map(|row| number(*row, 9) + 2.0 * number(*row, 0)).collect();
        Ok((Tensor::from_vec(x, [rows.len(), FEATURES]), Tensor::from_vec(y, [rows.len(), 1])))
    }
}
/// A call of the program's own.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PlannedCall {
    kind: CollectiveKind,
    dtype: DType,
    columns: usize,
}
const USED: RankUse = RankUse::Alike;
const KINDS: [CollectiveKind; 8] = [
    CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used: USED },
    CollectiveKind::AllGather { used: USED },
    CollectiveKind::AllReduce { reduce: ReduceOp::Max, parts: 0, used: USED },
    CollectiveKind::Broadcast { root: 0, used: USED },
    CollectiveKind::ReduceScatter { reduce: ReduceOp::Sum, parts: 0 },
    CollectiveKind::AllToAll,
    CollectiveKind::AllReduce { reduce: ReduceOp::Min, parts: 0, used: USED },
    CollectiveKind::Barrier,
];
const DTYPES: [DType; 6] = [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32, DType::I64];

impl PlantedProgram {
    /// The calls of one pass, as all ranks have them.
    fn calls(&self, pass: u64) -> Vec<PlannedCall> {
        let mut draw = CaseDraw::new(self.seed ^ pass << 32);
        let mut calls: Vec<PlannedCall> = Vec::new();
        for k in 0..if self.planted.has_calls() { CALLS } else { 0 } {
            let kind = match (self.planted, k == self.at && pass == self.pass) {
                (PlantedMismatch::OtherRoot, true) => CollectiveKind::Broadcast { root: draw.below(self.parts as u64) as usize, used: USED },
                _ => KINDS[draw.below(KINDS.len() as u64) as usize],
            };
            // Each with a shape of its own, so that an order is an order; large ones travel in several pieces.
            let columns = [1, 3, 40, 700, 30_000][draw.below(5) as usize] + k;
            calls.push(PlannedCall { kind, dtype: DTYPES[draw.below(DTYPES.len() as u64) as usize], columns });
        }
        calls
    }
    /// What the planted rank calls in the planted pass.
    fn altered(&self) -> Vec<PlannedCall> {
        let (mut calls, at) = (self.calls(self.pass), self.at);
        let Some(call) = calls.get(at).copied() else { return calls };
        let position = |kind: CollectiveKind| KINDS.iter().position(|k| *k == kind).unwrap_or_default();
        match self.planted {
            PlantedMismatch::OtherOp => calls[at].kind = KINDS[(position(call.kind) + 1) % KINDS.len()],
            PlantedMismatch::OtherOrder => calls.swap(at, (at + 1) % CALLS),
            PlantedMismatch::OtherDtype => calls[at].dtype = DTYPES[(DTYPES.iter().position(|d| *d == call.dtype).unwrap_or_default() + 1) % DTYPES.len()],
            PlantedMismatch::OtherShape => calls[at].columns += 1,
            PlantedMismatch::OtherRoot => {
                let CollectiveKind::Broadcast { root, used } = call.kind else { return calls };
                calls[at].kind = CollectiveKind::Broadcast { root: (root + 1) % self.parts, used };
            }
            PlantedMismatch::OneTooMany => calls.insert(at, PlannedCall { columns: 5, ..call }),
            PlantedMismatch::OneTooFew => drop(calls.remove(at)),
            PlantedMismatch::BranchByRank => {
                calls.truncate(at);
                calls.extend([PlannedCall { columns: 2, ..call }, PlannedCall { kind: CollectiveKind::Barrier, ..call }]);
            }
            _ => {}
        }
        calls
    }
}
/// Something whose result is in the loss, and changes nothing of it.
fn without_weight(of: &Tensor) -> Tensor {
    of.cast(DType::F32).sum(..) * 0.0
}
/// What each rank has of a call.
fn brought(call: PlannedCall, rank: u32, parts: usize) -> Tensor {
    let n = 2 * parts * call.columns;
    let values: Vec<f32> = (0..n).map(|k| ((k * 7 + rank as usize * 3) % 5) as f32).collect();
    Tensor::from_vec(values, [2 * parts, call.columns]).cast(call.dtype)
}
fn as_all_do(call: PlannedCall, group: &Group, parts: usize) -> Tensor {
    let x = brought(call, group.rank, parts);
    Tensor::apply(Op::Collective { kind: call.kind, group: group.clone() }, Arg::None, &[&x])
}
fn as_planted(call: PlannedCall, group: &Group, parts: usize) -> Tensor {
    let x = brought(call, group.rank, parts);
    Tensor::apply(Op::Collective { kind: call.kind, group: group.clone() }, Arg::None, &[&x])
}
/// What the loss needs to know.
struct PlantedLoss {
    program: PlantedProgram,
    group: Group,
    passes: AtomicU64,
    planted_at: Mutex<Option<f64>>,
}
impl PlantedLoss {
    fn mark(&self) {
        self.planted_at.lock().get_or_insert_with(now);
    }
    fn of(&self, net: &SmallNet, (x, y): &(Tensor, Tensor)) -> Result<Tensor> {
        let PlantedProgram { planted, victim, parts, .. } = self.program;
        let pass = self.passes.fetch_add(1, SeqCst);
        let is_it = self.group.rank as usize == victim && pass == self.program.pass && self.group.size as usize == parts;
        let mut extra = Tensor::full_on([0usize; 0], 0.0, DType::F32, Device::current()?);
        let is_other = is_it && planted.is_of_calls();
        // One rank that holds all parts has nobody to call.
        let calls = match self.group.size as usize == parts {
            true if is_other => self.program.altered(),
            true => self.program.calls(pass),
            false => Vec::new(),
        };
        if is_other {
            self.mark();
        }
        for (k, call) in calls.into_iter().enumerate() {
            let made = if is_other && k >= self.program.at { as_planted(call, &self.group, parts) } else { as_all_do(call, &self.group, parts) };
            if is_it && planted == PlantedMismatch::ReadOnOneRank && k == self.program.at {
                self.mark();
                made.cast(DType::F32).to_vec::<f32>()?;
            }
            extra = extra + without_weight(&made);
        }
        let mut x = x.clone();
        if is_it {
            match planted {
                PlantedMismatch::IndexFault => {
                    self.mark();
                    let beyond = Tensor::from_vec(vec![FEATURES as i64 + 3], [1]);
                    extra = extra + without_weight(&x.index_select(1, &beyond));
                }
                PlantedMismatch::NotANumber => {
                    self.mark();
                    x = x * f32::NAN;
                }
                PlantedMismatch::NoMemory => {
                    self.mark();
                    let vast = x.sum(..).reshape([1, 1]) + Tensor::full_on([1 << 24, 1 << 20], 1.0, DType::F32, Device::current()?);
                    vast.materialize()?;
                }
                _ => {}
            }
        }
        let mut out = net.head.forward(&net.hidden.forward(&x)?.relu())?;
        if planted != PlantedMismatch::UnusedParameter || !self.is_of_victim(&x)? {
            out = out + net.around.forward(&x)?;
        } else {
            self.mark();
        }
        ((out - y).square().mean(..) + extra).ok()
    }
    /// Are these the rows of the part that the planted rank holds? Told by the first row, whoever computes it.
    fn is_of_victim(&self, x: &Tensor) -> Result<bool> {
        let table = SmallTable { rows: ROWS * STEPS as usize, bad: None };
        let first = x.narrow(0, 0, 1).to_vec::<f32>()?;
        for step in 0..STEPS as usize {
            let row = step * ROWS + rank_parts(ROWS, self.program.victim, self.program.parts).start;
            if table.collate(vec![row])?.0.to_vec::<f32>()? == first {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
/// Notes the weights behind each step.
struct WeightNotes {
    of: Vec<Param>,
    seen: Vec<String>,
}
fn hash(of: &[Param]) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    for p in of {
        hasher.update(&p.detached().to_bytes()?);
    }
    Ok(hasher.finalize().to_hex().to_string())
}
impl Watch for WeightNotes {
    fn step(&mut self, _: u64) {
        self.seen.push(hash(&self.of).unwrap_or_else(|e| e.to_string()));
    }
}
/// One rank of a planted program, to its end.
///
/// # Errors
/// No device; a group that cannot be opened.
pub fn run(program: &PlantedProgram, place: &RankPlace) -> std::result::Result<PlantedReport, String> {
    let group = opened(place).map_err(|e| format!("rank {}: {e}", place.rank))?;
    let device = Device::cpu().map_err(|e| e.to_string())?;
    device.scoped(|| trained(program, &group)).map_err(|e| e.to_string())
}
fn trained(program: &PlantedProgram, on: &Arc<dyn Communicator>) -> Result<PlantedReport> {
    let (rank, size, parts) = (on.rank(), on.size(), program.parts);
    let is_victim = rank == program.victim && size == parts;
    manual_seed(if is_victim && program.planted == PlantedMismatch::OtherProgram { 8 } else { 7 });
    let net = SmallNet { hidden: Linear::new(FEATURES, 8)?, head: Linear::new(8, 1)?, around: Linear::new(FEATURES, 1)? };
    let held = net.parameters();
    let mut notes = WeightNotes { seen: vec![hash(&held)?], of: held.clone() };
    let optimizer = AdamW::new(0.02).over(net.parameters());
    let rows = ROWS * STEPS as usize - if program.planted == PlantedMismatch::EmptyPart { ROWS - 2 } else { 0 };
    let skipped = rank_parts(ROWS, program.victim, parts).start + ROWS * (program.pass.max(1) as usize - 1) + 1;
    let bad = Some(skipped).filter(|_| program.planted == PlantedMismatch::SkippedRecord);
    let loader = DataLoader::new(Arc::new(SmallTable { rows, bad })).batch_size(ROWS).parts(rank_parts(parts, rank, size), parts);
    let loader = loader.on_bad_record(Policy::Skip { at_most: 3 }).build()?;
    let loss = Arc::new(PlantedLoss { program: program.clone(), group: communicator::group(on), passes: AtomicU64::new(0), planted_at: Mutex::new(None) });
    let of = loss.clone();
    if is_victim && program.planted == PlantedMismatch::OtherProgram {
        loss.mark();
    }
    // A loss that does otherwise at one pass cannot be captured.
    let captures = matches!(program.planted, PlantedMismatch::EmptyPart | PlantedMismatch::SkippedRecord) && program.seed % 2 == 1;
    let trainer = Trainer::new(net, optimizer, move |net: &SmallNet, batch: &(Tensor, Tensor)| of.of(net, batch));
    let trainer = trainer.steps(STEPS).capture(captures).ranks(on, parts);
    let ended = trainer.fit(loader, &mut notes);
    let ended_at = now();
    let planted_at = *loss.planted_at.lock();
    let end = hash(&held)?;
    Ok(PlantedReport { planted_at, ended_at, error: ended.err().map(|e| e.to_string()), weights: notes.seen, end })
}
/// The weights of the program on one rank alone, which holds all parts: what the harmless ones come to.
///
/// # Errors
/// It cannot be run.
pub fn alone(program: &PlantedProgram) -> std::result::Result<String, String> {
    let alone = Arc::new(communicator::LoneRank::default()) as Arc<dyn Communicator>;
    let device = Device::cpu().map_err(|e| e.to_string())?;
    let report = device.scoped(|| trained(program, &alone)).map_err(|e| e.to_string())?;
    report.error.map_or(Ok(report.end), Err)
}
