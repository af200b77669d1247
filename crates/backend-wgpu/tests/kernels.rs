//! Kernels at the sizes where they change their way of working — rows that a workgroup shares, sums in pieces, several
//! tiles, more operands than are bound at once — with their gradients, against the reference. The suite has the same
//! functions at small sizes.
mod common;

use adamant_backend_wgpu::WgpuBackend;
use adamant_conformance::{
    data::{Spread, download, draw, upload},
    random::Random,
    tolerance,
};
use adamant_core::{
    Arg, Cell, DType, Device, ErrorKind, HostArray, Op, Rng, Shape, Tensor, composite::loss::Reduction, functional as f, op::ScatterMode, step,
};
use common::device_of;
use std::sync::OnceLock;

fn device() -> Option<Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    *DEVICE.get_or_init(|| device_of(WgpuBackend::open_with_cache(0, None)))
}
/// An input: its shape, and what it holds.
#[derive(Clone, Copy)]
enum In {
    /// floats of the case's dtype, differentiated
    Float(&'static [usize]),
    /// so many of them
    Floats(usize, &'static [usize]),
    /// class indices below a bound
    Class(&'static [usize], usize, DType),
}
use In::{Class, Float, Floats};
struct Case {
    name: &'static str,
    inputs: &'static [In],
    function: fn(&[Tensor]) -> Tensor,
}
/// Values and gradients on a device. The cotangent is not constant: `sin` of the elements' numbers.
fn run(case: &Case, dtype: DType, device: Device) -> Result<Vec<HostArray>, String> {
    device
        .scoped(|| {
            let mut inputs = Vec::new();
            for input in case.inputs {
                let (count, shape, dtype, spread) = match *input {
                    Float(shape) => (1, shape, dtype, Spread::Within(-2.0, 2.0)),
                    Floats(count, shape) => (count, shape, dtype, Spread::Within(-2.0, 2.0)),
                    Class(shape, n, dtype) => (1, shape, dtype, Spread::Below(n)),
                };
                for _ in 0..count {
                    let x = upload(&draw(Shape::new(shape).unwrap(), dtype, spread, &mut Random::new(inputs.len() as u64 + 17)), device);
                    inputs.push(if matches!(input, Class(..)) { x } else { x.tracked() }.ok()?);
                }
            }
            let y = (case.function)(&inputs);
            let meta = y.try_meta()?;
            let weight = HostArray::floats(meta.shape, meta.dtype, (0..meta.shape.elements()).map(|k| (k as f64).sin()).collect::<Vec<_>>());
            let mut all = vec![download(&y)?];
            if !meta.dtype.is_float() {
                return Ok(all);
            }
            let grads = (&y * upload(&weight, device)).sum(..).backward()?;
            for x in inputs.iter().filter(|x| x.dtype().is_ok_and(|d| d.is_float())) {
                all.push(download(grads.get(x).unwrap())?);
            }
            Ok(all)
        })
        .map_err(|e: adamant_core::Error| e.to_string())
}
fn check(cases: &[Case], dtypes: &[DType]) {
    let Some(device) = device() else { return };
    let mut failures = Vec::new();
    for case in cases {
        for &dtype in dtypes {
            let (got, want) = (run(case, dtype, device), run(case, dtype, Device::reference()));
            match (got, want) {
                (Ok(got), Ok(want)) => {
                    assert_eq!(got.len(), want.len());
                    for (k, (g, w)) in got.iter().zip(&want).enumerate() {
                        if let Err(e) = tolerance::composed(g, w) {
                            failures.push(format!("{} of {dtype}, result {k}: {e}", case.name));
                        }
                    }
                }
                (got, want) => failures.push(format!("{} of {dtype}: {:?} / {:?}", case.name, got.err(), want.err())),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

#[test]
fn norms_of_long_rows_and_many_rows() {
    check(
        &[
            Case {
                name: "layer norm",
                inputs: &[Float(&[700, 33]), Float(&[33]), Float(&[33])],
                function: |x| f::layer_norm(&x[0], [33], Some(&x[1]), Some(&x[2]), 1e-5),
            },
            Case {
                name: "layer norm of long rows",
                inputs: &[Float(&[3, 5, 130]), Float(&[130])],
                function: |x| f::layer_norm(&x[0], [130], Some(&x[1]), None, 1e-5),
            },
            Case { name: "layer norm of two axes", inputs: &[Float(&[6, 9, 31])], function: |x| f::layer_norm(&x[0], [9, 31], None, None, 1e-5) },
            Case {
                name: "layer norm with strides",
                inputs: &[Float(&[65, 70]), Float(&[1])],
                function: |x| f::layer_norm(&x[0].mt(), [65], Some(&x[1].expand([65])), None, 1e-5),
            },
            Case { name: "rms norm", inputs: &[Float(&[301, 64]), Float(&[64])], function: |x| f::rms_norm(&x[0], [64], Some(&x[1]), Some(1e-5)) },
            Case {
                name: "group norm",
                inputs: &[Float(&[3, 6, 7, 5]), Float(&[6]), Float(&[6])],
                function: |x| f::group_norm(&x[0], 3, Some(&x[1]), Some(&x[2]), 1e-5),
            },
            Case {
                name: "group norm of short rows",
                inputs: &[Float(&[40, 8, 3]), Float(&[8])],
                function: |x| f::group_norm(&x[0], 4, Some(&x[1]), None, 1e-5),
            },
            Case { name: "group norm without weight", inputs: &[Float(&[2, 4, 50])], function: |x| f::group_norm(&x[0], 2, None, None, 1e-5) },
            Case {
                name: "batch norm",
                inputs: &[Float(&[17, 5, 11]), Float(&[5]), Float(&[5])],
                function: |x| f::batch_norm_training(&x[0], Some(&x[1]), Some(&x[2]), 1e-5).0,
            },
            Case {
                name: "batch norm of short rows",
                inputs: &[Float(&[9, 70]), Float(&[70])],
                function: |x| f::batch_norm_training(&x[0], Some(&x[1]), None, 1e-5).0,
            },
            Case {
                name: "batch norm and its statistics",
                inputs: &[Float(&[4, 3, 40])],
                function: |x| {
                    let (y, mean, variance) = f::batch_norm_training(&x[0], None, None, 1e-5);
                    y + mean.reshape([3, 1]).cast(x[0].dtype().unwrap()) * 0.5 + variance.reshape([3, 1]).cast(x[0].dtype().unwrap())
                },
            },
            Case { name: "one element in a row", inputs: &[Float(&[5, 1]), Float(&[1])], function: |x| f::layer_norm(&x[0], [1], Some(&x[1]), None, 1e-5) },
            Case {
                name: "no rows",
                inputs: &[Float(&[0, 4]), Float(&[4]), Float(&[4])],
                function: |x| f::layer_norm(&x[0], [4], Some(&x[1]), Some(&x[2]), 1e-5),
            },
            Case {
                name: "no elements",
                inputs: &[Float(&[2, 4, 0]), Float(&[4]), Float(&[4])],
                function: |x| f::group_norm(&x[0], 2, Some(&x[1]), Some(&x[2]), 1e-5),
            },
            Case {
                name: "no samples",
                inputs: &[Float(&[0, 4, 3]), Float(&[4]), Float(&[4])],
                function: |x| f::batch_norm_training(&x[0], Some(&x[1]), Some(&x[2]), 1e-5).0,
            },
        ],
        &FLOATS,
    );
}
fn entropy(x: &[Tensor], weight: Option<&Tensor>, ignore_index: i64, label_smoothing: f64, reduction: Reduction) -> Tensor {
    f::cross_entropy(&x[0], &x[1], &f::CrossEntropyOptions { weight, ignore_index, label_smoothing, reduction })
}
#[test]
fn cross_entropies_of_many_rows_and_many_classes() {
    check(
        &[
            Case { name: "mean", inputs: &[Float(&[700, 65]), Class(&[700], 65, DType::I64)], function: |x| entropy(x, None, -100, 0.0, Reduction::Mean) },
            Case {
                name: "of few classes",
                inputs: &[Float(&[300, 10]), Class(&[300], 10, DType::U8)],
                function: |x| entropy(x, None, -100, 0.0, Reduction::Mean),
            },
            Case { name: "ignoring", inputs: &[Float(&[90, 7]), Class(&[90], 7, DType::I32)], function: |x| entropy(x, None, 3, 0.0, Reduction::Mean) },
            Case {
                name: "each, of planes",
                inputs: &[Float(&[3, 70, 5]), Class(&[3, 5], 70, DType::I8)],
                function: |x| entropy(x, None, -100, 0.0, Reduction::None),
            },
            Case { name: "smoothed", inputs: &[Float(&[20, 300]), Class(&[20], 300, DType::U32)], function: |x| entropy(x, None, -100, 0.1, Reduction::Sum) },
            Case { name: "one row", inputs: &[Float(&[1000]), Class(&[], 1000, DType::I64)], function: |x| entropy(x, None, -100, 0.2, Reduction::Mean) },
            Case {
                name: "weighted",
                inputs: &[Float(&[50, 80]), Class(&[50], 80, DType::I64), Class(&[80], 9, DType::I64)],
                function: |x| entropy(x, Some(&((x[2].cast(x[0].dtype().unwrap()) + 1.0) * 0.25)), 5, 0.0, Reduction::Mean),
            },
            Case {
                name: "weighted and smoothed",
                inputs: &[Float(&[4, 9, 6]), Class(&[4, 6], 9, DType::I64), Class(&[9], 9, DType::I64)],
                function: |x| entropy(x, Some(&((x[2].cast(x[0].dtype().unwrap()) + 1.0) * 0.25)), 5, 0.1, Reduction::Mean),
            },
            Case { name: "no rows", inputs: &[Float(&[0, 5]), Class(&[0], 5, DType::I64)], function: |x| entropy(x, None, -100, 0.0, Reduction::Mean) },
            Case { name: "no rows, each", inputs: &[Float(&[0, 5]), Class(&[0], 5, DType::I64)], function: |x| entropy(x, None, -100, 0.0, Reduction::None) },
            Case { name: "all ignored", inputs: &[Float(&[6, 5]), Class(&[6], 1, DType::I64)], function: |x| entropy(x, None, 0, 0.0, Reduction::Mean) },
        ],
        &FLOATS,
    );
}
/// Updates of many parameters, as an optimizer's: each gets its momentum and its value.
fn updated(device: Device, dtype: DType, sizes: &[usize], steps: usize) -> Vec<HostArray> {
    device.scoped(|| {
        let drawn = |k: usize, n: usize| upload(&draw(Shape::new(&[n]).unwrap(), dtype, Spread::Within(-1.0, 1.0), &mut Random::new(k as u64)), device);
        let cells: Vec<(Cell, Cell)> = sizes
            .iter()
            .enumerate()
            .map(|(k, &n)| (Cell::new(&drawn(k, n), true).unwrap(), Cell::new(&Tensor::full_on([n], 0.0, dtype, device), false).unwrap()))
            .collect();
        for s in 0..steps {
            let lr = 0.5 / (s + 1) as f64;
            step(|| {
                for (k, (value, momentum)) in cells.iter().enumerate() {
                    let n = sizes[k];
                    // Some gradients are stretched, some lie backwards.
                    let g = match k % 3 {
                        0 => drawn(k + 100, n),
                        1 => drawn(k + 100, 1).expand([n]),
                        _ => drawn(k + 100, n).flip(0),
                    };
                    let m = momentum.detached() * 0.9 + g * (k as f64 + 1.0);
                    momentum.set(&m)?;
                    value.set(&(value.detached() - m * lr))?;
                }
                Ok(())
            })
            .unwrap();
        }
        cells.iter().flat_map(|(value, momentum)| [value, momentum]).map(|c| download(&c.detached()).unwrap()).collect()
    })
}
#[test]
fn equal_updates_of_many_parameters_stay_apart() {
    let Some(device) = device() else { return };
    let sizes: Vec<usize> = (0..70).map(|k| [1, 7, 256, 257, 1000, 3][k % 6] + k).collect();
    for dtype in FLOATS {
        let (got, want) = (updated(device, dtype, &sizes, 3), updated(Device::reference(), dtype, &sizes, 3));
        for (k, (g, w)) in got.iter().zip(&want).enumerate() {
            tolerance::composed(g, w).unwrap_or_else(|e| panic!("{dtype} cell {k}: {e}"));
        }
    }
}
fn attend(x: &[Tensor], options: &f::AttentionOptions<'_>) -> Tensor {
    f::scaled_dot_product_attention(&x[0], &x[1], &x[2], options)
}
fn causal(x: &[Tensor]) -> Tensor {
    attend(x, &f::AttentionOptions { is_causal: true, ..Default::default() })
}
fn plain(x: &[Tensor]) -> Tensor {
    attend(x, &f::AttentionOptions::default())
}
fn masked(x: &[Tensor]) -> Tensor {
    attend(x, &f::AttentionOptions { mask: Some(&x[3].gt(1)), ..Default::default() })
}
fn added(x: &[Tensor]) -> Tensor {
    attend(x, &f::AttentionOptions { mask: Some(&x[3]), scale: Some(0.3), ..Default::default() })
}
#[test]
fn attention_over_several_tiles_and_any_head() {
    let cases = [
        Case { name: "plain", inputs: &[Float(&[2, 3, 37, 20]), Float(&[2, 3, 50, 20]), Float(&[2, 3, 50, 24])], function: plain },
        Case { name: "causal", inputs: &[Float(&[4, 70, 16]), Float(&[4, 70, 16]), Float(&[4, 70, 16])], function: causal },
        Case { name: "causal with fewer keys", inputs: &[Float(&[2, 41, 8]), Float(&[2, 19, 8]), Float(&[2, 19, 5])], function: causal },
        Case { name: "causal with more keys", inputs: &[Float(&[2, 9, 8]), Float(&[2, 33, 8]), Float(&[2, 33, 8])], function: causal },
        Case { name: "large heads", inputs: &[Float(&[2, 11, 130]), Float(&[2, 13, 130]), Float(&[2, 13, 70])], function: plain },
        Case { name: "very large heads", inputs: &[Float(&[9, 33]), Float(&[10, 33]), Float(&[10, 600])], function: causal },
        Case {
            name: "shared heads",
            inputs: &[Float(&[2, 6, 21, 12]), Float(&[2, 2, 30, 12]), Float(&[2, 2, 30, 12])],
            function: |x| attend(x, &f::AttentionOptions { enable_gqa: true, ..Default::default() }),
        },
        Case {
            name: "a mask of its own",
            inputs: &[Float(&[2, 3, 17, 8]), Float(&[2, 3, 18, 8]), Float(&[2, 3, 18, 8]), Class(&[2, 1, 17, 18], 4, DType::I32)],
            function: masked,
        },
        Case {
            name: "a mask that is stretched",
            inputs: &[Float(&[2, 3, 17, 8]), Float(&[2, 3, 18, 8]), Float(&[2, 3, 18, 8]), Class(&[17, 1], 3, DType::I32)],
            function: masked,
        },
        Case { name: "a mask that is added", inputs: &[Float(&[2, 17, 8]), Float(&[2, 18, 8]), Float(&[2, 18, 8]), Float(&[17, 18])], function: added },
        Case { name: "all hidden", inputs: &[Float(&[9, 4]), Float(&[11, 4]), Float(&[11, 4]), Class(&[9, 11], 1, DType::I32)], function: masked },
        Case {
            name: "dropped out",
            inputs: &[Float(&[3, 30, 8]), Float(&[3, 35, 8]), Float(&[3, 35, 8])],
            function: |x| attend(x, &f::AttentionOptions { dropout: Some((0.3, &Rng::new_on(7, 1, x[0].device().unwrap()).unwrap())), ..Default::default() }),
        },
        Case { name: "one of each", inputs: &[Float(&[1, 1]), Float(&[1, 1]), Float(&[1, 1])], function: plain },
        Case { name: "no keys", inputs: &[Float(&[2, 3, 4]), Float(&[2, 0, 4]), Float(&[2, 0, 4])], function: plain },
        Case {
            name: "no features",
            inputs: &[Float(&[2, 3, 0]), Float(&[2, 5, 0]), Float(&[2, 5, 4])],
            function: |x| attend(x, &f::AttentionOptions { scale: Some(1.0), ..Default::default() }),
        },
        Case {
            name: "strides",
            inputs: &[Float(&[8, 2, 20]), Float(&[2, 20, 8]), Float(&[2, 20, 8])],
            function: |x| causal(&[x[0].transpose(0, 1).mt(), x[1].flip(1), x[2].clone()]),
        },
    ];
    check(&cases, &[DType::F32]);
    check(&cases[..2], &[DType::F16, DType::BF16]);
}
/// Scatters with many elements for one place, few, none, and bad ones.
#[test]
fn long_scatters_are_right_in_every_mode_and_find_the_first_bad_index() {
    let Some(device) = device() else { return };
    let shapes: [(&[usize], usize, &[usize], usize); 6] = [
        (&[3000], 0, &[40], 40),
        (&[700, 40], 0, &[9, 40], 9),
        (&[2, 300, 33], 1, &[2, 1000, 33], 1000),
        (&[256], 0, &[1], 1),
        (&[3, 513], 1, &[3, 513], 513),
        (&[1025], 0, &[2], 2),
    ];
    for (k, (shape, axis, out, bound)) in shapes.into_iter().enumerate() {
        for mode in [ScatterMode::Set, ScatterMode::Add, ScatterMode::Mul, ScatterMode::Max, ScatterMode::Min] {
            for dtype in [DType::F32, DType::BF16, DType::I64, DType::U8] {
                // From which axis on lines share their index.
                for shared in [0, 2, 9] {
                    let run = |device: Device| {
                        device.scoped(|| {
                            let mut random = Random::new(k as u64);
                            let spread = if mode == ScatterMode::Mul { Spread::Within(0.9, 1.1) } else { Spread::Within(-2.0, 2.0) };
                            let whole = |n: usize| {
                                Shape::new(&(0..shape.len()).map(|a| if a >= shared && a != axis { 1 } else { shape[a] }).collect::<Vec<_>>())
                                    .unwrap()
                                    .with(axis, n)
                            };
                            let index = upload(&draw(whole(shape[axis]), DType::I32, Spread::Below(bound), &mut random), device).expand(shape);
                            let source = upload(&draw(Shape::new(shape).unwrap(), dtype, spread, &mut random), device);
                            let to = upload(&draw(Shape::new(out).unwrap(), dtype, spread, &mut random), device);
                            download(&Tensor::apply(Op::Scatter { axis: axis as u8, mode }, Arg::None, &[&to, &index, &source])).unwrap()
                        })
                    };
                    let (got, want) = (run(device), run(Device::reference()));
                    tolerance::composed(&got, &want).unwrap_or_else(|e| panic!("{shape:?} {mode:?} {dtype} shared from {shared}: {e}"));
                }
            }
        }
    }
    device.scoped(|| {
        let index: Vec<i64> = (0..600).map(|k| if k == 431 || k == 500 { 77 } else { k % 7 }).collect();
        let sum = Tensor::zeros([7, 40]).scatter_add(0, &Tensor::from_vec(index, [600, 1]).expand([600, 40]), &Tensor::ones([600, 40]));
        let e = sum.materialize().unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Index { index: 77, bound: 7, position: Some(431), .. }), "{:?}", e.kind());
    });
}
#[test]
fn products_of_several_tiles_and_tall_reductions() {
    let product: fn(&[Tensor]) -> Tensor = |x| x[0].matmul(&x[1]);
    check(
        &[
            Case { name: "several tiles", inputs: &[Float(&[70, 65]), Float(&[65, 131])], function: product },
            Case { name: "pairs of columns", inputs: &[Float(&[33, 20]), Float(&[20, 130])], function: product },
            Case { name: "batches", inputs: &[Float(&[3, 17, 9]), Float(&[3, 9, 18])], function: product },
            Case { name: "a batch for all", inputs: &[Float(&[2, 3, 5, 7]), Float(&[7, 6])], function: product },
            Case { name: "transposed", inputs: &[Float(&[40, 66]), Float(&[30, 40])], function: |x| x[0].mt().matmul(x[1].mt()) },
            Case { name: "backwards", inputs: &[Float(&[12, 34]), Float(&[34, 10])], function: |x| x[0].flip(1).matmul(x[1].flip(0)) },
            Case { name: "stretched", inputs: &[Float(&[12, 1]), Float(&[40, 10])], function: |x| x[0].expand([12, 40]).matmul(&x[1]) },
            Case { name: "tall", inputs: &[Float(&[6, 3000]), Float(&[3000, 5])], function: product },
            Case { name: "tall, of pairs", inputs: &[Float(&[2, 4, 2001]), Float(&[2, 2001, 6])], function: product },
            Case { name: "one element", inputs: &[Float(&[1, 1]), Float(&[1, 1])], function: product },
            Case { name: "nothing added", inputs: &[Float(&[5, 0]), Float(&[0, 6])], function: product },
            Case { name: "no rows", inputs: &[Float(&[0, 5]), Float(&[5, 6])], function: product },
            Case {
                name: "a piece of a tensor",
                inputs: &[Float(&[9, 31]), Float(&[31, 8])],
                function: |x| x[0].narrow(1, 3, 21).matmul(x[1].narrow(0, 5, 21)),
            },
        ],
        &FLOATS,
    );
}
#[test]
fn maps_of_more_operands_than_are_bound_at_once() {
    let sum: fn(&[Tensor]) -> Tensor = |x| x.iter().enumerate().map(|(k, x)| x.square() * (k as f64 + 1.0)).reduce(|a, b| a + b).unwrap();
    check(
        &[
            Case { name: "forty", inputs: &[Floats(40, &[333])], function: sum },
            Case { name: "forty scalars", inputs: &[Floats(40, &[])], function: sum },
            Case { name: "forty of nothing", inputs: &[Floats(40, &[0, 3])], function: sum },
            Case { name: "rows and columns", inputs: &[Floats(30, &[1, 37]), Floats(30, &[19, 1])], function: sum },
            Case { name: "reduced", inputs: &[Floats(40, &[70, 90])], function: |x| x.iter().map(Tensor::square).reduce(|a, b| a * 0.5 + b).unwrap().sum(1) },
        ],
        &[DType::F32, DType::F16],
    );
}
#[test]
fn scans_in_pieces_and_reductions_of_huge_and_odd_sizes() {
    check(
        &[
            Case { name: "sum of a line", inputs: &[Float(&[5001])], function: |x| x[0].cumsum(0) },
            Case { name: "sum of whole pieces", inputs: &[Float(&[2, 1024])], function: |x| x[0].cumsum(1) },
            Case { name: "sum of columns", inputs: &[Float(&[1500, 3])], function: |x| x[0].cumsum(0) },
            Case { name: "sum backwards", inputs: &[Float(&[3, 1300])], function: |x| x[0].flip(1).cumsum(1) },
            Case { name: "sum of what is stretched", inputs: &[Float(&[2, 1])], function: |x| x[0].expand([2, 1100]).cumsum(1) },
            Case { name: "sum of nothing", inputs: &[Float(&[0])], function: |x| x[0].cumsum(0) },
            Case { name: "sum of one", inputs: &[Float(&[1])], function: |x| x[0].cumsum(0) },
        ],
        &[DType::F32],
    );
    check(
        &[
            Case { name: "sum of odd many", inputs: &[Float(&[300_007])], function: |x| x[0].sum(..) },
            Case { name: "sum of many rows", inputs: &[Float(&[70_001, 3])], function: |x| x[0].sum(0) },
            Case { name: "sum of long rows", inputs: &[Float(&[3, 70_001])], function: |x| x[0].sum(1) },
            Case { name: "sum of planes", inputs: &[Float(&[31, 7, 63])], function: |x| x[0].sum([0, 2]) },
            Case { name: "sum of every other", inputs: &[Float(&[2, 999])], function: |x| x[0].mt().sum(0) },
            Case { name: "largest of many", inputs: &[Float(&[100_003])], function: |x| x[0].amax(..) },
            Case { name: "least of rows", inputs: &[Float(&[257, 65])], function: |x| x[0].amin(1) },
            Case { name: "sum of nothing", inputs: &[Float(&[0])], function: |x| x[0].sum(..) },
            Case { name: "sums of nothing", inputs: &[Float(&[0, 65])], function: |x| x[0].sum(0) },
            Case { name: "no sums", inputs: &[Float(&[65, 0])], function: |x| x[0].sum(0) },
            Case { name: "one element", inputs: &[Float(&[1, 1])], function: |x| x[0].sum(..) },
            Case { name: "place of the largest", inputs: &[Float(&[3, 40_001])], function: |x| x[0].argmax(1) },
            Case { name: "whole numbers", inputs: &[Class(&[100_003], 1000, DType::I32)], function: |x| x[0].sum(..) },
            Case { name: "sums of whole numbers", inputs: &[Class(&[3000], 100, DType::U8)], function: |x| x[0].cumsum(0) },
        ],
        &FLOATS,
    );
}
/// Some elements are replaced by a number that is none, or none that ends.
fn with(x: &[Tensor], v: f64) -> Tensor {
    x[1].eq(0).where_(v, &x[0])
}
#[test]
fn rows_with_infinities_and_nan_are_as_their_bodies() {
    const ROWS: &[In] = &[Float(&[9, 200]), Class(&[9, 200], 300, DType::I32)];
    const HEADS: &[In] = &[Float(&[20, 16]), Class(&[20, 16], 150, DType::I32), Float(&[20, 16])];
    fn losses(x: &Tensor) -> Tensor {
        let target = Tensor::full_on([9], 3, DType::I64, x.device().unwrap());
        f::cross_entropy(x, &target, &f::CrossEntropyOptions { reduction: Reduction::None, ..Default::default() })
    }
    fn attended(x: &[Tensor], v: f64) -> Tensor {
        f::scaled_dot_product_attention(&with(x, v), &x[2], &x[2], &f::AttentionOptions::default())
    }
    check(
        &[
            Case { name: "softmax of NaN", inputs: ROWS, function: |x| with(x, f64::NAN).softmax(1) },
            Case { name: "softmax of inf", inputs: ROWS, function: |x| with(x, f64::INFINITY).softmax(1) },
            Case { name: "softmax of -inf", inputs: ROWS, function: |x| with(x, f64::NEG_INFINITY).softmax(1) },
            Case { name: "log softmax of NaN", inputs: ROWS, function: |x| with(x, f64::NAN).log_softmax(1) },
            Case { name: "log softmax of inf", inputs: ROWS, function: |x| with(x, f64::INFINITY).log_softmax(1) },
            Case { name: "layer norm of NaN", inputs: ROWS, function: |x| f::layer_norm(&with(x, f64::NAN), [200], None, None, 1e-5) },
            Case { name: "layer norm of inf", inputs: ROWS, function: |x| f::layer_norm(&with(x, f64::INFINITY), [200], None, None, 1e-5) },
            Case { name: "cross entropy of NaN", inputs: ROWS, function: |x| losses(&with(x, f64::NAN)) },
            Case { name: "cross entropy of inf", inputs: ROWS, function: |x| losses(&with(x, f64::INFINITY)) },
            Case { name: "cross entropy of -inf", inputs: ROWS, function: |x| losses(&with(x, f64::NEG_INFINITY)) },
            Case { name: "attention of NaN", inputs: HEADS, function: |x| attended(x, f64::NAN) },
            Case { name: "attention of inf", inputs: HEADS, function: |x| attended(x, f64::INFINITY) },
        ],
        &[DType::F32],
    );
}
