//! Keys and values of what a decoder has seen, as codes: codes and attention against arithmetic of the host, the kernel against the
//! body on every instruction set and number of threads, bytes, the time of attention beside that over floats, and what a trained
//! language model loses of the text that it judges through such a cache.
use super::{
    described::{JudgedExample, SilentWatch},
    tuned::interleaved,
};
use crate::exit::Exit;
use adamant::{
    DType, Device, Tensor,
    cpu::{Context, CpuBackend, Isa},
    functional::{AttentionOptions, QuantizedAttentionOptions, TokenCodes, quantized_attention, scaled_dot_product_attention},
    nn::{CacheStorage, CachedAttentionOptions, Copies, KeyValueCache, Module, Sequential, Walk, Walker},
};
use adamant_conformance::random::Random;
use adamant_core::{
    Arg, Compound, Op, Origin,
    composite::{keyed, packed::Packing, quantized_attention::QuantizedAttention},
    f16,
};
use adamant_train::{EvaluateOptions, Failure, Run, Trained, evaluate};
use std::{
    cell::Cell,
    path::{Path, PathBuf},
};

/// What is drawn, and which models judge.
#[derive(clap::Args)]
pub struct CacheOptions {
    /// How many random attentions
    #[arg(long, default_value_t = 300)]
    n: usize,
    /// The seed of the first
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder of the real data sets
    #[arg(long)]
    data: Option<PathBuf>,
    /// Folder that trained models are kept in; they are trained where it lacks them
    #[arg(long, default_value = "target/quant")]
    runs: PathBuf,
    /// Seeds that models are trained with
    #[arg(long, default_value = "1", value_delimiter = ',')]
    seeds: Vec<u64>,
    /// Steps of training, in place of the description's
    #[arg(long)]
    iterations: Option<u64>,
    /// Plant faults into what is compared, and show that each is found
    #[arg(long)]
    plant: bool,
}
type Told<T> = Result<T, String>;
fn told<T>(result: adamant::Result<T>) -> Told<T> {
    result.map_err(|e| e.to_string())
}
/// A storage, and how much of the bytes of floats it may take, of the nats it may lose, of the time it may need.
const PROMISES: [(CacheStorage, f64, f64, Option<f64>); 2] = [(CacheStorage::Int8, 0.27, 0.002, Some(0.5)), (CacheStorage::Int4, 0.16, 0.02, None)];

/// A fault that is planted into what the library gave.
#[derive(Clone, Copy, PartialEq, Debug)]
enum PlantedCacheFault {
    /// one code is the next one
    NextCode,
    /// the scales of two tokens changed places
    OtherScale,
    /// the last token is not seen
    UnseenToken,
    /// one result is one unit in the last place off
    LastPlace,
}

pub fn run(options: &CacheOptions) -> Told<Exit> {
    use PlantedCacheFault::{LastPlace, NextCode, OtherScale, UnseenToken};
    if options.plant {
        let mut all = true;
        for (fault, found) in [
            (NextCode, rows(options.n, options.seed, Some(NextCode)).is_err()),
            (OtherScale, attentions(options.n, options.seed, Some(OtherScale)).is_err()),
            (UnseenToken, attentions(options.n, options.seed, Some(UnseenToken)).is_err()),
            (LastPlace, kernels(options.n, options.seed, Some(LastPlace)).is_err()),
        ] {
            println!("{fault:?}: {}", if found { "found" } else { "not found" });
            all &= found;
        }
        return Ok(if all { Exit::Passed } else { Exit::Failed });
    }
    let coded = rows(options.n, options.seed, None)?;
    println!("passed: {coded} rows have the codes, scales and zero points of the host's arithmetic");
    let (attended, furthest) = attentions(options.n, options.seed, None)?;
    println!("passed: {attended} results of attention over codes, at most {furthest:.1e} from f64 arithmetic over the numbers they stand for");
    let (cases, devices) = kernels(options.n, options.seed, None)?;
    println!("passed: {cases} attentions have the bits of the body on each of {devices}");
    let mut passed = bytes()?;
    passed &= speed()?;
    let Some(data) = CHARGPT.data(options.data.as_deref()) else {
        println!("skipped chargpt: --data names no folder of data sets");
        return Ok(if passed { Exit::Skipped } else { Exit::Failed });
    };
    for seed in &options.seeds {
        passed &= judge(options, &data, *seed).map_err(|e| e.to_string())?;
    }
    Ok(if passed { Exit::Passed } else { Exit::Failed })
}

