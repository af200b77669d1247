//! What a driver makes of a fused expression: sums of `(1 - t) x + t z` op by op and in one kernel are near each other. Their bits
//! may differ where the driver rewrites; the test prints how often they do.
mod common;

use adamant_backend_wgpu::WgpuBackend;
use adamant_core::{Tensor, with_eager};

const CASES: u32 = 300;
/// Six numbers in [0, 1) of a case.
fn drawn(case: u32, which: u32) -> Tensor {
    let number = |k: u32| (k + 7 * case + which).wrapping_mul(2_654_435_761) >> 8;
    Tensor::from_vec((0..6).map(|k| number(k) as f32 / (1 << 24) as f32).collect(), [2, 3])
}
#[test]
fn sums_of_products_are_near_each_other_fused_and_op_by_op() {
    let Some(device) = common::device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    device.scoped(|| {
        let mut other_bits = [0; 2];
        for case in 0..CASES {
            let [t, x, z] = [0, 1000, 5000].map(|which| drawn(case, which));
            let mixture = || ((1.0 - &t) * &x + &t * &z).sum(..);
            let products = || (&x * &z + &t * &t).sum(..);
            for (sum, other_bits) in [&mixture as &dyn Fn() -> Tensor, &products].into_iter().zip(&mut other_bits) {
                let read = || sum().to_vec::<f32>().unwrap()[0];
                let (fused, alone) = (read(), with_eager(true, read));
                *other_bits += u32::from(fused.to_bits() != alone.to_bits());
                assert!((fused - alone).abs() <= 4.0 * f32::EPSILON * alone.abs(), "case {case}: {fused} fused, {alone} op by op");
            }
        }
        let [mixtures, products] = other_bits;
        println!("of {CASES} sums other bits fused than op by op: {mixtures} of (1 - t) x + t z, {products} of x z + t t");
    });
}
