//! Random programs against the interpreter, with inputs that lie in every way that is taken here.
use super::{GivenInput, run};
use crate::{
    Isa, Threads,
    device::Runtime,
    gemm::Blas,
    map::{self, Programs, program::Program},
    operand::{In, Out},
    simd::has_vectors,
};
use adamant_runtime::{
    DType, Layout, Scalar, Shape,
    backend::Guard,
    expr::{Expr, Instr, Reg},
    kernel::{FaultWord, Kernel, KernelKind, Step},
    scalar::{Binary, Unary},
};
use smallvec::SmallVec;

struct Random(u64);
impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
/// The dtypes of the inputs.
const INPUTS: [DType; 5] = [DType::F32, DType::F32, DType::Bool, DType::F32, DType::Bool];
/// A program of numbers and truth values, and its results.
fn program(r: &mut Random) -> (Expr, Vec<Reg>) {
    let unary: Vec<Unary> = Unary::ALL.iter().copied().filter(|f| ["neg", "abs", "relu", "exp", "tanh", "square"].contains(&f.name())).collect();
    let binary = |names: &[&str]| Binary::ALL.iter().copied().filter(|f| names.contains(&f.name())).collect::<Vec<_>>();
    let (real, compare) = (binary(&["add", "sub", "mul", "div", "maximum", "minimum"]), binary(&["eq", "ne", "lt", "le", "gt", "ge"]));
    let logical = binary(&["logical_and", "logical_or", "logical_xor"]);
    assert!(unary.len() == 6 && real.len() == 6 && compare.len() == 6 && !logical.is_empty());
    let mut expr = Expr::default();
    let (mut numbers, mut truths): (Vec<Reg>, Vec<Reg>) = (Vec::new(), Vec::new());
    for (k, &dtype) in INPUTS.iter().enumerate() {
        let at = expr.push(Instr::Load(k as u16), dtype);
        if dtype == DType::Bool { truths.push(at) } else { numbers.push(at) }
    }
    numbers.push(expr.push(Instr::Arg(0), DType::F32));
    numbers.push(expr.push(Instr::Const(Scalar::Float(0.3)), DType::F32));
    for _ in 0..r.below(7) {
        let (x, y, c, d) = (r.of(&numbers), r.of(&numbers), r.of(&truths), r.of(&truths));
        match r.below(6) {
            0 => numbers.push(expr.push(Instr::Unary(r.of(&unary), x), DType::F32)),
            1 => numbers.push(expr.push(Instr::Binary(r.of(&real), x, y), DType::F32)),
            2 => numbers.push(expr.push(Instr::Select(c, x, y), DType::F32)),
            3 => numbers.push(expr.push(Instr::Cast(c), DType::F32)),
            4 => truths.push(expr.push(Instr::Binary(r.of(&compare), x, y), DType::Bool)),
            _ => truths.push(expr.push(Instr::Binary(r.of(&logical), c, d), DType::Bool)),
        }
    }
    let (x, y) = (r.of(&numbers), r.of(&numbers));
    let last = expr.push(Instr::Binary(r.of(&real), x, y), DType::F32);
    numbers.push(last);
    let single = usize::from(last) + 1 == expr.instrs.len() && r.below(3) > 0;
    let results = if single { vec![last] } else { vec![last, r.of(&numbers)] };
    (expr, results)
}
/// How an input lies.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Lie {
    Each,
    Row,
    One,
    InPlace,
}
/// The results' bits, by the interpreter or as few elements; `None`: they are not taken here.
fn results(expr: &Expr, results: &[Reg], lies: &[Lie], [rows, columns]: [usize; 2], isa: Isa, few: bool) -> Option<Vec<u32>> {
    let n = rows * columns;
    let shape = Shape::new(&[rows, columns]).unwrap();
    let numbers: Vec<Vec<f32>> =
        (0..INPUTS.len()).map(|k| (0..n).map(|i| [0.0, -0.0, f32::NAN, 1.5, -2.0, f32::INFINITY, 0.3][(i * 5 + k * 3) % 7]).collect()).collect();
    let truths: Vec<Vec<u8>> = (0..INPUTS.len()).map(|k| (0..n).map(|i| ((i * 7 + k) % 3 == 0) as u8).collect()).collect();
    let mut made: Vec<Vec<f32>> = results.iter().map(|_| numbers[0].clone()).collect();
    let inputs: Vec<In<'_>> = INPUTS
        .iter()
        .zip(lies)
        .enumerate()
        .map(|(k, (&dtype, &lie))| {
            let in_place = (lie == Lie::InPlace).then_some(0);
            let mut layout = Layout::dense(&shape);
            match lie {
                Lie::Row => layout.strides[0] = 0,
                Lie::One => layout.strides[..2].fill(0),
                Lie::Each | Lie::InPlace => {}
            }
            let all: &[u8] = if dtype == DType::Bool { &truths[k] } else { bytemuck::cast_slice(&numbers[k]) };
            let is_dense = layout.is_dense(&shape);
            In { bytes: if in_place.is_some() { &[] } else { all }, shape, layout, dtype, is_dense, in_place }
        })
        .collect();
    let args = [Scalar::Float(-1.25)];
    let program = Program { few, ..Program::with_loop(expr, results, None) };
    if few {
        let given: Vec<GivenInput<'_>> = inputs.iter().map(|i| GivenInput::new(i, n, columns)).collect::<Option<_>>()?;
        let mut outs: SmallVec<[&mut [f32]; 2]> = made.iter_mut().map(|m| &mut m[..]).collect();
        run(&program, isa, &args, &given, n, columns, &mut outs)?;
    } else {
        let kernel = Kernel::new(KernelKind::Map { expr: expr.clone(), outputs: results.to_vec() });
        let programs = Programs::default();
        let place = if has_vectors(isa) { &programs.vectors } else { &programs.plain };
        let _ = place.set(program);
        let _ = kernel.prepared.set(Box::new(programs));
        let mut outputs: Vec<Out<'_>> = made
            .iter_mut()
            .map(|m| Out { bytes: bytemuck::cast_slice_mut(m), shape, layout: Layout::dense(&shape), dtype: DType::F32, is_dense: true })
            .collect();
        let runtime = Runtime { threads: Threads::new(1), isa, blas: Blas::built_in() };
        let fault = FaultWord::none();
        let step = Step { kernel: &kernel, space: shape, inputs: &[], outputs: &[], args: &args, fault: &fault, guard: Guard::NONE };
        map::run(&runtime, &step, results, &inputs, &mut outputs).unwrap();
    }
    // The bits of a NaN say nothing.
    Some(made.concat().into_iter().map(|v| if v.is_nan() { u32::MAX } else { v.to_bits() }).collect())
}

