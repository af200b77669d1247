//! Indexing, gathering, scattering.
use crate::goldens::call::OpCall;
use adamant::{
    Error, Tensor,
    tensor::{BagMode, ScatterReduce},
};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    let x = || case.tensor(0);
    let t = |k| case.tensor(k);
    let axis = || case.axis_or("dim", 0);
    Ok(Some(vec![match case.op() {
        "gather_" => x()?.gather(axis()?, t(1)?),
        "scatter_" => x()?.scatter(axis()?, t(1)?, t(2)?),
        "scatter_add_" => x()?.scatter_add(axis()?, t(1)?, t(2)?),
        "scatter_reduce_" => {
            let reduce = match case.text("reduce")? {
                "sum" => ScatterReduce::Sum,
                "prod" => ScatterReduce::Prod,
                "mean" => ScatterReduce::Mean,
                "amax" => ScatterReduce::Amax,
                "amin" => ScatterReduce::Amin,
                other => return Err(crate::goldens::call::argument(format!("`{other}` is no way to reduce"))),
            };
            x()?.scatter_reduce(axis()?, t(1)?, t(2)?, reduce, case.bool_or("include_self", true)?)
        }
        "index_select_" => x()?.index_select(axis()?, t(1)?),
        "index_add_" => x()?.index_add(axis()?, t(1)?, t(2)?, case.maybe_scalar("alpha")?.unwrap_or(adamant::Scalar::Int(1))),
        "index_copy_" => x()?.index_copy(axis()?, t(1)?, t(2)?),
        "index_fill_" => x()?.index_fill(axis()?, t(1)?, case.scalar("value")?),
        "masked_fill" => x()?.masked_fill(t(1)?, case.scalar("value")?),
        "masked_select" => x()?.masked_select(t(1)?),
        "take" => x()?.take(t(1)?),
        "take_along_dim" if case.maybe_int("dim")?.is_none() => x()?.ravel().take_along_dim(&t(1)?.ravel(), 0),
        "take_along_dim" => x()?.take_along_dim(t(1)?, axis()?),
        "index" => x()?.index(&case.tensors()[1..].iter().map(|t| Some(*t)).collect::<Vec<_>>()),
        "index_put" => x()?.index_put(&case.tensors()[2..].iter().map(|t| Some(*t)).collect::<Vec<_>>(), t(1)?, case.bool_or("accumulate", false)?),
        "slice" => {
            let bound = |name| Ok::<_, Error>(case.maybe_int(name)?.map(|i| i as isize));
            x()?.slice_signed(axis()?, bound("start")?, bound("end")?, case.size("step")?)
        }
        "getitem_int" => x()?.get(case.axis("index")?),
        "narrow" => x()?.narrow(axis()?, case.size("start")?, case.size("length")?),
        "select" => x()?.select(axis()?, case.axis("index")?),
        "tril" => x()?.tril(case.axis_or("diagonal", 0)?),
        "triu" => x()?.triu(case.axis_or("diagonal", 0)?),
        "diagonal" => x()?.diagonal(case.axis_or("offset", 0)?, case.axis_or("dim1", 0)?, case.axis_or("dim2", 1)?),
        "diag" => x()?.diag(case.axis_or("diagonal", 0)?),
        "diag_embed" => x()?.diag_embed(case.axis_or("offset", 0)?, case.axis_or("dim1", -2)?, case.axis_or("dim2", -1)?),
        "embedding" => {
            let rows = x()?.shape()?.first().copied().unwrap_or(0) as i64;
            // Python counts a negative row from the end.
            let padding = case.maybe_int("padding_idx")?.map(|p| if p < 0 { p + rows } else { p } as usize);
            adamant::functional::embedding(t(1)?, x()?, padding)
        }
        "embedding_bag" => {
            let mode = match case.text_or("mode", "mean")? {
                "sum" => BagMode::Sum,
                "max" => BagMode::Max,
                _ => BagMode::Mean,
            };
            x()?.embedding_bag(t(1)?, case.optional(2), mode)
        }
        "nn.functional.one_hot" => match case.int_or("num_classes", -1)? {
            // As many classes as the data needs.
            -1 => x()?.one_hot(usize::try_from(x()?.amax(..).item::<i64>()? + 1).unwrap_or(0)),
            _ => x()?.one_hot(case.size("num_classes")?),
        },
        "nonzero" => x()?.nonzero(),
        _ => return Ok(None),
    }]))
}
