//! `adamant quant report` on trained models: a layer whose scale was spoilt comes first, bytes of layers are those of the file, times
//! of layers are those of the run, and every layer is named.
use super::described::JudgedExample;
use crate::exit::Exit;
use adamant::{
    DType, Tensor,
    formats::safetensors::{self, SafeTensors},
    nn::Walk,
};
use adamant_conformance::random::Random;
use adamant_train::{
    Failure, Trained,
    quantized::{CodesReport, QuantizationConfig, QuantizePlan, ReportPlan, WeightMethod, quantize, report},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Which models, and how many scales are spoilt.
#[derive(clap::Args)]
pub struct SpoiltReportOptions {
    /// Only models whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Folder of the real data sets
    #[arg(long)]
    data: Option<PathBuf>,
    /// Folder that trained models are kept in; they are trained where it lacks them
    #[arg(long, default_value = "target/quant")]
    runs: PathBuf,
    /// How many scales are spoilt in each model of codes, one at a time
    #[arg(long, default_value_t = 6)]
    n: usize,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Say of another layer that it was spoilt, charge a tenth of the bytes and of the time to nothing, and show that it is found
    #[arg(long)]
    plant: bool,
}
const MODELS: [JudgedExample; 3] = [
    JudgedExample { name: "digits", text: include_str!("../../../examples/digits/digits.toml"), data: None },
    JudgedExample { name: "mnist", text: include_str!("../../../examples/mnist/mnist.toml"), data: Some("mnist-20k") },
    JudgedExample { name: "chargpt", text: include_str!("../../../examples/chargpt/chargpt.toml"), data: Some("tinyshakespeare") },
];
const SCHEMES: [(&str, &str, DType); 4] =
    [("int8-static", "rtn", DType::F32), ("int8-dynamic", "rtn", DType::F32), ("w4", "gptq", DType::F16), ("w3", "rtn", DType::F32)];
/// Of the file, and of the run.
const BYTES: f64 = 0.01;
const SECONDS: f64 = 0.05;

pub fn run(options: &SpoiltReportOptions) -> Result<Exit, String> {
    let mut wrong = 0;
    for model in MODELS.iter().filter(|m| m.name.contains(&options.only)) {
        let Some(data) = model.data(options.data.as_deref()) else {
            println!("skipped {}: --data names no folder of data sets", model.name);
            continue;
        };
        let run = model.trained(&data, 1, &options.runs).map_err(|e| e.to_string())?;
        for (k, (scheme, method, scales)) in SCHEMES.into_iter().enumerate() {
            // A language model's test part is long: two schemes say as much.
            if model.name == "chargpt" && k % 2 == 0 {
                continue;
            }
            let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
            let config =
                QuantizationConfig::named(scheme).and_then(|c| Ok(c.scales(scales).method(WeightMethod::named(method)?))).map_err(|e| e.to_string())?;
            let codes = folder.path().join("codes");
            quantize(&run, &codes, &data, &QuantizePlan { config: config.clone(), rows: 128 }).map_err(|e| e.to_string())?;
            let mut told = judge(options, &codes, &data, &folder.path().join("spoilt"), k as u64).map_err(|e| format!("{} {scheme}: {e}", model.name))?;
            if !options.plant {
                let faster = folder.path().join("faster");
                match quantize(&run, &faster, &data, &QuantizePlan { config: config.only_faster(true), rows: 128 }) {
                    Ok(_) => told.push(none_slower(&faster, &data).map_err(|e| e.to_string())?),
                    // Said by name, and nothing is written.
                    Err(e) => told.push((e.to_string().contains("no layer is faster") && !faster.exists(), e.to_string())),
                }
            }
            for (passed, line) in told {
                let passed = passed != options.plant;
                wrong += usize::from(!passed);
                println!("{} {} {scheme} {method}: {line}", if passed { "passed" } else { "failed" }, model.name);
            }
        }
    }
    println!("{wrong} wrong");
    Ok(if wrong == 0 { Exit::Passed } else { Exit::Failed })
}
fn judge(options: &SpoiltReportOptions, codes: &Path, data: &Path, spoilt: &Path, k: u64) -> Result<Vec<(bool, String)>, Failure> {
    let plan = ReportPlan { rows: 128, times: 15, ..Default::default() };
    let whole = report(codes, data, &plan)?;
    let mut told = sums(&whole, options.plant);
    let model = Trained::open(codes)?.model;
    let named = |path: &str| whole.layers.iter().any(|l| l.path == path && !l.what.is_empty());
    let unnamed: Vec<String> = model.modules().iter().filter(|m| !m.parameters.is_empty() && !named(m.path())).map(|m| m.path().to_string()).collect();
    if !options.plant {
        told.push((unnamed.is_empty(), format!("{} layers are named with a reason, not {unnamed:?}", whole.layers.len())));
    }
    let mut random = Random::new(options.seed).part(k);
    for _ in 0..options.n {
        let (layer, how) = spoil(codes, spoilt, &whole, &mut random)?;
        let first = report(spoilt, data, &ReportPlan { rows: 64, times: 3, ..Default::default() })?.layers.swap_remove(0);
        let wanted = if options.plant { format!("{layer}x") } else { layer.clone() };
        told.push((
            first.path == wanted,
            format!("{how} of `{layer}` is spoilt, and `{}` comes first ({:?}, {:?} dB)", first.path, first.signal_to_noise, first.worst_row),
        ));
    }
    Ok(told)
}
/// Of a model in which layers that are no faster as codes stayed floats: no layer of codes takes more time than as floats, but for what
/// clocks say.
fn none_slower(codes: &Path, data: &Path) -> Result<(bool, String), Failure> {
    const NOISE: f64 = 1.1;
    let plan = ReportPlan { rows: 64, times: 15, ..Default::default() };
    let whole = report(codes, data, &plan)?;
    let broken = |e: String| Failure::Input(e);
    let told = fs::read_to_string(codes.join("quantization.json")).map_err(|e| broken(e.to_string()))?;
    let told: serde_json::Value = serde_json::from_str(&told).map_err(|e| broken(e.to_string()))?;
    let paths = |key: &str| -> Vec<&str> {
        let layers = told["layers"].as_array().map(Vec::as_slice).unwrap_or_default();
        layers.iter().filter(|layer| !layer[key].is_null()).filter_map(|layer| layer["path"].as_str()).collect()
    };
    let (coded, left) = (paths("bits"), paths("left"));
    let of_codes = whole.layers.iter().filter(|l| coded.contains(&l.path.as_str()));
    let ratios = of_codes.filter_map(|l| l.seconds.as_ref().map(|s| (s.codes / s.floats, &l.path)));
    let (worst, path) = ratios.fold((0.0, String::new()), |worst, (ratio, path)| if ratio > worst.0 { (ratio, path.clone()) } else { worst });
    let line = format!("{} layers are codes, {} stayed floats; `{path}` takes the most of its time as floats, {worst:.2}", coded.len(), left.len());
    Ok((worst > 0.0 && worst <= NOISE, line))
}
fn sums(whole: &CodesReport, plant: bool) -> Vec<(bool, String)> {
    let lost = if plant { 0.9 } else { 1.0 };
    let file = fs::metadata(whole.folder.join("weights.safetensors")).map_or(0, |m| m.len()) as f64;
    let bytes = (whole.layers.iter().map(|l| l.bytes.codes).sum::<u64>() + whole.bytes_of_rest().codes) as f64 * lost;
    let of = |seconds: fn(&adamant_train::quantized::BothWays<f64>) -> f64, rest: f64, all: f64| {
        let sum = (whole.layers.iter().filter_map(|l| l.seconds.as_ref()).map(seconds).sum::<f64>() + rest) * lost;
        ((sum / all - 1.0).abs(), 1e6 * sum, 1e6 * all)
    };
    let mut told = vec![((bytes / file - 1.0).abs() <= BYTES, format!("layers and the rest have {bytes:.0} bytes, the file {file:.0}"))];
    let times = [of(|s| s.codes, whole.rest.codes, whole.seconds.codes), of(|s| s.floats, whole.rest.floats, whole.seconds.floats)];
    for ((off, sum, all), what) in times.into_iter().zip(["codes", "floats"]) {
        told.push((off <= SECONDS, format!("layers of {what} and the rest take {sum:.1} us, the run {all:.1} us, {:.2} % off", 100.0 * off)));
    }
    told
}
/// A copy of a folder of codes in which the scales of a layer's weights, of one of their rows, or of its inputs are others.
fn spoil(codes: &Path, spoilt: &Path, whole: &CodesReport, random: &mut Random) -> Result<(String, String), Failure> {
    let _ = fs::remove_dir_all(spoilt);
    let broken = |e: std::io::Error| Failure::Input(e.to_string());
    fs::create_dir_all(spoilt).map_err(broken)?;
    for entry in fs::read_dir(codes).map_err(broken)? {
        let entry = entry.map_err(broken)?;
        fs::copy(entry.path(), spoilt.join(entry.file_name())).map_err(broken)?;
    }
    let file = spoilt.join("weights.safetensors");
    let mut state = safetensors::load(&file)?;
    let texts = SafeTensors::open(&file)?.texts();
    let scales: Vec<usize> = (0..state.len()).filter(|k| state[*k].0.ends_with("_scale")).collect();
    let (name, tensor) = &mut state[*random.pick(&scales)];
    let path = whole.layers.iter().map(|l| l.path.as_str()).filter(|path| name.starts_with(&format!("{path}."))).max_by_key(|path| path.len());
    let path = path.unwrap_or_default().to_string();
    let (dtype, shape) = (tensor.dtype()?, tensor.shape()?);
    let mut values = tensor.to_vec_as::<f32>()?;
    let (how, rows, factor) = if name.ends_with("_input_scale") {
        ("the scale of inputs", 0..1, *random.pick(&[0.1, 30.0]))
    } else if random.one_in(2) {
        ("all scales", 0..values.len(), *random.pick(&[0.25, 0.5, 2.0, 4.0]))
    } else {
        let row = random.below(values.len());
        ("one scale", row..row + 1, *random.pick(&[0.1, 3.0, 10.0]))
    };
    values[rows].iter_mut().for_each(|v| *v *= factor);
    *tensor = Tensor::from_vec(values, shape).cast(dtype);
    let how = format!("{how} ({name} times {factor})");
    safetensors::save(&file, state, &texts)?;
    Ok((path, how))
}
