//! `cargo xtask programs --python PYTHON`: random programs in PyTorch and here, compared call by call. Fails when a call
//! differs without a name in the table of differences. The last lines say what was compared, and what never occurred.
use crate::{device, exit::Exit};
use adamant_conformance::programs::{
    TorchAnswer, TorchProgram,
    campaign::{Campaign, ProgramFailure},
    differences,
    draw::{self, Drawing},
    plants::Plant,
    registered, replay,
    table::TorchFunction,
};
use adamant_core::Device;
use chores::workspace;
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Command, Stdio},
    time::Instant,
};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// A Python that has torch and numpy
    #[arg(long)]
    python: PathBuf,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many programs
    #[arg(long, default_value_t = 2000)]
    count: usize,
    /// How many calls each: SHORTEST..LONGEST
    #[arg(long, default_value = "5..30")]
    length: String,
    /// Only these functions, by their names without `Tensor::` or `functional::`, with commas between
    #[arg(long)]
    only: Option<String>,
    /// Only this program of the seed, and its calls in full
    #[arg(long)]
    program: Option<usize>,
    /// cpu, cuda:N, wgpu:N or reference
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Write the programs and PyTorch's answers here, a line each, for a test that has no Python
    #[arg(long)]
    write: Option<PathBuf>,
    /// Plant each fault of ours, one after the other, and show that it is found
    #[arg(long)]
    plant: bool,
    /// Print the calls that differ by this name, too; `every` for all names
    #[arg(long)]
    named: Option<String>,
    /// How many differences of one kind are printed
    #[arg(long, default_value_t = 3)]
    show: usize,
}

