//! IDX files, as MNIST and its relatives come in: a magic number with dtype and rank, the sizes, then the elements, all
//! big-endian; plain or gzipped (told by the first bytes, not by the name).
//! Source: the description on the page of the MNIST database (LeCun, Cortes and Burges).
use crate::{Labelled, Limits, Rows, file_error};
use adamant_core::{Error, HostVec, Result, Shape};
use std::{
    collections::BTreeMap,
    io::Read,
    path::{Path, PathBuf},
};

/// Bytes of elements beyond which a file is refused, whatever its header says: 8 GiB.
pub const MAX_BYTES: usize = 8 << 30;
/// Memory is taken in pieces as data arrives, so that a header that lies costs no more than the data behind it.
const PIECE: usize = 1 << 20;

/// The contents of an IDX file.
#[derive(Clone, Debug)]
pub struct Idx {
    path: PathBuf,
    shape: Shape,
    data: HostVec,
}
impl Idx {
    /// Reads a file.
    ///
    /// # Errors
    /// `File`: it cannot be read, is no IDX file, has another dtype than u8, i8, i16, i32, f32 and f64, or is longer or
    /// shorter than its header says.
    #[track_caller]
    pub fn read(path: impl AsRef<Path>) -> Result<Idx> {
        Idx::read_with(path, &Limits::default())
    }
    /// Reads a file under other limits.
    ///
    /// # Errors
    /// As [`Idx::read`].
    #[track_caller]
    pub fn read_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Idx> {
        let path = path.as_ref();
        match read(path, limits) {
            Ok((shape, data)) => Ok(Idx { path: path.to_path_buf(), shape, data }),
            Err(reason) => Err(file_error("read_idx", path, reason)),
        }
    }
    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }
    /// Its elements, row-major.
    pub fn values(&self) -> &HostVec {
        &self.data
    }
    /// Its rows along the first axis; one that holds a NaN or an infinity is a bad record.
    ///
    /// # Errors
    /// It has no axes.
    #[track_caller]
    pub fn into_rows(self) -> Result<Rows> {
        Ok(Rows::of_elements(self.data, self.shape)?.finite(&self.path))
    }
    /// Its bytes as classes, `i64[rows]`.
    ///
    /// # Errors
    /// It is no list of bytes. A label that is not in `0..count` makes a bad record.
    #[track_caller]
    pub fn into_classes(self, count: usize) -> Result<Rows> {
        let HostVec::U8(bytes) = &self.data else {
            return Err(file_error("idx", &self.path, format!("labels are bytes, not {}", self.data.dtype())));
        };
        if self.shape.rank() != 1 {
            return Err(file_error("idx", &self.path, format!("labels have one axis; its shape is {}", self.shape)));
        }
        // A label beyond the classes makes its record bad; what stands in its place is never read.
        let told = |label: &u8| if usize::from(*label) < count { i64::from(*label) } else { 0 };
        let bad = bytes.iter().enumerate().filter(|(_, label)| usize::from(**label) >= count);
        let bad: BTreeMap<usize, String> = bad.take(Limits::default().bad_records).map(|(row, l)| (row, format!("label {row} is {l}, of {count} classes"))).collect();
        Ok(Rows::classes(bytes.iter().map(told).collect(), count)?.with_bad(&self.path, bad))
    }
    /// Images and their classes from two files. The images keep their shape `[height, width]`; [`Rows::shaped`] and
    /// [`Rows::scaled`] make of them what a model wants, before they are labelled.
    ///
    /// # Errors
    /// As [`Idx::read`] and [`Idx::into_classes`]; two lengths.
    #[track_caller]
    pub fn images(images: impl AsRef<Path>, labels: impl AsRef<Path>, classes: usize) -> Result<Labelled<Rows, Rows>> {
        let labels = Idx::read(labels)?.into_classes(classes)?;
        Labelled::new(Idx::read(images)?.into_rows()?, labels)
    }
}

