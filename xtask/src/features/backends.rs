//! Rows about backends: one that a third party writes, and how devices are found: when they are first asked for, once, and
//! with the reason where they are not.
use super::{CheckCost, Checked, Lacking, RowCheck, Seen, plant, planted, timing::least};
use crate::workspace;
use adamant::Device;
use serde_json::Value;
use std::{
    error::Error,
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    process::Command,
};

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "B0.03",
        target: "Device::auto(size), here `Device::for_size`, is never slower than the best of two devices or more by over 5 %",
        cost: CheckCost::Long,
        check: for_size,
        plants: &[plant("the slowest device is chosen", "within 5 %")],
    },
    RowCheck {
        id: "B1.11",
        target: "two devices or more agree with the reference on every public function and its gradient, refuse nothing but what the suite allows, and transfers keep every value",
        cost: CheckCost::Long,
        check: across,
        plants: &[
            plant("a backend that refuses half of its kernels", "every device agrees, and refuses nothing that it must do"),
            plant("a device whose gradient of softmax is zero", "every device agrees, and refuses nothing that it must do"),
            plant("a transfer that loses a value", "transfers keep the values"),
        ],
    },
    RowCheck {
        id: "S1.26",
        target: "at most 400 lines that know ir and runtime alone pass the conformance suite and train the digits model to the CPU's accuracy within 0.5 points",
        cost: CheckCost::Long,
        check: third_party,
        plants: &[],
    },
    RowCheck {
        id: "S2.01",
        target: "`adamant --help` and `--version`, with wgpu compiled in, open no library of BLAS, CUDA or a graphics driver",
        cost: CheckCost::Long,
        check: nothing_heavy,
        plants: &[plant("a program that looks for devices first", "nothing heavy is opened")],
    },
    RowCheck { id: "S2.02", target: "at most 50 ns, by name and as the current device", cost: CheckCost::Clocked, check: second_handle, plants: &[] },
    RowCheck { id: "S2.03", target: "at most 16 bytes", cost: CheckCost::Cheap, check: size_of_handle, plants: &[] },
    RowCheck {
        id: "S2.04",
        target: "one opening, one device for all; loom finds no order of events in which it is otherwise",
        cost: CheckCost::Long,
        check: first_touch,
        plants: &[],
    },
    RowCheck { id: "S2.05", target: "--help within 5 ms, --version within 3 ms", cost: CheckCost::Clocked, check: quick, plants: &[] },
    RowCheck {
        id: "S2.30",
        target: "training with --cpu, with wgpu compiled in, opens no library of CUDA or a graphics driver",
        cost: CheckCost::Long,
        check: cpu_alone,
        plants: &[plant("a program that looks for devices first", "no graphics")],
    },
    RowCheck {
        id: "S4.48",
        target: "`adamant info` lists what is compiled in and what was found, and the reason if not",
        cost: CheckCost::Long,
        check: told,
        plants: &[],
    },
];

