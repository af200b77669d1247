//! How data fall into a training and a test part: by a rule, by a share drawn at random, by a fold of several.
use super::source::NamedFile;
use crate::{Failure, config::Section};
use adamant_core::{ErrorKind, Tensor};
use adamant_data::{BadRecord, Dataset, Examples, Permutation, Pick, Place, Subset, examples, random_split, split_by_rule};
use std::{path::PathBuf, sync::Arc};

/// Which rows are tested on.
#[derive(Clone, Copy, Debug)]
pub(super) enum TestSplit {
    /// row i, if (i / divide) mod modulo = equals
    Rule { divide: usize, modulo: usize, equals: usize },
    /// a share of them, drawn by a seed of its own, so that runs of other seeds are tested on the same rows; with `stratify`
    /// that share of each class
    Share { share: f64, seed: u64, stratify: bool },
    /// one of so many parts of about one size
    Fold { folds: usize, fold: usize, seed: u64 },
}
impl TestSplit {
    /// `test = 0.25`, or a table: `{ modulo, equals, divide }`, `{ share, seed, stratify }` or `{ folds, fold, seed }`.
    pub fn of(s: &Section<'_>) -> Result<Option<TestSplit>, Failure> {
        if !s.is_table("test") {
            let share = s.number("test")?;
            return share.map(|share| checked(share, 0, false).ok_or_else(|| s.wrong_key("test", no_share(share)))).transpose();
        }
        let Some(rule) = s.section("test")? else { return Ok(None) };
        let (share, folds) = (rule.number("share")?, rule.size("folds")?);
        let split = if let Some(share) = share {
            let (seed, stratify) = (rule.size("seed")?.unwrap_or(0) as u64, rule.flag("stratify")?.unwrap_or(false));
            checked(share, seed, stratify).ok_or_else(|| rule.wrong_key("share", no_share(share)))?
        } else if let Some(folds) = folds {
            let fold = rule.need("fold", rule.size("fold")?)?;
            if folds < 2 || fold >= folds {
                return Err(rule.wrong_key("fold", format!("of {folds} folds, one from 0 to {} is tested on; there are at least 2", folds.saturating_sub(1))));
            }
            TestSplit::Fold { folds, fold, seed: rule.size("seed")?.unwrap_or(0) as u64 }
        } else if !["modulo", "equals", "divide"].iter().any(|key| rule.has(key)) {
            return Err(
                rule.missing(&["share", "modulo", "folds"], "`data.test` says neither a `share`, as 0.25, nor a rule (`modulo` and `equals`) nor `folds`")
            );
        } else {
            let divide = rule.size("divide")?.unwrap_or(1);
            let modulo = rule.need("modulo", rule.size("modulo")?)?;
            let equals = rule.need("equals", rule.size("equals")?)?;
            let faults = [("divide", divide == 0 || divide.checked_mul(modulo).is_none()), ("modulo", modulo == 0), ("equals", equals >= modulo)];
            if let Some((key, _)) = faults.into_iter().find(|(_, fault)| *fault) {
                return Err(rule.wrong_key(key, "rows are tested if (i / divide) mod modulo = equals: divide is at least 1, and equals below modulo"));
            }
            TestSplit::Rule { divide, modulo, equals }
        };
        rule.finish()?;
        Ok(Some(split))
    }
    /// (training part, test part). `class` is asked for the class of a row where each class is to be divided alike.
    pub fn cut(&self, whole: &Examples, class: &dyn Fn(usize) -> Option<usize>) -> Result<(Examples, Examples), Failure> {
        let whole = whole.clone();
        let n = whole.len();
        let (train, test): (Subset<_>, Subset<_>) = match *self {
            TestSplit::Rule { divide, modulo, equals } => split_by_rule(whole, divide, modulo, equals)?,
            TestSplit::Share { share, seed, stratify: true } => {
                let mut by_class = std::collections::BTreeMap::<Option<usize>, Vec<usize>>::new();
                Permutation::new(n as u64, seed, 0).iter().for_each(|row| by_class.entry(class(row as usize)).or_default().push(row as usize));
                let mut is_test = vec![false; n];
                for rows in by_class.values() {
                    let most = rows.len().saturating_sub(1).max(1);
                    let count = ((rows.len() as f64 * share).round() as usize).clamp(usize::from(rows.len() > 1), most);
                    rows.iter().take(count).for_each(|row| is_test[*row] = true);
                }
                let list = |wanted: bool| Pick::List((0..n).filter(|row| is_test[*row] == wanted).collect());
                (Subset::new(whole.clone(), list(false))?, Subset::new(whole.clone(), list(true))?)
            }
            TestSplit::Share { share, seed, stratify: false } => two(random_split(whole, &[1.0 - share, share], seed)?)?,
            TestSplit::Fold { folds, fold, seed } => {
                let order = Permutation::new(n as u64, seed, 0);
                let (from, to) = (n * fold / folds, n * (fold + 1) / folds);
                let list = |wanted: bool| Pick::List((0..n).filter(|k| (from..to).contains(k) == wanted).map(|k| order.at(k as u64) as usize).collect());
                (Subset::new(whole.clone(), list(false))?, Subset::new(whole.clone(), list(true))?)
            }
        };
        Ok((Arc::new(train), Arc::new(test)))
    }
}
fn checked(share: f64, seed: u64, stratify: bool) -> Option<TestSplit> {
    (share > 0.0 && share < 1.0).then_some(TestSplit::Share { share, seed, stratify })
}
fn no_share(share: f64) -> String {
    format!("{share} is no part of the rows to test on; say a share between 0 and 1, as 0.25")
}
fn two<D: ?Sized>(parts: Vec<Subset<D>>) -> Result<(Subset<D>, Subset<D>), Failure> {
    let mut parts = parts.into_iter();
    parts.next().zip(parts.next()).ok_or_else(|| Failure::Run("a split of two parts".into()))
}
/// A share of the training part, held out at random.
pub(super) fn hold_out(train: Examples, share: Option<f64>, seed: u64) -> Result<(Examples, Option<Examples>), Failure> {
    let Some(share) = share else { return Ok((train, None)) };
    let (left, held) = two(random_split(train, &[1.0 - share, share], seed)?)?;
    Ok((Arc::new(left), Some(Arc::new(held))))
}

