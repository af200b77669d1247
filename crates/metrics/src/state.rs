//! What all metrics share: named accumulators in cells, lists of batches, and what is done with them as a whole: set back,
//! merged, saved. A metric adds what one batch counts and the formula at the end.
use adamant_core::{Cell, DType, Device, Error, ErrorKind, Result, Shape, Tensor, compile::is_capturing, grad::with_grad, scope, shape::ToShape, step};

/// The name under which a state keeps a class out of range.
const REFUSED: &str = "refused";

/// A figure that is accumulated over batches.
///
/// Metrics of one's own keep a [`MetricState`], say what a batch adds, and what the figure is:
///
/// ```
/// # use adamant_core::{DType, Device, Result, Tensor, tensor};
/// use adamant_metrics::{Metric, MetricState};
/// # Device::reference().make_current();
/// /// The largest error seen, among errors from 0 on.
/// struct Within(MetricState, f64);
/// impl Metric for Within {
///     fn state(&self) -> &MetricState { &self.0 }
///     fn state_mut(&mut self) -> &mut MetricState { &mut self.0 }
///     fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
///         let near = (predictions - targets).abs().le(self.1);
///         self.0.add(&[near.sum(..), Tensor::full((), near.shape()?.elements(), DType::I64)])
///     }
///     fn compute(&self) -> Result<Tensor> {
///         (self.0.number("near")? / self.0.number("all")?).ok()
///     }
/// }
/// let mut within = Within(MetricState::new("within")?.count("near", ())?.count("all", ())?, 0.5);
/// within.update(&tensor![1.0, 2.0, 3.0, 4.0], &tensor![1.1, 2.9, 3.0, 4.0])?;
/// assert_eq!(within.compute()?.item::<f64>()?, 0.75);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub trait Metric: Send {
    /// What has been accumulated.
    fn state(&self) -> &MetricState;
    /// The same, to be changed.
    fn state_mut(&mut self) -> &mut MetricState;
    /// Takes a batch in. The shapes and dtypes are said at each metric. Nothing waits for the device, and no value is read.
    ///
    /// # Errors
    /// Shapes or dtypes that do not go together, tensors that carry an error or are on another device than the metric, memory.
    /// Then nothing has changed.
    fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()>;
    /// The figure over all that was taken in since the last [`Metric::reset`], a tensor on the device. What has no value (0 / 0)
    /// is said at each metric.
    ///
    /// # Errors
    /// A class out of range makes what is returned a tensor whose read is an [`ErrorKind::Index`].
    fn compute(&self) -> Result<Tensor>;

    /// The metric's name in errors, as `accuracy`.
    fn name(&self) -> &'static str {
        self.state().name
    }
    /// Forgets all that was taken in.
    ///
    /// # Errors
    /// Memory.
    fn reset(&mut self) -> Result<()> {
        self.state_mut().reset()
    }
    /// Takes in what another metric of the same kind and options has seen, which stays as it is; it may be on another device.
    /// Counts are the same in whatever order metrics are merged, and equal to those of one metric that saw all; sums of floats
    /// are, up to the rounding of another order.
    ///
    /// # Errors
    /// Another metric than this one, or a state of other shapes; memory. Then nothing has changed.
    fn merge(&mut self, other: &dyn Metric) -> Result<()> {
        let _call = scope::call("merge");
        if other.name() != self.name() {
            return Err(Error::new(self.name(), ErrorKind::Argument(format!("what `{}` has seen cannot be merged into `{}`", other.name(), self.name()))));
        }
        let theirs = other.state_dict()?;
        self.merge_state(&theirs)
    }
    /// As [`Metric::merge`], of a [`Metric::state_dict`] that came from elsewhere.
    ///
    /// # Errors
    /// A state of other names or shapes; memory. Then nothing has changed.
    fn merge_state(&mut self, theirs: &[(String, Tensor)]) -> Result<()> {
        self.state_mut().merge(theirs)
    }
    /// All accumulators by name, for checkpoints. Lists of batches are one tensor each.
    ///
    /// # Errors
    /// Memory.
    fn state_dict(&self) -> Result<Vec<(String, Tensor)>> {
        self.state().state_dict()
    }
    /// Takes over what [`Metric::state_dict`] gave, in place of all that was taken in.
    ///
    /// # Errors
    /// An accumulator without a tensor, or one of another shape or dtype; memory. Then nothing has changed.
    fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        let _call = scope::call("load_state_dict");
        self.state_mut().load_state_dict(state)
    }
}

