//! Rows about smaller models: weights as integer codes, schedules of sparsity, students of a teacher.
use super::{CheckCost, Checked, Lacking, RowCheck, Seen, plant, planted, timing::least_of_two};
use adamant::{
    DType, Tensor,
    grad::no_grad,
    nn::{Linear, Lstm, Module, Relu, Sequential, Walk, init, manual_seed},
    optim::{AdamW, Optimizer, UpdateRule},
    quant::{
        LayerKind,
        prune::{PruneImportance, Pruner, PruningCurve, PruningSchedule, PruningScheduler},
        quantize_dynamic,
    },
};

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S1.33",
        target: "sparsity rises by the cubic curve at the steps of the schedule and nowhere else; zeros hold between them, whatever the optimizer does",
        cost: CheckCost::Cheap,
        check: schedule,
        plants: &[plant("a linear curve", "the curve"), plant("a weight that comes back", "zeros hold")],
    },
    RowCheck {
        id: "S3.06",
        target: "quantize_dynamic of Linear and LSTM: i8 in the state dict, 3.9 times smaller, at least twice as fast for 1 to 32 rows with VNNI, near the floats",
        cost: CheckCost::Clocked,
        check: dynamic,
        plants: &[plant("weights that stay floats", "i8"), plant("a bad scale", "near the floats")],
    },
];

fn schedule() -> Checked {
    manual_seed(5);
    let model = Sequential::new().add(Linear::new(40, 60)?).add(Relu::new()).add(Linear::new(60, 20)?);
    let (begin, end, every, target) = (10u64, 50u64, 10u64, 0.9);
    let curve = if planted("a linear curve") { PruningCurve::Linear } else { PruningCurve::Cubic };
    let pruned = Pruner::new(PruneImportance::Magnitude).prune(&model, 0.0)?;
    let mut scheduler = PruningScheduler::new(pruned, PruningSchedule::new(curve, target).between(begin, end).every(every))?;
    let mut optimizer = AdamW::new(1e-2).over(model.trainable_parameters());
    let x = init::normal([16, 40], 0.0, 1.0)?;
    // The weights as the layers read them.
    let weights = || -> adamant::Result<Vec<f32>> {
        let of = |path: &str| -> adamant::Result<Vec<f32>> {
            let state = model.state_dict();
            let original = state.iter().find(|(name, _)| *name == format!("{path}.parametrizations.weight.original"));
            original.map_or(Ok(Vec::new()), |(_, t)| t.to_vec::<f32>())
        };
        Ok([of("0")?, of("2")?].concat())
    };
    let (mut on_curve, mut hold, mut seen) = (true, true, Vec::new());
    let mut zeros_before = 0;
    for step in 0..60u64 {
        let grads = model.forward(&x)?.square().mean(..).backward()?;
        optimizer.step(&grads)?;
        let mut values = weights()?;
        if step == 55
            && planted("a weight that comes back")
            && let Some(zero) = values.iter_mut().find(|v| **v == 0.0)
        {
            *zero = 1.0;
        }
        hold &= values.iter().filter(|v| **v == 0.0).count() >= zeros_before;
        let due = (begin..=end).contains(&step) && (step - begin).is_multiple_of(every);
        let told = scheduler.step()?;
        on_curve &= told.is_some() == due;
        let after = weights()?;
        zeros_before = after.iter().filter(|v| **v == 0.0).count();
        if due {
            // Zhu and Gupta 2017: s = target (1 - (1 - (t - begin) / (end - begin))^3)
            let way = (step - begin) as f64 / (end - begin) as f64;
            let wanted = target * (1.0 - (1.0 - way).powi(3));
            let share = zeros_before as f64 / after.len() as f64;
            on_curve &= (share - wanted).abs() <= 2.0 / 1200.0;
            seen.push(format!("{share:.3}"));
        }
    }
    Ok(Seen::all(&[("the curve", on_curve && seen.len() == 5), ("zeros hold", hold)], format!("sparsity {} of 3,600 weights", seen.join(", "))))
}

/// A layer that is quantized, and its input of so many rows.
struct DynamicCase {
    name: &'static str,
    layer: fn() -> adamant::Result<Box<dyn Module>>,
    input: fn(usize) -> adamant::Result<Tensor>,
}
const DYNAMIC: [DynamicCase; 2] = [
    DynamicCase { name: "Linear", layer: || Ok(Box::new(Linear::new(1024, 1024)?)), input: |rows| init::normal([rows, 1024], 0.0, 1.0) },
    DynamicCase { name: "LSTM", layer: || Ok(Box::new(Lstm::new(512, 512)?)), input: |rows| init::normal([8, rows, 512], 0.0, 1.0) },
];
fn dynamic() -> Checked {
    manual_seed(6);
    let (mut is_i8, mut small, mut near, mut fast, mut told) = (true, true, true, true, Vec::new());
    for DynamicCase { name, layer, input } in DYNAMIC {
        let (floats, codes) = (layer()?, layer()?);
        codes.load_state_dict(&floats.state_dict())?;
        let before = codes.memory_usage();
        if !planted("weights that stay floats") {
            quantize_dynamic(&*codes, &[LayerKind::Linear, LayerKind::Lstm], DType::I8)?;
        }
        is_i8 &= codes.state_dict().iter().any(|(name, t)| name.starts_with("weight") && t.dtype().is_ok_and(|d| d == DType::I8));
        let ratio = before as f64 / codes.memory_usage() as f64;
        small &= ratio >= 3.9;
        told.push(format!("{name} {ratio:.2} times smaller"));
        for (_, scale) in codes.named_buffers().iter().filter(|(name, _)| planted("a bad scale") && name.ends_with("_scale")) {
            scale.set(&(scale.detached() * 1.2))?;
        }
        for rows in [1usize, 8, 32] {
            let x = input(rows)?;
            let (a, b) = (no_grad(|| floats.forward(&x))?, no_grad(|| codes.forward(&x))?);
            near &= (&a - &b).abs().max().item::<f32>()? <= 0.02 * a.abs().max().item::<f32>()?;
            let once = |layer: &dyn Module| drop(no_grad(|| layer.forward(&x).and_then(|y| y.materialize())));
            let (slow, quick) = least_of_two(30, || once(&*floats), || once(&*codes));
            fast &= slow >= 2.0 * quick;
            told.push(format!("{:.2} times as fast of {rows} rows", slow / quick));
        }
    }
    let mut parts = vec![("i8", is_i8), ("3.9 times smaller", small), ("near the floats", near)];
    let lacking = if has_vnni() { None } else { Some(Lacking::new("a processor with AVX-512 VNNI", "another machine")) };
    if lacking.is_none() {
        parts.push(("twice as fast", fast));
    }
    Ok(Seen::all(&parts, told.join(", ")).lacking(lacking))
}
#[cfg(target_arch = "x86_64")]
pub fn has_vnni() -> bool {
    is_x86_feature_detected!("avx512vnni")
}
#[cfg(not(target_arch = "x86_64"))]
pub fn has_vnni() -> bool {
    false
}
