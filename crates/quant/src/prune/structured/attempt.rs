//! Whether a model runs without some of its channels, and computes what it computes with their parameters at zero. Must not know
//! what channels are worth.
use super::{STRUCTURED, dependency::ParamAxis};
use crate::select::{check, evaluating};
use adamant_core::{DType, Result, Shape, Tensor, grad::no_grad};
use adamant_nn::{Module, Param};
use std::collections::{BTreeMap, BTreeSet};

/// Of each parameter's axis the elements that leave.
pub(super) type Leaving = BTreeMap<ParamAxis, BTreeSet<usize>>;

/// A model, and the example that it is run on.
pub(super) struct Attempts<'a, M> {
    pub model: &'a M,
    pub params: &'a [(String, Param)],
    pub example: &'a Tensor,
}
impl<M: Module> Attempts<'_, M> {
    /// Takes them out: then the reason why they must stay, if there is one, and everything is as it was.
    ///
    /// # Errors
    /// A model that has changed since they were found, or does not run as it is.
    #[track_caller]
    pub fn take_out(&self, leaving: &Leaving) -> Result<Option<String>> {
        let old: Vec<Tensor> = self.params.iter().map(|(_, param)| param.detached()).collect();
        let touched: BTreeSet<usize> = leaving.keys().map(|(number, _)| *number).collect();
        let of = |number: usize| leaving.range((number, 0)..(number + 1, 0)).map(|((_, axis), gone)| (*axis, gone));
        let mut smaller = Vec::new();
        for number in &touched {
            let (path, param) = &self.params[*number];
            let mut value = param.detached();
            for (axis, gone) in of(*number) {
                let size = value.shape()?.get(axis).copied().unwrap_or(0);
                check(STRUCTURED, gone.last().is_none_or(|last| *last < size), || format!("`{path}` has changed since its importance was computed"))?;
                let stays: Vec<i64> = (0..size).filter(|k| !gone.contains(k)).map(|k| k as i64).collect();
                let count = stays.len();
                value = value.index_select(axis, &Tensor::from_vec_on(stays, [count], value.device()?));
            }
            value.materialize()?;
            smaller.push((param, value));
        }
        let masked = || -> Result<Tensor> {
            for number in &touched {
                let mut value = old[*number].clone();
                for (axis, gone) in of(*number) {
                    value = zeroed(&value, axis, gone)?;
                }
                self.params[*number].1.set(&value)?;
            }
            self.answer()
        };
        let wanted = masked();
        touched.iter().try_for_each(|number| self.params[*number].1.set(&old[*number]))?;
        let wanted = wanted?;
        let got = smaller.iter().try_for_each(|(param, value)| param.resize(value)).and_then(|()| self.answer());
        let reason = match got {
            Ok(got) => told_apart(&got, &wanted)?,
            Err(e) => Some(format!("the model does not run without them, as with a size that is written into `forward`: {}", e.kind())),
        };
        if reason.is_some() {
            touched.iter().try_for_each(|number| self.params[*number].1.resize(&old[*number]))?;
        }
        Ok(reason)
    }
    /// As [`Attempts::take_out`], and puts them back.
    #[track_caller]
    pub fn try_out(&self, leaving: &Leaving) -> Result<Option<String>> {
        let old: Vec<Tensor> = self.params.iter().map(|(_, param)| param.detached()).collect();
        let reason = self.take_out(leaving)?;
        if reason.is_none() {
            self.params.iter().zip(&old).try_for_each(|((_, param), value)| param.resize(value))?;
        }
        Ok(reason)
    }
    #[track_caller]
    fn answer(&self) -> Result<Tensor> {
        let y = evaluating(self.model, || no_grad(|| self.model.forward(self.example)))?;
        y.materialize()?;
        Ok(y)
    }
}
#[track_caller]
fn zeroed(value: &Tensor, axis: usize, gone: &BTreeSet<usize>) -> Result<Tensor> {
    let shape = value.shape()?;
    let stays: Vec<bool> = (0..shape[axis]).map(|k| !gone.contains(&k)).collect();
    let along = Shape::along(axis, shape[axis], shape.rank());
    Tensor::from_vec_on(stays, along, value.device()?).where_(value, value.zeros_like()).ok()
}
/// What two answers differ in beyond rounding: sums of fewer numbers are added up in another order.
#[track_caller]
fn told_apart(got: &Tensor, wanted: &Tensor) -> Result<Option<String>> {
    let (shape, other) = (got.shape()?, wanted.shape()?);
    if shape != other {
        return Ok(Some(format!("without them the model returns {shape} instead of {other}")));
    }
    let dtype = wanted.dtype()?;
    if !dtype.is_float() || shape.elements() == 0 {
        return Ok(None);
    }
    let [got, wanted] = [got, wanted].map(|t| t.cast(DType::F64));
    let scale = wanted.abs().amax(..).item::<f64>()?;
    let apart = (got - wanted).abs().amax(..).item::<f64>()?;
    let most = if matches!(dtype, DType::F32 | DType::F64) { 1e-3 } else { 0.1 };
    // Where the model's own answer is no number there is nothing to compare with.
    let differs = scale.is_finite() && (apart.is_nan() || apart > most * scale.max(1e-3));
    Ok(differs.then(|| "without them the model computes something else than with zeros: it depends on how many there are, or on which comes where".to_string()))
}
