//! Inference of whole networks, outside the tape.
use super::{
    models::{BlockCache, Gpt, GptSizes, MiniLm, ModelWeights, ResNet, tokens},
    precision::{near, region},
};
use adamant::{DType, Device, Result, Tensor, no_grad};
use adamant_bench::{Checked, Prepared, Rate, Scale, Workload, ensure, inputs::tensor};
use adamant_core::composite::packed::Packing;
use std::{hint::black_box, rc::Rc};

/// The family.
pub fn workloads() -> Vec<Workload> {
    vec![
        Workload::new("infer_resnet50_b1", Rate::Flop(8.2e9), |s| infer(s, resnet)).with_precision(|s, precision| infer_in(s, precision, resnet)),
        Workload::new("infer_minilm_b32_s128", Rate::Flop(91.8e9), |s| infer(s, minilm)).with_precision(|s, precision| infer_in(s, precision, minilm)),
        Workload::new("gpt2_prefill64", None, prefill),
        Workload::new("gpt2_decode64", Rate::Tokens(64.0), |s| decode(s, None)),
        Workload::new("gpt2_decode64_bf16", Rate::Tokens(64.0), |s| decode(s, Some(HeldAs::Half(DType::BF16)))).of_dtype("bf16"),
        Workload::new("infer_resnet50_int8_b1", Rate::Flop(8.2e9), |s| infer_coded(s, coded_resnet, resnet)).of_dtype("int8"),
        Workload::new("infer_minilm_int8_b32_s128", Rate::Flop(91.8e9), |s| infer_coded(s, coded_minilm, minilm)).of_dtype("int8"),
        Workload::new("gpt2_decode64_int8", Rate::Tokens(64.0), |s| decode(s, Some(HeldAs::Codes(BYTES)))).of_dtype("int8"),
        Workload::new("gpt2_decode64_int4", Rate::Tokens(64.0), |s| {
            decode(s, Some(HeldAs::Codes(Packing { bits: 4, group: Some(s.of(32, 4)), symmetric: true })))
        })
        .of_dtype("int4"),
    ]
}
/// Eight bits, a scale for each row.
const BYTES: Packing = Packing { bits: 8, group: None, symmetric: true };
type Net = Box<dyn Fn() -> Result<Tensor>>;
/// A network that gives at small shapes what the plain interpreter gives, and finite numbers in full.
fn infer(scale: Scale, build: fn(Scale) -> Result<Net>) -> Checked<Prepared> {
    let net = Rc::new(build(scale)?);
    let checked = net.clone();
    let verify = move || {
        let small = || no_grad(|| build(Scale::SMALL)?()?.to_vec::<f32>());
        let worst = agree(&small()?, &Device::reference().scoped(small)?)?;
        let full = no_grad(&**checked)?.to_vec::<f32>()?;
        ensure(full.iter().all(|x| x.is_finite()) && full.iter().any(|&x| x != full[0]), || "the output is not finite, or everywhere the same".into())?;
        Ok(worst)
    };
    Ok(prepared(net, verify))
}
/// The same in a region of a precision, which gives at small shapes nearly what the plain interpreter gives in f32.
fn infer_in(scale: Scale, precision: DType, build: fn(Scale) -> Result<Net>) -> Checked<Prepared> {
    let within = move |scale: Scale| -> Result<Net> {
        let (net, region) = (build(scale)?, region(precision)?);
        Ok(Box::new(move || region.run(&net)))
    };
    let verify = move || {
        let exact = Device::reference().scoped(|| no_grad(|| build(Scale::SMALL)?()?.to_vec_as::<f64>()))?;
        near(precision, &no_grad(|| within(Scale::SMALL)?()?.to_vec_as::<f64>())?, &exact)
    };
    Ok(prepared(Rc::new(within(scale)?), verify))
}
fn prepared(net: Rc<Net>, verify: impl FnMut() -> Checked<f64> + 'static) -> Prepared {
    let shown = net.clone();
    let output = move || Ok(no_grad(|| shown()?.to_vec_as::<f64>())?);
    Prepared::checked(move || no_grad(|| black_box(net()?).materialize()), verify).showing(output)
}
/// How far two outputs are apart, as a share of what is allowed.
fn agree(ours: &[f32], exact: &[f32]) -> Checked<f64> {
    let size = exact.iter().fold(0f32, |m, x| m.max(x.abs()));
    let worst = ours.iter().zip(exact).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
    let right = ours.len() == exact.len() && worst <= 1e-3 * size;
    ensure(right, || format!("at small shapes it is {worst} away from the reference, whose largest number is {size}"))?;
    Ok((worst / (1e-3 * size)) as f64)
}
fn resnet(s: Scale) -> Result<Net> {
    let net = ResNet::fifty(&mut ModelWeights::default(), s)?;
    let size = s.of(224, 32);
    let x = tensor(&[1, 3, size, size], 1);
    Ok(Box::new(move || net.of(&x, false)))
}
/// The same network held as codes, which gives at small shapes nearly what the floats give there on the plain interpreter.
fn infer_coded(scale: Scale, build: fn(Scale) -> Result<Net>, floats: fn(Scale) -> Result<Net>) -> Checked<Prepared> {
    let verify = move || {
        let exact = Device::reference().scoped(|| no_grad(|| floats(Scale::SMALL)?()?.to_vec_as::<f64>()))?;
        near(DType::BF16, &no_grad(|| build(Scale::SMALL)?()?.to_vec_as::<f64>())?, &exact)
    };
    Ok(prepared(Rc::new(build(scale)?), verify))
}
/// Static codes: convolutions have the normalisation in them, and the range of this image.
fn coded_resnet(s: Scale) -> Result<Net> {
    let mut weights = ModelWeights::default();
    let net = ResNet::fifty(&mut weights, s)?;
    let size = s.of(224, 32);
    let x = tensor(&[1, 3, size, size], 1);
    weights.calibrate(|| no_grad(|| net.of(&x, false)?.materialize()))?;
    weights.quantize(BYTES, true)?;
    Ok(Box::new(move || net.of(&x, false)))
}
/// Dynamic codes: those of each token by its own range.
fn coded_minilm(s: Scale) -> Result<Net> {
    let mut weights = ModelWeights::default();
    let net = MiniLm::new(&mut weights, s)?;
    weights.quantize(BYTES, true)?;
    let ids = tokens(s.of(32, 2), s.of(128, 7), s.of(30522, 50));
    Ok(Box::new(move || net.of(&ids)))
}
fn minilm(s: Scale) -> Result<Net> {
    let net = MiniLm::new(&mut ModelWeights::default(), s)?;
    let ids = tokens(s.of(32, 2), s.of(128, 7), s.of(30522, 50));
    Ok(Box::new(move || net.of(&ids)))
}

