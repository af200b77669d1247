//! The proofs that the design stands on, for any device: each is a function that a test calls.
use adamant_core::{
    communicator,
    functional::{self as f, AttentionOptions, ConvOptions, CrossEntropyOptions},
    grad::saved_bytes,
    op::{CollectiveKind, RankUse, ReduceOp},
    schedule::take_stats,
    *,
};
use meeting::meeting;

pub mod meeting;

const ALL_REDUCE: CollectiveKind = CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used: RankUse::Alike };

/// Reproducible numbers in [-0.5, 0.5), the same on every device.
pub fn numbers(n: usize, seed: u64) -> Vec<f32> {
    (0..n as u64).map(|k| (rng::element_bits([seed as u32, 0, 0, 0], k) >> 8) as f32 / (1 << 24) as f32 - 0.5).collect()
}
pub fn param(shape: &[usize], seed: u64, scale: f32) -> Result<Cell> {
    let n = shape.iter().product();
    Cell::new(&Tensor::from_vec(numbers(n, seed).into_iter().map(|v| v * scale).collect(), shape), true)
}
/// AdamW over cells: parameter, first and second moment.
struct AdamW {
    params: Vec<Cell>,
    m: Vec<Cell>,
    v: Vec<Cell>,
    t: i32,
}
impl AdamW {
    fn new(params: Vec<Cell>) -> Result<AdamW> {
        let zeros = |c: &Cell| Cell::new(&Tensor::from_vec(vec![0f32; c.meta().shape.elements()], c.meta().shape), false);
        Ok(AdamW { m: params.iter().map(zeros).collect::<Result<_>>()?, v: params.iter().map(zeros).collect::<Result<_>>()?, params, t: 0 })
    }
    fn step(&mut self, grads: &Grads, lr: f32) -> Result<()> {
        self.t += 1;
        let (c1, c2) = (1.0 - 0.9f32.powi(self.t), 1.0 - 0.99f32.powi(self.t));
        step(|| {
            for (k, p) in self.params.iter().enumerate() {
                let Some(g) = grads.of(p) else { continue };
                let m = self.m[k].detached() * 0.9f32 + g * 0.1f32;
                let v = self.v[k].detached() * 0.99f32 + g * g * 0.01f32;
                let w = p.detached() * (1.0 - lr * 0.1);
                p.set(&(w - (&m * (lr / c1)) / ((&v * (1.0 / c2)).sqrt() + 1e-8f32)))?;
                self.m[k].set(&m)?;
                self.v[k].set(&v)?;
            }
            Ok(())
        })
    }
}
fn all_values(cells: &[Cell]) -> Result<Vec<Vec<u32>>> {
    cells.iter().map(|c| Ok(c.detached().to_vec::<f32>()?.iter().map(|v| v.to_bits()).collect())).collect()
}

