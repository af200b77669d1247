//! `cargo xtask launches --device D`: training steps of char-GPT (`train_chargpt_b8` of the workloads), or with `--model words`
//! of a small classifier with embeddings, index ops and cross entropy; and what each of them did: ops recorded, kernels,
//! launches and waits of the device, and where it waited, plans made, pipelines compiled. It fails if a step from the third on
//! makes a plan, if any step after the first compiles a pipeline, whatever its batch, or if a step waits before its loss is read.
use crate::{
    bench::models::{Gpt, GptSizes, ModelWeights, tokens},
    device,
    exit::Exit,
};
use adamant::{
    Device, Error, ErrorKind, Result, Tensor,
    amp::{GradScaler, Precision, PrecisionMode},
    compile,
    functional::{CrossEntropyOptions, cross_entropy, embedding},
    optim::{AdamW, Optimizer, UpdateRule},
    profile::Profiler,
};
use adamant_bench::inputs::indices;
use serde::Serialize;
use std::{collections::BTreeMap, time::Instant};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// cpu, cuda:N or wgpu:N
    #[arg(long, default_value = "wgpu")]
    device: String,
    /// chargpt, or words
    #[arg(long, default_value = "chargpt", value_parser = ["chargpt", "words"])]
    model: String,
    /// The batch of each step
    #[arg(long, value_delimiter = ',', default_value = "8,8,8,8,5,8,3")]
    batches: Vec<usize>,
    /// Tokens of a row; the workload has 256
    #[arg(long, default_value_t = 256)]
    time: usize,
    /// Channels; the workload has 384
    #[arg(long, default_value_t = 384)]
    width: usize,
    /// f32, bf16, f16 (with a scaler) or fp8
    #[arg(long, default_value = "f32")]
    precision: PrecisionMode,
    /// The step is one captured function (`compile`), which is replayed
    #[arg(long)]
    captured: bool,
    /// With `--emulated`: the driver launches nothing, so what is timed is what the host does (losses are of no use then)
    #[arg(long)]
    null: bool,
    /// What the second step is made of too: its kernels by family and name, each with how often it came
    #[arg(long)]
    kernels: bool,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
/// What one step did.
#[derive(Serialize, Default)]
struct LaunchStep {
    batch: usize,
    loss: f32,
    seconds: f64,
    /// of them until all was handed over
    host_seconds: f64,
    /// ops that were recorded and ran
    ops: u64,
    /// steps of plans
    kernels: u64,
    launches: u64,
    submissions: u64,
    /// graphs made, and launches of graphs
    graphs: u64,
    replays: u64,
    /// copies before and behind them
    copies: u64,
    /// waits of the host: while the step was recorded and committed, and when its loss was read
    waits: u64,
    waits_at_read: u64,
    pipelines: u64,
    plans_hit: u64,
    plans_resized: u64,
    plans_made: u64,
    /// where they were asked for: family and name of a kernel, and how many there were
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    by_kernel: BTreeMap<String, u64>,
}

