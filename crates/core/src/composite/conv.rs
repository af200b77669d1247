//! A convolution with its bias: a composite, so that the sum is rounded once and a backend can add the bias where it
//! stores. Without a bias the primitive stands alone.
use super::{
    Attr, Attrs, Composite, RuleArgs, Saves, StackedInput, of_samples,
    wide::{one_device, same_dtype},
};
use crate::{
    Arg, AxisSet, ErrorKind, Meta, Op, Result, Shape, Tensor,
    composite::Cotangents,
    op::{ConvRole, ConvSpec, Metas},
};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Inputs: the two of the convolution (role forward or input gradient) and a bias of one element per output channel.
#[derive(Clone, Debug)]
pub struct BiasedConv(pub Arc<ConvSpec>);

impl BiasedConv {
    fn product(&self, role: ConvRole, open: &[usize], a: &Tensor, b: &Tensor) -> Tensor {
        Tensor::apply(Op::conv(ConvSpec { role, open: SmallVec::from_slice(open), ..(*self.0).clone() }), Arg::None, &[a, b])
    }
}
impl Composite for BiasedConv {
    fn name(&self) -> &'static str {
        if self.0.role == ConvRole::Forward { "adamant.conv" } else { "adamant.conv_transpose" }
    }
    fn attrs(&self) -> Attrs {
        let ints = |it: &[usize]| Attr::Ints(it.iter().map(|&v| v as i64).collect());
        let padding: SmallVec<[usize; 6]> = self.0.padding.iter().flat_map(|&(lo, hi)| [lo, hi]).collect();
        smallvec![
            ("stride", ints(&self.0.stride)),
            ("padding", ints(&padding)),
            ("dilation", ints(&self.0.dilation)),
            ("groups", Attr::Int(self.0.groups as i64)),
            ("open", ints(&self.0.open)),
        ]
    }
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> {
        one_device(inputs)?;
        let out = Op::Conv(self.0.clone()).infer(&inputs[..2])?[0];
        same_dtype(&inputs[0], &inputs[2])?;
        if *inputs[2].shape != [out.shape[1]] {
            return Err(ErrorKind::ShapeMismatch {
                left: inputs[1].shape,
                right: inputs[2].shape,
                axes: None,
                expected: "the bias has one element per output channel",
            });
        }
        Ok(smallvec![out])
    }
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let y = self.product(self.0.role, &self.0.open, &inputs[0].widened(), &inputs[1].widened());
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
            args.needs[0].then(|| if forward { self.product(ConvRole::InputGrad, spatial(0), g, w) } else { self.product(ConvRole::Forward, &[], g, w) }),
            args.needs[1].then(|| if forward {
                self.product(ConvRole::WeightGrad, spatial(1), a, g)
            } else {
                self.product(ConvRole::WeightGrad, spatial(1), g, a)
            }),
            args.needs[2].then(|| g.widened().sum(channels).cast(args.metas[2].dtype)),
        ])
    }
    fn stacked(&self, inputs: &[StackedInput], _: usize) -> Option<Result<Vec<Tensor>>> {
        of_samples(self.clone(), inputs)
    }
}
