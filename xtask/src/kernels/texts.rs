//! The texts of kernels, as the CUDA backend has them written: of calls that need each kind of kernel, of every public function on
//! every dtype, forward and backward, and of random graphs. The card is played by the emulator and runs nothing.
use super::judged::JudgedText;
use crate::exit::Exit;
use adamant::{
    DType, Device, Result, Tensor,
    cuda::{CudaBackend, CudaMemoryPool},
    flush,
    functional::{
        AttentionOptions, ConvOptions, CrossEntropyOptions, conv2d, cross_entropy, dropout, embedding, layer_norm, rms_norm, scaled_dot_product_attention,
    },
    optim::{AdamW, Optimizer, UpdateRule},
};
use adamant_conformance::{
    fuzz::{self, program::Mode},
    random::Random,
    registry::entries,
};
use adamant_core::Rng;
use adamant_cuda_emulator::{Emulator, Options};
use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
};

/// Samples of public functions that run in one window: their texts are compiled together.
const TOGETHER: usize = 48;
/// Random graphs in which a new text is looked for, for each text that is wanted.
const GRAPHS_FOR_A_TEXT: usize = 4;

/// All texts for one card.
#[derive(Clone)]
pub struct CollectedTexts {
    pub texts: Vec<JudgedText>,
    /// how many of them are of the calls by hand
    by_hand: usize,
    /// random graphs that were drawn, and the texts that they alone have
    pub graphs: usize,
    pub generated: usize,
    /// calls that could not be run, with why
    pub refused: Vec<String>,
}
/// A device that launches nothing, and the texts that are known of it.
struct TextSource {
    device: Device,
    seen: BTreeSet<String>,
    texts: Vec<JudgedText>,
    refused: Vec<String>,
}

