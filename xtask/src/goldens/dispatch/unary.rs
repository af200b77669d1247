//! Functions of one tensor: the scalar table by its names, and what is composed of it.
use crate::goldens::call::{OpCall, argument};
use adamant::{Error, Tensor, scalar::Unary};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    if let Some(f) = row(case.op()).filter(|_| case.case().args.is_empty()) {
        return Ok(Some(vec![case.tensor(0)?.unary(f)]));
    }
    Ok(Some(vec![match case.op() {
        "positive" => case.tensor(0)?.clone(),
        "round" => case.tensor(0)?.round_with(case.int("decimals")? as i32),
        "clamp" | "clip" => clamp(case)?,
        "nan_to_num" => case.tensor(0)?.nan_to_num(case.float_or("nan", 0.0)?, case.maybe_float("posinf")?, case.maybe_float("neginf")?),
        _ => return Ok(None),
    }]))
}
fn clamp(case: &OpCall) -> Result<Tensor, Error> {
    let x = case.tensor(0)?;
    Ok(match (case.maybe_scalar("min")?, case.maybe_scalar("max")?, case.optional(1), case.optional(2)) {
        (Some(min), Some(max), ..) => x.clamp(min, max),
        (Some(min), None, ..) => x.clamp_min(min),
        (None, Some(max), ..) => x.clamp_max(max),
        (None, None, Some(min), Some(max)) => x.clamp(min, max),
        (None, None, Some(min), None) => x.clamp_min(min),
        (None, None, None, Some(max)) => x.clamp_max(max),
        (None, None, None, None) => return Err(argument("clamp needs a min or a max".into())),
    })
}
/// The row of the table that a name of torch means.
fn row(name: &str) -> Option<Unary> {
    let name = ["nn.functional.", "special."].iter().find_map(|p| name.strip_prefix(p)).unwrap_or(name);
    let ours = match name {
        "sgn" => "sign",
        "logsigmoid" => "log_sigmoid",
        "expit" => "sigmoid",
        "psi" => "digamma",
        "gammaln" => "lgamma",
        "negative" => "neg",
        "absolute" => "abs",
        "fix" => "trunc",
        "arcsin" => "asin",
        "arccos" => "acos",
        "arctan" => "atan",
        "arcsinh" => "asinh",
        "arccosh" => "acosh",
        "arctanh" => "atanh",
        same => same,
    };
    Unary::ALL.iter().copied().find(|f| f.name() == ours)
}
