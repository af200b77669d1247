//! The short way of a plan that is one kernel and makes one new value: small eager work that is read at once. Nothing of
//! such a plan is shared, taken over, suppressed or deferred, so it runs without the lists that a replay keeps of all that.
use super::{Caller, Failed, NO_FAULT, Replay};
use crate::{
    Arg, Device, Error, Scalar, Stored,
    backend::Guard,
    kernel::{KernelKind, Operand, Step},
    plan::{Plan, PlanStorage, Sized, Source},
    planted::stale,
    stats::count,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// A direct plan for sizes, apart from the window it was made for.
#[derive(Clone)]
pub struct Direct {
    plan: Arc<Plan>,
    sized: Arc<Sized>,
}
impl Direct {
    /// The plan, which [can be direct](Plan::can_be_direct), for sizes.
    pub fn new(plan: &Arc<Plan>, sized: &Arc<Sized>) -> Direct {
        Direct { plan: plan.clone(), sized: sized.clone() }
    }
    /// The slot of each input in that window; `None` for a constant.
    #[inline]
    pub fn slots(&self) -> impl Iterator<Item = Option<u32>> {
        self.plan.graph.inputs.iter().map(|(_, source)| if let Source::Slot(slot) = source { Some(*slot) } else { None })
    }
    /// Runs it on inputs from good data.
    ///
    /// # Errors
    /// Memory that cannot be had; a lost device.
    #[inline]
    pub fn run(&self, device: Device, inputs: &[&Stored], caller: &dyn Caller) -> Result<Stored, Failed> {
        Replay { plan: &self.plan, sized: &self.sized, inputs, device, caller }.run_direct()
    }
}
impl Plan {
    /// Is it one kernel, which cannot fault and makes one value, in memory of its own that outlives the plan?
    pub fn can_be_direct(&self) -> bool {
        let [step] = &self.steps[..] else { return false };
        let ([own], [(_, value)]) = (&self.own[..], &self.publish[..]) else { return false };
        let apart = matches!(step.kernel.kind, KernelKind::Copy) || self.faultable || !self.deferred.is_empty();
        !apart && own.escapes && own.taken.is_none() && self.storage[*value as usize] == PlanStorage::Own(0)
    }
}
impl Replay<'_> {
    /// Was no input computed from bad data?
    pub fn untainted(&self) -> bool {
        self.inputs.iter().all(|s| s.is_clean())
    }
    /// Runs a direct plan: where the new value lies.
    #[inline]
    pub fn run_direct(&self) -> Result<Stored, Failed> {
        let (step, sized) = (&self.plan.steps[0], &self.sized.steps[0]);
        let own = [self.new_memory(0)?];
        let operand = |o| self.operand(o, &own).ok_or_else(|| self.no_memory(step));
        let [output] = &sized.outputs[..] else { return Err(self.no_memory(step).into()) };
        let mut args: SmallVec<[Scalar; 2]> = SmallVec::new();
        for (k, a) in step.args.iter().enumerate() {
            args.push(match self.argument(*a) {
                Arg::Scalar(v) => stale(Arc::as_ptr(self.plan) as usize, 0, k, v),
                _ => Scalar::Int(0),
            });
        }
        count(|c| {
            c.kernels += 1;
            c.fused += step.ops.saturating_sub(1) as u64;
        });
        let submit = |inputs: &[Operand<'_>]| -> Result<(), Failed> {
            let outputs = [operand(output)?];
            let run = Step { kernel: &step.kernel, space: sized.space, inputs, outputs: &outputs, args: &args, fault: &NO_FAULT, guard: Guard::NONE };
            self.caller.submit(self, std::slice::from_ref(&run), &[0]).map_err(|k| self.failed_among(&[0], 0, k))
        };
        match &sized.inputs[..] {
            [x] => submit(&[operand(x)?])?,
            [x, y] => submit(&[operand(x)?, operand(y)?])?,
            all => submit(&all.iter().map(operand).collect::<Result<SmallVec<[Operand<'_>; 4]>, Error>>()?)?,
        }
        let ([buffer], place) = (own, &self.sized.published[0]);
        if self.sized.whole[0] {
            return Ok(Stored::dense(buffer));
        }
        Ok(Stored::new(buffer, &self.sized.shapes[0], self.offset(place, None), &place.layout.strides, None))
    }
}
