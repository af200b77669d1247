//! Gradients compared with central differences, first and second order, in f64 on the reference device.
use adamant_core::*;

/// Numbers in (-1, 1) that repeat from run to run and are far enough from each other not to tie.
pub fn numbers(n: usize, seed: u64) -> Vec<f64> {
    (0..n as u64).map(|k| rng::element_bits([seed as u32, 7, 1, 0], k) as f64 / 2f64.powi(31) - 1.0).collect()
}
pub fn tensor(shape: &[usize], seed: u64) -> Tensor {
    Tensor::from_vec(numbers(shape.iter().product(), seed), shape)
}
fn sum_with(y: &Tensor, weights: &Tensor) -> Result<f64> {
    (y * weights).sum(..).item::<f64>()
}
fn bumped(x: &Tensor, k: usize, by: f64) -> Result<Tensor> {
    let mut v = x.to_vec::<f64>()?;
    v[k] += by;
    Ok(Tensor::from_vec(v, x.shape()?))
}
fn close(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    for (k, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "{what}: element {k}: {g}, by differences {w}");
    }
}
/// Gradients of `f` for every input, and those of the gradients' sums, against differences.
pub fn check(name: &str, inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Tensor) -> Result<()> {
    let leaves: Vec<Tensor> = inputs.iter().map(|x| x.tracked()).collect();
    let y = f(&leaves).ok()?;
    let r = tensor(&y.shape()?, 99);
    // g = gradients of sum(y r), with the tape on.
    let first = |xs: &[Tensor]| -> Result<Vec<Tensor>> {
        let y = f(xs);
        let g = grad::backward_many(&[(&y, &r)], true)?;
        Ok(xs.iter().map(|x| g.get(x).cloned().unwrap_or_else(|| x.detach().zeros_like())).collect())
    };
    let gradients = first(&leaves)?;
    let eps = 1e-5;
    for (i, x) in inputs.iter().enumerate() {
        let got = gradients[i].to_vec::<f64>()?;
        let mut want = Vec::new();
        for k in 0..got.len() {
            let at = |by: f64| -> Result<f64> {
                let mut xs = inputs.to_vec();
                xs[i] = bumped(x, k, by)?;
                sum_with(&f(&xs), &r)
            };
            want.push((at(eps)? - at(-eps)?) / (2.0 * eps));
        }
        close(&format!("{name}: gradient of input {i}"), &got, &want, 2e-6);
    }
    // The plain walk gives the same numbers as the one with the tape on.
    let plain = grad::backward_many(&[(&f(&leaves), &r)], false)?;
    for (i, x) in leaves.iter().enumerate() {
        if let Some(g) = plain.get(x) {
            close(&format!("{name}: plain gradient of input {i}"), &g.to_vec::<f64>()?, &gradients[i].to_vec::<f64>()?, 1e-12);
        }
    }
    let v: Vec<Tensor> = inputs.iter().enumerate().map(|(i, x)| Ok(tensor(&x.shape()?, 50 + i as u64))).collect::<Result<_>>()?;
    let pairs: Vec<(&Tensor, &Tensor)> = gradients.iter().zip(&v).collect();
    let second = grad::backward_many(&pairs, false)?;
    for (i, x) in inputs.iter().enumerate() {
        let got = match second.get(&leaves[i]) {
            Some(g) => g.to_vec::<f64>()?,
            None => vec![0.0; x.shape()?.elements()],
        };
        let mut want = Vec::new();
        for k in 0..got.len() {
            let at = |by: f64| -> Result<f64> {
                let mut xs = inputs.to_vec();
                xs[i] = bumped(x, k, by)?;
                let xs: Vec<Tensor> = xs.iter().map(|x| x.tracked()).collect();
                let mut s = 0.0;
                for (g, v) in first(&xs)?.iter().zip(&v) {
                    s += sum_with(&g.detach(), v)?;
                }
                Ok(s)
            };
            want.push((at(eps)? - at(-eps)?) / (2.0 * eps));
        }
        close(&format!("{name}: second gradient of input {i}"), &got, &want, 5e-6);
    }
    Ok(())
}
