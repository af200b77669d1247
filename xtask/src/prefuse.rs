//! `cargo xtask prefuse`: writes the loops that the CPU backend compiles ahead (`backend-cpu/src/map/prefused/table.rs`).
//!
//! A backend that lists what it is given runs optimizer steps, gradients of activations and losses, and training steps of
//! the layers; each program of f32 becomes a loop. `--check`, as a test here, only says whether the table is up to date.
use crate::{exit::Exit, workspace};
use adamant::{
    DType, Device, Error, ErrorKind, HostVec, Result, Tensor,
    backend::{Backend, DeviceInfo, Memory, Support},
    cpu::{CpuBackend, signature},
    functional::{self, AttentionOptions},
    kernel::{KernelKind, Step},
    nn::{self, Module, Param, Walk},
    optim::{self, Optimizer, UpdateRule},
};
use parking_lot::Mutex;
use std::{any::Any, collections::BTreeMap, fmt::Write as _, sync::Arc};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// Writes nothing; exit code 1 if the table is not what it should be
    #[arg(long)]
    pub check: bool,
}
/// Runs the chore.
pub fn run(options: &Options) -> Exit {
    let path = workspace::root().join("crates/backend-cpu/src/map/prefused/table.rs");
    let table = match collect() {
        Ok(programs) => table(&programs),
        Err(e) => {
            eprintln!("error: {e}");
            return Exit::Failed;
        }
    };
    let count = table.matches("\n    L").count();
    if options.check {
        let is_same = std::fs::read_to_string(&path).is_ok_and(|old| old == table);
        eprintln!("{}", if is_same { format!("{count} loops, up to date") } else { "the table is not up to date: run `cargo xtask prefuse`".into() });
        return if is_same { Exit::Passed } else { Exit::Failed };
    }
    match std::fs::write(&path, &table) {
        Ok(()) => {
            println!("{count} loops written to {}", path.display());
            Exit::Passed
        }
        Err(e) => {
            eprintln!("error: {}: {e}", path.display());
            Exit::Unreadable
        }
    }
}

/// Programs by signature, with what made them first.
type Programs = BTreeMap<String, &'static str>;

/// The CPU backend, with a list of the programs it ran.
struct Listing {
    inner: CpuBackend,
    seen: Arc<Mutex<(&'static str, Programs)>>,
}
impl Backend for Listing {
    fn updates_in_place(&self) -> bool {
        true
    }
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }
    fn supports(&self, kernel: &KernelKind, dtypes: &[DType]) -> Support {
        self.inner.supports(kernel, dtypes)
    }
    fn alloc(&self, bytes: usize) -> std::result::Result<Box<dyn Memory>, ErrorKind> {
        self.inner.alloc(bytes)
    }
    fn adopt(&self, data: HostVec) -> std::result::Result<Box<dyn Memory>, ErrorKind> {
        self.inner.adopt(data)
    }
    fn upload(&self, to: &mut dyn Memory, offset: usize, from: &[u8]) -> std::result::Result<(), ErrorKind> {
        self.inner.upload(to, offset, from)
    }
    fn download(&self, from: &dyn Memory, offset: usize, to: &mut [u8]) -> std::result::Result<(), ErrorKind> {
        self.inner.download(from, offset, to)
    }
    fn submit(&self, steps: &[Step<'_>]) -> std::result::Result<(), ErrorKind> {
        for step in steps {
            let found = match &step.kernel.kind {
                KernelKind::Map { expr, outputs } => signature(expr, outputs),
                KernelKind::Reduce { expr, value, .. } => signature(expr, &[*value]),
                _ => None,
            };
            if let Some(text) = found {
                let mut seen = self.seen.lock();
                let by = seen.0;
                seen.1.entry(text).or_insert(by);
            }
        }
        self.inner.submit(steps)
    }
    fn as_any(&self) -> &dyn Any {
        self.inner.as_any()
    }
}

/// The programs of everything below.
fn collect() -> Result<Programs> {
    let seen: Arc<Mutex<(&'static str, Programs)>> = Arc::default();
    let inner = CpuBackend::builder().threads(1).build().map_err(|kind| Error::new("prefuse", kind))?;
    let device = Device::from_backend(Box::new(Listing { inner, seen: seen.clone() }));
    device.scoped(|| {
        let mut from = |name: &'static str, f: &mut dyn FnMut() -> Result<()>| {
            seen.lock().0 = name;
            f()
        };
        optimizers(&mut from)?;
        functions(&mut from)?;
        layers(&mut from)
    })?;
    Ok(std::mem::take(&mut seen.lock().1))
}
type From<'a> = dyn FnMut(&'static str, &mut dyn FnMut() -> Result<()>) -> Result<()> + 'a;

