//! Cells that a compiled function writes while other threads hold what they held before.
use adamant_conformance::plain;
use adamant_core::{Cell, DType, Device, Tensor, compile};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// The first call plans while another thread takes and drops the cell's value all the time. Whatever it did meanwhile, the plan
/// for a cell that somebody holds may not take over its memory.
#[test]
fn a_plan_made_while_a_reader_lets_go_takes_what_the_next_one_holds() {
    for round in 0..200 {
        let device = plain::device(2048, usize::MAX);
        let one = Tensor::full_on([3], 1.0, DType::F32, device);
        let cell = Cell::new(&Tensor::full_on([3], 0.0, DType::F32, device), false).unwrap();
        let inside = cell.clone();
        let add = compile(move |x: &[Tensor]| {
            inside.set(&(inside.detached() + &x[0]))?;
            Ok(vec![])
        });
        let (over, taken) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|s| {
            s.spawn(|| {
                while !over.load(SeqCst) {
                    let held = cell.detached();
                    taken.fetch_add(1, SeqCst);
                    (0..round % 100).for_each(|_| std::hint::spin_loop());
                    drop(held);
                    (0..round % 100).for_each(|_| std::hint::spin_loop());
                }
            });
            while taken.load(SeqCst) < 10 {
                std::hint::spin_loop();
            }
            for _ in 0..4 {
                add.call(&[&one]).unwrap();
            }
            over.store(true, SeqCst);
        });
        for calls in 4..8 {
            let held = cell.detached();
            add.call(&[&one]).unwrap();
            assert_eq!(held.to_vec::<f32>().unwrap(), [calls as f32; 3], "round {round}");
        }
    }
}
/// A thread that has ended left a value that turns out to be bad. The cell keeps what it held.
#[test]
fn a_bad_value_of_another_thread_stays_in_a_cell() {
    for device in [plain::device(2048, usize::MAX), Device::reference()] {
        let cell = Cell::new(&Tensor::full_on([3], 5.0, DType::F32, device), false).unwrap();
        let outside = Tensor::from_vec_on(vec![0i64, 7, 1], [3], device);
        let bad = std::thread::scope(|s| s.spawn(|| cell.detached().gather(0, &outside)).join()).unwrap();
        assert!(cell.set(&bad).is_err(), "{device}: it was taken");
        assert_eq!(cell.detached().to_vec::<f32>().unwrap(), [5.0; 3]);
        assert_eq!(cell.version(), 0);
    }
}
