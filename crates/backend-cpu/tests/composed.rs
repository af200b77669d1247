//! Functions that are composed of others, against plain loops: with their gradients, on the CPU and on the reference.
#![allow(clippy::unwrap_used)]
use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{
    composite::loss::Reduction,
    functional::{adaptive_max_pool, multilabel_margin_loss},
    *,
};

fn devices() -> [Device; 2] {
    [Device::cpu().unwrap(), Device::reference()]
}
fn array(r: &mut Random, n: usize, different: usize) -> Vec<f64> {
    (0..n).map(|_| r.below(different) as f64 * 0.25 - 2.0).collect()
}
/// The gradient of `sum(y * w)` by x.
fn gradient(x: &Tensor, y: &Tensor, w: &[f64]) -> Vec<f64> {
    let w = Tensor::from_vec(w.to_vec(), y.shape().unwrap());
    y.backward_with(&w).unwrap().get(x).unwrap().to_vec::<f64>().unwrap()
}

fn pooled(seed: u64) {
    let mut r = Random::new(seed);
    let spatial = 1 + r.below(3);
    let sizes: Vec<usize> = (0..spatial).map(|_| 1 + r.below(9)).collect();
    let out: Vec<usize> = sizes.iter().map(|&s| [1, s, 1 + r.below(s), 1 + r.below(11)][r.below(4)]).collect();
    let lines = 1 + r.below(3);
    let (plane, made): (usize, usize) = (sizes.iter().product(), out.iter().product());
    let different = [2, 5, 1000][r.below(3)];
    let mut values = array(&mut r, lines * plane, different);
    if r.below(3) == 0 {
        let at = r.below(values.len());
        values[at] = f64::NAN;
    }
    let weights: Vec<f64> = array(&mut r, lines * made, 1000);
    let (mut best, mut at, mut of_x) = (vec![], vec![], vec![0.0; lines * plane]);
    for line in 0..lines {
        for k in 0..made {
            let (mut rest, mut bounds) = (k, vec![]);
            for a in (0..spatial).rev() {
                let i = rest % out[a];
                rest /= out[a];
                bounds.push((i * sizes[a] / out[a], ((i + 1) * sizes[a]).div_ceil(out[a])));
            }
            bounds.reverse();
            let mut winner: Option<usize> = None;
            for place in 0..plane {
                let (mut rest, mut inside) = (place, true);
                for a in (0..spatial).rev() {
                    inside &= (bounds[a].0..bounds[a].1).contains(&(rest % sizes[a]));
                    rest /= sizes[a];
                }
                let v = |p: usize| values[line * plane + p];
                if inside && winner.is_none_or(|w| !v(w).is_nan() && (v(place).is_nan() || v(place) > v(w))) {
                    winner = Some(place);
                }
            }
            let winner = winner.unwrap();
            best.push(values[line * plane + winner]);
            at.push(winner as i64);
            of_x[line * plane + winner] += weights[line * made + k];
        }
    }
    let shape: Vec<usize> = [lines].into_iter().chain(sizes.iter().copied()).collect();
    let wanted: Vec<Option<usize>> = out.iter().zip(&sizes).map(|(&o, &s)| if o == s { None } else { Some(o) }).collect();
    for device in devices() {
        device.scoped(|| {
            let x = Tensor::from_vec(values.clone(), &shape[..]).tracked();
            let (y, i) = adaptive_max_pool(&x, &wanted);
            let what = format!("{shape:?} to {out:?}, seed {seed} on {device}");
            assert_eq!(i.to_vec::<i64>().unwrap(), at, "places of {what}");
            let y_values = y.to_vec::<f64>().unwrap();
            assert!(y_values.iter().zip(&best).all(|(a, b)| a == b || a.is_nan() && b.is_nan()), "{what}");
            assert_eq!(gradient(&x, &y, &weights), of_x, "the gradient of {what}");
        });
    }
}
fn margins(seed: u64) {
    let mut r = Random::new(seed);
    let (n, classes) = (1 + r.below(4), 1 + r.below(12));
    let values = array(&mut r, n * classes, 40);
    // Targets, some more than once, ended by what is below zero; behind it lies anything.
    let targets: Vec<i64> = (0..n * classes).map(|_| if r.below(3) == 0 { -1 } else { r.below(classes) as i64 }).collect();
    let weights = array(&mut r, n, 1000);
    let (mut losses, mut of_x) = (vec![0.0; n], vec![0.0; n * classes]);
    for row in 0..n {
        let own: Vec<usize> = targets[row * classes..][..classes].iter().take_while(|t| **t >= 0).map(|&t| t as usize).collect();
        for &t in &own {
            for i in (0..classes).filter(|i| !own.contains(i)) {
                let margin = 1.0 - values[row * classes + t] + values[row * classes + i];
                if margin > 0.0 {
                    losses[row] += margin / classes as f64;
                    of_x[row * classes + i] += weights[row] / classes as f64;
                    of_x[row * classes + t] -= weights[row] / classes as f64;
                }
            }
        }
    }
    for device in devices() {
        device.scoped(|| {
            let x = Tensor::from_vec(values.clone(), [n, classes]).tracked();
            let y = multilabel_margin_loss(&x, &Tensor::from_vec(targets.clone(), [n, classes]), Reduction::None);
            let what = format!("{n} samples of {classes}, seed {seed} on {device}");
            let near = |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
            let (given, found) = (y.to_vec::<f64>().unwrap(), gradient(&x, &y, &weights));
            assert!(near(&given, &losses), "{given:?} instead of {losses:?}: {what}");
            assert!(near(&found, &of_x), "{found:?} instead of {of_x:?}: the gradient of {what}");
        });
    }
}
fn embedded(seed: u64) {
    let mut r = Random::new(seed);
    let (lines, n, offset) = (1 + r.below(4), r.below(7), r.below(7) as isize - 3);
    let size = n + offset.unsigned_abs();
    let values = array(&mut r, lines * n, 1000);
    let weights = array(&mut r, lines * size * size, 1000);
    let (mut wanted, mut of_x) = (vec![0.0; lines * size * size], vec![0.0; lines * n]);
    for line in 0..lines {
        for k in 0..n {
            let (row, column) = (k + (-offset).max(0) as usize, k + offset.max(0) as usize);
            let at = (line * size + row) * size + column;
            wanted[at] = values[line * n + k];
            of_x[line * n + k] = weights[at];
        }
    }
    for device in devices() {
        device.scoped(|| {
            let x = Tensor::from_vec(values.clone(), [lines, n]).tracked();
            let y = x.diag_embed(offset, -2, -1);
            assert_eq!(y.to_vec::<f64>().unwrap(), wanted, "[{lines}, {n}] at {offset} on {device}");
            assert_eq!(gradient(&x, &y, &weights), of_x, "the gradient of [{lines}, {n}] at {offset} on {device}");
            let transposed = x.diag_embed(offset, 0, -1).movedim(0, 1);
            assert_eq!(transposed.to_vec::<f64>().unwrap(), wanted, "[{lines}, {n}] at {offset} transposed on {device}");
        });
    }
}

#[test]
fn a_window_whose_largest_lies_elsewhere() {
    (0..400).for_each(pooled);
}
#[test]
fn a_class_that_counts_as_target_and_is_none() {
    (0..300).for_each(margins);
}
#[test]
fn a_diagonal_that_lies_beside_its_own() {
    (0..200).for_each(embedded);
}
