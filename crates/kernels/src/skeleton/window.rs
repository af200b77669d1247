//! Window: pooling over the trailing axes, an invocation for each output. A huge window is walked by several launches, one after the
//! other, and what was found so far waits in scratch between them.
use super::{
    boxes::{boxes, rounds},
    computes_first,
};
use crate::{
    bindings::{Access, Bindings, Place},
    combine::Combine,
    dense::Dense,
    frame::ROUNDS,
    launcher::{Array, Key, LaunchTarget, Launcher, Work, misshapen},
};
use adamant_ir::{
    DType, ErrorKind,
    op::{ReduceOp, WindowOp, WindowSpec},
};

/// Is there arithmetic for it?
pub(super) fn supports(_: &WindowSpec, target: &LaunchTarget, dtypes: &[DType]) -> bool {
    computes_first(target, dtypes)
}
/// Records a Window step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled.
pub(super) fn record(spec: &WindowSpec, launcher: &mut dyn Launcher, work: &Work<'_>) -> Result<(), ErrorKind> {
    let ([x], [out, ..]) = (work.inputs, work.outputs) else { return Err(misshapen("window")) };
    let axes = spec.size.len();
    let lead = x.shape.rank() - axes;
    let mut bindings = Bindings::new(launcher.target().dialect);
    let source = bindings.bind(x.place(), Access::Read);
    let outputs: Vec<(Array, Place)> = work.outputs.iter().map(|o| (*o, o.place())).collect();
    let mut dense = Dense::new(&mut bindings, &outputs);
    // An invocation may walk the windows of several results.
    let is_long = rounds(&spec.size) * dense.each() as usize > ROUNDS;
    let (combine, results) = (Combine::new(if spec.op == WindowOp::Max { ReduceOp::Max } else { ReduceOp::Sum }, x.dtype), out.shape.elements());
    let words = combine.dtype.size() / 4;
    let waits = if is_long {
        launcher.scratch((results * (words + 1)) as u64)?;
        Some(bindings.bind(Place::Scratch, Access::Write))
    } else {
        None
    };
    let mut parameters = Vec::new();
    dense.place(&mut parameters, 0);
    let base = parameters.len();
    parameters.push(x.offset as u32);
    for a in 0..axes {
        let sizes = [x.shape[lead + a], out.shape[lead + a], spec.size[a], spec.stride[a], spec.dilation[a], spec.padding[a].0];
        parameters.extend(sizes.map(|v| v as u32));
    }
    // Where winners wait, whether the window is walked on, and its places from and to for each axis.
    let box_at = parameters.len();
    parameters.extend([(results * words) as u32, 0]);
    parameters.extend(spec.size.iter().flat_map(|&n| [0, n as u32]));
    let mut key = Key::new();
    key.extend([x.dtype as u8, out.dtype as u8, source as u8, is_long as u8]);
    dense.describe(&mut key);
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let of = |axis: usize, what: usize| format!("p[{}u]", base + 1 + axis * 6 + what);
        let t = combine.type_name();
        let mut places = "var rest: u32 = i;\n".to_string();
        for a in (0..axes).rev() {
            places += &format!("let o{a}: u32 = rest % {0}; rest = rest / {0};\n", of(a, 1));
        }
        // The place that is read for window place k; what lies before the beginning wraps to a large number.
        let mut walk = String::new();
        let mut flat = "0u".to_string();
        for a in 0..axes {
            let (own, inside) = match spec.op {
                WindowOp::SumTransposed => (
                    format!("let t{a}: u32 = o{a} + {} - k{a} * {};\nlet f{a}: u32 = t{a} / {};\n", of(a, 5), of(a, 4), of(a, 3)),
                    format!("t{a} >= 0x80000000u || t{a} % {} != 0u || f{a} >= {}", of(a, 3), of(a, 0)),
                ),
                _ => (format!("let f{a}: u32 = o{a} * {} + k{a} * {} - {};\n", of(a, 3), of(a, 4), of(a, 5)), format!("f{a} >= {}", of(a, 0))),
            };
            let [from, to] = [2, 3].map(|k| format!("p[{}u]", box_at + k + 2 * a));
            walk += &format!("for (var k{a}: u32 = {from}; k{a} < {to}; k{a}++) {{\n{own}if ({inside}) {{ continue; }}\n");
            flat = format!("({flat} * {} + f{a})", of(a, 0));
        }
        let plane = (0..axes).fold("1u".to_string(), |n, a| format!("{n} * {}", of(a, 0)));
        let end = "}\n".repeat(axes);
        let value = combine.widen(x.dtype, &bindings.load(source, x.dtype, "at"));
        let read = format!("let flat: u32 = {flat};\nlet at: u32 = p[{base}u] + rest * ({plane}) + flat;\nlet v: {t} = {value};\n");
        let number = format!("let winner_at: u32 = p[{box_at}u] + i;\n");
        let (taken, kept) = match waits {
            None => (String::new(), String::new()),
            Some(waits) => {
                let (load, store) = (bindings.load(waits, combine.dtype, "i"), bindings.store(waits, combine.dtype, "i", "total"));
                let (mut taken, mut kept) = (format!("total = {load};\n"), format!("{store}\n"));
                if spec.op == WindowOp::Max {
                    let held = bindings.word(waits, "winner_at");
                    // One more than the winner, or zero of none.
                    taken += &format!("{number}let held: u32 = {held};\nfound = held > 0u;\nwinner = select(0u, held - 1u, found);\n");
                    kept += &format!("{number}{}\n", bindings.set_word(waits, "winner_at", "select(0u, winner + 1u, found)"));
                }
                (format!("if (p[{}u] == 1u) {{\n{taken}}}\n", box_at + 1), format!("{{\n{kept}}}\n"))
            }
        };
        let (body, bits) = if spec.op == WindowOp::Max {
            let beats = if combine.dtype.is_float() { "!adm_isnan(total) && (adm_isnan(v) || v > total)" } else { "v > total" };
            // Windows of padding alone: the smallest float, or zero.
            let empty = if combine.dtype.is_float() { combine.identity().to_string() } else { format!("{t}(0)") };
            let body = format!(
                "{places}var total: {t} = {empty};
var winner: u32 = 0u;
var found: bool = false;
{taken}{walk}{read}if (!found || ({beats})) {{ total = v; winner = flat; found = true; }}
{end}{kept}"
            );
            (body, vec![bindings.bits_of(out.dtype, &combine.narrow(out.dtype, "total")), "vec2<u32>(winner, 0u)".to_string()])
        } else {
            let body = format!("{places}var total: {t} = {};\n{taken}{walk}{read}total = {};\n{end}{kept}", combine.identity(), combine.of("total", "v"));
            (body, vec![bindings.bits_of(out.dtype, &combine.narrow(out.dtype, "total"))])
        };
        dense.text(&bindings, "", &body, &bits)
    })?;
    let all = if is_long { boxes(&spec.size, ROUNDS / dense.each() as usize) } else { vec![parameters[box_at + 2..].to_vec()] };
    for (k, of) in all.iter().enumerate() {
        parameters[box_at + 1] = u32::from(k > 0);
        parameters[box_at + 2..].copy_from_slice(of);
        launcher.launch(pipeline, &bindings, &parameters, dense.units());
    }
    Ok(())
}
