//! Losses of distillation against the formulas in plain f64, and what a teacher may not be changed by.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::{DType, Result, Tensor};
use adamant_nn::{BatchNorm1d, Dropout, Linear, Module, Param, Sequential, Walk, init, manual_seed};
use adamant_optim::{Adam, Optimizer, UpdateRule};
use adamant_quant::distill::{Distiller, FeatureLoss, attention_loss, attention_map};

fn drawn(shape: impl adamant_core::ToShape, std: f64) -> Param {
    Param::new(&init::normal(shape, 0.0, std).unwrap().cast(DType::F64)).unwrap()
}
fn near(name: &str, got: f64, want: f64) {
    println!("{name}: {got} and {want}, {:e} apart", (got - want).abs());
    assert!((got - want).abs() <= 1e-10 * want.abs().max(1.0), "{name}: {got}, not {want}");
}
fn numbers(t: &Tensor) -> Vec<f64> {
    t.to_vec::<f64>().unwrap()
}
fn softmax(logits: &[f64], temperature: f64) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::MIN, f64::max);
    let raised: Vec<f64> = logits.iter().map(|x| ((x - largest) / temperature).exp()).collect();
    let sum: f64 = raised.iter().sum();
    raised.iter().map(|x| x / sum).collect()
}
/// Rows of classes, one behind the other.
fn by_hand(student: &[Vec<f64>], teacher: &[Vec<f64>], target: &[i64], temperature: f64, alpha: f64) -> f64 {
    let n = student.len() as f64;
    let mut loss = 0.0;
    for ((s, t), class) in student.iter().zip(teacher).zip(target) {
        let (p, q, own) = (softmax(t, temperature), softmax(s, temperature), softmax(s, 1.0));
        let kl: f64 = p.iter().zip(&q).map(|(p, q)| p * (p / q).ln()).sum();
        loss += alpha * temperature * temperature * kl / n - (1.0 - alpha) * own[*class as usize].ln() / n;
    }
    loss
}
fn teacher() -> Linear {
    Linear::new(2, 2).unwrap()
}

