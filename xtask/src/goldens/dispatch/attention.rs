//! Attention and rotary positions.
use crate::goldens::call::OpCall;
use adamant::{Error, Tensor, functional as f};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    Ok(match case.op() {
        "nn.functional.scaled_dot_product_attention" => {
            let options = f::AttentionOptions {
                mask: case.optional(3),
                is_causal: case.bool_or("is_causal", false)?,
                scale: case.maybe_float("scale")?,
                enable_gqa: case.bool_or("enable_gqa", false)?,
                dropout: None,
            };
            Some(vec![f::scaled_dot_product_attention(case.tensor(0)?, case.tensor(1)?, case.tensor(2)?, &options)])
        }
        "rotary_half" => Some(vec![f::rotary_half(case.tensor(0)?, case.tensor(1)?, case.tensor(2)?)]),
        _ => None,
    })
}
