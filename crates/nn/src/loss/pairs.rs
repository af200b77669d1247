//! Losses of pairs and triplets: what is alike is to be near, what is not is to be apart by a margin.
use super::losses;
use crate::{Module, Site};
use adamant_core::{
    Result, Tensor,
    functional::{self, Reduction, TripletMarginOptions},
};
use std::sync::Arc;

losses! {
    /// For pairs of vectors: `1 - cos(x1, x2)` where the target is 1, `max(0, cos(x1, x2) - margin)` where it is -1.
    ///
    /// x1 and x2 `[batch, features]` or `[features]` of one float dtype, targets `[batch]` or `[]` of any dtype. The result is a number,
    /// or one for each target without a reduction. Defaults: margin 0, the mean.
    ///
    /// # Errors
    /// Other shapes; other dtypes.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::CosineEmbeddingLoss;
    /// # adamant_core::Device::reference().make_current();
    /// let (x1, x2) = (Tensor::from_slice(&[1.0f32, 0.0, 1.0, 0.0], [2, 2]), Tensor::from_slice(&[0.0f32, 1.0, 2.0, 0.0], [2, 2]));
    /// let loss = CosineEmbeddingLoss::new().forward(&x1, &x2, &Tensor::from_slice(&[1i64, -1], [2]))?;
    /// assert!((loss.item::<f32>()? - 1.0).abs() < 1e-6);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    CosineEmbeddingLoss "CosineEmbeddingLoss" (margin: f64 = 0.0, reduction: Reduction = Reduction::Mean)
        |self, x1, x2, target| functional::cosine_embedding_loss(x1, x2, target, self.margin, self.reduction);

    /// For pairs of scores: `max(0, margin - t (x1 - x2))`; the target t is 1 where the first is to be larger, else -1.
    ///
    /// x1 and x2 `[..]` of one float dtype and shape, targets of that shape and any dtype; what is smaller repeats. The result is a
    /// number, or `[..]` without a reduction. Defaults: margin 0, the mean.
    ///
    /// # Errors
    /// Shapes of which none is the result's; other dtypes.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::MarginRankingLoss;
    /// # adamant_core::Device::reference().make_current();
    /// let (x1, x2) = (Tensor::from_slice(&[2.0f32, 1.0], [2]), Tensor::from_slice(&[1.0f32, 4.0], [2]));
    /// assert_eq!(MarginRankingLoss::new().forward(&x1, &x2, &Tensor::ones([2]))?.item::<f32>()?, 1.5);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    MarginRankingLoss "MarginRankingLoss" (margin: f64 = 0.0, reduction: Reduction = Reduction::Mean)
        |self, x1, x2, target| functional::margin_ranking_loss(x1, x2, target, self.margin, self.reduction);

    /// For an anchor, one that is alike and one that is not: `max(0, margin + d(anchor, positive) - d(anchor, negative))` with
    /// `d(a, b)` the p-norm of `a - b + eps` over the last axis; with `swap`, d(positive, negative) counts where it is smaller than
    /// d(anchor, negative) (Balntas et al., "Learning shallow convolutional feature descriptors with triplet losses", 2016).
    ///
    /// All three `[.., features]` of one float dtype and as many axes. The result is a number, or `[..]` without a reduction. Defaults:
    /// margin 1, p 2, eps 1e-6, no swap, the mean.
    ///
    /// # Errors
    /// Other shapes; other dtypes; a margin that is not above 0.
    ///
    /// ```
    /// # use adamant_core::{Tensor, functional::TripletMarginOptions};
    /// # use adamant_nn::TripletMarginLoss;
    /// # adamant_core::Device::reference().make_current();
    /// let [anchor, near, far] = [0.0f32, 1.0, 3.0].map(|v| Tensor::from_slice(&[v, 0.0], [1, 2]));
    /// let loss = TripletMarginLoss::with(TripletMarginOptions { margin: 3.0, ..Default::default() }).forward(&anchor, &near, &far)?;
    /// assert!((loss.item::<f32>()? - 1.0).abs() < 1e-4);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    TripletMarginLoss "TripletMarginLoss" (options: TripletMarginOptions = TripletMarginOptions::default())
        |self, anchor, positive, negative| functional::triplet_margin_loss(anchor, positive, negative, &self.options);
}

type Distance = Arc<dyn Fn(&Tensor, &Tensor) -> Tensor + Send + Sync>;

/// [`TripletMarginLoss`] with a distance of one's own: a function of two tensors, whose result has a number for each pair.
///
/// All three `[..]` of one float dtype and as many axes. Defaults: [`Tensor::pairwise_distance`] with p 2 and eps 1e-6, margin 1, no
/// swap, the mean. A distance that has weights stands beside the loss in a model, for the loss holds no parameters.
///
/// # Errors
/// Other shapes; other dtypes; a margin that is not above 0; what the distance refuses.
///
/// ```
/// # use adamant_core::{Tensor, functional::Reduction};
/// # use adamant_nn::TripletMarginWithDistanceLoss;
/// # adamant_core::Device::reference().make_current();
/// let loss = TripletMarginWithDistanceLoss::with(|a, b| (a - b).abs().amax(-1), 2.5, false, Reduction::Mean);
/// let [anchor, near, far] = [0.0f32, 1.0, 3.0].map(|v| Tensor::from_slice(&[v, 0.0], [1, 2]));
/// assert_eq!(loss.forward(&anchor, &near, &far)?.item::<f32>()?, 0.5);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct TripletMarginWithDistanceLoss {
    site: Site,
    #[module(skip)]
    distance: Distance,
    margin: f64,
    swap: bool,
    #[module(skip)]
    reduction: Reduction,
}
impl TripletMarginWithDistanceLoss {
    /// PyTorch's defaults.
    pub fn new() -> TripletMarginWithDistanceLoss {
        TripletMarginWithDistanceLoss::with(|a, b| a.pairwise_distance(b, 2.0, 1e-6), 1.0, false, Reduction::Mean)
    }
    /// With distance, margin, swap and reduction.
    pub fn with(
        distance: impl Fn(&Tensor, &Tensor) -> Tensor + Send + Sync + 'static,
        margin: f64,
        swap: bool,
        reduction: Reduction,
    ) -> TripletMarginWithDistanceLoss {
        TripletMarginWithDistanceLoss { site: Site::with_hooks("TripletMarginWithDistanceLoss"), distance: Arc::new(distance), margin, swap, reduction }
    }
    /// The loss.
    ///
    /// # Errors
    /// As the type's text says.
    #[track_caller]
    pub fn forward(&self, anchor: &Tensor, positive: &Tensor, negative: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[anchor, positive, negative])?;
        let (anchor, positive, negative) = (call.input(0, anchor), call.input(1, positive), call.input(2, negative));
        let y = functional::triplet_margin_with_distance_loss(anchor, positive, negative, &*self.distance, self.margin, self.swap, self.reduction).ok()?;
        call.end(y)
    }
}
impl Default for TripletMarginWithDistanceLoss {
    fn default() -> TripletMarginWithDistanceLoss {
        TripletMarginWithDistanceLoss::new()
    }
}