/// Proof 1: a GPT-2 block, forward, backward and AdamW, recorded over several windows, with `loss` kept alive.
pub fn gpt2_block(device: Device) -> Result<()> {
    device.scoped(|| {
        let (b, t, c, h) = (2usize, 16usize, 32usize, 4usize);
        let w = vec![
            param(&[c], 1, 1.0)?,
            param(&[c], 2, 1.0)?,
            param(&[3 * c, c], 3, 0.3)?,
            param(&[c, c], 4, 0.3)?,
            param(&[c], 5, 1.0)?,
            param(&[c], 6, 1.0)?,
            param(&[4 * c, c], 7, 0.3)?,
            param(&[c, 4 * c], 8, 0.3)?,
        ];
        let mut adam = AdamW::new(w.clone())?;
        let x = Tensor::from_vec(numbers(b * t * c, 9), [b, t, c]);
        let block = |x: &Tensor| -> Result<Tensor> {
            let n = f::layer_norm(x, [c], Some(&w[0].get()), Some(&w[1].get()), 1e-5);
            let qkv = f::linear(&n, &w[2].get(), None).reshape([b, t, 3 * h, c / h]).permute([0, 2, 1, 3]);
            drop(n);
            let part = |k: usize| qkv.narrow(1, k * h, h);
            let a = f::scaled_dot_product_attention(&part(0), &part(1), &part(2), &AttentionOptions { is_causal: true, ..Default::default() });
            let a = a.permute([0, 2, 1, 3]).reshape([b, t, c]);
            drop(qkv);
            let attended = f::linear(&a, &w[3].get(), None);
            drop(a);
            let x = x + attended;
            let n = f::layer_norm(&x, [c], Some(&w[4].get()), Some(&w[5].get()), 1e-5);
            let up = f::linear(&n, &w[6].get(), None).gelu();
            (&x + f::linear(&up, &w[7].get(), None)).ok()
        };
        let unit = b * t * c * 4;
        // PyTorch keeps 16 activations of the block's width here: two inputs and two outputs of the norms, q, k, v and the
        // attention's result, four before and four after gelu, the input of the loss, and the residual; and the statistics.
        let limit = 16 * unit + (4 * b * t + b * h * t) * 4 + 16 * 64;
        with_window(24, || {
            let mut live = Vec::new();
            for k in 0..4 {
                take_stats();
                let loss = block(&x)?.square().sum(..);
                loss.materialize()?;
                let saved = saved_bytes(&loss);
                assert!(saved > 4 * unit && saved <= limit, "saved {saved} bytes, PyTorch at most {limit}");
                let grads = loss.backward()?;
                assert_eq!(saved_bytes(&loss), 0, "a live loss pins nothing after backward");
                adam.step(&grads, 1e-3 / (k + 1) as f32)?;
                drop(grads);
                let s = take_stats();
                assert!(s.flushes >= 3, "{s:?}");
                if k >= 2 {
                    assert_eq!((s.misses, s.resizes), (0, 0), "step {k}: {s:?}");
                    assert!(s.donated as usize >= 3 * w.len(), "step {k}: every weight and slot in place: {s:?}");
                }
                live.push(loss);
            }
            let values: Vec<f32> = live.iter().map(|l| l.item()).collect::<Result<_>>()?;
            assert!(values.windows(2).all(|p| p[1] < p[0]), "{values:?}");
            Ok(())
        })
    })
}

/// Proof 2: convolution, batch norm and dropout under `checkpoint` and under `compile`: the plain bits.
pub fn checkpoint_and_compile(device: Device) -> Result<()> {
    device.scoped(|| {
        #[derive(Clone, Copy, PartialEq)]
        enum How {
            Plain,
            Checkpoint,
            Compile,
        }
        let run = |how: How| -> Result<Vec<Vec<u32>>> {
            let w = param(&[4, 2, 3, 3], 1, 0.5)?;
            let (gamma, beta) = (param(&[4], 2, 1.0)?, param(&[4], 3, 1.0)?);
            let mean = Cell::new(&Tensor::from_vec(vec![0f32; 4], [4]), false)?;
            let rng = Rng::new(11)?;
            let cells = vec![w.clone(), gamma.clone(), beta.clone()];
            let part = {
                let (w, gamma, beta, mean, rng) = (w.clone(), gamma.clone(), beta.clone(), mean.clone(), rng.clone());
                move |x: &[Tensor]| -> Result<Tensor> {
                    let y = f::conv2d(&x[0], &w.get(), None, &ConvOptions { padding: 1.into(), ..Default::default() });
                    let (y, batch_mean, _) = f::batch_norm_training(&y, Some(&gamma.get()), Some(&beta.get()), 1e-5);
                    mean.set(&(mean.detached() * 0.9f32 + batch_mean.detach() * 0.1f32))?;
                    f::dropout(&y.relu(), 0.3, &rng).ok()
                }
            };
            let train = {
                let (cells, part) = (cells.clone(), part.clone());
                move |x: &[Tensor]| -> Result<Vec<Tensor>> {
                    let y = if how == How::Checkpoint { checkpoint(&[&x[0]], part.clone())? } else { part(x)? };
                    let loss = y.square().sum(..);
                    let g = loss.backward()?;
                    step(|| {
                        for c in &cells {
                            if let Some(d) = g.of(c) {
                                c.set(&(c.detached() - d * 0.1f32))?;
                            }
                        }
                        Ok(())
                    })?;
                    Ok(vec![loss.detach()])
                }
            };
            let compiled = compile(train.clone());
            for k in 0..3 {
                let x = Tensor::from_vec(numbers(2 * 2 * 6 * 6, 20 + k), [2, 2, 6, 6]);
                let out = if how == How::Compile { compiled.call(&[&x])?.into_vec() } else { train(std::slice::from_ref(&x))? };
                out[0].materialize()?;
            }
            let mut all = cells;
            all.push(mean);
            let mut bits = all_values(&all)?;
            bits.push(rng.cell().detached().to_vec::<u32>()?);
            Ok(bits)
        };
        let plain = run(How::Plain)?;
        assert!(plain[3].iter().any(|&b| b != 0), "running statistics moved");
        assert_eq!(run(How::Checkpoint)?, plain, "checkpoint");
        assert_eq!(run(How::Compile)?, plain, "compile");
        Ok(())
    })
}

