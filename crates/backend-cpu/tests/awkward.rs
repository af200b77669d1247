//! Kernels whose way depends on sizes and values (strides, digits, parts for threads, elements that interleave), at sizes and values
//! that are awkward for them: the bits of the reference, for any number of threads and any instruction set.
#![allow(clippy::unwrap_used)]
use adamant_backend_cpu::{Context, CpuBackend, Isa};
use adamant_core::{functional::*, tensor::ScatterReduce, *};

fn devices() -> Vec<Device> {
    let threads = [1, 2, 8].into_iter().map(|t| CpuBackend::builder().threads(t));
    let sets = Isa::ALL.into_iter().filter(|i| i.is_available()).map(|isa| CpuBackend::builder().threads(2).isa(isa));
    threads.chain(sets).map(|b| Context::new(b).unwrap().device()).collect()
}
fn whole_numbers(n: usize, seed: u32, below: u64) -> Vec<i64> {
    (0..n as u64).map(|k| (rng::element_bits([seed, 0, 0, 0], k) as u64 % below) as i64).collect()
}
/// The bits of all results, as f64 or i64 have them.
fn bits(results: &[Tensor]) -> Vec<Vec<u64>> {
    let of = |t: &Tensor| match t.dtype().unwrap().is_float() {
        true => t.cast(DType::F64).to_vec::<f64>().unwrap().into_iter().map(|v| if v.is_nan() { 1 } else { v.to_bits() }).collect(),
        false => t.cast(DType::I64).to_vec::<i64>().unwrap().into_iter().map(|v| v as u64).collect(),
    };
    results.iter().map(of).collect()
}
fn check(what: &str, f: impl Fn() -> Vec<Tensor>) {
    let want = Device::reference().scoped(|| bits(&f()));
    for device in devices() {
        let got = device.scoped(|| bits(&f()));
        assert!(got == want, "{what}: other bits than the reference's");
    }
}
/// Numbers among which some are equal, infinite or none at all; of the first hundred all are the least.
fn wild(n: usize, dtype: DType) -> Tensor {
    if !dtype.is_float() {
        let all: Vec<i64> = whole_numbers(n, 1, 40).into_iter().enumerate().map(|(k, v)| if k < 100 { i64::MIN } else { v }).collect();
        return Tensor::from_vec(all, [n]).cast(dtype);
    }
    let value = |(k, v): (usize, i64)| match (k, v) {
        (..100, _) => f64::NEG_INFINITY,
        (_, 0) => f64::NAN,
        (_, 1) => f64::INFINITY,
        (_, 2) => -0.0,
        (_, v) => (v - 20) as f64 / 4.0,
    };
    let all: Vec<f64> = whole_numbers(n, 1, 40).into_iter().enumerate().map(value).collect();
    Tensor::from_vec(all, [n]).cast(dtype)
}

