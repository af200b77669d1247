//! `--profile` and `--trace FILE`: where the time of a command went, from the first line of the program on.
mod ranks;

use crate::{out, traced::TracedRanks};
use adamant::profile::{GroupBy, Profile, Profiler, Recording};
use adamant_distributed::{Communicator, RecordedGroup};
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
    /// writes a timeline that Perfetto and chrome://tracing open; of ranks that train together one of all, a process a rank
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
        Ok(Some(RecordedRun { recording, begun, run }))
    }
    /// Does anybody want a trace?
    pub fn traces(&self) -> bool {
        self.trace.is_some()
    }
    /// Ends, and tells.
    pub fn stop(&self, recorded: Option<RecordedRun>, ranks: &TracedRanks) -> Result<(), Failure> {
        let Some(RecordedRun { recording, begun, run }) = recorded else { return Ok(()) };
        let group = ranks.group();
        let rank = group.as_ref().map_or(0, |group| group.rank());
        recording.add_range("run", run, Instant::now());
        let profile = recording.stop();
        if self.profile {
            // Who does not read to the end wants no more of it.
            let tables = [profile.phases_among(&PHASES).to_string(), profile.phases().to_string(), profile.averages(GroupBy::Layer).to_string()];
            let _ = writeln!(io::stderr(), "\n{}\n{}", tables.join("\n"), profile.key_averages());
        }
        if let Some(path) = &self.trace {
            match &group {
                Some(group) => of_ranks(&profile, group, begun, path)?,
                None => alone(&profile, path)?,
            }
        }
        // Of several ranks, the first one's.
        if let Some(path) = self.folded.as_ref().filter(|_| rank == 0) {
            std::fs::write(path, profile.folded()).map_err(broken(path))?;
        }
        Ok(())
    }
}
/// What is recorded, and since when the verb is at work: from the end of its arguments, so that no moment is in neither.
pub struct RecordedRun {
    recording: Recording,
    begun: Instant,
    run: Instant,
}
fn alone(profile: &Profile, path: &Path) -> Result<(), Failure> {
    let broken = broken(path);
    let mut file = BufWriter::new(File::create(path).map_err(broken)?);
    profile.write_chrome_trace(&mut file).and_then(|()| file.flush()).map_err(broken)
}
/// One file of all ranks. Where they cannot be brought together any more, each writes its own, and says where.
fn of_ranks(profile: &Profile, group: &RecordedGroup, begun: Instant, path: &Path) -> Result<(), Failure> {
    let mut failed = None;
    let open = || {
        let file = File::create(path).inspect_err(|e| failed = Some(broken(path)(io::Error::from(e.kind()))));
        Ok(Box::new(BufWriter::new(file?)) as Box<dyn Write>)
    };
    let Err(kind) = ranks::write(profile, group, begun, open) else { return Ok(()) };
    if let Some(failure) = failed {
        return Err(failure);
    }
    let own = path.with_extension(format!("rank-{}.json", group.rank()));
    out::note(format!("the trace is of rank {} alone, in {}: {kind}", group.rank(), own.display()));
    alone(profile, &own)
}
fn broken(path: &Path) -> impl Fn(io::Error) -> Failure + Copy {
    move |e| StorageError::of(Operation::Write, path, 0, &e).into()
}
