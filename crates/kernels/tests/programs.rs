//! Whole expressions as text: C compiled and run against the reference's bits, WGSL validated.
use adamant_ir::{
    DType, Scalar,
    expr::{Expr, Instr},
    philox, reference,
    scalar::{Binary, Unary},
};
use adamant_kernels::{C, Dialect, Sources, Wgsl, write_expr};
mod compiler;

fn sources<'a>() -> Sources<'a> {
    Sources {
        load: &|k| if k == 0 { "x".into() } else { "y".into() },
        arg: &|_| "y".into(),
        index: &|_| "7u".into(),
        key: &|_, w| ["11u", "12u", "13u", "14u"][w].into(),
        element: ["1000001u", "3u"],
    }
}
fn program(instrs: &[(Instr, DType)]) -> Expr {
    let mut e = Expr::default();
    for &(i, d) in instrs {
        e.push(i, d);
    }
    e
}
/// What the reference computes for registers of one input each in `x` and `y`.
fn run(e: &Expr, x: Scalar, y: Scalar) -> Scalar {
    let mut registers: Vec<Scalar> = vec![];
    let fit =
        |s: Scalar, d: DType| if d.is_float() { Scalar::Float(reference::round_float(s.to_f64(), d)) } else { Scalar::Int(reference::wrap_int(s.to_i64(), d)) };
    for (k, (i, &d)) in e.instrs.iter().zip(&e.dtypes).enumerate() {
        let r = |k: u16| registers[k as usize];
        let s = match *i {
            Instr::Load(0) => x,
            Instr::Load(_) | Instr::Arg(_) => y,
            Instr::Const(s) => s,
            Instr::Index(_) => Scalar::Int(7),
            Instr::Random(_) => Scalar::Int(philox::element_bits([11, 12, 13, 14], 1_000_001 + (3 << 32)) as i64),
            Instr::Unary(f, a) => reference::unary(f, r(a), e.dtypes[a as usize]),
            Instr::Binary(f, a, b) => reference::binary(f, r(a), r(b), e.dtypes[a as usize]).unwrap_or(Scalar::Int(0)),
            Instr::Select(c, a, b) => {
                if r(c).to_f64() != 0.0 {
                    r(a)
                } else {
                    r(b)
                }
            }
            Instr::Cast(a) if d == DType::Bool => Scalar::Int((r(a).to_f64() != 0.0) as i64),
            Instr::Cast(a) => r(a),
            Instr::Bitcast(_) => unreachable!("register {k}: compared by hand below"),
        };
        registers.push(fit(s, d));
    }
    registers[registers.len() - 1]
}

