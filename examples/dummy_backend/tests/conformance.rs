//! The whole suite on this backend.
use adamant_core::Device;
use dummy_backend::Dummy;

adamant_conformance::suite!(|| Device::from_backend(Box::new(Dummy::default())));
