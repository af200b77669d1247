//! What a decoder keeps of the tokens before: the keys and values of each causal attention, as numbers or as codes, so that what
//! follows is computed alone.
//!
//! A [`KeyValueCache`] belongs to sequences, not to a model. [`KeyValueCache::forward`] runs a model of layers over tokens that
//! follow: while it runs, causal self-attention ([`MultiheadAttention`](crate::MultiheadAttention)) appends to the cache and looks
//! at all of it, and positions ([`PositionEmbedding`](crate::PositionEmbedding)) go on behind it. A network of one's own does the
//! same by a [`CacheStep`]. Layers are known by the order in which they are met. A step counts once it has succeeded: after an
//! error the cache is what it was.
//!
//! Codes have space for more tokens than there are, in steps of [`GROWTH`], and new ones are written into it: where nobody else holds the
//! cache's tensors, in place. Attention over codes always reads codes, those of the new tokens too, so that the same tokens have
//! the same bits whether they come at once or one by one.
//!
//! Must not know which model asks, or how codes are read.
use crate::{Module, Submodule};
use adamant_core::{
    DType, Error, ErrorKind, Result, Rng, Tensor,
    composite::packed::Packing,
    functional::{self, AttentionOptions, QuantizedAttentionOptions, TokenCodes},
};
use std::cell::RefCell;

/// Tokens that space is made for at a time.
pub const GROWTH: usize = 64;

/// How a [`KeyValueCache`] holds numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheStorage {
    /// as they are
    #[default]
    Float,
    /// 8 bits about 0, and a scale in f16 for each token of each head
    Int8,
    /// 4 bits, and for each token of each head a scale in f16 and the code of 0: keys and values lie on one side of 0 often enough
    /// that sixteen steps over their range lose less than about 0
    Int4,
}
impl CacheStorage {
    /// All of them.
    pub const ALL: [CacheStorage; 3] = [CacheStorage::Float, CacheStorage::Int8, CacheStorage::Int4];
    /// Its name in commands and files.
    pub fn name(self) -> &'static str {
        match self {
            CacheStorage::Float => "float",
            CacheStorage::Int8 => "int8",
            CacheStorage::Int4 => "int4",
        }
    }
    /// What has a name.
    pub fn named(name: &str) -> Option<CacheStorage> {
        CacheStorage::ALL.into_iter().find(|s| s.name() == name)
    }
    /// How its codes stand for numbers, if it has codes.
    pub fn packing(self) -> Option<Packing> {
        match self {
            CacheStorage::Float => None,
            CacheStorage::Int8 => Some(Packing { bits: 8, group: None, symmetric: true }),
            CacheStorage::Int4 => Some(Packing { bits: 4, group: None, symmetric: false }),
        }
    }
}

/// Keys and values of one attention, `[batch, heads, tokens, features]`.
#[derive(Clone)]
enum KeysAndValues {
    Numbers { keys: Tensor, values: Tensor },
    Codes { keys: TokenCodes, values: TokenCodes },
}
impl KeysAndValues {
    fn bytes(&self) -> usize {
        match self {
            KeysAndValues::Numbers { keys, values } => [keys, values].iter().map(|t| t.try_meta().map_or(0, |m| m.ty().bytes())).sum(),
            KeysAndValues::Codes { keys, values } => keys.bytes() + values.bytes(),
        }
    }
}

