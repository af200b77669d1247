//! A softmax over very many classes, of which few are frequent.
use crate::{Linear, Module, Sequential, Site};
use adamant_core::{Error, ErrorKind, Result, Tensor};

/// Options of [`AdaptiveLogSoftmaxWithLoss`]; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveLogSoftmaxOptions {
    /// by how much each cluster's projection is narrower than the one before
    pub div_value: f64,
    /// has the head a bias?
    pub head_bias: bool,
}
impl Default for AdaptiveLogSoftmaxOptions {
    fn default() -> AdaptiveLogSoftmaxOptions {
        AdaptiveLogSoftmaxOptions { div_value: 4.0, head_bias: false }
    }
}
/// The log probability of classes sorted by frequency (Grave et al. 2017): the frequent ones by a head, the rest in clusters, each of
/// them one class of the head and a narrow projection of its own.
///
/// Every cluster is computed for every row and the target's is picked, so that no data is read and a compiled step can hold it; the
/// numbers are those of PyTorch, which computes a cluster for its rows alone.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::AdaptiveLogSoftmaxWithLoss;
/// # adamant_core::Device::reference().make_current();
/// let softmax = AdaptiveLogSoftmaxWithLoss::new(16, 20, &[4, 10], Default::default())?;
/// let x = Tensor::ones([3, 16]);
/// let (output, loss) = softmax.forward(&x, &Tensor::from_slice(&[0i64, 7, 19], [3]))?;
/// assert_eq!((output.dims()?, loss.rank()), ([3], 0));
/// assert_eq!(softmax.log_prob(&x)?.dims()?, [3, 20]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// Source: `torch.nn.AdaptiveLogSoftmaxWithLoss`.
#[derive(Module)]
pub struct AdaptiveLogSoftmaxWithLoss {
    site: Site,
    /// the frequent classes and the clusters
    pub head: Linear,
    /// a narrow and a wide map for each cluster
    pub tail: Vec<Sequential>,
    /// where the clusters end, the classes at last
    cutoffs: Vec<usize>,
}
impl AdaptiveLogSoftmaxWithLoss {
    /// Of `cutoffs`, the classes at which clusters begin.
    ///
    /// # Errors
    /// Cutoffs that do not grow, or do not lie between 1 and `n_classes - 1`; a cluster without features.
    #[track_caller]
    pub fn new(in_features: usize, n_classes: usize, cutoffs: &[usize], options: AdaptiveLogSoftmaxOptions) -> Result<AdaptiveLogSoftmaxWithLoss> {
        let refuse = |text: String| Error::new("AdaptiveLogSoftmaxWithLoss", ErrorKind::Argument(text));
        let grows = cutoffs.windows(2).all(|pair| pair[0] < pair[1]);
        if cutoffs.is_empty() || !grows || cutoffs[0] == 0 || cutoffs.iter().any(|c| *c >= n_classes) {
            return Err(refuse(format!("cutoffs {cutoffs:?}: they grow, from 1 to at most {}", n_classes.saturating_sub(1))));
        }
        let mut ends = cutoffs.to_vec();
        ends.push(n_classes);
        let clusters = cutoffs.len();
        let head = if options.head_bias { Linear::new(in_features, cutoffs[0] + clusters) } else { Linear::no_bias(in_features, cutoffs[0] + clusters) }?;
        let mut tail = Vec::with_capacity(clusters);
        for k in 0..clusters {
            let narrow = (in_features as f64 / options.div_value.powi(k as i32 + 1)).floor() as usize;
            if narrow == 0 {
                return Err(refuse(format!("cluster {k} has no features: {in_features} divided by {} {} times", options.div_value, k + 1)));
            }
            tail.push(Sequential::new().add(Linear::no_bias(in_features, narrow)?).add(Linear::no_bias(narrow, ends[k + 1] - ends[k])?));
        }
        Ok(AdaptiveLogSoftmaxWithLoss { site: Site::with_hooks("AdaptiveLogSoftmaxWithLoss"), head, tail, cutoffs: ends })
    }
    fn clusters(&self) -> impl Iterator<Item = (usize, &Sequential, usize, usize)> {
        self.tail.iter().zip(self.cutoffs.windows(2)).enumerate().map(|(k, (tail, ends))| (k, tail, ends[0], ends[1]))
    }
    /// The log probability of each row's target, `[batch]`, and the loss, minus their mean. Input `[batch, in_features]` with targets
    /// `[batch]`, or `[in_features]` with one.
    ///
    /// # Errors
    /// Other shapes. A class out of range is told when the output is read.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Result<(Tensor, Tensor)> {
        let call = self.site.begin(&[x, target])?;
        let (x, target) = (call.input(0, x), call.input(1, target));
        let (shape, of) = (x.shape()?, target.shape()?);
        let batched = of.rank() == 1;
        if of.rank() > 1 || shape.rank() != of.rank() + 1 || (batched && shape[0] != of[0]) {
            let expected = "an input [batch, in_features] with targets [batch], or [in_features] with one";
            return Err(Error::new("AdaptiveLogSoftmaxWithLoss", ErrorKind::ShapeMismatch { left: shape, right: of, axes: None, expected }));
        }
        let (x, target) = if batched { (x.clone(), target.clone()) } else { (x.unsqueeze(0), target.unsqueeze(0)) };
        let shortlist = self.cutoffs[0];
        let (mut at, mut inside): (Tensor, Option<Tensor>) = (target.clone(), None);
        for (k, tail, low, high) in self.clusters() {
            let mask = target.ge(low as i64).logical_and(target.lt(high as i64));
            // The cluster's class of the head.
            at = mask.where_((shortlist + k) as i64, &at);
            let within = (&target - low as i64).clamp(0i64, (high - low - 1) as i64).unsqueeze(1);
            let picked = mask.where_(tail.forward(&x)?.log_softmax(1).gather(1, &within).squeeze(1), 0.0);
            inside = Some(match inside {
                Some(sum) => sum + picked,
                None => picked,
            });
        }
        let head = self.head.forward(&x)?.log_softmax(1).gather(1, &at.unsqueeze(1)).squeeze(1);
        let output = match inside {
            Some(inside) => head + inside,
            None => head,
        };
        let loss = -output.mean(..);
        let output = if batched { output } else { output.squeeze(0) };
        let [output, loss] = call.end_all([output.ok()?, loss.ok()?])?;
        Ok((output, loss))
    }
    /// The log probabilities of all classes, `[batch, n_classes]`.
    ///
    /// # Errors
    /// An input of another shape.
    #[track_caller]
    pub fn log_prob(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = self.site.enter();
        let head = self.head.forward(x)?.log_softmax(1);
        let shortlist = self.cutoffs[0];
        let mut parts = vec![head.narrow(1, 0, shortlist)];
        for (k, tail, ..) in self.clusters() {
            parts.push(tail.forward(x)?.log_softmax(1) + head.narrow(1, shortlist + k, 1));
        }
        Tensor::cat(&parts, 1).ok()
    }
    /// The most probable class of each row, `[batch]`.
    ///
    /// # Errors
    /// An input of another shape.
    #[track_caller]
    pub fn predict(&self, x: &Tensor) -> Result<Tensor> {
        self.log_prob(x)?.argmax(1).ok()
    }
}
