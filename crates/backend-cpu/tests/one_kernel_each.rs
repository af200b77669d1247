//! Drawn nets in evaluation mode: one kernel for each convolution, whatever stands behind it that is computed element by element
//! (normalisation, activation, residual before or after it, other branches), with the bits of the ops apart, recorded and compiled.
use adamant_backend_cpu::{Context, CpuBackend, trace::trace};
use adamant_core::{
    DType, Device, Result, Rng, Tensor, compile,
    functional::{ConvOptions, batch_norm_inference, conv2d},
    no_grad,
    schedule::take_stats,
    with_eager,
};

/// A generator of small numbers (Knuth's linear congruential one).
struct Draws(u64);
impl Draws {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
    fn flip(&mut self) -> bool {
        self.below(2) == 1
    }
    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}
type Activation = (&'static str, fn(&Tensor) -> Tensor);
const ACTIVATIONS: [Activation; 10] = [
    ("relu", Tensor::relu),
    ("silu", Tensor::silu),
    ("gelu", Tensor::gelu),
    ("relu6", Tensor::relu6),
    ("hardswish", Tensor::hardswish),
    ("sigmoid", Tensor::sigmoid),
    ("tanh", Tensor::tanh),
    ("mish", Tensor::mish),
    ("leaky_relu", |x| x.leaky_relu(0.1)),
    ("none", Tensor::clone),
];
/// A convolution with what stands behind it.
struct Unit {
    weight: Tensor,
    bias: Option<Tensor>,
    options: ConvOptions,
    norm: Option<[Tensor; 4]>,
    act: Activation,
}
fn numbers(rng: &Rng, shape: &[usize], low: f64, high: f64) -> Tensor {
    rng.uniform(shape, DType::F32) * (high - low) + low
}
fn norm(rng: &Rng, channels: usize) -> [Tensor; 4] {
    let of = |low, high| numbers(rng, &[channels], low, high);
    [of(-0.1, 0.1), of(0.5, 1.5), of(0.8, 1.2), of(-0.2, 0.2)]
}
fn normed(x: &Tensor, [mean, var, weight, bias]: &[Tensor; 4]) -> Tensor {
    batch_norm_inference(x, mean, var, Some(weight), Some(bias), 1e-5)
}
impl Unit {
    /// From so many channels to so many, with a window of `kernel`, in `groups`.
    fn new(d: &mut Draws, rng: &Rng, [from, to]: [usize; 2], kernel: usize, stride: usize, groups: usize) -> Unit {
        let bound = (3.0 / (from / groups * kernel * kernel) as f64).sqrt();
        let dilation = if kernel == 3 { d.of(&[1, 1, 2]) } else { 1 };
        let options = ConvOptions { stride: stride.into(), padding: (kernel / 2 * dilation).into(), dilation: dilation.into(), groups };
        Unit {
            weight: numbers(rng, &[to, from / groups, kernel, kernel], -bound, bound),
            bias: d.flip().then(|| numbers(rng, &[to], -0.1, 0.1)),
            options,
            norm: (d.below(4) > 0).then(|| norm(rng, to)),
            act: d.of(&ACTIVATIONS),
        }
    }
    /// Without its activation.
    fn linear(&self, x: &Tensor) -> Tensor {
        let y = conv2d(x, &self.weight, self.bias.as_ref(), &self.options);
        self.norm.as_ref().map_or(y.clone(), |n| normed(&y, n))
    }
    fn of(&self, x: &Tensor) -> Tensor {
        self.act.1(&self.linear(x))
    }
}
/// Where the residual is added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Residual {
    None,
    BeforeActivation,
    AfterActivation,
    /// before, on the other side of the sum
    First,
}
enum Block {
    /// Units one after the other (a plain one, a basic block, a bottleneck, an inverted bottleneck), and what is added.
    Chain(Vec<Unit>, Residual, Option<Unit>),
    /// Norm and activation before each convolution; where there is no shortcut of its own, what comes in is kept beside them.
    Before(Vec<([Tensor; 4], Activation, Unit)>, Option<Unit>),
    /// Branches that are added: two convolutions and a normalisation.
    Branches(Box<[Unit; 2]>, [Tensor; 4], Activation),
}
impl Block {
    fn draw(d: &mut Draws, rng: &Rng, from: usize) -> (Block, usize) {
        let (to, stride) = (d.of(&[8, 16, 24]), d.of(&[1, 1, 2]));
        let same = from == to && stride == 1;
        match d.below(6) {
            0 => {
                let kernel = d.of(&[1, 3, 5]);
                let groups = d.of(&[1, 1, 4, 8]);
                (Block::Chain(vec![Unit::new(d, rng, [from, to], kernel, stride, groups)], Residual::None, None), to)
            }
            kind @ (1..=3) => {
                let units = match kind {
                    1 => vec![Unit::new(d, rng, [from, to], 3, stride, 1), Unit::new(d, rng, [to, to], 3, 1, 1)],
                    // A bottleneck, whose middle has groups.
                    2 => {
                        let groups = d.of(&[1, 2, 8]);
                        vec![Unit::new(d, rng, [from, 8], 1, 1, 1), Unit::new(d, rng, [8, 8], 3, stride, groups), Unit::new(d, rng, [8, to], 1, 1, 1)]
                    }
                    // An inverted one, whose middle is depthwise.
                    _ => {
                        let kernel = d.of(&[3, 5]);
                        vec![Unit::new(d, rng, [from, 48], 1, 1, 1), Unit::new(d, rng, [48, 48], kernel, stride, 48), Unit::new(d, rng, [48, to], 1, 1, 1)]
                    }
                };
                let residual = d.of(&[Residual::None, Residual::BeforeActivation, Residual::AfterActivation, Residual::First]);
                let shortcut = (residual != Residual::None && !same).then(|| Unit::new(d, rng, [from, to], 1, stride, 1));
                (Block::Chain(units, residual, shortcut), to)
            }
            4 => {
                let one = |d: &mut Draws, from, to, stride| (norm(rng, from), d.of(&ACTIVATIONS[..9]), Unit::new(d, rng, [from, to], 3, stride, 1));
                let units = vec![one(d, from, to, stride), one(d, to, to, 1)];
                (Block::Before(units, (!same).then(|| Unit::new(d, rng, [from, to], 1, stride, 1))), to)
            }
            _ => {
                let act = d.of(&ACTIVATIONS);
                let branches = [Unit::new(d, rng, [from, from], 3, 1, 1), Unit::new(d, rng, [from, from], 1, 1, 1)];
                (Block::Branches(Box::new(branches), norm(rng, from), act), from)
            }
        }
    }
    fn of(&self, x: &Tensor) -> Tensor {
        match self {
            Block::Chain(units, residual, shortcut) => {
                let (last, before) = units.split_last().unwrap();
                let y = before.iter().fold(x.clone(), |x, u| u.of(&x));
                let identity = || shortcut.as_ref().map_or_else(|| x.clone(), |s| s.linear(x));
                match residual {
                    Residual::None => last.of(&y),
                    Residual::BeforeActivation => last.act.1(&(last.linear(&y) + identity())),
                    Residual::AfterActivation => last.of(&y) + identity(),
                    Residual::First => last.act.1(&(identity() + last.linear(&y))),
                }
            }
            Block::Before(units, shortcut) => {
                let (mut y, mut identity) = (x.clone(), None);
                for (n, act, unit) in units {
                    y = act.1(&normed(&y, n));
                    // The first version of what comes in that is ready for a convolution.
                    identity.get_or_insert_with(|| shortcut.as_ref().map_or_else(|| x.clone(), |s| s.linear(&y)));
                    y = conv2d(&y, &unit.weight, unit.bias.as_ref(), &unit.options);
                }
                y + identity.unwrap()
            }
            Block::Branches(branches, n, act) => act.1(&(branches[0].linear(x) + branches[1].linear(x) + normed(x, n))),
        }
    }
    fn convolutions(&self) -> usize {
        match self {
            Block::Chain(units, _, shortcut) => units.len() + usize::from(shortcut.is_some()),
            Block::Before(units, shortcut) => units.len() + usize::from(shortcut.is_some()),
            Block::Branches(..) => 2,
        }
    }
    /// The most kernels beside the convolutions. A sum that a normalisation and a later sum read is computed by one and the
    /// normalisation by another; branches, and a normalisation behind a sum of them, may read more values than one kernel does.
    fn maps(&self) -> usize {
        match self {
            Block::Before(_, None) => 2,
            Block::Branches(..) | Block::Before(_, Some(_)) => 1,
            _ => 0,
        }
    }
    fn told(&self) -> String {
        let unit = |u: &Unit| format!("{:?}/{} {}{}", u.weight.shape().unwrap(), u.options.groups, u.act.0, if u.norm.is_some() { " normed" } else { "" });
        match self {
            Block::Chain(units, residual, s) => format!("chain [{}] {residual:?} {}", units.iter().map(unit).collect::<Vec<_>>().join(", "), s.is_some()),
            Block::Before(units, s) => {
                format!("before [{}] {}", units.iter().map(|(_, a, u)| format!("{} {}", a.0, unit(u))).collect::<Vec<_>>().join(", "), s.is_some())
            }
            Block::Branches(branches, _, act) => format!("branches {} + {} {}", unit(&branches[0]), unit(&branches[1]), act.0),
        }
    }
}
struct Net(Unit, Vec<Block>);
impl Net {
    fn draw(seed: u64, blocks: usize) -> Result<Net> {
        let (mut d, rng) = (Draws(seed), Rng::new(seed)?);
        let stem = Unit::new(&mut d, &rng, [3, 16], 3, 2, 1);
        let (mut all, mut from) = (Vec::new(), 16);
        for _ in 0..blocks {
            let (block, to) = Block::draw(&mut d, &rng, from);
            all.push(block);
            from = to;
        }
        Ok(Net(stem, all))
    }
    fn of(&self, x: &Tensor) -> Tensor {
        self.1.iter().fold(self.0.of(x), |x, block| block.of(&x))
    }
    fn convolutions(&self) -> usize {
        1 + self.1.iter().map(Block::convolutions).sum::<usize>()
    }
    fn maps(&self) -> usize {
        self.1.iter().map(Block::maps).sum()
    }
    fn told(&self) -> String {
        self.1.iter().map(|b| b.told()).collect::<Vec<_>>().join("\n  ")
    }
}
/// What is wrong with a net, in words: bits, or kernels beside those that are its due.
fn wrong(net: &Net, x: &Tensor, device: Device) -> Result<Option<String>> {
    let plain = |x: &Tensor| net.of(x).to_vec::<f32>();
    let apart = with_eager(true, || no_grad(|| plain(x)))?;
    let compiled = compile(|x: &[Tensor]| Ok(vec![net.of(&x[0])]));
    let replayed = || compiled.call(&[x])?[0].to_vec::<f32>();
    no_grad(replayed)?;
    for (how, run) in [("recorded", &plain as &dyn Fn(&Tensor) -> Result<Vec<f32>>), ("compiled", &|_| replayed())] {
        device.synchronize()?;
        take_stats();
        let (fused, ran) = trace(|| no_grad(|| run(x)));
        let (fused, stats) = (fused?, take_stats());
        if fused.len() != apart.len() || fused.iter().zip(&apart).any(|(a, b)| a.to_bits() != b.to_bits()) {
            return Ok(Some(format!("{how}: other bits than the ops apart")));
        }
        let families: Vec<&str> = ran.iter().map(|r| r.kernel).collect();
        let convs = families.iter().filter(|f| **f == "conv").count();
        if convs != net.convolutions() || stats.kernels as usize > convs + net.maps() {
            return Ok(Some(format!("{how}: {} kernels, {} convolutions, {} due beside them: {families:?}", stats.kernels, net.convolutions(), net.maps())));
        }
    }
    Ok(None)
}

