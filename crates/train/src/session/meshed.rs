//! A session whose model ranks share: of which tensors this rank has pieces, and how those of all ranks become the whole again.
//!
//! ```text
//! this rank's tensors -> whole along `tensor` (all-gather) -> those of all stages, on the first (all-to-all) -> a checkpoint, weights
//! a checkpoint -> what this stage has -> pieces
//! gradients -> squares of pieces, added along `tensor` -> of all parameters, added along `pipeline` -> norms
//! ```
//!
//! Names are those of the model that one process would have. So a checkpoint is the same file on any mesh, and a run goes on with any other.
//!
//! Must not know what a step is.
use super::{
    Session, brought,
    pieces::{self, PieceLayout},
    sharded::{NormsOfAll, SharedNorms},
    shared::collective,
};
use crate::{Failure, trainer::Batch};
use adamant_core::{
    DType, Device, Error, ErrorKind, Grads, Result as Computed, Tensor,
    communicator::of,
    op::{CollectiveKind, Group, RankUse, ReduceOp},
};
use adamant_nn::{Param, Visit, Walk};
use adamant_parallel::{Mesh, MeshAxis, tensor::Sharding};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

/// What a model has as a whole, before ranks share it out.
#[derive(Clone, Debug, Default)]
pub struct WholeModel {
    /// paths of the parameters that are trained, each by its first place, in order
    trained: Vec<String>,
    /// of each of them its first element in its unit, and its chunks among those of all: where one process adds up squares
    chunks: Vec<(usize, Range<usize>)>,
    /// of each place of a parameter its first one
    first: HashMap<String, String>,
    /// of each place of a parameter the path that the parameter goes by, under which an optimizer has its slots
    called: HashMap<String, String>,
    /// names of a state dict
    saved: HashSet<String>,
    elements: usize,
}
impl WholeModel {
    /// Of a model that no rank has a piece of yet.
    pub fn of(model: &(impl Walk + ?Sized)) -> WholeModel {
        #[derive(Default)]
        struct FirstPlaces {
            by_id: HashMap<usize, String>,
            first: HashMap<String, String>,
        }
        impl Visit for FirstPlaces {
            fn param(&mut self, path: &str, param: &Param) {
                let first = self.by_id.entry(param.id()).or_insert_with(|| path.to_string());
                self.first.insert(path.to_string(), first.clone());
            }
        }
        let mut places = FirstPlaces::default();
        model.visit(&mut places);
        let trained: Vec<(String, Param)> = model.named_parameters().into_iter().filter(|(_, p)| p.is_trainable()).collect();
        let (layout, mut end) = (PieceLayout::new(&trained, 0, 1), 0);
        let chunks = trained.iter().map(|(_, p)| {
            let from = layout.member(p).map_or(0, |member| member.from);
            let first = end;
            end += pieces::chunks(from, p.elements());
            (from, first..end)
        });
        WholeModel {
            chunks: chunks.collect(),
            trained: trained.into_iter().map(|(path, _)| path).collect(),
            called: self::places(model).into_iter().map(|(place, p)| (place, p.path().to_string())).collect(),
            first: places.first,
            saved: model.state_dict().into_iter().map(|(name, _)| name).collect(),
            elements: model.parameter_count(),
        }
    }
    /// Paths of the parameters that are trained.
    pub fn trained(&self) -> &[String] {
        &self.trained
    }
    /// Numbers of all parameters.
    pub fn elements(&self) -> usize {
        self.elements
    }
    fn called<'p>(&'p self, path: &'p str) -> &'p str {
        self.called.get(path).map_or(path, String::as_str)
    }
    fn first<'p>(&'p self, path: &'p str) -> &'p str {
        self.first.get(path).map_or(path, String::as_str)
    }
}
/// What of a model this rank has.
#[derive(Clone)]
pub struct MeshedModel {
    mesh: Mesh,
    sharding: Sharding,
    whole: WholeModel,
}
/// What all ranks together have, on the one that writes it.
pub(super) struct CollectedModel {
    pub model: Vec<(String, Tensor)>,
    pub slots: Vec<(String, Tensor)>,
    pub average: Vec<(String, Tensor)>,
}
/// A tensor of this rank's, its name in the whole model, and the parameter that it is of or goes with.
type OwnTensor = (String, Tensor, Option<Param>);

