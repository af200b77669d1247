//! The alignments of connectionist temporal classification. A composite because a kernel goes through the steps of time by itself, where
//! the body has a dozen ops for each.
use super::{Compound, RuleArgs, Saves, loss::gather};
use crate::{Arg, DType, Op, Result, Scalar, Tensor, composite::Cotangents};
pub use adamant_ir::composite::ctc::*;
use smallvec::smallvec;

/// The inputs of the alignments.
struct AlignmentSteps<'t> {
    emitted: &'t Tensor,
    label: &'t Tensor,
    skip: &'t Tensor,
    steps: &'t Tensor,
    labels: &'t Tensor,
    time: usize,
    n: usize,
    classes: usize,
    /// states of each sample
    count: usize,
}
/// What leads to each state at one step: from itself, from the one before, from the one before that, and all three.
struct StepShares {
    parts: [Tensor; 3],
    sum: Tensor,
}
impl<'t> AlignmentSteps<'t> {
    fn of(inputs: &'t [Tensor]) -> AlignmentSteps<'t> {
        let (shape, count) = (inputs[0].meta().shape, inputs[1].meta().shape[1]);
        let [emitted, label, skip, steps, labels] = [0, 1, 2, 3, 4].map(|k| &inputs[k]);
        AlignmentSteps { emitted, label, skip, steps, labels, time: shape[0], n: shape[1], classes: shape[2], count }
    }
    fn at(&self, t: usize) -> Tensor {
        self.emitted.narrow(0, t, 1).reshape([self.n, self.classes])
    }
    /// The log-probability of what each state emits, at a step of time.
    fn of_states(&self, t: usize) -> Tensor {
        let e = gather(&self.at(t), 1, self.label);
        e.lt(IMPOSSIBLE).where_(IMPOSSIBLE, &e)
    }
    /// May an alignment begin there?
    fn start(&self) -> Tensor {
        self.label.iota_like(1, DType::I64).lt(2)
    }
    /// Each state's value of the state `by` before it, or behind it; of those that have none `otherwise`.
    fn moved(&self, a: &Tensor, by: usize, ahead: bool, otherwise: f64) -> Tensor {
        let by = by.min(self.count);
        let m = a.meta();
        let none = Tensor::full_on([self.n, by], Scalar::Float(otherwise), m.dtype, m.device);
        if by == self.count {
            return none;
        }
        let rest = a.narrow(1, if ahead { by } else { 0 }, self.count - by);
        Tensor::apply(Op::Concat { axis: 1 }, Arg::None, &if ahead { [&rest, &none] } else { [&none, &rest] })
    }
    /// The logarithm of each state's probability at each step, over all paths that lead to it, and how they meet there from the second
    /// step on. Behind the end of a sample's time it stays what it was.
    fn reached(&self) -> (Vec<Tensor>, Vec<StepShares>) {
        let first = self.of_states(0);
        // From states behind the end nothing comes back.
        let inside = self.label.iota_like(1, DType::I64).le(self.labels * 2i64);
        let mut alphas = vec![self.start().logical_and(&inside).where_(&first, IMPOSSIBLE)];
        let mut shares = Vec::new();
        for t in 1..self.time {
            let stay = &alphas[t - 1];
            let one = self.moved(stay, 1, false, IMPOSSIBLE);
            let two = self.skip.where_(self.moved(stay, 2, false, IMPOSSIBLE), IMPOSSIBLE);
            let max = stay.maximum(&one).maximum(&two).detach();
            let parts = [(stay - &max).exp(), (one - &max).exp(), (two - &max).exp()];
            let sum = &parts[0] + &parts[1] + &parts[2];
            let next = sum.log() + max + self.of_states(t);
            let next = next.lt(IMPOSSIBLE).where_(IMPOSSIBLE, &next);
            alphas.push(self.steps.gt(t as i64).logical_and(&inside).where_(&next, stay));
            shares.push(StepShares { parts, sum });
        }
        (alphas, shares)
    }
    /// The last state and the one before, and what they add to the total.
    fn ends(&self, alpha: &Tensor) -> ([Tensor; 2], [Tensor; 2], Tensor) {
        let last = self.labels * 2i64;
        let before = (&last - 1i64).maximum(0i64);
        let end = gather(alpha, 1, &last);
        let label_end = self.labels.gt(0).where_(gather(alpha, 1, &before), IMPOSSIBLE);
        let max = end.maximum(&label_end).detach();
        ([last, before], [(end - &max).exp(), (label_end - &max).exp()], max)
    }
    /// The logarithm of the probability of all alignments. Without a step of time only the empty labelling is possible.
    fn total(&self, alpha: &Tensor) -> Tensor {
        let (_, [end, label_end], max) = self.ends(alpha);
        let total = (end + label_end).log() + max;
        self.steps.gt(0).where_(&total, self.labels.eq(0).where_(Tensor::full_on([self.n, 1], 0, total.meta().dtype, total.meta().device), IMPOSSIBLE))
    }
    /// The cotangent of the log-probabilities for one of the total: backwards along the paths, to which each state leads as much as it
    /// has of their sum.
    fn back(&self, g: &Tensor) -> Tensor {
        let (alphas, shares) = self.reached();
        let last_alpha = &alphas[self.time - 1];
        let ([last, before], [end, label_end], _) = self.ends(last_alpha);
        let of_all = self.steps.gt(0).where_(g, 0.0) / (&end + &label_end);
        let mut d = last_alpha.full_like(0.0).scatter_add(1, &last, &(&of_all * end));
        d = d.scatter_add(1, &before, &self.labels.gt(0).where_(of_all * label_end, 0.0));
        // What a softmax gives sums to 1: what one class gains the others lose.
        let emitted = |t: usize, d: &Tensor| {
            let lost = self.steps.gt(t as i64).where_((self.at(t).exp() * g).neg(), 0.0);
            lost.scatter_add(1, self.label, d)
        };
        let mut all = Vec::new();
        for t in (1..self.time).rev() {
            let StepShares { parts: [stay, one, two], sum } = &shares[t - 1];
            let live = self.steps.gt(t as i64);
            let now = live.where_(&d, 0.0);
            all.push(emitted(t, &now));
            let share = &now / sum;
            let leaps = self.skip.where_(&share * two, 0.0);
            d = live.where_(0.0, &d) + &share * stay + self.moved(&(&share * one), 1, true, 0.0) + self.moved(&leaps, 2, true, 0.0);
        }
        all.push(emitted(0, &self.start().where_(&d, 0.0)));
        all.reverse();
        Tensor::stack(&all, 0)
    }
}

impl Compound for CtcAlignments {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let of = AlignmentSteps::of(inputs);
        let alphas = of.reached().0;
        Ok(vec![of.total(&alphas[of.time - 1]), Tensor::stack(&alphas, 0)])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves { outputs: 0b10, ..Saves::inputs(5) })
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let mut out: Cotangents = smallvec![None; 5];
        let Some(g) = &args.cotangents[0] else { return Ok(out) };
        if args.needs[0] {
            let [emitted, label, skip, steps, labels] = [0, 1, 2, 3, 4].map(|k| args.input(k));
            out[0] = Some(Tensor::composite1(CtcAlignmentsBackward, &[g, emitted?, label?, skip?, steps?, labels?, args.output(1)?]));
        }
        Ok(out)
    }
}
impl Compound for CtcAlignmentsBackward {
    /// What was reached is made again, so that it is differentiable here too.
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![AlignmentSteps::of(&inputs[1..]).back(&inputs[0])])
    }
}
