//! Views that PyTorch reaches by strides: windows, diagonals, any strides of row-major elements. None of them copies. Beside them their
//! counterparts, which put elements among zeros.
use super::{
    Tensor,
    compose::{Built, compose1, on_an_axis, refuse},
};
use crate::{
    Arg, AxisSet, Error, ErrorKind, Op, Result, Shape,
    op::{PadSpec, View},
    shape::{Axis, MAX_RANK},
};
use smallvec::SmallVec;

impl Tensor {
    /// Sliding windows of `size` every `step` along an axis: the axis counts windows, a new last axis runs inside them. A view: windows
    /// may overlap, and gradients add up where they do.
    ///
    /// ```
    /// # use adamant_core::{DType, Device, Tensor};
    /// # Device::reference().make_current();
    /// let windows = Tensor::arange(0, 5, 1, DType::F32).unfold(0, 3, 2);
    /// assert_eq!(windows.shape()?[..], [2, 3]);
    /// assert_eq!(windows.to_vec::<f32>()?, [0.0, 1.0, 2.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensor: no such axis; a window longer than the axis; a step of 0.
    ///
    /// Source: `torch.Tensor.unfold`.
    #[track_caller]
    pub fn unfold(&self, axis: impl Axis, size: usize, step: usize) -> Tensor {
        compose1("unfold", self, |x| {
            let (x, scalar) = on_an_axis(x);
            let shape = x.meta().shape;
            let axis = shape.axis(axis.to_axis())?;
            if step == 0 {
                return refuse("the step between windows is at least 1");
            }
            if size > shape[axis] {
                return Err(ErrorKind::Shape { shape, expected: format!("axis {axis} to hold a window of {size}") }.into());
            }
            if scalar {
                return Ok(x.narrow(0, 0, size));
            }
            Ok(x.windows(axis, size, step))
        })
    }
    /// The elements at `offset + Σ index[k] · strides[k]` of the row-major order: a view, so places may be read more than once. Gradients
    /// add up there.
    ///
    /// ```
    /// # use adamant_core::{DType, Device, Tensor};
    /// # Device::reference().make_current();
    /// let x = Tensor::arange(0, 6, 1, DType::F32);
    /// assert_eq!(x.as_strided(&[3, 2], &[1, 2], 1).to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0, 3.0, 5.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensor: sizes and strides of two lengths; a place outside of the elements.
    ///
    /// Source: `torch.as_strided` of a contiguous tensor.
    #[track_caller]
    pub fn as_strided(&self, sizes: &[usize], strides: &[usize], offset: usize) -> Tensor {
        compose1("as_strided", self, |x| {
            let shape = strided_shape(&x.meta().shape, sizes, strides, offset)?;
            if shape.elements() == 0 {
                return Ok(x.ravel().narrow(0, 0, 0).reshape(shape));
            }
            // Axes that go somewhere, the largest stride first: each cuts what is left into windows, in which the next ones run.
            let mut order: SmallVec<[usize; MAX_RANK]> = (0..sizes.len()).filter(|&k| sizes[k] > 1 && strides[k] > 0).collect();
            order.sort_by_key(|&k| std::cmp::Reverse(strides[k]));
            let reach = |axes: &[usize]| 1 + axes.iter().map(|&k| (sizes[k] - 1) * strides[k]).sum::<usize>();
            let mut view = x.ravel().narrow(0, offset, reach(&order));
            for (k, &axis) in order.iter().enumerate() {
                view = match reach(&order[k + 1..]) {
                    1 => view.slice(k, 0, view.meta().shape[k], strides[axis]),
                    rest => view.windows(k, rest, strides[axis]),
                };
            }
            let view = if order.is_empty() { view.reshape(Shape::SCALAR) } else { view };
            // The others are new axes before them.
            let from: SmallVec<[usize; MAX_RANK]> = (0..sizes.len()).filter(|k| !order.contains(k)).chain(order.iter().copied()).collect();
            let apart = Shape::new(&from.iter().map(|&k| sizes[k]).collect::<SmallVec<[usize; MAX_RANK]>>())?;
            let back: SmallVec<[isize; MAX_RANK]> = (0..from.len()).filter_map(|k| from.iter().position(|&f| f == k)).map(|k| k as isize).collect();
            Ok(view.expand(apart).permute(&back[..]))
        })
    }
    /// The main diagonal of the plane of two axes, on a new last axis.
    pub(super) fn main_diagonal(&self, a: usize, b: usize) -> Tensor {
        self.as_view(View::Diagonal(AxisSet::of([a, b])), Arg::None)
    }
    fn windows(&self, axis: usize, size: usize, step: usize) -> Tensor {
        self.as_view(View::Windows { axis: axis as u8, size, step }, Arg::None)
    }
    /// In every `step`-th place of an axis from `start` on, zeros elsewhere: `size` elements.
    ///
    /// # Errors
    /// No axis is left to work with.
    pub(crate) fn dilated(&self, axis: usize, start: usize, step: usize, size: usize) -> Result<Tensor> {
        let shape = self.meta().shape;
        if step == 1 || shape[axis] == 0 {
            return Ok(self.placed(axis, start, size));
        }
        // The axis as lines of `step` elements: theirs lie below each other.
        let wide = self.reshape(shape.insert(axis + 1, 1).map_err(|kind| Error::new("slice", kind))?);
        let lines = size.div_ceil(step);
        let (line, column) = (start / step, start % step);
        let mut widths: SmallVec<[(isize, isize); MAX_RANK]> = SmallVec::from_elem((0, 0), wide.rank());
        widths[axis] = (line as isize, (lines - line - shape[axis]) as isize);
        widths[axis + 1] = (column as isize, (step - 1 - column) as isize);
        Ok(wide.with_zeros(PadSpec { widths }).reshape(shape.with(axis, lines * step)).narrow(axis, 0, size))
    }
    /// Surrounded with zeros.
    pub(crate) fn with_zeros(&self, pad: PadSpec) -> Tensor {
        Tensor::apply(Op::Pad(Box::new(pad)), Arg::None, &[self])
    }
    /// On an axis from `start` on, zeros beside it: `size` elements. What reaches past them is cut off.
    pub(crate) fn placed(&self, axis: usize, start: usize, size: usize) -> Tensor {
        let len = self.meta().shape[axis];
        if start == 0 && len >= size {
            return self.narrow(axis, 0, size);
        }
        let mut widths: SmallVec<[(isize, isize); MAX_RANK]> = SmallVec::from_elem((0, 0), self.rank());
        widths[axis] = (start as isize, size as isize - (start + len) as isize);
        self.with_zeros(PadSpec { widths })
    }
}

/// The shape of a view of these strides of so many elements.
pub(super) fn strided_shape(of: &Shape, sizes: &[usize], strides: &[usize], offset: usize) -> Built<Shape> {
    if sizes.len() != strides.len() {
        return refuse(format!("{} sizes and {} strides", sizes.len(), strides.len()));
    }
    let shape = Shape::new(sizes)?;
    let reach = sizes.iter().zip(strides).map(|(&n, &by)| n.saturating_sub(1).saturating_mul(by)).fold(offset, usize::saturating_add);
    if shape.elements() > 0 && reach >= of.elements() {
        return refuse(format!("the view reaches place {reach} of {} elements", of.elements()));
    }
    Ok(shape)
}
