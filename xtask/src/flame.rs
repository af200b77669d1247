//! `cargo xtask flame`: where the time went, as a picture: kernels under their layers and ranges.
//!
//! `run -- ARGUMENTS` runs the program `adamant` with a profiler and draws what it saw; `draw` draws folded stacks that are
//! there already; `diff` draws the second of two with what has grown in red and what has shrunk in blue.
use crate::{exit::Exit, workspace};
use inferno::{differential, flamegraph};
use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter},
    path::{Path, PathBuf},
};

/// What the command line says.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask flame run --out digits.svg -- train examples/digits/digits.toml --set epochs=1")]
pub struct Options {
    #[command(subcommand)]
    what: Action,
}
#[derive(clap::Subcommand)]
enum Action {
    /// Runs the program with a profiler
    Run {
        /// The picture
        #[arg(long, default_value = "flame.svg")]
        out: PathBuf,
        /// What `adamant` is called with
        #[arg(last = true, required = true)]
        arguments: Vec<String>,
    },
    /// Draws folded stacks
    Draw {
        /// Folded stacks, as `adamant --folded FILE` writes them
        stacks: PathBuf,
        /// The picture
        #[arg(long, default_value = "flame.svg")]
        out: PathBuf,
    },
    /// Draws the difference of two files of folded stacks
    Diff {
        /// Before
        old: PathBuf,
        /// After
        new: PathBuf,
        /// The picture
        #[arg(long, default_value = "flame-diff.svg")]
        out: PathBuf,
    },
}
/// Runs the chore.
pub fn run(options: &Options) -> Exit {
    let done = match &options.what {
        Action::Run { out, arguments } => profiled(arguments, out),
        Action::Draw { stacks, out } => draw(stacks, out),
        Action::Diff { old, new, out } => difference(old, new, out),
    };
    match done {
        Ok(exit) => exit,
        Err(e) => {
            eprintln!("error: {e}");
            Exit::Unreadable
        }
    }
}
fn profiled(arguments: &[String], out: &Path) -> io::Result<Exit> {
    let stacks = out.with_extension("folded");
    let mut command = workspace::cargo(&["run", "--release", "--quiet", "--package", "adamant-cli", "--"]);
    command.args(arguments).arg("--folded").arg(&stacks);
    if !command.status()?.success() {
        return Ok(Exit::Failed);
    }
    draw(&stacks, out)
}
fn named(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |e| io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}
fn draw(stacks: &Path, out: &Path) -> io::Result<Exit> {
    let mut options = flamegraph::Options::default();
    options.title = "Kernels by range and layer".into();
    options.count_name = "us".into();
    picture(&mut options, &fs::read(stacks).map_err(named(stacks))?, out)
}
fn difference(old: &Path, new: &Path, out: &Path) -> io::Result<Exit> {
    let open = |path: &Path| File::open(path).map(BufReader::new).map_err(named(path));
    let mut both = Vec::new();
    differential::from_readers(differential::Options::default(), open(old)?, open(new)?, &mut both)?;
    let mut options = flamegraph::Options::default();
    options.title = "Kernels by range and layer: red has grown, blue has shrunk".into();
    options.count_name = "us".into();
    picture(&mut options, &both, out)
}
fn picture(options: &mut flamegraph::Options<'_>, stacks: &[u8], out: &Path) -> io::Result<Exit> {
    flamegraph::from_reader(options, stacks, BufWriter::new(File::create(out).map_err(named(out))?))?;
    println!("{}", out.display());
    Ok(Exit::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_without_its_kernels() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        fs::write(file("old"), "forward;encoder;matmul 100\nbackward;encoder;add 50\n").unwrap();
        fs::write(file("new"), "forward;encoder;matmul 300\nbackward;encoder;add 20\n").unwrap();
        assert_eq!(draw(&file("old"), &file("old.svg")).unwrap(), Exit::Passed);
        let svg = fs::read_to_string(file("old.svg")).unwrap();
        assert!(svg.starts_with("<?xml") && ["matmul", "encoder", "backward"].iter().all(|word| svg.contains(word)));
        assert_eq!(difference(&file("old"), &file("new"), &file("diff.svg")).unwrap(), Exit::Passed);
        assert!(fs::read_to_string(file("diff.svg")).unwrap().contains("matmul"));
        let missing = draw(&file("none"), &file("none.svg")).unwrap_err().to_string();
        assert!(missing.contains("none"), "{missing}");
    }
}
