//! Do programs that are measured together give the same? Whoever computes something else has no time.
use crate::{
    interleave::{SideState, Sides},
    protocol::{About, Ask},
};
use adamant::DType;

/// Withdraws the programs whose output is another one than the first's, which its own check found right: elements may be so far `apart`, as
/// a share of the largest. Where they `must` show an output, one that shows none is withdrawn too.
pub fn agree(sides: &mut Sides, states: &mut [SideState], apart: impl Fn(&About) -> f64, must: bool) {
    // Spread over all of an output, whatever its size.
    let places: Vec<u64> = (0..64u64).map(|k| k.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20).collect();
    let ask = Ask::Values { places };
    let Some(about) = states[0].about.clone().filter(|_| states[0].error.is_none()) else { return };
    let ours = sides.ask(0, &ask).values;
    let allowed = apart(&about) * ours.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    for k in 1..states.len() {
        if states[k].error.is_some() || (ours.is_empty() && !must) {
            continue;
        }
        let theirs = sides.ask(k, &ask).values;
        if ours.is_empty() || theirs.is_empty() {
            states[k].error = must.then(|| "its output is not shown, so it cannot be compared".into());
            continue;
        }
        let worst = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        if worst > allowed || worst.is_nan() || theirs.len() != ours.len() {
            states[k].error = Some(format!("wrong result: its output is {worst:.3e} away from that of {}, {allowed:.3e} is allowed", sides.subjects()[0].name));
        } else {
            states[k].worst = Some(worst / allowed.max(1e-300));
        }
    }
}
/// How far outputs of two precisions may be apart, as a share of the largest element: eight units in the last place of the coarser one.
pub fn apart_in(precisions: &[Option<DType>]) -> f64 {
    let unit = |dtype: &Option<DType>| match dtype {
        Some(DType::BF16) => 2f64.powi(-8),
        Some(DType::F16) => 2f64.powi(-11),
        // Two orders of summation, over thousands of terms.
        _ => 2f64.powi(-13),
    };
    8.0 * precisions.iter().map(unit).fold(0.0, f64::max)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::{child::Subject, workload::Group};

    /// Two programs that show so much, as `agree` left them.
    fn agreed(shown: [&str; 2], apart: f64, must: bool) -> SideState {
        let program = |values: &str| {
            let script = format!("echo '{{\"protocol\": 1, \"impl\": \"x\"}}'; read line; echo '{{\"values\": {values}}}'; read line");
            Subject { arguments: vec!["-c".into(), script.into()], name: "shell".into(), ..Subject::program("/bin/sh".into(), 1, "cpu") }
        };
        let about = About { group: Group::Main, dtype: "f32".into(), elements: None, unit: None, amount: None, intensity: None };
        let mut states = vec![SideState { about: Some(about), ..SideState::default() }; 2];
        agree(&mut Sides::new(shown.map(program).into()), &mut states, |_| apart, must);
        assert_eq!(states[0].error, None);
        states.remove(1)
    }
    #[test]
    fn a_stranger_that_keeps_its_time() {
        assert_eq!(agreed(["[1.0, 4.0]", "[1.0, 4.1]"], 0.05, true).worst.map(|w| (w * 1e6).round()), Some(5e5));
        for other in ["[1.0, 4.3]", "[1.3, 4.0]", "[1.0]", "[1.0, 4.0, 0.0]"] {
            assert!(agreed(["[1.0, 4.0]", other], 0.05, false).error.is_some(), "{other}");
        }
        for silent in [["[]", "[1.0]"], ["[1.0]", "[]"], ["[]", "[]"], ["[1.0]", "[null]"]] {
            assert!(agreed(silent, 0.05, true).error.is_some() && agreed(silent, 0.05, false).error.is_none(), "{silent:?}");
        }
    }
    #[test]
    fn the_coarser_precision_counts() {
        assert_eq!(apart_in(&[None, Some(DType::BF16)]), 1.0 / 32.0);
        assert_eq!(apart_in(&[Some(DType::F16), None]), 1.0 / 256.0);
        assert!(apart_in(&[None, Some(DType::F32)]) < 1e-3);
    }
}
