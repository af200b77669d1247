//! Memory that runs out is an error like any other: the step has not happened, and the same process goes on with a
//! smaller batch. The limit is the system's own (`ulimit -v`), so the program runs once more as its own child.
#![cfg(unix)]
use adamant::{
    Cell, DType, Device, Result, Tensor,
    cpu::{Context, CpuBackend},
    functional::{self as f, AvgPoolOptions, ConvOptions, MaxPoolOptions},
    nn::{Linear, Module, Relu, Sequential, Walk},
    optim::{Adam, Optimizer, UpdateRule},
    step,
};
use std::process::Command;

const CHILD: &str = "ADAMANT_TEST_UNDER_A_LIMIT";
/// What the child may address, in KiB: much more than it needs for the small batch, much less than for the large one.
const LIMIT: usize = 1_500_000;
const FEATURES: usize = 64;

#[test]
fn memory_that_runs_out_ends_the_process_or_spoils_the_weights() -> Result<()> {
    again("memory_that_runs_out_ends_the_process_or_spoils_the_weights", under_a_limit)
}
#[test]
fn a_kernel_that_is_refused_memory_of_its_own_ends_the_process() -> Result<()> {
    again("a_kernel_that_is_refused_memory_of_its_own_ends_the_process", kernels_that_are_refused_memory)
}
/// Runs the test of this name as a child under the limit; in the child, the test itself.
fn again(name: &str, test: impl Fn() -> Result<()>) -> Result<()> {
    if std::env::var_os(CHILD).is_some() {
        return test().inspect(|()| println!("went on with a smaller batch"));
    }
    let program = std::env::current_exe().unwrap();
    let output = Command::new("sh")
        .args(["-c", &format!("ulimit -v {LIMIT} && exec \"$0\" --exact {name} --nocapture")])
        .arg(program)
        .env(CHILD, "1")
        // What is given back to the allocator is given back to the system, so that it counts no more; and threads have no
        // reserves of their own, of which one or another would serve what is to be refused.
        .envs([("MALLOC_MMAP_THRESHOLD_", "131072"), ("MALLOC_TRIM_THRESHOLD_", "131072"), ("MALLOC_ARENA_MAX", "1")])
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("went on with a smaller batch"), "{}\n{out}\n{err}", output.status);
    Ok(())
}

fn under_a_limit() -> Result<()> {
    Context::new(CpuBackend::builder().threads(1))?.device().scoped(|| {
        let model = Sequential::new().add(Linear::new(FEATURES, FEATURES)?).add(Relu::new()).add(Linear::new(FEATURES, 4)?);
        let mut adam = Adam::new(1e-2).over(model.parameters());
        let mut step = |rows: usize| -> Result<f32> {
            // The batch is made on the device, so that it is the device that runs out.
            let x = Tensor::arange(0, (rows * FEATURES) as i64, 1, DType::F32).reshape([rows, FEATURES]).sin();
            let y = Tensor::arange(0, rows as i64, 1, DType::I64).bitwise_and(3i64);
            let loss = f::cross_entropy(&model.forward(&x)?, &y, &Default::default());
            adam.step(&loss.backward()?)?;
            loss.item()
        };
        let weights = || -> Result<Vec<Vec<u32>>> {
            model.parameters().iter().map(|p| Ok(p.detached().to_vec::<f32>()?.into_iter().map(f32::to_bits).collect())).collect()
        };
        let first = step(256)?;
        let before = weights()?;
        // 8 million rows of 64 numbers: 2 GiB for the batch alone.
        let error = step(8 << 20).expect_err("so much memory must not be there");
        assert_eq!(error.kind().word(), "memory", "{error}");
        assert!(error.location().file().ends_with("out_of_memory.rs"), "{error}");
        println!("{error}");
        assert_eq!(weights()?, before, "a step that did not happen has changed the weights");
        let mut last = first;
        for _ in 0..50 {
            last = step(256)?;
        }
        assert!(last < first, "{last} after {first}");

        // Copies to and from the host are checked as well.
        let device = Device::current()?;
        device.pool().trim();
        let large = vec![0u8; 900 << 20];
        for error in [
            Tensor::from_slice(&large, large.len()).materialize(),
            Tensor::from_iter(large.iter().copied()).materialize(),
            Tensor::from_vec(large, [900 << 20]).to_vec::<u8>().map(drop),
        ] {
            assert_eq!(error.err().map(|e| e.kind().word()), Some("memory"));
        }
        Ok(())
    })
}

