//! The nine kinds of clipping against their formulas in plain f64: random gradients of all sizes and dtypes, histories of 200 steps, steps that
//! are held back, captured and resumed.
#![allow(clippy::unwrap_used)]

mod common;

use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{DType, Device, Grads, Result, Tensor, compile, step_when};
use adamant_nn::{Linear, Param, Sequential, Walk};
use adamant_optim::{ClippingOptions, ClippingType, GradientClipper};
use common::set;

/// One gradient as plain numbers.
#[derive(Clone)]
struct Plain {
    layer: String,
    path: String,
    group: usize,
    rows: usize,
    weights: Vec<f64>,
    values: Vec<f64>,
}
/// A norm whose squares leave f64 nowhere in these tests but for 1e150 and more.
fn length(x: &[f64]) -> f64 {
    let largest = x.iter().fold(0f64, |m, x| m.max(x.abs()));
    if largest == 0.0 || !largest.is_finite() { largest } else { x.iter().map(|x| (x / largest).powi(2)).sum::<f64>().sqrt() * largest }
}
fn joined<'a>(all: impl IntoIterator<Item = &'a Plain>) -> Vec<f64> {
    all.into_iter().flat_map(|p| p.values.iter().copied()).collect()
}
/// What a kind with a history remembers, in f64.
#[derive(Default)]
struct Past {
    norms: Vec<f64>,
    threshold: Option<f64>,
    /// as many norms as were seen, their mean and variance
    seen: Vec<f64>,
    mean: f64,
    variance: f64,
}
impl Past {
    /// The limit of a norm by the formulas, written apart.
    fn limit(&mut self, norm: f64, o: &ClippingOptions) -> f64 {
        let finite = norm.is_finite();
        match o.clipping_type {
            ClippingType::Adaptive => {
                let last = &self.norms[self.norms.len().saturating_sub(10)..];
                let limit = if last.is_empty() { f64::INFINITY } else { last.iter().sum::<f64>() / last.len() as f64 * o.adaptive_factor };
                if finite {
                    self.norms.push(norm);
                }
                limit
            }
            ClippingType::Exponential => {
                let t = self.threshold.unwrap_or(o.max_norm);
                let t = if finite { o.exponential_alpha * t + (1.0 - o.exponential_alpha) * norm } else { t };
                self.threshold = Some(t);
                t.max(o.exponential_min_threshold)
            }
            _ => {
                if self.seen.len() < o.z_warm_up as usize {
                    if finite {
                        self.seen.push(norm);
                        let n = self.seen.len() as f64;
                        self.mean = self.seen.iter().sum::<f64>() / n;
                        self.variance = self.seen.iter().map(|x| (x - self.mean).powi(2)).sum::<f64>() / n;
                    }
                    return f64::INFINITY;
                }
                let z = (norm - self.mean) / self.variance.sqrt();
                let clipped = z > o.z_threshold;
                let x = if clipped { self.mean + o.z_threshold.powi(2) * self.variance.sqrt() / z } else { norm };
                if finite {
                    self.mean = o.z_alpha * self.mean + (1.0 - o.z_alpha) * x;
                    self.variance = o.z_alpha * self.variance + (1.0 - o.z_alpha) * (x - self.mean).powi(2);
                }
                if clipped { x } else { f64::INFINITY }
            }
        }
    }
}
/// The factor of a norm.
fn factor(norm: f64, limit: f64) -> f64 {
    if norm.is_finite() { (limit / (norm + 1e-6)).min(1.0) } else { 1.0 }
}
/// The gradients as the kind's formula leaves them.
fn clipped(all: &[Plain], o: &ClippingOptions, past: &mut Past) -> Vec<Vec<f64>> {
    let scaled = |by: &dyn Fn(&Plain) -> f64| all.iter().map(|p| p.values.iter().map(|x| x * by(p)).collect()).collect();
    let cut = |limit: f64| all.iter().map(|p| p.values.iter().map(|x| x.clamp(-limit, limit)).collect()).collect();
    let of = |same: &dyn Fn(&Plain) -> bool| length(&joined(all.iter().filter(|q| same(q))));
    match o.clipping_type {
        ClippingType::GlobalNorm => scaled(&|_| factor(of(&|_| true), o.max_norm)),
        ClippingType::Norm => scaled(&|p| factor(of(&|q| q.group == p.group), o.max_norm)),
        ClippingType::LayerWise => scaled(&|p| {
            let same = |q: &Plain| if p.layer.is_empty() { std::ptr::eq(p, q) } else { q.layer == p.layer };
            let limit = o.layer_norm_thresholds.iter().find(|(glob, _)| *glob == p.layer).map_or(o.max_norm, |(_, limit)| *limit);
            factor(of(&same), limit)
        }),
        ClippingType::Value => cut(o.max_value),
        ClippingType::Percentile => {
            let mut sizes: Vec<f64> = joined(all).iter().map(|x| x.abs()).collect();
            sizes.sort_by(f64::total_cmp);
            let Some(last) = sizes.len().checked_sub(1) else { return cut(f64::INFINITY) };
            let rank = o.percentile_threshold / 100.0 * last as f64;
            let (low, high) = (sizes[rank.floor() as usize], sizes[rank.ceil() as usize]);
            cut(low + (high - low) * rank.fract())
        }
        ClippingType::Agc => all
            .iter()
            .map(|p| {
                let row = p.values.len().checked_div(p.rows).map_or(1, |n| n.max(1));
                let pairs = p.values.chunks(row).zip(p.weights.chunks(row));
                let rows = pairs.flat_map(|(g, w)| {
                    let (is, most) = (length(g), length(w).max(o.agc_eps) * o.agc_clipping);
                    let by = if is > most { most / is.max(1e-6) } else { 1.0 };
                    g.iter().map(move |x| x * by)
                });
                rows.collect()
            })
            .collect(),
        _ => {
            let norm = of(&|_| true);
            let limit = past.limit(norm, o);
            scaled(&|_| factor(norm, limit))
        }
    }
}
/// Two layers with paths, and parameters without: an empty one and a single number.
fn parameters() -> (Sequential, Vec<Param>) {
    let model = Sequential::new().add(Linear::new(3, 4).unwrap()).add(Linear::new(4, 2).unwrap());
    let loose = [Tensor::zeros([0]), Tensor::ones([1]), Tensor::full([2, 3, 2], 0.25, DType::F32)];
    let mut all: Vec<Param> = model.named_parameters().into_iter().map(|(_, p)| p).collect();
    all.extend(loose.map(|t| Param::new(&t).unwrap()));
    (model, all)
}
fn numbers(t: &Tensor) -> Vec<f64> {
    t.to_vec_as::<f64>().unwrap()
}
fn plain(parameters: &[Param], gradients: &[Tensor]) -> Vec<Plain> {
    let each = parameters.iter().zip(gradients).enumerate().map(|(k, (p, g))| {
        let (path, shape) = (p.path().to_string(), g.shape().unwrap());
        let layer = path.rsplit_once('.').map_or(String::new(), |(layer, _)| layer.into());
        let rows = if shape.rank() < 2 { 1 } else { shape[0] };
        Plain { layer, path, group: usize::from(k >= 3), rows, weights: numbers(&p.detached()), values: numbers(g) }
    });
    each.collect()
}
/// How far a number of a dtype may lie from the formula, relatively and at least.
fn tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F16 => (1e-3, 1e-7),
        DType::BF16 => (8e-3, 1e-37),
        _ => (1e-6, 1e-37),
    }
}
fn gradients(random: &mut Random, parameters: &[Param]) -> Vec<Tensor> {
    let all_zero = random.one_in(20);
    let one = parameters.iter().map(|p| {
        let shape = p.meta().shape;
        let dtype = *random.pick(&[DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16]);
        let size = if all_zero || random.one_in(8) {
            0.0
        } else if dtype == DType::F16 {
            *random.pick(&[1.0, 6e4, 1e-4])
        } else {
            *random.pick(&[1.0, 1.0, 1e25, 1e-3])
        };
        let values: Vec<f64> = (0..shape.elements()).map(|_| (random.unit() * 2.0 - 1.0) * size).collect();
        Tensor::from_vec(values, shape).cast(dtype)
    });
    one.collect()
}
fn options(random: &mut Random, kind: ClippingType) -> ClippingOptions {
    let size = |random: &mut Random| 10f64.powf(random.unit() * 4.0 - 2.0);
    ClippingOptions {
        clipping_type: kind,
        max_norm: size(random),
        max_value: size(random),
        adaptive_factor: size(random),
        layer_norm_thresholds: if kind == ClippingType::LayerWise { vec![("1".into(), size(random))] } else { Vec::new() },
        percentile_threshold: *random.pick(&[95.0, 100.0, 50.0, 1e-3, 99.9]),
        exponential_alpha: random.unit() * 0.98 + 0.01,
        exponential_min_threshold: size(random),
        agc_clipping: size(random),
        agc_eps: size(random),
        z_alpha: random.unit() * 0.98 + 0.01,
        z_threshold: random.unit() * 3.0 + 0.1,
        z_warm_up: random.between(1, 4) as u32,
    }
}
/// The cosine of the angle between two vectors.
fn cosine(x: &[f64], y: &[f64]) -> f64 {
    let unit = |x: &[f64]| x.iter().map(|v| v / length(x)).collect::<Vec<f64>>();
    unit(x).iter().zip(unit(y)).map(|(x, y)| x * y).sum()
}
/// What ends elsewhere than the formula says, of three steps of as many seeds, where the clipper is asked for other numbers than the formula.
fn astray(kind: ClippingType, seeds: u64, asked: impl Fn(ClippingOptions) -> ClippingOptions) -> Vec<String> {
    let mut wrong = Vec::new();
    let (model, parameters) = parameters();
    for seed in 0..seeds {
        let mut random = Random::new(seed * 9 + kind as u64);
        let options = options(&mut random, kind);
        let mut clipper = GradientClipper::new(asked(options.clone())).unwrap();
        let mut past = Past::default();
        for step in 0..3 {
            let gradients = gradients(&mut random, &parameters);
            let before = plain(&parameters, &gradients);
            let expected = clipped(&before, &options, &mut past);
            let mut grads = set(&parameters, &gradients);
            let told = clipper.clip_groups(&mut grads, &[&parameters[..3], &parameters[3..]]).unwrap();
            let norm = length(&joined(&before));
            let is = told.norm.to_vec_as::<f64>().unwrap()[0];
            if (is - norm).abs() > 1e-6 * norm {
                wrong.push(format!("{kind}, seed {seed}, step {step}: the norm is {norm}, not {is}"));
            }
            let mut all_wide = (Vec::new(), Vec::new());
            for ((p, expected), before) in parameters.iter().zip(&expected).zip(&before) {
                let clipped = grads.of(&p.cell()).unwrap();
                let (unit, least) = tolerance(clipped.dtype().unwrap());
                for (x, y) in numbers(clipped).iter().zip(expected) {
                    if (x - y).abs() > unit * y.abs() + least {
                        wrong.push(format!("{kind}, seed {seed}, step {step}, {:?}: {x} is not {y}", before.path));
                    }
                }
                if unit < 1e-5 && kind != ClippingType::Agc {
                    all_wide.0.extend(numbers(clipped));
                    all_wide.1.extend(before.values.iter());
                }
            }
            let whole = matches!(kind, ClippingType::GlobalNorm | ClippingType::Adaptive | ClippingType::Exponential | ClippingType::ZClip);
            if whole && length(&all_wide.0) > 1e-30 && cosine(&all_wide.0, &all_wide.1) < 1.0 - 1e-6 {
                wrong.push(format!("{kind}, seed {seed}, step {step}: the direction changed"));
            }
        }
    }
    drop(model);
    wrong
}
#[test]
fn nine_kinds_are_their_formulas() {
    for kind in ClippingType::ALL {
        let wrong = astray(kind, 340, |o| o);
        assert!(wrong.is_empty(), "{} astray, first {:?}", wrong.len(), &wrong[..wrong.len().min(5)]);
    }
}
#[test]
fn a_number_that_is_slightly_off_is_noticed() {
    let slightly = |o: ClippingOptions| ClippingOptions {
        max_norm: o.max_norm * 1.0001,
        max_value: o.max_value * 1.0001,
        adaptive_factor: o.adaptive_factor * 1.0001,
        layer_norm_thresholds: o.layer_norm_thresholds.into_iter().map(|(glob, x)| (glob, x * 1.0001)).collect(),
        percentile_threshold: o.percentile_threshold * 0.999,
        exponential_alpha: o.exponential_alpha * 0.999,
        agc_clipping: o.agc_clipping * 1.0001,
        z_threshold: o.z_threshold * 1.0001,
        ..o
    };
    for kind in ClippingType::ALL {
        assert!(!astray(kind, 200, slightly).is_empty(), "{kind}");
    }
}
/// Norms that wander, with leaps, and some that are no numbers.
fn wandering(random: &mut Random) -> Vec<f64> {
    let mut at = 0f64;
    let each = (0..200).map(|_| {
        at += random.unit() - 0.5;
        let leap = if random.one_in(12) { 30.0 } else { 1.0 };
        if random.one_in(25) { *random.pick(&[f64::NAN, f64::INFINITY]) } else { (at.exp() + random.unit()) * leap }
    });
    each.collect()
}
const HISTORIES: [ClippingType; 3] = [ClippingType::Adaptive, ClippingType::Exponential, ClippingType::ZClip];
#[test]
fn histories_of_200_steps_with_norms_that_are_no_numbers() {
    for (kind, seed) in HISTORIES.into_iter().flat_map(|kind| (0..8).map(move |seed| (kind, seed))) {
        let mut random = Random::new(seed);
        let options = ClippingOptions::from(kind);
        let mut clipper = GradientClipper::new(kind).unwrap();
        let p = [Param::new(&Tensor::zeros([1])).unwrap()];
        let (mut past, mut bounded) = (Past::default(), 0);
        for (step, norm) in wandering(&mut random).into_iter().enumerate() {
            let mut grads = set(&p, &[Tensor::from_vec(vec![norm as f32], [1])]);
            let told = clipper.clip(&mut grads, &p).unwrap();
            let norm = f64::from(norm as f32);
            let (limit, is) = (past.limit(norm, &options), numbers(&told.threshold.unwrap())[0]);
            let after = numbers(grads.of(&p[0].cell()).unwrap())[0];
            if norm.is_finite() {
                assert!(is == limit || (is / limit - 1.0).abs() < 1e-6, "{kind}, seed {seed}, step {step}: {is} is not {limit}");
                let expected = norm * factor(norm, limit);
                assert!((after / expected - 1.0).abs() < 1e-6, "{kind}, seed {seed}, step {step}: {after} is not {expected}");
                bounded += usize::from(expected < norm * 0.999);
            } else {
                assert!(after.to_bits() == norm.to_bits() || (after.is_nan() && norm.is_nan()), "{kind}: {after} was {norm}");
            }
        }
        assert!(bounded > 2, "{kind}, seed {seed}: only {bounded} steps were clipped");
    }
}
/// The bits of all that a clipper remembers.
fn bits(clipper: &GradientClipper) -> Vec<(String, Vec<u64>)> {
    clipper.state_dict().iter().map(|(name, t)| (name.clone(), numbers(t).iter().map(|x| x.to_bits()).collect())).collect()
}
#[test]
fn captured_held_back_and_resumed() -> Result<()> {
    for kind in ClippingType::ALL {
        let p = [Param::new(&Tensor::ones([2, 2]))?];
        let (mut plain, mut captured) = (GradientClipper::new(kind)?, GradientClipper::new(kind)?);
        captured.prepare(Device::current()?)?;
        let captured = std::cell::RefCell::new(captured);
        // What is captured can read nothing.
        let whole = compile(|x: &[Tensor]| -> Result<Vec<Tensor>> {
            let mut grads = set(&p, &x[..1]);
            captured.borrow_mut().clip(&mut grads, &p)?;
            Ok(vec![grads.of(&p[0].cell()).cloned().ok_or_else(|| adamant_core::Error::new("test", adamant_core::ErrorKind::Argument("gone".into())))?])
        });
        for (step, norm) in wandering(&mut Random::new(5)).into_iter().take(60).enumerate() {
            let g = Tensor::full([2, 2], norm, DType::F32);
            if step == 30 {
                // Another that goes on from the state.
                let mut next = GradientClipper::new(kind)?;
                next.load_state_dict(&plain.state_dict())?;
                plain = next;
            }
            if step % 7 == 3 && plain.options().clipping_type == kind {
                let before = bits(&plain);
                step_when(|| {
                    plain.clip(&mut set(&p, std::slice::from_ref(&g)), &p)?;
                    Ok((Tensor::scalar(false), ()))
                })?;
                assert_eq!(before, bits(&plain), "{kind}, step {step}: the history of a step that was held back");
            }
            let mut grads: Grads = set(&p, std::slice::from_ref(&g));
            plain.clip(&mut grads, &p)?;
            let (x, y) = (numbers(grads.of(&p[0].cell()).unwrap()), numbers(&whole.call(&[&g])?[0]));
            assert!(x.iter().zip(&y).all(|(x, y)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan())), "{kind}, step {step}: {x:?}, {y:?}");
        }
        assert_eq!(bits(&plain), bits(&captured.borrow()), "{kind}");
    }
    Ok(())
}
#[test]
fn numbers_and_states_that_make_no_sense() {
    let wrong: [(ClippingOptions, &str); 9] = [
        (ClippingOptions { max_norm: 0.0, ..Default::default() }, "max_norm is 0"),
        (ClippingOptions { max_value: f64::NAN, ..Default::default() }, "max_value is NaN"),
        (ClippingOptions { adaptive_factor: -2.0, ..Default::default() }, "adaptive_factor is -2"),
        (ClippingOptions { percentile_threshold: 101.0, ..Default::default() }, "percentile_threshold is 101"),
        (ClippingOptions { exponential_alpha: 1.0, ..Default::default() }, "exponential_alpha is 1"),
        (ClippingOptions { z_alpha: 0.0, ..Default::default() }, "z_alpha is 0"),
        (ClippingOptions { z_warm_up: 0, ..Default::default() }, "z_warm_up is 0"),
        (ClippingOptions { agc_eps: f64::INFINITY, ..Default::default() }, "agc_eps is inf"),
        (ClippingOptions { layer_norm_thresholds: vec![("fc*".into(), 0.0)], ..Default::default() }, "fc* is 0"),
    ];
    for (options, text) in wrong {
        let told = GradientClipper::new(options).err().unwrap().to_string();
        assert!(told.contains(text), "{told}");
    }
    assert!(ClippingType::from_name("percentil").unwrap_err().to_string().contains("percentil"));
    assert!(ClippingType::ALL.iter().all(|kind| ClippingType::from_name(kind.name()).unwrap() == *kind));
    let (_model, all) = parameters();
    let gradients: Vec<Tensor> = all.iter().map(|p| p.detached().ones_like()).collect();
    let globs = ClippingOptions { layer_norm_thresholds: vec![("encoder.*".into(), 1.0)], ..ClippingType::LayerWise.into() };
    let mut grads = set(&all, &gradients);
    let told = GradientClipper::new(globs).unwrap().clip(&mut grads, &all).unwrap_err().to_string();
    assert!(told.contains("encoder.*"), "{told}");
    assert!(all.iter().zip(&gradients).all(|(p, g)| numbers(grads.of(&p.cell()).unwrap()) == numbers(g)));
    for kind in ClippingType::ALL {
        let mut clipper = GradientClipper::new(kind).unwrap();
        assert!(clipper.clip(&mut Grads::default(), &all).unwrap_err().to_string().contains("none of the parameters has a gradient"));
        assert!(clipper.load_state_dict(&[("momentum".into(), Tensor::scalar(1.0))]).unwrap_err().to_string().contains("momentum"));
    }
    let mut adaptive = GradientClipper::new(ClippingType::Adaptive).unwrap();
    let short = [("count".to_string(), Tensor::scalar(1u32)), ("norms".to_string(), Tensor::ones([3]))];
    assert!(adaptive.load_state_dict(&short).unwrap_err().to_string().contains("`norms` is of shape"));
    assert!(adaptive.load_state_dict(&short[..1]).unwrap_err().to_string().contains("`norms`"));
}
