//! Rows about numerical stability: clipping, policies for bad numbers, the manager around both, its debugging and its files. What a row says
//! is computed here in plain f64 from what is read.
use super::{
    CheckCost, Checked, RowCheck, Seen,
    clipped::{PlainClipper, norm},
    plant, planted,
};
use adamant::{
    Device, Error, ErrorKind, Result, Tensor,
    nn::{BatchNorm1d, Linear, Module, Param, Relu, Sequential, Walk, manual_seed},
    optim::{AdamW, ClippingOptions, ClippingType, GradientClipper, Optimizer, Sgd, UpdateRule},
    stability::{
        AnomalyMode, DebugLevel, DebugOptions, HandlingType, NanHandler, NanOptions, NumericalStabilityManager, SessionEnd, StepMetrics, StepStability,
    },
    step,
};
use adamant_conformance::random::Random;
use std::time::Duration;

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S4.40",
        target: "all 16 combinations of absent parts run; a part is in the report just where it was given",
        cost: CheckCost::Cheap,
        check: parts,
        plants: &[plant("clipping that was not asked for", "a part where it was given")],
    },
    RowCheck {
        id: "S4.41",
        target: "a wrapped closure gives the bits of the loop by hand",
        cost: CheckCost::Cheap,
        check: wrapper,
        plants: &[plant("a loop without clipping", "the bits of the loop by hand")],
    },
    RowCheck {
        id: "S4.45",
        target: "nine kinds of clipping over 40 steps are their formulas in f64, to 1e-6 of the gradient",
        cost: CheckCost::Cheap,
        check: kinds_of_clipping,
        plants: &[plant("thresholds that are a tenth larger", "the formula")],
    },
    RowCheck {
        id: "S4.46",
        target: "seven policies: nothing that is not finite in weights, slots and buffers; replaced numbers keep their sign; restore puts the held state back and goes on",
        cost: CheckCost::Cheap,
        check: policies,
        plants: &[
            plant("nobody handles bad numbers", "finite weights, slots and buffers"),
            plant("a replacement without a sign", "the sign"),
            plant("a state that is not put back", "the state that was held"),
        ],
    },
    RowCheck {
        id: "S4.47",
        target: "an origin names op, inputs and the line of the call; raise stops, detect goes on; gradients are checked; steps and time are limited; files",
        cost: CheckCost::Cheap,
        check: debugging,
        plants: &[plant("a wrong gradient", "a right gradient passes"), plant("nobody looks for the origin", "the origin")],
    },
    RowCheck {
        id: "S4.49",
        target: "1 - 0.3 NaN - 0.2 Inf - 0.1 overflow - 0.1 of the share that was clipped away, over 60 steps",
        cost: CheckCost::Cheap,
        check: score,
        plants: &[plant("a score that ignores infinities", "the formula")],
    },
    RowCheck {
        id: "S4.50",
        target: "histories of clipping and of bad numbers as JSON, a line for each step; a page with four plots that fetches nothing",
        cost: CheckCost::Cheap,
        check: files,
        plants: &[plant("a history of which a step is lost", "a line for each step")],
    },
    RowCheck {
        id: "B4.01",
        target: "max_norm 1, max_value 1, adaptive_factor 2, percentile 95, alpha 0.9 with floor 0.1, thresholds by layer: each changes what is clipped",
        cost: CheckCost::Cheap,
        check: settings_of_clipping,
        plants: &[plant("a setting that nobody reads", "each changes something")],
    },
    RowCheck {
        id: "B4.02",
        target: "NaN becomes 0, infinities +-1e6, what is beyond 1e6 +-1e6; loss, gradients and weights are looked at, each switched off alone",
        cost: CheckCost::Cheap,
        check: settings_of_policies,
        plants: &[plant("a look that is not switched off", "each look by itself")],
    },
    RowCheck {
        id: "B4.03",
        target: "1000 iterations and 300 s by default, both honoured; history, anomalies, gradients and memory as files with their fields",
        cost: CheckCost::Cheap,
        check: sessions,
        plants: &[plant("a limit that is not honoured", "limits")],
    },
    RowCheck {
        id: "B4.04",
        target: "mean, std, min, max and total of all gradients of a step equal brute force to 1e-6",
        cost: CheckCost::Cheap,
        check: statistics,
        plants: &[plant("a sample's deviation", "brute force")],
    },
];