impl MeshedModel {
    /// A model that was cut for the ranks of a mesh.
    pub fn new(mesh: Mesh, sharding: Sharding, whole: WholeModel) -> MeshedModel {
        MeshedModel { mesh, sharding, whole }
    }
    /// The ranks.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }
    /// What the model has as a whole.
    pub fn whole(&self) -> &WholeModel {
        &self.whole
    }
    /// Does each rank along `data` have the whole model?
    pub(super) fn is_whole(&self) -> bool {
        self.mesh.size(MeshAxis::Tensor) == 1 && self.mesh.size(MeshAxis::Pipeline) == 1
    }
    /// Along `tensor`, then along `pipeline`: whole tensors by name, on the first stage alone. All ranks call it.
    fn put_together(&self, own: Vec<OwnTensor>, device: Device) -> Computed<Vec<(String, Tensor)>> {
        let mut whole = Vec::with_capacity(own.len());
        for (name, value, param) in own {
            let shape = value.shape()?;
            let value = match param.as_ref().filter(|param| self.sharding.of(param).is_some()) {
                Some(param) if shape == param.meta().shape => self.sharding.gather(param, &value)?,
                // A count, which all ranks have alike.
                Some(_) if shape.rank() > 0 => {
                    let told = format!("`{name}` is {shape}, and its parameter's piece {}: ranks cannot put it together", param_shape(param.as_ref()));
                    return Err(Error::new("collect", ErrorKind::Argument(told)));
                }
                _ => value,
            };
            value.materialize()?;
            whole.push((name, value));
        }
        // Nothing is left in the window: the group's calls follow each other.
        adamant_core::flush()?;
        let stages = self.mesh.group(MeshAxis::Pipeline);
        if stages.size == 1 {
            return Ok(whole);
        }
        let fail = |kind| Error::new("collect", kind);
        let mut all = BTreeMap::new();
        // Of what several stages have, all have the same.
        for (name, value) in brought::of_ranks(of(stages).map_err(fail)?, whole, device)?.into_iter().flatten() {
            all.entry(name).or_insert(value);
        }
        Ok(all.into_iter().collect())
    }
    fn own_state(&self, model: &(impl Walk + ?Sized), state: Vec<(String, Tensor)>) -> Vec<OwnTensor> {
        let places = places(model);
        state.into_iter().map(|(name, value)| (name.clone(), value, places.get(&name).cloned())).collect()
    }
    /// The state dict of the whole model, of one of this rank's; on the first stage alone. All ranks call it.
    ///
    /// # Errors
    /// A lost peer; no memory.
    pub fn whole_state(&self, model: &(impl Walk + ?Sized), state: Vec<(String, Tensor)>, device: Device) -> Computed<Vec<(String, Tensor)>> {
        self.put_together(self.own_state(model, state), device)
    }
    /// Slots, or means of weights, by the paths of their parameters: as a whole. `slot`: is there a slot's name behind the path?
    fn whole_by_path(&self, parameters: &[Param], state: Vec<(String, Tensor)>, slot: bool, device: Device) -> Computed<Vec<(String, Tensor)>> {
        let by_path: HashMap<String, &Param> = parameters.iter().map(|p| (p.path().to_string(), p)).collect();
        let own = state.into_iter().map(|(name, value)| {
            let (path, behind) = if slot { name.rsplit_once('.').map_or((name.as_str(), ""), |(path, slot)| (path, slot)) } else { (name.as_str(), "") };
            let Some(param) = by_path.get(path) else { return (name, value, None) };
            let called = self.whole.called(path);
            let named = if slot { format!("{called}.{behind}") } else { called.to_string() };
            (named, value, Some((*param).clone()))
        });
        self.put_together(own.collect(), device)
    }
    /// Takes over the state of a whole model.
    ///
    /// # Errors
    /// Missing or unknown names, another shape; then nothing has changed.
    pub fn load_state(&self, model: &(impl Walk + ?Sized), state: &[(String, Tensor)]) -> Computed<()> {
        self.sharding.load_state_dict(model, &self.of_here(model, state))
    }
    /// What a model of this rank's needs of a whole state; what no stage has stays, so that it is refused.
    fn of_here(&self, model: &(impl Walk + ?Sized), state: &[(String, Tensor)]) -> Vec<(String, Tensor)> {
        let here: HashSet<String> = model.state_dict().into_iter().map(|(name, _)| name).collect();
        state.iter().filter(|(name, _)| here.contains(name) || !self.whole.saved.contains(name)).cloned().collect()
    }
    /// This rank's pieces of a whole state, under its names.
    ///
    /// # Errors
    /// Another shape; no memory.
    pub fn own_part(&self, model: &(impl Walk + ?Sized), state: &[(String, Tensor)]) -> Computed<Vec<(String, Tensor)>> {
        let places = places(model);
        let piece = |(name, value): (String, Tensor)| match places.get(&name) {
            Some(param) => self.sharding.piece(param, &value).map(|piece| (name, piece)),
            None => Ok((name, value)),
        };
        self.of_here(model, state).into_iter().map(piece).collect()
    }
    /// The inverse of [`MeshedModel::whole_by_path`].
    fn own_by_path(&self, parameters: &[Param], state: &[(String, Tensor)], slot: bool) -> Computed<Vec<(String, Tensor)>> {
        let mut by_path: HashMap<String, Vec<&Param>> = HashMap::new();
        parameters.iter().for_each(|p| by_path.entry(self.whole.called(&p.path()).to_string()).or_default().push(p));
        let known: HashSet<&str> = self.whole.called.values().map(String::as_str).collect();
        let mut own = Vec::new();
        for (name, value) in state {
            let (path, behind) = if slot { name.rsplit_once('.').map_or((name.as_str(), ""), |(path, slot)| (path, slot)) } else { (name.as_str(), "") };
            let Some(here) = by_path.get(path) else {
                // Another stage's; or nobody's, which the optimizer says.
                if !known.contains(path) {
                    own.push((name.clone(), value.clone()));
                }
                continue;
            };
            for param in here {
                let is_cut = value.shape()?.rank() > 0 && self.sharding.of(param).is_some();
                let value = if is_cut { self.sharding.piece(param, value)? } else { value.clone() };
                let path = param.path();
                own.push((if slot { format!("{path}.{behind}") } else { path.to_string() }, value));
            }
        }
        Ok(own)
    }
    /// How long gradients are, of the whole model. All ranks call it. Of what is not cut squares are added up as in one process.
    pub(super) fn norms(&self, grads: &Grads, parameters: &[(String, Param)], used: &[bool]) -> Computed<SharedNorms> {
        let first = parameters.first().map(|(_, p)| p.meta());
        let device = first.map_or_else(Device::reference, |meta| meta.device);
        let dtype = if parameters.iter().any(|(_, p)| p.meta().dtype == DType::F64) { DType::F64 } else { DType::F32 };
        let wide = if dtype == DType::F64 { DType::F64 } else { device.widest_float() };
        let places: HashMap<&str, usize> = self.whole.trained.iter().enumerate().map(|(k, path)| (path.as_str(), k)).collect();
        let n = self.whole.trained.len();
        let (mut cut, mut own, mut has, mut of_parameter) = (vec![None; n], vec![None; n], vec![0.0; n], HashMap::new());
        for ((path, p), _) in parameters.iter().zip(used).filter(|(_, used)| **used) {
            let Some(&k) = places.get(self.whole.first(path)) else { continue };
            let Some((from, chunks)) = self.whole.chunks.get(k) else { continue };
            of_parameter.insert(p.id(), chunks.clone());
            // Of what several stages have, the first one tells.
            if self.whole.first(path) != path {
                continue;
            }
            let Some(g) = grads.of(&p.cell()) else { continue };
            has[k] = 1.0;
            if self.sharding.of(p).is_some() {
                // Pieces end elsewhere than chunks: their squares count in the first one.
                let squares = pieces::squares(&g.reshape([-1]), 0, None)?.sum(..).reshape([1]);
                let rest = Tensor::full_on([chunks.len().saturating_sub(1)], 0, wide, device);
                cut[k] = Some(Tensor::cat(&[&squares, &rest], 0));
            } else {
                own[k] = Some(pieces::squares(&g.reshape([-1]), *from, None)?);
            }
        }
        let zeros = |k: usize| Tensor::full_on([self.whole.chunks.get(k).map_or(0, |(_, chunks)| chunks.len())], 0, wide, device);
        let row = |of: Vec<Option<Tensor>>| Tensor::cat(&of.into_iter().enumerate().map(|(k, x)| x.unwrap_or_else(|| zeros(k))).collect::<Vec<_>>(), 0);
        let squares = added(&row(cut), self.mesh.group(MeshAxis::Tensor)) + row(own);
        let has = Tensor::from_vec_on(has, [n], device).cast(wide);
        let chunks = squares.try_meta()?.shape.elements();
        let both = added(&Tensor::cat(&[squares, has], 0), self.mesh.group(MeshAxis::Pipeline));
        let all = NormsOfAll { chunks: self.whole.chunks.iter().map(|(_, chunks)| chunks.clone()).collect(), has: both.narrow(0, chunks, n) };
        SharedNorms::of_mesh(both.narrow(0, 0, chunks), all, of_parameter, dtype)
    }
}
fn param_shape(param: Option<&Param>) -> String {
    param.map_or_else(String::new, |param| param.meta().shape.to_string())
}
fn places(model: &(impl Walk + ?Sized)) -> HashMap<String, Param> {
    #[derive(Default)]
    struct EachPlace(HashMap<String, Param>);
    impl Visit for EachPlace {
        fn param(&mut self, path: &str, param: &Param) {
            self.0.insert(path.to_string(), param.clone());
        }
    }
    let mut all = EachPlace::default();
    model.visit(&mut all);
    all.0
}
/// The sum over ranks, in their order.
fn added(x: &Tensor, group: &Group) -> Tensor {
    let kind = CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used: RankUse::Alike };
    if group.size == 1 { x.clone() } else { collective(kind, group, x) }
}
/// The loss of a batch times its rows, and the gradients of that: of a stage of a pipeline.
pub type PassOf<M, B> = Arc<dyn Fn(&M, &B) -> Computed<(Tensor, Grads)> + Send + Sync>;

