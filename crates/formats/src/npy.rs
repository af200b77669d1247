//! The npy format: a header that is a Python dictionary with dtype, order and shape, then the elements.
//! Source: NumPy Enhancement Proposal 1 and numpy/lib/format.py; versions 1, 2 and 3, both byte orders, both orders of
//! axes. The header is read by a parser for exactly what NumPy writes; nothing in a file is executed.
use crate::{
    elements::{self, Trust},
    whole::{file_error, named, replace},
};
use adamant_core::{DType, Device, Error, HostVec, MAX_RANK, Origin, Shape, Tensor};
use std::{
    fmt, fs,
    io::{BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Mutex,
};

/// Headers above this are refused.
pub const MAX_HEADER_BYTES: usize = 64 << 10;
const MAGIC: &[u8] = b"\x93NUMPY";
/// The data begins at a multiple of this.
const ALIGN: usize = 64;

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// of each element
    pub dtype: DType,
    /// of the array
    pub shape: Shape,
    /// is the first axis the one that is contiguous
    pub fortran_order: bool,
    /// is the most significant byte first
    pub big_endian: bool,
    /// bytes before the first element
    pub start: u64,
}
impl Header {
    fn bytes(&self) -> u64 {
        self.shape.elements() as u64 * self.dtype.size() as u64
    }
    /// Reads the header, and no further.
    pub(crate) fn read(source: &mut dyn Read) -> Result<Header, String> {
        let mut fixed = [0; 8];
        source.read_exact(&mut fixed).map_err(|_| "it is too short for an npy file".to_string())?;
        if &fixed[..6] != MAGIC {
            return Err("it does not begin as an npy file does".into());
        }
        let version = (fixed[6], fixed[7]);
        let mut read = |bytes: &mut [u8]| source.read_exact(bytes).map_err(|_| "its header is cut off".to_string());
        let (len, prefix) = match version {
            (1, 0) => {
                let mut size = [0; 2];
                read(&mut size)?;
                (u32::from(u16::from_le_bytes(size)), 10)
            }
            (2 | 3, 0) => {
                let mut size = [0; 4];
                read(&mut size)?;
                (u32::from_le_bytes(size), 12)
            }
            (major, minor) => return Err(format!("it has the npy version {major}.{minor}; 1.0, 2.0 and 3.0 are known")),
        };
        let len = len as usize;
        if len > MAX_HEADER_BYTES {
            return Err(format!("a header of {len} bytes is over the limit of {MAX_HEADER_BYTES}"));
        }
        let mut text = vec![0; len];
        read(&mut text)?;
        // Version 1 and 2 are Latin-1, version 3 UTF-8; what we understand is ASCII in all of them.
        let text = std::str::from_utf8(&text).ok().filter(|t| t.is_ascii()).ok_or("its header holds names that are not ASCII: a structured dtype")?;
        let (descr, fortran_order, shape) = Dictionary { rest: text }.read()?;
        let (dtype, big_endian) = dtype_of(&descr)?;
        if shape.len() > MAX_RANK {
            return Err(format!("its shape has {} axes; at most {MAX_RANK} are supported", shape.len()));
        }
        let shape = Shape::new(&shape).map_err(|kind| kind.to_string())?;
        Ok(Header { dtype, shape, fortran_order, big_endian, start: (prefix + len) as u64 })
    }
    /// The elements that follow the header, row-major.
    pub(crate) fn elements(&self, source: &mut dyn Read, trust: Trust) -> Result<HostVec, String> {
        let swapped = self.big_endian != cfg!(target_endian = "big");
        let read = elements::read(source, self.dtype, self.shape.elements(), swapped, trust)?;
        Ok(if self.fortran_order { elements::transposed(read, &self.shape) } else { read })
    }
    /// Do so many bytes hold the header and all elements, and nothing else?
    pub(crate) fn check(&self, len: u64) -> Result<(), String> {
        match len.checked_sub(self.start) {
            Some(data) if data == self.bytes() => Ok(()),
            data => Err(format!("shape {} of {} needs {} bytes of data, and there are {}", self.shape, self.dtype, self.bytes(), data.unwrap_or(0))),
        }
    }
    /// The header of a tensor that is written: little-endian, row-major.
    pub(crate) fn write(dtype: DType, shape: &Shape) -> Result<Vec<u8>, String> {
        let descr = descr_of(dtype).ok_or_else(|| format!("npy has no {dtype}; cast it, for example to f32"))?;
        let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
        let sizes = if let [one] = &sizes[..] { format!("{one},") } else { sizes.join(", ") };
        let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
        // At most 8 sizes: version 1 is always enough.
        let padded = (10 + text.len() + 1).next_multiple_of(ALIGN) - 10;
        text.push_str(&" ".repeat(padded - text.len() - 1));
        text.push('\n');
        Ok([MAGIC, &[1, 0], &(padded as u16).to_le_bytes(), text.as_bytes()].concat())
    }
}
fn dtype_of(descr: &str) -> Result<(DType, bool), String> {
    let unknown = || format!("it has the dtype `{}`, which is not supported", crate::shown(descr));
    let (order, kind) = match descr.as_bytes() {
        [order @ (b'<' | b'>' | b'=' | b'|'), ..] => (*order, &descr[1..]),
        _ => (b'=', descr),
    };
    let dtype = match kind {
        "b1" => DType::Bool,
        "u1" => DType::U8,
        "i1" => DType::I8,
        "u2" => DType::U16,
        "i2" => DType::I16,
        "u4" => DType::U32,
        "i4" => DType::I32,
        "u8" => DType::U64,
        "i8" => DType::I64,
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        "O" => return Err("it holds pickled Python objects, which are not read".into()),
        _ => return Err(unknown()),
    };
    match order {
        b'|' if dtype.size() > 1 => Err(unknown()),
        b'>' => Ok((dtype, dtype.size() > 1)),
        b'=' => Ok((dtype, cfg!(target_endian = "big") && dtype.size() > 1)),
        _ => Ok((dtype, false)),
    }
}
fn descr_of(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "|b1",
        DType::U8 => "|u1",
        DType::I8 => "|i1",
        DType::U16 => "<u2",
        DType::I16 => "<i2",
        DType::U32 => "<u4",
        DType::I32 => "<i4",
        DType::U64 => "<u8",
        DType::I64 => "<i8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::BF16 | DType::F8E4M3 | DType::F8E5M2 => return None,
    })
}

