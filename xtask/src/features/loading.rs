//! Rows about reading data: what is in memory, how far ahead, in which order, and how fast.
use super::{CheckCost, Checked, Lacking, RowCheck, Seen, plant, planted, row::Plant};
use adamant::{
    DType, Tensor,
    data::{BadRecord, DataLoader, Dataset, ImageFolder, ImageOptions, Labelled, MmapRecords, Place, Policy, Rows, examples},
    memory::process_memory,
    nn::{Linear, Module, Relu, Sequential, Walk},
    optim::{Adam, Optimizer, UpdateRule},
};
use futures_core::Stream;
use std::{
    collections::HashSet,
    error::Error,
    fs,
    fs::File,
    hint::black_box,
    path::Path,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicIsize, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::ThreadId,
    time::{Duration, Instant},
};

pub const ROWS: &[RowCheck] = &[
    RowCheck { id: "S1.08", target: "an epoch over a 20 GB file: at most 300 MB resident", cost: CheckCost::Cheap, check: mapped, plants: &[] },
    RowCheck { id: "S1.09", target: "never more than prefetch + 1 batches alive", cost: CheckCost::Cheap, check: streamed, plants: &[] },
    RowCheck { id: "S1.10", target: "8 workers: the data are in memory once", cost: CheckCost::Cheap, check: shared, plants: &[] },
    RowCheck { id: "S1.37", target: PREFETCH, cost: CheckCost::Clocked, check: prefetch, plants: AHEAD },
    RowCheck { id: "S3.13", target: WORKERS, cost: CheckCost::Clocked, check: workers, plants: DECODERS },
    RowCheck { id: "S4.17", target: WORKERS, cost: CheckCost::Clocked, check: workers, plants: DECODERS },
    RowCheck { id: "S4.19", target: WORKERS, cost: CheckCost::Clocked, check: workers, plants: DECODERS },
    RowCheck { id: "S4.20", target: PREFETCH, cost: CheckCost::Clocked, check: prefetch, plants: AHEAD },
    RowCheck {
        id: "S4.21",
        target: "the same batches from a Stream as without one; pending, not blocked, while they are made",
        cost: CheckCost::Cheap,
        check: asynchronous,
        plants: &[],
    },
    RowCheck {
        id: "S3.27",
        target: "at least 10,000 samples/s in batches of 1,024 with 8 workers, without shuffling, in deterministic order",
        cost: CheckCost::Clocked,
        check: throughput,
        plants: &[plant("records in another order", "the order"), plant("a tenth of the rate", "10,000 samples/s")],
    },
];

const WORKERS: &str = "decode-heavy data (PNG and JPEG): one order and one content for any number of workers; 4 workers at least 1.5 times as fast; their threads live across epochs";
const DECODERS: &[Plant] = &[
    plant("one worker instead of four", "faster"),
    plant("an order that depends on the workers", "one order"),
    plant("a loader of its own for each epoch", "the same threads"),
    plant("a picture that another record gets", "one content"),
];
const PREFETCH: &str = "step time is max(load, compute) within 5 %; at most prefetch_factor batches alive, counted for each worker, and the one in use; a worker's panic is an error";
const AHEAD: &[Plant] = &[plant("a loader that reads twice as far ahead", "bounded"), plant("loading that waits for computing", "overlap")];

/// Records that take some time to read, and are counted while they live.
struct Slow {
    len: usize,
    wait: Duration,
    alive: Arc<AtomicIsize>,
    most: Arc<AtomicIsize>,
    threads: Arc<Mutex<HashSet<ThreadId>>>,
    panics: Option<usize>,
}
struct Counted(Vec<usize>, Arc<AtomicIsize>);
impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}
impl Slow {
    fn new(len: usize, wait: Duration) -> Slow {
        Slow { len, wait, alive: Arc::default(), most: Arc::default(), threads: Arc::default(), panics: None }
    }
}
impl Dataset for Slow {
    type Record = usize;
    type Batch = Counted;
    fn len(&self) -> usize {
        self.len
    }
    fn read(&self, index: usize) -> Result<usize, BadRecord> {
        if let Ok(mut threads) = self.threads.lock() {
            threads.insert(std::thread::current().id());
        }
        std::thread::sleep(self.wait);
        if self.panics == Some(index) {
            std::panic::resume_unwind(Box::new("planted"));
        }
        Ok(index)
    }
    fn collate(&self, records: Vec<usize>) -> adamant::Result<Counted> {
        let now = self.alive.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Ok(Counted(records, self.alive.clone()))
    }
    fn locate(&self, index: usize) -> Place {
        Place { file: "slow".into(), index, offset: index as u64 }
    }
}

