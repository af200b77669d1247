//! The npz format: a zip archive with an npy file for each array, as `numpy.savez` and `numpy.savez_compressed` write it.
use crate::{
    elements::{self, Trust},
    npy::{Header, little_endian},
    whole::{file_error, named, replace},
    zip::{self, Member},
};
use adamant_core::{DType, Device, Error, HostVec, Origin, Shape, Tensor};
use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

const ENDING: &str = ".npy";

/// How an archive holds its arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NpzCompression {
    /// as they are (`numpy.savez`)
    #[default]
    Stored,
    /// deflated (`numpy.savez_compressed`)
    Deflated,
}

/// An open npz file. Only its directory is in memory.
pub struct Npz {
    path: PathBuf,
    file: Mutex<fs::File>,
    /// sorted by name
    members: Vec<Member>,
}
impl fmt::Debug for Npz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Npz({}, {} arrays)", self.path.display(), self.members.len())
    }
}
impl Npz {
    /// Opens a file and checks its directory.
    ///
    /// # Errors
    /// `File`, if it cannot be read, is no zip archive, is damaged, or holds something else than npy files.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<Npz, Error> {
        let path = path.as_ref();
        let open = || {
            let mut file = crate::regular::open(path).map_err(|e| e.to_string())?;
            let members = zip::members(&mut file)?;
            match members.iter().find(|m| !m.name.ends_with(ENDING)) {
                Some(other) => Err(format!("member `{}` is no npy file", crate::shown(&other.name))),
                None => Ok(Npz { path: path.to_path_buf(), file: Mutex::new(file), members }),
            }
        };
        named("npz", path, open())
    }
    /// The names of the arrays, sorted.
    pub fn names(&self) -> Vec<String> {
        self.members.iter().map(|m| m.name.strip_suffix(ENDING).unwrap_or(&m.name).to_string()).collect()
    }
    /// Is there an array of that name?
    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_ok()
    }
    /// Dtype and shape of an array, without reading its data.
    ///
    /// # Errors
    /// `File`, with the array's name: there is none, or it is no good npy file.
    #[track_caller]
    pub fn meta(&self, name: &str) -> Result<(DType, Shape), Error> {
        let read = |member: &Member, file: &mut fs::File| {
            let header = Header::read(&mut zip::unpack(file, member)?)?;
            header.check(member.size)?;
            Ok((header.dtype, header.shape))
        };
        named("npz", &self.path, self.with(name, read))
    }
    /// The elements of an array, row-major, with its dtype and shape.
    ///
    /// # Errors
    /// As [`Npz::meta`]; data that is damaged, or not as long as the archive declares.
    #[track_caller]
    pub fn elements(&self, name: &str) -> Result<(DType, Shape, HostVec), Error> {
        let read = |member: &Member, file: &mut fs::File| {
            let mut source = zip::unpack(file, member)?;
            let header = Header::read(&mut source)?;
            header.check(member.size)?;
            let elements = header.elements(&mut source, Trust::Claimed)?;
            source.finish()?;
            Ok((header.dtype, header.shape, elements))
        };
        named("npz", &self.path, self.with(name, read))
    }
    /// An array on a device.
    ///
    /// # Errors
    /// As [`Npz::elements`].
    #[track_caller]
    pub fn tensor(&self, name: &str, device: Device) -> Result<Tensor, Error> {
        let (dtype, shape, elements) = self.elements(name)?;
        elements::to_tensor(dtype, shape, elements, device).ok()
    }
    fn find(&self, name: &str) -> Result<&Member, String> {
        let whole = format!("{name}{ENDING}");
        let place = self.members.binary_search_by(|m| m.name.cmp(&whole));
        place.map(|at| &self.members[at]).map_err(|_| format!("there is no array `{}` in it", crate::shown(name)))
    }
    fn with<T>(&self, name: &str, read: impl FnOnce(&Member, &mut fs::File) -> Result<T, String>) -> Result<T, String> {
        let member = self.find(name)?;
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        read(member, &mut file).map_err(|reason| format!("array `{}`: {reason}", crate::shown(name)))
    }
}
/// All arrays of an npz file, on the current device.
///
/// ```
/// use adamant_core::Tensor;
/// use adamant_formats::npz::{NpzCompression, read_npz, write_npz};
/// # adamant_core::Device::reference().make_current();
/// # let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
/// # let path = folder.path().join("x.npz");
/// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0], [3]);
/// write_npz(&path, [("x", x)], NpzCompression::Deflated).map_err(|e| e.to_string())?;
/// let arrays = read_npz(&path).map_err(|e| e.to_string())?;
/// assert_eq!(arrays["x"].to_vec::<f32>().map_err(|e| e.to_string())?, [1.0, 2.0, 3.0]);
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// As [`Npz::open`] and [`Npz::elements`].
#[track_caller]
pub fn read_npz(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>, Error> {
    let (file, device) = (Npz::open(path)?, Device::current()?);
    let mut arrays = BTreeMap::new();
    for name in file.names() {
        let tensor = file.tensor(&name, device)?;
        arrays.insert(name, tensor);
    }
    Ok(arrays)
}
/// Writes tensors into one archive, computing them if need be, one at a time in memory. The same tensors give the same
/// bytes. The file appears whole or not at all.
///
/// # Errors
/// The error a tensor carries; `File`, if two have one name, npy has no such dtype (bf16, fp8), or the file cannot be written.
#[track_caller]
pub fn write_npz<N: Into<String>>(path: impl AsRef<Path>, tensors: impl IntoIterator<Item = (N, Tensor)>, packing: NpzCompression) -> Result<(), Error> {
    let (path, here) = (path.as_ref(), Origin::here());
    let mut sorted = BTreeMap::new();
    for (name, tensor) in tensors {
        let (name, meta) = (name.into(), tensor.try_meta()?);
        let header = Header::write(meta.dtype, &meta.shape).map_err(|reason| format!("array `{}`: {reason}", crate::shown(&name)));
        let header = named("npz", path, header)?;
        if sorted.contains_key(&name) {
            return named("npz", path, Err(format!("two arrays have the name `{}`", crate::shown(name))));
        }
        sorted.insert(name, (tensor, header));
    }
    let io = |e: std::io::Error| file_error("npz", path, e.to_string(), here);
    replace(path, io, |file| {
        let mut writer = zip::ZipWriter::new(file);
        for (name, (tensor, header)) in &sorted {
            let data = little_endian(tensor)?;
            writer.add(&format!("{name}{ENDING}"), &[header, &data], packing == NpzCompression::Deflated).map_err(io)?;
        }
        writer.finish().map_err(io)
    })
}
