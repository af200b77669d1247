//! The three examples on one thread and on two: `metrics.jsonl` and the final weights are the same, byte for byte. Shortened and
//! on made-up data of the right form unless the command line says otherwise; `--whole --data DIR` runs them as they are.
use super::{
    CaseDraw, claim,
    program::{TrainingProgram, sha256},
    report,
};
use crate::{exit::Exit, workspace};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// Only these examples, separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Numbers of threads; the first is what the others are compared with
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// A folder with mnist-20k and tinyshakespeare in it, instead of made-up data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// As long as the descriptions say
    #[arg(long)]
    whole: bool,
    /// The program, instead of building it
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// An example: its name, where its real data lie, how it is shortened, and data of its form for who has none.
struct Example {
    name: &'static str,
    data: &'static str,
    short: &'static str,
    make: fn(&Path) -> std::io::Result<()>,
}
const EXAMPLES: [Example; 3] = [
    Example { name: "digits", data: "", short: "epochs=3", make: |_| Ok(()) },
    Example { name: "mnist", data: "mnist-20k", short: "epochs=1", make: images },
    Example { name: "chargpt", data: "tinyshakespeare", short: "iterations=60", make: text },
];

/// Runs it.
pub fn run(options: &Options) -> Exit {
    let unknown: Vec<&String> = options.only.iter().filter(|o| EXAMPLES.iter().all(|e| e.name != **o)).collect();
    if !unknown.is_empty() || options.threads.len() < 2 || options.threads.contains(&0) {
        eprintln!("examples are digits, mnist, chargpt; at least two numbers of threads from 1 on are compared: {unknown:?} {:?}", options.threads);
        return Exit::Usage;
    }
    let chosen = EXAMPLES.iter().filter(|e| options.only.is_empty() || options.only.iter().any(|o| o == e.name));
    let claims: Vec<_> = chosen
        .map(|example| {
            let text = format!("{}: the same metrics.jsonl and weights on {:?} threads", example.name, options.threads);
            claim(&text, |claim| {
                let seen = compare(example, options)?;
                let (first, others) = seen.split_first().ok_or("no run")?;
                for (threads, other) in options.threads.iter().skip(1).zip(others) {
                    claim.count(if other == first { Ok(()) } else { Err(format!("{threads} threads: {other:?}, not {first:?}")) });
                }
                claim.seen = serde_json::json!({ "metrics_sha256": first.metrics, "weights_sha256": first.weights, "lines": first.lines, "data": origin(example, options) });
                Ok(())
            })
        })
        .collect();
    report(options.json, &claims)
}
fn origin(example: &Example, options: &Options) -> &'static str {
    if options.data.is_some() || example.data.is_empty() { "real" } else { "made up" }
}
#[derive(Debug, PartialEq)]
struct ThreadsRun {
    metrics: String,
    weights: String,
    lines: usize,
}
fn compare(example: &Example, options: &Options) -> Result<Vec<ThreadsRun>, String> {
    let made = tempfile::tempdir().map_err(|e| e.to_string())?;
    let folder = workspace::root().join("examples").join(example.name);
    let data = match &options.data {
        _ if example.data.is_empty() => folder.clone(),
        Some(data) => data.join(example.data),
        None => {
            (example.make)(made.path()).map_err(|e| e.to_string())?;
            made.path().to_path_buf()
        }
    };
    let program = TrainingProgram::on(folder.join(format!("{}.toml", example.name)), &data, options.program.as_deref())?;
    let set: Vec<String> = if options.whole { Vec::new() } else { vec![example.short.to_string()] };
    let of = |threads: &usize| {
        let run = program.run(&format!("threads-{threads}"));
        program.on_threads(&run, *threads, &set)?.well()?;
        let path = run.join("metrics.jsonl");
        let lines = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?.lines().count();
        if lines == 0 {
            return Err(format!("{}: no lines", path.display()));
        }
        Ok(ThreadsRun { metrics: sha256(&path)?, weights: sha256(&run.join("weights.safetensors"))?, lines })
    };
    options.threads.iter().map(of).collect()
}

/// Four IDX files of MNIST's form: 640 images to learn from and 256 to test on, each class a bar of its own with noise.
fn images(folder: &Path) -> std::io::Result<()> {
    let mut draw = CaseDraw(1);
    for (part, count) in [("train", 640u32), ("t10k", 256)] {
        let mut pixels = [0, 0, 8, 3].into_iter().chain([count, 28, 28].into_iter().flat_map(u32::to_be_bytes)).collect::<Vec<u8>>();
        let mut labels = [0, 0, 8, 1].into_iter().chain(count.to_be_bytes()).collect::<Vec<u8>>();
        for k in 0..count {
            let class = k % 10;
            labels.push(class as u8);
            pixels.extend((0..784u32).map(|p| if (p / 28) / 2 == class + 2 { 200 } else { draw.below(56) as u8 }));
        }
        fs::write(folder.join(format!("{part}-images-idx3-ubyte")), pixels)?;
        fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), labels)?;
    }
    Ok(())
}
/// Twenty thousand characters of words.
fn text(folder: &Path) -> std::io::Result<()> {
    let mut draw = CaseDraw(2);
    let words = ["the", "king", "is", "not", "here", "and", "we", "shall", "go;\n", "speak,", "Lord", "of", "night", "my", "hand"];
    let mut text = String::new();
    while text.len() < 20_000 {
        text += words[draw.below(words.len() as u64) as usize];
        text.push(' ');
    }
    fs::write(folder.join("input.txt"), text)
}
