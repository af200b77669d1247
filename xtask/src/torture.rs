//! `cargo xtask torture disk|files|kill|cost|threads|python|keys|steps|readers|sharing`: what a run survives. Each part prints one line per claim and ends with exit
//! code 1 if one does not hold; with `--json` it prints one document. A part that this machine cannot do is said to be
//! skipped, with the reason.
mod cost;
mod disk;
mod files;
mod keys;
mod kill;
mod matrix;
mod program;
pub(crate) use program::{sha256, sha256_of};
mod python;
mod readers;
mod rot;
mod sharing;
mod signals;
mod steps;
mod subject;
mod threads;

use crate::exit::Exit;
use serde::Serialize;
use std::time::Instant;

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    part: TorturePart,
}
#[derive(clap::Subcommand)]
enum TorturePart {
    /// Power cuts at every operation, flipped bits, truncations, full disks
    Disk(disk::Options),
    /// Mutated files of every kind, through the readers that a user's program calls
    Files(files::Options),
    /// The program is killed and interrupted at random moments, and goes on
    Kill(kill::Options),
    /// What a checkpoint each 100 steps costs
    Cost(cost::Options),
    /// The examples come to the same lines and weights on any number of threads
    Threads(threads::Options),
    /// Checkpoints go to Python and come from there (ADAMANT_PYTHON names one with safetensors)
    Python(python::Options),
    /// Every key of every description wrong, one at a time
    Keys(keys::Options),
    /// Panics and errors at every write, read and op inside steps, and in a backend
    Steps(steps::Options),
    /// Readers get one version of the weights while another thread loads
    Readers(readers::Options),
    /// Threads that share tensors, tapes, cells, compiled functions and generators
    Sharing(sharing::Options),
}

/// One claim, and what was seen.
#[derive(Clone, Debug, Serialize)]
pub struct TortureClaim {
    /// what should hold
    claim: String,
    /// how often it was tried
    tried: usize,
    /// how often it held
    held: usize,
    /// seconds that it took
    seconds: f64,
    /// figures that say more
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    seen: serde_json::Value,
    /// the first cases that did not hold
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<String>,
    /// why it was not tried
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<String>,
}
/// Failures of one claim that are told.
const TOLD: usize = 5;

impl TortureClaim {
    /// A claim that is about to be tried.
    fn new(claim: &str) -> TortureClaim {
        TortureClaim { claim: claim.into(), tried: 0, held: 0, seconds: 0.0, seen: serde_json::Value::Null, failures: Vec::new(), skipped: None }
    }
    /// A claim that this machine cannot try.
    pub(crate) fn skipped(claim: &str, why: impl Into<String>) -> TortureClaim {
        TortureClaim { skipped: Some(why.into()), ..TortureClaim::new(claim) }
    }
    /// Figures that say more.
    pub(crate) fn see(&mut self, seen: serde_json::Value) {
        self.seen = seen;
    }
    /// Counts one try.
    pub(crate) fn count(&mut self, result: Result<(), String>) {
        self.tried += 1;
        match result {
            Ok(()) => self.held += 1,
            Err(e) if self.failures.len() < TOLD => self.failures.push(e),
            Err(_) => {}
        }
    }
    fn holds(&self) -> bool {
        self.skipped.is_some() || (self.tried > 0 && self.held == self.tried)
    }
}
/// Tries a claim and times it.
pub(crate) fn claim(text: &str, check: impl FnOnce(&mut TortureClaim) -> Result<(), String>) -> TortureClaim {
    let begun = Instant::now();
    let mut claim = TortureClaim::new(text);
    if let Err(e) = check(&mut claim) {
        claim.count(Err(e));
    }
    TortureClaim { seconds: begun.elapsed().as_secs_f64(), ..claim }
}
/// Prints what was seen.
pub(crate) fn report(json: bool, claims: &[TortureClaim]) -> Exit {
    let passed = claims.iter().all(TortureClaim::holds);
    if json {
        println!("{}", serde_json::json!({ "passed": passed, "claims": claims }));
        return if passed { Exit::Passed } else { Exit::Failed };
    }
    for claim in claims {
        match &claim.skipped {
            Some(why) => println!("SKIPPED  {}: {why}", claim.claim),
            None => {
                let seen = if claim.seen.is_null() { String::new() } else { format!(" {}", claim.seen) };
                let verdict = if claim.holds() { "ok      " } else { "FAILED  " };
                println!("{verdict} {} of {}: {} ({:.1} s){seen}", claim.held, claim.tried, claim.claim, claim.seconds);
            }
        }
        for failure in &claim.failures {
            println!("         {failure}");
        }
    }
    if passed { Exit::Passed } else { Exit::Failed }
}

/// Runs one part.
pub fn run(options: &Options) -> Exit {
    match &options.part {
        TorturePart::Disk(options) => disk::run(options),
        TorturePart::Files(options) => files::run(options),
        TorturePart::Kill(options) => kill::run(options),
        TorturePart::Cost(options) => cost::run(options),
        TorturePart::Threads(options) => threads::run(options),
        TorturePart::Python(options) => python::run(options),
        TorturePart::Keys(options) => keys::run(options),
        TorturePart::Steps(options) => steps::run(options),
        TorturePart::Readers(options) => readers::run(options),
        TorturePart::Sharing(options) => sharing::run(options),
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): which cases are tried follows from a seed.
pub(crate) struct CaseDraw(u64);
impl CaseDraw {
    pub(crate) fn new(seed: u64) -> CaseDraw {
        CaseDraw(seed)
    }
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// From 0 to n - 1.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
    /// From 0 to 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
