//! What is exchanged before and behind a layer of which each rank has a piece: hooks on its place.
use super::{cut::CutLine, random::StreamAround};
use crate::collective::{all_gather, all_reduce, own_block, reduce_scatter, replicate};
use adamant_core::{
    DType, Result, Scalar, Tensor, functional,
    op::{Group, RankUse, rank_parts},
};
use adamant_nn::{Param, Site};
use parking_lot::Mutex;
use std::sync::Arc;

/// Between ranks that hold pieces: what lies outside is alike on all, or cut along the sequence.
#[derive(Clone)]
pub(crate) struct Border {
    pub group: Group,
    pub sequence_axis: Option<usize>,
}
impl Border {
    /// What each rank goes on with in its own way.
    #[track_caller]
    fn enter(&self, x: &Tensor) -> Result<Tensor> {
        match self.sequence_axis {
            Some(axis) => all_gather(x, axis, &self.group, RankUse::Apart),
            None => replicate(x, &self.group),
        }
        .ok()
    }
    /// The sum of what each rank has computed.
    #[track_caller]
    fn leave(&self, x: &Tensor) -> Result<Tensor> {
        match self.sequence_axis {
            Some(axis) => reduce_scatter(x, axis, &self.group),
            None => all_reduce(x, &self.group, RankUse::Alike),
        }
        .ok()
    }
    /// Every input is one that all ranks hold alike, or whose slices they hold.
    pub fn enters(&self, site: &Site) -> Result<()> {
        let border = self.clone();
        site.register_forward_pre_hook(move |_, inputs| inputs.iter().map(|x| border.enter(x)).collect::<Result<_>>().map(Some))?;
        Ok(())
    }
    /// The output is joined along its last axis.
    pub fn joins_features(&self, site: &Site) -> Result<()> {
        let group = self.group.clone();
        site.register_forward_hook(move |_, _, outputs| each(outputs, |y| all_gather(y, y.rank().saturating_sub(1), &group, RankUse::Alike).ok()))?;
        Ok(())
    }
    /// The input is this rank's piece of the features, or is cut to it; the output is one term of a sum, and the bias is added to the sum, once.
    pub fn adds(&self, site: &Site, in_features: usize, bias: Option<&Param>) -> Result<()> {
        let (border, size) = (self.clone(), self.group.size as usize);
        site.register_forward_pre_hook(move |_, inputs| {
            each(inputs, |x| {
                let shape = x.shape()?;
                let is_whole = size > 1 && shape.last() == Some(&in_features);
                match (is_whole, border.sequence_axis) {
                    (false, _) => Ok(x.clone()),
                    (true, None) => own_block(x, shape.rank() - 1, &border.group),
                    (true, Some(_)) => {
                        let n = in_features / size;
                        border.enter(x)?.narrow(-1, border.group.rank as usize * n, n).ok()
                    }
                }
            })
        })?;
        let (border, own) = (self.clone(), bias.cloned());
        site.leave_to_hooks(bias.is_some());
        site.register_forward_hook(move |_, _, outputs| {
            each(outputs, |y| {
                let y = border.leave(y)?;
                match &own {
                    Some(bias) => (&y + bias.get().cast(y.dtype()?)).ok(),
                    None => Ok(y),
                }
            })
        })?;
        if let (Some(bias), Some(_)) = (bias, self.sequence_axis) {
            self.sums_gradient(bias)?;
        }
        Ok(())
    }
    /// Rows of a table by ids of the whole table: what another rank has is zero here, and the ranks are added.
    pub fn looks_up(&self, site: &Site, table: &Param, rows: usize) -> Result<()> {
        let (group, padding) = (self.group.clone(), site.padding_idx());
        let own = rank_parts(rows, group.rank as usize, group.size as usize);
        let (start, count) = (own.start as i64, own.len() as i64);
        let asked: Arc<Mutex<Option<(Tensor, Tensor)>>> = Arc::default();
        let noted = asked.clone();
        site.register_forward_pre_hook(move |_, inputs| {
            each(inputs, |ids| {
                let local = ids.cast(DType::I64) - start;
                let inside = local.ge(0i64).logical_and(&local.lt(count));
                let at = inside.where_(&local, Scalar::Int(0));
                *noted.lock() = Some((inside, zero_for(ids, rows)));
                at.ok()
            })
        })?;
        let table = table.clone();
        let padding =
            padding.filter(|row| own.contains(row)).map(|row| row - own.start).map_or(if padding.is_some() { Some(None) } else { None }, |row| Some(Some(row)));
        site.register_forward_hook(move |_, inputs, outputs| {
            let Some((inside, zero)) = asked.lock().take() else { return Ok(None) };
            each(outputs, |y| {
                // A padding row has another number here, or is another rank's.
                let rows = match (padding, inputs) {
                    (Some(row), [at]) => functional::embedding(at, &table.get(), row),
                    _ => y.clone(),
                };
                let zero = zero.cast(rows.dtype()?).unsqueeze(-1);
                all_reduce(&(inside.unsqueeze(-1).where_(&rows, 0.0) + zero), &group, RankUse::Alike).ok()
            })
        })?;
        Ok(())
    }
    /// The layer computes on what is this rank's own: its parameters, which all hold alike, get the gradients of all, and random numbers
    /// differ.
    pub fn stands_apart(&self, site: &Site, parameters: &[(String, Param)]) -> Result<()> {
        for (_, param) in parameters.iter().filter(|(_, param)| param.role() == adamant_nn::Role::Trainable) {
            self.sums_gradient(param)?;
        }
        self.draws_apart(site)
    }
    pub fn draws_apart(&self, site: &Site) -> Result<()> {
        let stream = Arc::new(StreamAround::new(&self.group));
        let around = stream.clone();
        site.register_forward_pre_hook(move |site, inputs| {
            if let (true, Some(x)) = (site.is_training(), inputs.first()) {
                around.begin(x.device()?)?;
            }
            Ok(None)
        })?;
        site.register_forward_hook(move |_, _, _| stream.end().map(|()| None))?;
        Ok(())
    }
    #[track_caller]
    fn sums_gradient(&self, param: &Param) -> Result<()> {
        let group = self.group.clone();
        param.register_hook(move |gradient| Some(all_reduce(gradient, &group, RankUse::Alike)))?;
        Ok(())
    }
    /// The output, which all hold alike, is cut along the sequence.
    pub fn scatters(&self, site: &Site, axis: usize) -> Result<()> {
        let group = self.group.clone();
        site.register_forward_hook(move |_, _, outputs| each(outputs, |y| own_block(y, axis, &group)))?;
        Ok(())
    }
    /// Slices of the sequence become one that all hold alike.
    pub fn gathers(&self, site: &Site, axis: usize) -> Result<()> {
        let group = self.group.clone();
        site.register_forward_hook(move |_, _, outputs| each(outputs, |y| all_gather(y, axis, &group, RankUse::Alike).ok()))?;
        Ok(())
    }
}
fn each(tensors: &[Tensor], f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Option<Vec<Tensor>>> {
    tensors.iter().map(f).collect::<Result<_>>().map(Some)
}
/// A zero for each index, and a fault that names the first index out of range when what it was added to is read.
#[track_caller]
pub(crate) fn zero_for(index: &Tensor, bound: usize) -> Tensor {
    let Ok(shape) = index.shape() else { return index.clone() };
    let zeros = index.device().map(|device| Tensor::zeros_on([bound], DType::F32, device));
    zeros.map_or_else(Tensor::failed, |zeros| zeros.index_select(0, &index.reshape([shape.elements()])).reshape(shape))
}
/// How an attention's own parameters are cut by heads.
pub(crate) fn of_heads(name: &str) -> Option<CutLine> {
    match name {
        "in_proj_weight" | "in_proj_bias" => Some(CutLine { axis: 0, sections: 3 }),
        "q_proj_weight" | "k_proj_weight" | "v_proj_weight" => Some(CutLine::ROWS),
        "bias_k" | "bias_v" => Some(CutLine { axis: 2, sections: 1 }),
        _ => None,
    }
}
