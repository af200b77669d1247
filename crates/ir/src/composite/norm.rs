//! Normalisations over groups of elements, their gradient, and batch normalisation in inference.
use super::{
    Attr, Attrs, Composite,
    wide::{floats, wide},
};
use crate::{AxisSet, ErrorKind, Shape, TensorType, Types};
use smallvec::smallvec;

/// What is normalised together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The last `axes` axes; outputs y and, auxiliary, mean and 1 / standard deviation, `[outer, 1]`.
    Layer {
        /// how many
        axes: usize,
    },
    /// The last `axes` axes without subtracting the mean; auxiliary output: 1 / root mean square, `[outer, 1]`.
    Rms {
        /// how many
        axes: usize,
    },
    /// Groups of channels of each sample; auxiliary outputs: mean and 1 / standard deviation, `[samples, groups, 1]`.
    Group {
        /// how many
        groups: usize,
    },
    /// Each channel over the batch; outputs y, mean and biased variance, `[channels]`, which running statistics need.
    Batch,
}

/// How a norm sees its input.
pub struct NormSpace {
    /// the input's shape with the axes brought together
    pub view: Shape,
    /// the axes of the view that are normalised together
    pub axes: AxisSet,
    /// the shape of weight and bias
    pub param: Shape,
    /// weight and bias as they broadcast to the input
    pub broadcast: Shape,
    /// axes of the input over which the cotangent of weight and bias is summed
    pub summed: AxisSet,
    /// elements behind one statistic
    pub count: usize,
}

impl Norm {
    /// How it sees an input of this shape.
    ///
    /// # Errors
    /// A shape that it cannot normalise.
    pub fn seen(&self, shape: &Shape) -> Result<NormSpace, ErrorKind> {
        let rank = shape.rank();
        let channels_last = |s: &Shape| -> Result<(Shape, Shape, AxisSet), ErrorKind> {
            let param = Shape::new(&[s[1]])?;
            let broadcast = Shape::along(0, s[1], rank - 1);
            let mut summed = AxisSet::all(rank);
            summed.0 &= !0b10;
            Ok((param, broadcast, summed))
        };
        match self.over {
            Over::Layer { axes } | Over::Rms { axes } => {
                if axes == 0 || axes > rank {
                    return Err(ErrorKind::Shape { shape: *shape, expected: format!("at least {} axes to normalise over", axes.max(1)) });
                }
                let (outer, inner) = shape.split_at(rank - axes);
                let count = inner.iter().product();
                let view = Shape::new(&[outer.iter().product(), count])?;
                let param = Shape::new(inner)?;
                Ok(NormSpace { view, axes: AxisSet::one(1), param, broadcast: param, summed: AxisSet::all(rank - axes), count })
            }
            Over::Group { groups } => {
                if rank < 2 {
                    return Err(ErrorKind::Shape { shape: *shape, expected: "a batch of channels [samples, channels, ..]".into() });
                }
                if groups == 0 || !shape[1].is_multiple_of(groups) {
                    return Err(ErrorKind::Shape { shape: *shape, expected: format!("axis 1 divisible into {groups} groups") });
                }
                let (param, broadcast, summed) = channels_last(shape)?;
                let count = shape[1] / groups * shape[2..].iter().product::<usize>();
                Ok(NormSpace { view: Shape::new(&[shape[0], groups, count])?, axes: AxisSet::one(2), param, broadcast, summed, count })
            }
            Over::Batch => {
                if rank < 2 {
                    return Err(ErrorKind::Shape { shape: *shape, expected: "a batch of channels [samples, channels, ..]".into() });
                }
                let (param, broadcast, summed) = channels_last(shape)?;
                let inner: usize = shape[2..].iter().product();
                let count = shape[0].saturating_mul(inner);
                if count == 1 {
                    return Err(ErrorKind::Shape { shape: *shape, expected: "more than one value per channel to take statistics of".into() });
                }
                Ok(NormSpace { view: Shape::new(&[shape[0], shape[1], inner])?, axes: AxisSet(0b101), param, broadcast, summed, count })
            }
        }
    }
    /// Is the mean subtracted?
    pub fn centered(&self) -> bool {
        !matches!(self.over, Over::Rms { .. })
    }
    /// How many statistics there are.
    pub fn statistics(&self) -> usize {
        if self.centered() { 2 } else { 1 }
    }
    fn attributes(&self) -> Attrs {
        let size = match self.over {
            Over::Layer { axes } | Over::Rms { axes } => ("axes", Attr::Int(axes as i64)),
            Over::Group { groups } => ("groups", Attr::Int(groups as i64)),
            Over::Batch => ("training", Attr::Bool(true)),
        };
        smallvec![size, ("eps", Attr::Float(self.eps)), ("weight", Attr::Bool(self.weight)), ("bias", Attr::Bool(self.bias))]
    }
    /// Shapes of the statistics: as the view keeps them, `[channels]` for a batch norm, whose statistics are the user's.
    pub fn statistic_shape(&self, seen: &NormSpace) -> Shape {
        if self.over == Over::Batch { seen.param } else { seen.axes.iter().fold(seen.view, |s, a| s.with(a, 1)) }
    }
}
/// A weight or bias has the features' shape, and the input's dtype or the one the norm computes in.
fn check_param(x: &TensorType, p: &TensorType, shape: &Shape) -> Result<(), ErrorKind> {
    if p.dtype != x.dtype && p.dtype != wide(x.dtype) {
        return Err(ErrorKind::DtypeMismatch { left: x.dtype, right: p.dtype });
    }
    if p.shape != *shape {
        return Err(ErrorKind::ShapeMismatch {
            left: x.shape,
            right: p.shape,
            axes: None,
            expected: "weight and bias have the shape of the normalised features",
        });
    }
    Ok(())
}