#[test]
fn few_elements_with_other_bits_than_many() {
    let mut r = Random(7);
    let (mut taken, mut left) = (0, 0);
    for case in 0..3000 {
        let (expr, wanted) = program(&mut r);
        assert!(Program::with_loop(&expr, &wanted, None).few, "{expr:?} -> {wanted:?}");
        let size = [r.of(&[1, 2, 3, 40]), r.of(&[1, 5, 16, 17, 25])];
        let mut lies: Vec<Lie> = INPUTS.iter().map(|_| r.of(&[Lie::Each, Lie::Each, Lie::Row, Lie::One])).collect();
        if r.below(3) == 0 {
            lies[0] = Lie::InPlace;
        }
        let isa = r.of(&Isa::ALL.into_iter().filter(|i| i.is_available()).collect::<Vec<_>>());
        match results(&expr, &wanted, &lies, size, isa, true) {
            Some(fast) => {
                let plain = results(&expr, &wanted, &lies, size, Isa::Scalar, false);
                assert_eq!(Some(fast), plain, "case {case}: {expr:?} -> {wanted:?}, {lies:?}, {size:?} on {isa:?}");
                taken += 1;
            }
            // Short lines are left to the tiles.
            None => {
                assert!(lies.contains(&Lie::Row) && size[0] == 40 && size[1] == 5, "case {case}: {lies:?}, {size:?}");
                left += 1;
            }
        }
    }
    assert!(taken > 2000 && left > 50, "{taken} taken, {left} left");
}
