//! Rows about the CPU device: threads, instruction sets, matrix libraries.
use super::{
    Checked, Row, Seen,
    probe::{again, ask, clean},
    timing::least_of_two,
};
use crate::workspace;
use adamant::{
    Device, Tensor,
    cpu::{
        Context, CpuBackend, Isa,
        trace::{Ran, trace},
    },
};
use serde_json::Value;
use std::{error::Error, path::Path, process::Command};

pub const ROWS: &[Row] = &[
    Row {
        id: "S1.14",
        what: "element-wise SIMD",
        target: "on 16M elements at least 85 % of the bandwidth of a triad, for every instruction set; the widest is chosen at run time",
        check: simd,
    },
    Row {
        id: "S1.15",
        what: "matrix products by BLAS",
        target: "OpenBLAS or our own kernels, as chosen; the trace says which ran; one that is not compiled in is an error",
        check: blas,
    },
    Row {
        id: "S1.25",
        what: "settings of the CPU backend",
        target: "threads, instruction set and matrix library can be read back and change what the trace shows",
        check: builder,
    },
    Row {
        id: "S1.43",
        what: "control of threads",
        target: "the builder wins over ADAMANT_NUM_THREADS, it over RAYON_NUM_THREADS, it over the cores that affinity and cgroup leave",
        check: threads,
    },
    Row { id: "S1.44", what: "no oversubscription", target: "during large products at most as many threads are runnable as there are cores", check: runnable },
    Row {
        id: "S1.45",
        what: "instruction sets",
        target: "ADAMANT_ISA=avx2 forces AVX2; the conformance suite passes on every set this machine has",
        check: instruction_sets,
    },
];

fn sets() -> Vec<Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect()
}
fn word(isa: Isa) -> String {
    format!("{isa:?}").to_lowercase()
}
fn detail(device: Device, name: &str) -> String {
    device.info().details.iter().find(|(n, _)| *n == name).map(|(_, value)| value.clone()).unwrap_or_default()
}

