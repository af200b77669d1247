//! The networks of the workloads, from functions of tensors. The numbers they start from are the same on every device.
use adamant::{
    Cell, DType, Error, Result, Tensor,
    functional::{
        AttentionOptions, ConvOptions, MaxPoolOptions, PackedWeight, QuantizedInput, batch_norm_inference, batch_norm_training, conv2d, embedding, layer_norm,
        linear, max_pool2d, quantized_conv, quantized_embedding, quantized_linear, scaled_dot_product_attention,
    },
    nn::Param,
    no_grad,
};
use adamant_bench::{
    Scale,
    inputs::{indices, tensor},
};
use adamant_core::{composite::packed::Packing, scope};
use std::{
    cell::{self, OnceCell},
    rc::Rc,
    sync::Arc,
};

/// Parameters as they are made, each from its own stream.
#[derive(Default)]
pub struct ModelWeights {
    /// what an optimizer gets
    pub parameters: Vec<Param>,
    drawn: u64,
    layers: usize,
    matrices: Vec<(Param, MatrixCodes)>,
    /// Do convolutions become codes at their next inputs?
    calibrating: Rc<cell::Cell<bool>>,
}
/// A matrix once it is held as codes.
#[derive(Clone, Default)]
struct MatrixCodes(Rc<OnceCell<CodedMatrix>>);
enum CodedMatrix {
    Codes {
        weight: PackedWeight,
        by_token: bool,
    },
    /// numbers of 16 bits, which are multiplied with those of x in f32
    Halves(Tensor),
}
impl CodedMatrix {
    fn times(&self, x: &Tensor, bias: Option<&Tensor>) -> Tensor {
        match self {
            CodedMatrix::Codes { weight, by_token } => {
                let input = if *by_token { QuantizedInput::PerToken { symmetric: true } } else { QuantizedInput::Float };
                quantized_linear(x, weight, bias, input)
            }
            CodedMatrix::Halves(weight) => linear(x, &weight.cast(DType::F32), bias),
        }
    }
    fn rows(&self, ids: &Tensor) -> Tensor {
        match self {
            CodedMatrix::Codes { weight, .. } => quantized_embedding(ids, weight),
            CodedMatrix::Halves(table) => embedding(ids, table, None).cast(DType::F32),
        }
    }
}
impl ModelWeights {
    /// Holds all matrices as codes from now on; inputs too, or not.
    pub fn quantize(&self, packing: Packing, by_token: bool) -> Result<()> {
        no_grad(|| {
            self.matrices.iter().try_for_each(|(matrix, codes)| {
                let weight = PackedWeight::round(&matrix.detached(), packing)?;
                weight.codes().materialize()?;
                weight.scale().materialize()?;
                // Twice is once.
                let _ = codes.0.set(CodedMatrix::Codes { weight, by_token });
                Ok(())
            })
        })
    }
    /// Holds all matrices in a dtype of 16 bits from now on.
    pub fn halve(&self, dtype: DType) -> Result<()> {
        no_grad(|| {
            self.matrices.iter().try_for_each(|(matrix, codes)| {
                let weight = matrix.detached().cast(dtype);
                weight.materialize()?;
                let _ = codes.0.set(CodedMatrix::Halves(weight));
                Ok(())
            })
        })
    }
    /// Convolutions become codes, their inputs' range being that of the network's next input.
    pub fn calibrate(&self, run: impl FnOnce() -> Result<()>) -> Result<()> {
        self.calibrating.set(true);
        let ran = run();
        self.calibrating.set(false);
        ran
    }
    fn matrix(&mut self, weight: &Param) -> MatrixCodes {
        let codes = MatrixCodes::default();
        self.matrices.push((weight.clone(), codes.clone()));
        codes
    }
    /// Uniform within ±1/√fan_in, fan_in being all axes but the first.
    fn fan_in(&mut self, shape: &[usize]) -> Result<Param> {
        let fan: usize = shape[1..].iter().product();
        self.uniform(shape, 1.0 / (fan.max(1) as f64).sqrt())
    }
    fn uniform(&mut self, shape: &[usize], bound: f64) -> Result<Param> {
        self.drawn += 1;
        self.keep(&(tensor(shape, 1000 + self.drawn) * bound))
    }
    /// The next layer's name, for those who look at layers.
    fn layer(&mut self, kind: &str) -> Arc<str> {
        self.layers += 1;
        format!("{kind}{}", self.layers).into()
    }
    fn keep(&mut self, value: &Tensor) -> Result<Param> {
        let p = Param::new(value)?;
        self.parameters.push(p.clone());
        Ok(p)
    }
    /// An `[out, in]` matrix and maybe an `[out]` bias.
    pub fn dense(&mut self, i: usize, o: usize, bias: bool) -> Result<DenseLayer> {
        let weight = self.fan_in(&[o, i])?;
        Ok(DenseLayer {
            name: self.layer("dense"),
            codes: self.matrix(&weight),
            weight,
            bias: if bias { Some(self.uniform(&[o], 1.0 / (i as f64).sqrt())?) } else { None },
        })
    }
    /// An `[out, in, k, k]` kernel and maybe a bias.
    pub fn convolution(&mut self, i: usize, o: usize, k: usize, options: ConvOptions, bias: bool) -> Result<Convolution> {
        let weight = self.fan_in(&[o, i, k, k])?;
        let bias = if bias { Some(self.uniform(&[o], 1.0 / ((i * k * k) as f64).sqrt())?) } else { None };
        Ok(Convolution { name: self.layer("conv"), weight, bias, options })
    }
    /// A table of `rows` rows.
    pub fn table(&mut self, rows: usize, width: usize, bound: f64) -> Result<Param> {
        self.uniform(&[rows, width], bound)
    }
    fn norm(&mut self, width: usize, bias: bool, eps: f64) -> Result<ModelLayerNorm> {
        Ok(ModelLayerNorm { weight: self.keep(&Tensor::ones([width]))?, bias: if bias { Some(self.keep(&Tensor::zeros([width]))?) } else { None }, eps })
    }
    fn normed(&mut self, i: usize, o: usize, k: usize, stride: usize, padding: usize) -> Result<Normed> {
        let conv = self.convolution(i, o, k, ConvOptions { stride: stride.into(), padding: padding.into(), ..ConvOptions::default() }, false)?;
        Ok(Normed {
            conv,
            weight: self.keep(&Tensor::ones([o]))?,
            bias: self.keep(&Tensor::zeros([o]))?,
            mean: Param::buffer(&Tensor::zeros([o]))?,
            var: Param::buffer(&Tensor::ones([o]))?,
            calibrating: self.calibrating.clone(),
            coded: OnceCell::new(),
        })
    }
}

