//! The inverse of gather: a source combined into a destination by index along an axis.
use super::{Backward, Batching, Forward, Stacks, gather::gather};
use crate::{
    Arg, Op, Result, Tensor,
    composite::{Cotangents, Saves},
    op::ScatterMode,
};
use smallvec::smallvec;

type Fields<'a> = (&'a u8, &'a ScatterMode);

pub(super) fn scatter(axis: u8, mode: ScatterMode, x: &Tensor, index: &Tensor, source: &Tensor) -> Tensor {
    Tensor::apply(Op::Scatter { axis, mode }, Arg::None, &[x, index, source])
}
pub(super) fn reads((_, mode): Fields<'_>) -> Option<Saves> {
    Some(match mode {
        ScatterMode::Set | ScatterMode::Add => Saves { inputs: 0b010, outputs: 0 },
        ScatterMode::Mul => Saves { inputs: 0b111, outputs: 0 },
        ScatterMode::Max | ScatterMode::Min => Saves { inputs: 0b111, outputs: 1 },
    })
}
/// The product over the others, for the destination and for the source: the product of what is not zero, by the factor where
/// that is not zero, and nothing where another factor is. Counts of zeros tell which.
struct OtherFactors {
    rest: Tensor,
    zeros: Tensor,
    zero: [Tensor; 2],
    full: [Tensor; 2],
}
impl OtherFactors {
    fn new(axis: u8, x: &Tensor, index: &Tensor, s: &Tensor) -> OtherFactors {
        let dtype = x.meta().dtype;
        let zero = [x.eq(0.0), s.eq(0.0)];
        let full = [zero[0].where_(1.0, x), zero[1].where_(1.0, s)];
        let rest = scatter(axis, ScatterMode::Mul, &full[0], index, &full[1]);
        let zeros = scatter(axis, ScatterMode::Add, &zero[0].cast(dtype), index, &zero[1].cast(dtype));
        OtherFactors { rest, zeros, zero, full }
    }
    fn by(&self, side: usize, zeros: &Tensor, rest: &Tensor) -> Tensor {
        let zero = &self.zero[side];
        (zeros - zero.cast(zeros.meta().dtype)).eq(0.0).where_(rest / &self.full[side], 0.0)
    }
}
pub(super) fn gradient((axis, mode): Fields<'_>, back: &Backward<'_>) -> Result<Cotangents> {
    let (args, g, axis) = (back.args, back.cotangent, *axis);
    let index = args.input(1)?;
    let at = |x: &Tensor| gather(axis, x, index);
    Ok(match mode {
        ScatterMode::Add => smallvec![Some(g.clone()), None, back.needs(2).then(|| at(g))],
        ScatterMode::Set => {
            let zeros = back.zeros(2);
            smallvec![back.needs(0).then(|| scatter(axis, ScatterMode::Set, g, index, &zeros)), None, back.needs(2).then(|| at(g))]
        }
        ScatterMode::Mul => {
            let others = OtherFactors::new(axis, args.input(0)?, index, args.input(2)?);
            let rest = g * &others.rest;
            smallvec![back.needs(0).then(|| others.by(0, &others.zeros, &rest)), None, back.needs(2).then(|| others.by(1, &at(&others.zeros), &at(&rest))),]
        }
        ScatterMode::Max | ScatterMode::Min => {
            let (x, s, y) = (args.input(0)?, args.input(2)?, args.output(0)?);
            let hit_x = x.eq(y).cast(g.meta().dtype);
            let hit_s = s.eq(&at(y)).cast(g.meta().dtype);
            let count = scatter(axis, ScatterMode::Add, &hit_x, index, &hit_s);
            let share = g / count;
            smallvec![back.needs(0).then(|| hit_x * &share), None, back.needs(2).then(|| hit_s * at(&share))]
        }
    })
}
pub(super) fn tangent((axis, mode): Fields<'_>, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    let (into, index, source, y, axis) = (forward.primal(0), forward.primal(1), forward.primal(2), &forward.outputs[0], *axis);
    let (t, s) = (forward.tangent(0), forward.tangent(2));
    Ok(Some(match mode {
        ScatterMode::Set | ScatterMode::Add => scatter(axis, *mode, &forward.moved(0), index, &forward.moved(2)),
        ScatterMode::Mul => {
            // Each factor moves the product of the others.
            let others = OtherFactors::new(axis, into, index, source);
            let of_x = t.map(|t| t * others.by(0, &others.zeros, &others.rest));
            let of_s = s.map(|s| s * others.by(1, &gather(axis, &others.zeros, index), &gather(axis, &others.rest, index)));
            let base = of_x.unwrap_or_else(|| y.zeros_like());
            of_s.map_or(base.clone(), |s| scatter(axis, ScatterMode::Add, &base, index, &s))
        }
        ScatterMode::Max | ScatterMode::Min => {
            let dtype = y.meta().dtype;
            let (hit_x, hit_s) = (into.eq(y).cast(dtype), source.eq(&gather(axis, y, index)).cast(dtype));
            let count = scatter(axis, ScatterMode::Add, &hit_x, index, &hit_s);
            let base = t.map_or_else(|| y.zeros_like(), |t| &hit_x * t);
            s.map_or(base.clone(), |s| scatter(axis, ScatterMode::Add, &base, index, &(&hit_s * s))) / count
        }
    }))
}
pub(super) fn batched((axis, mode): Fields<'_>, batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_stacks(Op::Scatter { axis: axis + 1, mode: *mode })
}
