//! Sequence to sequence: dates as people write them ("the 3rd of march, 1997") become ISO dates ("1997-03-03"), by a Transformer
//! that reads and writes characters. The language pair is made in pair.rs.
//!
//!     cargo run --release -p translation [SEED]
mod pair;

use adamant::{
    DType, Result, Tensor,
    data::{DataLoader, TensorDataset, Vocabulary},
    functional, nn,
    nn::{Embedding, Linear, Masks, Module, PositionEmbedding, Transformer, TransformerOptions, Walk},
    no_grad,
    optim::{
        Adam, Optimizer, UpdateRule, clip_grad_norm,
        schedule::{OneCycleLr, Scheduler},
    },
};
use pair::{ALPHABET, DatePair, ISO, LONGEST};
use std::sync::Arc;

const WIDTH: usize = 64;

/// What a run is made of; the test below makes a smaller one.
struct Settings {
    seed: u64,
    pairs: usize,
    epochs: u64,
}

/// Reads a text with the encoder and writes another one with the decoder, which sees what it has written so far.
#[derive(Module)]
struct Translator {
    letters: Embedding,
    read_at: PositionEmbedding,
    write_at: PositionEmbedding,
    transformer: Transformer,
    head: Linear,
}
impl Translator {
    fn new(letters: usize) -> Result<Translator> {
        let options = TransformerOptions { dim_feedforward: 2 * WIDTH, dropout: 0.0, batch_first: true, norm_first: true, ..Default::default() };
        Ok(Translator {
            letters: Embedding::new(letters, WIDTH)?,
            read_at: PositionEmbedding::new(LONGEST, WIDTH)?,
            write_at: PositionEmbedding::new(ISO, WIDTH)?,
            transformer: Transformer::with(WIDTH, 4, 2, 2, options)?,
            head: Linear::new(WIDTH, letters)?,
        })
    }
    /// What the source says, `[batch, source, features]`, and where it is padding, which no attention looks at.
    fn read(&self, source: &Tensor, padding: i64) -> Result<(Tensor, Tensor)> {
        let hidden = source.eq(padding);
        let x = self.read_at.forward(&self.letters.forward(source)?)?;
        let masks = Masks { key_padding_mask: Some(&hidden), ..Default::default() };
        Ok((self.transformer.encoder.forward_masked(&x, &masks)?, hidden))
    }
    /// Scores of each next letter, `[batch, written, letters]`.
    fn write(&self, written: &Tensor, (memory, hidden): &(Tensor, Tensor)) -> Result<Tensor> {
        let x = self.write_at.forward(&self.letters.forward(written)?)?;
        let backwards_only = Masks { is_causal: true, ..Default::default() };
        let masks = Masks { key_padding_mask: Some(hidden), ..Default::default() };
        self.head.forward(&self.transformer.decoder.forward(&x, memory, &backwards_only, &masks)?)
    }
    /// Letter by letter, always the likeliest one; the first column of what comes back is the sign that stands for the beginning.
    fn translate(&self, source: &Tensor, padding: i64, begin: i64) -> Result<Tensor> {
        no_grad(|| {
            let read = self.read(source, padding)?;
            let mut written = Tensor::full([source.size(0)?, 1], begin, DType::I64);
            for _ in 1..ISO {
                let next = self.write(&written, &read)?.select(1, -1).argmax(-1);
                written = Tensor::cat(&[&written, &next.unsqueeze(1)], 1);
            }
            written.ok()
        })
    }
}

/// Rows of letters of one length, as numbers: `i64[rows, length]`.
fn numbers<'a>(texts: impl Iterator<Item = &'a String>, length: usize, vocabulary: &Vocabulary) -> Result<Tensor> {
    let (mut all, mut rows) = (Vec::new(), 0);
    for text in texts {
        all.extend(vocabulary.encode(&format!("{text:_<length$}"))?.into_iter().map(i64::from));
        rows += 1;
    }
    Tensor::from_vec(all, [rows, length]).ok()
}

