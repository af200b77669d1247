//! The ends of a product on this backend: an operand's program makes the operand before the sums, the epilogue's program runs
//! on finished parts of the result while they are in cache. Both are the programs of Map, run by the same interpreter, so the
//! bits are those of the ops apart. Must not know how sums are made.
use crate::{
    device::Runtime,
    gemm::Epilogue,
    isa::Isa,
    map::{self, program::Program, tile::TileRun, tiles::OutTile},
    operand::{In, internal},
    scratch::{ScratchVec, filled},
    simd::has_vectors,
};
use adamant_runtime::{
    DType, ErrorKind, Layout, MAX_RANK, Scalar, Shape,
    expr::{Instr, Reg},
    kernel::{FaultWord, Kernel, Step},
    product::{End, Product},
    scalar::Binary,
};
use smallvec::SmallVec;
use std::sync::OnceLock;

/// The programs of a kernel, resolved once; none where nothing is computed.
pub(crate) struct EndPrograms {
    pub prologue: [Option<Program>; 2],
    /// of a prologue that ends by converting what it has computed: that value, and its program
    unconverted: [Option<(Reg, Program)>; 2],
    pub epilogue: Option<Program>,
}
/// By whether the set has vectors: loops compiled ahead of time are there for those alone.
#[derive(Default)]
struct Prepared {
    vectors: OnceLock<EndPrograms>,
    plain: OnceLock<EndPrograms>,
}
/// The programs of a product's kernel.
///
/// # Errors
/// A kernel prepared by another backend.
pub(crate) fn programs<'k>(kernel: &'k Kernel, product: &Product, isa: Isa) -> Result<&'k EndPrograms, ErrorKind> {
    let prepared = kernel.prepared.get_or_init(|| Box::new(Prepared::default()));
    let prepared: &Prepared = prepared.downcast_ref().ok_or_else(|| internal("a kernel prepared by another backend"))?;
    let place = if has_vectors(isa) { &prepared.vectors } else { &prepared.plain };
    let resolved = |end: &End| (!end.is_identity()).then(|| Program::new(&end.expr, &[end.value], isa));
    let unconverted = |end: &End| match end.expr.instrs.get(end.value as usize) {
        Some(&Instr::Cast(value)) if end.converts().is_none() => Some((value, Program::new(&end.expr, &[value], isa))),
        _ => None,
    };
    let prologue = &product.prologue;
    let made = || EndPrograms {
        prologue: prologue.each_ref().map(resolved),
        unconverted: prologue.each_ref().map(unconverted),
        epilogue: resolved(&product.epilogue),
    };
    Ok(place.get_or_init(made))
}

/// The arguments of one of a product's three programs.
pub(crate) fn arguments<'s>(step: &Step<'s>, product: &Product, end: usize) -> &'s [Scalar] {
    let from = product.arguments_before(end).min(step.args.len());
    &step.args[from..]
}

/// An operand that was made by its program, densely but for axes along which it repeats.
pub(crate) struct MadeOperand {
    elements: ScratchVec<i64>,
    shape: Shape,
    layout: Layout,
    dtype: DType,
}
impl MadeOperand {
    /// The operand, in the order in which its first input lies.
    ///
    /// # Errors
    /// Inputs that do not fit the program; memory.
    pub fn new(
        runtime: &Runtime,
        program: &Program,
        (value, dtype): (Reg, DType),
        inputs: &[In<'_>],
        args: &[Scalar],
        fault: &FaultWord,
    ) -> Result<MadeOperand, ErrorKind> {
        let first = inputs.first().ok_or_else(|| internal("a prologue without inputs"))?;
        let shape = first.shape;
        // An axis along which nothing steps is made once.
        let mut once = shape;
        for axis in 0..shape.rank() {
            if shape[axis] > 1 && inputs.iter().all(|i| i.layout.strides[axis] == 0) {
                once = once.with(axis, 1);
            }
        }
        let mut axes: SmallVec<[usize; MAX_RANK]> = (0..shape.rank()).collect();
        axes.sort_by_key(|&a| std::cmp::Reverse((first.layout.strides[a].unsigned_abs(), shape.rank() - a)));
        let mut layout = Layout { offset: 0, strides: [0; MAX_RANK] };
        let mut step = 1;
        for &a in axes.iter().rev() {
            if once[a] == shape[a] {
                layout.strides[a] = step;
            }
            step *= once[a] as isize;
        }
        let n = once.elements();
        let mut elements = filled(0i64, (n * dtype.size()).div_ceil(size_of::<i64>()))?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut elements);
        let outs: SmallVec<[(&mut [u8], DType); 8]> = std::iter::once((&mut bytes[..n * dtype.size()], dtype)).collect();
        let nest = map::nest(program, &once, axes.into_iter(), inputs);
        map::execute(runtime, program, nest, n, &[value], inputs, outs, args, fault)?;
        Ok(MadeOperand { elements, shape, layout, dtype })
    }
    /// As what a kernel reads.
    pub fn operand(&self) -> In<'_> {
        let is_dense = self.layout.is_dense(&self.shape);
        In { bytes: bytemuck::cast_slice(&self.elements), shape: self.shape, layout: self.layout, dtype: self.dtype, is_dense, in_place: None }
    }
}

