//! A card that is lost in the middle of work: every call says so until the device is opened anew, and what is computed then is
//! what it would have been.
mod common;

use adamant_core::{ErrorKind, Result, Tensor};
use adamant_cuda_emulator::{Emulator, Options};
use std::sync::Mutex;

/// The emulator is one for all tests of a process.
static TURN: Mutex<()> = Mutex::new(());

fn work(scale: f32) -> Result<Vec<f32>> {
    let x = Tensor::from_vec((0..4096).map(|k| (k % 97) as f32 * scale).collect(), [64, 64]);
    (x.matmul(x.t()) * 0.01 + 1.0).sqrt().sum(1).to_vec::<f32>()
}
fn is_lost<T: std::fmt::Debug>(result: &Result<T>) -> bool {
    result.as_ref().is_err_and(|e| matches!(e.kind(), ErrorKind::DeviceLost(_)))
}
#[test]
fn a_lost_card_says_so_until_it_is_opened_anew() {
    let _turn = TURN.lock();
    let Some(device) = common::device(Options { seed: 3, ..Options::default() }) else { return };
    let emulator = Emulator::installed().unwrap();
    let before = device.scoped(|| work(0.25)).unwrap();
    for (call, code) in [("cuLaunchKernel", 719), ("cuLaunchKernel", 700), ("cuEventSynchronize", 214), ("cuMemcpyHtoDAsync_v2", 999)] {
        let kept = device.scoped(|| Tensor::ones([8]));
        kept.materialize().unwrap();
        emulator.plant(call, 2, code);
        let lost = (0..6).any(|_| is_lost(&device.scoped(|| work(0.5))));
        assert!(lost, "{call} with {code} was not a loss");
        assert!(is_lost(&device.scoped(|| work(0.5))), "and stays one");
        assert!(is_lost(&kept.to_vec::<f32>()), "what was there is lost");
        device.recover().unwrap();
        assert_eq!(device.scoped(|| work(0.25)).unwrap(), before, "{call} with {code}");
        assert!(is_lost(&kept.to_vec::<f32>()), "memory of before stays lost");
    }
    // Where even a reset does not bring it back, that is said with what to do.
    emulator.set_reset_heals(false);
    emulator.plant("cuLaunchKernel", 1, 719);
    assert!((0..6).any(|_| is_lost(&device.scoped(|| work(0.5)))));
    let again = device.recover();
    let still = is_lost(&device.scoped(|| work(0.5)));
    assert!(still || again.is_err(), "it was healed by nothing");
    emulator.set_reset_heals(true);
    device.recover().unwrap();
    assert_eq!(device.scoped(|| work(0.25)).unwrap(), before);
}
#[test]
fn no_memory_is_an_error_and_work_goes_on() {
    let _turn = TURN.lock();
    let Some(device) = common::device(Options { seed: 3, ..Options::default() }) else { return };
    let emulator = Emulator::installed().unwrap();
    let before = device.scoped(|| work(0.25)).unwrap();
    emulator.set_memory_limit(emulator.memory_in_use(0) + (1 << 20));
    let asked = device.scoped(|| Tensor::ones([4 << 20]).materialize());
    assert!(asked.as_ref().is_err_and(|e| matches!(e.kind(), ErrorKind::OutOfMemory { .. })), "{asked:?}");
    assert_eq!(device.scoped(|| work(0.25)).unwrap(), before);
    emulator.set_memory_limit(1 << 33);
}
