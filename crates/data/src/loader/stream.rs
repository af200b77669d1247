//! The same batches for asynchronous code, under any runtime: pending until a worker has made the next one.
use super::DataLoader;
use crate::Dataset;
use adamant_core::{Origin, Result};
use futures_core::Stream;
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// The batches of an epoch that are left, as a stream. Without workers, a batch is read inside the poll.
pub struct BatchStream<'a, D: Dataset + ?Sized + 'static> {
    loader: &'a mut DataLoader<D>,
    here: Origin,
    over: bool,
}
impl<D: Dataset + ?Sized + 'static> DataLoader<D> {
    /// The rest of the epoch as an asynchronous stream. Ends after an error.
    #[track_caller]
    pub fn stream(&mut self) -> BatchStream<'_, D> {
        BatchStream { loader: self, here: Origin::here(), over: false }
    }
}
impl<D: Dataset + ?Sized + 'static> Stream for BatchStream<'_, D> {
    type Item = Result<D::Batch>;
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        let here = self.here;
        let next = self.loader.advance(Some(context.waker()), here);
        self.over = matches!(next, Poll::Ready(None | Some(Err(_))));
        next
    }
}