const PACKINGS: [Packing; 4] = [
    Packing { bits: 8, group: None, symmetric: true },
    Packing { bits: 8, group: None, symmetric: false },
    Packing { bits: 4, group: None, symmetric: true },
    Packing { bits: 4, group: None, symmetric: false },
];
fn drawn_rows(random: &mut Random, rows: usize, features: usize) -> Vec<f32> {
    let mut all = Vec::new();
    for _ in 0..rows {
        let kind = random.below(8);
        let constant = (random.unit() * 4.0 - 2.0) as f32;
        for k in 0..features {
            let v = (random.unit() * 4.0 - 2.0) as f32;
            all.push(match kind {
                0 => 0.0,
                1 => constant,
                2 if k == 0 => v * 500.0,
                3 => v + 6.0,
                _ => v,
            });
        }
    }
    all
}
/// The codes of a row less that of 0, and the step.
fn coded(row: &[f32], packing: Packing) -> (Vec<i64>, f32) {
    let (low, high) = packing.range();
    let most = row.iter().fold(0f32, |m, v| m.max(if packing.symmetric { v.abs() } else { *v }));
    let least = if packing.symmetric { 0.0 } else { row.iter().fold(0f32, |m, v| m.min(*v)) };
    let step = f16::from_f32((most - least) / high as f32).to_f32();
    let step = if step == 0.0 { 1.0 } else { step };
    let zero = if packing.symmetric { 0 } else { ((-least / step).round_ties_even() as i64).min(i64::from(high)) };
    (row.iter().map(|v| ((v / step).round_ties_even() as i64 + zero).clamp(i64::from(low), i64::from(high)) - zero).collect(), step)
}
fn rows(n: usize, seed: u64, fault: Option<PlantedCacheFault>) -> Told<usize> {
    let mut random = Random::new(seed);
    let mut done = 0;
    for case in 0..n {
        let packing = PACKINGS[case % 4];
        let features = [1, 2, 7, 16, 32, 33, 64, 80, 128][random.below(9)];
        let x = drawn_rows(&mut random, 12, features);
        let codes = told(TokenCodes::round(&Tensor::from_vec(x.clone(), [3, 4, features]), packing))?;
        let mut got = told(codes.dequantize(DType::F32).to_vec::<f32>())?;
        if fault.is_some() {
            got[0] += told(codes.scale().cast(DType::F32).to_vec::<f32>())?[0];
        }
        for (r, (row, got)) in x.chunks(features).zip(got.chunks(features)).enumerate() {
            let (want, step) = coded(row, packing);
            if let Some(c) = (0..features).find(|c| got[*c] != want[*c] as f32 * step) {
                return Err(format!("failed: {packing:?}, {features} features, row {r}, at {c}: {} for code {} by {step}", got[c], want[c]));
            }
            done += 1;
        }
    }
    Ok(done)
}

