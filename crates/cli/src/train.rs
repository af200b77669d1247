//! `adamant train`.
mod tui;

use crate::{device::DeviceOptions, environment::environment, out, progress, ranks, runs, signals, traced::TracedRanks, verbs::data_beside};
use adamant_train::{Document, Failure, Interrupt, Report, Run, Watch};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  adamant train examples/digits/digits.toml
  adamant train examples/mnist/mnist.toml --data data/mnist --set optimizer.lr=1e-3 --set seed=2
  adamant train examples/mnist/mnist.toml --resume auto     go on with the newest run that has not ended
  adamant train examples/mnist/mnist.toml --tui             curves, layers and keys while it trains
  adamant train examples/mnist/mnist.toml --dry-run         one batch of everything, memory and time";

/// Options of `train`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Train {
    /// the description, in TOML
    config: PathBuf,
    /// a value in place of the file's: seed=2, optimizer.lr=1e-3, model.layers.7.p=0.5
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// where the data lies, instead of beside the description
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceOptions,
    /// the run folder; runs/NAME-1, -2, ... unless it is named
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// goes on from the newest checkpoint: `auto`, or the folder of a run
    #[arg(long, value_name = "auto|RUN")]
    resume: Option<String>,
    /// opens no socket in the run folder: nobody can ask the run for anything
    #[arg(long)]
    no_control: bool,
    /// waits before the first step until somebody resumes it: `adamant control RUN resume`, or `adamant debug RUN`
    #[arg(long, conflicts_with_all = ["no_control", "dry_run"])]
    paused: bool,
    /// shows the run in this terminal as `watch` does; q leaves to plain lines, and the run goes on
    #[arg(long, conflicts_with_all = ["dry_run", "json", "quiet", "no_control"])]
    tui: bool,
    /// one batch of everything: what it costs in memory and time; nothing is written
    #[arg(long)]
    dry_run: bool,
    /// ends with one JSON document on stdout
    #[arg(long)]
    pub json: bool,
    /// says nothing but errors and where a run goes on from (and the JSON)
    #[arg(long, short)]
    quiet: bool,
}

pub fn run(options: &Train, traced: &TracedRanks) -> Result<(), Failure> {
    if options.tui {
        tui::check()?;
    }
    let mut document = Document::read(&options.config)?;
    for assignment in &options.set {
        document.set(assignment)?;
    }
    let alone = [("--tui", options.tui), ("--paused", options.paused), ("--dry-run", options.dry_run)];
    let ranks = ranks::StartedRanks::of(&document, &alone, traced)?;
    let leads = ranks.leads();
    let data = data_beside(&options.config, options.data.as_deref());
    let device = options.device.open_for(&document)?;
    if options.dry_run {
        let dry = device.scoped(|| adamant_train::dry_run(&document, &data))?;
        if options.json {
            out::line(dry.to_json())?
        } else {
            out::line(&dry)?
        }
        return Ok(());
    }
    let (place, group) = ranks.place(|| runs::place(&options.config, options.run.as_deref(), options.resume.as_deref()))?;
    let interrupt = Interrupt::new();
    signals::listen(interrupt.clone())?;
    let environment = environment(device, &options.config, &data);
    let run = Run::new(&document).data(&data).folder(&place.folder).resume(place.resume).control(!options.no_control).begin_paused(options.paused);
    let run = run.interrupt(interrupt).environment(environment);
    let run = if let Some(group) = group { run.ranks(group) } else { run };
    let run = if let Some((meeting, count)) = ranks.meeting() { run.elastic(meeting, count) } else { run };
    let report = if options.tui {
        tui::run(&place.folder, |watch| device.scoped(|| run.train(watch)))
    } else {
        let mut watch: Box<dyn Watch> = progress::watch(options.json, options.quiet || !leads);
        device.scoped(|| run.train(&mut *watch))
    };
    let report = report.inspect_err(|_| place.leave())?;
    if !report.leads {
        return Ok(());
    }
    if !options.quiet {
        progress::say(options.json, &summary(&report));
    }
    if options.json {
        out::line(report.to_json())?;
    }
    Ok(())
}
fn summary(report: &Report) -> String {
    let test = &report.test;
    let mut text = match test.accuracy {
        _ if test.numbers.is_some() => {
            let figure = |(name, value): (&str, Option<f64>)| value.map(|v| format!("{} {v:.4}, ", figure_name(name)));
            format!("test {}", test.figures().into_iter().filter_map(figure).collect::<String>())
        }
        Some(a) if test.targets == test.rows => format!("test accuracy {:.2} % ({} of {} rows), ", 100.0 * a, (a * test.rows as f64).round(), test.rows),
        Some(a) => format!("test accuracy {:.2} % of {} targets, ", 100.0 * a, test.targets),
        None => String::new(),
    };
    text += &format!("loss {:.4}; trained in {:.1} s", test.loss, report.seconds);
    if let Some(amp) = &report.amp {
        text += &format!(" in {}", amp.mode.name());
        if let Some(s) = &amp.scaler {
            text += &format!(" (scale {}, {} of {} steps suppressed)", s.scale, s.skipped, s.applied + s.skipped);
        }
        if !amp.fallbacks.is_empty() {
            text += &format!("; in f32: {}", amp.fallbacks.join(", "));
        }
    }
    if let Some(path) = &report.weights {
        text += &format!("; weights in {}", path.display());
    }
    if let Some(folder) = &report.plan.folder {
        text += &format!("; report in {}", folder.join("report.html").display());
    }
    text
}
/// How people write a figure that files have in small letters.
pub fn figure_name(name: &str) -> &str {
    match name {
        "mae" => "MAE",
        "rmse" => "RMSE",
        "r2" => "R²",
        other => other,
    }
}
