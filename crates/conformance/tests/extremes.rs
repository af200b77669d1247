//! Extreme inputs: never NaN or infinite where the exact value is a number, and at most 4 units in the last place from it (at
//! most 2 in the median), against numbers of 320 bits. `ADAMANT_EXTREMES` = "count seed" runs more.
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
use adamant_core::scalar::{Binary, Unary};
use extremes::{densities, report, rows, scalars};

fn numbers() -> (usize, u64) {
    let words = std::env::var("ADAMANT_EXTREMES").unwrap_or_default();
    let mut words = words.split_whitespace();
    let count = words.next().and_then(|w| w.parse().ok()).unwrap_or(200);
    (count, words.next().and_then(|w| w.parse().ok()).unwrap_or(1))
}
fn paths() -> scalars::Paths {
    let (count, seed) = numbers();
    let cpu = Context::new(CpuBackend::builder().threads(1)).unwrap().device();
    scalars::Paths { cpu, count, seed }
}
#[test]
fn scalar_functions_of_one_number() {
    let paths = paths();
    let all: Vec<_> = Unary::ALL.iter().flat_map(|f| { let t = std::time::Instant::now(); let r = scalars::unary(&paths, *f); if t.elapsed().as_secs_f64() > 1.0 { println!("{} {:?}", f.name(), t.elapsed()); } r }).collect();
    let failed = report::conclude(&all);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
#[test]
fn scalar_functions_of_two_numbers() {
    let paths = paths();
    let all: Vec<_> = Binary::ALL.iter().flat_map(|f| scalars::binary(&paths, *f)).collect();
    let failed = report::conclude(&all);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
#[test]
fn functions_of_rows() {
    let paths = paths();
    let failed = report::conclude(&rows::run(paths.cpu, paths.count, paths.seed));
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
#[test]
fn densities_of_families() {
    let paths = paths();
    let failed = report::conclude(&densities::run(paths.cpu, paths.count, paths.seed));
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
