//! Convolutions as one matrix product on columns (im2col: Chellapilla et al., High Performance Convolutional Neural Networks
//! for Document Processing, 2006). As much work as a kernel's, and a copy of the input for each element of the window. The
//! gradient of the input is a convolution with the mirrored weight over the cotangent's elements set `stride` apart: stride^axes
//! times the work, but each result is summed in one product and rounded once.
use super::slide::{Slide, columns, slides, transposed};
use crate::{
    Arg, Op, Result, Scalar, Tensor,
    op::{ConvRole, ConvSpec},
};

pub(super) fn body(spec: &ConvSpec, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let over = |size: &[usize]| slides(size, &spec.stride, &spec.dilation, &spec.padding);
    let (g, spatial) = (spec.groups, |t: &Tensor| t.meta().shape[2..].to_vec());
    match spec.role {
        ConvRole::Forward => forward(a, b, &over(&spatial(b)), g),
        ConvRole::InputGrad => {
            let (kernel, w) = (spatial(b), b.meta().shape);
            let (apart, back) = transposed(a, &over(&kernel), &spec.open)?;
            let mirrored = b.flip((2..w.rank() as isize).collect::<Vec<_>>());
            // [g * co, ci, k..] → [g * ci, co, k..]
            let (co, places) = (w[0] / g, kernel.iter().product::<usize>());
            let flipped = mirrored.reshape([g, co, w[1], places]).permute([0, 2, 1, 3]);
            forward(&apart, &flipped.reshape([vec![g * w[1], co], kernel].concat()), &back, g)
        }
        ConvRole::WeightGrad => {
            let (x, y) = (a.meta().shape, b.meta().shape);
            let (n, ci, co, stops): (_, _, _, usize) = (x[0], x[1] / g, y[1] / g, y[2..].iter().product());
            let places: usize = spec.open.iter().product();
            // Samples and stops are one long axis that the product sums over.
            let windows = stretched(a, &over(&spec.open))?.reshape([n, g, ci * places, stops]).permute([1, 0, 3, 2]).reshape([g, n * stops, ci * places]);
            let y = b.reshape([n, g, co, stops]).permute([1, 2, 0, 3]).reshape([g, co, n * stops]);
            Ok(Tensor::apply(Op::Matmul, Arg::None, &[&y, &windows]).reshape([&[g * co, ci], &spec.open[..]].concat()))
        }
    }
}
/// `[n, c, in..]` → `[n, c, k.., out..]`
fn stretched(x: &Tensor, over: &[Slide]) -> Result<Tensor> {
    let s = over.len();
    let places = (0..s).map(|d| 2 + 2 * d);
    let order: Vec<usize> = [0, 1].into_iter().chain(places.clone()).chain(places.map(|p| p + 1)).collect();
    Ok(columns(x, 2, over, Scalar::Float(0.0))?.permute(order))
}
fn forward(x: &Tensor, w: &Tensor, over: &[Slide], g: usize) -> Result<Tensor> {
    let windows = stretched(x, over)?;
    let (shape, w_shape) = (windows.meta().shape, w.meta().shape);
    let out = &shape[2 + over.len()..];
    let (n, co, depth) = (shape[0], w_shape[0] / g, w_shape[1..].iter().product::<usize>());
    let windows = windows.reshape([n, g, depth, out.iter().product::<usize>()]);
    let w = w.reshape([1, g, co, depth]).expand([n, g, co, depth]);
    Ok(Tensor::apply(Op::Matmul, Arg::None, &[&w, &windows]).reshape([&[n, g * co], out].concat()))
}
