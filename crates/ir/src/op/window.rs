//! Sliding windows over the trailing axes.
use super::{arg_reduce::beats, form, reduce::ReduceOp, reduce::combine, rules::arity};
use crate::{Attrs, DType, ErrorKind, HostArray, MAX_RANK, Op, Scalar, Shape, TensorType, cost::Cost, host::coordinates};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Sliding windows over the last axes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WindowSpec {
    /// what is done in a window
    pub op: WindowOp,
    /// window size, per spatial axis
    pub size: SmallVec<[usize; 3]>,
    /// step, per spatial axis
    pub stride: SmallVec<[usize; 3]>,
    /// padding before and after, per spatial axis (of the op's identity)
    pub padding: SmallVec<[(usize, usize); 3]>,
    /// spacing inside the window, per spatial axis
    pub dilation: SmallVec<[usize; 3]>,
    /// for `SumTransposed`: the spatial sizes of its output
    pub open: SmallVec<[usize; 3]>,
}

/// What happens in a window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WindowOp {
    /// maximum (NaN wins) and its flat index in the spatial plane, i64
    Max,
    /// sum
    Sum,
    /// the transposed sum: each input element is added to every position of its window
    SumTransposed,
}

/// Output size of a window along one axis, or `None` if the window does not fit.
pub fn window_size(size: usize, window: usize, stride: usize, (lo, hi): (usize, usize), dilation: usize) -> Option<usize> {
    let reach = window.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
    let padded = size.checked_add(lo)?.checked_add(hi)?;
    Some(padded.checked_sub(reach)? / stride + 1)
}

impl WindowSpec {
    /// Number of spatial axes.
    pub fn spatial(&self) -> usize {
        self.size.len()
    }
    pub(super) fn infer(&self, inputs: &[TensorType]) -> Result<Shape, ErrorKind> {
        arity("window", 1, inputs)?;
        let x = &inputs[0];
        let s = self.spatial();
        let r = x.shape.rank();
        if !x.dtype.computes() || x.dtype == DType::Bool {
            return Err(ErrorKind::Dtype(format!("windows need numbers, not {}", x.dtype)));
        }
        if !(1..=3).contains(&s) || self.stride.len() != s || self.padding.len() != s || self.dilation.len() != s || r < s {
            return Err(ErrorKind::Shape {
                shape: x.shape,
                expected: format!("at least {s} axes, and one size, stride, padding and dilation for each spatial one"),
            });
        }
        if self.stride.contains(&0) || self.dilation.contains(&0) || self.size.contains(&0) {
            return Err(ErrorKind::Argument("size, stride and dilation of a window are at least 1".into()));
        }
        let mut dims: SmallVec<[usize; MAX_RANK]> = SmallVec::from_slice(&x.shape);
        for k in 0..s {
            let axis = r - s + k;
            let (size, pad) = (self.size[k], self.padding[k]);
            if self.op == WindowOp::Max && (pad.0 * 2 > self.dilation[k] * (size - 1) + 1 || pad.1 >= self.dilation[k] * (size - 1) + 1 + self.stride[k]) {
                return Err(ErrorKind::Argument(format!("padding {} is more than half of the reach of a window of {size}", pad.0)));
            }
            if self.op == WindowOp::SumTransposed {
                let open = *self.open.get(k).ok_or_else(|| ErrorKind::Argument("an open size per spatial axis is needed".into()))?;
                if window_size(open, size, self.stride[k], pad, self.dilation[k]) != Some(x.shape[axis]) {
                    return Err(ErrorKind::Argument(format!("windows of {size} over {open} do not give {}", x.shape[axis])));
                }
                dims[axis] = open;
            } else {
                dims[axis] = window_size(x.shape[axis], size, self.stride[k], pad, self.dilation[k])
                    .ok_or_else(|| ErrorKind::Shape { shape: x.shape, expected: format!("axis {axis} padded by {pad:?} must hold a window of {size}") })?;
            }
        }
        Shape::new(&dims)
    }
}

/// One operation for each element of each window.
pub(crate) fn cost(spec: &WindowSpec, made: &TensorType) -> Cost {
    Cost::elementwise(spec.size.iter().fold(made.shape.elements(), |n, s| n.saturating_mul(*s)))
}

