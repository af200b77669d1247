//! Reads that are begun and waited for later: they give what was there when they were begun, whatever is submitted
//! afterwards. Where the machine has no adapter the tests say so and check nothing else.
mod common;

use adamant_backend_wgpu::WgpuBackend;
use adamant_core::{Cell, ErrorKind, Tensor, step};
use common::device_of;

#[test]
fn later_launches_do_not_change_what_a_read_gives() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    device.scoped(|| {
        let weight = Cell::new(&Tensor::from_vec(vec![1.0f32; 1 << 16], [256, 256]), true).unwrap();
        let mut reads = Vec::new();
        for _ in 0..4 {
            reads.push(weight.detached().read_later::<f32>().unwrap());
            // In place where nobody else holds the memory: a read that was begun holds nothing.
            step(|| weight.set(&(weight.detached() * 2.0f32))).unwrap();
        }
        for (k, read) in reads.into_iter().enumerate() {
            let want = 2.0f32.powi(k as i32);
            assert!(read.wait().unwrap().iter().all(|&v| v == want), "read {k}");
        }
        assert_eq!(weight.detached().mean(..).item::<f32>().unwrap(), 16.0);
    });
}
#[test]
fn a_read_begins_without_a_wait_and_becomes_ready() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    device.scoped(|| {
        let waits = || device.counters().iter().find(|c| c.0 == "waits").unwrap().1;
        let x = Tensor::from_vec((0..6).map(|k| k as f32).collect(), [2, 3]);
        (&x + 1.0).materialize().unwrap();
        let before = waits();
        let read = (&x + 1.0).read_later::<f32>().unwrap();
        assert_eq!(waits(), before, "to begin a read is not to wait");
        while !read.is_ready() {
            std::thread::yield_now();
        }
        assert_eq!(read.wait().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(waits(), before, "what is ready is not waited for");
        // Views, parts of words, bools, nothing.
        assert_eq!(x.mt().read_later::<f32>().unwrap().wait().unwrap(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        let bytes = Tensor::from_vec((0..11u8).collect(), [11]);
        assert_eq!(bytes.slice(0, 3, 8, 1).read_later::<u8>().unwrap().wait().unwrap(), [3, 4, 5, 6, 7]);
        assert_eq!(x.gt(2.5).read_later::<bool>().unwrap().wait().unwrap(), [false, false, false, true, true, true]);
        assert!(Tensor::zeros([0, 3]).read_later::<f32>().unwrap().wait().unwrap().is_empty());
        assert!(matches!(x.read_later::<i64>().err().unwrap().kind(), ErrorKind::DtypeMismatch { .. }));
    });
}
#[test]
fn reads_that_are_dropped_or_outlive_their_device_do_no_harm() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    device.scoped(|| {
        let x = Tensor::ones([512, 512]);
        for _ in 0..20 {
            drop(x.matmul(&x).read_later::<f32>().unwrap());
        }
        assert_eq!(x.matmul(&x).read_later::<f32>().unwrap().wait().unwrap()[0], 512.0);
        let (read, given_up) = (x.matmul(&x).read_later::<f32>().unwrap(), x.matmul(&x).read_later::<f32>().unwrap());
        device.backend().downcast::<WgpuBackend>().unwrap().destroy();
        assert!(read.is_ready(), "a lost device has nothing to wait for");
        let e = read.wait().unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::DeviceLost(_)), "{e}");
        drop(given_up);
        device.recover().unwrap();
        assert_eq!(Tensor::ones([3]).sum(..).read_later::<f32>().unwrap().wait().unwrap(), [3.0]);
    });
}
