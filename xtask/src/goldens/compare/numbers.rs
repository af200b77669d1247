//! The comparison of schedules (rate for rate) and of initialisers (what many numbers look like).
use super::GoldenVerdict;
use crate::goldens::{
    init::Statistics,
    manifest::{INITIALISERS, SCHEDULES, read_list},
    write,
};
use serde::Deserialize;
use std::{collections::BTreeMap, path::Path};

/// Rates below this are equal to zero.
const RATE_ATOL: f64 = 1e-9;
/// How far statistics of many draws may be off, relatively.
const DRAWS_RTOL: f64 = 0.03;
/// How many draws that takes.
const DRAWS: usize = 20_000;
/// How far from the identity the product of an orthogonal f32 matrix with itself may be.
const ORTHOGONALITY: f64 = 1e-4;

/// What a schedule should give. Without rates the folder holds no answer.
#[derive(Deserialize)]
#[serde(expecting = "struct Schedule")]
struct ExpectedSchedule {
    id: String,
    lr: Option<Vec<f64>>,
    momentum: Option<Vec<f64>>,
    #[serde(default = "rate_rtol")]
    rtol: f64,
}
fn rate_rtol() -> f64 {
    1e-6
}
/// What an initialiser should give. Without a kind the folder holds no answer.
#[derive(Deserialize)]
struct Init {
    id: String,
    kind: Option<String>,
    #[serde(default)]
    shape: Vec<usize>,
    bound: Option<f64>,
    mean: Option<f64>,
    std: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    #[serde(default)]
    args: serde_json::Map<String, serde_json::Value>,
}