/// x Wᵀ + b.
pub struct DenseLayer {
    name: Arc<str>,
    weight: Param,
    codes: MatrixCodes,
    bias: Option<Param>,
}
impl DenseLayer {
    /// `[.., in]` to `[.., out]`.
    pub fn of(&self, x: &Tensor) -> Tensor {
        let _layer = scope::enter_path(&self.name);
        let bias = self.bias.as_ref().map(Param::get);
        match self.codes.0.get() {
            Some(codes) => codes.times(x, bias.as_ref()),
            None => linear(x, &self.weight.get(), bias.as_ref()),
        }
    }
}
/// A convolution of images.
pub struct Convolution {
    name: Arc<str>,
    weight: Param,
    bias: Option<Param>,
    options: ConvOptions,
}
impl Convolution {
    /// `[n, in, h, w]` to `[n, out, h', w']`.
    pub fn of(&self, x: &Tensor) -> Tensor {
        let _layer = scope::enter_path(&self.name);
        conv2d(x, &self.weight.get(), self.bias.as_ref().map(Param::get).as_ref(), &self.options)
    }
}
struct ModelLayerNorm {
    weight: Param,
    bias: Option<Param>,
    eps: f64,
}
impl ModelLayerNorm {
    fn of(&self, x: &Tensor) -> Tensor {
        let weight = self.weight.get();
        layer_norm(x, self.weight.meta().shape, Some(&weight), self.bias.as_ref().map(Param::get).as_ref(), self.eps)
    }
}
/// A convolution and the batch normalisation after it.
struct Normed {
    conv: Convolution,
    weight: Param,
    bias: Param,
    mean: Param,
    var: Param,
    calibrating: Rc<cell::Cell<bool>>,
    coded: OnceCell<CodedConvolution>,
}
/// A convolution of codes that has the normalisation in its weight and bias.
struct CodedConvolution {
    weight: PackedWeight,
    bias: Tensor,
    /// of x
    scale: Tensor,
    zero_point: Tensor,
}
impl Normed {
    /// For inputs in the range of x.
    fn in_codes(&self, x: &Tensor) -> Result<CodedConvolution> {
        let factor = self.weight.detached() / (self.var.detached() + 1e-5).sqrt();
        let bias = self.bias.detached() - self.mean.detached() * &factor;
        let weight = self.conv.weight.detached() * factor.reshape([factor.shape()?[0], 1, 1, 1]);
        let weight = PackedWeight::round(&weight, Packing { bits: 8, group: None, symmetric: true })?;
        let (least, most) = (x.amin(..).item::<f32>()?.min(0.0), x.amax(..).item::<f32>()?.max(0.0));
        let scale = ((most - least) / 255.0).max(f32::EPSILON);
        let zero_point = (-least / scale).round() as i32;
        [weight.codes(), weight.scale(), &bias].into_iter().try_for_each(Tensor::materialize)?;
        Ok(CodedConvolution { weight, bias, scale: Tensor::from_vec(vec![scale], ()), zero_point: Tensor::from_vec(vec![zero_point], ()) })
    }
    fn of(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        if self.calibrating.get() && self.coded.get().is_none() {
            let _ = self.coded.set(self.in_codes(x)?);
        }
        if let Some(CodedConvolution { weight, bias, scale, zero_point }) = self.coded.get() {
            return Ok(quantized_conv(x, weight, Some(bias), &self.conv.options, QuantizedInput::Given { scale, zero_point }));
        }
        let x = self.conv.of(x);
        let (weight, bias) = (self.weight.get(), self.bias.get());
        if !training {
            return Ok(batch_norm_inference(&x, &self.mean.detached(), &self.var.detached(), Some(&weight), Some(&bias), 1e-5));
        }
        let (y, mean, var) = batch_norm_training(&x, Some(&weight), Some(&bias), 1e-5);
        let n = x.shape()?.elements() / mean.shape()?.elements();
        no_grad(|| {
            self.mean.set(&(self.mean.detached() * 0.9 + mean.detach() * 0.1))?;
            self.var.set(&(self.var.detached() * 0.9 + var.detach() * (0.1 * n as f64 / (n as f64 - 1.0))))
        })?;
        Ok(y)
    }
}
struct Residual {
    layers: Vec<Normed>,
    shortcut: Option<Normed>,
}
impl Residual {
    fn of(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        let mut y = x.clone();
        for (k, layer) in self.layers.iter().enumerate() {
            y = layer.of(&y, training)?;
            if k + 1 < self.layers.len() {
                y = y.relu();
            }
        }
        let shortcut = self.shortcut.as_ref().map_or_else(|| Ok(x.clone()), |s| s.of(x, training))?;
        Ok((y + shortcut).relu())
    }
}
/// A residual network (He et al. 2016): version 1.5 puts the stride into the 3×3 convolution.
pub struct ResNet {
    stem: Normed,
    pool: Option<MaxPoolOptions>,
    blocks: Vec<Residual>,
    head: DenseLayer,
}
impl ResNet {
    /// Two basic blocks in each of four stages, for small images.
    pub fn eighteen(w: &mut ModelWeights, s: Scale) -> Result<ResNet> {
        let widths = [64, 128, 256, 512].map(|c| s.of(c, c / 32));
        let stem = w.normed(3, widths[0], 3, 1, 1)?;
        let (mut blocks, mut i) = (Vec::new(), widths[0]);
        for (o, first) in widths.into_iter().zip([1, 2, 2, 2]) {
            for stride in [first, 1] {
                let layers = vec![w.normed(i, o, 3, stride, 1)?, w.normed(o, o, 3, 1, 1)?];
                let shortcut = if stride != 1 || i != o { Some(w.normed(i, o, 1, stride, 0)?) } else { None };
                blocks.push(Residual { layers, shortcut });
                i = o;
            }
        }
        Ok(ResNet { stem, pool: None, blocks, head: w.dense(i, 10, true)? })
    }
    /// ResNet-50, bottlenecks.
    pub fn fifty(w: &mut ModelWeights, s: Scale) -> Result<ResNet> {
        let widths = [64, 128, 256, 512].map(|c| s.of(c, c / 32));
        let stem = w.normed(3, widths[0], 7, 2, 3)?;
        let (mut blocks, mut i) = (Vec::new(), widths[0]);
        for ((m, n), first) in widths.into_iter().zip([3, 4, 6, 3]).zip([1, 2, 2, 2]) {
            for k in 0..s.at_most(n, 2) {
                let stride = if k == 0 { first } else { 1 };
                let layers = vec![w.normed(i, m, 1, 1, 0)?, w.normed(m, m, 3, stride, 1)?, w.normed(m, 4 * m, 1, 1, 0)?];
                let shortcut = if k == 0 { Some(w.normed(i, 4 * m, 1, stride, 0)?) } else { None };
                blocks.push(Residual { layers, shortcut });
                i = 4 * m;
            }
        }
        let pool = MaxPoolOptions { stride: Some(2.into()), padding: 1.into(), ..MaxPoolOptions::new(3) };
        Ok(ResNet { stem, pool: Some(pool), blocks, head: w.dense(i, s.of(1000, 10), true)? })
    }
    /// Logits of images.
    pub fn of(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        let mut x = self.stem.of(x, training)?.relu();
        if let Some(pool) = &self.pool {
            x = max_pool2d(&x, pool).0;
        }
        for block in &self.blocks {
            x = block.of(&x, training)?;
        }
        self.head.of(&x.mean([2, 3])).ok()
    }
}