struct StateCell {
    name: &'static str,
    cell: Cell,
}
/// Batches that are kept, `[n, ..]` each: an axis of samples, then what the shape of one is.
struct BatchList {
    name: &'static str,
    dtype: DType,
    of_one: Shape,
    batches: Vec<Tensor>,
}
/// Named accumulators on one device, all zero in the beginning. See [`Metric`] for a metric made of them.
pub struct MetricState {
    pub(crate) name: &'static str,
    pub(crate) device: Device,
    accumulators: Vec<StateCell>,
    lists: Vec<BatchList>,
    /// a class out of range, i64; 0: none was seen, for 0 is always one of the classes
    refused: Option<Cell>,
}
/// Zeros in memory: recorded, the first update would have another structure than all that follow.
fn zeros(shape: Shape, dtype: DType, device: Device) -> Result<Tensor> {
    let zeros = Tensor::zeros_on(shape, dtype, device);
    if !is_capturing() {
        zeros.materialize()?;
    }
    zeros.ok()
}
impl MetricState {
    /// Without accumulators, on the current device. The name stands in errors.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn new(name: &'static str) -> Result<MetricState> {
        Ok(MetricState { name, device: Device::current()?, accumulators: Vec::new(), lists: Vec::new(), refused: None })
    }
    /// With an accumulator of counts, i64.
    ///
    /// # Errors
    /// Memory; a shape that cannot be.
    #[track_caller]
    pub fn count(self, name: &'static str, shape: impl ToShape) -> Result<MetricState> {
        self.accumulator(name, shape, DType::I64)
    }
    /// With an accumulator of sums, f64 where the device has it, else f32.
    ///
    /// # Errors
    /// Memory; a shape that cannot be.
    #[track_caller]
    pub fn sum(self, name: &'static str, shape: impl ToShape) -> Result<MetricState> {
        let dtype = self.device.widest_float();
        self.accumulator(name, shape, dtype)
    }
    #[track_caller]
    fn accumulator(mut self, name: &'static str, shape: impl ToShape, dtype: DType) -> Result<MetricState> {
        let shape = shape.to_shape().map_err(|kind| Error::new(self.name, kind))?;
        self.accumulators.push(StateCell { name, cell: Cell::new(&zeros(shape, dtype, self.device)?, false)? });
        Ok(self)
    }
    /// With a list of batches; `of_one`: the shape behind the axis of samples.
    #[track_caller]
    pub(crate) fn list(mut self, name: &'static str, of_one: impl ToShape, dtype: DType) -> Result<MetricState> {
        let of_one = of_one.to_shape().map_err(|kind| Error::new(self.name, kind))?;
        self.lists.push(BatchList { name, dtype, of_one, batches: Vec::new() });
        Ok(self)
    }
    /// With a place for a class out of range.
    pub(crate) fn refusing(mut self) -> Result<MetricState> {
        self.refused = Some(Cell::new(&zeros(Shape::SCALAR, DType::I64, self.device)?, false)?);
        Ok(self)
    }
    /// f64 where the device has it, else f32: what the figures are computed in.
    pub fn float(&self) -> DType {
        self.device.widest_float()
    }
    /// The present value of an accumulator.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn value(&self, name: &str) -> Result<Tensor> {
        match self.accumulators.iter().find(|a| a.name == name) {
            Some(a) => a.cell.detached().ok(),
            None => Err(self.wrong(format!("there is no accumulator `{name}`"))),
        }
    }
    /// The present value of an accumulator as floats, in which figures are computed.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn number(&self, name: &str) -> Result<Tensor> {
        self.value(name)?.cast(self.float()).ok()
    }
    /// Adds what a batch counts to each accumulator, in their order, all or none; then what is pending is handed to the device,
    /// and nothing waits for it.
    ///
    /// # Errors
    /// Another number of tensors, other shapes, a tensor that carries an error, memory. Then nothing has changed.
    #[track_caller]
    pub fn add(&mut self, batch: &[Tensor]) -> Result<()> {
        self.change(None, |now| Ok(now.iter().zip(batch).map(|(now, add)| now + add.detach().cast(now.dtype().unwrap_or(DType::F32))).collect()))
    }
    /// As [`MetricState::add`], with a class out of range, 0 for none.
    #[track_caller]
    pub(crate) fn add_unless(&mut self, refused: &Tensor, batch: &[Tensor]) -> Result<()> {
        self.change(Some(refused), |now| Ok(now.iter().zip(batch).map(|(now, add)| now + add.detach().cast(now.dtype().unwrap_or(DType::F32))).collect()))
    }
    /// Gives each accumulator a new value.
    #[track_caller]
    pub(crate) fn change(&mut self, refused: Option<&Tensor>, new: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<()> {
        with_grad(false, || {
            step(|| {
                let now: Vec<Tensor> = self.accumulators.iter().map(|a| a.cell.detached()).collect();
                let new = new(&now)?;
                if new.len() != now.len() {
                    return Err(self.wrong(format!("{} values for {} accumulators", new.len(), now.len())));
                }
                self.accumulators.iter().zip(&new).try_for_each(|(a, new)| a.cell.set(new))?;
                refused.map_or(Ok(()), |class| self.refuse(class))
            })
        })
    }
    /// Keeps the first class out of range that was seen.
    fn refuse(&self, class: &Tensor) -> Result<()> {
        let Some(cell) = &self.refused else { return Ok(()) };
        let before = cell.detached();
        cell.set(&before.ne(0i64).where_(&before, class))
    }
    /// A figure, or, when it is read, the error that a class was out of range.
    pub(crate) fn unless_refused(&self, figure: Tensor, bound: usize) -> Result<Tensor> {
        let Some(cell) = &self.refused else { return figure.ok() };
        let figure = figure.ok()?;
        let none = Tensor::zeros_on([bound], DType::I64, self.device).gather(0, &cell.detached().reshape([1])).reshape(());
        // A choice and no sum: a sum with 0 would turn -0 to 0.
        none.eq(0i64).where_(&figure, figure.zeros_like()).ok()
    }
    /// Appends a batch to each list, in their order.
    #[track_caller]
    pub(crate) fn append(&mut self, refused: &Tensor, batch: &[Tensor]) -> Result<()> {
        if is_capturing() {
            let error = Error::new(self.name, ErrorKind::Capturing);
            return Err(error.hint("it keeps the scores of every batch, which a captured function cannot: update it outside, with what the function returns"));
        }
        let batch = batch.iter().map(|t| t.detach().contiguous().ok()).collect::<Result<Vec<_>>>()?;
        for (list, batch) in self.lists.iter().zip(&batch) {
            self.check_dtype(list, batch.dtype()?)?;
        }
        // The end of a step runs what is pending, so no batch keeps the ops that it came of.
        with_grad(false, || step(|| self.refuse(refused)))?;
        for (list, batch) in self.lists.iter_mut().zip(batch) {
            list.dtype = batch.dtype()?;
            list.batches.push(batch);
        }
        Ok(())
    }
    /// All batches of a list are of one dtype, that of the first: scores of two precisions have other ties.
    #[track_caller]
    fn check_dtype(&self, list: &BatchList, dtype: DType) -> Result<()> {
        let free = list.batches.is_empty() && list.dtype.is_float() && dtype.is_float();
        if free || list.dtype == dtype { Ok(()) } else { Err(Error::new(self.name, ErrorKind::DtypeMismatch { left: list.dtype, right: dtype })) }
    }
    /// All batches of a list after one another.
    pub(crate) fn listed(&self, name: &str) -> Result<Tensor> {
        match self.lists.iter().find(|l| l.name == name) {
            Some(list) => self.joined(list),
            None => Err(self.wrong(format!("there is no list `{name}`"))),
        }
    }
    fn joined(&self, list: &BatchList) -> Result<Tensor> {
        match &list.batches[..] {
            [] => {
                let none = list.of_one.insert(0, 0).map_err(|kind| Error::new(self.name, kind))?;
                Tensor::zeros_on(none, list.dtype, self.device).ok()
            }
            [one] => Ok(one.clone()),
            all => Tensor::cat(all, 0).ok(),
        }
    }
    fn reset(&mut self) -> Result<()> {
        step(|| {
            let cells = self.accumulators.iter().map(|a| &a.cell).chain(&self.refused);
            for cell in cells {
                let meta = cell.meta();
                cell.set(&zeros(meta.shape, meta.dtype, meta.device)?)?;
            }
            Ok(())
        })?;
        self.lists.iter_mut().for_each(|l| l.batches.clear());
        Ok(())
    }
    pub(crate) fn state_dict(&self) -> Result<Vec<(String, Tensor)>> {
        let mut all: Vec<(String, Tensor)> = self.accumulators.iter().map(|a| (a.name.to_owned(), a.cell.detached())).collect();
        for list in &self.lists {
            all.push((list.name.to_owned(), self.joined(list)?));
        }
        all.extend(self.refused.iter().map(|cell| (REFUSED.to_owned(), cell.detached())));
        Ok(all)
    }
    /// What a state that is to be merged or loaded has for each accumulator, for each list, and for the class out of range.
    pub(crate) fn taken(&self, state: &[(String, Tensor)]) -> Result<(Vec<Tensor>, Vec<Tensor>, Option<Tensor>)> {
        let find = |name: &str| match state.iter().find(|(n, _)| n == name) {
            Some((_, t)) => t.detach().to(self.device).ok(),
            None => Err(self.wrong(format!("the state has no `{name}`"))),
        };
        let of_cell = |name: &str, cell: &Cell| {
            let (t, want) = (find(name)?, cell.meta());
            let meta = t.try_meta()?;
            if meta.shape != want.shape {
                let expected = "the state of a metric with the same options";
                return Err(Error::new(self.name, ErrorKind::ShapeMismatch { left: want.shape, right: meta.shape, axes: None, expected }));
            }
            // A device without f64 has sums of f32.
            if meta.dtype != want.dtype && !(meta.dtype.is_float() && want.dtype.is_float()) {
                return Err(Error::new(self.name, ErrorKind::DtypeMismatch { left: want.dtype, right: meta.dtype }));
            }
            t.cast(want.dtype).ok()
        };
        let accumulators = self.accumulators.iter().map(|a| of_cell(a.name, &a.cell)).collect::<Result<Vec<_>>>()?;
        let of_list = |list: &BatchList| {
            let t = find(list.name)?;
            let shape = t.shape()?;
            if shape.rank() != list.of_one.rank() + 1 || shape[1..] != list.of_one[..] {
                return Err(Error::new(self.name, ErrorKind::Shape { shape, expected: format!("samples of shape {} as `{}`", list.of_one, list.name) }));
            }
            if t.dtype()?.is_float() != list.dtype.is_float() {
                return Err(Error::new(self.name, ErrorKind::DtypeMismatch { left: list.dtype, right: t.dtype()? }));
            }
            Ok(t)
        };
        let lists = self.lists.iter().map(of_list).collect::<Result<Vec<_>>>()?;
        let samples = lists.iter().map(|t| Ok(t.shape()?[0])).collect::<Result<Vec<usize>>>()?;
        if samples.iter().any(|n| *n != samples[0]) {
            return Err(self.wrong("the lists of the state are of different lengths".into()));
        }
        Ok((accumulators, lists, self.refused.as_ref().map(|cell| of_cell(REFUSED, cell)).transpose()?))
    }
    fn merge(&mut self, theirs: &[(String, Tensor)]) -> Result<()> {
        let (accumulators, lists, refused) = self.taken(theirs)?;
        if self.lists.is_empty() {
            return self.change(refused.as_ref(), |now| Ok(now.iter().zip(&accumulators).map(|(a, b)| a + b).collect()));
        }
        if lists.iter().all(|l| l.shape().is_ok_and(|s| s.elements() == 0)) {
            // Nothing was seen: neither is its dtype anything.
            return step(|| refused.as_ref().map_or(Ok(()), |class| self.refuse(class)));
        }
        let none = Tensor::zeros_on((), DType::I64, self.device);
        self.append(refused.as_ref().unwrap_or(&none), &lists)
    }
    fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        let (accumulators, lists, refused) = self.taken(state)?;
        step(|| {
            self.accumulators.iter().zip(&accumulators).try_for_each(|(a, value)| a.cell.set(value))?;
            self.refused.iter().zip(&refused).try_for_each(|(cell, value)| cell.set(value))
        })?;
        self.lists.iter_mut().zip(lists).for_each(|(list, all)| {
            list.dtype = all.dtype().unwrap_or(list.dtype);
            list.batches = if all.shape().is_ok_and(|s| s.elements() == 0) { Vec::new() } else { vec![all] };
        });
        Ok(())
    }
    /// An argument that the metric cannot do with.
    #[track_caller]
    pub(crate) fn wrong(&self, what: String) -> Error {
        Error::new(self.name, ErrorKind::Argument(what))
    }
    /// The metric as the layer that its ops are of, so that errors of theirs name it too.
    #[track_caller]
    pub(crate) fn enter(&self) -> (scope::CallGuard, scope::ScopeGuard) {
        let layer = scope::enter(self.name);
        (scope::call(self.name), layer)
    }
    /// Are the tensors on the metric's device?
    #[track_caller]
    pub(crate) fn here(&self, tensors: [&Tensor; 2]) -> Result<()> {
        tensors.iter().try_for_each(|t| {
            let device = t.device()?;
            if device == self.device {
                return Ok(());
            }
            Err(Error::new(self.name, ErrorKind::DeviceMismatch { left: self.device.to_string(), right: device.to_string() }))
        })
    }
}
/// Writes the two methods of [`Metric`] that say where the state is.
macro_rules! holds_state {
    () => {
        fn state(&self) -> &$crate::MetricState {
            &self.state
        }
        fn state_mut(&mut self) -> &mut $crate::MetricState {
            &mut self.state
        }
    };
}
pub(crate) use holds_state;
