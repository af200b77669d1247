//! What a product is, read from descriptors, and what cuBLASLt refuses of it.
//!
//! After `cublasLt.h` and the table of supported types in NVIDIA's documentation of `cublasLtMatmul`.
use super::descriptors::{DescriptorKind, LtStatus};
use super::number::LtNumber;
use crate::driver::state::DriverState;
use LtNumber::*;

/// How sums are made (`cublasComputeType_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum LtCompute {
    F16,
    F32,
    /// Inputs of 32 bits are rounded first: to f16, to bf16, to tf32.
    F32By(InputRounding),
    F64,
    I32,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum InputRounding {
    F16,
    Bf16,
    Tf32,
}
impl LtCompute {
    fn of(code: u32) -> Option<LtCompute> {
        Some(match code {
            64 | 65 => LtCompute::F16,
            68 | 69 => LtCompute::F32,
            74 => LtCompute::F32By(InputRounding::F16),
            75 => LtCompute::F32By(InputRounding::Bf16),
            77 => LtCompute::F32By(InputRounding::Tf32),
            70 | 71 => LtCompute::F64,
            72 | 73 => LtCompute::I32,
            _ => return None,
        })
    }
}

/// A matrix, or a batch of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct EmulatedMatrix {
    pub address: u64,
    pub number: LtNumber,
    pub rows: u64,
    pub columns: u64,
    pub leading: u64,
    /// Rows lie one after the other; else columns.
    pub by_rows: bool,
    pub batch: u64,
    pub stride: i64,
}
impl EmulatedMatrix {
    /// Elements of one line, and the number of lines.
    pub fn lines(&self) -> (u64, u64) {
        if self.by_rows { (self.columns, self.rows) } else { (self.rows, self.columns) }
    }
    /// Elements from the first to the last.
    fn span(&self) -> u64 {
        let (line, lines) = self.lines();
        if line == 0 || lines == 0 { 0 } else { (lines - 1) * self.leading + line }
    }
    /// The address of a line.
    pub fn line(&self, batch: u64, line: u64) -> u64 {
        let elements = (self.stride * batch as i64).wrapping_add((line * self.leading) as i64);
        self.address.wrapping_add_signed(elements * self.number.bytes() as i64)
    }
    /// The alignment that addresses, leading dimension and stride have in common, up to 16 bytes.
    fn alignment(&self) -> u64 {
        let bytes = self.number.bytes();
        let all = self.address | self.leading * bytes | if self.batch > 1 { self.stride.unsigned_abs() * bytes } else { 0 };
        1 << all.trailing_zeros().min(4)
    }
}
/// A factor: given, or read from the device when the product runs; one for all, or one for each row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum LtFactor {
    Value(f64),
    Device(u64),
    Rows { address: u64, stride: i64 },
}
/// What is done to a product before it is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LtEpilogue {
    pub code: u32,
    pub bias: u64,
    pub bias_number: LtNumber,
    pub bias_stride: i64,
    pub aux: u64,
    pub aux_number: LtNumber,
    pub aux_leading: u64,
    pub aux_stride: i64,
}
/// Bits of an epilogue's code (`cublasLtEpilogue_t`).
pub(crate) const RELU: u32 = 2;
pub(crate) const BIAS: u32 = 4;
pub(crate) const RELU_BACK: u32 = 8;
pub(crate) const BIAS_BACK: u32 = 16;
pub(crate) const GELU: u32 = 32;
pub(crate) const GELU_BACK: u32 = 64;
pub(crate) const AUX: u32 = 128;
pub(crate) const BIAS_OF_A: u32 = 256;
pub(crate) const BIAS_OF_B: u32 = 512;
/// The codes there are.
const EPILOGUES: &[u32] = &[1, 2, 130, 4, 6, 134, 136, 152, 32, 160, 36, 164, 192, 208, 256, 512];
impl LtEpilogue {
    pub fn has(&self, bit: u32) -> bool {
        self.code != 1 && self.code & bit != 0
    }
    /// Does the vector of biases come in or go out?
    fn has_vector(&self) -> bool {
        self.has(BIAS) || self.has(BIAS_BACK) || self.has(BIAS_OF_A) || self.has(BIAS_OF_B)
    }
}