/// `[batch, time, channels]` to `[batch, heads, time, channels / heads]`.
pub fn split_heads(x: &Tensor, heads: usize) -> Result<Tensor> {
    let [b, t, c] = x.dims()?;
    Ok(x.reshape([b, t, heads, c / heads]).transpose(1, 2))
}
/// The inverse.
pub fn join_heads(x: &Tensor) -> Result<Tensor> {
    let [b, h, t, c] = x.dims()?;
    Ok(x.transpose(1, 2).reshape([b, t, h * c]))
}
/// Keys and values of the positions so far, `[1, heads, capacity, features]`.
pub struct BlockCache {
    keys: Cell,
    values: Cell,
}
/// One pre-norm block of a language model.
struct PreNormBlock {
    heads: usize,
    norms: [ModelLayerNorm; 2],
    qkv: DenseLayer,
    proj: DenseLayer,
    up: DenseLayer,
    down: DenseLayer,
}
impl PreNormBlock {
    fn of(&self, x: &Tensor, cache: Option<(&BlockCache, usize)>) -> Result<Tensor> {
        let c = x.dims::<3>()?[2];
        let y = self.qkv.of(&self.norms[0].of(x));
        let part = |i: usize| split_heads(&y.narrow(2, i * c, c), self.heads);
        let (q, mut k, mut v) = (part(0)?, part(1)?, part(2)?);
        let (mut mask, mut is_causal) = (None, true);
        if let Some((cache, position)) = cache {
            cache.keys.set(&cache.keys.detached().update_slice(2, position, &k))?;
            cache.values.set(&cache.values.detached().update_slice(2, position, &v))?;
            // The prompt is its own past; later queries see the whole buffer under a mask of positions.
            if position > 0 {
                (k, v) = (cache.keys.detached(), cache.values.detached());
                let positions = Tensor::arange(0i64, k.dims::<4>()?[2] as i64, 1i64, adamant::DType::I64);
                (mask, is_causal) = (Some(positions.le(position as i64)), false);
            }
        }
        let a = scaled_dot_product_attention(&q, &k, &v, &AttentionOptions { mask: mask.as_ref(), is_causal, ..AttentionOptions::default() });
        let x = x + self.proj.of(&join_heads(&a)?);
        let z = self.down.of(&self.up.of(&self.norms[1].of(&x)).gelu_tanh());
        (x + z).ok()
    }
}
/// A decoder-only transformer with learned positions and a tied output matrix.
pub struct Gpt {
    tokens: Param,
    token_codes: MatrixCodes,
    positions: Param,
    blocks: Vec<PreNormBlock>,
    norm: ModelLayerNorm,
}
/// What tells one size of [`Gpt`] from another.
pub struct GptSizes {
    /// size of the vocabulary
    pub vocabulary: usize,
    /// positions
    pub context: usize,
    /// blocks
    pub layers: usize,
    /// attention heads
    pub heads: usize,
    /// channels
    pub width: usize,
    /// do linear layers and norms have biases?
    pub bias: bool,
}
impl Gpt {
    /// With random weights.
    pub fn new(w: &mut ModelWeights, s: &GptSizes) -> Result<Gpt> {
        let d = s.width;
        let blocks = (0..s.layers).map(|_| {
            Ok(PreNormBlock {
                heads: s.heads,
                norms: [w.norm(d, s.bias, 1e-5)?, w.norm(d, s.bias, 1e-5)?],
                qkv: w.dense(d, 3 * d, s.bias)?,
                proj: w.dense(d, d, s.bias)?,
                up: w.dense(d, 4 * d, s.bias)?,
                down: w.dense(4 * d, d, s.bias)?,
            })
        });
        let blocks = blocks.collect::<Result<Vec<_>>>()?;
        let tokens = w.table(s.vocabulary, d, 0.05)?;
        Ok(Gpt { token_codes: w.matrix(&tokens), tokens, positions: w.table(s.context, d, 0.05)?, blocks, norm: w.norm(d, s.bias, 1e-5)? })
    }
    /// Empty caches for so many positions.
    pub fn caches(&self, capacity: usize) -> Result<Vec<BlockCache>> {
        let width = self.tokens.meta().shape[1];
        let empty = |heads: usize| {
            let zeros = Tensor::zeros([1, heads, capacity, width / heads]);
            zeros.materialize()?;
            Cell::new(&zeros, false)
        };
        self.blocks.iter().map(|b| Ok(BlockCache { keys: empty(b.heads)?, values: empty(b.heads)? })).collect()
    }
    /// Logits `[batch, time, vocabulary]`; with caches, of the last position only, the first token standing at `position`.
    pub fn of(&self, ids: &Tensor, caches: Option<(&[BlockCache], usize)>) -> Result<Tensor> {
        let [_, t] = ids.dims()?;
        let start = caches.map_or(0, |c| c.1);
        let (table, codes) = (self.tokens.get(), self.token_codes.0.get());
        let features = codes.map_or_else(|| embedding(ids, &table, None), |codes| codes.rows(ids));
        let mut x = features + self.positions.get().narrow(0, start, t);
        for (k, block) in self.blocks.iter().enumerate() {
            x = block.of(&x, caches.map(|(c, position)| (&c[k], position)))?;
        }
        if caches.is_some() {
            x = x.narrow(1, t - 1, 1);
        }
        let x = self.norm.of(&x);
        codes.map_or_else(|| linear(&x, &table, None), |codes| codes.times(&x, None)).ok()
    }
}

