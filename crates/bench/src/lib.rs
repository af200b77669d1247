//! Benchmarks of Adamant, and of crates that use it: run, compare, gate, merge, report.
//!
//! - [`mod@workload`]: a name and a function that builds inputs, the call that is timed, and the check of its result in f64
//!   ([`mod@check`], [`inputs`]). Users add theirs with [`workload!`]; [`suite`] is what a program measures.
//! - [`sampler`]: one workload under the clock. [`lines`] is what is printed, [`record`] what is kept: all samples with the
//!   [`machine`], its [`ceilings`] and how it was measured.
//! - [`serve`] and [`child`] are the two ends of a pipe ([`protocol`]): a program that holds a workload, and who asks it for
//!   samples, on one core if it has one thread ([`pin`]). [`interleave`] asks several in turn, in random order;
//!   [`agreement`] withdraws what computes something else; [`verdict`] says with [`stats`] what differs, and [`mod@gate`] whether
//!   that may pass.
//! - [`merge`] puts records of several machines into one table; [`render`] writes tables and pages.
//! - [`mod@history`] follows workloads over records and finds where they changed.
//! - [`timing`] times functions of a program that measures a part of itself.
//! - [`cli`] is all of it as verbs of a program.
//!
//! Invariants: a wrong result has no time; a record has all samples, so that every summary can be computed again; a
//! comparison never claims more than its samples show ([`verdict`]).
//!
//! Without the feature `suite` there are records and what they hold ([`record`], [`machine`], [`stats`]), for programs that
//! only write one.
//!
//! This crate stands above the facade, as programs do, and must not know which workloads there are.
#![forbid(unsafe_code)]

#[cfg(feature = "suite")]
pub mod agreement;
pub mod ceilings;
#[cfg(feature = "suite")]
pub mod check;
#[cfg(feature = "suite")]
pub mod child;
#[cfg(feature = "suite")]
pub mod cli;
#[cfg(feature = "suite")]
pub mod comparison;
#[cfg(feature = "suite")]
pub mod criterion;
#[cfg(feature = "suite")]
pub mod gate;
#[cfg(feature = "suite")]
pub mod history;
pub mod inputs;
#[cfg(feature = "suite")]
pub mod interleave;
#[cfg(feature = "suite")]
pub mod lines;
pub mod machine;
#[cfg(feature = "suite")]
pub mod merge;
#[cfg(feature = "suite")]
pub mod pin;
pub mod place;
pub mod protocol;
pub mod record;
#[cfg(feature = "suite")]
pub mod render;
#[cfg(feature = "suite")]
pub mod sampler;
#[cfg(feature = "suite")]
pub mod serve;
pub mod stats;
#[cfg(feature = "suite")]
pub mod suite;
#[cfg(feature = "suite")]
pub mod timing;
#[cfg(feature = "suite")]
pub mod verdict;
pub mod workload;

#[cfg(feature = "suite")]
pub use check::check;
#[doc(hidden)]
pub use linkme;
#[cfg(feature = "suite")]
pub use suite::{Suite, registered};
pub use workload::{Call, Checked, Group, Prepared, Problem, REGISTERED, Rate, Scale, WatchKind, Workload, ensure};
