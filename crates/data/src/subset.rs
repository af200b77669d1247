//! Parts of a data set: by a list, a range, a rule or at random. Only a list takes memory.
use crate::{BadRecord, Dataset, Description, Draw, Permutation, Place, wrong};
use adamant_core::Result;
use std::{ops::Range, sync::Arc};

/// Which records a part has, in its order.
#[derive(Clone, Debug)]
pub enum Pick {
    /// those of a list
    List(Arc<[usize]>),
    /// those of a range
    Range(Range<usize>),
    /// those at some positions of a shuffled order
    Shuffled(Permutation, Range<usize>),
    /// of `0..len`, record i if `(i / divide) mod modulo = equals`, or if not
    Rule {
        /// records of the whole
        len: usize,
        /// how many in a row are alike, at least 1
        divide: usize,
        /// how many such rows make a cycle, at least 1
        modulo: usize,
        /// which row of a cycle
        equals: usize,
        /// are those that fit taken, or the others
        fits: bool,
    },
}
impl Pick {
    /// How many records.
    pub fn len(&self) -> usize {
        match self {
            Pick::List(list) => list.len(),
            Pick::Range(range) | Pick::Shuffled(_, range) => range.len(),
            Pick::Rule { len, divide, modulo, equals, fits } => {
                let cycle = divide.saturating_mul(*modulo);
                let (whole, left) = (len / cycle, len % cycle);
                let fitting = whole * divide + left.saturating_sub(equals * divide).min(*divide);
                if *fits { fitting } else { len - fitting }
            }
        }
    }
    /// None?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The k-th of them; `None` beyond the last.
    pub fn at(&self, k: usize) -> Option<usize> {
        if k >= self.len() {
            return None;
        }
        Some(match self {
            Pick::List(list) => list[k],
            Pick::Range(range) => range.start + k,
            Pick::Shuffled(order, range) => order.at((range.start + k) as u64) as usize,
            Pick::Rule { divide, modulo, equals, fits: true, .. } => k / divide * divide * modulo + equals * divide + k % divide,
            Pick::Rule { divide, modulo, equals, fits: false, .. } => {
                // Of each cycle, the rows before the fitting one stay where they are, those behind it move up.
                let others = divide * (modulo - 1);
                let within = k % others;
                k / others * divide * modulo + within + if within >= equals * divide { *divide } else { 0 }
            }
        })
    }
}

/// A part of a data set. Its records keep the names they have in the whole.
#[derive(Debug)]
pub struct Subset<D: ?Sized> {
    whole: Arc<D>,
    pick: Pick,
}
impl<D: ?Sized> Clone for Subset<D> {
    fn clone(&self) -> Subset<D> {
        Subset { whole: self.whole.clone(), pick: self.pick.clone() }
    }
}
impl<D: Dataset + ?Sized> Subset<D> {
    /// Those records of a data set.
    ///
    /// # Errors
    /// One that is not there; a rule that makes no sense.
    #[track_caller]
    pub fn new(whole: Arc<D>, pick: Pick) -> Result<Subset<D>> {
        let len = whole.len();
        let fits = match &pick {
            Pick::List(list) => list.iter().all(|i| *i < len),
            Pick::Range(range) => range.is_empty() || range.end <= len,
            Pick::Shuffled(order, range) => order.len() <= len as u64 && range.end as u64 <= order.len(),
            Pick::Rule { len: of, divide, modulo, equals, .. } => *of <= len && *divide > 0 && equals < modulo && divide.checked_mul(*modulo).is_some(),
        };
        if !fits {
            let pick = match pick {
                Pick::List(_) => "a list".into(),
                Pick::Range(range) => format!("the range from {} to {}", range.start, range.end),
                Pick::Shuffled(order, range) => format!("the range from {} to {} of {} in a shuffled order", range.start, range.end, order.len()),
                Pick::Rule { len, divide, modulo, equals, .. } => format!("of {len} records those with (i / {divide}) mod {modulo} = {equals}"),
            };
            return Err(wrong("subset", format!("{pick} does not pick from {len} records")));
        }
        Ok(Subset { whole, pick })
    }
    /// What it is a part of.
    pub fn whole(&self) -> &Arc<D> {
        &self.whole
    }
}
impl<D: Dataset + ?Sized> Dataset for Subset<D> {
    type Record = D::Record;
    type Batch = D::Batch;
    fn len(&self) -> usize {
        self.pick.len()
    }
    fn read(&self, index: usize) -> std::result::Result<D::Record, BadRecord> {
        match self.pick.at(index) {
            Some(index) => self.whole.read(index),
            None => Err(BadRecord::new(self.locate(index), format!("there are {} records", self.len()))),
        }
    }
    fn read_at(&self, index: usize, draw: &Draw) -> std::result::Result<D::Record, BadRecord> {
        match self.pick.at(index) {
            Some(index) => self.whole.read_at(index, draw),
            None => Err(BadRecord::new(self.locate(index), format!("there are {} records", self.len()))),
        }
    }
    fn collate(&self, records: Vec<D::Record>) -> Result<D::Batch> {
        self.whole.collate(records)
    }
    fn locate(&self, index: usize) -> Place {
        self.whole.locate(self.pick.at(index).unwrap_or(index))
    }
    fn describe(&self) -> Description {
        self.whole.describe()
    }
}

