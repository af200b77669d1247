//! Values of dtypes that are stored and not computed with: only casts read them, and what reads the cast may be anything.
use adamant_backend_cpu as _;
use adamant_core::{DType, Device, Tensor};

/// What is computed of a cast, each op by itself and with others.
fn results(x: &Tensor) -> Vec<(&'static str, Tensor)> {
    let wide = || x.cast(DType::F32);
    let mut all = vec![
        ("sum", wide().sum(..)),
        ("sum of an axis", wide().sum(1)),
        ("mean of a product", (wide() * 1.5).mean(0)),
        ("max", wide().amax(1)),
        ("logsumexp", wide().logsumexp(1)),
        ("softmax", wide().softmax(1)),
        ("argmax", wide().argmax(1)),
        ("cumsum", wide().cumsum(1)),
        ("product", wide().matmul(wide().t())),
        ("norm", wide().square().sum(1).sqrt()),
        ("two sums", wide().sum(0) + wide().sum(0)),
        ("sort", wide().sort(1, false).0),
    ];
    let dtype = x.dtype().unwrap();
    if dtype.is_float() {
        // The gradient is of the stored dtype before it is summed over the expanded axis.
        let leaf = Tensor::full_on([3, 1], 0.7, DType::F32, x.device().unwrap()).tracked();
        let stored = leaf.expand([3, 5]).cast(dtype);
        let y = (stored.cast(DType::F32) * wide()).sum(..);
        all.push(("gradient", y.backward().unwrap().get(&leaf).unwrap().clone()));
    }
    all
}

#[test]
fn casts_of_stored_dtypes_are_read_by_everything() {
    let device = Device::cpu().unwrap();
    for dtype in DType::ALL.iter().copied().filter(|d| !d.computes()) {
        let on = |device: Device| {
            let x = Tensor::from_vec_on((0..15).map(|k| (k as f32 - 7.0) * 0.5).collect::<Vec<_>>(), [3, 5], device);
            let x = x.cast(dtype);
            x.materialize().unwrap();
            results(&x)
        };
        for ((name, here), (_, reference)) in on(device).into_iter().zip(on(Device::reference())) {
            let here = here.to_vec_as::<f64>().unwrap_or_else(|e| panic!("{dtype}, {name}: {e}"));
            let reference = reference.to_vec_as::<f64>().unwrap();
            assert!(here.iter().zip(&reference).all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs().max(1.0)), "{dtype}, {name}: {here:?} and {reference:?}");
        }
    }
}