/// Takes all memory that the process may address but `mib` MiB.
fn all_but(mib: usize) -> Vec<Vec<u8>> {
    let mut taken = Vec::with_capacity(4096);
    let piece = |bytes: usize, taken: &mut Vec<Vec<u8>>| {
        let mut memory = Vec::new();
        memory.try_reserve_exact(bytes).is_ok().then(|| taken.push(memory)).is_some()
    };
    let mut kept = Vec::with_capacity(1);
    assert!(piece(mib << 20, &mut kept));
    for bytes in [256 << 20, 16 << 20, 1 << 20] {
        while taken.len() < taken.capacity() && piece(bytes, &mut taken) {}
    }
    taken
}

const M: usize = 1 << 20;
/// What a kernel computes, the MiB that its operands and results need with a little to spare, and how.
type Case = (&'static str, usize, fn() -> Result<Tensor>);
/// Results for which there is memory, by kernels that need more of their own.
const CASES: [Case; 21] = [
    ("a line that is sorted", 40, || Ok(ones(&[2 * M], DType::F32)?.sort(0, false).0)),
    ("a running sum of columns", 20, || Ok(ones(&[2, M], DType::U8)?.cumsum(0))),
    ("the largest of columns", 32, || Ok(ones(&[2, 2 * M], DType::U8)?.argmax(0))),
    ("places of a gather", 44, || Ok(ones(&[2, 2 * M], DType::F32)?.gather(0, &ones(&[1, 2 * M], DType::I64)?))),
    ("classes of a loss", 40, || Ok(f::cross_entropy(&ones(&[2 * M, 1], DType::F32)?, &(ones(&[2 * M], DType::I64)? - 1i64), &Default::default()))),
    ("a vector that is packed for a product", 38, || Ok(ones(&[2, 2 * M], DType::F32)?.matmul(ones(&[2 * M, 2], DType::F32)?.narrow(1, 0, 1)))),
    ("sums of chunks of a product", 24, || Ok(ones(&[1, 20 * 256], DType::F32)?.matmul(ones(&[1, M], DType::F32)?.expand([20 * 256, M])))),
    ("wide sums of a product in 16 bits", 10, || Ok(ones(&[1 << 16, 16], DType::BF16)?.matmul(ones(&[16, 16], DType::BF16)?))),
    ("a padded image", 42, || conv(&[1, 1, 4 * M], &[1, 1, 3], DType::F32, 1)),
    ("16-bit operands of a convolution", 24, || conv(&[1, 1, 4 * M], &[1, 1, 3], DType::BF16, 0)),
    ("the transposed gradient of a convolution's weight", 44, || {
        let (x, w) = (ones(&[1, 2048, 1], DType::F32)?, ones(&[2048, 2048, 1], DType::F32)?.tracked());
        gradient(&f::conv1d(&x, &w, None, &Default::default()), &w)
    }),
    ("16-bit rows of a softmax", 36, || Ok(ones(&[1, 6 * M], DType::BF16)?.softmax(-1))),
    ("columns of a softmax", 28, || Ok(ones(&[M, 2], DType::F32)?.softmax(0))),
    ("16-bit rows of a norm", 36, || Ok(f::layer_norm(&ones(&[1, 6 * M], DType::BF16)?, [6 * M], None, None, 1e-5))),
    ("weights of a norm", 32, || {
        let w = ones(&[2 * M], DType::F32)?;
        Ok(f::layer_norm(&ones(&[1, 2 * M], DType::F32)?, [2 * M], Some(&w), Some(&w), 1e-5))
    }),
    ("sums over rows for the weight of a norm", 20, || {
        let (x, w) = (ones(&[2, M / 4], DType::F32)?, ones(&[M / 4], DType::F32)?.tracked());
        gradient(&f::layer_norm(&x, [M / 4], Some(&w), None, 1e-5), &w)
    }),
    ("a channel of a batch norm", 44, || Ok(f::batch_norm_training(&ones(&[M, 1, 4], DType::F32)?, None, None, 1e-5).0)),
    ("sums of windows", 44, || Ok(f::avg_pool1d(&ones(&[1, 1, 4 * M], DType::F32)?, &AvgPoolOptions { stride: Some(1.into()), ..AvgPoolOptions::new(2) }))),
    ("places of the largest of windows", 54, || {
        let windows = MaxPoolOptions { stride: Some(1.into()), ..MaxPoolOptions::new(2) };
        Ok(f::max_pool1d(&ones(&[1, 1, 3 * M], DType::F32)?, &windows).0)
    }),
    ("weights of attention", 28, || {
        let q = ones(&[1, 1, 64, 1], DType::F32)?;
        let k = ones(&[1, 1, M / 4, 1], DType::F32)?;
        Ok(f::scaled_dot_product_attention(&q, &k, &k, &Default::default()))
    }),
    ("weights of attention in its backward", 24, || {
        let q = ones(&[1, 1, 3000, 1], DType::F32)?.tracked();
        gradient(&f::scaled_dot_product_attention(&q, &q, &q, &Default::default()), &q)
    }),
];
/// Work in so many pieces that a list of them would need more memory than the result.
const PIECES: [Case; 3] = [
    ("many small products", 24, || Ok(ones(&[M, 1, 1], DType::F32)?.matmul(ones(&[M, 1, 1], DType::F32)?))),
    ("sums of many short columns", 76, || Ok(ones(&[M / 2, 2, 8], DType::F32)?.sum(1))),
    ("many short heads", 24, || {
        let q = ones(&[M / 2, 1, 1], DType::F32)?;
        Ok(f::scaled_dot_product_attention(&q, &q, &q, &Default::default()))
    }),
];
fn ones(shape: &[usize], dtype: DType) -> Result<Tensor> {
    let x = Tensor::full(shape, 1.0f32, DType::F32).cast(dtype);
    x.materialize().map(|()| x)
}
fn conv(x: &[usize], w: &[usize], dtype: DType, padding: usize) -> Result<Tensor> {
    Ok(f::conv1d(&ones(x, dtype)?, &ones(w, dtype)?, None, &ConvOptions { padding: padding.into(), ..ConvOptions::default() }))
}
fn gradient(y: &Tensor, x: &Tensor) -> Result<Tensor> {
    let y = y.sum(..);
    y.backward()?.get(x).cloned().ok_or_else(|| y.materialize().expect_err("no gradient and no error"))
}

/// Runs `f` on a device and on threads of its own, which have kept no memory from earlier work.
fn on_new_threads(f: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    let run = || {
        Context::new(CpuBackend::builder().threads(2))?.device().scoped(|| {
            // Wakes the pool: threads need memory as well.
            ones(&[512, 512], DType::F32)?.matmul(ones(&[512, 512], DType::F32)?).materialize()?;
            Device::current()?.pool().trim();
            f()
        })
    };
    std::thread::scope(|s| s.spawn(run).join().unwrap())
}
fn kernels_that_are_refused_memory() -> Result<()> {
    for (name, mib, case) in CASES {
        on_new_threads(|| {
            let cell = Cell::new(&Tensor::full([3], 1.0f32, DType::F32), false)?;
            let before = cell.detached().to_vec::<f32>()?;
            let taken = all_but(mib);
            // The cell's write comes after the kernel that fails, or not at all.
            let outcome = case().and_then(|y| step(|| cell.set(&(cell.detached() + y.cast(DType::F32).sum(..) + 1.0f32))));
            drop(taken);
            let error = outcome.expect_err(name);
            println!("{name}: {error}");
            assert_eq!(error.kind().word(), "memory", "{name}: {error}");
            assert_eq!(cell.detached().to_vec::<f32>()?, before, "{name}");
            // With more memory it is computed.
            case()?.materialize()
        })?;
    }
    for (name, mib, case) in PIECES {
        on_new_threads(|| {
            let taken = all_but(mib);
            let outcome = case().and_then(|y| y.materialize());
            drop(taken);
            assert!(outcome.is_ok(), "{name}: {outcome:?}");
            Ok(())
        })?;
    }
    Ok(())
}
