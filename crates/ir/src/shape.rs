//! Shapes, layouts and the arguments that name axes. No tensor and no op is known here.
use crate::error::ErrorKind;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::{
    cell::Cell,
    collections::HashMap,
    fmt,
    ops::{Deref, RangeFull},
    sync::LazyLock,
};

/// The largest number of axes a tensor may have.
pub const MAX_RANK: usize = 8;

/// The size of each axis, outermost first. At most [`MAX_RANK`] axes; a scalar has none.
///
/// A shape is a pointer to the one record of its sizes in this process, so it is copied and compared in no time and
/// its strides are worked out once. Records are never freed: a program has few distinct shapes.
#[derive(Clone, Copy)]
pub struct Shape(&'static ShapeRecord);

/// The record of a shape.
struct ShapeRecord {
    rank: usize,
    dims: [usize; MAX_RANK],
    elements: usize,
    strides: [isize; MAX_RANK],
    hash: u64,
}
static SCALAR: ShapeRecord = ShapeRecord { rank: 0, dims: [1; MAX_RANK], elements: 1, strides: [0; MAX_RANK], hash: 0 };
/// Sizes on their way to a shape.
pub type Dims = SmallVec<[usize; MAX_RANK]>;
static RECORDS: LazyLock<Mutex<HashMap<(usize, [usize; MAX_RANK]), &'static ShapeRecord>>> = LazyLock::new(Default::default);
const RECENT: usize = 256;
thread_local! {
    /// Records this thread met lately, by a cheap hash: most look-ups end here, without a lock.
    static MET: [Cell<Option<&'static ShapeRecord>>; RECENT] = const { [const { Cell::new(None) }; RECENT] };
}
fn record(rank: usize, dims: [usize; MAX_RANK]) -> Shape {
    if rank == 0 {
        return Shape::SCALAR;
    }
    let mut hash = rank as u64;
    for &d in &dims[..rank] {
        hash = (hash.rotate_left(5) ^ d as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    MET.with(|met| {
        let place = &met[(hash >> 56) as usize % RECENT];
        if let Some(found) = place.get()
            && found.rank == rank
            && found.dims == dims
        {
            return Shape(found);
        }
        let found = *RECORDS.lock().entry((rank, dims)).or_insert_with(|| {
            let mut strides = [0; MAX_RANK];
            let mut step = 1isize;
            for axis in (0..rank).rev() {
                strides[axis] = step;
                step = step.saturating_mul(dims[axis].max(1) as isize);
            }
            Box::leak(Box::new(ShapeRecord { rank, dims, elements: dims[..rank].iter().fold(1, |n, d| n.saturating_mul(*d)), strides, hash }))
        });
        place.set(Some(found));
        Shape(found)
    })
}

impl Shape {
    /// The shape of a scalar: no axes, one element.
    pub const SCALAR: Shape = Shape(&SCALAR);

    /// A shape from its sizes.
    ///
    /// # Errors
    /// More than [`MAX_RANK`] axes, or a number of elements that does not fit `isize`.
    pub fn new(dims: &[usize]) -> Result<Shape, ErrorKind> {
        if dims.len() > MAX_RANK {
            return Err(ErrorKind::Argument(format!("a tensor has at most {MAX_RANK} axes, not {}: {dims:?}", dims.len())));
        }
        let mut total = 1usize;
        for &d in dims {
            // Zero-sized axes do not excuse the others: strides are products of them.
            total = total
                .checked_mul(d.max(1))
                .filter(|&t| t <= isize::MAX as usize / 8)
                .ok_or_else(|| ErrorKind::Argument(format!("a tensor of shape {dims:?} is larger than memory can be")))?;
        }
        let mut sizes = [1; MAX_RANK];
        sizes[..dims.len()].copy_from_slice(dims);
        Ok(record(dims.len(), sizes))
    }
    /// An axis of `size` among `rank` axes, the others of size 1: as one number per index of that axis broadcasts.
    pub fn along(axis: usize, size: usize, rank: usize) -> Shape {
        let mut dims = [1; MAX_RANK];
        dims[axis] = size;
        record(rank, dims)
    }
    /// How many axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.0.rank
    }
    /// How many elements.
    #[inline]
    pub fn elements(&self) -> usize {
        self.0.elements
    }
    /// A hash of its sizes.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.0.hash
    }
    /// Row-major strides, in elements.
    #[inline]
    pub fn strides(&self) -> [isize; MAX_RANK] {
        self.0.strides
    }
    /// The same sizes with axis `axis` set to `size`.
    #[inline]
    pub fn with(self, axis: usize, size: usize) -> Shape {
        let mut dims = self.0.dims;
        dims[axis] = size;
        record(self.0.rank, dims)
    }
    /// Without axis `axis`.
    pub fn without(self, axis: usize) -> Shape {
        let mut dims = [1; MAX_RANK];
        let mut kept = 0;
        for (k, &d) in self.iter().enumerate() {
            if k != axis {
                dims[kept] = d;
                kept += 1;
            }
        }
        record(kept, dims)
    }
    /// With a new axis of `size` before axis `axis`.
    ///
    /// # Errors
    /// As [`Shape::new`].
    pub fn insert(self, axis: usize, size: usize) -> Result<Shape, ErrorKind> {
        let mut dims: SmallVec<[usize; 9]> = SmallVec::from_slice(&self);
        dims.insert(axis, size);
        Shape::new(&dims)
    }
    /// The shape of an element-wise op on both (NumPy's broadcasting), or `None`.
    #[inline]
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        if self == other {
            return Some(*self);
        }
        let rank = self.rank().max(other.rank());
        let mut out = [1; MAX_RANK];
        for k in 0..rank {
            let a = if k < self.rank() { self[self.rank() - 1 - k] } else { 1 };
            let b = if k < other.rank() { other[other.rank() - 1 - k] } else { 1 };
            out[rank - 1 - k] = match (a, b) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => return None,
            };
        }
        Some(record(rank, out))
    }
    /// Resolves an axis that may count from the end.
    ///
    /// # Errors
    /// [`ErrorKind::Axis`] if it is outside `-rank..rank`.
    pub fn axis(&self, axis: isize) -> Result<usize, ErrorKind> {
        let rank = self.rank() as isize;
        let resolved = if axis < 0 { axis + rank } else { axis };
        if (0..rank).contains(&resolved) { Ok(resolved as usize) } else { Err(ErrorKind::Axis { axis, rank: self.rank() }) }
    }
}
impl Deref for Shape {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        &self.0.dims[..self.0.rank]
    }
}
impl PartialEq for Shape {
    #[inline]
    fn eq(&self, other: &Shape) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}
