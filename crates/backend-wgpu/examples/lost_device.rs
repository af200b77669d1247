//! A model trains and loses its device in the middle of a step. The program says so and ends with 9, the exit code of a
//! device that is absent; nothing panics. Built so that a panic would end the program at once:
//!
//!     cargo run --profile abort -p adamant-backend-wgpu --example lost_device
use adamant_backend_wgpu::WgpuBackend;
use adamant_core::{Cell, DType, Device, Error, ErrorKind, Result, Tensor, step};
use std::process::ExitCode;

const ABSENT: u8 = 9;

fn train(weight: &Cell) -> Result<f32> {
    step(|| weight.set(&(weight.detached().matmul(&weight.detached()) * 4.0f32 + 1e-3f32)))?;
    weight.detached().sum(..).item::<f32>()
}
/// Trains until the device is lost, which another thread sees to.
fn run(device: Device) -> Result<Error> {
    let weight = Cell::new(&Tensor::full([256, 256], 1e-3, DType::F32), true)?;
    let submitted = move || device.counters().iter().find(|c| c.0 == "submissions").map_or(0, |c| c.1);
    let destroys = std::thread::spawn(move || {
        while submitted() < 50 {
            std::thread::yield_now();
        }
        if let Some(backend) = device.backend().downcast::<WgpuBackend>() {
            backend.destroy();
        }
    });
    let mut steps = 0;
    let error = loop {
        match train(&weight) {
            Ok(_) => steps += 1,
            Err(e) => break e,
        }
    };
    drop(destroys.join());
    println!("after {steps} steps: {error}");
    device.recover()?;
    weight.set(&Tensor::full([256, 256], 1e-3, DType::F32))?;
    println!("opened again; the next step gives {}", train(&weight)?);
    Ok(error)
}
fn main() -> ExitCode {
    let device = match WgpuBackend::open(0) {
        Ok(backend) => Device::from_backend(Box::new(backend)),
        Err(kind) => {
            println!("{kind}");
            return ExitCode::from(ABSENT);
        }
    };
    match device.scoped(|| run(device)) {
        Ok(lost) if matches!(lost.kind(), ErrorKind::DeviceLost(_)) => ExitCode::from(ABSENT),
        Ok(other) | Err(other) => {
            println!("{other}");
            ExitCode::FAILURE
        }
    }
}
