//! Wrong calls of everything that is public, and what each error says, word for word: one text per call in the files `*.txt`
//! beside this one. `ADAMANT_BLESS=1` writes them anew, with `hints.rs`, which holds all code that hints give: it is compiled
//! with this test. What errors must tell by their kind is judged for each; a function, layer, loss, optimizer or metric
//! that is exported and stands in none of the tables is named.
use adamant::{
    Error, Result, Tensor,
    cpu::{Context, CpuBackend},
};
use adamant_conformance::wrong::JudgedErrors;
use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

mod around;
mod exported;
mod functions;
mod hints;
mod layers;
mod learning;

/// What a wrong call gave.
trait Told {
    /// The error, if it was one: a tensor is read.
    fn told(&self) -> Option<Error>;
}
impl Told for Tensor {
    fn told(&self) -> Option<Error> {
        self.materialize().err()
    }
}
impl Told for (Tensor, Tensor) {
    fn told(&self) -> Option<Error> {
        self.0.told().or_else(|| self.1.told())
    }
}
impl Told for (Tensor, Tensor, Tensor) {
    fn told(&self) -> Option<Error> {
        self.0.told().or_else(|| self.1.told()).or_else(|| self.2.told())
    }
}
impl Told for Vec<Tensor> {
    fn told(&self) -> Option<Error> {
        self.iter().find_map(Told::told)
    }
}
impl Told for () {
    fn told(&self) -> Option<Error> {
        None
    }
}
impl<T: Told> Told for Result<T> {
    fn told(&self) -> Option<Error> {
        self.as_ref().map_or_else(|e| Some(e.clone()), Told::told)
    }
}

