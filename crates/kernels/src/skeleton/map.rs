//! Map: a program over an index space, one launch whatever it fuses, unless it has more buffers than the adapter binds.
//! Equal Maps that follow each other share a launch.
pub(crate) mod merged;
mod split;

use crate::{
    bindings::{Bindings, Place},
    dense::{Dense, TakenInputs},
    frame::KernelFrame,
    launcher::{Array, Key, Launcher, Work},
    nest::AxisGroup,
    program::{Program, axes},
};
use adamant_ir::{
    ErrorKind,
    expr::{Expr, Reg},
};

/// Records a Map step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled.
pub(crate) fn record(launcher: &mut dyn Launcher, work: &Work<'_>, expr: &Expr, results: &[Reg]) -> Result<(), ErrorKind> {
    let outputs: Vec<(Array, Place)> = work.outputs.iter().map(|o| (*o, o.place())).collect();
    // The parameters and the reports are buffers too.
    if work.inputs.len() + outputs.len() + 2 > launcher.target().buffers {
        return split::record(launcher, work, expr, results, &outputs);
    }
    launch(launcher, work, expr, results, &outputs, 0)
}
/// One launch of a program, whose outputs may lie elsewhere than the step's. `part` tells the launches of a step apart.
fn launch(launcher: &mut dyn Launcher, work: &Work<'_>, expr: &Expr, results: &[Reg], outputs: &[(Array, Place)], part: u8) -> Result<(), ErrorKind> {
    let mut bindings = Bindings::new(launcher.target().dialect);
    let mut program = Program::new(&mut bindings, expr, work);
    let mut dense = Dense::new(&mut bindings, outputs);
    let mut nest = launcher.nest(part, &bindings, &work.space, [&axes(&work.space), &[]], &program.operands(work))?;

    dense.widen(launcher.target().dialect, work.inputs, &nest);
    let mut parameters = Vec::new();
    let report = program.report(launcher);
    dense.place(&mut parameters, report);
    program.place(&mut bindings, &mut parameters, work);
    nest.place(&mut parameters);
    let mut key = Key::new();
    key.push(part);
    program.describe(&mut key);
    dense.describe(&mut key);
    nest.describe(&mut key);
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let body = |taken: &TakenInputs<'_>| Ok(nest.coordinates(AxisGroup::Outer, "i") + &program.body_of(&bindings, &nest, "i", taken)?);
        let bits: Vec<String> = results.iter().map(|&r| program.bits(&bindings, r)).collect();
        let unit = dense.unit_of(&bindings, &program, &nest, &body, &bits)?;
        KernelFrame::alone(&bindings, "", format!("    let unit: u32 = (group.y * groups.x + group.x) * 256u + lane;\n{unit}")).text()
    })?;
    launcher.launch(pipeline, &bindings, &parameters, dense.units());
    Ok(())
}
