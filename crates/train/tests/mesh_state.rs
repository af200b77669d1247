//! What a checkpoint has of a model that ranks share does not depend on how they share it: taken over by any mesh and put together again it has the
//! same names and the same bits.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::{
    DType, Device, Result, Tensor,
    communicator::{self, Communicator},
    functional::{CrossEntropyOptions, cross_entropy},
};
use adamant_distributed::local::local_threads_with;
use adamant_nn::{Embedding, Linear, Module, Sequential, Tanh, Walk, manual_seed};
use adamant_optim::{AdamW, ClippingOptions, ClippingType, Sgd, UpdateRule};
use adamant_parallel::{
    Mesh, MeshAxis, MeshShape,
    pipeline::{Pipeline, PipelineSchedule},
    tensor::{ParallelStyle, parallelize},
};
use adamant_train::{Course, Habits, Look, MeshedModel, PassOf, Precision, RunModel, Session, StepSharing, WholeModel, ZeroStage, checkpoint::Snapshot};
use std::{sync::Arc, thread, time::Duration};

/// Data, pipeline, tensor.
type Axes = [usize; 3];
type Pairs = (Tensor, Tensor);
const MESHES: [Axes; 8] = [[1, 1, 1], [1, 1, 4], [1, 2, 2], [2, 2, 1], [2, 1, 2], [1, 4, 1], [4, 1, 1], [1, 1, 2]];

