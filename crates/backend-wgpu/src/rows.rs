//! Composites that normalise rows — softmax, its logarithm, their backwards, layer and RMS norm — in one launch each:
//! the row is read once for each of its sums, from the caches, and nothing of its size is written between.
//!
//! A row program is a list of reductions over the row, each of which may read the results of those before it, and the
//! expression of an element. Long rows are shared by a workgroup, short ones belong to an invocation.
use crate::{
    bindings::{Access, Bindings, Place},
    combine::Combine,
    copy::per_element,
    device::misshapen,
    launch::{Recorder, buffer},
    matmul::narrowed,
    pipeline::Key,
};
use adamant_core::{
    Composite, DType, ErrorKind,
    composite::{
        norm::{Norm, Over},
        softmax::{LogSoftmax, LogSoftmaxBackward, Softmax, SoftmaxBackward},
    },
    kernel::Step,
    op::ReduceOp,
};
use std::any::Any;

/// A reduction over the row, and what follows from `total`.
struct Stage {
    op: ReduceOp,
    /// of the elements `x0`, `x1` of the inputs, f32
    value: &'static str,
    /// statements that name what later stages read
    then: String,
}
/// What is done to each row.
struct RowProgram {
    /// which axis the rows lie along; `None`: the last ones, so many of them
    axis: Result<usize, usize>,
    stages: Vec<Stage>,
    /// the output's element, of the inputs' elements and what the stages named
    element: String,
    /// inputs of the rows' shape; those behind them have one element for each place in a row, `w0`, `w1`
    full: usize,
    /// what the auxiliary outputs hold for a row
    auxiliary: Vec<&'static str>,
    /// numbers that the text reads as `n0`, `n1`
    numbers: Vec<f32>,
}
fn stage(op: ReduceOp, value: &'static str, then: &str) -> Stage {
    Stage { op, value, then: then.into() }
}
/// The program of a composite, if it is one of these.
fn program(composite: &dyn Composite) -> Option<RowProgram> {
    let any: &dyn Any = composite;
    let plain = |axis: usize, stages: Vec<Stage>, element: &str, full: usize| {
        Some(RowProgram { axis: Ok(axis), stages, element: element.into(), full, auxiliary: Vec::new(), numbers: Vec::new() })
    };
    let largest = || stage(ReduceOp::Max, "x0", "let most: f32 = total;\n");
    if let Some(c) = any.downcast_ref::<Softmax>() {
        let sum = stage(ReduceOp::Sum, "adm_exp(x0 - most)", "let sum: f32 = total;\n");
        return plain(c.axis, vec![largest(), sum], "adm_exp(x0 - most) / sum", 1);
    }
    if let Some(c) = any.downcast_ref::<LogSoftmax>() {
        let sum = stage(ReduceOp::Sum, "adm_exp(x0 - most)", "let log_sum: f32 = adm_log(total);\n");
        return plain(c.axis, vec![largest(), sum], "(x0 - most) - log_sum", 1);
    }
    if let Some(c) = any.downcast_ref::<SoftmaxBackward>() {
        return plain(c.axis, vec![stage(ReduceOp::Sum, "x0 * x1", "let dot: f32 = total;\n")], "x1 * (x0 - dot)", 2);
    }
    if let Some(c) = any.downcast_ref::<LogSoftmaxBackward>() {
        let stages = vec![
            stage(ReduceOp::Max, "x1", "let most: f32 = total;\n"),
            stage(ReduceOp::Sum, "adm_exp(x1 - most)", "let log_sum: f32 = adm_log(total);\n"),
            stage(ReduceOp::Sum, "x0", "let sum: f32 = total;\n"),
        ];
        return plain(c.axis, stages, "x0 - adm_exp((x1 - most) - log_sum) * sum", 2);
    }
    let norm = any.downcast_ref::<Norm>()?;
    let (axes, centered) = match norm.over {
        Over::Layer { axes } => (axes, true),
        Over::Rms { axes } => (axes, false),
        Over::Group { .. } | Over::Batch => return None,
    };
    let rstd = "let rstd: f32 = 1.0 / sqrt(total / f32(p[1u]) + n0);\n";
    let stages = if centered {
        vec![stage(ReduceOp::Sum, "x0", "let mean: f32 = total / f32(p[1u]);\n"), stage(ReduceOp::Sum, "(x0 - mean) * (x0 - mean)", rstd)]
    } else {
        vec![stage(ReduceOp::Sum, "x0 * x0", rstd)]
    };
    let mut element = if centered { "(x0 - mean) * rstd" } else { "x0 * rstd" }.to_string();
    if norm.weight {
        element += " * w0";
    }
    if norm.bias {
        element = format!("({element}) + w{}", usize::from(norm.weight));
    }
    let auxiliary = if centered { vec!["mean", "rstd"] } else { vec!["rstd"] };
    Some(RowProgram { axis: Err(axes), stages, element, full: 1, auxiliary, numbers: vec![norm.eps as f32] })
}

