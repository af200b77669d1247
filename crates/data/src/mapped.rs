//! Records of one size in a file that is mapped into memory: data sets larger than memory, at the cost of a page fault.
use crate::{BadRecord, Dataset, Description, Place, Rows, Scale, file_error, dataset::row_of, wrong};
use adamant_core::{DType, Result, Shape, Tensor, ToShape};
use adamant_formats::{mmap::MappedFile, npy::Npy};
use std::path::Path;

/// Records of one shape and dtype, one after the other in a file: raw, or the rows of an npy file. A batch is a tensor
/// `[batch, ...]`; [`crate::Labelled`] puts it together with targets.
///
/// The file must not change while it is mapped: shortening it makes the system stop the process (see
/// [`adamant_formats::mmap`]). Resident memory stays near [`adamant_formats::mmap::RESIDENT_BUDGET`], in any order.
///
/// ```
/// use adamant_core::DType;
/// use adamant_data::{Dataset, MmapRecords};
/// # adamant_core::Device::reference().make_current();
/// # let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
/// # let path = folder.path().join("x.bin");
/// std::fs::write(&path, [1u8, 2, 3, 4, 5, 6]).map_err(|e| e.to_string())?;
/// let set = MmapRecords::raw(&path, 0, DType::U8, [2]).map_err(|e| e.to_string())?;
/// let batch = set.collate(vec![set.read(2).map_err(|e| e.to_string())?]).map_err(|e| e.to_string())?;
/// assert_eq!(batch.to_vec::<u8>().map_err(|e| e.to_string())?, [5, 6]);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct MmapRecords {
    file: MappedFile,
    start: usize,
    len: usize,
    dtype: DType,
    shape: Shape,
    scale: Option<Scale>,
}
impl MmapRecords {
    /// Records of a shape and dtype, little-endian, from byte `start` to the end of the file.
    ///
    /// # Errors
    /// `File`: it cannot be mapped, or the bytes after `start` are no whole number of records. Records of no bytes.
    #[track_caller]
    pub fn raw(path: impl AsRef<Path>, start: u64, dtype: DType, shape: impl ToShape) -> Result<MmapRecords> {
        let shape = shape.to_shape().map_err(|kind| adamant_core::Error::new("mmap_records", kind))?;
        let size = shape.elements() * dtype.size();
        if size == 0 || cfg!(target_endian = "big") {
            return Err(wrong("mmap_records", format!("records of {shape} {dtype} cannot be mapped on this machine")));
        }
        let file = MappedFile::open(path)?;
        let bytes = usize::try_from(start).ok().and_then(|start| file.len().checked_sub(start));
        match bytes {
            Some(bytes) if bytes % size == 0 => Ok(MmapRecords { start: start as usize, len: bytes / size, dtype, shape, scale: None, file }),
            _ => Err(file_error("mmap_records", file.path(), format!("{} bytes from byte {start} on are no whole number of records of {size}", file.len()))),
        }
    }
    /// The rows of an npy file along its first axis.
    ///
    /// # Errors
    /// As [`Npy::open`] and [`MmapRecords::raw`]; `File`: big-endian or column-major data, or no axes.
    #[track_caller]
    pub fn npy(path: impl AsRef<Path>) -> Result<MmapRecords> {
        let path = path.as_ref();
        let header = Npy::open(path)?.header().clone();
        if header.shape.rank() == 0 || header.fortran_order && header.shape.rank() > 1 || header.big_endian {
            return Err(file_error("mmap_records", path, "only rows of little-endian, row-major data can be mapped; read it with `read_npy`"));
        }
        MmapRecords::raw(path, header.start, header.dtype, header.shape.without(0))
    }
    /// The same records, each element becoming f32 by a scale when it goes into a batch.
    ///
    /// # Errors
    /// As [`Rows::scaled`].
    #[track_caller]
    pub fn scaled(mut self, scale: Scale) -> Result<MmapRecords> {
        Rows::new(Vec::<f32>::new(), [0, 1])?.scaled(scale)?;
        self.scale = Some(scale);
        Ok(self)
    }
    fn size(&self) -> usize {
        self.shape.elements() * self.dtype.size()
    }
}
impl Dataset for MmapRecords {
    type Record = Vec<u8>;
    type Batch = Tensor;
    fn len(&self) -> usize {
        self.len
    }
    fn read(&self, index: usize) -> std::result::Result<Vec<u8>, BadRecord> {
        let index = row_of(self, index)?;
        let mut bytes = vec![0; self.size()];
        self.file.read_at(self.start + index * bytes.len(), &mut bytes).map_err(|e| BadRecord::new(self.locate(index), e.to_string()))?;
        Ok(bytes)
    }
    fn collate(&self, records: Vec<Vec<u8>>) -> Result<Tensor> {
        let count = records.len();
        let elements = adamant_formats::from_bytes(self.dtype, &records.concat()).map_err(|reason| file_error("mmap_records", self.file.path(), reason))?;
        drop(records);
        let shape = self.shape.insert(0, count).map_err(|kind| adamant_core::Error::new("mmap_records", kind))?;
        let tensor = adamant_formats::to_tensor(self.dtype, shape, elements, adamant_core::Device::current()?);
        match self.scale {
            None => tensor.ok(),
            Some(scale) => Rows::from_tensor(&tensor)?.scaled(scale)?.gather(&(0..count).collect::<Vec<_>>()),
        }
    }
    fn locate(&self, index: usize) -> Place {
        Place { file: self.file.path().to_path_buf(), index, offset: (self.start + index * self.size()) as u64 }
    }
    fn describe(&self) -> Description {
        Description::of(self.shape, if self.scale.is_some() { DType::F32 } else { self.dtype })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adamant_core::Device;

    #[test]
    fn records_that_are_cut_at_the_wrong_byte() {
        Device::reference().make_current();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        adamant_formats::write_npy(&path, &Tensor::from_vec((0..24).collect::<Vec<i32>>(), [4, 3, 2])).unwrap();
        let set = MmapRecords::npy(&path).unwrap();
        let batch = set.collate([3, 1].map(|k| set.read(k).unwrap()).into()).unwrap();
        assert_eq!((batch.dims::<3>().unwrap(), set.len()), ([2, 3, 2], 4));
        assert_eq!(batch.to_vec::<i32>().unwrap(), [18, 19, 20, 21, 22, 23, 6, 7, 8, 9, 10, 11]);
        assert_eq!(set.locate(2).offset, 128 + 2 * 24);
        assert!(set.read(4).is_err());
        let scaled = MmapRecords::npy(&path).unwrap().scaled(Scale { divide: 2.0, ..Scale::default() }).unwrap();
        assert_eq!(scaled.collate(vec![scaled.read(0).unwrap()]).unwrap().to_vec::<f32>().unwrap(), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]);
    }
    #[test]
    fn a_file_that_does_not_hold_whole_records_and_is_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.bin");
        std::fs::write(&path, [0; 10]).unwrap();
        for (start, dtype, shape) in [(0, DType::F32, 1), (11, DType::U8, 1), (1, DType::U8, 2), (u64::MAX, DType::U8, 1), (0, DType::U8, 0)] {
            assert!(MmapRecords::raw(&path, start, dtype, [shape]).is_err(), "{start} {dtype}");
        }
        assert_eq!(MmapRecords::raw(&path, 2, DType::F64, ()).unwrap().len(), 1);
        assert_eq!(MmapRecords::raw(&path, 10, DType::U8, ()).unwrap().len(), 0);
        assert!(MmapRecords::npy(&path).is_err());
    }
}
