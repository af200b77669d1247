//! Memory on the emulator: a training of drawn lengths strands next to nothing, a cap gives a typed error and work goes on, what is
//! given up goes back to the driver, and memory that is handed on while its last owner's work is under way is touched behind
//! that.
mod common;

use adamant_backend_cuda::CudaMemoryPool;
use adamant_core::{Cell, DType, Device, ErrorKind, Result, Tensor, step};
use adamant_cuda_emulator::{Emulator, FindingKind, Options};
use adamant_runtime::backend::{Asynchronous, Backend, Memory};
use common::{backend, lengths, lengths::Lengths};
use parking_lot::{Mutex, MutexGuard};
use std::cell::RefCell;

/// The emulator is one for all tests of a process.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}
const STEPS: usize = 2000;

/// What a training holds, handed out by `take` and given up when it is dropped.
fn train<M>(take: impl Fn(u64) -> M) {
    let _weights: Vec<M> = lengths::weights().into_iter().map(&take).collect();
    let mut drawn = Lengths(7);
    for _ in 0..STEPS {
        let held = RefCell::new(Vec::new());
        let taken = |bytes| {
            held.borrow_mut().push(Some(take(bytes)));
            held.borrow().len() - 1
        };
        lengths::step(drawn.tokens(), taken, |at| drop(held.borrow_mut()[at].take()));
    }
}
#[test]
fn a_training_of_drawn_lengths_reserves_little_more_than_it_holds() {
    let _alone = alone();
    let Some(device) = common::opened(Options::default(), |b| b.memory_pool(CudaMemoryPool::On)) else { return };
    let emulator = Emulator::installed().unwrap();
    emulator.set_null(true);
    let memory = || backend(device).memory();
    let (before, in_use) = (memory(), emulator.memory_in_use(0));
    backend(device).reset_peak();
    train(|bytes| backend(device).alloc(bytes as usize).unwrap());
    let after = memory();
    let ratio = after.peak_reserved as f64 / after.peak as f64;
    let moved = emulator.counts().get("cuMemUnmap").copied().unwrap_or(0);
    eprintln!("mapped pages: {} MiB reserved at most, {ratio:.3} of the peak of {} MiB, {moved} pages moved", after.peak_reserved >> 20, after.peak >> 20);
    assert!(ratio <= 1.15, "{after:?}");
    assert_eq!((after.allocated, after.total), (before.allocated, emulator.profile().memory));
    assert_eq!(after.free + emulator.memory_in_use(0), after.total);
    // All of it goes back.
    let trimmed = backend(device).trim().unwrap();
    assert_eq!((trimmed, memory().reserved), (after.reserved - before.reserved, before.reserved));
    assert_eq!(emulator.memory_in_use(0), in_use, "the driver has it again");
    backend(device).reset_peak();
    assert_eq!((memory().peak, memory().peak_reserved), (memory().allocated, memory().reserved));
    // The same on the runtime's pool over pieces of the driver's.
    let plain = common::device(Options::default()).unwrap();
    train(|bytes| plain.pool().take(plain, bytes as usize).unwrap());
    let pool = plain.memory();
    let most = backend(plain).memory().peak_reserved;
    eprintln!("plain pieces: {} MiB reserved at most, {:.3} of the peak of {} MiB", most >> 20, most as f64 / pool.peak_bytes as f64, pool.peak_bytes >> 20);
    assert!(most as f64 > pool.peak_bytes as f64 * 1.15, "a pool that strands nothing is no measure: {most} of {}", pool.peak_bytes);
    plain.pool().trim();
    emulator.set_null(false);
}
/// A step of a small network over so many tokens: products, a softmax over the tokens, an optimizer.
fn network(tokens: usize, weights: &[Cell]) -> Result<()> {
    let mut x = Tensor::full([2, tokens, 48], 0.5, DType::F32);
    for w in weights {
        let h = x.matmul(w.get());
        let scores = h.matmul(h.transpose(1, 2)).softmax(2);
        x = (scores.matmul(&h) + &x).tanh();
    }
    let grads = x.square().mean(..).backward()?;
    step(|| weights.iter().try_for_each(|w| grads.of(w).map_or(Ok(()), |g| w.set(&(w.detached() - g * 0.1)))))
}
fn networks(device: Device, steps: usize) -> Result<()> {
    device.scoped(|| {
        let weights = (0..3).map(|_| Cell::new(&Tensor::full([48, 48], 0.01, DType::F32), true)).collect::<Result<Vec<_>>>()?;
        let mut drawn = Lengths(11);
        (0..steps).try_for_each(|_| network(drawn.tokens() as usize, &weights))?;
        device.synchronize()
    })
}
#[test]
fn graphs_of_drawn_lengths_run_within_a_little_more_than_their_peak() {
    let _alone = alone();
    let Some(device) = common::opened(Options::default(), |b| b.memory_pool(CudaMemoryPool::On)) else { return };
    let emulator = Emulator::installed().unwrap();
    emulator.set_null(true);
    networks(device, 150).unwrap();
    let (held, all) = (device.memory(), backend(device).memory());
    device.pool().trim();
    backend(device).trim().unwrap();
    // What kernels use beside tensors is not the pool's, and counts.
    let own = backend(device).memory().reserved;
    let ratio = (all.peak_reserved - own) as f64 / held.peak_bytes as f64;
    eprintln!("graphs, no cap: {} MiB reserved for tensors at most, {ratio:.3} of the peak of {} MiB", (all.peak_reserved - own) >> 20, held.peak_bytes >> 20);
    assert!(ratio <= 1.15, "{all:?}");
    let cap = own + held.peak_bytes as u64 * 115 / 100;
    let capped = common::opened(Options::default(), |b| b.memory_pool(CudaMemoryPool::Bytes(cap))).unwrap();
    let waits = |device: Device| device.counters().iter().find(|(name, _)| *name == "waits").map_or(0, |(_, n)| *n);
    let before = waits(capped);
    networks(capped, 150).unwrap();
    let all = backend(capped).memory();
    eprintln!(
        "graphs, cap {} MiB: {} MiB reserved for tensors at most, {} waits in 150 steps",
        (cap - own) >> 20,
        (all.peak_reserved - own) >> 20,
        waits(capped) - before
    );
    assert!(all.peak_reserved <= cap && all.cap == Some(cap), "{all:?}");
    emulator.set_null(false);
}
#[test]
fn a_cap_gives_a_typed_error_and_work_goes_on() {
    let _alone = alone();
    let cap = 24 << 20;
    for pool in [CudaMemoryPool::Bytes(cap), CudaMemoryPool::Share(cap as f64 / 84_929_347_584.0)] {
        let Some(device) = common::opened(Options::default(), |b| b.memory_pool(pool)) else { return };
        let work = || device.scoped(|| (Tensor::full([300], 2.0, DType::F32) * 3.0).sum(..).item::<f32>());
        assert_eq!(work().unwrap(), 1800.0);
        let large = device.scoped(|| Tensor::full([8 << 20], 1.0, DType::F32).materialize());
        let error = large.unwrap_err();
        let ErrorKind::OutOfMemory { asked, .. } = *error.kind() else { panic!("{error:?}") };
        assert!(asked >= 32 << 20, "{error}");
        let said = error.to_string();
        assert!(said.contains("tests/memory.rs") && said.contains("smaller batch"), "{said}");
        let shortage = backend(device).shortage().unwrap();
        let told = shortage.to_string();
        assert!(shortage.memory.cap.is_some_and(|c| c.abs_diff(cap) <= 1) && shortage.asked == asked as u64 && shortage.memory.reserved <= cap, "{shortage:?}");
        assert!(told.contains("asked for") && told.contains("reserved") && told.contains("free") && told.contains("cap"), "{told}");
        assert_eq!(work().unwrap(), 1800.0);
    }
}
#[test]
fn a_card_without_memory_is_told_after_the_pool_was_emptied() {
    let _alone = alone();
    let Some(device) = common::opened(Options::default(), |b| b.memory_pool(CudaMemoryPool::On)) else { return };
    let emulator = Emulator::installed().unwrap();
    let held = |bytes: usize| -> std::result::Result<Box<dyn Memory>, ErrorKind> { backend(device).alloc(bytes) };
    let pieces: Vec<_> = (0..8).map(|_| held(4 << 20).unwrap()).collect();
    emulator.set_memory_limit(emulator.memory_in_use(0));
    // Every second piece: none of the holes is long enough.
    let kept: Vec<_> = pieces.into_iter().enumerate().filter(|(k, _)| k % 2 == 0).map(|(_, piece)| piece).collect();
    let whole = held(16 << 20).unwrap();
    assert!(matches!(held(4 << 20), Err(ErrorKind::OutOfMemory { asked: 4_194_304, .. })));
    drop((kept, whole));
    assert!(held(32 << 20).is_ok());
    emulator.set_memory_limit(emulator.profile().memory);
}
/// Uploads of the copy stream into memory that kernels have read, and the other way round.
fn handed_on(device: Device, seed: u64) -> Result<Vec<f32>> {
    let mut drawn = Lengths(seed);
    let mut sums = Vec::new();
    device.scoped(|| {
        for k in 0..24 {
            let n = [2000usize, 300_000, 700_000][drawn.below(3) as usize];
            let x = Tensor::from_vec((0..n).map(|i| ((i * 7 + k) % 13) as f32).collect(), [n]);
            let y = (&x * 2.0 + 1.0).sqrt();
            let z = &y - x.flip(0);
            z.materialize()?;
            sums.push(z.sum(..));
            if drawn.below(3) == 0 {
                // Gives up all at once, with the work on it still to be done.
                drop((x, y, z));
                device.pool().trim();
            }
        }
        sums.iter().map(Tensor::item::<f32>).collect()
    })
}
#[test]
fn memory_is_touched_behind_the_work_of_its_last_owner() {
    let _alone = alone();
    let Some(plain) = common::device(Options::default()) else { return };
    let emulator = Emulator::installed().unwrap();
    let expected = handed_on(plain, 1).unwrap();
    for seed in 1..6 {
        emulator.set_seed(seed);
        let device = common::opened(Options::default(), |b| b.memory_pool(CudaMemoryPool::On)).unwrap();
        assert_eq!(handed_on(device, 1).unwrap(), expected, "seed {seed}");
    }
    let found: Vec<_> = emulator.findings().into_iter().filter(|f| f.kind != FindingKind::HostReadUnwritten).collect();
    assert!(found.is_empty(), "{found:#?}");
}
/// Memory that is dropped while copies and kernels use it, and had by others at once.
#[test]
fn what_is_dropped_in_the_middle_of_its_work_is_not_written_before_that_is_done() {
    let _alone = alone();
    for seed in 0..12 {
        let Some(device) = common::opened(Options::default(), |b| b.memory_pool(CudaMemoryPool::On)) else { return };
        let emulator = Emulator::installed().unwrap();
        emulator.set_seed(seed);
        let (backend, bytes) = (backend(device), 4 << 20);
        let queues: &dyn Asynchronous = backend.asynchronous().unwrap();
        let is_all = |bytes: &[u8], value: u8| bytes.iter().all(|b| *b == value);
        let first = backend.alloc(bytes).unwrap();
        let written = queues.upload(&*first, Box::new(vec![1u8; bytes]), &[]).unwrap();
        let (_, read) = queues.read_back(&*first, 0, bytes, &[written]).unwrap();
        drop(first);
        // The same place, written by a kernel while the copy stream reads it.
        let full = device.scoped(|| Tensor::full([bytes / 4], 2.0, DType::F32));
        full.materialize().unwrap();
        let mut was = vec![0; bytes];
        read.wait(&mut was).unwrap();
        assert!(is_all(&was, 1), "seed {seed}: a kernel wrote it before it was read");
        // One that the compute stream reads, written by the copy stream.
        let second = backend.alloc(bytes).unwrap();
        let written = queues.upload(&*second, Box::new(vec![3u8; bytes]), &[]).unwrap();
        queues.wait(written).unwrap();
        let read = Backend::read_back(backend, &*second, 0, bytes).unwrap();
        drop(second);
        let third = backend.alloc(bytes).unwrap();
        queues.upload(&*third, Box::new(vec![4u8; bytes]), &[]).unwrap();
        read.wait(&mut was).unwrap();
        assert!(is_all(&was, 3), "seed {seed}: a copy wrote it before it was read");
        // Pages that a copy on its way reads are not moved, while others stand between them and the rest.
        let beside = backend.alloc(bytes).unwrap();
        let (_, read) = queues.read_back(&*third, 0, bytes, &[]).unwrap();
        drop(third);
        let long = backend.alloc(4 * bytes).unwrap();
        read.wait(&mut was).unwrap();
        assert!(is_all(&was, 4), "seed {seed}: pages were moved before they were read");
        drop((beside, long, full));
        let found: Vec<_> = emulator.findings().into_iter().filter(|f| f.kind != FindingKind::HostReadUnwritten).collect();
        assert!(found.is_empty(), "seed {seed}: {found:#?}");
    }
}
