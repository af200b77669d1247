//! Indexing by tensors as NumPy and PyTorch define it, and what picks elements by a condition. How many elements a mask
//! picks stands in the data: those functions read it, which is a typed error while a graph is captured.
use super::{
    OperandRef, Tensor,
    compose::{Built, compose, compose1, refuse},
    index::{spread, wrap},
};
use crate::{
    DType, ErrorKind, Shape,
    composite::{true_places::TruePlaces, wide::same_dtype},
    op::ScatterMode,
    promotion::common,
};

/// An index of several axes: for each of them, in order, the positions along it, all of one shape.
struct MergedIndex {
    axes: Vec<usize>,
    /// i64, not negative where they are inside
    along: Vec<Tensor>,
    /// the same before they were broadcast together and looked up
    own: Vec<Tensor>,
    /// the shape of the positions
    shape: Shape,
}
impl MergedIndex {
    /// The first axis of those that stand beside each other.
    fn beside(&self) -> Option<usize> {
        let (&first, &last) = (self.axes.first()?, self.axes.last()?);
        (last - first + 1 == self.axes.len()).then_some(first)
    }
    /// The tensor's shape with the indexed axes, which stand beside each other from `first` on, as one; and that of the result, where the
    /// axes of the positions stand there.
    fn between(&self, of: &Shape, first: usize) -> Built<(Shape, Shape)> {
        let (before, inside) = of.split_at(first);
        let (inside, behind) = inside.split_at(self.axes.len());
        let with = |middle: &[usize]| Shape::new(&[before, middle, behind].concat());
        Ok((with(&[inside.iter().product()])?, with(&self.shape)?))
    }
    /// Positions in the indexed axes as one axis, flat.
    fn merged(&self, of: &Shape) -> Built<Tensor> {
        let join = |all: Option<Tensor>, (&axis, own): (&usize, &Tensor)| Some(all.map_or_else(|| own.clone(), |all| all * of[axis] + own));
        match self.axes.iter().zip(&self.along).fold(None, join) {
            Some(at) => Ok(at.ravel()),
            None => refuse("an index of no axis"),
        }
    }
    /// Which index each axis of the positions is of, where each is of one alone (or of none): then they pick one after the other.
    fn crossed(&self) -> Option<Vec<Option<usize>>> {
        let long = |own: &Tensor, p: usize| {
            let shape = own.meta().shape;
            (p + shape.rank()).checked_sub(self.shape.rank()).is_some_and(|k| shape[k] > 1)
        };
        let of = |p: usize| {
            let mut all = (0..self.own.len()).filter(|&k| long(&self.own[k], p));
            let first = all.next();
            all.next().is_none().then_some(first)
        };
        (0..self.shape.rank()).map(of).collect()
    }
    /// The other axes.
    fn others(&self, of: &Shape) -> Vec<usize> {
        (0..of.rank()).filter(|k| !self.axes.contains(k)).collect()
    }
    /// Where the elements of a result are in the flat tensor, flat: the positions' axes first, then the others.
    fn places(&self, of: &Shape) -> Built<Tensor> {
        let (steps, others) = (of.strides(), self.others(of));
        let dtype = if i32::try_from(of.elements()).is_ok() { DType::I32 } else { DType::I64 };
        let step = |axis: usize| steps[axis] as i64;
        let at = self.axes.iter().zip(&self.along).map(|(&axis, own)| own.cast(dtype) * step(axis));
        let Some(rows) = at.reduce(|all, own| all + own) else { return refuse("an index of no axis") };
        let narrow: Vec<usize> = self.shape.iter().copied().chain(others.iter().map(|_| 1)).collect();
        let wide: Vec<usize> = self.shape.iter().copied().chain(others.iter().map(|&k| of[k])).collect();
        let start = rows.reshape(Shape::new(&narrow)?).expand(Shape::new(&wide)?);
        let n = self.shape.rank();
        Ok(others.iter().enumerate().fold(start.clone(), |all, (k, &axis)| all + start.iota_like(n + k, dtype) * step(axis)).ravel())
    }
}

