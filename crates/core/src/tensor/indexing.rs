//! An index as PyTorch and NumPy write it, `x[1:, ..., None]`, as one value: what may stand in it, and reading and writing
//! by it. What an index means for a shape is said in `resolve`; here nothing is looked at but the call.
use super::{
    Operand, OperandRef, Tensor,
    advanced::over,
    compose::{Built, compose},
};
use crate::ErrorKind;
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

mod resolve;
use resolve::{Resolved, cut, paste, resolve};

/// `...`: as many whole axes as the other items of an index leave over. At most one stands in an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ellipsis;

/// `None` in an index: a new axis of size 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewAxis;

/// `start:end:step` of an axis. A bound below 0 counts from the end; one outside the axis is clamped; a negative step runs
/// backwards, from the last element on if no start is given. Made from a range, or by [`stepped`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct IndexSlice {
    start: Option<isize>,
    end: Bound<isize>,
    step: isize,
}

/// One item of an index.
#[derive(Clone, Debug)]
pub enum IndexItem {
    /// one element of an axis, without the axis; below 0 it counts from the end
    At(isize),
    /// a slice of an axis
    Slice(IndexSlice),
    /// as many whole axes as the other items leave over
    Ellipsis,
    /// a new axis of size 1
    NewAxis,
    /// elements of an axis by their numbers
    List(Vec<isize>),
    /// integers: elements of an axis by their numbers; bool: those of the axes it covers where it is true
    Tensor(Tensor),
}

/// A Rust integer that may stand in an index.
pub trait IndexNumber: Copy {
    /// As a signed number. One beyond all axes stays beyond them.
    fn to_number(self) -> isize;
}
macro_rules! numbers { ($($t:ty),*) => { $(
    impl IndexNumber for $t {
        fn to_number(self) -> isize {
            isize::try_from(self).unwrap_or(isize::MAX)
        }
    }
    impl ToIndexItem for $t {
        fn to_index_item(self) -> IndexItem {
            IndexItem::At(self.to_number())
        }
    }
)* } }
// An i64 below isize, where that has 32 bits, is as far out on the other side: both are out of range.
numbers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

/// What may stand as one item of an index: an integer, a range of integers, [`Ellipsis`], [`NewAxis`], what [`stepped`] gives,
/// an array or vector of integers, a tensor of integers or bool.
pub trait ToIndexItem {
    /// The item.
    fn to_index_item(self) -> IndexItem;
}
impl ToIndexItem for IndexItem {
    fn to_index_item(self) -> IndexItem {
        self
    }
}
impl ToIndexItem for Ellipsis {
    fn to_index_item(self) -> IndexItem {
        IndexItem::Ellipsis
    }
}
impl ToIndexItem for NewAxis {
    fn to_index_item(self) -> IndexItem {
        IndexItem::NewAxis
    }
}
impl ToIndexItem for IndexSlice {
    fn to_index_item(self) -> IndexItem {
        IndexItem::Slice(self)
    }
}
impl ToIndexItem for Tensor {
    fn to_index_item(self) -> IndexItem {
        IndexItem::Tensor(self)
    }
}
impl ToIndexItem for &Tensor {
    fn to_index_item(self) -> IndexItem {
        IndexItem::Tensor(self.clone())
    }
}
impl<T: IndexNumber> ToIndexItem for &[T] {
    fn to_index_item(self) -> IndexItem {
        IndexItem::List(self.iter().map(|n| n.to_number()).collect())
    }
}
impl<T: IndexNumber> ToIndexItem for Vec<T> {
    fn to_index_item(self) -> IndexItem {
        self[..].to_index_item()
    }
}
impl<T: IndexNumber, const N: usize> ToIndexItem for [T; N] {
    fn to_index_item(self) -> IndexItem {
        self[..].to_index_item()
    }
}

