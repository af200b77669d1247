//! The row about the manager's step: the five parts of its report against a loop by hand, and what it costs beside one.
use super::{CheckCost, Checked, RowCheck, Seen, plant, planted, timing::least_of_two};
use adamant::{
    Device, Result, Tensor,
    nn::{Linear, Module, Relu, Sequential, Walk, manual_seed},
    optim::{AdamW, ClippingOptions, GradientClipper, Optimizer, UpdateRule},
    stability::{DebugOptions, HandlingType, NumericalStabilityManager},
    step,
};
use std::cell::RefCell;

pub const ROWS: &[RowCheck] = &[RowCheck {
    id: "S4.42",
    target: "clipping, bad numbers, score, debugging and metrics in each report, as a loop by hand computes them; clipping, policy and metrics at most 1.02 of a loop that clips",
    cost: CheckCost::Clocked,
    check: managed,
    plants: &[plant("clipping that tells another norm", "as a loop by hand")],
}];
/// A step of some milliseconds: 128 rows, three layers.
const SIZES: [usize; 4] = [256, 512, 512, 10];
const ROWS_OF_BATCH: usize = 128;
/// Steps in a round, and rounds, of which the fastest counts.
const STEPS: usize = 4;
const ROUNDS: usize = 40;

/// A loop: a net, its optimizer, and the batch.
struct HandLoop {
    net: Sequential,
    optimizer: Box<dyn Optimizer>,
    x: Tensor,
}
impl HandLoop {
    fn new() -> Result<HandLoop> {
        manual_seed(9);
        let mut net = Sequential::new();
        for (k, pair) in SIZES.windows(2).enumerate() {
            net = if k == 0 { net } else { net.add(Relu::new()) };
            net = net.add(Linear::new(pair[0], pair[1])?);
        }
        let x = Tensor::randn([ROWS_OF_BATCH, SIZES[0]], &adamant::Rng::new(4)?);
        x.materialize()?;
        Ok(HandLoop { optimizer: Box::new(AdamW::new(1e-3).over(net.parameters())), net, x })
    }
    fn loss(&self) -> Result<Tensor> {
        (self.net.forward(&self.x)? - 1.0).square().mean(..).ok()
    }
}
/// A step by hand: the loss, and the norms before and behind clipping.
fn by_hand(of: &mut HandLoop, clipper: &mut GradientClipper) -> Result<[Tensor; 2]> {
    let loss = of.loss()?;
    let told = step(|| {
        let mut grads = loss.backward()?;
        let clipped = clipper.clip(&mut grads, &of.net.parameters())?;
        of.optimizer.step(&grads)?;
        Ok(clipped.norm)
    })?;
    Ok([loss.detach(), told])
}
fn managed() -> Checked {
    let clipping = ClippingOptions::global_norm(0.05);
    let metrics = || -> Option<Box<dyn adamant::stability::StepMetrics>> { Some(Box::new(|step: u64| vec![("twice".to_string(), 2.0 * step as f64)])) };
    // What is told.
    let (mut ours, mut hand) = (HandLoop::new()?, HandLoop::new()?);
    let mut manager = NumericalStabilityManager::new(Some(clipping.clone()), Some(HandlingType::Skip.into()), Some(DebugOptions::default()), metrics())?;
    let mut clipper = GradientClipper::new(clipping.clone())?;
    let (mut right, mut parts, mut worst) = (true, true, 0.0f64);
    for number in 1..=6u64 {
        let [loss, total] = by_hand(&mut hand, &mut clipper)?;
        let (net, x) = (&ours.net, &ours.x);
        let report = manager.step(net, || (net.forward(x)? - 1.0).square().mean(..).ok(), &mut *ours.optimizer)?;
        let (Some(clip), Some(nan), Some(debug), Some(told)) = (report.clipping_stats, report.nan_stats, report.debug_info, report.performance_metrics) else {
            parts = false;
            continue;
        };
        let grown = if planted("clipping that tells another norm") { 1.001 } else { 1.0 };
        let (want, want_loss) = (total.item::<f64>()?, loss.item::<f64>()?);
        let ratio = (1.0 - 0.05 / want).max(0.0);
        let far = |got: f64, want: f64| (got - want).abs() / want.abs().max(1e-9);
        let off = [far(clip.norm * grown, want), far(report.loss, want_loss), far(clip.ratio, ratio), far(report.stability_score, 1.0 - 0.1 * ratio)];
        worst = off.into_iter().fold(worst, f64::max);
        parts &= debug.gradients.is_some_and(|g| far(g.total, want) <= 1e-6);
        right &= !nan.bad && nan.committed && told == [("twice".to_string(), 2.0 * number as f64)];
    }
    // What it costs.
    let mut manager = NumericalStabilityManager::new(Some(clipping.clone()), Some(HandlingType::Skip.into()), None, metrics())?;
    let mut clipper = GradientClipper::new(clipping)?;
    let failed = RefCell::new(None);
    let note = |result: Result<()>| {
        if let Err(e) = result {
            failed.borrow_mut().get_or_insert(e);
        }
    };
    let (mut a, mut b) = (HandLoop::new()?, HandLoop::new()?);
    let mut one = || {
        note((0..STEPS).try_for_each(|_| {
            let (net, x) = (&a.net, &a.x);
            manager.step(net, || (net.forward(x)? - 1.0).square().mean(..).ok(), &mut *a.optimizer).map(drop)
        }));
    };
    // A loop that looks at its loss in each step, as one that logs it.
    let mut other = || note((0..STEPS).try_for_each(|_| by_hand(&mut b, &mut clipper)?[0].item::<f64>().map(drop)));
    least_of_two(3, &mut one, &mut other);
    let (with, without) = least_of_two(ROUNDS, &mut one, &mut other);
    if let Some(e) = failed.into_inner() {
        return Err(e.into());
    }
    let cost = with / without;
    let device = Device::current()?;
    Ok(Seen::all(
        &[("all five parts", parts), ("as a loop by hand", right && worst <= 1e-6), ("at most 1.02", cost <= 1.02)],
        format!(
            "six steps, at most {worst:.1e} apart; {cost:.3} of a loop by hand ({:.2} ms and {:.2} ms a step, {device})",
            with * 1e3 / STEPS as f64,
            without * 1e3 / STEPS as f64
        ),
    ))
}
