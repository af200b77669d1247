//! Rows about runs that ranks share, seen from outside: processes of the program `adamant`.
use super::{CheckCost, Checked, Lacking, RowCheck, Seen, plant, planted};
use crate::{
    distributed::{CommonOptions, RankedTraining, records_of_ranks, set},
    workspace,
};
use nix::sys::signal::Signal;
use std::{
    error::Error,
    fs,
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S3.14",
        target: "four processes find each other by env://, and end with the bits of one that has all four shards; with those of one undivided batch to 1e-6; of a rank that is killed all others tell within the timeout",
        cost: CheckCost::Long,
        check: shared,
        plants: &[
            plant("ranks of another seed", "the bits of one process"),
            plant("a batch that is one row larger", "one undivided batch"),
            plant("a rank that is not killed", "the others tell of it"),
        ],
    },
    RowCheck {
        id: "S3.15",
        target: "adamant launch -n 4: torchrun's variables, lines behind their rank, the exit code of the first cause, restarts up to a number",
        cost: CheckCost::Long,
        check: launched,
        plants: &[
            plant("a variable that is not set", "the variables"),
            plant("lines of nobody", "the lines"),
            plant("a rank that ends well", "the exit code"),
            plant("no restart", "restarts"),
        ],
    },
    RowCheck {
        id: "S3.16",
        target: "char-GPT, as many rows on each rank: two ranks of one thread on two cores learn from at least 1.9 times the records of one",
        cost: CheckCost::Clocked,
        check: scaled,
        plants: &[plant("a second rank without a core", "1.9 times the records")],
    },
];
/// Neither norms nor dropout: parts of a batch then give what the batch gives.
const RUN: &str = concat!(
    r#"
seed = SEED
iterations = 6
batch = BATCH
log_every = 2
"#,
    digits_data!("DATA"),
    r#"[model]
layers = [
    { kind = "Linear", in_features = 64, out_features = 32 },
    { kind = "Tanh" },
    { kind = "Linear", in_features = 32, out_features = 10 },
]
[optimizer]
kind = "SGD"
lr = 0.1
"#
);
fn description(folder: &Path, name: &str, seed: u64, batch: usize) -> Result<std::path::PathBuf, Box<dyn Error>> {
    let data = workspace::root().join("examples/digits/data");
    let path = folder.join(name);
    let text = RUN.replace("SEED", &seed.to_string()).replace("BATCH", &batch.to_string());
    fs::write(&path, text.replace("DATA", &data.display().to_string()))?;
    Ok(path)
}
fn shared() -> Checked {
    let program = RankedTraining::new(&CommonOptions::local())?;
    let folder = tempfile::tempdir()?;
    let (plain, other) = (description(folder.path(), "run.toml", 1, 64)?, description(folder.path(), "other.toml", 2, 64)?);
    let run = |name: &str| folder.path().join(name);
    program.finish(1, &plain, &run("alone"), &set(&["distributed.shards=4"]))?;
    let of_ranks = if planted("ranks of another seed") { &other } else { &plain };
    program.finish(4, of_ranks, &run("four"), &set(&["distributed.shards=4"]))?;
    let undivided = if planted("a batch that is one row larger") { description(folder.path(), "larger.toml", 1, 65)? } else { plain.clone() };
    program.finish(1, &undivided, &run("undivided"), &[])?;
    let weights = |name: &str| fs::read(run(name).join("weights.safetensors"));
    let (alone, four) = (weights("alone")?, weights("four")?);
    let apart = farthest(&run("alone"), &run("undivided"))?;
    // One rank is killed while it trains; the others have ten seconds.
    let timeout = Duration::from_secs(10);
    let mut job = program.start_with(3, &plain, &run("killed"), &set(&["iterations=200000"]), timeout)?;
    std::thread::sleep(Duration::from_millis(1500));
    if !planted("a rank that is not killed") {
        job.signal(1, Signal::SIGKILL)?;
    }
    let begun = Instant::now();
    while begun.elapsed() < timeout && !(job.is_over(0) && job.is_over(2)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (took, told) = (begun.elapsed(), job.is_over(0) && job.is_over(2));
    let ended = if told { job.wait()? } else { Vec::new() };
    let told = told && [0, 2].iter().all(|rank| ended[*rank].code == Some(7) && ended[*rank].stderr.contains("rank 1"));
    Ok(Seen::all(
        &[("the bits of one process", alone == four), ("one undivided batch", apart <= 1e-6), ("the others tell of it", told)],
        format!("{apart:.1e} from one undivided batch after 6 steps, a lost rank told after {} ms", took.as_millis()),
    ))
}
/// How far two runs' weights are from each other.
fn farthest(a: &Path, b: &Path) -> Result<f64, Box<dyn Error>> {
    let read = |run: &Path| adamant::formats::safetensors::load(&run.join("weights.safetensors"));
    let (a, b) = (read(a)?, read(b)?);
    let mut most = 0f64;
    for ((name, x), (other, y)) in a.iter().zip(&b) {
        if name != other {
            return Err(format!("{name} is not {other}").into());
        }
        let (x, y) = (x.to_vec::<f32>()?, y.to_vec::<f32>()?);
        most = x.iter().zip(&y).map(|(x, y)| f64::from((x - y).abs())).fold(most, f64::max);
    }
    Ok(most)
}
fn scaled() -> Checked {
    let cores = std::thread::available_parallelism()?.get();
    if cores < 2 {
        return Err(Lacking::new("two cores", "a machine that has them").into());
    }
    let (one, two) = records_of_ranks(&CommonOptions::local(), planted("a second rank without a core"))?;
    Ok(Seen::all(&[("1.9 times the records", two / one >= 1.9)], format!("{one:.0} records/s on one rank, {two:.0} on two: {:.2} times", two / one)))
}
fn launched() -> Checked {
    let (program, folder) = (workspace::program()?, tempfile::tempdir()?);
    let launch = |restarts: &str, script: &str| -> std::io::Result<Output> {
        Command::new(&program).args(["launch", "-n", "4", "--max-restarts", restarts, "--", "sh", "-c", script]).current_dir(folder.path()).output()
    };
    let unset = if planted("a variable that is not set") { "unset LOCAL_RANK; " } else { "" };
    let told = launch("0", &format!("{unset}echo at $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR ${{MASTER_PORT:+port}}; echo said >&2"))?;
    let (out, err) = (String::from_utf8_lossy(&told.stdout).into_owned(), String::from_utf8_lossy(&told.stderr).into_owned());
    let variables = (0..4).all(|rank| out.contains(&format!("at {rank} 4 {rank} 4 127.0.0.1 port")));
    let marked = |line: &str| {
        let line = if planted("lines of nobody") { line.get(4..).unwrap_or("") } else { line };
        (0..4).any(|rank| line.starts_with(&format!("[{rank}] ")))
    };
    let lines = (out.lines().count(), err.lines().count()) == (4, 4) && out.lines().chain(err.lines()).all(marked);
    let code = if planted("a rank that ends well") { 0 } else { 5 };
    let failed = launch("0", &format!("if [ $RANK = 2 ]; then exit {code}; fi"))?;
    let restarts = if planted("no restart") { "0" } else { "2" };
    let again = launch(restarts, "echo epoch $ADAMANT_EPOCH; [ $ADAMANT_EPOCH = 2 ]")?;
    let epochs = String::from_utf8_lossy(&again.stdout).into_owned();
    let restarted = again.status.success() && (0..3).all(|epoch| epochs.contains(&format!("epoch {epoch}")));
    Ok(Seen::all(
        &[("the variables", variables), ("the lines", lines), ("the exit code", failed.status.code() == Some(5)), ("restarts", restarted)],
        format!("4 ranks, exit code {:?}, 2 restarts", failed.status.code()),
    ))
}
