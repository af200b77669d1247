//! Cross entropy of class indices: a row program gives each row's loss and its weight, and a workgroup adds them up. The
//! backward is a map of the logits and the two numbers that the forward kept of each row. Targets that are
//! probabilities run as the body.
use super::{Pass, RowProgram, RowsLayout, all_floats, launch, pass};
use crate::{
    bindings::{Access, Bindings, Place},
    dense::Dense,
    frame::{GROUP, KernelFrame, Numbering, SharedArray},
    launcher::{Array, Key, Launcher, Work, misshapen},
    skeleton::{
        gather::{INDEX_OF, index_words, look_up},
        matmul::narrowed,
    },
};
use adamant_ir::{
    Composite, DType, ErrorKind,
    composite::loss::{CrossEntropy, CrossEntropyBackward, Reduction},
    op::ReduceOp::{Max, Sum},
};
use std::any::Any;

fn known(composite: &dyn Composite) -> Option<(CrossEntropy, bool)> {
    let any: &dyn Any = composite;
    any.downcast_ref::<CrossEntropy>().map(|c| (*c, false)).or_else(|| any.downcast_ref::<CrossEntropyBackward>().map(|c| (c.0, true)))
}
/// Is it a cross entropy of class indices or its backward, on these dtypes?
pub(crate) fn supports(composite: &dyn Composite, dtypes: &[DType]) -> bool {
    known(composite).is_some_and(|(c, backward)| {
        let target = 1 + usize::from(backward);
        !c.probabilities && dtypes.len() > target && all_floats(&dtypes[..target]) && all_floats(&dtypes[target + 1..])
    })
}
/// Records a step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled; more scratch than there is.
pub(crate) fn record(launcher: &mut dyn Launcher, work: &Work<'_>, composite: &dyn Composite) -> Result<(), ErrorKind> {
    match known(composite) {
        Some((loss, false)) => forward(launcher, work, &loss),
        Some((loss, true)) => backward(launcher, work, &loss),
        None => Err(misshapen(composite.name())),
    }
}
/// The class axis of logits.
fn rows(x: &Array) -> RowsLayout {
    RowsLayout::along(x, usize::from(x.shape.rank() > 1))
}
/// The ignored index, the target's share and every class's, as `n0` to `n3`.
fn numbers(loss: &CrossEntropy, classes: usize) -> Vec<u32> {
    let share = |v: f64| (v as f32).to_bits();
    let smoothing = loss.label_smoothing;
    vec![loss.ignore_index as u32, (loss.ignore_index >> 32) as u32, share(1.0 - smoothing), share(smoothing / classes.max(1) as f64)]
}
/// Statements that name a target's class: 0 where it is ignored or bad.
const CLASS: &str = "let ignored: bool = s0.x == n0 && s0.y == n1;
let is_bad: bool = !ignored && (s0.y != 0u || s0.x >= classes);
let chosen: u32 = select(s0.x, 0u, ignored || is_bad);
";

