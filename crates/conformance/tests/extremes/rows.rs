//! Functions of rows: log-sum-exp, softmax, norms, losses, moments. Each has inputs from a seed, a tensor function, and its exact
//! value. Must not know how a device computes them.
use super::{
    big::{Big, F32, F64, Grid},
    compare::{Case, Measures, OF_MEAN, OF_ONE},
    draw::Draw,
    dual::{Dual, largest, log_sum_exp, sum},
    report::Measured,
};
use adamant_core::{
    DType, Device, Tensor,
    functional::{self, CrossEntropyOptions, Reduction},
};

/// One function.
pub struct RowFunction {
    pub name: &'static str,
    pub ill: Option<&'static str>,
    pub inputs: fn(&mut Draw, Grid) -> Case,
    pub run: fn(&[Tensor]) -> Tensor,
    pub exact: fn(&[Vec<Dual>]) -> Vec<Dual>,
}
const SUMS: Option<&str> = Some("terms of two signs, of which little may be left");

/// A row of numbers of one kind of extremes.
pub fn row(draw: &mut Draw, grid: Grid, n: usize) -> Vec<f64> {
    let on = |x: f64| Draw::on(grid, x);
    let (scale, offset) = (draw.positive(grid), draw.sign() * draw.magnitude(0.0, 7.0));
    let kind = draw.below(8);
    (0..n)
        .map(|_| match kind {
            0 => draw.sign() * draw.positive(grid),
            1 => on(draw.uniform(-30.0, 30.0)),
            2 => on(offset + draw.uniform(-2.0, 2.0)),
            3 => scale,
            4 => on(scale * draw.uniform(-1.0, 1.0)),
            5 => on(draw.sign() * draw.magnitude(-38.0, -4.0)),
            6 => {
                if draw.chance(0.2) {
                    draw.sign() * draw.positive(grid)
                } else {
                    on(draw.uniform(-1.0, 1.0))
                }
            }
            _ => on(draw.sign() * scale),
        })
        .collect()
}
fn size(draw: &mut Draw) -> usize {
    if draw.chance(0.1) { 17 + draw.below(20) } else { 1 + draw.below(9) }
}
/// With -inf in places, or everywhere, or an inf.
fn masked(draw: &mut Draw, grid: Grid) -> Vec<f64> {
    let n = size(draw);
    let mut x = row(draw, grid, n);
    let share = match draw.below(6) {
        0 => 0.3,
        1 => 0.9,
        2 if draw.chance(0.2) => 1.0,
        _ => 0.0,
    };
    x.iter_mut().for_each(|x| {
        if draw.chance(share) {
            *x = f64::NEG_INFINITY
        }
    });
    if draw.chance(0.03) {
        x[0] = f64::INFINITY;
    }
    x
}
fn one_masked(draw: &mut Draw, grid: Grid) -> Case {
    Case::of_rows(vec![masked(draw, grid)], 1)
}
fn one_row(draw: &mut Draw, grid: Grid) -> Case {
    let n = size(draw);
    Case::of_rows(vec![row(draw, grid, n)], 1)
}
fn some_row(draw: &mut Draw, grid: Grid) -> Case {
    let n = 2 + draw.below(30);
    Case::of_rows(vec![row(draw, grid, n)], 1)
}
/// Two rows whose norms the dtype has.
fn with_norms(draw: &mut Draw, grid: Grid) -> Case {
    let (n, most) = (size(draw), grid.largest / 64.0);
    let mut one = || row(draw, grid, n).into_iter().map(|x| Draw::on(grid, x.clamp(-most, most))).collect();
    Case::of_rows(vec![one(), one()], 2)
}
/// Numbers whose squares the dtype has: beyond, a normalisation gives 0 and not a number of about 1, as PyTorch's does.
fn moderate(draw: &mut Draw, grid: Grid) -> Case {
    let most = if grid == F32 { 1e18 } else { 1e150 };
    let n = 2 + draw.below(30);
    Case::of_rows(vec![row(draw, grid, n).into_iter().map(|x| Draw::on(grid, x.clamp(-most, most))).collect()], 1)
}
fn two_rows(draw: &mut Draw, grid: Grid) -> Case {
    let n = size(draw);
    Case::of_rows(vec![row(draw, grid, n), row(draw, grid, n)], 2)
}
/// Logits and targets in [0, 1], ends included.
fn logits_and_shares(draw: &mut Draw, grid: Grid) -> Case {
    let n = size(draw);
    let shares = (0..n)
        .map(|_| match draw.below(4) {
            0 => 0.0,
            1 => 1.0,
            2 => Draw::on(grid, draw.magnitude(-38.0, 0.0)),
            _ => Draw::on(grid, draw.unit()),
        })
        .collect();
    Case::of_rows(vec![row(draw, grid, n), shares], 1)
}
fn shares_and_shares(draw: &mut Draw, grid: Grid) -> Case {
    let n = size(draw);
    let mut share = |_| match draw.below(5) {
        0 => 0.0,
        1 => 1.0,
        2 => Draw::on(grid, draw.magnitude(-38.0, 0.0)),
        3 => Draw::on(grid, 1.0 - draw.magnitude(-7.0, -1.0)),
        _ => Draw::on(grid, draw.unit()),
    };
    let (x, t) = ((0..n).map(&mut share).collect(), (0..n).map(&mut share).collect());
    Case::of_rows(vec![x, t], 1)
}
fn logs_and_shares(draw: &mut Draw, grid: Grid) -> Case {
    let n = size(draw);
    let logs = (0..n).map(|_| -Draw::on(grid, draw.magnitude(-38.0, 37.0))).collect();
    let shares = (0..n).map(|_| if draw.chance(0.2) { 0.0 } else { Draw::on(grid, draw.magnitude(-38.0, 0.0)) }).collect();
    Case::of_rows(vec![logs, shares], 1)
}
fn mean_of(x: &[Dual]) -> Dual {
    sum(x) / x.len() as f64
}
fn soft(x: &[Dual]) -> Vec<Dual> {
    let top = largest(x);
    let top = x[0].like(top);
    let powers: Vec<Dual> = x.iter().map(|x| (x - &top).exp()).collect();
    let total = sum(&powers);
    powers.iter().map(|p| p / &total).collect()
}
fn log_soft(x: &[Dual]) -> Vec<Dual> {
    let log = log_sum_exp(x);
    x.iter().map(|x| x - &log).collect()
}
fn p_norm(x: &[Dual], p: f64) -> Dual {
    let powers: Vec<Dual> = x.iter().filter(|x| !x.v.is_zero()).map(|x| x.abs().pow(p.into())).collect();
    if powers.is_empty() { x[0].like(0.0) } else { sum(&powers).pow(Big::from(p).recip()) }
}
fn extreme_norm(x: &[Dual], largest: bool) -> Dual {
    // Ties share the gradient: no derivative is asked there.
    let best = x.iter().map(|x| x.v.abs()).reduce(|a, b| if (a < b) == largest { b } else { a }).expect("an element");
    let equal: Vec<Dual> = x.iter().filter(|x| x.v.abs() == best).map(Dual::abs).collect();
    sum(&equal) / equal.len() as f64
}
fn euclidean(x: &[Dual]) -> Dual {
    let squares: Vec<Dual> = x.iter().map(Dual::square).collect();
    let total = sum(&squares);
    if total.v.is_zero() { total.like(0.0) } else { total.sqrt() }
}
fn moments(x: &[Dual], less: f64) -> Dual {
    let mean = mean_of(x);
    let squares: Vec<Dual> = x.iter().map(|x| (x - &mean).square()).collect();
    sum(&squares) / (x.len() as f64 - less)
}
fn at_least(x: Dual, least: f64) -> Dual {
    if x.v < least { x.like(least) } else { x }
}
fn normalised(x: &[Dual], centered: bool, eps: f64) -> Vec<Dual> {
    let mean = if centered { mean_of(x) } else { x[0].like(0.0) };
    let apart: Vec<Dual> = x.iter().map(|x| x - &mean).collect();
    let squares: Vec<Dual> = apart.iter().map(Dual::square).collect();
    let root = (mean_of(&squares) + eps).sqrt();
    apart.iter().map(|a| a / &root).collect()
}
fn each(x: &[Vec<Dual>], f: impl Fn(&Dual, &Dual) -> Dual) -> Vec<Dual> {
    x[0].iter().zip(&x[1]).map(|(a, b)| f(a, b)).collect()
}
macro_rules! rows {
    ($($name:literal $(ill $ill:expr)?, $inputs:expr, $run:expr, $exact:expr;)*) => {
        pub const ALL: &[RowFunction] = &[$(RowFunction { name: $name, ill: rows!(@ $($ill)?), inputs: $inputs, run: $run, exact: $exact },)*];
    };
    (@) => { None };
    (@ $ill:expr) => { $ill };
}
const TAIL: Option<&str> = Some("far below the largest input, where a unit of it is many of its power");
const NEAR_ZERO: Option<&str> = Some(OF_ONE);
rows! {
    "logsumexp" ill NEAR_ZERO, one_masked, |x| x[0].logsumexp(0), |x| vec![log_sum_exp(&x[0])];
    "logcumsumexp" ill NEAR_ZERO, one_masked, |x| x[0].logcumsumexp(0), |x| (1..=x[0].len()).map(|n| log_sum_exp(&x[0][..n])).collect();
    "softmax" ill TAIL, one_masked, |x| x[0].softmax(0), |x| soft(&x[0]);
    "softmin" ill TAIL, one_row, |x| x[0].neg().softmax(0), |x| soft(&x[0].iter().map(|x| -x).collect::<Vec<_>>());
    "log_softmax" ill NEAR_ZERO, one_masked, |x| x[0].log_softmax(0), |x| log_soft(&x[0]);
    "vector_norm 0", one_row, |x| x[0].vector_norm(0.0, 0), |x| vec![x[0][0].like(x[0].iter().filter(|x| !x.v.is_zero()).count() as f64)];
    "vector_norm 1", one_row, |x| x[0].vector_norm(1.0, 0), |x| vec![sum(&x[0].iter().map(Dual::abs).collect::<Vec<_>>())];
    "vector_norm 2", one_row, |x| x[0].vector_norm(2.0, 0), |x| vec![euclidean(&x[0])];
    "vector_norm inf", one_row, |x| x[0].vector_norm(f64::INFINITY, 0), |x| vec![extreme_norm(&x[0], true)];
    "vector_norm -inf", one_row, |x| x[0].vector_norm(f64::NEG_INFINITY, 0), |x| vec![extreme_norm(&x[0], false)];
    "vector_norm 3", one_row, |x| x[0].vector_norm(3.0, 0), |x| vec![p_norm(&x[0], 3.0)];
    "vector_norm 1.5", one_row, |x| x[0].vector_norm(1.5, 0), |x| vec![p_norm(&x[0], 1.5)];
    "vector_norm 0.5", one_row, |x| x[0].vector_norm(0.5, 0), |x| vec![p_norm(&x[0], 0.5)];
    "matrix_norm fro", one_row, |x| x[0].unsqueeze(0).matrix_norm(adamant_core::tensor::MatrixNorm::Fro), |x| vec![euclidean(&x[0])];
    "normalize", one_row, |x| x[0].normalize(2.0, 0, 1e-12), |x| { let n = at_least(euclidean(&x[0]), 1e-12); x[0].iter().map(|x| x / &n).collect() };
    "dist" ill SUMS, two_rows, |x| x[0].dist(&x[1], 2.0), |x| vec![euclidean(&each(x, |a, b| a - b))];
    "cosine_similarity" ill SUMS, with_norms, |x| x[0].cosine_similarity(&x[1], 0, 1e-8), |x| {
        let (a, b) = (at_least(euclidean(&x[0]), 1e-8), at_least(euclidean(&x[1]), 1e-8));
        vec![sum(&each(x, |x, y| x / &a * (y / &b)))]
    };
    "mean" ill SUMS, one_row, |x| x[0].mean(0), |x| vec![mean_of(&x[0])];
    "var" ill SUMS, some_row, |x| x[0].var(0, 1.0), |x| vec![moments(&x[0], 1.0)];
    "std" ill SUMS, some_row, |x| x[0].std(0, 1.0), |x| { let v = moments(&x[0], 1.0); vec![if v.v.is_zero() { v.like(0.0) } else { v.sqrt() }] };
    "layer_norm" ill Some(OF_MEAN), moderate, |x| functional::layer_norm(&x[0], &[x[0].shape().unwrap()[0]], None, None, 1e-5), |x| normalised(&x[0], true, 1e-5);
    "rms_norm" ill SUMS, moderate, |x| functional::rms_norm(&x[0], &[x[0].shape().unwrap()[0]], None, Some(1e-6)), |x| normalised(&x[0], false, 1e-6);
    "bce_with_logits" ill SUMS, logits_and_shares, |x| functional::binary_cross_entropy_with_logits(&x[0], &x[1], None, None, Reduction::None),
        |x| each(x, |x, t| (t.like(1.0) - t) * x.softplus() + t * &(-x).softplus());
    "bce", shares_and_shares, |x| functional::binary_cross_entropy(&x[0], &x[1], None, Reduction::None), |x| each(x, |x, t| {
        let floor = |log: Dual| if log.v < -100.0 { log.like(-100.0) } else { log };
        -(times_if(t, floor(x.ln())) + times_if(&(t.like(1.0) - t), floor((-x).ln_1p())))
    });
    "kl_div" ill SUMS, logs_and_shares, |x| functional::kl_div(&x[0], &x[1], false, Reduction::None), |x| each(x, |x, t| if t.v.is_zero() { t.like(0.0) } else { t * &(t.ln() - x) });
    "mse_loss" ill SUMS, two_rows, |x| functional::mse_loss(&x[0], &x[1], Reduction::Mean), |x| vec![mean_of(&each(x, |a, b| (a - b).square()))];
    "l1_loss" ill SUMS, two_rows, |x| functional::l1_loss(&x[0], &x[1], Reduction::Mean), |x| vec![mean_of(&each(x, |a, b| (a - b).abs()))];
    "huber_loss" ill SUMS, two_rows, |x| functional::huber_loss(&x[0], &x[1], 1.0, Reduction::None), |x| each(x, |a, b| {
        let d = (a - b).abs();
        if d.v <= 1.0 { d.square() / 2.0 } else { d - 0.5 }
    });
    "soft_margin_loss" , two_rows, |x| functional::soft_margin_loss(&x[0], &x[1].sign(), Reduction::None), |x| each(x, |a, b| {
        if b.v.is_zero() { a.like(Big::ln_2()) } else if b.v.is_negative() { a.softplus() } else { (-a).softplus() }
    });
}
fn times_if(k: &Dual, log: Dual) -> Dual {
    if k.v.is_zero() { log.like(0.0) } else { k * &log }
}

