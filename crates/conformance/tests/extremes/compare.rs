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
    pub values: Measured,
    pub gradients: Measured,
}
/// Powers of two that weigh the results, so that a gradient is not that of a plain sum, which is 0 for many functions.
fn weight(k: usize) -> f64 {
    [1.0, -0.5, 2.0, 0.25][k % 4]
}
impl Measures {
    pub fn new(name: &str, ill: Option<&'static str>) -> Measures {
        let mut all = Measures { values: Measured::new(name), gradients: Measured::new(format!("{name}, gradient")) };
        all.values.ill = ill;
        // Of gradients only numbers are asked, and a median.
        all.gradients.bound = f64::MAX;
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
                self.values.add_conditioned(plain, conditioned(grid, plain, want, &flat), || format!("[{k}] {got:e} and not {}, {:?}", want.v, case.inputs));
            }
            self.check_gradient(grid, case, &tensors, &y, exact);
        });
    }
    fn check_gradient(&mut self, grid: Grid, case: &Case, tensors: &[Tensor], y: &Tensor, exact: &[Dual]) {
        if case.differentiated == 0 || exact.iter().any(|e| e.v.is_nan()) {
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
                self.gradients.add(grid.error(got, &want), || format!("of {:e}: {got:e} and not {want}, {:?}", numbers[k], case.inputs));
            }
        }
    }
}
/// The error in units of what half a unit of each input makes of the result, and one of its own.
fn conditioned(grid: Grid, plain: f64, want: &Dual, inputs: &[f64]) -> f64 {
    if !plain.is_finite() || !want.v.is_finite() || plain <= 1.0 {
        return plain;
    }
    let own = grid.ulp(&want.v);
    let of_inputs = want.d.iter().zip(inputs).filter(|(d, x)| d.is_finite() && x.is_finite());
    let permitted = of_inputs.fold(own.clone(), |sum, (d, x)| sum + d.abs() * grid.ulp(&Big::from(*x)) / 2.0);
    (Big::from(plain) * own / permitted).to_f64()
}
