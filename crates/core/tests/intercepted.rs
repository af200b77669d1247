//! What is kept for later (captures of compiled functions, plans of windows, copies that follow from cells) under interceptors that
//! come and go: what one of them made never serves another, and what does the same is made once.
mod naive;

use adamant_core::{
    Arg, Cell, DType, Device, Op, Outputs, Result, Tensor, compile,
    intercept::{Interceptor, with},
    scalar::Unary,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// Keys are remembered for the whole program, and not more than so many: tests that use many of them do not run beside others.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

type Next<'a> = &'a dyn Fn(Op, Arg, &[&Tensor]) -> Outputs;
/// Each negation with a number added to it.
fn shifted(by: f32, op: Op, arg: Arg, inputs: &[&Tensor], next: Next<'_>) -> Outputs {
    let is = matches!(op, Op::Unary(Unary::Neg));
    let out = next(op, arg, inputs);
    if is { out.into_iter().map(|t| t + by).collect() } else { out }
}
/// By a number: each is only itself.
struct Shift(f32);
/// The same, and says by which.
struct Keyed(f32);
/// The same, of another type.
struct AlsoKeyed(f32);
/// By a number that somebody changes.
struct Turning(AtomicU32);
/// By one: it has no settings.
struct One;
/// The fault that the test is to find: its key does not tell what it does.
struct Lying(f32);
impl Interceptor for Shift {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: Next<'_>) -> Outputs {
        shifted(self.0, op, arg, inputs, next)
    }
}
impl Interceptor for Keyed {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: Next<'_>) -> Outputs {
        shifted(self.0, op, arg, inputs, next)
    }
    fn key(&self) -> Option<u64> {
        Some(self.0.to_bits().into())
    }
}
impl Interceptor for AlsoKeyed {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: Next<'_>) -> Outputs {
        shifted(-self.0, op, arg, inputs, next)
    }
    fn key(&self) -> Option<u64> {
        Some(self.0.to_bits().into())
    }
}
impl Interceptor for Turning {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: Next<'_>) -> Outputs {
        shifted(self.0.load(Relaxed) as f32, op, arg, inputs, next)
    }
    fn key(&self) -> Option<u64> {
        Some(self.0.load(Relaxed).into())
    }
}
impl Interceptor for One {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: Next<'_>) -> Outputs {
        shifted(1.0, op, arg, inputs, next)
    }
}
impl Interceptor for Lying {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: Next<'_>) -> Outputs {
        shifted(self.0, op, arg, inputs, next)
    }
    fn key(&self) -> Option<u64> {
        Some(7)
    }
}

/// Numbers from a seed (a linear congruential generator, Knuth's constants).
struct Draws(u64);
impl Draws {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}
/// Runs `f` under these, the first outermost.
fn under<R>(stack: &[Arc<dyn Interceptor>], f: &dyn Fn() -> R) -> R {
    match stack.split_first() {
        None => f(),
        Some((outer, inner)) => with(outer.clone(), || under(inner, f)),
    }
}
/// What is computed again and again, each by another way that keeps something.
struct Subject {
    x: Tensor,
    cell: Cell,
    compiled: compile::Compiled<Function>,
}
type Function = fn(&[Tensor]) -> Result<Vec<Tensor>>;
fn negated(x: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(vec![x[0].neg()])
}
impl Subject {
    fn new() -> Result<Subject> {
        let x = Tensor::full([3], 2.0, DType::F32);
        Ok(Subject { cell: Cell::new(&x, false)?, x, compiled: compile(negated) })
    }
    /// -2 and what the interceptors add, by a capture, a window and a copy of the cell.
    fn seen(&self) -> Result<[f32; 3]> {
        let of = |t: &Tensor| Ok::<_, adamant_core::Error>(t.to_vec::<f32>()?[0]);
        let copy = self.cell.derived("negated", |v| v.neg().ok())?;
        Ok([of(&self.compiled.call(&[&self.x])?[0])?, of(&self.x.neg())?, of(&copy)?])
    }
}
/// How many of `steps` stacks of interceptors, of which some are kept, some made anew with and without a key, computed otherwise than
/// they say; how often one that does something else lay where one had lain that is gone; and the captures.
fn wrong(seed: u64, steps: usize, lies: bool) -> Result<(usize, usize, compile::Captures)> {
    let (subject, mut draws) = (Subject::new()?, Draws(seed));
    let kept: Vec<Arc<dyn Interceptor>> = (0..4).map(|k| Arc::new(Shift(k as f32)) as _).collect();
    let mut lay: HashMap<usize, f32> = HashMap::new();
    let (mut wrong, mut moved_in) = (0, 0);
    for step in 0..steps {
        let (mut stack, mut sum): (Vec<Arc<dyn Interceptor>>, f32) = (Vec::new(), -2.0);
        for _ in 0..draws.below(4) {
            let by = draws.below(4) as f32;
            let (one, adds): (Arc<dyn Interceptor>, f32) = match draws.below(if lies { 6 } else { 5 }) {
                0 => (kept[by as usize].clone(), by),
                // Never met before: it shares with nobody.
                1 => (Arc::new(Shift(by + step as f32)), by + step as f32),
                2 => (Arc::new(Keyed(by)), by),
                3 => (Arc::new(AlsoKeyed(by)), -by),
                4 => (Arc::new(One), 1.0),
                _ => (Arc::new(Lying(by)), by),
            };
            if lay.insert(Arc::as_ptr(&one).cast::<()>() as usize, adds).is_some_and(|before| before != adds) {
                moved_in += 1;
            }
            stack.push(one);
            sum += adds;
        }
        wrong += usize::from(under(&stack, &|| subject.seen())? != [sum; 3]);
    }
    Ok((wrong, moved_in, subject.compiled.captures()))
}

