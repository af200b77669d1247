//! Word-by-word translation of the WGSL that helpers are written in to C, and the cutting of text into words.

/// One word of a text.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Word<'a> {
    /// a name or keyword
    Name(&'a str),
    /// a number
    Number(&'a str),
    /// anything else: an operator, a bracket, white space, a comment
    Other(&'a str),
}

/// Cuts a text into words that joined give it back.
pub(crate) fn words(text: &str) -> Vec<Word<'_>> {
    let bytes = text.as_bytes();
    let end_of = |from: usize, f: &dyn Fn(usize) -> bool| (from..bytes.len()).find(|&k| !f(k)).unwrap_or(bytes.len());
    let mut out = vec![];
    let mut at = 0;
    while at < bytes.len() {
        let b = bytes[at];
        let next = bytes.get(at + 1).copied().unwrap_or(0);
        let end;
        if b.is_ascii_alphabetic() || b == b'_' {
            end = end_of(at, &|k| bytes[k].is_ascii_alphanumeric() || bytes[k] == b'_');
            out.push(Word::Name(&text[at..end]));
        } else if b.is_ascii_digit() {
            let hex = b == b'0' && next == b'x';
            end = end_of(at, &|k| {
                bytes[k].is_ascii_alphanumeric() || bytes[k] == b'.' || (!hex && matches!(bytes[k], b'+' | b'-') && matches!(bytes[k - 1], b'e' | b'E'))
            });
            out.push(Word::Number(&text[at..end]));
        } else if b == b'/' && next == b'/' {
            end = text[at..].find('\n').map_or(bytes.len(), |k| at + k);
            out.push(Word::Other(&text[at..end]));
        } else {
            end = at + text[at..].chars().next().map_or(1, char::len_utf8);
            out.push(Word::Other(&text[at..end]));
        }
        at = end;
    }
    out
}

/// The text with names replaced.
pub(crate) fn substitute(text: &str, names: &[(&str, &str)]) -> String {
    words(text)
        .into_iter()
        .map(|w| match w {
            Word::Name(n) => names.iter().find(|(from, _)| *from == n).map_or(n, |(_, to)| to),
            Word::Number(s) | Word::Other(s) => s,
        })
        .collect()
}

/// Helpers that C has in `<math.h>`.
const NATIVE: &[(&str, &str)] = &[
    ("adm_exp", "expf"),
    ("adm_expm1", "expm1f"),
    ("adm_log", "logf"),
    ("adm_log2", "log2f"),
    ("adm_log10", "log10f"),
    ("adm_log1p", "log1pf"),
    ("adm_sqrt", "sqrtf"),
    ("adm_sin", "sinf"),
    ("adm_cos", "cosf"),
    ("adm_tan", "tanf"),
    ("adm_asin", "asinf"),
    ("adm_acos", "acosf"),
    ("adm_atan", "atanf"),
    ("adm_atan2", "atan2f"),
    ("adm_sinh", "sinhf"),
    ("adm_cosh", "coshf"),
    ("adm_tanh", "tanhf"),
    ("adm_asinh", "asinhf"),
    ("adm_acosh", "acoshf"),
    ("adm_atanh", "atanhf"),
    ("adm_hypot", "hypotf"),
    ("adm_pow", "powf"),
    ("adm_fmod", "fmodf"),
    ("adm_copysign", "copysignf"),
    ("adm_erf", "erff"),
    ("adm_erfc", "erfcf"),
    ("adm_lgamma", "lgammaf"),
];
/// WGSL's builtins and types, as C says them.
const BUILTIN: &[(&str, &str)] = &[
    ("abs", "fabsf"),
    ("floor", "floorf"),
    ("ceil", "ceilf"),
    ("trunc", "truncf"),
    ("round", "rintf"),
    ("sqrt", "sqrtf"),
    ("exp2", "exp2f"),
    ("sin", "sinf"),
    ("cos", "cosf"),
    ("tan", "tanf"),
    ("select", "ADM_SELECT"),
];
/// C's name of a WGSL type, and of the integer types that WGSL lacks.
pub(crate) fn c_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "f32" => "float",
        "f64" => "double",
        "bool" => "bool",
        "i8" => "int8_t",
        "u8" => "uint8_t",
        "i16" => "int16_t",
        "u16" => "uint16_t",
        "i32" => "int32_t",
        "u32" => "uint32_t",
        "i64" => "int64_t",
        "u64" => "uint64_t",
        _ => return None,
    })
}
/// Is the helper left to C's library?
pub(crate) fn is_native(name: &str) -> bool {
    NATIVE.iter().any(|(from, _)| *from == name)
}

