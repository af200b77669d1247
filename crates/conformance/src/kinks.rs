//! Where a function has no derivative its gradient is a convention. Ours is PyTorch's; here are its values.
use crate::{
    data::{download, upload},
    registry::{Call, Outputs},
};
use adamant_core::{
    DType, Device, Error, HostArray, Shape, Tensor,
    functional::{self as f, MaxPoolOptions, Reduction},
    reference::round_float,
    tensor::ScatterReduce,
};

/// A point without a derivative.
pub struct Kink {
    /// the function
    pub name: &'static str,
    /// its inputs, one after the other, each a vector
    pub inputs: &'static [&'static [f64]],
    /// the call; the sum of its first output is differentiated
    pub call: Call,
    /// the gradient by each input
    pub gradients: &'static [&'static [f64]],
}
macro_rules! kinks {
    ($($name:literal [$($input:expr),*] |$x:ident| $call:expr => [$($g:expr),*]),* $(,)?) => {
        &[$(Kink { name: $name, inputs: &[$(&$input),*], call: |$x| Outputs::outputs($call), gradients: &[$(&$g),*] }),*]
    };
}
/// The table.
pub const KINKS: &[Kink] = kinks! {
    "abs" [[0.0, -0.0]] |x| x[0].abs() => [[0.0, 0.0]],
    "sign" [[0.0]] |x| x[0].sign() => [[0.0]],
    "relu" [[0.0, -0.0]] |x| x[0].relu() => [[0.0, 0.0]],
    "relu6" [[0.0, 6.0]] |x| x[0].relu6() => [[0.0, 0.0]],
    "leaky_relu" [[0.0]] |x| x[0].leaky_relu(0.1) => [[0.1]],
    "hardtanh" [[-1.0, 1.0]] |x| x[0].hardtanh(-1.0, 1.0) => [[0.0, 0.0]],
    "hardshrink" [[-0.5, 0.5]] |x| x[0].hardshrink(0.5) => [[0.0, 0.0]],
    "softshrink" [[-0.5, 0.5]] |x| x[0].softshrink(0.5) => [[0.0, 0.0]],
    "threshold" [[0.5]] |x| x[0].threshold(0.5, 2.0) => [[0.0]],
    "clamp at its bounds" [[-1.0, 1.0]] |x| x[0].clamp(-1.0, 1.0) => [[0.0, 0.0]],
    "maximum of equals" [[2.0], [2.0]] |x| x[0].maximum(&x[1]) => [[0.5], [0.5]],
    "minimum of equals" [[2.0], [2.0]] |x| x[0].minimum(&x[1]) => [[0.5], [0.5]],
    "amax of equals" [[1.0, 3.0, 3.0]] |x| x[0].amax(0) => [[0.0, 0.5, 0.5]],
    "amin of equals" [[1.0, 1.0, 3.0]] |x| x[0].amin(0) => [[0.5, 0.5, 0.0]],
    "max of equals along an axis: the first" [[1.0, 3.0, 3.0]] |x| x[0].max_dim(0) => [[0.0, 1.0, 0.0]],
    "sort of equals: stable" [[3.0, 1.0, 1.0]] |x| x[0].sort(0, false).0.narrow(0, 0, 1) => [[0.0, 1.0, 0.0]],
    "topk of equals" [[1.0, 1.0]] |x| x[0].topk(2, 0, true) => [[1.0, 1.0]],
    "cummax of equals: the latest" [[2.0, 2.0]] |x| x[0].cummax(0) => [[1.0, 1.0]],
    "norm of zero" [[0.0, 0.0]] |x| x[0].norm() => [[0.0, 0.0]],
    "l1_loss of equals" [[1.0], [1.0]] |x| f::l1_loss(&x[0], &x[1], Reduction::Sum) => [[0.0], [0.0]],
    "prod with one zero" [[2.0, 0.0, 3.0]] |x| x[0].prod(0) => [[0.0, 6.0, 0.0]],
    "floor" [[1.0]] |x| x[0].floor() => [[0.0]],
    "ceil, round and trunc" [[1.0, 0.5]] |x| x[0].ceil() + x[0].round() + x[0].trunc() => [[0.0, 0.0]],
    "sinc" [[0.0]] |x| x[0].sinc() => [[0.0]],
    "elu" [[0.0]] |x| x[0].elu(1.5) => [[1.5]],
    "celu" [[0.0]] |x| x[0].celu(1.5) => [[1.0]],
    "prelu" [[0.0], [0.25]] |x| x[0].prelu(&x[1]) => [[0.25], [0.0]],
    "hardsigmoid" [[-3.0, 3.0]] |x| x[0].hardsigmoid() => [[0.0, 0.0]],
    "fmax of equals: half each" [[2.0], [2.0]] |x| x[0].fmax(&x[1]) => [[0.5], [0.5]],
    "fmin of equals: half each" [[2.0], [2.0]] |x| x[0].fmin(&x[1]) => [[0.5], [0.5]],
    "std of equals" [[2.0, 2.0]] |x| x[0].std(0, 1.0) => [[0.0, 0.0]],
    "the 1-norm of zero" [[0.0, 0.0]] |x| x[0].vector_norm(1.0, ..) => [[0.0, 0.0]],
    "the infinity norm of equals" [[2.0, -2.0]] |x| x[0].vector_norm(f64::INFINITY, ..) => [[0.5, -0.5]],
    "the largest and the smallest of equals" [[1.0, 1.0]] |x| x[0].aminmax(0) => [[0.5, 0.5]],
    "max pooling of equals: the first" [[3.0, 3.0, 1.0, 1.0]] |x| f::max_pool1d(&x[0].reshape([1, 1, 4]), &MaxPoolOptions::new(2)) => [[1.0, 0.0, 1.0, 0.0]],
    "scatter_reduce of equals" [[2.0], [2.0, 2.0]] |x| x[0].scatter_reduce(0, &Tensor::zeros_on([2], DType::I64, x[0].device().unwrap_or(Device::reference())), &x[1], ScatterReduce::Amax, true) => [[1.0 / 3.0], [1.0 / 3.0, 1.0 / 3.0]],
    "margin_ranking_loss at its margin" [[1.0], [1.0]] |x| f::margin_ranking_loss(&x[0], &x[1], &x[0].detach(), 0.0, Reduction::Sum) => [[0.0], [0.0]],
};
/// Compares one row with the device.
///
/// # Errors
/// The values that differ, in words.
pub fn check(device: Device, kink: &Kink) -> Result<(), String> {
    let run = || -> Result<Vec<Vec<f64>>, Error> {
        // Through the host, where every dtype is.
        let float = crate::suite::widest_float(device);
        let array = |v: &[f64]| HostArray::floats(Shape::new(&[v.len()]).unwrap_or(Shape::SCALAR), float, v.to_vec());
        let x: Vec<Tensor> = kink.inputs.iter().map(|v| upload(&array(v), device).tracked()).collect();
        let y = (kink.call)(&x).into_iter().next().unwrap_or_else(|| x[0].clone());
        let grads = y.sum(..).backward()?;
        x.iter()
            .map(|x| grads.get(x).map_or_else(|| Ok(vec![0.0; x.shape()?.elements()]), |g| download(g).map(|g| (0..g.len()).map(|k| g.float(k)).collect())))
            .collect()
    };
    let got = device.scoped(run).map_err(|e| e.to_string())?;
    let float = crate::suite::widest_float(device);
    let want: Vec<Vec<f64>> = kink.gradients.iter().map(|g| g.iter().map(|&v| round_float(v, float)).collect()).collect();
    if got == want { Ok(()) } else { Err(format!("gradient {got:?}, PyTorch's is {want:?}")) }
}
