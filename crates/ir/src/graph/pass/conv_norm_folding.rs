//! `conv_norm_folding`: a batch norm of inference that alone reads a convolution goes into its weight and bias:
//! `s = gamma / sqrt(var + eps)`, `w' = w s`, `b' = (b - mean) s + beta` (Jacob et al., "Quantization and Training", 2018, section 3.2). Where
//! all of these are constants, so are the new ones, computed in f64 and rounded once; where they are read from cells, a few ops
//! on arrays of the weight's size take the place of a norm of the activations. In f32 and f64 alone: a weight of 16 bits
//! that is rounded again loses more than the norm costs.
//!
//! The result is not the same to the bit. For an output of which `n` products are summed, with `u` half a unit in the last place of 1:
//! `|y' - y| <= (n + 8) u (|s| sum |w x| + |s| (|b| + |mean|) + |beta|)`, to first order in `u`; `bound_holds` in the tests measures it.
use super::super::{Data, Environment, Graph, GraphError, Invalid, Node, Type, Why, form, rewrite::Rewrite};
use crate::{
    Arg, Attr, DType, HostArray, Op, Scalar, Shape,
    composite::Given,
    op::{ConvRole, Side, View},
    scalar::{Binary, Unary},
};
use std::collections::HashMap;

/// A convolution and the norm behind it.
struct ConvAndNorm<'a> {
    conv: &'a Node,
    norm: &'a Node,
    /// the composite that a convolution with a bias is
    name: &'static str,
    attrs: Vec<(String, Attr)>,
    /// the axis of the weight along which the outputs' channels lie
    axis: usize,
    eps: f64,
    weight: bool,
    bias: bool,
}
impl ConvAndNorm<'_> {
    /// Values of mean, variance, and where there are, weight and bias of the norm.
    fn parameters(&self) -> (u32, u32, Option<u32>, Option<u32>) {
        let given = &self.norm.inputs;
        let bias = 3 + usize::from(self.weight);
        (given[1], given[2], self.weight.then(|| given[3]), self.bias.then(|| given[bias]))
    }
}

