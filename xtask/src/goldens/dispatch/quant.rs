//! Quantization.
use crate::goldens::call::OpCall;
use adamant::{Error, Tensor, functional as f};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    Ok(Some(match case.op() {
        "fake_quantize_per_tensor" => {
            vec![f::fake_quantize_per_tensor(case.tensor(0)?, case.float("scale")?, case.int("zero_point")?, case.int("quant_min")?, case.int("quant_max")?)]
        }
        "fake_quantize_per_channel" => {
            vec![f::fake_quantize_per_channel(
                case.tensor(0)?,
                case.tensor(1)?,
                case.tensor(2)?,
                case.axis("axis")?,
                case.int("quant_min")?,
                case.int("quant_max")?,
            )]
        }
        "quantize_int_repr" => vec![f::quantize(case.tensor(0)?, case.float("scale")?, case.int("zero_point")?, case.dtype("dtype")?)],
        "clip_grad_norm" => f::clip_grad_norm(&case.tensors(), case.float("max_norm")?, case.float("norm_type")?).0,
        _ => return Ok(None),
    }))
}
