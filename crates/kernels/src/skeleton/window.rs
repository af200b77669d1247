//! Window: pooling over the trailing axes, an invocation for each output.
use super::computes_first;
use crate::{
    bindings::{Access, Bindings, Place},
    combine::Combine,
    dense::Dense,
    launcher::{Array, Key, Launcher, Target, Work, misshapen},
};
use adamant_ir::{
    DType, ErrorKind,
    op::{ReduceOp, WindowOp, WindowSpec},
};

/// Is there arithmetic for it?
pub(super) fn supports(_: &WindowSpec, target: &Target, dtypes: &[DType]) -> bool {
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
    let mut parameters = Vec::new();
    dense.place(&mut parameters, 0);
    let base = parameters.len();
    parameters.push(x.offset as u32);
    for a in 0..axes {
        let sizes = [x.shape[lead + a], out.shape[lead + a], spec.size[a], spec.stride[a], spec.dilation[a], spec.padding[a].0];
        parameters.extend(sizes.map(|v| v as u32));
    }
    let mut key = Key::new();
    key.extend([x.dtype as u8, out.dtype as u8, source as u8]);
    dense.describe(&mut key);
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let of = |axis: usize, what: usize| format!("p[{}u]", base + 1 + axis * 6 + what);
        let combine = Combine::new(if spec.op == WindowOp::Max { ReduceOp::Max } else { ReduceOp::Sum }, x.dtype);
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
            walk += &format!("for (var k{a}: u32 = 0u; k{a} < {}; k{a}++) {{\n{own}if ({inside}) {{ continue; }}\n", of(a, 2));
            flat = format!("({flat} * {} + f{a})", of(a, 0));
        }
        let plane = (0..axes).fold("1u".to_string(), |n, a| format!("{n} * {}", of(a, 0)));
        let end = "}\n".repeat(axes);
        let value = combine.widen(x.dtype, &bindings.load(source, x.dtype, "at"));
        let read = format!("let flat: u32 = {flat};\nlet at: u32 = p[{base}u] + rest * ({plane}) + flat;\nlet v: {t} = {value};\n");
        let (body, bits) = if spec.op == WindowOp::Max {
            let beats = if combine.dtype.is_float() { "!adm_isnan(total) && (adm_isnan(v) || v > total)" } else { "v > total" };
            // Windows of padding alone: the smallest float, or zero.
            let empty = if combine.dtype.is_float() { combine.identity().to_string() } else { format!("{t}(0)") };
            let body = format!(
                "{places}var total: {t} = {empty};
var winner: u32 = 0u;
var found: bool = false;
{walk}{read}if (!found || ({beats})) {{ total = v; winner = flat; found = true; }}
{end}"
            );
            (body, vec![bindings.bits_of(out.dtype, &combine.narrow(out.dtype, "total")), "vec2<u32>(winner, 0u)".to_string()])
        } else {
            let body = format!("{places}var total: {t} = {};\n{walk}{read}total = {};\n{end}", combine.identity(), combine.of("total", "v"));
            (body, vec![bindings.bits_of(out.dtype, &combine.narrow(out.dtype, "total"))])
        };
        dense.text(&bindings, "", &body, &bits)
    })?;
    launcher.launch(pipeline, &bindings, &parameters, dense.units());
    Ok(())
}
