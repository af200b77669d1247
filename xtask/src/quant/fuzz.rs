//! Mutated files of codes, of sparse weights, of adapters, of GPTQ and AWQ and of GGUF through every loader of `quant`: read or refused, never a panic; what is
//! refused leaves the model as it was; what is read computes, and is written and read again to the same bits. Which file, and how it
//! is mutated, follows from the seed and the number of the run.
mod foreign;
mod parts;
mod subjects;

use crate::exit::Exit;
use adamant::Device;
use adamant_conformance::random::Random;
use parts::mutated;
use std::{
    collections::BTreeMap,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
};
use subjects::{PackedSubject, subjects};

/// How many files, and which.
#[derive(clap::Args)]
pub struct FuzzOptions {
    /// How many mutated files are read
    #[arg(long, default_value_t = 20_000)]
    n: u64,
    /// Which ones
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Begin with this one
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Only kinds whose name begins so
    #[arg(long, default_value = "")]
    only: String,
    /// Plant a panic, a changed model and a wrong answer into one of 97 runs each, and show that all are found
    #[arg(long)]
    plant: bool,
}
/// What became of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum FileOutcome {
    Read,
    Refused,
    Panicked,
    ModelChanged,
    ReadWrongly,
    RefusedWithoutName,
}
impl FileOutcome {
    fn is_right(self) -> bool {
        matches!(self, FileOutcome::Read | FileOutcome::Refused)
    }
}
/// What is planted into a run.
fn planted(options: &FuzzOptions, number: u64) -> Option<FileOutcome> {
    const FAULTS: [FileOutcome; 3] = [FileOutcome::Panicked, FileOutcome::ModelChanged, FileOutcome::ReadWrongly];
    (options.plant && number % 97 < 3).then(|| FAULTS[(number % 97) as usize])
}

pub fn run(options: &FuzzOptions) -> Result<Exit, String> {
    let folder = match fs::metadata("/dev/shm") {
        Ok(_) => tempfile::tempdir_in("/dev/shm"),
        Err(_) => tempfile::tempdir(),
    }
    .map_err(|e| e.to_string())?;
    let random = Random::new(options.seed);
    let all = Device::reference().scoped(|| subjects(folder.path())).map_err(|e| e.to_string())?;
    let chosen: Vec<&PackedSubject> = all.iter().filter(|s| s.name.starts_with(&options.only)).collect();
    if chosen.is_empty() {
        return Err(format!("no kind begins so; there are {}", all.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", ")));
    }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut counted: BTreeMap<&str, BTreeMap<FileOutcome, u64>> = BTreeMap::new();
    let mut told = Vec::new();
    let last = folder.path().join("last");
    for number in options.from..options.n {
        let mut random = random.part(number);
        let subject = *random.pick(&chosen);
        let place = folder.path().join("mutant");
        let how = mutated(&subject.good, &place, &mut random).map_err(|e| e.to_string())?;
        if number.is_multiple_of(10_000) {
            // Where an allocation ends the program, the number is nearly known.
            eprintln!("{number} of {}", options.n);
        }
        let (outcome, text) = one(subject, &place, &last, planted(options, number), number);
        *counted.entry(&subject.name).or_default().entry(outcome).or_default() += 1;
        if !outcome.is_right() {
            told.push(format!("file {number} of seed {}, {}, {how}: {outcome:?} {text}", options.seed, subject.name));
        }
    }
    std::panic::set_hook(hook);
    for (name, outcomes) in &counted {
        let outcomes: Vec<String> = outcomes.iter().map(|(outcome, n)| format!("{n} {outcome:?}")).collect();
        println!("{name}: {}", outcomes.join(", "));
    }
    told.iter().take(20).for_each(|t| println!("{t}"));
    let tried = options.n.saturating_sub(options.from);
    println!("{} files, {} wrong", tried, told.len());
    let wanted = if options.plant { (options.from..options.n).filter(|k| planted(options, *k).is_some()).count() } else { 0 };
    Ok(if told.len() == wanted { Exit::Passed } else { Exit::Failed })
}
#[expect(clippy::panic, reason = "the fault that is planted")]
fn planted_panic() {
    std::panic::panic_any("a planted panic".to_string());
}
fn one(subject: &PackedSubject, place: &std::path::Path, again: &PathBuf, planted: Option<FileOutcome>, number: u64) -> (FileOutcome, String) {
    let read = catch_unwind(AssertUnwindSafe(|| {
        if planted == Some(FileOutcome::Panicked) {
            planted_panic();
        }
        Device::reference().scoped(|| (subject.read)(place, again, number))
    }));
    let outcome = match read {
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            (FileOutcome::Panicked, text.unwrap_or_default())
        }
        Ok(Ok(())) => (FileOutcome::Read, String::new()),
        Ok(Err(outcome)) => outcome,
    };
    match planted {
        Some(fault) => (fault, outcome.1),
        None => outcome,
    }
}
