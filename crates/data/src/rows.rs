//! Data sets in memory: rows of one tensor, pairs of inputs and targets, several tensors that share their first axis.
//!
//! A record is the row's index; rows are gathered when a batch is collated, in one pass from one vector to another.
use crate::{BadRecord, Dataset, Description, Draw, Facts, Place, Target, dataset::row_of, wrong};
use adamant_core::{DType, Element, HostVec, Result, Shape, Tensor, ToShape, bf16, f16};
use adamant_formats::{npy::Npy, npz::Npz};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// How stored numbers become f32: `(v / divide - mean) / std`, each step rounded to f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// the first divisor, such as 255 for bytes of pixels
    pub divide: f32,
    /// subtracted
    pub mean: f32,
    /// the last divisor
    pub std: f32,
}
impl Default for Scale {
    fn default() -> Scale {
        Scale { divide: 1.0, mean: 0.0, std: 1.0 }
    }
}
impl Scale {
    pub(crate) fn apply(&self, v: f32) -> f32 {
        (v / self.divide - self.mean) / self.std
    }
}
/// What happens to elements on the way into a batch.
#[derive(Clone, Debug)]
enum Convert {
    Not,
    Scaled(Scale),
    /// of bytes: what each becomes
    Bytes(Arc<[f32; 256]>),
}

