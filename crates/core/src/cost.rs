//! What an op costs, by its shapes alone. Counted are floating-point operations as the op is defined, not as a kernel
//! does them: 2 for a multiply-add of a product or convolution (padding included), 1 for an element of an element-wise
//! function whatever it is, 1 for an element that a reduction, scan or window takes in. Moving, choosing, converting
//! and comparing positions (views, gather, select, casts, sorting, random bits) cost none. A composite costs what its
//! plain body costs.
use crate::{
    Meta, Op, Result,
    composite::Composite,
    graph::{Graph, Node},
    op::{ConvRole, ScanOp, ScatterMode},
};

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
    /// Takes in another cost.
    pub fn add(&mut self, other: &Cost) {
        self.flops = self.flops.saturating_add(other.flops);
        self.multiply_adds = self.multiply_adds.saturating_add(other.multiply_adds);
        for name in &other.unknown {
            if !self.unknown.contains(name) {
                self.unknown.push(name);
            }
        }
    }
}

/// The cost of an op that reads and makes values of these kinds.
///
/// ```
/// # use adamant_core::{cost, DType, Device, Meta, Op, Shape};
/// let meta = |shape: &[usize]| Shape::new(shape).map(|shape| Meta { shape, dtype: DType::F32, device: Device::reference() }).map_err(|e| e.to_string());
/// let product = cost::of(&Op::Matmul, &[meta(&[2, 3])?, meta(&[3, 5])?], &[meta(&[2, 5])?])?;
/// assert_eq!(product.flops, 2 * 2 * 3 * 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// What the body of a composite returns.
pub fn of(op: &Op, inputs: &[Meta], outputs: &[Meta]) -> Result<Cost> {
    let input = |k: usize| inputs.get(k).map(|m| m.shape);
    let elements = |k: usize| input(k).map_or(0, |s| s.elements());
    let Some(made) = outputs.first().map(|m| m.shape) else { return Ok(Cost::default()) };
    Ok(match op {
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
        Op::Composite(composite) => of_body(&**composite, inputs)?,
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
/// The cost of a node of a graph.
///
/// # Errors
/// As [`of`].
pub fn of_node(graph: &Graph, node: &Node) -> Result<Cost> {
    let metas = |values: &mut dyn Iterator<Item = u32>| values.map(|v| graph.meta(v)).collect::<Vec<_>>();
    of(&node.op, &metas(&mut node.inputs.iter().copied()), &metas(&mut node.outputs.clone()))
}
fn of_body(composite: &dyn Composite, inputs: &[Meta]) -> Result<Cost> {
    let Some(device) = inputs.first().map(|m| m.device).filter(|_| !composite.is_host()) else {
        return Ok(Cost { unknown: vec![composite.name()], ..Cost::default() });
    };
    let body = Graph::capture(device, inputs, |x| composite.body(x))?;
    let mut total = Cost::default();
    for node in &body.nodes {
        total.add(&of_node(&body, node)?);
    }
    Ok(total)
}
