//! Who may join, and how ranks find each other.
//!
//! ```text
//! EngineRequest -> meeting: rank 0 listens, the others call until it does
//!   each connection: handshake (both sides prove that they know the token) over frames
//!   rank 0 knows all -> Roster -> each calls the ranks below it, by the same handshake -> Ready -> Go: a connection to every rank
//! ```
//!
//! Nothing that is said runs code, and nothing is believed before the handshake. Who only connects costs a bounded place for a short
//! while and is the first to lose it, so that crowds of them do not keep the ranks from each other. When the connections are there
//! nobody listens any more. What is said is not encrypted.
//!
//! A rank that dies meanwhile is seen by its connection: who has one tells the others.
mod assembly;
pub mod frame;
pub mod handshake;
pub(crate) mod inherited;
pub(crate) mod link;
mod meeting;
pub mod token;

pub(crate) use assembly::{Assembled, CalledOff, assemble};
