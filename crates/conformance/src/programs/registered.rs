//! Functions that need no row of the table: the scalar tables, and every entry of the registry that is spelled alike in
//! PyTorch. An entry that is added there takes part by itself.
//!
//! The text of an entry's call is nearly Python already: `x[0].roll([2], [1])`. PyTorch is asked for the name as a method
//! and in its namespaces (`named` in `programs.py`). A call of several steps, or with options of a type of ours, is not
//! translated; [`untranslated`] lists what takes no part for that.
use super::table::{self, Callee, Function, Kind};
use crate::registry::{self, Entry};
use adamant_core::scalar::{Binary, Unary};
use std::collections::BTreeSet;

/// Functions under another name or spelling there. An empty one: PyTorch has no such function.
const SPELLED: &[(&str, &str)] = &[
    ("sinc_derivative", ""),
    ("div_trunc", "torch.div(x[0], x[1], rounding_mode='trunc')"),
    ("log_sigmoid", "F.logsigmoid(x[0])"),
    ("gelu_tanh", "F.gelu(x[0], approximate='tanh')"),
    ("trigamma", "torch.polygamma(1, x[0])"),
    ("erfcx", "torch.special.erfcx(x[0])"),
    ("polygamma", ""),
];

/// Every function that takes part.
pub fn functions() -> Vec<Function> {
    let mut all = table::rows();
    let named: BTreeSet<String> = all.iter().map(|f| f.name.clone()).collect();
    for entry in registry::entries() {
        if named.contains(&entry.name) && !entry.text.is_empty() {
            continue;
        }
        let Some(function) = of_entry(&entry) else { continue };
        // Samples of one call differ in their inputs only, and one of them is enough.
        if !all.iter().any(|known| known.name == function.name && known.torch == function.torch) {
            all.push(function);
        }
    }
    all
}
/// Functions of the registry that take no part, with the text of a call.
pub fn untranslated() -> Vec<(String, &'static str)> {
    let known: BTreeSet<String> = functions().into_iter().map(|f| f.name).collect();
    let mut seen = BTreeSet::new();
    registry::entries().into_iter().filter(|e| !known.contains(&e.name) && seen.insert(e.name.clone())).map(|e| (e.name, e.text)).collect()
}
fn of_entry(entry: &Entry) -> Option<Function> {
    let short = entry.name.rsplit("::").next()?;
    let spelled = SPELLED.iter().find(|(name, _)| *name == short).map(|(_, text)| *text);
    let (callee, kinds, plain) = match entry.function {
        registry::Function::Unary(f) => (Callee::Unary(f), unary(f), Some(format!("named('{short}', x[0])"))),
        registry::Function::Binary(f) => (Callee::Binary(f), binary(f), Some(format!("named('{short}', x[0], x[1])"))),
        registry::Function::Number(..) => return None,
        registry::Function::Call(f) => (Callee::Registered(f), entry.inputs.iter().cloned().map(Kind::Sample).collect(), python(entry.text)),
    };
    let torch = spelled.map(str::to_owned).or(plain)?;
    (!torch.is_empty() && !kinds.is_empty()).then(|| Function { name: entry.name.clone(), torch, kinds, callee })
}
fn unary(_: Unary) -> Vec<Kind> {
    vec![Kind::Any]
}
fn binary(_: Binary) -> Vec<Kind> {
    vec![Kind::Any, Kind::Operand]
}
/// The Python of one call in Rust; none, if it is not plain enough.
fn python(text: &str) -> Option<String> {
    // A list of axes or sizes is one; what is borrowed is the thing.
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(['&', '\n'], "");
    let (name, args) = if let Some(rest) = text.strip_prefix("x[0].") {
        let (name, args) = rest.split_once('(')?;
        (name.to_owned(), format!("x[0], {args}"))
    } else {
        let rest = text.strip_prefix("Tensor::").or_else(|| text.strip_prefix("f::"))?;
        let (name, args) = rest.split_once('(')?;
        (name.to_owned(), args.to_owned())
    };
    let args = args.strip_suffix(')')?.trim().trim_end_matches(',').to_owned();
    let args = args.replace("Some(", "(").replace("true", "True").replace("false", "False");
    let args = ["F64", "F32", "I64", "I32"].iter().fold(args, |args, d| args.replace(&format!("DType::{d}"), &format!("{d}")));
    let foreign = args.contains("::") || args.contains(['{', '|', ';']) || args.contains("..") || args.contains(").") || args.contains("].");
    let constants = ["MEAN", "NORM"].iter().any(|c| args.contains(c));
    let plain = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (plain && !foreign && !constants).then(|| format!("named('{name}', {args})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_call_is_python_and_another_is_left_out() {
        for (rust, wanted) in [
            ("x[0].roll([2], [1])", Some("named('roll', x[0], [2], [1])")),
            ("Tensor::polar(&x[0], &x[1])", Some("named('polar', x[0], x[1])")),
            ("f::linear(&x[0], &x[1], Some(&x[2]))", Some("named('linear', x[0], x[1], (x[2]))")),
            ("x[0].mt().contiguous()", None),
            ("f::conv2d(&x[0], &x[1], None, &Conv::default())", None),
        ] {
            assert_eq!(python(rust).as_deref(), wanted, "{rust}");
        }
    }
}
