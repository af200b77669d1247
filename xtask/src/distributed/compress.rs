//! Gradients that travel with fewer bytes: how many leave a rank, and what becomes of the loss. Ranks are threads; a group around theirs
//! keeps the calls.
use crate::torture::{TortureClaim, claim};
use adamant::cpu::{Context, CpuBackend};
use adamant_core::{
    Result as Computed, Tensor,
    communicator::{self, Communicator},
    op::{CollectiveKind, rank_parts},
};
use adamant_distributed::{RecordedCall, RecordedGroup, local::local_threads};
use adamant_train::{CompressionPlan, Course, Failure, GradientCompression, Habits, Look, Session, StepSharing, ZeroStage};
use std::sync::Arc;

/// Options of `compress`.
#[derive(clap::Args)]
pub struct CompressOptions {
    /// How many ranks
    #[arg(long, default_value_t = 2)]
    ranks: usize,
    /// Steps of each run
    #[arg(long, default_value_t = 600)]
    steps: usize,
    /// One JSON document instead of text
    #[arg(long)]
    pub json: bool,
}
/// The bytes by which a call leaves a rank, as the engine carries it out: a reduction sends a piece of each rank's to each rank, and the pieces of the
/// sum to all.
fn sent(call: &RecordedCall, rank: usize) -> usize {
    let (bytes, others, ranks) = (call.bytes, call.ranks - 1, call.ranks);
    let made = call.call.made.shape.elements() * call.call.made.dtype.size();
    match call.call.kind {
        CollectiveKind::AllGather { .. } | CollectiveKind::Barrier => bytes * others,
        CollectiveKind::AllReduce { .. } => (bytes + made) * others / ranks,
        CollectiveKind::ReduceScatter { .. } | CollectiveKind::AllToAll => bytes * others / ranks,
        CollectiveKind::Broadcast { root, .. } => {
            if root == rank {
                bytes * others
            } else {
                0
            }
        }
        CollectiveKind::Send { .. } => bytes,
        CollectiveKind::Receive { .. } | CollectiveKind::Replicate => 0,
    }
}
type Model = adamant::nn::Sequential;
const WIDTH: usize = 256;
const CLASSES: usize = 10;
fn model() -> Computed<Model> {
    use adamant::nn::{Linear, Relu};
    Ok(Model::new().add(Linear::new(64, WIDTH)?).add(Relu::default()).add(Linear::new(WIDTH, WIDTH)?).add(Relu::default()).add(Linear::new(WIDTH, CLASSES)?))
}
/// Rows of numbers in classes that a fixed matrix tells apart, drawn by the step and the rank.
fn batch(step: usize, rank: usize, rows: usize) -> (Tensor, Tensor) {
    let noise = |k: usize| {
        let mixed = (k as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed >> 40) as f32 / (1u64 << 24) as f32) * 2.0 - 1.0
    };
    let x: Vec<f32> = (0..rows * 64).map(|k| noise(k + (step * 64 + rank) * 100_003)).collect();
    let class = |row: &[f32]| {
        let score = |c: usize| row.iter().enumerate().map(|(k, v)| v * noise(7_000_001 + c * 64 + k)).sum::<f32>();
        (0..CLASSES).max_by(|a, b| score(*a).total_cmp(&score(*b))).unwrap_or(0) as i64
    };
    let y: Vec<i64> = x.chunks(64).map(class).collect();
    (Tensor::from_vec(x, [rows, 64]), Tensor::from_vec(y, [rows]))
}
/// The mean loss of the last steps, and the bytes that left the rank in each step.
fn learn(options: &CompressOptions, plan: Option<CompressionPlan>, inner: &Arc<dyn Communicator>) -> Result<(f64, f64), Failure> {
    let device = Context::new(CpuBackend::builder().threads(1))?.device();
    device.scoped(|| {
        adamant::nn::init::manual_seed(7);
        let recorded = Arc::new(RecordedGroup::new(inner.clone()));
        let group = recorded.clone() as Arc<dyn Communicator>;
        let model = model()?;
        let rule = adamant::optim::Sgd::new(0.05).momentum(0.9);
        let optimizer = Box::new(adamant::optim::UpdateRule::over(rule, adamant::nn::Walk::parameters(&model)));
        let habits =
            Habits { optimizer, course: Course::Constant, clip: None, stability: None, accumulate: 1, ema: None, capture: true, precision: Default::default() };
        let loss = |model: &Model, (x, y): &(Tensor, Tensor)| {
            adamant::functional::cross_entropy(&adamant::nn::Module::forward(model, x)?, y, &Default::default()).ok()
        };
        let mut session = Session::new(model, Arc::new(loss), habits, device)?;
        let (rank, ranks) = (group.rank(), group.size());
        session.share(StepSharing { group: communicator::group(&group), parts: ranks, bucket_bytes: 25 << 20, zero: ZeroStage::Off, compress: plan })?;
        let (mut losses, mut all) = (Vec::new(), 0);
        for step in 0..options.steps {
            session.assign((0..rank_parts(ranks, rank, ranks).len()).collect(), 1);
            session.step(&[batch(step, rank, 64)], Look::default())?;
            losses.push(session.loss()?);
            let calls = recorded.take_calls();
            // The first step agrees on more than gradients.
            if step > 0 {
                all += calls.iter().map(|call| sent(call, rank)).sum::<usize>();
            }
        }
        let last = &losses[losses.len() - losses.len() / 10 - 1..];
        let bytes = all as f64 / (options.steps - 1) as f64;
        Ok((last.iter().sum::<f64>() / last.len() as f64, bytes))
    })
}
fn on_ranks(options: &CompressOptions, plan: Option<CompressionPlan>) -> Result<(f64, f64), String> {
    let groups = local_threads(options.ranks).map_err(|kind| kind.to_string())?;
    let ended: Vec<Result<(f64, f64), Failure>> = std::thread::scope(|scope| {
        let ranks: Vec<_> = groups.iter().map(|group| scope.spawn(move || learn(options, plan, group))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|_| Err(Failure::Run("a rank has panicked".into())))).collect()
    });
    let mut first = None;
    for ended in ended {
        let (loss, bytes) = ended.map_err(|e| e.to_string())?;
        let (same, _) = *first.get_or_insert((loss, bytes));
        if loss.to_bits() != same.to_bits() {
            return Err(format!("ranks end with the losses {same} and {loss}"));
        }
    }
    first.ok_or_else(|| "no rank has run".into())
}
pub fn claims(options: &CompressOptions) -> Vec<TortureClaim> {
    let plain = on_ranks(options, None);
    let kinds = [
        ("bf16", GradientCompression::Bf16, 2.0),
        ("powersgd rank 4", GradientCompression::PowerSgd { rank: 4 }, 10.0),
        ("topk 1 %", GradientCompression::TopK { share: 0.01 }, 40.0),
    ];
    let one = |(name, kind, times): (&str, GradientCompression, f64)| {
        let text = format!("{name}: at most 1/{times} of the bytes, the loss within 1 % after {} steps, and without error feedback worse", options.steps);
        claim(&text, |claim| {
            let (loss, bytes) = plain.clone()?;
            let (with, sent) = on_ranks(options, Some(CompressionPlan::new(kind)))?;
            let (without, _) = on_ranks(options, Some(CompressionPlan { kind, feedback: false }))?;
            claim.see(serde_json::json!({
                "bytes a step": bytes, "sent": sent, "ratio": bytes / sent, "loss": loss, "compressed": with, "without feedback": without,
            }));
            // Half is half of what is exchanged, beside the loss and the rows.
            let fits = bytes / sent >= times * 0.999;
            claim.count(if fits { Ok(()) } else { Err(format!("{sent} bytes a step of {bytes}")) });
            claim.count(if with <= loss * 1.01 { Ok(()) } else { Err(format!("the loss is {with}, and {loss} without compression")) });
            claim.count(if without > with { Ok(()) } else { Err(format!("the loss is {without} without error feedback, and {with} with it")) });
            Ok(())
        })
    };
    kinds.into_iter().map(one).collect()
}
