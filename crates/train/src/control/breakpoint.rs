//! Where a run is to stop: before a step, or behind ops that are meant.
use crate::failure::shown;
use adamant_nn::glob_matches;
use adamant_stability::{NumberStats, StepPhase, VisitedOp, VisitedValues};
use serde::{Serialize, Serializer};
use std::{fmt, str::FromStr};

/// What is asked of the numbers of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NumberCondition {
    /// one is NaN or infinite
    NonFinite,
    /// one is NaN
    Nan,
    /// one is infinite
    Inf,
    /// a figure of theirs is compared with a number; where there is no such figure, it does not hold
    Compared(NumberFigure, FigureComparison, f64),
}
/// A figure of a value's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberFigure {
    /// the largest absolute value; infinite where an element is
    AbsMax,
    /// the largest finite element
    Most,
    /// the least finite element
    Least,
    /// the mean of the finite elements
    Mean,
    /// their standard deviation
    Std,
    /// the share of elements that are 0
    Zeros,
}
/// How two numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureComparison {
    /// >
    Above,
    /// >=
    AtLeast,
    /// <
    Below,
    /// <=
    AtMost,
}
const FIGURES: [(NumberFigure, &str); 6] = [
    (NumberFigure::AbsMax, "absmax"),
    (NumberFigure::Most, "max"),
    (NumberFigure::Least, "min"),
    (NumberFigure::Mean, "mean"),
    (NumberFigure::Std, "std"),
    (NumberFigure::Zeros, "zeros"),
];
/// Those of two signs first: one of them begins the other.
const COMPARISONS: [(FigureComparison, &str); 4] =
    [(FigureComparison::AtLeast, ">="), (FigureComparison::AtMost, "<="), (FigureComparison::Above, ">"), (FigureComparison::Below, "<")];
impl NumberCondition {
    /// Does it hold for numbers that are like this?
    ///
    /// ```
    /// use adamant_stability::NumberStats;
    /// use adamant_train::control::NumberCondition;
    /// let condition: NumberCondition = "absmax > 1e4".parse()?;
    /// assert!(condition.holds(&NumberStats::of_numbers(&[1.0, -2e4])));
    /// assert!(!condition.holds(&NumberStats::of_numbers(&[1.0, f64::NAN])));
    /// # Ok::<(), String>(())
    /// ```
    pub fn holds(&self, numbers: &NumberStats) -> bool {
        match self {
            NumberCondition::NonFinite => numbers.non_finite > 0,
            NumberCondition::Nan => numbers.nan > 0,
            NumberCondition::Inf => numbers.non_finite > numbers.nan,
            NumberCondition::Compared(figure, comparison, to) => {
                let figure = match figure {
                    NumberFigure::AbsMax => numbers.absmax(),
                    NumberFigure::Most => numbers.most,
                    NumberFigure::Least => numbers.least,
                    NumberFigure::Mean => numbers.mean,
                    NumberFigure::Std => numbers.std,
                    NumberFigure::Zeros => (numbers.elements > 0).then(|| numbers.zeros as f64 / numbers.elements as f64),
                };
                figure.is_some_and(|figure| match comparison {
                    FigureComparison::Above => figure > *to,
                    FigureComparison::AtLeast => figure >= *to,
                    FigureComparison::Below => figure < *to,
                    FigureComparison::AtMost => figure <= *to,
                })
            }
        }
    }
}
impl FromStr for NumberCondition {
    type Err = String;
    fn from_str(text: &str) -> Result<NumberCondition, String> {
        let refuse = || {
            let figures: Vec<&str> = FIGURES.iter().map(|(_, name)| *name).collect();
            format!(
                "`{}` is no condition: take `nonfinite`, `nan`, `inf`, or one of {} with >, >=, <, <= and a number, as in `absmax > 1e4`",
                shown(text),
                figures.join(", ")
            )
        };
        match text.trim() {
            "nonfinite" => return Ok(NumberCondition::NonFinite),
            "nan" => return Ok(NumberCondition::Nan),
            "inf" => return Ok(NumberCondition::Inf),
            _ => {}
        }
        let (comparison, sign) = COMPARISONS.into_iter().find(|(_, sign)| text.contains(sign)).ok_or_else(refuse)?;
        let (figure, number) = text.split_once(sign).ok_or_else(refuse)?;
        let figure = FIGURES.into_iter().find(|(_, name)| *name == figure.trim()).map(|(figure, _)| figure).ok_or_else(refuse)?;
        let number = number.trim().parse::<f64>().ok().filter(|v| !v.is_nan()).ok_or_else(refuse)?;
        Ok(NumberCondition::Compared(figure, comparison, number))
    }
}
impl fmt::Display for NumberCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NumberCondition::NonFinite => f.write_str("nonfinite"),
            NumberCondition::Nan => f.write_str("nan"),
            NumberCondition::Inf => f.write_str("inf"),
            NumberCondition::Compared(figure, comparison, to) => {
                let figure = FIGURES.iter().find(|(of, _)| of == figure).map_or("", |(_, name)| name);
                let sign = COMPARISONS.iter().find(|(of, _)| of == comparison).map_or("", |(_, sign)| sign);
                write!(f, "{figure} {sign} {to:?}")
            }
        }
    }
}

