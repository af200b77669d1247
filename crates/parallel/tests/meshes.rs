//! Rows, stages and pieces together: loss and gradients of one process.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by a panic")]
#[path = "ranks/ranks.rs"]
mod ranks;

use adamant_core::{DType, Result, Tensor};
use adamant_nn::Module;
use adamant_parallel::{
    Mesh, MeshAxis, MeshShape,
    pipeline::{Pipeline, PipelineSchedule, layer_costs},
    sum_gradients,
    tensor::{ParallelStyle, TensorOptions, VocabularyLossOptions, parallelize_with, vocabulary_cross_entropy},
};
use ranks::{Gpt, all, alone, device, loss_of, read, tolerance};
use std::collections::HashMap;

#[test]
fn a_mesh_of_rows_stages_and_pieces_learns_as_one_process() {
    device().make_current();
    let styles = |sequence: bool| {
        let mut styles = vec![
            ("wte", ParallelStyle::Vocabulary),
            ("head", ParallelStyle::Column),
            ("blocks*.self_attn", ParallelStyle::Heads),
            ("blocks*.linear1", ParallelStyle::Column),
            ("blocks*.linear2", ParallelStyle::Row),
        ];
        if sequence {
            styles.extend([("wpe", ParallelStyle::Scatter), ("blocks*.norm?", ParallelStyle::Apart), ("lnf", ParallelStyle::Apart)]);
        }
        styles
    };
    let schedules = [PipelineSchedule::Gpipe, PipelineSchedule::OneForwardOneBackward, PipelineSchedule::Interleaved { chunks: 2 }];
    let shapes = [
        MeshShape { data: 2, pipeline: 2, tensor: 2, ..Default::default() },
        MeshShape { pipeline: 2, tensor: 2, ..Default::default() },
        MeshShape { data: 2, pipeline: 2, ..Default::default() },
        MeshShape { data: 2, tensor: 2, ..Default::default() },
        MeshShape { data: 4, ..Default::default() },
    ];
    for shape in shapes {
        for (k, schedule) in schedules.into_iter().enumerate() {
            for dtype in [DType::F32, DType::F64] {
                let (micros, rows, sequence) = (4, 2, k == 1);
                let gpt = Gpt { dtype, blocks: 4, seed: 3 + k as u64, ..Gpt::default() };
                let (ids, target) = gpt.ids(micros * rows * shape.data, gpt.seed);
                let model = gpt.model().unwrap();
                let (want_loss, want) = alone(&model, &loss_of(&model.forward(&ids).unwrap(), &target).unwrap()).unwrap();
                let want: HashMap<String, Vec<f64>> = want.into_iter().collect();
                let ran = all(shape.ranks(), |group| {
                    let mesh = Mesh::new(group, shape)?;
                    let model = gpt.model()?;
                    let costs = layer_costs(&gpt.layers()?, &ids.narrow(0, 0, rows))?;
                    let options = TensorOptions { sequence_axis: sequence.then_some(1) };
                    let sharding = parallelize_with(&model, &mesh, &styles(sequence), options)?;
                    let pipeline = Pipeline::with_costs(model.into_layers(), &mesh, schedule, &costs)?;
                    let first = mesh.coordinate(MeshAxis::Data) * micros * rows;
                    let parts: Vec<(Tensor, Tensor)> =
                        (0..micros).map(|m| (ids.narrow(0, first + m * rows, rows), target.narrow(0, first + m * rows, rows))).collect();
                    let inputs: Vec<Tensor> = parts.iter().map(|(ids, _)| ids.clone()).collect();
                    let loss = |micro: usize, logits: &Tensor| {
                        let group = mesh.group(MeshAxis::Tensor);
                        let loss = vocabulary_cross_entropy(logits, &parts[micro].1, gpt.vocabulary, group, &VocabularyLossOptions::default())?;
                        (loss / (micros * shape.data) as f64).ok()
                    };
                    let mut step = pipeline.step(&inputs, loss)?;
                    sum_gradients(&pipeline, &mut step.grads, &mesh)?;
                    let whole = sharding.gradients(&pipeline, &step.grads)?;
                    Ok((step.loss, whole.into_iter().map(|(path, g)| Ok((path, read(&g)?))).collect::<Result<Vec<_>>>()?, mesh.place()))
                });
                let case = format!("{shape}, {schedule}, {dtype}");
                let loss: f64 = ran.iter().filter(|(_, _, place)| place[1..] == [0, 0, 0]).map(|r| r.0).sum();
                assert!((loss - want_loss).abs() <= tolerance(dtype), "{case}: loss {loss} and not {want_loss}");
                let mut seen = std::collections::HashSet::new();
                for (_, gradients, place) in &ran {
                    for (path, g) in gradients {
                        let path = if path == "head.weight" { "wte.weight" } else { path };
                        let scale = want[path].iter().fold(1.0f64, |m, v| m.max(v.abs()));
                        let by = g.iter().zip(&want[path]).map(|(a, b)| (a - b).abs() / scale).fold(0.0, f64::max);
                        assert!(g.len() == want[path].len() && by <= tolerance(dtype), "{case}, rank at {place:?}: {path} is off by {by:e}");
                        seen.insert(path.to_string());
                    }
                }
                assert_eq!(seen.len(), want.len(), "{case}");
            }
        }
    }
}
