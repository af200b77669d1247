//! Exit codes, one meaning each for every chore: those of the benchmarks' verbs, which users' programs have too.
pub use adamant_bench::cli::Exit;

/// What `--help` says of them.
pub const HELP: &str = "Exit codes: 0 all passed, 1 something failed, 2 usage, 4 unreadable input, 6 unwritable output, 8 regression, 9 device absent, 10 a gate could not tell, 11 something was skipped";
