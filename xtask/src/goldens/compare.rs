//! The comparison, a step of its own: what stands in OUT with the answers in DIR, by the rules of the goldens.
//!
//! A result has the answer's shape and dtype, NaN where it has NaN, and |got - want| <= atol + rtol * |want|;
//! integers and bools are equal. It reads files only and knows nothing of how the results came about.
use super::{
    manifest::{AnswerKind, Case},
    write::{Ending, Status},
};
use adamant::{DType, Shape, bf16, f8_to_f32, f16, formats::safetensors::SafeTensors};
use serde::Serialize;
use std::{collections::BTreeMap, path::Path};

mod numbers;
use numbers::ComparedNumbers;

/// Kinds of errors with which a refusal counts.
const REFUSALS: [&str; 6] = ["shape", "axis", "dtype", "index", "argument", "domain"];

/// How a case compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GoldenVerdict {
    /// right
    Pass,
    /// a wrong or missing result, or a wrong error
    Fail,
    /// a right result with a wrong or missing gradient
    FailGrad,
    /// right gradients with a wrong or missing second gradient
    FailGrad2,
    /// the library says that it has no such thing
    Unsupported,
    /// the answers are not in the folder
    Uncompared,
}
/// A case's verdict and, unless it is right, why.
#[derive(Clone, Debug, Serialize)]
pub struct JudgedCase {
    /// the case
    pub id: String,
    /// its group
    pub group: String,
    /// right or wrong
    pub verdict: GoldenVerdict,
    /// what is wrong, with the largest error
    pub why: String,
    /// of an unsupported case
    pub cause: Option<String>,
}

/// Tensors of several files under one roof.
struct Folder(Vec<SafeTensors>);
impl Folder {
    fn find(&self, name: &str) -> Option<&SafeTensors> {
        self.0.iter().find(|f| f.contains(name))
    }
    fn read(&self, name: &str) -> Result<Option<ComparedArray>, String> {
        let Some(file) = self.find(name) else { return Ok(None) };
        let (dtype, shape) = file.meta(name).map_err(|e| e.to_string())?;
        Ok(Some(ComparedArray { dtype, shape, bytes: file.bytes(name).map_err(|e| e.to_string())? }))
    }
}
struct ComparedArray {
    dtype: DType,
    shape: Shape,
    bytes: Vec<u8>,
}

/// Compares every case.
pub fn compare(dir: &Path, out: &Path, cases: &[Case], statuses: &BTreeMap<String, Status>) -> Result<Vec<JudgedCase>, String> {
    let mut answers: BTreeMap<&str, Folder> = BTreeMap::new();
    let mut results = Vec::new();
    let entries = std::fs::read_dir(out).map_err(|e| format!("{}: {e}", out.display()))?;
    for entry in entries {
        let path = entry.map_err(|e| format!("{}: {e}", out.display()))?.path();
        if path.extension().is_some_and(|e| e == "safetensors") {
            results.push(SafeTensors::open(path).map_err(|e| e.to_string())?);
        }
    }
    let results = Folder(results);
    let numbers = ComparedNumbers::read(dir, out)?;
    let mut judged = Vec::new();
    for case in cases {
        if case.file.is_empty() {
            let (verdict, why) = match statuses.get(&case.id) {
                Some(status) => ended_badly(status).unwrap_or_else(|| numbers.judge(&case.id)),
                None => (GoldenVerdict::Fail, "no status".into()),
            };
            judged.push(judged_as(case, statuses, verdict, why));
            continue;
        }
        if !answers.contains_key(case.file.as_str()) {
            let file = SafeTensors::open(dir.join(&case.file)).map_err(|e| e.to_string())?;
            answers.insert(&case.file, Folder(vec![file]));
        }
        let (verdict, why) = judge(case, statuses.get(&case.id), &results, &answers[case.file.as_str()])?;
        judged.push(judged_as(case, statuses, verdict, why));
    }
    // A folder without any answer asks for results only. One that lacks some is broken, and that must show.
    if judged.iter().any(|j| j.verdict != GoldenVerdict::Uncompared && j.verdict != GoldenVerdict::Unsupported)
        && cases.iter().any(|c| !c.raises && c.answers().any(|(_, n)| answers[c.file.as_str()].find(n).is_some()))
    {
        for j in judged.iter_mut().filter(|j| j.verdict == GoldenVerdict::Uncompared) {
            (j.verdict, j.why) = (GoldenVerdict::Fail, format!("{}, though others are", j.why));
        }
    }
    Ok(judged)
}
fn judged_as(case: &Case, statuses: &BTreeMap<String, Status>, verdict: GoldenVerdict, why: String) -> JudgedCase {
    let cause = statuses.get(&case.id).filter(|_| verdict == GoldenVerdict::Unsupported).and_then(|s| s.cause.clone());
    JudgedCase { id: case.id.clone(), group: case.group.clone(), verdict, why, cause }
}
fn judge(case: &Case, status: Option<&Status>, results: &Folder, answers: &Folder) -> Result<(GoldenVerdict, String), String> {
    let Some(status) = status else { return Ok((GoldenVerdict::Fail, "no status".into())) };
    if case.raises && status.status != Ending::Unsupported {
        let refused = status.status == Ending::Error && REFUSALS.contains(&status.kind.as_str()) && !status.message.is_empty();
        return Ok(if refused {
            (GoldenVerdict::Pass, String::new())
        } else {
            (GoldenVerdict::Fail, format!("no error of a right kind but {:?} {}: {}", status.status, status.kind, status.message))
        });
    }
    if let Some(ended) = ended_badly(status) {
        return Ok(ended);
    }
    let mut uncompared = None;
    for (what, name) in case.answers() {
        let Some(want) = answers.read(name)? else {
            uncompared = Some(name);
            continue;
        };
        let (rtol, atol) = case.tolerance(what);
        let wrong = match results.read(name)? {
            None if status.message.is_empty() => Some("not written".into()),
            None => Some(format!("not written: {}", status.message)),
            Some(got) => difference(&got, &want, rtol, atol),
        };
        if let Some(wrong) = wrong {
            let verdict = match what {
                AnswerKind::Output | AnswerKind::Buffer => GoldenVerdict::Fail,
                AnswerKind::Gradient => GoldenVerdict::FailGrad,
                AnswerKind::SecondGradient => GoldenVerdict::FailGrad2,
            };
            let short = name.rsplit('/').next().unwrap_or(name);
            return Ok((verdict, format!("{what} {short}: {wrong}")));
        }
    }
    Ok(match uncompared {
        Some(name) => (GoldenVerdict::Uncompared, format!("the answer {name} is not in the folder")),
        None => (GoldenVerdict::Pass, String::new()),
    })
}