/// The three entries of a header, each once, in any order.
struct Dictionary<'a> {
    rest: &'a str,
}
impl Dictionary<'_> {
    fn read(mut self) -> Result<(String, bool, Vec<usize>), String> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.take("}") {
            let key = self.string()?;
            self.expect(":")?;
            let again = match key.as_str() {
                "descr" => descr.replace(self.dtype()?).is_some(),
                "fortran_order" => fortran_order.replace(self.flag()?).is_some(),
                "shape" => shape.replace(self.tuple()?).is_some(),
                _ => return Err(format!("its header has an entry `{}` that no npy header has", crate::shown(key))),
            };
            if again {
                return Err(format!("its header has `{}` twice", crate::shown(key)));
            }
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        if !self.rest.trim_start().is_empty() {
            return Err("its header goes on after the dictionary".into());
        }
        let missing = |what: &str| format!("its header has no `{what}`");
        Ok((descr.ok_or_else(|| missing("descr"))?, fortran_order.ok_or_else(|| missing("fortran_order"))?, shape.ok_or_else(|| missing("shape"))?))
    }
    fn take(&mut self, what: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(what) {
            Some(after) => {
                self.rest = after;
                true
            }
            None => false,
        }
    }
    fn expect(&mut self, what: &str) -> Result<(), String> {
        if self.take(what) { Ok(()) } else { Err(format!("its header has no `{what}` before `{}`", crate::shown(self.rest.chars().take(20).collect::<String>()))) }
    }
    fn string(&mut self) -> Result<String, String> {
        let quote = if self.take("'") {
            '\''
        } else if self.take("\"") {
            '"'
        } else {
            return Err("its header has no text where one belongs".into());
        };
        let end = self.rest.find(quote).ok_or("a text in its header has no end")?;
        let text = self.rest[..end].to_string();
        self.rest = &self.rest[end + 1..];
        Ok(text)
    }
    fn dtype(&mut self) -> Result<String, String> {
        if self.take("[") {
            return Err("it has a structured dtype, which is not supported".into());
        }
        self.string()
    }
    fn flag(&mut self) -> Result<bool, String> {
        if self.take("True") {
            return Ok(true);
        }
        self.expect("False").map(|()| false)
    }
    fn tuple(&mut self) -> Result<Vec<usize>, String> {
        self.expect("(")?;
        let mut sizes = Vec::new();
        while !self.take(")") {
            self.rest = self.rest.trim_start();
            let digits = self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let size = self.rest[..digits].parse().map_err(|_| "its shape holds something that is no size".to_string())?;
            sizes.push(size);
            // Python 2 wrote `3L`.
            self.rest = self.rest[digits..].strip_prefix('L').unwrap_or(&self.rest[digits..]);
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(sizes)
    }
}

