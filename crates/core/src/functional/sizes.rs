//! A size per spatial axis, or one for all of them.
use crate::ErrorKind;
use smallvec::SmallVec;

/// One size for every spatial axis (`3.into()`), or one for each (`[3, 5].into()`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(SmallVec<[usize; 3]>);
impl Sizes {
    /// One size for each of `n` axes.
    pub(crate) fn each(&self, n: usize, what: &str) -> Result<SmallVec<[usize; 3]>, ErrorKind> {
        match self.0.len() {
            1 => Ok(SmallVec::from_elem(self.0[0], n)),
            len if len == n => Ok(self.0.clone()),
            len => Err(ErrorKind::Argument(format!("{what} has {len} sizes for {n} spatial axes"))),
        }
    }
    /// The sizes as given.
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }
}
impl Default for Sizes {
    /// 1 for every axis.
    fn default() -> Sizes {
        Sizes::from(1)
    }
}
impl From<usize> for Sizes {
    fn from(size: usize) -> Sizes {
        Sizes(SmallVec::from_elem(size, 1))
    }
}
impl<const N: usize> From<[usize; N]> for Sizes {
    fn from(sizes: [usize; N]) -> Sizes {
        Sizes(SmallVec::from_slice(&sizes))
    }
}
impl From<&[usize]> for Sizes {
    fn from(sizes: &[usize]) -> Sizes {
        Sizes(SmallVec::from_slice(sizes))
    }
}
impl From<Vec<usize>> for Sizes {
    fn from(sizes: Vec<usize>) -> Sizes {
        Sizes(SmallVec::from_vec(sizes))
    }
}
