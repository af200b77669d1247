//! Maps made of others: one after the other, side by side, of larger events, of events of another shape.
use super::{Transform, refused, sum_rightmost};
use crate::Constraint;
use adamant_core::{Error, Result, Shape, Tensor};
use std::sync::Arc;

/// Maps one after the other.
///
/// Source: `torch.distributions.transforms.ComposeTransform`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::transforms::{AffineTransform, ComposeTransform, ExpTransform, Transform};
/// # Device::reference().make_current();
/// let t = ComposeTransform::new(vec![Box::new(AffineTransform::new(&tensor![0.0], &tensor![2.0])?), Box::new(ExpTransform)]);
/// assert_eq!(t.log_abs_det_jacobian(&tensor![0.0], &tensor![1.0]).to_vec::<f32>()?, [2f32.ln()]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ComposeTransform(Arc<[Box<dyn Transform>]>);
impl ComposeTransform {
    /// The first is applied first; none is the identity.
    pub fn new(parts: Vec<Box<dyn Transform>>) -> ComposeTransform {
        ComposeTransform(parts.into())
    }
    /// A part's constraint on events as large as all parts need.
    fn widened(constraint: Constraint, rank: usize) -> Constraint {
        match rank.saturating_sub(constraint.event_rank()) {
            0 => constraint,
            more => Constraint::Independent(Box::new(constraint), more),
        }
    }
}
impl Transform for ComposeTransform {
    fn name(&self) -> &'static str {
        "ComposeTransform"
    }
    fn domain(&self) -> Constraint {
        let Some(last) = self.0.last() else { return Constraint::Real };
        let rank = self.0.iter().rev().fold(last.codomain().event_rank(), |rank, part| {
            let (from, to) = (part.domain().event_rank(), part.codomain().event_rank());
            (rank + from).saturating_sub(to).max(from)
        });
        self.0.first().map_or(Constraint::Real, |first| ComposeTransform::widened(first.domain(), rank))
    }
    fn codomain(&self) -> Constraint {
        let Some(first) = self.0.first() else { return Constraint::Real };
        let rank = self.0.iter().fold(first.domain().event_rank(), |rank, part| {
            let (from, to) = (part.domain().event_rank(), part.codomain().event_rank());
            (rank + to).saturating_sub(from).max(to)
        });
        self.0.last().map_or(Constraint::Real, |last| ComposeTransform::widened(last.codomain(), rank))
    }
    fn bijective(&self) -> bool {
        self.0.iter().all(|part| part.bijective())
    }
    fn sign(&self, like: &Tensor) -> Option<Tensor> {
        self.0.iter().try_fold(like.ones_like(), |sign, part| Some(sign * part.sign(like)?))
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        self.0.iter().fold(x.clone(), |x, part| part.forward(&x))
    }
    fn inverse(&self, y: &Tensor) -> Tensor {
        self.0.iter().rev().fold(y.clone(), |y, part| part.inverse(&y))
    }
    fn log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let mut rank = self.domain().event_rank();
        if self.0.is_empty() {
            return x.zeros_like();
        }
        let (mut at, mut sum): (Tensor, Option<Tensor>) = (x.clone(), None);
        for (k, part) in self.0.iter().enumerate() {
            let next = if k + 1 == self.0.len() { y.clone() } else { part.forward(&at) };
            let (from, to) = (part.domain().event_rank(), part.codomain().event_rank());
            let volume = sum_rightmost(&part.log_abs_det_jacobian(&at, &next), rank.saturating_sub(from));
            sum = Some(sum.map_or(volume.clone(), |sum| sum + volume));
            rank = (rank + to).saturating_sub(from);
            at = next;
        }
        sum.unwrap_or_else(|| x.zeros_like())
    }
    fn forward_shape(&self, shape: Shape) -> Result<Shape> {
        self.0.iter().try_fold(shape, |shape, part| part.forward_shape(shape))
    }
    fn inverse_shape(&self, shape: Shape) -> Result<Shape> {
        self.0.iter().rev().try_fold(shape, |shape, part| part.inverse_shape(shape))
    }
}

