//! `cargo xtask causes --seeds N`: faults planted into training runs. From the folder of each `adamant doctor` must name the cause, the layer and
//! the step; the remedy, applied, must end it; and healthy runs must not be called ill.
//!
//! A case draws data that can be learned, a net, an optimizer and its numbers, and plants a fault into one of them. The remedy is applied as it is
//! told: keys of a description are set, and what is told in words (a clamp, a norm, another activation) is done to the net. It has ended the
//! fault where the run with it has learned, and nobody finds the same cause in it.
use crate::{device, exit::Exit};
use adamant::Device;
use adamant_conformance::random::Random;
use adamant_train::{
    Document, Failure, PrecisionMode,
    doctor::{Diagnosis, Finding, RootCause, diagnose},
};
use std::{path::PathBuf, time::Instant};

mod net;
mod plant;
use net::{CauseRun, EndedRun, LOOK_EVERY};
use plant::{PlantedCause, SeenHarm, healthy, planted};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// cpu or wgpu:N
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Runs of each cause
    #[arg(long, default_value_t = 10)]
    seeds: u64,
    /// The first of their seeds
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs without a fault
    #[arg(long, default_value_t = 100)]
    healthy: u64,
    /// One cause alone
    #[arg(long)]
    only: Option<String>,
    /// Run folders are kept here
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Doctor is shown healthy runs in the place of those with a fault: that none is found must be noticed
    #[arg(long)]
    plant: bool,
}
/// What is promised: shares of all planted runs, and alarms among the healthy.
pub const NAMED: f64 = 0.95;
pub const MENDED: f64 = 0.90;
pub const ALARMS: f64 = 0.01;
/// How often a fault is drawn again that has done no harm.
const MOST_DRAWN: u64 = 30;

