//! Rows about making tensors, their layout and their handles.
use super::{
    CheckCost, Checked, RowCheck, Seen, device,
    timing::{least, least_of_two},
};
use adamant::{
    DType, Device, Rng, Tensor,
    nn::{Linear, Module, Walk},
    no_grad,
    schedule::take_stats,
    tensor,
};
use std::{hint::black_box, time::Instant};

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S0.01",
        target: "from_vec of 1000x1000 f32 keeps the pointer, asks for no memory, at most 10 us; from_slice at most 1.2x a memcpy",
        cost: CheckCost::Clocked,
        check: from_contiguous,
        plants: &[],
    },
    RowCheck {
        id: "S0.02",
        target: "tensor! and from_nested give the values; both times and their ratio are printed; a ragged list is an error that names the row",
        cost: CheckCost::Cheap,
        check: from_nested,
        plants: &[],
    },
    RowCheck {
        id: "S0.03",
        target: "literals, randn and parameters are f32 unless asked; the same model runs in f64",
        cost: CheckCost::Cheap,
        check: default_dtype,
        plants: &[],
    },
    RowCheck {
        id: "S0.07",
        target: "of a contiguous tensor: no kernel, no byte; of a permuted one: one kernel, one copy",
        cost: CheckCost::Cheap,
        check: reshape,
        plants: &[],
    },
    RowCheck {
        id: "S0.30",
        target: "2000x1000 forward and backward; 46,341^2 elements (> 2^31) index correctly",
        cost: CheckCost::Cheap,
        check: large,
        plants: &[],
    },
    RowCheck {
        id: "S1.59",
        target: "detach cuts the gradient, randn repeats under its seed, clone shares the elements",
        cost: CheckCost::Cheap,
        check: handles,
        plants: &[],
    },
];

