//! What the tests of quantization-aware training share.
#![allow(clippy::unwrap_used)]

use adamant_conformance::random::Random;
use adamant_core::{DType, Tensor, composite::packed::Packing};
use adamant_nn::{Param, Walk, init};
use adamant_quant::{InputScheme, LayerScheme, QuantizationConfig};

pub fn normal(shape: impl adamant_core::ToShape) -> Tensor {
    init::normal(shape, 0.0, 1.0).unwrap()
}
pub fn numbers(t: &Tensor) -> Vec<f64> {
    t.to_vec_as::<f32>().unwrap().into_iter().map(f64::from).collect()
}
/// A parameter or buffer of a model.
pub fn held(model: &impl Walk, name: &str) -> Param {
    let all = model.leaves();
    let found = all.iter().find(|(path, _)| path == name);
    found.unwrap_or_else(|| panic!("no {name} among {:?}", all.iter().map(|(path, _)| path).collect::<Vec<_>>())).1.clone()
}
pub fn close(got: &[f64], want: &[f64], of: &str) {
    assert_eq!(got.len(), want.len(), "{of}");
    let largest = want.iter().fold(1e-3f64, |m, v| m.max(v.abs()));
    for (k, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= 2e-5 * largest, "{of}: element {k} is {g}, not {w}, of {largest}");
    }
}
pub fn packing(random: &mut Random) -> Packing {
    Packing { bits: [8, 4, 4, 3][random.below(4)], group: [None, Some(4), Some(8)][random.below(3)], symmetric: random.one_in(2) }
}
pub fn weights(packing: Packing, input: InputScheme) -> QuantizationConfig {
    QuantizationConfig::with(LayerScheme { packing, scales: DType::F32, input })
}
