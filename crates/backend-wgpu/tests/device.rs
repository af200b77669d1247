//! What is not arithmetic: adapters that are not there, devices that are lost, memory beyond the limits, dtypes that an
//! adapter lacks. Where the machine has no adapter the tests say so and check nothing else.
mod common;

use adamant_backend_wgpu::WgpuBackend;
use adamant_core::{Cell, DType, Error, ErrorKind, Tensor, step};
use common::device_of;

#[test]
fn an_adapter_that_is_not_there_is_a_typed_error() {
    match WgpuBackend::open(99) {
        Err(ErrorKind::DeviceAbsent(why)) => assert!(why.contains("no adapter"), "{why}"),
        other => panic!("{:?}", other.err()),
    }
}
#[test]
fn a_lost_device_is_a_typed_error_from_then_on() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    device.scoped(|| {
        let weight = Cell::new(&Tensor::ones([8, 8]), true).unwrap();
        let once = || step(|| weight.set(&(weight.detached().matmul(&weight.detached()) * 0.5f32)));
        once().unwrap();
        let before = weight.detached() * 2.0f32;
        device.backend().downcast::<WgpuBackend>().unwrap().destroy();
        for _ in 0..2 {
            let lost = once().err().or_else(|| device.synchronize().err()).unwrap();
            assert!(matches!(lost.kind(), ErrorKind::DeviceLost(_)), "{lost}");
        }
        for e in [before.to_vec::<f32>().unwrap_err(), Tensor::ones([4]).to_vec::<f32>().unwrap_err()] {
            assert!(matches!(e.kind(), ErrorKind::DeviceLost(_)), "{e}");
        }
    });
}
fn is_loss(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::DeviceLost(why) if why == "it was destroyed")
}
#[test]
fn a_lost_device_is_opened_again_and_what_was_on_it_stays_lost() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    device.scoped(|| {
        let weight = Cell::new(&Tensor::full([8, 8], 0.5, DType::F32), true).unwrap();
        let once = || step(|| weight.set(&(weight.detached().matmul(&weight.detached()) * 0.5f32)));
        once().unwrap();
        let (kept, total) = (weight.detached() * 2.0f32, weight.detached().sum(..).item::<f32>().unwrap());
        kept.materialize().unwrap();
        let pending = &kept + 1.0f32;
        device.recover().unwrap();
        assert_eq!(weight.detached().sum(..).item::<f32>().unwrap(), total, "a device that is not lost keeps all");
        device.backend().downcast::<WgpuBackend>().unwrap().destroy();
        device.recover().unwrap();
        for (name, old) in [("kept", kept.clone()), ("pending", pending), ("computed now", &kept * 3.0f32), ("a cell's", weight.detached())] {
            let e = old.to_vec::<f32>().unwrap_err();
            assert!(is_loss(&e), "{name}: {e}");
        }
        // In one window with what is lost, what is new is computed.
        let (fresh, stale) = (Tensor::full([4], 2.0, DType::F32) * 2.0f32, &kept * 5.0f32);
        assert_eq!(fresh.to_vec::<f32>().unwrap(), [4.0; 4]);
        assert!(is_loss(&stale.to_vec::<f32>().unwrap_err()));
        // The same kernels as before, on new values.
        weight.set(&Tensor::full([8, 8], 0.5, DType::F32)).unwrap();
        for _ in 0..3 {
            once().unwrap();
        }
        assert!(weight.detached().sum(..).item::<f32>().unwrap() > 0.0);
        weight.set(&Tensor::full([8, 8], 0.5, DType::F32)).unwrap();
        once().unwrap();
        assert_eq!(weight.detached().sum(..).item::<f32>().unwrap(), total);
    });
}
#[test]
fn a_device_that_is_lost_in_the_middle_of_a_step() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    let trains = std::thread::spawn(move || {
        device.scoped(|| {
            let weight = Cell::new(&Tensor::full([256, 256], 1e-3, DType::F32), true).unwrap();
            let mut steps = 0;
            loop {
                let done = step(|| weight.set(&(weight.detached().matmul(&weight.detached()) * 4.0f32 + 1e-3f32)));
                if let Err(e) = done.and_then(|()| weight.detached().sum(..).item::<f32>()) {
                    return (steps, e);
                }
                steps += 1;
            }
        })
    });
    // Into the middle: while it trains, not between two calls of its own.
    while device.counters().iter().find(|c| c.0 == "submissions").unwrap().1 < 20 {
        std::thread::yield_now();
    }
    device.backend().downcast::<WgpuBackend>().unwrap().destroy();
    let (steps, e) = trains.join().unwrap();
    assert!(steps > 0 && matches!(e.kind(), ErrorKind::DeviceLost(_)), "after {steps} steps: {e}");
    device.recover().unwrap();
    assert_eq!(device.scoped(|| Tensor::ones([3]).sum(..).item::<f32>().unwrap()), 3.0);
}
#[test]
fn memory_beyond_one_binding_is_refused_by_name() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    let backend = device.backend();
    let most: usize = backend.info().details.iter().find(|d| d.0 == "largest tensor").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    match backend.alloc(most + 64) {
        Err(ErrorKind::Unsupported { backend, what }) => assert!(backend == "wgpu" && what.contains(&most.to_string()), "{what}"),
        other => panic!("{:?}", other.err()),
    }
    // What came before goes on.
    device.scoped(|| {
        assert!(Tensor::zeros([most / 2]).to_vec::<f32>().is_err());
        assert_eq!(Tensor::ones([3]).sum(..).item::<f32>().unwrap(), 3.0);
    });
}
#[test]
fn f64_is_absent_by_name() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    device.scoped(|| {
        let e = Tensor::ones([3]).cast(DType::F64).exp().materialize().unwrap_err();
        assert!(e.kind().word() == "unsupported" && e.to_string().contains("f64"), "{e}");
        // To be read as f64 is another matter.
        assert_eq!(Tensor::ones([3]).to_vec_as::<f64>().unwrap(), [1.0; 3]);
    });
}
#[test]
fn indices_work_without_64_bit_integers() {
    let Some(device) = device_of(WgpuBackend::open_without_i64(0)) else { return };
    assert!(!device.info().dtypes.contains(&DType::I64));
    device.scoped(|| {
        let x = Tensor::from_vec(vec![3.0f32, 1.0, 2.0, 5.0, 4.0, 0.0], [2, 3]);
        assert_eq!(x.argmax(-1).to_vec::<i64>().unwrap(), [0, 0]);
        let (values, order) = x.sort(1, false);
        assert_eq!(values.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 0.0, 4.0, 5.0]);
        assert_eq!(order.to_vec::<i64>().unwrap(), [1, 2, 0, 2, 1, 0]);
        let index = Tensor::from_vec(vec![2i64, 0], [2, 1]);
        assert_eq!(x.gather(1, &index).to_vec::<f32>().unwrap(), [2.0, 5.0]);
        let e = (x.argmax(-1) + 1).materialize().unwrap_err();
        assert!(e.kind().word() == "unsupported" && e.to_string().contains("i64"), "{e}");
    });
}
#[test]
fn bytes_travel_to_and_from_any_offset() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    let backend = device.backend();
    let mut memory = backend.alloc(64).unwrap();
    backend.upload(&mut *memory, 0, &[7; 64]).unwrap();
    for (offset, len) in [(0, 3), (1, 1), (5, 6), (2, 2), (61, 3), (3, 8)] {
        let bytes: Vec<u8> = (0..len).map(|k| (offset * 10 + k) as u8).collect();
        backend.upload(&mut *memory, 0, &[7; 64]).unwrap();
        backend.upload(&mut *memory, offset, &bytes).unwrap();
        let mut all = [0; 64];
        backend.download(&*memory, 0, &mut all).unwrap();
        let want: Vec<u8> = (0..64).map(|k| if (offset..offset + len).contains(&k) { bytes[k - offset] } else { 7 }).collect();
        assert_eq!(all[..], want[..], "{len} bytes at {offset}");
        let mut part = vec![0; len];
        backend.download(&*memory, offset, &mut part).unwrap();
        assert_eq!(part, bytes);
    }
    assert!(backend.upload(&mut *memory, 60, &[0; 8]).is_err());
}
#[test]
fn steps_are_timed_in_their_order_and_within_the_wall_clock() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    device.scoped(|| {
        let (small, large) = (Tensor::ones([8, 8]), Tensor::ones([256, 256]));
        let product = |x: &Tensor| x.matmul(x).materialize().unwrap();
        [&small, &large].into_iter().for_each(product);
        let (_, seen) = adamant_core::profile::profile(|| [&small, &large, &small].into_iter().for_each(product)).unwrap();
        let times: Vec<_> = seen.kernels.iter().filter(|k| k.family == "matmul").map(|k| (k.begin, k.time)).collect();
        assert_eq!(times.len(), 3, "{:?}", seen.kernels);
        assert!(times.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{times:?}");
        assert!(!times[1].1.is_zero() && times[2].0 + times[2].1 <= seen.wall, "{times:?} in {:?}", seen.wall);
    });
}
