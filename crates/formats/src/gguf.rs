//! GGUF, the files of llama.cpp: metadata of typed entries, then tensors, floats or blocks of codes. Weights of codes become
//! [`PackedWeight`]s, which are multiplied as they are stored: no matrix of their numbers is made.
//!
//! Every count and length is checked against the bytes that are left before anything is made of that size. Texts in arrays (a vocabulary)
//! take more memory than in the file; all else takes as much.
//!
//! Source: the specification `docs/gguf.md` of ggml, for the layout; `ggml-common.h` there, for what a block holds.
mod blocks;
mod metadata;
mod write;

pub use metadata::{GgufArray, GgufValue};
pub use write::{GgufData, save};

use crate::{elements, regular, shown, whole};
use adamant_core::{DType, Device, Error, Shape, Tensor, functional::PackedWeight};
use metadata::GgufSource;
use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{BufReader, Read, Seek, SeekFrom},
    ops::Range,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

const MAGIC: [u8; 4] = *b"GGUF";
/// Where tensors begin, unless `general.alignment` says otherwise.
const ALIGNMENT: u64 = 32;
/// ggml's tensors have no more axes.
const MOST_AXES: u32 = 4;

/// How the elements of a tensor of ggml are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are ggml's")]
pub enum GgmlType {
    F32,
    F16,
    BF16,
    F64,
    I8,
    I16,
    I32,
    I64,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Q8K,
}
/// What is known of a type: its number in files, its name, the elements of a block and their bytes.
struct GgmlLayout(GgmlType, u32, &'static str, usize, usize);
const LAYOUTS: [GgmlLayout; 20] = [
    GgmlLayout(GgmlType::F32, 0, "F32", 1, 4),
    GgmlLayout(GgmlType::F16, 1, "F16", 1, 2),
    GgmlLayout(GgmlType::Q4_0, 2, "Q4_0", 32, 18),
    GgmlLayout(GgmlType::Q4_1, 3, "Q4_1", 32, 20),
    GgmlLayout(GgmlType::Q5_0, 6, "Q5_0", 32, 22),
    GgmlLayout(GgmlType::Q5_1, 7, "Q5_1", 32, 24),
    GgmlLayout(GgmlType::Q8_0, 8, "Q8_0", 32, 34),
    GgmlLayout(GgmlType::Q8_1, 9, "Q8_1", 32, 36),
    GgmlLayout(GgmlType::Q2K, 10, "Q2_K", 256, 84),
    GgmlLayout(GgmlType::Q3K, 11, "Q3_K", 256, 110),
    GgmlLayout(GgmlType::Q4K, 12, "Q4_K", 256, 144),
    GgmlLayout(GgmlType::Q5K, 13, "Q5_K", 256, 176),
    GgmlLayout(GgmlType::Q6K, 14, "Q6_K", 256, 210),
    GgmlLayout(GgmlType::Q8K, 15, "Q8_K", 256, 292),
    GgmlLayout(GgmlType::I8, 24, "I8", 1, 1),
    GgmlLayout(GgmlType::I16, 25, "I16", 1, 2),
    GgmlLayout(GgmlType::I32, 26, "I32", 1, 4),
    GgmlLayout(GgmlType::I64, 27, "I64", 1, 8),
    GgmlLayout(GgmlType::F64, 28, "F64", 1, 8),
    GgmlLayout(GgmlType::BF16, 30, "BF16", 1, 2),
];
impl GgmlType {
    fn numbered(number: u32) -> Option<GgmlType> {
        LAYOUTS.iter().find(|l| l.1 == number).map(|l| l.0)
    }
    fn layout(self) -> &'static GgmlLayout {
        // Every type is in the table; the first one stands for what cannot be.
        LAYOUTS.iter().find(|l| l.0 == self).unwrap_or(&LAYOUTS[0])
    }
    /// ggml's name of it.
    pub fn name(self) -> &'static str {
        self.layout().2
    }
    /// The elements that a block has.
    pub fn block(self) -> usize {
        self.layout().3
    }
    /// The bytes of a block.
    pub fn block_bytes(self) -> usize {
        self.layout().4
    }
    /// The dtype of what is no code.
    pub fn dtype(self) -> Option<DType> {
        Some(match self {
            GgmlType::F32 => DType::F32,
            GgmlType::F16 => DType::F16,
            GgmlType::BF16 => DType::BF16,
            GgmlType::F64 => DType::F64,
            GgmlType::I8 => DType::I8,
            GgmlType::I16 => DType::I16,
            GgmlType::I32 => DType::I32,
            GgmlType::I64 => DType::I64,
            _ => return None,
        })
    }
}
impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a file says of a tensor.
#[derive(Clone, Debug)]
pub struct GgufTensor {
    /// how its elements are stored
    pub kind: GgmlType,
    /// its shape, row-major: ggml counts axes from the last
    pub shape: Shape,
    range: Range<u64>,
}

