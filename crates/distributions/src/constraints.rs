//! What values must be: numbers in a range, vectors on the simplex, matrices of a kind. It knows no family and no transform.
use adamant_core::{DType, Error, ErrorKind, Shape, Tensor};
use std::fmt;

/// What a parameter's or a value's elements must be, or its events. NaN is none of them.
///
/// Source: `torch.distributions.constraints`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::Constraint;
/// # Device::reference().make_current();
/// assert_eq!(Constraint::Interval(0.0, 2.0).check(&tensor![-1.0, 1.0]).to_vec::<bool>()?, [false, true]);
/// assert_eq!(Constraint::Simplex.check(&tensor![[0.5, 0.5], [0.5, 0.6]]).to_vec::<bool>()?, [true, false]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Constraint {
    /// a number
    Real,
    /// a finite number greater than 0
    Positive,
    /// a finite number, at least 0
    NonNegative,
    /// in [0, 1]
    Probability,
    /// in (0, 1]
    PositiveProbability,
    /// a whole number, at least 0
    Count,
    /// 0 or 1
    Boolean,
    /// a finite number greater than this one
    GreaterThan(f64),
    /// a finite number, at least this one
    AtLeast(f64),
    /// a finite number less than this one
    LessThan(f64),
    /// from the first number to the second, both included
    Interval(f64, f64),
    /// from the first number to the second, which is not included
    HalfOpenInterval(f64, f64),
    /// a whole number from the first to the second, both included
    IntegerInterval(f64, f64),
    /// vectors of numbers of at least 0 whose sum is 1 (to 1e-6)
    Simplex,
    /// square matrices with zeros above the diagonal
    LowerTriangular,
    /// as [`Constraint::LowerTriangular`], with a positive diagonal
    LowerCholesky,
    /// as [`Constraint::LowerCholesky`], with rows of length 1
    CorrCholesky,
    /// square matrices that are their transposes (to 1e-6)
    Symmetric,
    /// symmetric matrices without a negative eigenvalue
    PositiveSemidefinite,
    /// symmetric matrices whose eigenvalues are positive
    PositiveDefinite,
    /// events of so many axes more than those of the first
    Independent(Box<Constraint>, usize),
    /// stretches of an axis, each with so many elements and a constraint of its own
    Cat(Vec<(Constraint, usize)>, isize),
    /// the elements along an axis, each with a constraint of its own
    Stack(Vec<Constraint>, isize),
}
impl Constraint {
    /// Vectors of numbers.
    pub fn real_vector() -> Constraint {
        Constraint::Independent(Box::new(Constraint::Real), 1)
    }
    /// How many axes one event has.
    pub fn event_rank(&self) -> usize {
        match self {
            Constraint::Simplex => 1,
            Constraint::LowerTriangular | Constraint::LowerCholesky | Constraint::CorrCholesky => 2,
            Constraint::Symmetric | Constraint::PositiveSemidefinite | Constraint::PositiveDefinite => 2,
            Constraint::Independent(base, axes) => base.event_rank() + axes,
            Constraint::Cat(parts, axis) => widest(parts.iter().map(|p| &p.0), *axis, 0),
            Constraint::Stack(parts, axis) => widest(parts.iter(), *axis, 1),
            _ => 0,
        }
    }
    /// Which events of a value `[.., event..]` are what they must be: bool `[..]`.
    ///
    /// Errors: fewer axes than an event has; matrices that are not square; an axis of another length than its parts'.
    #[track_caller]
    pub fn check(&self, value: &Tensor) -> Tensor {
        let rank = value.rank();
        let failed = |expected: String| match value.shape() {
            Ok(shape) => Tensor::failed(Error::new("check", ErrorKind::Shape { shape, expected })),
            Err(e) => Tensor::failed(e),
        };
        if rank < self.event_rank() {
            return failed(format!("a value of at least {} axes, to be {self}", self.event_rank()));
        }
        match self {
            Constraint::Simplex => every(&value.ge(0.0), 1).logical_and((value.sum(-1) - 1.0).abs().lt(1e-6)),
            Constraint::Independent(base, axes) => every(&base.check(value), *axes),
            Constraint::Cat(parts, axis) => {
                let mut at = 0;
                let mut of = |(part, len): &(Constraint, usize)| {
                    at += len;
                    part.check(&value.narrow(*axis, at - len, *len))
                };
                let all: Vec<Tensor> = parts.iter().map(&mut of).collect();
                reduced(&all, *axis, parts.iter().map(|p| &p.0), Tensor::cat)
            }
            Constraint::Stack(parts, axis) => {
                let all: Vec<Tensor> = parts.iter().enumerate().map(|(k, part)| part.check(&value.select(*axis, k))).collect();
                reduced(&all, *axis, parts.iter(), Tensor::stack)
            }
            _ if self.event_rank() == 2 => {
                let shape = value.shape().unwrap_or(Shape::SCALAR);
                if shape[rank - 1] != shape[rank - 2] {
                    return failed("square matrices".into());
                }
                self.check_matrix(value)
            }
            _ => self.check_elements(value),
        }
    }
    fn check_elements(&self, x: &Tensor) -> Tensor {
        let finite = |t: Tensor| t.logical_and(x.abs().lt(f64::INFINITY));
        let within = |low: f64, high: f64| x.ge(low).logical_and(x.le(high));
        let whole = || x.eq(x.floor());
        match self {
            Constraint::Positive => finite(x.gt(0.0)),
            Constraint::NonNegative => finite(x.ge(0.0)),
            Constraint::Probability => within(0.0, 1.0),
            Constraint::PositiveProbability => x.gt(0.0).logical_and(x.le(1.0)),
            Constraint::Count => finite(x.ge(0.0)).logical_and(whole()),
            Constraint::Boolean => x.eq(0.0).logical_or(x.eq(1.0)),
            Constraint::GreaterThan(low) => finite(x.gt(*low)),
            Constraint::AtLeast(low) => finite(x.ge(*low)),
            Constraint::LessThan(high) => finite(x.lt(*high)),
            Constraint::Interval(low, high) => within(*low, *high),
            Constraint::HalfOpenInterval(low, high) => x.ge(*low).logical_and(x.lt(*high)),
            Constraint::IntegerInterval(low, high) => within(*low, *high).logical_and(whole()),
            _ => x.eq(x),
        }
    }
    fn check_matrix(&self, x: &Tensor) -> Tensor {
        let lower = || every(&x.eq(x.tril(0)), 2);
        let positive = || every(&x.diagonal(0, -2, -1).gt(0.0), 1);
        let symmetric = || every(&(x - x.mt()).abs().le(1e-6), 2);
        match self {
            Constraint::LowerTriangular => lower(),
            Constraint::LowerCholesky => lower().logical_and(positive()),
            Constraint::CorrCholesky => {
                let units = if matches!(x.dtype(), Ok(DType::F64)) { f64::EPSILON } else { f64::from(f32::EPSILON) };
                let most = 10.0 * units * x.shape().map_or(1, |s| s.last().copied().unwrap_or(1)) as f64;
                lower().logical_and(positive()).logical_and(every(&(x.square().sum(-1).sqrt() - 1.0).abs().le(most), 1))
            }
            Constraint::PositiveSemidefinite => symmetric().logical_and(every(&x.eigvalsh().ge(0.0), 1)),
            Constraint::PositiveDefinite => symmetric().logical_and(every(&x.eigvalsh().gt(0.0), 1)),
            _ => symmetric(),
        }
    }
    /// Is a number what it must be? Events of several numbers are judged by [`Constraint::check`] alone.
    pub(crate) fn holds(&self, x: f64) -> bool {
        match self {
            Constraint::Positive => x > 0.0 && x.is_finite(),
            Constraint::NonNegative => x >= 0.0 && x.is_finite(),
            Constraint::Probability => (0.0..=1.0).contains(&x),
            Constraint::PositiveProbability => x > 0.0 && x <= 1.0,
            Constraint::Count => x >= 0.0 && x.is_finite() && x.fract() == 0.0,
            Constraint::Boolean => x == 0.0 || x == 1.0,
            Constraint::GreaterThan(low) => x > *low && x.is_finite(),
            Constraint::AtLeast(low) => x >= *low && x.is_finite(),
            Constraint::LessThan(high) => x < *high && x.is_finite(),
            Constraint::Interval(low, high) => (*low..=*high).contains(&x),
            Constraint::HalfOpenInterval(low, high) => (*low..*high).contains(&x),
            Constraint::IntegerInterval(low, high) => (*low..=*high).contains(&x) && x.fract() == 0.0,
            _ => !x.is_nan(),
        }
    }
}
/// The axes of events whose parts lie along an axis, from the end.
fn widest<'a>(parts: impl Iterator<Item = &'a Constraint>, axis: isize, more: usize) -> usize {
    let most = parts.map(Constraint::event_rank).max().unwrap_or(0);
    if most == 0 { 0 } else { (most + more).max(axis.unsigned_abs()) }
}
fn reduced<'a>(all: &[Tensor], axis: isize, parts: impl Iterator<Item = &'a Constraint>, join: impl FnOnce(&[Tensor], isize) -> Tensor) -> Tensor {
    let inside = parts.map(Constraint::event_rank).max().unwrap_or(0) as isize;
    // An axis of the batch stays; one of the events' is gone.
    if axis + inside < 0 {
        return join(all, axis + inside);
    }
    match all.split_first() {
        Some((first, rest)) => rest.iter().fold(first.clone(), |sum, t| sum.logical_and(t)),
        None => Tensor::failed(Error::new("check", ErrorKind::Argument("a constraint without parts".into()))),
    }
}
/// Are all true, over the last axes?
fn every(holds: &Tensor, axes: usize) -> Tensor {
    let over: Vec<isize> = (1..=axes as isize).map(|k| -k).collect();
    if over.is_empty() { holds.clone() } else { holds.logical_not().cast(DType::I64).sum(over).eq(0i64) }
}
impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Constraint::Real => "a number",
            Constraint::Positive => "finite and greater than 0",
            Constraint::NonNegative => "finite and at least 0",
            Constraint::Probability => "in [0, 1]",
            Constraint::PositiveProbability => "in (0, 1]",
            Constraint::Count => "a whole number of at least 0",
            Constraint::Boolean => "0 or 1",
            Constraint::GreaterThan(low) => return write!(f, "finite and greater than {low}"),
            Constraint::AtLeast(low) => return write!(f, "finite and at least {low}"),
            Constraint::LessThan(high) => return write!(f, "finite and less than {high}"),
            Constraint::Interval(low, high) => return write!(f, "in [{low}, {high}]"),
            Constraint::HalfOpenInterval(low, high) => return write!(f, "in [{low}, {high})"),
            Constraint::IntegerInterval(low, high) => return write!(f, "a whole number in [{low}, {high}]"),
            Constraint::Simplex => "at least 0 with a sum of 1",
            Constraint::LowerTriangular => "a lower triangle",
            Constraint::LowerCholesky => "a lower triangle with a positive diagonal",
            Constraint::CorrCholesky => "a lower triangle with a positive diagonal and rows of length 1",
            Constraint::Symmetric => "a symmetric matrix",
            Constraint::PositiveSemidefinite => "positive semidefinite",
            Constraint::PositiveDefinite => "positive definite",
            Constraint::Independent(base, _) => return write!(f, "{base}, each"),
            Constraint::Cat(..) | Constraint::Stack(..) => "what its parts are",
        })
    }
}
