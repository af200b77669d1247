//! What the Rust runners share: the protocol of `bench serve`, the inputs, and the clock.
//!
//! A runner gives [`serve`] a list of [`Entry`]. Its builder makes the inputs and returns a [`Ready`]: the call that is
//! timed, and where there is one to compare, a function that gives the output of such a call. Inputs are the numbers that
//! all runners use.
#![forbid(unsafe_code)]
use serde_json::{Value, json};
use std::{
    error::Error,
    fs,
    io::{BufRead, Write},
    time::Instant,
};

/// What may fail.
pub type Fallible<T> = Result<T, Box<dyn Error>>;
/// One call of what is timed.
pub type Call = Box<dyn FnMut() -> Fallible<()>>;

/// A workload whose inputs are in memory.
pub struct Ready {
    /// what is timed
    pub call: Call,
    /// the output of one call
    pub output: Option<Box<dyn FnMut() -> Fallible<Vec<f32>>>>,
}
impl Ready {
    /// A call that shows nothing.
    pub fn new(call: impl FnMut() -> Fallible<()> + 'static) -> Ready {
        Ready { call: Box::new(call), output: None }
    }
    /// Its output too.
    pub fn shown(self, output: impl FnMut() -> Fallible<Vec<f32>> + 'static) -> Ready {
        Ready { output: Some(Box::new(output)), ..self }
    }
}
/// A workload under its name.
pub struct Entry {
    /// the name
    pub name: String,
    build: Box<dyn Fn() -> Fallible<Ready>>,
}
/// A workload under its name.
pub fn entry(name: impl Into<String>, build: impl Fn() -> Fallible<Ready> + 'static) -> Entry {
    Entry { name: name.into(), build: Box::new(build) }
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), uniform in [-1, 1).
pub fn uniform(n: usize, seed: u64) -> Vec<f32> {
    let word = |k: u64| {
        let z = seed.wrapping_add(k.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    };
    (1..=n as u64).map(|k| (word(k) >> 40) as f32 / (1u64 << 23) as f32 - 1.0).collect()
}
/// Below `bound`, spread over all of it.
pub fn indices(n: usize, bound: usize) -> Vec<i64> {
    (0..n as u64).map(|i| (i * 2_654_435_761 % bound as u64) as i64).collect()
}
/// A product: the name's tail, m, n, k, and which operands are stored transposed.
pub type Product = (&'static str, [usize; 3], [bool; 2]);
/// The single products of the document.
pub const PRODUCTS: &[Product] = &[
    ("64", [64; 3], [false, false]),
    ("128", [128; 3], [false, false]),
    ("256", [256; 3], [false, false]),
    ("512", [512; 3], [false, false]),
    ("1024", [1024; 3], [false, false]),
    ("2048", [2048; 3], [false, false]),
    ("4096", [4096; 3], [false, false]),
    ("m1_n768_k3072_nn", [1, 768, 3072], [false, false]),
    ("m1_n768_k3072_nt", [1, 768, 3072], [false, true]),
    ("m64_n768_k768_nn", [64, 768, 768], [false, false]),
    ("m64_n768_k768_nt", [64, 768, 768], [false, true]),
    ("m1024_n2304_k768_nn", [1024, 2304, 768], [false, false]),
    ("m1024_n2304_k768_nt", [1024, 2304, 768], [false, true]),
    ("m1024_n3072_k768_nn", [1024, 3072, 768], [false, false]),
    ("m1024_n3072_k768_nt", [1024, 3072, 768], [false, true]),
    ("m1024_n3072_k768_tn", [1024, 3072, 768], [true, false]),
];
/// The convolutions: channels in and out, height = width, kernel, stride, padding.
pub const CONVOLUTIONS: &[(&str, [usize; 6])] = &[
    ("conv_3x3_64_64_56", [64, 64, 56, 3, 1, 1]),
    ("conv_3x3_256_256_14", [256, 256, 14, 3, 1, 1]),
    ("conv_1x1_256_64_56", [256, 64, 56, 1, 1, 0]),
    ("conv_7x7_3_64_224", [3, 64, 224, 7, 2, 3]),
];

/// Answers until the input ends.
///
/// # Errors
/// The pipes are gone.
pub fn serve(implementation: &str, version: &str, entries: &[Entry]) -> Fallible<()> {
    // Who measures may be killed while this program is stopped, and nobody would wake it to see its input end.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let mut out = std::io::stdout().lock();
    let mut say = |document: Value| -> Fallible<()> {
        writeln!(out, "{document}")?;
        Ok(out.flush()?)
    };
    say(json!({ "protocol": 1, "impl": implementation, "version": version }))?;
    let mut ready = None;
    for line in std::io::stdin().lock().lines() {
        let said = serde_json::from_str(&line?).map_err(Into::into).and_then(|ask| answer(entries, &mut ready, &ask));
        say(said.unwrap_or_else(|e| json!({ "error": e.to_string() })))?;
    }
    Ok(())
}
fn answer(entries: &[Entry], ready: &mut Option<Ready>, ask: &Value) -> Fallible<Value> {
    let calls = ask["calls"].as_u64().unwrap_or(1).max(1);
    match ask["do"].as_str().unwrap_or_default() {
        "list" => return Ok(json!({ "workloads": entries.iter().map(|e| &e.name).collect::<Vec<_>>() })),
        "finish" => {
            *ready = None;
            return Ok(json!({}));
        }
        "prepare" => {
            *ready = None;
            let wanted = entries.iter().find(|e| ask["workload"] == e.name.as_str() && ask["small"] != true);
            let Some(entry) = wanted else { return Ok(json!({ "error": format!("there is no workload {}", ask["workload"]), "unsupported": true })) };
            *ready = Some((entry.build)()?);
            return Ok(json!({}));
        }
        _ => {}
    }
    let prepared = ready.as_mut().ok_or("nothing is prepared")?;
    match ask["do"].as_str().unwrap_or_default() {
        "warm" => {
            (prepared.call)()?;
            let (start, mut done) = (Instant::now(), 0u64);
            while done < 2 || start.elapsed().as_secs_f64() < ask["seconds"].as_f64().unwrap_or(0.1) {
                (prepared.call)()?;
                done += 1;
            }
            Ok(json!({ "ns": start.elapsed().as_secs_f64() * 1e9 / done as f64 }))
        }
        "sample" => {
            let (queued_before, start) = (queued(), Instant::now());
            for _ in 0..calls {
                (prepared.call)()?;
            }
            let ns = start.elapsed().as_secs_f64() * 1e9;
            Ok(json!({ "ns": ns / calls as f64, "waited": (queued() - queued_before) / ns.max(1.0) }))
        }
        "memory" => {
            let forgotten = fs::write("/proc/self/clear_refs", "5").is_ok();
            let before = status("VmRSS:");
            for _ in 0..calls {
                (prepared.call)()?;
            }
            let grown = before.zip(status("VmHWM:")).map(|(before, peak)| peak.saturating_sub(before)).filter(|_| forgotten);
            Ok(json!({ "growth": grown }))
        }
        "values" => {
            let values = prepared.output.as_mut().ok_or("it shows no output")?()?;
            let places = ask["places"].as_array().ok_or("no places")?.iter().filter_map(Value::as_u64);
            let picked: Vec<f64> = places.map(|p| values[(p % values.len().max(1) as u64) as usize] as f64).collect();
            Ok(json!({ "values": picked }))
        }
        other => Err(format!("not understood: {other}").into()),
    }
}
/// Nanoseconds for which threads of this process waited for a core so far; 0 where the system does not tell.
fn queued() -> f64 {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return 0.0 };
    let of = |path: std::path::PathBuf| fs::read_to_string(path.join("schedstat")).ok()?.split_whitespace().nth(1)?.parse::<f64>().ok();
    threads.flatten().filter_map(|thread| of(thread.path())).sum()
}
fn status(field: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    text.lines().find_map(|l| l.strip_prefix(field)?.split_whitespace().next()?.parse::<u64>().ok()).map(|k| k << 10)
}
