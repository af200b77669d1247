//! A folder of `python/goldens.py`, run here: how far each number is from the one in `expected.safetensors`.
#![allow(dead_code)]
use adamant_core::{DType, Device, Grads, Result, Tensor, no_grad};
use adamant_formats::safetensors::SafeTensors;
use adamant_models::{
    Bert, BertClassifier, BertInputs, BertMaskedLm, FromFolder, Gpt2, Gpt2Inputs, Gpt2LmHead, LoadWeights, ResNet, ResNetOptions, ResidualKind,
};
use adamant_nn::{Module, Walk};
use serde_json::Value;
use std::{collections::BTreeMap, error::Error, fs, path::Path};

pub type Told<T> = std::result::Result<T, Box<dyn Error>>;
/// What runs give by name: `out`, `loss`, ...
pub type Outputs = Vec<(&'static str, Tensor)>;

/// The largest distances that were seen, each as a share of the largest value that should be there, and where.
#[derive(Debug, Default)]
pub struct Distances {
    pub outputs: (f64, String),
    pub gradients: (f64, String),
    pub compared: usize,
}
/// Outputs, losses and running statistics: at most so far from PyTorch's, as a share of the tensor's largest value.
pub const OUTPUTS: f64 = 1e-4;
/// Gradients: likewise. What is nearly nothing (the bias of keys has no influence) is compared with 1e-4 of the largest
/// gradient of the model.
pub const GRADIENTS: f64 = 1e-3;
impl Distances {
    pub fn are_small(&self) -> bool {
        self.outputs.0 <= OUTPUTS && self.gradients.0 <= GRADIENTS
    }
    fn note(of: &mut (f64, String), distance: f64, name: &str) {
        if of.1.is_empty() || distance.is_nan() || distance > of.0 {
            *of = (distance, name.to_owned());
        }
    }
}
fn values(t: &Tensor) -> Told<Vec<f64>> {
    Ok(t.to_vec_as::<f64>()?)
}
fn distance(got: &[f64], want: &[f64], scale: f64) -> f64 {
    if got.len() != want.len() {
        return f64::INFINITY;
    }
    let far = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, |most: f64, d| if d.is_nan() { f64::INFINITY } else { most.max(d) });
    if far == 0.0 { 0.0 } else { far / scale }
}
fn largest(v: &[f64]) -> f64 {
    v.iter().fold(0.0, |most, x| x.abs().max(most))
}

