//! Launches the kernels of `programs` on drawn inputs and compares what comes out with the host's own arithmetic.
use super::PlantEnd;
use crate::machine::{Conduct, Finding, Launch, Loaded, Module, run as run_kernel};
use crate::memory::DeviceMemory;
use bytemuck::Pod;
use half::bf16;

/// Instructions that a block may execute: programs without a fault need less by far.
const BUDGET: u64 = 10_000_000;
/// With a fault, so that what hangs is soon known to.
const BUDGET_OF_FAULTS: u64 = 200_000;

/// What ends a program early.
enum PlantFailure {
    Found(Box<Finding>),
    Failed(String),
}
/// Memory and a module.
struct PlantMemory {
    memory: DeviceMemory,
    loaded: Loaded,
    conduct: Conduct,
}
/// A parameter of a kernel.
enum Argument {
    At(u64),
    Count(usize),
}
impl PlantMemory {
    fn empty(&self, bytes: usize) -> Result<u64, PlantFailure> {
        self.memory.allocate(bytes as u64).ok_or_else(|| PlantFailure::Failed("no memory".into()))
    }
    fn upload<T: Pod>(&self, values: &[T]) -> Result<u64, PlantFailure> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let address = self.empty(bytes.len())?;
        self.memory.write(address, bytes).map_err(|e| PlantFailure::Failed(e.to_string()))?;
        Ok(address)
    }
    fn download<T: Pod>(&self, address: u64, count: usize) -> Result<Vec<T>, PlantFailure> {
        let mut bytes = vec![0u8; count * size_of::<T>()];
        self.memory.read(address, &mut bytes).map_err(|e| PlantFailure::Failed(e.to_string()))?;
        Ok(bytemuck::pod_collect_to_vec(&bytes))
    }
    fn launch(&self, kernel: &str, grid: [u32; 2], threads: u32, arguments: &[Argument]) -> Result<(), PlantFailure> {
        let mut parameters = Vec::new();
        for argument in arguments {
            match argument {
                Argument::At(address) => {
                    parameters.resize(parameters.len().next_multiple_of(8), 0);
                    parameters.extend(address.to_le_bytes());
                }
                Argument::Count(n) => parameters.extend((*n as i32).to_le_bytes()),
            }
        }
        let launch = Launch { kernel, grid: [grid[0], grid[1], 1], block: [threads, 1, 1], dynamic_shared: 0, parameters: &parameters };
        run_kernel(&self.loaded, &launch, &self.memory, &self.conduct).map(drop).map_err(PlantFailure::Found)
    }
}
/// Numbers drawn from a seed.
struct PlantRandom(u64);
impl PlantRandom {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
    /// From -1 to 1.
    fn unit(&mut self) -> f64 {
        self.next() as f64 / f64::from(1u32 << 30) - 1.0
    }
    fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit() as f32 * 4.0).collect()
    }
    fn integers(&mut self, n: usize, below: u64) -> Vec<i32> {
        (0..n).map(|_| (self.next() % below) as i32).collect()
    }
}