fn ended_badly(status: &Status) -> Option<(GoldenVerdict, String)> {
    match status.status {
        Ending::Unsupported => Some((GoldenVerdict::Unsupported, status.message.clone())),
        Ending::Error => Some((GoldenVerdict::Fail, format!("{}: {}", status.kind, status.message))),
        Ending::Ok => None,
    }
}

/// What is wrong with a result, or `None`.
fn difference(got: &ComparedArray, want: &ComparedArray, rtol: f64, atol: f64) -> Option<String> {
    if got.shape != want.shape {
        return Some(format!("shape {} want {}", got.shape, want.shape));
    }
    if got.dtype != want.dtype {
        return Some(format!("dtype {} want {}", got.dtype, want.dtype));
    }
    if !want.dtype.is_float() {
        let size = want.dtype.size();
        let wrong = got.bytes.chunks(size).zip(want.bytes.chunks(size)).filter(|(g, w)| g != w).count();
        return (wrong > 0).then(|| format!("{wrong} of {} differ", want.shape.elements()));
    }
    let (got, want) = (floats(got), floats(want));
    if got.iter().zip(&want).any(|(g, w)| g.is_nan() != w.is_nan()) {
        return Some("NaN where none should be, or the other way".into());
    }
    let wrong: Vec<f64> = got.iter().zip(&want).filter(|&(&g, &w)| is_wrong(g, w, rtol, atol)).map(|(g, w)| (g - w).abs()).collect();
    let largest = wrong.iter().copied().fold(0.0, f64::max);
    (!wrong.is_empty()).then(|| format!("max error {largest:.3e}, {} of {}", wrong.len(), want.len()))
}
fn is_wrong(got: f64, want: f64, rtol: f64, atol: f64) -> bool {
    let infinite = got.is_infinite() || want.is_infinite();
    got != want && !want.is_nan() && (infinite || (got - want).abs() > atol + rtol * want.abs())
}
/// Little-endian elements as f64.
fn floats(array: &ComparedArray) -> Vec<f64> {
    fn each<const N: usize>(bytes: &[u8], to: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<N>().0.iter().map(|&b| to(b)).collect()
    }
    match array.dtype {
        DType::F64 => each(&array.bytes, f64::from_le_bytes),
        DType::F32 => each(&array.bytes, |b| f32::from_le_bytes(b) as f64),
        DType::F16 => each(&array.bytes, |b| f16::from_le_bytes(b).to_f64()),
        DType::BF16 => each(&array.bytes, |b| bf16::from_le_bytes(b).to_f64()),
        fp8 => each(&array.bytes, |[b]| f8_to_f32(b, fp8) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(values: &[f64]) -> ComparedArray {
        ComparedArray { dtype: DType::F64, shape: Shape::new(&[values.len()]).unwrap(), bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect() }
    }
    #[test]
    fn a_wrong_number_nan_or_infinity_is_found() {
        let inf = f64::INFINITY;
        for (got, want, wrong) in [
            (1.0, 1.0, false),
            (1.0 + 1e-7, 1.0, false),
            (1.01, 1.0, true),
            (f64::NAN, f64::NAN, false),
            (f64::NAN, 1.0, true),
            (1.0, f64::NAN, true),
            (inf, inf, false),
            (inf, -inf, true),
            (1e308, inf, true),
            (inf, 1.0, true),
            (-0.0, 0.0, false),
        ] {
            assert_eq!(difference(&array(&[0.0, got]), &array(&[0.0, want]), 1e-5, 1e-8).is_some(), wrong, "{got} for {want}");
        }
    }
    #[test]
    fn another_shape_or_dtype_is_wrong() {
        assert!(difference(&array(&[1.0]), &array(&[1.0, 1.0]), 1.0, 1.0).is_some());
        let single = ComparedArray { dtype: DType::F32, shape: Shape::new(&[1]).unwrap(), bytes: 1f32.to_le_bytes().to_vec() };
        assert!(difference(&single, &array(&[1.0]), 1.0, 1.0).is_some());
    }
}