impl Eq for Shape {}
impl std::hash::Hash for Shape {
    #[inline]
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}
impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &**self)
    }
}
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &**self)
    }
}

/// Anything that names a shape: an array, a slice or a vector of sizes, one size, `()`.
pub trait ToShape {
    /// The shape.
    ///
    /// # Errors
    /// As [`Shape::new`].
    fn to_shape(&self) -> Result<Shape, ErrorKind>;
}
impl ToShape for Shape {
    fn to_shape(&self) -> Result<Shape, ErrorKind> {
        Ok(*self)
    }
}
impl<T: ToShape + ?Sized> ToShape for &T {
    fn to_shape(&self) -> Result<Shape, ErrorKind> {
        (**self).to_shape()
    }
}
impl<const N: usize> ToShape for [usize; N] {
    fn to_shape(&self) -> Result<Shape, ErrorKind> {
        Shape::new(self)
    }
}
impl ToShape for [usize] {
    fn to_shape(&self) -> Result<Shape, ErrorKind> {
        Shape::new(self)
    }
}
impl ToShape for Vec<usize> {
    fn to_shape(&self) -> Result<Shape, ErrorKind> {
        Shape::new(self)
    }
}
impl ToShape for usize {
    fn to_shape(&self) -> Result<Shape, ErrorKind> {
        Shape::new(&[*self])
    }
}
impl ToShape for () {
    fn to_shape(&self) -> Result<Shape, ErrorKind> {
        Ok(Shape::SCALAR)
    }
}

