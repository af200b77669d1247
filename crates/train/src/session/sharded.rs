//! What ranks share out beside the rows of a step (Rajbhandari et al. 2020, "ZeRO"): slots, then gradients, then parameters.
//!
//! ```text
//! stage       a rank holds                     a step
//! Slots       parameters, gradients, its slots   all-reduce of gradients; update of its pieces; all-gather of parameters
//! Gradients   parameters, its gradients, slots   reduce-scatter of gradients; the same
//! Parameters  its pieces of all of them          a unit is gathered where its first parameter is read, and again on the walk back
//! ```
//!
//! An update is computed element by element, sums of gradients go along the tree over parts, norms are added up chunk by chunk
//! ([`super::pieces`]): so all stages end in the same bits, on any number of ranks.
//!
//! With shared parameters each pass over a batch gathers the same units in the same order on all ranks. Ranks whose parts are fewer
//! gather along for those that have more ([`ShardedParameters::idle_pass`]).
use super::pieces::{self, PieceLayout, chunks};
use crate::Failure;
use adamant_core::{
    Arg, Cell, CellSource, DType, Error, ErrorKind, Grads, Op, Result as Computed, Tensor,
    compile::capture_number,
    op::{CollectiveKind, Group, RankUse},
};
use adamant_nn::Param;
use adamant_optim::{GradientMeasure, ParameterPieces};
use adamant_stability::{HandlingType, NanOptions};
use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What ranks share out beside the rows of a step. Each stage includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum ZeroStage {
    /// nothing: each rank has all of it
    #[default]
    Off,
    /// the optimizer's slots
    Slots,
    /// gradients
    Gradients,
    /// parameters
    Parameters,
}
impl ZeroStage {
    /// By its number, 0 to 3.
    pub fn from_number(number: usize) -> Option<ZeroStage> {
        [ZeroStage::Off, ZeroStage::Slots, ZeroStage::Gradients, ZeroStage::Parameters].get(number).copied()
    }
}

