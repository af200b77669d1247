//! `adamant graph`: the graph of a description's model, behind the passes that are asked for.
use crate::{out, verbs::DescribedModel};
use adamant::{
    Device, Meta, Shape,
    graph::{Graph, GraphError},
    nn::{Module, Walk},
};
use adamant_train::{Document, Failure};
use clap::Args;
use serde_json::json;
use std::collections::HashMap;

/// Options of `graph`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  adamant graph examples/mnist/mnist.toml --input 1,28,28 --text\n  adamant graph examples/mnist/mnist.toml --input 1,28,28 --pass conv_norm_folding,dead_code"
)]
pub struct Options {
    #[command(flatten)]
    described: DescribedModel,
    /// the model as it trains, instead of as it answers
    #[arg(long)]
    training: bool,
    /// passes to run, in order: constant_folding, dead_code, common_subexpressions, conv_norm_folding, transpose_elimination, expand
    #[arg(long, value_name = "PASS", value_delimiter = ',')]
    pass: Vec<String>,
    /// prints the graph itself
    #[arg(long)]
    text: bool,
    /// prints one JSON document
    #[arg(long)]
    pub json: bool,
}
pub fn run(o: &Options) -> Result<(), Failure> {
    let document = Document::read(&o.described.config)?;
    let (data, input) = (o.described.data(), o.described.input()?);
    let device = Device::reference();
    // Nothing is computed but the parameters, which any device will do.
    let mut graph = device.scoped(|| -> Result<Graph, Failure> {
        let sample = adamant_train::sample(&document, &data, input)?;
        sample.model.set_training(o.training);
        let dims: Vec<usize> = std::iter::once(o.described.batch.unwrap_or(sample.batch)).chain(sample.input.0.iter().copied()).collect();
        let shape = Shape::new(&dims).map_err(|kind| Failure::Usage(kind.to_string()))?;
        let paths: HashMap<u64, String> = sample.model.leaves().into_iter().map(|(path, leaf)| (leaf.cell().id(), path)).collect();
        let meta = Meta { shape, dtype: sample.input.1, device };
        Ok(Graph::capture_named(device, &[("x", meta)], |id| paths.get(&id).cloned(), |x| Ok(vec![sample.model.forward(&x[0])?]))?)
    })?;
    let failed = |e: GraphError| match e {
        GraphError::Pass { .. } => Failure::Usage(e.to_string()),
        e => Failure::Run(e.to_string()),
    };
    let ran = graph.run(&o.pass).map_err(failed)?;
    let (written, hash) = (graph.text().map_err(failed)?, graph.hash().map_err(failed)?);
    if o.json {
        let passes: Vec<_> = ran.iter().map(|r| json!({ "pass": r.name, "before": r.before, "after": r.after })).collect();
        let mut answer = json!({ "nodes": graph.nodes.len(), "cells": graph.cells.len(), "constants": graph.constants.len(), "hash": format!("{hash:016x}"), "passes": passes });
        if o.text {
            answer["text"] = written.text.into();
        }
        return out::line(answer);
    }
    for r in &ran {
        out::note(format!("{:<24} {:>6} nodes -> {:>6}", r.name, r.before, r.after));
    }
    if o.text {
        return out::write(&out::plain(&written.text));
    }
    out::line(format!("{} nodes, {} cells, {} constants, hash {hash:016x}", graph.nodes.len(), graph.cells.len(), graph.constants.len()))
}
