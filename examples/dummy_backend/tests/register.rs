//! A kernel for a composite, attached from outside the backend's crate: it runs in place of the composite's body.
use adamant_core::{
    Device, ErrorKind, Scalar, Tensor,
    kernel::{KernelKind, Step},
    schedule::take_stats,
};
use dummy_backend::{CompositeKernel, Dummy, scalars, store_scalars};
use std::sync::atomic::{AtomicUsize, Ordering};

static RUN: AtomicUsize = AtomicUsize::new(0);
/// Softmax along the last axis, row by row.
fn softmax(step: &Step<'_>) -> Result<(), ErrorKind> {
    RUN.fetch_add(1, Ordering::Relaxed);
    let (KernelKind::Composite(_), [x], [y]) = (&step.kernel.kind, step.inputs, step.outputs) else {
        return Err(ErrorKind::Internal("softmax has one input and one output".into()));
    };
    let values: Vec<f64> = scalars(x)?.into_iter().map(Scalar::to_f64).collect();
    let row = |x: &[f64]| -> Vec<Scalar> {
        let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = x.iter().map(|v| (v - largest).exp()).sum();
        x.iter().map(|v| Scalar::Float((v - largest).exp() / sum)).collect()
    };
    store_scalars(y, values.chunks(x.shape.last().copied().unwrap_or(1).max(1)).flat_map(row))
}

#[test]
fn a_kernel_from_outside_runs_in_place_of_the_body() {
    let device = Device::from_backend(Box::new(Dummy::default()));
    let x = Tensor::from_vec_on((0..6).map(|k| k as f32).collect(), [2, 3], device);
    let by_body = x.softmax(-1).to_vec::<f32>().unwrap();
    let kernels = take_stats().kernels;
    assert!(kernels > 1 && RUN.load(Ordering::Relaxed) == 0, "{kernels}");

    let attached = Device::from_backend(Box::new(Dummy::default()));
    attached.register("adamant.softmax", Box::new(softmax as CompositeKernel)).unwrap();
    let x = x.to(attached);
    x.materialize().unwrap();
    take_stats();
    let by_kernel = x.softmax(-1).to_vec::<f32>().unwrap();
    assert_eq!((take_stats().kernels, RUN.load(Ordering::Relaxed)), (1, 1));
    assert!(by_body.iter().zip(&by_kernel).all(|(a, b)| (a - b).abs() < 1e-6), "{by_body:?} {by_kernel:?}");
}
#[test]
fn what_is_no_kernel_is_refused() {
    let device = Device::from_backend(Box::new(Dummy::default()));
    let error = device.register("adamant.softmax", Box::new("softmax")).unwrap_err();
    assert!(error.to_string().contains("dummy_backend::CompositeKernel"), "{error}");
}
