//! Which of the checks a run makes: all of them, or a share that follows from a seed. A device that is slow (software that
//! plays a GPU compiles every kernel for a second) is looked at in shares; the whole has a command of its own.
use crate::random::Random;

/// The variable with the seed of shares.
const SEED: &str = "ADAMANT_SHARE_SEED";
/// Which of the checks are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckShare {
    /// all
    Whole,
    /// about one of so many, drawn by the seed for each check on its own
    Drawn {
        /// of so many checks one is made
        one_of: usize,
        /// another seed draws other checks
        seed: u64,
    },
}
impl CheckShare {
    /// About one of so many checks, by the seed in `ADAMANT_SHARE_SEED` (1 where that is not set, or no number).
    pub fn one_of(n: usize) -> CheckShare {
        let seed = std::env::var(SEED).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
        if n <= 1 { CheckShare::Whole } else { CheckShare::Drawn { one_of: n, seed } }
    }
    /// Whether the check of this name is made: other checks change nothing in that.
    pub fn takes(self, check: &str) -> bool {
        match self {
            CheckShare::Whole => true,
            CheckShare::Drawn { one_of, seed } => Random::new(seed).part(hash(check)).one_in(one_of),
        }
    }
}
/// Fowler, Noll and Vo's hash of a name.
pub(crate) fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(one_of: usize, seed: u64) -> Vec<usize> {
        (0..6000).filter(|k| CheckShare::Drawn { one_of, seed }.takes(&format!("check {k}"))).collect()
    }
    #[test]
    fn a_share_is_as_large_as_asked_and_seeds_draw_others() {
        for one_of in [2, 4, 10] {
            let (n, want) = (taken(one_of, 1).len(), 6000 / one_of);
            assert!(n.abs_diff(want) < want / 8, "{n} of 6000 where one of {one_of} was asked");
        }
        assert_eq!(taken(4, 7), taken(4, 7));
        // What two independent shares of a quarter have in common is a sixteenth.
        let (a, b) = (taken(4, 1), taken(4, 2));
        let both = a.iter().filter(|k| b.contains(k)).count();
        assert!((250..500).contains(&both), "{both}");
        assert!(CheckShare::Whole.takes("anything") && CheckShare::one_of(1) == CheckShare::Whole);
    }
}
