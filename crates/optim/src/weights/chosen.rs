//! An optimizer is told how weights and slots are stored, and takes masters over, all before its first step.
use super::{BESIDE, StoredDtypes, WeightUpdate, rounding::nearest};
use crate::{Optimizer, UpdateRule, Updater};
use adamant_core::{DType, Error, ErrorKind, Origin, Result, Tensor};
use adamant_nn::Param;

#[track_caller]
fn late(op: &'static str, name: &str) -> Error {
    let text = format!("{name}: it is told how weights and slots are stored before its first step, before masters are adopted or a state is loaded");
    Error::new(op, ErrorKind::Argument(text))
}
#[track_caller]
fn stored(op: &'static str, dtype: DType) -> Result<Option<DType>> {
    match dtype {
        DType::F32 => Ok(None),
        DType::BF16 => Ok(Some(DType::BF16)),
        _ => Err(Error::new(op, ErrorKind::Dtype(format!("slots are stored in f32 or bf16, not {dtype}")))),
    }
}
impl<R: UpdateRule> Updater<R> {
    /// How weights of bf16 and f16 are updated, in all groups; parameters of other dtypes are updated as ever. Without it, formula and
    /// slots are of the parameter's own dtype.
    ///
    /// Building never fails: what makes no sense is told by [`Updater::ok`] or the first step. That is [`WeightUpdate::Split`] with a
    /// parameter of f16, and a call after the first step.
    ///
    /// ```
    /// # use adamant_core::{DType, Tensor};
    /// # use adamant_nn::Param;
    /// # use adamant_optim::{AdamW, UpdateRule, WeightUpdate};
    /// # adamant_core::Device::reference().make_current();
    /// let weight = Param::new(&Tensor::ones([3]).cast(DType::F16))?;
    /// let make = |by| AdamW::new(1e-3).over([weight.clone()]).weight_update(by).ok();
    /// assert_eq!(make(WeightUpdate::Kahan)?.weights_updated_by(), Some(WeightUpdate::Kahan));
    /// assert!(make(WeightUpdate::Split).err().unwrap().to_string().contains("of shape [3]: it is f16"));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn weight_update(mut self, by: WeightUpdate) -> Updater<R> {
        if let Err(e) = self.tell("weight_update", |storage| storage.weights = Some(by)) {
            self.storage.refused = Some(e);
        }
        self
    }
    /// How weights of 16 bits are updated, if it was told.
    pub fn weights_updated_by(&self) -> Option<WeightUpdate> {
        self.storage.weights
    }
    /// The dtype in which the rules' running slots are stored that have a parameter's shape or a factor of it: momenta, squares. f32
    /// (as it is without a call) means in the dtype in which the formula runs; bf16 halves their memory, whether the parameters are of
    /// f32, bf16 or f16. They are widened where the formula reads them, and rounded to nearest where it sets them. Counts, running
    /// numbers, slots of parameters of f64 and what a [`WeightUpdate`] keeps are not concerned. A state that was saved with another dtype is
    /// converted when it is loaded.
    ///
    /// A running mean in 8 digits stands still where its change is below half a unit: a second moment with a smoothing of 0.999 does not
    /// fall any more. Smoothings up to 0.99 have none of that.
    ///
    /// Building never fails: another dtype, and a call after the first step, are told of by [`Updater::ok`] or the first step.
    ///
    /// ```
    /// # use adamant_core::{DType, Tensor};
    /// # use adamant_nn::{Linear, Module, Walk};
    /// # use adamant_optim::{AdamW, Optimizer, UpdateRule};
    /// # adamant_core::Device::reference().make_current();
    /// let model = Linear::new(3, 1)?;
    /// let mut optimizer = AdamW::new(1e-3).betas((0.9, 0.99)).over(model.parameters()).slot_dtype(DType::BF16).ok()?;
    /// optimizer.step(&model.forward(&Tensor::ones([2, 3]))?.square().sum(..).backward()?)?;
    /// let state = optimizer.state_dict();
    /// assert!(state.iter().any(|(name, t)| name == "weight.exp_avg" && t.dtype().unwrap() == DType::BF16));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn slot_dtype(mut self, dtype: DType) -> Updater<R> {
        let told = match stored("slot_dtype", dtype) {
            Ok(dtype) => self.tell("slot_dtype", |storage| storage.slots = dtype),
            Err(e) => Err(e),
        };
        if let Err(e) = told {
            (self.storage.refused, self.doubt) = (Some(e), true);
        }
        self
    }
    /// The dtype of [`Updater::slot_dtype`].
    pub fn slots_stored_in(&self) -> DType {
        self.storage.slots.unwrap_or(DType::F32)
    }
    #[track_caller]
    fn tell(&mut self, op: &'static str, f: impl FnOnce(&mut StoredDtypes)) -> Result<()> {
        self.doubt = true;
        if !self.is_fresh_but_for(&[]) {
            return Err(late(op, self.name()));
        }
        f(&mut self.storage);
        Ok(())
    }
    pub(crate) fn is_fresh_but_for(&self, names: &[&str]) -> bool {
        self.clocks.is_empty() && self.state.values().all(|s| s.is_fresh_but_for(names))
    }
    #[track_caller]
    pub(crate) fn tell_weights(&mut self, by: WeightUpdate) -> Result<()> {
        for p in self.parameters() {
            if let Some(kind) = by.refuses(p.meta().dtype) {
                return Err(of_parameter("set_weight_update", &p, kind));
            }
        }
        self.tell("set_weight_update", |storage| storage.weights = Some(by))
    }
    #[track_caller]
    pub(crate) fn tell_slots(&mut self, dtype: DType) -> Result<()> {
        let dtype = stored("set_slot_dtype", dtype)?;
        self.tell("set_slot_dtype", |storage| storage.slots = dtype)
    }
    #[track_caller]
    pub(crate) fn adopt(&mut self, masters: &[(Param, Tensor)]) -> Result<()> {
        const OP: &str = "adopt_masters";
        let here = Origin::here();
        let refused = |text: String| Error::at(OP, ErrorKind::Argument(text), here);
        if self.storage.weights.is_none() {
            return Err(refused(format!("{} has no `WeightUpdate` that would keep what the masters have beyond the weights", self.name())));
        }
        if !self.is_fresh_but_for(&BESIDE) {
            return Err(refused(format!("{}: masters are adopted before the first step, and not after a state was loaded", self.name())));
        }
        let own = self.parameters();
        let mut adopted = Vec::new();
        for (p, master) in masters {
            if own.iter().all(|o| o.id() != p.id()) {
                return Err(refused(format!("the parameter {} is none of this optimizer's", crate::optimizer::named(p))));
            }
            let (meta, given) = (p.meta(), master.try_meta()?);
            if given.dtype != DType::F32 {
                return Err(of_parameter(OP, p, ErrorKind::Dtype(format!("its master is {}, it must be f32", given.dtype))));
            }
            if given.shape != meta.shape {
                let expected = format!("that of the parameter {}, {}", crate::optimizer::named(p), meta.shape);
                return Err(Error::new(OP, ErrorKind::Shape { shape: given.shape, expected }));
            }
            let (weights, values) = (p.detached().to_vec_as::<f64>()?, master.to_vec::<f32>()?);
            let same = |w: f64, m: f32| w.to_bits() == f64::from(m).to_bits() || w.is_nan() && m.is_nan();
            if let Some(k) = weights.iter().zip(&values).position(|(&w, &m)| !same(w, nearest(m, meta.dtype))) {
                let text = format!("element {k} is {}, and its master {} is {} in {}", weights[k], values[k], nearest(values[k], meta.dtype), meta.dtype);
                return Err(of_parameter(OP, p, ErrorKind::Argument(text)).hint("make the weights by a cast of the masters"));
            }
            if let Some(policy) = self.storage.policy(meta.dtype) {
                if let Some(kind) = policy.refuses(meta.dtype) {
                    return Err(of_parameter(OP, p, kind));
                }
                adopted.push((p.id(), policy.beyond_weight(&meta, &values)?));
            }
        }
        for (id, slots) in adopted.into_iter().filter(|(_, slots)| !slots.is_empty()) {
            let state = self.state.entry(id).or_default();
            slots.into_iter().for_each(|(name, value)| state.load(name, value));
        }
        Ok(())
    }
}
/// An error that names a parameter.
#[track_caller]
fn of_parameter(op: &'static str, p: &Param, kind: ErrorKind) -> Error {
    let text = format!("the parameter {}: {kind}", crate::optimizer::named(p));
    Error::new(op, if matches!(kind, ErrorKind::Dtype(_)) { ErrorKind::Dtype(text) } else { ErrorKind::Argument(text) })
}
