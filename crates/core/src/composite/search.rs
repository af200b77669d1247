//! Places in sorted rows. A composite because a kernel looks for each value by itself, where the body halves all ranges together.
use super::{Compound, RuleArgs, Saves, StackedInput, of_stacks};
use crate::{DType, Result, Tensor, composite::Cotangents};
pub use adamant_ir::composite::search::*;
use smallvec::smallvec;

/// Rows up to this length are searched by counting, longer ones by halving.
const COUNTED: usize = 64;

impl Compound for SearchSorted {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (sorted, values) = (inputs[0].detach(), inputs[1].detach());
        let (rows, v) = (sorted.meta(), values.meta());
        let rank = rows.shape.rank();
        let n = rows.shape[rank - 1];
        // NaN is the largest of all, as in sorting: a value that is NaN goes behind all that is none.
        let behind = |element: &Tensor, value: &Tensor| {
            let (number, last) = (element.eq(element), value.ne(value));
            if self.right { element.le(value).logical_or(&last) } else { element.lt(value).logical_or(number.logical_and(&last)) }
        };
        if n <= COUNTED {
            let wide = if rank == 1 { sorted.clone() } else { sorted.unsqueeze(-2) };
            return Ok(vec![behind(&wide, &values.unsqueeze(-1)).sum(-1)]);
        }
        let look_up = |at: &Tensor| if rank == 1 { sorted.gather(0, &at.ravel()).reshape(v.shape) } else { sorted.gather(-1, at) };
        let mut low = Tensor::zeros_on(v.shape, DType::I64, v.device);
        let mut high = Tensor::full_on(v.shape, n, DType::I64, v.device);
        for _ in 0..usize::BITS - n.leading_zeros() {
            let middle = (&low + &high).bitwise_right_shift(1i64);
            let open = low.lt(&high);
            let go = behind(&look_up(&middle.minimum(n - 1)), &values);
            low = open.logical_and(&go).where_(&middle + 1i64, &low);
            high = open.logical_and(go.logical_not()).where_(&middle, &high);
        }
        Ok(vec![low])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::inputs(0))
    }
    /// A count has no gradient.
    fn rule(&self, _: &RuleArgs<'_>) -> Result<Cotangents> {
        Ok(smallvec![None; 2])
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        // A vector for all examples is one for all of their values; one of each goes with values that are vectors too.
        match inputs {
            [rows, values] if !rows.batched && rows.tensor.rank() == 1 => Some(Ok(vec![Tensor::composite1(*self, &[&rows.tensor, &values.tensor])])),
            [rows, values] if rows.tensor.rank() - usize::from(rows.batched) == values.tensor.rank() - usize::from(values.batched) => {
                of_stacks(*self, inputs, examples)
            }
            _ => None,
        }
    }
}
