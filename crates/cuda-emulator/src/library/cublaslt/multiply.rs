//! Products in plain loops: sums in f64, one rounding to the type they are summed in, the epilogue, one rounding to D.
//!
//! GELU is the tanh form (Hendrycks, Gimpel, "Gaussian error linear units", 2016), as cuBLASLt's is.
use super::check::{
    AUX, BIAS, BIAS_BACK, BIAS_OF_A, BIAS_OF_B, EmulatedMatrix, EmulatedProduct, GELU, GELU_BACK, InputRounding, LtCompute, LtFactor, RELU, RELU_BACK,
};
use super::number::{LtNumber, tf32};
use crate::driver::clock::{CardEngine, multiplying};
use crate::driver::code::{Answer, CudaCode};
use crate::driver::copies::kind_of;
use crate::driver::order::WorkNow;
use crate::driver::state::{DriverState, EmulatedLaunch};
use crate::emulator::EmulatedFault;
use crate::machine::finding::FindingKind;
use crate::memory::DeviceMemory;
use std::sync::Arc;

/// What reports call it.
const CALL: &str = "cublasLtMatmul";
/// Multiply-adds below which one thread does all.
const SMALL: u64 = 1 << 18;
/// f16 sums are rounded after so many products, as a tensor core's instruction is deep.
const F16_STEP: usize = 16;

