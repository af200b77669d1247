//! A small GPT that learns the characters of a text and then writes in its manner.
//!
//!     cargo run --release -p chargpt -- TEXT_FILE [ITERATIONS]
use adamant::{
    DType, Error, ErrorKind, Result, Tensor,
    data::{DataLoader, Tokens, examples},
    functional, nn,
    nn::{Activation, Embedding, LayerNorm, Linear, Module, PositionEmbedding, TransformerEncoderLayer, TransformerOptions, Walk, init},
    no_grad,
    optim::{
        AdamW, Optimizer, UpdateRule, clip_grad_norm,
        schedule::{LambdaLr, Scheduler},
    },
};
use std::f64::consts::PI;

const CONTEXT: usize = 64;
const WIDTH: usize = 128;
const BATCH: usize = 12;

/// Embeddings, blocks that look back only, and the embedding's table again to read the answer out.
#[derive(Module)]
struct Gpt {
    wte: Embedding,
    wpe: PositionEmbedding,
    blocks: Vec<TransformerEncoderLayer>,
    lnf: LayerNorm,
    head: Linear,
}
impl Gpt {
    fn new(vocabulary: usize) -> Result<Gpt> {
        let options = TransformerOptions {
            dim_feedforward: 4 * WIDTH,
            dropout: 0.0,
            activation: Activation::GeluTanh,
            batch_first: true,
            norm_first: true,
            is_causal: true,
            ..TransformerOptions::default()
        };
        let wte = Embedding::new(vocabulary, WIDTH)?;
        let head = Linear::tied(&wte.weight)?;
        let blocks = (0..4).map(|_| TransformerEncoderLayer::with(WIDTH, 4, options)).collect::<Result<_>>()?;
        let gpt = Gpt { wpe: PositionEmbedding::new(CONTEXT, WIDTH)?, wte, blocks, lnf: LayerNorm::new(WIDTH)?, head };
        for (name, p) in gpt.named_parameters() {
            let shape = p.meta().shape;
            if shape.rank() == 2 {
                p.set(&init::normal(shape, 0.0, 0.02)?)?;
            } else if name.ends_with("bias") {
                p.set(&init::zeros(shape)?)?;
            }
        }
        Ok(gpt)
    }
}
impl Module for Gpt {
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let mut x = self.wpe.forward(&self.wte.forward(ids)?)?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        self.head.forward(&self.lnf.forward(&x)?)
    }
}
fn loss(net: &Gpt, x: &Tensor, y: &Tensor, vocabulary: usize) -> Result<Tensor> {
    let logits = net.forward(x)?.reshape([-1, vocabulary as isize]);
    functional::cross_entropy(&logits, &y.reshape([-1]), &Default::default()).ok()
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        return Err(Error::new("chargpt", ErrorKind::Argument("name a text file: cargo run --release -p chargpt -- input.txt".into())));
    };
    let steps: u64 = arguments.next().and_then(|s| s.parse().ok()).unwrap_or(2000);
    let text = Tokens::read_characters(path)?;
    let vocabulary = text.vocabulary().len();
    let (train, test) = text.split_tail(0.1)?;
    nn::manual_seed(1);
    let net = Gpt::new(vocabulary)?;
    println!("{} parameters, {vocabulary} characters", net.parameter_count());

    let mut loader = DataLoader::new(examples(train.windows(CONTEXT)?)).batch_size(BATCH).shuffle(1).build()?;
    let mut optimizer = AdamW::new(1e-3).betas((0.9, 0.99)).weight_decay(0.1).over(net.parameters());
    let course =
        move |t: u64| if t < 100 { (t + 1) as f64 / 100.0 } else { 0.1 + 0.45 * (1.0 + (PI * (t - 100) as f64 / (steps.max(101) - 100) as f64).cos()) };
    let mut schedule = Scheduler::new(LambdaLr(course), &mut optimizer);
    for step in 1..=steps {
        let Some(batch) = loader.next_batch() else { continue };
        let (x, y) = batch?;
        let loss = loss(&net, &x, &y, vocabulary)?;
        let mut grads = loss.backward()?;
        clip_grad_norm(&mut grads, &net.parameters(), 1.0)?;
        optimizer.step(&grads)?;
        schedule.step(&mut optimizer);
        if step % 100 == 0 {
            println!("step {step:>5}/{steps}  loss {:.4}", loss.item::<f64>()?);
        }
    }

    let (mut sum, mut count) = (0.0, 0);
    for batch in DataLoader::new(examples(test.windows(CONTEXT)?.stride(CONTEXT)?)).batch_size(256).build()?.epoch() {
        let (x, y) = batch?;
        sum += no_grad(|| loss(&net, &x, &y, vocabulary)?.item::<f64>())? * y.shape()?.elements() as f64;
        count += y.shape()?.elements();
    }
    println!("loss on the last tenth of the text {:.4}", sum / count as f64);

    let mut known = text.vocabulary().encode("\n")?;
    for _ in 0..200 {
        let from = known.len().saturating_sub(CONTEXT);
        let window: Vec<i64> = known[from..].iter().map(|t| i64::from(*t)).collect();
        let n = window.len();
        let next = no_grad(|| net.forward(&Tensor::from_vec(window, [1, n]))?.narrow(1, n - 1, 1).argmax(-1).cast(DType::I64).item::<i64>())?;
        known.push(next as u32);
    }
    println!("{}", text.vocabulary().decode(&known));
    Ok(())
}
