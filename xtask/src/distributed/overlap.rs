//! Gradients that travel while the walk back goes on, over a slow link that is rehearsed: how much of the communication stands still, from the
//! trace of both ranks.
//!
//! A run without a link says how long the walk back takes; the link is chosen so that the gradients travel 0.8 times as long. Then the same run over
//! it, with gradients in buckets, and for comparison switched off (`overlap = false`): nothing travels before the last gradient is there.
use super::{
    CommonOptions,
    job::{RankJob, RankedTraining, set},
    timeline::{RankStep, median, steps},
};
use crate::torture::{TortureClaim, claim};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Options of `overlap`.
#[derive(clap::Args)]
pub struct OverlapOptions {
    #[command(flatten)]
    pub(super) common: CommonOptions,
    /// How wide a layer is: its gradients are a bucket
    #[arg(long, default_value_t = 512)]
    width: usize,
    /// How many layers
    #[arg(long, default_value_t = 32)]
    layers: usize,
    /// Rows of a step on each rank
    #[arg(long, default_value_t = 1024)]
    rows: usize,
    /// Steps of a run
    #[arg(long, default_value_t = 24)]
    steps: usize,
    /// How long gradients travel, in times of the walk back
    #[arg(long, default_value_t = 0.8)]
    share: f64,
    /// How often a run is repeated where something else kept the machine busy
    #[arg(long, default_value_t = 3)]
    retries: usize,
    /// Where traces are left; nowhere unless it is said
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}
const RANKS: usize = 2;
/// Steps at the beginning that are looked at no further: plans are made in them.
const FIRST: usize = 5;
/// What each message takes, in microseconds.
const ALPHA: f64 = 50.0;
const OVERLAPPED: &[&str] = &["distributed.bucket_mb=1"];
const ONE_BUCKET: &[&str] = &["distributed.overlap=false"];