/// The operands of a product, made where they have programs, and what its epilogue reads beside it.
pub(crate) struct Operands<'i, 'a> {
    made: [Option<MadeOperand>; 2],
    plain: [In<'a>; 2],
    pub others: &'i [In<'a>],
}
/// Makes the operands, without the last conversion where the kernel itself widens what is converted, and not those that are nothing
/// but converted so.
///
/// # Errors
/// Inputs that do not fit the programs; memory.
pub(crate) fn operands<'i, 'a>(
    runtime: &Runtime,
    step: &Step<'_>,
    product: &Product,
    programs: &EndPrograms,
    inputs: &'i [In<'a>],
    widens: impl Fn(DType) -> bool,
) -> Result<Operands<'i, 'a>, ErrorKind> {
    let (first, second) = (product.loads(0), product.loads(1));
    if first == 0 || second == 0 || inputs.len() < first + second {
        return Err(internal("a product with too few operands"));
    }
    let (of_first, rest) = inputs.split_at(first);
    let (of_second, others) = rest.split_at(second);
    let make = |k: usize, inputs: &[In<'_>]| {
        let end = &product.prologue[k];
        let made = |program, value| MadeOperand::new(runtime, program, value, inputs, arguments(step, product, k), step.fault);
        let unconverted = programs.unconverted[k].as_ref().and_then(|(value, program)| {
            let dtype = *end.expr.dtypes.get(*value as usize)?;
            widens(dtype).then(|| made(program, (*value, dtype)))
        });
        let whole = || programs.prologue[k].as_ref().filter(|_| !end.converts().is_some_and(&widens)).map(|program| made(program, (end.value, end.dtype())));
        unconverted.or_else(whole).transpose()
    };
    Ok(Operands { made: [make(0, of_first)?, make(1, of_second)?], plain: [of_first[0], of_second[0]], others })
}
impl<'a> Operands<'_, 'a> {
    /// The first operand.
    pub fn first(&self) -> In<'_> {
        self.made[0].as_ref().map_or(self.plain[0], MadeOperand::operand)
    }
    /// Is one of them not of the product's dtype?
    pub fn are_narrow(&self, dtype: DType) -> bool {
        self.first().dtype != dtype || self.second().dtype != dtype
    }
    /// The second operand.
    pub fn second(&self) -> In<'_> {
        self.made[1].as_ref().map_or(self.plain[1], MadeOperand::operand)
    }
}

