//! Weights of codes as other programs write them: Hugging Face's GPTQ and AWQ folders, and GGUF files of llama.cpp. What is read is put
//! into any model by names, all of it or, after an error, nothing; the codes are multiplied as codes.
//!
//! Names in files are told apart from the model's own by a function that every reader takes: it says what a name in the file is in the
//! model, `None` for what is passed over. `Some(name.to_string())` is right where they are the same; `adamant_models::Naming::own_names` makes
//! one for a network of transformers.
mod awq;
mod config;
mod gguf;
mod gptq;
mod raw;

pub use awq::{load_awq, save_awq};
pub use gguf::{load_gguf, save_gguf};
pub use gptq::{GptqFormat, load_gptq, save_gptq};

use crate::{
    file::{MadeWeight, put_codes},
    select::{PlacedParam, joined, placed_params},
};
use adamant_core::{DType, Device, Error, ErrorKind, Origin, Result, Tensor, functional::PackedWeight};
use adamant_formats::{
    safetensors,
    weights::{Weights, json},
};
use adamant_nn::{InputCodes, Walk, nearest};
use raw::RawCodes;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::Path,
};

/// What a file has for a model, by the model's names.
#[derive(Default)]
struct FoundTensors {
    codes: Vec<(String, PackedWeight)>,
    numbers: Vec<(String, Tensor)>,
}
/// What is said of a weight of transformers' `Conv1D`, whose parameter is `[in, out]`.
const TRANSPOSED: &str = "Conv1D";
/// The suffixes of the tensors that hold a weight of codes.
const PARTS: [&str; 7] = ["", "_scale", "_zero_point", "_minimum", "_order", "_input_scale", "_input_zero_point"];

