//! Quantized models in safetensors files: tensors under the model's names, and the scheme of every weight of codes in the file's
//! metadata, so that a reader needs nothing but the file and the model's type.
//!
//! The metadata's `quantization` is JSON: `{"version": 1, "weights": {"fc.weight": {"bits": 8, "group": null, "symmetric": true,
//! "shape": [10, 64], "input": "token"}}}`. Scales are f32 or f16, as their tensor says. A number of row r and column c is
//! `(code - zero point) · scale` of its group; codes of fewer than 8 bits lie side by side in the bytes of a row, the first in the
//! lowest bits, and symmetric ones are stored plus `2^(bits - 1)`. Of norms that were folded it has `"folded": [["conv1", "bn1"]]`. What
//! other programs' weights and NF4 have beside that is said where it is so, and the version is 2 then: `"levels": "normal_float"`,
//! `"minimum": true` (`fc.weight_minimum` is added to all of a group), `"order": true` (column k of the codes is column
//! `fc.weight_order[k]`), `"transposed": true` (of a parameter `[in, out]`), `"signed_scales": true` (some are below 0).
use crate::{
    fuse::{folded_pairs, shape_as_folded},
    select::{PlacedParam, placed_params},
};
use adamant_core::{
    Device, Error, ErrorKind, Origin, Result, Tensor,
    composite::packed::{Activations, CodeLevels, Packing},
    functional::PackedWeight,
};
use adamant_formats::safetensors::{self, SafeTensors};
use adamant_nn::{InputCodes, Param, Walk, nearest};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

/// The name in a file's metadata.
const KEY: &str = "quantization";
/// Of schemes that say more than [`Packing`] does; others are of version 1.
const VERSION: u32 = 2;

