//! BERT (Devlin et al., "BERT: pre-training of deep bidirectional transformers for language understanding", 2019), as
//! transformers has it.
use crate::{
    FromFolder, HiddenActivation, LoadWeights, Naming,
    attend::{Sight, attend, check_tokens, refuse, seen, split_heads, token_loss},
};
use adamant_core::{DType, Error, ErrorKind, Result, Tensor, functional};
use adamant_nn::{Dropout, Embedding, LayerNorm, LayerNormOptions, Linear, Module, Param, Site, init};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What BERT is like: the fields of transformers' `BertConfig` that a network follows from, with their defaults (those of
/// BERT-base). Others in a `config.json` are passed over.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct BertConfig {
    /// `"bert"`
    pub model_type: String,
    /// number of tokens
    pub vocab_size: usize,
    /// features
    pub hidden_size: usize,
    /// layers
    pub num_hidden_layers: usize,
    /// heads of each attention
    pub num_attention_heads: usize,
    /// features between a layer's two linear maps
    pub intermediate_size: usize,
    /// the function between them
    pub hidden_act: HiddenActivation,
    /// probability of dropping what a part adds
    pub hidden_dropout_prob: f64,
    /// probability of dropping a weight of attention
    pub attention_probs_dropout_prob: f64,
    /// the longest sequence
    pub max_position_embeddings: usize,
    /// kinds of tokens: of the first sentence, of the second
    pub type_vocab_size: usize,
    /// standard deviation of initial weights
    pub initializer_range: f64,
    /// eps of the layer norms
    pub layer_norm_eps: f64,
    /// a token whose embedding is not trained
    pub pad_token_id: Option<usize>,
    /// only `"absolute"`
    pub position_embedding_type: String,
    /// probability of dropping before the classifier; `hidden_dropout_prob` if it is not given
    pub classifier_dropout: Option<f64>,
    /// refused: a decoder
    pub is_decoder: bool,
    /// does the head of masked tokens read out with the table of embeddings?
    pub tie_word_embeddings: bool,
    /// the classes by number; 2 if it is not given
    pub id2label: Option<BTreeMap<String, String>>,
    /// what a classifier's loss is; it follows from classes and labels if it is not given
    pub problem_type: Option<ProblemType>,
}
/// What a classifier's numbers mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemType {
    /// numbers themselves, by their mean squared error
    Regression,
    /// one class, by cross entropy
    SingleLabelClassification,
    /// any of the classes, each by its binary cross entropy
    MultiLabelClassification,
}
impl Default for BertConfig {
    fn default() -> BertConfig {
        BertConfig {
            model_type: "bert".into(),
            vocab_size: 30522,
            hidden_size: 768,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            intermediate_size: 3072,
            hidden_act: HiddenActivation::Gelu,
            hidden_dropout_prob: 0.1,
            attention_probs_dropout_prob: 0.1,
            max_position_embeddings: 512,
            type_vocab_size: 2,
            initializer_range: 0.02,
            layer_norm_eps: 1e-12,
            pad_token_id: Some(0),
            position_embedding_type: "absolute".into(),
            classifier_dropout: None,
            is_decoder: false,
            tie_word_embeddings: true,
            id2label: None,
            problem_type: None,
        }
    }
}
impl BertConfig {
    /// How many classes a classifier has.
    pub fn num_labels(&self) -> usize {
        self.id2label.as_ref().map_or(2, BTreeMap::len)
    }
    /// With so many classes, named by their numbers.
    #[must_use]
    pub fn with_num_labels(self, labels: usize) -> BertConfig {
        BertConfig { id2label: Some((0..labels).map(|k| (k.to_string(), format!("LABEL_{k}"))).collect()), ..self }
    }
    #[track_caller]
    fn check(&self) -> Result<()> {
        if self.model_type != "bert" {
            return refuse("Bert", format!("the configuration is of a model of type `{}` and not `bert`", self.model_type));
        }
        if self.num_attention_heads == 0 || !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return refuse("Bert", format!("{} heads do not divide {} features", self.num_attention_heads, self.hidden_size));
        }
        if self.is_decoder {
            return refuse("Bert", "a decoder (is_decoder) is not supported");
        }
        if self.position_embedding_type != "absolute" {
            return refuse("Bert", format!("positions of type `{}` are not supported, only `absolute`", self.position_embedding_type));
        }
        Ok(())
    }
    #[track_caller]
    fn linear(&self, from: usize, to: usize) -> Result<Linear> {
        let layer = Linear::new(from, to)?;
        layer.weight.set(&init::normal([to, from], 0.0, self.initializer_range)?)?;
        if let Some(bias) = &layer.bias {
            bias.set(&init::zeros(to)?)?;
        }
        Ok(layer)
    }
    #[track_caller]
    fn table(&self, rows: usize, padding_idx: Option<usize>) -> Result<Embedding> {
        // The row of the padding starts as zeros, and the others are scaled to what transformers starts from.
        let table = Embedding::with(rows, self.hidden_size, padding_idx)?;
        table.weight.set(&(table.weight.detached() * self.initializer_range))?;
        Ok(table)
    }
    #[track_caller]
    fn norm(&self) -> Result<LayerNorm> {
        LayerNorm::with(self.hidden_size, LayerNormOptions { eps: self.layer_norm_eps, ..Default::default() })
    }
}

