//! What formulas give is their meaning, the same on every instruction set and at every place.
use super::*;
use adamant_runtime::scalar::Binary;

fn exact(f: PartialFn) -> fn(f64, f64) -> f64 {
    let row = Binary::ALL.iter().find(|row| PartialFn::named(row.row().name) == Some(f));
    row.unwrap_or_else(|| unreachable!("{f:?} is of no row")).row().exact
}
/// Magnitudes of all kinds, whole numbers, multiples of each other, small ones and special ones.
fn numbers() -> Vec<f32> {
    let mut state = 7u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    let mut all: Vec<f32> = (0..3000).map(|_| f32::from_bits(next())).collect();
    all.extend((0..3000).map(|_| (next() % 2001) as f32 - 1000.0));
    all.extend((0..3000).map(|_| ((next() % 2001) as f32 - 1000.0) * 0.1));
    all.extend((0..3000).map(|_| next() as f32 / u32::MAX as f32 * 20.0 - 8.0));
    all.extend((0..1000).map(|_| (next() % 12) as f32));
    all.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, f32::MAX, 1e-45]);
    all
}
/// Steps between two numbers, 0 between those that count as one.
fn apart(got: f64, want: f64, step: impl Fn(f64) -> f64) -> f64 {
    if got == want || got.is_nan() && want.is_nan() { 0.0 } else { (got - want).abs() / step(want.abs()) }
}
fn step_f32(of: f64) -> f64 {
    let of = (of as f32).max(f32::MIN_POSITIVE);
    f64::from(f32::from_bits(of.to_bits() + 1)) - f64::from(of)
}
fn step_f64(of: f64) -> f64 {
    let of = of.max(f64::MIN_POSITIVE);
    f64::from_bits(of.to_bits() + 1) - of
}
/// Operands beside each other in many ways. The meaning of the incomplete gamma functions takes its time: of them some, and no vast ones.
fn operands(f: PartialFn) -> impl Iterator<Item = (Vec<f32>, Vec<f32>)> {
    let mut x = numbers();
    if matches!(f, PartialFn::Igamma | PartialFn::Igammac) {
        x = x.into_iter().skip(3000).step_by(7).filter(|x| x.abs() < 1e4).collect();
    }
    [0, 1, 17, 3001, 6007, 9001].into_iter().map(move |shift| (x.clone(), x.iter().cycle().skip(shift).take(x.len()).copied().collect()))
}

#[test]
fn an_f32_that_is_not_the_meaning() {
    for f in PartialFn::ALL {
        let exact = exact(f);
        for (x, y) in operands(f) {
            let mut out = vec![0.0f32; x.len()];
            partial_f32(Isa::detect(), f, exact, &x, &y, &mut out);
            for k in 0..x.len() {
                let want = exact(x[k] as f64, y[k] as f64) as f32;
                let error = apart(out[k].into(), want.into(), step_f32);
                let is_same = error == 0.0 && (want.is_nan() || out[k].is_sign_negative() == want.is_sign_negative());
                assert!(if f.divides() { is_same } else { error <= 1.0 }, "{f:?}({}, {}) = {}, not {want}", x[k], y[k], out[k]);
            }
        }
    }
}
#[test]
fn an_f64_that_is_not_the_meaning() {
    for f in PartialFn::ALL.into_iter().filter(|f| f.is_double()) {
        let exact = exact(f);
        for (x, y) in operands(f) {
            // Numbers that no f32 is.
            let x: Vec<f64> = x.into_iter().map(|x| f64::from(x) * 1.000_000_123).collect();
            let y: Vec<f64> = y.into_iter().map(|y| f64::from(y) * if f.divides() { 1.0 } else { 0.999_999_871 }).collect();
            let mut out = vec![0.0; x.len()];
            partial_f64(Isa::detect(), f, exact, &x, &y, &mut out);
            for k in 0..x.len() {
                let want = exact(x[k], y[k]);
                let error = apart(out[k], want, step_f64);
                let is_same = error == 0.0 && (want.is_nan() || out[k].is_sign_negative() == want.is_sign_negative());
                assert!(if f.divides() { is_same } else { error <= 3.0 }, "{f:?}({}, {}) = {}, not {want}: {error}", x[k], y[k], out[k]);
            }
        }
    }
}
#[test]
fn a_bit_that_depends_on_the_set_or_the_place() {
    let bits = |out: &[f32]| out.iter().map(|v| if v.is_nan() { 0 } else { v.to_bits() }).collect::<Vec<u32>>();
    for f in PartialFn::ALL {
        for (x, y) in operands(f).skip(1) {
            let run = |isa: Isa, from: usize, n: usize| {
                let (mut out, mut wide) = (vec![0.0f32; n], vec![0.0f64; n]);
                let of = |all: &[f32]| all[from..from + n].iter().map(|&v| f64::from(v)).collect::<Vec<f64>>();
                partial_f32(isa, f, exact(f), &x[from..from + n], &y[from..from + n], &mut out);
                partial_f64(isa, f, exact(f), &of(&x), &of(&y), &mut wide);
                let wide: Vec<u64> = wide.iter().map(|v| if v.is_nan() { 0 } else { v.to_bits() }).collect();
                (bits(&out), if f.is_double() { wide } else { vec![0; n] })
            };
            let (want, want_wide) = run(Isa::Scalar, 0, x.len());
            for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
                for (from, n) in [(0, x.len()), (5, 1), (900, 3), (601, 259)] {
                    let (got, got_wide) = run(isa, from, n);
                    assert!(got == want[from..from + n] && got_wide == want_wide[from..from + n], "{f:?} on {isa:?}, {n} from {from}");
                }
            }
        }
    }
}
