//! Random programs, compiled and interpreted: every function of the scalar table on every dtype, inputs that lie in every way, results of
//! every dtype. `ADAMANT_JIT_CASES` says how many, `ADAMANT_JIT_SEED` which.
use crate::{
    Isa, Threads,
    device::Runtime,
    ends::{self, Finish},
    gemm::Blas,
    map::{self, Programs, program::Program},
    operand::{In, Out},
    reduce,
};
use adamant_runtime::{
    AxisSet, DType, Layout, Scalar, Shape,
    backend::Guard,
    expr::{Expr, Instr, Reg},
    kernel::{FaultWord, Kernel, KernelKind, Step},
    op::ReduceOp,
    product::End,
    scalar::{Binary, Class, Unary},
};
use half::{bf16, f16};

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
const INTEGERS: [DType; 8] = [DType::U8, DType::I8, DType::U16, DType::I16, DType::U32, DType::I32, DType::I64, DType::U64];
const FLOATS: [DType; 4] = [DType::F32, DType::BF16, DType::F16, DType::F64];

/// A random program with the dtypes of its inputs, and its results.
struct Case {
    expr: Expr,
    inputs: Vec<DType>,
    results: Vec<Reg>,
    /// the number that it is called with
    arg: f64,
}
impl Case {
    fn new(r: &mut Random) -> Case {
        // Most programs keep to one dtype and its masks; some go from one to another.
        let main = if r.below(3) == 0 { r.of(&INTEGERS) } else { r.of(&FLOATS) };
        let dtypes: Vec<DType> =
            if r.below(3) == 0 { vec![main, r.of(&FLOATS), r.of(&INTEGERS), DType::I32, DType::Bool] } else { vec![main, main, DType::Bool] };
        let inputs: Vec<DType> = (0..1 + r.below(4)).map(|k| if k == 0 { main } else { r.of(&dtypes) }).collect();
        let mut expr = Expr::default();
        for (k, &dtype) in inputs.iter().enumerate() {
            expr.push(Instr::Load(k as u16), dtype);
        }
        let constant = if main.is_float() {
            Scalar::Float(r.of(&[0.0, 1.0, -0.5, 3.25, 1e30, 0.1, 2.0, 3.0]))
        } else {
            Scalar::Int(r.of(&[0, 1, -1, 7, 200, 40_000, 1 << 31]))
        };
        expr.push(Instr::Const(constant), main);
        expr.push(Instr::Arg(0), main);
        if r.below(4) == 0 {
            (0..=r.below(2)).for_each(|axis| _ = expr.push(Instr::Index(axis as u8), DType::I64));
        }
        for _ in 0..1 + r.below(12) {
            Case::grow(&mut expr, r);
        }
        let n = expr.instrs.len();
        let results = (0..1 + r.below(3)).map(|k| if k == 0 { n - 1 } else { r.below(n) } as Reg).collect();
        Case { expr, inputs, results, arg: r.of(&[-1.25, 2.0, 3.0]) }
    }
    /// One more instruction of values that are there.
    fn grow(expr: &mut Expr, r: &mut Random) {
        let n = expr.instrs.len();
        // More often what was made last.
        let any = |r: &mut Random| (if r.below(2) == 0 { n - 1 - r.below(n.min(3)) } else { r.below(n) }) as Reg;
        let x = any(r);
        let dtype = expr.dtypes[x as usize];
        let alike = |r: &mut Random, dtype: DType| {
            let all: Vec<Reg> = (0..n as Reg).filter(|&k| expr.dtypes[k as usize] == dtype).collect();
            if all.is_empty() { None } else { Some(r.of(&all)) }
        };
        let out = |class: Class| if class == Class::ToBool { DType::Bool } else { dtype };
        // The sign of a NaN that was computed is nobody's promise.
        let loaded = expr.instrs.clone();
        let has_sign = |r: Reg| matches!(loaded[r as usize], Instr::Load(_) | Instr::Const(_) | Instr::Arg(_));
        match r.below(9) {
            0..3 => {
                let fits = |f: &Unary| match f.row().class {
                    Class::Float => dtype.is_float(),
                    Class::Bits => !dtype.is_float(),
                    _ => dtype != DType::Bool || f.row().class == Class::ToBool,
                };
                let fits = |f: &Unary| fits(f) && (f.name() != "signbit" || has_sign(x));
                let all: Vec<Unary> = Unary::ALL.iter().copied().filter(fits).collect();
                let f = r.of(&all);
                expr.push(Instr::Unary(f, x), out(f.row().class));
            }
            3..6 => {
                let Some(y) = alike(r, dtype) else { return };
                // Bits as numbers are large, and the series of these two long then.
                let is_long = |f: &Binary| f.name().starts_with("igamma") && expr.instrs.iter().any(|i| matches!(i, Instr::Bitcast(_)));
                // A division of integers by zero is a fault, and no matter here.
                let fits = |f: &Binary| match f.row().class {
                    Class::Float => dtype.is_float(),
                    Class::Bits => !dtype.is_float(),
                    Class::ToBool => true,
                    _ => dtype.is_float() || dtype != DType::Bool && ["add", "sub", "mul", "maximum", "minimum", "fmax", "fmin"].contains(&f.name()),
                };
                let divides = |f: &Binary| f.name().contains("div") && !dtype.is_float();
                let all: Vec<Binary> =
                    Binary::ALL.iter().copied().filter(|f| fits(f) && !divides(f) && !is_long(f) && (f.name() != "copysign" || has_sign(y))).collect();
                let f = r.of(&all);
                expr.push(Instr::Binary(f, x, y), out(f.row().class));
            }
            6 => {
                let (Some(c), Some(y)) = (alike(r, DType::Bool), alike(r, dtype)) else { return };
                expr.push(Instr::Select(c, x, y), dtype);
            }
            7 => {
                let all: Vec<DType> = [&INTEGERS[..], &FLOATS].concat().into_iter().filter(|d| d.size() == dtype.size() && *d != dtype).collect();
                if all.is_empty() || dtype == DType::Bool {
                    return;
                }
                let to = r.of(&all);
                let from = if dtype.is_float() && !has_sign(x) {
                    let nan = expr.push(Instr::Unary(Unary::IsNan, x), DType::Bool);
                    let one = expr.push(Instr::Const(Scalar::Float(1.0)), dtype);
                    expr.push(Instr::Select(nan, one, x), dtype)
                } else {
                    x
                };
                expr.push(Instr::Bitcast(from), to);
            }
            _ => {
                let to = if r.below(3) == 0 { r.of(&INTEGERS) } else { r.of(&[DType::F32, DType::BF16, DType::F16, DType::F64, DType::Bool, DType::I64]) };
                expr.push(Instr::Cast(x), to);
            }
        }
    }
}
/// How an input lies.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Lie {
    Each,
    Row,
    Column,
    One,
    Transposed,
    InPlace,
}
const CORNERS: [f64; 16] = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-40, -1e-300, 3e38, -87.5, 88.8, 0.5, -104.0, 65519.0, 5.9e-8];
fn bytes(dtype: DType, k: usize, n: usize) -> Vec<u8> {
    let value = |i: usize| if (i * 7 + k) % 5 == 0 { CORNERS[(i / 5 + k * 5) % CORNERS.len()] } else { ((i * 37 + k * 101) % 997) as f64 * 0.01 - 4.0 };
    (0..n)
        .flat_map(|i| match dtype {
            DType::F32 => (value(i) as f32).to_le_bytes().to_vec(),
            DType::F64 => value(i).to_le_bytes().to_vec(),
            DType::BF16 => bf16::from_f64(value(i)).to_le_bytes().to_vec(),
            DType::F16 => f16::from_f64(value(i)).to_le_bytes().to_vec(),
            DType::Bool => vec![((i * 7 + k) % 3 == 0) as u8],
            // Some of them at the ends of what the dtype holds.
            _ => {
                let far = [0, -1, i64::MIN, i64::MAX, 1 << 31, -(1 << 31), (1 << 31) - 1, 128];
                let value = if (i * 7 + k) % 6 == 0 { far[(i / 6 + k * 3) % far.len()] } else { ((i * 31 + k) % 201) as i64 - 100 };
                value.to_le_bytes()[..dtype.size()].to_vec()
            }
        })
        .collect()
}
/// The bits of elements; those of a NaN say nothing.
fn comparable(dtype: DType, bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks_exact(dtype.size())
        .map(|b| {
            let mut word = [0; 8];
            word[..b.len()].copy_from_slice(b);
            let bits = u64::from_le_bytes(word);
            let is_nan = match dtype {
                DType::F32 => f32::from_bits(bits as u32).is_nan(),
                DType::F64 => f64::from_bits(bits).is_nan(),
                DType::BF16 => bf16::from_bits(bits as u16).is_nan(),
                DType::F16 => f16::from_bits(bits as u16).is_nan(),
                _ => false,
            };
            if is_nan { u64::MAX } else { bits }
        })
        .collect()
}
/// What is run.
struct Setting<'c> {
    case: &'c Case,
    lies: Vec<Lie>,
    shape: Shape,
    /// how the first result is combined instead, and along which axes
    reduced: Option<(ReduceOp, AxisSet)>,
}
/// The inputs as they lie in `data`.
fn operands<'d>(setting: &Setting<'_>, data: &'d [Vec<u8>]) -> Vec<In<'d>> {
    let Setting { case: Case { inputs, .. }, lies, shape, .. } = setting;
    let rows = shape[0];
    (0..inputs.len())
        .map(|k| {
            let mut layout = Layout::dense(shape);
            match lies[k] {
                Lie::Row => layout.strides[0] = 0,
                Lie::Column => (layout.strides[0], layout.strides[1]) = (1, 0),
                Lie::One => layout.strides[..2].fill(0),
                Lie::Transposed => (layout.strides[0], layout.strides[1]) = (1, rows as isize),
                Lie::Each | Lie::InPlace => {}
            }
            let in_place = (lies[k] == Lie::InPlace).then_some(0);
            let bytes: &[u8] = if in_place.is_some() { &[] } else { &data[k] };
            In { bytes, shape: *shape, layout, dtype: inputs[k], is_dense: layout.is_dense(shape), in_place }
        })
        .collect()
}
/// The results' bits, and whether a loop was compiled for them.
fn run(setting: &Setting<'_>, isa: Isa) -> (Vec<Vec<u64>>, bool) {
    let Setting { case: Case { expr, inputs, results, arg }, lies, shape, reduced } = setting;
    let n = shape.elements();
    let data: Vec<Vec<u8>> = inputs.iter().enumerate().map(|(k, d)| bytes(*d, k, n)).collect();
    let given = operands(setting, &data);
    let kind = match *reduced {
        Some((op, axes)) => KernelKind::Reduce { op, expr: expr.clone(), value: results[0], axes },
        None => KernelKind::Map { expr: expr.clone(), outputs: results.clone() },
    };
    let kernel = Kernel::new(kind);
    let programs = Programs::default();
    let place = if isa == Isa::Scalar { &programs.plain } else { &programs.vectors };
    let program = place.get_or_init(|| Program { few: false, ..Program::with_loop(expr, results, None) });
    assert_eq!(program.compiled.count(), 0);
    let _ = kernel.prepared.set(Box::new(programs));
    let dtypes: Vec<DType> = results.iter().map(|&r| expr.dtypes[r as usize]).collect();
    let out_shape = reduced.map_or(*shape, |(_, axes)| axes.iter().fold(*shape, |shape, axis| shape.with(axis, 1)));
    let mut made: Vec<Vec<u64>> = dtypes.iter().map(|d| vec![0; (out_shape.elements() * d.size()).div_ceil(8)]).collect();
    if lies.contains(&Lie::InPlace) {
        let k = lies.iter().position(|l| *l == Lie::InPlace).unwrap();
        bytemuck::cast_slice_mut::<u64, u8>(&mut made[0])[..data[k].len()].copy_from_slice(&data[k]);
    }
    let mut outputs: Vec<Out<'_>> = made
        .iter_mut()
        .zip(&dtypes)
        .map(|(m, &dtype)| {
            let bytes = &mut bytemuck::cast_slice_mut(m)[..out_shape.elements() * dtype.size()];
            Out { bytes, shape: out_shape, layout: Layout::dense(&out_shape), dtype, is_dense: true }
        })
        .collect();
    let runtime = Runtime { threads: Threads::new(1), isa, blas: Blas::built_in() };
    let fault = FaultWord::none();
    let args = [Scalar::Float(*arg)];
    let step = Step { kernel: &kernel, space: *shape, inputs: &[], outputs: &[], args: &args, fault: &fault, guard: Guard::NONE };
    match *reduced {
        Some((op, axes)) => reduce::run(&runtime, &step, results[0], op, axes, &given, &mut outputs[..1]).unwrap(),
        None => map::run(&runtime, &step, results, &given, &mut outputs).unwrap(),
    }
    let compiled = map::program(&kernel, isa).unwrap().compiled.count() > 0;
    let bits = made.iter().zip(&dtypes).map(|(m, &d)| comparable(d, &bytemuck::cast_slice::<u64, u8>(m)[..out_shape.elements() * d.size()])).collect();
    (bits, compiled)
}
/// The bits of an epilogue of the first input, beside the results or where they go, in pieces of so many elements.
fn finish(setting: &Setting<'_>, isa: Isa, apart: bool, piece: usize) -> (Vec<u64>, bool) {
    let Setting { case: Case { expr, inputs, results, arg }, shape, .. } = setting;
    let n = shape.elements();
    let data: Vec<Vec<u8>> = inputs.iter().enumerate().map(|(k, d)| bytes(*d, k, n)).collect();
    let given = operands(setting, &data);
    let end = End { expr: expr.clone(), value: results[0] };
    let program = Program { few: false, ..Program::with_loop(expr, &results[..1], None) };
    let reads = ends::reads(shape, inputs[0], &given[1..], apart);
    let (args, fault) = ([Scalar::Float(*arg)], FaultWord::none());
    let finish = Finish::new(isa, &program, &end, shape, &reads, &args, &fault).unwrap();
    let words = |bytes: usize| vec![0u64; bytes.div_ceil(8)];
    let (from, to) = (inputs[0].size(), end.dtype().size());
    let (mut product, mut made) = (words(n * from), words(n * to));
    let (product, made): (&mut [u8], &mut [u8]) = (bytemuck::cast_slice_mut(&mut product), bytemuck::cast_slice_mut(&mut made));
    product[..n * from].copy_from_slice(&data[0]);
    made[..n * from.min(to)].copy_from_slice(&data[0][..n * from.min(to)]);
    for at in (0..n).step_by(piece) {
        let next = (at + piece).min(n);
        let results = &mut made[at * to..next * to];
        match apart {
            true => finish.apart(at, &mut product[at * from..next * from], results).unwrap(),
            false => finish.in_place(at, results).unwrap(),
        }
    }
    (comparable(end.dtype(), &made[..n * to]), program.compiled.count() > 0)
}
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(otherwise)
}

