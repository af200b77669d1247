//! Every kernel family, over dtypes and layouts, against the reference interpreter, and bit for bit over threads
//! and instruction sets.
#![allow(clippy::unwrap_used)]
mod harness;

use adamant_core::{
    Arg, DType, ErrorKind, HostVec, Layout, Op, Scalar, Shape,
    backend::Backend,
    expr::{Expr, Instr},
    kernel::{Fault, Kernel, KernelKind},
    op::{ArgOp, ConvRole, ConvSpec, ReduceOp, ScanOp, ScatterMode, SegmentOp, WindowOp, WindowSpec},
    scalar::{Binary, Unary},
    shape::AxisSet,
};
use harness::*;
use std::sync::Arc;

/// Shapes small, odd, empty and without axes.
const SHAPES: [&[usize]; 7] = [&[], &[1], &[7], &[0, 3], &[3, 4, 5], &[2, 1, 33], &[3, 500]];
/// Large enough for threads.
const LARGE: &[usize] = &[300, 501];

fn unary_kernel(f: Unary, dtype: DType) -> (KernelKind, DType) {
    let to = f.infer(dtype).unwrap();
    let mut e = Expr::default();
    let x = e.push(Instr::Load(0), dtype);
    let y = e.push(Instr::Unary(f, x), to);
    (KernelKind::Map { expr: e, outputs: vec![y] }, to)
}
#[test]
fn unary_functions_of_all_dtypes_and_layouts() {
    for &f in Unary::ALL {
        for dtype in DType::COMPUTE {
            if f.infer(dtype).is_err() {
                continue;
            }
            let (kind, to) = unary_kernel(f, dtype);
            let kernel = Kernel::new(kind);
            for shape in SHAPES {
                let s = Shape::new(shape).unwrap();
                for layout in Lay::ALL {
                    let (lo, hi) = f.row().domain;
                    let x = Tens::random(dtype, &s, layout, lo, hi, 1);
                    check(&Case::new(&kernel, s).input(x).output(to, s), &Op::Unary(f), Arg::None);
                }
            }
        }
    }
}
#[test]
fn large_maps_are_shared_out() {
    let s = Shape::new(LARGE).unwrap();
    for dtype in [DType::F32, DType::BF16, DType::I32, DType::Bool] {
        let mut e = Expr::default();
        let (x, y) = (e.push(Instr::Load(0), dtype), e.push(Instr::Load(1), dtype));
        let z = e.push(Instr::Binary(Binary::Mul, x, y), dtype);
        let kernel = Kernel::new(KernelKind::Map { expr: e, outputs: vec![z] });
        for (a, b) in [(Lay::Dense, Lay::Column), (Lay::Transposed, Lay::Row)] {
            check(
                &Case::new(&kernel, s).input(Tens::random(dtype, &s, a, -2.0, 2.0, 1)).input(Tens::random(dtype, &s, b, -2.0, 2.0, 2)).output(dtype, s),
                &Op::Binary(Binary::Mul),
                Arg::None,
            );
        }
    }
    let mut e = Expr::default();
    let r = e.push(Instr::Random(0), DType::U32);
    let kernel = Kernel::new(KernelKind::Map { expr: e, outputs: vec![r] });
    let key = Shape::new(&[4]).unwrap();
    check_exact(
        &Case::new(&kernel, s).input(Tens::of(DType::U32, &key, vec![5.0, 6.0, 7.0, 8.0])).output(DType::U32, s),
        &Op::RandomBits { shape: s },
        Arg::None,
    );
}
#[test]
fn unary_functions_at_special_values() {
    let special: Vec<f64> = vec![0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-30, -1e-30, 0.5, -0.5, 1.5, 2.5, -2.5, 88.0, -88.0, 1e9];
    let s = Shape::new(&[special.len()]).unwrap();
    for &f in Unary::ALL {
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
            if f.infer(dtype).is_err() {
                continue;
            }
            let (kind, to) = unary_kernel(f, dtype);
            let kernel = Kernel::new(kind);
            check(&Case::new(&kernel, s).input(Tens::of(dtype, &s, special.clone())).output(to, s), &Op::Unary(f), Arg::None);
        }
    }
}
#[test]
fn binary_functions_of_all_dtypes_broadcasts_and_layouts() {
    for &f in Binary::ALL {
        for dtype in DType::COMPUTE {
            let Ok(to) = f.infer(dtype) else { continue };
            let mut e = Expr::default();
            let (x, y) = (e.push(Instr::Load(0), dtype), e.push(Instr::Load(1), dtype));
            let z = e.push(Instr::Binary(f, x, y), to);
            let kernel = Kernel::new(KernelKind::Map { expr: e, outputs: vec![z] });
            for shape in SHAPES {
                let s = Shape::new(shape).unwrap();
                let pairs = [
                    (Lay::Dense, Lay::Dense),
                    (Lay::Dense, Lay::Row),
                    (Lay::Column, Lay::Strided),
                    (Lay::Scalar, Lay::Reversed),
                    (Lay::Transposed, Lay::Dense),
                    (Lay::Scalar, Lay::Scalar),
                ];
                for (a, b) in pairs {
                    let ((a0, a1), (b0, b1)) = f.row().domain;
                    let case = Case::new(&kernel, s).input(Tens::random(dtype, &s, a, a0, a1, 1)).input(Tens::random(dtype, &s, b, b0, b1, 2)).output(to, s);
                    check(&case, &Op::Binary(f), Arg::None);
                }
            }
        }
    }
}
#[test]
fn casts_between_all_dtypes() {
    for from in DType::ALL {
        for to in DType::ALL {
            let mut e = Expr::default();
            let x = e.push(Instr::Load(0), from);
            let y = e.push(Instr::Cast(x), to);
            let kernel = Kernel::new(KernelKind::Map { expr: e, outputs: vec![y] });
            for shape in [&[3, 50][..], &[], &[0]] {
                let s = Shape::new(shape).unwrap();
                for layout in Lay::ALL {
                    check(&Case::new(&kernel, s).input(Tens::random(from, &s, layout, -30.0, 300.0, 3)).output(to, s), &Op::Cast(to), Arg::None);
                }
            }
        }
    }
}
#[test]
fn bitcasts_keep_the_bits() {
    for (from, to) in [
        (DType::F32, DType::I32),
        (DType::I32, DType::F32),
        (DType::U32, DType::F32),
        (DType::F64, DType::I64),
        (DType::I64, DType::F64),
        (DType::BF16, DType::I16),
        (DType::U16, DType::F16),
        (DType::I8, DType::U8),
        (DType::F32, DType::U32),
    ] {
        let mut e = Expr::default();
        let x = e.push(Instr::Load(0), from);
        let y = e.push(Instr::Bitcast(x), to);
        let kernel = Kernel::new(KernelKind::Map { expr: e, outputs: vec![y] });
        let s = Shape::new(&[3, 700]).unwrap();
        check_exact(&Case::new(&kernel, s).input(Tens::random(from, &s, Lay::Transposed, 0.0, 100.0, 3)).output(to, s), &Op::Bitcast(to), Arg::None);
    }
}
#[test]
fn selects_scalars_coordinates_and_constants() {
    for dtype in DType::COMPUTE {
        for shape in SHAPES {
            let s = Shape::new(shape).unwrap();
            let mut e = Expr::default();
            let (c, x, y) = (e.push(Instr::Load(0), DType::Bool), e.push(Instr::Load(1), dtype), e.push(Instr::Load(2), dtype));
            let z = e.push(Instr::Select(c, x, y), dtype);
            let kernel = Kernel::new(KernelKind::Map { expr: e, outputs: vec![z] });
            for (a, b, d) in [
                (Lay::Dense, Lay::Dense, Lay::Dense),
                (Lay::Row, Lay::Scalar, Lay::Strided),
                (Lay::Scalar, Lay::Column, Lay::Scalar),
                (Lay::Transposed, Lay::Scalar, Lay::Scalar),
            ] {
                let case = Case::new(&kernel, s)
                    .input(Tens::random(DType::Bool, &s, a, 0.0, 1.0, 5))
                    .input(Tens::random(dtype, &s, b, 0.0, 9.0, 6))
                    .input(Tens::random(dtype, &s, d, 0.0, 9.0, 7))
                    .output(dtype, s);
                check_exact(&case, &Op::Select, Arg::None);
            }
            let mut e = Expr::default();
            let a = e.push(Instr::Arg(0), dtype);
            let kernel = Kernel::new(KernelKind::Map { expr: e, outputs: vec![a] });
            let ty = |dtype| adamant_core::TensorType { shape: s, dtype };
            let value = if dtype.is_float() { Scalar::Float(0.3) } else { Scalar::Int(1) };
            check_exact(&Case::new(&kernel, s).arg(value).output(dtype, s), &Op::Const(ty(dtype)), Arg::Scalar(value));
            for axis in 0..s.rank() {
                let mut e = Expr::default();
                let i = e.push(Instr::Index(axis as u8), DType::I64);
                let v = e.push(Instr::Cast(i), dtype);
                let kernel = Kernel::new(KernelKind::Map { expr: e, outputs: vec![v] });
                if dtype != DType::Bool {
                    check_exact(&Case::new(&kernel, s).output(dtype, s), &Op::Iota { axis: axis as u8, ty: ty(dtype) }, Arg::None);
                }
            }
        }
    }
}
#[test]
fn random_bits_are_those_of_the_element() {
    let mut e = Expr::default();
    let r = e.push(Instr::Random(0), DType::U32);
    let kernel = Kernel::new(KernelKind::Map { expr: e, outputs: vec![r] });
    for shape in SHAPES {
        let s = Shape::new(shape).unwrap();
        let key = Shape::new(&[4]).unwrap();
        let case = Case::new(&kernel, s).input(Tens::of(DType::U32, &key, vec![5.0, 6.0, 7.0, 8.0])).output(DType::U32, s);
        check_exact(&case, &Op::RandomBits { shape: s }, Arg::None);
    }
}
/// exp(x * y + b) - x with everything rounded on the way, y a row and b a column.
fn chain(dtype: DType) -> (Expr, u16, u16) {
    let mut e = Expr::default();
    let (x, y, b) = (e.push(Instr::Load(0), dtype), e.push(Instr::Load(1), dtype), e.push(Instr::Load(2), dtype));
    let p = e.push(Instr::Binary(Binary::Mul, x, y), dtype);
    let q = e.push(Instr::Binary(Binary::Add, p, b), dtype);
    let r = e.push(Instr::Unary(Unary::Exp, q), dtype);
    let t = e.push(Instr::Binary(Binary::Sub, r, x), dtype);
    (e, q, t)
}
#[test]
fn a_fused_chain_has_the_bits_of_its_steps() {
    for dtype in [DType::F32, DType::BF16, DType::F16, DType::F64] {
        for shape in [&[3, 5][..], &[40, 50], &[400, 701]] {
            let s = Shape::new(shape).unwrap();
            let x = Tens::random(dtype, &s, Lay::Transposed, -1.0, 1.0, 1);
            let y = Tens::random(dtype, &s, Lay::Row, -1.0, 1.0, 2);
            let b = Tens::random(dtype, &s, Lay::Column, -1.0, 1.0, 3);
            let (e, q, t) = chain(dtype);
            let fused = Kernel::new(KernelKind::Map { expr: e.clone(), outputs: vec![t, q] });
            let both = Case::new(&fused, s).input(x.clone()).input(y.clone()).input(b.clone()).output(dtype, s).output(dtype, s).run(&backend(1, None));
            // One kernel per instruction.
            let step = |instr: &dyn Fn(&mut Expr) -> u16, inputs: Vec<Tens>| {
                let mut e = Expr::default();
                let r = instr(&mut e);
                let kernel = Kernel::new(KernelKind::Map { expr: e, outputs: vec![r] });
                let mut case = Case::new(&kernel, s).output(dtype, s);
                for i in inputs {
                    case = case.input(i);
                }
                case.run(&backend(3, None)).outputs.remove(0)
            };
            let two = |f: Binary| {
                move |e: &mut Expr| {
                    let (a, b) = (e.push(Instr::Load(0), dtype), e.push(Instr::Load(1), dtype));
                    e.push(Instr::Binary(f, a, b), dtype)
                }
            };
            let again = |bytes: Vec<u8>| Tens::bytes(dtype, &s, bytes);
            let p = step(&two(Binary::Mul), vec![x.clone(), y]);
            let q = step(&two(Binary::Add), vec![again(p), b]);
            let r = step(
                &|e| {
                    let a = e.push(Instr::Load(0), dtype);
                    e.push(Instr::Unary(Unary::Exp, a), dtype)
                },
                vec![again(q.clone())],
            );
            let t = step(&two(Binary::Sub), vec![again(r), x]);
            assert!(both.outputs[0] == t && both.outputs[1] == q, "{dtype} {s}");
        }
    }
}
#[test]
fn an_output_in_the_place_of_an_input() {
    for dtype in [DType::F32, DType::BF16, DType::I32, DType::Bool, DType::I64] {
        for n in [3usize, 4000, 300_000] {
            let s = Shape::new(&[n]).unwrap();
            let mut e = Expr::default();
            let (x, y) = (e.push(Instr::Load(0), dtype), e.push(Instr::Load(1), dtype));
            let z = e.push(Instr::Binary(Binary::Add, x, y), dtype);
            let w = e.push(Instr::Binary(Binary::Mul, z, x), dtype);
            let kernel = Kernel::new(KernelKind::Map { expr: e, outputs: vec![w, z] });
            let (a, b) = (Tens::random(dtype, &s, Lay::Dense, 0.0, 9.0, 1), Tens::random(dtype, &s, Lay::Dense, 0.0, 9.0, 2));
            let apart = Case::new(&kernel, s).input(a.clone()).input(b.clone()).output(dtype, s).output(dtype, s);
            let want = apart.run(&backend(1, None)).outputs;
            for threads in [1, 3] {
                let over = Case::new(&kernel, s).input(a.clone()).input(b.clone()).output_over(0, dtype, s).output_over(1, dtype, s);
                assert_eq!(over.run(&backend(threads, None)).outputs, want, "{dtype} {n}");
            }
        }
    }
}
#[test]
fn an_integer_division_by_zero_is_a_fault() {
    let s = Shape::new(&[5]).unwrap();
    let mut e = Expr::default();
    let (x, y) = (e.push(Instr::Load(0), DType::I32), e.push(Instr::Load(1), DType::I32));
    let z = e.push(Instr::Binary(Binary::FloorDivide, x, y), DType::I32);
    let kernel = Kernel::new(KernelKind::Map { expr: e, outputs: vec![z] });
    let case = Case::new(&kernel, s)
        .input(Tens::of(DType::I32, &s, vec![7.0, -7.0, 5.0, 5.0, 1.0]))
        .input(Tens::of(DType::I32, &s, vec![2.0, 2.0, 0.0, -3.0, 1.0]))
        .output(DType::I32, s);
    let ran = case.run(&backend(1, None));
    assert_eq!(ran.fault, Some(Fault::DivisionByZero));
    assert_eq!(bytemuck::pod_collect_to_vec::<u8, i32>(&ran.outputs[0]), [3, -4, 0, -2, 1]);
}
#[test]
fn copies_between_layouts() {
    for dtype in [DType::U8, DType::BF16, DType::F32, DType::F64, DType::F8E4M3] {
        let kernel = Kernel::new(KernelKind::Copy);
        for shape in SHAPES.iter().copied().chain([&[2, 90, 80][..], &[6, 5, 4, 3]]).chain((dtype == DType::F32).then_some(&[600, 500][..])) {
            let s = Shape::new(shape).unwrap();
            for layout in Lay::ALL {
                let x = Tens::random(dtype, &s, layout, 0.0, 9.0, 1);
                check_exact(&Case::new(&kernel, s).input(x.clone()).output(dtype, s), &Op::StopGrad, Arg::None);
                // Into a region of a larger output.
                let mut wide = s;
                for a in 0..s.rank() {
                    wide = wide.with(a, s[a] + 2);
                }
                let layout = Layout { offset: 1, strides: wide.strides() };
                check_exact(&Case::new(&kernel, s).input(x).output_at(dtype, s, layout, wide.elements() + 8), &Op::StopGrad, Arg::None);
            }
        }
    }
}
#[test]
fn reductions_over_any_axes() {
    for dtype in DType::COMPUTE {
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min] {
            for shape in [&[][..], &[7], &[0, 3], &[3, 4, 5], &[2, 1, 33], &[2, 1100], &[600, 3], &[70, 9, 20]] {
                let s = Shape::new(shape).unwrap();
                for mask in 0..1u8 << s.rank() {
                    let axes = AxisSet(mask);
                    let extreme = matches!(op, ReduceOp::Max | ReduceOp::Min);
                    if extreme && axes.iter().any(|a| s[a] == 0) {
                        continue;
                    }
                    let mut to = s;
                    axes.iter().for_each(|a| to = to.with(a, 1));
                    let out = if extreme { dtype } else { dtype.sum_dtype() };
                    let mut e = Expr::default();
                    let x = e.push(Instr::Load(0), dtype);
                    let kernel = Kernel::new(KernelKind::Reduce { expr: e, value: x, op, axes });
                    let (lo, hi) = match (op, dtype.is_float()) {
                        (ReduceOp::Prod, true) => (0.98, 1.02),
                        _ => (-3.0, 3.0),
                    };
                    let layouts: &[Lay] = if s.elements() > 5000 { &[Lay::Dense, Lay::Transposed] } else { &Lay::ALL };
                    for &layout in layouts {
                        let x = Tens::random(dtype, &s, layout, lo, hi, 1);
                        check_sum(&Case::new(&kernel, s).input(x).output(out, to), &Op::Reduce { op, axes }, s.elements() / to.elements().max(1));
                    }
                }
            }
        }
    }
}
#[test]
fn large_reductions_and_lines_are_shared_out() {
    for (shape, axes) in [(&[300, 501][..], 1), (&[300, 501], 2), (&[300, 501], 3), (&[2, 140_000], 2)] {
        let s = Shape::new(shape).unwrap();
        let axes = AxisSet(axes);
        let mut to = s;
        axes.iter().for_each(|a| to = to.with(a, 1));
        for op in [ReduceOp::Sum, ReduceOp::Max] {
            let mut e = Expr::default();
            let x = e.push(Instr::Load(0), DType::F32);
            let kernel = Kernel::new(KernelKind::Reduce { expr: e, value: x, op, axes });
            check_sum(
                &Case::new(&kernel, s).input(Tens::random(DType::F32, &s, Lay::Dense, -1.0, 1.0, 1)).output(DType::F32, to),
                &Op::Reduce { op, axes },
                s.elements() / to.elements(),
            );
        }
    }
    let s = Shape::new(&[300, 501]).unwrap();
    let x = Tens::random(DType::F32, &s, Lay::Dense, -1.0, 1.0, 1);
    for axis in [0, 1] {
        let kernel = Kernel::new(KernelKind::Primitive(Op::Sort { axis, descending: false }));
        check_exact(&Case::new(&kernel, s).input(x.clone()).output(DType::F32, s).output(DType::I64, s), &Op::Sort { axis, descending: false }, Arg::None);
        let scan = Op::Scan { op: ScanOp::Max, axis, reverse: false };
        let kernel = Kernel::new(KernelKind::Primitive(Op::Scan { op: ScanOp::Max, axis, reverse: false }));
        check_exact(&Case::new(&kernel, s).input(x.clone()).output(DType::F32, s), &scan, Arg::None);
        let index = Tens::random(DType::I64, &s, Lay::Dense, 0.0, 299.9, 3);
        let kernel = Kernel::new(KernelKind::Primitive(Op::Gather { axis }));
        check_exact(&Case::new(&kernel, s).input(x.clone()).input(index).output(DType::F32, s), &Op::Gather { axis }, Arg::None);
    }
}
#[test]
fn the_bits_of_a_sum_do_not_depend_on_layout_or_prologue() {
    for shape in [&[300, 700][..], &[4, 40, 300], &[2, 200_000], &[3000, 20]] {
        let s = Shape::new(shape).unwrap();
        for mask in 1..1u8 << s.rank() {
            let axes = AxisSet(mask);
            let mut to = s;
            axes.iter().for_each(|a| to = to.with(a, 1));
            let sum = |load: &dyn Fn(&mut Expr) -> u16, x: Tens, threads| {
                let mut e = Expr::default();
                let v = load(&mut e);
                let kernel = Kernel::new(KernelKind::Reduce { expr: e, value: v, op: ReduceOp::Sum, axes });
                Case::new(&kernel, s).input(x).output(DType::F32, to).run(&backend(threads, None)).outputs.remove(0)
            };
            let plain = |e: &mut Expr| e.push(Instr::Load(0), DType::F32);
            let x = Tens::random(DType::F32, &s, Lay::Transposed, -1.0, 1.0, 1);
            let want = sum(&plain, x.clone(), 1);
            assert_eq!(sum(&plain, x.dense(), 4), want, "{s} {axes:?}: dense");
            let fused = |e: &mut Expr| {
                let l = e.push(Instr::Load(0), DType::F32);
                let n = e.push(Instr::Unary(Unary::Neg, l), DType::F32);
                e.push(Instr::Unary(Unary::Neg, n), DType::F32)
            };
            assert_eq!(sum(&fused, x.clone(), 2), want, "{s} {axes:?}: fused");
        }
    }
}
#[test]
fn extremes_and_their_places_with_nan() {
    for dtype in [DType::F32, DType::BF16, DType::F64] {
        let s = Shape::new(&[4, 40]).unwrap();
        let mut data: Vec<f64> = (0..160).map(|k| ((k * 37) % 50) as f64).collect();
        (data[50], data[60], data[100]) = (f64::NAN, f64::NAN, f64::INFINITY);
        for axis in [0, 1] {
            let x = || Tens::of(dtype, &s, data.clone());
            for op in [ArgOp::Max, ArgOp::Min] {
                let kernel = Kernel::new(KernelKind::Primitive(Op::ArgReduce { op, axis }));
                check_exact(&Case::new(&kernel, s).input(x()).output(DType::I64, s.with(axis as usize, 1)), &Op::ArgReduce { op, axis }, Arg::None);
            }
            for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum] {
                let axes = AxisSet::one(axis as usize);
                let mut e = Expr::default();
                let v = e.push(Instr::Load(0), dtype);
                let kernel = Kernel::new(KernelKind::Reduce { expr: e, value: v, op, axes });
                check(&Case::new(&kernel, s).input(x()).output(dtype, s.with(axis as usize, 1)), &Op::Reduce { op, axes }, Arg::None);
            }
        }
    }
}
#[test]
fn arg_reductions_scans_and_sorts_along_every_axis() {
    for dtype in DType::COMPUTE {
        for shape in [&[7][..], &[3, 4, 5], &[2, 1, 33], &[0, 3], &[20, 50, 3]] {
            let s = Shape::new(shape).unwrap();
            for axis in 0..s.rank() {
                let a = axis as u8;
                let layouts: &[Lay] = if s.elements() > 5000 { &[Lay::Dense] } else { &Lay::ALL };
                for &layout in layouts {
                    let x = Tens::random(dtype, &s, layout, -3.0, 3.0, 4);
                    if s[axis] > 0 {
                        let kernel = Kernel::new(KernelKind::Primitive(Op::ArgReduce { op: ArgOp::Max, axis: a }));
                        check_exact(
                            &Case::new(&kernel, s).input(x.clone()).output(DType::I64, s.with(axis, 1)),
                            &Op::ArgReduce { op: ArgOp::Max, axis: a },
                            Arg::None,
                        );
                    }
                    for descending in [false, true] {
                        let kernel = Kernel::new(KernelKind::Primitive(Op::Sort { axis: a, descending }));
                        check_exact(
                            &Case::new(&kernel, s).input(x.clone()).output(dtype, s).output(DType::I64, s),
                            &Op::Sort { axis: a, descending },
                            Arg::None,
                        );
                    }
                    for op in [ScanOp::Sum, ScanOp::Prod, ScanOp::Max, ScanOp::Min] {
                        for reverse in [false, true] {
                            let kernel = Kernel::new(KernelKind::Primitive(Op::Scan { op, axis: a, reverse }));
                            let to = if matches!(op, ScanOp::Sum | ScanOp::Prod) { dtype.sum_dtype() } else { dtype };
                            check(&Case::new(&kernel, s).input(x.clone()).output(to, s), &Op::Scan { op, axis: a, reverse }, Arg::None);
                        }
                    }
                    if dtype.is_float() {
                        let op = ScanOp::LinearRecurrence;
                        let kernel = Kernel::new(KernelKind::Primitive(Op::Scan { op, axis: a, reverse: false }));
                        let coefficients = Tens::random(dtype, &s, Lay::Dense, -1.0, 1.0, 9);
                        check(
                            &Case::new(&kernel, s).input(coefficients).input(x.clone()).output(dtype, s),
                            &Op::Scan { op, axis: a, reverse: false },
                            Arg::None,
                        );
                    }
                }
            }
        }
    }
}
#[test]
fn a_stable_sort_with_nan_and_zeros() {
    let s = Shape::new(&[9]).unwrap();
    for descending in [false, true] {
        let kernel = Kernel::new(KernelKind::Primitive(Op::Sort { axis: 0, descending }));
        let x = Tens::of(DType::F32, &s, vec![0.0, f64::NAN, -0.0, f64::INFINITY, 0.0, -1.0, f64::NAN, f64::NEG_INFINITY, -0.0]);
        check_exact(&Case::new(&kernel, s).input(x).output(DType::F32, s).output(DType::I64, s), &Op::Sort { axis: 0, descending }, Arg::None);
    }
}
#[test]
fn matrix_products_of_all_dtypes_and_layouts() {
    for dtype in DType::COMPUTE.into_iter().filter(|d| *d != DType::Bool) {
        for (batch, m, k, n) in [
            (&[][..], 1, 1, 1),
            (&[], 5, 7, 3),
            (&[], 0, 3, 2),
            (&[], 3, 0, 2),
            (&[3], 4, 5, 6),
            (&[2, 3], 17, 33, 9),
            (&[], 130, 70, 150),
            (&[2], 1, 300, 200),
        ] {
            let of = |r, c| Shape::new(&[batch, &[r, c]].concat()).unwrap();
            let kernel = Kernel::new(KernelKind::Matmul);
            for (a, b) in [
                (Lay::Dense, Lay::Dense),
                (Lay::Transposed, Lay::Strided),
                (Lay::Row, Lay::Column),
                (Lay::Reversed, Lay::Transposed),
                (Lay::Scalar, Lay::Dense),
            ] {
                let case = Case::new(&kernel, of(m, n))
                    .input(Tens::random(dtype, &of(m, k), a, -2.0, 2.0, 1))
                    .input(Tens::random(dtype, &of(k, n), b, -2.0, 2.0, 2))
                    .output(dtype, of(m, n));
                check_sum(&case, &Op::Matmul, k);
            }
        }
    }
}
#[test]
fn the_three_roles_of_convolution() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        for (n, ci, co, groups, input, kernel, stride, padding, dilation) in [
            (2usize, 3usize, 4usize, 1usize, &[9usize][..], &[3usize][..], 1usize, (1usize, 1usize), 1usize),
            (1, 2, 2, 2, &[7], &[2], 2, (0, 1), 2),
            (2, 2, 3, 1, &[8, 7], &[3, 2], 1, (1, 1), 1),
            (0, 2, 3, 1, &[8, 7], &[3, 2], 1, (1, 1), 1),
            (1, 2, 4, 2, &[6, 7], &[3, 3], 2, (1, 0), 1),
            (1, 2, 1, 1, &[4, 5, 4], &[2, 2, 3], 1, (1, 1), 1),
        ] {
            let s = input.len();
            let out: Vec<usize> = (0..s).map(|k| adamant_core::op::window_size(input[k], kernel[k], stride, padding, dilation).unwrap()).collect();
            let x = Shape::new(&[&[n, groups * ci], input].concat()).unwrap();
            let w = Shape::new(&[&[groups * co, ci], kernel].concat()).unwrap();
            let y = Shape::new(&[&[n, groups * co], &out[..]].concat()).unwrap();
            let spec = |role, open: &[usize]| {
                Arc::new(ConvSpec {
                    role,
                    stride: smallvec::SmallVec::from_elem(stride, s),
                    padding: smallvec::SmallVec::from_elem(padding, s),
                    dilation: smallvec::SmallVec::from_elem(dilation, s),
                    groups,
                    open: open.iter().copied().collect(),
                })
            };
            for (spec, a, b, to) in
                [(spec(ConvRole::Forward, &[]), x, w, y), (spec(ConvRole::InputGrad, input), y, w, x), (spec(ConvRole::WeightGrad, kernel), x, y, w)]
            {
                let k = Kernel::new(KernelKind::Conv(spec.clone()));
                let case = Case::new(&k, to)
                    .input(Tens::random(dtype, &a, Lay::Dense, -1.0, 1.0, 1))
                    .input(Tens::random(dtype, &b, Lay::Dense, -1.0, 1.0, 2))
                    .output(dtype, to);
                check_sum(&case, &Op::Conv(spec), 200);
            }
        }
    }
}
#[test]
fn windows_of_all_dtypes() {
    for dtype in DType::COMPUTE.into_iter().filter(|d| *d != DType::Bool) {
        for (shape, size, stride, padding, dilation) in [
            (&[2usize, 3, 9][..], &[3usize][..], 2usize, (1usize, 1usize), 1usize),
            (&[2, 7, 8], &[2, 3], 1, (1, 1), 1),
            (&[5, 6, 7], &[2, 2], 2, (0, 0), 2),
            (&[1, 4, 5, 6], &[2, 3, 2], 1, (1, 0), 1),
            (&[0, 5], &[2], 1, (0, 0), 1),
        ] {
            let x = Shape::new(shape).unwrap();
            let s = size.len();
            let lead = x.rank() - s;
            let spec = |op, open: &[usize]| {
                Arc::new(WindowSpec {
                    op,
                    size: size.iter().copied().collect(),
                    stride: smallvec::SmallVec::from_elem(stride, s),
                    padding: smallvec::SmallVec::from_elem(padding, s),
                    dilation: smallvec::SmallVec::from_elem(dilation, s),
                    open: open.iter().copied().collect(),
                })
            };
            let mut y = x;
            for k in 0..s {
                y = y.with(lead + k, adamant_core::op::window_size(x[lead + k], size[k], stride, padding, dilation).unwrap());
            }
            let of = |spec: &Arc<WindowSpec>| Kernel::new(KernelKind::Primitive(Op::Window(spec.clone())));
            let max = spec(WindowOp::Max, &[]);
            check_exact(
                &Case::new(&of(&max), y).input(Tens::random(dtype, &x, Lay::Dense, -3.0, 3.0, 1)).output(dtype, y).output(DType::I64, y),
                &Op::Window(max),
                Arg::None,
            );
            let sum = spec(WindowOp::Sum, &[]);
            check(&Case::new(&of(&sum), y).input(Tens::random(dtype, &x, Lay::Dense, -3.0, 3.0, 1)).output(dtype, y), &Op::Window(sum), Arg::None);
            let back = spec(WindowOp::SumTransposed, &shape[lead..]);
            check(&Case::new(&of(&back), x).input(Tens::random(dtype, &y, Lay::Dense, -3.0, 3.0, 1)).output(dtype, x), &Op::Window(back), Arg::None);
        }
    }
}
#[test]
fn gathers_and_scatters_along_every_axis() {
    for dtype in DType::COMPUTE {
        for index_dtype in [DType::I64, DType::I32, DType::U8] {
            for (shape, index) in
                [(&[7usize][..], &[5usize][..]), (&[4, 6], &[9, 6]), (&[4, 6], &[3, 2]), (&[5, 4, 3], &[5, 4, 3]), (&[5, 4], &[0, 4]), (&[30, 20], &[70, 20])]
            {
                let (x, i) = (Shape::new(shape).unwrap(), Shape::new(index).unwrap());
                for axis in 0..x.rank() {
                    if (0..x.rank()).any(|k| k != axis && i[k] > x[k]) {
                        continue;
                    }
                    for layout in [Lay::Dense, Lay::Column, Lay::Strided, Lay::Transposed, Lay::Scalar] {
                        let at = Tens::random(index_dtype, &i, layout, 0.0, x[axis] as f64 - 0.01, 3);
                        let a = axis as u8;
                        let kernel = Kernel::new(KernelKind::Primitive(Op::Gather { axis: a }));
                        let from = Tens::random(dtype, &x, if layout == Lay::Dense { Lay::Dense } else { Lay::Transposed }, 0.0, 5.0, 1);
                        check_exact(&Case::new(&kernel, i).input(from).input(at.clone()).output(dtype, i), &Op::Gather { axis: a }, Arg::None);
                        for mode in [ScatterMode::Set, ScatterMode::Add, ScatterMode::Mul, ScatterMode::Max, ScatterMode::Min] {
                            let kernel = Kernel::new(KernelKind::Scatter { axis: a, mode });
                            let (lo, hi) = if mode == ScatterMode::Mul && dtype.is_float() { (0.9, 1.1) } else { (-3.0, 3.0) };
                            let source = Tens::random(dtype, &i, Lay::Transposed, lo, hi, 2);
                            let case = Case::new(&kernel, i).input(at.clone()).input(source).output_holding(Tens::random(dtype, &x, Lay::Dense, lo, hi, 5));
                            check_scatter(&case, &Op::Scatter { axis: a, mode });
                        }
                    }
                }
            }
        }
    }
}
#[test]
fn segments_of_every_axis_and_layout() {
    for (shape, cuts) in
        [(&[7usize][..], &[0.0, 3.0, 3.0, 7.0][..]), (&[3, 6, 5], &[0.0, 0.0, 6.0]), (&[4, 0], &[0.0, 0.0, 0.0]), (&[2, 3000], &[0.0, 1.0, 3000.0])]
    {
        let x = Shape::new(shape).unwrap();
        let axis = x.rank() - 1 - (x.rank() == 3) as usize;
        let offsets = Shape::new(&[&shape[..axis], &[cuts.len()]].concat()).unwrap();
        let lines: usize = shape[..axis].iter().product();
        for (dtype, op) in DType::COMPUTE.into_iter().flat_map(|d| [SegmentOp::Sum, SegmentOp::Max, SegmentOp::Min].map(|op| (d, op))) {
            let recorded = Op::SegmentReduce { op, axis: axis as u8 };
            let kernel = Kernel::new(KernelKind::Primitive(recorded.clone()));
            let to = if op == SegmentOp::Sum { dtype.sum_dtype() } else { dtype };
            for layout in [Lay::Dense, Lay::Column, Lay::Strided, Lay::Transposed, Lay::Scalar] {
                let data = Tens::random(dtype, &x, layout, -3.0, 3.0, 1);
                let at = Tens::of(DType::I64, &offsets, cuts.repeat(lines));
                let out = x.with(axis, cuts.len() - 1);
                check(&Case::new(&kernel, out).input(data).input(at).output(to, out), &recorded, Arg::None);
            }
        }
    }
}
#[test]
fn wrong_offsets_give_zero_and_the_first_fault() {
    let (x, offsets) = (Shape::new(&[5]).unwrap(), Shape::new(&[4]).unwrap());
    let recorded = Op::SegmentReduce { op: SegmentOp::Sum, axis: 0 };
    let kernel = Kernel::new(KernelKind::Primitive(recorded.clone()));
    for (cuts, fault) in [([0.0, 2.0, 1.0, 5.0], (1, 2)), ([1.0, 2.0, 3.0, 5.0], (1, 0)), ([0.0, 2.0, 3.0, 4.0], (4, 3)), ([0.0, 6.0, 3.0, 5.0], (6, 1))] {
        let case = Case::new(&kernel, x.with(0, 3)).input(Tens::random(DType::F32, &x, Lay::Dense, 1.0, 2.0, 1));
        let ran = check_exact(&case.input(Tens::of(DType::I64, &offsets, cuts.to_vec())).output(DType::F32, x.with(0, 3)), &recorded, Arg::None);
        assert_eq!(ran.fault, Some(Fault::Index { index: fault.0, bound: 6, position: fault.1 }), "{cuts:?}");
    }
}
#[test]
fn bad_indices_give_zero_and_the_first_fault() {
    let (x, i) = (Shape::new(&[4, 2]).unwrap(), Shape::new(&[3, 2]).unwrap());
    let index = || Tens::of(DType::I64, &i, vec![0.0, 3.0, 1.0, 4.0, -1.0, 2.0]);
    let kernel = Kernel::new(KernelKind::Primitive(Op::Gather { axis: 0 }));
    let ran = check_exact(
        &Case::new(&kernel, i).input(Tens::random(DType::F32, &x, Lay::Dense, 1.0, 2.0, 1)).input(index()).output(DType::F32, i),
        &Op::Gather { axis: 0 },
        Arg::None,
    );
    assert_eq!(ran.fault, Some(Fault::Index { index: 4, bound: 4, position: 3 }));
    let kernel = Kernel::new(KernelKind::Scatter { axis: 0, mode: ScatterMode::Add });
    let case = Case::new(&kernel, i).input(index()).input(Tens::random(DType::F32, &i, Lay::Dense, 1.0, 2.0, 1)).output_holding(Tens::random(
        DType::F32,
        &x,
        Lay::Dense,
        1.0,
        2.0,
        2,
    ));
    let ran = check_scatter(&case, &Op::Scatter { axis: 0, mode: ScatterMode::Add });
    assert_eq!(ran.fault, Some(Fault::Index { index: 4, bound: 4, position: 3 }));
}
#[test]
fn memory_is_adopted_uploaded_and_refused_by_type() {
    let b = backend(1, None);
    let data = vec![1.5f32; 100];
    let at = data.as_ptr() as usize;
    let m = b.adopt(HostVec::F32(data)).unwrap();
    assert_eq!(m.host().unwrap().as_ptr() as usize, at);
    assert!(matches!(b.alloc(1 << 60), Err(ErrorKind::OutOfMemory { asked, .. }) if asked == 1 << 60));
    let mut m = b.alloc(64).unwrap();
    b.upload(&mut *m, 4, &[1, 2, 3]).unwrap();
    let mut back = [9u8; 5];
    b.download(&*m, 3, &mut back).unwrap();
    assert_eq!(back, [0, 1, 2, 3, 0]);
    assert!(b.upload(&mut *m, 62, &[0; 3]).is_err() && b.download(&*m, 62, &mut back).is_err());
}
#[test]
fn settings_can_be_read_back_and_bad_ones_are_typed_errors() {
    use adamant_backend_cpu::{CpuBackend, Isa};
    let b = CpuBackend::builder().threads(3).isa(Isa::Scalar).build().unwrap();
    let detail = |name| b.info().details.iter().find(|d| d.0 == name).map(|d| d.1.clone()).unwrap();
    assert_eq!((detail("threads"), detail("isa"), detail("blas")), ("3".into(), "scalar".into(), "own".into()));
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    assert_eq!(CpuBackend::builder().with_pool(pool).build().unwrap().info().parallelism, 2);
    assert_eq!(CpuBackend::builder().single_threaded().build().unwrap().info().parallelism, 1);
    for name in ["openblas", "mkl", "fast"] {
        assert!(matches!(CpuBackend::builder().blas(name).build(), Err(ErrorKind::Unsupported { .. })), "{name}");
    }
}
#[test]
fn a_submit_inside_the_pool_neither_hangs_nor_differs() {
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    let b = adamant_backend_cpu::CpuBackend::builder().with_pool(pool.clone()).build().unwrap();
    let s = Shape::new(&[500, 800]).unwrap();
    let (e, _, t) = chain(DType::F32);
    let kernel = Kernel::new(KernelKind::Map { expr: e, outputs: vec![t] });
    let case = Case::new(&kernel, s)
        .input(Tens::random(DType::F32, &s, Lay::Dense, -1.0, 1.0, 1))
        .input(Tens::random(DType::F32, &s, Lay::Row, -1.0, 1.0, 2))
        .input(Tens::random(DType::F32, &s, Lay::Column, -1.0, 1.0, 3))
        .output(DType::F32, s);
    let want = case.run(&backend(1, None)).outputs;
    let same = std::sync::atomic::AtomicUsize::new(0);
    pool.scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|_| {
                if case.run(&b).outputs == want {
                    same.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(same.into_inner(), 8);
}
