//! The lines that all implementations print: `{"workload", "impl", "median_ms", "min_ms", "extra": {"threads", ...}}`, or
//! `{"workload", "impl", "error", "extra"}`. Their form is shared with other programs and does not change; what more
//! there is to say stands in the record.
use crate::{record::Case, stats::median, workload::Rate};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One line.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Line {
    /// the workload's name
    pub workload: String,
    /// who ran it
    #[serde(rename = "impl")]
    pub implementation: String,
    /// the median sample
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_ms: Option<f64>,
    /// the smallest sample
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ms: Option<f64>,
    /// why there is no time
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// how it was measured, and rates
    pub extra: Extra,
}
/// How it was measured, and rates.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub struct Extra {
    /// threads of the device
    pub threads: usize,
    /// where it ran
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// how many samples
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<usize>,
    /// the median in nanoseconds, where it is short
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns: Option<f64>,
    /// 10⁹ operations in a second
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gflops: Option<f64>,
    /// 10⁹ bytes in a second
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gbps: Option<f64>,
    /// tokens in a second
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
    /// small shapes: the time means nothing
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub small: bool,
}
impl Line {
    /// The line of a case.
    pub fn of(case: &Case, threads: usize, device: &str, small: bool) -> Line {
        let mut extra = Extra { threads, device: Some(device.into()), small, ..Extra::default() };
        let mut line = Line {
            workload: case.workload.clone(),
            implementation: case.implementation.clone(),
            median_ms: None,
            min_ms: None,
            error: case.error.clone(),
            extra: Extra::default(),
        };
        if case.error.is_none() && !case.samples_ns.is_empty() {
            let ns = median(&case.samples_ns);
            line.median_ms = Some(ns * 1e-6);
            line.min_ms = Some(case.samples_ns.iter().copied().fold(f64::INFINITY, f64::min) * 1e-6);
            extra.samples = Some(case.samples_ns.len());
            extra.ns = (ns < 1e5).then_some(ns);
            match case.rate().filter(|_| !small) {
                Some(Rate::Flop(n)) => extra.gflops = Some(n / ns),
                Some(Rate::Bytes(n)) => extra.gbps = Some(n / ns),
                Some(Rate::Tokens(n)) => extra.tokens_per_s = Some(n / ns * 1e9),
                None => {}
            }
        }
        Line { extra, ..line }
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
