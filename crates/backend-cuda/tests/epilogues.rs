//! What comes behind a product's sums, on the emulator: all pairs of dtypes, layouts, addends, activations and batches, against the
//! host's arithmetic. Where the library has the end it is one launch of the library's and one rounding, and where it has not, or
//! offers nothing, or what it offers fails, the result is the same.
mod common;

use adamant_conformance::{
    data::{Spread, download, draw, upload},
    random::Random,
};
use adamant_core::{DType, Device, HostArray, Shape, Tensor, bf16_from_f64, f16_from_f64, special};
use adamant_cuda_emulator::{Emulator, FindingKind, Options};
use parking_lot::{Mutex, MutexGuard};

/// What is added.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Added {
    Nothing,
    /// a number for each column
    Bias,
    /// a number for each column of each matrix
    BiasOfMatrix,
    /// a number for each row
    OfRow,
    Whole,
    BiasAndWhole,
    /// a number of f32 for each column, rounded to the product's dtype
    Rounded,
    /// a number of f32 for each column of each matrix, rounded
    RoundedOfMatrix,
}
const ADDED: [Added; 8] =
    [Added::Nothing, Added::Bias, Added::BiasOfMatrix, Added::OfRow, Added::Whole, Added::BiasAndWhole, Added::Rounded, Added::RoundedOfMatrix];
