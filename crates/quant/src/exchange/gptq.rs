//! GPTQ folders as AutoGPTQ and GPTQModel write them and transformers reads them. A layer `X` has `X.qweight` (i32, codes side by side
//! along the inputs, `[in · bits / 32, out]`; those of 3 bits lie across words), `X.qzeros` (the zero points, side by side along the outputs,
//! `[groups, out · bits / 32]`), `X.scales` `[groups, out]` and `X.g_idx`, the group of each input.
//!
//! Zero points of the first format are stored less 1, so that 0 stands there as the largest code. `g_idx` of inputs that were
//! quantized in another order (`desc_act`) is no fault: the columns of codes are sorted by group, and the layer gathers its inputs
//! likewise ([`PackedWeight::with_order`](adamant_core::functional::PackedWeight::with_order)).
use super::{
    LayerTensors, WrittenWeight,
    config::FolderConfig,
    load_folder,
    raw::{RawCodes, code_at, put_code},
    save_folder, written,
};
use crate::select::joined;
use adamant_core::{Error, ErrorKind, Origin, Result, Tensor};
use adamant_nn::Walk;
use serde_json::json;
use std::path::Path;

const LOAD: &str = "load_gptq";
const SAVE: &str = "save_gptq";
const OWN: &str = "quantize_config.json";
const PARTS: [&str; 4] = ["qweight", "qzeros", "scales", "g_idx"];

