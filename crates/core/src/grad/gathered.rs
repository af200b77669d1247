//! What comes to one place of the tape. Cotangents of slices wait until something else comes or the place is walked to: those that
//! lie side by side are then joined, where each by itself would be surrounded with zeros and added, all of the sliced value for every
//! slice of it.
use crate::{Meta, Tensor};

/// The cotangent of a slice of neighbours.
pub(super) struct Slab {
    pub axis: usize,
    pub start: usize,
    pub cotangent: Tensor,
}
impl Slab {
    fn end(&self) -> usize {
        self.start + self.cotangent.meta().shape[self.axis]
    }
    /// As a cotangent of the sliced value.
    fn whole(&self, meta: &Meta) -> Tensor {
        self.cotangent.placed(self.axis, self.start, meta.shape[self.axis])
    }
}
/// The cotangents that have come, in the order in which they did.
#[derive(Default)]
pub(super) struct Gathered {
    sum: Option<Tensor>,
    slabs: Vec<Slab>,
}
impl Gathered {
    /// One of the whole value, whose meta this is.
    pub fn add(&mut self, g: Tensor, meta: &Meta) {
        self.join(meta);
        self.plus(g);
    }
    /// One of a slice of it.
    pub fn add_slab(&mut self, slab: Slab) {
        self.slabs.push(slab);
    }
    /// The sum of all.
    pub fn total(mut self, meta: &Meta) -> Option<Tensor> {
        self.join(meta);
        self.sum
    }
    fn plus(&mut self, g: Tensor) {
        self.sum = Some(match self.sum.take() {
            Some(sum) => both(&sum, &g),
            None => g,
        });
    }
    /// Adds the slices that wait.
    fn join(&mut self, meta: &Meta) {
        let slabs = std::mem::take(&mut self.slabs);
        match joined(&slabs, meta) {
            Some(all) => self.plus(all),
            None => slabs.iter().for_each(|slab| self.plus(slab.whole(meta))),
        }
    }
}
/// Slices of one axis that do not overlap, with zeros between them. `None`: they are not such, or there are not two of them.
fn joined(slabs: &[Slab], meta: &Meta) -> Option<Tensor> {
    let first = slabs.first().filter(|_| slabs.len() > 1)?;
    let (axis, dtype) = (first.axis, first.cotangent.meta().dtype);
    let is_alike = |s: &Slab| s.axis == axis && s.cotangent.error().is_none() && s.cotangent.meta().dtype == dtype;
    if !slabs.iter().all(is_alike) {
        return None;
    }
    let mut sorted: Vec<&Slab> = slabs.iter().collect();
    sorted.sort_by_key(|s| s.start);
    if sorted.windows(2).any(|pair| pair[0].end() > pair[1].start) {
        return None;
    }
    let zeros = |from: usize, to: usize| (from < to).then(|| Tensor::zeros_on(meta.shape.with(axis, to - from), dtype, meta.device));
    let (mut parts, mut at) = (Vec::new(), 0);
    for slab in sorted {
        parts.extend(zeros(at, slab.start));
        parts.push(slab.cotangent.clone());
        at = slab.end();
    }
    parts.extend(zeros(at, meta.shape[axis]));
    Some(Tensor::cat(&parts, axis))
}
/// The sum of two cotangents, of which one may have kept its f32 sums.
pub(super) fn both(a: &Tensor, b: &Tensor) -> Tensor {
    if a.error().is_none() && b.error().is_none() && a.meta().dtype != b.meta().dtype { a.widened() + b.widened() } else { a + b }
}
