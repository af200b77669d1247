//! A convolution with its bias: a composite, so that the sum is rounded once and a backend can add the bias where it
//! stores. Without a bias the primitive stands alone.
use super::{Compound, RuleArgs, Saves, StackedInput, of_samples};
use crate::{
    Arg, AxisSet, Result, Shape, Tensor,
    composite::Cotangents,
    op::{ConvRole, ConvSpec},
};
pub use adamant_ir::composite::conv::*;
use smallvec::{SmallVec, smallvec};

fn product(of: &BiasedConv, role: ConvRole, open: &[usize], a: &Tensor, b: &Tensor) -> Tensor {
    Tensor::apply(crate::specs::conv_op(ConvSpec { role, open: SmallVec::from_slice(open), ..(*of.0).clone() }), Arg::None, &[a, b])
}
impl Compound for BiasedConv {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let y = product(self, self.0.role, &self.0.open, &inputs[0].widened(), &inputs[1].widened());
        let dims = Shape::along(0, inputs[2].meta().shape[0], self.0.spatial() + 1);
        Ok(vec![(y + inputs[2].widened().reshape(dims)).cast(inputs[0].meta().dtype)])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::inputs(2))
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let Some(g) = &args.cotangents[0] else { return Ok(smallvec![None; 3]) };
        let (a, w) = (args.input(0)?, args.input(1)?);
        let spatial = |k: usize| &args.metas[k].shape[2..];
        let forward = self.0.role == ConvRole::Forward;
        let mut channels = AxisSet::all(args.metas[0].shape.rank());
        channels.0 &= !0b10;
        Ok(smallvec![
            args.needs[0].then(|| if forward { product(self, ConvRole::InputGrad, spatial(0), g, w) } else { product(self, ConvRole::Forward, &[], g, w) }),
            args.needs[1].then(|| if forward {
                product(self, ConvRole::WeightGrad, spatial(1), &args.operand(1, a), &args.operand(1, g))
            } else {
                product(self, ConvRole::WeightGrad, spatial(1), &args.operand(1, g), &args.operand(1, a))
            }),
            args.needs[2].then(|| args.rounded(2, g.widened().sum(channels))),
        ])
    }
    fn stacked(&self, inputs: &[StackedInput], _: usize) -> Option<Result<Vec<Tensor>>> {
        of_samples(self.clone(), inputs)
    }
}
