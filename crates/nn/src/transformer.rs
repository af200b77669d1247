//! The transformer's layers and the whole (Vaswani et al. 2017), as `torch.nn`'s.
use crate::{Dropout, LayerNorm, LayerNormOptions, Linear, Masks, Module, MultiheadAttention, MultiheadAttentionOptions, Param, Role, Site, Walk, init};
use adamant_core::{Result, Tensor};

/// The function between the two linear layers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activation {
    /// max(x, 0)
    Relu,
    /// x times the normal distribution function
    Gelu,
    /// GELU by its approximation with tanh
    GeluTanh,
}
impl Activation {
    #[track_caller]
    fn apply(self, x: &Tensor) -> Tensor {
        match self {
            Activation::Relu => x.relu(),
            Activation::Gelu => x.gelu(),
            Activation::GeluTanh => x.gelu_tanh(),
        }
    }
}
/// Options of transformer layers; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug)]
pub struct TransformerOptions {
    /// features between the two linear layers
    pub dim_feedforward: usize,
    /// probability of dropping
    pub dropout: f64,
    /// the function between the two linear layers
    pub activation: Activation,
    /// eps of the layer norms
    pub layer_norm_eps: f64,
    /// is the batch the first axis? Else the sequence is.
    pub batch_first: bool,
    /// normalise before attention and feed-forward instead of after
    pub norm_first: bool,
    /// with biases?
    pub bias: bool,
    /// does `forward` of an encoder layer hide what comes later, as a language model needs? (PyTorch asks for it at the call.)
    pub is_causal: bool,
}
impl Default for TransformerOptions {
    fn default() -> TransformerOptions {
        TransformerOptions {
            dim_feedforward: 2048,
            dropout: 0.1,
            activation: Activation::Relu,
            layer_norm_eps: 1e-5,
            batch_first: false,
            norm_first: false,
            bias: true,
            is_causal: false,
        }
    }
}
#[track_caller]
fn attention(d_model: usize, nhead: usize, o: &TransformerOptions) -> Result<MultiheadAttention> {
    MultiheadAttention::with(d_model, nhead, MultiheadAttentionOptions { dropout: o.dropout, bias: o.bias, batch_first: o.batch_first, ..Default::default() })
}
#[track_caller]
fn linear(from: usize, to: usize, o: &TransformerOptions) -> Result<Linear> {
    if o.bias { Linear::new(from, to) } else { Linear::no_bias(from, to) }
}
#[track_caller]
fn norm(d_model: usize, o: &TransformerOptions) -> Result<LayerNorm> {
    LayerNorm::with(d_model, LayerNormOptions { eps: o.layer_norm_eps, elementwise_affine: true, bias: o.bias })
}

/// Self-attention and a feed-forward network, each with a residual and a layer norm.
#[derive(Clone, Module)]
pub struct TransformerEncoderLayer {
    site: Site,
    self_attn: MultiheadAttention,
    linear1: Linear,
    dropout: Dropout,
    linear2: Linear,
    norm1: LayerNorm,
    norm2: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    #[module(skip)]
    options: TransformerOptions,
}
impl TransformerEncoderLayer {
    /// A layer of `d_model` features and `nhead` heads.
    ///
    /// # Errors
    /// Heads that do not divide the features.
    #[track_caller]
    pub fn new(d_model: usize, nhead: usize) -> Result<TransformerEncoderLayer> {
        TransformerEncoderLayer::with(d_model, nhead, TransformerOptions::default())
    }
    /// With options.
    ///
    /// # Errors
    /// Heads that do not divide the features.
    #[track_caller]
    pub fn with(d_model: usize, nhead: usize, o: TransformerOptions) -> Result<TransformerEncoderLayer> {
        Ok(TransformerEncoderLayer {
            site: Site::container("TransformerEncoderLayer"),
            self_attn: attention(d_model, nhead, &o)?,
            linear1: linear(d_model, o.dim_feedforward, &o)?,
            dropout: Dropout::new(o.dropout)?,
            linear2: linear(o.dim_feedforward, d_model, &o)?,
            norm1: norm(d_model, &o)?,
            norm2: norm(d_model, &o)?,
            dropout1: Dropout::new(o.dropout)?,
            dropout2: Dropout::new(o.dropout)?,
            options: o,
        })
    }
    /// The output under masks.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn forward_masked(&self, x: &Tensor, masks: &Masks<'_>) -> Result<Tensor> {
        let call = self.site.begin_within(&[x])?;
        let x = call.input(0, x);
        let y = if self.options.norm_first {
            let x = x + self.attend(&self.norm1.forward(x)?, masks)?;
            (&x + self.feed(&self.norm2.forward(&x)?)?).ok()
        } else {
            let x = self.norm1.forward(&(x + self.attend(x, masks)?))?;
            self.norm2.forward(&(&x + self.feed(&x)?))
        }?;
        call.end(y)
    }
    #[track_caller]
    fn attend(&self, x: &Tensor, masks: &Masks<'_>) -> Result<Tensor> {
        self.dropout1.forward(&self.self_attn.forward(x, x, x, masks)?)
    }
    #[track_caller]
    fn feed(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = self.dropout.forward(&self.options.activation.apply(&self.linear1.forward(x)?))?;
        self.dropout2.forward(&self.linear2.forward(&hidden)?)
    }
}
impl Module for TransformerEncoderLayer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_masked(x, &Masks { is_causal: self.options.is_causal, ..Masks::default() })
    }
}

