//! Rows about models: parameters, names, modes, memory, batches.
use super::{CheckCost, Checked, RowCheck, Seen, device, plant, planted, timing::least_of_two};
use adamant::{
    Device, Result, Rng, Tensor,
    cpu::{Context, CpuBackend},
    data::create_batches,
    formats::safetensors,
    nn::{Dropout, Linear, Module, Param, Relu, Sequential, Walk},
    no_grad,
    optim::{Adam, Optimizer, Slots, UpdateRule},
    tensor,
};
use std::collections::BTreeMap;

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S0.15",
        target: "64 rows in one call at least 10x the throughput of 64 calls, with the same bits; create_batches covers every row once",
        cost: CheckCost::Clocked,
        check: batches,
        plants: &[],
    },
    RowCheck {
        id: "S0.17",
        target: "a stable order; the optimizer holds the same handles; names and values survive a checkpoint",
        cost: CheckCost::Cheap,
        check: parameters,
        plants: &[],
    },
    RowCheck {
        id: "S0.35",
        target: "an optimizer step allocates 0 bytes for parameters and slots, 64 for each of three numbers that it counts in; a view taken before the step keeps the old value, one taken after it shows the new",
        cost: CheckCost::Cheap,
        check: in_place,
        plants: &[
            plant("old values that are held while a step runs", "three numbers more than before"),
            plant("a view that follows the parameter", "a view from before keeps the old value"),
            plant("a view from after that shows the old value", "a view from after shows the new value"),
        ],
    },
    RowCheck { id: "S1.12", target: "the sum of all storages, shared ones once", cost: CheckCost::Cheap, check: memory_usage, plants: &[] },
    RowCheck {
        id: "S1.54",
        target: "the derive gives parameters, names, modes and moves; dropout follows the mode",
        cost: CheckCost::Cheap,
        check: modules,
        plants: &[],
    },
    RowCheck {
        id: "S1.55",
        target: "at most 40 lines in the docs, where it is compiled and run; one defined here trains",
        cost: CheckCost::Cheap,
        check: own_optimizer,
        plants: &[],
    },
];

#[derive(Module)]
struct Net {
    hidden: Linear,
    drop: Dropout,
    head: Linear,
    steps: Param,
}
impl Net {
    fn new() -> Result<Net> {
        Ok(Net { hidden: Linear::new(50, 30)?, drop: Dropout::new(0.5)?, head: Linear::new(30, 10)?, steps: Param::buffer(&Tensor::zeros(()))? })
    }
}
impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.head.forward(&self.drop.forward(&self.hidden.forward(x)?.relu())?)
    }
}
fn bits(t: &Tensor) -> Result<Vec<u32>> {
    Ok(t.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect())
}