/// A list of sizes of which one may be -1, to be worked out (for `reshape`), or -1 = keep (for `expand`).
pub trait ToSizes {
    /// The sizes as given.
    fn to_sizes(&self) -> SmallVec<[isize; MAX_RANK]>;
}
macro_rules! to_sizes {
    ($($t:ty),*) => { $(
        impl<const N: usize> ToSizes for [$t; N] { fn to_sizes(&self) -> SmallVec<[isize; MAX_RANK]> { self.iter().map(|&d| d as isize).collect() } }
        impl ToSizes for [$t] { fn to_sizes(&self) -> SmallVec<[isize; MAX_RANK]> { self.iter().map(|&d| d as isize).collect() } }
        impl ToSizes for Vec<$t> { fn to_sizes(&self) -> SmallVec<[isize; MAX_RANK]> { self.iter().map(|&d| d as isize).collect() } }
    )* };
}
to_sizes!(usize, isize, i32, i64);
macro_rules! to_size { ($($t:ty),*) => { $(impl ToSizes for $t { fn to_sizes(&self) -> SmallVec<[isize; MAX_RANK]> { SmallVec::from_slice(&[*self as isize]) } })* } }
to_size!(usize, isize, i32, i64);
impl<T: ToSizes + ?Sized> ToSizes for &T {
    fn to_sizes(&self) -> SmallVec<[isize; MAX_RANK]> {
        (**self).to_sizes()
    }
}
impl ToSizes for Shape {
    fn to_sizes(&self) -> SmallVec<[isize; MAX_RANK]> {
        self.iter().map(|&d| d as isize).collect()
    }
}
impl ToSizes for () {
    fn to_sizes(&self) -> SmallVec<[isize; MAX_RANK]> {
        SmallVec::new()
    }
}

/// One axis; negative counts from the end.
pub trait Axis: Copy {
    /// As a signed number.
    fn to_axis(self) -> isize;
}
macro_rules! axis { ($($t:ty),*) => { $(impl Axis for $t { fn to_axis(self) -> isize { self as isize } })* } }
axis!(i32, isize, usize, i64, u8);

/// Several axes: one, an array or slice of them, or `..` for all.
pub trait Axes {
    /// The resolved axes as a bit mask.
    ///
    /// # Errors
    /// An axis out of range, or one that is named twice.
    fn to_axes(&self, shape: &Shape) -> Result<AxisSet, ErrorKind>;
}
impl Axes for RangeFull {
    fn to_axes(&self, shape: &Shape) -> Result<AxisSet, ErrorKind> {
        Ok(AxisSet::all(shape.rank()))
    }
}
impl Axes for AxisSet {
    fn to_axes(&self, _: &Shape) -> Result<AxisSet, ErrorKind> {
        Ok(*self)
    }
}
macro_rules! axes {
    ($($t:ty),*) => { $(
        impl Axes for $t { fn to_axes(&self, shape: &Shape) -> Result<AxisSet, ErrorKind> { AxisSet::resolve(shape, [*self as isize]) } }
        impl<const N: usize> Axes for [$t; N] { fn to_axes(&self, shape: &Shape) -> Result<AxisSet, ErrorKind> { AxisSet::resolve(shape, self.iter().map(|&a| a as isize)) } }
        impl Axes for [$t] { fn to_axes(&self, shape: &Shape) -> Result<AxisSet, ErrorKind> { AxisSet::resolve(shape, self.iter().map(|&a| a as isize)) } }
        impl Axes for Vec<$t> { fn to_axes(&self, shape: &Shape) -> Result<AxisSet, ErrorKind> { AxisSet::resolve(shape, self.iter().map(|&a| a as isize)) } }
    )* };
}
axes!(i32, isize, usize, i64);
impl<T: Axes + ?Sized> Axes for &T {
    fn to_axes(&self, shape: &Shape) -> Result<AxisSet, ErrorKind> {
        (**self).to_axes(shape)
    }
}

