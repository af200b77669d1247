//! The CPU promises the same bits for any number of rows, so `vmap` has those of a loop: every function of the registry, in every
//! float dtype and one of integers, on one thread and on several. `ADAMANT_TRANSFORMS=all` takes the time that all samples take.
use adamant_backend_cpu::{Context, CpuBackend};
use adamant_conformance::{
    registry::entries,
    transforms::{Hole, TransformVerdict, check_stacked},
};
use adamant_core::{
    Arg, DType, Device, Op, Outputs, Tensor,
    intercept::{self, Interceptor},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a slice of the samples may take.
const BUDGET: Duration = Duration::from_secs(30);

fn device(threads: usize) -> Device {
    Context::new(CpuBackend::builder().threads(threads)).unwrap().device()
}
#[test]
fn a_stack_has_other_bits_than_a_loop() {
    let (all, devices) = (entries(), [device(1), device(3)]);
    let (begun, whole) = (Instant::now(), std::env::var_os("ADAMANT_TRANSFORMS").is_some());
    let sampled = [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I64];
    // First one sample of each function, then the others.
    let mut seen = BTreeSet::new();
    let (first, others): (Vec<usize>, Vec<usize>) = (0..all.len()).partition(|&k| seen.insert(all[k].name.as_str()));
    let (mut done, mut wrong) = (0, Vec::new());
    let mut table: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for k in first.into_iter().chain(others) {
        if !whole && begun.elapsed() > BUDGET {
            break;
        }
        for (j, dtype) in sampled.into_iter().filter(|d| all[k].dtypes.contains(d)).enumerate() {
            let row = table.entry(&all[k].name).or_default();
            match check_stacked(devices[(k + j) % 2], &all[k], dtype, 0x5EED + k as u64, true) {
                TransformVerdict::Right => row[0] += 1,
                TransformVerdict::Hole(Hole::DataDependent) => row[1] += 1,
                other => wrong.push(format!("{} in {dtype}, sample {k}: {other}", all[k].name)),
            }
        }
        done += 1;
    }
    let kept = table.values().filter(|[bits, _]| *bits > 0).count();
    println!("{done} of {} samples; {kept} of {} functions have the bits of a loop", all.len(), table.len());
    for (name, [_, holes]) in table.iter().filter(|(_, row)| row[1] > 0) {
        println!("{name}: shape depends on data ({holes})");
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(kept > 300 || !whole, "{kept}");
}

/// One unit in the last place more where a stack is summed, as a kernel would have it that sums in an order of its batch.
struct OtherOrder;
impl Interceptor for OtherOrder {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs {
        let stacked = matches!(op, Op::Reduce { .. }) && adamant_conformance::transforms::under() == adamant_conformance::transforms::Under::Stack;
        let out = next(op, arg, inputs);
        if stacked { out.into_iter().map(|t| t * (1.0 + f64::from(f32::EPSILON))).collect() } else { out }
    }
}
#[test]
fn a_sum_in_another_order_is_overlooked() {
    let sum = entries().into_iter().find(|e| e.name == "Tensor::sum" && e.dtypes.contains(&DType::F32) && e.inputs[0].shape.iter().all(|&d| d > 0)).unwrap();
    let verdict = || check_stacked(device(1), &sum, DType::F32, 1, true);
    assert_eq!(verdict(), TransformVerdict::Right);
    let planted = intercept::with(Arc::new(OtherOrder), verdict);
    assert!(matches!(planted, TransformVerdict::Wrong(_)), "{planted}");
}