/// A product that is yet to run: D = epilogue(alpha · op(A) · op(B) + beta · C).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EmulatedProduct {
    pub device: usize,
    pub compute: LtCompute,
    pub scale: LtNumber,
    pub a: EmulatedMatrix,
    pub b: EmulatedMatrix,
    pub c: EmulatedMatrix,
    pub d: EmulatedMatrix,
    pub a_transposed: bool,
    pub b_transposed: bool,
    pub alpha: LtFactor,
    pub beta: LtFactor,
    pub epilogue: LtEpilogue,
    /// Where the factors of A, B, C, D and of the auxiliary matrix stand; 0: none.
    pub scales: [u64; 5],
    /// Where the largest absolute value of D goes, and that of the auxiliary matrix; 0: nowhere.
    pub largest: [u64; 2],
    pub workspace: (u64, u64),
}
impl EmulatedProduct {
    /// Rows and columns of D, and what is summed over.
    pub fn sizes(&self) -> (u64, u64, u64) {
        let inner = if self.a_transposed { self.a.rows } else { self.a.columns };
        (self.d.rows, self.d.columns, inner)
    }
    /// The alignment of all addresses, leading dimensions and strides, up to 16 bytes.
    pub fn alignment(&self) -> u64 {
        let e = &self.epilogue;
        let vector = if e.has_vector() { e.bias } else { 0 } | if e.has(AUX) { e.aux } else { 0 };
        let matrices = [self.a, self.b, self.c, self.d].map(|m| m.alignment()).into_iter().min().unwrap_or(1);
        matrices.min(1 << vector.trailing_zeros().min(4))
    }
    /// What algorithms are offered for: all but addresses and factors.
    pub fn key(&self) -> u64 {
        use std::hash::{Hash, Hasher};
        let mut key = std::hash::DefaultHasher::new();
        for matrix in [self.a, self.b, self.c, self.d] {
            EmulatedMatrix { address: 0, ..matrix }.hash(&mut key);
        }
        (self.compute, self.scale, self.a_transposed, self.b_transposed, self.epilogue.code).hash(&mut key);
        key.finish()
    }
}

/// Descriptors and addresses of a product, as they are given.
#[derive(Clone, Copy)]
pub(crate) struct GivenProduct {
    pub product: u64,
    pub layouts: [u64; 4],
    pub addresses: [u64; 4],
    pub alpha: LtFactor,
    pub beta: LtFactor,
}

