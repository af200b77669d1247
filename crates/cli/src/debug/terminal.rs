//! `adamant debug RUN --terminal`: a debugger that reads commands, a line each, from a person or a file.
//!
//! A command is a request of the control protocol in fewer letters. All go over one connection: breakpoints belong to it, and the run goes on
//! when it ends. Where nobody types, the first command that fails ends the session.
use crate::out;
use adamant_train::{
    Failure,
    control::{ControlClient, ControlRequest},
};
use serde_json::{Map, Value, json};
use std::{
    io::{BufRead, IsTerminal, Write, stdin, stdout},
    path::Path,
    thread,
    time::Duration,
};

const HELP: &str = "\
break [step N] [layer GLOB] [op GLOB] [phase P] [when CONDITION]
                     stops before the step, or behind each op for which all that is given holds;
                     phases: forward, loss, backward, clip, optimizer; conditions: nonfinite, nan, inf,
                     or absmax, max, min, mean, std, zeros with >, >=, <, <= and a number
unbreak [N]          one breakpoint less, or all
continue             goes on to the next breakpoint
next [op|layer|step] goes on to the next one; without a word, the next op
where                where it is stopped, what can be looked at, breakpoints
look NAME            figures of a value
slice NAME [PLACE]   elements: 0, 2:5, :
set NAME PLACE = X   elements become a number
status, checkpoint, pause, profile
quit                 leaves; breakpoints go, the run goes on";

/// How often a run that goes on is asked whether it has stopped.
pub const EVERY: Duration = Duration::from_millis(10);
/// The longest command, in bytes.
const LONGEST: usize = 4096;

