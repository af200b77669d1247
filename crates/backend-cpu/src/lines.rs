//! Lines along one axis: what scans, sorts, gathers and arg-reductions walk. Must not know dtypes.
use crate::{
    nest::{Nest, Strides},
    scratch::{ScratchVec, scratch_vec},
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
        let n = self.inner.len();
        let mut out = scratch_vec(n)?;
        if n > 0 {
            self.inner.runs(k, 0, n, |_, count, offset, stride| out.extend((0..count as isize).map(|j| offset + j * stride)));
        }
        Ok(out)
    }
}
