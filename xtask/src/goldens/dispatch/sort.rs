//! Sorting and searching.
use crate::goldens::call::OpCall;
use adamant::{Error, Tensor};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    let x = || case.tensor(0);
    let (axis, descending, right) =
        (case.axis_or("dim", -1), case.bool_or("descending", false), Ok::<_, Error>(case.bool_or("right", false)? || case.text_or("side", "left")? == "right"));
    let pair = |(a, b)| vec![a, b];
    Ok(Some(match case.op() {
        "sort" => pair(x()?.sort(axis?, descending?)),
        "argsort" => vec![x()?.argsort(axis?, descending?)],
        "topk" => pair(x()?.topk(case.size("k")?, axis?, case.bool_or("largest", true)?)),
        "msort" => vec![x()?.msort()],
        "searchsorted" => vec![x()?.searchsorted(case.tensor(1)?, right?)],
        "bucketize_" => vec![x()?.bucketize(case.tensor(1)?, right?)],
        "unique_sorted" => {
            let (values, inverse, counts) = x()?.unique();
            vec![values, inverse, counts]
        }
        _ => return Ok(None),
    }))
}
