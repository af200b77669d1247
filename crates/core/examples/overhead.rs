//! What recording, planning and replaying cost, kernels apart: a backend whose kernels do nothing.
//! `cargo run --release -p adamant-core --example overhead [PART OF A NAME [ROUNDS]]`
use adamant_core::{
    Cell, DType, Device, ErrorKind, Result, Tensor,
    backend::{Backend, Determinism, DeviceInfo, HostMemory, Memory, Support},
    compile,
    kernel::{KernelKind, Step},
    no_grad, schedule, step,
};
use std::{any::Any, hint::black_box, time::Instant};

struct Null(DeviceInfo);
impl Backend for Null {
    fn updates_in_place(&self) -> bool {
        true
    }
    fn info(&self) -> &DeviceInfo {
        &self.0
    }
    fn supports(&self, kernel: &KernelKind, _: &[DType]) -> Support {
        if matches!(kernel, KernelKind::Composite(_)) { Support::No } else { Support::Native }
    }
    fn alloc(&self, bytes: usize) -> std::result::Result<Box<dyn Memory>, ErrorKind> {
        Ok(Box::new(HostMemory(vec![0; bytes])))
    }
    fn upload(&self, _: &mut dyn Memory, _: usize, _: &[u8]) -> std::result::Result<(), ErrorKind> {
        Ok(())
    }
    fn download(&self, _: &dyn Memory, _: usize, to: &mut [u8]) -> std::result::Result<(), ErrorKind> {
        to.fill(0);
        Ok(())
    }
    fn submit(&self, steps: &[Step<'_>]) -> std::result::Result<(), ErrorKind> {
        black_box(steps.len());
        Ok(())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn time(name: &str, per: usize, mut f: impl FnMut() -> Result<()>) -> Result<()> {
    if std::env::args().nth(1).is_some_and(|only| !name.contains(&only)) {
        return Ok(());
    }
    for _ in 0..200 {
        f()?;
    }
    let mut best = f64::INFINITY;
    for _ in 0..std::env::args().nth(2).and_then(|rounds| rounds.parse().ok()).unwrap_or(20) {
        let t = Instant::now();
        for _ in 0..200 {
            f()?;
        }
        best = best.min(t.elapsed().as_nanos() as f64 / 200.0);
    }
    println!("{name:<52} {:>9.1} ns", best / per as f64);
    Ok(())
}
fn main() -> Result<()> {
    let info = DeviceInfo {
        backend: "null",
        name: "no kernels".into(),
        parallelism: 1,
        details: vec![],
        determinism: Determinism::None,
        dtypes: &DType::COMPUTE,
        window_ops: 2048,
        window_bytes: 1 << 30,
    };
    Device::from_backend(Box::new(Null(info))).make_current();
    let x = Tensor::from_vec(vec![1.0f32; 4], [4]);
    let y = Tensor::from_vec(vec![1.0f32; 4], [4]);
    time("add of 4, evaluated", 1, || no_grad(|| (&x + &y).materialize()))?;
    let (xt, yt) = (x.tracked(), y.tracked());
    time("add of 4, tracked, evaluated", 1, || (&xt + &yt).materialize())?;
    time("record one of 100 ops and drop it", 100, || {
        for _ in 0..100 {
            black_box(&x + &y);
        }
        adamant_core::flush()
    })?;
    time("record one of 100 tracked ops and drop it", 100, || {
        for _ in 0..100 {
            black_box(&xt + &yt);
        }
        adamant_core::flush()
    })?;
    let w: Vec<Cell> = [[16usize, 16], [16, 16], [16, 1]].iter().map(|s| Cell::new(&Tensor::full(*s, 0.1f32, DType::F32), true)).collect::<Result<_>>()?;
    let b: Vec<Cell> = [16usize, 16, 1].iter().map(|s| Cell::new(&Tensor::full([*s], 0.1f32, DType::F32), true)).collect::<Result<_>>()?;
    let input = Tensor::from_vec(vec![0.5f32; 16], [1, 16]);
    let forward = |w: &[Cell], b: &[Cell], x: &Tensor| {
        let h = (x.matmul(w[0].get()) + b[0].get()).relu();
        let h = (h.matmul(w[1].get()) + b[1].get()).relu();
        (h.matmul(w[2].get()) + b[2].get()).square().sum(..)
    };
    time("tiny MLP, forward and backward", 1, || forward(&w, &b, &input).backward().map(|_| ()))?;
    println!("{:?}", schedule::take_stats());
    let train = {
        let (w, b) = (w.clone(), b.clone());
        move |t: &[Tensor]| -> Result<Vec<Tensor>> {
            let loss = forward(&w, &b, &t[0]);
            let g = loss.backward()?;
            step(|| {
                for c in w.iter().chain(&b) {
                    if let Some(d) = g.of(c) {
                        c.set(&(c.detached() - d * 0.01f32))?;
                    }
                }
                Ok(())
            })?;
            Ok(vec![loss.detach()])
        }
    };
    time("tiny MLP, train step", 1, || train(std::slice::from_ref(&input)).map(|_| ()))?;
    let f = compile(train);
    time("tiny MLP, train step, compiled", 1, || f.call(&[&input]).map(|_| ()))?;
    println!("{:?}", schedule::take_stats());
    Ok(())
}
