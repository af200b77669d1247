//! Rules for every text file: it says nothing about the machine it was written on, and links only to public pages.
use super::Complaint;
use std::path::Path;

/// Beginnings of paths that exist on one machine only, in two parts so that this file does not contain them.
const MACHINE_PATHS: &[(&str, &str)] = &[("/ho", "me/"), ("/ro", "ot/"), ("/Us", "ers/"), ("/wo", "rk/"), ("C:\\Us", "ers"), ("/tmp/", "wt")];
/// Hosts that sources, licences and documentation may name.
const PUBLIC_HOSTS: &[&str] = &[
    "github.com",
    "raw.githubusercontent.com",
    "docs.rs",
    "crates.io",
    "doc.rust-lang.org",
    "www.rust-lang.org",
    "rust-lang.github.io",
    "doi.org",
    "arxiv.org",
    "pytorch.org",
    "docs.pytorch.org",
    "numpy.org",
    "onnx.ai",
    "huggingface.co",
    "en.wikipedia.org",
    "archive.ics.uci.edu",
    "creativecommons.org",
    "opensource.org",
    "www.apache.org",
    "semver.org",
    "keepachangelog.com",
    "example.com",
    "img.shields.io",
    "json-schema.org",
    "www.w3.org",
    "gpuweb.github.io",
    "docs.nvidia.com",
    "developer.nvidia.com",
    "www.netlib.org",
    "dlmf.nist.gov",
];
/// The only registry that a lock file may name.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// What is wrong with a text file.
pub fn complaints(path: &Path, text: &str) -> Vec<Complaint> {
    let mut found = Vec::new();
    for (k, line) in text.lines().enumerate() {
        let mut complain = |what: String| found.push(Complaint { path: path.to_path_buf(), line: k + 1, what });
        if let Some(machine) = MACHINE_PATHS.iter().map(|(a, b)| format!("{a}{b}")).find(|p| begins_a_path(line, p)) {
            complain(format!("`{machine}` is a path of one machine"));
        }
        for host in hosts(line).filter(|h| !PUBLIC_HOSTS.contains(h) && *h != "localhost" && *h != "127.0.0.1") {
            complain(format!("{host} is not among the public hosts in chores/src/tidy/text.rs"));
        }
        if path.ends_with("Cargo.lock") && line.starts_with("source = ") && !line.contains(REGISTRY) {
            complain("the lock file names another registry than the public one".into());
        }
    }
    found
}
/// Does a path begin there, rather than go on? (`a/b/x` holds `/b/`, but does not begin with it.)
fn begins_a_path(line: &str, prefix: &str) -> bool {
    line.match_indices(prefix).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~}".contains(c)))
}
/// The hosts of the addresses in a line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("://").filter_map(|(at, mark)| {
        let scheme = line[..at].rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("");
        let rest = &line[at + mark.len()..];
        let host = &rest[..rest.find(|c: char| !(c.is_ascii_alphanumeric() || ".-".contains(c))).unwrap_or(rest.len())];
        (["http", "https", "git", "ssh"].contains(&scheme) && !host.is_empty()).then_some(host.trim_end_matches('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_path_or_an_unknown_host_is_found() {
        let of = |parts: (&str, &str), rest: &str| format!("{}{}{rest}", parts.0, parts.1);
        let unknown = format!("https:{}mirror.inside.example/x", "//");
        for (line, complaints) in [
            (format!("see {}", of(MACHINE_PATHS[0], "me")), 1),
            (format!("\"{}\"", of(MACHINE_PATHS[3], "x")), 1),
            (format!("a{}", of(MACHINE_PATHS[3], "x")), 0),
            ("https://arxiv.org/abs/1412.6980".into(), 0),
            (unknown, 1),
            ("a://b and cuda://0".into(), 0),
        ] {
            assert_eq!(super::complaints(Path::new("docs/a.md"), &line).len(), complaints, "{line}");
        }
    }
    #[test]
    fn a_lock_file_of_another_registry_is_found() {
        let lines = format!("source = \"{REGISTRY}\"\nsource = \"registry+https:{}github.com/else\"\n", "//");
        assert_eq!(super::complaints(Path::new("Cargo.lock"), &lines).len(), 1);
        assert_eq!(super::complaints(Path::new("docs/a.md"), &lines).len(), 0);
    }
}
