//! Files of quantized models, read by NumPy without this library: integer codes are in them, and answers follow from them.
use super::StorageOptions;
use crate::exit::Exit;
use adamant::{
    DType, Tensor,
    nn::{Linear, Module, Relu, Sequential, Walk, init, manual_seed},
    quant::{InputScheme, LayerScheme, QuantizationConfig, observe::Observation, quantize_model, save_quantized},
};
use adamant_core::composite::packed::Packing;
use std::{path::Path, process::Command};

const SCRIPT: &str = include_str!("rebuild.py");
/// The largest difference from NumPy's answers, as a part of the largest answer. A code of an input that lies between two steps may
/// be another one there, since steps are of f32 here.
const CLOSE: f64 = 1e-5;
const ROWS: usize = 16;

pub fn run(options: &StorageOptions) -> Result<Exit, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let script = folder.path().join("rebuild.py");
    std::fs::write(&script, SCRIPT).map_err(|e| e.to_string())?;
    let has_numpy = Command::new(&options.python).args(["-c", "import numpy"]).output().is_ok_and(|o| o.status.success());
    if !has_numpy {
        eprintln!("skipped: {} has no NumPy (--python names another)", options.python.display());
        return Ok(Exit::Skipped);
    }
    let mut all = true;
    for (k, scheme) in schemes().into_iter().enumerate() {
        manual_seed(40 + k as u64);
        let told = one(options, folder.path(), &script, scheme).map_err(|e| format!("{scheme:?}: {e}"))?;
        let passed = if options.plant { told.difference > CLOSE } else { told.difference <= CLOSE && told.bits < LIMITS[k] && told.ratio > RATIOS[k] };
        all &= passed;
        println!(
            "{} {} bits{}{}, inputs {:?}: {:.2e} from NumPy's answers, {:.2} bits a weight, file {:.2} times smaller",
            if passed { "passed" } else { "failed" },
            scheme.packing.bits,
            scheme.packing.group.map_or(String::new(), |g| format!(" in groups of {g}")),
            if scheme.packing.symmetric { "" } else { " affine" },
            scheme.input,
            told.difference,
            told.bits,
            told.ratio
        );
    }
    Ok(if all { Exit::Passed } else { Exit::Failed })
}
fn schemes() -> Vec<LayerScheme> {
    let of = |bits, group, symmetric, input| LayerScheme { packing: Packing { bits, group, symmetric }, scales: DType::F32, input };
    vec![
        of(8, None, true, InputScheme::Float),
        of(8, None, true, InputScheme::PerToken { symmetric: true }),
        of(8, None, true, InputScheme::Calibrated(Observation::MinMax)),
        of(8, None, false, InputScheme::PerToken { symmetric: false }),
        of(8, Some(32), false, InputScheme::Float),
        of(4, Some(32), true, InputScheme::Float),
        of(4, Some(32), false, InputScheme::PerToken { symmetric: true }),
        of(3, None, true, InputScheme::Float),
        LayerScheme { scales: DType::F16, ..of(4, Some(32), true, InputScheme::Float) },
    ]
}
/// The most bits for each weight, scales and zero points with them, and the least ratio of the files.
const LIMITS: [f64; 9] = [8.5, 8.5, 8.5, 8.5, 9.5, 5.1, 5.4, 3.5, 4.7];
const RATIOS: [f64; 9] = [3.6, 3.6, 3.6, 3.6, 3.2, 5.8, 5.4, 8.0, 6.2];

/// What came of a file.
struct Rebuilt {
    difference: f64,
    bits: f64,
    ratio: f64,
}
fn one(options: &StorageOptions, folder: &Path, script: &Path, scheme: LayerScheme) -> Result<Rebuilt, String> {
    let told = |e: adamant::Error| e.to_string();
    let layers = || -> adamant::Result<Sequential> {
        Ok(Sequential::new().add(Linear::new(256, 320)?).add(Relu::new()).add(Linear::new(320, 128)?).add(Relu::new()).add(Linear::new(128, 32)?))
    };
    let net = layers().map_err(told)?;
    let x = init::normal([ROWS, 256], 0.0, 1.0).map_err(told)?;
    let (plain, file) = (folder.join("plain.safetensors"), folder.join("codes.safetensors"));
    adamant::formats::safetensors::save(&plain, net.state_dict(), &Default::default()).map_err(told)?;
    let report = quantize_model(&net, &QuantizationConfig::with(scheme), std::slice::from_ref(&x)).map_err(told)?;
    save_quantized(&net, &file).map_err(told)?;
    let y = net.forward(&x).map_err(told)?;
    let (inputs, outputs) = (folder.join("x"), folder.join("y"));
    let write = |path: &Path, t: &Tensor| std::fs::write(path, t.to_bytes().map_err(told)?).map_err(|e| e.to_string());
    write(&inputs, &x)?;
    write(&outputs, &y)?;
    let size = |path: &Path| std::fs::metadata(path).map(|m| m.len() as f64).map_err(|e| e.to_string());
    let ratio = size(&plain)? / size(&file)?;
    if options.plant {
        spoil(&file)?;
    }
    let output = Command::new(&options.python).arg(script).args([&file, &inputs, &outputs]).arg(ROWS.to_string()).output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
    let weights = 256.0 * 320.0 + 320.0 * 128.0 + 128.0 * 32.0;
    let held: usize = report.quantized().map(|l| if let adamant::quant::Outcome::Quantized { after, .. } = l.outcome { after } else { 0 }).sum();
    let codes = answer["bytes_of_codes"].as_f64().unwrap_or(0.0) * 8.0 / weights;
    if (codes - f64::from(scheme.packing.bits)).abs() > 0.01 {
        return Err(format!("{codes} bits of codes for each weight were found in the file"));
    }
    Ok(Rebuilt { difference: answer["difference"].as_f64().unwrap_or(f64::INFINITY), bits: held as f64 * 8.0 / weights, ratio })
}
/// Changes codes behind the writer.
fn spoil(file: &Path) -> Result<(), String> {
    let mut bytes = std::fs::read(file).map_err(|e| e.to_string())?;
    let n = bytes.len();
    bytes[n / 2..n / 2 + 4].iter_mut().for_each(|b| *b ^= 0x55);
    std::fs::write(file, bytes).map_err(|e| e.to_string())
}
