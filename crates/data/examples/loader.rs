//! What the loader promises, measured: bad records named, order exact and no hang at 100,000 records with faults; the time
//! of a step against the longer of loading and computing; memory while a mapped file larger than it goes through.
//!
//! `cargo run --release -p adamant-data --example loader [-- GIGABYTES_OF_THE_MAPPED_FILE]` prints one JSON object; its
//! `pass` is whether all figures hold, and so is the exit code. Loading and computing are waits here, so that the figures
//! depend on the loader and not on how many cores are free.
use adamant_core::{DType, Device, Result};
use adamant_data::{BadRecord, Cause, DataLoader, Dataset, MmapRecords, Permutation, Place, Policy, Rows, Scale};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs::File,
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

type Any<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const RECORDS: usize = 100_000;
const RECORD_BYTES: usize = 64;
const HEADER: u64 = 16;
const SEED: u64 = 11;
const BATCH: usize = 64;
/// Records that make the decoder panic, and one at which it never returns.
const PANIC: [usize; 3] = [77, 50_001, 99_999];
const HANG: usize = 31_337;

/// One in a hundred, from the index.
fn is_corrupt(index: usize) -> bool {
    index % 100 == 42
}
/// Records of a file: the index, then bytes that follow from it; a checksum at the end.
struct Records {
    path: PathBuf,
    file: File,
}
impl Records {
    fn create(path: &Path) -> Any<Records> {
        let mut out = std::io::BufWriter::new(File::create(path)?);
        out.write_all(&[0; HEADER as usize])?;
        for index in 0..RECORDS {
            let mut record = [index as u8; RECORD_BYTES];
            record[..8].copy_from_slice(&(index as u64).to_le_bytes());
            record[RECORD_BYTES - 1] = sum(&record) ^ u8::from(is_corrupt(index));
            out.write_all(&record)?;
        }
        out.flush()?;
        Ok(Records { path: path.into(), file: File::open(path)? })
    }
}
fn sum(record: &[u8; RECORD_BYTES]) -> u8 {
    record[..RECORD_BYTES - 1].iter().fold(0, |sum, b| sum.wrapping_mul(31).wrapping_add(*b))
}
impl Dataset for Records {
    type Record = usize;
    type Batch = Vec<usize>;
    fn len(&self) -> usize {
        RECORDS
    }
    #[allow(clippy::panic)]
    fn read(&self, index: usize) -> std::result::Result<usize, BadRecord> {
        let mut record = [0; RECORD_BYTES];
        let place = self.locate(index);
        if let Err(e) = self.file.read_exact_at(&mut record, place.offset) {
            return Err(BadRecord::new(place, e.to_string()));
        }
        if record[RECORD_BYTES - 1] != sum(&record) {
            return Err(BadRecord::new(place, "its checksum is wrong"));
        }
        match u64::from_le_bytes(std::array::from_fn(|k| record[k])) as usize {
            HANG => loop {
                thread::park();
            },
            index if PANIC.contains(&index) => panic!("a decoder that falls over"),
            index => Ok(index),
        }
    }
    fn collate(&self, records: Vec<usize>) -> Result<Vec<usize>> {
        Ok(records)
    }
    fn locate(&self, index: usize) -> Place {
        Place { file: self.path.clone(), index, offset: HEADER + (index * RECORD_BYTES) as u64 }
    }
}
/// Two epochs of 100,000 records with faults.
fn faults(folder: &Path) -> Any<Value> {
    let set = Arc::new(Records::create(&folder.join("records.bin"))?);
    let quarantine = folder.join("bad.jsonl");
    let policy = Policy::Quarantine { file: quarantine.clone(), at_most: 2000 };
    let mut loader = DataLoader::new(set.clone()).batch_size(BATCH).shuffle(SEED).workers(2).on_bad_record(policy).timeout(Duration::from_secs(3)).build()?;
    let planted: BTreeSet<usize> = (0..RECORDS).filter(|i| is_corrupt(*i)).chain(PANIC).chain([HANG]).collect();
    let (begun, mut exact, mut named) = (Instant::now(), true, true);
    let mut causes = [0; 3];
    for epoch in 0..2 {
        let order: Vec<usize> = Permutation::new(RECORDS as u64, SEED, epoch).iter().map(|i| i as usize).collect();
        let mut expected = order.chunks(BATCH).map(|b| b.iter().copied().filter(|i| !planted.contains(i)).collect::<Vec<_>>());
        for batch in loader.epoch() {
            exact &= expected.next() == Some(batch?);
        }
        exact &= expected.next().is_none();
        let met = loader.take_bad_records();
        let names: BTreeSet<usize> = met.iter().map(|r| r.place.index).collect();
        named &= names == planted && met.len() == planted.len() && met.iter().all(|r| r.place == set.locate(r.place.index));
        for record in &met {
            causes[record.cause as usize] += usize::from(epoch == 0);
        }
    }
    let lines = std::fs::read_to_string(&quarantine)?;
    let listed = lines.lines().map(serde_json::from_str::<BadRecord>).collect::<std::result::Result<Vec<_>, _>>()?;
    let seconds = begun.elapsed().as_secs_f64();
    let indices: BTreeSet<usize> = listed.iter().map(|r| r.place.index).collect();
    let all_listed = indices == planted && listed.len() == planted.len();
    let [invalid, panicked, timed_out] = [Cause::Invalid, Cause::Panicked, Cause::TimedOut].map(|c| causes[c as usize]);
    Ok(json!({
        "records": RECORDS, "bad": planted.len(), "invalid": invalid, "panicked": panicked, "timed_out": timed_out,
        "every_one_named": named, "listed_once_in_the_quarantine": all_listed, "order_exact": exact, "seconds_of_two_epochs": seconds,
        "pass": named && exact && all_listed && (invalid, panicked, timed_out) == (1000, 3, 1),
    }))
}

