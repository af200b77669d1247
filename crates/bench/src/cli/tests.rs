//! What `docs/ci-benchmarks.md` tells users to type.
use super::BenchProgram;
use clap::Parser;

/// The words of a shell's line up to what the shell does with it, quoted ones as one.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words.into_iter().filter(|w| !w.is_empty()).take_while(|w| !["#", "&&", "||", "|", ">"].contains(&w.as_str())).collect()
}
#[test]
fn a_command_of_the_document_that_is_no_command() {
    let text = include_str!("../../../../docs/ci-benchmarks.md");
    let told = text.lines().filter_map(|line| line.split_once("cargo bench --bench speed")?.1.split_once(" -- "));
    let told: Vec<Vec<String>> = told.map(|(_, behind)| words(behind)).collect();
    let verbs: Vec<&str> = told.iter().map(|words| words[0].as_str()).collect();
    for verb in ["run", "compare", "gate", "calibrate", "merge", "report", "history"] {
        assert!(verbs.contains(&verb), "{verb}: {verbs:?}");
    }
    for words in &told {
        let parsed = BenchProgram::try_parse_from(std::iter::once("bench").chain(words.iter().map(String::as_str)));
        assert!(parsed.is_ok(), "{words:?}: {}", parsed.err().map(|e| e.to_string()).unwrap_or_default());
    }
}
