//! What a step learns from: any number of tensors whose first axis is the rows.
use crate::Failure;
use adamant_core::{Device, Result, Tensor};
use adamant_data::{DataLoader, Dataset};

/// A batch of a data set. Tensors, tuples of two to six batches, vectors and arrays of them are batches; a struct of your own becomes
/// one by two functions.
pub trait Batch: Send + Sized + 'static {
    /// Its tensors, in a fixed order.
    fn tensors(&self) -> Vec<&Tensor>;
    /// The batch on a device.
    fn to(&self, device: Device) -> Self;
    /// The same batch with other tensors, taken in the order of [`Batch::tensors`]. A batch that cannot tell is learned from op by op;
    /// what else lies in one that can is what it was when the step was captured.
    fn with_tensors(&self, _tensors: &mut dyn Iterator<Item = Tensor>) -> Option<Self> {
        None
    }
    /// Rows, by the first axis of the first tensor: what the mean loss of the batch is the mean over.
    ///
    /// # Errors
    /// The error that the tensor carries.
    fn rows(&self) -> Result<usize> {
        self.tensors().first().map_or(Ok(0), |t| Ok(t.shape()?.first().copied().unwrap_or(1)))
    }
}
impl Batch for Tensor {
    fn tensors(&self) -> Vec<&Tensor> {
        vec![self]
    }
    fn to(&self, device: Device) -> Tensor {
        Tensor::to(self, device)
    }
    fn with_tensors(&self, tensors: &mut dyn Iterator<Item = Tensor>) -> Option<Tensor> {
        tensors.next()
    }
}
impl<B: Batch> Batch for Vec<B> {
    fn tensors(&self) -> Vec<&Tensor> {
        self.iter().flat_map(B::tensors).collect()
    }
    fn to(&self, device: Device) -> Vec<B> {
        self.iter().map(|b| b.to(device)).collect()
    }
    fn with_tensors(&self, tensors: &mut dyn Iterator<Item = Tensor>) -> Option<Vec<B>> {
        self.iter().map(|b| b.with_tensors(tensors)).collect()
    }
}
impl<B: Batch, const N: usize> Batch for [B; N] {
    fn tensors(&self) -> Vec<&Tensor> {
        self.iter().flat_map(B::tensors).collect()
    }
    fn to(&self, device: Device) -> [B; N] {
        std::array::from_fn(|k| self[k].to(device))
    }
    fn with_tensors(&self, tensors: &mut dyn Iterator<Item = Tensor>) -> Option<[B; N]> {
        let all: Option<Vec<B>> = self.iter().map(|b| b.with_tensors(tensors)).collect();
        all?.try_into().ok()
    }
}
macro_rules! tuples { ($(($first:ident $($rest:ident)*);)*) => { $(
    impl<$first: Batch, $($rest: Batch),*> Batch for ($first, $($rest,)*) {
        #[allow(non_snake_case)]
        fn tensors(&self) -> Vec<&Tensor> {
            let ($first, $($rest,)*) = self;
            let mut all = $first.tensors();
            $(all.extend($rest.tensors());)*
            all
        }
        #[allow(non_snake_case)]
        fn to(&self, device: Device) -> Self {
            let ($first, $($rest,)*) = self;
            ($first.to(device), $($rest.to(device),)*)
        }
        #[allow(non_snake_case)]
        fn with_tensors(&self, tensors: &mut dyn Iterator<Item = Tensor>) -> Option<Self> {
            let ($first, $($rest,)*) = self;
            Some(($first.with_tensors(tensors)?, $($rest.with_tensors(tensors)?,)*))
        }
    }
)* } }
tuples! { (A B); (A B C); (A B C D); (A B C D E); (A B C D E F); }

/// The batches of a step: of each that is taken there are the parts that are read here and have records.
pub(crate) struct StepBatches<B> {
    pub batches: Vec<B>,
    /// which of the parts that are read here each is of
    pub of_part: Vec<usize>,
    /// how many batches of all parts were taken
    pub taken: usize,
}
/// As [`group`], of batches that may be cut into parts.
pub(super) fn parts<D: Dataset + ?Sized + 'static>(loader: &mut DataLoader<D>, most: usize) -> std::result::Result<StepBatches<D::Batch>, Failure> {
    let mut step = StepBatches { batches: Vec::new(), of_part: Vec::new(), taken: 0 };
    while step.taken < most && (step.taken == 0 || loader.state().batch < loader.batches()) {
        let Some(parts) = loader.next_parts() else { break };
        let parts = parts?;
        // A batch of which no record is left is passed over, where all of it is read here.
        let is_empty = loader.parts().1 == 1 && parts.iter().all(Option::is_none);
        for (k, batch) in parts.into_iter().enumerate() {
            step.of_part.extend(batch.is_some().then_some(k));
            step.batches.extend(batch);
        }
        step.taken += usize::from(!is_empty);
    }
    Ok(step)
}
/// The next batches of the epoch, at most so many: fewer at its end, none after it.
pub(crate) fn group<D: Dataset + ?Sized + 'static>(loader: &mut DataLoader<D>, most: usize) -> std::result::Result<Vec<D::Batch>, Failure> {
    // An epoch may be shorter than what is asked for, by any number.
    let mut group = Vec::new();
    while group.len() < most && (group.is_empty() || loader.state().batch < loader.batches()) {
        match loader.next_batch() {
            Some(batch) => group.push(batch?),
            None => break,
        }
    }
    Ok(group)
}
