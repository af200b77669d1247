//! What an op costs, by its shapes alone. Counted are floating-point operations as the op is defined, not as a kernel
//! does them: 2 for a multiply-add of a product or convolution (padding included), 1 for an element of an element-wise
//! function whatever it is, 1 for an element that a reduction, scan or window takes in. Moving, choosing, converting
//! and comparing positions (views, gather, select, casts, sorting, random bits) cost none. A composite costs what its
//! plain body costs.
use adamant_core::{
    Meta, Op, Result,
    composite::Composite,
    graph::{Graph, Node},
    op::{ConvRole, ScanOp, ScatterMode},
};
use std::sync::Arc;

/// The cost of an op or a graph.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// floating-point operations
    pub flops: u64,
    /// multiply-adds of products and convolutions, which are 2 of `flops` each
    pub multiply_adds: u64,
    /// composites without a plain body, whose cost is not known
    pub unknown: Vec<&'static str>,
}
impl Cost {
    fn elementwise(flops: usize) -> Cost {
        Cost { flops: flops as u64, ..Cost::default() }
    }
    fn product(factors: &[usize]) -> Cost {
        let multiply_adds = factors.iter().fold(1u64, |n, &f| n.saturating_mul(f as u64));
        Cost { flops: multiply_adds.saturating_mul(2), multiply_adds, ..Cost::default() }
    }
    pub(super) fn add(&mut self, other: &Cost) {
        self.flops = self.flops.saturating_add(other.flops);
        self.multiply_adds = self.multiply_adds.saturating_add(other.multiply_adds);
        for name in &other.unknown {
            if !self.unknown.contains(name) {
                self.unknown.push(name);
            }
        }
    }
}

/// The cost of a node.
///
/// # Errors
/// What the body of a composite returns.
pub fn of(graph: &Graph, node: &Node) -> Result<Cost> {
    let meta = |value: u32| graph.values[value as usize];
    let input = |k: usize| node.inputs.get(k).map(|&v| meta(v).shape);
    let elements = |k: usize| input(k).map_or(0, |s| s.elements());
    let made = meta(node.outputs.start).shape;
    Ok(match &node.op {
        Op::Unary(_) | Op::Binary(_) | Op::BinaryScalar(..) => Cost::elementwise(made.elements()),
        Op::Reduce { .. } | Op::ArgReduce { .. } => Cost::elementwise(elements(0)),
        Op::Scan { op: ScanOp::LinearRecurrence, .. } => Cost::elementwise(2 * elements(0)),
        Op::Scan { .. } => Cost::elementwise(elements(0)),
        Op::Scatter { mode: ScatterMode::Set, .. } => Cost::default(),
        Op::Scatter { .. } => Cost::elementwise(elements(2)),
        Op::Window(spec) => Cost::elementwise(spec.size.iter().fold(made.elements(), |n, s| n.saturating_mul(*s))),
        Op::Matmul => Cost::product(&[made.elements(), input(0).and_then(|s| s.last().copied()).unwrap_or(0)]),
        Op::Conv(spec) => {
            // One multiply-add for each element of y, input channel of its group, and place of the kernel.
            let (y, w) = match spec.role {
                ConvRole::Forward => (made.elements(), input(1)),
                ConvRole::InputGrad => (elements(0), input(1)),
                ConvRole::WeightGrad => (elements(1), Some(made)),
            };
            w.map_or_else(Cost::default, |w| Cost::product(&[y, w[1..].iter().product()]))
        }
        Op::Composite(composite) => of_body(composite, &node.inputs.iter().map(|&v| meta(v)).collect::<Vec<_>>())?,
        Op::Input
        | Op::Const(_)
        | Op::Iota { .. }
        | Op::RandomBits { .. }
        | Op::Select
        | Op::Cast(_)
        | Op::Bitcast(_)
        | Op::View(_)
        | Op::Pad(_)
        | Op::Concat { .. }
        | Op::UpdateSlice { .. }
        | Op::Gather { .. }
        | Op::Sort { .. }
        | Op::Transfer(_)
        | Op::Collective { .. }
        | Op::StopGrad => Cost::default(),
    })
}
fn of_body(composite: &Arc<dyn Composite>, inputs: &[Meta]) -> Result<Cost> {
    let Some(device) = inputs.first().map(|m| m.device).filter(|_| !composite.is_host()) else {
        return Ok(Cost { unknown: vec![composite.name()], ..Cost::default() });
    };
    let body = Graph::capture(device, inputs, |x| composite.body(x))?;
    let mut total = Cost::default();
    for node in &body.nodes {
        total.add(&of(&body, node)?);
    }
    Ok(total)
}
