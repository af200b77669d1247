//! Gradients of fake quantization, against arithmetic in f64 on the host.
#![allow(clippy::unwrap_used)]

mod common;

use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{Cell, Result, composite::packed::Packing};
use adamant_nn::{Linear, Module, manual_seed};
use adamant_quant::{InputScheme, QatOptions, observe::Observation, prepare_qat};
use common::{close, held, normal, numbers, packing, weights};

/// One weight row by row, as the host sees it: numbers, their scale and zero point, and how many share one.
struct HostGrid {
    scale: Vec<f64>,
    zero_point: Vec<f64>,
    shared_by: usize,
    low: f64,
    high: f64,
}
impl HostGrid {
    fn of(layer: &Linear, packing: Packing, columns: usize) -> HostGrid {
        let scale = numbers(&held(layer, "parametrizations.weight.0.scale").detached());
        let zero_point = match packing.symmetric {
            true => vec![0.0; scale.len()],
            false => numbers(&held(layer, "parametrizations.weight.0.zero_point").detached()),
        };
        let (low, high) = packing.range();
        HostGrid { scale, zero_point, shared_by: packing.group.unwrap_or(columns), low: low.into(), high: high.into() }
    }
    fn at(&self, k: usize) -> (f64, f64) {
        (self.scale[k / self.shared_by], self.zero_point[k / self.shared_by])
    }
}
/// `x [batch, columns]`, `g [batch, rows]` to `gᵀ x [rows, columns]`.
fn outer(g: &[f64], x: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    let mut all = vec![0.0; rows * columns];
    for (g, x) in g.chunks(rows).zip(x.chunks(columns)) {
        all.iter_mut().enumerate().for_each(|(k, sum)| *sum += g[k / columns] * x[k % columns]);
    }
    all
}
fn in_middle(v: f64) -> bool {
    (v.fract().abs() - 0.5).abs() < 1e-3
}

#[test]
fn the_gradient_of_a_weight_is_cut_where_its_code_is() -> Result<()> {
    let mut random = Random::new(32);
    let mut cut = 0;
    for round in 0..40 {
        let (packing, rows, columns, batch) = (packing(&mut random), 1 + random.below(6), 8 * (1 + random.below(4)), 1 + random.below(5));
        manual_seed(random.bits());
        let layer = Linear::no_bias(columns, rows)?;
        prepare_qat(&layer, &weights(packing, InputScheme::Float), QatOptions { freeze_observers_after: Some(1), ..Default::default() })?;
        let (x, g) = (normal([batch, columns]), normal([batch, rows]));
        layer.forward(&x)?.to_bytes()?;
        // The scales are frozen by now, and the weight leaves the range.
        let original = held(&layer, "parametrizations.weight.original");
        original.set(&(original.detached() * 1.7))?;
        let grads = (layer.forward(&x)? * &g).sum(..).backward()?;
        let (grid, weight) = (HostGrid::of(&layer, packing, columns), numbers(&original.detached()));
        let mut got = numbers(grads.of(&original.cell()).unwrap());
        let mut want = outer(&numbers(&g), &numbers(&x), rows, columns);
        for (k, w) in weight.iter().enumerate() {
            let (scale, zero_point) = grid.at(k);
            let code = (w / scale).round() + zero_point;
            if in_middle(w / scale) {
                (got[k], want[k]) = (0.0, 0.0);
            } else if !(grid.low..=grid.high).contains(&code) {
                (want[k], cut) = (0.0, cut + 1);
            }
        }
        close(&got, &want, &format!("{round}: {packing:?}"));
    }
    assert!(cut > 300, "{cut}");
    Ok(())
}
#[test]
fn the_gradient_of_an_input_is_cut_where_its_code_is() -> Result<()> {
    let mut random = Random::new(33);
    let mut cut = 0;
    for round in 0..40 {
        let (packing, rows, columns, batch) = (packing(&mut random), 1 + random.below(6), 8 * (1 + random.below(4)), 1 + random.below(5));
        let input = [
            InputScheme::Calibrated(Observation::MinMax),
            InputScheme::Calibrated(Observation::MovingAverage { rate: 0.3 }),
            InputScheme::PerToken { symmetric: true },
            InputScheme::PerToken { symmetric: false },
        ][random.below(4)];
        manual_seed(random.bits());
        let layer = Linear::no_bias(columns, rows)?;
        prepare_qat(&layer, &weights(packing, input), QatOptions { freeze_observers_after: Some(1), ..Default::default() })?;
        let (x, g) = (normal([batch, columns]), normal([batch, rows]));
        layer.forward(&x)?.to_bytes()?;
        let x = Cell::new(&(x * 1.6), true)?;
        let grads = (layer.forward(&x.get())? * &g).sum(..).backward()?;
        let weight = numbers(&layer.weight.detached());
        let mut got = numbers(grads.of(&x).unwrap());
        let mut want: Vec<f64> = numbers(&g)
            .chunks(rows)
            .flat_map(|g| (0..columns).map(|c| (0..rows).map(|r| g[r] * weight[r * columns + c]).sum::<f64>()).collect::<Vec<_>>())
            .collect();
        if let InputScheme::Calibrated(_) = input {
            let ends = ["low", "high"].map(|end| numbers(&held(&layer, &format!("parametrizations.weight.0.input_{end}")).detached())[0]);
            let scale = (ends[1].max(0.0) - ends[0].min(0.0)) / 255.0;
            let zero_point = (-ends[0].min(0.0) / scale).round();
            for (k, v) in numbers(&x.detached()).iter().enumerate() {
                if in_middle(v / scale) {
                    (got[k], want[k]) = (0.0, 0.0);
                } else if !(0.0..=255.0).contains(&((v / scale).round() + zero_point)) {
                    (want[k], cut) = (0.0, cut + 1);
                }
            }
        }
        close(&got, &want, &format!("{round}: {input:?}"));
    }
    assert!(cut > 40, "{cut}");
    Ok(())
}

