//! The safetensors format: a JSON header with dtype, shape and byte range of each tensor, then the bytes.
//! Source: the format's description and its own crate, which checks the header here.
use crate::{elements, npy::little_endian, whole};
use ::safetensors::{
    Dtype,
    tensor::{Metadata, TensorInfo},
};
use adamant_core::{DType, Device, Error, Meta, Origin, Shape, Tensor};
use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{Read, Seek, SeekFrom, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::Mutex,
};

/// Headers above this are refused (the format's own limit).
pub const MAX_HEADER_BYTES: u64 = 100_000_000;

/// An open safetensors file. Only its header is in memory.
pub struct SafeTensors {
    path: PathBuf,
    file: Mutex<fs::File>,
    data_start: u64,
    metadata: Metadata,
}

impl fmt::Debug for SafeTensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SafeTensors({}, {} tensors)", self.path.display(), self.names().len())
    }
}

impl SafeTensors {
    /// Opens a file and checks its header against the file's length.
    ///
    /// # Errors
    /// `File`, if it cannot be read, is no safetensors file, or its byte ranges do not cover it exactly.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<SafeTensors, Error> {
        let path = path.as_ref();
        named(path, open(path))
    }
    /// The names, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names = self.metadata.offset_keys();
        names.sort();
        names
    }
    /// Is there a tensor of that name?
    pub fn contains(&self, name: &str) -> bool {
        self.metadata.info(name).is_some()
    }
    /// The text entries that writers may add beside the tensors.
    pub fn texts(&self) -> BTreeMap<String, String> {
        self.metadata.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect()
    }
    /// Dtype and shape of a tensor, without reading it.
    ///
    /// # Errors
    /// `File`, if there is no such tensor or its dtype is none of ours (fp4, fp6, complex, ...).
    #[track_caller]
    pub fn meta(&self, name: &str) -> Result<(DType, Shape), Error> {
        named(&self.path, info(&self.metadata, name).map(|(dtype, shape, _)| (dtype, shape)))
    }
    /// The bytes of one tensor, little-endian and row-major; no other part of the file is read.
    ///
    /// # Errors
    /// As [`SafeTensors::meta`]; the file is shorter than when it was opened.
    #[track_caller]
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>, Error> {
        named(&self.path, self.read(name).map(|(_, _, bytes)| bytes))
    }
    /// One tensor on a device; no other part of the file is read.
    ///
    /// # Errors
    /// As [`SafeTensors::bytes`].
    #[track_caller]
    pub fn tensor(&self, name: &str, device: Device) -> Result<Tensor, Error> {
        let (dtype, shape, bytes) = named(&self.path, self.read(name))?;
        named(&self.path, tensor(name, dtype, shape, &bytes, device))?.ok()
    }
    fn read(&self, name: &str) -> Result<(DType, Shape, Vec<u8>), String> {
        let (dtype, shape, (start, end)) = info(&self.metadata, name)?;
        let len = usize::try_from(end - start).map_err(|e| e.to_string())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|e| format!("tensor `{}`: {e}", crate::shown(name)))?;
        bytes.resize(len, 0);
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.seek(SeekFrom::Start(self.data_start + start))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|e| format!("tensor `{}`: {e}", crate::shown(name)))?;
        Ok((dtype, shape, bytes))
    }
}

