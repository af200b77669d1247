//! Files in parts, and what is done to the parts: tensors, numbers in them, entries of JSON, and in the end the bytes.
use adamant_conformance::random::Random;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fs, io, path::Path};

/// A tensor as it stands in a file.
#[derive(Clone)]
pub struct FileTensor {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    pub bytes: Vec<u8>,
}
/// A safetensors file in parts: texts are JSON, where they are that.
#[derive(Clone)]
pub struct FileParts {
    pub tensors: Vec<FileTensor>,
    pub texts: BTreeMap<String, Value>,
}
/// What a loader is given: one file, or a folder of a file and of JSON.
#[derive(Clone)]
pub struct GoodFiles {
    pub file: FileParts,
    /// the file's name in the folder, and the JSON's name and what it holds
    pub folder: Option<(&'static str, &'static str, Value)>,
    /// a file of another kind, in the place of `file`: what stands before this many bytes says what the others are
    pub other: Option<(Vec<u8>, usize)>,
}
impl FileParts {
    /// Of a file that was written.
    pub fn read(path: &Path) -> io::Result<FileParts> {
        let bytes = fs::read(path)?;
        let wrong = || io::Error::other("no safetensors file");
        let length = u64::from_le_bytes(bytes.get(..8).and_then(|b| b.try_into().ok()).ok_or_else(wrong)?) as usize;
        let header: Map<String, Value> = serde_json::from_slice(bytes.get(8..8 + length).ok_or_else(wrong)?)?;
        let mut parts = FileParts { tensors: Vec::new(), texts: BTreeMap::new() };
        for (name, entry) in header {
            if name == "__metadata__" {
                let texts = entry.as_object().cloned().unwrap_or_default().into_iter();
                parts.texts = texts.map(|(key, text)| (key, serde_json::from_str(text.as_str().unwrap_or("")).unwrap_or(text))).collect();
                continue;
            }
            let number = |v: &Value| v.as_u64().unwrap_or(0);
            let (start, end) = (number(&entry["data_offsets"][0]) as usize, number(&entry["data_offsets"][1]) as usize);
            parts.tensors.push(FileTensor {
                name,
                dtype: entry["dtype"].as_str().unwrap_or("").into(),
                shape: entry["shape"].as_array().into_iter().flatten().map(number).collect(),
                bytes: bytes.get(8 + length + start..8 + length + end).ok_or_else(wrong)?.to_vec(),
            });
        }
        Ok(parts)
    }
    fn to_bytes(&self) -> Vec<u8> {
        let mut header = Map::new();
        let texts: Map<String, Value> = self.texts.iter().map(|(k, v)| (k.clone(), v.as_str().map_or_else(|| v.to_string(), str::to_string).into())).collect();
        header.insert("__metadata__".into(), Value::Object(texts));
        let mut data = Vec::new();
        for FileTensor { name, dtype, shape, bytes } in &self.tensors {
            let start = data.len();
            data.extend_from_slice(bytes);
            header.insert(name.clone(), json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, data.len()] }));
        }
        let mut text = Value::Object(header).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        [&(text.len() as u64).to_le_bytes(), text.as_slice(), &data].concat()
    }
}

