//! Files that NumPy wrote are read bit for bit, and what we write is what NumPy would. The files in `numpy/` are
//! NumPy's, those in `numpy/expected/` the same arrays in another format, written by another library.
#![allow(clippy::unwrap_used)]
use adamant_core::{Device, Tensor, bf16};
use adamant_formats::{npy::Npy, read_npy, safetensors::SafeTensors, write_npy};
use std::path::PathBuf;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/numpy").join(name)
}
/// Dtype, shape and bits.
fn same(ours: &Tensor, expected: &Tensor, what: &str) {
    let facts = |t: &Tensor| (t.dtype().unwrap(), t.shape().unwrap(), t.to_bytes().unwrap());
    assert_eq!(facts(ours), facts(expected), "{what}");
}
fn expected(name: &str) -> SafeTensors {
    SafeTensors::open(file(&format!("expected/{name}.safetensors"))).unwrap()
}

#[test]
fn an_array_of_numpy_that_is_read_wrong() {
    Device::reference().make_current();
    let names = ["big_endian", "bool", "empty", "f2", "f4", "f8", "fortran", "i2", "i4", "i8", "u1", "v2", "zero_d"];
    for name in names.map(|n| format!("{n}.npy")) {
        let ours = read_npy(file(&name)).unwrap();
        same(&ours, &expected(&name).tensor("array", Device::reference()).unwrap(), &name);
    }
}
#[test]
fn pickled_objects_that_are_touched() {
    let error = Npy::open(file("object.npy")).unwrap_err().to_string();
    assert!(error.contains("object.npy") && error.contains("pickled Python objects"), "{error}");
}
/// Every dtype of ours that the format has, and shapes from none to eight axes.
fn tensors() -> Vec<(String, Tensor)> {
    let dims: [&[usize]; 5] = [&[], &[3], &[2, 3], &[0, 4], &[1, 2, 1, 3, 1, 1, 2, 1]];
    let mut all = Vec::new();
    for dims in dims {
        let n: usize = dims.iter().product();
        macro_rules! of {
            ($($t:ty),*) => { $(all.push((format!("{} {dims:?}", stringify!($t)), Tensor::from_vec((0..n).map(|k| (k as i32 - 3) as $t).collect::<Vec<$t>>(), dims)));)* };
        }
        of!(u8, i8, i16, u16, i32, u32, i64, u64, f32, f64);
        all.push((format!("bool {dims:?}"), Tensor::from_vec((0..n).map(|k| k % 3 == 0).collect::<Vec<bool>>(), dims)));
        all.push((format!("f16 {dims:?}"), Tensor::from_vec((0..n).map(|k| adamant_core::f16::from_f32(k as f32 / 3.0)).collect::<Vec<_>>(), dims)));
    }
    all
}
#[test]
fn a_tensor_that_does_not_come_back() {
    Device::reference().make_current();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    for (what, tensor) in tensors() {
        write_npy(&path, &tensor).unwrap();
        same(&read_npy(&path).unwrap(), &tensor, &what);
        assert_eq!(Npy::open(&path).unwrap().meta(), (tensor.dtype().unwrap(), tensor.shape().unwrap()));
    }
    let view = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]).mt();
    write_npy(&path, &view).unwrap();
    assert_eq!(read_npy(&path).unwrap().to_vec::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
}
#[test]
fn bytes_that_are_not_those_that_numpy_writes() {
    Device::reference().make_current();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    for name in ["bool", "empty", "f2", "f4", "f8", "i2", "i4", "i8", "u1", "zero_d"].map(|n| format!("{n}.npy")) {
        write_npy(&path, &read_npy(file(&name)).unwrap()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(file(&name)).unwrap(), "{name}");
    }
}
#[test]
fn a_file_that_is_left_behind_after_an_error() {
    Device::reference().make_current();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    let error = write_npy(&path, &Tensor::from_vec(vec![bf16::ONE], [1])).unwrap_err().to_string();
    assert!(error.contains("npy has no bf16") && error.contains("x.npy"), "{error}");
    assert!(write_npy(&path, &(&Tensor::zeros([2]) + &Tensor::zeros([3]))).is_err());
    assert!(write_npy(folder.path().join("no/such.npy"), &Tensor::zeros([2])).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[cfg(feature = "npz")]
mod npz {
    use super::*;
    use adamant_formats::npz::{Npz, NpzCompression, read_npz, write_npz};

    #[test]
    fn an_archive_of_numpy_that_is_read_wrong() {
        Device::reference().make_current();
        for name in ["stored.npz", "deflated.npz"] {
            let (arrays, expected) = (read_npz(file(name)).unwrap(), expected(name));
            assert_eq!(arrays.keys().cloned().collect::<Vec<_>>(), expected.names());
            for (array, tensor) in &arrays {
                same(tensor, &expected.tensor(array, Device::reference()).unwrap(), &format!("{name}: {array}"));
            }
            let open = Npz::open(file(name)).unwrap();
            assert_eq!(open.meta("f4").unwrap(), expected.meta("f4").unwrap());
            assert!(open.contains("f4") && !open.contains("f4.npy"));
            assert!(open.tensor("nope", Device::reference()).unwrap_err().to_string().contains("no array `nope`"));
        }
    }
    #[test]
    fn an_archive_that_does_not_come_back_or_differs_from_run_to_run() {
        Device::reference().make_current();
        let folder = tempfile::tempdir().unwrap();
        let (path, again) = (folder.path().join("x.npz"), folder.path().join("y.npz"));
        let mut tensors = tensors();
        tensors.push(("größe/一.weight".into(), Tensor::from_vec(vec![0.5f32; 100_000], [100, 1000])));
        for packing in [NpzCompression::Stored, NpzCompression::Deflated] {
            write_npz(&path, tensors.clone(), packing).unwrap();
            let back = read_npz(&path).unwrap();
            assert_eq!(back.len(), tensors.len());
            tensors.iter().for_each(|(name, tensor)| same(&back[name], tensor, name));
            write_npz(&again, tensors.iter().rev().cloned(), packing).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&again).unwrap());
        }
        assert!(std::fs::metadata(&path).unwrap().len() < 30_000);
        write_npz::<String>(&path, [], NpzCompression::Stored).unwrap();
        assert!(read_npz(&path).unwrap().is_empty());
        let one = Tensor::zeros([1]);
        for (pair, says) in [
            ([("a", one.clone()), ("a", one.clone())], "two arrays"),
            ([("a", one.clone()), ("b", one.cast(adamant_core::DType::BF16))], "array `b`: npy has no bf16"),
        ] {
            let error = write_npz(folder.path().join("z.npz"), pair, NpzCompression::Stored).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