fn read(path: &Path, limits: &Limits) -> std::result::Result<(Shape, HostVec), String> {
    let mut source = crate::source::open(path, limits).map_err(|e| e.to_string())?;
    parse(&mut source.bytes, source.most)
}
fn parse(source: &mut impl Read, most: u64) -> std::result::Result<(Shape, HostVec), String> {
    let mut word = || {
        let mut word = [0; 4];
        source.read_exact(&mut word).map_err(|e| format!("its header: {e}")).map(|()| word)
    };
    let magic = word()?;
    let [0, 0, code, rank] = magic else { return Err(format!("it begins with {magic:02x?}, which is no IDX file")) };
    let rank = usize::from(rank);
    if rank > adamant_core::MAX_RANK {
        return Err(format!("it has {rank} axes; at most {} are supported", adamant_core::MAX_RANK));
    }
    let mut sizes = [0; adamant_core::MAX_RANK];
    for size in &mut sizes[..rank] {
        *size = u32::from_be_bytes(word()?) as usize;
    }
    let shape = Shape::new(&sizes[..rank]).map_err(|kind| kind.to_string())?;
    let data = match code {
        0x08 => HostVec::U8(elements(source, shape, most, |[b]: [u8; 1]| b)?),
        0x09 => HostVec::I8(elements(source, shape, most, i8::from_be_bytes)?),
        0x0b => HostVec::I16(elements(source, shape, most, i16::from_be_bytes)?),
        0x0c => HostVec::I32(elements(source, shape, most, i32::from_be_bytes)?),
        0x0d => HostVec::F32(elements(source, shape, most, f32::from_be_bytes)?),
        0x0e => HostVec::F64(elements(source, shape, most, f64::from_be_bytes)?),
        other => return Err(format!("its dtype has the code 0x{other:02x}, which no IDX file has")),
    };
    match source.read(&mut [0]) {
        Ok(0) => Ok((shape, data)),
        Ok(_) => Err(format!("it goes on after the {} elements of shape {shape}", shape.elements())),
        Err(e) => Err(e.to_string()),
    }
}
fn elements<T, const N: usize>(source: &mut impl Read, shape: Shape, most: u64, element: impl Fn([u8; N]) -> T) -> std::result::Result<Vec<T>, String> {
    let bytes =
        shape.elements().checked_mul(N).filter(|b| *b <= MAX_BYTES).ok_or_else(|| format!("its shape {shape} is over the limit of {MAX_BYTES} bytes"))?;
    if bytes as u64 > most {
        return Err(format!("its shape {shape} needs {bytes} bytes, of which some are missing: it holds {most} at most (the limits are `inflate_ratio` and `inflated_bytes`)"));
    }
    let (mut values, mut piece) = (Vec::new(), vec![0; PIECE.min(bytes)]);
    let mut left = bytes;
    while left > 0 {
        let piece = &mut piece[..PIECE.min(left)];
        source.read_exact(piece).map_err(|e| format!("its shape {shape} needs {bytes} bytes, of which {left} or fewer are missing: {e}"))?;
        values.try_reserve(piece.len() / N).map_err(|e| e.to_string())?;
        values.extend(piece.as_chunks::<N>().0.iter().map(|b| element(*b)));
        left -= piece.len();
    }
    values.shrink_to_fit();
    Ok(values)
}

impl From<Idx> for HostVec {
    fn from(idx: Idx) -> HostVec {
        idx.data
    }
}
impl TryFrom<Idx> for Rows {
    type Error = Error;
    fn try_from(idx: Idx) -> Result<Rows> {
        idx.into_rows()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dataset, Scale};
    use adamant_core::Device;
    use std::io::Write;

