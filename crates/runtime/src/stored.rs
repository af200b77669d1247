//! Where a value lies.
use crate::{
    Error, Shape, Taint,
    buffer::Buffer,
    shape::{Layout, MAX_RANK},
};
use std::sync::Arc;

/// Where a value lies.
#[derive(Clone)]
pub struct Stored {
    /// in which memory
    pub buffer: Arc<Buffer>,
    /// Index of the first element.
    pub offset: usize,
    /// Steps between neighbours; `None`: row-major without gaps, as nearly all are.
    pub strides: Option<Box<[isize; MAX_RANK]>>,
    /// What was found in data that this value was computed from, or may yet be.
    pub taint: Option<Taint>,
}
impl Stored {
    /// Elements at these strides from an offset on.
    #[inline]
    pub fn new(buffer: Arc<Buffer>, shape: &Shape, offset: usize, strides: &[isize; MAX_RANK], taint: Option<Taint>) -> Stored {
        let strides = (*strides != shape.strides()).then(|| Box::new(*strides));
        Stored { buffer, offset, strides, taint }
    }
    /// All of a buffer, row-major.
    #[inline]
    pub fn dense(buffer: Arc<Buffer>) -> Stored {
        Stored { buffer, offset: 0, strides: None, taint: None }
    }
    /// Is it known to come from good data?
    #[inline]
    pub fn is_clean(&self) -> bool {
        self.taint.as_ref().is_none_or(Taint::is_clean)
    }
    /// The error found in the data behind it, for whoever reads it. Waits for the device, if that still looks.
    pub fn fault(&self) -> Option<Error> {
        self.taint.as_ref()?.told()
    }
    /// As `fault`, without waiting; `None` also where it is not known yet.
    pub fn known_fault(&self) -> Option<Error> {
        self.taint.as_ref()?.known().flatten()
    }
    /// How its elements lie.
    #[inline]
    pub fn layout(&self, shape: &Shape) -> Layout {
        Layout { offset: self.offset, strides: self.strides.as_deref().copied().unwrap_or_else(|| shape.strides()) }
    }
    /// Are its elements row-major without gaps, from any offset?
    #[inline]
    pub fn is_dense(&self, shape: &Shape) -> bool {
        self.strides.is_none() || self.layout(shape).is_dense(shape)
    }
}
