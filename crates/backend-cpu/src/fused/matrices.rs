//! Operands whose rows lie anywhere, matrix by matrix: what is read becomes a strided matrix of numbers, what is written a list of
//! rows that others do not have.
use super::rows::{StoredElement, Summed};
use crate::{
    gemm::MatRef,
    isa::Isa,
    operand::{In, Out, internal, whole_mut},
    scratch::ScratchVec,
};
use adamant_runtime::{ErrorKind, Layout, Shape, shape::RowLayout};

/// Where the rows of an operand lie.
///
/// # Errors
/// An operand that is no rows, which core does not give.
fn rows_of(layout: &Layout, shape: &Shape) -> Result<RowLayout, ErrorKind> {
    layout.rows(shape).ok_or_else(|| internal("an operand of rows was promised"))
}

/// Rows of one matrix, as numbers.
#[derive(Clone, Copy)]
pub(super) struct Plane<'a, T> {
    data: &'a [T],
    /// elements from row to row, of which the first `columns` are the row's
    step: usize,
    columns: usize,
}
impl<'a, T> Plane<'a, T> {
    /// Of rows that follow each other.
    pub fn new(data: &'a [T], columns: usize) -> Plane<'a, T> {
        Plane { data, step: columns, columns }
    }
    pub fn row(self, row: usize) -> &'a [T] {
        &self.data[row * self.step..][..self.columns]
    }
    /// Without the rows before `first`.
    pub fn since(self, first: usize) -> Plane<'a, T> {
        Plane { data: self.data.get(first * self.step..).unwrap_or_default(), ..self }
    }
    pub fn matrix(self) -> MatRef<'a, T> {
        MatRef { data: self.data, offset: 0, row_stride: self.step as isize, col_stride: 1, batch_stride: 0 }
    }
    pub fn transposed(self) -> MatRef<'a, T> {
        MatRef { data: self.data, offset: 0, row_stride: 1, col_stride: self.step as isize, batch_stride: 0 }
    }
}

/// An operand that is read.
pub(super) struct InMatrices<'a, M> {
    elements: &'a [M],
    rows: RowLayout,
    columns: usize,
}
impl<'a, T: Summed, M: StoredElement<Real = T>> InMatrices<'a, M> {
    /// # Errors
    /// An operand that is no rows.
    pub fn new(i: &In<'a>) -> Result<Self, ErrorKind> {
        let columns = i.shape.last().copied().unwrap_or(1);
        Ok(InMatrices { elements: i.elements()?, rows: rows_of(&i.layout, &i.shape)?, columns })
    }
    /// So many rows of a matrix from `first` on: where they lie, or in `scratch` if memory holds other numbers.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn plane<'s>(&self, isa: Isa, matrix: usize, first: usize, count: usize, scratch: &'s mut ScratchVec<T>) -> Result<Plane<'s, T>, ErrorKind>
    where
        'a: 's,
    {
        let (columns, step) = (self.columns, self.rows.row);
        if count * columns == 0 {
            return Ok(Plane::new(&[], columns));
        }
        let begin = self.rows.begin(matrix) + first * step;
        let all = self.elements.get(begin..begin + (count - 1) * step + columns).ok_or_else(|| internal("an operand leaves its buffer"))?;
        if M::AS_IS {
            return Ok(Plane { data: M::read(isa, all, &mut []), step, columns });
        }
        *scratch = M::scratch_vec(count * columns)?;
        if step == columns {
            return Ok(Plane::new(M::read(isa, all, scratch), columns));
        }
        for (k, to) in scratch.chunks_exact_mut(columns).enumerate() {
            M::read(isa, &all[k * step..][..columns], to);
        }
        Ok(Plane::new(scratch, columns))
    }
}

/// Rows of a matrix that is written: together, or each by itself.
pub(super) enum OutRows<'a, M> {
    Together(&'a mut [M]),
    Apart(Vec<&'a mut [M]>),
}
impl<'a, M: StoredElement> OutRows<'a, M> {
    /// The matrices of an output in parts of `each` rows at most; matrix by matrix.
    ///
    /// # Errors
    /// An output whose rows are not those of as many elements in another order, which core does not give.
    pub fn parts(out: &'a mut Out<'_>, each: usize) -> Result<Vec<OutRows<'a, M>>, ErrorKind> {
        let rank = out.shape.rank();
        if rank < 2 {
            return Err(internal("an output of rows was promised"));
        }
        let (height, columns, matrices) = (out.shape[rank - 2], out.shape[rank - 1], out.shape[..rank - 2].iter().product::<usize>());
        let sizes = || (0..matrices).flat_map(|_| (0..height).step_by(each).map(|first| each.min(height - first)));
        let mut parts = Vec::with_capacity(matrices * height.div_ceil(each));
        if out.is_dense {
            let mut rest = out.dense::<M>()?;
            for count in sizes() {
                let (part, later) = rest.split_at_mut(count * columns);
                parts.push(OutRows::Together(part));
                rest = later;
            }
            return Ok(parts);
        }
        let (lost, rows) = (|| internal("an output leaves its buffer"), rows_of(&out.layout, &out.shape)?);
        let all = whole_mut::<M>(out.bytes)?.get_mut(rows.offset..rows.offset + out.shape.elements()).ok_or_else(lost)?;
        // By their places in memory; each is taken once.
        let mut by_place: Vec<Option<&mut [M]>> = all.chunks_exact_mut(columns).map(Some).collect();
        let mut next = 0;
        for count in sizes() {
            let taken = (next..next + count).map(|row| {
                let at = rows.begin(row / height) - rows.offset + row % height * rows.row;
                by_place.get_mut(at / columns).filter(|_| at % columns == 0).and_then(Option::take).ok_or_else(lost)
            });
            parts.push(OutRows::Apart(taken.collect::<Result<_, _>>()?));
            next += count;
        }
        Ok(parts)
    }
    /// Lets `f` write rows from `first` on; all are together there, in memory that is given to it as numbers.
    ///
    /// # Errors
    /// `OutOfMemory`; those of `f`.
    pub fn write(
        &mut self,
        isa: Isa,
        first: usize,
        count: usize,
        columns: usize,
        f: impl FnOnce(&mut [M::Real]) -> Result<(), ErrorKind>,
    ) -> Result<(), ErrorKind> {
        let (mut made, mut numbers) = (Ok(()), M::scratch_vec(count * columns)?);
        match self {
            OutRows::Together(all) => M::write(isa, &mut all[first * columns..(first + count) * columns], &mut numbers, |to| made = f(to)),
            OutRows::Apart(rows) => {
                let mut together = crate::scratch::filled(M::zeroed(), count * columns)?;
                M::write(isa, &mut together, &mut numbers, |to| made = f(to));
                rows[first..first + count].iter_mut().zip(together.chunks_exact(columns)).for_each(|(to, from)| to.copy_from_slice(from));
            }
        }
        made
    }
}
/// Fills an output of rows in any order, of which it leaves no element out.
///
/// # Errors
/// An output that leaves its buffer.
pub(super) fn fill_zeros<M: StoredElement>(out: &mut Out<'_>) -> Result<(), ErrorKind> {
    let (offset, elements) = (out.layout.offset, out.shape.elements());
    let all = whole_mut::<M>(out.bytes)?.get_mut(offset..offset + elements);
    all.map(|all| all.fill(M::zeroed())).ok_or_else(|| internal("an output leaves its buffer"))
}
