//! The scaler against a definition in plain numbers, and what it leaves of a step that overflowed: nothing.
#![allow(clippy::unwrap_used)]

use adamant_amp::{GradScaler, ScalerOptions};
use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{Cell, DType, Grads, Result, Tensor, compile};
use adamant_nn::{BatchNorm1d, Linear, Module, Param, Relu, Sequential, Walk, manual_seed};
use adamant_optim::{AdamW, Optimizer, Sgd, UpdateRule, clip_grad_norm};

/// A scaler in plain numbers, written from its documentation.
struct Plain {
    options: ScalerOptions,
    scale: f32,
    good: u32,
    left: u32,
}
impl Plain {
    fn new(options: ScalerOptions) -> Plain {
        Plain { scale: options.init_scale as f32, good: 0, left: options.hysteresis, options }
    }
    fn update(&mut self, finite: bool) {
        let o = &self.options;
        if !finite {
            self.good = 0;
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                self.scale = (f64::from(self.scale) * o.backoff_factor).max(o.min_scale) as f32;
            }
            return;
        }
        self.left = o.hysteresis;
        self.good += 1;
        if self.good == o.growth_interval {
            self.good = 0;
            let grown = (f64::from(self.scale) * o.growth_factor).min(o.max_scale) as f32;
            if grown.is_finite() {
                self.scale = grown;
            }
        }
    }
}
fn options(random: &mut Random) -> ScalerOptions {
    let init_scale = *random.pick(&[65536.0, 1.0, 3.0, 1e30, 2f64.powi(-100)]);
    ScalerOptions {
        init_scale,
        growth_factor: *random.pick(&[2.0, 1.5, 1.1, 1000.0]),
        backoff_factor: *random.pick(&[0.5, 0.9, 0.3, 1e-3]),
        growth_interval: *random.pick(&[1, 2, 3, 7]),
        min_scale: *random.pick(&[f64::from(f32::MIN_POSITIVE), init_scale / 16.0]),
        max_scale: *random.pick(&[f64::INFINITY, init_scale * 100.0]),
        hysteresis: *random.pick(&[1, 1, 2, 3]),
        enabled: true,
    }
}
/// The gradient of `weight` in a loss whose gradient is all 1, but for one bad element.
fn gradients(scaler: &mut GradScaler, weight: &Param, bad: Option<f32>) -> Grads {
    let factor = Tensor::from_vec(vec![1.0, bad.unwrap_or(1.0), 1.0], [3]);
    scaler.scale(&(weight.get() * factor).sum(..)).unwrap().backward().unwrap()
}
fn weight() -> Param {
    Param::new(&Tensor::ones([3])).unwrap()
}
const BAD: [f32; 3] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];

#[test]
fn random_scripts_of_one_and_two_optimizers_follow_the_definition() {
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let mut plain = Plain::new(options(&mut random));
        let mut scaler = GradScaler::with(plain.options.clone()).unwrap();
        let weights: Vec<Param> = (0..=seed % 2).map(|_| weight()).collect();
        let mut optimizers: Vec<_> = weights.iter().map(|w| Sgd::new(0.0).over([w.clone()])).collect();
        let (mut applied, mut skipped) = (0, 0);
        for step in 0..20 {
            let mut finite = true;
            for (weight, optimizer) in weights.iter().zip(&mut optimizers) {
                let bad = (random.below(4) == 0).then(|| *random.pick(&BAD));
                finite &= bad.is_none();
                let mut grads = gradients(&mut scaler, weight, bad);
                if random.below(2) == 0 {
                    scaler.unscale_(&mut grads, optimizer).unwrap();
                }
                scaler.step(optimizer, &mut grads).unwrap();
            }
            scaler.update().unwrap();
            plain.update(finite);
            *(if finite { &mut applied } else { &mut skipped }) += 1;
            // One in two hundred is read at each step, the others at their end: the host need not look.
            if seed % 200 == 0 || step == 19 {
                assert_eq!(scaler.get_scale().unwrap() as f32, plain.scale, "seed {seed}, step {step}");
            }
            if random.below(10) == 0 {
                let state = scaler.state_dict().unwrap();
                scaler = GradScaler::new();
                scaler.load_state_dict(&state).unwrap();
            }
        }
        let stats = scaler.stats().unwrap();
        assert_eq!((stats.applied, stats.skipped), (applied, skipped), "seed {seed}");
        assert!(stats.least <= stats.scale && stats.scale <= stats.most);
    }
}
#[test]
fn good_steps_double_the_scale_every_two_thousand() {
    let (mut scaler, weight) = (GradScaler::new(), weight());
    let mut optimizer = Sgd::new(0.0).over([weight.clone()]);
    for _ in 0..4100 {
        let mut grads = gradients(&mut scaler, &weight, None);
        scaler.step(&mut optimizer, &mut grads).unwrap();
        scaler.update().unwrap();
    }
    assert_eq!(scaler.get_scale().unwrap(), 4.0 * 65536.0);
}