/// A sentence encoder of six post-norm layers (Wang et al. 2020, MiniLM).
pub struct MiniLm {
    tables: [Param; 3],
    norm: ModelLayerNorm,
    layers: Vec<MiniLmLayer>,
    heads: usize,
}
struct MiniLmLayer {
    q: DenseLayer,
    k: DenseLayer,
    v: DenseLayer,
    out: DenseLayer,
    up: DenseLayer,
    down: DenseLayer,
    norms: [ModelLayerNorm; 2],
}
impl MiniLm {
    /// With random weights.
    pub fn new(w: &mut ModelWeights, s: Scale) -> Result<MiniLm> {
        let (d, wide) = (s.of(384, 12), s.of(1536, 24));
        let tables = [w.table(s.of(30522, 50), d, 0.1)?, w.table(s.of(512, 16), d, 0.1)?, w.table(2, d, 0.1)?];
        let layers = (0..s.of(6, 2)).map(|_| {
            let mut square = || w.dense(d, d, true);
            let (q, k, v, out) = (square()?, square()?, square()?, square()?);
            let (up, down) = (w.dense(d, wide, true)?, w.dense(wide, d, true)?);
            Ok(MiniLmLayer { q, k, v, out, up, down, norms: [w.norm(d, true, 1e-12)?, w.norm(d, true, 1e-12)?] })
        });
        let layers = layers.collect::<Result<Vec<_>>>()?;
        Ok(MiniLm { tables, norm: w.norm(d, true, 1e-12)?, layers, heads: s.of(12, 3) })
    }
    /// One vector per sentence: ids `[batch, time]`, result `[batch, channels]`.
    pub fn of(&self, ids: &Tensor) -> Result<Tensor> {
        let [_, t] = ids.dims()?;
        let [words, positions, types] = &self.tables;
        let kinds = ids.zeros_like();
        let x = embedding(ids, &words.get(), None) + embedding(&kinds, &types.get(), None) + positions.get().narrow(0, 0, t);
        let mut x = self.norm.of(&x);
        for l in &self.layers {
            let heads = |d: &DenseLayer| split_heads(&d.of(&x), self.heads);
            let a = scaled_dot_product_attention(&heads(&l.q)?, &heads(&l.k)?, &heads(&l.v)?, &AttentionOptions::default());
            x = l.norms[0].of(&(&x + l.out.of(&join_heads(&a)?)));
            let z = l.down.of(&l.up.of(&x).gelu());
            x = l.norms[1].of(&(x + z));
        }
        x.mean(1).ok()
    }
}

