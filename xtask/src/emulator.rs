//! `cargo xtask emulator --plant all`: faults planted one after the other, each of which the emulator must find and name: into
//! kernels as users write them, into what is asked of the driver and of cuBLASLt, and into the texts of our own kernels while the
//! CUDA backend runs them. Each has a sound twin, the same program without the fault, in which nothing may be found. Fails if a
//! fault is not caught, or caught as another, and at a false alarm. Without NVRTC what needs it is skipped, and the exit code says so.
#![cfg_attr(not(feature = "emulated"), allow(dead_code, reason = "faults are planted into what the emulator runs"))]
#[cfg(feature = "emulated")]
mod own;

use crate::{device, exit::Exit};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// The fault: `all`, its name or a part of it
    #[arg(long, default_value = "all", value_name = "NAME")]
    plant: String,
    /// Only list the faults, and what each must be caught as
    #[arg(long)]
    list: bool,
    /// Draws inputs and orders
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
/// A fault, planted and not.
#[derive(serde::Serialize)]
struct PlantRow {
    fault: String,
    /// as what it was caught
    caught: String,
    /// the kernel's instruction, or the call
    place: String,
    /// what its twin came to: nothing found, or a false alarm
    twin: String,
    state: PlantState,
}
#[derive(Clone, Copy, PartialEq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum PlantState {
    Caught,
    Missed,
    Skipped,
}

/// Plants and reports.
pub fn run(options: &Options) -> Exit {
    match device::with_emulator() {
        Ok(()) => planted(options),
        Err(exit) => exit,
    }
}
#[cfg(not(feature = "emulated"))]
fn planted(_: &Options) -> Exit {
    Exit::DeviceAbsent
}
#[cfg(feature = "emulated")]
fn planted(options: &Options) -> Exit {
    use adamant_cuda_emulator::{
        Emulator,
        plants::{Caught, plants},
    };
    let is_chosen = |name: &str| options.plant == "all" || name.contains(&options.plant);
    let (mut all, mut of_ours) = (plants(), own::OWN_PLANTS.to_vec());
    all.retain(|p| is_chosen(&p.name));
    of_ours.retain(|p| is_chosen(&p.name()));
    if all.is_empty() && of_ours.is_empty() {
        eprintln!("`{}` is in the name of no fault; --list shows them", options.plant);
        return Exit::Usage;
    }
    if options.list {
        let told = |caught: Caught| match caught {
            Caught::Found(kinds) => kinds.iter().map(|k| format!("{k:?}")).collect::<Vec<_>>().join(" or "),
            Caught::WrongResult => "a wrong result".into(),
            Caught::Answered(call, code) => format!("{call} answers {code}"),
        };
        all.iter().for_each(|p| println!("{}: {}", p.name, told(p.caught)));
        of_ours.iter().for_each(|p| println!("{}: {}", p.name(), told(p.caught)));
        return Exit::Passed;
    }
    if let Err(e) = Emulator::install(adamant_cuda_emulator::Options::default()) {
        eprintln!("{e}");
        return Exit::DeviceAbsent;
    }
    let begun = std::time::Instant::now();
    let absent = own::to_ptx(r#"extern "C" __global__ void nothing() {}"#).err();
    let mut rows = Vec::new();
    let skipped = |fault: &str| PlantRow { fault: fault.into(), caught: "-".into(), place: "-".into(), twin: "-".into(), state: PlantState::Skipped };
    for plant in &all {
        rows.push(if plant.has_kernel() && absent.is_some() {
            skipped(&plant.name)
        } else {
            row(&plant.name, plant.caught, &|is_planted| plant.run(&own::to_ptx, options.seed, is_planted))
        });
    }
    for plant in &of_ours {
        rows.push(if absent.is_some() {
            skipped(&plant.name())
        } else {
            row(&plant.name(), plant.caught, &|is_planted| own::run(plant, options.seed, is_planted))
        });
    }
    report(options, &rows, absent.as_deref(), begun.elapsed().as_secs_f64())
}
/// Runs a program with its fault and without.
#[cfg(feature = "emulated")]
fn row(fault: &str, by: adamant_cuda_emulator::plants::Caught, run: &dyn Fn(bool) -> Result<adamant_cuda_emulator::plants::PlantEnd, String>) -> PlantRow {
    let caught = run(true).and_then(|end| end.caught(by));
    let silent = run(false).and_then(|end| end.silent());
    let state = if caught.is_ok() && silent.is_ok() { PlantState::Caught } else { PlantState::Missed };
    let (caught, place) = caught.unwrap_or_else(|instead| (format!("NOT as {by:?}: {instead}"), String::new()));
    let twin = silent.map_or_else(|alarm| format!("FALSE ALARM: {alarm}"), |()| "nothing found".into());
    PlantRow { fault: fault.into(), caught, place, twin, state }
}
fn report(options: &Options, rows: &[PlantRow], absent: Option<&str>, seconds: f64) -> Exit {
    let count = |state: PlantState| rows.iter().filter(|r| r.state == state).count();
    let (caught, missed, skipped) = (count(PlantState::Caught), count(PlantState::Missed), count(PlantState::Skipped));
    if options.json {
        println!(
            "{}",
            serde_json::json!({ "seed": options.seed, "faults": rows, "caught": caught, "missed": missed, "skipped": skipped, "why_skipped": absent, "seconds": seconds, "passed": missed == 0 })
        );
    } else {
        let mut grid = comfy_table::Table::new();
        grid.load_style(comfy_table::presets::NOTHING).set_header(["fault", "caught as", "where", "without it"]);
        for r in rows {
            // Instructions are long.
            let place: String = r.place.chars().take(72).collect();
            grid.add_row([&r.fault, &r.caught, &place, &r.twin]);
        }
        println!("{grid}");
        if let Some(why) = absent {
            println!("skipped: {why}");
        }
        println!(
            "{caught} of {} faults caught and named, their twins silent, {missed} not, {skipped} skipped, {seconds:.0} s: {}",
            rows.len(),
            if missed == 0 { "passed" } else { "FAILED" }
        );
    }
    match (missed, skipped) {
        (0, 0) => Exit::Passed,
        (0, _) => Exit::Skipped,
        _ => Exit::Failed,
    }
}
