//! A training step as one captured function: what changes changes, what is held back stays, and what cannot be captured says so.
#![allow(clippy::unwrap_used)]
use adamant::{
    Cell, DType, Device, Error, ErrorKind, Result, Rng, Snapshot, Tensor, compile,
    compile::{MOST_CAPTURES, number},
    nn::{BatchNorm2d, Conv2d, Dropout, Flatten, Linear, Module, Relu, Sequential, Walk, manual_seed, rng_state},
    optim::{
        Adam, AdamW, GradAccumulator, NAdam, Optimizer, Slots, UpdateRule, WeightAverage, clip_grad_norm,
        schedule::{OneCycleLr, Scheduler},
    },
    step, step_when,
};
use std::sync::{Mutex, atomic::AtomicUsize, atomic::Ordering::Relaxed};

fn bits(all: &[(String, Tensor)]) -> Vec<(String, Vec<u8>)> {
    all.iter().map(|(name, t)| (name.clone(), t.to_bytes().unwrap())).collect()
}
fn batch(k: usize, rows: usize) -> Tensor {
    Tensor::from_vec((0..rows * 3).map(|i| ((i * 7 + k * 5) % 11) as f32 / 5.0 - 1.0).collect(), [rows, 3])
}
fn loss(model: &Linear, x: &Tensor) -> Result<Tensor> {
    Ok((model.forward(x)? - 0.5).square().mean(..))
}