pub(in super::super) fn run(graph: &mut Graph, environment: &dyn Environment) -> Result<(), GraphError> {
    let (makers, uses) = (graph.makers(), graph.uses());
    let pairs: HashMap<usize, ConvAndNorm<'_>> = (0..graph.nodes.len()).filter_map(|k| Some((k, pair(graph, k, &makers, &uses, environment)?))).collect();
    let folded: Vec<u32> = pairs.values().map(|p| p.conv.outputs.start).collect();
    let mut rewrite = Rewrite::begin(graph, environment);
    for (k, node) in graph.nodes.iter().enumerate() {
        match pairs.get(&k) {
            Some(pair) => {
                let made = fold(graph, &mut rewrite, pair, environment)?;
                rewrite.replace(node.outputs.start, made);
            }
            None if folded.contains(&node.outputs.start) => {}
            None => rewrite.keep(node),
        }
    }
    *graph = rewrite.finish();
    Ok(())
}
/// The pair that ends at a node, if one does.
fn pair<'a>(graph: &'a Graph, k: usize, makers: &[Option<u32>], uses: &[u32], environment: &dyn Environment) -> Option<ConvAndNorm<'a>> {
    let norm = &graph.nodes[k];
    let Op::Composite(c) = &norm.op else { return None };
    if c.name() != "adamant.batch_norm_inference" {
        return None;
    }
    let x = norm.inputs[0];
    let conv = &graph.nodes[makers[x as usize]? as usize];
    let (name, role) = match &conv.op {
        Op::Conv(spec) if spec.role == ConvRole::Forward => ("adamant.conv", ConvRole::Forward),
        Op::Conv(spec) if spec.role == ConvRole::InputGrad => ("adamant.conv_transpose", ConvRole::InputGrad),
        Op::Composite(c) if c.name() == "adamant.conv" => ("adamant.conv", ConvRole::Forward),
        Op::Composite(c) if c.name() == "adamant.conv_transpose" => ("adamant.conv_transpose", ConvRole::InputGrad),
        _ => return None,
    };
    let dtype = graph.values[x as usize].dtype;
    let of_one_dtype = conv.inputs.iter().chain(&norm.inputs).all(|&v| graph.values[v as usize].dtype == dtype);
    if uses[x as usize] != 1 || !of_one_dtype || !matches!(dtype, DType::F32 | DType::F64) {
        return None;
    }
    let mut context = form::FormContext { home: graph.home, groups: Vec::new(), environment };
    let attrs = form::attributes(&conv.op, &[], &mut context);
    let attrs: Vec<(String, Attr)> = attrs.into_iter().map(|(name, attr)| (name.to_string(), attr)).collect();
    let one_group = attrs.iter().any(|(name, attr)| name == "groups" && *attr == Attr::Int(1));
    // The channels of a transposed convolution in groups lie on two axes of its weight.
    let axis = match role {
        ConvRole::Forward => 0,
        _ if one_group => 1,
        _ => return None,
    };
    let given = c.attrs();
    let find = |name: &str| given.iter().find(|(n, _)| *n == name).map(|(_, attr)| attr);
    let (Some(Attr::Float(eps)), Some(Attr::Bool(weight)), Some(Attr::Bool(bias))) = (find("eps"), find("weight"), find("bias")) else { return None };
    Some(ConvAndNorm { conv, norm, name, attrs, axis, eps: *eps, weight: *weight, bias: *bias })
}
/// Appends the one convolution that a pair becomes.
fn fold(graph: &Graph, rewrite: &mut Rewrite<'_>, pair: &ConvAndNorm<'_>, environment: &dyn Environment) -> Result<u32, GraphError> {
    let (weight, bias) = match of_constants(graph, pair) {
        Some((weight, bias)) => {
            let mut add = |array: HostArray| {
                let ty = Type { shape: array.shape, dtype: array.dtype };
                rewrite.to.add_constant(ty, graph.places[pair.conv.inputs[1] as usize], Data::Bytes(array.to_bytes().into()))
            };
            (add(weight), add(bias))
        }
        None => of_values(graph, rewrite, pair)?,
    };
    let x = rewrite.value(pair.conv.inputs[0]);
    let built = environment.composite(pair.name, &mut Given::new(pair.attrs.clone()));
    let op = match built {
        Ok(built) => Op::Composite(built.function),
        Err(kind) => {
            let why = Why::Op(Box::new(kind));
            return Err(Invalid { node: None, op: pair.name.into(), at: pair.conv.at, scope: String::new(), why }.into());
        }
    };
    rewrite.apply(op, Arg::None, &[x, weight, bias], pair.conv.scope, pair.conv.at)
}
/// The new weight and bias, if all that they are made of is constant.
fn of_constants(graph: &Graph, pair: &ConvAndNorm<'_>) -> Option<(HostArray, HostArray)> {
    let array = |v: u32| -> Option<HostArray> {
        let constant = graph.constants.iter().find(|c| c.value == v)?;
        let ty = graph.values[v as usize];
        Some(HostArray::from_bytes(ty.shape, ty.dtype, &constant.data.bytes().ok()?))
    };
    let optional = |v: Option<u32>| match v {
        None => Some(None),
        Some(v) => array(v).map(Some),
    };
    let (mean, var, gamma, beta) = pair.parameters();
    let (w, mean, var) = (array(pair.conv.inputs[1])?, array(mean)?, array(var)?);
    let (b, gamma, beta) = (optional(pair.conv.inputs.get(2).copied())?, optional(gamma)?, optional(beta)?);
    let at = |a: &Option<HostArray>, c: usize, none: f64| a.as_ref().map_or(none, |a| a.float(c));
    let scale: Vec<f64> = (0..var.len()).map(|c| at(&gamma, c, 1.0) / (var.float(c) + pair.eps).sqrt()).collect();
    let inner: usize = w.shape[pair.axis + 1..].iter().product();
    let channels = w.shape[pair.axis];
    let weight = HostArray::floats(w.shape, w.dtype, (0..w.len()).map(|k| w.float(k) * scale[k / inner % channels]));
    let bias = (0..scale.len()).map(|c| (at(&b, c, 0.0) - mean.float(c)) * scale[c] + at(&beta, c, 0.0));
    Some((weight, HostArray::floats(var.shape, var.dtype, bias)))
}
/// The new weight and bias as ops on the old ones.
fn of_values(graph: &Graph, rewrite: &mut Rewrite<'_>, pair: &ConvAndNorm<'_>) -> Result<(u32, u32), GraphError> {
    let (mean, var, gamma, beta) = pair.parameters();
    let [mean, var, w] = [mean, var, pair.conv.inputs[1]].map(|v| rewrite.value(v));
    let [gamma, beta, b] = [gamma, beta, pair.conv.inputs.get(2).copied()].map(|v| v.map(|v| rewrite.value(v)));
    let mut apply = |op: Op, arg: Arg, inputs: &[u32]| rewrite.apply(op, arg, inputs, pair.norm.scope, pair.norm.at);
    let shifted = apply(Op::BinaryScalar(Binary::Add, Side::Right), Arg::Scalar(Scalar::Float(pair.eps)), &[var])?;
    let root = apply(Op::Unary(Unary::Sqrt), Arg::None, &[shifted])?;
    let scale = match gamma {
        Some(gamma) => apply(Op::Binary(Binary::Div), Arg::None, &[gamma, root])?,
        None => apply(Op::BinaryScalar(Binary::Div, Side::Left), Arg::Scalar(Scalar::Float(1.0)), &[root])?,
    };
    let shape = graph.values[pair.conv.inputs[1] as usize].shape;
    let along = Shape::along(0, shape[pair.axis], shape.rank() - pair.axis);
    let factors = apply(Op::View(View::Reshape(along)), Arg::None, &[scale])?;
    let weight = apply(Op::Binary(Binary::Mul), Arg::None, &[w, factors])?;
    let centred = match b {
        Some(b) => apply(Op::Binary(Binary::Sub), Arg::None, &[b, mean])?,
        None => apply(Op::Unary(Unary::Neg), Arg::None, &[mean])?,
    };
    let mut bias = apply(Op::Binary(Binary::Mul), Arg::None, &[centred, scale])?;
    if let Some(beta) = beta {
        bias = apply(Op::Binary(Binary::Add), Arg::None, &[bias, beta])?;
    }
    Ok((weight, bias))
}
