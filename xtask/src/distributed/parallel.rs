//! Models that ranks share: loss and gradients are those of one process, however rows, layers, pieces and experts are shared out. Ranks are threads
//! of this process, and no wait is longer than their group's timeout.
mod learn;
mod pace;

use super::ParallelOptions;
use crate::torture::{TortureClaim, claim};
use adamant::{
    DType, Device, Result, Tensor, communicator,
    nn::{BatchNorm1d, Linear, Module, Sequential, Walk, manual_seed},
    op::Group,
    parallel::{
        DataParallel, Mesh, MeshShape, SyncBatchNorm,
        pipeline::{PipelineCosts, PipelineSchedule, dry_run, pipeline_actions},
    },
};
use learn::{SharedSubject, difference, learned, numbers, read};
use std::{sync::Arc, time::Duration};

const WAIT: Duration = Duration::from_secs(60);

/// Runs `f` for each of so many ranks on a thread of its own. What one says that fails, the others are told.
fn on_ranks<R: Send>(size: usize, f: impl Fn(&Group) -> Result<R> + Sync) -> std::result::Result<Vec<R>, String> {
    let device = Device::cpu().map_err(|e| e.to_string())?;
    let groups = adamant::distributed::local::local_threads_with(size, WAIT).map_err(|e| e.to_string())?;
    let f = &f;
    let one = move |on: Arc<dyn communicator::Communicator>| {
        let made = device.scoped(|| f(&communicator::group(&on)));
        made.inspect_err(|e| on.abort(&e.to_string())).map_err(|e| format!("rank {} of {size}: {e}", on.rank()))
    };
    std::thread::scope(|scope| {
        let ranks: Vec<_> = groups.into_iter().map(|on| scope.spawn(move || one(on))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|_| Err("a rank panicked".into()))).collect()
    })
}
pub fn claims(options: &ParallelOptions) -> Vec<TortureClaim> {
    let tensor = |n| MeshShape { tensor: n, ..MeshShape::default() };
    let gpt = SharedSubject::gpt();
    let mixture = SharedSubject { experts: 8, ..gpt };
    let expert = |n| MeshShape { expert: n, ..MeshShape::default() };
    let cube = MeshShape { data: 2, pipeline: 2, tensor: 2, ..MeshShape::default() };
    let mut claims = Vec::new();
    let whole = "loss and each gradient within 1e-6 of one process (f64: 1e-12)";
    for (name, subject, shapes) in [
        ("char-GPT in pieces", gpt, vec![tensor(2), tensor(4)]),
        ("a GPT with a mixture of experts in pieces", mixture, vec![tensor(2), tensor(4)]),
        ("experts on ranks", mixture, vec![expert(2), expert(4), MeshShape { data: 2, expert: 2, ..MeshShape::default() }]),
    ] {
        claims.push(claim(&format!("{name}, {}: {whole}", told(&shapes)), |claim| within(claim, options, subject, &shapes, None)));
    }
    let schedules = [PipelineSchedule::Gpipe, PipelineSchedule::OneForwardOneBackward, PipelineSchedule::Interleaved { chunks: 2 }];
    for schedule in schedules {
        let text = format!("char-GPT, {cube}, {schedule}: {whole}");
        claims.push(claim(&text, |claim| within(claim, options, gpt, &[cube], Some(schedule))));
    }
    for stages in [2, 4] {
        for schedule in schedules {
            let text = format!("char-GPT on {stages} stages, {schedule}: the bits of one process that adds up the same micro-batches");
            claims.push(claim(&text, |claim| same_bits(claim, options, gpt, stages, schedule)));
        }
    }
    claims.push(claim("SyncBatchNorm, 4 ranks of 8 rows as 32 rows: loss, gradients and running statistics within 1e-6 (f64: 1e-12)", |claim| {
        batch_norm(claim, options)
    }));
    claims.push(claim("DataParallel on cpu:0 to cpu:3, any number of rows: loss and gradients of one device", |claim| devices(claim, options, gpt)));
    claims.push(claim(
        "schedules by a clock, 1 to 8 stages, 1 to 16 micro-batches: none waits for ever, 1F1B has stages - stage in flight, the bubble is (p-1)/(v m+p-1)",
        by_clock,
    ));
    claims
        .push(claim("measured, layers that take the same time: the bubble of 1F1B within 10 % of (p-1)/(m+p-1), in flight at most stages - stage", |claim| {
            pace::measured(claim, Duration::from_millis(options.pace))
        }));
    claims
}
fn told(shapes: &[MeshShape]) -> String {
    shapes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}