impl From<RangeFull> for IndexSlice {
    fn from(_: RangeFull) -> IndexSlice {
        IndexSlice { start: None, end: Bound::Unbounded, step: 1 }
    }
}
impl ToIndexItem for RangeFull {
    fn to_index_item(self) -> IndexItem {
        IndexItem::Slice(self.into())
    }
}
macro_rules! ranges { ($($range:ident: $start:expr, $end:expr;)*) => { $(
    impl<T: IndexNumber> From<$range<T>> for IndexSlice {
        fn from(range: $range<T>) -> IndexSlice {
            let (start, end): (fn(&$range<T>) -> Option<T>, fn(&$range<T>) -> Bound<T>) = ($start, $end);
            let end = match end(&range) {
                Bound::Included(n) => Bound::Included(n.to_number()),
                Bound::Excluded(n) => Bound::Excluded(n.to_number()),
                Bound::Unbounded => Bound::Unbounded,
            };
            IndexSlice { start: start(&range).map(|n| n.to_number()), end, step: 1 }
        }
    }
    impl<T: IndexNumber> ToIndexItem for $range<T> {
        fn to_index_item(self) -> IndexItem {
            IndexItem::Slice(self.into())
        }
    }
)* } }
ranges! {
    Range: |r| Some(r.start), |r| Bound::Excluded(r.end);
    RangeFrom: |r| Some(r.start), |_| Bound::Unbounded;
    RangeInclusive: |r| Some(*r.start()), |r| Bound::Included(*r.end());
    RangeTo: |_| None, |r| Bound::Excluded(r.end);
    RangeToInclusive: |_| None, |r| Bound::Included(r.end);
}

/// A range with a step, `start:end:step` in Python: `stepped(1.., 2)` every second from 1 on, `stepped(.., -1)` all of an axis
/// from its end. In [`index!`](crate::index!) it is `1..; 2`.
pub fn stepped(range: impl Into<IndexSlice>, step: impl IndexNumber) -> IndexSlice {
    IndexSlice { step: step.to_number(), ..range.into() }
}

/// What may stand as an index: one item, a tuple of up to eight, or what [`index!`](crate::index!) makes.
pub trait ToIndex {
    /// Its items in order.
    fn to_index(self) -> Vec<IndexItem>;
}
impl<T: ToIndexItem> ToIndex for T {
    fn to_index(self) -> Vec<IndexItem> {
        vec![self.to_index_item()]
    }
}
impl<const N: usize> ToIndex for [IndexItem; N] {
    fn to_index(self) -> Vec<IndexItem> {
        self.into()
    }
}
impl ToIndex for Vec<IndexItem> {
    fn to_index(self) -> Vec<IndexItem> {
        self
    }
}
impl ToIndex for &[IndexItem] {
    fn to_index(self) -> Vec<IndexItem> {
        self.to_vec()
    }
}
macro_rules! tuples { ($(($($t:ident)*))*) => { $(
    impl<$($t: ToIndexItem),*> ToIndex for ($($t,)*) {
        #[allow(non_snake_case, reason = "an item is named as its type")]
        fn to_index(self) -> Vec<IndexItem> {
            let ($($t,)*) = self;
            vec![$($t.to_index_item()),*]
        }
    }
)* } }
tuples! { () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H) }