fn mapped() -> Checked {
    const RECORD: usize = 1 << 20;
    const RECORDS: u64 = 20_000;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("large.bin");
    // Holes take no disk; reading them takes pages all the same.
    File::create(&path)?.set_len(RECORDS * RECORD as u64)?;
    let set = Arc::new(MmapRecords::raw(&path, 0, DType::U8, [RECORD])?);
    let before = process_memory().map_err(|e| e.to_string())?.resident;
    let (mut most, mut seen) = (0, 0usize);
    for batch in DataLoader::new(set).batch_size(16).workers(1).build()?.epoch() {
        seen += black_box(batch?).shape()?[0];
        if seen.is_multiple_of(400) {
            most = most.max(process_memory().map_err(|e| e.to_string())?.resident);
        }
    }
    let grown = most.saturating_sub(before) as f64 / 1e6;
    Ok(Seen::new(grown <= 300.0 && seen as u64 == RECORDS, format!("{seen} records of 1 MiB read, {grown:.0} MB more resident at most")))
}
fn streamed() -> Checked {
    let set = Arc::new(Slow::new(400, Duration::ZERO));
    let mut loader = DataLoader::new(set.clone()).batch_size(4).workers(1).prefetch_factor(3).build()?;
    let mut batches = 0;
    for batch in loader.stream_batches() {
        std::thread::sleep(Duration::from_micros(300));
        batches += usize::from(!batch?.0.is_empty());
    }
    let most = set.most.load(Ordering::SeqCst);
    Ok(Seen::new(most <= 4 && batches == 100, format!("{batches} batches, at most {most} alive with 3 read ahead")))
}
fn shared() -> Checked {
    const BYTES: usize = 200 << 20;
    let rows = Rows::new(vec![1u8; BYTES], [BYTES / 1024, 1024])?;
    let labels = Rows::classes(vec![0; BYTES / 1024], 2)?;
    let set = examples(Labelled::new(rows, labels)?);
    let before = process_memory().map_err(|e| e.to_string())?.resident;
    let mut loader = DataLoader::new(set).batch_size(64).workers(8).build()?;
    let mut most = 0;
    for batch in loader.epoch() {
        black_box(batch?);
        most = most.max(process_memory().map_err(|e| e.to_string())?.resident);
    }
    let more = most.saturating_sub(before) as f64 / 1e6;
    Ok(Seen::new(more < 100.0, format!("200 MiB of data read by 8 workers with {more:.0} MB more")))
}
/// Seconds of an epoch with so much loading and computing for each batch.
fn epoch(workers: usize, load: Duration, compute: Duration) -> Result<f64, Box<dyn Error>> {
    let mut loader = DataLoader::new(Arc::new(Slow::new(160, load / 4))).batch_size(4).workers(workers).build()?;
    // The first epoch starts the threads.
    loader.epoch().next().transpose()?;
    loader.start_epoch(1);
    let begun = Instant::now();
    for batch in loader.epoch() {
        black_box(batch?.0.len());
        std::thread::sleep(compute);
    }
    Ok(begun.elapsed().as_secs_f64())
}
/// Seconds of the same loading and computing, done side by side without a loader.
fn asleep(load: Duration, compute: Duration) -> f64 {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for (times, each) in [(80, load / 4), (80, load / 4), (40, compute)] {
            scope.spawn(move || (0..times).for_each(|_| std::thread::sleep(each)));
        }
    });
    begun.elapsed().as_secs_f64()
}
/// How far a step may be from the longer of loading and computing.
const OVERLAP: f64 = 0.05;
fn prefetch() -> Checked {
    let ms = Duration::from_millis;
    let mut parts = Vec::new();
    let mut good = true;
    // Two workers load two batches at once: a batch is ready every load / 2.
    for (load, compute) in [(ms(16), ms(20)), (ms(60), ms(10))] {
        let late = if planted("loading that waits for computing") { load / 2 } else { Duration::ZERO };
        let (mut ours, mut bare, mut rounds) = (f64::INFINITY, f64::INFINITY, 0);
        // How late a busy machine wakes who sleeps is the same for both.
        while rounds < 1 || (rounds < 6 && (ours / bare - 1.0).abs() > OVERLAP) {
            (ours, bare) = (ours.min(epoch(2, load, compute + late)?), bare.min(asleep(load, compute)));
            rounds += 1;
        }
        let off = ours / bare - 1.0;
        good &= off.abs() <= OVERLAP;
        let step = |seconds: f64| seconds * 1e3 / 40.0;
        parts.push(format!("{:.1} ms a step, {:.1} for the longer of both alone ({:+.1} %, {rounds} rounds)", step(ours), step(bare), off * 100.0));
    }
    // A consumer that is slower than the loader lets it read as far ahead as it may.
    let ahead = if planted("a loader that reads twice as far ahead") { 4 } else { 2 };
    let full = Arc::new(Slow::new(120, Duration::ZERO));
    for batch in DataLoader::new(full.clone()).batch_size(4).workers(2).prefetch_factor(ahead).build()?.epoch() {
        black_box(batch?.0.len());
        std::thread::sleep(ms(2));
    }
    let alive = full.most.load(Ordering::SeqCst);
    let set = Arc::new(Slow { panics: Some(7), ..Slow::new(40, Duration::ZERO) });
    let mut loader = DataLoader::new(set.clone()).batch_size(4).workers(2).prefetch_factor(2).build()?;
    let error = loader.epoch().find_map(Result::err).ok_or("the panic was lost")?.to_string();
    let mut skipping = DataLoader::new(set).batch_size(4).workers(2).on_bad_record(Policy::Skip { at_most: 1 }).build()?;
    let left: usize = skipping.epoch().map(|b| b.map_or(0, |b| b.0.len())).sum();
    Ok(Seen::all(
        &[
            ("overlap", good),
            ("bounded", (2..=5).contains(&alive)),
            ("a panic is an error that names the record", error.contains("record 7")),
            ("or is passed over", left == 39),
        ],
        format!("{}; at most {alive} batches alive with 2 workers and prefetch_factor 2", parts.join(", ")),
    ))
}
/// Pictures that are decoded when they are read, and the threads that read them.
struct Pictures {
    inner: ImageFolder,
    threads: Mutex<HashSet<ThreadId>>,
}
impl Dataset for Pictures {
    type Record = <ImageFolder as Dataset>::Record;
    type Batch = <ImageFolder as Dataset>::Batch;
    fn len(&self) -> usize {
        self.inner.len()
    }
    fn read(&self, index: usize) -> Result<Self::Record, BadRecord> {
        if let Ok(mut threads) = self.threads.lock() {
            threads.insert(std::thread::current().id());
        }
        self.inner.read(index)
    }
    fn collate(&self, records: Vec<Self::Record>) -> adamant::Result<Self::Batch> {
        self.inner.collate(records)
    }
    fn locate(&self, index: usize) -> Place {
        self.inner.locate(index)
    }
}
/// 48 pictures of noise, half of them PNG and half JPEG: nothing in them is cheap to decode.
fn pictures(folder: &Path) -> Result<Arc<Pictures>, Box<dyn Error>> {
    const SIDE: u16 = 320;
    for class in ["a", "b"] {
        fs::create_dir_all(folder.join(class))?;
        for k in 0..24u32 {
            let noise = |x: u32, y: u32| (x * 7919 + y * 104_729 + k * 15_485_863).wrapping_mul(2_654_435_761).to_be_bytes();
            let side = u32::from(SIDE);
            let pixel = |at: u32| [noise(at % side, at / side)[0], noise(at / side, at % side)[1], noise(at % side + k, at / side)[2]];
            let bytes: Vec<u8> = (0..side * side).flat_map(pixel).collect();
            let name = format!("{k:02}.{}", if k % 2 == 0 { "png" } else { "jpg" });
            crate::pictures::write(&folder.join(class).join(name), SIDE, SIDE, &bytes)?;
        }
    }
    Ok(Arc::new(Pictures { inner: ImageFolder::open(folder, ImageOptions::default())?, threads: Mutex::default() }))
}
/// Epochs with workers, and as many without.
const ROUNDS: usize = 24;
fn workers() -> Checked {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let folder = tempfile::tempdir()?;
    let set = pictures(folder.path())?;
    // The classes in their order, and a sum of each batch's bits.
    let content = |workers: usize| -> Result<(Vec<i64>, Vec<u64>), Box<dyn Error>> {
        let seed = if planted("an order that depends on the workers") { workers as u64 } else { 5 };
        let (mut order, mut sums) = (Vec::new(), Vec::new());
        for batch in DataLoader::new(set.clone()).batch_size(7).shuffle(seed).workers(workers).build()?.epoch() {
            let (x, y) = batch?;
            order.extend(y.to_vec::<i64>()?);
            let other = planted("a picture that another record gets") && workers == 3;
            let place = |k: usize| if other { k ^ 1 } else { k } as u64;
            sums.push(x.to_vec::<f32>()?.iter().enumerate().fold(0u64, |sum, (k, v)| sum.wrapping_add(u64::from(v.to_bits()).wrapping_mul(2 * place(k) + 1))));
        }
        Ok((order, sums))
    };
    let contents = [content(0)?, content(1)?, content(3)?, content(8)?];
    let ids = || -> Result<HashSet<ThreadId>, Box<dyn Error>> { Ok(std::mem::take(&mut *set.threads.lock().map_err(|e| e.to_string())?)) };
    let make = |workers: usize| DataLoader::new(set.clone()).batch_size(4).workers(workers).build();
    let seconds = |loader: &mut DataLoader<Pictures>| -> Result<f64, Box<dyn Error>> {
        let begun = Instant::now();
        for batch in loader.epoch() {
            black_box(batch?);
        }
        Ok(begun.elapsed().as_secs_f64())
    };
    let count = if planted("one worker instead of four") { 1 } else { 4 };
    let (mut four, mut one) = (make(count)?, make(0)?);
    let (mut fast, mut alone) = (0.0, 0.0);
    ids()?;
    let mut all = HashSet::new();
    // In turn and all together: what neighbours take in some rounds they take from both.
    for _ in 0..ROUNDS {
        if planted("a loader of its own for each epoch") {
            four = make(count)?;
        }
        fast += seconds(&mut four)?;
        all.extend(ids()?);
        alone += seconds(&mut one)?;
        ids()?;
    }
    let gain = alone / fast;
    let orders = contents.windows(2).all(|w| w[0].0 == w[1].0) && contents[0].0.len() == 48;
    let seen = Seen::all(
        &[
            ("one order", orders),
            ("one content", contents.windows(2).all(|w| w[0].1 == w[1].1)),
            ("faster", gain >= 1.5 || cores < 2),
            ("the same threads", (1..=4).contains(&all.len())),
        ],
        format!(
            "48 pictures of 320 x 320: {:.0} ms with {count} workers, {:.0} ms without, {gain:.2} times as fast on {cores} cores; {} threads over {ROUNDS} epochs",
            fast / ROUNDS as f64 * 1e3,
            alone / ROUNDS as f64 * 1e3,
            all.len()
        ),
    );
    Ok(seen.lacking((cores < 2).then(|| Lacking::new("a second core, without which workers gain nothing", "run on a machine with two cores or more"))))
}
/// Counts how often a task was told to look again.
#[derive(Default)]
struct ToldCount(AtomicUsize);
impl Wake for ToldCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
fn asynchronous() -> Checked {
    let make = |workers| DataLoader::new(Arc::new(Slow::new(120, Duration::from_micros(500)))).batch_size(7).shuffle(5).workers(workers).build();
    let mut plain = Vec::new();
    for batch in make(2)?.epoch() {
        plain.push(batch?.0.clone());
    }
    let mut same = true;
    let (mut pending, mut longest) = (0, Duration::ZERO);
    let told = Arc::new(ToldCount::default());
    let waker = Waker::from(told.clone());
    for workers in [1, 2, 4] {
        let mut loader = make(workers)?;
        let mut stream = pin!(loader.stream());
        let mut batches = Vec::new();
        loop {
            let (before, begun) = (told.0.load(Ordering::SeqCst), Instant::now());
            match stream.as_mut().poll_next(&mut Context::from_waker(&waker)) {
                Poll::Ready(Some(batch)) => batches.push(batch?.0.clone()),
                Poll::Ready(None) => break,
                Poll::Pending => {
                    pending += 1;
                    longest = longest.max(begun.elapsed());
                    // A runtime would do other work here.
                    let limit = Instant::now() + Duration::from_secs(10);
                    while told.0.load(Ordering::SeqCst) == before {
                        if Instant::now() > limit {
                            return Err("a pending stream never told its waker".into());
                        }
                        std::thread::yield_now();
                    }
                }
            }
        }
        same &= batches == plain;
    }
    Ok(Seen::all(
        &[("the same batches as without it", same && plain.len() == 18), ("pending while they are made", pending > 0)],
        format!(
            "{} batches on 1, 2 and 4 workers as the plain loader's; {pending} polls were pending, none longer than {:.2} ms",
            plain.len(),
            1e3 * longest.as_secs_f64()
        ),
    ))
}
fn throughput() -> Checked {
    const SAMPLES: usize = 20_480;
    let made = AtomicUsize::new(0);
    let values: Vec<f32> = (0..SAMPLES * 64).map(|k| (k % 251) as f32 / 251.0).collect();
    let set = Arc::new(Labelled::new(Rows::new(values, [SAMPLES, 64])?, Rows::classes((0..SAMPLES).map(|k| (k % 10) as i64).collect(), 10)?)?);
    let net = Sequential::new().add(Linear::new(64, 128)?).add(Relu::new()).add(Linear::new(128, 10)?);
    let mut optimizer = Adam::new(1e-3).over(net.parameters());
    let mut loader = DataLoader::high_throughput(set).build()?;
    let (mut best, mut ordered) = (0.0f64, true);
    for _ in 0..3 {
        let begun = Instant::now();
        let mut order = Vec::with_capacity(SAMPLES);
        for batch in loader.epoch() {
            let (x, y): (Tensor, Tensor) = batch?;
            order.extend(y.to_vec::<i64>()?);
            let loss = adamant::functional::cross_entropy(&net.forward(&x)?, &y, &Default::default());
            optimizer.step(&loss.backward()?)?;
            made.fetch_add(y.shape()?[0], Ordering::Relaxed);
        }
        best = best.max(SAMPLES as f64 / begun.elapsed().as_secs_f64());
        if planted("records in another order") {
            order.rotate_left(1);
        }
        ordered &= order.len() == SAMPLES && order.iter().enumerate().all(|(k, label)| *label == (k % 10) as i64);
    }
    if planted("a tenth of the rate") {
        best /= 1e3;
    }
    let all = made.into_inner() == 3 * SAMPLES;
    Ok(Seen::all(
        &[("10,000 samples/s", best >= 10_000.0), ("all samples", all), ("the order", ordered)],
        format!("{best:.0} samples/s trained, in order: {ordered}"),
    ))
}