#[test]
fn the_loss_of_logits_is_the_formula() {
    manual_seed(1);
    let (student, taught) = (drawn([6, 5], 2.0), drawn([6, 5], 2.0));
    let target = [0i64, 4, 2, 2, 1, 3];
    let rows = |p: &Param| numbers(&p.detached()).chunks(5).map(<[f64]>::to_vec).collect::<Vec<_>>();
    for (temperature, alpha) in [(1.0, 0.5), (4.0, 0.9), (2.5, 0.0), (0.5, 1.0)] {
        let distiller = Distiller::new(teacher(), temperature).unwrap().alpha(alpha).unwrap();
        let loss = distiller.distillation_loss(&student.get(), &taught.get(), &Tensor::from_slice(&target, [6])).unwrap();
        near("logits", loss.item::<f64>().unwrap(), by_hand(&rows(&student), &rows(&taught), &target, temperature, alpha));
        let grads = loss.backward().unwrap();
        assert!(grads.of(&taught.cell()).is_none(), "a gradient flows to the teacher");
        // d/ds of T² KL is T (softmax(s/T) - softmax(t/T)) / n, of CE softmax(s) - onehot.
        let got = numbers(grads.of(&student.cell()).unwrap());
        for (k, (s, t)) in rows(&student).iter().zip(rows(&taught)).enumerate() {
            let (q, p, own) = (softmax(s, temperature), softmax(&t, temperature), softmax(s, 1.0));
            for c in 0..5 {
                let hit = f64::from(target[k] as usize == c);
                let want = (alpha * temperature * (q[c] - p[c]) + (1.0 - alpha) * (own[c] - hit)) / 6.0;
                assert!((got[k * 5 + c] - want).abs() < 1e-10, "{temperature} {alpha}: {} {want}", got[k * 5 + c]);
            }
        }
    }
}
#[test]
fn logits_of_places_are_means_over_them() {
    manual_seed(2);
    let (student, taught) = (drawn([2, 3, 4], 1.0), drawn([2, 3, 4], 1.0));
    let target: Vec<i64> = (0..8).map(|k| k % 3).collect();
    let rows = |p: &Param| numbers(&p.detached().movedim([1], [2])).chunks(3).map(<[f64]>::to_vec).collect::<Vec<_>>();
    let distiller = Distiller::new(teacher(), 3.0).unwrap();
    let loss = distiller.distillation_loss(&student.get(), &taught.get(), &Tensor::from_slice(&target, [2, 4])).unwrap();
    near("places", loss.item::<f64>().unwrap(), by_hand(&rows(&student), &rows(&taught), &target, 3.0, 0.5));
}
#[test]
fn features_and_attention_are_the_formulas() {
    manual_seed(3);
    let (student, taught) = (drawn([2, 3, 2, 2], 1.0), drawn([2, 5, 2, 2], 1.0));
    let (s, t) = (numbers(&student.detached()), numbers(&taught.detached()));
    let map = |x: &[f64], channels: usize| -> Vec<Vec<f64>> {
        let of = |n: usize, at: usize| (0..channels).map(|c| x[(n * channels + c) * 4 + at].powi(2)).sum::<f64>() / channels as f64;
        let raw: Vec<Vec<f64>> = (0..2).map(|n| (0..4).map(|at| of(n, at)).collect()).collect();
        raw.into_iter()
            .map(|m| {
                let norm = m.iter().map(|v| v * v).sum::<f64>().sqrt();
                m.into_iter().map(|v| v / norm).collect()
            })
            .collect()
    };
    let (a, b) = (map(&s, 3), map(&t, 5));
    let want = a.concat().iter().zip(b.concat()).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 8.0;
    let loss = attention_loss(&student.get(), &taught.get()).unwrap();
    near("attention", loss.item::<f64>().unwrap(), want);
    assert!(loss.backward().unwrap().of(&taught.cell()).is_none());
    assert_eq!(numbers(&attention_map(&student.detached()).unwrap()).len(), 8);

    let hint = FeatureLoss::projected(3, 5, 1).unwrap();
    hint.cast(DType::F64).unwrap();
    let w = numbers(&hint.parameters()[0].detached());
    let mut want = 0.0;
    for n in 0..2 {
        for o in 0..5 {
            for at in 0..4 {
                let projected: f64 = (0..3).map(|c| w[o * 3 + c] * s[(n * 3 + c) * 4 + at]).sum();
                want += (projected - t[(n * 5 + o) * 4 + at]).powi(2) / 40.0;
            }
        }
    }
    let loss = hint.forward(&student.get(), &taught.get()).unwrap();
    near("features", loss.item::<f64>().unwrap(), want);
    let grads = loss.backward().unwrap();
    assert!(grads.of(&taught.cell()).is_none() && grads.of(&hint.parameters()[0].cell()).is_some() && grads.of(&student.cell()).is_some());
    let same = FeatureLoss::new().forward(&student.get(), &(student.detached() + 2.0)).unwrap();
    near("equal widths", same.item::<f64>().unwrap(), 4.0);
}
#[test]
fn a_teacher_keeps_modes_and_statistics_and_has_no_graph() {
    manual_seed(4);
    let net =
        || Ok::<_, adamant_core::Error>(Sequential::new().add(Linear::new(4, 4)?).add(BatchNorm1d::new(4)?).add(Dropout::new(0.5)?).add(Linear::new(4, 3)?));
    let model = net().unwrap();
    // Mixed modes: one layer evaluates already.
    model.get_submodule("1").unwrap().site().unwrap().set_training(false);
    let modes = |m: &Sequential| m.named_modules().iter().map(|(_, m)| m.site().unwrap().is_training()).collect::<Vec<_>>();
    let bits = |m: &Sequential| m.state_dict().into_iter().map(|(_, t)| t.to_bytes().unwrap()).collect::<Vec<_>>();
    let (mode, before) = (modes(&model), bits(&model));
    assert!(mode.contains(&true) && mode.contains(&false));
    let distiller = Distiller::new(model, 2.0).unwrap();
    let x = init::normal([8, 4], 0.0, 1.0).unwrap();
    let (first, second) = (distiller.teacher_forward(&x).unwrap(), distiller.teacher_forward(&x).unwrap());
    assert_eq!(first.to_vec::<f32>().unwrap(), second.to_vec::<f32>().unwrap(), "dropout is on");
    assert!(!first.is_tracked() && first.sum(..).backward().is_err());
    assert_eq!((modes(distiller.teacher()), bits(distiller.teacher())), (mode.clone(), before));
    // Also after an error.
    assert!(distiller.teacher_forward(&Tensor::ones([8, 5])).is_err());
    assert_eq!(modes(distiller.teacher()), mode);
    // All of it once, and the teacher is as it was.
    let student = net().unwrap();
    let mut optimizer = Adam::new(0.05).over(student.parameters()).ok().unwrap();
    let target = Tensor::from_slice(&[0i64, 1, 2, 0, 1, 2, 0, 1], [8]);
    let before = bits(distiller.teacher());
    let mut losses = Vec::new();
    for _ in 0..60 {
        let taught = distiller.teacher_forward(&x).unwrap();
        let loss = distiller.distillation_loss(&student.forward(&x).unwrap(), &taught, &target).unwrap();
        losses.push(loss.item::<f32>().unwrap());
        optimizer.step(&loss.backward().unwrap()).unwrap();
    }
    assert!(losses[59] < losses[0], "{losses:?}");
    assert_eq!(bits(distiller.teacher()), before);
}
#[test]
fn what_makes_no_sense_is_told() {
    fn refused<T>(result: Result<T>, says: &str) {
        let text = result.err().unwrap().to_string();
        assert!(text.contains(says), "{text} lacks {says}");
    }
    refused(Distiller::new(teacher(), 0.0), "temperature is 0");
    refused(Distiller::new(teacher(), 1.0).unwrap().alpha(1.5), "alpha is 1.5");
    let distiller = Distiller::new(teacher(), 1.0).unwrap();
    refused(distiller.soft_loss(&Tensor::ones([2, 3]), &Tensor::ones([2, 4])), "student and teacher of one shape");
    refused(distiller.soft_loss(&Tensor::ones([3]), &Tensor::ones([3])), "[batch, classes, ..]");
    refused(attention_loss(&Tensor::ones([2, 3, 4, 4]), &Tensor::ones([2, 3, 2, 2])), "student and teacher of one shape");
    refused(attention_map(&Tensor::ones([2, 3])), "[batch, channels, ..]");
    refused(FeatureLoss::new().forward(&Tensor::ones([2, 3]), &Tensor::ones([2, 4])), "student and teacher of one shape");
}
