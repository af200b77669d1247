//! Differential fuzzing: random programs run fused, in cut windows and op by op. The three must agree bit for bit, and
//! every op of the op-by-op run must lie within the published table of what the reference gives on the same inputs.
//!
//! Errors do not build up over a program this way: each op is judged on the inputs it really had.
use crate::{data::same_bits, random::Random, tolerance};
use adamant_core::{Arg, DType, Device, HostArray, Tensor, schedule::take_stats};
use coverage::{Coverage, Want, wanted};
use program::{Mode, NodeKind, RandomProgram, Seen, Value};
use std::{
    cell::Cell,
    collections::HashMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Once,
};

pub mod coverage;
pub mod generate;
pub mod program;
mod shrink;

/// Wanted cells of the table in each graph.
const WANTS_PER_GRAPH: usize = 4;

/// A campaign.
#[derive(Clone, Debug)]
pub struct Options {
    /// how many graphs
    pub n: usize,
    /// the first seed
    pub seed: u64,
    /// stop at so many failures
    pub failures: usize,
    /// make a failing program small before it is reported
    pub shrink: bool,
}
/// A program on which something disagrees.
#[derive(Clone, Debug)]
pub struct FailedProgram {
    /// its number in the campaign, from 0
    pub index: usize,
    /// the program, shrunk
    pub program: RandomProgram,
    /// what disagrees
    pub what: String,
}
impl fmt::Display for FailedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph {}: {}\n{}", self.index, self.what, self.program)
    }
}
/// What a campaign found.
#[derive(Default, Debug)]
pub struct Report {
    /// graphs run
    pub graphs: usize,
    /// graphs with a kernel in which more than one op ran
    pub fused: usize,
    /// ops compared with the reference
    pub checked: usize,
    /// values compared bit for bit
    pub compared: usize,
    /// graphs in which data made an error
    pub faulted: usize,
    /// graphs that were differentiated
    pub differentiated: usize,
    /// graphs that were not run: they use a dtype that the device says it does not have
    pub skipped: usize,
    /// the table
    pub coverage: Coverage,
    /// what failed
    pub failures: Vec<FailedProgram>,
}
impl Report {
    /// The share of graphs with a fused kernel.
    pub fn fused_share(&self) -> f64 {
        self.fused as f64 / self.graphs.max(1) as f64
    }
    /// Is this campaign long enough that the whole table must be filled?
    pub fn must_fill(&self) -> bool {
        self.graphs * WANTS_PER_GRAPH >= 2 * wanted().len()
    }
}

/// The program of number `index` of a campaign, in a table of sizes.
pub fn nth(seed: u64, index: usize, variant: usize) -> RandomProgram {
    // A prime stride through the table: neighbours in it meet in no graph.
    let all = table();
    let wants: Vec<Want> = (0..WANTS_PER_GRAPH).map(|k| all[(index * WANTS_PER_GRAPH + k).wrapping_mul(7919) % all.len()]).collect();
    generate::program(Random::new(seed.wrapping_add((index as u64).wrapping_mul(0x1_0001))).bits(), variant, &wants)
}
fn table() -> &'static [Want] {
    static TABLE: std::sync::LazyLock<Vec<Want>> = std::sync::LazyLock::new(wanted);
    &TABLE
}

/// Runs a campaign.
pub fn run(device: Device, options: &Options) -> Report {
    let mut report = Report::default();
    let absent = absent(device);
    for index in 0..options.n {
        if nth(options.seed, index, 0).nodes.iter().any(|n| n.metas.iter().any(|m| absent.contains(&m.1))) {
            report.skipped += 1;
            continue;
        }
        // The second table of sizes after the first: what is cached for one must not be used for the other.
        for variant in 0..2 {
            let program = nth(options.seed, index, variant);
            if variant == 0 {
                program.cover(&mut report.coverage);
                report.graphs += 1;
                report.differentiated += !program.loss.is_empty() as usize;
            }
            let window = [1, 3, 7][index % 3];
            match check(device, &program, window) {
                Ok(facts) => {
                    report.fused += (variant == 0 && facts.fused) as usize;
                    report.checked += facts.checked;
                    report.compared += facts.compared;
                    report.faulted += (variant == 0 && facts.faulted) as usize;
                }
                Err(what) => {
                    report.fused += (variant == 0) as usize;
                    let (program, what) = if options.shrink { shrink::shrink(device, program, window, what) } else { (program, what) };
                    report.failures.push(FailedProgram { index, program, what });
                    if report.failures.len() >= options.failures {
                        return report;
                    }
                }
            }
        }
    }
    report
}

