//! Every family of kernels as C: drawn cases are compiled with the machine's C compiler, run, and compared with the
//! reference in f64. The skeletons are those that a GPU runs; only the dialect is another. As WGSL their texts are
//! validated.
mod cases;
#[path = "../compiler/mod.rs"]
mod compiler;
mod composites;
mod ends;
mod runner;

use adamant_ir::{HostArray, Shape};
use adamant_kernels::{
    Array, LaunchTarget, Wgsl, Work,
    skeleton::{self, Mapped},
};
use cases::{Case, Maker};
use runner::{Job, Sheet, Texts};
use std::io::Write;

type Family = fn(Maker) -> Case;
/// The families, and how many cases of each.
const FAMILIES: [(&str, Family, usize); 22] = [
    ("unary", cases::unary, 60),
    ("binary", cases::binary, 90),
    ("argument", cases::with_argument, 40),
    ("cast", cases::cast, 150),
    ("select", cases::select_and_index, 30),
    ("random", cases::random_bits, 20),
    ("several results", cases::several_results, 40),
    ("together", cases::together, 24),
    ("copy", cases::copy, 80),
    ("reduce", cases::reduce, 140),
    ("arg_reduce", cases::arg_reduce, 70),
    ("scan", cases::scan, 90),
    ("sort", cases::sort, 70),
    ("gather", cases::gather, 90),
    ("segment_reduce", cases::segment_reduce, 90),
    ("scatter", cases::scatter, 110),
    ("matmul", cases::matmul, 60),
    ("conv", cases::conv, 70),
    ("window", cases::window, 70),
    ("softmax", composites::softmax, 48),
    ("norm", composites::norm, 60),
    ("cross entropy", composites::cross_entropy, 60),
];
const ATTENTION: (&str, Family, usize) = ("attention", composites::attention, 28);
const ENDS: [(&str, Family, usize); 2] = [("product", ends::product, 60), ("conv with ends", ends::conv_with_ends, 40)];

/// What became of the cases.
#[derive(Default)]
struct Outcome {
    ran: usize,
    texts: usize,
    failures: Vec<String>,
}
/// Records a case. `None`: the dialect says that it cannot.
fn record(case: &mut Case, texts: &mut Texts, most: u64) -> Option<Result<Job, String>> {
    let dtypes: Vec<_> = case.inputs.iter().chain(&case.outputs).map(|a| a.dtype).collect();
    if !skeleton::supports(&case.target, &case.kernel, &dtypes) {
        return None;
    }
    let mut sheet = Sheet::new(case.target, texts, most);
    let done = if case.more.is_empty() {
        let work = Work { space: case.space, inputs: &case.inputs, outputs: &case.outputs, args: &case.args };
        skeleton::record(&mut sheet, &case.kernel, &work)
    } else {
        merged(&mut sheet, case)
    };
    case.found = sheet.reports;
    let job = Job { launches: sheet.launches, buffers: std::mem::take(&mut case.buffers), scratch: sheet.scratch, reports: case.found.len() };
    Some(done.map(|()| job).map_err(|e| format!("{e:?}")))
}
fn merged(sheet: &mut Sheet<'_>, case: &Case) -> Result<(), adamant_ir::ErrorKind> {
    let adamant_ir::kernel::KernelKind::Map { expr, outputs } = &case.kernel else { unreachable!("only maps are together") };
    let all: Vec<(&[Array], &[Array], Shape)> =
        std::iter::once((&case.inputs[..], &case.outputs[..], case.space)).chain(case.more.iter().map(|(i, o, space)| (&i[..], &o[..], *space))).collect();
    let maps: Vec<Mapped<'_>> = all.iter().map(|&(inputs, results, space)| (expr, &outputs[..], Work { space, inputs, outputs: results, args: &[] })).collect();
    assert_eq!(skeleton::together(&case.target, &maps), maps.len(), "{}: maps that may be together are not", case.name);
    skeleton::record_together(sheet, &maps)
}
fn run(cc: &str, name: &str, families: &[(&str, Family, usize)], plant: Option<(&str, &str)>) -> Outcome {
    let mut texts = Texts::default();
    let (mut cases, mut jobs) = (Vec::new(), Vec::new());
    let mut outcome = Outcome::default();
    for (f, (family, make, count)) in families.iter().enumerate() {
        let mut refused = 0;
        for k in 0..*count {
            let mut case = make(Maker::new(((f as u64) << 32) + k as u64));
            case.name = format!("{family} {k}: {}", case.name);
            match record(&mut case, &mut texts, if k % 3 == 0 { 7 } else { 65_535 }) {
                None => refused += 1,
                Some(Err(e)) => outcome.failures.push(format!("{}: {e}", case.name)),
                Some(Ok(job)) => {
                    cases.push(case);
                    jobs.push(job);
                }
            }
        }
        assert_eq!(refused, 0, "{family}: {refused} of {count} are refused");
    }
    if let Some((from, to)) = plant {
        let planted = texts.0.values_mut().filter(|t| t.contains(from)).map(|t| *t = t.replace(from, to)).count();
        assert!(planted > 0, "no text has {from}");
    }
    outcome.texts = texts.0.len();
    let folder = std::env::temp_dir().join(format!("adamant-kernels-{}-{name}", std::process::id()));
    let answers = match runner::run(cc, &folder, &texts, &jobs) {
        Ok(answers) => answers,
        Err(e) => {
            outcome.failures.push(e);
            return outcome;
        }
    };
    let _ = std::fs::remove_dir_all(&folder);
    for (case, answer) in cases.iter().zip(&answers) {
        outcome.ran += 1;
        if let Err(e) = check(case, answer) {
            outcome.failures.push(format!("{} (subgroups {:?}): {e}", case.name, case.target.subgroup));
        }
    }
    outcome
}
fn check(case: &Case, answer: &runner::Answer) -> Result<(), String> {
    let outputs = case.outputs.iter().chain(case.more.iter().flat_map(|m| &m.1));
    let mut got = Vec::new();
    for o in outputs {
        let (bytes, size) = (&answer.buffers[o.buffer], o.dtype.size());
        let (from, to) = (o.offset * size, (o.offset + o.shape.elements()) * size);
        if !case.inputs.iter().any(|i| i.buffer == o.buffer) && !composites::is_untouched(bytes, from, to) {
            return Err("something was written beside the result".into());
        }
        let in_order: Vec<u8> = cases::coordinates(&o.shape)
            .flat_map(|index| {
                let at = (o.offset + cases::place_of(&index, &o.strides)) * size;
                bytes[at..at + size].to_vec()
            })
            .collect();
        got.push(HostArray::from_bytes(o.shape, o.dtype, &in_order));
    }
    let reports: Vec<_> = case.found.iter().copied().zip(answer.reports.iter().copied()).collect();
    (case.check)(&got, &reports)
}

