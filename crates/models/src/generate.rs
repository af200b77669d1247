//! What comes next: tokens chosen from logits one after another, greedily or by seeded draws.
//! Sources: top-k, Fan et al. 2018, section 5.4; top-p (nucleus), Holtzman et al. 2020; the order of the steps is transformers'.
use crate::{
    CacheStorage, Gpt2Inputs, Gpt2LmHead, KeyValueCache,
    attend::{refuse, seen},
};
use adamant_core::{DType, Error, ErrorKind, Result, Rng, Tensor, no_grad};

/// How tokens are chosen.
#[derive(Clone, Debug)]
#[doc(alias = "GenerationConfig")]
pub struct GenerateOptions {
    /// how many tokens are added at most
    pub max_new_tokens: usize,
    /// logits are divided by it before a token is drawn; 0: the most likely token is taken
    pub temperature: f64,
    /// draw among so many of the most likely tokens
    pub top_k: Option<usize>,
    /// draw among the fewest tokens whose probabilities add up to this
    pub top_p: Option<f64>,
    /// where the draws start
    pub seed: u64,
    /// a sequence is at its end behind this token
    pub eos_token_id: Option<i64>,
    /// what stands behind its end while others go on, a token of the vocabulary; `eos_token_id` if it is not given
    pub pad_token_id: Option<i64>,
    /// how keys and values of what is known are held
    pub cache: CacheStorage,
}
impl Default for GenerateOptions {
    /// Greedy, 20 tokens, no end.
    fn default() -> GenerateOptions {
        GenerateOptions {
            max_new_tokens: 20,
            temperature: 0.0,
            top_k: None,
            top_p: None,
            seed: 0,
            eos_token_id: None,
            pad_token_id: None,
            cache: CacheStorage::Float,
        }
    }
}
impl GenerateOptions {
    #[track_caller]
    fn check(&self) -> Result<()> {
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return refuse("generate", format!("the temperature is {}, and must be 0 or more", self.temperature));
        }
        if self.top_k == Some(0) {
            return refuse("generate", "top_k is 0: no token is left to draw");
        }
        if self.top_p.is_some_and(|p| !(p > 0.0 && p <= 1.0)) {
            return refuse("generate", format!("top_p is {:?}, and must be above 0 and at most 1", self.top_p));
        }
        Ok(())
    }
    /// The probabilities that a token is drawn by: a softmax of the logits after the temperature, of those that `top_k` and
    /// then `top_p` leave. At temperature 0 the first of the largest logits has all of it.
    ///
    /// ```
    /// # use adamant_models::generate::GenerateOptions;
    /// let logits = [2.0, 1.0, 0.0, -1.0];
    /// let of = |top_k, top_p| GenerateOptions { temperature: 1.0, top_k, top_p, ..Default::default() }.probabilities(&logits);
    /// assert!((of(None, None)[0] - 0.6439).abs() < 1e-4);
    /// assert!((of(Some(2), None)[0] - 0.7311).abs() < 1e-4);
    /// // 0.64 + 0.24 reach 0.8.
    /// assert_eq!(of(None, Some(0.8))[2..], [0.0, 0.0]);
    /// assert_eq!(GenerateOptions::default().probabilities(&logits), [1.0, 0.0, 0.0, 0.0]);
    /// ```
    pub fn probabilities(&self, logits: &[f32]) -> Vec<f64> {
        if self.temperature == 0.0 {
            let best = most_likely(logits);
            return (0..logits.len()).map(|k| f64::from(k == best)).collect();
        }
        let mut logits: Vec<f64> = logits.iter().map(|x| f64::from(*x) / self.temperature).collect();
        if let Some(k) = self.top_k.filter(|k| *k < logits.len()) {
            let mut sorted = logits.clone();
            let (_, least, _) = sorted.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
            let least = *least;
            logits.iter_mut().filter(|x| **x < least).for_each(|x| *x = f64::NEG_INFINITY);
        }
        let mut p = softmax(&logits);
        if let Some(top_p) = self.top_p.filter(|p| *p < 1.0) {
            let mut order: Vec<usize> = (0..p.len()).collect();
            order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
            let mut below = 0.0;
            // The likeliest stays, whatever it has.
            order.pop();
            for k in order {
                below += p[k];
                if below > 1.0 - top_p {
                    break;
                }
                logits[k] = f64::NEG_INFINITY;
            }
            p = softmax(&logits);
        }
        p
    }
    /// The token of a row of logits; `uniform` is a draw from [0, 1).
    fn choose(&self, logits: &[f32], uniform: f64) -> usize {
        if self.temperature == 0.0 {
            return most_likely(logits);
        }
        let p = self.probabilities(logits);
        let mut sum = 0.0;
        let drawn = p.iter().position(|x| {
            sum += x;
            uniform < sum
        });
        // Rounding may leave the sum a little below 1.
        drawn.or_else(|| p.iter().rposition(|x| *x > 0.0)).unwrap_or_default()
    }
}
fn most_likely(logits: &[f32]) -> usize {
    (0..logits.len()).fold(0, |best, k| if logits[k] > logits[best] { k } else { best })
}
fn softmax(logits: &[f64]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut p: Vec<f64> = logits.iter().map(|x| (x - most).exp()).collect();
    let sum: f64 = p.iter().sum();
    p.iter_mut().for_each(|x| *x /= sum);
    p
}

