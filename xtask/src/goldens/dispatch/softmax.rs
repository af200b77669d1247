//! Softmax.
use crate::goldens::call::OpCall;
use adamant::{Error, Tensor};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    let of = |f: fn(&Tensor, isize) -> Tensor| -> Result<Option<Vec<Tensor>>, Error> { Ok(Some(vec![f(case.tensor(0)?, case.axis("dim")?)])) };
    match case.op() {
        "softmax" => of(|x, axis| x.softmax(axis)),
        "log_softmax" => of(|x, axis| x.log_softmax(axis)),
        "nn.functional.softmin" => of(|x, axis| x.softmin(axis)),
        _ => Ok(None),
    }
}
