//! `adamant info`: what was found on this machine, what was chosen and why, what was not found and why not, and two
//! quick measurements. Each fact is gathered once and told as text and as JSON.
use adamant::{
    DType, Device, ErrorKind, Tensor,
    backend::BACKENDS,
    memory::{process_memory, system_memory},
};
use adamant_train::plot::scale::number;
use serde_json::{Map, Value, json};
use std::{fmt::Write, fs, time::Instant};

/// The backends that the facade has a feature for.
const BACKEND_NAMES: [&str; 3] = ["cpu", "cuda", "wgpu"];
/// Elements of the tensor that is copied, and rows and columns of the matrices that are multiplied.
const COPIED: usize = 16 << 20;
const MULTIPLIED: usize = 1024;
/// How often each measurement is taken; the best counts.
const REPEATS: usize = 4;

/// One fact: its key in JSON, its value there, and how it is said.
struct Fact {
    section: &'static str,
    key: &'static str,
    value: Value,
    text: String,
}
#[derive(Default)]
struct InfoFacts(Vec<Fact>);
impl InfoFacts {
    fn add(&mut self, section: &'static str, key: &'static str, value: impl Into<Value>, text: impl Into<String>) {
        self.0.push(Fact { section, key, value: value.into(), text: text.into() });
    }
    /// A fact whose text is its value.
    fn say(&mut self, section: &'static str, key: &'static str, text: impl Into<String>) {
        let text = text.into();
        self.add(section, key, text.clone(), text);
    }
}

/// Everything that can be said of this machine, as text or as one JSON document. Takes about a second: it measures
/// memory and matrix products.
pub fn info(json: bool) -> String {
    let mut facts = InfoFacts::default();
    program(&mut facts);
    cpu(&mut facts);
    memory(&mut facts);
    devices(&mut facts);
    measured(&mut facts);
    if json { as_json(&facts).to_string() } else { as_text(&facts) }
}
fn as_json(facts: &InfoFacts) -> Value {
    let mut document = Map::new();
    for fact in &facts.0 {
        if let Value::Object(section) = document.entry(fact.section).or_insert_with(|| Value::Object(Map::new())) {
            section.insert(fact.key.into(), fact.value.clone());
        }
    }
    Value::Object(document)
}
fn as_text(facts: &InfoFacts) -> String {
    let width = facts.0.iter().map(|f| f.key.len()).max().unwrap_or(0);
    let (mut out, mut section) = (String::new(), "");
    for fact in &facts.0 {
        if fact.section != section {
            section = fact.section;
            let _ = writeln!(out, "{}{section}", if out.is_empty() { "" } else { "\n" });
        }
        let _ = writeln!(out, "  {:width$}  {}", fact.key.replace('_', " "), fact.text);
    }
    out
}

