//! Who knows whom: the dependencies between the packages of the workspace, as the page on architecture draws them.
//! Read from the manifests (by cargo itself, so that inheritance is resolved); dev-dependencies are not layers.
use super::Complaint;
use crate::workspace;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Each package and the packages of the workspace that it may name. One that is not here is a complaint: a new package
/// is given its place by a line in this table.
const MAY_KNOW: &[(&str, &[&str])] = &[
    // `cargo xtask`: whoever asks for a chore that needs nothing of Adamant does not wait for it to be built.
    ("chores", &[]),
    ("adamant-ir", &[]),
    ("adamant-runtime", &["adamant-ir"]),
    ("adamant-core", &["adamant-ir", "adamant-runtime"]),
    ("adamant-derive", &[]),
    ("adamant-kernels", &["adamant-ir"]),
    ("adamant-conformance", &["adamant-core"]),
    ("adamant-backend-cpu", &["adamant-ir", "adamant-runtime"]),
    ("adamant-backend-cuda", &["adamant-ir", "adamant-runtime", "adamant-kernels"]),
    // Stands under the driver's interface and knows nothing of us.
    ("adamant-cuda-emulator", &[]),
    ("adamant-backend-wgpu", &["adamant-ir", "adamant-runtime", "adamant-kernels"]),
    // A backend as somebody else would write one.
    ("dummy_backend", &["adamant-ir", "adamant-runtime"]),
    ("adamant-distributions", &["adamant-core"]),
    ("adamant-formats", &["adamant-core"]),
    ("adamant-metrics", &["adamant-core"]),
    ("adamant-nn", &["adamant-core", "adamant-derive"]),
    ("adamant-models", &["adamant-core", "adamant-nn", "adamant-formats"]),
    // The chapters under docs/book, as documentation that is run.
    ("adamant-book", &["adamant"]),
    ("adamant-parallel", &["adamant-core", "adamant-nn"]),
    ("adamant-optim", &["adamant-core", "adamant-nn"]),
    ("adamant-amp", &["adamant-core", "adamant-nn", "adamant-optim"]),
    ("adamant-plot", &[]),
    ("adamant-stability", &["adamant-core", "adamant-nn", "adamant-optim", "adamant-plot"]),
    ("adamant-quant", &["adamant-core", "adamant-nn", "adamant-formats"]),
    ("adamant-distributed", &["adamant-ir", "adamant-runtime"]),
    ("adamant-engine-mpi", &["adamant-ir", "adamant-runtime", "adamant-distributed"]),
    ("adamant-data", &["adamant-core", "adamant-formats"]),
    ("adamant-onnx", &["adamant-core", "adamant-nn", "adamant-formats"]),
    ("adamant-lang", &["adamant-core", "adamant-nn", "adamant-derive"]),
    (
        "adamant-train",
        &[
            "adamant-core",
            "adamant-nn",
            "adamant-derive",
            "adamant-optim",
            "adamant-data",
            "adamant-formats",
            "adamant-lang",
            "adamant-amp",
            "adamant-plot",
            "adamant-parallel",
            "adamant-stability",
            "adamant-quant",
            "adamant-distributed",
        ],
    ),
    ("adamant-plan", &["adamant-core", "adamant-nn", "adamant-parallel", "adamant-distributed", "adamant-train"]),
];
/// Programs, which stand above the facade. They reach everything through it, except for what only programs use.
const PROGRAMS: &[&str] = &["xtask", "adamant-cli", "adamant-bench", "adamant-benches"];
/// What programs may name beside the facade: what tests it, core, for its features that only tests turn on, and the
/// trainer, the benchmark tool, what starts ranks and the way to cargo, which the facade does not re-export.
const FOR_PROGRAMS: &[&str] = &[
    "adamant",
    "adamant-conformance",
    "adamant-core",
    "adamant-cuda-emulator",
    "adamant-distributed",
    "adamant-engine-mpi",
    "adamant-plan",
    "adamant-train",
    "adamant-bench",
    "chores",
];
/// Packages from outside that would break what a package promises not to know: thread pools, file formats.
const MUST_NOT_KNOW: &[(&str, &[&str])] = &[
    ("adamant-ir", &["rayon", "tokio", "crossbeam", "serde", "serde_json", "safetensors", "toml", "gemm", "memmap2", "linkme", "triomphe"]),
    ("adamant-runtime", &["rayon", "tokio", "crossbeam", "serde", "serde_json", "safetensors", "toml", "gemm", "memmap2"]),
    ("adamant-core", &["rayon", "tokio", "crossbeam", "serde", "serde_json", "safetensors", "toml", "gemm", "memmap2"]),
    ("adamant-metrics", &["rayon", "safetensors", "serde", "serde_json"]),
    ("adamant-nn", &["rayon", "safetensors", "serde", "serde_json"]),
    ("adamant-optim", &["rayon", "safetensors", "serde", "serde_json"]),
    ("adamant-kernels", &["wgpu", "naga", "ash", "cust", "cudarc"]),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}
