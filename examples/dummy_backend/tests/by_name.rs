//! A program that names the crate and nothing in it finds the device by name.
use adamant_core::{Device, Tensor};
use dummy_backend as _;

#[test]
fn a_backend_that_the_linker_leaves_out() {
    let device: Device = "dummy".parse().unwrap();
    assert_eq!((device.to_string(), device), ("dummy".to_string(), Device::open("dummy", 0).unwrap()));
    let sum = device.scoped(|| Tensor::arange(0, 5, 1, adamant_core::DType::F32).sum(..).item::<f32>());
    assert_eq!(sum.unwrap(), 10.0);
    assert_eq!("dummy:1".parse::<Device>().unwrap_err().kind().word(), "device");
}
