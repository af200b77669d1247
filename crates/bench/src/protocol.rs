//! What a program under test and the one that measures say to each other: one JSON document in a line, over the pipes of
//! the program. It begins with a [`Hello`]; then each [`Ask`] gets one [`ChildAnswer`]. Programs in other languages speak it
//! too, so fields that an answer does not need may be left out.
use crate::{machine::Facts, record::WorkUnit, workload::Group};
use serde::{Deserialize, Serialize};

/// The version of this protocol.
pub const PROTOCOL: u32 = 1;

/// What a program says first.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Hello {
    /// [`PROTOCOL`]
    pub protocol: u32,
    /// what it calls itself
    #[serde(rename = "impl")]
    pub implementation: String,
    /// its version
    #[serde(default)]
    pub version: String,
    /// machine, toolchain, device, threads
    #[serde(default)]
    pub facts: Facts,
}
/// What it is asked.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum Ask {
    /// the names of its workloads
    List,
    /// builds one, in place of the one before
    Prepare {
        /// the name
        workload: String,
        /// small shapes
        #[serde(default)]
        small: bool,
        /// check the result first
        #[serde(default = "yes")]
        check: bool,
        /// so many calls are one
        #[serde(default = "one")]
        repeat: usize,
    },
    /// calls for so long; the answer's `ns` is one call
    Warm {
        /// at least
        seconds: f64,
    },
    /// one sample
    Sample {
        /// of so many calls
        calls: u64,
    },
    /// the result of one more call is checked, where calls leave no trace
    Check,
    /// elements of the output of one more call
    Values {
        /// flat positions, modulo the number of elements
        places: Vec<u64>,
    },
    /// so many calls, and by how much memory grew over them
    Memory {
        /// calls
        calls: u64,
    },
    /// two calls, then so many more, and which share of their plans was found again
    Plans {
        /// calls
        calls: u64,
    },
    /// the workload is dropped
    Finish,
}
fn yes() -> bool {
    true
}
fn one() -> usize {
    1
}
/// What it answers.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
#[serde(expecting = "struct Answer")]
pub struct ChildAnswer {
    /// it cannot: why
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// because a part is not there
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsupported: bool,
    /// names
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<String>,
    /// nanoseconds of one call
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns: Option<f64>,
    /// the share of a sample in which the process waited for a core
    #[serde(default)]
    pub waited: f64,
    /// the worst error found by the check, as a share of what is allowed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<f64>,
    /// elements, and how many there are
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f64>,
    /// bytes by which the process grew
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<u64>,
    /// the share of plans that were found again
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_hits: Option<f64>,
    /// what the workload is
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
}
/// What a workload is, for the record.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct About {
    /// the group
    pub group: Group,
    /// of the operands
    pub dtype: String,
    /// of the largest operand
    pub elements: Option<u64>,
    /// of one call
    pub unit: Option<WorkUnit>,
    /// so many
    pub amount: Option<f64>,
    /// operations for each byte
    pub intensity: Option<f64>,
}
