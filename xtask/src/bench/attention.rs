//! Attention in 16 bits, forward and with its backward: heads of 64 and 128 features, causal or not.
use super::precision::near;
use adamant::{
    Cell, DType, Device, Result, Tensor,
    functional::{AttentionOptions, scaled_dot_product_attention},
    no_grad,
};
use adamant_bench::{Checked, Group, Prepared, Rate, Scale, Workload, inputs::tensor};
use std::hint::black_box;

/// The name's middle; batch, heads, time and features of a head; causal.
const SHAPES: &[(&str, [usize; 4], bool)] = &[
    ("b16_h12_t1024_d64_causal", [16, 12, 1024, 64], true),
    ("b4_h16_t4096_d128", [4, 16, 4096, 128], false),
    ("b1_h16_t16384_d128_causal", [1, 16, 16_384, 128], true),
];

/// The family.
pub fn workloads() -> Vec<Workload> {
    let both = |&(name, shape, causal): &(&'static str, [usize; 4], bool)| {
        // Two products of scores forward and five back; of causal ones half. Dao, "FlashAttention-2", 2023, section 4.1.
        let forward = 4.0 * shape.map(|n| n as f64).iter().product::<f64>() * shape[2] as f64 * if causal { 0.5 } else { 1.0 };
        let one = |tail: &str, flop: f64, build: fn(Scale, [usize; 4], bool) -> Checked<Prepared>| {
            let w = Workload::new(format!("attention_bf16_{name}_{tail}"), Rate::Flop(flop), move |s: Scale| build(s, shape, causal));
            w.of_dtype("bf16").in_group(Group::Large)
        };
        [one("fwd", forward, attended), one("fwdbwd", 3.5 * forward, walked_back)]
    };
    SHAPES.iter().flat_map(both).collect()
}
/// Queries, keys and values as cells, at the small scale of an odd length.
fn cells(scale: Scale, [batch, heads, time, features]: [usize; 4]) -> Result<Vec<Cell>> {
    let shape = [scale.of(batch, 2), scale.of(heads, 3), scale.of(time, 67), scale.of(features, 32)];
    (1..4).map(|seed| Cell::new(&tensor(&shape, seed).cast(DType::BF16), true)).collect()
}
fn of(cells: &[Cell], causal: bool) -> Tensor {
    let [q, k, v] = [0, 1, 2].map(|i| cells[i].get());
    scaled_dot_product_attention(&q, &k, &v, &AttentionOptions { is_causal: causal, ..AttentionOptions::default() })
}
/// The gradients of the sum of squares.
fn gradients(cells: &[Cell], causal: bool) -> Result<Vec<Tensor>> {
    let y = of(cells, causal);
    let grads = (&y * &y).sum(..).backward()?;
    Ok(cells.iter().filter_map(|cell| grads.of(cell).cloned()).collect())
}
/// What small ones give on this device and in the plain interpreter, which rounds at the same places but keeps no score in f32.
fn like_the_reference(numbers: impl Fn() -> Result<Vec<f64>>) -> Checked<f64> {
    near(DType::BF16, &numbers()?, &Device::reference().scoped(&numbers)?)
}
fn attended(scale: Scale, shape: [usize; 4], causal: bool) -> Checked<Prepared> {
    let all = cells(scale, shape)?;
    let small = move || no_grad(|| of(&cells(Scale::SMALL, shape)?, causal).to_vec_as::<f64>());
    let (shown, call) = (all.clone(), move || no_grad(|| black_box(of(&all, causal)).materialize()));
    let output = move || Ok(no_grad(|| of(&shown, causal).to_vec_as::<f64>())?);
    Ok(Prepared::checked(call, move || like_the_reference(small)).showing(output))
}
fn walked_back(scale: Scale, shape: [usize; 4], causal: bool) -> Checked<Prepared> {
    let all = cells(scale, shape)?;
    let small = move || {
        let all = gradients(&cells(Scale::SMALL, shape)?, causal)?;
        Ok(all.iter().map(Tensor::to_vec_as::<f64>).collect::<Result<Vec<_>>>()?.concat())
    };
    let (shown, call) = (all.clone(), move || gradients(&all, causal)?.iter().try_for_each(Tensor::materialize));
    // Of the gradients that of the values.
    let output = move || Ok(gradients(&shown, causal)?.last().map(Tensor::to_vec_as::<f64>).transpose()?.unwrap_or_default());
    Ok(Prepared::checked(call, move || like_the_reference(small)).showing(output))
}