/// A net with running statistics, its optimizer, and a scaler.
struct Training {
    model: Sequential,
    optimizer: Box<dyn Optimizer>,
    scaler: GradScaler,
}
impl Training {
    fn new(enabled: bool) -> Training {
        manual_seed(5);
        let layers = Sequential::new().add(Linear::new(6, 8).unwrap()).add(BatchNorm1d::new(8).unwrap()).add(Relu::new());
        let model = layers.add(Linear::new(8, 1).unwrap());
        let optimizer = Box::new(AdamW::new(1e-2).over(model.parameters()));
        Training { model, optimizer, scaler: GradScaler::with(ScalerOptions { enabled, ..ScalerOptions::default() }).unwrap() }
    }
    /// A step on a batch; a bad number is put into the gradient of a parameter, at random.
    fn step(&mut self, batch: u64, bad: Option<&mut Random>) -> Result<()> {
        let mut random = Random::new(batch);
        let x: Vec<f32> = (0..4 * 6).map(|_| random.unit() as f32 - 0.5).collect();
        let (model, optimizer) = (&self.model, &mut self.optimizer);
        self.scaler.attempt(|scaler| {
            let loss = model.forward(&Tensor::from_vec(x, [4, 6]))?.square().mean(..);
            let mut grads = scaler.scale(&loss)?.backward()?;
            if let Some(random) = bad {
                let all = model.parameters();
                let cell = all[random.below(all.len())].cell();
                let g = grads.of(&cell).unwrap().clone();
                let n = g.shape()?.elements();
                let mut one = vec![0f32; n];
                one[random.below(n)] = *random.pick(&BAD);
                grads.set(&cell, &g + Tensor::from_vec(one, g.shape()?));
            }
            scaler.step(optimizer, &mut grads)
        })
    }
    /// The bits of all that a step may change, the scale apart.
    fn bits(&self) -> Vec<(String, Vec<u64>)> {
        let mut all = self.model.state_dict();
        all.extend(self.optimizer.state_dict());
        all.into_iter().map(|(name, t)| (name, t.to_vec_as::<f64>().unwrap().into_iter().map(f64::to_bits).collect())).collect()
    }
}
#[test]
fn a_step_that_overflowed_leaves_no_trace() {
    let (mut met, mut spared) = (Training::new(true), Training::new(true));
    let mut random = Random::new(77);
    let mut bad = 0;
    for batch in 0..150 {
        if bad < 50 && random.below(3) == 0 {
            bad += 1;
            let before = met.bits();
            met.step(batch, Some(&mut random)).unwrap();
            // Slots are made by the first step, which may be a bad one: they hold zeros then.
            let after: Vec<_> = met.bits().into_iter().filter(|(name, _)| before.iter().any(|(n, _)| n == name)).collect();
            assert!(after == before, "batch {batch} has left a trace");
        } else {
            met.step(batch, None).unwrap();
            spared.step(batch, None).unwrap();
        }
    }
    assert_eq!(met.scaler.stats().unwrap().skipped as usize, bad);
    assert!(bad > 30);
    assert!(met.bits() == spared.bits());
    // The same without a scaler: powers of two change no bits.
    let mut without = Training::new(false);
    let mut random = Random::new(77);
    let mut bad = 0;
    for batch in 0..150 {
        if bad < 50 && random.below(3) == 0 {
            bad += 1;
            let n = without.model.parameters();
            // As many numbers are drawn as above.
            let elements = n[random.below(n.len())].elements();
            random.below(elements);
            random.pick(&BAD);
        } else {
            without.step(batch, None).unwrap();
        }
    }
    assert!(met.bits() == without.bits());
}
/// The planted fault: an optimizer that steps whatever the gradients are is seen by the comparison of bits above.
#[test]
fn a_step_without_predicate_leaves_a_trace() {
    let mut training = Training::new(false);
    training.step(0, None).unwrap();
    let before = training.bits();
    training.step(1, Some(&mut Random::new(3))).unwrap();
    assert!(training.bits() != before);
}
#[test]
fn a_captured_step_is_the_step() {
    let run = |captured: bool| {
        let mut random = Random::new(9);
        let batches: Vec<Tensor> = (0..30).map(|_| Tensor::from_vec(vec![1.0, if random.below(4) == 0 { f32::NAN } else { 0.5 }, 2.0], [3])).collect();
        let weight = weight();
        let mut optimizer = AdamW::new(1e-2).over([weight.clone()]);
        let mut scaler = GradScaler::with(ScalerOptions { growth_interval: 3, ..ScalerOptions::default() }).unwrap();
        let seen = Cell::new(&Tensor::full([], 0.0, DType::F32), false).unwrap();
        let mut step = |x: &Tensor| {
            scaler.attempt(|scaler| {
                seen.set(&(seen.detached() + 1.0))?;
                let mut grads = scaler.scale(&(weight.get() * x).sum(..))?.backward()?;
                scaler.step(&mut optimizer, &mut grads)
            })
        };
        if captured {
            let kept = compile::captures();
            for x in &batches {
                kept.call_with(&[x], &mut |x| step(&x[0]).map(|()| Vec::new())).unwrap();
            }
            assert!((1..=2).contains(&kept.captures().structures));
        } else {
            batches.iter().for_each(|x| step(x).unwrap());
        }
        (weight.detached().to_vec::<f32>().unwrap(), seen.detached().item::<f32>().unwrap(), scaler.stats().unwrap())
    };
    assert_eq!(run(true), run(false));
}
#[test]
fn gradients_are_clipped_as_if_they_had_never_been_scaled() {
    for exponent in 0..=24 {
        let scale = 2f64.powi(exponent);
        let weight = weight();
        let mut optimizer = Sgd::new(1.0).over([weight.clone()]);
        let mut scaler = GradScaler::with(ScalerOptions { init_scale: scale, ..ScalerOptions::default() }).unwrap();
        let loss = (weight.get() * Tensor::from_vec(vec![3.0f32, -4.0, 12.0], [3])).sum(..);
        let mut grads = scaler.scale(&loss).unwrap().backward().unwrap();
        scaler.unscale_(&mut grads, &optimizer).unwrap();
        let norm = clip_grad_norm(&mut grads, std::slice::from_ref(&weight), 1.0).unwrap();
        assert_eq!(norm.item::<f32>().unwrap(), 13.0);
        scaler.step(&mut optimizer, &mut grads).unwrap();
        scaler.update().unwrap();
        let moved = weight.detached().to_vec::<f32>().unwrap();
        for (w, g) in moved.iter().zip([3.0, -4.0, 12.0]) {
            assert!((1.0 - w - g / 13.0).abs() < 1e-6, "scale {scale}: {moved:?}");
        }
    }
}
#[test]
fn a_wrong_order_of_calls_is_told() {
    let weight = weight();
    let other = Param::new(&Tensor::ones([1])).unwrap();
    let (mut optimizer, idle) = (Sgd::new(0.1).over([weight.clone()]), Sgd::new(0.1).over([other]));
    let mut scaler = GradScaler::new();
    let told = |result: Result<()>, wanted: &str| {
        let text = result.unwrap_err().to_string();
        assert!(text.contains(wanted), "{text}\nis not\n{wanted}");
    };
    told(scaler.update(), "update: no loss was scaled yet");
    let mut plain = weight.get().sum(..).backward().unwrap();
    told(scaler.unscale_(&mut plain, &optimizer), "unscale_: no loss was scaled since the last update");
    told(scaler.step(&mut optimizer, &mut plain), "step: no loss was scaled since the last update");
    let mut grads = gradients(&mut scaler, &weight, None);
    told(scaler.update(), "update: no gradients were looked at since the last call");
    told(scaler.unscale_(&mut grads, &idle), "unscale_: none of the optimizer's parameters has a gradient");
    let state = scaler.state_dict().unwrap();
    told(scaler.load_state_dict(&state), "load_state_dict: a loss was scaled by the scale as it is");
    told(scaler.set_scale(2.0), "set_scale: a loss was scaled by the scale as it is");
    scaler.unscale_(&mut grads, &optimizer).unwrap();
    told(scaler.unscale_(&mut grads, &optimizer), "unscale_: the gradients of this optimizer were divided by the scale already");
    told(scaler.attempt(|_| Ok(())), "attempt: another step is under way");
    scaler.step(&mut optimizer, &mut grads).unwrap();
    told(scaler.step(&mut optimizer, &mut grads), "step: the optimizer has stepped already");
    told(scaler.unscale_(&mut grads, &optimizer), "unscale_: the optimizer has stepped with these gradients already");
    scaler.update().unwrap();
    told(scaler.attempt(|_| Ok(())), "attempt: no optimizer has stepped in it");
    told(scaler.attempt(GradScaler::update), "update: the scale is updated by `attempt`");
    told(scaler.scale(&Tensor::from_vec(vec![1i64], [])).map(drop), "scale: a loss is a float, not i64");
    // It goes on as if nothing had been.
    let mut grads = gradients(&mut scaler, &weight, None);
    scaler.step(&mut optimizer, &mut grads).unwrap();
    scaler.update().unwrap();
    assert_eq!(scaler.stats().unwrap().applied, 2);
}
#[test]
fn gradients_of_f16_and_options_without_sense_are_refused() {
    let half = Param::new(&Tensor::ones([2]).cast(DType::F16)).unwrap();
    let mut optimizer = Sgd::new(0.1).over([half.clone()]);
    let mut scaler = GradScaler::new();
    let mut grads = scaler.scale(&half.get().sum(..)).unwrap().backward().unwrap();
    assert!(scaler.step(&mut optimizer, &mut grads).unwrap_err().to_string().contains("is of f16"));
    let d = ScalerOptions::default;
    let wrong = [
        (ScalerOptions { growth_factor: 1.0, ..d() }, "growth_factor is 1, it must be more than 1"),
        (ScalerOptions { growth_factor: f64::NAN, ..d() }, "growth_factor is NaN"),
        (ScalerOptions { backoff_factor: 1.0, ..d() }, "backoff_factor is 1, it must lie between 0 and 1"),
        (ScalerOptions { backoff_factor: 0.0, ..d() }, "backoff_factor is 0"),
        (ScalerOptions { growth_interval: 0, ..d() }, "growth_interval is 0"),
        (ScalerOptions { hysteresis: 0, ..d() }, "hysteresis is 0"),
        (ScalerOptions { init_scale: 0.0, ..d() }, "init_scale is 0"),
        (ScalerOptions { init_scale: f64::NAN, ..d() }, "init_scale is NaN"),
        (ScalerOptions { min_scale: -1.0, ..d() }, "min_scale is -1"),
        (ScalerOptions { max_scale: 1e-60, ..d() }, "max_scale is"),
        (ScalerOptions { max_scale: 8.0, ..d() }, "init_scale is 65536, outside of"),
    ];
    for (options, text) in wrong {
        let told = GradScaler::with(options).err().unwrap().to_string();
        assert!(told.contains(text), "{told}");
    }
    let mut scaler = GradScaler::new();
    let state = scaler.state_dict().unwrap();
    let changed = |name: &str, value: Tensor| state.iter().map(|(n, t)| (n.clone(), if n == name { value.clone() } else { t.clone() })).collect::<Vec<_>>();
    for (state, text) in [
        (changed("scale", Tensor::ones([2])), "`scale` is a single number, not a tensor of shape [2]"),
        (changed("growth_tracker", Tensor::scalar(0.5)), "`growth_tracker` is 0.5, it must be a count"),
        (changed("growth_factor", Tensor::scalar(0.5)), "growth_factor is 0.5"),
        (state[1..].to_vec(), "the state of a scaler has `scale`, and this one has not"),
    ] {
        let told = scaler.load_state_dict(&state).unwrap_err().to_string();
        assert!(told.contains(text), "{told}");
    }
    scaler.load_state_dict(&state).unwrap();
}
