//! What many programs found: counts, the differences by name, what each function was asked and answered.
use super::{
    Answered, ProgramArg, ProgramCall, ProgramItem, StoredArray, TorchAnswer, TorchProgram, differences,
    replay::{CallVerdict, ComparedProgram, Flowed, ProgramDifference},
    table::TorchFunction,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// How often a function's calls ended how.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallEnds {
    /// the same results
    pub same: usize,
    /// refused on both sides
    pub refused: usize,
    /// another answer with a name
    pub named: usize,
    /// another answer without one
    pub differs: usize,
    /// PyTorch has no function of this name with these arguments
    pub unknown: usize,
    /// a value was not there
    pub skipped: usize,
}
/// A call that differs.
#[derive(Clone, Debug)]
pub struct ProgramFailure {
    /// which program
    pub program: usize,
    /// which call of it
    pub call: usize,
    /// the function
    pub name: String,
    /// how it differs
    pub difference: ProgramDifference,
    /// the call with its operands, and both answers
    pub text: String,
}
/// All that was found.
#[derive(Clone, Debug, Default)]
pub struct Campaign {
    /// programs
    pub programs: usize,
    /// by function
    pub ends: BTreeMap<String, CallEnds>,
    /// differences by name
    pub named: BTreeMap<&'static str, Vec<ProgramFailure>>,
    /// those without a name
    pub failures: Vec<ProgramFailure>,
    /// calls whose gradients were compared
    pub gradients: usize,
    /// runs with our own results as operands
    pub flowed: Flowed,
}
impl Campaign {
    /// Adds a program.
    pub fn add(&mut self, program: &TorchProgram, answer: &TorchAnswer, compared: &ComparedProgram, flowed: Flowed) {
        self.programs += 1;
        self.gradients += compared.gradients;
        self.flowed.near += flowed.near;
        self.flowed.drifted += flowed.drifted;
        self.flowed.gradients += flowed.gradients;
        self.flowed.wrong_gradients += flowed.wrong_gradients;
        for (k, (call, verdict)) in program.calls.iter().zip(&compared.verdicts).enumerate() {
            let ends = self.ends.entry(call.name.clone()).or_default();
            match verdict {
                CallVerdict::Same => ends.same += 1,
                CallVerdict::BothRefused => ends.refused += 1,
                CallVerdict::Skipped => ends.skipped += 1,
                CallVerdict::Unknown => ends.unknown += 1,
                CallVerdict::Named(name, difference, why) => {
                    ends.named += 1;
                    self.named.entry(name).or_default().push(failure(program, answer, k, *difference, why));
                }
                CallVerdict::Differs(difference, why) => {
                    ends.differs += 1;
                    self.failures.push(failure(program, answer, k, *difference, why));
                }
            }
        }
    }
    /// The sum over all functions.
    pub fn total(&self) -> CallEnds {
        self.ends.values().fold(CallEnds::default(), |mut sum, e| {
            sum.same += e.same;
            sum.refused += e.refused;
            sum.named += e.named;
            sum.differs += e.differs;
            sum.unknown += e.unknown;
            sum.skipped += e.skipped;
            sum
        })
    }
    /// Functions that took part and were compared at least once.
    pub fn compared(&self) -> usize {
        self.ends.values().filter(|e| e.same + e.refused + e.named + e.differs > 0).count()
    }
    /// Functions that were drawn and always refused on both sides: nothing of them is compared but that.
    pub fn always_refused(&self) -> Vec<&str> {
        self.ends.iter().filter(|(_, e)| e.refused > 0 && e.same + e.named + e.differs == 0).map(|(name, _)| name.as_str()).collect()
    }
    /// Functions that PyTorch does not have by this name.
    pub fn unknown(&self) -> Vec<&str> {
        self.ends.iter().filter(|(_, e)| e.unknown > 0).map(|(name, _)| name.as_str()).collect()
    }
    /// Functions that could be drawn and never were.
    pub fn never<'a>(&self, functions: &'a [TorchFunction]) -> BTreeSet<&'a str> {
        functions.iter().map(|f| f.name.as_str()).filter(|name| !self.ends.contains_key(*name)).collect()
    }
    /// Lines of the table of differences that held for no call.
    pub fn unused(&self) -> Vec<&'static str> {
        differences::LINES.iter().map(|l| l.name).filter(|name| !self.named.contains_key(name)).collect()
    }
}
fn failure(program: &TorchProgram, answer: &TorchAnswer, k: usize, difference: ProgramDifference, why: &str) -> ProgramFailure {
    let call = &program.calls[k];
    ProgramFailure { program: program.number, call: k, name: call.name.clone(), difference, text: format!("{}: {why}", Shown { call, program, answer }) }
}
/// A call with its operands, for people.
struct Shown<'a> {
    call: &'a ProgramCall,
    program: &'a TorchProgram,
    answer: &'a TorchAnswer,
}
impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args: Vec<String> = self.call.args.iter().map(|arg| self.arg(arg)).collect();
        write!(f, "{} of {}", self.call.torch, args.join(", "))
    }
}
impl Shown<'_> {
    fn arg(&self, arg: &ProgramArg) -> String {
        match arg {
            ProgramArg::Input(k) => self.program.inputs.get(*k).map_or_else(|| "?".into(), typed),
            ProgramArg::Result(k, n) => match self.answer.calls.get(*k) {
                Some(Answered::Given { outputs, .. }) => outputs.get(*n).map_or_else(|| "?".into(), |o| typed(&o.value)),
                _ => "?".into(),
            },
            ProgramArg::List(all) => format!("[{}]", all.iter().map(|a| self.arg(a)).collect::<Vec<_>>().join(", ")),
            ProgramArg::Index(items) => format!("[{}]", items.iter().map(|i| self.item(i)).collect::<Vec<_>>().join(", ")),
            ProgramArg::Flag(b) => b.to_string(),
            ProgramArg::Int(n) => n.to_string(),
            ProgramArg::Real(v) => format!("{v:?}"),
            ProgramArg::Ints(all) => format!("{all:?}"),
            ProgramArg::All => "all axes".into(),
            ProgramArg::Dtype(name) | ProgramArg::Word(name) => name.clone(),
        }
    }
    fn item(&self, item: &ProgramItem) -> String {
        let bound = |n: &Option<i64>| n.map_or_else(String::new, |n| n.to_string());
        match item {
            ProgramItem::At(n) => n.to_string(),
            ProgramItem::Slice(start, end, step) => format!("{}:{}:{step}", bound(start), bound(end)),
            ProgramItem::Ellipsis => "...".into(),
            ProgramItem::NewAxis => "None".into(),
            ProgramItem::Value(arg) => self.arg(arg),
        }
    }
}
/// A value's type, with the elements if they are few.
fn typed(stored: &StoredArray) -> String {
    let few = stored.array().ok().filter(|a| a.len() <= 12);
    let elements = few.map_or_else(String::new, |a| format!(" {:?}", (0..a.len()).map(|k| a.scalar(k).to_f64()).collect::<Vec<_>>()));
    format!("{}{:?}{elements}", stored.dtype, stored.shape)
}
