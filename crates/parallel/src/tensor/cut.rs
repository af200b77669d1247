//! Which piece of a parameter a rank holds, and how pieces become the whole again: for state dicts, gradients, optimizers' slots.
use crate::collective::all_gather;
use adamant_core::{
    Error, ErrorKind, Grads, Result, Shape, Tensor,
    grad::no_grad,
    op::{Group, RankUse, rank_parts},
};
use adamant_nn::{Param, Walk};
use std::collections::HashMap;

/// How a parameter is cut: one axis, in `sections` equal stretches (queries, keys and values lie in one weight), of each of which a rank has its
/// block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CutLine {
    pub axis: usize,
    pub sections: usize,
}
impl CutLine {
    pub const ROWS: CutLine = CutLine { axis: 0, sections: 1 };
    pub const COLUMNS: CutLine = CutLine { axis: 1, sections: 1 };
    /// A rank's piece of a whole.
    #[track_caller]
    pub fn piece(self, whole: &Tensor, rank: usize, size: usize) -> Result<Tensor> {
        let n = whole.shape()?.get(self.axis).copied().unwrap_or(0) / self.sections;
        let own = rank_parts(n, rank, size);
        let stretches: Vec<Tensor> = (0..self.sections).map(|k| whole.narrow(self.axis, k * n + own.start, own.len())).collect();
        if let [one] = stretches.as_slice() { one.clone().ok() } else { Tensor::cat(&stretches, self.axis).ok() }
    }
    /// The whole of the pieces of all ranks. Pieces may differ by one row, so they travel with one of zeros.
    #[track_caller]
    fn whole(self, piece: &Tensor, full: usize, group: &Group) -> Result<Tensor> {
        let size = group.size as usize;
        if size == 1 {
            return piece.clone().ok();
        }
        let n = full / self.sections;
        let longest = n.div_ceil(size);
        let own = rank_parts(n, group.rank as usize, size).len();
        let mut stretches = Vec::new();
        for k in 0..self.sections {
            let part = piece.narrow(self.axis, k * own, own).movedim(self.axis, 0);
            let mut padding = part.shape()?.to_vec();
            padding[0] = longest - own;
            let part = if longest == own { part } else { Tensor::cat(&[part.clone(), Tensor::zeros_on(padding, part.dtype()?, part.device()?)], 0) };
            let all = all_gather(&part, 0, group, RankUse::Alike);
            let blocks = (0..size).map(|rank| all.narrow(0, rank * longest, rank_parts(n, rank, size).len()));
            stretches.push(Tensor::cat(&blocks.collect::<Vec<_>>(), 0).movedim(0, self.axis));
        }
        Tensor::cat(&stretches, self.axis).ok()
    }
}

/// A parameter of which this rank holds a piece.
#[derive(Clone, Debug)]
pub struct CutParam {
    /// its first path in the model
    pub path: String,
    /// what holds the piece
    pub param: Param,
    /// the whole shape
    pub whole: Shape,
    /// the axis that is cut
    pub axis: usize,
    pub(crate) sections: usize,
}
impl CutParam {
    pub(crate) fn line(&self) -> CutLine {
        CutLine { axis: self.axis, sections: self.sections }
    }
}

