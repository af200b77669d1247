//! `cargo xtask torture files`: mutated files of every kind that is read, through the readers that a user's program calls.
//! A child process reads them, one after the other, in a limited address space; the parent counts what became of each, and
//! of a child that is gone or silent. Which file is read, and how it is mutated, follows from the seed and its number.
mod mutate;
mod subjects;

use super::{CaseDraw, TortureClaim, claim, report};
use crate::exit::Exit;
use mutate::mutated;
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};
use subjects::{FileStage, SUBJECTS};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// Files that are read
    #[arg(long, short, default_value_t = 20_000)]
    n: u64,
    /// Which ones
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only kinds whose name begins so
    #[arg(long)]
    only: Option<String>,
    /// A fault in one of fifty reads, to see that it is found
    #[arg(long, value_enum)]
    plant: Option<Plant>,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
    /// Reads from this file on, and says so: what the parent starts
    #[arg(long, hide = true)]
    child_from: Option<u64>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Plant {
    Panic,
    Abort,
    Hang,
    Memory,
}
/// Bytes that a reader may take beside twice what a file holds.
const SLACK: u64 = 64 << 20;
/// KiB of address space of a child: what is asked for beyond it ends the child.
const SPACE_KIB: u64 = 6 << 20;
/// Without a word from the child for so long, it hangs.
const SILENCE: Duration = Duration::from_secs(20);

/// Runs it.
pub fn run(options: &Options) -> Exit {
    match options.child_from {
        Some(from) => child(options, from),
        None => report(options.json, &[parent(options)]),
    }
}
/// The subject of a file by its number.
fn draw(seed: u64, number: u64) -> CaseDraw {
    let mut draw = CaseDraw(seed ^ number.wrapping_mul(0xA076_1D64_78BD_642F));
    draw.next();
    draw
}

/// Reads files and says of each: `> number kind` before, `number kind outcome` after.
fn child(options: &Options, from: u64) -> Exit {
    std::panic::set_hook(Box::new(|_| {}));
    let device = adamant::Device::reference();
    let done = device.scoped(|| -> Result<(), String> {
        let stage = FileStage::new()?;
        let chosen: Vec<_> = SUBJECTS.iter().filter(|s| options.only.as_ref().is_none_or(|only| s.name.starts_with(only))).collect();
        if chosen.is_empty() {
            return Err(format!("no kind begins so; there are {}", SUBJECTS.map(|s| s.name).join(", ")));
        }
        let mut out = std::io::stdout().lock();
        for number in from..options.n {
            let mut draw = draw(options.seed, number);
            let subject = chosen[draw.below(chosen.len() as u64) as usize];
            let good = stage.good(subject)?;
            let mutant = mutated(subject, &good, &mut draw);
            stage.place(subject, &mutant.bytes)?;
            writeln!(out, "> {number} {}", subject.name).and_then(|()| out.flush()).map_err(|e| e.to_string())?;
            let planted = options.plant.filter(|_| number % 50 == 7);
            // What the file holds, not what the mutant is made of: the reader gets the path alone.
            let (held, bytes, how) = (mutant.held, mutant.bytes.len(), mutant.how);
            drop(mutant);
            let before = memory(true);
            let read = catch_unwind(AssertUnwindSafe(|| {
                planted.into_iter().for_each(plant);
                stage.read(subject)
            }));
            let taken = memory(false).zip(before).map_or(0, |(peak, before)| peak.saturating_sub(before));
            let outcome = match read {
                Err(panic) => format!("panic {}", text_of(&*panic)),
                Ok(_) if taken > 2 * held + SLACK => format!("memory {taken} bytes for {bytes} that hold {held} ({how})"),
                Ok(Ok(())) => "read".into(),
                Ok(Err(_)) => "refused".into(),
            };
            writeln!(out, "{number} {} {outcome}", subject.name).map_err(|e| e.to_string())?;
        }
        out.flush().map_err(|e| e.to_string())
    });
    match done {
        Ok(()) => Exit::Passed,
        Err(e) => {
            eprintln!("{e}");
            Exit::Unwritable
        }
    }
}
fn plant(fault: Plant) {
    match fault {
        #[expect(clippy::panic, reason = "the fault that is planted")]
        Plant::Panic => std::panic::panic_any("a planted panic".to_string()),
        Plant::Abort => std::process::abort(),
        Plant::Hang => loop {
            std::thread::park();
        },
        Plant::Memory => {
            let mut taken = vec![1u8; 200 << 20];
            taken.iter_mut().step_by(4096).for_each(|b| *b = 2);
            std::hint::black_box(&taken);
        }
    }
}
fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    text.unwrap_or_else(|| "no text".into()).replace('\n', " ")
}
/// Bytes in memory now, and from now on the most; or the most that there were since. None where the system does not tell.
fn memory(begin: bool) -> Option<u64> {
    if begin {
        // Linux: 5 sets the most back to what is now.
        fs::write("/proc/self/clear_refs", "5").ok()?;
    }
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with(if begin { "VmRSS:" } else { "VmHWM:" }))?;
    line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Starts children until every file was read, and counts.
