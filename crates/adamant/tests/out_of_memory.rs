//! Memory that runs out is an error like any other: the step has not happened, and the same process goes on with a
//! smaller batch. The limit is the system's own (`ulimit -v`), so the program runs once more as its own child.
#![cfg(unix)]
use adamant::{
    Cell, DType, Device, Result, Tensor,
    cpu::{Context, CpuBackend},
    functional as f,
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
    if std::env::var_os(CHILD).is_some() {
        return under_a_limit();
    }
    let program = std::env::current_exe().unwrap();
    let output = Command::new("sh")
        .args(["-c", &format!("ulimit -v {LIMIT} && exec \"$0\" --exact memory_that_runs_out_ends_the_process_or_spoils_the_weights --nocapture")])
        .arg(program)
        .env(CHILD, "1")
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
        let weights =
            || -> Result<Vec<Vec<u32>>> { model.parameters().iter().map(|p| Ok(p.read().to_vec::<f32>()?.into_iter().map(f32::to_bits).collect())).collect() };
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
            Tensor::from_slice(&large, large.len()).eval(),
            Tensor::from_iter(large.iter().copied()).eval(),
            Tensor::from_vec(large, [900 << 20]).to_vec::<u8>().map(drop),
        ] {
            assert_eq!(error.err().map(|e| e.kind().word()), Some("memory"));
        }
        kernels_that_are_refused_memory()?;
        println!("went on with a smaller batch: loss {first} to {last}");
        Ok(())
    })
}

/// Results for which there is memory, by kernels for which there is none: all in bytes the sizes below, with the limit in mind.
fn kernels_that_are_refused_memory() -> Result<()> {
    let device = Device::current()?;
    let zeros = |shape: &[usize], dtype: DType| -> Result<Tensor> {
        let x = Tensor::full(shape, 0.0f32, DType::F32).cast(dtype);
        x.eval().map(|()| x)
    };
    let (million, cell) = (1 << 20, Cell::new(&Tensor::full([3], 1.0f32, DType::F32), false)?);
    type Case<'a> = (&'static str, Box<dyn Fn() -> Result<Tensor> + 'a>);
    let cases: [Case<'_>; 6] = [
        ("a line that is sorted", Box::new(|| Ok(zeros(&[45 * million], DType::F32)?.sort(0, false).0))),
        ("a running sum of columns", Box::new(|| Ok(zeros(&[2, 50 * million], DType::U8)?.cumsum(0)))),
        ("the largest of columns", Box::new(|| Ok(zeros(&[2, 60 * million], DType::U8)?.argmax(0)))),
        (
            "16-bit sums of a convolution",
            Box::new(|| {
                let (x, w) = (zeros(&[1, 1, 140 * million], DType::BF16)?, zeros(&[1, 1, 3], DType::BF16)?);
                Ok(f::conv1d(&x, &w, None, &Default::default()))
            }),
        ),
        (
            "classes of a loss",
            Box::new(|| {
                let (x, target) = (zeros(&[64 * million, 1], DType::F32)?, zeros(&[64 * million], DType::I64)?);
                Ok(f::cross_entropy(&x, &target, &Default::default()))
            }),
        ),
        (
            "weights of attention in its backward",
            Box::new(|| {
                let q = zeros(&[1, 1, 16_000, 1], DType::F32)?.tracked();
                let y = f::scaled_dot_product_attention(&q, &q, &q, &Default::default()).sum(..);
                y.backward()?.get(&q).cloned().ok_or_else(|| y.eval().expect_err("no gradient and no error"))
            }),
        ),
    ];
    for (name, case) in &cases {
        device.pool().trim();
        let before = cell.read().to_vec::<f32>()?;
        // The cell's write comes after the kernel that fails, or not at all.
        let outcome = case().and_then(|y| step(|| cell.set(&(cell.read() + y.cast(DType::F32).sum(..) + 1.0f32))));
        let error = outcome.expect_err(name);
        assert_eq!(error.kind().word(), "memory", "{name}: {error}");
        assert_eq!(cell.read().to_vec::<f32>()?, before, "{name}");
    }
    device.pool().trim();
    let (sorted, _) = Tensor::arange(0, 1000, 1, DType::F32).flip(0).sort(0, false);
    assert_eq!(sorted.to_vec::<f32>()?[..3], [0.0, 1.0, 2.0]);
    Ok(())
}