/// Keys and values of all tokens that a network has seen, so that what follows is computed alone.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{CacheStorage, Embedding, KeyValueCache, Module, Sequential, TransformerEncoderLayer, TransformerOptions, Walk};
/// # adamant_core::Device::reference().make_current();
/// let options = TransformerOptions { is_causal: true, batch_first: true, ..Default::default() };
/// let model = Sequential::new().add(Embedding::new(11, 8)?).add(TransformerEncoderLayer::with(8, 2, options)?);
/// model.eval();
/// let ids = |ids: Vec<i64>| Tensor::from_vec(ids.clone(), [1, ids.len()]);
/// let mut cache = KeyValueCache::with(CacheStorage::Int8);
/// cache.forward(&model, &ids(vec![3, 1, 4]))?;
/// let next = cache.forward(&model, &ids(vec![1]))?;
/// let whole = model.forward(&ids(vec![3, 1, 4, 1]))?.narrow(1, 3, 1);
/// assert!(next.allclose(&whole, 0.05, 0.05)?);
/// assert_eq!((cache.len(), next.dims()?), (4, [1, 1, 8]));
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Default)]
#[doc(alias("DynamicCache", "QuantizedCache", "past_key_values"))]
pub struct KeyValueCache {
    storage: CacheStorage,
    layers: Vec<KeysAndValues>,
    tokens: usize,
}
impl KeyValueCache {
    /// Nothing seen yet; numbers stay numbers.
    pub fn new() -> KeyValueCache {
        KeyValueCache::default()
    }
    /// Nothing seen yet; numbers are held so.
    pub fn with(storage: CacheStorage) -> KeyValueCache {
        KeyValueCache { storage, ..KeyValueCache::default() }
    }
    /// How numbers are held.
    pub fn storage(&self) -> CacheStorage {
        self.storage
    }
    /// How many tokens of each sequence it has.
    pub fn len(&self) -> usize {
        self.tokens
    }
    /// None yet?
    pub fn is_empty(&self) -> bool {
        self.tokens == 0
    }
    /// Bytes of the tensors that hold it, space for tokens to come among them.
    pub fn memory_bytes(&self) -> usize {
        self.layers.iter().map(KeysAndValues::bytes).sum()
    }
    /// What a model says of tokens that follow those in the cache, which they join: x is ids `[batch, time]` or features
    /// `[batch, time, features]`, as the model takes them.
    ///
    /// # Errors
    /// Those of the model; a model with layers that look at other tokens in other ways than causal self-attention does, or with no
    /// attention at all; tokens of another batch or another model than the cache's. The cache is then what it was.
    #[track_caller]
    pub fn forward<M: Module + ?Sized>(&mut self, model: &M, x: &Tensor) -> Result<Tensor> {
        let shape = x.shape()?;
        if shape.rank() < 2 || shape[1] == 0 {
            return Err(Error::new("cache", ErrorKind::Shape { shape, expected: "[batch, time] or [batch, time, features] with a token or more".into() }));
        }
        if self.is_empty()
            && let Some((path, module)) = model.named_modules().into_iter().find(|(_, module)| !passes_tokens(module))
        {
            let text = format!("the {} at `{path}` may look at other tokens, and a cache knows causal self-attention alone", module.kind);
            return Err(Error::new("cache", ErrorKind::Argument(text)).hint("run the model on all tokens at once"));
        }
        let open = OpenStep::open(self.begin(shape[1]))?;
        let y = model.forward(x)?.ok()?;
        self.commit(open.close()?)?;
        Ok(y)
    }
    /// Begins with so many tokens more: a network hands the step to each of its attentions in turn and then to
    /// [`KeyValueCache::commit`].
    pub fn begin(&self, tokens: usize) -> CacheStep {
        CacheStep { storage: self.storage, layers: self.layers.clone(), known: self.layers.len(), past: self.tokens, tokens, next: 0 }
    }
    /// The tokens of a step are in the cache from now on.
    ///
    /// # Errors
    /// A step that no attention, or not each of those before, has had; one that another has overtaken.
    #[track_caller]
    pub fn commit(&mut self, step: CacheStep) -> Result<()> {
        let refuse = |text: String| Err(Error::new("cache", ErrorKind::Argument(text)));
        if step.past != self.tokens || step.known != self.layers.len() || step.storage != self.storage {
            return refuse(format!("a step behind {} tokens, and the cache has {}", step.past, self.tokens));
        }
        if step.next == 0 || step.next != step.layers.len() {
            return refuse(format!("{} attentions have had the step, and the cache knows {}", step.next, step.layers.len()));
        }
        (self.layers, self.tokens) = (step.layers, step.past + step.tokens);
        Ok(())
    }
}
/// Does a module of layers look at each token alone, but for causal attention, which checks itself?
fn passes_tokens(module: &Submodule) -> bool {
    const KINDS: &str = "Sequential TransformerEncoder TransformerEncoderLayer MultiheadAttention Embedding PositionEmbedding Linear Dropout Identity \
        ReLU ReLU6 LeakyReLU ELU CELU SELU GELU SiLU Mish Sigmoid LogSigmoid Tanh Tanhshrink Softsign Softplus Hardtanh Hardsigmoid Hardswish \
        Hardshrink Softshrink Threshold";
    match module.kind {
        // Over the features of a token, and not over several tokens.
        "LayerNorm" | "RMSNorm" => module.parameter("weight").is_none_or(|weight| weight.meta().shape.rank() == 1),
        kind => KINDS.split_whitespace().any(|k| k == kind),
    }
}

