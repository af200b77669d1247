//! Compares folders of `tests/python/goldens.py` with what the networks give here: outputs, losses, gradients of all parameters,
//! running statistics. Ends with 1 if one is too far.
//!
//! python crates/models/tests/python/goldens.py full FOLDER
//! cargo run -p adamant-models --example compare -- FOLDER/resnet18 FOLDER/gpt2 FOLDER/bert
//!
//! Where PyTorch computed in f64, so is here, and those gradients are judged; then it is told how far f32 is from them, here and
//! in PyTorch: ReLU has two slopes, and rounding decides which of them a number near 0 gets.
use adamant_backend_cpu as _;
use adamant_core::DType;
use replay::{Distances, GRADIENTS, OUTPUTS, Told};
use std::{path::Path, process::ExitCode, time::Instant};

#[path = "../tests/replay/replay.rs"]
mod replay;

fn run(folder: &Path, dtype: DType) -> Told<Distances> {
    let begun = Instant::now();
    let seen = replay::replay(folder, dtype)?;
    println!("  {dtype}: {} numbers compared, {:.1} s", seen.compared, begun.elapsed().as_secs_f64());
    println!("    outputs   {:.1e} at {} (at most {OUTPUTS:.0e})", seen.outputs.0, seen.outputs.1);
    println!("    gradients {:.1e} at {} (at most {GRADIENTS:.0e})", seen.gradients.0, seen.gradients.1);
    Ok(seen)
}
fn judge(folder: &Path) -> Told<bool> {
    let case = replay::case(folder)?;
    if case["double"] != true {
        return Ok(run(folder, DType::F32)?.are_small());
    }
    let double = run(folder, DType::F64)?.are_small();
    let single = run(folder, DType::F32)?;
    println!(
        "    PyTorch's f32: outputs {:.1e}, gradients {:.1e}",
        case["own"]["outputs"].as_f64().unwrap_or(f64::NAN),
        case["own"]["gradients"].as_f64().unwrap_or(f64::NAN)
    );
    Ok(double && single.outputs.0 <= OUTPUTS)
}
fn main() -> ExitCode {
    let folders: Vec<String> = std::env::args().skip(1).collect();
    let mut all_close = !folders.is_empty();
    for folder in folders {
        println!("{folder}");
        let close = judge(Path::new(&folder)).unwrap_or_else(|e| {
            println!("  {e}");
            false
        });
        println!("  {}", if close { "close" } else { "TOO FAR" });
        all_close &= close;
    }
    if all_close { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