#[test]
fn a_captured_step_that_repeats_its_number_or_its_rate() -> Result<()> {
    let run = |captured: bool| -> Result<_> {
        manual_seed(3);
        let model = Linear::new(3, 1)?;
        let optimizer = Mutex::new(NAdam::new(0.1).over(model.parameters()));
        let scheduler = Mutex::new(Scheduler::new(OneCycleLr::new(0.2, 12), &mut *optimizer.lock().unwrap()));
        let mean = Mutex::new(WeightAverage::exponential(&model.parameters(), 0.7)?);
        let learn = |x: &[Tensor]| {
            let loss = loss(&model, &x[0])?;
            let (mut grads, mut optimizer) = (loss.backward()?, optimizer.lock().unwrap());
            clip_grad_norm(&mut grads, &model.parameters(), 0.5)?;
            optimizer.step(&grads)?;
            mean.lock().unwrap().update()?;
            scheduler.lock().unwrap().step(&mut *optimizer);
            Ok(vec![loss.detach()])
        };
        let whole = compile(learn);
        let mut losses = Vec::new();
        for k in 0..12 {
            let x = batch(k, if k % 5 == 4 { 2 } else { 4 });
            losses.push(if captured { whole.call(&[&x])?[0].item::<f32>()? } else { learn(&[x])?[0].item::<f32>()? }.to_bits());
        }
        let captures = whole.captures();
        let steps = scheduler.lock().unwrap().steps();
        let optimizer = optimizer.lock().unwrap();
        let mean = mean.lock().unwrap();
        Ok(((losses, steps, mean.updates()?, optimizer.lrs(), bits(&optimizer.state_dict()), bits(&model.state_dict()), bits(&mean.state_dict())), captures))
    };
    let ((whole, captures), (plain, _)) = (run(true)?, run(false)?);
    assert_eq!(whole, plain);
    // Momenta and rates change at each step; the short batches are another size of the same structure.
    assert_eq!((captures.structures, captures.sizes, captures.evicted, captures.held), (1, 2, 0, 2));
    Ok(())
}
#[test]
fn a_rule_that_reads_its_rate_itself_and_keeps_that_of_the_capture() -> Result<()> {
    #[derive(Clone)]
    struct Plain(f64);
    impl UpdateRule for Plain {
        fn name(&self) -> &'static str {
            "Plain"
        }
        fn lr(&self) -> f64 {
            self.0
        }
        fn set_lr(&mut self, lr: f64) {
            self.0 = lr;
        }
        fn update(&self, p: &Tensor, g: &Tensor, _: &mut Slots<'_, Self>) -> Result<Tensor> {
            Ok(p - g * self.0)
        }
    }
    let model = Linear::new(3, 1)?;
    model.weight.set(&Tensor::zeros([1, 3]))?;
    let optimizer = Mutex::new(Plain(1.0).over(vec![model.weight.clone()]));
    let learn = compile(|x: &[Tensor]| {
        let grads = (model.weight.get() * &x[0]).sum(..).backward()?;
        optimizer.lock().unwrap().step(&grads)?;
        Ok(vec![])
    });
    let ones = Tensor::ones([1, 3]);
    learn.call(&[&ones])?;
    optimizer.lock().unwrap().set_lr(10.0);
    learn.call(&[&ones])?;
    assert_eq!(model.weight.detached().to_vec::<f32>()?, [-11.0; 3]);
    Ok(())
}
#[test]
fn a_number_that_is_read_inside_a_captured_step() {
    let model = Linear::new(3, 1).unwrap();
    let line = AtomicUsize::new(0);
    let learn = compile(|x: &[Tensor]| {
        let loss = loss(&model, &x[0])?;
        line.store(line!() as usize + 1, Relaxed);
        let value = loss.square().item::<f32>()?;
        Ok(vec![loss * value])
    });
    let error: Error = learn.call(&[&batch(0, 4)]).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Capturing);
    assert!(error.to_string().contains(&format!("compile.rs:{}", line.load(Relaxed))), "{error}");
}
#[test]
fn small_batches_that_a_captured_function_leaves_waiting() -> Result<()> {
    let model = Linear::new(3, 1)?;
    let accumulator = Mutex::new(GradAccumulator::new(model.parameters(), 2)?);
    let add = compile(|x: &[Tensor]| {
        let grads = loss(&model, &x[0])?.backward()?;
        Ok(vec![Tensor::full([], if accumulator.lock().unwrap().add(grads, 4)?.is_some() { 1.0 } else { 0.0 }, DType::F32)])
    });
    let error = add.call(&[&batch(0, 4)]).unwrap_err().to_string();
    assert!(error.contains("leaves 1 small batches that wait"), "{error}");
    let error = accumulator.lock().unwrap().add(loss(&model, &batch(0, 4))?.backward()?, 4).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("different captured functions"), "{error}");
    // It is as good as new.
    let mut accumulator = accumulator.into_inner().unwrap();
    assert!(accumulator.add(loss(&model, &batch(0, 4))?.backward()?, 4)?.is_none());
    assert!(accumulator.add(loss(&model, &batch(1, 4))?.backward()?, 4)?.is_some());
    Ok(())
}
#[test]
fn parameters_that_count_the_steps_of_others() -> Result<()> {
    // Two layers learn in turn: each has made the steps that it made, op by op and captured.
    let run = |captured: bool| -> Result<_> {
        manual_seed(4);
        let (a, b) = (Linear::new(3, 1)?, Linear::new(3, 1)?);
        a.weight.set(&b.weight.detached().ones_like())?;
        let both = Sequential::new().add(a).add(b);
        let named = both.named_parameters();
        let optimizer = Mutex::new(AdamW::new(0.1).over(both.parameters()));
        let learn = |x: &Tensor, of: &[usize]| -> Result<()> {
            let terms = of.iter().map(|k| (named[2 * k].1.get() * x.sum(0)).sum(..) + named[2 * k + 1].1.get().sum(..));
            let grads = terms.reduce(|a, b| a + b).unwrap().backward()?;
            optimizer.lock().unwrap().step(&grads)
        };
        let [one, two, all] = [&[0][..], &[1], &[0, 1]].map(|of| compile(move |x: &[Tensor]| learn(&x[0], of).map(|()| vec![])));
        for (k, turn) in [2, 2, 0, 1, 1, 0, 2, 1].into_iter().enumerate() {
            let x = batch(k, 4);
            match (captured, turn) {
                (false, _) => learn(&x, [&[0][..], &[1], &[0, 1]][turn])?,
                (true, 0) => drop(one.call(&[&x])?),
                (true, 1) => drop(two.call(&[&x])?),
                (true, _) => drop(all.call(&[&x])?),
            }
        }
        let state = optimizer.lock().unwrap().state_dict();
        let counts: Vec<f64> = named.iter().map(|(name, _)| state.iter().find(|(n, _)| *n == format!("{name}.step")).unwrap().1.item().unwrap()).collect();
        Ok((counts, bits(&state), bits(&both.state_dict())))
    };
    let plain = run(false)?;
    assert_eq!(plain.0, [5.0, 5.0, 6.0, 6.0]);
    assert_eq!(run(true)?, plain);
    Ok(())
}
#[test]
fn a_state_that_is_loaded_and_a_replay_that_goes_on_with_the_old_one() -> Result<()> {
    let run = |captured: bool| -> Result<_> {
        manual_seed(5);
        let model = Linear::new(3, 1)?;
        let optimizer = Mutex::new(Adam::new(0.1).over(model.parameters()));
        let learn = |x: &[Tensor]| optimizer.lock().unwrap().step(&loss(&model, &x[0])?.backward()?).map(|()| vec![]);
        let whole = compile(learn);
        let go = |k: usize| if captured { whole.call(&[&batch(k, 4)]).map(drop) } else { learn(&[batch(k, 4)]).map(drop) };
        (0..3).try_for_each(go)?;
        let saved: Vec<(String, Tensor)> = optimizer.lock().unwrap().state_dict();
        let values = saved.iter().map(|(name, t)| Ok((name.clone(), t.to_vec_as::<f64>()?))).collect::<Result<Vec<_>>>()?;
        (3..5).try_for_each(go)?;
        optimizer.lock().unwrap().load_state_dict(&saved)?;
        (5..8).try_for_each(go)?;
        let state = bits(&optimizer.lock().unwrap().state_dict());
        Ok((values, state, bits(&model.state_dict())))
    };
    assert_eq!(run(true)?, run(false)?);
    Ok(())
}
#[test]
fn a_new_seed_that_a_replay_does_not_draw_from() -> Result<()> {
    let dropout = Dropout::new(0.5)?;
    let drop = compile(|x: &[Tensor]| Ok(vec![dropout.forward(&x[0])?]));
    let x = Tensor::ones([64]);
    let draw = |seed| {
        manual_seed(seed);
        (0..3).map(|_| drop.call(&[&x])?[0].to_vec::<f32>()).collect::<Result<Vec<_>>>()
    };
    let (one, two, again) = (draw(1)?, draw(2)?, draw(1)?);
    assert_ne!(one, two);
    assert_eq!(one, again);
    assert!(one[0] != one[1] && one[1] != one[2]);
    Ok(())
}
#[test]
fn captures_that_pile_up() -> Result<()> {
    let scale = AtomicUsize::new(0);
    let f = compile(|x: &[Tensor]| {
        scale.fetch_add(1, Relaxed);
        Ok(vec![(&x[0] * 2.0).sum(..)])
    });
    for _ in 0..2 {
        for n in 2..=MOST_CAPTURES + 6 {
            assert_eq!(f.call(&[&Tensor::ones([n])])?[0].item::<f32>()?, 2.0 * n as f32);
        }
    }
    let captures = f.captures();
    assert_eq!((captures.structures, captures.held), (1, MOST_CAPTURES + 1));
    assert!(captures.evicted > 0 && captures.sizes as usize == scale.load(Relaxed));
    Ok(())
}

