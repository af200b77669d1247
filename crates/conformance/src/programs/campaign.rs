//! What many programs found: counts, the differences by name, what each function was asked and answered.
use super::{
    Answer, Answered, Arg, Call, Item, Program, Stored, differences,
    replay::{Compared, Difference, Flowed, Verdict},
    table::Function,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// How often a function's calls ended how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
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
/// A difference without a name.
#[derive(Clone, Debug)]
pub struct Failure {
    /// which program
    pub program: usize,
    /// which call of it
    pub call: usize,
    /// the function
    pub name: String,
    /// how it differs
    pub difference: Difference,
    /// the call with its operands, and both answers
    pub text: String,
}
/// All that was found.
#[derive(Clone, Debug, Default)]
pub struct Campaign {
    /// programs
    pub programs: usize,
    /// by function
    pub ends: BTreeMap<String, Ends>,
    /// differences by name
    pub named: BTreeMap<&'static str, usize>,
    /// those without a name
    pub failures: Vec<Failure>,
    /// calls whose gradients were compared
    pub gradients: usize,
    /// runs with our own results as operands
    pub flowed: Flowed,
}
impl Campaign {
    /// Adds a program.
    pub fn add(&mut self, program: &Program, answer: &Answer, compared: &Compared, flowed: Flowed) {
        self.programs += 1;
        self.gradients += compared.gradients;
        self.flowed.near += flowed.near;
        self.flowed.drifted += flowed.drifted;
        self.flowed.gradients += flowed.gradients;
        self.flowed.wrong_gradients += flowed.wrong_gradients;
        for (k, (call, verdict)) in program.calls.iter().zip(&compared.verdicts).enumerate() {
            let ends = self.ends.entry(call.name.clone()).or_default();
            match verdict {
                Verdict::Same => ends.same += 1,
                Verdict::BothRefused => ends.refused += 1,
                Verdict::Skipped => ends.skipped += 1,
                Verdict::Unknown => ends.unknown += 1,
                Verdict::Named(name) => {
                    ends.named += 1;
                    *self.named.entry(name).or_default() += 1;
                }
                Verdict::Differs(difference, why) => {
                    ends.differs += 1;
                    let text = format!("{}: {why}", Shown { call, program, answer });
                    self.failures.push(Failure { program: program.number, call: k, name: call.name.clone(), difference: *difference, text });
                }
            }
        }
    }
    /// The sum over all functions.
    pub fn total(&self) -> Ends {
        self.ends.values().fold(Ends::default(), |mut sum, e| {
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
    pub fn never<'a>(&self, functions: &'a [Function]) -> BTreeSet<&'a str> {
        functions.iter().map(|f| f.name.as_str()).filter(|name| !self.ends.contains_key(*name)).collect()
    }
    /// Lines of the table of differences that held for no call.
    pub fn unused(&self) -> Vec<&'static str> {
        differences::LINES.iter().map(|l| l.name).filter(|name| !self.named.contains_key(name)).collect()
    }
}
/// A call with its operands, for people.
struct Shown<'a> {
    call: &'a Call,
    program: &'a Program,
    answer: &'a Answer,
}
impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args: Vec<String> = self.call.args.iter().map(|arg| self.arg(arg)).collect();
        write!(f, "{} of {}", self.call.torch, args.join(", "))
    }
}
impl Shown<'_> {
    fn arg(&self, arg: &Arg) -> String {
        match arg {
            Arg::Input(k) => self.program.inputs.get(*k).map_or_else(|| "?".into(), typed),
            Arg::Result(k, n) => match self.answer.calls.get(*k) {
                Some(Answered::Given { outputs, .. }) => outputs.get(*n).map_or_else(|| "?".into(), |o| typed(&o.value)),
                _ => "?".into(),
            },
            Arg::List(all) => format!("[{}]", all.iter().map(|a| self.arg(a)).collect::<Vec<_>>().join(", ")),
            Arg::Index(items) => format!("[{}]", items.iter().map(|i| self.item(i)).collect::<Vec<_>>().join(", ")),
            Arg::Flag(b) => b.to_string(),
            Arg::Int(n) => n.to_string(),
            Arg::Real(v) => format!("{v:?}"),
            Arg::Ints(all) => format!("{all:?}"),
            Arg::All => "all axes".into(),
            Arg::Dtype(name) | Arg::Word(name) => name.clone(),
        }
    }
    fn item(&self, item: &Item) -> String {
        let bound = |n: &Option<i64>| n.map_or_else(String::new, |n| n.to_string());
        match item {
            Item::At(n) => n.to_string(),
            Item::Slice(start, end, step) => format!("{}:{}:{step}", bound(start), bound(end)),
            Item::Ellipsis => "...".into(),
            Item::NewAxis => "None".into(),
            Item::Value(arg) => self.arg(arg),
        }
    }
}
/// A value's type, with the elements if they are few.
fn typed(stored: &Stored) -> String {
    let few = stored.array().ok().filter(|a| a.len() <= 12);
    let elements = few.map_or_else(String::new, |a| format!(" {:?}", (0..a.len()).map(|k| a.scalar(k).to_f64()).collect::<Vec<_>>()));
    format!("{}{:?}{elements}", stored.dtype, stored.shape)
}
