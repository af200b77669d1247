//! The driver's interface, as strict as its documentation: contexts, memory, streams, events, captures, graphs, and errors
//! that stay.
//!
//! `entry` is what every call goes through, `calls` are the calls by subject, `state` is what they keep. `queue` runs work
//! when somebody waits, `perform` does it, `order` knows what comes before what.
//!
//! Must not know: PTX, and how a kernel runs.
#![allow(unsafe_code, reason = "functions that C calls, and what C hands over")]

pub(crate) mod capture;
pub(crate) mod clock;
pub(crate) mod code;
pub(crate) mod copies;
pub(crate) mod entry;
pub(crate) mod graph;
pub(crate) mod host;
pub(crate) mod kernels;
pub(crate) mod order;
pub(crate) mod perform;
pub(crate) mod pointer;
pub(crate) mod profile;
pub(crate) mod queue;
pub(crate) mod state;

/// The calls, by subject.
pub(crate) mod calls {
    pub(crate) mod context;
    pub(crate) mod copy;
    pub(crate) mod device;
    pub(crate) mod graph;
    pub(crate) mod launch;
    pub(crate) mod memory;
    pub(crate) mod module;
    pub(crate) mod pages;
    pub(crate) mod stream;
}

/// All functions of `libcuda`.
pub(crate) fn exports() -> Vec<entry::Export> {
    let tables = [
        calls::device::exports(),
        calls::context::exports(),
        calls::memory::exports(),
        calls::pages::exports(),
        calls::copy::exports(),
        calls::stream::exports(),
        calls::module::exports(),
        calls::launch::exports(),
        calls::graph::exports(),
    ];
    tables.concat()
}
