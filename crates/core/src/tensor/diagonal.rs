//! Diagonals and triangles of matrices.
use super::{
    Tensor,
    compose::{compose1, refuse},
};
use crate::{DType, ErrorKind, Shape, composite::on_diagonal::OnDiagonal, shape::Axis};

impl Tensor {
    /// The lower triangle of each matrix up to a diagonal (0: the main one, positive: above it), zeros elsewhere.
    #[track_caller]
    pub fn tril(&self, diagonal: isize) -> Tensor {
        self.triangle("tril", diagonal, true)
    }
    /// The upper triangle of each matrix from a diagonal on (0: the main one, positive: above it), zeros elsewhere.
    #[track_caller]
    pub fn triu(&self, diagonal: isize) -> Tensor {
        self.triangle("triu", diagonal, false)
    }
    #[track_caller]
    fn triangle(&self, name: &'static str, diagonal: isize, lower: bool) -> Tensor {
        compose1(name, self, |x| {
            let rank = x.rank();
            if rank < 2 {
                return Err(ErrorKind::Shape { shape: x.meta().shape, expected: "at least two axes".into() }.into());
            }
            // Only the matrix's own mask: it is broadcast over the batch.
            let like = Tensor::zeros_on(Shape::new(&x.meta().shape[rank - 2..])?, DType::I64, x.meta().device);
            let (row, column) = (like.iota_like(0, DType::I64), like.iota_like(1, DType::I64));
            let limit = row + diagonal as i64;
            let keep = if lower { column.gt(limit).logical_not() } else { column.lt(limit).logical_not() };
            // `false` is zero in every dtype, and bools stay bools.
            Ok(keep.where_(x, false))
        })
    }
    /// The diagonal of the plane of two axes, on a new last axis. A positive offset is above the main diagonal.
    #[track_caller]
    pub fn diagonal(&self, offset: isize, a: impl Axis, b: impl Axis) -> Tensor {
        compose1("diagonal", self, |x| {
            let shape = x.meta().shape;
            let (a, b) = (shape.axis(a.to_axis())?, shape.axis(b.to_axis())?);
            if a == b {
                return refuse("the two axes of a diagonal differ");
            }
            let (rows, columns) = (shape[a], shape[b]);
            let (down, right) = ((-offset).max(0) as usize, offset.max(0) as usize);
            let len = rows.saturating_sub(down).min(columns.saturating_sub(right));
            if len == 0 {
                return Ok(x.narrow(a, 0, 0).main_diagonal(a, b));
            }
            Ok(x.narrow(a, down, len).narrow(b, right, len).main_diagonal(a, b))
        })
    }
    /// Of a vector: the matrix with it on a diagonal. Of a matrix: its diagonal.
    #[track_caller]
    pub fn diag(&self, diagonal: isize) -> Tensor {
        compose1("diag", self, |x| match x.rank() {
            1 => Ok(x.diag_embed(diagonal, -2, -1)),
            2 => Ok(x.diagonal(diagonal, 0, 1)),
            _ => Err(ErrorKind::Shape { shape: x.meta().shape, expected: "a vector or a matrix".into() }.into()),
        })
    }
    /// The matrix with all elements, in row-major order, on a diagonal.
    #[track_caller]
    pub fn diagflat(&self, diagonal: isize) -> Tensor {
        compose1("diagflat", self, |x| Ok(x.ravel().diag_embed(diagonal, -2, -1)))
    }
    /// Matrices (in the plane of two axes of the result) with the vectors of the last axis on a diagonal, zeros elsewhere.
    #[track_caller]
    pub fn diag_embed(&self, offset: isize, a: impl Axis, b: impl Axis) -> Tensor {
        compose1("diag_embed", self, |x| {
            let shape = x.meta().shape;
            let Some(&n) = shape.last() else { return Err(ErrorKind::Shape { shape, expected: "at least one axis".into() }.into()) };
            let (size, lead) = (n + offset.unsigned_abs(), shape.rank() - 1);
            let full = shape.with(lead, size).insert(lead, size)?;
            let (a, b) = (full.axis(a.to_axis())?, full.axis(b.to_axis())?);
            if a == b {
                return refuse("the two axes of a diagonal differ");
            }
            Ok(Tensor::composite1(OnDiagonal { offset }, &[x]).movedim([-2isize, -1], [a as isize, b as isize]))
        })
    }
}
