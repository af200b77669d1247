//! What came of a run of the script: every figure that was asked for, passed only where its stage ended in time and well, said it, and
//! said what is asked. Must not know how figures are had.
use super::{
    lines::{FigureLine, FigureVerdict},
    stages::{AskedFigure, STAGES, WHOLE},
};
use std::collections::BTreeMap;

/// The whole of a run.
#[derive(Debug)]
pub struct JudgedPack {
    /// each figure that was asked for, and others that failed
    pub lines: Vec<FigureLine>,
}
impl JudgedPack {
    /// Passed, failed and not run.
    pub fn counts(&self) -> [usize; 3] {
        let of = |kind: fn(&FigureVerdict) -> bool| self.lines.iter().filter(|line| kind(&line.verdict)).count();
        [of(|v| *v == FigureVerdict::Passed), of(|v| matches!(v, FigureVerdict::Failed(_))), of(|v| matches!(v, FigureVerdict::NotRun(_)))]
    }
}
/// What the script wrote of a stage.
#[derive(Default)]
struct SeenStage<'t> {
    limit: Option<f64>,
    /// the code and the seconds
    end: Option<(i32, f64)>,
    lines: Vec<&'t str>,
}
impl SeenStage<'_> {
    /// Why nothing that it says counts.
    fn fault(&self) -> Option<String> {
        match (self.end, self.limit) {
            (None, _) => Some("its stage did not end".into()),
            // `timeout` ends so, and what it had to kill.
            (Some((124 | 137, seconds)), _) => Some(format!("its stage was ended after {seconds} s")),
            (Some((_, seconds)), Some(limit)) if seconds > limit => Some(format!("its stage took {seconds} s of {limit}")),
            // 11: something was not run, and says so itself.
            (Some((0 | 11, _)), Some(_)) => None,
            (Some(_), None) => Some("its stage has no limit".into()),
            (Some((code, _)), _) => Some(format!("its stage ended with code {code}")),
        }
    }
}
/// Of the text that the script wrote.
pub fn judge(text: &str) -> JudgedPack {
    let (mut seen, mut at, mut emulated, mut whole) = (BTreeMap::<&str, SeenStage<'_>>::new(), None, false, None);
    for line in text.lines() {
        let Some(note) = line.strip_prefix("== ") else {
            if let Some(stage) = at.and_then(|name| seen.get_mut(name)) {
                stage.lines.push(line);
            }
            continue;
        };
        match note.split([' ', ',']).filter(|word| !word.is_empty()).collect::<Vec<_>>()[..] {
            ["pack", "emulated", ..] => emulated = true,
            ["stage", name, "begins", "limit", limit, ..] => {
                at = Some(name);
                seen.entry(name).or_default().limit = limit.parse().ok();
            }
            ["stage", name, "ends", "code", code, "after", seconds, ..] => {
                at = None;
                seen.entry(name).or_default().end = code.parse().ok().zip(seconds.parse().ok());
            }
            ["whole", "ends", "after", seconds, ..] => whole = seconds.parse::<f64>().ok(),
            _ => {}
        }
    }
    let mut lines = Vec::new();
    for stage in STAGES {
        let found = seen.get(stage.name);
        lines.extend(stage.figures.iter().map(|asked| judged(asked, found, emulated)));
        // What nobody asked for, and failed all the same.
        let more = found.into_iter().flat_map(|s| &s.lines).filter_map(|text| FigureLine::parse(text));
        lines.extend(more.filter(|line| !stage.figures.iter().any(|f| f.name == line.name) && matches!(line.verdict, FigureVerdict::Failed(_))));
    }
    let most = super::lines::FigureTarget::AtMost(f64::from(WHOLE));
    if let Some(seconds) = whole.filter(|_| !emulated) {
        lines.push(FigureLine::of("whole", seconds, "s", most));
    }
    JudgedPack { lines }
}
fn judged(asked: &AskedFigure, stage: Option<&SeenStage<'_>>, emulated: bool) -> FigureLine {
    let without = |verdict| FigureLine::without(asked.name, asked.unit, asked.target, verdict);
    let Some(stage) = stage else { return without(FigureVerdict::NotRun("its stage was not begun".into())) };
    let named = |text: &&&str| text.split(' ').next() == Some(asked.name);
    let said: Vec<Option<FigureLine>> = stage.lines.iter().filter(named).map(|text| FigureLine::parse(text)).collect();
    let Some(last) = said.last() else {
        return without(FigureVerdict::Failed(stage.fault().unwrap_or_else(|| "its stage said nothing of it".into())));
    };
    // The worst of what was said of it.
    let failed = said.iter().flatten().find(|line| matches!(line.verdict, FigureVerdict::Failed(_)));
    let not_run = said.iter().flatten().find(|line| matches!(line.verdict, FigureVerdict::NotRun(_)));
    if said.iter().any(Option::is_none) {
        return without(FigureVerdict::Failed("what was said of it is no line".into()));
    }
    if let Some(line) = failed {
        return line.clone();
    }
    if let Some(why) = stage.fault() {
        return without(FigureVerdict::Failed(why));
    }
    if let Some(line) = not_run {
        return line.clone();
    }
    let Some(line) = last else { return without(FigureVerdict::Failed("what was said of it is no line".into())) };
    if emulated && asked.of_cards {
        return without(FigureVerdict::Failed("an emulated card has no such figure".into()));
    }
    if line.target != asked.target || line.unit != asked.unit {
        return without(FigureVerdict::Failed(format!("it was held to {} {}", line.target, line.unit)));
    }
    match line.figure {
        Some(figure) if asked.target.is_met(figure) => line.clone(),
        _ => FigureLine { verdict: FigureVerdict::Failed("it misses what is asked".into()), ..line.clone() },
    }
}

#[cfg(test)]
#[path = "judged/tests.rs"]
mod tests;