/// The dtypes that a device names as its own lack when it is asked to cast to them.
fn absent(device: Device) -> Vec<DType> {
    let lacks = |d: &DType| Tensor::zeros_on([1], DType::I32, device).cast(*d).materialize().is_err_and(|e| e.kind().word() == "unsupported");
    DType::ALL.into_iter().filter(lacks).collect()
}
/// Runs `f` without the panic messages of this thread: they become part of a report.
fn quietly<R>(f: impl FnOnce() -> R) -> R {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info)
            }
        }));
    });
    QUIET.set(true);
    let r = f();
    QUIET.set(false);
    r
}
#[derive(Default)]
struct ProgramFacts {
    fused: bool,
    faulted: bool,
    checked: usize,
    compared: usize,
}
/// Runs one program in every mode. `Err` says what disagrees.
fn check(device: Device, program: &RandomProgram, window: usize) -> Result<ProgramFacts, String> {
    let run = |mode: Mode, all: bool| -> Result<Seen, String> {
        quietly(|| catch_unwind(AssertUnwindSafe(|| program.run(device, mode, all)))).map_err(|e| {
            let why = e.downcast_ref::<String>().cloned().or_else(|| e.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default();
            format!("a panic in mode {mode:?}: {why}")
        })
    };
    take_stats();
    let fused = run(Mode::Fused, false)?;
    let mut facts = ProgramFacts { fused: take_stats().fused > 0, ..ProgramFacts::default() };
    let eager = run(Mode::Eager, true)?;
    let cut = run(Mode::Window(window), false)?;
    let by_name: HashMap<&str, &Value> = eager.iter().map(|(name, r)| (name.as_str(), r)).collect();
    facts.faulted = eager.iter().any(|(_, r)| r.is_err());
    if let Some((name, Err((_, text)))) = eager.iter().chain(&fused).chain(&cut).find(|(_, r)| matches!(r, Err(("internal" | "unsupported" | "capture", _)))) {
        return Err(format!("{name}: {text}"));
    }
    against_reference(device, program, &by_name, &mut facts)?;
    for (mode, seen) in [(Mode::Fused, &fused), (Mode::Window(window), &cut)] {
        for (name, got) in seen {
            let Some(want) = by_name.get(name.as_str()) else {
                return Err(format!("{name} was seen in mode {mode:?} and not op by op"));
            };
            facts.compared += 1;
            agree(name, mode, got, want)?;
        }
    }
    Ok(facts)
}
fn agree(name: &str, mode: Mode, got: &Value, want: &Value) -> Result<(), String> {
    match (got, want) {
        (Ok(a), Ok(b)) if same_bits(a, b) => Ok(()),
        (Err(a), Err(b)) if a.0 == b.0 => Ok(()),
        (Ok(a), Ok(b)) => {
            let at = (0..a.len().min(b.len())).find(|&k| a.float(k).to_bits() != b.float(k).to_bits());
            let at = at.map_or(String::new(), |k| format!(" (element {k}: {} and {})", a.scalar(k), b.scalar(k)));
            Err(format!("{name} differs between {mode:?} and op by op{at}"))
        }
        (a, b) => {
            let word = |r: &Value| r.as_ref().map_or_else(|(_, text)| format!("an error ({text})"), |_| "a value".to_string());
            Err(format!("{name} is {} in {mode:?} and {} op by op", word(a), word(b)))
        }
    }
}
/// Judges every op on the inputs it had.
fn against_reference(device: Device, program: &RandomProgram, seen: &HashMap<&str, &Value>, facts: &mut ProgramFacts) -> Result<(), String> {
    for round in 0..program.rounds {
        let value = |node: usize, output: usize| -> Option<HostArray> {
            seen.get(format!("round {round} value {node}.{output}").as_str()).and_then(|r| r.as_ref().ok()).cloned()
        };
        for (k, n) in program.nodes.iter().enumerate() {
            let NodeKind::Apply { op, args } = &n.kind else { continue };
            let inputs: Option<Vec<HostArray>> = n.inputs.iter().map(|r| value(r.node, r.output)).collect();
            let got: Option<Vec<HostArray>> = (0..n.metas.len()).map(|o| value(k, o)).collect();
            if let (Some(inputs), Some(got)) = (inputs, got) {
                let arg = args.get(round % args.len().max(1)).copied().unwrap_or(Arg::None);
                facts.checked += 1;
                tolerance::check_on(device, op, arg, &inputs, &got).map_err(|e| format!("round {round}, %{k} = {op:?}: {e}"))?;
            }
        }
    }
    Ok(())
}
