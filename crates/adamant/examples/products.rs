//! Which library multiplies matrices, and how many threads of the process are able to run meanwhile: more than there are
//! cores would be in each other's way. One JSON document on stdout.
//!
//!     cargo run --release -p adamant --example products
//!     cargo run --release -p adamant --example products --features openblas
//!     cargo run --release -p adamant --example products --features openblas -- own
//!
//! The argument chooses the library, as `CpuBackend::builder().blas(..)` does. ADAMANT_NUM_THREADS sets the threads.
use adamant::{
    Device, Error, ErrorKind, Result, Tensor,
    cpu::{
        Context, CpuBackend,
        trace::{Ran, trace},
    },
};
use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

const N: usize = 768;
const ROUNDS: usize = 20;
/// OpenBLAS starts a thread for each core when the program is loaded; they look for work for a while before they sleep, and
/// are never given any.
const LOADED: Duration = Duration::from_millis(500);

/// A product, and element-wise work on its result: where a library waits in a loop for its next product, both compete.
fn round(x: &Tensor) -> Result<f32> {
    let y = x.matmul(x);
    y.materialize()?;
    (y.tanh() * 0.5 + 0.25).sqrt().abs().materialize()?;
    y.narrow(0, 0, 1).narrow(1, 0, 1).item()
}
/// The threads of this process but the caller's, and how many of them are able to run now.
fn threads() -> (usize, usize) {
    let own = fs::read_link("/proc/thread-self").ok().and_then(|p| p.file_name().map(|n| n.to_owned()));
    let all: Vec<_> = fs::read_dir("/proc/self/task").into_iter().flatten().flatten().map(|e| e.file_name()).filter(|t| Some(t) != own.as_ref()).collect();
    let running = all.iter().filter(|t| {
        let stat = fs::read_to_string(Path::new("/proc/self/task").join(t).join("stat")).unwrap_or_default();
        // Behind the name in parentheses: R is on a processor or waits for one.
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('R'))
    });
    (all.len(), running.count())
}
/// The most threads, and the most that were able to run at one time, while rounds ran.
fn watched(rounds: impl FnOnce() -> Result<()>) -> Result<(usize, usize)> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = (0, 0);
            while !done.load(Ordering::Relaxed) {
                let now = threads();
                most = (most.0.max(now.0), most.1.max(now.1));
                std::thread::yield_now();
            }
            most
        });
        let result = rounds();
        done.store(true, Ordering::Relaxed);
        let most = watch.join().unwrap_or_default();
        result.map(|()| most)
    })
}
fn detail(device: Device, name: &str) -> String {
    device.info().details.iter().find(|(n, _)| *n == name).map(|(_, value)| value.clone()).unwrap_or_default()
}
fn main() -> Result<()> {
    let builder = CpuBackend::builder();
    let device = match std::env::args().nth(1) {
        Some(library) => Context::new(builder.blas(&library))?.device(),
        None => Context::new(builder)?.device(),
    };
    device.scoped(|| {
        let x = Tensor::ones([N, N]) * 0.5;
        x.materialize()?;
        let (value, ran) = trace(|| round(&x));
        let right = value? == N as f32 / 4.0;
        let product: Ran =
            ran.into_iter().find(|r| r.kernel == "matmul").ok_or_else(|| Error::new("products", ErrorKind::Internal("no product ran".into())))?;
        std::thread::sleep(LOADED);
        let (all, runnable) = watched(|| (0..ROUNDS).try_for_each(|_| round(&x).map(drop)))?;
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        println!(
            "{{\"blas\":\"{}\",\"by\":\"{}\",\"right\":{right},\"set\":{},\"cores\":{cores},\"threads\":{all},\"runnable\":{runnable}}}",
            detail(device, "blas"),
            product.by,
            detail(device, "threads"),
        );
        Ok(())
    })
}
