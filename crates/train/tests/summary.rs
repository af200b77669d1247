//! Summaries against figures computed by hand.
#![allow(clippy::unwrap_used, clippy::panic)]
use adamant_backend_cpu::{Context, CpuBackend};
use adamant_core::{DType, Device, Result, Tensor};
use adamant_nn::*;
use adamant_train::summary::{Row, Summary, summary};

fn row<'s>(summary: &'s Summary, path: &str) -> &'s Row {
    summary.rows.iter().find(|r| r.path == path).unwrap_or_else(|| panic!("no {path} in {summary}"))
}
fn conv(from: usize, to: usize, kernel: usize, padding: usize, stride: usize, bias: bool) -> Conv2d {
    Conv2d::with(from, to, kernel, ConvOptions { padding: padding.into(), stride: stride.into(), bias, ..Default::default() }).unwrap()
}
/// (path, input, output, parameters, FLOPs)
type Expected<'e> = (&'e str, &'e [usize], &'e [usize], usize, u64);
fn check(summary: &Summary, expected: &[Expected<'_>]) {
    for (path, input, output, parameters, flops) in expected {
        let r = row(summary, path);
        let found = (r.input.as_deref(), r.output.as_deref(), r.parameters, r.figures.flops);
        assert_eq!(found, (Some(*input), Some(*output), *parameters, *flops), "{path}\n{summary}");
    }
}

#[test]
fn a_perceptron_whose_figures_are_not_those_of_the_hand() {
    Device::cpu().unwrap().make_current();
    let net = Sequential::new().add(Linear::new(784, 128).unwrap()).add(Relu::new()).add(Dropout::new(0.2).unwrap()).add(Linear::new(128, 10).unwrap());
    let twice = Sequential::new().add(Dropout::new(0.2).unwrap()).add(Dropout::new(0.2).unwrap());
    assert_eq!(row(&summary(&twice, &[7], DType::F32, 3).unwrap(), "1").input, Some(vec![3, 7]), "the second key is no input");
    net.eval();
    let s = summary(&net, &[784], DType::F32, 64).unwrap();
    check(
        &s,
        &[
            ("0", &[64, 784], &[64, 128], 784 * 128 + 128, 64 * (2 * 784 * 128 + 128)),
            ("1", &[64, 128], &[64, 128], 0, 64 * 128),
            ("3", &[64, 128], &[64, 10], 1290, 64 * (2 * 128 * 10 + 10)),
        ],
    );
    // In evaluation dropout does nothing.
    assert_eq!((row(&s, "2").input.clone(), row(&s, "2").figures.flops), (None, 0));
    assert_eq!((s.parameters, s.trainable, s.parameter_bytes), (101_770, 101_770, 407_080));
    assert_eq!(s.totals.multiply_adds, 64 * (784 * 128 + 128 * 10));
    assert_eq!(row(&s, "0").figures.bytes_moved, 4 * (64 * 784 + 784 * 128 + 128 + 64 * 128));
    // Backward reads the hidden values, once for relu and the layer after it.
    assert_eq!(s.totals.activation_bytes, 4 * 64 * 128);
    assert!((s.totals.intensity() - s.totals.flops as f64 / s.totals.bytes_moved as f64).abs() < 1e-12);
}
#[test]
fn a_lenet_whose_figures_are_not_those_of_the_hand() {
    Device::cpu().unwrap().make_current();
    // LeCun et al., 1998, with maxima: 61,706 parameters, 416,520 multiply-adds.
    let net = Sequential::new()
        .add(conv(1, 6, 5, 2, 1, true))
        .add(Relu::new())
        .add(MaxPool2d::new(2))
        .add(conv(6, 16, 5, 0, 1, true))
        .add(Relu::new())
        .add(MaxPool2d::new(2))
        .add(Flatten::with(1, -1))
        .add(Linear::new(400, 120).unwrap())
        .add(Linear::new(120, 84).unwrap())
        .add(Linear::new(84, 10).unwrap());
    let s = summary(&net, &[1, 28, 28], DType::F32, 1).unwrap();
    check(
        &s,
        &[
            ("0", &[1, 1, 28, 28], &[1, 6, 28, 28], 156, 2 * 117_600 + 4704),
            ("2", &[1, 6, 28, 28], &[1, 6, 14, 14], 0, 4704),
            ("3", &[1, 6, 14, 14], &[1, 16, 10, 10], 2416, 2 * 240_000 + 1600),
            ("6", &[1, 16, 5, 5], &[1, 400], 0, 0),
            ("7", &[1, 400], &[1, 120], 48_120, 2 * 48_000 + 120),
            ("9", &[1, 84], &[1, 10], 850, 2 * 840 + 10),
        ],
    );
    assert_eq!((s.parameters, s.totals.multiply_adds), (61_706, 416_520));
}
/// y = relu(x + conv(relu(bn(conv(x)))))
#[derive(Module)]
struct Block {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    relu: Relu,
}
impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.conv1.forward(x)?;
        let y = self.relu.forward(&self.bn1.forward(&y)?)?;
        (x + self.conv2.forward(&y)?).relu().ok()
    }
}
#[test]
fn a_residual_block_whose_figures_are_not_those_of_the_hand() {
    Device::cpu().unwrap().make_current();
    let block = || Block { conv1: conv(64, 64, 3, 1, 1, false), bn1: BatchNorm2d::new(64).unwrap(), conv2: conv(64, 64, 3, 1, 1, false), relu: Relu::new() };
    let net = Sequential::new().add_named("layer1", block()).add_named("layer2", block()).add_named("down", conv(64, 128, 1, 0, 2, false));
    net.eval();
    let s = summary(&net, &[64, 56, 56], DType::F32, 2).unwrap();
    let plane = 2 * 64 * 56 * 56u64;
    let image: &[usize] = &[2, 64, 56, 56];
    check(
        &s,
        &[
            ("layer1.conv1", image, image, 36_864, 2 * plane * 576),
            ("layer2.conv2", image, image, 36_864, 2 * plane * 576),
            ("layer2.relu", image, image, 0, plane),
            ("down", image, &[2, 128, 28, 28], 8192, 2 * 2 * 128 * 28 * 28 * 64),
        ],
    );
    // What the blocks do themselves, the sum and the relu after it, is the model's own.
    assert_eq!((row(&s, "").kind.as_str(), row(&s, "").figures.flops), ("model", 2 * 2 * plane));
    assert_eq!(row(&s, "layer1.bn1").parameters, 128);
    assert_eq!(s.parameters, 4 * 36_864 + 2 * 128 + 8192);
}
#[test]
fn an_attention_whose_figures_are_not_those_of_the_hand() {
    Device::cpu().unwrap().make_current();
    let (batch, t, d, heads) = (3, 16, 32, 4);
    #[derive(Module)]
    struct Model {
        embedding: Embedding,
        attention: MultiheadAttention,
    }
    impl Module for Model {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            let x = self.embedding.forward(x)?;
            self.attention.forward(&x, &x, &x, &Masks::default())
        }
    }
    let attention = MultiheadAttention::with(d, heads, MultiheadAttentionOptions { batch_first: true, ..Default::default() }).unwrap();
    let model = Model { embedding: Embedding::new(100, d).unwrap(), attention };
    model.eval();
    let s = summary(&model, &[t], DType::I64, batch).unwrap();
    check(&s, &[("embedding", &[batch, t], &[batch, t, d], 100 * d, 0)]);
    // Four projections of d x d, and two products of t x t in d features over all heads.
    let projections = 4 * batch * t * d * d;
    let products = 2 * batch * t * t * d;
    assert_eq!(s.totals.multiply_adds as usize, projections + products, "{s}");
    assert_eq!(s.parameters, 100 * d + 4 * d * d + 4 * d);
    assert_eq!(s.output, [batch, t, d]);
}
#[test]
fn a_summary_that_runs_the_model() {
    // Of its own: other tests take memory of the common one meanwhile.
    let device = Context::new(CpuBackend::builder().threads(1)).unwrap().device();
    device.make_current();
    let net = Sequential::new().add(conv(3, 8, 3, 1, 1, true)).add(BatchNorm2d::new(8).unwrap()).add(Dropout::new(0.5).unwrap());
    for (_, p) in net.leaves() {
        p.detached().materialize().unwrap();
    }
    let state = || net.state_dict().into_iter().map(|(name, t)| (name, t.cast(DType::F64).to_vec::<f64>().unwrap())).collect::<Vec<_>>();
    let values = state();
    let before = (device.memory(), values);
    let kernels = adamant_backend_cpu::trace::trace(|| {
        // 550 GB of activations: nothing of this could be computed.
        let s = summary(&net, &[3, 4096, 4096], DType::F32, 1024).unwrap();
        assert_eq!(s.totals.multiply_adds, 1024 * 8 * 4096 * 4096 * 27);
        assert!(row(&s, "2").figures.flops > 0, "in training dropout draws");
    });
    assert_eq!((kernels.1.len(), device.memory().requests, device.memory().live_bytes), (0, before.0.requests, before.0.live_bytes));
    let after = state();
    assert_eq!(before.1, after);
}
#[test]
fn a_deep_model_whose_window_closes() {
    Device::cpu().unwrap().make_current();
    let mut net = Sequential::new();
    for k in 0..3000 {
        net.push(&k.to_string(), Box::new(Tanh::new()));
    }
    let kernels = adamant_backend_cpu::trace::trace(|| {
        let s = summary(&net, &[5], DType::F32, 2).unwrap();
        assert_eq!((s.rows.len(), s.totals.flops), (3000, 30_000));
        // One value must be kept, of which each next one is computed again or read: never more than all.
        assert!(s.totals.activation_bytes <= 3000 * 40);
    });
    assert_eq!(kernels.1.len(), 0);
}
#[test]
fn shared_and_frozen_parameters_that_are_counted_twice_or_as_trained() {
    Device::reference().make_current();
    let layer = Linear::new(8, 8).unwrap();
    let net = Sequential::new().add(layer.clone()).add(layer).add(Linear::new(8, 8).unwrap());
    net.layers().nth(2).unwrap().1.freeze();
    let s = summary(&net, &[8], DType::F32, 1).unwrap();
    assert_eq!((s.parameters, s.trainable), (144, 72));
    assert_eq!(s.rows.iter().map(|r| r.parameters).sum::<usize>(), 144);
    assert_eq!(s.totals.flops, 3 * (128 + 8));
}
#[test]
fn a_shape_that_the_model_does_not_take() {
    Device::reference().make_current();
    let net = Sequential::new().add(Linear::new(8, 8).unwrap());
    let error = summary(&net, &[7], DType::F32, 4).unwrap_err();
    assert_eq!(error.kind().word(), "shape");
    assert!(error.to_string().contains("in 0"), "{error}");
    assert!(summary(&net, &[1; 9], DType::F32, 4).is_err());
}
#[test]
fn a_table_that_cannot_be_read() {
    Device::reference().make_current();
    let net = Sequential::new().add(Linear::new(4, 8).unwrap()).add(Relu::new()).add(Linear::new(8, 2).unwrap());
    let s = summary(&net, &[4], DType::F32, 16).unwrap();
    let expected = "\
┌───────────┬─────────┬─────────┬────────────┬───────┬─────────┬────────┬───────────────────┐
│ Layer     ┆ Input   ┆ Output  ┆ Parameters ┆ FLOPs ┆ Moved   ┆ FLOP/B ┆ Kept for backward │
╞═══════════╪═════════╪═════════╪════════════╪═══════╪═════════╪════════╪═══════════════════╡
│ 0: Linear ┆ [16, 4] ┆ [16, 8] ┆         40 ┆  1152 ┆   928 B ┆    1.2 ┆                 – │
│ 1: ReLU   ┆ [16, 8] ┆ [16, 8] ┆          – ┆   128 ┆ 1.0 KiB ┆    0.1 ┆             512 B │
│ 2: Linear ┆ [16, 8] ┆ [16, 2] ┆         18 ┆   544 ┆   712 B ┆    0.8 ┆                 – │
└───────────┴─────────┴─────────┴────────────┴───────┴─────────┴────────┴───────────────────┘
input [16, 4], output [16, 2]
58 parameters, 58 trainable, 232 B with buffers
1824 FLOPs forward, 768 multiply-adds
2.6 KiB moved without fusion, 0.7 FLOP/B; 512 B kept for backward";
    assert_eq!(s.to_string(), expected, "\n{s}");
    let json = serde_json::to_value(&s).unwrap();
    assert_eq!((&json["rows"][0]["flops"], &json["flops"], &json["parameters"]), (&1152.into(), &1824.into(), &58.into()));
}