/// Batches whose loading is a wait, which adds up what it really took.
struct Slow {
    batches: usize,
    wait: Duration,
    waited: AtomicU64,
}
impl Dataset for Slow {
    type Record = usize;
    type Batch = usize;
    fn len(&self) -> usize {
        self.batches
    }
    fn read(&self, index: usize) -> std::result::Result<usize, BadRecord> {
        let begun = Instant::now();
        thread::sleep(self.wait);
        self.waited.fetch_add(begun.elapsed().as_nanos() as u64, Relaxed);
        Ok(index)
    }
    fn collate(&self, records: Vec<usize>) -> Result<usize> {
        Ok(records.len())
    }
}
/// Milliseconds of a step, and of the longer of (loading / workers, computing), as they were in the same run.
fn step(load_ms: u64, compute_ms: u64, workers: usize) -> Any<(f64, f64)> {
    let batches = 150;
    let set = Arc::new(Slow { batches, wait: Duration::from_millis(load_ms), waited: AtomicU64::new(0) });
    let mut loader = DataLoader::new(set.clone()).workers(workers).build()?;
    let mut computed = Duration::ZERO;
    let mut begun = Instant::now();
    while let Some(batch) = loader.next_batch() {
        batch?;
        if loader.state().batch == 1 {
            // The first batch has nothing to overlap with.
            begun = Instant::now();
        }
        let start = Instant::now();
        thread::sleep(Duration::from_millis(compute_ms));
        computed += start.elapsed();
    }
    let step = begun.elapsed().as_secs_f64() / (batches - 1) as f64;
    let load = set.waited.load(Relaxed) as f64 * 1e-9 / batches as f64 / workers as f64;
    let compute = computed.as_secs_f64() / batches as f64;
    Ok((step * 1e3, load.max(compute) * 1e3))
}
fn overlap() -> Any<Value> {
    let mut rows = Vec::new();
    let mut pass = true;
    for (load, compute) in [(40, 10), (30, 14), (24, 20), (16, 20), (4, 20)] {
        let (step, longer) = step(load, compute, 2)?;
        let ratio = step / longer;
        pass &= (0.95..=1.05).contains(&ratio);
        rows.push(json!({"load_ms_of_a_batch": load, "compute_ms": compute, "workers": 2, "step_ms": step, "longer_ms": longer, "ratio": ratio}));
    }
    Ok(json!({"steps": rows, "pass": pass}))
}
fn speedup() -> Any<Value> {
    let (one, _) = step(8, 0, 1)?;
    let (four, _) = step(8, 0, 4)?;
    Ok(json!({"step_ms_of_1_worker": one, "of_4": four, "ratio": one / four, "pass": one / four >= 1.5}))
}

/// Bytes of memory that are resident, from the system.
fn resident() -> Any<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? * 1024)
}
fn mapped(folder: &Path, gigabytes: u64) -> Any<Value> {
    let path = folder.join("sparse.bin");
    let record = 1 << 20;
    File::create(&path)?.set_len(gigabytes << 30)?;
    let set = Arc::new(MmapRecords::raw(&path, 0, DType::U8, [record])?);
    let (before, mut most, mut bytes) = (resident()?, 0, 0u64);
    let begun = Instant::now();
    for loader in [DataLoader::new(set.clone()), DataLoader::new(set.clone()).shuffle(SEED)] {
        let mut loader = loader.batch_size(4).workers(2).build()?;
        let half = loader.batches() / 2;
        while let Some(batch) = loader.next_batch() {
            bytes += (batch?.shape()?.elements()) as u64;
            most = most.max(resident()?.saturating_sub(before));
            if loader.state().batch == half && loader.state().order != adamant_data::Order::Sequential {
                break;
            }
        }
    }
    let mib = most >> 20;
    Ok(
        json!({"file_gib": gigabytes, "read_gib": bytes as f64 / (1u64 << 30) as f64, "growth_mib": mib, "seconds": begun.elapsed().as_secs_f64(), "pass": mib <= 300}),
    )
}
fn throughput() -> Any<Value> {
    let set = Arc::new(Rows::new(vec![7u8; 20_000 * 784], [20_000, 1, 28, 28])?.scaled(Scale { divide: 255.0, ..Scale::default() })?);
    let mut loader = DataLoader::high_throughput(set).build()?;
    let (begun, mut samples) = (Instant::now(), 0);
    for _ in 0..5 {
        for batch in loader.epoch() {
            samples += batch?.shape()?[0];
        }
    }
    let rate = samples as f64 / begun.elapsed().as_secs_f64();
    Ok(json!({"samples_per_second": rate, "pass": rate >= 10_000.0}))
}

fn run() -> Any<bool> {
    Device::reference().make_current();
    // Three decoders panic on purpose: their backtraces are no news.
    std::panic::set_hook(Box::new(|_| {}));
    let gigabytes = std::env::args().nth(1).map_or(Ok(4), |a| a.parse())?;
    let folder = tempfile::tempdir()?;
    let mut report = json!({
        "faults": faults(folder.path())?,
        "overlap": overlap()?,
        "four_workers": speedup()?,
        "mapped": mapped(folder.path(), gigabytes)?,
        "high_throughput": throughput()?,
    });
    let pass = report.as_object().is_some_and(|r| r.values().all(|v| v["pass"] == true));
    report["pass"] = pass.into();
    println!("{report:#}");
    Ok(pass)
}
fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("loader: {e}");
            ExitCode::from(2)
        }
    }
}
