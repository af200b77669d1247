//! Runs that ranks share, as threads of this process.
use adamant_conformance::ranks::group_of;
use adamant_core::{Device, communicator::Communicator};
use adamant_train::{Document, Failure, Interrupt, Report, Run, Watch};
use std::{
    path::Path,
    sync::{Arc, Barrier},
};

struct StopAt(Option<u64>, Interrupt);
impl Watch for StopAt {
    fn step(&mut self, step: u64) {
        if self.0 == Some(step) {
            self.1.ask(15);
        }
    }
}
/// Runs a description on so many ranks; the last one asks for an end behind a step.
#[allow(dead_code, reason = "not every test takes ranks of a test's own")]
pub fn train<S: AsRef<str> + Sync>(text: &str, ranks: usize, set: &[S], folder: &Path, stop: Option<u64>) -> Vec<Result<Report, Failure>> {
    train_on(text, group_of(ranks), set, folder, stop)
}
/// The same by ranks that belong together already.
pub fn train_on<S: AsRef<str> + Sync>(
    text: &str,
    groups: Vec<Arc<dyn Communicator>>,
    set: &[S],
    folder: &Path,
    stop: Option<u64>,
) -> Vec<Result<Report, Failure>> {
    let ranks = groups.len();
    let begin = Barrier::new(ranks);
    std::thread::scope(|scope| {
        let (begin, last) = (&begin, ranks - 1);
        let run = |(rank, group)| {
            scope.spawn(move || {
                let mut document = Document::parse("run.toml", text).unwrap();
                set.iter().for_each(|s| document.set(s.as_ref()).unwrap());
                let interrupt = Interrupt::new();
                let mut watch = StopAt(stop.filter(|_| rank == last), interrupt.clone());
                begin.wait();
                Device::cpu().unwrap().scoped(|| Run::new(&document).folder(folder).resume(true).interrupt(interrupt).ranks(group).train(&mut watch))
            })
        };
        let ranks: Vec<_> = groups.into_iter().enumerate().map(run).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}