/// Programs of exact functions, whose every bit is the reference's. The inputs' dtype comes first.
fn programs() -> Vec<(DType, Expr)> {
    use Binary::*;
    use DType::*;
    use Instr::{Arg, Cast, Const, Index, Load, Random, Select};
    let u = |f, a| Instr::Unary(f, a);
    let b = |f, a, c| Instr::Binary(f, a, c);
    vec![
        (F32, program(&[(Load(0), F32), (Load(1), F32), (b(Mul, 0, 1), F32), (b(Add, 2, 0), F32), (u(Unary::Sqrt, 3), F32)])),
        (F32, program(&[(Load(0), F32), (Cast(0), BF16), (Load(1), F32), (Cast(2), BF16), (b(Mul, 1, 3), BF16), (b(Add, 4, 1), BF16), (Cast(5), F32)])),
        (F32, program(&[(Load(0), F32), (Cast(0), F16), (Const(Scalar::Float(0.1)), F16), (b(Mul, 1, 2), F16), (Cast(3), F32)])),
        (
            F32,
            program(&[
                (Load(0), F32),
                (Load(1), F32),
                (b(Gt, 0, 1), Bool),
                (Select(2, 0, 1), F32),
                (Const(Scalar::Float(f64::NEG_INFINITY)), F32),
                (b(Maximum, 3, 4), F32),
            ]),
        ),
        (
            F32,
            program(&[
                (Load(0), F32),
                (Const(Scalar::Float(f64::NAN)), F32),
                (b(Ne, 0, 1), Bool),
                (b(Lt, 0, 1), Bool),
                (b(Add, 2, 3), Bool),
                (u(Unary::LogicalNot, 4), Bool),
                (Cast(5), F32),
            ]),
        ),
        (F32, program(&[(Load(0), F32), (Cast(0), I32), (Cast(1), I8), (Cast(2), F32)])),
        (F32, program(&[(Load(0), F32), (Cast(0), U8), (Load(1), F32), (Cast(2), U8), (b(Sub, 1, 3), U8), (b(Mul, 4, 4), U8), (Cast(5), F32)])),
        (F32, program(&[(Random(0), U32), (Const(Scalar::Int(8)), U32), (b(ShiftRight, 0, 1), U32), (Cast(2), F32), (Load(0), F32), (b(Add, 3, 4), F32)])),
        (
            I32,
            program(&[
                (Load(0), I32),
                (Arg(0), I32),
                (b(FloorDivide, 0, 1), I32),
                (b(Remainder, 0, 1), I32),
                (b(BitXor, 2, 3), I32),
                (Index(1), I32),
                (b(Add, 4, 5), I32),
                (Const(Scalar::Int(i32::MIN as i64)), I32),
                (b(Maximum, 6, 7), I32),
            ]),
        ),
        (I32, program(&[(Load(0), I32), (Cast(0), F32), (Cast(1), I32), (u(Unary::Neg, 2), I32), (u(Unary::Abs, 3), I32), (Cast(4), U32), (Cast(5), I32)])),
        (I32, program(&[(Load(0), I32), (Cast(0), Bool), (Load(1), I32), (Cast(2), Bool), (b(Mul, 1, 3), Bool), (b(BitXor, 4, 1), Bool), (Cast(5), I32)])),
        (
            I32,
            program(&[
                (Load(0), I32),
                (Cast(0), I64),
                (b(Mul, 1, 1), I64),
                (Const(Scalar::Int(i64::MIN)), I64),
                (b(BitXor, 2, 3), I64),
                (Cast(4), BF16),
                (Cast(5), I64),
                (b(ShiftRight, 6, 1), I64),
                (Cast(7), Bool),
                (Cast(6), I32),
                (Cast(8), I32),
                (b(Add, 9, 10), I32),
            ]),
        ),
        // f64 is C's alone.
        (F64, program(&[(Load(0), F64), (Load(1), F64), (b(Maximum, 0, 1), F64), (u(Unary::Sign, 0), F64), (b(Remainder, 2, 1), F64), (b(Mul, 3, 4), F64)])),
        (
            I32,
            program(&[
                (Load(0), I32),
                (Cast(0), I64),
                (b(Mul, 1, 1), I64),
                (Const(Scalar::Int(1 << 40)), I64),
                (b(Remainder, 2, 3), I64),
                (Cast(4), F64),
                (u(Unary::Sqrt, 5), F64),
                (Cast(6), F16),
                (Cast(7), I32),
            ]),
        ),
    ]
}
fn only_c(e: &Expr) -> bool {
    e.dtypes.contains(&DType::F64)
}

