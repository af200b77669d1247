//! Making and reading tensors, devices, files, data sets and loaders.
use crate::{Case, wrong};
use adamant::{
    DType, Device, Tensor,
    data::{
        DataLoader, Idx, ImageFolder, ImageOptions, Labelled, MmapRecords, Rows, Subset, Table, TensorDataset, Tokens, in_batches, random_split, split_samples,
        stack_samples,
    },
    formats::{npy, npz, safetensors},
    index, tensor,
};
use std::{collections::BTreeMap, path::Path, sync::Arc};

fn ones(shape: &[usize]) -> Tensor {
    Tensor::ones(shape)
}
pub fn cases(folder: &Path) -> Vec<Case> {
    let mut cases = Vec::new();
    tensors(&mut cases);
    devices(&mut cases);
    files(&mut cases, folder);
    data(&mut cases, folder);
    cases
}
#[rustfmt::skip]
fn tensors(cases: &mut Vec<Case>) {
    let (x, ids) = (ones(&[2, 3]), Tensor::from_slice(&[0i64, 9], [2]));
    wrong!(cases; Tensor::from_vec(vec![1.0f32; 5], [2, 3]));
    wrong!(cases; Tensor::from_slice(&[1i64, 2, 3], [2]));
    wrong!(cases; Tensor::full([2], 1.5, DType::I64));
    wrong!(cases; Tensor::zeros([usize::MAX, 2]));
    wrong!(cases; Tensor::ones([1, 1, 1, 1, 1, 1, 1, 1, 1]));
    wrong!(cases; Tensor::arange(0, 10, 0, DType::I64));
    wrong!(cases; tensor![1.0, 2.0].reshape([3]));
    wrong!(cases; x.to_vec::<i64>().map(drop));
    wrong!(cases; x.item::<f32>().map(drop));
    wrong!(cases; x.dims::<3>().map(drop));
    wrong!(cases; x.size(2).map(drop));
    wrong!(cases; x.to_rows::<f64>().map(drop));
    wrong!(cases; ones(&[3]).to_rows::<f32>().map(drop));
    wrong!(cases; x.to_array::<f32, 6>().map(drop));
    wrong!(cases; x.read_later::<i64>().map(drop));
    wrong!(cases; Tensor::ones([1 << 40]).to_vec::<f32>().map(drop));
    wrong!(cases; &x + ones(&[2]));
    wrong!(cases; &x - ones(&[2, 4]));
    wrong!(cases; &x * ones(&[3, 2]));
    wrong!(cases; &x / ones(&[4]));
    wrong!(cases; -x.cast(DType::Bool));
    wrong!(cases; x.cast(DType::I64) / Tensor::zeros([3]).cast(DType::I64).floor_divide(0i64));
    wrong!(cases; x.cast(DType::I64) * ones(&[3]).cast(DType::U16));
    wrong!(cases; x.matmul(ones(&[2, 3])));
    wrong!(cases; x.matmul(ones(&[])));
    wrong!(cases; x.i(2));
    wrong!(cases; x.i((0, 5)));
    wrong!(cases; x.i((0, 0, 0)));
    wrong!(cases; x.i(index![&ids, ..]));
    wrong!(cases; x.i(&x));
    wrong!(cases; x.with_i(1, ones(&[4])));
    wrong!(cases; x.narrow(0, usize::MAX, 2));
    wrong!(cases; x.slice(1, 2, 9, 1));
    wrong!(cases; x.gather(1, &ids.unsqueeze(0)));
    wrong!(cases; x.index_select(0, &ids));
    wrong!(cases; x.masked_fill(&x, 0.0));
    wrong!(cases; x.reshape([-1, -1]));
    wrong!(cases; x.reshape([4, -1]));
    wrong!(cases; x.permute([0, 0]));
    wrong!(cases; x.squeeze(4));
    wrong!(cases; x.unsqueeze(-5));
    wrong!(cases; Tensor::cat(&[&x, &ones(&[2, 3, 1])], 0));
    wrong!(cases; Tensor::stack(&[&x, &ones(&[2, 4])], 0));
    wrong!(cases; Tensor::cat::<Tensor>(&[], 0));
    wrong!(cases; Tensor::einsum("ij,jk", &[&x]));
    wrong!(cases; Tensor::einsum("ij,jk->iz", &[&x, &x]));
    wrong!(cases; x.topk(9, 1, true));
    wrong!(cases; x.one_hot(3));
    wrong!(cases; Tensor::zeros([2, 2]).inv());
    wrong!(cases; "f99".parse::<DType>().map(drop));
}
#[rustfmt::skip]
fn devices(cases: &mut Vec<Case>) {
    let x = ones(&[2, 2]);
    wrong!(cases; x.matmul(x.to(Device::reference())));
    wrong!(cases; &x + x.to(Device::reference()));
    wrong!(cases; Device::cuda(0).map(drop));
    wrong!(cases; Device::open("tpu", 0).map(drop));
    wrong!(cases; Device::open("cpu", 7).map(drop));
    wrong!(cases; "gpu".parse::<Device>().map(drop));
}
#[rustfmt::skip]
fn files(cases: &mut Vec<Case>, folder: &Path) {
    let good = folder.join("good.safetensors");
    safetensors::save(&good, [("x", ones(&[2, 3]))], &BTreeMap::new()).unwrap();
    let bytes = std::fs::read(&good).unwrap();
    std::fs::write(folder.join("cut.safetensors"), &bytes[..bytes.len() - 8]).unwrap();
    npy::write_npy(folder.join("x.npy"), &ones(&[2])).unwrap();
    std::fs::write(folder.join("text.npy"), "no array").unwrap();
    wrong!(cases; safetensors::SafeTensors::open(folder.join("gone.safetensors")).map(drop));
    wrong!(cases; safetensors::SafeTensors::open(folder.join("cut.safetensors")).map(drop));
    wrong!(cases; safetensors::SafeTensors::open(folder.join("x.npy")).map(drop));
    wrong!(cases; safetensors::SafeTensors::open(&good).and_then(|f| f.tensor("y", Device::reference())));
    wrong!(cases; safetensors::save(folder.join("no/folder"), [("x", ones(&[2]))], &BTreeMap::new()));
    wrong!(cases; safetensors::save(folder.join("two"), [("x", ones(&[2])), ("x", ones(&[2]))], &BTreeMap::new()));
    wrong!(cases; npy::read_npy(folder.join("gone.npy")));
    wrong!(cases; npy::read_npy(folder.join("text.npy")));
    wrong!(cases; npz::read_npz(folder.join("x.npy")).map(drop));
    wrong!(cases; npy::write_npy(folder.join("failed.npy"), &ones(&[2]).sum(3)));
}
#[rustfmt::skip]
fn data(cases: &mut Vec<Case>, folder: &Path) {
    let rows = |n: usize| Rows::new(vec![1.0f32; 2 * n], [n, 2]).unwrap();
    let set = Arc::new(TensorDataset::new(&[&ones(&[4, 2])]).unwrap());
    std::fs::write(folder.join("x.csv"), "1,2\n3,x\n").unwrap();
    std::fs::write(folder.join("x.idx"), "no idx").unwrap();
    wrong!(cases; Rows::new(vec![1.0f32; 5], [2, 3]).map(drop));
    wrong!(cases; rows(2).shaped([5]).map(drop));
    wrong!(cases; rows(2).gather(&[9]));
    wrong!(cases; Rows::classes(vec![0, 7], 3).map(drop));
    wrong!(cases; Rows::read_npy(folder.join("gone.npy")).map(drop));
    wrong!(cases; Labelled::new(rows(2), rows(3)).map(drop));
    wrong!(cases; TensorDataset::new(&[&ones(&[4]), &ones(&[3])]).map(drop));
    wrong!(cases; TensorDataset::new(&[]).map(drop));
    wrong!(cases; TensorDataset::new(&[&ones(&[])]).map(drop));
    wrong!(cases; DataLoader::new(set.clone()).batch_size(0).build().map(drop));
    wrong!(cases; DataLoader::new(set.clone()).batch_size(2).shard(3, 2).build().map(drop));
    wrong!(cases; random_split(set.clone(), &[0.5, 0.9], 1).map(drop));
    wrong!(cases; Subset::new(set.clone(), adamant::data::Pick::List(vec![9].into())).map(drop));
    wrong!(cases; Table::new(2, vec![1.0; 3]).map(drop));
    wrong!(cases; Table::read_csv(folder.join("x.csv")).map(drop));
    wrong!(cases; Table::read_csv(folder.join("gone.csv")).map(drop));
    wrong!(cases; Idx::read(folder.join("x.idx")).map(drop));
    wrong!(cases; ImageFolder::open(folder.join("gone"), ImageOptions::default()).map(drop));
    wrong!(cases; MmapRecords::npy(folder.join("gone.npy")).map(drop));
    wrong!(cases; MmapRecords::raw(folder.join("x.csv"), 0, DType::F32, [3]).map(drop));
    wrong!(cases; Tokens::characters("abc").windows(0).map(drop));
    wrong!(cases; stack_samples(&[ones(&[2]), ones(&[3])]));
    wrong!(cases; split_samples(&ones(&[])));
    wrong!(cases; in_batches(&[ones(&[2])], 0, |x| Ok(x.clone())).map(drop));
}
