//! Kernels of the matrix unit against their plain twins: the same steps over the same numbers, once with the unit and once without.
//! All of one way are compiled together.
use super::{Differs, decoded, encoded, first, rounding};
use crate::{launch::Launches, memory::DeviceBlock, opened::Opened};
use adamant_kernels::{Array, Work, skeleton};
use adamant_runtime::{
    DType, ErrorKind, Shape,
    backend::Queue,
    composite::attention::{Attention, AttentionBackward},
    kernel::{Kernel, KernelKind},
    op::{ConvRole, ConvSpec},
};
use smallvec::smallvec;
use std::sync::Arc;

/// A tensor of some steps: given, or what one of them gives.
struct TwinTensor {
    name: &'static str,
    shape: Shape,
    dtype: DType,
    is_given: bool,
}
/// A step: what it runs, and the places of what it reads and gives among the tensors.
struct TwinStep {
    kernel: KernelKind,
    reads: &'static [usize],
    gives: &'static [usize],
}
/// Steps, each of which may read what those before it give.
struct Twins {
    tensors: Vec<TwinTensor>,
    steps: Vec<TwinStep>,
}
const SHORT: [DType; 2] = [DType::F16, DType::BF16];

/// How attention, or its backward, differs.
///
/// # Errors
/// A lost device, memory.
pub(super) fn attention_differs(opened: &Arc<Opened>) -> Result<Differs, ErrorKind> {
    first(SHORT.into_iter(), |dtype| {
        let rows =
            |name, count: usize, is_given| -> Result<TwinTensor, ErrorKind> { Ok(TwinTensor { name, shape: Shape::new(&[2, count, 32])?, dtype, is_given }) };
        let logarithms = TwinTensor { name: "logarithms", shape: Shape::new(&[2, 72, 1])?, dtype: DType::F32, is_given: false };
        let tensors = vec![
            rows("queries", 72, true)?,
            rows("keys", 40, true)?,
            rows("values", 40, true)?,
            rows("attention", 72, false)?,
            logarithms,
            rows("cotangent", 72, true)?,
            rows("the queries' cotangent", 72, false)?,
            rows("the keys' cotangent", 40, false)?,
            rows("the values' cotangent", 40, false)?,
        ];
        let forward = Attention { scale: 0.25, causal: false, mask: false, dropout: 0.0 };
        let backward = AttentionBackward { forward, with_lse: false };
        let steps = vec![
            TwinStep { kernel: KernelKind::Composite(Arc::new(forward)), reads: &[0, 1, 2], gives: &[3, 4] },
            TwinStep { kernel: KernelKind::Composite(Arc::new(backward)), reads: &[5, 0, 1, 2, 3, 4], gives: &[6, 7, 8] },
        ];
        Twins { tensors, steps }.differ(opened)
    })
}
/// How a convolution in one of its roles differs.
///
/// # Errors
/// A lost device, memory.
pub(super) fn convolutions_differ(opened: &Arc<Opened>) -> Result<Differs, ErrorKind> {
    first(SHORT.into_iter(), |dtype| {
        let of = |name, shape: [usize; 4], is_given| -> Result<TwinTensor, ErrorKind> { Ok(TwinTensor { name, shape: Shape::new(&shape)?, dtype, is_given }) };
        let (x, w, y) = ([2, 16, 6, 5], [24, 16, 3, 3], [2, 24, 6, 5]);
        let tensors = vec![
            of("images", x, true)?,
            of("kernels", w, true)?,
            of("cotangent", y, true)?,
            of("a convolution", y, false)?,
            of("the images' cotangent", x, false)?,
            of("the kernels' cotangent", w, false)?,
        ];
        let conv = |role, open: &[usize]| {
            let padding = smallvec![(1, 1), (1, 1)];
            let spec = ConvSpec { role, stride: smallvec![1, 1], padding, dilation: smallvec![1, 1], groups: 1, open: open.into() };
            KernelKind::Conv(Arc::new(spec))
        };
        let steps = vec![
            TwinStep { kernel: conv(ConvRole::Forward, &[]), reads: &[0, 1], gives: &[3] },
            TwinStep { kernel: conv(ConvRole::InputGrad, &x[2..]), reads: &[2, 1], gives: &[4] },
            TwinStep { kernel: conv(ConvRole::WeightGrad, &w[2..]), reads: &[0, 2], gives: &[5] },
        ];
        Twins { tensors, steps }.differ(opened)
    })
}
impl Twins {
    /// How what the steps give with the unit differs from what they give without.
    fn differ(&self, opened: &Arc<Opened>) -> Result<Differs, ErrorKind> {
        let [unit, plain] = [self.run(opened, false)?, self.run(opened, true)?];
        let given = self.tensors.iter().zip(unit.iter().zip(&plain)).filter(|(t, _)| !t.is_given);
        Ok(given.into_iter().find_map(|(tensor, (unit, plain))| {
            let largest = plain.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            // Factors that are rounded on their way to the unit are sums' terms: some roundings of the largest.
            let near = 6.0 * if tensor.dtype.size() == 2 { rounding(tensor.dtype) } else { rounding(DType::F16) } * largest;
            let differing = unit.iter().zip(plain).enumerate().find(|(_, (is, expected))| (*is - *expected).is_nan() || (*is - *expected).abs() > near);
            differing.map(|(at, (is, expected))| format!("{} of {} is {is} at element {at}, and not {expected}", tensor.name, tensor.dtype))
        }))
    }
    /// The elements of all tensors.
    fn run(&self, opened: &Arc<Opened>, is_plain: bool) -> Result<Vec<Vec<f64>>, ErrorKind> {
        let bytes = |t: &TwinTensor| t.shape.elements() * t.dtype.size();
        let blocks = self.tensors.iter().map(|t| DeviceBlock::new(opened, bytes(t))).collect::<Result<Vec<_>, _>>()?;
        for (k, (tensor, block)) in self.tensors.iter().zip(&blocks).enumerate().filter(|(_, (t, _))| t.is_given) {
            let numbers: Vec<f64> = (0..tensor.shape.elements()).map(|at| ((at * 37 + at / 7 + 5 * k) % 33) as f64 / 16.0 - 1.0).collect();
            opened.copy_in(Queue::Compute, block.address, &encoded(tensor.dtype, &numbers), &[])?;
        }
        let buffers: Vec<(usize, u64)> = blocks.iter().enumerate().map(|(k, b)| (k, b.address)).collect();
        let array = |k: &usize| {
            let tensor = self.tensors.get(*k)?;
            Some(Array { buffer: *k, shape: tensor.shape, offset: 0, strides: tensor.shape.strides(), dtype: tensor.dtype, dense: true })
        };
        let kernels: Vec<Kernel> = self.steps.iter().map(|s| Kernel::new(s.kernel.clone())).collect();
        let mut launches = Launches::new(opened);
        launches.is_plain = is_plain;
        for (step, kernel) in self.steps.iter().zip(&kernels) {
            let [inputs, outputs] = [step.reads, step.gives].map(|of| of.iter().filter_map(array).collect::<Vec<_>>());
            launches.begin_at(kernel, &buffers);
            let space = outputs.first().map_or(Shape::SCALAR, |o| o.shape);
            skeleton::record(&mut launches, &kernel.kind, &Work { space, inputs: &inputs, outputs: &outputs, args: &[] })?;
        }
        let event = launches.run(Queue::Compute, &[])?;
        opened.wait(event)?;
        let read = |(tensor, block): (&TwinTensor, &DeviceBlock)| {
            let mut held = vec![0; bytes(tensor)];
            opened.copy_out(Queue::Compute, block.address, held.len(), &[])?.finish(&mut held)?;
            Ok(decoded(tensor.dtype, &held))
        };
        self.tensors.iter().zip(&blocks).map(read).collect()
    }
}
