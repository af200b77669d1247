//! Weights from safetensors files by name: one file, or a folder as transformers' `save_pretrained` writes it, in one piece or
//! in shards. Knows no network: what names may look like in files is told by a [`Naming`].
use adamant_core::{Error, ErrorKind, Result, Tensor};
use adamant_formats::{regular, safetensors::SafeTensors, shown};
use adamant_nn::Walk;
use serde::{Deserialize, de::DeserializeOwned};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path},
};

const ONE_FILE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const CONFIG: &str = "config.json";
/// No index and no configuration is larger.
const MOST_JSON_BYTES: u64 = 64 << 20;

/// The tensors of one or several safetensors files by name. Only headers are in memory until a tensor is asked for.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_models::Weights;
/// # adamant_core::Device::reference().make_current();
/// # let folder = tempfile::tempdir()?;
/// let file = folder.path().join("model.safetensors");
/// adamant_formats::safetensors::save(&file, [("fc.weight", Tensor::ones([2, 3]))], &Default::default())?;
/// // The file, or the folder around it.
/// assert_eq!(Weights::open(&file)?.names(), ["fc.weight"]);
/// assert_eq!(Weights::open(folder.path())?.names(), ["fc.weight"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Weights {
    files: Vec<SafeTensors>,
    /// the file of each name
    places: BTreeMap<String, usize>,
}
impl Weights {
    /// Opens a safetensors file, or a folder that has `model.safetensors`, or `model.safetensors.index.json` and the shards
    /// that it names.
    ///
    /// # Errors
    /// `File`: there is none of these; a file is damaged; the index names a tensor that its shard has not, or a shard outside
    /// the folder.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<Weights> {
        let path = path.as_ref();
        if !path.is_dir() {
            return Weights::of(SafeTensors::open(path)?);
        }
        if path.join(ONE_FILE).exists() {
            return Weights::of(SafeTensors::open(path.join(ONE_FILE))?);
        }
        if path.join(INDEX).exists() {
            return shards(path);
        }
        Err(refused(path, format!("it has neither `{ONE_FILE}` nor `{INDEX}`")))
    }
    #[track_caller]
    fn of(file: SafeTensors) -> Result<Weights> {
        let places = file.names().into_iter().map(|name| (name, 0)).collect();
        Ok(Weights { files: vec![file], places })
    }
    /// The names, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.places.keys().map(String::as_str).collect()
    }
    /// The file of a name.
    #[track_caller]
    fn file(&self, name: &str) -> Result<&SafeTensors> {
        match self.places.get(name) {
            Some(number) => Ok(&self.files[*number]),
            None => Err(wrong(format!("there is no tensor `{name}`"))),
        }
    }
    /// Are two tensors the same in dtype, shape and bits?
    #[track_caller]
    fn equal(&self, a: &str, b: &str) -> Result<bool> {
        let (of_a, of_b) = (self.file(a)?, self.file(b)?);
        Ok(of_a.meta(a)? == of_b.meta(b)? && of_a.bytes(a)? == of_b.bytes(b)?)
    }
}
#[derive(Deserialize)]
struct ShardIndex {
    weight_map: BTreeMap<String, String>,
}
#[track_caller]
fn shards(folder: &Path) -> Result<Weights> {
    let index_path = folder.join(INDEX);
    let index: ShardIndex = json(&index_path)?;
    let names: BTreeSet<&String> = index.weight_map.values().collect();
    let mut files = Vec::with_capacity(names.len());
    let mut numbers = BTreeMap::new();
    for name in names {
        // An index comes from a stranger: its shards lie beside it.
        if !matches!(Path::new(name).components().collect::<Vec<_>>()[..], [Component::Normal(_)]) {
            return Err(refused(&index_path, format!("the shard `{}` is no file of the folder", shown(name))));
        }
        numbers.insert(name, files.len());
        files.push(SafeTensors::open(folder.join(name))?);
    }
    let mut places = BTreeMap::new();
    for (tensor, shard) in &index.weight_map {
        let number = numbers.get(shard).copied().unwrap_or_default();
        // Says which file lacks it.
        files[number].meta(tensor)?;
        places.insert(tensor.clone(), number);
    }
    Ok(Weights { files, places })
}
#[track_caller]
fn json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = regular::read_text(path, MOST_JSON_BYTES).map_err(|e| e.to_string());
    match text.and_then(|text| serde_json::from_str(&text).map_err(|e| e.to_string())) {
        Ok(value) => Ok(value),
        Err(reason) => Err(refused(path, reason)),
    }
}
#[track_caller]
fn refused(path: &Path, reason: String) -> Error {
    Error::new("weights", ErrorKind::File { path: path.display().to_string(), reason })
}

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
        let model = Self::from_config(json(&folder.join(CONFIG))?)?;
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
            state.push((name.clone(), weights.file(first)?.tensor(first, value.device()?)?));
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