/// What a line asks for.
#[derive(Debug, PartialEq)]
enum Typed {
    Nothing,
    Help,
    Quit,
    Request(ControlRequest),
}
/// Serves a person, or a script, until it ends; what is to be done first is said before.
///
/// # Errors
/// As `ControlClient::attach`; where nobody types, those of the first command that fails.
pub fn run(run: &Path, as_json: bool, first: &[String]) -> Result<(), Failure> {
    let mut client = ControlClient::attach(run)?;
    let is_typed = stdin().is_terminal() && stdout().is_terminal();
    let mut lines = stdin().lock();
    for line in first {
        if let Typed::Request(request) = typed(line)? {
            ask(&mut client, &request, as_json)?;
        }
    }
    loop {
        if is_typed {
            out::write("(debug) ")?;
        }
        let Some(line) = read(&mut lines)? else { return Ok(()) };
        let done = match typed(&line) {
            Ok(Typed::Nothing) => continue,
            Ok(Typed::Help) => out::line(HELP),
            Ok(Typed::Quit) => return Ok(()),
            Ok(Typed::Request(request)) => ask(&mut client, &request, as_json),
            Err(failure) => Err(failure),
        };
        match done {
            Err(failure) if is_typed && client.status().is_ok() => out::note(format!("error: {failure}")),
            done => done?,
        }
        let _ = stdout().flush();
    }
}
/// The next line; none at the end.
fn read(lines: &mut impl BufRead) -> Result<Option<String>, Failure> {
    let refused = |what: &str| Err(Failure::Usage(format!("a command {what}")));
    let mut line = Vec::new();
    let bytes = std::io::Read::take(&mut *lines, LONGEST as u64 + 1).read_until(b'\n', &mut line).map_err(|e| Failure::Run(format!("stdin: {e}")))?;
    match String::from_utf8(line) {
        _ if bytes == 0 => Ok(None),
        _ if bytes > LONGEST => refused(&format!("has at most {LONGEST} bytes")),
        Ok(line) => Ok(Some(line)),
        Err(_) => refused("is no text"),
    }
}
/// What a line says: the first letters of a word that no other word has are enough.
fn typed(line: &str) -> Result<Typed, Failure> {
    const WORDS: [&str; 14] =
        ["break", "unbreak", "continue", "next", "where", "look", "slice", "set", "status", "checkpoint", "pause", "profile", "help", "quit"];
    let line = line.split('#').next().unwrap_or_default().trim();
    let (word, rest) = line.split_once(char::is_whitespace).map_or((line, ""), |(word, rest)| (word, rest.trim()));
    if word.is_empty() {
        return Ok(Typed::Nothing);
    }
    // Of words that begin alike the one that is typed most has the short form.
    let short = [("b", "break"), ("c", "continue"), ("n", "next"), ("w", "where"), ("s", "slice"), ("l", "look"), ("p", "pause"), ("q", "quit"), ("h", "help")];
    let meant = short.iter().find(|(short, _)| *short == word).map(|(_, word)| *word);
    let mut begun = WORDS.into_iter().filter(|known| known.starts_with(word));
    let word = match (meant, begun.next(), begun.next()) {
        (Some(word), ..) | (None, Some(word), None) => word,
        (None, Some(first), Some(second)) => return Err(Failure::Usage(format!("`{word}` may be {first} or {second}"))),
        (None, None, _) => return Err(Failure::Usage(format!("`{word}` is no command; `help` lists them"))),
    };
    let mut request = Map::from_iter([("do".to_string(), json!(word))]);
    match word {
        "help" => return Ok(Typed::Help),
        "quit" => return Ok(Typed::Quit),
        "break" => add_breakpoint(&mut request, rest)?,
        "unbreak" if !rest.is_empty() => drop(request.insert("breakpoint".into(), number(rest)?)),
        "next" => drop(request.insert("of".into(), json!(if rest.is_empty() { "op" } else { rest }))),
        "look" => drop(request.insert("of".into(), json!(rest))),
        "slice" => {
            let (of, at) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            request.extend([("of".into(), json!(of)), ("at".into(), json!(at))]);
        }
        "set" => {
            let Some(((of, at), value)) = rest.split_once('=').and_then(|(place, value)| Some((place.trim().split_once(char::is_whitespace)?, value))) else {
                return Err(Failure::Usage("it is written as `set out.0 0, 2:5 = 1.5`".into()));
            };
            let value = value.trim();
            let value = value.parse::<f64>().ok().filter(|v| v.is_finite()).map_or_else(|| json!(value), |v| json!(v));
            request.extend([("of".into(), json!(of)), ("at".into(), json!(at)), ("value".into(), value)]);
        }
        _ if !rest.is_empty() => return Err(Failure::Usage(format!("`{word}` takes nothing behind it"))),
        _ => {}
    }
    ControlRequest::parse(Value::Object(request).to_string().as_bytes()).map(Typed::Request)
}
fn number(text: &str) -> Result<Value, Failure> {
    text.parse::<u64>().map(|n| json!(n)).map_err(|_| Failure::Usage(format!("`{text}` is no whole number")))
}
/// `step 12 layer fc* when absmax > 1e4`: a condition is what is behind `when`, up to the next of these words.
fn add_breakpoint(request: &mut Map<String, Value>, mut rest: &str) -> Result<(), Failure> {
    while !rest.is_empty() {
        let (key, behind) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let (value, more) = match key {
            "when" => condition(behind),
            _ => behind.trim_start().split_once(char::is_whitespace).unwrap_or((behind.trim_start(), "")),
        };
        if value.is_empty() {
            return Err(Failure::Usage(format!("`break {key}`: nothing stands behind it")));
        }
        let value = if key == "step" { number(value)? } else { json!(value) };
        if request.insert(key.into(), value).is_some() {
            return Err(Failure::Usage(format!("`break`: `{key}` is said twice")));
        }
        rest = more.trim_start();
    }
    Ok(())
}
/// A condition, and what is behind it.
fn condition(text: &str) -> (&str, &str) {
    let begins = |word: &str| {
        text.match_indices(word).map(|(at, _)| at).find(|at| {
            let (before, behind) = (text.get(..*at).unwrap_or_default(), text.get(at + word.len()..).unwrap_or_default());
            before.ends_with(char::is_whitespace) && behind.starts_with(char::is_whitespace)
        })
    };
    let ends = ["step", "layer", "op", "phase", "when"].into_iter().filter_map(begins).min();
    let (condition, more) = ends.and_then(|at| text.split_at_checked(at)).unwrap_or((text, ""));
    (condition.trim(), more)
}
/// Asks, and says the answer; a run that goes on is waited for until it stops again, or ends.
fn ask(client: &mut ControlClient, request: &ControlRequest, as_json: bool) -> Result<(), Failure> {
    if *request == ControlRequest::Status {
        let status = client.status()?;
        return match as_json {
            true => out::line(serde_json::to_value(&status).map_err(|e| Failure::Run(e.to_string()))?),
            false => out::line(format!("{}: step {} of {}, epoch {}", status.state, status.step, status.steps, status.epoch)),
        };
    }
    // Who waits for a run that is not stopped waits for its next stop.
    let goes_on = matches!(request, ControlRequest::Continue | ControlRequest::Next { .. });
    if !goes_on {
        let answer = client.ask(request.clone())?;
        return say(request, &answer, as_json);
    }
    client.ask(request.clone())?;
    loop {
        match client.status() {
            Ok(status) if matches!(status.state.as_str(), "stopped" | "paused") => break,
            Ok(status) if status.state == "ending" => return ended(as_json),
            Ok(_) => thread::sleep(EVERY),
            // Nobody is there any more.
            Err(_) => return ended(as_json),
        }
    }
    let answer = client.ask(ControlRequest::Where)?;
    match as_json {
        true => out::line(answer),
        false => out::line(place(&answer)),
    }
}
fn ended(as_json: bool) -> Result<(), Failure> {
    if as_json { out::line(json!({ "ok": true, "stopped": false, "ended": true })) } else { out::line("the steps of the run are over") }
}
fn text(of: &Value) -> String {
    of.as_str().map_or_else(|| of.to_string(), str::to_string)
}
/// Where a run is, in a line.
fn place(at: &Value) -> String {
    let step = at["step"].as_u64().unwrap_or(0);
    let by = at["breakpoint"].as_u64().map_or_else(String::new, |number| format!(" (breakpoint {number})"));
    match at["in_step"].as_u64() {
        None if at["stopped"] == true => format!("stopped before step {}{by}", step + 1),
        None => format!("not stopped: {step} steps are done"),
        Some(in_step) => {
            let layer = at["layer"].as_str().filter(|layer| !layer.is_empty()).map_or_else(String::new, |layer| format!(" in {layer}"));
            let shows = text(&at["shows"]).replace('_', " ");
            format!("step {in_step}, {}: {shows} of op {} {}{layer}, {}{by}", text(&at["phase"]), at["number"], text(&at["op"]), text(&at["line"]))
        }
    }
}
fn say(request: &ControlRequest, answer: &Value, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return out::line(answer);
    }
    let shape = |of: &Value| of["shape"].as_array().map_or_else(String::new, |axes| format!("[{}]", axes.iter().map(text).collect::<Vec<_>>().join(", ")));
    match request {
        ControlRequest::Break(_) => out::line(format!("breakpoint {}", answer["breakpoint"])),
        ControlRequest::Where => {
            let mut lines = vec![place(answer)];
            let values = answer["values"].as_array().into_iter().flatten();
            lines.extend(values.map(|value| format!("  {} {}{}", text(&value["name"]), text(&value["dtype"]), shape(value))));
            let breakpoints = answer["breakpoints"].as_array().into_iter().flatten();
            lines.extend(breakpoints.map(|b| format!("  breakpoint {}: {}", b["breakpoint"], text(&b["text"]))));
            out::line(lines.join("\n"))
        }
        ControlRequest::Look { of } => {
            let figures = ["elements", "nan", "inf", "zeros", "least", "most", "mean", "std", "absmax"];
            let told: Vec<String> = figures.iter().filter(|name| !answer[**name].is_null()).map(|name| format!("{name} {}", text(&answer[*name]))).collect();
            out::line(format!("{of} {}{}: {}", text(&answer["dtype"]), shape(answer), told.join(", ")))
        }
        ControlRequest::Slice { of, at } => {
            let width = answer["shape"].as_array().and_then(|axes| axes.last()?.as_u64()).unwrap_or(1).max(1) as usize;
            let values: Vec<String> = answer["values"].as_array().into_iter().flatten().map(text).collect();
            let rows: Vec<String> = values.chunks(width).map(|row| row.join(" ")).collect();
            out::line(format!("{of}[{at}] {}\n{}", shape(answer), rows.join("\n")))
        }
        ControlRequest::Set { of, at, value } => out::line(format!("{of}[{at}] = {value}: {} elements", answer["elements"])),
        _ => out::line(crate::control::answered(request, answer)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_command_that_is_taken_for_another() {
        for (line, request) in [
            ("break step 12", json!({ "do": "break", "step": 12 })),
            (
                "b layer fc* op mat* phase backward when absmax > 1e4",
                json!({ "do": "break", "layer": "fc*", "op": "mat*", "phase": "backward", "when": "absmax > 1e4" }),
            ),
            ("  break   when nonfinite  # why", json!({ "do": "break", "when": "nonfinite" })),
            ("b when absmax  > 2 step 2 op x", json!({ "do": "break", "when": "absmax > 2", "step": 2, "op": "x" })),
            ("unb 3", json!({ "do": "unbreak", "breakpoint": 3 })),
            ("unbreak", json!({ "do": "unbreak" })),
            ("n", json!({ "do": "next", "of": "op" })),
            ("next layer", json!({ "do": "next", "of": "layer" })),
            ("cont", json!({ "do": "continue" })),
            ("look fc1.weight", json!({ "do": "look", "of": "fc1.weight" })),
            ("s out.0", json!({ "do": "slice", "of": "out.0", "at": "" })),
            ("slice out.0 0, :3", json!({ "do": "slice", "of": "out.0", "at": "0, :3" })),
            ("set out.0 0, 3 = -1.5", json!({ "do": "set", "of": "out.0", "at": "0, 3", "value": -1.5 })),
            ("set out.0 : = -inf", json!({ "do": "set", "of": "out.0", "at": ":", "value": "-inf" })),
            ("che", json!({ "do": "checkpoint" })),
        ] {
            assert_eq!(typed(line).unwrap(), Typed::Request(ControlRequest::parse(request.to_string().as_bytes()).unwrap()), "{line}");
        }
        assert_eq!(
            [typed("").unwrap(), typed("# nothing").unwrap(), typed("q").unwrap(), typed("help").unwrap()],
            [Typed::Nothing, Typed::Nothing, Typed::Quit, Typed::Help]
        );
        for (line, says) in [
            ("brake", "`brake` is no command"),
            ("break", "`break` needs one of"),
            ("break step", "nothing stands behind it"),
            ("break step x", "`x` is no whole number"),
            ("break step 1 step 2", "said twice"),
            ("break colour red", "takes no `colour`"),
            ("set out.0 = 1", "it is written as"),
            ("set out.0 0 = big", "`value` is missing, or no number"),
            ("next year", "`year` is nothing to stop at"),
            ("where now", "takes nothing behind it"),
        ] {
            let failure = typed(line).unwrap_err();
            assert!(failure.exit_code() == 2 && failure.to_string().contains(says), "{line}: {failure}");
        }
    }
}
