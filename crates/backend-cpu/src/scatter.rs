//! Scatter: elements of a source combined into places of the output that an index tensor names, in index order.
use crate::{
    device::Runtime,
    element::{Number, Wide, indices, with_number},
    lines::AxisLines,
    operand::{In, Out, internal, whole_mut},
};
use adamant_runtime::{
    DType, ErrorKind,
    kernel::{Fault, FaultWord},
    op::ScatterMode,
};

/// Runs a Scatter step on an output that holds the destination. Bad indices write nothing and are a fault.
///
/// # Errors
/// Operands that do not fit.
pub(crate) fn run(runtime: &Runtime, axis: usize, mode: ScatterMode, inputs: &[In<'_>], outputs: &mut [Out<'_>], fault: &FaultWord) -> Result<(), ErrorKind> {
    let ([index, source], [out]) = (inputs, outputs) else { return Err(internal("a scatter has two inputs and one output")) };
    if index.shape != source.shape || axis >= out.shape.rank() || out.shape.rank() != index.shape.rank() || source.dtype != out.dtype {
        return Err(internal("a scatter of other shapes"));
    }
    if index.shape.elements() == 0 {
        return Ok(());
    }
    let job = Job {
        lines: AxisLines::new(&index.shape, axis, &[&out.layout.strides, &index.layout.strides, &source.layout.strides]),
        bound: out.shape[axis],
        index,
        source,
        base: out.layout.offset as isize,
    };
    let _ = runtime;
    let dtype = out.dtype;
    if mode == ScatterMode::Set {
        return crate::element::with_bits!(dtype, T => job.walk::<T, T>(source.elements()?, whole_mut(out.bytes)?, fault, |_, v| v, |v| v));
    }
    // 16-bit floats are combined in f32 and rounded once.
    match dtype {
        DType::BF16 => job.widened::<half::bf16>(out, mode, fault),
        DType::F16 => job.widened::<half::f16>(out, mode, fault),
        DType::F32 if mode == ScatterMode::Add => job.walk(source.elements()?, whole_mut(out.bytes)?, fault, |a: f32, b| a + b, |v: f32| v),
        DType::F32 => job.walk(source.elements()?, whole_mut(out.bytes)?, fault, float_combine(mode), |v: f32| v),
        _ => with_number!(dtype, T => {
            let f = wide_combine::<<T as Number>::Wide>(mode);
            job.walk::<T, T>(source.elements()?, whole_mut(out.bytes)?, fault, |a, b| T::narrow(f(a.wide(), b.wide())), |v| v)
        }),
    }
}
fn float_combine(mode: ScatterMode) -> fn(f32, f32) -> f32 {
    wide_combine::<f32>(mode)
}
fn wide_combine<W: Wide>(mode: ScatterMode) -> fn(W, W) -> W {
    match mode {
        ScatterMode::Set => |_, b| b,
        ScatterMode::Add => W::plus,
        ScatterMode::Mul => W::times,
        ScatterMode::Max => W::larger,
        ScatterMode::Min => W::smaller,
    }
}
struct Job<'a> {
    lines: AxisLines,
    bound: usize,
    index: &'a In<'a>,
    source: &'a In<'a>,
    base: isize,
}
impl Job<'_> {
    fn widened<T: Number<Wide = f64>>(&self, out: &mut Out<'_>, mode: ScatterMode, fault: &FaultWord) -> Result<(), ErrorKind> {
        let source: &[T] = self.source.elements()?;
        let target: &mut [T] = whole_mut(out.bytes)?;
        let mut sums = crate::scratch::collected(target.len(), target.iter().map(|v| v.wide() as f32))?;
        self.walk(source, &mut sums, fault, float_combine(mode), |v: T| v.wide() as f32)?;
        target.iter_mut().zip(&sums).for_each(|(t, &s)| *t = T::narrow(s as f64));
        Ok(())
    }
    fn walk<S: Copy, T: Copy>(&self, source: &[S], out: &mut [T], fault: &FaultWord, f: impl Fn(T, T) -> T, wide: impl Fn(S) -> T) -> Result<(), ErrorKind> {
        let lines = &self.lines;
        let read = indices(self.index.bytes, self.index.dtype);
        let places = [lines.inner_offsets(0)?, lines.inner_offsets(1)?, lines.inner_offsets(2)?];
        let inner = lines.inner.len();
        let (i0, s0) = (self.index.layout.offset as isize, self.source.layout.offset as isize);
        // An index that is given once for elements side by side (a row of a table) is read once for them.
        let by_rows =
            inner > 1 && places[1].iter().all(|&p| p == 0) && [&places[0], &places[2]].iter().all(|p| p.iter().enumerate().all(|(j, &p)| p == j as isize));
        for o in 0..lines.outer.len() {
            let [to, at, from] = [0, 1, 2].map(|k| lines.outer.offset(k, o));
            for k in 0..lines.n {
                let at = i0 + at + k as isize * lines.steps[1];
                let from = s0 + from + k as isize * lines.steps[2];
                if by_rows && let Some(i) = usize::try_from(read(at as usize)).ok().filter(|&i| i < self.bound) {
                    let place = (self.base + to + i as isize * lines.steps[0]) as usize;
                    let pairs = out[place..place + inner].iter_mut().zip(&source[from as usize..from as usize + inner]);
                    pairs.for_each(|(place, &s)| *place = f(*place, wide(s)));
                    continue;
                }
                for j in 0..inner {
                    let i = read((at + places[1][j]) as usize);
                    let Some(i) = usize::try_from(i).ok().filter(|&i| i < self.bound) else {
                        fault.set(Fault::Index { index: i, bound: self.bound, position: (o * lines.n + k) * inner + j });
                        continue;
                    };
                    let place = &mut out[(self.base + to + i as isize * lines.steps[0] + places[0][j]) as usize];
                    *place = f(*place, wide(source[(from + places[2][j]) as usize]));
                }
            }
        }
        Ok(())
    }
}