#[derive(Module)]
struct BertEmbeddings {
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    token_type_embeddings: Embedding,
    #[module(rename = "LayerNorm")]
    layer_norm: LayerNorm,
    dropout: Dropout,
    positions: usize,
}
impl BertEmbeddings {
    #[track_caller]
    fn new(config: &BertConfig) -> Result<BertEmbeddings> {
        Ok(BertEmbeddings {
            word_embeddings: config.table(config.vocab_size, config.pad_token_id)?,
            position_embeddings: config.table(config.max_position_embeddings, None)?,
            token_type_embeddings: config.table(config.type_vocab_size, None)?,
            layer_norm: config.norm()?,
            dropout: Dropout::new(config.hidden_dropout_prob)?,
            positions: config.max_position_embeddings,
        })
    }
    #[track_caller]
    fn forward(&self, ids: &Tensor, inputs: &BertInputs<'_>) -> Result<Tensor> {
        check_tokens("Bert", ids, self.positions)?;
        let (zeros, arange) = (ids.zeros_like(), ids.narrow(0, 0, 1).iota_like(1, DType::I64));
        let types = self.token_type_embeddings.forward(inputs.token_type_ids.unwrap_or(&zeros))?;
        let positions = self.position_embeddings.forward(inputs.position_ids.unwrap_or(&arange))?;
        let x = self.word_embeddings.forward(ids)? + types + positions;
        self.dropout.forward(&self.layer_norm.forward(&x)?)
    }
}
#[derive(Module)]
struct BertSelfAttention {
    site: Site,
    query: Linear,
    key: Linear,
    value: Linear,
    heads: usize,
    dropout: f64,
}
impl BertSelfAttention {
    #[track_caller]
    fn forward(&self, x: &Tensor, sight: Sight<'_>) -> Result<Tensor> {
        let _scope = self.site.enter();
        let part = |layer: &Linear| split_heads(&layer.forward(x)?, self.heads);
        let (q, k, v) = (part(&self.query)?, part(&self.key)?, part(&self.value)?);
        let [.., features] = q.dims::<4>()?;
        let dropout = if self.site.is_training() { self.dropout } else { 0.0 };
        attend(&q, &k, &v, sight, 1.0 / (features as f64).sqrt(), dropout)
    }
}
/// A linear map whose output is added to what its layer started from, and normalised.
#[derive(Module)]
struct AddAndNorm {
    dense: Linear,
    #[module(rename = "LayerNorm")]
    layer_norm: LayerNorm,
    dropout: Dropout,
}
impl AddAndNorm {
    #[track_caller]
    fn new(config: &BertConfig, from: usize) -> Result<AddAndNorm> {
        Ok(AddAndNorm { dense: config.linear(from, config.hidden_size)?, layer_norm: config.norm()?, dropout: Dropout::new(config.hidden_dropout_prob)? })
    }
    #[track_caller]
    fn forward(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor> {
        self.layer_norm.forward(&(self.dropout.forward(&self.dense.forward(x)?)? + residual))
    }
}
#[derive(Module)]
struct BertAttention {
    #[module(rename = "self")]
    own: BertSelfAttention,
    output: AddAndNorm,
}
#[derive(Module)]
struct BertIntermediate {
    dense: Linear,
}
#[derive(Module)]
struct BertLayer {
    attention: BertAttention,
    intermediate: BertIntermediate,
    output: AddAndNorm,
    #[module(skip)]
    activation: HiddenActivation,
}
impl BertLayer {
    #[track_caller]
    fn new(config: &BertConfig) -> Result<BertLayer> {
        let width = config.hidden_size;
        let own = BertSelfAttention {
            site: Site::new("BertSelfAttention"),
            query: config.linear(width, width)?,
            key: config.linear(width, width)?,
            value: config.linear(width, width)?,
            heads: config.num_attention_heads,
            dropout: config.attention_probs_dropout_prob,
        };
        Ok(BertLayer {
            attention: BertAttention { own, output: AddAndNorm::new(config, width)? },
            intermediate: BertIntermediate { dense: config.linear(width, config.intermediate_size)? },
            output: AddAndNorm::new(config, config.intermediate_size)?,
            activation: config.hidden_act,
        })
    }
    #[track_caller]
    fn forward(&self, x: &Tensor, sight: Sight<'_>) -> Result<Tensor> {
        let x = self.attention.output.forward(&self.attention.own.forward(x, sight)?, x)?;
        let inner = self.activation.apply(&self.intermediate.dense.forward(&x)?);
        self.output.forward(&inner, &x)
    }
}
#[derive(Module)]
struct BertEncoder {
    layer: Vec<BertLayer>,
}
#[derive(Module)]
struct BertPooler {
    dense: Linear,
}

/// What may go in beside the tokens.
#[derive(Clone, Copy, Default)]
pub struct BertInputs<'a> {
    /// not 0 where a token is seen: `[batch, time]`, or for each query `[batch, time, time]`. A token that sees none gets zeros
    /// of attention.
    pub attention_mask: Option<&'a Tensor>,
    /// `[batch, time]`; 0 everywhere if it is not given
    pub token_type_ids: Option<&'a Tensor>,
    /// `[batch, time]` or `[1, time]`; 0, 1, ... if it is not given
    pub position_ids: Option<&'a Tensor>,
}

