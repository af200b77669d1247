//! What this program says of itself when a check starts it again: in another environment, under another affinity, built
//! with another feature. One JSON document on stdout.
use crate::exit::Exit;
use adamant::{
    DType, Device, Result, Tensor,
    cpu::{Context, CpuBackend, Isa, trace::trace},
};
use adamant_conformance::suite;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    error::Error,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

/// Answers on stdout.
pub fn answer(probe: &str) -> Exit {
    let answer = match probe {
        "device" => describe(),
        "conformance" => conformance(),
        "runnable" => runnable(),
        "sizes" => sizes(),
        "devices" => devices(),
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
    let output = command.args(["features", "--probe", probe]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
/// This program, with these variables and without those that set threads or the instruction set.
pub fn again(variables: &[(&str, &str)]) -> std::result::Result<Command, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
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
        x.eval()?;
        let y = x.matmul(&x);
        y.eval()?;
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
/// The conformance suite's comparison of every public function with the reference, on the instruction set in force.
fn conformance() -> Result<Value> {
    let device = Device::cpu()?;
    let reports = [suite::correctness(device), suite::special_values(device)];
    let failures: Vec<String> = reports.iter().flat_map(|r| &r.failures).map(ToString::to_string).collect();
    Ok(json!({
        "isa": details(device).get("isa"),
        "current": format!("{:?}", Isa::current()).to_lowercase(),
        "checks": reports.iter().map(|r| r.checks).sum::<usize>(),
        "failures": failures,
    }))
}
/// For three sizes: the device that is chosen, and how many times as long as the fastest it takes.
fn sizes() -> Result<Value> {
    let each = [1_000, 100_000, 4_000_000].map(|elements| {
        let chosen = Device::for_size(elements)?;
        let mut times = Vec::new();
        for (_, device) in Device::available() {
            let device = device?;
            times.push((device, device.time_of(elements)?.as_secs_f64()));
        }
        let best = times.iter().map(|t| t.1).fold(f64::INFINITY, f64::min);
        let own = times.iter().find(|t| t.0 == chosen).map_or(f64::INFINITY, |t| t.1);
        let times: BTreeMap<String, f64> = times.iter().map(|(d, t)| (d.to_string(), *t)).collect();
        Ok(json!({ "elements": elements, "chosen": chosen.to_string(), "slower": own / best, "seconds": times }))
    });
    Ok(Value::Array(each.into_iter().collect::<Result<_>>()?))
}
/// Every device that is there against the reference, and tensors of every dtype from each to each and back.
fn devices() -> Result<Value> {
    let (mut there, mut absent) = (Vec::new(), Vec::new());
    for (name, found) in Device::available() {
        match found {
            Ok(device) => there.push(device),
            Err(e) => absent.push(format!("{name}: {}", e.kind())),
        }
    }
    let checked: Vec<Value> = there
        .iter()
        .map(|&device| {
            let reports = [suite::correctness(device), suite::special_values(device)];
            let failures: Vec<String> = reports.iter().flat_map(|r| &r.failures).map(ToString::to_string).collect();
            json!({ "device": device.to_string(), "checks": reports.iter().map(|r| r.checks).sum::<usize>(), "failures": failures })
        })
        .collect();
    there.push(Device::reference());
    let (mut transfers, mut changed) = (0, 0);
    for &from in &there {
        for &to in &there {
            for dtype in DType::ALL {
                let x = Tensor::from_vec_on((0..61).map(|k| (k * 37 % 64) as f32).collect(), [61], Device::reference()).cast(dtype);
                let there = x.to(from).to(to);
                let same = there.to_vec_as::<f64>()? == x.to_vec_as::<f64>()?;
                transfers += 1;
                changed += usize::from(!same || there.dtype()? != dtype);
            }
        }
    }
    Ok(json!({ "devices": checked, "absent": absent, "transfers": transfers, "changed": changed }))
}
/// The most threads of this process that were able to run at one time, while it computed large products.
fn runnable() -> Result<Value> {
    let device = Device::cpu()?;
    product(device, 512)?;
    let done = AtomicBool::new(false);
    let (most, all) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let own = std::fs::read_link("/proc/thread-self").ok().and_then(|p| p.file_name().map(|n| n.to_owned()));
            let (mut most, mut all) = (0, 0);
            while !done.load(Ordering::Relaxed) {
                let threads: Vec<_> = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten().map(|e| e.file_name()).collect();
                let running = threads.iter().filter(|t| Some(*t) != own.as_ref()).filter(|t| {
                    let stat = std::fs::read_to_string(std::path::Path::new("/proc/self/task").join(t).join("stat")).unwrap_or_default();
                    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('R'))
                });
                most = most.max(running.count());
                all = all.max(threads.len());
                std::thread::yield_now();
            }
            (most, all)
        });
        for _ in 0..20 {
            if product(device, 768).is_err() {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
        watch.join().unwrap_or_default()
    });
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    Ok(json!({ "runnable": most, "threads": all, "cores": cores, "device": details(device) }))
}