fn parent(options: &Options) -> TortureClaim {
    claim("a mutated file is read or refused: no panic, no abort, no hang, at most twice what it holds and 64 MiB of memory", |claim| {
        let mut kinds: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        let mut from = 0;
        while from < options.n {
            let (last, how) = watch(options, from, |kind, outcome, number| {
                let word = outcome.split(' ').next().unwrap_or_default().to_string();
                let good = matches!(word.as_str(), "read" | "refused");
                *kinds.entry(kind.to_string()).or_default().entry(word).or_default() += 1;
                claim.count(if good { Ok(()) } else { Err(format!("file {number} of seed {}, {kind}: {outcome}", options.seed)) });
            })?;
            let Some((number, kind)) = last else {
                if how == "end" {
                    break;
                }
                return Err(format!("the child came to nothing: {how}"));
            };
            *kinds.entry(kind.clone()).or_default().entry(how.clone()).or_default() += 1;
            claim.count(Err(format!("file {number} of seed {}, {kind}: {how}", options.seed)));
            from = number + 1;
        }
        let memory = if memory(true).is_some() { "measured" } else { "not measured: this system does not tell" };
        claim.seen = serde_json::json!({ "seed": options.seed, "kinds": kinds, "memory": memory });
        if claim.tried as u64 == options.n { Ok(()) } else { Err(format!("{} of {} files were read", claim.tried, options.n)) }
    })
}
/// One child, to its end: the file that it was at when it was gone or silent, if it did not get through, and what became of it.
fn watch(options: &Options, from: u64, mut each: impl FnMut(&str, &str, u64)) -> Result<(Option<(u64, String)>, String), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut arguments = vec!["torture".to_string(), "files".into(), "--child-from".into(), from.to_string()];
    arguments.extend(["-n".into(), options.n.to_string(), "--seed".into(), options.seed.to_string()]);
    arguments.extend(options.only.iter().flat_map(|only| ["--only".into(), only.clone()]));
    arguments.extend(options.plant.iter().flat_map(|plant| ["--plant".into(), format!("{plant:?}").to_lowercase()]));
    // The shell's own limit: what a reader asks for beyond it is refused by the system, and the child aborts.
    let mut child = Command::new("sh")
        .args(["-c", &format!("ulimit -v {SPACE_KIB} 2>/dev/null; ulimit -c 0 2>/dev/null; exec \"$0\" \"$@\"")])
        .arg(program)
        .args(arguments)
        // Freed memory goes back at once, so that each file is measured for itself.
        .env("MALLOC_MMAP_THRESHOLD_", "65536")
        .env("MALLOC_TRIM_THRESHOLD_", "65536")
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|e| e.to_string())?;
    let stdout = child.stdout.take().ok_or("no stdout")?;
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
    let mut at: Option<(u64, String)> = None;
    let how = loop {
        match lines.recv_timeout(SILENCE) {
            Ok(line) => match line.strip_prefix("> ") {
                Some(begun) => at = begun.split_once(' ').and_then(|(n, kind)| Some((n.parse().ok()?, kind.to_string()))),
                None => {
                    let mut parts = line.splitn(3, ' ');
                    if let (Some(number), Some(kind), Some(outcome)) = (parts.next().and_then(|n| n.parse().ok()), parts.next(), parts.next()) {
                        each(kind, outcome, number);
                        at = None;
                    }
                }
            },
            Err(mpsc::RecvTimeoutError::Timeout) => {
                child.kill().map_err(|e| e.to_string())?;
                break "hang".to_string();
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break String::new(),
        }
    };
    let status = child.wait().map_err(|e| e.to_string())?;
    Ok(match (how.as_str(), status.success()) {
        ("", true) => (None, "end".into()),
        ("", false) => (at, format!("abort ({status})")),
        (_, _) => (at, how),
    })
}
