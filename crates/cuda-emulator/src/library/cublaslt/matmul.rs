//! The call that multiplies, and what the library says of itself.
use super::check::{GivenProduct, LtFactor};
use super::descriptors::{DescriptorKind, LtStatus};
use super::number::LtNumber;
use super::offer::Words;
use crate::driver::entry::{Export, calls};
use crate::driver::pointer::{Host, InPointer, OutPointer};
use crate::driver::queue::StreamWork;
use crate::driver::state::EmulatedLaunch;
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The version that is stood in for: 13.0.2.
const VERSION: usize = 130_002;
const RUNTIME: usize = 13_000;

calls! { exports, LtStatus;
    fn cublasLtMatmul(state, handle: u64, product: u64, alpha: Host, a: u64, a_layout: u64, b: u64, b_layout: u64, beta: Host, c: u64, c_layout: u64, d: u64, d_layout: u64, words: InPointer<Words>, workspace: u64, capacity: usize, stream: u64) {
        state.known_handle(handle)?;
        state.current().map_err(|_| LtStatus::NOT_INITIALIZED)?;
        let described = state.descriptor(product, DescriptorKind::Product)?;
        let scale = LtNumber::of(described.word(1)).ok_or(LtStatus::NOT_SUPPORTED)?;
        let (alpha, beta) = factors(described.word(2), described.signed(14), scale, alpha, beta)?;
        let layouts = [a_layout, b_layout, c_layout, d_layout];
        let without_c = beta == LtFactor::Value(0.0);
        let mut made = state.product(&GivenProduct { product, layouts, addresses: [a, b, if without_c { d } else { c }, d], alpha, beta })?;
        let addressed = [made.a, made.b, made.d].iter().chain((!without_c).then_some(&made.c)).all(|m| m.address != 0 && m.address % m.number.bytes() == 0);
        if !addressed {
            return Err(LtStatus::INVALID_VALUE);
        }
        made.workspace = (workspace, capacity as u64);
        state.check_algorithm(words, &made)?;
        let stream = state.stream(stream).map_err(|_| LtStatus::INVALID_VALUE)?;
        state.launched(|| EmulatedLaunch { kernel: "cublasLtMatmul".into(), grid: [1; 3], block: [1; 3], shared: 0, stream, by_graph: false });
        state.enqueue(stream, StreamWork::Product(Arc::new(made))).map_err(|_| LtStatus::EXECUTION_FAILED)
    }
    fn cublasLtGetProperty(state, which: u32, value: OutPointer<i32>) {
        let part = match which {
            0 => 13,
            1 => 0,
            2 => 2,
            _ => return Err(LtStatus::INVALID_VALUE),
        };
        value.set(part).map_err(|_| LtStatus::INVALID_VALUE)
    }
    fn cublasLtHeuristicsCacheGetCapacity(state, capacity: OutPointer<usize>) {
        capacity.set(8192).map_err(|_| LtStatus::INVALID_VALUE)
    }
    fn cublasLtHeuristicsCacheSetCapacity(state, capacity: usize) {
        state.always().map_err(|_| LtStatus::INVALID_VALUE)
    }
}

/// Alpha and beta by the mode of their pointers (`cublasLtPointerMode_t`).
fn factors(mode: u32, stride: i64, scale: LtNumber, alpha: Host, beta: Host) -> Result<(LtFactor, LtFactor), LtStatus> {
    let value = |at: Host| if at.is_null() { Err(LtStatus::INVALID_VALUE) } else { Ok(LtFactor::Value(scale.read(&at.read(scale.bytes() as usize)))) };
    let there = |at: Host| if at.is_null() { Err(LtStatus::INVALID_VALUE) } else { Ok(at.address()) };
    Ok(match mode {
        0 => (value(alpha)?, value(beta)?),
        1 => (LtFactor::Device(there(alpha)?), LtFactor::Device(there(beta)?)),
        2 => (LtFactor::Rows { address: there(alpha)?, stride: 0 }, LtFactor::Rows { address: there(beta)?, stride: 0 }),
        3 if stride != 0 => return Err(LtStatus::INVALID_VALUE),
        3 => (LtFactor::Rows { address: there(alpha)?, stride: 0 }, LtFactor::Value(0.0)),
        4 => (LtFactor::Rows { address: there(alpha)?, stride }, value(beta)?),
        _ => return Err(LtStatus::INVALID_VALUE),
    })
}

static CALLS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

unsafe extern "C" fn version() -> usize {
    CALLS[0].fetch_add(1, Ordering::Relaxed);
    VERSION
}
unsafe extern "C" fn runtime() -> usize {
    CALLS[1].fetch_add(1, Ordering::Relaxed);
    RUNTIME
}
/// Number, name, text of what cuBLAS answers.
const STATUSES: &[(u32, &std::ffi::CStr, &std::ffi::CStr)] = &[
    (0, c"CUBLAS_STATUS_SUCCESS", c"success"),
    (1, c"CUBLAS_STATUS_NOT_INITIALIZED", c"the library was not initialized"),
    (3, c"CUBLAS_STATUS_ALLOC_FAILED", c"the resource allocation failed"),
    (7, c"CUBLAS_STATUS_INVALID_VALUE", c"an invalid value was passed in"),
    (8, c"CUBLAS_STATUS_ARCH_MISMATCH", c"the card lacks a feature that is needed"),
    (11, c"CUBLAS_STATUS_MAPPING_ERROR", c"an access to memory failed"),
    (13, c"CUBLAS_STATUS_EXECUTION_FAILED", c"the program failed to execute on the card"),
    (14, c"CUBLAS_STATUS_INTERNAL_ERROR", c"an internal operation failed"),
    (15, c"CUBLAS_STATUS_NOT_SUPPORTED", c"the combination of parameters is not supported"),
    (16, c"CUBLAS_STATUS_LICENSE_ERROR", c"a license check failed"),
];
unsafe extern "C" fn status_name(status: u32) -> *const c_char {
    CALLS[2].fetch_add(1, Ordering::Relaxed);
    STATUSES.iter().find(|(n, ..)| *n == status).map_or(c"unrecognized status", |(_, name, _)| name).as_ptr()
}
unsafe extern "C" fn status_text(status: u32) -> *const c_char {
    CALLS[3].fetch_add(1, Ordering::Relaxed);
    STATUSES.iter().find(|(n, ..)| *n == status).map_or(c"unrecognized status", |(.., text)| text).as_ptr()
}
/// Functions that answer no status.
pub(crate) fn plain_exports() -> Vec<Export> {
    let functions: [(_, &'static [usize], _); 4] = [
        ("cublasLtGetVersion", &[], version as *const c_void),
        ("cublasLtGetCudartVersion", &[], runtime as *const c_void),
        ("cublasLtGetStatusName", &[4], status_name as *const c_void),
        ("cublasLtGetStatusString", &[4], status_text as *const c_void),
    ];
    functions.into_iter().zip(&CALLS).map(|((name, arguments, function), calls)| Export { name, arguments, function, calls }).collect()
}
