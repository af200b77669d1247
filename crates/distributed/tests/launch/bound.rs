//! Which cores ranks run on, as the system tells the ranks themselves.
use super::{job, script};
use adamant_distributed::launch::{RankBinding, mpirun::MpirunKind, mpirun::mpirun_arguments};
use std::{collections::BTreeSet, path::Path};

/// Cores of a list as `/proc` writes it: `0-2,5`.
fn listed(text: &str) -> BTreeSet<usize> {
    let number = |text: &str| text.trim().parse::<usize>().unwrap_or_else(|e| panic!("`{text}`: {e}"));
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        (number(first), number(last))
    };
    text.split(',').map(range).flat_map(|(first, last)| first..=last).collect()
}
#[cfg(target_os = "linux")]
#[test]
fn ranks_on_each_others_cores_or_bound_though_nobody_asked() {
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let all = listed(own.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap());
    for (binding, threads, ranks, is_bound) in [
        (RankBinding::Auto, None, all.len().min(2), true),
        (RankBinding::Auto, None, all.len() + 1, false),
        (RankBinding::Auto, Some(all.len() + 1), 1, false),
        (RankBinding::None, None, 1, false),
        (RankBinding::Core, Some(7), all.len(), true),
        (RankBinding::Core, None, 2 * all.len(), true),
    ] {
        let mut plan = script(ranks, "grep Cpus_allowed_list /proc/self/status | cut -f2");
        plan.binding = binding;
        // Of whoever runs this test.
        plan.environment = vec![("ADAMANT_NUM_THREADS".into(), threads.unwrap_or(1).to_string().into())];
        let (ended, kept) = job(&plan);
        assert_eq!(ended.code, 0);
        let cores: Vec<BTreeSet<usize>> = (0..ranks).map(|rank| listed(&kept.of(rank)[0])).collect();
        let share = if is_bound { (all.len() / ranks).max(1) } else { all.len() };
        assert!(cores.iter().all(|own| own.len() == share && own.is_subset(&all)), "{binding:?}, {ranks} ranks: {cores:?} of {all:?}");
        let used: BTreeSet<usize> = cores.iter().flatten().copied().collect();
        assert_eq!(used.len(), if ranks <= all.len() && is_bound { share * ranks } else { all.len() }, "{binding:?}, {ranks} ranks: {cores:?}");
    }
}
#[test]
fn what_mpirun_is_told_of_cores() {
    let mut plan = script(2, "true");
    for (binding, open_mpi, hydra) in
        [(RankBinding::Auto, "--bind-to none", false), (RankBinding::None, "--bind-to none", false), (RankBinding::Core, "--bind-to core", true)]
    {
        plan.binding = binding;
        let line = |kind| {
            let words = mpirun_arguments(kind, &plan, Path::new("/bin/sh"), &[], false).unwrap();
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert!(line(MpirunKind::OpenMpi(4)).contains(open_mpi));
        assert_eq!(line(MpirunKind::Hydra).contains("-bind-to core"), hydra);
        assert!(line(MpirunKind::Hydra).contains("trap '' USR1;"), "Hydra sends it to the survivors");
    }
}
