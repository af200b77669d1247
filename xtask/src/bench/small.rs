//! Operations so small that only their overhead counts.
use super::{
    harness::{Checked, Problem, Scale, Timed, Workload, ensure},
    inputs::{F32, check, tensor, uniform},
};
use adamant::{Cell, Error, Tensor, functional::linear, no_grad};
use std::hint::black_box;

/// The family.
pub fn workloads() -> Vec<Workload> {
    vec![
        Workload::new("small_add4_nograd", None, |_| add(false)),
        Workload::new("small_add4_grad", None, |_| add(true)),
        Workload::new("tiny_mlp_fwdbwd", None, tiny_mlp),
    ]
}
fn add(tracked: bool) -> Checked<Timed> {
    let (xs, ys) = (uniform(4, 1), uniform(4, 2));
    let (x, y) = (tensor(&[4], 1), tensor(&[4], 2));
    let (x, y) = if tracked { (x.tracked(), y.tracked()) } else { (x, y) };
    let sum = &x + &y;
    ensure(sum.is_tracked() == tracked, || "the sum is not recorded for a gradient".into())?;
    check(&sum, 1, F32, |i| (xs[i] as f64 + ys[i] as f64, (xs[i].abs() + ys[i].abs()) as f64))?;
    drop(sum);
    Ok(if tracked { Box::new(move || black_box(&x + &y).eval()) } else { Box::new(move || no_grad(|| black_box(&x + &y).eval())) })
}

/// Three dense layers on one row of 16 numbers, mean of squares, gradients of all six parameters.
fn tiny_mlp(_: Scale) -> Checked<Timed> {
    let sizes = [(16usize, 16usize), (16, 16), (16, 1)];
    let cell = |shape: &[usize], seed: u64, bound: f64| Cell::new(&(tensor(shape, seed) * bound), true);
    let layers = sizes
        .iter()
        .enumerate()
        .map(|(k, &(i, o))| Ok((cell(&[o, i], 10 + k as u64, 0.25)?, cell(&[o], 20 + k as u64, 0.25)?)))
        .collect::<Result<Vec<(Cell, Cell)>, Error>>()?;
    let x = tensor(&[1, 16], 1);
    let forward = move |weights: &dyn Fn(&Cell) -> Tensor| {
        let dense = |x: &Tensor, k: usize| linear(x, &weights(&layers[k].0), Some(&weights(&layers[k].1)));
        let h = dense(&x, 0).relu();
        let h = dense(&h, 1).relu();
        let y = dense(&h, 2);
        ((&y * &y).sum(..), layers.clone())
    };
    // Along the gradient the loss changes by the gradient's square.
    let (loss, layers) = forward(&Cell::get);
    let grads = loss.backward()?;
    let mut square = 0.0;
    for cell in layers.iter().flat_map(|(w, b)| [w, b]) {
        let g = grads.of(cell).ok_or_else(|| Problem::Wrong("a parameter got no gradient".into()))?;
        square += (g * g).sum(..).item::<f64>()?;
    }
    let t = 1e-3 / square.sqrt().max(1e-12);
    let moved = |sign: f64| forward(&|cell: &Cell| grads.of(cell).map_or_else(|| cell.read(), |g| cell.read() + g * (sign * t))).0.item::<f64>();
    let slope = (moved(1.0)? - moved(-1.0)?) / (2.0 * t);
    ensure((slope / square - 1.0).abs() < 0.02, || format!("the loss grows by {slope} along the gradient, whose square is {square}"))?;
    Ok(Box::new(move || forward(&Cell::get).0.backward().map(|grads| drop(black_box(grads)))))
}
