//! Indexing by tensors of any axes, against plain loops: what is read, what is written, what is added, and the gradient.
#![allow(clippy::unwrap_used)]
use adamant_core::*;

struct Random(u64);
impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}
/// The coordinates of position `k`, row-major.
fn coordinates(mut k: usize, shape: &[usize]) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (at, &d) in at.iter_mut().zip(shape).rev() {
        (*at, k) = (k % d, k / d);
    }
    at
}
fn place(at: &[usize], shape: &[usize]) -> usize {
    at.iter().zip(shape).fold(0, |all, (&k, &d)| all * d + k)
}
/// An index with its own shape, which is broadcast to that of all.
struct GivenIndex {
    shape: Vec<usize>,
    values: Vec<i64>,
}
impl GivenIndex {
    fn at(&self, of_all: &[usize]) -> i64 {
        let own = &of_all[of_all.len() - self.shape.len()..];
        let own: Vec<usize> = own.iter().zip(&self.shape).map(|(&k, &d)| if d == 1 { 0 } else { k }).collect();
        self.values[place(&own, &self.shape)]
    }
    fn tensor(&self) -> Tensor {
        Tensor::from_vec(self.values.clone(), &self.shape[..])
    }
}
fn check(seed: u64) {
    let mut r = Random(seed);
    let rank = 1 + r.below(4);
    let shape: Vec<usize> = (0..rank).map(|_| 1 + r.below(5)).collect();
    let all: Vec<usize> = (0..1 + r.below(3)).map(|_| 1 + r.below(4)).collect();
    let mut indices: Vec<Option<GivenIndex>> = (0..rank).map(|_| None).collect();
    // Across each other, each with axes of its own, or along.
    let crossed = r.below(2) == 0;
    let mut taken = vec![false; all.len()];
    for axis in 0..rank {
        if r.below(2) == 0 {
            continue;
        }
        let own: Vec<usize> = (0..all.len())
            .map(|p| {
                let has = r.below(2) == 0 && !(crossed && taken[p]);
                taken[p] |= has;
                if has { all[p] } else { 1 }
            })
            .collect();
        let spare = own.iter().take_while(|&&d| d == 1).count();
        let own = own[r.below(spare + 1)..].to_vec();
        let n = shape[axis] as i64;
        let values = (0..own.iter().product()).map(|_| r.below(2 * n as usize) as i64 - n).collect();
        indices[axis] = Some(GivenIndex { shape: own, values });
    }
    let given: Vec<&GivenIndex> = indices.iter().flatten().collect();
    if given.is_empty() {
        return;
    }
    let longest = given.iter().map(|i| i.shape.len()).max().unwrap();
    let common: Vec<usize> =
        (0..longest).map(|p| given.iter().filter_map(|i| (p + i.shape.len()).checked_sub(longest).map(|k| i.shape[k])).max().unwrap()).collect();
    let axes: Vec<usize> = (0..rank).filter(|&k| indices[k].is_some()).collect();
    let beside = axes[axes.len() - 1] - axes[0] + 1 == axes.len();
    let to = if beside { axes[0] } else { 0 };
    let rest: Vec<usize> = (0..rank).filter(|k| !axes.contains(k)).map(|k| shape[k]).collect();
    let result = [&rest[..to], &common, &rest[to..]].concat();
    // Where each element of the result comes from.
    let from: Vec<usize> = (0..result.iter().product())
        .map(|k| {
            let at = coordinates(k, &result);
            let position = &at[to..to + common.len()];
            let mut others = at[..to].iter().chain(&at[to + common.len()..]);
            let source: Vec<usize> = (0..rank)
                .map(|axis| match &indices[axis] {
                    Some(index) => index.at(position).rem_euclid(shape[axis] as i64) as usize,
                    None => *others.next().unwrap(),
                })
                .collect();
            place(&source, &shape)
        })
        .collect();
    let n: usize = shape.iter().product();
    let what = format!("{shape:?} by {:?}, seed {seed}", given.iter().map(|i| &i.shape).collect::<Vec<_>>());
    let tensors: Vec<Option<Tensor>> = indices.iter().map(|i| i.as_ref().map(GivenIndex::tensor)).collect();
    let by: Vec<Option<&Tensor>> = tensors.iter().map(Option::as_ref).collect();
    // A view half of the time.
    let dense = Tensor::arange(0, n as i64, 1, DType::F64).reshape(&shape[..]);
    let x = if r.below(2) == 0 { dense } else { Tensor::stack(&[&dense, &(&dense * 2.0)], rank as isize).select(rank as isize, 0) }.tracked();
    let y = x.index(&by);
    assert_eq!(*y.shape().unwrap(), *result, "{what}");
    assert_eq!(y.to_vec::<f64>().unwrap(), from.iter().map(|&k| k as f64).collect::<Vec<_>>(), "{what}");
    let weight = Tensor::arange(1, from.len() as i64 + 1, 1, DType::F64).reshape(&result[..]);
    let gradient = (&y * &weight).sum(..).backward().unwrap().get(&x).cloned();
    let mut added = vec![0.0; n];
    from.iter().enumerate().for_each(|(k, &at)| added[at] += (k + 1) as f64);
    assert_eq!(gradient.unwrap().to_vec::<f64>().unwrap(), added, "the gradient of {what}");
    let sum: Vec<f64> = added.iter().enumerate().map(|(k, v)| k as f64 + v).collect();
    assert_eq!(x.index_put(&by, &weight, true).to_vec::<f64>().unwrap(), sum, "added to {what}");
    // Of equal places one wins, and others stay.
    let put = x.index_put(&by, &weight, false).to_vec::<f64>().unwrap();
    for (place, &v) in put.iter().enumerate() {
        let mut written = from.iter().enumerate().filter(|(_, at)| **at == place).map(|(k, _)| (k + 1) as f64).peekable();
        assert!(if written.peek().is_none() { v == place as f64 } else { written.any(|w| w == v) }, "{v} put at {place} of {what}");
    }
}

#[test]
fn an_element_that_an_index_names_and_another_is_picked() {
    Device::reference().scoped(|| (0..600).for_each(check));
}
#[test]
fn an_index_beyond_an_axis_that_stands_apart() {
    Device::reference().scoped(|| {
        let x = Tensor::zeros([3, 2, 4]);
        let (good, bad) = (Tensor::from_vec(vec![0i64, 2], [2]), Tensor::from_vec(vec![1i64, 4], [2]));
        let crossed = good.reshape([2, 1]);
        for y in [x.index(&[Some(&good), None, Some(&bad)]), x.index(&[Some(&crossed), None, Some(&bad)])] {
            let error = y.to_vec::<f32>().unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Index { index: 4, bound: 4, .. }), "{error}");
        }
    });
}