impl Tensor {
    /// `self[indices[0], indices[1], ...]` as in PyTorch: `None` keeps an axis, an integer tensor picks along one (negative
    /// counts from the end), a bool tensor stands for the indices of its true elements. Indices are broadcast together; their
    /// axes stand where the first index stood if all are neighbours, else first.
    #[track_caller]
    pub fn index(&self, indices: &[Option<&Tensor>]) -> Tensor {
        compose("index", &inputs(self, indices), || self.picked(indices))
    }
    /// As [`Tensor::index`], for a function that answers for its errors.
    #[track_caller]
    pub(super) fn picked(&self, indices: &[Option<&Tensor>]) -> Built<Tensor> {
        let Some(place) = self.place(indices)? else { return Ok(self.clone()) };
        let shape = self.meta().shape;
        if let Some(first) = place.beside() {
            let (rows, dims) = place.between(&shape, first)?;
            return Ok(self.reshape(rows).index_select(first, &place.merged(&shape)?).reshape(dims));
        }
        let others = place.others(&shape);
        let dims = Shape::new(&place.shape.iter().copied().chain(others.iter().map(|&k| shape[k])).collect::<Vec<_>>())?;
        if let Some(of) = place.crossed().filter(|_| dims.elements() > 0) {
            // One index after the other, each along its axis; then the axes of the positions go to the front.
            let picked = place.axes.iter().zip(&place.own).fold(self.clone(), |x, (&axis, own)| x.index_select(axis, &own.ravel()));
            let (mut wide, mut front, mut behind) = (Vec::new(), vec![0; of.len()], Vec::new());
            for axis in 0..shape.rank() {
                let Some(k) = place.axes.iter().position(|&a| a == axis) else {
                    behind.push(wide.len());
                    wide.push(shape[axis]);
                    continue;
                };
                for (p, front) in front.iter_mut().enumerate().filter(|(p, _)| of[*p] == Some(k)) {
                    *front = wide.len();
                    wide.push(place.shape[p]);
                }
            }
            let long: Vec<usize> = (0..of.len()).filter(|&p| of[p].is_some()).map(|p| front[p]).collect();
            return Ok(picked.reshape(Shape::new(&wide)?).permute([long, behind].concat()).reshape(dims));
        }
        if dims.elements() < shape.elements() {
            return Ok(self.ravel().gather(0, &place.places(&shape)?).reshape(dims));
        }
        let order: Vec<usize> = place.axes.iter().copied().chain(others.iter().copied()).collect();
        let count: usize = place.axes.iter().map(|&k| shape[k]).product();
        let rows = self.permute(&order).reshape([count, others.iter().map(|&k| shape[k]).product()]);
        Ok(rows.index_select(0, &place.merged(&shape)?).reshape(dims))
    }
    /// The tensor with `values` (broadcast) written, or added if `accumulate`, at the places that [`Tensor::index`] reads.
    #[track_caller]
    pub fn index_put(&self, indices: &[Option<&Tensor>], values: &Tensor, accumulate: bool) -> Tensor {
        let mut all = inputs(self, indices);
        all.push(values);
        compose("index_put", &all, || self.put_at(indices, values, accumulate))
    }
    /// As [`Tensor::index_put`], for a function that answers for its errors.
    #[track_caller]
    pub(super) fn put_at(&self, indices: &[Option<&Tensor>], values: &Tensor, accumulate: bool) -> Built<Tensor> {
        same_dtype(&self.meta(), &values.meta())?;
        let mode = if accumulate { ScatterMode::Add } else { ScatterMode::Set };
        let Some(place) = self.place(indices)? else {
            let values = over(values, self.meta().shape)?;
            return Ok(if accumulate { self + values } else { values });
        };
        let shape = self.meta().shape;
        let scatter = |flat: Tensor, at: Tensor, axis: usize, values: &Tensor| {
            let op = crate::Op::Scatter { axis: axis as u8, mode };
            if at.meta().shape.elements() == 0 { flat } else { Tensor::apply(op, crate::Arg::None, &[&flat, &at, values]) }
        };
        if let Some(first) = place.beside() {
            let (rows, dims) = place.between(&shape, first)?;
            let flat = self.reshape(rows);
            let at = spread(&place.merged(&shape)?, &rows, first)?;
            let values = over(values, dims)?.reshape(at.meta().shape);
            return Ok(scatter(flat, at, first, &values).reshape(shape));
        }
        let others = place.others(&shape);
        let dims = Shape::new(&place.shape.iter().copied().chain(others.iter().map(|&k| shape[k])).collect::<Vec<_>>())?;
        let values = over(values, dims)?;
        if dims.elements() < shape.elements() {
            return Ok(scatter(self.ravel(), place.places(&shape)?, 0, &values.ravel()).reshape(shape));
        }
        let order: Vec<usize> = place.axes.iter().copied().chain(others.iter().copied()).collect();
        let width: usize = others.iter().map(|&k| shape[k]).product();
        let rows = self.permute(&order);
        let moved = rows.meta().shape;
        let count: usize = place.axes.iter().map(|&k| shape[k]).product();
        let flat = rows.reshape([count, width]);
        let at = spread(&place.merged(&shape)?, &flat.meta().shape, 0)?;
        let put = scatter(flat, at, 0, &values.reshape([place.shape.elements(), width]));
        let mut back = vec![0usize; order.len()];
        for (k, &axis) in order.iter().enumerate() {
            back[axis] = k;
        }
        Ok(put.reshape(moved).permute(back))
    }
    fn place(&self, indices: &[Option<&Tensor>]) -> Built<Option<MergedIndex>> {
        let shape = self.meta().shape;
        // Masks become integer indices, one for each of their axes.
        let mut by_axis: Vec<Option<Tensor>> = Vec::new();
        for index in indices {
            match index {
                Some(mask) if mask.meta().dtype == DType::Bool => {
                    let (own, from) = (mask.meta().shape, by_axis.len());
                    if own.rank() == 0 || shape.get(from..from + own.rank()) != Some(&*own) {
                        return Err(ErrorKind::ShapeMismatch {
                            left: shape,
                            right: own,
                            axes: None,
                            expected: "a mask must have the sizes of the axes it indexes",
                        }
                        .into());
                    }
                    let true_at = mask.nonzero().ok()?;
                    for k in 0..own.rank() {
                        by_axis.push(Some(true_at.select(1, k)));
                    }
                }
                other => by_axis.push(other.cloned()),
            }
        }
        if by_axis.len() > shape.rank() {
            return refuse(format!("{} indices for a tensor of {} axes", by_axis.len(), shape.rank()));
        }
        by_axis.resize(shape.rank(), None);
        let indexed: Vec<usize> = (0..shape.rank()).filter(|&k| by_axis[k].is_some()).collect();
        if indexed.is_empty() {
            return Ok(None);
        }
        let mut common = Shape::SCALAR;
        for t in by_axis.iter().flatten() {
            common = crate::op::broadcast(&common, &t.meta().shape)?;
        }
        let (mut along, mut each) = (Vec::new(), Vec::new());
        for &axis in &indexed {
            let Some(index) = &by_axis[axis] else { continue };
            let size = shape[axis];
            let mut own = wrap(index, size)?.cast(DType::I64);
            each.push(own.clone());
            if indexed.len() > 1 {
                // Each index is looked up in 0..size, so that one out of range is found before they are merged.
                let table = Tensor::arange_on(0, size, 1, DType::I64, self.meta().device);
                own = table.gather(0, &own.ravel()).reshape(own.meta().shape);
            }
            along.push(own.expand(common));
        }
        Ok(Some(MergedIndex { axes: indexed, along, own: each, shape: common }))
    }

