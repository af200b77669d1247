//! Faults that are planted to show that they are caught, each beside the same program without it, in which nothing may be found:
//! into kernels (`programs`, run by `launched`) and into what is asked of the driver and of cuBLASLt (`driver`).
//!
//! Who tests plants faults of its own into what it has, and holds what came of them against `Caught` as well.

mod driver;
mod launched;
mod programs;

use crate::driver::code::described;
use crate::machine::{Finding, FindingKind};
use driver::{DRIVER_PLANTS, DriverCalls};
use programs::{FaultyProgram, PROGRAMS};

/// PTX of a CUDA C++ text, or the compiler's words.
pub type PlantCompiler<'c> = &'c dyn Fn(&str) -> Result<String, String>;

/// How a fault must show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Caught {
    /// As one of these; which one may depend on who comes first.
    Found(&'static [FindingKind]),
    /// Nothing that the machine can call wrong: the result is.
    WrongResult,
    /// The call that does it answers this and does nothing.
    Answered(&'static str, u32),
}
/// What came of a program, with a fault or without.
#[derive(Debug, Default)]
pub struct PlantEnd {
    /// What was found.
    pub findings: Vec<Finding>,
    /// Calls that answered something else than success.
    pub answers: Vec<(&'static str, u32)>,
    /// Whether the result is what it must be.
    pub right: bool,
}
impl PlantEnd {
    /// How the fault was caught: by what, and where.
    ///
    /// # Errors
    /// It was not, or not as it must be: what there is instead.
    pub fn caught(&self, by: Caught) -> Result<(String, String), String> {
        let caught = match by {
            Caught::Found(kinds) => {
                self.findings.iter().find(|f| kinds.contains(&f.kind)).map(|f| (format!("{:?}", f.kind), format!("{} {}", f.kernel, place(f)).trim().into()))
            }
            Caught::Answered(call, code) => self.answers.contains(&(call, code)).then(|| {
                let name = if call.starts_with("cublas") { None } else { described(code).and_then(|(name, _)| name.to_str().ok()) };
                (name.map_or(format!("status {code}"), |name| format!("{code}, {name}")), call.to_string())
            }),
            Caught::WrongResult => (self.findings.is_empty() && !self.right).then(|| ("a wrong result".into(), String::new())),
        };
        caught.ok_or_else(|| self.to_string())
    }
    /// That there was nothing to be caught.
    ///
    /// # Errors
    /// A false alarm.
    pub fn silent(&self) -> Result<(), String> {
        if self.findings.is_empty() && self.answers.is_empty() && self.right { Ok(()) } else { Err(self.to_string()) }
    }
}
impl std::fmt::Display for PlantEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let findings = self.findings.iter().map(Finding::to_string);
        let answers = self.answers.iter().map(|(call, code)| format!("{call} answers {code}"));
        let all: Vec<String> = findings.chain(answers).collect();
        let result = if self.right { "the right result" } else { "a wrong result" };
        if all.is_empty() { write!(f, "nothing was found, {result}") } else { write!(f, "{}, {result}", all.join("; ")) }
    }
}
fn place(finding: &Finding) -> String {
    if finding.line == 0 { String::new() } else { format!("line {}: {}", finding.line, finding.instruction) }
}

/// A planted fault with its sound twin.
pub struct EmulatorPlant {
    /// What is wrong.
    pub name: String,
    /// How it must show.
    pub caught: Caught,
    program: PlantBody,
}
enum PlantBody {
    /// Of a kernel's text, a piece and what stands there instead.
    Text(&'static FaultyProgram, [&'static str; 2]),
    /// Calls of the driver, and whether there is a kernel among what they need.
    Calls(fn(&DriverCalls<'_>) -> Result<(), String>, bool),
}
/// All of them.
pub fn plants() -> Vec<EmulatorPlant> {
    let of_program = |program: &'static FaultyProgram| {
        program.plants.iter().map(move |(fault, from, to, caught)| EmulatorPlant {
            name: format!("{} ({})", fault, program.name),
            caught: *caught,
            program: PlantBody::Text(program, [from, to]),
        })
    };
    let of_driver = DRIVER_PLANTS.iter().map(|(name, caught, calls, has_kernel)| EmulatorPlant {
        name: (*name).into(),
        caught: *caught,
        program: PlantBody::Calls(*calls, *has_kernel),
    });
    PROGRAMS.iter().flat_map(of_program).chain(of_driver).collect()
}
impl EmulatorPlant {
    /// Does it need the compiler?
    pub fn has_kernel(&self) -> bool {
        !matches!(self.program, PlantBody::Calls(_, false))
    }
    /// Runs the program, with the fault or without. The emulator must be installed; it is reset.
    ///
    /// # Errors
    /// The program could not be run: a text that does not compile, no emulator.
    pub fn run(&self, compile: PlantCompiler<'_>, seed: u64, planted: bool) -> Result<PlantEnd, String> {
        match &self.program {
            PlantBody::Text(program, [from, to]) => {
                if !program.text.contains(from) {
                    return Err(format!("{}: there is no `{from}` in its text", self.name));
                }
                let text = if planted { program.text.replacen(from, to, 1) } else { program.text.to_string() };
                launched::run(program.name, &compile(&text)?, seed, planted)
            }
            PlantBody::Calls(calls, _) => driver::run(*calls, compile, seed, planted),
        }
    }
}
