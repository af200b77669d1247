//! GPT-2 trained from nothing: the network of 124 million parameters, or a smaller one, in bf16 with f32 weights, by AdamW with
//! accumulation, clipping, a warm-up and a cosine. Prints tokens in a second and the share of the peak that they are.
//!
//!     cargo run --release -p gpt2 --features cuda -- --device cuda:0 --data tokens.bin
mod corpus;
mod options;
mod pace;
mod training;

use adamant::{Error, ErrorKind};
use clap::Parser;
use options::Options;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = Options::parse();
    match training::run(&options) {
        Ok(outcome) => {
            if options.json {
                println!("{}", serde_json::json!(outcome));
            }
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(code(&e))
        }
    }
}
/// The exit codes of `adamant`: 2 usage, 4 unreadable input, 5 out of memory, 9 device absent, else 1.
fn code(e: &Error) -> u8 {
    match e.kind() {
        ErrorKind::Argument(_) => 2,
        ErrorKind::File { .. } => 4,
        ErrorKind::OutOfMemory { .. } => 5,
        ErrorKind::DeviceAbsent(_) => 9,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
