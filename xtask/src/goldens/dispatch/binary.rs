//! Functions of two tensors or of a tensor and a number: the scalar table by its names, and what is composed of it.
use crate::goldens::call::OpCall;
use adamant::{Error, Scalar, Tensor, scalar::Binary};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    if let Some(f) = row(case)? {
        return Ok(Some(vec![case.tensor(0)?.binary(f, case.tensor(1)?)]));
    }
    let x = || case.tensor(0);
    Ok(Some(vec![match case.op() {
        "add_scalar" => x()?.add(times(case.scalar("value")?, case.maybe_scalar("alpha")?)),
        "sub_scalar" => x()?.sub(case.scalar("value")?),
        "rsub_scalar" => x()?.binary_reversed(Binary::Sub, case.scalar("value")?),
        "mul_scalar" => x()?.mul(case.scalar("value")?),
        "div_scalar" => x()?.div(case.scalar("value")?),
        "pow_scalar" => x()?.pow(case.scalar("exponent")?),
        "rpow_scalar" => x()?.binary_reversed(Binary::Pow, case.scalar("base")?),
        "rdiv_scalar" => x()?.binary_reversed(Binary::Div, case.scalar("value")?),
        "where" => x()?.where_(case.tensor(1)?, case.tensor(2)?),
        "where_scalar" => x()?.where_(case.tensor(1)?, case.scalar("value")?),
        "addcmul" => x()?.addcmul(case.tensor(1)?, case.tensor(2)?, case.float_or("value", 1.0)?),
        "addcdiv" => x()?.addcdiv(case.tensor(1)?, case.tensor(2)?, case.float_or("value", 1.0)?),
        "lerp" => match case.maybe_float("weight")? {
            Some(weight) => x()?.lerp(case.tensor(1)?, weight),
            None => x()?.lerp(case.tensor(1)?, case.tensor(2)?),
        },
        "isclose" => x()?.isclose(case.tensor(1)?, case.float_or("rtol", 1e-5)?, case.float_or("atol", 1e-8)?, case.bool_or("equal_nan", false)?),
        "linalg.cross" | "cross" => x()?.cross(case.tensor(1)?, case.axis_or("dim", -1)?),
        _ => return Ok(None),
    }]))
}
/// The row of the table that a name of torch means.
fn row(case: &OpCall) -> Result<Option<Binary>, Error> {
    let op = case.op().strip_prefix("special.").unwrap_or(case.op());
    let ours = match (op, case.maybe_text("rounding_mode")?) {
        ("div" | "divide", Some("floor")) => "floor_divide",
        ("div" | "divide", Some("trunc")) => "div_trunc",
        ("multiply", None) => "mul",
        ("subtract", None) => "sub",
        ("divide" | "true_divide", None) => "div",
        ("arctan2", None) => "atan2",
        (same, None) => same,
        _ => return Ok(None),
    };
    let plain = case.case().args.keys().all(|name| name == "rounding_mode");
    Ok(Binary::ALL.iter().copied().find(|f| plain && f.name() == ours))
}
/// value * alpha as Python multiplies: integers stay integers.
fn times(value: Scalar, alpha: Option<Scalar>) -> Scalar {
    match (value, alpha) {
        (value, None) => value,
        (Scalar::Int(v), Some(Scalar::Int(a))) => Scalar::Int(v.wrapping_mul(a)),
        (v, Some(a)) => Scalar::Float(v.to_f64() * a.to_f64()),
    }
}
