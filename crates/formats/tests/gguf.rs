//! GGUF files that the package `gguf` wrote (`gguf/make.py`) give its numbers; what is written comes back; what is damaged is refused with
//! its name, and nothing of a claimed size is made.
#![allow(clippy::unwrap_used)]

use adamant_core::{DType, Device, Tensor, composite::packed::Packing, functional::PackedWeight};
use adamant_formats::gguf::{self, GgmlType, Gguf, GgufArray, GgufData, GgufValue};
use std::path::{Path, PathBuf};

fn drawn() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gguf/drawn.gguf")
}
fn numbers(t: &Tensor) -> Vec<f32> {
    t.to_vec::<f32>().unwrap()
}

#[test]
fn blocks_stand_for_the_numbers_that_their_own_program_reads() {
    Device::reference().make_current();
    let file = Gguf::open(drawn()).unwrap();
    // Bits a weight: codes, and of each group a scale and, where there are such, a minimum.
    let all = [
        ("q8_0", GgmlType::Q8_0, 8.0 + 16.0 / 32.0, 0.0),
        ("q4_0", GgmlType::Q4_0, 4.0 + 16.0 / 32.0, 0.0),
        ("q4_1", GgmlType::Q4_1, 4.0 + 48.0 / 32.0, 1e-6),
        ("q4_k", GgmlType::Q4K, 4.0 + 64.0 / 32.0, 1e-6),
        ("q6_k", GgmlType::Q6K, 8.0 + 32.0 / 16.0, 0.0),
    ];
    for (name, kind, bits, tolerance) in all {
        assert_eq!(file.tensors()[name].kind, kind);
        let weight = file.packed(name, Device::reference()).unwrap();
        let want = numbers(&file.tensor(&format!("{name}.numbers"), Device::reference()).unwrap());
        let got = numbers(&weight.dequantize(DType::F32));
        assert_eq!(got.len(), want.len());
        let largest = want.iter().fold(0f32, |m, v| m.max(v.abs()));
        assert!(largest > 0.5, "{name}: {largest}");
        for (k, (g, w)) in got.iter().zip(&want).enumerate() {
            assert!((g - w).abs() <= tolerance * largest, "{name}: number {k} is {g}, not {w}");
        }
        assert_eq!(weight.bytes() as f64 * 8.0 / got.len() as f64, bits, "{name}");
    }
    assert_eq!(file.tensor("f16", Device::reference()).unwrap().dtype().unwrap(), DType::F16);
    assert_eq!(&file.tensors()["f32"].shape[..], [2, 3]);
}
#[test]
fn entries_of_every_type() {
    let file = Gguf::open(drawn()).unwrap();
    let all = file.metadata();
    let want = [
        ("a.u8", GgufValue::U8(200)),
        ("a.i8", GgufValue::I8(-100)),
        ("a.u16", GgufValue::U16(60000)),
        ("a.i16", GgufValue::I16(-30000)),
        ("a.u32", GgufValue::U32(4_000_000_000)),
        ("a.i32", GgufValue::I32(-2_000_000_000)),
        ("a.f32", GgufValue::F32(0.1)),
        ("a.bool", GgufValue::Bool(true)),
        ("a.text", GgufValue::Text("Köln".into())),
        ("a.u64", GgufValue::U64((1 << 63) + 1)),
        ("a.i64", GgufValue::I64(-(1 << 62))),
        ("a.f64", GgufValue::F64(0.1)),
        ("a.texts", GgufValue::Array(GgufArray::Text(["a", "", "längere"].map(Into::into).to_vec()))),
        ("a.numbers", GgufValue::Array(GgufArray::I32(vec![1, -2, 3]))),
        ("a.floats", GgufValue::Array(GgufArray::F32(vec![0.5, -1.5]))),
    ];
    for (key, value) in &want {
        assert_eq!(&all[*key], value, "{key}");
    }
    // Written by us, and read again.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("entries.gguf");
    let nested = GgufValue::Array(GgufArray::Array(vec![GgufArray::U8(vec![1, 2]), GgufArray::Bool(vec![true])]));
    let more = want.into_iter().chain([("a.nested", nested)]).collect::<Vec<_>>();
    gguf::save(&path, &more, &[] as &[(&str, GgufData)]).unwrap();
    let again = Gguf::open(&path).unwrap();
    assert_eq!(again.metadata().len(), more.len());
    for (key, value) in &more {
        assert_eq!(&again.metadata()[*key], value, "{key}");
    }
}
#[test]
fn codes_and_numbers_that_come_back() {
    Device::reference().make_current();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("codes.gguf");
    let source = Gguf::open(drawn()).unwrap();
    for name in ["q8_0", "q4_0"] {
        let weight = source.packed(name, Device::reference()).unwrap();
        let brain = Tensor::from_vec(vec![1.5f32, -2.0], [2, 1]).cast(DType::BF16);
        let aligned = [("general.alignment", GgufValue::U32(64))];
        gguf::save(&path, &aligned, &[("w", GgufData::Codes(weight.clone())), ("b", GgufData::Numbers(brain.clone()))]).unwrap();
        let file = Gguf::open(&path).unwrap();
        let again = file.packed("w", Device::reference()).unwrap();
        assert_eq!(again.codes().to_bytes().unwrap(), weight.codes().to_bytes().unwrap(), "{name}");
        assert_eq!(again.scale().to_bytes().unwrap(), weight.scale().to_bytes().unwrap(), "{name}");
        assert!(file.tensor("b", Device::reference()).unwrap().equal(&brain).unwrap());
    }
    let refuse = |data: GgufData, says: &str| {
        let error = gguf::save(&path, &[] as &[(&str, GgufValue)], &[("w", data)]).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("`w`"), "{error}");
    };
    let rounded = |bits, group| PackedWeight::round(&Tensor::ones([2, 64]), Packing { bits, group, symmetric: true }).unwrap();
    refuse(GgufData::Codes(rounded(8, Some(16))), "none of ggml's");
    refuse(GgufData::Codes(rounded(3, Some(32))), "none of ggml's");
    refuse(GgufData::Codes(rounded(4, Some(32))), "f16 does not hold the scale");
    refuse(GgufData::Codes(source.packed("q4_1", Device::reference()).unwrap()), "none of ggml's");
    refuse(GgufData::Numbers(Tensor::ones([2]).cast(DType::U8)), "no type of ggml");
}