/// Trains a translator and tells which share of the held-out dates it translates without a fault.
fn run(settings: &Settings) -> Result<f64> {
    let vocabulary = Vocabulary::characters(ALPHABET);
    let sign = |c: &str| Ok::<i64, adamant::Error>(i64::from(vocabulary.encode(c)?[0]));
    let (padding, begin) = (sign("_")?, sign("^")?);
    // No day of the test is ever seen in training, in whatever form it is written.
    let (test, train): (Vec<DatePair>, Vec<DatePair>) = (0..settings.pairs).map(|k| pair::draw(settings.seed, k)).partition(|p| p.day_number % 10 == 0);
    let source = |pairs: &[DatePair]| numbers(pairs.iter().map(|p| &p.written), LONGEST, &vocabulary);
    let target = |pairs: &[DatePair]| numbers(pairs.iter().map(|p| &p.iso), ISO, &vocabulary);

    nn::manual_seed(settings.seed);
    let net = Translator::new(vocabulary.len())?;
    println!("{} parameters, {} pairs to learn from, {} held out", net.parameter_count(), train.len(), test.len());
    let set = TensorDataset::new(&[&source(&train)?, &target(&train)?])?;
    let mut loader = DataLoader::new(Arc::new(set)).batch_size(64).shuffle(settings.seed).build()?;
    let mut optimizer = Adam::new(2e-3).over(net.parameters());
    let mut schedule = Scheduler::new(OneCycleLr::new(2e-3, settings.epochs * loader.batches() as u64), &mut optimizer);
    for epoch in 1..=settings.epochs {
        let mut losses = Vec::new();
        for batch in loader.epoch() {
            let batch = batch?;
            let (source, target) = (&batch[0], &batch[1]);
            // Each letter is foretold from those before it: inputs are all but the last, answers all but the first.
            let scores = net.write(&target.narrow(1, 0, ISO - 1), &net.read(source, padding)?)?;
            let answers = target.narrow(1, 1, ISO - 1);
            let loss = functional::cross_entropy(&scores.flatten(0, 1), &answers.flatten(0, 1), &Default::default());
            let mut grads = loss.backward()?;
            clip_grad_norm(&mut grads, &net.parameters(), 1.0)?;
            optimizer.step(&grads)?;
            schedule.step(&mut optimizer);
            losses.push(loss.detach());
        }
        println!("epoch {epoch:>2}/{}  loss {:.4}", settings.epochs, Tensor::stack(&losses, 0).mean(..).item::<f64>()?);
    }

    net.eval();
    let answers = net.translate(&source(&test)?, padding, begin)?;
    let right = answers.eq(&target(&test)?).all(1);
    for (k, letters) in answers.to_vec::<i64>()?.chunks(ISO).take(5).enumerate() {
        let letters: Vec<u32> = letters.iter().map(|l| *l as u32).collect();
        println!("{:>32} -> {}", test[k].written, vocabulary.decode(&letters).trim_start_matches('^'));
    }
    right.float().mean(..).item::<f64>()
}

fn main() -> Result<()> {
    let seed = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1);
    let right = run(&Settings { seed, pairs: 6_000, epochs: 6 })?;
    println!("exact match on held-out days {:.2} %", 100.0 * right);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever knows only what most dates have in common gets none right.
    #[test]
    fn a_translator_that_has_not_learned_to_translate() {
        let right = run(&Settings { seed: 1, pairs: 2_000, epochs: 5 }).unwrap();
        assert!(right > 0.3, "{right}");
    }
    #[test]
    fn a_pair_of_a_form_that_is_not_as_long_or_not_in_the_alphabet() {
        let vocabulary = Vocabulary::characters(ALPHABET);
        for k in 0..500 {
            let pair = pair::draw(3, k);
            assert!(pair.written.len() <= LONGEST && pair.iso.len() == ISO, "{pair:?}");
            vocabulary.encode(&pair.written).unwrap();
            vocabulary.encode(&pair.iso).unwrap();
        }
    }
}
