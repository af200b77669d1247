//! Adapters as PEFT's files: names of tensors, `adapter_config.json`. Must not know how an adapter is computed.
//!
//! Source: `peft.utils.save_and_load`, `peft.tuners.lora.LoraConfig`.
use super::{LORA, LoraAdapters, LoraBias, LoraConfig, weight::LoraFactors};
use crate::select::{is_glob, means, refusal};
use adamant_core::{Error, ErrorKind, Result, Tensor};
use adamant_formats::{safetensors, whole};
use adamant_nn::{Param, Walk, nearest};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    path::Path,
};

/// The file of the tensors.
const WEIGHTS: &str = "adapter_model.safetensors";
/// The file of what they are.
const CONFIG: &str = "adapter_config.json";
/// What PEFT writes before the path of a module.
const PREFIX: &str = "base_model.model.";

/// A list of names or a regular expression, as PEFT has it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Targets {
    Names(Vec<String>),
    Expression(String),
}
/// Those of PEFT's entries that say something here. Unknown ones are passed over, what changes the result and is not known is not.
#[derive(Serialize, Deserialize)]
struct AdapterConfig {
    peft_type: String,
    r: usize,
    lora_alpha: f64,
    #[serde(default)]
    lora_dropout: f64,
    target_modules: Option<Targets>,
    #[serde(default)]
    bias: LoraBias,
    #[serde(default)]
    fan_in_fan_out: bool,
    #[serde(default)]
    use_rslora: bool,
    #[serde(default)]
    use_dora: bool,
    #[serde(default)]
    rank_pattern: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    alpha_pattern: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    modules_to_save: Option<Vec<String>>,
    #[serde(default)]
    init_lora_weights: serde_json::Value,
    #[serde(default)]
    inference_mode: bool,
    #[serde(default)]
    task_type: Option<String>,
    #[serde(default)]
    base_model_name_or_path: Option<String>,
}

