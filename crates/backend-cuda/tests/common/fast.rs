//! Attention, convolutions and replayed plans, near what the interpreter of core gives.
use adamant_conformance::{
    data::{Spread, download, draw, upload},
    random::Random,
    tolerance,
};
use adamant_core::{
    DType, Device, HostArray, Result, Shape, Tensor,
    functional::{AttentionOptions, ConvOptions, conv2d, scaled_dot_product_attention},
};

fn drawn(shape: &[usize], dtype: DType, seed: u64) -> HostArray {
    draw(Shape::new(shape).unwrap(), dtype, Spread::Within(-1.0, 1.0), &mut Random::new(seed))
}
/// The result of a function and its gradients, of a device and of the interpreter.
fn near(device: Device, what: &str, inputs: &[HostArray], of: impl Fn(&[Tensor]) -> Tensor) {
    let run = |device: Device| -> Result<Vec<HostArray>> {
        device.scoped(|| {
            let given: Vec<Tensor> = inputs.iter().map(|a| upload(a, device).tracked()).collect();
            let out = of(&given);
            let grads = (&out * &out).cast(DType::F32).sum(..).backward()?;
            let of_inputs = given.iter().filter_map(|x| grads.get(x));
            std::iter::once(&out).chain(of_inputs).map(download).collect()
        })
    };
    let (got, want) = (run(device).unwrap(), run(Device::reference()).unwrap());
    assert_eq!(got.len(), 1 + inputs.len(), "{what}");
    for (k, (got, want)) in got.iter().zip(&want).enumerate() {
        tolerance::composed(got, want).unwrap_or_else(|e| panic!("{what}, result {k}: {e}"));
    }
}
/// Attention and its gradients, of 16 bits.
pub fn attention(device: Device) {
    for (seed, dtype) in [(1, DType::F16), (2, DType::BF16)] {
        let of = |keys: usize, salt: u64| drawn(&[1, 2, keys, 24], dtype, 10 * seed + salt);
        near(device, "attention", &[of(40, 0), of(33, 1), of(33, 2)], |x| scaled_dot_product_attention(&x[0], &x[1], &x[2], &AttentionOptions::default()));
    }
}
/// A convolution and its gradients, of 16 bits.
pub fn convolution(device: Device) {
    for (seed, dtype) in [(1, DType::F16), (2, DType::BF16)] {
        let [x, w] = [drawn(&[2, 16, 6, 5], dtype, 10 * seed), drawn(&[20, 16, 3, 3], dtype, 10 * seed + 1)];
        near(device, "a convolution", &[x, w], |x| conv2d(&x[0], &x[1], None, &ConvOptions::default()));
    }
}
/// A plan that comes again, with other numbers each time; whole numbers, so each is exact.
pub fn replayed(device: Device) {
    for k in 0..6 {
        let first = drawn(&[8, 40], DType::F32, k);
        let run = |device: Device| {
            device.scoped(|| {
                let mut x = (upload(&first, device) * 9.0).floor();
                for step in 0..6 {
                    x = (x.cumsum(1) + (k + step) as f32).remainder(7.0);
                }
                x.to_vec::<f32>()
            })
        };
        assert_eq!(run(device).unwrap(), run(Device::reference()).unwrap(), "run {k}");
    }
}
