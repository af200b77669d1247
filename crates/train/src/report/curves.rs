//! The plots of a run.
use super::files::ReadRun;
use crate::plot::{Mark, MarkKind, Plot, Series, Stroke, smooth};

/// All plots; those without data are empty.
pub struct Curves {
    pub loss: Plot,
    pub metric: Plot,
    pub lr: Plot,
    pub grad_norm: Plot,
    pub throughput: Plot,
    pub memory: Plot,
    /// of the loss; empty where nothing scales it
    pub scale: Plot,
}
type Points = Vec<(f64, f64)>;

pub fn of(run: &ReadRun) -> Curves {
    let number = |v: Option<f64>| v.unwrap_or(f64::NAN);
    let steps = |f: &dyn Fn(&super::files::ReadStep) -> Option<f64>| -> Points { run.steps.iter().map(|s| (s.step as f64, number(f(s)))).collect() };
    let present = |f: &dyn Fn(&super::files::Timing) -> Option<f64>| -> Points { run.timing.iter().filter_map(|t| Some((t.step as f64, f(t)?))).collect() };
    let valid = |f: &dyn Fn(&super::files::Valid) -> Option<f64>| -> Points {
        run.epochs.iter().filter_map(|e| e.valid.as_ref().map(|v| (e.step as f64, number(f(v))))).collect()
    };

    let mut train = steps(&|s| s.loss);
    if train.is_empty() {
        train = run.epochs.iter().map(|e| (e.step as f64, number(e.loss))).collect();
    }
    let mut loss = raw_and_smooth("train", train, 0);
    push(&mut loss, "validation", valid(&|v| v.loss), Stroke::Dashed, 1);
    // What the model is for decides what is drawn: the share of right answers, or how far numbers are from the truth.
    let is_numbers = run.test.as_ref().is_some_and(|t| t.mae.is_some()) || run.epochs.iter().any(|e| e.valid.as_ref().is_some_and(|v| v.mae.is_some()));
    let mut metric = Vec::new();
    let figure = |v: &super::files::Valid| if is_numbers { v.mae } else { v.accuracy };
    push(&mut metric, "validation", valid(&figure).into_iter().filter(|p| p.1.is_finite()).collect(), Stroke::Dashed, 1);
    if let Some((step, value)) = run.test.as_ref().and_then(|t| Some((last_step(run)?, if is_numbers { t.mae? } else { t.accuracy? }))) {
        push(&mut metric, "test", vec![(step, value)], Stroke::Solid, 0);
    }
    let mut lr = Vec::new();
    push(&mut lr, "learning rate", steps(&|s| s.lr), Stroke::Solid, 2);
    let norms: Points = run.steps.iter().filter_map(|s| Some((s.step as f64, s.grad_norm?))).collect();
    let mut memory = Vec::new();
    push(&mut memory, "resident", present(&|t| t.rss_bytes.map(|b| b / f64::from(1 << 20))), Stroke::Solid, 5);

    let scales: Points = run.steps.iter().filter_map(|s| Some((s.step as f64, s.precision.as_ref()?.scale?))).collect();
    let mut scale = Vec::new();
    push(&mut scale, "scale", scales, Stroke::Solid, 3);

    let marks = marks(run);
    let plot = |title: &str, y_label: &str, series: Vec<Series>| Plot {
        title: title.into(),
        x_label: "step".into(),
        y_label: y_label.into(),
        log: wide(&series),
        series,
        marks: marks.clone(),
    };
    let linear = |plot: Plot| Plot { log: false, ..plot };
    Curves {
        loss: plot("Loss", "loss", loss),
        metric: if is_numbers { plot("Mean absolute error", "units of the data", metric) } else { linear(plot("Accuracy", "share of right answers", metric)) },
        lr: plot("Learning rate", "learning rate", lr),
        grad_norm: plot("Gradient norm", "norm of all gradients", raw_and_smooth("gradient norm", norms, 3)),
        throughput: linear(plot("Throughput", "rows per second", raw_and_smooth("rows per second", present(&|t| t.rows_per_second), 4))),
        memory: linear(plot("Memory", "resident MiB", memory)),
        scale: plot("Scale of the loss", "scale", scale),
    }
}
fn push(series: &mut Vec<Series>, name: &str, points: Points, stroke: Stroke, colour: usize) {
    if !points.is_empty() {
        series.push(Series { name: name.into(), points, stroke, colour });
    }
}
/// Predictions against the truth, and their errors against the predictions, of one target.
pub fn of_target(target: &super::files::ReadTarget) -> Option<[Plot; 2]> {
    let mut pairs: Points = target.pairs.iter().filter_map(|(t, p)| Some((t.as_ref().copied()?, p.as_ref().copied()?))).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (pairs.first()?.0, pairs.last()?.0);
    let mut errors: Points = pairs.iter().map(|(truth, predicted)| (*predicted, predicted - truth)).collect();
    errors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (low, high) = (errors.first()?.0, errors.last()?.0);
    let name = target.name.as_deref().unwrap_or_default();
    let of = |what: &str| if name.is_empty() { what.to_string() } else { format!("{what}: {name}") };
    let plot = |title: String, x: &str, y: &str, points: Points, right: Points, colour: usize| Plot {
        title,
        x_label: x.into(),
        y_label: y.into(),
        series: vec![
            Series { name: "without error".into(), points: right, stroke: Stroke::Dashed, colour: 5 },
            Series { name: "records".into(), points, stroke: Stroke::Dots, colour },
        ],
        ..Plot::default()
    };
    Some([
        plot(of("Predicted against true"), "true", "predicted", pairs, vec![(first, first), (last, last)], 0),
        plot(of("Errors"), "predicted", "predicted - true", errors, vec![(low, 0.0), (high, 0.0)], 1),
    ])
}
/// The points in pale, and their average over a fortieth of the run in front.
fn raw_and_smooth(name: &str, points: Points, colour: usize) -> Vec<Series> {
    let mut series = Vec::new();
    if points.len() < 40 {
        push(&mut series, name, points, Stroke::Solid, colour);
    } else {
        let smoothed = smooth(&points, points.len() as f64 / 40.0);
        push(&mut series, &format!("{name}, each"), points, Stroke::Faint, colour);
        push(&mut series, name, smoothed, Stroke::Solid, colour);
    }
    series
}
/// Positive values over more than a factor of 100 are drawn by their logarithm.
fn wide(series: &[Series]) -> bool {
    let values = || series.iter().flat_map(|s| &s.points).map(|p| p.1).filter(|v| v.is_finite());
    let (low, high) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
    low > 0.0 && high / low > 100.0
}
fn last_step(run: &ReadRun) -> Option<f64> {
    let step = run.steps.last().map(|s| s.step).max(run.epochs.last().map(|e| e.step));
    step.map(|s| s as f64)
}
fn marks(run: &ReadRun) -> Vec<Mark> {
    let checkpoints = run.checkpoints.iter().map(|c| Mark { x: c.step as f64, kind: MarkKind::Checkpoint });
    checkpoints.chain(run.resumes.iter().map(|&step| Mark { x: step as f64, kind: MarkKind::Resume })).collect()
}