/// What a cargo command prints on stdout.
fn cargo(arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = workspace::cargo(arguments).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(format!("cargo {}: {}", arguments.join(" "), text(&output.stderr)).into()) }
}
/// The numbers of the line that holds `mark`, in order.
fn numbers(text: &str, mark: &str) -> Result<Vec<f64>, Box<dyn Error>> {
    let line = text.lines().find(|l| l.contains(mark)).ok_or_else(|| format!("no line with `{mark}` in\n{text}"))?;
    Ok(line.split(|c: char| !(c.is_ascii_digit() || c == '.')).filter_map(|word| word.parse().ok()).collect())
}
fn third_party() -> Checked {
    const PACKAGE: &str = "dummy_backend";
    let mut lines = 0;
    for file in fs::read_dir(workspace::root().join("examples").join(PACKAGE).join("src"))? {
        lines += fs::read_to_string(file?.path())?.lines().count();
    }
    // What it links when it runs, and what its tests link.
    let ours = |kinds: &str| -> Result<Vec<String>, Box<dyn Error>> {
        let tree = cargo(&["tree", "--package", PACKAGE, "--edges", kinds, "--prefix", "none", "--no-dedupe"])?;
        let mut names: Vec<String> = tree.lines().filter_map(|l| l.split(' ').next()).filter(|n| n.starts_with("adamant")).map(str::to_string).collect();
        names.sort();
        names.dedup();
        Ok(names)
    };
    let (runs_on, tested_on) = (ours("normal")?, ours("normal,dev")?);
    let tests = cargo(&["test", "--release", "--quiet", "--package", PACKAGE])?;
    let passed: f64 = tests.lines().filter(|l| l.starts_with("test result: ok.")).map(|l| numbers(l, "passed").map_or(0.0, |n| n[0])).sum();
    let trained = cargo(&["run", "--release", "--quiet", "--package", PACKAGE, "--example", "train_digits"])?;
    // It leaves its weights where it runs.
    let folder = tempfile::tempdir()?;
    let manifest = workspace::root().join("Cargo.toml");
    let output = Command::new(workspace::cargo_path())
        .args(["run", "--release", "--quiet", "--package", "digits", "--manifest-path"])
        .arg(&manifest)
        .current_dir(folder.path())
        .output()?;
    let on_cpu = String::from_utf8_lossy(&output.stdout).into_owned();
    let (here, there) = (numbers(&trained, "test accuracy")?[0], numbers(&on_cpu, "test accuracy")?[0]);
    let counts = numbers(&trained, " submitted")?;
    let (kernels, submitted) = (counts[1], counts[counts.len() - 1]);
    Ok(Seen::all(
        &[
            ("400 lines", (1..=400).contains(&lines)),
            ("it knows no tensors", runs_on == ["adamant-ir", "adamant-runtime"]),
            ("its tests link no other backend", tested_on.iter().any(|n| n == "adamant-conformance") && !tested_on.iter().any(|n| n.contains("-backend-"))),
            ("the suite and the digits pass", passed >= 10.0),
            ("within half a point of the CPU", (here - there).abs() <= 0.5),
            ("every kernel was submitted", kernels > 0.0 && kernels == submitted),
        ],
        format!("{lines} lines on {runs_on:?}; {passed} tests; digits {here} %, on the CPU {there} %; {kernels} kernels, {submitted} submitted"),
    ))
}

/// What this program says, built with all backends that need no more than a driver.
fn with_wgpu(probe: &str) -> Result<Value, Box<dyn Error>> {
    let mut command = workspace::cargo(&["run", "--release", "--quiet", "--package", "xtask", "--features", "wgpu", "--"]);
    super::probe::clean(&mut command);
    super::probe::ask(command, probe)
}
/// What a second device would be had by on a machine that has the processor alone.
fn no_second_device() -> Lacking {
    Lacking::new("a second device to compare with", "apt-get install libvulkan1 mesa-vulkan-drivers, a Vulkan that runs on the processor")
}
fn for_size() -> Checked {
    let answer = with_wgpu("sizes")?;
    let sizes = answer.as_array().ok_or("no sizes")?;
    let within = |s: &Value| s["slower"].as_f64().is_some_and(|slower| slower <= 1.05);
    let devices = sizes.iter().map(|s| s["seconds"].as_object().map_or(0, |o| o.len())).min().unwrap_or(0);
    let seen = Seen::all(&[("three sizes", sizes.len() == 3), ("within 5 %", sizes.iter().all(within))], answer.to_string());
    Ok(seen.lacking((devices < 2).then(no_second_device)))
}
fn across() -> Checked {
    let answer = with_wgpu("devices")?;
    let devices = answer["devices"].as_array().ok_or("no devices")?;
    let absent = answer["absent"].as_array().ok_or("no list of what is absent")?;
    let list = |d: &Value, what: &str| d[what].as_array().cloned().unwrap_or_default();
    let checks = |d: &Value| list(d, "checks").iter().filter_map(Value::as_u64).collect::<Vec<_>>();
    let line = |d: &Value| {
        let (complaints, refused) = (list(d, "complaints"), list(d, "refused"));
        let first = complaints.first().and_then(Value::as_str).unwrap_or("");
        format!(
            "{}: {:?} checks of values, special values and gradients, {} complaints {first}, {} refused with right",
            d["device"],
            checks(d),
            complaints.len(),
            refused.len()
        )
    };
    let (transfers, changed) = (answer["transfers"].as_u64().unwrap_or(0), answer["changed"].as_u64().unwrap_or(1));
    let parts = [
        ("each backend is there or says why not", devices.len() + absent.len() >= 2),
        (
            "every device agrees, and refuses nothing that it must do",
            !devices.is_empty() && devices.iter().all(|d| d["complaints"] == Value::Array(Vec::new())),
        ),
        (
            "values, special values and gradients",
            devices.iter().all(|d| checks(d).len() == 3 && checks(d)[0] > 1000 && checks(d)[1] > 100 && checks(d)[2] > 300),
        ),
        ("transfers keep the values", transfers > 0 && changed == 0),
    ];
    let value = format!("{}; {transfers} transfers, {changed} changed something; absent: {absent:?}", devices.iter().map(line).collect::<Vec<_>>().join("; "));
    Ok(Seen::all(&parts, value).lacking((devices.len() < 2).then(no_second_device)))
}