#[derive(Clone, Copy, PartialEq, Debug)]
enum Activation {
    None,
    Neg,
    Relu,
    GeluTanh,
    Gelu,
}
const ACTIVATIONS: [Activation; 5] = [Activation::None, Activation::Neg, Activation::Relu, Activation::GeluTanh, Activation::Gelu];
const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
#[derive(Clone, Copy, Debug)]
struct Case {
    dtype: DType,
    /// factors that lie by columns
    by_columns: [bool; 2],
    added: Added,
    activation: Activation,
    batch: usize,
    seed: u64,
}
impl Case {
    /// Is it one launch of the library's?
    fn is_whole(&self) -> bool {
        let has = match self.activation {
            // Of the sums alone: `-(x + b)` is none of the library's.
            Activation::Neg => self.added == Added::Nothing,
            Activation::Gelu => false,
            _ => true,
        };
        has && self.added != Added::OfRow
    }
}
/// All of them.
fn cases() -> impl Iterator<Item = Case> {
    (0..3 * 4 * 8 * 5 * 2).map(|k| Case {
        dtype: DTYPES[k % 3],
        by_columns: [k / 3 % 2 == 1, k / 6 % 2 == 1],
        added: ADDED[k / 12 % 8],
        activation: ACTIVATIONS[k / 96 % 5],
        batch: [1, 3][k / 480],
        seed: k as u64,
    })
}
/// The emulator is one for all tests of a process.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}
fn elements(a: &HostArray) -> Vec<f64> {
    (0..a.len()).map(|k| a.scalar(k).to_f64()).collect()
}
/// Runs a case and holds it against the host; the launches that it took.
fn check(device: Device, case: &Case, is_wholly_librarys: bool) -> Vec<String> {
    let Case { dtype, by_columns, added, activation, batch, seed } = *case;
    let emulator = Emulator::installed().unwrap();
    let mut random = Random::new(seed);
    let [rows, depth, columns] = [(); 3].map(|()| *random.pick(&[2, 5, 8, 16, 24, 40]));
    let mut of = |shape: &[usize], dtype: DType| draw(Shape::new(shape).unwrap(), dtype, Spread::Within(-1.0, 1.0), &mut random);
    let mut drawn = |shape: &[usize]| of(shape, dtype);
    let lead = |rows: usize, columns: usize| if batch == 1 { vec![rows, columns] } else { vec![batch, rows, columns] };
    let laid = |by_columns: bool, rows: usize, columns: usize| if by_columns { lead(columns, rows) } else { lead(rows, columns) };
    let [a, b] = [drawn(&laid(by_columns[0], rows, depth)), drawn(&laid(by_columns[1], depth, columns))];
    let addends: Vec<HostArray> = match added {
        Added::Nothing => vec![],
        Added::Bias => vec![drawn(&[columns])],
        Added::BiasOfMatrix => vec![drawn(&lead(1, columns))],
        Added::OfRow => vec![drawn(&[rows, 1])],
        Added::Whole => vec![drawn(&lead(rows, columns))],
        Added::BiasAndWhole => vec![drawn(&[columns]), drawn(&lead(rows, columns))],
        Added::Rounded => vec![of(&[columns], DType::F32)],
        Added::RoundedOfMatrix => vec![of(&lead(1, columns), DType::F32)],
    };
    let told = format!("{case:?} of {rows} x {depth} x {columns}");
    let got = device.scoped(|| {
        let given: Vec<Tensor> = [&a, &b].into_iter().chain(&addends).map(|x| upload(x, device)).collect();
        emulator.launches();
        let factor = |k: usize| if by_columns[k] { given[k].mt() } else { given[k].clone() };
        let mut x = factor(0).matmul(factor(1));
        for addend in &given[2..] {
            x = x + addend.cast(dtype);
        }
        // What is held would have to be stored, too.
        x = match activation {
            Activation::None => x,
            Activation::Neg => x.neg(),
            Activation::Relu => x.relu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::Gelu => x.gelu(),
        };
        let result = download(&x)?;
        let launches = emulator.launches();
        Ok::<_, adamant_core::Error>((elements(&result), launches))
    });
    let (got, launches) = got.unwrap_or_else(|e| panic!("{told}: {e}: {:#?}", emulator.findings()));
    let [a, b] = [elements(&a), elements(&b)];
    let held = |v: f64| {
        if dtype == DType::F32 {
            v
        } else if dtype == DType::F16 {
            f16_from_f64(v).to_f64()
        } else {
            bf16_from_f64(v).to_f64()
        }
    };
    let addends: Vec<Vec<f64>> = addends.iter().map(|a| elements(a).into_iter().map(held).collect()).collect();
    let eps = [f64::powi(2.0, -24), f64::powi(2.0, -11), f64::powi(2.0, -8)][DTYPES.iter().position(|d| *d == dtype).unwrap()];
    for (at, is) in got.iter().enumerate() {
        let (k, row, column) = (at / (rows * columns), at / columns % rows, at % columns);
        let of_a = |n: usize| if by_columns[0] { a[(k * depth + n) * rows + row] } else { a[(k * rows + row) * depth + n] };
        let of_b = |n: usize| if by_columns[1] { b[(k * columns + column) * depth + n] } else { b[(k * depth + n) * columns + column] };
        let terms: Vec<f64> = (0..depth).map(|n| of_a(n) * of_b(n)).collect();
        let beside = match added {
            Added::Nothing => vec![],
            Added::Bias | Added::Rounded => vec![addends[0][column]],
            Added::BiasOfMatrix | Added::RoundedOfMatrix => vec![addends[0][k * columns + column]],
            Added::OfRow => vec![addends[0][row]],
            Added::Whole => vec![addends[0][at]],
            Added::BiasAndWhole => vec![addends[0][column], addends[1][at]],
        };
        let [sum, all] = terms.iter().chain(&beside).fold([0.0, 0.0], |[sum, all], t| [sum + t, all + t.abs()]);
        let expected = match activation {
            Activation::None => sum,
            Activation::Neg => -sum,
            Activation::Relu => sum.max(0.0),
            Activation::GeluTanh => 0.5 * sum * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (sum + 0.044_715 * sum.powi(3))).tanh()),
            Activation::Gelu => special::gelu(sum),
        };
        // One rounding to the dtype, behind those of f32; or one behind each op, whose slope is at most 1.13.
        let roundings = if is_wholly_librarys { eps * expected.abs() } else { 1.2 * eps * (3.0 * all + expected.abs()) };
        let near = roundings + f64::powi(2.0, -21) * all;
        assert!((is - expected).abs() <= near, "{told}: element {at} is {is}, {expected} by the host ({near})");
    }
    launches.into_iter().map(|l| l.kernel).collect()
}
fn nothing_was_found() {
    let found: Vec<_> = Emulator::installed().unwrap().findings().into_iter().filter(|f| f.kind != FindingKind::HostReadUnwritten).collect();
    assert!(found.is_empty(), "{found:#?}");
}
#[test]
fn what_the_library_has_is_one_launch_and_one_rounding() {
    let _alone = alone();
    let Some(device) = common::device(Options { seed: 5, record: true, ..Options::default() }) else { return };
    let emulator = Emulator::installed().unwrap();
    emulator.set_record(true);
    // A number that shares no factor with how many there are of each option: all of them meet in a slice, too.
    let step = if std::env::var("ADAMANT_EPILOGUES").is_ok_and(|share| share == "whole") { 1 } else { 7 };
    for case in cases().step_by(step) {
        let launches = check(device, &case, case.is_whole());
        let by_library = launches.iter().filter(|k| *k == "cublasLtMatmul").count();
        // Beside the library's: what rounds a bias, and what comes behind the sums.
        let is_rounded = case.dtype != DType::F32 && matches!(case.added, Added::Rounded | Added::RoundedOfMatrix);
        let expected = (1, 1 + usize::from(!case.is_whole()) + usize::from(is_rounded));
        assert_eq!((by_library, launches.len()), expected, "{case:?}: {launches:?}");
    }
    emulator.set_record(false);
    nothing_was_found();
}
#[test]
fn one_product_has_many_biases() {
    let _alone = alone();
    let Some(device) = common::device(Options { seed: 5, ..Options::default() }) else { return };
    let (rows, columns) = (24, 16);
    let ones = HostArray::floats(Shape::new(&[rows, columns]).unwrap(), DType::F32, vec![1.0; rows * columns]);
    // All of one size, each somewhere else, in one window and one after the other.
    for at_once in [true, false] {
        let sums = device.scoped(|| {
            let x = upload(&ones, device);
            let biases: Vec<Tensor> = (0..4).map(|k| Tensor::from_vec(vec![k as f32; rows], [rows])).collect();
            let products = biases.iter().map(|bias| x.matmul(x.t()) + bias);
            if at_once {
                let all: Vec<Tensor> = products.collect();
                all.iter().map(Tensor::to_vec::<f32>).collect::<Result<Vec<_>, _>>()
            } else {
                products.map(|p| p.to_vec::<f32>()).collect()
            }
        });
        for (k, of_bias) in sums.unwrap().iter().enumerate() {
            assert!(of_bias.iter().all(|v| *v == (columns + k) as f32), "bias {k}: {of_bias:?}");
        }
    }
    nothing_was_found();
}
#[test]
fn where_the_library_offers_nothing_or_fails_results_are_right() {
    let _alone = alone();
    let Some(device) = common::device(Options { seed: 5, ..Options::default() }) else { return };
    let emulator = Emulator::installed().unwrap();
    emulator.set_stubborn(true);
    for case in cases().step_by(23) {
        check(device, &case, false);
    }
    // What is offered and fails each time.
    for case in cases().step_by(97) {
        for nth in 1..=4 {
            emulator.plant("cublasLtMatmul", nth, 13);
        }
        check(device, &case, false);
    }
    emulator.set_stubborn(false);
    nothing_was_found();
}
#[test]
fn without_the_library_results_are_right() {
    let _alone = alone();
    let Some(_) = common::device(Options { seed: 5, ..Options::default() }) else { return };
    let emulator = Emulator::installed().unwrap();
    // The library does not start.
    emulator.plant("cublasLtCreate", 1, 1);
    let device = common::device(Options::default()).unwrap();
    let before = emulator.counts().get("cublasLtMatmul").copied();
    for case in cases().step_by(37) {
        check(device, &case, false);
    }
    assert_eq!(emulator.counts().get("cublasLtMatmul").copied(), before);
    nothing_was_found();
}
