//! What the command line says, and what of it makes no sense.
use adamant::{
    Error, ErrorKind, Result,
    amp::PrecisionMode,
    models::{Gpt2Config, HiddenActivation},
};
use std::path::PathBuf;

/// Trains GPT-2. The sizes are those of the network of 124 million parameters.
#[derive(clap::Parser, Clone, Debug)]
#[command(
    name = "gpt2",
    args_override_self = true,
    after_help = "Exit codes: 0 done; 1 failed; 2 usage; 4 unreadable input; 5 out of memory; 9 device absent."
)]
pub struct Options {
    /// Tokens to learn from: as `--format` says
    #[arg(long, value_name = "FILE", conflicts_with = "synthetic")]
    pub data: Option<PathBuf>,
    /// What the file holds: a token in two or four bytes (little endian, behind llm.c's header or without one), or a text, each byte
    /// of which is a token. Without it, `.bin` is u16 and everything else bytes
    #[arg(long, value_enum)]
    pub format: Option<TokenFormat>,
    /// Tokens that are made up, in place of a file
    #[arg(long)]
    pub synthetic: bool,
    /// Layers
    #[arg(long, default_value_t = 12)]
    pub layers: usize,
    /// Heads of each attention
    #[arg(long, default_value_t = 12)]
    pub heads: usize,
    /// Features of a token
    #[arg(long, default_value_t = 768)]
    pub features: usize,
    /// Tokens of a row
    #[arg(long, default_value_t = 1024)]
    pub context: usize,
    /// Different tokens
    #[arg(long, default_value_t = 50_257)]
    pub vocabulary: usize,
    /// Rows of a small batch
    #[arg(long, default_value_t = 16)]
    pub batch: usize,
    /// Small batches of a step
    #[arg(long, default_value_t = 1)]
    pub accumulate: usize,
    /// Steps in all, those of a run that is gone on with among them
    #[arg(long, default_value_t = 100)]
    pub steps: u64,
    /// Steps in which the rate rises
    #[arg(long, default_value_t = 10)]
    pub warmup: u64,
    /// The highest learning rate; a cosine leads to a tenth of it
    #[arg(long, default_value_t = 6e-4)]
    pub lr: f64,
    /// The decay of matrices
    #[arg(long, default_value_t = 0.1)]
    pub decay: f64,
    /// The largest norm of all gradients
    #[arg(long, default_value_t = 1.0)]
    pub clip: f64,
    /// cpu, cuda:N, wgpu:N or reference
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// f32, bf16, f16 (with a scaler) or fp8
    #[arg(long, default_value = "bf16")]
    pub precision: PrecisionMode,
    /// Each step is one captured function, which is replayed
    #[arg(long)]
    pub captured: bool,
    /// 10^12 operations that the device does in a second at most, where the program does not know the device's name
    #[arg(long, value_name = "X")]
    pub peak_tflops: Option<f64>,
    /// Steps between two lines
    #[arg(long, default_value_t = 10)]
    pub log_every: u64,
    /// What initial weights and batches are drawn from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write weights and the optimizer's state here at the end
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Go on with what `--save` wrote, by the same options
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// What the run came to, as one JSON document in the last line
    #[arg(long)]
    pub json: bool,
    /// CUDA devices are played by the emulator, which needs no card: sm_75, sm_80, sm_90 or sm_120
    #[cfg(feature = "emulated")]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "sm_90")]
    pub emulated: Option<String>,
}
/// How a token lies in a file.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFormat {
    Bytes,
    U16,
    U32,
}

impl Options {
    /// The network.
    pub fn network(&self) -> Gpt2Config {
        Gpt2Config {
            vocab_size: self.vocabulary,
            n_positions: self.context,
            n_embd: self.features,
            n_layer: self.layers,
            n_head: self.heads,
            activation_function: HiddenActivation::GeluTanh,
            // As it was trained: on so many tokens that none is seen twice, nothing is dropped.
            resid_pdrop: 0.0,
            embd_pdrop: 0.0,
            attn_pdrop: 0.0,
            ..Gpt2Config::default()
        }
    }
    /// Tokens of a step.
    pub fn tokens_of_a_step(&self) -> usize {
        self.batch * self.accumulate * self.context
    }
    /// How the file's tokens lie.
    pub fn token_format(&self) -> TokenFormat {
        let is_bin = self.data.as_ref().is_some_and(|path| path.extension().is_some_and(|e| e == "bin"));
        self.format.unwrap_or(if is_bin { TokenFormat::U16 } else { TokenFormat::Bytes })
    }
    /// The learning rate of a step, as a share of the highest: linear up, then a cosine down to a tenth at the last step.
    pub fn course(&self) -> impl Fn(u64) -> f64 + Send + Sync + 'static {
        let (warmup, last) = (self.warmup, self.steps.max(self.warmup + 1));
        move |t| {
            if t < warmup {
                return (t + 1) as f64 / warmup as f64;
            }
            let done = ((t - warmup) as f64 / (last - warmup) as f64).min(1.0);
            0.1 + 0.45 * (1.0 + (std::f64::consts::PI * done).cos())
        }
    }
    /// # Errors
    /// A size of 0, heads that do not divide the features, a rate that is none, no data, a format without a file, a step of more tokens
    /// than can be counted.
    pub fn check(&self) -> Result<()> {
        let sizes = [
            ("layers", self.layers),
            ("heads", self.heads),
            ("features", self.features),
            ("context", self.context),
            ("vocabulary", self.vocabulary),
            ("batch", self.batch),
            ("accumulate", self.accumulate),
            ("log-every", usize::from(self.log_every > 0)),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return wrong(format!("--{name} is 0"), "sizes count from 1");
        }
        if !self.features.is_multiple_of(self.heads) {
            return wrong(format!("{} heads do not divide {} features", self.heads, self.features), "give --features a multiple of --heads");
        }
        if self.batch.checked_mul(self.accumulate).and_then(|rows| rows.checked_mul(self.context)).is_none() {
            return wrong("a step has more tokens than can be counted".into(), "make --batch, --accumulate or --context smaller");
        }
        for (name, value, least) in [("lr", self.lr, 0.0), ("decay", self.decay, 0.0), ("clip", self.clip, f64::MIN_POSITIVE)] {
            if !(value.is_finite() && value >= least) {
                return wrong(format!("--{name} is {value}"), "it is a finite number, and --clip is above 0");
            }
        }
        if self.peak_tflops.is_some_and(|peak| !(peak.is_finite() && peak > 0.0)) {
            return wrong("--peak-tflops is no positive number".into(), "an H100 or H200 has 989 in bf16");
        }
        if self.data.is_none() && !self.synthetic {
            return wrong("there is nothing to learn from".into(), "name a file with --data, or give --synthetic");
        }
        if self.data.is_none() && self.format.is_some() {
            return wrong("--format is about a file, and there is none".into(), "name it with --data");
        }
        Ok(())
    }
}
/// An argument that makes no sense, and what would.
pub fn wrong<T>(what: String, hint: &'static str) -> Result<T> {
    Err(Error::new("gpt2", ErrorKind::Argument(what)).hint(hint))
}
