//! The logarithm of a sum of exponentials.
use super::{Attr, Attrs, Composite, wide::floats};
use crate::{AxisSet, ErrorKind, TensorType, Types};
use smallvec::smallvec;

/// `log(sum(exp(x)))` over the axes, which keep size 1. -inf of nothing.
#[derive(Clone, Copy, Debug)]
pub struct LogSumExp {
    /// the axes
    pub axes: AxisSet,
}

impl Composite for LogSumExp {
    fn name(&self) -> &'static str {
        "adamant.logsumexp"
    }
    fn attrs(&self) -> Attrs {
        smallvec![("axes", Attr::Ints(self.axes.iter().map(|a| a as i64).collect()))]
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let m = floats(&inputs[0])?;
        Ok(smallvec![TensorType { shape: self.axes.iter().filter(|&a| a < m.shape.rank()).fold(m.shape, |s, a| s.with(a, 1)), ..m }])
    }
}
