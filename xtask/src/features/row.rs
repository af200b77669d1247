//! A row: what must be seen, the check that looks, and the faults that the check must not let through. What a check saw is
//! a list of parts that failed and of what the machine lacks; its state follows from both, so that what could not be
//! looked at never counts as seen.
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, error::Error, fmt};

/// A check of a promised row.
pub struct RowCheck {
    pub id: &'static str,
    /// what must be seen, in the row's own words and figures
    pub target: &'static str,
    pub cost: CheckCost,
    pub check: fn() -> Checked,
    pub plants: &'static [Plant],
}
/// What a check asks of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckCost {
    /// seconds, whatever else the machine does: part of the slice that runs in CI
    Cheap,
    /// it judges times, which a busy machine spoils
    Clocked,
    /// it builds other programs, or computes for minutes
    Long,
}
/// A fault that can be planted into what a check looks at, and the part of the check that is there to catch it.
pub struct Plant {
    pub fault: &'static str,
    pub part: &'static str,
}
/// A fault and the part that catches it.
pub const fn plant(fault: &'static str, part: &'static str) -> Plant {
    Plant { fault, part }
}
/// What a check has to say. A [`Lacking`] among the errors is no failure.
pub type Checked = Result<Seen, Box<dyn Error>>;

/// Something that a check needs and the machine lacks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(expecting = "struct Missing")]
pub struct Lacking {
    pub what: String,
    /// how it is had
    pub install: Cow<'static, str>,
}
impl Lacking {
    pub fn new(what: impl Into<String>, install: &'static str) -> Lacking {
        Lacking { what: what.into(), install: install.into() }
    }
}
impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not looked at: {} (to have it: {})", self.what, self.install)
    }
}
impl Error for Lacking {}

/// What a check saw.
#[derive(Serialize, Deserialize)]
pub struct Seen {
    pub value: String,
    /// the parts that are not as promised
    pub failed: Vec<String>,
    pub missing: Vec<Lacking>,
}
/// The only part of a check that has one.
const WHOLE: &str = "as promised";
impl Seen {
    pub fn new(pass: bool, value: impl Into<String>) -> Seen {
        Seen::all(&[(WHOLE, pass)], value)
    }
    /// Passes if all parts do.
    pub fn all(parts: &[(&str, bool)], value: impl Into<String>) -> Seen {
        let mut failed: Vec<String> = Vec::new();
        for (name, _) in parts.iter().filter(|(_, pass)| !pass) {
            if !failed.iter().any(|f| f == name) {
                failed.push(name.to_string());
            }
        }
        Seen { value: value.into(), failed, missing: Vec::new() }
    }
    /// With what another part of the check saw.
    pub fn and(mut self, other: Seen) -> Seen {
        self.value = [self.value, other.value].join("; ");
        self.failed.extend(other.failed);
        self.missing.extend(other.missing);
        self
    }
    /// What could not be looked at.
    pub fn lacking(mut self, missing: impl IntoIterator<Item = Lacking>) -> Seen {
        self.missing.extend(missing);
        self
    }
    pub fn state(&self) -> RowState {
        match (&self.failed[..], &self.missing[..]) {
            ([], []) => RowState::Passed,
            ([], _) => RowState::Skipped,
            _ => RowState::Failed,
        }
    }
    /// The value, and in words what failed and what is missing.
    pub fn told(&self) -> String {
        let mut told = self.value.clone();
        if !self.failed.is_empty() {
            told += &format!("; not so: {}", self.failed.join("; "));
        }
        for missing in &self.missing {
            told += &format!("{}{missing}", if told.is_empty() { "" } else { "; " });
        }
        told
    }
}
/// What became of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RowState {
    Passed,
    Failed,
    /// nothing failed, but the machine lacks what a part of the check needs
    Skipped,
    /// promised, and without a check
    Absent,
}
impl RowState {
    pub const ALL: [RowState; 4] = [RowState::Passed, RowState::Failed, RowState::Skipped, RowState::Absent];
    pub fn word(self) -> &'static str {
        match self {
            RowState::Passed => "passed",
            RowState::Failed => "failed",
            RowState::Skipped => "skipped",
            RowState::Absent => "absent",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_failed_and_is_not_named_or_a_lack_that_passes() {
        let lack = || Lacking::new("OpenBLAS", "apt-get install libopenblas-dev");
        for (seen, state, told) in [
            (Seen::all(&[("right", true)], "3"), RowState::Passed, "3"),
            (Seen::all(&[("right", true), ("the count", false), ("the count", false)], "3"), RowState::Failed, "3; not so: the count"),
            (
                Seen::all(&[("right", true)], "3").lacking([lack()]),
                RowState::Skipped,
                "3; not looked at: OpenBLAS (to have it: apt-get install libopenblas-dev)",
            ),
            (
                Seen::new(false, "").lacking([lack()]),
                RowState::Failed,
                "; not so: as promised; not looked at: OpenBLAS (to have it: apt-get install libopenblas-dev)",
            ),
        ] {
            assert_eq!((seen.state(), &*seen.told()), (state, told));
        }
    }
}