fn description(options: &OverlapOptions) -> String {
    let OverlapOptions { width, layers, rows, steps, .. } = options;
    let layer = format!("    {{ kind = \"Linear\", in_features = {width}, out_features = {width} }},\n    {{ kind = \"ReLU\" }},\n");
    format!(
        "seed = 3\niterations = {steps}\nbatch = {}\nlog_every = 1000\ncheckpoint = {{ every = 1000000 }}\n[data]\nkind = \"permutation\"\nclasses = 64\nrows = {}\nworkers = 0\n[model]\nlayers = [\n    \
         {{ kind = \"Embedding\", num_embeddings = 64, embedding_dim = {width} }},\n{}    {{ kind = \"Linear\", in_features = {width}, out_features = 64 }},\n]\n\
         [optimizer]\nkind = \"SGD\"\nlr = 1e-3\n",
        rows * RANKS,
        rows * RANKS * (steps + 1) * 9 / 8,
        layer.repeat(*layers)
    )
}
/// Medians over the steps of a run.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct OverlapFigures {
    step_ms: f64,
    compute_ms: f64,
    backward_ms: f64,
    communication_ms: f64,
    /// of the communication, while no kernel ran
    exposed: f64,
    /// the step beside the longer of computation and communication
    step_ratio: f64,
}
impl OverlapFigures {
    fn of(ranks: &[Vec<RankStep>]) -> Result<OverlapFigures, String> {
        let all: Vec<&RankStep> = ranks.iter().flat_map(|steps| steps.iter().skip(FIRST)).collect();
        if all.len() < RANKS * 3 {
            return Err(format!("{} steps are too few to tell anything", all.len()));
        }
        let of = |figure: &dyn Fn(&RankStep) -> f64| median(all.iter().map(|step| figure(step)));
        Ok(OverlapFigures {
            step_ms: of(&|step| step.seconds * 1e3),
            compute_ms: of(&|step| step.compute * 1e3),
            backward_ms: of(&|step| step.backward * 1e3),
            communication_ms: of(&|step| step.communication * 1e3),
            exposed: of(&|step| step.exposed / step.communication),
            step_ratio: of(&|step| step.seconds / step.compute.max(step.communication)),
        })
    }
}
/// The two ranks of a run, traced.
struct OverlapRuns<'o> {
    options: &'o OverlapOptions,
    program: RankedTraining,
    description: PathBuf,
    runs: usize,
}
impl OverlapRuns<'_> {
    fn run(&mut self, name: &str, link: Option<&str>, values: &[&str]) -> Result<OverlapFigures, String> {
        self.runs += 1;
        let trace = self.program.place(&format!("{name}-{}.json", self.runs));
        let run = self.program.place(&format!("run-{}", self.runs));
        launch(&self.program, RANKS, &self.description, &run, &set(values), (Some(&trace), link))?;
        if let Some(folder) = &self.options.keep {
            let to = folder.join(trace.file_name().unwrap_or_default());
            fs::create_dir_all(folder).and_then(|()| fs::copy(&trace, &to)).map_err(|e| format!("{}: {e}", to.display()))?;
        }
        OverlapFigures::of(&steps(&trace, RANKS)?)
    }
}
/// Runs so many ranks of one thread under the launcher, which binds each to a core.
pub fn launch(
    program: &RankedTraining,
    ranks: usize,
    description: &Path,
    run: &Path,
    values: &[String],
    (trace, link): (Option<&Path>, Option<&str>),
) -> Result<(), String> {
    let mut command = Command::new(program.program());
    command.args(["launch", "-n", &ranks.to_string(), "--max-restarts", "0", "--"]).arg(program.program());
    command.args(trace.iter().flat_map(|trace| ["--trace".as_ref(), trace.as_os_str()]));
    command.arg("train").arg(description).arg("--run").arg(run).args(["--quiet", "--no-control", "--threads", "1"]).args(values);
    command.env_remove("ADAMANT_LINK").envs(link.map(|link| ("ADAMANT_LINK", link)));
    let mut job = RankJob::default();
    job.begin(command)?;
    match job.wait()?.first() {
        Some(ended) if ended.code == Some(0) => Ok(()),
        Some(ended) => Err(format!("{ranks} ranks ended with {:?}: {}", ended.code, ended.stderr.trim())),
        None => Err("nothing was started".into()),
    }
}
/// The link over which the gradients of a step travel so long, in seconds.
fn link_for(options: &OverlapOptions, seconds: f64) -> String {
    let OverlapOptions { width, layers, .. } = options;
    let bytes = 4 * (layers * (width * width + width) + 64 * width + (width * 64 + 64));
    // Of two ranks each sends and gets as much as it has; a bucket is a layer.
    let messages = 2 * (layers + 2);
    let rate = bytes as f64 / (seconds - messages as f64 * ALPHA * 1e-6).max(seconds / 10.0);
    format!("alpha={ALPHA}us,beta={:.3}MB/s", rate / 1e6)
}
pub fn claims(options: &OverlapOptions) -> Vec<TortureClaim> {
    let made = RankedTraining::new(&options.common).and_then(|program| {
        let path = program.place("overlap.toml");
        fs::write(&path, description(options)).map_err(|e| e.to_string())?;
        Ok(OverlapRuns { options, program, description: path, runs: 0 })
    });
    let mut runs = match made {
        Ok(runs) => runs,
        Err(e) => return vec![claim("the program and its description", |_| Err(e))],
    };
    let text = |what: &str| format!("{RANKS} ranks, gradients travel {} times as long as the walk back takes: {what}", options.share);
    let overlapped = claim(&text("at most 15 % of it stands still, and a step takes at most 1.1 times the longer of both"), |claim| {
        let mut seen = Vec::new();
        let mut verdict = Err("nothing was run".to_string());
        for _ in 0..=options.retries {
            let plain = runs.run("no-link", None, OVERLAPPED)?;
            let link = link_for(options, plain.backward_ms * 1e-3 * options.share);
            let figures = runs.run("overlapped", Some(&link), OVERLAPPED)?;
            verdict = holds(&figures, options.share);
            seen.push(serde_json::json!({ "without a link": plain, "link": link, "over it": figures }));
            if verdict.is_ok() {
                break;
            }
        }
        claim.see(serde_json::json!(seen));
        claim.count(verdict);
        Ok(())
    });
    let one = claim(&text("switched off, at least 90 % of it stands still"), |claim| {
        let plain = runs.run("no-link", None, ONE_BUCKET)?;
        let link = link_for(options, plain.backward_ms * 1e-3 * options.share);
        let figures = runs.run("one-bucket", Some(&link), ONE_BUCKET)?;
        claim.see(serde_json::json!({ "link": link, "over it": figures }));
        claim.count(if figures.exposed >= 0.9 { Ok(()) } else { Err(format!("{:.3} of it", figures.exposed)) });
        Ok(())
    });
    vec![overlapped, one]
}
fn holds(figures: &OverlapFigures, share: f64) -> Result<(), String> {
    let OverlapFigures { exposed, step_ratio, communication_ms, backward_ms, .. } = figures;
    let travels = communication_ms / backward_ms;
    if (travels - share).abs() > 0.2 * share {
        return Err(format!("gradients travel {travels:.3} times as long as the walk back takes"));
    }
    if *exposed > 0.15 || *step_ratio > 1.1 {
        return Err(format!("{exposed:.3} of it stands still, a step takes {step_ratio:.3} times the longer of both"));
    }
    Ok(())
}
