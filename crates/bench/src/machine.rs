//! Where and with what a program ran: facts that make two records comparable, or not.
//!
//! What a system does not tell is left out (`None`, or an empty list), never guessed.
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fs, process::Command};
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

/// The machine.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// what the processor calls itself
    pub cpu: String,
    /// logical cores that this process may use
    pub cores: usize,
    /// the processor's microcode
    pub microcode: Option<String>,
    /// caches as `L2 2048K`, from the nearest
    pub caches: Vec<String>,
    /// extensions of the instruction set that kernels may use
    pub isa: Vec<String>,
    /// what decides the clock's frequency
    pub governor: Option<String>,
    /// bytes of memory
    pub memory_bytes: u64,
    /// whether large pages are given without asking
    pub huge_pages: Option<String>,
    /// the system and its version
    pub os: String,
    /// the kernel
    pub kernel: Option<String>,
    /// the architecture
    pub arch: String,
}
/// What the program was built with.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// the compiler
    pub rustc: String,
    /// the target
    pub target: String,
    /// profile and optimisation
    pub profile: String,
    /// flags beside the profile
    pub rustflags: String,
    /// chosen features
    pub features: String,
    /// backends that are compiled in
    pub backends: Vec<String>,
}
/// The state of the sources.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Git {
    /// the commit
    pub commit: String,
    /// files differ from it
    pub dirty: bool,
}
/// What else the machine did.
#[derive(Clone, Copy, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// programs that wanted to run, on average over the last minute
    pub one_minute: f64,
    /// the hottest sensor, in °C
    pub celsius: Option<f64>,
}

/// Extensions that kernels may use, as the processor tells them.
fn isa() -> Vec<String> {
    macro_rules! detected {
        ($test:ident: $($name:tt)*) => { [$(($name, std::arch::$test!($name))),*].into_iter().filter(|x| x.1).map(|x| x.0.to_string()).collect() };
    }
    #[cfg(target_arch = "x86_64")]
    return detected!(is_x86_feature_detected: "sse4.2" "avx" "fma" "avx2" "avxvnni" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avx512bf16" "avx512fp16");
    #[cfg(target_arch = "aarch64")]
    return detected!(is_aarch64_feature_detected: "neon" "dotprod" "fp16" "bf16" "i8mm" "sve" "sve2");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    Vec::new()
}
/// A file of the system, if it is there.
fn told(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|s| s.trim().to_string()).filter(|s| !s.is_empty())
}
fn microcode() -> Option<String> {
    let text = told("/proc/cpuinfo")?;
    text.lines().find_map(|l| l.strip_prefix("microcode")?.split(':').nth(1).map(|v| v.trim().to_string()))
}
fn caches() -> Vec<String> {
    let of = |index: usize| {
        let at = |file: &str| told(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}"));
        let kind = match at("type")?.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        Some(format!("L{}{kind} {}", at("level")?, at("size")?))
    };
    (0..8).map_while(of).collect()
}
/// Bytes of the largest cache.
pub fn largest_cache() -> Option<u64> {
    caches().iter().filter_map(|c| c.split(' ').nth(1)?.strip_suffix('K')?.parse::<u64>().ok()).max().map(|k| k << 10)
}

