//! Several metrics of the same batches, each under a name.
use crate::Metric;
use adamant_core::{Error, ErrorKind, Result, Tensor, step};

const NAME: &str = "metric_collection";

/// Metrics by name, which are updated, computed, set back, merged and saved together (torchmetrics' `MetricCollection`).
///
/// ```
/// # use adamant_core::{Device, Tensor, tensor};
/// use adamant_metrics::{Accuracy, Auroc, Classification, FBeta, MetricCollection};
/// # Device::reference().make_current();
/// let of = Classification::binary();
/// let mut metrics = MetricCollection::new()
///     .with("accuracy", Accuracy::new(&of)?)?
///     .with("f1", FBeta::f1(&of)?)?
///     .with("auroc", Auroc::new(&of)?)?;
/// metrics.update(&tensor![0.9, 0.2, 0.6], &Tensor::from_vec(vec![1i64, 0, 0], [3]))?;
/// for (name, figure) in metrics.compute()? {
///     println!("{name}: {}", figure.item::<f64>()?);
/// }
/// assert_eq!(metrics.get("auroc").unwrap().compute()?.item::<f64>()?, 1.0);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Default)]
pub struct MetricCollection {
    metrics: Vec<(String, Box<dyn Metric>)>,
}
impl MetricCollection {
    /// Without metrics.
    pub fn new() -> MetricCollection {
        MetricCollection::default()
    }
    /// With one more metric.
    ///
    /// # Errors
    /// A name that is taken, is empty or has a dot, which stands between it and the names of its state.
    #[track_caller]
    pub fn with(mut self, name: impl Into<String>, metric: impl Metric + 'static) -> Result<MetricCollection> {
        let name = name.into();
        let _call = adamant_core::scope::call(NAME);
        let wrong = |what: String| Err(Error::new(NAME, ErrorKind::Argument(what)));
        if name.is_empty() || name.contains('.') {
            return wrong(format!("`{name}` is no name of a metric: it is not empty and has no dot"));
        }
        if self.get(&name).is_some() {
            return wrong(format!("there are two metrics `{name}`"));
        }
        self.metrics.push((name, Box::new(metric)));
        Ok(self)
    }
    /// The metric of a name.
    pub fn get(&self, name: &str) -> Option<&dyn Metric> {
        self.metrics.iter().find(|(n, _)| n == name).map(|(_, metric)| &**metric)
    }
    /// The names, in the order in which the metrics were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.metrics.iter().map(|(name, _)| &**name)
    }
    /// As [`Metric::update`] of each. Those that sum commit together; one that keeps scores ([`crate::Auroc`]) stands by itself.
    ///
    /// # Errors
    /// Those of the first metric that refuses the batch. Then sums are as before, and metrics before it that keep scores have
    /// taken the batch in.
    pub fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
        step(|| self.metrics.iter_mut().try_for_each(|(_, metric)| metric.update(predictions, targets)))
    }
    /// As [`Metric::compute`] of each, by name.
    ///
    /// # Errors
    /// Those of the first metric that has any.
    pub fn compute(&self) -> Result<Vec<(String, Tensor)>> {
        self.metrics.iter().map(|(name, metric)| Ok((name.clone(), metric.compute()?))).collect()
    }
    /// As [`Metric::reset`] of each.
    ///
    /// # Errors
    /// Memory.
    pub fn reset(&mut self) -> Result<()> {
        self.metrics.iter_mut().try_for_each(|(_, metric)| metric.reset())
    }
    /// As [`Metric::merge`] of each with the metric of its name.
    ///
    /// # Errors
    /// A name that the other has no metric of; those of the first metric that has any.
    pub fn merge(&mut self, other: &MetricCollection) -> Result<()> {
        let theirs = self.metrics.iter().map(|(name, _)| match other.get(name) {
            Some(metric) => Ok(metric),
            None => Err(Error::new(NAME, ErrorKind::Argument(format!("the other collection has no metric `{name}`")))),
        });
        let theirs = theirs.collect::<Result<Vec<_>>>()?;
        self.metrics.iter_mut().zip(theirs).try_for_each(|((_, metric), other)| metric.merge(other))
    }
    /// The states of all, named `metric.accumulator`.
    ///
    /// # Errors
    /// Memory.
    pub fn state_dict(&self) -> Result<Vec<(String, Tensor)>> {
        let mut all = Vec::new();
        for (name, metric) in &self.metrics {
            all.extend(metric.state_dict()?.into_iter().map(|(of, t)| (format!("{name}.{of}"), t)));
        }
        Ok(all)
    }
    /// As [`Metric::load_state_dict`] of each; what is of no metric here is left.
    ///
    /// # Errors
    /// Those of the first metric that has any; the metrics before it have taken theirs over.
    pub fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        self.metrics.iter_mut().try_for_each(|(name, metric)| {
            let own = |full: &str| full.split_once('.').and_then(|(of, rest)| (of == *name).then(|| rest.to_owned()));
            let own: Vec<(String, Tensor)> = state.iter().filter_map(|(full, t)| Some((own(full)?, t.clone()))).collect();
            metric.load_state_dict(&own)
        })
    }
}
