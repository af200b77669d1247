//! `--trace` where several ranks train: one timeline of all, a process a rank, on one clock.
//!
//! Each rank writes its own events, with its number for a process and its times on the clock of the rank that began first, and gives the lines to rank 0, which writes
//! the file. What ranks exchange stands beside the kernels: when an engine was asked, and when it was done. Must not know: what is recorded.
use adamant::profile::Profile;
use adamant_distributed::{ClockOffset, RecordedCall, RecordedGroup, clock_offset, told_to_first};
use serde_json::{Value, json};
use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

/// Writes what all ranks have recorded, where this is rank 0. All ranks call it. `begun` is when this rank began to count.
///
/// # Errors
/// A lost peer; what the writer returns.
pub(super) fn write(
    profile: &Profile,
    ranks: &RecordedGroup,
    begun: Instant,
    to: impl FnOnce() -> io::Result<Box<dyn Write>>,
) -> Result<(), adamant::ErrorKind> {
    let group = ranks.inner();
    let clock = clock_offset(group, || begun.elapsed())?;
    let told = |e: io::Error| adamant::ErrorKind::Argument(format!("the trace: {e}"));
    let mut lines = Vec::new();
    rank_lines(profile, &ranks.take_calls(), (group.rank(), clock, begun), &mut lines).map_err(told)?;
    let mut file: Option<Box<dyn Write>> = None;
    if group.rank() == 0 {
        let mut opened = to().map_err(told).inspect_err(|kind| group.abort(&kind.to_string()))?;
        opened.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[").map_err(told)?;
        file = Some(opened);
    }
    let mut is_first = true;
    told_to_first(group, &lines, |_, bytes| {
        let Some(file) = &mut file else { return Ok(()) };
        // Every line begins with a comma but the first of all.
        let bytes = if std::mem::take(&mut is_first) { bytes.strip_prefix(b",").unwrap_or(bytes) } else { bytes };
        file.write_all(bytes).map_err(told)
    })?;
    match &mut file {
        Some(file) => file.write_all(b"\n]}\n").and_then(|()| file.flush()).map_err(told),
        None => Ok(()),
    }
}
/// A rank's events, each on a line that begins with a comma.
fn rank_lines(profile: &Profile, calls: &[RecordedCall], (rank, clock, begun): (usize, ClockOffset, Instant), to: &mut Vec<u8>) -> io::Result<()> {
    let mut own = Vec::new();
    profile.write_chrome_trace(&mut own)?;
    let line = |to: &mut Vec<u8>, event: &Value| write!(to, ",\n{event}");
    let name = |name: &str, tid: Value, args: Value| json!({ "ph": "M", "pid": rank, "tid": tid, "name": name, "args": args });
    line(to, &name("process_name", json!(0), json!({ "name": format!("rank {rank}"), "clock_within_us": clock.within.as_nanos() as f64 / 1e3 })))?;
    line(to, &name("process_sort_index", json!(0), json!({ "sort_index": rank })))?;
    let mut threads = 0;
    // An event a line, between the first line and the last.
    for text in own.split(|byte| *byte == b'\n').skip(1) {
        let Ok(mut event) = serde_json::from_slice::<Value>(text.strip_suffix(b",").unwrap_or(text)) else { continue };
        event["pid"] = rank.into();
        if let Some(at) = event["ts"].as_f64() {
            event["ts"] = (at + clock.ahead.as_nanos() as f64 / 1e3).into();
        }
        if event["name"] == "thread_name" {
            threads = threads.max(event["tid"].as_u64().unwrap_or(0) + 1);
        }
        line(to, &event)?;
    }
    line(to, &name("thread_name", threads.into(), json!({ "name": "ranks" })))?;
    for recorded in calls {
        let since = |at: Instant| at.saturating_duration_since(begun);
        let micro = |time: Duration| time.as_nanos() as f64 / 1e3;
        let RecordedCall { call, ranks, bytes, begin, end } = recorded;
        let made = format!("{}{}", call.made.dtype, call.made.shape);
        let at = call.origin.map(|origin| origin.at.to_string());
        line(
            to,
            &json!({
                "ph": "X", "pid": rank, "tid": threads, "name": call.kind.to_string(), "cat": "collective",
                "ts": micro(since(*begin) + clock.ahead), "dur": micro(since(*end).saturating_sub(since(*begin))),
                "args": { "seq": call.number, "made": made, "bytes": bytes, "ranks": ranks, "line": at },
            }),
        )?;
    }
    Ok(())
}