/// An attention with drawn sizes.
struct DrawnAttention {
    packing: Packing,
    batch: usize,
    shared: usize,
    ratio: usize,
    queries: usize,
    keys: usize,
    tokens: usize,
    features: [usize; 2],
    causal: bool,
    /// of each batch and key
    mask: Option<Vec<bool>>,
    dtype: DType,
    numbers: [Vec<f32>; 3],
}
impl DrawnAttention {
    fn new(random: &mut Random) -> DrawnAttention {
        let mut pick = |of: &[usize]| of[random.below(of.len())];
        let (batch, shared, ratio) = (pick(&[1, 1, 2]), pick(&[1, 2, 3]), pick(&[1, 1, 2, 4]));
        let (queries, keys) = (pick(&[1, 1, 1, 3, 5, 70]), pick(&[1, 5, 32, 64, 100, 256, 300, 600]));
        let features = [pick(&[1, 8, 16, 33, 64, 128]), pick(&[1, 5, 16, 64, 80])];
        let tokens = pick(&[keys, keys, keys.div_ceil(2)]);
        let packing = PACKINGS[pick(&[0, 1, 2, 3])];
        let (causal, masked) = (pick(&[0, 1]) == 0, pick(&[0, 1, 2]) == 0);
        let dtype = [DType::F32, DType::F16, DType::BF16][pick(&[0, 0, 1, 2])];
        let mask = masked.then(|| (0..batch * keys).map(|_| random.below(3) > 0).collect());
        let mut numbers = |rows: usize, features: usize| drawn_rows(random, rows, features);
        let numbers = [
            numbers(batch * shared * ratio * queries, features[0]).into_iter().map(|v| v * 0.1).collect(),
            numbers(batch * shared * keys, features[0]).into_iter().map(|v| v * 0.1).collect(),
            numbers(batch * shared * keys, features[1]),
        ];
        DrawnAttention { packing, batch, shared, ratio, queries, keys, tokens, features, causal, mask, dtype, numbers }
    }
    fn q(&self) -> Tensor {
        Tensor::from_vec(self.numbers[0].clone(), [self.batch, self.shared * self.ratio, self.queries, self.features[0]]).cast(self.dtype)
    }
    fn codes(&self) -> Told<[TokenCodes; 2]> {
        let of = |k: usize| {
            let x = Tensor::from_vec(self.numbers[k].clone(), [self.batch, self.shared, self.keys, self.features[k - 1]]);
            told(TokenCodes::round(&x, self.packing))
        };
        Ok([of(1)?, of(2)?])
    }
    fn mask(&self) -> Option<Tensor> {
        self.mask.clone().map(|mask| Tensor::from_vec(mask, [self.batch, 1, 1, self.keys]))
    }
    fn attend(&self, keys: &TokenCodes, values: &TokenCodes, tokens: usize) -> Tensor {
        let mask = self.mask();
        let options = QuantizedAttentionOptions { tokens: Some(tokens), is_causal: self.causal, mask: mask.as_ref(), scale: None };
        quantized_attention(&self.q(), keys, values, &options)
    }
    /// In f64, over what the codes stand for by the host's arithmetic.
    fn row(&self, row: usize, q: &[f64], [k, v]: [&[f64]; 2]) -> Vec<f64> {
        let [e, ev] = self.features;
        let heads = self.shared * self.ratio;
        let (batch, head, query) = (row / (heads * self.queries), row / self.queries % heads, row % self.queries);
        let first = (batch * self.shared + head / self.ratio) * self.keys;
        let seen = |j: &usize| {
            let known = *j < self.tokens && (!self.causal || j + self.queries <= self.tokens + query);
            known && self.mask.as_ref().is_none_or(|mask| mask[batch * self.keys + j])
        };
        let scores: Vec<(usize, f64)> =
            (0..self.keys).filter(seen).map(|j| (j, (0..e).map(|c| q[row * e + c] * k[(first + j) * e + c]).sum::<f64>() / (e as f64).sqrt())).collect();
        let most = scores.iter().fold(f64::NEG_INFINITY, |m, (_, s)| m.max(*s));
        let sum: f64 = scores.iter().map(|(_, s)| (s - most).exp()).sum();
        (0..ev).map(|c| scores.iter().map(|(j, s)| (s - most).exp() / sum * v[(first + j) * ev + c]).sum()).collect()
    }
}
fn attentions(n: usize, seed: u64, fault: Option<PlantedCacheFault>) -> Told<(usize, f64)> {
    let mut random = Random::new(seed);
    let (mut done, mut furthest) = (0, 0f64);
    for case in 0..n {
        let of = DrawnAttention::new(&mut random);
        let [keys, mut values] = of.codes()?;
        if fault == Some(PlantedCacheFault::OtherScale) && of.keys > 1 {
            let flipped = values.scale().flip(2);
            values = told(TokenCodes::new(of.packing, of.features[1], values.codes(), &flipped, values.zero_point()))?;
        }
        let tokens = of.tokens - usize::from(fault == Some(PlantedCacheFault::UnseenToken));
        let got = told(of.attend(&keys, &values, tokens).cast(DType::F32).to_vec::<f32>())?;
        let numbers = |x: &[f32], features: usize| -> Vec<f64> {
            x.chunks(features)
                .flat_map(|row| {
                    let (codes, step) = coded(row, of.packing);
                    codes.into_iter().map(move |c| c as f64 * f64::from(step))
                })
                .collect()
        };
        let (k, v) = (numbers(&of.numbers[1], of.features[0]), numbers(&of.numbers[2], of.features[1]));
        let q = told(of.q().cast(DType::F64).to_vec::<f64>())?;
        let size = v.iter().fold(1e-3, |m: f64, v| m.max(v.abs()));
        let near = match of.dtype {
            DType::F32 => 2e-5,
            DType::F16 => 1e-3,
            _ => 8e-3,
        };
        for (row, got) in got.chunks(of.features[1]).enumerate() {
            for (got, want) in got.iter().zip(of.row(row, &q, [&k, &v])) {
                let off = (f64::from(*got) - want).abs() / size;
                if off.is_nan() || off > near {
                    return Err(format!("failed: attention {case}, {:?}, row {row}: {got} for {want}", of.packing));
                }
                furthest = if of.dtype == DType::F32 { furthest.max(off) } else { furthest };
                done += 1;
            }
        }
    }
    Ok((done, furthest))
}
/// The kernel against the body, on instruction sets and numbers of threads; and all of them against each other.
fn kernels(n: usize, seed: u64, fault: Option<PlantedCacheFault>) -> Told<(usize, String)> {
    let mut devices: Vec<(String, Device)> = Vec::new();
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        for threads in [1, 2, 4] {
            let device = told(Context::new(CpuBackend::builder().threads(threads).isa(isa)))?.device();
            devices.push((format!("{isa:?} with {threads}"), device));
        }
    }
    let mut random = Random::new(seed);
    for case in 0..n {
        let of = DrawnAttention::new(&mut random);
        let mut first: Option<Vec<u32>> = None;
        for (name, device) in &devices {
            let bits = device.scoped(|| -> Told<Vec<u32>> {
                let ([keys, values], mask) = (of.codes()?, of.mask());
                let scale = 1.0 / (of.features[0] as f64).sqrt();
                let composite = QuantizedAttention { scale, causal: of.causal, mask: mask.is_some(), features: of.features[1], packing: of.packing };
                let (q, tokens) = (of.q(), Tensor::full((), of.tokens as i64, DType::I32));
                let inputs: Vec<Tensor> =
                    std::iter::once(&q).chain(keys.parts()).chain(values.parts()).chain([&tokens]).chain(mask.as_ref()).cloned().collect();
                let kernel = Tensor::apply_many(Op::Composite(keyed(composite)), Arg::None, &inputs.iter().collect::<Vec<_>>(), Origin::here());
                let body = told(composite.body(&inputs))?;
                let bits = |t: &Tensor| Ok::<_, String>(told(t.cast(DType::F32).to_vec::<f32>())?.into_iter().map(f32::to_bits).collect::<Vec<u32>>());
                let (mut kernel, body) = (bits(&kernel[0])?, bits(&body[0])?);
                if let (Some(_), Some(last)) = (fault, kernel.last_mut()) {
                    *last ^= 1;
                }
                if kernel == body { Ok(kernel) } else { Err(format!("failed: attention {case}, {composite:?} on {name} is not the body's")) }
            })?;
            if first.get_or_insert_with(|| bits.clone()) != &bits {
                return Err(format!("failed: attention {case} has other bits on {name}"));
            }
        }
    }
    let names: Vec<String> = devices.into_iter().map(|(name, _)| name).collect();
    Ok((n, format!("{} (instructions with threads)", names.join(", "))))
}

