//! Reads that are begun and waited for later: on the CPU they are ready at once, and what is done in place afterwards does
//! not change them.
use adamant_backend_cpu::{Context, CpuBackend};
use adamant_core::{Cell, ErrorKind, Tensor, step};

#[test]
fn a_read_is_ready_at_once_and_keeps_what_was_there() {
    Context::new(CpuBackend::builder().threads(2)).unwrap().device().scoped(|| {
        let weight = Cell::new(&Tensor::from_vec(vec![1.0f32; 4096], [64, 64]), true).unwrap();
        let read = weight.detached().read_later::<f32>().unwrap();
        assert!(read.is_ready());
        step(|| weight.set(&(weight.detached() * 2.0f32))).unwrap();
        assert_eq!(read.wait().unwrap(), vec![1.0; 4096]);
        assert_eq!(weight.detached().read_later::<f32>().unwrap().wait().unwrap(), vec![2.0; 4096]);
        let x = Tensor::from_vec((0..6).map(|k| k as f32).collect(), [2, 3]);
        assert_eq!(x.mt().read_later::<f32>().unwrap().wait().unwrap(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert_eq!(x.gt(2.5).read_later::<bool>().unwrap().wait().unwrap(), [false, false, false, true, true, true]);
        assert!(matches!(x.read_later::<i64>().err().unwrap().kind(), ErrorKind::DtypeMismatch { .. }));
        drop(x.read_later::<f32>().unwrap());
    });
}
