//! Parameters of a distribution: of one float dtype, broadcast to one batch, inside their ranges. It knows no family.
use crate::Constraint;
use adamant_core::{DType, Device, Error, ErrorKind, Result, Shape, Tensor, is_capturing, scope};
use std::{cell::Cell, fmt};

thread_local! {
    static UNCHECKED: Cell<bool> = const { Cell::new(false) };
}
/// Runs `f`, in which distributions are made without reading their parameters: no wait for the device, and no error if one
/// is out of its range. (`validate_args=False` of PyTorch.)
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::{Exponential, unchecked};
/// # Device::reference().make_current();
/// assert!(Exponential::new(&tensor![-1.0]).is_err());
/// assert!(unchecked(|| Exponential::new(&tensor![-1.0])).is_ok());
/// ```
pub fn unchecked<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            UNCHECKED.set(self.0);
        }
    }
    let _restore = Restore(UNCHECKED.replace(true));
    f()
}

/// Named parameters, of the batch's shape and in the dtype that formulas compute in.
#[derive(Clone)]
pub struct Parameters {
    name: &'static str,
    dtype: DType,
    device: Device,
    batch: Shape,
    event: Shape,
    names: Vec<&'static str>,
    values: Vec<Tensor>,
}
impl Parameters {
    /// Checks parameters and broadcasts them. Their last `event_rank` axes are those of an event, the others the batch's.
    ///
    /// # Errors
    /// The error that a parameter carries; a dtype that is no float, or two; shapes that do not broadcast; two devices; an
    /// element that is not what its constraint says.
    #[track_caller]
    pub fn new(name: &'static str, given: &[(&'static str, &Tensor, Constraint)], event_rank: usize) -> Result<Parameters> {
        located(name, || Parameters::checked(name, given, event_rank))
    }
    fn checked(name: &'static str, given: &[(&'static str, &Tensor, Constraint)], event_rank: usize) -> Result<Parameters> {
        let fail = |kind| Err(Error::new(name, kind));
        let mut all: Option<(DType, Device, Shape)> = None;
        for (parameter, t, _) in given {
            let meta = t.try_meta()?;
            if !meta.dtype.is_float() {
                return fail(ErrorKind::Dtype(format!("{parameter} is a float tensor, not {}", meta.dtype)));
            }
            if meta.shape.rank() < event_rank {
                return fail(ErrorKind::Shape { shape: meta.shape, expected: format!("{parameter} of at least {event_rank} axes") });
            }
            all = Some(match all {
                None => (meta.dtype, meta.device, meta.shape),
                Some((dtype, device, shape)) => {
                    if dtype != meta.dtype {
                        return fail(ErrorKind::DtypeMismatch { left: dtype, right: meta.dtype });
                    }
                    let expected = "parameters broadcast to one batch";
                    match shape.broadcast(&meta.shape) {
                        Some(shape) => (dtype, device, shape),
                        None => return fail(ErrorKind::ShapeMismatch { left: shape, right: meta.shape, axes: None, expected }),
                    }
                }
            });
        }
        let Some((dtype, device, shape)) = all else { return fail(ErrorKind::Argument("a distribution has a parameter".into())) };
        given.iter().try_for_each(|(parameter, t, constraint)| check(name, parameter, t, constraint))?;
        let split = shape.rank() - event_rank;
        let at = |dims: &[usize]| Shape::new(dims).map_err(|kind| Error::new(name, kind));
        Ok(Parameters {
            name,
            dtype,
            device,
            batch: at(&shape[..split])?,
            event: at(&shape[split..])?,
            names: given.iter().map(|g| g.0).collect(),
            values: given.iter().map(|g| g.1.cast(wide(dtype)).expand(shape)).collect(),
        })
    }
    /// The same parameters for values of another shape of events.
    pub(crate) fn with_event(self, event: Shape) -> Parameters {
        Parameters { event, ..self }
    }
    /// What holds for parts that were checked before.
    pub(crate) fn of_parts(name: &'static str, dtype: DType, device: Device, batch: Shape, event: Shape) -> Parameters {
        Parameters { name, dtype, device, batch, event, names: Vec::new(), values: Vec::new() }
    }
    /// The distribution's name.
    pub fn name(&self) -> &'static str {
        self.name
    }
    /// The parameters' dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// The dtype that formulas compute in: f32 for 16-bit floats.
    pub fn wide(&self) -> DType {
        wide(self.dtype)
    }
    /// The parameters' device.
    pub fn device(&self) -> Device {
        self.device
    }
    /// The shape that the parameters broadcast to.
    pub fn batch(&self) -> Shape {
        self.batch
    }
    /// The shape of one event.
    pub fn event(&self) -> Shape {
        self.event
    }
    /// The batch's shape before the event's.
    pub fn full(&self) -> Shape {
        joined(&[&self.batch, &self.event])
    }
    /// The first `N` parameters, in the dtype that formulas compute in.
    pub fn all<const N: usize>(&self) -> [&Tensor; N] {
        std::array::from_fn(|k| &self.values[k])
    }
    /// A parameter by its name, in its own dtype.
    #[track_caller]
    pub fn named(&self, name: &str) -> Tensor {
        match self.names.iter().position(|n| *n == name) {
            Some(k) => self.values[k].cast(self.dtype),
            None => Tensor::failed(Error::new(self.name, ErrorKind::Argument(format!("there is no parameter {name}")))),
        }
    }
    /// A number in every element of the batch and the event.
    pub(crate) fn filled(&self, value: f64) -> Tensor {
        Tensor::full_on(self.full(), value, self.wide(), self.device)
    }
}
impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {}, batch {}, event {}", self.names, self.dtype, self.batch, self.event)
    }
}

/// What is built inside, ops and errors, is of the function `called` and the caller's line.
#[track_caller]
pub(crate) fn located<T>(called: &'static str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let _call = scope::call(called);
    f()
}
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}
/// Shapes one after the other. More axes than there may be are cut; the op that is asked for them says so.
pub(crate) fn joined(parts: &[&[usize]]) -> Shape {
    let dims: Vec<usize> = parts.concat();
    Shape::new(&dims).unwrap_or(Shape::SCALAR)
}
/// Are the elements, or the events, what they must be?
pub(crate) fn check(name: &'static str, parameter: &str, t: &Tensor, constraint: &Constraint) -> Result<()> {
    let wrong = |what: String| {
        Err(Error::new(name, ErrorKind::Argument(format!("{parameter} must be {constraint}, and {what}")))
            .hint("`unchecked` makes a distribution without this check"))
    };
    let Some(elements) = read(t)? else { return Ok(()) };
    if constraint.event_rank() > 0 {
        let events = constraint.check(t).cast(DType::F32).to_vec_as::<f64>()?;
        return match events.iter().position(|holds| *holds == 0.0) {
            None => Ok(()),
            Some(k) => wrong(format!("event {k} is not")),
        };
    }
    match elements.iter().enumerate().find(|(_, x)| !constraint.holds(**x)) {
        None => Ok(()),
        Some((k, x)) => wrong(format!("element {k} is {x}")),
    }
}
/// The elements that a check is of, unless nothing is to be read here.
pub(crate) fn read(t: &Tensor) -> Result<Option<Vec<f64>>> {
    if UNCHECKED.get() || is_capturing() {
        return Ok(None);
    }
    match t.to_vec_as::<f64>() {
        Ok(elements) => Ok(Some(elements)),
        Err(e) if matches!(e.kind(), ErrorKind::Capturing | ErrorKind::Transform(_)) => Ok(None),
        Err(e) => Err(e),
    }
}
