//! Data sets made of others: one behind the other, side by side, and with a way of its own to make batches.
use crate::{BadRecord, Dataset, Description, Draw, Place, wrong};
use adamant_core::{DType, Result, Tensor};
use std::{fmt, sync::Arc};

/// Batches that can be put together along their first axis, so that the records of several data sets make one.
pub trait JoinBatches: Sized {
    /// One batch of several: its row i is the row `places[i]` of all of them put together.
    ///
    /// # Errors
    /// They do not go together.
    fn join(batches: Vec<Self>, places: &[i64]) -> Result<Self>;
}
impl JoinBatches for Tensor {
    fn join(batches: Vec<Tensor>, places: &[i64]) -> Result<Tensor> {
        let all = Tensor::cat(&batches, 0isize);
        if places.iter().enumerate().all(|(k, place)| k as i64 == *place) {
            return all.ok();
        }
        let places = Tensor::from_vec(places.to_vec(), [places.len()]);
        all.index_select(0isize, &places.to(all.device()?).cast(DType::I64)).ok()
    }
}
impl<A: JoinBatches, B: JoinBatches> JoinBatches for (A, B) {
    fn join(batches: Vec<(A, B)>, places: &[i64]) -> Result<(A, B)> {
        let (a, b) = batches.into_iter().unzip();
        Ok((A::join(a, places)?, B::join(b, places)?))
    }
}
/// Columns, each of them joined.
impl JoinBatches for Vec<Tensor> {
    fn join(batches: Vec<Vec<Tensor>>, places: &[i64]) -> Result<Vec<Tensor>> {
        let columns = batches.first().map_or(0, Vec::len);
        if batches.iter().any(|b| b.len() != columns) {
            return Err(wrong("concat_dataset", "the data sets have batches of different numbers of tensors".into()));
        }
        (0..columns).map(|k| Tensor::join(batches.iter().map(|b| b[k].clone()).collect(), places)).collect()
    }
}

/// Data sets one behind the other, as one: record `len` of the first is record 0 of the second.
///
/// ```
/// use adamant_data::{ConcatDataset, DataLoader, Dataset, Rows};
/// use std::sync::Arc;
/// # adamant_core::Device::reference().make_current();
///
/// let part = |from: i64, len: usize| Rows::new((from..from + len as i64).collect::<Vec<_>>(), [len]);
/// let whole = Arc::new(ConcatDataset::new(vec![part(0, 3)?, part(10, 2)?])?);
/// assert_eq!(whole.len(), 5);
/// let batch = DataLoader::new(whole).batch_size(5).build()?.next_batch().transpose()?.unwrap();
/// assert_eq!(batch.to_vec::<i64>()?, [0, 1, 2, 10, 11]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConcatDataset<D> {
    parts: Vec<D>,
    /// where each part ends
    ends: Vec<usize>,
}
impl<D: Dataset> ConcatDataset<D> {
    /// In this order; for data sets of different kinds, [`examples`](crate::examples) forgets the kind.
    ///
    /// # Errors
    /// No data sets; more records together than there are numbers.
    #[track_caller]
    pub fn new(parts: Vec<D>) -> Result<ConcatDataset<D>> {
        if parts.is_empty() {
            return Err(wrong("concat_dataset", "there are no data sets to put behind each other".into()));
        }
        let (mut ends, mut end) = (Vec::with_capacity(parts.len()), 0usize);
        for part in &parts {
            let Some(next) = end.checked_add(part.len()) else {
                return Err(wrong("concat_dataset", "there are more records than numbers".into()));
            };
            end = next;
            ends.push(end);
        }
        Ok(ConcatDataset { parts, ends })
    }
    /// The data sets.
    pub fn parts(&self) -> &[D] {
        &self.parts
    }
    /// The part that a record is in, and its number there.
    pub fn place(&self, index: usize) -> Option<(usize, usize)> {
        let part = self.ends.partition_point(|end| *end <= index);
        if part == self.parts.len() {
            return None;
        }
        Some((part, index - if part == 0 { 0 } else { self.ends[part - 1] }))
    }
    fn beyond(&self, index: usize) -> BadRecord {
        BadRecord::new(Place { file: "<memory>".into(), index, offset: 0 }, format!("there are {} records", self.ends.last().copied().unwrap_or(0)))
    }
}
impl<D: Dataset<Batch: JoinBatches>> Dataset for ConcatDataset<D> {
    type Record = (usize, D::Record);
    type Batch = D::Batch;
    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }
    fn read(&self, index: usize) -> std::result::Result<Self::Record, BadRecord> {
        let (part, index) = self.place(index).ok_or_else(|| self.beyond(index))?;
        Ok((part, self.parts[part].read(index)?))
    }
    fn read_at(&self, index: usize, draw: &Draw) -> std::result::Result<Self::Record, BadRecord> {
        let (part, index) = self.place(index).ok_or_else(|| self.beyond(index))?;
        Ok((part, self.parts[part].read_at(index, draw)?))
    }
    fn collate(&self, records: Vec<Self::Record>) -> Result<D::Batch> {
        // Each part makes a batch of its own records; then the rows go back to where they were asked for.
        let (mut of_parts, mut homes): (Vec<Vec<D::Record>>, Vec<(usize, usize)>) = (self.parts.iter().map(|_| Vec::new()).collect(), Vec::new());
        for (part, record) in records {
            homes.push((part, of_parts[part].len()));
            of_parts[part].push(record);
        }
        let mut starts = Vec::with_capacity(of_parts.len());
        let mut start = 0;
        for part in &of_parts {
            starts.push(start);
            start += part.len();
        }
        let places: Vec<i64> = homes.iter().map(|(part, k)| (starts[*part] + k) as i64).collect();
        let made = self.parts.iter().zip(of_parts).filter(|(_, records)| !records.is_empty()).map(|(part, records)| part.collate(records));
        let mut made = made.collect::<Result<Vec<_>>>()?;
        match made.pop() {
            Some(only) if made.is_empty() => Ok(only),
            Some(last) => {
                made.push(last);
                D::Batch::join(made, &places)
            }
            None => Err(wrong("concat_dataset", "a batch needs records".into())),
        }
    }
    fn locate(&self, index: usize) -> Place {
        self.place(index).map_or_else(|| Place { file: "<memory>".into(), index, offset: 0 }, |(part, index)| self.parts[part].locate(index))
    }
    fn describe(&self) -> Description {
        self.parts.first().map_or_else(Description::default, Dataset::describe)
    }
}