/// An open npy file. Only its header is in memory.
pub struct Npy {
    path: PathBuf,
    file: Mutex<fs::File>,
    header: Header,
}
impl fmt::Debug for Npy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Npy({}, {} {})", self.path.display(), self.header.dtype, self.header.shape)
    }
}
impl Npy {
    /// Opens a file and checks its header against the file's length.
    ///
    /// # Errors
    /// `File`, if it cannot be read, is no npy file, has a dtype that is none of ours (objects, texts, dates, complex
    /// and structured ones), more than 8 axes, or another length than its shape needs.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<Npy, Error> {
        let path = path.as_ref();
        let open = || {
            let mut file = crate::regular::open(path).map_err(|e| e.to_string())?;
            let len = file.metadata().map_err(|e| e.to_string())?.len();
            let header = Header::read(&mut BufReader::with_capacity(1024, &mut file))?;
            header.check(len)?;
            Ok(Npy { path: path.to_path_buf(), file: Mutex::new(file), header })
        };
        named("npy", path, open())
    }
    /// What its header says.
    pub fn header(&self) -> &Header {
        &self.header
    }
    /// Dtype and shape.
    pub fn meta(&self) -> (DType, Shape) {
        (self.header.dtype, self.header.shape)
    }
    /// The elements, row-major.
    ///
    /// # Errors
    /// `File`: the file is shorter than when it was opened; a byte that is no bool; no memory.
    #[track_caller]
    pub fn elements(&self) -> Result<HostVec, Error> {
        let read = || {
            let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            file.seek(SeekFrom::Start(self.header.start)).map_err(|e| e.to_string())?;
            self.header.elements(&mut *file, Trust::Checked)
        };
        named("npy", &self.path, read())
    }
    /// The array on a device.
    ///
    /// # Errors
    /// As [`Npy::elements`].
    #[track_caller]
    pub fn tensor(&self, device: Device) -> Result<Tensor, Error> {
        elements::to_tensor(self.header.dtype, self.header.shape, self.elements()?, device).ok()
    }
}
/// The array of an npy file, on the current device.
///
/// ```
/// use adamant_core::Tensor;
/// # adamant_core::Device::reference().make_current();
/// # let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
/// # let path = folder.path().join("x.npy");
/// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0], [3]);
/// adamant_formats::write_npy(&path, &x).map_err(|e| e.to_string())?;
/// let back = adamant_formats::read_npy(&path).map_err(|e| e.to_string())?;
/// assert_eq!(back.to_vec::<f32>().map_err(|e| e.to_string())?, [1.0, 2.0, 3.0]);
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// As [`Npy::open`] and [`Npy::elements`].
#[track_caller]
pub fn read_npy(path: impl AsRef<Path>) -> Result<Tensor, Error> {
    Npy::open(path)?.tensor(Device::current()?)
}
/// Writes a tensor as an npy file of version 1.0, computing it if need be. The file appears whole or not at all.
///
/// # Errors
/// The error the tensor carries; `File`, if npy has no such dtype (bf16, fp8) or the file cannot be written.
#[track_caller]
pub fn write_npy(path: impl AsRef<Path>, tensor: &Tensor) -> Result<(), Error> {
    let (path, here, meta) = (path.as_ref(), Origin::here(), tensor.try_meta()?);
    let header = named("npy", path, Header::write(meta.dtype, &meta.shape))?;
    let data = little_endian(tensor)?;
    let io = |e: std::io::Error| file_error("npy", path, e.to_string(), here);
    replace(path, io, |file| file.write_all(&header).and_then(|()| file.write_all(&data)).map_err(io))
}
/// A tensor's bytes as the formats want them.
pub(crate) fn little_endian(tensor: &Tensor) -> Result<Vec<u8>, Error> {
    let mut bytes = tensor.to_bytes()?;
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(tensor.dtype()?.size()).for_each(<[u8]>::reverse);
    }
    Ok(bytes)
}
