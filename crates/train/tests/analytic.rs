//! What ops of a layer cost by the rules of the graph, against what the layer's own formula costs, written down from its definition.
//!
//! What counts: a product or a convolution 2 for each multiply-add, also for those that a kernel makes with the zeros of its padding;
//! any element-wise function (a sum, a maximum, a comparison, an exponential) 1 for each element; a sum, a maximum over an axis or a
//! window 1 for each element that goes into it. Choosing, moving, converting, drawing bits and whatever is done with integers and
//! truth values (positions, counts, masks) cost nothing.
#![allow(clippy::unwrap_used, clippy::panic)]
use adamant_backend_cpu as _;
use adamant_core::{DType, Device, Result, Tensor, functional};
use adamant_nn::*;
use adamant_train::analysis::ModelAnalyzer;

/// Numbers that look drawn, the same in each run.
struct Draw(u64);
impl Draw {
    fn of(&mut self, from: usize, to: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        from + (self.0 >> 33) as usize % (to - from + 1)
    }
    fn coin(&mut self) -> bool {
        self.of(0, 1) == 1
    }
}
fn elements(shape: &[usize]) -> u64 {
    shape.iter().product::<usize>() as u64
}
#[derive(Default)]
struct Faults(Vec<String>, usize);
impl Faults {
    /// The layer's FLOPs, counted and by the formula of its input's and output's shapes.
    fn check(&mut self, what: &str, layer: &dyn Module, input: &[usize], dtype: DType, formula: impl FnOnce(&[usize]) -> u64) {
        let found = match ModelAnalyzer::new().describe(layer, input, dtype) {
            Ok(found) => found,
            Err(e) => return self.0.push(format!("{what} for {input:?}: {e}")),
        };
        let (counted, wanted) = (found.summary.totals.flops, formula(&found.summary.output));
        self.1 += 1;
        if counted != wanted || !found.summary.uncounted.is_empty() || found.layers.iter().map(|l| l.row.figures.flops).sum::<u64>() != counted {
            let x = elements(input);
            self.0.push(format!(
                "{what} for {input:?} -> {:?}: counted {counted} ({:.3} an input), by the formula {wanted}",
                found.summary.output,
                counted as f64 / x as f64
            ));
        }
    }
    fn none(self, at_least: usize) {
        assert!(self.0.is_empty(), "{} of {} differ:\n{}", self.0.len(), self.1, self.0.join("\n"));
        assert!(self.1 >= at_least, "{} cases", self.1);
    }
}

