//! What clap finds wrong with a command line, told as every other failure is: words on stderr, and with `--json` exactly one
//! document on stdout.
use crate::out;
use adamant_train::Failure;
use clap::error::ErrorKind;
use serde_json::Value;
use std::{ffi::OsString, process::ExitCode};

const JSON: &str = "--json";
/// Options before the verb that take a value.
const WITH_VALUE: [&str; 2] = ["--trace", "--folded"];

/// The command line, with a `--json` before the verb put behind it, where the verbs have it.
pub fn ordered(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut given = arguments.peekable();
    let mut ordered: Vec<OsString> = given.next().into_iter().collect();
    let mut early = false;
    while let Some(option) = given.next_if(|a| a != "--" && a.as_encoded_bytes().starts_with(b"-")) {
        match option.to_str() {
            Some(JSON) => early = true,
            Some(name) if WITH_VALUE.contains(&name) => ordered.extend([option].into_iter().chain(given.next())),
            _ => ordered.push(option),
        }
    }
    let rest: Vec<OsString> = given.collect();
    let end = rest.iter().position(|a| a == "--").unwrap_or(rest.len());
    let again = early && !wants_json(&rest);
    let (options, values) = rest.split_at(end);
    ordered.extend_from_slice(options);
    ordered.extend(again.then(|| JSON.into()));
    ordered.extend_from_slice(values);
    ordered
}
/// Is a document asked for?
pub fn wants_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|a| *a != "--").any(|a| a == JSON)
}
/// Tells what clap has to say instead of a command: help, the version, or what is wrong.
pub fn tell(said: &clap::Error, arguments: &[OsString]) -> ExitCode {
    if matches!(said.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match out::sort(said.print(), 0) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                out::note(format!("error: {failure}"));
                ExitCode::from(failure.exit_code())
            }
        };
    }
    // With its colours, where there is a terminal.
    let _ = said.print();
    let (message, help) = parts(&said.render().to_string());
    let failure = Failure::Usage(message);
    if wants_json(arguments) {
        let mut document = failure.to_json();
        document["error"]["help"] = Value::from(help);
        let _ = out::line(document);
    }
    ExitCode::from(failure.exit_code())
}
/// What is wrong, and what to do: clap writes `error: WHAT`, then tips and the usage, with empty lines between them.
fn parts(text: &str) -> (String, String) {
    let one_line = |part: &str| part.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join(" ");
    let mut parts = text.trim().split("\n\n").map(one_line);
    let message = match parts.next().unwrap_or_default() {
        what if what.starts_with("error: ") => what["error: ".len()..].to_string(),
        // Without any argument it is the help that is written.
        _ => "a verb is missing".to_string(),
    };
    let help = parts.filter(|p| !p.starts_with("For more information")).collect::<Vec<_>>().join("; ");
    (message, if help.is_empty() { "`adamant help` lists the verbs, `adamant help VERB` what one takes".into() } else { help })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_before_the_verb_that_is_lost_or_said_twice() {
        for (given, want) in [
            ("a --json train x", "a train x --json"),
            ("a --json train --json x", "a train --json x"),
            ("a --json --json config validate x", "a config validate x --json"),
            ("a --profile --trace t --json train x -- --json", "a --profile --trace t train x --json -- --json"),
            ("a train x --json", "a train x --json"),
            ("a --trace --json train", "a --trace --json train"),
            ("a --json", "a --json"),
            ("a", "a"),
        ] {
            let ordered = ordered(given.split(' ').map(OsString::from));
            assert_eq!(ordered.join(" ".as_ref()).to_str(), Some(want), "{given}");
        }
    }
    #[test]
    fn a_refusal_that_is_told_in_pieces() {
        let text = "error: unexpected argument '--bogus' found\n\n  tip: a similar argument exists: '--json'\n\nUsage: adamant train <CONFIG>\n\nFor more information, try '--help'.\n";
        let told = ("unexpected argument '--bogus' found".to_string(), "tip: a similar argument exists: '--json'; Usage: adamant train <CONFIG>".to_string());
        assert_eq!(parts(text), told);
        let many = "error: the following required arguments were not provided:\n  <RUN>\n  <INPUTS>...\n\nUsage: x";
        assert_eq!(parts(many).0, "the following required arguments were not provided: <RUN> <INPUTS>...");
    }
}
