//! Which cores each rank of this host may run on. A rank that stays on cores of its own keeps its caches and is never waited for because the
//! system put two ranks on one core; that is also how the launchers of MPIs do it. Must not know who starts a rank.
use std::str::FromStr;

/// Are ranks bound to cores?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RankBinding {
    /// where each rank's threads have a core each: as [`RankBinding::Core`]
    #[default]
    Auto,
    /// the system decides, at every moment
    None,
    /// each to its share of the cores; ranks that are more than the cores share them in turn
    Core,
}
impl FromStr for RankBinding {
    type Err = String;
    fn from_str(text: &str) -> Result<RankBinding, String> {
        match text {
            "auto" => Ok(RankBinding::Auto),
            "none" => Ok(RankBinding::None),
            "core" => Ok(RankBinding::Core),
            _ => Err("there are auto, none, core".into()),
        }
    }
}
impl RankBinding {
    /// The cores of a rank of so many, of those that there are for all; none: it is not bound. `threads` is how many each
    /// rank starts, where that was decided.
    pub fn cores_of(self, rank: usize, ranks: usize, cores: &[usize], threads: Option<usize>) -> Option<Vec<usize>> {
        let share = cores.len() / ranks.max(1);
        let fits = share > 0 && threads.is_none_or(|threads| threads <= share);
        match self {
            RankBinding::None => None,
            RankBinding::Auto if !fits => None,
            // What is left over stays idle: ranks of two speeds are as slow as the slower one.
            _ if share > 0 => cores.get(rank * share..(rank + 1) * share).map(<[usize]>::to_vec),
            _ => cores.get(rank % cores.len().max(1)).map(|core| vec![*core]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_share_a_core_though_there_are_enough() {
        for cores in 1..=9usize {
            // Not those from 0 on: a container may have any.
            let all: Vec<usize> = (0..cores).map(|k| 3 + 2 * k).collect();
            for ranks in 1..=12 {
                let of = |binding: RankBinding, threads| (0..ranks).map(|rank| binding.cores_of(rank, ranks, &all, threads)).collect::<Vec<_>>();
                assert!(of(RankBinding::None, None).iter().all(Option::is_none));
                let bound: Vec<Vec<usize>> = of(RankBinding::Core, None).into_iter().map(Option::unwrap).collect();
                assert!(bound.iter().all(|own| own.len() == (cores / ranks).max(1) && own.iter().all(|core| all.contains(core))));
                let mut used = bound.concat();
                used.sort_unstable();
                used.dedup();
                assert_eq!(used.len(), if ranks <= cores { cores / ranks * ranks } else { cores }, "{ranks} ranks on {cores} cores");
                let auto = of(RankBinding::Auto, None);
                assert!(auto.iter().all(|own| own.is_some() == (ranks <= cores)));
                // Threads that would stand on each other's core.
                assert!(of(RankBinding::Auto, Some(cores / ranks + 1)).iter().all(Option::is_none));
            }
        }
    }
}