fn batches() -> Checked {
    // One thread: what is gained is the batch's.
    Context::new(CpuBackend::builder().threads(1))?.device().scoped(|| {
        let model = Net::new()?;
        model.eval();
        let x = Tensor::randn([64, 50], &Rng::new(1)?);
        x.materialize()?;
        let rows = (0..64).map(|k| Ok(Tensor::from_vec(x.narrow(0, k, 1).to_vec::<f32>()?, [1, 50]))).collect::<Result<Vec<_>>>()?;
        let one = |x: &Tensor| no_grad(|| model.forward(x).and_then(|y| y.to_vec::<f32>()));
        let singles: Vec<f32> = rows.iter().map(one).collect::<Result<Vec<_>>>()?.concat();
        let together = one(&x)?;
        let same = together.iter().map(|v| v.to_bits()).eq(singles.iter().map(|v| v.to_bits()));
        let (at_once, one_by_one) = least_of_two(50, || drop(one(&x)), || rows.iter().for_each(|row| drop(one(row))));
        let mut seen: Vec<usize> = create_batches(1000, 64, 1, 0).concat();
        let sizes: Vec<usize> = create_batches(1000, 64, 1, 0).iter().map(Vec::len).collect();
        seen.sort_unstable();
        let covers = seen.iter().copied().eq(0..1000) && sizes[..15] == [64; 15] && sizes[15..] == [40];
        let ratio = one_by_one / at_once;
        Ok(Seen::all(
            &[("the same bits", same), ("at least 10x", ratio >= 10.0), ("create_batches", covers)],
            format!("64 rows at once {:.1} us, one by one {:.1} us, ratio {ratio:.1}; bits equal: {same}", at_once * 1e6, one_by_one * 1e6),
        ))
    })
}
fn parameters() -> Checked {
    let model = Net::new()?;
    let names = || model.named_parameters().into_iter().map(|(n, _)| n).collect::<Vec<_>>();
    let first = names();
    let stable = first == ["hidden.weight", "hidden.bias", "head.weight", "head.bias"] && (0..10).all(|_| names() == first);
    let mut adam = Adam::new(1e-2).over(model.parameters());
    let held = adam.parameters().iter().zip(model.parameters()).all(|(a, b)| a.same(&b)) && adam.parameters().len() == 4;
    let x = Tensor::randn([8, 50], &Rng::new(1)?);
    adam.step(&model.forward(&x)?.square().mean(..).backward()?)?;
    let slots: Vec<String> = adam.state_dict().into_iter().map(|(n, _)| n).collect();
    let path = std::env::temp_dir().join(format!("adamant-features-{}.safetensors", std::process::id()));
    let saved = safetensors::save(&path, model.state_dict(), &BTreeMap::new());
    let read = saved.and_then(|()| safetensors::SafeTensors::open(&path)).and_then(|file| {
        let state = file.names().into_iter().map(|n| Ok((n.clone(), file.tensor(&n, device()?)?))).collect::<Result<Vec<_>>>()?;
        let other = Net::new()?;
        other.load_state_dict(&state)?;
        let pairs = model.state_dict().into_iter().zip(other.state_dict());
        pairs.map(|((n, a), (m, b))| Ok(n == m && bits(&a)? == bits(&b)?)).collect::<Result<Vec<bool>>>()
    });
    let _ = std::fs::remove_file(&path);
    let read = read?;
    Ok(Seen::all(
        &[
            ("a stable order", stable),
            ("the optimizer's handles", held),
            ("slots are named after parameters", first.iter().all(|n| slots.iter().any(|s| s.starts_with(&format!("{n}."))))),
            ("a checkpoint", read.len() == 5 && read.iter().all(|same| *same)),
        ],
        format!("{}; slots {}; {} values came back bit for bit", first.join(" "), slots.len(), read.len()),
    ))
}
fn in_place() -> Checked {
    let device = device()?;
    let model = Sequential::new().add(Linear::new(256, 256)?).add(Relu::new()).add(Linear::new(256, 10)?);
    let mut adam = Adam::new(1e-2).over(model.parameters());
    let x = Tensor::randn([64, 256], &Rng::new(1)?);
    let mut extra = Vec::new();
    let mut asked = 0;
    for k in 0..20 {
        let grads = model.forward(&x)?.square().mean(..).backward()?;
        grads.tensors().try_for_each(Tensor::materialize)?;
        // Whoever holds the old values needs memory beside them.
        let _held: Vec<Tensor> =
            if planted("old values that are held while a step runs") { model.parameters().iter().map(|p| p.detached()).collect() } else { Vec::new() };
        let before = device.memory();
        device.pool().reset_peak();
        adam.step(&grads)?;
        model.parameters().iter().try_for_each(|p| p.detached().materialize())?;
        let after = device.memory();
        // The first step makes the slots; the second is planned with them.
        if k >= 3 {
            extra.push(after.peak_bytes - before.live_bytes);
            asked += after.system_allocations - before.system_allocations;
        }
    }
    let p = &model.parameters()[0];
    let view = || p.detached().t().narrow(0, 3, 1);
    let (held, old) = (view(), view().to_vec::<f32>()?);
    adam.step(&model.forward(&x)?.square().mean(..).backward()?)?;
    let before = if planted("a view that follows the parameter") { view() } else { held.clone() };
    let after = if planted("a view from after that shows the old value") { held } else { view() };
    let (before, after) = (before.to_vec::<f32>()?, after.to_vec::<f32>()?);
    let most = extra.iter().copied().max().unwrap_or(0);
    Ok(Seen::all(
        &[
            // The step's number and two that follow from it are on the device, a block of 64 bytes each.
            ("three numbers more than before", most <= 3 * 64),
            ("nothing asked of the system", asked == 0),
            ("a view from before keeps the old value", before == old),
            ("a view from after shows the new value", after.iter().zip(&old).all(|(a, b)| a != b)),
        ],
        format!(
            "Adam over {} bytes of parameters: {most} extra bytes at the peak, {asked} system allocations; a view begins with {} before the step, \
             with {} where it was held and {} where it is taken after it",
            model.memory_usage(),
            old[0],
            before[0],
            after[0]
        ),
    ))
}
fn memory_usage() -> Checked {
    #[derive(Module)]
    struct Tied {
        first: Linear,
        again: Linear,
        table: Tensor,
        steps: Param,
    }
    let first = Linear::new(100, 100)?;
    let model = Tied { again: first.clone(), first, table: tensor![1.0, 2.0, 3.0], steps: Param::buffer(&tensor![0; i64])? };
    let want = (100 * 100 + 100) * 4 + 3 * 4 + 8;
    let alone = model.first.memory_usage();
    Ok(Seen::new(
        model.memory_usage() == want && alone == 40_400 && model.again.memory_usage() == alone && model.steps.meta().bytes() == 8 && model.table.rank() == 1,
        format!("{} bytes, {want} counted by hand: one tied layer of {alone} bytes once, a constant of 12, a buffer of 8", model.memory_usage()),
    ))
}
fn modules() -> Checked {
    let net = Net::new()?;
    let model = Sequential::new().add(net).add(Relu::new()).add_named("last", Linear::new(10, 2)?);
    let names: Vec<String> = model.named_parameters().into_iter().map(|(n, _)| n).collect();
    let named = names.first().is_some_and(|n| n == "0.hidden.weight") && names.last().is_some_and(|n| n == "last.bias") && names.len() == 6;
    let buffers: Vec<String> = model.named_buffers().into_iter().map(|(n, _)| n).collect();
    let x = Tensor::ones([4, 50]);
    let run = || model.forward(&x).and_then(|y| bits(&y));
    model.train();
    let training = model.is_training() && run()? != run()?;
    model.eval();
    let evaluating = !model.is_training() && run()? == run()?;
    let before: Vec<Vec<u32>> = model.parameters().iter().map(|p| bits(&p.detached())).collect::<Result<_>>()?;
    model.to(Device::reference())?;
    let moved = model.leaves().iter().all(|(_, p)| p.meta().device == Device::reference());
    let kept = model.parameters().iter().map(|p| bits(&p.detached())).collect::<Result<Vec<_>>>()? == before;
    Ok(Seen::all(
        &[("names", named && buffers == ["0.steps"]), ("train", training), ("eval", evaluating), ("moves with its values", moved && kept)],
        format!("{}; train: dropout draws, eval: it does not; moved to another device with the same bits", names.join(" ")),
    ))
}
/// Signed momentum with decay of the weights (Lion's idea, without its second mean).
#[derive(Clone)]
struct SignMomentum {
    lr: f64,
    beta: f64,
}
impl UpdateRule for SignMomentum {
    fn name(&self) -> &'static str {
        "SignMomentum"
    }
    fn lr(&self) -> f64 {
        self.lr
    }
    fn set_lr(&mut self, lr: f64) {
        self.lr = lr;
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let mean = slots.zeros("mean")? * self.beta + g * (1.0 - self.beta);
        slots.set("mean", &mean)?;
        Ok(p - mean.sign() * self.lr)
    }
}
fn own_optimizer() -> Checked {
    let source = std::fs::read_to_string(crate::workspace::root().join("crates/optim/src/optimizer.rs"))?;
    let docs: Vec<&str> = source.lines().skip_while(|l| l.trim() != "/// ```").skip(1).take_while(|l| l.trim() != "/// ```").collect();
    let lines = docs.iter().filter(|l| !l.trim_start_matches("///").trim().is_empty()).count();
    let in_docs = docs.iter().any(|l| l.contains("impl UpdateRule for"));
    let model = Sequential::new().add(Linear::new(4, 16)?).add(Relu::new()).add(Linear::new(16, 1)?);
    let mut own = SignMomentum { lr: 0.01, beta: 0.9 }.over(model.parameters());
    let x = Tensor::randn([64, 4], &Rng::new(1)?);
    let y = x.sum(1).reshape([64, 1]).tanh();
    let mut losses = Vec::new();
    for _ in 0..200 {
        let loss = (model.forward(&x)? - &y).square().mean(..);
        own.step(&loss.backward()?)?;
        losses.push(loss.item::<f32>()?);
    }
    let (first, last) = (losses[0], losses[losses.len() - 1]);
    Ok(Seen::all(
        &[("at most 40 lines in the docs", in_docs && (1..=40).contains(&lines)), ("it trains", last < first / 10.0)],
        format!("{lines} lines in the docs, run by cargo xtask test; here {} brings the loss from {first:.3} to {last:.4}", own.name()),
    ))
}
