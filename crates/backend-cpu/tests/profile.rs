//! What a profile says of work whose kernels, sizes and order are known.
use adamant_backend_cpu::{Context, CpuBackend};
use adamant_core::{
    Cell, Device, Tensor,
    profile::{GroupBy, Profile, Profiler, SortBy, SpanKind, profile, record_function},
    scope,
};
use parking_lot::Mutex;
use std::time::Duration;

/// One profiler runs at a time in a process.
static ALONE: Mutex<()> = Mutex::new(());
fn device() -> Device {
    Context::new(CpuBackend::builder().threads(1)).unwrap().device()
}
/// A forward of two layers, its backward and a step, each in its range.
fn trained() -> Profile {
    let device = device();
    device.scoped(|| {
        let (x, w) = (Tensor::ones([8, 16]), Cell::new(&Tensor::ones([16, 4]), true).unwrap());
        let step = || {
            let weight = w.get();
            let loss = {
                let _range = record_function("forward");
                let _layer = scope::enter("encoder");
                x.matmul(&weight).exp().sum(..)
            };
            let grads = {
                let _range = record_function("backward");
                loss.backward().unwrap()
            };
            let _range = record_function("optimizer_step");
            let g = grads.get(&weight).unwrap();
            (w.detached() - g * 1e-9).materialize().unwrap();
        };
        step();
        let recording = Profiler::new().record_shapes(true).profile_memory(true).start().unwrap();
        step();
        recording.stop()
    })
}

#[test]
fn a_kernel_in_the_range_or_layer_of_another() {
    let _alone = ALONE.lock();
    let p = trained();
    let of = |range: &str| p.kernels.iter().filter(|k| k.range.as_deref() == Some(range)).map(|k| k.family).collect::<Vec<_>>();
    assert!(of("forward").contains(&"matmul"), "{:#?}", p.kernels);
    assert!(of("backward").contains(&"matmul"), "{:#?}", p.kernels);
    assert!(of("optimizer_step").contains(&"map") && !of("optimizer_step").contains(&"matmul"), "{:#?}", p.kernels);
    // The backward of a layer is the layer's too.
    assert!(p.kernels.iter().filter(|k| k.family == "matmul").all(|k| &*k.layer == "encoder"));
    assert!(p.kernels.iter().all(|k| k.origin.at.file().ends_with("profile.rs") && k.live_bytes.is_some()));
}
#[test]
fn a_cost_that_is_not_the_ops() {
    let _alone = ALONE.lock();
    let p = trained();
    let product = p.kernels.iter().find(|k| k.family == "matmul" && k.range.as_deref() == Some("forward")).unwrap();
    // The exponential runs behind the product, in its kernel.
    assert_eq!((product.flops, product.bytes), (2 * 8 * 16 * 4 + 8 * 4, 4 * (8 * 16 + 16 * 4 + 8 * 4)));
    let averages = p.key_averages();
    assert_eq!(averages.rows.iter().map(|r| r.calls).sum::<u64>(), p.kernels.len() as u64);
    assert_eq!(averages.total, p.kernels.iter().map(|k| k.time).sum());
    assert!(averages.rows.windows(2).all(|w| w[0].total >= w[1].total));
    assert!(averages.rows.iter().any(|r| r.key.starts_with("matmul") && r.key.contains("[8, 16]")), "{averages}");
    let text = averages.table(SortBy::Calls, 1);
    assert!(text.lines().count() == 4 && text.contains("others") && text.contains("GFLOP/s"), "{text}");
    assert!(p.averages(GroupBy::Layer).rows.iter().any(|r| r.key == "encoder"));
    assert!(p.averages(GroupBy::Line).rows.iter().all(|r| r.key.contains("profile.rs:")));
}
#[test]
fn phases_that_do_not_add_up_to_the_wall_clock() {
    let _alone = ALONE.lock();
    let p = trained();
    let phases = p.phases();
    let sum: Duration = phases.rows.iter().map(|r| r.total()).sum();
    assert!(sum.abs_diff(p.wall) <= p.wall / 50, "{phases}\n{sum:?} of {:?}", p.wall);
    let names: Vec<&str> = phases.rows.iter().map(|r| &*r.name).collect();
    assert_eq!(names, ["forward", "backward", "optimizer_step", ""]);
    assert!(phases.rows[..3].iter().all(|r| r.count == 1 && r.kernels > Duration::ZERO), "{phases}");
}
#[test]
fn a_second_profiler_that_takes_the_events_of_the_first() {
    let _alone = ALONE.lock();
    let recording = Profiler::new().start().unwrap();
    let refused = Profiler::new().start().unwrap_err().to_string();
    assert!(refused.contains("running already"), "{refused}");
    device().scoped(|| Tensor::ones([4]).exp().materialize()).unwrap();
    assert_eq!(recording.stop().kernels.len(), 1);
    // Dropped, it is over, and nothing of it is left.
    drop(Profiler::new().start().unwrap());
    let ((), p) = profile(|| ()).unwrap();
    assert!(p.kernels.is_empty() && p.spans.is_empty());
}
#[test]
fn a_range_that_outlives_its_guard_or_its_profiler() {
    let _alone = ALONE.lock();
    let device = device();
    device.scoped(|| {
        let (guard, p) = profile(|| record_function("never ended")).unwrap();
        assert!(p.spans.is_empty());
        drop(guard);
        Tensor::ones([4]).exp().materialize().unwrap();
        let ((), p) = profile(|| Tensor::ones([4]).exp().materialize().unwrap()).unwrap();
        assert!(p.kernels.iter().all(|k| k.range.is_none()));
        assert_eq!(p.spans.iter().filter(|s| s.kind == SpanKind::Flush).count(), 1);
        assert!(p.spans.iter().all(|s| s.kind != SpanKind::Range));
    });
}
#[test]
fn a_trace_or_stack_that_tools_cannot_read() {
    let _alone = ALONE.lock();
    let p = trained();
    let mut bytes = Vec::new();
    p.write_chrome_trace(&mut bytes).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let timed: Vec<_> = events.iter().filter(|e| e["ph"] == "X").collect();
    assert_eq!(timed.len(), p.kernels.len() + p.spans.len());
    assert!(timed.iter().all(|e| e["ts"].as_f64().unwrap() >= 0.0 && e["dur"].is_f64() && e["tid"].is_u64() && e["name"].is_string()));
    assert!(timed.iter().any(|e| e["cat"] == "matmul" && e["args"]["layer"] == "encoder" && e["args"]["flops"] == 1024), "{trace:#}");
    for line in p.folded().lines() {
        let (stack, micros) = line.rsplit_once(' ').unwrap();
        assert!(!stack.contains(' ') && micros.parse::<u64>().is_ok(), "{line}");
    }
    assert!(p.folded().contains("forward;encoder;"), "{}", p.folded());
}
