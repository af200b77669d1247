//! The forward pass of whole models, a template for one's own: build the model, prepare inputs of some batches, and let
//! criterion call `forward` and evaluate what it gives.
use adamant::{
    Result,
    nn::{Conv2d, Flatten, LayerNorm, Linear, MaxPool2d, Module, Relu, Sequential, Walk},
    no_grad,
};
use adamant_benches::{device, numbers};
use criterion::{BenchmarkId, Criterion, Throughput};

fn mlp() -> Result<Sequential> {
    Ok(Sequential::new().add(Linear::new(784, 256)?).add(Relu::new()).add(LayerNorm::new([256])?).add(Linear::new(256, 10)?))
}
fn cnn() -> Result<Sequential> {
    let features = Sequential::new().add(Conv2d::new(1, 8, 3)?).add(Relu::new()).add(MaxPool2d::new(2));
    Ok(features.add(Flatten::with(1, -1)).add(Linear::new(8 * 13 * 13, 10)?))
}

/// Name, model, and the shape of one input.
type Case = (&'static str, fn() -> Result<Sequential>, &'static [usize]);
const MODELS: &[Case] = &[("mlp", mlp, &[784]), ("cnn", cnn, &[1, 28, 28])];
const BATCHES: [usize; 3] = [1, 16, 128];

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    device()?.scoped(|| {
        for (name, model, input) in MODELS {
            let model = model()?;
            model.eval();
            let mut group = criterion.benchmark_group(format!("model_forward/{name}"));
            for batch in BATCHES {
                let x = numbers(&[&[batch], *input].concat())?;
                let forward = || no_grad(|| model.forward(&x)?.materialize());
                // An error would be timed as a very fast model.
                forward()?;
                group.throughput(Throughput::Elements(batch as u64));
                group.bench_function(BenchmarkId::from_parameter(batch), |b| b.iter(forward));
            }
        }
        Ok(())
    })?;
    criterion.final_summary();
    Ok(())
}
