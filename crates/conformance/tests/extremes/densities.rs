//! The logarithms of every family's density at extreme parameters and values. Must not know how a family computes it.
use super::{
    big::{Big, F32, F64, Grid},
    compare::{Case, Measures, OF_LOGARITHMS, OF_ONE},
    draw::Draw,
    dual::{Dual, log_sum_exp, sum},
    report::Measured,
};
use adamant_core::{DType, Device, Tensor};
use adamant_distributions::*;

/// Is a family among those that are asked for?
pub type Asked<'a> = &'a dyn Fn(&str) -> bool;
/// One family: an element's parameters and value, its distribution's log-density, and the exact one.
struct Density {
    name: &'static str,
    /// the parameters that are no counts, to which gradients flow
    smooth: usize,
    draw: fn(&mut Draw, Grid) -> Vec<f64>,
    run: fn(&[Tensor]) -> Tensor,
    exact: fn(&[Dual]) -> Dual,
}
fn ln_2pi() -> Big {
    (Big::pi() * 2.0).ln()
}
/// Not denormal: its reciprocal is a gradient, and the dtype has no number for that.
fn positive(draw: &mut Draw, grid: Grid) -> f64 {
    draw.positive(grid).max(if grid == F32 { 1e-37 } else { 1e-300 })
}
/// A parameter of a gamma function: what 320 bits can still subtract.
fn shape(draw: &mut Draw, grid: Grid) -> f64 {
    let x = match draw.below(3) {
        0 => draw.magnitude(-38.0, 38.0),
        1 => draw.magnitude(-2.0, 4.0),
        _ => draw.uniform(0.1, 30.0),
    };
    Draw::on(grid, x).max(1e-38)
}
/// A location, a scale, and a value so many scales away, or anywhere.
fn line(draw: &mut Draw, grid: Grid) -> Vec<f64> {
    let scale = positive(draw, grid);
    let loc = match draw.below(3) {
        0 => 0.0,
        1 => draw.sign() * positive(draw, grid),
        _ => Draw::on(grid, scale * draw.uniform(-3.0, 3.0)),
    };
    let x = match draw.below(3) {
        0 => draw.sign() * positive(draw, grid),
        1 => loc,
        _ => Draw::on(grid, loc + scale * draw.sign() * draw.magnitude(-3.0, 1.5)),
    };
    // A difference of the two is a number of the dtype.
    let most = grid.largest / 4.0;
    vec![loc.clamp(-most, most), scale, x.clamp(-most, most)]
}
/// Two positive parameters and a positive value.
fn positives(draw: &mut Draw, grid: Grid) -> Vec<f64> {
    vec![positive(draw, grid), positive(draw, grid), positive(draw, grid)]
}
/// A shape, a rate and a value near the mean or anywhere.
fn shape_and_rate(draw: &mut Draw, grid: Grid) -> Vec<f64> {
    let (a, rate) = (shape(draw, grid), Draw::on(grid, draw.magnitude(-20.0, 20.0)));
    let x = if draw.chance(0.5) { a / rate * draw.uniform(0.5, 1.5) } else { draw.magnitude(-38.0, 38.0) };
    vec![a, rate, Draw::on(grid, x).max(1e-37)]
}
fn probability(draw: &mut Draw, grid: Grid) -> f64 {
    let p = match draw.below(3) {
        0 => draw.magnitude(-37.0, -0.1),
        1 => 1.0 - draw.magnitude(-6.9, -0.1),
        _ => draw.uniform(0.01, 0.99),
    };
    Draw::on(grid, p)
}
fn counts(draw: &mut Draw, grid: Grid) -> f64 {
    let most = if grid == F32 { 7.0 } else { 15.0 };
    Draw::on(grid, if draw.chance(0.5) { draw.below(50) as f64 } else { draw.magnitude(0.0, most).floor() })
}
fn logit(draw: &mut Draw, grid: Grid) -> f64 {
    Draw::on(grid, if draw.chance(0.5) { draw.uniform(-40.0, 40.0) } else { draw.sign() * draw.magnitude(-38.0, 37.0) })
}
fn normal(x: &Dual, loc: &Dual, scale: &Dual) -> Dual {
    let z = (x - loc) / scale;
    -(z.square() / 2.0) - scale.ln() - x.like(ln_2pi() / 2.0)
}
fn gamma(a: &Dual, rate: &Dual, x: &Dual) -> Dual {
    a * &rate.ln() + (a - 1.0) * x.ln() - rate * x - a.ln_gamma()
}
fn binomial(n: &Dual, k: &Dual) -> Dual {
    (n + 1.0).ln_gamma() - (k + 1.0).ln_gamma() - (n - k + 1.0).ln_gamma()
}
/// How many failures are waited for: at least one.
fn failures(draw: &mut Draw, grid: Grid) -> f64 {
    counts(draw, grid).max(1.0)
}
/// In how many orders k successes come before the last of n failures.
fn waits(n: &Dual, k: &Dual) -> Dual {
    (n + k).ln_gamma() - n.ln_gamma() - (k + 1.0).ln_gamma()
}
macro_rules! densities {
    ($($name:literal $smooth:literal, $draw:expr, $run:expr, $exact:expr;)*) => {
        const ALL: &[Density] = &[$(Density { name: $name, smooth: $smooth, draw: $draw, run: $run, exact: $exact },)*];
    };
}
densities! {
    "Normal" 3, line, |x| Normal::new(&x[0], &x[1]).unwrap().log_prob(&x[2]), |x| normal(&x[2], &x[0], &x[1]);
    "LogNormal" 3, |d, g| { let mut v = line(d, g); v[2] = positive(d, g); v }, |x| LogNormal::new(&x[0], &x[1]).unwrap().log_prob(&x[2]),
        |x| { let log = x[2].ln(); normal(&log, &x[0], &x[1]) - log };
    "HalfNormal" 2, |d, g| vec![positive(d, g), positive(d, g)], |x| HalfNormal::new(&x[0]).unwrap().log_prob(&x[1]),
        |x| normal(&x[1], &x[0].like(0.0), &x[0]) + x[0].like(Big::ln_2());
    "Laplace" 3, line, |x| Laplace::new(&x[0], &x[1]).unwrap().log_prob(&x[2]), |x| -((&x[2] - &x[0]).abs() / &x[1]) - (&x[1] * 2.0).ln();
    "Cauchy" 3, line, |x| Cauchy::new(&x[0], &x[1]).unwrap().log_prob(&x[2]), |x| {
        let z = (&x[2] - &x[0]) / &x[1];
        -(z.square().ln_1p()) - x[1].ln() - x[1].like(Big::pi().ln())
    };
    "Gumbel" 3, line, |x| Gumbel::new(&x[0], &x[1]).unwrap().log_prob(&x[2]), |x| { let z = (&x[2] - &x[0]) / &x[1]; -&z - (-z).exp() - x[1].ln() };
    "Uniform" 2, |d, g| { let low = d.sign() * positive(d, g); let high = Draw::on(g, low + positive(d, g)); if high > low { vec![low, high, low] } else { vec![0.0, 1.0, 0.5] } },
        |x| Uniform::new(&x[0], &x[1]).unwrap().log_prob(&x[2]), |x| -(&x[1] - &x[0]).ln();
    "VonMises" 3, |d, g| vec![Draw::on(g, d.uniform(-3.0, 3.0)), positive(d, g), Draw::on(g, d.uniform(-3.0, 3.0))],
        |x| VonMises::new(&x[0], &x[1]).unwrap().log_prob(&x[2]), |x| {
        let half = (&x[2] - &x[0]) / 2.0;
        -(&x[1] * &half.sin().square() * 2.0) - x[1].ln_i0e() - x[1].like(ln_2pi())
    };
    "Exponential" 2, |d, g| vec![positive(d, g), positive(d, g)], |x| Exponential::new(&x[0]).unwrap().log_prob(&x[1]), |x| x[0].ln() - &x[0] * &x[1];
    "Weibull" 3, positives, |x| Weibull::new(&x[0], &x[1]).unwrap().log_prob(&x[2]), |x| {
        let log = (&x[2] / &x[0]).ln();
        (&x[1] / &x[0]).ln() + (&x[1] - 1.0) * &log - (&x[1] * &log).exp()
    };
    "Pareto" 3, |d, g| { let (s, a) = (positive(d, g), positive(d, g)); vec![s, a, Draw::on(g, s * d.magnitude(0.0, 30.0)).max(s)] },
        |x| Pareto::new(&x[0], &x[1]).unwrap().log_prob(&x[2]), |x| x[1].ln() + &x[1] * &(&x[0] / &x[2]).ln() - x[2].ln();
    "Gamma" 3, shape_and_rate, |x| Gamma::new(&x[0], &x[1]).unwrap().log_prob(&x[2]), |x| gamma(&x[0], &x[1], &x[2]);
    "Chi2" 2, |d, g| { let a = shape(d, g); let x = if d.chance(0.5) { a * d.uniform(0.5, 1.5) } else { d.magnitude(-38.0, 38.0) }; vec![a, Draw::on(g, x).max(1e-37)] },
        |x| Chi2::new(&x[0]).unwrap().log_prob(&x[1]), |x| gamma(&(&x[0] / 2.0), &x[0].like(0.5), &x[1]);
    "Beta" 3, |d, g| vec![shape(d, g), shape(d, g), probability(d, g)], |x| Beta::new(&x[0], &x[1]).unwrap().log_prob(&x[2]), |x| {
        let [a, b, x] = [&x[0], &x[1], &x[2]];
        x.times_ln(&(a - 1.0)) + (x.like(1.0) - x).times_ln(&(b - 1.0)) + (a + b).ln_gamma() - a.ln_gamma() - b.ln_gamma()
    };
    "StudentT" 4, |d, g| { let mut v = line(d, g); v.insert(0, shape(d, g)); v }, |x| StudentT::new(&x[0], &x[1], &x[2]).unwrap().log_prob(&x[3]), |x| {
        let z = (&x[3] - &x[1]) / &x[2];
        let half = (&x[0] + 1.0) / 2.0;
        half.ln_gamma() - (&x[0] / 2.0).ln_gamma() - x[2].ln() - (&x[0] * &x[0].like(Big::pi())).ln() / 2.0 - half * (z.square() / &x[0]).ln_1p()
    };
    "Poisson" 1, |d, g| { let k = counts(d, g); let r = if d.chance(0.5) { (k * d.uniform(0.7, 1.3)).max(1e-3) } else { d.magnitude(-37.0, 37.0) }; vec![Draw::on(g, r), k] },
        |x| Poisson::new(&x[0]).unwrap().log_prob(&x[1]), |x| x[0].times_ln(&x[1].detached()) - &x[0] - (x[1].detached() + 1.0).ln_gamma();
    "Bernoulli" 1, |d, g| vec![probability(d, g), d.below(2) as f64], |x| Bernoulli::new(&x[0]).unwrap().log_prob(&x[1]),
        |x| if x[1].v.is_zero() { (-&x[0]).ln_1p() } else { x[0].ln() };
    "Bernoulli of logits" 1, |d, g| vec![logit(d, g), d.below(2) as f64], |x| Bernoulli::from_logits(&x[0]).unwrap().log_prob(&x[1]),
        |x| if x[1].v.is_zero() { -x[0].softplus() } else { -(-&x[0]).softplus() };
    "Geometric" 1, |d, g| vec![probability(d, g), counts(d, g)], |x| Geometric::new(&x[0]).unwrap().log_prob(&x[1]),
        |x| x[1].detached() * (-&x[0]).ln_1p() + x[0].ln();
    "Geometric of logits" 1, |d, g| vec![logit(d, g), counts(d, g)], |x| Geometric::from_logits(&x[0]).unwrap().log_prob(&x[1]),
        |x| -(x[1].detached() * x[0].softplus()) - (-&x[0]).softplus();
    "Binomial" 1, |d, g| { let n = counts(d, g); let k = (n * d.unit()).floor(); vec![probability(d, g), n, Draw::on(g, k)] },
        |x| Binomial::new(&x[1], &x[0]).unwrap().log_prob(&x[2]), |x| {
        let (p, n, k) = (&x[0], &x[1], &x[2]);
        binomial(n, k) + p.times_ln(k) + (n - k) * (-p).ln_1p()
    };
    "Binomial of logits" 1, |d, g| { let n = counts(d, g); let k = (n * d.unit()).floor(); vec![logit(d, g), n, Draw::on(g, k)] },
        |x| Binomial::from_logits(&x[1], &x[0]).unwrap().log_prob(&x[2]), |x| {
        let (l, n, k) = (&x[0], &x[1], &x[2]);
        binomial(n, k) - k * &(-l).softplus() - (n - k) * l.softplus()
    };
    "NegativeBinomial" 1, |d, g| vec![probability(d, g), failures(d, g), counts(d, g)],
        |x| NegativeBinomial::new(&x[1], &x[0]).unwrap().log_prob(&x[2]), |x| {
        let (p, n, k) = (&x[0], &x[1], &x[2]);
        waits(n, k) + p.times_ln(k) + n * (-p).ln_1p()
    };
    "NegativeBinomial of logits" 1, |d, g| vec![logit(d, g), failures(d, g), counts(d, g)],
        |x| NegativeBinomial::from_logits(&x[1], &x[0]).unwrap().log_prob(&x[2]), |x| {
        let (l, n, k) = (&x[0], &x[1], &x[2]);
        waits(n, k) - k * &(-l).softplus() - n * l.softplus()
    };
}

