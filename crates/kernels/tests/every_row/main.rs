//! Every row of the scalar table as text: WGSL is parsed and validated by naga, C is compiled and run, and so is the
//! arithmetic that WGSL runs, as C. A new row is tested by being in the table.
use adamant_ir::{
    DType, Scalar, reference,
    scalar::{Binary, Class, Unary},
};
use adamant_kernels::{C, Dialect, Wgsl, binary_text, preamble, to_c, unary_text};
#[path = "../compiler/mod.rs"]
mod compiler;
mod wide;

/// A row, of one or two operands.
#[derive(Clone, Copy)]
enum Row {
    One(Unary),
    Two(Binary),
}
impl Row {
    fn all() -> impl Iterator<Item = Row> {
        Unary::ALL.iter().map(|&f| Row::One(f)).chain(Binary::ALL.iter().map(|&f| Row::Two(f)))
    }
    fn name(self) -> &'static str {
        match self {
            Row::One(f) => f.name(),
            Row::Two(f) => f.name(),
        }
    }
    fn class(self) -> Class {
        match self {
            Row::One(f) => f.row().class,
            Row::Two(f) => f.row().class,
        }
    }
    fn text(self, dtype: DType, dialect: &dyn Dialect) -> String {
        match self {
            Row::One(f) => unary_text(f, dtype, dialect, "x"),
            Row::Two(f) => binary_text(f, dtype, dialect, "x", "y"),
        }
        .unwrap()
    }
    fn exact(self, x: f64, y: f64) -> f64 {
        match self {
            Row::One(f) => (f.row().exact)(x),
            Row::Two(f) => (f.row().exact)(x, y),
        }
    }
    fn domain(self) -> ((f64, f64), (f64, f64)) {
        match self {
            Row::One(f) => (f.row().domain, (0.0, 0.0)),
            Row::Two(f) => f.row().domain,
        }
    }
    fn ulp(self) -> f64 {
        match self {
            Row::One(f) => f.row().ulp,
            Row::Two(f) => f.row().ulp,
        }
    }
    fn takes(self, dtype: DType) -> bool {
        match self {
            Row::One(f) => f.infer(dtype).is_ok() && (f.row().int.is_some() || dtype.is_float()),
            Row::Two(f) => f.infer(dtype).is_ok() && (f.row().int.is_some() || dtype.is_float()),
        }
    }
    fn on_integers(self, x: i64, y: i64, dtype: DType) -> i64 {
        let wrapped = match self {
            Row::One(f) => reference::unary(f, Scalar::Int(x), DType::I64).to_i64(),
            // A fault's element is zero.
            Row::Two(f) => reference::binary(f, Scalar::Int(x), Scalar::Int(y), dtype).map_or(0, Scalar::to_i64),
        };
        if self.class() == Class::ToBool { wrapped } else { reference::wrap_int(wrapped, dtype) }
    }
}