/// An index in NumPy's notation, for [`Tensor::i`] and its kin: items with commas between them. An item is an integer, a range,
/// a range with a step (`2..; 3` is `2::3`, `..; -1` is `::-1`), `...`, `None`, or a value of any type that
/// [`ToIndexItem`] is for.
///
/// | PyTorch | here |
/// |---|---|
/// | `x[0, -1]` | `x.i(index![0, -1])` or `x.i((0, -1))` |
/// | `x[1:, ..., None]` | `x.i(index![1.., ..., None])` or `x.i((1.., Ellipsis, NewAxis))` |
/// | `x[:, 1:-1]` | `x.i(index![.., 1..-1])` |
/// | `x[::2]` | `x.i(index![..; 2])` or `x.i(stepped(.., 2))` |
/// | `x[mask]`, `x[:, ids]` | `x.i(&mask)`, `x.i((.., &ids))` |
/// | `x[:, [0, 2]]` | `x.i((.., [0, 2]))` |
///
/// ```
/// # use adamant_core::{Device, DType, Tensor, index};
/// # Device::reference().make_current();
/// let x = Tensor::arange(0, 24, 1, DType::I64).reshape([2, 3, 4]);
/// assert_eq!(x.i(index![1.., ..., None]).shape()?.to_vec(), [1, 3, 4, 1]);
/// assert_eq!(x.i(index![0, -2..; -1, 1..-1]).to_vec::<i64>()?, [5, 6, 1, 2]); // rows 1 and 0
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// A range from a number to one that counts from the end (`1..-1`) looks empty to Clippy (`reversed_empty_ranges`); inside the
/// macro it does not.
#[macro_export]
macro_rules! index {
    (@ [$($item:expr,)*]) => {{
        #[allow(clippy::reversed_empty_ranges)]
        let items: [$crate::IndexItem; _] = [$($item,)*];
        items
    }};
    (@ [$($done:expr,)*] ... $(, $($rest:tt)*)?) => { $crate::index!(@ [$($done,)* $crate::IndexItem::Ellipsis,] $($($rest)*)?) };
    (@ [$($done:expr,)*] None $(, $($rest:tt)*)?) => { $crate::index!(@ [$($done,)* $crate::IndexItem::NewAxis,] $($($rest)*)?) };
    (@ [$($done:expr,)*] $range:expr; $step:expr $(, $($rest:tt)*)?) => {
        $crate::index!(@ [$($done,)* $crate::IndexItem::Slice($crate::stepped($range, $step)),] $($($rest)*)?)
    };
    (@ [$($done:expr,)*] $item:expr $(, $($rest:tt)*)?) => {
        $crate::index!(@ [$($done,)* $crate::ToIndexItem::to_index_item($item),] $($($rest)*)?)
    };
    ($($items:tt)*) => { $crate::index!(@ [] $($items)*) };
}