/// Is there a row program for it, on these dtypes?
pub(crate) fn supports(composite: &dyn Composite, dtypes: &[DType]) -> bool {
    program(composite).is_some() && dtypes.iter().all(|d| matches!(d, DType::F32 | DType::F16 | DType::BF16))
}
/// Records a composite's step.
///
/// # Errors
/// Operands without memory; a text that cannot be compiled.
pub(crate) fn record<'a>(recorder: &mut Recorder<'a>, step: &Step<'a>, composite: &dyn Composite) -> Result<(), ErrorKind> {
    let gpu = recorder.gpu;
    let (Some(program), Some(x)) = (program(composite), step.inputs.first()) else { return Err(misshapen(composite.name())) };
    // Dense operands: an element of a row lies `inner` behind the one before it.
    let (count, inner) = match program.axis {
        Ok(axis) => (x.shape[axis], x.shape[axis + 1..].iter().product::<usize>()),
        Err(axes) => (x.shape[x.shape.rank() - axes..].iter().product(), 1),
    };
    let rows = x.shape.elements() / count.max(1);
    if rows == 0 || count == 0 {
        // Statistics of empty rows are what the body gives; rows of nothing have no elements to write.
        return empty(recorder, step, &program);
    }
    let shared = count >= 64;
    let mut bindings = Bindings::default();
    let mut parameters = vec![rows as u32, count as u32, inner as u32];
    let mut key = Key::new();
    key.push(shared as u8);
    let mut operands = Vec::new();
    for o in step.inputs {
        operands.push((bindings.bind(Place::Buffer(buffer(o)?), Access::Read), o.dtype));
    }
    for o in step.outputs {
        operands.push((bindings.bind(Place::Buffer(buffer(o)?), Bindings::to_store(o.dtype.size())), o.dtype));
    }
    key.extend(operands.iter().flat_map(|o| [o.0 as u8, o.1 as u8]));
    key.extend(bindings.access.iter().map(|a| *a as u8));
    parameters.extend(step.inputs.iter().chain(step.outputs).map(|o| o.offset as u32));
    parameters.extend(program.numbers.iter().map(|n| n.to_bits()));
    let pipeline = gpu.pipeline(step.kernel, &key, &bindings.access, || {
        let text = text(&program, &bindings, &operands, step.inputs.len(), shared);
        Ok(bindings.module(gpu.dialect(), &text))
    })?;
    if shared {
        recorder.launch_groups(pipeline, &bindings, &parameters, rows as u64);
    } else {
        recorder.launch(pipeline, &bindings, &parameters, rows as u64);
    }
    Ok(())
}
/// Statistics of rows without elements: the mean of nothing is no number.
fn empty<'a>(recorder: &mut Recorder<'a>, step: &Step<'a>, program: &RowProgram) -> Result<(), ErrorKind> {
    let gpu = recorder.gpu;
    for out in step.outputs.iter().skip(1).take(program.auxiliary.len()).filter(|o| o.shape.elements() > 0) {
        let mut bindings = Bindings::default();
        let target = bindings.bind(Place::Buffer(buffer(out)?), Bindings::to_store(out.dtype.size()));
        let key = Key::from_slice(&[0xFC, out.dtype as u8]);
        let pipeline = gpu.pipeline(step.kernel, &key, &bindings.access, || {
            let body = format!("let at: u32 = p[1u] + i;\n{}\n", bindings.store(target, out.dtype, "at", "adm_nan()"));
            Ok(bindings.module(gpu.dialect(), &per_element(&body)))
        })?;
        recorder.launch(pipeline, &bindings, &[out.shape.elements() as u32, out.offset as u32], out.shape.elements() as u64);
    }
    Ok(())
}
/// The module around a row program.
fn text(program: &RowProgram, bindings: &Bindings, operands: &[(usize, DType)], inputs: usize, shared: bool) -> String {
    let offset = |operand: usize| format!("p[{}u]", 3 + operand);
    // The inputs' elements at place k of the row; the first of a row is `start`.
    let elements = |named: &str| {
        let mut text = String::new();
        for (k, &(binding, dtype)) in operands[..program.full].iter().enumerate().filter(|(k, _)| named.contains(&format!("x{k}"))) {
            text += &format!("let ax{k}: u32 = {} + start + k * p[2u];\nlet x{k}: f32 = {};\n", offset(k), bindings.load(binding, dtype, &format!("ax{k}")));
        }
        for (k, &(binding, dtype)) in operands[program.full..inputs].iter().enumerate().filter(|(k, _)| named.contains(&format!("w{k}"))) {
            text += &format!("let aw{k}: u32 = {} + k;\nlet w{k}: f32 = {};\n", offset(program.full + k), bindings.load(binding, dtype, &format!("aw{k}")));
        }
        text
    };
    let numbers: String = (0..program.numbers.len()).map(|n| format!("let n{n}: f32 = bitcast<f32>(p[{}u]);\n", 3 + operands.len() + n)).collect();
    let (first, by) = if shared { ("lane", "256u") } else { ("0u", "1u") };
    let mut body = format!("let start: u32 = (i / p[2u]) * p[1u] * p[2u] + i % p[2u];\n{numbers}");
    for (s, stage) in program.stages.iter().enumerate() {
        let combine = Combine::new(stage.op, DType::F32);
        body += &format!(
            "var own{s}: f32 = {};\nfor (var k: u32 = {first}; k < p[1u]; k += {by}) {{\n{}own{s} = {};\n}}\n",
            combine.identity(),
            elements(stage.value),
            combine.of(&format!("own{s}"), &format!("({})", stage.value))
        );
        let total = if shared {
            body += &format!(
                "workgroupBarrier();
partial[lane] = own{s};
workgroupBarrier();
for (var half: u32 = 128u; half > 0u; half >>= 1u) {{
    if (lane < half) {{ partial[lane] = {}; }}
    workgroupBarrier();
}}
",
                combine.of("partial[lane]", "partial[lane + half]")
            );
            "partial[0]".to_string()
        } else {
            format!("own{s}")
        };
        body += &format!("let total{s}: f32 = {total};\n{}", stage.then.replace("total", &format!("total{s}")));
    }
    let (target, dtype) = operands[inputs];
    body += &format!(
        "for (var k: u32 = {first}; k < p[1u]; k += {by}) {{\n{}let y: f32 = {};\nlet ay: u32 = {} + start + k * p[2u];\n{}\n}}\n",
        elements(&program.element),
        narrowed(dtype, &program.element),
        offset(inputs),
        bindings.store(target, dtype, "ay", "y")
    );
    for (k, value) in program.auxiliary.iter().enumerate() {
        let (target, dtype) = operands[inputs + 1 + k];
        let store = format!("let as{k}: u32 = {} + i;\n{}\n", offset(inputs + 1 + k), bindings.store(target, dtype, &format!("as{k}"), value));
        body += &if shared { format!("if (lane == 0u) {{\n{store}}}\n") } else { store };
    }
    if !shared {
        return per_element(&body);
    }
    format!(
        "var<workgroup> partial: array<f32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
    let i: u32 = group.y * groups.x + group.x;
    if (i >= p[0u]) {{ return; }}
{body}}}
"
    )
}