/// Of numbers with one step: the derivative of `Σ g q(v, s)` by the step, by central differences of what a straight-through estimator
/// takes q for (what rounding adds is a summand that stays, and beyond the ends q is the end's code), and that by each number.
fn learned(v: &[f64], g: &[f64], (step, zero_point): (f64, f64), (low, high): (f64, f64)) -> (f64, Vec<f64>) {
    let at = |v: f64, s: f64| -> f64 {
        let code = v / step + zero_point;
        let kept = (v / step).round() - v / step;
        if code <= low {
            s * (low - zero_point)
        } else if code >= high {
            s * (high - zero_point)
        } else {
            s * (v / s + kept)
        }
    };
    let h = 1e-6 * step;
    let by_step = v.iter().zip(g).map(|(v, g)| g * (at(*v, step + h) - at(*v, step - h)) / (2.0 * h)).sum();
    let inside = |v: f64| f64::from(u8::from(v / step + zero_point > low && v / step + zero_point < high));
    (by_step, v.iter().zip(g).map(|(v, g)| g * inside(*v)).collect())
}
#[test]
fn learned_steps_have_the_gradient_of_their_paper() -> Result<()> {
    let mut random = Random::new(34);
    for round in 0..40 {
        let (packing, rows, columns, batch) = (packing(&mut random), 1 + random.below(6), 8 * (1 + random.below(4)), 2 + random.below(5));
        manual_seed(random.bits());
        let layer = Linear::no_bias(columns, rows)?;
        let input = if random.one_in(2) { InputScheme::Calibrated(Observation::MinMax) } else { InputScheme::Float };
        let options = QatOptions { learned_steps: true, ..Default::default() };
        let qat = prepare_qat(&layer, &weights(packing, input), options)?;
        let takes_codes = input != InputScheme::Float;
        assert_eq!(qat.steps().len(), 1 + usize::from(takes_codes));
        let (x, g) = (normal([batch, columns]), normal([batch, rows]));
        layer.forward(&x)?.to_bytes()?;
        let original = held(&layer, "parametrizations.weight.original");
        original.set(&(original.detached() * 1.5))?;
        let x = Cell::new(&(x * 1.3), true)?;
        let grads = (layer.forward(&x.get())? * &g).sum(..).backward()?;
        let name = format!("{round}: {packing:?} {input:?}");
        // The weight and its steps. The input that it meets is what its codes stand for.
        let mut met = numbers(&x.detached());
        let (mut input_step, mut input_zero) = (1.0, 0.0);
        if takes_codes {
            input_step = numbers(&held(&layer, "parametrizations.weight.0.input_step").detached())[0];
            let ends = ["low", "high"].map(|end| numbers(&held(&layer, &format!("parametrizations.weight.0.input_{end}")).detached())[0]);
            input_zero = (-ends[0].min(0.0) / ((ends[1].max(0.0) - ends[0].min(0.0)) / 255.0)).round();
            met.iter_mut().for_each(|v| *v = (((*v / input_step).round() + input_zero).clamp(0.0, 255.0) - input_zero) * input_step);
        }
        let (grid, weight) = (HostGrid::of(&layer, packing, columns), numbers(&original.detached()));
        let of_weight = outer(&numbers(&g), &met, rows, columns);
        let (mut steps, mut by_weight) = (Vec::new(), Vec::new());
        for (k, (v, g)) in weight.chunks(grid.shared_by).zip(of_weight.chunks(grid.shared_by)).enumerate() {
            let (step, each) = learned(v, g, (grid.scale[k], grid.zero_point[k]), (grid.low, grid.high));
            steps.push(step / (grid.shared_by as f64 * grid.high).sqrt());
            by_weight.extend(each);
        }
        close(&numbers(grads.of(&original.cell()).unwrap()), &by_weight, &name);
        close(&numbers(grads.of(&held(&layer, "parametrizations.weight.0.scale").cell()).unwrap()), &steps, &format!("{name}: steps"));
        if takes_codes {
            let fake = numbers(&layer.weight.detached());
            let of_x: Vec<f64> = numbers(&g)
                .chunks(rows)
                .flat_map(|g| (0..columns).map(|c| (0..rows).map(|r| g[r] * fake[r * columns + c]).sum::<f64>()).collect::<Vec<_>>())
                .collect();
            let (step, by_x) = learned(&numbers(&x.detached()), &of_x, (input_step, input_zero), (0.0, 255.0));
            close(&numbers(grads.of(&x).unwrap()), &by_x, &format!("{name}: input"));
            let got = numbers(grads.of(&held(&layer, "parametrizations.weight.0.input_step").cell()).unwrap());
            close(&got, &[step / (columns as f64 * 255.0).sqrt()], &format!("{name}: the input's step"));
        }
    }
    Ok(())
}
