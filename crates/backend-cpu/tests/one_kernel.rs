//! ResNet-18 in evaluation mode: one kernel for each convolution, with its normalisation, activation and residual inside, and
//! the bits of the ops apart.
use adamant_backend_cpu::{Context, CpuBackend, trace::trace};
use adamant_core::{
    Result, Tensor,
    functional::{ConvOptions, MaxPoolOptions, batch_norm_inference, conv2d, linear, max_pool2d},
    no_grad,
    schedule::take_stats,
    with_eager,
};

/// Numbers of one sign or both, the same at every call.
fn numbers(shape: &[usize], seed: u64, low: f32, high: f32) -> Tensor {
    let n: usize = shape.iter().product();
    let unit = |k: u64| ((k + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(seed.wrapping_mul(0xD1B5_4A32_D192_ED03)) >> 40) as f32 / (1u64 << 24) as f32;
    Tensor::from_vec((0..n as u64).map(|k| low + (high - low) * unit(k)).collect::<Vec<f32>>(), shape)
}
struct Normed {
    weight: Tensor,
    norm: [Tensor; 4],
    options: ConvOptions,
}
impl Normed {
    fn new(from: usize, to: usize, kernel: usize, stride: usize, seed: u64) -> Normed {
        let bound = (6.0 / (from * kernel * kernel) as f32).sqrt();
        let channels = |k: u64, low, high| numbers(&[to], seed * 10 + k, low, high);
        Normed {
            weight: numbers(&[to, from, kernel, kernel], seed, -bound, bound),
            norm: [channels(1, -0.1, 0.1), channels(2, 0.5, 1.5), channels(3, 0.8, 1.2), channels(4, -0.2, 0.2)],
            options: ConvOptions { stride: stride.into(), padding: (kernel / 2).into(), ..ConvOptions::default() },
        }
    }
    fn of(&self, x: &Tensor) -> Tensor {
        let [mean, var, weight, bias] = &self.norm;
        batch_norm_inference(&conv2d(x, &self.weight, None, &self.options), mean, var, Some(weight), Some(bias), 1e-5)
    }
}
struct ResNet18 {
    stem: Normed,
    blocks: Vec<([Normed; 2], Option<Normed>)>,
    head: [Tensor; 2],
}
impl ResNet18 {
    fn new(width: usize) -> ResNet18 {
        let (mut blocks, mut from, mut seed) = (Vec::new(), width, 1);
        let mut normed = |from, to, kernel, stride| {
            seed += 1;
            Normed::new(from, to, kernel, stride, seed)
        };
        for (stage, first) in [1, 2, 2, 2].into_iter().enumerate() {
            let to = width << stage;
            for stride in [first, 1] {
                let shortcut = (stride != 1 || from != to).then(|| normed(from, to, 1, stride));
                blocks.push(([normed(from, to, 3, stride), normed(to, to, 3, 1)], shortcut));
                from = to;
            }
        }
        ResNet18 { stem: Normed::new(3, width, 7, 2, 99), blocks, head: [numbers(&[10, from], 7, -0.1, 0.1), numbers(&[10], 8, -0.1, 0.1)] }
    }
    fn convolutions(&self) -> u64 {
        1 + self.blocks.iter().map(|(_, shortcut)| 2 + shortcut.is_some() as u64).sum::<u64>()
    }
    fn of(&self, x: &Tensor) -> Tensor {
        let pool = MaxPoolOptions { stride: Some(2.into()), padding: 1.into(), ..MaxPoolOptions::new(3) };
        let mut x = max_pool2d(&self.stem.of(x).relu(), &pool).0;
        for ([first, second], shortcut) in &self.blocks {
            let y = second.of(&first.of(&x).relu());
            let identity = shortcut.as_ref().map_or_else(|| x.clone(), |s| s.of(&x));
            x = (y + identity).relu();
        }
        linear(&x.mean([2, 3]), &self.head[0], Some(&self.head[1]))
    }
}

#[test]
fn each_convolution_of_resnet18_is_one_kernel_in_evaluation_mode() -> Result<()> {
    Context::new(CpuBackend::builder().threads(2))?.run(|| {
        for (batch, side) in [(1, 64), (3, 40)] {
            let net = ResNet18::new(8);
            let x = numbers(&[batch, 3, side, side], 5, -1.0, 1.0);
            let apart = with_eager(true, || no_grad(|| net.of(&x).to_vec::<f32>()))?;
            take_stats();
            let (fused, ran) = trace(|| no_grad(|| net.of(&x).to_vec::<f32>()));
            let (fused, kernels) = (fused?, take_stats().kernels);
            assert!(fused.iter().zip(&apart).all(|(a, b)| a.to_bits() == b.to_bits()) && fused.iter().any(|v| *v != fused[0]));
            let of = |family: &str| ran.iter().filter(|r| r.kernel == family).count();
            let families: Vec<&str> = ran.iter().map(|r| r.kernel).collect();
            // Beside the convolutions: the pool, the mean (a sum and a quotient), the last layer.
            assert_eq!((net.convolutions(), of("conv")), (20, 20), "{families:?}");
            assert!(kernels <= net.convolutions() + 5 && of("map") <= 2, "batch {batch}: {kernels} kernels: {families:?}");
        }
        Ok(())
    })
}