/// An epilogue, bound to what it reads. Its `Load(0)` is the product's element: where it is stored, or beside.
pub(crate) struct Finish<'a> {
    run: TileRun<'a>,
    value: Reg,
    result: DType,
    product: DType,
}
/// What an epilogue reads: the product's place first.
pub(crate) fn reads<'a>(space: &Shape, product: DType, others: &[In<'a>], apart: bool) -> SmallVec<[In<'a>; 8]> {
    let place = In { bytes: &[], shape: *space, layout: Layout::dense(space), dtype: product, is_dense: true, in_place: Some(apart as usize) };
    std::iter::once(place).chain(others.iter().copied()).collect()
}
impl<'a> Finish<'a> {
    /// `reads` is what [`reads`] has made.
    ///
    /// # Errors
    /// Inputs that do not fit the program.
    pub fn new(
        isa: Isa,
        program: &'a Program,
        end: &End,
        space: &Shape,
        reads: &'a [In<'a>],
        args: &'a [Scalar],
        fault: &'a FaultWord,
    ) -> Result<Finish<'a>, ErrorKind> {
        let (value, result) = (end.value, end.dtype());
        let place = reads.first().ok_or_else(|| internal("an epilogue without a product"))?;
        let (product, apart) = (place.dtype, place.in_place == Some(1));
        let nest = map::nest(program, space, 0..space.rank(), reads);
        let mut run = TileRun::new(program, isa, nest, reads, args, fault)?;
        run.compute_into(value, 0);
        run.find_shared(&[value]);
        run.find_lines()?;
        if apart {
            run.share(0, 1);
        }
        run.compile(&[value], &[result], space.elements());
        Ok(Finish { run, value, result, product })
    }
    /// On elements from `at` on, counted in the order of the result, that lie where their results go.
    ///
    /// # Errors
    /// Inputs that do not fit the program.
    pub fn in_place(&self, at: usize, values: &mut [u8]) -> Result<(), ErrorKind> {
        let n = values.len() / self.result.size();
        map::part(&self.run, &[self.value], at, n, &mut [OutTile { bytes: values, dtype: self.result, start: at }])
    }
    /// On elements that lie elsewhere.
    ///
    /// # Errors
    /// Inputs that do not fit the program.
    pub fn apart(&self, at: usize, product: &mut [u8], results: &mut [u8]) -> Result<(), ErrorKind> {
        let n = results.len() / self.result.size();
        let mut outs = [OutTile { bytes: results, dtype: self.result, start: at }, OutTile { bytes: product, dtype: self.product, start: at }];
        map::part(&self.run, &[self.value], at, n, &mut outs)
    }
    /// On a whole product of `n` elements, which `make` writes elsewhere, by all threads.
    ///
    /// # Errors
    /// Inputs that do not fit the program; memory; what `make` returns.
    pub fn behind(&self, runtime: &Runtime, n: usize, results: &mut [u8], make: impl FnOnce(&mut [u8]) -> Result<(), ErrorKind>) -> Result<(), ErrorKind> {
        let bytes = n * self.product.size();
        let mut words = filled(0i64, bytes.div_ceil(size_of::<i64>()))?;
        let product = &mut bytemuck::cast_slice_mut(&mut words)[..bytes];
        make(product)?;
        let (from, to) = (self.product.size(), self.result.size());
        let n = results.len() / to;
        let part = n.div_ceil(runtime.threads.count() * map::PARTS).max(map::TASK);
        let parts = product.chunks_mut(part * from).zip(results.chunks_mut(part * to)).enumerate();
        runtime.threads.try_for_parts(parts, |_, (index, (product, results))| self.apart(index * part, product, results))
    }
}
/// An epilogue of the matrices of a batch that begins at element `first` of the result.
pub(crate) struct InPlace<'f, 'a> {
    pub finish: &'f Finish<'a>,
    pub first: usize,
    pub rows: usize,
    pub columns: usize,
}
impl<T: bytemuck::NoUninit + bytemuck::AnyBitPattern> Epilogue<T> for InPlace<'_, '_> {
    fn apply(&self, batch: usize, row: usize, column: usize, values: &mut [T]) -> Result<(), ErrorKind> {
        self.finish.in_place(self.first + (batch * self.rows + row) * self.columns + column, bytemuck::cast_slice_mut(values))
    }
}

/// One addend for each column of a product, which is what the bias of a layer is: a loop of its own, for binding a program would
/// cost small products more than their elements do. Adding rounds once, as the program does.
pub(crate) struct ColumnBias<'a, T>(pub &'a [T]);
impl<T: Copy + std::ops::AddAssign + Sync> Epilogue<T> for ColumnBias<'_, T> {
    fn apply(&self, _: usize, _: usize, column: usize, values: &mut [T]) -> Result<(), ErrorKind> {
        let bias = &self.0[column..];
        for row in values.chunks_mut(bias.len()) {
            row.iter_mut().zip(bias).for_each(|(value, &bias)| *value += bias);
        }
        Ok(())
    }
}
/// Does an epilogue add one number a column, and nothing else?
pub(crate) fn is_column_bias(end: &End, others: &[In<'_>], columns: usize) -> bool {
    let (Some(&Instr::Binary(Binary::Add, x, y)), [bias]) = (end.expr.instrs.get(end.value as usize), others) else { return false };
    let loads = |r: Reg, k: u16| end.expr.instrs.get(r as usize) == Some(&Instr::Load(k));
    let adds = loads(x, 0) && loads(y, 1) || loads(x, 1) && loads(y, 0);
    let rank = bias.shape.rank();
    let steps = bias.shape.iter().zip(&bias.layout.strides).enumerate().all(|(a, (&d, &s))| d == 1 || s == (a + 1 == rank) as isize);
    adds && bias.dtype == end.dtype() && bias.in_place.is_none() && rank > 0 && bias.shape[rank - 1] == columns && steps
}
