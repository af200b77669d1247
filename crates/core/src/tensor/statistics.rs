//! Order statistics and counts: median, mode, quantiles, histograms.
use super::{
    Tensor,
    compose::{Built, compose, compose1, on_an_axis, refuse, two_forms},
    sort::sorted_range,
};
use crate::{
    AxisSet, DType, ErrorKind,
    composite::{sorted_range::SortedRange, wide::floats},
    shape::Axis,
};

/// What stands between two neighbours in a quantile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Interpolation {
    /// a straight line
    #[default]
    Linear,
    /// the lower
    Lower,
    /// the higher
    Higher,
    /// the nearer; of equally near ones that with an even rank
    Nearest,
    /// the middle of both
    Midpoint,
}

two_forms! {
    /// The median along an axis (the lower of the two middle elements) and its index (i64). NaN if any is NaN.
    median_dim median_dim_keepdim(axis: impl Axis) -> (Tensor, Tensor) = |x, keepdim| x.middle("median", axis, keepdim, false);
    /// As [`Tensor::median_dim`], of what is not NaN.
    nanmedian_dim nanmedian_dim_keepdim(axis: impl Axis) -> (Tensor, Tensor) = |x, keepdim| x.middle("nanmedian", axis, keepdim, true);
    /// The most frequent element along an axis (the smallest of equally frequent ones) and the index (i64) of its last occurrence.
    mode mode_keepdim(axis: impl Axis) -> (Tensor, Tensor) = |x, keepdim| x.mode_of(axis, keepdim);
    /// The q-quantile (q in 0..=1) along an axis. NaN if any is NaN.
    quantile quantile_keepdim(q: f64, axis: impl Axis, interpolation: Interpolation) -> Tensor = |x, keepdim| {
        x.quantile_of("quantile", q, axis, keepdim, interpolation, false)
    };
    /// As [`Tensor::quantile`], of what is not NaN.
    nanquantile nanquantile_keepdim(q: f64, axis: impl Axis, interpolation: Interpolation) -> Tensor = |x, keepdim| {
        x.quantile_of("nanquantile", q, axis, keepdim, interpolation, true)
    };
    /// Several quantiles along an axis, stacked on a new first axis.
    quantiles quantiles_keepdim(q: &[f64], axis: impl Axis, interpolation: Interpolation) -> Tensor = |x, keepdim| compose1("quantile", x, |x| {
        let each: Vec<Tensor> = q.iter().map(|&q| x.quantile_of("quantile", q, axis, keepdim, interpolation, false)).collect();
        Ok(Tensor::stack(&each, 0))
    });
}

