//! Rows about gradients, numbers that must stay finite, and what memory gradients hold.
use super::{CheckCost, Checked, RowCheck, Seen, device, peak, plant, planted, timing::least};
use adamant::{
    Cell, DType, Device, Rng, Tensor, compile,
    cpu::{Context, CpuBackend, CpuKernel, KernelOperands, Runtime},
    functional::{self as f, AttentionOptions},
    kernel::FaultWord,
    nn::{LayerNorm, LayerNormOptions, Linear, Module, Param, Relu, Sequential, Walk},
    optim::{ClippingOptions, GradientClipper},
    profile::profile,
    schedule::take_stats,
    step, tensor, with_eager,
};
use adamant_bench::ceilings::read_gbps;
use adamant_conformance::{gradcheck, registry};
use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S0.06",
        target: "(3,1)+(2,) and both gradients equal the reference; peak extra memory is the output alone",
        cost: CheckCost::Cheap,
        check: broadcasting,
        plants: &[],
    },
    RowCheck {
        id: "S0.09",
        target: "dropping the gradients returns their bytes in the same call; over 1,000 steps live bytes do not rise",
        cost: CheckCost::Cheap,
        check: cleaned_up,
        plants: &[],
    },
    RowCheck { id: "S0.11", target: "an unused branch runs 0 kernels; read later = eager, bit for bit", cost: CheckCost::Cheap, check: lazy, plants: &[] },
    RowCheck {
        id: "S0.12",
        target: "off by default and visible; a gradient of 200 stays 200 when off; clipping by norm keeps the direction (cosine 1)",
        cost: CheckCost::Cheap,
        check: clipping,
        plants: &[],
    },
    RowCheck {
        id: "S1.07",
        target: "a value that the tape or the user holds and a later step overwrites: the right gradient and the old bits, op by op and captured; what nobody holds is overwritten where it lies, one activation less",
        cost: CheckCost::Cheap,
        check: overwritten,
        plants: &[],
    },
    RowCheck { id: "S0.20", target: "dropping a tensor lowers live bytes by its size at once", cost: CheckCost::Cheap, check: freed, plants: &[] },
    RowCheck {
        id: "S0.22",
        target: "safe_log(0) and its gradient are finite; log_softmax with nll_loss equals cross_entropy",
        cost: CheckCost::Cheap,
        check: safe_log,
        plants: &[],
    },
    RowCheck {
        id: "S0.23",
        target: "is_finite_all is one fused pass at 1.1x the time of a read of the data by a plain loop at most, on healthy data and with a NaN in it; a planted NaN is found with the first index",
        cost: CheckCost::Clocked,
        check: finite,
        plants: &[
            plant("a search of two passes", "one pass"),
            plant("a search that takes twice as long", "1.1x a read"),
            plant("an index that is one too far", "the first index"),
            plant("a search that sees no infinity", "what is not finite"),
        ],
    },
    RowCheck {
        id: "S0.32",
        target: "equals the reference; gradcheck through mean and variance, first and second order",
        cost: CheckCost::Cheap,
        check: layer_norm,
        plants: &[],
    },
    RowCheck {
        id: "S0.33",
        target: "equals the reference and passes gradcheck; the same call dispatches to the device's own fused kernel when allowed, which holds nothing of size queries x keys; a device that claims it runs its own",
        cost: CheckCost::Cheap,
        check: attention,
        plants: &[
            plant("attention by its body, op by op", "one kernel of the device's own"),
            plant("attention that holds queries x keys", "nothing of queries x keys"),
            plant("scores that are not scaled", "equals the reference"),
        ],
    },
    RowCheck {
        id: "S1.24",
        target: "in the registry of ops with its gradient; loss.div_scalar(4) divides loss and gradient",
        cost: CheckCost::Cheap,
        check: div_scalar,
        plants: &[],
    },
];

