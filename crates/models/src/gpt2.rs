//! GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019), as transformers has it.
use crate::{
    FromFolder, HiddenActivation, LoadWeights, Naming,
    attend::{Sight, attend, check_tokens, join_heads, refuse, seen, split_heads, token_loss},
};
use adamant_core::{DType, Error, ErrorKind, Result, Tensor};
use adamant_nn::{CacheStep, CachedAttentionOptions, Dropout, Embedding, KeyValueCache, LayerNorm, LayerNormOptions, Linear, Module, Param, Site, init};
use serde::Deserialize;

/// What GPT-2 is like: the fields of transformers' `GPT2Config` that a network follows from, with their defaults (those of the
/// smallest GPT-2). Others in a `config.json` are passed over.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
#[doc(alias = "GPT2Config")]
pub struct Gpt2Config {
    /// `"gpt2"`
    pub model_type: String,
    /// number of tokens
    pub vocab_size: usize,
    /// the longest sequence
    pub n_positions: usize,
    /// features
    pub n_embd: usize,
    /// layers
    pub n_layer: usize,
    /// heads of each attention
    pub n_head: usize,
    /// features between a layer's two linear maps; four times as many as `n_embd` if it is not given
    pub n_inner: Option<usize>,
    /// the function between them
    pub activation_function: HiddenActivation,
    /// probability of dropping what a part adds to the residual stream
    pub resid_pdrop: f64,
    /// probability of dropping an embedding
    pub embd_pdrop: f64,
    /// probability of dropping a weight of attention
    pub attn_pdrop: f64,
    /// eps of the layer norms
    pub layer_norm_epsilon: f64,
    /// standard deviation of initial weights
    pub initializer_range: f64,
    /// are scores divided by the root of a head's features?
    pub scale_attn_weights: bool,
    /// are the scores of layer i divided by i + 1?
    pub scale_attn_by_inverse_layer_idx: bool,
    /// refused: attention to another network's output
    pub add_cross_attention: bool,
    /// does the head read out with the table of embeddings?
    pub tie_word_embeddings: bool,
}
impl Default for Gpt2Config {
    fn default() -> Gpt2Config {
        Gpt2Config {
            model_type: "gpt2".into(),
            vocab_size: 50257,
            n_positions: 1024,
            n_embd: 768,
            n_layer: 12,
            n_head: 12,
            n_inner: None,
            activation_function: HiddenActivation::GeluTanh,
            resid_pdrop: 0.1,
            embd_pdrop: 0.1,
            attn_pdrop: 0.1,
            layer_norm_epsilon: 1e-5,
            initializer_range: 0.02,
            scale_attn_weights: true,
            scale_attn_by_inverse_layer_idx: false,
            add_cross_attention: false,
            tie_word_embeddings: true,
        }
    }
}
impl Gpt2Config {
    #[track_caller]
    fn check(&self) -> Result<()> {
        if self.model_type != "gpt2" {
            return refuse("Gpt2", format!("the configuration is of a model of type `{}` and not `gpt2`", self.model_type));
        }
        if self.n_head == 0 || !self.n_embd.is_multiple_of(self.n_head) {
            return refuse("Gpt2", format!("{} heads do not divide {} features", self.n_head, self.n_embd));
        }
        if self.add_cross_attention {
            return refuse("Gpt2", "cross attention (add_cross_attention) is not supported");
        }
        Ok(())
    }
    #[track_caller]
    fn norm(&self) -> Result<LayerNorm> {
        LayerNorm::with(self.n_embd, LayerNormOptions { eps: self.layer_norm_epsilon, ..Default::default() })
    }
    #[track_caller]
    fn table(&self, rows: usize) -> Result<Embedding> {
        let table = Embedding::new(rows, self.n_embd)?;
        table.weight.set(&init::normal([rows, self.n_embd], 0.0, self.initializer_range)?)?;
        Ok(table)
    }
}

