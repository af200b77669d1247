//! Functions of one tensor: the scalar table by its names, and what is composed of it.
use crate::goldens::call::Call;
use adamant::{Error, Tensor, scalar::Unary};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &Call) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &Call) -> Result<Option<Vec<Tensor>>, Error> {
    if let Some(f) = row(case.op()).filter(|_| case.case().args.is_empty()) {
        return Ok(Some(vec![case.tensor(0)?.unary(f)]));
    }
    Ok(Some(vec![match case.op() {
        "positive" => case.tensor(0)?.clone(),
        _ => return Ok(None),
    }]))
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