#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}
#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

/// Every dependency that the table does not allow.
pub fn complaints() -> Vec<Complaint> {
    let read = workspace::cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"]).output();
    let metadata = read.map_err(|e| e.to_string()).and_then(|o| serde_json::from_slice::<Metadata>(&o.stdout).map_err(|e| e.to_string()));
    match metadata {
        Ok(metadata) => metadata.packages.iter().flat_map(|p| of_package(p, &metadata.packages)).collect(),
        Err(e) => vec![Complaint { path: "Cargo.toml".into(), line: 0, what: format!("cargo metadata: {e}") }],
    }
}
fn of_package(package: &Package, all: &[Package]) -> Vec<Complaint> {
    let path = package.manifest_path.strip_prefix(workspace::root()).unwrap_or(&package.manifest_path).to_path_buf();
    let complain = |what: String| Complaint { path: path.clone(), line: 0, what };
    let names: Vec<&str> = package.dependencies.iter().filter(|d| d.kind.is_none()).map(|d| d.name.as_str()).collect();
    let ours: Vec<&str> = names.iter().copied().filter(|n| all.iter().any(|p| p.name == *n)).collect();
    let mut found = Vec::new();
    match may_know(&package.name, &path) {
        None => found.push(complain(format!("say in chores/src/tidy/layers.rs which packages {} may know", package.name))),
        Some(allowed) => {
            let broken = ours.iter().filter(|d| !allowed.contains(d));
            found.extend(broken.map(|d| complain(format!("{} must not know {d}", package.name))));
        }
    }
    let forbidden = MUST_NOT_KNOW.iter().filter(|(name, _)| *name == package.name).flat_map(|(_, forbidden)| forbidden.iter());
    found.extend(forbidden.filter(|d| names.contains(d)).map(|d| complain(format!("{} must not know {d}", package.name))));
    found
}
fn may_know(name: &str, path: &Path) -> Option<Vec<&'static str>> {
    if name == "adamant" {
        return Some(MAY_KNOW.iter().map(|(name, _)| *name).collect());
    }
    let program = PROGRAMS.contains(&name) || path.starts_with("examples");
    let listed = MAY_KNOW.iter().find(|(n, _)| *n == name).map(|(_, allowed)| allowed.to_vec());
    listed.or_else(|| program.then(|| FOR_PROGRAMS.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_that_names_one_above_it_is_found() {
        let package = |name: &str, knows: &[&str]| Package {
            name: name.into(),
            manifest_path: workspace::root().join("crates/x/Cargo.toml"),
            dependencies: knows.iter().map(|n| Dependency { name: n.to_string(), kind: None }).collect(),
        };
        let all: Vec<Package> = MAY_KNOW.iter().map(|(n, _)| package(n, &[])).chain([package("adamant", &[])]).collect();
        for (name, knows, complaints) in [
            ("adamant-core", &["smallvec"][..], 0),
            ("adamant-core", &["rayon"], 1),
            ("adamant-core", &["adamant-nn"], 1),
            ("adamant-nn", &["adamant-core"], 0),
            ("adamant-nn", &["adamant-backend-cpu"], 1),
            ("adamant-backend-cuda", &["adamant-backend-cpu"], 1),
            ("adamant", &["adamant-backend-cpu"], 0),
            ("adamant-train", &["adamant"], 1),
            ("xtask", &["adamant", "adamant-backend-cpu"], 1),
            ("chores", &["adamant"], 1),
            ("adamant-somebody", &[], 1),
        ] {
            assert_eq!(of_package(&package(name, knows), &all).len(), complaints, "{name} {knows:?}");
        }
    }
}
