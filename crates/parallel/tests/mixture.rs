//! Mixtures of experts: against host arithmetic, and on any number of ranks as in one process.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by a panic")]
#[path = "ranks/ranks.rs"]
mod ranks;

use adamant_core::{DType, Result, Tensor};
use adamant_nn::{Linear, Module, Relu, Sequential, Walk, manual_seed};
use adamant_parallel::{
    Mesh, MeshShape, MixtureOfExperts, MixtureOptions, expert_parameters, sum_gradients,
    tensor::{ParallelStyle, parallelize},
    with_balance_loss,
};
use ranks::{Numbers, all, device, difference, each, numbers, read, tolerance};
use std::collections::HashMap;

const FEATURES: usize = 6;
fn mixture(count: usize, mesh: &Mesh, options: MixtureOptions, dtype: DType) -> Result<Sequential> {
    manual_seed(4);
    let expert = |_| {
        Ok(Box::new(Sequential::new().add_named("fc", Linear::new(FEATURES, 8)?).add(Relu::new()).add_named("proj", Linear::new(8, FEATURES)?))
            as Box<dyn Module>)
    };
    let first = Linear::new(FEATURES, FEATURES)?;
    let moe = MixtureOfExperts::new(FEATURES, count, mesh, options, expert)?;
    moe.gate.weight.set(&(moe.gate.weight.detached() * 4.0))?;
    let model = Sequential::new().add_named("in", first).add_named("moe", moe).add_named("out", Linear::new(FEATURES, 3)?);
    model.cast(dtype)?;
    Ok(model)
}
fn options() -> Vec<MixtureOptions> {
    let mut all = Vec::new();
    for top_k in [1, 2, 3] {
        for capacity_factor in [None, Some(0.5), Some(1.0), Some(8.0)] {
            for normalize in [true, false] {
                all.push(MixtureOptions { top_k, capacity_factor, normalize });
            }
        }
    }
    all
}
/// The layer by its definition, on the host: outputs, the loss of balance, and how many choices were dropped.
fn by_hand(model: &Sequential, x: &[f64], count: usize, options: MixtureOptions) -> (Vec<f64>, f64, usize) {
    let state: HashMap<String, Vec<f64>> = model.state_dict().into_iter().map(|(n, t)| (n, read(&t).unwrap())).collect();
    let linear = |x: &[f64], weight: &[f64], bias: Option<&Vec<f64>>| -> Vec<f64> {
        weight.chunks(x.len()).enumerate().map(|(k, row)| row.iter().zip(x).map(|(a, b)| a * b).sum::<f64>() + bias.map_or(0.0, |b| b[k])).collect()
    };
    let tokens: Vec<Vec<f64>> = x.chunks(FEATURES).map(|x| linear(x, &state["in.weight"], state.get("in.bias"))).collect();
    let n = tokens.len();
    let softmax = |z: Vec<f64>| {
        let most = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let e: Vec<f64> = z.iter().map(|z| (z - most).exp()).collect();
        let sum: f64 = e.iter().sum();
        e.into_iter().map(|e| e / sum).collect::<Vec<f64>>()
    };
    let probabilities: Vec<Vec<f64>> = tokens.iter().map(|t| softmax(linear(t, &state["moe.gate.weight"], None))).collect();
    let chosen: Vec<Vec<usize>> = probabilities
        .iter()
        .map(|p| {
            let mut order: Vec<usize> = (0..count).collect();
            order.sort_by(|a, b| p[*b].total_cmp(&p[*a]));
            order[..options.top_k].to_vec()
        })
        .collect();
    let capacity = options.capacity_factor.map_or(usize::MAX, |f| ((f * (n * options.top_k) as f64 / count as f64).ceil() as usize).max(1));
    let (mut taken, mut dropped) = (vec![0; count], 0);
    let mut made = vec![vec![0.0; FEATURES]; n];
    for choice in 0..options.top_k {
        for t in 0..n {
            let e = chosen[t][choice];
            taken[e] += 1;
            if taken[e] > capacity {
                dropped += 1;
                continue;
            }
            let all: f64 = if options.normalize { chosen[t].iter().map(|e| probabilities[t][*e]).sum() } else { 1.0 };
            let name = |part: &str| format!("moe.experts.{e}.{part}");
            let h: Vec<f64> = linear(&tokens[t], &state[&name("fc.weight")], state.get(&name("fc.bias"))).into_iter().map(|v| v.max(0.0)).collect();
            let y = linear(&h, &state[&name("proj.weight")], state.get(&name("proj.bias")));
            made[t].iter_mut().zip(y).for_each(|(m, y)| *m += probabilities[t][e] / all * y);
        }
    }
    let balance = (0..count).map(|e| taken[e] as f64 / (n * options.top_k) as f64 * probabilities.iter().map(|p| p[e]).sum::<f64>() / n as f64).sum::<f64>()
        * count as f64;
    (made.into_iter().flat_map(|m| linear(&m, &state["out.weight"], state.get("out.bias"))).collect(), balance, dropped)
}
#[test]
fn one_rank_computes_what_the_definition_says() {
    device().make_current();
    let mut dropped_in_all = 0;
    for count in [3, 4, 8] {
        for options in options() {
            let x = numbers(count as u64, &[2, 7, FEATURES], DType::F64) * 3.0;
            let model = mixture(count, &Mesh::alone(), options, DType::F64).unwrap();
            let (y, balance) = with_balance_loss(|| model.forward(&x)).unwrap();
            let (want, want_balance, dropped) = by_hand(&model, &read(&x).unwrap(), count, options);
            let off = read(&y).unwrap().iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            let balance = read(&balance.unwrap()).unwrap()[0];
            assert!(off < 1e-12 && (balance - want_balance).abs() < 1e-12, "{count} experts, {options:?}: {off:e}, balance {balance} and not {want_balance}");
            dropped_in_all += dropped;
            assert!(options.capacity_factor.is_some() || dropped == 0);
        }
    }
    assert!(dropped_in_all > 100, "{dropped_in_all}");
}
/// Loss and gradients with the loss of balance, on this rank's rows.
fn learned(model: &Sequential, mesh: &Mesh, x: &Tensor, weight: &Tensor) -> Result<(f64, Vec<(String, Vec<f64>)>)> {
    let (rank, size) = (mesh.replicas().rank as usize, mesh.replicas().size as usize);
    let rows = x.shape()?[0] / size;
    let (x, weight) = (x.narrow(0, rank * rows, rows), weight.narrow(0, rank * rows, rows));
    let (y, balance) = with_balance_loss(|| model.forward(&x))?;
    let loss = ((y * weight).mean(..) + balance.unwrap() * 0.1) / size as f64;
    let mut grads = loss.backward_keep()?;
    sum_gradients(model, &mut grads, mesh)?;
    let of = |(path, param): (String, adamant_nn::Param)| Ok((path, read(grads.of(&param.cell()).unwrap_or(&param.detached().zeros_like()))?));
    Ok((read(&loss)?[0], model.named_parameters().into_iter().map(of).collect::<Result<_>>()?))
}
#[test]
fn experts_on_several_ranks_learn_as_in_one_process() {
    device().make_current();
    let meshes = [
        MeshShape { expert: 2, ..Default::default() },
        MeshShape { expert: 4, ..Default::default() },
        MeshShape { data: 2, ..Default::default() },
        MeshShape { data: 2, expert: 2, ..Default::default() },
    ];
    for shape in meshes {
        for (k, options) in options().into_iter().enumerate() {
            let dtype = if k % 2 == 0 { DType::F32 } else { DType::F64 };
            let (x, weight) = (numbers(9, &[8, 3, FEATURES], dtype) * 3.0, numbers(10, &[8, 3, 3], dtype));
            let alone = Mesh::alone();
            let (loss, want) = learned(&mixture(8, &alone, options, dtype).unwrap(), &alone, &x, &weight).unwrap();
            let ran = all(shape.ranks(), |group| {
                let mesh = Mesh::new(group, shape)?;
                let model = mixture(8, &mesh, options, dtype)?;
                assert_eq!(expert_parameters(&model).len(), 4 * 8 / shape.expert);
                learned(&model, &mesh, &x, &weight)
            });
            let case = format!("{shape}, {options:?}, {dtype}");
            let sum: f64 = ran.iter().map(|r| r.0).sum();
            assert!((sum - loss).abs() <= tolerance(dtype), "{case}: loss {sum} and not {loss}");
            let want: HashMap<&str, &Vec<f64>> = want.iter().map(|(n, v)| (n.as_str(), v)).collect();
            let mut seen = std::collections::HashSet::new();
            for (_, gradients) in &ran {
                let expected: Numbers = gradients.iter().map(|(n, _)| (n.clone(), want[n.as_str()].clone())).collect();
                let by = difference(gradients, &expected);
                assert!(by <= tolerance(dtype), "{case}: gradients off by {by:e}");
                seen.extend(gradients.iter().map(|(n, _)| n.clone()));
            }
            assert_eq!(seen.len(), want.len(), "{case}");
        }
    }
}
#[test]
fn experts_in_pieces_learn_as_in_one_process() {
    device().make_current();
    let styles = [("moe.experts.*.fc", ParallelStyle::Column), ("moe.experts.*.proj", ParallelStyle::Row)];
    for shape in
        [MeshShape { tensor: 2, ..Default::default() }, MeshShape { tensor: 4, ..Default::default() }, MeshShape { tensor: 2, expert: 2, ..Default::default() }]
    {
        for dtype in [DType::F32, DType::F64] {
            for options in options().into_iter().step_by(3) {
                let (x, weight) = (numbers(11, &[4, 3, FEATURES], dtype) * 3.0, numbers(12, &[4, 3, 3], dtype));
                let alone = Mesh::alone();
                let (_, want) = learned(&mixture(4, &alone, options, dtype).unwrap(), &alone, &x, &weight).unwrap();
                let want: HashMap<String, Vec<f64>> = want.into_iter().collect();
                for gradients in all(shape.ranks(), |group| {
                    let mesh = Mesh::new(group, shape)?;
                    let model = mixture(4, &mesh, options, dtype)?;
                    let sharding = parallelize(&model, &mesh, &styles)?;
                    let (_, pieces) = learned(&model, &mesh, &x, &weight)?;
                    let whole = |((path, piece), param): ((String, Vec<f64>), adamant_nn::Param)| {
                        let piece = Tensor::from_vec(piece, param.meta().shape);
                        Ok((path, read(&sharding.gather(&param, &piece)?)?))
                    };
                    pieces.into_iter().zip(model.parameters()).map(whole).collect::<Result<Numbers>>()
                }) {
                    let expected: Numbers = gradients.iter().map(|(n, _)| (n.clone(), want[n].clone())).collect();
                    let by = difference(&gradients, &expected);
                    assert!(by <= tolerance(dtype), "{shape}, {options:?}, {dtype}: gradients off by {by:e}");
                }
            }
        }
    }
}
#[test]
fn what_no_mixture_can_be_is_named() {
    let expert = |_| Ok(Box::new(Linear::new(4, 4)?) as Box<dyn Module>);
    for told in each(2, |group| {
        let mesh = Mesh::new(group, MeshShape { expert: 2, ..Default::default() })?;
        let told =
            |count: usize, options: MixtureOptions| MixtureOfExperts::new(4, count, &mesh, options, expert).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(told(3, MixtureOptions::default()).contains("3 experts, of which 2 ranks cannot each have as many"));
        assert!(told(2, MixtureOptions { top_k: 3, ..Default::default() }).contains("3 of 2 experts"));
        assert!(told(2, MixtureOptions { top_k: 0, ..Default::default() }).contains("0 of 2 experts"));
        assert!(told(2, MixtureOptions { capacity_factor: Some(-1.0), ..Default::default() }).contains("capacity factor is -1"));
        let moe = MixtureOfExperts::new(4, 2, &mesh, MixtureOptions::default(), expert)?;
        assert!(moe.forward(&Tensor::zeros([3, 5])).unwrap_err().to_string().contains("[.., 4]"));
        assert!(moe.forward(&Tensor::zeros([0, 4])).unwrap_err().to_string().contains("one token at least"));
        Ok(())
    }) {
        told.unwrap();
    }
    let wider = MixtureOfExperts::new(4, 2, &Mesh::alone(), MixtureOptions::default(), |_| Ok(Box::new(Linear::new(4, 5)?) as Box<dyn Module>));
    device().make_current();
    assert!(wider.unwrap().forward(&Tensor::zeros([3, 4])).unwrap_err().to_string().contains("[rows, 4]"));
}
