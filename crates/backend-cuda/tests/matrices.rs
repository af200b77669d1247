//! Products by our kernels on the emulator: of 16 bits on the matrix unit, in large tiles and in small ones, their factors copied or
//! gathered; on a card without the unit, and of f32, in plain tiles.
mod common;

use adamant_backend_cuda::CudaBackend;
use adamant_core::{DType, Device};
use adamant_cuda_emulator::{Emulator, FindingKind, Options};
use common::multiplied::check;

#[test]
fn products_by_our_kernels_are_near_the_host() {
    let Some(device) = common::device(Options { seed: 5, cublaslt: false, ..Options::default() }) else { return };
    for seed in 0..24 {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            check(device, dtype, seed % 3 == 0, seed);
        }
    }
    let texts = device.backend().downcast::<CudaBackend>().map(CudaBackend::texts).unwrap_or_default();
    let unit = |bounds: &str| texts.iter().filter(|t| t.contains("mma.sync") && t.contains(bounds)).count();
    let copied = texts.iter().filter(|t| t.contains("mma.sync") && t.contains("adm_copied<")).count();
    let gathered = texts.iter().filter(|t| t.contains("mma.sync") && t.contains("adm_elements<")).count();
    assert!(unit("__launch_bounds__(256") > 0 && unit("__launch_bounds__(128") > 0 && copied > 0 && gathered > 0, "not all tiles ran");
    // A large tile on its own.
    large(device);
    let emulator = Emulator::installed().unwrap();
    let found: Vec<_> = emulator.findings().into_iter().filter(|f| f.kind != FindingKind::HostReadUnwritten).collect();
    assert!(found.is_empty(), "{found:#?}");
}
/// So many tiles that they are large ones.
fn large(device: Device) {
    use adamant_core::Tensor;
    let (batch, side) = (96, 40);
    let values = |salt: usize| -> Vec<f32> { (0..batch * side * side).map(|k| ((k * 7 + k / 13 + salt) % 33) as f32 / 16.0 - 1.0).collect() };
    let (a, b) = (values(0), values(5));
    let got = device.scoped(|| {
        let tensor = |v: &[f32]| Tensor::from_vec(v.to_vec(), [batch, side, side]).cast(DType::BF16);
        tensor(&a).matmul(tensor(&b)).cast(DType::F32).to_vec::<f32>()
    });
    for (k, value) in got.unwrap().iter().enumerate() {
        let (layer, row, column) = (k / (side * side), k / side % side, k % side);
        let sum: f64 = (0..side).map(|n| f64::from(a[(layer * side + row) * side + n]) * f64::from(b[(layer * side + n) * side + column])).sum();
        assert!((f64::from(*value) - sum).abs() <= sum.abs() / 128.0, "element {k} is {value}, {sum} by the host");
    }
}
