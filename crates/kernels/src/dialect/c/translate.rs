//! The notation as C, word by word: functions, `let` and `var` with a type, `select`, `bitcast`, conversions, numbers,
//! pairs, structs.
use super::resumed::Resumed;
use crate::notation::{Word, words};
use std::collections::BTreeSet;

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
    ("min", "ADM_MIN"),
    ("max", "ADM_MAX"),
];
/// C's name of a type of the notation, and of the integer types that WGSL lacks.
pub(super) fn c_type(name: &str) -> Option<&'static str> {
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
pub(super) fn is_native(name: &str) -> bool {
    NATIVE.iter().any(|(from, _)| *from == name)
}
/// Helper code as C. `native`: with the functions of `<math.h>` where C has them; without, WGSL's own arithmetic, so
/// that a C compiler can test it.
pub fn to_c(text: &str, native: bool) -> String {
    // A compiler would say no less of a helper that is none.
    TextWriter::new(text, native, None, None).written().unwrap_or_else(|why| format!("#error \"{why}\"\n"))
}
/// A kernel's text as C, where invocations wait as threads do.
///
/// # Errors
/// What C cannot say.
pub(in crate::dialect) fn threaded(text: &str, module: &KernelModule) -> Result<String, String> {
    TextWriter::new(text, true, Some(module), None).written()
}
/// What a kernel's functions have that helpers have not: names of their own, the launch, and its buffers.
pub(in crate::dialect) struct KernelModule {
    /// before the name of each of its functions and structs
    pub prefix: String,
    pub functions: BTreeSet<String>,
    pub structs: BTreeSet<String>,
    /// declarations at the beginning of each function
    pub buffers: String,
}
impl KernelModule {
    /// The functions and structs that a text defines.
    pub fn of(prefix: String, text: &str, bindings: usize) -> KernelModule {
        let words = words(text);
        let after = |keyword: &str| -> BTreeSet<String> {
            let is = |pair: &[Word<'_>]| matches!(pair[0], Word::Name(n) if n == keyword);
            words.windows(3).filter(|w| is(w)).filter_map(|w| if let Word::Name(n) = w[2] { Some(n.to_string()) } else { None }).collect()
        };
        let own = |k: usize| format!(" void *const b{k} = L->b[{k}]; (void)b{k};");
        let buffers = format!(" const uint32_t *const p = L->p; (void)p;{}\n", (0..bindings).map(own).collect::<String>());
        KernelModule { functions: after("fn"), structs: after("struct"), prefix, buffers }
    }
}
/// Writes one text.
pub(super) struct TextWriter<'t> {
    words: Vec<Word<'t>>,
    native: bool,
    module: Option<&'t KernelModule>,
    resumed: Option<&'t mut Resumed>,
    out: String,
}
/// A type: what stands before a name, and behind it where there are several.
struct Type {
    of: String,
    length: Option<String>,
}
impl<'t> TextWriter<'t> {
    pub fn new(text: &'t str, native: bool, module: Option<&'t KernelModule>, resumed: Option<&'t mut Resumed>) -> TextWriter<'t> {
        TextWriter { words: words(text), native, module, resumed, out: String::with_capacity(text.len() + text.len() / 4) }
    }
    /// The text in C.
    ///
    /// # Errors
    /// What C cannot say.
    pub fn written(mut self) -> Result<String, String> {
        self.write(0, self.words.len())?;
        Ok(self.out)
    }
    fn is(&self, k: usize, s: &str) -> bool {
        matches!(self.words.get(k), Some(Word::Other(o)) if *o == s)
    }
    fn name(&self, k: usize) -> Option<&'t str> {
        if let Some(&Word::Name(n)) = self.words.get(k) { Some(n) } else { None }
    }
    /// The next word that is more than white space.
    fn next(&self, from: usize) -> usize {
        let blank = |w: &Word<'_>| matches!(w, Word::Other(s) if s.trim().is_empty());
        (from..self.words.len()).find(|&k| !blank(&self.words[k])).unwrap_or(self.words.len())
    }
    /// The bracket that closes the one at `open`.
    fn closing(&self, open: usize) -> Result<usize, String> {
        let mut depth = 0;
        for k in open..self.words.len() {
            if self.is(k, "(") {
                depth += 1;
            } else if self.is(k, ")") {
                depth -= 1;
                if depth == 0 {
                    return Ok(k);
                }
            }
        }
        Err("a bracket that is not closed".into())
    }
    /// The type at a word, and the word behind it.
    fn type_at(&self, k: usize) -> (Type, usize) {
        let plain = |of: String| Type { of, length: None };
        match self.name(k) {
            Some("vec2") if self.is(k + 1, "<") => (plain(format!("adm_vec2_{}", self.name(k + 2).unwrap_or_default())), k + 4),
            Some("array") if self.is(k + 1, "<") => {
                let (of, behind) = self.type_at(k + 2);
                let at = self.next(behind + 1);
                let length = if let Some(Word::Number(n)) = self.words.get(at) { Some(n.to_string()) } else { None };
                (Type { of: of.of, length }, at + 2)
            }
            Some(n) if self.module.is_some_and(|m| m.structs.contains(n)) => {
                (plain(format!("{}_{n}", self.module.map(|m| m.prefix.as_str()).unwrap_or_default())), k + 1)
            }
            Some(n) => (plain(c_type(n).unwrap_or(n).to_string()), k + 1),
            None => (plain(String::new()), k),
        }
    }
    /// Fields or parameters `name: type` up to a bracket.
    fn list(&self, from: usize, to: usize) -> Vec<(&'t str, Type)> {
        let mut all = Vec::new();
        let mut k = from;
        while k < to {
            match self.name(k) {
                Some(n) => {
                    let (t, behind) = self.type_at(self.next(k + 2));
                    all.push((n, t));
                    k = behind;
                }
                None => k += 1,
            }
        }
        all
    }
    /// A part of the text by itself.
    fn piece(&mut self, from: usize, to: usize) -> Result<String, String> {
        let out = std::mem::take(&mut self.out);
        self.write(from, to)?;
        Ok(std::mem::replace(&mut self.out, out))
    }
    fn write(&mut self, from: usize, to: usize) -> Result<(), String> {
        let mut at = from;
        while at < to {
            at = self.word(at)?;
        }
        Ok(())
    }
    /// Writes what begins with a word; returns the word behind it.
    fn word(&mut self, at: usize) -> Result<usize, String> {
        if let Some(behind) = self.resume(at)? {
            return Ok(behind);
        }
        match self.words[at] {
            Word::Verbatim(_) if self.resumed.is_some() => return Err("an expression between barriers".into()),
            Word::Verbatim(s) | Word::Other(s) => self.out.push_str(s),
            Word::Number(n) => self.out.push_str(&number(n)),
            Word::Name("fn") => return self.function(at),
            Word::Name("struct") => return self.structure(at),
            Word::Name("let" | "var") if self.is(at + 3, ":") => return Ok(self.declaration(at)),
            // `bitcast<type>`
            Word::Name("bitcast") => {
                self.out.push_str(&format!("adm_bits_{}", self.name(at + 2).unwrap_or_default()));
                return Ok(at + 4);
            }
            Word::Name("vec2") if self.is(at + 1, "<") => {
                let t = self.name(at + 2).unwrap_or_default();
                self.out.push_str(&if self.is(at + 4, "(") { format!("adm_make_vec2_{t}") } else { format!("adm_vec2_{t}") });
                return Ok(at + 4);
            }
            Word::Name(n) if at > 0 && self.is(at - 1, ".") => self.out.push_str(n),
            Word::Name(n) if self.is(at + 1, "(") => return Ok(self.call(n, at)),
            Word::Name(n) => {
                let kept = self.resumed.as_ref().and_then(|r| r.kept(n));
                let text = kept.unwrap_or_else(|| self.type_at(at).0.of);
                self.out.push_str(&text);
            }
        }
        Ok(at + 1)
    }
    fn call(&mut self, n: &str, at: usize) -> usize {
        if let Some(t) = c_type(n) {
            self.out.push_str(&format!("({t})"));
            return at + 1;
        }
        if let Some(m) = self.module {
            if m.structs.contains(n) {
                self.out.push_str(&format!("{}_make_{n}", m.prefix));
                return at + 1;
            }
            if m.functions.contains(n) {
                let comma = if self.is(self.next(at + 2), ")") { "" } else { ", " };
                self.out.push_str(&format!("{}_{n}(L{comma}", m.prefix));
                if let Some(resumed) = &mut self.resumed {
                    resumed.see("(");
                }
                return at + 2;
            }
        }
        let tables: &[&[(&str, &str)]] = if self.native { &[BUILTIN, NATIVE] } else { &[BUILTIN] };
        self.out.push_str(tables.iter().copied().flatten().find(|(from, _)| *from == n).map_or(n, |(_, to)| to));
        at + 1
    }
    /// `fn name(a: t, b: u) -> v {`
    fn function(&mut self, at: usize) -> Result<usize, String> {
        let name = self.name(at + 2).unwrap_or_default();
        let close = self.closing(at + 3)?;
        let mut parameters: Vec<String> = self.list(at + 4, close).into_iter().map(|(n, t)| format!("{} {n}", t.of)).collect();
        let mut end = self.next(close + 1);
        let mut result = "void".to_string();
        if self.is(end, "-") {
            let (t, behind) = self.type_at(self.next(end + 2));
            (result, end) = (t.of, behind);
        } else {
            end = close + 1;
        }
        let Some(m) = self.module else {
            let list = if parameters.is_empty() { "void".to_string() } else { parameters.join(", ") };
            self.out.push_str(&format!("static inline {result} {name}({list})"));
            return Ok(end);
        };
        parameters.insert(0, "const adm_launch *const L".into());
        let brace = self.next(end);
        self.out.push_str(&format!("static {result} {}_{name}({}) {{{}", m.prefix, parameters.join(", "), m.buffers));
        Ok(brace + 1)
    }
    /// `struct Name { a: t, b: u, }`, with a function that makes one.
    fn structure(&mut self, at: usize) -> Result<usize, String> {
        let prefix = self.module.map(|m| m.prefix.as_str()).unwrap_or_default();
        let name = self.name(at + 2).unwrap_or_default();
        let close = (at..self.words.len()).find(|&k| self.is(k, "}")).ok_or("a struct that is not closed")?;
        let fields = self.list(self.next(at + 3) + 1, close);
        let members: String = fields.iter().map(|(n, t)| format!("{} {n}; ", t.of)).collect();
        let parameters: Vec<String> = fields.iter().map(|(n, t)| format!("{} {n}", t.of)).collect();
        let values: Vec<&str> = fields.iter().map(|f| f.0).collect();
        self.out.push_str(&format!(
            "typedef struct {{ {members}}} {prefix}_{name};\nstatic {prefix}_{name} {prefix}_make_{name}({}) {{ {prefix}_{name} v = {{{}}}; return v; }}",
            parameters.join(", "),
            values.join(", ")
        ));
        Ok(close + 1)
    }
    /// `let name: type`, and `var` with or without a value: what has none is zero.
    fn declaration(&mut self, at: usize) -> usize {
        let is_let = self.name(at) == Some("let");
        let name = self.name(at + 2).unwrap_or_default();
        let (t, behind) = self.type_at(self.next(at + 4));
        let bare = self.is(self.next(behind), ";");
        if let Some(resumed) = &mut self.resumed {
            let field = resumed.declare(name, &t.of, t.length.as_deref());
            self.out.push_str(&if bare { format!("memset(&{field}, 0, sizeof {field})") } else { field });
            return behind;
        }
        let length = t.length.map_or(String::new(), |n| format!("[{n}]"));
        self.out.push_str(&format!("{}{} {name}{length}{}", if is_let { "const " } else { "" }, t.of, if bare { " = {0}" } else { "" }));
        behind
    }

