//! Plans that became graphs give the bits of plans that did not, whatever changes between runs: batches, arguments, what somebody
//! holds, bad data, the order of streams; and they let go of their memory where it is wanted.
mod common;

use adamant_backend_cuda::CudaBackend;
use adamant_core::{Cell, DType, Device, ErrorKind, Result, Tensor, backend::FreezeRule, compile, step};
use adamant_cuda_emulator::{Emulator, FindingKind, Options};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The emulator is one for all tests of a process.
static TURN: Mutex<()> = Mutex::new(());

fn device(rule: Option<FreezeRule>) -> Option<Device> {
    common::emulator(Options { seed: 1, ..Options::default() })?;
    match CudaBackend::builder().cache(None).self_test(false).graphs(rule).build() {
        Ok(backend) => Some(Device::from_backend(Box::new(backend))),
        Err(ErrorKind::DeviceAbsent(why)) => {
            common::skipped(&why);
            None
        }
        Err(e) => panic!("{e:?}"),
    }
}
fn counted(device: Device, name: &str) -> u64 {
    device.counters().into_iter().find(|c| c.0 == name).map_or(0, |c| c.1)
}
fn numbers(n: usize, scale: f32, salt: u32) -> Vec<f32> {
    let number = |k: u32| (k.wrapping_mul(2_654_435_761).wrapping_add(salt.wrapping_mul(40_503)) >> 8) as f32 / (1 << 24) as f32;
    (0..n as u32).map(|k| (number(k) - 0.5) * scale).collect()
}
fn tensor(shape: [usize; 2], scale: f32, salt: u32) -> Tensor {
    Tensor::from_vec(numbers(shape[0] * shape[1], scale, salt), shape)
}
/// How a training goes.
#[derive(Clone, Copy)]
struct Course {
    captured: bool,
    /// every so many steps the loss is read at once; else at the end
    reads: usize,
    /// the steps whose batch has a class that is none
    bad: &'static [usize],
    /// the batch's rows at each step
    rows: fn(usize) -> usize,
}
/// What came of it: each loss, or the error of whoever read it; the weights at the end.
type Trained = (Vec<std::result::Result<f32, String>>, Vec<u32>, f32);

fn train(course: Course) -> Result<Trained> {
    let weights = [Cell::new(&tensor([24, 40], 0.6, 1), true)?, Cell::new(&tensor([40, 16], 0.6, 2), true)?];
    let momenta = [Cell::new(&Tensor::zeros([24, 40]), false)?, Cell::new(&Tensor::zeros([40, 16]), false)?];
    let total = Cell::new(&Tensor::zeros([1]), false)?;
    let rate = Arc::new(AtomicU64::new(0));
    let once = |x: &Tensor, classes: &Tensor| -> Result<Tensor> {
        let [first, second] = &weights;
        let hidden = x.matmul(first.get()).tanh();
        let picked = hidden.matmul(second.get()).gather(1, &classes.unsqueeze(1));
        let loss = (picked - 0.5).square().mean(..);
        let grads = loss.backward()?;
        let rate = rate.clone();
        let rate = compile::number(DType::F32, x.device()?, move || 0.1 / (1.0 + rate.load(Relaxed) as f64));
        step(|| {
            for (w, m) in weights.iter().zip(&momenta) {
                let Some(g) = grads.of(w) else { continue };
                let velocity = m.detached() * 0.9 + g;
                w.set(&(w.detached() - &velocity * &rate))?;
                m.set(&velocity)?;
            }
            total.set(&(total.detached() + loss.detach()))
        })?;
        Ok(loss)
    };
    let captures = compile::captures();
    let (mut losses, mut told) = (Vec::new(), Vec::new());
    let said = |loss: &Tensor| loss.item::<f32>().map_err(|e| e.to_string());
    for k in 0..14 {
        rate.store(k as u64, Relaxed);
        let rows = (course.rows)(k);
        let x = tensor([rows, 24], 2.0, 10 + k as u32);
        let class = |row: usize| if course.bad.contains(&k) && row == 3 { 99 } else { ((row * 7 + k) % 16) as i64 };
        let classes = Tensor::from_vec((0..rows).map(class).collect::<Vec<i64>>(), [rows]);
        let outcome = match course.captured {
            false => once(&x, &classes),
            true => captures.call_with(&[&x, &classes], &mut |given| Ok(vec![once(&given[0], &given[1])?])).map(|mut out| out.remove(0)),
        };
        match outcome {
            Ok(loss) if (k + 1) % course.reads == 0 => told.push(said(&loss)),
            Ok(loss) => losses.push(loss),
            Err(e) => told.push(Err(e.to_string())),
        }
    }
    told.extend(losses.iter().map(said));
    let bits = weights.iter().chain(&momenta).map(|w| w.detached().to_vec::<f32>()).collect::<Result<Vec<_>>>()?;
    let sum = total.detached().to_vec::<f32>()?[0];
    Ok((told, bits.into_iter().flatten().map(f32::to_bits).collect(), sum))
}
const COURSES: [(&str, Course); 7] = [
    ("windows, read at once", Course { captured: false, reads: 1, bad: &[], rows: |_| 32 }),
    ("captured, read at once", Course { captured: true, reads: 1, bad: &[], rows: |_| 32 }),
    ("captured, read at the end", Course { captured: true, reads: 99, bad: &[], rows: |_| 32 }),
    ("captured, read at times", Course { captured: true, reads: 4, bad: &[], rows: |_| 32 }),
    ("captured, bad data read at once", Course { captured: true, reads: 1, bad: &[2, 6, 7, 11], rows: |_| 32 }),
    ("captured, bad data read at the end", Course { captured: true, reads: 99, bad: &[5], rows: |_| 32 }),
    ("captured, other batches in between", Course { captured: true, reads: 1, bad: &[9], rows: |k| if k % 3 == 2 { 20 } else { 32 } }),
];