/// A map whose last batch axes are part of the event: volumes are summed over them.
///
/// Source: `torch.distributions.transforms.IndependentTransform`.
#[derive(Clone, Debug)]
pub struct IndependentTransform {
    base: Arc<dyn Transform>,
    axes: usize,
}
impl IndependentTransform {
    /// Takes so many axes into the event.
    pub fn new(base: impl Transform + 'static, axes: usize) -> IndependentTransform {
        IndependentTransform::of(Arc::new(base), axes)
    }
    pub(super) fn of(base: Arc<dyn Transform>, axes: usize) -> IndependentTransform {
        IndependentTransform { base, axes }
    }
}
impl Transform for IndependentTransform {
    fn name(&self) -> &'static str {
        "IndependentTransform"
    }
    fn domain(&self) -> Constraint {
        Constraint::Independent(Box::new(self.base.domain()), self.axes)
    }
    fn codomain(&self) -> Constraint {
        Constraint::Independent(Box::new(self.base.codomain()), self.axes)
    }
    fn bijective(&self) -> bool {
        self.base.bijective()
    }
    fn sign(&self, like: &Tensor) -> Option<Tensor> {
        self.base.sign(like)
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        self.base.forward(x)
    }
    fn inverse(&self, y: &Tensor) -> Tensor {
        self.base.inverse(y)
    }
    fn log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Tensor {
        sum_rightmost(&self.base.log_abs_det_jacobian(x, y), self.axes)
    }
    fn forward_shape(&self, shape: Shape) -> Result<Shape> {
        self.base.forward_shape(shape)
    }
    fn inverse_shape(&self, shape: Shape) -> Result<Shape> {
        self.base.inverse_shape(shape)
    }
}

/// Events of another shape, of as many numbers.
///
/// Source: `torch.distributions.transforms.ReshapeTransform`.
///
/// ```
/// # use adamant_core::{Device, Tensor};
/// use adamant_distributions::transforms::{ReshapeTransform, Transform};
/// # Device::reference().make_current();
/// assert_eq!(ReshapeTransform::new(&[2, 3], &[6])?.forward(&Tensor::zeros([4, 2, 3])).dims::<2>()?, [4, 6]);
/// assert!(ReshapeTransform::new(&[2, 3], &[5]).is_err());
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReshapeTransform {
    from: Vec<usize>,
    to: Vec<usize>,
}
impl ReshapeTransform {
    /// From events of one shape to those of another.
    ///
    /// # Errors
    /// They have different numbers of elements.
    #[track_caller]
    pub fn new(in_shape: &[usize], out_shape: &[usize]) -> Result<ReshapeTransform> {
        if in_shape.iter().product::<usize>() != out_shape.iter().product::<usize>() {
            return Err(refused("ReshapeTransform", format!("out_shape {out_shape:?} has not as many elements as in_shape {in_shape:?}")));
        }
        Ok(ReshapeTransform { from: in_shape.to_vec(), to: out_shape.to_vec() })
    }
    fn replaced(shape: &[usize], from: &[usize], to: &[usize]) -> Result<Vec<usize>> {
        match shape.strip_suffix(from) {
            Some(batch) => Ok([batch, to].concat()),
            None => Err(refused("ReshapeTransform", format!("events of {from:?}, not {shape:?}"))),
        }
    }
    fn reshaped(x: &Tensor, from: &[usize], to: &[usize]) -> Tensor {
        x.shape().and_then(|shape| Ok(x.reshape(&ReshapeTransform::replaced(&shape, from, to)?[..]))).unwrap_or_else(Tensor::failed)
    }
}
fn real(axes: usize) -> Constraint {
    if axes == 0 { Constraint::Real } else { Constraint::Independent(Box::new(Constraint::Real), axes) }
}
impl Transform for ReshapeTransform {
    fn name(&self) -> &'static str {
        "ReshapeTransform"
    }
    fn domain(&self) -> Constraint {
        real(self.from.len())
    }
    fn codomain(&self) -> Constraint {
        real(self.to.len())
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        ReshapeTransform::reshaped(x, &self.from, &self.to)
    }
    fn inverse(&self, y: &Tensor) -> Tensor {
        ReshapeTransform::reshaped(y, &self.to, &self.from)
    }
    fn log_abs_det_jacobian(&self, x: &Tensor, _y: &Tensor) -> Tensor {
        sum_rightmost(&x.zeros_like(), self.from.len())
    }
    fn forward_shape(&self, shape: Shape) -> Result<Shape> {
        let dims = ReshapeTransform::replaced(&shape, &self.from, &self.to)?;
        Shape::new(&dims).map_err(|kind| Error::new("ReshapeTransform", kind))
    }
    fn inverse_shape(&self, shape: Shape) -> Result<Shape> {
        let dims = ReshapeTransform::replaced(&shape, &self.to, &self.from)?;
        Shape::new(&dims).map_err(|kind| Error::new("ReshapeTransform", kind))
    }
}

