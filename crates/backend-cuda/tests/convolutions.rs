//! Convolutions of 16 bits by the matrix unit, on the emulator: drawn windows of one to three axes in all three roles, within the
//! published table of what the reference gives.
mod common;

use adamant_backend_cuda::CudaBackend;
use adamant_conformance::{
    data::{Spread, download, draw, upload},
    random::Random,
    tolerance,
};
use adamant_core::{
    Arg, DType, Device, HostArray, Op, Origin, Shape, Tensor,
    op::{ConvRole, ConvSpec},
};
use adamant_cuda_emulator::{Emulator, FindingKind, Options};
use std::sync::Arc;

/// Cases of an ordinary run; `ADAMANT_CONVOLUTIONS=<number>` makes as many.
const CASES: u64 = 24;

/// A window of drawn geometry whose product has more than a few rows, columns and terms.
fn drawn(random: &mut Random, role: ConvRole) -> (ConvSpec, [Shape; 3]) {
    let axes = random.between(1, 3);
    let groups = *random.pick(&[1, 1, 2]);
    let [ci, co] = [(); 2].map(|()| *random.pick(&[16, 17, 24, 40]));
    let each = |random: &mut Random, choices: &[usize]| (0..axes).map(|_| *random.pick(choices)).collect::<Vec<usize>>();
    let kernel = each(random, &[1, 2, 3]);
    let (stride, dilation) = (each(random, &[1, 2]), each(random, &[1, 2]));
    let padding: Vec<(usize, usize)> = (0..axes).map(|_| (random.below(3), random.below(2))).collect();
    let inner = each(random, if axes == 3 { &[5, 6] } else { &[7, 9, 12] });
    let outer: Vec<usize> = (0..axes).map(|a| (inner[a] + padding[a].0 + padding[a].1 - dilation[a] * (kernel[a] - 1) - 1) / stride[a] + 1).collect();
    let images = random.between(2, 3);
    if images * outer.iter().product::<usize>() < 16 {
        return drawn(random, role);
    }
    let shape = |n: usize, c: usize, places: &[usize]| Shape::new(&[&[n, c], places].concat()).unwrap();
    let open = match role {
        ConvRole::Forward => &[][..],
        ConvRole::InputGrad => &inner,
        ConvRole::WeightGrad => &kernel,
    };
    let spec = ConvSpec {
        role,
        stride: stride.iter().copied().collect(),
        padding: padding.into_iter().collect(),
        dilation: dilation.into_iter().collect(),
        groups,
        open: open.iter().copied().collect(),
    };
    (spec, [shape(images, groups * ci, &inner), shape(groups * co, ci, &kernel), shape(images, groups * co, &outer)])
}
fn check(device: Device, role: ConvRole, seed: u64) {
    let mut random = Random::new(seed);
    let (spec, [x, w, y]) = drawn(&mut random, role);
    let dtype = *random.pick(&[DType::F16, DType::BF16]);
    let of = match role {
        ConvRole::Forward => [x, w],
        ConvRole::InputGrad => [y, w],
        ConvRole::WeightGrad => [x, y],
    };
    let inputs: Vec<HostArray> = of.iter().map(|s| draw(*s, dtype, Spread::Within(-2.0, 2.0), &mut random)).collect();
    let op = Op::Conv(Arc::new(spec));
    let got = device.scoped(|| {
        let tensors: Vec<Tensor> = inputs.iter().map(|a| upload(a, device)).collect();
        let results = Tensor::apply_many(op.clone(), Arg::None, &tensors.iter().collect::<Vec<_>>(), Origin::here());
        results.iter().map(download).collect::<Result<Vec<_>, _>>()
    });
    let got = got.unwrap_or_else(|e| panic!("seed {seed}, {op:?}: {e}: {:#?}", findings()));
    tolerance::check(&op, Arg::None, &inputs, &got).unwrap_or_else(|e| panic!("seed {seed}, {dtype} {of:?}, {op:?}: {e}"));
}
fn findings() -> Vec<adamant_cuda_emulator::Finding> {
    let found = Emulator::installed().map(Emulator::findings).unwrap_or_default();
    found.into_iter().filter(|f| f.kind != FindingKind::HostReadUnwritten).collect()
}
#[test]
fn convolutions_by_the_matrix_unit_are_near_the_reference_in_all_roles() {
    let Some(device) = common::device(Options { seed: 7, cublaslt: false, ..Options::default() }) else { return };
    let cases = std::env::var("ADAMANT_CONVOLUTIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES);
    for seed in 0..cases {
        check(device, [ConvRole::Forward, ConvRole::InputGrad, ConvRole::WeightGrad][seed as usize % 3], seed);
    }
    let found = findings();
    assert!(found.is_empty(), "{found:#?}");
    let texts = device.backend().downcast::<CudaBackend>().map(CudaBackend::texts).unwrap_or_default();
    let unit = |how: fn(&str) -> bool| texts.iter().filter(|t| t.contains("mma.sync") && how(t)).count();
    assert!(unit(|t| t.contains("adm_copied<")) > 0 && unit(|t| !t.contains("adm_copied<")) > 0, "weights are not copied, or all are");
    // The plain kernel keeps blocks of eight rows.
    assert!(!texts.iter().any(|t| t.contains("row_at7")), "a plain kernel ran");
    // A card without the unit takes plain kernels.
    Emulator::installed().unwrap().reset(Options { cublaslt: false, ..Options::of("sm_75") }).unwrap();
    let Some(old) = common::device(Options::default()) else { return };
    check(old, ConvRole::Forward, 0);
    let texts = old.backend().downcast::<CudaBackend>().map(CudaBackend::texts).unwrap_or_default();
    assert!(texts.iter().any(|t| t.contains("row_at7")) && !texts.iter().any(|t| t.contains("mma.sync")), "no plain kernel ran");
    assert!(findings().is_empty());
}
