//! The engine `mpi`: groups of ranks on the MPI library of a cluster.
//!
//! ```text
//! EngineRequest -> select (which library) -> functions (its symbols, by its abi) -> process (MPI_Init_thread, once) -> open_group
//! a call -> agree (all ranks call the same) -> transfer (chunks) -> the result
//!              \-> patience (timeout, abort, lost ranks) <- lines (notes between the ranks)
//! ```
//!
//! Nothing of MPI is needed to build: a library is opened when a program asks for the engine, and about 25 of its functions are called,
//! through one of three binary interfaces ([`MpiAbi`]). What to install, and which library is taken, is said in `docs/distributed.md`.
//!
//! - **Every call begins with a header** to each other rank: its number, a fingerprint of what is called, the length, and
//!   the call in words. Data follow when all headers agree, so ranks that call different things get an error
//!   ([`ErrorKind::RanksDiffer`]) with nothing written.
//! - **Data go from rank to rank** in chunks, received into buffers of this crate and added or copied while they lie in the cache. So it is known
//!   who has not come, and no buffer of a caller's is written after an error. MPI's own sum is used for the fast mode alone.
//! - **Nothing waits for ever**: requests are non-blocking and asked after (first spinning, then leaving the processor to others, then with short
//!   sleeps), by whichever thread calls; a lock has them take turns, as `MPI_THREAD_SERIALIZED` asks. `MPI_Init_thread`, `MPI_Comm_split` and
//!   `MPI_Finalize`, which wait inside MPI, are left to a thread of the process' own, and are waited for with a limit.
//!
//! **Architecture invariant:** this crate knows nothing of tensors, launchers or checkpoints. `unsafe` is in `functions` (symbols and their types)
//! and `wire` (who calls when, and which bytes stay) alone.
//!
//! [`ErrorKind::RanksDiffer`]: adamant_ir::ErrorKind::RanksDiffer
mod abi;
#[cfg(unix)]
mod agree;
#[cfg(unix)]
mod frame;
#[cfg(unix)]
#[allow(unsafe_code, reason = "the functions of a library that is opened at run time")]
mod functions;
#[cfg(unix)]
mod group;
#[cfg(unix)]
mod lines;
#[cfg(unix)]
mod patience;
#[cfg(unix)]
mod process;
mod select;
#[cfg(unix)]
mod transfer;
#[cfg(unix)]
#[allow(unsafe_code, reason = "calls of those functions")]
mod wire;

pub use abi::{AbiTable, MpiAbi, NUMBERS, Predefined};
#[cfg(unix)]
pub use group::MpiCommunicator;
#[cfg(unix)]
pub use lines::{LostPeers, watch_peers};
#[cfg(unix)]
pub use process::{open_group, present};
pub use select::{LIBRARY_VARIABLE, LibraryCandidate, MpiFamily, advice, candidates, conflict, launcher};

use adamant_ir::ErrorKind;
use adamant_runtime::communicator::{Communicator, EngineRequest};
use std::sync::Arc;

/// Is there a library that can be used here?
///
/// # Errors
/// Not on this system.
#[cfg(not(unix))]
pub fn present() -> Result<(), ErrorKind> {
    Err(ErrorKind::EngineAbsent("the engine `mpi` opens MPI libraries on Unix alone; use `local`".into()))
}
fn open(request: &EngineRequest) -> Result<Arc<dyn Communicator>, ErrorKind> {
    #[cfg(unix)]
    return open_group(request).map(|group| group as Arc<dyn Communicator>);
    #[cfg(not(unix))]
    return present().and_then(|()| Err(ErrorKind::EngineAbsent(format!("rank {}", request.rank))));
}
adamant_runtime::register_engine!(MPI, "mpi", open, present);
