//! Activation functions.
use crate::goldens::call::OpCall;
use adamant::{Error, Tensor};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    let x = || case.tensor(0);
    let number = |name: &str, default: f64| case.float_or(name, default);
    let name = case.op().strip_prefix("nn.functional.").unwrap_or(case.op());
    Ok(Some(vec![match name {
        "leaky_relu" => x()?.leaky_relu(number("negative_slope", 0.01)?),
        "elu" => x()?.elu(number("alpha", 1.0)?),
        "celu" => x()?.celu(number("alpha", 1.0)?),
        "selu" => x()?.selu(),
        "relu6" => x()?.relu6(),
        "hardtanh" => x()?.hardtanh(number("min_val", -1.0)?, number("max_val", 1.0)?),
        "hardsigmoid" => x()?.hardsigmoid(),
        "hardswish" => x()?.hardswish(),
        "hardshrink" => x()?.hardshrink(number("lambd", 0.5)?),
        "softshrink" => x()?.softshrink(number("lambd", 0.5)?),
        "threshold" => x()?.threshold(case.float("threshold")?, case.float("value")?),
        "softplus" => x()?.softplus_with(number("beta", 1.0)?, number("threshold", 20.0)?),
        "gelu" => match case.text_or("approximate", "none")? {
            "tanh" => x()?.gelu_tanh(),
            _ => x()?.gelu(),
        },
        "prelu" => x()?.prelu(case.tensor(1)?),
        "glu" => x()?.glu(case.axis_or("dim", -1)?),
        "swiglu" => x()?.swiglu(),
        "logit" => x()?.logit_with(case.float("eps")?),
        _ => return Ok(None),
    }]))
}