/// BERT without a head: ids `[batch, time]` to features `[batch, time, hidden_size]`. Parameters have the names of transformers'
/// `BertModel` (`encoder.layer.0.attention.self.query.weight`); files of networks with heads are loaded too.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_models::{Bert, BertConfig, BertInputs};
/// # use adamant_nn::{Module, Walk};
/// # adamant_core::Device::reference().make_current();
/// let config = BertConfig { vocab_size: 11, hidden_size: 8, num_hidden_layers: 2, num_attention_heads: 2, ..Default::default() };
/// let model = Bert::new(BertConfig { intermediate_size: 16, max_position_embeddings: 16, ..config })?;
/// model.eval();
/// let ids = Tensor::from_vec(vec![3i64, 1, 4, 0], [1, 4]);
/// let seen = ids.ne(0);
/// let features = model.forward_with(&ids, &BertInputs { attention_mask: Some(&seen), ..Default::default() })?;
/// assert_eq!(features.dims()?, [1, 4, 8]);
/// assert_eq!(model.pool(&features)?.dims()?, [1, 8]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Module)]
#[doc(alias = "BertModel")]
pub struct Bert {
    site: Site,
    embeddings: BertEmbeddings,
    encoder: BertEncoder,
    pooler: Option<BertPooler>,
    #[module(skip)]
    config: BertConfig,
}
impl Bert {
    /// With a pooler, and the initial values of transformers: normal, biases zero.
    ///
    /// # Errors
    /// Heads that do not divide the features; a decoder; positions that are not absolute; another type of model; a dropout that
    /// is no probability; a padding token outside the vocabulary.
    #[track_caller]
    pub fn new(config: BertConfig) -> Result<Bert> {
        let mut model = Bert::without_pooler(config)?;
        let width = model.config.hidden_size;
        model.pooler = Some(BertPooler { dense: model.config.linear(width, width)? });
        Ok(model)
    }
    /// Without a pooler (`add_pooling_layer = False`).
    ///
    /// # Errors
    /// As [`Bert::new`].
    #[track_caller]
    pub fn without_pooler(config: BertConfig) -> Result<Bert> {
        config.check()?;
        let layer = (0..config.num_hidden_layers).map(|_| BertLayer::new(&config)).collect::<Result<_>>()?;
        Ok(Bert { site: Site::new("Bert"), embeddings: BertEmbeddings::new(&config)?, encoder: BertEncoder { layer }, pooler: None, config })
    }
    /// Its configuration.
    pub fn config(&self) -> &BertConfig {
        &self.config
    }
    /// Features with masks, positions or token types given.
    ///
    /// # Errors
    /// Shapes that do not go together; more tokens than positions; a token outside the vocabulary.
    #[track_caller]
    pub fn forward_with(&self, ids: &Tensor, inputs: &BertInputs<'_>) -> Result<Tensor> {
        let _scope = self.site.enter();
        let mask = inputs.attention_mask.map(|mask| mask_of(ids, mask)).transpose()?;
        let sight = mask.as_ref().map_or(Sight::All, Sight::Mask);
        self.encoder.layer.iter().try_fold(self.embeddings.forward(ids, inputs)?, |x, layer| layer.forward(&x, sight))
    }
    /// What stands for a whole sequence: a linear map and tanh of its first token's features, `[batch, time, hidden_size]` to
    /// `[batch, hidden_size]`.
    ///
    /// # Errors
    /// A network without a pooler; features of another shape.
    #[track_caller]
    pub fn pool(&self, features: &Tensor) -> Result<Tensor> {
        let _scope = self.site.enter();
        let Some(pooler) = &self.pooler else { return refuse("Bert", "this network was built without a pooler") };
        let [batch, _, width] = features.dims()?;
        pooler.dense.forward(&features.narrow(1, 0, 1).reshape([batch, width]))?.tanh().ok()
    }
}
/// True where a key is seen, for queries of all heads.
#[track_caller]
fn mask_of(ids: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let [batch, time] = ids.dims()?;
    let shape = mask.shape()?;
    let queries = match shape[..] {
        [b, t] if b == batch && t == time => 1,
        [b, q, t] if b == batch && q == time && t == time => time,
        _ => {
            let expected = format!("an attention mask [{batch}, {time}] or [{batch}, {time}, {time}]");
            return Err(Error::new("Bert", ErrorKind::Shape { shape, expected }));
        }
    };
    seen(mask)?.reshape([batch, 1, queries, time]).ok()
}
impl Module for Bert {
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        self.forward_with(ids, &BertInputs::default())
    }
}