/// Draws, asks, compares, reports.
pub fn run(options: &Options) -> Exit {
    let device = match device::open(&options.device) {
        Ok(device) => device,
        Err(exit) => return exit,
    };
    // A panic of a call is a finding, and told with it.
    std::panic::set_hook(Box::new(|_| {}));
    let said = campaign(options, device);
    let _ = std::panic::take_hook();
    match said {
        Ok(exit) => exit,
        Err(why) => {
            eprintln!("{why}");
            Exit::Usage
        }
    }
}
fn campaign(options: &Options, device: Device) -> Result<Exit, String> {
    let (shortest, longest) = length(&options.length)?;
    let mut functions = registered::functions();
    if let Some(only) = &options.only {
        functions.retain(|f| only.split(',').any(|one| f.name.rsplit("::").next() == Some(one)));
        if functions.is_empty() {
            return Err(format!("no function that takes part is called {only}"));
        }
    }
    let names = draw::by_name(&functions);
    let drawing = Drawing { functions: &functions, shortest, longest };
    let numbers = options.program.map_or(0..options.count, |n| n..n + 1);
    let extra = options.write.is_some() || options.plant;
    // Drawn on the reference, so that a seed is the same programs wherever they run.
    let programs: Vec<TorchProgram> = Device::reference().scoped(|| {
        let mut all: Vec<_> = numbers.map(|n| draw::program(options.seed, n, drawing, &names)).collect();
        if extra {
            all.extend(programs_of_plants(options, &functions, (shortest, longest)));
        }
        all
    });
    let started = Instant::now();
    let answers = ask(options, &programs)?;
    println!("{} programs answered by PyTorch in {:.1} s", answers.len(), started.elapsed().as_secs_f64());
    let pairs: Vec<(&TorchProgram, &TorchAnswer)> = programs.iter().filter_map(|p| answers.get(&p.number).map(|a| (p, a))).collect();
    if let Some(path) = &options.write {
        let lines: Vec<String> = pairs.iter().map(serde_json::to_string).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        fs::write(path, lines.join("\n") + "\n").map_err(|e| format!("{}: {e}", path.display()))?;
    }
    if options.plant {
        return Ok(planted(&functions, &pairs, device));
    }
    let found = compared(&functions, &pairs, device);
    report(options, &found, &functions, programs.len() - pairs.len());
    // Where PyTorch itself dies nothing can be compared; it may do so now and then (a SIGFPE of its integer division).
    let answered = (programs.len() - pairs.len()) * 200 <= programs.len();
    Ok(if found.failures.is_empty() && answered { Exit::Passed } else { Exit::Failed })
}
/// A few programs of nothing but the functions that have faults when they are planted.
fn programs_of_plants(options: &Options, functions: &[TorchFunction], (shortest, longest): (usize, usize)) -> Vec<TorchProgram> {
    let mut all = Vec::new();
    for plant in Plant::ALL {
        let few: Vec<TorchFunction> = functions.iter().filter(|f| f.name == plant.function()).cloned().collect();
        let names = draw::by_name(&few);
        if !few.is_empty() {
            let first = options.count + 8 * all.len();
            all.extend((first..first + 8).map(|n| draw::program(options.seed, n, Drawing { functions: &few, shortest, longest }, &names)));
        }
    }
    all
}
fn length(text: &str) -> Result<(usize, usize), String> {
    let wrong = || format!("a length is SHORTEST..LONGEST, not {text}");
    let (a, b) = text.split_once("..").ok_or_else(wrong)?;
    match (a.parse(), b.parse()) {
        (Ok(a), Ok(b)) if a <= b => Ok((a, b)),
        _ => Err(wrong()),
    }
}
/// PyTorch's answers by program. A program at which Python itself dies is told and left out.
fn ask(options: &Options, programs: &[TorchProgram]) -> Result<BTreeMap<usize, TorchAnswer>, String> {
    let script = workspace::root().join("xtask/python/programs.py");
    let mut answers = BTreeMap::new();
    let mut rest = programs;
    while !rest.is_empty() {
        let mut child = Command::new(&options.python)
            .arg(&script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", options.python.display()))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else { return Err("Python has no pipes".into()) };
        let lines: Vec<String> = rest.iter().map(serde_json::to_string).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        // Python answers while it is asked, so that neither waits for a full pipe.
        let feeder = std::thread::spawn(move || lines.iter().all(|line| writeln!(stdin, "{line}").is_ok()));
        let mut answered = 0;
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(|e| e.to_string())?;
            let answer = serde_json::from_str(&line).map_err(|e| format!("an answer that is none: {e}"))?;
            answers.insert(rest[answered].number, answer);
            answered += 1;
        }
        let _ = feeder.join();
        let status = child.wait().map_err(|e| e.to_string())?;
        if answered < rest.len() {
            println!("program {}: Python ended with {status}", rest[answered].number);
            if answered == 0 && answers.is_empty() {
                return Err("Python answers nothing".into());
            }
            answered += 1;
        }
        rest = &rest[answered.min(rest.len())..];
    }
    Ok(answers)
}
fn compared(functions: &[TorchFunction], pairs: &[(&TorchProgram, &TorchAnswer)], device: Device) -> Campaign {
    let known = replay::known(functions);
    let mut campaign = Campaign::default();
    device.scoped(|| {
        for (program, answer) in pairs {
            let compared = replay::compare(program, answer, &known);
            campaign.add(program, answer, &compared, replay::flow(program, answer, &known, &compared));
        }
    });
    campaign
}
fn planted(functions: &[TorchFunction], pairs: &[(&TorchProgram, &TorchAnswer)], device: Device) -> Exit {
    let sound = compared(functions, pairs, device).failures.len();
    let mut lost = 0;
    for plant in Plant::ALL {
        let mut functions = functions.to_vec();
        plant.into_functions(&mut functions);
        let found = compared(&functions, pairs, device);
        lost += (found.failures.len() <= sound) as usize;
        match found.failures.iter().find(|_| found.failures.len() > sound) {
            Some(first) => println!("{plant:?}: {} differences, the first in program {}: {}", found.failures.len() - sound, first.program, first.text),
            None => println!("{plant:?}: NOT found"),
        }
    }
    println!("{} of {} faults found in {} programs", Plant::ALL.len() - lost, Plant::ALL.len(), pairs.len());
    if lost == 0 { Exit::Passed } else { Exit::Failed }
}
fn by_function(differing: &[ProgramFailure], show: usize) {
    let mut by: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for f in differing {
        by.entry((&f.name, f.difference)).or_default().push(f);
    }
    for ((name, difference), all) in &by {
        println!("{name} {difference:?}: {}", all.len());
        for f in all.iter().take(show) {
            println!("  program {} call {}: {}", f.program, f.call, f.text);
        }
    }
}
fn report(options: &Options, found: &Campaign, functions: &[TorchFunction], died: usize) {
    by_function(&found.failures, options.show);
    println!("named differences:");
    for line in differences::LINES {
        if let Some(all) = found.named.get(line.name) {
            println!("  {:5} {}: {}", all.len(), line.name, line.reason);
            if options.named.as_deref().is_some_and(|name| name == line.name || name == "every") {
                by_function(all, options.show);
            }
        }
    }
    if options.only.is_none() {
        println!("names without a case: {:?}", found.unused());
    }
    if options.only.is_none() {
        coverage(found, functions);
    }
    let total = found.total();
    println!(
        "seed {}: {} programs, {} calls: {} the same, {} refused by both, {} differ by name, {} without one; {} without a value, {} PyTorch has not; Python died at {died}",
        options.seed,
        found.programs,
        total.same + total.refused + total.named + total.differs + total.skipped + total.unknown,
        total.same,
        total.refused,
        total.named,
        total.differs,
        total.skipped,
        total.unknown,
    );
    let flowed = found.flowed;
    println!(
        "each call on PyTorch's operands; gradients of {} calls compared. With our own results as operands: {} results within the growing tolerance, {} drifted, {} gradients of whole programs within it, {} not",
        found.gradients, flowed.near, flowed.drifted, flowed.gradients, flowed.wrong_gradients
    );
}
fn coverage(found: &Campaign, functions: &[TorchFunction]) {
    println!("function: same, refused by both, by name, without");
    for (name, e) in &found.ends {
        println!("  {name}: {} {} {} {}", e.same, e.refused, e.named, e.differs);
    }
    let absent = registered::untranslated();
    println!("of {} functions {} were compared", draw::by_name(functions).len() + absent.len(), found.compared());
    println!("never drawn: {:?}", found.never(functions));
    println!("always refused: {:?}", found.always_refused());
    println!("PyTorch has none of this name: {:?}", found.unknown());
    for (name, reason) in &absent {
        println!("not compared: {name}: {}", reason.unwrap_or("not spelled in PyTorch's words yet"));
    }
}
