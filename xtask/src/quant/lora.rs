//! Adapters over bases of floats and of codes: a language model that was trained on one text learns another one by adapters alone. Codes
//! must cost little of what is learned, stay what they are, and give the adapters the gradients of the numbers they stand for. The
//! memory of training is that of GPT-2's sizes.
use super::{
    AccuracyOptions,
    described::{JudgedExample, judge_all},
};
use crate::exit::Exit;
use adamant::{
    DType, Device, Tensor,
    data::Vocabulary,
    functional::{CrossEntropyOptions, cross_entropy},
    nn::{Embedding, LayerNorm, Linear, Module, Param, Sequential, TransformerEncoderLayer, TransformerOptions, Walk},
    no_grad,
    optim::{AdamW, Optimizer, UpdateRule},
    quant::{
        QuantizationConfig,
        lora::{LoraAdapters, LoraConfig},
        quantize_model_with,
    },
};
use adamant_bench::inputs::indices;
use adamant_train::{Failure, Task, Trained};
use std::{fs, path::Path};

/// The model that learns, and on what.
struct LoraCase {
    model: JudgedExample,
    /// beside its own data
    text: &'static str,
}
const CASES: [LoraCase; 1] = [LoraCase {
    model: JudgedExample { name: "chargpt", text: include_str!("../../../examples/chargpt/chargpt.toml"), data: Some("tinyshakespeare") },
    text: "../names/names.txt",
}];
/// The bases, and how many nats more than over floats may remain.
const BASES: [(&str, Option<&str>, Option<usize>, f64); 4] =
    [("f32", None, None, 0.0), ("w8", Some("w8"), None, 0.02), ("w4-g32", Some("w4"), Some(32), 0.02), ("nf4-g64", Some("nf4"), Some(64), 0.02)];
/// The layers that have adapters.
const TARGETS: [&str; 3] = ["out_proj", "linear1", "linear2"];
const STEPS: usize = 300;
const BATCH: usize = 24;
/// What is allowed between results that are equal but for the order of sums, as a share of the largest.
const NEAR: f64 = 1e-5;
/// The most that weights, gradients and slots may take of what they take where all is trained by AdamW.
const MOST_MEMORY: f64 = 0.06;