fn simd() -> Checked {
    const N: usize = 1 << 24;
    let (b, c, mut a) = (vec![0.5f32; N], vec![0.25f32; N], vec![0f32; N]);
    let mut value = Vec::new();
    let mut enough = true;
    for isa in sets() {
        Context::new(CpuBackend::builder().threads(1).isa(isa))?.device().scoped(|| -> Result<(), Box<dyn Error>> {
            let (x, y) = (Tensor::from_slice(&b, N), Tensor::from_slice(&c, N));
            let warm = &x + &y;
            warm.eval()?;
            let right = warm.narrow(0, N - 3, 3).to_vec::<f32>()? == [0.75; 3];
            drop(warm);
            // The triad of the STREAM benchmark (McCalpin, 1995): a = b + s * c. Both read two arrays and write one.
            let triad = || a.iter_mut().zip(&b).zip(&c).for_each(|((a, b), c)| *a = b + 3.0 * c);
            let (add, triad) = least_of_two(12, || drop((&x + &y).eval()), triad);
            let gigabytes = |seconds: f64| 12.0 * N as f64 / seconds * 1e-9;
            enough &= right && triad / add >= 0.85;
            value.push(format!("{} {:.1} GB/s of {:.1}", word(isa), gigabytes(add), gigabytes(triad)));
            Ok(())
        })?;
    }
    let chosen = ask(again(&[])?, "device")?["device"]["isa"].as_str().unwrap_or_default().to_string();
    let widest = sets().last().copied().map(word).unwrap_or_default();
    Ok(Seen::all(
        &[("85 % of the triad", enough), ("the widest is chosen", chosen == widest && !sets().is_empty())],
        format!("{}; chosen at run time: {chosen}", value.join(", ")),
    ))
}
/// What ran a product of 768x768 on a device, and on how many threads: large enough for a helper to wake up.
fn product(device: Device) -> Result<Ran, Box<dyn Error>> {
    let x = device.scoped(|| Tensor::ones([768, 768]) * 0.5);
    let (result, ran) = trace(|| x.matmul(&x).narrow(0, 0, 1).narrow(1, 0, 1).item::<f32>());
    if result? != 192.0 {
        return Err("the product is wrong".into());
    }
    ran.into_iter().find(|r| r.kernel == "matmul").ok_or_else(|| "no product ran".into())
}
fn blas() -> Checked {
    let own = Context::new(CpuBackend::builder().blas("own"))?.device();
    let by_own = product(own)?.by;
    let mut parts = vec![("own kernels say so", by_own.starts_with("own ") && detail(own, "blas") == "own")];
    let refused = match CpuBackend::builder().blas("openblas").build() {
        Ok(_) => String::new(),
        Err(kind) => kind.to_string(),
    };
    let built_in = cfg!(feature = "openblas");
    parts.push(("a library that is not compiled in is an error", built_in || refused.contains("not compiled in")));
    // Is there an OpenBLAS to link? Then the same program built with it must use it.
    let linkable = ["/usr/lib", "/usr/local/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
    let found = linkable.iter().any(|folder| Path::new(folder).join("libopenblas.so").exists());
    let text = if found || built_in {
        let with = ["run", "--quiet", "--release", "--package", env!("CARGO_PKG_NAME"), "--features", "openblas", "--"];
        let mut command = workspace::cargo(&with);
        // A folder of its own: this program is running from the usual one.
        clean(&mut command).env("CARGO_TARGET_DIR", workspace::root().join("target").join("openblas"));
        let answer = ask(command, "device")?;
        let by = answer["ran"].as_array().into_iter().flatten().find(|r| r["kernel"] == "matmul").map(|r| r["by"].clone());
        parts.push(("built with the feature, OpenBLAS runs", by == Some(Value::from("openblas")) && answer["device"]["blas"] == "openblas"));
        format!("built with `openblas`: {}", by.unwrap_or_default())
    } else {
        "no OpenBLAS on this machine to build with: only its refusal was seen".into()
    };
    Ok(Seen::all(&parts, format!("default build: {by_own}; asked for openblas: {refused:?}; {text}")))
}
fn builder() -> Checked {
    let mut value = Vec::new();
    let mut parts = Vec::new();
    let many = std::thread::available_parallelism().map_or(1, |n| n.get()).max(2);
    for (isa, count) in sets().into_iter().flat_map(|isa| [(isa, 1), (isa, many)]) {
        let device = Context::new(CpuBackend::builder().threads(count).isa(isa).blas("own"))?.device();
        let read = (detail(device, "isa"), detail(device, "threads"), detail(device, "blas"));
        parts.push(("the settings are read back", read == (word(isa), count.to_string(), "own".into()) && device.info().parallelism == count));
        // A helper that is late finds the work done: the most of several runs.
        let ran = (0..20).map(|_| product(device)).collect::<Result<Vec<_>, _>>()?;
        let used = ran.iter().map(|r| r.threads).max().unwrap_or(0);
        parts.push(("the trace shows the threads", if count == 1 { used == 1 } else { (2..=count).contains(&used) }));
        parts.push(("the trace shows the kernel", ran.iter().all(|r| r.by == format!("own {}", word(isa)))));
        value.push(format!("{} on {used} of {count}", word(isa)));
    }
    parts.push(("an unknown library is refused", CpuBackend::builder().blas("atlas").build().is_err()));
    parts.push(("the user's pool is taken", {
        let pool = std::sync::Arc::new(rayon::ThreadPoolBuilder::new().num_threads(3).build()?);
        detail(Context::new(CpuBackend::builder().with_pool(pool))?.device(), "threads from") == "given pool"
    }));
    Ok(Seen::all(&parts, value.join(", ")))
}
fn threads() -> Checked {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get()).to_string();
    let (mut parts, mut value) = (Vec::new(), Vec::new());
    let both = [("ADAMANT_NUM_THREADS", "2"), ("RAYON_NUM_THREADS", "3")];
    for (name, variables, count, source) in [
        ("neither", &[][..], &*cores, "cores"),
        ("RAYON_NUM_THREADS=3", &both[1..], "3", "RAYON_NUM_THREADS"),
        ("ADAMANT_NUM_THREADS=2 as well", &both[..], "2", "ADAMANT_NUM_THREADS"),
    ] {
        let answer = ask(again(variables)?, "device")?;
        let (device, built) = (&answer["device"], &answer["builder"]);
        value.push(format!("{name}: {}", device["threads"].as_str().unwrap_or_default()));
        parts.push(("the environment", device["threads"] == count && device["threads from"] == source));
        parts.push(("the builder wins", built["threads"] == "5" && built["threads from"] == "set"));
    }
    // One core by affinity; half a core by a quota that rounds up to one.
    let program = std::env::current_exe()?;
    for (name, command) in [("affinity to one core", affinity(&program)), ("cgroup quota of one core", Quota::new().map(|q| q.command(&program)))] {
        match command {
            Some((command, _quota)) => {
                let answer = ask(command, "device")?;
                value.push(format!("{name}: {}", answer["device"]["threads"].as_str().unwrap_or_default()));
                parts.push(("the limit of the system", answer["device"]["threads"] == "1"));
            }
            None => value.push(format!("{name}: this system does not let it be set")),
        }
    }
    Ok(Seen::all(&parts, value.join("; ")))
}
type Limited = (Command, Option<Quota>);
fn affinity(program: &Path) -> Option<Limited> {
    let there = Command::new("taskset").arg("--version").output().is_ok_and(|o| o.status.success());
    let mut command = Command::new("taskset");
    clean(&mut command).args(["-c", "0"]).arg(program);
    there.then_some((command, None))
}
/// A cgroup with a quota of one core, removed when dropped.
struct Quota(std::path::PathBuf);
impl Quota {
    fn new() -> Option<Quota> {
        let name = format!("adamant-features-{}", std::process::id());
        // Version 2, or the controller's own hierarchy of version 1.
        for (root, file, quota) in [("/sys/fs/cgroup", "cpu.max", "100000 100000"), ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "100000")] {
            let group = Quota(Path::new(root).join(&name));
            if Path::new(root).join("cgroup.procs").exists() && std::fs::create_dir(&group.0).is_ok() && std::fs::write(group.0.join(file), quota).is_ok() {
                return Some(group);
            }
        }
        None
    }
    fn command(self, program: &Path) -> Limited {
        let mut command = Command::new("sh");
        let enter = format!("echo $$ > '{}' && exec \"$0\" \"$@\"", self.0.join("cgroup.procs").display());
        clean(&mut command).args(["-c", &enter]).arg(program);
        (command, Some(self))
    }
}
impl Drop for Quota {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
fn runnable() -> Checked {
    let (mut parts, mut value) = (Vec::new(), Vec::new());
    for variables in [&[][..], &[("ADAMANT_NUM_THREADS", "2")]] {
        let answer = ask(again(variables)?, "runnable")?;
        let number = |name: &str| answer[name].as_u64().unwrap_or(u64::MAX);
        if !Path::new("/proc/self/task").exists() {
            return Ok(Seen::new(false, "this system does not list the threads of a process"));
        }
        let count: u64 = answer["device"]["threads"].as_str().unwrap_or_default().parse()?;
        parts.push(("runnable at most the cores", (1..=number("cores")).contains(&number("runnable"))));
        // The main thread works as well, and one watches.
        parts.push(("no threads but the pool's", number("threads") <= count + 1));
        value.push(format!(
            "{count} threads on {} cores ({}): at most {} runnable of {}",
            answer["cores"], answer["device"]["blas"], answer["runnable"], answer["threads"]
        ));
    }
    Ok(Seen::all(&parts, value.join("; ")))
}
fn instruction_sets() -> Checked {
    let (mut parts, mut value) = (Vec::new(), Vec::new());
    for isa in sets() {
        let answer = ask(again(&[("ADAMANT_ISA", &word(isa))])?, "conformance")?;
        let failures: Vec<&str> = answer["failures"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        parts.push(("the set is forced", answer["isa"] == *word(isa) && answer["current"] == *word(isa)));
        parts.push(("the suite passes", failures.is_empty() && answer["checks"].as_u64().is_some_and(|n| n > 1000)));
        value.push(format!("{}: {} checks, {} failed {}", word(isa), answer["checks"], failures.len(), failures.first().unwrap_or(&"")));
    }
    parts.push(("AVX2 is among them", !cfg!(target_arch = "x86_64") || sets().contains(&Isa::Avx2)));
    let wrong = ask(again(&[("ADAMANT_ISA", "sse9")])?, "device").err().map(|e| e.to_string()).unwrap_or_default();
    parts.push(("an unknown set is an error", wrong.contains("sse9")));
    Ok(Seen::all(&parts, value.join("; ")))
}