/// Inputs: x, then weight and bias where there are. Statistics are f32 for 16-bit floats.
#[derive(Clone, Copy, Debug)]
pub struct Norm {
    /// what is normalised together
    pub over: Over,
    /// added to the variance
    pub eps: f64,
    /// is there a weight?
    pub weight: bool,
    /// is there a bias?
    pub bias: bool,
}

/// Inputs: the cotangent of y, x, weight where there is one, then the statistics that [`Norm`] gives. Outputs: the
/// cotangents of x and, where there are, of weight and bias.
#[derive(Clone, Copy, Debug)]
pub struct NormBackward(pub Norm);

/// Inputs: x, running mean and variance `[channels]`, then weight and bias where there are.
#[derive(Clone, Copy, Debug)]
pub struct BatchNormInference {
    /// added to the variance
    pub eps: f64,
    /// is there a weight?
    pub weight: bool,
    /// is there a bias?
    pub bias: bool,
}

impl Composite for Norm {
    fn name(&self) -> &'static str {
        match self.over {
            Over::Layer { .. } => "adamant.layer_norm",
            Over::Rms { .. } => "adamant.rms_norm",
            Over::Group { .. } => "adamant.group_norm",
            Over::Batch => "adamant.batch_norm",
        }
    }
    fn attrs(&self) -> Attrs {
        self.attributes()
    }
    fn auxiliary(&self) -> usize {
        if self.over == Over::Batch { 0 } else { self.statistics() }
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let x = floats(&inputs[0])?;
        let seen = self.seen(&x.shape)?;
        for p in &inputs[1..] {
            check_param(&x, p, &seen.param)?;
        }
        let statistic = TensorType { shape: self.statistic_shape(&seen), dtype: wide(x.dtype) };
        let mut out = smallvec![x];
        out.extend(std::iter::repeat_n(statistic, self.statistics()));
        Ok(out)
    }
}

impl Composite for NormBackward {
    fn name(&self) -> &'static str {
        match self.0.over {
            Over::Layer { .. } => "adamant.layer_norm_backward",
            Over::Rms { .. } => "adamant.rms_norm_backward",
            Over::Group { .. } => "adamant.group_norm_backward",
            Over::Batch => "adamant.batch_norm_backward",
        }
    }
    fn attrs(&self) -> Attrs {
        self.0.attributes()
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let x = inputs[1];
        let seen = self.0.seen(&x.shape)?;
        let mut out = smallvec![x];
        let param = |dtype| TensorType { shape: seen.param, dtype };
        if self.0.weight {
            out.push(param(inputs[2].dtype));
        }
        if self.0.bias {
            out.push(param(if self.0.weight { inputs[2].dtype } else { x.dtype }));
        }
        Ok(out)
    }
}

impl Composite for BatchNormInference {
    fn name(&self) -> &'static str {
        "adamant.batch_norm_inference"
    }
    fn attrs(&self) -> Attrs {
        smallvec![("eps", Attr::Float(self.eps)), ("weight", Attr::Bool(self.weight)), ("bias", Attr::Bool(self.bias))]
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let x = floats(&inputs[0])?;
        if x.shape.rank() < 2 {
            return Err(ErrorKind::Shape { shape: x.shape, expected: "a batch of channels [samples, channels, ..]".into() });
        }
        let param = Shape::new(&[x.shape[1]])?;
        for p in &inputs[1..] {
            check_param(&x, p, &param)?;
        }
        Ok(smallvec![x])
    }
}