    fn file(code: u8, sizes: &[u32], data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, code, sizes.len() as u8];
        sizes.iter().for_each(|s| bytes.extend(s.to_be_bytes()));
        bytes.extend(data);
        bytes
    }
    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }
    fn open(bytes: &[u8]) -> Result<Idx> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.idx");
        std::fs::write(&path, bytes).unwrap();
        Idx::read(path)
    }
    #[test]
    fn a_dtype_or_byte_order_that_is_read_wrong() {
        let be = |v: &[f64]| v.iter().flat_map(|v| v.to_be_bytes()).collect::<Vec<_>>();
        let cases: [(u8, Vec<u8>, HostVec); 6] = [
            (0x08, vec![0, 1, 255, 7], HostVec::U8(vec![0, 1, 255, 7])),
            (0x09, vec![0, 1, 255, 128], HostVec::I8(vec![0, 1, -1, -128])),
            (0x0b, vec![0, 1, 255, 254, 127, 255, 128, 0], HostVec::I16(vec![1, -2, 32767, -32768])),
            (0x0c, [1i32, -2, i32::MAX, i32::MIN].iter().flat_map(|v| v.to_be_bytes()).collect(), HostVec::I32(vec![1, -2, i32::MAX, i32::MIN])),
            (0x0d, [1f32, -2.5, 0.0, 1e30].iter().flat_map(|v| v.to_be_bytes()).collect(), HostVec::F32(vec![1.0, -2.5, 0.0, 1e30])),
            (0x0e, be(&[1.0, -2.5, 0.0, 1e300]), HostVec::F64(vec![1.0, -2.5, 0.0, 1e300])),
        ];
        for (code, data, expected) in cases {
            let plain = file(code, &[2, 2], &data);
            for bytes in [gzip(&plain), plain] {
                let idx = open(&bytes).unwrap();
                assert_eq!((idx.values().bytes(), idx.values().dtype()), (expected.bytes(), expected.dtype()));
                assert_eq!(&*idx.shape(), &[2, 2]);
                assert_eq!(idx.into_rows().unwrap().len(), 2);
            }
        }
    }
    #[test]
    fn a_broken_or_hostile_file_that_is_taken() {
        let good = file(0x08, &[3], &[0, 1, 2]);
        let many = u32::MAX;
        for (bytes, says) in [
            (vec![], "header"),
            (vec![0, 0, 8], "header"),
            (b"GIF89a".to_vec(), "no IDX file"),
            (file(0x07, &[3], &[0, 1, 2]), "0x07"),
            (file(0x0a, &[3], &[0, 1, 2]), "0x0a"),
            (good[..good.len() - 1].to_vec(), "3 bytes"),
            ([&good[..], &[9]].concat(), "goes on"),
            (file(0x08, &[many, many, many], &[1]), "larger than memory"),
            (file(0x08, &[many, many], &[1]), "larger than memory|limit"),
            (file(0x0e, &[many], &[1]), "limit|missing"),
            (file(0x08, &[1; 9], &[1]), "9 axes"),
            (file(0x08, &[1; 255], &[1]), "255 axes"),
            (file(0x08, &[0, many], &[1]), "goes on"),
            (gzip(&good)[..20].to_vec(), ""),
            ([&gzip(&good)[..], &gzip(b"more")[..]].concat(), "goes on"),
            (gzip(&file(0x08, &[1 << 30], &[0; 100])), "missing"),
        ] {
            let error = open(&bytes).unwrap_err().to_string();
            assert!(says.split('|').any(|s| error.contains(s)) && error.contains("file.idx"), "{says}: {error}");
        }
    }
    #[test]
    fn labels_of_another_kind_or_outside_their_classes() {
        for (bytes, says) in
            [(file(0x08, &[3], &[0, 9, 10]), "label 2 is 10"), (file(0x08, &[1, 1], &[0]), "one axis"), (file(0x0c, &[1], &[0, 0, 0, 1]), "i32")]
        {
            let error = open(&bytes).unwrap().into_classes(10).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("file.idx"), "{error}");
        }
    }
    #[test]
    fn images_that_do_not_become_batches() {
        Device::reference().make_current();
        let images = open(&file(0x08, &[2, 2, 2], &[0, 255, 0, 51, 1, 2, 3, 4])).unwrap().into_rows().unwrap();
        let images = images.shaped([1, 2, 2]).unwrap().scaled(Scale { divide: 255.0, ..Scale::default() }).unwrap();
        let labels = open(&file(0x08, &[2], &[7, 3])).unwrap().into_classes(10).unwrap();
        let set = Labelled::new(images, labels).unwrap();
        let (x, y) = set.collate(vec![(1, 1), (0, 0)]).unwrap();
        assert_eq!((x.dims::<4>().unwrap(), y.to_vec::<i64>().unwrap()), ([2, 1, 2, 2], vec![3, 7]));
        assert_eq!(x.to_vec::<f32>().unwrap()[4..], [0.0, 1.0, 0.0, 0.2]);
    }
}