/// Bytes of caches of 1,024 tokens, and of 1,000, whose capacity is larger.
fn bytes() -> Told<bool> {
    let mut all = true;
    for features in [128usize, 64, 32] {
        let held = |storage: CacheStorage, tokens: usize| -> Told<usize> {
            let mut cache = KeyValueCache::with(storage);
            let x = Tensor::ones([1, 4, tokens, features]);
            let mut step = cache.begin(tokens);
            told(step.attend(&x, &x, &x, &CachedAttentionOptions::default()))?;
            told(cache.commit(step))?;
            Ok(cache.memory_bytes())
        };
        for (storage, most, _, _) in PROMISES {
            let share = |tokens: usize| Ok::<_, String>(held(storage, tokens)? as f64 / held(CacheStorage::Float, tokens)? as f64);
            let (whole, with_more) = (share(1024)?, share(1000)?);
            let passed = whole <= most;
            all &= passed;
            println!(
                "{} {}, heads of {features}: {whole:.4} of the bytes of f32 (at most {most}); {with_more:.4} with 1,000 tokens and space for 1,024",
                if passed { "passed" } else { "failed" },
                storage.name()
            );
        }
    }
    Ok(all)
}

/// GPT-2's heads.
const HEADS: usize = 12;
const FEATURES: usize = 64;
const POSITIONS: usize = 1000;
/// One query over 1,000 tokens: the caches of one layer, and those of twelve in turn, as a decoder reads them, between whose layers and
/// tokens other weights and caches pass through the processor's. The promise is of the latter; how it is where all numbers stay in the
/// processor's caches is told too.
fn speed() -> Told<bool> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(2);
    let mut all = true;
    for threads in 1..=threads {
        let device = told(Context::new(CpuBackend::builder().threads(threads)))?.device();
        all &= device.scoped(|| speed_on(threads))?;
    }
    Ok(all)
}
fn speed_on(threads: usize) -> Told<bool> {
    let mut random = Random::new(9);
    let mut drawn = |shape: [usize; 4]| {
        let n: usize = shape.iter().product();
        Tensor::from_vec((0..n).map(|_| (random.unit() * 4.0 - 2.0) as f32).collect(), shape)
    };
    let mut all = true;
    for layers in [1usize, 12] {
        let q = drawn([1, HEADS, 1, FEATURES]);
        let floats: Vec<[Tensor; 2]> = (0..layers).map(|_| [(); 2].map(|()| drawn([1, HEADS, POSITIONS, FEATURES]))).collect();
        let coded = |storage: CacheStorage| -> Told<Vec<[TokenCodes; 2]>> {
            let packing = storage.packing().ok_or("no codes")?;
            let one = |x: &Tensor| -> Told<TokenCodes> {
                let codes = told(TokenCodes::round(x, packing))?;
                codes.parts().try_for_each(|t| told(t.materialize()))?;
                Ok(codes)
            };
            floats.iter().map(|[k, v]| Ok([one(k)?, one(v)?])).collect()
        };
        let (int8, int4) = (coded(CacheStorage::Int8)?, coded(CacheStorage::Int4)?);
        // Each layer takes the next of its caches; calls are one attention each.
        let next = || Cell::new(0usize);
        let places = [next(), next(), next()];
        let turn = |k: usize| {
            let at = places[k].get();
            places[k].set((at + 1) % layers);
            at
        };
        let of_codes = |k: usize, caches: &[[TokenCodes; 2]]| {
            let [keys, values] = &caches[turn(k)];
            quantized_attention(&q, keys, values, &QuantizedAttentionOptions { is_causal: true, ..Default::default() }).ok()
        };
        let seconds = interleaved(
            if layers == 1 { 600 } else { 1200 },
            [
                &mut || {
                    let [k, v] = &floats[turn(0)];
                    scaled_dot_product_attention(&q, k, v, &AttentionOptions::default()).ok()
                },
                &mut || of_codes(1, &int8),
                &mut || of_codes(2, &int4),
            ],
        );
        let seconds = told(seconds)?;
        for (at, (storage, _, _, most)) in PROMISES.into_iter().enumerate() {
            let ratio = seconds[at + 1] / seconds[0];
            let most = most.filter(|_| layers > 1);
            let passed = most.is_none_or(|most| ratio <= most);
            all &= passed;
            println!(
                "{} {}, one query over {POSITIONS} tokens, {HEADS} heads of {FEATURES}, {}, {threads} threads: {ratio:.3} of f32's time{} ({:.0} and {:.0} µs)",
                match (most, passed) {
                    (None, _) => "told",
                    (_, true) => "passed",
                    _ => "failed",
                },
                storage.name(),
                if layers == 1 { "the cache of one layer" } else { "the caches of twelve layers in turn" },
                most.map_or(String::new(), |most| format!(" (at most {most})")),
                seconds[at + 1] * 1e6,
                seconds[0] * 1e6
            );
        }
    }
    Ok(all)
}