/// A program with everything in it that might be loaded too early, and what it opens when it looks for devices: whoever
/// sees nothing there sees nothing anywhere.
fn heaviest() -> Result<(PathBuf, Vec<String>), Box<dyn Error>> {
    let program = workspace::program_with(&["wgpu"])?;
    let looked = opened(Command::new(&program).args(["info", "--json"]))?;
    Ok((program, looked.into_iter().filter(|l| is_graphics(l)).collect()))
}
/// Is there a Vulkan on this machine that a program could load?
fn has_vulkan() -> bool {
    let folders = ["/usr/lib", "/usr/local/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
    folders.iter().any(|folder| Path::new(folder).join("libvulkan.so.1").exists())
}
/// Without one, nothing shows that a driver which is opened would be seen.
fn no_loader() -> Option<Lacking> {
    (!has_vulkan()).then(|| Lacking::new("a graphics driver that a program could open", "apt-get install libvulkan1"))
}
/// The libraries that a program opened, as the system's loader tells.
fn opened(command: &mut Command) -> Result<Vec<String>, Box<dyn Error>> {
    let output = command.env("LD_DEBUG", "files").env_remove("LD_DEBUG_OUTPUT").output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    // `     1234:	file=libm.so.6 [0];  needed by ...`
    let names = String::from_utf8_lossy(&output.stderr).lines().filter_map(|l| Some(l.split_once("file=")?.1.split([' ', ';']).next()?.to_string())).collect();
    Ok(names)
}
fn is_graphics(library: &str) -> bool {
    ["cuda", "nvidia", "vulkan", "wgpu", "libGL", "libEGL", "libgl", "libdrm", "amdgpu"].iter().any(|part| library.contains(part))
}
fn is_heavy(library: &str) -> bool {
    is_graphics(library) || ["blas", "mkl", "lapack", "cublas"].iter().any(|part| library.contains(part))
}
fn nothing_heavy() -> Checked {
    let (program, looked) = heaviest()?;
    let (mut seen, mut heavy) = (0, Vec::new());
    for argument in ["--help", "--version"] {
        let libraries = opened(Command::new(&program).arg(argument))?;
        seen += usize::from(libraries.iter().any(|l| l.contains("libc")));
        heavy.extend(libraries.into_iter().filter(|l| is_heavy(l)));
    }
    if planted("a program that looks for devices first") {
        heavy.extend(looked.iter().cloned());
    }
    Ok(Seen::all(
        &[
            ("the loader tells what it opens", seen == 2),
            ("nothing heavy is opened", heavy.is_empty()),
            ("a driver that is asked for is seen", !looked.is_empty() || !has_vulkan()),
        ],
        format!("heavy libraries: {heavy:?}; `adamant info`, which looks for devices, opens {} of graphics", looked.len()),
    )
    .lacking(no_loader()))
}
fn cpu_alone() -> Checked {
    let ((program, looked), folder) = (heaviest()?, tempfile::tempdir()?);
    let digits = workspace::root().join("examples/digits/digits.toml");
    let mut command = Command::new(&program);
    command.arg("train").arg(digits).args(["--cpu", "--dry-run", "--json"]).current_dir(folder.path());
    let libraries = opened(&mut command)?;
    let at_first = if planted("a program that looks for devices first") { &looked[..] } else { &[] };
    let graphics: Vec<&String> = libraries.iter().filter(|l| is_graphics(l)).chain(at_first).collect();
    Ok(Seen::all(
        &[
            ("the loader tells what it opens", libraries.iter().any(|l| l.contains("libc"))),
            ("no graphics", graphics.is_empty()),
            ("a driver that is asked for is seen", !looked.is_empty() || !has_vulkan()),
        ],
        format!("a step on the CPU opened {} files, of graphics: {graphics:?}; `adamant info` {} of graphics", libraries.len(), looked.len()),
    )
    .lacking(no_loader()))
}

fn second_handle() -> Checked {
    const CALLS: usize = 100_000;
    let first = Device::cpu()?;
    let each = |handle: &dyn Fn() -> Option<Device>| {
        let seconds = least(20, || (0..CALLS).for_each(|_| _ = black_box(handle())));
        (seconds / CALLS as f64 * 1e9, handle().is_some())
    };
    let (named, found) = each(&|| Device::open(black_box("cpu"), 0).ok().filter(|d| *d == first));
    let (parsed, read) = each(&|| black_box("cpu").parse().ok().filter(|d: &Device| *d == first));
    let (current, there) = each(&|| Device::current().ok());
    Ok(Seen::all(
        &[("50 ns", named <= 50.0 && parsed <= 50.0 && current <= 50.0), ("the same device", found && read && there)],
        format!("Device::cpu() {named:.1} ns, \"cpu\".parse() {parsed:.1} ns, Device::current() {current:.1} ns"),
    ))
}
fn size_of_handle() -> Checked {
    let (handle, maybe) = (size_of::<Device>(), size_of::<Option<Device>>());
    Ok(Seen::new(handle <= 16 && maybe <= 16, format!("{handle} bytes, {maybe} where there may be none")))
}
fn first_touch() -> Checked {
    const THREADS: &str = "sixty_four_threads_that_open_a_device_more_than_once";
    let threads = cargo(&["test", "--quiet", "--package", "adamant-core", "--test", "first_touch", "--", "--exact", THREADS])?;
    // A folder of its own: everything is built anew for loom.
    let mut models = workspace::cargo(&["test", "--quiet", "--package", "adamant-runtime", "--lib", "first_touch"]);
    let output = models.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", workspace::root().join("target").join("loom")).output()?;
    let orders = String::from_utf8_lossy(&output.stdout).into_owned();
    let (threads, orders) = (numbers(&threads, "passed")?[0], numbers(&orders, "passed")?[0]);
    Ok(Seen::all(
        &[("one opening, one device", threads == 1.0), ("loom", output.status.success() && orders >= 2.0)],
        format!("{threads} test of 64 threads and {orders} models of loom passed"),
    ))
}

fn quick() -> Checked {
    let program = workspace::program()?;
    let milliseconds = |argument: &str| 1e3 * least(20, || drop(Command::new(&program).arg(argument).output()));
    let (help, version) = (milliseconds("--help"), milliseconds("--version"));
    Ok(Seen::new(help <= 5.0 && version <= 3.0, format!("--help {help:.1} ms, --version {version:.1} ms, the fastest of 20")))
}
fn told() -> Checked {
    let output = Command::new(workspace::program()?).args(["info", "--json"]).output()?;
    let devices = serde_json::from_slice::<Value>(&output.stdout)?["devices"].clone();
    let compiled: Vec<&str> = devices["compiled_in"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut parts = vec![("the CPU is compiled in and found", compiled.contains(&"cpu") && devices["cpu"]["name"].is_string())];
    let mut value = format!("compiled in: {compiled:?}");
    for name in ["cpu", "cuda", "wgpu"].iter().chain(&compiled) {
        let (found, absent) = (devices[name]["name"].as_str(), devices[name]["absent"].as_str());
        parts.push(("each is found or says why not", found.is_some() != absent.is_some()));
        // Or that there is no such feature yet.
        let says = |why: &str| why.contains("features = [") || why.contains("this version of Adamant brings none");
        parts.push(("what is not compiled in names its feature", compiled.contains(name) || absent.is_some_and(says)));
        value += &format!("; {name}: {}", found.or(absent).unwrap_or_default());
    }
    Ok(Seen::all(&parts, value))
}
