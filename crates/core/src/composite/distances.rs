//! Distances of all pairs of rows. A composite because a kernel keeps a sum in a register where the body makes the differences of
//! all pairs; the gradient of Euclidean ones is made of products.
use super::{Compound, RuleArgs, Saves, StackedInput, of_stacks};
use crate::{Device, Result, Tensor, composite::Cotangents};
pub use adamant_ir::composite::distances::*;
use smallvec::smallvec;

impl Compound for Distances {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, y) = (&inputs[0], inputs.get(1).unwrap_or(&inputs[0]));
        let all = (x.unsqueeze(-2) - y.unsqueeze(-3)).vector_norm(self.ord, -1);
        Ok(vec![if self.among { all.ravel().index_select(0, &behind(x.meta().shape[0], x.meta().device)) } else { all }])
    }
    fn saves(&self) -> Option<Saves> {
        // Others are what their bodies are differentiated to.
        (self.ord == 2.0).then(|| Saves { outputs: 1, ..Saves::inputs(if self.among { 1 } else { 2 }) })
    }
    /// Of `d = |x - y|`: `(x - y) g / d`, summed over the other rows, and 0 where d is.
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let mut out: Cotangents = smallvec![None; args.metas.len()];
        let Some(g) = &args.cotangents[0] else { return Ok(out) };
        let distance = args.output(0)?;
        let none = distance.eq(0.0);
        let weight = none.where_(0.0, g / none.where_(1.0, distance));
        let x = args.input(0)?;
        if self.among {
            let n = x.meta().shape[0];
            let m = weight.meta();
            let upper = Tensor::zeros_on([n * n], m.dtype, m.device).scatter_add(0, &behind(n, m.device), &weight).reshape([n, n]);
            out[0] = Some(pulled(x, x, &(&upper + upper.transpose(0, 1))));
            return Ok(out);
        }
        let y = args.input(1)?;
        if args.needs[0] {
            out[0] = Some(pulled(x, y, &weight));
        }
        if args.needs[1] {
            out[1] = Some(pulled(y, x, &weight.transpose(-2, -1)));
        }
        Ok(out)
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        if !self.among {
            return of_stacks(*self, inputs, examples);
        }
        let x = inputs.first()?.of_each(examples);
        let (rows, device) = (x.meta().shape[1], x.meta().device);
        let all = Tensor::composite1(Distances { among: false, ..*self }, &[&x, &x]);
        Some(Ok(vec![all.reshape([examples, rows * rows]).index_select(1, &behind(rows, device))]))
    }
}
/// `sum_j weight[i, j] (x[i] - y[j])`, by a product. It does not change with the origin; the middle of y is a near one, beside
/// which differences of close rows keep their digits.
fn pulled(x: &Tensor, y: &Tensor, weight: &Tensor) -> Tensor {
    let middle = y.detach();
    let middle = if middle.meta().shape.contains(&0) { middle.sum_keepdim(-2) } else { middle.mean_keepdim(-2) };
    (x - &middle) * weight.sum_keepdim(-1) - weight.matmul(y - &middle)
}
/// Where the pairs of a row and one behind it are among all pairs.
fn behind(rows: usize, device: Device) -> Tensor {
    let n = rows as i64;
    let places: Vec<i64> = (0..n).flat_map(|i| (i + 1..n).map(move |j| i * n + j)).collect();
    Tensor::from_slice(&places, [places.len()]).to(device)
}
