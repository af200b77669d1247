//! Calls of public functions here and in PyTorch, by the clock, in turn: of any function of the registry, drawn
//! ([`drawn`]), or those that an ordinary user makes ([`ordinary`]).
//!
//! A [`CallCase`] is data: both programs make the same inputs from it, run the same call, and show what it gave. Values are
//! compared first ([`agreed`]); where they differ there is no time. Then samples are taken in turn ([`measured`]).
mod agreed;
mod drawn;
mod measured;
mod ordinary;
mod ours;
mod report;
mod spelled;

use adamant_conformance::programs::ProgramArg;
use adamant_core::Tensor;
use serde::{Deserialize, Serialize};

pub use measured::{Options, run};
pub use ours::workloads;

/// The file with the calls of a run, for the program that is measured.
const CASES: &str = "ADAMANT_PEER_CALLS";

/// One call, or a chain of them, on given inputs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct CallCase {
    /// what says it again: `SEED:INDEX.SIZE`, or the name of an ordinary call
    name: String,
    /// our names of the functions, in order
    steps: Vec<CallStep>,
    /// what no step makes
    inputs: Vec<CallInput>,
    /// forward, and the gradients of a weighted sum of the results
    grad: bool,
    /// values are compared, and not only shapes
    compared: bool,
    /// Python that runs once before
    #[serde(default)]
    setup: String,
}
/// One call of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct CallStep {
    /// our name
    function: String,
    /// PyTorch's spelling, an expression of `x`
    torch: String,
    /// the arguments
    args: Vec<ProgramArg>,
}
/// One input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct CallInput {
    shape: Vec<usize>,
    dtype: String,
    layout: CallLayout,
    fill: Fill,
    seed: u64,
    /// a gradient is asked for
    leaf: bool,
}
/// How an input lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CallLayout {
    Contiguous,
    /// the last two axes are those of the memory in the other order
    Transposed,
    /// every second element of the last axis of the memory
    Sliced,
}
/// What its elements are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fill {
    /// numbers in a range
    Within(f64, f64),
    /// whole numbers below a bound
    Below(usize),
    /// whole numbers of a range
    Whole(i64, i64),
    /// these, over and over
    Given(Vec<f64>),
    /// rising from -1 to 1
    Sorted,
    /// all whole numbers below the number of elements, by this odd step
    Order(u64),
    /// symmetric and positive definite
    Definite,
}
impl CallCase {
    fn functions(&self) -> String {
        self.steps.iter().map(|s| s.function.as_str()).collect::<Vec<_>>().join(" → ")
    }
    /// The number of elements of the largest input.
    fn elements(&self) -> usize {
        self.inputs.iter().map(|i| i.shape.iter().product()).max().unwrap_or(0)
    }
    /// The call as a reader writes it in PyTorch.
    fn text(&self) -> String {
        let arg = |a: &ProgramArg| match a {
            ProgramArg::Input(k) => {
                let i = &self.inputs[*k];
                let layout = match i.layout {
                    CallLayout::Contiguous => "",
                    CallLayout::Transposed => ".mT",
                    CallLayout::Sliced => "[::2]",
                };
                format!("{}{:?}{layout}", i.dtype, i.shape)
            }
            ProgramArg::Result(k, n) => format!("r{k}.{n}"),
            other => serde_json::to_string(other).unwrap_or_default(),
        };
        let step = |s: &CallStep| format!("{} with {}", s.torch, s.args.iter().map(arg).collect::<Vec<_>>().join(", "));
        let steps: Vec<String> = self.steps.iter().map(step).collect();
        format!("{}{}", steps.join(" → "), if self.grad { ", forward and gradient" } else { "" })
    }
}
/// How a step is called here.
type StepCallee = Box<dyn Fn(&adamant_conformance::programs::arguments::Args) -> Vec<Tensor>>;