/// Trains and reports.
pub fn run(options: &Options) -> Exit {
    let device = match device::open(&options.device) {
        Ok(device) => device,
        Err(exit) => return exit,
    };
    if options.null
        && let Err(exit) = device::launch_nothing()
    {
        return exit;
    }
    match device.scoped(|| steps(device, options)) {
        Ok(steps) => report(&steps, options.captured, options.json),
        Err(e) => {
            eprintln!("{e}");
            Exit::Failed
        }
    }
}
fn steps(device: Device, options: &Options) -> Result<Vec<LaunchStep>> {
    let (vocabulary, time) = (65, options.time);
    let mut w = ModelWeights::default();
    let logits_of: Box<dyn Fn(&Tensor) -> Result<Tensor>> = if options.model == "words" {
        let (table, product) = (w.table(vocabulary, options.width, 0.1)?, w.table(options.width, vocabulary, 0.1)?);
        Box::new(move |x: &Tensor| {
            let x = embedding(x, &table.get(), None);
            // Each word and the one that is as far from the end.
            let time = x.shape()?[1];
            let back = Tensor::from_vec((0..time as i64).rev().collect(), [time]);
            Ok((&x + x.index_select(1, &back)).tanh().matmul(product.get()))
        })
    } else {
        let net = Gpt::new(&mut w, &GptSizes { vocabulary, context: time, layers: 6, heads: 6, width: options.width, bias: false })?;
        Box::new(move |x: &Tensor| net.of(x, None))
    };
    let mut optimizer = AdamW::new(1e-3).betas((0.9, 0.99)).weight_decay(0.1).over(w.parameters);
    let precision = Precision::of(options.precision);
    let region = precision.region()?;
    let mut scaler = GradScaler::with(precision.scaler.clone())?;
    let mut all: Vec<LaunchStep> = Vec::new();
    let captures = compile::captures();
    for &batch in &options.batches {
        let (x, y) = (tokens(batch, time, vocabulary), indices(&[batch * time], vocabulary));
        device.synchronize()?;
        adamant::schedule::take_stats();
        let (before, begin) = (device.counters(), Instant::now());
        let mut step = |given: &[Tensor]| {
            let [x, y] = given else { return Ok(Vec::new()) };
            let forward = || cross_entropy(&logits_of(x)?.reshape([batch * time, vocabulary]), y, &CrossEntropyOptions::default()).ok();
            let loss = match &region {
                None => {
                    let loss = forward()?;
                    optimizer.step(&loss.backward()?)?;
                    loss
                }
                Some(region) => scaler.attempt(|scaler| {
                    let loss = region.run(forward)?;
                    let mut grads = scaler.scale(&loss)?.backward()?;
                    scaler.step(&mut optimizer, &mut grads)?;
                    Ok(loss)
                })?,
            };
            Ok(vec![loss])
        };
        let recording = (options.kernels && all.len() == 1).then(|| Profiler::new().start()).transpose()?;
        let outputs = if options.captured { captures.call_with(&[&x, &y], &mut step)?.into_vec() } else { step(&[x, y])? };
        let loss = outputs.into_iter().next().ok_or_else(|| Error::new("launches", ErrorKind::Internal("a step without a loss".into())))?;
        let (committed, handed_over) = (device.counters(), begin.elapsed().as_secs_f64());
        let loss = loss.item::<f32>()?;
        let read = device.counters();
        device.synchronize()?;
        let (seconds, plans, after) = (begin.elapsed().as_secs_f64(), adamant::schedule::take_stats(), device.counters());
        let mut by_kernel = BTreeMap::new();
        for kernel in recording.into_iter().flat_map(|r| r.stop().kernels) {
            *by_kernel.entry(format!("{} {}", kernel.family, kernel.name)).or_insert(0) += 1;
        }
        let of = |counters: &[(&str, u64)], name: &str| counters.iter().find(|c| c.0 == name).map_or(0, |c| c.1);
        let counted = |name: &str| of(&after, name) - of(&before, name);
        all.push(LaunchStep {
            batch,
            loss,
            seconds,
            host_seconds: handed_over,
            ops: plans.kernels + plans.fused,
            kernels: plans.kernels,
            launches: counted("launches"),
            submissions: counted("submissions"),
            graphs: counted("graphs"),
            replays: counted("replays"),
            copies: counted("copies"),
            waits: of(&committed, "waits") - of(&before, "waits"),
            waits_at_read: of(&read, "waits") - of(&committed, "waits"),
            pipelines: counted("pipelines"),
            plans_hit: plans.hits,
            plans_resized: plans.resizes,
            plans_made: plans.misses,
            by_kernel,
        });
    }
    Ok(all)
}
fn report(steps: &[LaunchStep], captured: bool, json: bool) -> Exit {
    let compiled = steps.iter().skip(1).map(|s| s.pipelines).sum::<u64>();
    let made = steps.iter().skip(2).map(|s| s.plans_made).sum::<u64>();
    let waited = steps.iter().map(|s| s.waits).sum::<u64>();
    // Steps that launch a graph which was there before.
    let frozen: Vec<&LaunchStep> = steps.iter().filter(|s| s.replays > 0 && s.graphs == 0).collect();
    let loose = frozen.iter().filter(|s| captured && (s.launches != 1 || s.copies > 3)).count();
    let passed = compiled == 0 && made == 0 && waited == 0 && loose == 0;
    if json {
        println!(
            "{}",
            serde_json::json!({ "steps": steps, "pipelines_after_the_first": compiled, "plans_made_from_the_third": made, "waits_before_the_read": waited, "frozen_steps": frozen.len(), "frozen_steps_with_more": loose, "passed": passed })
        );
    } else {
        for (k, s) in steps.iter().enumerate() {
            println!(
                "step {}: batch {}, loss {:.4}, {:.2} s, of the host until all is handed over {:.3} ms; {} ops recorded, {} kernels, {} launches in {} submissions, {} graphs made and {} launched beside {} copies, {} waits in the step and {} where the loss is read, {} pipelines compiled; plans: {} hit, {} resized, {} made",
                k + 1,
                s.batch,
                s.loss,
                s.seconds,
                s.host_seconds * 1e3,
                s.ops,
                s.kernels,
                s.launches,
                s.submissions,
                s.graphs,
                s.replays,
                s.copies,
                s.waits,
                s.waits_at_read,
                s.pipelines,
                s.plans_hit,
                s.plans_resized,
                s.plans_made
            );
            let mut often: Vec<_> = s.by_kernel.iter().collect();
            often.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            often.iter().for_each(|(kernel, count)| println!("  {count} x {kernel}"));
        }
        println!(
            "{compiled} pipelines compiled after the first step, {made} plans made from the third on, {waited} waits before a loss was read, {loose} frozen steps of more than a launch and three copies: {}",
            if passed { "passed" } else { "FAILED" }
        );
    }
    if passed { Exit::Passed } else { Exit::Failed }
}
