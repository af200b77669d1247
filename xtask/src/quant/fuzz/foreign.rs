//! Folders of GPTQ and AWQ and files of GGUF: good ones, with what reads them and what must hold then.
use super::{
    parts::{FileParts, GoodFiles},
    subjects::{Held, PackedSubject, ReusedModel, Wrong, held, told, wrongly},
};
use adamant::{
    DType, Result, Tensor,
    nn::{Linear, Module, Relu, Sequential, Walk, init, manual_seed},
    quant::{
        QuantizationConfig,
        exchange::{GptqFormat, load_awq, load_gguf, load_gptq, save_awq, save_gptq},
        load_quantized, quantize_model, save_quantized,
    },
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// What the package `gguf` wrote: blocks of each type of codes.
const GGUF: &[u8] = include_bytes!("../../../../crates/formats/tests/gguf/drawn.gguf");
/// The bytes of it that stand before the tensors.
const GGUF_HEAD: usize = 1800;
/// Its tensors of codes, with rows and columns.
const OF_GGUF: [(&str, usize, usize); 5] = [("q8_0", 3, 256), ("q4_0", 3, 256), ("q4_1", 3, 256), ("q4_k", 2, 512), ("q6_k", 2, 512)];

fn of_layers() -> Result<Sequential> {
    manual_seed(12);
    Ok(Sequential::new().add(Linear::new(32, 64)?).add(Relu::new()).add(Linear::no_bias(64, 32)?))
}
fn of_blocks() -> Result<Sequential> {
    manual_seed(12);
    OF_GGUF.iter().try_fold(Sequential::new(), |net, (_, rows, columns)| Ok(net.add(Linear::no_bias(*columns, *rows)?)))
}
fn same(name: &str) -> Option<String> {
    Some(name.to_string())
}
/// A model that was accepted: its scales are ones that can be, and what it computes is no error.
fn accepted(net: &Sequential, run: impl FnOnce(&Sequential) -> Result<()>, again: impl FnOnce(&Sequential) -> Result<Held>) -> std::result::Result<(), Wrong> {
    let look = || -> Result<Option<String>> {
        for (path, param) in net.leaves() {
            if path.ends_with("_scale") || path.ends_with("_minimum") {
                let numbers = param.detached().to_vec_as::<f32>()?;
                if let Some(s) = numbers.iter().find(|s| !s.is_finite() || (**s == 0.0 && path.ends_with("_scale"))) {
                    return Ok(Some(format!("`{path}` holds {s}")));
                }
            }
        }
        run(net)?;
        Ok((again(net)? != held(&net.state_dict())?).then(|| "written and read again it is another one".to_string()))
    };
    match look() {
        Ok(None) => Ok(()),
        Ok(Some(text)) => Err(wrongly(text)),
        Err(e) => Err(wrongly(e)),
    }
}
fn of_folder(folder: &Path, awq: bool, bits: u32, group: Option<usize>, symmetric: bool, mixed: bool) -> Result<PackedSubject> {
    let net = of_layers()?;
    let config = QuantizationConfig::weights(bits).group(group).symmetric(symmetric).scales(DType::F16);
    quantize_model(&net, &config, &[])?;
    let good = folder.join("exchange");
    let _ = fs::remove_dir_all(&good);
    if awq {
        save_awq(&net, &good)?
    } else {
        save_gptq(&net, &good, GptqFormat::V1)?
    }
    let json = fs::read(good.join("config.json")).map_err(told)?;
    let json = serde_json::from_slice(&json).map_err(|e| told(e.into()))?;
    let mut file = FileParts::read(&good.join("model.safetensors")).map_err(told)?;
    if mixed {
        // Groups of inputs by turns.
        for tensor in file.tensors.iter_mut().filter(|t| t.name.ends_with("g_idx")) {
            let groups = tensor.bytes.len() / 4 / group.unwrap_or(1).max(1);
            tensor.bytes = (0..tensor.bytes.len() / 4).flat_map(|k| ((k % groups.max(1)) as i32).to_le_bytes()).collect();
        }
    }
    let good = GoodFiles { file, folder: Some(("model.safetensors", "config.json", json)), other: None };
    let x = init::normal([3, 32], 0.0, 1.0)?;
    let reused = ReusedModel::new(of_layers);
    let load = move |net: &Sequential, from: &Path| if awq { load_awq(net, from, same) } else { load_gptq(net, from, same) };
    let read = move |place: &Path, again: &PathBuf, number: u64| {
        let ((), net) = reused.with(number, |net| load(net, &place.with_extension("folder")))?;
        let written = again.with_extension("exchange");
        let write_and_read = |net: &Sequential| {
            if awq {
                save_awq(net, &written)?
            } else {
                save_gptq(net, &written, GptqFormat::V2)?
            }
            let fresh = of_layers()?;
            load(&fresh, &written)?;
            held(&fresh.state_dict())
        };
        accepted(&net, |net| net.forward(&x)?.to_bytes().map(drop), write_and_read)
    };
    let name = format!(
        "{} {bits} bits{}{}{}",
        if awq { "awq" } else { "gptq" },
        if group.is_some() { " groups" } else { "" },
        if symmetric { "" } else { " affine" },
        if mixed { " g_idx" } else { "" }
    );
    Ok(PackedSubject { name, good, read: Box::new(read) })
}
fn of_gguf() -> PackedSubject {
    let good = GoodFiles { file: FileParts { tensors: Vec::new(), texts: Default::default() }, folder: None, other: Some((GGUF.to_vec(), GGUF_HEAD)) };
    let reused = ReusedModel::new(of_blocks);
    let named = |name: &str| OF_GGUF.iter().position(|(known, ..)| *known == name).map(|k| format!("{k}.weight"));
    let read = move |place: &Path, again: &PathBuf, number: u64| {
        let ((), net) = reused.with(number, |net| load_gguf(net, place, named))?;
        let run = |net: &Sequential| {
            let layers = net.modules().into_iter().filter_map(|m| m.parameter("weight").cloned());
            layers.zip(OF_GGUF).try_for_each(|(weight, (_, _, columns))| weight.linear(&Tensor::ones([2, columns]), None).to_bytes().map(drop))
        };
        let write_and_read = |net: &Sequential| {
            save_quantized(net, again)?;
            let fresh = of_blocks()?;
            load_quantized(&fresh, again)?;
            held(&fresh.state_dict())
        };
        accepted(&net, run, write_and_read)
    };
    PackedSubject { name: "gguf".into(), good, read: Box::new(read) }
}
/// All kinds.
pub fn subjects(folder: &Path) -> Result<Vec<PackedSubject>> {
    let mut all = vec![of_gguf()];
    for (bits, group, symmetric, mixed) in [
        (4, Some(16), true, false),
        (4, Some(16), false, true),
        (4, None, false, false),
        (3, Some(32), false, false),
        (8, Some(8), true, true),
        (8, Some(16), false, false),
    ] {
        all.push(of_folder(folder, false, bits, group, symmetric, mixed)?);
    }
    for (group, symmetric) in [(Some(16), false), (None, true)] {
        all.push(of_folder(folder, true, 4, group, symmetric, false)?);
    }
    Ok(all)
}
