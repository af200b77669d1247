//! The manager against a loop by hand and plain arithmetic in f64; each of its options shown to change something.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{Device, Error, Result, Tensor, step};
use adamant_nn::{BatchNorm1d, Linear, Module, Relu, Sequential, Walk, manual_seed};
use adamant_optim::{AdamW, ClippingOptions, GradientClipper, Optimizer, Sgd, UpdateRule};
use adamant_stability::{
    AnomalyMode, DebugLevel, DebugOptions, HandlingType, NanOptions, NumericalStabilityManager, SessionEnd, StepMetrics, StepStability, TrainingWrapper,
};
use std::time::Duration;

const WIDTH: usize = 6;
fn net(seed: u64) -> Sequential {
    manual_seed(seed);
    Sequential::new().add(Linear::new(WIDTH, WIDTH).unwrap()).add(BatchNorm1d::new(WIDTH).unwrap()).add(Relu::new()).add(Linear::new(WIDTH, 2).unwrap())
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
fn bits(net: &Sequential) -> Vec<Vec<u8>> {
    net.state_dict().iter().map(|(_, t)| t.to_bytes().unwrap()).collect()
}
fn clipping() -> ClippingOptions {
    ClippingOptions::global_norm(0.5)
}
fn metrics() -> Box<dyn StepMetrics> {
    Box::new(|step: u64| vec![("twice".to_string(), 2.0 * step as f64)])
}
/// So many steps of a net of the seed.
fn steps(manager: &mut NumericalStabilityManager, seed: u64, bad: &[Option<f32>]) -> (Vec<Result<StepStability>>, Vec<Vec<u8>>) {
    let (net, mut random) = (net(seed), Random::new(seed));
    let mut optimizer = AdamW::new(0.05).over(net.parameters());
    let reports = bad
        .iter()
        .map(|bad| {
            let x = batch(&mut random, *bad);
            manager.step(&net, || loss_of(&net, &x), &mut optimizer)
        })
        .collect();
    (reports, bits(&net))
}
fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0)
}
const GOOD: [Option<f32>; 4] = [None; 4];

