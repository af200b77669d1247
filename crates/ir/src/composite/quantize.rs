//! Quantization as training sees it.
use super::{Attr, Attrs, Composite, wide::floats};
use crate::{ErrorKind, TensorType, Types};
use smallvec::smallvec;

/// Inputs: x, scale and zero point (floats in the dtype x computes in): single numbers, or one per index of `axis`.
#[derive(Clone, Copy, Debug)]
pub struct FakeQuantize {
    /// smallest step of the grid
    pub quant_min: i64,
    /// largest step of the grid
    pub quant_max: i64,
    /// the axis that has its own scales
    pub axis: Option<usize>,
}

impl Composite for FakeQuantize {
    fn name(&self) -> &'static str {
        "adamant.fake_quantize"
    }
    fn attrs(&self) -> Attrs {
        let range = [("quant_min", Attr::Int(self.quant_min)), ("quant_max", Attr::Int(self.quant_max))];
        range.into_iter().chain(self.axis.map(|a| ("axis", Attr::Int(a as i64)))).collect()
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let x = floats(&inputs[0])?;
        if self.quant_min > self.quant_max {
            return Err(ErrorKind::Argument(format!("quant_min {} is greater than quant_max {}", self.quant_min, self.quant_max)));
        }
        if self.axis.is_some_and(|a| a >= x.shape.rank()) {
            return Err(ErrorKind::Axis { axis: self.axis.map_or(0, |a| a as isize), rank: x.shape.rank() });
        }
        let wanted = self.axis.map_or(1, |a| x.shape[a]);
        for p in &inputs[1..] {
            if p.dtype != super::wide::wide(x.dtype) {
                return Err(ErrorKind::DtypeMismatch { left: super::wide::wide(x.dtype), right: p.dtype });
            }
            if p.shape.elements() != wanted || p.shape.rank() > 1 {
                return Err(ErrorKind::ShapeMismatch {
                    left: x.shape,
                    right: p.shape,
                    axes: None,
                    expected: "one scale and zero point, or one for each index of the axis",
                });
            }
        }
        Ok(smallvec![x])
    }
}
