//! The row about convolutions that do their batch norm's part.
use super::{CheckCost, Checked, RowCheck, Seen, plant, planted, timing::least_of_two};
use adamant::{
    Result, Tensor,
    grad::no_grad,
    nn::{BatchNorm2d, Conv2d, ConvOptions, Module, Relu, Sequential, Walk, init, manual_seed},
    quant::{fuse_modules, fuse_modules_on},
};
use adamant_core::schedule::take_stats;

pub const ROWS: &[RowCheck] = &[RowCheck {
    id: "S1.38",
    target: "fuse_modules of convolution, batch norm and ReLU: one kernel each, outputs equal to 1e-6, the norms' parameters and buffers gone; the speed is told",
    cost: CheckCost::Cheap,
    check: fused,
    plants: &[
        plant("a weight that is folded by 1.00001", "equal to 1e-6"),
        plant("a norm that stays", "parameters gone"),
        plant("a value kept before the ReLU", "one kernel"),
        plant("a list of other modules that is taken", "by name too"),
    ],
}];
/// Channels of each convolution, and places of an image.
const CHANNELS: [usize; 4] = [3, 32, 64, 64];
const SIDE: usize = 28;

/// Three times convolution, norm and ReLU, with statistics that say something.
fn net() -> Result<Sequential> {
    manual_seed(38);
    let mut net = Sequential::new();
    for pair in CHANNELS.windows(2) {
        let options = ConvOptions { bias: false, padding: 1.into(), ..Default::default() };
        net = net.add(Conv2d::with(pair[0], pair[1], 3, options)?).add(BatchNorm2d::new(pair[1])?).add(Relu::new());
    }
    for (path, p) in net.leaves().into_iter().filter(|(_, p)| p.meta().dtype.is_float() && p.meta().shape.rank() == 1) {
        let value = init::normal(p.meta().shape, 0.0, 0.5)?;
        p.set(&if path.ends_with("running_var") { value.abs() + 0.4 } else { value + 0.1 })?;
    }
    net.eval();
    Ok(net)
}
fn answer(net: &Sequential, x: &Tensor) -> Result<Tensor> {
    no_grad(|| net.forward(x))
}
/// Kernels of a forward pass that has been planned before.
fn kernels(net: &Sequential, x: &Tensor) -> Result<usize> {
    let run = || -> Result<()> {
        if planted("a value kept before the ReLU") {
            let parts = net.named_modules();
            let between = parts.iter().find(|(path, _)| path == "0").and_then(|(_, m)| m.site().ok().cloned());
            let hook =
                between.map(|site| site.register_forward_hook(|_, _, outputs| outputs.iter().try_for_each(Tensor::materialize).map(|()| None))).transpose()?;
            let done = answer(net, x)?.materialize();
            hook.iter().for_each(|hook| hook.remove());
            return done;
        }
        answer(net, x)?.materialize()
    };
    run()?;
    take_stats();
    run()?;
    Ok(take_stats().kernels as usize)
}
fn fused() -> Checked {
    let (before, after, named) = (net()?, net()?, net()?);
    let x = init::normal([2, CHANNELS[0], SIDE, SIDE], 0.0, 1.0)?;
    let report = if planted("a norm that stays") { fuse_modules(&after, &[["0", "1", "2"], ["3", "4", "5"]])? } else { fuse_modules_on(&after, &x)? };
    let lists: &[[&str; 3]] = &[["0", "1", "2"], ["3", "4", "5"], ["6", "7", "8"]];
    fuse_modules(&named, if planted("a list of other modules that is taken") { &lists[..2] } else { lists })?;
    let names: Vec<String> = after.state_dict().into_iter().map(|(name, _)| name).collect();
    let gone = names == ["0.weight", "0.bias", "3.weight", "3.bias", "6.weight", "6.bias"] && after.named_buffers().is_empty();
    let numbers = |net: &Sequential| net.state_dict().iter().map(|(_, t)| t.to_bytes()).collect::<Result<Vec<_>>>();
    let by_name = numbers(&named)? == numbers(&after)?;
    if planted("a weight that is folded by 1.00001") {
        let weight = after.get_submodule("3")?.parameter("weight").ok_or("no weight")?.clone();
        weight.set(&(weight.detached() * 1.00001))?;
    }
    let (wanted, got) = (answer(&before, &x)?, answer(&after, &x)?);
    let scale = wanted.abs().max().item::<f32>()?;
    let apart = (&got - &wanted).abs().max().item::<f32>()? / scale;
    let ran = kernels(&after, &x)?;
    let once = |net: &Sequential, x: &Tensor| drop(answer(net, x).and_then(|y| y.materialize()));
    let mut speeds = Vec::new();
    for batch in [1usize, 16] {
        let x = init::normal([batch, CHANNELS[0], SIDE, SIDE], 0.0, 1.0)?;
        let (slow, quick) = least_of_two(20, || once(&before, &x), || once(&after, &x));
        speeds.push(format!("{:.3} times as fast of {batch} images", slow / quick));
    }
    Ok(Seen::all(
        &[("equal to 1e-6", apart <= 1e-6), ("parameters gone", gone), ("one kernel", ran == CHANNELS.len() - 1), ("by name too", by_name)],
        format!(
            "{} norms folded, {apart:.1e} of the largest apart, {ran} kernels of {} convolutions, {} -> {} bytes, {}",
            report.folded().count(),
            CHANNELS.len() - 1,
            report.before,
            report.after,
            speeds.join(", ")
        ),
    ))
}
