//! Tensors from numbers alone. PyTorch makes all of them of f32, if no dtype is said.
use super::{
    ArgKind::{Dtype, Flag, Int, Ints, Number, Real},
    Seen, TorchFunction, functions,
};
use crate::random::Random;
use adamant_core::Tensor;

fn sizes(_: &Seen, random: &mut Random) -> Vec<i64> {
    let axes = random.below(4);
    (0..axes).map(|_| random.below(4) as i64).collect()
}
const ENDS: super::ArgKind = Real(&[-1.5, -1.0, 0.0, 0.5, 2.0, 3.5]);
const COUNT: super::ArgKind = Int(0, 6);

pub(super) fn rows() -> Vec<TorchFunction> {
    functions! {
        "Tensor::zeros" "torch.zeros(x[0])" [Ints(sizes)] |a| Tensor::zeros(a.sizes(0)),
        "Tensor::ones" "torch.ones(x[0])" [Ints(sizes)] |a| Tensor::ones(a.sizes(0)),
        "Tensor::full" "torch.full(x[0], x[1], dtype=x[2])" [Ints(sizes), Number, Dtype] |a| Tensor::full(a.sizes(0), a.number(1), a.dtype(2)),
        "Tensor::arange" "torch.arange(x[0], x[1], x[2], dtype=x[3])" [Number, Number, Number, Dtype] |a| Tensor::arange(a.number(0), a.number(1), a.number(2), a.dtype(3)),
        "Tensor::linspace" "torch.linspace(x[0], x[1], x[2], dtype=x[3])" [ENDS, ENDS, COUNT, Dtype] |a| Tensor::linspace(a.real(0), a.real(1), a.size(2), a.dtype(3)),
        "Tensor::logspace" "torch.logspace(x[0], x[1], x[2], x[3], dtype=x[4])" [ENDS, ENDS, COUNT, Real(&[2.0, 10.0, 0.5]), Dtype] |a| Tensor::logspace(a.real(0), a.real(1), a.size(2), a.real(3), a.dtype(4)),
        "Tensor::fftfreq" "torch.fft.fftfreq(x[0], x[1])" [COUNT, Real(&[0.5, 1.0, 3.0])] |a| Tensor::fftfreq(a.size(0), a.real(1)),
        "Tensor::rfftfreq" "torch.fft.rfftfreq(x[0], x[1])" [COUNT, Real(&[0.5, 1.0, 3.0])] |a| Tensor::rfftfreq(a.size(0), a.real(1)),
        "Tensor::hann_window" "torch.hann_window(x[0], x[1], dtype=x[2])" [COUNT, Flag, Dtype] |a| Tensor::hann_window(a.size(0), a.flag(1), a.dtype(2)),
        "Tensor::hamming_window" "torch.hamming_window(x[0], x[1], dtype=x[2])" [COUNT, Flag, Dtype] |a| Tensor::hamming_window(a.size(0), a.flag(1), a.dtype(2)),
        "Tensor::blackman_window" "torch.blackman_window(x[0], x[1], dtype=x[2])" [COUNT, Flag, Dtype] |a| Tensor::blackman_window(a.size(0), a.flag(1), a.dtype(2)),
        "Tensor::bartlett_window" "torch.bartlett_window(x[0], x[1], dtype=x[2])" [COUNT, Flag, Dtype] |a| Tensor::bartlett_window(a.size(0), a.flag(1), a.dtype(2)),
        "Tensor::kaiser_window" "torch.kaiser_window(x[0], x[1], x[2], dtype=x[3])" [COUNT, Flag, Real(&[0.0, 5.0, 12.0]), Dtype] |a| Tensor::kaiser_window(a.size(0), a.flag(1), a.real(2), a.dtype(3)),
        "Tensor::eye" "torch.eye(x[0])" [Int(0, 4)] |a| Tensor::eye(a.size(0)),
        "Tensor::tril_indices" "torch.tril_indices(x[0], x[1], x[2])" [Int(0, 4), Int(0, 4), Int(-3, 3)] |a| Tensor::tril_indices(a.size(0), a.size(1), a.int(2)),
        "Tensor::triu_indices" "torch.triu_indices(x[0], x[1], x[2])" [Int(0, 4), Int(0, 4), Int(-3, 3)] |a| Tensor::triu_indices(a.size(0), a.size(1), a.int(2)),
    }
}
