//! Networks that are drawn from a seed, with everything that layers are joined by. The test and `cargo xtask quant prune` share
//! them, so the crates are named by who includes this.
use super::{core, nn};
use core::{Result, Tensor, functional};
use nn::{
    BatchNorm, BatchNormOptions, Conv, ConvOptions, ConvTranspose, ConvTransposeOptions, Copies, Embedding, GroupNorm, Gru, InstanceNorm, LayerNorm, Linear,
    Lstm, Masks, Module, MultiheadAttention, MultiheadAttentionOptions, PRelu, RecurrentOptions, RmsNorm, Rnn, RnnNonlinearity, Sequential, Walk, Walker, init,
    manual_seed,
};

/// SplitMix64 (Steele et al. 2014).
pub struct Draws(pub u64);
impl Draws {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
/// What a step computes from values before it.
#[derive(Clone, Debug)]
enum NetStep {
    Layer(usize, usize),
    Map(&'static str, usize),
    Sum(usize, usize),
    Product(usize, usize),
    Join(Vec<usize>),
    /// halves of the channels, one of them a gate of the other
    Halves(usize),
    /// the mean over all but the batch and the channels
    Places(usize),
    /// `[batch, channels, ..]` as `[batch, places, channels]`
    Sequence(usize),
    /// the channels moved last, normalised, and moved back
    Last(usize, usize),
    Flat(usize),
    /// the mean over time
    Time(usize),
}
/// A drawn network.
pub struct DrawnNet {
    layers: Sequential,
    steps: Vec<NetStep>,
}
impl Walk for DrawnNet {
    fn walk(&self, walker: &mut Walker<'_>) {
        walker.child("layers", &self.layers);
    }
    fn duplicate(&self, copies: &mut Copies) -> Result<DrawnNet> {
        Ok(DrawnNet { layers: self.layers.duplicate(copies)?, steps: self.steps.clone() })
    }
}
impl Module for DrawnNet {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let layers: Vec<&dyn Module> = self.layers.layers().map(|(_, layer)| layer).collect();
        let mut values = vec![x.clone()];
        for step in &self.steps {
            let next = match step {
                NetStep::Layer(layer, of) => layers[*layer].forward(&values[*of])?,
                NetStep::Map(name, of) => mapped(name, &values[*of]),
                NetStep::Sum(a, b) => &values[*a] + &values[*b],
                NetStep::Product(a, b) => &values[*a] * &values[*b],
                NetStep::Join(of) => Tensor::cat(&of.iter().map(|k| &values[*k]).collect::<Vec<_>>(), 1),
                NetStep::Halves(of) => {
                    let halves = values[*of].chunk(2, 1)?;
                    &halves[0] * halves[1].sigmoid()
                }
                NetStep::Places(of) => {
                    let rank = values[*of].shape()?.rank() as isize;
                    values[*of].mean((2..rank).collect::<Vec<isize>>())
                }
                NetStep::Sequence(of) => values[*of].flatten(2, -1).transpose(1, 2),
                NetStep::Last(layer, of) => layers[*layer].forward(&values[*of].movedim([1], [-1]))?.movedim([-1], [1]),
                NetStep::Flat(of) => values[*of].flatten(1, -1),
                NetStep::Time(of) => values[*of].mean(1),
            };
            values.push(next.ok()?);
        }
        Ok(values.swap_remove(values.len() - 1))
    }
}
const MAPS: [&str; 6] = ["relu", "tanh", "sigmoid", "gelu", "silu", "exp"];
fn mapped(name: &str, x: &Tensor) -> Tensor {
    match name {
        "relu" => x.relu(),
        "tanh" => x.tanh(),
        "sigmoid" => x.sigmoid(),
        "gelu" => x.gelu(),
        "silu" => x.silu(),
        _ => (x * 0.3).tanh().exp(),
    }
}
/// Attention of a sequence over itself.
struct SelfAttention(MultiheadAttention);
impl Walk for SelfAttention {
    fn walk(&self, walker: &mut Walker<'_>) {
        walker.child("inner", &self.0);
    }
    fn duplicate(&self, copies: &mut Copies) -> Result<SelfAttention> {
        Ok(SelfAttention(self.0.duplicate(copies)?))
    }
}
impl Module for SelfAttention {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(x, x, x, &Masks { is_causal: true, ..Default::default() })
    }
}
/// Attention by four linear layers, as users write it: how many heads there are follows from their width.
struct OwnAttention {
    parts: [Linear; 4],
    width: usize,
}
impl Walk for OwnAttention {
    fn walk(&self, walker: &mut Walker<'_>) {
        ["query", "key", "value", "out"].iter().zip(&self.parts).for_each(|(name, part)| walker.child(name, part));
    }
    fn duplicate(&self, copies: &mut Copies) -> Result<OwnAttention> {
        let [q, k, v, o] = &self.parts;
        Ok(OwnAttention { parts: [q.duplicate(copies)?, k.duplicate(copies)?, v.duplicate(copies)?, o.duplicate(copies)?], width: self.width })
    }
}
impl Module for OwnAttention {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let [batch, time, _] = x.dims()?;
        let heads =
            |k: usize| -> Result<Tensor> { self.parts[k].forward(x)?.reshape([batch as isize, time as isize, -1, self.width as isize]).transpose(1, 2).ok() };
        let scores = heads(0)?.matmul(heads(1)?.mt()) * (self.width as f64).powf(-0.5);
        let y = scores.softmax(-1).matmul(heads(2)?).transpose(1, 2).reshape([batch as isize, time as isize, -1]);
        self.parts[3].forward(&y)
    }
}
/// A value: its place, its channels, and the layer that they are of.
#[derive(Clone, Copy)]
struct DrawnValue {
    at: usize,
    channels: usize,
    maker: Option<usize>,
}
/// A network, an input, and which couplings it has, each with the layer whose channels they bind.
pub struct DrawnCase {
    pub net: DrawnNet,
    pub x: Tensor,
    pub couplings: Vec<(&'static str, usize)>,
}
impl DrawnCase {
    /// In f64.
    pub fn widen(&mut self) -> Result<()> {
        if self.x.dtype()?.is_float() {
            self.x = self.x.cast(core::DType::F64);
        }
        self.net.cast(core::DType::F64)
    }
}
struct Drawing {
    draws: Draws,
    layers: Sequential,
    steps: Vec<NetStep>,
    couplings: Vec<(&'static str, usize)>,
}
type Drawn = Result<DrawnValue>;
impl Drawing {
    fn push(&mut self, step: NetStep, channels: usize, maker: Option<usize>) -> DrawnValue {
        self.steps.push(step);
        DrawnValue { at: self.steps.len(), channels, maker }
    }
    fn note(&mut self, coupling: &'static str, layer: Option<usize>) {
        self.couplings.extend(layer.map(|layer| (coupling, layer)));
    }
    fn layer(&mut self, layer: impl Module + 'static) -> usize {
        let number = self.layers.len();
        self.layers.push(&number.to_string(), Box::new(layer));
        number
    }
    fn apply(&mut self, coupling: &'static str, layer: impl Module + 'static, of: DrawnValue, channels: Option<usize>) -> DrawnValue {
        let number = self.layer(layer);
        // What changes no width belongs to who made it.
        let maker = if channels.is_some() { Some(number) } else { of.maker.or(Some(number)) };
        self.note(coupling, Some(number));
        self.push(NetStep::Layer(number, of.at), channels.unwrap_or(of.channels), maker)
    }
    fn even(&mut self) -> usize {
        self.draws.one(&[4, 6, 8, 12])
    }
    fn map(&mut self, of: DrawnValue) -> DrawnValue {
        let name = self.draws.one(&MAPS);
        self.push(NetStep::Map(name, of.at), of.channels, of.maker)
    }
    fn conv<const N: usize>(&mut self, of: DrawnValue, out: usize, groups: usize, coupling: &'static str) -> Drawn {
        let kernel = self.draws.one(&[1, 3]);
        let options = ConvOptions { padding: (kernel / 2).into(), groups, bias: self.draws.below(3) > 0, ..Default::default() };
        Ok(self.apply(coupling, Conv::<N>::with(of.channels, out, kernel, options)?, of, Some(out)))
    }
    fn transposed<const N: usize>(&mut self, of: DrawnValue, out: usize, groups: usize, coupling: &'static str) -> Drawn {
        let conv = functional::ConvTransposeOptions { padding: 1.into(), groups, ..Default::default() };
        let options = ConvTransposeOptions { conv, bias: self.draws.below(2) > 0 };
        Ok(self.apply(coupling, ConvTranspose::<N>::with(of.channels, out, 3, options)?, of, Some(out)))
    }
    /// Something with channels along axis 1 from what there is. It reads the last value, so that nothing is computed for nobody.
    fn along_one<const N: usize>(&mut self, values: &[DrawnValue]) -> Drawn {
        let of = values[self.draws.below(values.len())];
        let last = values[values.len() - 1];
        let out = self.even();
        Ok(match self.draws.below(18) {
            0 | 1 => self.conv::<N>(last, out, 1, "convolution")?,
            2 if last.channels.is_multiple_of(2) => self.conv::<N>(last, out, 2, "grouped convolution")?,
            3 => {
                let out = last.channels * (1 + self.draws.below(2));
                self.conv::<N>(last, out, last.channels, "depthwise convolution")?
            }
            4 => self.transposed::<N>(last, out, 1, "transposed convolution")?,
            5 if last.channels.is_multiple_of(2) => self.transposed::<N>(last, out, 2, "grouped transposed convolution")?,
            6 => self.transposed::<N>(last, last.channels, last.channels, "depthwise transposed convolution")?,
            7 | 8 => self.apply("batch norm", BatchNorm::<N>::new(last.channels)?, last, None),
            9 => {
                // One with nothing of its own is for the channels that it was made for.
                let affine = self.draws.below(2) > 0;
                let options = BatchNormOptions { affine, track_running_stats: !affine, ..BatchNormOptions::instance() };
                self.apply("instance norm", InstanceNorm::<N>::with(last.channels, options)?, last, None)
            }
            10 if last.channels.is_multiple_of(2) => {
                let groups = if last.channels.is_multiple_of(4) { self.draws.one(&[2, 4]) } else { 2 };
                self.apply("group norm", GroupNorm::new(groups, last.channels)?, last, None)
            }
            11 => {
                let layer = self.layer(LayerNorm::new([last.channels])?);
                self.note("layer norm", Some(layer));
                self.push(NetStep::Last(layer, last.at), last.channels, last.maker)
            }
            12 | 13 => {
                // A residual sum, by way of a convolution where widths differ.
                let branch = if of.at != last.at && of.channels == last.channels { of } else { self.conv::<N>(of, last.channels, 1, "convolution")? };
                self.note("residual sum", branch.maker);
                self.push(NetStep::Sum(last.at, branch.at), last.channels, branch.maker)
            }
            14 => {
                let branch = self.conv::<N>(of, last.channels, 1, "convolution")?;
                self.note("product", branch.maker);
                self.push(NetStep::Product(last.at, branch.at), last.channels, branch.maker)
            }
            15 => {
                let mut parts = vec![last, of];
                parts.extend((self.draws.below(2) > 0).then_some(values[0]));
                parts.iter().for_each(|part| self.note("concatenation", part.maker));
                self.push(NetStep::Join(parts.iter().map(|part| part.at).collect()), parts.iter().map(|part| part.channels).sum(), last.maker)
            }
            16 => {
                let wide = self.conv::<N>(last, 2 * out, 1, "convolution")?;
                self.note("halves", wide.maker);
                self.push(NetStep::Halves(wide.at), out, wide.maker)
            }
            17 => self.apply("prelu", PRelu::with(last.channels, 0.2)?, last, None),
            _ => self.map(last),
        })
    }
    /// A sequence `[batch, time, channels]` from one.
    fn along_last(&mut self, of: DrawnValue) -> Drawn {
        let (width, out) = (of.channels, self.even());
        let options = RecurrentOptions {
            num_layers: 1 + self.draws.below(2),
            bidirectional: self.draws.below(2) > 0,
            batch_first: true,
            bias: self.draws.below(3) > 0,
            ..Default::default()
        };
        let directions = 1 + usize::from(options.bidirectional);
        Ok(match self.draws.below(9) {
            0 if width.is_multiple_of(2) => {
                let heads = if width.is_multiple_of(4) { self.draws.one(&[2, 4]) } else { 2 };
                let more = MultiheadAttentionOptions {
                    batch_first: true,
                    add_bias_kv: self.draws.below(3) == 0,
                    add_zero_attn: self.draws.below(4) == 0,
                    bias: self.draws.below(3) > 0,
                    ..Default::default()
                };
                self.apply("attention heads", SelfAttention(MultiheadAttention::with(width, heads, more)?), of, Some(width))
            }
            1 => {
                let (heads, head) = (self.draws.one(&[2, 3, 4]), self.draws.one(&[2, 3]));
                let inner = heads * head;
                let parts = [Linear::new(width, inner)?, Linear::new(width, inner)?, Linear::no_bias(width, inner)?, Linear::new(inner, out)?];
                self.apply("attention by hand", OwnAttention { parts, width: head }, of, Some(out))
            }
            2 => {
                let proj_size = self.draws.one(&[0, 0, 3]);
                let features = if proj_size > 0 { proj_size } else { out };
                self.apply("lstm", Lstm::with(width, out, RecurrentOptions { proj_size, ..options })?, of, Some(features * directions))
            }
            3 => self.apply("gru", Gru::with(width, out, options)?, of, Some(out * directions)),
            4 => {
                let nonlinearity = self.draws.one(&[RnnNonlinearity::Tanh, RnnNonlinearity::Relu]);
                self.apply("rnn", Rnn::with(width, out, nonlinearity, options)?, of, Some(out * directions))
            }
            5 => self.apply("layer norm", LayerNorm::new([width])?, of, None),
            6 => self.apply("rms norm", RmsNorm::new([width])?, of, None),
            7 => {
                let hidden = self.apply("linear", Linear::new(width, out)?, of, Some(out));
                let hidden = self.map(hidden);
                let back = self.apply("linear", Linear::new(out, width)?, hidden, Some(width));
                self.note("residual sum", back.maker);
                self.push(NetStep::Sum(of.at, back.at), width, back.maker)
            }
            _ => self.apply("linear", Linear::new(width, out)?, of, Some(out)),
        })
    }
    fn sequence(&mut self, first: DrawnValue) -> Drawn {
        let mut value = first;
        for _ in 0..1 + self.draws.below(3) {
            value = self.along_last(value)?;
            if self.draws.below(3) == 0 {
                value = self.map(value);
            }
        }
        Ok(self.push(NetStep::Time(value.at), value.channels, value.maker))
    }
    fn places<const N: usize>(&mut self, x: DrawnValue, side: usize) -> Drawn {
        let width = self.even();
        let mut values = vec![self.conv::<N>(x, width, 1, "convolution")?];
        for _ in 0..2 + self.draws.below(6) {
            let next = self.along_one::<N>(&values)?;
            values.push(next);
            if self.draws.below(2) == 0 {
                let next = self.map(next);
                values.push(next);
            }
        }
        let last = values[values.len() - 1];
        match self.draws.below(3) {
            0 => {
                self.note("flattened into linear", last.maker);
                Ok(self.push(NetStep::Flat(last.at), last.channels * side.pow(N as u32), last.maker))
            }
            1 => Ok(self.push(NetStep::Places(last.at), last.channels, last.maker)),
            _ => {
                let steps = self.push(NetStep::Sequence(last.at), last.channels, last.maker);
                self.sequence(steps)
            }
        }
    }
}
/// The network of a seed.
pub fn drawn(seed: u64) -> Result<DrawnCase> {
    manual_seed(seed);
    let mut d = Drawing { draws: Draws(seed.wrapping_mul(0x9E37)), layers: Sequential::new(), steps: Vec::new(), couplings: Vec::new() };
    let channels = 1 + d.draws.below(3);
    let x = DrawnValue { at: 0, channels, maker: None };
    let (example, features) = match d.draws.below(8) {
        0..=3 => (init::normal([2, channels, 4, 4], 0.0, 1.0)?, d.places::<2>(x, 4)?),
        4 => (init::normal([2, channels, 5], 0.0, 1.0)?, d.places::<1>(x, 5)?),
        5 => (init::normal([2, channels, 2, 2, 2], 0.0, 1.0)?, d.places::<3>(x, 2)?),
        6 => {
            let width = d.even();
            let ids = (0..10).map(|_| d.draws.below(7) as i64).collect();
            let rows = d.apply("embedding", Embedding::new(7, width)?, x, Some(width));
            (Tensor::from_vec(ids, [2, 5]), d.sequence(rows)?)
        }
        _ => {
            let width = d.even();
            let rows = d.apply("linear", Linear::new(channels, width)?, x, Some(width));
            (init::normal([2, 5, channels], 0.0, 1.0)?, d.sequence(rows)?)
        }
    };
    let mut value = features;
    if d.draws.below(2) == 0 {
        let width = d.even();
        value = d.apply("linear", Linear::new(value.channels, width)?, value, Some(width));
        value = d.map(value);
    }
    d.apply("head", Linear::new(value.channels, 3)?, value, Some(3));
    Ok(DrawnCase { net: DrawnNet { layers: d.layers, steps: d.steps }, x: example, couplings: d.couplings })
}
