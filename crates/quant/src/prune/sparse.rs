//! State dicts in files without their zeros, bit by bit the same when read back. Must not know models.
//!
//! A file is a safetensors file. A tensor stands in it whole, or as `<name>.values`, the elements that are not zero (all bits), and
//! `<name>.places`, where they are. Which of them, with dtype and shape, is said by the text entry `sparse`. Places are the shorter of
//!
//! - `bitmap`: a bit for each element, the first in the lowest bit;
//! - `gaps`: a byte for each kept element, how many zeros lie before it; 255 is 255 zeros with none behind them;
//! - `as`: those of another tensor of this shape. A weight has its mask's.
//!
//! Of a mask, a tensor of bools, nothing but places is stored.
use adamant_core::{DType, Device, Error, ErrorKind, Result, Shape, Tensor};
use adamant_formats::{from_bytes, safetensors, to_tensor};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path};

/// Where the elements that are kept lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PlacesKind {
    Bitmap,
    Gaps,
    As(String),
}
#[derive(Debug, Serialize, Deserialize)]
struct SparseEntry {
    dtype: String,
    shape: Vec<usize>,
    places: PlacesKind,
}
/// Elements that a tensor may have for each byte of the file: more are no network's, and there may be no memory for them.
const MOST_RATIO: usize = 1 << 10;
/// So many are read in any case.
const LEAST_MOST: usize = 1 << 24;
/// The text entry that describes them.
const SPARSE: &str = "sparse";
const NOT_WHOLE: [DType; 5] = [DType::Bool, DType::F16, DType::BF16, DType::F32, DType::F64];

