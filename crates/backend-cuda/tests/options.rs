//! Each option of a card is read back, told of, and does what it says, or is refused by name.
mod common;

use adamant_backend_cuda::{CudaBackend, CudaBuilder, CudaMemoryPool, CudaOptions};
use adamant_core::{DType, ErrorKind, Tensor};
use adamant_cuda_emulator::{Emulator, Options};

#[test]
fn what_cannot_be_met_is_refused_by_name_before_a_card_is_sought() {
    let build = || CudaBackend::builder().cache(None);
    let refused: [(CudaBuilder, &[&str]); 10] = [
        (build().cudnn(true), &["cudnn", "feature `cudnn`"]),
        (build().benchmark(true), &["benchmark", "measures nothing"]),
        (build().benchmark(true).deterministic(true), &["benchmark", "deterministic"]),
        (build().stream_count(0), &["stream_count: 0"]),
        (build().stream_count(3), &["stream_count: 3", "has 1"]),
        (build().tf32(true).tensor_cores(false), &["tf32", "tensor_cores"]),
        (build().memory_pool(CudaMemoryPool::Bytes(0)), &["memory_pool", "0 bytes"]),
        (build().memory_pool(CudaMemoryPool::Share(0.0)), &["memory_pool", "share of 0"]),
        (build().memory_pool(CudaMemoryPool::Share(1.5)), &["memory_pool", "1.5"]),
        (build().memory_pool(CudaMemoryPool::Share(f64::NAN)), &["memory_pool", "NaN"]),
    ];
    for (builder, parts) in refused {
        match builder.clone().build() {
            Err(e @ (ErrorKind::Unsupported { .. } | ErrorKind::Argument(_))) => {
                let said = e.to_string();
                assert!(parts.iter().all(|p| said.contains(p)), "{said}");
            }
            Err(e) => panic!("{builder:?}: {e:?}"),
            Ok(_) => panic!("{builder:?} was taken"),
        }
    }
}
#[test]
fn a_pool_is_read_as_it_is_written() {
    use CudaMemoryPool::{Bytes, Off, On, Share};
    for (text, pool) in
        [("off", Some(Off)), ("on", Some(On)), ("", Some(On)), ("1048576", Some(Bytes(1 << 20))), ("0.5", Some(Share(0.5))), ("75%", Some(Share(0.75)))]
    {
        assert_eq!(text.parse().ok(), pool, "{text}");
    }
    for text in ["maybe", "12 GB", "-5", "1e", "%"] {
        let read = text.parse::<CudaMemoryPool>();
        assert!(read.is_err() || matches!(read, Ok(Share(s)) if !(s > 0.0)), "{text}: {read:?}");
    }
}
#[test]
fn each_option_is_read_back_and_told_of() {
    let Some(plain) = common::opened(Options::default(), |b| b.memory_pool(CudaMemoryPool::On)) else { return };
    let base = common::backend(plain).options().clone();
    type Set = (fn(CudaBuilder) -> CudaBuilder, fn(&mut CudaOptions), &'static str, &'static str);
    let all: [Set; 6] = [
        (|b| b.tensor_cores(false), |o| o.tensor_cores = false, "tensor cores", "off"),
        (|b| b.memory_pool(CudaMemoryPool::Off), |o| o.memory_pool = CudaMemoryPool::Off, "memory pool", "off"),
        (|b| b.memory_pool(CudaMemoryPool::Share(0.5)), |o| o.memory_pool = CudaMemoryPool::Share(0.5), "memory pool", "at most 50% of the card"),
        (|b| b.tf32(true), |o| o.tf32 = true, "tf32", "on"),
        (|b| b.deterministic(true), |o| o.deterministic = true, "deterministic", "on"),
        (|b| b.stream_count(1), |_| (), "compute streams", "1"),
    ];
    for (set, expect, name, value) in all {
        let device = common::opened(Options::default(), |b| set(b.memory_pool(CudaMemoryPool::On))).unwrap();
        let mut expected = base.clone();
        expect(&mut expected);
        assert_eq!(common::backend(device).options(), &expected);
        assert!(device.info().details.iter().any(|(n, v)| *n == name && v == value), "{name}: {:?}", device.info().details);
    }
    for name in ["benchmark", "cudnn", "self-test", "pages", "products"] {
        assert!(plain.info().details.iter().any(|(n, _)| *n == name), "{name}");
    }
}
#[test]
fn options_of_products_choose_what_multiplies() {
    let Some(_) = common::opened(Options::default(), |b| b) else { return };
    let emulator = Emulator::installed().unwrap();
    let products = || emulator.counts().get("cublasLtMatmul").copied().unwrap_or(0);
    let multiply = |set: fn(CudaBuilder) -> CudaBuilder, dtype: DType| {
        let device = common::opened(Options::default(), set).unwrap();
        let before = products();
        let n = 64;
        let values: Vec<f32> = (0..n * n).map(|k| ((k * 7919) % 10_007) as f32 / 10_007.0 - 0.5).collect();
        let x = || Tensor::from_vec(values.clone(), [n, n]).cast(dtype);
        let product = device.scoped(|| x().matmul(x()).cast(DType::F32).to_vec::<f32>()).unwrap();
        let unit = common::backend(device).texts().iter().any(|t| t.contains("mma.sync"));
        (product, products() > before, unit)
    };
    // By the library, unless the matrix unit is not to be used.
    let (plain, by_library, _) = multiply(|b| b, DType::F32);
    assert!(by_library && multiply(|b| b.tensor_cores(false), DType::F32).1);
    for dtype in [DType::F16, DType::BF16, DType::F64] {
        assert!(multiply(|b| b, dtype).1, "{dtype}");
        let (_, by_library, by_unit) = multiply(|b| b.tensor_cores(false), dtype);
        assert!(!by_library && !by_unit, "{dtype} without tensor cores");
    }
    // TF32 is less exact, and only where it is asked for.
    let (cut, by_library, _) = multiply(|b| b.tf32(true), DType::F32);
    let apart = plain.iter().zip(&cut).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(by_library && apart > 1e-5 && apart < 1e-2, "{apart}");
    // The same bits in every run, whatever the order.
    let (first, ..) = multiply(|b| b.deterministic(true), DType::F32);
    for seed in 1..4 {
        emulator.set_seed(seed);
        assert_eq!(multiply(|b| b.deterministic(true), DType::F32).0, first);
    }
}
