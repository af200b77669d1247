//! The families of kernels that a backend need not have, run by core from the others: on the CPU backend with its own scans,
//! sorts, convolutions and windows hidden, beside the same backend with them, each against the reference.
use adamant::{
    Arg, DType, Device, ErrorKind, HostArray, HostVec, Op, Origin, Shape, Tensor,
    backend::{Backend, DeviceInfo, Memory, Support},
    cpu::{Context, CpuBackend},
    kernel::{KernelKind, Step},
    op::{ArgOp, ConvRole, ConvSpec, ScanOp, WindowOp, WindowSpec},
};
use adamant_conformance::{
    data::{Spread, download, draw, upload},
    random::Random,
    tolerance,
};
use smallvec::SmallVec;
use std::any::Any;

/// The CPU with six families, which refuses to run what it has not claimed.
struct Six(CpuBackend);
fn is_one_of_six(kernel: &KernelKind) -> bool {
    use KernelKind::*;
    matches!(kernel, Map { .. } | Copy | Reduce { .. } | Matmul | Primitive(Op::Gather { .. }) | Scatter { .. })
}
impl Backend for Six {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }
    fn supports(&self, kernel: &KernelKind, dtypes: &[DType]) -> Support {
        if is_one_of_six(kernel) { self.0.supports(kernel, dtypes) } else { Support::No }
    }
    fn alloc(&self, bytes: usize) -> Result<Box<dyn Memory>, ErrorKind> {
        self.0.alloc(bytes)
    }
    fn adopt(&self, data: HostVec) -> Result<Box<dyn Memory>, ErrorKind> {
        self.0.adopt(data)
    }
    fn upload(&self, to: &mut dyn Memory, offset: usize, from: &[u8]) -> Result<(), ErrorKind> {
        self.0.upload(to, offset, from)
    }
    fn download(&self, from: &dyn Memory, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
        self.0.download(from, offset, to)
    }
    fn submit(&self, steps: &[Step<'_>]) -> Result<(), ErrorKind> {
        match steps.iter().find(|s| !is_one_of_six(&s.kernel.kind)) {
            Some(step) => Err(ErrorKind::Internal(format!("{} was submitted", step.kernel.kind.family()))),
            None => self.0.submit(steps),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
/// The CPU with six families, and with all.
fn devices() -> [Device; 2] {
    let six = CpuBackend::builder().threads(1).build().unwrap();
    [Device::from_backend(Box::new(Six(six))), Context::new(CpuBackend::builder().threads(1)).unwrap().device()]
}

fn check(op: Op, shapes: &[&[usize]], dtype: DType, spread: Spread) {
    let inputs: Vec<HostArray> = shapes.iter().zip(1..).map(|(s, k)| draw(Shape::new(s).unwrap(), dtype, spread, &mut Random::new(0x10E + k))).collect();
    for device in devices() {
        let x: Vec<Tensor> = inputs.iter().map(|a| upload(a, device)).collect();
        let got = device.scoped(|| Tensor::apply_many(op.clone(), Arg::None, &x.iter().collect::<Vec<_>>(), Origin::here()));
        let got: Result<Vec<HostArray>, _> = got.iter().map(download).collect();
        let right = got.map_err(|e| e.to_string()).and_then(|got| tolerance::check(&op, Arg::None, &inputs, &got));
        right.unwrap_or_else(|why| panic!("{op:?} of {dtype} {shapes:?} on {device}: {why}"));
    }
}
const NUMBERS: [DType; 4] = [DType::F32, DType::BF16, DType::U8, DType::I64];

#[test]
fn indices_of_extremes() {
    for dtype in NUMBERS.into_iter().chain([DType::Bool]) {
        for (shape, axis) in [(&[4][..], 0), (&[1], 0), (&[3, 5, 2], 1), (&[2, 0, 3], 2), (&[1, 1, 2, 1, 1, 2, 1, 3], 7)] {
            for op in [ArgOp::Max, ArgOp::Min] {
                check(Op::ArgReduce { op, axis }, &[shape], dtype, Spread::Special);
            }
        }
    }
}
#[test]
fn running_combinations() {
    for (shape, axis) in [(&[1][..], 0), (&[7], 0), (&[8, 2], 0), (&[3, 9], 1), (&[2, 0], 1), (&[0, 3], 1)] {
        for reverse in [false, true] {
            for op in [ScanOp::Sum, ScanOp::Prod, ScanOp::Max, ScanOp::Min] {
                for dtype in NUMBERS.into_iter().chain([DType::Bool]) {
                    check(Op::Scan { op, axis, reverse }, &[shape], dtype, Spread::Special);
                }
            }
            for dtype in [DType::F32, DType::BF16, DType::F64] {
                check(Op::Scan { op: ScanOp::LinearRecurrence, axis, reverse }, &[shape, shape], dtype, Spread::Coarse);
            }
        }
    }
}
#[test]
fn sorts_that_are_stable_with_ties_and_nan() {
    for n in [0, 1, 2, 3, 7, 8, 9, 33] {
        for descending in [false, true] {
            for dtype in NUMBERS.into_iter().chain([DType::Bool, DType::F16]) {
                for spread in [Spread::Special, Spread::Coarse] {
                    check(Op::Sort { axis: 1, descending }, &[&[3, n, 2]], dtype, spread);
                }
            }
        }
    }
    check(Op::Sort { axis: 0, descending: false }, &[&[5, 1, 2, 1, 1, 2, 1, 1]], DType::F32, Spread::Coarse);
    check(Op::Sort { axis: 0, descending: false }, &[&[5, 0]], DType::F32, Spread::Coarse);
}
/// How a window slides along one axis: of how many elements, how large, in steps of, padded by, how far apart inside.
const SLIDES: [(usize, usize, usize, (usize, usize), usize); 9] = [
    (5, 3, 1, (0, 0), 1),
    (5, 3, 1, (1, 1), 1),
    (6, 2, 2, (0, 0), 1),
    (7, 3, 2, (1, 0), 2),
    (4, 1, 3, (0, 0), 1),
    (2, 2, 9, (0, 1), 1),
    (1, 1, 1, (0, 0), 1),
    (9, 2, 3, (0, 2), 3),
    (8, 4, 1, (2, 1), 1),
];
type Slide = (usize, usize, usize, (usize, usize), usize);
/// Every slide alone, then two and three of them together.
fn slides() -> impl Iterator<Item = Vec<Slide>> {
    let one = SLIDES.iter().map(|s| vec![*s]);
    let two = (0..9).map(|k| vec![SLIDES[k], SLIDES[(k * 4 + 1) % 9]]);
    one.chain(two).chain((0..3).map(|k| vec![SLIDES[k], SLIDES[k + 3], SLIDES[k + 5]]))
}
fn of<T>(slides: &[Slide], part: impl Fn(&Slide) -> T) -> Vec<T> {
    slides.iter().map(part).collect()
}
fn stops(&(size, window, stride, (lo, hi), dilation): &Slide) -> usize {
    adamant::op::window_size(size, window, stride, (lo, hi), dilation).unwrap()
}
#[test]
fn convolutions_in_their_three_roles() {
    // More padding than the window reaches: some stops see nothing.
    let wide = [vec![(2, 1, 10, (3, 0), 1)], vec![(3, 2, 2, (5, 4), 1)]];
    for s in slides().chain(wide) {
        for (n, groups, ci, co) in [(2, 1, 2, 3), (1, 2, 1, 2), (0, 1, 1, 1)] {
            let spec = |role, open: Vec<usize>| {
                let (stride, padding, dilation) = (of(&s, |s| s.2), of(&s, |s| s.3), of(&s, |s| s.4));
                Op::Conv(std::sync::Arc::new(ConvSpec {
                    role,
                    stride: SmallVec::from_vec(stride),
                    padding: SmallVec::from_vec(padding),
                    dilation: SmallVec::from_vec(dilation),
                    groups,
                    open: SmallVec::from_vec(open),
                }))
            };
            let (input, kernel) = (of(&s, |s| s.0), of(&s, |s| s.1));
            let x = [vec![n, groups * ci], input.clone()].concat();
            let w = [vec![groups * co, ci], kernel.clone()].concat();
            let y = [vec![n, groups * co], of(&s, stops)].concat();
            for dtype in [DType::F32, DType::F16] {
                check(spec(ConvRole::Forward, Vec::new()), &[&x, &w], dtype, Spread::Coarse);
                check(spec(ConvRole::InputGrad, input.clone()), &[&y, &w], dtype, Spread::Coarse);
                check(spec(ConvRole::WeightGrad, kernel.clone()), &[&x, &y], dtype, Spread::Coarse);
            }
        }
    }
}
#[test]
fn windows_of_maxima_and_sums() {
    for s in slides() {
        for lead in [&[][..], &[2], &[2, 1, 3], &[0, 2], &[1, 2, 1, 1, 2]] {
            let spec = |op, open: Vec<usize>| {
                let (size, stride, padding, dilation) = (of(&s, |s| s.1), of(&s, |s| s.2), of(&s, |s| s.3), of(&s, |s| s.4));
                Op::Window(std::sync::Arc::new(WindowSpec {
                    op,
                    size: SmallVec::from_vec(size),
                    stride: SmallVec::from_vec(stride),
                    padding: SmallVec::from_vec(padding),
                    dilation: SmallVec::from_vec(dilation),
                    open: SmallVec::from_vec(open),
                }))
            };
            let input = of(&s, |s| s.0);
            let (x, y) = ([lead, &input].concat(), [lead, &of(&s, stops)].concat());
            for dtype in [DType::F32, DType::F16, DType::I8] {
                // Only a padding of at most half of the reach goes with a maximum.
                if s.iter().all(|&(_, window, stride, (lo, hi), dilation)| 2 * lo <= dilation * (window - 1) + 1 && hi < dilation * (window - 1) + 1 + stride) {
                    check(spec(WindowOp::Max, Vec::new()), &[&x], dtype, Spread::Special);
                }
                check(spec(WindowOp::Sum, Vec::new()), &[&x], dtype, Spread::Coarse);
                check(spec(WindowOp::SumTransposed, input.clone()), &[&y], dtype, Spread::Coarse);
            }
        }
    }
}
