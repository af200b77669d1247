//! Is what both programs gave the same, within the table of tolerances? Asked before anything is timed.
//!
//! The table is that of the goldens and of random programs: by the dtype of a result, by how far PyTorch itself is from the
//! same call in f64, and, for what is composed of many ops, some ULPs of the largest element. It grows with the steps of a
//! chain and for gradients, as there.
use super::{CallCase, ours};
use adamant::DType;
use adamant_bench::{interleave::Sides, protocol::Ask};
use adamant_conformance::{programs::replay, tolerance};

/// So many elements are looked at, spread over all.
const LOOKED_AT: u64 = 8192;
/// A head has no more numbers: dtypes and shapes of all results.
const HEAD: u64 = 512;
/// How often PyTorch's own distance from f64 a result may differ from PyTorch's.
const SPREADS: f64 = 4.0;
/// How much more a gradient may differ than a value.
const GRADIENT: f64 = 10.0;
/// How much the tolerance grows with each step.
const GROWTH: f64 = 4.0;

/// What a program shows of a call.
struct ShownHead {
    elements: u64,
    start: u64,
    spread: bool,
    types: Vec<f64>,
}
/// Why nothing is timed.
pub enum NotTimed {
    /// a program refuses the call, or has none of this name
    Refused(String),
    /// values, shapes or dtypes differ
    Differs(String),
}
/// The worst distance of a value, as a share of what is allowed.
pub fn agreed(sides: &mut Sides, case: &CallCase, peer: usize) -> Result<f64, NotTimed> {
    let (ours, theirs) = (head(sides, 0)?, head(sides, peer)?);
    if ours.types != theirs.types {
        return Err(NotTimed::Differs(format!("results of other types: {} here, {} there", words(&ours.types), words(&theirs.types))));
    }
    if !case.compared || ours.elements == 0 {
        return Ok(0.0);
    }
    let n = ours.elements;
    let looked: Vec<u64> = if n <= LOOKED_AT { (0..n).collect() } else { (0..LOOKED_AT).map(|k| k.wrapping_mul(0x9E37_79B9_7F4A_7C15) % n).collect() };
    let at = |start: u64| looked.iter().map(|p| p + start).collect::<Vec<u64>>();
    let got = values(sides, 0, at(ours.start))?;
    let want = values(sides, peer, at(theirs.start))?;
    let spread = if theirs.spread { values(sides, peer, at(theirs.start + n))? } else { vec![0.0; looked.len()] };
    compared(case, &ours.types, &looked, [&got, &want, &spread]).map_err(NotTimed::Differs)
}
fn compared(case: &CallCase, types: &[f64], looked: &[u64], [got, want, spread]: [&[f64]; 3]) -> Result<f64, String> {
    let results = results(types);
    // A gradient goes back through steps in the operands' own dtypes: it is as exact as the narrowest.
    let narrowest =
        case.inputs.iter().filter_map(|i| i.dtype.parse::<DType>().ok()).filter(|d| d.is_float()).map(|d| replay::tolerance(d).0).fold(0.0, f64::max);
    let leaves = if case.grad { case.inputs.iter().filter(|i| i.leaf).count() } else { 0 };
    let of = |place: u64| results.iter().rposition(|r| r.2 <= place).unwrap_or(0);
    let mut largest = vec![0.0f64; results.len()];
    for (&place, w) in looked.iter().zip(want) {
        if w.abs() < 1e300 {
            largest[of(place)] = largest[of(place)].max(w.abs());
        }
    }
    let (mut worst, mut wrong) = (0.0f64, None);
    for (((&place, &g), &w), &far) in looked.iter().zip(got).zip(want).zip(spread) {
        let k = of(place);
        let dtype = results[k].0;
        let distance = (g - w).abs();
        if g == w || far > 1e299 {
            continue;
        }
        let (rtol, atol) = replay::tolerance(dtype);
        let is_gradient = k + leaves >= results.len();
        let scale = GROWTH.powi(case.steps.len() as i32 - 1) * if is_gradient && leaves > 0 { GRADIENT * (narrowest / rtol).max(1.0) } else { 1.0 };
        let ulps = if dtype.size() == 2 { tolerance::COMPOSED_ULP / 8.0 } else { tolerance::COMPOSED_ULP };
        let composed = ulps * tolerance::ulp(dtype, largest[k]);
        let allowed = if dtype.is_float() { scale * (atol + rtol * w.abs()).max(composed) + SPREADS * far } else { 0.0 };
        let share = if allowed > 0.0 { distance / allowed } else { f64::INFINITY };
        worst = worst.max(share);
        if share > 1.0 && wrong.is_none() {
            wrong = Some(format!("result {k} ({dtype}) is {} instead of {} at {}", shown(g), shown(w), place - results[k].2));
        }
    }
    wrong.map_or(Ok(worst), Err)
}
fn shown(v: f64) -> String {
    match v {
        v if v > 1.65e308 => "NaN".into(),
        v if v > 1.5e308 => "inf".into(),
        v if v < -1.5e308 => "-inf".into(),
        v => format!("{v:e}"),
    }
}
/// Dtype, shape, and where its elements begin, of each result.
fn results(types: &[f64]) -> Vec<(DType, Vec<usize>, u64)> {
    let (mut all, mut at, mut begin) = (Vec::new(), 0, 0);
    while at + 1 < types.len() {
        let rank = types[at + 1] as usize;
        let shape: Vec<usize> = types.iter().skip(at + 2).take(rank).map(|&n| n as usize).collect();
        let n: usize = shape.iter().product();
        // An empty result has no place, and none is looked up in it.
        all.push((ours::dtype(types[at]).unwrap_or(DType::F32), shape, begin));
        (at, begin) = (at + 2 + rank, begin + n as u64);
    }
    all
}
fn words(types: &[f64]) -> String {
    let all: Vec<String> = results(types).iter().map(|(dtype, shape, _)| format!("{dtype}{shape:?}")).collect();
    all.join(" ")
}
fn values(sides: &mut Sides, k: usize, places: Vec<u64>) -> Result<Vec<f64>, NotTimed> {
    let answer = sides.ask(k, &Ask::Values { places });
    answer.error.map_or(Ok(answer.values), |why| Err(NotTimed::Refused(why)))
}
fn head(sides: &mut Sides, k: usize) -> Result<ShownHead, NotTimed> {
    let all = values(sides, k, (0..HEAD).collect())?;
    let start = all.first().copied().unwrap_or(0.0) as usize;
    if start < 3 || start > all.len() {
        return Err(NotTimed::Refused("it shows no head".into()));
    }
    Ok(ShownHead { elements: all[1] as u64, start: start as u64, spread: all[2] != 0.0, types: all[3..start].to_vec() })
}
