//! Ranks that train together.
//!
//! ```text
//! adamant launch -> RANK, WORLD_SIZE, ... -> place -> EngineRequest -> an engine -> Communicator
//!                                                                    local: join (who may) -> control (who lives) -> local (the blocks)
//! ```
pub mod control;
pub mod join;
pub mod local;

use adamant_runtime::ErrorKind;
