//! The workloads of a program, and who runs them.
use crate::workload::{Group, REGISTERED, Workload};
use globset::{Glob, GlobSetBuilder};

/// What a program measures.
#[derive(Clone, Debug)]
pub struct Suite {
    /// what lines and records call it
    pub implementation: &'static str,
    /// all workloads, in the order in which they are measured
    pub workloads: fn() -> Vec<Workload>,
    /// what cargo is told to build this program: `build --release --package xtask`
    pub build: Vec<String>,
}
impl Suite {
    /// Workloads, and how cargo builds the program that has them.
    pub fn new(implementation: &'static str, workloads: fn() -> Vec<Workload>, build: &[&str]) -> Suite {
        Suite { implementation, workloads, build: build.iter().map(|s| s.to_string()).collect() }
    }
    /// Those of a group whose names match one of the globs.
    ///
    /// # Errors
    /// The globs are none.
    pub fn chosen(&self, group: Group, only: &[String]) -> Result<Vec<Workload>, globset::Error> {
        let mut set = GlobSetBuilder::new();
        for glob in only {
            set.add(Glob::new(glob)?);
        }
        let set = set.build()?;
        Ok((self.workloads)().into_iter().filter(|w| w.group == group && set.is_match(&w.name)).collect())
    }
}
/// The workloads that [`workload!`](crate::workload!) registered in this program, by name.
pub fn registered() -> Vec<Workload> {
    let mut all: Vec<Workload> = REGISTERED.iter().map(|make| make()).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}
