//! A Map with more buffers than an adapter binds at once: one launch for each output, of only what that output needs. An
//! output that takes an input's place waits in scratch until nobody reads the input any more.
use super::launch;
use crate::{
    bindings::{Access, Bindings, Place},
    dense::Dense,
    launcher::{Array, Key, Launcher, Work},
};
use adamant_ir::{
    ErrorKind,
    expr::{Expr, Instr, Reg},
};

/// Records the step launch by launch.
///
/// # Errors
/// As a whole Map; more scratch than there is.
pub(super) fn record(launcher: &mut dyn Launcher, work: &Work<'_>, expr: &Expr, results: &[Reg], outputs: &[(Array, Place)]) -> Result<(), ErrorKind> {
    let read: Vec<Place> = work.inputs.iter().map(Array::place).collect();
    let mut waiting = Vec::new();
    let mut words = 0;
    for (k, (&result, (out, place))) in results.iter().zip(outputs).enumerate() {
        let (own, root, loads) = part(expr, result);
        let inputs: Vec<Array> = loads.iter().map(|&l| work.inputs[l as usize]).collect();
        let narrow = Work { space: work.space, inputs: &inputs, outputs: &[], args: work.args };
        let target = if read.contains(place) {
            let region = Array { offset: words * 4 / out.dtype.size(), ..*out };
            words += (out.shape.elements() * out.dtype.size()).div_ceil(4);
            waiting.push((region, out, *place));
            (region, Place::Scratch)
        } else {
            (*out, *place)
        };
        launch(launcher, &narrow, &own, &[root], &[target], 1 + k as u8)?;
    }
    launcher.scratch(words as u64)?;
    for (region, out, place) in waiting {
        bring(launcher, &region, out, place)?;
    }
    Ok(())
}
/// The instructions that a register depends on, itself last, with the inputs they load renumbered.
fn part(expr: &Expr, root: Reg) -> (Expr, Reg, Vec<u16>) {
    let mut needed = vec![false; expr.instrs.len()];
    needed[root as usize] = true;
    for k in (0..=root as usize).rev().filter(|k| expr.instrs.get(*k).is_some()) {
        if needed[k] {
            operands(&expr.instrs[k]).into_iter().flatten().for_each(|r| needed[r as usize] = true);
        }
    }
    let (mut own, mut at, mut loads) = (Expr::default(), vec![0; expr.instrs.len()], Vec::new());
    for k in (0..expr.instrs.len()).filter(|k| needed[*k]) {
        let r = |r: Reg| at[r as usize];
        let mut load = |input: u16| {
            let known = loads.iter().position(|l| *l == input);
            known.unwrap_or_else(|| {
                loads.push(input);
                loads.len() - 1
            }) as u16
        };
        let instr = match expr.instrs[k] {
            Instr::Load(input) => Instr::Load(load(input)),
            Instr::Random(input) => Instr::Random(load(input)),
            Instr::Unary(f, x) => Instr::Unary(f, r(x)),
            Instr::Binary(f, x, y) => Instr::Binary(f, r(x), r(y)),
            Instr::Select(c, x, y) => Instr::Select(r(c), r(x), r(y)),
            Instr::Cast(x) => Instr::Cast(r(x)),
            Instr::Bitcast(x) => Instr::Bitcast(r(x)),
            other => other,
        };
        at[k] = own.push(instr, expr.dtypes[k]);
    }
    let root = at[root as usize];
    (own, root, loads)
}
fn operands(instr: &Instr) -> [Option<Reg>; 3] {
    match *instr {
        Instr::Unary(_, x) | Instr::Cast(x) | Instr::Bitcast(x) => [Some(x), None, None],
        Instr::Binary(_, x, y) => [Some(x), Some(y), None],
        Instr::Select(c, x, y) => [Some(c), Some(x), Some(y)],
        _ => [None; 3],
    }
}
/// Moves an output from scratch to where it belongs.
fn bring(launcher: &mut dyn Launcher, region: &Array, out: &Array, place: Place) -> Result<(), ErrorKind> {
    let size = out.dtype.size();
    let mut bindings = Bindings::new(launcher.target().dialect);
    let source = bindings.bind(Place::Scratch, Access::Read);
    let mut dense = Dense::new(&mut bindings, &[(*out, place)]);
    let mut parameters = Vec::new();
    dense.place(&mut parameters, 0);
    let own = parameters.len();
    parameters.push(region.offset as u32);
    let mut key = Key::from_slice(&[0xFA, size as u8]);
    dense.describe(&mut key);
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let body = format!("let a0: u32 = p[{own}u] + i;\n");
        dense.text(&bindings, "", &body, &[bindings.bits(source, size, "a0")])
    })?;
    launcher.launch(pipeline, &bindings, &parameters, dense.units());
    Ok(())
}