/// What a step of a net with running statistics, dropout and Adam leaves, by what its gradients were times.
fn guarded(captured: bool, factors: &[f32], skipping: bool) -> Result<Vec<(String, Vec<u8>)>> {
    manual_seed(9);
    let device = Device::current()?;
    let net = Sequential::new().add(Conv2d::new(1, 2, 3)?).add(BatchNorm2d::new(2)?).add(Relu::new()).add(Dropout::new(0.3)?);
    let net = net.add(Flatten::with(1, -1)).add(Linear::new(18, 2)?);
    let optimizer = Mutex::new(Adam::new(0.01).over(net.parameters()));
    let learn = |x: &[Tensor]| {
        step_when(|| {
            let loss = (net.forward(&x[0])?.square().mean(..)) * &x[1];
            let grads = loss.backward()?;
            let norms = net.parameters().iter().map(|p| grads.of(&p.cell()).unwrap().abs().sum(..)).reduce(|a, b| a + b).unwrap();
            optimizer.lock().unwrap().step(&grads)?;
            Ok((norms.isfinite(), vec![]))
        })
    };
    let whole = compile(learn);
    for (k, factor) in factors.iter().enumerate().filter(|(_, f)| !skipping || f.is_finite()) {
        let x = Tensor::from_vec((0..100).map(|i| ((i * 13 + k * 7) % 23) as f32 / 10.0 - 1.0).collect(), [4, 1, 5, 5]);
        let factor = Tensor::full([], *factor, DType::F32);
        if captured { drop(whole.call(&[&x, &factor])?) } else { drop(learn(&[x, factor])?) }
    }
    let mut all = bits(&net.state_dict());
    all.extend(bits(&optimizer.lock().unwrap().state_dict()));
    all.push(("generator".into(), rng_state(device)?.0.iter().flat_map(|w| w.to_le_bytes()).collect()));
    Ok(all)
}
#[test]
fn a_step_that_is_held_back_and_leaves_a_trace() -> Result<()> {
    let factors = [1.0, f32::NAN, 1.0, f32::INFINITY, f32::INFINITY, 0.5];
    let without = guarded(false, &factors, true)?;
    for captured in [false, true] {
        assert_eq!(guarded(captured, &factors, false)?, without, "captured: {captured}");
    }
    assert_ne!(guarded(false, &factors[..3], false)?, guarded(false, &factors[2..3], false)?);
    Ok(())
}
#[test]
fn predicates_that_are_none_and_steps_within_steps() -> Result<()> {
    let cell = |v: f32| Cell::new(&Tensor::from_vec(vec![v], [1]), false).unwrap();
    let (a, b) = (cell(1.0), cell(2.0));
    let yes = |on: bool| Tensor::full([], f32::from(on), DType::F32).gt(0.5);
    let error = step_when(|| Ok((Tensor::ones([2]).gt(0.0), a.set(&Tensor::zeros([1]))?))).unwrap_err().to_string();
    assert!(error.contains("a bool without axes"), "{error}");
    assert_eq!(a.detached().to_vec::<f32>()?, [1.0]);
    // The inner step holds, the outer one does not; and the other way round.
    for (outer, inner, expected) in [(true, true, [12.0, 22.0]), (true, false, [2.0, 12.0]), (false, true, [1.0, 2.0]), (false, false, [1.0, 2.0])] {
        a.set(&Tensor::full([1], 1.0, DType::F32))?;
        b.set(&Tensor::full([1], 2.0, DType::F32))?;
        step_when(|| {
            a.set(&(a.detached() + 1.0))?;
            step_when(|| {
                a.set(&(a.detached() + 10.0))?;
                b.set(&(b.detached() + 10.0))?;
                Ok((yes(inner), ()))
            })?;
            b.set(&(b.detached() + 10.0))?;
            Ok((yes(outer), ()))
        })?;
        assert_eq!([a.detached().item::<f32>()?, b.detached().item::<f32>()?], expected, "{outer} {inner}");
    }
    Ok(())
}

