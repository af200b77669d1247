//! What ops cost, by their shapes alone. What is counted, and what a primitive costs, the crate `adamant-ir` tells; here
//! composites cost what their plain bodies cost, and graphs what their nodes do.
use crate::{
    Error, Meta, Op, Result,
    composite::{InTensors, Keyed},
    graph::{Graph, Node},
    intercept,
};
pub use adamant_ir::cost::Cost;

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
    let types = |metas: &[Meta]| metas.iter().map(Meta::ty).collect::<Vec<_>>();
    match op {
        Op::Composite(composite) => of_body(composite, inputs),
        op => Ok(op.cost(&types(inputs), &types(outputs))),
    }
}
/// The cost of a node of a graph.
///
/// # Errors
/// As [`of`].
pub fn of_node(graph: &Graph, node: &Node) -> Result<Cost> {
    let metas = |values: &mut dyn Iterator<Item = u32>| {
        values.map(|v| graph.meta(v)).collect::<std::result::Result<Vec<_>, _>>().map_err(|kind| Error::new(node.op.name(), kind))
    };
    of(&node.op, &metas(&mut node.inputs.iter().copied())?, &metas(&mut node.outputs.clone())?)
}
fn of_body(composite: &Keyed, inputs: &[Meta]) -> Result<Cost> {
    let Some(device) = inputs.first().map(|m| m.device).filter(|_| !composite.is_host()) else {
        return Ok(Cost { unknown: vec![composite.name()], ..Cost::default() });
    };
    // What the user applies has met the interceptors already.
    let body = Graph::capture(device, inputs, |x| intercept::below(|| composite.body(x)))?;
    let mut total = Cost::default();
    for node in &body.nodes {
        total.add(&of_node(&body, node)?);
    }
    Ok(total)
}
