//! A pipeline by the clock. Its layers sleep as long forward as back, so that stages are beside each other however few cores there are.
use super::{chain, on_ranks};
use crate::torture::TortureClaim;
use adamant::{
    Result, Tensor,
    grad::tap,
    nn::{Linear, Module},
    parallel::{
        Mesh, MeshShape,
        pipeline::{Pipeline, PipelineSchedule, PipelineTrace},
    },
};
use std::{thread::sleep, time::Duration};

#[derive(Module)]
struct PacedLayer {
    layer: Linear,
    #[module(skip)]
    pace: Duration,
}
impl Module for PacedLayer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let pace = self.pace;
        sleep(pace);
        let y = self.layer.forward(x)?;
        let back = move |_: &[Option<Tensor>]| {
            sleep(pace);
            Ok(None)
        };
        Ok(tap(&[&y], back)?.swap_remove(0))
    }
}
pub fn measured(claim: &mut TortureClaim, pace: Duration) -> std::result::Result<(), String> {
    let mut seen = Vec::new();
    for (p, m) in [(2usize, 4usize), (2, 8), (4, 4), (4, 8), (4, 16)] {
        let ran = on_ranks(p, |group| {
            let mesh = Mesh::new(group, MeshShape { pipeline: p, ..MeshShape::default() })?;
            let model = chain(p, |layer| Box::new(PacedLayer { layer, pace }))?;
            let pipeline = Pipeline::with_costs(model.into_layers(), &mesh, PipelineSchedule::OneForwardOneBackward, &vec![1.0; p])?;
            let inputs = vec![Tensor::ones([2, 4]); m];
            let loss = |_: usize, y: &Tensor| y.square().sum(..).ok();
            // What is made ready once, is before.
            pipeline.step(&inputs[..p.min(m)], loss)?;
            pipeline.step(&inputs, loss).map(|step| (step.begun, step.spans))
        })?;
        let Some(first) = ran.iter().map(|(begun, _)| *begun).min() else { continue };
        let by_one_clock = ran.into_iter().map(|(begun, mut spans)| {
            let late = begun.duration_since(first).as_secs_f64();
            spans.iter_mut().for_each(|span| (span.start, span.end) = (span.start + late, span.end + late));
            spans
        });
        let trace = PipelineTrace { stages: by_one_clock.collect() };
        let want = (p - 1) as f64 / (m + p - 1) as f64;
        let in_flight: Vec<usize> = (0..p).map(|stage| trace.in_flight(stage)).collect();
        seen.push(serde_json::json!({ "stages": p, "micro-batches": m, "bubble": trace.bubble(), "by the formula": want, "in flight": in_flight }));
        let is_close = (trace.bubble() / want - 1.0).abs() <= 0.1;
        let is_few = in_flight.iter().enumerate().all(|(stage, most)| *most <= p - stage);
        claim.count(if is_close && is_few {
            Ok(())
        } else {
            Err(format!("{m} micro-batches on {p} stages: bubble {} and not {want}, in flight {in_flight:?}", trace.bubble()))
        });
    }
    claim.see(serde_json::json!(seen));
    Ok(())
}