#[test]
fn a_copy_of_a_value_that_was_overwritten() -> Result<()> {
    let cell = Cell::new(&Tensor::from_vec(vec![1.0f32, 2.0], [2]), true)?;
    let made = AtomicUsize::new(0);
    let doubled = || {
        cell.derived("doubled", |v| {
            made.fetch_add(1, Relaxed);
            Ok(v * 2.0)
        })
    };
    let is = |t: Result<Tensor>, expected: [f32; 2], times: usize| {
        assert_eq!((t.unwrap().to_vec::<f32>().unwrap(), made.load(Relaxed)), (expected.to_vec(), times));
    };
    is(doubled(), [2.0, 4.0], 1);
    is(doubled(), [2.0, 4.0], 1);
    // Another key is another copy, and both are kept.
    assert_eq!(cell.derived("negative", |v| Ok(v.neg()))?.to_vec::<f32>()?, [-1.0, -2.0]);
    is(doubled(), [2.0, 4.0], 1);
    let snapshot = Snapshot::now();
    cell.set(&(cell.detached() + 1.0))?;
    is(doubled(), [4.0, 6.0], 2);
    // Who reads an older snapshot gets its copy, and the new one stays.
    is(snapshot.read(doubled), [2.0, 4.0], 3);
    is(doubled(), [4.0, 6.0], 3);
    drop(snapshot);
    // Inside a step that wrote the cell it is of what the step sees; taken back, it is what it was.
    let failed = step(|| {
        is(doubled(), [4.0, 6.0], 3);
        cell.set(&(cell.detached() * 10.0))?;
        is(doubled(), [40.0, 60.0], 4);
        Err::<(), _>(Error::new("test", ErrorKind::Domain("no".into())))
    });
    assert!(failed.is_err());
    is(doubled(), [4.0, 6.0], 4);
    // A captured function makes it at each call of the value of then, also after its own write.
    let f = compile(|x: &[Tensor]| {
        let before = cell.derived("doubled", |v| Ok(v * 2.0))?;
        cell.set(&(cell.detached() + &x[0]))?;
        Ok(vec![before, cell.derived("doubled", |v| Ok(v * 2.0))?])
    });
    for k in 0..3 {
        let out = f.call(&[&Tensor::ones([2])])?;
        let at = |k: usize| vec![4.0 + 2.0 * k as f32, 6.0 + 2.0 * k as f32];
        assert_eq!((out[0].to_vec::<f32>()?, out[1].to_vec::<f32>()?), (at(k), at(k + 1)));
        assert_eq!(doubled()?.to_vec::<f32>()?, at(k + 1));
    }
    // Readers on other threads while one writes: a copy is of a value that was there, never of half of one.
    let device = Device::current()?;
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    device.scoped(|| {
                        for _ in 0..200 {
                            let v = doubled().unwrap().to_vec::<f32>().unwrap();
                            assert_eq!(v[1] - v[0], 2.0, "{v:?}");
                        }
                    });
                })
            })
            .collect();
        for _ in 0..200 {
            cell.set(&(cell.detached() + 1.0)).unwrap();
        }
        readers.into_iter().for_each(|r| r.join().unwrap());
    });
    assert_eq!(doubled()?.to_vec::<f32>()?, (cell.detached() * 2.0).to_vec::<f32>()?);
    Ok(())
}

