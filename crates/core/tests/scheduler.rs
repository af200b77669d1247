//! The scheduler on a backend of plain loops: what is fused, reused, deferred, suppressed, and that none of it changes a bit.
mod naive;
use adamant_core::{schedule::take_stats, *};

fn on<R>(f: impl FnOnce(Device) -> R) -> R {
    let d = naive::device(2048, usize::MAX);
    d.scoped(|| {
        take_stats();
        f(d)
    })
}
#[test]
fn a_chain_is_one_kernel_and_equals_the_unfused_chain() -> Result<()> {
    on(|_| {
        let x = Tensor::from_vec((0..12).map(|k| k as f32 * 0.3 - 1.0).collect(), [3, 4]);
        let b = Tensor::from_vec(vec![0.5f32, -0.25, 2.0, 1.0], [4]);
        let f = || ((&x * 2.0f32 + &b).exp() - 1.0f32).sqrt() * &x;
        let fused = f().to_vec::<f32>()?;
        let s = take_stats();
        assert_eq!((s.kernels, s.misses), (1, 1), "{s:?}");
        let eager = with_eager(true, || f().to_vec::<f32>())?;
        assert_eq!(fused.iter().map(|v| v.to_bits()).collect::<Vec<_>>(), eager.iter().map(|v| v.to_bits()).collect::<Vec<_>>());
        take_stats();
        f().to_vec::<f32>()?;
        assert_eq!(take_stats().hits, 1);
        Ok(())
    })
}
#[test]
fn a_new_size_makes_no_new_plan() -> Result<()> {
    on(|_| {
        for n in 1..5usize {
            let x = Tensor::from_vec(vec![1.0f32; n * 3], [n, 3]);
            (x.exp().sum(..) * 2.0f32).item::<f32>()?;
        }
        let s = take_stats();
        // n = 1 may have a structure of its own (it broadcasts).
        assert!(s.misses <= 2 && s.resizes >= 2, "{s:?}");
        Ok(())
    })
}
#[test]
fn an_unused_branch_runs_nothing() -> Result<()> {
    on(|_| {
        let x = Tensor::ones([4]);
        let unused = x.exp().matmul(Tensor::ones([4, 4]));
        drop(unused);
        let y = &x + 1.0f32;
        y.materialize()?;
        assert_eq!(take_stats().kernels, 1, "x and y in one kernel, nothing else");
        Ok(())
    })
}
#[test]
fn views_read_the_right_elements() -> Result<()> {
    on(|_| {
        let x = Tensor::from_vec((0..24).collect::<Vec<i64>>(), [2, 3, 4]);
        assert_eq!(x.permute([2, 0, 1]).narrow(0, 1, 2).reshape([-1]).to_vec::<i64>()?, [1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22]);
        assert_eq!((x.flip([0, 2]) + 0i64).narrow(1, 1, 1).reshape([8]).to_vec::<i64>()?, [19, 18, 17, 16, 7, 6, 5, 4]);
        assert_eq!(x.slice(2, 0, 4, 2).mt().reshape([-1]).to_vec::<i64>()?, [0, 4, 8, 2, 6, 10, 12, 16, 20, 14, 18, 22]);
        Ok(())
    })
}
fn mlp_step(w: &[Cell], x: &Tensor, lr: f32) -> Result<f32> {
    let h = x.matmul(w[0].get()).relu();
    let loss = h.matmul(w[1].get()).square().sum(..);
    let grads = loss.backward()?;
    step(|| {
        for c in w {
            if let Some(g) = grads.of(c) {
                c.set(&(c.detached() - g * lr))?;
            }
        }
        Ok(())
    })?;
    loss.item::<f32>()
}
#[test]
fn weights_are_updated_in_place_and_the_second_step_hits_the_plan() -> Result<()> {
    on(|d| {
        let w = [
            Cell::new(&Tensor::from_vec((0..12).map(|k| (k as f32 - 6.0) * 0.1).collect(), [3, 4]), true)?,
            Cell::new(&Tensor::from_vec((0..8).map(|k| (k as f32 - 3.0) * 0.2).collect(), [4, 2]), true)?,
        ];
        let x = Tensor::from_vec((0..6).map(|k| k as f32 * 0.5).collect(), [2, 3]);
        let mut losses = vec![];
        for k in 0..5 {
            losses.push(mlp_step(&w, &x, 0.01 / (k + 1) as f32)?);
            let s = take_stats();
            if k >= 1 {
                assert_eq!((s.misses, s.resizes), (0, 0), "step {k}: {s:?}");
                assert!(s.donated >= 2, "step {k}: {s:?}");
            }
        }
        assert!(losses.windows(2).all(|p| p[1] < p[0]), "{losses:?}");
        let before = d.memory().system_allocations;
        for _ in 0..10 {
            mlp_step(&w, &x, 0.001)?;
        }
        assert_eq!(d.memory().system_allocations, before, "a steady step asks the system for nothing");
        Ok(())
    })
}
#[test]
fn the_training_step_has_the_bits_of_the_reference_in_f64() -> Result<()> {
    let run = |d: Device| {
        d.scoped(|| -> Result<Vec<f64>> {
            let w = Tensor::from_vec((0..12).map(|k| (k as f64 - 6.0) * 0.1).collect(), [3, 4]).tracked();
            let x = Tensor::from_vec((0..6).map(|k| k as f64 * 0.5).collect(), [2, 3]);
            let loss = (x.matmul(&w).exp() + 1.0).log().sum(..);
            let g = loss.backward()?;
            g.get(&w).map(|g| g.to_vec()).transpose().map(|v| v.unwrap_or_default())
        })
    };
    let (a, b) = (run(Device::reference())?, run(naive::device(2048, usize::MAX))?);
    for (x, y) in a.iter().zip(&b) {
        assert!((x - y).abs() < 1e-12, "{x} {y}");
    }
    Ok(())
}
#[test]
fn short_windows_change_no_bit() -> Result<()> {
    let run = |window: usize| {
        naive::device(window, usize::MAX).scoped(|| -> Result<Vec<f32>> {
            let w = Tensor::from_vec((0..16).map(|k| (k as f32 - 6.0) * 0.1).collect(), [4, 4]).tracked();
            let mut x = Tensor::from_vec((0..8).map(|k| k as f32 * 0.25).collect(), [2, 4]);
            for _ in 0..6 {
                x = &x + (x.matmul(&w).relu() * 0.5f32 - 0.1f32).exp() * 0.01f32;
            }
            let g = x.square().sum(..).backward()?;
            g.get(&w).map(|g| g.to_vec()).transpose().map(|v| v.unwrap_or_default())
        })
    };
    let whole = run(2048)?;
    for window in [1, 3, 7, 20] {
        assert_eq!(run(window)?, whole, "window {window}");
    }
    Ok(())
}
#[test]
fn a_fault_names_the_line_and_leaves_the_weights() -> Result<()> {
    on(|_| {
        let table = Cell::new(&Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [2, 2]), true)?;
        let before = table.get().to_vec::<f32>()?;
        let train = |ids: Vec<i64>| -> Result<()> {
            let n = ids.len();
            let ids = Tensor::from_vec(ids, [n, 1]).expand([n as i64, 2]);
            let rows = Tensor::apply(Op::Gather { axis: 0 }, Arg::None, &[&table.get(), &ids]);
            let g = rows.square().sum(..).backward()?;
            step(|| table.set(&(table.detached() - g.of(&table).cloned().unwrap_or_else(|| table.detached()) * 0.1f32)))
        };
        let e = train(vec![0, 5]).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Index { index: 5, bound: 2, .. }), "{e}");
        assert!(e.to_string().contains("scheduler.rs"), "{e}");
        assert_eq!(table.get().to_vec::<f32>()?, before);
        train(vec![0, 1])?;
        assert_ne!(table.get().to_vec::<f32>()?, before);
        Ok(())
    })
}
#[test]
fn out_of_memory_leaves_everything_as_it_was() -> Result<()> {
    naive::device(2048, 4096).scoped(|| {
        let c = Cell::new(&Tensor::ones([8]), true)?;
        c.get().materialize()?;
        let e = step(|| {
            let big = Tensor::ones([100_000]).exp();
            c.set(&(c.detached() + big.sum(..) + big.narrow(0, 0, 8)))
        })
        .unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::OutOfMemory { .. }), "{e}");
        assert_eq!(c.get().to_vec::<f32>()?, [1.0; 8]);
        step(|| c.set(&(c.detached() + 1.0f32)))?;
        assert_eq!(c.get().to_vec::<f32>()?, [2.0; 8]);
        Ok(())
    })
}
#[test]
fn a_million_ops_evaluate_differentiate_and_drop() -> Result<()> {
    on(|_| {
        let x = Tensor::from_vec(vec![1.0f32], [1]).tracked();
        let mut y = x.clone();
        for _ in 0..1_000_000 {
            y = &y * 1.0f32 + 0.0f32;
        }
        let g = y.sum(..).backward()?;
        assert_eq!(g.get(&x).map(|g| g.to_vec::<f32>()).transpose()?, Some(vec![1.0]));
        Ok(())
    })
}
#[test]
fn a_compiled_step_has_the_bits_of_the_plain_one_and_updates_in_place() -> Result<()> {
    on(|_| {
        let cells = || -> Result<Vec<Cell>> {
            Ok(vec![
                Cell::new(&Tensor::from_vec((0..12).map(|k| (k as f32 - 6.0) * 0.1).collect(), [3, 4]), true)?,
                Cell::new(&Tensor::from_vec((0..8).map(|k| (k as f32 - 3.0) * 0.2).collect(), [4, 2]), true)?,
            ])
        };
        let rng = |seed| Rng::new(seed);
        let body = |w: &[Cell], r: &Rng, x: &Tensor, lr: &Tensor| -> Result<Tensor> {
            let keep = r.uniform([2, 4], DType::F32).gt(0.3f32).cast(DType::F32);
            let h = x.matmul(w[0].get()).relu() * keep;
            let loss = h.matmul(w[1].get()).square().sum(..);
            let grads = loss.backward()?;
            step(|| {
                for c in w {
                    if let Some(g) = grads.of(c) {
                        c.set(&(c.detached() - g * lr))?;
                    }
                }
                Ok(())
            })?;
            Ok(loss.detach())
        };
        let x = Tensor::from_vec((0..6).map(|k| k as f32 * 0.5).collect(), [2, 3]);
        let (plain, fast) = (cells()?, cells()?);
        let (r1, r2) = (rng(7)?, rng(7)?);
        let (w, r) = (fast.clone(), r2.clone());
        let f = compile(move |t: &[Tensor]| Ok(vec![body(&w, &r, &t[0], &t[1])?]));
        for k in 0..4 {
            let lr = Tensor::full((), 0.01 / (k + 1) as f32, DType::F32);
            let a = body(&plain, &r1, &x, &lr)?.item::<f32>()?;
            take_stats();
            let b = f.call(&[&x, &lr])?[0].item::<f32>()?;
            let s = take_stats();
            assert_eq!(a.to_bits(), b.to_bits(), "step {k}");
            if k > 1 {
                assert!(s.donated >= 2 && s.misses == 0, "{s:?}");
            }
        }
        for (p, q) in plain.iter().zip(&fast) {
            assert_eq!(p.detached().to_vec::<f32>()?, q.detached().to_vec::<f32>()?);
        }
        Ok(())
    })
}
#[test]
fn a_read_while_capturing_names_the_line() -> Result<()> {
    on(|_| {
        let line = line!() + 1;
        let f = compile(|x: &[Tensor]| x[0].exp().item::<f32>().map(|_| vec![]));
        let Err(e) = f.call(&[&Tensor::ones([1])]) else { panic!("the read went through") };
        assert!(matches!(e.kind(), ErrorKind::Capturing), "{e}");
        assert!(e.to_string().contains(&format!("scheduler.rs:{line}")), "{e}");
        Ok(())
    })
}
#[test]
fn a_checkpoint_has_the_bits_of_the_plain_run() -> Result<()> {
    on(|_| {
        let w = Cell::new(&Tensor::from_vec((0..16).map(|k| (k as f32 - 6.0) * 0.1).collect(), [4, 4]), true)?;
        let stat = Cell::new(&Tensor::zeros([4]), false)?;
        let x = Tensor::from_vec((0..8).map(|k| k as f32 * 0.25).collect(), [2, 4]);
        let run = |check: bool| -> Result<(Vec<f32>, Vec<f32>)> {
            stat.set(&Tensor::zeros([4]))?;
            let rng = Rng::new(3)?;
            let (w2, stat2) = (w.clone(), stat.clone());
            let f = move |x: &[Tensor]| -> Result<Tensor> {
                let h = x[0].matmul(w2.get());
                stat2.set(&(stat2.detached() * 0.9f32 + h.detach().sum(0) * 0.1f32))?;
                let keep = rng.uniform([2, 4], DType::F32).gt(0.5f32).cast(DType::F32);
                Ok(h.exp() * keep)
            };
            let y = if check { checkpoint(&[&x], f)? } else { f(std::slice::from_ref(&x))? };
            let g = y.square().sum(..).backward()?;
            Ok((g.of(&w).map(|g| g.to_vec::<f32>()).transpose()?.unwrap_or_default(), stat.detached().to_vec::<f32>()?))
        };
        assert_eq!(run(false)?, run(true)?);
        Ok(())
    })
}
#[test]
fn a_kernel_for_a_sum_of_one_element() -> Result<()> {
    on(|_| {
        let x = Tensor::from_vec(vec![1.5f32, -0.0, f32::NAN], [1, 3, 1]).tracked();
        x.materialize()?;
        take_stats();
        let sum = x.sum([0, 2]);
        sum.materialize()?;
        assert_eq!((take_stats().kernels, sum.shape()?.to_vec()), (0, vec![3]));
        assert_eq!(sum.detach().to_vec::<f32>()?.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), [1.5f32, -0.0, f32::NAN].map(f32::to_bits));
        let grads = (sum.detach().full_like(2.0) * x.amax([0, 2])).sum(0).backward()?;
        assert_eq!(grads.get(&x).map(|g| g.to_vec::<f32>()).transpose()?, Some(vec![2.0; 3]));
        // A sum of integers is another dtype, and a sum over no axis at all a reduction like any other.
        assert_eq!(Tensor::from_vec(vec![7i32], [1]).sum(0).dtype()?, DType::I64);
        Ok(())
    })
}
#[test]
fn a_draw_that_a_reduction_computes_again() -> Result<()> {
    on(|_| {
        // Nobody holds what was drawn, and the four words of its key do not broadcast to it.
        let seen = || -> Result<Vec<u32>> {
            let (norms, next) = {
                let w = Rng::new(3)?.uniform([5, 7], DType::F32);
                (w.square().sum(1), &w * 2.0)
            };
            let seen = [norms.to_vec::<f32>()?, next.to_vec()?].concat();
            Ok(seen.into_iter().map(f32::to_bits).collect())
        };
        assert_eq!(seen()?, with_eager(true, seen)?);
        Ok(())
    })
}