const WIDTH: usize = 6;
fn net(seed: u64) -> Result<Sequential> {
    manual_seed(seed);
    Ok(Sequential::new().add(Linear::new(WIDTH, WIDTH)?).add(BatchNorm1d::new(WIDTH)?).add(Relu::new()).add(Linear::new(WIDTH, 2)?))
}
fn batch(random: &mut Random, bad: Option<f32>) -> Tensor {
    let mut values: Vec<f32> = (0..4 * WIDTH).map(|_| random.unit() as f32 * 2.0 - 1.0).collect();
    if let Some(bad) = bad {
        let at = random.below(values.len());
        values[at] = bad;
    }
    Tensor::from_vec(values, [4, WIDTH])
}
fn loss_of(net: &Sequential, x: &Tensor) -> Result<Tensor> {
    (net.forward(x)? - 3.0).square().mean(..).ok()
}
fn bits(net: &Sequential) -> Result<Vec<Vec<u8>>> {
    net.state_dict().iter().map(|(_, t)| t.to_bytes()).collect()
}
fn metrics() -> Box<dyn StepMetrics> {
    Box::new(|step: u64| vec![("step".to_string(), step as f64)])
}
struct Ran {
    reports: Vec<Result<StepStability>>,
    net: Sequential,
    optimizer: Box<dyn Optimizer>,
}
fn ran(manager: &mut NumericalStabilityManager, seed: u64, bad: &[Option<f32>]) -> Result<Ran> {
    let (net, mut random) = (net(seed)?, Random::new(seed));
    let mut optimizer: Box<dyn Optimizer> = Box::new(AdamW::new(0.05).over(net.parameters()));
    let mut reports = Vec::new();
    for bad in bad {
        let x = batch(&mut random, *bad);
        reports.push(manager.step(&net, || loss_of(&net, &x), &mut *optimizer));
    }
    Ok(Ran { reports, net, optimizer })
}
fn reports(ran: Ran) -> Result<Vec<StepStability>> {
    ran.reports.into_iter().collect()
}
fn is_near(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0)
}
fn values(grads: &adamant::Grads, p: &Param) -> Result<Vec<f64>> {
    grads.of(&p.cell()).map_or(Ok(Vec::new()), Tensor::to_vec_as::<f64>)
}