impl Machine {
    /// This machine.
    pub fn here() -> Machine {
        let kind = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing()).with_memory(MemoryRefreshKind::nothing().with_ram());
        let system = System::new_with_specifics(kind).ok();
        let brand = system.as_ref().and_then(|s| Some(s.cpus().first()?.brand().trim().to_string()));
        Machine {
            cpu: brand.filter(|s| !s.is_empty()).unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get()),
            microcode: microcode(),
            caches: caches(),
            isa: isa(),
            governor: told("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            memory_bytes: system.map_or(0, |s| s.total_memory()),
            huge_pages: told("/sys/kernel/mm/transparent_hugepage/enabled"),
            os: System::long_os_version().unwrap_or_else(|_| std::env::consts::OS.into()),
            kernel: System::kernel_version().ok(),
            arch: std::env::consts::ARCH.into(),
        }
    }
    /// A short name: the processor's, without what all processors are called.
    pub fn short(&self) -> String {
        let noise = ["(R)", "(TM)", "CPU", "Processor", "Intel", "AMD"];
        let words: Vec<&str> = self.cpu.split_whitespace().filter(|w| !noise.iter().any(|n| w == n)).collect();
        let name = words.join(" ").replace("(R)", "").replace("(TM)", "");
        format!("{} x{}", if name.is_empty() { &self.arch } else { &name }, self.cores)
    }
}
impl Toolchain {
    /// What this program was built with.
    pub fn here() -> Toolchain {
        Toolchain {
            rustc: env!("ADAMANT_BENCH_RUSTC").into(),
            target: env!("ADAMANT_BENCH_TARGET").into(),
            profile: env!("ADAMANT_BENCH_PROFILE").into(),
            rustflags: env!("ADAMANT_BENCH_RUSTFLAGS").into(),
            features: env!("ADAMANT_BENCH_FEATURES").into(),
            backends: adamant::backend::BACKENDS.iter().map(|b| b.name.to_string()).collect(),
        }
    }
}
impl Git {
    /// The sources in the current folder, if they are under version control.
    pub fn here() -> Option<Git> {
        let said = |arguments: &[&str]| {
            let out = Command::new("git").args(arguments).output().ok()?;
            out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_string())
        };
        Some(Git { commit: said(&["rev-parse", "HEAD"])?, dirty: !said(&["status", "--porcelain"])?.is_empty() })
    }
}
impl Load {
    /// Now.
    pub fn now() -> Load {
        let zones = (0..16).map_while(|k| told(&format!("/sys/class/thermal/thermal_zone{k}/temp")));
        let hottest = zones.filter_map(|t| t.parse::<f64>().ok()).map(|t| t * 1e-3).reduce(f64::max);
        Load { one_minute: System::load_average().map_or(0.0, |l| l.one), celsius: hottest }
    }
}

/// Facts by name, for a comparison of two environments.
pub type Facts = BTreeMap<String, String>;
/// What differs: the fact's name, and what each side says.
pub fn differences(a: &Facts, b: &Facts) -> Vec<(String, String, String)> {
    let absent = "(not told)".to_string();
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let of = |facts: &Facts, name: &String| facts.get(name).unwrap_or(&absent).clone();
    names.into_iter().map(|name| (name.clone(), of(a, name), of(b, name))).filter(|(_, x, y)| x != y).collect()
}
/// The leaves of a JSON document under the path to them: `machine.cpu`.
pub fn facts_of(prefix: &str, value: &serde_json::Value, into: &mut Facts) {
    match value {
        serde_json::Value::Object(fields) => fields.iter().for_each(|(name, v)| facts_of(&format!("{prefix}.{name}"), v, into)),
        serde_json::Value::Null => {}
        serde_json::Value::String(s) => {
            into.insert(prefix.into(), s.clone());
        }
        serde_json::Value::Array(items) => {
            let words = items.iter().map(|i| i.as_str().map_or_else(|| i.to_string(), str::to_string));
            into.insert(prefix.into(), words.collect::<Vec<_>>().join(" "));
        }
        other => {
            into.insert(prefix.into(), other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_that_is_not_seen() {
        let facts = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<Facts>();
        let (a, b) = (facts(&[("cpu", "x"), ("os", "l"), ("gone", "1")]), facts(&[("cpu", "y"), ("os", "l")]));
        let found = differences(&a, &b);
        assert_eq!(found, [("cpu".into(), "x".into(), "y".into()), ("gone".into(), "1".into(), "(not told)".into())]);
        assert!(differences(&a, &a).is_empty());
    }
    #[test]
    fn a_machine_that_does_not_know_itself() {
        let machine = Machine::here();
        assert!(machine.cores > 0 && machine.memory_bytes > 1 << 20 && !machine.short().is_empty());
        let mut facts = Facts::new();
        facts_of("machine", &serde_json::json!(machine), &mut facts);
        assert_eq!(facts["machine.cpu"], machine.cpu);
        assert!(Toolchain::here().rustc.starts_with("rustc"));
    }
}
