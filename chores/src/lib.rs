//! What every chore needs: where the workspace is and how cargo is called in it, and how a wrong command line is told. The
//! program of this package is what `cargo xtask` starts.
//!
//! Must not know anything of Adamant: who wants the list of chores, formatting or tests waits for no backend to be built.
#![forbid(unsafe_code)]

pub mod refusal;
pub mod workspace;