    /// What a text that is left and taken up again does differently: scopes, returns, and the places where it waits.
    /// Returns the word behind, or nothing where the word is as anywhere.
    fn resume(&mut self, at: usize) -> Result<Option<usize>, String> {
        let word = self.words[at];
        let blank = matches!(word, Word::Other(s) if s.trim().is_empty() || s.starts_with("//"));
        let Some(resumed) = &mut self.resumed else { return Ok(None) };
        if let Some((behind, value)) = resumed.waited_for(at) {
            self.out.push_str(&value);
            return Ok(Some(behind));
        }
        if !blank && resumed.is_fresh() {
            resumed.begin_statement();
            let end = self.statement_end(at)?;
            self.waits(at, end)?;
        }
        let Some(resumed) = &mut self.resumed else { return Ok(None) };
        match word {
            Word::Other(s) => resumed.see(s),
            Word::Name("for") => resumed.begin_for(),
            Word::Name("return") => {
                self.out.push_str("return 0");
                return Ok(Some(at + 1));
            }
            Word::Name("adm_barrier") => {
                let point = resumed.point();
                self.out.push_str(&format!("s->at = {point}; return 2; case {point}:"));
                return Ok(Some(at + 3));
            }
            _ => {}
        }
        Ok(None)
    }
    /// The `;` of a statement, or the `{` behind its head.
    fn statement_end(&self, from: usize) -> Result<usize, String> {
        let mut depth = 0;
        for k in from..self.words.len() {
            if self.is(k, "(") {
                depth += 1;
            } else if self.is(k, ")") {
                depth -= 1;
            } else if self.is(k, "{") || self.is(k, "}") || (depth == 0 && self.is(k, ";")) {
                return Ok(k);
            }
        }
        Ok(self.words.len())
    }
    /// Writes the waiting of a statement before the statement: each value goes to the subgroup, and what comes back is
    /// what the statement then reads.
    fn waits(&mut self, from: usize, to: usize) -> Result<(), String> {
        let mut k = from;
        while k < to {
            let Some(what) = self.name(k).and_then(|n| n.strip_prefix("adm_subgroup_")) else {
                k += 1;
                continue;
            };
            if !self.is(to, ";") {
                return Err("a subgroup operation in the head of a loop or a branch".into());
            }
            let close = self.closing(k + 1)?;
            let mut depth = 0;
            let comma = (k + 1..close).find(|&c| {
                depth += i32::from(self.is(c, "(")) - i32::from(self.is(c, ")"));
                depth == 1 && self.is(c, ",")
            });
            if (k + 1..close).any(|c| self.name(c).is_some_and(|n| n.starts_with("adm_subgroup_"))) {
                return Err("a subgroup operation inside another".into());
            }
            let value = self.piece(k + 2, comma.unwrap_or(close))?;
            let from_lane = comma.map_or(Ok(String::new()), |c| self.piece(c + 1, close))?;
            let t = what.rsplit('_').next().unwrap_or_default();
            let Some(resumed) = &mut self.resumed else { return Ok(()) };
            let (point, field) = (resumed.point(), resumed.temporary(c_type(t).unwrap_or(t)));
            let from_lane = if from_lane.is_empty() { from_lane } else { format!(",{from_lane}") };
            self.out.push_str(&format!(
                "g->words[s->turn & 1][invocation].{t} = {value}; s->at = {point}; return 1; case {point}: {field} = adm_{what}(g->words[s->turn & 1] + invocation / of_subgroup * of_subgroup, of_subgroup{from_lane}); s->turn++;\n"
            ));
            resumed.replace(k, close + 1, field);
            k = close + 1;
        }
        Ok(())
    }
}
/// A number: C's floats end in `f`, and its suffixes are others.
fn number(n: &str) -> String {
    if n.starts_with("0x") {
        return n.to_string();
    }
    if let Some(digits) = n.strip_suffix("li") {
        return format!("{digits}ll");
    }
    if let Some(digits) = n.strip_suffix("lu") {
        return format!("{digits}ull");
    }
    let n = n.strip_suffix('i').unwrap_or(n);
    let float = n.contains(['.', 'e']);
    if float && !n.ends_with('f') { format!("{n}f") } else { n.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notation_becomes_c_word_by_word() {
        let wgsl = "fn adm_f(x: f32, n: i32) -> bool {\n    let a: f32 = select(1.0, abs(x), n == 2);\n    var b: u32 = bitcast<u32>(a);\n    return adm_exp(a) < f32(b) + 1e-7;\n}";
        let c = "static inline bool adm_f(float x, int32_t n) {\n    const float a = ADM_SELECT(1.0f, fabsf(x), n == 2);\n    uint32_t b = adm_bits_u32(a);\n    return expf(a) < (float)(b) + 1e-7f;\n}";
        assert_eq!(to_c(wgsl, true), c);
        assert_eq!(to_c(wgsl, false), c.replace("expf", "adm_exp"));
    }
    #[test]
    fn a_body_that_waits_keeps_its_names_and_is_entered_again() -> Result<(), String> {
        let module = KernelModule::of("k".into(), "fn f(x: f32) -> f32 { return x; }", 1);
        for (notation, c) in [
            (
                "var a: f32 = 1.0; adm_barrier(); for (var k: u32 = 0u; k < 2u; k++) { a += f(a); } let k: u32 = 3u;",
                "s->a_0 = 1.0f; s->at = 1; return 2; case 1:; for (s->k_1 = 0u; s->k_1 < 2u; s->k_1++) { s->a_0 += k_f(L, s->a_0); } s->k_2 = 3u;",
            ),
            ("let a: u32 = 1u; if (a == 1u) { let a: u32 = a + 1u; return; }", "s->a_0 = 1u; if (s->a_0 == 1u) { s->a_1 = s->a_0 + 1u; return 0; }"),
            (
                "let t: f32 = adm_subgroup_sum_f32(x) + 1.0;",
                "g->words[s->turn & 1][invocation].f32 = x; s->at = 1; return 1; case 1: s->t_0 = adm_sum_f32(g->words[s->turn & 1] + invocation / of_subgroup * of_subgroup, of_subgroup); s->turn++;\ns->t_1 = s->t_0 + 1.0f;",
            ),
        ] {
            assert_eq!(TextWriter::new(notation, true, Some(&module), Some(&mut Resumed::new())).written()?, c);
        }
        let refused = TextWriter::new("if (adm_subgroup_sum_f32(x) > 0.0) { return; }", true, Some(&module), Some(&mut Resumed::new())).written();
        assert!(refused.is_err_and(|e| e.contains("in the head of")));
        Ok(())
    }
    #[test]
    fn pairs_arrays_and_numbers_become_cs() {
        for (notation, c) in [
            ("var w: array<u32, 4>;", "uint32_t w[4] = {0};"),
            ("let v: vec2<u32> = vec2<u32>(1u, x.y);", "const adm_vec2_u32 v = adm_make_vec2_u32(1u, x.y);"),
            ("var at: u32;", "uint32_t at = {0};"),
            ("-2147483647i - 1i + 9li + 7lu", "-2147483647 - 1 + 9ll + 7ull"),
            ("i64(u64(x)) + 0xffffffffu", "(int64_t)((uint64_t)(x)) + 0xffffffffu"),
            ("min(a, 1.0)", "ADM_MIN(a, 1.0f)"),
        ] {
            assert_eq!(to_c(notation, true), c);
        }
    }
}
