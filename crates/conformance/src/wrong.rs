//! What an error must tell, by its kind, whatever function it is of: the function that was called, the shapes and dtypes it was
//! given, the axis and what is permitted, and a hint. [`lines`](crate::lines) calls every function of the registry wrongly
//! in every way that follows from its entry; here each text is judged.
use adamant_core::{Error, ErrorKind};
use std::collections::{BTreeMap, BTreeSet};

/// What is missing in errors, and the code that their hints give.
#[derive(Default, Debug)]
pub struct JudgedErrors {
    /// what is missing → the function → the first text that lacks it
    pub offences: BTreeMap<&'static str, BTreeMap<String, String>>,
    /// code in hints → an error that gives it
    pub snippets: BTreeMap<String, String>,
    /// errors, and those without a hint
    pub told: usize,
    /// errors without a hint, by kind
    pub without_hint: BTreeMap<&'static str, usize>,
}
impl JudgedErrors {
    /// Judges the error of a call: `name` is the entry's, `text` the call as it is written, of tensors or
    /// of none.
    pub fn judge(&mut self, (name, text): (&str, &str), takes_tensors: bool, case: &str, error: &Error) {
        self.told += 1;
        if error.hint_text().is_none() {
            *self.without_hint.entry(error.kind().word()).or_default() += 1;
        }
        if let Some(code) = error.hint_code() {
            self.snippets.entry(code.into()).or_insert_with(|| error.to_string());
        }
        for missing in missing(name, text, takes_tensors, error) {
            self.offences.entry(missing).or_default().entry(name.into()).or_insert_with(|| format!("[{case}] {error}"));
        }
    }
    /// All that is missing, a line each.
    pub fn lines(&self) -> Vec<String> {
        self.offences.iter().flat_map(|(missing, of)| of.iter().map(move |(name, text)| format!("{missing}: {name} {text}"))).collect()
    }
}
/// Ops by which operators are named.
const OPERATORS: &[(&str, &str)] = &[("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/"), ("neg", "-")];

/// Does the text call a function of this name, or is it the entry's own?
fn is_called(op: &str, name: &str, text: &str) -> bool {
    let own = name.rsplit("::").next().unwrap_or(name);
    let calls = |word: &str| {
        text.match_indices(word).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + word.len()..].chars().next();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_') && after.is_some_and(|c| c == '(' || c == ':')
        })
    };
    // What the registry's own helpers call.
    let helpers: &[(&str, &[&str])] = &[("symmetric(", &["add", "mul", "mt"]), ("squared(", &["square"])];
    own == op
        || name.starts_with("Op::")
        || calls(op)
        || OPERATORS.iter().any(|(named, sign)| *named == op && text.contains(sign))
        || helpers.iter().any(|(helper, ops)| text.contains(helper) && ops.contains(&op))
}
fn missing(name: &str, text: &str, takes_tensors: bool, error: &Error) -> BTreeSet<&'static str> {
    let mut missing = BTreeSet::new();
    let said = error.to_string();
    let mut must = |what: &'static str, there: bool| {
        if !there {
            missing.insert(what);
        }
    };
    must("the function that was called", is_called(error.op(), name, text));
    let shown = |word: String| said.contains(&word);
    // An error found in data knows the data's place, and no operands.
    let in_data = matches!(error.kind(), ErrorKind::Index { position: Some(_), .. } | ErrorKind::Domain(_));
    if matches!(error.kind().word(), "shape" | "dtype" | "axis" | "index" | "argument" | "domain") && !in_data {
        must("what was given", !takes_tensors || !error.inputs().is_empty());
        must("the shapes", error.inputs().iter().all(|t| shown(t.shape.to_string())));
        must("the dtypes", error.inputs().iter().all(|t| shown(t.dtype.to_string())));
    }
    match error.kind() {
        ErrorKind::ShapeMismatch { left, right, .. } => must("both shapes", shown(left.to_string()) && shown(right.to_string())),
        ErrorKind::DtypeMismatch { left, right } => must("both dtypes", shown(left.to_string()) && shown(right.to_string())),
        ErrorKind::Axis { axis, rank } => {
            must("the axis", shown(format!("axis {axis}")));
            must("the axes there are", *rank == 0 || shown(format!("from -{rank} to {}", rank - 1)));
        }
        ErrorKind::Index { index, axis, bound, .. } => {
            must("the index", shown(format!("index {index}")) && shown(bound.to_string()));
            must("the axis", axis.is_some() || shown("class".into()));
        }
        ErrorKind::Internal(_) => must("a cause that is no bug of the library's", false),
        _ => {}
    }
    if let Some(hint) = error.hint_text() {
        let code = error.hint_code().map_or_else(|| hint.to_string(), |code| hint.replace(&format!("`{code}`"), ""));
        // Names stand in words; what is called is code.
        must("code apart from words in the hint", !code.split('`').skip(1).step_by(2).any(|quoted| quoted.contains('(')));
    }
    missing
}