/// So many records of which only the numbers are known: to see which ones a part has before there is anything in them.
struct Count(usize);
impl Dataset for Count {
    type Record = usize;
    type Batch = (Tensor, Tensor);
    fn len(&self) -> usize {
        self.0
    }
    fn read(&self, index: usize) -> Result<usize, BadRecord> {
        Ok(index)
    }
    fn collate(&self, _: Vec<usize>) -> adamant_core::Result<(Tensor, Tensor)> {
        Err(adamant_core::Error::new("count", ErrorKind::Argument("numbers alone make no batch".into())))
    }
    fn locate(&self, index: usize) -> Place {
        Place { file: PathBuf::new(), index, offset: 0 }
    }
}
pub(super) fn count(n: usize) -> Examples {
    examples(Count(n))
}
/// The rows of a part by their numbers in the whole.
pub(super) fn rows(part: &Examples) -> Vec<u32> {
    (0..part.len()).map(|k| part.locate(k).index as u32).collect()
}

/// Where a test part comes from.
pub(super) enum Tested<P = PathBuf> {
    /// from the same files
    Split(TestSplit),
    /// from others
    Apart(P),
}
impl Tested {
    /// `test_path` or `test`.
    pub fn of(s: &Section<'_>) -> Result<Tested, Failure> {
        match (s.text("test_path")?, TestSplit::of(s)?) {
            (Some(path), None) => Ok(Tested::Apart(path.into())),
            (None, Some(split)) => Ok(Tested::Split(split)),
            (None, None) => {
                Err(s.missing(&["test", "test_path"], "`data.test` is missing: the share of the rows that is tested on, as 0.25 (or a rule, or `test_path`)"))
            }
            (Some(_), Some(_)) => Err(s.wrong_key("test_path", "there is `test` too; say one of them")),
        }
    }
}
pub(super) type TestedFiles = Tested<[NamedFile; 2]>;
