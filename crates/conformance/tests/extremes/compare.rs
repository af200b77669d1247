//! A tensor function beside its exact value, on inputs of one case: values, and gradients. Must not know which function.
use super::{
    big::{Big, Grid},
    dual::Dual,
    report::Measured,
};
use adamant_core::{DType, Device, Tensor};

/// The inputs of a case: numbers and sizes of each.
pub struct Case {
    pub inputs: Vec<(Vec<f64>, Vec<usize>)>,
    /// how many of them are differentiated, from the first on
    pub differentiated: usize,
}
impl Case {
    pub fn of_rows(rows: Vec<Vec<f64>>, differentiated: usize) -> Case {
        Case { inputs: rows.into_iter().map(|r| (r.clone(), vec![r.len()])).collect(), differentiated }
    }
    pub fn duals(&self) -> Vec<Vec<Dual>> {
        let all = self.inputs[..self.differentiated].iter().map(|x| x.0.len()).sum();
        let mut at = 0;
        let mut of = |k: usize, x: &f64| {
            if k >= self.differentiated {
                return Dual::constant(*x, all);
            }
            at += 1;
            Dual::input(*x, at - 1, all)
        };
        self.inputs.iter().enumerate().map(|(k, x)| x.0.iter().map(|x| of(k, x)).collect()).collect()
    }
}
pub struct Measures {
    /// what an error of a unit in a sum just above 1, whose logarithm is taken, makes of the result
    pub of_one: f64,
    pub values: Measured,
    pub gradients: Measured,
}
/// The reason of those that take the logarithm of a sum of powers of which the largest is 1.
pub const OF_ONE: &str = "the largest input and the logarithm cancel, or the sum is just above 1 and keeps that many digits";
/// What a sum of several rounded terms may be off, in units of what a unit of each input makes of it.
const CONDITIONED: f64 = 8.0;
/// The reason of densities.
pub const OF_LOGARITHMS: &str = "near 1 a unit of a parameter is worth more than the logarithm of the density";
/// The reason of what subtracts a mean that was rounded: only that it is a number is asked.
pub const OF_MEAN: &str = "the mean is rounded to the dtype, and beside it the deviations may be small";
/// Powers of two that weigh the results, so that a gradient is not that of a plain sum, which is 0 for many functions.
fn weight(k: usize) -> f64 {
    [1.0, -0.5, 2.0, 0.25][k % 4]
}
impl Measures {
    pub fn new(name: &str, ill: Option<&'static str>) -> Measures {
        let of_one = f64::from(u8::from(ill == Some(OF_ONE)));
        let mut all = Measures { of_one, values: Measured::new(name), gradients: Measured::new(format!("{name}, gradient")) };
        all.values.ill = ill;
        all.values.bound = match ill {
            None => all.values.bound,
            Some(OF_ONE | OF_LOGARITHMS) => all.values.bound,
            Some(OF_MEAN) => f64::MAX,
            Some(_) => CONDITIONED,
        };
        all.gradients.bound = f64::MAX;
        all.gradients.median = f64::MAX;
        all
    }
    pub fn check(&mut self, device: Device, (dtype, grid): (DType, Grid), case: &Case, run: impl Fn(&[Tensor]) -> Tensor, exact: &[Dual]) {
        device.scoped(|| {
            let tensors: Vec<Tensor> = case.inputs.iter().map(|(x, s)| Tensor::from_vec(x.clone(), s.clone()).cast(dtype)).collect();
            let tensors: Vec<Tensor> = tensors.into_iter().enumerate().map(|(k, t)| if k < case.differentiated { t.tracked() } else { t }).collect();
            let y = run(&tensors);
            let got = match y.to_vec_as::<f64>() {
                Ok(got) => got,
                Err(e) => panic!("{}: {e}", self.values.name),
            };
            assert_eq!(got.len(), exact.len(), "{}", self.values.name);
            let flat: Vec<f64> = case.inputs[..case.differentiated].iter().flat_map(|x| x.0.iter().copied()).collect();
            for (k, (got, want)) in got.iter().zip(exact).enumerate() {
                let plain = grid.error(*got, &want.v);
                self.values.add_conditioned(plain, conditioned(grid, *got, plain, want, &flat, self.of_one), || {
                    format!("[{k}] {got:e} and not {}, {:?}", want.v, case.inputs)
                });
            }
            self.check_gradient(grid, case, &tensors, &y, exact);
        });
    }
    fn check_gradient(&mut self, grid: Grid, case: &Case, tensors: &[Tensor], y: &Tensor, exact: &[Dual]) {
        // Of a value that is beyond the dtype nothing is asked.
        let beyond = |v: &Big| v.is_nan() || v.is_finite() && grid.overflows(v);
        if case.differentiated == 0 || exact.iter().any(|e| beyond(&e.v)) {
            return;
        }
        let shape = y.shape().expect("a shape");
        let weights = Tensor::from_vec((0..exact.len()).map(weight).collect::<Vec<f64>>(), shape).cast(y.dtype().expect("a dtype"));
        let grads = match (y * &weights).sum(..).backward() {
            Ok(grads) => grads,
            // No gradient flows where there is none.
            Err(_) if exact.iter().all(|e| e.d.iter().all(Big::is_zero)) => return,
            Err(e) => panic!("{}: {e}", self.gradients.name),
        };
        let mut at = 0;
        for (x, (numbers, _)) in tensors[..case.differentiated].iter().zip(&case.inputs) {
            let got = grads.get(x).map(|g| g.to_vec_as::<f64>().expect("a gradient"));
            for k in 0..numbers.len() {
                let want = exact.iter().enumerate().fold(Big::from(0.0), |sum, (j, e)| sum + &e.d[at] * weight(j));
                let got = got.as_ref().map_or(0.0, |g| g[k]);
                at += 1;
                let error = grid.error(got, &want);
                // Only that it is a number is asked: an infinite one is counted.
                // One that the dtype has no number for may be NaN.
                self.gradients.add(if got.is_nan() && !grid.overflows(&want) { error } else { error.min(f64::MAX) }, || {
                    format!("of {:e}: {got:e} and not {want}, {:?}", numbers[k], case.inputs)
                });
            }
        }
    }
}
/// By how much a sum may be larger than its mean: where it overflows before it is divided, a mean does, as PyTorch's.
const SUMMED: f64 = 65536.0;
/// The error in units of what a unit of each input makes of the result, and one of its own.
fn conditioned(grid: Grid, got: f64, plain: f64, want: &Dual, inputs: &[f64], of_one: f64) -> f64 {
    if got.is_infinite() && grid.overflows(&(&want.v * SUMMED)) {
        return 0.0;
    }
    let unit = |x: &f64| grid.ulp(&Big::from(*x));
    let moved = inputs.iter().filter(|x| x.is_finite()).fold(Big::from(0.0), |m, x| m.max(&unit(x)));
    if got.is_infinite() && grid.overflows(&moved.square()) {
        // The square of what a unit of an input moves is infinite already.
        return 0.0;
    }
    if !got.is_finite() || grid.overflows(&want.v) || plain <= 1.0 {
        return plain;
    }
    let of_inputs = want.d.iter().zip(inputs).filter(|(d, x)| d.is_finite() && x.is_finite());
    let own = grid.ulp(&want.v) + grid.ulp(&Big::from(1.0)) * of_one;
    let permitted = of_inputs.fold(own, |sum, (d, x)| sum + d.abs() * unit(x));
    // Where a square or a size is least, it hangs on the inputs by what they move, not by its slope, which is 0.
    let least = if want.v.is_zero() { moved.max(&moved.square()) * 2.0 } else { Big::from(0.0) };
    ((Big::from(got) - &want.v).abs() / (permitted + least)).to_f64()
}
