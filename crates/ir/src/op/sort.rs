//! Stable sorting along an axis.
use super::{
    form,
    rules::{arity, axis_in, computes},
};
use crate::{Attr, Attrs, DType, ErrorKind, HostArray, Op, Scalar, TensorType, host::coordinates};
use smallvec::smallvec;

/// The type of the result.
///
/// # Errors
/// Shapes, dtypes or axes that do not go together.
pub(super) fn infer(axis: u8, inputs: &[TensorType]) -> Result<TensorType, ErrorKind> {
    arity("sort", 1, inputs)?;
    computes(inputs[0].dtype)?;
    axis_in(axis, &inputs[0].shape)?;
    Ok(inputs[0])
}

/// The values and where they were, in plain f64.
pub(crate) fn run(axis: u8, descending: bool, x: &HostArray, types: &[TensorType]) -> Vec<HostArray> {
    let a = axis as usize;
    let n = x.shape[a];
    let mut order = vec![0i64; x.len()];
    let mut sorted: Vec<Scalar> = vec![Scalar::Int(0); x.len()];
    for i in coordinates(&x.shape.with(a, 1)) {
        let mut from = i.clone();
        let mut at = |k: usize| {
            from[a] = k;
            x.at(&from)
        };
        let places: Vec<usize> = (0..n).map(&mut at).collect();
        let mut line: Vec<usize> = (0..n).collect();
        // NaN is the largest; equal elements keep their order either way.
        line.sort_by(|&p, &q| {
            let (p, q) = (x.scalar(places[p]), x.scalar(places[q]));
            let up = compare(p, q);
            if descending { up.reverse() } else { up }
        });
        for (k, &l) in line.iter().enumerate() {
            sorted[places[k]] = x.scalar(places[l]);
            order[places[k]] = l as i64;
        }
    }
    vec![HostArray::from_scalars(&types[0], sorted.into_iter()), HostArray::ints(types[1].shape, DType::I64, order)]
}

fn compare(a: Scalar, b: Scalar) -> std::cmp::Ordering {
    match (a, b) {
        (Scalar::Float(x), Scalar::Float(y)) => x.partial_cmp(&y).unwrap_or_else(|| x.is_nan().cmp(&y.is_nan())),
        _ => a.to_i64().cmp(&b.to_i64()),
    }
}

/// The attributes in a graph's text.
pub(crate) fn attributes((axis, descending): (&u8, &bool), _: &[TensorType], _: &mut form::FormContext<'_>) -> Attrs {
    smallvec![form::axis(*axis), ("descending", Attr::Bool(*descending))]
}
/// How it is made again of them.
pub(crate) const MAKERS: form::Makers = &[("sort", |m| Ok(Op::Sort { axis: m.axis()?, descending: m.given.bool("descending")? }))];