/// The rows of one tensor, in memory: `[rows, ...]`. Cheap to clone: the numbers are shared.
///
/// ```
/// use adamant_data::{Dataset, Rows, Scale};
/// # adamant_core::Device::reference().make_current();
///
/// let pixels = Rows::new(vec![0u8, 255, 51, 0], [2, 2])?.scaled(Scale { divide: 255.0, ..Scale::default() })?;
/// assert_eq!(pixels.gather(&[1, 0])?.to_vec::<f32>()?, [0.2, 0.0, 0.0, 1.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rows {
    data: Arc<HostVec>,
    len: usize,
    shape: Shape,
    convert: Convert,
    target: Option<Target>,
    /// where they are from, and which of them are bad
    pub(crate) file: Option<Arc<Path>>,
    pub(crate) bad: Option<Arc<BTreeMap<usize, String>>>,
}
impl Rows {
    /// Of row-major values of a shape whose first axis is the rows.
    ///
    /// # Errors
    /// A shape without axes, or of another number of elements.
    #[track_caller]
    pub fn new<T: Element>(data: Vec<T>, shape: impl ToShape) -> Result<Rows> {
        let shape = shape.to_shape().map_err(|kind| adamant_core::Error::new("rows", kind))?;
        if shape.rank() == 0 || shape.elements() != data.len() {
            return Err(wrong("rows", format!("{} values do not fill rows of shape {shape}", data.len())));
        }
        let (len, shape) = (shape[0], shape.without(0));
        Ok(Rows { data: Arc::new(T::into_host(data)), len, shape, convert: Convert::Not, target: None, file: None, bad: None })
    }
    /// The rows of a tensor, copied to the host.
    ///
    /// # Errors
    /// The tensor's own; it has no axes; fp8, which no Rust type stands for.
    #[track_caller]
    pub fn from_tensor(tensor: &Tensor) -> Result<Rows> {
        let (dtype, shape) = (tensor.dtype()?, tensor.shape()?);
        match dtype {
            DType::Bool => Rows::new(tensor.to_vec::<bool>()?, shape),
            DType::U8 => Rows::new(tensor.to_vec::<u8>()?, shape),
            DType::I8 => Rows::new(tensor.to_vec::<i8>()?, shape),
            DType::I16 => Rows::new(tensor.to_vec::<i16>()?, shape),
            DType::U16 => Rows::new(tensor.to_vec::<u16>()?, shape),
            DType::I32 => Rows::new(tensor.to_vec::<i32>()?, shape),
            DType::U32 => Rows::new(tensor.to_vec::<u32>()?, shape),
            DType::I64 => Rows::new(tensor.to_vec::<i64>()?, shape),
            DType::U64 => Rows::new(tensor.to_vec::<u64>()?, shape),
            DType::F16 => Rows::new(tensor.to_vec::<f16>()?, shape),
            DType::BF16 => Rows::new(tensor.to_vec::<bf16>()?, shape),
            DType::F32 => Rows::new(tensor.to_vec::<f32>()?, shape),
            DType::F64 => Rows::new(tensor.to_vec::<f64>()?, shape),
            DType::F8E4M3 | DType::F8E5M2 => Err(wrong("rows", format!("rows of {dtype} cannot be gathered; cast them"))),
        }
    }
    /// The rows of an npy file.
    ///
    /// # Errors
    /// `File`, as [`Npy::open`] and [`Npy::elements`]; an array without axes.
    #[track_caller]
    pub fn read_npy(path: impl AsRef<Path>) -> Result<Rows> {
        let file = Npy::open(path)?;
        Rows::of_elements(file.elements()?, file.meta().1)
    }
    /// The rows of an array of an npz file.
    ///
    /// # Errors
    /// `File`, as [`Npz::open`] and [`Npz::elements`]; an array without axes.
    #[track_caller]
    pub fn read_npz(path: impl AsRef<Path>, name: &str) -> Result<Rows> {
        let (_, shape, elements) = Npz::open(path)?.elements(name)?;
        Rows::of_elements(elements, shape)
    }
    /// Of elements of any type, row-major.
    ///
    /// # Errors
    /// As [`Rows::new`].
    #[track_caller]
    pub fn of_elements(elements: HostVec, shape: Shape) -> Result<Rows> {
        macro_rules! adopt {
            ($($variant:ident),*) => { match elements { $(HostVec::$variant(v) => Rows::new(v, shape),)* } };
        }
        adopt!(Bool, U8, I8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64)
    }
    /// One class for each row, `i64`.
    ///
    /// # Errors
    /// One that is not in `0..count`, by its row.
    #[track_caller]
    pub fn classes(labels: Vec<i64>, count: usize) -> Result<Rows> {
        if let Some((row, label)) = labels.iter().enumerate().find(|(_, l)| usize::try_from(**l).map_or(true, |l| l >= count)) {
            return Err(wrong("classes", format!("row {row}: {label} is none of {count} classes")));
        }
        let len = labels.len();
        Ok(Rows { target: Some(Target::Classes { count, names: Vec::new() }), ..Rows::new(labels, [len])? })
    }
    /// The same classes with names, one for each.
    #[must_use]
    pub fn class_names(mut self, names: Vec<String>) -> Rows {
        if let Some(Target::Classes { count, names: own }) = &mut self.target
            && *count == names.len()
        {
            *own = names;
        }
        self
    }
    /// The same rows, each element becoming f32 by a scale when it goes into a batch.
    ///
    /// # Errors
    /// A scale that divides by zero or is not finite.
    #[track_caller]
    pub fn scaled(mut self, scale: Scale) -> Result<Rows> {
        let Scale { divide, mean, std } = scale;
        if ![divide, mean, std].iter().all(|v| v.is_finite()) || divide == 0.0 || std == 0.0 {
            return Err(wrong("scale", format!("(v / {divide} - {mean}) / {std} makes no finite numbers")));
        }
        self.convert = match &*self.data {
            HostVec::U8(_) => Convert::Bytes(Arc::new(std::array::from_fn(|v| scale.apply(v as f32)))),
            _ => Convert::Scaled(scale),
        };
        Ok(self)
    }
    /// The same rows in another shape of each.
    ///
    /// # Errors
    /// A shape of another number of elements.
    #[track_caller]
    pub fn shaped(mut self, row: impl ToShape) -> Result<Rows> {
        let shape = row.to_shape().map_err(|kind| adamant_core::Error::new("rows", kind))?;
        if shape.elements() != self.shape.elements() {
            return Err(wrong("rows", format!("a row of shape {} does not fill {shape}", self.shape)));
        }
        self.shape = shape;
        Ok(self)
    }
    /// The same rows; those that hold a NaN or an infinity are bad records. `file` is where they are from.
    #[must_use]
    pub fn finite(self, file: &Path) -> Rows {
        let width = self.shape.elements().max(1);
        let mut bad = BTreeMap::new();
        macro_rules! find {
            ($($variant:ident),*) => { match &*self.data {
                $(HostVec::$variant(v) => {
                    for (at, v) in v.iter().enumerate().filter(|(_, v)| !v.to_f64().is_finite()) {
                        bad.entry(at / width).or_insert_with(|| format!("row {}, column {}: {}", at / width + 1, at % width, v.to_f64()));
                        if bad.len() > crate::Limits::default().bad_records {
                            break;
                        }
                    }
                })*
                _ => {}
            } };
        }
        find!(F16, BF16, F32, F64);
        self.with_bad(file, bad)
    }
    /// The numbers as they are stored.
    pub fn values(&self) -> &HostVec {
        &self.data
    }
    /// Some rows as a tensor `[rows.len(), ...]` on the current device.
    ///
    /// # Errors
    /// A row that is not there; no memory.
    #[track_caller]
    pub fn gather(&self, rows: &[usize]) -> Result<Tensor> {
        if let Some(row) = rows.iter().find(|r| **r >= self.len) {
            return Err(wrong("gather", format!("there is no row {row} of {}", self.len)));
        }
        let shape = self.shape.insert(0, rows.len()).map_err(|kind| adamant_core::Error::new("gather", kind))?;
        macro_rules! pick {
            ($($variant:ident),*) => { match &*self.data { $(HostVec::$variant(v) => self.pick(v, rows, shape),)* } };
        }
        pick!(Bool, U8, I8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64).ok()
    }
    fn pick<T: Element>(&self, values: &[T], rows: &[usize], shape: Shape) -> Tensor {
        let width = self.shape.elements();
        let picked = rows.iter().map(|r| &values[r * width..(r + 1) * width]);
        match &self.convert {
            Convert::Not => {
                let mut out = Vec::with_capacity(rows.len() * width);
                picked.for_each(|row| out.extend_from_slice(row));
                Tensor::from_vec(out, shape)
            }
            Convert::Scaled(scale) => Tensor::from_vec(picked.flatten().map(|v| scale.apply(v.to_f64() as f32)).collect::<Vec<f32>>(), shape),
            Convert::Bytes(table) => {
                let mut out = Vec::with_capacity(rows.len() * width);
                for row in picked {
                    out.extend(bytemuck::cast_slice::<T, u8>(row).iter().map(|v| table[*v as usize]));
                }
                Tensor::from_vec(out, shape)
            }
        }
    }
}
impl Dataset for Rows {
    type Record = usize;
    type Batch = Tensor;
    fn len(&self) -> usize {
        self.len
    }
    fn read(&self, index: usize) -> std::result::Result<usize, BadRecord> {
        match self.bad.as_ref().and_then(|bad| bad.get(&index)) {
            Some(reason) => Err(BadRecord::new(self.locate(index), reason.clone())),
            None => row_of(self, index),
        }
    }
    fn collate(&self, records: Vec<usize>) -> Result<Tensor> {
        self.gather(&records)
    }
    fn locate(&self, index: usize) -> Place {
        Place { file: self.file.as_deref().map_or_else(|| "<memory>".into(), Path::to_path_buf), index, offset: 0 }
    }
    fn describe(&self) -> Description {
        let dtype = if matches!(self.convert, Convert::Not) { self.data.dtype() } else { DType::F32 };
        Description { targets: self.target.clone(), ..Description::of(self.shape, dtype) }
    }
}

