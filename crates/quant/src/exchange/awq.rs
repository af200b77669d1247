//! AWQ folders as AutoAWQ writes them and transformers reads them, of its GEMM version. A layer `X` has `X.qweight` (i32 `[in, out / 8]`:
//! eight codes of neighbouring outputs in a word, in the order 0, 2, 4, 6, 1, 3, 5, 7), `X.qzeros` `[groups, out / 8]` likewise, and
//! `X.scales` `[groups, out]`. What AWQ scales its inputs by is in the norms before already.
use super::{LayerTensors, WrittenWeight, config::FolderConfig, load_folder, raw::RawCodes, save_folder, written};
use adamant_core::{Error, ErrorKind, Origin, Result, Tensor};
use adamant_nn::Walk;
use serde_json::json;
use std::path::Path;

const LOAD: &str = "load_awq";
const SAVE: &str = "save_awq";
const OWN: &str = "quant_config.json";
const PARTS: [&str; 3] = ["qweight", "qzeros", "scales"];
/// The output, of eight, whose code is in so many fours of bits.
const ORDER: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];

/// Codes of a matrix of words, one after another.
fn unpacked(words: &[u32]) -> Vec<u8> {
    let each = words.iter().flat_map(|word| {
        let mut eight = [0u8; 8];
        ORDER.iter().enumerate().for_each(|(k, at)| eight[*at] = (word >> (4 * k)) as u8 & 15);
        eight
    });
    each.collect()
}
/// The other way.
fn packed(codes: &[u8]) -> Vec<i32> {
    let word = |eight: &[u8; 8]| ORDER.iter().enumerate().map(|(k, at)| u32::from(eight[*at]) << (4 * k)).sum::<u32>() as i32;
    codes.as_chunks::<8>().0.iter().map(word).collect()
}
/// `[columns, rows]` of `[rows, columns]`.
fn transposed(codes: &[u8], rows: usize, columns: usize) -> Vec<u8> {
    (0..rows * columns).map(|at| codes[at % rows * columns + at / rows]).collect()
}
/// Reads an AWQ folder into a model of floats, as [`load_gptq`](super::load_gptq) reads a GPTQ folder.
///
/// # Errors
/// No configuration, or one of another method, of other bits than 4, or of another version than `gemm`; a layer that lacks a tensor,
/// has one of another dtype or shape, or scales that are not finite; a layer that the model lacks, with the nearest; names that are missing
/// or unknown. Then the model is as it was.
#[track_caller]
pub fn load_awq(model: &(impl Walk + ?Sized), folder: impl AsRef<Path>, names: impl Fn(&str) -> Option<String>) -> Result<()> {
    let folder = folder.as_ref();
    let config = FolderConfig::read(LOAD, folder, OWN)?;
    config.check_method("awq")?;
    let bits = config.integer(&["bits", "w_bit"])?;
    if bits != 4 {
        return Err(config.refuse(format!("its codes have {bits} bits"), "AWQ folders have 4"));
    }
    if let Some(version) = config.text("version")?.filter(|version| !version.eq_ignore_ascii_case("gemm")) {
        let text = format!("its version is `{}`", adamant_formats::shown(version));
        return Err(config.refuse(text, "`gemm` is read: others are packed for one kernel of one program"));
    }
    let group = config.group(&["group_size", "q_group_size"])?;
    load_folder(LOAD, model, folder, &names, &PARTS, |tensors| read(tensors, group))
}
fn read(tensors: &LayerTensors<'_>, group: Option<usize>) -> std::result::Result<RawCodes, String> {
    let (words, [columns, width]) = tensors.words("qweight")?;
    let out = width.checked_mul(8).unwrap_or_default();
    if columns == 0 || out == 0 {
        return Err(format!("`qweight` {columns} x {width} has no codes"));
    }
    let size = group.unwrap_or(columns);
    if !columns.is_multiple_of(size) {
        return Err(format!("{columns} inputs are no multiple of groups of {size}"));
    }
    let groups = columns / size;
    let (zeros, found) = tensors.words("qzeros")?;
    if found != [groups, width] {
        return Err(format!("`qzeros` have shape {found:?}, and [{groups}, {width}] goes with `qweight`"));
    }
    let (scales, half) = tensors.scales([groups, out])?;
    let (codes, zeros) = (transposed(&unpacked(&words), columns, out), transposed(&unpacked(&zeros), groups, out));
    Ok(RawCodes { bits: 4, out, columns, group, codes, zeros, scales, half, order: None })
}
/// Writes a model whose linear layers hold codes of 4 bits, all in the same groups, as an AWQ folder: `model.safetensors`,
/// `quant_config.json`, and `quantization_config` in `config.json`, whose other fields stay what they are.
///
/// # Errors
/// A model without codes; codes of other layers, of other bits, with codes of inputs, of NF4, with minima, with columns in another order;
/// layers whose groups differ; outputs that are no multiple of 8; a folder that cannot be written.
#[track_caller]
pub fn save_awq(model: &(impl Walk + ?Sized), folder: impl AsRef<Path>) -> Result<()> {
    let (all, mut tensors) = written(SAVE, model, false)?;
    let here = Origin::here();
    let mut common = None;
    for WrittenWeight { path, weight } in &all {
        let told = |text: String| Error::at(SAVE, ErrorKind::Argument(format!("the weight `{path}`: {text}")), here);
        let packing = weight.packing();
        if packing.bits != 4 {
            return Err(told(format!("it has codes of {} bits", packing.bits)).hint("AWQ folders have 4: `save_gptq` writes 3 and 8 too"));
        }
        let group = *common.get_or_insert(packing.group);
        if group != packing.group {
            return Err(
                told(format!("its groups are of {:?} columns, and those of the layers before of {group:?}", packing.group)).hint("quantize all layers alike")
            );
        }
        let raw = RawCodes::of(weight).map_err(|text| told(text).hint("save with `save_quantized`, or quantize by rounding, GPTQ or AWQ"))?;
        if raw.order.is_some() {
            return Err(told("its columns are in an order of their own".into()).hint("`save_gptq` writes such (`g_idx`)"));
        }
        if raw.out % 8 != 0 {
            return Err(told(format!("{} outputs do not fill words of 32 bits", raw.out)).hint("leave the layer out (`skip`), or save with `save_quantized`"));
        }
        let groups = raw.groups();
        let words = Tensor::from_vec(packed(&transposed(&raw.codes, raw.out, raw.columns)), [raw.columns, raw.out / 8]);
        let zeros = Tensor::from_vec(packed(&transposed(&raw.zeros, raw.out, groups)), [groups, raw.out / 8]);
        let layer = path.strip_suffix("weight").unwrap_or("");
        tensors.extend([words, zeros, raw.scales_by_group()].into_iter().zip(PARTS).map(|(tensor, part)| (format!("{layer}{part}"), tensor)));
    }
    let group = common.flatten().map_or(-1, |g| g as i64);
    let own = json!({ "zero_point": true, "q_group_size": group, "w_bit": 4, "version": "GEMM" });
    let hub = json!({ "quant_method": "awq", "bits": 4, "group_size": group, "zero_point": true, "version": "gemm" });
    save_folder(SAVE, folder.as_ref(), tensors, OWN, &own, &hub)
}
