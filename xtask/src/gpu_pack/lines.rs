//! One figure in a line: `NAME figure unit target passed|FAILED (why)|not run (why)`. What was not run is never passed.
//! Must not know which figures there are.
use std::fmt;

/// What is asked of a figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FigureTarget {
    /// nothing: it is told
    Told,
    AtLeast(f64),
    AtMost(f64),
}
impl FigureTarget {
    /// Is a figure as it should be? NaN never is.
    pub fn is_met(self, figure: f64) -> bool {
        match self {
            FigureTarget::Told => !figure.is_nan(),
            FigureTarget::AtLeast(least) => figure >= least,
            FigureTarget::AtMost(most) => figure <= most,
        }
    }
    fn parse(text: &str) -> Option<FigureTarget> {
        let number = |sign| text.strip_prefix(sign).and_then(|n: &str| n.parse::<f64>().ok());
        match text {
            "-" => Some(FigureTarget::Told),
            _ => number(">=").map(FigureTarget::AtLeast).or_else(|| number("<=").map(FigureTarget::AtMost)),
        }
    }
}
impl fmt::Display for FigureTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FigureTarget::Told => f.write_str("-"),
            FigureTarget::AtLeast(least) => write!(f, ">={least}"),
            FigureTarget::AtMost(most) => write!(f, "<={most}"),
        }
    }
}
/// How it stands with a figure.
#[derive(Clone, PartialEq, Debug)]
pub enum FigureVerdict {
    Passed,
    /// with a reason, or with none where the figure itself is it
    Failed(String),
    NotRun(String),
}
impl fmt::Display for FigureVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FigureVerdict::Passed => f.write_str("passed"),
            FigureVerdict::Failed(why) if why.is_empty() => f.write_str("FAILED"),
            FigureVerdict::Failed(why) => write!(f, "FAILED ({why})"),
            FigureVerdict::NotRun(why) => write!(f, "not run ({why})"),
        }
    }
}
/// A line.
#[derive(Clone, PartialEq, Debug)]
pub struct FigureLine {
    /// without white space
    pub name: String,
    /// none where there is none
    pub figure: Option<f64>,
    pub unit: String,
    pub target: FigureTarget,
    pub verdict: FigureVerdict,
}
impl FigureLine {
    /// A figure, and whether it is as it should be.
    pub fn of(name: &str, figure: f64, unit: &str, target: FigureTarget) -> FigureLine {
        let verdict = if target.is_met(figure) { FigureVerdict::Passed } else { FigureVerdict::Failed(String::new()) };
        FigureLine { name: name.into(), figure: Some(figure), unit: unit.into(), target, verdict }
    }
    /// Without a figure.
    pub fn without(name: &str, unit: &str, target: FigureTarget, verdict: FigureVerdict) -> FigureLine {
        FigureLine { name: name.into(), figure: None, unit: unit.into(), target, verdict }
    }
    /// The line of a text; none where it is no such line, whole.
    pub fn parse(text: &str) -> Option<FigureLine> {
        let mut words = text.trim_end().splitn(5, ' ');
        let mut word = || words.next().filter(|w| !w.is_empty());
        let (name, figure, unit, target, verdict) = (word()?, word()?, word()?, word()?, word()?);
        let figure = if figure == "-" { None } else { Some(figure.parse().ok()?) };
        let reason = |of: &str| verdict.strip_prefix(of)?.strip_prefix(" (")?.strip_suffix(')').map(str::to_string);
        let verdict = match verdict {
            // Without a figure nothing has passed.
            "passed" if figure.is_some() => FigureVerdict::Passed,
            "FAILED" => FigureVerdict::Failed(String::new()),
            _ => reason("FAILED").map(FigureVerdict::Failed).or_else(|| reason("not run").map(FigureVerdict::NotRun))?,
        };
        Some(FigureLine { name: name.into(), figure, unit: unit.into(), target: FigureTarget::parse(target)?, verdict })
    }
}
impl fmt::Display for FigureLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figure = match self.figure {
            None => "-".to_string(),
            Some(x) if x == 0.0 || (0.01..1e7).contains(&x.abs()) => format!("{}", (x * 1000.0).round() / 1000.0),
            Some(x) => format!("{x:.3e}"),
        };
        write!(f, "{} {figure} {} {} {}", self.name, self.unit, self.target, self.verdict.to_string().replace('\n', " "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_read_as_another() {
        let told = FigureTarget::Told;
        for line in [
            FigureLine::of("a/torch", 0.98, "x", FigureTarget::AtLeast(0.97)),
            FigureLine::of("a", 0.96, "x", FigureTarget::AtLeast(0.97)),
            FigureLine::of("error", 3.5e-7, "-", FigureTarget::AtMost(1e-6)),
            FigureLine::of("nan", f64::NAN, "GB/s", told),
            FigureLine::without("b", "GB/s", told, FigureVerdict::NotRun("no PyTorch (of a card)".into())),
            FigureLine::without("c", "-", told, FigureVerdict::Failed("it ended with code 3".into())),
        ] {
            let read = FigureLine::parse(&line.to_string()).unwrap_or_else(|| panic!("{line}"));
            // NaN is no equal of itself.
            assert_eq!(format!("{read:?}"), format!("{line:?}"));
            let passes = ["a/torch", "error"].contains(&line.name.as_str());
            assert_eq!(line.verdict == FigureVerdict::Passed, passes, "{line}");
        }
    }
    #[test]
    fn text_that_is_taken_for_a_figure() {
        for text in [
            "",
            "a",
            "a 1 x >=0.97",
            "a 1 x >=0.97 pass",
            "a 1 x >=0.97 passed too",
            "a 1 x >=0.97 not run",
            "a - x >=0.97 passed",
            "a one x - passed",
            "a 1 x 0.97 passed",
            "a 1 x >= passed",
            "a  1 x - passed",
            "== stage a begins",
        ] {
            assert_eq!(FigureLine::parse(text), None, "{text}");
        }
    }
}
