//! Ranks that train together.
//!
//! ```text
//! adamant launch -> RANK, WORLD_SIZE, ... -> place -> EngineRequest -> an engine -> Communicator
//!                                                                    local: join (who may) -> control (who lives) -> local (the blocks)
//! adamant launch --elastic <- elastic -> the same again, of those who are left and those who come
//! ```
mod clock;
pub mod control;
#[cfg(unix)]
pub mod elastic;
pub mod join;
pub mod launch;
pub mod local;
pub mod place;
mod recorded;
mod told;

pub use adamant_runtime::communicator::Communicator;
pub use clock::{ClockOffset, clock_offset};
pub use recorded::{RecordedCall, RecordedGroup};
pub use told::{told_by_first, told_to_first};

use adamant_runtime::ErrorKind;
