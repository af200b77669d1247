//! Functions of the scalar table on f64, for the dialects that have it. Those are C and what is written as C, so the helpers are C
//! that is CUDA C++ too (`wide/*.h`), translated from the exact functions of adamant_ir's `special`: the same methods, from the same
//! sources. No recursion, no headers, no loop without an end.
//!
//! A helper's name is that of the helper of f32 with `_f64` behind it. A function whose text of f32 is right for f32 alone, or is left
//! to a library that is weaker than what the table promises, has a helper by the function's own name, which is taken first.
//!
//! Must not know: dialects, and how their texts are put together.
use crate::notation::{self, Word};
use std::sync::LazyLock;

/// A definition, as C.
pub(crate) struct WideHelper {
    pub name: &'static str,
    pub source: &'static str,
}
/// In an order in which each is defined before it is used.
pub(crate) static WIDE: LazyLock<Vec<WideHelper>> = LazyLock::new(|| {
    let files = [
        include_str!("wide/pair.h"),
        include_str!("wide/elementary.h"),
        include_str!("wide/activation.h"),
        include_str!("wide/error_function.h"),
        include_str!("wide/gamma.h"),
        include_str!("wide/bessel.h"),
        include_str!("wide/airy.h"),
        include_str!("wide/incomplete.h"),
    ];
    files.into_iter().flat_map(parse).collect()
});
/// The preludes of all these dialects have them.
const OF_PRELUDES: [&str; 2] = ["adm_max_f64", "adm_min_f64"];

/// The functions of a file, which end with a brace in the first column, and its types, of a line each.
fn parse(text: &'static str) -> Vec<WideHelper> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("\nstatic inline ").into_iter().chain(rest.find("\ntypedef ")).min() {
        rest = &rest[at + 1..];
        let (head, end) = if rest.starts_with("typedef") { (';', rest.find(";\n").map(|k| k + 1)) } else { ('(', rest.find("\n}").map(|k| k + 2)) };
        let source = &rest[..end.unwrap_or(rest.len())];
        let named = if head == ';' { source.trim_end_matches(';') } else { source.split('(').next().unwrap_or_default() };
        all.push(WideHelper { name: named.rsplit(' ').next().unwrap_or_default(), source });
        rest = &rest[source.len()..];
    }
    all
}
fn is_known(name: &str) -> bool {
    OF_PRELUDES.contains(&name) || WIDE.iter().any(|h| h.name == name)
}
/// The text of a function on f64, by its name and its text on f32 as C; `None` where a helper is not there.
pub(crate) fn text(name: &str, of_f32: &str, operands: &[(&str, &str)]) -> Option<String> {
    let own = format!("adm_{name}_f64");
    if is_known(&own) {
        let operands: Vec<&str> = operands.iter().map(|(_, of)| *of).collect();
        return Some(format!("{own}({})", operands.join(", ")));
    }
    let wide = |word: Word<'_>| match word {
        Word::Name(n) if n.starts_with("adm_") => {
            let wide = format!("{n}_f64");
            is_known(&wide).then_some(wide)
        }
        Word::Name(n) => Some(operands.iter().find(|(from, _)| *from == n).map_or(n, |(_, to)| to).to_string()),
        Word::Number(n) if n.contains('.') => Some(n.trim_end_matches('f').to_string()),
        Word::Number(s) | Word::Verbatim(s) | Word::Other(s) => Some(s.to_string()),
    };
    notation::words(of_f32).into_iter().map(wide).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{C, Cuda, Dialect, binary_text, unary_text};
    use adamant_ir::{
        DType, ErrorKind,
        scalar::{Binary, Unary},
    };

    #[test]
    fn each_helper_is_defined_once_and_before_it_is_used() {
        for (k, helper) in WIDE.iter().enumerate() {
            assert!(helper.name.starts_with("adm_") && helper.name.ends_with("_f64"), "{}", helper.name);
            assert!(WIDE[..k].iter().all(|h| h.name != helper.name), "{} is there twice", helper.name);
            for word in notation::words(helper.source) {
                if let Word::Name(n) = word {
                    let known = n == "adm_nan" || WIDE[..=k].iter().any(|h| h.name == n);
                    assert!(!n.starts_with("adm_") || known, "{} uses {n} before it is there", helper.name);
                }
            }
        }
        for dialect in [&C as &dyn Dialect, &Cuda] {
            assert!(OF_PRELUDES.iter().all(|n| dialect.prelude().contains(&format!("double {n}("))), "{}", dialect.name());
        }
    }
    #[test]
    fn no_function_of_floats_is_refused() {
        for dialect in [&C as &dyn Dialect, &Cuda] {
            for &f in Unary::ALL.iter().filter(|f| f.infer(DType::F64).is_ok()) {
                assert!(unary_text(f, DType::F64, dialect, "x").is_ok(), "{} of f64 in {}", f.name(), dialect.name());
            }
            for &f in Binary::ALL.iter().filter(|f| f.infer(DType::F64).is_ok()) {
                assert!(binary_text(f, DType::F64, dialect, "x", "y").is_ok(), "{} of f64 in {}", f.name(), dialect.name());
            }
        }
    }
    #[test]
    fn a_constant_of_f32_is_not_taken_for_one_of_f64() {
        let of_rows = Unary::ALL.iter().map(|f| (f.name(), f.row().c)).chain(Binary::ALL.iter().map(|f| (f.name(), f.row().c)));
        for (name, c) in of_rows {
            for word in text(name, c, &[]).iter().flat_map(|t| notation::words(t)) {
                if let Word::Number(n) = word {
                    assert_eq!(n.parse::<f64>(), n.parse::<f32>().map(f64::from), "{name}: {c}");
                }
            }
        }
    }
    #[test]
    fn what_no_helper_is_there_for_is_refused_by_its_name() {
        assert_eq!(text("softsign", "x / (1.0f + fabs(x))", &[("x", "r1")]).as_deref(), Some("r1 / (1.0 + fabs(r1))"));
        assert_eq!(text("maximum", "adm_max(x, y)", &[("x", "a"), ("y", "b")]).as_deref(), Some("adm_max_f64(a, b)"));
        assert_eq!(text("log_ndtr", "0.70710678f * adm_erfcx(x)", &[("x", "r1")]).as_deref(), Some("adm_log_ndtr_f64(r1)"));
        assert_eq!(text("new", "1.0f - adm_new(x)", &[("x", "r1")]), None);
        let refused = unary_text(Unary::Relu, DType::F64, crate::Wgsl::PLAIN, "x");
        assert!(matches!(refused, Err(ErrorKind::Unsupported { .. })));
    }
}
