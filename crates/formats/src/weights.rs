//! Weights from safetensors files by name: one file, or a folder as transformers' `save_pretrained` writes it, in one piece or
//! in shards. Knows no network.
use crate::{regular, safetensors::SafeTensors, shown};
use adamant_core::{DType, Device, Error, ErrorKind, Result, Shape, Tensor};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path},
};

const ONE_FILE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// No index and no configuration is larger.
const MOST_JSON_BYTES: u64 = 64 << 20;

/// The tensors of one or several safetensors files by name. Only headers are in memory until a tensor is asked for.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_formats::weights::Weights;
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
    /// Is there a tensor of that name?
    pub fn contains(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }
    /// Dtype and shape of a tensor, without reading it.
    ///
    /// # Errors
    /// There is none of that name; as [`SafeTensors::meta`].
    #[track_caller]
    pub fn meta(&self, name: &str) -> Result<(DType, Shape)> {
        self.file(name)?.meta(name)
    }
    /// The bytes of a tensor, little-endian and row-major.
    ///
    /// # Errors
    /// There is none of that name; as [`SafeTensors::bytes`].
    #[track_caller]
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        self.file(name)?.bytes(name)
    }
    /// A tensor on a device.
    ///
    /// # Errors
    /// There is none of that name; as [`SafeTensors::tensor`].
    #[track_caller]
    pub fn tensor(&self, name: &str, device: Device) -> Result<Tensor> {
        self.file(name)?.tensor(name, device)
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
    ///
    /// # Errors
    /// One that is not there or cannot be read.
    #[track_caller]
    pub fn equal(&self, a: &str, b: &str) -> Result<bool> {
        let (of_a, of_b) = (self.file(a)?, self.file(b)?);
        Ok(of_a.meta(a)? == of_b.meta(b)? && of_a.bytes(a)? == of_b.bytes(b)?)
    }
}
#[track_caller]
fn shards(folder: &Path) -> Result<Weights> {
    let index_path = folder.join(INDEX);
    let weight_map = weight_map(&index_path)?;
    let names: BTreeSet<&String> = weight_map.values().collect();
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
    for (tensor, shard) in &weight_map {
        let number = numbers.get(shard).copied().unwrap_or_default();
        // Says which file lacks it.
        files[number].meta(tensor)?;
        places.insert(tensor.clone(), number);
    }
    Ok(Weights { files, places })
}
/// Which shard each tensor is in.
#[track_caller]
fn weight_map(path: &Path) -> Result<BTreeMap<String, String>> {
    let index = json(path)?;
    let Some(Value::Object(of)) = index.get("weight_map") else {
        return Err(refused(path, "it has no `weight_map`".into()));
    };
    let mut map = BTreeMap::new();
    for (tensor, shard) in of {
        let Some(shard) = shard.as_str() else {
            return Err(refused(path, format!("the shard of `{}` is no text", shown(tensor))));
        };
        map.insert(tensor.clone(), shard.to_string());
    }
    Ok(map)
}
/// A small JSON file beside weights: an index or a configuration.
///
/// # Errors
/// `File`: it cannot be read, has more than 64 MiB, or is no JSON.
#[track_caller]
pub fn json(path: &Path) -> Result<Value> {
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
#[track_caller]
fn wrong(text: String) -> Error {
    Error::new("load_state_dict", ErrorKind::Argument(text))
}
