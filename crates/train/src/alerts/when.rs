//! When a rule is met: a small closed set of conditions, as a description writes them.
//!
//! | text | a line of the metric meets it where its value |
//! |---|---|
//! | `> 10`, `>= 10`, `< 0.1`, `<= 0.1` | is so; NaN never is |
//! | `nonfinite` | is NaN or an infinity |
//! | `rises by 50% over 100 steps`, `falls by ...` | is more than that above (below) the mean of the finite values in the 100 steps before |
//! | `50% above the least`, `10% below the most` | is more than that above (below) the least (most) finite value so far |
//! | `no improvement for 500 steps` | was last better than all before it so many steps ago, or more |
//!
//! Percentages are of the absolute value of what is compared with.
use crate::{Failure, config::check::nearest, failure::shown};
use std::{fmt, str::FromStr};

/// The most steps that a condition looks back over.
const MOST_STEPS: u64 = 1 << 53;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum AlertWhen {
    /// above a number
    Above(f64),
    /// at a number or above
    AtLeast(f64),
    /// below a number
    Below(f64),
    /// at a number or below
    AtMost(f64),
    /// NaN or an infinity
    NonFinite,
    /// above the mean of the steps before
    Rises {
        /// by more than so much of it
        percent: f64,
        /// how many steps
        steps: u64,
    },
    /// below the mean of the steps before
    Falls {
        /// by more than so much of it
        percent: f64,
        /// how many steps
        steps: u64,
    },
    /// above the least value so far
    AboveLeast {
        /// by more than so much of it
        percent: f64,
    },
    /// below the largest value so far
    BelowMost {
        /// by more than so much of it
        percent: f64,
    },
    /// no value was better than all before it
    NoImprovement {
        /// for so many steps
        steps: u64,
    },
}
impl AlertWhen {
    /// What is wrong with its numbers?
    pub(super) fn check(self) -> Result<(), String> {
        let (percent, steps) = match self {
            AlertWhen::Above(x) | AlertWhen::AtLeast(x) | AlertWhen::Below(x) | AlertWhen::AtMost(x) if !x.is_finite() => {
                return Err(format!("values are compared with a finite number, not with {x}; `nonfinite` is a condition of its own"));
            }
            AlertWhen::Above(_) | AlertWhen::AtLeast(_) | AlertWhen::Below(_) | AlertWhen::AtMost(_) | AlertWhen::NonFinite => return Ok(()),
            AlertWhen::Rises { percent, steps } | AlertWhen::Falls { percent, steps } => (percent, steps),
            AlertWhen::AboveLeast { percent } | AlertWhen::BelowMost { percent } => (percent, 1),
            AlertWhen::NoImprovement { steps } => (1.0, steps),
        };
        if !(percent.is_finite() && percent > 0.0) {
            return Err(format!("a share is a finite number of percent above 0, not {percent}"));
        }
        if !(1..=MOST_STEPS).contains(&steps) {
            return Err(format!("steps are counted from 1 to {MOST_STEPS}"));
        }
        Ok(())
    }
}
impl fmt::Display for AlertWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = |steps: u64| if steps == 1 { "step" } else { "steps" };
        match *self {
            AlertWhen::Above(x) => write!(f, "> {x}"),
            AlertWhen::AtLeast(x) => write!(f, ">= {x}"),
            AlertWhen::Below(x) => write!(f, "< {x}"),
            AlertWhen::AtMost(x) => write!(f, "<= {x}"),
            AlertWhen::NonFinite => f.write_str("nonfinite"),
            AlertWhen::Rises { percent, steps } => write!(f, "rises by {percent}% over {steps} {}", unit(steps)),
            AlertWhen::Falls { percent, steps } => write!(f, "falls by {percent}% over {steps} {}", unit(steps)),
            AlertWhen::AboveLeast { percent } => write!(f, "{percent}% above the least"),
            AlertWhen::BelowMost { percent } => write!(f, "{percent}% below the most"),
            AlertWhen::NoImprovement { steps } => write!(f, "no improvement for {steps} {}", unit(steps)),
        }
    }
}
impl FromStr for AlertWhen {
    type Err = Failure;
    /// ```
    /// use adamant_train::alerts::AlertWhen;
    /// assert_eq!("rises by 50% over 100 steps".parse::<AlertWhen>()?, AlertWhen::Rises { percent: 50.0, steps: 100 });
    /// assert!("rise by 50%".parse::<AlertWhen>().is_err());
    /// # Ok::<(), adamant_train::Failure>(())
    /// ```
    fn from_str(text: &str) -> Result<AlertWhen, Failure> {
        let refuse = |what: String| Failure::Usage(what);
        let when = read(text).ok_or_else(|| refuse(unknown(text)))?;
        when.check().map_err(refuse)?;
        Ok(when)
    }
}
fn read(text: &str) -> Option<AlertWhen> {
    let text = text.trim();
    let compared: [(&str, fn(f64) -> AlertWhen); 4] = [(">=", AlertWhen::AtLeast), ("<=", AlertWhen::AtMost), (">", AlertWhen::Above), ("<", AlertWhen::Below)];
    for (sign, of) in compared {
        if let Some(rest) = text.strip_prefix(sign) {
            return rest.trim().parse().ok().map(of);
        }
    }
    let share = |word: &str| word.strip_suffix('%')?.parse::<f64>().ok();
    let count = |word: &str| word.parse::<u64>().ok();
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["nonfinite"] => Some(AlertWhen::NonFinite),
        ["rises", "by", percent, "over", steps, "step" | "steps"] => Some(AlertWhen::Rises { percent: share(percent)?, steps: count(steps)? }),
        ["falls", "by", percent, "over", steps, "step" | "steps"] => Some(AlertWhen::Falls { percent: share(percent)?, steps: count(steps)? }),
        [percent, "above", "the", "least"] => Some(AlertWhen::AboveLeast { percent: share(percent)? }),
        [percent, "below", "the", "most"] => Some(AlertWhen::BelowMost { percent: share(percent)? }),
        ["no", "improvement", "for", steps, "step" | "steps"] => Some(AlertWhen::NoImprovement { steps: count(steps)? }),
        _ => None,
    }
}
/// One of each.
const EXAMPLES: [&str; 9] = [
    "> 10",
    ">= 10",
    "< 0.1",
    "<= 0.1",
    "nonfinite",
    "rises by 50% over 100 steps",
    "falls by 50% over 100 steps",
    "50% above the least",
    "no improvement for 500 steps",
];
fn unknown(text: &str) -> String {
    let hint = match nearest(text, EXAMPLES) {
        Some(near) => format!("did you mean as in `{near}`?"),
        None => format!("there are {}, 10% below the most", EXAMPLES.join(", ")),
    };
    format!("`{}` is no condition; {hint}", shown(text))
}
