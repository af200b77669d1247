//! How much memory a rank has at most in a step, by what ranks share out. Ranks are threads, each with a device of its own whose pool counts
//! what lies in it; the model has a hundred times as many parameters as a batch has numbers.
use crate::torture::{TortureClaim, claim};
use adamant::cpu::{Context, CpuBackend};
use adamant_core::{Result as Computed, Tensor, communicator, memory::profile_memory, op::rank_parts};
use adamant_distributed::local::local_threads;
use adamant_train::{Course, Failure, Habits, Look, Session, StepSharing, ZeroStage};
use std::sync::Arc;

/// Options of `memory`.
#[derive(clap::Args)]
pub struct MemoryOptions {
    /// How many ranks
    #[arg(long, default_value_t = 4)]
    ranks: usize,
    /// How wide a layer is
    #[arg(long, default_value_t = 2048)]
    width: usize,
    /// How many layers
    #[arg(long, default_value_t = 10)]
    layers: usize,
    /// Steps of each run
    #[arg(long, default_value_t = 4)]
    steps: usize,
    /// Gradients that travel at once, in MiB
    #[arg(long, default_value_t = 25)]
    bucket_mb: usize,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
}
/// What a rank had at most, behind so many steps: at any time, and in the last one.
#[derive(Clone, Copy)]
struct RankPeak {
    all: usize,
    last: usize,
}
type Model = adamant::nn::Sequential;
/// Layers of one width, and their names.
fn model(options: &MemoryOptions) -> Computed<Model> {
    let mut model = Model::new();
    for _ in 0..options.layers {
        model = model.add(adamant::nn::Linear::new(options.width, options.width)?);
    }
    Ok(model)
}
fn learn(options: &MemoryOptions, stage: ZeroStage, group: &Arc<dyn communicator::Communicator>) -> Result<RankPeak, Failure> {
    let device = Context::new(CpuBackend::builder().threads(1))?.device();
    device.scoped(|| {
        adamant::nn::init::manual_seed(7);
        let run = || -> Result<usize, Failure> {
            let model = model(options)?;
            let optimizer = Box::new(adamant::optim::UpdateRule::over(adamant::optim::AdamW::new(1e-3), adamant::nn::Walk::parameters(&model)));
            let habits = Habits {
                optimizer,
                course: Course::Constant,
                clip: None,
                stability: None,
                accumulate: 1,
                ema: None,
                capture: true,
                precision: Default::default(),
            };
            let loss = |model: &Model, x: &Tensor| -> Computed<Tensor> { Ok(adamant::nn::Module::forward(model, x)?.square().mean(..)) };
            let mut session = Session::new(model, Arc::new(loss), habits, device)?;
            let (rank, ranks) = (group.rank(), group.size());
            session.share(StepSharing {
                group: communicator::group(group),
                parts: ranks,
                bucket_bytes: options.bucket_mb << 20,
                zero: stage,
                compress: None,
            })?;
            let held = rank_parts(ranks, rank, ranks).len();
            let mut last = 0;
            for step in 0..options.steps {
                let rows = Tensor::from_vec((0..8 * options.width).map(|k| ((k + step * 31 + rank * 7) % 13) as f32 - 6.0).collect(), [8, options.width]);
                let before = device.pool().stats().live_bytes;
                let (done, memory) = profile_memory(device, || {
                    session.assign((0..held).collect(), 1);
                    session.step(&[rows], Look::default()).and_then(|_| session.loss())
                });
                done?;
                last = before + memory.peak;
            }
            Ok(last)
        };
        let (last, all) = profile_memory(device, run);
        Ok(RankPeak { all: all.peak, last: last? })
    })
}
/// Bytes that a rank is to have: what the formulas say for AdamW in f32, of which each parameter has four numbers.
fn meant(options: &MemoryOptions, stage: ZeroStage) -> usize {
    let (n, w) = (options.ranks, options.width);
    let (layer, all) = (4 * (w * w + w), 4 * (w * w + w) * options.layers);
    // A bucket is full with the parameter that fills it.
    let bucket = (options.bucket_mb << 20).div_ceil(4 * w * w) * layer;
    match stage {
        ZeroStage::Off => 4 * all,
        ZeroStage::Slots => 2 * all + 2 * all / n,
        ZeroStage::Gradients => all + 3 * all / n + 2 * bucket,
        ZeroStage::Parameters => 4 * all / n + 2 * layer + 2 * layer,
    }
}
pub fn claims(options: &MemoryOptions) -> Vec<TortureClaim> {
    let millions = (options.width * options.width + options.width) * options.layers / 1_000_000;
    let stage = |number: usize| {
        let stage = ZeroStage::from_number(number).unwrap_or_default();
        let meant = meant(options, stage);
        let text = format!("{millions} M parameters, AdamW, zero {number}, {} ranks: at most 1.05 times {} MB a rank", options.ranks, meant / 1_000_000);
        claim(&text, |claim| {
            let groups = local_threads(options.ranks).map_err(|kind| kind.to_string())?;
            let peaks: Vec<Result<RankPeak, Failure>> = std::thread::scope(|scope| {
                let ranks: Vec<_> = groups.iter().map(|group| scope.spawn(move || learn(options, stage, group))).collect();
                let lost = |_| Err(Failure::Run("a rank has panicked".into()));
                ranks.into_iter().map(|rank| rank.join().unwrap_or_else(lost)).collect()
            });
            let mut told = Vec::new();
            for peak in peaks {
                let RankPeak { all, last } = peak.map_err(|e| e.to_string())?;
                let most = meant + meant / 20;
                told.push(format!("{} MB, in the last step {} MB, {:.3} of what is meant", all / 1_000_000, last / 1_000_000, all as f64 / meant as f64));
                claim.count(if all <= most { Ok(()) } else { Err(format!("{all} bytes where {meant} are meant")) });
            }
            claim.see(serde_json::json!(told));
            Ok(())
        })
    };
    (0..=3).map(stage).collect()
}