impl Tensor {
    /// `self[index]` as PyTorch reads it. An index is one item, a tuple of up to eight, or written by [`index!`](crate::index!):
    ///
    /// | item | what it does | axes it takes | axes it leaves |
    /// |---|---|---|---|
    /// | integer | one element; below 0 it counts from the end | 1 | 0 |
    /// | `a..b`, `a..=b`, `a..`, `..b`, `..=b` | a slice; ends below 0 count from the end, ends outside are clamped | 1 | 1 |
    /// | [`stepped(range, n)`](stepped) | every n-th; n below 0 runs backwards, NumPy's rule (PyTorch has none) | 1 | 1 |
    /// | `..` | the whole axis | 1 | 1 |
    /// | [`Ellipsis`] | whole axes, as many as the others leave over | any | as many |
    /// | [`NewAxis`] | a new axis of size 1 | 0 | 1 |
    /// | tensor of integers, array, vector | the elements with these numbers, below 0 from the end | 1 | its own, together |
    /// | tensor of bool with k axes | the elements where it is true; sizes are those of the axes it covers | k | one, together |
    ///
    /// Axes without an item stay whole. Tensors of integers are broadcast against each other and run through together, with
    /// a mask as the numbers of its true elements. Their common axes stand where the tensors stood if these are neighbours,
    /// and first if a slice, `..`, a new axis or whole axes of an [`Ellipsis`] stand between them. An integer,
    /// or a tensor of one integer without axes, is done before and separates nothing, as in PyTorch; NumPy counts it among
    /// the tensors. `u8` is an integer here, no mask.
    ///
    /// Without tensors all of it is views and nothing moves. A mask is read, for how many of its elements are true stands in the
    /// data: while a graph is captured that is an error. A gradient flows to the places that were read, and adds up where one was
    /// read twice.
    ///
    /// Source: PyTorch's "Tensor Indexing API", NumPy's "Indexing on ndarrays".
    ///
    /// # Errors
    /// Of the read: more items than axes, two ellipses, a number out of range, a mask of other sizes than its axes, an index that is
    /// a float, a step of 0, indices that do not broadcast. The hint says which item, counted from 0, and which axis. A number
    /// out of range in a tensor is found by the kernel that gathers, and names `gather`.
    ///
    /// ```
    /// # use adamant_core::{Device, DType, Ellipsis, NewAxis, Tensor, index, stepped, tensor};
    /// # Device::reference().make_current();
    /// let x = Tensor::arange(0, 24, 1, DType::I64).reshape([2, 3, 4]);
    /// assert_eq!(x.i((1, -1, 0)).item::<i64>()?, 20);
    /// assert_eq!(x.i(index![1.., ..., None]).shape()?.to_vec(), [1, 3, 4, 1]);
    /// assert_eq!(x.i((Ellipsis, 0)).to_vec::<i64>()?, [0, 4, 8, 12, 16, 20]);
    /// assert_eq!(x.i((0, 0, stepped(.., -1))).to_vec::<i64>()?, [3, 2, 1, 0]);
    /// assert_eq!(x.i((.., NewAxis, 1..100)).shape()?.to_vec(), [2, 1, 2, 4]);
    ///
    /// let (rows, columns) = (tensor![0, -1], tensor![1, 2]);
    /// assert_eq!(x.i((1, &rows, &columns)).to_vec::<i64>()?, [13, 22]); // pairs, not a grid
    /// assert_eq!(x.i((&rows, .., &columns)).shape()?.to_vec(), [2, 3]); // a slice between them: their axis is first
    /// assert_eq!(x.i((.., [0, 2, 0])).shape()?.to_vec(), [2, 3, 4]);
    /// assert_eq!(x.i(&x.gt(21)).to_vec::<i64>()?, [22, 23]);
    ///
    /// let error = x.i((.., 3)).materialize().unwrap_err();
    /// assert!(error.to_string().starts_with("i: index 3 is out of range for axis 1, of size 3"));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias("__getitem__", "slice", "take", "index", "fancy", "mask"))]
    pub fn i(&self, index: impl ToIndex) -> Tensor {
        let items = index.to_index();
        compose("i", &inputs(self, &items, None), || {
            let at = resolve("i", self, &items)?;
            let view = view(self, &at)?;
            if at.is_basic() { Ok(view) } else { view.picked(&at.picks()) }
        })
    }
    /// The tensor with `values` in the place that [`Tensor::i`] reads: PyTorch's `x[index] = values`, as a new tensor. Values are a
    /// number, which takes the tensor's dtype, or a tensor of the same dtype, broadcast to the place; axes of size 1 may stand in
    /// front of it. Where a tensor of integers names a place twice, the last value stays. A gradient flows to the tensor where it
    /// was not written, and to each value that of its place: as in PyTorch also to one that was written over.
    ///
    /// A lone mask with one value is a selection: it reads no data, and is captured.
    ///
    /// # Errors
    /// As [`Tensor::i`], with `with_i` as the op; values that do not broadcast; another dtype than the tensor's.
    ///
    /// ```
    /// # use adamant_core::{Device, DType, Tensor, index, tensor};
    /// # Device::reference().make_current();
    /// let x = Tensor::zeros([2, 3]);
    /// assert_eq!(x.with_i((.., 1), 5.0).to_vec::<f32>()?, [0.0, 5.0, 0.0, 0.0, 5.0, 0.0]);
    /// assert_eq!(x.with_i(index![0, ..; -1], tensor![1.0, 2.0, 3.0]).to_vec::<f32>()?, [3.0, 2.0, 1.0, 0.0, 0.0, 0.0]);
    /// assert_eq!(x.with_i((1, [0, 2]), tensor![7.0, 8.0]).to_vec::<f32>()?, [0.0, 0.0, 0.0, 7.0, 0.0, 8.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias("__setitem__", "index_put_", "masked_fill_"))]
    pub fn with_i(&self, index: impl ToIndex, values: impl Operand) -> Tensor {
        self.written("with_i", &index.to_index(), &values.operand(), false)
    }
    /// As [`Tensor::with_i`], adding the values to what is there. A place that tensors of integers name several times gets all that
    /// is meant for it: `index_put_(accumulate=True)`, and not PyTorch's `x[index] += values`, which keeps one of them.
    ///
    /// ```
    /// # use adamant_core::{Device, DType, Tensor, tensor};
    /// # Device::reference().make_current();
    /// let counts = Tensor::zeros([3]).with_i_added(&tensor![0, 2, 0], 1.0);
    /// assert_eq!(counts.to_vec::<f32>()?, [2.0, 0.0, 1.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias("__setitem__", "index_put_", "index_add_", "add"))]
    pub fn with_i_added(&self, index: impl ToIndex, values: impl Operand) -> Tensor {
        self.written("with_i_added", &index.to_index(), &values.operand(), true)
    }
    #[track_caller]
    fn written(&self, op: &'static str, items: &[IndexItem], values: &OperandRef<'_>, adds: bool) -> Tensor {
        let tensor = if let OperandRef::Tensor(t) = values { Some(*t) } else { None };
        compose(op, &inputs(self, items, tensor), || {
            let meta = self.meta();
            let values = match values {
                // The wider one wins where dtypes are moved: of mixed precision nobody knows which it is.
                OperandRef::Tensor(t) if t.meta().dtype != meta.dtype && crate::intercept::casts() => {
                    let (wide, values) = crate::promotion::promote(self, t);
                    return Ok(wide.written(op, items, &OperandRef::Tensor(&values), adds));
                }
                OperandRef::Tensor(t) if t.meta().dtype != meta.dtype => {
                    return Err(ErrorKind::DtypeMismatch { left: meta.dtype, right: t.meta().dtype }.into());
                }
                OperandRef::Tensor(t) => (*t).clone(),
                OperandRef::Scalar(s) => Tensor::full_on((), s.fit(meta.dtype)?, meta.dtype, meta.device),
            };
            let at = resolve(op, self, items)?;
            let part = cut(self, &at.cuts)?;
            let new = replaced(&part.reshape(at.view), &at, &values, adds)?;
            paste(self, &at.cuts, 0, &new.reshape(part.meta().shape))
        })
    }
}
/// The tensor after all items that are no tensors with axes.
fn view(x: &Tensor, at: &Resolved) -> Built<Tensor> {
    Ok(cut(x, &at.cuts)?.reshape(at.view))
}
/// The view of a place with the values written into it.
fn replaced(view: &Tensor, at: &Resolved, values: &Tensor, adds: bool) -> Built<Tensor> {
    if at.is_basic() {
        let values = over(values, at.view)?;
        return Ok(if adds { view + values } else { values });
    }
    match at.lone_mask() {
        Some((axis, mask)) if values.rank() == 0 => {
            let mut dims = vec![1; at.view.rank()];
            dims[axis..axis + mask.rank()].copy_from_slice(&mask.meta().shape);
            let flags = mask.reshape(dims).expand(at.view);
            Ok(if adds { flags.where_(view + values, view) } else { flags.where_(values.expand(at.view), view) })
        }
        _ => view.put_at(&at.picks(), values, adds),
    }
}
fn inputs<'a>(x: &'a Tensor, items: &'a [IndexItem], values: Option<&'a Tensor>) -> Vec<&'a Tensor> {
    let tensors = items.iter().filter_map(|item| if let IndexItem::Tensor(t) = item { Some(t) } else { None });
    std::iter::once(x).chain(tensors).chain(values).collect()
}