#[test]
fn maxima_of_windows_of_every_stride() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I64, DType::I32, DType::U8] {
        for (size, stride, padding) in
            [(1, 1, 0), (3, 1, 1), (2, 2, 1), (3, 2, 1), (3, 3, 0), (5, 3, 2), (4, 4, 2), (3, 5, 1), (7, 7, 3), (2, 9, 0), (3, 60, 1)]
        {
            let options = MaxPoolOptions { stride: Some(stride.into()), padding: padding.into(), ..MaxPoolOptions::new(size) };
            check(&format!("{dtype} {options:?}"), || {
                let x = wild(2 * 3 * 17 * 50, dtype);
                let line = max_pool1d(&x.reshape([6, 17, 50]), &options);
                let plane = max_pool2d(&x.reshape([2, 3, 17, 50]), &options);
                let ceiled = max_pool1d(&x.reshape([1, 51, 100]), &MaxPoolOptions { ceil_mode: true, ..options.clone() });
                vec![line.0, line.1, plane.0, plane.1, ceiled.0, ceiled.1]
            });
        }
    }
}
#[test]
fn sorts_of_keys_of_every_width() {
    for n in [0, 1, 100, 300, 9000] {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::U8] {
            check(&format!("{n} of {dtype}"), || [false, true].map(|down| wild(n, dtype).argsort(0, down)).into());
        }
        for below in [1, 7, 1 << 20, u64::from(u32::MAX)] {
            for scale in [1, 1 << 20, 1 << 31] {
                check(&format!("{n} numbers below {below} times {scale}"), || {
                    let x = Tensor::from_vec(whole_numbers(n, 3, below), [n]) * scale - 5i64;
                    let (values, at) = x.sort(0, true);
                    vec![values, at, x.argsort(0, false)]
                });
            }
        }
    }
}
#[test]
fn scatters_that_are_shared_out() {
    // Few places, few columns, many columns, an index for each row.
    for (bound, n, columns) in [(50, 40_000, 1), (30_000, 40_000, 1), (70, 4000, 9), (100, 900, 70), (2000, 900, 70)] {
        for dtype in [DType::F32, DType::I64, DType::I32, DType::BF16] {
            check(&format!("{n} rows of {columns} {dtype} into {bound}"), || {
                let x = Tensor::from_vec(whole_numbers(bound * columns, 1, 100), [bound, columns]).cast(dtype);
                let source = Tensor::from_vec(whole_numbers(n * columns, 2, 1000), [n, columns]).cast(dtype) - 500i64;
                let index = Tensor::from_vec(whole_numbers(n * columns, 3, bound as u64), [n, columns]);
                let row = Tensor::from_vec(whole_numbers(n, 4, bound as u64), [n, 1]).expand([n, columns]);
                let amax = |at: &Tensor| x.scatter_reduce(0, at, &source, ScatterReduce::Amax, true);
                vec![x.scatter_add(0, &index, &source), x.scatter_add(0, &row, &source), amax(&index), amax(&row)]
            });
        }
    }
    for device in devices() {
        device.scoped(|| {
            let mut at = whole_numbers(40_000, 5, 50);
            at[20_001] = -3;
            at[30_000] = 70;
            let sum = Tensor::zeros([50]).cast(DType::I64).scatter_add(0, &Tensor::from_vec(at, [40_000]), &Tensor::ones([40_000]).cast(DType::I64));
            assert!(sum.to_vec::<i64>().unwrap_err().to_string().contains("-3"));
        });
    }
}
#[test]
fn counts_and_picked_elements() {
    check("counts", || {
        let x = Tensor::from_vec(whole_numbers(50_000, 1, 37), [50_000]);
        vec![x.bincount(None, 50), Tensor::zeros([0]).cast(DType::I64).bincount(None, 3)]
    });
    for (rows, columns) in [(1, 5), (300, 7), (70_000, 3)] {
        check(&format!("one of each of {rows} rows"), || {
            let x = wild(rows * columns, DType::F32).reshape([rows, columns]);
            let index = Tensor::from_vec(whole_numbers(rows, 2, columns as u64), [rows, 1]);
            vec![x.gather(1, &index), x.reshape([columns, rows]).mt().gather(1, &index)]
        });
    }
}
#[test]
fn elements_that_interleave() {
    for dtype in [DType::F32, DType::F64, DType::I8, DType::BF16] {
        for times in [2, 3, 4, 5, 8, 9] {
            check(&format!("{times} times {dtype}"), || {
                let x = Tensor::from_vec(whole_numbers(6 * 7 * 11, 1, 100), [6, 7, 11]).cast(dtype);
                let apart = Tensor::from_vec(whole_numbers(3 * 81 * 2 * 5, 2, 100), [3 * 81, 2, 5]).cast(dtype).narrow(0, 0, 2 * times * times);
                let transposed = x.narrow(1, 0, times.min(7)).transpose(1, 2).reshape([-1]);
                vec![x.repeat_interleave(times, 2), x.repeat_interleave(times, 1), x.mt().repeat_interleave(times, 1), pixel_shuffle(&apart, times), transposed]
            });
        }
    }
}
#[test]
fn products_of_whole_numbers() {
    for dtype in [DType::I64, DType::I32, DType::U32] {
        for (m, n, k) in [(1, 1, 1), (5, 9, 3), (33, 17, 40), (2, 3, 0)] {
            for scale in [1i64, 1 << 28] {
                check(&format!("{dtype} {m} {n} {k} times {scale}"), || {
                    let of = |seed, rows: usize, columns: usize| {
                        (Tensor::from_vec(whole_numbers(2 * rows * columns, seed, 4000), [2, rows, columns]) * scale - 2000i64).cast(dtype)
                    };
                    let (a, b) = (of(1, m, k), of(2, k, n));
                    vec![a.matmul(&b), a.select(0, 0).matmul(b.select(0, 1)), b.mt().matmul(a.mt())]
                });
            }
        }
    }
}
#[test]
fn batches_of_products_of_whole_numbers() {
    for dtype in [DType::I64, DType::I32, DType::U32] {
        for (batch, m, n, k) in [(300, 8, 8, 8), (3, 70, 50, 60), (40, 1, 9, 33)] {
            check(&format!("{batch} of {dtype} {m} {n} {k}"), || {
                let of = |seed, count: usize| Tensor::from_vec(whole_numbers(count, seed, 1 << 33), [count]).cast(dtype);
                let (a, b) = (of(1, batch * m * k).reshape([batch, m, k]), of(2, 2 * k * n).reshape([2, 1, k, n]));
                vec![a.matmul(&b), a.flip([0]).matmul(b.select(0, 1)), b.mt().matmul(a.mt())]
            });
        }
    }
}
#[test]
fn means_of_windows_that_differ() {
    for (size, out) in [([7, 5], [3, 4]), ([30, 30], [7, 7]), ([5, 4], [7, 3]), ([1, 3], [2, 2])] {
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let x = || Tensor::from_vec(whole_numbers(2 * size[0] * size[1], 1, 1000), [1, 2, size[0], size[1]]).cast(dtype) * 0.25;
            let of = || adaptive_avg_pool(&x(), &out.map(Some)).cast(DType::F64).to_vec::<f64>().unwrap();
            for device in devices() {
                let (x, got) = device.scoped(|| (x().cast(DType::F64).to_vec::<f64>().unwrap(), of()));
                for (at, got) in got.iter().enumerate() {
                    let (plane, i, j) = (at / (out[0] * out[1]), at / out[1] % out[0], at % out[1]);
                    let range = |axis: usize, i: usize| i * size[axis] / out[axis]..((i + 1) * size[axis]).div_ceil(out[axis]);
                    let all: Vec<f64> = range(0, i).flat_map(|r| range(1, j).map(move |c| (plane * size[0] + r) * size[1] + c)).map(|k| x[k]).collect();
                    let want = all.iter().sum::<f64>() / all.len() as f64;
                    let tolerance = if dtype == DType::BF16 { 4e-3 } else { 1e-6 };
                    assert!((got - want).abs() <= tolerance * want.abs(), "{dtype} {size:?} to {out:?}: {got} for {want}");
                }
            }
        }
    }
}