/// Where everything lies in a safetensors file: what a writer that streams, or a reader that does not go through a path,
/// needs to know. The file is [`Layout::header`], then the bytes of each tensor in the order of [`Layout::places`].
#[derive(Clone, Debug)]
pub struct Layout {
    header: Vec<u8>,
    places: Vec<Place>,
}
/// One tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// its name
    pub name: String,
    /// its dtype
    pub dtype: DType,
    /// its shape
    pub shape: Shape,
    /// its bytes, counted from the file's beginning; little-endian, row-major
    pub range: Range<u64>,
}
impl Layout {
    /// The layout of a file to be written at `path`: tensors sorted by name, without holes.
    ///
    /// # Errors
    /// `File`, if two tensors have one name or the header is over the format's limit.
    #[track_caller]
    pub fn of<N: Into<String>>(path: &Path, tensors: impl IntoIterator<Item = (N, Meta)>, texts: &BTreeMap<String, String>) -> Result<Layout, Error> {
        let mut sorted = BTreeMap::new();
        for (name, meta) in tensors {
            let name = name.into();
            if sorted.contains_key(&name) {
                return named(path, Err(format!("two tensors have the name `{}`", crate::shown(name))));
            }
            sorted.insert(name, meta);
        }
        named(path, layout(sorted, texts))
    }
    /// Reads the layout from the first bytes of a file: the 8 that give the header's length, and the header.
    ///
    /// # Errors
    /// `File`, as [`SafeTensors::open`], and as [`SafeTensors::meta`] for any of the tensors.
    #[track_caller]
    pub fn parse(path: &Path, header: Vec<u8>, file_bytes: u64) -> Result<Layout, Error> {
        let parsed = metadata(&header, file_bytes).and_then(|metadata| {
            let names = metadata.offset_keys();
            let start = header.len() as u64;
            let places = names.into_iter().map(|name| {
                let (dtype, shape, range) = info(&metadata, &name)?;
                Ok(Place { name, dtype, shape, range: start + range.0..start + range.1 })
            });
            places.collect::<Result<Vec<Place>, String>>()
        });
        Ok(Layout { places: named(path, parsed)?, header })
    }
    /// The file's first bytes, up to the first tensor's.
    pub fn header(&self) -> &[u8] {
        &self.header
    }
    /// The tensors, in the order of their bytes.
    pub fn places(&self) -> &[Place] {
        &self.places
    }
    /// The length of the file.
    pub fn bytes(&self) -> u64 {
        self.places.last().map_or(self.header.len() as u64, |p| p.range.end)
    }
}
impl Place {
    /// The tensor on a device, from the bytes of its range.
    ///
    /// # Errors
    /// `File`, with `path` and the tensor's name, if the bytes are no elements of its dtype or not as many as it has.
    #[track_caller]
    pub fn tensor(&self, path: &Path, bytes: &[u8], device: Device) -> Result<Tensor, Error> {
        named(path, tensor(&self.name, self.dtype, self.shape, bytes, device))?.ok()
    }
}

fn open(path: &Path) -> Result<SafeTensors, String> {
    let mut file = crate::regular::open(path).map_err(|e| e.to_string())?;
    let len = file.metadata().map_err(|e| e.to_string())?.len();
    let mut header = vec![0u8; 8];
    file.read_exact(&mut header).map_err(|_| format!("{len} bytes are too few for a safetensors file"))?;
    header.resize(header_len(&header, len)? as usize, 0);
    file.read_exact(&mut header[8..]).map_err(|e| e.to_string())?;
    Ok(SafeTensors { path: path.to_path_buf(), metadata: metadata(&header, len)?, data_start: header.len() as u64, file: Mutex::new(file) })
}
/// Bytes before the first tensor's, from the file's first 8 and its length.
fn header_len(first: &[u8], file_bytes: u64) -> Result<u64, String> {
    let Some(&size) = first.first_chunk::<8>() else { return Err(format!("{file_bytes} bytes are too few for a safetensors file")) };
    let len = u64::from_le_bytes(size);
    if len > MAX_HEADER_BYTES || len > file_bytes.saturating_sub(8) {
        return Err(format!("a header of {len} bytes does not fit a file of {file_bytes} bytes (and the limit is {MAX_HEADER_BYTES})"));
    }
    Ok(8 + len)
}
/// The header of a file of that length, checked against it. `start` ends where the first tensor begins.
fn metadata(start: &[u8], file_bytes: u64) -> Result<Metadata, String> {
    let len = header_len(start, file_bytes)?;
    if len != start.len() as u64 {
        return Err(format!("{} bytes are given for a header of {len}", start.len()));
    }
    let metadata: Metadata = serde_json::from_slice(&start[8..]).map_err(|e| format!("its header: {e}"))?;
    // The crate has checked that the ranges follow each other without holes; here, that they end where the file does.
    if metadata.data_len() as u64 != file_bytes - len {
        return Err(format!("its header speaks of {} bytes of data, the file has {}", metadata.data_len(), file_bytes - len));
    }
    Ok(metadata)
}
fn info(metadata: &Metadata, name: &str) -> Result<(DType, Shape, (u64, u64)), String> {
    let info = metadata.info(name).ok_or_else(|| format!("there is no tensor `{}` in it", crate::shown(name)))?;
    let dtype = dtype_of(info.dtype).ok_or_else(|| format!("tensor `{}` has the dtype {:?}, which is not supported", crate::shown(name), info.dtype))?;
    let shape = Shape::new(&info.shape).map_err(|kind| format!("tensor `{}`: {kind}", crate::shown(name)))?;
    Ok((dtype, shape, (info.data_offsets.0 as u64, info.data_offsets.1 as u64)))
}
fn layout(tensors: BTreeMap<String, Meta>, texts: &BTreeMap<String, String>) -> Result<Layout, String> {
    let mut end = 0;
    let mut places: Vec<Place> = tensors
        .into_iter()
        .map(|(name, meta)| {
            let start = end;
            end += meta.bytes() as u64;
            Place { name, dtype: meta.dtype, shape: meta.shape, range: start..end }
        })
        .collect();
    let infos = places.iter().map(|p| {
        let data_offsets = (p.range.start as usize, p.range.end as usize);
        (p.name.clone(), TensorInfo { dtype: dtype_to(p.dtype), shape: p.shape.to_vec(), data_offsets })
    });
    let texts = (!texts.is_empty()).then(|| texts.iter().map(|(k, v)| (k.clone(), v.clone())).collect());
    let metadata = Metadata::new(texts, infos.collect()).map_err(|e| e.to_string())?;
    let mut json = serde_json::to_vec(&metadata).map_err(|e| e.to_string())?;
    // The data begins at a multiple of 8 bytes, so that a mapped file is aligned.
    json.resize(json.len().next_multiple_of(8), b' ');
    if json.len() as u64 > MAX_HEADER_BYTES {
        return Err(format!("a header of {} bytes is over the limit of {MAX_HEADER_BYTES}", json.len()));
    }
    let mut header = (json.len() as u64).to_le_bytes().to_vec();
    header.extend(json);
    for place in &mut places {
        place.range = place.range.start + header.len() as u64..place.range.end + header.len() as u64;
    }
    Ok(Layout { header, places })
}

