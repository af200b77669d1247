//! What the compiler was told, for the record: its version, the target, the profile, its flags, the chosen features.
use std::{env, process::Command};

fn main() {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().ok().and_then(|o| String::from_utf8(o.stdout).ok()).unwrap_or_default();
    println!("cargo:rustc-env=ADAMANT_BENCH_RUSTC={}", version.trim());
    println!("cargo:rustc-env=ADAMANT_BENCH_TARGET={}", variable("TARGET"));
    println!("cargo:rustc-env=ADAMANT_BENCH_PROFILE={} opt-level={}", variable("PROFILE"), variable("OPT_LEVEL"));
    println!("cargo:rustc-env=ADAMANT_BENCH_RUSTFLAGS={}", variable("CARGO_ENCODED_RUSTFLAGS").replace('\u{1f}', " "));
    let mut features: Vec<String> = env::vars().filter_map(|(k, _)| Some(k.strip_prefix("CARGO_FEATURE_")?.to_lowercase())).collect();
    features.sort();
    println!("cargo:rustc-env=ADAMANT_BENCH_FEATURES={}", features.join(","));
    println!("cargo:rerun-if-changed=build.rs");
}