impl<M: Walk, B: Batch> Session<M, B> {
    /// Has only a part of a model, whose other parts other ranks have; the optimizer is over this part. With a pass steps go through all stages.
    /// Before [`Session::share`].
    ///
    /// # Errors
    /// An optimizer that looks at a parameter as a whole, where there are pieces.
    pub fn have_part(&mut self, meshed: Arc<MeshedModel>, pass: Option<PassOf<M, B>>) -> Result<(), Failure> {
        let name = self.optimizer.name();
        if meshed.mesh.size(MeshAxis::Tensor) > 1 && !self.optimizer.is_elementwise() {
            let told = format!("{name} looks at each parameter as a whole, of which ranks along `tensor` have pieces");
            return Err(Failure::Usage(format!("`optimizer.kind`: {told}: one that goes element by element (SGD, AdamW), or a `mesh` without `tensor`")));
        }
        if meshed.mesh.size(MeshAxis::Pipeline) > 1 && name == "LBFGS" {
            let told = format!("{name} looks at all parameters together, which lie on several stages");
            return Err(Failure::Usage(format!("`optimizer.kind`: {told}: another optimizer, or a `mesh` without `pipeline`")));
        }
        if pass.is_some() {
            self.captured.leave("a stage of a pipeline waits for the others");
        }
        (self.meshed, self.pass) = (Some(meshed), pass);
        Ok(())
    }
    /// What of the model this rank has, if others have the rest.
    pub fn meshed(&self) -> Option<&Arc<MeshedModel>> {
        self.meshed.as_ref()
    }
    /// The state of the whole model, where this rank has a part of it: on rank 0; none where every rank has all. All ranks call it.
    ///
    /// # Errors
    /// A lost peer; no memory.
    pub fn whole_weights(&self, state: Vec<(String, Tensor)>) -> Result<Option<Vec<(String, Tensor)>>, Failure> {
        Ok(self.meshed.as_ref().map(|meshed| meshed.whole_state(&self.model, state, self.device)).transpose()?)
    }
    /// This rank's part of a state of the whole model.
    ///
    /// # Errors
    /// Another model's.
    pub fn own_weights(&self, state: &[(String, Tensor)]) -> Result<Vec<(String, Tensor)>, Failure> {
        Ok(self.meshed.as_ref().map_or_else(|| Ok(state.to_vec()), |meshed| meshed.own_part(&self.model, state))?)
    }
    /// As [`Session::collect`], of a model that ranks share.
    pub(super) fn collect_parts(&mut self, meshed: &MeshedModel) -> Result<(), Failure> {
        let device = self.device;
        let model = meshed.whole_state(&self.model, self.model.state_dict(), device)?;
        let slots = meshed.whole_by_path(&self.optimizer.parameters(), self.optimizer.state_dict(), true, device)?;
        let parameters: Vec<Param> = self.parameters.iter().map(|(_, p)| p.clone()).collect();
        let average = self.average.as_ref().map_or(Ok(Vec::new()), |a| meshed.whole_by_path(&parameters, a.state_dict(), false, device))?;
        if meshed.mesh.world().rank == 0 {
            self.collected = Some(CollectedModel { model, slots, average });
        }
        Ok(())
    }
    /// Slots of this rank's parameters, of a whole model's.
    pub(super) fn own_slots(&self, state: &[(String, Tensor)]) -> Computed<Vec<(String, Tensor)>> {
        self.meshed.as_ref().map_or_else(|| Ok(state.to_vec()), |meshed| meshed.own_by_path(&self.optimizer.parameters(), state, true))
    }
    /// Means of this rank's weights, of a whole model's.
    pub(super) fn own_means(&self, state: &[(String, Tensor)]) -> Computed<Vec<(String, Tensor)>> {
        let parameters: Vec<Param> = self.parameters.iter().map(|(_, p)| p.clone()).collect();
        self.meshed.as_ref().map_or_else(|| Ok(state.to_vec()), |meshed| meshed.own_by_path(&parameters, state, false))
    }
}
