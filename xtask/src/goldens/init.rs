//! Initialisers: many weights drawn, and what their numbers look like.
use super::{
    call::{OpCall, argument, unsupported},
    manifest::Case,
};
use adamant::{
    Error, Tensor,
    nn::init::{self, Fan, Nonlinearity},
};
use serde::{Deserialize, Serialize};

/// Enough for a standard deviation to be known within half a percent.
const DRAWS: usize = 40_000;

/// The statistics of all numbers drawn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Statistics {
    /// their mean
    pub mean: f64,
    /// their standard deviation
    pub std: f64,
    /// the smallest
    pub min: f64,
    /// the largest
    pub max: f64,
    /// how many
    pub n: usize,
    /// the largest difference of W Wᵀ (or Wᵀ W, the smaller) from gain² times the identity, where that should be small
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orthogonality: Option<f64>,
}

/// Draws weights by the initialiser that a case of init.json names.
pub fn statistics(case: &Case) -> Result<Statistics, Error> {
    let call = OpCall::new(case, Vec::new());
    init::manual_seed(1);
    let mut numbers: Vec<f64> = Vec::new();
    let mut orthogonality = None;
    while numbers.len() < DRAWS {
        let weight = draw(&call, &case.shape)?;
        numbers.extend(weight.to_vec_as::<f64>()?);
        if case.op == "orthogonal" {
            orthogonality = Some(distance_from_orthogonal(&weight, call.float_or("gain", 1.0)?)?.max(orthogonality.unwrap_or(0.0)));
        }
    }
    let n = numbers.len();
    let mean = numbers.iter().sum::<f64>() / n as f64;
    let std = (numbers.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64).sqrt();
    let (min, max) = numbers.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
    Ok(Statistics { mean, std, min, max, n, orthogonality })
}
fn draw(call: &OpCall, shape: &[usize]) -> Result<Tensor, Error> {
    let shape = shape.to_vec();
    match call.op() {
        "xavier_uniform" => init::xavier_uniform(shape, gain(call)?),
        "xavier_normal" => init::xavier_normal(shape, gain(call)?),
        "kaiming_uniform" => init::kaiming_uniform(shape, fan(call)?, follows(call)?),
        "kaiming_normal" => init::kaiming_normal(shape, fan(call)?, follows(call)?),
        "torch_default_weight" => init::default_weight(shape),
        "torch_default_bias" => init::default_bias(shape.first().copied().unwrap_or(0), shape),
        "orthogonal" => init::orthogonal(shape, call.float_or("gain", 1.0)?),
        "trunc_normal" => {
            init::trunc_normal(shape, call.float_or("mean", 0.0)?, call.float_or("std", 1.0)?, call.float_or("a", -2.0)?, call.float_or("b", 2.0)?)
        }
        other => Err(unsupported(format!("the initialiser {other}"))),
    }
}
/// Our own gain where the case names what follows the layer, else the number it gives.
fn gain(call: &OpCall) -> Result<f64, Error> {
    match call.maybe_text("gain_of")? {
        // torch takes 0.01 for the slope unless one is given.
        Some(name) => Ok(nonlinearity(name, call.float_or("a", 0.01)?)?.gain()),
        None => call.float_or("gain", 1.0),
    }
}
fn follows(call: &OpCall) -> Result<Nonlinearity, Error> {
    nonlinearity(call.text_or("nonlinearity", "leaky_relu")?, call.float_or("a", 0.0)?)
}
fn nonlinearity(name: &str, slope: f64) -> Result<Nonlinearity, Error> {
    Ok(match name {
        "linear" | "sigmoid" | "conv1d" | "conv2d" | "conv3d" => Nonlinearity::Linear,
        "tanh" => Nonlinearity::Tanh,
        "relu" => Nonlinearity::Relu,
        "leaky_relu" => Nonlinearity::LeakyRelu(slope),
        "selu" => Nonlinearity::Selu,
        other => return Err(unsupported(format!("the gain of {other}"))),
    })
}
fn fan(call: &OpCall) -> Result<Fan, Error> {
    match call.text_or("mode", "fan_in")? {
        "fan_in" => Ok(Fan::In),
        "fan_out" => Ok(Fan::Out),
        other => Err(argument(format!("mode {other}"))),
    }
}
fn distance_from_orthogonal(weight: &Tensor, gain: f64) -> Result<f64, Error> {
    let shape = weight.shape()?;
    let (rows, columns) = (shape[0], shape[1..].iter().product::<usize>());
    let w = weight.to_vec_as::<f64>()?;
    let at = |row: usize, column: usize| w[row * columns + column];
    let (vectors, length) = (rows.min(columns), rows.max(columns));
    let element = |vector: usize, k: usize| if rows <= columns { at(vector, k) } else { at(k, vector) };
    let mut largest = 0.0f64;
    for a in 0..vectors {
        for b in 0..=a {
            let dot: f64 = (0..length).map(|k| element(a, k) * element(b, k)).sum();
            largest = largest.max((dot - if a == b { gain * gain } else { 0.0 }).abs());
        }
    }
    Ok(largest)
}
