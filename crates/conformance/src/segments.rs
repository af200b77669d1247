//! Drawn segment reductions: all kinds, cuts, dtypes, defaults and layouts, with segments of nothing and very long ones, compared
//! with the reference; their gradients and tangents too, and `vmap` with a loop on the same device.
use crate::{
    data::{download, same_bits, upload},
    random::Random,
    tolerance,
};
use adamant_core::{
    DType, Device, Error, HostArray, Result, SegmentReduce, Segments, Shape, Tensor,
    transform::{Vmap, grad, jvp, vmap_with},
};

/// How the tensor of cuts says them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CutsAs {
    Lengths,
    Offsets,
    Ids,
}
/// One reduction with its data.
#[derive(Clone, Debug)]
pub struct SegmentCase {
    reduce: SegmentReduce,
    given: CutsAs,
    initial: Option<f64>,
    axis: usize,
    /// is each line cut in its own way?
    own: bool,
    /// do the data lie transposed?
    transposed: bool,
    /// the lengths of each line's segments
    lengths: Vec<Vec<usize>>,
    cuts: HostArray,
    data: HostArray,
}
/// Elements of a long segment, where nothing speaks against so many.
pub const LONG: usize = 40_000;

impl SegmentCase {
    /// Draws a case; every eighth has a segment of about `longest` elements. Data are small whole numbers, of which each device sums
    /// as many exactly.
    pub fn draw(k: usize, longest: usize, dtypes: &[DType], random: &mut Random) -> SegmentCase {
        let long = k % 8 == 7;
        let floats: Vec<DType> = dtypes.iter().copied().filter(|d| d.is_float() && d.size() > 1).collect();
        let dtype = if random.one_in(2) { *random.pick(&floats) } else { *random.pick(dtypes) };
        let mut kinds = vec![SegmentReduce::Sum, SegmentReduce::Max, SegmentReduce::Min];
        if dtype.is_float() {
            kinds.push(SegmentReduce::Mean);
        }
        let axis = random.below(3);
        let before: Vec<usize> = (0..axis).map(|_| random.between(1, 3)).collect();
        let behind: Vec<usize> = (0..random.below(3 - axis.min(2))).map(|_| random.between(1, if long { 2 } else { 5 })).collect();
        let (lines, own) = (before.iter().product::<usize>(), random.one_in(2));
        let segments = random.between(usize::from(!long), 6);
        let segments = segments.max(1);
        let n = if long { longest + random.below(9) } else { *random.pick(&[0, 1, 5, 17, 64]) };
        // All places where a line is cut, in order: equal ones leave nothing between them.
        let mut line = || -> Vec<usize> {
            let mut at: Vec<usize> = (1..segments).map(|_| if long { *random.pick(&[0, 1, 7, n]) } else { random.below(n + 1) }).collect();
            at.extend([0, n]);
            at.sort_unstable();
            at.windows(2).map(|w| w[1] - w[0]).collect()
        };
        let shared = line();
        let lengths: Vec<Vec<usize>> = (0..lines).map(|_| if own { line() } else { shared.clone() }).collect();
        let given = *random.pick(&[CutsAs::Lengths, CutsAs::Offsets, CutsAs::Ids]);
        let told = |lengths: &Vec<usize>| -> Vec<i64> {
            let ids = || lengths.iter().enumerate().flat_map(|(id, &n)| std::iter::repeat_n(id as i64, n)).collect();
            let running = |end: &mut i64, n: &usize| {
                *end += *n as i64;
                Some(*end)
            };
            match given {
                CutsAs::Lengths => lengths.iter().map(|&n| n as i64).collect(),
                CutsAs::Offsets => std::iter::once(0).chain(lengths.iter().scan(0, running)).collect(),
                CutsAs::Ids => ids(),
            }
        };
        let of_cuts: Vec<DType> = dtypes.iter().copied().filter(|d| d.is_int() && (n < 100 || d.size() > 2)).collect();
        let each: Vec<Vec<i64>> = lengths.iter().take(if own { lines } else { 1 }).map(told).collect();
        let dims: Vec<usize> = if own { before.clone() } else { Vec::new() }.into_iter().chain([each[0].len()]).collect();
        let cuts = HostArray::ints(shape(&dims), if of_cuts.is_empty() { DType::I64 } else { *random.pick(&of_cuts) }, each.concat());
        let all = shape(&[&before[..], &[n], &behind[..]].concat());
        let whole = |r: &mut Random| r.below(7) as i64 - if matches!(dtype, DType::U8 | DType::U32 | DType::Bool) { 0 } else { 3 };
        let values: Vec<i64> = (0..all.elements()).map(|_| whole(random)).collect();
        let data = if dtype.is_float() {
            HostArray::floats(all, dtype, values.iter().map(|v| *v as f64))
        } else {
            HostArray::ints(all, dtype, values.iter().map(|v| if dtype == DType::Bool { i64::from(*v > 3) } else { *v }))
        };
        let initial = (dtype != DType::Bool && random.one_in(2)).then(|| random.below(4) as f64);
        SegmentCase { reduce: *random.pick(&kinds), given, initial, axis, own, transposed: random.one_in(2), lengths, cuts, data }
    }
    /// In words, without the data.
    pub fn told(&self) -> String {
        let lengths = if self.own { &self.lengths[..] } else { &self.lengths[..1] };
        let SegmentCase { reduce, given, initial, axis, transposed, cuts, data, .. } = self;
        format!("{reduce:?} of {}{} along {axis}, {given:?} {} {lengths:?}, initial {initial:?}, transposed {transposed}", data.dtype, data.shape, cuts.dtype)
    }
    fn data_on(&self, device: Device) -> Tensor {
        let x = upload(&self.data, device);
        if !self.transposed || self.data.shape.rank() < 2 {
            return x;
        }
        // The same values, which lie in another order.
        x.transpose(0, -1).contiguous().transpose(0, -1)
    }
    fn of(&self, x: &Tensor, cuts: &Tensor) -> Tensor {
        let segments = match self.given {
            CutsAs::Lengths => Segments::Lengths(cuts),
            CutsAs::Offsets => Segments::Offsets(cuts),
            CutsAs::Ids => Segments::Ids(cuts, self.lengths[0].len()),
        };
        x.segment_reduce(self.reduce, segments, self.axis, self.initial)
    }
    /// Whole numbers of the result's shape or the data's.
    fn whole(&self, like: &Tensor, seed: u64, device: Device) -> Result<Tensor> {
        let (m, mut r) = (like.try_meta()?, Random::new(seed));
        Ok(upload(&HostArray::floats(m.shape, m.dtype, (0..m.shape.elements()).map(|_| r.below(5) as f64 - 2.0)), device))
    }
    /// The result; of floats its gradient and tangent too.
    fn results(&self, device: Device) -> Result<Vec<HostArray>> {
        device.scoped(|| {
            let (x, cuts) = (self.data_on(device), upload(&self.cuts, device));
            let y = self.of(&x, &cuts).ok()?;
            let mut all = vec![download(&y)?];
            // A mean of nothing is no number, and has no derivative that two devices could agree on.
            let derived = self.data.dtype.is_float() && self.data.dtype.size() > 1;
            if derived {
                let w = self.whole(&y, 1, device)?;
                let loss = |x: Tensor| {
                    let y = self.of(&x, &cuts);
                    y.isnan().where_(y.zeros_like(), &y * &w).cast(DType::F32).sum(..)
                };
                all.push(download(&grad(loss)(x.clone()))?);
                all.push(download(&jvp(|x: Tensor| self.of(&x, &cuts), x.clone(), self.whole(&x, 2, device)?).1)?);
            }
            Ok(all)
        })
    }
    /// A stack of three, with other data and the cuts shared or stacked, against a loop.
    fn stacked(&self, device: Device, share_cuts: bool, bits: bool) -> std::result::Result<(), String> {
        let text = |e: Error| format!("vmap: {e}");
        device.scoped(|| {
            let (x, cuts) = (self.data_on(device), upload(&self.cuts, device));
            let each: Vec<Tensor> = (0..3).map(|k| if k == 0 { x.clone() } else { x.flip((k - 1).min(self.data.shape.rank() - 1)) }).collect();
            let looped = each.iter().map(|x| self.of(x, &cuts)).collect::<Vec<_>>();
            let want = download(&Tensor::stack(&looped.iter().collect::<Vec<_>>(), 0)).map_err(text)?;
            let stack = Tensor::stack(&each.iter().collect::<Vec<_>>(), 0);
            let (cuts, axes) = if share_cuts { (cuts, [Some(0), None]) } else { (Tensor::stack(&[&cuts; 3], 0), [Some(0), Some(0)]) };
            let got = vmap_with(|(x, cuts): (Tensor, Tensor)| self.of(&x, &cuts), Vmap::default().in_axes(axes))((stack, cuts));
            let got = download(&got).map_err(text)?;
            if bits && !same_bits(&got, &want) {
                return Err("vmap has other bits than a loop".into());
            }
            tolerance::composed(&got, &want).map_err(|why| format!("vmap: {why}"))
        })
    }
    /// Compares it with the reference. `bits`: the device promises those of a loop.
    ///
    /// # Errors
    /// What differs, in words.
    pub fn check(&self, device: Device, bits: bool) -> std::result::Result<(), String> {
        let got = self.results(device).map_err(|e| e.to_string())?;
        let want = self.results(Device::reference()).map_err(|e| format!("the reference: {e}"))?;
        for ((got, want), what) in got.iter().zip(&want).zip(["the result", "the gradient", "the tangent"]) {
            // Sums of whole numbers are exact, in whatever order.
            if what == "the result" && self.reduce != SegmentReduce::Mean && self.data.dtype.size() > 2 && !same_bits(got, want) {
                return Err(format!("{what} has other bits than the reference's"));
            }
            tolerance::composed(got, want).map_err(|why| format!("{what}: {why}"))?;
        }
        if self.data.shape.elements() == 0 {
            return Ok(());
        }
        [false, true].into_iter().try_for_each(|share_cuts| self.stacked(device, share_cuts, bits))
    }
}
fn shape(dims: &[usize]) -> Shape {
    Shape::new(dims).unwrap_or(Shape::SCALAR)
}

/// Draws so many and compares them: what is wrong, and how many had a long segment or one of nothing.
pub fn run(device: Device, n: usize, seed: u64, bits: bool, longest: usize) -> (Vec<String>, [usize; 2]) {
    let (mut random, mut wrong, mut met) = (Random::new(seed), Vec::new(), [0, 0]);
    let dtypes: Vec<DType> = device.info().dtypes.iter().copied().filter(|d| d.size() > 1 || !d.is_float()).collect();
    for k in 0..n {
        let case = SegmentCase::draw(k, longest, &dtypes, &mut random);
        met[0] += usize::from(case.lengths.iter().flatten().any(|&n| n >= longest / 2));
        met[1] += usize::from(case.lengths.iter().flatten().any(|&n| n == 0));
        if let Err(why) = case.check(device, bits) {
            wrong.push(format!("case {k}: {}: {why}", case.told()));
        }
    }
    (wrong, met)
}
