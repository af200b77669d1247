//! `cargo xtask goldens DIR`: computes each case of a goldens folder without opening an answer, writes OUT, and then,
//! as a separate step, compares. Ends with `N passed, M failed, K unsupported`.
mod call;
mod cause;
mod compare;
mod dispatch;
mod files;
mod init;
mod manifest;
mod module;
mod optim;
mod run;
mod schedule;
mod write;

use crate::{device, exit::Exit, workspace};
use adamant::Device;
use compare::{GoldenVerdict, JudgedCase};
use globset::Glob;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// The folder with manifest.jsonl
    dir: PathBuf,
    /// Where results go [default: target/goldens of the workspace]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Only the cases whose id or op matches this glob
    #[arg(long)]
    only: Option<Glob>,
    /// cpu, cuda:N, wgpu:N or reference
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Threads that compute cases (0: one for each processor)
    #[arg(long, default_value_t = 0)]
    workers: usize,
    /// Seconds after which a case counts as hung
    #[arg(long, default_value_t = 20)]
    limit: u64,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Computes, writes, compares, reports.
pub fn run(options: &Options) -> Exit {
    let device = match device::open(&options.device) {
        Ok(device) => device,
        Err(exit) => return exit,
    };
    let out = options.out.clone().unwrap_or_else(|| workspace::root().join("target/goldens"));
    match compute_and_compare(options, &out, device) {
        Ok(judged) => report(options, &out, &judged),
        Err(unreadable) => {
            eprintln!("{unreadable}");
            Exit::Unreadable
        }
    }
}
fn compute_and_compare(options: &Options, out: &Path, device: Device) -> Result<Vec<JudgedCase>, String> {
    let all = manifest::read(&options.dir)?;
    let only = options.only.as_ref().map(Glob::compile_matcher);
    let wanted = |id: &str, op: &str| only.as_ref().is_none_or(|m| m.is_match(id) || m.is_match(op));
    write::clear(out, all.iter().filter(|c| !c.file.is_empty()).map(|c| c.file.clone()).collect::<std::collections::BTreeSet<_>>())?;
    let cases: Vec<_> = all.into_iter().filter(|c| wanted(&c.id, &c.op)).collect();
    let files = files::Files::open(&options.dir, &cases)?;
    let workers = if options.workers > 0 { options.workers } else { std::thread::available_parallelism().map_or(1, |n| n.get()) };
    let outcomes = run::run(cases.clone(), files, device, workers, Duration::from_secs(options.limit));
    let outcomes: Vec<_> = cases.iter().map(|c| c.file.clone()).zip(outcomes).collect();
    write::write(out, &outcomes)?;
    drop(outcomes);
    compare::compare(&options.dir, out, &cases, &write::read_status(out)?)
}

fn report(options: &Options, out: &Path, judged: &[JudgedCase]) -> Exit {
    let mut groups: BTreeMap<&str, BTreeMap<GoldenVerdict, usize>> = BTreeMap::new();
    for j in judged {
        *groups.entry(&j.group).or_default().entry(j.verdict).or_default() += 1;
    }
    let count = |v: &[GoldenVerdict]| judged.iter().filter(|j| v.contains(&j.verdict)).count();
    let failed = [GoldenVerdict::Fail, GoldenVerdict::FailGrad, GoldenVerdict::FailGrad2];
    let (passed, failures, unsupported, uncompared) =
        (count(&[GoldenVerdict::Pass]), count(&failed), count(&[GoldenVerdict::Unsupported]), count(&[GoldenVerdict::Uncompared]));
    let mut causes: BTreeMap<&str, usize> = BTreeMap::new();
    for j in judged {
        *causes.entry(j.cause.as_deref().unwrap_or("")).or_default() += usize::from(j.verdict == GoldenVerdict::Unsupported);
    }
    causes.retain(|_, n| *n > 0);
    let summary = format!("{passed} passed, {failures} failed, {unsupported} unsupported");
    if options.json {
        let bad: Vec<_> = judged.iter().filter(|j| failed.contains(&j.verdict)).collect();
        let document = serde_json::json!({ "passed": passed, "failed": failures, "unsupported": unsupported, "uncompared": uncompared, "causes": causes, "groups": groups, "failures": bad, "out": out });
        println!("{document}");
        eprintln!("{summary}");
    } else {
        for j in judged.iter().filter(|j| failed.contains(&j.verdict)) {
            println!("{} {}: {}", serde_json::json!(j.verdict).as_str().unwrap_or("fail"), j.id, j.why);
        }
        for (group, verdicts) in &groups {
            println!(
                "{group}: {}",
                verdicts.iter().map(|(v, n)| format!("{} {n}", serde_json::json!(v).as_str().unwrap_or("?"))).collect::<Vec<_>>().join(", ")
            );
        }
        for (cause, n) in &causes {
            println!("unsupported, {cause}: {n}");
        }
        if uncompared > 0 {
            println!("{uncompared} computed and written but not compared: the folder holds no answers");
        }
        println!("{summary}");
    }
    if failures > 0 { Exit::Failed } else { Exit::Passed }
}
