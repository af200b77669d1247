//! A program that prints lines and speaks no protocol: it and this project are run case by case in turn, so that a busy
//! machine slows both; medians of the rounds, and their ratio.
use super::{Ended, Options};
use crate::exit::Exit;
use adamant_bench::{Workload, child::Subject, lines::Line, stats::median};
use std::{
    path::Path,
    process::{Command, Stdio},
};

/// One workload of one program, over the rounds.
#[derive(Default)]
struct MeasuredLine {
    medians: Vec<f64>,
    error: Option<String>,
    called: String,
}

/// Measures both and prints the ratios.
pub fn run(own: &Subject, peer: &Path, workloads: &[Workload], options: &Options) -> Result<Exit, Ended> {
    let (mut slower, mut failed) = (Vec::new(), false);
    for workload in workloads {
        let (mut ours, mut theirs) = (MeasuredLine::default(), MeasuredLine::default());
        for _ in 0..options.rounds.max(1) {
            once(&own.program, &["bench", "run", "--json"], &workload.name, options, &mut ours);
            once(peer, &[], &workload.name, options, &mut theirs);
        }
        let of = |m: &MeasuredLine| Some(median(&m.medians)).filter(|x| x.is_finite());
        let ratio = of(&ours).zip(of(&theirs)).map(|(a, b)| a / b);
        if let Some(ratio) = ratio.filter(|r| *r > 1.0) {
            slower.push(format!("{} {ratio:.2}", workload.name));
        }
        failed |= ours.error.is_some();
        if options.json {
            println!(
                "{}",
                serde_json::json!({ "workload": workload.name, "adamant_ms": of(&ours), "peer": theirs.called, "peer_ms": of(&theirs),
                "ratio": ratio, "adamant_error": ours.error, "peer_error": theirs.error })
            );
        } else {
            let ms = |m: &MeasuredLine| of(m).map_or_else(|| m.error.clone().unwrap_or_default(), |x| format!("{x:.6} ms"));
            println!(
                "{:<34} {:>16} {} {:>16} {:>8}",
                workload.name,
                ms(&ours),
                theirs.called,
                ms(&theirs),
                ratio.map(|r| format!("{r:.2}")).unwrap_or_default()
            );
        }
    }
    if !options.json {
        println!("slower than the peer: {}", if slower.is_empty() { "none".into() } else { slower.join(", ") });
    }
    Ok(if failed { Exit::Failed } else { Exit::Passed })
}
/// One round of one program.
fn once(program: &Path, arguments: &[&str], name: &str, options: &Options, into: &mut MeasuredLine) {
    let (threads, budget) = (options.threads.to_string(), (options.budget / (2 * options.rounds.max(1)) as f64).to_string());
    let mut command = Command::new(program);
    command.args(arguments).args(["--only", name, "--threads", &threads, "--budget", &budget]);
    let out = match command.env("RAYON_NUM_THREADS", &threads).stderr(Stdio::null()).output() {
        Ok(out) => out,
        Err(e) => {
            into.error = Some(e.to_string());
            return;
        }
    };
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    match text.lines().filter_map(|l| serde_json::from_str::<Line>(l).ok()).find(|l| l.workload == name) {
        Some(line) => {
            into.called = line.implementation;
            into.medians.extend(line.median_ms);
            into.error = line.error;
        }
        None => into.error = Some(format!("no line for it ({})", out.status)),
    }
}