/// d (w² x)/dw = 2 w x needs the w of then: a step that overwrites it comes between forward and backward.
#[test]
fn a_saved_value_that_a_later_step_overwrites() -> Result<()> {
    let w = Cell::new(&Tensor::from_vec(vec![3.0f32, 4.0], [2]), true)?;
    let x = Tensor::from_vec(vec![10.0f32, 100.0], [2]);
    let forward = || (w.get() * w.get() * &x).sum(..);
    let right = [60.0f32, 800.0];
    let overwrite = compile(|by: &[Tensor]| {
        w.set(&(w.detached() - &by[0]))?;
        Ok(vec![])
    });
    type Write<'a> = &'a dyn Fn() -> Result<()>;
    let one = Tensor::ones([2]);
    let ways: [(&str, Write<'_>); 4] = [
        ("a write", &|| w.set(&(w.detached() - 1.0))),
        ("a step", &|| step(|| w.set(&(w.detached() - 1.0)))),
        ("a step under a predicate", &|| step_when(|| Ok((one.sum(..).gt(0.0), w.set(&(w.detached() - 1.0))?)))),
        ("a captured step", &|| overwrite.call(&[&one]).map(drop)),
    ];
    for (name, write) in ways {
        for evaluated in [false, true] {
            w.set(&Tensor::from_vec(vec![3.0f32, 4.0], [2]))?;
            let (loss, held) = (forward(), w.detached());
            if evaluated {
                loss.item::<f32>()?;
            }
            // Twice: the second finds a value that nobody holds and may lie where the first one lay.
            write()?;
            write()?;
            assert_eq!(w.detached().to_vec::<f32>()?, [1.0, 2.0], "{name}");
            assert_eq!(held.to_vec::<f32>()?, [3.0, 4.0], "{name}: what the user holds");
            let grads = loss.backward()?;
            assert_eq!(grads.of(&w).unwrap().to_vec::<f32>()?, right, "{name}, evaluated: {evaluated}");
        }
    }
    // In a captured function that writes before its backward.
    let inside = compile(|x: &[Tensor]| {
        let loss = (w.get() * w.get() * &x[0]).sum(..);
        w.set(&(w.detached() - 1.0))?;
        Ok(vec![loss.backward()?.of(&w).unwrap().clone()])
    });
    for k in 0..3 {
        let now = w.detached().to_vec::<f32>()?;
        let got = inside.call(&[&x])?[0].to_vec::<f32>()?;
        assert_eq!(got, [20.0 * now[0], 200.0 * now[1]], "call {k}");
    }
    Ok(())
}
#[test]
fn randomness_that_stands_still_or_runs_ahead() -> Result<()> {
    let device = Device::current()?;
    let rng = Rng::new(5)?;
    let f = compile(|x: &[Tensor]| Ok(vec![&x[0] + rng.uniform([4], DType::F32) * number(DType::F32, device, || 1.0)]));
    let x = Tensor::zeros([4]);
    let captured = (0..4).map(|_| f.call(&[&x])?[0].to_vec::<f32>()).collect::<Result<Vec<_>>>()?;
    let other = Rng::new(5)?;
    let plain = (0..4).map(|_| other.uniform([4], DType::F32).to_vec::<f32>()).collect::<Result<Vec<_>>>()?;
    assert_eq!(captured, plain);
    Ok(())
}
