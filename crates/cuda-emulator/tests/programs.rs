//! Whole kernels through the real compiler: right ones are right and raise no alarm under any seed, and each planted fault is
//! caught under every one that is tried, and named.
mod rig;
#[path = "programs/texts.rs"]
mod texts;

use adamant_cuda_emulator::machine::{Finding, FindingKind};
use half::bf16;
use rig::{Arg, Random, Rig, compile};
use texts::{Expected, PROGRAMS, Program};

const SEEDS: u64 = 20;

/// Runs a program's kernel on drawn inputs: whether the result is right, or what was found.
fn outcome(rig: &mut Rig, name: &str, seed: u64) -> Result<bool, Box<Finding>> {
    let mut random = Random(seed);
    rig.conduct.seed = seed;
    rig.conduct.threads = 1 + (seed % 2) as usize;
    let floats = |random: &mut Random, n: usize| -> Vec<f32> { (0..n).map(|_| random.unit() as f32 * 4.0).collect() };
    let close = |a: f32, b: f64, by: f64| (f64::from(a) - b).abs() <= by * b.abs().max(1.0);
    match name {
        "block_sum" => {
            let n = 1000;
            let x = floats(&mut random, n);
            let (o, p) = (rig.upload(&[0f32; 4]), rig.upload(&x));
            rig.launch(name, [4, 1, 1], [256, 1, 1], 0, &[Arg::P(o), Arg::P(p), Arg::I(n as i32)])?;
            let got: Vec<f32> = rig.download(o, 4);
            Ok((0..4).all(|k| close(got[k], x[k * 256..n.min((k + 1) * 256)].iter().map(|v| f64::from(*v)).sum(), 1e-4)))
        }
        "softmax" => {
            let (rows, n) = (3, 300);
            let x = floats(&mut random, rows * n);
            let (o, p) = (rig.empty::<f32>(rows * n), rig.upload(&x));
            rig.launch(name, [rows as u32, 1, 1], [256, 1, 1], 0, &[Arg::P(o), Arg::P(p), Arg::I(n as i32)])?;
            if !rig.memory.is_written(o, (rows * n * 4) as u64) {
                return Ok(false);
            }
            let got: Vec<f32> = rig.download(o, rows * n);
            Ok((0..rows).all(|row| {
                let x: Vec<f64> = x[row * n..(row + 1) * n].iter().map(|v| f64::from(*v).exp()).collect();
                let z: f64 = x.iter().sum();
                (0..n).all(|k| (f64::from(got[row * n + k]) - x[k] / z).abs() < 1e-6)
            }))
        }
        "warp_scan" => {
            let x: Vec<i32> = (0..128).map(|_| random.below(1000) as i32).collect();
            let (o, p) = (rig.empty::<i32>(128), rig.upload(&x));
            rig.launch(name, [1, 1, 1], [128, 1, 1], 0, &[Arg::P(o), Arg::P(p)])?;
            let got: Vec<i32> = rig.download(o, 128);
            Ok((0..128).all(|k| got[k] == x[k / 32 * 32..=k].iter().sum()))
        }
        "vectors" => {
            let n = 400;
            let x = floats(&mut random, n);
            let (o, p) = (rig.empty::<f32>(n), rig.upload(&x));
            rig.launch(name, [2, 1, 1], [64, 1, 1], 0, &[Arg::P(o), Arg::P(p), Arg::I(n as i32)])?;
            let got: Vec<f32> = rig.download(o, n);
            Ok((0..n).all(|k| got[k] == x[k] * (k % 4 + 1) as f32))
        }
        "histogram" => {
            let x: Vec<i32> = (0..3000).map(|_| random.below(640) as i32).collect();
            let (o, p) = (rig.upload(&[0i32; 64]), rig.upload(&x));
            rig.launch(name, [4, 1, 1], [128, 1, 1], 0, &[Arg::P(o), Arg::P(p), Arg::I(3000)])?;
            let got: Vec<i32> = rig.download(o, 64);
            Ok((0..64).all(|k| got[k] == x.iter().filter(|v| (**v & 63) as usize == k).count() as i32))
        }
        "last_block" => {
            let x = floats(&mut random, 1000);
            let (o, partial, p) = (rig.empty::<f32>(1), rig.empty::<f32>(7), rig.upload(&x));
            rig.launch(name, [7, 1, 1], [32, 1, 1], 0, &[Arg::P(o), Arg::P(partial), Arg::P(p), Arg::I(1000)])?;
            Ok(close(rig.download::<f32>(o, 1)[0], x.iter().map(|v| f64::from(*v)).sum(), 1e-4))
        }
        "spin_lock" => {
            let o = rig.upload(&[0i32]);
            rig.launch(name, [3, 1, 1], [64, 1, 1], 0, &[Arg::P(o)])?;
            Ok(rig.download::<i32>(o, 1)[0] == 192)
        }
        _ => {
            let (m, n, k) = (128, 64, 160);
            let mut draw = |count: usize| -> Vec<u16> { (0..count).map(|_| bf16::from_f64(random.unit()).to_bits()).collect() };
            let (a, b) = (draw(m * k), draw(n * k));
            let (c, pa, pb) = (rig.upload(&vec![0f32; m * n]), rig.upload(&a), rig.upload(&b));
            let args = [Arg::P(c), Arg::P(pa), Arg::P(pb), Arg::I(m as i32), Arg::I(n as i32), Arg::I(k as i32)];
            rig.launch(name, [(n / 64) as u32, (m / 64) as u32, 1], [128, 1, 1], 0, &args)?;
            let got: Vec<f32> = rig.download(c, m * n);
            let value = |v: u16| bf16::from_bits(v).to_f64();
            Ok((0..m * n).all(|at| {
                let (row, column) = (at / n, at % n);
                let wanted: f64 = (0..k).map(|i| value(a[row * k + i]) * value(b[column * k + i])).sum();
                close(got[at], wanted, 1e-4)
            }))
        }
    }
}

