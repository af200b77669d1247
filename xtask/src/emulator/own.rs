//! Faults planted into the texts of our own kernels: the backend writes and launches what it always does, and where it loads the
//! kernel that a fault is for, the emulator is given what the compiler makes of the changed text.
use adamant::{
    DType, Device, Result as Computed, Tensor,
    cuda::{CudaBackend, CudaMemoryPool},
};
use adamant_cuda_emulator::{
    Emulator, FindingKind, Options, TextRewriter,
    plants::{Caught, PlantEnd},
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// PTX of a text, or the compiler's words.
///
/// # Errors
/// No compiler, a text that it does not take.
pub fn to_ptx(text: &str) -> Result<String, String> {
    let made = CudaBackend::compile(text, "compute_80").map_err(|e| match e {
        adamant::ErrorKind::DeviceAbsent(why) => why,
        other => format!("{other:?}"),
    })?;
    Ok(String::from_utf8_lossy(&made.image).trim_end_matches('\0').into())
}
/// What is computed, on the backend and by the host.
#[derive(Clone, Copy, Debug)]
pub enum OwnProgram {
    /// a product of bf16 matrices on the matrix unit, its factors copied in stages
    Product,
    /// sums of two f32 vectors, element by element
    Sum,
    /// the total of an f32 vector
    Total,
    /// softmax over rows
    Softmax,
    /// x + 1 > x of i32
    Overflow,
    /// two Maps, one behind the other
    Chain,
}
/// A fault in the text of one of our kernels.
#[derive(Clone, Copy)]
pub struct OwnPlant {
    pub what: &'static str,
    pub caught: Caught,
    program: OwnProgram,
    /// a piece of the text, and what stands there instead
    from: &'static str,
    to: &'static str,
}
impl OwnPlant {
    pub fn name(&self) -> String {
        format!("{} (our {})", self.what, format!("{:?}", self.program).to_lowercase())
    }
}
use Caught::{Found, WrongResult};
use FindingKind::*;
const fn plant(what: &'static str, program: OwnProgram, caught: Caught, from: &'static str, to: &'static str) -> OwnPlant {
    OwnPlant { what, caught, program, from, to }
}
pub const OWN_PLANTS: &[OwnPlant] = &[
    plant("missing wait for copies", OwnProgram::Product, Found(&[CopyNotAwaited]), r#"asm volatile("cp.async.wait_group 1;" ::: "memory");"#, ""),
    plant(
        "missing barrier behind the wait",
        OwnProgram::Product,
        Found(&[CopyNotAwaited, RaceOfThreads, RaceOfLanes]),
        "asm volatile(\"cp.async.wait_group 1;\" ::: \"memory\");\n        __syncthreads();",
        "asm volatile(\"cp.async.wait_group 1;\" ::: \"memory\");",
    ),
    plant(
        "stage overwritten early",
        OwnProgram::Product,
        Found(&[CopyNotAwaited, RaceOfThreads, RaceOfLanes]),
        "fill(stage == 0u ? ADM_STAGES - 1u : stage - 1u)",
        "fill(stage)",
    ),
    plant("swapped fragment", OwnProgram::Product, WrongResult, r#""r"(a[1]), "r"(a[2])"#, r#""r"(a[2]), "r"(a[1])"#),
    plant("misaligned copy", OwnProgram::Product, Found(&[Misaligned]), "ALONG ? begin + piece * 8u : inner)", "ALONG ? begin + piece * 8u + 1u : inner + 1u)"),
    plant("misaligned vector", OwnProgram::Sum, Found(&[Misaligned]), "+ first, taken0)", "+ first + 1u, taken0)"),
    // What lies behind a tensor is for its pool to say.
    plant(
        "off by one",
        OwnProgram::Sum,
        Found(&[OutOfBounds, ReadBeforeWritten, UseAfterFree]),
        "count = ADM_MIN(4u, p[0u] - first)",
        "count = ADM_MIN(4u, p[0u] - first + 1u)",
    ),
    plant("race of blocks", OwnProgram::Sum, Found(&[RaceOfBlocks]), "+ first, made0)", "+ first % 1024u, made0)"),
    // By the next kernel, or by the host where one kernel computes both Maps.
    plant("unwritten output", OwnProgram::Chain, Found(&[ReadBeforeWritten, HostReadUnwritten]), "adm_put_4<4>(b1,", "if (unit != 3u) adm_put_4<4>(b1,"),
    plant("missing barrier", OwnProgram::Total, Found(&[RaceOfThreads]), "            adm_barrier();\n        }", "        }"),
    plant("missing first barrier", OwnProgram::Total, Found(&[RaceOfThreads]), "partial[lane] = total;\n        adm_barrier();", "partial[lane] = total;"),
    plant(
        "divergent barrier",
        OwnProgram::Total,
        Found(&[DivergentBarrier]),
        "            adm_barrier();\n        }",
        "            if (own_lane < half) adm_barrier();\n        }",
    ),
    plant(
        "unwritten shared memory",
        OwnProgram::Total,
        Found(&[ReadBeforeWritten]),
        "        partial[lane] = total;\n",
        "        if (lane != 5u) partial[lane] = total;\n",
    ),
    plant("beyond shared memory", OwnProgram::Total, Found(&[OutOfBounds]), "partial[lane + half]", "partial[lane + 2u * half]"),
    plant(
        "lanes missing from a mask",
        OwnProgram::Softmax,
        Found(&[MissingLane]),
        "float adm_exchange(float x, uint32_t with) { return __shfl_xor_sync(0xffffffffu,",
        "float adm_exchange(float x, uint32_t with) { return __shfl_xor_sync(0xffffu,",
    ),
    // The compiler takes it for impossible: x + 1 > x is true, it concludes.
    plant("signed overflow", OwnProgram::Overflow, WrongResult, "of((U)x.v + (U)y.v); }", "adm_wrapping((S)(x.v + y.v)); }"),
];

/// Runs a program of the backend, with the fault in its text or without.
///
/// # Errors
/// No text has the piece that the fault changes; no compiler.
pub fn run(plant: &OwnPlant, seed: u64, planted: bool) -> Result<PlantEnd, String> {
    let (end, texts) = computed(plant.program, seed, None)?;
    if !planted {
        return Ok(end);
    }
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let mut changed = Vec::new();
    for text in texts {
        let name = text.rsplit("void kernel_").next().and_then(|rest| rest.split('(').next()).unwrap_or_default();
        let name = format!("kernel_{name}");
        if text.contains(plant.from) {
            changed.push(name.clone());
        }
        all.insert(name, text.replace(plant.from, plant.to));
    }
    if changed.is_empty() {
        return Err(format!("no kernel has `{}` in its text", plant.from));
    }
    let (failed, taken) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
    let (failed_there, taken_there) = (failed.clone(), taken.clone());
    let rewrite: TextRewriter = Arc::new(move |ptx: &str| {
        let names: Vec<&str> = ptx.split(".entry ").skip(1).filter_map(|rest| rest.split('(').next()).collect();
        if !names.iter().any(|n| changed.iter().any(|c| c == n)) {
            return None;
        }
        let together: String = names.iter().filter_map(|n| all.get(*n)).map(String::as_str).collect();
        taken_there.fetch_add(1, Relaxed);
        to_ptx(&together).map_err(|e| *failed_there.lock() = Some(e)).ok()
    });
    let (end, _) = computed(plant.program, seed, Some(rewrite))?;
    if let Some(why) = failed.lock().take() {
        return Err(why);
    }
    if taken.load(Relaxed) == 0 { Err("the changed kernel was not loaded".into()) } else { Ok(end) }
}
/// Computes a program on a fresh card; the texts of its kernels.
fn computed(program: OwnProgram, seed: u64, rewrite: Option<TextRewriter>) -> Result<(PlantEnd, Vec<String>), String> {
    let emulator = Emulator::installed().ok_or("no emulator is installed")?;
    emulator.reset(Options { seed, ..Options::of("sm_80") }).map_err(|e| e.to_string())?;
    // Products are kernels of our own where the library does not open.
    emulator.plant("cublasLtCreate", 1, 1);
    emulator.set_rewriter(rewrite);
    let backend = CudaBackend::builder().cache(None).self_test(false).memory_pool(CudaMemoryPool::Off).build().map_err(|e| format!("{e:?}"))?;
    let device = Device::from_backend(Box::new(backend));
    let right = device.scoped(|| is_right(program)).unwrap_or(false);
    emulator.set_rewriter(None);
    let texts = device.backend().downcast::<CudaBackend>().map(CudaBackend::texts).unwrap_or_default();
    // What a step that failed did not write, the host may read before it is told of the fault: that follows from the other finding.
    let mut findings = emulator.findings();
    if findings.iter().any(|f| f.kind != FindingKind::HostReadUnwritten) {
        findings.retain(|f| f.kind != FindingKind::HostReadUnwritten);
    }
    Ok((PlantEnd { findings, right, ..PlantEnd::default() }, texts))
}
/// Sixteenths from -1 to 1, which 16 bits hold and whose sums f32 holds.
fn sixteenths(n: usize, salt: usize) -> Vec<f32> {
    (0..n).map(|k| ((k * 7 + k / 13 + salt * 5) % 33) as f32 / 16.0 - 1.0).collect()
}
/// Does a program come to what the host computes?
fn is_right(program: OwnProgram) -> Computed<bool> {
    let near = |got: &[f32], wanted: &[f64], by: f64| got.iter().zip(wanted).all(|(g, w)| (f64::from(*g) - w).abs() <= by * w.abs().max(by));
    Ok(match program {
        OwnProgram::Product => {
            let (m, k, n) = (72, 168, 72);
            let (a, b) = (sixteenths(m * k, 1), sixteenths(k * n, 2));
            let [x, y] = [(&a, [m, k]), (&b, [k, n])].map(|(v, shape)| Tensor::from_vec(v.clone(), shape).cast(DType::BF16));
            let got = x.matmul(&y).cast(DType::F32).to_vec::<f32>()?;
            let sum = |row: usize, column: usize| (0..k).map(|d| f64::from(a[row * k + d]) * f64::from(b[d * n + column])).sum();
            let wanted: Vec<f64> = (0..m * n).map(|at| sum(at / n, at % n)).collect();
            near(&got, &wanted, 1.0 / 128.0)
        }
        OwnProgram::Sum => {
            let n = 4099;
            let (a, b) = (sixteenths(n, 1), sixteenths(n, 2));
            let got = (Tensor::from_vec(a.clone(), [n]) + Tensor::from_vec(b.clone(), [n])).to_vec::<f32>()?;
            got.iter().zip(a.iter().zip(&b)).all(|(g, (x, y))| *g == x + y)
        }
        OwnProgram::Total => {
            let a = sixteenths(5000, 1);
            let got = Tensor::from_vec(a.clone(), [5000]).sum(..).to_vec::<f32>()?;
            got == [a.iter().sum::<f32>()]
        }
        OwnProgram::Softmax => {
            let (rows, n) = (3, 300);
            let a = sixteenths(rows * n, 1);
            let got = Tensor::from_vec(a.clone(), [rows, n]).softmax(-1).to_vec::<f32>()?;
            let wanted: Vec<f64> = a
                .chunks(n)
                .flat_map(|row| {
                    let powers: Vec<f64> = row.iter().map(|v| f64::from(*v).exp()).collect();
                    let total: f64 = powers.iter().sum();
                    powers.into_iter().map(move |p| p / total)
                })
                .collect();
            near(&got, &wanted, 1e-5)
        }
        OwnProgram::Overflow => {
            let a = vec![i32::MAX, 0, i32::MIN, -1, i32::MAX, 7];
            let x = Tensor::from_vec(a.clone(), [6]);
            let got = (&x + 1).gt(&x).cast(DType::I32).to_vec::<i32>()?;
            got.iter().zip(&a).all(|(g, a)| *g == i32::from(a.wrapping_add(1) > *a))
        }
        OwnProgram::Chain => {
            let a = sixteenths(1000, 1);
            // Held, so that the first Map does not write over it.
            let x = Tensor::from_vec(a.clone(), [1000]);
            let y = &x + 1.0;
            y.materialize()?;
            let got = (&y * 2.0).to_vec::<f32>()?;
            drop(x);
            got.iter().zip(&a).all(|(g, a)| *g == (a + 1.0) * 2.0)
        }
    })
}