/// Where a run stops. All that is given must hold. With nothing but a step it stops before that step; else behind an op.
///
/// A breakpoint that names no op and no condition stops where the run enters a layer; one that has a condition looks at gradients too, others do
/// where their phase is `backward`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Breakpoint {
    /// a step, from 1
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// layers whose path matches
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// ops, or functions of several ops, whose name matches
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// a part of the step
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "phase_name")]
    pub phase: Option<StepPhase>,
    /// what the numbers that the op gave, or its rule made of gradients, are like
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "condition_text")]
    pub when: Option<NumberCondition>,
}
fn phase_name<S: Serializer>(phase: &Option<StepPhase>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(phase.map_or("", StepPhase::name))
}
fn condition_text<S: Serializer>(when: &Option<NumberCondition>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&when.map_or_else(String::new, |when| when.to_string()))
}
/// A part of a step in which there are ops, by its name.
pub(super) fn phase_of(text: &str) -> Result<StepPhase, String> {
    const PHASES: [StepPhase; 5] = [StepPhase::Forward, StepPhase::Loss, StepPhase::Backward, StepPhase::Clip, StepPhase::Optimizer];
    PHASES.into_iter().find(|phase| phase.name() == text).ok_or_else(|| {
        let names = PHASES.map(StepPhase::name);
        format!("`{}` is no part of a step with ops: {}", shown(text), names.join(", "))
    })
}
impl Breakpoint {
    /// Does it stop before this step?
    pub(crate) fn is_before(&self, step: u64) -> bool {
        self.step == Some(step) && !self.is_of_ops()
    }
    /// Must the ops of this step be looked at for it?
    pub(crate) fn looks_into(&self, step: u64) -> bool {
        self.is_of_ops() && self.step.is_none_or(|of| of == step)
    }
    fn is_of_ops(&self) -> bool {
        self.layer.is_some() || self.op.is_some() || self.phase.is_some() || self.when.is_some()
    }
    /// Does it stop behind this op of a step that it looks into? `before` is the layer of the op that was applied before.
    pub(crate) fn meets(&self, seen: &VisitedOp, before: Option<&str>, numbers: &mut dyn FnMut() -> Vec<NumberStats>) -> bool {
        let matches = |glob: &Option<String>, texts: &[&str]| glob.as_ref().is_none_or(|glob| texts.iter().any(|text| glob_matches(glob, text)));
        let is_gradient = seen.shows != VisitedValues::Results;
        let looks_at_gradients = self.phase == Some(StepPhase::Backward) || (self.phase.is_none() && self.when.is_some());
        let op = &seen.op;
        if (is_gradient && !looks_at_gradients) || self.phase.is_some_and(|phase| phase != op.phase) {
            return false;
        }
        if !matches(&self.layer, &[&op.layer]) || !matches(&self.op, &[op.name(), op.op, op.called.unwrap_or_default()]) {
            return false;
        }
        match self.when {
            Some(when) => numbers().iter().any(|numbers| when.holds(numbers)),
            None if self.op.is_none() && self.layer.is_some() => before != Some(&*op.layer),
            None => true,
        }
    }
}
impl fmt::Display for Breakpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.step.map(|step| format!("step {step}")),
            self.layer.as_ref().map(|layer| format!("layer {layer}")),
            self.op.as_ref().map(|op| format!("op {op}")),
            self.phase.map(|phase| format!("phase {phase}")),
            self.when.map(|when| format!("when {when}")),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_condition_that_holds_for_other_numbers_than_it_says() {
        let sets: [&[f64]; 6] = [&[1.0, -3.0, 0.0], &[f64::NAN, 2.0], &[f64::NEG_INFINITY, 1.0], &[f64::NAN], &[], &[5.0]];
        let expected: [(&str, [bool; 6]); 11] = [
            ("nonfinite", [false, true, true, true, false, false]),
            ("nan", [false, true, false, true, false, false]),
            ("inf", [false, false, true, false, false, false]),
            ("absmax > 2", [true, false, true, false, false, true]),
            ("absmax>=2", [true, true, true, false, false, true]),
            ("max < 2", [true, false, true, false, false, false]),
            ("min <= -3", [true, false, false, false, false, false]),
            ("mean < 0", [true, false, false, false, false, false]),
            ("std > 1", [true, false, false, false, false, false]),
            ("zeros > 0.3", [true, false, false, false, false, false]),
            ("absmax > -inf", [true, true, true, false, false, true]),
        ];
        for (text, holds) in expected {
            let condition: NumberCondition = text.parse().unwrap();
            assert_eq!(sets.map(|set| condition.holds(&NumberStats::of_numbers(set))), holds, "{text}");
            assert_eq!(condition.to_string().parse::<NumberCondition>().unwrap(), condition, "{text}");
        }
        for bad in ["", "finite", "absmax", "absmax >", "> 3", "absmx > 3", "absmax > nan", "absmax = 3", "absmax > 3 > 4"] {
            assert!(bad.parse::<NumberCondition>().unwrap_err().contains("is no condition"), "{bad}");
        }
    }
}
