//! Lines along one axis: what scans, sorts, gathers and arg-reductions walk. Must not know dtypes.
use crate::{
    nest::{Nest, Strides},
    scratch::{ScratchVec, filled},
};
use adamant_runtime::{ErrorKind, Shape};
use smallvec::SmallVec;

/// A space seen as `[outer, n, inner]` around an axis.
pub(crate) struct AxisLines {
    /// the axes before it
    pub outer: Nest,
    /// its size
    pub n: usize,
    /// operands' strides along it
    pub steps: SmallVec<[isize; 4]>,
    /// the axes behind it
    pub inner: Nest,
}
impl AxisLines {
    pub fn new(space: &Shape, axis: usize, operands: &[&Strides]) -> AxisLines {
        AxisLines {
            outer: Nest::new(space, 0..axis, operands),
            n: space[axis],
            steps: operands.iter().map(|s| s[axis]).collect(),
            inner: Nest::new(space, axis + 1..space.rank(), operands),
        }
    }
    /// Offsets of operand k along the inner axes.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn inner_offsets(&self, k: usize) -> Result<ScratchVec<isize>, ErrorKind> {
        let mut out = filled(0, self.inner.len())?;
        if !out.is_empty() {
            self.inner.places(k, 0, 0, &mut out);
        }
        Ok(out)
    }
}
