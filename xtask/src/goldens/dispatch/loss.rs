//! Losses.
use crate::goldens::call::{OpCall, argument};
use adamant::{
    Error, Tensor,
    functional::{self as f, Reduction},
};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    let (x, t) = (|| case.tensor(0), || case.tensor(1));
    let reduction: Reduction = match case.maybe_text("reduction")? {
        Some(word) => word.parse()?,
        None => Reduction::Mean,
    };
    let margin = |default: f64| case.float_or("margin", default);
    let name = case.op().strip_prefix("nn.functional.").unwrap_or(case.op());
    Ok(Some(vec![match name {
        "mse_loss" => f::mse_loss(x()?, t()?, reduction),
        "l1_loss" => f::l1_loss(x()?, t()?, reduction),
        "smooth_l1_loss" => f::smooth_l1_loss(x()?, t()?, case.float_or("beta", 1.0)?, reduction),
        "huber_loss" => f::huber_loss(x()?, t()?, case.float_or("delta", 1.0)?, reduction),
        "binary_cross_entropy" => f::binary_cross_entropy(x()?, t()?, case.optional(2), reduction),
        "binary_cross_entropy_with_logits" => f::binary_cross_entropy_with_logits(x()?, t()?, case.optional(2), None, reduction),
        "bce_logits_weighted" => f::binary_cross_entropy_with_logits(x()?, t()?, case.optional(2), case.optional(3), reduction),
        "cross_entropy" | "cross_entropy_w" | "softmax_xent_prob" => {
            let options = f::CrossEntropyOptions {
                weight: case.optional(2),
                ignore_index: case.int_or("ignore_index", -100)?,
                reduction,
                label_smoothing: case.float_or("label_smoothing", 0.0)?,
            };
            f::cross_entropy(x()?, t()?, &options)
        }
        "nll_loss" => f::nll_loss(x()?, t()?, &f::NllOptions { weight: case.optional(2), ignore_index: case.int_or("ignore_index", -100)?, reduction }),
        "kl_div" => f::kl_div(x()?, t()?, case.bool_or("log_target", false)?, reduction),
        "cosine_embedding_loss" => f::cosine_embedding_loss(x()?, t()?, case.tensor(2)?, margin(0.0)?, reduction),
        "margin_ranking_loss" => f::margin_ranking_loss(x()?, t()?, case.tensor(2)?, margin(0.0)?, reduction),
        "hinge_embedding_loss" => f::hinge_embedding_loss(x()?, t()?, margin(1.0)?, reduction),
        "soft_margin_loss" => f::soft_margin_loss(x()?, t()?, reduction),
        "triplet_margin_loss" => {
            let options = f::TripletMarginOptions {
                margin: margin(1.0)?,
                p: case.float_or("p", 2.0)?,
                eps: case.float_or("eps", 1e-6)?,
                swap: case.bool_or("swap", false)?,
                reduction,
            };
            f::triplet_margin_loss(x()?, t()?, case.tensor(2)?, &options)
        }
        "multi_margin_loss" => {
            let p = u32::try_from(case.int_or("p", 1)?).map_err(|_| argument("p is negative".into()))?;
            f::multi_margin_loss(x()?, t()?, &f::MultiMarginOptions { p, margin: margin(1.0)?, weight: case.optional(2), reduction })
        }
        "multilabel_soft_margin_loss" => f::multilabel_soft_margin_loss(x()?, t()?, case.optional(2), reduction),
        "multilabel_margin_loss" => f::multilabel_margin_loss(x()?, t()?, reduction),
        "poisson_nll_loss" => {
            let options = f::PoissonNllOptions {
                log_input: case.bool_or("log_input", true)?,
                full: case.bool_or("full", false)?,
                eps: case.float_or("eps", 1e-8)?,
                reduction,
            };
            f::poisson_nll_loss(x()?, t()?, &options)
        }
        "gaussian_nll_loss" => f::gaussian_nll_loss(x()?, t()?, case.tensor(2)?, case.bool_or("full", false)?, case.float_or("eps", 1e-6)?, reduction),
        "ctc_loss" => {
            let blank = usize::try_from(case.int_or("blank", 0)?).map_err(|_| argument("blank is negative".into()))?;
            f::ctc_loss(x()?, t()?, case.tensor(2)?, case.tensor(3)?, &f::CtcOptions { blank, reduction, zero_infinity: case.bool_or("zero_infinity", false)? })
        }
        _ => return Ok(None),
    }]))
}