/// Inputs and targets side by side: record i of one belongs to record i of the other.
#[derive(Clone, Debug)]
pub struct Labelled<A, B> {
    inputs: A,
    targets: B,
}
impl<A: Dataset, B: Dataset> Labelled<A, B> {
    /// Of two data sets of one length.
    ///
    /// # Errors
    /// Two lengths.
    #[track_caller]
    pub fn new(inputs: A, targets: B) -> Result<Labelled<A, B>> {
        if inputs.len() != targets.len() {
            return Err(wrong("labelled", format!("{} inputs and {} targets", inputs.len(), targets.len())));
        }
        Ok(Labelled { inputs, targets })
    }
    /// What is learned from.
    pub fn inputs(&self) -> &A {
        &self.inputs
    }
    /// What is to be predicted.
    pub fn targets(&self) -> &B {
        &self.targets
    }
}
impl<A: Dataset, B: Dataset> Dataset for Labelled<A, B> {
    type Record = (A::Record, B::Record);
    type Batch = (A::Batch, B::Batch);
    fn len(&self) -> usize {
        self.inputs.len()
    }
    fn read(&self, index: usize) -> std::result::Result<Self::Record, BadRecord> {
        Ok((self.inputs.read(index)?, self.targets.read(index)?))
    }
    fn read_at(&self, index: usize, draw: &Draw) -> std::result::Result<Self::Record, BadRecord> {
        Ok((self.inputs.read_at(index, draw)?, self.targets.read_at(index, draw)?))
    }
    fn collate(&self, records: Vec<Self::Record>) -> Result<Self::Batch> {
        let (inputs, targets) = records.into_iter().unzip();
        Ok((self.inputs.collate(inputs)?, self.targets.collate(targets)?))
    }
    fn locate(&self, index: usize) -> Place {
        self.inputs.locate(index)
    }
    fn describe(&self) -> Description {
        let targets = self.targets.describe();
        Description {
            inputs: self.inputs.describe().inputs,
            targets: targets.targets.or(targets.inputs.map(|facts: Facts| Target::Values(facts))),
            target_scale: targets.target_scale,
        }
    }
}

