//! What a machine can do at most, as a record tells it. How it is measured stands in `measure`.
#[cfg(feature = "suite")]
mod measure;
#[cfg(feature = "suite")]
pub use measure::read_gbps;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The ceilings of a number of threads.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Ceilings {
    /// so many threads
    pub threads: usize,
    /// 10⁹ multiplications and additions in a second, under `set/dtype`: `avx512/f32`
    pub gflops: BTreeMap<String, f64>,
    /// 10⁹ bytes in a second, read and written, of a copy
    pub copy_gbps: f64,
    /// the same of `a = b + s * c`
    pub triad_gbps: f64,
    /// nanoseconds until another thread has what it was handed
    pub handover_ns: f64,
}
impl Ceilings {
    /// 10⁹ bytes in a second: the better of copy and triad.
    pub fn gbps(&self) -> f64 {
        self.copy_gbps.max(self.triad_gbps)
    }
    /// The peak of a dtype in an instruction set; without a set, or with one that was not measured, the highest.
    pub fn peak_gflops(&self, isa: Option<&str>, dtype: &str) -> Option<f64> {
        let of_set = isa.and_then(|isa| self.gflops.get(&format!("{isa}/{dtype}")).copied());
        let all = self.gflops.iter().filter(|(name, _)| name.ends_with(&format!("/{dtype}"))).map(|(_, x)| *x);
        of_set.or_else(|| all.reduce(f64::max))
    }
}
