//! Nothing waits for the device but who reads: not a step that looks up indices, not one whose data is bad. Where the machine has
//! no adapter the tests say so and check nothing else.
mod common;

use adamant_backend_wgpu::WgpuBackend;
use adamant_conformance::late::drive;
use adamant_core::{
    Cell, Device, Error, Result, Tensor,
    functional::{CrossEntropyOptions, cross_entropy, embedding},
    step,
};
use common::device_of;

fn waits(device: Device) -> u64 {
    device.counters().iter().find(|c| c.0 == "waits").unwrap().1
}
const WORDS: usize = 7;
const WIDTH: usize = 12;
/// A table of embeddings, a product, momenta: the cells of a small classifier of rows of three words.
struct Model(Vec<Cell>);
impl Model {
    fn new() -> Result<Model> {
        let tensor =
            |shape: [usize; 2], k: usize| Tensor::from_vec((0..shape[0] * shape[1]).map(|i| ((i * 31 + k) % 17) as f32 / 34.0 - 0.25).collect(), shape);
        let shapes = [[WORDS, WIDTH], [WIDTH, WORDS]];
        let cells = shapes.iter().zip(0..).map(|(s, k)| Cell::new(&tensor(*s, k), true));
        let momenta = shapes.iter().map(|s| Cell::new(&Tensor::zeros(*s), false));
        Ok(Model(cells.chain(momenta).collect::<Result<_>>()?))
    }
    fn step(&self, ids: &[i64], target: &[i64]) -> Result<Tensor> {
        let [table, weight, momenta @ ..] = &self.0[..] else { panic!("four cells") };
        let x = embedding(&Tensor::from_vec(ids.to_vec(), [ids.len() / 3, 3]), &table.get(), None).sum(1);
        let logits = x.matmul(weight.get());
        let picked = x.index_select(1, &Tensor::from_vec(vec![0i64, 5], [2])).sum(..) * 1e-3;
        let loss = cross_entropy(&logits, &Tensor::from_vec(target.to_vec(), [target.len()]), &CrossEntropyOptions::default()) + picked;
        let grads = loss.backward()?;
        step(|| {
            for (cell, momentum) in [table, weight].into_iter().zip(momenta) {
                let Some(g) = grads.of(cell) else { continue };
                let m = momentum.detached() * 0.9 + g;
                cell.set(&(cell.detached() - &m * 0.1))?;
                momentum.set(&m)?;
            }
            Ok(())
        })?;
        Ok(loss)
    }
    fn values(&self) -> Vec<Vec<f32>> {
        self.0.iter().map(|c| c.detached().to_vec().unwrap()).collect()
    }
}
const GOOD: ([i64; 6], [i64; 2]) = ([0, 3, 6, 1, 1, 4], [2, 5]);

#[test]
fn what_is_driven_over_a_late_device_holds_here() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    device.scoped(|| drive::everything(device)).unwrap();
}
#[test]
fn a_step_waits_for_nothing_and_its_loss_for_one_thing() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    device.scoped(|| {
        let model = Model::new().unwrap();
        let before = waits(device);
        let losses: Vec<Tensor> = (0..5).map(|_| model.step(&GOOD.0, &GOOD.1).unwrap()).collect();
        assert_eq!(waits(device), before, "a step waited");
        let read: Vec<f32> = losses.iter().map(|l| l.item().unwrap()).collect();
        assert!(waits(device) - before <= losses.len() as u64, "a read waited twice: {}", waits(device) - before);
        assert!(read.windows(2).all(|l| l[1] < l[0]), "nothing was learned: {read:?}");
    });
}
#[test]
fn bad_data_in_a_step_leaves_its_cells_and_the_next_step_goes_on() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    device.scoped(|| {
        let (with, without) = (Model::new().unwrap(), Model::new().unwrap());
        let bad: [(&[i64], &[i64], &str); 3] =
            [(&[0, 7, 6, 1, 1, 4], &[2, 5], "embedding"), (&[0, 3, 6, 1, 1, 4], &[9, 5], "cross_entropy"), (&[-1, 3, 6, 1, 1, 4], &[2, 5], "embedding")];
        for (k, (ids, target, op)) in bad.into_iter().enumerate() {
            for model in [&with, &without] {
                model.step(&GOOD.0, &GOOD.1).unwrap();
            }
            let before = waits(device);
            let spoiled = with.step(ids, target).unwrap();
            let next = with.step(&GOOD.0, &GOOD.1).unwrap();
            assert_eq!(waits(device), before, "bad data was waited for");
            let meant = without.step(&GOOD.0, &GOOD.1).unwrap();
            if k < 2 {
                let told: Error = spoiled.item::<f32>().unwrap_err();
                let text = told.to_string();
                assert!(told.kind().word() == "index" && text.contains(op) && text.contains(file!()), "{text}");
            } else {
                // Nobody reads the loss.
                let text = device.synchronize().unwrap_err().to_string();
                assert!(text.contains(op) && text.contains(file!()), "{text}");
            }
            device.synchronize().unwrap();
            assert_eq!(next.item::<f32>().unwrap(), meant.item::<f32>().unwrap());
            assert_eq!(with.values(), without.values(), "a bad step changed a cell");
        }
    });
}
