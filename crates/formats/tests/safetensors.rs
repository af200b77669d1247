//! Files go out and come back bit for bit, and broken files are refused with their name.
#![allow(clippy::unwrap_used)]

use adamant_core::{Arg, DType, Device, ErrorKind, Op, Tensor, bf16, f16};
use adamant_formats::safetensors::{SafeTensors, save};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// A file that is removed when the test ends.
struct Scratch(PathBuf);
impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Scratch(std::env::temp_dir().join(format!("adamant-formats-{}-{}.safetensors", std::process::id(), NEXT.fetch_add(1, Relaxed))))
    }
    fn of(bytes: &[u8]) -> Scratch {
        let file = Scratch::new();
        std::fs::write(&file.0, bytes).unwrap();
        file
    }
}
impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn every_dtype_and_shape_comes_back_as_it_went() {
    Device::reference().make_current();
    let fp8 = |d| Tensor::apply(Op::Bitcast(d), Arg::None, &[&Tensor::from_vec(vec![0u8, 1, 0x7f, 0xff], [2, 2])]);
    let tensors = [
        ("bool", Tensor::from_vec(vec![true, false, true], [3])),
        ("u8", Tensor::from_vec(vec![0u8, 255], [2, 1])),
        ("i8", Tensor::from_vec(vec![-128i8, 127], [2])),
        ("i16", Tensor::from_vec(vec![i16::MIN], [1])),
        ("u16", Tensor::from_vec(vec![u16::MAX], [1])),
        ("i32", Tensor::from_vec(vec![i32::MIN, 7], [2])),
        ("u32", Tensor::from_vec(vec![u32::MAX], [1])),
        ("i64", Tensor::from_vec(vec![i64::MIN, i64::MAX], [1, 2])),
        ("u64", Tensor::from_vec(vec![u64::MAX], [1])),
        ("f16", Tensor::from_vec(vec![f16::from_f32(1.5), f16::NAN], [2])),
        ("bf16", Tensor::from_vec(vec![bf16::from_f32(-3.0)], [1])),
        ("f32", Tensor::from_vec(vec![1.0f32, f32::NAN, -0.0, f32::INFINITY, 1e-45, 2.0], [2, 3])),
        ("f64", Tensor::from_vec(vec![std::f64::consts::PI], ())),
        ("empty", Tensor::from_vec(Vec::<f32>::new(), [0, 4])),
        ("view", Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [2, 2]).mt()),
        ("e4m3", fp8(DType::F8E4M3)),
        ("e5m2", fp8(DType::F8E5M2)),
    ];
    let file = Scratch::new();
    let texts = BTreeMap::from([("format".to_string(), "pt".to_string())]);
    save(&file.0, tensors.iter().map(|(n, t)| (*n, t.clone())), &texts).unwrap();
    let read = SafeTensors::open(&file.0).unwrap();
    assert_eq!(read.names().len(), tensors.len());
    assert_eq!(read.texts(), texts);
    for (name, tensor) in &tensors {
        let back = read.tensor(name, Device::reference()).unwrap();
        assert_eq!((back.dtype().unwrap(), back.shape().unwrap()), (tensor.dtype().unwrap(), tensor.shape().unwrap()), "{name}");
        assert_eq!(back.to_bytes().unwrap(), tensor.to_bytes().unwrap(), "{name}");
    }
}
#[test]
fn a_failed_tensor_or_a_name_given_twice_leaves_no_file() {
    Device::reference().make_current();
    let file = Scratch::new();
    let failed = Tensor::zeros([2]).matmul(Tensor::zeros([3, 3]));
    assert_eq!(save(&file.0, [("x", failed)], &BTreeMap::new()).unwrap_err().kind().word(), "shape");
    assert_eq!(save(&file.0, [("x", Tensor::zeros([1])), ("x", Tensor::zeros([1]))], &BTreeMap::new()).unwrap_err().kind().word(), "file");
    assert!(!file.0.exists());
}
#[test]
fn broken_files_are_refused_with_their_name() {
    let with_header = |header: &str, data: usize| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.extend(vec![0u8; data]);
        bytes
    };
    let entry = |dtype: &str, shape: &str, from: usize, to: usize| format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{from},{to}]}}}}"#);
    let cases = [
        ("empty file", vec![]),
        ("length cut", vec![1, 0, 0]),
        ("header longer than the file", u64::MAX.to_le_bytes().to_vec()),
        ("no JSON", with_header("{]", 0)),
        ("range beyond the end", with_header(&entry("F32", "[2]", 0, 8), 4)),
        ("data that no tensor covers", with_header(&entry("F32", "[2]", 0, 8), 12)),
        ("range of another size than the shape", with_header(&entry("F32", "[3]", 0, 8), 8)),
        ("hole before the first tensor", with_header(&entry("F32", "[1]", 4, 8), 8)),
        ("backward range", with_header(&entry("F32", "[1]", 8, 4), 8)),
        ("sizes that overflow", with_header(&entry("F32", "[4294967296,4294967296,4294967296]", 0, 8), 8)),
        ("negative size", with_header(&entry("F32", "[-1]", 0, 8), 8)),
        ("dtype nobody knows", with_header(&entry("F99", "[2]", 0, 8), 8)),
    ];
    for (what, bytes) in cases {
        let file = Scratch::of(&bytes);
        let error = SafeTensors::open(&file.0).expect_err(what);
        assert!(matches!(error.kind(), ErrorKind::File { .. }), "{what}: {error}");
        assert!(error.to_string().contains(&file.0.display().to_string()), "{what}: {error}");
    }
}
#[test]
fn what_is_not_ours_is_refused_only_when_it_is_read() {
    let header = r#"{"c":{"dtype":"C64","shape":[1],"data_offsets":[0,8]},"f":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[8,12]},"b":{"dtype":"BOOL","shape":[1],"data_offsets":[12,13]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.extend([2u8; 13]);
    let file = Scratch::of(&bytes);
    let open = SafeTensors::open(&file.0).unwrap();
    for (name, reason) in [("c", "C64"), ("f", "8 axes"), ("b", "`b`"), ("absent", "absent")] {
        let error = open.tensor(name, Device::reference()).expect_err(name);
        assert!(matches!(error.kind(), ErrorKind::File { .. }) && error.to_string().contains(reason), "{name}: {error}");
    }
}
