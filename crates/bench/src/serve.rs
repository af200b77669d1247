//! The side of the pipe that is measured: holds one workload at a time and does what it is asked ([`Ask`]).
//!
//! Invariant: one answer for each line, whatever the line says; it ends when its input does.
use crate::{
    place::BenchPlace,
    protocol::{About, Ask, ChildAnswer, Hello, PROTOCOL},
    sampler::Active,
    suite::Suite,
    workload::{Checked, Problem, Scale, Workload, WorkloadForm},
};
use adamant::schedule::take_stats;
use std::{
    fs,
    io::{self, BufRead, Write},
    time::Duration,
};

/// Answers until the input ends; in a form, where one is asked for.
///
/// # Errors
/// The output is gone.
pub fn serve(suite: &Suite, place: &BenchPlace, form: WorkloadForm, input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut facts = place.facts();
    match form {
        WorkloadForm::Plain => {}
        WorkloadForm::Precision(dtype) => facts.extend([(PRECISION.to_string(), dtype.to_string())]),
        WorkloadForm::Watched(kind) => facts.extend([(STABILITY.to_string(), kind.name().to_string())]),
    }
    let hello = Hello { protocol: PROTOCOL, implementation: suite.implementation.into(), version: env!("CARGO_PKG_VERSION").into(), facts };
    writeln!(output, "{}", serde_json::json!(hello))?;
    output.flush()?;
    let workloads = (suite.workloads)();
    let mut active = None;
    for line in input.lines() {
        let answer = match serde_json::from_str::<Ask>(&line?) {
            Ok(ask) => answer(&workloads, form, &mut active, ask).unwrap_or_else(refusal),
            Err(e) => ChildAnswer { error: Some(format!("not understood: {e}")), ..ChildAnswer::default() },
        };
        writeln!(output, "{}", serde_json::json!(answer))?;
        output.flush()?;
    }
    Ok(())
}
fn refusal(problem: Problem) -> ChildAnswer {
    ChildAnswer { unsupported: problem.is_unsupported(), error: Some(problem.to_string()), ..ChildAnswer::default() }
}
fn answer(workloads: &[Workload], form: WorkloadForm, active: &mut Option<Active>, ask: Ask) -> Checked<ChildAnswer> {
    let prepared = |active: &mut Option<Active>| active.take().ok_or_else(|| Problem::Wrong("nothing is prepared".into()));
    Ok(match ask {
        Ask::List => ChildAnswer { workloads: workloads.iter().map(|w| w.name.clone()).collect(), ..ChildAnswer::default() },
        Ask::Prepare { workload, small, check, repeat } => {
            *active = None;
            let Some(workload) = workloads.iter().find(|w| w.name == workload) else {
                return Ok(ChildAnswer { unsupported: true, error: Some(format!("there is no workload {workload}")), ..ChildAnswer::default() });
            };
            let scale = if small { Scale::SMALL } else { Scale::FULL };
            let built = if check { Active::start_in(workload, scale, form)? } else { Active::unchecked_in(workload, scale, form)? };
            let about = About { dtype: form.precision().map_or_else(|| workload.dtype.into(), |dtype| dtype.to_string()), ..about(workload) };
            let answer = ChildAnswer { worst: built.worst, about: Some(about), ..ChildAnswer::default() };
            *active = Some(built.repeated(repeat.max(1)));
            answer
        }
        Ask::Warm { seconds } => {
            let mut a = prepared(active)?;
            let ns = a.warm_up(Duration::try_from_secs_f64(seconds).unwrap_or_default())?;
            *active = Some(a);
            ChildAnswer { ns: Some(ns), ..ChildAnswer::default() }
        }
        Ask::Sample { calls } => {
            let mut a = prepared(active)?;
            let sample = a.sample(calls.max(1))?;
            *active = Some(a);
            ChildAnswer { ns: Some(sample.ns), waited: sample.waited, ..ChildAnswer::default() }
        }
        Ask::Check => {
            let mut a = prepared(active)?;
            a.check_again()?;
            let worst = a.worst;
            *active = Some(a);
            ChildAnswer { worst, ..ChildAnswer::default() }
        }
        Ask::Values { places } => {
            let mut a = prepared(active)?;
            let values = a.values(&places);
            // A workload that shows nothing can be timed all the same.
            *active = Some(a);
            ChildAnswer { values: values?, ..ChildAnswer::default() }
        }
        Ask::Memory { calls } => {
            let mut a = prepared(active)?;
            let growth = growth(|| a.sample(calls.max(1)).map(|_| ()))?;
            *active = Some(a);
            ChildAnswer { growth, ..ChildAnswer::default() }
        }
        Ask::Plans { calls } => {
            let mut a = prepared(active)?;
            a.sample(2)?;
            let _before = take_stats();
            a.sample(calls.max(1))?;
            let stats = take_stats();
            *active = Some(a);
            let all = stats.hits + stats.resizes + stats.misses;
            ChildAnswer { plan_hits: (all > 0).then(|| stats.hits as f64 / all as f64), ..ChildAnswer::default() }
        }
        Ask::Finish => {
            *active = None;
            ChildAnswer::default()
        }
    })
}
/// The fact that tells the precision, where one was asked for.
pub const PRECISION: &str = "precision";
/// The fact that tells of the watch over numbers, by the name of its kind.
pub const STABILITY: &str = "stability";

