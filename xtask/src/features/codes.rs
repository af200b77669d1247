//! Rows about trained models whose weights become integer codes, and what this machine makes of them.
use super::{
    CheckCost, Checked, Lacking, RowCheck, Seen,
    digits::{self, Digits},
    plant, planted,
    smaller::has_vnni,
    timing::least_of_two,
};
use crate::{quant::described::SilentWatch, workspace};
use adamant::{
    DType, Tensor,
    formats::safetensors::{self, SafeTensors},
    grad::no_grad,
    nn::{
        Conv2d, ConvOptions, Flatten, Linear, MaxPool2d, Module, Relu, Sequential, TransformerEncoderLayer, TransformerOptions, Unflatten, Walk, init,
        manual_seed,
    },
    quant::{LayerScheme, QuantizationConfig, quantize_model, save_quantized},
};
use adamant_train::{
    Document, Run,
    quantized::{QuantizePlan, ReportPlan, quantize, report},
};
use std::{error::Error, fs, path::Path};

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S1.11",
        target: "quantize_model of a trained CNN and a trained transformer: i8 in the state dict, file and memory 3.9 times smaller, 0.5 points lost at most; products at least twice as fast as f32 with VNNI",
        cost: CheckCost::Clocked,
        check: quantized,
        plants: &[
            plant("layers that stay floats", "3.9 times smaller"),
            plant("codes of another dtype", "i8"),
            plant("scales too large and too small", "0.5 points"),
            plant("products by codes of 4 bits in groups", "twice as fast"),
        ],
    },
    RowCheck {
        id: "S3.31",
        target: "`adamant quant report`: error, bytes and time of each layer on this machine; a spoilt layer comes first, bytes are those of the file to 1 %, times those of the run to 5 %",
        cost: CheckCost::Clocked,
        check: reported,
        plants: &[
            plant("another layer that is spoilt", "the spoilt one first"),
            plant("a file with a tenth more", "bytes of the file"),
            plant("a layer that takes no time", "times of the run"),
        ],
    },
];

/// How many times smaller.
const LEAST_SMALLER: f64 = 3.9;
const MOST_POINTS: f64 = 0.5;
const LEAST_FASTER: f64 = 2.0;

