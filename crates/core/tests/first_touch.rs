//! Devices that many threads ask for at once: each is opened once, whoever comes first, and one that could not be opened is
//! tried again.
// The distributed slice places its entries in a section of their own, which the compiler counts as unsafe.
#![allow(unsafe_code)]
mod naive;
use adamant_core::{
    Device, ErrorKind,
    backend::{Backend, Determinism, DeviceInfo, Memory, Support},
    kernel::{KernelKind, Step},
};
use std::{
    any::Any,
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// A device that can do nothing.
struct Idle(DeviceInfo);
impl Backend for Idle {
    fn info(&self) -> &DeviceInfo {
        &self.0
    }
    fn supports(&self, _: &KernelKind, _: &[adamant_core::DType]) -> Support {
        Support::No
    }
    fn alloc(&self, bytes: usize) -> Result<Box<dyn Memory>, ErrorKind> {
        Err(ErrorKind::OutOfMemory { asked: bytes, in_use: 0, cap: None })
    }
    fn upload(&self, _: &mut dyn Memory, _: usize, _: &[u8]) -> Result<(), ErrorKind> {
        Ok(())
    }
    fn download(&self, _: &dyn Memory, _: usize, _: &mut [u8]) -> Result<(), ErrorKind> {
        Ok(())
    }
    fn submit(&self, _: &[Step<'_>]) -> Result<(), ErrorKind> {
        Ok(())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
static OPENED: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
/// Takes its time, so that the others come while it works. Number 1 fails the first time, number 2 always.
fn open(number: usize) -> Result<Box<dyn Backend>, ErrorKind> {
    let before = OPENED[number.min(2)].fetch_add(1, Ordering::SeqCst);
    (0..100).for_each(|_| thread::yield_now());
    if number >= 2 || (number == 1 && before == 0) {
        return Err(ErrorKind::DeviceAbsent(format!("number {number}")));
    }
    let info = naive::device(16, 0).info().clone();
    Ok(Box::new(Idle(DeviceInfo { backend: "idle", determinism: Determinism::None, ..info })))
}
adamant_core::register_backend!(IDLE, "idle", 0, open);

/// What 64 threads get that ask at once.
fn touched(number: usize) -> Vec<Option<Device>> {
    let start = Barrier::new(64);
    let touch = || {
        start.wait();
        Device::open("idle", number).ok()
    };
    thread::scope(|s| {
        let threads: Vec<_> = (0..64).map(|_| s.spawn(touch)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}
#[test]
fn sixty_four_threads_that_open_a_device_more_than_once() {
    let got = touched(0);
    assert!(got.iter().all(|d| d.is_some() && *d == got[0]), "{got:?}");
    assert_eq!(OPENED[0].load(Ordering::SeqCst), 1);
    assert_eq!("idle".parse::<Device>().ok(), got[0]);
}
#[test]
fn a_failure_that_is_remembered_or_that_lets_two_open_the_device() {
    let got = touched(1);
    assert_eq!(got.iter().filter(|d| d.is_none()).count(), 1, "{got:?}");
    let device = Device::open("idle", 1).unwrap();
    assert!(got.iter().flatten().all(|d| *d == device));
    assert_eq!(OPENED[1].load(Ordering::SeqCst), 2);
    for before in 1..3 {
        assert_eq!(Device::open("idle", 2).unwrap_err().kind().word(), "device");
        assert_eq!(OPENED[2].load(Ordering::SeqCst), before);
    }
}
#[test]
fn a_handle_that_is_more_than_a_pointer() {
    assert_eq!((size_of::<Device>(), size_of::<Option<Device>>()), (size_of::<usize>(), size_of::<usize>()));
}
