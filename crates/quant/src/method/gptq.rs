//! GPTQ (Frantar et al. 2022, algorithm 1): columns become codes one after the other, and what each loses is put right by those to
//! come, as the inverse of the Hessian says. Products of matrices and the factor are tensors in f64, the columns of a block are
//! worked on by the host.
use super::{
    GptqOptions,
    candidate::{CLIPS, Candidate, CodeGrid},
    inputs::InputMoments,
};
use crate::select::refusal;
use adamant_core::{DType, Error, Result, Tensor, composite::packed::Packing};

/// The largest damping that is tried, in means of the diagonal. Any Hessian of finite inputs has a factor far below it.
const MOST_DAMPING: f64 = 1e3;
/// The damping after 0 and after too little.
const LEAST_DAMPING: f64 = 1e-8;

/// What the columns of all weights with one input have in common.
pub(crate) struct GptqFactor {
    /// the columns in the order they are worked on
    order: Vec<usize>,
    /// columns whose input is always 0, by their place in the weight
    dead: Vec<bool>,
    /// U with `UᵀU` the inverse of the damped Hessian, columns in order
    upper: Tensor,
    /// its elements
    elements: Vec<f64>,
    moments: InputMoments,
    /// of the Hessian, by places in the weight
    diagonal: Vec<f64>,
    options: GptqOptions,
}
impl GptqFactor {
    /// Inputs that are always 0 have 1 for their diagonal: nothing is put right by them, nor through them.
    ///
    /// # Errors
    /// No factor at any damping.
    #[track_caller]
    pub fn new(op: &'static str, path: &str, moments: &InputMoments, options: GptqOptions) -> Result<GptqFactor> {
        let diagonal = moments.hessian.diagonal(0, 0, 1).to_vec::<f64>()?;
        let n = diagonal.len();
        let dead: Vec<bool> = diagonal.iter().map(|d| *d == 0.0).collect();
        let living = dead.iter().filter(|d| !**d).count();
        let mean = if living == 0 { 1.0 } else { diagonal.iter().sum::<f64>() / living as f64 };
        let mut order: Vec<usize> = (0..n).collect();
        if options.act_order {
            order.sort_by(|a, b| diagonal[*b].total_cmp(&diagonal[*a]));
        }
        let device = moments.hessian.device()?;
        let places = Tensor::from_vec(order.iter().map(|k| *k as i64).collect::<Vec<_>>(), [n]).to(device);
        let ones = Tensor::from_vec(dead.iter().map(|d| f64::from(u8::from(*d)) * mean).collect::<Vec<_>>(), [n]).to(device);
        let hessian = (&moments.hessian + ones.diag(0)).index_select(0, &places).index_select(1, &places);
        let identity = Tensor::eye_on(n, n, DType::F64, device);
        let mut damping = options.damping;
        loop {
            // The factor from the last column on: H = R Rᵀ with R an upper triangle, whose inverse is U.
            let (lower, info) = (&hessian + &identity * (damping * mean)).flip([0, 1]).cholesky_ex(false);
            if info.item::<i32>()? == 0 {
                let upper = lower.flip([0, 1]).solve_triangular(&identity, true, false);
                let elements = upper.to_vec::<f64>()?;
                if elements.iter().all(|u| u.is_finite()) {
                    return Ok(GptqFactor { order, dead, upper, elements, moments: moments.clone(), diagonal, options });
                }
            }
            damping = (damping * 10.0).max(LEAST_DAMPING);
            if damping > MOST_DAMPING {
                return Err(refusal(op, format!("the layer `{path}`: the Hessian of its inputs has no Cholesky factor, however much it is damped"))
                    .hint("look for inputs in the calibration data that are too large to be squared"));
            }
        }
    }
    /// The codes of a weight `[rows, columns]` of floats.
    #[track_caller]
    pub fn codes(&self, weight: &Tensor, packing: Packing, scales: DType) -> Result<Candidate> {
        let [rows, columns] = weight.dims()?;
        let work = |clip| ColumnWork { factor: self, packing, scales, rows, columns, clip }.run(weight);
        let spanning = work(false)?;
        if !self.options.clip {
            return Ok(spanning);
        }
        // What a range loses column by column is not yet what the outputs lose.
        let clipped = work(true)?;
        let device = self.moments.hessian.device()?;
        let errors = |c: &Candidate| self.moments.row_errors(&(&c.numbers - weight).to(device).cast(DType::F64));
        let better = errors(&clipped).lt(errors(&spanning));
        Ok(spanning.with_rows(&clipped, &better.to(weight.device()?)))
    }
}