impl LoraAdapters {
    /// A, B and the trained biases under PEFT's names: `base_model.model.<path>.lora_A.weight`, `.lora_B.weight`, of tables
    /// `.lora_embedding_A` and `.lora_embedding_B`. An adapter of a tied weight stands under its first place.
    pub fn state_dict(&self) -> Vec<(String, Tensor)> {
        self.named().into_iter().map(|(name, p)| (name, p.detached())).collect()
    }
    fn named(&self) -> Vec<(String, Param)> {
        let mut all = Vec::new();
        for adapted in &self.adapted {
            for (letter, p) in [("A", &adapted.weight.a), ("B", &adapted.weight.b)] {
                all.push((tensor_name(adapted.module(), letter, adapted.weight.factors), p.clone()));
            }
        }
        let layers: Vec<&str> = self.adapted.iter().flat_map(|a| &a.layers).map(|layer| layer.path()).collect();
        for (path, p) in &self.biases {
            let of = path.rsplit_once('.').map_or("", |(of, _)| of);
            // PEFT wraps a layer that has an adapter, and the layer's own parameters move one name down.
            let name = if layers.contains(&of) { format!("{PREFIX}{}base_layer.bias", dotted(of)) } else { format!("{PREFIX}{path}") };
            all.push((name, p.clone()));
        }
        all
    }
    /// Takes over what [`LoraAdapters::state_dict`] gave, or PEFT has written, in place: an optimizer's parameters stay the same.
    ///
    /// # Errors
    /// Adapters that are merged; a missing name (but for a bias, which stays then) or one that no adapter has, with the nearest; another
    /// shape. Then nothing has changed.
    #[track_caller]
    pub fn load_state_dict(&self, state: &[(String, Tensor)]) -> Result<()> {
        if self.merged {
            return Err(refusal(LORA, "the adapters are merged: what is loaded would not be seen".into()).hint("call `unmerge` before"));
        }
        let own = self.named();
        let given: BTreeMap<String, &Tensor> = state.iter().map(|(name, t)| (known_spelling(name, &own), t)).collect();
        if let Some((unknown, _)) = given.iter().find(|(name, _)| own.iter().all(|(own, _)| own != *name)) {
            return Err(no_such(unknown, "adapter has the tensor", own.iter().map(|(name, _)| name.as_str())));
        }
        let mut writes = Vec::new();
        for (name, p) in &own {
            let Some(value) = given.get(name) else {
                // PEFT leaves out the bias of a layer with an adapter where it trains those alone.
                if name.ends_with("bias") {
                    continue;
                }
                return Err(refusal(LORA, format!("the adapter's tensor `{name}` is missing")));
            };
            let (meta, got) = (p.meta(), value.shape()?);
            if got != meta.shape {
                let text = format!("`{name}` has shape {got} in the file and {} in the model, for rank {}", meta.shape, self.config.r);
                return Err(refusal(LORA, text));
            }
            writes.push((p, value.detach().cast(meta.dtype).to(meta.device).ok()?));
        }
        adamant_core::step(|| writes.iter().try_for_each(|(p, value)| p.set(value)))
    }
    /// Writes `adapter_model.safetensors` and `adapter_config.json` into a folder, which is made if need be.
    ///
    /// ```
    /// # use adamant_nn::{Linear, Sequential, Walk};
    /// # use adamant_quant::lora::{LoraAdapters, LoraConfig};
    /// # adamant_core::Device::reference().make_current();
    /// # let folder = tempfile::tempdir().map_err(|e| e.to_string()).unwrap();
    /// let model = Sequential::new().add_named("q_proj", Linear::new(8, 8)?);
    /// let plain = model.deep_copy()?;
    /// LoraConfig::new(2, 4.0, ["q_proj"]).apply(&model)?.save(folder.path())?;
    /// let adapters = LoraAdapters::load(&plain, folder.path())?;
    /// assert_eq!(adapters.state_dict()[0].0, "base_model.model.q_proj.lora_A.weight");
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// A file that cannot be written.
    #[track_caller]
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<()> {
        let folder = folder.as_ref();
        fs::create_dir_all(folder).map_err(|e| file_error(folder, e.to_string()))?;
        let texts = BTreeMap::from([("format".to_string(), "pt".to_string())]);
        safetensors::save(folder.join(WEIGHTS), self.state_dict(), &texts)?;
        let path = folder.join(CONFIG);
        let config = AdapterConfig {
            peft_type: "LORA".into(),
            r: self.config.r,
            lora_alpha: self.config.alpha,
            lora_dropout: self.config.dropout,
            target_modules: Some(self.peft_targets()),
            bias: self.config.bias,
            fan_in_fan_out: self.config.fan_in_fan_out,
            use_rslora: self.config.use_rslora,
            use_dora: false,
            rank_pattern: BTreeMap::new(),
            alpha_pattern: BTreeMap::new(),
            modules_to_save: None,
            init_lora_weights: true.into(),
            inference_mode: true,
            task_type: None,
            base_model_name_or_path: None,
        };
        let mut json = serde_json::to_value(&config).map_err(|e| file_error(&path, e.to_string()))?;
        // PEFT's own type is an integer.
        if self.config.alpha.fract() == 0.0 && self.config.alpha.abs() < 1e15 {
            json["lora_alpha"] = (self.config.alpha as i64).into();
        }
        let text = serde_json::to_vec_pretty(&json).map_err(|e| file_error(&path, e.to_string()))?;
        whole::replace(&path, |e| file_error(&path, e.to_string()), |file| file.write_all(&text).map_err(|e| file_error(&path, e.to_string())))
    }
    /// PEFT knows no globs: names as they were given, else the paths, and where their ends mean other modules too an expression.
    fn peft_targets(&self) -> Targets {
        let (given, paths) = (&self.config.targets, self.modules());
        if !given.iter().any(|name| is_glob(name) || name == "all-linear") {
            return Targets::Names(given.clone());
        }
        if paths.iter().any(|path| paths.iter().any(|other| other != path && means(path, other))) {
            let exact: Vec<String> = paths.iter().map(|path| path.replace('.', "\\.")).collect();
            return Targets::Expression(format!("({})", exact.join("|")));
        }
        Targets::Names(paths)
    }
    /// Puts adapters from a folder on a model that has none: those of PEFT, or of [`LoraAdapters::save`]. The tensors' names say
    /// which modules have one, so a regular expression in `target_modules` is no hindrance.
    ///
    /// # Errors
    /// Files that cannot be read; an adapter of another kind (DoRA, ranks by pattern, modules saved whole); a module that the model
    /// does not have, with the nearest; a missing half; another shape; as [`LoraConfig::apply`]. Then the model is as it was.
    #[track_caller]
    pub fn load(model: &(impl Walk + ?Sized), folder: impl AsRef<Path>) -> Result<LoraAdapters> {
        let folder = folder.as_ref();
        let config = read_config(&folder.join(CONFIG))?;
        let state = safetensors::load(folder.join(WEIGHTS))?;
        let all = model.named_modules();
        let mut wanted: BTreeSet<String> = BTreeSet::new();
        for (name, _) in &state {
            let Some(path) = plain(name) else {
                return Err(file_error(&folder.join(WEIGHTS), format!("the tensor `{name}` does not begin with `{PREFIX}`: it is of no adapter of PEFT")));
            };
            let end = ["lora_A.weight", "lora_B.weight", "lora_embedding_A", "lora_embedding_B"].into_iter().find_map(|end| path.strip_suffix(end));
            match end {
                Some(module) => drop(wanted.insert(module.trim_end_matches('.').to_string())),
                None if path.ends_with("bias") => {}
                None => return Err(file_error(&folder.join(WEIGHTS), format!("the tensor `{name}` is neither A nor B of an adapter, nor a bias"))),
            }
        }
        if wanted.is_empty() {
            return Err(file_error(&folder.join(WEIGHTS), "there is no adapter in it".into()));
        }
        for path in &wanted {
            if !all.iter().any(|(known, _)| known == path) {
                return Err(no_such(path, "model has the module", all.iter().map(|(path, _)| path.as_str())));
            }
        }
        let config = LoraConfig { targets: wanted.iter().cloned().collect(), ..config };
        config.sense()?;
        // Before anything of that size is made: A is `[r, ..]`, B `[.., r, ..]` of two axes or more.
        for (name, tensor) in &state {
            let is_of = |letter: &str| name.contains(&format!("lora_{letter}")) || name.contains(&format!("lora_embedding_{letter}"));
            let Some(axis) = [is_of("A"), is_of("B")].iter().position(|is| *is) else { continue };
            let shape = tensor.shape()?;
            if shape.get(axis) != Some(&config.r) {
                // No `Shape`: of a rank beyond all bounds there may be none.
                let mut wanted: Vec<usize> = shape.to_vec();
                wanted.iter_mut().skip(axis).take(1).for_each(|d| *d = config.r);
                let text = format!("`{name}` has shape {shape} in the file and {wanted:?} in the model, for rank {}", config.r);
                let hint = "the first axis of A is the rank, and the second of B: the two files are of different adapters, or damaged";
                return Err(refusal(LORA, text).hint(hint));
            }
        }
        let modules: Vec<_> = all.into_iter().filter(|(path, _)| wanted.contains(path)).map(|(_, module)| module).collect();
        if let Some(module) = modules.iter().find(|m| config.factors(m).is_none()) {
            let text = format!("the file has an adapter for `{}`, a {}, which has no weight that an adapter is for", module.path(), module.kind);
            return Err(refusal(LORA, text));
        }
        let adapters = config.apply_to(model, modules)?;
        match adapters.load_state_dict(&state) {
            Ok(()) => Ok(adapters),
            Err(e) => {
                adapters.unload()?;
                Err(e)
            }
        }
    }
}
#[track_caller]
fn read_config(path: &Path) -> Result<LoraConfig> {
    let text = fs::read(path).map_err(|e| file_error(path, e.to_string()))?;
    let read: AdapterConfig = serde_json::from_slice(&text).map_err(|e| file_error(path, e.to_string()))?;
    if read.peft_type != "LORA" {
        return Err(file_error(path, format!("peft_type is `{}`, only LORA is known", read.peft_type)));
    }
    let other = [
        (read.use_dora, "use_dora: a weight's length is trained too"),
        (!read.rank_pattern.is_empty(), "rank_pattern: ranks differ by layer"),
        (!read.alpha_pattern.is_empty(), "alpha_pattern: alphas differ by layer"),
        (read.modules_to_save.is_some_and(|m| !m.is_empty()), "modules_to_save: whole modules are in the file"),
    ];
    if let Some((_, what)) = other.iter().find(|(is, _)| *is) {
        return Err(file_error(path, format!("it is of a kind that is not known, by {what}")));
    }
    Ok(LoraConfig {
        r: read.r,
        alpha: read.lora_alpha,
        dropout: read.lora_dropout,
        targets: Vec::new(),
        bias: read.bias,
        fan_in_fan_out: read.fan_in_fan_out,
        use_rslora: read.use_rslora,
    })
}
fn dotted(module: &str) -> String {
    if module.is_empty() { String::new() } else { format!("{module}.") }
}
fn tensor_name(module: &str, letter: &str, factors: LoraFactors) -> String {
    match factors {
        LoraFactors::Table => format!("{PREFIX}{}lora_embedding_{letter}", dotted(module)),
        _ => format!("{PREFIX}{}lora_{letter}.weight", dotted(module)),
    }
}
/// A tensor's name without PEFT's prefix, and without the adapter's name that unsaved state dicts of PEFT have.
fn plain(name: &str) -> Option<String> {
    let mut path = name.strip_prefix(PREFIX)?.to_string();
    for part in ["lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B"] {
        path = path.replace(&format!("{part}.default"), part);
    }
    Some(path)
}
/// A name as ours are spelt: PEFT writes the bias of a layer with an adapter in two ways.
fn known_spelling(name: &str, own: &[(String, Param)]) -> String {
    let Some(path) = plain(name) else { return name.to_string() };
    let of_layer = path.strip_suffix("bias").map(|of| format!("{PREFIX}{of}base_layer.bias"));
    match of_layer {
        Some(other) if own.iter().any(|(name, _)| *name == other) => other,
        _ => format!("{PREFIX}{path}"),
    }
}
#[track_caller]
fn no_such<'a>(name: &str, what: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let error = refusal(LORA, format!("no {what} `{name}`"));
    match nearest(name, known) {
        Some(near) => error.hint(format!("the nearest one is `{near}`")),
        None => error,
    }
}
#[track_caller]
fn file_error(path: &Path, reason: String) -> Error {
    Error::new(LORA, ErrorKind::File { path: path.display().to_string(), reason })
}
