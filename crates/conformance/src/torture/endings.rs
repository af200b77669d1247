//! Threads that end. The destructor of a thread-local runs when others of the thread may be gone, the library's among them:
//! whatever it asks for is a result or a typed error, and never a panic, which would end the process.
use crate::{
    data::{download, upload},
    random::Random,
    registry::entries,
};
use adamant_core::{Cell, DType, Device, Error, ErrorKind, Result, Rng, Snapshot, Tensor, checkpoint, compile, consistent, flush, graph::Graph, no_grad, step};
use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
};

/// Which thread-local the thread has first: the one that goes last is the one that came first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum First {
    /// the program's, so that the library's are gone when its destructor runs
    Programs,
    /// the library's
    Librarys,
    /// some of the library's: it has recorded, and run nothing
    Some,
}
/// What a destructor asked for, and how it went.
#[derive(Default)]
pub struct Asked {
    /// it got what it asked for
    pub given: usize,
    /// it got a typed error that the same call elsewhere does not give
    pub refused: usize,
    /// it panicked, with what
    pub panicked: Vec<String>,
}
type Ask = Box<dyn FnOnce(&Mutex<Asked>) + Send>;
struct AtTheEnd(Option<(Ask, Arc<Mutex<Asked>>)>);
impl Drop for AtTheEnd {
    fn drop(&mut self) {
        if let Some((ask, asked)) = self.0.take() {
            ask(&asked);
        }
    }
}
thread_local! {
    static LAST: RefCell<AtTheEnd> = const { RefCell::new(AtTheEnd(None)) };
}
fn note(asked: &Mutex<Asked>, name: &str, f: impl FnOnce() -> Result<()>) {
    let went = catch_unwind(AssertUnwindSafe(f));
    let Ok(mut asked) = asked.lock() else { return };
    match went {
        Ok(Ok(())) => asked.given += 1,
        Ok(Err(e)) if matches!(e.kind(), ErrorKind::ThreadEnding) => asked.refused += 1,
        Ok(Err(_)) => asked.given += 1,
        Err(_) => asked.panicked.push(name.into()),
    }
}
/// What is asked beside the registry: reads and writes of what was made before, on this thread and on another.
fn beside(asked: &Mutex<Asked>, device: Device, cell: &Cell, ready: &Tensor, pending: &Tensor) {
    let ones = || Tensor::from_vec_on(vec![1.0f32; 3], [3], device);
    let asks: Vec<(&str, Box<dyn FnOnce() -> Result<()> + '_>)> = vec![
        ("to_vec", Box::new(|| ready.to_vec::<f32>().map(drop))),
        ("item of a pending sum", Box::new(|| pending.sum(..).item::<f32>().map(drop))),
        ("eval", Box::new(|| pending.materialize())),
        ("read_later", Box::new(|| pending.read_later::<f32>()?.wait().map(drop))),
        ("display", Box::new(|| Ok(()).inspect(|()| drop(format!("{pending} {ready:?}"))))),
        ("allclose", Box::new(|| ready.allclose(&ones(), 1e-3, 1e-3).map(drop))),
        ("Cell::detached", Box::new(|| cell.detached().to_vec::<f32>().map(drop))),
        ("Cell::get", Box::new(|| cell.get().to_vec::<f32>().map(drop))),
        ("Cell::set", Box::new(|| cell.set(&ones()))),
        ("Cell::new", Box::new(|| Cell::new(&ones(), true).map(drop))),
        ("Cell::align", Box::new(|| cell.align())),
        ("step", Box::new(|| step(|| cell.set(&(cell.detached() + 1.0f32))))),
        ("consistent", Box::new(|| consistent(|| cell.detached().to_vec::<f32>()).map(drop))),
        ("Snapshot", Box::new(|| Snapshot::now().clone().read(|| cell.detached().ok()).map(drop))),
        ("backward", Box::new(|| (ones().tracked() * ready).sum(..).backward().map(drop))),
        ("backward to a cell", Box::new(|| (cell.get() * ready).sum(..).backward().map(drop))),
        ("no_grad", Box::new(|| no_grad(|| (ready + 1.0f32).materialize()))),
        ("checkpoint", Box::new(|| checkpoint(&[&ones().tracked()], |x| Ok(x[0].exp())).map(drop))),
        ("compile", Box::new(|| compile(|x: &[Tensor]| Ok(vec![x[0].exp()])).call(&[ready]).map(drop))),
        ("Graph::capture", Box::new(|| Graph::capture(device, &[ready.try_meta()?], |x| Ok(vec![x[0].exp()])).map(drop))),
        ("Rng", Box::new(|| Rng::new_on(1, 0, device)?.uniform([3], DType::F32).to_vec::<f32>().map(drop))),
        ("flush", Box::new(flush)),
        ("synchronize", Box::new(move || device.synchronize())),
        (
            "memory",
            Box::new(move || {
                let _ = (device.memory(), device.pool().trim());
                Ok(())
            }),
        ),
        ("scoped", Box::new(move || device.scoped(|| Tensor::zeros([2, 2]).matmul(Tensor::ones([2, 2])).materialize()))),
        ("with_eager", Box::new(|| adamant_core::with_eager(true, || (ready * 2.0f32).materialize()))),
        ("with_window", Box::new(|| adamant_core::with_window(1, || (ready * 2.0f32).materialize()))),
        ("scope", Box::new(|| Ok(()).inspect(|()| drop((adamant_core::scope::enter("layer"), adamant_core::scope::current()))))),
        ("stats", Box::new(|| Ok(()).inspect(|()| drop(format!("{:?}", adamant_core::schedule::take_stats()))))),
    ];
    for (name, ask) in asks {
        note(asked, name, ask);
    }
}
/// Asks for every function of the registry, and for reads and writes of all kinds, in the destructor of a thread-local.
///
/// # Errors
/// The tensors that are asked for cannot be made, or the thread could not be.
pub fn run(device: Device, first: First) -> Result<Asked> {
    let cell = Cell::new(&Tensor::from_vec_on(vec![1.0f32; 3], [3], device), true)?;
    let asked = Arc::new(Mutex::new(Asked::default()));
    let result = asked.clone();
    let ended = std::thread::spawn(move || -> Result<()> {
        let make = || {
            let x = Tensor::from_vec_on(vec![1.0f32, 2.0, 3.0], [3], device);
            (x.clone(), &x * 2.0f32)
        };
        let arm = |ask: Ask| LAST.with(|last| last.borrow_mut().0 = Some((ask, asked)));
        let touch = || {
            if first == First::Programs {
                LAST.with(|_| ())
            }
        };
        touch();
        let (ready, pending) = make();
        if first != First::Some {
            // All kinds of work, so that every thread-local there is has been made.
            for entry in entries().iter().step_by(7) {
                let x: Vec<Tensor> = drawn(entry, device);
                let _ = device.scoped(|| entry.function.call(&x).iter().map(download).collect::<Result<Vec<_>>>());
            }
            (cell.get() * &ready).sum(..).backward()?;
        }
        arm(Box::new(move |asked| {
            beside(asked, device, &cell, &ready, &pending);
            for entry in entries() {
                note(asked, &entry.name, || {
                    let x = drawn(&entry, device);
                    device.scoped(|| entry.function.call(&x).iter().try_for_each(|y| download(y).map(drop)))
                });
            }
        }));
        Ok(())
    })
    .join();
    ended.unwrap_or_else(|_| Err(Error::new("endings", ErrorKind::Internal("the thread panicked".into()))))?;
    let mut asked = result.lock().map_err(|_| Error::new("endings", ErrorKind::Internal("a destructor panicked".into())))?;
    Ok(std::mem::take(&mut *asked))
}
fn drawn(entry: &crate::registry::Entry, device: Device) -> Vec<Tensor> {
    let dtype = if entry.dtypes.contains(&DType::F32) { DType::F32 } else { *entry.dtypes.first().unwrap_or(&DType::F32) };
    let random = Random::new(5);
    entry.inputs.iter().enumerate().map(|(k, i)| upload(&i.draw(dtype, &mut random.part(k as u64)), device)).collect()
}
