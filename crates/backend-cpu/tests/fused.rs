//! Kernels of whole compounds: the bits of the compounds' bodies, over shapes, dtypes, threads and instruction sets.
#![allow(clippy::unwrap_used)]
mod devices;
use adamant_core::{
    composite::{
        attention::{Attention, AttentionBackward},
        ctc::{CtcAlignments, CtcAlignmentsBackward},
        fourier::{Fourier, FourierKind},
        keyed,
        loss::{CrossEntropy, CrossEntropyBackward, CrossEntropyWithBackward, Reduction},
        norm::{Norm, NormBackward, Over},
        packed::{Activations, CodeLevels, CodedInputs, Packing, QuantizedConv, QuantizedLinear},
        search::SearchSorted,
        softmax::{LogSoftmax, LogSoftmaxBackward, Softmax, SoftmaxBackward},
        sorted_range::SortedRange,
        taps::{Taps, TapsBackward},
        true_places::TruePlaces,
    },
    op::{ConvRole, ConvSpec},
    *,
};
use devices::devices;
use std::sync::Arc;

#[path = "fused/codes.rs"]
mod codes;

fn numbers(shape: &[usize], seed: u32, dtype: DType) -> Tensor {
    let n: usize = shape.iter().product();
    let v = (0..n as u64).map(|k| (rng::element_bits([seed, 0, 0, 0], k) >> 8) as f64 / (1 << 21) as f64 - 4.0).collect::<Vec<f64>>();
    Tensor::from_vec(v, shape).cast(dtype)
}
fn positive(shape: &[usize], seed: u32, dtype: DType) -> Tensor {
    numbers(shape, seed, dtype).abs() + 0.25
}
fn ty(t: &Tensor) -> TensorType {
    TensorType { shape: t.shape().unwrap(), dtype: t.dtype().unwrap() }
}
/// Values as f64, whose bits tell those of every narrower float.
fn bits(tensors: &[Tensor]) -> Vec<Vec<u64>> {
    let canonical = |v: &f64| if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() };
    tensors.iter().map(|t| t.cast(DType::F64).to_vec::<f64>().unwrap().iter().map(canonical).collect()).collect()
}
/// The composite, claimed by the device, against its body on the same device; and the same bits on every device.
fn check<C: Compound + Clone>(composite: &C, inputs: impl Fn() -> Vec<Tensor>) {
    let mut first: Option<Vec<Vec<u64>>> = None;
    for (name, device) in devices(&[1, 2, 8]) {
        device.scoped(|| {
            let inputs = inputs();
            let what = || format!("{composite:?} of {:?} on {name}", inputs.iter().map(|t| (t.shape().unwrap(), t.dtype().unwrap())).collect::<Vec<_>>());
            let hidden = composite.auxiliary();
            let fused = Tensor::apply_many(Op::Composite(keyed(composite.clone())), Arg::None, &inputs.iter().collect::<Vec<_>>(), Origin::here());
            let body = composite.body(&inputs).unwrap();
            assert_eq!(fused.len(), body.len(), "{} ({hidden} hidden)", what());
            let (fused, body) = (bits(&fused), bits(&body));
            for (k, (f, b)) in fused.iter().zip(&body).enumerate() {
                for (at, (&f, &b)) in f.iter().zip(b).enumerate() {
                    assert!(f == b, "{}: output {k} element {at} is {:e}, the body's {:e}", what(), f64::from_bits(f), f64::from_bits(b));
                }
            }
            match &first {
                None => first = Some(fused),
                Some(first) => assert!(first == &fused, "{}: bits differ between devices", what()),
            }
        });
    }
}
const DTYPES: [DType; 4] = [DType::F32, DType::F64, DType::BF16, DType::F16];

