//! Every loop of the table against the interpreter.
use super::{Loop, find, signature, table::LOOPS};
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

/// The program that a signature was made of, with numbers of its own.
fn program(text: &str) -> (Expr, Vec<Reg>) {
    let (words, results) = text.split_once("->").unwrap();
    let mut expr = Expr::default();
    for (place, word) in words.split_whitespace().enumerate() {
        let (instr, dtype) = match word.split_once('(') {
            None if word == "c" => (Instr::Const(Scalar::Float(0.125 + place as f64 * 0.37)), DType::F32),
            None => (Instr::Load(word[1..].parse().unwrap()), DType::F32),
            Some((name, operands)) => {
                let x: Vec<Reg> = operands.trim_end_matches(')').split(',').map(|o| o.parse().unwrap()).collect();
                let binary = || Binary::ALL.iter().copied().find(|f| f.name() == name).unwrap();
                match (name, x.len()) {
                    ("select", _) => (Instr::Select(x[0], x[1], x[2]), DType::F32),
                    (_, 1) => (Instr::Unary(Unary::ALL.iter().copied().find(|f| f.name() == name).unwrap(), x[0]), DType::F32),
                    _ => (Instr::Binary(binary(), x[0], x[1]), if super::COMPARE.contains(&name) { DType::Bool } else { DType::F32 }),
                }
            }
        };
        // As it was written: an instruction that is there already is not left out.
        expr.instrs.push(instr);
        expr.dtypes.push(dtype);
    }
    (expr, results.split_whitespace().map(|r| r.parse().unwrap()).collect())
}
/// Values around every corner of the functions.
fn values(k: usize, n: usize) -> Vec<f32> {
    let corners = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE / 4.0, -1e-40, 3e38, -87.5, 88.8, 0.5, -104.0];
    (0..n).map(|i| if (i * 7 + k) % 11 == 0 { corners[(i / 11 + k * 5) % corners.len()] } else { ((i * 37 + k * 101) % 997) as f32 * 0.01 - 4.0 }).collect()
}
/// How the inputs lie.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    Apart,
    /// each input that an output has for its number is its memory
    InPlace,
    /// the last input is one number for all
    Repeated,
    /// every other element
    Strided,
}
fn run(expr: &Expr, results: &[Reg], ahead: Option<Loop>, isa: Isa, lie: Lie, n: usize) -> Vec<Vec<u32>> {
    let kernel = Kernel::new(KernelKind::Map { expr: expr.clone(), outputs: results.to_vec() });
    let programs = Programs::default();
    let place = if has_vectors(isa) { &programs.vectors } else { &programs.plain };
    // The interpreter itself.
    let _ = place.set(Program { few: false, ..Program::with_loop(expr, results, ahead) });
    let _ = kernel.prepared.set(Box::new(programs));
    let shape = Shape::new(&[n]).unwrap();
    let step = step_of(lie);
    let count = expr.inputs();
    let data: Vec<Vec<f32>> = (0..count).map(|k| values(k, 2 * n)).collect();
    let mut made: Vec<Vec<f32>> =
        results.iter().enumerate().map(|(o, _)| if lie == Lie::InPlace && o < count { data[o][..n].to_vec() } else { vec![7.0; n] }).collect();
    let inputs: Vec<In<'_>> = (0..count)
        .map(|k| {
            let in_place = (lie == Lie::InPlace && k < results.len()).then_some(k);
            let stride = if lie == Lie::Repeated && k + 1 == count { 0 } else { step };
            let mut layout = Layout::dense(&shape);
            layout.strides[0] = stride;
            let bytes = if in_place.is_some() { &[][..] } else { bytemuck::cast_slice(&data[k]) };
            In { bytes, shape, layout, dtype: DType::F32, is_dense: stride == 1, in_place }
        })
        .collect();
    let mut outputs: Vec<Out<'_>> =
        made.iter_mut().map(|m| Out { bytes: bytemuck::cast_slice_mut(m), shape, layout: Layout::dense(&shape), dtype: DType::F32, is_dense: true }).collect();
    let runtime = Runtime { threads: Threads::new(1), isa, blas: Blas::built_in() };
    let fault = FaultWord::none();
    let step = Step { kernel: &kernel, space: shape, inputs: &[], outputs: &[], args: &[], fault: &fault, guard: Guard::NONE };
    map::run(&runtime, &step, results, &inputs, &mut outputs).unwrap();
    // The bits of a NaN say nothing.
    made.iter().map(|m| m.iter().map(|v| if v.is_nan() { u32::MAX } else { v.to_bits() }).collect()).collect()
}
fn step_of(lie: Lie) -> isize {
    if lie == Lie::Strided { 2 } else { 1 }
}

#[test]
fn a_loop_with_other_bits_than_the_interpreter() {
    assert!(LOOPS.len() >= 60, "only {} loops", LOOPS.len());
    for (text, ahead) in LOOPS {
        let (expr, results) = program(text);
        assert_eq!(signature(&expr, &results).as_deref(), Some(*text));
        for isa in Isa::ALL.into_iter().filter(|i| i.is_available() && has_vectors(*i)) {
            for lie in [Lie::Apart, Lie::InPlace, Lie::Repeated, Lie::Strided] {
                for n in [1, 17, 2053] {
                    let (fast, plain) = (run(&expr, &results, Some(*ahead), isa, lie, n), run(&expr, &results, None, Isa::Scalar, lie, n));
                    assert_eq!(fast, plain, "{text} on {isa:?}, {lie:?}, {n} elements");
                }
            }
        }
    }
}
#[test]
fn a_program_that_no_loop_can_be_made_for() {
    let (mut expr, results) = program("x0 x1 mul(0,1) add(2,0) -> 3");
    assert!(signature(&expr, &results).is_some());
    assert!(signature(&expr, &[0]).is_none(), "a result that is only loaded");
    expr.dtypes[1] = DType::F64;
    assert!(signature(&expr, &results).is_none() && find(&expr, &results, Isa::current()).is_none());
    let (expr, results) = program("x0 -> 0");
    assert!(signature(&expr, &results).is_none(), "a copy");
}
