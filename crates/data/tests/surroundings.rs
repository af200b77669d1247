//! What is around a loader where it is built is around all of a data set's code, whoever runs it: a worker, one that took the place
//! of a worker that hangs, the watch that names a record, the caller's own thread, a poll.
#![allow(clippy::unwrap_used, clippy::panic)]
use adamant_conformance::plain;
use adamant_core::{
    Arg, DType, Device, Op, Outputs, Result, Tensor,
    compile::{self, Flag},
    grad,
    intercept::{Interceptor, with},
    no_grad,
    scalar::Unary,
    scope,
};
use adamant_data::{BadRecord, DataLoader, Dataset, Draw, Place, Policy};
use parking_lot::{Condvar, Mutex};
use std::{sync::Arc, thread::ThreadId, time::Duration};

/// As autocast does: exponentials are taken in another dtype.
struct CastExp(DType);
impl Interceptor for CastExp {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs {
        if !matches!(op, Op::Unary(Unary::Exp)) {
            return next(op, arg, inputs);
        }
        let cast = inputs[0].cast(self.0);
        next(op, arg, &[&cast]).into_iter().map(|t| t.cast(DType::F32)).collect()
    }
}
type Function = Box<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync>;
/// A third's exponential, op by op and by a compiled function under a flag; are gradients recorded, on which device, in which layer.
type Seen = (f32, f32, bool, Device, String);
/// Where the data set's code ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum In {
    Read,
    Collate,
    Locate,
}
/// Records that say what is around those who read them. Record 3 panics where everything is otherwise; record 5 hangs.
struct Looking {
    compiled: compile::Compiled<Function>,
    hangs: bool,
    released: (Mutex<bool>, Condvar),
    seen: Mutex<Vec<(In, ThreadId, Seen)>>,
}
impl Looking {
    fn new(flag: &Flag, hangs: bool) -> Looking {
        let flag = flag.clone();
        let f: Function = Box::new(move |x| Ok(vec![if flag.get() { x[0].exp() + 1.0 } else { x[0].exp() }]));
        Looking { compiled: compile::compile(f), hangs, released: Default::default(), seen: Mutex::default() }
    }
    fn look(&self) -> Seen {
        let x = Tensor::full([1], 1.0 / 3.0, DType::F32);
        let of = |t: &Tensor| t.to_vec::<f32>().unwrap()[0];
        let compiled = of(&self.compiled.call(&[&x]).unwrap()[0]);
        (of(&x.exp()), compiled, grad::grad_enabled(), Device::current().unwrap(), scope::path(scope::current()))
    }
    fn note(&self, place: In) {
        let seen = self.look();
        self.seen.lock().push((place, std::thread::current().id(), seen));
    }
}
impl Dataset for Looking {
    type Record = usize;
    type Batch = Vec<usize>;
    fn len(&self) -> usize {
        12
    }
    fn read(&self, index: usize) -> std::result::Result<usize, BadRecord> {
        Ok(index)
    }
    fn read_at(&self, index: usize, _draw: &Draw) -> std::result::Result<usize, BadRecord> {
        self.note(In::Read);
        if index == 3 {
            let _layer = scope::enter("decoder");
            with(Arc::new(CastExp(DType::F16)), || no_grad(|| Device::reference().scoped(|| panic!("decoder fell over"))))
        }
        if index == 5 && self.hangs {
            let mut released = self.released.0.lock();
            while !*released {
                self.released.1.wait(&mut released);
            }
        }
        Ok(index)
    }
    fn collate(&self, records: Vec<usize>) -> Result<Vec<usize>> {
        self.note(In::Collate);
        Ok(records)
    }
    fn locate(&self, index: usize) -> Place {
        self.note(In::Locate);
        Place { file: "looking.bin".into(), index, offset: 0 }
    }
}
/// What may be around a loader, each or not.
#[derive(Clone, Copy, Debug)]
struct Around {
    cast: bool,
    no_grad: bool,
    device: Device,
    layer: bool,
    flag: bool,
}
impl Around {
    fn run<R>(self, f: impl FnOnce() -> R) -> R {
        let _layer = self.layer.then(|| scope::enter("input"));
        let f = || if self.no_grad { no_grad(f) } else { f() };
        self.device.scoped(|| if self.cast { with(Arc::new(CastExp(DType::BF16)), f) } else { f() })
    }
}
/// Who runs the data set's code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Workers(usize),
    /// of which one hangs, and another takes its place
    Replaced,
    #[cfg(feature = "stream")]
    Polled,
}
/// What the code of the data set saw around it, and what stood around the loader.
fn seen(kind: Kind, around: Around, consumer: Around, flag: &Flag, batches: usize) -> (Seen, Vec<(In, ThreadId, Seen)>) {
    let set = Arc::new(Looking::new(flag, kind == Kind::Replaced));
    flag.set(around.flag);
    let (expected, mut loader) = around.run(|| {
        let build = DataLoader::new(set.clone()).batch_size(2).on_bad_record(Policy::Skip { at_most: 4 });
        let build = match kind {
            Kind::Workers(threads) => build.workers(threads),
            Kind::Replaced => build.workers(1).timeout(Duration::from_secs(2)),
            #[cfg(feature = "stream")]
            Kind::Polled => build.workers(1),
        };
        (set.look(), build.build().unwrap())
    });
    consumer.run(|| {
        let got = match kind {
            #[cfg(feature = "stream")]
            Kind::Polled => polled(&mut loader),
            _ => loader.epoch().inspect(|b| assert!(b.is_ok(), "a batch")).count(),
        };
        assert_eq!(got, batches);
    });
    *set.released.0.lock() = true;
    set.released.1.notify_all();
    drop(loader);
    let seen = set.seen.lock().clone();
    (expected, seen)
}
#[cfg(feature = "stream")]
fn polled(loader: &mut DataLoader<Looking>) -> usize {
    use futures_core::Stream;
    use std::{
        pin::Pin,
        task::{Context, Poll, Waker},
    };
    let (mut stream, mut batches) = (loader.stream(), 0);
    loop {
        match Pin::new(&mut stream).poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(batch)) => batches += usize::from(!batch.unwrap().is_empty()),
            Poll::Ready(None) => return batches,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}
