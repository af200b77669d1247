//! A step that ranks share. The rows of a step are cut into parts, whose number does not depend on that of the ranks; each part is
//! learned from as if it were alone, with random numbers and batch statistics of its own; and all that parts give is added along one
//! tree over the parts ([`ReductionTree`](adamant_core::communicator::ReductionTree)). So weights, slots and losses have the same bits on any number of ranks.
//!
//! ```text
//! generator -> a seed for each part
//! part: forward, backward -> rows · gradients, rows · loss, rows · statistics, rows          (its statistics are taken back)
//! parts -> the tree's nodes that this rank holds whole -> buckets -> all-reduce over parts -> / rows
//! ```
//!
//! Buckets are filled in the order in which the walk back makes gradients, the last layers first: a bucket travels while the walk goes
//! on. What a part without rows gives are zeros. Where gradients are shared out ([`ZeroStage::Gradients`]), each rank gets its pieces of a
//! bucket alone.
//!
//! Must not know: what reduces, what becomes of the gradients.
use super::{
    Batch, Session, StepParts,
    compressed::{CompressedGradients, CompressionPlan},
    meshed::MeshedModel,
    scattered::{OpenPart, ScatteredUnits},
    sharded::{GradientSums, ShardedParameters, SharedNorms, ZeroStage, looks_at_all, must_be_shareable},
};
use crate::Failure;
use adamant_amp::GradScaler;
use adamant_core::{
    Arg, DType, Device, Error, ErrorKind, Grads, Op, Result as Computed, Shape, Tensor, TensorType,
    communicator::{CollectiveCall, Communicator, of},
    compile::decide,
    flush,
    grad::{mark, with_wide_gradients},
    op::{CollectiveKind, Group, RankUse, ReduceOp, rank_parts, tree_nodes},
    step_reviewed, time_block,
};
use adamant_nn::{Param, Role, Walk, init::generator};
use adamant_optim::ClippingType;
use adamant_stability::HandlingType;
use std::{
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// How a run is shared.
#[derive(Clone)]
pub struct StepSharing {
    /// the ranks
    pub group: Group,
    /// into how many parts the rows of a step are cut, at least one for each rank
    pub parts: usize,
    /// bytes of gradients that travel at once; [`ALL_AT_ONCE`]: no gradient travels before the last one is there
    pub bucket_bytes: usize,
    /// what ranks share out beside the rows
    pub zero: ZeroStage,
    /// how gradients travel with fewer bytes; none: as they are
    pub compress: Option<CompressionPlan>,
}
impl StepSharing {
    /// The parts that this rank holds.
    pub fn held(&self) -> Range<usize> {
        rank_parts(self.parts, self.group.rank as usize, self.group.size as usize)
    }
}
/// The first bucket is small: it is full soon, and the link is idle.
const FIRST_BUCKET: usize = 1 << 20;
/// Bytes of the first bucket, where the others have so many.
pub fn first_bucket(bucket_bytes: usize) -> usize {
    if bucket_bytes == ALL_AT_ONCE { ALL_AT_ONCE } else { FIRST_BUCKET.min(bucket_bytes) }
}
/// Bytes of a bucket that takes all gradients, and has no small one before it.
pub const ALL_AT_ONCE: usize = usize::MAX;

/// What a session knows of its sharing.
pub(super) struct SharedSteps {
    sharing: StepSharing,
    /// which of the parts that this rank holds each batch of the step is of
    of_part: Arc<Mutex<Vec<usize>>>,
    /// how many batches were taken for the step, of all ranks the same
    taken: Arc<Mutex<usize>>,
    /// what the forward pass changes beside the parameters
    states: Vec<Param>,
    /// which parameters have gradients on any rank
    used: Option<Vec<bool>>,
    pub sharded: Arc<ShardedParameters>,
    pub compressed: Option<CompressedGradients>,
    /// what of the model this rank has, where others have the rest
    meshed: Option<Arc<MeshedModel>>,
    /// gradients that were scattered already
    pub scattered: ScatteredUnits,
    /// Does what looks at gradients make do with this rank's pieces?
    pieces: bool,
    /// of the gradients that were added last, until somebody measures them
    sums: Mutex<GradientSums>,
}
/// What parts give, before it is added.
pub(super) struct PartSums {
    /// rows · gradient of each parameter that is used, flat
    pub grads: Vec<Tensor>,
    /// rows · loss, rows, and rows · each state of floats
    tail: Vec<Tensor>,
    /// each state of whole numbers
    counts: Vec<Tensor>,
}
/// Nothing that is half done can be in it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
pub(super) fn collective(kind: CollectiveKind, group: &Group, x: &Tensor) -> Tensor {
    Tensor::apply(Op::Collective { kind, group: group.clone() }, Arg::None, &[x])
}
/// The sum of consecutive parts as the tree has it: its left half holds a power of two of them.
pub(super) fn halved(parts: &[Tensor]) -> Option<Tensor> {
    match parts {
        [] => None,
        [one] => Some(one.clone()),
        parts => {
            let (left, right) = parts.split_at(parts.len().next_power_of_two() / 2);
            Some(halved(left)? + halved(right)?)
        }
    }
}
/// Of each part's numbers, those of the tree's nodes that this rank holds whole.
pub(super) fn of_nodes(sharing: &StepSharing, of_parts: &[Tensor]) -> Computed<Tensor> {
    let StepSharing { group, parts, .. } = sharing;
    let held = sharing.held();
    let nodes = tree_nodes(*parts, group.rank as usize, group.size as usize).map(|node| node.start - held.start..node.end - held.start);
    let node = |node: Range<usize>| halved(&of_parts[node]).ok_or_else(|| Error::new("step", ErrorKind::Internal("a node without parts".into())));
    let of_nodes: Vec<Tensor> = nodes.map(node).collect::<Computed<_>>()?;
    Tensor::stack(&of_nodes.iter().collect::<Vec<_>>(), 0).ok()
}
impl SharedSteps {
    /// # Errors
    /// No memory.
    pub fn new(sharing: StepSharing, states: Vec<Param>, parameters: &[(String, Param)]) -> Computed<SharedSteps> {
        let stage = if sharing.group.size > 1 { sharing.zero } else { ZeroStage::Off };
        let sharded = ShardedParameters::new(stage, &sharing.group, parameters)?;
        let device = parameters.first().map_or_else(Device::reference, |(_, p)| p.meta().device);
        let wide = if parameters.iter().any(|(_, p)| p.meta().dtype == DType::F64) { DType::F64 } else { DType::F32 };
        let compressed = sharing.compress.map(|plan| CompressedGradients::new(plan, &sharing.group, parameters, (wide, device))).transpose()?;
        Ok(SharedSteps {
            sharing,
            of_part: Arc::default(),
            taken: Arc::default(),
            states,
            used: None,
            sharded,
            compressed,
            meshed: None,
            scattered: Default::default(),
            pieces: stage >= ZeroStage::Gradients,
            sums: Default::default(),
        })
    }
    /// Which of the parts held here the batches of the next step are of, and how many were taken for it.
    pub fn assign(&self, of_part: Vec<usize>, taken: usize) {
        *locked(&self.of_part) = of_part;
        *locked(&self.taken) = taken;
    }
    pub fn group(&self) -> &Group {
        &self.sharing.group
    }
    pub fn sharing(&self) -> &StepSharing {
        &self.sharing
    }
    /// How many passes over batches each rank makes in the next step, which not all have rows for.
    fn passes(&self) -> usize {
        *locked(&self.taken) * self.sharing.parts.div_ceil(self.sharing.group.size.max(1) as usize)
    }
    /// Does what passes do together with other ranks, along with those that have more rows.
    fn idle_passes(&self, own: usize, (sums, parameters, like): (&[PartSums], &[(String, Param)], (DType, Device))) -> Computed<()> {
        let passes = self.passes();
        (own..passes).try_for_each(|pass| {
            if pass + 1 == passes {
                self.scatter_in_pass(sums, None, parameters, like);
            }
            self.sharded.idle_pass()
        })
    }
    /// How long gradients are.
    pub fn norms(&self, grads: &Grads, parameters: &[(String, Param)]) -> Computed<SharedNorms> {
        let used = self.used.as_deref().unwrap_or_default();
        if let Some(meshed) = self.meshed.as_ref().filter(|meshed| !meshed.is_whole()) {
            return meshed.norms(grads, parameters, used);
        }
        let used: Vec<(Param, bool)> = parameters.iter().zip(used).map(|((_, p), used)| (p.clone(), *used)).collect();
        // Good for gradients that nobody has changed.
        let sums = std::mem::take(&mut *locked(&self.sums));
        self.sharded.norms(grads, &used, self.pieces, &sums)
    }
    /// Nothing of a step counts if one rank has found bad data in it: all have an error then, and hold what they held before.
    pub fn agree_on_data(&self, device: Device) {
        let group = self.meshed.as_ref().map_or_else(|| self.group(), |meshed| meshed.mesh().world());
        if group.size > 1 {
            let _passed = collective(CollectiveKind::Barrier, group, &Tensor::full_on([1], 0, DType::U8, device));
        }
    }
    /// Have other ranks pieces of what is looked at, so that all of them look?
    pub fn has_pieces(&self) -> bool {
        self.pieces || self.meshed.is_some()
    }
    /// All ranks tell which parameters have gradients here, and take the union. Called by all, before a step.
    ///
    /// # Errors
    /// A lost peer.
    pub fn agree(&mut self, own: &[bool]) -> Computed<()> {
        let fail = |kind| Error::new("agree", kind);
        let group = of(&self.sharing.group).map_err(fail)?;
        let bytes: Vec<u8> = own.iter().map(|used| u8::from(*used)).collect();
        let all = gather(group, &bytes).map_err(fail)?;
        self.used = Some((0..own.len()).map(|k| all.iter().any(|rank| rank.get(k) == Some(&1))).collect());
        Ok(())
    }
    /// The same steps, with other ranks: what was agreed upon stays.
    pub fn regroup(&mut self, sharing: StepSharing) {
        self.sharing = sharing;
        self.assign(Vec::new(), 0);
    }
    /// Is it known which parameters are used?
    pub fn has_agreed(&self) -> bool {
        self.used.is_some()
    }
    /// Adds over all parts what this rank's parts give. Gives the gradients of the mean loss over all rows, and that loss.
    fn reduce(&self, sums: Vec<PartSums>, parameters: &[(String, Param)], like: (DType, Device)) -> Computed<(Grads, Tensor)> {
        let StepSharing { group, parts, .. } = &self.sharing;
        let leaves: Vec<Param> = parameters.iter().map(|(_, p)| p.clone()).collect();
        let all = |flat: Vec<Tensor>| -> Computed<Tensor> {
            let kind = CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: *parts as u32, used: RankUse::Alike };
            Ok(collective(kind, group, &of_nodes(&self.sharing, &flat)?))
        };
        let joined =
            |of: &dyn Fn(&PartSums) -> Vec<Tensor>| -> Vec<Tensor> { sums.iter().map(|sums| Tensor::cat(&of(sums).iter().collect::<Vec<_>>(), 0)).collect() };
        let reduced =
            if self.sharded.stage() >= ZeroStage::Gradients { self.scattered(&sums, parameters, like)? } else { self.in_buckets(&sums, &leaves, &all)? };
        let tail = all(joined(&|sums| sums.tail.clone()))?;
        let rows = tail.narrow(0, 1, 1);
        let one = rows.reshape([0usize; 0]);
        let (mut grads, mut measured) = (Grads::default(), GradientSums::default());
        for (p, sum) in leaves.iter().zip(reduced) {
            let Some(sum) = sum else { continue };
            let (cell, own) = (p.cell(), self.sharded.layout.own(p));
            if !self.pieces {
                // Shaped first: what is divided is not kept beside the sum.
                grads.set(&cell, sum.reshape(cell.meta().shape) / &one);
                continue;
            }
            let is_cut = self.sharded.stage() >= ZeroStage::Gradients;
            let sum = if is_cut { sum } else { sum.narrow(0, own.start, own.len()) };
            if !own.is_empty() {
                grads.set(&cell, &sum / &rows);
                measured.of.insert(p.id(), sum);
            }
        }
        measured.rows = self.pieces.then(|| rows.clone());
        *locked(&self.sums) = measured;
        self.set_states(&sums, &tail)?;
        Ok((grads, (tail.narrow(0, 0, 1) / rows).reshape([0usize; 0])))
    }
    /// Where the gradients of parameters lie among those of the used ones.
    pub fn places(&self) -> Vec<Option<usize>> {
        let numbered = self.used.as_deref().unwrap_or_default().iter().scan(0, |next, used| {
            *next += usize::from(*used);
            Some(used.then(|| *next - 1))
        });
        numbered.collect()
    }
    /// Gradients times rows of all parts, whole.
    fn in_buckets(&self, sums: &[PartSums], parameters: &[Param], all: &dyn Fn(Vec<Tensor>) -> Computed<Tensor>) -> Computed<Vec<Option<Tensor>>> {
        let bucket_bytes = self.sharing.bucket_bytes;
        let joined = |bucket: &[usize]| -> Vec<Tensor> {
            let of = |sums: &PartSums| Tensor::cat(&bucket.iter().map(|place| &sums.grads[*place]).collect::<Vec<_>>(), 0);
            sums.iter().map(of).collect()
        };
        // The last parameters first.
        let (mut bucket, mut bytes, mut most, mut reduced) = (Vec::new(), 0, first_bucket(bucket_bytes), vec![None; parameters.len()]);
        let order: Vec<(usize, usize)> = self.places().into_iter().enumerate().filter_map(|(k, place)| Some((k, place?))).rev().collect();
        for (at, &(k, _)) in order.iter().enumerate() {
            bucket.push(order[at]);
            bytes += parameters[k].elements() * size_of::<f32>();
            if bytes < most && at + 1 < order.len() {
                continue;
            }
            if let Some(compressed) = &self.compressed {
                let own = |(k, place): &(usize, usize)| {
                    let of_parts: Vec<Tensor> = sums.iter().map(|sums| sums.grads[*place].clone()).collect();
                    halved(&of_parts).map(|sum| (*k, sum)).ok_or_else(|| Error::new("step", ErrorKind::Internal("a rank without parts".into())))
                };
                let own: Vec<(usize, Tensor)> = bucket.iter().map(own).collect::<Computed<_>>()?;
                bucket.drain(..).zip(compressed.reduce(&own)?).for_each(|((k, _), sum)| reduced[k] = Some(sum));
                (bytes, most) = (0, bucket_bytes);
                continue;
            }
            let sum = all(joined(&bucket.iter().map(|(_, place)| *place).collect::<Vec<_>>()))?;
            let mut from = 0;
            for (k, _) in bucket.drain(..) {
                let n = parameters[k].elements();
                reduced[k] = Some(sum.narrow(0, from, n));
                from += n;
            }
            (bytes, most) = (0, bucket_bytes);
        }
        Ok(reduced)
    }
    /// What forward passes change beside parameters: the mean over all rows.
    fn set_states(&self, sums: &[PartSums], tail: &Tensor) -> Computed<()> {
        let (group, rows) = (&self.sharing.group, tail.narrow(0, 1, 1));
        let (mut from, mut counted) = (2, 0);
        for state in &self.states {
            let (cell, n) = (state.cell(), state.elements());
            let meta = cell.meta();
            if meta.dtype.is_float() {
                cell.set(&(tail.narrow(0, from, n) / &rows).cast(meta.dtype).reshape(meta.shape))?;
                from += n;
            } else {
                // Every part counts alike; one without rows does not count.
                let own: Vec<&Tensor> = sums.iter().map(|sums| &sums.counts[counted]).collect();
                let most = Tensor::stack(&own, 0).amax(0);
                let kind = CollectiveKind::AllReduce { reduce: ReduceOp::Max, parts: 0, used: RankUse::Alike };
                cell.set(&collective(kind, group, &most))?;
                counted += 1;
            }
        }
        Ok(())
    }
}
/// Everybody's bytes, of as many on each rank.
pub(crate) fn gather(group: &dyn Communicator, own: &[u8]) -> std::result::Result<Vec<Vec<u8>>, ErrorKind> {
    if let Some(ended) = group.state().ended() {
        return Err(ended);
    }
    let mut all = vec![vec![0u8; own.len()]; group.size()];
    let made = TensorType { shape: Shape::new(&[own.len()])?, dtype: DType::U8 };
    let call = CollectiveCall::next(group, CollectiveKind::AllGather { used: RankUse::Alike }, made, None);
    let mut blocks: Vec<&mut [u8]> = all.iter_mut().map(Vec::as_mut_slice).collect();
    group.all_gather(&call, own, &mut blocks).inspect_err(|kind| group.state().end(kind))?;
    Ok(all)
}
impl<M: Walk, B: Batch> Session<M, B> {
    /// Shares its steps with other ranks. Each then gets the batches of the parts that it holds ([`Session::assign`]). All ranks call it, with
    /// parameters that are alike.
    ///
    /// # Errors
    /// What ranks cannot share out; no memory.
    pub fn share(&mut self, sharing: StepSharing) -> Result<(), Failure> {
        let mut shared = SharedSteps::new(sharing, states(&self.model), &self.parameters)?;
        let stage = shared.sharded.stage();
        if shared.compressed.is_some() && stage >= ZeroStage::Gradients {
            return Err(Failure::Usage(format!(
                "[distributed]: `compress` is of whole gradients, and `zero = {}` scatters them: take `zero = 1`",
                stage as u8
            )));
        }
        let handling = self.watched.handler.as_ref().map(|handler| handler.options());
        if shared.group().size > 1 && self.watched.looks_at_ops() {
            let told = "`[stability]` that looks at activations sees one rank's alone: it goes with one rank";
            return Err(Failure::Usage(format!("[distributed]: {told}")));
        }
        let scales = self.precision.scaler.is_enabled();
        must_be_shareable(stage, handling, scales)?;
        let clips_whole = self.clipper.as_ref().is_some_and(|clipper| matches!(clipper.options().clipping_type, ClippingType::Percentile | ClippingType::Agc));
        shared.pieces |= stage == ZeroStage::Slots && !clips_whole && must_be_shareable(ZeroStage::Gradients, handling, scales).is_ok();
        let parts = self.meshed.clone().filter(|meshed| !meshed.is_whole());
        let goes_back = handling.filter(|options| options.handling_type == HandlingType::Restore);
        let goes_back = goes_back.map(|_| "a state that is put back (`handling_type` of `[stability]`: \"restore\") is held as a whole");
        let clips = clips_whole.then_some("this `clip` looks at gradients as a whole");
        if let (Some(_), Some(what)) = (&parts, looks_at_all(handling, scales).or(goes_back).or(clips)) {
            return Err(Failure::Usage(format!("[distributed]: {what}, of which ranks of a `mesh` have pieces: another one, or a `mesh` of `data` alone")));
        }
        shared.meshed = parts.clone();
        if stage >= ZeroStage::Slots {
            self.optimizer.share_out(shared.sharded.clone()).map_err(|e| match e.kind() {
                ErrorKind::Argument(told) => Failure::Usage(format!("`distributed.zero`: {told}: `zero = 0`, or another `optimizer`")),
                _ => e.into(),
            })?;
        }
        if stage >= ZeroStage::Slots || parts.is_some() {
            // Each rank looks at the slots of its pieces.
            let group = parts.map_or_else(|| shared.group().clone(), |parts| parts.mesh().world().clone());
            let least = CollectiveKind::AllReduce { reduce: ReduceOp::Min, parts: 0, used: RankUse::Alike };
            let agree = move |good: &Tensor| collective(least, &group, &good.cast(DType::U8).reshape([1])).reshape([0usize; 0]).ne(0u8);
            self.watched.handler.iter_mut().for_each(|handler| handler.agree_by(agree.clone()));
        }
        self.shared = Some(shared);
        Ok(())
    }
    /// All ranks have all parameters from now on, as those who do not share. All ranks call it.
    ///
    /// # Errors
    /// A lost peer, no memory.
    pub fn put_together(&mut self) -> Result<(), Failure> {
        Ok(self.shared.as_ref().map_or(Ok(()), |shared| shared.sharded.put_together())?)
    }
    /// Goes on with its steps with other ranks. What was captured with those before is forgotten.
    pub fn regroup(&mut self, sharing: StepSharing) {
        self.shared.iter_mut().for_each(|shared| shared.regroup(sharing.clone()));
        self.captured.forget();
    }
    /// Which parameters have gradients on any rank, where that is known.
    pub fn used(&self) -> Option<&[bool]> {
        self.shared.as_ref().and_then(|shared| shared.used.as_deref())
    }
    /// Takes over what other ranks have agreed upon, or have not yet.
    pub fn set_used(&mut self, used: Option<Vec<bool>>) {
        self.shared.iter_mut().for_each(|shared| shared.used.clone_from(&used));
    }
    /// Which of the parts held here each batch of the next step is of, and how many batches were taken for the step. Of a session that is not
    /// shared there is one part.
    pub fn assign(&mut self, of_part: Vec<usize>, taken: usize) {
        self.shared.iter().for_each(|shared| shared.assign(of_part.clone(), taken));
    }
    /// From now on it is found out before each step which parameters have gradients on any rank, by a pass more, and not once.
    pub fn changes_graph(&mut self) {
        self.graph_changes = true;
        self.captured.leave("`static_graph` is false: which parameters have gradients is found out before each step");
    }
    /// Before the first step, or before each: which parameters have gradients on any rank.
    pub(super) fn agree_on_used(&mut self, batches: &[B]) -> Result<(), Failure> {
        let device = self.device;
        let Session { model, loss, pass, optimizer, clipper, accumulator, average, parameters, precision, looks, shared, graph_changes, .. } = self;
        let Some(shared) = shared.as_mut().filter(|shared| !shared.has_agreed() || *graph_changes) else { return Ok(()) };
        let (average, clipper) = (average.as_mut(), clipper.as_mut());
        let optimizer = &mut **optimizer;
        let (pass, handler) = (pass.as_ref(), None);
        let mut parts = StepParts { model, loss, pass, optimizer, clipper, accumulator, average, parameters, precision, handler, looks, shared: None, device };
        let used = parts.used_here(shared, batches)?;
        Ok(shared.agree(&used)?)
    }
}
impl<M, B: Batch> StepParts<'_, M, B> {
    /// Which parameters this rank's batches have gradients for: a forward and a backward pass that are taken back.
    pub fn used_here(&mut self, shared: &SharedSteps, batches: &[B]) -> Computed<Vec<bool>> {
        let mut used = vec![false; self.parameters.len()];
        for batch in batches {
            let leaves: Vec<Param> = self.parameters.iter().map(|(_, p)| p.clone()).collect();
            let (send, seen) = std::sync::mpsc::channel();
            taken_back(|| {
                shared.sharded.pass(|| {
                    if let Some(pass) = self.pass {
                        let grads = pass(self.model, batch)?.1;
                        leaves.iter().try_for_each(|p| send.send(grads.of(&p.cell()).is_some())).ok();
                        return Ok(());
                    }
                    // They are looked at before any of them is computed, and none is.
                    mark(move |grads| {
                        leaves.iter().try_for_each(|p| send.send(grads.take(&p.cell()).is_some())).ok();
                        Ok(())
                    });
                    self.precision.forward(&mut None, || (self.loss)(self.model, batch))?.backward().map(drop)
                })
            })?;
            seen.into_iter().zip(&mut used).for_each(|(seen, used)| *used |= seen);
        }
        // What others gather meanwhile is taken back there, too.
        (batches.len()..shared.passes()).try_for_each(|_| taken_back(|| shared.sharded.idle_pass()))?;
        flush()?;
        Ok(used)
    }
    /// Forward and backward of this rank's parts, and the sums over all.
    pub fn learn_shared(&mut self, shared: &SharedSteps, batches: &[B], flags: &mut Option<Tensor>, scaler: &mut GradScaler) -> Computed<(Grads, Tensor)> {
        let of_part = locked(&shared.of_part).clone();
        if of_part.len() != batches.len() {
            return Err(Error::new("step", ErrorKind::Internal(format!("{} batches are given parts, and there are {}", of_part.len(), batches.len()))));
        }
        // A captured step is good for batches of these parts.
        let (now, known) = (shared.of_part.clone(), of_part.clone());
        decide(move || *locked(&now) == known);
        if shared.sharded.stage() == ZeroStage::Parameters {
            let (now, known) = (shared.taken.clone(), *locked(&shared.taken));
            decide(move || *locked(&now) == known);
        }
        let device = self.device;
        let wide = if self.parameters.iter().any(|(_, p)| p.meta().dtype == DType::F64) { DType::F64 } else { DType::F32 };
        let random = generator(device)?;
        let seeds = (shared.sharing.parts > 1).then(|| random.bits([shared.sharing.parts, 2]));
        let behind = random.cell().detached();
        let before: Vec<Tensor> = shared.states.iter().map(|state| state.detached()).collect();
        shared.sharded.begin_step();
        locked(&shared.scattered).clear();
        let mut sums = Vec::new();
        let held = shared.sharing.held();
        for (own, part) in held.clone().enumerate() {
            // One part alone is the step of one rank, and draws as that does.
            if let Some(seed) = seeds.as_ref().map(|seeds| seeds.select(0, part)) {
                random.cell().set(&Tensor::cat(&[&seed, &Tensor::from_vec_on(vec![part as u32, 0], [2], device)], 0))?;
            }
            let of_this: Vec<&B> = batches.iter().zip(&of_part).filter(|(_, part)| **part == own).map(|(batch, _)| batch).collect();
            // The last pass of the step, if no other rank makes more of them.
            let is_last = own + 1 == held.len() && batches.len() == shared.passes();
            sums.push(self.part(shared, &of_this, (flags, scaler), (wide, device), is_last.then_some(&sums))?);
            for (state, before) in shared.states.iter().zip(&before) {
                state.set(before)?;
            }
        }
        if seeds.is_some() {
            random.cell().set(&behind)?;
        }
        shared.idle_passes(batches.len(), (&sums, self.parameters, (wide, device)))?;
        shared.sharded.stop_taking();
        if let Some(seen) = flags.as_mut() {
            let kind = CollectiveKind::AllReduce { reduce: ReduceOp::Max, parts: 0, used: RankUse::Alike };
            *seen = collective(kind, &shared.sharing.group, seen);
        }
        time_block!("all_reduce", shared.reduce(sums, self.parameters, (wide, device)))
    }
    fn part(
        &mut self,
        shared: &SharedSteps,
        batches: &[&B],
        (flags, scaler): (&mut Option<Tensor>, &mut GradScaler),
        (wide, device): (DType, Device),
        before: Option<&Vec<PartSums>>,
    ) -> Computed<PartSums> {
        let used = shared.used.as_deref().unwrap_or_default();
        let (mut sums, mut total, mut loss): (Vec<Option<Tensor>>, usize, Option<Tensor>) = (vec![None; self.parameters.len()], 0, None);
        for (at, batch) in batches.iter().enumerate() {
            let n = batch.rows()?;
            let has_rows = Arc::new(AtomicBool::new(false));
            if let Some(before) = before.filter(|_| at + 1 == batches.len()) {
                let open = OpenPart { sums: sums.clone(), rows: n, has_rows: has_rows.clone() };
                shared.scatter_in_pass(before, Some(open), self.parameters, (wide, device));
            }
            let pass = || -> Computed<(Tensor, Grads, bool)> {
                if let Some(pass) = self.pass {
                    return pass(self.model, batch).map(|(weighted, grads)| (weighted.cast(wide), grads, true));
                }
                let mean = self.precision.forward(flags, || (self.loss)(self.model, batch))?;
                self.precision.measure(&mean)?;
                // Gradients times rows at once, and not each by itself behind; of a loss of 16 bits that would round the rows.
                let times_rows = !scaler.is_enabled() && matches!(mean.dtype()?, DType::F32 | DType::F64);
                has_rows.store(times_rows, Relaxed);
                let scaled = if times_rows { &mean * n as f64 } else { scaler.scale(&mean)? };
                let grads = time_block!("backward", if self.precision.stores_low() { with_wide_gradients(|| scaled.backward()) } else { scaled.backward() })?;
                Ok((mean.detach().cast(wide) * n as f64, grads, times_rows))
            };
            let (weighted_loss, grads, times_rows) = shared.sharded.pass(pass)?;
            for ((name, p), (sum, used)) in self.parameters.iter().zip(sums.iter_mut().zip(used)) {
                let Some(g) = grads.of(&p.cell()) else { continue };
                if !used {
                    return Err(SharedSteps::was_unused(name));
                }
                let flat = g.cast(wide).reshape([-1]);
                let weighted = if times_rows { flat } else { flat * n as f64 };
                *sum = Some(sum.take().map_or_else(|| weighted.clone(), |sum| sum + &weighted));
            }
            loss = Some(loss.map_or_else(|| weighted_loss.clone(), |sum| sum + &weighted_loss));
            total += n;
            flush()?;
        }
        let zeros = |n: usize| Tensor::full_on([n], 0, wide, device);
        let grads = self.parameters.iter().zip(sums).zip(used).filter(|(_, used)| **used);
        let grads = grads.map(|(((_, p), sum), _)| sum.unwrap_or_else(|| zeros(p.elements()))).collect();
        let mut tail = vec![loss.map_or_else(|| zeros(1), |loss| loss.reshape([1])), Tensor::full_on([1], total as f64, wide, device)];
        let mut counts = Vec::new();
        for state in &shared.states {
            let now = state.detached();
            if now.dtype()?.is_float() {
                tail.push(now.cast(wide).reshape([-1]) * total as f64);
            } else {
                counts.push(now);
            }
        }
        Ok(PartSums { grads, tail, counts })
    }
}
/// Runs something that changes nothing, whatever it writes.
fn taken_back(look: impl FnOnce() -> Computed<()>) -> Computed<()> {
    let (mut look, mut failed) = (Some(look), None);
    let pass = || {
        failed = look.take().map_or(Ok(()), |look| look()).err();
        Ok(())
    };
    // That it was taken back is no failure.
    let _taken_back = step_reviewed(pass, |(), _| Err::<(), _>(Error::new("step", ErrorKind::Argument("the forward pass is taken back".into()))));
    failed.map_or(Ok(()), Err)
}
/// The cells that a forward pass may change, of a model.
pub(super) fn states(model: &impl Walk) -> Vec<Param> {
    model.named_buffers().into_iter().map(|(_, p)| p).filter(|p| p.role() == Role::Buffer).collect()
}
