//! Rules for Rust files: one concept each, why it exists in the first line, no unsafe outside the places for it.
use super::{Complaint, functions::functions, lex};
use std::path::Path;

/// A file is one concept; beyond this many lines it is likely two.
const MOST_LINES: usize = 600;
/// Longer ones, with the reason: a table or an exhaustive match that is one thought.
const LONGER: &[(&str, usize, &str)] = &[("crates/backend-cpu/tests/kernels.rs", 800, "one table of cases for all kernel families and their check")];
/// A function is one thought; beyond this many lines it is likely two.
const MOST_LINES_OF_A_FUNCTION: usize = 120;
/// Names that say nothing about a concept.
const EMPTY_NAMES: &[&str] = &["mod", "util", "utils", "helper", "helpers", "common", "misc"];
/// Where unsafe code may stand: SIMD, the micro-kernels of matrix products, generated code, the hand-over of a loop to
/// the pool's threads, device glue (advice to the system about memory and a backend's registration among it), mapped files, memory
/// that ranks share (and the models of who may touch it when), sockets that were inherited, processes that are forked.
const UNSAFE_MAY_STAND: &[&str] = &[
    "crates/backend-cpu/src/simd",
    "crates/backend-cpu/src/gemm",
    "crates/backend-cpu/src/jit",
    "crates/backend-cpu/src/memory",
    "crates/backend-cpu/src/threads",
    "crates/backend-cuda/src",
    "crates/backend-wgpu/src",
    "crates/cuda-emulator/src",
    "crates/cuda-emulator/tests/rig",
    "crates/distributed/src/join/inherited",
    "crates/distributed/src/launch/guard",
    "crates/distributed/src/launch/start",
    "crates/distributed/src/local/segment",
    "crates/distributed/src/local/word",
    "crates/engine-mpi/src/functions",
    "crates/engine-mpi/src/wire",
    "crates/formats/src/mmap",
    "examples/dummy_backend/src/lib.rs",
];
/// Macros and attributes that stand for work not done or left over.
const LEFT_OVER: &[&str] = &["todo!", "unimplemented!", "dbg!", "#[ignore"];
/// How far above an unsafe block its reason may begin.
const REASON_WITHIN: usize = 8;