/// Volumes of parts that lie along an axis from the end: side by side if it is the batch's, else summed.
fn along(volumes: Vec<(Tensor, usize)>, axis: isize, join: impl FnOnce(&[Tensor], isize) -> Tensor) -> Tensor {
    let rank = volumes.iter().map(|v| v.1).max().unwrap_or(0);
    let all: Vec<Tensor> = volumes.iter().map(|(v, of)| sum_rightmost(v, rank - of)).collect();
    let at = axis + rank as isize;
    if at < 0 {
        return join(&all, at);
    }
    match all.split_first() {
        Some((first, rest)) => rest.iter().fold(first.clone(), |sum, v| sum + v),
        None => Tensor::failed(refused("CatTransform", "a map without parts")),
    }
}
fn all_signs(parts: &[Box<dyn Transform>], like: impl Fn(usize) -> Tensor, join: impl FnOnce(&[Tensor]) -> Tensor) -> Option<Tensor> {
    let of = |k: usize| {
        let part = parts.get(k)?;
        let like = like(k);
        Some(part.sign(&like)? * like.ones_like())
    };
    let signs: Vec<Tensor> = (0..parts.len()).map(of).collect::<Option<_>>()?;
    Some(join(&signs))
}

/// Stretches of an axis, each mapped by a map of its own.
///
/// Source: `torch.distributions.transforms.CatTransform`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::transforms::{AbsTransform, CatTransform, ExpTransform, Transform};
/// # Device::reference().make_current();
/// let t = CatTransform::new(vec![(Box::new(ExpTransform), 1), (Box::new(AbsTransform), 2)], -1)?;
/// assert_eq!(t.forward(&tensor![0.0, -1.0, 2.0]).to_vec::<f32>()?, [1.0, 1.0, 2.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CatTransform {
    parts: Arc<[Box<dyn Transform>]>,
    lengths: Vec<usize>,
    axis: isize,
}
impl CatTransform {
    /// The maps with how many elements each takes, along an axis from the end (-1 is the last).
    ///
    /// # Errors
    /// No part; an axis that is not counted from the end.
    #[track_caller]
    pub fn new(parts: Vec<(Box<dyn Transform>, usize)>, axis: isize) -> Result<CatTransform> {
        check_parts("CatTransform", parts.len(), axis)?;
        let (parts, lengths): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        Ok(CatTransform { parts: parts.into(), lengths, axis })
    }
    fn stretches(&self, x: &Tensor) -> Vec<Tensor> {
        let mut at = 0;
        self.lengths
            .iter()
            .map(|len| {
                at += len;
                x.narrow(self.axis, at - len, *len)
            })
            .collect()
    }
    fn mapped(&self, x: &Tensor, f: impl Fn(&dyn Transform, &Tensor) -> Tensor) -> Tensor {
        let total: usize = self.lengths.iter().sum();
        match x.shape() {
            Ok(shape) if shape.rank() >= self.axis.unsigned_abs() && shape[shape.rank() - self.axis.unsigned_abs()] == total => {}
            Ok(shape) => return Tensor::failed(refused("CatTransform", format!("axis {} of {total} elements, not of {shape}", self.axis))),
            Err(e) => return Tensor::failed(e),
        }
        let all: Vec<Tensor> = self.parts.iter().zip(self.stretches(x)).map(|(part, x)| f(part.as_ref(), &x)).collect();
        Tensor::cat(&all, self.axis)
    }
    fn constraint(&self, of: impl Fn(&dyn Transform) -> Constraint) -> Constraint {
        Constraint::Cat(self.parts.iter().zip(&self.lengths).map(|(part, len)| (of(part.as_ref()), *len)).collect(), self.axis)
    }
}
#[track_caller]
fn check_parts(name: &'static str, parts: usize, axis: isize) -> Result<()> {
    if parts == 0 {
        return Err(refused(name, "parts must be at least one"));
    }
    if axis >= 0 {
        return Err(refused(name, format!("axis must be counted from the end, as -1, and is {axis}")));
    }
    Ok(())
}
impl Transform for CatTransform {
    fn name(&self) -> &'static str {
        "CatTransform"
    }
    fn domain(&self) -> Constraint {
        self.constraint(|part| part.domain())
    }
    fn codomain(&self) -> Constraint {
        self.constraint(|part| part.codomain())
    }
    fn bijective(&self) -> bool {
        self.parts.iter().all(|part| part.bijective())
    }
    fn sign(&self, like: &Tensor) -> Option<Tensor> {
        let stretches = self.stretches(like);
        all_signs(&self.parts, |k| stretches[k].clone(), |signs| Tensor::cat(signs, self.axis))
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        self.mapped(x, |part, x| part.forward(x))
    }
    fn inverse(&self, y: &Tensor) -> Tensor {
        self.mapped(y, |part, y| part.inverse(y))
    }
    fn log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let pairs = self.stretches(x).into_iter().zip(self.stretches(y));
        let volumes = self.parts.iter().zip(pairs).map(|(part, (x, y))| (part.log_abs_det_jacobian(&x, &y), part.domain().event_rank()));
        along(volumes.collect(), self.axis, Tensor::cat)
    }
}