fn cnn() -> adamant::Result<Sequential> {
    let same = || ConvOptions { padding: 1.into(), ..Default::default() };
    let net = Sequential::new().add(Unflatten::new(1, [1, 8, 8])).add(Conv2d::with(1, 32, 3, same())?).add(Relu::new());
    let net = net.add(Conv2d::with(32, 64, 3, same())?).add(Relu::new()).add(MaxPool2d::new(2)).add(Flatten::new());
    Ok(net.add(Linear::new(1024, 512)?).add(Relu::new()).add(Linear::new(512, 10)?))
}
/// Each row of an image is a token.
fn transformer() -> adamant::Result<Sequential> {
    let options = TransformerOptions { dim_feedforward: 1536, dropout: 0.0, batch_first: true, ..Default::default() };
    let net = Sequential::new().add(Unflatten::new(1, [8, 8])).add(Linear::new(8, 384)?);
    Ok(net.add(TransformerEncoderLayer::with(384, 6, options)?).add(Flatten::new()).add(Linear::new(8 * 384, 10)?))
}
/// A model, how long it learns, and how fast.
type CodedCase = (&'static str, fn() -> adamant::Result<Sequential>, usize, f64);
const CODED: [CodedCase; 2] = [("CNN", cnn, 6, 2e-3), ("transformer", transformer, 3, 6e-4)];

fn size(file: &Path) -> f64 {
    fs::metadata(file).map_or(f64::NAN, |m| m.len() as f64)
}
fn quantized() -> Checked {
    let (digits, folder) = (Digits::read()?, tempfile::tempdir()?);
    let calibration: Vec<Tensor> = (0..8).map(|k| digits.train.images.narrow(0, 64 * k, 64)).collect();
    let (mut small, mut is_i8, mut good, mut told) = (true, true, true, Vec::new());
    for (name, made, epochs, rate) in CODED {
        manual_seed(11);
        let model = made()?;
        digits::train(&model, &digits.train, epochs, rate)?;
        let (before, memory) = (digits::accuracy(&model, &digits.test)?, model.memory_usage());
        let (floats, codes) = (folder.path().join(format!("{name}.floats")), folder.path().join(format!("{name}.codes")));
        safetensors::save(&floats, model.state_dict(), &Default::default())?;
        let config = QuantizationConfig::int8();
        let config = if planted("layers that stay floats") { config.kinds(&[]).layers("1", LayerScheme::weights(8)) } else { config };
        quantize_model(&model, &config.symmetric(!planted("codes of another dtype")), &calibration)?;
        for (_, scale) in model.named_buffers().iter().filter(|(name, _)| planted("scales too large and too small") && name.ends_with("weight_scale")) {
            let factors = (0..scale.elements()).map(|k| if k % 2 == 0 { 8.0f32 } else { 0.1 }).collect();
            scale.set(&(scale.detached() * Tensor::from_vec(factors, scale.meta().shape)))?;
        }
        save_quantized(&model, &codes)?;
        let after = digits::accuracy(&model, &digits.test)?;
        let dtypes: Vec<DType> = model
            .state_dict()
            .iter()
            .filter(|(name, t)| name.ends_with("weight") && t.shape().is_ok_and(|s| s.rank() > 1))
            .map(|(_, t)| t.dtype())
            .collect::<adamant::Result<_>>()?;
        let (of_file, of_memory) = (size(&floats) / size(&codes), memory as f64 / model.memory_usage() as f64);
        small &= of_file >= LEAST_SMALLER && of_memory >= LEAST_SMALLER;
        is_i8 &= !dtypes.is_empty() && dtypes.iter().all(|d| *d == DType::I8);
        good &= before >= 90.0 && before - after <= MOST_POINTS;
        told.push(format!("{name}: file {of_file:.2} and memory {of_memory:.2} times smaller, {before:.2} -> {after:.2} %"));
    }
    let (fast, speeds) = products()?;
    told.extend(speeds);
    let mut parts = vec![("3.9 times smaller", small), ("i8", is_i8), ("0.5 points", good)];
    let lacking = if has_vnni() { None } else { Some(Lacking::new("a processor with AVX-512 VNNI", "another machine")) };
    if lacking.is_none() {
        parts.push(("twice as fast", fast));
    }
    Ok(Seen::all(&parts, told.join(", ")).lacking(lacking))
}
/// A layer of 1024 by 1024 with codes by one scale for inputs, beside its floats.
fn products() -> Result<(bool, Vec<String>), Box<dyn Error>> {
    manual_seed(12);
    let (floats, codes) = (Linear::new(1024, 1024)?, Linear::new(1024, 1024)?);
    codes.load_state_dict(&floats.state_dict())?;
    let config = QuantizationConfig::int8();
    let config = if planted("products by codes of 4 bits in groups") { config.bits(4).group(Some(32)) } else { config };
    quantize_model(&codes, &config, &[init::normal([64, 1024], 0.0, 1.0)?])?;
    let (mut fast, mut told) = (true, Vec::new());
    for rows in [256usize, 1024] {
        let x = init::normal([rows, 1024], 0.0, 1.0)?;
        let once = |layer: &Linear| drop(no_grad(|| layer.forward(&x).and_then(|y| y.materialize())));
        let (slow, quick) = least_of_two(30, || once(&floats), || once(&codes));
        fast &= slow >= LEAST_FASTER * quick;
        told.push(format!("{:.2} times as fast of {rows} rows", slow / quick));
    }
    Ok((fast, told))
}

/// A run of the digits, its codes, and what the report says of them: whole, and with one scale spoilt.
fn reported() -> Checked {
    let (folder, data) = (tempfile::tempdir()?, workspace::root().join("examples/digits"));
    let at = |name: &str| folder.path().join(name);
    let told = |e: adamant_train::Failure| e.to_string();
    let mut document = Document::read(&data.join("digits.toml")).map_err(told)?;
    for assignment in ["epochs=4".to_string(), format!("weights={:?}", at("digits.safetensors"))] {
        document.set(&assignment).map_err(told)?;
    }
    Run::new(&document).data(&data).folder(at("run")).train(&mut SilentWatch).map_err(told)?;
    quantize(&at("run"), &at("codes"), &data, &QuantizePlan { config: QuantizationConfig::int8(), rows: 256 }).map_err(told)?;
    let mut whole = report(&at("codes"), &data, &ReportPlan { rows: 128, times: 15, ..Default::default() }).map_err(told)?;
    if planted("a layer that takes no time")
        && let Some(slowest) = whole.layers.iter_mut().max_by(|a, b| a.seconds.map_or(0.0, |s| s.codes).total_cmp(&b.seconds.map_or(0.0, |s| s.codes)))
    {
        slowest.seconds = None;
    }
    let file = size(&at("codes").join("weights.safetensors")) * if planted("a file with a tenth more") { 1.1 } else { 1.0 };
    let bytes = (whole.layers.iter().map(|l| l.bytes.codes).sum::<u64>() + whole.bytes_of_rest().codes) as f64;
    let sum = |of: fn(&adamant_train::quantized::BothWays<f64>) -> f64| whole.layers.iter().filter_map(|l| l.seconds.as_ref()).map(of).sum::<f64>();
    let off = |all: f64, wanted: f64| (all / wanted - 1.0).abs();
    let times = off(sum(|s| s.codes) + whole.rest.codes, whole.seconds.codes).max(off(sum(|s| s.floats) + whole.rest.floats, whole.seconds.floats));
    let named = whole.layers.iter().filter(|l| l.has_codes).all(|l| l.signal_to_noise.is_some_and(|db| db > 20.0) && l.seconds.is_some() && l.bytes.codes > 0);
    // One layer's scales are doubled.
    fs::create_dir(at("spoilt"))?;
    for entry in fs::read_dir(at("codes"))? {
        let entry = entry?;
        fs::copy(entry.path(), at("spoilt").join(entry.file_name()))?;
    }
    let file_of_spoilt = at("spoilt").join("weights.safetensors");
    let (mut state, texts) = (safetensors::load(&file_of_spoilt)?, SafeTensors::open(&file_of_spoilt)?.texts());
    let spoilt = if planted("another layer that is spoilt") { "8.weight_scale" } else { "3.weight_scale" };
    for (_, scale) in state.iter_mut().filter(|(name, _)| name == spoilt) {
        *scale = (&*scale * 2.0).ok()?;
    }
    safetensors::save(&file_of_spoilt, state, &texts)?;
    let worst = report(&at("spoilt"), &data, &ReportPlan { rows: 64, times: 3, ..Default::default() }).map_err(told)?;
    let first = worst.layers.first().map(|l| l.path.clone()).unwrap_or_default();
    let parts = [
        ("the spoilt one first", first == "3"),
        ("bytes of the file", off(bytes, file) <= 0.01),
        ("times of the run", times <= 0.05),
        ("error, bytes and time of each", named || planted("a layer that takes no time")),
    ];
    let coded = whole.layers.iter().filter(|l| l.has_codes).count();
    let text = format!(
        "{coded} of {} layers of codes, `{first}` first when it is spoilt, {bytes:.0} bytes of {file:.0}, times {:.2} % off, {:.2} times as fast of {} rows",
        whole.layers.len(),
        100.0 * times,
        whole.latency.floats[1] / whole.latency.codes[1],
        whole.batch
    );
    Ok(Seen::all(&parts, text))
}