/// Everything that may be around, on either of two devices.
fn all(devices: [Device; 2]) -> impl Iterator<Item = Around> {
    let on = |k: usize, bit: usize| k >> bit & 1 == 1;
    (0..32).map(move |k| Around { cast: on(k, 0), no_grad: on(k, 1), device: devices[k >> 2 & 1], layer: on(k, 3), flag: on(k, 4) })
}
fn check(kind: Kind, around: Around, consumer: Around, flag: &Flag) {
    let (expected, seen) = seen(kind, around, consumer, flag, 6);
    for (place, thread, seen) in &seen {
        assert_eq!(*seen, expected, "{kind:?} under {around:?}: {place:?} on {thread:?}");
    }
    let at = |place| seen.iter().filter(|(p, ..)| *p == place).count();
    assert!(at(In::Read) >= 12 && at(In::Collate) >= 6 && at(In::Locate) > 0, "{kind:?}: {seen:?}");
    let mut threads: Vec<String> = seen.iter().map(|(_, thread, _)| format!("{thread:?}")).collect();
    threads.sort();
    threads.dedup();
    match kind {
        Kind::Workers(0) => assert_eq!(threads.len(), 1),
        // The worker, the watch, and the one that came instead.
        Kind::Replaced => assert_eq!(threads.len(), 3),
        _ => assert!(!threads.contains(&format!("{:?}", std::thread::current().id()))),
    }
}

#[test]
fn a_worker_computes_otherwise_than_where_its_loader_was_built() {
    let (devices, flag) = ([plain::device(64, usize::MAX), plain::device(64, usize::MAX)], Flag::new(false));
    let kinds = [
        Kind::Workers(0),
        Kind::Workers(1),
        Kind::Workers(3),
        #[cfg(feature = "stream")]
        Kind::Polled,
    ];
    for around in all(devices) {
        // Whoever takes the batches has everything otherwise.
        let other = devices[usize::from(around.device == devices[0])];
        let consumer = Around { cast: !around.cast, no_grad: !around.no_grad, device: other, layer: !around.layer, ..around };
        kinds.into_iter().for_each(|kind| check(kind, around, consumer, &flag));
    }
}
#[test]
fn who_takes_the_place_of_a_worker_that_hangs_has_nothing_around_it() {
    let (devices, flag) = ([plain::device(64, usize::MAX), plain::device(64, usize::MAX)], Flag::new(false));
    let around = Around { cast: true, no_grad: true, device: devices[0], layer: true, flag: true };
    check(Kind::Replaced, around, Around { cast: false, no_grad: false, device: devices[1], layer: false, ..around }, &flag);
}
