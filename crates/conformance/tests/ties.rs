//! Gradients where two values are equal, or one is NaN or infinite, are PyTorch's in all float dtypes: what `ties/of_torch.py`
//! wrote, on the reference and on the CPU.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_backend_cpu::{Context, CpuBackend};
use adamant_core::{DType, Device, Tensor};
use serde_json::Value;

fn number(v: &Value) -> f64 {
    match v.as_str() {
        Some("nan") => f64::NAN,
        Some("inf") => f64::INFINITY,
        Some("-inf") => f64::NEG_INFINITY,
        _ => v.as_f64().unwrap(),
    }
}
fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(number).collect()
}
/// Where PyTorch's own gradient at NaN is another in f32 than in f64, by which of its loops ran; and `amax`, whose gradient it divides
/// by how many are equal to NaN, none: ours goes to the NaN, as that of its `max` does.
const UNSETTLED_AT_NAN: [&str; 8] = ["relu6", "hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "amax", "amin"];
fn function(name: &str, x: &[Tensor]) -> Tensor {
    let a = &x[0];
    match name {
        "fmax" => a.fmax(&x[1]),
        "fmin" => a.fmin(&x[1]),
        "maximum" => a.maximum(&x[1]),
        "minimum" => a.minimum(&x[1]),
        "clamp" => a.clamp(-1.0, 1.0),
        "clamp_min" => a.clamp_min(1.0),
        "clamp_max" => a.clamp_max(1.0),
        "clamp_tensors" => a.clamp_min(&x[1]),
        "where" => a.gt(&x[1]).where_(a, &x[1]),
        "relu" => a.relu(),
        "relu6" => a.relu6(),
        "hardtanh" => a.hardtanh(-1.0, 1.0),
        "hardsigmoid" => a.hardsigmoid(),
        "hardswish" => a.hardswish(),
        "hardshrink" => a.hardshrink(0.5),
        "softshrink" => a.softshrink(0.5),
        "leaky_relu" => a.leaky_relu(0.01),
        "threshold" => a.threshold(1.0, -3.0),
        "abs" => a.abs(),
        "amax" => a.amax_keepdim(0),
        "amin" => a.amin_keepdim(0),
        "max" => a.max_dim_keepdim(0).0,
        "min" => a.min_dim_keepdim(0).0,
        "max_all" => a.max().reshape([1]),
        "min_all" => a.min().reshape([1]),
        "median" => a.median_dim_keepdim(0).0,
        "norm_inf" => a.vector_norm_keepdim(f64::INFINITY, 0),
        "cummax" => a.cummax(0).0,
        "cummin" => a.cummin(0).0,
        _ => panic!("{name} has no function here"),
    }
}
fn check(device: Device) {
    let all: Value = serde_json::from_str(include_str!("ties/ties.json")).unwrap();
    let mut failed = vec![];
    for case in all["cases"].as_array().unwrap() {
        let dtype: DType = case["dtype"].as_str().unwrap().parse().unwrap();
        let name = case["name"].as_str().unwrap();
        device.scoped(|| {
            let x: Vec<Tensor> =
                case["inputs"].as_array().unwrap().iter().map(numbers).map(|v| Tensor::from_vec(v.clone(), [v.len()]).cast(dtype).tracked()).collect();
            let y = function(name, &x);
            let count = y.shape().unwrap().elements();
            let weights: Vec<f64> = (0..count).map(|k| [1.0, -0.5, 2.0, 0.25][k % 4]).collect();
            let grads = (y * Tensor::from_vec(weights, [count]).cast(dtype)).sum(..).backward().unwrap();
            for (k, (x, want)) in x.iter().zip(case["grads"].as_array().unwrap()).enumerate() {
                let want = numbers(want);
                let got = grads.get(x).map_or(vec![0.0; want.len()], |g| g.to_vec_as::<f64>().unwrap());
                let given = numbers(&case["inputs"][k]);
                let of_nan = |i: usize| if name.starts_with('a') { given.iter().any(|x| x.is_nan()) } else { given[i].is_nan() };
                let skipped = |i: usize| UNSETTLED_AT_NAN.contains(&name) && of_nan(i);
                // PyTorch's sixths are those of f32, and rounded on the way.
                let close = |i: usize| (got[i] - want[i]).abs() <= 1e-7 * want[i].abs();
                let alike = |i: usize| got[i] == want[i] || got[i].is_nan() && want[i].is_nan() || name.starts_with("hards") && close(i);
                let unlike = (0..want.len()).find(|&i| !skipped(i) && !alike(i));
                if let Some(i) = unlike {
                    let inputs: Vec<&Value> = case["inputs"].as_array().unwrap().iter().map(|v| &v[i]).collect();
                    failed.push(format!("{name} {dtype}: gradient {k} at {inputs:?} is {} and PyTorch's {}, of {}", got[i], want[i], case["inputs"]));
                }
            }
        });
    }
    println!("{} cases", all["cases"].as_array().unwrap().len());
    assert!(failed.is_empty(), "{}:\n{}", failed.len(), failed.join("\n"));
}
#[test]
fn gradients_at_ties_on_the_reference() {
    check(Device::reference());
}
#[test]
fn gradients_at_ties_on_the_cpu() {
    check(Context::new(CpuBackend::builder().threads(1)).unwrap().device());
}