#[test]
fn every_wgsl_text_is_valid() {
    let mut wrong = vec![];
    for row in Row::all() {
        for (dtype, t) in [(DType::F32, "f32"), (DType::I32, "i32"), (DType::U32, "u32"), (DType::U8, "u32"), (DType::I64, "i64"), (DType::Bool, "bool")] {
            if !row.takes(dtype) {
                continue;
            }
            let dialect = if dtype == DType::I64 { Wgsl::WIDE } else { Wgsl::PLAIN };
            let text = row.text(dtype, dialect);
            let result = if row.class() == Class::ToBool { "bool" } else { t };
            let source =
                format!("{}\nfn f(x: {t}, y: {t}) -> {result} {{ return {text}; }}\n@compute @workgroup_size(1) fn main() {{}}\n", preamble(&text, dialect));
            if let Err(e) = compiler::validate(&source) {
                wrong.push(format!("{} of {dtype}: {e}\n{text}", row.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Zeros of these oscillating functions are not held to units in the last place of the result but of the amplitude.
fn floor_of(row: Row) -> f64 {
    match row.name() {
        "bessel_j0" | "bessel_j1" | "bessel_y0" | "bessel_y1" | "sinc_derivative" | "airy_ai" | "airy_ai_derivative" => 0.5,
        // ln of a sum near one, and the difference of two sums.
        "logaddexp" | "logaddexp2" | "digamma" => 0.25,
        _ => 0.0,
    }
}
/// A point inside the domain by a low-discrepancy sequence.
fn sample(domain: (f64, f64), k: usize, step: f64) -> f32 {
    (domain.0 + (domain.1 - domain.0) * (0.5 + k as f64 * step).fract()) as f32
}
fn check_floats(kind: &str, function: impl Fn(Row) -> String, definitions: &str, slack: f64) {
    let Some(cc) = compiler::find() else { return };
    let rows: Vec<Row> = Row::all().filter(|r| r.takes(DType::F32)).collect();
    let bodies: Vec<String> = rows.iter().map(|&r| format!("return {};", function(r))).collect();
    let mut asked = vec![];
    for (at, row) in rows.iter().enumerate() {
        let (dx, dy) = row.domain();
        for k in 0..400 {
            asked.push((at, sample(dx, k, 0.618_033_988_749_895), sample(dy, k, 0.754_877_666_246_693)));
        }
        for x in [0.0, -0.0, 1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e30, -1e30, 3.0, -2.5] {
            for y in [0.0, 2.0, -3.0, f32::NAN, f32::INFINITY] {
                asked.push((at, x, y));
            }
        }
    }
    let program = compiler::dispatch(definitions, "float", &bodies);
    let bits: Vec<[u64; 3]> = asked.iter().map(|&(at, x, y)| [at as u64, x.to_bits() as u64, y.to_bits() as u64]).collect();
    let answers = compiler::run(&cc, kind, &program, &bits);
    assert_eq!(answers.len(), asked.len());
    let mut worst = vec![(0.0f64, 0.0f32, 0.0f32); rows.len()];
    let mut wrong = vec![];
    for (k, (&(at, x, y), &answer)) in asked.iter().zip(&answers).enumerate() {
        let row = rows[at];
        let (got, exact) = (f32::from_bits(answer as u32), row.exact(x as f64, y as f64));
        let want = exact as f32;
        let inside = k % 450 < 400;
        // At special points the kind of the result must be right: NaN, which infinity, or a number near it.
        if want.is_nan() || want.is_infinite() || !got.is_finite() {
            let same = (want.is_nan() && got.is_nan()) || got == want;
            if !same && (inside || unusual(row, x, y).is_none()) {
                wrong.push(format!("{}({x}, {y}) = {got}, not {want}", row.name()));
            }
            continue;
        }
        if inside {
            let scale = exact.abs().max(floor_of(row)).max(f32::MIN_POSITIVE as f64);
            let unit = 2f64.powf(scale.log2().floor() - 23.0);
            let error = (got as f64 - exact).abs() / unit;
            if error > worst[at].0 {
                worst[at] = (error, x, y);
            }
        }
    }
    for (row, (error, x, y)) in rows.iter().zip(&worst) {
        if *error > row.ulp() * slack {
            wrong.push(format!("{}({x}, {y}): {error:.1} units off, {} allowed", row.name(), row.ulp() * slack));
        }
        println!("{kind} {:20} {error:6.2}", row.name());
    }
    assert!(wrong.is_empty(), "{kind}: {} wrong\n{}", wrong.len(), wrong.join("\n"));
}
/// Where f32 text cannot give what the exact meaning rounds to, and why.
fn unusual(row: Row, x: f32, _y: f32) -> Option<&'static str> {
    match row.name() {
        "gelu_tanh" | "tanhshrink" if x.abs() >= 1e30 => Some("the cube overflows"),
        "igamma" | "igammac" | "zeta" | "polygamma" if x.abs() >= 1e30 => Some("out of the range of its series in f32"),
        _ => None,
    }
}

#[test]
fn c_texts_mean_what_the_table_says() {
    let all: Vec<String> = Row::all().filter(|r| r.takes(DType::F32)).map(|r| r.text(DType::F32, &C)).collect();
    check_floats("c", |r| r.text(DType::F32, &C), &preamble(&all.join("\n"), &C), 1.0);
}
#[test]
fn wgsl_arithmetic_means_what_the_table_says() {
    let all: Vec<String> = Row::all().filter(|r| r.takes(DType::F32)).map(|r| r.text(DType::F32, Wgsl::PLAIN)).collect();
    let definitions = preamble("", &C) + &to_c(&preamble(&all.join("\n"), Wgsl::PLAIN), false);
    check_floats("wgsl", |r| to_c(&r.text(DType::F32, Wgsl::PLAIN), false), &definitions, 2.0);
}

#[test]
fn integer_texts_mean_what_the_table_says() {
    let Some(cc) = compiler::find() else { return };
    let mut wrong = vec![];
    for dtype in [DType::I32, DType::U32, DType::I8, DType::U8, DType::I64, DType::Bool] {
        let rows: Vec<Row> = Row::all().filter(|r| r.takes(dtype)).collect();
        let texts: Vec<String> = rows.iter().map(|r| r.text(dtype, &C)).collect();
        let t = C.register(dtype).unwrap();
        let bodies: Vec<String> = texts.iter().map(|text| format!("return ({t})({text});")).collect();
        let mut asked = vec![];
        let numbers: &[i64] = if dtype == DType::Bool {
            &[0, 1]
        } else {
            &[0, 1, 2, 3, 7, 31, 32, 100, 127, -1, -2, -7, -100, -128, i64::MAX, i64::MIN, i32::MIN as i64, 1 << 30]
        };
        for at in 0..rows.len() {
            for &x in numbers {
                for &y in numbers {
                    asked.push((at, reference::wrap_int(x, dtype), reference::wrap_int(y, dtype)));
                }
            }
        }
        let program = compiler::dispatch(&preamble(&texts.join("\n"), &C), t, &bodies);
        let bits: Vec<[u64; 3]> = asked.iter().map(|&(at, x, y)| [at as u64, x as u64, y as u64]).collect();
        let answers = compiler::run(&cc, dtype.name(), &program, &bits);
        for (&(at, x, y), &answer) in asked.iter().zip(&answers) {
            let want = rows[at].on_integers(x, y, dtype);
            let got = reference::wrap_int(answer as i64, dtype);
            if got != want {
                wrong.push(format!("{}({x}, {y}) of {dtype} = {got}, not {want}", rows[at].name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}
