//! Composites that work row by row — softmax, norms, cross entropy, and their backwards — in one launch each: the row is
//! read once for each of its passes, from the caches, and nothing of its size is written between.
//!
//! A row program is a list of passes over the row, each of which may read the sums of those before it, the expression of
//! an element, and what is written once for each row. Long rows are shared by a workgroup or, where there are subgroups, by
//! one of those, which needs no barriers; short ones belong to an invocation.
pub(crate) mod entropy;
pub(crate) mod norm;
pub(crate) mod softmax;

use super::{
    gather::{INDEX_OF, index_words},
    matmul::narrowed,
};
use crate::{
    Subgroup,
    bindings::{Access, Bindings, Place},
    combine::Combine,
    frame::{GROUP, KernelFrame, Numbering, ROUNDS, SharedArray, per_element},
    launcher::{Array, Found, Key, LaunchTarget, Launcher},
};
use adamant_ir::{DType, ErrorKind, op::ReduceOp};

/// How the rows lie in an operand of their shape, and which feature an element of a row belongs to.
pub(crate) struct RowsLayout {
    pub rows: usize,
    pub count: usize,
    /// elements behind one step along the row (a line), or behind one channel
    pub inner: usize,
    /// rows of one sample
    pub groups: usize,
    pub walk: RowsWalk,
    /// is the length of a row the model's own, whatever the batch?
    pub is_fixed: bool,
}
#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
pub(crate) enum RowsWalk {
    /// along an axis; the feature is the place in the row
    Line,
    /// a row lies in one piece and spans channels of `inner` elements
    Group,
    /// one channel of all samples
    Channel,
}
impl RowsLayout {
    /// Rows along an axis.
    pub fn along(x: &Array, axis: usize) -> RowsLayout {
        let count = x.shape[axis];
        let inner = x.shape[axis + 1..].iter().product();
        RowsLayout { rows: x.shape.without(axis).elements(), count, inner, groups: 1, walk: RowsWalk::Line, is_fixed: false }
    }
    /// Where element `k` of row `i` lies, and its feature.
    fn places(&self) -> [&'static str; 2] {
        match self.walk {
            RowsWalk::Line => ["(i / p[2u]) * p[1u] * p[2u] + i % p[2u] + k * p[2u]", "k"],
            RowsWalk::Group => ["i * p[1u] + k", "((i % p[3u]) * p[1u] + k) / p[2u]"],
            RowsWalk::Channel => ["((k / p[2u]) * p[0u] + i) * p[2u] + k % p[2u]", "i"],
        }
    }
}
/// Reductions in one reading of the row; number k of pass j is then `t<j>_<k>`.
pub(crate) struct Pass {
    /// the elements `x<n>` and features `w<n>` combined, in f32
    pub sums: Vec<(ReduceOp, String)>,
    /// statements behind it
    pub then: String,
}
/// An operand of a program: where its memory is.
pub(crate) type Placed = (Array, Place);
/// What is done to each row.
#[derive(Default)]
pub(crate) struct RowProgram {
    /// inputs of the rows' shape, `x0`, ..; also `x0_of(i, k)`
    pub full: Vec<Array>,
    /// inputs with one element for each feature, `w0`, ..; also `w0_of(i, k)`
    pub features: Vec<Array>,
    /// inputs with one element for each row, `s0`, ..; integers are indices, as their two words
    pub of_row: Vec<Array>,
    /// numbers that the text reads as `n0`, .. of u32
    pub numbers: Vec<u32>,
    pub passes: Vec<Pass>,
    /// an output of the rows' shape
    pub element: Option<(Array, String)>,
    /// outputs with one element for each row
    pub results: Vec<(Placed, &'static str)>,
    /// an index that is not below this can be reported: `bad(i)`
    pub bound: Option<usize>,
}
pub(crate) fn pass<const N: usize>(sums: [(ReduceOp, &str); N], then: &str) -> Pass {
    Pass { sums: sums.map(|(op, value)| (op, value.to_string())).into(), then: then.into() }
}
/// Who works on a row.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Invocation,
    /// of so many invocations
    Subgroup(usize),
    Workgroup,
}
impl Way {
    fn of(target: &LaunchTarget, count: usize) -> Way {
        match target.subgroup {
            _ if count < 64 => Way::Invocation,
            // Barriers are slow on the host's processor, and elsewhere a subgroup is idle less at the end of a row.
            Some(size) if count <= 1024 || target.on_host && count < ROUNDS => Way::Subgroup(size),
            _ => Way::Workgroup,
        }
    }
    /// All that rows of some length may take, but for very long ones on the host's processor.
    fn all(target: &LaunchTarget) -> Vec<Way> {
        let mut all = vec![Way::Invocation];
        all.extend(target.subgroup.map(Way::Subgroup));
        if target.subgroup.is_none() || !target.on_host {
            all.push(Way::Workgroup);
        }
        all
    }
    /// Rows of a workgroup.
    fn rows(self) -> u64 {
        match self {
            Way::Invocation => GROUP,
            Way::Subgroup(size) => (LANES / size) as u64,
            Way::Workgroup => 1,
        }
    }
}
/// Invocations of a workgroup whose subgroups work alone.
const LANES: usize = 64;

