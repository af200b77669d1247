//! Layer, RMS, group and batch norm as row programs: a row is what one statistic is taken of. The cotangents of weight and
//! bias are sums over the other axis: of a batch norm those of the rows themselves, else a launch of their own.
use super::{Pass, RowProgram, RowsLayout, RowsWalk, all_floats, fill, launch};
use crate::{
    bindings::{Access, Bindings, Place},
    frame::per_element,
    launcher::{Array, Key, Launcher, Work, misshapen},
    skeleton::matmul::narrowed,
};
use adamant_ir::{
    Composite, DType, ErrorKind,
    composite::norm::{Norm, NormBackward, Over},
    op::ReduceOp::Sum,
};
use std::any::Any;

fn known(composite: &dyn Composite) -> Option<(Norm, bool)> {
    let any: &dyn Any = composite;
    any.downcast_ref::<Norm>().map(|n| (*n, false)).or_else(|| any.downcast_ref::<NormBackward>().map(|n| (n.0, true)))
}
/// Is it a norm or its backward, on these dtypes?
pub(crate) fn supports(composite: &dyn Composite, dtypes: &[DType]) -> bool {
    known(composite).is_some() && all_floats(dtypes)
}
fn centered(norm: &Norm) -> bool {
    !matches!(norm.over, Over::Rms { .. })
}
/// How a norm sees its input: the rows, and how many channels there are.
fn seen(norm: &Norm, x: &Array) -> (RowsLayout, usize) {
    let shape = x.shape;
    match norm.over {
        Over::Layer { axes } | Over::Rms { axes } => {
            let (outer, inner) = shape.split_at(shape.rank() - axes);
            let count = inner.iter().product();
            (RowsLayout { rows: outer.iter().product(), count, inner: 1, groups: 1, walk: RowsWalk::Line, is_fixed: true }, count)
        }
        Over::Group { groups } => {
            let inner = shape[2..].iter().product::<usize>();
            (RowsLayout { rows: shape[0] * groups, count: shape[1] / groups * inner, inner, groups, walk: RowsWalk::Group, is_fixed: false }, shape[1])
        }
        Over::Batch => {
            let inner = shape[2..].iter().product::<usize>();
            (RowsLayout { rows: shape[1], count: shape[0] * inner, inner, groups: 1, walk: RowsWalk::Channel, is_fixed: false }, shape[1])
        }
    }
}
/// Records a step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled.
pub(crate) fn record(launcher: &mut dyn Launcher, work: &Work<'_>, composite: &dyn Composite) -> Result<(), ErrorKind> {
    match known(composite) {
        Some((norm, false)) => forward(launcher, work, &norm),
        Some((norm, true)) => backward(launcher, work, &norm),
        None => Err(misshapen(composite.name())),
    }
}
fn forward(launcher: &mut dyn Launcher, work: &Work<'_>, norm: &Norm) -> Result<(), ErrorKind> {
    let ([x, params @ ..], [y, statistics @ ..]) = (work.inputs, work.outputs) else { return Err(misshapen("norm")) };
    let (rows, _) = seen(norm, x);
    if rows.count == 0 {
        // The mean of nothing is no number.
        return statistics.iter().filter(|o| o.shape.elements() > 0).try_for_each(|o| fill(launcher, o, "adm_nan()"));
    }
    let own = |value: &str, then: &str| Pass { sums: vec![(Sum, value.into())], then: then.into() };
    let rstd = |pass: usize| format!("let variance: f32 = t{pass}_0 / f32(p[1u]);\nlet rstd: f32 = 1.0 / sqrt(variance + bitcast<f32>(n0));\n");
    let passes = if centered(norm) {
        vec![own("x0", "let mean: f32 = t0_0 / f32(p[1u]);\n"), own("(x0 - mean) * (x0 - mean)", &rstd(1))]
    } else {
        vec![own("x0 * x0", &rstd(0))]
    };
    let mut element = if centered(norm) { "(x0 - mean) * rstd" } else { "x0 * rstd" }.to_string();
    if norm.weight {
        element += " * w0";
    }
    if norm.bias {
        element = format!("({element}) + w{}", usize::from(norm.weight));
    }
    let names: &[&str] = match norm.over {
        Over::Rms { .. } => &["rstd"],
        Over::Batch => &["mean", "variance"],
        Over::Layer { .. } | Over::Group { .. } => &["mean", "rstd"],
    };
    let mut program = RowProgram { full: vec![*x], features: params.to_vec(), numbers: vec![(norm.eps as f32).to_bits()], passes, ..RowProgram::default() };
    program.element = Some((*y, element));
    for (o, name) in statistics.iter().zip(names) {
        program.results.push(((*o, o.place()), name));
    }
    launch(launcher, &rows, &program).map(drop)
}
fn backward(launcher: &mut dyn Launcher, work: &Work<'_>, norm: &Norm) -> Result<(), ErrorKind> {
    let ([g, x, rest @ ..], [dx, params @ ..]) = (work.inputs, work.outputs) else { return Err(misshapen("norm")) };
    let (weight, statistics) = rest.split_at(usize::from(norm.weight));
    let (rows, channels) = seen(norm, x);
    let of_channels = norm.over == Over::Batch;
    if !of_channels && !params.is_empty() {
        sums(launcher, work, norm, &rows, channels)?;
    }
    if x.shape.elements() == 0 {
        let own = if of_channels { params } else { &[] };
        return own.iter().filter(|o| o.shape.elements() > 0).try_for_each(|o| fill(launcher, o, "0.0"));
    }
    let (rstd, hat) = normalised(norm, "x1");
    let weighted = if norm.weight { "x0 * w0" } else { "x0" };
    let mut pass = Pass { sums: vec![(Sum, format!("({weighted}) * ({hat})"))], then: "let along: f32 = t1_0 / f32(p[1u]);\n".into() };
    let mut element = format!("({weighted}) - ({hat}) * along");
    if centered(norm) {
        pass.sums.push((Sum, weighted.into()));
        pass.then += "let shift: f32 = t1_1 / f32(p[1u]);\n";
        element = format!("({element}) - shift");
    }
    let mut results = Vec::new();
    if of_channels {
        pass.sums.extend([(Sum, format!("x0 * ({hat})")), (Sum, "x0".into())]);
        let names = if norm.weight { ["t1_2", "t1_3"] } else { ["t1_3", ""] };
        for (o, name) in params.iter().zip(names) {
            results.push(((*o, o.place()), name));
        }
    }
    let program = RowProgram {
        full: vec![*g, *x],
        features: weight.to_vec(),
        of_row: statistics.to_vec(),
        numbers: vec![(norm.eps as f32).to_bits()],
        passes: vec![Pass { sums: Vec::new(), then: rstd }, pass],
        element: Some((*dx, format!("({element}) * rstd"))),
        results,
        bound: None,
    };
    launch(launcher, &rows, &program).map(drop)
}
/// The statement that names `rstd`, and the normalised element, from the statistics `s0` and `s1`.
fn normalised(norm: &Norm, x: &str) -> (String, String) {
    let scale = if centered(norm) { "s1" } else { "s0" };
    let rstd = if norm.over == Over::Batch { format!("1.0 / sqrt({scale} + bitcast<f32>(n0))") } else { scale.into() };
    let hat = if centered(norm) { format!("({x} - s0) * rstd") } else { format!("{x} * rstd") };
    (format!("let rstd: f32 = {rstd};\n"), hat)
}
/// The cotangents of weight and bias of layer, RMS and group norms: for each feature the sums of g x̂ and of g over all
/// samples, in pieces of fixed lengths that a second launch adds in order. One piece takes the same way, so that a batch
/// of another size compiles nothing.
fn sums(launcher: &mut dyn Launcher, work: &Work<'_>, norm: &Norm, rows: &RowsLayout, channels: usize) -> Result<(), ErrorKind> {
    let (inputs, outputs) = (work.inputs, &work.outputs[1..]);
    if channels == 0 {
        return Ok(());
    }
    let count = inputs[1].shape.elements() / channels;
    let pieces = (8192 / channels).clamp(1, count.div_ceil(32).max(1)).max(count.div_ceil(4096));
    let length = count.div_ceil(pieces).max(1);
    let pieces = count.div_ceil(length).max(1);
    let plain = rows.walk == RowsWalk::Line;
    let mut parameters = vec![
        (channels * pieces) as u32,
        channels as u32,
        count as u32,
        length as u32,
        rows.inner as u32,
        rows.groups as u32,
        (channels / rows.groups).max(1) as u32,
    ];
    let mut bindings = Bindings::new(launcher.target().dialect);
    let mut operands = Vec::new();
    let statistics = &inputs[2 + usize::from(norm.weight)..];
    for o in inputs[..2].iter().chain(statistics) {
        operands.push((bindings.bind(o.place(), Access::Read), o.dtype, parameters.len()));
        parameters.push(o.offset as u32);
    }
    let store = |bindings: &Bindings, targets: &[(usize, DType, usize)]| -> String {
        let names = if norm.weight { ["total.x", "total.y"] } else { ["total.y", ""] };
        let one = |(n, (&(target, dtype, offset), name)): (usize, (&(usize, DType, usize), &str))| {
            format!("let at{n}: u32 = p[{offset}u] + i;\n{}\n", bindings.store(target, dtype, &format!("at{n}"), &narrowed(dtype, name)))
        };
        targets.iter().zip(names).enumerate().map(one).collect()
    };
    let total = "let o: u32 = i % p[1u];
let begin: u32 = (i / p[1u]) * p[3u];
let end: u32 = min(begin + p[3u], p[2u]);
var total: vec2<f32> = vec2<f32>(0.0, 0.0);
for (var r: u32 = begin; r < end; r++) { let v: vec2<f32> = value(o, r); total.x += v.x; total.y += v.y; }
";
    launcher.scratch((2 * channels * pieces) as u64)?;
    let scratch = bindings.bind(Place::Scratch, Access::Write);
    let mut key = Key::from_slice(&[0xFB, plain as u8]);
    key.extend(operands.iter().flat_map(|o| [o.0 as u8, o.1 as u8]));
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let [place, row] = if plain { ["r * p[1u] + o", "r"] } else { ["((r / p[4u]) * p[1u] + o) * p[4u] + r % p[4u]", "(r / p[4u]) * p[5u] + o / p[6u]"] };
        let mut value = format!("let place: u32 = {place};\nlet row: u32 = {row};\n");
        for (name, at, &(binding, dtype, offset)) in
            ["x0", "x1", "s0", "s1"].iter().zip(["place", "place", "row", "row"]).zip(&operands).map(|((name, at), o)| (name, at, o))
        {
            value += &format!("let a{name}: u32 = p[{offset}u] + {at};\nlet {name}: f32 = {};\n", bindings.load(binding, dtype, &format!("a{name}")));
        }
        let (rstd, hat) = normalised(norm, "x1");
        let function = format!("fn value(o: u32, r: u32) -> vec2<f32> {{\n{value}{rstd}return vec2<f32>(x0 * ({hat}), x0);\n}}\n");
        let store = format!(
            "let low: u32 = 2u * i;\nlet high: u32 = low + 1u;\n{}\n{}\n",
            bindings.store(scratch, DType::F32, "low", "total.x"),
            bindings.store(scratch, DType::F32, "high", "total.y")
        );
        per_element(&bindings, &function, &format!("{total}{store}"))
    })?;
    launcher.launch(pipeline, &bindings, &parameters, (channels * pieces) as u64);
    let mut bindings = Bindings::new(launcher.target().dialect);
    let partial = bindings.bind(Place::Scratch, Access::Read);
    let mut parameters = vec![channels as u32, channels as u32, pieces as u32, pieces as u32];
    let mut own: Vec<(usize, DType, usize)> = Vec::new();
    for o in outputs {
        own.push((bindings.bind(o.place(), Bindings::to_store(o.dtype.size())), o.dtype, parameters.len()));
        parameters.push(o.offset as u32);
    }
    let mut key = Key::from_slice(&[0xFA]);
    key.extend(own.iter().flat_map(|o| [o.0 as u8, o.1 as u8]));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let function = format!(
            "fn value(o: u32, r: u32) -> vec2<f32> {{\nlet low: u32 = 2u * (r * p[1u] + o);\nlet high: u32 = low + 1u;\nreturn vec2<f32>({}, {});\n}}\n",
            bindings.load(partial, DType::F32, "low"),
            bindings.load(partial, DType::F32, "high")
        );
        per_element(&bindings, &function, &format!("{total}{}", store(&bindings, &own)))
    })?;
    launcher.launch(pipeline, &bindings, &parameters, channels as u64);
    Ok(())
}
