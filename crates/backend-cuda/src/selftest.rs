//! At the first opening of a card with its driver and libraries, each fast path computes something that the host has computed
//! otherwise. One that differs is off from then on, for a reason that is told and kept on disk; what it would have done is done
//! plainly.
//!
//! A path that takes the card with it is off, and the others are looked at on the card opened anew.
mod epilogues;
mod graphs;
mod units;

use crate::{
    blaslt::{BlasLt, LtBehind, LtMatrix, LtPlaces, LtProduct, WORKSPACE},
    launch::Launches,
    memory::{DeviceBlock, mapped_pages_differ},
    opened::{Opened, internal},
    options::CudaOptions,
    paths::{FastPath, PathsOff},
};
use adamant_kernels::{Array, Work, skeleton};
use adamant_runtime::{
    DType, ErrorKind, Shape,
    backend::{Event, Queue},
    bf16, bf16_from_f64, f16, f16_from_f64,
    kernel::{Kernel, KernelKind},
};
use std::sync::Arc;

/// Another version of the checks is another outcome.
const VERSION: u32 = 2;

/// What a path did that it should not have, if anything.
type Differs = Option<String>;
/// Opens a card, and puts off what differs there.
///
/// # Errors
/// As [`Opened::open_with`].
pub(crate) fn open_checked(options: &CudaOptions) -> Result<Arc<Opened>, ErrorKind> {
    let opened = Opened::open_with(options, PathsOff::default())?;
    let key = key(&opened, options);
    let kept = opened.compiler.disk().and_then(|disk| disk.read(&key)).and_then(|text| PathsOff::from_text(&String::from_utf8(text).ok()?));
    if let Some(off) = kept {
        drop(opened);
        return Opened::open_with(options, off);
    }
    let (opened, is_whole) = checked(opened, options)?;
    if let (Some(disk), true) = (opened.compiler.disk(), is_whole) {
        disk.keep(&key, opened.paths.to_text().as_bytes());
    }
    // What is off was never there, and nothing is counted yet.
    let off = opened.paths.clone();
    drop(opened);
    Opened::open_with(options, off)
}
/// All that the outcome depends on.
fn key(opened: &Opened, options: &CudaOptions) -> String {
    let card = &opened.card;
    format!(
        "self-test {VERSION} of {}\0{:x?}\0{}\0{}\0{}\0{}\0{}\0{:?}",
        env!("CARGO_PKG_VERSION"),
        card.id,
        card.name,
        card.capability,
        card.driver,
        opened.compiler.described(),
        opened.multiplies,
        options.told()
    )
}
/// Makes all checks. Were they made in full?
fn checked(mut opened: Arc<Opened>, options: &CudaOptions) -> Result<(Arc<Opened>, bool), ErrorKind> {
    let mut is_whole = true;
    for path in FastPath::ALL {
        match differs(&opened, path) {
            Ok(None) => {}
            Ok(Some(why)) => opened.paths.put_off(path, &why),
            Err(ErrorKind::DeviceLost(why)) => {
                opened.paths.put_off(path, &format!("it ends in {why}"));
                let off = opened.paths.clone();
                opened = opened.opened_anew(options, off)?;
            }
            // Others have the memory: that says nothing of the path.
            Err(ErrorKind::OutOfMemory { .. }) => is_whole = false,
            Err(e) => opened.paths.put_off(path, &format!("it fails: {e}")),
        }
    }
    Ok((opened, is_whole))
}
fn differs(opened: &Arc<Opened>, path: FastPath) -> Result<Differs, ErrorKind> {
    let [short, exact] = [[DType::F16, DType::BF16], [DType::F32, DType::F64]];
    match path {
        FastPath::LibraryProducts => first(short.into_iter().chain(exact), |dtype| library_product(opened, dtype, false)),
        FastPath::Tf32Products if opened.cuts_to_tf32() => library_product(opened, DType::F32, true),
        FastPath::Tf32Products => Ok(None),
        FastPath::BiasEpilogue | FastPath::ReluEpilogue | FastPath::GeluEpilogue | FastPath::WideGeluEpilogue => epilogues::differ(opened, path),
        FastPath::UnitProducts | FastPath::UnitAttention | FastPath::UnitConvolutions if !opened.has_unit() => Ok(None),
        // In small tiles, and in large ones.
        FastPath::UnitProducts => {
            let all = short.into_iter().map(|dtype| (dtype, 1)).chain([(DType::F16, 96)]);
            first(all, |(dtype, batch)| unit_product(opened, dtype, batch))
        }
        FastPath::UnitAttention => units::attention_differs(opened),
        FastPath::UnitConvolutions => units::convolutions_differ(opened),
        FastPath::MappedPages if !opened.pool.is_mapped() => Ok(None),
        FastPath::MappedPages => mapped_pages_differ(opened),
        FastPath::Graphs if !opened.freezes() => Ok(None),
        FastPath::Graphs => graphs::differ(opened),
    }
}
/// The first difference of some.
fn first<T>(mut all: impl Iterator<Item = T>, check: impl FnMut(T) -> Result<Differs, ErrorKind>) -> Result<Differs, ErrorKind> {
    all.by_ref().map(check).find(|found| !matches!(found, Ok(None))).unwrap_or(Ok(None))
}
/// A product of rows, `[batch, ROWS, DEPTH]` by `[batch, DEPTH, COLUMNS]`, as the host has it.
struct HostProduct {
    dtype: DType,
    batch: usize,
    a: Vec<f64>,
    b: Vec<f64>,
}
const ROWS: usize = 40;
const DEPTH: usize = 24;
const COLUMNS: usize = 56;
impl HostProduct {
    /// Of multiples of sixteenths, whose sums f32 holds, or of numbers with all digits that f32 has.
    fn new(dtype: DType, batch: usize, has_all_digits: bool) -> HostProduct {
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let mut number = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let drawn = (state >> 40) as f64 / (1u64 << 24) as f64;
            if has_all_digits { f64::from((drawn * 2.0 - 1.0) as f32) } else { (drawn * 33.0).floor() / 16.0 - 1.0 }
        };
        let mut numbers = |count: usize| -> Vec<f64> { (0..count).map(|_| number()).collect() };
        HostProduct { dtype, batch, a: numbers(batch * ROWS * DEPTH), b: numbers(batch * DEPTH * COLUMNS) }
    }
    /// How the device's result differs, where more than by its rounding: `near` of the sum of all magnitudes.
    fn differs(&self, result: &[f64], near: f64) -> Differs {
        let all = (0..self.batch).flat_map(|k| (0..ROWS * COLUMNS).map(move |at| (k, at / COLUMNS, at % COLUMNS)));
        let pair = |(k, row, column): (usize, usize, usize), n: usize| (self.a[(k * ROWS + row) * DEPTH + n], self.b[(k * DEPTH + n) * COLUMNS + column]);
        all.zip(result).find_map(|(place, is)| {
            let sums = (0..DEPTH).map(|n| pair(place, n)).fold([0.0, 0.0], |[sum, all], (a, b)| [sum + a * b, all + (a * b).abs()]);
            let is_near = (is - sums[0]).abs() <= near * sums[1];
            let (k, row, column) = place;
            (!is_near).then(|| format!("a product of {} is {is} at [{k}, {row}, {column}], and not {}", self.dtype, sums[0]))
        })
    }
    /// Column by column: the product transposed.
    fn as_the_library_sees_it(&self, behind: LtBehind) -> LtProduct {
        let matrix = |rows: usize, columns: usize| LtMatrix {
            rows: rows as u64,
            columns: columns as u64,
            leading: rows as i64,
            batched: (rows * columns) as i64,
            alignment: 256,
            is_transposed: false,
        };
        let [a, b, d] = [matrix(COLUMNS, DEPTH), matrix(DEPTH, ROWS), matrix(COLUMNS, ROWS)];
        LtProduct { dtype: self.dtype, batch: self.batch as i32, a, b, d, behind }
    }
    fn result_bytes(&self) -> usize {
        self.batch * ROWS * COLUMNS * self.dtype.size()
    }
}
fn encoded(dtype: DType, numbers: &[f64]) -> Vec<u8> {
    let one = |v: f64| match dtype {
        DType::F64 => v.to_le_bytes().to_vec(),
        DType::F16 => f16_from_f64(v).to_le_bytes().to_vec(),
        DType::BF16 => bf16_from_f64(v).to_le_bytes().to_vec(),
        _ => (v as f32).to_le_bytes().to_vec(),
    };
    numbers.iter().flat_map(|v| one(*v)).collect()
}
fn decoded(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        DType::F64 => bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
        DType::F16 => bytes.as_chunks().0.iter().map(|b| f16::from_le_bytes(*b).to_f64()).collect(),
        DType::BF16 => bytes.as_chunks().0.iter().map(|b| bf16::from_le_bytes(*b).to_f64()).collect(),
        _ => bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
    }
}
/// Half a unit in the last place.
fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f64::powi(2.0, -11),
        DType::BF16 => f64::powi(2.0, -8),
        DType::F64 => f64::powi(2.0, -50),
        _ => f64::powi(2.0, -21),
    }
}
/// The factors on the device, and a place for the result.
fn placed(opened: &Opened, host: &HostProduct) -> Result<[DeviceBlock; 3], ErrorKind> {
    let [a, b] = [&host.a, &host.b].map(|numbers| encoded(host.dtype, numbers));
    let blocks = [DeviceBlock::new(opened, a.len())?, DeviceBlock::new(opened, b.len())?, DeviceBlock::new(opened, host.result_bytes())?];
    for (block, bytes) in blocks.iter().zip([&a, &b]) {
        opened.copy_in(Queue::Compute, block.address, bytes, &[])?;
    }
    Ok(blocks)
}
fn read(opened: &Arc<Opened>, host: &HostProduct, address: u64) -> Result<Vec<f64>, ErrorKind> {
    let mut bytes = vec![0; host.result_bytes()];
    opened.copy_out(Queue::Compute, address, bytes.len(), &[])?.finish(&mut bytes)?;
    Ok(decoded(host.dtype, &bytes))
}
/// A product by the library, if it has this one.
fn library_product(opened: &Arc<Opened>, dtype: DType, cut: bool) -> Result<Differs, ErrorKind> {
    let Some(library) = opened.products.as_ref().filter(|_| opened.multiplies(dtype)) else { return Ok(None) };
    let host = HostProduct::new(dtype, 2, cut);
    let [a, b, d] = placed(opened, &host)?;
    let places = LtPlaces { a: b.address, b: a.address, d: d.address, added: d.address, bias: 0 };
    if !multiplied(opened, library, &host.as_the_library_sees_it(LtBehind::default()), &places)? {
        return Ok(None);
    }
    // Both factors are cut to 10 bits.
    let near = if cut {
        f64::powi(2.0, -9)
    } else if opened.cuts_to_tf32() && dtype == DType::F32 {
        0.25
    } else {
        rounding(dtype)
    };
    Ok(host.differs(&read(opened, &host, d.address)?, near))
}
/// Has the library compute something, and waits for it: does it take it?
fn multiplied(opened: &Arc<Opened>, library: &BlasLt, product: &LtProduct, places: &LtPlaces) -> Result<bool, ErrorKind> {
    let Some(plan) = library.plan(product, places)? else { return Ok(false) };
    let workspace = DeviceBlock::new(opened, WORKSPACE)?;
    let turn = opened.queue(Queue::Compute).turn(&Default::default())?;
    let is_taken = library.run(&plan, places, workspace.address, turn.stream())?;
    let event = turn.end()?;
    opened.wait(event)?;
    Ok(is_taken)
}
/// A product of 16 bits by our kernel for the matrix unit.
fn unit_product(opened: &Arc<Opened>, dtype: DType, batch: usize) -> Result<Differs, ErrorKind> {
    let host = HostProduct::new(dtype, batch, false);
    let blocks = placed(opened, &host)?;
    let array = |number: usize, rows: usize, columns: usize| -> Result<Array, ErrorKind> {
        let shape = Shape::new(&[batch, rows, columns])?;
        Ok(Array { buffer: number, shape, offset: 0, strides: shape.strides(), dtype, dense: true })
    };
    let (inputs, outputs) = ([array(1, ROWS, DEPTH)?, array(2, DEPTH, COLUMNS)?], [array(3, ROWS, COLUMNS)?]);
    let kernel = Kernel::new(KernelKind::Matmul);
    let mut launches = Launches::new(opened);
    launches.begin_at(&kernel, &[(1, blocks[0].address), (2, blocks[1].address), (3, blocks[2].address)]);
    let space = outputs.first().map(|o| o.shape).ok_or_else(|| internal("no output"))?;
    skeleton::record(&mut launches, &kernel.kind, &Work { space, inputs: &inputs, outputs: &outputs, args: &[] })?;
    let event: Event = launches.run(Queue::Compute, &[])?;
    opened.wait(event)?;
    Ok(host.differs(&read(opened, &host, blocks[2].address)?, rounding(dtype)))
}