#[test]
fn a_part_that_is_missing_or_there_unasked() {
    Device::cpu().unwrap().scoped(|| {
        for parts in 0..16u32 {
            let is = |k: u32| parts >> k & 1 == 1;
            let mut manager = NumericalStabilityManager::new(
                is(0).then(clipping),
                is(1).then(|| HandlingType::Skip.into()),
                is(2).then(DebugOptions::default),
                is(3).then(metrics),
            )
            .unwrap();
            let (reports, _) = steps(&mut manager, 3, &GOOD);
            for (k, report) in reports.into_iter().enumerate() {
                let report = report.unwrap();
                let there = [report.clipping_stats.is_some(), report.nan_stats.is_some(), report.debug_info.is_some(), report.performance_metrics.is_some()];
                assert_eq!(there, [is(0), is(1), is(2), is(3)], "{parts:b}");
                assert_eq!(report.step, k as u64 + 1);
                if let Some(metrics) = report.performance_metrics {
                    assert_eq!(metrics, [("twice".to_string(), 2.0 * (k + 1) as f64)]);
                }
            }
        }
    });
}
/// By hand: the same loop, and all numbers from what is read of its gradients.
#[test]
fn numbers_that_are_not_those_of_a_loop_by_hand() {
    Device::cpu().unwrap().scoped(|| {
        let mut clipped = 0;
        for seed in 0..20u64 {
            let debug = DebugOptions { debug_level: DebugLevel::Layers, ..DebugOptions::default() };
            let options = NanOptions { detect_overflow: seed % 3 == 0, overflow_threshold: 0.2, ..HandlingType::Skip.into() };
            let bad: Vec<Option<f32>> = (0..6).map(|k| [None, Some(f32::NAN), None, Some(f32::INFINITY)][(seed as usize + k) % 4]).collect();
            let mut manager = NumericalStabilityManager::new(Some(clipping()), Some(options.clone()), Some(debug), None).unwrap();
            let (reports, ours) = steps(&mut manager, seed, &bad);
            let (net, mut random) = (net(seed), Random::new(seed));
            let mut optimizer = AdamW::new(0.05).over(net.parameters());
            let mut clipper = GradientClipper::new(clipping()).unwrap();
            let (mut total, mut row) = (0, 0);
            for (report, bad) in reports.into_iter().zip(&bad) {
                let report = report.unwrap();
                let x = batch(&mut random, *bad);
                let mut all = Vec::new();
                let mut named = Vec::new();
                let (mut behind, mut loss_value) = (0.0f64, 0.0);
                // Taken back where something in it is bad.
                let _ = step(|| {
                    let loss = loss_of(&net, &x)?;
                    let mut grads = loss.backward()?;
                    loss_value = loss.item::<f64>()?;
                    let values = |grads: &adamant_core::Grads| -> Vec<(String, Vec<f64>)> {
                        net.named_parameters().iter().map(|(name, p)| (name.clone(), grads.of(&p.cell()).unwrap().to_vec_as::<f64>().unwrap())).collect()
                    };
                    named = values(&grads);
                    all = named.iter().flat_map(|(_, v)| v.clone()).collect();
                    clipper.clip(&mut grads, &net.parameters())?;
                    behind = values(&grads).iter().flat_map(|(_, v)| v.clone()).map(|g| g * g).sum::<f64>().sqrt();
                    optimizer.step(&grads)?;
                    let seen = |f: &dyn Fn(f64) -> bool| all.iter().chain([&loss_value]).any(|v| f(*v));
                    let over = options.detect_overflow && seen(&|v| v.is_finite() && v.abs() > 0.2);
                    if seen(&|v| !v.is_finite()) || over { Err(Error::new("test", adamant_core::ErrorKind::Argument("bad".into()))) } else { Ok(()) }
                });
                let seen = |f: &dyn Fn(f64) -> bool| all.iter().chain([&loss_value]).any(|v| f(*v));
                let (nan, inf) = (seen(&f64::is_nan), seen(&f64::is_infinite));
                let overflow = options.detect_overflow && seen(&|v| v.is_finite() && v.abs() > 0.2);
                let is_bad = nan || inf || overflow;
                (total, row) = if is_bad { (total + 1, row + 1) } else { (total, 0) };
                let stats = report.nan_stats.unwrap();
                let at = format!("seed {seed}, step {}: {report:?}", report.step);
                assert_eq!((stats.bad, stats.committed, stats.total, stats.consecutive), (is_bad, !is_bad, total, row), "{at}");
                // Where overflows are looked for, the kinds are those that the policy told; else those of a second run.
                assert_eq!((stats.nan, stats.inf, stats.overflow), (nan, inf, overflow), "{at}");
                let norm = all.iter().map(|g| g * g).sum::<f64>().sqrt();
                let clip = report.clipping_stats.unwrap();
                let ratio = if norm.is_finite() { (1.0 - behind / norm).max(0.0) } else { 0.0 };
                clipped += u32::from(ratio > 0.1);
                let same = |a: f64, b: f64| close(a, b) || (a.is_nan() && b.is_nan()) || a == b;
                assert!(same(clip.norm, norm) && same(clip.clipped_norm, behind) && close(clip.ratio, ratio), "{at}\n{norm} {behind}");
                let score = 1.0 - 0.3 * f64::from(u8::from(nan)) - 0.2 * f64::from(u8::from(inf)) - 0.1 * f64::from(u8::from(overflow)) - 0.1 * ratio;
                assert!(close(report.stability_score, score) && same(report.loss, loss_value), "{at}");
                let info = report.debug_info.unwrap();
                if !is_bad {
                    let n = all.len() as f64;
                    let mean = all.iter().sum::<f64>() / n;
                    let std = (all.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / n).sqrt();
                    let stats = info.gradients.unwrap();
                    let want = [mean, std, all.iter().copied().fold(f64::MAX, f64::min), all.iter().copied().fold(f64::MIN, f64::max), norm];
                    let got = [stats.mean, stats.std, stats.min, stats.max, stats.total];
                    assert!(got.iter().zip(want).all(|(a, b)| close(*a, b)), "{got:?} {want:?}");
                    let layers = info.layers.unwrap();
                    assert_eq!(layers.iter().map(|(name, _)| name).collect::<Vec<_>>(), named.iter().map(|(name, _)| name).collect::<Vec<_>>());
                    for ((_, stats), (_, values)) in layers.iter().zip(&named) {
                        assert!(close(stats.total, values.iter().map(|g| g * g).sum::<f64>().sqrt()) && stats.elements == values.len() as u64);
                    }
                } else if nan {
                    assert!(info.anomaly.is_some(), "{at}");
                }
            }
            assert_eq!(bits(&net), ours, "seed {seed}: other bits than the loop by hand");
        }
        assert!(clipped > 20, "{clipped}");
    });
}
#[test]
fn a_wrapper_or_a_debug_session_that_changes_bits() {
    Device::cpu().unwrap().scoped(|| {
        let by_hand = |debug: Option<DebugOptions>| {
            let mut manager = NumericalStabilityManager::new(Some(clipping()), Some(HandlingType::Replace.into()), debug, None).unwrap();
            steps(&mut manager, 5, &[None, Some(f32::NAN), None, None]).1
        };
        let plain = by_hand(None);
        let close = DebugOptions { enable_grad_check: true, device_synchronize: true, enable_memory_debugging: true, ..DebugOptions::default() };
        assert_eq!(by_hand(Some(close)), plain);
        let manager = NumericalStabilityManager::new(Some(clipping()), Some(HandlingType::Replace.into()), None, None).unwrap();
        let (net, mut random) = (net(5), Random::new(5));
        let mut optimizer = AdamW::new(0.05).over(net.parameters());
        let mut wrapper: TrainingWrapper<_, Tensor> = manager.create_training_wrapper(|x: &Tensor| loss_of(&net, x));
        for bad in [None, Some(f32::NAN), None, None] {
            let x = batch(&mut random, bad);
            wrapper.step(&net, &x, &mut optimizer).unwrap();
        }
        assert_eq!(wrapper.manager().histories().scores.len(), 4);
        assert_eq!(bits(&net), plain);
        // And a policy that is left out is seen.
        let mut without = NumericalStabilityManager::new(Some(clipping()), None, None, None).unwrap();
        assert_ne!(steps(&mut without, 5, &[None, Some(f32::NAN), None, None]).1, plain);
    });
}
#[test]
fn an_option_for_debugging_that_does_nothing() {
    Device::cpu().unwrap().scoped(|| {
        let infos = |options: DebugOptions, bad: &[Option<f32>]| {
            let mut manager = NumericalStabilityManager::new(None, None, Some(options), None).unwrap();
            let (reports, bits) = steps(&mut manager, 8, bad);
            (reports.into_iter().map(|r| r.map(|r| r.debug_info)).collect::<Vec<_>>(), bits, manager)
        };
        let nan = [None, Some(f32::NAN), None];
        // The origin, told or an error.
        let (found, went_on, _) = infos(DebugOptions::default(), &nan);
        let anomaly = found[1].as_ref().unwrap().as_ref().unwrap().anomaly.as_ref().unwrap();
        assert_eq!((&*anomaly.kind, anomaly.op.is_some()), ("NaN", false), "{anomaly:?}");
        assert!(found[0].as_ref().unwrap().as_ref().unwrap().anomaly.is_none());
        let (found, off, _) = infos(DebugOptions { enable_autograd_anomaly: false, ..DebugOptions::default() }, &nan);
        assert!(found.iter().all(|i| i.as_ref().unwrap().as_ref().unwrap().anomaly.is_none()) && off == went_on);
        let (found, raised, _) = infos(DebugOptions { autograd_anomaly_mode: AnomalyMode::Raise, ..DebugOptions::default() }, &nan);
        let e = found[1].as_ref().unwrap_err();
        assert!(e.to_string().contains("NaN at") && found[2].is_ok(), "{e}");
        // The step that was an error has changed nothing.
        let (_, two, _) = {
            let mut manager = NumericalStabilityManager::new(None, None, None, None).unwrap();
            let (net, mut random) = (net(8), Random::new(8));
            let mut optimizer = AdamW::new(0.05).over(net.parameters());
            for bad in nan {
                let x = batch(&mut random, bad);
                if bad.is_none() {
                    manager.step(&net, || loss_of(&net, &x), &mut optimizer).unwrap();
                }
            }
            ((), bits(&net), ())
        };
        assert_eq!(raised, two);
        // One option, one field.
        let last = |options: DebugOptions| infos(options, &GOOD).0.pop().unwrap().unwrap().unwrap();
        let plain = last(DebugOptions::default());
        assert!(plain.grad_check.is_none() && plain.memory.is_none() && plain.layers.is_none() && plain.kernels.is_none());
        assert!(last(DebugOptions { enable_memory_debugging: true, ..DebugOptions::default() }).memory.unwrap().peak_bytes > 0);
        assert_eq!(last(DebugOptions { debug_level: DebugLevel::Layers, ..DebugOptions::default() }).layers.unwrap().len(), 6);
        let check = last(DebugOptions { enable_grad_check: true, ..DebugOptions::default() }).grad_check.unwrap();
        assert!(check.relative_error < 1e-6 && check.analytic != 0.0, "{check:?}");
        let waited = last(DebugOptions { device_synchronize: true, ..DebugOptions::default() });
        assert!(waited.seconds.forward > 0.0 && waited.seconds.backward > 0.0 && waited.seconds.optimizer > 0.0);
        profiled(&last);
        // Limits: the session looks no more, training goes on.
        let (infos, _, mut manager) = infos(DebugOptions { max_debug_iterations: 2, ..DebugOptions::default() }, &GOOD);
        assert_eq!(infos.iter().map(|i| i.as_ref().unwrap().is_some()).collect::<Vec<_>>(), [true, true, false, false]);
        let summary = manager.stop_debug_session().unwrap();
        assert_eq!((summary.iterations, summary.end, summary.files.len()), (2, SessionEnd::Iterations, 0));
        assert!(manager.stop_debug_session().is_err());
        manager.start_debug_session().unwrap();
        assert!(steps(&mut manager, 8, &GOOD[..1]).0[0].as_ref().unwrap().debug_info.is_some());
        assert_eq!(manager.stop_debug_session().unwrap().end, SessionEnd::Stopped);
        let brief = DebugOptions { debug_timeout: Duration::from_nanos(1), ..DebugOptions::default() };
        let mut manager = NumericalStabilityManager::new(None, None, Some(brief), None).unwrap();
        assert!(steps(&mut manager, 8, &GOOD[..1]).0[0].as_ref().unwrap().debug_info.is_none());
        assert_eq!(manager.stop_debug_session().unwrap().end, SessionEnd::Timeout);
    });
}
#[test]
fn a_wrong_gradient_that_passes_the_check() {
    Device::cpu().unwrap().scoped(|| {
        let model = Linear::new(3, 3).unwrap();
        let x = Tensor::from_vec(vec![0.3f32, -0.5, 0.9], [1, 3]);
        let mut errors = Vec::new();
        for wrong in [false, true] {
            let options = DebugOptions { enable_grad_check: true, ..DebugOptions::default() };
            let mut manager = NumericalStabilityManager::new(None, None, Some(options), None).unwrap();
            let mut sgd = Sgd::new(0.01).over(model.parameters());
            let loss = || {
                let y = model.forward(&x)?;
                // Half of the derivative is lost.
                if wrong { (y.detach() * &y).sum(..).ok() } else { (&y * &y).sum(..).ok() }
            };
            errors.push(manager.step(&model, loss, &mut sgd).unwrap().debug_info.unwrap().grad_check.unwrap().relative_error);
        }
        assert!(errors[0] < 1e-6 && errors[1] > 0.4, "{errors:?}");
    });
}
#[test]
fn numbers_that_make_no_sense_and_parts_that_are_not_there() {
    Device::cpu().unwrap().scoped(|| {
        let refused = |debug: DebugOptions| NumericalStabilityManager::new(None, None, Some(debug), None).err().unwrap().to_string();
        assert!(refused(DebugOptions { max_debug_iterations: 0, ..DebugOptions::default() }).contains("max_debug_iterations"));
        assert!(refused(DebugOptions { debug_timeout: Duration::ZERO, ..DebugOptions::default() }).contains("debug_timeout"));
        assert!(refused(DebugOptions { profile_memory: true, ..DebugOptions::default() }).contains("profile_autograd"));
        let skips = NanOptions { restore_skip: 2, ..HandlingType::Restore.into() };
        assert!(NumericalStabilityManager::new(None, Some(skips), None, None).err().unwrap().to_string().contains("restore_skip is 2"));
        let mut manager = NumericalStabilityManager::new(None, None, None, None).unwrap();
        assert!(manager.start_debug_session().is_err() && manager.stop_debug_session().is_err());
        // After a bad step under stop nothing changes any more, until somebody says so.
        let mut manager = NumericalStabilityManager::new(None, Some(HandlingType::Stop.into()), None, None).unwrap();
        let (net, mut random) = (net(2), Random::new(2));
        let mut optimizer = Sgd::new(0.1).over(net.parameters());
        let mut committed = Vec::new();
        for bad in [None, Some(f32::NAN), None, None] {
            let x = batch(&mut random, bad);
            committed.push(manager.step(&net, || loss_of(&net, &x), &mut optimizer).unwrap().nan_stats.unwrap().committed);
        }
        manager.reopen().unwrap();
        let x = batch(&mut random, None);
        committed.push(manager.step(&net, || loss_of(&net, &x), &mut optimizer).unwrap().nan_stats.unwrap().committed);
        assert_eq!(committed, [true, false, false, false, true]);
    });
}
/// By hand: what was held is put back, at a smaller rate, and learning goes on from there.
#[test]
fn a_state_that_is_not_put_back_whole() {
    Device::cpu().unwrap().scoped(|| {
        for (seed, every, bad_at) in [(1u64, 1u32, vec![2usize]), (2, 3, vec![4, 8]), (3, 4, vec![0, 1, 9]), (4, 2, vec![5, 6, 7])] {
            let bad: Vec<Option<f32>> = (0..12).map(|k| bad_at.contains(&k).then_some(f32::NAN)).collect();
            let options = NanOptions { restore_every: every, restore_lr_factor: 0.5, ..HandlingType::Restore.into() };
            let adaptive = || ClippingOptions { adaptive_factor: 1.1, ..adamant_optim::ClippingType::Adaptive.into() };
            let mut manager = NumericalStabilityManager::new(Some(adaptive()), Some(options), None, None).unwrap();
            let (reports, ours) = steps(&mut manager, seed, &bad);
            let (net, mut random) = (net(seed), Random::new(seed));
            let mut optimizer = AdamW::new(0.05).over(net.parameters());
            let mut clipper = GradientClipper::new(adaptive()).unwrap();
            let held = |optimizer: &dyn Optimizer, clipper: &GradientClipper| (net.state_dict(), optimizer.state_dict(), clipper.state_dict());
            // A state answers once a good step has tried it.
            let (mut last, mut since, mut before) = (held(&optimizer, &clipper), 0, None);
            for (report, bad) in reports.into_iter().zip(&bad) {
                let x = batch(&mut random, *bad);
                if since == every {
                    (before, since) = (Some(std::mem::replace(&mut last, held(&optimizer, &clipper))), 0);
                }
                since += 1;
                let stats = report.unwrap().nan_stats.unwrap();
                assert_eq!((stats.restored.is_some(), stats.committed), (bad.is_some(), bad.is_none()), "seed {seed}: {stats:?}");
                let untried = before.take();
                if bad.is_none() {
                    step(|| {
                        let mut grads = loss_of(&net, &x)?.backward()?;
                        clipper.clip(&mut grads, &net.parameters())?;
                        optimizer.step(&grads)
                    })
                    .unwrap();
                } else {
                    last = untried.unwrap_or(last);
                    net.load_state_dict(&last.0).unwrap();
                    optimizer.load_state_dict(&last.1).unwrap();
                    clipper.load_state_dict(&last.2).unwrap();
                    let lr = optimizer.lrs()[0] * 0.5;
                    optimizer.set_lr(lr);
                    since = 0;
                }
            }
            assert_eq!(optimizer.lrs()[0], 0.05 * 0.5f64.powi(bad_at.len() as i32));
            assert_eq!(bits(&net), ours, "seed {seed}");
        }
        // Too many in a row end it.
        let options = NanOptions { max_consecutive: 2, ..HandlingType::Restore.into() };
        let mut manager = NumericalStabilityManager::new(None, Some(options), None, None).unwrap();
        let (reports, _) = steps(&mut manager, 1, &[None, Some(f32::NAN), Some(f32::NAN), Some(f32::NAN), None]);
        let restored: Vec<_> = reports.into_iter().map(|r| r.unwrap().nan_stats.unwrap()).map(|n| (n.restored, n.committed)).collect();
        assert_eq!(restored, [(None, true), (Some(0), false), (Some(0), false), (None, false), (None, false)]);
    });
}
#[test]
fn files_that_lack_a_field() {
    Device::cpu().unwrap().scoped(|| {
        let folder = tempfile::tempdir().unwrap();
        let debug = DebugOptions { debug_output_dir: Some(folder.path().join("debug")), enable_memory_debugging: true, ..DebugOptions::default() };
        let mut manager = NumericalStabilityManager::new(Some(clipping()), Some(HandlingType::Skip.into()), Some(debug), Some(metrics())).unwrap();
        steps(&mut manager, 4, &[None, Some(f32::NAN), None]);
        let saved = manager.save_histories(folder.path().join("histories")).unwrap();
        let read = |path: &std::path::Path| -> Vec<serde_json::Value> { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
        let fields = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        let clipping = read(&saved.clipping);
        assert_eq!((clipping.len(), fields(&clipping[0])), (3, "clipped_norm norm ratio step threshold".into()));
        assert!(clipping[0]["norm"].as_f64().unwrap() > 0.0 && clipping[1]["norm"].is_null());
        let nan = read(&saved.nan);
        assert_eq!(fields(&nan[1]), "action bad committed consecutive explosion inf nan overflow restored step total");
        assert_eq!(nan.iter().map(|n| n["action"].as_str().unwrap()).collect::<Vec<_>>(), ["none", "skip", "none"]);
        assert_eq!((nan[1]["nan"].as_bool(), nan[1]["committed"].as_bool(), nan[2]["total"].as_u64()), (Some(true), Some(false), Some(1)));
        let scores = read(&saved.scores);
        assert_eq!(fields(&scores[2]), "loss stability_score step");
        let page = std::fs::read_to_string(&saved.report).unwrap();
        assert!(page.matches("<svg").count() == 4 && page.contains("<td>skip</td><td>1</td>") && !page.contains("src=") && !page.contains("href="));
        let summary = manager.stop_debug_session().unwrap();
        assert_eq!((summary.anomalies, summary.iterations), (1, 3));
        let names: Vec<_> = summary.files.iter().map(|f| f.file_name().unwrap().to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["history.json", "anomalies.json", "gradients.json", "memory.json"]);
        let anomalies = read(&summary.files[1]);
        assert_eq!(fields(&anomalies[0]["value"]), "at chain inputs kind layer line op phase place text");
        assert_eq!(fields(&read(&summary.files[2])[0]["value"]["all"]), "elements max mean min std total");
        assert_eq!(fields(&read(&summary.files[3])[0]["value"]), "growth_bytes live_bytes peak_bytes");
        assert!(manager.save_histories("/dev/null/nowhere").is_err());
    });
}
/// Kernels and bytes, where they are compiled in; else an error that says what is missing.
fn profiled(last: &dyn Fn(DebugOptions) -> adamant_stability::DebugInfo) {
    let asked = DebugOptions { profile_autograd: true, ..DebugOptions::default() };
    if cfg!(not(feature = "profiling")) {
        let refused = NumericalStabilityManager::new(None, None, Some(asked), None).err().unwrap();
        assert!(refused.to_string().contains("needs the feature `profiling`"), "{refused}");
        return;
    }
    let kernels = last(asked.clone()).kernels.unwrap();
    // Two products each forward, three backward.
    let products: u64 = kernels.iter().filter(|k| k.kernel.contains("matmul") || k.kernel.contains("linear")).map(|k| k.calls).sum();
    assert!(products >= 4 && kernels.iter().all(|k| k.calls > 0 && k.seconds >= 0.0 && k.peak_bytes.is_none()), "{kernels:?}");
    let with_bytes = last(DebugOptions { profile_memory: true, ..asked }).kernels.unwrap();
    assert!(with_bytes.iter().any(|k| k.peak_bytes.is_some_and(|bytes| bytes > 0)), "{with_bytes:?}");
}