#[test]
fn c_programs_give_the_references_bits() {
    let Some(cc) = compiler::find() else { return };
    for dtype in [DType::F32, DType::I32, DType::F64] {
        let list: Vec<Expr> = programs().into_iter().filter(|p| p.0 == dtype).map(|p| p.1).collect();
        let texts: Vec<_> = list.iter().map(|e| write_expr(e, &C, &sources()).unwrap()).collect();
        let bodies: Vec<String> = texts.iter().zip(&list).map(|(t, e)| format!("{} return r{};", t.body, e.instrs.len() - 1)).collect();
        let all: String = bodies.concat();
        let float = dtype.is_float();
        let t = C.register(dtype).unwrap();
        let program = compiler::dispatch(&adamant_kernels::preamble(&all, &C), t, &bodies);
        let numbers: Vec<Scalar> = if float {
            [0.0, -0.0, 1.0, -1.5, 3.1415927f32, 1e-5, 65519.0, 65520.0, 255.5, 1e30, -7.25, 1e-40, f32::INFINITY, f32::NAN]
                .map(|v| Scalar::Float(v as f64))
                .to_vec()
        } else {
            [0, 1, -1, 7, -8, 1000, 16_777_217, i32::MAX as i64, i32::MIN as i64].map(Scalar::Int).to_vec()
        };
        let bits = |s: Scalar| match dtype {
            DType::F32 => (s.to_f64() as f32).to_bits() as u64,
            DType::F64 => s.to_f64().to_bits(),
            _ => s.to_i64() as i32 as u32 as u64,
        };
        let is_nan = |bits: u64| if dtype == DType::F64 { f64::from_bits(bits).is_nan() } else { f32::from_bits(bits as u32).is_nan() };
        let asked: Vec<(usize, Scalar, Scalar)> = (0..list.len())
            .flat_map(|k| {
                numbers
                    .iter()
                    .flat_map({
                        let n = numbers.clone();
                        move |&x| n.clone().into_iter().map(move |y| (k, x, y))
                    })
                    .collect::<Vec<_>>()
            })
            .collect();
        let words: Vec<[u64; 3]> = asked.iter().map(|&(k, x, y)| [k as u64, bits(x), bits(y)]).collect();
        for (&(k, x, y), got) in asked.iter().zip(compiler::run(&cc, &format!("program-{dtype}"), &program, &words)) {
            let want = run(&list[k], x, y);
            let nan = float && want.to_f64().is_nan() && is_nan(got);
            assert!(nan || got == bits(want), "program {k} of {dtype} at ({x}, {y}): {got:#x}, not {want} = {:#x}\n{}", bits(want), bodies[k]);
        }
    }
}
#[test]
fn wgsl_programs_are_valid() {
    for (dtype, e) in programs().into_iter().filter(|p| !only_c(&p.1)) {
        let text = write_expr(&e, Wgsl::WIDE, &sources()).unwrap();
        let t = Wgsl::WIDE.register(dtype).unwrap();
        let source = format!("{}\nfn f(x: {t}, y: {t}) -> {t} {{\n{}return r{};\n}}\n", text.preamble, text.body, e.instrs.len() - 1);
        compiler::validate(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    }
}
#[test]
fn what_a_dialect_lacks_is_named() {
    let e = program(&[(Instr::Load(0), DType::I32), (Instr::Cast(0), DType::F64)]);
    let error = write_expr(&e, Wgsl::PLAIN, &sources()).err().unwrap();
    assert!(format!("{error:?}").contains("f64"), "{error:?}");
    let e = program(&[(Instr::Load(0), DType::I8), (Instr::Bitcast(0), DType::F8E4M3)]);
    let error = write_expr(&e, &C, &sources()).err().unwrap();
    assert!(format!("{error:?}").contains("the bits of i8 as f8_e4m3"), "{error:?}");
}
#[test]
fn bits_are_read_as_another_dtype() {
    let Some(cc) = compiler::find() else { return };
    let e = program(&[
        (Instr::Load(0), DType::F32),
        (Instr::Bitcast(0), DType::I32),
        (Instr::Const(Scalar::Int(1)), DType::I32),
        (Instr::Binary(Binary::Add, 1, 2), DType::I32),
        (Instr::Bitcast(3), DType::F32),
    ]);
    let text = write_expr(&e, &C, &sources()).unwrap();
    let program = compiler::dispatch(&text.preamble, "float", &[format!("{} return r4;", text.body)]);
    let got = compiler::run(&cc, "bits", &program, &[[0, 1.0f32.to_bits() as u64, 0]]);
    assert_eq!(got, [1.0f32.next_up().to_bits() as u64]);
}