/// A set of axes as a bit mask: bit k = axis k.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AxisSet(pub u8);
impl AxisSet {
    /// All axes of a tensor of `rank`.
    #[inline]
    pub fn all(rank: usize) -> AxisSet {
        AxisSet(((1u16 << rank) - 1) as u8)
    }
    /// One axis.
    #[inline]
    pub fn one(axis: usize) -> AxisSet {
        AxisSet(1 << axis)
    }
    /// These axes.
    pub fn of(axes: impl IntoIterator<Item = usize>) -> AxisSet {
        AxisSet(axes.into_iter().fold(0, |set, axis| set | 1 << axis))
    }
    /// Is `axis` in it?
    #[inline]
    pub fn has(self, axis: usize) -> bool {
        self.0 >> axis & 1 == 1
    }
    /// The axes in order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..MAX_RANK).filter(move |&a| self.has(a))
    }
    fn resolve(shape: &Shape, axes: impl IntoIterator<Item = isize>) -> Result<AxisSet, ErrorKind> {
        let mut set = AxisSet(0);
        for axis in axes {
            // A scalar may be reduced over its axis 0 or -1, as in PyTorch.
            if shape.rank() == 0 && (axis == 0 || axis == -1) {
                continue;
            }
            let k = shape.axis(axis)?;
            if set.has(k) {
                return Err(ErrorKind::Argument(format!("axis {axis} is named twice")));
            }
            set.0 |= 1 << k;
        }
        Ok(set)
    }
}
impl fmt::Debug for AxisSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Where the rows of matrices lie, of which a tensor is made by its last two axes. The elements of a row follow each other; row r of
/// matrix n, counted over the leading axes, begins at `offset + n / each * group + n % each * matrix + r * row`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowLayout {
    /// where the first begins
    pub offset: usize,
    /// steps from row to row
    pub row: usize,
    /// steps from matrix to matrix of a group
    pub matrix: usize,
    /// steps from group to group
    pub group: usize,
    /// matrices of a group: the last of the leading axes; 1 where there are none
    pub each: usize,
}
impl RowLayout {
    /// Where a matrix begins.
    #[inline]
    pub fn begin(&self, matrix: usize) -> usize {
        self.offset + matrix / self.each * self.group + matrix % self.each * self.matrix
    }
}

