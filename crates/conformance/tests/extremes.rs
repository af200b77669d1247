//! Extreme inputs: never NaN or infinite where the exact value is a number, and at most 4 units in the last place from it (at
//! most 2 in the median), against numbers of 320 bits. What may be farther off, because the value hangs on its inputs' last bits,
//! has its reason in the table, and is counted. `cargo xtask extremes` runs more cases than these tests, by `ADAMANT_EXTREMES` =
//! "cases seed", or "cases seed name" for what has the name.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod extremes {
    pub mod big;
    pub mod compare;
    pub mod densities;
    pub mod draw;
    pub mod dual;
    pub mod functions;
    pub mod report;
    pub mod rows;
    pub mod scalars;
    pub mod special;
}
use adamant_backend_cpu::{Context, CpuBackend};
use adamant_core::{
    Device,
    scalar::{Binary, Unary},
};
use extremes::{big::Big, densities, functions, report, rows, scalars};

/// Cases of each function, and the seed.
fn numbers(usual: usize) -> (usize, u64) {
    let words = std::env::var("ADAMANT_EXTREMES").unwrap_or_default();
    let mut words = words.split_whitespace();
    let count = words.next().and_then(|w| w.parse().ok()).unwrap_or(usual);
    (count, words.next().and_then(|w| w.parse().ok()).unwrap_or(1))
}
/// Is a function among those that are asked for? All are, unless `ADAMANT_EXTREMES` has a name.
fn asked(name: &str) -> bool {
    let words = std::env::var("ADAMANT_EXTREMES").unwrap_or_default();
    words.split_whitespace().nth(2).is_none_or(|part| name.contains(part))
}
fn cpu() -> Device {
    Context::new(CpuBackend::builder().threads(1)).unwrap().device()
}
fn paths() -> scalars::Paths {
    let (count, seed) = numbers(150);
    scalars::Paths { cpu: cpu(), count, seed }
}
fn holds(all: &[report::Measured]) {
    let failed = report::conclude(all);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn scalar_functions_of_one_number() {
    let paths = paths();
    holds(&Unary::ALL.iter().filter(|f| asked(f.name())).flat_map(|f| scalars::unary(&paths, *f)).collect::<Vec<_>>());
}
#[test]
fn scalar_functions_of_two_numbers() {
    let paths = paths();
    holds(&Binary::ALL.iter().filter(|f| asked(f.name())).flat_map(|f| scalars::binary(&paths, *f)).collect::<Vec<_>>());
}
#[test]
fn functions_of_rows() {
    let (count, seed) = numbers(60);
    holds(&rows::run(cpu(), count, seed));
}
#[test]
fn densities_of_families() {
    let (count, seed) = numbers(40);
    holds(&densities::run(cpu(), count, seed, &asked));
}
#[test]
fn planted_faults_are_found() {
    for all in rows::functions(rows::PLANTED, cpu(), 200, 1).chunks(4) {
        assert!(all.iter().any(|m| !m.holds()), "{} was not found", all[0].name);
        println!("found: {}", all.iter().find(|m| !m.holds()).map_or_else(String::new, |m| m.line().chars().take(150).collect()));
    }
}
/// The numbers of 320 bits are themselves compared: with mpmath's (`extremes/mpmath/values.py`), to 128 bits.
#[test]
fn the_reference_has_128_bits() {
    let rows: Vec<[String; 3]> = serde_json::from_str(include_str!("extremes/mpmath/values.json")).unwrap();
    assert!(rows.len() > 300);
    let mut worst = 0.0f64;
    for [name, at, want] in &rows {
        let at: Vec<f64> = at.split(' ').map(|x| x.parse().unwrap()).collect();
        let unary = Unary::ALL.iter().find(|f| f.name() == name).and_then(|f| functions::unary(*f, at[0], at[0]));
        let got = match (unary, &at[..]) {
            (Some(got), _) => got,
            (None, [x, y]) => functions::binary(*Binary::ALL.iter().find(|f| f.name() == name).unwrap(), *x, *y).unwrap(),
            _ => panic!("{name} is no row"),
        };
        let want = Big::parse(want);
        let off = if want.is_zero() { got.abs() } else { ((&got - &want) / &want).abs() }.to_f64();
        worst = worst.max(off);
        assert!(off < 2f64.powi(-128), "{name}({at:?}): {got} and not {want}, off by {off:e}");
    }
    println!("{} values, the worst off by {worst:e}", rows.len());
}
