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

fn dynamic() -> Checked {
    manual_seed(6);
    let layers = || -> adamant::Result<(Linear, Lstm)> { Ok((Linear::new(1024, 1024)?, Lstm::new(512, 512)?)) };
    let (floats, codes) = (layers()?, layers()?);
    codes.0.load_state_dict(&floats.0.state_dict())?;
    codes.1.load_state_dict(&floats.1.state_dict())?;
    let mut ratios = Vec::new();
    if !planted("weights that stay floats") {
        for report in [
            quantize_dynamic(&codes.0, &[LayerKind::Linear, LayerKind::Lstm], DType::I8)?,
            quantize_dynamic(&codes.1, &[LayerKind::Linear, LayerKind::Lstm], DType::I8)?,
        ] {
            ratios.push(report.ratio());
        }
    }
    let stored =
        |model: &dyn Fn() -> Vec<(String, Tensor)>| model().iter().any(|(name, t)| name.starts_with("weight") && t.dtype().is_ok_and(|d| d == DType::I8));
    let is_i8 = stored(&|| codes.0.state_dict()) && stored(&|| codes.1.state_dict());
    if planted("a bad scale")
        && let Some((_, scale)) = codes.0.named_buffers().into_iter().find(|(name, _)| name == "weight_scale")
    {
        scale.set(&(scale.detached() * 1.2))?;
    }
    let (mut near, mut fast, mut told) = (true, true, Vec::new());
    for rows in [1usize, 8, 32] {
        let (x, sequence) = (init::normal([rows, 1024], 0.0, 1.0)?, init::normal([8, rows, 512], 0.0, 1.0)?);
        for (name, run) in [
            ("Linear", [&|| floats.0.forward(&x) as adamant::Result<Tensor>, &|| codes.0.forward(&x)] as [&dyn Fn() -> adamant::Result<Tensor>; 2]),
            ("LSTM", [&|| floats.1.forward(&sequence), &|| codes.1.forward(&sequence)]),
        ] {
            let (a, b) = (no_grad(run[0])?, no_grad(run[1])?);
            near &= (&a - &b).abs().max().item::<f32>()? <= 0.02 * a.abs().max().item::<f32>()?;
            let once = |f: &dyn Fn() -> adamant::Result<Tensor>| drop(no_grad(|| f().and_then(|y| y.materialize())));
            let (slow, quick) = least_of_two(30, || once(run[0]), || once(run[1]));
            fast &= slow >= 2.0 * quick;
            told.push(format!("{name} of {rows} rows {:.2} times as fast", slow / quick));
        }
    }
    let small = !ratios.is_empty() && ratios.iter().all(|r| *r >= 3.9);
    let told = format!("{}; {} times smaller", told.join(", "), ratios.iter().map(|r| format!("{r:.2}")).collect::<Vec<_>>().join(" and "));
    let mut parts = vec![("i8", is_i8), ("3.9 times smaller", small || planted("weights that stay floats")), ("near the floats", near)];
    let vnni = cfg!(target_arch = "x86_64") && has_vnni();
    if vnni {
        parts.push(("twice as fast", fast || planted("weights that stay floats")));
        return Ok(Seen::all(&parts, told));
    }
    Ok(Seen::all(&parts, told).lacking([Lacking::new("a processor with AVX-512 VNNI", "another machine")]))
}
#[cfg(target_arch = "x86_64")]
fn has_vnni() -> bool {
    is_x86_feature_detected!("avx512vnni")
}
#[cfg(not(target_arch = "x86_64"))]
fn has_vnni() -> bool {
    false
}
