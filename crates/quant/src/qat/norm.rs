//! Batch norms that stop following their batches: behind so many forward passes in training they normalise by their running
//! statistics, as they will in evaluation, and those stay what they are (Krishnamoorthi 2018, section 3.2.1;
//! `torch.ao.nn.intrinsic.qat.freeze_bn_stats`). The count is `num_batches_tracked`, which begins anew; a device decides by it, so
//! that a captured step is one capture.
use adamant_core::{
    Result, Tensor, functional,
    grad::{HookHandle, no_grad},
};
use adamant_nn::{Copies, Param, Site, Submodule, Walk};
use std::{cell::RefCell, collections::HashMap};

/// The parts of a batch norm that has running statistics.
#[derive(Clone)]
pub(crate) struct FrozenNorm {
    site: Site,
    eps: f64,
    weight: Option<Param>,
    bias: Option<Param>,
    mean: Param,
    var: Param,
    /// forward passes in training, i64
    count: Param,
    limit: u64,
}
thread_local! {
    /// The statistics before the pass that this thread is in, by the count's number.
    static BEFORE: RefCell<HashMap<usize, (Tensor, Tensor)>> = RefCell::default();
}
impl FrozenNorm {
    /// Of a module, if it is such a norm.
    pub fn of(module: &Submodule, limit: u64) -> Option<FrozenNorm> {
        let (site, own) = (module.site().ok()?.clone(), |name: &str| module.parameter(name).cloned());
        let (mean, var, count) = (own("running_mean")?, own("running_var")?, own("num_batches_tracked")?);
        Some(FrozenNorm { eps: site.eps()?, site, weight: own("weight"), bias: own("bias"), mean, var, count, limit })
    }
    /// Counts from 0 again.
    #[track_caller]
    pub fn begin(&self) -> Result<()> {
        self.count.set(&self.count.detached().zeros_like())
    }
    #[track_caller]
    pub fn attach(&self) -> Result<[HookHandle; 2]> {
        let (before, behind) = (self.clone(), self.clone());
        let pre = self.site.register_forward_pre_hook(move |site, _| {
            if site.is_training() && !before.mean.is_uninitialized() {
                let statistics = (before.mean.detached(), before.var.detached());
                BEFORE.with_borrow_mut(|all| all.insert(before.count.id(), statistics));
            }
            Ok(None)
        })?;
        let registered = self.site.register_forward_hook(move |site, inputs, outputs| {
            let statistics = BEFORE.with_borrow_mut(|all| all.remove(&behind.count.id()));
            match (statistics, inputs, outputs) {
                (Some(statistics), [x], [y]) if site.is_training() => Ok(Some(vec![behind.normalized(x, y, &statistics)?])),
                _ => Ok(None),
            }
        });
        match registered {
            Ok(handle) => Ok([pre, handle]),
            Err(error) => {
                pre.remove();
                Err(error)
            }
        }
    }
    /// What the norm gives for x: `y`, by the batch, or, where it is frozen, by the statistics before it, which are put back.
    #[track_caller]
    fn normalized(&self, x: &Tensor, y: &Tensor, (mean, var): &(Tensor, Tensor)) -> Result<Tensor> {
        // The pass is counted already.
        let frozen = self.count.detached().gt(super::passes(self.limit));
        no_grad(|| {
            self.mean.set(&frozen.where_(mean, self.mean.detached()))?;
            self.var.set(&frozen.where_(var, self.var.detached()))
        })?;
        let get = |param: &Option<Param>| param.as_ref().map(Param::get);
        let (weight, bias) = (get(&self.weight), get(&self.bias));
        let fixed = functional::batch_norm_inference(x, mean, var, weight.as_ref(), bias.as_ref(), self.eps);
        frozen.where_(fixed, y).ok()
    }
    #[track_caller]
    pub fn apart(&self, copies: &mut Copies) -> Result<FrozenNorm> {
        Ok(FrozenNorm {
            site: self.site.duplicate(copies)?,
            weight: self.weight.duplicate(copies)?,
            bias: self.bias.duplicate(copies)?,
            mean: self.mean.duplicate(copies)?,
            var: self.var.duplicate(copies)?,
            count: self.count.duplicate(copies)?,
            ..*self
        })
    }
}
