//! Cases in which every two options meet: each takes as many pairs that have not met as a few draws find.

/// The options, and how many values each has.
const OPTIONS: [(&str, &[usize]); 12] = [
    ("dtype", &[0, 1]),
    ("queries", &LENGTHS),
    ("keys", &LENGTHS),
    ("features", &HEAD_SIZES),
    ("values", &HEAD_SIZES),
    ("causal", &[0, 1]),
    ("mask", &[0, 1, 2, 3]),
    ("extents of the mask", &[0, 1, 2, 3]),
    ("dropout", &[0, 1]),
    ("heads that share", &[1, 2, 3]),
    ("heads of keys", &[1, 2]),
    ("scale", &[0, 1, 2]),
];
pub const LENGTHS: [usize; 5] = [1, 63, 64, 65, 257];
pub const HEAD_SIZES: [usize; 7] = [8, 16, 40, 64, 80, 128, 256];

/// The value of each option, by its place.
pub type Chosen = [usize; OPTIONS.len()];

/// Numbers by Knuth's generator.
pub struct Drawn(pub u64);
impl Drawn {
    pub fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize
    }
}
fn pairs(case: &Chosen) -> impl Iterator<Item = [usize; 4]> + '_ {
    (0..case.len()).flat_map(move |a| (a + 1..case.len()).map(move |b| [a, case[a], b, case[b]]))
}
/// All cases.
pub fn all(seed: u64) -> Vec<Chosen> {
    let mut drawn = Drawn(seed);
    let mut missing: std::collections::BTreeSet<[usize; 4]> = (0..OPTIONS.len())
        .flat_map(|a| (a + 1..OPTIONS.len()).map(move |b| (a, b)))
        .flat_map(|(a, b)| OPTIONS[a].1.iter().flat_map(move |x| OPTIONS[b].1.iter().map(move |y| [a, *x, b, *y])))
        .collect();
    let mut cases = Vec::new();
    while let Some(&first) = missing.iter().nth(drawn.next() % missing.len().max(1)) {
        let draw = |drawn: &mut Drawn| {
            let mut case = OPTIONS.map(|(_, values)| values[drawn.next() % values.len()]);
            case[first[0]] = first[1];
            case[first[2]] = first[3];
            case
        };
        let best = (0..60).map(|_| draw(&mut drawn)).max_by_key(|case| pairs(case).filter(|p| missing.contains(p)).count());
        let Some(best) = best else { break };
        pairs(&best).for_each(|p| {
            missing.remove(&p);
        });
        cases.push(best);
    }
    cases
}
/// What a case is, for who reads of its failure.
pub fn described(case: &Chosen) -> String {
    OPTIONS.iter().zip(case).map(|((name, _), value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}