#[test]
fn a_convolution_that_is_counted_by_other_options_than_its_own() {
    Device::cpu().unwrap().make_current();
    let (mut faults, mut draw) = (Faults::default(), Draw(1));
    for _ in 0..120 {
        let (groups, bias, batch) = (draw.of(1, 3), draw.coin(), draw.of(1, 3));
        let (from, to) = (groups * draw.of(1, 4), groups * draw.of(1, 4));
        let axes = draw.of(1, 3);
        let each = |draw: &mut Draw, a, b| (0..axes).map(|_| draw.of(a, b)).collect::<Vec<_>>();
        let (kernel, stride, padding, dilation) = (each(&mut draw, 1, 4), each(&mut draw, 1, 3), each(&mut draw, 0, 3), each(&mut draw, 1, 2));
        let sides: Vec<usize> = kernel.iter().map(|k| k * 2 + draw.of(0, 5)).collect();
        let input = [&[batch, from][..], &sides].concat();
        let window = elements(&kernel);
        // Every output channel of a group takes in each channel of the group at each place of the kernel.
        let forward = |y: &[usize]| elements(y) * (2 * (from / groups) as u64 * window + u64::from(bias));
        let o = ConvOptions {
            stride: stride.as_slice().into(),
            padding: padding.as_slice().into(),
            dilation: dilation.as_slice().into(),
            groups,
            bias,
            ..Default::default()
        };
        let what = format!("Conv{axes}d {from}->{to} {kernel:?} {o:?}");
        match axes {
            1 => faults.check(&what, &Conv1d::with(from, to, kernel.as_slice(), o).unwrap(), &input, DType::F32, forward),
            2 => faults.check(&what, &Conv2d::with(from, to, kernel.as_slice(), o).unwrap(), &input, DType::F32, forward),
            _ => faults.check(&what, &Conv3d::with(from, to, kernel.as_slice(), o).unwrap(), &input, DType::F32, forward),
        }
        // Transposed, each element of the input goes out to each place of the kernel.
        let back = |y: &[usize]| 2 * elements(&input) * (to / groups) as u64 * window + if bias { elements(y) } else { 0 };
        let inside: Vec<usize> = kernel.iter().zip(&padding).map(|(k, p)| (*p).min(k - 1)).collect();
        let conv = functional::ConvTransposeOptions { stride: stride.as_slice().into(), padding: inside.as_slice().into(), groups, ..Default::default() };
        let o = ConvTransposeOptions { conv, bias };
        let what = format!("ConvTranspose{axes}d {from}->{to} {kernel:?} {o:?}");
        match axes {
            1 => faults.check(&what, &ConvTranspose1d::with(from, to, kernel.as_slice(), o).unwrap(), &input, DType::F32, back),
            2 => faults.check(&what, &ConvTranspose2d::with(from, to, kernel.as_slice(), o).unwrap(), &input, DType::F32, back),
            _ => faults.check(&what, &ConvTranspose3d::with(from, to, kernel.as_slice(), o).unwrap(), &input, DType::F32, back),
        }
    }
    faults.none(240);
}
#[test]
fn a_linear_layer_or_an_embedding_that_is_counted_otherwise() {
    Device::cpu().unwrap().make_current();
    let (mut faults, mut draw) = (Faults::default(), Draw(2));
    for _ in 0..30 {
        let (rows, from, to, length) = (draw.of(1, 9), draw.of(1, 40), draw.of(1, 40), draw.of(1, 7));
        let products = |y: &[usize]| 2 * elements(y) * from as u64;
        faults.check("Linear", &Linear::new(from, to).unwrap(), &[rows, length, from], DType::F32, |y| products(y) + elements(y));
        faults.check(
            "Linear in bf16",
            &{
                let l = Linear::new(from, to).unwrap();
                l.cast(DType::BF16).unwrap();
                l
            },
            &[rows, from],
            DType::BF16,
            |y| products(y) + elements(y),
        );
        faults.check("Embedding", &Embedding::new(50, to).unwrap(), &[rows, length], DType::I64, |_| 0);
        faults.check("PositionEmbedding", &PositionEmbedding::new(10, to).unwrap(), &[rows, length, to], DType::F32, elements);
    }
    faults.none(120);
}
#[test]
fn a_normalisation_that_is_counted_otherwise() {
    Device::cpu().unwrap().make_current();
    let (mut faults, mut draw) = (Faults::default(), Draw(3));
    // Of n sums: the mean, the distances from it, their squares, the mean of these, the root of it and eps, and one over that; then
    // each element times it.
    let normalised = |x: u64, sums: u64| 5 * x + 5 * sums;
    for _ in 0..20 {
        let (batch, groups, side) = (draw.of(2, 5), draw.of(1, 4), draw.of(2, 6));
        let c = groups * draw.of(2, 4);
        let x = (batch * c * side * side) as u64;
        let shape = [batch, c, side, side];
        let eval = BatchNorm2d::new(c).unwrap();
        eval.eval();
        // (x - mean) / sqrt(var + eps), scaled and shifted
        faults.check("BatchNorm2d, eval", &eval, &shape, DType::F32, |_| 4 * x + 3 * c as u64);
        faults.check("GroupNorm", &GroupNorm::new(groups, c).unwrap(), &shape, DType::F32, |_| normalised(x, (batch * groups) as u64) + 2 * x);
        faults.check("LayerNorm", &LayerNorm::new([side]).unwrap(), &shape, DType::F32, |_| normalised(x, x / side as u64) + 2 * x);
        let bare = LayerNorm::with([side], LayerNormOptions { elementwise_affine: false, ..Default::default() }).unwrap();
        faults.check("LayerNorm without scale", &bare, &shape, DType::F32, |_| normalised(x, x / side as u64));
        // squares, their mean, the root of it and eps, one over that, times x and scale
        faults.check("RMSNorm", &RmsNorm::new([side]).unwrap(), &shape, DType::F32, |_| 4 * x + 4 * (x / side as u64));
        faults.check("InstanceNorm2d", &InstanceNorm2d::new(c).unwrap(), &shape, DType::F32, |_| normalised(x, (batch * c) as u64));
        // In training the running statistics move: each old and new one by its weight, and the variance of the sample from that of the batch.
        faults.check("BatchNorm2d, training", &BatchNorm2d::new(c).unwrap(), &shape, DType::F32, |_| normalised(x, c as u64) + 2 * x + 7 * c as u64);
    }
    faults.none(140);
}
#[test]
fn a_pooling_that_is_counted_otherwise() {
    Device::cpu().unwrap().make_current();
    let (mut faults, mut draw) = (Faults::default(), Draw(4));
    for _ in 0..30 {
        let (batch, c, kernel) = (draw.of(1, 3), draw.of(1, 5), draw.of(1, 3));
        let (stride, padding) = (draw.of(1, 3), draw.of(0, kernel / 2));
        let side = kernel * draw.of(2, 4);
        let window = (kernel * kernel) as u64;
        let max =
            MaxPool2d::with(functional::MaxPoolOptions { stride: Some(stride.into()), padding: padding.into(), ..functional::MaxPoolOptions::new(kernel) });
        faults.check("MaxPool2d", &max, &[batch, c, side, side], DType::F32, |y| elements(y) * window);
        let avg =
            AvgPool2d::with(functional::AvgPoolOptions { stride: Some(stride.into()), padding: padding.into(), ..functional::AvgPoolOptions::new(kernel) });
        faults.check("AvgPool2d", &avg, &[batch, c, side, side], DType::F32, |y| elements(y) * (window + 1));
        faults.check("MaxPool1d", &MaxPool1d::new(kernel), &[batch, c, side], DType::F32, |y| elements(y) * kernel as u64);
        faults.check("AvgPool3d", &AvgPool3d::new(kernel), &[batch, c, side, side, side], DType::F32, |y| elements(y) * (window * kernel as u64 + 1));
        // Each window takes in what it holds: of equal windows that is all of the input.
        let parts = side / kernel;
        faults.check("AdaptiveAvgPool2d", &AdaptiveAvgPool2d::new(parts), &[batch, c, side, side], DType::F32, |y| {
            (batch * c * side * side) as u64 + elements(y)
        });
        faults.check("AdaptiveMaxPool2d", &AdaptiveMaxPool2d::new(parts), &[batch, c, side, side], DType::F32, |_| (batch * c * side * side) as u64);
    }
    faults.none(180);
}
fn evaluating<M: Module>(layer: M) -> M {
    layer.eval();
    layer
}
#[test]
fn an_activation_that_is_counted_otherwise() {
    Device::cpu().unwrap().make_current();
    let (mut faults, mut draw) = (Faults::default(), Draw(5));
    for _ in 0..3 {
        let shape = [draw.of(1, 4), 2 * draw.of(1, 8), draw.of(1, 9), 2 * draw.of(2, 9)];
        let x = elements(&shape);
        let rows = x / shape[3] as u64;
        // Functions of an element, each with the functions that it is made of.
        let maps: [(&str, Box<dyn Module>, &[&str]); 26] = [
            ("Identity", Box::new(Identity::default()), &[]),
            ("ReLU", Box::new(Relu::default()), &["max(x, 0)"]),
            ("ReLU6", Box::new(Relu6::default()), &["x < 0", "x > 6"]),
            ("LeakyReLU", Box::new(LeakyRelu::default()), &["x > 0", "slope x"]),
            ("PReLU", Box::new(PRelu::with(1, 0.25).unwrap()), &["x > 0", "weight x"]),
            ("RReLU, eval", Box::new(evaluating(RRelu::default())), &["x > 0", "slope x"]),
            ("ELU", Box::new(Elu::default()), &["x > 0", "the exponent x times 1", "exp - 1", "alpha times"]),
            ("CELU", Box::new(Celu::default()), &["x > 0", "the exponent x / alpha", "exp - 1", "alpha times"]),
            ("SELU", Box::new(Selu::default()), &["x > 0", "the exponent x times 1", "exp - 1", "alpha times", "scale times"]),
            // One function each, as PyTorch has them.
            ("GELU", Box::new(Gelu::default()), &["gelu"]),
            ("GELU, tanh", Box::new(Gelu::with(true)), &["gelu by tanh"]),
            ("SiLU", Box::new(Silu::default()), &["silu"]),
            ("Mish", Box::new(Mish::default()), &["mish"]),
            ("Sigmoid", Box::new(Sigmoid::default()), &["sigmoid"]),
            ("LogSigmoid", Box::new(LogSigmoid::default()), &["log sigmoid"]),
            ("Tanh", Box::new(Tanh::default()), &["tanh"]),
            ("Tanhshrink", Box::new(Tanhshrink::default()), &["x - tanh(x)"]),
            ("Softsign", Box::new(Softsign::default()), &["softsign"]),
            ("Softplus", Box::new(Softplus::default()), &["beta x", "above the threshold?", "log(1 + exp)", "over beta"]),
            ("Hardtanh", Box::new(Hardtanh::default()), &["x < min", "x > max"]),
            ("Hardsigmoid", Box::new(Hardsigmoid::default()), &["x <= -3", "x >= 3", "x / 6", "+ 1/2"]),
            ("Hardswish", Box::new(Hardswish::default()), &["x + 3", "below 0?", "above 6?", "times x", "over 6"]),
            ("Hardshrink", Box::new(Hardshrink::default()), &["x >= -lambda", "x <= lambda"]),
            ("Softshrink", Box::new(Softshrink::default()), &["x > lambda", "x - lambda", "x < -lambda", "x + lambda", "0 x, which keeps NaN"]),
            ("Threshold", Box::new(Threshold::default()), &["x <= threshold"]),
            ("Dropout, eval", Box::new(evaluating(Dropout::new(0.5).unwrap())), &[]),
        ];
        for (name, layer, each) in maps {
            faults.check(name, &layer, &shape, DType::F32, |_| each.len() as u64 * x);
        }
        faults.check("GLU", &Glu::default(), &shape, DType::F32, |y| 2 * elements(y));
        // the greatest, the distance from it, its exponential, their sum, and the quotient
        faults.check("Softmax", &Softmax::default(), &shape, DType::F32, |_| 5 * x);
        faults.check("Softmin", &Softmin::default(), &shape, DType::F32, |_| 6 * x);
        faults.check("Softmax2d", &Softmax2d::default(), &shape, DType::F32, |_| 5 * x);
        // as softmax up to the sum, whose logarithm is then taken off
        faults.check("LogSoftmax", &LogSoftmax::default(), &shape, DType::F32, |_| 5 * x + rows);
        faults.check("PixelShuffle", &PixelShuffle::new(1), &shape, DType::F32, |_| 0);
        faults.check("Flatten", &Flatten::with(1, -1), &shape, DType::F32, |_| 0);
    }
    faults.none(99);
}
#[test]
fn a_recurrent_layer_that_is_counted_otherwise() {
    Device::cpu().unwrap().make_current();
    let (mut faults, mut draw) = (Faults::default(), Draw(6));
    for _ in 0..6 {
        let (batch, steps, from, h) = (draw.of(1, 4), draw.of(1, 6), draw.of(1, 8), draw.of(1, 8));
        let (layers, both) = (draw.of(1, 2), draw.coin());
        let o = || RecurrentOptions { num_layers: layers, bidirectional: both, batch_first: true, ..Default::default() };
        let directions = 1 + usize::from(both);
        // Each step of each layer and direction: the gates' sums of the input and of the state, with their biases, and what a cell does.
        let formula = |gates: usize, cell: usize| {
            let of_layer = |k: usize| {
                let from = if k == 0 { from } else { directions * h };
                gates * h * (2 * from + 1 + 2 * h + 1) + cell * h
            };
            (0..layers).map(|k| (batch * steps * directions * of_layer(k)) as u64).sum::<u64>()
        };
        let input = [batch, steps, from];
        // tanh(a + b)
        faults.check("RNN", &Rnn::with(from, h, RnnNonlinearity::Tanh, o()).unwrap(), &input, DType::F32, |_| formula(1, 2));
        // four gates of a sum and a function; c = f c + i g; h = o tanh(c)
        faults.check("LSTM", &Lstm::with(from, h, o()).unwrap(), &input, DType::F32, |_| formula(4, 13));
        // r and z of a sum and a function; n = tanh(a + r b); h = n + z (h - n)
        faults.check("GRU", &Gru::with(from, h, o()).unwrap(), &input, DType::F32, |_| formula(3, 10));
    }
    faults.none(18);
}
#[derive(Module)]
struct SelfAttention(MultiheadAttention);
impl Module for SelfAttention {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(x, x, x, &Masks::default())
    }
}
/// Projections; scores with their scale; softmax, for each row with the logarithm of its sum and its maximum added, and two
/// questions whether all of it is masked; weighted values.
fn attention(batch: usize, t: usize, d: usize, heads: usize) -> u64 {
    let projections = 4 * (2 * batch * t * d * d + batch * t * d);
    let scores = batch * heads * t * t;
    (projections + 2 * 2 * batch * t * t * d + scores * 6 + 4 * batch * heads * t) as u64
}
#[test]
fn an_attention_that_is_counted_otherwise() {
    Device::cpu().unwrap().make_current();
    let (mut faults, mut draw) = (Faults::default(), Draw(7));
    for _ in 0..8 {
        let (batch, t, heads) = (draw.of(1, 3), draw.of(2, 9), draw.of(1, 4));
        let d = heads * draw.of(2, 8);
        let layer = MultiheadAttention::with(d, heads, MultiheadAttentionOptions { batch_first: true, ..Default::default() }).unwrap();
        layer.eval();
        faults.check("MultiheadAttention", &SelfAttention(layer), &[batch, t, d], DType::F32, |_| attention(batch, t, d, heads));
        let ff = draw.of(2, 20);
        let o = TransformerOptions { dim_feedforward: ff, batch_first: true, ..Default::default() };
        let layer = TransformerEncoderLayer::with(d, heads, o).unwrap();
        layer.eval();
        let x = (batch * t * d) as u64;
        let norm = 5 * x + 5 * (batch * t) as u64 + 2 * x;
        let forward = (batch * t * (2 * d * ff + ff + ff + 2 * ff * d + d)) as u64;
        faults.check("TransformerEncoderLayer", &layer, &[batch, t, d], DType::F32, |_| attention(batch, t, d, heads) + forward + 2 * norm + 2 * x);
    }
    faults.none(16);
}
#[derive(Module)]
struct OfItself(Bilinear);
impl Module for OfItself {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(x, x)
    }
}
#[test]
fn what_moves_or_combines_that_is_counted_otherwise() {
    Device::cpu().unwrap().make_current();
    let (mut faults, mut draw) = (Faults::default(), Draw(8));
    for _ in 0..5 {
        let (rows, from, to) = (draw.of(1, 5), draw.of(1, 7), draw.of(1, 7));
        // For each output x A x: a product with each matrix, and one with x again.
        faults.check("Bilinear", &OfItself(Bilinear::new(from, from, to).unwrap()), &[rows, from], DType::F32, |y| {
            elements(y) * (2 * (from * from + from) as u64 + 1)
        });
        let (c, side) = (4 * draw.of(1, 3), 2 * draw.of(1, 4));
        let image = [rows, c, side, side];
        faults.check("PixelShuffle", &PixelShuffle::new(2), &image, DType::F32, |_| 0);
        faults.check("PixelUnshuffle", &PixelUnshuffle::new(2), &image, DType::F32, |_| 0);
        faults.check("ChannelShuffle", &ChannelShuffle::new(2), &image, DType::F32, |_| 0);
        faults.check("Pad", &Pad::around(2, 2, functional::PadMode::Constant(0.0.into())), &image, DType::F32, |_| 0);
        faults.check("Unfold", &Unfold::new(2), &image, DType::F32, |_| 0);
        faults.check("EmbeddingBag", &EmbeddingBag::with(20, to, adamant_core::tensor::BagMode::Sum).unwrap(), &[rows, from], DType::I64, |y| {
            // The sum of one is that one.
            if from > 1 { elements(y) * from as u64 } else { 0 }
        });
    }
    faults.none(35);
}
