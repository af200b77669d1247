//! Products of matrices and tensors.
use crate::goldens::call::OpCall;
use adamant::{Error, Scalar, Tensor};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    let x = || case.tensor(0);
    let t = |k| case.tensor(k);
    let factor = |name| Ok::<_, Error>(case.maybe_scalar(name)?.unwrap_or(Scalar::Int(1)));
    Ok(Some(vec![match case.op() {
        "matmul" => x()?.matmul(t(1)?),
        "mm" => x()?.mm(t(1)?),
        "bmm" => x()?.bmm(t(1)?),
        "mv" => x()?.mv(t(1)?),
        "dot" => x()?.dot(t(1)?),
        "outer" => x()?.outer(t(1)?),
        "addmm" => x()?.addmm(t(1)?, t(2)?, factor("beta")?, factor("alpha")?),
        "addmv" => x()?.addmv(t(1)?, t(2)?, factor("beta")?, factor("alpha")?),
        "baddbmm" => x()?.baddbmm(t(1)?, t(2)?, factor("beta")?, factor("alpha")?),
        "nn.functional.linear" => adamant::functional::linear(x()?, t(1)?, case.optional(2)),
        "nn.functional.bilinear" => x()?.bilinear(t(1)?, t(2)?, case.optional(3)),
        "einsum" => Tensor::einsum(case.text("equation")?, &case.tensors()),
        "tensordot" => match case.value("dims").and_then(|v| v.as_array()) {
            None => x()?.tensordot_last(t(1)?, case.size("dims")?),
            Some(lists) => {
                let list =
                    |k: usize| lists.get(k).and_then(|l| l.as_array()).map(|l| l.iter().filter_map(|v| v.as_i64()).collect::<Vec<_>>()).unwrap_or_default();
                x()?.tensordot(t(1)?, list(0), list(1))
            }
        },
        "kron" => x()?.kron(t(1)?),
        "linalg.cross" => x()?.cross(t(1)?, case.axis_or("dim", -1)?),
        _ => return Ok(None),
    }]))
}
