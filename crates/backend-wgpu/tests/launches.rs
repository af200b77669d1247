//! What a training step asks of the device: no plan is made and nothing is compiled for a step that repeats, nor for a
//! batch of another size. Where the machine has no adapter the test says so and checks nothing else.
mod common;

use adamant_backend_wgpu::WgpuBackend;
use adamant_core::{
    Cell, Device, Result, Tensor,
    functional::{CrossEntropyOptions, cross_entropy, embedding, layer_norm, linear},
    schedule::take_stats,
    step,
};
use common::device_of;

// Wide enough that the gradient of the table is sorted on every adapter.
const WIDTH: usize = 36;
const TIME: usize = 9;
const WORDS: usize = 11;

/// A small language model and what its optimizer remembers.
struct Model {
    cells: Vec<Cell>,
    momenta: Vec<Cell>,
}
impl Model {
    fn new() -> Result<Model> {
        let tensor = |shape: &[usize], k: usize| {
            let n = shape.iter().product::<usize>();
            Tensor::from_vec((0..n).map(|i| ((i * 7919 + k * 104_729) % 997) as f32 / 1994.0 - 0.25).collect(), shape.to_vec())
        };
        let shapes: [&[usize]; 7] = [&[WORDS, WIDTH], &[WIDTH], &[WIDTH], &[3 * WIDTH, WIDTH], &[WIDTH, 3 * WIDTH], &[WIDTH], &[1, TIME, WIDTH]];
        let cells = shapes.iter().enumerate().map(|(k, s)| Cell::new(&tensor(s, k), true)).collect::<Result<_>>()?;
        let momenta = shapes.iter().map(|s| Cell::new(&Tensor::from_vec(vec![0f32; s.iter().product()], s.to_vec()), false)).collect::<Result<_>>()?;
        Ok(Model { cells, momenta })
    }
    fn step(&self, batch: usize) -> Result<f32> {
        let ids = |k: usize| Tensor::from_vec((0..batch * TIME).map(|i| ((i * 31 + k) % WORDS) as i64).collect(), [batch, TIME]);
        let [table, weight, bias, up, down, shift, positions] = &self.cells[..] else { panic!("seven cells") };
        let mut x = embedding(&ids(3), &table.get(), None) + positions.get();
        // Attention of a sort: every position sees all of its row.
        let scores = x.matmul(x.mt()) * 0.2;
        x = &x + scores.softmax(-1).matmul(&x);
        let h = layer_norm(&x, [WIDTH], Some(&weight.get()), Some(&bias.get()), 1e-5);
        x = &x + linear(&linear(&h, &up.get(), None).gelu_tanh(), &down.get(), Some(&shift.get()));
        let logits = linear(&x, &table.get(), None).reshape([batch * TIME, WORDS]);
        let loss = cross_entropy(&logits, &ids(5).reshape([batch * TIME]), &CrossEntropyOptions::default());
        let grads = loss.backward()?;
        step(|| {
            for (cell, momentum) in self.cells.iter().zip(&self.momenta) {
                let Some(g) = grads.of(cell) else { continue };
                let m = momentum.detached() * 0.9 + g;
                cell.set(&(cell.detached() - &m * 0.01))?;
                momentum.set(&m)?;
            }
            Ok(())
        })?;
        loss.item::<f32>()
    }
}
fn pipelines(device: Device) -> u64 {
    device.counters().iter().find(|c| c.0 == "pipelines").unwrap().1
}
#[test]
fn a_step_that_repeats_and_a_batch_of_another_size_compile_nothing() {
    // The sizes lie on both sides of all at which a kernel is cut in pieces or shared out in another way, from either side;
    // four rows have as many tokens as a token has features. A batch of one row adds its positions without a broadcast,
    // which is another plan, of kernels that are there.
    for batches in [&[70, 70, 70, 57, 33, 4, 13, 6, 2, 70, 1, 70][..], &[2, 2, 3, 4, 29, 57, 1, 70]] {
        let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
        device.scoped(|| {
            let model = Model::new().unwrap();
            let first = model.step(batches[0]).unwrap();
            let compiled = pipelines(device);
            assert!(compiled > 10, "{compiled}: the counter counts nothing");
            let mut losses = vec![first];
            // From the second on: the first makes the plan, another size sizes it anew.
            for (k, &batch) in batches[1..].iter().enumerate() {
                take_stats();
                losses.push(model.step(batch).unwrap());
                assert_eq!(pipelines(device), compiled, "step {} with a batch of {batch}", k + 2);
                assert!(k < 1 || batch == 1 || take_stats().misses == 0, "step {} with a batch of {batch} made a plan", k + 2);
            }
            // What a kernel does for sizes that it was not written for is right, too.
            let meant = Device::reference().scoped(|| {
                let model = Model::new().unwrap();
                batches.iter().map(|&b| model.step(b).unwrap()).collect::<Vec<f32>>()
            });
            assert!(losses.iter().zip(&meant).all(|(a, b)| (a - b).abs() < 1e-3 * b.abs()), "{losses:?}, not {meant:?}");
            assert!(losses.last() < losses.first(), "{losses:?}: nothing was learned");
        });
    }
}
