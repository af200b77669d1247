//! What is not there: a library of MPI, its functions, a binary interface that is known, a launcher, an engine. The program ends with exit code 9,
//! and says what was looked for and what to install. The libraries are made here, by a C compiler.
use super::{
    CommonOptions,
    job::{RankJob, RankedTraining},
};
use crate::torture::{TortureClaim, claim};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Options of `absent`.
#[derive(clap::Args)]
pub struct AbsentOptions {
    /// The program, instead of building it
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// One JSON document instead of text
    #[arg(long)]
    pub(super) json: bool,
}
/// The exit code for what is not there.
const ABSENT: i32 = 9;
/// What the engine calls.
const FUNCTIONS: [&str; 20] = [
    "MPI_Init_thread",
    "MPI_Initialized",
    "MPI_Finalized",
    "MPI_Finalize",
    "MPI_Query_thread",
    "MPI_Error_string",
    "MPI_Comm_size",
    "MPI_Comm_rank",
    "MPI_Comm_set_errhandler",
    "MPI_Comm_idup",
    "MPI_Comm_split",
    "MPI_Isend",
    "MPI_Irecv",
    "MPI_Recv",
    "MPI_Iprobe",
    "MPI_Test",
    "MPI_Cancel",
    "MPI_Allreduce",
    "MPI_Iallreduce",
    "MPI_Barrier",
];
const MPICH: &str = "MPICH Version: 4.2";

