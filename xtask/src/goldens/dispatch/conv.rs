//! Convolutions.
use crate::goldens::call::{OpCall, argument};
use adamant::{
    Error, Tensor,
    functional::{self as f, Sizes},
};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    let Some(name) = case.op().strip_prefix("nn.functional.conv") else { return Ok(None) };
    let convs = [f::conv1d, f::conv2d, f::conv3d];
    let transposes = [f::conv_transpose1d, f::conv_transpose2d, f::conv_transpose3d];
    let (dimensions, transposed) = match name {
        "1d" | "2d" | "3d" => (name, false),
        _ => match name.strip_prefix("_transpose") {
            Some(d) => (d, true),
            None => return Ok(None),
        },
    };
    let n = match dimensions {
        "1d" => 0,
        "2d" => 1,
        "3d" => 2,
        _ => return Ok(None),
    };
    let (x, weight, bias) = (case.tensor(0)?, case.tensor(1)?, case.optional(2));
    let groups = usize::try_from(case.int_or("groups", 1)?).map_err(|_| argument("groups is negative".into()))?;
    let (stride, dilation) = (sizes(case, "stride", 1)?, sizes(case, "dilation", 1)?);
    Ok(Some(vec![if transposed {
        let options =
            f::ConvTransposeOptions { stride, padding: sizes(case, "padding", 0)?, output_padding: sizes(case, "output_padding", 0)?, dilation, groups };
        transposes[n](x, weight, bias, &options)
    } else {
        let padding = match case.value("padding").and_then(|v| v.as_str()) {
            Some(word) => word.parse()?,
            None => f::Padding::Zeros(sizes(case, "padding", 0)?),
        };
        convs[n](x, weight, bias, &f::ConvOptions { stride, padding, dilation, groups })
    }]))
}
/// A size per spatial axis, or one for all.
pub fn sizes(case: &OpCall, name: &str, default: i64) -> Result<Sizes, Error> {
    let given = case.ints_or(name, &[default])?;
    let sizes: Option<Vec<usize>> = given.iter().map(|&s| usize::try_from(s).ok()).collect();
    sizes.map(Sizes::from).ok_or_else(|| argument(format!("`{name}` has a negative size: {given:?}")))
}