#[derive(Serialize)]
struct SavedScheme {
    version: u32,
    weights: BTreeMap<String, SavedWeight>,
    /// layers, each with the norm that is folded into it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    folded: Vec<[String; 2]>,
}
/// [`SavedScheme`] before its weights were looked at, so that an error names the one that it is about.
#[derive(Deserialize)]
struct ReadScheme {
    version: u32,
    weights: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    folded: Vec<[String; 2]>,
}
#[derive(Serialize, Deserialize)]
struct SavedWeight {
    bits: u32,
    group: Option<usize>,
    symmetric: bool,
    shape: Vec<usize>,
    /// [`Activations::name`]
    input: String,
    /// [`CodeLevels::name`], unless they are even
    #[serde(default, skip_serializing_if = "Option::is_none")]
    levels: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    minimum: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    order: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    transposed: bool,
    /// are there scales below 0?
    #[serde(default, skip_serializing_if = "is_false")]
    signed_scales: bool,
}
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(of: &bool) -> bool {
    !of
}
/// Writes parameters and saved buffers of a model with the schemes of its weights of codes. The file appears whole or not at all.
///
/// ```
/// # use adamant_core::{DType, Tensor};
/// # use adamant_nn::{Linear, Module};
/// # use adamant_quant::{LayerKind, load_quantized, quantize_dynamic, save_quantized};
/// # use adamant_backend_cpu as _;
/// # let folder = std::env::temp_dir().join(format!("adamant-quantized-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// # let file = folder.join("layer.safetensors");
/// let layer = Linear::new(64, 8)?;
/// quantize_dynamic(&layer, &[LayerKind::Linear], DType::I8)?;
/// save_quantized(&layer, &file)?;
/// let fresh = Linear::new(64, 8)?;
/// load_quantized(&fresh, &file)?;
/// let x = Tensor::ones([2, 64]);
/// assert_eq!(fresh.forward(&x)?.to_vec::<f32>()?, layer.forward(&x)?.to_vec::<f32>()?);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A model without weights of codes; those of [`safetensors::save`].
#[track_caller]
pub fn save_quantized(model: &(impl Walk + ?Sized), path: impl AsRef<Path>) -> Result<()> {
    let mut weights = BTreeMap::new();
    for PlacedParam { path, param, .. } in placed_params(model) {
        let Some(packed) = param.packed() else { continue };
        let (weight, input) = (packed.weight()?, packed.input()?);
        let Packing { bits, group, symmetric } = weight.packing();
        let saved = SavedWeight {
            bits,
            group,
            symmetric,
            shape: weight.shape().to_vec(),
            input: input.activations().name().into(),
            levels: (weight.levels() != CodeLevels::Even).then(|| weight.levels().name().into()),
            minimum: weight.minimum().is_some(),
            order: weight.order().is_some(),
            transposed: packed.is_transposed(),
            signed_scales: weight.scale().to_vec_as::<f32>()?.iter().any(|s| *s < 0.0),
        };
        weights.insert(path, saved);
    }
    if weights.is_empty() {
        return Err(Error::new("save_quantized", ErrorKind::Argument("the model has no weights of codes".into()))
            .hint("quantize it first (`quantize_model`), or save its state dict as it is"));
    }
    let says_more = weights.values().any(|w| w.levels.is_some() || w.minimum || w.order || w.transposed || w.signed_scales);
    let text = serde_json::to_string(&SavedScheme { version: if says_more { VERSION } else { 1 }, weights, folded: folded_pairs(model) });
    let text = text.map_err(|e| Error::new("save_quantized", ErrorKind::Internal(e.to_string())))?;
    safetensors::save(path, model.state_dict(), &BTreeMap::from([(KEY.to_string(), text)]))
}
/// Reads what [`save_quantized`] wrote into a model of the same type, of floats: its weights become codes by the file's schemes.
///
/// # Errors
/// A file without schemes, or with another version's; a weight that the model lacks, with the nearest; codes, scales or zero points
/// of another length, shape or dtype; scales that are no finite numbers above 0, zero points that are no codes; schemes of one
/// weight that differ; norms that are folded in the file and cannot be in the model; names that are missing or too many. Then the model is as it was.
#[track_caller]
pub fn load_quantized(model: &(impl Walk + ?Sized), path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let file = SafeTensors::open(path)?;
    let scheme = scheme(path, &file)?;
    let known = folded_pairs(model);
    let fresh: Vec<[String; 2]> = scheme.folded.iter().filter(|pair| !known.contains(pair)).cloned().collect();
    let told = |e: Error| refused(path, format!("a norm that is folded in it cannot be in the model: {}", e.kind())).hint(DAMAGED);
    let foldings = shape_as_folded("load_quantized", model, &fresh).map_err(told)?;
    let loaded = load_codes(model, path, &file, &scheme);
    if loaded.is_err() {
        foldings.undo()?;
    }
    loaded
}
#[track_caller]
fn load_codes(model: &(impl Walk + ?Sized), path: &Path, file: &SafeTensors, scheme: &SavedScheme) -> Result<()> {
    let device = Device::current()?;
    let state = file.names().into_iter().map(|name| file.tensor(&name, device).map(|t| (name, t))).collect::<Result<Vec<_>>>()?;
    let tensors: HashMap<&str, &Tensor> = state.iter().map(|(name, t)| (name.as_str(), t)).collect();
    let params = placed_params(model);
    let mut made: Vec<MadeWeight> = Vec::new();
    for (name, saved) in &scheme.weights {
        let Some(placed) = params.iter().find(|p| p.path == *name) else {
            let error = refused(path, format!("it has codes of `{name}`, which the model lacks"));
            let near = nearest(name, params.iter().map(|p| p.path.as_str()));
            return Err(error.hint(near.map_or(DAMAGED.to_string(), |near| format!("the nearest parameter is `{near}`"))));
        };
        let (weight, input) = saved.read(name, &tensors).map_err(|text| refused(path, text).hint(DAMAGED))?;
        if let Some(known) = made.iter().find(|known| known.param.same(&placed.param)) {
            let what = |w: &PackedWeight| (w.packing(), w.levels(), w.shape());
            if (what(&known.weight), &known.input, known.is_transposed) != (what(&weight), &input, saved.transposed) {
                return Err(refused(path, format!("`{name}` is tied to another parameter of the model, and the two have schemes that differ")).hint(DAMAGED));
            }
            continue;
        }
        let (wanted, mut found) = (placed.param.meta().shape, weight.shape().to_vec());
        if saved.transposed {
            found.reverse();
        }
        if wanted[..] != found[..] && !placed.param.is_uninitialized() {
            return Err(refused(path, format!("`{name}` has shape {found:?} in the file and {wanted} in the model")).hint(DAMAGED));
        }
        made.push(MadeWeight { param: placed.param.clone(), weight, input, is_transposed: saved.transposed });
    }
    if made.is_empty() {
        return Err(refused(path, "its schemes name no weight".into()).hint(DAMAGED));
    }
    put_codes(model, &made, || Ok(state))
}
/// A weight of codes that is to take the place of a parameter's numbers.
pub(crate) struct MadeWeight {
    pub param: Param,
    pub weight: PackedWeight,
    pub input: InputCodes,
    /// the parameter is `[in, out]`
    pub is_transposed: bool,
}
/// Puts codes in their places and loads a state dict that has them; after an error the model is the one of floats that it was.
#[track_caller]
pub(crate) fn put_codes(model: &(impl Walk + ?Sized), made: &[MadeWeight], state: impl FnOnce() -> Result<Vec<(String, Tensor)>>) -> Result<()> {
    let before: Vec<Tensor> = made.iter().map(|m| m.param.detached()).collect();
    let mut packed = 0;
    let loaded = made.iter().try_for_each(|MadeWeight { param, weight, input, is_transposed }| {
        if *is_transposed { param.pack_transposed(weight, input.clone()) } else { param.pack(weight, input.clone()) }?;
        packed += 1;
        Ok(())
    });
    let state = loaded.and_then(|()| state());
    let loaded = match state {
        Ok(state) => model.load_state_dict(&state),
        Err(e) => Err(e),
    };
    if loaded.is_err() {
        for (MadeWeight { param, .. }, value) in made.iter().zip(&before).take(packed) {
            param.unpack()?;
            param.set(value)?;
        }
    }
    loaded
}
/// Has a file the schemes of a quantized model?
///
/// # Errors
/// It cannot be read.
#[track_caller]
pub fn is_quantized(path: impl AsRef<Path>) -> Result<bool> {
    Ok(SafeTensors::open(path)?.texts().contains_key(KEY))
}
#[track_caller]
fn scheme(path: &Path, file: &SafeTensors) -> Result<SavedScheme> {
    let texts = file.texts();
    let Some(text) = texts.get(KEY) else {
        return Err(refused(path, "it has no schemes of quantized weights".into()).hint("`load_state_dict` reads a file of floats"));
    };
    let told = |e: serde_json::Error| refused(path, format!("its schemes cannot be read: {e}")).hint(DAMAGED);
    let read: ReadScheme = serde_json::from_str(text).map_err(told)?;
    if !(1..=VERSION).contains(&read.version) {
        let text = format!("its schemes are of version {}, known are 1 to {VERSION}", read.version);
        return Err(refused(path, text).hint("a later Adamant wrote it: read it with that one, or quantize the model again"));
    }
    let each = read.weights.into_iter().map(|(name, weight)| match serde_json::from_value(weight) {
        Ok(weight) => Ok((name, weight)),
        Err(e) => Err(refused(path, format!("the scheme of `{name}` cannot be read: {e}")).hint(DAMAGED)),
    });
    Ok(SavedScheme { version: read.version, weights: each.collect::<Result<_>>()?, folded: read.folded })
}
impl SavedWeight {
    fn read(&self, name: &str, tensors: &HashMap<&str, &Tensor>) -> std::result::Result<(PackedWeight, InputCodes), String> {
        let tensor = |suffix: &str| {
            let name = format!("{name}{suffix}");
            tensors.get(name.as_str()).copied().ok_or_else(|| format!("it lacks `{name}`"))
        };
        let packing = Packing { bits: self.bits, group: self.group, symmetric: self.symmetric };
        let zero_point = if self.symmetric { None } else { Some(tensor("_zero_point")?) };
        let told = |e: Error| format!("`{name}`: {}", e.kind());
        let weight = PackedWeight::new(packing, self.shape.clone(), tensor("")?, tensor("_scale")?, zero_point).map_err(told)?;
        let levels = self.levels.as_deref().map_or(Some(CodeLevels::Even), CodeLevels::named);
        let levels = levels.ok_or_else(|| format!("`{name}`: levels of the kind {:?} are not known", self.levels))?;
        let mut weight = weight.with_levels(levels).map_err(told)?;
        if self.minimum {
            weight = weight.with_minimum(tensor("_minimum")?).map_err(told)?;
        }
        if self.order {
            weight = weight.with_order(tensor("_order")?).map_err(told)?;
        }
        if self.transposed && weight.shape().rank() != 2 {
            return Err(format!("`{name}`: a weight {} is no transposed matrix", weight.shape()));
        }
        self.check_numbers(&weight).map_err(|text| format!("`{name}`: {text}"))?;
        let input = match Activations::named(&self.input) {
            Some(Activations::Float) => InputCodes::Float,
            Some(Activations::PerToken { symmetric }) => InputCodes::PerToken { symmetric },
            Some(Activations::Given) => {
                InputCodes::Given { scale: tensor("_input_scale")?.item().map_err(told)?, zero_point: tensor("_input_zero_point")?.item().map_err(told)? }
            }
            None => return Err(format!("`{name}`: inputs of the kind {:?} are not known", self.input)),
        };
        Ok((weight, input))
    }
    /// Scales and zero points that could have been written.
    fn check_numbers(&self, weight: &PackedWeight) -> std::result::Result<(), String> {
        let told = |e: Error| e.kind().to_string();
        let scales = weight.scale().to_vec_as::<f32>().map_err(told)?;
        if let Some((at, scale)) = scales.iter().enumerate().find(|(_, s)| !(s.is_finite() && (**s > 0.0 || (self.signed_scales && **s < 0.0)))) {
            return Err(format!("scale {at} is {scale}, and a scale is a finite number {}", if self.signed_scales { "other than 0" } else { "above 0" }));
        }
        let minima = weight.minimum().map_or(Ok(Vec::new()), Tensor::to_vec_as::<f32>).map_err(told)?;
        if let Some((at, minimum)) = minima.iter().enumerate().find(|(_, m)| !m.is_finite()) {
            return Err(format!("minimum {at} is {minimum}, and a minimum is a finite number"));
        }
        let order = weight.order().map_or(Ok(Vec::new()), Tensor::to_vec::<i32>).map_err(told)?;
        let mut named = vec![false; order.len()];
        for (at, column) in order.iter().enumerate() {
            match usize::try_from(*column).ok().and_then(|column| named.get_mut(column)) {
                Some(named) if !*named => *named = true,
                _ => return Err(format!("column {at} stands at {column}, and each of {} stands somewhere else", order.len())),
            }
        }
        let (_, most) = weight.packing().range();
        let zero_points = weight.zero_point().map_or(Ok(Vec::new()), |z| z.to_vec::<u8>()).map_err(told)?;
        match zero_points.iter().enumerate().find(|(_, z)| i32::from(**z) > most) {
            Some((at, zero)) => Err(format!("zero point {at} is {zero}, and codes of {} bits end at {most}", self.bits)),
            None => Ok(()),
        }
    }
}
/// What to do about a file that is not as it was written.
const DAMAGED: &str = "the file is damaged, or was written for a model of another type: write it again with `save_quantized`";

#[track_caller]
fn refused(path: &Path, text: String) -> Error {
    Error::at("load_quantized", ErrorKind::File { path: path.display().to_string(), reason: text }, Origin::here())
}