#[derive(Module)]
struct PredictionTransform {
    dense: Linear,
    #[module(rename = "LayerNorm")]
    layer_norm: LayerNorm,
}
#[derive(Module)]
struct Predictions {
    /// the decoder's, where that is tied
    bias: Option<Param>,
    transform: PredictionTransform,
    decoder: Linear,
}
#[derive(Module)]
struct MaskedLmHead {
    predictions: Predictions,
}
/// BERT that tells which tokens were masked: ids `[batch, time]` to logits `[batch, time, vocabulary]`. Parameters have the names
/// of transformers' `BertForMaskedLM` (`cls.predictions.transform.dense.weight`); a file's pooler and head of next sentences are
/// passed over.
#[derive(Module)]
#[doc(alias = "BertForMaskedLM")]
pub struct BertMaskedLm {
    bert: Bert,
    cls: MaskedLmHead,
}
impl BertMaskedLm {
    /// With the initial values of [`Bert::new`].
    ///
    /// # Errors
    /// As [`Bert::new`].
    #[track_caller]
    pub fn new(config: BertConfig) -> Result<BertMaskedLm> {
        let bert = Bert::without_pooler(config)?;
        let config = &bert.config;
        let width = config.hidden_size;
        let transform = PredictionTransform { dense: config.linear(width, width)?, layer_norm: config.norm()? };
        let (mut bias, mut decoder) = (None, config.linear(width, config.vocab_size)?);
        if config.tie_word_embeddings {
            bias = decoder.bias.clone();
            decoder = Linear::tied(&bert.embeddings.word_embeddings.weight)?;
            decoder.bias = bias.clone();
        }
        Ok(BertMaskedLm { bert, cls: MaskedLmHead { predictions: Predictions { bias, transform, decoder } } })
    }
    /// The network below the head.
    pub fn bert(&self) -> &Bert {
        &self.bert
    }
    /// Logits with masks, positions or token types given.
    ///
    /// # Errors
    /// As [`Bert::forward_with`].
    #[track_caller]
    pub fn forward_with(&self, ids: &Tensor, inputs: &BertInputs<'_>) -> Result<Tensor> {
        let predictions = &self.cls.predictions;
        let x = predictions.transform.dense.forward(&self.bert.forward_with(ids, inputs)?)?;
        let x = predictions.transform.layer_norm.forward(&self.bert.config.hidden_act.apply(&x))?;
        predictions.decoder.forward(&x)
    }
    /// Logits, and their mean cross entropy with `labels` `[batch, time]`, of which -100 takes no part.
    ///
    /// # Errors
    /// As [`Bert::forward_with`]; labels of another shape.
    #[track_caller]
    pub fn forward_loss(&self, ids: &Tensor, labels: &Tensor, inputs: &BertInputs<'_>) -> Result<(Tensor, Tensor)> {
        let logits = self.forward_with(ids, inputs)?;
        let loss = token_loss(&logits, labels)?;
        Ok((logits, loss))
    }
}
impl Module for BertMaskedLm {
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        self.forward_with(ids, &BertInputs::default())
    }
}