/// How zero points are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GptqFormat {
    /// less 1; what nearly every reader knows
    #[default]
    V1,
    /// as they are (`gptq_v2`)
    V2,
}
impl GptqFormat {
    fn name(self) -> &'static str {
        match self {
            GptqFormat::V1 => "gptq",
            GptqFormat::V2 => "gptq_v2",
        }
    }
}
/// What a folder's configuration says.
struct GptqLayout {
    bits: u32,
    group: Option<usize>,
    format: GptqFormat,
}
#[track_caller]
fn layout(folder: &Path) -> Result<GptqLayout> {
    let config = FolderConfig::read(LOAD, folder, OWN)?;
    config.check_method("gptq")?;
    let bits = config.integer(&["bits"])?;
    if !matches!(bits, 3 | 4 | 8) {
        return Err(config.refuse(format!("its codes have {bits} bits"), "codes of 3, 4 and 8 bits are read"));
    }
    let format = match config.text("checkpoint_format")?.as_deref() {
        None | Some("gptq") => GptqFormat::V1,
        Some("gptq_v2") => GptqFormat::V2,
        Some(other) => {
            let text = format!("its checkpoint_format is `{}`", adamant_formats::shown(other));
            return Err(config.refuse(text, "`gptq` and `gptq_v2` are read: others are packed for one kernel of one program"));
        }
    };
    Ok(GptqLayout { bits: bits as u32, group: config.group(&["group_size"])?, format })
}
/// Reads a GPTQ folder into a model of floats: layers with codes hold them from then on, and multiply them without making numbers of them;
/// what else is in the folder is loaded by name. `names` says what a name in the folder is in the model (the weight of a layer with codes is
/// asked for as `X.weight`), `None` for what is passed over.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Module};
/// # use adamant_quant::{LayerKind, QuantizationConfig, exchange::{GptqFormat, load_gptq, save_gptq}, quantize_model};
/// # use adamant_backend_cpu as _;
/// # let folder = tempfile::tempdir().unwrap();
/// let layer = Linear::new(64, 32)?;
/// quantize_model(&layer, &QuantizationConfig::weights(4).group(Some(32)), &[])?;
/// save_gptq(&layer, folder.path(), GptqFormat::V1)?;
/// let fresh = Linear::new(64, 32)?;
/// load_gptq(&fresh, folder.path(), |name| Some(name.to_string()))?;
/// let x = Tensor::ones([2, 64]);
/// assert_eq!(fresh.forward(&x)?.to_vec::<f32>()?, layer.forward(&x)?.to_vec::<f32>()?);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// No configuration, or one of another method, of bits that there are no codes of, or of another format; a layer that lacks a tensor,
/// has one of another dtype or shape, scales that are not finite, a `g_idx` that names no group, or groups of different sizes; a
/// layer that the model lacks, with the nearest; names that are missing or unknown. Then the model is as it was.
#[track_caller]
pub fn load_gptq(model: &(impl Walk + ?Sized), folder: impl AsRef<Path>, names: impl Fn(&str) -> Option<String>) -> Result<()> {
    let folder = folder.as_ref();
    let layout = layout(folder)?;
    load_folder(LOAD, model, folder, &names, &PARTS, |tensors| read(tensors, &layout))
}
fn read(tensors: &LayerTensors<'_>, layout: &GptqLayout) -> std::result::Result<RawCodes, String> {
    let bits = layout.bits;
    let (words, [lines, out]) = tensors.words("qweight")?;
    let columns = lines.checked_mul(32).map(|n| n / bits as usize).unwrap_or_default();
    if out == 0 || columns == 0 || (lines * 32) % bits as usize != 0 {
        return Err(format!("`qweight` {lines} x {out} has no whole number of codes of {bits} bits"));
    }
    let size = layout.group.unwrap_or(columns);
    if !columns.is_multiple_of(size) {
        return Err(format!("{columns} inputs are no multiple of groups of {size}"));
    }
    let groups = columns / size;
    let (zeros, found) = tensors.words("qzeros")?;
    let width = out * bits as usize / 32;
    if found != [groups, width] || out * bits as usize % 32 != 0 {
        return Err(format!("`qzeros` have shape {found:?}, and [{groups}, {width}] goes with `qweight`"));
    }
    let (scales, half) = tensors.scales([groups, out])?;
    let order = order(tensors, columns, groups)?;
    let place = |k: usize| order.as_ref().map_or(k, |order| order[k] as usize);
    let mut codes = Vec::with_capacity(out * columns);
    for o in 0..out {
        codes.extend((0..columns).map(|k| code_at(|word| words[word * out + o], bits, place(k))));
    }
    let least = match layout.format {
        GptqFormat::V1 => 1,
        GptqFormat::V2 => 0,
    };
    let largest = ((1u32 << bits) - 1) as u8;
    let zero = |at: usize| code_at(|word| zeros[at % groups * width + word], bits, at / groups).wrapping_add(least) & largest;
    Ok(RawCodes { bits, out, columns, group: layout.group, codes, zeros: (0..out * groups).map(zero).collect(), scales, half, order })
}
/// The inputs by group, if they are not so already.
fn order(tensors: &LayerTensors<'_>, columns: usize, groups: usize) -> std::result::Result<Option<Vec<i32>>, String> {
    let name = joined(tensors.layer, "g_idx");
    if !tensors.weights.contains(&name) {
        return Ok(None);
    }
    let (dtype, shape) = tensors.weights.meta(&name).map_err(|e| e.kind().to_string())?;
    if dtype != adamant_core::DType::I32 || shape[..] != [columns] {
        return Err(format!("`g_idx` is i32 [{columns}], not {dtype} {shape}"));
    }
    let bytes = tensors.weights.bytes(&name).map_err(|e| e.kind().to_string())?;
    let group_of: Vec<i32> = bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect();
    let mut counts = vec![0; groups];
    for (at, group) in group_of.iter().enumerate() {
        match usize::try_from(*group).ok().and_then(|group| counts.get_mut(group)) {
            Some(count) => *count += 1,
            None => return Err(format!("`g_idx` of input {at} is {group}, and there are groups 0 to {}", groups - 1)),
        }
    }
    let size = columns / groups;
    if let Some((group, count)) = counts.iter().enumerate().find(|(_, count)| **count != size) {
        return Err(format!("`g_idx` gives group {group} {count} inputs, and groups have {size}"));
    }
    let mut order: Vec<i32> = (0..columns as i32).collect();
    order.sort_by_key(|k| group_of[*k as usize]);
    Ok(order.iter().enumerate().any(|(at, k)| at as i32 != *k).then_some(order))
}
/// Writes a model whose linear layers hold codes, all with the same bits and groups, as a GPTQ folder: `model.safetensors`,
/// `quantize_config.json`, and `quantization_config` in `config.json`, whose other fields stay what they are.
///
/// # Errors
/// A model without codes; codes of other layers, with codes of inputs, of NF4, with minima; layers whose bits or groups differ; inputs or
/// outputs whose codes do not fill words of 32 bits; a folder that cannot be written.
#[track_caller]
pub fn save_gptq(model: &(impl Walk + ?Sized), folder: impl AsRef<Path>, format: GptqFormat) -> Result<()> {
    let (all, mut tensors) = written(SAVE, model, false)?;
    let here = Origin::here();
    let mut common = None;
    let (mut symmetric, mut sorted) = (true, true);
    for WrittenWeight { path, weight } in &all {
        let told = |text: String| Error::at(SAVE, ErrorKind::Argument(format!("the weight `{path}`: {text}")), here);
        let packing = weight.packing();
        let (bits, group) = *common.get_or_insert((packing.bits, packing.group));
        if (bits, group) != (packing.bits, packing.group) {
            return Err(told(format!("it has {} bits in groups of {:?}, and the layers before {bits} in groups of {group:?}", packing.bits, packing.group))
                .hint("a GPTQ folder has one kind of codes: quantize all layers alike, and skip the others"));
        }
        let raw = RawCodes::of(weight).map_err(|text| told(text).hint("save with `save_quantized`, or quantize by rounding, GPTQ or AWQ"))?;
        if [raw.columns, raw.out].iter().any(|n| n * bits as usize % 32 != 0) {
            return Err(told(format!("{} inputs and {} outputs of {bits} bits do not fill words of 32", raw.columns, raw.out))
                .hint("leave the layer out (`skip`), or save with `save_quantized`"));
        }
        symmetric &= packing.symmetric;
        sorted &= raw.order.is_none();
        let layer = path.strip_suffix("weight").unwrap_or("");
        tensors.extend(write(&raw, format).into_iter().zip(PARTS).map(|(tensor, part)| (format!("{layer}{part}"), tensor)));
    }
    let (bits, group) = common.unwrap_or((4, None));
    let config = json!({
        "quant_method": "gptq",
        "bits": bits,
        "group_size": group.map_or(-1, |g| g as i64),
        "desc_act": !sorted,
        "sym": symmetric,
        "checkpoint_format": format.name(),
    });
    save_folder(SAVE, folder.as_ref(), tensors, OWN, &config, &config)
}
/// The four tensors of a layer.
fn write(raw: &RawCodes, format: GptqFormat) -> [Tensor; 4] {
    let (bits, out, groups) = (raw.bits, raw.out, raw.groups());
    let size = raw.columns / groups.max(1);
    let lines = raw.columns * bits as usize / 32;
    let place = |k: usize| raw.order.as_ref().map_or(k, |order| order[k] as usize);
    let mut words = vec![0u32; lines * out];
    for (o, codes) in raw.codes.chunks(raw.columns).enumerate() {
        for (k, code) in codes.iter().enumerate() {
            put_code(|word, with| words[word * out + o] |= with, bits, place(k), *code);
        }
    }
    let less = match format {
        GptqFormat::V1 => 1,
        GptqFormat::V2 => 0,
    };
    let largest = ((1u32 << bits) - 1) as u8;
    let width = out * bits as usize / 32;
    let mut zeros = vec![0u32; groups * width];
    for (at, zero) in raw.zeros.iter().enumerate() {
        let line = at % groups * width;
        put_code(|word, with| zeros[line + word] |= with, bits, at / groups, zero.wrapping_sub(less) & largest);
    }
    let mut group_of = vec![0i32; raw.columns];
    (0..raw.columns).for_each(|k| group_of[place(k)] = (k / size) as i32);
    let signed = |words: Vec<u32>| words.into_iter().map(|word| word as i32).collect::<Vec<i32>>();
    [
        Tensor::from_vec(signed(words), [lines, out]),
        Tensor::from_vec(signed(zeros), [groups, width]),
        raw.scales_by_group(),
        Tensor::from_vec(group_of, [raw.columns]),
    ]
}
