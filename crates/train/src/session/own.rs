//! What a rank has of the state, where ranks share it out: what it writes into a checkpoint, what it needs of one, and how it takes that over.
//!
//! ```text
//! group          with zero = 1, 2                          with zero = 3
//! model          whole on all; a rank writes its piece     pieces
//! optimizer      pieces                                    pieces
//! ema, best      whole on all; a rank writes its piece     the same
//! all else       alike on all; rank 0 writes it            the same
//! ```
//!
//! Nothing is gathered. A rank's pieces are those of [`super::pieces`], by their elements in the parameter: who reads them may have others.
use super::{
    Session,
    pieces::PieceLayout,
    sharded::{ShardedParameters, ZeroStage},
};
use crate::{
    Failure,
    checkpoint::{NeededElements, PieceTensor, RankShare, Snapshot, TensorEntry, TensorPiece},
    trainer::{Batch, HELD},
};
use adamant_core::{Error, ErrorKind, Result as Computed, Tensor};
use adamant_nn::{LoadOptions, Param, Role, Visit, Walk};
use adamant_optim::ParameterPieces;
use std::collections::{BTreeMap, HashMap};

/// What a model saves, by name; one parameter may have several.
#[derive(Default)]
struct SavedParameters(Vec<(String, Param)>);
impl Visit for SavedParameters {
    fn param(&mut self, path: &str, p: &Param) {
        if p.role() != Role::Transient {
            self.0.push((path.to_string(), p.clone()));
        }
    }
}
fn saved_parameters(model: &impl Walk) -> Vec<(String, Param)> {
    let mut saved = SavedParameters::default();
    model.visit(&mut saved);
    saved.0
}
/// Which tensors of a checkpoint are of which parameter.
struct TensorOwners {
    by_name: HashMap<String, Param>,
    by_path: HashMap<String, Param>,
}
impl TensorOwners {
    fn new(model: &impl Walk, layout: &PieceLayout) -> TensorOwners {
        let by_name = saved_parameters(model).into_iter().filter(|(_, p)| layout.member(p).is_some()).collect();
        let members = layout.units.iter().flat_map(|unit| &unit.members);
        TensorOwners { by_name, by_path: members.map(|m| (m.param.path().to_string(), m.param.clone())).collect() }
    }
    /// The parameter that a tensor is of, or is a slot of; none of what all ranks have alike.
    fn of(&self, group: &str, name: &str) -> Option<&Param> {
        match group.strip_prefix(HELD).unwrap_or(group) {
            "model" | "best" => self.by_name.get(name),
            "ema" => self.by_path.get(name),
            "optimizer" => name.rsplit_once('.').and_then(|(path, _)| self.by_path.get(path)),
            _ => None,
        }
    }
}
fn is_slots(group: &str) -> bool {
    group.strip_prefix(HELD).unwrap_or(group) == "optimizer"
}
/// What a rank writes of a tensor, as it has it: all of it, its piece, or what is no piece of anything; none if another rank writes it.
fn written(layout: &PieceLayout, owner: Option<&Param>, (group, name, value): (&str, &str, &Tensor)) -> Computed<Option<PieceTensor>> {
    let whole = |writes: bool| Ok(writes.then(|| PieceTensor { name: name.into(), value: value.clone(), piece: None }));
    let Some(p) = owner.filter(|p| p.elements() > 0) else { return whole(layout.rank == 0) };
    let (shape, own, has) = (p.meta().shape, layout.own(p), value.shape()?);
    let is_count = has.rank() == 0 && (is_slots(group) || shape.rank() > 0);
    if is_count {
        // A number that all that have it have alike: whoever has the first element writes it.
        return whole(own.start == 0 && !own.is_empty());
    }
    if own.is_empty() {
        return Ok(None);
    }
    let piece = match () {
        () if has == shape => value.reshape([-1]).narrow(0, own.start, own.len()),
        () if has.rank() == 1 && has.elements() == own.len() => value.clone(),
        () => {
            let told = format!("`{name}` of `{group}` is {has}, and neither `{}` ({shape}) nor the {} elements that this rank has of it", p.path(), own.len());
            return Err(Error::new("checkpoint", ErrorKind::Argument(told)));
        }
    };
    Ok(Some(PieceTensor { name: name.into(), value: piece.ok()?, piece: Some(TensorPiece { shape, elements: own }) }))
}
impl ShardedParameters {
    /// The state dict of a model, with this rank's pieces of what is shared out.
    fn own_state(&self, model: &impl Walk) -> Computed<Vec<(String, Tensor)>> {
        let mut own = Vec::new();
        for (name, p) in saved_parameters(model) {
            match self.layout.member(&p) {
                None => own.push((name, p.detached())),
                Some(_) if self.layout.own(&p).is_empty() && p.elements() > 0 => {}
                Some(_) => own.push((name, ParameterPieces::read(self, &p)?)),
            }
        }
        Ok(own)
    }
    /// Takes over a state dict in which this rank's pieces are in the place of whole parameters.
    fn load_own(&self, model: &impl Walk, state: &[(String, Tensor)]) -> Computed<()> {
        let saved: HashMap<String, Param> = saved_parameters(model).into_iter().collect();
        let given: BTreeMap<&str, &Tensor> = state.iter().map(|(name, t)| (name.as_str(), t)).collect();
        let wrong = |text: String| Error::new("load_state_dict", ErrorKind::Argument(text));
        for (name, p) in &saved {
            let is_needed = self.layout.member(p).is_none() || !self.layout.own(p).is_empty();
            if is_needed && !given.contains_key(name.as_str()) {
                return Err(wrong(format!("missing: `{name}`")));
            }
        }
        let mut others = Vec::new();
        for (name, value) in state {
            let p = saved.get(name).ok_or_else(|| wrong(format!("unknown: `{name}`")))?;
            let own = self.layout.own(p);
            if self.layout.member(p).is_none() || value.shape()? == p.meta().shape {
                others.push((name.clone(), value.clone()));
            } else if value.shape()?.to_vec() == [own.len()] {
                let meta = p.meta();
                self.set_own(p, &value.to(meta.device).cast(meta.dtype))?;
            } else {
                return Err(wrong(format!("`{name}` has shape {} in the model and {} in the state dict", p.meta().shape, value.shape()?)));
            }
        }
        self.forget();
        model.load_state_dict_with(&others, LoadOptions { strict: false, ..Default::default() })?;
        Ok(())
    }
}
impl<M: Walk, B: Batch> Session<M, B> {
    /// Has each rank but a part of the state?
    pub fn shares_out(&self) -> bool {
        self.sharded().is_some()
    }
    fn sharded(&self) -> Option<&ShardedParameters> {
        self.shared.as_ref().map(|shared| &*shared.sharded).filter(|sharded| sharded.stage() > ZeroStage::Off)
    }
    /// What this rank writes of a state ([`Session::snapshot`]).
    ///
    /// # Errors
    /// A tensor that is neither a piece nor whole.
    pub(crate) fn share_of(&self, snapshot: &Snapshot) -> Result<RankShare, Failure> {
        let Some(sharded) = self.sharded() else { return Ok(RankShare::new()) };
        let owners = TensorOwners::new(&self.model, &sharded.layout);
        let mut share = RankShare::new();
        for (group, tensors) in &snapshot.tensors {
            let mut pieces = Vec::new();
            for (name, value) in tensors {
                pieces.extend(written(&sharded.layout, owners.of(group, name), (group, name, value))?);
            }
            share.insert(group.clone(), pieces);
        }
        Ok(share)
    }
    /// What this rank needs of a checkpoint, whoever wrote it.
    pub(crate) fn needs(&self) -> Box<dyn Fn(&TensorEntry) -> NeededElements + '_> {
        let Some(sharded) = self.sharded() else { return Box::new(|_| NeededElements::Whole) };
        let owners = TensorOwners::new(&self.model, &sharded.layout);
        let cuts_model = sharded.stage() == ZeroStage::Parameters;
        Box::new(move |entry| {
            let is_model = entry.group.strip_prefix(HELD).unwrap_or(&entry.group) == "model";
            let Some(p) = owners.of(&entry.group, &entry.name).filter(|_| is_slots(&entry.group) || is_model && cuts_model) else {
                return NeededElements::Whole;
            };
            let own = sharded.layout.own(p);
            match () {
                () if p.elements() == 0 => NeededElements::Whole,
                () if own.is_empty() => NeededElements::Nothing,
                () if entry.shape == p.meta().shape => NeededElements::Range(own),
                // A count; or what does not fit, as will be told.
                () => NeededElements::Whole,
            }
        })
    }
    /// The parameters and buffers, of what is shared out this rank's pieces.
    pub(super) fn own_model(&self) -> Computed<Vec<(String, Tensor)>> {
        match self.sharded().filter(|sharded| sharded.stage() == ZeroStage::Parameters) {
            Some(sharded) => sharded.own_state(&self.model),
            None => Ok(self.model.state_dict()),
        }
    }
    /// Takes over parameters and buffers, whole or this rank's pieces.
    pub(super) fn load_model(&self, state: &[(String, Tensor)]) -> Computed<()> {
        match self.sharded().filter(|sharded| sharded.stage() == ZeroStage::Parameters) {
            Some(sharded) => sharded.load_own(&self.model, state),
            None => self.model.load_state_dict(state),
        }
    }
}
#[cfg(test)]
mod tests;