/// What is wrong on purpose: each must be found.
pub const PLANTED: &[RowFunction] = &[
    RowFunction {
        name: "logsumexp without its maximum",
        ill: NEAR_ZERO,
        inputs: one_masked,
        run: |x| x[0].exp().sum(0).log(),
        exact: |x| vec![log_sum_exp(&x[0])],
    },
    RowFunction { name: "softmax without its maximum", ill: TAIL, inputs: one_masked, run: |x| x[0].exp() / x[0].exp().sum(0), exact: |x| soft(&x[0]) },
    RowFunction { name: "norm without a scale", ill: None, inputs: one_row, run: |x| x[0].square().sum(0).sqrt(), exact: |x| vec![euclidean(&x[0])] },
    RowFunction {
        name: "cross entropy of logits through the sigmoid",
        ill: SUMS,
        inputs: logits_and_shares,
        run: |x| functional::binary_cross_entropy(&x[0].sigmoid(), &x[1], None, Reduction::None),
        exact: |x| each(x, |x, t| (t.like(1.0) - t) * x.softplus() + t * &(-x).softplus()),
    },
    RowFunction {
        name: "cross entropy of logits as PyTorch writes it",
        ill: SUMS,
        inputs: logits_and_shares,
        run: |x| (1.0 - &x[1]) * &x[0] - x[0].log_sigmoid(),
        exact: |x| each(x, |x, t| (t.like(1.0) - t) * x.softplus() + t * &(-x).softplus()),
    },
    RowFunction {
        name: "gelu by an uncompensated erfc",
        ill: None,
        inputs: one_row,
        run: |x| &x[0] * 0.5 * (&x[0] * -std::f64::consts::FRAC_1_SQRT_2).erfc(),
        exact: |x| x[0].iter().map(|x| x.like(&x.v * super::special::ndtr(&x.v))).collect(),
    },
    RowFunction {
        name: "softplus that overflows",
        ill: None,
        inputs: one_row,
        run: |x| x[0].exp().log1p(),
        exact: |x| x[0].iter().map(Dual::softplus).collect(),
    },
    RowFunction { name: "variance in one pass", ill: SUMS, inputs: some_row, run: one_pass_variance, exact: |x| vec![moments(&x[0], 1.0)] },
];
fn one_pass_variance(x: &[Tensor]) -> Tensor {
    let n = x[0].shape().map_or(1.0, |s| s[0] as f64);
    (x[0].square().sum(0) - x[0].sum(0).square() / n) / (n - 1.0)
}
/// All functions, so many cases of each in each dtype.
pub fn run(device: Device, count: usize, seed: u64) -> Vec<Measured> {
    let mut all = functions(ALL, device, count, seed);
    all.extend(cross_entropies(device, count, seed));
    all
}
pub fn functions(of: &[RowFunction], device: Device, count: usize, seed: u64) -> Vec<Measured> {
    let mut all = vec![];
    for f in of {
        for (dtype, grid, word) in [(DType::F32, F32, "f32"), (DType::F64, F64, "f64")] {
            let mut draw = Draw::new(seed, f.name);
            let mut measures = Measures::new(&format!("{word} {}", f.name), f.ill);
            for _ in 0..count {
                let case = (f.inputs)(&mut draw, grid);
                measures.check(device, (dtype, grid), &case, f.run, &(f.exact)(&case.duals()));
            }
            all.extend([measures.values, measures.gradients]);
        }
    }
    all
}

