//! What the tests of products share: numbers as bytes, matrices as they lie, descriptors.
#![allow(dead_code, reason = "each test program uses some of it")]
#![allow(unsafe_code, reason = "the library's functions are C's")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "the library's functions are unsafe by their kind, and the emulator looks everything up")]

use cudarc::cublaslt::sys;
use half::{bf16, f16};
use std::ptr::null_mut;

/// A call of cuBLASLt with its answer as a number.
#[macro_export]
macro_rules! lt {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the test's places outlive the call, and the emulator looks every handle up.
        unsafe { cudarc::cublaslt::sys::$name($($argument),*) as u32 }
    }};
}

/// Numbers that look drawn.
pub struct Draw(pub u64);
impl Draw {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
    pub fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
    /// A small number that every type of more than 8 bits holds: quarters from -2 to 2.
    pub fn number(&mut self) -> f64 {
        (self.below(17) as f64 - 8.0) / 4.0
    }
}

pub const F32: u32 = 0;
pub const F64: u32 = 1;
pub const F16: u32 = 2;
pub const I8: u32 = 3;
pub const I32: u32 = 10;
pub const BF16: u32 = 14;
pub const E4M3: u32 = 28;
pub fn size(kind: u32) -> usize {
    match kind {
        F64 => 8,
        F32 | I32 => 4,
        F16 | BF16 => 2,
        _ => 1,
    }
}
pub fn encode(kind: u32, values: &[f64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|v| match kind {
            F64 => v.to_le_bytes().to_vec(),
            F32 => (*v as f32).to_le_bytes().to_vec(),
            I32 => (*v as i32).to_le_bytes().to_vec(),
            F16 => f16::from_f64(*v).to_le_bytes().to_vec(),
            BF16 => bf16::from_f64(*v).to_le_bytes().to_vec(),
            I8 => (*v as i8).to_le_bytes().to_vec(),
            // Sums of powers of two that E4M3 holds: sign, exponent and three bits of fraction.
            _ => {
                let (mut exponent, magnitude) = (0, v.abs());
                if magnitude == 0.0 {
                    return vec![0];
                }
                while magnitude >= 2_f64.powi(exponent + 1) {
                    exponent += 1;
                }
                while magnitude < 2_f64.powi(exponent) {
                    exponent -= 1;
                }
                let fraction = (magnitude / 2_f64.powi(exponent) - 1.0) * 8.0;
                assert_eq!(fraction.fract(), 0.0);
                vec![u8::from(*v < 0.0) << 7 | ((exponent + 7) as u8) << 3 | fraction as u8]
            }
        })
        .collect()
}
pub fn decode(kind: u32, bytes: &[u8]) -> Vec<f64> {
    bytes
        .chunks(size(kind))
        .map(|b| match kind {
            F64 => f64::from_le_bytes(b.try_into().unwrap()),
            F32 => f64::from(f32::from_le_bytes(b.try_into().unwrap())),
            I32 => f64::from(i32::from_le_bytes(b.try_into().unwrap())),
            F16 => f16::from_le_bytes(b.try_into().unwrap()).to_f64(),
            BF16 => bf16::from_le_bytes(b.try_into().unwrap()).to_f64(),
            I8 => f64::from(b[0] as i8),
            _ => {
                let (sign, exponent, fraction) = (b[0] >> 7, i32::from(b[0] >> 3 & 15), f64::from(b[0] & 7) / 8.0);
                let size = if exponent == 0 { fraction * 2_f64.powi(-6) } else { (1.0 + fraction) * 2_f64.powi(exponent - 7) };
                if sign == 1 { -size } else { size }
            }
        })
        .collect()
}

/// A matrix of a batch, with its place on the device.
#[derive(Clone, Copy)]
pub struct Lies {
    pub kind: u32,
    pub rows: u64,
    pub columns: u64,
    pub leading: u64,
    pub by_rows: bool,
    pub batch: u64,
    pub stride: u64,
}
impl Lies {
    pub fn at(&self, batch: u64, row: u64, column: u64) -> usize {
        (batch * self.stride + if self.by_rows { row * self.leading + column } else { column * self.leading + row }) as usize
    }
    pub fn elements(&self) -> usize {
        let lines = if self.by_rows { self.rows } else { self.columns };
        ((self.batch - 1) * self.stride + lines * self.leading) as usize
    }
    pub fn layout(&self) -> sys::cublasLtMatrixLayout_t {
        let mut layout = null_mut();
        // SAFETY: all kinds are numbers of the enumeration.
        let kind = unsafe { std::mem::transmute::<u32, sys::cudaDataType_t>(self.kind) };
        assert_eq!(lt!(cublasLtMatrixLayoutCreate(&mut layout, kind, self.rows, self.columns, self.leading as i64)), 0);
        set_layout(layout, 1, i32::from(self.by_rows));
        set_layout(layout, 5, self.batch as i32);
        set_layout(layout, 6, self.stride as i64);
        layout
    }
}
pub fn set_layout<T>(layout: sys::cublasLtMatrixLayout_t, which: u32, value: T) {
    // SAFETY: the numbers are of the enumeration.
    let which = unsafe { std::mem::transmute::<u32, sys::cublasLtMatrixLayoutAttribute_t>(which) };
    assert_eq!(lt!(cublasLtMatrixLayoutSetAttribute(layout, which, (&raw const value).cast(), size_of::<T>())), 0);
}
pub fn set<T>(product: sys::cublasLtMatmulDesc_t, which: u32, value: T) {
    // SAFETY: the numbers are of the enumeration.
    let which = unsafe { std::mem::transmute::<u32, sys::cublasLtMatmulDescAttributes_t>(which) };
    assert_eq!(lt!(cublasLtMatmulDescSetAttribute(product, which, (&raw const value).cast(), size_of::<T>())), 0);
}
pub fn product(compute: u32, scale: u32) -> sys::cublasLtMatmulDesc_t {
    let mut product = null_mut();
    // SAFETY: the numbers are of the enumerations.
    let (compute, scale) = unsafe { (std::mem::transmute::<u32, sys::cublasComputeType_t>(compute), std::mem::transmute::<u32, sys::cudaDataType_t>(scale)) };
    assert_eq!(lt!(cublasLtMatmulDescCreate(&mut product, compute, scale)), 0);
    product
}
pub fn handle() -> sys::cublasLtHandle_t {
    let mut handle = null_mut();
    assert_eq!(lt!(cublasLtCreate(&mut handle)), 0);
    handle
}
/// A product without C.
pub fn multiply(
    lt_handle: sys::cublasLtHandle_t,
    described: sys::cublasLtMatmulDesc_t,
    at: [u64; 3],
    lies: [Lies; 3],
    words: *const sys::cublasLtMatmulAlgo_t,
    workspace: (u64, usize),
) -> u32 {
    let (one, zero) = (1.0_f32, 0.0_f32);
    let layouts = lies.map(|l| l.layout());
    lt!(cublasLtMatmul(
        lt_handle,
        described,
        (&raw const one).cast(),
        at[0] as *const _,
        layouts[0],
        at[1] as *const _,
        layouts[1],
        (&raw const zero).cast(),
        std::ptr::null(),
        layouts[2],
        at[2] as *mut _,
        layouts[2],
        words,
        workspace.0 as *mut _,
        workspace.1,
        null_mut(),
    ))
}
/// A square matrix.
pub fn square(kind: u32, side: u64) -> Lies {
    Lies { kind, rows: side, columns: side, leading: side, by_rows: false, batch: 1, stride: 0 }
}
