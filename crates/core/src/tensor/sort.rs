//! Sorting and what follows from it: the k largest, the k-th, positions in sorted rows, distinct values.
//! Sorts are stable; NaN counts as larger than every number.
use super::{
    Tensor,
    compose::{Built, compose, compose1, on_an_axis, refuse, two_forms},
};
use crate::{
    Arg, AxisSet, DType, ErrorKind, Op, Shape,
    composite::{search::SearchSorted, sorted_range::SortedRange},
    promotion::alike,
    scope::call,
    shape::Axis,
};

/// The two outputs of the composite.
pub(super) fn sorted_range(x: &Tensor, range: SortedRange) -> Built<(Tensor, Tensor)> {
    let mut out = Tensor::composite(range, &[x]);
    let (Some(at), Some(values)) = (out.pop(), out.pop()) else { return Err(ErrorKind::Internal("a sorted range has two outputs".into()).into()) };
    Ok((values, at))
}

impl Tensor {
    /// The elements along an axis in order, and where each came from (i64).
    #[track_caller]
    pub fn sort(&self, axis: impl Axis, descending: bool) -> (Tensor, Tensor) {
        compose1("sort", self, |x| {
            let (x, scalar) = on_an_axis(x);
            let axis = x.meta().shape.axis(axis.to_axis())?;
            let mut out = Tensor::apply_many(Op::Sort { axis: axis as u8, descending }, Arg::None, &[&x], crate::Origin::here());
            let (Some(at), Some(values)) = (out.pop(), out.pop()) else { return Err(ErrorKind::Internal("a sort has two outputs".into()).into()) };
            Ok(if scalar { (values.reshape(()), at.reshape(())) } else { (values, at) })
        })
    }
    /// Where the elements along an axis come from when they are sorted, i64.
    #[track_caller]
    pub fn argsort(&self, axis: impl Axis, descending: bool) -> Tensor {
        let _call = call("argsort");
        self.detach().sort(axis, descending).1
    }
    /// Sorted along the first axis.
    #[track_caller]
    #[must_use]
    pub fn msort(&self) -> Tensor {
        let _call = call("msort");
        self.sort(0, false).0
    }
    /// The k largest (or smallest) elements along an axis, in order, and their indices (i64).
    #[track_caller]
    pub fn topk(&self, k: usize, axis: impl Axis, largest: bool) -> (Tensor, Tensor) {
        compose1("topk", self, |x| {
            let (x, scalar) = on_an_axis(x);
            let axis = x.meta().shape.axis(axis.to_axis())?;
            if k > x.meta().shape[axis] {
                return refuse(format!("the {k} first of an axis of size {}", x.meta().shape[axis]));
            }
            let (values, at) = sorted_range(&x, SortedRange { axis, descending: largest, start: 0, len: k })?;
            let first = |t: Tensor| if scalar && k == 1 { t.reshape(()) } else { t };
            Ok((first(values), first(at)))
        })
    }
    #[track_caller]
    fn kthvalue_of(&self, k: usize, axis: impl Axis, keepdim: bool) -> (Tensor, Tensor) {
        compose1("kthvalue", self, |x| {
            let (x, scalar) = on_an_axis(x);
            let axis = x.meta().shape.axis(axis.to_axis())?;
            let size = x.meta().shape[axis];
            if k == 0 || k > size {
                return refuse(format!("element {k} (counted from 1) of an axis of size {size}"));
            }
            let (values, at) = sorted_range(&x, SortedRange { axis, descending: false, start: k - 1, len: 1 })?;
            let pick = |t: Tensor| if scalar { t.reshape(()) } else { t.drop(AxisSet::one(axis), keepdim) };
            Ok((pick(values), pick(at)))
        })
    }
    /// Where values would be inserted into sorted rows (this tensor's last axis) to keep them sorted, i64: before equal
    /// elements, or after them if `right`. A vector serves values of any shape; rows go with values of the same leading sizes.
    #[track_caller]
    pub fn searchsorted(&self, values: &Tensor, right: bool) -> Tensor {
        compose("searchsorted", &[self, values], || {
            let [sorted, values] = &alike([self, values])?;
            Ok(Tensor::composite1(SearchSorted { right }, &[&sorted.detach(), &values.detach()]))
        })
    }
    /// The number (i64) of the interval between `boundaries` (sorted) that each element lies in; `right`: boundaries belong
    /// to the interval on their right.
    #[track_caller]
    pub fn bucketize(&self, boundaries: &Tensor, right: bool) -> Tensor {
        compose("bucketize", &[self, boundaries], || {
            if boundaries.rank() != 1 {
                return Err(ErrorKind::Shape { shape: boundaries.meta().shape, expected: "a vector of boundaries".into() }.into());
            }
            Ok(boundaries.searchsorted(self, right))
        })
    }
    /// bool: does each element occur in `test`, of any shape? NaN occurs nowhere.
    #[track_caller]
    pub fn isin(&self, test: &Tensor) -> Tensor {
        compose("isin", &[self, test], || {
            let [x, test] = alike([&self.detach(), &test.detach()])?;
            let n = test.meta().shape.elements();
            if n == 0 {
                return Ok(Tensor::zeros_on(x.meta().shape, DType::Bool, x.meta().device));
            }
            let as_numbers = |t: Tensor| if t.meta().dtype == DType::Bool { t.cast(DType::U8) } else { t };
            let (x, (sorted, _)) = (as_numbers(x), as_numbers(test).ravel().sort(0, false));
            let place = sorted.searchsorted(&x, false).minimum((n - 1) as i64);
            Ok(sorted.take(&place).eq(&x))
        })
    }
    /// The distinct elements in order; for each element of the tensor the place of its value among them; how often each
    /// occurs. Reads how many there are.
    #[track_caller]
    #[must_use]
    pub fn unique(&self) -> (Tensor, Tensor, Tensor) {
        compose1("unique", self, |x| {
            let (sorted, from) = x.detach().ravel().sort(0, false);
            let (values, group, counts) = runs(&sorted)?;
            let inverse = Tensor::zeros_on([x.meta().shape.elements()], DType::I64, x.meta().device).scatter(0, &from, &group);
            Ok((values, inverse.reshape(x.meta().shape), counts))
        })
    }
    /// As [`Tensor::unique`], of runs of equal neighbours: the values keep their order and may occur again.
    #[track_caller]
    #[must_use]
    pub fn unique_consecutive(&self) -> (Tensor, Tensor, Tensor) {
        compose1("unique_consecutive", self, |x| {
            let (values, group, counts) = runs(&x.detach().ravel())?;
            Ok((values, group.reshape(x.meta().shape), counts))
        })
    }
}

