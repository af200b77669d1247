//! Every layer and loss, two levels deep in a model: `encoder.0.part`. Layers of one tensor are given every input of a list;
//! those that they refuse are the wrong calls.
use crate::{Case, Told, wrong};
use adamant::{
    DType, Device, Result, Tensor,
    functional::{self as f, PadMode, Resize},
    nn::*,
};

/// One block of an encoder.
#[derive(Module)]
struct Block<L> {
    part: L,
}
impl<L: Module> Module for Block<L> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.part.forward(x)
    }
}
#[derive(Module)]
struct Net<L> {
    encoder: Vec<Block<L>>,
}
impl<L: Module> Module for Net<L> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.encoder[0].forward(x)
    }
}
/// The part of a model that its layers know by its path.
fn placed<L: Walk>(part: L) -> Net<L> {
    let net = Net { encoder: vec![Block { part }] };
    net.state_dict();
    net
}
impl<L> Net<L> {
    fn part(&self) -> &L {
        &self.encoder[0].part
    }
}
fn ones(shape: &[usize]) -> Tensor {
    Tensor::ones(shape)
}
/// What each layer is given: shapes and dtypes that most refuse.
const INPUTS: &[(&str, fn() -> Tensor)] = &[
    ("f32[]", || ones(&[])),
    ("f32[3]", || ones(&[3])),
    ("f32[2, 3]", || ones(&[2, 3])),
    ("f32[2, 5, 7]", || ones(&[2, 5, 7])),
    ("f32[2, 2, 2, 2, 2, 2]", || ones(&[2, 2, 2, 2, 2, 2])),
    ("bool[2, 4]", || ones(&[2, 4]).cast(DType::Bool)),
    ("f64[2, 4, 8, 8]", || ones(&[2, 4, 8, 8]).cast(DType::F64)),
    ("i64[2, 4]", || ones(&[2, 4]).cast(DType::I64) * 99),
    ("on the reference device", || ones(&[2, 4]).to(Device::reference())),
];
fn module(cases: &mut Vec<Case>, name: &str, layer: Result<impl Module + 'static>) {
    let Ok(layer) = layer else {
        cases.push(Case { text: name.into(), path: "", line: None, error: None, of: String::new() });
        return;
    };
    let net = placed(layer);
    let before = cases.len();
    for (input, make) in INPUTS {
        let x = make();
        let (told, line) = (net.forward(&x).told(), line!());
        if told.is_some() {
            cases.push(Case { text: format!("{name}.forward({input})"), path: "encoder.0.part", line: Some((file!(), line)), error: told, of: String::new() });
        }
    }
    if cases.len() == before {
        cases.push(Case { text: format!("{name} takes everything"), path: "", line: None, error: None, of: String::new() });
    }
}
/// `modules!(cases; layer, ..)`: a layer's name in the texts is its constructor's.
macro_rules! modules {
    ($cases:ident; $($layer:expr),* $(,)?) => { $(module(&mut $cases, stringify!($layer).split_whitespace().collect::<Vec<_>>().join(" ").trim_start_matches("Ok(").trim_end_matches("?"), $layer);)* };
}
#[rustfmt::skip]
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    modules!(cases;
        Linear::new(4, 8), Linear::no_bias(4, 8), Embedding::new(9, 4), PositionEmbedding::new(2, 4), EmbeddingBag::new(9, 4),
        Conv1d::new(4, 8, 3), Conv2d::new(4, 8, 3), Conv3d::new(4, 8, 3), ConvTranspose1d::new(4, 8, 3), ConvTranspose2d::new(4, 8, 3), ConvTranspose3d::new(4, 8, 3),
        Ok(MaxPool1d::new(9)), Ok(MaxPool2d::new(9)), Ok(MaxPool3d::new(9)), Ok(AvgPool1d::new(9)), Ok(AvgPool2d::new(9)), Ok(AvgPool3d::new(9)),
        Ok(AdaptiveAvgPool1d::new(2)), Ok(AdaptiveAvgPool2d::new(2)), Ok(AdaptiveAvgPool3d::new(2)),
        Ok(AdaptiveMaxPool1d::new(2)), Ok(AdaptiveMaxPool2d::new(2)), Ok(AdaptiveMaxPool3d::new(2)),
        BatchNorm1d::new(4), BatchNorm2d::new(4), BatchNorm3d::new(4), InstanceNorm1d::new(4), InstanceNorm2d::new(4), InstanceNorm3d::new(4),
        LayerNorm::new(4), RmsNorm::new(4), GroupNorm::new(3, 6), Ok(LocalResponseNorm::new(3)), Ok(CrossMapLrn2d::new(3)), FeatureAlphaDropout::new(0.5),
        Ok(LpPool1d::new(2.0, 9)), Ok(LpPool2d::new(2.0, 9)), Ok(LpPool3d::new(2.0, 9)), Ok(FractionalMaxPool2d::new(9, 4)), Ok(FractionalMaxPool3d::new(9, 4)),
        Ok(Relu::new()), Ok(Celu::with(0.0)), Ok(Glu::default()),
        Ok(Softmax::new(3)), Ok(LogSoftmax::new(3)), Ok(Softmin::new(3)), Ok(Softmax2d::new()), PRelu::with(4, 0.1),
        Dropout::new(0.5), Dropout1d::new(0.5), Dropout2d::new(0.5), Dropout3d::new(0.5), AlphaDropout::new(0.5),
        Ok(Flatten::with(1, 4)), Ok(Unflatten::new(1, [5, 2])), Ok(Pad::around(9, 2, PadMode::Reflect)), Ok(Upsample::with(Resize::Size(vec![4, 4]), f::InterpolateOptions::default())),
        Ok(PixelShuffle::new(3)), Ok(PixelUnshuffle::new(3)), Ok(ChannelShuffle::new(3)), Ok(Unfold::new(9)), Ok(Fold::new([9, 9], 2)),
        Rnn::new(4, 8), Gru::new(4, 8), Lstm::new(4, 8), RnnCell::with(4, 8, true, RnnNonlinearity::Tanh), GruCell::with(4, 8, true), LstmCell::with(4, 8, true),
    );
    several(&mut cases);
    losses(&mut cases);
    constructors(&mut cases);
    cases
}
/// Layers whose `forward` takes several tensors, and those that hold others.
#[rustfmt::skip]
fn several(cases: &mut Vec<Case>) {
    let (masks, x, wide) = (Masks::default(), ones(&[2, 5, 8]), ones(&[2, 5, 6]));
    let attention = placed(MultiheadAttention::new(8, 2).unwrap());
    let attention = attention.part();
    wrong!(cases, "encoder.0.part"; attention.forward(&wide, &x, &x, &masks));
    wrong!(cases, "encoder.0.part"; attention.forward(&x, &wide, &x, &masks));
    wrong!(cases, "encoder.0.part"; attention.forward(&x, &x, &x.narrow(0, 0, 1), &masks));
    wrong!(cases, "encoder.0.part"; attention.forward(&ones(&[8]), &x, &x, &masks));
    wrong!(cases, "encoder.0.part"; attention.forward(&x, &x, &x, &Masks { attn_mask: Some(&ones(&[3, 3])), ..Masks::default() }));
    wrong!(cases, "encoder.0.part"; attention.forward_weights(&x, &x, &x, &Masks { key_padding_mask: Some(&ones(&[3, 3])), ..Masks::default() }));
    wrong!(cases, "encoder.0.part"; attention.forward(&x.cast(DType::F64), &x, &x, &masks));
    let options = TransformerOptions { dim_feedforward: 16, ..TransformerOptions::default() };
    let layer = placed(TransformerEncoderLayer::with(8, 2, options).unwrap());
    wrong!(cases, "encoder.0.part.self_attn"; layer.part().forward(&wide));
    wrong!(cases, "encoder.0.part.self_attn"; layer.part().forward_masked(&x, &Masks { attn_mask: Some(&ones(&[3, 3])), ..Masks::default() }));
    let stack = placed(TransformerEncoder::new(vec![TransformerEncoderLayer::with(8, 2, options).unwrap()], None));
    wrong!(cases, "encoder.0.part.layers.0.self_attn"; stack.part().forward(&wide));
    let decoder = placed(TransformerDecoderLayer::with(8, 2, options).unwrap());
    wrong!(cases, "encoder.0.part.self_attn"; decoder.part().forward(&wide, &x, &masks, &masks));
    wrong!(cases, "encoder.0.part.multihead_attn"; decoder.part().forward(&x, &wide, &masks, &masks));
    let decoders = placed(TransformerDecoder::new(vec![TransformerDecoderLayer::with(8, 2, options).unwrap()], None));
    wrong!(cases, "encoder.0.part.layers.0.multihead_attn"; decoders.part().forward(&x, &wide, &masks, &masks));
    let whole = placed(Transformer::with(8, 2, 1, 1, options).unwrap());
    wrong!(cases, "encoder.0.part.encoder.layers.0.self_attn"; whole.part().forward(&wide, &x, &masks, &masks, &masks));
    let places = Tensor::from_slice(&[0i64, 99], [1, 1, 2]);
    wrong!(cases, "encoder.0.part"; placed(MaxUnpool1d::new(2)).part().forward(&ones(&[1, 1, 2]), &places.narrow(2, 0, 1), None));
    wrong!(cases, "encoder.0.part"; placed(MaxUnpool2d::new(2)).part().forward(&ones(&[1, 1, 2]), &places, None));
    wrong!(cases, "encoder.0.part"; placed(MaxUnpool3d::new(2)).part().forward(&ones(&[1, 1, 2]), &places, None));
    let adaptive = placed(AdaptiveLogSoftmaxWithLoss::new(8, 10, &[4], AdaptiveLogSoftmaxOptions::default()).unwrap());
    wrong!(cases, "encoder.0.part"; adaptive.part().forward(&ones(&[3, 8]), &ones(&[2]).cast(DType::I64)).map(drop));
    let bilinear = placed(Bilinear::new(3, 4, 5).unwrap());
    wrong!(cases, "encoder.0.part"; bilinear.part().forward(&ones(&[2, 3]), &ones(&[2, 3])));
    wrong!(cases, "encoder.0.part"; placed(CosineSimilarity::with(3, 1e-8)).part().forward(&x, &x));
    wrong!(cases, "encoder.0.part"; placed(CosineSimilarity::with(1, 1e-8)).part().forward(&x, &wide));
    wrong!(cases, "encoder.0.part"; placed(PairwiseDistance::with(2.0, 1e-6, false)).part().forward(&x, &wide));
    wrong!(cases, "encoder.0.part"; placed(MaxPool2d::new(2)).part().forward_indices(&ones(&[4])));
    wrong!(cases, "encoder.0.part"; placed(EmbeddingBag::new(9, 4).unwrap()).part().forward_offsets(&x, &x));
    let rnn = placed(Rnn::new(4, 8).unwrap());
    wrong!(cases, "encoder.0.part"; rnn.part().forward_state(&ones(&[5, 2, 4]), Some(&ones(&[2, 2, 8]))));
    let gru = placed(Gru::new(4, 8).unwrap());
    wrong!(cases, "encoder.0.part"; gru.part().forward_state(&ones(&[5, 2, 4]), Some(&ones(&[1, 2, 9]))));
    let lstm = placed(Lstm::new(4, 8).unwrap());
    wrong!(cases, "encoder.0.part"; lstm.part().forward_state(&ones(&[5, 2, 4]), Some((&ones(&[1, 2, 8]), &ones(&[1, 3, 8])))));
    wrong!(cases, "encoder.0.part"; placed(RnnCell::with(4, 8, true, RnnNonlinearity::Relu).unwrap()).part().forward_state(&ones(&[2, 4]), Some(&ones(&[2, 9]))));
    wrong!(cases, "encoder.0.part"; placed(GruCell::with(4, 8, true).unwrap()).part().forward_state(&ones(&[2, 4]), Some(&ones(&[2, 9]))));
    wrong!(cases, "encoder.0.part"; placed(LstmCell::with(4, 8, true).unwrap()).part().forward_state(&ones(&[2, 4]), Some((&ones(&[2, 9]), &ones(&[2, 8])))).map(drop));
    let sequential = placed(Sequential::new().add(Linear::new(8, 4).unwrap()).add(Relu::new()).add(Linear::new(5, 2).unwrap()));
    wrong!(cases, "encoder.0.part.2"; sequential.part().forward(&x));
}
/// Losses: shapes, dtypes and options.
#[rustfmt::skip]
fn losses(cases: &mut Vec<Case>) {
    let (x, column, row, ids) = (ones(&[4, 3]), ones(&[4, 1]), ones(&[4]), Tensor::from_slice(&[0i64, 1, 2, 7], [4]));
    macro_rules! of_two {
        ($($loss:expr),* $(,)?) => { $(
            let loss = placed($loss);
            wrong!(cases, "encoder.0.part"; loss.part().forward(&column, &row));
            wrong!(cases, "encoder.0.part"; loss.part().forward(&ones(&[4, 3]), &ones(&[4, 2])));
        )* };
    }
    of_two!(L1Loss::new(), MseLoss::new(), SmoothL1Loss::new(), HuberLoss::new(), KlDivLoss::new(), PoissonNllLoss::new(), SoftMarginLoss::new(),
        HingeEmbeddingLoss::new(), BceLoss::new(), BceWithLogitsLoss::new(), MultiLabelSoftMarginLoss::new());
    wrong!(cases, "encoder.0.part"; placed(SmoothL1Loss::with(-1.0, f::Reduction::Mean)).part().forward(&x, &x));
    wrong!(cases, "encoder.0.part"; placed(HuberLoss::with(0.0, f::Reduction::Mean)).part().forward(&x, &x));
    wrong!(cases, "encoder.0.part"; placed(CrossEntropyLoss::new()).part().forward(&x, &ids));
    wrong!(cases, "encoder.0.part"; placed(CrossEntropyLoss::new()).part().forward(&x, &ids.narrow(0, 0, 3)));
    wrong!(cases, "encoder.0.part"; placed(CrossEntropyLoss::new()).part().forward(&x, &ids.cast(DType::Bool)));
    wrong!(cases, "encoder.0.part"; placed(CrossEntropyLoss::with(f::CrossEntropyOptions { weight: Some(&row), ..Default::default() }).unwrap()).part().forward(&x, &ids));
    wrong!(cases, "encoder.0.part"; placed(CrossEntropyLoss::with(f::CrossEntropyOptions { label_smoothing: 2.0, ..Default::default() }).unwrap()).part().forward(&x, &ids));
    wrong!(cases, "encoder.0.part"; placed(NllLoss::new()).part().forward(&x, &ids));
    wrong!(cases, "encoder.0.part"; placed(NllLoss::new()).part().forward(&x, &x));
    wrong!(cases, "encoder.0.part"; placed(MultiMarginLoss::new()).part().forward(&x, &row));
    wrong!(cases, "encoder.0.part"; placed(MultiMarginLoss::new()).part().forward(&x, &ids));
    wrong!(cases, "encoder.0.part"; placed(MultiLabelMarginLoss::new()).part().forward(&x, &row));
    wrong!(cases, "encoder.0.part"; placed(GaussianNllLoss::new()).part().forward(&x, &x, &ones(&[4, 2])));
    wrong!(cases, "encoder.0.part"; placed(CosineEmbeddingLoss::new()).part().forward(&x, &ones(&[4, 2]), &row));
    wrong!(cases, "encoder.0.part"; placed(MarginRankingLoss::new()).part().forward(&row, &ones(&[3]), &row));
    wrong!(cases, "encoder.0.part"; placed(TripletMarginLoss::new()).part().forward(&x, &ones(&[4, 2]), &x));
    wrong!(cases, "encoder.0.part"; placed(TripletMarginWithDistanceLoss::new()).part().forward(&x, &ones(&[4, 2]), &x));
    wrong!(cases, "encoder.0.part"; placed(CtcLoss::new()).part().forward(&ones(&[5, 2, 3]), &x, &ids, &ids));
    wrong!(cases, "encoder.0.part.linear"; placed(LinearCrossEntropyLoss::new(5, 3).unwrap()).part().forward(&x, &ids));
}
#[rustfmt::skip]
fn constructors(cases: &mut Vec<Case>) {
    wrong!(cases; MultiheadAttention::new(8, 3).map(drop));
    wrong!(cases; MultiheadAttention::with(8, 2, MultiheadAttentionOptions { dropout: 2.0, ..Default::default() }).map(drop));
    wrong!(cases; Dropout::new(1.5).map(drop));
    wrong!(cases; Dropout2d::new(-0.5).map(drop));
    wrong!(cases; AlphaDropout::new(f64::NAN).map(drop));
    wrong!(cases; GroupNorm::new(3, 4).map(drop));
    wrong!(cases; Embedding::with(4, 2, Some(7)).map(drop));
    wrong!(cases; Conv2d::with(3, 8, 3, ConvOptions { groups: 2, ..Default::default() }).map(drop));
    wrong!(cases; Param::new(&ones(&[2]).cast(DType::I64)).map(drop));
    wrong!(cases; Linear::tied(&Param::new(&ones(&[2])).unwrap()).map(drop));
    wrong!(cases; init::orthogonal([3], 1.0));
    wrong!(cases; init::xavier_uniform([3], 1.0));
    wrong!(cases; init::trunc_normal([3], 0.0, 1.0, 2.0, -2.0));
    wrong!(cases; ModuleDict::of([("a.b", Linear::new(2, 2).unwrap())]).map(drop));
    let net = placed(Linear::new(4, 8).unwrap());
    wrong!(cases; net.load_state_dict(&[("encoder.0.part.wieght".into(), ones(&[8, 4])), ("encoder.0.part.bias".into(), ones(&[8]))]));
    wrong!(cases; net.load_state_dict(&[("encoder.0.part.weight".into(), ones(&[4, 8])), ("encoder.0.part.bias".into(), ones(&[8]))]));
    wrong!(cases, "encoder.0.part.weight"; net.part().weight.set(&ones(&[4, 8])));
    wrong!(cases, "encoder.0.part.weight"; net.part().weight.set(&ones(&[8, 4]).cast(DType::F64)));
}
