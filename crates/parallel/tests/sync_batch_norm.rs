//! Batch norms over ranks: outputs, gradients and running statistics are those of one process that has all rows.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by a panic")]
#[path = "ranks/ranks.rs"]
mod ranks;

use adamant_core::{DType, Result, Tensor, op::Group};
use adamant_nn::{BatchNorm1d, BatchNorm2d, BatchNormOptions, Conv2d, Linear, Module, Relu, Sequential, Walk, manual_seed, with_cumulative_statistics};
use adamant_parallel::{SyncBatchNorm, convert_sync_batchnorm};
use ranks::{Numbers, all, device, difference, each, numbers, read};

/// Which rows each rank has.
fn cuts(rows: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut start = 0;
    rows.iter()
        .map(|n| {
            start += n;
            start - n..start
        })
        .collect()
}
fn perceptron(momentum: Option<f64>, dtype: DType) -> Result<Sequential> {
    manual_seed(2);
    let options = BatchNormOptions { momentum, ..Default::default() };
    let model = Sequential::new()
        .add_named("fc", Linear::new(5, 7)?)
        .add_named("norm", BatchNorm1d::with(7, options)?)
        .add(Relu::new())
        .add_named("proj", Linear::new(7, 4)?)
        .add_named("bare", BatchNorm1d::with(4, BatchNormOptions { affine: false, track_running_stats: false, ..Default::default() })?);
    for (k, (_, param)) in model.named_parameters().into_iter().enumerate() {
        param.set(&(param.detached() + numbers(k as u64, &param.meta().shape, DType::F32) * 0.2))?;
    }
    model.cast(dtype)?;
    Ok(model)
}
fn images(dtype: DType) -> Result<Sequential> {
    manual_seed(3);
    let model = Sequential::new().add_named("conv", Conv2d::new(2, 3, 3)?).add_named("norm", BatchNorm2d::new(3)?).add(Relu::new());
    model.cast(dtype)?;
    Ok(model)
}
/// Loss, gradients of parameters and input, running statistics of two steps.
fn two_steps(model: &Sequential, x: &Tensor, weight: &Tensor, elements: usize) -> Result<(f64, Numbers, Numbers)> {
    let mut of_last = Vec::new();
    let mut loss_of_last = 0.0;
    for step in 0..2 {
        let x = (x * (1.0 + step as f64)).tracked();
        let loss = (model.forward(&x)? * weight).sum(..) / elements as f64;
        let grads = loss.backward_keep()?;
        of_last = model.named_parameters().into_iter().map(|(path, p)| Ok((path, read(grads.of(&p.cell()).unwrap())?))).collect::<Result<Vec<_>>>()?;
        of_last.push(("x".into(), read(grads.get(&x).unwrap())?));
        loss_of_last = read(&loss)?[0];
    }
    let buffers = model.named_buffers().into_iter().map(|(path, p)| Ok((path, read(&p.detached())?))).collect::<Result<_>>()?;
    Ok((loss_of_last, of_last, buffers))
}
fn check(name: &str, rows: &[usize], shape: &[usize], dtype: DType, model: impl Fn() -> Result<Sequential> + Sync) {
    let total: usize = rows.iter().sum();
    let full: Vec<usize> = std::iter::once(total).chain(shape.iter().copied()).collect();
    let x = numbers(total as u64, &full, dtype) * 2.0 + 0.5;
    let out = model().unwrap().forward(&x).unwrap().dims_vec();
    let (weight, elements) = (numbers(5, &out, dtype), out.iter().product());
    let (loss, gradients, buffers) = two_steps(&model().unwrap(), &x, &weight, elements).unwrap();
    let ran = all(rows.len(), |group| {
        let model = model()?;
        convert_sync_batchnorm(&model, group)?;
        let own = cuts(rows)[group.rank as usize].clone();
        two_steps(&model, &x.narrow(0, own.start, own.len()), &weight.narrow(0, own.start, own.len()), elements)
    });
    let sums: f64 = ran.iter().map(|r| r.0).sum();
    let mut summed: Numbers = ran[0].1.clone();
    for (k, (path, values)) in summed.iter_mut().enumerate() {
        for other in &ran[1..] {
            if path == "x" {
                values.extend(&other.1[k].1);
            } else {
                values.iter_mut().zip(&other.1[k].1).for_each(|(a, b)| *a += b);
            }
        }
    }
    let tolerance = if dtype == DType::F64 { 1e-12 } else { 1e-6 };
    let by = difference(&summed, &gradients);
    let off = (sums - loss).abs();
    assert!(by <= tolerance && off <= tolerance, "{name} {rows:?} {dtype}: loss off by {off:e}, gradients by {by:e}");
    for (rank, (_, _, own)) in ran.iter().enumerate() {
        let by = difference(own, &buffers);
        assert!(by <= tolerance, "{name} {rows:?} {dtype}: running statistics of rank {rank} off by {by:e}");
    }
}
trait DimsVec {
    fn dims_vec(&self) -> Vec<usize>;
}
impl DimsVec for Tensor {
    fn dims_vec(&self) -> Vec<usize> {
        self.shape().unwrap().to_vec()
    }
}
#[test]
fn ranks_normalise_as_one_process_does() {
    device().make_current();
    for rows in [&[8, 8, 8, 8][..], &[1, 5], &[3, 0, 2], &[6], &[1, 1, 1]] {
        for dtype in [DType::F32, DType::F64] {
            for momentum in [Some(0.1), Some(0.7), None] {
                check("perceptron", rows, &[5], dtype, || perceptron(momentum, dtype));
            }
            if rows.iter().all(|n| *n > 0) {
                check("images", rows, &[2, 5, 6], dtype, || images(dtype));
            }
        }
    }
}
#[test]
fn the_layer_itself_evaluates_counts_and_refuses() {
    device().make_current();
    let ran = all(2, |group| {
        let norm = SyncBatchNorm::new(3, group)?;
        let x = numbers(1, &[8, 3], DType::F32);
        let own = x.narrow(0, group.rank as usize * 4, 4);
        let y = with_cumulative_statistics(|| norm.forward(&own))?.to_vec::<f32>()?;
        let state: Vec<(String, Vec<f64>)> = norm.state_dict().into_iter().map(|(n, t)| Ok((n, read(&t)?))).collect::<Result<_>>()?;
        norm.eval();
        // A rank that evaluates asks nobody.
        let evaluated = if group.rank == 0 { norm.forward(&own)?.to_vec::<f32>()? } else { Vec::new() };
        assert!(norm.forward(&Tensor::zeros([2, 4])).unwrap_err().to_string().contains("3 channels along axis 1"));
        assert!(norm.forward(&Tensor::zeros([2])).unwrap_err().to_string().contains("[batch, channels, ..]"));
        Ok((y, state, evaluated))
    });
    let (plain, x) = (BatchNorm1d::new(3).unwrap(), numbers(1, &[8, 3], DType::F32));
    let want = with_cumulative_statistics(|| plain.forward(&x)).unwrap().to_vec::<f32>().unwrap();
    let state: Numbers = plain.state_dict().into_iter().map(|(n, t)| (n, read(&t).unwrap())).collect();
    plain.eval();
    let evaluated = plain.forward(&x.narrow(0, 0, 4)).unwrap().to_vec::<f32>().unwrap();
    let got: Vec<f32> = ran.iter().flat_map(|r| r.0.clone()).collect();
    assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 2e-6));
    assert!(ran.iter().all(|r| difference(&r.1, &state) < 1e-6));
    assert!(ran[0].2.iter().zip(&evaluated).all(|(a, b)| (a - b).abs() < 1e-6));
    for told in each(1, |group: &Group| Ok(SyncBatchNorm::new(2, group)?.forward(&Tensor::zeros([1, 2])).unwrap_err().to_string())) {
        assert!(told.unwrap().contains("more than one element per channel"));
    }
    for told in each(1, |group: &Group| Ok(convert_sync_batchnorm(&BatchNorm1d::lazy(BatchNormOptions::default())?, group).unwrap_err().to_string())) {
        assert!(told.unwrap().contains("does not know its channels yet"));
    }
}