/// x W + b with the weight `[in, out]`: a linear map that is stored transposed, as GPT-2's first code had it.
#[derive(Module)]
#[doc(alias = "Conv1D")]
struct TransposedLinear {
    site: Site,
    weight: Param,
    bias: Param,
}
impl TransposedLinear {
    #[track_caller]
    fn new(from: usize, to: usize, std: f64) -> Result<TransposedLinear> {
        let weight = Param::new(&init::normal([from, to], 0.0, std)?)?;
        Ok(TransposedLinear { site: Site::new("Conv1D"), weight, bias: Param::new(&init::zeros(to)?)? })
    }
}
impl Module for TransposedLinear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = self.site.enter();
        self.weight.transposed_linear(x, Some(&self.bias.get())).ok()
    }
}

#[derive(Module)]
struct Gpt2Attention {
    site: Site,
    c_attn: TransposedLinear,
    c_proj: TransposedLinear,
    resid_dropout: Dropout,
    heads: usize,
    scale: f64,
    dropout: f64,
}
impl Gpt2Attention {
    #[track_caller]
    fn new(config: &Gpt2Config, layer: usize, out_std: f64) -> Result<Gpt2Attention> {
        let width = config.n_embd;
        let mut scale = if config.scale_attn_weights { 1.0 / ((width / config.n_head) as f64).sqrt() } else { 1.0 };
        if config.scale_attn_by_inverse_layer_idx {
            scale /= (layer + 1) as f64;
        }
        Ok(Gpt2Attention {
            site: Site::new("Gpt2Attention"),
            c_attn: TransposedLinear::new(width, 3 * width, config.initializer_range)?,
            c_proj: TransposedLinear::new(width, width, out_std)?,
            resid_dropout: Dropout::new(config.resid_pdrop)?,
            heads: config.n_head,
            scale,
            dropout: config.attn_pdrop,
        })
    }
    /// Keys and values of this layer join the cache's, if there is one.
    #[track_caller]
    fn forward(&self, x: &Tensor, sight: Sight<'_>, cache: Option<&mut CacheStep>) -> Result<Tensor> {
        let _scope = self.site.enter();
        let parts = self.c_attn.forward(x)?.chunk(3, -1)?;
        let [q, k, v] = &parts[..] else { return refuse("Gpt2Attention", "no three projections") };
        let (q, k, v) = (split_heads(q, self.heads)?, split_heads(k, self.heads)?, split_heads(v, self.heads)?);
        let dropout = if self.site.is_training() { self.dropout } else { 0.0 };
        let y = match cache {
            Some(step) => {
                let rng = if dropout > 0.0 { Some(init::generator(q.device()?)?) } else { None };
                let mask = if let Sight::Mask(mask) = sight { Some(mask) } else { None };
                let options = CachedAttentionOptions { mask, scale: Some(self.scale), dropout: rng.as_ref().map(|rng| (dropout, rng)) };
                join_heads(&step.attend(&q, &k, &v, &options)?)?
            }
            None => attend(&q, &k, &v, sight, self.scale, dropout)?,
        };
        self.resid_dropout.forward(&self.c_proj.forward(&y)?)
    }
}
#[derive(Module)]
struct Gpt2Mlp {
    c_fc: TransposedLinear,
    c_proj: TransposedLinear,
    dropout: Dropout,
    #[module(skip)]
    activation: HiddenActivation,
}
impl Module for Gpt2Mlp {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let inner = self.activation.apply(&self.c_fc.forward(x)?);
        self.dropout.forward(&self.c_proj.forward(&inner)?)
    }
}
#[derive(Module)]
struct Gpt2Block {
    ln_1: LayerNorm,
    attn: Gpt2Attention,
    ln_2: LayerNorm,
    mlp: Gpt2Mlp,
}
impl Gpt2Block {
    #[track_caller]
    fn new(config: &Gpt2Config, layer: usize) -> Result<Gpt2Block> {
        // Two parts of each layer add to the residual stream, whose variance is not to grow with depth (section 2.3 of the paper).
        let out_std = config.initializer_range / (2.0 * config.n_layer as f64).sqrt();
        let (width, inner) = (config.n_embd, config.n_inner.unwrap_or(4 * config.n_embd));
        Ok(Gpt2Block {
            ln_1: config.norm()?,
            attn: Gpt2Attention::new(config, layer, out_std)?,
            ln_2: config.norm()?,
            mlp: Gpt2Mlp {
                c_fc: TransposedLinear::new(width, inner, config.initializer_range)?,
                c_proj: TransposedLinear::new(inner, width, out_std)?,
                dropout: Dropout::new(config.resid_pdrop)?,
                activation: config.activation_function,
            },
        })
    }
    #[track_caller]
    fn forward(&self, x: &Tensor, sight: Sight<'_>, cache: Option<&mut CacheStep>) -> Result<Tensor> {
        let x = x + self.attn.forward(&self.ln_1.forward(x)?, sight, cache)?;
        (&x + self.mlp.forward(&self.ln_2.forward(&x)?)?).ok()
    }
}

