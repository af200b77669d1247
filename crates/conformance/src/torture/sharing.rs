//! Threads that share things: tensors of every kind, tapes, cells, compiled functions, generators. A case is a random program
//! of two to eight threads, of one of two families: [`values`], where what is shared is not written and each thread gets the
//! bits that one thread alone gets, and [`races`], where it is written and what is read must be of one moment. Nothing fails,
//! nothing panics and nothing hangs in either.
use crate::random::Random;
use adamant_core::{Device, Result, Tensor, with_eager, with_window};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

pub mod races;
pub mod values;

/// Elements of a vector that is shared.
const WIDTH: usize = 4;
/// After so long a program hangs: the longest takes a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// What each thread of a program is run in: a planted fault is the thread's.
pub type Around = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;
/// Nothing.
pub fn plainly() -> Around {
    Arc::new(|f| f())
}

/// How a thread runs: after how many ops its windows close, or each op at once.
#[derive(Clone, Copy, Debug)]
enum Pace {
    Window(usize),
    Eager,
}
impl Pace {
    fn draw(random: &mut Random) -> Pace {
        *random.pick(&[Pace::Window(1), Pace::Window(3), Pace::Window(2048), Pace::Window(2048), Pace::Eager])
    }
    fn run<R>(self, f: impl FnOnce() -> R) -> R {
        match self {
            Pace::Window(ops) => with_window(ops, f),
            Pace::Eager => with_eager(true, f),
        }
    }
}
fn vector(first: f32, device: Device) -> Tensor {
    Tensor::from_vec_on((0..WIDTH).map(|k| first + 0.25 * k as f32).collect(), [WIDTH], device)
}
/// So many threads, each with its number; all begin at once. What the first that failed says, or all results in order.
fn together<R: Send>(threads: usize, around: &Around, f: impl Fn(usize) -> Result<R> + Sync) -> std::result::Result<Vec<R>, String> {
    let begin = std::sync::Barrier::new(threads);
    thread::scope(|s| {
        let run = |number: usize| {
            begin.wait();
            let mut result = None;
            around(&mut || result = Some(f(number)));
            result
        };
        let running: Vec<_> = (0..threads).map(|number| s.spawn(move || run(number))).collect();
        let ended: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
        let told = |(number, ended): (usize, thread::Result<Option<Result<R>>>)| match ended {
            Ok(Some(Ok(result))) => Ok(result),
            Ok(Some(Err(e))) => Err(format!("thread {number} of {threads}: {e}")),
            Ok(None) => Err(format!("thread {number} was not run")),
            Err(panic) => Err(format!("thread {number} of {threads} panicked: {}", message(&*panic))),
        };
        ended.into_iter().enumerate().map(told).collect()
    })
}
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("with no text").to_string()
}

/// The program of a seed.
///
/// # Errors
/// What was seen that should not have been.
pub fn case(device: Device, seed: u64, around: &Around) -> std::result::Result<(), String> {
    let (told, ended) = mpsc::channel();
    let own = around.clone();
    // Not joined: what hangs is left behind.
    thread::spawn(move || {
        let run = || if seed % 2 == 0 { values::program(device, seed, &own) } else { races::program(device, seed, &own) };
        let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(format!("it panicked: {}", message(&*panic))));
        let _ = told.send(result);
    });
    let result = ended.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(format!("it hangs for {} s", PATIENCE.as_secs())));
    result.map_err(|why| format!("{device}, seed {seed}: {why}"))
}
/// `n` programs from a seed on: what did not hold.
pub fn run(device: Device, from: u64, n: usize) -> Vec<String> {
    (0..n as u64).filter_map(|k| case(device, from + k, &plainly()).err()).collect()
}