/// The elements along an axis, each mapped by a map of its own.
///
/// Source: `torch.distributions.transforms.StackTransform`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::transforms::{AbsTransform, ExpTransform, StackTransform, Transform};
/// # Device::reference().make_current();
/// let t = StackTransform::new(vec![Box::new(ExpTransform), Box::new(AbsTransform)], -1)?;
/// assert_eq!(t.forward(&tensor![0.0, -1.0]).to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StackTransform {
    parts: Arc<[Box<dyn Transform>]>,
    axis: isize,
}
impl StackTransform {
    /// The maps, along an axis from the end (-1 is the last).
    ///
    /// # Errors
    /// No part; an axis that is not counted from the end.
    #[track_caller]
    pub fn new(parts: Vec<Box<dyn Transform>>, axis: isize) -> Result<StackTransform> {
        check_parts("StackTransform", parts.len(), axis)?;
        Ok(StackTransform { parts: parts.into(), axis })
    }
    fn mapped(&self, x: &Tensor, f: impl Fn(&dyn Transform, &Tensor) -> Tensor) -> Tensor {
        let count = self.parts.len();
        match x.shape() {
            Ok(shape) if shape.rank() >= self.axis.unsigned_abs() && shape[shape.rank() - self.axis.unsigned_abs()] == count => {}
            Ok(shape) => return Tensor::failed(refused("StackTransform", format!("axis {} of {count} elements, not of {shape}", self.axis))),
            Err(e) => return Tensor::failed(e),
        }
        let all: Vec<Tensor> = self.parts.iter().enumerate().map(|(k, part)| f(part.as_ref(), &x.select(self.axis, k))).collect();
        Tensor::stack(&all, self.axis)
    }
}
impl Transform for StackTransform {
    fn name(&self) -> &'static str {
        "StackTransform"
    }
    fn domain(&self) -> Constraint {
        Constraint::Stack(self.parts.iter().map(|part| part.domain()).collect(), self.axis)
    }
    fn codomain(&self) -> Constraint {
        Constraint::Stack(self.parts.iter().map(|part| part.codomain()).collect(), self.axis)
    }
    fn bijective(&self) -> bool {
        self.parts.iter().all(|part| part.bijective())
    }
    fn sign(&self, like: &Tensor) -> Option<Tensor> {
        all_signs(&self.parts, |k| like.select(self.axis, k), |signs| Tensor::stack(signs, self.axis))
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        self.mapped(x, |part, x| part.forward(x))
    }
    fn inverse(&self, y: &Tensor) -> Tensor {
        self.mapped(y, |part, y| part.inverse(y))
    }
    fn log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let volumes = self.parts.iter().enumerate().map(|(k, part)| {
            let (x, y) = (x.select(self.axis, k), y.select(self.axis, k));
            (part.log_abs_det_jacobian(&x, &y), part.domain().event_rank())
        });
        along(volumes.collect(), self.axis, Tensor::stack)
    }
}