/// The grid of one group or of all, on the host: `[rows, groups]`.
struct HostGrid {
    scale: Vec<f64>,
    zero_point: Vec<f64>,
}
impl HostGrid {
    /// The nearest code of a number of a group, and what it stands for.
    fn nearest(&self, number: f64, group: usize, packing: Packing) -> (f64, f64) {
        let ((low, high), scale, zero_point) = (packing.range(), self.scale[group], self.zero_point[group]);
        let code = ((number / scale).round_ties_even() + zero_point).clamp(f64::from(low), f64::from(high));
        (code, (code - zero_point) * scale)
    }
    /// What numbers `[rows, columns]` lose in each group by the nearest codes: the sum of the squares, each times its column's factor.
    fn losses(&self, numbers: &[f32], factors: &[f64], group: usize, packing: Packing) -> Vec<f64> {
        let of_group = |(k, numbers): (usize, &[f32])| {
            let first = k * group % factors.len();
            let lost = |(w, factor): (&f32, &f64)| factor * (f64::from(*w) - self.nearest(f64::from(*w), k, packing).1).powi(2);
            numbers.iter().zip(&factors[first..]).map(lost).sum()
        };
        numbers.chunks(group).enumerate().map(of_group).collect()
    }
}
struct ColumnWork<'a> {
    factor: &'a GptqFactor,
    packing: Packing,
    scales: DType,
    rows: usize,
    columns: usize,
    /// are narrower ranges tried?
    clip: bool,
}
impl ColumnWork<'_> {
    fn group(&self) -> usize {
        self.packing.group.unwrap_or(self.columns)
    }
    /// The grids of groups of numbers `[rows, columns]`, which are those of some places of the weight: they span them, or a part of their
    /// range that loses less, columns of large inputs counting more. Columns without input do not widen them, unless there are no others.
    #[track_caller]
    fn grids(&self, mut numbers: Vec<f32>, places: std::ops::Range<usize>, packing: Packing) -> Result<HostGrid> {
        let (dead, diagonal) = (&self.factor.dead[places.clone()], &self.factor.diagonal[places]);
        let (columns, group) = (dead.len(), packing.group.unwrap_or(dead.len()));
        for (first, dead) in dead.chunks(group).enumerate().map(|(g, d)| (g * group, d)) {
            if dead.contains(&true) && dead.contains(&false) {
                for row in numbers.chunks_mut(columns) {
                    row[first..].iter_mut().zip(dead).filter(|(_, dead)| **dead).for_each(|(number, _)| *number = 0.0);
                }
            }
        }
        let spanned = Tensor::from_vec(numbers.clone(), [self.rows, columns]);
        let of_range = |share: f64| {
            let grid = CodeGrid::spanning(&(&spanned * share), packing, self.scales)?;
            let scale = grid.scale.to_vec_as::<f64>()?;
            let zero_point = match &grid.zero_point {
                Some(zero_point) => zero_point.to_vec_as::<f64>()?,
                None => vec![0.0; scale.len()],
            };
            Ok::<_, Error>(HostGrid { scale, zero_point })
        };
        let mut best = of_range(1.0)?;
        if !self.clip {
            return Ok(best);
        }
        let mut least = best.losses(&numbers, diagonal, group, packing);
        for share in CLIPS {
            let tried = of_range(share)?;
            let losses = tried.losses(&numbers, diagonal, group, packing);
            for (k, loss) in losses.into_iter().enumerate().filter(|(k, loss)| *loss < least[*k]).collect::<Vec<_>>() {
                (least[k], best.scale[k], best.zero_point[k]) = (loss, tried.scale[k], tried.zero_point[k]);
            }
        }
        Ok(best)
    }
    #[track_caller]
    fn run(&self, weight: &Tensor) -> Result<Candidate> {
        let (rows, columns, group, factor) = (self.rows, self.columns, self.group(), self.factor);
        let groups = columns / group.max(1);
        let original = weight.detach().to_vec_as::<f64>()?;
        let mut work: Vec<f64> = original.chunks(columns).flat_map(|row| factor.order.iter().map(|k| row[*k])).collect();
        let mut grids = HostGrid { scale: vec![1.0; rows * groups], zero_point: vec![0.0; rows * groups] };
        // One scale for a row, and those of columns that are no neighbours, are known before the first column.
        let known = factor.options.act_order || groups == 1;
        if known {
            grids = self.grids(original.iter().map(|w| *w as f32).collect(), 0..columns, self.packing)?;
        }
        let mut codes = vec![0.0f32; rows * columns];
        let mut start = 0;
        while start < columns {
            let end = self.block_end(start, known);
            let mut errors = vec![0.0; rows * (end - start)];
            let mut at = start;
            while at < end {
                let stop = if known { end } else { ((at / group + 1) * group).min(end) };
                if !known && at.is_multiple_of(group) {
                    let columns_of_group = work.chunks(columns).flat_map(|row| row[at..at + group].iter().map(|w| *w as f32)).collect();
                    let one = self.grids(columns_of_group, at..at + group, Packing { group: None, ..self.packing })?;
                    for row in 0..rows {
                        (grids.scale[row * groups + at / group], grids.zero_point[row * groups + at / group]) = (one.scale[row], one.zero_point[row]);
                    }
                }
                self.columns_of_block((start, end), at..stop, &mut work, &grids, &mut codes, &mut errors);
                at = stop;
            }
            self.update_rest(start, end, &errors, &mut work)?;
            start = end;
        }
        self.candidate(codes, grids, groups)
    }
    /// Where the block that begins at a column ends: no group begins in one and ends in another, unless its scale is known.
    fn block_end(&self, start: usize, known: bool) -> usize {
        let (block, group) = (self.factor.options.block, self.group());
        let end = match known {
            true => start.saturating_add(block),
            false if block < group => start.saturating_add(block).min((start / group + 1) * group),
            false => start.saturating_add(block / group * group),
        };
        end.min(self.columns)
    }
    /// Codes of some columns of a block; what they lose is spread over the rest of the block, and kept for the columns behind it.
    fn columns_of_block(
        &self,
        (start, end): (usize, usize),
        some: std::ops::Range<usize>,
        work: &mut [f64],
        grids: &HostGrid,
        codes: &mut [f32],
        errors: &mut [f64],
    ) {
        let (columns, group, upper) = (self.columns, self.group(), &self.factor.elements);
        let groups = columns / group.max(1);
        for row in 0..self.rows {
            let work = &mut work[row * columns..(row + 1) * columns];
            for j in some.clone() {
                let place = self.factor.order[j];
                let (code, number) = grids.nearest(work[j], row * groups + place / group, self.packing);
                codes[row * columns + place] = code as f32;
                let error = (work[j] - number) / upper[j * columns + j];
                errors[row * (end - start) + j - start] = error;
                let (rest, factors) = (&mut work[j + 1..end], &upper[j * columns + j + 1..j * columns + end]);
                rest.iter_mut().zip(factors).for_each(|(w, u)| *w -= error * u);
            }
        }
    }
    /// What a block has lost is put right by all columns behind it.
    #[track_caller]
    fn update_rest(&self, start: usize, end: usize, errors: &[f64], work: &mut [f64]) -> Result<()> {
        let rest = self.columns - end;
        if rest == 0 {
            return Ok(());
        }
        let upper = &self.factor.upper;
        let lost = Tensor::from_vec(errors.to_vec(), [self.rows, end - start]).to(upper.device()?);
        let change = lost.matmul(upper.narrow(0, start, end - start).narrow(1, end, rest)).to_vec::<f64>()?;
        for (row, change) in work.chunks_mut(self.columns).zip(change.chunks(rest)) {
            row[end..].iter_mut().zip(change).for_each(|(w, c)| *w -= c);
        }
        Ok(())
    }
    #[track_caller]
    fn candidate(&self, codes: Vec<f32>, grids: HostGrid, groups: usize) -> Result<Candidate> {
        let by_group = |t: Vec<f64>| Tensor::from_vec(t.into_iter().map(|v| v as f32).collect::<Vec<_>>(), [self.rows, groups]);
        let zero_point = if self.packing.symmetric { None } else { Some(by_group(grids.zero_point)) };
        let grid = CodeGrid { scale: by_group(grids.scale), zero_point };
        let codes = Tensor::from_vec(codes, [self.rows, self.columns]);
        let numbers = grid.numbers(&codes.reshape([self.rows, groups, self.columns / groups])).reshape([self.rows, self.columns]).ok()?;
        Ok(Candidate { codes, numbers, scale: grid.scale, zero_point: grid.zero_point })
    }
}