/// Self-attention, attention to an encoder's output and a feed-forward network, each with a residual and a layer norm.
#[derive(Clone, Module)]
pub struct TransformerDecoderLayer {
    site: Site,
    self_attn: MultiheadAttention,
    multihead_attn: MultiheadAttention,
    linear1: Linear,
    dropout: Dropout,
    linear2: Linear,
    norm1: LayerNorm,
    norm2: LayerNorm,
    norm3: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    dropout3: Dropout,
    #[module(skip)]
    options: TransformerOptions,
}
impl TransformerDecoderLayer {
    /// A layer of `d_model` features and `nhead` heads.
    ///
    /// # Errors
    /// Heads that do not divide the features.
    #[track_caller]
    pub fn new(d_model: usize, nhead: usize) -> Result<TransformerDecoderLayer> {
        TransformerDecoderLayer::with(d_model, nhead, TransformerOptions::default())
    }
    /// With options.
    ///
    /// # Errors
    /// Heads that do not divide the features.
    #[track_caller]
    pub fn with(d_model: usize, nhead: usize, o: TransformerOptions) -> Result<TransformerDecoderLayer> {
        Ok(TransformerDecoderLayer {
            site: Site::container("TransformerDecoderLayer"),
            self_attn: attention(d_model, nhead, &o)?,
            multihead_attn: attention(d_model, nhead, &o)?,
            linear1: linear(d_model, o.dim_feedforward, &o)?,
            dropout: Dropout::new(o.dropout)?,
            linear2: linear(o.dim_feedforward, d_model, &o)?,
            norm1: norm(d_model, &o)?,
            norm2: norm(d_model, &o)?,
            norm3: norm(d_model, &o)?,
            dropout1: Dropout::new(o.dropout)?,
            dropout2: Dropout::new(o.dropout)?,
            dropout3: Dropout::new(o.dropout)?,
            options: o,
        })
    }
    /// The output for a target and the encoder's output `memory`.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn forward(&self, target: &Tensor, memory: &Tensor, target_masks: &Masks<'_>, memory_masks: &Masks<'_>) -> Result<Tensor> {
        let call = self.site.begin_within(&[target, memory])?;
        let (target, memory) = (call.input(0, target), call.input(1, memory));
        let y = if self.options.norm_first {
            let x = target + self.attend(&self.norm1.forward(target)?, target_masks)?;
            let x = &x + self.consult(&self.norm2.forward(&x)?, memory, memory_masks)?;
            (&x + self.feed(&self.norm3.forward(&x)?)?).ok()
        } else {
            let x = self.norm1.forward(&(target + self.attend(target, target_masks)?))?;
            let x = self.norm2.forward(&(&x + self.consult(&x, memory, memory_masks)?))?;
            self.norm3.forward(&(&x + self.feed(&x)?))
        }?;
        call.end(y)
    }
    #[track_caller]
    fn attend(&self, x: &Tensor, masks: &Masks<'_>) -> Result<Tensor> {
        self.dropout1.forward(&self.self_attn.forward(x, x, x, masks)?)
    }
    #[track_caller]
    fn consult(&self, x: &Tensor, memory: &Tensor, masks: &Masks<'_>) -> Result<Tensor> {
        self.dropout2.forward(&self.multihead_attn.forward(x, memory, memory, masks)?)
    }
    #[track_caller]
    fn feed(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = self.dropout.forward(&self.options.activation.apply(&self.linear1.forward(x)?))?;
        self.dropout3.forward(&self.linear2.forward(&hidden)?)
    }
}