/// GPT-2 small with random weights, and a prompt.
struct Language {
    net: Gpt,
    weights: ModelWeights,
    prompt: Tensor,
    length: usize,
    vocabulary: usize,
}
fn language(s: Scale) -> Result<Language> {
    let vocabulary = s.of(50257, 97);
    let sizes = GptSizes { vocabulary, context: s.of(1024, 64), layers: s.of(12, 2), heads: s.of(12, 3), width: s.of(768, 12), bias: true };
    let length = s.of(64, 5);
    let mut weights = ModelWeights::default();
    Ok(Language { net: Gpt::new(&mut weights, &sizes)?, weights, prompt: tokens(1, length, vocabulary), length, vocabulary })
}
impl Language {
    /// The prompt into empty caches; the logits of its last position.
    fn prompted(&self, caches: &[BlockCache]) -> Result<Tensor> {
        self.net.of(&self.prompt, Some((caches, 0)))
    }
    /// So many greedy tokens after the prompt, one at a time; each is on the host before the next is begun.
    fn greedy(&self, caches: &[BlockCache], first: &Tensor, count: usize) -> Result<Vec<i64>> {
        let mut token = first.clone();
        let mut all = Vec::with_capacity(count);
        for k in 0..count {
            token = self.net.of(&token, Some((caches, self.length + k)))?.argmax(2);
            all.push(token.item::<i64>()?);
        }
        Ok(all)
    }
}
fn prefill(scale: Scale) -> Checked<Prepared> {
    let l = language(scale)?;
    Ok(Prepared::checked(move || no_grad(|| black_box(l.prompted(&l.net.caches(l.length)?)?).materialize()), || check_decoding(None)))
}
/// What matrices are held as in the place of f32.
#[derive(Clone, Copy)]
enum HeldAs {
    /// Those of 8 bits are multiplied with codes of x, others with its numbers.
    Codes(Packing),
    Half(DType),
}
impl HeldAs {
    fn hold(self, weights: &ModelWeights) -> Result<()> {
        match self {
            HeldAs::Codes(packing) => weights.quantize(packing, packing.bits == 8),
            HeldAs::Half(dtype) => weights.halve(dtype),
        }
    }
}
/// So many greedy tokens.
fn decode(scale: Scale, stored: Option<HeldAs>) -> Checked<Prepared> {
    let (l, count) = (language(scale)?, scale.of(64, 4));
    if let Some(stored) = stored {
        stored.hold(&l.weights)?;
    }
    let caches = l.net.caches(l.length + count)?;
    let first = no_grad(|| Ok::<_, adamant::Error>(l.prompted(&caches)?.argmax(2)))?;
    first.materialize()?;
    Ok(Prepared::checked(move || no_grad(|| l.greedy(&caches, &first, count).map(|all| drop(black_box(all)))), move || check_decoding(stored)))
}
/// At small shapes: the logits are the reference's, and decoding with caches gives the tokens that running the whole
/// text anew for each token gives.
fn check_decoding(stored: Option<HeldAs>) -> Checked<f64> {
    let language = || {
        let l = language(Scale::SMALL)?;
        match stored {
            Some(HeldAs::Codes(packing)) => HeldAs::Codes(Packing { group: packing.group.map(|_| 4), ..packing }).hold(&l.weights)?,
            Some(half) => half.hold(&l.weights)?,
            None => {}
        }
        Ok::<_, adamant::Error>(l)
    };
    let small = || {
        let l = language()?;
        no_grad(|| l.prompted(&l.net.caches(l.length)?)?.to_vec::<f32>())
    };
    let worst = agree(&small()?, &Device::reference().scoped(small)?)?;
    let l = language()?;
    let caches = l.net.caches(l.length + 6)?;
    let (cached, anew) = no_grad(|| {
        let first = l.prompted(&caches)?.argmax(2);
        let mut text = l.prompt.to_vec::<i64>()?;
        text.push(first.item::<i64>()?);
        let cached = l.greedy(&caches, &first, 6)?;
        for _ in 0..6 {
            let logits = l.net.of(&Tensor::from_vec(text.clone(), [1, text.len()]), None)?;
            text.push(logits.narrow(1, text.len() - 1, 1).argmax(2).item::<i64>()?);
        }
        Ok::<_, adamant::Error>((cached, text.split_off(l.length + 1)))
    })?;
    ensure(cached == anew, || format!("with caches the tokens are {cached:?}, without {anew:?}"))?;
    ensure(cached.iter().all(|&t| t >= 0 && (t as usize) < l.vocabulary), || "a token is outside the vocabulary".into())?;
    Ok(worst)
}
