//! Elements by where they stand in row-major order: single places, diagonals, and views by strides.
use super::{
    Tensor,
    compose::{Built, compose, compose1},
    views::strided_shape,
};
use crate::{DType, ErrorKind, Scalar, Shape, composite::wide::same_dtype};

impl Tensor {
    /// The elements of `source` put at row-major positions `index` (i64, of the same shape; a negative one counts from the end), or
    /// added there if `accumulate`. Of equal positions without it, one wins.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// let x = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// assert_eq!(x.put(&tensor![1, -1], &tensor![10.0, 20.0], true).to_vec::<f32>()?, [1.0, 12.0, 3.0, 24.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensor: index and source of two shapes; two dtypes; at the first read, a position outside.
    ///
    /// Source: `torch.Tensor.put`.
    #[track_caller]
    pub fn put(&self, index: &Tensor, source: &Tensor, accumulate: bool) -> Tensor {
        compose("put", &[self, index, source], || {
            let (left, right) = (index.meta().shape, source.meta().shape);
            if left != right {
                return Err(ErrorKind::ShapeMismatch { left, right, axes: None, expected: "an element for each position" }.into());
            }
            same_dtype(&self.meta(), &source.meta())?;
            Ok(self.ravel().put_at(&[Some(&index.ravel())], &source.ravel(), accumulate)?.reshape(self.meta().shape))
        })
    }
    /// The elements whose indices are all equal replaced by a number: of a matrix its diagonal, of more axes, which then have one size,
    /// that of all. `wrap`: the diagonal of a tall matrix begins again after a row between.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # Device::reference().make_current();
    /// assert_eq!(Tensor::zeros([3, 2]).fill_diagonal(5.0, false).to_vec::<f32>()?, [5.0, 0.0, 0.0, 5.0, 0.0, 0.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensor: fewer than two axes; more than two of different sizes; a number that the dtype does not hold.
    ///
    /// Source: `torch.Tensor.fill_diagonal_`.
    #[track_caller]
    pub fn fill_diagonal(&self, value: impl Into<Scalar>, wrap: bool) -> Tensor {
        let value = value.into();
        compose1("fill_diagonal", self, |x| {
            let shape = x.meta().shape;
            if shape.rank() < 2 || (shape.rank() > 2 && shape.iter().any(|&n| n != shape[0])) {
                return Err(ErrorKind::Shape { shape, expected: "a matrix, or more axes of one size".into() }.into());
            }
            let like = x.detach();
            let last = like.iota_like(shape.rank() - 1, DType::I64);
            let mut on = None::<Tensor>;
            for axis in 0..shape.rank() - 1 {
                let own = like.iota_like(axis, DType::I64);
                let own = if wrap && shape.rank() == 2 { own.remainder(shape[1] as i64 + 1) } else { own };
                let equal = own.eq(&last);
                on = Some(on.map_or(equal.clone(), |all| all.logical_and(equal)));
            }
            match on {
                Some(on) => Ok(x.masked_fill(&on, value)),
                None => Ok(x.clone()),
            }
        })
    }
    /// The elements of `source`, whose shape is that of the view, put at the places of [`Tensor::as_strided`]; of a place that is
    /// named more than once, one wins.
    ///
    /// # Errors
    /// As [`Tensor::as_strided`]; a source of another shape or dtype.
    ///
    /// Source: `torch.as_strided_scatter`.
    #[track_caller]
    pub fn as_strided_scatter(&self, source: &Tensor, sizes: &[usize], strides: &[usize], offset: usize) -> Tensor {
        compose("as_strided_scatter", &[self, source], || {
            let places = strided(self, sizes, strides, offset)?;
            if source.meta().shape[..] != *sizes {
                let (left, right) = (Shape::new(sizes)?, source.meta().shape);
                return Err(ErrorKind::ShapeMismatch { left, right, axes: None, expected: "a source of the view's shape" }.into());
            }
            same_dtype(&self.meta(), &source.meta())?;
            Ok(self.ravel().put_at(&[Some(&places.ravel())], &source.ravel(), false)?.reshape(self.meta().shape))
        })
    }
}
/// The places, i64, of the view's shape.
fn strided(x: &Tensor, sizes: &[usize], strides: &[usize], offset: usize) -> Built<Tensor> {
    let meta = x.meta();
    let shape = strided_shape(&meta.shape, sizes, strides, offset)?;
    let like = Tensor::zeros_on(shape, DType::I64, meta.device);
    Ok(strides.iter().enumerate().fold(&like + offset as i64, |all, (axis, &by)| all + like.iota_like(axis, DType::I64) * by as i64))
}
