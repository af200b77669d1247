//! The helper functions that a text calls, and the ones those call, in an order in which each is known before its use.
use crate::{Dialect, dialect::guarded, notation, wide::WIDE};
use adamant_ir::DType;
use std::{collections::BTreeSet, sync::LazyLock};

struct Helper {
    name: &'static str,
    source: &'static str,
}
fn parse(text: &'static str) -> Vec<Helper> {
    let starts: Vec<usize> = text.match_indices("\nfn ").map(|(k, _)| k + 1).collect();
    let one = |k: usize| {
        // Up to the closing brace in the first column: comments between functions stay behind.
        let rest = &text[starts[k]..];
        let source = rest.find("\n}").map_or(rest, |end| &rest[..end + 2]);
        Helper { name: source[3..].split('(').next().unwrap_or_default(), source }
    };
    (0..starts.len()).map(one).collect()
}
/// In the order of the files, in which each is defined before it is used.
static FLOAT: LazyLock<Vec<Helper>> = LazyLock::new(|| parse(include_str!("float_helpers.wgsl")));
static INT: LazyLock<Vec<Helper>> = LazyLock::new(|| parse(include_str!("int_helpers.wgsl")));

/// An integer text for one type: `T` becomes the type, `BITS` its width.
pub(crate) fn instance(text: &str, t: &str) -> String {
    let words = notation::words(text).into_iter();
    let bits: String = t.chars().filter(char::is_ascii_digit).collect();
    words
        .map(|w| match w {
            notation::Word::Name("T") => t.to_string(),
            notation::Word::Name("BITS") => bits.clone(),
            notation::Word::Name(n) => n.strip_suffix("_T").map_or(n.to_string(), |n| format!("{n}_{t}")),
            notation::Word::Number(s) | notation::Word::Verbatim(s) | notation::Word::Other(s) => s.to_string(),
        })
        .collect()
}
/// A helper's definition.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Definition {
    /// in the notation
    Notation(String),
    /// of f64: by its name, as C
    C(&'static str, &'static str),
}
impl Definition {
    fn source(&self) -> &str {
        match self {
            Definition::Notation(source) => source,
            Definition::C(_, source) => source,
        }
    }
}
/// Position in the order of definition, and source, of a helper by name.
fn find(name: &str) -> Option<(usize, Definition)> {
    if let Some(k) = FLOAT.iter().position(|h| h.name == name) {
        return Some((k, Definition::Notation(FLOAT[k].source.to_string())));
    }
    if let Some(k) = WIDE.iter().position(|h| h.name == name) {
        return Some((FLOAT.len() + INT.len() + k, Definition::C(WIDE[k].name, WIDE[k].source)));
    }
    let (stem, t) = name.rsplit_once('_')?;
    let k = INT.iter().position(|h| h.name.strip_suffix("_T") == Some(stem))?;
    Some((FLOAT.len() + k, Definition::Notation(instance(INT[k].source, t))))
}

/// Lines of a helper that is long.
pub(crate) const LONG: usize = 12;
/// The definitions that a text in a dialect needs: every `adm_` helper it names, and what those name.
pub fn preamble(text: &str, dialect: &dyn Dialect) -> String {
    let written = |definition| match definition {
        Definition::Notation(source) => dialect.helper(&source),
        // What is long is one function, not a part of all that call it: a compiler takes long over it, and a thread many registers.
        Definition::C(name, source) if source.lines().count() > LONG => guarded(name, &source.replacen("static inline ", "ADM_ALONE ", 1)),
        Definition::C(name, source) => guarded(name, source),
    };
    closure(text, &|name| dialect.has_helper(name)).into_iter().fold(dialect.prelude().to_string(), |all, definition| all + &written(definition) + "\n")
}
/// In order, without those that are known anyway.
pub(crate) fn closure(text: &str, known: &dyn Fn(&str) -> bool) -> Vec<Definition> {
    let mut needed: BTreeSet<(usize, Definition)> = BTreeSet::new();
    let mut todo = vec![text.to_string()];
    while let Some(text) = todo.pop() {
        for word in notation::words(&text) {
            let notation::Word::Name(name) = word else { continue };
            if !name.starts_with("adm_") || known(name) {
                continue;
            }
            if let Some(found) = find(name)
                && !needed.contains(&found)
            {
                todo.push(found.1.source().to_string());
                needed.insert(found);
            }
        }
    }
    needed.into_iter().map(|(_, source)| source).collect()
}
/// The helper that rounds a float register to a narrower dtype.
pub(crate) fn rounding(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::F16 => Some("adm_round_f16"),
        DType::BF16 => Some("adm_round_bf16"),
        DType::F8E4M3 => Some("adm_round_f8_e4m3"),
        DType::F8E5M2 => Some("adm_round_f8_e5m2"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{C, Wgsl};

    #[test]
    fn each_helper_is_defined_before_it_is_used() {
        for list in [&*FLOAT, &*INT] {
            for (k, helper) in list.iter().enumerate() {
                for word in notation::words(helper.source) {
                    if let notation::Word::Name(n) = word {
                        assert!(!n.starts_with("adm_") || list[..=k].iter().any(|h| h.name == n), "{} uses {n} before it is there", helper.name);
                    }
                }
            }
        }
    }
    #[test]
    fn a_preamble_has_what_helpers_call_and_no_more() {
        let p = preamble("adm_tanhshrink(x)", Wgsl::PLAIN);
        assert!(p.contains("fn adm_cosh(") && p.contains("fn adm_exp(") && !p.contains("fn adm_digamma("));
        let p = preamble("adm_tanhshrink(x)", &C);
        assert!(p.contains("float adm_tanhshrink(float x)") && p.contains("coshf(") && !p.contains("float adm_cosh("));
    }
    #[test]
    fn helpers_of_f64_bring_what_they_call() {
        let p = preamble("adm_erfinv_f64(x)", &C);
        assert!(p.contains("#ifndef ADM_HAS_adm_erfcx_right_f64\n") && p.contains("float adm_nan(void)") && !p.contains("adm_ndtr_f64"), "{p}");
        let p = preamble("adm_gelu_f64(x)", &C);
        assert!(p.find("} adm_dekker_f64;").is_some_and(|k| p.find("double adm_gelu_f64(double x)").is_some_and(|l| k < l)), "{p}");
    }
    #[test]
    fn integer_helpers_are_made_for_the_type() {
        let p = preamble("adm_ilcm_u32(x, y)", Wgsl::PLAIN);
        assert!(p.contains("fn adm_igcd_u32(x: u32, y: u32) -> u32"), "{p}");
    }
}