/// What a check of a random program is told.
struct Drawn<'d> {
    program: &'d Case,
    shape: Shape,
    vectors: &'d [Isa],
    /// how it is found again
    name: String,
}
/// Checks random programs. `check` tells which had a loop compiled: more than one in `one_in`.
fn each_case(salt: u64, one_in: u64, mut check: impl FnMut(&mut Random, &Drawn<'_>) -> bool) {
    let vectors: Vec<Isa> = Isa::ALL.into_iter().filter(|i| crate::jit::is_on(*i)).collect();
    if vectors.is_empty() {
        println!("skipped: this processor compiles no loops");
        return;
    }
    let (cases, seed) = (number("ADAMANT_JIT_CASES", 3000), number("ADAMANT_JIT_SEED", 1));
    let mut compiled = 0;
    for case in 0..cases {
        let mut r = Random(seed.wrapping_mul(salt) ^ case.wrapping_mul(0x2545_F491_4F6C_DD1D));
        (0..4).for_each(|_| _ = r.below(2));
        let program = Case::new(&mut r);
        let shape = Shape::new(&[r.of(&[1, 2, 5, 37]), r.of(&[1, 3, 8, 37, 48, 256, 531, 1024, 1030])]).unwrap();
        let drawn = Drawn { program: &program, shape, vectors: &vectors, name: format!("case {case} of seed {seed}") };
        compiled += u64::from(check(&mut r, &drawn));
    }
    println!("{compiled} of {cases} were compiled, seed {seed}");
    assert!(compiled > cases / one_in, "{compiled} of {cases} were compiled");
}

#[test]
fn a_compiled_loop_with_other_bits_than_the_interpreter() {
    each_case(0x9E37_79B9_7F4A_7C15, 3, |r, &Drawn { program, shape, vectors, ref name }| {
        let mut lies: Vec<Lie> = program.inputs.iter().map(|_| r.of(&[Lie::Each, Lie::Each, Lie::Row, Lie::Column, Lie::One, Lie::Transposed])).collect();
        let first = program.expr.dtypes[program.results[0] as usize];
        let may = first.is_float();
        let ops = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min];
        let reduced = (may && r.below(3) == 0).then(|| (r.of(&ops), AxisSet(r.of(&[0b10, 0b10, 0b01, 0b11]))));
        if reduced.is_none() && r.below(3) == 0 && program.inputs[0] == first {
            lies[0] = Lie::InPlace;
        }
        let isa = r.of(vectors);
        let setting = Setting { case: program, lies, shape, reduced };
        let (plain, _) = run(&setting, Isa::Scalar);
        let (fast, was) = run(&setting, isa);
        let Case { expr, inputs, results, arg } = program;
        let differs = || plain.iter().zip(&fast).enumerate().find_map(|(o, (p, f))| Some((o, p.iter().zip(f).enumerate().find(|(_, (p, f))| p != f)?)));
        assert!(
            fast == plain,
            "(output, (place, (interpreted, compiled))) {:x?} in {name} on {isa:?}: {expr:?} of {inputs:?} -> {results:?} by {arg}, {:?}, {shape:?}, reduced {reduced:?}",
            differs(),
            setting.lies
        );
        was
    });
}