/// Cases of a family in both dtypes, if it is asked for.
fn check(all: &mut Vec<Measured>, name: &str, (count, asked): (usize, Asked), of: &mut dyn FnMut(&mut Measures, (DType, Grid))) {
    if !asked(name) {
        return;
    }
    for (dtype, grid, word) in [(DType::F32, F32, "f32"), (DType::F64, F64, "f64")] {
        let is_of_classes = matches!(name, "Categorical" | "Multinomial" | "MixtureSameFamily");
        let mut measures = Measures::new(&format!("{word} {name}.log_prob"), Some(if is_of_classes { OF_ONE } else { OF_LOGARITHMS }));
        (0..count).for_each(|_| of(&mut measures, (dtype, grid)));
        all.extend([measures.values, measures.gradients]);
    }
}
/// So many cases of each family in each dtype, two elements a case.
pub fn run(device: Device, count: usize, seed: u64, asked: Asked) -> Vec<Measured> {
    let mut all = vec![];
    let which = (count, asked);
    for f in ALL {
        let mut draw = Draw::new(seed, f.name);
        check(&mut all, f.name, which, &mut |measures, (dtype, grid)| {
            let elements: Vec<Vec<f64>> = (0..2).map(|_| (f.draw)(&mut draw, grid)).collect();
            let arguments = elements[0].len();
            let rows: Vec<Vec<f64>> = (0..arguments).map(|k| elements.iter().map(|e| e[k]).collect()).collect();
            let case = Case::of_rows(rows, f.smooth);
            let duals = case.duals();
            let exact: Vec<Dual> = (0..2).map(|e| (f.exact)(&duals.iter().map(|d| d[e].clone()).collect::<Vec<_>>())).collect();
            measures.check(device, (dtype, grid), &case, f.run, &exact);
        });
    }
    vectors(&mut all, device, which, seed);
    all
}
/// Families of vectors: classes, counts of them, Dirichlet, the normal one, mixtures.
fn vectors(all: &mut Vec<Measured>, device: Device, which: (usize, Asked), seed: u64) {
    let mut draw = Draw::new(seed, "Categorical");
    check(all, "Categorical", which, &mut |measures, of| {
        let n = 2 + draw.below(5);
        let class = draw.below(n);
        let case = Case::of_rows(vec![super::rows::row(&mut draw, of.1, n)], 1);
        let logits = &case.duals()[0];
        let exact = [&logits[class] - &log_sum_exp(logits)];
        measures.check(device, of, &case, |x| Categorical::from_logits(&x[0]).unwrap().log_prob(&Tensor::from_vec(vec![class as i64], [1])), &exact);
    });
    let mut draw = Draw::new(seed, "Dirichlet");
    check(all, "Dirichlet", which, &mut |measures, of| {
        let n = 2 + draw.below(4);
        let a: Vec<f64> = (0..n).map(|_| shape(&mut draw, of.1)).collect();
        let x: Vec<f64> = (0..n).map(|_| probability(&mut draw, of.1)).collect();
        let case = Case::of_rows(vec![a, x], 2);
        let d = case.duals();
        let terms: Vec<Dual> = d[0].iter().zip(&d[1]).map(|(a, x)| x.times_ln(&(a - 1.0)) - a.ln_gamma()).collect();
        let exact = [sum(&terms) + sum(&d[0]).ln_gamma()];
        measures.check(device, of, &case, |x| Dirichlet::new(&x[0]).unwrap().log_prob(&x[1]).unsqueeze(0), &exact);
    });
    let mut draw = Draw::new(seed, "Multinomial");
    check(all, "Multinomial", which, &mut |measures, of| {
        let n = 2 + draw.below(4);
        let logits: Vec<f64> = (0..n).map(|_| Draw::on(of.1, draw.uniform(-30.0, 30.0))).collect();
        let counts: Vec<f64> = (0..n).map(|_| draw.below(30) as f64).collect();
        let total: f64 = counts.iter().sum();
        // Each logarithm counts as often as its class was drawn, and so do those of n!.
        measures.of_one = 4.0 * (total + 1.0);
        let case = Case::of_rows(vec![logits, counts], 1);
        let d = case.duals();
        let log = log_sum_exp(&d[0]);
        let terms: Vec<Dual> = d[0].iter().zip(&d[1]).map(|(l, k)| k * &(l - &log) - (k + 1.0).ln_gamma()).collect();
        let exact = [sum(&terms) + d[1][0].like(total + 1.0).ln_gamma()];
        measures.check(device, of, &case, |x| Multinomial::from_logits(total as usize, &x[0]).unwrap().log_prob(&x[1]).unsqueeze(0), &exact);
    });
    // To a component whose density is 0 in the dtype the gradient is NaN, as PyTorch's: only the weights are differentiated.
    let mut draw = Draw::new(seed, "MixtureSameFamily");
    check(all, "MixtureSameFamily", which, &mut |measures, of| {
        let parts: Vec<Vec<f64>> = (0..3).map(|_| line(&mut draw, of.1)).collect();
        let row = |k: usize| parts.iter().map(|p| p[k]).collect::<Vec<f64>>();
        let weights = (0..3).map(|_| Draw::on(of.1, draw.uniform(-20.0, 20.0))).collect();
        let case = Case::of_rows(vec![weights, row(0), row(1), vec![parts[0][2]]], 1);
        let d = case.duals();
        let log = log_sum_exp(&d[0]);
        let terms: Vec<Dual> = (0..3).map(|k| &d[0][k] - &log + normal(&d[3][0], &d[1][k], &d[2][k])).collect();
        let exact = [log_sum_exp(&terms)];
        // A unit of the likeliest component's parameters, which are not differentiated here, moves its square.
        let largest = terms.iter().fold(&terms[0], |most, t| if t.v > most.v { t } else { most });
        measures.of_one = 2.0 + 2.0 * largest.v.abs().to_f64().min(1e300) + parts.iter().map(|p| p[1].ln().abs()).fold(0.0, f64::max);
        let run = |x: &[Tensor]| MixtureSameFamily::new(Categorical::from_logits(&x[0]).unwrap(), Normal::new(&x[1], &x[2]).unwrap()).unwrap().log_prob(&x[3]);
        measures.check(device, of, &case, run, &exact);
    });
}
