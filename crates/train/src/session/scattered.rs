//! Gradients of which each rank gets its pieces alone: unit by unit, the last ones first, as the walk back makes them.
//!
//! ```text
//! sums of the parts that this rank holds -> the tree's nodes -> a unit -> reduce-scatter over parts -> this rank's block -> its pieces
//! ```
//!
//! Of shared parameters a unit goes as soon as the last pass of a step has come by it ([`ShardedParameters::take_by`]), and its whole
//! gradients are gone while the walk goes on; what no pass comes by goes at the end.
use super::{
    StepSharing,
    pieces::PieceUnit,
    sharded::{ShardedParameters, UnitGradients, ZeroStage},
    shared::{PartSums, SharedSteps, collective, of_nodes},
};
use adamant_core::{
    DType, Device, Error, ErrorKind, Grads, Result as Computed, Tensor,
    op::{CollectiveKind, ReduceOp},
};
use adamant_nn::Param;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// Blocks of this rank, by unit, of the present step.
pub(super) type ScatteredUnits = Arc<Mutex<BTreeMap<usize, Tensor>>>;
/// Nothing that is half done can be in it.
fn locked(units: &ScatteredUnits) -> MutexGuard<'_, BTreeMap<usize, Tensor>> {
    units.lock().unwrap_or_else(PoisonError::into_inner)
}
/// The part whose last batch is at work.
pub(super) struct OpenPart {
    /// what batches before gave, by parameter
    pub sums: Vec<Option<Tensor>>,
    /// rows of this batch
    pub rows: usize,
    /// Are gradients times rows already? Known before the walk back.
    pub has_rows: Arc<AtomicBool>,
}
/// Gradients times rows of this rank's parts, until they are scattered.
struct UnitSums {
    sharing: StepSharing,
    /// by parameter, its place among the used ones
    places: Vec<Option<usize>>,
    /// by the parameter's id: its place among all, and its name
    parameters: HashMap<usize, (usize, String)>,
    /// of each part that is done, by the places of the used parameters
    parts: Vec<Vec<Tensor>>,
    open: Option<OpenPart>,
    /// what sums are made of
    like: (DType, Device),
}
impl UnitSums {
    fn zeros(&self, n: usize) -> Tensor {
        Tensor::full_on([n], 0, self.like.0, self.like.1)
    }
    /// What the part at work has of a parameter.
    fn of_open(&mut self, p: &Param, at: usize, grads: &mut Grads) -> Option<Tensor> {
        let open = self.open.as_mut()?;
        let before = open.sums.get_mut(at).and_then(Option::take);
        let now = grads.take(&p.cell()).map(|g| {
            let flat = g.cast(self.like.0).reshape([-1]);
            if open.has_rows.load(Relaxed) { flat } else { flat * open.rows as f64 }
        });
        Some(match (before, now) {
            (Some(sum), Some(now)) => sum + &now,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => self.zeros(p.elements()),
        })
    }
    /// This rank's block of a unit; none of one that no rank has gradients of.
    fn scatter(&mut self, unit: &PieceUnit, grads: &mut Grads) -> Computed<Option<Tensor>> {
        let places = self.places.clone();
        let at = |sums: &UnitSums, p: &Param| sums.parameters.get(&p.id()).map(|(at, _)| *at);
        let members: Vec<(Param, usize, Option<usize>)> =
            unit.members.iter().filter_map(|m| at(self, &m.param).map(|at| (m.param.clone(), at, places.get(at).copied().flatten()))).collect();
        for (p, ..) in members.iter().filter(|(.., place)| place.is_none()) {
            if grads.take(&p.cell()).is_some() {
                return Err(SharedSteps::was_unused(self.parameters.get(&p.id()).map_or("", |(_, name)| name)));
            }
        }
        if members.iter().all(|(.., place)| place.is_none()) {
            return Ok(None);
        }
        let mut of_parts = Vec::new();
        for part in &self.parts {
            let flat = members.iter().map(|(p, _, place)| place.and_then(|place| part.get(place).cloned()).unwrap_or_else(|| self.zeros(p.elements())));
            of_parts.push(unit.blocks(flat.collect())?);
        }
        if self.open.is_some() {
            let flat = members.iter().map(|(p, at, place)| place.and_then(|_| self.of_open(p, *at, grads)).unwrap_or_else(|| self.zeros(p.elements())));
            let flat: Vec<Tensor> = flat.collect();
            of_parts.push(unit.blocks(flat)?);
        }
        let sharing = &self.sharing;
        let kind = CollectiveKind::ReduceScatter { reduce: ReduceOp::Sum, parts: sharing.parts as u32 };
        Ok(Some(collective(kind, &sharing.group, &of_nodes(sharing, &of_parts)?)))
    }
}
impl SharedSteps {
    /// A parameter has a gradient, and none was known of.
    pub fn was_unused(name: &str) -> Error {
        let told = format!("`{name}` has a gradient now, and had none on any rank when the run began");
        Error::new("step", ErrorKind::Argument(told)).hint("let the first batches of a run reach every parameter")
    }
    fn unit_sums(&self, parts: &[PartSums], open: Option<OpenPart>, parameters: &[(String, Param)], like: (DType, Device)) -> UnitSums {
        let named = parameters.iter().enumerate().map(|(at, (name, p))| (p.id(), (at, name.clone()))).collect();
        UnitSums {
            sharing: self.sharing().clone(),
            places: self.places(),
            parameters: named,
            parts: parts.iter().map(|sums| sums.grads.clone()).collect(),
            open,
            like,
        }
    }
    /// Of shared parameters: has gradients scattered as the last pass of the step makes them.
    pub fn scatter_in_pass(&self, parts: &[PartSums], open: Option<OpenPart>, parameters: &[(String, Param)], like: (DType, Device)) {
        if self.sharded.stage() != ZeroStage::Parameters {
            return;
        }
        let (mut sums, scattered) = (self.unit_sums(parts, open, parameters, like), self.scattered.clone());
        let taken_by: UnitGradients = Box::new(move |unit, u, grads| {
            if let Some(block) = sums.scatter(unit, grads)? {
                locked(&scattered).insert(u, block);
            }
            Ok(())
        });
        self.sharded.take_by(taken_by);
    }
    /// Gradients times rows of all parts, of this rank's pieces, by parameter.
    pub(super) fn scattered(&self, sums: &[PartSums], parameters: &[(String, Param)], like: (DType, Device)) -> Computed<Vec<Option<Tensor>>> {
        let sharded: &ShardedParameters = &self.sharded;
        let (mut done, mut left) = (std::mem::take(&mut *locked(&self.scattered)), self.unit_sums(sums, None, parameters, like));
        for (u, unit) in sharded.layout.units.iter().enumerate().rev() {
            if let std::collections::btree_map::Entry::Vacant(place) = done.entry(u)
                && let Some(block) = left.scatter(unit, &mut Grads::default())?
            {
                place.insert(block);
            }
        }
        let (places, rank) = (self.places(), self.sharing().group.rank as usize);
        let piece = |(at, (_, p)): (usize, &(String, Param))| {
            let (u, k) = sharded.layout.place(p)?;
            let unit = &sharded.layout.units[u];
            places.get(at).copied().flatten()?;
            let block = done.get(&u).filter(|_| !unit.members[k].pieces[rank].is_empty())?;
            Some(unit.piece(k, rank, block))
        };
        Ok(parameters.iter().enumerate().map(piece).collect())
    }
}
