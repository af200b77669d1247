//! Modules of one's own whose ranks share them: in f64 a mesh of pieces ends where one process ends; and graphs that change from step to step.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::{
    DType, Device, Result, Tensor,
    communicator::{self, Communicator, LoneRank},
    op::rank_parts,
};
use adamant_data::{BadRecord, DataLoader, Dataset};
use adamant_distributed::local::local_threads_with;
use adamant_formats::safetensors;
use adamant_nn::{Linear, Module, Sequential, Tanh, Walk, manual_seed};
use adamant_optim::{AdamW, ClippingOptions, ClippingType, UpdateRule};
use adamant_parallel::{
    Mesh, MeshAxis, MeshShape,
    tensor::{ParallelStyle, parallelize},
};
use adamant_train::{Failure, Trainer, WholeModel};
use std::{path::Path, sync::Arc, thread, time::Duration};

type Pairs = (Tensor, Tensor);
/// Rows of six numbers and two answers, as f64.
struct Measured(usize);
impl Dataset for Measured {
    type Record = usize;
    type Batch = Pairs;
    fn len(&self) -> usize {
        self.0
    }
    fn read(&self, index: usize) -> std::result::Result<usize, BadRecord> {
        Ok(index)
    }
    fn collate(&self, rows: Vec<usize>) -> Result<Pairs> {
        let table = |width: usize, by: f64| {
            let values: Vec<f64> = rows.iter().flat_map(|r| (0..width).map(move |c| ((*r * 7 + c * 3) as f64 * by).sin())).collect();
            Tensor::from_vec(values, [rows.len(), width])
        };
        Ok((table(6, 0.37), table(2, 0.11)))
    }
}
fn squares(outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
    (outputs - y).square().mean(..).ok()
}
fn model() -> Result<Sequential> {
    manual_seed(4);
    let model = Sequential::new().add_named("fc", Linear::new(6, 8)?).add(Tanh::new()).add_named("proj", Linear::new(8, 4)?).add(Tanh::new());
    let model = model.add_named("head", Linear::new(4, 2)?);
    model.cast(DType::F64)?;
    Ok(model)
}
/// Trains on one of the ranks of a mesh, or alone.
fn fit(on: &Arc<dyn Communicator>, [data, tensor]: [usize; 2], shards: usize, folder: &Path) -> std::result::Result<(), Failure> {
    let (model, shape) = (model()?, MeshShape { data, tensor, ..MeshShape::default() });
    let mesh = Mesh::new(&communicator::group(on), shape)?;
    let whole = WholeModel::of(&model);
    let styles = [("fc", ParallelStyle::Column), ("proj", ParallelStyle::Row), ("head", ParallelStyle::ColumnGathered)];
    let sharding = parallelize(&model, &mesh, &styles[..if tensor > 2 { 2 } else { 3 }])?;
    let optimizer = AdamW::new(0.01).eps(1e-3).over(model.parameters());
    let of = mesh.group(MeshAxis::Data);
    let held = rank_parts(shards, of.rank as usize, of.size as usize);
    let loader = DataLoader::new(Arc::new(Measured(44))).batch_size(12).shuffle(3).parts(held, shards).build()?;
    let valid = DataLoader::new(Arc::new(Measured(10))).batch_size(4).build()?;
    let clip = ClippingOptions { clipping_type: ClippingType::GlobalNorm, max_norm: 0.1, ..ClippingOptions::default() };
    let loss = |model: &Sequential, (x, y): &Pairs| squares(&model.forward(x)?, y);
    let trainer = Trainer::new(model, optimizer, loss).epochs(3).accumulate(2).clip(clip).ema(0.5).log_every(1).valid(valid).folder(folder).resume(true);
    trainer.mesh(&mesh, sharding, whole, shards).fit(loader, &mut ()).map(drop)
}
fn each<R: Send>(ranks: usize, f: impl Fn(&Arc<dyn Communicator>) -> R + Sync) -> Vec<R> {
    let device = Device::cpu().unwrap();
    thread::scope(|scope| {
        let f = &f;
        let groups = local_threads_with(ranks, Duration::from_secs(20)).unwrap();
        let ranks: Vec<_> = groups.into_iter().map(|on| scope.spawn(move || device.scoped(|| f(&on)))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}
fn weights(folder: &Path) -> Vec<(String, Vec<f64>)> {
    safetensors::load(&folder.join("weights.safetensors")).unwrap().into_iter().map(|(name, t)| (name, t.to_vec::<f64>().unwrap())).collect()
}
#[test]
fn pieces_in_f64_that_end_elsewhere_than_one_process() {
    let place = tempfile::tempdir().unwrap();
    for shards in [1, 2, 4] {
        let alone = place.path().join(format!("alone-{shards}"));
        each(1, |on| fit(on, [1, 1], shards, &alone).unwrap());
        let want = weights(&alone);
        for axes in [[1, 2], [1, 4], [2, 2], [4, 2], [2, 1]] {
            if axes[0] > shards {
                continue;
            }
            let folder = place.path().join(format!("{shards}-{axes:?}"));
            each(axes[0] * axes[1], |on| fit(on, axes, shards, &folder).unwrap());
            for ((name, want), (other, got)) in want.iter().zip(weights(&folder)) {
                assert_eq!(*name, other);
                let off = want.iter().zip(&got).map(|(a, b)| (a - b).abs()).fold(0f64, f64::max);
                assert!(want.len() == got.len() && off <= 1e-12, "{shards} shards on {axes:?}: {name} is off by {off:e}");
            }
        }
    }
}
/// Of two heads the second has a part in some steps alone.
#[derive(Module)]
struct TwoHeads {
    body: Linear,
    always: Linear,
    sometimes: Linear,
}
impl TwoHeads {
    fn loss(&self, (x, y): &Pairs) -> Result<Tensor> {
        let h = self.body.forward(x)?.tanh();
        let mut outputs = self.always.forward(&h)?;
        // The first batches do not reach it.
        if x.narrow(0, 0, 1).sum(..).item::<f64>()? > 0.1 {
            outputs = outputs + self.sometimes.forward(&h)?;
        }
        squares(&outputs, y)
    }
}
fn two_heads(on: &Arc<dyn Communicator>, is_static: bool, folder: &Path) -> std::result::Result<(), Failure> {
    manual_seed(6);
    let model = TwoHeads { body: Linear::new(6, 5)?, always: Linear::new(5, 2)?, sometimes: Linear::new(5, 2)? };
    model.cast(DType::F64)?;
    let optimizer = AdamW::new(0.05).over(model.parameters());
    let loader = DataLoader::new(Arc::new(Measured(24))).batch_size(4).parts(rank_parts(2, on.rank(), on.size()), 2).build()?;
    let trainer = Trainer::new(model, optimizer, |model: &TwoHeads, batch: &Pairs| model.loss(batch)).epochs(2).capture(false).folder(folder);
    trainer.ranks(on, 2).static_graph(is_static).fit(loader, &mut ()).map(drop)
}
#[test]
fn a_graph_that_changes_where_it_was_said_to_stay() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let lone = Arc::new(LoneRank::default()) as Arc<dyn Communicator>;
    Device::cpu().unwrap().scoped(|| two_heads(&lone, false, &at("alone"))).unwrap();
    each(2, |on| two_heads(on, false, &at("two")).unwrap());
    assert_eq!(weights(&at("alone")), weights(&at("two")));
    for done in each(2, |on| two_heads(on, true, &at("static"))) {
        let error = done.unwrap_err().to_string();
        assert!(error.contains("has a gradient now, and had none on any rank when the run began"), "{error}");
    }
}