/// The results in plain f64.
pub(crate) fn run(spec: &WindowSpec, x: &HostArray, metas: &[TensorType]) -> Vec<HostArray> {
    let s = spec.spatial();
    let lead = x.shape.rank() - s;
    let transposed = spec.op == WindowOp::SumTransposed;
    // `wide` is what the windows slide over, `narrow` has one element per window.
    let (wide, narrow) = if transposed { (metas[0].shape, x.shape) } else { (x.shape, metas[0].shape) };
    let float = x.dtype.is_float();
    let mut values: Vec<Option<Scalar>> = vec![None; metas[0].shape.elements()];
    let mut at_index = vec![0i64; if spec.op == WindowOp::Max { values.len() } else { 0 }];
    let Ok(kernel) = Shape::new(&spec.size) else { return Vec::new() };
    for i in coordinates(&narrow) {
        for k in coordinates(&kernel) {
            let mut from = i[..lead].to_vec();
            for d in 0..s {
                let p = (i[lead + d] * spec.stride[d] + k[d] * spec.dilation[d]) as isize - spec.padding[d].0 as isize;
                match usize::try_from(p).ok().filter(|&p| p < wide[lead + d]) {
                    Some(p) => from.push(p),
                    None => break,
                }
            }
            if from.len() < lead + s {
                continue;
            }
            let flat = |i: &[usize], sh: &Shape| i.iter().zip(sh.iter()).fold(0, |at, (&i, &d)| at * d + i);
            let (read, write) = if transposed { (flat(&i, &narrow), flat(&from, &wide)) } else { (flat(&from, &wide), flat(&i, &narrow)) };
            let v = x.scalar(read);
            match (spec.op, values[write]) {
                (WindowOp::Max, old) => {
                    if old.is_none_or(|b| beats(true, v, b)) {
                        values[write] = Some(v);
                        at_index[write] = from[lead..].iter().zip(&wide[lead..]).fold(0, |at, (&i, &d)| at * d + i) as i64;
                    }
                }
                (_, None) => values[write] = Some(v),
                (_, Some(a)) => values[write] = Some(combine(ReduceOp::Sum, a, v, float)),
            }
        }
    }
    let empty = if spec.op == WindowOp::Max && float { Scalar::Float(f64::NEG_INFINITY) } else { Scalar::Int(0) };
    let mut out = vec![HostArray::from_scalars(&metas[0], values.into_iter().map(|v| v.unwrap_or(empty)))];
    if spec.op == WindowOp::Max {
        out.push(HostArray::ints(metas[1].shape, DType::I64, at_index));
    }
    out
}

/// The attributes in a graph's text.
pub(crate) fn attributes(spec: &WindowSpec, _: &[TensorType], _: &mut form::FormContext<'_>) -> Attrs {
    let mut attrs: Attrs = smallvec![
        ("size", form::ints(spec.size.iter().copied())),
        ("stride", form::ints(spec.stride.iter().copied())),
        ("padding", form::pairs(&spec.padding)),
        ("dilation", form::ints(spec.dilation.iter().copied())),
    ];
    attrs.extend((!spec.open.is_empty()).then(|| ("open", form::ints(spec.open.iter().copied()))));
    attrs
}
fn made(op: WindowOp, m: &mut form::Made<'_>) -> form::FormResult<Op> {
    let given = &mut *m.given;
    Ok(Op::Window(Arc::new(WindowSpec {
        op,
        size: form::small(given.sizes("size")?)?,
        stride: form::small(given.sizes("stride")?)?,
        padding: form::in_pairs(given.sizes("padding")?)?,
        dilation: form::small(given.sizes("dilation")?)?,
        open: form::small(given.sizes_or_none("open")?)?,
    })))
}
/// How it is made again of them.
pub(crate) const MAKERS: form::Makers =
    &[("max_pool", |m| made(WindowOp::Max, m)), ("sum_pool", |m| made(WindowOp::Sum, m)), ("sum_pool_transposed", |m| made(WindowOp::SumTransposed, m))];