#[test]
fn a_graph_that_gives_other_bits() {
    let _turn = TURN.lock();
    let Some(plain) = device(None) else { return };
    let emulator = Emulator::installed().unwrap();
    for (name, course) in COURSES {
        let expected = plain.scoped(|| train(course)).unwrap();
        assert_eq!(counted(plain, "graphs"), 0);
        for (seed, rule) in [(1, FreezeRule { run: 1, steps: 1 }), (2, FreezeRule { run: 2, steps: 2 }), (3, FreezeRule { run: 3, steps: 8 })] {
            emulator.set_seed(seed);
            let device = device(Some(rule)).unwrap();
            let found = device.scoped(|| train(course)).unwrap();
            assert_eq!(found.0, expected.0, "{name}, {rule:?}: losses");
            assert_eq!((&found.1, found.2), (&expected.1, expected.2), "{name}, {rule:?}: weights");
            let (graphs, replays) = (counted(device, "graphs"), counted(device, "replays"));
            assert!(graphs > 0 && replays >= graphs, "{name}, {rule:?}: {graphs} graphs, {replays} launches of them");
        }
    }
    // What a step that was left out did not write, the host may read before it is told of the fault.
    let found: Vec<_> = emulator.findings().into_iter().filter(|f| f.kind != FindingKind::HostReadUnwritten).collect();
    assert!(found.is_empty(), "{found:#?}");
}
/// A deeper net by a rule with two moments, as optimizers have them; how many graphs were made and launched, and the other launches
/// of the last step.
fn counted_steps(device: Device, captured: bool, reads: bool) -> Result<[u64; 3]> {
    let sizes = [(24, 40), (40, 32), (32, 16)];
    let weights = sizes.iter().zip(1..).map(|(&(m, n), k)| Cell::new(&tensor([m, n], 0.6, k), true)).collect::<Result<Vec<_>>>()?;
    let zeros = || sizes.iter().map(|&(m, n)| Cell::new(&Tensor::zeros([m, n]), false)).collect::<Result<Vec<_>>>();
    let (firsts, seconds, count) = (zeros()?, zeros()?, Cell::new(&Tensor::zeros([1]), false)?);
    let once = |x: &Tensor, classes: &Tensor| -> Result<Tensor> {
        let hidden = weights[..2].iter().fold(x.clone(), |x, w| x.matmul(w.get()).tanh());
        let loss = (hidden.matmul(weights[2].get()).gather(1, &classes.unsqueeze(1)) - 0.5).square().mean(..);
        let grads = loss.backward()?;
        step(|| {
            let steps = count.detached() + 1.0;
            for ((w, m), v) in weights.iter().zip(&firsts).zip(&seconds) {
                let Some(g) = grads.of(w) else { continue };
                let (first, second) = (m.detached() * 0.9 + g * 0.1, v.detached() * 0.99 + g.square() * 0.01);
                w.set(&(w.detached() * 0.999 - &first / (second.sqrt() + 1e-3) * 0.01 * steps.clone().rsqrt()))?;
                m.set(&first)?;
                v.set(&second)?;
            }
            count.set(&steps)
        })?;
        Ok(loss)
    };
    let captures = compile::captures();
    let mut launches = 0;
    for k in 0..20 {
        let x = tensor([32, 24], 2.0, 10 + k);
        let classes = Tensor::from_vec((0..32).map(|row| i64::from((row * 7 + k) % 16)).collect::<Vec<i64>>(), [32]);
        let before = counted(device, "launches");
        let loss = match captured {
            false => once(&x, &classes)?,
            true => captures.call_with(&[&x, &classes], &mut |given| Ok(vec![once(&given[0], &given[1])?]))?.remove(0),
        };
        loss.materialize()?;
        launches = counted(device, "launches") - before;
        if reads {
            loss.item::<f32>()?;
        }
    }
    Ok([counted(device, "graphs"), counted(device, "replays"), launches])
}
#[test]
fn a_training_whose_plans_are_made_graphs_again_and_again() {
    let _turn = TURN.lock();
    for (captured, reads, most) in [(true, true, 1), (true, false, 1), (false, true, 2), (false, false, 2)] {
        let Some(device) = device(Some(FreezeRule { run: 3, steps: 2 })) else { return };
        let [graphs, replays, launches] = device.scoped(|| counted_steps(device, captured, reads)).unwrap();
        println!("captured {captured}, read at once {reads}: {graphs} graphs, {replays} launches of them, {launches} launches in the last step");
        assert!(graphs <= 3 * most && replays >= 14 * most, "captured {captured}, read at once {reads}: {graphs} graphs, {replays} launches of them");
    }
}
#[test]
fn a_value_of_a_run_that_the_next_run_overwrites() {
    let _turn = TURN.lock();
    let Some(device) = device(Some(FreezeRule { run: 1, steps: 1 })) else { return };
    device.scoped(|| {
        let f = compile::compile(|x: &[Tensor]| Ok(vec![(&x[0] * 2.0).exp().sum(..), x[0].matmul(&x[0])]));
        let given: Vec<Tensor> = (0..9).map(|k| tensor([8, 8], 1.0, k)).collect();
        let kept: Vec<_> = given.iter().map(|x| f.call(&[x]).unwrap()).collect();
        for (x, out) in given.iter().zip(&kept) {
            let x = x.to_vec::<f32>().unwrap();
            let sum: f64 = x.iter().map(|x| f64::from(2.0 * x).exp()).sum();
            assert!((f64::from(out[0].item::<f32>().unwrap()) - sum).abs() < 1e-4 * sum);
            let corner: f64 = (0..8).map(|k| f64::from(x[k]) * f64::from(x[8 * k])).sum();
            assert!((f64::from(out[1].to_vec::<f32>().unwrap()[0]) - corner).abs() < 1e-5);
        }
        // What moves is found out on the way.
        assert!(counted(device, "replays") >= 4);
    });
}
#[test]
fn memory_of_graphs_that_nobody_gets_back() {
    let _turn = TURN.lock();
    let Some(device) = device(Some(FreezeRule { run: 1, steps: 1 })) else { return };
    device.scoped(|| {
        let f = compile::compile(|x: &[Tensor]| Ok(vec![(&x[0] * 2.0).exp().matmul((&x[0] + 1.0).tanh()).sum(..)]));
        let x = tensor([256, 256], 1.0, 1);
        let first = f.call(&[&x]).unwrap()[0].item::<f32>().unwrap();
        let held = device.memory().live_bytes;
        // There is memory for this only without what the graph keeps.
        device.pool().set_cap(held + (700 << 10));
        let large = Tensor::zeros([300, 1024]);
        large.materialize().unwrap();
        assert!(device.memory().live_bytes <= held + (700 << 10));
        drop(large);
        device.pool().set_cap(0);
        assert_eq!(f.call(&[&x]).unwrap()[0].item::<f32>().unwrap(), first);
    });
}
#[test]
fn a_graph_of_a_device_that_was_lost() {
    let _turn = TURN.lock();
    let Some(device) = device(Some(FreezeRule { run: 1, steps: 1 })) else { return };
    device.scoped(|| {
        let f = compile::compile(|x: &[Tensor]| Ok(vec![(&x[0] * 2.0).exp().matmul(&x[0]).sum(..)]));
        let value = |k: u32| f.call(&[&tensor([16, 16], 1.0, k)]).and_then(|out| out[0].item::<f32>());
        let (a, b) = (value(1).unwrap(), value(2).unwrap());
        Emulator::installed().unwrap().plant("cuGraphLaunch", 1, 719);
        assert!(matches!(value(1).unwrap_err().kind(), ErrorKind::DeviceLost(_)));
        device.recover().unwrap();
        assert_eq!([value(1).unwrap(), value(2).unwrap()], [a, b]);
    });
}
