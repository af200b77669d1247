//! Copy: elements moved between two layouts, bits as they are.
use crate::{
    bindings::{Access, Bindings},
    dense::Dense,
    frame::per_element,
    launcher::{Array, Key, Launcher, Work, misshapen},
    nest::AxisGroup,
    program::axes,
};
use adamant_ir::ErrorKind;

/// Records a Copy step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled.
pub(crate) fn record(launcher: &mut dyn Launcher, work: &Work<'_>) -> Result<(), ErrorKind> {
    let ([from], [to]) = (work.inputs, work.outputs) else { return Err(misshapen("copy")) };
    // Elements that share words are written word by word where they lie in one piece, which a place in a larger tensor may
    // or may not do, as its sizes are.
    let in_words = from.dtype.size() < 4 && launcher.target().dialect.packs();
    if in_words {
        launcher.warm_up(&mut |other| [true, false].into_iter().try_for_each(|dense| launch(other, work, from, &Array { dense, ..*to })))?;
    }
    launch(launcher, work, from, &Array { dense: in_words && to.dense, ..*to })
}
fn launch(launcher: &mut dyn Launcher, work: &Work<'_>, from: &Array, to: &Array) -> Result<(), ErrorKind> {
    let size = from.dtype.size();
    let mut bindings = Bindings::new(launcher.target().dialect);
    let source = bindings.bind(from.place(), Access::Read);
    let (mut parameters, mut key) = (Vec::new(), Key::new());
    key.push(size as u8);
    if to.dense {
        let mut dense = Dense::new(&mut bindings, &[(*to, to.place())]);
        let mut nest = launcher.nest(0, &bindings, &work.space, [&axes(&work.space), &[]], &[from.layout()])?;
        dense.place(&mut parameters, 0);
        nest.place(&mut parameters);
        dense.describe(&mut key);
        nest.describe(&mut key);
        key.extend(bindings.access.iter().map(|a| *a as u8));
        let pipeline = launcher.compile(&key, &bindings, &mut || {
            let body = format!("{}let a0: u32 = {};\n", nest.coordinates(AxisGroup::Outer, "i"), nest.at(0, "i"));
            dense.text(&bindings, "", &body, &[bindings.bits(source, size, "a0")])
        })?;
        launcher.launch(pipeline, &bindings, &parameters, dense.units());
        return Ok(());
    }
    let target = bindings.bind(to.place(), Bindings::to_store(size));
    let mut nest = launcher.nest(1, &bindings, &work.space, [&axes(&work.space), &[]], &[from.layout(), to.layout()])?;
    parameters.push(work.space.elements() as u32);
    nest.place(&mut parameters);
    nest.describe(&mut key);
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let body = format!(
            "{}let a0: u32 = {};\nlet a1: u32 = {};\n{}\n",
            nest.coordinates(AxisGroup::Outer, "i"),
            nest.at(0, "i"),
            nest.at(1, "i"),
            bindings.set_bits(target, size, "a1", &bindings.bits(source, size, "a0"))
        );
        per_element(&bindings, "", &body)
    })?;
    launcher.launch(pipeline, &bindings, &parameters, work.space.elements() as u64);
    Ok(())
}