/// What is wrong with a Rust file.
pub fn complaints(path: &Path, text: &str) -> Vec<Complaint> {
    let mut found = Vec::new();
    let mut complain = |line: usize, what: String| found.push(Complaint { path: path.to_path_buf(), line, what });
    let name = path.to_string_lossy().replace('\\', "/");
    let lines: Vec<&str> = text.lines().collect();

    let most = LONGER.iter().find(|(p, ..)| *p == name).map_or(MOST_LINES, |(_, most, _)| *most);
    if lines.len() > most {
        complain(0, format!("{} lines; a file is one concept, at most {most} lines", lines.len()));
    }
    // Cargo takes tests/foo.rs for a program of its own: what test programs share stands in tests/foo/mod.rs.
    let shared_by_tests = name.contains("/tests/") && name.ends_with("/mod.rs");
    if !shared_by_tests && path.file_stem().is_some_and(|stem| EMPTY_NAMES.iter().any(|n| stem == *n)) {
        complain(0, "a file's name says which concept it holds; foo.rs stands beside foo/".into());
    }
    if !lines.iter().find(|l| !l.starts_with("#!")).is_some_and(|l| l.starts_with("//!")) {
        complain(1, "the first line (`//!`) says why the file exists".into());
    }
    let unsafe_here = UNSAFE_MAY_STAND.iter().any(|p| name.starts_with(p));
    if name.ends_with("/src/lib.rs") && !text.contains("#![forbid(unsafe_code)]") {
        let folder = name.trim_end_matches("/src/lib.rs");
        if !UNSAFE_MAY_STAND.iter().any(|p| p.starts_with(folder)) {
            complain(0, "`#![forbid(unsafe_code)]` is missing".into());
        }
    }
    let code = lex::code(text);
    for f in functions(&code).iter().filter(|f| f.lines > MOST_LINES_OF_A_FUNCTION) {
        complain(f.line, format!("`{}` has {} lines; a function is one thought, at most {MOST_LINES_OF_A_FUNCTION} lines", f.name, f.lines));
    }
    for (k, code) in code.iter().enumerate() {
        if let Some(left) = LEFT_OVER.iter().find(|w| code.contains(**w)) {
            complain(k + 1, format!("`{left}` is not finished work"));
        }
        if lex::has_word(code, "unsafe") {
            let reason = || lines[k.saturating_sub(REASON_WITHIN)..=k].iter().any(|l| l.contains("SAFETY:"));
            // What an unsafe function asks of its callers is clippy's to demand.
            let acts = code.contains("unsafe {") || code.contains("unsafe impl") || code.trim_end().ends_with("unsafe");
            if !unsafe_here {
                complain(k + 1, "unsafe code outside the places for it".into());
            } else if acts && !reason() {
                complain(k + 1, "unsafe code without a `// SAFETY:` comment".into());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_finds_its_breach() {
        let long = "//! Why.\n".repeat(MOST_LINES + 1);
        for (path, text, complaints) in [
            ("crates/x/src/a.rs", "//! Why.\nfn f() {}\n", 0),
            ("crates/x/src/a.rs", "fn f() {}\n", 1),
            ("crates/x/src/a.rs", long.as_str(), 1),
            ("crates/x/src/utils.rs", "//! Why.\n", 1),
            ("crates/x/src/a/mod.rs", "//! Why.\n", 1),
            ("crates/x/tests/a/mod.rs", "//! Why.\n", 0),
            ("crates/x/src/a.rs", concat!("//! Why.\nfn f() { tod", "o!() }\n"), 1),
            ("crates/x/src/a.rs", "//! Why.\nfn f() { \"todo!\" }\n", 0),
            ("crates/x/src/a.rs", "//! Why.\n// SAFETY: no.\nunsafe {}\n", 1),
            ("crates/backend-cpu/src/simd/a.rs", "//! Why.\n// SAFETY: yes.\nunsafe {}\n", 0),
            ("crates/backend-cpu/src/simd/a.rs", "//! Why.\nunsafe {}\n", 1),
            ("crates/x/src/lib.rs", "//! Why.\n", 1),
            ("crates/x/src/lib.rs", "//! Why.\n#![forbid(unsafe_code)]\n", 0),
        ] {
            assert_eq!(super::complaints(Path::new(path), text).len(), complaints, "{path}: {text}");
        }
    }
    #[test]
    fn a_function_that_is_too_long() {
        let function = |indent: &str, name: &str, lines: usize| {
            let body = format!("{indent}    a();\n").repeat(lines - 2);
            format!("{indent}fn {name}() {{\n{body}{indent}}}\n")
        };
        let check = |text: String, expected: &[(usize, &str)]| {
            let complaints = complaints(Path::new("crates/x/src/a.rs"), &format!("//! Why.\n{text}"));
            assert_eq!(complaints.len(), expected.len(), "{complaints:?}");
            for (complaint, (line, what)) in complaints.iter().zip(expected) {
                assert!(complaint.line == *line && complaint.what.starts_with(what), "{complaint} is not {line}: {what}");
            }
        };
        let (most, long) = (MOST_LINES_OF_A_FUNCTION, MOST_LINES_OF_A_FUNCTION + 1);
        check(function("", "f", most), &[]);
        check(function("", "f", long), &[(2, "`f` has 121 lines")]);
        check(function("", "f", long) + &function("", "g", most) + &function("", "h", long), &[(2, "`f` has 121"), (243, "`h` has 121")]);
        // Tests are functions, and a method is one.
        check(format!("#[test]\n{}", function("", "f", long)), &[(3, "`f`")]);
        check(format!("impl A {{\n{}}}\n", function("    ", "f", long)), &[(3, "`f`")]);
        // What stands inside counts for the outer one too.
        let outer = |inside: String| format!("fn f() {{\n{inside}}}\n");
        check(outer(function("    ", "g", most - 2)), &[]);
        check(outer(function("    ", "g", most - 1)), &[(2, "`f` has 121")]);
        check(outer(function("    ", "g", long)), &[(2, "`f` has 123"), (3, "`g` has 121")]);
        check(outer(format!("    let c = || {{\n{}    }};\n", "        a();\n".repeat(most - 3))), &[(2, "`f` has 121")]);
    }
}
