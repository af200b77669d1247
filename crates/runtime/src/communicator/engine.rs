//! Engines by name: a crate that brings one adds it with [`register_engine!`](crate::register_engine).
use super::Communicator;
use crate::ErrorKind;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// How a rank asks for its group.
#[derive(Clone, Debug)]
pub struct EngineRequest {
    /// this rank
    pub rank: usize,
    /// how many there are
    pub size: usize,
    /// the ranks' hosts: how many of them run on this one, and which of those this is
    pub local: (usize, usize),
    /// where the ranks meet: host and port
    pub meeting: Option<(String, u16)>,
    /// the file that holds what proves who may join
    pub token: Option<PathBuf>,
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