/// A file in parts, so that each can be wrong.
#[derive(Clone)]
struct Parts {
    version: u32,
    counts: [u64; 2],
    entries: Vec<u8>,
    axes: Vec<u64>,
    number: u32,
    offset: u64,
    data: Vec<u8>,
}
impl Parts {
    /// A tensor `w` of 2 x 32 numbers of Q8_0, whose scales are 1, with codes 0, 1, ..
    fn good() -> Parts {
        let block = |first: u8| [0x00, 0x3c].into_iter().chain(first..first + 32);
        Parts { version: 3, counts: [1, 0], entries: vec![], axes: vec![32, 2], number: 8, offset: 0, data: block(0).chain(block(32)).collect() }
    }
    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
    }
    fn bytes(&self) -> Vec<u8> {
        let mut all = b"GGUF".to_vec();
        all.extend(self.version.to_le_bytes());
        self.counts.iter().for_each(|n| all.extend(n.to_le_bytes()));
        all.extend(&self.entries);
        all.extend(Parts::text("w"));
        all.extend((self.axes.len() as u32).to_le_bytes());
        self.axes.iter().for_each(|d| all.extend(d.to_le_bytes()));
        all.extend(self.number.to_le_bytes());
        all.extend(self.offset.to_le_bytes());
        all.resize(all.len().next_multiple_of(32), 0);
        all.extend(&self.data);
        all
    }
    fn entry(mut self, kind: u32, value: &[u8]) -> Parts {
        self.counts[1] += 1;
        self.entries = [&self.entries, &Parts::text("k")[..], &kind.to_le_bytes(), value].concat();
        self
    }
}
#[test]
fn damaged_files_that_are_read_or_refused_without_the_reason() {
    Device::reference().make_current();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.gguf");
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Gguf::open(&path).and_then(|file| file.packed("w", Device::reference())).map_err(|e| e.to_string())
    };
    for version in [2, 3] {
        let weight = read(&Parts { version, ..Parts::good() }.bytes()).unwrap();
        assert_eq!(numbers(&weight.dequantize(DType::F32)), (0..64).map(|k| k as f32).collect::<Vec<_>>());
    }
    let good = Parts::good();
    let whole = good.bytes();
    for length in 0..whole.len() {
        assert!(read(&whole[..length]).is_err(), "of {} bytes {length} are enough", whole.len());
    }
    let with = |change: fn(&mut Parts)| {
        let mut parts = Parts::good();
        change(&mut parts);
        parts
    };
    let nan = [0x01, 0x7e];
    let huge = u64::MAX.to_le_bytes();
    let nested: Vec<u8> = (0..6).flat_map(|_| [&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat()).collect();
    let texts: Vec<u8> = [&8u32.to_le_bytes()[..], &(1u64 << 40).to_le_bytes()].concat();
    let cases: Vec<(Parts, &str)> = vec![
        (with(|p| p.version = 1), "version is 1"),
        (with(|p| p.version = 3u32.swap_bytes()), "other byte order"),
        (with(|p| p.counts[0] = u64::MAX), "tensors do not fit"),
        (with(|p| p.counts[1] = 1 << 40), "entries do not fit"),
        (with(|p| p.axes = vec![32, 1 << 62]), "tensor `w`"),
        (with(|p| p.axes = vec![32, 3]), "ends behind the file's"),
        (with(|p| p.axes = vec![31, 2]), "no whole blocks of 32"),
        (with(|p| p.axes = vec![1; 5]), "5 axes"),
        (with(|p| p.axes = vec![32, 1, 2]), "codes are those of a matrix"),
        (with(|p| p.axes = vec![32, 0]), "not those of"),
        (with(|p| p.number = 4), "type is number 4"),
        (with(|p| p.number = 10), "no whole blocks of 256"),
        (with(|p| (p.number, p.data) = (6, vec![0; 44])), "type Q5_0 are not read"),
        (with(|p| (p.number, p.axes) = (0, vec![17])), "numbers (F32) and no codes"),
        (with(|p| p.offset = 16), "no multiple of 32"),
        (with(|p| p.offset = u64::MAX - 31), "tensor `w`"),
        (Parts { data: [&nan[..], &good.data[2..]].concat(), ..good.clone() }, "scale of group 0 is NaN"),
        (good.clone().entry(13, &[]), "type 13"),
        (good.clone().entry(7, &[2]), "neither true nor false"),
        (good.clone().entry(8, &huge), "bytes of a text do not fit"),
        (good.clone().entry(8, &[2, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe]), "no UTF-8"),
        (good.clone().entry(9, &texts), "texts of an array do not fit"),
        (good.clone().entry(9, &nested), "deep"),
        (good.clone().entry(0, &[1]).entry(0, &[2]), "stands in it twice"),
    ];
    for (parts, says) in cases {
        let error = read(&parts.bytes()).map(drop).unwrap_err();
        assert!(error.contains(says) && error.contains("damaged.gguf"), "{error} does not say {says:?}");
    }
}