/// What [`parallelize`](super::parallelize) has cut. Parameters that are not listed are whole on every rank, and alike.
#[derive(Clone, Debug)]
pub struct Sharding {
    pub(crate) group: Group,
    pub(crate) cut: Vec<CutParam>,
}
impl Sharding {
    /// The parameters that are cut.
    pub fn cut(&self) -> &[CutParam] {
        &self.cut
    }
    /// How a parameter is cut, if it is.
    pub fn of(&self, param: &Param) -> Option<&CutParam> {
        self.cut.iter().find(|cut| cut.param.same(param))
    }
    /// The whole of what has the shape of a parameter: its value, its gradient, a slot of an optimizer. All ranks of the group call it with
    /// their pieces. What belongs to a parameter that is not cut is given back.
    ///
    /// # Errors
    /// Those of the group; another shape than the piece's.
    #[track_caller]
    pub fn gather(&self, param: &Param, piece: &Tensor) -> Result<Tensor> {
        let Some(cut) = self.of(param) else { return piece.clone().ok() };
        let (got, want) = (piece.shape()?, param.meta().shape);
        if got != want {
            return Err(Error::new(
                "gather",
                ErrorKind::ShapeMismatch { left: got, right: want, axes: None, expected: "a tensor of the shape of this rank's piece" },
            ));
        }
        no_grad(|| cut.line().whole(&piece.detach(), cut.whole[cut.axis], &self.group))
    }
    /// This rank's piece of what has the whole shape of a parameter: the inverse of [`Sharding::gather`], and nothing is exchanged. What belongs to a
    /// parameter that is not cut is given back.
    ///
    /// # Errors
    /// Another shape than the whole one.
    #[track_caller]
    pub fn piece(&self, param: &Param, whole: &Tensor) -> Result<Tensor> {
        let Some(cut) = self.of(param) else { return whole.clone().ok() };
        let shape = whole.shape()?;
        if shape != cut.whole {
            let expected = "a tensor of the whole shape";
            return Err(Error::new("piece", ErrorKind::ShapeMismatch { left: shape, right: cut.whole, axes: None, expected }));
        }
        let piece = no_grad(|| cut.line().piece(&whole.detach(), self.group.rank as usize, self.group.size as usize))?.contiguous();
        piece.materialize()?;
        piece.ok()
    }
    /// Names and whole values of all parameters and saved buffers: the state dict of the model that one process would have. All ranks of the
    /// group call it.
    ///
    /// # Errors
    /// Those of the group.
    #[track_caller]
    pub fn state_dict(&self, model: &(impl Walk + ?Sized)) -> Result<Vec<(String, Tensor)>> {
        let held = self.held(model);
        let whole = |(name, value): (String, Tensor)| {
            let value = match held.get(&name) {
                Some(param) => self.gather(param, &value)?,
                None => value,
            };
            Ok((name, value))
        };
        model.state_dict().into_iter().map(whole).collect()
    }
    /// Takes over whole values, as [`Walk::load_state_dict`]: each rank keeps its pieces.
    ///
    /// # Errors
    /// Missing or unknown names, another shape; then nothing has changed.
    #[track_caller]
    pub fn load_state_dict(&self, model: &(impl Walk + ?Sized), state: &[(String, Tensor)]) -> Result<()> {
        let held = self.held(model);
        let (rank, size) = (self.group.rank as usize, self.group.size as usize);
        let piece = |(name, value): &(String, Tensor)| {
            let Some(cut) = held.get(name).and_then(|param| self.of(param)) else { return Ok((name.clone(), value.clone())) };
            let shape = value.shape()?;
            if shape != cut.whole {
                let expected = "a state dict has whole tensors of the model's shapes";
                return Err(Error::new("load_state_dict", ErrorKind::ShapeMismatch { left: cut.whole, right: shape, axes: None, expected })
                    .hint(format!("it is `{name}`")));
            }
            Ok((name.clone(), cut.line().piece(value, rank, size)?))
        };
        model.load_state_dict(&state.iter().map(piece).collect::<Result<Vec<_>>>()?)
    }
    /// The whole gradient of each parameter of a model that has one, by its path. All ranks of the group call it.
    ///
    /// # Errors
    /// Those of the group.
    #[track_caller]
    pub fn gradients(&self, model: &(impl Walk + ?Sized), grads: &Grads) -> Result<Vec<(String, Tensor)>> {
        let named = model.named_parameters().into_iter();
        named
            .filter_map(|(path, param)| Some((grads.of(&param.cell())?.clone(), path, param)))
            .map(|(g, path, param)| Ok((path, self.gather(&param, &g)?)))
            .collect()
    }
    /// Cut parameters by every path that they have.
    fn held(&self, model: &(impl Walk + ?Sized)) -> HashMap<String, Param> {
        all_places(model).into_iter().filter(|(_, param)| self.of(param).is_some()).collect()
    }
}
/// Every place of every parameter and buffer, of one that is tied all.
pub(crate) fn all_places(model: &(impl Walk + ?Sized)) -> Vec<(String, Param)> {
    #[derive(Default)]
    struct TiedPlaces(Vec<(String, Param)>);
    impl adamant_nn::Visit for TiedPlaces {
        fn param(&mut self, path: &str, param: &Param) {
            self.0.push((path.to_string(), param.clone()));
        }
    }
    let mut places = TiedPlaces::default();
    model.visit(&mut places);
    places.0
}
