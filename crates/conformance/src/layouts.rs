//! Ways an array can lie in a device's memory: no function may give other values for any of them.
use crate::data::upload;
use adamant_core::{Device, HostArray, Shape, Tensor, reference::HostData};

/// The ways, by name.
pub const LAYOUTS: [&str; 4] = ["dense", "permuted", "strided", "flipped"];
/// The array on a device, lying in memory in one of [`LAYOUTS`].
pub fn lay(a: &HostArray, layout: &str, device: Device) -> Tensor {
    let rank = a.shape.rank();
    if rank == 0 || a.is_empty() {
        return upload(a, device);
    }
    let place = |shape: Shape, at: &dyn Fn(&[usize]) -> usize| -> HostArray {
        let mut from: Vec<usize> = vec![0; shape.elements()];
        for k in 0..a.len() {
            let (mut rest, mut index) = (k, vec![0; rank]);
            for axis in (0..rank).rev() {
                index[axis] = rest % a.shape[axis];
                rest /= a.shape[axis];
            }
            from[at(&index)] = k;
        }
        let data = match &a.data {
            HostData::Float(v) => HostData::Float(from.iter().map(|&k| v[k]).collect()),
            HostData::Int(v) => HostData::Int(from.iter().map(|&k| v[k]).collect()),
        };
        HostArray { shape, dtype: a.dtype, data }
    };
    let flat = |shape: &Shape, index: &mut dyn Iterator<Item = usize>| index.zip(shape.iter()).fold(0, |at, (i, &d)| at * d + i);
    match layout {
        "permuted" if rank >= 2 => {
            let dims: Vec<usize> = a.shape.iter().rev().copied().collect();
            let shape = Shape::new(&dims).unwrap_or(a.shape);
            upload(&place(shape, &|i| flat(&shape, &mut i.iter().rev().copied())), device).permute((0..rank as isize).rev().collect::<Vec<_>>())
        }
        "strided" => {
            let last = rank - 1;
            let shape = a.shape.with(last, a.shape[last] * 2);
            upload(&place(shape, &|i| flat(&shape, &mut i.iter().enumerate().map(|(k, &v)| if k == last { 2 * v } else { v }))), device).slice(
                last,
                0,
                a.shape[last] * 2,
                2,
            )
        }
        "flipped" => upload(&place(a.shape, &|i| flat(&a.shape, &mut i.iter().enumerate().map(|(k, &v)| a.shape[k] - 1 - v))), device).flip(..),
        _ => upload(a, device),
    }
}
