//! Pinned memory of users: a device copies from it by itself, and it stays as it is until the device has.
mod common;
use adamant_backend_cpu as _;
use adamant_backend_cuda::CudaMemoryPool;
use adamant_core::{Device, ErrorKind, Tensor};
use adamant_cuda_emulator::{Emulator, Options};
use adamant_data::{DataLoader, TensorDataset};
use std::sync::{Arc, Mutex, PoisonError};

/// All share one emulator, whose calls are counted.
static ALONE: Mutex<()> = Mutex::new(());

fn numbers(count: usize, seed: u64) -> Vec<f32> {
    (0..count as u64).map(|k| ((k.wrapping_mul(2_654_435_761).wrapping_add(seed * 97) >> 7) % 4093) as f32 / 512.0 - 4.0).collect()
}
/// Calls of the driver that pin memory, and copies to the card.
fn asked(emulator: &Emulator) -> (u64, u64) {
    let counts = emulator.counts();
    let of = |name: &str| counts.get(name).copied().unwrap_or(0);
    (of("cuMemHostAlloc"), of("cuMemcpyHtoDAsync_v2"))
}

#[test]
fn pinned_tensors_are_copied_from_where_they_lie_and_stay_until_they_are() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(device) = common::device(Options::default()) else { return };
    let (cpu, emulator) = (Device::cpu().unwrap(), Emulator::installed().unwrap());
    assert_eq!(device.backend().downcast::<adamant_backend_cuda::CudaBackend>().unwrap().options().memory_pool, CudaMemoryPool::Off);
    for seed in 0..6 {
        emulator.set_seed(seed);
        // Up to more than one piece that copies are else made in.
        for count in [1, 3, 1000, (9 << 20) / 4] {
            let values = numbers(count, seed);
            let plain = Tensor::from_vec_on(values.clone(), [count], cpu);
            let pinned = plain.pin_memory(device).unwrap();
            assert_eq!((pinned.is_pinned().unwrap(), plain.is_pinned().unwrap(), pinned.device().unwrap()), (true, false, cpu));
            assert_eq!(pinned.pin_memory(device).unwrap().to_vec::<f32>().unwrap(), values, "pinned again");
            let before = asked(emulator);
            let on_card = pinned.to(device);
            let after = asked(emulator);
            assert_eq!((after.0 - before.0, after.1 - before.1), (0, 1), "one copy of {count} numbers, through no other memory");
            // Its memory would be another's by the time that the copy runs.
            drop(pinned);
            let others: Vec<Tensor> = (0..3).map(|k| Tensor::from_vec_on(vec![k as f32; count], [count], cpu).pin_memory(device).unwrap()).collect();
            assert!(on_card.to_vec::<f32>().unwrap() == values, "seed {seed}, {count} numbers");
            drop(others);
            // A part of it is copied as others are.
            let part = plain.pin_memory(device).unwrap().narrow(0, count / 2, count - count / 2);
            assert!(part.to(device).to_vec::<f32>().unwrap() == values[count / 2..], "{count} numbers");
        }
    }
    device.synchronize().unwrap();
    let (allocated, freed) = (emulator.counts()["cuMemHostAlloc"], emulator.counts()["cuMemFreeHost"]);
    assert!(freed >= 6 * 4 * 4, "of {allocated} pieces {freed} were given back");
}
#[test]
fn an_op_in_place_leaves_what_a_copy_still_reads() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(device) = common::device(Options::default()) else { return };
    let cpu = Device::cpu().unwrap();
    for seed in 0..4 {
        Emulator::installed().unwrap().set_seed(seed);
        let pinned = Tensor::from_vec_on(numbers(5000, seed), [5000], cpu).pin_memory(device).unwrap();
        let on_card = pinned.to(device);
        // The last use of the tensor on the host may take its memory for what it computes.
        let next = (pinned * 2.0).to_vec::<f32>().unwrap();
        assert_eq!(next, numbers(5000, seed).iter().map(|v| v * 2.0).collect::<Vec<_>>());
        assert!(on_card.to_vec::<f32>().unwrap() == numbers(5000, seed), "seed {seed}: the copy saw the next value");
    }
}
#[test]
fn what_is_not_pinned_says_why() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(device) = common::device(Options::default()) else { return };
    let cpu = Device::cpu().unwrap();
    let on_card = Tensor::ones([3]).to(device);
    assert!(!on_card.pin_memory(device).unwrap().is_pinned().unwrap(), "it is there already");
    let other = common::device(Options::default()).unwrap();
    let error = on_card.pin_memory(other).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }) && error.to_string().contains("CPU"), "{error}");
    let here = Tensor::from_vec_on(vec![1.0f32], [1], cpu);
    assert!(!here.pin_memory(cpu).unwrap().is_pinned().unwrap(), "on the CPU it makes no difference");
    let failed = here.reshape([7]);
    assert!(failed.pin_memory(device).is_err() && failed.is_pinned().is_err());
    let none = Tensor::from_vec_on(Vec::<f32>::new(), [0], cpu).pin_memory(device).unwrap();
    assert!(none.to(device).to_vec::<f32>().unwrap().is_empty());
}
#[test]
fn a_gradient_flows_through() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(device) = common::device(Options::default()) else { return };
    let x = Tensor::from_vec_on(numbers(10, 3), [10], Device::cpu().unwrap()).tracked();
    let pinned = x.pin_memory(device).unwrap();
    let loss = (pinned.to(device) * 3.0).sum(..);
    assert_eq!(loss.backward().unwrap().get(&x).unwrap().to_vec::<f32>().unwrap(), [3.0; 10]);
}
#[test]
fn a_loader_pins_its_batches() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(device) = common::device(Options::default()) else { return };
    let (cpu, emulator) = (Device::cpu().unwrap(), Emulator::installed().unwrap());
    let x = Tensor::from_vec_on(numbers(7 * 30, 5), [30, 7], cpu);
    let y = Tensor::from_vec_on((0..30i64).collect(), [30], cpu);
    let set = Arc::new(TensorDataset::new(&[&x, &y]).unwrap());
    for workers in [0, 2] {
        let mut loader = DataLoader::new(set.clone()).batch_size(8).shuffle(4).workers(workers).pin_memory(device).build().unwrap();
        let mut plain = DataLoader::new(set.clone()).batch_size(8).shuffle(4).device(cpu).build().unwrap();
        for (pinned, plain) in loader.epoch().zip(plain.epoch()) {
            let (pinned, plain) = (pinned.unwrap(), plain.unwrap());
            assert!(pinned.iter().all(|t| t.is_pinned().unwrap()) && !plain.iter().any(|t| t.is_pinned().unwrap()));
            let before = asked(emulator);
            let there: Vec<Tensor> = pinned.into_iter().map(|t| t.to(device)).collect();
            let after = asked(emulator);
            assert_eq!(after.1 - before.1, 2);
            assert_eq!(there[0].to_vec::<f32>().unwrap(), plain[0].to_vec::<f32>().unwrap());
            assert_eq!(there[1].to_vec::<i64>().unwrap(), plain[1].to_vec::<i64>().unwrap());
        }
    }
}