impl DriverState {
    fn matrix(&self, layout: u64, address: u64) -> Result<EmulatedMatrix, LtStatus> {
        let layout = self.descriptor(layout, DescriptorKind::Layout)?;
        let number = LtNumber::of(layout.word(0)).ok_or(LtStatus::NOT_SUPPORTED)?;
        let by_rows = match layout.word(1) {
            0 => false,
            1 => true,
            2..=4 => return Err(LtStatus::NOT_SUPPORTED),
            _ => return Err(LtStatus::INVALID_VALUE),
        };
        if layout.get(7) != 0 || layout.word(8) != 0 {
            return Err(LtStatus::NOT_SUPPORTED);
        }
        let leading = u64::try_from(layout.signed(4)).map_err(|_| LtStatus::INVALID_VALUE)?;
        let batch = u64::try_from(layout.word(5) as i32).ok().filter(|b| *b > 0).ok_or(LtStatus::INVALID_VALUE)?;
        let matrix = EmulatedMatrix { address, number, rows: layout.get(2), columns: layout.get(3), leading, by_rows, batch, stride: layout.signed(6) };
        let (line, lines) = matrix.lines();
        // "Usually only values that can be expressed as int32_t are supported."
        if line == 0 || lines == 0 || line > i32::MAX as u64 || lines > i32::MAX as u64 {
            return Err(LtStatus::INVALID_VALUE);
        }
        if leading < line || leading > i64::MAX as u64 / 64 / lines {
            return Err(LtStatus::INVALID_VALUE);
        }
        Ok(matrix)
    }
    /// Reads descriptors; refuses what contradicts itself and what no algorithm does.
    pub fn product(&self, given: &GivenProduct) -> Result<EmulatedProduct, LtStatus> {
        let described = self.descriptor(given.product, DescriptorKind::Product)?;
        let compute = LtCompute::of(described.word(0)).ok_or(LtStatus::INVALID_VALUE)?;
        let scale = LtNumber::of(described.word(1)).ok_or(LtStatus::NOT_SUPPORTED)?;
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| self.matrix(given.layouts[k], given.addresses[k]));
        let (a, b, c, d) = (a?, b?, c?, d?);
        let transposed = |which: u32| match described.word(which) {
            0 => Ok(false),
            1 | 2 => Ok(true),
            _ => Err(LtStatus::INVALID_VALUE),
        };
        let (a_transposed, b_transposed) = (transposed(3)?, transposed(4)?);
        // C is never transposed, matrices are full, factors of matrices are single numbers.
        if transposed(5)? || described.word(6) != 2 || (31..=35).chain([37]).any(|mode| described.word(mode) != 0) {
            return Err(LtStatus::NOT_SUPPORTED);
        }
        let number_or = |which: u32, usual: LtNumber| match described.word(which) {
            u32::MAX => Ok(usual),
            code => LtNumber::of(code).ok_or(LtStatus::NOT_SUPPORTED),
        };
        let usual_bias = match d.number {
            I8 => F32,
            F32 | E4m3 | E5m2 if a.number.is_fp8() => Bf16,
            number => number,
        };
        let epilogue = LtEpilogue {
            code: described.word(7),
            bias: described.get(8),
            bias_number: number_or(26, usual_bias)?,
            bias_stride: described.signed(10),
            aux: described.get(11),
            aux_number: number_or(22, d.number)?,
            aux_leading: u64::try_from(described.signed(12)).map_err(|_| LtStatus::INVALID_VALUE)?,
            aux_stride: described.signed(13),
        };
        let device = self.context(self.current().map_err(|_| LtStatus::NOT_INITIALIZED)?).map_err(|_| LtStatus::NOT_INITIALIZED)?.device;
        let product = EmulatedProduct {
            device,
            compute,
            scale,
            a,
            b,
            c,
            d,
            a_transposed,
            b_transposed,
            alpha: given.alpha,
            beta: given.beta,
            epilogue,
            scales: [17, 18, 19, 20, 23].map(|which| described.get(which)),
            largest: [21, 24].map(|which| described.get(which)),
            workspace: (0, 0),
        };
        check_sizes(&product)?;
        self.check_types(&product)?;
        check_epilogue(&product)?;
        check_scales(&product)?;
        Ok(product)
    }
    /// The table of types, and what a card of this age has.
    fn check_types(&self, p: &EmulatedProduct) -> Result<(), LtStatus> {
        let (a, b, c, d) = (p.a.number, p.b.number, p.c.number, p.d.number);
        if a.is_fp8() || b.is_fp8() {
            return self.check_fp8(p);
        }
        if a != b || c != d {
            return Err(LtStatus::NOT_SUPPORTED);
        }
        let known = match p.compute {
            LtCompute::F16 => (p.scale, a, c) == (F16, F16, F16),
            LtCompute::F64 => (p.scale, a, c) == (F64, F64, F64),
            LtCompute::F32By(_) => (p.scale, a, c) == (F32, F32, F32),
            LtCompute::F32 => p.scale == F32 && matches!((a, c), (Bf16, Bf16) | (F16, F16) | (I8, F32) | (Bf16, F32) | (F16, F32) | (F32, F32)),
            LtCompute::I32 => matches!((p.scale, a, c), (I32, I8, I32) | (F32, I8, I8)),
        };
        if !known {
            return Err(LtStatus::NOT_SUPPORTED);
        }
        if a == Bf16 && self.profile.capability.0 < 8 {
            return Err(LtStatus::ARCH_MISMATCH);
        }
        if a == I8 && p.compute == LtCompute::I32 {
            // "A must be transposed and B non-transposed"; m and k, leading dimensions and addresses are multiples of 4.
            let by_rows = [p.a, p.b, p.c, p.d].iter().any(|m| m.by_rows);
            let (rows, _, inner) = p.sizes();
            let leading = [p.a, p.b, p.c, p.d].iter().any(|m| m.leading % 4 != 0);
            if by_rows || !p.a_transposed || p.b_transposed || rows % 4 != 0 || inner % 4 != 0 || leading {
                return Err(LtStatus::NOT_SUPPORTED);
            }
        }
        Ok(())
    }
    /// Inputs of 8 bits: which pairs, which outputs, which way they lie.
    fn check_fp8(&self, p: &EmulatedProduct) -> Result<(), LtStatus> {
        let (a, b, c, d) = (p.a.number, p.b.number, p.c.number, p.d.number);
        if self.profile.architecture() < 89 {
            return Err(LtStatus::ARCH_MISMATCH);
        }
        let inputs = a.is_fp8() && b.is_fp8() && (a, b) != (E5m2, E5m2);
        let outputs = match d {
            E4m3 => matches!(c, F16 | Bf16),
            E5m2 => matches!(c, F16 | Bf16) && (a, b) != (E4m3, E4m3),
            F16 | Bf16 | F32 => c == d,
            _ => false,
        };
        let (rows, columns, inner) = p.sizes();
        let whole = [rows, columns, inner].iter().all(|s| s % 16 == 0);
        let by_rows = [p.a, p.b, p.c, p.d].iter().any(|m| m.by_rows);
        // The Hopper kernels want op(A) transposed, op(B) not, sizes and addresses in multiples of 16.
        if p.compute != LtCompute::F32 || p.scale != F32 || !inputs || !outputs || !p.a_transposed || p.b_transposed || !whole || by_rows {
            return Err(LtStatus::NOT_SUPPORTED);
        }
        Ok(())
    }
}

