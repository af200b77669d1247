//! Readers and a loader. All parameters of a model hold the number of its version; a request that computes with two of them
//! is mixed. Readers do their worst: in the middle of some requests they wait until another version has been loaded.
use adamant_core::{Cell, Device, Error, Result, Tensor, compile, consistent, step};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Parameters of the model.
const PARAMETERS: usize = 12;

/// What was seen.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Seen {
    /// requests that were answered
    pub requests: usize,
    /// of them, with two versions
    pub mixed: usize,
    /// requests that failed
    pub failed: usize,
    /// what one of them was told
    pub error: Option<String>,
    /// versions that were loaded meanwhile
    pub versions: usize,
}

struct Model {
    cells: Vec<Cell>,
    add: Box<dyn Fn() -> Result<()> + Send>,
}
impl Model {
    fn new(device: Device) -> Result<Model> {
        let cell = |k: usize| Cell::new(&Tensor::full_on([8 + k], 0.0, adamant_core::DType::F32, device), true);
        let cells: Vec<Cell> = (0..PARAMETERS).map(cell).collect::<Result<_>>()?;
        let (inside, one) = (cells.clone(), Tensor::full_on([1], 1.0, adamant_core::DType::F32, device));
        let f = compile(move |x: &[Tensor]| {
            inside.iter().try_for_each(|c| c.set(&(c.detached() + &x[0])))?;
            Ok(vec![])
        });
        Ok(Model { cells, add: Box::new(move || f.call(&[&one]).map(drop)) })
    }
}
/// The next version, by one of the ways in which weights are written.
fn load(model: &Model, device: Device, version: usize) -> Result<()> {
    match version % 4 {
        // A state dict: host data, ready to be read.
        0 => step(|| model.cells.iter().try_for_each(|c| c.set(&Tensor::from_vec_on(vec![version as f32; c.meta().shape.elements()], c.meta().shape, device)))),
        // An optimizer: computed when the step commits, where the old values lie.
        1 => step(|| model.cells.iter().try_for_each(|c| c.set(&(c.detached() + 1.0f32)))),
        2 => (model.add)(),
        // Read and written in several steps inside one.
        _ => step(|| model.cells.iter().try_for_each(|c| step(|| c.set(&(c.detached() + 0.5f32))).and_then(|()| c.set(&(c.detached() + 0.5f32))))),
    }
}
/// One request: the smallest and the largest number of all parameters. `wait` runs in the middle of it.
fn request(cells: &[Cell], wait: impl FnOnce()) -> Result<(f32, f32)> {
    let ends = |c: &Cell| Ok((c.get().amin(..).item::<f32>()?, c.get().amax(..).item::<f32>()?));
    let (first, last) = cells.split_at(cells.len() / 2);
    let mut all = first.iter().map(ends).collect::<Result<Vec<_>>>()?;
    wait();
    all.extend(last.iter().map(ends).collect::<Result<Vec<_>>>()?);
    Ok(all.into_iter().fold((f32::MAX, f32::MIN), |(low, high), (a, b)| (low.min(a), high.max(b))))
}

/// So many readers answer so many requests while another thread loads. `in_sections` is how programs should read; without
/// it the judge shows that it sees mixtures.
///
/// # Errors
/// The model cannot be made, or the loader failed.
pub fn run(device: Device, readers: usize, requests: usize, in_sections: bool) -> Result<Seen> {
    let model = Model::new(device)?;
    let (over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let loaded = AtomicUsize::new(0);
    let cells = &model.cells.clone();
    let reader = || {
        let mut seen = Seen::default();
        loop {
            let number = asked.fetch_add(1, SeqCst);
            if number >= requests {
                return seen;
            }
            let wait = || {
                let before = loaded.load(SeqCst);
                while number % 16 == 0 && loaded.load(SeqCst) < before + 2 && !over.load(SeqCst) {
                    std::thread::yield_now();
                }
            };
            match if in_sections { consistent(|| request(cells, wait)) } else { request(cells, wait) } {
                Ok((low, high)) => {
                    seen.requests += 1;
                    seen.mixed += usize::from(low != high);
                }
                Err(e) => {
                    seen.failed += 1;
                    seen.error.get_or_insert(e.to_string());
                }
            }
        }
    };
    std::thread::scope(|s| {
        let (over, loaded) = (&over, &loaded);
        let loader = s.spawn(move || -> Result<()> {
            let mut version = 0;
            let result = loop {
                if over.load(SeqCst) {
                    break Ok(());
                }
                version += 1;
                if let Err(e) = load(&model, device, version) {
                    break Err(e);
                }
                loaded.store(version, SeqCst);
            };
            // Nobody waits for a loader that has ended.
            over.store(true, SeqCst);
            result
        });
        let running: Vec<_> = (0..readers).map(|_| s.spawn(reader)).collect();
        let mut all = Seen::default();
        for thread in running {
            let seen = thread.join().unwrap_or(Seen { failed: 1, ..Seen::default() });
            (all.requests, all.mixed, all.failed) = (all.requests + seen.requests, all.mixed + seen.mixed, all.failed + seen.failed);
            all.error = all.error.or(seen.error);
        }
        over.store(true, SeqCst);
        let panicked = |_| Err(Error::new("load", adamant_core::ErrorKind::Internal("the loader panicked".into())));
        loader.join().unwrap_or_else(panicked)?;
        all.versions = loaded.load(SeqCst);
        Ok(all)
    })
}
