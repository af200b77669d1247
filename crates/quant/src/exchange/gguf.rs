//! GGUF files into models and out of them. How blocks of codes become weights, `adamant_formats::gguf` knows; here they find their layers.
use super::{FoundTensors, WrittenWeight, install, refused, transposed_weights, written};
use adamant_core::{Device, Error, ErrorKind, Result};
use adamant_formats::gguf::{self, Gguf, GgufData, GgufValue};
use adamant_nn::Walk;
use std::path::Path;

const LOAD: &str = "load_gguf";
const SAVE: &str = "save_gguf";

/// Reads a GGUF file into a model of floats: tensors of Q8_0, Q4_0, Q4_1, Q4_K and Q6_K are held as codes from then on and multiplied so;
/// numbers are converted to the parameters' dtype. `names` says what a name in the file is in the model, `None` for what is passed over.
/// Weights of `Conv1D` layers are transposed.
///
/// # Errors
/// A file that cannot be read, or is damaged; codes of another type; scales or minima that are not finite; a tensor of another shape than the
/// model's; names that are missing or unknown. Then the model is as it was.
#[track_caller]
pub fn load_gguf(model: &(impl Walk + ?Sized), path: impl AsRef<Path>, names: impl Fn(&str) -> Option<String>) -> Result<()> {
    let path = path.as_ref();
    let hint = "the file is damaged, or its codes are of another kind: write it again";
    let file = Gguf::open(path).map_err(|e| e.hint(hint))?;
    let (device, transposed) = (Device::current()?, transposed_weights(model));
    let mut found = FoundTensors::default();
    for (name, tensor) in file.tensors() {
        let Some(own) = names(name) else { continue };
        if tensor.kind.dtype().is_none() {
            found.codes.push((own, file.packed(name, device).map_err(|e| e.hint(hint))?));
            continue;
        }
        let value = file.tensor(name, device).map_err(|e| e.hint(hint))?;
        let value = if transposed.contains(&own) && value.rank() == 2 { value.mt() } else { value };
        found.numbers.push((own, value));
    }
    if found.codes.is_empty() && found.numbers.is_empty() {
        return Err(refused(LOAD, path, "it has no tensor that is one of the model's".into()).hint("say what its names are in the model"));
    }
    install(LOAD, path, model, found)
}
/// Writes a model as a GGUF file: codes of 8 and 4 bits in groups of 32, without zero points and with scales that f16 holds, as Q8_0 and
/// Q4_0; numbers as they are. `names` says what a name of the model is in the file, `None` for what is left out. What readers ask for
/// beside the tensors is `metadata`.
///
/// # Errors
/// A model without codes; other codes; two tensors of one name; a file that cannot be written.
#[track_caller]
pub fn save_gguf(model: &(impl Walk + ?Sized), path: impl AsRef<Path>, metadata: &[(String, GgufValue)], names: impl Fn(&str) -> Option<String>) -> Result<()> {
    let (codes, numbers) = written(SAVE, model, true)?;
    let transposed = transposed_weights(model);
    let codes = codes.into_iter().map(|WrittenWeight { path, weight }| (path, GgufData::Codes(weight)));
    let numbers = numbers.into_iter().map(|(name, value)| {
        let value = if transposed.contains(&name) { value.mt() } else { value };
        (name, GgufData::Numbers(value))
    });
    let all: Vec<(String, GgufData)> = codes.chain(numbers).filter_map(|(name, data)| Some((names(&name)?, data))).collect();
    if all.is_empty() {
        return Err(
            Error::new(SAVE, ErrorKind::Argument("no tensor of the model has a name in the file".into())).hint("let `names` say what they are called there")
        );
    }
    gguf::save(path, metadata, &all)
}