fn optimizers(from: &mut From<'_>) -> Result<()> {
    fn steps(rule: impl UpdateRule + 'static, clip: bool) -> Result<()> {
        let parameters = [Param::new(&Tensor::ones([8, 4]))?, Param::new(&Tensor::ones([4]))?];
        let mut optimizer = rule.over(parameters.iter().cloned());
        for _ in 0..3 {
            let loss = (parameters[0].get() * parameters[1].get()).square().sum(..);
            let mut grads = loss.backward()?;
            if clip {
                optim::clip_grad_norm(&mut grads, &parameters, 1.0)?;
            }
            optimizer.step(&grads)?;
        }
        Ok(())
    }
    for clip in [false, true] {
        for decay in [0.0, 0.1] {
            from("SGD", &mut || steps(optim::Sgd::new(0.1).weight_decay(decay), clip))?;
            from("SGD with momentum", &mut || steps(optim::Sgd::new(0.1).momentum(0.9).weight_decay(decay), clip))?;
            from("SGD with Nesterov's momentum", &mut || steps(optim::Sgd::new(0.1).momentum(0.9).nesterov(true).weight_decay(decay), clip))?;
            from("Adam", &mut || steps(optim::Adam::new(0.1).weight_decay(decay), clip))?;
            from("AdamW", &mut || steps(optim::AdamW::new(0.1).weight_decay(decay), clip))?;
            from("RMSprop", &mut || steps(optim::RmsProp::new(0.1).weight_decay(decay), clip))?;
            from("Adagrad", &mut || steps(optim::Adagrad::new(0.1).weight_decay(decay), clip))?;
        }
    }
    Ok(())
}
/// Three steps of a net whose output is compared with zeros.
fn train(net: &dyn Module, x: &Tensor, loss: &dyn Fn(&Tensor) -> Tensor) -> Result<()> {
    let parameters = net.parameters();
    let mut optimizer = optim::AdamW::new(1e-3).over(parameters.iter().cloned());
    for _ in 0..3 {
        let grads = loss(&net.forward(x)?).backward()?;
        if !parameters.is_empty() {
            optimizer.step(&grads)?;
        }
    }
    Ok(())
}
fn functions(from: &mut From<'_>) -> Result<()> {
    let x = Tensor::from_vec((0..24).map(|k| k as f32 * 0.25 - 3.0).collect(), [4, 6]);
    let square = |y: &Tensor| y.square().mean(..);
    let target = Tensor::full([4, 6], 0.25, DType::F32);
    macro_rules! activations {
        ($($name:ident)*) => { $(
            from(stringify!($name), &mut || {
                let net = nn::Sequential::new().add(nn::Linear::new(6, 6)?).add(nn::$name::default()).add(nn::Linear::new(6, 6)?);
                train(&net, &x, &square)
            })?;
        )* };
    }
    activations! { Relu Gelu Silu Sigmoid Tanh Softplus LeakyRelu Elu Hardswish Hardsigmoid Relu6 Mish LogSigmoid Softsign }
    from("GELU by tanh", &mut || {
        let (one, two) = (nn::Linear::new(6, 6)?, nn::Linear::new(6, 6)?);
        let mut optimizer = optim::AdamW::new(1e-3).over(one.parameters().into_iter().chain(two.parameters()));
        for _ in 0..3 {
            let y = two.forward(&one.forward(&x)?.gelu_tanh())?;
            optimizer.step(&square(&y).backward()?)?;
        }
        Ok(())
    })?;
    let (scale, shift) = (Tensor::full([6], 1.5, DType::F32), Tensor::full([6], 0.5, DType::F32));
    let activations: [(&'static str, fn(&Tensor) -> Tensor); 6] = [
        ("a scaled or shifted row and ReLU", Tensor::relu),
        ("a scaled or shifted row and GELU", Tensor::gelu),
        ("a scaled or shifted row and GELU by tanh", Tensor::gelu_tanh),
        ("a scaled or shifted row and SiLU", Tensor::silu),
        ("a scaled or shifted row and sigmoid", Tensor::sigmoid),
        ("a scaled or shifted row and tanh", Tensor::tanh),
    ];
    for (name, activation) in activations {
        // What a value is made of has no handle any more when it is evaluated, or it would be written too.
        let forms: [&dyn Fn() -> Tensor; 3] = [&|| activation(&(&x * &scale + &shift)), &|| activation(&(&x + &shift)), &|| activation(&x) * &target];
        for form in forms {
            from(name, &mut || form().materialize())?;
        }
    }
    // One by one: values that are held when another is evaluated would be made along.
    let of_one: [fn(&Tensor) -> Tensor; 17] = [
        |x| -x,
        Tensor::abs,
        Tensor::square,
        Tensor::relu,
        Tensor::reciprocal,
        Tensor::sqrt,
        Tensor::rsqrt,
        Tensor::exp,
        Tensor::expm1,
        Tensor::log,
        Tensor::log1p,
        Tensor::tanh,
        Tensor::sigmoid,
        Tensor::silu,
        Tensor::gelu,
        Tensor::gelu_tanh,
        Tensor::erf,
    ];
    from("one function of an element", &mut || of_one.iter().try_for_each(|f| f(&x).materialize()))?;
    let of_two: [fn(&Tensor, &Tensor) -> Tensor; 6] = [|x, y| x + y, |x, y| x - y, |x, y| x * y, |x, y| x / y, |x, y| x.maximum(y), |x, y| x.minimum(y)];
    from("one function of two elements", &mut || of_two.iter().try_for_each(|f| f(&x, &target).materialize()))?;
    let with_number: [fn(&Tensor) -> Tensor; 8] =
        [|x| x + 1.5, |x| x - 1.5, |x| 1.5 - x, |x| x * 1.5, |x| x / 1.5, |x| 1.5 / x, |x| x.maximum(1.5), |x| x.minimum(1.5)];
    from("one function of an element and a number", &mut || with_number.iter().try_for_each(|f| f(&x).materialize()))?;
    from("a scaled and shifted row", &mut || (&x * &scale + &shift).materialize())?;
    let losses: [(&'static str, &dyn Fn(&Tensor) -> Tensor); 4] = [
        ("mean squared error", &|y| functional::mse_loss(y, &target, functional::Reduction::Mean)),
        ("L1 loss", &|y| functional::l1_loss(y, &target, functional::Reduction::Mean)),
        ("smooth L1 loss", &|y| functional::smooth_l1_loss(y, &target, 1.0, functional::Reduction::Mean)),
        ("Huber loss", &|y| functional::huber_loss(y, &target, 1.0, functional::Reduction::Mean)),
    ];
    for (name, loss) in losses {
        from(name, &mut || train(&nn::Linear::new(6, 6)?, &x, loss))?;
    }
    Ok(())
}
fn layers(from: &mut From<'_>) -> Result<()> {
    let square = |y: &Tensor| y.square().mean(..);
    let tokens = Tensor::from_vec((0..48).map(|k| k as f32 * 0.1 - 2.0).collect(), [2, 3, 8]);
    for norm_first in [false, true] {
        for activation in [nn::Activation::Relu, nn::Activation::Gelu, nn::Activation::GeluTanh] {
            from("a transformer's layer", &mut || {
                let options = nn::TransformerOptions { norm_first, activation, is_causal: norm_first, dim_feedforward: 16, dropout: 0.0, ..Default::default() };
                train(&nn::TransformerEncoderLayer::with(8, 2, options)?, &tokens, &square)
            })?;
        }
    }
    from("recurrent cells", &mut || {
        train(&nn::Lstm::new(8, 4)?, &tokens, &square)?;
        train(&nn::Gru::new(8, 4)?, &tokens, &square)
    })?;
    let image = Tensor::from_vec((0..128).map(|k| (k % 7) as f32 - 3.0).collect(), [2, 1, 8, 8]);
    from("convolution, batch norm, ReLU", &mut || {
        let net = nn::Sequential::new().add(nn::Conv2d::new(1, 4, 3)?).add(nn::BatchNorm2d::new(4)?).add(nn::Relu::default());
        train(&net, &image, &square)
    })?;
    // Attention that no kernel takes whole: with a mask.
    from("attention with a mask", &mut || {
        let [q, k, v] = [0.1, 0.2, 0.3].map(|f| Param::new(&(&tokens * f)));
        let (q, k, v) = (q?, k?, v?);
        let mask = Tensor::full([3, 3], 0.5, DType::F32);
        let mut optimizer = optim::AdamW::new(1e-3).over([q.clone(), k.clone(), v.clone()]);
        for _ in 0..3 {
            let options = AttentionOptions { mask: Some(&mask), ..Default::default() };
            let y = functional::scaled_dot_product_attention(&q.get(), &k.get(), &v.get(), &options);
            optimizer.step(&square(&y).backward()?)?;
        }
        Ok(())
    })
}

/// The file.
fn table(programs: &Programs) -> String {
    let mut text = String::from("//! Loops compiled ahead of time, by `cargo xtask prefuse`.\nuse super::{loops, words::*};\n\nloops! {\n");
    for (k, (signature, by)) in programs.iter().enumerate() {
        let (words, results) = signature.split_once("->").unwrap_or((signature, ""));
        let (mut loads, mut numbers) = (String::new(), String::new());
        let mut body = String::new();
        for (place, word) in words.split_whitespace().enumerate() {
            match word.split_once('(') {
                None => {
                    let _ = write!(if word == "c" { &mut numbers } else { &mut loads }, "v{place} ");
                }
                Some((function, operands)) => {
                    let operands = operands.trim_end_matches(')').split(',').map(|o| format!("v{o}")).collect::<Vec<_>>().join(", ");
                    let _ = write!(body, "let v{place} = {function}({operands}); ");
                }
            }
        }
        let results: Vec<String> = results.split_whitespace().map(|r| format!("v{r}")).collect();
        let _ = writeln!(text, "    /// {by}");
        let _ = writeln!(
            text,
            "    L{k} \"{signature}\" ({loads}| {}) -> {} {{\n        {body}\n        [{}]\n    }}",
            numbers.trim_end(),
            results.len(),
            results.join(", "),
            body = body.trim_end()
        );
    }
    text + "}\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_up_to_date() {
        assert!(matches!(run(&Options { check: true }), Exit::Passed));
    }
}