#[test]
fn a_compiled_epilogue_with_other_bits_than_the_interpreter() {
    each_case(0xD6E8_FEB8_6659_FD93, 4, |r, &Drawn { program, shape, vectors, ref name }| {
        let lies: Vec<Lie> = program.inputs.iter().map(|_| r.of(&[Lie::Each, Lie::Row, Lie::Column, Lie::One, Lie::Transposed])).collect();
        let apart = program.inputs[0] != program.expr.dtypes[program.results[0] as usize] || r.below(2) == 0;
        let piece = r.of(&[1, 7, 64, 530, 2000]);
        let isa = r.of(vectors);
        let setting = Setting { case: program, lies, shape, reduced: None };
        let (plain, fast) = (finish(&setting, Isa::Scalar, apart, piece), finish(&setting, isa, apart, piece));
        let differs = || plain.0.iter().zip(&fast.0).position(|(p, f)| p != f);
        let Case { expr, inputs, results, arg } = program;
        assert!(
            plain.0 == fast.0,
            "at {:?} in {name} on {isa:?}: {expr:?} of {inputs:?} -> {results:?} by {arg}, {:?}, {shape:?}, apart {apart}, by {piece}",
            differs(),
            setting.lies
        );
        fast.1
    });
}

#[test]
fn a_function_whose_loop_has_other_bits() {
    let vectors: Vec<Isa> = Isa::ALL.into_iter().filter(|i| crate::jit::is_on(*i)).collect();
    let mut wrong = Vec::new();
    for dtype in FLOATS {
        let out = |class: Class| if class == Class::ToBool { DType::Bool } else { dtype };
        let unary = Unary::ALL.iter().filter(|f| f.row().class != Class::Bits).map(|&f| (f.name(), Instr::Unary(f, 0), out(f.row().class)));
        let binary = Binary::ALL.iter().filter(|f| f.row().class != Class::Bits).map(|&f| (f.name(), Instr::Binary(f, 0, 1), out(f.row().class)));
        for (name, instr, result) in unary.chain(binary) {
            let mut expr = Expr::default();
            expr.push(Instr::Load(0), dtype);
            expr.push(Instr::Load(1), dtype);
            let last = expr.push(instr, result);
            let case = Case { expr, inputs: vec![dtype, dtype], results: vec![last], arg: -1.25 };
            let setting = Setting { case: &case, lies: vec![Lie::Each; 2], shape: Shape::new(&[5, 1003]).unwrap(), reduced: None };
            let plain = run(&setting, Isa::Scalar).0;
            for &isa in &vectors {
                let fast = run(&setting, isa).0;
                if let Some((place, (p, f))) = plain[0].iter().zip(&fast[0]).enumerate().find(|(_, (p, f))| p != f) {
                    wrong.push(format!("{name} of {dtype}: {p:x}, compiled for {isa:?} {f:x} at {place}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Mappings of a process that can be written and executed.
#[cfg(target_os = "linux")]
fn writable_code(maps: &str) -> Vec<&str> {
    maps.lines().filter(|line| line.split_whitespace().nth(1).is_some_and(|may| may.contains('w') && may.contains('x'))).collect()
}
#[cfg(target_os = "linux")]
#[test]
fn memory_that_can_be_written_and_executed() {
    assert_eq!(writable_code("7f00-7f01 rwxp 00000000 00:00 0\n7f01-7f02 r-xp 00000000 00:00 0").len(), 1);
    let Some(isa) = Isa::ALL.into_iter().rev().find(|i| crate::jit::is_on(*i)) else { return println!("skipped: this processor compiles no loops") };
    let mut expr = Expr::default();
    expr.push(Instr::Load(0), DType::F32);
    let last = expr.push(Instr::Unary(Unary::Tanh, 0), DType::F32);
    let case = Case { expr, inputs: vec![DType::F32], results: vec![last], arg: -1.25 };
    assert!(run(&Setting { case: &case, lies: vec![Lie::Each], shape: Shape::new(&[5, 1003]).unwrap(), reduced: None }, isa).1);
    assert_eq!(writable_code(&std::fs::read_to_string("/proc/self/maps").unwrap()), Vec::<&str>::new());
}