/// Proof 3: decoding 200 tokens with a KV cell: no plan miss after warm-up, no cache copy.
pub fn kv_cache(device: Device) -> Result<()> {
    device.scoped(|| {
        let (len, d) = (200usize, 8usize);
        let cache = Cell::new(&Tensor::from_vec(vec![0f32; len * d], [len, d]), false)?;
        let w = param(&[d, d], 1, 1.0)?;
        let positions = Tensor::from_vec((0..len as i64).collect(), [len]);
        let mut x = Tensor::from_vec(numbers(d, 2), [1, d]);
        let mut last = Vec::new();
        for t in 0..len {
            take_stats();
            x = no_grad(|| -> Result<Tensor> {
                let key = x.matmul(w.get());
                step(|| cache.set(&Tensor::apply(Op::UpdateSlice { axis: 0 }, Arg::Start(t), &[&cache.detached(), &key])))?;
                let scores = x.matmul(cache.detached().mt()).reshape([len]);
                let seen = positions.gt(t as i64);
                let p = seen.where_(f32::NEG_INFINITY, &scores).softmax(0);
                let y = p.reshape([1, len]).matmul(cache.detached()).tanh();
                y.materialize()?;
                Ok(y)
            })?;
            let s = take_stats();
            if t >= 3 {
                assert_eq!((s.misses, s.resizes, s.copies), (0, 0, 0), "token {t}: {s:?}");
                assert!(s.donated >= 1, "token {t}: {s:?}");
            }
            last = x.to_vec::<f32>()?;
        }
        assert!(last.iter().all(|v| v.is_finite()));
        Ok(())
    })
}

/// Proof 4: two ranks, of which one reads its loss at odd moments: no hang, the same weights.
pub fn two_ranks(device: Device) -> Result<()> {
    let ranks: Vec<_> = meeting(2)
        .into_iter()
        .enumerate()
        .map(|(rank, group)| {
            std::thread::spawn(move || {
                device.scoped(|| -> Result<Vec<Vec<u32>>> {
                    let w = vec![param(&[4, 8], 1, 1.0)?, param(&[8, 1], 2, 1.0)?];
                    for k in 0..20u64 {
                        let x = Tensor::from_vec(numbers(12, 100 + k * 2 + rank as u64), [3, 4]);
                        let loss = x.matmul(w[0].get()).tanh().matmul(w[1].get()).square().sum(..);
                        if rank == 0 && rng::philox([7, 7], [k as u32, 0, 0, 0])[0] % 3 == 0 {
                            loss.item::<f32>()?;
                        }
                        let grads = loss.backward()?;
                        step(|| {
                            for c in &w {
                                if let Some(g) = grads.of(c) {
                                    let sum = Tensor::apply(Op::Collective { kind: ALL_REDUCE, group: communicator::group(&group) }, Arg::None, &[g]);
                                    c.set(&(c.detached() - sum * 0.05f32))?;
                                }
                            }
                            Ok(())
                        })?;
                        if rank == 0 && k % 4 == 1 {
                            loss.item::<f32>()?;
                        }
                    }
                    all_values(&w)
                })
            })
        })
        .collect();
    let mut results = Vec::new();
    for r in ranks {
        results.push(r.join().map_err(|_| Error::new("rank", ErrorKind::Internal("a rank panicked".into())))??);
    }
    assert_eq!(results[0], results[1]);
    Ok(())
}