/// Two data sets side by side: record i of it is record i of each. More of them are stacked on each other.
///
/// ```
/// use adamant_data::{DataLoader, Rows, StackDataset};
/// use std::sync::Arc;
/// # adamant_core::Device::reference().make_current();
///
/// let (images, texts) = (Rows::new(vec![0.0f32; 12], [3, 4])?, Rows::new(vec![7i64, 8, 9], [3])?);
/// let both = Arc::new(StackDataset::new(images, texts)?);
/// let (image, text) = DataLoader::new(both).batch_size(2).build()?.next_batch().transpose()?.unwrap();
/// assert_eq!((image.dims::<2>()?, text.to_vec::<i64>()?), ([2, 4], vec![7, 8]));
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StackDataset<A, B> {
    first: A,
    second: B,
}
impl<A: Dataset, B: Dataset> StackDataset<A, B> {
    /// Of as many records each.
    ///
    /// # Errors
    /// They have different numbers of records.
    #[track_caller]
    pub fn new(first: A, second: B) -> Result<StackDataset<A, B>> {
        if first.len() != second.len() {
            return Err(wrong("stack_dataset", format!("{} records cannot stand beside {}", first.len(), second.len())));
        }
        Ok(StackDataset { first, second })
    }
}
impl<A: Dataset, B: Dataset> Dataset for StackDataset<A, B> {
    type Record = (A::Record, B::Record);
    type Batch = (A::Batch, B::Batch);
    fn len(&self) -> usize {
        self.first.len()
    }
    fn read(&self, index: usize) -> std::result::Result<Self::Record, BadRecord> {
        Ok((self.first.read(index)?, self.second.read(index)?))
    }
    fn read_at(&self, index: usize, draw: &Draw) -> std::result::Result<Self::Record, BadRecord> {
        Ok((self.first.read_at(index, draw)?, self.second.read_at(index, draw)?))
    }
    fn collate(&self, records: Vec<Self::Record>) -> Result<Self::Batch> {
        let (first, second) = records.into_iter().unzip();
        Ok((self.first.collate(first)?, self.second.collate(second)?))
    }
    fn locate(&self, index: usize) -> Place {
        self.first.locate(index)
    }
    fn describe(&self) -> Description {
        self.first.describe()
    }
}

/// A data set whose batches are made by a function: [`DataLoaderBuilder::collate_fn`](crate::DataLoaderBuilder::collate_fn).
pub struct Collated<D: Dataset + ?Sized, B> {
    whole: Arc<D>,
    collate: Box<CollateFn<D, B>>,
}
type CollateFn<D, B> = dyn Fn(&D, Vec<<D as Dataset>::Record>) -> Result<B> + Send + Sync;
impl<D: Dataset + ?Sized, B> Collated<D, B> {
    /// Batches by `f` from the data set and the records that were read.
    pub fn new(whole: Arc<D>, f: impl Fn(&D, Vec<D::Record>) -> Result<B> + Send + Sync + 'static) -> Collated<D, B> {
        Collated { whole, collate: Box::new(f) }
    }
    /// The data set.
    pub fn whole(&self) -> &Arc<D> {
        &self.whole
    }
}
impl<D: Dataset + ?Sized, B> fmt::Debug for Collated<D, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collated({} records)", self.whole.len())
    }
}
impl<D: Dataset + ?Sized, B: Send> Dataset for Collated<D, B> {
    type Record = D::Record;
    type Batch = B;
    fn len(&self) -> usize {
        self.whole.len()
    }
    fn read(&self, index: usize) -> std::result::Result<D::Record, BadRecord> {
        self.whole.read(index)
    }
    fn read_at(&self, index: usize, draw: &Draw) -> std::result::Result<D::Record, BadRecord> {
        self.whole.read_at(index, draw)
    }
    fn collate(&self, records: Vec<D::Record>) -> Result<B> {
        (self.collate)(&self.whole, records)
    }
    fn locate(&self, index: usize) -> Place {
        self.whole.locate(index)
    }
    fn describe(&self) -> Description {
        self.whole.describe()
    }
}