impl Tensor {
    /// The median of all elements (the lower of the two middle ones); NaN if any is NaN, and of nothing. [`Tensor::median_dim`] goes
    /// along an axis.
    #[track_caller]
    #[must_use]
    pub fn median(&self) -> Tensor {
        self.middle_of_all("median", false)
    }
    /// As [`Tensor::median`], of what is not NaN.
    #[track_caller]
    #[must_use]
    pub fn nanmedian(&self) -> Tensor {
        self.middle_of_all("nanmedian", true)
    }
    #[track_caller]
    fn middle_of_all(&self, name: &'static str, skip: bool) -> Tensor {
        compose1(name, self, |x| {
            if x.meta().shape.elements() == 0 && x.meta().dtype.is_float() {
                return Ok(Tensor::full_on((), f64::NAN, x.meta().dtype, x.meta().device));
            }
            Ok(x.ravel().middle(name, 0, false, skip).0)
        })
    }
    #[track_caller]
    fn middle(&self, name: &'static str, axis: impl Axis, keepdim: bool, skip: bool) -> (Tensor, Tensor) {
        compose1(name, self, |x| {
            let (x, scalar) = on_an_axis(x);
            let (shape, float) = (x.meta().shape, x.meta().dtype.is_float());
            let axis = shape.axis(axis.to_axis())?;
            let n = shape[axis];
            if n == 0 {
                return Err(ErrorKind::Shape { shape, expected: format!("axis {axis} is empty, and nothing has no median") }.into());
            }
            let plain = x.detach();
            let from = if skip && float {
                // NaN is sorted to the end.
                let numbers = plain.isnan().logical_not().sum_keepdim(axis as isize);
                let half = (numbers.maximum(1i64) - 1i64).bitwise_right_shift(1i64);
                plain.argsort(axis, false).gather(axis, &half)
            } else {
                let (_, middle) = sorted_range(&plain, SortedRange { axis, descending: false, start: (n - 1) / 2, len: 1 })?;
                // As soon as there is a NaN the first one is the median.
                if float { plain.isnan().any_keepdim(axis).where_(plain.argmax_keepdim(axis), &middle) } else { middle }
            };
            let pick = |t: Tensor| if scalar { t.reshape(()) } else { t.drop(AxisSet::one(axis), keepdim) };
            Ok((pick(x.gather(axis, &from)), pick(from)))
        })
    }
    #[track_caller]
    fn mode_of(&self, axis: impl Axis, keepdim: bool) -> (Tensor, Tensor) {
        compose1("mode", self, |x| {
            let (x, scalar) = on_an_axis(x);
            let shape = x.meta().shape;
            let axis = shape.axis(axis.to_axis())?;
            let n = shape[axis];
            if n == 0 {
                return Err(ErrorKind::Shape { shape, expected: format!("axis {axis} is empty, and nothing has no mode") }.into());
            }
            let (values, from) = x.sort(axis, false);
            // Each element's place in its run of equals; the end of the longest run has the largest.
            let place = values.iota_like(axis, DType::I64);
            let plain = values.detach();
            let differs = plain.narrow(axis, 1, n - 1).ne(plain.narrow(axis, 0, n - 1));
            let starts = Tensor::cat(&[Tensor::full_on(shape.with(axis, 1), true, DType::Bool, x.meta().device), differs], axis);
            let start = starts.where_(&place, 0i64).cummax(axis).0;
            let at = (place - start).argmax_keepdim(axis);
            let pick = |t: &Tensor| {
                let one = t.gather(axis, &at);
                if scalar { one.reshape(()) } else { one.drop(AxisSet::one(axis), keepdim) }
            };
            Ok((pick(&values), pick(&from)))
        })
    }
    #[track_caller]
    fn quantile_of(&self, name: &'static str, q: f64, axis: impl Axis, keepdim: bool, interpolation: Interpolation, skip: bool) -> Tensor {
        compose1(name, self, |x| {
            let (x, scalar) = on_an_axis(x);
            let (shape, dtype) = (x.meta().shape, x.meta().dtype);
            let axis = shape.axis(axis.to_axis())?;
            if !(0.0..=1.0).contains(&q) {
                return refuse(format!("quantiles run from 0 to 1, not {q}"));
            }
            if !matches!(dtype, DType::F32 | DType::F64) {
                return Err(ErrorKind::Dtype(format!("quantiles are taken of f32 and f64, not of {dtype}")).into());
            }
            let n = shape[axis];
            if n == 0 {
                return Err(ErrorKind::Shape { shape, expected: format!("axis {axis} is empty, and nothing has no quantiles") }.into());
            }
            let values = x.sort(axis, false).0;
            let nan = x.detach().isnan();
            let numbers = nan.logical_not().sum_keepdim(axis as isize);
            // Where NaN counts, one NaN is enough: its place, the last, is then the quantile.
            let last = if skip { numbers.maximum(1i64) - 1i64 } else { Tensor::full_on(shape.with(axis, 1), n - 1, DType::I64, x.meta().device) };
            let rank = last.cast(dtype) * q;
            let rank = if skip { rank } else { numbers.lt(n).where_(last.cast(dtype), rank) };
            let rank = match interpolation {
                Interpolation::Lower => rank.floor(),
                Interpolation::Higher => rank.ceil(),
                Interpolation::Nearest => rank.round(),
                _ => rank,
            };
            let below = rank.floor();
            let (low, high) = (values.gather(axis, &below.cast(DType::I64)), values.gather(axis, &rank.ceil().cast(DType::I64)));
            let weight = if interpolation == Interpolation::Midpoint { rank.ne(&below).cast(dtype) * 0.5 } else { &rank - &below };
            // From the end that is nearer, so that of an infinite one and another the nearer is left; one alone is as it is.
            let out = match interpolation {
                Interpolation::Lower | Interpolation::Higher | Interpolation::Nearest => low,
                _ => low.lerp(&high, &weight),
            };
            Ok(if scalar { out.reshape(()) } else { out.drop(AxisSet::one(axis), keepdim) })
        })
    }
    /// How many elements fall into each of `bins` equal intervals from `low` to `high` (both 0: the extremes of the data).
    /// The last interval holds its end; elements outside do not count. The result has the tensor's dtype.
    #[track_caller]
    pub fn histc(&self, bins: usize, low: f64, high: f64) -> Tensor {
        compose1("histc", self, |x| {
            let meta = x.meta();
            if !meta.dtype.is_float() {
                return Err(ErrorKind::Dtype(format!("a histogram is made of floats, not of {}", meta.dtype)).into());
            }
            if bins == 0 || low > high || !low.is_finite() || !high.is_finite() {
                return refuse(format!("{bins} intervals from {low} to {high}"));
            }
            let x = x.detach().wide().ravel();
            let n = meta.shape.elements();
            if n == 0 {
                return Ok(Tensor::zeros_on([bins], meta.dtype, meta.device));
            }
            let number = |v: f64| Tensor::full_on((), v, x.meta().dtype, meta.device);
            let (mut from, mut to) = if low == high && low == 0.0 { (x.amin(..), x.amax(..)) } else { (number(low), number(high)) };
            if low == high {
                // All elements are equal: one interval of width 2 around them.
                let point = from.eq(&to);
                (from, to) = (point.where_(&from - 1.0, &from), point.where_(&to + 1.0, &to));
            }
            let at = ((&x - &from) * bins as f64 / (&to - &from)).floor().minimum((bins - 1) as f64);
            let inside = x.ge(&from).logical_and(x.le(&to));
            let at = inside.where_(at, bins as f64).cast(DType::I64);
            let ones = Tensor::ones_on([n], DType::I64, meta.device);
            Ok(Tensor::zeros_on([bins + 1], DType::I64, meta.device).scatter_add(0, &at, &ones).narrow(0, 0, bins).cast(meta.dtype))
        })
    }
    /// The covariance of variables (rows) over observations (columns), `[n, n]`; of one alone: its variance, without axes. `correction` is
    /// taken from the number of observations; `frequencies` (integers) repeat observations, `weights` weigh them.
    #[track_caller]
    pub fn cov(&self, correction: f64, frequencies: Option<&Tensor>, weights: Option<&Tensor>) -> Tensor {
        let inputs: Vec<&Tensor> = [self].into_iter().chain(frequencies).chain(weights).collect();
        compose("cov", &inputs, || {
            let shape = self.meta().shape;
            if shape.rank() > 2 {
                return Err(ErrorKind::Shape { shape, expected: "a vector, or a matrix of variables and observations".into() }.into());
            }
            // Weights that are floats are promoted with; frequencies only count.
            let own = self.meta().dtype;
            let dtype = weights.map(|w| w.meta().dtype).filter(|d| d.is_float()).and_then(|d| own.promote(d)).unwrap_or(own.to_float());
            let x = self.cast(dtype).wide().reshape([if shape.rank() == 2 { shape[0] } else { 1 }, shape.last().copied().unwrap_or(1)]);
            let n = x.meta().shape[1];
            for w in inputs[1..].iter().map(|w| w.meta().shape) {
                if *w != [n] {
                    return Err(ErrorKind::ShapeMismatch { left: shape, right: w, axes: None, expected: "one weight for each observation" }.into());
                }
            }
            let wide = |t: &Tensor| t.cast(x.meta().dtype);
            let each = match (frequencies.map(wide), weights.map(wide)) {
                (Some(f), Some(w)) => f * w,
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => Tensor::ones_on([n], x.meta().dtype, x.meta().device),
            };
            let total = each.sum(..);
            let taken = match weights {
                Some(w) => (&each * wide(w)).sum(..) / &total * correction,
                None => total.full_like(correction),
            };
            let centred = &x - (&x * &each).sum_keepdim(1) / &total;
            let cov = (&centred * &each).matmul(centred.t()) / (total - taken).clamp_min(0.0);
            Ok(if shape.rank() < 2 || shape[0] == 1 { cov.reshape(()) } else { cov }.cast(dtype))
        })
    }
    /// Pearson's correlation of variables (rows) over observations (columns), `[n, n]`; of one alone: 1, without axes.
    #[track_caller]
    #[must_use]
    pub fn corrcoef(&self) -> Tensor {
        compose1("corrcoef", self, |x| {
            let cov = x.wide().cov(1.0, None, None);
            let correlation = if cov.rank() == 0 {
                // 1; NaN where nothing varies.
                let own = cov.clone();
                cov / own
            } else {
                let deviation = cov.diagonal(0, 0, 1).sqrt();
                (&cov / deviation.unsqueeze(1) / deviation.unsqueeze(0)).clamp(-1.0, 1.0)
            };
            Ok(correlation.cast(x.meta().dtype.to_float()))
        })
    }
    /// How many elements (or the sum of their weights) fall between neighbours of rising `edges`, a vector; the last interval
    /// holds its end. `density` divides by the whole and by the intervals' lengths.
    #[track_caller]
    pub fn histogram(&self, edges: &Tensor, weights: Option<&Tensor>, density: bool) -> Tensor {
        let inputs: Vec<&Tensor> = [self, edges].into_iter().chain(weights).collect();
        compose("histogram", &inputs, || {
            let meta = self.meta();
            let dtype = floats(&meta)?.dtype;
            let bins = match *edges.meta().shape {
                [n] if n >= 2 => n - 1,
                _ => return Err(ErrorKind::Shape { shape: edges.meta().shape, expected: "a vector of at least two edges".into() }.into()),
            };
            if let Some(w) = weights.filter(|w| w.meta().shape != meta.shape) {
                let right = w.meta().shape;
                return Err(ErrorKind::ShapeMismatch { left: meta.shape, right, axes: None, expected: "one weight for each element" }.into());
            }
            let (x, edges) = (self.detach().wide().ravel(), edges.detach().wide());
            let inside = x.ge(edges.narrow(0, 0, 1)).logical_and(x.le(edges.narrow(0, bins, 1)));
            let at = (edges.searchsorted(&x, true) - 1i64).minimum((bins - 1) as i64);
            let at = inside.where_(at, bins as i64);
            let each = match weights {
                Some(w) => w.detach().cast(x.meta().dtype).ravel(),
                None => x.ones_like(),
            };
            let counts = Tensor::zeros_on([bins + 1], x.meta().dtype, meta.device).scatter_add(0, &at, &each).narrow(0, 0, bins);
            let counts = if density { &counts / counts.sum(..) / edges.diff(1, 0) } else { counts };
            Ok(counts.cast(dtype))
        })
    }
    /// How many points (or the sum of their weights) fall into the cells between neighbours of rising edges: points `[.., d]`, a vector
    /// of edges for each of the d coordinates, and an axis for each in the result. The last cell along an axis holds its end;
    /// points outside count nowhere. `density` divides by the whole and by the cells' volumes.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor, Tensor};
    /// # Device::reference().make_current();
    /// let points = tensor![[0.5, 0.5], [0.5, 1.5], [2.0, 2.0], [3.0, 0.0]];
    /// let edges = [tensor![0.0, 1.0, 2.0], tensor![0.0, 1.0, 2.0]];
    /// assert_eq!(points.histogramdd(&edges, None, false).to_vec::<f32>()?, [1.0, 1.0, 0.0, 1.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensor: no floats; edges that are not one vector of at least two for each coordinate; weights of another shape
    /// than the points'.
    ///
    /// Source: `torch.histogramdd`. No gradient, as there.
    #[track_caller]
    pub fn histogramdd<T: std::borrow::Borrow<Tensor>>(&self, edges: &[T], weights: Option<&Tensor>, density: bool) -> Tensor {
        let edges: Vec<&Tensor> = edges.iter().map(|e| e.borrow()).collect();
        let inputs: Vec<&Tensor> = [self].into_iter().chain(edges.iter().copied()).chain(weights).collect();
        compose("histogramdd", &inputs, || {
            let meta = self.meta();
            let dtype = floats(&meta)?.dtype;
            if meta.shape.last() != Some(&edges.len()) || edges.is_empty() {
                return Err(
                    ErrorKind::Shape { shape: meta.shape, expected: format!("points of {} coordinates, one for each vector of edges", edges.len()) }.into()
                );
            }
            let lead = meta.shape.without(meta.shape.rank() - 1);
            if let Some(w) = weights.filter(|w| w.meta().shape != lead) {
                return Err(ErrorKind::ShapeMismatch { left: meta.shape, right: w.meta().shape, axes: None, expected: "one weight for each point" }.into());
            }
            let x = self.detach().wide();
            let (mut inside, mut cell, mut bins, mut volumes) = (None::<Tensor>, None::<Tensor>, Vec::new(), None::<Tensor>);
            for (k, edges) in edges.iter().enumerate() {
                let count = match *edges.meta().shape {
                    [n] if n >= 2 => n - 1,
                    _ => return Err(ErrorKind::Shape { shape: edges.meta().shape, expected: "a vector of at least two edges".into() }.into()),
                };
                let (x, edges) = (x.select(-1, k as isize).ravel(), edges.detach().wide());
                let between = x.ge(edges.narrow(0, 0, 1)).logical_and(x.le(edges.narrow(0, count, 1)));
                let at = (edges.searchsorted(&x, true) - 1i64).minimum((count - 1) as i64);
                inside = Some(inside.map_or(between.clone(), |all| all.logical_and(between)));
                cell = Some(cell.map_or(at.clone(), |before| before * count as i64 + at));
                let lengths = edges.diff(1, 0);
                volumes = Some(volumes.map_or(lengths.clone(), |v| v.unsqueeze(-1) * lengths));
                bins.push(count);
            }
            let (Some(inside), Some(cell), Some(volumes)) = (inside, cell, volumes) else { return refuse("there is no coordinate") };
            let all: usize = bins.iter().product();
            let each = weights.map_or_else(|| Tensor::ones_on([lead.elements()], x.meta().dtype, meta.device), |w| w.detach().cast(x.meta().dtype).ravel());
            let counts = Tensor::zeros_on([all + 1], x.meta().dtype, meta.device).scatter_add(0, &inside.where_(cell, all as i64), &each);
            let counts = counts.narrow(0, 0, all).reshape(bins);
            Ok(if density { &counts / counts.sum(..) / volumes } else { counts }.cast(dtype))
        })
    }
    /// How often each of 0, 1, 2, ... occurs in a vector of integers (or the sum of the weights there), up to the largest,
    /// at least `minlength` of them. Reads the largest.
    #[track_caller]
    pub fn bincount(&self, weights: Option<&Tensor>, minlength: usize) -> Tensor {
        let mut inputs = vec![self];
        inputs.extend(weights);
        compose("bincount", &inputs, || {
            let meta = self.meta();
            if meta.shape.rank() != 1 || !meta.dtype.is_int() {
                return Err(ErrorKind::Shape { shape: meta.shape, expected: format!("a vector of integers, not of {}", meta.dtype) }.into());
            }
            if let Some(w) = weights.filter(|w| w.meta().shape != meta.shape) {
                return Err(ErrorKind::ShapeMismatch { left: meta.shape, right: w.meta().shape, axes: None, expected: "one weight for each element" }.into());
            }
            let size = if meta.shape[0] == 0 { 0 } else { self.numbers_below()? }.max(minlength);
            let dtype = weights.map_or(DType::I64, |w| w.meta().dtype.to_float());
            let source = weights.map_or_else(|| Tensor::ones_on([1], DType::I64, meta.device).expand(meta.shape), |w| w.cast(dtype));
            Ok(Tensor::zeros_on([size], dtype, meta.device).scatter_add(0, self, &source))
        })
    }
    /// One more than the largest of integers that must not be negative.
    fn numbers_below(&self) -> Built<usize> {
        let largest: i64 = self.amax(..).cast(DType::I64).item()?;
        let smallest: i64 = self.amin(..).cast(DType::I64).item()?;
        if smallest < 0 {
            return refuse(format!("integers to be counted are not negative, but one is {smallest}"));
        }
        Ok(largest as usize + 1)
    }
}