pub fn run(options: &AccuracyOptions) -> Result<Exit, String> {
    judge_all(options, &CASES, |case| &case.model, |case, data, seed, device| judge(case, data, seed, &options.runs, device))
}
/// TextWindows of a text, each with what follows every character of it.
struct TextWindows {
    ids: Vec<i64>,
    context: usize,
}
impl TextWindows {
    /// `[rows, context]` and likewise, from places that are given.
    fn at(&self, places: &[usize]) -> (Tensor, Tensor) {
        let of = |from: usize| {
            Tensor::from_vec(places.iter().flat_map(|p| self.ids[p + from..p + from + self.context].to_vec()).collect::<Vec<_>>(), [places.len(), self.context])
        };
        (of(0), of(1))
    }
    fn batch(&self, step: usize) -> (Tensor, Tensor) {
        let last = self.ids.len() - self.context - 1;
        // A full period of an odd stride meets all places.
        self.at(&(0..BATCH).map(|k| (step * BATCH + k).wrapping_mul(7919) % last).collect::<Vec<_>>())
    }
}
fn loss(model: &Sequential, (x, y): &(Tensor, Tensor)) -> adamant::Result<Tensor> {
    let logits = model.forward(x)?;
    let [rows, time, classes] = logits.dims()?;
    cross_entropy(&logits.reshape([rows * time, classes]), &y.reshape([rows * time]), &CrossEntropyOptions::default()).ok()
}
/// Nats for each character of the text.
fn judged(model: &Sequential, text: &TextWindows) -> adamant::Result<f64> {
    no_grad(|| {
        let places: Vec<usize> = (0..text.ids.len() - text.context - 1).step_by(text.context).collect();
        let mut sum = 0.0;
        for some in places.chunks(64) {
            sum += f64::from(loss(model, &text.at(some))?.item::<f32>()?) * some.len() as f64;
        }
        Ok(sum / places.len() as f64)
    })
}
/// Adapters on the linear maps of a model.
fn adapters(model: &Sequential) -> adamant::Result<LoraAdapters> {
    LoraConfig::new(8, 16.0, TARGETS).apply(model)
}
/// Makes codes of all weights.
fn code(model: &Sequential, scheme: &str, group: Option<usize>) -> adamant::Result<()> {
    quantize_model_with(model, &QuantizationConfig::named(scheme)?.group(group).scales(DType::F16), || Ok(())).map(drop)
}
/// The model of a run with codes for weights, or floats, and adapters.
fn adapted(run: &Path, scheme: Option<&str>, group: Option<usize>) -> Result<(Trained, LoraAdapters), Failure> {
    let trained = Trained::open(run)?;
    if let Some(scheme) = scheme {
        code(&trained.model, scheme, group)?;
    }
    let adapters = adapters(&trained.model)?;
    Ok((trained, adapters))
}
/// The largest difference as a share of the largest number.
fn apart(a: &Tensor, b: &Tensor) -> adamant::Result<f64> {
    let largest = b.abs().amax(..).item::<f32>()?;
    Ok(f64::from((a - b).abs().amax(..).item::<f32>()?) / f64::from(largest.max(f32::MIN_POSITIVE)))
}
/// All that adapters do not train, byte for byte.
fn base_bytes(model: &Sequential, adapters: &[Param]) -> adamant::Result<Vec<(String, Vec<u8>)>> {
    let own: Vec<String> = adapters.iter().map(|p| p.path().to_string()).collect();
    model.state_dict().into_iter().filter(|(name, _)| !own.contains(name) && !name.contains("lora_")).map(|(name, t)| Ok((name, t.to_bytes()?))).collect()
}
/// The weights that are held as codes, each once.
fn coded(model: &Sequential) -> Vec<Param> {
    let mut all: Vec<Param> = Vec::new();
    for (_, param) in model.modules().into_iter().flat_map(|module| module.parameters) {
        if param.packed().is_some() && !all.iter().any(|other| other.same(&param)) {
            all.push(param);
        }
    }
    all
}
/// How far the gradients of adapters over codes are from those over the numbers that codes stand for.
fn gradients_apart(run: &Path, scheme: &str, group: Option<usize>, batch: &(Tensor, Tensor)) -> Result<f64, Failure> {
    let (codes, of_codes) = adapted(run, Some(scheme), group)?;
    let numbers = Trained::open(run)?;
    code(&numbers.model, scheme, group)?;
    let coded = coded(&numbers.model);
    if coded.is_empty() {
        return Err(Failure::Run("the base has no weights of codes".into()));
    }
    for param in coded {
        let value = param.detached();
        value.materialize()?;
        param.unpack()?;
        param.set(&value)?;
    }
    let of_numbers = adapters(&numbers.model)?;
    let (left, right) = (of_codes.parameters(), of_numbers.parameters());
    for (k, (a, b)) in left.iter().zip(&right).enumerate() {
        // B begins with zeros, which would hide A.
        let value = adamant_bench::inputs::tensor(&a.meta().shape, 50 + k as u64) * 0.1;
        a.set(&value)?;
        b.set(&value)?;
    }
    let (a, b) = (loss(&codes.model, batch)?.backward()?, loss(&numbers.model, batch)?.backward()?);
    let mut worst = 0f64;
    for (left, right) in left.iter().zip(&right) {
        let (Some(left), Some(right)) = (a.of(&left.cell()), b.of(&right.cell())) else {
            return Err(Failure::Run(format!("`{}` has no gradient", left.path())));
        };
        worst = worst.max(apart(left, right)?);
    }
    Ok(if left.is_empty() || left.len() != right.len() { f64::INFINITY } else { worst })
}
fn told(passed: bool, text: String) -> bool {
    println!("{} {text}", if passed { "passed" } else { "failed" });
    passed
}
fn judge(case: &LoraCase, data: &Path, seed: u64, runs: &Path, _: Device) -> Result<Vec<bool>, Failure> {
    let run = case.model.trained(data, seed, runs)?;
    let Task::NextToken { characters: Some(characters), context } = Trained::open(&run)?.task else {
        return Err(Failure::Run("the run is of no language model".into()));
    };
    let path = data.join(case.text);
    let text = fs::read_to_string(&path).map_err(|e| Failure::Input(format!("{}: {e}", path.display())))?;
    let ids: Vec<i64> = Vocabulary::characters(&characters).encode(&text)?.into_iter().map(i64::from).collect();
    let cut = ids.len() * 9 / 10;
    let (train, test) = (TextWindows { ids: ids[..cut].to_vec(), context }, TextWindows { ids: ids[cut..].to_vec(), context });
    let (name, mut outcomes, mut over_floats) = (case.model.name, Vec::new(), f64::NAN);
    for (base, scheme, group, most) in BASES {
        let (trained, mut adapters) = adapted(&run, scheme, group)?;
        let model = &trained.model;
        model.train();
        let parameters = adapters.parameters();
        let (before, bytes) = (judged(model, &test)?, base_bytes(model, &parameters)?);
        let mut optimizer = AdamW::new(3e-3).over(parameters.clone());
        for step in 0..STEPS {
            optimizer.step(&loss(model, &train.batch(step))?.backward()?)?;
        }
        model.eval();
        let after = judged(model, &test)?;
        if scheme.is_none() {
            over_floats = after;
        }
        let kept = base_bytes(model, &parameters)? == bytes;
        outcomes.push(told(
            after <= over_floats + most && after < before && kept,
            format!(
                "{name} seed {seed} on names over {base}: {before:.4} -> {after:.4} nats in {STEPS} steps ({:+.4} against floats, at most {most:.4}), {} tensors of the base {}",
                after - over_floats,
                bytes.len(),
                if kept { "unchanged" } else { "changed" }
            ),
        ));
        if scheme.is_none() {
            let (x, _) = test.batch(0);
            let apart_from = no_grad(|| model.forward(&x)?.ok())?;
            apart_from.materialize()?;
            adapters.merge()?;
            let merged = no_grad(|| apart(&model.forward(&x)?, &apart_from))?;
            outcomes.push(told(merged <= NEAR, format!("{name} seed {seed}: merged adapters {merged:.1e} from those apart (at most {NEAR:.0e})")));
        }
        if let Some(scheme) = scheme {
            let worst = gradients_apart(&run, scheme, group, &train.batch(0))?;
            outcomes
                .push(told(worst <= NEAR, format!("{name} seed {seed} over {base}: gradients {worst:.1e} from those over its numbers (at most {NEAR:.0e})")));
        }
    }
    outcomes.push(memory()?);
    Ok(outcomes)
}
/// A language model of GPT-2's sizes: 12 layers of 768 features, 50,257 tokens, whose table reads the answer out too.
fn gpt2_sizes() -> adamant::Result<Sequential> {
    let table = Embedding::new(50257, 768)?;
    let head = Linear::tied(&table.weight)?;
    let options = TransformerOptions { dim_feedforward: 3072, dropout: 0.0, norm_first: true, ..TransformerOptions::default() };
    let layers = (0..12).try_fold(Sequential::new().add(table), |net, _| Ok::<_, adamant::Error>(net.add(TransformerEncoderLayer::with(768, 12, options)?)))?;
    Ok(layers.add(LayerNorm::new(768)?).add(head))
}
/// Weights, gradients and slots of adapters over 4-bit weights, as tensors have them after a step, against four times the weights.
fn memory() -> adamant::Result<bool> {
    let model = gpt2_sizes()?;
    let whole = 4 * model.memory_usage();
    code(&model, "w4", Some(32))?;
    let adapters = adapters(&model)?;
    let parameters = adapters.parameters();
    let mut optimizer = AdamW::new(1e-3).over(parameters.clone());
    let ids = indices(&[1, 16], 50257);
    let grads = model.forward(&ids)?.square().mean(..).backward()?;
    let codes = coded(&model).len();
    let of_grads: usize = parameters.iter().filter_map(|p| grads.of(&p.cell())).map(|g| g.try_meta().map_or(0, |m| m.bytes())).sum();
    optimizer.step(&grads)?;
    let slots: usize = optimizer.state_dict().iter().map(|(_, t)| t.try_meta().map_or(0, |m| m.bytes())).sum();
    let (weights, all) = (model.memory_usage(), model.memory_usage() + of_grads + slots);
    let share = all as f64 / whole as f64;
    let passed = share <= MOST_MEMORY && of_grads > 0 && slots > of_grads;
    println!("{codes} weights of codes, {} adapters of {} parameters", adapters.modules().len(), parameters.len());
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    Ok(told(
        passed,
        format!(
            "GPT-2 over w4-g32: {:.1} MiB of weights, {:.1} of gradients, {:.1} of slots: {share:.4} of {:.0} MiB (at most {MOST_MEMORY})",
            mib(weights),
            mib(of_grads),
            mib(slots),
            mib(whole)
        ),
    ))
}