/// Who starts the program, by the variables that it has.
#[derive(Clone, Copy)]
enum StartedAs {
    ByHand,
    OpenMpi,
    Mpich,
}
impl StartedAs {
    fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            StartedAs::ByHand => &[("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "9")],
            StartedAs::OpenMpi => {
                &[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_LOCAL_RANK", "0"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "2")]
            }
            StartedAs::Mpich => &[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "0"), ("MPI_LOCALNRANKS", "2")],
        }
    }
}
pub fn claims(options: &AbsentOptions) -> Vec<TortureClaim> {
    let common = CommonOptions { program: options.program.clone(), ..CommonOptions::local() };
    let (program, description) = match RankedTraining::with_short_steps(&common) {
        Ok(made) => made,
        Err(e) => return vec![claim("the program", |_| Err(e))],
    };
    let asks = AbsentProgram { program: &program, description: &description };
    let compiler = Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success());
    let with_compiler = |text: &str, check: &dyn Fn(&mut TortureClaim) -> Result<(), String>| match compiler {
        true => claim(text, check),
        false => TortureClaim::skipped(text, "`cc` is not there: install gcc"),
    };
    vec![
        claim("no library, or one that is none: exit code 9, with what was looked for and the package", |claim| {
            let text = program.place("text.so");
            std::fs::write(&text, "no library").map_err(|e| e.to_string())?;
            for (library, words) in [
                ("/nowhere/libmpi.so".into(), &["/nowhere/libmpi.so", "not found", "install"][..]),
                ("libnowhere-mpi.so.40".into(), &["libnowhere-mpi.so.40", "not found", "install"]),
                ("libc.so.6".into(), &["libc.so.6", "has no MPI_Get_library_version", "install"]),
                (text.display().to_string(), &["text.so", "install"]),
            ] {
                for started in [StartedAs::ByHand, StartedAs::OpenMpi, StartedAs::Mpich] {
                    claim.count(asks.are_told(&library, started, words));
                }
            }
            Ok(())
        }),
        with_compiler("another binary interface, or another version of the standard's: the same", &|claim| {
            for (name, told, abi, words) in [
                ("platform", "Platform MPI 9", None, &["none of the three binary interfaces", "Platform MPI 9", "install"][..]),
                ("newer", MPICH, Some(2), &["version 2 of the standard's", "install"]),
            ] {
                let library = asks.library(name, told, abi, &FUNCTIONS)?;
                claim.count(asks.are_told(&library, StartedAs::ByHand, words));
            }
            Ok(())
        }),
        with_compiler("a library without one of the functions, each of them: the same, and which", &|claim| {
            for (k, missing) in FUNCTIONS.iter().enumerate() {
                let there: Vec<&str> = FUNCTIONS.iter().copied().filter(|name| name != missing).collect();
                let library = asks.library(&format!("without{k}"), MPICH, [None, Some(1)][k % 2], &there)?;
                claim.count(asks.are_told(&library, StartedAs::ByHand, &["lacks", missing, "install"]));
            }
            Ok(())
        }),
        with_compiler("a library of one MPI under the launcher of another: the same, and which two", &|claim| {
            for (name, told, started) in [("mpich", MPICH, StartedAs::OpenMpi), ("openmpi", "Open MPI v9.1", StartedAs::Mpich)] {
                let library = asks.library(name, told, None, &FUNCTIONS)?;
                claim.count(asks.are_told(&library, started, &["two MPIs", "Open MPI's", "MPICH's", "ADAMANT_MPI_LIBRARY"]));
            }
            Ok(())
        }),
        claim("`adamant launch --engine mpi` without mpirun: exit code 9, with where it was looked for and the package", |claim| {
            let mut command = Command::new(program.program());
            command.args(["launch", "-n", "2", "--engine", "mpi", "--", "adamant", "train"]).env("PATH", "/nowhere");
            claim.count(told(command, &["mpirun", "/nowhere", "openmpi-bin"], ABSENT));
            Ok(())
        }),
        claim("an engine that is not in the program: which there are", |claim| {
            for engine in ["nccl", "gloo"] {
                claim.count(told(asks.command(StartedAs::ByHand, engine), &[engine, "is no engine", "local, mpi"], 2));
            }
            Ok(())
        }),
    ]
}
struct AbsentProgram<'p> {
    program: &'p RankedTraining,
    description: &'p Path,
}
impl AbsentProgram<'_> {
    fn command(&self, started: StartedAs, engine: &str) -> Command {
        let mut command = Command::new(self.program.program());
        command.arg("train").arg(self.description).arg("--run").arg(self.program.place("run")).args(["--quiet", "--no-control"]);
        command.envs(started.variables().iter().copied()).env("ADAMANT_ENGINE", engine).env("ADAMANT_TIMEOUT", "5s");
        command
    }
    fn are_told(&self, library: &str, started: StartedAs, words: &[&str]) -> Result<(), String> {
        let mut command = self.command(started, "mpi");
        command.env("ADAMANT_MPI_LIBRARY", library);
        told(command, words, ABSENT)
    }
    /// A library that says what it is, and has these functions; `abi` is the version of the standard's interface that it says to have.
    fn library(&self, name: &str, told: &str, abi: Option<i32>, functions: &[&str]) -> Result<String, String> {
        let mut text =
            format!("#include <string.h>\nint MPI_Get_library_version(char *text, int *n) {{ strcpy(text, \"{told}\"); *n = strlen(text); return 0; }}\n");
        text += &abi.map_or(String::new(), |version| format!("int MPI_Abi_get_version(int *a, int *b) {{ *a = {version}; *b = 0; return 0; }}\n"));
        functions.iter().for_each(|function| text += &format!("int {function}() {{ return 1; }}\n"));
        let (source, made) = (self.program.place(&format!("{name}.c")), self.program.place(&format!("lib{name}.so")));
        std::fs::write(&source, text).map_err(|e| e.to_string())?;
        let built = Command::new("cc").args(["-shared", "-fPIC", "-w", "-o"]).args([&made, &source]).output().map_err(|e| e.to_string())?;
        match built.status.success() {
            true => Ok(made.display().to_string()),
            false => Err(format!("cc: {}", String::from_utf8_lossy(&built.stderr))),
        }
    }
}
/// Does a command end with this code, and say these words?
fn told(command: Command, words: &[&str], code: i32) -> Result<(), String> {
    let mut job = RankJob::default();
    job.begin(command)?;
    let ended = job.wait()?.into_iter().next().ok_or("nothing was started")?;
    let missing: Vec<&&str> = words.iter().filter(|word| !ended.stderr.contains(**word)).collect();
    match ended.code == Some(code) && missing.is_empty() && !ended.stderr.contains("panicked") {
        true => Ok(()),
        false => Err(format!("exit code {:?}, and {missing:?} are not said: {}", ended.code, ended.stderr.trim())),
    }
}
