//! Gradients against differences of the loss: what depends on a weight is computed in f64, from the weights as they are, moved along random
//! directions.
use super::debug::{GradCheck, taken_back};
use adamant_core::{
    Arg, DType, Error, ErrorKind, Grads, Op, Outputs, Result, Rng, Tensor,
    intercept::{self, Interceptor},
};
use adamant_nn::Param;
use std::sync::Arc;

/// What depends on a weight is computed in f64.
struct InDouble;
impl Interceptor for InDouble {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs {
        let narrow = |x: &Tensor| x.dtype().is_ok_and(|d| d.is_float() && d != DType::F64);
        if !inputs.iter().any(|x| x.is_tracked()) {
            return next(op, arg, inputs);
        }
        // It stays as wide as it is.
        if let (Op::Cast(to), [x]) = (&op, inputs)
            && to.is_float()
        {
            let wide = if narrow(x) { x.cast(DType::F64) } else { (*x).clone() };
            return std::iter::once(wide).collect();
        }
        let wide: Vec<Tensor> = inputs
            .iter()
            .map(|x| if narrow(x) { next(Op::Cast(DType::F64), Arg::None, &[x]).into_iter().next().unwrap_or_else(|| (*x).clone()) } else { (*x).clone() })
            .collect();
        next(op, arg, &wide.iter().collect::<Vec<_>>())
    }
    fn casts(&self) -> bool {
        true
    }
}
/// The gradient along a random direction against differences of the loss, on the batch at hand. Where a kink lies between the two sides, a
/// shorter step has none: of three lengths the best counts. None where no weight has a gradient.
#[track_caller]
pub(super) fn grad_check(parameters: &[(String, Param)], loss: &mut dyn FnMut() -> Result<Tensor>, seed: u64) -> Result<Option<GradCheck>> {
    let floats: Vec<&Param> = parameters.iter().map(|(_, p)| p).filter(|p| p.cell().meta().dtype.is_float()).collect();
    let Some(first) = floats.first() else { return Ok(None) };
    if first.cell().meta().device.widest_float() != DType::F64 {
        return Err(Error::new("enable_grad_check", ErrorKind::Argument(format!("{} has no f64, in which gradients are checked", first.cell().meta().device))));
    }
    let watch = Arc::new(InDouble);
    let mut directional = |scale: f64| -> Result<GradCheck> {
        let directions: Vec<Tensor> = floats.iter().enumerate().map(|(k, p)| direction(p, seed, k as u32, scale)).collect::<Result<_>>()?;
        let mut at = |sign: f64, wants: bool| -> Result<(f64, Vec<Tensor>, Option<Grads>)> {
            taken_back(|| {
                let mut stands = Vec::new();
                for (p, d) in floats.iter().zip(&directions) {
                    if sign != 0.0 {
                        p.cell().set(&(p.detached().cast(DType::F64) + d * sign).cast(p.cell().meta().dtype))?;
                    }
                    let now = p.detached().cast(DType::F64);
                    now.materialize()?;
                    stands.push(now);
                }
                let loss = intercept::with(watch.clone(), &mut *loss)?;
                let grads = if wants { Some(intercept::with(watch.clone(), || loss.backward())?) } else { None };
                Ok((loss.item::<f64>()?, stands, grads))
            })
        };
        let (_, _, grads) = at(0.0, true)?;
        let (above, over, _) = at(1.0, false)?;
        let (below, under, _) = at(-1.0, false)?;
        // Weights are rounded: what they have really moved by is what counts.
        let mut analytic = 0.0;
        for ((p, over), under) in floats.iter().zip(&over).zip(&under) {
            if let Some(g) = grads.as_ref().and_then(|grads| grads.of(&p.cell())) {
                analytic += (g.cast(DType::F64) * (over - under)).sum(..).item::<f64>()?;
            }
        }
        let numeric = above - below;
        let larger = analytic.abs().max(numeric.abs());
        let relative_error = if larger > 0.0 { (analytic - numeric).abs() / larger } else { 0.0 };
        Ok(GradCheck { analytic: analytic / (2.0 * scale), numeric: numeric / (2.0 * scale), relative_error })
    };
    let mut best: Option<GradCheck> = None;
    for scale in [1e-3, 1e-4, 1e-5] {
        let found = directional(scale)?;
        if best.is_none_or(|best| found.relative_error < best.relative_error) {
            best = Some(found);
        }
        if best.is_some_and(|best| best.relative_error < 1e-6) {
            break;
        }
    }
    Ok(best)
}
/// Numbers between -1 and 1 of the size of a weight's numbers, times `scale`: the same for the same seed.
#[track_caller]
fn direction(p: &Param, seed: u64, stream: u32, scale: f64) -> Result<Tensor> {
    let meta = p.cell().meta();
    let drawn = Rng::new_on(seed, stream, meta.device)?.uniform(meta.shape, DType::F64);
    let size = p.detached().cast(DType::F64).abs().maximum(1e-3);
    ((drawn * 2.0 - 1.0) * size * scale).ok()
}