/// What was written for a case, the dtype that it is computed in here, and whether gradients are those of evaluation mode.
pub struct Expected(SafeTensors, DType, bool);
impl Expected {
    pub fn open(folder: &Path, dtype: DType) -> Told<Expected> {
        let evaluating = case(folder)?["evaluating"] == true;
        Ok(Expected(SafeTensors::open(folder.join("expected.safetensors"))?, dtype, evaluating))
    }
    pub fn tensor(&self, name: &str) -> Told<Tensor> {
        Ok(self.0.tensor(name, Device::current()?)?)
    }
    pub fn input(&self, name: &str) -> Told<Option<Tensor>> {
        let name = format!("in.{name}");
        if !self.0.contains(&name) {
            return Ok(None);
        }
        let input = self.tensor(&name)?;
        Ok(Some(if input.dtype()?.is_float() { input.cast(self.1) } else { input }))
    }
    /// An input that every case of a network has.
    pub fn given(&self, name: &str) -> Told<Tensor> {
        self.input(name)?.ok_or_else(|| format!("there is no `in.{name}`").into())
    }
    fn named(&self, start: &str) -> impl Iterator<Item = (String, String)> {
        self.0.names().into_iter().filter_map(move |full| Some((full.strip_prefix(start)?.to_owned(), full.clone())))
    }
    /// Compares outputs, by the names that were written.
    fn outputs(&self, mode: &str, outputs: &Outputs, seen: &mut Distances) -> Told<()> {
        let got: BTreeMap<&str, &Tensor> = outputs.iter().map(|(name, t)| (*name, t)).collect();
        for (name, full) in self.named(mode) {
            let want = self.tensor(&full)?;
            let t = got.get(name.as_str()).ok_or_else(|| format!("`{full}` is not computed"))?;
            if t.shape()? != want.shape()? {
                return Err(format!("`{full}` has shape {} and not {}", t.shape()?, want.shape()?).into());
            }
            let want = values(&want)?;
            Distances::note(&mut seen.outputs, distance(&values(t)?, &want, largest(&want)), &full);
            seen.compared += want.len();
        }
        Ok(())
    }
    fn gradients(&self, model: &dyn Walk, grads: &Grads, seen: &mut Distances) -> Told<()> {
        let own: BTreeMap<String, _> = model.named_parameters().into_iter().collect();
        let written: Vec<(String, String)> = self.named("grad.").collect();
        if own.len() != written.len() {
            return Err(format!("{} parameters have gradients, {} were written", own.len(), written.len()).into());
        }
        let wanted = written.into_iter().map(|(name, full)| Ok((name, values(&self.tensor(&full)?)?))).collect::<Told<Vec<_>>>()?;
        let floor = wanted.iter().fold(0.0, |most: f64, (_, w)| most.max(w[0])) * 1e-4;
        for (name, want) in wanted {
            let p = own.get(&name).ok_or_else(|| format!("there is no parameter `{name}`"))?;
            let got = values(grads.of(&p.cell()).ok_or_else(|| format!("`{name}` has no gradient"))?)?;
            let step = got.len().div_ceil(want.len() - 2);
            let norm = got.iter().map(|x| x * x).sum::<f64>().sqrt();
            let kept: Vec<f64> = [largest(&got), norm].into_iter().chain(got.iter().step_by(step).copied()).collect();
            let scale = want[0].max(floor);
            // The norm is a number of its own size.
            let far = distance(&kept[1..2], &want[1..2], want[1].max(floor)).max(distance(&kept[2..], &want[2..], scale));
            Distances::note(&mut seen.gradients, far.max(distance(&kept[..1], &want[..1], scale)), &name);
            seen.compared += want.len();
        }
        Ok(())
    }
    fn buffers(&self, model: &dyn Walk, seen: &mut Distances) -> Told<()> {
        let state: BTreeMap<String, Tensor> = model.state_dict().into_iter().collect();
        for (name, full) in self.named("buffer.") {
            let want = self.tensor(&full)?;
            let got = state.get(&name).ok_or_else(|| format!("there is no buffer `{name}`"))?;
            if want.dtype()? == DType::I64 {
                if values(&want)? != values(got)? {
                    return Err(format!("`{name}` counts {got} batches and not {want}").into());
                }
                continue;
            }
            let want = values(&want)?;
            Distances::note(&mut seen.outputs, distance(&values(got)?, &want, largest(&want)), &full);
            seen.compared += want.len();
        }
        Ok(())
    }
}

/// Evaluation, training, gradients and buffers of a network whose weights are loaded.
pub fn compare(model: &dyn Walk, expected: &Expected, run: &dyn Fn(&Expected) -> Told<Outputs>) -> Told<Distances> {
    let mut seen = Distances::default();
    model.cast(expected.1)?;
    model.eval();
    let outputs = no_grad(|| run(expected))?;
    expected.outputs("eval.", &outputs, &mut seen)?;
    model.set_training(!expected.2);
    let outputs = run(expected)?;
    expected.outputs("train.", &outputs, &mut seen)?;
    let loss = outputs.iter().find(|(name, _)| *name == "loss").ok_or("there is no loss")?.1.clone();
    expected.gradients(model, &loss.backward()?, &mut seen)?;
    expected.buffers(model, &mut seen)?;
    Ok(seen)
}

