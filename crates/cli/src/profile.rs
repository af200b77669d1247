//! `--profile` and `--trace FILE`: where the time of a command went, from the first line of the program on.
use adamant::profile::{GroupBy, Profiler, Recording};
use adamant_train::{
    Failure,
    storage::{Operation, StorageError, check_output},
};
use clap::Args;
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    time::Instant,
};

/// Every verb's phases: its arguments; reading its description; building its model and the shapes in it; making plans of
/// what runs; and all else.
const PHASES: [&str; 5] = ["args", "parse", "shape", "plan", "run"];

/// Options of every verb.
#[derive(Args)]
pub struct Options {
    /// says on stderr where the time went: phases, layers, kernels
    #[arg(long, global = true)]
    profile: bool,
    /// writes a timeline that Perfetto and chrome://tracing open
    #[arg(long, global = true, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// writes folded stacks, as flame graph tools read them
    #[arg(long, global = true, value_name = "FILE")]
    folded: Option<PathBuf>,
}
impl Options {
    /// Begins, if anything is asked for. The arguments were read from `begun` on.
    pub fn start(&self, begun: Instant) -> Result<Option<RecordedRun>, Failure> {
        if !self.profile && self.trace.is_none() && self.folded.is_none() {
            return Ok(None);
        }
        // Before the work, not after it: what cannot be written then was made for nothing.
        self.trace.iter().chain(&self.folded).try_for_each(|path| check_output(path))?;
        let recording = Profiler::new().record_shapes(true).profile_memory(true).since(begun).start()?;
        let run = Instant::now();
        recording.add_range("args", begun, run);
        Ok(Some(RecordedRun { recording, run }))
    }
    /// Ends, and tells.
    pub fn stop(&self, recorded: Option<RecordedRun>) -> Result<(), Failure> {
        let Some(RecordedRun { recording, run }) = recorded else { return Ok(()) };
        recording.add_range("run", run, Instant::now());
        let profile = recording.stop();
        if self.profile {
            // Who does not read to the end wants no more of it.
            let tables = [profile.phases_among(&PHASES).to_string(), profile.phases().to_string(), profile.averages(GroupBy::Layer).to_string()];
            let _ = writeln!(io::stderr(), "\n{}\n{}", tables.join("\n"), profile.key_averages());
        }
        if let Some(path) = &self.trace {
            let broken = broken(path);
            let mut file = BufWriter::new(File::create(path).map_err(broken)?);
            profile.write_chrome_trace(&mut file).and_then(|()| file.flush()).map_err(broken)?;
        }
        if let Some(path) = &self.folded {
            std::fs::write(path, profile.folded()).map_err(broken(path))?;
        }
        Ok(())
    }
}
/// What is recorded, and since when the verb is at work: from the end of its arguments, so that no moment is in neither.
pub struct RecordedRun {
    recording: Recording,
    run: Instant,
}
fn broken(path: &Path) -> impl Fn(io::Error) -> Failure + Copy {
    move |e| StorageError::of(Operation::Write, path, 0, &e).into()
}