/// What the record says of a workload.
pub fn about(workload: &Workload) -> About {
    let (unit, amount) = workload.rate.map(|r| r.parts()).unzip();
    About { group: workload.group, dtype: workload.dtype.into(), elements: workload.elements, unit, amount, intensity: workload.intensity }
}
/// By how many bytes the most that the process held while `f` ran is above what it held before; nothing where the system
/// does not tell, or does not let the peak be forgotten.
fn growth(f: impl FnOnce() -> Checked<()>) -> Checked<Option<u64>> {
    let field = |name: &str| {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|l| l.strip_prefix(name))?;
        line.trim_start_matches(':').trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|k| k << 10)
    };
    let forgotten = fs::write("/proc/self/clear_refs", "5").is_ok();
    let before = field("VmRSS");
    f()?;
    Ok(if forgotten { before.zip(field("VmHWM")).map(|(before, peak)| peak.saturating_sub(before)) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Prepared, WatchKind};
    use adamant::DType;
    use std::io::Cursor;

    fn suite() -> Suite {
        Suite::new(
            "tested",
            || {
                let call = |_: Scale| Ok(Prepared::checked(|| Ok(()), || Ok(0.25)));
                let grows = |_: Scale| {
                    Ok(Prepared::checked(
                        || {
                            let mut block = vec![1u8; 64 << 20];
                            block.iter_mut().step_by(4096).for_each(|b| *b = 2);
                            drop(std::hint::black_box(block));
                            Ok(())
                        },
                        || Ok(0.0),
                    ))
                };
                let watched = |_: Scale, _: WatchKind| Ok(Prepared::checked(|| Ok(()), || Ok(0.75)));
                let low = |_: Scale, _: DType| Ok(Prepared::checked(|| Ok(()), || Ok(0.5)));
                vec![
                    Workload::new("nothing", None, call),
                    Workload::new("grows", None, grows),
                    Workload::new("forms", None, call).with_precision(low).with_watch(watched),
                ]
            },
            &[],
        )
    }
    fn ask(lines: &str) -> Vec<serde_json::Value> {
        ask_in(WorkloadForm::Plain, lines)
    }
    fn ask_in(form: WorkloadForm, lines: &str) -> Vec<serde_json::Value> {
        let mut out = Vec::new();
        serve(&suite(), &BenchPlace::reference(), form, Cursor::new(lines), &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }
    #[test]
    fn a_line_without_an_answer() {
        let said = ask("rubbish\n{\"do\":\"list\"}\n{\"do\":\"sample\",\"calls\":1}\n{\"do\":\"prepare\",\"workload\":\"none\"}\n\
            {\"do\":\"prepare\",\"workload\":\"nothing\"}\n{\"do\":\"warm\",\"seconds\":1e99}\n{\"do\":\"sample\",\"calls\":0}\n{\"do\":\"check\"}\n{\"do\":\"finish\"}\n{\"do\":\"dance\"}\n");
        assert_eq!(said.len(), 11);
        assert_eq!((&said[0]["impl"], &said[0]["protocol"]), (&"tested".into(), &1.into()));
        assert_eq!(said[2]["workloads"][0], "nothing");
        assert_eq!((&said[5]["worst"], said[4]["unsupported"].as_bool()), (&0.25.into(), Some(true)));
        assert!(said[7]["ns"].as_f64().unwrap() > 0.0);
        assert_eq!(said[8]["worst"], 0.25);
        for k in [1, 3, 4, 10] {
            assert!(said[k]["error"].is_string(), "{k}: {}", said[k]);
        }
    }
    #[test]
    fn a_precision_without_a_form_that_is_run_all_the_same() {
        let said = ask_in(
            DType::BF16.into(),
            "{\"do\":\"prepare\",\"workload\":\"nothing\"}\n{\"do\":\"sample\",\"calls\":1}\n{\"do\":\"prepare\",\"workload\":\"forms\"}\n",
        );
        assert_eq!(said[0]["facts"][PRECISION], "bf16");
        assert_eq!((&said[1]["unsupported"], &said[1]["error"]), (&true.into(), &"nothing has no form in bf16".into()));
        assert!(said[2]["error"].is_string() && said[2]["ns"].is_null(), "{}", said[2]);
        assert_eq!((&said[3]["about"]["dtype"], &said[3]["worst"]), (&"bf16".into(), &0.5.into()));
        assert_eq!(ask("{\"do\":\"prepare\",\"workload\":\"forms\"}\n")[1]["about"]["dtype"], "f32");
    }
    #[test]
    fn a_watch_without_a_form_that_is_run_all_the_same() {
        for kind in WatchKind::ALL {
            let asked = "{\"do\":\"prepare\",\"workload\":\"nothing\"}\n{\"do\":\"prepare\",\"workload\":\"forms\"}\n";
            let said = ask_in(WorkloadForm::Watched(kind), asked);
            assert_eq!(said[0]["facts"][STABILITY], kind.name());
            assert_eq!((&said[1]["unsupported"], &said[1]["error"]), (&true.into(), &"nothing has no form with a watch over its numbers".into()));
            assert_eq!((&said[2]["about"]["dtype"], &said[2]["worst"]), (&"f32".into(), &0.75.into()));
        }
    }
    #[cfg(target_os = "linux")]
    #[test]
    fn memory_that_a_call_took_and_gave_back_is_not_seen() {
        let said = ask("{\"do\":\"prepare\",\"workload\":\"grows\",\"check\":false}\n{\"do\":\"memory\",\"calls\":1}\n");
        if let Some(grown) = said[2]["growth"].as_u64() {
            assert!((60 << 20..200 << 20).contains(&grown), "{grown}");
        }
    }
}
