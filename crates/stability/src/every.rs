//! What each op of a step gives is looked at, on its device, without a word that the host waits for ([`WatchMode::Full`](crate::WatchMode::Full)).
//!
//! Data flow: [`EveryOp`] visits the ops of a step while they are recorded ([`visit_ops`](crate::visit_ops)), and records the largest size of each value
//! ([`LookedValues`]), one number in which NaN stays NaN and an infinity infinite. When somebody asks ([`EveryOp::take`]), all those numbers are brought together,
//! and the kinds of bad numbers follow from them by a handful of ops, however many were looked at.
//!
//! Infinities that a mask fills in are not bad. Which ops handed one on is told on the device: each look knows those at values that its own were
//! computed of, and is excused by any that is infinite itself.
use crate::{NanOptions, OpVisitor, ValueChange, VisitedOp, VisitedValues, kinds::BadKinds};
use adamant_core::{DType, Device, Tensor, composite::wide::wide, grad::with_grad, transform};
use parking_lot::Mutex;
use std::collections::HashMap;

/// The most values that are looked at in one pass.
const TOGETHER: usize = 8;
/// Elements of a value from which on nothing excuses an infinity behind the walk back: limits may be infinite there, and are small.
const LARGE: usize = 4096;

/// What may excuse an infinity in a value.
#[derive(Clone, Default, PartialEq, Eq)]
struct InfinitySources {
    /// numbers of looks at values of which it was computed
    looks: Vec<usize>,
    /// an infinity that was asked for is among them
    is_meant: bool,
}
impl InfinitySources {
    fn add(&mut self, other: &InfinitySources) {
        for k in &other.looks {
            if !self.looks.contains(k) {
                self.looks.push(*k);
            }
        }
        self.is_meant |= other.is_meant;
    }
}
/// Why a value is looked at.
#[derive(Clone, PartialEq, Eq)]
enum LookedFor {
    /// An op gave it: what it was computed of may excuse an infinity. Looked at alone.
    Result(InfinitySources),
    /// the walk back made it, or it is large and behind it: nothing excuses one
    Whole,
    /// the step was given it: it is not judged, and excuses
    Given,
}
/// A value; or values of one shape that follow each other: they are computed of each other, so that none need be in memory to be looked at.
struct LookedValues {
    of: LookedFor,
    parts: Vec<Tensor>,
    /// of all parts, the largest absolute value, of no axes: NaN where one is
    largest: Option<Tensor>,
}
impl LookedValues {
    fn takes_in(&self, x: &Tensor, of: &LookedFor) -> bool {
        let place = |x: &Tensor| x.try_meta().map(|meta| (meta.device, meta.shape, wide(meta.dtype))).ok();
        (&self.of, of) == (&LookedFor::Whole, &LookedFor::Whole)
            && self.parts.len() < TOGETHER
            && self.parts.first().is_some_and(|first| place(first) == place(x))
    }
    /// No part comes any more.
    fn close(&mut self) {
        let size = |x: Tensor| x.cast(wide(x.dtype().unwrap_or(DType::F32))).abs();
        let together = std::mem::take(&mut self.parts).into_iter().map(size).reduce(|all, x| all.maximum(&x));
        self.largest = self.largest.take().or(together.map(|all| all.max()));
    }
}
#[derive(Default)]
struct LookedStep {
    looks: Vec<LookedValues>,
    /// by its address, what a value is made of: kept, so that no other one comes to the address
    sources: HashMap<u64, (Tensor, InfinitySources)>,
    /// by its address, in the whole step, gradients of parameters and what may be written, where nothing excuses an infinity
    judged: HashMap<u64, Tensor>,
    /// Is the walk back over?
    is_behind: bool,
}
impl LookedStep {
    /// Looks at a value; the number of the look.
    fn look_at(&mut self, x: &Tensor, of: LookedFor) -> usize {
        match self.looks.last_mut() {
            Some(last) if last.takes_in(x, &of) => last.parts.push(x.clone()),
            last => {
                last.into_iter().for_each(LookedValues::close);
                self.looks.push(LookedValues { of, parts: vec![x.clone()], largest: None });
            }
        }
        self.looks.len() - 1
    }
    fn is_whole(&self, x: &Tensor) -> bool {
        self.is_behind && x.try_meta().is_ok_and(|meta| meta.shape.elements() >= LARGE)
    }
    /// Nothing excuses an infinity in a value that was looked at, and it excuses none: what is written, and parameters' gradients.
    fn note_judged(&mut self, x: &Tensor) {
        self.judged.insert(x.value_address(), x.clone());
        self.sources.insert(x.value_address(), (x.clone(), InfinitySources::default()));
    }
    /// What may be infinite in an op's input.
    fn sources_of(&mut self, x: &Tensor) -> InfinitySources {
        if let Some((_, sources)) = self.sources.get(&x.value_address()) {
            return sources.clone();
        }
        let looks = if self.is_whole(x) { Vec::new() } else { vec![self.look_at(x, LookedFor::Given)] };
        let sources = InfinitySources { looks, is_meant: false };
        self.sources.insert(x.value_address(), (x.clone(), sources.clone()));
        sources
    }
    /// What an op gave.
    fn add(&mut self, seen: &VisitedOp) {
        let mut of = InfinitySources { looks: Vec::new(), is_meant: seen.fills_infinity };
        // Weights that are infinite are bad, and excuse nothing.
        for (input, _) in seen.inputs.iter().zip(&seen.leaves).filter(|(x, is_leaf)| !**is_leaf && is_looked_at(x)) {
            of.add(&self.sources_of(input));
        }
        for value in seen.values.iter().flatten().filter(|x| is_looked_at(x)) {
            if !seen.moves && self.is_whole(value) {
                self.look_at(value, LookedFor::Whole);
                self.note_judged(value);
                continue;
            }
            let sources = match seen.moves {
                true => of.clone(),
                false => InfinitySources { looks: vec![self.look_at(value, LookedFor::Result(of.clone()))], is_meant: false },
            };
            self.sources.insert(value.value_address(), (value.clone(), sources));
        }
    }
}
/// Is there anything to look at?
fn is_looked_at(x: &Tensor) -> bool {
    x.try_meta().is_ok_and(|meta| meta.dtype.is_float() && meta.shape.elements() > 0)
}
/// A visitor that looks at all values of a step.
#[derive(Default)]
pub(crate) struct EveryOp(Mutex<LookedStep>);
impl OpVisitor for EveryOp {
    fn visit(&self, seen: &VisitedOp) -> Vec<ValueChange> {
        if transform::is_active() {
            return Vec::new();
        }
        with_grad(false, || {
            let mut step = self.0.lock();
            match seen.shows {
                VisitedValues::Results => step.add(seen),
                VisitedValues::Gradients | VisitedValues::InputGradients if seen.moves => {}
                VisitedValues::Gradients | VisitedValues::InputGradients => {
                    for gradient in seen.values.iter().flatten().filter(|g| is_looked_at(g)) {
                        step.look_at(gradient, LookedFor::Whole);
                        if seen.shows == VisitedValues::InputGradients {
                            step.note_judged(gradient);
                        }
                    }
                }
            }
        });
        Vec::new()
    }
}
impl EveryOp {
    /// Lets go of all values: what nobody else holds is computed within kernels, and never memory.
    pub fn forget(&self) {
        *self.0.lock() = LookedStep::default();
    }
    /// Was a value looked at in this step, without an excuse? Then nobody else need look at it.
    pub fn has_judged(&self, x: &Tensor) -> bool {
        self.0.lock().judged.contains_key(&x.value_address())
    }
    /// The kinds of bad numbers in all that was looked at since somebody asked last, told on a device.
    pub fn take(&self, options: &NanOptions, device: Device) -> BadKinds {
        let mut looks = {
            let mut step = self.0.lock();
            step.is_behind = true;
            step.sources.clear();
            std::mem::take(&mut step.looks)
        };
        looks.last_mut().into_iter().for_each(LookedValues::close);
        let sizes: Vec<Tensor> = looks.iter_mut().filter_map(|look| look.largest.take()).collect();
        if sizes.is_empty() {
            return BadKinds::default();
        }
        let widest = if sizes.iter().any(|size| size.dtype().is_ok_and(|d| d == DType::F64)) { DType::F64 } else { DType::F32 };
        let sizes: Vec<Tensor> = sizes.iter().map(|size| size.to(device).cast(widest)).collect();
        let largest = Tensor::stack(&sizes, 0);
        let judged = Tensor::from_vec_on(looks.iter().map(|look| look.of != LookedFor::Given).collect::<Vec<_>>(), [looks.len()], device);
        let there = |is: bool, bad: &dyn Fn() -> Tensor| is.then(|| bad().logical_and(&judged).any(..));
        BadKinds {
            nan: there(options.detect_nan, &|| largest.isnan()),
            inf: there(options.detect_inf, &|| unexcused(&largest.isinf(), &looks, device)),
            overflow: there(options.detect_overflow, &|| largest.gt(options.overflow_threshold).logical_and(largest.isfinite())),
            explosion: None,
        }
    }
}
/// Of looks at infinities, those at values that made them.
fn unexcused(infinite: &Tensor, looks: &[LookedValues], device: Device) -> Tensor {
    let none = InfinitySources::default();
    let excuses: Vec<&InfinitySources> = looks.iter().map(|look| if let LookedFor::Result(of) = &look.of { of } else { &none }).collect();
    let meant = Tensor::from_vec_on(excuses.iter().map(|of| of.is_meant).collect::<Vec<_>>(), [looks.len()], device);
    let made = infinite.logical_and(meant.logical_not());
    // By look, the numbers of those that its value was computed of, as many for each; where there are fewer, one that is never infinite.
    let most = excuses.iter().map(|of| of.looks.len()).max().unwrap_or(0);
    if most == 0 {
        return made;
    }
    let of_look = |of: &&InfinitySources| {
        let of: Vec<i64> = of.looks.iter().map(|k| *k as i64).collect();
        of.into_iter().chain(std::iter::repeat(looks.len() as i64)).take(most).collect::<Vec<_>>()
    };
    let places = Tensor::from_vec_on(excuses.iter().flat_map(of_look).collect::<Vec<_>>(), [looks.len() * most], device);
    let padded = Tensor::cat(&[infinite.clone(), Tensor::from_vec_on(vec![false], [1], device)], 0);
    let excused = padded.index_select(0, &places).reshape([looks.len(), most]).any(1);
    made.logical_and(excused.logical_not())
}
