//! A convolution with its bias.
use super::{Attr, Attrs, Composite, wide::same_dtype};
use crate::{
    ErrorKind, TensorType, Types,
    op::{ConvRole, ConvSpec},
};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Inputs: the two of the convolution (role forward or input gradient) and a bias of one element per output channel.
#[derive(Clone, Debug)]
pub struct BiasedConv(pub Arc<ConvSpec>);

impl Composite for BiasedConv {
    fn name(&self) -> &'static str {
        if self.0.role == ConvRole::Forward { "adamant.conv" } else { "adamant.conv_transpose" }
    }
    fn attrs(&self) -> Attrs {
        attrs(&self.0)
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let out = TensorType { shape: self.0.infer(&inputs[..2])?, ..inputs[0] };
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
}
/// The attributes of a convolution.
pub(super) fn attrs(conv: &ConvSpec) -> Attrs {
    let ints = |it: &[usize]| Attr::Ints(it.iter().map(|&v| v as i64).collect());
    let padding: SmallVec<[usize; 6]> = conv.padding.iter().flat_map(|&(lo, hi)| [lo, hi]).collect();
    smallvec![
        ("stride", ints(&conv.stride)),
        ("padding", ints(&padding)),
        ("dilation", ints(&conv.dilation)),
        ("groups", Attr::Int(conv.groups as i64)),
        ("open", ints(&conv.open)),
    ]
}
