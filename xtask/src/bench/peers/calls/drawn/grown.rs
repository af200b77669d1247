//! From a small call to large ones: which sizes go together, and how far they may grow.
use super::{ArgKind, CallDraft, CallPool, Fill, Seen};
use crate::bench::peers::calls::ours;
use adamant::{DType, Device, Tensor, no_grad};
use adamant_conformance::{
    programs::{
        ProgramArg,
        arguments::{Args, Value},
    },
    random::Random,
};
use adamant_core::{Meta, Shape};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// No input or result has more elements.
const LARGEST: usize = 1 << 23;
/// Nor where values must be computed to know a shape.
const LARGEST_REAL: usize = 1 << 16;
/// A size is kept as one of its own if it is so much larger than the one before.
const LARGER: usize = 4;
/// Failures after which nothing grows any more.
const PATIENCE: usize = 14;

/// Shapes and dtypes of the results of a draft.
pub type CallResults = Vec<(Vec<usize>, DType)>;

/// The arguments of all steps: those that follow from shapes drawn for these.
pub fn arguments(pool: &CallPool, draft: &CallDraft, stream: u64) -> Vec<Vec<ProgramArg>> {
    let mut all = Vec::new();
    for (s, step) in draft.steps.iter().enumerate() {
        let mut random = Random::new(stream).part(s as u64);
        let kinds = &pool.functions[step.function].kinds;
        let shapes: Vec<Vec<usize>> = step.args.iter().map(|a| shape_of(draft, a)).collect();
        let mut args = step.args.clone();
        for k in 0..args.len() {
            // A step's result has a shape that is not known here: what was drawn stays.
            let known = !matches!(args.first(), Some(ProgramArg::Result(..)));
            let (before, rest) = args.split_at_mut(k);
            let seen = Seen { shapes: &shapes[..k], args: before };
            match &kinds[k] {
                ArgKind::IntOf(f) if known => rest[0] = ProgramArg::Int(f(&seen, &mut random)),
                ArgKind::Ints(f) if known => rest[0] = ProgramArg::Ints(f(&seen, &mut random)),
                _ => {}
            }
        }
        all.push(args);
    }
    all
}
fn shape_of(draft: &CallDraft, arg: &ProgramArg) -> Vec<usize> {
    match arg {
        ProgramArg::Input(k) => draft.inputs[*k].shape.clone(),
        ProgramArg::List(all) => all.first().map(|a| shape_of(draft, a)).unwrap_or_default(),
        _ => Vec::new(),
    }
}
/// What the last step gives, if the call is possible: of shapes alone, or of values where shapes follow from these.
pub fn given(pool: &CallPool, draft: &CallDraft, stream: u64) -> Option<CallResults> {
    asked(pool, draft, stream, false).or_else(|| asked(pool, draft, stream, true))
}
fn asked(pool: &CallPool, draft: &CallDraft, stream: u64, real: bool) -> Option<CallResults> {
    let most = if real { LARGEST_REAL } else { LARGEST };
    let sizes = draft.inputs.iter().map(|i| i.shape.iter().product::<usize>());
    if sizes.clone().any(|n| n == 0 || n > most) {
        return None;
    }
    let run = || -> Option<CallResults> {
        let input = |i: &crate::bench::peers::calls::CallInput| {
            if real {
                return ours::made(i).ok();
            }
            Some(Tensor::shape_only(Meta { shape: Shape::new(&i.shape).ok()?, dtype: i.dtype.parse().ok()?, device: Device::current().ok()? }))
        };
        let inputs: Vec<Tensor> = draft.inputs.iter().map(input).collect::<Option<_>>()?;
        let mut results: Vec<Vec<Tensor>> = Vec::new();
        for (step, args) in draft.steps.iter().zip(arguments(pool, draft, stream)) {
            let value = |a: &ProgramArg| match a {
                ProgramArg::Result(s, n) => results.get(*s).and_then(|r| r.get(*n)).cloned().map_or(Value::All, Value::Tensor),
                other => ours::value(other, &inputs),
            };
            let args = Args(args.iter().map(value).collect());
            results.push(pool.functions[step.function].call(&args));
        }
        let last = results.pop()?;
        let metas = last.iter().map(|y| y.try_meta().ok().map(|m| (m.shape.to_vec(), m.dtype))).collect::<Option<CallResults>>()?;
        let possible = metas.iter().all(|(shape, _)| (1..=LARGEST).contains(&shape.iter().product::<usize>()));
        (!metas.is_empty() && possible).then_some(metas)
    };
    catch_unwind(AssertUnwindSafe(|| no_grad(run))).ok().flatten()
}
/// Sizes that are one: of which inputs which axes.
type SizeClass = Vec<(usize, usize)>;
fn scaled(draft: &CallDraft, class: &SizeClass, to: impl Fn(usize) -> usize) -> CallDraft {
    let mut larger = draft.clone();
    for &(input, axis) in class {
        let size = &mut larger.inputs[input].shape[axis];
        *size = to(*size);
    }
    larger
}
/// Which sizes can grow: alone, or with those that are equal, or with one of these.
fn classes(pool: &CallPool, draft: &CallDraft, stream: u64) -> Vec<SizeClass> {
    let all: Vec<(usize, usize)> = draft.inputs.iter().enumerate().flat_map(|(k, i)| (0..i.shape.len()).map(move |a| (k, a))).collect();
    let size = |&(k, a): &(usize, usize)| draft.inputs[k].shape[a];
    let works = |class: &SizeClass| given(pool, &scaled(draft, class, |n| 2 * n), stream).is_some();
    let mut classes: Vec<SizeClass> = Vec::new();
    let mut rest = Vec::new();
    for one in all.into_iter().filter(|one| size(one) > 1) {
        if works(&vec![one]) { classes.push(vec![one]) } else { rest.push(one) }
    }
    while let Some(first) = rest.first().copied() {
        let equal: SizeClass = rest.iter().copied().filter(|o| size(o) == size(&first)).collect();
        let found = if works(&equal) {
            Some(equal.clone())
        } else {
            let with = |other: &(usize, usize)| vec![first, *other];
            equal[1..].iter().map(with).find(works).or_else(|| {
                let three = |k: usize| equal.iter().copied().enumerate().filter(|(j, _)| *j != k).map(|(_, o)| o).collect::<SizeClass>();
                (1..equal.len()).map(three).find(works)
            })
        };
        match found {
            Some(class) => {
                rest.retain(|o| !class.contains(o));
                classes.push(class);
            }
            None => {
                rest.remove(0);
            }
        }
    }
    classes
}
/// A bound of whole numbers that is a size grows with it.
fn bound(draft: &CallDraft, small: &CallDraft) -> CallDraft {
    let mut bounded = draft.clone();
    for (k, input) in small.inputs.iter().enumerate() {
        let Fill::Below(n) = input.fill else { continue };
        let same = small.inputs.iter().enumerate().filter(|(j, i)| *j != k && i.dtype.parse().is_ok_and(|d: DType| d.is_float() || j < &k));
        let sizes = same.flat_map(|(j, i)| (0..i.shape.len()).filter(|&a| i.shape[a] == n).map(move |a| (j, a))).map(|(j, a)| draft.inputs[j].shape[a]);
        if let Some(least) = sizes.min() {
            bounded.inputs[k].fill = Fill::Below(least);
        }
    }
    bounded
}
/// The call at growing sizes, up to so many elements of all inputs.
pub fn grown(pool: &CallPool, small: &CallDraft, stream: u64, target: f64, random: &mut Random) -> Vec<CallDraft> {
    let total = |d: &CallDraft| d.inputs.iter().map(|i| i.shape.iter().product::<usize>()).sum::<usize>();
    let classes = classes(pool, small, stream);
    let (mut all, mut now, mut failures) = (vec![small.clone()], small.clone(), 0);
    // What stands in the first input is what a call is about; a kernel's size is not.
    let weights: Vec<usize> = classes
        .iter()
        .flat_map(|c| vec![c; if c.iter().any(|o| o.0 == 0) { 4 } else { 1 }])
        .map(|c| classes.iter().position(|d| d == c).unwrap_or(0))
        .collect();
    while !weights.is_empty() && failures < PATIENCE && (total(&now) as f64) < target {
        let class = &classes[*random.pick(&weights)];
        let (factor, more) = (*random.pick(&[2, 2, 3, 4, 6]), *random.pick(&[0, 0, 0, 1]));
        let larger = scaled(&now, class, |n| n * factor + more);
        let too_large = total(&larger) as f64 > target * 2.0;
        if too_large || given(pool, &larger, stream).is_none() {
            failures += 1;
            continue;
        }
        now = larger;
        if total(&now) > LARGER * all.last().map_or(0, total) {
            all.push(bound(&now, small));
        }
    }
    if total(&now) > all.last().map_or(0, total) {
        all.push(bound(&now, small));
    }
    all
}
