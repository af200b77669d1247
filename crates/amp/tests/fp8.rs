//! Products in 8 bits against a plain reference on the host, histories against the same in Rust, and training.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use adamant_amp::{AmaxAlgorithm, Autocast, BlockScaling, CurrentScaling, DelayedScaling, Fp8Recipe, GradScaler, ScalerOptions};
use adamant_backend_cpu as _;
use adamant_core::{DType, Tensor, compile, functional, grad, no_grad};
use adamant_nn::{Gelu, LayerNorm, Linear, Module, Sequential, Walk, manual_seed};
use adamant_optim::{AdamW, Optimizer, UpdateRule};

/// All finite numbers of a format from 0 on, by its bits.
fn numbers(dtype: DType) -> Vec<f64> {
    let (mantissa, bias, top) = if dtype == DType::F8E4M3 { (3u32, 7i32, 0x7e) } else { (2, 15, 0x7b) };
    (0..=top)
        .map(|bits: u32| {
            let (e, m) = ((bits >> mantissa) as i32, f64::from(bits & ((1 << mantissa) - 1)) / f64::from(1 << mantissa));
            if e == 0 { m * f64::powi(2.0, 1 - bias) } else { (1.0 + m) * f64::powi(2.0, e - bias) }
        })
        .collect()
}
/// To the nearest, ties to even bits, what is larger to the largest.
fn round(x: f64, all: &[f64]) -> f64 {
    let magnitude = x.abs().min(*all.last().unwrap());
    let above = all.partition_point(|v| *v < magnitude);
    let k = match above {
        0 => 0,
        _ if all[above] == magnitude => above,
        _ => match (magnitude - all[above - 1]).partial_cmp(&(all[above] - magnitude)).unwrap() {
            std::cmp::Ordering::Less => above - 1,
            std::cmp::Ordering::Greater => above,
            std::cmp::Ordering::Equal => above - above % 2,
        },
    };
    all[k].copysign(x)
}
#[derive(Clone)]
struct Matrix {
    rows: usize,
    cols: usize,
    values: Vec<f64>,
}
impl Matrix {
    fn of(t: &Tensor) -> Matrix {
        let shape = t.shape().unwrap();
        Matrix { rows: shape[0], cols: shape[1], values: t.to_vec_as::<f64>().unwrap() }
    }
    fn transposed(&self) -> Matrix {
        let values = (0..self.cols).flat_map(|c| (0..self.rows).map(move |r| (r, c))).map(|(r, c)| self.values[r * self.cols + c]).collect();
        Matrix { rows: self.cols, cols: self.rows, values }
    }
    fn amax(&self) -> f64 {
        self.values.iter().fold(0.0, |m, v| v.abs().max(m))
    }
    /// With one scale.
    fn scaled(&self, dtype: DType, amax: f64) -> Matrix {
        let all = numbers(dtype);
        // As f32 has it.
        let scale = f64::from(if amax > 0.0 { (1.0 / amax as f32) * *all.last().unwrap() as f32 } else { 1.0 });
        Matrix { values: self.values.iter().map(|v| round(f64::from(*v as f32 * scale as f32), &all) * f64::from(1.0 / scale as f32)).collect(), ..*self }
    }
    /// With one for each 32 of a row.
    fn in_blocks(&self, dtype: DType) -> Matrix {
        let (all, top) = (numbers(dtype), if dtype == DType::F8E4M3 { 8 } else { 15 });
        let mut values = Vec::new();
        for row in self.values.chunks(self.cols) {
            for block in row.chunks(32) {
                let amax = block.iter().fold(0f64, |m, v| v.abs().max(m));
                let scale = if amax > 0.0 { f64::powi(2.0, amax.log2().floor() as i32 - top) } else { 1.0 };
                values.extend(block.iter().map(|v| round(v / scale, &all) * scale));
            }
        }
        Matrix { values, ..*self }
    }
    fn times(&self, other: &Matrix) -> Matrix {
        let at = |r: usize, c: usize| (0..self.cols).map(|k| self.values[r * self.cols + k] * other.values[k * other.cols + c]).sum();
        let values = (0..self.rows).flat_map(|r| (0..other.cols).map(move |c| (r, c))).map(|(r, c)| at(r, c)).collect();
        Matrix { rows: self.rows, cols: other.cols, values }
    }
    fn is_near(&self, other: &Tensor, to: f64) {
        let (other, largest) = (Matrix::of(other), self.amax());
        assert_eq!((self.rows, self.cols), (other.rows, other.cols));
        for (a, b) in self.values.iter().zip(&other.values) {
            assert!((a - b).abs() <= to * (a.abs() + 0.02 * largest), "{a} {b} of {largest}");
        }
    }
}
fn drawn(seed: usize, shape: [usize; 2], spread: f32) -> Tensor {
    let n = shape[0] * shape[1];
    let value = |k: usize| ((k * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0;
    // Some rows are far larger than others.
    Tensor::from_vec((0..n).map(|k| value(k) * spread.powi((k / shape[1] % 5) as i32 - 2)).collect::<Vec<_>>(), shape)
}
/// bf16's last digit.
const LOW: f64 = 1.0 / 256.0;

#[test]
fn products_and_gradients_are_those_of_rounded_operands() {
    for (seed, [m, k, n]) in [[3, 5, 4], [8, 64, 16], [33, 100, 7], [16, 31, 40], [1, 32, 1]].into_iter().enumerate() {
        let (x, w) = (drawn(seed, [m, k], 3.0), drawn(seed + 50, [n, k], 2.0));
        let g = drawn(seed + 90, [m, n], 4.0).cast(DType::BF16);
        let bias = drawn(seed + 70, [1, n], 1.0).reshape([n]);
        let low = |t: &Tensor| Matrix::of(&t.cast(DType::BF16).float());
        for recipe in [Fp8Recipe::from(CurrentScaling::default()), BlockScaling.into()] {
            let blocks = recipe == BlockScaling.into();
            let rows = |m: &Matrix, dtype| if blocks { m.in_blocks(dtype) } else { m.scaled(dtype, m.amax()) };
            let (xm, wm, gm) = (low(&x), low(&w), low(&g));
            let (a, b, bias) = (x.tracked(), w.tracked(), bias.tracked());
            let y = Autocast::fp8(recipe).unwrap().run(|| functional::linear(&a, &b, Some(&bias)));
            assert_eq!(y.dtype().unwrap(), DType::BF16);
            let mut plain = rows(&xm, DType::F8E4M3).times(&rows(&wm, DType::F8E4M3).transposed());
            let told = bias.cast(DType::BF16).float().to_vec_as::<f64>().unwrap();
            plain.values.iter_mut().enumerate().for_each(|(k, v)| *v += told[k % n]);
            plain.is_near(&y, LOW);
            let grads = (y * &g).float().sum(..).backward().unwrap();
            let dx = rows(&gm, DType::F8E5M2).times(&rows(&wm.transposed(), DType::F8E4M3).transposed());
            dx.is_near(grads.get(&a).unwrap(), LOW);
            let dw = rows(&gm.transposed(), DType::F8E5M2).times(&rows(&xm.transposed(), DType::F8E4M3).transposed());
            // Summed in f32, and that it stays.
            dw.is_near(grads.get(&b).unwrap(), 1e-5);
            let sums = g.float().sum(0).to_vec::<f32>().unwrap();
            assert_eq!(grads.get(&bias).unwrap().to_vec::<f32>().unwrap(), sums);
        }
    }
}
#[test]
fn a_history_is_that_of_earlier_steps() {
    for (algorithm, length, margin) in [(AmaxAlgorithm::Max, 3, 0), (AmaxAlgorithm::MostRecent, 3, 1), (AmaxAlgorithm::Max, 1, -1)] {
        let recipe = DelayedScaling { margin, amax_history_len: length, amax_compute_algo: algorithm };
        let region = Autocast::fp8(recipe).unwrap();
        let model = Linear::new(8, 4).unwrap();
        model.bias.as_ref().unwrap().set(&Tensor::zeros([4])).unwrap();
        let mut told: Vec<f64> = Vec::new();
        for step in 0..7 {
            let x = drawn(step, [6, 8], 1.0) * f64::powi(2.0, [0, 4, -3, 2, 9, 1, 0][step]);
            let amax = match algorithm {
                AmaxAlgorithm::Max => told.iter().rev().take(length).fold(0f64, |m, v| m.max(*v)),
                AmaxAlgorithm::MostRecent => told.last().copied().unwrap_or(0.0),
            } * f64::powi(2.0, margin);
            let low = x.cast(DType::BF16).float();
            // An answer teaches nothing.
            let again = no_grad(|| region.run(|| model.forward(&x)).unwrap());
            let y = region.run(|| model.forward(&x)).unwrap();
            assert_eq!(again.to_vec_as::<f64>().unwrap(), y.to_vec_as::<f64>().unwrap());
            y.float().sum(..).backward().unwrap();
            if algorithm == AmaxAlgorithm::MostRecent || length == 1 {
                // The weight's history is known from the second step on.
                let w = Matrix::of(&model.weight.detached().cast(DType::BF16).float());
                let scaled = if step == 0 { w.scaled(DType::F8E4M3, 0.0) } else { w.scaled(DType::F8E4M3, w.amax() * f64::powi(2.0, margin)) };
                let plain = Matrix::of(&low).scaled(DType::F8E4M3, amax).times(&scaled.transposed());
                plain.is_near(&y, 2.0 * LOW);
            }
            told.push(f64::from(low.abs().amax(..).item::<f32>().unwrap()));
            let state = region.fp8_state_dict();
            let of = |operand: &str| state.iter().find(|(name, _)| name.ends_with(operand)).unwrap().1.to_vec_as::<f64>().unwrap();
            let mut wanted: Vec<f64> = told.iter().rev().copied().take(length).collect();
            wanted.resize(length, 0.0);
            assert_eq!(of(".input"), wanted);
            assert_eq!(of(".gradient")[0], 1.0);
        }
    }
}
fn net(seed: u64) -> Sequential {
    manual_seed(seed);
    Sequential::new().add(Linear::new(8, 48).unwrap()).add(LayerNorm::new([48]).unwrap()).add(Gelu::new()).add(Linear::new(48, 2).unwrap())
}
fn trained(region: Option<&Autocast>, captured: bool, steps: usize) -> (Sequential, f32) {
    let model = net(4);
    let mut optimizer = AdamW::new(4e-3).over(model.parameters());
    let x = drawn(1, [64, 8], 1.0);
    let y = Tensor::stack(&[x.sum(-1), x.square().sum(-1)], 1);
    let mut step = |x: &[Tensor]| {
        let run = || Ok(functional::mse_loss(&model.forward(&x[0])?.float(), &x[1], Default::default()));
        let loss = region.map_or_else(run, |r| r.run(run))?;
        optimizer.step(&loss.backward()?)?;
        Ok(vec![loss.detach()])
    };
    let compiled = compile::captures();
    let mut last = f32::NAN;
    for _ in 0..steps {
        let loss = if captured { compiled.call_with(&[&x, &y], &mut step).unwrap()[0].clone() } else { step(&[x.clone(), y.clone()]).unwrap()[0].clone() };
        last = loss.item().unwrap();
    }
    (model, last)
}
#[test]
fn training_reaches_the_loss_of_f32_by_each_recipe() {
    let (_, full) = trained(None, false, 200);
    for recipe in [DelayedScaling { amax_history_len: 16, ..Default::default() }.into(), CurrentScaling::default().into(), Fp8Recipe::from(BlockScaling)] {
        let region = Autocast::fp8(recipe).unwrap();
        let (_, first) = trained(Some(&Autocast::fp8(recipe).unwrap()), false, 1);
        let (_, loss) = trained(Some(&region), false, 200);
        println!("{recipe:?}: {first} to {loss}, f32 {full}");
        assert!(loss < first / 10.0, "{recipe:?}: {first} to {loss}, f32 {full}");
    }
}
#[test]
fn a_captured_step_and_one_that_goes_on_have_the_same_bits() {
    let bits = |model: &Sequential| model.state_dict().iter().flat_map(|(_, t)| t.to_vec::<f32>().unwrap()).map(f32::to_bits).collect::<Vec<_>>();
    for recipe in [DelayedScaling { amax_history_len: 4, ..Default::default() }.into(), CurrentScaling::default().into(), Fp8Recipe::from(BlockScaling)] {
        let region = || Autocast::fp8(recipe).unwrap();
        let (one, two) = (region(), region());
        assert_eq!(bits(&trained(Some(&one), false, 9).0), bits(&trained(Some(&two), true, 9).0), "{recipe:?}");
        let state = |r: &Autocast| r.fp8_state_dict().into_iter().map(|(n, t)| (n, t.to_vec::<f32>().unwrap())).collect::<Vec<_>>();
        assert_eq!(state(&one), state(&two));
        // Another region that takes over the state answers the same.
        let (model, three) = (trained(Some(&one), false, 1).0, region());
        three.load_fp8_state_dict(&one.fp8_state_dict()).unwrap();
        let answer = |r: &Autocast| r.run(|| no_grad(|| model.forward(&drawn(3, [5, 8], 1.0)))).unwrap().to_vec_as::<f32>().unwrap();
        assert_eq!(answer(&one), answer(&three));
    }
}
#[test]
fn a_step_that_is_suppressed_teaches_no_scale() {
    let region = Autocast::fp8(DelayedScaling { amax_history_len: 4, ..Default::default() }).unwrap();
    let model = net(2);
    let mut optimizer = AdamW::new(1e-3).over(model.parameters());
    let mut scaler = GradScaler::with(ScalerOptions { init_scale: 8.0, ..ScalerOptions::default() }).unwrap();
    let mut step = |factor: f64| {
        let x = drawn(1, [4, 8], 1.0);
        scaler
            .attempt(|scaler| {
                let loss = region.run(|| model.forward(&x))?.float().sum(..) * factor;
                let mut grads = scaler.scale(&loss)?.backward()?;
                scaler.step(&mut optimizer, &mut grads)
            })
            .unwrap();
        region.fp8_state_dict().into_iter().map(|(n, t)| (n, t.to_vec::<f32>().unwrap())).collect::<Vec<_>>()
    };
    let first = step(1.0);
    assert_eq!(step(f64::INFINITY), first);
    assert_ne!(step(3.0), first);
}
#[test]
fn what_is_computed_again_has_the_same_scales() {
    let x = drawn(1, [6, 8], 1.0);
    let run = |checkpointed: bool| {
        let region = Autocast::fp8(DelayedScaling { amax_history_len: 4, ..Default::default() }).unwrap();
        let model = std::sync::Arc::new(net(7));
        let mut all = Vec::new();
        for _ in 0..3 {
            let loss = region.run(|| {
                let y = if checkpointed {
                    let model = model.clone();
                    grad::checkpoint(&[&x], move |x| model.forward(&x[0])).unwrap()
                } else {
                    model.forward(&x).unwrap()
                };
                y.float().square().sum(..)
            });
            let grads = loss.backward().unwrap();
            all.push(model.parameters().iter().map(|p| grads.of(&p.cell()).unwrap().to_vec::<f32>().unwrap()).collect::<Vec<_>>());
        }
        (all, region.fp8_state_dict().into_iter().map(|(n, t)| (n, t.to_vec::<f32>().unwrap())).collect::<Vec<_>>())
    };
    assert_eq!(run(true), run(false));
}
#[test]
fn what_makes_no_sense_is_told() {
    let told = |recipe: DelayedScaling| Autocast::fp8(recipe).unwrap_err().to_string();
    assert!(told(DelayedScaling { amax_history_len: 0, ..Default::default() }).contains("amax_history_len is 0, it must be at least 1"));
    assert!(told(DelayedScaling { margin: 65, ..Default::default() }).contains("margin is 65, it must be from -64 to 64"));
    let region = Autocast::fp8(DelayedScaling::default()).unwrap();
    let told = |name: &str, t: Tensor| region.load_fp8_state_dict(&[(name.to_string(), t)]).unwrap_err().to_string();
    assert!(told("0.8x4", Tensor::zeros([1024])).contains("is no history"));
    assert!(told("0.8x4.input", Tensor::zeros([3])).contains("the recipe remembers f32[1024]"));
    assert!(told("0.8x4.input", Tensor::zeros([1024])).contains("lacks a history"));
    let x = Tensor::ones([2, 3]);
    assert!(region.run(|| functional::linear(&x, &Tensor::ones([4, 2]), None)).error().is_some());
    assert!(region.run(|| x.matmul(&x)).error().is_some());
}
