//! What a data set is: records that are found by their index and may be bad, and batches that are made of records.
//!
//! Invariant: what `read` and `collate` return depends on the index and the records alone, never on who calls or when;
//! that is what makes a loader's batches the same for any number of workers.
use crate::TargetScale;
use adamant_core::{DType, Result, Shape, Tensor, rng::philox};
use serde::{Deserialize, Serialize};
use std::{any::Any, fmt, path::PathBuf, sync::Arc};

/// Records by index ("map style"). Several workers read at once, hence `Sync`.
///
/// ```
/// use adamant_data::{BadRecord, Dataset, Place};
///
/// /// The squares of whole numbers, of which 13 cannot be read.
/// struct Squares;
/// impl Dataset for Squares {
///     type Record = u64;
///     type Batch = Vec<u64>;
///     fn len(&self) -> usize {
///         20
///     }
///     fn read(&self, index: usize) -> Result<u64, BadRecord> {
///         if index == 13 { Err(BadRecord::new(self.locate(index), "unlucky")) } else { Ok((index * index) as u64) }
///     }
///     fn collate(&self, records: Vec<u64>) -> adamant_core::Result<Vec<u64>> {
///         Ok(records)
///     }
///     fn locate(&self, index: usize) -> Place {
///         Place { file: "squares.bin".into(), index, offset: 8 * index as u64 }
///     }
/// }
/// assert_eq!(Squares.read(13).unwrap_err().to_string(), "squares.bin: record 13 at byte 104: unlucky");
/// ```
pub trait Dataset: Send + Sync {
    /// One record as it was read. In-memory sets have the index for a record, and gather when they collate.
    type Record: Send;
    /// What the training loop gets.
    type Batch: Send;
    /// How many records there are; it never changes.
    fn len(&self) -> usize;
    /// No records?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Reads one record.
    ///
    /// # Errors
    /// The record is damaged, or cannot be read.
    fn read(&self, index: usize) -> std::result::Result<Self::Record, BadRecord>;
    /// Reads one record for a loader that is at a place of its own. What is drawn anew each time, such as the crop of an image, is
    /// drawn by [`Draw`], so that it depends on nothing else.
    ///
    /// # Errors
    /// As [`Dataset::read`].
    fn read_at(&self, index: usize, _draw: &Draw) -> std::result::Result<Self::Record, BadRecord> {
        self.read(index)
    }
    /// Makes a batch of records, in their order; tensors are made on the current device. Not called without records.
    ///
    /// # Errors
    /// They do not go together, or there is no memory.
    fn collate(&self, records: Vec<Self::Record>) -> Result<Self::Batch>;
    /// Where a record stands, so that it can be named also when reading it panics or never returns.
    fn locate(&self, index: usize) -> Place {
        Place { file: "<memory>".into(), index, offset: 0 }
    }
    /// What is known about its batches without reading any.
    fn describe(&self) -> Description {
        Description::default()
    }
}
impl<D: Dataset + ?Sized> Dataset for Arc<D> {
    type Record = D::Record;
    type Batch = D::Batch;
    fn len(&self) -> usize {
        (**self).len()
    }
    fn read(&self, index: usize) -> std::result::Result<D::Record, BadRecord> {
        (**self).read(index)
    }
    fn read_at(&self, index: usize, draw: &Draw) -> std::result::Result<D::Record, BadRecord> {
        (**self).read_at(index, draw)
    }
    fn collate(&self, records: Vec<D::Record>) -> Result<D::Batch> {
        (**self).collate(records)
    }
    fn locate(&self, index: usize) -> Place {
        (**self).locate(index)
    }
    fn describe(&self) -> Description {
        (**self).describe()
    }
}

/// The index, if there is such a record.
pub(crate) fn row_of(dataset: &(impl Dataset + ?Sized), index: usize) -> std::result::Result<usize, BadRecord> {
    if index < dataset.len() { Ok(index) } else { Err(BadRecord::new(dataset.locate(index), format!("there are {} records", dataset.len()))) }
}

/// The place of a reading in a run: random numbers that a record is read by follow from it, whoever reads and whenever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// the seed of the loader's order; 0 where it has none
    pub seed: u64,
    /// the epoch, from 0
    pub epoch: u64,
    /// the record's number, as the loader counts
    pub index: usize,
}
/// Keeps draws of records apart from those of orders.
const STREAM: u32 = 0x5245_4144;
impl Draw {
    /// A number from 0 to below 1; `k` tells the numbers of one record apart.
    pub fn uniform(&self, k: u32) -> f64 {
        let (seed, index) = (self.seed, self.index as u64);
        let counter = [index as u32, self.epoch as u32, k, STREAM ^ (index >> 32) as u32 ^ ((self.epoch >> 32) as u32).rotate_left(16)];
        let bits = philox([seed as u32, (seed >> 32) as u32], counter);
        ((u64::from(bits[0]) << 32 | u64::from(bits[1])) >> 11) as f64 / (1u64 << 53) as f64
    }
}
/// Where a record stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// the file, `<memory>` if there is none
    pub file: PathBuf,
    /// the record's number in the file's data set, from 0
    pub index: usize,
    /// the first byte of it in the file (in what is inflated, if the file is compressed)
    pub offset: u64,
}

/// Why a record is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Reading it returned an error.
    Invalid,
    /// Reading it panicked.
    Panicked,
    /// Reading it did not end in time.
    TimedOut,
}
/// A record that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadRecord {
    /// where it stands
    #[serde(flatten)]
    pub place: Place,
    /// how it showed
    pub cause: Cause,
    /// what is wrong with it
    pub reason: String,
}
impl BadRecord {
    /// A record that was read and found invalid.
    pub fn new(place: Place, reason: impl Into<String>) -> BadRecord {
        BadRecord { place, cause: Cause::Invalid, reason: adamant_formats::shown_reason(reason.into()) }
    }
}
impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place.file.display(), self.text())
    }
}
impl BadRecord {
    /// Without the file's name.
    pub(crate) fn text(&self) -> String {
        format!("record {} at byte {}: {}", self.place.index, self.place.offset, self.reason)
    }
}
impl std::error::Error for BadRecord {}

