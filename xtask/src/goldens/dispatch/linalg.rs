//! Distances and decompositions.
use crate::goldens::call::Call;
use adamant::{Error, Tensor};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &Call) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &Call) -> Result<Option<Vec<Tensor>>, Error> {
    let x = || case.tensor(0);
    let t = |k| case.tensor(k);
    Ok(Some(vec![match case.op() {
        "cdist" => x()?.cdist(t(1)?, case.float_or("p", 2.0)?),
        "nn.functional.cosine_similarity" => x()?.cosine_similarity(t(1)?, case.axis_or("dim", 1)?, case.float_or("eps", 1e-8)?),
        "nn.functional.pairwise_distance" => {
            x()?.pairwise_distance(t(1)?, case.float_or("p", 2.0)?, case.float_or("eps", 1e-6)?, case.bool_or("keepdim", false)?)
        }
        _ => return Ok(None),
    }]))
}