/// Writes mutated files at a place, and says how they were mutated.
pub fn mutated(good: &GoodFiles, place: &Path, random: &mut Random) -> io::Result<String> {
    let (mut files, mut how) = (good.clone(), Vec::new());
    // One of 16 stays as it was: a loader that refuses everything would pass.
    let times = if random.one_in(16) { 0 } else { 1 + random.below(2) };
    if let Some((bytes, head)) = &mut files.other {
        for _ in 0..times {
            how.push(if random.one_in(3) { raw(bytes, random) } else { edge(bytes, *head, random) });
        }
        fs::write(place, bytes)?;
        return Ok(how.join("; "));
    }
    for _ in 0..times {
        let kind = random.below(if files.folder.is_some() { 5 } else { 4 });
        how.push(match kind {
            0 => tensor(&mut files.file, random),
            1 => numbers(&mut files.file, random),
            2 | 3 => texts(&mut files.file, random),
            _ => {
                let json = files.folder.as_mut().map(|(_, _, json)| json_value(json, random));
                format!("{}: {}", good.folder.as_ref().map_or("", |f| f.1), json.unwrap_or_default())
            }
        });
    }
    let mut bytes = files.file.to_bytes();
    if times > 0 && random.one_in(5) {
        how.push(raw(&mut bytes, random));
    }
    match &files.folder {
        None => fs::write(place, bytes)?,
        Some((file, json_name, json)) => {
            let _ = fs::remove_file(place);
            let folder = place.with_extension("folder");
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(file), bytes)?;
            let mut text = json.to_string().into_bytes();
            if times > 0 && random.one_in(10) {
                how.push(format!("{json_name}: {}", raw(&mut text, random)));
            }
            fs::write(folder.join(json_name), text)?;
        }
    }
    Ok(how.join("; "))
}
/// How many elements a shape has, as far as a file of this kind may be written.
fn elements(shape: &[u64]) -> u64 {
    shape.iter().fold(1u64, |all, n| all.saturating_mul(*n)).min(1 << 16)
}
fn tensor(file: &mut FileParts, random: &mut Random) -> String {
    const DTYPES: [&str; 11] = ["F64", "F32", "F16", "BF16", "I64", "I32", "I8", "U8", "BOOL", "F8_E4M3", "I16"];
    let at = random.below(file.tensors.len());
    let other = random.below(file.tensors.len());
    let others_name = file.tensors.get(other).map_or(String::new(), |t| t.name.clone());
    let Some(tensor) = file.tensors.get_mut(at) else { return "nothing".into() };
    let name = tensor.name.clone();
    match random.below(9) {
        0 => {
            file.tensors.remove(at);
            format!("`{name}` is gone")
        }
        1 => {
            let dtype = *random.pick(&DTYPES);
            tensor.dtype = dtype.into();
            // Mostly with as many bytes as it needs.
            if !random.one_in(4) {
                let size = [8, 4, 2, 2, 8, 4, 1, 1, 1, 1, 2][DTYPES.iter().position(|d| *d == dtype).unwrap_or(0)];
                tensor.bytes.resize(elements(&tensor.shape) as usize * size, 0);
            }
            format!("`{name}` as {dtype}")
        }
        2 => {
            tensor.name = if random.one_in(2) { others_name } else { format!("{name}{}", ["x", "_scale", ".values", "_zero_point", ""][random.below(5)]) };
            format!("`{name}` as `{}`", tensor.name)
        }
        3 => {
            let bytes = tensor.bytes.len();
            let count = elements(&tensor.shape).max(1) as usize;
            let size = (bytes / count).max(1);
            let axis = random.below(tensor.shape.len());
            let change = [1, 2, 7][random.below(3)];
            if let Some(d) = tensor.shape.get_mut(axis) {
                *d = if random.one_in(2) { d.saturating_sub(change) } else { d.saturating_add(change) };
            }
            tensor.bytes.resize(elements(&tensor.shape) as usize * size, 1);
            format!("`{name}` of shape {:?}", tensor.shape)
        }
        4 => {
            tensor.shape.reverse();
            format!("`{name}` of shape {:?}", tensor.shape)
        }
        5 => {
            let all = elements(&tensor.shape);
            tensor.shape = if random.one_in(2) { vec![all] } else { vec![1, all, 1] };
            format!("`{name}` of shape {:?}", tensor.shape)
        }
        6 => {
            let huge = [0, 1, 1 << 20, 1 << 40, u64::MAX / 2, u64::MAX][random.below(6)];
            let axis = random.below(tensor.shape.len());
            if let Some(d) = tensor.shape.get_mut(axis) {
                *d = huge;
            }
            format!("`{name}` of shape {:?}, with the bytes that it had", tensor.shape)
        }
        7 => {
            let more = FileTensor { name: format!("{name}{}", ["2", ".places", "_scale", "_input_scale"][random.below(4)]), ..tensor.clone() };
            file.tensors.push(more);
            format!("`{name}` twice")
        }
        _ => {
            tensor.bytes.truncate(tensor.bytes.len() / 2);
            format!("half of the bytes of `{name}`")
        }
    }
}
/// Elements become numbers at the edge of something.
fn numbers(file: &mut FileParts, random: &mut Random) -> String {
    let at = random.below(file.tensors.len());
    let Some(tensor) = file.tensors.get_mut(at) else { return "nothing".into() };
    const FLOATS: [f32; 9] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, -1.0, 1e-45, f32::MAX, 3e38];
    for _ in 0..1 + random.below(3) {
        let float = *random.pick(&FLOATS);
        let edge = match tensor.dtype.as_str() {
            "F32" => float.to_le_bytes().to_vec(),
            // Halves: NaN, infinite, 0, -1, the least.
            "F16" | "BF16" => [0x7e01u16, 0x7c00, 0xfc00, 0, 0xbc00, 1][random.below(6)].to_le_bytes().to_vec(),
            "I32" => [0, -1, 255, 256, i32::MAX, i32::MIN][random.below(6)].to_le_bytes().to_vec(),
            _ => vec![[0u8, 1, 2, 15, 16, 127, 128, 255][random.below(8)]],
        };
        let places = tensor.bytes.len() / edge.len();
        let place = random.below(places) * edge.len();
        if let Some(target) = tensor.bytes.get_mut(place..place + edge.len()) {
            target.copy_from_slice(&edge);
        }
    }
    format!("numbers of `{}`", tensor.name)
}
fn texts(file: &mut FileParts, random: &mut Random) -> String {
    let keys: Vec<String> = file.texts.keys().cloned().collect();
    let Some(key) = keys.get(random.below(keys.len())) else { return "nothing".into() };
    match (random.below(12), file.texts.get_mut(key)) {
        (0, _) => {
            let value = file.texts.remove(key);
            if random.one_in(2) {
                file.texts.insert(format!("{key}s"), value.unwrap_or_default());
            }
            format!("no text `{key}`")
        }
        (_, Some(value)) => format!("text `{key}`: {}", json_value(value, random)),
        (_, None) => "nothing".into(),
    }
}
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Object(of) => of.values().map(count).sum(),
        Value::Array(of) => of.iter().map(count).sum::<usize>(),
        _ => 0,
    }
}
/// One value within another, itself among them, by its number.
fn nth(value: &mut Value, n: usize) -> Option<&mut Value> {
    if n == 0 {
        return Some(value);
    }
    let mut left = n - 1;
    let inner: Box<dyn Iterator<Item = &mut Value>> = match value {
        Value::Object(of) => Box::new(of.values_mut()),
        Value::Array(of) => Box::new(of.iter_mut()),
        _ => return None,
    };
    for of in inner {
        let size = count(of);
        if left < size {
            return nth(of, left);
        }
        left -= size;
    }
    None
}
fn json_value(value: &mut Value, random: &mut Random) -> String {
    let n = random.below(count(value));
    let Some(found) = nth(value, n) else { return "nothing".into() };
    let words = ["", "float", "token", "token-affine", "given", "bitmap", "gaps", "f16", "F32", "bool", "LORA", "0.weight", "*", "\u{0}"];
    let new = match random.below(12) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!([0, 1, 3, 4, 5, 8, 16, 32, 255][random.below(9)]),
        3 => json!([u64::MAX, 1 << 40, 1 << 32, (1 << 31) + 1][random.below(4)]),
        4 => json!([-1i64, i64::MIN, -8][random.below(3)]),
        5 => json!([0.5, 1e308, -1e-300, 1e19][random.below(4)]),
        6 => json!(words[random.below(words.len())]),
        7 => json!([]),
        8 => json!({}),
        9 => json!([1 << 20, 1 << 20, 1 << 20]),
        // Something is missing, or is there twice.
        10 => match &*found {
            Value::Object(of) => {
                let keys: Vec<String> = of.keys().cloned().collect();
                let mut of = of.clone();
                keys.get(random.below(keys.len())).map(|key| of.remove(key));
                Value::Object(of)
            }
            Value::Array(of) => Value::Array([of.as_slice(), of.as_slice()].concat()),
            other => json!([other.clone()]),
        },
        _ => match &*found {
            Value::Number(number) => json!(number.as_i64().unwrap_or(0).wrapping_add([1, -1, 8][random.below(3)])),
            Value::Array(of) => Value::Array(of.iter().rev().cloned().collect()),
            Value::Object(of) => {
                let mut of = of.clone();
                let entry = of.iter().next().map(|(key, v)| (key.clone(), v.clone()));
                entry.map(|(key, v)| of.insert(format!("{key}x"), v));
                Value::Object(of)
            }
            Value::Bool(b) => json!(!*b),
            other => other.clone(),
        },
    };
    let told = format!("value {n} is {}", new.to_string().chars().take(40).collect::<String>());
    *found = new;
    told
}
/// A number of 1 to 8 bytes becomes one at the edge of something, mostly among the first bytes.
fn edge(bytes: &mut [u8], head: usize, random: &mut Random) -> String {
    let number = [0, 1, 2, 7, 31, 32, 33, 255, 1 << 16, 1 << 31, 1 << 32, 1 << 40, u64::MAX / 2, u64::MAX - 31, u64::MAX, 0x7e01, 0xfc00][random.below(17)];
    let size = [1, 2, 4, 8][random.below(4)];
    let within = if random.one_in(4) { bytes.len() } else { head.min(bytes.len()) };
    let at = random.below(within.max(1));
    if let Some(to) = bytes.get_mut(at..at + size) {
        to.copy_from_slice(&number.to_le_bytes()[..size]);
    }
    format!("{number:#x} in {size} bytes at {at}")
}
/// Bytes, wherever they lie.
fn raw(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    match random.below(4) {
        0 => {
            let n = random.below(bytes.len() + 1);
            bytes.truncate(n);
            "cut".into()
        }
        1 => {
            let at = random.below(bytes.len() + 1);
            let more: Vec<u8> = (0..1 + random.below(40)).map(|_| random.bits() as u8).collect();
            bytes.splice(at..at, more);
            "bytes put between".into()
        }
        2 => {
            let value = [0, 1, u64::MAX, 1 << 40, 1 << 20][random.below(5)];
            if let Some(first) = bytes.get_mut(..8) {
                first.copy_from_slice(&value.to_le_bytes());
            }
            "another length of the header".into()
        }
        _ => {
            for _ in 0..1 + random.below(6) {
                let at = random.below(bytes.len());
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            "bits".into()
        }
    }
}
