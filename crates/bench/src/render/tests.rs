//! Texts in all formats, with names that would be markup.
use super::*;
use crate::{
    comparison::{ComparedSide, Evidence},
    gate::Gated,
    merge::merge,
    record::tests::example,
    verdict::{Pairs, judge},
};

const HOSTILE: &str = "<script>alert(1)</script>|`x` @someone =1+1 [a](b)";

fn samples(ns: f64) -> Vec<f64> {
    (0..40).map(|k| ns * (1.0 + 0.001 * (k % 5) as f64)).collect()
}
fn compared() -> Comparison {
    let side = |name: &str| ComparedSide { name: name.into(), facts: [("cpu".to_string(), name.to_string())].into() };
    let mut c = Comparison::between(side("main"), side(HOSTILE), Evidence::Turns, 0.01, "cargo xtask bench compare main self".into());
    let case = |name: &str, a: f64, b: f64| (name.to_string(), Ok(Pairs::new(samples(a), samples(b))));
    let gone = (HOSTILE.to_string(), Err(HOSTILE.to_string()));
    c.cases = judge(&[case("same", 1e6, 1e6), case("faster", 1e6, 8e5), case("slow", 1e6, 1.1e6), case("slowest", 1e6, 2e6), gone], 0.01);
    c
}
#[test]
fn regressions_that_are_not_first() {
    let c = compared();
    assert_eq!(c.sorted().iter().map(|k| &*k.workload).collect::<Vec<_>>(), ["slowest", "slow", "faster", HOSTILE, "same"]);
    assert!(c.headline().starts_with("2 slower, 1 faster, 1 same, 0 noisy, 1 not compared; time of B over A: 1.1"), "{}", c.headline());
    let text = comparison(&c, Format::Markdown);
    assert!(text.starts_with(markdown::MARK) && text.find("slowest").unwrap() < text.find("| faster").unwrap());
    assert!(text.contains("<details>") && text.contains("cargo xtask bench compare main self"));
    let json: Comparison = serde_json::from_str(&comparison(&c, Format::Json)).unwrap();
    assert_eq!(json, c);
}
#[test]
fn a_gate_that_could_not_tell_and_looks_like_one_that_passed() {
    let mut c = compared();
    for (case, interval) in c.cases.iter_mut().zip([[0.99, 1.01], [0.79, 0.81], [1.08, 1.12], [1.2, 2.5]]) {
        let gated = Gated::of_interval(0.09, case.ratio.unwrap(), interval);
        (case.gate, case.smallest_visible) = (Some(gated), gated.smallest_seen);
    }
    for format in [Format::Terminal, Format::Markdown, Format::Csv, Format::Json, Format::Html] {
        let text = comparison(&c, format).to_lowercase();
        for wanted in ["passed", "slower", if format == Format::Json { "undecided" } else { "could not tell" }] {
            assert!(text.contains(wanted), "{format:?}: no {wanted} in {text}");
        }
    }
    let markdown = comparison(&c, Format::Markdown);
    let (before, _) = markdown.split_once("<details>").unwrap();
    assert!(before.contains("| slow |") && before.contains("could not tell") && before.contains("new processes"), "{before}");
}
#[test]
fn a_name_that_becomes_markup() {
    let mut record = example(HOSTILE);
    record.cases[0].workload = HOSTILE.into();
    record.cases[2].error = Some(HOSTILE.into());
    let texts = |format| [comparison(&compared(), format), table(&merge(std::slice::from_ref(&record)), format)];
    for text in texts(Format::Html) {
        assert!(!text.contains("<script>alert"), "{text}");
    }
    for text in texts(Format::Markdown) {
        assert!(!text.contains("<script>") && !text.contains("@someone") && !text.contains("`x`") && !text.contains("[a](b)"), "{text}");
    }
    let mut formula = record.clone();
    formula.cases[0].workload = "=1+1".into();
    assert!(table(&merge(&[formula]), Format::Csv).contains("\n =1+1,"));
}
#[test]
fn a_comment_that_is_too_long_to_be_posted() {
    let mut c = compared();
    let one = c.cases[2].clone();
    c.cases = (0..5000).map(|k| crate::verdict::Compared { workload: format!("case {k}"), ..one.clone() }).collect();
    let text = comparison(&c, Format::Markdown);
    assert!(text.len() < 65_000 && text.contains("more rows are in the artifact"), "{}", text.len());
}
#[test]
fn csv_whose_rows_are_of_different_length() {
    for text in [comparison(&compared(), Format::Csv), table(&merge(&[example("a"), example("b")]), Format::Csv)] {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let width = reader.headers().unwrap().len();
        assert!(reader.records().all(|r| r.unwrap().len() == width));
    }
}
#[test]
fn times_in_a_unit_that_does_not_suit() {
    assert_eq!([0.5, 12.0, 1234.0, 99_999.0, 5e6, 2.5e9].map(time), ["0.500 ns", "12.00 ns", "1.234 µs", "100.00 µs", "5.000 ms", "2.500 s"]);
}
#[test]
fn a_page_that_loads_something_or_hides_a_failure() {
    let text = table(&merge(&[example("a"), example("b")]), Format::Html);
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!text.replace("http://www.w3.org/2000/svg", "").contains(outside), "{outside}");
    }
    for wanted in ["wrong result: element 0", "Roofline: adamant, cpu avx2 t2 @ a", "GFLOP/s", "<meter", "75 %"] {
        assert!(text.contains(wanted), "{wanted}");
    }
}