/// Runs a program by its kernel's name.
///
/// # Errors
/// It is no PTX, there is no memory.
pub(super) fn run(name: &str, ptx: &str, seed: u64, planted: bool) -> Result<PlantEnd, String> {
    let memory = DeviceMemory::new(1 << 26);
    let module = Module::parse(ptx).map_err(|e| e.to_string())?;
    let loaded = Loaded::new(module, &memory).map_err(|e| e.to_string())?;
    let budget = if planted { BUDGET_OF_FAULTS } else { BUDGET };
    let place = PlantMemory { memory, loaded, conduct: Conduct { seed, threads: 1 + (seed % 2) as usize, budget, wrong_matrices: false } };
    match outcome(&place, name, &mut PlantRandom(seed)) {
        Ok(right) => Ok(PlantEnd { right, ..PlantEnd::default() }),
        Err(PlantFailure::Found(finding)) => Ok(PlantEnd { findings: vec![*finding], ..PlantEnd::default() }),
        Err(PlantFailure::Failed(why)) => Err(why),
    }
}
fn close(a: f32, b: f64, by: f64) -> bool {
    (f64::from(a) - b).abs() <= by * b.abs().max(1.0)
}
/// Is the result right?
fn outcome(at: &PlantMemory, name: &str, random: &mut PlantRandom) -> Result<bool, PlantFailure> {
    use Argument::{At, Count};
    match name {
        "block_sum" => {
            let x = random.floats(1000);
            let (o, p) = (at.upload(&[0f32; 4])?, at.upload(&x)?);
            at.launch(name, [4, 1], 256, &[At(o), At(p), Count(1000)])?;
            let got: Vec<f32> = at.download(o, 4)?;
            Ok(got.iter().zip(x.chunks(256)).all(|(o, x)| close(*o, x.iter().map(|v| f64::from(*v)).sum(), 1e-4)))
        }
        "softmax" => {
            let (rows, n) = (3, 300);
            let x = random.floats(rows * n);
            let (o, p) = (at.empty(rows * n * 4)?, at.upload(&x)?);
            at.launch(name, [rows as u32, 1], 256, &[At(o), At(p), Count(n)])?;
            if !at.memory.is_written(o, (rows * n * 4) as u64) {
                return Ok(false);
            }
            let got: Vec<f32> = at.download(o, rows * n)?;
            Ok(x.chunks(n).zip(got.chunks(n)).all(|(x, o)| {
                let powers: Vec<f64> = x.iter().map(|v| f64::from(*v).exp()).collect();
                let z: f64 = powers.iter().sum();
                powers.iter().zip(o).all(|(power, o)| (f64::from(*o) - power / z).abs() < 1e-6)
            }))
        }
        "warp_scan" => {
            let x = random.integers(128, 1000);
            let (o, p) = (at.empty(512)?, at.upload(&x)?);
            at.launch(name, [1, 1], 128, &[At(o), At(p)])?;
            let got: Vec<i32> = at.download(o, 128)?;
            Ok(got.iter().enumerate().all(|(k, v)| *v == x[k / 32 * 32..=k].iter().sum::<i32>()))
        }
        "vectors" => {
            let n = 400;
            let x = random.floats(n);
            let (o, p) = (at.empty(n * 4)?, at.upload(&x)?);
            at.launch(name, [2, 1], 64, &[At(o), At(p), Count(n)])?;
            let got: Vec<f32> = at.download(o, n)?;
            Ok(got.iter().zip(&x).enumerate().all(|(k, (o, x))| *o == x * (k % 4 + 1) as f32))
        }
        "histogram" => {
            let x = random.integers(3000, 640);
            let (o, p) = (at.upload(&[0i32; 64])?, at.upload(&x)?);
            at.launch(name, [4, 1], 128, &[At(o), At(p), Count(3000)])?;
            let got: Vec<i32> = at.download(o, 64)?;
            Ok(got.iter().enumerate().all(|(k, n)| *n == x.iter().filter(|v| (**v & 63) as usize == k).count() as i32))
        }
        "last_block" => {
            let x = random.floats(1000);
            let (o, partial, p) = (at.empty(4)?, at.empty(28)?, at.upload(&x)?);
            at.launch(name, [7, 1], 32, &[At(o), At(partial), At(p), Count(1000)])?;
            let got: Vec<f32> = at.download(o, 1)?;
            Ok(close(got[0], x.iter().map(|v| f64::from(*v)).sum(), 1e-4))
        }
        "spin_lock" => {
            let o = at.upload(&[0i32])?;
            at.launch(name, [3, 1], 64, &[At(o)])?;
            Ok(at.download::<i32>(o, 1)? == [192])
        }
        _ => multiplied(at, name, random),
    }
}
/// A product of bf16 matrices.
fn multiplied(at: &PlantMemory, name: &str, random: &mut PlantRandom) -> Result<bool, PlantFailure> {
    use Argument::{At, Count};
    let (m, n, k) = (128, 64, 160);
    let mut draw = |count: usize| -> Vec<u16> { (0..count).map(|_| bf16::from_f64(random.unit()).to_bits()).collect() };
    let (a, b) = (draw(m * k), draw(n * k));
    let (c, pa, pb) = (at.upload(&vec![0f32; m * n])?, at.upload(&a)?, at.upload(&b)?);
    at.launch(name, [(n / 64) as u32, (m / 64) as u32], 128, &[At(c), At(pa), At(pb), Count(m), Count(n), Count(k)])?;
    let got: Vec<f32> = at.download(c, m * n)?;
    let value = |v: &u16| bf16::from_bits(*v).to_f64();
    Ok(got.iter().enumerate().all(|(place, got)| {
        let (row, column) = (&a[place / n * k..][..k], &b[place % n * k..][..k]);
        close(*got, row.iter().zip(column).map(|(x, y)| value(x) * value(y)).sum(), 1e-4)
    }))
}
