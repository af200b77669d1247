//! Which checkpoints are kept.
use super::Listed;

/// How many checkpoints are kept: the last and the best ones. The one saved last is always kept, and the last one whose numbers are all finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// those saved last
    pub last: usize,
    /// those with the highest scores; of two with one score, the earlier
    pub best: usize,
}
impl Retention {
    /// Those that need not be kept, the oldest first.
    pub(super) fn superfluous<'a>(&self, all: &'a [Listed]) -> Vec<&'a Listed> {
        let mut newest: Vec<&Listed> = all.iter().collect();
        newest.sort_by_key(|l| std::cmp::Reverse(l.sequence));
        let mut best: Vec<(f64, &Listed)> = all.iter().filter_map(|l| Some((l.score?, l))).collect();
        best.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(x.sequence.cmp(&y.sequence)));
        let finite = newest.iter().find(|l| l.finite);
        let kept: Vec<u64> =
            newest.iter().take(self.last.max(1)).chain(best.iter().take(self.best).map(|(_, l)| l)).chain(finite).map(|l| l.sequence).collect();
        newest.into_iter().rev().filter(|l| !kept.contains(&l.sequence)).collect()
    }
}