#[test]
fn what_an_interceptor_made_serves_another() -> Result<()> {
    let _alone = alone();
    naive::device(64, usize::MAX).scoped(|| {
        for seed in 0..4 {
            let (found, moved_in, captures) = wrong(seed, 400, false)?;
            assert_eq!(found, 0, "seed {seed}");
            // An identity by the address alone would have taken so many for others.
            assert!(moved_in > 50, "{moved_in}");
            assert!(captures.held <= compile::MOST_CAPTURES + 1, "{captures:?}");
        }
        let (found, ..) = wrong(5, 400, true)?;
        assert!(found > 20, "keys that lie are found: {found}");
        Ok(())
    })
}
#[test]
fn one_that_is_made_anew_with_its_key_is_captured_anew() -> Result<()> {
    let _alone = alone();
    naive::device(64, usize::MAX).scoped(|| {
        let made = |make: &dyn Fn() -> Arc<dyn Interceptor>| -> Result<compile::Captures> {
            let subject = Subject::new()?;
            for _ in 0..100 {
                with(make(), || subject.compiled.call(&[&subject.x]))?;
            }
            Ok(subject.compiled.captures())
        };
        assert_eq!(made(&|| Arc::new(Keyed(2.0)))?.sizes, 1);
        assert_eq!(made(&|| Arc::new(One))?.sizes, 1, "it has no settings");
        let only_itself = made(&|| Arc::new(Shift(2.0)))?;
        assert_eq!((only_itself.sizes, only_itself.held), (100, compile::MOST_CAPTURES + 1));
        Ok(())
    })
}
#[test]
fn a_key_that_changes_keeps_the_first_capture() -> Result<()> {
    let _alone = alone();
    naive::device(64, usize::MAX).scoped(|| {
        let (subject, turning) = (Subject::new()?, Arc::new(Turning(AtomicU32::new(0))));
        for k in (0..600).chain([0, 1, 599]) {
            turning.0.store(k, Relaxed);
            assert_eq!(with(turning.clone(), || subject.seen())?, [k as f32 - 2.0; 3]);
        }
        assert!(subject.compiled.captures().held <= compile::MOST_CAPTURES + 1);
        Ok(())
    })
}
/// Adds one, and calls a compiled function when it sees a negation, which meets no interceptor; keeps what came of it.
struct Calls(compile::Compiled<Function>, Tensor, Mutex<Vec<f32>>);
impl Interceptor for Calls {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: Next<'_>) -> Outputs {
        if matches!(op, Op::Unary(Unary::Neg)) && !compile::is_capturing() {
            let called = self.0.call(&[&self.1]).and_then(|out| out[0].to_vec::<f32>());
            self.2.lock().unwrap().extend(called.unwrap());
        }
        shifted(1.0, op, arg, inputs, next)
    }
}
#[test]
fn what_is_captured_inside_an_interceptor_serves_those_around_it() -> Result<()> {
    let _alone = alone();
    naive::device(64, usize::MAX).scoped(|| {
        let x = Tensor::full([1], 2.0, DType::F32);
        let calls = Arc::new(Calls(compile(negated), x.clone(), Mutex::default()));
        let read = |t: &Tensor| t.to_vec::<f32>();
        // Captured below the interceptor, where nothing is added; then above it, where the interceptor acts.
        assert_eq!(with(calls.clone(), || read(&x.neg()))?, [-1.0]);
        assert_eq!(with(calls.clone(), || read(&calls.0.call(&[&x])?[0]))?, [-1.0]);
        assert_eq!(read(&calls.0.call(&[&x])?[0])?, [-2.0]);
        assert!(calls.2.lock().unwrap().iter().all(|v| *v == -2.0));
        Ok(())
    })
}
#[test]
fn an_identity_forgets_that_an_interceptor_works_below_itself() {
    let _alone = alone();
    Device::reference().make_current();
    /// Asks for the identity where it works.
    struct Asks(Mutex<Option<u64>>);
    impl Interceptor for Asks {
        fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: Next<'_>) -> Outputs {
            *self.0.lock().unwrap() = Some(adamant_core::Ambient::current().identity());
            next(op, arg, inputs)
        }
    }
    let (asks, none) = (Arc::new(Asks(Mutex::default())), adamant_core::Ambient::current().identity());
    let around = with(asks.clone(), || {
        let _applied = Tensor::ones([1]).neg();
        adamant_core::Ambient::current().identity()
    });
    assert_eq!(*asks.0.lock().unwrap(), Some(none));
    assert_ne!(around, none);
}