/// A unit that was gathered, and what it is good for: its number, the version of what it was gathered of, the capture.
type GatheredUnit = ((usize, u64, u64), Tensor);
/// Parameters that are shared out.
pub(super) struct ShardedParameters {
    stage: ZeroStage,
    group: Group,
    pub layout: PieceLayout,
    /// this rank's block of each unit, where parameters are shared out
    blocks: Vec<Cell>,
    /// by the number of a parameter's cell: its unit, and its place in it
    by_cell: HashMap<u64, (usize, usize)>,
    /// pieces that the present step has updated, by parameter
    updated: Mutex<BTreeMap<usize, Tensor>>,
    gathered: Mutex<Option<GatheredUnit>>,
    /// the units that the present pass has gathered, and those that one pass gathers
    pass: Mutex<PassGathers>,
    /// what all ranks together have, until the leader's snapshot is taken: parameters by the numbers of their cells, and slots
    collected: Mutex<CollectedState>,
}
#[derive(Default)]
struct CollectedState {
    parameters: BTreeMap<u64, Tensor>,
    slots: Option<SlotsAndErrors>,
}
/// Slots as a whole, and what compressed gradients have not sent.
pub(super) type SlotsAndErrors = (Vec<(String, Tensor)>, Vec<(String, Tensor)>);
#[derive(Default)]
struct PassGathers {
    now: Vec<usize>,
    known: Option<Vec<usize>>,
}
/// Nothing that is half done can be in it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
impl ShardedParameters {
    /// Shares parameters out. Of stage [`ZeroStage::Parameters`] their cells give their values up.
    ///
    /// # Errors
    /// No memory.
    pub fn new(stage: ZeroStage, group: &Group, parameters: &[(String, Param)], bucket_bytes: usize) -> Computed<Arc<ShardedParameters>> {
        let units = if stage == ZeroStage::Parameters { by_block(parameters) } else { by_bytes(parameters, bucket_bytes) };
        let (rank, ranks) = (group.rank as usize, group.size as usize);
        let layout = PieceLayout::new(units, rank, ranks);
        let mut blocks = Vec::new();
        if stage == ZeroStage::Parameters {
            for unit in &layout.units {
                let flat: Vec<Tensor> = unit.members.iter().map(|m| m.param.detached().reshape([-1])).collect();
                let block = unit.blocks(&flat)?.narrow(0, rank * unit.block, unit.block).contiguous();
                block.materialize()?;
                blocks.push(Cell::new(&block, false)?);
            }
        }
        let by_cell = parameters.iter().filter_map(|(_, p)| Some((p.cell().id(), layout.place(p)?))).collect();
        let group = group.clone();
        let (updated, gathered, pass, collected) = Default::default();
        let shared = Arc::new(ShardedParameters { stage, group, layout, blocks, by_cell, updated, gathered, pass, collected });
        if stage == ZeroStage::Parameters {
            parameters.iter().try_for_each(|(_, p)| p.cell().give_up(shared.clone()))?;
        }
        Ok(shared)
    }
    /// All ranks have whole parameters again. All call it.
    ///
    /// # Errors
    /// A lost peer, no memory.
    pub fn put_together(&self) -> Computed<()> {
        let members = self.layout.units.iter().flat_map(|unit| &unit.members);
        let done = members.map(|m| m.param.cell()).try_for_each(|cell| cell.take_back());
        self.forget();
        done
    }
    pub fn stage(&self) -> ZeroStage {
        self.stage
    }
    fn rank(&self) -> usize {
        self.layout.rank
    }
    fn all_gather(&self, block: &Tensor) -> Tensor {
        let kind = CollectiveKind::AllGather { used: RankUse::Alike };
        Tensor::apply(Op::Collective { kind, group: self.group.clone() }, Arg::None, &[block])
    }
    fn place_of(&self, cell: &Cell) -> Computed<(usize, usize)> {
        self.by_cell.get(&cell.id()).copied().ok_or_else(|| Error::new("cell read", ErrorKind::Internal("a cell that is not shared out".into())))
    }
    /// A unit as a whole: the one that was gathered last, or gathered now.
    fn gathered(&self, unit: usize) -> Tensor {
        let block = &self.blocks[unit];
        let good_for = (unit, block.version(), capture_number());
        let mut last = locked(&self.gathered);
        if let Some((_, whole)) = last.as_ref().filter(|(known, _)| *known == good_for) {
            return whole.clone();
        }
        let whole = self.all_gather(&block.detached());
        locked(&self.pass).now.push(unit);
        *last = Some((good_for, whole.clone()));
        whole
    }
    /// Lets go of what was gathered.
    pub fn forget(&self) {
        *locked(&self.gathered) = None;
        locked(&self.pass).now.clear();
    }
    /// A pass over one batch, forward and back: what it gathers is noted.
    pub fn pass<R>(&self, run: impl FnOnce() -> R) -> R {
        self.forget();
        let made = run();
        let noted = std::mem::take(&mut locked(&self.pass).now);
        if !noted.is_empty() {
            locked(&self.pass).known = Some(noted);
        }
        self.forget();
        made
    }
    /// A pass of others, for which this rank has no rows: it gathers along.
    ///
    /// # Errors
    /// No pass was made here yet, so it is not known what one gathers.
    pub fn idle_pass(&self) -> Computed<()> {
        if self.stage != ZeroStage::Parameters {
            return Ok(());
        }
        let Some(known) = locked(&self.pass).known.clone() else {
            let told = "a rank without rows in the first step does not know in which order parameters are gathered";
            return Err(Error::new("step", ErrorKind::Argument(told.into())).hint("give each rank rows in the first step: fewer shards, or larger batches"));
        };
        for unit in known {
            self.all_gather(&self.blocks[unit].detached());
        }
        Ok(())
    }
    /// Keeps what all ranks together have for a snapshot.
    pub fn keep_collected(&self, parameters: BTreeMap<u64, Tensor>, state: SlotsAndErrors) {
        *locked(&self.collected) = CollectedState { parameters, slots: Some(state) };
    }
    /// The slots that were kept, and the end of keeping.
    pub fn take_collected(&self) -> Option<SlotsAndErrors> {
        std::mem::take(&mut *locked(&self.collected)).slots
    }
    /// Of whole gradients those of this rank's pieces.
    pub fn cut(&self, grads: &mut Grads) {
        for m in self.layout.units.iter().flat_map(|unit| &unit.members) {
            let (cell, own) = (m.param.cell(), &m.pieces[self.rank()]);
            let Some(whole) = grads.take(&cell) else { continue };
            if !own.is_empty() {
                grads.set(&cell, whole.reshape([-1]).narrow(0, own.start, own.len()));
            }
        }
    }
    /// The slots of this rank's pieces, of slots as a whole; what is a piece already stays.
    pub fn cut_slots(&self, state: &[(String, Tensor)]) -> Computed<Vec<(String, Tensor)>> {
        let mut cut = Vec::new();
        let by_path: HashMap<String, &Param> =
            self.layout.units.iter().flat_map(|unit| &unit.members).map(|m| (m.param.path().to_string(), &m.param)).collect();
        for (name, value) in state {
            let p = name.rsplit_once('.').and_then(|(path, _)| by_path.get(path));
            let Some(p) = p else {
                // Whose it is, the optimizer will ask.
                cut.push((name.clone(), value.clone()));
                continue;
            };
            let (own, shape) = (self.layout.own(p), value.shape()?);
            match own.is_empty() {
                true => {}
                false if shape == p.meta().shape && shape.rank() > 0 => {
                    let piece = value.reshape([-1]).narrow(0, own.start, own.len()).contiguous();
                    piece.materialize()?;
                    cut.push((name.clone(), piece));
                }
                false => cut.push((name.clone(), value.clone())),
            }
        }
        Ok(cut)
    }
    /// How long gradients are. With stage [`ZeroStage::Gradients`] all ranks call it.
    pub fn norms(&self, grads: &Grads, used: &[(Param, bool)]) -> Computed<SharedNorms> {
        let ranks = self.group.size as usize;
        let shared = self.stage >= ZeroStage::Gradients;
        let used: Vec<&Param> = used.iter().filter(|(_, used)| *used).map(|(p, _)| p).collect();
        // Where the chunks of each rank lie, one behind the other.
        let mut own = Vec::new();
        let mut at = vec![0; ranks];
        let mut places: Vec<Vec<Range<usize>>> = Vec::new();
        for p in &used {
            let Some(m) = self.layout.member(p) else { continue };
            let of_ranks = m.pieces.iter().zip(&mut at).map(|(piece, at)| {
                let n = chunks(piece.len());
                *at += n;
                *at - n..*at
            });
            places.push(of_ranks.collect());
            if let Some(g) = grads.of(&p.cell()) {
                own.push(pieces::squares(&g.reshape([-1]))?);
            }
        }
        let chunks: Vec<Range<usize>> = places
            .iter()
            .scan(0, |from, ranks| {
                *from += ranks.iter().map(Range::len).sum::<usize>();
                Some(*from - ranks.iter().map(Range::len).sum::<usize>()..*from)
            })
            .collect();
        let dtype = if used.iter().any(|p| p.meta().dtype == DType::F64) { DType::F64 } else { DType::F32 };
        let wide = match own.first() {
            Some(first) => first.dtype()?,
            None => used.first().map_or(DType::F64, |p| p.meta().device.widest_float()),
        };
        let device = used.first().map_or_else(adamant_core::Device::reference, |p| p.meta().device);
        let squares = if !shared {
            Tensor::cat(&own.iter().collect::<Vec<_>>(), 0)
        } else {
            let most = at.iter().copied().max().unwrap_or(0);
            let mine = at[self.rank()];
            if mine < most {
                own.push(Tensor::full_on([most - mine], 0, wide, device));
            }
            let all = self.all_gather(&Tensor::cat(&own.iter().collect::<Vec<_>>(), 0));
            let parts: Vec<Tensor> = places
                .iter()
                .flat_map(|ranks| ranks.iter().enumerate())
                .filter(|(_, of)| !of.is_empty())
                .map(|(rank, of)| all.narrow(0, rank * most + of.start, of.len()))
                .collect();
            Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0)
        };
        let of_parameter = used.iter().zip(chunks).map(|(p, chunks)| (p.id(), chunks)).collect();
        Ok(SharedNorms { squares: squares.ok()?, of_parameter, dtype, shared, each: None })
    }
}
/// Sums of squares of all gradients' chunks, in the order of parameters: the same on all ranks, however gradients are shared out.
pub(super) struct SharedNorms {
    squares: Tensor,
    of_parameter: HashMap<usize, Range<usize>>,
    dtype: DType,
    shared: bool,
    /// of a model that ranks share: the norm of each of the whole model's parameters
    each: Option<Tensor>,
}
impl SharedNorms {
    /// Of a whole model, of whose parameters this rank has some, or pieces: sums of squares, norms, and which of them are here.
    pub fn of_mesh(squares: Tensor, each: Tensor, of_parameter: HashMap<usize, Range<usize>>, dtype: DType) -> Computed<SharedNorms> {
        Ok(SharedNorms { squares: squares.ok()?, of_parameter, dtype, shared: true, each: Some(each.ok()?) })
    }
    /// The norm of all of them.
    pub fn total(&self) -> Tensor {
        self.squares.sum(..).sqrt().cast(self.dtype)
    }
    /// The loss, unless a gradient is not finite: then what their norm is. All ranks judge it alike, whoever has that gradient.
    pub fn or_bad(&self, loss: &Tensor) -> Computed<Tensor> {
        let norm = self.squares.sum(..).sqrt();
        norm.isfinite().where_(loss, norm.cast(loss.dtype()?)).ok()
    }
    /// The norm of each; `none` of one that has no gradient.
    pub fn each(&self, parameters: &[(String, Param)], none: f64) -> Computed<Tensor> {
        if let Some(each) = &self.each {
            return each.clone().ok();
        }
        let of = |p: &Param| match self.of_parameter.get(&p.id()) {
            Some(of) => self.squares.narrow(0, of.start, of.len()).sum(..).sqrt().cast(DType::F32).reshape([1]),
            None => Tensor::full_on([1], none, DType::F32, p.meta().device),
        };
        let all: Vec<Tensor> = parameters.iter().map(|(_, p)| of(p)).collect();
        if all.is_empty() { Tensor::zeros([0]).ok() } else { Tensor::cat(&all.iter().collect::<Vec<_>>(), 0).ok() }
    }
}
impl GradientMeasure for SharedNorms {
    fn norm(&self, _: &Grads, parameters: &[Param]) -> Computed<(Tensor, DType)> {
        let of: Vec<&Range<usize>> = parameters.iter().filter_map(|p| self.of_parameter.get(&p.id())).collect();
        let sum = if of.len() == self.of_parameter.len() {
            self.squares.sum(..)
        } else {
            let parts: Vec<Tensor> = of.iter().map(|of| self.squares.narrow(0, of.start, of.len())).collect();
            Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0).sum(..)
        };
        Ok((sum.sqrt().ok()?, self.dtype))
    }
    fn has(&self, _: &Grads, parameter: &Param) -> bool {
        self.of_parameter.contains_key(&parameter.id())
    }
    fn is_of_pieces(&self) -> bool {
        self.shared
    }
}
impl ParameterPieces for ShardedParameters {
    fn piece(&self, p: &Param) -> Range<usize> {
        self.layout.own(p)
    }
    fn read(&self, p: &Param) -> Computed<Tensor> {
        let (u, k) = self.place_of(&p.cell())?;
        if self.stage == ZeroStage::Parameters {
            return self.layout.units[u].piece(k, self.rank(), &self.blocks[u].detached()).ok();
        }
        let own = self.layout.own(p);
        p.detached().reshape([-1]).narrow(0, own.start, own.len()).ok()
    }
    fn write(&self, p: &Param, value: &Tensor) -> Computed<()> {
        let (value, own) = (value.clone().ok()?, self.layout.own(p));
        if value.shape()?.elements() != own.len() || value.dtype()? != p.meta().dtype {
            let told = format!("{} {} for the {} elements of `{}` that this rank has", value.dtype()?, value.shape()?, own.len(), p.path());
            return Err(Error::new("step", ErrorKind::Argument(told)));
        }
        locked(&self.updated).insert(p.id(), value);
        Ok(())
    }
    fn finish(&self) -> Computed<()> {
        let updated = std::mem::take(&mut *locked(&self.updated));
        let rank = self.rank();
        for (u, unit) in self.layout.units.iter().enumerate() {
            let Some(first) = unit.members.first() else { continue };
            let piece = |k: usize| {
                let p = &unit.members[k].param;
                updated.get(&p.id()).map_or_else(|| ParameterPieces::read(self, p), |new| Ok(new.clone()))
            };
            // Of the dtype and device of the unit's parameters.
            let meta = first.param.meta();
            let block = unit.block_of(rank, &Tensor::full_on([1], 0, meta.dtype, meta.device), piece)?;
            if self.stage == ZeroStage::Parameters {
                self.blocks[u].set(&block)?;
                continue;
            }
            let all = self.all_gather(&block);
            for (k, m) in unit.members.iter().enumerate() {
                m.param.cell().set(&unit.whole(k, &all)?.reshape(m.param.meta().shape))?;
            }
        }
        self.forget();
        Ok(())
    }
}
impl CellSource for ShardedParameters {
    fn read(&self, cell: &Cell) -> Computed<Tensor> {
        if let Some(whole) = locked(&self.collected).parameters.get(&cell.id()) {
            return Ok(whole.clone());
        }
        let (u, k) = self.place_of(cell)?;
        self.layout.units[u].whole(k, &self.gathered(u))?.reshape(cell.meta().shape).ok()
    }
    fn write(&self, cell: &Cell, value: &Tensor) -> Computed<()> {
        let (u, k) = self.place_of(cell)?;
        let (unit, rank) = (&self.layout.units[u], self.rank());
        let own = unit.members[k].pieces[rank].clone();
        let block = self.blocks[u].detached();
        let piece = value.reshape([-1]).narrow(0, own.start, own.len());
        self.blocks[u].set(&unit.with_piece(k, rank, (&block, &piece))?)?;
        self.forget();
        Ok(())
    }
}
/// Units of about so many bytes, the last parameters first, as the walk back makes gradients; each of one dtype.
fn by_bytes(parameters: &[(String, Param)], most: usize) -> Vec<Vec<Param>> {
    let mut units: Vec<Vec<Param>> = Vec::new();
    let mut bytes = 0;
    for (_, p) in parameters.iter().rev() {
        let meta = p.meta();
        let is_other = units.last().and_then(|unit| unit.first()).is_none_or(|first| first.meta().dtype != meta.dtype);
        if is_other || bytes >= most {
            units.push(Vec::new());
            bytes = 0;
        }
        bytes += meta.shape.elements() * meta.dtype.size();
        units.last_mut().into_iter().for_each(|unit| unit.push(p.clone()));
    }
    units
}
/// A unit for each block of the model: what has one path up to the first number in it, or up to the first dot; each of one dtype.
fn by_block(parameters: &[(String, Param)]) -> Vec<Vec<Param>> {
    let mut units: Vec<(&str, Vec<Param>)> = Vec::new();
    for (name, p) in parameters {
        let block = block_name(name);
        match units.last_mut() {
            Some((known, unit)) if *known == block && unit.first().is_some_and(|first| first.meta().dtype == p.meta().dtype) => unit.push(p.clone()),
            _ => units.push((block, vec![p.clone()])),
        }
    }
    units.into_iter().map(|(_, unit)| unit).collect()
}
fn block_name(path: &str) -> &str {
    let mut end = 0;
    for part in path.split('.') {
        end += part.len();
        if !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) {
            return &path[..end];
        }
        end += 1;
    }
    path.split('.').next().unwrap_or(path)
}
/// What ranks cannot share out.
///
/// # Errors
/// `Usage`: handling of bad numbers that changes gradients or looks at more than whether all are finite; a scaled loss.
pub(super) fn must_be_shareable(stage: ZeroStage, handling: Option<&NanOptions>, scales: bool) -> Result<(), Failure> {
    match looks_at_all(handling, scales).filter(|_| stage >= ZeroStage::Gradients) {
        None => Ok(()),
        Some(what) => Err(Failure::Usage(format!("[distributed]: {what}, and with `zero = {}` each rank has pieces: take `zero = 1`", stage as u8))),
    }
}
/// What looks at gradients as a whole, if something does.
pub(super) fn looks_at_all(handling: Option<&NanOptions>, scales: bool) -> Option<&'static str> {
    Some(match handling {
        _ if scales => "a scaled loss (f16) looks at gradients as a whole",
        Some(options) if options.handling_type.mends() || options.handling_type == HandlingType::Detect => {
            "this `handling_type` of `[stability]` looks at gradients as a whole"
        }
        Some(options) if options.detect_explosion => "`detect_explosion` looks at gradients as a whole",
        Some(options) if options.gradient_checking && !options.loss_checking => "`gradient_checking` without `loss_checking` looks at gradients as a whole",
        _ => return None,
    })
}