/// What may go in beside the tokens.
#[derive(Clone, Copy, Default)]
pub struct Gpt2Inputs<'a> {
    /// `[batch, keys]`, not 0 where a token takes part; keys are all tokens, those in a cache first. A token that sees none gets
    /// zeros of attention.
    pub attention_mask: Option<&'a Tensor>,
    /// `[batch, time]` or `[1, time]`; 0, 1, ... behind what is in the cache if it is not given
    pub position_ids: Option<&'a Tensor>,
    /// `[batch, time]`: tokens whose embeddings are added
    pub token_type_ids: Option<&'a Tensor>,
}

/// GPT-2 without a head: ids `[batch, time]` to features `[batch, time, n_embd]`. Parameters have the names of transformers'
/// `GPT2Model` (`h.0.attn.c_attn.weight`); files of [`Gpt2LmHead`] are loaded too.
#[derive(Module)]
#[doc(alias = "GPT2Model")]
pub struct Gpt2 {
    site: Site,
    wte: Embedding,
    wpe: Embedding,
    drop: Dropout,
    h: Vec<Gpt2Block>,
    ln_f: LayerNorm,
    #[module(skip)]
    config: Gpt2Config,
}
impl Gpt2 {
    /// With the initial values of transformers: normal, biases zero, what adds to the residual stream smaller with depth.
    ///
    /// # Errors
    /// Heads that do not divide the features; cross attention; another type of model; a dropout that is no probability.
    #[track_caller]
    pub fn new(config: Gpt2Config) -> Result<Gpt2> {
        config.check()?;
        Ok(Gpt2 {
            site: Site::new("Gpt2"),
            wte: config.table(config.vocab_size)?,
            wpe: config.table(config.n_positions)?,
            drop: Dropout::new(config.embd_pdrop)?,
            h: (0..config.n_layer).map(|layer| Gpt2Block::new(&config, layer)).collect::<Result<_>>()?,
            ln_f: config.norm()?,
            config,
        })
    }
    /// Its configuration.
    pub fn config(&self) -> &Gpt2Config {
        &self.config
    }
    /// Features with masks, positions or token types given.
    ///
    /// # Errors
    /// Shapes that do not go together; more tokens than positions; a token outside the vocabulary.
    #[track_caller]
    pub fn forward_with(&self, ids: &Tensor, inputs: &Gpt2Inputs<'_>) -> Result<Tensor> {
        self.run(ids, inputs, None)
    }
    /// Features of tokens that follow those in the cache, which they join.
    ///
    /// # Errors
    /// As [`Gpt2::forward_with`]; a cache of another network or batch.
    #[track_caller]
    pub fn forward_cached(&self, ids: &Tensor, inputs: &Gpt2Inputs<'_>, cache: &mut KeyValueCache) -> Result<Tensor> {
        self.run(ids, inputs, Some(cache))
    }
    #[track_caller]
    fn run(&self, ids: &Tensor, inputs: &Gpt2Inputs<'_>, cache: Option<&mut KeyValueCache>) -> Result<Tensor> {
        let _scope = self.site.enter();
        let past = cache.as_ref().map_or(0, |c| c.len());
        let [batch, time] = check_tokens("Gpt2", ids, self.config.n_positions.saturating_sub(past))?;
        let arange = Tensor::arange_on(past, past + time, 1, DType::I64, ids.device()?);
        let positions = self.wpe.forward(inputs.position_ids.unwrap_or(&arange))?;
        let mut x = self.wte.forward(ids)? + positions;
        if let Some(types) = inputs.token_type_ids {
            x = x + self.wte.forward(types)?;
        }
        let mut x = self.drop.forward(&x)?;
        let mask = inputs.attention_mask.map(|mask| keys_seen(mask, batch, past + time)).transpose()?;
        // A cache sees to the order of tokens itself. An error on the way leaves it as it was.
        let mut step = cache.as_ref().map(|c| c.begin(time));
        let mask = match mask {
            Some(mask) if step.is_none() => Some(mask.logical_and(causal(ids, time)?)),
            mask => mask,
        };
        let sight = mask.as_ref().map_or(Sight::Causal, Sight::Mask);
        for block in &self.h {
            x = block.forward(&x, sight, step.as_mut())?;
        }
        let y = self.ln_f.forward(&x)?;
        if let (Some(cache), Some(step)) = (cache, step) {
            cache.commit(step)?;
        }
        Ok(y)
    }
}
/// True where a key takes part: `[batch, 1, 1, keys]`.
#[track_caller]
fn keys_seen(mask: &Tensor, batch: usize, keys: usize) -> Result<Tensor> {
    let shape = mask.shape()?;
    if shape[..] != [batch, keys] {
        return Err(Error::new("Gpt2", ErrorKind::Shape { shape, expected: format!("an attention mask [{batch}, {keys}] of all tokens") }));
    }
    seen(mask)?.reshape([batch, 1, 1, keys]).ok()
}
/// True where a query sees a key: itself and what came before it, `[1, 1, time, time]`.
#[track_caller]
fn causal(ids: &Tensor, time: usize) -> Result<Tensor> {
    let places = Tensor::arange_on(0, time, 1, DType::I64, ids.device()?);
    places.reshape([1, 1, 1, time]).le(places.reshape([1, 1, time, 1])).ok()
}
impl Module for Gpt2 {
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        self.forward_with(ids, &Gpt2Inputs::default())
    }
}

