//! The rows on f64: their texts as C, compiled and run over the whole range of f64, against the table's exact functions.
use super::{Row, compiler};
use adamant_conformance::random::Random;
use adamant_ir::{DType, scalar::Class, special};
use adamant_kernels::{C, preamble};
use std::f64::consts::FRAC_2_PI;

/// Points of every kind, to which their neighbours belong: zeros, the ends of the range, whole numbers and halves, places where
/// methods meet, where powers run over.
const EDGES: [f64; 52] = [
    0.0, -0.0, 1e-310, -1e-310, 1e-300, -1e-200, 1e-18, -1e-17, 1e-8, -1e-5, 0.1, -0.1, 0.125, 0.3, 0.5, -0.5, 0.7, 0.8, 1.0, -1.0, 1.2, -1.25, 1.46163, 1.5,
    -1.5, 1.75, 2.0, -2.0, 2.5, 3.0, -3.0, -4.0, 5.0, -6.5, 9.0, -9.5, 10.0, 12.0, 20.0, -20.0, 25.0, 30.0, -30.5, -37.5, 40.0, 170.0, 200.0, -600.0, 709.78,
    -745.2, 1e6, 1e30,
];
fn edges() -> Vec<f64> {
    let ends = [f64::MIN_POSITIVE, f64::MAX, f64::MIN, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    EDGES.iter().flat_map(|x| [x.next_down(), *x, x.next_up()]).chain(ends).collect()
}
/// Where the sum of a row's series is as long as its first number is large.
fn is_long(row: Row) -> bool {
    matches!(row.name(), "igamma" | "igammac")
}
/// A number of any size.
fn anywhere(random: &mut Random) -> f64 {
    let most = if random.one_in(2) { 20 } else { 1020 };
    let size = 2f64.powi(random.between(0, 2 * most) as i32 - most as i32) * (1.0 + unit(random));
    if random.one_in(2) { -size } else { size }
}
fn unit(random: &mut Random) -> f64 {
    (random.bits() >> 11) as f64 / (1u64 << 53) as f64
}
/// Pairs of numbers for a row: inside its domain, of any size, and each edge with each.
fn points(row: Row, random: &mut Random) -> Vec<(f64, f64)> {
    let (dx, dy) = row.domain();
    let within = |d: (f64, f64), random: &mut Random| d.0 + (d.1 - d.0) * unit(random);
    let mut points: Vec<(f64, f64)> = (0..800).map(|_| (within(dx, random), within(dy, random))).collect();
    points.extend((0..800).map(|_| (anywhere(random), anywhere(random))));
    // Of one size, and near whole numbers.
    points.extend((0..400).map(|_| {
        let x = 60.0 * unit(random) - 30.0;
        (x, if random.one_in(2) { x.round() } else { x + 4.0 * unit(random) - 2.0 })
    }));
    points.extend((0..200).map(|_| {
        let x = random.between(0, 40) as f64 - 20.0;
        (x + (unit(random) - 0.5) * 2f64.powi(-(random.between(0, 50) as i32)), random.between(0, 12) as f64)
    }));
    // Two that are almost alike.
    points.extend((0..200).map(|_| {
        let x = anywhere(random).abs();
        (x, x * (1.0 + (unit(random) - 0.5) * 2f64.powi(-(random.between(0, 50) as i32))))
    }));
    let edges = edges();
    match row {
        Row::One(_) => points.extend(edges.iter().map(|&x| (x, 0.0))),
        Row::Two(_) => points.extend(edges.iter().flat_map(|&x| edges.iter().map(move |&y| (x, y)))),
    }
    if is_long(row) {
        points.retain(|(x, _)| !(x.abs() > 1e8 && x.abs() <= 1e12));
    }
    points
}
/// How many units in the last place a text may be off: what the functions of `<math.h>` leave of it, by the larger one of glibc's and
/// CUDA's. The translations of `special` are the same arithmetic.
fn allowed(row: Row) -> f64 {
    match row.name() {
        _ if row.class() == Class::ToBool => 0.0,
        "abs" | "neg" | "sign" | "square" | "floor" | "ceil" | "round" | "trunc" | "frac" | "deg2rad" | "rad2deg" | "sqrt" | "rsqrt" | "reciprocal"
        | "relu" | "softsign" | "copysign" | "add" | "sub" | "mul" | "div" | "maximum" | "minimum" | "fmax" | "fmin" | "floor_divide" | "div_trunc"
        | "remainder" | "fmod" | "heaviside" => 0.0,
        // Through erf and erfc, of which the table has Rust's; 5 units with CUDA's.
        "erfcx" | "erfinv" | "ndtri" | "log_ndtr" => 4.0,
        // A sum of many exponentials.
        "modified_bessel_k0" | "modified_bessel_k1" | "scaled_modified_bessel_k0" | "scaled_modified_bessel_k1" => 4.0,
        // The table's own are some units of the amplitude off beside the roots; the texts are not.
        "bessel_j0" | "bessel_j1" | "bessel_y0" | "bessel_y1" => 4.0,
        // The table's is a difference of two logarithms to the left of -2.
        "lgamma" => 3.0,
        "erfc" | "ndtr" | "sinc_derivative" | "trigamma" | "i1e" | "polygamma" => 3.0,
        _ => 2.0,
    }
}
/// What a unit is one of at least: the amplitude of what oscillates, and what a difference is one of.
fn floor_of(row: Row, x: f64) -> f64 {
    match row.name() {
        "bessel_j0" | "bessel_j1" | "bessel_y0" | "bessel_y1" if x.abs() >= 0.5 => (FRAC_2_PI / x.abs()).sqrt(),
        "airy_ai" if x < -1.0 => 0.5 / (-x).sqrt().sqrt(),
        "airy_ai_derivative" if x < -1.0 => 0.5 * (-x).sqrt().sqrt(),
        "lgamma" if x < -2.0 => special::lgamma(1.0 - x),
        _ => 0.0,
    }
}
/// The answers of rows that are wrong, of texts in which one number is replaced by another.
fn wrong_answers(cc: &str, name: &str, rows: &[Row], plant: Option<(&str, &str)>) -> Vec<String> {
    let texts: Vec<String> = rows.iter().map(|r| r.text(DType::F64, &C)).collect();
    let bodies: Vec<String> = texts.iter().map(|text| format!("return {text};")).collect();
    let mut program = compiler::dispatch(&preamble(&texts.join("\n"), &C), "double", &bodies);
    if let Some((from, to)) = plant {
        assert!(program.contains(from), "no text has {from}");
        program = program.replace(from, to);
    }
    let asked: Vec<(usize, f64, f64)> =
        (0..rows.len()).flat_map(|k| points(rows[k], &mut Random::new(k as u64)).into_iter().map(move |(x, y)| (k, x, y))).collect();
    let words: Vec<[u64; 3]> = asked.iter().map(|&(at, x, y)| [at as u64, x.to_bits(), y.to_bits()]).collect();
    let answers = compiler::run(cc, name, &program, &words);
    assert_eq!(answers.len(), asked.len());
    let mut worst = vec![(0.0f64, 0.0f64, 0.0f64); rows.len()];
    let mut wrong = vec![];
    for (&(at, x, y), &answer) in asked.iter().zip(&answers) {
        let (row, got) = (rows[at], f64::from_bits(answer));
        let want = row.exact(x, y);
        let error = if takes_either_zero(row) && got == want { 0.0 } else { off(got, want, floor_of(row, x)) };
        if error > worst[at].0 {
            worst[at] = (error, x, y);
        }
        if error > allowed(row) {
            wrong.push(format!("{}({x:e}, {y:e}) = {got:e}, not {want:e}: {error:.1} units off", row.name()));
        }
    }
    for (row, (error, x, y)) in rows.iter().zip(&worst) {
        println!("{name} {:28} {error:8.2} at {x:e}, {y:e}", row.name());
    }
    wrong
}
/// Of zeros of both signs these are either one.
fn takes_either_zero(row: Row) -> bool {
    matches!(row.name(), "maximum" | "minimum" | "fmax" | "fmin")
}
/// The distance in units in the last place of the wanted number, or of a floor. What is not a number, or zero, must be the same.
fn off(got: f64, want: f64, floor: f64) -> f64 {
    if got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    if !want.is_finite() || !got.is_finite() || got == want {
        return f64::INFINITY;
    }
    let scale = want.abs().max(floor).max(f64::MIN_POSITIVE);
    (got - want).abs() / 2f64.powi(scale.log2().floor() as i32) / f64::EPSILON
}

#[test]
fn c_texts_of_f64_mean_what_the_table_says() {
    let Some(cc) = compiler::find() else { return };
    let rows: Vec<Row> = Row::all().filter(|r| r.takes(DType::F64)).collect();
    let wrong = wrong_answers(&cc, "f64", &rows, None);
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.iter().take(40).map(String::as_str).collect::<Vec<_>>().join("\n"));
}
/// A digit of a number, one in each file of helpers.
const PLANTS: [(&str, &str, &str); 8] = [
    ("gelu", "2.3190468138462996e-17", "2.3190468138462996e-16"),
    ("rad2deg", "57.29577951308232", "57.29577951308322"),
    ("gelu_tanh", "0.044715, 2.1960211427085595e-18", "0.044715, 2.2960211427085595e-17"),
    ("ndtr", "4.833646656726457e-17", "4.833646656726457e-16"),
    ("digamma", "0.9676722454476212", "0.9676722454476222"),
    ("modified_bessel_k0", "-0.5772156649015329 - log_half", "-0.5772156649025329 - log_half"),
    ("airy_ai", "0.18428083525050565", "0.18428083525060565"),
    ("igammac", "1.0 / ((double)k + 2.0)", "1.0 / ((double)k + 2.1)"),
];
#[test]
fn a_fault_in_a_text_of_f64_is_found() {
    let Some(cc) = compiler::find() else { return };
    for (name, from, to) in PLANTS {
        let rows: Vec<Row> = Row::all().filter(|r| r.name() == name).collect();
        let wrong = wrong_answers(&cc, &format!("f64-{name}"), &rows, Some((from, to)));
        assert!(!wrong.is_empty(), "{name}: `{to}` in the place of `{from}` was not found");
    }
}
