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
//! A parameter's cell gives its value up to its unit: with the first two stages a cell that holds all of the unit, of which the parameter is a
//! view; with the last, cells of this rank's pieces. What ranks have updated is gathered to where the unit lay. If a peer is lost in the middle of
//! that, parameters are errors from then on: the run goes on from its newest checkpoint.
//!
//! With shared parameters each pass over a batch gathers the same units in the same order on all ranks, and in the last pass of a step the
//! gradients of a unit are scattered as soon as the walk back has come by its first use. Ranks whose parts are fewer do the same
//! along with those that have more ([`ShardedParameters::idle_pass`]).
use super::pieces::{self, PieceLayout, PieceUnit, chunks};
use crate::Failure;
use adamant_core::{
    Arg, Cell, CellSource, DType, Error, ErrorKind, Grads, Op, Result as Computed, Tensor,
    compile::capture_number,
    grad::{mark, with_marks},
    op::{CollectiveKind, Group, RankUse},
};
use adamant_nn::Param;
use adamant_optim::{GradientMeasure, ParameterPieces};
use adamant_stability::{HandlingType, NanOptions};
use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
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

/// A unit that was gathered, and what it is good for: its number, the capture. Whatever may change a value lets go of it, on all ranks alike.
type GatheredUnit = ((usize, u64), Tensor);
/// Where the values of a unit's parameters are that their cells have given up.
enum UnitValues {
    /// all of them in one, zeros behind
    Whole(Cell),
    /// by member, this rank's piece, where it has one
    Pieces(Vec<Option<Cell>>),
}
/// Parameters that are shared out.
pub(super) struct ShardedParameters {
    stage: ZeroStage,
    group: Group,
    pub layout: PieceLayout,
    /// by unit; nothing where parameters have kept their values
    values: Vec<OnceLock<UnitValues>>,
    /// by the number of a parameter's cell: its unit, and its place in it
    by_cell: HashMap<u64, (usize, usize)>,
    updates: Mutex<StepUpdates>,
    gathered: Mutex<Option<GatheredUnit>>,
    pass: Mutex<PassEvents>,
    myself: Weak<ShardedParameters>,
}
/// What a pass does together with other ranks.
#[derive(Clone, Copy)]
enum PassEvent {
    /// a unit is gathered
    Gather(usize),
    /// the gradients of a unit are whole
    Made(usize),
}
/// What is done with the gradients of a unit, once they are whole.
pub(super) type UnitGradients = Box<dyn FnMut(&PieceUnit, usize, &mut Grads) -> Computed<()> + Send>;
#[derive(Default)]
struct PassEvents {
    now: Vec<PassEvent>,
    /// those of one pass
    known: Option<Vec<PassEvent>>,
    /// takes gradients, in the last pass of a step
    taken_by: Option<UnitGradients>,
}
/// What the present step has updated.
#[derive(Default)]
struct StepUpdates {
    /// this rank's pieces, by parameter
    pieces: BTreeMap<usize, Tensor>,
    /// the first unit that was not gathered yet
    next: usize,
    /// what was gathered of a unit, and is to be put where it belongs
    came: Option<(usize, Tensor)>,
}
/// Nothing that is half done can be in it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
impl ShardedParameters {
    /// Shares parameters out: from [`ZeroStage::Slots`] on their cells give their values up.
    ///
    /// # Errors
    /// No memory.
    pub fn new(stage: ZeroStage, group: &Group, parameters: &[(String, Param)]) -> Computed<Arc<ShardedParameters>> {
        let layout = PieceLayout::new(parameters, group.rank as usize, group.size as usize);
        let values = layout.units.iter().map(|_| OnceLock::new()).collect();
        let by_cell = parameters.iter().filter_map(|(_, p)| Some((p.cell().id(), layout.place(p)?))).collect();
        let group = group.clone();
        let shared = Arc::new_cyclic(|myself| {
            let (updates, gathered, pass) = Default::default();
            ShardedParameters { stage, group, layout, values, by_cell, updates, gathered, pass, myself: myself.clone() }
        });
        // Unit after unit: no more than one of them is there twice.
        for (unit, values) in shared.layout.units.iter().zip(&shared.values).filter(|_| stage >= ZeroStage::Slots) {
            let taken = shared.taken_over(unit)?;
            values.get_or_init(|| taken);
            unit.members.iter().try_for_each(|m| m.param.cell().give_up(shared.clone()))?;
        }
        Ok(shared)
    }
    /// What is kept in the place of a unit's parameters.
    fn taken_over(&self, unit: &PieceUnit) -> Computed<UnitValues> {
        let flat = |param: &Param| param.detached().reshape([-1]);
        if self.stage < ZeroStage::Parameters {
            let all = unit.blocks(unit.members.iter().map(|m| flat(&m.param)).collect())?;
            all.materialize()?;
            return Ok(UnitValues::Whole(Cell::new(&all, false)?));
        }
        let piece = |m: &pieces::PieceMember| -> Computed<Option<Cell>> {
            let own = &m.pieces[self.rank()];
            if own.is_empty() {
                return Ok(None);
            }
            Cell::new(&pieces::copied(&flat(&m.param).narrow(0, own.start, own.len()))?, false).map(Some)
        };
        Ok(UnitValues::Pieces(unit.members.iter().map(piece).collect::<Computed<_>>()?))
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
    /// This rank's piece of a member, of shared parameters.
    fn own_piece(&self, u: usize, k: usize) -> Computed<Tensor> {
        match self.values[u].get() {
            None => self.own_of(k, u, &self.layout.units[u].members[k].param.detached().reshape([-1])),
            Some(UnitValues::Whole(all)) => self.own_of(k, u, &self.layout.units[u].whole(k, &all.detached())),
            Some(UnitValues::Pieces(pieces)) => match &pieces[k] {
                Some(piece) => piece.detached().ok(),
                None => {
                    let meta = self.layout.units[u].members[k].param.meta();
                    Tensor::full_on([0], 0, meta.dtype, meta.device).ok()
                }
            },
        }
    }
    fn own_of(&self, k: usize, u: usize, whole: &Tensor) -> Computed<Tensor> {
        let own = &self.layout.units[u].members[k].pieces[self.rank()];
        whole.narrow(0, own.start, own.len()).ok()
    }
    /// This rank's block of a unit, of these pieces.
    fn own_block(&self, u: usize, piece: impl Fn(usize) -> Computed<Tensor>) -> Computed<Tensor> {
        let unit = &self.layout.units[u];
        let meta = unit.members.first().ok_or_else(|| Error::new("step", ErrorKind::Internal("a unit of nothing".into())))?.param.meta();
        unit.block_of(self.rank(), &Tensor::full_on([1], 0, meta.dtype, meta.device), piece)
    }
    /// A unit of shared parameters as a whole: the one that was gathered last, or gathered now.
    fn gathered(&self, u: usize) -> Computed<Tensor> {
        let good_for = (u, capture_number());
        let mut last = locked(&self.gathered);
        if let Some((_, whole)) = last.as_ref().filter(|(known, _)| *known == good_for) {
            return Ok(whole.clone());
        }
        self.mark(u);
        let whole = self.all_gather(&self.own_block(u, |k| self.own_piece(u, k))?);
        locked(&self.pass).now.push(PassEvent::Gather(u));
        *last = Some((good_for, whole.clone()));
        Ok(whole)
    }
    /// Where a pass first reads a unit, the walk back will come by with whole gradients.
    fn mark(&self, u: usize) {
        let is_first = !locked(&self.pass).now.iter().any(|event| matches!(event, PassEvent::Gather(known) if *known == u));
        if let Some(myself) = self.myself.upgrade().filter(|_| is_first) {
            mark(move |grads| {
                locked(&myself.pass).now.push(PassEvent::Made(u));
                myself.take_gradients(u, grads)
            });
        }
    }
    fn take_gradients(&self, u: usize, grads: &mut Grads) -> Computed<()> {
        let Some(mut taken_by) = locked(&self.pass).taken_by.take() else { return Ok(()) };
        let taken = taken_by(&self.layout.units[u], u, grads);
        locked(&self.pass).taken_by = Some(taken_by);
        taken
    }
    /// Lets go of what was gathered.
    pub fn forget(&self) {
        *locked(&self.gathered) = None;
        locked(&self.pass).now.clear();
    }
    /// A pass over one batch, forward and back: what it does together with other ranks is noted.
    pub fn pass<R>(&self, run: impl FnOnce() -> R) -> R {
        self.forget();
        let made = with_marks(run);
        let noted = std::mem::take(&mut locked(&self.pass).now);
        if !noted.is_empty() {
            locked(&self.pass).known = Some(noted);
        }
        self.forget();
        made
    }
    /// From now on, until [`ShardedParameters::stop_taking`], gradients of shared parameters go there as soon as they are whole.
    pub fn take_by(&self, taken_by: UnitGradients) {
        locked(&self.pass).taken_by = Some(taken_by);
    }
    /// What an earlier step that failed has left is forgotten.
    pub fn begin_step(&self) {
        *locked(&self.updates) = StepUpdates::default();
        self.stop_taking();
    }
    pub fn stop_taking(&self) {
        let _gone = locked(&self.pass).taken_by.take();
    }
    /// A pass of others, for which this rank has no rows: it does the same together with them.
    ///
    /// # Errors
    /// No pass was made here yet, so it is not known what one does.
    pub fn idle_pass(&self) -> Computed<()> {
        if self.stage != ZeroStage::Parameters {
            return Ok(());
        }
        let Some(known) = locked(&self.pass).known.clone() else {
            let told = "a rank without rows in the first step does not know in which order parameters are gathered";
            return Err(Error::new("step", ErrorKind::Argument(told.into())).hint("give each rank rows in the first step: fewer shards, or larger batches"));
        };
        for event in known {
            match event {
                PassEvent::Gather(u) => drop(self.all_gather(&self.own_block(u, |k| self.own_piece(u, k))?)),
                PassEvent::Made(u) => self.take_gradients(u, &mut Grads::default())?,
            }
        }
        Ok(())
    }
    /// Takes over what this rank has of a parameter, of one axis, where parameters are shared out.
    pub fn set_own(&self, p: &Param, piece: &Tensor) -> Computed<()> {
        let (u, k) = self.place_of(&p.cell())?;
        match self.values[u].get() {
            Some(UnitValues::Pieces(pieces)) => pieces[k].as_ref().map_or(Ok(()), |own| own.set(piece)),
            None | Some(UnitValues::Whole(_)) => Err(Error::new("cell write", ErrorKind::Internal("a piece of what is whole".into()))),
        }
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
                    cut.push((name.clone(), pieces::copied(&value.reshape([-1]).narrow(0, own.start, own.len()))?));
                }
                false => cut.push((name.clone(), value.clone())),
            }
        }
        Ok(cut)
    }
    /// How long gradients are. Where they are pieces (`shared`) all ranks call it.
    pub fn norms(&self, grads: &Grads, used: &[(Param, bool)], shared: bool, sums: &GradientSums) -> Computed<SharedNorms> {
        let ranks = self.group.size as usize;
        let used: Vec<&Param> = used.iter().filter(|(_, used)| *used).map(|(p, _)| p).collect();
        // Where the chunks of each rank lie, one behind the other.
        let mut own = Vec::new();
        let mut at = vec![0; ranks];
        let mut places: Vec<Vec<Range<usize>>> = Vec::new();
        for p in &used {
            let Some(m) = self.layout.member(p) else { continue };
            let of_ranks = m.pieces.iter().zip(&mut at).map(|(piece, at)| {
                let n = chunks(m.start(piece), piece.len());
                *at += n;
                *at - n..*at
            });
            places.push(of_ranks.collect());
            if let Some(g) = grads.of(&p.cell()) {
                let piece = if shared { m.pieces[self.rank()].start } else { 0 };
                let (flat, by) = match sums.of.get(&p.id()) {
                    Some(sum) => (sum.clone(), sums.rows.as_ref()),
                    None => (g.reshape([-1]), None),
                };
                own.push(pieces::squares(&flat, m.from + piece, by)?);
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
        Ok(SharedNorms { squares: squares.ok()?, of_parameter, dtype, shared, all: None })
    }
}
/// What gradients are quotients of. A norm that is computed of it does not need them in memory.
#[derive(Default)]
pub(super) struct GradientSums {
    /// flat, by parameter
    pub of: HashMap<usize, Tensor>,
    pub rows: Option<Tensor>,
}
/// Sums of squares of all gradients' chunks, in the order of parameters: the same on all ranks, however gradients are shared out.
pub(super) struct SharedNorms {
    squares: Tensor,
    of_parameter: HashMap<usize, Range<usize>>,
    dtype: DType,
    shared: bool,
    /// of a model that ranks share
    all: Option<NormsOfAll>,
}
/// Of all parameters of a model that ranks share: their chunks, and whether a gradient of each is there.
pub(super) struct NormsOfAll {
    pub chunks: Vec<Range<usize>>,
    pub has: Tensor,
}
impl SharedNorms {
    /// Of a whole model, of whose parameters this rank has some, or pieces.
    pub fn of_mesh(squares: Tensor, all: NormsOfAll, of_parameter: HashMap<usize, Range<usize>>, dtype: DType) -> Computed<SharedNorms> {
        Ok(SharedNorms { squares: squares.ok()?, of_parameter, dtype, shared: true, all: Some(all) })
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
    /// The norm of each, of a model that ranks share of all that it has; `none` of one that has no gradient.
    pub fn each(&self, parameters: &[(String, Param)], none: f64) -> Computed<Tensor> {
        let of_chunks = |of: &Range<usize>| self.squares.narrow(0, of.start, of.len()).sum(..).sqrt().cast(DType::F32).reshape([1]);
        if let Some(all) = &self.all {
            let norms: Vec<Tensor> = all.chunks.iter().map(of_chunks).collect();
            return if norms.is_empty() {
                Tensor::zeros([0]).ok()
            } else {
                all.has.gt(0.0).where_(&Tensor::cat(&norms.iter().collect::<Vec<_>>(), 0), none).ok()
            };
        }
        let of = |p: &Param| match self.of_parameter.get(&p.id()) {
            Some(of) => of_chunks(of),
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
impl ShardedParameters {
    /// Gathers the units that this rank has updated its pieces of, in their order, up to the first that it has not; all of them at the end.
    fn gather_updated(&self, all: bool) -> Computed<()> {
        let mut updates = locked(&self.updates);
        while let Some(unit) = self.layout.units.get(updates.next) {
            let u = updates.next;
            let is_complete = |m: &pieces::PieceMember| m.pieces[self.rank()].is_empty() || updates.pieces.contains_key(&m.param.id());
            let Some(UnitValues::Whole(_)) = self.values[u].get() else { break };
            if !all && !unit.members.iter().all(is_complete) {
                break;
            }
            let piece = |k: usize| updates.pieces.get(&unit.members[k].param.id()).map_or_else(|| self.own_piece(u, k), |new| Ok(new.clone()));
            let block = self.own_block(u, piece)?;
            // One has travelled while this one was computed: now it is put where it belongs, and its memory is free for the next.
            let before = updates.came.take();
            before.map_or(Ok(()), |(u, came)| self.put(u, &came))?;
            updates.came = Some((u, self.all_gather(&block)));
            unit.members.iter().for_each(|m| drop(updates.pieces.remove(&m.param.id())));
            updates.next += 1;
        }
        Ok(())
    }
    /// A whole unit to where it lies.
    fn put(&self, u: usize, came: &Tensor) -> Computed<()> {
        match self.values[u].get() {
            Some(UnitValues::Whole(all)) => all.set(&all.detached().update_slice(0, 0, came)),
            _ => Err(Error::new("step", ErrorKind::Internal("a unit that is nowhere as a whole".into()))),
        }
    }
}
impl ParameterPieces for ShardedParameters {
    fn piece(&self, p: &Param) -> Range<usize> {
        self.layout.own(p)
    }
    fn read(&self, p: &Param) -> Computed<Tensor> {
        let (u, k) = self.place_of(&p.cell())?;
        self.own_piece(u, k)
    }
    fn write(&self, p: &Param, value: &Tensor) -> Computed<()> {
        let (value, own) = (value.clone().ok()?, self.layout.own(p));
        if value.shape()?.elements() != own.len() || value.dtype()? != p.meta().dtype {
            let told = format!("{} {} for the {} elements of `{}` that this rank has", value.dtype()?, value.shape()?, own.len(), p.path());
            return Err(Error::new("step", ErrorKind::Argument(told)));
        }
        let (u, k) = self.place_of(&p.cell())?;
        if let Some(UnitValues::Pieces(pieces)) = self.values[u].get() {
            return pieces[k].as_ref().map_or(Ok(()), |piece| piece.set(&value));
        }
        locked(&self.updates).pieces.insert(p.id(), value);
        self.gather_updated(false)
    }
    fn finish(&self) -> Computed<()> {
        let done = self.gather_updated(true);
        let StepUpdates { came, .. } = std::mem::take(&mut *locked(&self.updates));
        self.forget();
        done?;
        came.map_or(Ok(()), |(u, came)| self.put(u, &came))
    }
}
impl CellSource for ShardedParameters {
    fn read(&self, cell: &Cell) -> Computed<Tensor> {
        let (u, k) = self.place_of(cell)?;
        let all = match self.values[u].get() {
            None => return Err(Error::new("cell read", ErrorKind::Internal("a cell that has kept its value".into()))),
            Some(UnitValues::Whole(all)) => all.detached(),
            Some(UnitValues::Pieces(_)) => self.gathered(u)?,
        };
        self.layout.units[u].whole(k, &all).reshape(cell.meta().shape).ok()
    }
    fn write(&self, cell: &Cell, value: &Tensor) -> Computed<()> {
        let (u, k) = self.place_of(cell)?;
        let flat = value.reshape([-1]);
        match self.values[u].get() {
            None => Err(Error::new("cell write", ErrorKind::Internal("a cell that has kept its value".into()))),
            Some(UnitValues::Whole(all)) => all.set(&all.detached().update_slice(0, self.layout.units[u].members[k].from, &flat)),
            Some(UnitValues::Pieces(pieces)) => {
                let written = pieces[k].as_ref().map_or(Ok(()), |piece| piece.set(&self.own_of(k, u, &flat)?));
                self.forget();
                written
            }
        }
    }
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
