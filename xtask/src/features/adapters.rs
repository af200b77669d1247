//! The row about adapters on the layers of a frozen model.
use super::{
    CheckCost, Checked, RowCheck, Seen,
    digits::{self, Digits},
    plant, planted,
};
use adamant::{
    Result, Tensor,
    grad::no_grad,
    nn::{Linear, Module, Param, Relu, Sequential, Walk, manual_seed},
    quant::{adapters::OutputAdapter, lora::LoraConfig},
};

pub const ROWS: &[RowCheck] = &[RowCheck {
    id: "B3.07",
    target: "FiLM, bottleneck and LoRA on each layer of a frozen model: they change nothing at first, win back what a change of the task lost, stay within their norm cap, and merged give the same outputs",
    cost: CheckCost::Cheap,
    check: adapted,
    plants: &[
        plant("a base that is trained too", "the base is frozen"),
        plant("a cap that is not held", "within the cap"),
        plant("a merged weight that is moved", "merged = adapted"),
        plant("adapters that do not learn", "they learn"),
    ],
}];
const CAP: f64 = 4.0;

fn model() -> Result<Sequential> {
    Ok(Sequential::new().add(Linear::new(64, 64)?).add(Relu::new()).add(Linear::new(64, 10)?))
}
fn answers(model: &Sequential, x: &Tensor) -> Result<Tensor> {
    let y = no_grad(|| model.forward(x))?;
    y.materialize()?;
    Ok(y)
}
fn apart(a: &Tensor, b: &Tensor) -> Result<f64> {
    Ok(f64::from((a - b).abs().max().item::<f32>()? / b.abs().max().item::<f32>()?))
}
/// What adapters end with: the parameters to train, and the merge.
type PutOn = fn(&Sequential) -> Result<(Vec<Param>, Box<dyn FnOnce() -> Result<()>>)>;
const KINDS: [(&str, PutOn); 3] = [
    ("FiLM", |model| {
        let config = OutputAdapter::film(["*"]);
        let on = if planted("a cap that is not held") { config } else { config.norm_cap(CAP) }.apply(model)?;
        Ok((on.parameters(), Box::new(move || on.merge())))
    }),
    ("bottleneck", |model| {
        let config = OutputAdapter::bottleneck(8, ["*"]);
        let on = if planted("a cap that is not held") { config } else { config.norm_cap(CAP) }.apply(model)?;
        Ok((on.parameters(), Box::new(move || on.merge())))
    }),
    ("LoRA", |model| {
        let on = LoraConfig::new(8, 8.0, ["*"]).apply(model)?;
        Ok((on.parameters(), Box::new(move || on.merge_and_unload())))
    }),
];
/// A model of the digits meets pale images: adapters are trained on these.
fn adapted() -> Checked {
    manual_seed(7);
    let (mut digits, base) = (Digits::read()?, model()?);
    digits::train(&base, &digits.train, 8, 3e-3)?;
    let whole = digits::accuracy(&base, &digits.test)?;
    for part in [&mut digits.train, &mut digits.test] {
        part.images = (&part.images * 0.5 + 0.3).ok()?;
        part.images.materialize()?;
    }
    let lost = digits::accuracy(&base, &digits.test)?;
    let x = &digits.test.images;
    let before = answers(&base, x)?;
    let (mut same_start, mut frozen, mut capped, mut merged, mut learn, mut told) = (true, true, true, true, true, Vec::new());
    for (name, put_on) in KINDS {
        let net = base.deep_copy()?;
        net.eval();
        let held: Vec<Param> = net.parameters();
        let old = held.iter().map(|p| p.detached().to_bytes()).collect::<Result<Vec<_>>>()?;
        let weights: Vec<Tensor> = net.named_parameters().into_iter().filter(|(n, _)| n.ends_with("weight")).map(|(_, p)| p.detached()).collect();
        let (parameters, merge) = put_on(&net)?;
        same_start &= apart(&answers(&net, x)?, &before)? == 0.0;
        if planted("a base that is trained too") {
            net.unfreeze();
        }
        if !planted("adapters that do not learn") {
            digits::train(&net, &digits.train, 10, if name == "LoRA" { 5e-3 } else { 2e-2 })?;
        }
        let originals: Vec<Vec<u8>> =
            net.state_dict().iter().filter(|(n, _)| n.ends_with("original") || n.ends_with(".bias")).map(|(_, t)| t.to_bytes()).collect::<Result<_>>()?;
        frozen &= originals.iter().all(|bytes| old.contains(bytes)) && !parameters.is_empty();
        let right = digits::accuracy(&net, &digits.test)?;
        let tuned = answers(&net, x)?;
        merge()?;
        if planted("a merged weight that is moved") {
            let weight = net.get_submodule("2")?.parameter("weight").ok_or("no weight")?.clone();
            weight.set(&(weight.detached() * 1.001))?;
        }
        let off = apart(&answers(&net, x)?, &tuned)?;
        merged &= off <= 1e-5;
        learn &= right >= lost + 0.3 * (whole - lost) && whole >= lost + 5.0;
        let now: Vec<Tensor> = net.named_parameters().into_iter().filter(|(n, _)| n.ends_with("weight")).map(|(_, p)| p.detached()).collect();
        let mut longest = 0.0f64;
        for (old, new) in weights.iter().zip(&now) {
            longest = longest.max(length_of_map(old, new, name)?);
        }
        // LoRA has no cap.
        capped &= name == "LoRA" || longest <= CAP * (1.0 + 1e-3);
        told.push(format!("{name} {right:.2} %, {longest:.2} long, merged {off:.1e} off"));
    }
    Ok(Seen::all(
        &[("nothing at first", same_start), ("the base is frozen", frozen), ("within the cap", capped), ("merged = adapted", merged), ("they learn", learn)],
        format!("{whole:.2} %, of pale images {lost:.2} %; {}", told.join("; ")),
    ))
}
/// The length of `A` of `(1 + A) W`, or at least a bound below it: of FiLM by each row's factor, else by what the weight was moved.
fn length_of_map(old: &Tensor, new: &Tensor, kind: &str) -> Result<f64> {
    let change = new - old;
    let squares = |t: &Tensor| t.square().sum(..).item::<f32>().map(f64::from);
    if kind == "FiLM" {
        let factors = ((&change * old).sum(1) / old.square().sum(1)).ok()?;
        return Ok(squares(&factors)?.sqrt());
    }
    // ‖A W‖ ≤ ‖A‖ ‖W‖
    Ok((squares(&change)? / squares(old)?).sqrt())
}
