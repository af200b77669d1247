//! What is around a computation, on other threads, in captures and in checkpoints.
mod naive;

use adamant_core::{
    Ambient, Arg, Cell, DType, Device, Op, Outputs, Result, Tensor, checkpoint, compile, grad,
    intercept::{Interceptor, with},
    no_grad,
    scalar::Unary,
    scope, with_eager,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// As autocast does: exponentials are taken in another dtype.
struct CastExp(DType);
impl Interceptor for CastExp {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs {
        if !matches!(op, Op::Unary(Unary::Exp)) {
            return next(op, arg, inputs);
        }
        let cast = inputs[0].cast(self.0);
        next(op, arg, &[&cast]).into_iter().map(|t| t.cast(inputs[0].dtype().unwrap_or(DType::F32))).collect()
    }
}
fn in_bf16() -> Arc<dyn Interceptor> {
    Arc::new(CastExp(DType::BF16))
}
fn in_f16() -> Arc<dyn Interceptor> {
    Arc::new(CastExp(DType::F16))
}
fn exp_of_a_third() -> f32 {
    Tensor::full([1], 1.0 / 3.0, DType::F32).exp().to_vec::<f32>().unwrap()[0]
}
/// Everything that an ambient carries, as this thread has it.
fn seen() -> (f32, bool, Device, String) {
    (exp_of_a_third(), grad::grad_enabled(), Device::current().unwrap(), scope::path(scope::current()))
}

#[test]
fn another_thread_computes_as_this_one_did() {
    let device = naive::device(64, usize::MAX);
    let (here, there, after) = device.scoped(|| {
        with(in_bf16(), || {
            no_grad(|| {
                let _layer = scope::enter("encoder");
                let ambient = Ambient::current();
                let other = ambient.clone();
                let thread = std::thread::spawn(move || {
                    Device::reference().make_current();
                    let before = seen();
                    let inside = {
                        let _around = other.enter();
                        seen()
                    };
                    (inside, before == seen())
                });
                let (there, restored) = thread.join().unwrap();
                (seen(), there, restored)
            })
        })
    });
    assert_eq!(here, there);
    assert!(after, "the thread got back what it had");
    assert_eq!((here.1, here.2, here.3.as_str()), (false, device, "encoder"));
    // The fault that this would find: a thread that was given nothing computes otherwise.
    let alone = std::thread::spawn(|| {
        Device::reference().make_current();
        seen()
    });
    let alone = alone.join().unwrap();
    assert!(alone.0 != here.0 && alone.1 != here.1 && alone.2 != here.2 && alone.3 != here.3, "{alone:?}");
}
#[test]
fn a_panic_gives_back_what_was_there() {
    Device::reference().make_current();
    let ambient = with(in_bf16(), || no_grad(Ambient::current));
    let before = seen();
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let _around = ambient.enter();
        assert_ne!(seen(), before);
        panic!("planted");
    }));
    assert!(ended.is_err());
    assert_eq!(seen(), before);
    // Eager and with an interceptor inside.
    let nested = with_eager(true, Ambient::current);
    with(in_f16(), || {
        let inside = seen();
        {
            let _around = nested.enter();
            assert_ne!(seen().0, inside.0);
        }
        assert_eq!(seen(), inside);
    });
}
#[test]
fn an_identity_is_that_of_interceptors_and_device() {
    Device::reference().make_current();
    let id = || Ambient::current().identity();
    let (a, b) = (in_bf16(), in_f16());
    let none = id();
    let of = |x: &Arc<dyn Interceptor>| with(x.clone(), id);
    assert!(of(&a) == of(&a) && of(&a) != of(&b) && of(&a) != none && of(&b) != none);
    let both = |x: &Arc<dyn Interceptor>, y: &Arc<dyn Interceptor>| with(x.clone(), || with(y.clone(), id));
    assert!(both(&a, &b) == both(&a, &b) && both(&a, &b) != both(&b, &a));
    assert_ne!(naive::device(64, usize::MAX).scoped(id), none);
    assert_eq!(no_grad(id), none);
    // Whoever comes to lie where one lay that is gone has a number of its own.
    let mut known = vec![none];
    for _ in 0..500 {
        known.push(with(in_bf16(), id));
    }
    known.sort_unstable();
    known.dedup();
    assert_eq!(known.len(), 501);
}
#[test]
fn two_interceptors_of_the_same_number_never_share_a_capture() -> Result<()> {
    let device = naive::device(64, usize::MAX);
    device.scoped(|| {
        let captures = std::sync::atomic::AtomicUsize::new(0);
        let f = compile(|x: &[Tensor]| {
            captures.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(vec![x[0].exp()])
        });
        let x = Tensor::full([1], 1.0 / 3.0, DType::F32);
        let call = || f.call(&[&x])?[0].to_vec::<f32>();
        let (plain, bf16, f16) = (x.exp().to_vec::<f32>()?, with(in_bf16(), || x.exp().to_vec::<f32>())?, with(in_f16(), || x.exp().to_vec::<f32>())?);
        assert!(plain != bf16 && bf16 != f16 && plain != f16);
        let (a, b) = (in_bf16(), in_f16());
        for _ in 0..3 {
            assert_eq!(call()?, plain);
            assert_eq!(with(a.clone(), call)?, bf16);
            assert_eq!(with(b.clone(), call)?, f16);
        }
        // One each, however often they are called.
        assert_eq!(captures.load(std::sync::atomic::Ordering::Relaxed), 3);
        Ok(())
    })
}
#[test]
fn a_checkpoint_is_computed_again_with_what_stood_around_it() -> Result<()> {
    Device::reference().make_current();
    let w = Cell::new(&Tensor::full([4], 0.3, DType::F32), true)?;
    let f = |w: &Tensor| (w * 1.7).exp();
    let gradient = |y: Tensor| -> Result<Vec<f32>> { y.sum(..).backward()?.of(&w).unwrap().to_vec::<f32>() };
    let (plain, kept) = with(in_bf16(), || (f(&w.get()), checkpoint(&[&w.get()], move |x| Ok(f(&x[0])))));
    // The walk back is outside, and on another thread has nothing around it at all.
    assert_eq!(gradient(plain)?, gradient(kept?)?);
    let none = checkpoint(&[&w.get()], move |x| Ok(f(&x[0])))?;
    assert_ne!(gradient(none)?, gradient(with(in_bf16(), || f(&w.get())))?, "a checkpoint without it has another gradient");
    Ok(())
}