fn program(facts: &mut InfoFacts) {
    facts.say("program", "version", env!("CARGO_PKG_VERSION"));
    facts.say("program", "built_for", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
    facts.say("program", "build", if cfg!(debug_assertions) { "debug: slow, with checks" } else { "release" });
    let variables: Map<String, Value> = std::env::vars().filter(|(name, _)| name.starts_with("ADAMANT_")).map(|(name, value)| (name, json!(value))).collect();
    let text = match variables.len() {
        0 => "none set".to_string(),
        _ => variables.iter().map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect::<Vec<_>>().join(" "),
    };
    facts.add("program", "variables", variables, text);
}

/// The value of the first line `key : value`.
fn field<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.split_once(':').filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim()))
}
fn cpu(facts: &mut InfoFacts) {
    let unknown = || "unknown: there is no /proc/cpuinfo".to_string();
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    facts.say("cpu", "model", field(&text, "model name").map_or_else(unknown, str::to_string));
    let logical = std::thread::available_parallelism().map_or(1, usize::from);
    let physical = physical_cores(&text);
    let told = match physical {
        Some(n) => format!("{logical} usable by this process, {n} physical in the machine"),
        None => format!("{logical} usable by this process"),
    };
    facts.add("cpu", "cores", json!({ "usable": logical, "physical": physical }), told);
    instruction_sets(facts);
    let caches = caches();
    let told = if caches.is_empty() {
        "unknown: the system does not tell".to_string()
    } else {
        caches.iter().map(|(n, s)| format!("{n} {s}")).collect::<Vec<_>>().join(", ")
    };
    facts.add("cpu", "caches", caches.into_iter().map(|(name, size)| (name, json!(size))).collect::<Map<_, _>>(), told);
}
/// Different (physical id, core id) pairs.
fn physical_cores(cpuinfo: &str) -> Option<usize> {
    let mut cores = std::collections::HashSet::new();
    for block in cpuinfo.split("\n\n") {
        if let (Some(package), Some(core)) = (field(block, "physical id"), field(block, "core id")) {
            cores.insert((package, core));
        }
    }
    (!cores.is_empty()).then_some(cores.len())
}
#[cfg(feature = "cpu")]
fn instruction_sets(facts: &mut InfoFacts) {
    use adamant::cpu::Isa;
    let word = |isa: Isa| format!("{isa:?}").to_lowercase();
    let there: Vec<String> = Isa::ALL.iter().filter(|isa| isa.is_available()).map(|&isa| word(isa)).collect();
    let lacking: Vec<String> = Isa::ALL.iter().filter(|isa| !isa.is_available()).map(|&isa| word(isa)).collect();
    let told = if lacking.is_empty() { there.join(", ") } else { format!("{}; this CPU lacks {}", there.join(", "), lacking.join(", ")) };
    facts.add("cpu", "instruction_sets", there, told);
    match (Isa::try_current(), std::env::var("ADAMANT_ISA")) {
        (Ok(isa), Ok(_)) => facts.add("cpu", "chosen_set", word(isa), format!("{}, because ADAMANT_ISA asks for it", word(isa))),
        (Ok(isa), Err(_)) => facts.add("cpu", "chosen_set", word(isa), format!("{}, the widest there is", word(isa))),
        (Err(why), _) => facts.add("cpu", "chosen_set", Value::Null, format!("none: {why}")),
    }
}
#[cfg(not(feature = "cpu"))]
fn instruction_sets(facts: &mut InfoFacts) {
    facts.add("cpu", "chosen_set", Value::Null, "none: the cpu backend is not compiled in");
}
/// Name and size of each cache of the first core.
fn caches() -> Vec<(String, String)> {
    let read = |k: usize, what: &str| fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{k}/{what}")).map(|t| t.trim().to_string());
    let mut found = Vec::new();
    for k in 0..8 {
        if let (Ok(level), Ok(kind), Ok(size)) = (read(k, "level"), read(k, "type"), read(k, "size")) {
            let letter = match &*kind {
                "Data" => "d",
                "Instruction" => "i",
                _ => "",
            };
            found.push((format!("L{level}{letter}"), size));
        }
    }
    found
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}
fn memory(facts: &mut InfoFacts) {
    match system_memory() {
        Ok(m) => {
            let told = format!("{} in all, {} available, {:.0} % in use", gigabytes(m.total), gigabytes(m.available), m.percent());
            facts.add("memory", "machine", json!({ "total": m.total, "available": m.available, "percent": m.percent() }), told);
        }
        Err(why) => facts.add("memory", "machine", Value::Null, format!("unknown: {why}")),
    }
    match process_memory() {
        Ok(m) => {
            let told = format!("{:.1} MiB resident", m.resident as f64 / f64::from(1 << 20));
            facts.add("memory", "this_process", json!({ "resident": m.resident, "peak": m.peak }), told);
        }
        Err(why) => facts.add("memory", "this_process", Value::Null, format!("unknown: {why}")),
    }
    let page = fs::read_to_string("/proc/self/smaps").ok().and_then(|t| field(&t, "KernelPageSize").map(str::to_string));
    facts.say("memory", "page_size", page.unwrap_or_else(|| "unknown: there is no /proc/self/smaps".into()));
    let huge = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok();
    // `always [madvise] never`: the one in brackets is chosen.
    let chosen = huge.as_deref().and_then(|t| t.split_once('[')?.1.split_once(']')).map(|(word, _)| word.to_string());
    facts.say("memory", "huge_pages", chosen.unwrap_or_else(|| "unknown: the system does not tell".into()));
}

fn devices(facts: &mut InfoFacts) {
    let compiled: Vec<&str> = BACKENDS.iter().map(|r| r.name).collect();
    facts.add("devices", "compiled_in", compiled.clone(), if compiled.is_empty() { "none".to_string() } else { compiled.join(", ") });
    let others = compiled.into_iter().filter(|name| !BACKEND_NAMES.contains(name));
    for name in BACKEND_NAMES.into_iter().chain(others) {
        match Device::open(name, 0) {
            Ok(device) => {
                let info = device.info();
                let details: Map<String, Value> = info.details.iter().map(|(k, v)| (k.to_string(), json!(v))).collect();
                let told = info.details.iter().map(|(k, v)| format!("{k} {v}")).collect::<Vec<_>>().join(", ");
                let text = format!("{}, {told}; the same bits each time: {:?}", info.name, info.determinism);
                facts.add(
                    "devices",
                    name,
                    json!({ "name": info.name, "parallelism": info.parallelism, "details": details, "determinism": format!("{:?}", info.determinism) }),
                    text,
                );
            }
            Err(why) => {
                let reason = match why.kind() {
                    ErrorKind::DeviceAbsent(reason) => reason.clone(),
                    other => other.to_string(),
                };
                facts.add("devices", name, json!({ "absent": reason }), format!("not here: {reason}"));
            }
        }
    }
    let driver = fs::read_to_string("/proc/driver/nvidia/version").ok().and_then(|t| t.lines().next().map(str::to_string));
    facts.say("devices", "nvidia_driver", driver.unwrap_or_else(|| "none loaded".into()));
    match Device::current() {
        Ok(device) => facts.say("devices", "default", device.to_string()),
        Err(why) => facts.add("devices", "default", Value::Null, format!("none: {}", why.kind())),
    }
}

