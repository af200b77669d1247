//! Shapes and views.
use crate::goldens::call::OpCall;
use adamant::{Error, Tensor, tensor::Indexing};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    let x = || case.tensor(0);
    let all = case.tensors();
    Ok(Some(vec![match case.op() {
        "reshape" => x()?.reshape(case.sizes("shape")?),
        "view" => x()?.reshape(case.sizes("shape")?),
        "flatten" => x()?.flatten(case.axis_or("start_dim", 0)?, case.axis_or("end_dim", -1)?),
        "unflatten" => x()?.unflatten(case.axis("dim")?, case.sizes("sizes")?),
        "unsqueeze" => x()?.unsqueeze(case.axis("dim")?),
        "squeeze" => match case.maybe_sizes("dim")? {
            Some(axes) => x()?.squeeze(axes),
            None => x()?.squeeze(..),
        },
        "transpose" => x()?.transpose(case.axis("dim0")?, case.axis("dim1")?),
        "swapaxes" => x()?.transpose(case.axis("axis0")?, case.axis("axis1")?),
        "permute" => x()?.permute(case.sizes("dims")?),
        "movedim" => x()?.movedim(case.sizes("source")?, case.sizes("destination")?),
        "tile" => x()?.tile(case.sizes("dims")?),
        "repeat" => x()?.repeat(case.sizes("repeats")?),
        "repeat_interleave" => match case.maybe_int("dim")? {
            Some(axis) => x()?.repeat_interleave(case.size("repeats")?, axis),
            None => x()?.ravel().repeat_interleave(case.size("repeats")?, 0),
        },
        "flip" => x()?.flip(case.sizes("dims")?),
        "fliplr" => x()?.fliplr(),
        "flipud" => x()?.flipud(),
        "roll" => x()?.roll(case.sizes("shifts")?, case.maybe_sizes("dims")?.unwrap_or_default()),
        "rot90" => {
            let axes = case.maybe_sizes("dims")?.unwrap_or_else(|| vec![0, 1]);
            let axes = <[isize; 2]>::try_from(axes).map_err(|a| crate::goldens::call::argument(format!("two axes, not {a:?}")))?;
            x()?.rot90(case.int_or("k", 1)? as isize, axes)
        }
        "expand" => x()?.expand(case.sizes("shape")?),
        "broadcast_to" => x()?.expand(case.sizes("size")?),
        "adjoint" => x()?.adjoint(),
        "ravel" => x()?.ravel(),
        "t" => x()?.t(),
        "atleast_1d" => x()?.atleast_1d(),
        "atleast_2d" => x()?.atleast_2d(),
        "atleast_3d" => x()?.atleast_3d(),
        "tensor_unfold" => x()?.unfold(case.axis("dimension")?, case.size("size")?, case.size("step")?),
        "cat" => Tensor::cat(&all, case.axis_or("dim", 0)?),
        "stack" => Tensor::stack(&all, case.axis_or("dim", 0)?),
        "hstack" => Tensor::hstack(&all),
        "vstack" => Tensor::vstack(&all),
        "dstack" => Tensor::dstack(&all),
        "block_diag" => Tensor::block_diag(&all),
        _ => return several(case),
    }]))
}
/// The ops with more than one output.
fn several(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    let x = || case.tensor(0);
    let axis = || case.axis_or("dim", 0);
    Ok(Some(match case.op() {
        "split" => match case.value("split_size_or_sections") {
            Some(v) if v.is_array() => x()?.split_with_sizes(&sizes(case, "split_size_or_sections")?, axis()?)?,
            _ => x()?.split(case.size("split_size_or_sections")?, axis()?)?,
        },
        "chunk" => x()?.chunk(case.size("chunks")?, axis()?)?,
        "tensor_split_n" => x()?.tensor_split(case.size("sections")?, axis()?)?,
        "unbind" => x()?.unbind(axis()?)?,
        "meshgrid" => Tensor::meshgrid(&case.tensors(), if case.text_or("indexing", "ij")? == "xy" { Indexing::Xy } else { Indexing::Ij })?,
        _ => return Ok(None),
    }))
}
/// Sizes that are not negative.
fn sizes(case: &OpCall, name: &str) -> Result<Vec<usize>, Error> {
    case.ints_or_int(name)?.into_iter().map(|i| usize::try_from(i).map_err(|_| crate::goldens::call::argument(format!("{i} is no size")))).collect()
}
