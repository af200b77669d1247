//! Convolutions of one image, as in inference.
use adamant::functional::{ConvOptions, conv2d};
use adamant_bench::{
    Checked, Prepared, Rate, Scale, Workload,
    check::{F32, check},
    inputs::{tensor, uniform},
};

/// channels in and out, height = width, kernel, stride, padding
const CONVOLUTIONS: &[(&str, [usize; 6])] = &[
    ("conv_3x3_64_64_56", [64, 64, 56, 3, 1, 1]),
    ("conv_3x3_256_256_14", [256, 256, 14, 3, 1, 1]),
    ("conv_1x1_256_64_56", [256, 64, 56, 1, 1, 0]),
    ("conv_7x7_3_64_224", [3, 64, 224, 7, 2, 3]),
];

/// The family.
pub fn workloads() -> Vec<Workload> {
    let flop = |[ci, co, size, k, stride, padding]: [usize; 6]| 2.0 * (ci * co * k * k * output(size, k, stride, padding).pow(2)) as f64;
    let bytes =
        |[ci, co, size, k, stride, padding]: [usize; 6]| 4.0 * (ci * size * size + co * ci * k * k + co * output(size, k, stride, padding).pow(2)) as f64;
    let workload = |&(name, c): &(&'static str, _)| Workload::new(name, Rate::Flop(flop(c)), move |s| convolution(s, c)).with_intensity(flop(c) / bytes(c));
    CONVOLUTIONS.iter().map(workload).collect()
}
fn output(size: usize, k: usize, stride: usize, padding: usize) -> usize {
    (size + 2 * padding - k) / stride + 1
}
fn convolution(scale: Scale, [ci, co, size, k, stride, padding]: [usize; 6]) -> Checked<Prepared> {
    let (ci, co, size) = (scale.at_most(ci, 3), scale.at_most(co, 4), scale.at_most(size, 9));
    let (xs, ws) = (uniform(ci * size * size, 1), uniform(co * ci * k * k, 2));
    let (x, w) = (tensor(&[1, ci, size, size], 1), tensor(&[co, ci, k, k], 2));
    let options = ConvOptions { stride: stride.into(), padding: padding.into(), ..ConvOptions::default() };
    let out = output(size, k, stride, padding);
    let exact = move |flat: usize| {
        let (o, row, column) = (flat / (out * out), flat / out % out, flat % out);
        let mut total = (0.0, 0.0);
        for c in 0..ci {
            for (i, j) in (0..k * k).map(|t| (t / k, t % k)) {
                // Zeros lie around the image: an index below them wraps far past its end.
                let (y, x) = ((row * stride + i).wrapping_sub(padding), (column * stride + j).wrapping_sub(padding));
                if y < size && x < size {
                    let term = xs[(c * size + y) * size + x] as f64 * ws[((o * ci + c) * k + i) * k + j] as f64;
                    total = (total.0 + term, total.1 + term.abs());
                }
            }
        }
        total
    };
    Ok(Prepared::output(move || conv2d(&x, &w, None, &options), move |y| check(y, ci * k * k, F32, &exact)))
}