/// Recurrent layers under PyTorch's equations (gates in the order i, f, g, o, both biases).
pub struct Lstm {
    input: DenseLayer,
    recurrent: DenseLayer,
    width: usize,
}
impl Lstm {
    /// With random weights.
    pub fn new(w: &mut ModelWeights, i: usize, width: usize) -> Result<Lstm> {
        Ok(Lstm { input: w.dense(i, 4 * width, true)?, recurrent: w.dense(width, 4 * width, true)?, width })
    }
    /// All hidden states: `[batch, time, in]` to `[batch, time, width]`, from zeros.
    pub fn of(&self, x: &Tensor) -> Result<Tensor> {
        let [b, _, _] = x.dims()?;
        let given = self.input.of(x).unbind(1)?;
        let (mut h, mut c) = (Tensor::zeros([b, self.width]), Tensor::zeros([b, self.width]));
        let mut all = Vec::with_capacity(given.len());
        for given in &given {
            let gates = (given + self.recurrent.of(&h)).chunk(4, 1)?;
            c = gates[1].sigmoid() * &c + gates[0].sigmoid() * gates[2].tanh();
            h = gates[3].sigmoid() * c.tanh();
            all.push(h.clone());
        }
        Tensor::stack(&all, 1).ok()
    }
}

/// Token ids that every program uses.
pub fn tokens(batch: usize, time: usize, vocabulary: usize) -> Tensor {
    indices(&[batch, time], vocabulary)
}
/// Failures that only a wrong program makes.
pub fn missing(what: &str) -> Error {
    Error::new("bench", adamant::ErrorKind::Internal(format!("{what} is missing")))
}
