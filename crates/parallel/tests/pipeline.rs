//! Pipelines: the bits of one process that adds up the gradients of the same micro-batches.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by a panic")]
#[path = "ranks/ranks.rs"]
mod ranks;

use adamant_core::{DType, Error, ErrorKind, Result, Tensor, op::Group};
use adamant_nn::{Linear, Module, Sequential, Walk, manual_seed};
use adamant_parallel::{
    Mesh, MeshShape,
    pipeline::{Pipeline, PipelineAction, PipelineSchedule, PipelineTrace, pipeline_actions},
};
use ranks::{Gpt, all, device, each, loss_of, numbers, perceptron, read};
use std::collections::HashMap;

fn mesh(group: &Group) -> Result<Mesh> {
    Mesh::new(group, MeshShape { pipeline: group.size as usize, ..MeshShape::default() })
}
/// Bits of gradients by path.
type Bits = HashMap<String, Vec<u8>>;

/// One process: micro-batches one by one, gradients added as they come.
fn accumulated(model: &Sequential, inputs: &[Tensor], loss: impl Fn(usize, &Tensor) -> Result<Tensor>) -> Result<(f64, Bits)> {
    let params = model.named_parameters();
    let mut sums: Vec<Option<Tensor>> = vec![None; params.len()];
    let mut total = 0.0;
    for (micro, x) in inputs.iter().enumerate() {
        let loss = loss(micro, &model.forward(x)?)?;
        total += read(&loss)?[0];
        let grads = loss.backward_keep()?;
        for (sum, (_, param)) in sums.iter_mut().zip(&params) {
            let g = grads.of(&param.cell()).cloned();
            *sum = match (sum.take(), g) {
                (Some(sum), Some(g)) => Some(sum + g),
                (sum, g) => sum.or(g),
            };
        }
    }
    let bits = params.iter().zip(sums).filter_map(|((path, _), sum)| Some(sum?.to_bytes().map(|bits| (path.clone(), bits))));
    Ok((total, bits.collect::<Result<_>>()?))
}
fn schedules() -> [PipelineSchedule; 4] {
    [PipelineSchedule::Gpipe, PipelineSchedule::OneForwardOneBackward, PipelineSchedule::Interleaved { chunks: 2 }, PipelineSchedule::Interleaved { chunks: 1 }]
}
#[test]
fn every_schedule_has_the_bits_of_accumulation() {
    device().make_current();
    let mut cases = 0;
    for stages in [1, 2, 3, 4] {
        for schedule in schedules() {
            for (k, micros) in [1, stages, 2 * stages, 5].into_iter().enumerate() {
                if schedule.chunks() > 1 && micros % stages != 0 {
                    continue;
                }
                for dtype in if k == 1 { vec![DType::F32, DType::F64] } else { vec![DType::F32] } {
                    let gpt = Gpt { dtype, blocks: 4, tied: k % 2 == 0, seed: 7 + k as u64, features: 8, heads: 2, ..Gpt::default() };
                    let rows = 2;
                    let parts: Vec<(Tensor, Tensor)> = (0..micros).map(|m| gpt.ids(rows, 100 * gpt.seed + m as u64)).collect();
                    let inputs: Vec<Tensor> = parts.iter().map(|(ids, _)| ids.clone()).collect();
                    let loss = |micro: usize, logits: &Tensor| (loss_of(logits, &parts[micro].1)? / micros as f64).ok();
                    let (want_loss, want) = accumulated(&gpt.model().unwrap(), &inputs, loss).unwrap();
                    let ran = all(stages, |group| {
                        let pipeline = Pipeline::cut(gpt.model()?, &mesh(group)?, schedule, &inputs[0])?;
                        let step = pipeline.step(&inputs, loss)?;
                        let bits: Vec<(String, Vec<u8>)> = pipeline
                            .named_parameters()
                            .into_iter()
                            .map(|(path, param)| {
                                Ok((
                                    path,
                                    step.grads.of(&param.cell()).ok_or_else(|| Error::new("test", ErrorKind::Argument("no gradient".into())))?.to_bytes()?,
                                ))
                            })
                            .collect::<Result<_>>()?;
                        Ok((step.loss, bits, step.spans, pipeline.stretches().len()))
                    });
                    let case = format!("{schedule}, {stages} stages, {micros} micro-batches, {dtype}");
                    let mut seen = std::collections::HashSet::new();
                    for (loss, bits, _, stretches) in &ran {
                        assert_eq!((loss.to_bits(), *stretches), (want_loss.to_bits(), stages * schedule.chunks()), "{case}");
                        for (path, bits) in bits {
                            // A head that is tied stands under its own name where the table is another stage's.
                            let path = if gpt.tied && path == "head.weight" { "wte.weight" } else { path };
                            assert!(want[path] == *bits, "{case}: {path} has other bits");
                            seen.insert(path.to_string());
                        }
                    }
                    assert_eq!(seen.len(), want.len(), "{case}");
                    let trace = PipelineTrace { stages: ran.into_iter().map(|r| r.2).collect() };
                    if schedule == PipelineSchedule::OneForwardOneBackward {
                        assert!((0..stages).all(|stage| trace.in_flight(stage) <= stages - stage), "{case}");
                    }
                    cases += 1;
                }
            }
        }
    }
    assert!(cases > 50, "{cases}");
}
#[test]
fn gradients_are_added_in_order_though_they_come_in_another() {
    device().make_current();
    let micros = 5;
    let inputs: Vec<Tensor> = (0..micros).map(|m| numbers(m as u64, &[3, 6], DType::F32) * (m as f64 * 3.0 + 1.0)).collect();
    let loss = |_: usize, y: &Tensor| (y.square().mean(..) / micros as f64).ok();
    let (_, want) = accumulated(&perceptron(4, DType::F32).unwrap(), &inputs, loss).unwrap();
    let mut differs = 0;
    for order in [[4, 3, 2, 1, 0], [2, 0, 4, 1, 3]] {
        let ran = all(2, |group| {
            let stage = group.rank as usize;
            let forward = (0..micros).flat_map(|micro| match stage {
                0 => [PipelineAction::Forward { micro, chunk: 0 }, PipelineAction::SendActivation { micro, chunk: 0, to: 1 }],
                _ => [PipelineAction::ReceiveActivation { micro, chunk: 0, from: 0 }, PipelineAction::Forward { micro, chunk: 0 }],
            });
            let backward = order.into_iter().flat_map(|micro| match stage {
                0 => [PipelineAction::ReceiveGradient { micro, chunk: 0, from: 1 }, PipelineAction::Backward { micro, chunk: 0 }],
                _ => [PipelineAction::Backward { micro, chunk: 0 }, PipelineAction::SendGradient { micro, chunk: 0, to: 0 }],
            });
            let list: Vec<PipelineAction> = forward.chain(backward).collect();
            let pipeline = Pipeline::with_costs(perceptron(4, DType::F32)?.into_layers(), &mesh(group)?, PipelineSchedule::Gpipe, &[1.0, 0.0, 1.0])?;
            let step = pipeline.step_by(&list, &inputs, loss)?;
            pipeline.named_parameters().into_iter().map(|(path, p)| Ok((path, step.grads.of(&p.cell()).unwrap().to_bytes()?))).collect::<Result<Vec<_>>>()
        });
        assert_eq!(ran.iter().map(Vec::len).sum::<usize>(), 4);
        for (path, bits) in ran.into_iter().flatten() {
            assert!(want[&path] == bits, "{path} has other bits");
        }
        // The numbers tell one order from another.
        let reordered: Vec<Tensor> = order.iter().map(|k| inputs[*k].clone()).collect();
        let (_, other) = accumulated(&perceptron(4, DType::F32).unwrap(), &reordered, loss).unwrap();
        differs += usize::from(other != want);
    }
    assert_eq!(differs, 2);
}
/// Sums of three tell one order from another.
#[test]
fn a_parameter_of_every_stage_is_added_as_one_process_does() {
    device().make_current();
    let model = || -> Result<Sequential> {
        manual_seed(8);
        let first = Linear::no_bias(6, 6)?;
        let others = [Linear::tied(&first.weight)?, Linear::tied(&first.weight)?];
        let [second, third] = others;
        Ok(Sequential::new().add(first).add(second).add(third))
    };
    let inputs: Vec<Tensor> = (0..3).map(|m| numbers(m, &[4, 6], DType::F32) * 2.0).collect();
    let loss = |_: usize, y: &Tensor| y.square().mean(..).ok();
    let (_, want) = accumulated(&model().unwrap(), &inputs, loss).unwrap();
    for (stages, schedule) in [(3, PipelineSchedule::Gpipe), (3, PipelineSchedule::OneForwardOneBackward), (1, PipelineSchedule::Interleaved { chunks: 3 })] {
        let ran = all(stages, |group| {
            let pipeline = Pipeline::with_costs(model()?.into_layers(), &mesh(group)?, schedule, &[1.0; 3])?;
            let step = pipeline.step(&inputs, loss)?;
            pipeline.parameters().iter().map(|p| step.grads.of(&p.cell()).unwrap().to_bytes()).collect::<Result<Vec<_>>>()
        });
        assert!(ran.iter().all(|bits| bits.len() == 1 && bits[0] == want["0.weight"]), "{schedule} on {stages}");
    }
}
#[test]
fn parameters_of_other_stages_are_let_go_of() {
    let held = all(2, |group| {
        let model = perceptron(1, DType::F32)?;
        let all: usize = model.parameter_count();
        let pipeline = Pipeline::cut(model, &mesh(group)?, PipelineSchedule::Gpipe, &Tensor::zeros([2, 6]))?;
        Ok((all, pipeline.parameter_count(), pipeline.named_parameters().into_iter().map(|(path, _)| path).collect::<Vec<_>>()))
    });
    assert_eq!(held[0].1 + held[1].1, held[0].0);
    assert_eq!((held[0].2[0].as_str(), held[1].2[0].as_str()), ("fc.weight", "proj.weight"));
}
#[test]
fn a_frozen_stage_and_an_unused_parameter_go_through() {
    let ran = all(3, |group| {
        manual_seed(2);
        let layers = [Linear::new(4, 4)?, Linear::new(4, 4)?, Linear::new(4, 4)?];
        layers[0].freeze();
        layers[2].bias.as_ref().unwrap().set_frozen(true);
        let mut model = Sequential::new();
        for (k, layer) in layers.into_iter().enumerate() {
            model.push(&k.to_string(), Box::new(layer) as Box<dyn Module>);
        }
        let inputs = [Tensor::ones([2, 4]), Tensor::ones([2, 4]) * 0.5];
        let pipeline = Pipeline::cut(model, &mesh(group)?, PipelineSchedule::OneForwardOneBackward, &inputs[0])?;
        Ok(pipeline.step(&inputs, |_, y| y.square().sum(..).ok())?.grads.len())
    });
    assert_eq!(ran, [0, 2, 1]);
}
#[test]
fn what_goes_wrong_on_one_stage_is_an_error_on_all() {
    let schedule = PipelineSchedule::OneForwardOneBackward;
    let inputs = |n: usize| vec![Tensor::ones([2, 6]); n];
    let told = |made: Vec<Result<()>>| -> Vec<String> { made.into_iter().map(|r| r.unwrap_err().to_string()).collect() };
    // Other numbers of micro-batches.
    let made = told(each(2, |group| {
        let pipeline = Pipeline::cut(perceptron(1, DType::F32)?, &mesh(group)?, schedule, &Tensor::zeros([2, 6]))?;
        pipeline.step(&inputs(2 + group.rank as usize), |_, y| y.sum(..).ok()).map(drop)
    }));
    assert!(made.iter().any(|e| e.contains("micro-batch") || e.contains("rank")), "{made:?}");
    // A loss that is no number, a loss that fails.
    for wrong in [true, false] {
        let made = told(each(2, |group| {
            let pipeline = Pipeline::cut(perceptron(1, DType::F32)?, &mesh(group)?, schedule, &Tensor::zeros([2, 6]))?;
            let loss = |_: usize, y: &Tensor| if wrong { Ok(y.clone()) } else { Err(Error::new("loss", ErrorKind::Argument("planted".into()))) };
            pipeline.step(&inputs(2), loss).map(drop)
        }));
        assert!(made[1].contains(if wrong { "single number" } else { "planted" }), "{made:?}");
        assert!(made[0].contains("rank 1") || made[0].contains("planted") || made[0].contains("single"), "{made:?}");
    }
    // Sends in another order than receives.
    let made = told(each(2, |group| {
        let pipeline = Pipeline::cut(perceptron(1, DType::F32)?, &mesh(group)?, PipelineSchedule::Gpipe, &Tensor::zeros([2, 6]))?;
        let mut list = pipeline_actions(PipelineSchedule::Gpipe, 2, 2)?.swap_remove(group.rank as usize);
        if group.rank == 0 {
            let first = list.iter().position(|a| matches!(a, PipelineAction::SendActivation { .. })).unwrap();
            let (second, _) = list.iter().enumerate().filter(|(_, a)| matches!(a, PipelineAction::SendActivation { .. })).nth(1).unwrap();
            let early = list.remove(first);
            list.insert(second, early);
        }
        pipeline.step_by(&list, &inputs(2), |_, y| y.sum(..).ok()).map(drop)
    }));
    assert!(made[1].contains("stage 0 sends") && made[1].contains("micro: 0"), "{made:?}");
    // Before anything is sent.
    for made in each(3, |group| {
        let layers = perceptron(1, DType::F32)?.into_layers();
        let schedule = PipelineSchedule::Interleaved { chunks: 2 };
        let mesh = mesh(group)?;
        assert!(Pipeline::with_costs(layers, &mesh, schedule, &[1.0; 3]).err().unwrap().to_string().contains("3 layers cannot be cut into 6"));
        assert!(Pipeline::with_costs(Vec::new(), &mesh, PipelineSchedule::Gpipe, &[1.0]).err().unwrap().to_string().contains("1 costs for 0 layers"));
        let gpt = Gpt { blocks: 4, ..Gpt::default() };
        let pipeline = Pipeline::cut(gpt.model()?, &mesh, schedule, &gpt.ids(1, 1).0)?;
        assert!(pipeline.step(&vec![gpt.ids(1, 1).0; 4], |_, y| y.sum(..).ok()).err().unwrap().to_string().contains("4 is no multiple of 3"));
        Ok(())
    }) {
        made.unwrap();
    }
}
#[test]
fn dropout_of_stages_differs() {
    let masks = all(2, |group| {
        manual_seed(3);
        let layer = || adamant_nn::Dropout::new(0.5);
        let model = Sequential::new().add(layer()?).add(layer()?);
        let pipeline = Pipeline::with_costs(model.into_layers(), &mesh(group)?, PipelineSchedule::Gpipe, &[1.0, 1.0])?;
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let note = seen.clone();
        let path = group.rank.to_string();
        pipeline.get_submodule(&path)?.site()?.register_forward_hook(move |_, inputs, outputs| {
            note.lock().unwrap().push((inputs[0].clone(), outputs[0].clone()));
            Ok(None)
        })?;
        pipeline.step(&[Tensor::ones([64])], |_, y| y.sum(..).ok())?;
        let (x, y) = seen.lock().unwrap()[0].clone();
        Ok((x.to_vec::<f32>()?, y.to_vec::<f32>()?))
    });
    let second = |keep: bool| masks[1].0.iter().zip(&masks[1].1).filter(|(x, y)| **x != 0.0 && (**y != 0.0) == keep).count();
    // With one pattern the second stage would drop nothing that the first has left.
    assert!(second(false) > 5 && second(true) > 5, "{masks:?}");
}
