//! Map: a program over an index space, one launch whatever it fuses, unless it has more buffers than the adapter binds.
//! Equal Maps that follow each other share a launch.
pub(crate) mod merged;
mod split;

use crate::{
    bindings::{Bindings, Place},
    frame::Frame,
    launch::{Recorder, buffer},
    nest::Group,
    pipeline::Key,
    program::{Program, axes},
};
use adamant_runtime::{
    ErrorKind,
    expr::{Expr, Reg},
    kernel::{FaultWord, Operand, Step},
};

/// Records a Map step.
///
/// # Errors
/// Operands without memory; a text that cannot be compiled.
pub(crate) fn record<'a>(recorder: &mut Recorder<'a>, step: &Step<'a>, expr: &Expr, results: &[Reg]) -> Result<(), ErrorKind> {
    let outputs = step.outputs.iter().map(|o| Ok((*o, Place::Buffer(buffer(o)?)))).collect::<Result<Vec<_>, ErrorKind>>()?;
    // The parameters and the reports are buffers too.
    if step.inputs.len() + outputs.len() + 2 > recorder.gpu.limits.max_storage_buffers_per_shader_stage as usize {
        return split::record(recorder, step, expr, results, &outputs);
    }
    launch(recorder, step, step.fault, expr, results, &outputs, 0)
}
/// One launch of a program, whose outputs may lie elsewhere than the step's. `part` tells the launches of a step apart.
fn launch<'a>(
    recorder: &mut Recorder<'a>,
    step: &Step<'_>,
    fault: &'a FaultWord,
    expr: &Expr,
    results: &[Reg],
    outputs: &[(Operand<'_>, Place)],
    part: u8,
) -> Result<(), ErrorKind> {
    let mut bindings = Bindings::default();
    let mut program = Program::new(&mut bindings, expr, step)?;
    let mut frame = Frame::new(&mut bindings, outputs);
    let mut nest = recorder.gpu.nest(step.kernel, part, &bindings, &step.space, [&axes(&step.space), &[]], &program.operands(step))?;

    let mut parameters = Vec::new();
    let report = program.report(recorder, fault);
    frame.place(&mut parameters, report);
    program.place(&mut parameters, step);
    nest.place(&mut parameters);
    let mut key = Key::new();
    key.push(part);
    program.describe(&mut key);
    frame.describe(&mut key);
    nest.describe(&mut key);
    key.extend(bindings.access.iter().map(|a| *a as u8));

    let gpu = recorder.gpu;
    let pipeline = gpu.pipeline(step.kernel, &key, &bindings.access, || {
        let body = nest.coordinates(Group::Outer, "i") + &program.body(gpu, &bindings, &nest, "i")?;
        let bits: Vec<String> = results.iter().map(|&r| program.bits(r)).collect();
        Ok(bindings.module(gpu.dialect(), &frame.main(&bindings, &body, &bits)))
    })?;
    recorder.launch(pipeline, &bindings, &parameters, frame.units());
    Ok(())
}
