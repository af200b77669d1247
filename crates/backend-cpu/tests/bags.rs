//! Bags of embeddings: sums, means and maxima of the rows that ids name, against plain loops.
#![allow(clippy::unwrap_used)]
use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{tensor::BagMode, *};

fn check(seed: u64) {
    let mut r = Random::new(seed);
    let (rows, width, n) = (1 + r.below(6), 1 + r.below(4), 1 + r.below(9));
    let mode = [BagMode::Sum, BagMode::Mean, BagMode::Max][r.below(3)];
    let table: Vec<f64> = (0..rows * width).map(|k| ((k * 37 + seed as usize * 11) % 101) as f64 * 0.5 - 20.0).collect();
    let ids: Vec<i64> = (0..n).map(|_| r.below(rows) as i64).collect();
    // Bags may be empty, the first begins with the first id.
    let mut offsets = vec![0i64];
    (0..r.below(5)).for_each(|_| offsets.push(r.below(n + 1) as i64));
    offsets.sort_unstable();
    let weights: Vec<f64> = (0..offsets.len() * width).map(|k| (k % 7) as f64 - 2.5).collect();
    let (mut wanted, mut of_table) = (vec![0.0; weights.len()], vec![0.0; table.len()]);
    for b in 0..offsets.len() {
        let end = offsets.get(b + 1).map_or(n, |&o| o as usize);
        let own = &ids[offsets[b] as usize..end];
        for c in 0..width {
            let of = |&i: &i64| table[i as usize * width + c];
            let (to, w) = (&mut wanted[b * width + c], weights[b * width + c]);
            let share = if mode == BagMode::Mean { 1.0 / own.len().max(1) as f64 } else { 1.0 };
            if mode == BagMode::Max {
                let most = own.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
                *to = if own.is_empty() { 0.0 } else { most };
                let winners: Vec<&i64> = own.iter().filter(|i| of(i) == most).collect();
                winners.iter().for_each(|i| of_table[**i as usize * width + c] += w / winners.len() as f64);
            } else {
                *to = own.iter().map(of).sum::<f64>() * share;
                own.iter().for_each(|&i| of_table[i as usize * width + c] += w * share);
            }
        }
    }
    let x = Tensor::from_vec(table, [rows, width]).tracked();
    let y = x.embedding_bag(&Tensor::from_vec(ids, [n]), Some(&Tensor::from_vec(offsets.clone(), [offsets.len()])), mode);
    let what = format!("{mode:?} of {n} rows in bags from {offsets:?}, seed {seed}");
    let near = |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
    let given = y.to_vec::<f64>().unwrap();
    assert!(near(&given, &wanted), "{given:?} instead of {wanted:?}: {what}");
    let g = Tensor::from_vec(weights, [offsets.len(), width]);
    let found = y.backward_with(&g).unwrap().get(&x).map_or(vec![0.0; of_table.len()], |g| g.to_vec::<f64>().unwrap());
    assert!(near(&found, &of_table), "{found:?} instead of {of_table:?}: the gradient of {what}");
}

#[test]
fn a_row_that_is_in_no_bag_or_in_anothers() {
    for device in [Device::reference(), Device::cpu().unwrap()] {
        device.scoped(|| (0..300).for_each(check));
    }
}
