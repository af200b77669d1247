//! Operations so small that only their overhead counts.
use super::precision::{near, region, run_in};
use adamant::{Cell, DType, Outputs, Result, Tensor, compile, functional::linear};
use adamant_bench::{
    Checked, Prepared, Problem, Workload,
    check::{F32, check},
    ensure,
    inputs::{tensor, uniform},
};
use std::{hint::black_box, rc::Rc};

/// What stands behind the name of a workload in its compiled form: captured once, replayed without recording.
pub const COMPILED: &str = "_compiled";

/// The family.
pub fn workloads() -> Vec<Workload> {
    vec![
        Workload::new("small_add4_nograd", None, |_| add(false)),
        Workload::new("small_add4_grad", None, |_| add(true)),
        Workload::new(format!("small_add4_grad{COMPILED}"), None, |_| add_compiled()),
        mlp("tiny_mlp_fwdbwd".into(), false),
        mlp(format!("tiny_mlp_fwdbwd{COMPILED}"), true),
    ]
}
fn add(tracked: bool) -> Checked<Prepared> {
    let (xs, ys) = (uniform(4, 1), uniform(4, 2));
    let (x, y) = (tensor(&[4], 1), tensor(&[4], 2));
    let (x, y) = if tracked { (x.tracked(), y.tracked()) } else { (x, y) };
    let exact = move |i: usize| (xs[i] as f64 + ys[i] as f64, (xs[i].abs() + ys[i].abs()) as f64);
    let sum = move || &x + &y;
    if !tracked {
        return Ok(Prepared::output(sum, move |z| check(z, 1, F32, &exact)));
    }
    let (again, shown) = (sum.clone(), sum.clone());
    let verify = move || {
        let z = again();
        ensure(z.is_tracked(), || "the sum is not recorded for a gradient".into())?;
        check(&z, 1, F32, &exact)
    };
    Ok(Prepared::checked(move || black_box(sum()).materialize(), verify).showing(move || Ok(shown().to_vec::<f32>()?)))
}
/// The same sum in a compiled function, within which both operands are tracked.
fn add_compiled() -> Checked<Prepared> {
    let (xs, ys) = (uniform(4, 1), uniform(4, 2));
    let (x, y) = (tensor(&[4], 1), tensor(&[4], 2));
    let exact = move |i: usize| (xs[i] as f64 + ys[i] as f64, (xs[i].abs() + ys[i].abs()) as f64);
    let sum = Rc::new(compile(|t: &[Tensor]| Ok(vec![&t[0].tracked() + &t[1].tracked()])));
    let call = move || sum.call(&[&x, &y]).map(|mut z| z.swap_remove(0));
    let (again, shown) = (call.clone(), call.clone());
    Ok(Prepared::checked(move || black_box(call()?).materialize(), move || check(&again()?, 1, F32, &exact)).showing(move || Ok(shown()?.to_vec::<f32>()?)))
}

fn mlp(name: String, compiled: bool) -> Workload {
    Workload::new(name, None, move |_| tiny_mlp(compiled, None)).with_precision(move |_, precision| tiny_mlp(compiled, Some(precision)))
}
/// Three dense layers on one row of 16 numbers, mean of squares, gradients of all six parameters.
fn tiny_mlp(compiled: bool, precision: Option<DType>) -> Checked<Prepared> {
    let region = precision.map(region).transpose()?;
    let sizes = [(16usize, 16usize), (16, 16), (16, 1)];
    let cell = |shape: &[usize], seed: u64, bound: f64| Cell::new(&(tensor(shape, seed) * bound), true);
    let layers = sizes
        .iter()
        .enumerate()
        .map(|(k, &(i, o))| Ok((cell(&[o, i], 1001 + 2 * k as u64, 0.25)?, cell(&[o], 1002 + 2 * k as u64, 0.25)?)))
        .collect::<Result<Vec<(Cell, Cell)>>>()?;
    let x = tensor(&[1, 16], 1);
    let forward = move |weights: &dyn Fn(&Cell) -> Tensor| {
        run_in(region.as_ref(), || {
            let dense = |x: &Tensor, k: usize| linear(x, &weights(&layers[k].0), Some(&weights(&layers[k].1)));
            let h = dense(&x, 0).relu();
            let h = dense(&h, 1).relu();
            let y = dense(&h, 2);
            ((&y * &y).sum(..), layers.clone())
        })
    };
    let (again, plain) = (forward.clone(), forward.clone());
    // The loss and all gradients.
    let passes = move || -> Result<Vec<Tensor>> {
        let (loss, layers) = forward(&Cell::get);
        let grads = loss.backward()?;
        let of = |cell: &Cell| grads.of(cell).cloned();
        Ok([Some(loss.detach())].into_iter().chain(layers.iter().flat_map(|(w, b)| [of(w), of(b)])).flatten().collect())
    };
    let passes: Rc<dyn Fn() -> Result<Vec<Tensor>>> = if compiled {
        let replayed = compile(move |_: &[Tensor]| passes());
        Rc::new(move || replayed.call(&[]).map(Outputs::into_vec))
    } else {
        Rc::new(passes)
    };
    let (checked, shown) = (passes.clone(), passes.clone());
    let values = move |passes: &dyn Fn() -> Result<Vec<Tensor>>| -> Checked<Vec<f32>> {
        let all = passes()?.iter().map(Tensor::to_vec_as::<f32>).collect::<Result<Vec<_>>>()?;
        ensure(all.len() == 7, || "a parameter got no gradient".into())?;
        Ok(all.concat())
    };
    let verify = move || match precision {
        None | Some(DType::F32) => {
            values(&*checked)?;
            slope(&again)
        }
        Some(low) => {
            let exact = tiny_mlp(false, None)?.output.map(|mut plain| plain()).transpose()?.unwrap_or_default();
            near(low, &values(&*checked)?.into_iter().map(f64::from).collect::<Vec<f64>>(), &exact)
        }
    };
    let prepared = if compiled {
        Prepared::checked(move || passes().and_then(|all| black_box(all).iter().try_for_each(Tensor::materialize)), verify)
    } else {
        Prepared::checked(move || plain(&Cell::get).0.backward().map(|grads| drop(black_box(grads))), verify)
    };
    Ok(prepared.showing(move || values(&*shown)))
}
/// Along the gradient the loss changes by the gradient's square: how far from it, as a share of what is allowed.
fn slope(forward: impl Fn(&dyn Fn(&Cell) -> Tensor) -> (Tensor, Vec<(Cell, Cell)>)) -> Checked<f64> {
    const ALLOWED: f64 = 0.02;
    let (loss, layers) = forward(&Cell::get);
    let grads = loss.backward()?;
    let mut square = 0.0;
    for cell in layers.iter().flat_map(|(w, b)| [w, b]) {
        let g = grads.of(cell).ok_or_else(|| Problem::Wrong("a parameter got no gradient".into()))?;
        square += (g * g).sum(..).item::<f64>()?;
    }
    let t = 1e-3 / square.sqrt().max(1e-12);
    let moved = |sign: f64| forward(&|cell: &Cell| grads.of(cell).map_or_else(|| cell.detached(), |g| cell.detached() + g * (sign * t))).0.item::<f64>();
    let slope = (moved(1.0)? - moved(-1.0)?) / (2.0 * t);
    let error = (slope / square - 1.0).abs();
    ensure(error < ALLOWED, || format!("the loss grows by {slope} along the gradient, whose square is {square}"))?;
    Ok(error / ALLOWED)
}
