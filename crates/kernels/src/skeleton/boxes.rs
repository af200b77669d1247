//! Nested loops of very many rounds, cut in boxes that launches walk one after the other. The boxes follow each other as the rounds
//! do: what is handed on from one to the next has met the same elements in the same order.
/// The rounds of nested loops of so many, the outermost first.
pub(super) fn rounds(sizes: &[usize]) -> usize {
    sizes.iter().fold((0, 1), |(all, inner), n| (all + inner * n, inner * n)).0
}
/// The bounds of each box of about so many rounds at most: from and to, for each loop.
pub(super) fn boxes(sizes: &[usize], most: usize) -> Vec<Vec<u32>> {
    let mut steps = vec![1; sizes.len()];
    // Rounds that one of a loop brings with it.
    let mut cost = 1;
    for (step, &n) in steps.iter_mut().zip(sizes).rev() {
        *step = (most / cost).clamp(1, n.max(1));
        if *step < n {
            break;
        }
        cost += *step * cost;
    }
    let mut all = vec![Vec::new()];
    for (&n, step) in sizes.iter().zip(steps) {
        let bounds = |begin: usize| [begin as u32, n.min(begin + step) as u32];
        all = all.iter().flat_map(|outer: &Vec<u32>| (0..n.max(1)).step_by(step).map(move |begin| [&outer[..], &bounds(begin)].concat())).collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_miss_a_round_or_walk_too_many() {
        for sizes in [&[5, 3, 3][..], &[100_003], &[1, 300_007], &[300_007, 3], &[3, 70_000, 2], &[2, 300, 300], &[40_000, 1, 1], &[], &[4, 0]] {
            let (mut walked, mut last) = (0, None);
            for of in boxes(sizes, 4096) {
                let extents: Vec<usize> = of.as_chunks().0.iter().map(|[from, to]| (to - from) as usize).collect();
                assert!(rounds(&extents) <= 4096 + sizes.len(), "{sizes:?}: {of:?}");
                walked += extents.iter().product::<usize>();
                let begins: Vec<u32> = of.iter().copied().step_by(2).collect();
                assert!(last.is_none_or(|last| last < begins), "{sizes:?}: {begins:?} in disorder");
                last = Some(begins);
            }
            assert_eq!(walked, sizes.iter().product::<usize>(), "{sizes:?}");
        }
    }
}
