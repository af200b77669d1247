//! How a card is opened. What an option asks for and this version cannot do is refused when the card is opened, and never passed
//! over.
use crate::{device::CudaBackend, opened::Opened};
use adamant_kernels::cache_directory;
use adamant_runtime::{ErrorKind, backend::FreezeRule};
use std::{env, fmt, path::PathBuf, str::FromStr};

/// How much memory is kept for later, and how: `off`, `on`, so many bytes, or a share of the card as `0.8` or `80%`.
pub(crate) const POOL: &str = "ADAMANT_CUDA_POOL";

/// Where the memory of tensors comes from.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum CudaMemoryPool {
    /// Each piece is the driver's, and goes back to it: for tools that watch accesses.
    Off,
    /// Pieces lie in mapped pages, which are kept.
    #[default]
    On,
    /// As [`CudaMemoryPool::On`]; all that is reserved is at most so many bytes.
    Bytes(u64),
    /// As [`CudaMemoryPool::On`]; all that is reserved is at most this share of the card's memory, above 0 and at most 1.
    Share(f64),
}
impl fmt::Display for CudaMemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CudaMemoryPool::Off => f.write_str("off"),
            CudaMemoryPool::On => f.write_str("on"),
            CudaMemoryPool::Bytes(bytes) => write!(f, "at most {bytes} bytes"),
            CudaMemoryPool::Share(share) => write!(f, "at most {}% of the card", share * 100.0),
        }
    }
}
impl FromStr for CudaMemoryPool {
    type Err = ErrorKind;
    fn from_str(text: &str) -> Result<CudaMemoryPool, ErrorKind> {
        let number = |text: &str| text.parse::<f64>().ok();
        let pool = match text {
            "off" => Some(CudaMemoryPool::Off),
            "on" | "" => Some(CudaMemoryPool::On),
            _ => match (text.strip_suffix('%').and_then(number), text.parse()) {
                (Some(percent), _) => Some(CudaMemoryPool::Share(percent / 100.0)),
                (None, Ok(bytes)) if !text.contains('.') => Some(CudaMemoryPool::Bytes(bytes)),
                _ => number(text).map(CudaMemoryPool::Share),
            },
        };
        pool.ok_or_else(|| ErrorKind::Argument(format!("`{text}` is no memory pool; write off, on, a number of bytes, or a share as 0.8 or 80%")))
    }
}
/// How a card was opened: [`CudaBackend::options`].
#[derive(Clone, Debug, PartialEq)]
pub struct CudaOptions {
    /// its number, as the driver counts
    pub device: usize,
    /// where compiled kernels and the outcome of the self-test are kept
    pub cache: Option<PathBuf>,
    /// may products use the matrix unit?
    pub tensor_cores: bool,
    /// where the memory of tensors comes from
    pub memory_pool: CudaMemoryPool,
    /// streams that threads compute on
    pub stream_count: usize,
    /// which plans become graphs
    pub graphs: Option<FreezeRule>,
    /// may the factors of products of f32 be cut to TF32?
    pub tf32: bool,
    /// is what computes a product chosen by a fixed rule?
    pub deterministic: bool,
    /// is it chosen by measuring?
    pub benchmark: bool,
    /// are convolutions cuDNN's?
    pub cudnn: bool,
    /// is each fast path held against the host at the first opening?
    pub self_test: bool,
}
/// How a card is to be opened: [`CudaBackend::builder`].
#[derive(Clone, Debug, PartialEq)]
pub struct CudaBuilder {
    options: CudaOptions,
    /// none: what the environment says
    memory_pool: Option<CudaMemoryPool>,
}
impl Default for CudaBuilder {
    fn default() -> CudaBuilder {
        let options = CudaOptions {
            device: 0,
            cache: cache_directory(),
            tensor_cores: true,
            memory_pool: CudaMemoryPool::On,
            stream_count: 1,
            graphs: Some(FreezeRule { run: 3, steps: 8 }),
            tf32: false,
            deterministic: false,
            benchmark: false,
            cudnn: false,
            self_test: true,
        };
        CudaBuilder { options, memory_pool: None }
    }
}
impl CudaBuilder {
    fn with(mut self, set: impl FnOnce(&mut CudaOptions)) -> CudaBuilder {
        set(&mut self.options);
        self
    }
    /// The card's number, as the driver counts; 0 by default.
    pub fn device(self, number: usize) -> CudaBuilder {
        self.with(|o| o.device = number)
    }
    /// Where compiled kernels and the outcome of the self-test are kept, or nowhere; by default `ADAMANT_CACHE_DIR`, else the
    /// user's directory for caches.
    pub fn cache(self, directory: Option<PathBuf>) -> CudaBuilder {
        self.with(|o| o.cache = directory)
    }
    /// May products use the card's matrix unit? On by default. Off: all products are sums of products of single elements, one
    /// after another.
    pub fn tensor_cores(self, on: bool) -> CudaBuilder {
        self.with(|o| o.tensor_cores = on)
    }
    /// Where the memory of tensors comes from; by default `ADAMANT_CUDA_POOL`, else [`CudaMemoryPool::On`].
    pub fn memory_pool(mut self, pool: CudaMemoryPool) -> CudaBuilder {
        self.memory_pool = Some(pool);
        self
    }
    /// How many streams threads compute on; 1 by default, and this version has no more.
    pub fn stream_count(self, count: usize) -> CudaBuilder {
        self.with(|o| o.stream_count = count)
    }
    /// Which plans become CUDA graphs, of one launch each, or none; by default those of 8 kernels and more, at their third run
    /// with the same sizes. Each keeps its memory.
    pub fn graphs(self, rule: Option<FreezeRule>) -> CudaBuilder {
        self.with(|o| o.graphs = rule)
    }
    /// May cuBLASLt cut the factors of products of f32 to TF32, which has 10 bits behind the point? Off by default: a
    /// product is then some 1e-3 off, where it would be 1e-6.
    pub fn tf32(self, on: bool) -> CudaBuilder {
        self.with(|o| o.tf32 = on)
    }
    /// Is what computes a product chosen by a fixed rule, which gives the same bits in every run: the first way that cuBLASLt offers
    /// among those that add up in one order? Off by default. Nothing is ever measured then.
    pub fn deterministic(self, on: bool) -> CudaBuilder {
        self.with(|o| o.deterministic = on)
    }
    /// Is it chosen by measuring what there is? Off by default, and this version cannot.
    pub fn benchmark(self, on: bool) -> CudaBuilder {
        self.with(|o| o.benchmark = on)
    }
    /// Are convolutions cuDNN's? Off by default, and this version cannot.
    pub fn cudnn(self, on: bool) -> CudaBuilder {
        self.with(|o| o.cudnn = on)
    }
    /// Is each fast path held against the host at the first opening of a card with its driver and libraries, and off where it differs? On
    /// by default. The outcome is kept with the compiled kernels; without a cache each opening is the first.
    pub fn self_test(self, on: bool) -> CudaBuilder {
        self.with(|o| o.self_test = on)
    }
    /// Opens the card.
    ///
    /// # Errors
    /// `DeviceAbsent`: no driver, no compiler or no such card, with what to install. `Argument`, `Unsupported`: an option that
    /// makes no sense, or that cannot be met.
    pub fn build(self) -> Result<CudaBackend, ErrorKind> {
        let CudaBuilder { mut options, memory_pool } = self;
        options.memory_pool = match memory_pool {
            Some(pool) => pool,
            None => env::var(POOL).map_or(Ok(CudaMemoryPool::On), |text| text.parse())?,
        };
        options.check()?;
        Ok(CudaBackend::new(Opened::open(&options)?, options))
    }
}
pub(crate) fn unsupported(what: &str) -> ErrorKind {
    ErrorKind::Unsupported { backend: "cuda".into(), what: what.into() }
}
impl CudaOptions {
    /// What needs no card to be seen.
    fn check(&self) -> Result<(), ErrorKind> {
        let argument = |what: String| Err(ErrorKind::Argument(what));
        match self.memory_pool {
            CudaMemoryPool::Bytes(0) => return argument("memory_pool: a cap of 0 bytes; write CudaMemoryPool::Off for no pool".into()),
            CudaMemoryPool::Share(share) if !(share > 0.0 && share <= 1.0) => {
                return argument(format!("memory_pool: a share of {share}; it is above 0 and at most 1"));
            }
            _ => {}
        }
        if self.stream_count == 0 {
            return argument("stream_count: 0; work needs a stream".into());
        }
        if self.benchmark && self.deterministic {
            return argument("benchmark and deterministic: what is measured is not always chosen alike; leave one of them out".into());
        }
        if self.tf32 && !self.tensor_cores {
            return argument("tf32 without tensor_cores: TF32 is what the matrix unit computes; leave tensor_cores on".into());
        }
        if self.stream_count > 1 {
            return Err(unsupported(&format!("stream_count: {} compute streams; this version has 1", self.stream_count)));
        }
        if self.benchmark {
            return Err(unsupported("benchmark: this version measures nothing; cuBLASLt's own first choice is taken"));
        }
        if self.cudnn {
            return Err(unsupported("cudnn: this program is built without the feature `cudnn`"));
        }
        Ok(())
    }
    /// For people, by name.
    pub(crate) fn told(&self) -> Vec<(&'static str, String)> {
        let on = |on: bool| String::from(if on { "on" } else { "off" });
        vec![
            ("tensor cores", on(self.tensor_cores)),
            ("memory pool", self.memory_pool.to_string()),
            ("compute streams", self.stream_count.to_string()),
            ("graphs", self.graphs.map_or("off".into(), |rule| format!("of {} kernels and more, at run {}", rule.steps, rule.run))),
            ("tf32", on(self.tf32)),
            ("deterministic", on(self.deterministic)),
            ("benchmark", on(self.benchmark)),
            ("cudnn", on(self.cudnn)),
        ]
    }
}