/// All tensors of a file by name, on the current device: what a model's `load_state_dict` takes.
///
/// # Errors
/// As [`SafeTensors::open`] and [`SafeTensors::tensor`]; there is no device.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<Vec<(String, Tensor)>, Error> {
    let (file, device) = (SafeTensors::open(path)?, Device::current()?);
    let mut all = Vec::new();
    for name in file.names() {
        let tensor = file.tensor(&name, device)?;
        all.push((name, tensor));
    }
    Ok(all)
}
/// Writes tensors into one file, computing them if need be, one at a time in memory. The file appears whole or not at all.
///
/// # Errors
/// The error a tensor carries; `File`, if two have one name or the file cannot be written.
#[track_caller]
pub fn save<N: Into<String>>(path: impl AsRef<Path>, tensors: impl IntoIterator<Item = (N, Tensor)>, texts: &BTreeMap<String, String>) -> Result<(), Error> {
    let path = path.as_ref();
    let tensors: Vec<(String, Tensor)> = tensors.into_iter().map(|(name, tensor)| (name.into(), tensor)).collect();
    let metas = tensors.iter().map(|(name, tensor)| Ok((name.clone(), tensor.try_meta()?))).collect::<Result<Vec<_>, Error>>()?;
    let layout = Layout::of(path, metas, texts)?;
    let by_name: BTreeMap<String, Tensor> = tensors.into_iter().collect();
    let here = Origin::here();
    let io = |e: std::io::Error| whole::file_error("safetensors", path, e.to_string(), here);
    whole::replace(path, io, |file| {
        file.write_all(layout.header()).map_err(io)?;
        // Sorted as the layout's places are.
        for tensor in by_name.values() {
            file.write_all(&little_endian(tensor)?).map_err(io)?;
        }
        Ok(())
    })
}

fn dtype_of(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::BOOL => DType::Bool,
        Dtype::U8 => DType::U8,
        Dtype::I8 => DType::I8,
        Dtype::I16 => DType::I16,
        Dtype::U16 => DType::U16,
        Dtype::I32 => DType::I32,
        Dtype::U32 => DType::U32,
        Dtype::I64 => DType::I64,
        Dtype::U64 => DType::U64,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        Dtype::F8_E4M3 => DType::F8E4M3,
        Dtype::F8_E5M2 => DType::F8E5M2,
        _ => return None,
    })
}
fn dtype_to(dtype: DType) -> Dtype {
    match dtype {
        DType::Bool => Dtype::BOOL,
        DType::U8 => Dtype::U8,
        DType::I8 => Dtype::I8,
        DType::I16 => Dtype::I16,
        DType::U16 => Dtype::U16,
        DType::I32 => Dtype::I32,
        DType::U32 => Dtype::U32,
        DType::I64 => Dtype::I64,
        DType::U64 => Dtype::U64,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::F8E4M3 => Dtype::F8_E4M3,
        DType::F8E5M2 => Dtype::F8_E5M2,
    }
}

#[track_caller]
fn named<T>(path: &Path, result: Result<T, String>) -> Result<T, Error> {
    whole::named("safetensors", path, result)
}
/// A tensor from little-endian, row-major bytes.
fn tensor(name: &str, dtype: DType, shape: Shape, bytes: &[u8], device: Device) -> Result<Tensor, String> {
    let elements = elements::from_bytes(dtype, bytes).map_err(|reason| format!("tensor `{}`: {reason}", crate::shown(name)))?;
    Ok(elements::to_tensor(dtype, shape, elements, device))
}
