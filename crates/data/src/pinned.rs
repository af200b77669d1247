//! Batches in pinned memory of the host, from which a device copies by itself.
use crate::{BadRecord, Dataset, Description, Draw, Place};
use adamant_core::{Device, Result, Tensor};
use std::sync::Arc;

/// Batches whose tensors can be moved to pinned memory.
pub trait PinBatch: Sized {
    /// The same batch with its tensors pinned for a device, as [`Tensor::pin_memory`] says.
    ///
    /// # Errors
    /// As [`Tensor::pin_memory`].
    fn pin_memory(self, device: Device) -> Result<Self>;
}
impl PinBatch for Tensor {
    #[track_caller]
    fn pin_memory(self, device: Device) -> Result<Tensor> {
        Tensor::pin_memory(&self, device)
    }
}
impl<B: PinBatch> PinBatch for Vec<B> {
    fn pin_memory(self, device: Device) -> Result<Vec<B>> {
        self.into_iter().map(|b| b.pin_memory(device)).collect()
    }
}
impl<B: PinBatch> PinBatch for Option<B> {
    fn pin_memory(self, device: Device) -> Result<Option<B>> {
        self.map(|b| b.pin_memory(device)).transpose()
    }
}
macro_rules! tuples { ($(($($part:ident)*);)*) => { $(
    impl<$($part: PinBatch),*> PinBatch for ($($part,)*) {
        #[allow(non_snake_case)]
        fn pin_memory(self, device: Device) -> Result<Self> {
            let ($($part,)*) = self;
            Ok(($($part.pin_memory(device)?,)*))
        }
    }
)* } }
tuples! { (A); (A B); (A B C); (A B C D); }

/// A data set whose batches are made on the CPU, in memory that is pinned for a device: see
/// [`DataLoaderBuilder::pin_memory`](crate::DataLoaderBuilder::pin_memory).
#[derive(Debug)]
pub struct PinnedBatches<D: ?Sized> {
    device: Device,
    dataset: Arc<D>,
}
impl<D: ?Sized> PinnedBatches<D> {
    /// The batches of a data set, pinned for `device`.
    pub fn new(dataset: Arc<D>, device: Device) -> PinnedBatches<D> {
        PinnedBatches { device, dataset }
    }
    /// The data set whose batches they are.
    pub fn dataset(&self) -> &Arc<D> {
        &self.dataset
    }
}
impl<D: Dataset<Batch: PinBatch> + ?Sized> Dataset for PinnedBatches<D> {
    type Record = D::Record;
    type Batch = D::Batch;
    fn len(&self) -> usize {
        self.dataset.len()
    }
    fn read(&self, index: usize) -> std::result::Result<D::Record, BadRecord> {
        self.dataset.read(index)
    }
    fn read_at(&self, index: usize, draw: &Draw) -> std::result::Result<D::Record, BadRecord> {
        self.dataset.read_at(index, draw)
    }
    fn collate(&self, records: Vec<D::Record>) -> Result<D::Batch> {
        Device::cpu()?.scoped(|| self.dataset.collate(records))?.pin_memory(self.device)
    }
    fn locate(&self, index: usize) -> Place {
        self.dataset.locate(index)
    }
    fn describe(&self) -> Description {
        self.dataset.describe()
    }
}
