//! What each op of a step gives is looked at, on its device, without a word that the host waits for ([`WatchMode::Full`](crate::WatchMode::Full)).
//!
//! Data flow: [`EveryOp`] visits the ops of a step while they are recorded ([`visit_ops`](crate::visit_ops)). Of each value it records the largest
//! size ([`LookedValue`]), one number in which NaN stays NaN and an infinity infinite. When somebody asks ([`EveryOp::take`]), all those numbers are
//! brought together, and the kinds of bad numbers follow from them by a handful of ops, however many were looked at.
//!
//! Infinities that a mask fills in are not bad. Which ops handed one on is told on the device: each value knows the numbers of those that it was computed
//! of, and is excused by any that is infinite itself.
use crate::{NanOptions, OpVisitor, ValueChange, VisitedOp, VisitedValues, kinds::BadKinds};
use adamant_core::{DType, Device, Tensor, grad::with_grad, transform};
use parking_lot::Mutex;
use std::collections::HashMap;

/// What may excuse an infinity in a value.
#[derive(Clone, Default)]
struct InfinitySources {
    /// numbers of values that were looked at, and of which it was computed
    values: Vec<usize>,
    /// an infinity that was asked for is among them
    is_meant: bool,
}
impl InfinitySources {
    fn add(&mut self, other: &InfinitySources) {
        self.values.extend(other.values.iter().filter(|k| !self.values.contains(k)).copied().collect::<Vec<_>>());
        self.is_meant |= other.is_meant;
    }
}
/// A value that was looked at.
struct LookedValue {
    /// the largest absolute value, of no axes: NaN where one is
    largest: Tensor,
    /// none: an infinity is bad, whatever it was computed of
    excuse: Option<InfinitySources>,
    /// a value that the step was given: it is looked at for what it excuses
    is_given: bool,
}
#[derive(Default)]
struct LookedStep {
    values: Vec<LookedValue>,
    /// by its address, what a value is made of: kept, so that no other one comes to the address
    sources: HashMap<u64, (Tensor, InfinitySources)>,
}
impl LookedStep {
    /// Looks at a value; its number.
    fn look_at(&mut self, x: &Tensor, excuse: Option<InfinitySources>, is_given: bool) -> usize {
        self.values.push(LookedValue { largest: x.abs().max(), excuse, is_given });
        self.values.len() - 1
    }
    /// What may be infinite in an op's input.
    fn sources_of(&mut self, x: &Tensor) -> InfinitySources {
        if let Some((_, sources)) = self.sources.get(&x.value_address()) {
            return sources.clone();
        }
        let number = self.look_at(x, None, true);
        let sources = InfinitySources { values: vec![number], is_meant: false };
        self.sources.insert(x.value_address(), (x.clone(), sources.clone()));
        sources
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
            if seen.shows != VisitedValues::Results {
                if !seen.moves {
                    for gradient in seen.values.iter().flatten().filter(|g| is_looked_at(g)) {
                        step.look_at(gradient, None, false);
                    }
                }
                return;
            }
            let mut of = InfinitySources { values: Vec::new(), is_meant: seen.fills_infinity };
            for input in seen.inputs.iter().filter(|x| is_looked_at(x)) {
                let sources = step.sources_of(input);
                of.add(&sources);
            }
            for value in seen.values.iter().flatten().filter(|x| is_looked_at(x)) {
                let sources = match seen.moves {
                    true => of.clone(),
                    false => InfinitySources { values: vec![step.look_at(value, Some(of.clone()), false)], is_meant: false },
                };
                step.sources.insert(value.value_address(), (value.clone(), sources));
            }
        });
        Vec::new()
    }
}
impl EveryOp {
    /// The kinds of bad numbers in all that was looked at since somebody asked last, told on a device.
    pub fn take(&self, options: &NanOptions, device: Device) -> BadKinds {
        let LookedStep { values, .. } = std::mem::take(&mut *self.0.lock());
        if values.is_empty() {
            return BadKinds::default();
        }
        let widest = if values.iter().any(|v| v.largest.dtype().is_ok_and(|d| d == DType::F64)) { DType::F64 } else { DType::F32 };
        let numbers: Vec<Tensor> = values.iter().map(|v| v.largest.to(device).cast(widest)).collect();
        let largest = Tensor::stack(&numbers, 0);
        let judged = values.iter().map(|v| !v.is_given).collect::<Vec<bool>>();
        let judged = Tensor::from_vec_on(judged, [values.len()], device);
        let there = |is: bool, bad: &dyn Fn() -> Tensor| is.then(|| bad().logical_and(&judged).any(..));
        BadKinds {
            nan: there(options.detect_nan, &|| largest.isnan()),
            inf: there(options.detect_inf, &|| unexcused(&largest.isinf(), &values, device)),
            overflow: there(options.detect_overflow, &|| largest.gt(options.overflow_threshold).logical_and(largest.isfinite())),
            explosion: None,
        }
    }
}
/// Of values that hold infinities, those that made them.
fn unexcused(infinite: &Tensor, values: &[LookedValue], device: Device) -> Tensor {
    let meant: Vec<bool> = values.iter().map(|v| v.excuse.as_ref().is_some_and(|of| of.is_meant)).collect();
    let made = infinite.logical_and(Tensor::from_vec_on(meant, [values.len()], device).logical_not());
    // By value, the numbers of those that it was computed of, as many for each; where there are fewer, the value excuses itself by nothing.
    let most = values.iter().filter_map(|v| v.excuse.as_ref()).map(|of| of.values.len()).max().unwrap_or(0);
    if most == 0 {
        return made;
    }
    let nothing = values.len() as i64;
    let of_value = |v: &LookedValue| {
        let of: Vec<i64> = v.excuse.as_ref().map_or_else(Vec::new, |of| of.values.iter().map(|k| *k as i64).collect());
        of.into_iter().chain(std::iter::repeat(nothing)).take(most).collect::<Vec<_>>()
    };
    let places = Tensor::from_vec_on(values.iter().flat_map(of_value).collect::<Vec<_>>(), [values.len() * most], device);
    let padded = Tensor::cat(&[infinite.clone(), Tensor::from_vec_on(vec![false], [1], device)], 0);
    let excused = padded.index_select(0, &places).reshape([values.len(), most]).any(1);
    made.logical_and(excused.logical_not())
}