#[test]
fn right_programs_are_right_under_every_seed() {
    for Program { name, text, .. } in PROGRAMS {
        for arch in ["sm_80", "sm_90a", "sm_120"] {
            let Some(mut rig) = Rig::of(text, &[&format!("-arch={arch}")]) else { return };
            // Who spins on a lock waits for another thread of the host, too.
            rig.conduct.budget = 10_000_000;
            for seed in 0..SEEDS {
                match outcome(&mut rig, name, seed) {
                    Ok(right) => assert!(right, "{name}, {arch}, seed {seed}: a wrong result"),
                    Err(finding) => panic!("{name}, {arch}, seed {seed}: a false alarm: {finding}"),
                }
            }
        }
    }
}

#[test]
fn planted_faults_are_caught_under_every_seed() {
    let mut planted = 0;
    for Program { name, text, plants } in PROGRAMS {
        for (fault, from, to, expected) in *plants {
            assert!(text.contains(from), "{name}: `{fault}` finds no place");
            let Some(ptx) = compile(&text.replacen(from, to, 1), &["-arch=sm_90a"]) else { return };
            for seed in 0..5 {
                // What a fault left in the module's own variables is not the next launch's affair.
                let mut rig = Rig::new(&ptx);
                rig.conduct.budget = 200_000;
                match (outcome(&mut rig, name, seed), expected) {
                    (Err(finding), Expected::Found(_) | Expected::OneOf(_)) => {
                        let named = match expected {
                            Expected::Found(kind) => finding.kind == *kind,
                            Expected::OneOf(kinds) => kinds.contains(&finding.kind),
                            Expected::WrongResult => false,
                        };
                        assert!(named, "{name}, {fault}, seed {seed}: {expected:?} was expected: {finding}");
                        assert!(finding.line > 0 && !finding.instruction.is_empty(), "{name}, {fault}: {finding}");
                        if seed == 0 {
                            println!("{name}: {fault}: {finding}");
                        }
                    }
                    (Ok(false), Expected::WrongResult) => {}
                    (other, _) => panic!("{name}, {fault}, seed {seed}: {expected:?} was expected, and there is {other:?}"),
                }
            }
            planted += 1;
        }
    }
    println!("{planted} planted faults were caught, each under 5 seeds");
}

#[test]
fn memory_that_was_freed_and_outputs_that_nobody_wrote() {
    let text = r#"
extern "C" __global__ void half_of_it(float* o, int n) { int i = threadIdx.x; if (2 * i < n) o[2 * i] = 1.f; }
extern "C" __global__ void sum_up(float* o, const float* x, int n) { float z = 0; for (int i = 0; i < n; i++) z += x[i]; *o = z; }"#;
    let Some(ptx) = compile(text, &["-arch=sm_90a"]) else { return };
    for seed in 0..5 {
        let mut rig = Rig::new(&ptx);
        rig.conduct.seed = seed;
        let (o, x) = (rig.empty::<f32>(1), rig.empty::<f32>(64));
        rig.go("half_of_it", 1, 32, &[Arg::P(x), Arg::I(64)]);
        let finding = rig.launch("sum_up", [1; 3], [1; 3], 0, &[Arg::P(o), Arg::P(x), Arg::I(64)]).unwrap_err();
        assert_eq!((finding.kind, finding.address), (FindingKind::ReadBeforeWritten, Some(x + 4)), "{finding}");
        rig.memory.free(x).unwrap();
        let finding = rig.launch("sum_up", [1; 3], [1; 3], 0, &[Arg::P(o), Arg::P(x), Arg::I(64)]).unwrap_err();
        assert_eq!((finding.kind, finding.address), (FindingKind::UseAfterFree, Some(x)), "{finding}");
    }
}

#[test]
fn launches_that_do_not_fit() {
    let text = r#"extern "C" __global__ void __launch_bounds__(64) f(float* o, int n) { o[threadIdx.x] = n; }"#;
    let Some(rig) = Rig::of(text, &["-arch=sm_90a"]) else { return };
    let o = rig.empty::<f32>(64);
    let args = [Arg::P(o), Arg::I(1)];
    let kind = |kernel, grid, block, shared, args: &[Arg]| rig.launch(kernel, grid, block, shared, args).unwrap_err().kind;
    assert_eq!(kind("g", [1; 3], [64, 1, 1], 0, &args), FindingKind::BadParameter);
    assert_eq!(kind("f", [0, 1, 1], [64, 1, 1], 0, &args), FindingKind::BadParameter);
    assert_eq!(kind("f", [1; 3], [65, 1, 1], 0, &args), FindingKind::BadParameter);
    assert_eq!(kind("f", [u32::MAX; 3], [64, 1, 1], 0, &args), FindingKind::BadParameter);
    assert_eq!(kind("f", [1; 3], [64, 1, 1], 1 << 20, &args), FindingKind::BadParameter);
    assert_eq!(kind("f", [1; 3], [64, 1, 1], 0, &args[..1]), FindingKind::BadParameter);
    rig.go("f", 1, 64, &args);
}