/// Shape and dtype of one example, without the batch axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// the shape of one example
    pub shape: Shape,
    /// the dtype of its elements
    pub dtype: DType,
}
/// What is to be predicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One class for each example: `i64[batch]`, each in `0..count`.
    Classes {
        /// how many classes there are
        count: usize,
        /// their names; empty if they have none
        names: Vec<String>,
    },
    /// The token that follows each token: `i64[batch, context]`, each in `0..vocabulary`.
    NextToken {
        /// how many tokens there are
        vocabulary: usize,
    },
    /// Numbers for each example.
    Values(Facts),
}
/// What is known about the batches of a data set, so that a model can be checked against it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// one example of the inputs
    pub inputs: Option<Facts>,
    /// what is to be predicted
    pub targets: Option<Target>,
    /// how numbers that are to be predicted were scaled; none where they are in their own units
    pub target_scale: Option<Arc<TargetScale>>,
}
impl Description {
    /// Of numbers of a shape and dtype.
    pub(crate) fn of(shape: Shape, dtype: DType) -> Description {
        Description { inputs: Some(Facts { shape, dtype }), ..Description::default() }
    }
}

/// A record of a data set whose kind is not known.
pub struct AnyRecord(Box<dyn Any + Send>);
impl fmt::Debug for AnyRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyRecord")
    }
}
/// A data set of (inputs, targets) whatever its records are: what a training program works with.
pub type AnyDataset = dyn Dataset<Record = AnyRecord, Batch = (Tensor, Tensor)>;
/// Shared by all who read it.
pub type Examples = Arc<AnyDataset>;

struct Erased<D>(D);
impl<D: Dataset<Record: 'static>> Dataset for Erased<D> {
    type Record = AnyRecord;
    type Batch = D::Batch;
    fn len(&self) -> usize {
        self.0.len()
    }
    fn read(&self, index: usize) -> std::result::Result<AnyRecord, BadRecord> {
        self.0.read(index).map(|record| AnyRecord(Box::new(record)))
    }
    fn read_at(&self, index: usize, draw: &Draw) -> std::result::Result<AnyRecord, BadRecord> {
        self.0.read_at(index, draw).map(|record| AnyRecord(Box::new(record)))
    }
    fn collate(&self, records: Vec<AnyRecord>) -> Result<D::Batch> {
        let own = |record: AnyRecord| record.0.downcast::<D::Record>().map(|r| *r);
        let records = records.into_iter().map(own).collect::<std::result::Result<Vec<_>, _>>();
        self.0.collate(records.map_err(|_| crate::wrong("collate", "a record of another data set".into()))?)
    }
    fn locate(&self, index: usize) -> Place {
        self.0.locate(index)
    }
    fn describe(&self) -> Description {
        self.0.describe()
    }
}
/// Any data set of (inputs, targets), its kind of record forgotten.
///
/// ```
/// use adamant_data::{Dataset, Labelled, Rows, Target, examples};
///
/// let inputs = Rows::new(vec![0.0f32; 12], [3, 4])?;
/// let set = examples(Labelled::new(inputs, Rows::classes(vec![0, 1, 1], 2)?)?);
/// assert_eq!(set.len(), 3);
/// assert_eq!(set.describe().targets, Some(Target::Classes { count: 2, names: vec![] }));
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn examples<D>(dataset: D) -> Examples
where
    D: Dataset<Batch = (Tensor, Tensor), Record: 'static> + 'static,
{
    Arc::new(Erased(dataset))
}

/// Records with their numbers beside them: a batch tells which records it was made of, also where some were left out.
///
/// ```
/// use adamant_data::{DataLoader, Numbered, Policy, Rows};
/// use std::{collections::BTreeMap, sync::Arc};
/// # adamant_core::Device::reference().make_current();
///
/// let rows = Rows::new(vec![1.0f32, f32::NAN, 3.0], [3])?.with_bad("x.bin".as_ref(), BTreeMap::from([(1, "NaN".to_string())]));
/// let mut loader = DataLoader::new(Arc::new(Numbered(Arc::new(rows)))).batch_size(3).on_bad_record(Policy::Skip { at_most: 1 }).build()?;
/// let (numbers, batch) = loader.next_batch().transpose()?.ok_or("no batch")?;
/// assert_eq!((numbers, batch.to_vec::<f32>()?), (vec![0, 2], vec![1.0, 3.0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Numbered<D: ?Sized>(pub Arc<D>);
impl<D: Dataset + ?Sized> Dataset for Numbered<D> {
    type Record = (usize, D::Record);
    type Batch = (Vec<usize>, D::Batch);
    fn len(&self) -> usize {
        self.0.len()
    }
    fn read(&self, index: usize) -> std::result::Result<Self::Record, BadRecord> {
        Ok((index, self.0.read(index)?))
    }
    fn read_at(&self, index: usize, draw: &Draw) -> std::result::Result<Self::Record, BadRecord> {
        Ok((index, self.0.read_at(index, draw)?))
    }
    fn collate(&self, records: Vec<Self::Record>) -> Result<Self::Batch> {
        let (numbers, records) = records.into_iter().unzip();
        Ok((numbers, self.0.collate(records)?))
    }
    fn locate(&self, index: usize) -> Place {
        self.0.locate(index)
    }
    fn describe(&self) -> Description {
        self.0.describe()
    }
}