/// Has the texts written for the card `profile`, `wanted` of them of random graphs. Where the calls by hand have the texts that they
/// have on another card of `others`, so has all else: what differs between cards are the kernels that those are for.
///
/// # Errors
/// No emulator here, no compiler: explained on stderr.
pub fn collected(profile: &str, wanted: usize, seed: u64, one_of: usize, others: &[&CollectedTexts]) -> std::result::Result<CollectedTexts, Exit> {
    let absent = |why: &dyn std::fmt::Display| {
        eprintln!("{why}");
        Exit::DeviceAbsent
    };
    // Without the library, so that products are kernels of our own.
    let options = Options { profile: profile.into(), null: true, cublaslt: false, ..Options::default() };
    let emulator = Emulator::install(options.clone()).map_err(|e| absent(&e))?;
    emulator.reset(options).map_err(|e| absent(&e))?;
    let backend = CudaBackend::builder().cache(None).self_test(false).memory_pool(CudaMemoryPool::Off).build().map_err(|e| absent(&format!("{e:?}")))?;
    backend.write_only();
    let mut source = TextSource { device: Device::from_backend(Box::new(backend)), seen: BTreeSet::new(), texts: Vec::new(), refused: Vec::new() };
    let told = take_hook();
    set_hook(Box::new(|_| ()));
    source.by_hand();
    let by_hand = source.texts.len();
    let is_alike = |other: &&&CollectedTexts| {
        other.by_hand == by_hand && other.texts[..by_hand].iter().map(|t| &t.text).collect::<BTreeSet<_>>() == source.seen.iter().collect()
    };
    if let Some(other) = others.iter().find(is_alike) {
        set_hook(told);
        return Ok((*other).clone());
    }
    source.of_functions(one_of, seed);
    let before = source.texts.len();
    let mut graphs = 0;
    while source.texts.len() - before < wanted && graphs < GRAPHS_FOR_A_TEXT * wanted {
        // What nothing computed is read as faults, too: only the texts matter.
        let device = source.device;
        let _ = catch_unwind(AssertUnwindSafe(|| fuzz::nth(seed, graphs, 0).run(device, Mode::Fused, false)));
        source.take(&format!("random graph {graphs} of seed {seed}"), false);
        graphs += 1;
    }
    set_hook(told);
    let generated = source.texts.len() - before;
    Ok(CollectedTexts { texts: source.texts, by_hand, graphs, generated, refused: source.refused })
}
impl TextSource {
    /// The texts that are new are of this origin.
    fn take(&mut self, origin: &str, is_dense: bool) {
        let known = self.device.backend().downcast::<CudaBackend>().map(CudaBackend::texts_by_family).unwrap_or_default();
        for (family, text) in known {
            if self.seen.contains(&text) {
                continue;
            }
            self.seen.insert(text.clone());
            let name = text.rsplit("void kernel_").next().and_then(|rest| rest.split('(').next()).unwrap_or_default();
            let (name, family) = (format!("kernel_{name}"), family.trim_start_matches("adamant.").to_string());
            let is_dense = is_dense && family == "map";
            self.texts.push(JudgedText { name, family, origin: origin.into(), text, is_dense });
        }
    }
    /// Runs a call whose operands lie ready, and takes its texts.
    fn call(&mut self, origin: &str, is_dense: bool, call: impl FnOnce() -> Result<Vec<Tensor>>) {
        let device = self.device;
        // One that cannot be run keeps none of the others from it.
        let run = || -> Result<Vec<String>> {
            let results = call()?;
            let flushed = flush().err().map(|e| e.to_string());
            let failed = results.iter().filter_map(|r| r.materialize().err()).map(|e| e.to_string());
            Ok(failed.chain(flushed).collect())
        };
        let failed = match catch_unwind(AssertUnwindSafe(|| device.scoped(run))) {
            Ok(Ok(failed)) => failed,
            Ok(Err(e)) => vec![e.to_string()],
            Err(_) => vec!["it ends in a panic where nothing is computed".into()],
        };
        self.refused.extend(failed.iter().map(|why| format!("{origin}: {why}")));
        self.take(origin, is_dense);
    }
    /// Calls by which each kind of kernel is written in the sizes that it is for.
    fn by_hand(&mut self) {
        self.maps();
        self.products();
        self.attentions();
        self.steps();
    }
    fn filled(&mut self, shape: &[usize], dtype: DType) -> Tensor {
        let x = self.device.scoped(|| Tensor::ones(shape).cast(dtype));
        if let Err(e) = x.materialize() {
            self.refused.push(format!("ones of {dtype}: {e}"));
        }
        self.take("ones", false);
        x
    }
    fn maps(&mut self) {
        for dtype in DType::COMPUTE {
            let (x, y) = (self.filled(&[4096], dtype), self.filled(&[4096], dtype));
            if dtype != DType::Bool {
                self.call(&format!("x + y of {dtype}"), true, || Ok(vec![&x + &y]));
            }
            for to in DType::COMPUTE.into_iter().filter(|to| *to != dtype) {
                self.call(&format!("{dtype} to {to}"), true, || Ok(vec![x.cast(to)]));
            }
            if dtype.is_float() {
                self.call(&format!("exp(x) of {dtype}"), true, || Ok(vec![x.exp()]));
                self.call(&format!("x gelu of {dtype}"), true, || Ok(vec![&x * (&y + 1.0).tanh()]));
            }
        }
    }
    fn products(&mut self) {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I32] {
            // Sides for large tiles and for small ones; a side whose rows do not begin at whole pieces of 16 bytes.
            for side in [2048, 128, 129] {
                let (x, y, bias) = (self.filled(&[side, side], dtype), self.filled(&[side, side], dtype), self.filled(&[side], dtype));
                for (layout, a, b) in [("ab", x.clone(), y.clone()), ("a'b", x.t(), y.clone()), ("ab'", x.clone(), y.t())] {
                    let origin = format!("product {layout} of {dtype}, {side}");
                    self.call(&origin, false, || Ok(vec![a.matmul(&b)]));
                    self.call(&format!("{origin}, bias and relu"), false, || Ok(vec![(a.matmul(&b) + &bias).relu()]));
                }
            }
        }
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            for (channels, stride, groups) in [(64, 1, 1), (64, 2, 1), (32, 1, 4), (3, 2, 1)] {
                let (x, w) = (self.filled(&[8, channels, 32, 32], dtype), self.filled(&[64, channels / groups, 3, 3], dtype));
                let origin = format!("conv2d of {dtype}, {channels} channels, stride {stride}, {groups} groups");
                let options = ConvOptions { stride: stride.into(), padding: 1.into(), groups, ..ConvOptions::default() };
                self.call(&format!("{origin} and its gradients"), false, || {
                    let (x, w) = (x.tracked(), w.tracked());
                    let y = conv2d(&x, &w, None, &options);
                    let grads = y.cast(DType::F32).sum(..).backward()?;
                    Ok(grads.tensors().cloned().chain([y]).collect())
                });
            }
        }
    }
    fn attentions(&mut self) {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            let is_short = matches!(dtype, DType::F16 | DType::BF16);
            for features in if is_short { &[8, 32, 64, 80, 128, 256][..] } else { &[64, 256] }.iter().copied() {
                let x = self.filled(&[2, 4, 512, features], dtype);
                let (mask, few) = (self.filled(&[512, 512], DType::Bool), self.filled(&[2, 2, 512, features], dtype));
                let Ok(rng) = Rng::new_on(1, 0, self.device) else { continue };
                for (how, options) in [
                    ("plain", AttentionOptions::default()),
                    ("causal", AttentionOptions { is_causal: true, ..Default::default() }),
                    ("masked", AttentionOptions { mask: Some(&mask), ..Default::default() }),
                    ("grouped", AttentionOptions { enable_gqa: true, ..Default::default() }),
                    ("with dropout", AttentionOptions { dropout: Some((0.1, &rng)), ..Default::default() }),
                ] {
                    // What else there is does not depend on how many features there are.
                    if how != "plain" && features != 64 {
                        continue;
                    }
                    self.call(&format!("attention of {dtype}, {features} features, {how}, and its gradients"), false, || {
                        let (q, k, v) = (x.tracked(), if how == "grouped" { few.tracked() } else { x.detach().tracked() }, x.detach().tracked());
                        let v = if how == "grouped" { few.detach().tracked() } else { v };
                        let y = scaled_dot_product_attention(&q, &k, &v, &options);
                        let grads = y.cast(DType::F32).sum(..).backward()?;
                        Ok(grads.tensors().cloned().chain([y]).collect())
                    });
                }
            }
        }
    }
    /// What a training step of a language model has besides.
    fn steps(&mut self) {
        for dtype in [DType::F16, DType::BF16, DType::F32] {
            let (x, w, table) = (self.filled(&[64, 768], dtype), self.filled(&[768], dtype), self.filled(&[50_257, 768], dtype));
            let ids = self.device.scoped(|| Tensor::from_vec((0..64).map(|k| k * 700).collect::<Vec<i64>>(), [64]));
            let Ok(rng) = Rng::new_on(1, 0, self.device) else { continue };
            self.call(&format!("a step of {dtype}"), false, || {
                let (x, w, table) = (x.tracked(), w.tracked(), table.tracked());
                let hidden = embedding(&ids, &table, None) + layer_norm(&x, [768], Some(&w), Some(&w), 1e-5) + rms_norm(&x, [768], Some(&w), None);
                let logits = dropout(&hidden, 0.1, &rng).softmax(-1).matmul(table.t());
                let grads = cross_entropy(&logits, &ids, &CrossEntropyOptions::default()).backward()?;
                Ok(grads.tensors().cloned().collect())
            });
        }
        self.call("a step of AdamW", false, || {
            let weights = [Tensor::ones([64, 64]), Tensor::ones([4096])];
            let parameters = weights.iter().map(|w| adamant::nn::Param::new(w)).collect::<Result<Vec<_>>>()?;
            let loss = parameters.iter().map(|p| p.get().square().sum(..)).reduce(|a, b| a + b).unwrap_or_else(|| Tensor::ones([1]));
            let mut optimizer = AdamW::new(1e-3).over(parameters);
            optimizer.step(&loss.backward()?)?;
            Ok(Vec::new())
        });
    }
    /// Every public function on every dtype, and its gradient; or one of so many of them.
    fn of_functions(&mut self, one_of: usize, seed: u64) {
        let random = Random::new(seed);
        let samples: Vec<_> = entries().into_iter().flat_map(|e| e.dtypes.clone().into_iter().map(move |d| (e.clone(), d))).collect();
        let samples: Vec<_> = samples.into_iter().skip(seed as usize % one_of.max(1)).step_by(one_of.max(1)).collect();
        for (k, some) in samples.chunks(TOGETHER).enumerate() {
            let names: Vec<String> = some.iter().map(|(e, d)| format!("{} {d}", e.name)).collect();
            let mut refused = Vec::new();
            let device = self.device;
            self.call(&names.join(", "), false, || {
                let mut all = Vec::new();
                for (entry, dtype) in some {
                    let mut random = random.part(k as u64);
                    let inputs: Vec<Tensor> = entry
                        .inputs
                        .iter()
                        .map(|i| {
                            let x = adamant_conformance::data::upload(&i.draw(*dtype, &mut random), device);
                            if i.differentiable && dtype.is_float() && entry.order > 0 { x.tracked() } else { x }
                        })
                        .collect();
                    // How much there is of some results is for the device to say, and it computed nothing.
                    let Ok(results) = catch_unwind(AssertUnwindSafe(|| entry.function.call(&inputs))) else {
                        refused.push(format!("{} {dtype}: its results are as large as the device says", entry.name));
                        continue;
                    };
                    if let Some(e) = results.iter().find_map(Tensor::error) {
                        refused.push(format!("{} {dtype}: {e}", entry.name));
                        continue;
                    }
                    let floats = results.iter().filter(|r| r.try_meta().is_ok_and(|m| m.dtype.is_float()));
                    let loss = floats.map(|r| r.cast(DType::F32).sum(..)).reduce(|a, b| a + b);
                    if let (Some(loss), true) = (loss, entry.order > 0)
                        && let Ok(grads) = loss.backward()
                    {
                        all.extend(grads.tensors().cloned());
                    }
                    all.extend(results);
                }
                Ok(all)
            });
            self.refused.extend(refused);
        }
    }
}
