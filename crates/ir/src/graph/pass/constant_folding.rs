//! `constant_folding`: a node whose inputs are constants becomes a constant, where every device would compute the same bits: by
//! ops that IEEE 754 rounds exactly, on integers, and by what moves or chooses elements. An exponential stays: its last bit is the
//! device's affair. A result that is one number everywhere becomes a `full`, which takes no memory.
//!
//! Folding fixes the arguments of what it folds.
use super::{
    super::{Data, Environment, Graph, GraphError, Node, Type, rewrite::Rewrite},
    dead_code,
};
use crate::{
    Arg, DType, HostArray, Op, PlacedType, Scalar, Shape,
    op::ReduceOp,
    reference::{self, HostData},
    scalar::{Binary, Unary},
};
use std::collections::HashMap;

/// A result may be larger than the constants that it is made of, up to so many elements.
const SMALL: usize = 1024;
/// Integers up to here are exact as f64.
const EXACT: i64 = 1 << 53;

pub(in super::super) fn run(graph: &mut Graph, environment: &dyn Environment) -> Result<(), GraphError> {
    let mut rewrite = Rewrite::begin(graph, environment);
    let by_value: HashMap<u32, usize> = graph.constants.iter().enumerate().map(|(k, c)| (c.value, k)).collect();
    // What is known of old values: constants once they are looked at, and what was folded.
    let mut known: HashMap<u32, Option<HostArray>> = HashMap::new();
    // Those that are one number everywhere, of whatever size.
    let mut uniform: HashMap<u32, HostArray> = HashMap::new();
    for node in &graph.nodes {
        let first = node.outputs.start;
        let out = graph.placed(first);
        if let Some(number) = of_uniform(graph, node, &uniform) {
            let new = place(&mut rewrite, node, &number, out)?;
            rewrite.replace(first, new);
            uniform.insert(first, number);
            continue;
        }
        let made = folded(graph, node, &by_value, &mut known);
        match made {
            Some(made) => {
                for (v, array) in node.outputs.clone().zip(made) {
                    let new = place(&mut rewrite, node, &array, graph.placed(v))?;
                    rewrite.replace(v, new);
                    known.insert(v, Some(array));
                }
            }
            None => {
                if matches!(node.op, Op::Const(_)) {
                    let scalar = Type { shape: Shape::SCALAR, dtype: out.ty.dtype };
                    let number = reference::run(&Op::Const(scalar), node.arg, &[], &[scalar]).ok().and_then(|(mut made, _)| made.pop());
                    uniform.extend(number.map(|number| (first, number)));
                }
                if matches!(node.op, Op::Const(_) | Op::Iota { .. }) && out.ty.shape.elements() <= SMALL {
                    let made = reference::run(&node.op, node.arg, &[], &[out.ty]).ok().and_then(|(mut made, _)| made.pop());
                    known.insert(first, made);
                }
                rewrite.keep(node);
            }
        }
    }
    let mut new = rewrite.finish();
    // Numbers and positions that only folded nodes read.
    dead_code::sweep(&mut new, |node| matches!(node.op, Op::Const(_) | Op::Iota { .. }));
    *graph = new;
    Ok(())
}
/// The number that a node makes everywhere of inputs that are one number each.
fn of_uniform(graph: &Graph, node: &Node, uniform: &HashMap<u32, HostArray>) -> Option<HostArray> {
    let out = graph.values[node.outputs.start as usize];
    let inputs: Vec<HostArray> = node.inputs.iter().map(|v| uniform.get(v).cloned()).collect::<Option<_>>()?;
    // A full of u64 takes its number as i64.
    if inputs.is_empty() || out.dtype == DType::U64 || !is_exact(&node.op, out) {
        return None;
    }
    match &node.op {
        Op::View(_) | Op::StopGrad => inputs.into_iter().next(),
        Op::Unary(_) | Op::Binary(_) | Op::BinaryScalar(..) | Op::Select | Op::Cast(_) if !is_rounded_twice(&node.op, &inputs) => {
            match reference::run(&node.op, node.arg, &inputs, &[Type { shape: Shape::SCALAR, dtype: out.dtype }]) {
                Ok((mut made, None)) => made.pop().filter(|number| !number.float(0).is_nan()),
                _ => None,
            }
        }
        _ => None,
    }
}
/// What a node makes of constants, if every device would compute the same bits and the result is no larger than it may be. Bad
/// data tells when it is read, as it would have.
fn folded(graph: &Graph, node: &Node, by_value: &HashMap<u32, usize>, known: &mut HashMap<u32, Option<HostArray>>) -> Option<Vec<HostArray>> {
    if node.inputs.is_empty() || !is_exact(&node.op, graph.values[node.outputs.start as usize]) {
        return None;
    }
    let size = |v: u32| graph.values[v as usize].shape.elements();
    let most = node.inputs.iter().map(|v| size(*v)).sum::<usize>().max(SMALL);
    if node.outputs.clone().any(|v| size(v) > most) {
        return None;
    }
    let mut inputs: Vec<HostArray> = Vec::new();
    for v in &node.inputs {
        let array = known.entry(*v).or_insert_with(|| by_value.get(v).and_then(|&k| elements(graph, k)));
        inputs.push(array.clone()?);
    }
    if is_rounded_twice(&node.op, &inputs) {
        return None;
    }
    let types: Vec<Type> = node.outputs.clone().map(|v| graph.values[v as usize]).collect();
    match reference::run(&node.op, node.arg, &inputs, &types) {
        Ok((made, None)) if made.len() == types.len() => Some(made),
        _ => None,
    }
}
/// An integer that f64 does not hold would be rounded on its way to another float, and then again.
fn is_rounded_twice(op: &Op, inputs: &[HostArray]) -> bool {
    matches!(op, Op::Cast(to) if to.is_float() && !inputs.iter().all(fits))
}
/// The elements of a constant, unless they cannot be had.
fn elements(graph: &Graph, k: usize) -> Option<HostArray> {
    let Type { shape, dtype } = graph.values[graph.constants[k].value as usize];
    Some(HostArray::from_bytes(shape, dtype, &graph.constants[k].data.bytes().ok()?))
}
fn fits(a: &HostArray) -> bool {
    match &a.data {
        HostData::Float(_) => true,
        HostData::Int(v) => a.dtype != DType::U64 && v.iter().all(|v| (-EXACT..=EXACT).contains(v)),
    }
}
/// A folded value: `full` where all elements are one number, else a constant.
fn place(rewrite: &mut Rewrite<'_>, node: &Node, array: &HostArray, out: PlacedType) -> Result<u32, GraphError> {
    let uniform = match &array.data {
        HostData::Float(v) => v.first().filter(|first| !first.is_nan() && v.iter().all(|x| x.to_bits() == first.to_bits())).map(|v| Scalar::Float(*v)),
        HostData::Int(v) => v.first().filter(|first| out.ty.dtype != DType::U64 && v.iter().all(|x| x == *first)).map(|v| Scalar::Int(*v)),
    };
    match uniform.and_then(|s| s.fit(out.ty.dtype).ok()) {
        Some(s) => Ok(rewrite.to.add_node(Op::Const(out.ty), Arg::Scalar(s), &[], [out], node.scope, node.at).start),
        None => Ok(rewrite.to.add_constant(out.ty, out.place, Data::Bytes(array.to_bytes().into()))),
    }
}
/// Does every device compute the same bits?
fn is_exact(op: &Op, made: Type) -> bool {
    match op {
        Op::Unary(f) => is_exact_unary(*f),
        Op::Binary(f) | Op::BinaryScalar(f, _) => is_exact_binary(*f, made.dtype),
        Op::Reduce { op, .. } => matches!(op, ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Max | ReduceOp::Min) && !made.dtype.is_float(),
        Op::Select | Op::Cast(_) | Op::Bitcast(_) | Op::View(_) | Op::Pad(_) | Op::Concat { .. } | Op::UpdateSlice { .. } => true,
        Op::Gather { .. } | Op::StopGrad => true,
        _ => false,
    }
}
fn is_exact_unary(f: Unary) -> bool {
    use Unary::*;
    matches!(f, Abs | Neg | Square | Floor | Ceil | Trunc | Round | Sqrt | IsNan | IsInf | IsFinite | IsPosInf | IsNegInf | SignBit | LogicalNot | BitNot)
}
fn is_exact_binary(f: Binary, made: DType) -> bool {
    use Binary::*;
    let on_all = matches!(f, Add | Sub | Mul | Div | Eq | Ne | Lt | Le | Gt | Ge | LogicalAnd | LogicalOr | LogicalXor);
    let on_integers = matches!(f, BitAnd | BitOr | BitXor | ShiftLeft | ShiftRight | Maximum | Minimum | FloorDivide | DivTrunc | Remainder | Fmod | Gcd | Lcm);
    on_all || on_integers && !made.is_float()
}