/// Encoder layers one after another, with a norm at the end if there is one.
#[derive(Clone, Module)]
pub struct TransformerEncoder {
    site: Site,
    layers: Vec<TransformerEncoderLayer>,
    norm: Option<LayerNorm>,
}
impl TransformerEncoder {
    /// Of given layers.
    pub fn new(layers: Vec<TransformerEncoderLayer>, norm: Option<LayerNorm>) -> TransformerEncoder {
        TransformerEncoder { site: Site::container("TransformerEncoder"), layers, norm }
    }
    /// The output under masks.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn forward_masked(&self, x: &Tensor, masks: &Masks<'_>) -> Result<Tensor> {
        let call = self.site.begin_within(&[x])?;
        let mut x = call.input(0, x).clone();
        for layer in &self.layers {
            x = layer.forward_masked(&x, masks)?;
        }
        let y = match &self.norm {
            Some(norm) => norm.forward(&x),
            None => x.ok(),
        }?;
        call.end(y)
    }
}
impl Module for TransformerEncoder {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_masked(x, &Masks::default())
    }
}
/// Decoder layers one after another, with a norm at the end if there is one.
#[derive(Clone, Module)]
pub struct TransformerDecoder {
    site: Site,
    layers: Vec<TransformerDecoderLayer>,
    norm: Option<LayerNorm>,
}
impl TransformerDecoder {
    /// Of given layers.
    pub fn new(layers: Vec<TransformerDecoderLayer>, norm: Option<LayerNorm>) -> TransformerDecoder {
        TransformerDecoder { site: Site::container("TransformerDecoder"), layers, norm }
    }
    /// The output for a target and the encoder's output `memory`.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn forward(&self, target: &Tensor, memory: &Tensor, target_masks: &Masks<'_>, memory_masks: &Masks<'_>) -> Result<Tensor> {
        let call = self.site.begin_within(&[target, memory])?;
        let (mut x, memory) = (call.input(0, target).clone(), call.input(1, memory));
        for layer in &self.layers {
            x = layer.forward(&x, memory, target_masks, memory_masks)?;
        }
        let y = match &self.norm {
            Some(norm) => norm.forward(&x),
            None => x.ok(),
        }?;
        call.end(y)
    }
}
/// Encoder and decoder. All matrices start xavier uniform.
#[derive(Clone, Module)]
pub struct Transformer {
    site: Site,
    /// the encoder
    pub encoder: TransformerEncoder,
    /// the decoder
    pub decoder: TransformerDecoder,
}
impl Transformer {
    /// PyTorch's default is 512 features, 8 heads and 6 layers on each side.
    ///
    /// # Errors
    /// Heads that do not divide the features.
    #[track_caller]
    pub fn new(d_model: usize, nhead: usize, num_encoder_layers: usize, num_decoder_layers: usize) -> Result<Transformer> {
        Transformer::with(d_model, nhead, num_encoder_layers, num_decoder_layers, TransformerOptions::default())
    }
    /// With options for each layer.
    ///
    /// # Errors
    /// Heads that do not divide the features.
    #[track_caller]
    pub fn with(d_model: usize, nhead: usize, num_encoder_layers: usize, num_decoder_layers: usize, o: TransformerOptions) -> Result<Transformer> {
        let mut encoder = Vec::new();
        for _ in 0..num_encoder_layers {
            encoder.push(TransformerEncoderLayer::with(d_model, nhead, o)?);
        }
        let mut decoder = Vec::new();
        for _ in 0..num_decoder_layers {
            decoder.push(TransformerDecoderLayer::with(d_model, nhead, o)?);
        }
        let model = Transformer {
            site: Site::container("Transformer"),
            encoder: TransformerEncoder::new(encoder, Some(norm(d_model, &o)?)),
            decoder: TransformerDecoder::new(decoder, Some(norm(d_model, &o)?)),
        };
        for (_, p) in model.leaves() {
            let shape = p.meta().shape;
            if p.role() == Role::Trainable && shape.rank() > 1 {
                Param::set(&p, &init::xavier_uniform(shape, 1.0)?)?;
            }
        }
        Ok(model)
    }
    /// The output for a source and a target.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn forward(&self, source: &Tensor, target: &Tensor, source_masks: &Masks<'_>, target_masks: &Masks<'_>, memory_masks: &Masks<'_>) -> Result<Tensor> {
        let call = self.site.begin_within(&[source, target])?;
        let (source, target) = (call.input(0, source), call.input(1, target));
        let memory = self.encoder.forward_masked(source, source_masks)?;
        let y = self.decoder.forward(target, &memory, target_masks, memory_masks)?;
        call.end(y)
    }
}
