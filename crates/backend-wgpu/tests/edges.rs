//! Values at the edges that random graphs found: conversions that naga gets wrong, signs that no kernel keeps.
mod common;

use adamant_backend_wgpu::WgpuBackend;
use adamant_core::{DType, Tensor, with_eager};
use common::device_of;
use std::io::Write;

#[test]
fn a_device_says_which_matrices_its_subgroups_multiply() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    let told = device.info().details.iter().find(|d| d.0 == "cooperative matrices").map(|d| d.1.as_str());
    eprintln!("cooperative matrices: {told:?}");
    assert!(told.is_some_and(|t| t == "none" || t.contains("size")), "{told:?}");
}
#[test]
fn a_negative_integer_that_becomes_one_of_64_bits_without_a_sign_wraps_as_on_the_host() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    if !device.info().dtypes.contains(&DType::I64) {
        let _ = writeln!(std::io::stderr(), "SKIPPED: the adapter has no 64-bit integers");
        return;
    }
    device.scoped(|| {
        for from in [DType::I8, DType::I32, DType::I64] {
            let x = Tensor::from_vec(vec![-2i32, -128, 0, 127], [4]).cast(from);
            let bits = (&x + 0).cast(DType::U64).cast(DType::I64).to_vec::<i64>().unwrap();
            assert_eq!(bits, [-2, -128, 0, 127], "{from}");
            assert_eq!((&x + 0).cast(DType::U64).cast(DType::F32).to_vec::<f32>().unwrap()[0], 18_446_744_073_709_551_614u64 as f32, "{from}");
        }
    });
}
#[test]
fn a_computed_nan_has_no_sign_whether_its_kernel_is_fused_or_not() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    device.scoped(|| {
        let inf = Tensor::from_vec(vec![f32::INFINITY, f32::NEG_INFINITY, 0.0], [3]);
        let sign = || (&inf - &inf).signbit().to_vec::<bool>().unwrap();
        assert_eq!(sign(), [false; 3]);
        assert_eq!(with_eager(true, sign), [false; 3]);
        assert_eq!((&inf * -0.5f32).signbit().to_vec::<bool>().unwrap(), [true, false, true]);
    });
}
