//! The kinds of files, a good one of each, with what reads it and what must hold then.
use super::{
    FileOutcome,
    parts::{FileParts, GoodFiles},
};
use adamant::{
    DType, Result, Tensor,
    nn::{Conv2d, Embedding, Flatten, Linear, Lstm, Module, Relu, Sequential, Unflatten, Walk, init, manual_seed},
    quant::{
        InputScheme, LayerScheme, QuantizationConfig, is_quantized, load_quantized,
        lora::{LoraAdapters, LoraConfig},
        observe::Observation,
        prune::{PruneImportance, Pruner, load_sparse, save_sparse},
        quantize_model, save_quantized,
    },
};
use adamant_core::composite::packed::Packing;
use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
};

pub(super) type Wrong = (FileOutcome, String);
pub(super) type Reader = Box<dyn Fn(&Path, &PathBuf, u64) -> std::result::Result<(), Wrong>>;
/// A kind of file, and what reads it.
pub struct PackedSubject {
    pub name: String,
    pub good: GoodFiles,
    pub read: Reader,
}
/// Names and bytes of what a model holds.
pub(super) type Held = Vec<(String, Vec<u8>)>;
pub(super) fn held(state: &[(String, Tensor)]) -> Result<Held> {
    let mut all = state.iter().map(|(name, t)| Ok((format!("{name} {}", t.dtype()?), t.to_bytes()?))).collect::<Result<Held>>()?;
    all.sort();
    Ok(all)
}
fn refused(e: &adamant::Error) -> Wrong {
    let text = e.to_string();
    // A reader of a log must know what of the file was wrong.
    let outcome = if matches!(e.kind(), adamant::ErrorKind::Internal(_)) || text.is_empty() { FileOutcome::RefusedWithoutName } else { FileOutcome::Refused };
    (outcome, text)
}
pub(super) fn wrongly(text: impl std::fmt::Display) -> Wrong {
    (FileOutcome::ReadWrongly, text.to_string())
}