/// Reads and writes for one product, with what each touches.
struct ProductMemory<'s, 'p> {
    state: &'s mut DriverState,
    memory: Arc<DeviceMemory>,
    device: usize,
    present: &'p WorkNow<'p>,
}
impl ProductMemory<'_, '_> {
    fn read(&mut self, address: u64, bytes: u64) -> Answer<Vec<u8>> {
        self.state.touch(self.device, address, bytes, false, self.present);
        let mut to = vec![0; bytes as usize];
        if let Err(fault) = self.memory.read(address, &mut to) {
            self.state.find_of_call(kind_of(&fault), CALL, fault.to_string(), Some(fault.address));
            return Err(CudaCode::ILLEGAL_ADDRESS);
        }
        if !self.memory.is_written(address, bytes) {
            let note = format!("of {bytes} bytes of an input, some were never written");
            self.state.find_of_call(FindingKind::ReadBeforeWritten, CALL, note, Some(address));
            return Err(CudaCode::LAUNCH_FAILED);
        }
        Ok(to)
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Answer {
        self.state.touch(self.device, address, bytes.len() as u64, true, self.present);
        self.memory.write(address, bytes).map_err(|fault| {
            self.state.find_of_call(kind_of(&fault), CALL, fault.to_string(), Some(fault.address));
            CudaCode::ILLEGAL_ADDRESS
        })
    }
    fn number(&mut self, number: LtNumber, address: u64) -> Answer<f64> {
        Ok(number.read(&self.read(address, number.bytes())?))
    }
    fn numbers(&mut self, number: LtNumber, address: u64, count: u64) -> Answer<Vec<f64>> {
        let bytes = self.read(address, count * number.bytes())?;
        Ok(bytes.chunks(number.bytes() as usize).map(|b| number.read(b)).collect())
    }
    /// One matrix of a batch, `[rows, columns]`, row after row.
    fn matrix(&mut self, m: &EmulatedMatrix, batch: u64) -> Answer<Vec<f64>> {
        let (line, lines) = m.lines();
        let mut lined = Vec::with_capacity((line * lines) as usize);
        if m.leading == line {
            lined = self.numbers(m.number, m.line(batch, 0), line * lines)?;
        } else {
            for k in 0..lines {
                lined.extend(self.numbers(m.number, m.line(batch, k), line)?);
            }
        }
        Ok(if m.by_rows { lined } else { transposed(&lined, lines as usize, line as usize) })
    }
    /// Writes one matrix of a batch, given row after row.
    fn put(&mut self, m: &EmulatedMatrix, batch: u64, values: &[f64]) -> Answer {
        let (line, lines) = m.lines();
        let lined = if m.by_rows { values.to_vec() } else { transposed(values, m.rows as usize, m.columns as usize) };
        for k in 0..lines {
            let from = (k * line) as usize;
            let mut bytes = Vec::with_capacity((line * m.number.bytes()) as usize);
            for value in lined.get(from..from + line as usize).unwrap_or(&[]) {
                m.number.write(*value, &mut bytes);
            }
            self.write(m.line(batch, k), &bytes)?;
        }
        Ok(())
    }
    fn factor(&mut self, factor: LtFactor, number: LtNumber, rows: u64, batch: u64) -> Answer<Vec<f64>> {
        Ok(match factor {
            LtFactor::Value(value) => vec![value; rows as usize],
            LtFactor::Device(address) => vec![self.number(number, address)?; rows as usize],
            LtFactor::Rows { address, stride } => {
                let at = address.wrapping_add_signed(stride * batch as i64 * number.bytes() as i64);
                self.numbers(number, at, rows)?
            }
        })
    }
    /// A factor of a matrix: 1 where none is given.
    fn scale(&mut self, address: u64) -> Answer<f64> {
        if address == 0 { Ok(1.0) } else { self.number(LtNumber::F32, address) }
    }
}

/// `[rows, columns]` to `[columns, rows]`.
fn transposed(values: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    let mut swapped = vec![0.0; values.len()];
    for (r, row) in values.chunks(columns.max(1)).enumerate() {
        for (c, value) in row.iter().enumerate() {
            if let Some(place) = swapped.get_mut(c * rows + r) {
                *place = *value;
            }
        }
    }
    swapped
}
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    for (a, b) in a.iter().zip(b) {
        for k in 0..8 {
            sums[k] += a[k] * b[k];
        }
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum::<f64>()
}
/// Sums of products of the rows of `a` and of `b`, `inner` long each, as this kind sums.
fn sums(a: &[f64], b: &[f64], inner: usize, compute: LtCompute, threads: usize) -> Vec<f64> {
    let columns = b.len() / inner;
    let one = |a: &[f64], b: &[f64]| match compute {
        LtCompute::F64 | LtCompute::I32 => dot(a, b),
        LtCompute::F32 | LtCompute::F32By(_) => f64::from(dot(a, b) as f32),
        LtCompute::F16 => a.chunks(F16_STEP).zip(b.chunks(F16_STEP)).fold(0.0, |sum, (a, b)| LtNumber::F16.rounded(sum + dot(a, b))),
    };
    let mut out = vec![0.0; a.len() / inner * columns];
    let fill = |rows: &[f64], out: &mut [f64]| {
        for (row, out) in rows.chunks(inner).zip(out.chunks_mut(columns)) {
            for (column, out) in b.chunks(inner).zip(out) {
                *out = one(row, column);
            }
        }
    };
    let rows = a.len() / inner;
    let work = (rows * columns) as u64 * inner as u64;
    if work < SMALL || threads < 2 {
        fill(a, &mut out);
    } else {
        let share = rows.div_ceil(threads);
        std::thread::scope(|scope| {
            for (rows, out) in a.chunks(share * inner).zip(out.chunks_mut(share * columns)) {
                scope.spawn(|| fill(rows, out));
            }
        });
    }
    out
}
/// sqrt(2/π) and the cubic term's factor of GELU.
const GELU_SCALE: f64 = 0.797_884_560_802_865_4;
const GELU_CUBE: f64 = 0.044_715;
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + (GELU_SCALE * (x + GELU_CUBE * x * x * x)).tanh())
}
fn gelu_slope(x: f64) -> f64 {
    let t = (GELU_SCALE * (x + GELU_CUBE * x * x * x)).tanh();
    0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * GELU_SCALE * (1.0 + 3.0 * GELU_CUBE * x * x)
}