pub fn case(folder: &Path) -> Told<Value> {
    Ok(serde_json::from_str(&fs::read_to_string(folder.join("case.json"))?)?)
}
/// Loads the network of a folder and compares all that was written about it with what is computed in a dtype.
pub fn replay(folder: &Path, dtype: DType) -> Told<Distances> {
    let (case, expected) = (case(folder)?, Expected::open(folder, dtype)?);
    match case["model"].as_str().unwrap_or_default() {
        "resnet" => {
            let model = resnet(&case)?;
            model.load_path(folder)?;
            compare(&model, &expected, &|e| {
                let out = model.forward(&e.given("x")?)?;
                let loss = cross_entropy(&out, &e.given("labels")?)?;
                Ok(vec![("out", out), ("loss", loss)])
            })
        }
        "gpt2" => {
            let model = Gpt2::from_folder(folder)?;
            compare(&model, &expected, &|e| {
                let out = with_gpt2_inputs(e, |ids, inputs| model.forward_with(ids, inputs))?;
                let loss = features_loss(&out, &e.given("weights")?)?;
                Ok(vec![("out", shown(&out, e)?), ("loss", loss)])
            })
        }
        "gpt2-lm" => {
            let model = Gpt2LmHead::from_folder(folder)?;
            compare(&model, &expected, &|e| {
                let labels = e.given("labels")?;
                let (out, loss) = with_gpt2_inputs(e, |ids, inputs| model.forward_loss(ids, &labels, inputs))?;
                Ok(vec![("out", shown(&out, e)?), ("loss", loss)])
            })
        }
        "bert" => {
            let model = Bert::from_folder(folder)?;
            compare(&model, &expected, &|e| {
                let out = with_bert_inputs(e, |ids, inputs| model.forward_with(ids, inputs))?;
                let (pooled, weights) = (model.pool(&out)?, e.given("weights")?);
                let loss = features_loss(&out, &weights)? + features_loss(&pooled, &weights.select(1, 0))?;
                Ok(vec![("out", out), ("pooled", pooled), ("loss", loss)])
            })
        }
        "bert-masked-lm" => {
            let model = BertMaskedLm::from_folder(folder)?;
            compare(&model, &expected, &|e| {
                let labels = e.given("labels")?;
                let (out, loss) = with_bert_inputs(e, |ids, inputs| model.forward_loss(ids, &labels, inputs))?;
                Ok(vec![("out", out), ("loss", loss)])
            })
        }
        "bert-classifier" => {
            let model = BertClassifier::from_folder(folder)?;
            compare(&model, &expected, &|e| {
                let labels = e.given("labels")?;
                let (out, loss) = with_bert_inputs(e, |ids, inputs| model.forward_loss(ids, &labels, inputs))?;
                Ok(vec![("out", out), ("loss", loss)])
            })
        }
        other => Err(format!("no network `{other}`").into()),
    }
}
pub fn with_gpt2_inputs<R>(e: &Expected, run: impl FnOnce(&Tensor, &Gpt2Inputs<'_>) -> Result<R>) -> Told<R> {
    let (mask, types, positions) = (e.input("attention_mask")?, e.input("token_type_ids")?, e.input("position_ids")?);
    let inputs = Gpt2Inputs { attention_mask: mask.as_ref(), token_type_ids: types.as_ref(), position_ids: positions.as_ref() };
    Ok(run(&e.given("ids")?, &inputs)?)
}
fn with_bert_inputs<R>(e: &Expected, run: impl FnOnce(&Tensor, &BertInputs<'_>) -> Result<R>) -> Told<R> {
    let (mask, types, positions) = (e.input("attention_mask")?, e.input("token_type_ids")?, e.input("position_ids")?);
    let inputs = BertInputs { attention_mask: mask.as_ref(), token_type_ids: types.as_ref(), position_ids: positions.as_ref() };
    Ok(run(&e.given("ids")?, &inputs)?)
}
/// What a padded token says is of no interest: libraries differ where it sees nothing at all.
fn shown(out: &Tensor, e: &Expected) -> Told<Tensor> {
    Ok(match e.input("attention_mask")? {
        Some(mask) => (out * mask.unsqueeze(-1).cast(out.dtype()?)).ok()?,
        None => out.clone(),
    })
}
fn features_loss(out: &Tensor, weights: &Tensor) -> Result<Tensor> {
    ((out * weights).sum(..) / out.shape()?[0] as f64).ok()
}
pub fn resnet(case: &Value) -> Told<ResNet> {
    let options = &case["options"];
    let number = |name: &str, default: usize| options.get(name).and_then(Value::as_u64).map_or(default, |n| n as usize);
    let plain = ResNetOptions::default();
    let dilate = options.get("replace_stride_with_dilation");
    let layers: [usize; 4] = serde_json::from_value(case["layers"].clone())?;
    let kind = if case["block"] == "basic" { ResidualKind::Basic } else { ResidualKind::Bottleneck };
    let options = ResNetOptions {
        classes: number("num_classes", plain.classes),
        in_channels: number("in_channels", plain.in_channels),
        width: number("width", plain.width),
        groups: number("groups", plain.groups),
        width_per_group: number("width_per_group", plain.width_per_group),
        replace_stride_with_dilation: dilate.map_or(Ok([false; 3]), |d| serde_json::from_value(d.clone()))?,
        small_images: options.get("small_images") == Some(&Value::Bool(true)),
        ..plain
    };
    Ok(ResNet::new(kind, layers, &options)?)
}
fn cross_entropy(logits: &Tensor, labels: &Tensor) -> Result<Tensor> {
    adamant_core::functional::cross_entropy(logits, labels, &Default::default()).ok()
}
