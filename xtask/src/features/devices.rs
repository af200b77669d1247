//! Rows about the CPU device: threads, instruction sets, matrix libraries.
use super::{
    CheckCost, Checked, Lacking, RowCheck, Seen, plant, planted,
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
use std::{
    error::Error,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S1.14",
        target: "add and mul of 16M elements at 85 % of a triad's bandwidth or more, for each set: scalar, AVX2 (SSE4.2 has no level of its own), AVX-512, and NEON where the processor is an ARM; the widest is chosen at run time",
        cost: CheckCost::Clocked,
        check: simd,
        plants: &[
            plant("an addition that runs twice", "85 % of the triad"),
            plant("a sum that is off by one ULP", "the values"),
            plant("a set that is not the widest", "the widest is chosen"),
        ],
    },
    RowCheck {
        id: "S1.15",
        target: "OpenBLAS or our own kernels, as chosen, and right; the trace says which ran; one that is not compiled in is an error",
        cost: CheckCost::Long,
        check: blas,
        plants: &[
            plant("our own kernels under the name of OpenBLAS", "built with the feature, OpenBLAS runs"),
            plant("a trace that does not say which ran", "own kernels say so"),
        ],
    },
    RowCheck {
        id: "S1.25",
        target: "threads, instruction set and matrix library can be read back and change what the trace shows",
        cost: CheckCost::Cheap,
        check: builder,
        plants: &[plant("one thread instead of those that were set", "the trace shows the threads")],
    },
    RowCheck {
        id: "S1.43",
        target: "the builder wins over ADAMANT_NUM_THREADS, it over RAYON_NUM_THREADS, it over the cores that affinity and cgroup leave",
        cost: CheckCost::Cheap,
        check: threads,
        plants: &[plant("a variable that is not looked at", "the environment")],
    },
    RowCheck {
        id: "S1.44",
        target: "with MKL or OpenBLAS and without, during large products and what follows them at most as many threads are runnable as there are cores",
        cost: CheckCost::Long,
        check: runnable,
        plants: &[plant("twice as many threads as cores", "runnable at most the cores")],
    },
    RowCheck {
        id: "S1.45",
        target: "ADAMANT_ISA=avx2 forces AVX2; all tests of the conformance suite pass on every set that the processor's family has, and nothing is refused",
        cost: CheckCost::Long,
        check: instruction_sets,
        plants: &[plant("a backend that refuses half of its kernels", "the suite passes"), plant("a set that is not forced", "the set is forced")],
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

/// The sets of this processor's family that this processor lacks.
fn lacking() -> Vec<Lacking> {
    let family = cfg!(target_arch = "x86_64");
    let lacks = Isa::ALL.into_iter().filter(|isa| family && !isa.is_available());
    lacks.map(|isa| Lacking::new(format!("{}, which this processor lacks", word(isa)), "run on a processor that has it")).collect()
}
fn simd() -> Checked {
    const N: usize = 1 << 24;
    let (b, c, mut a) = (vec![0.5f32; N], vec![0.25f32; N], vec![0f32; N]);
    let mut value = Vec::new();
    let (mut enough, mut all_right) = (true, true);
    for isa in sets() {
        Context::new(CpuBackend::builder().threads(1).isa(isa))?.device().scoped(|| -> Result<(), Box<dyn Error>> {
            let (x, y) = (Tensor::from_slice(&b, N), Tensor::from_slice(&c, N));
            let again = planted("an addition that runs twice");
            let run = |f: &dyn Fn() -> Tensor| {
                let first = f().materialize();
                if again { f().materialize() } else { first }
            };
            for (name, f, want) in [("add", &(|| &x + &y) as &dyn Fn() -> Tensor, 0.75f32), ("mul", &|| &x * &y, 0.125)] {
                let warm = f();
                let mut last = warm.narrow(0, N - 3, 3).to_vec::<f32>()?;
                if planted("a sum that is off by one ULP") {
                    last[1] = f32::from_bits(last[1].to_bits() + 1);
                }
                all_right &= last == [want; 3];
                drop(warm);
                // The triad of the STREAM benchmark (McCalpin, 1995): a = b + s * c. Both read two arrays and write one.
                let mut triad = || a.iter_mut().zip(&b).zip(&c).for_each(|((a, b), c)| *a = b + 3.0 * c);
                let (mut ours, mut bare) = (f64::INFINITY, f64::INFINITY);
                // A neighbour may take the memory from one side in all of its runs: then both run again.
                for _ in 0..8 {
                    let (a, b) = least_of_two(12, || drop(run(f)), &mut triad);
                    (ours, bare) = (ours.min(a), bare.min(b));
                    if bare / ours >= 0.85 {
                        break;
                    }
                }
                let gigabytes = |seconds: f64| 12.0 * N as f64 / seconds * 1e-9;
                enough &= bare / ours >= 0.85;
                value.push(format!("{} {name} {:.1} GB/s of {:.1}", word(isa), gigabytes(ours), gigabytes(bare)));
            }
            Ok(())
        })?;
    }
    let narrow = [("ADAMANT_ISA", "scalar")];
    let variables = if planted("a set that is not the widest") { &narrow[..] } else { &[] };
    let chosen = ask(again(variables)?, "device")?["device"]["isa"].as_str().unwrap_or_default().to_string();
    let widest = sets().last().copied().map(word).unwrap_or_default();
    let parts = [("the values", all_right), ("85 % of the triad", enough), ("the widest is chosen", chosen == widest && !sets().is_empty())];
    Ok(Seen::all(&parts, format!("{}; chosen at run time: {chosen}", value.join(", "))).lacking(lacking()))
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
/// What the example `products` says, built with these features, asked for this library, with these variables.
fn products(features: &[&str], library: &str, variables: &[(&str, &str)]) -> Result<Value, Box<dyn Error>> {
    let joined = features.join(",");
    let mut arguments = vec!["run", "--quiet", "--release", "--package", "adamant", "--example", "products"];
    if !features.is_empty() {
        arguments.extend(["--features", &joined]);
    }
    arguments.extend(["--", library]);
    let output = clean(&mut workspace::cargo(&arguments)).envs(variables.iter().copied()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
/// Is there an OpenBLAS that a program can be linked with?
fn openblas() -> Result<(), Lacking> {
    let folders = ["/usr/lib", "/usr/local/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
    let found = folders.iter().any(|folder| Path::new(folder).join("libopenblas.so").exists());
    found.then_some(()).ok_or_else(|| Lacking::new("OpenBLAS (libopenblas.so)", "apt-get install libopenblas-dev"))
}
fn blas() -> Checked {
    let own = Context::new(CpuBackend::builder().blas("own"))?.device();
    let by_own = if planted("a trace that does not say which ran") { String::new() } else { product(own)?.by };
    let mut parts = vec![("own kernels say so", by_own.starts_with("own ") && detail(own, "blas") == "own")];
    let refused = match CpuBackend::builder().blas("openblas").build() {
        Ok(_) => String::new(),
        Err(kind) => kind.to_string(),
    };
    parts.push(("a library that is not compiled in is an error", cfg!(feature = "openblas") || refused.contains("not compiled in")));
    let told =
        format!("default build: {by_own}; asked for openblas: {refused:?}; mkl and accelerate are features of the same code that no machine here can run");
    if let Err(missing) = openblas() {
        return Ok(Seen::all(&parts, told).lacking([missing]));
    }
    let library = if planted("our own kernels under the name of OpenBLAS") { "own" } else { "openblas" };
    let (theirs, ours) = (products(&["openblas"], library, &[])?, products(&["openblas"], "own", &[])?);
    parts.push(("built with the feature, OpenBLAS runs", theirs["by"] == "openblas" && theirs["blas"] == "openblas"));
    parts.push(("and our own kernels where they are chosen", ours["by"].as_str().is_some_and(|by| by.starts_with("own "))));
    parts.push(("both are right", theirs["right"] == true && ours["right"] == true));
    Ok(Seen::all(&parts, format!("{told}; built with `openblas`: {} and, chosen, {}", theirs["by"], ours["by"])))
}
/// How long a helper may take to get a core.
const PATIENCE: Duration = Duration::from_secs(4);
fn builder() -> Checked {
    let mut value = Vec::new();
    let mut parts = Vec::new();
    let many = std::thread::available_parallelism().map_or(1, |n| n.get()).max(2);
    for (isa, count) in sets().into_iter().flat_map(|isa| [(isa, 1), (isa, many)]) {
        let device = Context::new(CpuBackend::builder().threads(count).isa(isa).blas("own"))?.device();
        let read = (detail(device, "isa"), detail(device, "threads"), detail(device, "blas"));
        parts.push(("the settings are read back", read == (word(isa), count.to_string(), "own".into()) && device.info().parallelism == count));
        // A helper that is late finds the work done: the most of several runs.
        let lone = Context::new(CpuBackend::builder().threads(1).isa(isa).blas("own"))?.device();
        let ran_on = if planted("one thread instead of those that were set") { lone } else { device };
        // On a busy machine hundreds of products may pass before a helper gets a core.
        let (mut ran, began) = (Vec::new(), Instant::now());
        while ran.len() < 20 || (began.elapsed() < PATIENCE && count > 1 && ran.iter().all(|r: &Ran| r.threads < 2)) {
            ran.push(product(ran_on)?);
        }
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
    Ok(Seen::all(&parts, value.join(", ")).lacking(lacking()))
}
fn threads() -> Checked {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get()).to_string();
    let (mut parts, mut value, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    let both = [("ADAMANT_NUM_THREADS", "2"), ("RAYON_NUM_THREADS", "3")];
    for (name, variables, count, source) in [
        ("neither", &[][..], &*cores, "cores"),
        ("RAYON_NUM_THREADS=3", &both[1..], "3", "RAYON_NUM_THREADS"),
        ("ADAMANT_NUM_THREADS=2 as well", &both[..], "2", "ADAMANT_NUM_THREADS"),
    ] {
        let answer = ask(again(if planted("a variable that is not looked at") { &[] } else { variables })?, "device")?;
        let (device, built) = (&answer["device"], &answer["builder"]);
        value.push(format!("{name}: {}", device["threads"].as_str().unwrap_or_default()));
        parts.push(("the environment", device["threads"] == count && device["threads from"] == source));
        parts.push(("the builder wins", built["threads"] == "5" && built["threads from"] == "set"));
    }
    // One core by affinity; half a core by a quota that rounds up to one.
    let program = super::this_program()?;
    let ways = [
        ("affinity to one core", affinity(&program), "apt-get install util-linux, which has taskset"),
        ("cgroup quota of one core", Quota::new().map(|q| q.command(&program)), "run as root where /sys/fs/cgroup can be written"),
    ];
    for (name, command, install) in ways {
        match command {
            Some((command, _quota)) => {
                let answer = ask(command, "device")?;
                value.push(format!("{name}: {}", answer["device"]["threads"].as_str().unwrap_or_default()));
                parts.push(("the limit of the system", answer["device"]["threads"] == "1"));
            }
            None => missing.push(Lacking::new(format!("{name}, which this system does not let be set"), install)),
        }
    }
    Ok(Seen::all(&parts, value.join("; ")).lacking(missing))
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
    if !Path::new("/proc/self/task").exists() {
        return Err(Lacking::new("this system does not list the threads of a process", "run on Linux, with /proc mounted").into());
    }
    let (mut parts, mut value) = (Vec::new(), Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let (many, two) = ((2 * cores).to_string(), cores.min(2).to_string());
    let as_asked = [("ADAMANT_NUM_THREADS", &*two)];
    let too_many = [("ADAMANT_NUM_THREADS", &*many)];
    let missing = openblas().err();
    for (features, library) in [(&[][..], "own"), (&["openblas"][..], "openblas")] {
        if missing.is_some() && !features.is_empty() {
            continue;
        }
        for variables in [&[][..], &as_asked] {
            let variables = if planted("twice as many threads as cores") { &too_many[..] } else { variables };
            let answer = products(features, library, variables)?;
            let number = |name: &str| answer[name].as_u64().unwrap_or(u64::MAX);
            parts.push(("the library that was asked for", answer["blas"] == library && answer["right"] == true));
            parts.push(("runnable at most the cores", (1..=number("cores")).contains(&number("runnable"))));
            let (set, runnable, all) = (&answer["set"], &answer["runnable"], &answer["threads"]);
            value.push(format!("{library}: {set} threads on {cores} cores, at most {runnable} runnable of {all}"));
        }
    }
    Ok(Seen::all(&parts, value.join("; ")).lacking(missing))
}
fn instruction_sets() -> Checked {
    let (mut parts, mut value) = (Vec::new(), Vec::new());
    for isa in sets() {
        let forced = [("ADAMANT_ISA", &*word(isa))];
        let answer = ask(again(if planted("a set that is not forced") { &[] } else { &forced })?, "conformance")?;
        let report = &answer["report"];
        let complaints: Vec<&str> = report["complaints"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let checks: Vec<u64> = report["checks"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        let refused = report["refused"].as_array().map_or(usize::MAX, Vec::len);
        parts.push(("the set is forced", answer["isa"] == *word(isa) && answer["current"] == *word(isa)));
        parts.push(("the suite passes", complaints.is_empty() && refused == 0));
        parts.push(("every mode has checks", checks.len() == 9 && checks.iter().all(|n| *n > 0) && checks.iter().sum::<u64>() > 5000));
        let first = complaints.first().unwrap_or(&"");
        value.push(format!("{}: {} checks, {} failed, {refused} refused {first}", word(isa), checks.iter().sum::<u64>(), complaints.len()));
    }
    parts.push(("AVX2 is among them", !cfg!(target_arch = "x86_64") || sets().contains(&Isa::Avx2)));
    let wrong = ask(again(&[("ADAMANT_ISA", "sse9")])?, "device").err().map(|e| e.to_string()).unwrap_or_default();
    parts.push(("an unknown set is an error", wrong.contains("sse9")));
    Ok(Seen::all(&parts, value.join("; ")).lacking(lacking()))
}
