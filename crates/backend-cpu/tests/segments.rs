//! Segment reductions on the CPU: as the reference has them, with the bits of a loop under `vmap`, on any number of threads.
use adamant_backend_cpu::{Context, CpuBackend};
use adamant_conformance::segments;
use adamant_core::{
    Arg, DType, Device, Op, Outputs, Rng, SegmentReduce, Segments, Tensor,
    intercept::{self, Interceptor},
};
use std::sync::Arc;

fn device(threads: usize) -> Device {
    Context::new(CpuBackend::builder().threads(threads)).unwrap().device()
}
#[test]
fn a_segment_is_combined_otherwise_than_the_reference_does() {
    let (wrong, [long, empty]) = segments::run(device(3), 240, 1, true, segments::LONG);
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(long >= 20 && empty >= 60, "{long} long, {empty} with segments of nothing");
}
/// A segment of several pieces, on one thread and on many, alone and beside others: numbers whose sum shows in which order it is taken.
#[test]
fn a_long_segment_has_other_bits_on_more_threads() {
    let n = 150_000;
    let sums = |threads: usize, rows: usize| -> Vec<f64> {
        device(threads).scoped(|| {
            let x = (Rng::new(5).unwrap().uniform([n, 3], DType::F64) - 0.5).exp2();
            let lengths = Tensor::from_vec(vec![7i64, n as i64 - 10, 0, 3], [4]);
            let x = if rows == 1 { x } else { Tensor::stack(&vec![&x; rows], 0) };
            let y = x.segment_reduce(SegmentReduce::Sum, Segments::Lengths(&lengths), if rows == 1 { 0 } else { 1 }, None);
            y.to_vec::<f64>().unwrap()[..12].to_vec()
        })
    };
    let one = sums(1, 1);
    assert!(one.iter().any(|v| v.fract() != 0.0));
    for (threads, rows) in [(2, 1), (8, 1), (1, 4), (5, 4)] {
        assert_eq!(sums(threads, rows), one, "{threads} threads, {rows} rows");
    }
}
/// Elements are halved, as the kernel sees them.
struct Halved;
impl Interceptor for Halved {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs {
        match op {
            Op::SegmentReduce { .. } if !inputs[0].device().is_ok_and(Device::is_reference) => {
                let offsets = inputs[1];
                next(op, arg, &[&(inputs[0] * 0.5), offsets])
            }
            op => next(op, arg, inputs),
        }
    }
}
#[test]
fn a_wrong_kernel_is_overlooked() {
    let device = device(1);
    let (wrong, _) = intercept::with(Arc::new(Halved), || segments::run(device, 24, 1, true, segments::LONG));
    assert!(wrong.len() > 4, "{wrong:?}");
}