fn parts() -> Checked {
    let mut right = true;
    for of in 0..16u32 {
        let is = |k: u32| of >> k & 1 == 1;
        let clips = is(0) || planted("clipping that was not asked for");
        let mut manager = NumericalStabilityManager::new(
            clips.then(|| ClippingOptions::global_norm(0.5)),
            is(1).then(|| HandlingType::Skip.into()),
            is(2).then(DebugOptions::default),
            is(3).then(metrics),
        )?;
        for r in reports(ran(&mut manager, 3, &[None, Some(f32::NAN), None])?)? {
            right &=
                [r.clipping_stats.is_some(), r.nan_stats.is_some(), r.debug_info.is_some(), r.performance_metrics.is_some()] == [is(0), is(1), is(2), is(3)];
        }
    }
    Ok(Seen::all(&[("a part where it was given", right)], "16 combinations of 3 steps"))
}
fn wrapper() -> Checked {
    let mut same = 0;
    for seed in 0..5 {
        let (wrapped, mut random) = (net(seed)?, Random::new(seed));
        let manager = NumericalStabilityManager::new(Some(ClippingOptions::global_norm(0.5)), None, None, None)?;
        let mut optimizer = AdamW::new(0.05).over(wrapped.parameters());
        let mut wrapper = manager.create_training_wrapper(|x: &Tensor| loss_of(&wrapped, x));
        for _ in 0..6 {
            wrapper.step(&wrapped, &batch(&mut random, None), &mut optimizer)?;
        }
        let (by_hand, mut random) = (net(seed)?, Random::new(seed));
        let mut optimizer = AdamW::new(0.05).over(by_hand.parameters());
        let mut clipper = GradientClipper::new(ClippingOptions::global_norm(0.5))?;
        for _ in 0..6 {
            let x = batch(&mut random, None);
            step(|| {
                let mut grads = loss_of(&by_hand, &x)?.backward()?;
                if !planted("a loop without clipping") {
                    clipper.clip(&mut grads, &by_hand.parameters())?;
                }
                optimizer.step(&grads)
            })?;
        }
        same += usize::from(bits(&wrapped)? == bits(&by_hand)?);
    }
    Ok(Seen::all(&[("the bits of the loop by hand", same == 5)], format!("{same} of 5 nets after 6 steps")))
}
/// Random gradients for a net's parameters, of sizes that rise and fall.
fn drawn(net: &Sequential, random: &mut Random) -> Result<adamant::Grads> {
    let size = 10f64.powf(random.unit() * 2.0 - 1.0);
    let mut sum: Option<Tensor> = None;
    for p in net.parameters() {
        let meta = p.cell().meta();
        let factors: Vec<f32> = (0..meta.shape.elements()).map(|_| ((random.unit() - 0.5) * size) as f32).collect();
        let term = (p.get() * Tensor::from_vec(factors, meta.shape)).sum(..);
        sum = Some(match sum {
            Some(sum) => sum + term,
            None => term,
        });
    }
    sum.ok_or_else(|| Error::new("gradients", ErrorKind::Argument("a net without parameters".into())))?.backward()
}
fn kinds_of_clipping() -> Checked {
    let kinds = ClippingType::ALL;
    let (mut worst, mut clipped): (f64, usize) = (0.0, 0);
    for kind in kinds {
        let net = net(7)?;
        let mut options = ClippingOptions { z_warm_up: 8, max_norm: 0.7, max_value: 0.2, adaptive_factor: 1.2, ..kind.into() };
        if kind == ClippingType::LayerWise {
            options.layer_norm_thresholds = vec![("0".into(), 0.3)];
        }
        let mut plain = PlainClipper::new(options.clone());
        if planted("thresholds that are a tenth larger") {
            options.numbers().into_iter().filter(|(name, _)| *name == "max_norm" || *name == "max_value").for_each(|(_, x)| *x *= 1.1);
        }
        let mut clipper = GradientClipper::new(options)?;
        let mut random = Random::new(11);
        for _ in 0..40 {
            let mut grads = drawn(&net, &mut random)?;
            let mut all = Vec::new();
            for (path, p) in net.named_parameters() {
                let meta = p.cell().meta();
                let row = if meta.shape.rank() < 2 { meta.shape.elements() } else { meta.shape.elements() / meta.shape[0] };
                all.push((path, row, values(&grads, &p)?, p.detached().to_vec_as::<f64>()?));
            }
            clipper.clip(&mut grads, &net.parameters())?;
            for ((p, want), (_, _, before, _)) in net.parameters().iter().zip(plain.clip(&all)).zip(&all) {
                let got = values(&grads, p)?;
                let size = norm(&want).max(1e-12);
                worst = worst.max(got.iter().zip(&want).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs())) / size);
                clipped += usize::from(norm(&want) < 0.999 * norm(before));
            }
        }
    }
    Ok(Seen::all(
        &[("the formula", worst <= 1e-6), ("nine kinds", kinds.len() == 9), ("something is clipped", clipped > 500)],
        format!("{} kinds, 40 steps each: at most {worst:.1e} of a gradient apart; {clipped} gradients were clipped", kinds.len()),
    ))
}
fn policies() -> Checked {
    let (mut finite, mut sign, mut back, mut committed) = (true, true, true, 0);
    for policy in HandlingType::ALL.into_iter().filter(|p| !matches!(p, HandlingType::Detect | HandlingType::Stop)) {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let options = NanOptions { restore_every: 2, ..policy.into() };
            let handled = (!planted("nobody handles bad numbers")).then_some(options);
            let mut manager = NumericalStabilityManager::new(None, handled, None, None)?;
            let ran = ran(&mut manager, 5, &[None, None, Some(bad), None, None])?;
            let all = ran.net.state_dict().into_iter().chain(ran.optimizer.state_dict());
            for (_, t) in all.filter(|(_, t)| t.dtype().is_ok_and(adamant::DType::is_float)) {
                finite &= t.is_finite_all()?;
            }
            committed += reports(ran)?.iter().filter(|r| r.nan_stats.is_none_or(|n| n.committed)).count();
        }
    }
    // A gradient that is given: what replaces it.
    let weight = Linear::new(3, 1)?;
    let factors = Tensor::from_vec(vec![f32::NEG_INFINITY, f32::INFINITY, f32::NAN], [1, 3]);
    let p = weight.parameters().into_iter().next().ok_or("no weight")?;
    let mut handler = NanHandler::new(HandlingType::Replace)?;
    let mut sgd = Sgd::new(1.0).over([p.clone()]);
    let mut seen = Vec::new();
    handler.attempt(|handler| {
        let loss = (p.get() * &factors).sum(..);
        let mut grads = loss.backward()?;
        handler.handle(&loss, &mut grads, std::slice::from_ref(&p))?;
        seen = values(&grads, &p)?;
        sgd.step(&grads)
    })?;
    if planted("a replacement without a sign") {
        seen.iter_mut().for_each(|v| *v = v.abs());
    }
    sign &= seen == [-1e6, 1e6, 0.0];
    // Restore: as if the two steps behind the held state had not been, at half the rate.
    let options = NanOptions { restore_every: 2, ..HandlingType::Restore.into() };
    let mut manager = NumericalStabilityManager::new(None, Some(options), None, None)?;
    let restored = ran(&mut manager, 9, &[None, None, None, Some(f32::NAN), None])?;
    let (by_hand, mut random) = (net(9)?, Random::new(9));
    let mut optimizer = AdamW::new(0.05).over(by_hand.parameters());
    for k in 0..5 {
        let x = batch(&mut random, (k == 3).then_some(f32::NAN));
        // The state behind two steps was held: the third is taken back, the fourth is the bad one.
        if k == 3 || (k == 2 && !planted("a state that is not put back")) {
            continue;
        }
        if k == 4 {
            optimizer.set_lr(0.025);
        }
        step(|| optimizer.step(&loss_of(&by_hand, &x)?.backward()?))?;
    }
    back &= bits(&restored.net)? == bits(&by_hand)?;
    Ok(Seen::all(
        &[("finite weights, slots and buffers", finite), ("the sign", sign), ("the state that was held", back)],
        format!("6 policies with NaN, +Inf and -Inf, {committed} of 90 steps committed; replaced {seen:?}"),
    ))
}
fn debugging() -> Checked {
    let went = |options: DebugOptions, bad: &[Option<f32>]| -> Result<Ran> {
        ran(&mut NumericalStabilityManager::new(None, Some(HandlingType::Skip.into()), Some(options), None)?, 8, bad)
    };
    // An op of this file: the logarithm of a negative number.
    let weight = Linear::new(2, 1)?;
    let x = Tensor::from_vec(vec![1.0f32, 2.0], [1, 2]);
    let options = DebugOptions { enable_autograd_anomaly: !planted("nobody looks for the origin"), ..DebugOptions::default() };
    let mut manager = NumericalStabilityManager::new(None, Some(HandlingType::Skip.into()), Some(options), None)?;
    let mut sgd = Sgd::new(0.1).over(weight.parameters());
    let report = manager.step(&weight, || (weight.forward(&x)?.square() * -1.0 - 1.0).log().sum(..).ok(), &mut sgd)?;
    let anomaly = report.debug_info.and_then(|info| info.anomaly);
    let named = anomaly.as_ref().is_some_and(|a| {
        a.op.as_deref() == Some("log") && a.kind == "NaN" && a.line.as_ref().is_some_and(|line| line.contains("stability.rs")) && a.inputs.len() == 1
    });
    let raise = went(DebugOptions { autograd_anomaly_mode: AnomalyMode::Raise, ..DebugOptions::default() }, &[None, Some(f32::NAN), None])?;
    let detect = went(DebugOptions::default(), &[None, Some(f32::NAN), None])?;
    let modes = raise.reports.iter().map(Result::is_ok).collect::<Vec<_>>() == [true, false, true] && detect.reports.iter().all(Result::is_ok);
    let checked = |wrong: bool| -> Result<f64> {
        let options = DebugOptions { enable_grad_check: true, ..DebugOptions::default() };
        let mut manager = NumericalStabilityManager::new(None, None, Some(options), None)?;
        let loss = || {
            let y = weight.forward(&x)?;
            // Half of the derivative is lost.
            if wrong { (y.detach() * &y).sum(..).ok() } else { (&y * &y).sum(..).ok() }
        };
        let info = manager.step(&weight, loss, &mut Sgd::new(0.01).over(weight.parameters()))?.debug_info;
        Ok(info.and_then(|info| info.grad_check).map_or(f64::NAN, |check| check.relative_error))
    };
    let (right, wrong) = (checked(planted("a wrong gradient"))?, checked(true)?);
    Ok(Seen::all(
        &[("the origin", named), ("raise and detect", modes), ("a right gradient passes", right < 1e-6), ("a wrong gradient is found", wrong > 0.4)],
        format!("{}; a right gradient is {right:.1e} off, a wrong one {wrong:.2}", anomaly.map_or("no origin".into(), |a| a.text)),
    ))
}
fn score() -> Checked {
    let (mut worst, mut kinds): (f64, [usize; 3]) = (0.0, [0; 3]);
    for seed in 0..10 {
        let options = NanOptions { detect_overflow: true, ..HandlingType::Skip.into() };
        let mut manager = NumericalStabilityManager::new(Some(ClippingOptions::global_norm(0.5)), Some(options), None, None)?;
        // Without a norm, which makes NaN of all of them.
        manual_seed(seed);
        let (line, mut random) = (Linear::new(WIDTH, 1)?, Random::new(seed));
        let mut sgd = Sgd::new(0.01).over(line.parameters());
        for bad in [None, Some(f32::NAN), None, Some(f32::INFINITY), None, Some(1e15)] {
            let x = batch(&mut random, bad);
            let r = manager.step(&line, || line.forward(&x)?.sum(..).ok(), &mut sgd)?;
            let (nan, clip) = (r.nan_stats.ok_or("no stats")?, r.clipping_stats.ok_or("no stats")?);
            let ratio = if clip.norm.is_finite() { 1.0 - clip.clipped_norm / clip.norm } else { 0.0 };
            let is = |k: usize, is: bool, kinds: &mut [usize; 3]| {
                kinds[k] += usize::from(is);
                f64::from(u8::from(is))
            };
            let inf = is(1, nan.inf, &mut kinds);
            let of_inf = if planted("a score that ignores infinities") { 0.0 } else { 0.2 };
            let want = 1.0 - 0.3 * is(0, nan.nan, &mut kinds) - of_inf * inf - 0.1 * is(2, nan.overflow, &mut kinds) - 0.1 * ratio.max(0.0);
            worst = worst.max((r.stability_score - want).abs());
        }
    }
    Ok(Seen::all(
        &[("the formula", worst < 1e-12), ("kinds of all sorts", kinds.iter().all(|n| *n > 0))],
        format!("60 steps, with NaN in {}, infinities in {}, overflows in {}: at most {worst:.1e} apart", kinds[0], kinds[1], kinds[2]),
    ))
}
fn read(path: &std::path::Path) -> std::result::Result<Vec<serde_json::Value>, Box<dyn std::error::Error>> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}
fn fields(value: &serde_json::Value) -> String {
    value.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>().join(" ")).unwrap_or_default()
}
fn files() -> Checked {
    let folder = tempfile::tempdir()?;
    let mut manager = NumericalStabilityManager::new(Some(ClippingOptions::global_norm(0.5)), Some(HandlingType::Skip.into()), None, None)?;
    let lost = usize::from(planted("a history of which a step is lost"));
    ran(&mut manager, 4, &[None, Some(f32::NAN), None, None, None][lost..])?;
    let saved = manager.save_histories(folder.path())?;
    let (clipping, nan) = (read(&saved.clipping)?, read(&saved.nan)?);
    let page = std::fs::read_to_string(&saved.report)?;
    let whole = fields(&clipping[0]) == "clipped_norm norm ratio step threshold"
        && fields(&nan[0]) == "action bad committed consecutive explosion inf nan overflow restored step total";
    Ok(Seen::all(
        &[
            ("a line for each step", clipping.len() == 5 && nan.len() == 5),
            ("the fields", whole),
            ("four plots", page.matches("<svg").count() == 4 && page.contains("Norms of gradients")),
            ("nothing is fetched", !page.contains("src=") && !page.contains("href=")),
        ],
        format!("{} and {} lines, a page of {} bytes", clipping.len(), nan.len(), page.len()),
    ))
}
fn settings_of_clipping() -> Checked {
    let gradients = |options: ClippingOptions| -> Result<Vec<f64>> {
        let (net, mut random) = (net(7)?, Random::new(13));
        let mut clipper = GradientClipper::new(options)?;
        let mut all = Vec::new();
        for _ in 0..4 {
            let mut grads = drawn(&net, &mut random)?;
            clipper.clip(&mut grads, &net.parameters())?;
            for p in net.parameters() {
                all.extend(values(&grads, &p)?);
            }
        }
        Ok(all)
    };
    let is_default = {
        let o = ClippingOptions::default();
        [o.max_norm, o.max_value, o.adaptive_factor, o.percentile_threshold, o.exponential_alpha, o.exponential_min_threshold]
            == [1.0, 1.0, 2.0, 95.0, 0.9, 0.1]
    };
    let of = |kind: ClippingType, name: &str, to: f64| -> Result<bool> {
        let plain = ClippingOptions { max_norm: 0.05, exponential_min_threshold: 1e-3, ..kind.into() };
        let mut changed = plain.clone();
        let name = if planted("a setting that nobody reads") { "agc_eps" } else { name };
        changed.numbers().into_iter().filter(|(n, _)| *n == name).for_each(|(_, x)| *x = to);
        Ok(gradients(plain)? != gradients(changed)?)
    };
    let mut each = Vec::new();
    for (kind, name, to) in [
        (ClippingType::GlobalNorm, "max_norm", 0.5),
        (ClippingType::Norm, "max_norm", 0.5),
        (ClippingType::Value, "max_value", 0.01),
        (ClippingType::Adaptive, "adaptive_factor", 0.5),
        (ClippingType::Percentile, "percentile_threshold", 50.0),
        (ClippingType::Exponential, "exponential_alpha", 0.5),
        (ClippingType::Exponential, "exponential_min_threshold", 50.0),
        (ClippingType::LayerWise, "max_norm", 0.5),
    ] {
        each.push((name, of(kind, name, to)?));
    }
    let by_layer = ClippingOptions { layer_norm_thresholds: vec![("0".into(), 0.01)], ..ClippingType::LayerWise.into() };
    each.push(("layer_norm_thresholds", gradients(by_layer)? != gradients(ClippingType::LayerWise.into())?));
    let idle: Vec<&str> = each.iter().filter(|(_, changes)| !changes).map(|(name, _)| *name).collect();
    Ok(Seen::all(&[("the defaults", is_default), ("each changes something", idle.is_empty())], format!("{} settings, without effect: {idle:?}", each.len())))
}
fn settings_of_policies() -> Checked {
    let o = NanOptions::default();
    let is_default = [o.nan_replacement, o.inf_replacement, o.overflow_threshold, o.overflow_replacement] == [0.0, 1e6, 1e6, 1e6];
    // Which looks notice what: a loss alone, a gradient alone, a weight alone.
    let noticed = |what: &str, options: NanOptions| -> Result<bool> {
        let weight = Linear::new(2, 1)?;
        let p = weight.parameters().into_iter().next().ok_or_else(|| Error::new("look", ErrorKind::Argument("no weight".into())))?;
        let mut handler = NanHandler::new(options)?;
        // A step that is infinite where the gradient is finite.
        let mut sgd = Sgd::new(if what == "weight" { f64::from(f32::MAX) } else { 0.1 }).over([p.clone()]);
        handler.attempt(|handler| {
            let factor = if what == "weight" { 10.0 } else { 1.0 };
            let loss = (p.get() * factor).sum(..);
            let loss = if what == "loss" { &loss + Tensor::from_vec(vec![f32::NAN], ()) } else { loss };
            let mut grads = loss.backward()?;
            if what == "gradient" {
                let bad = p.detached() * f64::NAN;
                grads.set(&p.cell(), bad);
            }
            handler.handle(&loss, &mut grads, std::slice::from_ref(&p))?;
            sgd.step(&grads)
        })?;
        Ok(handler.look()?.bad > 0)
    };
    let off = |what: &str| {
        let is = |name: &str| what != name || planted("a look that is not switched off");
        NanOptions { loss_checking: is("loss"), gradient_checking: is("gradient"), parameter_checking: is("weight"), ..HandlingType::Skip.into() }
    };
    let mut right = true;
    for what in ["loss", "gradient", "weight"] {
        right &= noticed(what, HandlingType::Skip.into())?;
        // A bad gradient is seen in the weight that it makes, too.
        let without = if what == "gradient" { NanOptions { parameter_checking: false, ..off(what) } } else { off(what) };
        right &= !noticed(what, without)?;
    }
    Ok(Seen::all(&[("the defaults", is_default), ("each look by itself", right)], "loss, gradient and weight, each switched off alone"))
}
fn sessions() -> Checked {
    let o = DebugOptions::default();
    let is_default = o.max_debug_iterations == 1000 && o.debug_timeout == Duration::from_secs(300);
    let folder = tempfile::tempdir()?;
    let limit = if planted("a limit that is not honoured") { 5 } else { 2 };
    let options =
        DebugOptions { max_debug_iterations: limit, enable_memory_debugging: true, debug_output_dir: Some(folder.path().into()), ..DebugOptions::default() };
    let mut manager = NumericalStabilityManager::new(None, None, Some(options), None)?;
    let there: Vec<bool> = reports(ran(&mut manager, 2, &[None, Some(f32::NAN), None, None])?)?.iter().map(|r| r.debug_info.is_some()).collect();
    let summary = manager.stop_debug_session()?;
    let brief = DebugOptions { debug_timeout: Duration::from_nanos(1), ..DebugOptions::default() };
    let mut timed = NumericalStabilityManager::new(None, None, Some(brief), None)?;
    let silent = reports(ran(&mut timed, 2, &[None])?)?.iter().all(|r| r.debug_info.is_none()) && timed.stop_debug_session()?.end == SessionEnd::Timeout;
    let names: Vec<String> = summary.files.iter().filter_map(|f| Some(f.file_name()?.to_string_lossy().into_owned())).collect();
    let known = names == ["history.json", "anomalies.json", "gradients.json", "memory.json"]
        && fields(&read(&summary.files[1])?[0]["value"]) == "at chain inputs kind layer line op phase place text"
        && fields(&read(&summary.files[2])?[0]["value"]["all"]) == "elements max mean min std total"
        && fields(&read(&summary.files[3])?[0]["value"]) == "growth_bytes live_bytes peak_bytes";
    Ok(Seen::all(
        &[
            ("the defaults", is_default),
            ("limits", there == [true, true, false, false] && summary.end == SessionEnd::Iterations && silent),
            ("the files", known),
        ],
        format!("{} steps, then {:?}; {names:?}", summary.iterations, summary.end),
    ))
}
fn statistics() -> Checked {
    let (mut near, mut steps) = (true, 0);
    for seed in 0..10 {
        let options = DebugOptions { debug_level: DebugLevel::Layers, ..DebugOptions::default() };
        let mut manager = NumericalStabilityManager::new(None, None, Some(options), None)?;
        let (net, mut random) = (net(seed)?, Random::new(seed));
        let mut sgd = Sgd::new(0.1).over(net.parameters());
        for _ in 0..3 {
            let x = batch(&mut random, None);
            let mut all = Vec::new();
            let _back: Result<()> = step(|| {
                let grads = loss_of(&net, &x)?.backward()?;
                for p in net.parameters() {
                    all.extend(values(&grads, &p)?);
                }
                Err(Error::new("statistics", ErrorKind::Argument("taken back".into())))
            });
            let told = manager.step(&net, || loss_of(&net, &x), &mut sgd)?.debug_info.and_then(|info| info.gradients).ok_or("no statistics")?;
            let n = all.len() as f64;
            let mean = all.iter().sum::<f64>() / n;
            let over = if planted("a sample's deviation") { n - 1.0 } else { n };
            let std = (all.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / over).sqrt();
            let want = [mean, std, all.iter().copied().fold(f64::MAX, f64::min), all.iter().copied().fold(f64::MIN, f64::max), norm(&all)];
            near &= [told.mean, told.std, told.min, told.max, told.total].iter().zip(want).all(|(a, b)| is_near(*a, b));
            steps += 1;
        }
    }
    Ok(Seen::all(&[("brute force", near)], format!("{steps} steps on {}", Device::current()?)))
}