/// BERT that classifies sequences: ids `[batch, time]` to logits `[batch, classes]`. Parameters have the names of transformers'
/// `BertForSequenceClassification` (`bert.encoder...`, `classifier.weight`). To start from a network without this head, load
/// [`BertClassifier::bert`].
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_models::{Bert, BertClassifier, BertConfig, BertInputs, LoadWeights};
/// # use adamant_nn::Walk;
/// # adamant_core::Device::reference().make_current();
/// let config = BertConfig { vocab_size: 11, hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, ..Default::default() };
/// let config = BertConfig { intermediate_size: 16, max_position_embeddings: 16, ..config };
/// # let folder = tempfile::tempdir()?;
/// # let pretrained = folder.path().join("model.safetensors");
/// # adamant_formats::safetensors::save(&pretrained, Bert::new(config.clone())?.state_dict(), &Default::default())?;
/// let model = BertClassifier::new(config.with_num_labels(3))?;
/// model.bert().load_path(&pretrained)?;
/// let (ids, labels) = (Tensor::from_vec(vec![3i64, 1, 4, 1], [2, 2]), Tensor::from_vec(vec![0i64, 2], [2]));
/// let (logits, loss) = model.forward_loss(&ids, &labels, &BertInputs::default())?;
/// assert_eq!(logits.dims()?, [2, 3]);
/// let grads = loss.backward()?;
/// assert_eq!(grads.len(), model.parameters().len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Module)]
#[doc(alias = "BertForSequenceClassification")]
pub struct BertClassifier {
    bert: Bert,
    dropout: Dropout,
    classifier: Linear,
}
impl BertClassifier {
    /// With the initial values of [`Bert::new`] and as many classes as the configuration has.
    ///
    /// # Errors
    /// As [`Bert::new`].
    #[track_caller]
    pub fn new(config: BertConfig) -> Result<BertClassifier> {
        let bert = Bert::new(config)?;
        let config = &bert.config;
        let dropout = Dropout::new(config.classifier_dropout.unwrap_or(config.hidden_dropout_prob))?;
        let classifier = config.linear(config.hidden_size, config.num_labels())?;
        Ok(BertClassifier { bert, dropout, classifier })
    }
    /// The network below the head.
    pub fn bert(&self) -> &Bert {
        &self.bert
    }
    /// Logits with masks, positions or token types given.
    ///
    /// # Errors
    /// As [`Bert::forward_with`].
    #[track_caller]
    pub fn forward_with(&self, ids: &Tensor, inputs: &BertInputs<'_>) -> Result<Tensor> {
        let pooled = self.bert.pool(&self.bert.forward_with(ids, inputs)?)?;
        self.classifier.forward(&self.dropout.forward(&pooled)?)
    }
    /// Logits and a loss by the configuration's problem type. Without one: a single output is a regression, integer labels
    /// `[batch]` are classes, others `[batch, classes]` are probabilities of each class.
    ///
    /// # Errors
    /// As [`Bert::forward_with`]; labels of another shape.
    #[track_caller]
    pub fn forward_loss(&self, ids: &Tensor, labels: &Tensor, inputs: &BertInputs<'_>) -> Result<(Tensor, Tensor)> {
        let logits = self.forward_with(ids, inputs)?;
        let problem = match self.bert.config.problem_type {
            Some(given) => given,
            None if self.bert.config.num_labels() == 1 => ProblemType::Regression,
            None if !labels.dtype()?.is_float() => ProblemType::SingleLabelClassification,
            None => ProblemType::MultiLabelClassification,
        };
        let loss = match problem {
            ProblemType::Regression => functional::mse_loss(&logits, &labels.reshape(logits.shape()?), functional::Reduction::Mean),
            ProblemType::SingleLabelClassification => functional::cross_entropy(&logits, labels, &Default::default()),
            ProblemType::MultiLabelClassification => functional::binary_cross_entropy_with_logits(&logits, labels, None, None, functional::Reduction::Mean),
        };
        Ok((logits, loss.ok()?))
    }
}
impl Module for BertClassifier {
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        self.forward_with(ids, &BertInputs::default())
    }
}