/// The shortest of some runs, in seconds, after one that warms up.
fn best(mut run: impl FnMut() -> adamant::Result<()>) -> adamant::Result<f64> {
    run()?;
    let mut least = f64::INFINITY;
    for _ in 0..REPEATS {
        let begun = Instant::now();
        run()?;
        least = least.min(begun.elapsed().as_secs_f64());
    }
    Ok(least)
}
fn measured(facts: &mut InfoFacts) {
    if Device::current().is_ok_and(|d| d.info().backend == "reference") {
        // It would take a minute, and its speed says nothing of the machine.
        for key in ["memory_bandwidth", "matrix_products"] {
            facts.add("measured", key, Value::Null, "not measured: the reference device is made to be right, not fast");
        }
        return;
    }
    let copy = || -> adamant::Result<f64> {
        let x = Tensor::full_on([COPIED], 1.0, DType::F32, Device::current()?);
        x.materialize()?;
        best(|| (&x + 1.0).materialize())
    };
    let told = "each element read once and written once; the best of 4, other programs slow it down";
    tell(facts, "memory_bandwidth", "GB/s", copy().map(|seconds| 8.0 * COPIED as f64 / seconds / 1e9), told);
    let product = || -> adamant::Result<f64> {
        let device = Device::current()?;
        let make = || Tensor::full_on([MULTIPLIED, MULTIPLIED], 0.5, DType::F32, device);
        let (a, b) = (make(), make());
        a.materialize()?;
        b.materialize()?;
        best(|| a.matmul(&b).materialize())
    };
    let told = "f32, 1024 x 1024 x 1024; the best of 4";
    tell(facts, "matrix_products", "GFLOP/s", product().map(|seconds| 2.0 * (MULTIPLIED as f64).powi(3) / seconds / 1e9), told);
}
fn tell(facts: &mut InfoFacts, key: &'static str, unit: &str, figure: adamant::Result<f64>, how: &str) {
    match figure {
        Ok(figure) => facts.add("measured", key, json!({ "value": figure, "unit": unit }), format!("{} {unit} ({how})", number(figure))),
        Err(why) => facts.add("measured", key, Value::Null, format!("not measured: {}", why.kind())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_that_is_missing_or_differs_between_text_and_json() {
        let document: Value = serde_json::from_str(&info(true)).unwrap();
        for pointer in
            ["/program/version", "/cpu/model", "/cpu/cores/usable", "/memory/machine", "/memory/page_size", "/devices/cuda/absent", "/devices/default"]
        {
            assert!(document.pointer(pointer).is_some_and(|v| !v.is_null()), "{pointer} in {document}");
        }
        for pointer in ["/measured/memory_bandwidth/value", "/measured/matrix_products/value"] {
            assert!(document.pointer(pointer).and_then(Value::as_f64).is_some_and(|v| v > 0.0), "{pointer}");
        }
        let mut facts = InfoFacts::default();
        program(&mut facts);
        cpu(&mut facts);
        devices(&mut facts);
        let text = as_text(&facts);
        assert!(text.starts_with("program\n  version"), "{text}");
        for wanted in ["instruction sets", "the widest there is", "compiled in", "not here: no backend `cuda` is compiled in", "threads from"] {
            assert!(text.contains(wanted), "{wanted} in\n{text}");
        }
    }
    #[test]
    fn cores_that_are_counted_twice() {
        let two = "processor : 0\nphysical id : 0\ncore id : 0\n\nprocessor : 1\nphysical id : 0\ncore id : 0\n\nprocessor : 2\nphysical id : 1\ncore id : 0\n";
        assert_eq!((physical_cores(two), physical_cores("")), (Some(2), None));
        assert_eq!(field("model name\t: A: B\n", "model name"), Some("A: B"));
    }
}
