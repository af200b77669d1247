//! Gradients of ranks that had other rows: their sum, for what all of them hold.
use crate::{Mesh, MeshAxis, collective::all_reduce, mixture::expert_parameters};
use adamant_core::{
    Grads, Result, Tensor,
    grad::no_grad,
    op::{Group, RankUse},
};
use adamant_nn::{Param, Walk};

/// Adds the gradients of a model over the ranks that had other rows: of each parameter over those that hold the same, so of the experts of a
/// [`MixtureOfExperts`](crate::MixtureOfExperts) along `data` alone, where what the other experts' ranks had has come to them already, and of
/// everything else along `data` and `expert`. What is learned from is the sum of the ranks' losses: for the mean over all rows each rank's is
/// multiplied by its share of the rows.
///
/// All ranks call it; a parameter without a gradient counts as zeros, so that all have one afterwards.
///
/// ```
/// use adamant_core::Tensor;
/// use adamant_nn::{Linear, Module};
/// use adamant_parallel::{Mesh, sum_gradients};
/// # adamant_core::Device::reference().make_current();
/// let (layer, mesh) = (Linear::new(3, 1)?, Mesh::alone());
/// let mut grads = layer.forward(&Tensor::ones([2, 3]))?.sum(..).backward()?;
/// sum_gradients(&layer, &mut grads, &mesh)?;
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// Those of the groups.
#[track_caller]
pub fn sum_gradients(model: &(impl Walk + ?Sized), grads: &mut Grads, mesh: &Mesh) -> Result<()> {
    let experts = expert_parameters(model);
    let (of_experts, others): (Vec<Param>, Vec<Param>) =
        model.trainable_parameters().into_iter().partition(|param| experts.iter().any(|expert| expert.same(param)));
    sum_over(&of_experts, grads, mesh.group(MeshAxis::Data))?;
    sum_over(&others, grads, mesh.replicas())
}
/// In one exchange for each dtype.
#[track_caller]
fn sum_over(params: &[Param], grads: &mut Grads, group: &Group) -> Result<()> {
    if group.size == 1 || params.is_empty() {
        return Ok(());
    }
    no_grad(|| {
        let of = |param: &Param| grads.of(&param.cell()).cloned().unwrap_or_else(|| param.detached().zeros_like());
        let all: Vec<(Param, Tensor)> = params.iter().map(|param| (param.clone(), of(param).detach())).collect();
        let mut dtypes = Vec::new();
        for (_, g) in &all {
            let dtype = g.dtype()?;
            if !dtypes.contains(&dtype) {
                dtypes.push(dtype);
            }
        }
        for dtype in dtypes {
            let same: Vec<&(Param, Tensor)> = all.iter().filter(|(_, g)| g.dtype().is_ok_and(|other| other == dtype)).collect();
            let flat: Vec<Tensor> = same.iter().map(|(param, g)| g.reshape([param.elements()])).collect();
            let sums = all_reduce(&Tensor::cat(&flat, 0), group, RankUse::Alike);
            sums.materialize()?;
            let mut start = 0;
            for (param, g) in same {
                let n = param.elements();
                grads.set(&param.cell(), sums.narrow(0, start, n).reshape(g.shape()?));
                start += n;
            }
        }
        Ok(())
    })
}