/// Tensors that share their first axis; a batch has the same rows of each.
#[derive(Clone, Debug)]
pub struct TensorDataset {
    parts: Vec<Rows>,
}
impl TensorDataset {
    /// Of tensors, copied to the host.
    ///
    /// ```
    /// use adamant_core::Tensor;
    /// use adamant_data::{DataLoader, TensorDataset};
    /// use std::sync::Arc;
    /// # adamant_core::Device::reference().make_current();
    ///
    /// let x = Tensor::from_vec((0..8).collect::<Vec<i64>>(), [4, 2]);
    /// let y = Tensor::from_vec(vec![0.5f32, 1.5, 2.5, 3.5], [4]);
    /// let mut loader = DataLoader::new(Arc::new(TensorDataset::new(&[&x, &y])?)).batch_size(3).build()?;
    /// let batch = loader.epoch().last().transpose()?.unwrap_or_default();
    /// assert_eq!(batch[0].to_vec::<i64>()?, [6, 7]);
    /// assert_eq!(batch[1].to_vec::<f32>()?, [3.5]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// No tensors, two lengths, or what [`Rows::from_tensor`] refuses.
    #[track_caller]
    pub fn new(tensors: &[&Tensor]) -> Result<TensorDataset> {
        let _call = adamant_core::scope::call("tensor_dataset");
        let parts = tensors.iter().map(|t| Rows::from_tensor(t)).collect::<Result<Vec<_>>>()?;
        let lengths: Vec<usize> = parts.iter().map(Rows::len).collect();
        match lengths.first() {
            Some(len) if lengths.iter().all(|l| l == len) => Ok(TensorDataset { parts }),
            _ => Err(wrong("tensor_dataset", format!("tensors of {lengths:?} rows; one number of rows is needed"))),
        }
    }
}
impl Dataset for TensorDataset {
    type Record = usize;
    type Batch = Vec<Tensor>;
    fn len(&self) -> usize {
        self.parts[0].len
    }
    fn read(&self, index: usize) -> std::result::Result<usize, BadRecord> {
        row_of(self, index)
    }
    fn collate(&self, records: Vec<usize>) -> Result<Vec<Tensor>> {
        self.parts.iter().map(|part| part.gather(&records)).collect()
    }
    fn describe(&self) -> Description {
        self.parts[0].describe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adamant_core::Device;

    #[test]
    fn rows_that_are_mixed_up_or_converted_wrong() {
        Device::reference().make_current();
        let rows = Rows::new((0..12).collect::<Vec<i32>>(), [3, 2, 2]).unwrap();
        let batch = rows.gather(&[2, 0, 2]).unwrap();
        assert_eq!(batch.dims::<3>().unwrap(), [3, 2, 2]);
        assert_eq!(batch.to_vec::<i32>().unwrap(), [8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11]);
        let scale = Scale { divide: 2.0, mean: 1.0, std: 4.0 };
        let scaled = rows.scaled(scale).unwrap().shaped([4]).unwrap();
        assert_eq!(scaled.gather(&[1]).unwrap().to_vec::<f32>().unwrap(), [0.25, 0.375, 0.5, 0.625]);
        assert_eq!(scaled.describe(), Description::of([4].to_shape().unwrap(), DType::F32));
        let bytes = Rows::new(vec![0u8, 6, 255, 1], [4, 1]).unwrap().scaled(scale).unwrap();
        assert_eq!(bytes.gather(&[1, 2]).unwrap().to_vec::<f32>().unwrap(), [0.5, (127.5 - 1.0) / 4.0]);
        let folder = tempfile::tempdir().unwrap();
        let (npy, npz) = (folder.path().join("x.npy"), folder.path().join("x.npz"));
        let numbers = Tensor::from_vec(vec![1i16, 2, 3, 4], [2, 2]);
        adamant_formats::write_npy(&npy, &numbers).unwrap();
        adamant_formats::write_npz(&npz, [("x", numbers)], Default::default()).unwrap();
        for rows in [Rows::read_npy(&npy).unwrap(), Rows::read_npz(&npz, "x").unwrap()] {
            assert_eq!(rows.gather(&[1]).unwrap().to_vec::<i16>().unwrap(), [3, 4]);
        }
        assert!(Rows::read_npz(&npz, "y").unwrap_err().to_string().contains("`y`"));
        let bools = Rows::from_tensor(&Tensor::from_vec(vec![true, false], [2])).unwrap();
        assert_eq!(bools.gather(&[1, 0]).unwrap().to_vec::<bool>().unwrap(), [false, true]);
    }
    #[test]
    fn what_does_not_go_together_and_is_taken_all_the_same() {
        Device::reference().make_current();
        let rows = Rows::new(vec![1.0f32, 2.0], [2]).unwrap();
        let empty = Rows::new(Vec::<f32>::new(), [0, 3]).unwrap();
        assert_eq!(empty.len(), 0);
        for (error, says) in [
            (Rows::new(vec![1.0f32], [2]).unwrap_err(), "1 values do not fill rows of shape [2]"),
            (Rows::new(vec![1.0f32], ()).unwrap_err(), "1 values"),
            (Rows::classes(vec![0, 1, 2], 2).unwrap_err(), "row 2: 2 is none of 2 classes"),
            (Rows::classes(vec![-1], 2).unwrap_err(), "row 0: -1"),
            (rows.gather(&[0, 2]).unwrap_err(), "no row 2 of 2"),
            (rows.clone().shaped([2]).unwrap_err(), "does not fill [2]"),
            (rows.clone().scaled(Scale { std: 0.0, ..Scale::default() }).unwrap_err(), "no finite"),
            (Labelled::new(rows.clone(), empty).unwrap_err(), "2 inputs and 0 targets"),
            (TensorDataset::new(&[]).unwrap_err(), "one number of rows"),
            (TensorDataset::new(&[&Tensor::zeros([2]), &Tensor::zeros([3])]).unwrap_err(), "[2, 3] rows"),
        ] {
            assert!(error.to_string().contains(says), "{error}");
        }
        assert!(rows.read(2).unwrap_err().to_string().contains("record 2"));
    }
}
