//! Softmax, its logarithm, and their gradients.
use super::{
    Attr, Attrs, Composite,
    wide::{floats, same_dtype},
};
use crate::{ErrorKind, TensorType, Types};
use smallvec::smallvec;

fn attrs(axis: usize) -> Attrs {
    smallvec![("axis", Attr::Int(axis as i64))]
}
fn infer(inputs: &[TensorType], axis: usize) -> Result<Types, ErrorKind> {
    let m = floats(&inputs[0])?;
    m.shape.axis(axis as isize)?;
    if let Some(y) = inputs.get(1) {
        same_dtype(&m, y)?;
    }
    Ok(smallvec![m])
}

/// `exp(x) / sum(exp(x))` along the axis.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    /// the axis
    pub axis: usize,
}

/// `x - log(sum(exp(x)))` along the axis.
#[derive(Clone, Copy, Debug)]
pub struct LogSoftmax {
    /// the axis
    pub axis: usize,
}

/// Inputs: the cotangent of y, and y. `y (g - sum(g y))`.
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxBackward {
    /// the axis
    pub axis: usize,
}

/// Inputs: the cotangent of y, and x. `g - softmax(x) sum(g)`.
#[derive(Clone, Copy, Debug)]
pub struct LogSoftmaxBackward {
    /// the axis
    pub axis: usize,
}

impl Composite for Softmax {
    fn name(&self) -> &'static str {
        "adamant.softmax"
    }
    fn attrs(&self) -> Attrs {
        attrs(self.axis)
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        infer(inputs, self.axis)
    }
}

impl Composite for SoftmaxBackward {
    fn name(&self) -> &'static str {
        "adamant.softmax_backward"
    }
    fn attrs(&self) -> Attrs {
        attrs(self.axis)
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        infer(inputs, self.axis)
    }
}

impl Composite for LogSoftmax {
    fn name(&self) -> &'static str {
        "adamant.log_softmax"
    }
    fn attrs(&self) -> Attrs {
        attrs(self.axis)
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        infer(inputs, self.axis)
    }
}

impl Composite for LogSoftmaxBackward {
    fn name(&self) -> &'static str {
        "adamant.log_softmax_backward"
    }
    fn attrs(&self) -> Attrs {
        attrs(self.axis)
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        infer(inputs, self.axis)
    }
}