/// Sizes that fit each other, batches of one count, outputs that do not overlap.
fn check_sizes(p: &EmulatedProduct) -> Result<(), LtStatus> {
    let transposed_sizes = |m: &EmulatedMatrix, t: bool| if t { (m.columns, m.rows) } else { (m.rows, m.columns) };
    let ((m, k), (k_of_b, n)) = (transposed_sizes(&p.a, p.a_transposed), transposed_sizes(&p.b, p.b_transposed));
    let fits = k == k_of_b && (p.d.rows, p.d.columns) == (m, n) && (p.c.rows, p.c.columns) == (m, n) && p.c.by_rows == p.d.by_rows;
    let batches = [p.a, p.b, p.c].iter().all(|x| x.batch == p.d.batch);
    let apart = p.d.batch == 1 || p.d.stride.unsigned_abs() >= p.d.span();
    if !fits || !batches || !apart {
        return Err(LtStatus::INVALID_VALUE);
    }
    // In place only as it lies.
    let in_place = p.c.address == p.d.address && p.d.address != 0 && p.beta != LtFactor::Value(0.0);
    if in_place && (p.c.leading, p.c.stride, p.c.number) != (p.d.leading, p.d.stride, p.d.number) {
        return Err(LtStatus::INVALID_VALUE);
    }
    Ok(())
}
/// Epilogues: which there are, for which types, and what they need.
fn check_epilogue(p: &EmulatedProduct) -> Result<(), LtStatus> {
    let e = &p.epilogue;
    if !EPILOGUES.contains(&e.code) {
        return Err(LtStatus::INVALID_VALUE);
    }
    if e.code == 1 {
        return Ok(());
    }
    if p.d.by_rows || p.scale == I32 {
        return Err(LtStatus::NOT_SUPPORTED);
    }
    let plain = matches!(e.code, RELU | BIAS) || e.code == RELU | BIAS;
    if matches!(p.d.number, F64 | I8) && !plain {
        return Err(LtStatus::NOT_SUPPORTED);
    }
    let fp8_back = p.a.number.is_fp8() && (e.has(RELU_BACK) || e.has(GELU_BACK) || e.has(BIAS_OF_A) || e.has(BIAS_OF_B));
    if fp8_back {
        return Err(LtStatus::NOT_SUPPORTED);
    }
    let bias_fits = match p.d.number {
        _ if !e.has_vector() => true,
        I8 => e.bias_number == F32,
        F32 | E4m3 | E5m2 if p.a.number.is_fp8() => matches!(e.bias_number, Bf16 | F16),
        number => e.bias_number == number,
    };
    if !bias_fits {
        return Err(LtStatus::NOT_SUPPORTED);
    }
    if e.has_vector() && (e.bias == 0 || e.bias % e.bias_number.bytes() != 0) {
        return Err(LtStatus::INVALID_VALUE);
    }
    if e.has(AUX) {
        let bits = e.has(RELU) || e.has(RELU_BACK);
        let multiple = if bits { 128 } else { 8 };
        let strided = p.d.batch > 1 && (e.aux_stride % multiple as i64 != 0 || e.aux_stride == 0);
        if e.aux == 0 || e.aux_leading % multiple != 0 || e.aux_leading < p.d.rows || strided {
            return Err(LtStatus::INVALID_VALUE);
        }
        let kind_fits = bits || e.aux_number == p.d.number || p.d.number == E4m3 && e.aux_number == F16;
        if !kind_fits {
            return Err(LtStatus::INVALID_VALUE);
        }
        if e.aux % 16 != 0 {
            return Err(LtStatus::NOT_SUPPORTED);
        }
    }
    Ok(())
}
/// Factors of matrices are for numbers of 8 bits alone.
fn check_scales(p: &EmulatedProduct) -> Result<(), LtStatus> {
    let fp8 = [p.a.number, p.b.number, p.c.number, p.d.number, p.epilogue.aux_number].map(LtNumber::is_fp8);
    let wrong = p.scales.iter().zip(fp8).any(|(at, fp8)| *at != 0 && !fp8);
    let wrong = wrong || p.largest[0] != 0 && !fp8[3] || p.largest[1] != 0 && !fp8[4];
    if wrong { Err(LtStatus::INVALID_VALUE) } else { Ok(()) }
}
