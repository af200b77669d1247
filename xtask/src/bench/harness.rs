//! The timing protocol: one call, a warm-up, samples until the budget is spent; the median and the smallest sample.
//! Must not know what is timed.
use adamant::{Device, Error, ErrorKind};
use serde::Serialize;
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

/// One call of what is timed: it evaluates its results and drops them.
pub type Timed = Box<dyn FnMut() -> Result<(), Error>>;

/// What may be wrong, or fail.
pub type Checked<T> = Result<T, Problem>;

/// Something to time, under the name that all implementations give it.
pub struct Workload {
    /// the name
    pub name: String,
    /// what one call moves or computes
    pub rate: Option<Rate>,
    /// builds the inputs, checks one result, returns the call
    pub build: Box<dyn FnOnce(Scale) -> Checked<Timed>>,
}
impl Workload {
    /// A workload.
    pub fn new(name: impl Into<String>, rate: impl Into<Option<Rate>>, build: impl FnOnce(Scale) -> Checked<Timed> + 'static) -> Workload {
        Workload { name: name.into(), rate: rate.into(), build: Box::new(build) }
    }
}
/// Units of one call.
#[derive(Clone, Copy)]
pub enum Rate {
    /// floating-point (or integer) operations
    Flop(f64),
    /// bytes of the least possible traffic
    Bytes(f64),
    /// tokens
    Tokens(f64),
}
/// The shapes of the document, or small ones that only show that the program is right.
#[derive(Clone, Copy)]
pub struct Scale {
    small: bool,
}
impl Scale {
    /// The small one.
    pub const SMALL: Scale = Scale { small: true };
    /// A size at this scale.
    pub fn of(self, full: usize, small: usize) -> usize {
        if self.small { small } else { full }
    }
    /// A size that is never larger than `most` at the small scale.
    pub fn at_most(self, full: usize, most: usize) -> usize {
        if self.small { full.min(most) } else { full }
    }
}
/// Why there is no time.
#[derive(Debug)]
pub enum Problem {
    /// an op failed
    Failed(Error),
    /// the result is wrong
    Wrong(String),
}
impl From<Error> for Problem {
    fn from(e: Error) -> Problem {
        Problem::Failed(e)
    }
}
/// Fails with a text if the condition does not hold.
pub fn ensure(right: bool, text: impl FnOnce() -> String) -> Checked<()> {
    if right { Ok(()) } else { Err(Problem::Wrong(text())) }
}

/// How to measure.
pub struct Protocol {
    /// threads of the device
    pub threads: usize,
    /// time for samples
    pub budget: Duration,
    /// small shapes?
    pub small: bool,
    /// where it runs
    pub device: Device,
}

/// What one workload gave.
#[derive(Serialize)]
pub struct Line {
    workload: String,
    #[serde(rename = "impl")]
    implementation: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    median_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    extra: Extra,
    #[serde(skip)]
    ending: Ending,
}
#[derive(Serialize)]
struct Extra {
    threads: usize,
    device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gflops: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gbps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_per_s: Option<f64>,
    /// small shapes: the time means nothing
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    small: bool,
}
/// How a workload ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// it was right and timed
    Timed,
    /// a part that it needs is not there, by a typed error
    Unsupported,
    /// wrong, or an error
    Failed,
}
impl Line {
    /// How it ended.
    pub fn ending(&self) -> Ending {
        self.ending
    }
}
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(median), Some(min)) = (self.median_ms, self.min_ms) else {
            return write!(f, "{:<34} {}", self.workload, self.error.as_deref().unwrap_or("nothing was measured"));
        };
        write!(f, "{:<34} {median:>12.6} ms  (least {min:.6}", self.workload)?;
        if let Some(n) = self.extra.samples {
            write!(f, ", {n} samples")?;
        }
        f.write_str(")")?;
        if let Some(x) = self.extra.gflops {
            write!(f, "  {x:.1} GFLOP/s")?;
        }
        if let Some(x) = self.extra.gbps {
            write!(f, "  {x:.1} GB/s")?;
        }
        if let Some(x) = self.extra.tokens_per_s {
            write!(f, "  {x:.1} tokens/s")?;
        }
        Ok(())
    }
}

/// Builds, checks and times one workload. A panic in it is a failed line, not the end of the run.
pub fn measure(workload: Workload, protocol: &Protocol) -> Line {
    let Workload { name, rate, build } = workload;
    let scale = Scale { small: protocol.small };
    let samples = catch_unwind(AssertUnwindSafe(|| build(scale).and_then(|timed| sample(timed, protocol.budget)))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|s| s.to_string()).or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Problem::Wrong(format!("panicked: {}", text.unwrap_or_default())))
    });
    let mut extra = Extra {
        threads: protocol.threads,
        device: protocol.device.to_string(),
        samples: None,
        ns: None,
        gflops: None,
        gbps: None,
        tokens_per_s: None,
        small: protocol.small,
    };
    let implementation = "adamant";
    match samples {
        Ok(samples) => {
            let (median, min) = (samples[samples.len() / 2], samples[0]);
            extra.samples = Some(samples.len());
            extra.ns = (median < 1e-4).then_some(median * 1e9);
            match rate.filter(|_| !protocol.small) {
                Some(Rate::Flop(n)) => extra.gflops = Some(n / median * 1e-9),
                Some(Rate::Bytes(n)) => extra.gbps = Some(n / median * 1e-9),
                Some(Rate::Tokens(n)) => extra.tokens_per_s = Some(n / median),
                None => {}
            }
            Line { workload: name, implementation, median_ms: Some(median * 1e3), min_ms: Some(min * 1e3), error: None, extra, ending: Ending::Timed }
        }
        Err(problem) => {
            let (ending, text) = match problem {
                Problem::Failed(e) if matches!(e.kind(), ErrorKind::Unsupported { .. }) => (Ending::Unsupported, e.to_string()),
                Problem::Failed(e) => (Ending::Failed, e.to_string()),
                Problem::Wrong(text) => (Ending::Failed, format!("wrong result: {text}")),
            };
            Line { workload: name, implementation, median_ms: None, min_ms: None, error: Some(text), extra, ending }
        }
    }
}

/// Seconds of one call, sorted.
fn sample(mut timed: Timed, budget: Duration) -> Checked<Vec<f64>> {
    timed()?;
    let (start, mut calls) = (Instant::now(), 0u64);
    while calls < 2 || (start.elapsed() < Duration::from_millis(200).min(budget) && calls < 100_000) {
        timed()?;
        calls += 1;
    }
    let one = start.elapsed().as_secs_f64() / calls as f64;
    // A sample of what is quick is a loop of about 0.2 ms.
    let repeat = if one > 2e-4 { 1 } else { ((2e-4 / one) as u64).max(1) };
    let (mut samples, start) = (Vec::new(), Instant::now());
    while samples.len() < 5 || (start.elapsed() < budget && samples.len() < 300) {
        let t = Instant::now();
        for _ in 0..repeat {
            timed()?;
        }
        samples.push(t.elapsed().as_secs_f64() / repeat as f64);
    }
    samples.sort_by(f64::total_cmp);
    Ok(samples)
}