#[test]
fn softmax_and_its_logarithm() {
    let shapes: [(&[usize], usize); 12] = [
        (&[2, 7, 40], 1),
        (&[600, 33], 0),
        (&[2, 20, 3, 150], 1),
        (&[1], 0),
        (&[5, 7], 1),
        (&[3, 1000], 1),
        (&[2, 1300], 1),
        (&[700, 33], 1),
        (&[40, 21], 0),
        (&[2, 50, 3, 7], 1),
        (&[0, 4], 1),
        (&[4, 0], 1),
    ];
    for dtype in DTYPES {
        for (shape, axis) in shapes {
            let (g, x) = (|| numbers(shape, 1, dtype), || numbers(shape, 2, dtype));
            check(&Softmax { axis }, || vec![x()]);
            check(&LogSoftmax { axis }, || vec![x()]);
            check(&SoftmaxBackward { axis }, || vec![g(), x()]);
            check(&LogSoftmaxBackward { axis }, || vec![g(), x()]);
        }
    }
}
#[test]
fn softmax_of_infinities_and_nan() {
    let inf = f64::INFINITY;
    for row in [[inf, 0.0, 1.0], [-inf, -inf, -inf], [-inf, 2.0, -inf], [f64::NAN, 1.0, 2.0], [1e30, -1e30, 0.0]] {
        let x = || Tensor::from_vec(row.to_vec(), [1, 3]).cast(DType::F32);
        check(&Softmax { axis: 1 }, || vec![x()]);
        check(&LogSoftmax { axis: 1 }, || vec![x()]);
    }
}
#[test]
fn norms_over_the_last_axes_and_over_the_batch() {
    let shapes: [(&[usize], usize); 7] = [(&[3, 5], 1), (&[2, 3, 257], 1), (&[300, 40], 1), (&[4, 6, 50], 2), (&[600, 1], 1), (&[3, 1500], 1), (&[0, 5], 1)];
    for dtype in DTYPES {
        for (weight, bias) in [(false, false), (true, false), (false, true), (true, true)] {
            for (shape, axes) in shapes {
                for over in [Over::Layer { axes }, Over::Rms { axes }] {
                    norm(Norm { over, eps: 1e-5, weight, bias }, shape, &shape[shape.len() - axes..], dtype);
                }
            }
            for shape in [&[7, 5][..], &[3, 4, 6], &[2, 3, 16, 16], &[5, 33, 3, 5], &[40, 2, 300], &[300, 3]] {
                norm(Norm { over: Over::Batch, eps: 1e-5, weight, bias }, shape, &shape[1..2], dtype);
            }
        }
    }
}
#[test]
fn norms_of_groups() {
    for dtype in DTYPES {
        for (weight, bias) in [(false, false), (true, false), (false, true), (true, true)] {
            for (shape, groups) in [(&[2, 6][..], 3), (&[3, 4, 7], 2), (&[2, 6, 5, 9], 1), (&[2, 6, 16, 17], 6), (&[40, 8, 30], 4)] {
                norm(Norm { over: Over::Group { groups }, eps: 1e-5, weight, bias }, shape, &shape[1..2], dtype);
            }
        }
    }
}
/// All ranks, few and many, along each axis, of elements among which some are equal.
#[test]
fn ranks_of_a_sort() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I64, DType::I32, DType::U8, DType::I8, DType::U32, DType::Bool] {
        for (shape, axis) in [(&[1][..], 0), (&[5, 300], 1), (&[300, 5], 0), (&[3, 70, 4], 1), (&[2, 2000], 1)] {
            let x = || numbers(shape, 1, DType::F64).floor().abs().cast(dtype);
            let n = shape[axis];
            for (start, len) in [(0, n), (0, 1), (n / 2, 1), (0, n.min(7)), (n / 3, n - n / 3)] {
                for descending in [false, true] {
                    check(&SortedRange { axis, descending, start, len }, || vec![x()]);
                }
            }
        }
    }
}
#[test]
fn places_in_sorted_rows() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I64, DType::U8] {
        for (rows, values) in
            [(&[1][..], &[3, 4][..]), (&[0], &[5]), (&[65], &[2, 300]), (&[3, 5], &[3, 7]), (&[2, 3, 200], &[2, 3, 100]), (&[3000], &[20_000])]
        {
            for right in [false, true] {
                let sorted = || (numbers(rows, 1, DType::F64).abs() * 16.0).floor().sort(-1, false).0.cast(dtype);
                let values = || (numbers(values, 2, DType::F64).abs() * 16.0).floor().cast(dtype);
                check(&SearchSorted { right }, || vec![sorted(), values()]);
            }
        }
    }
    // As the body does it also where a row is not in order.
    let wild = || Tensor::from_vec((0..200).map(|k| if k % 7 == 0 { f32::NAN } else { (k * 37 % 100) as f32 }).collect::<Vec<_>>(), [200]);
    check(&SearchSorted { right: true }, || vec![wild(), wild()]);
}
#[test]
fn places_of_true_flags() {
    for n in [0usize, 1, 63, 64, 65, 1000, 70_000, 200_000] {
        for one_in in [1u64, 2, 9, 100_000] {
            for size in [0usize, 1, 40, 30_000, 250_000] {
                let flags = || Tensor::from_vec((0..n as u64).map(|k| u64::from(rng::element_bits([5, 0, 0, 0], k)) % one_in == 0).collect::<Vec<bool>>(), [n]);
                let slots = || Tensor::from_vec((0..size as i64).map(|k| -1 - k).collect::<Vec<i64>>(), [size]);
                check(&TruePlaces, || vec![flags(), slots()]);
            }
        }
    }
}
#[test]
fn weighted_sums_of_a_few_elements() {
    for dtype in [DType::F32, DType::F64] {
        for (shape, axis) in [(&[7][..], 0), (&[3, 5, 40], 2), (&[3, 5, 40], 1), (&[2, 3, 9, 33], 2), (&[4, 1, 3], 0)] {
            for taps in [1usize, 2, 3, 4] {
                for to in [1usize, 5, 70] {
                    let (n, size) = (shape[axis], taps * to);
                    let index = || Tensor::from_vec((0..size).map(|k| (k * 7 % n) as i32).collect::<Vec<_>>(), [taps, to]);
                    let weight = || numbers(&[taps, to], 2, dtype);
                    check(&Taps { axis }, || vec![numbers(shape, 1, dtype), index(), weight()]);
                    let mut g = shape.to_vec();
                    g[axis] = to;
                    check(&TapsBackward { axis, size: n }, || vec![numbers(&g, 3, dtype), index(), weight()]);
                }
            }
        }
    }
}
/// Samples that end early, that have no step or no label, labels that cannot be and log-probabilities that are none.
#[test]
fn alignments_of_labellings() {
    for dtype in [DType::F32, DType::F64] {
        for (time, n, classes, longest) in [(1usize, 1usize, 1usize, 0usize), (1, 3, 4, 2), (7, 5, 3, 2), (12, 2, 40, 9), (40, 9, 20, 12), (3, 0, 4, 2)] {
            for far in [false, true] {
                let count = 2 * longest + 1;
                let emitted = || {
                    let x = numbers(&[time, n, classes], 1, dtype).log_softmax(2);
                    let rare = numbers(&[time, n, classes], 2, dtype).lt(-3.5);
                    if far { rare.where_(f64::NEG_INFINITY, &x) } else { x }
                };
                let whole = |shape: [usize; 2], seed: u32, below: usize| (numbers(&shape, seed, DType::F64) + 4.0) * (below as f64 / 8.0);
                let label = || whole([n, count], 3, classes).floor().cast(DType::I64).minimum(classes as i64 - 1);
                let skip = || numbers(&[n, count], 4, DType::F32).lt(0.0);
                let of_each = |by: usize, below: usize| Tensor::from_vec((0..n).map(|k| (k * by % below) as i64).collect::<Vec<_>>(), [n, 1]);
                let all = || vec![emitted(), label(), skip(), of_each(time * 2 + 1, time + 2), of_each(3, longest + 1)];
                check(&CtcAlignments, all);
                check(&CtcAlignmentsBackward, || {
                    let of = all();
                    let given = Tensor::apply_many(Op::Composite(keyed(CtcAlignments)), Arg::None, &of.iter().collect::<Vec<_>>(), Origin::here());
                    [vec![numbers(&[n, 1], 5, dtype)], of, vec![given[1].clone()]].concat()
                });
            }
        }
    }
}
#[test]
fn a_class_of_an_alignment_that_is_nowhere() {
    Device::cpu().unwrap().scoped(|| {
        let column = |v: i64| Tensor::from_vec(vec![v], [1, 1]);
        let label = Tensor::from_vec(vec![0i64, 4, 0], [1, 3]);
        let skip = Tensor::from_vec(vec![false; 3], [1, 3]);
        let y = Tensor::composite1(CtcAlignments, &[&Tensor::zeros([2, 1, 4]), &label, &skip, &column(2), &column(1)]);
        let error = y.to_vec::<f32>().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Index { index: 4, bound: 4, .. }), "{error}");
    });
}
#[test]
fn an_index_of_a_weighted_sum_that_is_nowhere() {
    Device::cpu().unwrap().scoped(|| {
        let index = Tensor::from_vec(vec![0i32, 3], [1, 2]);
        let y = Tensor::composite1(Taps { axis: 0 }, &[&Tensor::ones([3]), &index, &Tensor::ones([1, 2])]);
        let error = y.to_vec::<f32>().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Index { index: 3, bound: 3, .. }), "{error}");
    });
}
/// Against sums in f64 of the definition; and the same bits on every device, whoever stands beside a row.
#[test]
fn fourier_transforms() {
    let lengths =
        [1usize, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 30, 31, 37, 45, 64, 74, 100, 125, 243, 256, 257, 360, 509, 512, 1000, 1024, 1155, 2048, 4096, 5000, 8192];
    for dtype in [DType::F32, DType::F64] {
        for n in lengths {
            for rows in [1usize, 3, 16, 37] {
                if n * rows > 20_000 {
                    continue;
                }
                for kind in FourierKind::ALL {
                    for inverse in [false, true] {
                        fourier(Fourier { kind, n, inverse, scale: if inverse { 1.0 / n as f64 } else { 1.0 } }, rows, dtype);
                    }
                }
            }
        }
    }
}
fn fourier(f: Fourier, rows: usize, dtype: DType) {
    let (n, half) = (f.n, f.n / 2 + 1);
    let shape = match f.kind {
        FourierKind::Complex => vec![rows, n, 2],
        FourierKind::RealToHalf => vec![rows, n],
        FourierKind::HalfToReal => vec![rows, half, 2],
    };
    let mut first: Option<Vec<Vec<u64>>> = None;
    for (name, device) in devices(&[1, 2, 8]) {
        device.scoped(|| {
            let x = numbers(&shape, 1, dtype);
            let y = Tensor::composite1(f, &[&x]);
            let result = bits(&[y.clone()]);
            if first.is_none() {
                let (x, y) = (x.cast(DType::F64).to_vec::<f64>().unwrap(), y.cast(DType::F64).to_vec::<f64>().unwrap());
                let row = |of: &[f64]| of.len() / rows;
                let last = rows - 1;
                judge(&f, &x[last * row(&x)..], &y[last * row(&y)..], if dtype == DType::F32 { 1e-6 } else { 1e-14 });
                // A row alone.
                let alone = Tensor::composite1(f, &[&numbers(&shape, 1, dtype).narrow(0, last, 1)]);
                if rows < 16 {
                    assert_eq!(bits(&[alone])[0], result[0][last * row(&y)..], "{f:?} alone, and of {rows} rows");
                }
            }
            match &first {
                None => first = Some(result),
                Some(first) => assert!(first == &result, "{f:?}: bits differ on {name}"),
            }
        });
    }
}
/// The definition, over all points, against a row.
fn judge(f: &Fourier, x: &[f64], y: &[f64], tolerance: f64) {
    let (n, half) = (f.n, f.n / 2 + 1);
    let point = |j: usize| match f.kind {
        FourierKind::Complex => (x[2 * j], x[2 * j + 1]),
        FourierKind::RealToHalf => (x[j], 0.0),
        FourierKind::HalfToReal if j == 0 || 2 * j == n => (x[2 * j], 0.0),
        FourierKind::HalfToReal if j < half => (x[2 * j], x[2 * j + 1]),
        FourierKind::HalfToReal => (x[2 * (n - j)], -x[2 * (n - j) + 1]),
    };
    let size = (0..n).map(|j| point(j).0.powi(2) + point(j).1.powi(2)).sum::<f64>().sqrt();
    let count = if f.kind == FourierKind::RealToHalf { half } else { n };
    // A few of many points.
    for k in (0..count).step_by((count / 40).max(1)).chain([count - 1]) {
        let (mut re, mut im) = (0.0, 0.0);
        for j in 0..n {
            let angle = std::f64::consts::TAU * ((j * k) % n) as f64 / n as f64 * if f.inverse { 1.0 } else { -1.0 };
            let (a, b) = point(j);
            re += a * angle.cos() - b * angle.sin();
            im += a * angle.sin() + b * angle.cos();
        }
        let near = |got: f64, wanted: f64| {
            assert!((got - wanted * f.scale).abs() <= tolerance * f.scale * size * (n as f64).log2().max(1.0), "{f:?} at {k}: {got} for {}", wanted * f.scale)
        };
        if f.kind == FourierKind::HalfToReal {
            near(y[k], re);
        } else {
            near(y[2 * k], re);
            near(y[2 * k + 1], im);
        }
    }
}
fn norm(norm: Norm, shape: &[usize], param: &[usize], dtype: DType) {
    let params = |of: DType| {
        let mut p = Vec::new();
        if norm.weight {
            p.push(numbers(param, 3, of));
        }
        if norm.bias {
            p.push(numbers(param, 4, of));
        }
        p
    };
    let wide = composite::wide::wide(dtype);
    check(&norm, || [vec![numbers(shape, 1, dtype)], params(dtype)].concat());
    check(&norm, || [vec![numbers(shape, 1, dtype)], params(wide)].concat());
    let types = norm.infer(&[vec![numbers(shape, 1, dtype)], params(dtype)].concat().iter().map(ty).collect::<Vec<_>>()).unwrap();
    check(&NormBackward(norm), || {
        let mut inputs = vec![numbers(shape, 2, dtype), numbers(shape, 1, dtype)];
        inputs.extend(params(dtype).into_iter().take(norm.weight as usize));
        for (k, m) in types[1..].iter().enumerate() {
            let last = k + 2 == types.len();
            inputs.push(if last { positive(&m.shape, 6, m.dtype) } else { numbers(&m.shape, 5, m.dtype) });
        }
        inputs
    });
}
#[test]
fn cross_entropy_of_classes() {
    let shapes: [(&[usize], &[usize]); 9] = [
        (&[2, 4, 5, 9], &[2, 5, 9]),
        (&[1, 300, 35], &[1, 35]),
        (&[3, 21, 333], &[3, 333]),
        (&[9], &[]),
        (&[6, 5], &[6]),
        (&[300, 33], &[300]),
        (&[3, 2000], &[3]),
        (&[2, 4, 3, 5], &[2, 3, 5]),
        (&[0, 4], &[0]),
    ];
    for dtype in DTYPES {
        for (shape, targets) in shapes {
            let classes = shape[usize::from(shape.len() > 1)];
            let n: usize = targets.iter().product();
            for reduction in [Reduction::Mean, Reduction::Sum, Reduction::None] {
                for ignore_index in [-100, 2] {
                    let loss = CrossEntropy { probabilities: false, ignore_index, label_smoothing: 0.0, reduction, weight: false };
                    let t = || Tensor::from_vec((0..n).map(|k| (k * 7 % classes) as i64).collect::<Vec<_>>(), targets).cast(DType::I32);
                    check(&loss, || vec![numbers(shape, 1, dtype), t()]);
                    let g: &[usize] = if reduction == Reduction::None { targets } else { &[] };
                    check(&CrossEntropyBackward(loss), || {
                        let x = numbers(shape, 1, dtype);
                        let (wide, axis) = (x.cast(composite::wide::wide(dtype)), (shape.len() > 1) as isize);
                        let largest = wide.amax(axis);
                        let log_sum = (wide - largest.unsqueeze(axis)).exp().sum(axis).log();
                        vec![numbers(g, 2, dtype), x, t(), largest, log_sum]
                    });
                    check(&CrossEntropyWithBackward(loss), || vec![numbers(shape, 1, dtype), t(), numbers(g, 2, dtype)]);
                }
            }
        }
    }
}
#[test]
fn a_loss_and_its_gradient_run_as_one_only_where_both_are_wanted_and_nothing_lies_between() -> Result<()> {
    let shape = [512, 40];
    let t = Tensor::from_vec((0..512).map(|k| k * 7 % 40).collect::<Vec<i64>>(), [512]);
    let cell = Cell::new(&numbers(&shape, 1, DType::F32), true)?;
    let loss = || functional::cross_entropy(&cell.get(), &t, &Default::default());
    let gradient = |loss: &Tensor| -> Result<Vec<Vec<u64>>> { Ok(bits(&[loss.backward()?.of(&cell).cloned().unwrap()])) };
    // Apart: the loss has run when the gradient is asked for.
    let l = loss();
    l.materialize()?;
    let (value, apart) = (l.item::<f32>()?, gradient(&l)?);
    // Together: one kernel less, and the same bits.
    let kernels = |f: &dyn Fn() -> Result<()>| -> Result<u64> {
        schedule::take_stats();
        f()?;
        Ok(schedule::take_stats().kernels)
    };
    let cut = kernels(&|| {
        let l = loss();
        l.materialize()?;
        l.backward().map(drop)
    })?;
    let together = kernels(&|| loss().backward().map(drop))?;
    assert_eq!(cut, together + 1);
    let l = loss();
    let both = gradient(&l)?;
    assert!(both == apart && l.item::<f32>()? == value);
    // Something reads the loss before its gradient is made: two kernels again. Half of a loss has half the gradient.
    let half = gradient(&(loss() * 0.5))?;
    for (h, b) in half[0].iter().zip(&both[0]) {
        assert_eq!(2.0 * f64::from_bits(*h), f64::from_bits(*b));
    }
    // Nobody wants the gradient: it is not computed, and has no memory.
    let (x, g) = (cell.get().detach(), Tensor::ones(()));
    let device = x.device()?;
    let of = CrossEntropy { probabilities: false, ignore_index: -100, label_smoothing: 0.0, reduction: Reduction::Mean, weight: false };
    let memory_with = |keep: bool| -> Result<usize> {
        let (read, memory) = memory::profile_memory(device, || {
            let outputs = Tensor::apply_many(Op::Composite(keyed(of)), Arg::None, &[&x, &t], Origin::here());
            let dx = Tensor::composite1(CrossEntropyBackward(of), &[&g, &x, &t, &outputs[1], &outputs[2]]);
            let dx = keep.then_some(dx);
            outputs[0].item::<f32>().map(|_| dx)
        });
        read.map(|_| memory.peak)
    };
    let of_gradient = 512 * 40 * size_of::<f32>();
    assert!(memory_with(false)? < of_gradient && memory_with(true)? >= of_gradient);
    // A bad class is told of as ever.
    let bad = Tensor::from_vec(vec![40i64; 512], [512]);
    let error =
        functional::cross_entropy(&cell.get(), &bad, &Default::default()).backward().and_then(|g| g.of(&cell).cloned().unwrap().to_vec::<f32>()).unwrap_err();
    assert!(error.to_string().starts_with("cross_entropy: index 40 at position 0"), "{error}");
    Ok(())
}
#[test]
fn a_class_out_of_range_is_a_fault_that_names_it() {
    for (_, device) in devices(&[1, 2, 8]) {
        device.scoped(|| {
            let loss = CrossEntropy { probabilities: false, ignore_index: -100, label_smoothing: 0.0, reduction: Reduction::Mean, weight: false };
            let t = Tensor::from_vec(vec![0i64, 5, 1, 7], [4]);
            let y = Tensor::composite1(loss, &[&numbers(&[4, 5], 1, DType::F32), &t]);
            let error = y.item::<f32>().unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Index { index: 5, bound: 5, position: Some(1), .. }), "{error}");
        });
    }
}
#[test]
fn attention_with_and_without_a_causal_mask() {
    // [batch, heads, key heads, queries, keys, features, features of values]
    let sizes = [
        [1, 1, 1, 1, 1, 1, 1],
        [2, 3, 3, 5, 7, 4, 6],
        [1, 2, 2, 70, 70, 16, 16],
        [1, 4, 2, 9, 9, 8, 8],
        [1, 2, 2, 130, 65, 8, 5],
        [1, 1, 1, 300, 300, 8, 8],
        [1, 2, 1, 65, 513, 4, 4],
    ];
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        for [b, hq, hk, n, m, e, ev] in sizes {
            for causal in [false, true] {
                let attention = Attention { scale: 0.37, causal, mask: false, dropout: 0.0 };
                let (q, k, v) =
                    (move || numbers(&[b, hq, n, e], 1, dtype), move || numbers(&[b, hk, m, e], 2, dtype), move || numbers(&[b, hk, m, ev], 3, dtype));
                check(&attention, || vec![q(), k(), v()]);
                let lse = || numbers(&[b, hq, n, 1], 6, composite::wide::wide(dtype)) + 20.0;
                for with_lse in [false, true] {
                    check(&AttentionBackward { forward: attention, with_lse }, || {
                        let mut inputs = vec![numbers(&[b, hq, n, ev], 4, dtype), q(), k(), v(), numbers(&[b, hq, n, ev], 5, dtype), lse()];
                        if with_lse {
                            inputs.push(numbers(&[b, hq, n, 1], 7, composite::wide::wide(dtype)));
                        }
                        inputs
                    });
                }
            }
        }
    }
}
#[test]
fn attention_without_keys_gives_zeros() {
    let attention = Attention { scale: 1.0, causal: false, mask: false, dropout: 0.0 };
    check(&attention, || vec![numbers(&[2, 3, 4], 1, DType::F32), numbers(&[2, 0, 4], 2, DType::F32), numbers(&[2, 0, 5], 3, DType::F32)]);
}