fn from_contiguous() -> Checked {
    let device = device()?;
    let (mut micros, mut kept, n) = (f64::INFINITY, true, 1_000_000);
    for _ in 0..20 {
        let data = vec![0.5f32; n];
        let (place, before) = (data.as_ptr(), device.memory());
        let start = Instant::now();
        let x = Tensor::from_vec(data, [1000, 1000]);
        micros = micros.min(start.elapsed().as_secs_f64() * 1e6);
        let after = device.memory();
        kept &= after.requests == before.requests && after.system_allocations == before.system_allocations;
        kept &= after.live_bytes == before.live_bytes + 4 * n;
        let back = x.into_vec::<f32>()?;
        kept &= back.as_ptr() == place && back.len() == n;
    }
    let data = vec![0.5f32; n];
    let (copy, memcpy) = least_of_two(60, || drop(black_box(Tensor::from_slice(&data, [1000, 1000]))), || drop(black_box(data.to_vec())));
    let ratio = copy / memcpy;
    Ok(Seen::all(
        &[("the same pointer and no memory asked for", kept), ("at most 10 us", micros <= 10.0), ("at most 1.2x memcpy", ratio <= 1.2)],
        format!("pointer kept: {kept}, {micros:.2} us; copy {:.0} us, memcpy {:.0} us, ratio {ratio:.2}", copy * 1e6, memcpy * 1e6),
    ))
}
fn from_nested() -> Checked {
    let literal = tensor![[1.0, 2.0], [3.0, 4.0]];
    let rows: Vec<Vec<f32>> = (0..1000).map(|i| (0..1000).map(|j| (i * 1000 + j) as f32).collect()).collect();
    let flat: Vec<f32> = rows.concat();
    let nested = Tensor::from_nested(&rows);
    let right = literal.to_vec::<f32>()? == [1.0, 2.0, 3.0, 4.0] && nested.dims::<2>()? == [1000, 1000] && nested.to_vec::<f32>()? == flat;
    let ragged = Tensor::from_nested(&vec![vec![1.0f32, 2.0], vec![3.0]]).ok().err().map(|e| e.to_string()).unwrap_or_default();
    let (slow, fast) = least_of_two(10, || drop(black_box(Tensor::from_nested(&rows))), || drop(black_box(Tensor::from_slice(&flat, [1000, 1000]))));
    Ok(Seen::all(
        &[("the values", right), ("a ragged list names its row", ragged.contains("row [1]"))],
        format!("from_nested {:.2} ms, from_slice {:.2} ms, ratio {:.1}; ragged: {ragged}", slow * 1e3, fast * 1e3, slow / fast),
    ))
}
fn default_dtype() -> Checked {
    let layer = Linear::new(50, 30)?;
    let defaults = [
        ("literal", tensor![1.0, 2.0].dtype()?),
        ("randn", Tensor::randn([3], &Rng::new(1)?).dtype()?),
        ("zeros", Tensor::zeros([3]).dtype()?),
        ("parameter", layer.weight.get().dtype()?),
    ];
    let x = Tensor::randn([100, 50], &Rng::new(2)?);
    let run = |dtype: DType| -> adamant::Result<(DType, Vec<f64>)> {
        layer.cast(dtype)?;
        let grads = layer.forward(&x.cast(dtype))?.relu().mean(..).backward()?;
        let g = grads.of(&layer.weight.cell()).map(|g| Ok::<_, adamant::Error>((g.dtype()?, g.cast(DType::F64).to_vec::<f64>()?)));
        g.transpose().map(|g| g.unwrap_or((DType::Bool, Vec::new())))
    };
    let ((d32, g32), (d64, g64)) = (run(DType::F32)?, run(DType::F64)?);
    let apart = g32.iter().zip(&g64).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let f32s = defaults.iter().all(|(_, d)| *d == DType::F32);
    Ok(Seen::all(
        &[("f32 by default", f32s), ("dtypes of gradients", (d32, d64) == (DType::F32, DType::F64)), ("f32 near f64", g64.len() == 1500 && apart < 1e-6)],
        format!("{defaults:?}; gradients of a layer in f32 and f64 differ by at most {apart:.1e}"),
    ))
}
fn reshape() -> Checked {
    let device = device()?;
    let x = Tensor::arange(0, 32 * 10 * 8, 1, DType::F32).reshape([32, 10, 8]);
    x.materialize()?;
    let moved = |f: &dyn Fn() -> Tensor| -> adamant::Result<(u64, usize, Tensor)> {
        take_stats();
        let before = device.memory().live_bytes;
        let y = f();
        y.materialize()?;
        Ok((take_stats().kernels, device.memory().live_bytes - before, y))
    };
    let (kernels, bytes, flat) = moved(&|| x.reshape([-1, 8]))?;
    let (copies, copied, permuted) = moved(&|| x.permute([1, 0, 2]).reshape([-1, 8]))?;
    let want: Vec<f32> = (0..10).flat_map(|j| (0..32).flat_map(move |i| (0..8).map(move |k| (i * 80 + j * 8 + k) as f32))).collect();
    let right = flat.dims::<2>()? == [320, 8] && flat.to_vec::<f32>()? == x.to_vec::<f32>()? && permuted.to_vec::<f32>()? == want;
    Ok(Seen::all(
        &[("the elements", right), ("nothing moves", (kernels, bytes) == (0, 0)), ("one copy", copies == 1 && copied == 32 * 10 * 8 * 4)],
        format!("contiguous: {kernels} kernels, {bytes} bytes; permuted: {copies} kernel, {copied} bytes"),
    ))
}
fn large() -> Checked {
    let x = Tensor::randn([2000, 1000], &Rng::new(3)?).tracked();
    let start = Instant::now();
    let loss = (&x * &x).sum(..);
    let grads = loss.backward()?;
    let twice = grads.get(&x).ok_or("no gradient")?.equal(&(x.detach() * 2.0))?;
    let seconds = start.elapsed().as_secs_f64();
    // x[i, j] = (i + 7 j) mod 256 as one byte each: 2,147,488,281 elements.
    let n: usize = 46_341;
    let byte = |v: usize| (v % 256) as u8;
    let rows = Tensor::from_vec((0..n).map(byte).collect(), [n, 1]);
    let columns = Tensor::from_vec((0..n).map(|j| byte(7 * j)).collect(), [1, n]);
    let all = rows + columns;
    all.materialize()?;
    let last: Vec<u8> = (0..n).map(|j| byte(n - 1 + 7 * j)).collect();
    let corner = all.narrow(0, n - 1, 1).narrow(1, n - 3, 3).to_vec::<u8>()? == last[n - 3..];
    let picked = all.index_select(0, &tensor![0, (n - 1) as i64]).narrow(0, 1, 1).to_vec::<u8>()? == last;
    let column = all.narrow(1, n - 1, 1).ravel().to_vec::<u8>()? == (0..n).map(|i| byte(i + 7 * (n - 1))).collect::<Vec<_>>();
    let counted: i64 = all.eq(0u8).cast(DType::U8).sum(..).item()?;
    let want = (0..n).map(|i| (0..256).filter(|r| (i + 7 * r) % 256 == 0).map(|r| (n - r).div_ceil(256)).sum::<usize>()).sum::<usize>() as i64;
    Ok(Seen::all(
        &[("the gradient", twice), ("the last row", corner && picked), ("the last column", column), ("the number of zeros", counted == want)],
        format!("2000x1000 forward and backward {:.1} ms; {} elements, last row and column right, {counted} zeros counted", seconds * 1e3, n * n),
    ))
}
fn handles() -> Checked {
    let device = device()?;
    let x = tensor![1.0, 2.0].tracked();
    let cut = x.detach();
    let grads = (&cut * &x).sum(..).backward()?;
    let detached = !cut.is_tracked() && grads.get(&x).ok_or("no gradient")?.to_vec::<f32>()? == [1.0, 2.0];
    let draw = |seed: u64| Rng::new(seed).and_then(|rng| Tensor::randn([1000], &rng).to_vec::<f32>());
    let (a, b, c) = (draw(7)?, draw(7)?, draw(8)?);
    let mean = a.iter().sum::<f32>() / 1000.0;
    let spread = (a.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>() / 999.0).sqrt();
    let normal = mean.abs() < 0.15 && (spread - 1.0).abs() < 0.1;
    let on_reference = Device::reference().scoped(|| draw(7))?.iter().zip(&a).all(|(r, a)| (r - a).abs() < 1e-5);
    let big = no_grad(|| Tensor::ones([1 << 20]) * 3.0);
    big.materialize()?;
    let before = device.memory().live_bytes;
    let copies: Vec<Tensor> = (0..100).map(|_| big.clone()).collect();
    let shared = device.memory().live_bytes == before && copies[99].narrow(0, 5, 1).item::<f32>()? == 3.0;
    let each = least(5, || drop(black_box((0..1000).map(|_| big.clone()).collect::<Vec<_>>()))) / 1000.0;
    Ok(Seen::all(
        &[("detach", detached), ("randn repeats", a == b && a != c), ("randn is normal", normal), ("randn on another device", on_reference), ("clone", shared)],
        format!("detach cuts, randn mean {mean:.3} and deviation {spread:.3}, 100 clones of 4 MiB take 0 bytes, one takes {:.0} ns", each * 1e9),
    ))
}
