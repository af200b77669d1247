//! The functions of a formatted file, by their lines. Must not know what is too long.

/// A function and where it stands.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FunctionSpan {
    /// from its first line to the brace that closes it
    pub lines: usize,
    pub name: String,
    /// its first line, counted from 1
    pub line: usize,
}

/// All functions of a formatted file with more than a line, those in others too; `code` is what `lex` leaves of the file. The
/// brace that closes a function stands as far in as its first line.
pub fn functions(code: &[String]) -> Vec<FunctionSpan> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let span = |(k, first): (usize, &String)| {
        let name = name(first)?;
        // One that a trait only asks for has no body.
        let open = (k..code.len()).find(|&at| code[at].trim_end().ends_with(['{', ';', '}']))?;
        if !code[open].trim_end().ends_with('{') {
            return None;
        }
        let end = (open + 1..code.len()).find(|&at| code[at].trim_start().starts_with('}') && depth(&code[at]) == depth(first))?;
        Some(FunctionSpan { lines: end - k + 1, name: name.into(), line: k + 1 })
    };
    code.iter().enumerate().filter_map(span).collect()
}
/// The name of the function that begins in this line.
fn name(line: &str) -> Option<&str> {
    let (before, rest) = line.trim_start().split_once("fn ")?;
    let may_stand_before = |word: &str| ["pub", "default", "const", "async", "unsafe", "extern"].contains(&word) || word.starts_with("pub(");
    let is_function = before.is_empty() || before.ends_with(' ') && before.replace("pub(in ", "pub(").split_whitespace().all(may_stand_before);
    is_function.then(|| rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()).flatten()
}

#[cfg(test)]
mod tests {
    use super::{super::lex, *};

    #[test]
    fn a_function_that_is_longer_or_shorter_than_it_is_told() {
        let check = |text: &str, expected: &[(usize, usize, &str)]| {
            let found = functions(&lex::code(text));
            assert_eq!(found.iter().map(|f| (f.line, f.lines, f.name.as_str())).collect::<Vec<_>>(), expected, "{text}");
        };
        check("impl A {\n    pub(crate) fn short(&self) -> u8 {\n        1\n    }\n}\n", &[(2, 3, "short")]);
        // Arguments and bounds that stand in lines of their own, and braces further in.
        check("    fn long(\n        a: u8,\n    ) -> u8\n    where\n        u8: B,\n    {\n        if a {\n        }\n        2\n    }\n", &[(1, 10, "long")]);
        check("fn none();\nfn one() {}\nfn said() -> fn() { f }\ntype F = fn (u8);\nstruct A {\n    a: u8,\n}\n", &[]);
        // What a trait asks for does not end with the next function that has a body.
        check("    fn asked(\n        &self,\n    ) -> u8;\n    fn given(&self) {\n        a();\n    }\n", &[(4, 3, "given")]);
        // Functions and closures inside belong to the outer one.
        check("const fn a() {\n    fn b() {\n        c();\n    }\n    let d = || {\n        e();\n    };\n}\n", &[(1, 8, "a"), (2, 3, "b")]);
        check("unsafe extern \"C\" fn a() {\n    b();\n}\n#[test]\npub(in crate::x) async fn t() {\n    b();\n}\n", &[(1, 3, "a"), (5, 3, "t")]);
        // Texts and comments with braces close nothing.
        check("fn a() {\n    let t = \"\nfn c() {\n}\n\";\n    // fn d() {\n/*\n}\n*/\n    b();\n}\n", &[(1, 11, "a")]);
    }
}
