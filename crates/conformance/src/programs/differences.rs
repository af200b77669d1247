//! Where we answer otherwise than PyTorch on purpose, each with a name and a reason.
use super::{
    Answered, Call,
    replay::{Difference, Outcome, Resolved, tensors},
};
use adamant_core::{DType, HostArray};

/// A call that compares unequal.
pub struct Case<'a> {
    /// the call
    pub call: &'a Call,
    /// its arguments
    pub args: &'a [Resolved],
    /// how it differs
    pub difference: Difference,
    /// what it gave here
    pub outcome: &'a Outcome,
    /// what it gave there
    pub answered: &'a Answered,
}
impl Case<'_> {
    /// The function's name without its namespace.
    pub fn short(&self) -> &str {
        self.call.name.rsplit("::").next().unwrap_or_default()
    }
    fn tensors(&self) -> Vec<&HostArray> {
        tensors(self.args)
    }
    fn any(&self, what: impl Fn(DType) -> bool) -> bool {
        self.tensors().iter().any(|a| what(a.dtype))
    }
    fn mixed(&self) -> bool {
        self.tensors().windows(2).any(|w| w[0].dtype != w[1].dtype)
    }
    fn said(&self, what: &str) -> bool {
        matches!(self.answered, Answered::Refused(why) if why.contains(what))
    }
}
/// A line of the table.
pub struct Line {
    /// its name, by which it is counted
    pub name: &'static str,
    /// why we differ
    pub reason: &'static str,
    /// the functions it holds for; empty: all
    pub functions: &'static str,
    /// does it hold for this call?
    pub holds: fn(&Case<'_>) -> bool,
}
/// The name of the first line that holds.
pub fn name(case: &Case<'_>) -> Option<&'static str> {
    LINES
        .iter()
        .find(|line| (line.functions.is_empty() || line.functions.split(' ').any(|f| f == case.short())) && (line.holds)(case))
        .map(|line| line.name)
}

/// The table.
pub const LINES: &[Line] = &[
    Line {
        name: "no kernel there",
        reason: "PyTorch has not implemented the function for the dtype on its CPU; here it is defined",
        functions: "",
        holds: |c| c.difference == Difference::RefusedThere && (c.said("not implemented for") || c.said("not supported for")),
    },
];
/// Are two dtypes mixed among the tensors? For lines to come.
#[doc(hidden)]
pub fn mixes(case: &Case<'_>) -> bool {
    case.mixed() && case.any(DType::is_float)
}