/// Where the elements of a tensor lie in its buffer. Strides count elements and may be 0 or negative.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// Index of the first element.
    pub offset: usize,
    /// Steps between neighbours along each axis.
    pub strides: [isize; MAX_RANK],
}
impl Layout {
    /// Calls `f` with the buffer index of every element in row-major order.
    pub fn for_each_offset(&self, shape: &Shape, mut f: impl FnMut(usize)) {
        if shape.elements() == 0 {
            return;
        }
        let rank = shape.rank();
        let mut index = [0usize; MAX_RANK];
        let mut at = self.offset as isize;
        loop {
            f(at as usize);
            let mut axis = rank;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                at += self.strides[axis];
                if index[axis] < shape[axis] {
                    break;
                }
                at -= self.strides[axis] * shape[axis] as isize;
                index[axis] = 0;
            }
        }
    }
    /// Row-major and dense from the start of the buffer.
    #[inline]
    pub fn dense(shape: &Shape) -> Layout {
        Layout { offset: 0, strides: shape.strides() }
    }
    /// Are the elements row-major without gaps (from any offset)?
    #[inline]
    pub fn is_dense(&self, shape: &Shape) -> bool {
        let mut step = 1isize;
        for axis in (0..shape.rank()).rev() {
            if shape[axis] != 1 {
                if self.strides[axis] != step {
                    return shape.elements() == 0;
                }
                step *= shape[axis] as isize;
            }
        }
        true
    }
    /// The strides with which a tensor of `from` is read as one of `to` (broadcast: stride 0). `None` if it cannot be.
    #[inline]
    pub fn broadcast(&self, from: &Shape, to: &Shape) -> Option<Layout> {
        let lead = to.rank().checked_sub(from.rank())?;
        let mut strides = [0; MAX_RANK];
        for axis in 0..from.rank() {
            strides[lead + axis] = match (from[axis], to[lead + axis]) {
                (a, b) if a == b => self.strides[axis],
                (1, _) => 0,
                _ => return None,
            };
        }
        Some(Layout { offset: self.offset, strides })
    }
    /// The rows of a tensor of at least two axes. `None`: elements of a row do not follow each other, something is flipped, or what
    /// is before the last three axes has no one step.
    ///
    /// ```
    /// use adamant_ir::shape::{Layout, MAX_RANK, Shape};
    /// # fn main() -> Result<(), adamant_ir::ErrorKind> {
    /// // `[batch, heads, time, each]` of 2 x 3 x 5 x 8 elements, seen in memory of `[batch, time, heads, each]`.
    /// let shape = Shape::new(&[2, 3, 5, 8])?;
    /// let mut strides = [0; MAX_RANK];
    /// strides[..4].copy_from_slice(&[120, 8, 24, 1]);
    /// let rows = Layout { offset: 0, strides }.rows(&shape).unwrap();
    /// assert_eq!((rows.row, rows.matrix, rows.group, rows.each), (24, 8, 120, 3));
    /// // The second head of the second batch.
    /// assert_eq!(rows.begin(4), 128);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rows(&self, shape: &Shape) -> Option<RowLayout> {
        let last = shape.rank().checked_sub(1).filter(|last| *last > 0)?;
        if shape.elements() == 0 {
            return Some(RowLayout { offset: self.offset, row: 0, matrix: 0, group: 0, each: 1 });
        }
        // Along one element nothing is stepped.
        let step = |axis: usize| if shape[axis] == 1 { Some(0) } else { usize::try_from(self.strides[axis]).ok() };
        if shape[last] > 1 && self.strides[last] != 1 {
            return None;
        }
        let mut rows = RowLayout { offset: self.offset, row: step(last - 1)?, matrix: 0, group: 0, each: 1 };
        let Some(heads) = last.checked_sub(2) else { return Some(rows) };
        (rows.matrix, rows.each) = (step(heads)?, shape[heads]);
        let mut long = (0..heads).rev().filter(|axis| shape[*axis] != 1);
        let Some(inner) = long.next() else { return Some(rows) };
        rows.group = step(inner)?;
        let mut next = rows.group * shape[inner];
        for axis in long {
            if step(axis)? != next {
                return None;
            }
            next *= shape[axis];
        }
        Some(rows)
    }
    /// The shape without the axes along which the same elements are read again.
    pub fn distinct(&self, shape: &Shape) -> Shape {
        let mut distinct = *shape;
        for axis in 0..shape.rank() {
            if self.strides[axis] == 0 && shape[axis] > 1 {
                distinct = distinct.with(axis, 1);
            }
        }
        distinct
    }
    /// The layout after a reshape, if no element has to move.
    pub fn reshape(&self, from: &Shape, to: &Shape) -> Option<Layout> {
        if from.elements() == 0 || self.is_dense(from) {
            return Some(Layout { offset: self.offset, strides: to.strides() });
        }
        // Greedy matching of runs of axes with equal products (NumPy's no-copy reshape).
        let (old, mut strides) =
            (from.iter().zip(self.strides).filter(|(d, _)| **d != 1).map(|(d, s)| (*d, s)).collect::<SmallVec<[(usize, isize); 8]>>(), [0; MAX_RANK]);
        let new: SmallVec<[usize; 8]> = (0..to.rank()).filter(|&k| to[k] != 1).collect();
        let (mut i, mut j) = (0, 0);
        while i < old.len() && j < new.len() {
            let (mut oi, mut nj) = (i + 1, j + 1);
            let (mut op, mut np) = (old[i].0, to[new[j]]);
            while op != np {
                if op < np {
                    op *= old.get(oi)?.0;
                    oi += 1;
                } else {
                    np *= to[*new.get(nj)?];
                    nj += 1;
                }
            }
            for k in i..oi - 1 {
                if old[k].1 != old[k + 1].1 * old[k + 1].0 as isize {
                    return None;
                }
            }
            let mut step = old[oi - 1].1;
            for k in (j..nj).rev() {
                strides[new[k]] = step;
                step *= to[new[k]] as isize;
            }
            (i, j) = (oi, nj);
        }
        Some(Layout { offset: self.offset, strides })
    }
}