fn tolerance(dtype: DType) -> f64 {
    if dtype == DType::F64 { 1e-12 } else { 1e-6 }
}
/// Every seed, dtype and way to lay out activations on each mesh.
fn within(
    claim: &mut TortureClaim,
    options: &ParallelOptions,
    subject: SharedSubject,
    shapes: &[MeshShape],
    schedule: Option<PipelineSchedule>,
) -> std::result::Result<(), String> {
    let mut most = [0f64; 2];
    for seed in 1..=options.seeds {
        for (k, dtype) in [DType::F32, DType::F64].into_iter().enumerate() {
            for sequence in [false, true] {
                let subject = SharedSubject { seed, dtype, sequence, ..subject };
                let want = Device::cpu().map_err(|e| e.to_string())?.scoped(|| learned(&subject, &Mesh::alone(), None)).map_err(|e| e.to_string())?;
                for &shape in shapes.iter().filter(|shape| !sequence || shape.tensor > 1) {
                    let ran = on_ranks(shape.ranks(), |group| learned(&subject, &Mesh::new(group, shape)?, schedule));
                    let by = ran.and_then(|ran| difference(&ran, &want));
                    if let Ok(by) = by {
                        most[k] = most[k].max(by);
                    }
                    claim.count(by.and_then(|by| {
                        if by <= tolerance(dtype) { Ok(()) } else { Err(format!("{shape}, seed {seed}, {dtype}, sequence {sequence}: off by {by:e}")) }
                    }));
                }
            }
        }
    }
    claim.see(serde_json::json!({ "f32": most[0], "f64": most[1] }));
    Ok(())
}
fn same_bits(
    claim: &mut TortureClaim,
    options: &ParallelOptions,
    subject: SharedSubject,
    stages: usize,
    schedule: PipelineSchedule,
) -> std::result::Result<(), String> {
    let mut flights = Vec::new();
    for seed in 1..=options.seeds {
        for dtype in [DType::F32, DType::F64] {
            let subject = SharedSubject { seed, dtype, ..subject };
            let device = Device::cpu().map_err(|e| e.to_string())?;
            let want = device.scoped(|| learn::accumulated(&subject)).map_err(|e| e.to_string())?;
            let ran = on_ranks(stages, |group| {
                let mesh = Mesh::new(group, MeshShape { pipeline: group.size as usize, ..MeshShape::default() })?;
                learn::on_stages(&subject, &mesh, schedule)
            });
            claim.count(ran.and_then(|ran| {
                flights = ran.iter().map(|stage| stage.in_flight).collect();
                let mut seen = 0;
                for (path, bits) in ran.iter().flat_map(|stage| &stage.bits) {
                    // A head that is tied stands under its own name where the table is another stage's.
                    let path = if path == "head.weight" { "wte.weight" } else { path };
                    seen += 1;
                    if want.bits.get(path) != Some(bits) {
                        return Err(format!("seed {seed}, {dtype}: {path} has other bits"));
                    }
                }
                if seen < want.bits.len() || ran.iter().any(|stage| stage.loss.to_bits() != want.loss.to_bits()) {
                    return Err(format!("seed {seed}, {dtype}: {seen} of {} gradients, or another loss", want.bits.len()));
                }
                match flights.iter().enumerate().find(|(stage, most)| schedule == PipelineSchedule::OneForwardOneBackward && **most > stages - stage) {
                    Some((stage, most)) => Err(format!("stage {stage} has {most} micro-batches in flight")),
                    None => Ok(()),
                }
            }));
        }
    }
    claim.see(serde_json::json!({ "in flight": flights }));
    Ok(())
}
fn batch_norm(claim: &mut TortureClaim, options: &ParallelOptions) -> std::result::Result<(), String> {
    let mut most = [0f64; 2];
    for seed in 1..=options.seeds {
        for (k, dtype) in [DType::F32, DType::F64].into_iter().enumerate() {
            let (x, weight) = (numbers(seed, &[32, 6], dtype), numbers(seed + 100, &[32, 6], dtype));
            // Loss, gradients of the layer's parameters and of its input, running statistics.
            let step = |norm: &dyn Module, x: &Tensor, weight: &Tensor| -> Result<(f64, Vec<f64>, Vec<f64>, Vec<f64>)> {
                let leaf = x.tracked();
                let loss = (norm.forward(&leaf)? * weight).sum(..) / 192.0;
                let grads = loss.backward_keep()?;
                let mut of_params = Vec::new();
                for param in norm.parameters() {
                    of_params.extend(read(grads.of(&param.cell()).unwrap_or(&param.detached().zeros_like()))?);
                }
                let mut running = Vec::new();
                for (_, buffer) in norm.named_buffers() {
                    running.extend(read(&buffer.detached())?);
                }
                Ok((read(&loss)?[0], of_params, read(grads.get(&leaf).unwrap_or(x))?, running))
            };
            let device = Device::cpu().map_err(|e| e.to_string())?;
            let alone = || {
                let norm = BatchNorm1d::new(6)?;
                norm.cast(dtype)?;
                step(&norm, &x, &weight)
            };
            let want = device.scoped(alone).map_err(|e| e.to_string())?;
            let ran = on_ranks(4, |group| {
                let norm = SyncBatchNorm::new(6, group)?;
                norm.cast(dtype)?;
                let start = group.rank as usize * 8;
                step(&norm, &x.narrow(0, start, 8), &weight.narrow(0, start, 8))
            });
            let off = |a: &[f64], b: &[f64]| if a.len() == b.len() { a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) } else { f64::INFINITY };
            let by = ran.map(|ran| {
                let loss: f64 = ran.iter().map(|r| r.0).sum();
                let params: Vec<f64> = (0..want.1.len()).map(|k| ran.iter().map(|r| r.1[k]).sum()).collect();
                let inputs: Vec<f64> = ran.iter().flat_map(|r| r.2.clone()).collect();
                let running = ran.iter().map(|r| off(&r.3, &want.3)).fold(0.0, f64::max);
                (loss - want.0).abs().max(off(&params, &want.1)).max(off(&inputs, &want.2)).max(running)
            });
            most[k] = most[k].max(*by.as_ref().unwrap_or(&0.0));
            claim.count(by.and_then(|by| if by <= tolerance(dtype) { Ok(()) } else { Err(format!("seed {seed}, {dtype}: off by {by:e}")) }));
        }
    }
    claim.see(serde_json::json!({ "f32": most[0], "f64": most[1] }));
    Ok(())
}
fn devices(claim: &mut TortureClaim, options: &ParallelOptions, subject: SharedSubject) -> std::result::Result<(), String> {
    let names = ["cpu:0", "cpu:1", "cpu:2", "cpu:3"];
    let mut most = [0f64; 2];
    let device = Device::cpu().map_err(|e| e.to_string())?;
    for seed in 1..=options.seeds {
        for (k, dtype) in [DType::F32, DType::F64].into_iter().enumerate() {
            for (count, rows) in (1..=4).flat_map(|count| [1, 3, 4, 7].map(|rows| (count, rows))) {
                let subject = SharedSubject { seed, dtype, ..subject };
                let on = || {
                    let want = learn::of_rows(&subject, &subject.model(&Mesh::alone())?, rows)?;
                    let got = learn::of_rows(&subject, &DataParallel::new(subject.model(&Mesh::alone())?, &names[..count])?, rows)?;
                    Ok::<_, adamant::Error>((got, want))
                };
                let by = device.scoped(on).map_err(|e| e.to_string()).and_then(|(got, want)| difference(&[got], &want));
                most[k] = most[k].max(*by.as_ref().unwrap_or(&0.0));
                claim.count(
                    by.and_then(|by| if by <= tolerance(dtype) { Ok(()) } else { Err(format!("{count} devices, {rows} rows, {dtype}: off by {by:e}")) }),
                );
            }
        }
    }
    claim.see(serde_json::json!({ "f32": most[0], "f64": most[1] }));
    Ok(())
}
/// Lists of actions, carried out in thought: with sends that wait for their receivers, and without.
fn by_clock(claim: &mut TortureClaim) -> std::result::Result<(), String> {
    let mut schedules = vec![PipelineSchedule::Gpipe, PipelineSchedule::OneForwardOneBackward];
    schedules.extend((2..=4).map(|chunks| PipelineSchedule::Interleaved { chunks }));
    for (p, m) in (1..=8usize).flat_map(|p| (1..=16usize).map(move |m| (p, m))) {
        for &schedule in schedules.iter().filter(|schedule| schedule.chunks() == 1 || m % p == 0) {
            let check = || -> std::result::Result<(), String> {
                let lists = pipeline_actions(schedule, p, m).map_err(|e| e.to_string())?;
                let costs = PipelineCosts { forward: 1.0, backward: 1.0, transfer: 0.0, buffered: true };
                let trace = dry_run(&lists, costs).map_err(|e| e.to_string())?;
                dry_run(&lists, PipelineCosts { backward: 2.0, buffered: false, ..costs }).map_err(|e| e.to_string())?;
                let want = (p - 1) as f64 / (schedule.chunks() * m + p - 1) as f64;
                if (trace.bubble() - want).abs() > 1e-9 {
                    return Err(format!("{schedule} of {m} on {p}: the bubble is {} and not {want}", trace.bubble()));
                }
                let most = |stage| trace.in_flight(stage);
                match (0..p).find(|stage| schedule == PipelineSchedule::OneForwardOneBackward && most(*stage) > p - stage) {
                    Some(stage) => Err(format!("{m} on {p}: {} in flight at stage {stage}", most(stage))),
                    None => Ok(()),
                }
            };
            claim.count(check());
        }
    }
    Ok(())
}
/// A perceptron of layers that take the same time.
fn chain(layers: usize, layer: impl Fn(Linear) -> Box<dyn Module>) -> Result<Sequential> {
    manual_seed(1);
    let mut model = Sequential::new();
    for k in 0..layers {
        model.push(&k.to_string(), layer(Linear::new(4, 4)?));
    }
    Ok(model)
}