/// Launches a program for each row; returns where bad indices are reported.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled.
pub(crate) fn launch(launcher: &mut dyn Launcher, rows: &RowsLayout, program: &RowProgram) -> Result<u32, ErrorKind> {
    let target = launcher.target();
    let way = Way::of(&target, rows.count);
    let report = program.bound.map_or(0, |bound| launcher.report(Found::Index(bound)));
    let mut bindings = Bindings::new(launcher.target().dialect);
    let mut parameters = [rows.rows, rows.count, rows.inner, rows.groups].map(|n| n as u32).to_vec();
    parameters.push(report);
    let mut places = Places::default();
    for (list, operands) in [&program.full, &program.features, &program.of_row].into_iter().enumerate() {
        for o in operands {
            places.inputs[list].push((bindings.bind(o.place(), Access::Read), o.dtype, parameters.len()));
            parameters.push(o.offset as u32);
        }
    }
    if let Some((o, _)) = &program.element {
        places.element = Some((bindings.bind(o.place(), Bindings::to_store(o.dtype.size())), o.dtype, parameters.len()));
        parameters.push(o.offset as u32);
    }
    for ((o, place), _) in &program.results {
        places.results.push((bindings.bind(*place, Bindings::to_store(o.dtype.size())), o.dtype, parameters.len()));
        parameters.push(o.offset as u32);
    }
    places.faults = program.bound.map(|_| bindings.bind(Place::Faults, Access::Atomic));
    places.numbers = parameters.len();
    parameters.extend(&program.numbers);
    let compile = |launcher: &mut dyn Launcher, way: Way| {
        let mut key = Key::new();
        key.extend([way.rows() as u8, rows.walk as u8]);
        key.extend(places.all().flat_map(|b| [b.0 as u8, b.1 as u8]));
        key.extend(bindings.access.iter().map(|a| *a as u8));
        launcher.compile(&key, &bindings, &mut || text(rows, program, &bindings, &places, way))
    };
    if !rows.is_fixed && launcher.is_new()? {
        // Rows of another length may take another way.
        Way::all(&target).into_iter().try_for_each(|other| compile(launcher, other).map(drop))?;
    }
    let pipeline = compile(launcher, way)?;
    launcher.launch_groups(pipeline, &bindings, &parameters, (rows.rows as u64).div_ceil(way.rows()));
    Ok(report)
}
/// An operand's binding, dtype, and the parameter that holds its offset.
type Bound = (usize, DType, usize);
#[derive(Default)]
struct Places {
    inputs: [Vec<Bound>; 3],
    element: Option<Bound>,
    results: Vec<Bound>,
    faults: Option<usize>,
    numbers: usize,
}
impl Places {
    fn all(&self) -> impl Iterator<Item = &Bound> {
        self.inputs.iter().flatten().chain(&self.element).chain(&self.results)
    }
}
/// The module around a row program.
fn text(rows: &RowsLayout, program: &RowProgram, bindings: &Bindings, places: &Places, way: Way) -> Result<String, ErrorKind> {
    let barrier = bindings.dialect.barrier();
    let [place, feature] = rows.places();
    let [full, features, of_row] = &places.inputs;
    let mut functions = String::new();
    for (name, list, at) in [("x", full, place), ("w", features, feature)] {
        for (n, &(binding, dtype, offset)) in list.iter().enumerate() {
            functions += &format!(
                "fn {name}{n}_of(i: u32, k: u32) -> f32 {{\nlet at: u32 = p[{offset}u] + {at};\nreturn {};\n}}\n",
                bindings.load(binding, dtype, "at")
            );
        }
    }
    if let Some(faults) = places.faults {
        functions += &format!("{INDEX_OF}fn bad(i: u32) {{ {} }}\n", bindings.atomic_min(faults, "p[4u]", "i"));
    }
    // What a text names of element k.
    let elements = |named: &str| -> String {
        let names = (0..full.len()).map(|n| format!("x{n}")).chain((0..features.len()).map(|n| format!("w{n}")));
        names.filter(|name| named.contains(name)).map(|name| format!("let {name}: f32 = {name}_of(i, k);\n")).collect()
    };
    let (first, by) = match way {
        Way::Invocation => ("0u", "1u".to_string()),
        Way::Subgroup(size) => ("lane", format!("{size}u")),
        Way::Workgroup => ("lane", "256u".to_string()),
    };
    let mut body: String = (0..program.numbers.len()).map(|n| format!("let n{n}: u32 = p[{}u];\n", places.numbers + n)).collect();
    for (n, &(binding, dtype, offset)) in of_row.iter().enumerate() {
        body += &format!("let as{n}: u32 = p[{offset}u] + i;\n");
        body += &if dtype.is_int() {
            format!("let s{n}: vec2<u32> = {};\n", index_words(bindings, binding, dtype, &format!("as{n}")))
        } else {
            format!("let s{n}: f32 = {};\n", bindings.load(binding, dtype, &format!("as{n}")))
        };
    }
    for (j, pass) in program.passes.iter().enumerate() {
        let (mut begin, mut inside, mut end) = (String::new(), String::new(), String::new());
        let named: String = pass.sums.iter().map(|(_, value)| value.as_str()).collect();
        for (k, (op, value)) in pass.sums.iter().enumerate() {
            let combine = Combine::new(*op, DType::F32);
            begin += &format!("var own{j}_{k}: f32 = {};\n", combine.identity());
            inside += &format!("own{j}_{k} = {};\n", combine.of(&format!("own{j}_{k}"), &format!("({value})")));
            end += &match way {
                Way::Invocation => format!("let t{j}_{k}: f32 = own{j}_{k};\n"),
                // Where an element is no number a largest one may miss it; the sums behind it do not.
                Way::Subgroup(_) => {
                    let what = if *op == ReduceOp::Max { Subgroup::Max } else { Subgroup::Sum };
                    format!("let t{j}_{k}: f32 = {};\n", bindings.dialect.subgroup(what, DType::F32, &format!("own{j}_{k}")))
                }
                Way::Workgroup => format!(
                    "{barrier}
partial[lane] = own{j}_{k};
{barrier}
for (var half: u32 = 128u; half > 0u; half >>= 1u) {{
    if (lane < half) {{ partial[lane] = {}; }}
    {barrier}
}}
let t{j}_{k}: f32 = partial[0];
",
                    combine.of("partial[lane]", "partial[lane + half]")
                ),
            };
        }
        if !pass.sums.is_empty() {
            body += &format!("{begin}for (var k: u32 = {first}; k < p[1u]; k += {by}) {{\n{}{inside}}}\n{end}", elements(&named));
        }
        body += &pass.then;
    }
    if let (Some((_, value)), Some((target, dtype, offset))) = (&program.element, places.element) {
        body += &format!(
            "for (var k: u32 = {first}; k < p[1u]; k += {by}) {{\n{}let y: f32 = {};\nlet ay: u32 = p[{offset}u] + {place};\n{}\n}}\n",
            elements(value),
            narrowed(dtype, value),
            bindings.store(target, dtype, "ay", "y")
        );
    }
    let mut once = String::new();
    for (n, ((_, value), &(target, dtype, offset))) in program.results.iter().zip(&places.results).enumerate() {
        once += &format!("let ar{n}: u32 = p[{offset}u] + i;\n{}\n", bindings.store(target, dtype, &format!("ar{n}"), &narrowed(dtype, value)));
    }
    if places.faults.is_some() {
        once += "if (is_bad) { bad(i); }\n";
    }
    body += &if way == Way::Invocation { once } else { format!("if (lane == 0u) {{\n{once}}}\n") };
    let number = "let number: u32 = group.y * groups.x + group.x;\n";
    let last = "if (i >= p[0u]) { return; }\n";
    match way {
        Way::Invocation => per_element(bindings, &functions, &body),
        Way::Subgroup(size) => {
            let body = format!("{number}let i: u32 = number * {}u + own;\n{last}{body}", way.rows());
            KernelFrame { bindings, lanes: LANES, numbered: Numbering::InSubgroup(size), shared: Vec::new(), functions: &functions, blocks: None, body }.text()
        }
        Way::Workgroup => {
            let body = format!("{number}let i: u32 = number;\n{last}{body}");
            let shared = vec![SharedArray { name: "partial", of: "f32", length: GROUP as usize }];
            KernelFrame { bindings, lanes: GROUP as usize, numbered: Numbering::InWorkgroup, shared, functions: &functions, blocks: None, body }.text()
        }
    }
}
/// Are all dtypes floats that kernels compute with?
pub(crate) fn all_floats(dtypes: &[DType]) -> bool {
    dtypes.iter().all(|d| matches!(d, DType::F32 | DType::F16 | DType::BF16))
}
/// Fills a small output with a number.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled.
pub(crate) fn fill(launcher: &mut dyn Launcher, out: &Array, value: &str) -> Result<(), ErrorKind> {
    let mut bindings = Bindings::new(launcher.target().dialect);
    let target = bindings.bind(out.place(), Bindings::to_store(out.dtype.size()));
    let key = Key::from_slice(&[0xFC, out.dtype as u8]);
    let pipeline = launcher.compile(&key, &bindings, &mut || {
        let body = format!("let at: u32 = p[1u] + i;\n{}\n", bindings.store(target, out.dtype, "at", value));
        per_element(&bindings, "", &body)
    })?;
    launcher.launch(pipeline, &bindings, &[out.shape.elements() as u32, out.offset as u32], out.shape.elements() as u64);
    Ok(())
}
