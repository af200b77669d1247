//! Distances and decompositions.
use crate::goldens::call::OpCall;
use adamant::{Error, Tensor};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    let x = || case.tensor(0);
    let t = |k| case.tensor(k);
    if case.op() == "linalg.slogdet" {
        let (sign, log) = x()?.slogdet();
        return Ok(Some(vec![sign, log]));
    }
    Ok(Some(vec![match case.op() {
        "cdist" => x()?.cdist(t(1)?, case.float_or("p", 2.0)?),
        "nn.functional.cosine_similarity" => x()?.cosine_similarity(t(1)?, case.axis_or("dim", 1)?, case.float_or("eps", 1e-8)?),
        "nn.functional.pairwise_distance" => {
            let distance = if case.bool_or("keepdim", false)? { Tensor::pairwise_distance_keepdim } else { Tensor::pairwise_distance };
            distance(x()?, t(1)?, case.float_or("p", 2.0)?, case.float_or("eps", 1e-6)?)
        }
        "linalg.det" => x()?.det(),
        "linalg.inv" => x()?.inv(),
        "linalg.pinv" => x()?.pinv(case.maybe_float("rtol")?),
        "linalg.cholesky" if case.bool_or("upper", false)? => x()?.mt().cholesky().mt(),
        "linalg.cholesky" => x()?.cholesky(),
        "linalg.solve" if case.bool_or("left", true)? => x()?.solve(t(1)?),
        "linalg.solve" => x()?.mt().solve(&t(1)?.mt()).mt(),
        "linalg.solve_triangular" => {
            let (upper, unit) = (case.bool("upper")?, case.bool_or("unitriangular", false)?);
            // x a = b is aᵀ xᵀ = bᵀ.
            if case.bool_or("left", true)? { x()?.solve_triangular(t(1)?, upper, unit) } else { x()?.mt().solve_triangular(&t(1)?.mt(), !upper, unit).mt() }
        }
        "linalg.matrix_power" => x()?.matrix_power(case.int("n")?),
        "qr_r_abs" => x()?.qr().1.abs(),
        "eigh_vals" => (x()? + x()?.mt()).eigvalsh(),
        "svdvals" => x()?.svdvals(),
        "cholesky_spd" => {
            let x = x()?;
            let shape = x.shape()?;
            let n = *shape.last().ok_or_else(|| crate::goldens::call::argument("a matrix is needed".into()))?;
            (x.matmul(x.mt()) + Tensor::eye_on(n, n, x.dtype()?, x.device()?) * n as f64).cholesky()
        }
        _ => return Ok(None),
    }]))
}