/// Parts of a shuffled whole, one for each fraction; together they have every record once if the fractions sum to 1.
///
/// ```
/// use adamant_data::{Dataset, Rows, random_split};
/// use std::sync::Arc;
///
/// let whole = Arc::new(Rows::new((0..10).collect::<Vec<i64>>(), [10])?);
/// let parts = random_split(whole, &[0.75, 0.25], 3)?;
/// assert_eq!((parts[0].len(), parts[1].len()), (8, 2));
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A fraction that is negative or no number, or fractions above 1 together.
#[track_caller]
pub fn random_split<D: Dataset + ?Sized>(whole: Arc<D>, fractions: &[f64], seed: u64) -> Result<Vec<Subset<D>>> {
    let (len, total) = (whole.len(), fractions.iter().sum::<f64>());
    // A sum of decimal fractions may be a few roundings above 1.
    if !fractions.iter().all(|f| *f >= 0.0) || total > 1.0 + 1e-9 {
        return Err(wrong("random_split", format!("fractions {fractions:?} are not parts of a whole")));
    }
    let order = Permutation::new(len as u64, seed, 0);
    let cut = |share: f64| ((share * len as f64).round() as usize).min(len);
    let (mut start, mut share) = (0, 0.0);
    let parts = fractions.iter().map(|fraction| {
        share += fraction;
        let range = start..cut(share);
        start = range.end;
        Subset::new(whole.clone(), Pick::Shuffled(order, range))
    });
    parts.collect()
}
/// (training part, test part): record i is in the test part if `(i / divide) mod modulo = equals`.
///
/// # Errors
/// `divide` is 0, or `equals` is not below `modulo`.
#[track_caller]
pub fn split_by_rule<D: Dataset + ?Sized>(whole: Arc<D>, divide: usize, modulo: usize, equals: usize) -> Result<(Subset<D>, Subset<D>)> {
    let pick = |fits| Pick::Rule { len: whole.len(), divide, modulo, equals, fits };
    Ok((Subset::new(whole.clone(), pick(false))?, Subset::new(whole.clone(), pick(true))?))
}
/// (the rest, the last records): the tail has the given fraction, rounded up.
///
/// # Errors
/// A fraction that is not in 0 to 1.
#[track_caller]
pub fn split_tail<D: Dataset + ?Sized>(whole: Arc<D>, fraction: f64) -> Result<(Subset<D>, Subset<D>)> {
    let cut = tail(whole.len(), fraction)?;
    Ok((Subset::new(whole.clone(), Pick::Range(0..cut))?, Subset::new(whole.clone(), Pick::Range(cut..whole.len()))?))
}
/// Where the last `fraction` begins: at `floor(len * (1 - fraction))`.
#[track_caller]
pub(crate) fn tail(len: usize, fraction: f64) -> Result<usize> {
    if !(0.0..=1.0).contains(&fraction) {
        return Err(wrong("split_tail", format!("{fraction} is no fraction")));
    }
    Ok(((len as f64 * (1.0 - fraction)) as usize).min(len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rows;

    fn whole(len: usize) -> Arc<Rows> {
        Arc::new(Rows::new((0..len as i64).collect::<Vec<_>>(), [len]).unwrap())
    }
    fn of(part: &Subset<Rows>) -> Vec<usize> {
        (0..part.len()).map(|k| part.read(k).unwrap()).collect()
    }
    #[test]
    fn a_rule_that_puts_a_record_in_the_wrong_part() {
        for (len, divide, modulo, equals) in
            [(0, 1, 5, 4), (23, 1, 5, 4), (100, 10, 5, 2), (97, 3, 4, 0), (97, 3, 4, 3), (5, 10, 2, 1), (9, 2, 1, 0), (13, 4, 3, 1)]
        {
            let (train, test) = split_by_rule(whole(len), divide, modulo, equals).unwrap();
            let (in_test, in_train): (Vec<usize>, Vec<usize>) = (0..len).partition(|i| i / divide % modulo == equals);
            assert_eq!((of(&train), of(&test)), (in_train, in_test), "{len} {divide} {modulo} {equals}");
            assert!(test.read(test.len()).is_err());
        }
        assert!(split_by_rule(whole(3), 0, 2, 1).is_err() && split_by_rule(whole(3), 1, 2, 2).is_err() && split_by_rule(whole(3), usize::MAX, 2, 1).is_err());
    }
    #[test]
    fn a_random_split_that_loses_or_doubles_a_record() {
        for fractions in [&[0.8, 0.1, 0.1][..], &[1.0], &[0.3, 0.7], &[0.0, 1.0]] {
            let parts = random_split(whole(101), fractions, 5).unwrap();
            let mut all: Vec<usize> = parts.iter().flat_map(of).collect();
            all.sort_unstable();
            assert_eq!(all, (0..101).collect::<Vec<_>>());
        }
        assert_ne!(of(&random_split(whole(50), &[0.5], 1).unwrap()[0]), of(&random_split(whole(50), &[0.5], 2).unwrap()[0]));
        assert!(random_split(whole(5), &[0.6, 0.6], 1).is_err() && random_split(whole(5), &[f64::NAN], 1).is_err());
    }
    #[test]
    fn a_part_that_reaches_beyond_the_whole() {
        let (head, tail) = split_tail(whole(10), 0.25).unwrap();
        assert_eq!((of(&head).len(), of(&tail)), (7, vec![7, 8, 9]));
        assert!(split_tail(whole(10), 1.5).is_err());
        for pick in [Pick::List([0, 10].into()), Pick::Range(5..11), Pick::Shuffled(Permutation::new(11, 0, 0), 0..2)] {
            assert!(Subset::new(whole(10), pick).is_err());
        }
        // A part of a part has the names of the whole.
        let part = Subset::new(Arc::new(tail), Pick::List([2, 0].into())).unwrap();
        assert_eq!((part.read(0).unwrap(), part.locate(1).index), (9, 7));
    }
}
