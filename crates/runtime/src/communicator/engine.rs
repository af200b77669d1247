//! Engines by name: a crate that brings one adds it with [`register_engine!`](crate::register_engine).
use super::Communicator;
use crate::ErrorKind;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// Where the 256 bits lie that prove who may join, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinToken {
    /// in a file
    File(PathBuf),
    /// behind a descriptor that was inherited
    Descriptor(i32),
}
/// How a rank asks for its group.
#[derive(Clone, Debug)]
pub struct EngineRequest {
    /// this rank
    pub rank: usize,
    /// how many there are
    pub size: usize,
    /// the ranks' hosts: how many of them run on this one, and which of those this is
    pub local: (usize, usize),
    /// the start of the job that they belong to: ranks of an earlier one are refused
    pub epoch: u64,
    /// where the ranks meet: host and port, at which rank 0 listens
    pub meeting: Option<(String, u16)>,
    /// the descriptor of a socket that listens there already, which rank 0 has inherited
    pub listener: Option<i32>,
    /// what proves who may join
    pub token: Option<JoinToken>,
    /// the address that others may reach this rank at; none: only this host
    pub bind: Option<String>,
    /// so long a rank waits for the others before it is told that they are lost
    pub timeout: Duration,
}
/// An engine that is linked into the program.
pub struct Engine {
    /// its name
    pub name: &'static str,
    /// makes a rank's group
    pub open: fn(&EngineRequest) -> Result<Arc<dyn Communicator>, ErrorKind>,
    /// Can it be had here? Else what was looked for, and what to install.
    pub present: fn() -> Result<(), ErrorKind>,
}
/// The engines that are linked into this program.
#[linkme::distributed_slice]
pub static ENGINES: [Engine];

/// The engine of that name.
///
/// # Errors
/// None has it: the error says which there are.
pub fn engine_named(name: &str) -> Result<&'static Engine, ErrorKind> {
    ENGINES.iter().find(|engine| engine.name == name).ok_or_else(|| {
        let mut known: Vec<&str> = ENGINES.iter().map(|engine| engine.name).collect();
        known.sort_unstable();
        let known = if known.is_empty() { "none is linked into this program".into() } else { format!("there are {}", known.join(", ")) };
        ErrorKind::Argument(format!("`{name}` is no engine: {known}"))
    })
}

/// Makes an engine known by name: `register_engine!(MINE, "mine", |request| open(request), || present())`.
#[macro_export]
macro_rules! register_engine {
    ($id:ident, $name:literal, $open:expr, $present:expr) => {
        #[$crate::linkme::distributed_slice($crate::communicator::ENGINES)]
        #[linkme(crate = $crate::linkme)]
        static $id: $crate::communicator::Engine = $crate::communicator::Engine { name: $name, open: $open, present: $present };
    };
}