/// Is the head the table's, and which optimizer is it?
#[derive(Clone, Copy)]
struct StateCase {
    tied: bool,
    adam: bool,
    average: bool,
    wide: bool,
}
fn layers(case: StateCase) -> Result<Sequential> {
    manual_seed(5);
    let table = Embedding::new(12, 8)?;
    let head = if case.tied { Linear::tied(&table.weight)? } else { Linear::new(8, 12)? };
    let model = Sequential::new().add_named("table", table).add_named("fc", Linear::new(8, 16)?).add(Tanh::new());
    let model = model.add_named("proj", Linear::new(16, 8)?).add_named("head", head);
    if case.wide {
        model.cast(DType::F64)?;
    }
    Ok(model)
}
fn loss(outputs: &Tensor, y: &Tensor) -> Result<Tensor> {
    cross_entropy(outputs, y, &CrossEntropyOptions::default()).ok()
}
fn session(on: &Arc<dyn Communicator>, [data, pipeline, tensor]: Axes, case: StateCase) -> Session<RunModel, Pairs> {
    let (model, shape) = (layers(case).unwrap(), MeshShape { data, pipeline, tensor, expert: 1 });
    let mesh = Mesh::new(&communicator::group(on), shape).unwrap();
    let whole = WholeModel::of(&model);
    let mut styles = vec![("fc", ParallelStyle::Column), ("proj", ParallelStyle::Row), ("table", ParallelStyle::Vocabulary)];
    styles.extend(case.tied.then_some(("head", ParallelStyle::ColumnGathered)));
    let sharding = parallelize(&model, &mesh, &styles).unwrap();
    let model = match pipeline {
        1 => RunModel::Whole(model),
        _ => RunModel::Stage(Box::new(Pipeline::with_costs(model.into_layers(), &mesh, PipelineSchedule::Gpipe, &[1.0, 2.0, 0.5, 2.0, 1.5]).unwrap())),
    };
    let parameters = model.trainable_parameters();
    let optimizer: Box<dyn adamant_optim::Optimizer> =
        if case.adam { Box::new(AdamW::new(0.01).eps(0.01).over(parameters)) } else { Box::new(Sgd::new(0.1).momentum(0.9).over(parameters)) };
    let clip = ClippingOptions { clipping_type: ClippingType::GlobalNorm, max_norm: 0.2, ..ClippingOptions::default() };
    let habits = Habits {
        optimizer,
        course: Course::Constant,
        clip: Some(clip),
        stability: None,
        accumulate: 1,
        ema: case.average.then_some(0.5),
        capture: true,
        precision: Precision::default(),
    };
    let whole_loss = |model: &RunModel, (x, y): &Pairs| loss(&model.forward(x)?, y);
    let mut session = Session::new(model, Arc::new(whole_loss), habits, Device::current().unwrap()).unwrap();
    let pass: PassOf<RunModel, Pairs> = Arc::new(|model, (x, y)| {
        let (RunModel::Stage(stage), rows) = (model, x.shape()?[0]) else { panic!("a pass without stages") };
        let step = stage.step(std::slice::from_ref(x), |_, outputs| (loss(outputs, y)? * rows as f64).ok())?;
        Ok((Tensor::full_on([0usize; 0], step.loss, DType::F64, x.device()?), step.grads))
    });
    let group = mesh.group(MeshAxis::Data).clone();
    session.have_part(Arc::new(MeshedModel::new(mesh, sharding, whole)), (pipeline > 1).then_some(pass)).unwrap();
    session.share(StepSharing { group, parts: data, bucket_bytes: 1 << 20, zero: ZeroStage::Off, compress: None }).unwrap();
    session
}
/// Rank 0's state, put together, of ranks that took a state over, and have made so many steps.
fn state(axes: Axes, case: StateCase, from: Option<&Snapshot>, steps: usize) -> Snapshot {
    let device = Device::cpu().unwrap();
    let rank = |on: Arc<dyn Communicator>| {
        device.scoped(|| {
            let mut session = session(&on, axes, case);
            from.iter().for_each(|from| drop(session.restore(from).unwrap()));
            let per = 8 / axes[0];
            let own = on.rank() / (axes[1] * axes[2]) * per;
            for step in 0..steps {
                let ids: Vec<i64> = (own..own + per).map(|k| ((k * 5 + step * 3) % 12) as i64).collect();
                let targets: Vec<i64> = ids.iter().map(|k| (k * 7 + 1) % 12).collect();
                session.assign(vec![0], 1);
                session.step(&[(Tensor::from_vec(ids, [per]), Tensor::from_vec(targets, [per]))], Look::default()).unwrap();
            }
            session.collect().unwrap();
            let snapshot = (on.rank() == 0).then(|| session.snapshot(serde_json::Value::Null).unwrap());
            session.let_go();
            snapshot
        })
    };
    let groups = local_threads_with(axes.iter().product(), Duration::from_secs(20)).unwrap();
    thread::scope(|scope| {
        let rank = &rank;
        let ranks: Vec<_> = groups.into_iter().map(|on| scope.spawn(move || rank(on))).collect();
        ranks.into_iter().filter_map(|rank| rank.join().unwrap()).next().unwrap()
    })
}
/// Names, shapes and bytes, in the order of names.
fn bits(of: &Snapshot) -> Vec<(String, Vec<usize>, Vec<u8>)> {
    let all = of
        .tensors
        .iter()
        .flat_map(|(part, tensors)| tensors.iter().map(move |(name, t)| (format!("{part}: {name}"), t.shape().unwrap().to_vec(), t.to_bytes().unwrap())));
    let mut all: Vec<_> = all.collect();
    all.sort();
    all
}
/// The largest difference of numbers.
fn apart(a: &Snapshot, b: &Snapshot) -> f64 {
    let of = |tensors: &Snapshot| -> Vec<f64> {
        let mut all: Vec<(String, Vec<f64>)> = tensors
            .tensors
            .iter()
            .flat_map(|(part, tensors)| tensors.iter().map(move |(name, t)| (format!("{part}: {name}"), t.cast(DType::F64).to_vec::<f64>().unwrap())))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.into_iter().flat_map(|(_, v)| v).collect()
    };
    let (a, b) = (of(a), of(b));
    assert_eq!(a.len(), b.len());
    a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0f64, f64::max)
}
#[test]
fn a_state_that_a_mesh_changes() {
    for case in [
        StateCase { tied: true, adam: true, average: true, wide: false },
        StateCase { tied: false, adam: false, average: false, wide: false },
        StateCase { tied: true, adam: false, average: true, wide: true },
        StateCase { tied: false, adam: true, average: true, wide: false },
    ] {
        for from in MESHES {
            let saved = state(from, case, None, 2);
            let alone = state([1, 1, 1], case, None, 2);
            let off = apart(&saved, &alone);
            assert!(off <= 1e-6, "tied {}, adam {}, {from:?}: off by {off:e}", case.tied, case.adam);
            let want = bits(&saved);
            for to in MESHES {
                let again = state(to, case, Some(&saved), 0);
                assert!(bits(&again) == want, "tied {}, adam {}: from {from:?} to {to:?}", case.tied, case.adam);
            }
        }
    }
}
/// In f64 what is added in another order is off by 1e-12 at most, on every mesh.
#[test]
fn steps_in_f64_that_end_elsewhere_than_one_process() {
    for (tied, adam) in [(true, true), (false, false), (true, false), (false, true)] {
        let case = StateCase { tied, adam, average: true, wide: true };
        let alone = state([1, 1, 1], case, None, 6);
        for axes in MESHES.into_iter().chain([[2, 2, 2], [1, 3, 1]]) {
            let off = apart(&alone, &state(axes, case, None, 6));
            assert!(off <= 1e-12, "tied {tied}, adam {adam}, {axes:?}: off by {off:e}");
        }
    }
}
#[test]
fn a_state_of_another_model_that_is_taken_over() {
    let case = StateCase { tied: false, adam: true, average: false, wide: false };
    let device = Device::cpu().unwrap();
    let saved = state([1, 1, 1], case, None, 1);
    for (part, name, told) in [("model", "stray.weight", "stray.weight"), ("optimizer", "stray.weight.exp_avg", "stray.weight")] {
        let mut other = saved.clone();
        let value = other.tensors[part][0].1.clone();
        other.tensors.get_mut(part).unwrap().push((name.into(), value));
        let refused = |on: Arc<dyn Communicator>| device.scoped(|| session(&on, [1, 2, 2], case).restore(&other).unwrap_err().to_string());
        let groups = local_threads_with(4, Duration::from_secs(20)).unwrap();
        thread::scope(|scope| {
            let refused = &refused;
            let ranks: Vec<_> = groups.into_iter().map(|on| scope.spawn(move || refused(on))).collect();
            for rank in ranks {
                let error = rank.join().unwrap();
                assert!(error.contains(told), "{error}");
            }
        });
    }
}
