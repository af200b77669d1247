//! One benchmark for each kind of kernel that models spend their time in.
use adamant::{Result, Tensor};
use adamant_benches::{device, numbers};
use criterion::{Criterion, Throughput};

type Call = fn(&[Tensor]) -> Tensor;
/// Name, shapes of the inputs, the call, and what one call does: elements read, or multiplications.
const KERNELS: &[(&str, &[&[usize]], Call, u64)] = &[
    ("small_add_4", &[&[4], &[4]], |x| &x[0] + &x[1], 4),
    ("map_gelu_1m", &[&[1 << 20]], |x| x[0].gelu(), 1 << 20),
    ("map_chain_1m", &[&[1 << 20], &[1 << 20]], |x| (&x[0] * 0.9 + &x[1] * 0.1).tanh(), 1 << 21),
    ("reduce_sum_rows", &[&[1024, 1024]], |x| x[0].sum(1), 1 << 20),
    ("reduce_sum_columns", &[&[1024, 1024]], |x| x[0].sum(0), 1 << 20),
    ("softmax_rows", &[&[1024, 1024]], |x| x[0].softmax(-1), 1 << 20),
    ("gemm_64", &[&[64, 64], &[64, 64]], |x| x[0].matmul(&x[1]), 64 * 64 * 64),
    ("gemm_512", &[&[512, 512], &[512, 512]], |x| x[0].matmul(&x[1]), 512 * 512 * 512),
    ("gemm_512_transposed", &[&[512, 512], &[512, 512]], |x| x[0].matmul(x[1].t()), 512 * 512 * 512),
    ("gemv_2048", &[&[1, 2048], &[2048, 2048]], |x| x[0].matmul(&x[1]), 2048 * 2048),
];

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    device()?.scoped(|| {
        for (name, shapes, call, work) in KERNELS {
            let inputs = shapes.iter().map(|s| numbers(s)).collect::<Result<Vec<Tensor>>>()?;
            // An error would be timed as a very fast kernel.
            call(&inputs).materialize()?;
            let mut group = criterion.benchmark_group(*name);
            group.throughput(Throughput::Elements(*work));
            group.bench_function("cpu", |b| b.iter(|| call(&inputs).materialize()));
        }
        Ok(())
    })?;
    criterion.final_summary();
    Ok(())
}
