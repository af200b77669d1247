//! Normalizations.
use crate::goldens::call::OpCall;
use adamant::{Error, Tensor, functional as f};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    let eps = || case.float_or("eps", 1e-5);
    let shape =
        || -> Result<Vec<usize>, Error> { Ok(case.ints_or_int("normalized_shape")?.into_iter().map(|i| usize::try_from(i).unwrap_or(usize::MAX)).collect()) };
    let one = |y: Tensor| Ok(Some(vec![y]));
    match case.op() {
        "layer_norm" | "layer_norm_affine" => one(f::layer_norm(case.tensor(0)?, shape()?, case.optional(1), case.optional(2), eps()?)),
        "nn.functional.rms_norm" | "rms_norm_affine" => one(f::rms_norm(case.tensor(0)?, shape()?, case.optional(1), case.maybe_float("eps")?)),
        "group_norm_affine" => one(f::group_norm(case.tensor(0)?, case.size("num_groups")?, case.optional(1), case.optional(2), eps()?)),
        "nn.functional.instance_norm" => one(f::instance_norm(case.tensor(0)?, case.optional(3), case.optional(4), eps()?)),
        "nn.functional.local_response_norm" => one(f::local_response_norm(
            case.tensor(0)?,
            case.size("size")?,
            case.float_or("alpha", 1e-4)?,
            case.float_or("beta", 0.75)?,
            case.float_or("k", 1.0)?,
        )),
        "nn.functional.batch_norm" => {
            let (x, weight, bias) = (case.tensor(0)?, case.optional(3), case.optional(4));
            one(if case.bool_or("training", false)? {
                f::batch_norm_training(x, weight, bias, eps()?).0
            } else {
                f::batch_norm_inference(x, case.tensor(1)?, case.tensor(2)?, weight, bias, eps()?)
            })
        }
        _ => Ok(None),
    }
}