/// The paths of the weights of layers that multiply by the transpose.
fn transposed_weights(model: &(impl Walk + ?Sized)) -> BTreeSet<String> {
    let all = model.named_modules().into_iter().filter(|(_, module)| module.kind == TRANSPOSED);
    all.map(|(path, _)| joined(&path, "weight")).collect()
}
/// Puts what was found into a model.
#[track_caller]
fn install(op: &'static str, path: &Path, model: &(impl Walk + ?Sized), found: FoundTensors) -> Result<()> {
    let (params, transposed) = (placed_params(model), transposed_weights(model));
    let mut made: Vec<MadeWeight> = Vec::new();
    for (name, weight) in found.codes {
        let Some(placed) = params.iter().find(|p| p.path == name) else {
            let near = nearest(&name, params.iter().map(|p| p.path.as_str()));
            let hint = near.map_or("say what names in the file are in the model".to_string(), |near| format!("the nearest parameter is `{near}`"));
            return Err(refused(op, path, format!("it has codes of `{name}`, which the model lacks")).hint(hint));
        };
        if placed.param.packed().is_some() || placed.param.is_uninitialized() || placed.is_computed {
            return Err(refused(op, path, format!("`{name}` holds no numbers that codes could take the place of"))
                .hint("load into a fresh model of floats that has run once, without adapters"));
        }
        let is_transposed = transposed.contains(&name);
        let mut shape = weight.shape().to_vec();
        if is_transposed {
            shape.reverse();
        }
        let wanted = placed.param.meta().shape;
        if wanted[..] != shape[..] {
            return Err(refused(op, path, format!("`{name}` has shape {shape:?} in the file and {wanted} in the model"))
                .hint("the file is of a model of another size or type"));
        }
        if made.iter().any(|known| known.param.same(&placed.param)) {
            return Err(refused(op, path, format!("`{name}` is tied to another parameter of the model, and the file has codes of both"))
                .hint("leave one of them out: let its name be passed over"));
        }
        made.push(MadeWeight { param: placed.param.clone(), weight, input: InputCodes::Float, is_transposed });
    }
    let refuse = Refusing { op, path, here: Origin::here() };
    put_codes(model, &made, || state(&refuse, model, &params, found.numbers))
}
/// Errors about a file, with the user's line.
struct Refusing<'a> {
    op: &'static str,
    path: &'a Path,
    here: Origin,
}
impl Refusing<'_> {
    fn error(&self, reason: String) -> Error {
        refused_at(self.op, self.path, reason, self.here)
    }
}
/// A whole state dict: numbers of the file, codes that were put in place, and what is tied to either.
fn state(refuse: &Refusing<'_>, model: &(impl Walk + ?Sized), params: &[PlacedParam], numbers: Vec<(String, Tensor)>) -> Result<Vec<(String, Tensor)>> {
    let packed: HashMap<&str, bool> = params.iter().map(|p| (p.path.as_str(), p.param.packed().is_some())).collect();
    let is_code = |name: &str| PARTS.iter().any(|part| name.strip_suffix(part).is_some_and(|of| packed.get(of) == Some(&true)));
    let mut given: BTreeMap<String, Tensor> = BTreeMap::new();
    for (name, value) in numbers {
        if packed.get(name.as_str()) == Some(&true) {
            return Err(refuse
                .error(format!("`{name}` has numbers in the file, and codes there or in what it is tied to"))
                .hint("leave one of them out: let its name be passed over"));
        }
        if given.insert(name.clone(), value).is_some() {
            return Err(refuse.error(format!("two tensors of the file are `{name}` of the model")));
        }
    }
    let first_of: HashMap<usize, &str> = params.iter().filter(|p| given.contains_key(&p.path)).map(|p| (p.param.id(), p.path.as_str())).collect();
    let mut state = Vec::new();
    for (name, value) in model.state_dict() {
        if is_code(&name) {
            state.push((name, value));
            continue;
        }
        let tied = params.iter().find(|p| p.path == name).and_then(|p| first_of.get(&p.param.id()).copied());
        match (given.get(&name), tied.and_then(|tied| given.get(tied))) {
            (Some(own), Some(other)) if tied != Some(name.as_str()) && own.to_bytes()? != other.to_bytes()? => {
                let tied = tied.unwrap_or_default();
                return Err(refuse.error(format!("`{name}` and `{tied}` are one parameter of the model and have different values in the file")));
            }
            (Some(value), _) | (None, Some(value)) => state.push((name, value.clone())),
            (None, None) => {}
        }
    }
    let known: BTreeSet<String> = state.iter().map(|(name, _)| name.clone()).collect();
    state.extend(given.into_iter().filter(|(name, _)| !known.contains(name)));
    Ok(state)
}
/// A weight of codes of a model, with what a writer asks of it.
struct WrittenWeight {
    path: String,
    weight: PackedWeight,
}
/// The weights of codes of a model, each once, and its other parameters and buffers. `Conv1D` or `Linear` alone can be read back.
#[track_caller]
fn written(op: &'static str, model: &(impl Walk + ?Sized), any_layer: bool) -> Result<(Vec<WrittenWeight>, Vec<(String, Tensor)>)> {
    let (params, here) = (placed_params(model), Origin::here());
    let layers: BTreeMap<String, &'static str> = model.named_modules().into_iter().map(|(path, module)| (joined(&path, "weight"), module.kind)).collect();
    let (mut all, mut seen, mut parts) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for PlacedParam { path, param, is_computed } in params {
        if is_computed {
            return Err(Error::new(op, ErrorKind::Argument(format!("`{path}` is computed from other parameters")))
                .hint("merge adapters, and remove parametrizations, first"));
        }
        let Some(packed) = param.packed() else { continue };
        parts.extend(PARTS.iter().map(|part| format!("{path}{part}")));
        if !seen.insert(param.id()) {
            continue;
        }
        let told = |text: &str| Error::at(op, ErrorKind::Argument(format!("`{path}` {text}")), here);
        if packed.input()? != InputCodes::Float {
            return Err(told("has inputs that become codes, which such a file cannot say").hint("quantize weights alone (`QuantizationConfig::weights`)"));
        }
        if !any_layer && !matches!(layers.get(&path), Some(&("Linear" | TRANSPOSED))) {
            return Err(told("is no weight of a linear layer, and such a file has codes of those alone").hint("quantize linear layers only (`kinds`)"));
        }
        all.push(WrittenWeight { weight: packed.weight()?, path });
    }
    if all.is_empty() {
        return Err(Error::new(op, ErrorKind::Argument("the model has no weights of codes".into())).hint("quantize it first (`quantize_model`)"));
    }
    let numbers = model.state_dict().into_iter().filter(|(name, _)| !parts.contains(name)).collect();
    Ok((all, numbers))
}
/// What reads and writes the codes of a layer in a folder.
struct LayerTensors<'a> {
    weights: &'a Weights,
    layer: &'a str,
}
impl LayerTensors<'_> {
    /// A matrix of 32-bit words.
    fn words(&self, part: &str) -> std::result::Result<(Vec<u32>, [usize; 2]), String> {
        let name = joined(self.layer, part);
        let (dtype, shape) = self.weights.meta(&name).map_err(|e| e.kind().to_string())?;
        if dtype != DType::I32 {
            return Err(format!("`{part}` is i32, not {dtype}"));
        }
        let [rows, columns] = shape[..] else { return Err(format!("`{part}` is a matrix, not {shape}")) };
        let bytes = self.weights.bytes(&name).map_err(|e| e.kind().to_string())?;
        Ok((bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect(), [rows, columns]))
    }
    /// Scales `[groups, out]` as `[out, groups]`, finite and not below 0, and whether f16 holds them as they are.
    fn scales(&self, shape: [usize; 2]) -> std::result::Result<(Vec<f32>, bool), String> {
        let name = joined(self.layer, "scales");
        let (dtype, found) = self.weights.meta(&name).map_err(|e| e.kind().to_string())?;
        if !matches!(dtype, DType::F16 | DType::BF16 | DType::F32) {
            return Err(format!("`scales` are f16, bf16 or f32, not {dtype}"));
        }
        if found[..] != shape[..] {
            return Err(format!("`scales` have shape {found}, and {shape:?} goes with `qweight`"));
        }
        let scales = self.weights.tensor(&name, Device::current().map_err(|e| e.kind().to_string())?);
        let scales = scales.and_then(|s| s.to_vec_as::<f32>()).map_err(|e| e.kind().to_string())?;
        let [groups, out] = shape;
        if let Some(at) = scales.iter().position(|s| !(s.is_finite() && *s >= 0.0)) {
            return Err(format!("the scale of group {} and output {} is {}", at / out.max(1), at % out.max(1), scales[at]));
        }
        let half = scales.iter().all(|s| adamant_core::f16::from_f32(*s).to_f32() == *s);
        Ok(((0..out * groups).map(|at| scales[at % groups * out + at / groups]).collect(), half))
    }
}
/// Every layer that has a tensor of a name, as the files call it, and the tensors that belong to none of them.
fn layers_of(weights: &Weights, parts: &[&str]) -> (Vec<String>, Vec<String>) {
    let names = weights.names();
    let apart = |name: &'_ str| name.rsplit_once('.').map_or((String::new(), name.to_string()), |(layer, part)| (layer.to_string(), part.to_string()));
    let layers: BTreeSet<String> = names.iter().map(|name| apart(name)).filter(|(_, part)| part == "qweight").map(|(layer, _)| layer).collect();
    let belongs = |name: &str| {
        let (layer, part) = apart(name);
        parts.contains(&part.as_str()) && layers.contains(&layer)
    };
    let others = names.iter().filter(|name| !belongs(name)).map(ToString::to_string).collect();
    (layers.into_iter().collect(), others)
}
/// Reads a folder into a model: layers by `read`, the others as they are.
#[track_caller]
fn load_folder(
    op: &'static str,
    model: &(impl Walk + ?Sized),
    folder: &Path,
    names: &dyn Fn(&str) -> Option<String>,
    parts: &[&str],
    mut read: impl FnMut(&LayerTensors<'_>) -> std::result::Result<RawCodes, String>,
) -> Result<()> {
    let weights = Weights::open(folder)?;
    let (layers, others) = layers_of(&weights, parts);
    if layers.is_empty() {
        return Err(refused(op, folder, "it has no layer with codes (`qweight`)".into()).hint("a folder of floats is read by `load_path`"));
    }
    let (device, here) = (Device::current()?, Origin::here());
    let mut found = FoundTensors::default();
    for layer in layers {
        let Some(own) = names(&joined(&layer, "weight")) else { continue };
        let weight = read(&LayerTensors { weights: &weights, layer: &layer }).and_then(|raw| raw.packed(device));
        let weight = weight.map_err(|text| refused_at(op, folder, format!("the layer `{layer}`: {text}"), here).hint(DAMAGED))?;
        found.codes.push((own, weight));
    }
    for name in others {
        if let Some(own) = names(&name) {
            found.numbers.push((own, weights.tensor(&name, device)?));
        }
    }
    install(op, folder, model, found)
}
/// Writes tensors and configuration of a folder.
#[track_caller]
fn save_folder(
    op: &'static str,
    folder: &Path,
    tensors: Vec<(String, Tensor)>,
    own_name: &str,
    own: &serde_json::Value,
    hub: &serde_json::Value,
) -> Result<()> {
    let here = Origin::here();
    let io = |e: std::io::Error| refused_at(op, folder, e.to_string(), here);
    fs::create_dir_all(folder).map_err(io)?;
    let config = folder.join("config.json");
    let mut all = if config.exists() { json(&config)? } else { serde_json::json!({}) };
    let serde_json::Value::Object(fields) = &mut all else { return Err(refused(op, &config, "it is no configuration".into())) };
    fields.insert("quantization_config".into(), hub.clone());
    safetensors::save(folder.join("model.safetensors"), tensors, &BTreeMap::from([("format".to_string(), "pt".to_string())]))?;
    config::write(op, &folder.join(own_name), own)?;
    config::write(op, &config, &all)
}
/// What to do about a layer that is not as it was written.
const DAMAGED: &str =
    "the folder is damaged, its configuration is of other tensors, or it was packed by another rule: quantize the model again, or load its floats";

#[track_caller]
fn refused(op: &'static str, path: &Path, reason: String) -> Error {
    refused_at(op, path, reason, Origin::here())
}
fn refused_at(op: &'static str, path: &Path, reason: String, here: Origin) -> Error {
    Error::at(op, ErrorKind::File { path: path.display().to_string(), reason: adamant_formats::shown_reason(reason) }, here)
}