/// GPT-2 that tells what comes next: ids `[batch, time]` to logits `[batch, time, vocabulary]`. Parameters have the names of
/// transformers' `GPT2LMHeadModel` (`transformer.h.0.attn.c_attn.weight`); files whose names lack `transformer.` are loaded too.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_models::{Gpt2Config, Gpt2LmHead, generate::GenerateOptions};
/// # use adamant_nn::{Module, Walk};
/// # adamant_core::Device::reference().make_current();
/// let config = Gpt2Config { vocab_size: 11, n_positions: 16, n_embd: 8, n_layer: 2, n_head: 2, ..Default::default() };
/// let model = Gpt2LmHead::new(config)?;
/// model.eval();
/// let ids = Tensor::from_vec(vec![3i64, 1, 4], [1, 3]);
/// assert_eq!(model.forward(&ids)?.dims()?, [1, 3, 11]);
/// let longer = model.generate(&ids, None, &GenerateOptions { max_new_tokens: 5, ..Default::default() })?;
/// assert_eq!(longer.dims()?, [1, 8]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Module)]
#[doc(alias = "GPT2LMHeadModel")]
pub struct Gpt2LmHead {
    transformer: Gpt2,
    lm_head: Linear,
}
impl Gpt2LmHead {
    /// With the initial values of [`Gpt2::new`].
    ///
    /// # Errors
    /// As [`Gpt2::new`].
    #[track_caller]
    pub fn new(config: Gpt2Config) -> Result<Gpt2LmHead> {
        let transformer = Gpt2::new(config)?;
        let config = &transformer.config;
        let lm_head = if config.tie_word_embeddings {
            Linear::tied(&transformer.wte.weight)?
        } else {
            let head = Linear::no_bias(config.n_embd, config.vocab_size)?;
            head.weight.set(&init::normal([config.vocab_size, config.n_embd], 0.0, config.initializer_range)?)?;
            head
        };
        Ok(Gpt2LmHead { transformer, lm_head })
    }
    /// The network below the head.
    pub fn transformer(&self) -> &Gpt2 {
        &self.transformer
    }
    /// Logits of features, `[.., n_embd]`.
    #[track_caller]
    pub(crate) fn read_out(&self, features: &Tensor) -> Result<Tensor> {
        self.lm_head.forward(features)
    }
    /// Logits with masks, positions or token types given.
    ///
    /// # Errors
    /// As [`Gpt2::forward_with`].
    #[track_caller]
    pub fn forward_with(&self, ids: &Tensor, inputs: &Gpt2Inputs<'_>) -> Result<Tensor> {
        self.lm_head.forward(&self.transformer.forward_with(ids, inputs)?)
    }
    /// Logits of tokens that follow those in the cache, which they join.
    ///
    /// # Errors
    /// As [`Gpt2::forward_cached`].
    #[track_caller]
    pub fn forward_cached(&self, ids: &Tensor, inputs: &Gpt2Inputs<'_>, cache: &mut KeyValueCache) -> Result<Tensor> {
        self.lm_head.forward(&self.transformer.forward_cached(ids, inputs, cache)?)
    }
    /// Logits, and the mean cross entropy of what each token says of the next one's label. `labels` `[batch, time]` are usually
    /// the ids; -100 takes no part.
    ///
    /// # Errors
    /// As [`Gpt2::forward_with`]; labels of another shape.
    #[track_caller]
    pub fn forward_loss(&self, ids: &Tensor, labels: &Tensor, inputs: &Gpt2Inputs<'_>) -> Result<(Tensor, Tensor)> {
        let [_, time] = check_tokens("Gpt2", labels, self.transformer.config.n_positions)?;
        let logits = self.forward_with(ids, inputs)?;
        let loss = token_loss(&logits.narrow(1, 0, time - 1), &labels.narrow(1, 1, time - 1))?;
        Ok((logits, loss))
    }
}
impl Module for Gpt2LmHead {
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        self.forward_with(ids, &Gpt2Inputs::default())
    }
}

/// Masks were saved as buffers once (`attn.bias`, `attn.masked_bias`).
fn is_old_mask(name: &str) -> bool {
    name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")
}
impl LoadWeights for Gpt2 {
    fn naming(&self) -> Naming {
        Naming { prefix: "transformer.", passed_over: |name| is_old_mask(name) || name == "lm_head.weight", ..Naming::EXACT }
    }
}
impl LoadWeights for Gpt2LmHead {
    fn naming(&self) -> Naming {
        let tied: &[&[&str]] = if self.transformer.config.tie_word_embeddings { &[&["wte.weight", "lm_head.weight"]] } else { &[] };
        Naming { prefix: "transformer.", passed_over: is_old_mask, tied, ..Naming::EXACT }
    }
}
impl FromFolder for Gpt2 {
    type Config = Gpt2Config;
    #[track_caller]
    fn from_config(config: Gpt2Config) -> Result<Gpt2> {
        Gpt2::new(config)
    }
}
impl FromFolder for Gpt2LmHead {
    type Config = Gpt2Config;
    #[track_caller]
    fn from_config(config: Gpt2Config) -> Result<Gpt2LmHead> {
        Gpt2LmHead::new(config)
    }
}