/// Proof 5: an embedding index out of range, and memory running out inside a step.
pub fn faults_and_memory(device: Device) -> Result<()> {
    device.scoped(|| {
        let table = param(&[5, 4], 1, 1.0)?;
        let w = param(&[4, 3], 2, 1.0)?;
        let train = |ids: Vec<i64>, rows: usize| -> Result<f32> {
            let n = ids.len();
            let x = f::embedding(&Tensor::from_vec(ids, [n]), &table.get(), None);
            let x = if rows > 1 { x.reshape([1, n, 4]).expand([rows, n, 4]).reshape([rows * n, 4]) } else { x };
            let target = Tensor::from_vec(vec![0i64; rows * n], [rows * n]);
            let loss = f::cross_entropy(&x.matmul(w.get()), &target, &CrossEntropyOptions::default());
            let grads = loss.backward()?;
            step(|| {
                for c in [&table, &w] {
                    if let Some(g) = grads.of(c) {
                        c.set(&(c.detached() - g * 0.1f32))?;
                    }
                }
                Ok(())
            })?;
            loss.item()
        };
        let cells = [table.clone(), w.clone()];
        train(vec![1, 2, 3], 1)?;
        let before = all_values(&cells)?;
        let e = train(vec![1, 9, 2], 1).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Index { index: 9, bound: 5, .. }), "{e}");
        assert!(e.to_string().contains("proofs"), "the user's file: {e}");
        assert_eq!(all_values(&cells)?, before, "weights after the fault");
        train(vec![4, 0], 1)?;
        assert_ne!(all_values(&cells)?, before, "training goes on");

        let before = all_values(&cells)?;
        device.pool().trim();
        device.pool().set_cap(device.memory().live_bytes + (1 << 16));
        let e = train(vec![1, 2, 3], 20_000).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::OutOfMemory { .. }), "{e}");
        assert_eq!(all_values(&cells)?, before, "weights after running out of memory");
        train(vec![1, 2, 3], 1)?;
        device.pool().set_cap(0);
        assert_ne!(all_values(&cells)?, before, "training goes on");
        Ok(())
    })
}

/// Proof 6: a bf16 MLP gives the same bits eagerly, with extra clones, on every device given, in batches of 1 and 8.
pub fn the_same_bits(devices: &[Device]) -> Result<()> {
    let run = |device: Device, eager: bool, clones: bool, batch: usize| -> Result<Vec<u16>> {
        device.scoped(|| {
            with_eager(eager, || {
                let w1 = Tensor::from_vec(numbers(32 * 48, 1), [32, 48]).cast(DType::BF16);
                let w2 = Tensor::from_vec(numbers(48 * 16, 2), [48, 16]).cast(DType::BF16);
                let b = Tensor::from_vec(numbers(48, 3), [48]).cast(DType::BF16);
                let x = Tensor::from_vec(numbers(8 * 32, 4), [8, 32]).cast(DType::BF16);
                let mut kept = Vec::new();
                let mut out = Vec::new();
                for k in (0..8).step_by(batch) {
                    let h = x.narrow(0, k, batch).matmul(&w1) + &b;
                    if clones {
                        kept.push(h.clone());
                    }
                    let h = h.gelu() * 1.5f32 - 0.25f32;
                    if clones {
                        kept.push(h.clone());
                    }
                    let y = h.matmul(&w2).softmax(-1);
                    out.extend(y.to_vec::<bf16>()?.into_iter().map(|v| v.to_bits()));
                }
                Ok(out)
            })
        })
    };
    let first = run(devices[0], false, false, 8)?;
    for (d, device) in devices.iter().enumerate() {
        for (eager, clones, batch) in [(true, false, 8), (false, true, 8), (false, false, 1), (true, true, 1)] {
            assert_eq!(run(*device, eager, clones, batch)?, first, "device {d}, eager {eager}, clones {clones}, batch {batch}");
        }
    }
    Ok(())
}

/// Proof 7: a chain of a million recorded ops evaluates, differentiates and drops.
pub fn a_million_ops(device: Device) -> Result<()> {
    device.scoped(|| {
        let x = Tensor::from_vec(vec![1.0f32, 2.0], [2]).tracked();
        let mut y = x.clone();
        for _ in 0..500_000 {
            y = &y * 1.0f32 + 0.0f32;
        }
        y.materialize()?;
        let g = y.sum(..).backward()?;
        drop(y);
        assert_eq!(g.get(&x).map(|g| g.to_vec::<f32>()).transpose()?, Some(vec![1.0, 1.0]));
        Ok(())
    })
}