/// The answers and the results, both read from files.
pub struct ComparedNumbers {
    schedules: BTreeMap<String, ExpectedSchedule>,
    inits: BTreeMap<String, Init>,
    rates: BTreeMap<String, Vec<f64>>,
    momenta: BTreeMap<String, Vec<f64>>,
    statistics: BTreeMap<String, Statistics>,
}
impl ComparedNumbers {
    /// Reads both folders.
    pub fn read(dir: &Path, out: &Path) -> Result<ComparedNumbers, String> {
        Ok(ComparedNumbers {
            schedules: read_list::<ExpectedSchedule>(dir, SCHEDULES)?.into_iter().map(|s| (s.id.clone(), s)).collect(),
            inits: read_list::<Init>(dir, INITIALISERS)?.into_iter().map(|i| (i.id.clone(), i)).collect(),
            rates: write::read_map(&out.join("schedulers.json"))?,
            momenta: write::read_map(&out.join("momentum.json"))?,
            statistics: write::read_map(&out.join("init.json"))?,
        })
    }
    /// Compares one case of these groups that ended well.
    pub fn judge(&self, id: &str) -> (GoldenVerdict, String) {
        if let Some(schedule) = self.schedules.get(id) {
            return verdict(schedule.lr.is_some(), self.schedule(schedule));
        }
        match self.inits.get(id) {
            Some(init) => verdict(init.kind.is_some(), self.init(init)),
            None => (GoldenVerdict::Uncompared, "it is no longer in the folder".into()),
        }
    }
    fn schedule(&self, want: &ExpectedSchedule) -> Result<(), String> {
        let wanted = [("rate", want.lr.as_ref(), self.rates.get(&want.id)), ("momentum", want.momentum.as_ref(), self.momenta.get(&want.id))];
        for (what, want_list, got) in wanted {
            let Some(want_list) = want_list else { continue };
            let got = got.ok_or_else(|| format!("{what} not written"))?;
            if got.len() != want_list.len() {
                return Err(format!("{} {what}s want {}", got.len(), want_list.len()));
            }
            let off = |(g, w): (&f64, &f64)| if (g - w).abs() <= RATE_ATOL + want.rtol * w.abs() { 0.0 } else { (g - w).abs().max(f64::MIN_POSITIVE) };
            let errors: Vec<f64> = got.iter().zip(want_list).map(off).collect();
            if let Some(first) = errors.iter().position(|&e| e > 0.0) {
                return Err(format!("{what}: max error {:.3e}, the first in step {first}", errors.iter().fold(0.0f64, |a, &b| a.max(b))));
            }
        }
        Ok(())
    }
    fn init(&self, want: &Init) -> Result<(), String> {
        let got = self.statistics.get(&want.id).ok_or("not written")?;
        if got.n < DRAWS {
            return Err(format!("{} numbers drawn, {DRAWS} are needed", got.n));
        }
        let given = |v: Option<f64>, name: &str| v.ok_or_else(|| format!("the answer has no {name}"));
        match want.kind.as_deref() {
            Some("uniform") => {
                let bound = given(want.bound, "bound")?;
                near("mean", got.mean, 0.0, bound * DRAWS_RTOL)?;
                near("std", got.std, bound / 3f64.sqrt(), bound / 3f64.sqrt() * DRAWS_RTOL)?;
                near("max", got.max, bound, bound * DRAWS_RTOL)?;
                near("min", got.min, -bound, bound * DRAWS_RTOL)?;
                within(got, -bound, bound)
            }
            Some("normal") => {
                let std = given(want.std, "std")?;
                near("mean", got.mean, want.mean.unwrap_or(0.0), std * DRAWS_RTOL)?;
                near("std", got.std, std, std * DRAWS_RTOL)
            }
            Some("truncated") => {
                let std = given(want.std, "std")?;
                near("mean", got.mean, want.mean.unwrap_or(0.0), std * DRAWS_RTOL)?;
                near("std", got.std, std, std * DRAWS_RTOL)?;
                within(got, given(want.min, "min")?, given(want.max, "max")?)
            }
            Some("orthogonal") => {
                let gain = want.args.get("gain").and_then(serde_json::Value::as_f64).unwrap_or(1.0);
                let longer = want.shape.first().copied().unwrap_or(0).max(want.shape.iter().skip(1).product());
                near("std", got.std, gain / (longer as f64).sqrt(), gain / (longer as f64).sqrt() * DRAWS_RTOL)?;
                let off = got.orthogonality.ok_or("its orthogonality was not measured")?;
                if off <= ORTHOGONALITY { Ok(()) } else { Err(format!("W Wᵀ is {off:.3e} from gain² times the identity")) }
            }
            other => Err(format!("the kind {other:?} is not known")),
        }
    }
}
fn verdict(has_answer: bool, compared: Result<(), String>) -> (GoldenVerdict, String) {
    match compared {
        _ if !has_answer => (GoldenVerdict::Uncompared, "the answer is not in the folder".into()),
        Ok(()) => (GoldenVerdict::Pass, String::new()),
        Err(why) => (GoldenVerdict::Fail, why),
    }
}
fn near(what: &str, got: f64, want: f64, tolerance: f64) -> Result<(), String> {
    if (got - want).abs() <= tolerance { Ok(()) } else { Err(format!("{what} {got:.6} want {want:.6}")) }
}
fn within(got: &Statistics, low: f64, high: f64) -> Result<(), String> {
    // The bound is rounded to f32 before it is used.
    let slack = low.abs().max(high.abs()) * 1e-6;
    if got.min >= low - slack && got.max <= high + slack { Ok(()) } else { Err(format!("numbers from {} to {} outside {low} to {high}", got.min, got.max)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(answers: &str, statistics: Statistics) -> ComparedNumbers {
        let init: Init = serde_json::from_str(answers).unwrap();
        let schedule = ExpectedSchedule { id: "s".into(), lr: Some(vec![0.1, 0.05]), momentum: None, rtol: 1e-6 };
        ComparedNumbers {
            schedules: [("s".to_string(), schedule)].into(),
            inits: [("i".to_string(), init)].into(),
            rates: [("s".to_string(), vec![0.1, statistics.std])].into(),
            momenta: BTreeMap::new(),
            statistics: [("i".to_string(), statistics)].into(),
        }
    }
    #[test]
    fn statistics_or_rates_that_are_off_are_found() {
        let right = Statistics { mean: 0.0, std: 0.05, min: -0.0866, max: 0.0866, n: 20_000, orthogonality: None };
        let uniform = r#"{"id":"i","kind":"uniform","bound":0.08660254}"#;
        let normal = r#"{"id":"i","kind":"normal","std":0.05,"mean":0}"#;
        let truncated = r#"{"id":"i","kind":"truncated","std":0.05,"mean":0,"min":-0.09,"max":0.09}"#;
        for (answers, got, verdict) in [
            (uniform, right.clone(), GoldenVerdict::Pass),
            (uniform, Statistics { max: 0.09, ..right.clone() }, GoldenVerdict::Fail),
            (uniform, Statistics { max: 0.05, ..right.clone() }, GoldenVerdict::Fail),
            (uniform, Statistics { n: 10, ..right.clone() }, GoldenVerdict::Fail),
            (normal, right.clone(), GoldenVerdict::Pass),
            (normal, Statistics { mean: 0.01, ..right.clone() }, GoldenVerdict::Fail),
            (truncated, right.clone(), GoldenVerdict::Pass),
            (truncated, Statistics { min: -0.1, ..right.clone() }, GoldenVerdict::Fail),
            (r#"{"id":"i"}"#, right.clone(), GoldenVerdict::Uncompared),
        ] {
            assert_eq!(numbers(answers, got).judge("i").0, verdict, "{answers}");
        }
        assert_eq!(numbers(normal, right.clone()).judge("s").0, GoldenVerdict::Pass);
        assert_eq!(numbers(normal, Statistics { std: 0.051, ..right }).judge("s").0, GoldenVerdict::Fail);
    }
}
