//! `cargo xtask kernels --arch sm_75,sm_80,sm_90a,sm_120 --texts 1000 --seed 0`: the texts of all kernels of the CUDA backend and a
//! thousand of random graphs, compiled by the real NVRTC for each architecture. Fails where registers spill, where a block does
//! not fit, and, by the machine code as `nvdisasm` lists it, where the matrix unit has too small a share of a product's or an
//! attention's inner loop, where four warps share a tile of less than 64 x 64, and where a dense Map does not load and store 128
//! bits at once. Needs no card. Without `nvdisasm` that part is skipped, and the exit code says so.
#![cfg_attr(not(feature = "emulated"), allow(dead_code, unused_imports, reason = "the texts are written for a card that the emulator plays"))]
mod judged;
#[cfg(feature = "emulated")]
mod planted;
mod sass;
#[cfg(feature = "emulated")]
mod texts;
mod usage;

use crate::{device, exit::Exit};
use judged::JudgedText;
use rayon::prelude::*;
use sass::{KernelListing, MatrixLoop};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};
use usage::KernelUsage;

/// Architectures that texts are compiled for, and the card that the emulator plays while they are written.
const ARCHITECTURES: [(&str, &str); 5] = [("sm_75", "sm_75"), ("sm_80", "sm_80"), ("sm_90", "sm_90"), ("sm_90a", "sm_90"), ("sm_120", "sm_120")];
/// Texts that are compiled together: most of what one takes is spent on what all have.
const TOGETHER: usize = 32;
/// Calls that were refused and are printed.
const REFUSED: usize = 20;
/// Complaints that are printed as text.
const SHOWN: usize = 60;

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// The architectures: sm_75, sm_80, sm_90, sm_90a, sm_120
    #[arg(long, value_delimiter = ',', default_value = "sm_75,sm_80,sm_90a,sm_120")]
    arch: Vec<String>,
    /// How many texts of random graphs
    #[arg(long, default_value_t = 1000)]
    texts: usize,
    /// Of the public functions on each dtype only one of so many
    #[arg(long, default_value_t = 1)]
    one_of: usize,
    /// The seed of the graphs
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write each text into this folder, as FAMILY.NAME.cu
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Plant faults into some of the texts, each of which must be caught, instead of looking at all as they are
    #[arg(long)]
    plant: bool,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
/// What one text became on one architecture.
struct CompiledLook<'t> {
    looked: &'t JudgedText,
    usage: Option<KernelUsage>,
    matrix_loop: Option<MatrixLoop>,
    /// loads and stores of 128 bits
    widest: [usize; 2],
    wrong: Vec<String>,
}
/// A family's row of the table, over all its texts on one architecture.
#[derive(Default, serde::Serialize)]
struct FamilyRow {
    architecture: String,
    family: String,
    texts: usize,
    registers: u32,
    shared: u32,
    spilled: usize,
    /// loops whose factors are copied to the block's memory: their number, the least share of the matrix unit, the smallest tile
    copied: usize,
    least_share: Option<f64>,
    least_tile: Option<usize>,
    /// loops that are held to no share, and the least of them
    apart: usize,
    least_apart: Option<f64>,
    /// texts with loads or stores of 128 bits
    wide: usize,
    wrong: usize,
}