#[test]
fn every_family_is_right_in_c() {
    let Some(cc) = compiler::find() else { return };
    let all: Vec<(&str, Family, usize)> = FAMILIES.into_iter().chain([ATTENTION]).chain(ENDS).collect();
    let outcome = run(&cc, "all", &all, None);
    let _ = writeln!(std::io::stderr(), "{} cases of {} families, {} texts", outcome.ran, all.len(), outcome.texts);
    let shown: Vec<&String> = outcome.failures.iter().take(20).collect();
    assert!(outcome.failures.is_empty(), "{} of {} failed\n{shown:#?}", outcome.failures.len(), outcome.ran);
}
/// Faults in the texts, one in each family: a bound, a step, a barrier, an order.
const PLANTS: [(&str, Family, usize, &str, &str); 13] = [
    ("reduce", cases::reduce, 24, " >>= 1u)", " >>= 9u)"),
    ("scan", cases::scan, 24, "if (past)", "if (!past)"),
    ("sort", cases::sort, 16, "low = at + 1u", "low = at + 2u"),
    ("gather", cases::gather, 24, "index.x * p[", "index.y * p["),
    ("segment_reduce", cases::segment_reduce, 24, " < s->beside_", " + 1u < s->beside_"),
    ("segment_reduce of blocks", cases::segment_reduce, 24, " < s->last_", " + 1u < s->last_"),
    ("segment_reduce of shared blocks", cases::segment_reduce, 24, " >>= 1u)", " >>= 9u)"),
    ("scatter", cases::scatter, 40, "is_head = false", "is_head = true"),
    ("matmul", cases::matmul, 10, " += 16u", " += 17u"),
    ("product", ends::product, 10, " + number", " + number / 2u"),
    ("conv", cases::conv, 24, "walk++;", "walk += 2u;"),
    ("softmax", composites::softmax, 24, "return 1; case", "case"),
    ("attention", composites::attention, 8, "s->turn++;", ""),
];
#[test]
fn a_fault_in_a_text_is_found() {
    let Some(cc) = compiler::find() else { return };
    for (k, (family, make, count, from, to)) in PLANTS.into_iter().enumerate() {
        let outcome = run(&cc, &format!("planted-{k}"), &[(family, make, count)], Some((from, to)));
        let refused = outcome.failures.iter().find(|f| f.contains("does not compile"));
        assert!(refused.is_none(), "{family}: {refused:?}");
        assert!(!outcome.failures.is_empty(), "{family}: `{to}` in the place of `{from}` was not found in {} cases", outcome.ran);
    }
}
/// The drawn cases as WGSL: each text is a shader that validates, with 64-bit integers and without.
#[test]
fn every_family_is_a_valid_shader() {
    let mut seen = 0;
    for dialect in [Wgsl::WIDE, Wgsl::PLAIN] {
        let mut texts = Texts::default();
        for (f, (family, make, count)) in FAMILIES.into_iter().chain([ATTENTION]).chain(ENDS).enumerate() {
            for k in 0..count / 4 {
                let mut case = make(Maker::new(((f as u64) << 32) + k as u64));
                case.target.dialect = dialect;
                if let Some(Err(e)) = record(&mut case, &mut texts, 65_535) {
                    panic!("{family} {k}: {}: {e}", case.name);
                }
            }
        }
        seen += texts.0.len();
        texts.0.values().for_each(|text| compiler::validate(text).unwrap_or_else(|e| panic!("{e}\n{text}")));
    }
    assert!(seen > 500, "only {seen} texts");
}
/// Without subgroups attention has no kernel, and says so before it is asked to write one.
#[test]
fn what_needs_subgroups_is_refused_without_them() {
    let case = composites::attention(Maker::new(1));
    let dtypes: Vec<_> = case.inputs.iter().chain(&case.outputs).map(|a| a.dtype).collect();
    assert!(skeleton::supports(&case.target, &case.kernel, &dtypes));
    assert!(!skeleton::supports(&LaunchTarget { subgroup: None, ..case.target }, &case.kernel, &dtypes));
}