/// A model of a kind, always the same, and inputs for it.
fn model(kind: &str) -> Result<(Sequential, Tensor)> {
    manual_seed(11);
    let net = Sequential::new();
    let numbers = |shape: &[usize]| init::normal(shape, 0.0, 1.0);
    Ok(match kind {
        "lstm" => (net.add(Lstm::new(8, 8)?).add(Linear::new(8, 3)?), numbers(&[2, 2, 8])?),
        "embedding" => (net.add(Embedding::new(12, 8)?).add(Linear::new(8, 12)?), Tensor::from_vec(vec![3i64, 0, 11], [3])),
        "conv" => {
            let net = net.add(Unflatten::new(1, [1, 4, 4])).add(Conv2d::new(1, 8, 3)?).add(Relu::new()).add(Flatten::new());
            (net.add(Linear::new(32, 3)?), numbers(&[2, 16])?)
        }
        _ => (net.add(Linear::new(16, 16)?).add(Relu::new()).add(Linear::no_bias(16, 5)?), numbers(&[3, 16])?),
    })
}
/// A model that is used again until something has changed it.
pub(super) struct ReusedModel {
    make: Box<dyn Fn() -> Result<Sequential>>,
    kept: RefCell<Option<(Sequential, Held)>>,
}
impl ReusedModel {
    pub(super) fn new(make: impl Fn() -> Result<Sequential> + 'static) -> ReusedModel {
        ReusedModel { make: Box::new(make), kept: RefCell::new(None) }
    }
    /// Calls a reader; where that refuses, the model must be what it was.
    pub(super) fn with<R>(&self, number: u64, read: impl FnOnce(&Sequential) -> Result<R>) -> std::result::Result<(R, Sequential), Wrong> {
        let (model, before) = match self.kept.take() {
            Some(kept) => kept,
            None => {
                let model = (self.make)().map_err(wrongly)?;
                let before = held(&model.state_dict()).map_err(wrongly)?;
                (model, before)
            }
        };
        match read(&model) {
            Ok(done) => Ok((done, model)),
            Err(e) => {
                if number.is_multiple_of(4) && held(&model.state_dict()).map_err(wrongly)? != before {
                    return Err((FileOutcome::ModelChanged, e.to_string()));
                }
                *self.kept.borrow_mut() = Some((model, before));
                Err(refused(&e))
            }
        }
    }
}
fn of_codes(folder: &Path, kind: &'static str, scheme: LayerScheme, name: String) -> Result<PackedSubject> {
    let (net, x) = model(kind)?;
    quantize_model(&net, &QuantizationConfig::with(scheme), std::slice::from_ref(&x))?;
    let file = folder.join("good");
    save_quantized(&net, &file)?;
    let good = GoodFiles { file: FileParts::read(&file).map_err(told)?, folder: None, other: None };
    let reused = ReusedModel::new(move || Ok(model(kind)?.0));
    let read = move |place: &Path, again: &PathBuf, number: u64| {
        // It may say either, and nothing else.
        let _ = is_quantized(place);
        let ((), net) = reused.with(number, |net| load_quantized(net, place))?;
        let accepted = || -> Result<Option<String>> {
            for (path, param) in net.leaves() {
                if path.ends_with("_scale") {
                    let scales = param.detached().to_vec_as::<f32>()?;
                    if let Some(s) = scales.iter().find(|s| !(s.is_finite() && **s > 0.0)) {
                        return Ok(Some(format!("`{path}` holds {s}")));
                    }
                }
            }
            net.forward(&x)?.to_bytes()?;
            save_quantized(&net, again)?;
            let (fresh, _) = model(kind)?;
            load_quantized(&fresh, again)?;
            Ok((held(&fresh.state_dict())? != held(&net.state_dict())?).then(|| "written and read again it is another one".to_string()))
        };
        match accepted() {
            Ok(None) => Ok(()),
            Ok(Some(text)) => Err(wrongly(text)),
            Err(e) => Err(wrongly(e)),
        }
    };
    Ok(PackedSubject { name, good, read: Box::new(read) })
}
pub(super) fn told(e: std::io::Error) -> adamant::Error {
    adamant::Error::new("fuzz", adamant::ErrorKind::Internal(e.to_string()))
}
fn of_sparse(folder: &Path, name: &str, state: &[(String, Tensor)]) -> Result<PackedSubject> {
    let file = folder.join("good");
    save_sparse(&file, state)?;
    let good = GoodFiles { file: FileParts::read(&file).map_err(told)?, folder: None, other: None };
    let read = |place: &Path, again: &PathBuf, _: u64| {
        let state = load_sparse(place).map_err(|e| refused(&e))?;
        let accepted = || -> Result<bool> {
            let mut names: Vec<&String> = state.iter().map(|(name, _)| name).collect();
            names.sort();
            let n = names.len();
            names.dedup();
            let before = held(&state)?;
            save_sparse(again, &state)?;
            Ok(names.len() == n && held(&load_sparse(again)?)? == before)
        };
        match accepted() {
            Ok(true) => Ok(()),
            Ok(false) => Err(wrongly("written and read again it is another one, or a name stands in it twice")),
            Err(e) => Err(wrongly(e)),
        }
    };
    Ok(PackedSubject { name: name.into(), good, read: Box::new(read) })
}
fn of_adapters(folder: &Path, kind: &'static str, codes: Option<LayerScheme>) -> Result<PackedSubject> {
    let make = move || -> Result<Sequential> {
        let (net, x) = model(kind)?;
        if let Some(scheme) = codes {
            quantize_model(&net, &QuantizationConfig::with(scheme), std::slice::from_ref(&x))?;
        }
        Ok(net)
    };
    let net = make()?;
    LoraConfig::new(2, 4.0, ["*"]).apply(&net)?.save(folder.join("adapters"))?;
    let config = fs::read(folder.join("adapters/adapter_config.json")).map_err(told)?;
    let config = serde_json::from_slice(&config).map_err(|e| told(e.into()))?;
    let file = FileParts::read(&folder.join("adapters/adapter_model.safetensors")).map_err(told)?;
    let good = GoodFiles { file, folder: Some(("adapter_model.safetensors", "adapter_config.json", config)), other: None };
    let (_, x) = model(kind)?;
    let reused = ReusedModel::new(make);
    let read = move |place: &Path, again: &PathBuf, number: u64| {
        let (adapters, net) = reused.with(number, |net| LoraAdapters::load(net, place.with_extension("folder")))?;
        let accepted = || -> Result<bool> {
            net.eval();
            net.forward(&x)?.to_bytes()?;
            adapters.save(again.with_extension("adapters"))?;
            let fresh = make()?;
            let twice = LoraAdapters::load(&fresh, again.with_extension("adapters"))?;
            Ok(held(&twice.state_dict())? == held(&adapters.state_dict())?)
        };
        match accepted() {
            Ok(true) => Ok(()),
            Ok(false) => Err(wrongly("written and read again they are others")),
            Err(e) => Err(wrongly(e)),
        }
    };
    Ok(PackedSubject { name: format!("adapters {kind}{}", if codes.is_some() { " over codes" } else { "" }), good, read: Box::new(read) })
}
/// All kinds.
pub fn subjects(folder: &Path) -> Result<Vec<PackedSubject>> {
    let inputs = [
        InputScheme::Float,
        InputScheme::PerToken { symmetric: true },
        InputScheme::PerToken { symmetric: false },
        InputScheme::Calibrated(Observation::MinMax),
    ];
    let mut all = Vec::new();
    for (k, kind) in ["linear", "lstm", "embedding"].into_iter().enumerate() {
        for (j, (bits, group)) in [(8, None), (8, Some(8)), (4, None), (4, Some(8)), (3, Some(8))].into_iter().enumerate() {
            for symmetric in [true, false] {
                let scales = if (k + j) % 2 == 0 { DType::F32 } else { DType::F16 };
                let scheme = LayerScheme { packing: Packing { bits, group, symmetric }, scales, input: inputs[(k + j) % 4] };
                let name = format!("codes {kind} {bits} bits{}{}", if group.is_some() { " groups" } else { "" }, if symmetric { "" } else { " affine" });
                all.push(of_codes(folder, kind, scheme, name)?);
            }
        }
    }
    all.push(of_codes(folder, "conv", LayerScheme::int8(inputs[3]), "codes conv".into())?);
    let (net, _) = model("linear")?;
    Pruner::new(PruneImportance::Magnitude).prune(&net, 0.9)?;
    all.push(of_sparse(folder, "sparse masks", &net.state_dict())?);
    let zeros = |every: usize| -> Vec<f32> { (0..600).map(|k| if k % every == 0 { k as f32 } else { 0.0 }).collect() };
    let state = vec![
        ("a".to_string(), Tensor::from_vec(zeros(40), [20, 30])),
        ("b".to_string(), Tensor::from_vec(zeros(3), [600]).cast(DType::F16)),
        ("c".to_string(), Tensor::from_vec(zeros(599), [2, 300]).ne(0.0)),
        ("d".to_string(), Tensor::from_vec(vec![1i64, 2, 3], [3])),
    ];
    all.push(of_sparse(folder, "sparse tensors", &state)?);
    for (kind, codes) in [("linear", None), ("embedding", None), ("linear", Some(LayerScheme::weights(4)))] {
        all.push(of_adapters(folder, kind, codes)?);
    }
    all.extend(super::foreign::subjects(folder)?);
    Ok(all)
}