/// Cross entropies with class numbers: weights, smoothing, ignored targets, reductions.
fn cross_entropies(device: Device, count: usize, seed: u64) -> Vec<Measured> {
    let mut all = vec![];
    for (dtype, grid, word) in [(DType::F32, F32, "f32"), (DType::F64, F64, "f64")] {
        let mut draw = Draw::new(seed, "cross_entropy");
        let mut measures = Measures::new(&format!("{word} cross_entropy"), NEAR_ZERO);
        for _ in 0..count {
            let most = draw.pick(&[5, 5, 5, 5, 30]);
            let (n, classes) = (1 + draw.below(3), 2 + draw.below(most));
            let mut logits: Vec<f64> = (0..n).flat_map(|_| row(&mut draw, grid, classes)).collect();
            let targets: Vec<i64> = (0..n).map(|_| if draw.chance(0.1) { -100 } else { draw.below(classes) as i64 }).collect();
            if draw.chance(0.2) {
                (0..logits.len()).for_each(|k| {
                    if draw.chance(0.3) && targets[k / classes] != (k % classes) as i64 {
                        logits[k] = f64::NEG_INFINITY
                    }
                });
            }
            let smoothing = if draw.chance(0.3) { 0.125 } else { 0.0 };
            let weight: Option<Vec<f64>> = draw.chance(0.4).then(|| (0..classes).map(|_| Draw::on(grid, draw.magnitude(-2.0, 2.0))).collect());
            let reduction = draw.pick(&[Reduction::None, Reduction::Mean, Reduction::Sum]);
            let case = Case { inputs: vec![(logits, vec![n, classes])], differentiated: 1 };
            let exact = cross_entropy(&case.duals()[0], &targets, weight.as_deref(), smoothing, reduction);
            let run = |x: &[Tensor]| {
                let target = Tensor::from_vec(targets.clone(), [n]);
                let weight = weight.as_ref().map(|w| Tensor::from_vec(w.clone(), [classes]).cast(dtype));
                functional::cross_entropy(
                    &x[0],
                    &target,
                    &CrossEntropyOptions { weight: weight.as_ref(), label_smoothing: smoothing, reduction, ..Default::default() },
                )
            };
            measures.of_one = weight.as_ref().map_or(1.0, |w| w.iter().sum()) * n as f64;
            measures.check(device, (dtype, grid), &case, run, &exact);
        }
        all.extend([measures.values, measures.gradients]);
    }
    all
}
fn cross_entropy(logits: &[Dual], targets: &[i64], weight: Option<&[f64]>, smoothing: f64, reduction: Reduction) -> Vec<Dual> {
    let classes = logits.len() / targets.len();
    let none = logits[0].like(0.0);
    let (mut losses, mut weights) = (vec![], Big::from(0.0));
    for (row, target) in logits.chunks(classes).zip(targets) {
        if *target < 0 {
            losses.push(none.clone());
            continue;
        }
        let log = log_soft(row);
        let w = |k: usize| weight.map_or(1.0, |w| w[k]);
        let t = *target as usize;
        weights = weights + w(t);
        let mut loss = -&log[t] * (w(t) * (1.0 - smoothing));
        if smoothing > 0.0 {
            let spread: Vec<Dual> = log.iter().enumerate().map(|(k, l)| -l * w(k)).collect();
            loss = loss + sum(&spread) * (smoothing / classes as f64);
        }
        losses.push(loss);
    }
    match reduction {
        Reduction::None => losses,
        Reduction::Sum => vec![sum(&losses)],
        _ => vec![sum(&losses) / none.like(weights)],
    }
}
