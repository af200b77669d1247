//! The suite on this backend. It does everything.
use adamant_backend_cpu::{Context, CpuBackend};
use adamant_core::Device;

fn device() -> Device {
    Context::new(CpuBackend::builder().threads(2)).unwrap().device()
}
adamant_conformance::suite!(device, complete);