/// Runs of equal neighbours in a vector: their values, the run of each element, their lengths. NaN equals nothing.
fn runs(x: &Tensor) -> Built<(Tensor, Tensor, Tensor)> {
    let meta = x.meta();
    let n = meta.shape[0];
    let device = meta.device;
    if n == 0 {
        let none = Tensor::zeros_on([0], DType::I64, device);
        return Ok((x.clone(), none.clone(), none));
    }
    let differs = x.narrow(0, 1, n - 1).ne(x.narrow(0, 0, n - 1)).cast(DType::I64);
    let group = Tensor::cat(&[Tensor::zeros_on([1], DType::I64, device), differs.cumsum(0)], 0);
    let count = group.narrow(0, n - 1, 1).item::<i64>()? as usize + 1;
    let shape = Shape::new(&[count])?;
    let counts = Tensor::zeros_on(shape, DType::I64, device).scatter_add(0, &group, &Tensor::ones_on([n], DType::I64, device));
    let starts = counts.cumsum(0) - &counts;
    Ok((x.gather(0, &starts), group, counts))
}
two_forms! {
    /// The k-th smallest element (counted from 1) along an axis, and its index (i64).
    kthvalue kthvalue_keepdim(k: usize, axis: impl Axis) -> (Tensor, Tensor) = |x, keepdim| x.kthvalue_of(k, axis, keepdim);
}