/// What a calculation gives on the check's device and on the reference.
fn twice(run: impl Fn() -> adamant::Result<Vec<Tensor>>) -> adamant::Result<(Vec<Vec<f64>>, Vec<Vec<f64>>)> {
    let read = || run()?.iter().map(|t| t.cast(DType::F64).to_vec::<f64>()).collect::<adamant::Result<Vec<_>>>();
    Ok((read()?, Device::reference().scoped(read)?))
}
fn apart(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    let same = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.len() == b.len());
    if same { a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| (a - b).abs() / (1.0 + b.abs())).fold(0.0, f64::max) } else { f64::INFINITY }
}
/// Gradient checks of every sample of a function in the registry: how many, and what failed.
fn checked(name: &str) -> Result<(usize, Vec<String>), adamant::Error> {
    let device = device()?;
    let entries = registry::entries();
    let chosen: Vec<_> = entries.iter().filter(|e| e.name == name && e.order > 0).collect();
    Ok((chosen.len(), chosen.iter().enumerate().filter_map(|(k, e)| gradcheck::check(device, e, 77 + k as u64).err()).collect()))
}

fn broadcasting() -> Checked {
    let device = device()?;
    let (got, want) = twice(|| {
        let (a, b) = (tensor![[1.0], [2.0], [3.0]].tracked(), tensor![10.0, 20.0].tracked());
        let y = &a + &b;
        let weights = tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
        let g = (&y * weights).sum(..).backward()?;
        Ok([&a, &b].into_iter().filter_map(|t| g.get(t).cloned()).chain([y]).collect())
    })?;
    let exact = got == want && got == [vec![3.0, 7.0, 11.0], vec![9.0, 12.0], vec![11.0, 21.0, 12.0, 22.0, 13.0, 23.0]];
    let (a, b) = (Tensor::ones([1024, 1]), Tensor::ones([1024]));
    a.materialize()?;
    b.materialize()?;
    let before = device.memory().live_bytes;
    device.pool().reset_peak();
    let y = a + b;
    y.materialize()?;
    let extra = device.memory().peak_bytes - before;
    Ok(Seen::all(
        &[("result and gradients", exact), ("the output alone", extra == 1024 * 1024 * 4)],
        format!("gradients {:?} and {:?}; (1024,1)+(1024): {extra} extra bytes, output {}", got[0], got[1], 1024 * 1024 * 4),
    ))
}
fn cleaned_up() -> Checked {
    let device = device()?;
    let model = Sequential::new().add(Linear::new(256, 256)?).add(Relu::new()).add(Linear::new(256, 10)?);
    let x = Tensor::randn([64, 256], &Rng::new(1)?);
    x.materialize()?;
    let step = || -> adamant::Result<(usize, usize, usize)> {
        let loss = model.forward(&x)?.square().mean(..);
        loss.materialize()?;
        let before = device.memory().live_bytes;
        let grads = loss.backward()?;
        let during = device.memory().live_bytes;
        drop(grads);
        Ok((before, during, device.memory().live_bytes))
    };
    let (before, during, after) = step()?;
    let held = model.parameter_count() * 4;
    for _ in 0..10 {
        step()?;
    }
    let warm = device.memory().live_bytes;
    for _ in 0..1000 {
        step()?;
    }
    let slope = device.memory().live_bytes as i64 - warm as i64;
    Ok(Seen::all(
        &[("gradients were held", during >= after + held), ("back to the bytes before", after <= before), ("no slope", slope == 0)],
        format!("live bytes: {before} before backward, {during} with gradients, {after} after; {slope} bytes over 1,000 steps"),
    ))
}
fn lazy() -> Checked {
    let x = Tensor::randn([1000], &Rng::new(5)?);
    x.materialize()?;
    take_stats();
    let unused = (x.exp() * 3.0).sin().cumsum(0);
    drop(unused);
    let idle = take_stats().kernels;
    let y = |x: &Tensor| (x.tanh() * 2.0 + 1.0).sum(0) / 3.0;
    let late = y(&x);
    let recorded = take_stats().kernels;
    let bits = |t: Tensor| t.to_vec::<f32>().map(|v| v.into_iter().map(f32::to_bits).collect::<Vec<_>>());
    let (late, eager) = (bits(late)?, with_eager(true, || bits(y(&x)))?);
    let branch = (x.exp() * 3.0).sin();
    drop(branch);
    take_stats();
    (&x + 1.0).materialize()?;
    let beside = take_stats().kernels;
    Ok(Seen::all(
        &[("nothing ran before a read", (idle, recorded) == (0, 0)), ("only what is read runs", beside == 1), ("the bits of eager", late == eager)],
        format!("unused branch: {idle} kernels; beside a read of one op: {beside} kernel; read later = eager: {}", late == eager),
    ))
}
fn clipping() -> Checked {
    let p = Param::new(&tensor![1.0, -2.0])?;
    let q = Param::new(&tensor![[0.5], [4.0]])?;
    let all = [p.clone(), q.clone()];
    let grads = || ((p.get() * tensor![200.0, -30.0]).sum(..) + (q.get() * tensor![[7.0], [0.25]]).sum(..)).backward();
    let read = |clip: Option<ClippingOptions>| -> adamant::Result<Vec<f64>> {
        let mut g = grads()?;
        clip.map(|clip| GradientClipper::new(clip)?.clip(&mut g, &all)).transpose()?;
        let parts = all.iter().filter_map(|p| g.of(&p.cell())).map(|t| t.cast(DType::F64).to_vec::<f64>());
        Ok(parts.collect::<adamant::Result<Vec<_>>>()?.concat())
    };
    let (off, norm) = (read(None)?, read(Some(ClippingOptions::global_norm(1.0)))?);
    let length = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
    let cosine = off.iter().zip(&norm).map(|(a, b)| a * b).sum::<f64>() / (length(&off) * length(&norm));
    let (run, _) = super::training::train_example(&["epochs=1", "data.rows=64"])?;
    let shown = run.plan.clip.to_string();
    Ok(Seen::all(
        &[
            ("off by default", shown == "off"),
            ("untouched when off", off == [200.0, -30.0, 7.0, 0.25]),
            ("the norm is 1", (length(&norm) - 1.0).abs() < 1e-5),
            ("the direction", (cosine - 1.0).abs() < 1e-12),
        ],
        format!("the trainer reports clip = {shown}; off: {off:?}; norm 1: length {:.6}, cosine {cosine:.15}", length(&norm)),
    ))
}
fn overwritten() -> Checked {
    // d (w² x)/dw = 2 w x, by the w of the forward pass.
    let w = Cell::new(&Tensor::from_vec(vec![3.0f32, 4.0], [2]), true)?;
    let x = Tensor::from_vec(vec![10.0f32, 100.0], [2]);
    let captured = compile(|by: &[Tensor]| w.set(&(w.detached() - &by[0])).map(|()| vec![]));
    let one = Tensor::ones([2]);
    let mut right = Vec::new();
    for replayed in [false, true] {
        w.set(&Tensor::from_vec(vec![3.0f32, 4.0], [2]))?;
        let (loss, held) = ((w.get() * w.get() * &x).sum(..), w.detached());
        for _ in 0..2 {
            if replayed { captured.call(&[&one]).map(drop)? } else { step(|| w.set(&(w.detached() - &one)))? }
        }
        let grads = loss.backward()?;
        let gradient = grads.of(&w).map(Tensor::to_vec::<f32>).transpose()?;
        right.push(gradient.as_deref() == Some(&[60.0, 800.0]) && held.to_vec::<f32>()? == [3.0, 4.0] && w.detached().to_vec::<f32>()? == [1.0, 2.0]);
    }
    const N: usize = 1 << 18;
    let device = Device::current()?;
    // The bytes at the height of a step in place, and of one that leaves the old value to who holds it.
    let mut heights = Vec::new();
    for held in [false, true] {
        let cell = Cell::new(&(Tensor::ones([N]) * 1.0), false)?;
        step(|| cell.set(&(cell.detached() + 1.0)))?;
        let old = held.then(|| cell.detached());
        device.pool().reset_peak();
        let before = device.memory().peak_bytes;
        step(|| cell.set(&(cell.detached() + 1.0).maximum(0.0)))?;
        heights.push(device.memory().peak_bytes - before);
        drop(old);
    }
    Ok(Seen::all(
        &[("op by op", right[0]), ("captured", right[1]), ("in place", heights[0] < 4 * N), ("held", heights[1] >= 4 * N)],
        format!(
            "gradients and held values are those of then; a step takes {} bytes where nobody holds the old value, {} where somebody does",
            heights[0], heights[1]
        ),
    ))
}
fn freed() -> Checked {
    let device = device()?;
    let x = Tensor::ones([1000, 1000]) * 2.0;
    x.materialize()?;
    let y = x.exp();
    y.materialize()?;
    let held = device.memory().live_bytes;
    drop(y);
    let one = device.memory().live_bytes;
    drop(x);
    let none = device.memory().live_bytes;
    // Buffers come in sizes an eighth of a power of two apart.
    let size = 4_000_000..=4_500_000;
    Ok(Seen::all(
        &[("the first", size.contains(&(held - one))), ("the second", size.contains(&(one - none)))],
        format!("two tensors of 4,000,000 bytes: live {held}, {one} and {none} bytes after each drop"),
    ))
}
fn safe_log() -> Checked {
    let x = tensor![0.0, 1e-30, 0.5, 1.0].tracked();
    let y = x.safe_log();
    let values = y.to_vec::<f32>()?;
    let slopes = y.sum(..).backward()?.get(&x).ok_or("no gradient")?.to_vec::<f32>()?;
    let exact = (values[0] as f64 - 1e-8f64.ln()).abs() < 1e-5 && (slopes[0] - 1e8).abs() < 100.0;
    let (logits, classes) = (Tensor::randn([32, 10], &Rng::new(1)?) * 5.0, Tensor::arange(0, 32, 1, DType::I64).remainder(10i64));
    let two = f::nll_loss(&logits.log_softmax(-1), &classes, &Default::default()).item::<f32>()?;
    let one = f::cross_entropy(&logits, &classes, &Default::default()).item::<f32>()?;
    Ok(Seen::all(
        &[
            ("finite", values.iter().chain(&slopes).all(|v| v.is_finite())),
            ("log(1e-8) and 1e8 at 0", exact),
            ("nll of log_softmax", (one - two).abs() <= 1e-6 * one),
        ],
        format!("safe_log(0) = {}, slope {}; nll_loss(log_softmax) = {two}, cross_entropy = {one}", values[0], slopes[0]),
    ))
}
fn finite() -> Checked {
    const N: usize = 1 << 26;
    let threads = device()?.info().parallelism;
    let search = |x: &Tensor| -> adamant::Result<bool> {
        if planted("a search of two passes") {
            let (sum, nan) = (x.sum(..), (x * 0.0).sum(..).isnan());
            return Ok(sum.item::<f64>()?.is_finite() && !nan.item::<bool>()?);
        }
        if planted("a search that takes twice as long") {
            x.is_finite_all()?;
        }
        x.is_finite_all()
    };
    // Bytes that kernels read and wrote, in multiples of the data's own.
    let passes = |x: &Tensor| -> Result<f64, adamant::Error> {
        let (found, profile) = profile(|| search(x))?;
        found?;
        Ok(profile.kernels.iter().map(|k| k.bytes).sum::<u64>() as f64 / (4 * N) as f64)
    };
    let mut values = vec![0.5f32; N];
    let healthy = Tensor::from_slice(&values, [N]);
    (values[N / 3], values[N / 2]) = (f32::NAN, f32::INFINITY);
    let spoiled = Tensor::from_vec(values, [N]);
    let (mut gbps, mut times) = (0.0f64, [f64::INFINITY; 2]);
    // What neighbours leave of the memory's bandwidth changes from second to second: all shall meet the same share of it.
    for _ in 0..6 {
        gbps = gbps.max(read_gbps(threads));
        for (time, x) in times.iter_mut().zip([&healthy, &spoiled]) {
            *time = time.min(least(6, || _ = black_box(search(x))));
        }
    }
    let read = (4 * N) as f64 / (gbps * 1e9);
    let ratios = times.map(|t| t / read);
    let passes = [passes(&healthy)?, passes(&spoiled)?];
    let mut kinds = Vec::new();
    for (value, is_finite) in [(1.0, true), (f32::MAX, true), (-0.0, true), (f32::NAN, false), (f32::INFINITY, false), (f32::NEG_INFINITY, false)] {
        let mut all = vec![f32::MAX; 5000];
        all[4321] = value;
        let blind = planted("a search that sees no infinity") && value.is_infinite();
        kinds.push((blind || Tensor::from_vec(all, [5000]).is_finite_all()?) == is_finite);
    }
    let mut small = vec![1.0f32; 60 * 70];
    (small[2000], small[3000]) = (f32::NAN, f32::INFINITY);
    let mut found = Tensor::from_vec(small, [60, 70]).find_non_finite()?;
    if planted("an index that is one too far") {
        found.iter_mut().for_each(|(at, _)| at[1] += 1);
    }
    Ok(Seen::all(
        &[
            ("what is not finite", search(&healthy)? && !search(&spoiled)? && kinds.iter().all(|right| *right)),
            ("the first index", found.as_ref().is_some_and(|(at, v)| at == &[2000 / 70, 2000 % 70] && v.is_nan())),
            ("one pass", passes.iter().all(|p| (0.99..1.01).contains(p))),
            ("1.1x a read", ratios.iter().all(|r| *r <= 1.1)),
        ],
        format!(
            "64M elements: {:.2} ms healthy, {:.2} ms with a NaN, a read {:.2} ms ({gbps:.1} GB/s on {threads} threads), ratios {:.2} and {:.2}; passes {:.2} and {:.2}; first found: {found:?}",
            times[0] * 1e3,
            times[1] * 1e3,
            read * 1e3,
            ratios[0],
            ratios[1],
            passes[0],
            passes[1]
        ),
    ))
}
fn layer_norm() -> Checked {
    let (got, want) = twice(|| {
        let layer = LayerNorm::with([48], LayerNormOptions { eps: 1e-6, ..Default::default() })?;
        let x = (Tensor::arange(0, 6 * 48, 1, DType::F32).reshape([6, 48]) * 0.37).sin().tracked();
        let y = layer.forward(&x)?;
        let g = (&y * Tensor::arange(0, 48, 1, DType::F32)).sum(..).backward()?;
        let parts = [g.get(&x), g.of(&layer.weight.as_ref().map_or_else(|| Param::new(&x), |w| Ok(w.clone()))?.cell())];
        Ok(parts.into_iter().flatten().cloned().chain([y.clone()]).collect())
    })?;
    let (count, failed) = checked("functional::layer_norm")?;
    let apart = apart(&got, &want);
    Ok(Seen::all(
        &[("three results", got.len() == 3), ("equals the reference", apart < 2e-5), ("gradcheck", count > 0 && failed.is_empty())],
        format!("at most {apart:.1e} from the reference; gradcheck of {count} samples at 1e-6 and 1e-5: {}", failed.first().map_or("passed", |s| s)),
    ))
}
/// A kernel that claims attention: counts its calls, and computes by the plain definition.
struct OwnAttention(Arc<AtomicUsize>);
impl CpuKernel for OwnAttention {
    fn supports(&self, _: &dyn adamant::Composite, dtypes: &[DType]) -> bool {
        dtypes.iter().all(|d| *d == DType::F32)
    }
    fn run(&self, _: &dyn adamant::Composite, operands: &mut KernelOperands<'_, '_, '_>, _: &Runtime, _: &FaultWord) -> Result<(), adamant::ErrorKind> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let (shape, values) = (operands.shape(0)?, operands.shape(2)?);
        let rank = shape.rank();
        let (queries, features, keys, width) = (shape[rank - 2], shape[rank - 1], values[rank - 2], values[rank - 1]);
        let (q, k, v): (&[f32], &[f32], &[f32]) = (operands.input(0)?, operands.input(1)?, operands.input(2)?);
        // Beside the result, what its gradient wants: the logarithm of each row's sum.
        let (out, sums): (&mut [f32], &mut [f32]) = operands.outputs2()?;
        for (row, (out, sum)) in out.chunks_mut(width).zip(sums).enumerate() {
            let (batch, query) = (row / queries, &q[row * features..][..features]);
            let score = |j: usize| query.iter().zip(&k[(batch * keys + j) * features..]).map(|(a, b)| a * b).sum::<f32>() / (features as f32).sqrt();
            let scores: Vec<f32> = (0..keys).map(score).collect();
            let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let total: f32 = scores.iter().map(|s| (s - top).exp()).sum();
            *sum = top + total.ln();
            out.fill(0.0);
            for (j, s) in scores.iter().enumerate() {
                let weight = (s - top).exp() / total;
                out.iter_mut().zip(&v[(batch * keys + j) * width..]).for_each(|(o, v)| *o += weight * v);
            }
        }
        Ok(())
    }
}
fn attention() -> Checked {
    let calls = Arc::new(AtomicUsize::new(0));
    let claiming = Context::new(CpuBackend::builder().threads(1))?.device();
    let kernel: Box<dyn CpuKernel> = Box::new(OwnAttention(calls.clone()));
    claiming.register("adamant.attention", Box::new(kernel))?;
    let unscaled = AttentionOptions { scale: Some(1.0), ..Default::default() };
    let run = |options: &AttentionOptions| -> adamant::Result<Vec<Tensor>> {
        let part = |seed: i64| ((Tensor::arange(0, 2 * 4 * 16 * 8, 1, DType::F32) + seed) * 0.61).sin().reshape([2, 4, 16, 8]);
        Ok(vec![f::scaled_dot_product_attention(&part(1), &part(50), &part(99), options)])
    };
    let plain = AttentionOptions::default();
    let (mut got, want) = twice(|| run(&plain))?;
    if planted("scores that are not scaled") {
        got = run(&unscaled)?.iter().map(|t| t.cast(DType::F64).to_vec::<f64>()).collect::<adamant::Result<_>>()?;
    }
    let claimed: Vec<Vec<f64>> = claiming.scoped(|| run(&plain)?.iter().map(|t| t.cast(DType::F64).to_vec::<f64>()).collect::<adamant::Result<_>>())?;
    let calls = calls.load(Ordering::Relaxed);
    let (count, failed) = checked("functional::scaled_dot_product_attention")?;
    let (a, b) = (apart(&got, &want), apart(&claimed, &want));
    // A long sequence: scores of queries x keys would be 64 MiB.
    const LONG: usize = 4096;
    let long = |seed: u64| -> adamant::Result<Tensor> {
        let x = Tensor::randn([1, 1, LONG, 64], &Rng::new(seed)?);
        x.materialize()?;
        Ok(x)
    };
    let (q, k, v) = (long(1)?, long(2)?, long(3)?);
    // A mask, even of zeros, is not what the fused kernel is allowed for.
    let mask = planted("attention by its body, op by op").then(|| Tensor::zeros([LONG, LONG]));
    let long_run = || f::scaled_dot_product_attention(&q, &k, &v, &AttentionOptions { mask: mask.as_ref(), ..Default::default() }).materialize();
    long_run()?;
    let (done, profile) = profile(long_run)?;
    done?;
    let kernels: Vec<String> = profile.kernels.iter().map(|k| k.name.to_string()).collect();
    let ((), more) = peak::growth(|| {
        let held = if planted("attention that holds queries x keys") { vec![1u8; 4 * LONG * LONG] } else { Vec::new() };
        long_run()?;
        drop(black_box(held));
        Ok(())
    })?;
    let whole = (4 * LONG * LONG) as f64 * 1e-6;
    Ok(Seen::all(
        &[
            ("equals the reference", a < 1e-5),
            ("gradcheck", count > 0 && failed.is_empty()),
            ("a claimed kernel runs, and is right", calls == 1 && b < 1e-5),
            ("one kernel of the device's own", kernels == ["adamant.attention"]),
            ("nothing of queries x keys", more <= whole / 8.0),
        ],
        format!(
            "plain {a:.1e}, claimed {b:.1e} from the reference, {calls} call of the claimed kernel; gradcheck of {count} samples: {}; {LONG} queries: {} kernels ({}), {more:.1} MB more where the scores of all are {whole:.1}",
            failed.first().map_or("passed", |s| s),
            kernels.len(),
            kernels.first().map_or("", |s| s)
        ),
    ))
}
fn div_scalar() -> Checked {
    let x = tensor![2.0, 6.0].tracked();
    let loss = (&x * &x).sum(..).div_scalar(4);
    let value = loss.item::<f32>()?;
    let slopes = loss.backward()?.get(&x).ok_or("no gradient")?.to_vec::<f32>()?;
    let (count, failed) = checked("Tensor::div_scalar")?;
    Ok(Seen::all(
        &[("the value", value == 10.0), ("the gradient", slopes == [1.0, 3.0]), ("registered and checked", count > 0 && failed.is_empty())],
        format!("(2^2 + 6^2).div_scalar(4) = {value}, gradient {slopes:?}; gradcheck of {count} samples: {}", failed.first().map_or("passed", |s| s)),
    ))
}
