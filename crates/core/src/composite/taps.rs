//! Weighted sums of a few elements along an axis. A composite because a kernel makes one pass of what would be a gather, a product
//! and a sum for each tap.
use super::{Compound, RuleArgs, Saves, StackedInput, loss::gather};
use crate::{AxisSet, Result, Shape, Tensor, composite::Cotangents};
pub use adamant_ir::composite::taps::*;
use smallvec::smallvec;

/// Row k of a table `[taps, to]`, as it belongs to each element of a tensor of this shape.
fn of_tap(table: &Tensor, k: usize, axis: usize, rank: usize) -> Tensor {
    let dims = Shape::along(0, table.meta().shape[1], rank - axis);
    table.select(0, k).reshape(dims)
}
fn indices(table: &Tensor, k: usize, axis: usize, shape: Shape) -> Tensor {
    of_tap(table, k, axis, shape.rank()).expand(shape)
}
/// As for stacks of all inputs of which only the first is one: another axis in front.
fn of_first_alone(inputs: &[StackedInput], apply: impl FnOnce(&[&Tensor]) -> Tensor) -> Option<Result<Vec<Tensor>>> {
    let [x, index, weight] = inputs else { return None };
    (x.batched && !index.batched && !weight.batched).then(|| Ok(vec![apply(&[&x.tensor, &index.tensor, &weight.tensor])]))
}

impl Compound for Taps {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, index, weight) = (&inputs[0], &inputs[1], &inputs[2]);
        let shape = x.meta().shape;
        let [taps, to] = [0, 1].map(|a| index.meta().shape[a]);
        let part = |k: usize| gather(x, self.axis, &indices(index, k, self.axis, shape.with(self.axis, to))) * of_tap(weight, k, self.axis, shape.rank());
        Ok(vec![(1..taps).fold(part(0), |sum, k| sum + part(k))])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::inputs(3))
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let mut out: Cotangents = smallvec![None; 3];
        let Some(g) = &args.cotangents[0] else { return Ok(out) };
        let (x, index, weight) = (args.input(0)?, args.input(1)?, args.input(2)?);
        let (axis, shape) = (self.axis, args.metas[0].shape);
        if args.needs[0] {
            out[0] = Some(Tensor::composite1(TapsBackward { axis, size: shape[axis] }, &[g, index, weight]));
        }
        if args.needs[2] {
            let [taps, to] = [0, 1].map(|a| index.meta().shape[a]);
            let mut others = AxisSet::all(shape.rank());
            others.0 &= !(1 << axis);
            let of_weight = |k: usize| (g * gather(x, axis, &indices(index, k, axis, shape.with(axis, to)))).sum_keepdim(others).reshape([1, to]);
            let all: Vec<Tensor> = (0..taps).map(of_weight).collect();
            out[2] = Some(Tensor::cat(&all, 0));
        }
        Ok(out)
    }
    fn stacked(&self, inputs: &[StackedInput], _: usize) -> Option<Result<Vec<Tensor>>> {
        of_first_alone(inputs, |all| Tensor::composite1(Taps { axis: self.axis + 1 }, all))
    }
}
impl Compound for TapsBackward {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (g, index, weight) = (&inputs[0], &inputs[1], &inputs[2]);
        let m = g.meta();
        let zeros = Tensor::zeros_on(m.shape.with(self.axis, self.size), m.dtype, m.device);
        let taps = index.meta().shape[0];
        Ok(vec![(0..taps).fold(zeros, |sum, k| {
            let part = g * of_tap(weight, k, self.axis, m.shape.rank());
            sum.scatter_add(self.axis, &indices(index, k, self.axis, m.shape), &part)
        })])
    }
    fn stacked(&self, inputs: &[StackedInput], _: usize) -> Option<Result<Vec<Tensor>>> {
        of_first_alone(inputs, |all| Tensor::composite1(TapsBackward { axis: self.axis + 1, ..*self }, all))
    }
}
