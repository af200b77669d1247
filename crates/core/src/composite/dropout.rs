//! Inverted dropout: each element is zero with probability p, else divided by 1 - p. One 24-bit draw per element,
//! of the stream that `Rng::uniform` reads, is compared with p. The mask is drawn again in the backward from the
//! key, 16 bytes, so nothing of the tensor's size is saved; and since the map is linear, it is its own rule.
use super::{Compound, RuleArgs, Saves, StackedInput, whole};
use crate::{Arg, DType, Op, Result, Shape, Tensor, composite::Cotangents};
pub use adamant_ir::composite::dropout::*;
use smallvec::smallvec;

/// 1 / (1 - p) where the draw keeps the element, 0 elsewhere, in f32 or f64.
pub(crate) fn keep_factors(key: &Tensor, shape: Shape, p: f64, dtype: DType) -> Tensor {
    let bits = Tensor::apply(Op::RandomBits { shape }, Arg::None, &[key]);
    let uniform = bits.bitwise_right_shift(8u32).cast(DType::F32) * (1.0 / 16_777_216.0);
    let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
    let kept = Tensor::full_on((), scale, dtype, key.meta().device);
    uniform.lt(p).where_(0.0, &kept)
}

impl Compound for Dropout {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let x = &inputs[0];
        let wide = x.widened();
        let factors = keep_factors(&inputs[1], x.meta().shape, self.p, wide.meta().dtype);
        Ok(vec![(wide * factors).cast(x.meta().dtype)])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves { inputs: 0b10, outputs: 0 })
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let Some(g) = &args.cotangents[0] else { return Ok(smallvec![None, None]) };
        Ok(smallvec![Some(Tensor::composite1(*self, &[g, args.input(1)?])), None])
    }
    /// With one key, each example's draw is its part of a longer one.
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        let [x, StackedInput { tensor: key, batched: false }] = inputs else { return None };
        Some(Ok(whole(*self, &[&x.of_each(examples), key])))
    }
}
