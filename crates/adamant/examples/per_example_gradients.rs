//! The gradient of each of 256 examples by the weights of the digits CNN: `vmap` of `grad` beside a loop of 256 `grad`s. The
//! two are compared element by element before they are timed, in turn.
//!
//!     cargo run --release -p adamant --example per_example_gradients
use adamant::{
    DType, Device, Error, ErrorKind, Result, Rng, Tensor,
    functional::{ConvOptions, CrossEntropyOptions, MaxPoolOptions, Padding, conv2d, cross_entropy, linear, max_pool2d},
    transform::{Vmap, grad, vmap_with},
};
use std::time::{Duration, Instant};

const EXAMPLES: usize = 256;
const TURNS: usize = 7;

/// Weights and biases of two convolutions and two dense layers, as in `examples/digits`.
type Weights = [Tensor; 8];
fn weights(rng: &Rng) -> Weights {
    let drawn = |shape: &[usize]| {
        let fan_in: usize = shape[1..].iter().product();
        Tensor::randn(shape, rng) * (1.0 / fan_in.max(1) as f64).sqrt()
    };
    let zeros = |n: usize| Tensor::zeros([n]);
    [drawn(&[32, 1, 3, 3]), zeros(32), drawn(&[64, 32, 3, 3]), zeros(64), drawn(&[128, 1024]), zeros(128), drawn(&[10, 128]), zeros(10)]
}
/// The loss of one image `[1, 8, 8]` with its class.
fn loss(w: &Weights, image: &Tensor, class: &Tensor) -> Tensor {
    let same = ConvOptions { padding: Padding::Zeros(1.into()), ..ConvOptions::default() };
    let x = conv2d(&image.unsqueeze(0), &w[0], Some(&w[1]), &same).relu();
    let x = conv2d(&x, &w[2], Some(&w[3]), &same).relu();
    let x = max_pool2d(&x, &MaxPoolOptions::new(2)).0.reshape([1, 1024]);
    let x = linear(&x, &w[4], Some(&w[5])).relu();
    let logits = linear(&x, &w[6], Some(&w[7]));
    cross_entropy(&logits, &class.unsqueeze(0), &CrossEntropyOptions::default())
}
fn stacked(w: &Weights, images: &Tensor, classes: &Tensor) -> Result<Vec<Tensor>> {
    let each = vmap_with(|(image, class): (Tensor, Tensor)| grad(|w: Weights| loss(&w, &image, &class))(w.clone()), Vmap::default());
    let all = each((images.clone(), classes.clone()));
    all.iter().try_for_each(Tensor::materialize)?;
    Ok(all.into())
}
fn looped(w: &Weights, images: &Tensor, classes: &Tensor) -> Result<Vec<Vec<Tensor>>> {
    let one = |k: usize| -> Result<Vec<Tensor>> {
        let (image, class) = (images.select(0, k as isize), classes.select(0, k as isize));
        let gradients = grad(|w: Weights| loss(&w, &image, &class))(w.clone());
        gradients.iter().try_for_each(Tensor::materialize)?;
        Ok(gradients.into())
    };
    (0..EXAMPLES).map(one).collect()
}
/// How far apart the two lie at most, relative to the largest element of each weight's gradients.
fn apart(stacked: &[Tensor], looped: &[Vec<Tensor>]) -> Result<f32> {
    let mut most = 0.0f32;
    for (k, stack) in stacked.iter().enumerate() {
        let one_by_one = Tensor::stack(&looped.iter().map(|g| &g[k]).collect::<Vec<_>>(), 0);
        let scale = one_by_one.abs().amax(..).item::<f32>()?;
        most = most.max((stack - &one_by_one).abs().amax(..).item::<f32>()? / scale);
    }
    Ok(most)
}

fn main() -> Result<()> {
    let device = Device::current()?;
    let rng = Rng::new(1)?;
    let w = weights(&rng);
    let images = rng.uniform([EXAMPLES, 1, 8, 8], DType::F32);
    let classes = (rng.uniform([EXAMPLES], DType::F32) * 10.0).cast(DType::I64);
    for t in w.iter().chain([&images, &classes]) {
        t.materialize()?;
    }
    let difference = apart(&stacked(&w, &images, &classes)?, &looped(&w, &images, &classes)?)?;
    println!("{device}: gradients of {EXAMPLES} examples, largest difference {difference:.1e} of the largest element");
    if !difference.is_finite() || difference > 1e-5 {
        return Err(Error::new("per_example_gradients", ErrorKind::Internal("vmap of grad and the loop differ".into())));
    }
    let (mut one_run, mut one_by_one) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        for (times, is_stacked) in [(&mut one_run, true), (&mut one_by_one, false)] {
            let begun = Instant::now();
            if is_stacked {
                drop(stacked(&w, &images, &classes)?);
            } else {
                drop(looped(&w, &images, &classes)?);
            }
            times.push(begun.elapsed());
        }
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e3
    };
    let (stacked, looped) = (median(&mut one_run), median(&mut one_by_one));
    println!("vmap of grad: {stacked:>8.1} ms\nloop of grad: {looped:>8.1} ms\n{:.1} times as fast", looped / stacked);
    Ok(())
}
