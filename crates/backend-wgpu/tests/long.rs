//! Axes that are longer than the rounds an invocation's loops may make: Mesa's llvmpipe ends them after 65,535, all loops of an
//! invocation together, and goes on with what it has. Every family that walks along an axis is compared with the reference.
mod common;

use adamant_backend_wgpu::WgpuBackend;
use adamant_conformance::{
    data::{Spread, download, draw, upload},
    random::Random,
    tolerance,
};
use adamant_core::{DType, Device, HostArray, SegmentReduce, Segments, Shape, Tensor, composite::loss::Reduction, functional as f};
use common::device_of;
use std::{
    io::Write,
    sync::{Mutex, OnceLock},
};

fn device() -> Option<Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    *DEVICE.get_or_init(|| device_of(WgpuBackend::open_with_cache(0, None)))
}
/// The lengths of the axis.
const LENGTHS: [usize; 2] = [100_003, 300_007];

/// An input; `n` stands for the length.
#[derive(Clone, Copy)]
enum In {
    /// small whole numbers, as floats: their sums are exact
    Whole(&'static [usize]),
    /// floats from -2 to 2, differentiated
    Float(&'static [usize]),
    /// floats around one
    NearOne(&'static [usize]),
    /// integers below a bound
    Below(&'static [usize], usize, DType),
}
use In::{Below, Float, NearOne, Whole};
/// The length of the case, in a shape.
const N: usize = usize::MAX;

struct Case {
    name: &'static str,
    inputs: &'static [In],
    function: fn(&[Tensor]) -> Tensor,
}
/// The value, and the gradients of the inputs that are differentiated. The cotangent is not constant, and of whole numbers.
fn run(case: &Case, n: usize, device: Device) -> Result<Vec<HostArray>, String> {
    let shape = |of: &[usize]| Shape::new(&of.iter().map(|&d| if d == N { n } else { d }).collect::<Vec<_>>()).unwrap();
    device
        .scoped(|| {
            let mut inputs = Vec::new();
            for (k, input) in case.inputs.iter().enumerate() {
                let (of, dtype, spread) = match *input {
                    Whole(of) => (of, DType::F32, Spread::Coarse),
                    Float(of) => (of, DType::F32, Spread::Within(-2.0, 2.0)),
                    NearOne(of) => (of, DType::F32, Spread::Within(0.9999, 1.0001)),
                    Below(of, bound, dtype) => (of, dtype, Spread::Below(if bound == N { n } else { bound })),
                };
                let x = upload(&draw(shape(of), dtype, spread, &mut Random::new(k as u64 + 5)), device);
                inputs.push(if matches!(input, Float(_)) { x.tracked() } else { x });
            }
            let y = (case.function)(&inputs);
            let meta = y.try_meta()?;
            let mut all = vec![download(&y)?];
            let tracked: Vec<&Tensor> = inputs.iter().zip(case.inputs).filter(|(_, i)| matches!(i, Float(_))).map(|(x, _)| x).collect();
            if !tracked.is_empty() {
                let weight = HostArray::floats(meta.shape, meta.dtype, (0..meta.shape.elements()).map(|k| (k % 5) as f64 - 2.0).collect::<Vec<_>>());
                let grads = (&y * upload(&weight, device)).sum(..).backward()?;
                for x in tracked {
                    all.push(download(grads.get(x).unwrap())?);
                }
            }
            Ok(all)
        })
        .map_err(|e: adamant_core::Error| e.to_string())
}
/// Compares all cases at both lengths.
fn check(cases: &[Case]) {
    let Some(device) = device() else { return };
    // One at a time: a case holds some hundred megabytes on the reference.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let mut wrong = Vec::new();
    for (case, n) in cases.iter().flat_map(|case| LENGTHS.map(|n| (case, n))) {
        match (run(case, n, device), run(case, n, Device::reference())) {
            (Ok(got), Ok(want)) => {
                assert_eq!(got.len(), want.len());
                let of = got.iter().zip(&want).enumerate();
                wrong.extend(of.filter_map(|(k, (g, w))| tolerance::composed(g, w).err().map(|why| format!("{} of {n}, result {k}: {why}", case.name))));
            }
            (got, want) => wrong.push(format!("{} of {n}: {:?} / {:?}", case.name, got.err(), want.err())),
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    let _ = writeln!(std::io::stderr(), "{} cases of {LENGTHS:?}", cases.len());
}

#[test]
fn reductions_end_early() {
    check(&[
        Case { name: "sum", inputs: &[Whole(&[N])], function: |x| x[0].sum(..) },
        Case { name: "sum of columns", inputs: &[Whole(&[N, 3])], function: |x| x[0].sum(0) },
        Case { name: "sum of rows", inputs: &[Whole(&[2, N])], function: |x| x[0].sum(1) },
        Case { name: "product", inputs: &[Below(&[N], 1000, DType::I32)], function: |x| (&x[0] * 2i32 + 1i32).prod(..) },
        Case { name: "largest of columns", inputs: &[Float(&[N, 2])], function: |x| x[0].amax(0) },
        Case { name: "sum of bytes", inputs: &[Below(&[2, N], 200, DType::U8)], function: |x| x[0].sum(1) },
        Case { name: "place of the largest", inputs: &[Below(&[2, N], N, DType::I32)], function: |x| x[0].argmax(1) },
        Case { name: "places of the largest of columns", inputs: &[Below(&[N, 2], N, DType::I32)], function: |x| x[0].argmax(0) },
        Case { name: "places of the least of columns", inputs: &[NearOne(&[N, 3])], function: |x| x[0].argmin(0) },
        Case { name: "median", inputs: &[Below(&[N], N, DType::I32)], function: |x| x[0].sort(0, true).0 },
    ]);
}
#[test]
fn scans_end_early() {
    check(&[
        Case { name: "running sum", inputs: &[Whole(&[N])], function: |x| x[0].cumsum(0) },
        Case { name: "running sum of columns", inputs: &[Whole(&[N, 2])], function: |x| x[0].cumsum(0) },
        Case { name: "running product", inputs: &[Below(&[N], 1000, DType::I32)], function: |x| (&x[0] * 2i32 + 1i32).cumprod(0) },
        Case { name: "running product of signs", inputs: &[Below(&[N, 2], 2, DType::F32)], function: |x| (&x[0] * 2.0 - 1.0).cumprod(0) },
        Case { name: "running maximum", inputs: &[Below(&[2, N], N, DType::I32)], function: |x| x[0].cummax(1).0 },
        Case { name: "places of the running maximum", inputs: &[Below(&[2, N], N, DType::I32)], function: |x| x[0].cummax(1).1 },
        Case { name: "recurrence", inputs: &[NearOne(&[N]), Float(&[N])], function: |x| (&x[0] * 0.5).linear_recurrence(&x[1], 0, false) },
        Case { name: "recurrence backwards", inputs: &[NearOne(&[2, N]), Whole(&[2, N])], function: |x| (&x[0] * 0.5).linear_recurrence(&x[1], 1, true) },
    ]);
}
#[test]
fn scatters_and_segments_end_early() {
    check(&[
        Case { name: "scatter of a line", inputs: &[Whole(&[7]), Below(&[N], 7, DType::I32), Whole(&[N])], function: |x| x[0].scatter_add(0, &x[1], &x[2]) },
        Case {
            name: "scatter of columns",
            inputs: &[Whole(&[7, 2]), Below(&[N, 2], 7, DType::I64), Whole(&[N, 2])],
            function: |x| x[0].scatter(0, &x[1], &x[2]),
        },
        Case {
            name: "scatter of 16 bits",
            inputs: &[Whole(&[300_000]), Below(&[N], 300_000, DType::I32), Whole(&[N])],
            function: |x| x[0].cast(DType::BF16).scatter_add(0, &x[1], &x[2].cast(DType::BF16)),
        },
        Case {
            name: "rows for one place",
            inputs: &[Whole(&[2, 32]), Below(&[N, 1], 2, DType::I32), Whole(&[1, 32])],
            function: |x| {
                let rows = [x[1].shape().unwrap()[0], 32];
                x[0].scatter_add(0, &x[1].expand(rows), &x[2].expand(rows))
            },
        },
        Case {
            name: "one segment",
            inputs: &[Whole(&[N, 2])],
            function: |x| {
                let n = x[0].shape().unwrap()[0] as i64;
                let lengths = Tensor::from_vec_on(vec![0, n - 3, 3], [3], x[0].device().unwrap());
                x[0].segment_reduce(SegmentReduce::Sum, Segments::Lengths(&lengths), 0, None)
            },
        },
        Case {
            name: "segments by their ids",
            inputs: &[Whole(&[N]), Below(&[N], 5, DType::I32)],
            function: |x| x[0].segment_reduce(SegmentReduce::Max, Segments::Ids(&x[1].sort(0, false).0, 5), 0, Some(1.0)),
        },
    ]);
}
#[test]
fn products_and_convolutions_end_early() {
    check(&[
        Case { name: "product", inputs: &[Whole(&[2, N]), Whole(&[N, 3])], function: |x| x[0].matmul(&x[1]) },
        Case { name: "product of a row and many columns", inputs: &[Whole(&[1, N]), Whole(&[N, 70])], function: |x| x[0].matmul(&x[1]) },
        Case { name: "outer product", inputs: &[Float(&[N, 1]), Whole(&[1, 2])], function: |x| x[0].matmul(&x[1]) },
        Case {
            name: "convolution of a long line",
            inputs: &[Whole(&[1, 1, N]), Float(&[2, 1, 3])],
            function: |x| f::conv1d(&x[0], &x[1], None, &f::ConvOptions::default()),
        },
        Case {
            name: "convolution of an image",
            inputs: &[Whole(&[2, 1, 3, N]), Float(&[1, 1, 2, 2])],
            function: |x| f::conv2d(&x[0], &x[1], None, &f::ConvOptions::default()),
        },
        Case {
            name: "convolution of many channels",
            inputs: &[Whole(&[1, N, 2]), Whole(&[1, N, 1])],
            function: |x| f::conv1d(&x[0], &x[1], None, &f::ConvOptions::default()),
        },
        Case { name: "average of a line", inputs: &[Whole(&[1, 2, N])], function: |x| f::avg_pool1d(&x[0], &f::AvgPoolOptions::new(x[0].shape().unwrap()[2])) },
        Case {
            name: "maximum of a line",
            inputs: &[Whole(&[1, 2, N])],
            function: |x| f::max_pool1d(&x[0], &f::MaxPoolOptions::new(x[0].shape().unwrap()[2])).0,
        },
    ]);
}
#[test]
fn rows_end_early() {
    check(&[
        Case { name: "softmax", inputs: &[Float(&[2, N])], function: |x| x[0].softmax(1) },
        Case { name: "log softmax", inputs: &[Float(&[N, 2])], function: |x| x[0].log_softmax(0) },
        Case { name: "layer norm", inputs: &[Float(&[2, N])], function: |x| f::layer_norm(&x[0], [x[0].shape().unwrap()[1]], None, None, 1e-5) },
        Case { name: "layer norm of many rows", inputs: &[Float(&[N, 2]), Whole(&[2])], function: |x| f::layer_norm(&x[0], [2], Some(&x[1]), None, 1e-5) },
        Case { name: "batch norm", inputs: &[Float(&[N, 2])], function: |x| f::batch_norm_training(&x[0], None, None, 1e-5).0 },
        Case { name: "group norm", inputs: &[Float(&[1, 2, N])], function: |x| f::group_norm(&x[0], 1, None, None, 1e-5) },
        Case {
            name: "cross entropy of many classes",
            inputs: &[Float(&[2, N]), Below(&[2], N, DType::I64)],
            function: |x| f::cross_entropy(&x[0], &x[1], &f::CrossEntropyOptions { label_smoothing: 0.1, ..Default::default() }),
        },
        Case {
            name: "cross entropy of many rows",
            inputs: &[Float(&[N, 2]), Below(&[N], 2, DType::I64)],
            function: |x| f::cross_entropy(&x[0], &x[1], &f::CrossEntropyOptions { reduction: Reduction::Mean, ..Default::default() }),
        },
    ]);
}
/// An invocation of attention walks all keys, or all queries: a driver that ends its loops is told to the user.
#[test]
fn attention_sees_some_of_the_keys() {
    let Some(device) = device() else { return };
    let attend: fn(&[Tensor]) -> Tensor = |x| f::scaled_dot_product_attention(&x[0], &x[1], &x[2], &f::AttentionOptions::default());
    let cases = [
        Case { name: "to many keys", inputs: &[Float(&[2, 4]), Float(&[N, 4]), Float(&[N, 4])], function: attend },
        Case { name: "of many queries", inputs: &[Float(&[N, 4]), Float(&[2, 4]), Float(&[2, 4])], function: attend },
    ];
    for (case, n) in cases.iter().flat_map(|case| [10_007, LENGTHS[0], LENGTHS[1]].map(|n| (case, n))) {
        match run(case, n, device) {
            Ok(got) => {
                let want = run(case, n, Device::reference()).unwrap();
                got.iter().zip(&want).for_each(|(g, w)| tolerance::composed(g, w).unwrap_or_else(|why| panic!("{} of {n}: {why}", case.name)));
            }
            Err(e) => assert!(n > 10_007 && e.contains("whose loops end after 65535 rounds"), "{} of {n}: {e}", case.name),
        }
    }
}
