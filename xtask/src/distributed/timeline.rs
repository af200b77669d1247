//! The trace of ranks that train together, as intervals: what was exchanged, what was computed meanwhile, and what stood still. Must not know: what
//! is claimed of it.
use serde_json::Value;
use std::{collections::BTreeMap, path::Path};

/// From when to when, in seconds on the clock of all ranks.
pub type Interval = (f64, f64);

/// What a rank did in a step.
#[derive(Default)]
pub struct RankStep {
    /// how long it took
    pub seconds: f64,
    /// of kernels, all and those of the walk back
    pub compute: f64,
    pub backward: f64,
    /// while something was exchanged, from when all ranks had come to it
    pub communication: f64,
    /// of that, while no kernel ran
    pub exposed: f64,
}
/// A rank's events.
#[derive(Default)]
struct RankEvents {
    /// by thread
    kernels: BTreeMap<u64, Vec<Interval>>,
    backward: Vec<Interval>,
    /// that trains
    thread: u64,
    /// what was called, in order
    calls: Vec<(String, Interval)>,
}
/// Steps of each rank, by rank. The call that asks all ranks whether they go on, which stands between steps, tells them apart.
///
/// # Errors
/// A file that is no trace of so many ranks, or whose ranks called different things.
pub fn steps(trace: &Path, ranks: usize) -> Result<Vec<Vec<RankStep>>, String> {
    let text = std::fs::read(trace).map_err(|e| format!("{}: {e}", trace.display()))?;
    let trace: Value = serde_json::from_slice(&text).map_err(|e| format!("the trace is no JSON: {e}"))?;
    let mut of: BTreeMap<u64, RankEvents> = BTreeMap::new();
    for event in trace["traceEvents"].as_array().ok_or("the trace has no events")?.iter().filter(|event| event["ph"] == "X") {
        let number = |key: &str| event[key].as_f64().unwrap_or(f64::NAN) / 1e6;
        let (begin, rank) = (number("ts"), event["pid"].as_u64().unwrap_or(u64::MAX));
        let interval = (begin, begin + number("dur"));
        let events = of.entry(rank).or_default();
        if event["cat"] == "collective" {
            let made = event["args"]["made"].as_str().unwrap_or_default();
            events.calls.push((format!("{} {made}", event["name"].as_str().unwrap_or_default()), interval));
        } else if event["args"]["flops"].is_number() {
            let thread = event["tid"].as_u64().unwrap_or(0);
            events.kernels.entry(thread).or_default().push(interval);
            if event["args"]["range"] == "backward" {
                events.backward.push(interval);
                events.thread = thread;
            }
        }
    }
    let mut of: Vec<RankEvents> = of.into_values().collect();
    let calls = of.first().map_or(0, |events| events.calls.len());
    if of.len() != ranks || of.iter().any(|events| events.calls.len() != calls) {
        return Err(format!("{} processes in the trace, and {:?} calls", of.len(), of.iter().map(|events| events.calls.len()).collect::<Vec<_>>()));
    }
    let begun: Vec<Interval> = of.iter().flat_map(|events| events.calls.iter().map(|(_, interval)| *interval)).collect();
    for at in 0..calls {
        if of.iter().any(|events| events.calls[at].0 != of[0].calls[at].0) {
            return Err(format!("call {at} is {:?}", of.iter().map(|events| &events.calls[at].0).collect::<Vec<_>>()));
        }
        // What comes before is waiting for a rank, and no communication.
        let all_there = (0..ranks).map(|rank| begun[rank * calls + at].0).fold(f64::NEG_INFINITY, f64::max);
        of.iter_mut().for_each(|events| events.calls[at].1.0 = all_there.min(events.calls[at].1.1));
    }
    Ok(of.iter().map(steps_of).collect())
}
/// Asks all ranks whether they go on: three numbers, of which the largest count.
fn is_between_steps(call: &str) -> bool {
    call.contains("max") && call.ends_with("i64[3]")
}
fn steps_of(events: &RankEvents) -> Vec<RankStep> {
    // What other threads compute, as a checkpoint that is written, hides nothing.
    let own = events.kernels.get(&events.thread).map_or(&[][..], Vec::as_slice);
    let (kernels, backward) = (merged(own), merged(&events.backward));
    let calls = merged(&events.calls.iter().map(|(_, interval)| *interval).collect::<Vec<_>>());
    let between: Vec<f64> = events.calls.iter().filter(|(name, _)| is_between_steps(name)).map(|(_, interval)| interval.1).collect();
    let step = |two: &[f64]| {
        let window = (two[0], two[1]);
        let (calls, kernels) = (within(&calls, window), within(&kernels, window));
        let communication = length(&calls);
        RankStep {
            seconds: window.1 - window.0,
            compute: length(&kernels),
            backward: length(&within(&backward, window)),
            communication,
            exposed: communication - common(&calls, &kernels),
        }
    };
    between.windows(2).map(step).collect()
}
/// Intervals in order, of which those that overlap are one.
fn merged(intervals: &[Interval]) -> Vec<Interval> {
    let mut sorted = intervals.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut merged: Vec<Interval> = Vec::new();
    for (begin, end) in sorted {
        match merged.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((begin, end)),
        }
    }
    merged
}
fn within(intervals: &[Interval], window: Interval) -> Vec<Interval> {
    let cut = |(begin, end): &Interval| (begin.max(window.0), end.min(window.1));
    intervals.iter().map(cut).filter(|(begin, end)| begin < end).collect()
}
fn length(intervals: &[Interval]) -> f64 {
    intervals.iter().map(|(begin, end)| end - begin).sum()
}
/// How long both are going on, of lists that are merged.
fn common(a: &[Interval], b: &[Interval]) -> f64 {
    let (mut k, mut total) = (0, 0.0);
    for (begin, end) in a {
        while b.get(k).is_some_and(|other| other.1 <= *begin) {
            k += 1;
        }
        total += b[k..].iter().take_while(|other| other.0 < *end).map(|other| end.min(other.1) - begin.max(other.0)).sum::<f64>();
    }
    total
}
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn communication_that_is_hidden_and_counted_as_exposed_or_the_other_way() {
        let span = |pid: u64, cat: &str, name: &str, (ts, end): (f64, f64), args: Value| json!({ "ph": "X", "pid": pid, "tid": 0, "cat": cat, "name": name, "ts": ts, "dur": end - ts, "args": args });
        let kernel = |pid, at, range: &str| span(pid, "map", "add", at, json!({ "flops": 1, "range": range }));
        let call = |pid, at, made: &str| span(pid, "collective", "all_reduce max", at, json!({ "made": made }));
        let mut events = Vec::new();
        // Rank 1 is ten microseconds later with the second call: from 60 on it travels.
        for (pid, late) in [(0, 0.0), (1, 10.0)] {
            events.extend([call(pid, (0.0, 10.0), "i64[3]"), kernel(pid, (10.0, 30.0), "forward"), kernel(pid, (30.0, 75.0), "backward")]);
            events.extend([call(pid, (50.0 + late, 90.0), "f32[8]"), kernel(pid, (85.0, 100.0), ""), call(pid, (110.0, 120.0), "i64[3]")]);
            events.push(span(pid, "range", "run", (0.0, 500.0), json!({})));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        std::fs::write(&path, json!({ "traceEvents": events }).to_string()).unwrap();
        let ranks = steps(&path, 2).unwrap();
        for rank in &ranks {
            let [step] = &rank[..] else { panic!("{} steps", rank.len()) };
            let close = |got: f64, want: f64| assert!((got * 1e6 - want).abs() < 1e-6, "{got} is not {want} us");
            close(step.seconds, 110.0);
            close(step.compute, 80.0);
            close(step.backward, 45.0);
            close(step.communication, 40.0);
            // From 75 to 85, and between steps.
            close(step.exposed, 20.0);
        }
        assert!(steps(&path, 3).is_err());
        events.push(call(0, (600.0, 601.0), "f32[9]"));
        std::fs::write(&path, json!({ "traceEvents": events }).to_string()).unwrap();
        assert!(steps(&path, 2).is_err());
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
    }
}