/// Compiles and reports.
pub fn run(options: &Options) -> Exit {
    if let Some(unknown) = options.arch.iter().find(|a| !ARCHITECTURES.iter().any(|(name, _)| name == a)) {
        eprintln!("`{unknown}` is no architecture that is looked at; there are {}", ARCHITECTURES.map(|(name, _)| name).join(", "));
        return Exit::Usage;
    }
    match device::with_emulator() {
        Ok(()) => looked_at(options),
        Err(exit) => exit,
    }
}
#[cfg(not(feature = "emulated"))]
fn looked_at(_: &Options) -> Exit {
    Exit::DeviceAbsent
}
#[cfg(feature = "emulated")]
fn looked_at(options: &Options) -> Exit {
    let begun = Instant::now();
    let disassembler = adamant::cuda::CudaBackend::tool("nvdisasm");
    let (mut rows, mut wrong, mut graphs, mut written) = (Vec::new(), Vec::new(), 0, BTreeSet::new());
    let mut written_for: BTreeMap<&str, texts::CollectedTexts> = BTreeMap::new();
    // Two of the faults are in kernels of the matrix unit, which this one has not for them.
    let is_looked_at = |architecture: &&String| !options.plant || *architecture != "sm_75";
    if !options.arch.iter().any(|a| is_looked_at(&a)) {
        eprintln!("sm_75 has no kernels of the matrix unit to plant faults into; name another architecture");
        return Exit::Usage;
    }
    for architecture in options.arch.iter().filter(is_looked_at) {
        let card = ARCHITECTURES.iter().find(|(name, _)| name == architecture).map_or("sm_90", |(_, card)| card);
        if !written_for.contains_key(card) {
            let others: Vec<&texts::CollectedTexts> = written_for.values().collect();
            match texts::collected(card, options.texts, options.seed, options.one_of, &others) {
                Ok(collected) => written_for.insert(card, collected),
                Err(exit) => return exit,
            };
        }
        let Some(collected) = written_for.get(card) else { continue };
        eprintln!(
            "{architecture}: {} texts, {} of {} random graphs, {} calls refused, {:.0} s",
            collected.texts.len(),
            collected.generated,
            collected.graphs,
            collected.refused.len(),
            begun.elapsed().as_secs_f64()
        );
        for refused in collected.refused.iter().take(REFUSED) {
            eprintln!("  refused: {}", refused.chars().take(240).collect::<String>());
        }
        if collected.generated < options.texts {
            wrong.push(format!("{architecture}: only {} texts of random graphs where {} were asked for", collected.generated, options.texts));
        }
        if options.plant {
            return planted::planted(&collected.texts, architecture, disassembler.as_deref());
        }
        graphs += collected.graphs;
        if let Some(Err(e)) = options.write.as_deref().map(|folder| written_into(folder, &collected.texts)) {
            eprintln!("{e}");
            return Exit::Unwritable;
        }
        written.extend(collected.texts.iter().map(|t| t.name.clone()));
        let all = match compiled(&collected.texts, architecture, disassembler.as_deref()) {
            Ok(all) => all,
            Err(why) => {
                eprintln!("{why}");
                return Exit::Failed;
            }
        };
        for look in all.iter().filter(|l| !l.wrong.is_empty()) {
            wrong.push(format!("{architecture} {} {} ({}): {}", look.looked.family, look.looked.name, look.looked.origin, look.wrong.join("; ")));
        }
        rows.extend(table(architecture, &all));
    }
    let counted = TextCounts { texts: written.len(), graphs, seconds: begun.elapsed().as_secs_f64(), disassembled: disassembler.is_some() };
    report(options, &rows, &wrong, &counted)
}
/// Writes texts into a folder, a file each.
#[cfg(feature = "emulated")]
fn written_into(folder: &Path, texts: &[JudgedText]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    texts.iter().try_for_each(|t| std::fs::write(folder.join(format!("{}.{}.cu", t.family, t.name)), format!("// {}\n{}", t.origin, t.text)))
}
/// Compiles texts for an architecture and judges each.
///
/// # Errors
/// A text that is no CUDA C++, a disassembler that fails.
#[cfg(feature = "emulated")]
fn compiled<'t>(texts: &'t [JudgedText], architecture: &str, disassembler: Option<&Path>) -> Result<Vec<CompiledLook<'t>>, String> {
    let by_batch = texts.par_chunks(TOGETHER).map(|batch| {
        let together: String = batch.iter().map(|t| t.text.as_str()).collect();
        let made = adamant::cuda::CudaBackend::compile(&together, architecture).map_err(|e| format!("{architecture}: {e:?}"))?;
        let usage = usage::usage(&made.log);
        let listings = disassembler.map(|tool| disassembled(tool, &made.image)).transpose()?;
        let look = |looked: &'t JudgedText| {
            let usage = usage.get(&looked.name);
            let listing = listings.as_ref().and_then(|all| all.get(&looked.name));
            let mut wrong = judged::by_usage(looked, usage);
            if listings.is_some() {
                wrong.extend(judged::by_code(looked, listing));
            }
            let matrix_loop = listing.and_then(KernelListing::matrix_loop);
            CompiledLook { looked, usage: usage.copied(), matrix_loop, widest: listing.map_or([0; 2], KernelListing::widest), wrong }
        };
        Ok(batch.iter().map(look).collect::<Vec<_>>())
    });
    Ok(by_batch.collect::<Result<Vec<_>, String>>()?.into_iter().flatten().collect())
}
/// The listings of an image's kernels.
///
/// # Errors
/// The disassembler does not take it: its words.
#[cfg(feature = "emulated")]
fn disassembled(tool: &Path, image: &[u8]) -> Result<BTreeMap<String, KernelListing>, String> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", tool.display());
    let file = tempfile::NamedTempFile::new().map_err(|e| failed(&e))?;
    std::fs::write(file.path(), image).map_err(|e| failed(&e))?;
    let said = Command::new(tool).arg("-c").arg(file.path()).output().map_err(|e| failed(&e))?;
    if !said.status.success() {
        return Err(failed(&String::from_utf8_lossy(&said.stderr)));
    }
    Ok(sass::kernels(&String::from_utf8_lossy(&said.stdout)))
}
/// The rows of the families.
fn table(architecture: &str, all: &[CompiledLook<'_>]) -> Vec<FamilyRow> {
    let mut rows: BTreeMap<&str, FamilyRow> = BTreeMap::new();
    for look in all {
        let row = rows.entry(&look.looked.family).or_default();
        let least = |a: Option<f64>, b: f64| Some(a.map_or(b, |a| a.min(b)));
        row.texts += 1;
        row.wrong += usize::from(!look.wrong.is_empty());
        row.wide += usize::from(look.widest != [0, 0]);
        if let Some(usage) = look.usage {
            (row.registers, row.shared) = (row.registers.max(usage.registers), row.shared.max(usage.shared));
            row.spilled += usize::from(usage.spills > 0);
        }
        match look.matrix_loop {
            Some(found) if look.looked.is_apart(&found) => (row.apart, row.least_apart) = (row.apart + 1, least(row.least_apart, found.share())),
            Some(found) => {
                (row.copied, row.least_share) = (row.copied + 1, least(row.least_share, found.share()));
                row.least_tile = Some(row.least_tile.map_or(found.tile(), |t| t.min(found.tile())));
            }
            None => {}
        }
    }
    rows.into_iter().map(|(family, row)| FamilyRow { architecture: architecture.into(), family: family.into(), ..row }).collect()
}
/// What is told besides the table.
struct TextCounts {
    texts: usize,
    graphs: usize,
    seconds: f64,
    disassembled: bool,
}
fn report(options: &Options, rows: &[FamilyRow], wrong: &[String], counted: &TextCounts) -> Exit {
    let skipped = "no nvdisasm: pip install nvidia-cuda-nvdisasm, or name the folder of CUDA's programs by ADAMANT_CUDA_PATH";
    if options.json {
        println!(
            "{}",
            serde_json::json!({
                "seed": options.seed, "texts": counted.texts, "random_graphs": counted.graphs, "seconds": counted.seconds, "families": rows, "wrong": wrong,
                "machine_code": if counted.disassembled { "looked at" } else { skipped }, "passed": wrong.is_empty(),
            })
        );
    } else {
        let mut grid = comfy_table::Table::new();
        grid.load_style(comfy_table::presets::NOTHING).set_header([
            "arch",
            "family",
            "texts",
            "registers",
            "shared",
            "spilled",
            "matrix loops",
            "least share",
            "least tile",
            "apart",
            "least share",
            "128 bits",
            "wrong",
        ]);
        for r in rows {
            let share = |s: Option<f64>| s.map_or("-".into(), |s| format!("{:.1} %", 100.0 * s));
            let tile = r.least_tile.map_or("-".into(), |t| t.to_string());
            let numbers = [r.texts.to_string(), r.registers.to_string(), r.shared.to_string(), r.spilled.to_string(), r.copied.to_string()];
            let rest = [share(r.least_share), tile, r.apart.to_string(), share(r.least_apart), r.wide.to_string(), r.wrong.to_string()];
            grid.add_row([r.architecture.clone(), r.family.clone()].into_iter().chain(numbers).chain(rest));
        }
        println!("{grid}");
        for what in wrong.iter().take(SHOWN) {
            println!("{what}");
        }
        if wrong.len() > SHOWN {
            println!("... and {} more", wrong.len() - SHOWN);
        }
        if !counted.disassembled {
            println!("machine code: skipped: {skipped}");
        }
        println!(
            "{} different texts, {} random graphs, {} wrong, {:.0} s: {}",
            counted.texts,
            counted.graphs,
            wrong.len(),
            counted.seconds,
            if wrong.is_empty() { "passed" } else { "FAILED" }
        );
    }
    match (wrong.is_empty(), counted.disassembled) {
        (false, _) => Exit::Failed,
        (true, false) => Exit::Skipped,
        (true, true) => Exit::Passed,
    }
}