impl DriverState {
    /// Multiplies.
    pub fn perform_product(&mut self, p: &EmulatedProduct, present: &WorkNow, ready: f64, by_graph: bool) -> Answer<(CardEngine, f64, f64)> {
        let memory = self.devices.get(p.device).ok_or(CudaCode::INVALID_CONTEXT)?.memory.clone();
        let (rows, columns, inner) = p.sizes();
        if by_graph {
            let stream = present.stamp.stream;
            self.launched(|| EmulatedLaunch { kernel: CALL.into(), grid: [1; 3], block: [1; 3], shared: 0, stream, by_graph });
        }
        if p.workspace.0 != 0 && memory.check(p.workspace.0, p.workspace.1.max(1)).is_ok() {
            self.touch(p.device, p.workspace.0, p.workspace.1, true, present);
        }
        let mut access = ProductMemory { state: self, memory, device: p.device, present };
        let mut largest = [0.0_f64; 2];
        for batch in 0..p.d.batch {
            let found = access.one(p, batch, (rows as usize, columns as usize, inner as usize))?;
            largest = [largest[0].max(found[0]), largest[1].max(found[1])];
        }
        for (address, value) in p.largest.iter().zip(largest) {
            if *address != 0 {
                access.write(*address, &(value as f32).to_le_bytes())?;
            }
        }
        let products = (rows * columns * inner * p.d.batch) as f64;
        let (start, end) = self.clock.run(CardEngine::Compute, ready, multiplying(self.profile, products));
        Ok((CardEngine::Compute, start, end))
    }
}
impl ProductMemory<'_, '_> {
    /// One product of a batch; gives the largest absolute values of D and of the auxiliary matrix.
    fn one(&mut self, p: &EmulatedProduct, batch: u64, (rows, columns, inner): (usize, usize, usize)) -> Answer<[f64; 2]> {
        let threads = self.state.options.threads;
        let (coarse, skip) = (self.state.goes_wrong(EmulatedFault::Tf32), self.state.goes_wrong(EmulatedFault::Epilogue));
        let taken = |values: Vec<f64>| -> Vec<f64> {
            let LtCompute::F32By(rounding) = p.compute else { return values };
            let round = |x: f64| match rounding {
                // Cards before Ampere have no tf32.
                InputRounding::Tf32 if coarse => LtNumber::E4m3.rounded(x),
                InputRounding::Tf32 => tf32(x),
                InputRounding::F16 => LtNumber::F16.rounded(x),
                InputRounding::Bf16 => LtNumber::Bf16.rounded(x),
            };
            values.into_iter().map(round).collect()
        };
        let old = self.state.profile.capability.0 < 8 && p.compute == LtCompute::F32By(InputRounding::Tf32);
        let taken = |values: Vec<f64>| if old { values } else { taken(values) };
        // op(A) as rows, op(B) as columns, each `inner` long.
        let a = taken(self.matrix(&p.a, batch)?);
        let a = if p.a_transposed { transposed(&a, p.a.rows as usize, p.a.columns as usize) } else { a };
        let b = taken(self.matrix(&p.b, batch)?);
        let b = if p.b_transposed { b } else { transposed(&b, p.b.rows as usize, p.b.columns as usize) };
        let mut x = sums(&a, &b, inner, p.compute, threads);
        if self.state.goes_wrong(EmulatedFault::Product) {
            x.last_mut().into_iter().for_each(|last| *last = 0.0);
        }

        let inputs = self.scale(p.scales[0])? * self.scale(p.scales[1])?;
        let (c_scale, d_scale, aux_scale) = (self.scale(p.scales[2])?, self.scale(p.scales[3])?, self.scale(p.scales[4])?);
        let alpha = self.factor(p.alpha, p.scale, rows as u64, batch)?;
        let beta = self.factor(p.beta, p.scale, rows as u64, batch)?;
        // With beta 0, C is not read.
        let c = if beta.iter().all(|b| *b == 0.0) { None } else { Some(self.matrix(&p.c, batch)?) };
        for r in 0..rows {
            for k in r * columns..(r + 1) * columns {
                let added = c.as_ref().and_then(|c| c.get(k)).map_or(0.0, |c| beta[r] * c_scale * c);
                x[k] = alpha[r] * inputs * x[k] + added;
            }
        }
        let largest_aux = if skip { 0.0 } else { self.epilogue(p, batch, &mut x, (&a, &b), (rows, columns, inner), aux_scale)? };
        let largest = x.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        if p.d.number.is_fp8() {
            x.iter_mut().for_each(|v| *v *= d_scale);
        }
        if p.d.number == LtNumber::I8 {
            x.iter_mut().for_each(|v| *v = v.clamp(-128.0, 127.0));
        }
        self.put(&p.d, batch, &x)?;
        Ok([largest, largest_aux])
    }
    /// Biases, activations and their slopes, sums for biases.
    fn epilogue(
        &mut self,
        p: &EmulatedProduct,
        batch: u64,
        x: &mut [f64],
        (a, b): (&[f64], &[f64]),
        (rows, columns, inner): (usize, usize, usize),
        aux_scale: f64,
    ) -> Answer<f64> {
        let e = &p.epilogue;
        let vector = e.bias.wrapping_add_signed(e.bias_stride * batch as i64 * e.bias_number.bytes() as i64);
        let write = |access: &mut Self, values: Vec<f64>| {
            let mut bytes = Vec::new();
            values.iter().for_each(|v| e.bias_number.write(*v, &mut bytes));
            access.write(vector, &bytes)
        };
        if e.has(BIAS) {
            let bias = self.numbers(e.bias_number, vector, rows as u64)?;
            for (row, bias) in x.chunks_mut(columns).zip(bias) {
                row.iter_mut().for_each(|v| *v += bias);
            }
        }
        let mut largest = 0.0_f64;
        if e.has(AUX) && (e.has(RELU) || e.has(RELU_BACK)) {
            self.mask(p, batch, x, (rows, columns))?;
        } else if e.has(AUX) {
            let number = e.aux_number;
            let stride = e.aux_stride;
            let matrix = EmulatedMatrix { address: e.aux, number, leading: e.aux_leading, by_rows: false, stride, ..p.d };
            if e.has(GELU_BACK) {
                let before = self.matrix(&matrix, batch)?;
                x.iter_mut().zip(before).for_each(|(v, before)| *v *= gelu_slope(before));
            } else {
                largest = x.iter().fold(0.0, |m, v| m.max(v.abs()));
                let scaled: Vec<f64> = x.iter().map(|v| v * aux_scale).collect();
                self.put(&matrix, batch, &scaled)?;
            }
        }
        if e.has(RELU) {
            x.iter_mut().for_each(|v| *v = if *v > 0.0 || v.is_nan() { *v } else { 0.0 });
        }
        if e.has(GELU) {
            x.iter_mut().for_each(|v| *v = gelu(*v));
        }
        if e.has(BIAS_BACK) {
            write(self, x.chunks(columns).map(|row| row.iter().sum()).collect())?;
        }
        if e.has(BIAS_OF_A) {
            write(self, a.chunks(inner).map(|row| row.iter().sum()).collect())?;
        }
        if e.has(BIAS_OF_B) {
            write(self, b.chunks(inner).map(|column| column.iter().sum()).collect())?;
        }
        Ok(largest)
    }
    /// ReLU's mask, a bit for each element, column after column: written, or applied.
    fn mask(&mut self, p: &EmulatedProduct, batch: u64, x: &mut [f64], (rows, columns): (usize, usize)) -> Answer {
        let e = &p.epilogue;
        for column in 0..columns {
            let bits = e.aux_stride * batch as i64 + (e.aux_leading * column as u64) as i64;
            let at = e.aux.wrapping_add_signed(bits / 8);
            if e.has(RELU_BACK) {
                let mask = self.read(at, rows.div_ceil(8) as u64)?;
                for r in 0..rows {
                    if mask[r / 8] >> (r % 8) & 1 == 0 {
                        x[r * columns + column] = 0.0;
                    }
                }
            } else {
                let mut mask = vec![0_u8; rows.div_ceil(8)];
                for r in 0..rows {
                    mask[r / 8] |= u8::from(x[r * columns + column] > 0.0) << (r % 8);
                }
                self.write(at, &mask)?;
            }
        }
        Ok(())
    }
}
