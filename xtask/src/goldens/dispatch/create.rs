//! Tensors out of nothing.
use crate::goldens::call::OpCall;
use adamant::{Error, Tensor};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    let dtype = || case.dtype("dtype");
    Ok(Some(vec![match case.op() {
        "arange" => {
            let or = |name, default| Ok::<_, Error>(case.maybe_scalar(name)?.unwrap_or(adamant::Scalar::Int(default)));
            Tensor::arange(or("start", 0)?, case.scalar("end")?, or("step", 1)?, dtype()?)
        }
        "linspace" => Tensor::linspace(case.float("start")?, case.float("end")?, case.size("steps")?, dtype()?),
        "logspace" => Tensor::logspace(case.float("start")?, case.float("end")?, case.size("steps")?, case.float_or("base", 10.0)?, dtype()?),
        "eye" => {
            let n = case.size("n")?;
            let m = if case.value("m").is_some() { case.size("m")? } else { n };
            Tensor::eye_on(n, m, dtype()?, adamant::Device::current()?)
        }
        "full" => Tensor::full(sizes(case)?, case.scalar("fill_value")?, dtype()?),
        "tril_indices" => Tensor::tril_indices(case.size("row")?, case.size("col")?, case.axis_or("offset", 0)?),
        "triu_indices" => Tensor::triu_indices(case.size("row")?, case.size("col")?, case.axis_or("offset", 0)?),
        "alibi_free_causal_mask" => {
            let n = case.size("n")?;
            Tensor::full([n, n], f64::NEG_INFINITY, adamant::DType::F32).triu(1)
        }
        _ => return Ok(None),
    }]))
}
fn sizes(case: &OpCall) -> Result<Vec<usize>, Error> {
    case.ints_or_int("size")?.into_iter().map(|i| usize::try_from(i).map_err(|_| crate::goldens::call::argument(format!("{i} is no size")))).collect()
}
