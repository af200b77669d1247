//! What a user reads when something goes wrong, word for word: one case for each kind of error, plain and inside a model.
//! `{here}` stands for the line of the case's call, `{tmp}` for a folder, `{in use}` for what tensors hold.
use adamant::{
    DType, Device, Result, Tensor,
    cpu::{Context, CpuBackend},
    formats::safetensors,
    functional as f,
    nn::{Embedding, Linear, Module, Param, Sequential, Softmax, Walk},
};
use std::{collections::BTreeMap, path::Path};

/// One block of an encoder: `encoder.0.linear`.
#[derive(Module)]
struct Block {
    linear: Linear,
}
impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.linear.forward(x)?.relu())
    }
}
#[derive(Module)]
struct Net {
    table: Embedding,
    encoder: Sequential,
    scale: Param,
    pick: Softmax,
}
impl Net {
    fn new() -> Result<Net> {
        let block = Block { linear: Linear::new(8, 4)? };
        let net = Net { table: Embedding::new(10, 8)?, encoder: Sequential::new().add(block), scale: Param::new(&Tensor::ones([4]))?, pick: Softmax::new(2) };
        // The first walk gives the layers their paths.
        assert_eq!(net.parameter_count(), 10 * 8 + 8 * 4 + 4 + 4);
        Ok(net)
    }
}
impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (self.encoder.forward(x)? * self.scale.get()).ok()
    }
}
fn x() -> Tensor {
    Tensor::ones([2, 3])
}
/// What the encoder takes.
fn wide(n: usize) -> Tensor {
    Tensor::ones([n, 8])
}
/// Rows of the table: 8 MiB of indices, 32 MiB of features.
fn many() -> Tensor {
    Tensor::zeros([1 << 20]).cast(DType::I64)
}
fn ids(v: &[i64]) -> Tensor {
    Tensor::from_slice(v, v.len())
}