/// How the new tokens of a [`CacheStep`] look at all of them.
#[derive(Clone, Copy, Default)]
pub struct CachedAttentionOptions<'a> {
    /// which keys take part beside what comes later: bool, broadcasts to `[batch, heads, new tokens, all tokens]`
    pub mask: Option<&'a Tensor>,
    /// factor of the scores; 1 / sqrt(features) if it is not given
    pub scale: Option<f64>,
    /// probability that an attention weight is dropped, and whence the draws come
    pub dropout: Option<(f64, &'a Rng)>,
}
/// Tokens on their way into a [`KeyValueCache`].
pub struct CacheStep {
    storage: CacheStorage,
    layers: Vec<KeysAndValues>,
    /// layers that the cache knew
    known: usize,
    past: usize,
    tokens: usize,
    /// the layer that comes next
    next: usize,
}
impl CacheStep {
    /// How many tokens were before.
    pub fn past(&self) -> usize {
        self.past
    }
    /// The next attention of the network: keys and values of the new tokens `[batch, kv heads, new tokens, features]` join those
    /// before, and each query `[batch, heads, new tokens, features]` sees what came before it and itself: `[batch, heads, new tokens,
    /// features]`.
    ///
    /// # Errors
    /// Another number of tokens than the step was begun with; an attention more than the cache knows; shapes that do not go
    /// together, with each other or with those before; dropout over codes.
    #[track_caller]
    pub fn attend(&mut self, q: &Tensor, k: &Tensor, v: &Tensor, options: &CachedAttentionOptions<'_>) -> Result<Tensor> {
        let shape = k.shape()?;
        if shape.rank() != 4 || shape[2] != self.tokens {
            let expected = format!("keys [batch, heads, {}, features] of the new tokens", self.tokens);
            return Err(Error::new("cache", ErrorKind::Shape { shape, expected }));
        }
        if self.known > 0 && self.next >= self.known {
            let text = format!("an attention more than the {} that the cache knows: it is of another network", self.known);
            return Err(Error::new("cache", ErrorKind::Argument(text)));
        }
        let before = self.layers.get(self.next);
        let (now, y) = match self.storage.packing() {
            None => self.attend_to_numbers(before, q, k, v, options)?,
            Some(packing) => self.attend_to_codes(packing, before, q, k, v, options)?,
        };
        if let Some(layer) = self.layers.get_mut(self.next) {
            *layer = now
        } else {
            self.layers.push(now)
        }
        self.next += 1;
        Ok(y)
    }
    #[track_caller]
    fn attend_to_numbers(
        &self,
        before: Option<&KeysAndValues>,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        options: &CachedAttentionOptions<'_>,
    ) -> Result<(KeysAndValues, Tensor)> {
        let (keys, values) = match before {
            Some(KeysAndValues::Numbers { keys, values }) => (Tensor::cat(&[keys, k], 2), Tensor::cat(&[values, v], 2)),
            _ => (k.clone(), v.clone()),
        };
        let (keys, values) = (keys.ok()?, values.ok()?);
        let causal = if options.mask.is_some() || (self.past > 0 && self.tokens > 1) { Some(self.causal(q)?) } else { None };
        let mask = match (options.mask, causal) {
            (Some(mask), Some(causal)) => Some(mask.logical_and(causal)),
            (_, causal) => causal,
        };
        let options = AttentionOptions {
            mask: mask.as_ref(),
            // One token that follows others sees them all.
            is_causal: mask.is_none() && self.past == 0,
            scale: options.scale,
            dropout: options.dropout,
            enable_gqa: true,
        };
        let y = functional::scaled_dot_product_attention(q, &keys, &values, &options).ok()?;
        Ok((KeysAndValues::Numbers { keys, values }, y))
    }
    /// True where a new token sees one of all, `[new tokens, all tokens]`.
    #[track_caller]
    fn causal(&self, q: &Tensor) -> Result<Tensor> {
        let (all, device) = (self.past + self.tokens, q.device()?);
        let columns = Tensor::arange_on(0, all, 1, DType::I64, device).reshape([1, all]);
        columns.le(Tensor::arange_on(self.past, all, 1, DType::I64, device).reshape([self.tokens, 1])).ok()
    }
    #[track_caller]
    fn attend_to_codes(
        &self,
        packing: Packing,
        before: Option<&KeysAndValues>,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        options: &CachedAttentionOptions<'_>,
    ) -> Result<(KeysAndValues, Tensor)> {
        if options.dropout.is_some_and(|(p, _)| p > 0.0) {
            let text = "attention over codes drops no weights: a cache of codes is for evaluation";
            return Err(Error::new("cache", ErrorKind::Argument(text.into())).hint("call `eval` on the model, or hold floats"));
        }
        let all = self.past + self.tokens;
        let joined = |before: Option<&TokenCodes>, new: &Tensor| -> Result<TokenCodes> {
            let new = TokenCodes::round(new, packing)?;
            match before {
                None => new.extended(all.next_multiple_of(GROWTH) - self.tokens),
                Some(before) if before.tokens() < all => before.extended(all.next_multiple_of(GROWTH) - before.tokens())?.updated(self.past, &new),
                Some(before) => before.updated(self.past, &new),
            }
        };
        let (keys, values) = match before {
            Some(KeysAndValues::Codes { keys, values }) => (joined(Some(keys), k)?, joined(Some(values), v)?),
            _ => (joined(None, k)?, joined(None, v)?),
        };
        // What there is space for takes no part.
        let capacity = keys.tokens();
        let mask = match options.mask {
            Some(mask) if mask.shape()?.last() == Some(&all) => Some(mask.pad_constant([0, (capacity - all) as isize], false).ok()?),
            mask => mask.cloned(),
        };
        let options = QuantizedAttentionOptions { tokens: Some(all), is_causal: true, mask: mask.as_ref(), scale: options.scale };
        let y = functional::quantized_attention(q, &keys, &values, &options).ok()?;
        Ok((KeysAndValues::Codes { keys, values }, y))
    }
}

thread_local! {
    static OPEN: RefCell<Option<CacheStep>> = const { RefCell::new(None) };
}
/// A step that the layers of this thread find, until it is closed or left.
struct OpenStep(());
impl OpenStep {
    #[track_caller]
    fn open(step: CacheStep) -> Result<OpenStep> {
        OPEN.with_borrow_mut(|open| {
            if open.is_some() {
                return Err(Error::new("cache", ErrorKind::Argument("a model is run over a cache inside of another such run".into())));
            }
            *open = Some(step);
            Ok(OpenStep(()))
        })
    }
    #[track_caller]
    fn close(self) -> Result<CacheStep> {
        OPEN.take().ok_or_else(|| Error::new("cache", ErrorKind::Internal("a step that is not open".into())))
    }
}
impl Drop for OpenStep {
    fn drop(&mut self) {
        OPEN.take();
    }
}
/// Calls a function with the step that is open on this thread, if one is.
pub(crate) fn open_step<R>(f: impl FnOnce(&mut CacheStep) -> R) -> Option<R> {
    OPEN.with_borrow_mut(|open| open.as_mut().map(f))
}
