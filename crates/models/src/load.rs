//! Weights from files into a network by name. Knows no network: what names may look like in files is told by a [`Naming`].
use adamant_core::{Error, ErrorKind, Result, Tensor};
pub use adamant_formats::weights::Weights;
use adamant_formats::weights::json;
use adamant_nn::Walk;
use serde::de::DeserializeOwned;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

const CONFIG: &str = "config.json";

/// How the names in files differ from a network's own. Names are compared without [`Naming::prefix`], which stands in files of
/// a network with a head and not in files of the body alone; the other fields see them so.
#[derive(Clone, Copy, Debug)]
pub struct Naming {
    /// what names of the body begin with, here or there (`"transformer."`); `""`: nothing
    pub prefix: &'static str,
    /// ends of names in old files, and what they are now
    pub renamed: &'static [(&'static str, &'static str)],
    /// is a tensor in a file no part of this network (buffers that follow from the configuration, another network's head)?
    pub passed_over: fn(&str) -> bool,
    /// may a tensor of the network be absent? It keeps its value.
    pub optional: fn(&str) -> bool,
    /// names of one parameter: a file may have any of them, or several with equal values
    pub tied: &'static [&'static [&'static str]],
}
impl Naming {
    /// The network's own names, all of them and no other.
    pub const EXACT: Naming = Naming { prefix: "", renamed: &[], passed_over: |_| false, optional: |_| false, tied: &[] };

    /// What a name in a file is called in a network of these names: `None` for what is passed over, and itself for one that is unknown.
    ///
    /// ```
    /// # use adamant_models::{Gpt2, Gpt2Config, LoadWeights};
    /// # use adamant_nn::Walk;
    /// # adamant_core::Device::reference().make_current();
    /// let model = Gpt2::new(Gpt2Config { vocab_size: 11, n_positions: 16, n_embd: 8, n_layer: 1, n_head: 2, ..Default::default() })?;
    /// let own = model.naming().own_names(model.state_dict().into_iter().map(|(name, _)| name));
    /// assert_eq!(own("transformer.h.0.attn.c_attn.weight").as_deref(), Some("h.0.attn.c_attn.weight"));
    /// assert_eq!(own("lm_head.weight"), None);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    pub fn own_names(self, names: impl IntoIterator<Item = String>) -> impl Fn(&str) -> Option<String> {
        let own: BTreeMap<String, String> = names.into_iter().map(|name| (self.key(&name), name)).collect();
        move |name| {
            let key = self.key(name);
            if (self.passed_over)(&key) { None } else { Some(own.get(&key).cloned().unwrap_or_else(|| name.to_string())) }
        }
    }
    fn key(&self, name: &str) -> String {
        let name = name.strip_prefix(self.prefix).unwrap_or(name);
        let old = self.renamed.iter().find_map(|(old, new)| Some((name.strip_suffix(old)?, new)));
        old.map_or_else(|| name.to_owned(), |(start, new)| format!("{start}{new}"))
    }
}

/// A network whose weights are found in files by name.
pub trait LoadWeights: Walk {
    /// How names in files may differ from the network's own.
    fn naming(&self) -> Naming;
    /// Takes over the values of files. They are converted to the parameters' dtype and device, so that a file of f16 or bf16
    /// fills a network of f32.
    ///
    /// # Errors
    /// Missing or unknown names or another shape, as [`Walk::load_state_dict`]; values that differ for what is one parameter
    /// here; a file that cannot be read. Then nothing has changed.
    #[track_caller]
    fn load(&self, weights: &Weights) -> Result<()> {
        let state = state_of(&self.state_dict(), weights, &self.naming())?;
        self.load_state_dict(&state)
    }
    /// As [`LoadWeights::load`], from a safetensors file or a folder ([`Weights::open`]).
    ///
    /// # Errors
    /// As [`Weights::open`] and [`LoadWeights::load`].
    #[track_caller]
    fn load_path(&self, path: impl AsRef<Path>) -> Result<()>
    where
        Self: Sized,
    {
        self.load(&Weights::open(path)?)
    }
}
/// A network that a folder of transformers describes: `config.json` and the weights.
pub trait FromFolder: LoadWeights + Sized {
    /// What `config.json` says
    type Config: DeserializeOwned;
    /// The network of a configuration, with initial values.
    ///
    /// # Errors
    /// A configuration that describes no network of this kind.
    fn from_config(config: Self::Config) -> Result<Self>;
    /// The network of a folder, with its weights, in evaluation mode.
    ///
    /// # Errors
    /// No configuration or none of this kind; as [`LoadWeights::load_path`].
    #[track_caller]
    fn from_folder(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let path = folder.join(CONFIG);
        let config = match serde_json::from_value(json(&path)?) {
            Ok(config) => config,
            Err(e) => return Err(Error::new("weights", ErrorKind::File { path: path.display().to_string(), reason: e.to_string() })),
        };
        let model = Self::from_config(config)?;
        model.load_path(folder)?;
        model.eval();
        Ok(model)
    }
}

/// A state dict with a network's own names. What is missing stays missing, and what is unknown comes with it under the file's
/// name, so that the loading of state dicts tells of both.
#[track_caller]
fn state_of(own: &[(String, Tensor)], weights: &Weights, naming: &Naming) -> Result<Vec<(String, Tensor)>> {
    let mut given: BTreeMap<String, &str> = BTreeMap::new();
    for name in weights.names() {
        let key = naming.key(name);
        if (naming.passed_over)(&key) {
            continue;
        }
        if let Some(first) = given.insert(key, name) {
            return Err(wrong(format!("`{first}` and `{name}` in the file are one tensor of the model")));
        }
    }
    let mut used = BTreeSet::new();
    let mut state = Vec::with_capacity(own.len());
    for (name, value) in own {
        let key = naming.key(name);
        let group = naming.tied.iter().find(|group| group.contains(&key.as_str()));
        let spellings = group.map_or_else(|| vec![key.as_str()], |group| group.to_vec());
        let found: Vec<&str> = spellings.iter().filter_map(|key| given.get(*key).copied()).collect();
        if let Some((first, others)) = found.split_first() {
            for other in others {
                if !weights.equal(first, other)? {
                    return Err(wrong(format!("`{first}` and `{other}` are one parameter of the model and have different values in the file"))
                        .hint("a model whose configuration does not tie them (tie_word_embeddings = false) has a place for both"));
                }
            }
            used.extend(found.iter().copied());
            state.push((name.clone(), weights.tensor(first, value.device()?)?));
        } else if (naming.optional)(&key) {
            state.push((name.clone(), value.clone()));
        }
    }
    let unknown = given.values().filter(|name| !used.contains(*name));
    state.extend(unknown.map(|name| (name.to_string(), Tensor::zeros(()))));
    Ok(state)
}
#[track_caller]
fn wrong(text: String) -> Error {
    Error::new("load_state_dict", ErrorKind::Argument(text))
}