/// One wrong call.
struct Case {
    /// as it is written
    text: String,
    /// the path of the layer that its error must name
    path: &'static str,
    /// where it stands
    line: Option<(&'static str, u32)>,
    error: Option<Error>,
    /// what its function is called, where the text does not say it
    of: String,
}
/// Notes calls: `wrong!(into; call)`, `wrong!(into, "path"; call)`, each on one line.
macro_rules! wrong {
    ($into:ident $(, $path:literal)?; $call:expr) => {{
        let told = crate::Told::told(&$call);
        $into.push(crate::Case { text: stringify!($call).split_whitespace().collect::<Vec<_>>().join(" "), path: concat!($($path)?), line: Some((file!(), line!())), error: told, of: String::new() });
    }};
}
use wrong;

/// What is missing, and the texts by file.
#[derive(Default)]
struct Seen {
    judged: JudgedErrors,
    offences: Vec<String>,
    files: BTreeMap<&'static str, String>,
    calls: usize,
}
impl Seen {
    fn look(&mut self, file: &'static str, cases: Vec<Case>, folder: &str) {
        for case in cases {
            let Some(error) = &case.error else {
                self.offences.push(format!("{}: no error", case.text));
                continue;
            };
            self.calls += 1;
            let (at, path) = (error.location(), error.scope());
            let told = error.to_string();
            // What the standard library calls does not know its caller.
            let by_std = at.file().starts_with("/rustc/");
            // Calls of one macro stand on a few lines.
            let own = case.line.is_none_or(|(file, line)| at.file() == file && (line..line + 8).contains(&at.line()));
            if !by_std && (!own || adamant_conformance::lines::is_inside(at.file())) {
                self.offences.push(format!("line: {} names {}:{}: {told}", case.text, at.file(), at.line()));
            }
            if path != case.path {
                self.offences.push(format!("layer: {} names `{path}`, not `{}`: {told}", case.text, case.path));
            }
            let name = if case.of.is_empty() { error.op() } else { &case.of };
            self.judged.judge((name, &case.text), false, &case.text, error);
            let here = format!("{}:{}", at.file(), at.line());
            let mut text = told.replace(&here, "here").replace(folder, "{folder}");
            if let Some(end) = text.find(" bytes in use") {
                let start = text[..end].rfind(' ').map_or(0, |at| at + 1);
                text.replace_range(start..end, "{in use}");
            }
            let _ = writeln!(self.files.entry(file).or_default(), "{}\n    {text}", case.text);
        }
    }
}
fn beside(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/wrong_calls").join(name)
}
/// The first line in which two texts differ.
fn difference(old: &str, new: &str) -> Option<String> {
    let (old, new) = (old.lines().collect::<Vec<_>>(), new.lines().collect::<Vec<_>>());
    let k = (0..old.len().max(new.len())).find(|&k| old.get(k) != new.get(k))?;
    let line = |of: &[&str]| of.get(k).map_or("(nothing)", |l| l.trim()).to_string();
    let call = new[..k.min(new.len())].iter().rev().find(|l| !l.starts_with(' ')).map_or("", |l| l);
    Some(format!("line {}: {call}\n  was: {}\n  is:  {}", k + 1, line(&old), line(&new)))
}
/// All snippets, each a function of the operands that hints speak of.
fn compiled(snippets: &BTreeMap<String, String>) -> String {
    let mut out = String::from(
        "//! All code that the hints of the wrong calls give. Written by `ADAMANT_BLESS=1`: that it is compiled is its test.\n#![allow(unused, clippy::all)]\n#[rustfmt::skip]\n\
         mod all {\n    use adamant::{*, nn::{Param, Walk}, optim::{Sgd, UpdateRule}};\n",
    );
    for (k, code) in snippets.keys().enumerate() {
        let _ = writeln!(
            out,
            "    fn hint{k}<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> {{ let _ = {code}; Ok(()) }}"
        );
    }
    out + "}\n"
}

#[test]
fn a_wrong_call_whose_error_does_not_help() {
    let device = Context::new(CpuBackend::builder().threads(1)).unwrap().device();
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Seen::default();
    device.scoped(|| {
        let at = folder.path().display().to_string();
        seen.look("functions.txt", functions::cases(device), &at);
        seen.look("layers.txt", layers::cases(), &at);
        seen.look("learning.txt", learning::cases(), &at);
        seen.look("around.txt", around::cases(folder.path()), &at);
    });
    let Seen { judged, mut offences, mut files, calls } = seen;
    offences.extend(judged.lines());
    offences.extend(exported::missing());
    println!("{calls} wrong calls, without a hint {:?}, {} snippets", judged.without_hint, judged.snippets.len());
    files.insert("hints.rs", compiled(&judged.snippets));
    let bless = std::env::var_os("ADAMANT_BLESS").is_some();
    for (name, text) in &files {
        if bless {
            std::fs::write(beside(name), text).unwrap();
        } else if let Some(difference) = difference(&std::fs::read_to_string(beside(name)).unwrap_or_default(), text) {
            offences.push(format!("{name}, {difference}"));
        }
    }
    assert!(calls > 600, "{calls} wrong calls");
    assert!(offences.is_empty(), "{} offences; texts that are as they should be are written by ADAMANT_BLESS=1\n{}", offences.len(), offences.join("\n"));
}
/// A text that changed, a line of the library, a layer that is not named: each is found.
#[test]
fn a_planted_error_passes() {
    let mut seen = Seen::default();
    let error = adamant::ErrorKind::Argument("no".into());
    let case = |path, line| Case { text: "x.sum(9)".into(), path, line, error: Some(Error::new("sum", error.clone())), of: String::new() };
    seen.look("planted.txt", vec![case("", Some(("src/main.rs", 1)))], "nowhere");
    seen.look("planted.txt", vec![case("encoder.0", None)], "nowhere");
    let mut silent = case("", None);
    silent.error = None;
    seen.look("planted.txt", vec![silent], "nowhere");
    let found: Vec<&str> = seen.offences.iter().map(|o| o.split(": ").next().unwrap_or_default()).collect();
    assert_eq!(found, ["line", "layer", "x.sum(9)"], "{:?}", seen.offences);
    assert!(difference("a\n    b\n", "a\n    c\n").unwrap().contains("was: b"));
    assert!(difference("a\n", "a\n").is_none());
}