/// Writes a state dict with the zeros of its tensors left out, where that is shorter: of f32 weights with masks, 90 % zeros, about 1/8
/// of the dense weights' size. Any state dict may be written so; what has no zeros stands as in any safetensors file.
///
/// ```
/// # use adamant_nn::{Linear, Sequential, Walk};
/// # use adamant_quant::prune::{PruneImportance, Pruner, load_sparse, save_sparse};
/// # adamant_core::Device::reference().make_current();
/// # let folder = tempfile::tempdir().map_err(|e| e.to_string()).unwrap();
/// # let path = folder.path().join("sparse.safetensors");
/// let model = Sequential::new().add(Linear::new(64, 64)?);
/// Pruner::new(PruneImportance::Magnitude).prune(&model, 0.9)?;
/// save_sparse(&path, &model.state_dict())?;
/// model.load_state_dict(&load_sparse(&path)?)?;
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A tensor that carries an error; a file that cannot be written; two tensors of one name.
#[track_caller]
pub fn save_sparse(path: impl AsRef<Path>, state: &[(String, Tensor)]) -> Result<()> {
    let masks: BTreeMap<&str, &Tensor> = state.iter().filter(|(_, t)| t.dtype().is_ok_and(|d| d == DType::Bool)).map(|(name, t)| (name.as_str(), t)).collect();
    let (mut entries, mut tensors) = (BTreeMap::new(), Vec::new());
    for (name, tensor) in state {
        let (dtype, shape) = (tensor.dtype()?, tensor.shape()?);
        if !NOT_WHOLE.contains(&dtype) {
            tensors.push((name.clone(), tensor.clone()));
            continue;
        }
        let (bytes, size) = (tensor.to_bytes()?, dtype.size());
        let elements: Vec<&[u8]> = bytes.chunks_exact(size).collect();
        let kept: Vec<bool> = elements.iter().map(|e| e.iter().any(|byte| *byte != 0)).collect();
        // The mask of a computed weight, if it has one and all that is not zero lies in it.
        let mask_name = name.strip_suffix(".original").map(|of| format!("{of}.0.mask")).filter(|mask| masks.contains_key(mask.as_str()));
        let mask = match &mask_name {
            Some(mask) if masks[mask.as_str()].shape()? == shape => Some(masks[mask.as_str()].to_vec::<bool>()?),
            _ => None,
        };
        let (kept, places, stored) = match (mask_name, mask) {
            (Some(mask_name), Some(mask)) if kept.iter().zip(&mask).all(|(kept, mask)| *mask || !kept) => (mask, PlacesKind::As(mask_name), Vec::new()),
            _ => {
                let (bitmap, gaps) = (bitmap(&kept), gaps(&kept));
                if gaps.len() < bitmap.len() { (kept, PlacesKind::Gaps, gaps) } else { (kept, PlacesKind::Bitmap, bitmap) }
            }
        };
        let values: Vec<u8> =
            if dtype == DType::Bool { Vec::new() } else { elements.iter().zip(&kept).filter(|(_, kept)| **kept).flat_map(|(e, _)| e.to_vec()).collect() };
        if values.len() + stored.len() >= bytes.len() {
            tensors.push((name.clone(), tensor.clone()));
            continue;
        }
        if !matches!(places, PlacesKind::As(_)) {
            tensors.push((format!("{name}.places"), host(stored)?));
        }
        if dtype != DType::Bool {
            let count = values.len() / size;
            let elements = from_bytes(dtype, &values).map_err(|reason| told(path.as_ref(), name, &reason))?;
            tensors.push((format!("{name}.values"), to_tensor(dtype, one_axis(count)?, elements, Device::reference())));
        }
        entries.insert(name.clone(), SparseEntry { dtype: dtype.to_string(), shape: shape.to_vec(), places });
    }
    let text = serde_json::to_string(&entries).map_err(|e| told(path.as_ref(), SPARSE, &e.to_string()))?;
    safetensors::save(path, tensors, &BTreeMap::from([(SPARSE.to_string(), text)]))
}
/// Reads what [`save_sparse`] has written, as [`adamant_nn::Walk::load_state_dict`] takes it, on the current device. A safetensors file without
/// sparse tensors is read too.
///
/// # Errors
/// A file that cannot be read, or whose places and values do not go together, with the tensor's name; a shape beyond what the file can
/// mean; a tensor that stands in it twice.
#[track_caller]
pub fn load_sparse(path: impl AsRef<Path>) -> Result<Vec<(String, Tensor)>> {
    let (path, device) = (path.as_ref(), Device::current()?);
    let file = safetensors::SafeTensors::open(path)?;
    let entries: BTreeMap<String, SparseEntry> = match file.texts().get(SPARSE) {
        Some(text) => serde_json::from_str(text).map_err(|e| told(path, SPARSE, &e.to_string()))?,
        None => BTreeMap::new(),
    };
    let places_of = |name: &str| -> Result<Vec<bool>> {
        let entry = entries.get(name).ok_or_else(|| told(path, name, "its places are those of a tensor that is not there"))?;
        let elements = checked_shape(path, name, entry)?.elements();
        let stored = file.bytes(&format!("{name}.places"))?;
        match &entry.places {
            PlacesKind::Bitmap => from_bitmap(&stored, elements),
            PlacesKind::Gaps => from_gaps(&stored, elements),
            PlacesKind::As(_) => Err("its places are those of another tensor, which has none of its own".to_string()),
        }
        .map_err(|reason| told(path, name, &reason))
    };
    let held: usize = file.names().iter().map(|name| file.meta(name).map(|(dtype, shape)| shape.elements().saturating_mul(dtype.size()))).sum::<Result<_>>()?;
    let mut all: Vec<(String, Tensor)> = Vec::new();
    for (name, entry) in &entries {
        let shape = checked_shape(path, name, entry)?;
        if shape.elements() > LEAST_MOST.max(held.saturating_mul(MOST_RATIO)) {
            return Err(told(path, name, &format!("shape {shape} has more than {MOST_RATIO} times the elements that the file's {held} bytes speak of")));
        }
        if file.contains(name) {
            return Err(told(path, name, "it stands in the file twice, whole and without its zeros"));
        }
        let kept = match &entry.places {
            // A mask that was no shorter than its bits stands whole.
            PlacesKind::As(other) if !entries.contains_key(other) => {
                let (dtype, of) = file.meta(other)?;
                if dtype != DType::Bool || of != shape {
                    return Err(told(path, name, &format!("its places are those of `{other}`, {dtype} of {of}, and not bools of {shape}")));
                }
                file.bytes(other)?.iter().map(|byte| *byte != 0).collect()
            }
            PlacesKind::As(other) => places_of(other)?,
            _ => places_of(name)?,
        };
        if kept.len() != shape.elements() {
            return Err(told(path, name, &format!("{} places for shape {shape}", kept.len())));
        }
        if entry.dtype == DType::Bool.to_string() {
            all.push((name.clone(), Tensor::from_vec_on(kept, shape, device)));
            continue;
        }
        let values_name = format!("{name}.values");
        let (dtype, _) = file.meta(&values_name)?;
        let values = file.bytes(&values_name)?;
        let count = kept.iter().filter(|kept| **kept).count();
        if dtype.to_string() != entry.dtype || values.len() != count * dtype.size() {
            return Err(told(path, name, &format!("{} bytes of {dtype} for {count} values of {}", values.len(), entry.dtype)));
        }
        let mut dense = filled(kept.len().saturating_mul(dtype.size()), 0u8).map_err(|reason| told(path, name, &reason))?;
        let mut at = values.chunks_exact(dtype.size());
        for (element, _) in dense.chunks_exact_mut(dtype.size()).zip(&kept).filter(|(_, kept)| **kept) {
            element.copy_from_slice(at.next().unwrap_or(&[]));
        }
        let elements = from_bytes(dtype, &dense).map_err(|reason| told(path, name, &reason))?;
        all.push((name.clone(), to_tensor(dtype, shape, elements, device)));
    }
    let of_sparse = |name: &str| name.rsplit_once('.').is_some_and(|(of, end)| (end == "places" || end == "values") && entries.contains_key(of));
    for name in file.names().into_iter().filter(|name| !of_sparse(name)) {
        let tensor = file.tensor(&name, device)?;
        all.push((name, tensor));
    }
    Ok(all)
}
#[track_caller]
fn told(path: &Path, name: &str, reason: &str) -> Error {
    Error::new("sparse", ErrorKind::File { path: path.display().to_string(), reason: format!("`{name}`: {reason}") })
}
#[track_caller]
fn checked_shape(path: &Path, name: &str, entry: &SparseEntry) -> Result<Shape> {
    Shape::new(&entry.shape).map_err(|kind| told(path, name, &kind.to_string()))
}
#[track_caller]
fn one_axis(count: usize) -> Result<Shape> {
    Shape::new(&[count]).map_err(|kind| Error::new("sparse", kind))
}
#[track_caller]
fn host(bytes: Vec<u8>) -> Result<Tensor> {
    let shape = one_axis(bytes.len())?;
    Ok(Tensor::from_vec_on(bytes, shape, Device::reference()))
}
/// As many as a file says, which may be more than there is memory for.
fn filled<T: Clone>(count: usize, value: T) -> std::result::Result<Vec<T>, String> {
    let mut all = Vec::new();
    all.try_reserve_exact(count).map_err(|e| e.to_string())?;
    all.resize(count, value);
    Ok(all)
}
fn bitmap(kept: &[bool]) -> Vec<u8> {
    kept.chunks(8).map(|bits| bits.iter().enumerate().fold(0, |byte, (k, kept)| byte | u8::from(*kept) << k)).collect()
}
fn from_bitmap(stored: &[u8], elements: usize) -> std::result::Result<Vec<bool>, String> {
    if stored.len() != elements.div_ceil(8) {
        return Err(format!("{} bytes of places for {elements} elements", stored.len()));
    }
    Ok((0..elements).map(|k| stored[k / 8] >> (k % 8) & 1 == 1).collect())
}
/// The byte that stands for 255 zeros.
const SKIP: u8 = 255;
fn gaps(kept: &[bool]) -> Vec<u8> {
    let (mut stored, mut zeros) = (Vec::new(), 0usize);
    for kept in kept {
        if !kept {
            zeros += 1;
            continue;
        }
        stored.extend(std::iter::repeat_n(SKIP, zeros / SKIP as usize));
        stored.push((zeros % SKIP as usize) as u8);
        zeros = 0;
    }
    stored
}
fn from_gaps(stored: &[u8], elements: usize) -> std::result::Result<Vec<bool>, String> {
    let (mut kept, mut at) = (filled(elements, false)?, 0usize);
    for gap in stored {
        at += *gap as usize;
        if *gap != SKIP {
            *kept.get_mut(at).ok_or_else(|| format!("a place behind the last of {elements} elements"))? = true;
            at += 1;
        }
    }
    Ok(kept)
}