fn forward(launcher: &mut dyn Launcher, work: &Work<'_>, loss: &CrossEntropy) -> Result<(), ErrorKind> {
    let ([x, target, weights @ ..], [out, statistics @ ..]) = (work.inputs, work.outputs) else { return Err(misshapen("cross entropy")) };
    let rows = rows(x);
    let mut passes = vec![pass([(Max, "x0")], "let largest: f32 = t0_0;\n")];
    passes.push(pass([(Sum, "adm_exp(x0 - largest)")], "let log_sum: f32 = adm_log(t1_0);\n"));
    let smoothed = loss.label_smoothing > 0.0;
    let times_weight = |of: &str| if loss.weight { format!(" * w0{of}") } else { String::new() };
    if smoothed {
        passes.push(Pass { sums: vec![(Sum, format!("((x0 - largest) - log_sum){}", times_weight("")))], then: String::new() });
    }
    let spread = if smoothed { "each = each - t2_0 * bitcast<f32>(n3);\n" } else { "" };
    // A bad index reads zero, as a gather does.
    let then = format!(
        "let classes: u32 = p[1u];
{CLASS}var each: f32 = 0.0;
var share: f32 = {};
if (!is_bad && p[1u] > 0u) {{
    each = ((x0_of(i, chosen) - largest) - log_sum){w};
    share = share{w};
}}
each = each * -bitcast<f32>(n2);
{spread}each = select(each, 0.0, ignored);
let of_row0: f32 = select(largest, 0.0, ignored);
let of_row1: f32 = select(log_sum, 0.0, ignored);
",
        if loss.weight { "select(select(1.0, 0.0, ignored), 0.0, is_bad)" } else { "select(1.0, 0.0, ignored)" },
        w = times_weight("_of(i, chosen)")
    );
    passes.push(Pass { sums: Vec::new(), then });
    let mut program =
        RowProgram { full: vec![*x], features: weights.to_vec(), of_row: vec![*target], numbers: numbers(loss, rows.count), passes, ..RowProgram::default() };
    program.bound = Some(rows.count);
    // In scratch the losses of the rows lie before their weights.
    let own = |offset: usize| (Array { offset, dtype: DType::F32, ..*out }, Place::Scratch);
    if loss.reduction == Reduction::None {
        program.results.push(((*out, out.place()), "each"));
    } else {
        launcher.scratch(2 * rows.rows as u64)?;
        program.results.extend([(own(0), "each"), (own(rows.rows), "share")]);
    }
    for (o, name) in statistics.iter().zip(["of_row0", "of_row1"]) {
        program.results.push(((*o, o.place()), name));
    }
    let report = launch(launcher, &rows, &program)?;
    if loss.reduction != Reduction::None {
        let mut bindings = Bindings::new(launcher.target().dialect);
        let parts = bindings.bind(Place::Scratch, Access::Read);
        let target = bindings.bind(out.place(), Bindings::to_store(out.dtype.size()));
        let mean = loss.reduction == Reduction::Mean;
        let pipeline = launcher.compile(&Key::from_slice(&[0xFE, out.dtype as u8]), &bindings, &mut || {
            let value = format!(
                "let share_at: u32 = p[0u] + r;\nown.x += {};\nown.y += {};\n",
                bindings.load(parts, DType::F32, "r"),
                bindings.load(parts, DType::F32, "share_at")
            );
            let result = if mean { "total.x / total.y" } else { "total.x" };
            let store = format!("let at: u32 = p[1u];\n{}\n", bindings.store(target, out.dtype, "at", &narrowed(out.dtype, result)));
            workgroup_sum(&bindings, "", &value, &store)
        })?;
        launcher.launch_groups(pipeline, &bindings, &[rows.rows as u32, out.offset as u32], 1);
    }
    if target.shape.elements() == 0 { Ok(()) } else { look_up(launcher, target, report) }
}
/// One workgroup that adds two numbers for each `r` below the first parameter.
fn workgroup_sum(bindings: &Bindings, functions: &str, value: &str, store: &str) -> Result<String, ErrorKind> {
    let barrier = bindings.dialect.barrier();
    let body = format!(
        "    var own: vec2<f32> = vec2<f32>(0.0, 0.0);
    for (var r: u32 = lane; r < p[0u]; r += 256u) {{
{value}}}
    partial[lane] = own;
    {barrier}
    for (var half: u32 = 128u; half > 0u; half >>= 1u) {{
        if (lane < half) {{ partial[lane].x += partial[lane + half].x; partial[lane].y += partial[lane + half].y; }}
        {barrier}
    }}
    if (lane == 0u) {{
        let total: vec2<f32> = partial[0];
{store}}}
"
    );
    let shared = vec![SharedArray { name: "partial", of: "vec2<f32>", length: GROUP as usize }];
    KernelFrame { bindings, lanes: GROUP as usize, numbered: Numbering::InWorkgroup, shared, functions, blocks: None, body }.text()
}
fn backward(launcher: &mut dyn Launcher, work: &Work<'_>, loss: &CrossEntropy) -> Result<(), ErrorKind> {
    let ([g, x, target, rest @ ..], [dx]) = (work.inputs, work.outputs) else { return Err(misshapen("cross entropy")) };
    let (weight, statistics) = rest.split_at(usize::from(loss.weight));
    let rows = rows(x);
    let (mean, smoothed) = (loss.reduction == Reduction::Mean, loss.label_smoothing > 0.0);
    let of_classes = smoothed && loss.weight;
    if mean || of_classes {
        totals(launcher, work, loss, &rows)?;
    }
    let mut bindings = Bindings::new(launcher.target().dialect);
    let mut inputs = Vec::new();
    for o in [g, x, target].into_iter().chain(statistics).chain(weight) {
        inputs.push((bindings.bind(o.place(), Access::Read), o.dtype, o.offset as u32));
    }
    let scratch = (mean || of_classes).then(|| bindings.bind(Place::Scratch, Access::Read));
    let mut dense = Dense::new(&mut bindings, &[(*dx, dx.place())]);
    let mut parameters = Vec::new();
    dense.place(&mut parameters, 0);
    let own = parameters.len();
    parameters.extend([rows.count as u32, rows.inner as u32]);
    parameters.extend(numbers(loss, rows.count));
    parameters.extend(inputs.iter().map(|i| i.2));
    let mut key = Key::from_slice(&[0xFD]);
    key.extend(inputs.iter().flat_map(|i| [i.0 as u8, i.1 as u8]));
    dense.describe(&mut key);
    key.extend(bindings.access.iter().map(|a| *a as u8));
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let read = |k: usize, at: &str| {
            let (binding, dtype, _) = inputs[k];
            let offset = own + 6 + k;
            let load = if dtype.is_int() { index_words(&bindings, binding, dtype, &format!("a{k}")) } else { bindings.load(binding, dtype, &format!("a{k}")) };
            (format!("let a{k}: u32 = p[{offset}u]{at};\n"), load)
        };
        let mut body = format!("let classes: u32 = p[{own}u];\nlet inner: u32 = p[{}u];\n", own + 1);
        (0..4).for_each(|n| body += &format!("let n{n}: u32 = p[{}u];\n", own + 2 + n));
        body += "let c: u32 = (i / inner) % classes;\nlet row: u32 = (i / (inner * classes)) * inner + i % inner;\n";
        for (k, name, at) in
            [(0, "g", if loss.reduction == Reduction::None { " + row" } else { "" }), (1, "x", " + i"), (3, "largest", " + row"), (4, "log_sum", " + row")]
        {
            let (place, load) = read(k, at);
            body += &format!("{place}let {name}: f32 = {load};\n");
        }
        let (place, load) = read(2, " + row");
        body += &format!("{place}let s0: vec2<u32> = {load};\n{CLASS}");
        let hit = "select(0.0, 1.0, s0.y == 0u && s0.x == c)";
        let one = "select(1.0, 0.0, is_bad)";
        let mut q = if smoothed { format!("{hit} * bitcast<f32>(n2) + bitcast<f32>(n3)") } else { hit.to_string() };
        let mut sum = one.to_string();
        if loss.weight {
            let (binding, dtype, _) = inputs[5];
            let offset = own + 6 + 5;
            let at = |name: &str, place: &str| {
                format!("let a{name}: u32 = p[{offset}u] + {place};\nlet {name}: f32 = {};\n", bindings.load(binding, dtype, &format!("a{name}")))
            };
            body += &(at("own_weight", "c") + &at("class_weight", "chosen"));
            q = format!("({q}) * own_weight");
            sum = format!("{sum} * class_weight");
        }
        if smoothed {
            let all = match scratch {
                Some(s) if loss.weight => bindings.load(s, DType::F32, "1u"),
                _ => "f32(classes)".to_string(),
            };
            sum = format!("{sum} * bitcast<f32>(n2) + {all} * bitcast<f32>(n3)");
        }
        let share = match scratch {
            Some(s) if mean => format!("g / {}", bindings.load(s, DType::F32, "0u")),
            _ => "g".to_string(),
        };
        body += &format!(
            "let q: f32 = {q};
let d: f32 = (adm_exp((x - largest) - log_sum) * ({sum}) - q) * ({share});
let dx: f32 = select(d, 0.0, ignored);
"
        );
        dense.text(&bindings, INDEX_OF, &body, &[bindings.bits_of(dx.dtype, &narrowed(dx.dtype, "dx"))])
    })?;
    launcher.launch(pipeline, &bindings, &parameters, dense.units());
    Ok(())
}
/// What a mean divides by, and the weight of all classes, as the first two words of the scratch memory.
fn totals(launcher: &mut dyn Launcher, work: &Work<'_>, loss: &CrossEntropy, rows: &RowsLayout) -> Result<(), ErrorKind> {
    launcher.scratch(2)?;
    let mut bindings = Bindings::new(launcher.target().dialect);
    let target = &work.inputs[2];
    let targets = bindings.bind(target.place(), Access::Read);
    let weight = if loss.weight { work.inputs.get(3) } else { None };
    let weights = weight.map(|w| Ok::<_, ErrorKind>(bindings.bind(w.place(), Access::Read))).transpose()?;
    let out = bindings.bind(Place::Scratch, Access::Write);
    let numbers = numbers(loss, rows.count);
    let most = if loss.weight { rows.rows.max(rows.count) } else { rows.rows };
    let parameters = [most, rows.rows, rows.count, target.offset, weight.map_or(0, |w| w.offset)].map(|v| v as u32);
    let parameters: Vec<u32> = parameters.into_iter().chain(numbers[..2].iter().copied()).collect();
    let key = Key::from_slice(&[0xFC, target.dtype as u8, targets as u8, weights.map_or(0xFF, |w| w as u8)]);
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let mut value = format!(
            "let classes: u32 = p[2u];
let n0: u32 = p[5u];
let n1: u32 = p[6u];
if (r < p[1u]) {{
let at: u32 = p[3u] + r;
let s0: vec2<u32> = {};
{CLASS}var share: f32 = select(1.0, 0.0, ignored);
",
            index_words(&bindings, targets, target.dtype, "at")
        );
        let Some((weights, dtype)) = weights.zip(weight.map(|w| w.dtype)) else {
            value += "own.x += share;\n}\n";
            return workgroup_sum(&bindings, INDEX_OF, &value, &stored(&bindings, out));
        };
        value += &format!(
            "let weight_at: u32 = p[4u] + chosen;
own.x += select(share * {}, 0.0, is_bad);
}}
if (r < p[2u]) {{
let weight_at: u32 = p[4u] + r;
own.y += {};
}}
",
            bindings.load(weights, dtype, "weight_at"),
            bindings.load(weights, dtype, "weight_at")
        );
        workgroup_sum(&bindings, INDEX_OF, &value, &stored(&bindings, out))
    })?;
    launcher.launch_groups(pipeline, &bindings, &parameters, 1);
    Ok(())
}
fn stored(bindings: &Bindings, scratch: usize) -> String {
    format!("{}\n{}\n", bindings.store(scratch, DType::F32, "0u", "total.x"), bindings.store(scratch, DType::F32, "1u", "total.y"))
}