/// An open GGUF file. Only what stands before the tensors is in memory.
pub struct Gguf {
    path: PathBuf,
    file: Mutex<fs::File>,
    version: u32,
    metadata: BTreeMap<String, GgufValue>,
    tensors: BTreeMap<String, GgufTensor>,
}
impl fmt::Debug for Gguf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gguf({}, version {}, {} tensors)", self.path.display(), self.version, self.tensors.len())
    }
}
impl Gguf {
    /// Opens a file and checks all that it says of its tensors against its length.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # use adamant_formats::gguf::{self, Gguf, GgufData, GgufValue};
    /// # Device::reference().make_current();
    /// # let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("model.gguf");
    /// let numbers = GgufData::Numbers(Tensor::from_vec(vec![1.0f32, 2.0], [1, 2]));
    /// gguf::save(&path, &[("general.architecture", GgufValue::Text("gpt2".into()))], &[("output.weight", numbers)])?;
    /// let file = Gguf::open(&path)?;
    /// assert_eq!(file.metadata()["general.architecture"].text(), Some("gpt2"));
    /// assert_eq!(file.tensor("output.weight", Device::reference())?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `File`: it cannot be read, is no GGUF file of version 2 or 3, ends too early, or says what cannot be.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf, Error> {
        let path = path.as_ref();
        named(path, open(path))
    }
    /// 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }
    /// The entries that are no tensors.
    pub fn metadata(&self) -> &BTreeMap<String, GgufValue> {
        &self.metadata
    }
    /// The tensors by name.
    pub fn tensors(&self) -> &BTreeMap<String, GgufTensor> {
        &self.tensors
    }
    /// A tensor of numbers on a device.
    ///
    /// # Errors
    /// `File`: there is none of that name; it has codes ([`Gguf::packed`] reads those); the file is shorter than when it was opened.
    #[track_caller]
    pub fn tensor(&self, name: &str, device: Device) -> Result<Tensor, Error> {
        let read = || {
            let (of, bytes) = self.read(name)?;
            let dtype = of.kind.dtype().ok_or_else(|| format!("tensor `{}` has codes ({}) and no numbers", shown(name), of.kind))?;
            let elements = elements::from_bytes(dtype, &bytes).map_err(|reason| format!("tensor `{}`: {reason}", shown(name)))?;
            Ok(elements::to_tensor(dtype, of.shape, elements, device))
        };
        named(&self.path, read())?.ok()
    }
    /// A tensor of codes on a device. What it takes there, in bits a weight: Q8_0 8.5 and Q4_0 4.5, as in the file; Q4_1 5.5 (5 in the
    /// file), since the minimum is f32; Q4_K 6 (4.5) and Q6_K 10 (6.6), whose codes have 8 bits, since blocks of blocks become groups
    /// with scales of f32.
    ///
    /// # Errors
    /// `File`: there is none of that name; its type is none of Q8_0, Q4_0, Q4_1, Q4_K, Q6_K; it has no rows; scales or minima that are not
    /// finite; the file is shorter than when it was opened.
    #[track_caller]
    pub fn packed(&self, name: &str, device: Device) -> Result<PackedWeight, Error> {
        let read = || {
            let (of, bytes) = self.read(name)?;
            blocks::packed(of.kind, of.shape, &bytes, device).map_err(|reason| format!("tensor `{}`: {reason}", shown(name)))
        };
        named(&self.path, read())
    }
    fn read(&self, name: &str) -> Result<(&GgufTensor, Vec<u8>), String> {
        let of = self.tensors.get(name).ok_or_else(|| format!("there is no tensor `{}` in it", shown(name)))?;
        let told = |e: &dyn fmt::Display| format!("tensor `{}`: {e}", shown(name));
        let len = usize::try_from(of.range.end - of.range.start).map_err(|e| told(&e))?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|e| told(&e))?;
        bytes.resize(len, 0);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(of.range.start)).and_then(|_| file.read_exact(&mut bytes)).map_err(|e| told(&e))?;
        Ok((of, bytes))
    }
}
#[track_caller]
fn named<T>(path: &Path, result: Result<T, String>) -> Result<T, Error> {
    whole::named("gguf", path, result)
}
fn open(path: &Path) -> Result<Gguf, String> {
    let file = regular::open(path).map_err(|e| e.to_string())?;
    let len = file.metadata().map_err(|e| e.to_string())?.len();
    let mut source = GgufSource::new(BufReader::new(&file), len);
    if source.bytes::<4>()? != MAGIC {
        return Err("it does not begin with `GGUF`".into());
    }
    let version = source.u32()?;
    if !(2..=3).contains(&version) {
        let swapped = version.swap_bytes();
        let why = if (1..=3).contains(&swapped) { " (it was written for a machine of the other byte order)" } else { "" };
        return Err(format!("its version is {version}, known are 2 and 3{why}"));
    }
    let (tensors, entries) = (source.u64()?, source.u64()?);
    // What is least: a name of no letters, a number of axes or of a type, a value of a byte or a place.
    source.must_fit(entries, 8 + 4 + 1, "entries")?;
    let mut metadata = BTreeMap::new();
    for _ in 0..entries {
        let key = source.text()?;
        let value = source.value().map_err(|reason| format!("entry `{}`: {reason}", shown(&key)))?;
        if let Some((key, _)) = metadata.get_key_value(&key) {
            return Err(format!("the entry `{}` stands in it twice", shown(key)));
        }
        metadata.insert(key, value);
    }
    let alignment = match metadata.get("general.alignment") {
        None => ALIGNMENT,
        Some(value) => value.unsigned().filter(|a| a.is_power_of_two() && *a <= 1 << 16).ok_or("`general.alignment` is no power of two up to 65536")?,
    };
    source.must_fit(tensors, 8 + 4 + 4 + 8, "tensors")?;
    let mut placed = Vec::new();
    for _ in 0..tensors {
        let name = source.text()?;
        let tensor = info(&mut source, alignment).map_err(|reason| format!("tensor `{}`: {reason}", shown(&name)))?;
        placed.push((name, tensor));
    }
    let start = source.position().next_multiple_of(alignment);
    let mut by_name = BTreeMap::new();
    for (name, tensor) in placed {
        let range = tensor.range.start.checked_add(start).zip(tensor.range.end.checked_add(start));
        let Some((from, to)) = range.filter(|(_, to)| *to <= len) else {
            return Err(format!("tensor `{}` ends behind the file's {len} bytes", shown(&name)));
        };
        if by_name.contains_key(&name) {
            return Err(format!("two tensors have the name `{}`", shown(&name)));
        }
        by_name.insert(name, GgufTensor { range: from..to, ..tensor });
    }
    Ok(Gguf { path: path.to_path_buf(), version, metadata, tensors: by_name, file: Mutex::new(file) })
}
/// What is said of a tensor; its place counts from the first one's.
fn info<R: Read>(source: &mut GgufSource<R>, alignment: u64) -> Result<GgufTensor, String> {
    let axes = source.u32()?;
    if axes > MOST_AXES {
        return Err(format!("{axes} axes, and at most {MOST_AXES} are known"));
    }
    let mut dims = Vec::new();
    for _ in 0..axes {
        dims.push(usize::try_from(source.u64()?).map_err(|e| e.to_string())?);
    }
    dims.reverse();
    let number = source.u32()?;
    let kind = GgmlType::numbered(number).ok_or_else(|| format!("its type is number {number}, which is not known"))?;
    let start = source.u64()?;
    if !start.is_multiple_of(alignment) {
        return Err(format!("it begins at byte {start}, which is no multiple of {alignment}"));
    }
    let shape = Shape::new(&dims).map_err(|kind| kind.to_string())?;
    if kind.block() > 1 && !dims.last().copied().unwrap_or(1).is_multiple_of(kind.block()) {
        return Err(format!("rows of {} elements are no whole blocks of {}, as {kind} has", dims.last().copied().unwrap_or(1), kind.block()));
    }
    let elements = dims.iter().try_fold(1u64, |all, d| all.checked_mul(*d as u64));
    let bytes = elements.and_then(|n| (n / kind.block() as u64).checked_mul(kind.block_bytes() as u64));
    let end = bytes.and_then(|bytes| start.checked_add(bytes)).ok_or("more bytes than can be counted")?;
    Ok(GgufTensor { kind, shape, range: start..end })
}