/// Names of the first code, which had TensorFlow's.
const OLD: &[(&str, &str)] = &[("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")];
const TIED: &[&[&str]] = &[&["embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"], &["cls.predictions.bias", "cls.predictions.decoder.bias"]];
/// Was saved as a buffer once.
fn is_old_position(name: &str) -> bool {
    name == "embeddings.position_ids"
}
fn is_head(name: &str) -> bool {
    name.starts_with("cls.") || name.starts_with("classifier.")
}
/// What BERT was trained with beside masked tokens.
fn is_of_pretraining(name: &str) -> bool {
    is_old_position(name) || name.starts_with("pooler.") || name.starts_with("cls.seq_relationship.")
}
const BERT: Naming = Naming { prefix: "bert.", renamed: OLD, passed_over: is_old_position, ..Naming::EXACT };
impl LoadWeights for Bert {
    fn naming(&self) -> Naming {
        let passed_over: fn(&str) -> bool = match self.pooler {
            Some(_) => |name| is_old_position(name) || is_head(name),
            None => |name| is_old_position(name) || is_head(name) || name.starts_with("pooler."),
        };
        Naming { passed_over, ..BERT }
    }
}
impl LoadWeights for BertMaskedLm {
    fn naming(&self) -> Naming {
        if self.bert.config.tie_word_embeddings {
            return Naming { passed_over: is_of_pretraining, tied: TIED, ..BERT };
        }
        // A bias that nothing adds any more where the decoder has its own.
        Naming { passed_over: |name| is_of_pretraining(name) || name == "cls.predictions.bias", ..BERT }
    }
}
impl LoadWeights for BertClassifier {
    fn naming(&self) -> Naming {
        BERT
    }
}
macro_rules! from_folder { ($($model:ty),*) => { $(
    impl FromFolder for $model {
        type Config = BertConfig;
        #[track_caller]
        fn from_config(config: BertConfig) -> Result<$model> {
            <$model>::new(config)
        }
    }
)* } }
from_folder!(Bert, BertMaskedLm, BertClassifier);