    /// The indices (i64, `[n, axes]`) of the elements that are not zero, in row-major order. Reads how many there are.
    #[track_caller]
    #[must_use]
    pub fn nonzero(&self) -> Tensor {
        compose1("nonzero", self, |x| {
            let n: i64 = x.detach().count_nonzero(..).item()?;
            // As many as there are: nothing is filled.
            Ok(places_and_count(x, n as usize, None)?.0)
        })
    }
    /// The bounded twin of [`Tensor::nonzero`], which reads nothing: the first `size` indices, padded with `fill`, and how
    /// many elements are not zero (i64).
    #[track_caller]
    pub fn nonzero_static(&self, size: usize, fill: i64) -> (Tensor, Tensor) {
        compose1("nonzero_static", self, |x| places_and_count(x, size, Some(fill)))
    }
    /// The elements where the mask (bool, broadcast) is true, in row-major order. Reads how many there are.
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Tensor {
        compose("masked_select", &[self, mask], || {
            if mask.meta().dtype != DType::Bool {
                return Err(ErrorKind::Dtype(format!("a mask is bool, not {}", mask.meta().dtype)).into());
            }
            let shape = crate::op::broadcast(&self.meta().shape, &mask.meta().shape)?;
            let at = mask.expand(shape).ravel().nonzero().select(1, 0);
            Ok(self.expand(shape).ravel().gather(0, &at))
        })
    }
    /// The elements of `source` in row-major order, one by one, where the mask is true; the tensor's own elsewhere.
    #[track_caller]
    pub fn masked_scatter(&self, mask: &Tensor, source: &Tensor) -> Tensor {
        compose("masked_scatter", &[self, mask, source], || {
            same_dtype(&self.meta(), &source.meta())?;
            let shape = self.meta().shape;
            let flags = mask.expand(shape).ravel();
            if shape.elements() == 0 {
                return Ok(flags.reshape(shape).where_(self, self));
            }
            // A place that takes nothing reads element 0; more true places than elements is an index out of range.
            let at = flags.where_(flags.cumsum(0) - 1i64, 0i64);
            if source.meta().shape.elements() == 0 {
                return Err(ErrorKind::Shape { shape: source.meta().shape, expected: "at least as many elements as the mask has true ones".into() }.into());
            }
            Ok(flags.where_(source.ravel().gather(0, &at), self.ravel()).reshape(shape))
        })
    }
    /// The elements where the mask is false, those of a scalar tensor where it is true.
    #[track_caller]
    pub fn masked_fill_with(&self, mask: &Tensor, value: &Tensor) -> Tensor {
        compose("masked_fill_with", &[self, mask, value], || {
            if value.rank() != 0 {
                return refuse(format!("a fill value has no axes, not {}", value.rank()));
            }
            let (left, right) = (self.meta().dtype, value.meta().dtype);
            if common(&[OperandRef::Tensor(self), OperandRef::Tensor(value)])? != left {
                return Err(ErrorKind::DtypeMismatch { left, right }.into());
            }
            Ok(mask.where_(value, self))
        })
    }
}
/// Values broadcast to the place they are written to. As in NumPy they may have more axes than that, of size 1, in front.
pub(super) fn over(values: &Tensor, place: Shape) -> Built<Tensor> {
    let own = values.meta().shape;
    let spare = own.rank().saturating_sub(place.rank());
    let kept = if own[..spare].iter().all(|&d| d == 1) { Shape::new(&own[spare..])? } else { own };
    if kept.broadcast(&place) != Some(place) {
        let expected = "values must broadcast to the place they are written to";
        return Err(ErrorKind::ShapeMismatch { left: place, right: own, axes: None, expected }.into());
    }
    Ok(values.reshape(kept).expand(place))
}
/// The first `size` indices of what is not zero, those that there are not as `fill` says (`None`: there are so many), and how many there
/// are.
fn places_and_count(x: &Tensor, size: usize, fill: Option<i64>) -> Built<(Tensor, Tensor)> {
    let (meta, x) = (x.meta(), x.detach());
    let flags = x.nonzero_mask().ravel();
    let found = Tensor::composite1(TruePlaces, &[&flags, &Tensor::full_on([size], -1i64, DType::I64, meta.device)]);
    let mut columns = Vec::new();
    // How many whole rows, planes, .. lie before an element: what is left over of the larger is the index along the axis.
    let (mut step, mut before) = (meta.shape.elements(), None::<Tensor>);
    for &d in meta.shape.iter() {
        step /= d.max(1);
        let whole = if step > 1 { found.floor_divide(step) } else { found.clone() };
        columns.push(before.map_or_else(|| whole.clone(), |before| &whole - before * d as i64));
        before = Some(whole);
    }
    if let Some(fill) = fill {
        let empty = found.lt(0i64);
        columns.iter_mut().for_each(|column| *column = empty.where_(fill, &*column));
    }
    let indices = if columns.is_empty() { Tensor::zeros_on([size, 0], DType::I64, meta.device) } else { Tensor::stack(&columns, 1) };
    Ok((indices, flags.sum(..)))
}
fn inputs<'a>(x: &'a Tensor, indices: &[Option<&'a Tensor>]) -> Vec<&'a Tensor> {
    std::iter::once(x).chain(indices.iter().copied().flatten()).collect()
}
