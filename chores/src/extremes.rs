//! `cargo xtask extremes --count N --seed S`: extreme inputs against numbers of 320 bits, as the tests of `adamant-conformance`
//! do, with so many cases of each function. Prints a table: median and worst error in units in the last place.
use chores::workspace;

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// How many cases of each function and dtype
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One of the tests' names, or part of one: scalar_functions, functions_of_rows, densities
    #[arg(long, default_value = "")]
    only: String,
    /// Only functions and families with this in their names
    #[arg(long, default_value = "")]
    name: String,
}

/// Runs them; whether all hold.
pub fn run(options: &Options) -> bool {
    let arguments = ["test", "--package", "adamant-conformance", "--test", "extremes", "--", "--nocapture", &options.only];
    let arguments = if options.only.is_empty() { &arguments[..arguments.len() - 1] } else { &arguments[..] };
    match workspace::cargo(arguments).env("ADAMANT_EXTREMES", format!("{} {} {}", options.count, options.seed, options.name)).status() {
        Ok(status) => status.success(),
        Err(e) => {
            eprintln!("cargo {}: {e}", arguments.join(" "));
            false
        }
    }
}