/// What runs came to.
#[derive(Default)]
pub struct CausesTally {
    pub causes: u32,
    pub runs: u32,
    pub named: u32,
    pub mended: u32,
    pub healthy: u32,
    pub alarms: u32,
}
impl CausesTally {
    pub fn share(&self, of: u32) -> f64 {
        f64::from(of) / f64::from(self.runs.max(1))
    }
    fn holds(&self) -> bool {
        let alarms = f64::from(self.alarms) / f64::from(self.healthy.max(1));
        self.runs > 0 && self.share(self.named) >= NAMED && self.share(self.mended) >= MENDED && alarms <= ALARMS
    }
}
/// All causes and healthy runs, on the CPU.
pub fn tally(seeds: u64, healthy: u64, plant: bool) -> Result<CausesTally, Failure> {
    let options = Options { device: "cpu".into(), seeds, seed: 1, healthy, only: None, keep: None, plant };
    Device::cpu()?.scoped(|| all(&options, &RootCause::ALL))
}
/// Runs the cases and reports.
pub fn run(options: &Options) -> Exit {
    let device = match device::open(&options.device) {
        Ok(device) => device,
        Err(exit) => return exit,
    };
    let chosen: Vec<RootCause> = RootCause::ALL.into_iter().filter(|c| options.only.as_ref().is_none_or(|only| c.name() == only)).collect();
    if chosen.is_empty() {
        let all: Vec<_> = RootCause::ALL.iter().map(|c| c.name()).collect();
        eprintln!("error: --only: there is no such cause; there are {}", all.join(", "));
        return Exit::Usage;
    }
    let begun = Instant::now();
    match device.scoped(|| all(options, &chosen)) {
        Ok(tally) => {
            println!(
                "{} causes, {} runs in {:.0} s: cause, layer and step right in {:.1} %, ended by the remedy in {:.1} %; {} alarms in {} healthy runs",
                tally.causes,
                tally.runs,
                begun.elapsed().as_secs_f64(),
                100.0 * tally.share(tally.named),
                100.0 * tally.share(tally.mended),
                tally.alarms,
                tally.healthy
            );
            if tally.holds() { Exit::Passed } else { Exit::Failed }
        }
        Err(e) => {
            eprintln!("error: {e}");
            Exit::Failed
        }
    }
}
fn all(options: &Options, chosen: &[RootCause]) -> Result<CausesTally, Failure> {
    let mut tally = CausesTally::default();
    for cause in chosen {
        let mut of = CausesTally::default();
        for seed in options.seed..options.seed + options.seeds {
            // A fault that harms nothing is none: others are drawn until one does.
            for again in 0..MOST_DRAWN {
                let mut random = Random::new((seed + (again << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ *cause as u64);
                let Some(mut case) = planted(*cause, &mut random) else { break };
                if options.plant {
                    (case.run, case.harm) = (healthy(&mut random), SeenHarm::Any);
                }
                if judge(options, &case, seed, &mut of)? {
                    break;
                }
            }
        }
        if of.runs > 0 {
            tally.causes += 1;
            println!("{:20} {:3} of {:3} named, {:3} ended", cause.name(), of.named, of.runs, of.mended);
        }
        (tally.runs, tally.named, tally.mended) = (tally.runs + of.runs, tally.named + of.named, tally.mended + of.mended);
    }
    for seed in options.seed..options.seed + if options.only.is_some() { 0 } else { options.healthy } {
        tally.healthy += 1;
        let run = healthy(&mut Random::new(seed ^ 0x4EA1));
        let (diagnosis, _) = diagnosed(options, &run, &format!("healthy-{seed}"))?;
        if let Some(root) = diagnosis.root() {
            tally.alarms += 1;
            println!("healthy run {seed}: {root}");
        }
    }
    Ok(tally)
}
/// Runs it, and has its folder looked through.
fn diagnosed(options: &Options, run: &CauseRun, name: &str) -> Result<(Diagnosis, EndedRun), Failure> {
    let place = tempfile::tempdir().map_err(|e| Failure::Run(e.to_string()))?;
    let folder = options.keep.as_ref().map_or_else(|| place.path().join(name), |keep| keep.join(name));
    // What was drawn before, and did no harm.
    let _ = std::fs::remove_dir_all(&folder);
    let ended = run.run(&folder)?;
    if let (Some(failure), true) = (&ended.failure, options.keep.is_some()) {
        println!("    {name}: {failure}");
    }
    Ok((diagnose(&folder)?, ended))
}
/// Is a fault harmful, that may be none?
fn harms(options: &Options, case: &PlantedCause, ended: &EndedRun) -> Result<bool, Failure> {
    Ok(match case.harm {
        SeenHarm::Any => true,
        SeenHarm::Unlearned => !ended.has_learned(&case.run),
        SeenHarm::Rises => {
            let rises = ended.rises() > 1.5 && ended.has_learned(&case.run);
            let mended = if rises { Some(diagnosed(options, &case.mended, "warmed-up")?.1) } else { None };
            mended.is_some_and(|mended| mended.rises() < 1.2 && mended.has_learned(&case.mended))
        }
    })
}
/// Counts a case, unless it is harmless.
fn judge(options: &Options, case: &PlantedCause, seed: u64, of: &mut CausesTally) -> Result<bool, Failure> {
    let name = format!("{}-{seed}", case.cause.name());
    let (diagnosis, ended) = diagnosed(options, &case.run, &name)?;
    if !harms(options, case, &ended)? {
        return Ok(false);
    }
    of.runs += 1;
    let is_right = |f: &Finding| f.cause == case.cause && f.layer == case.layer && f.step.abs_diff(case.step) <= LOOK_EVERY;
    let root = diagnosis.root();
    if root.is_some_and(is_right) {
        of.named += 1;
    } else {
        let all: Vec<String> = diagnosis.findings.iter().map(|f| format!("\n    {}: {f}", f.cause)).collect();
        println!(
            "  {name} (layer {}, step {}):{}",
            case.layer.as_deref().unwrap_or("none"),
            case.step,
            if all.is_empty() { " nothing".into() } else { all.concat() }
        );
    }
    let Some(finding) = diagnosis.findings.iter().find(|f| f.cause == case.cause) else { return Ok(true) };
    let mut mended = case.mended.clone();
    if !finding.remedy.set.is_empty() {
        let mut with = case.run.clone();
        // What is no key of these runs is done as it is told.
        if finding.remedy.set.iter().all(|set| apply(&mut with, set)) {
            mended = with;
        }
    }
    let (after, ended) = diagnosed(options, &mended, &format!("{name}-mended"))?;
    if ended.has_learned(&mended) && after.findings.iter().all(|f| f.cause != case.cause) {
        of.mended += 1;
    } else {
        let still = after.root().map_or("nothing is found".to_string(), ToString::to_string);
        println!("  {name}: with the remedy ({}; {:?}) the loss of the validation part is {:?}: {still}", finding.remedy.text, finding.remedy.set, ended.valid);
    }
    Ok(true)
}
/// Sets a key of a description where the run has something like it.
fn apply(run: &mut CauseRun, set: &str) -> bool {
    let Some((key, value)) = set.split_once('=') else { return false };
    let inner = |name: &'static str| -> Option<f64> {
        let document = Document::parse("set", &format!("at = {value}")).ok()?;
        let number = document.root().ok()?.section("at").ok()??.number(name).ok()??;
        Some(number)
    };
    let number = value.parse::<f64>().ok();
    match (key, number) {
        ("optimizer.lr", Some(lr)) => run.course.lr = lr,
        ("optimizer.weight_decay", Some(decay)) => run.course.weight_decay = decay,
        ("batch", Some(batch)) => run.course.batch = batch as usize,
        ("clip", _) => match inner("max_norm") {
            Some(max) => run.course.clip = Some(max),
            None => return false,
        },
        ("schedule", _) => match inner("total_iters") {
            Some(steps) => run.course.warm_up = Some(steps as u64),
            None => return false,
        },
        ("precision.mode", _) if value == "bf16" => run.course.mode = PrecisionMode::BF16,
        ("stability.handling_type", _) if value == "skip" => run.course.skips = true,
        ("freeze", _) => run.edits.retain(|e| !matches!(e, net::WeightEdit::Freeze(_) | net::WeightEdit::LeaveOut(_))),
        _ => return false,
    }
    true
}