impl Gpt2LmHead {
    /// Ids `[batch, time]` and what follows them, `[batch, time + new]`, i64. Keys and values of what is known are kept, so each
    /// new token is computed alone. Dropout is as the mode says: call `eval` before.
    ///
    /// Prompts of several lengths are padded in front, with an `attention_mask` `[batch, time]` that is 0 there; positions are
    /// counted from each prompt's first token.
    ///
    /// # Errors
    /// Options that leave nothing to choose from; prompt and new tokens longer than the positions; logits that are no numbers.
    #[track_caller]
    pub fn generate(&self, ids: &Tensor, attention_mask: Option<&Tensor>, options: &GenerateOptions) -> Result<Tensor> {
        options.check()?;
        no_grad(|| self.extend(ids, attention_mask, options))
    }
    #[track_caller]
    fn extend(&self, ids: &Tensor, attention_mask: Option<&Tensor>, options: &GenerateOptions) -> Result<Tensor> {
        let [batch, time] = ids.dims()?;
        let (device, most) = (ids.device()?, self.transformer().config().n_positions);
        if time + options.max_new_tokens > most + 1 {
            return refuse("generate", format!("{time} tokens and {} new ones are more than the {most} positions", options.max_new_tokens));
        }
        let rng = Rng::new_on(options.seed, 0, device)?;
        let mut mask = attention_mask.map(|mask| seen(mask).map(|m| m.cast(DType::I64))).transpose()?;
        let mut positions = mask.as_ref().map(|mask| (mask.cumsum(1) - 1).clamp_min(0));
        let (mut all, mut next, mut cache) = (vec![ids.cast(DType::I64)], ids.clone(), KeyValueCache::with(options.cache));
        let mut ended = vec![false; batch];
        for _ in 0..options.max_new_tokens {
            let inputs = Gpt2Inputs { attention_mask: mask.as_ref(), position_ids: positions.as_ref(), ..Default::default() };
            let features = self.transformer().forward_cached(&next, &inputs, &mut cache)?;
            let [_, new, width] = features.dims()?;
            let logits = self.read_out(&features.narrow(1, new - 1, 1).reshape([batch, width]))?.to_vec_as::<f32>()?;
            let uniform = if options.temperature > 0.0 { rng.uniform([batch], DType::F32).to_vec::<f32>()? } else { vec![0.0; batch] };
            let mut tokens = Vec::with_capacity(batch);
            for (k, row) in logits.chunks_exact((logits.len() / batch.max(1)).max(1)).enumerate() {
                if row.iter().any(|x| x.is_nan()) {
                    return Err(Error::new("generate", ErrorKind::Domain(format!("logits of sequence {k} are not numbers"))));
                }
                let token = match options.pad_token_id.or(options.eos_token_id).filter(|_| ended[k]) {
                    Some(pad) => pad,
                    None => options.choose(row, f64::from(uniform[k])) as i64,
                };
                ended[k] |= options.eos_token_id == Some(token);
                tokens.push(token);
            }
            next = Tensor::from_vec_on(tokens, [batch, 1], device);
            all.push(next.clone());
            if ended.iter().all(|e| *e) {
                break;
            }
            if let (Some(m), Some(p)) = (&mut mask, &mut positions) {
                let last = p.shape()?[1] - 1;
                *p = p.narrow(1, last, 1) + 1;
                *m = Tensor::cat(&[&*m, &next.ones_like()], 1);
            }
        }
        Tensor::cat(&all, 1).ok()
    }
}
