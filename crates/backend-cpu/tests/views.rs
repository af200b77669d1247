//! Reshapes of views: elements are moved where no strides tell the new shape, and nowhere else. Against lists of places.
#![allow(clippy::unwrap_used)]
use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{schedule::take_stats, *};

/// A tensor, its shape, and which element of the first one each of its elements is.
struct Viewed {
    x: Tensor,
    shape: Vec<usize>,
    places: Vec<usize>,
}
/// The elements of `places` in this shape at what `at` says of each of the new ones.
fn picked(v: &Viewed, x: Tensor, shape: Vec<usize>, at: impl Fn(&[usize]) -> Vec<usize>) -> Viewed {
    let n: usize = shape.iter().product();
    let places = (0..n).map(|k| {
        let from = at(&coordinates(k, &shape));
        v.places[from.iter().zip(&v.shape).fold(0, |sum, (i, d)| sum * d + i)]
    });
    Viewed { x, places: places.collect(), shape }
}
fn coordinates(mut k: usize, shape: &[usize]) -> Vec<usize> {
    let mut all: Vec<usize> = shape.iter().rev().map(|d| (k % d, k /= d).0).collect();
    all.reverse();
    all
}
fn viewed(r: &mut Random, v: &Viewed) -> Viewed {
    let rank = v.shape.len();
    let axis = r.below(rank);
    let with = |axis: usize, d: usize| v.shape.iter().enumerate().map(|(k, &s)| if k == axis { d } else { s }).collect::<Vec<_>>();
    match r.below(5) {
        0 => {
            let (a, b) = (r.below(rank), r.below(rank));
            let mut shape = v.shape.clone();
            shape.swap(a, b);
            picked(v, v.x.transpose(a, b), shape, |i| {
                let mut i = i.to_vec();
                i.swap(a, b);
                i
            })
        }
        1 => {
            let (start, step) = (r.below(v.shape[axis]), 1 + r.below(2));
            let len = (v.shape[axis] - start).div_ceil(step);
            picked(v, v.x.slice(axis, start, v.shape[axis], step), with(axis, len), |i| {
                i.iter().enumerate().map(|(k, &i)| if k == axis { start + i * step } else { i }).collect()
            })
        }
        2 => {
            let last = v.shape[axis] - 1;
            picked(v, v.x.flip(axis), v.shape.clone(), |i| i.iter().enumerate().map(|(k, &i)| if k == axis { last - i } else { i }).collect())
        }
        3 if rank < 5 => {
            let mut shape = v.shape.clone();
            shape.insert(0, 1 + r.below(3));
            picked(v, v.x.expand(shape.clone()), shape, |i| i[1..].to_vec())
        }
        _ if rank > 1 => {
            let at = r.below(v.shape[axis]);
            let shape = v.shape.iter().enumerate().filter(|(k, _)| *k != axis).map(|(_, &d)| d).collect();
            picked(v, v.x.select(axis, at), shape, |i| {
                let mut i = i.to_vec();
                i.insert(axis, at);
                i
            })
        }
        _ => picked(v, v.x.clone(), v.shape.clone(), <[usize]>::to_vec),
    }
}
/// Another shape of as many elements.
fn reshaped(r: &mut Random, shape: &[usize]) -> Vec<usize> {
    let mut dims = shape.to_vec();
    for _ in 0..1 + r.below(4) {
        let k = r.below(dims.len());
        match r.below(6) {
            0 if dims.len() < 6 => dims.insert(k, 1),
            1 if dims[k] == 1 && dims.len() > 1 => drop(dims.remove(k)),
            2..5 if k + 1 < dims.len() => {
                let next = dims.remove(k + 1);
                dims[k] *= next;
            }
            _ if dims.len() < 6 => {
                if let Some(part) = (2..dims[k]).find(|p| dims[k].is_multiple_of(*p)) {
                    dims[k] /= part;
                    dims.insert(k, part);
                }
            }
            _ => {}
        }
    }
    dims
}
/// Is there a stride for each axis?
fn has_strides(shape: &[usize], places: &[usize]) -> bool {
    let step = |axis: usize| shape[axis + 1..].iter().product::<usize>();
    let strides: Vec<isize> = (0..shape.len()).map(|a| if shape[a] > 1 { places[step(a)] as isize - places[0] as isize } else { 0 }).collect();
    let at = |k: usize| coordinates(k, shape).iter().zip(&strides).map(|(&i, s)| i as isize * s).sum::<isize>();
    places.iter().enumerate().all(|(k, &place)| place as isize == places[0] as isize + at(k))
}
fn check(seed: u64, moved: &mut [usize; 2]) {
    let mut r = Random::new(seed);
    let shape: Vec<usize> = (0..2 + r.below(3)).map(|_| [1, 2, 3, 4, 4, 6][r.below(6)]).collect();
    let n: usize = shape.iter().product();
    let x = Tensor::arange(0, n as i64, 1, DType::I32).reshape(shape.clone());
    x.materialize().unwrap();
    let mut v = Viewed { x, shape, places: (0..n).collect() };
    // Views of what was in memory before, or all in one plan.
    let at_once = r.below(2) == 0;
    for _ in 0..1 + r.below(3) {
        v = viewed(&mut r, &v);
        if !at_once {
            v.x.materialize().unwrap();
        }
    }
    let to = reshaped(&mut r, &v.shape);
    take_stats();
    let y = v.x.reshape(to.clone());
    y.materialize().unwrap();
    let kernels = take_stats().kernels;
    let moves = !has_strides(&to, &v.places);
    let what = format!("{:?} to {to:?}, seed {seed}", v.shape);
    assert_eq!(kernels, u64::from(moves), "kernels of {what}");
    moved[usize::from(moves)] += 1;
    let wanted: Vec<i32> = v.places.iter().map(|&p| p as i32).collect();
    assert_eq!(y.to_vec::<i32>().unwrap(), wanted, "{what}");
    // What reads it, in the plan that makes it.
    let again = (v.x.reshape(to.clone()) + 1).sum(..);
    assert_eq!(again.item::<i64>().unwrap(), wanted.iter().map(|&v| i64::from(v) + 1).sum::<i64>(), "the sum of {what}");
}

#[test]
fn a_reshape_that_moves_what_lies_right() {
    let mut moved = [0; 2];
    Device::cpu().unwrap().scoped(|| (0..1500).for_each(|seed| check(seed, &mut moved)));
    assert!(moved.iter().all(|&m| m > 150), "{moved:?} stay and are moved");
}
/// The new shape of one size has strides and that of another has none, by one structure.
#[test]
fn a_reshape_that_stays_where_its_plan_was_made_for_one_that_does() {
    Device::cpu().unwrap().scoped(|| {
        for (rows, stays) in [(1, true), (3, false), (1, true), (4, false)] {
            let x = Tensor::arange(0, rows * 8, 1, DType::I32).reshape([rows as usize, 8]);
            x.materialize().unwrap();
            take_stats();
            let y = x.narrow(1, 2, 4).reshape([4 * rows as usize]);
            y.materialize().unwrap();
            assert_eq!(take_stats().kernels, u64::from(!stays), "{rows} rows");
            let wanted: Vec<i32> = (0..rows).flat_map(|k| (2..6).map(move |j| 8 * k + j)).collect();
            assert_eq!(y.to_vec::<i32>().unwrap(), wanted);
        }
    });
}
