//! Random programs of two to eight threads that share tensors, tapes, cells, compiled functions and generators: nothing fails or
//! hangs, bits are those of one thread, and what is written while others read is read of one moment.
use super::{claim, report};
use crate::exit::Exit;
use adamant::{Device, cpu::CpuBackend};
use adamant_conformance::{
    late, plain,
    torture::sharing::{self, plainly},
};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// Programs on each device
    #[arg(long, default_value_t = 2000)]
    n: usize,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only these devices: cpu, plain, reference, late, late-cpu
    #[arg(long, value_delimiter = ',', default_value = "cpu,plain,reference,late,late-cpu")]
    on: Vec<String>,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
/// Programs between two delays of a late device.
const PER_DELAY: u64 = 250;

fn device(name: &str, seed: u64) -> Result<Device, String> {
    let late = |inner| late::device(inner, late::Options { seed, in_place: Some(seed % 2 == 0) });
    match name {
        "plain" => Ok(plain::device(2048, usize::MAX)),
        "late" => Ok(late(plain::backend(2048, usize::MAX))),
        "late-cpu" => Ok(late(Box::new(CpuBackend::builder().threads(1).build().map_err(|e| e.to_string())?))),
        other => other.parse().map_err(|e: adamant::Error| e.to_string()),
    }
}
pub fn run(options: &Options) -> Exit {
    let Options { n, seed, on, json } = options;
    let on_device = |name: &String| {
        claim(&format!("threads that share get the bits of one, and what is read is of one moment, on {name}"), |claim| {
            let mut own = device(name, *seed)?;
            for k in 0..*n as u64 {
                if k > 0 && k % PER_DELAY == 0 && name.starts_with("late") {
                    own = device(name, seed + k)?;
                }
                claim.count(sharing::case(own, seed + k, &plainly()));
            }
            Ok(())
        })
    };
    report(*json, &on.iter().map(on_device).collect::<Vec<_>>())
}
