//! The fused kernels at the sizes where they change their way of working — rows that a workgroup shares, sums in pieces,
//! several tiles — with their gradients, against the reference. The suite has the same functions at small sizes.
use adamant_backend_wgpu::WgpuBackend;
use adamant_conformance::{
    data::{Spread, download, draw, upload},
    random::Random,
    tolerance,
};
use adamant_core::{Cell, DType, Device, ErrorKind, HostArray, Shape, Tensor, composite::loss::Reduction, functional as f, step};
use std::sync::OnceLock;

fn device() -> Option<Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    *DEVICE.get_or_init(|| match WgpuBackend::open(0) {
        Ok(backend) => Some(Device::from_backend(Box::new(backend))),
        Err(ErrorKind::DeviceAbsent(why)) => {
            eprintln!("SKIPPED: {why}");
            None
        }
        Err(e) => panic!("{e:?}"),
    })
}
/// An input: its shape, and what it holds.
#[derive(Clone, Copy)]
enum In {
    /// floats of the case's dtype, differentiated
    Float(&'static [usize]),
    /// class indices below a bound
    Class(&'static [usize], usize, DType),
}
use In::{Class, Float};
struct Case {
    name: &'static str,
    inputs: &'static [In],
    function: fn(&[Tensor]) -> Tensor,
}
/// Values and gradients on a device. The cotangent is not constant: `sin` of the elements' numbers.
fn run(case: &Case, dtype: DType, device: Device) -> Result<Vec<HostArray>, String> {
    device
        .scoped(|| {
            let inputs: Vec<Tensor> = case
                .inputs
                .iter()
                .enumerate()
                .map(|(k, input)| {
                    let mut random = Random::new(k as u64 + 17);
                    match *input {
                        Float(shape) => upload(&draw(Shape::new(shape).unwrap(), dtype, Spread::Within(-2.0, 2.0), &mut random), device).tracked(),
                        Class(shape, n, dtype) => upload(&draw(Shape::new(shape).unwrap(), dtype, Spread::Below(n), &mut random), device),
                    }
                    .ok()
                })
                .collect::<Result<_, _>>()?;
            let y = (case.function)(&inputs);
            let meta = y.try_meta()?;
            let weight = HostArray::floats(meta.shape, meta.dtype, (0..meta.shape.elements()).map(|k| (k as f64).sin()).collect::<Vec<_>>());
            let grads = (&y * upload(&weight, device)).sum(..).backward()?;
            let mut all = vec![download(&y)?];
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
                    let m = momentum.read() * 0.9 + g * (k as f64 + 1.0);
                    momentum.set(&m)?;
                    value.set(&(value.read() - m * lr))?;
                }
                Ok(())
            })
            .unwrap();
        }
        cells.iter().flat_map(|(value, momentum)| [value, momentum]).map(|c| download(&c.read()).unwrap()).collect()
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
