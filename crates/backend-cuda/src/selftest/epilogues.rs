//! What the library does behind its sums, against the host's arithmetic: a bias of each matrix and one for all, an addend, the other
//! sign, activations with a bias and without. A NaN goes through: ReLU keeps it.
use super::{COLUMNS, DEPTH, Differs, HostProduct, ROWS, encoded, multiplied, placed, read, rounding};
use crate::{
    blaslt::{LtActivation, LtBehind, LtBias, LtPlaces},
    memory::DeviceBlock,
    opened::Opened,
    paths::FastPath,
};
use adamant_runtime::{DType, ErrorKind, backend::Queue, special};
use std::sync::Arc;

/// Matrices of a batch.
const BATCH: usize = 2;

/// How what a path does differs.
///
/// # Errors
/// A lost device, memory.
pub(super) fn differ(opened: &Arc<Opened>, path: FastPath) -> Result<Differs, ErrorKind> {
    let (activation, dtypes): (_, &[DType]) = match path {
        FastPath::ReluEpilogue => (LtActivation::Relu, &[DType::F16, DType::BF16, DType::F32]),
        FastPath::GeluEpilogue => (LtActivation::GeluTanh, &[DType::F16, DType::BF16]),
        FastPath::WideGeluEpilogue => (LtActivation::GeluTanh, &[DType::F32]),
        _ => (LtActivation::None, &[DType::F16, DType::BF16, DType::F32]),
    };
    let bias = |batched: usize| Some(LtBias { batched: batched as i64, alignment: 256 });
    let plain = LtBehind { activation, ..LtBehind::default() };
    let cases: &[LtBehind] = if activation == LtActivation::None {
        &[
            LtBehind { bias: bias(0), ..plain },
            LtBehind { bias: bias(COLUMNS), ..plain },
            LtBehind { negated: true, added: Some(256), ..plain },
            LtBehind { added: Some(256), bias: bias(0), ..plain },
        ]
    } else {
        &[plain, LtBehind { bias: bias(0), ..plain }]
    };
    let trusted = dtypes.iter().filter(|d| opened.multiplies(**d) && (**d != DType::F32 || !opened.is_cut_wrongly()));
    for dtype in trusted {
        for behind in cases {
            if let Some(why) = one_differs(opened, *dtype, behind)? {
                return Ok(Some(why));
            }
        }
    }
    Ok(None)
}
fn one_differs(opened: &Arc<Opened>, dtype: DType, behind: &LtBehind) -> Result<Differs, ErrorKind> {
    let Some(library) = &opened.products else { return Ok(None) };
    let mut host = HostProduct::new(dtype, BATCH, false);
    // The second row of the first matrix.
    host.a[DEPTH] = f64::NAN;
    let sixteenth = |k: usize, salt: usize| ((k * 7 + k / 5 + salt) % 33) as f64 / 16.0 - 1.0;
    let bias: Vec<f64> = (0..BATCH * COLUMNS).map(|k| sixteenth(k, 3)).collect();
    let added: Vec<f64> = (0..BATCH * ROWS * COLUMNS).map(|k| sixteenth(k, 11)).collect();
    let [a, b, d] = placed(opened, &host)?;
    let beside = |numbers: &[f64]| -> Result<DeviceBlock, ErrorKind> {
        let bytes = encoded(dtype, numbers);
        let block = DeviceBlock::new(opened, bytes.len())?;
        opened.copy_in(Queue::Compute, block.address, &bytes, &[])?;
        Ok(block)
    };
    let [of_bias, of_added] = [beside(&bias)?, beside(&added)?];
    let is_added = behind.added.is_some();
    let places = LtPlaces {
        a: b.address,
        b: a.address,
        d: d.address,
        added: if is_added { of_added.address } else { d.address },
        bias: if behind.bias.is_some() { of_bias.address } else { 0 },
    };
    if !multiplied(opened, library, &host.as_the_library_sees_it(*behind), &places)? {
        return Ok(None);
    }
    let near = match (behind.activation, dtype) {
        // Tanh is no single rounding.
        (LtActivation::GeluTanh, DType::F32) => f64::powi(2.0, -17),
        _ => rounding(dtype) * 1.25,
    };
    let result = read(opened, &host, d.address)?;
    let differing = result.iter().enumerate().find_map(|(at, is)| {
        let (k, row, column) = (at / (ROWS * COLUMNS), at / COLUMNS % ROWS, at % COLUMNS);
        let terms = (0..DEPTH).map(|n| host.a[(k * ROWS + row) * DEPTH + n] * host.b[(k * DEPTH + n) * COLUMNS + column]);
        let [sum, all] = terms.fold([0.0, 0.0], |[sum, all], t| [sum + t, all + t.abs()]);
        let bias = behind.bias.map_or(0.0, |b| bias[k * b.batched as usize + column]);
        let added = if is_added { added[at] } else { 0.0 };
        let total = if behind.negated { -sum } else { sum } + added + bias;
        let expected = match behind.activation {
            LtActivation::None => total,
            LtActivation::Relu if total <= 0.0 => 0.0,
            LtActivation::Relu => total,
            LtActivation::GeluTanh => special::gelu_tanh(total),
        };
        let is_near = (is - expected).abs() <= near * (all + bias.abs() + added.abs()) || is.is_nan() && expected.is_nan();
        (!is_near).then(|| format!("a product of {dtype} with {} is {is} at [{k}, {row}, {column}], and not {expected}", told(behind)))
    });
    Ok(differing)
}
fn told(behind: &LtBehind) -> String {
    let parts = [
        behind.negated.then_some("the other sign"),
        behind.added.map(|_| "an addend"),
        behind.bias.map(|bias| if bias.batched == 0 { "a bias" } else { "a bias of each matrix" }),
        match behind.activation {
            LtActivation::None => None,
            LtActivation::Relu => Some("ReLU"),
            LtActivation::GeluTanh => Some("GELU"),
        },
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