/// Helper code as C. `native`: with the functions of `<math.h>` where C has them; without, WGSL's own arithmetic, so
/// that a C compiler can test it.
///
/// What is translated: functions, `let` and `var` with a type, `select`, `bitcast`, conversions, numbers.
pub fn wgsl_to_c(text: &str, native: bool) -> String {
    let words = words(text);
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let is = |k: usize, s: &str| matches!(words.get(k), Some(Word::Other(o)) if *o == s);
    let name = |k: usize| if let Some(Word::Name(n)) = words.get(k) { Some(*n) } else { None };
    let mut at = 0;
    while at < words.len() {
        match words[at] {
            Word::Other(s) => out.push_str(s),
            Word::Number(n) => {
                out.push_str(n);
                let float = !n.starts_with("0x") && n.contains(['.', 'e']);
                if float && !n.ends_with('f') {
                    out.push('f');
                }
            }
            // `fn name(a: t, b: u) -> v`
            Word::Name("fn") => {
                let close = (at..words.len()).find(|&k| is(k, ")")).unwrap_or(at);
                let result = (close..words.len()).find_map(|k| name(k).map(|n| (k, n)));
                let parameters: Vec<&str> = (at + 4..close).filter_map(name).collect();
                let parameters: Vec<String> = parameters.chunks_exact(2).map(|p| format!("{} {}", c_type(p[1]).unwrap_or(p[1]), p[0])).collect();
                let (end, result) = result.unwrap_or((close, "void"));
                let list = if parameters.is_empty() { "void".to_string() } else { parameters.join(", ") };
                out.push_str(&format!("static inline {} {}({list})", c_type(result).unwrap_or(result), name(at + 2).unwrap_or_default()));
                at = end;
            }
            // `let name: type`
            Word::Name(kind @ ("let" | "var")) if is(at + 3, ":") => {
                let t = name(at + 5).unwrap_or_default();
                out.push_str(if kind == "let" { "const " } else { "" });
                out.push_str(&format!("{} {}", c_type(t).unwrap_or(t), name(at + 2).unwrap_or_default()));
                at += 5;
            }
            // `bitcast<type>`
            Word::Name("bitcast") => {
                out.push_str(&format!("adm_bits_{}", name(at + 2).unwrap_or_default()));
                at += 3;
            }
            Word::Name(n) => match c_type(n) {
                Some(t) if is(at + 1, "(") => out.push_str(&format!("({t})")),
                Some(t) => out.push_str(t),
                None if !is(at + 1, "(") => out.push_str(n),
                None => {
                    let tables: &[&[(&str, &str)]] = if native { &[BUILTIN, NATIVE] } else { &[BUILTIN] };
                    out.push_str(tables.iter().copied().flatten().find(|(from, _)| *from == n).map_or(n, |(_, to)| to));
                }
            },
        }
        at += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_join_to_the_text() {
        let text = "fn f(x: f32) -> f32 { // why: π\n return -1.5e-3 * x + 0x7fu; }";
        let joined: String = words(text)
            .into_iter()
            .map(|w| match w {
                Word::Name(s) | Word::Number(s) | Word::Other(s) => s,
            })
            .collect();
        assert_eq!(joined, text);
        assert!(words(text).contains(&Word::Number("1.5e-3")));
    }
    #[test]
    fn wgsl_becomes_c_word_by_word() {
        let wgsl = "fn adm_f(x: f32, n: i32) -> bool {\n    let a: f32 = select(1.0, abs(x), n == 2);\n    var b: u32 = bitcast<u32>(a);\n    return adm_exp(a) < f32(b) + 1e-7;\n}";
        let c = "static inline bool adm_f(float x, int32_t n) {\n    const float a = ADM_SELECT(1.0f, fabsf(x), n == 2);\n    uint32_t b = adm_bits_u32(a);\n    return expf(a) < (float)(b) + 1e-7f;\n}";
        assert_eq!(wgsl_to_c(wgsl, true), c);
        assert_eq!(wgsl_to_c(wgsl, false), c.replace("expf", "adm_exp"));
    }
    #[test]
    fn operands_replace_whole_names_only() {
        assert_eq!(substitute("exp(x) + x0 * max(x, y)", &[("x", "r1"), ("y", "x")]), "exp(r1) + x0 * max(r1, x)");
    }
}
