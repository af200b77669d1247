//! What this program says of itself when a check starts it again: in another environment, under another affinity, built
//! with another feature. One JSON document on stdout.
use super::{plant, planted};
use crate::exit::Exit;
use adamant::{
    Composite, DType, Device, ErrorKind, Result, Tensor,
    cpu::{Context, CpuBackend, CpuKernel, Isa, KernelOperands, Runtime, trace::trace},
    kernel::{FaultWord, KernelKind},
};
use adamant_conformance::{
    plain,
    share::CheckShare,
    suite::{self, Report},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    process::Command,
    time::Instant,
};

/// Graphs of the fuzzer's slice.
const GRAPHS: usize = 300;
/// How often each device is timed.
const ROUNDS: usize = 12;

/// Answers on stdout.
pub fn answer(probe: &str) -> Exit {
    let answer = match probe {
        "device" => describe(),
        "conformance" => conformance(),
        "sizes" => sizes(),
        "devices" => devices(),
        "card" => Ok(json!({ "says": Device::cuda(0).err().map(|e| e.to_string()) })),
        _ => {
            eprintln!("`{probe}` is no probe");
            return Exit::Usage;
        }
    };
    match answer {
        Ok(value) => {
            println!("{value}");
            Exit::Passed
        }
        Err(e) => {
            eprintln!("{e}");
            Exit::Failed
        }
    }
}
/// Asks a program that is this one, or another build of it.
pub fn ask(mut command: Command, probe: &str) -> std::result::Result<Value, Box<dyn Error>> {
    command.args(["features", "--probe", probe]);
    if let Some(fault) = plant::current() {
        command.args(["--planted", &fault]);
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
/// This program, with these variables and without those that set threads or the instruction set.
pub fn again(variables: &[(&str, &str)]) -> std::result::Result<Command, Box<dyn Error>> {
    let mut command = Command::new(super::this_program()?);
    clean(&mut command).envs(variables.iter().copied());
    Ok(command)
}
/// Removes what the environment of the check may have set.
pub fn clean(command: &mut Command) -> &mut Command {
    command.env_remove("ADAMANT_ISA").env_remove("ADAMANT_NUM_THREADS").env_remove("RAYON_NUM_THREADS")
}

fn details(device: Device) -> BTreeMap<&'static str, &'static str> {
    device.info().details.iter().map(|(name, value)| (*name, value.as_str())).collect()
}
fn product(device: Device, n: usize) -> Result<Tensor> {
    device.scoped(|| {
        let x = Tensor::arange(0, (n * n) as i64, 1, DType::F32).reshape([n, n]) / (n * n) as f64;
        x.materialize()?;
        let y = x.matmul(&x);
        y.materialize()?;
        Ok(y)
    })
}
fn describe() -> Result<Value> {
    let shared = Device::cpu()?;
    let set = Context::new(CpuBackend::builder().threads(5))?.device();
    let (_, ran) = trace(|| product(shared, 512));
    let ran: Vec<Value> = ran.iter().map(|r| json!({ "kernel": r.kernel, "by": r.by, "threads": r.threads })).collect();
    Ok(json!({ "device": details(shared), "builder": details(set), "ran": ran }))
}
/// What modes of the conformance suite found on a device: how many checks were made, what failed, and what the device said
/// without right that it cannot do.
fn judged(device: Device, modes: &[fn(Device) -> Report]) -> Value {
    let reports: Vec<Report> = modes.iter().map(|mode| mode(device)).collect();
    let refused: BTreeSet<&String> = reports.iter().flat_map(|r| r.unsupported.keys()).collect();
    let complaints: Vec<String> = reports.iter().flat_map(Report::complaints).collect();
    let checks: Vec<usize> = reports.iter().map(|r| r.checks).collect();
    json!({ "device": device.to_string(), "checks": checks, "complaints": complaints, "refused": refused })
}
/// A device that gives up on half of the kinds of kernels, and passes all that is left.
fn refusing() -> Device {
    plain::refusing(2048, usize::MAX, |kind| !matches!(kind, KernelKind::Map { .. } | KernelKind::Reduce { .. } | KernelKind::Copy))
}
/// A kernel that leaves zeros where the gradients should be.
struct Zeros;
impl CpuKernel for Zeros {
    fn supports(&self, _: &dyn Composite, dtypes: &[DType]) -> bool {
        dtypes.iter().all(|d| *d == DType::F64)
    }
    fn run(&self, _: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, _: &Runtime, _: &FaultWord) -> std::result::Result<(), ErrorKind> {
        operands.output::<f64>(0)?.fill(0.0);
        Ok(())
    }
}
/// A device whose softmax is right and whose gradient of it is zero.
fn without_gradient() -> Result<Device> {
    let device = Context::new(CpuBackend::builder())?.device();
    let kernel: Box<dyn CpuKernel> = Box::new(Zeros);
    device.register("adamant.softmax_backward", Box::new(kernel))?;
    Ok(device)
}
const CORRECTNESS: fn(Device) -> Report = |device| suite::correctness(device, CheckShare::Whole);
const GRADIENTS: fn(Device) -> Report = |device| suite::gradients(device, CheckShare::Whole);
const SPECIAL_VALUES: fn(Device) -> Report = |device| suite::special_values(device, CheckShare::Whole);
/// The whole conformance suite, on the instruction set in force.
fn conformance() -> Result<Value> {
    let modes: [fn(Device) -> Report; 9] = [
        CORRECTNESS,
        suite::errors,
        GRADIENTS,
        SPECIAL_VALUES,
        suite::faults,
        suite::in_place,
        |device| suite::cuts(device, CheckShare::Whole),
        suite::threads,
        |device| suite::fuzzing(device, GRAPHS),
    ];
    let device = Device::cpu()?;
    let report = if planted("a backend that refuses half of its kernels") { judged(refusing(), &modes[..1]) } else { judged(device, &modes) };
    Ok(json!({ "isa": details(device).get("isa"), "current": format!("{:?}", Isa::current()).to_lowercase(), "report": report }))
}
/// Seconds of the work that `Device::for_size` is documented to choose by, on a clock of our own.
fn work(device: Device, elements: usize) -> Result<f64> {
    let side = elements.isqrt().clamp(1, 256);
    device.scoped(|| {
        let (x, square) = (Tensor::full([elements], 0.5, DType::F32), Tensor::full([side, side], 0.5, DType::F32));
        x.materialize()?;
        square.materialize()?;
        let begun = Instant::now();
        ((&x * 1.5 + 0.25).tanh().sum(..) + square.matmul(&square).sum(..)).item::<f32>()?;
        Ok(begun.elapsed().as_secs_f64())
    })
}
/// For three sizes: the device that is chosen, and how many times as long as the fastest it takes.
fn sizes() -> Result<Value> {
    let each = [1_000, 100_000, 4_000_000].map(|elements| {
        let devices: Vec<Device> = Device::available().into_iter().filter_map(|(_, device)| device.ok()).collect();
        let mut times: Vec<(Device, f64)> = devices.iter().map(|d| (*d, f64::INFINITY)).collect();
        // In turn, so that all meet the same machine; the first round plans and compiles.
        for _ in 0..=ROUNDS {
            for (device, least) in &mut times {
                *least = least.min(work(*device, elements)?);
            }
        }
        let slowest = times.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|t| t.0);
        let chosen = if planted("the slowest device is chosen") { slowest.unwrap_or(Device::cpu()?) } else { Device::for_size(elements)? };
        let best = times.iter().map(|t| t.1).fold(f64::INFINITY, f64::min);
        let own = times.iter().find(|t| t.0 == chosen).map_or(f64::INFINITY, |t| t.1);
        let times: BTreeMap<String, f64> = times.iter().map(|(d, t)| (d.to_string(), *t)).collect();
        Ok(json!({ "elements": elements, "chosen": chosen.to_string(), "slower": own / best, "seconds": times }))
    });
    Ok(Value::Array(each.into_iter().collect::<Result<_>>()?))
}
/// Every device that is there against the reference, gradients too, and tensors of every dtype from each to each and back.
fn devices() -> Result<Value> {
    let (mut there, mut absent) = (Vec::new(), Vec::new());
    for (name, found) in Device::available() {
        match found {
            Ok(device) => there.push(device),
            Err(e) => absent.push(format!("{name}: {}", e.kind())),
        }
    }
    if planted("a backend that refuses half of its kernels") {
        there = vec![refusing(), Device::cpu()?];
    } else if planted("a device whose gradient of softmax is zero") {
        there = vec![without_gradient()?, Device::cpu()?];
    }
    let modes: [fn(Device) -> Report; 3] = [CORRECTNESS, SPECIAL_VALUES, GRADIENTS];
    let checked: Vec<Value> = there.iter().map(|&device| judged(device, &modes)).collect();
    there.push(Device::reference());
    let (mut transfers, mut changed) = (0, 0);
    for &from in &there {
        for &to in &there {
            for dtype in DType::ALL {
                let x = Tensor::from_vec_on((0..61).map(|k| (k * 37 % 64) as f32).collect(), [61], Device::reference()).cast(dtype);
                let there = x.to(from).to(to);
                let mut values = there.to_vec_as::<f64>()?;
                // Of what was read: there is no op that every dtype has on every device.
                if planted("a transfer that loses a value") && from != to {
                    values[0] += 1.0;
                }
                let same = values == x.to_vec_as::<f64>()?;
                transfers += 1;
                changed += usize::from(!same || there.dtype()? != dtype);
            }
        }
    }
    Ok(json!({ "devices": checked, "absent": absent, "transfers": transfers, "changed": changed }))
}
