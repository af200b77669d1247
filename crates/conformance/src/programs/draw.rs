//! Draws programs. What a call gives is looked up by calling it here, so that later calls can be meant for shapes that there
//! are; PyTorch is not asked, and a set share of arguments is wrong on purpose.
use super::{
    ProgramArg, ProgramCall, ProgramItem, StoredArray, TorchProgram,
    replay::{Outcome, ProgramValues, run},
    table::{ArgKind, Seen, TorchFunction},
};
use crate::{
    data::{Spread, draw},
    random::Random,
};
use adamant_core::{DType, HostArray, Shape};

/// Dtypes of values: those that programs mix.
pub const DTYPES: [DType; 8] = [DType::F32, DType::I64, DType::F64, DType::F16, DType::BF16, DType::I32, DType::U8, DType::Bool];
/// One argument in so many is wrong on purpose: any value, an axis that is not there, another dtype.
const WRONG: usize = 16;
/// A result of more elements is not kept, and its call is drawn again.
const LARGEST: usize = 240;

/// What programs are drawn with.
#[derive(Clone, Copy, Debug)]
pub struct Drawing<'a> {
    /// the functions to draw from
    pub functions: &'a [TorchFunction],
    /// the fewest calls
    pub shortest: usize,
    /// the most calls
    pub longest: usize,
}
/// A value that a call may take.
struct Pooled {
    at: ProgramArg,
    shape: Vec<usize>,
    dtype: DType,
    /// could a gradient of a sum with it be compared: of floats, all of them moderate?
    smooth: bool,
}
struct Draft<'a> {
    random: Random,
    program: TorchProgram,
    values: ProgramValues,
    pool: Vec<Pooled>,
    drawing: Drawing<'a>,
    /// the dtype of the operands of this call, if they are to be of one
    together: Option<DType>,
    /// which function of a name is drawn: all names are drawn alike
    names: &'a [Vec<usize>],
}
/// The functions of each name.
pub fn by_name(functions: &[TorchFunction]) -> Vec<Vec<usize>> {
    let mut names: std::collections::BTreeMap<&str, Vec<usize>> = Default::default();
    for (k, f) in functions.iter().enumerate() {
        names.entry(&f.name).or_default().push(k);
    }
    names.into_values().collect()
}
/// Program `number` of a seed.
pub fn program(seed: u64, number: usize, drawing: Drawing<'_>, names: &[Vec<usize>]) -> TorchProgram {
    let random = Random::new(seed).part(number as u64);
    let program = TorchProgram { number, inputs: Vec::new(), calls: Vec::new(), backward: Vec::new() };
    let mut draft = Draft { random, program, values: ProgramValues::default(), pool: Vec::new(), drawing, together: None, names };
    let calls = draft.random.between(drawing.shortest, drawing.longest);
    for _ in 0..3 {
        let shape = draft.shape();
        draft.input(&shape, None, None);
    }
    let mut tries = 0;
    while draft.program.calls.len() < calls && tries < 10 * calls {
        tries += 1;
        draft.call();
    }
    if draft.random.one_in(3) {
        draft.backward();
    }
    draft.program
}
impl Draft<'_> {
    fn shape(&mut self) -> Vec<usize> {
        let axes = *self.random.pick(&[0, 1, 1, 2, 2, 2, 3, 3, 4]);
        (0..axes).map(|_| *self.random.pick(&[1, 2, 2, 3, 3, 4, 5, 0, 1])).collect()
    }
    /// A new input: mostly small numbers, now and then all that is special.
    fn input(&mut self, shape: &[usize], dtype: Option<DType>, spread: Option<Spread>) -> ProgramArg {
        let dtype = dtype.unwrap_or_else(|| *self.random.pick(&DTYPES));
        let spread = spread.unwrap_or_else(|| match self.random.below(12) {
            0 => Spread::Special,
            1..=3 => Spread::Coarse,
            4 => Spread::NonZero,
            5 | 6 => Spread::Within(0.1, 0.9),
            _ => Spread::Within(-2.0, 2.0),
        });
        let array = draw(Shape::new(shape).unwrap_or(Shape::SCALAR), dtype, spread, &mut self.random);
        self.adopt(array)
    }
    fn adopt(&mut self, array: HostArray) -> ProgramArg {
        let at = ProgramArg::Input(self.program.inputs.len());
        self.program.inputs.push(StoredArray::of(&array));
        self.pooled(at.clone(), &array);
        self.values.inputs.push(array);
        at
    }
    fn pooled(&mut self, at: ProgramArg, array: &HostArray) {
        let smooth = array.dtype.is_float() && !array.is_empty() && (0..array.len()).all(|k| array.float(k).abs() < 1e3);
        self.pool.push(Pooled { at, shape: array.shape.to_vec(), dtype: array.dtype, smooth });
    }
    fn call(&mut self) {
        let name = &self.names[self.random.below(self.names.len())];
        let function = &self.drawing.functions[*self.random.pick(name)];
        // What a call that is drawn again has brought along goes with it.
        let (inputs, pool) = (self.program.inputs.len(), self.pool.len());
        // Half of the calls mix dtypes.
        self.together = None;
        let together = self.random.one_in(2);
        let mut args = Vec::new();
        let mut shapes = Vec::new();
        for kind in &function.kinds {
            let arg = self.argument(kind, &shapes, &args);
            shapes.push(self.shape_of(&arg));
            if together && self.together.is_none() {
                self.together = self.pool.iter().find(|p| p.at == arg).map(|p| p.dtype);
            }
            args.push(arg);
        }
        let outcome = self.values.resolve(&args).map(|args| run(function, &args));
        let large = matches!(&outcome, Some(Outcome::Given(arrays)) if arrays.iter().any(|a| a.len() > LARGEST));
        if large || outcome.is_none() {
            self.program.inputs.truncate(inputs);
            self.values.inputs.truncate(inputs);
            self.pool.truncate(pool);
            return;
        }
        let k = self.program.calls.len();
        self.program.calls.push(ProgramCall { name: function.name.clone(), torch: function.torch.clone(), args });
        let arrays = if let Some(Outcome::Given(arrays)) = outcome { arrays } else { Vec::new() };
        for (n, array) in arrays.iter().enumerate() {
            self.pooled(ProgramArg::Result(k, n), array);
        }
        self.values.results.push(arrays.into_iter().map(Some).collect());
    }
    fn shape_of(&self, arg: &ProgramArg) -> Vec<usize> {
        match arg {
            ProgramArg::List(all) => all.first().map(|a| self.shape_of(a)).unwrap_or_default(),
            _ => self.pool.iter().find(|p| p.at == *arg).map(|p| p.shape.clone()).unwrap_or_default(),
        }
    }
    /// A value of the pool, mostly a late one.
    fn any(&mut self, fits: impl Fn(&Pooled) -> bool) -> Option<ProgramArg> {
        let fitting: Vec<&Pooled> = self.pool.iter().filter(|p| fits(p)).collect();
        let last = fitting.len().checked_sub(1)?;
        let back = self.random.below(fitting.len()).min(self.random.below(fitting.len()));
        Some(fitting[last - back].at.clone())
    }
    /// A value of this shape: of the pool where it has one, else drawn.
    fn of_shape(&mut self, shape: &[usize]) -> ProgramArg {
        if self.random.one_in(WRONG) {
            return self.value();
        }
        let together = self.together;
        let known = if self.random.one_in(2) { self.any(|p| p.shape == shape && together.is_none_or(|d| d == p.dtype)) } else { None };
        known.unwrap_or_else(|| self.input(shape, together, None))
    }
    fn value(&mut self) -> ProgramArg {
        if self.random.one_in(4) {
            let shape = self.shape();
            let dtype = self.together.filter(|_| !self.random.one_in(WRONG));
            return self.input(&shape, dtype, None);
        }
        self.any(|_| true).unwrap_or(ProgramArg::Input(0))
    }
    fn fitting(&mut self, shape: &[usize]) -> Vec<usize> {
        let from = if self.random.one_in(3) { self.random.between(0, shape.len()) } else { 0 };
        shape[from..].iter().map(|&n| if self.random.one_in(4) || (n == 1 && self.random.one_in(3)) { if n == 1 { 3 } else { 1 } } else { n }).collect()
    }
    fn number(&mut self) -> ProgramArg {
        match self.random.below(8) {
            0 => ProgramArg::Flag(self.random.one_in(2)),
            1..=4 => ProgramArg::Int(*self.random.pick(&[-3, -1, 0, 1, 2, 3, 7, 300])),
            _ => ProgramArg::Real(*self.random.pick(&[-1.5, -0.5, 0.0, 0.5, 0.75, 2.0, 3.5])),
        }
    }
    fn axis(&mut self, rank: usize) -> i64 {
        let reach = if self.random.one_in(WRONG) { rank + 1 } else { rank.max(1) } as i64;
        self.random.below(2 * reach as usize) as i64 - reach
    }
    fn argument(&mut self, kind: &ArgKind, shapes: &[Vec<usize>], args: &[ProgramArg]) -> ProgramArg {
        let seen = Seen { shapes, args };
        let first = seen.shape(0).to_vec();
        match kind {
            ArgKind::Any => self.value(),
            ArgKind::Float => {
                if self.random.one_in(WRONG) {
                    self.value()
                } else {
                    self.any(|p| p.dtype.is_float()).unwrap_or_else(|| self.input(&[2, 3], Some(DType::F32), None))
                }
            }
            ArgKind::Fits => {
                let shape = self.fitting(&first);
                self.of_shape(&shape)
            }
            ArgKind::Operand if self.random.one_in(3) => self.number(),
            ArgKind::Operand => {
                let shape = self.fitting(&first);
                self.of_shape(&shape)
            }
            ArgKind::Mask => {
                let shape = self.fitting(&first);
                if self.random.one_in(WRONG) { self.value() } else { self.input(&shape, Some(DType::Bool), Some(Spread::Coarse)) }
            }
            ArgKind::Shaped(shape) => {
                let shape = shape(&seen, &mut self.random);
                self.of_shape(&shape)
            }
            ArgKind::Indices(shape) => {
                let (shape, bound) = shape(&seen, &mut self.random);
                self.indices(&shape, bound)
            }
            ArgKind::Sample(sample) => self.sample(sample),
            ArgKind::List => self.list(),
            ArgKind::Number => self.number(),
            ArgKind::Axis => ProgramArg::Int(self.axis(first.len())),
            ArgKind::NewAxis => ProgramArg::Int(self.axis(first.len() + 1)),
            ArgKind::Axes if self.random.one_in(4) => ProgramArg::All,
            ArgKind::Axes | ArgKind::AxisList => self.axes(first.len()),
            ArgKind::Flag => ProgramArg::Flag(self.random.one_in(2)),
            ArgKind::Int(low, high) => ProgramArg::Int(low + self.random.below((high - low + 1) as usize) as i64),
            ArgKind::IntOf(f) => ProgramArg::Int(f(&seen, &mut self.random) + self.random.one_in(WRONG) as i64),
            ArgKind::Real(of) => ProgramArg::Real(*self.random.pick(of)),
            ArgKind::Ints(f) => {
                let mut all = f(&seen, &mut self.random);
                if self.random.one_in(WRONG)
                    && let Some(one) = all.first_mut()
                {
                    *one += 1;
                }
                ProgramArg::Ints(all)
            }
            ArgKind::Dtype => ProgramArg::Dtype(self.random.pick(&DTYPES).name().into()),
            ArgKind::Word(of) => ProgramArg::Word((*self.random.pick(of)).into()),
            ArgKind::Index => self.index(&first),
            ArgKind::Written => self.written(&first, args),
        }
    }
    fn axes(&mut self, rank: usize) -> ProgramArg {
        if rank == 0 {
            return ProgramArg::Ints(vec![self.axis(0)]);
        }
        let rank_of = rank as i64;
        let random = &mut self.random;
        let mut axes: Vec<i64> = (0..rank_of).filter(|_| random.one_in(2)).collect();
        axes.iter_mut().filter(|_| random.one_in(3)).for_each(|a| *a -= rank_of);
        if axes.is_empty() || self.random.one_in(WRONG) {
            axes.push(self.axis(rank));
        }
        ProgramArg::Ints(axes)
    }
    fn indices(&mut self, shape: &[usize], bound: usize) -> ProgramArg {
        let spread = if self.random.one_in(WRONG) { Spread::Wild(bound) } else { Spread::Below(bound) };
        let dtype = if self.random.one_in(WRONG) { *self.random.pick(&DTYPES) } else { DType::I64 };
        // Below nothing is no number.
        let shape: Vec<usize> = if bound == 0 { vec![0; shape.len().max(1)] } else { shape.to_vec() };
        self.input(&shape, Some(dtype), Some(spread))
    }
    /// What the registry's entry draws, of a dtype that is mixed in; or a value of its shape.
    fn sample(&mut self, sample: &crate::registry::SampleInput) -> ProgramArg {
        if self.random.one_in(4) {
            return self.of_shape(&sample.shape);
        }
        let dtype = match (self.random.below(4), &sample.elements) {
            _ if sample.dtype.is_none() && self.together.is_some() => self.together.unwrap_or(DType::F32),
            (_, crate::registry::Elements::Definite) => *self.random.pick(&[DType::F32, DType::F64]),
            (0, _) => *self.random.pick(&DTYPES),
            (1, _) => DType::F64,
            _ => DType::F32,
        };
        let array = sample.draw(dtype, &mut self.random);
        self.adopt(array)
    }
    fn list(&mut self) -> ProgramArg {
        let first = self.value();
        let shape = self.shape_of(&first);
        let count = self.random.below(3);
        let rest: Vec<ProgramArg> = (0..count)
            .map(|_| {
                let mut shape = shape.clone();
                if let Some(n) = shape.first_mut()
                    && self.random.one_in(3)
                {
                    *n = self.random.below(4);
                }
                self.of_shape(&shape)
            })
            .collect();
        ProgramArg::List(std::iter::once(first).chain(rest).collect())
    }
    fn bound(&mut self, size: usize) -> Option<i64> {
        let size = size as i64;
        (!self.random.one_in(3)).then(|| self.random.below(2 * size as usize + 5) as i64 - size - 2)
    }
    fn index(&mut self, shape: &[usize]) -> ProgramArg {
        let mut items = Vec::new();
        let backwards = self.random.one_in(5);
        let mut axis = 0;
        while axis < shape.len() && !self.random.one_in(6) {
            let size = shape[axis];
            match self.random.below(if backwards { 7 } else { 10 }) {
                0 | 1 if size > 0 => {
                    let reach = size as i64 + self.random.one_in(WRONG) as i64;
                    items.push(ProgramItem::At(self.random.below(2 * reach as usize) as i64 - reach));
                }
                2 if !items.contains(&ProgramItem::Ellipsis) && self.random.one_in(2) => {
                    items.push(ProgramItem::Ellipsis);
                    axis += self.random.below(shape.len() - axis + 1);
                    continue;
                }
                3 => {
                    items.push(ProgramItem::NewAxis);
                    continue;
                }
                7 if !self.random.one_in(3) => {
                    let value = self.indices(&[3], size);
                    items.push(ProgramItem::Value(value));
                }
                8 => {
                    let axes = self.random.between(1, (shape.len() - axis).min(2));
                    let value = self.input(&shape[axis..axis + axes], Some(DType::Bool), Some(Spread::Coarse));
                    items.push(ProgramItem::Value(value));
                    axis += axes - 1;
                }
                _ => {
                    let step = if backwards && self.random.one_in(2) { -(self.random.between(1, 3) as i64) } else { *self.random.pick(&[1, 1, 1, 2, 3]) };
                    items.push(ProgramItem::Slice(self.bound(size), self.bound(size), step));
                }
            }
            axis += 1;
        }
        if items.is_empty() {
            items.push(ProgramItem::Slice(None, None, 1));
        }
        if self.random.one_in(2 * WRONG) {
            items.push(ProgramItem::At(0));
        }
        ProgramArg::Index(items)
    }
    /// A number, or a value of the shape that the index reads.
    fn written(&mut self, _: &[usize], args: &[ProgramArg]) -> ProgramArg {
        let Some(ProgramArg::Index(items)) = args.get(1) else { return self.number() };
        // Where a tensor may name a place twice, which write is the last is nobody's promise.
        if self.random.one_in(2) || items.iter().any(|i| matches!(i, ProgramItem::Value(_))) {
            return self.number();
        }
        let read = self.values.resolve(&args[..2]).and_then(|values| super::replay::read_shape(&values));
        match read {
            Some(shape) => {
                let shape = self.fitting(&shape);
                self.of_shape(&shape)
            }
            None => self.value(),
        }
    }
    fn backward(&mut self) {
        let results: Vec<(usize, usize)> =
            self.pool.iter().filter(|p| p.smooth).filter_map(|p| if let ProgramArg::Result(k, n) = p.at { Some((k, n)) } else { None }).collect();
        self.program.backward = results.into_iter().rev().take(4).collect();
    }
}