#[test]
fn a_drawn_net_has_kernels_beside_its_convolutions() -> Result<()> {
    let context = Context::new(CpuBackend::builder().threads(2))?;
    let device = context.device();
    let nets = std::env::var("ADAMANT_NETS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    context.run(|| {
        let (mut all, mut convolutions) = (Vec::new(), 0);
        for seed in 0..nets {
            let net = Net::draw(seed, 1 + seed as usize % 4)?;
            let x = numbers(&Rng::new(seed + 1000)?, &[1 + seed as usize % 2, 3, 20, 20], -1.0, 1.0);
            x.materialize()?;
            convolutions += net.convolutions();
            if let Some(why) = wrong(&net, &x, device)? {
                all.push(format!("net {seed}: {why}\n  {}", net.told()));
            }
        }
        println!("{nets} nets, {convolutions} convolutions, {} wrong", all.len());
        assert!(all.is_empty(), "{} of {nets} nets:\n{}", all.len(), all.join("\n"));
        Ok(())
    })
}
/// The judge can fail: where each op runs by itself there are kernels beside the convolutions.
#[test]
fn kernels_that_stay_apart_are_overlooked() -> Result<()> {
    let context = Context::new(CpuBackend::builder().threads(2))?;
    let device = context.device();
    context.run(|| {
        let net = Net::draw(3, 3)?;
        let x = numbers(&Rng::new(1)?, &[1, 3, 20, 20], -1.0, 1.0);
        x.materialize()?;
        let found = adamant_core::with_window(2, || wrong(&net, &x, device))?;
        assert!(found.is_some_and(|why| why.contains("recorded")), "windows of two ops");
        Ok(())
    })
}