const CHARGPT: JudgedExample = JudgedExample { name: "chargpt", text: include_str!("../../../examples/chargpt/chargpt.toml"), data: Some("tinyshakespeare") };
/// A model that answers through a cache, its tokens in pieces of so many.
struct ThroughCache<'a> {
    model: &'a Sequential,
    storage: CacheStorage,
    piece: usize,
}
impl Walk for ThroughCache<'_> {
    fn walk(&self, walker: &mut Walker<'_>) {
        self.model.walk(walker);
    }
    fn duplicate(&self, _: &mut Copies) -> adamant::Result<Self> {
        Ok(ThroughCache { ..*self })
    }
}
impl Module for ThroughCache<'_> {
    fn forward(&self, x: &Tensor) -> adamant::Result<Tensor> {
        let [_, time] = x.dims()?;
        let mut cache = KeyValueCache::with(self.storage);
        let pieces: Vec<Tensor> =
            (0..time).step_by(self.piece).map(|at| cache.forward(self.model, &x.narrow(1, at, self.piece.min(time - at)))).collect::<adamant::Result<_>>()?;
        Tensor::cat(&pieces, 1).ok()
    }
}
/// The folder of chargpt's run, which is trained where there is none.
fn trained(options: &CacheOptions, data: &Path, seed: u64) -> Result<PathBuf, Failure> {
    let Some(iterations) = options.iterations else { return CHARGPT.trained(data, seed, &options.runs) };
    let run = options.runs.join(format!("chargpt-{seed}-{iterations}"));
    if !run.join("weights.safetensors").exists() {
        let mut document = CHARGPT.document(seed)?;
        document.set(&format!("iterations={iterations}"))?;
        println!("chargpt, seed {seed}, {iterations} steps: training");
        Run::new(&document).data(data).folder(&run).train(&mut SilentWatch)?;
    }
    Ok(run)
}
fn judge(options: &CacheOptions, data: &Path, seed: u64) -> Result<bool, Failure> {
    let run = trained(options, data, seed)?;
    let trained = Trained::open(&run)?;
    let (objective, parts) = trained.data(data)?;
    let device = Device::current()?;
    let judged = |model: &dyn Module| -> Result<f64, Failure> {
        let options = EvaluateOptions { region: trained.region.clone(), ..parts.evaluation() };
        Ok(evaluate(model, &objective, &parts.test, device, &options)?.loss)
    };
    let plain = judged(&trained.model)?;
    let through = |storage, piece| judged(&ThroughCache { model: &trained.model, storage, piece });
    let floats = through(CacheStorage::Float, 16)?;
    let mut all = (floats - plain).abs() <= 1e-5;
    println!("{} chargpt seed {seed}: {plain:.5} nats without a cache, {floats:.5} through one of floats", if all { "passed" } else { "failed" });
    for (storage, _, most, _) in PROMISES {
        let (at_once, one_by_one) = (through(storage, 64)?, through(storage, 1)?);
        let lost = one_by_one - plain;
        let passed = lost <= most && (at_once - one_by_one).abs() <= 1e-6;
        all &= passed;
        println!(
            "{} chargpt seed {seed}, {}: {lost:+.5} nats (at most {most}), {one_by_one:.5} token by token, {at_once:.5} a window at once",
            if passed { "passed" } else { "failed" },
            storage.name()
        );
    }
    Ok(all)
}