/// The kind's word, the call with its line, the whole text.
type Case = (&'static str, fn(&Net, &Path) -> (u32, Result<()>), &'static str);
#[rustfmt::skip] // A call and its line stay on one line.
const CASES: &[Case] = &[
    ("shape", |_, _| (line!(), x().matmul(x()).materialize()),
        "matmul: inner sizes must be equal: left [2, 3] axis 1 = 3, right [2, 3] axis 0 = 2, both f32 ({here}). Hint: the right side transposed fits: `right.mt()`"),
    ("shape", |net, _| (line!(), net.forward(&x()).map(drop)),
        "linear: the input's last axis must be the weight's last: left [2, 3] axis 1 = 3, right [4, 8] axis 1 = 8; given f32 [2, 3], f32 [4, 8], f32 [4]; in encoder.0.linear ({here}). Hint: the weight is [out, in]: it takes 8 features on the last axis, and 3 came"),
    ("shape", |_, _| (line!(), (x() + Tensor::ones([2, 4])).materialize()),
        "add: shapes do not broadcast: left [2, 3] axis 1 = 3, right [2, 4] axis 1 = 4, both f32 ({here}). Hint: sizes are compared from the last axis on: they are equal, or one of them is 1"),
    ("shape", |_, _| (line!(), Tensor::from_vec(vec![1.0f32; 5], [2, 3]).materialize()),
        "from_vec: shape [2, 3]: 6 elements, but 5 were given ({here})"),
    ("shape", |_, _| (line!(), x().reshape([4, 2]).materialize()),
        "reshape: shape [2, 3]: a shape of 6 elements; [4, 2] does not have as many; given f32 [2, 3] ({here}). Hint: one size may be -1: it follows from the others: `x.reshape([-1])`"),
    ("shape", |net, _| (line!(), net.scale.set(&x())),
        "cell write: a cell keeps its shape: left [4], right [2, 3]; in scale ({here})"),
    ("axis", |_, _| (line!(), x().sum(2).materialize()),
        "sum: axis 2 does not exist in a tensor of 2 axes; given f32 [2, 3] ({here}). Hint: axes run from -2 to 1"),
    ("axis", |net, _| (line!(), net.pick.forward(&x()).map(drop)),
        "softmax: axis 2 does not exist in a tensor of 2 axes; given f32 [2, 3]; in pick ({here}). Hint: axes run from -2 to 1"),
    ("dtype", |_, _| (line!(), (ids(&[1]) * ids(&[1]).cast(DType::U16)).materialize()),
        "mul: dtypes differ: left i64, right u16; given i64 [1], u16 [1] ({here}). Hint: they have no common dtype; cast both: `(left.cast(DType::I64), right.cast(DType::I64))`"),
    ("dtype", |net, _| (line!(), net.forward(&wide(2).cast(DType::F64)).map(drop)),
        "linear: dtypes differ: left f64, right f32; given f64 [2, 8], f32 [4, 8], f32 [4]; in encoder.0.linear ({here}). Hint: cast one side: `right.cast(DType::F64)`"),
    ("index", |_, _| (line!(), x().index_select(1, &ids(&[0, 3])).materialize()),
        "index_select (in its gather): index 3 at position 1 is out of range for axis 1, of size 3 ({here}). Hint: indices run from 0 to 2"),
    ("index", |net, _| (line!(), net.table.forward(&ids(&[1, 2, 10])).and_then(|t| t.materialize())),
        "embedding: index 10 at position 2 is out of range for axis 0, of size 10; in table ({here}). Hint: indices run from 0 to 9"),
    ("index", |_, _| (line!(), f::cross_entropy(&x(), &ids(&[0, 7]), &Default::default()).materialize()),
        "cross_entropy: index 7 at position 1 is out of range for an axis of size 3 ({here}). Hint: a label is the number of its class, from 0 to 2"),
    ("device", |_, _| (line!(), x().matmul(x().t().to(Device::reference())).materialize()),
        "matmul: tensors are on two devices: left cpu, right reference; given f32 [2, 3], f32 [3, 2] ({here}). Hint: move one of them: `right.to(left.device()?)`"),
    ("device", |net, _| (line!(), net.forward(&wide(2).to(Device::reference())).map(drop)),
        "linear: tensors are on two devices: left reference, right cpu; given f32 [2, 8], f32 [4, 8], f32 [4]; in encoder.0.linear ({here}). Hint: move one of them: `right.to(left.device()?)`"),
    ("device", |_, _| (line!(), Device::cuda(0).map(drop)),
        "cuda (in its open): device not available: no backend `cuda` is compiled in (there are [\"cpu\"]); enable its feature: adamant = { features = [\"cuda\"] } ({here}). Hint: take the best one that is there: `Device::auto()?`"),
    ("memory", |_, _| (line!(), Tensor::ones([1 << 40]).to_vec::<f32>().map(drop)),
        "to_vec: out of memory: 4398046511104 bytes asked for, {in use} bytes in use by tensors ({here}). Hint: use a smaller batch, drop tensors you no longer need, or `checkpoint` a part of the model"),
    ("memory", |net, _| (line!(), net.table.forward(&many()).and_then(|t| t.materialize())),
        "embedding: out of memory: 33554432 bytes asked for, {in use} bytes in use by tensors, cap 16777216 bytes; in table ({here}). Hint: use a smaller batch, drop tensors you no longer need, or `checkpoint` a part of the model"),
    ("file", |_, at| (line!(), safetensors::SafeTensors::open(at.join("gone.safetensors")).map(drop)),
        "safetensors: {tmp}/gone.safetensors: No such file or directory (os error 2) ({here}). Hint: relative paths begin at the folder that the program runs in: `std::env::current_dir()`"),
    ("file", |_, at| (line!(), safetensors::SafeTensors::open(at.join("cut.safetensors")).map(drop)),
        "safetensors: {tmp}/cut.safetensors: its header speaks of 480 bytes of data, the file has 472 ({here})"),
    ("file", |_, at| (line!(), safetensors::save(at.join("no/such/folder"), [("x", x())], &BTreeMap::new())),
        "safetensors: {tmp}/no/such/folder: No such file or directory (os error 2) ({here}). Hint: relative paths begin at the folder that the program runs in: `std::env::current_dir()`"),
    ("argument", |net, _| (line!(), net.load_state_dict(&[("encoder.0.linear.wieght".into(), x())])),
        "load_state_dict: missing: `table.weight`, `encoder.0.linear.weight`, `encoder.0.linear.bias`, `scale`; unknown: `encoder.0.linear.wieght` ({here}). Hint: the model has `encoder.0.linear.weight` where you have `encoder.0.linear.wieght`"),
];

#[test]
fn an_error_that_does_not_say_what_where_and_what_to_try() {
    let device = Context::new(CpuBackend::builder().threads(1)).unwrap().device();
    device.scoped(|| {
        let folder = tempfile::tempdir().unwrap();
        let net = Net::new().unwrap();
        let good = folder.path().join("good.safetensors");
        safetensors::save(&good, net.state_dict(), &BTreeMap::new()).unwrap();
        let bytes = std::fs::read(&good).unwrap();
        std::fs::write(folder.path().join("cut.safetensors"), &bytes[..bytes.len() - 8]).unwrap();
        device.pool().set_cap(16 << 20);
        let mut wrong = Vec::new();
        for (kind, call, text) in CASES {
            let (line, result) = call(&net, folder.path());
            let here = format!("{}:{line}", file!());
            let error = match result {
                Ok(()) => {
                    wrong.push(format!("{here}: no error"));
                    continue;
                }
                Err(e) => e,
            };
            let mut got = error.to_string().replace(&here, "{here}").replace(&folder.path().display().to_string(), "{tmp}");
            if let Some(end) = got.find(" bytes in use") {
                let start = got[..end].rfind(' ').map_or(0, |at| at + 1);
                got.replace_range(start..end, "{in use}");
            }
            if got != *text || error.kind().word() != *kind {
                wrong.push(format!("{}: {got}", error.kind().word()));
            }
        }
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    });
}
