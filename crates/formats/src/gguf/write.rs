//! Writing of GGUF files: numbers as they are, and weights of codes whose groups are Q8_0's or Q4_0's.
use super::{ALIGNMENT, GgmlType, GgufValue, MAGIC, metadata::write_text};
use crate::{npy::little_endian, shown, whole};
use adamant_core::{
    Error, ErrorKind, Origin, Shape, Tensor,
    composite::packed::{CodeLevels, Packing},
    f16,
    functional::PackedWeight,
};
use std::{collections::BTreeSet, io::Write, path::Path};

/// A tensor that is written.
#[derive(Clone, Debug)]
pub enum GgufData {
    /// f32, f16, bf16, f64, or signed integers
    Numbers(Tensor),
    /// codes of 8 bits (Q8_0) or 4 bits (Q4_0), in groups of 32 without zero points, with scales that f16 holds
    Codes(PackedWeight),
}
impl GgufData {
    fn placed(&self, here: Origin) -> Result<(GgmlType, Shape), Error> {
        match self {
            GgufData::Numbers(tensor) => {
                let m = tensor.try_meta()?;
                let kind = super::LAYOUTS.iter().map(|l| l.0).find(|kind| kind.dtype() == Some(m.dtype));
                kind.map(|kind| (kind, m.shape)).ok_or_else(|| refuse(format!("{} has no type of ggml", m.dtype), here))
            }
            GgufData::Codes(weight) => {
                let plain = weight.levels() == CodeLevels::Even && weight.minimum().is_none() && weight.order().is_none();
                let kind = match weight.packing() {
                    Packing { bits: 8, group: Some(32), symmetric: true } if plain => GgmlType::Q8_0,
                    Packing { bits: 4, group: Some(32), symmetric: true } if plain => GgmlType::Q4_0,
                    packing => {
                        let text = format!("codes of {} bits, in groups of {:?}, are none of ggml's", packing.bits, packing.group);
                        return Err(refuse(text, here).hint("Q8_0 and Q4_0 have 8 and 4 bits, groups of 32 and no zero points"));
                    }
                };
                Ok((kind, weight.shape()))
            }
        }
    }
    fn bytes(&self, name: &str, here: Origin) -> Result<Vec<u8>, Error> {
        let weight = match self {
            GgufData::Numbers(tensor) => return little_endian(tensor),
            GgufData::Codes(weight) => weight,
        };
        let scales = weight.scale().to_vec_as::<f32>()?;
        let codes = weight.codes().to_bytes()?;
        let mut all = Vec::new();
        let block = codes.len() / scales.len().max(1);
        for (codes, scale) in codes.chunks(block.max(1)).zip(&scales) {
            let half = f16::from_f32(*scale);
            if half.to_f32() != *scale {
                return Err(refuse(format!("`{}`: f16 does not hold the scale {scale}", shown(name)), here).hint("quantize with `scales(DType::F16)`"));
            }
            all.extend(half.to_le_bytes());
            if weight.packing().bits == 8 {
                all.extend(codes);
                continue;
            }
            let each: Vec<u8> = codes.iter().flat_map(|b| [b & 15, b >> 4]).collect();
            let (low, high) = each.split_at(each.len() / 2);
            all.extend(low.iter().zip(high).map(|(low, high)| low | (high << 4)));
        }
        Ok(all)
    }
}
fn refuse(text: String, here: Origin) -> Error {
    Error::at("gguf", ErrorKind::Argument(text), here)
}
/// Writes a file of version 3. It appears whole or not at all.
///
/// # Errors
/// Two tensors or entries of one name; a dtype or codes that ggml does not have; a scale that f16 does not hold; more than four axes;
/// the error a tensor carries; `File`, if it cannot be written.
#[track_caller]
pub fn save<K: AsRef<str>, N: AsRef<str>>(path: impl AsRef<Path>, metadata: &[(K, GgufValue)], tensors: &[(N, GgufData)]) -> Result<(), Error> {
    let path = path.as_ref();
    let here = Origin::here();
    let io = |e: std::io::Error| whole::file_error("gguf", path, e.to_string(), here);
    let (mut keys, mut names) = (BTreeSet::new(), BTreeSet::new());
    let twice = metadata.iter().map(|(key, _)| key.as_ref()).find(|key| !keys.insert(*key));
    if let Some(name) = twice.or_else(|| tensors.iter().map(|(name, _)| name.as_ref()).find(|name| !names.insert(*name))) {
        return Err(refuse(format!("`{}` is given twice", shown(name)), here));
    }
    let alignment = metadata.iter().find(|(key, _)| key.as_ref() == "general.alignment").and_then(|(_, value)| value.unsigned());
    let alignment = alignment.unwrap_or(ALIGNMENT);
    if !(alignment.is_power_of_two() && alignment <= 1 << 16) {
        return Err(refuse("`general.alignment` is no power of two up to 65536".into(), here));
    }
    let mut header = Vec::new();
    header.extend(MAGIC);
    header.extend(3u32.to_le_bytes());
    header.extend((tensors.len() as u64).to_le_bytes());
    header.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        write_text(&mut header, key.as_ref()).and_then(|()| value.write(&mut header)).map_err(io)?;
    }
    let mut start = 0u64;
    for (name, data) in tensors {
        let (kind, shape) = data
            .placed(here)
            .map_err(|e| refuse(format!("`{}`: {}", shown(name.as_ref()), e.kind()), here).hint(e.hint_text().unwrap_or("write it as f32").to_string()))?;
        if shape.rank() > super::MOST_AXES as usize {
            return Err(refuse(format!("`{}` has {} axes, and ggml knows {}", shown(name.as_ref()), shape.rank(), super::MOST_AXES), here));
        }
        write_text(&mut header, name.as_ref()).map_err(io)?;
        header.extend((shape.rank() as u32).to_le_bytes());
        shape.iter().rev().for_each(|d| header.extend((*d as u64).to_le_bytes()));
        let number = kind.layout().1;
        header.extend(number.to_le_bytes());
        header.extend(start.to_le_bytes());
        start += ((shape.elements() / kind.block() * kind.block_bytes()) as u64).next_multiple_of(alignment);
    }
    let padded = |n: usize| vec![0u8; n.next_multiple_of(alignment as usize) - n];
    let zeros = padded(header.len());
    header.extend(zeros);
    whole::replace(path, io, |file| {
        file.write_all(&header).map_err(io)?;
        for (name, data) in tensors {
            let bytes = data.bytes(name.as_ref(), here)?;
            file.write_all(&bytes).and_then(|()| file.write_all(&padded(bytes.len()))).map_err(io)?;
        }
        Ok(())
    })
}
