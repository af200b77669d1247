//! Trains the model of examples/digits on the dummy backend, to the end.
//!
//!     cargo run --release -p dummy_backend --example train_digits [EPOCHS]
mod run;

use adamant::{Device, Result};
use dummy_backend::Dummy;

fn main() -> Result<()> {
    let epochs = std::env::args().nth(1).and_then(|e| e.parse().ok()).unwrap_or(30);
    let device = Device::open("dummy", 0)?;
    println!("on {device}: {}", device.info().name);
    let outcome = run::train(device, 1, epochs, usize::MAX, |epoch, loss| println!("epoch {epoch:>2}/{epochs}  loss {loss:.4}"))?;
    println!("test accuracy {:.2} % ({} of {} rows)", 100.0 * outcome.right as f64 / outcome.rows as f64, outcome.right, outcome.rows);
    let submitted = device.backend().downcast::<Dummy>().map_or(0, Dummy::submitted);
    let stats = outcome.stats;
    println!("{} steps of training; {} kernels, with {} more ops inside; {submitted} submitted", outcome.losses.len(), stats.kernels, stats.fused);
    Ok(())
}
