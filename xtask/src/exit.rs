//! Exit codes, one meaning each for every chore.
use std::process::ExitCode;

/// What `--help` says of them.
pub const HELP: &str = "Exit codes: 0 all passed, 1 something failed, 2 usage, 4 unreadable input, 8 regression, 9 device absent";

/// How a chore ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All passed; what is unsupported does not count against it.
    Passed = 0,
    /// Something failed.
    Failed = 1,
    /// The arguments make no sense.
    Usage = 2,
    /// A file or folder that was named cannot be read or written.
    Unreadable = 4,
    /// Slower than allowed.
    Regression = 8,
    /// The device that was named is not there.
    DeviceAbsent = 9,
}
impl From<adamant_bench::cli::Exit> for Exit {
    fn from(exit: adamant_bench::cli::Exit) -> Exit {
        use adamant_bench::cli::Exit as Bench;
        match exit {
            Bench::Passed => Exit::Passed,
            Bench::Failed => Exit::Failed,
            Bench::Usage => Exit::Usage,
            Bench::Unreadable => Exit::Unreadable,
            Bench::Regression => Exit::Regression,
            Bench::DeviceAbsent => Exit::DeviceAbsent,
        }
    }
}
impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
