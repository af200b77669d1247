//! How a function that is made of other ops is written: its checks use `?`, what it records carries the user's line,
//! and an error that its own checks find names it.
use super::Tensor;
use crate::{
    Error, ErrorKind, Origin,
    record::context,
    scope::{self, CallGuard, CalledId},
};

/// Why a composed function cannot be built: a kind (the function's name and the user's line are added), or a whole error.
pub(crate) enum Refusal {
    Kind(ErrorKind),
    Error(Error),
}
impl From<ErrorKind> for Refusal {
    fn from(kind: ErrorKind) -> Refusal {
        Refusal::Kind(kind)
    }
}
impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Error(error)
    }
}
pub(crate) type Built<T> = std::result::Result<T, Refusal>;

/// A result that can stand for an error.
pub(crate) trait Failing {
    fn failing(error: Error) -> Self;
    fn carried(&self) -> Option<Error>;
}
impl Failing for Tensor {
    fn failing(error: Error) -> Tensor {
        Tensor::failed(error)
    }
    fn carried(&self) -> Option<Error> {
        self.error()
    }
}
impl Failing for (Tensor, Tensor) {
    fn failing(error: Error) -> (Tensor, Tensor) {
        (Tensor::failed(error.clone()), Tensor::failed(error))
    }
    fn carried(&self) -> Option<Error> {
        self.0.error().or_else(|| self.1.error())
    }
}
impl Failing for (Tensor, Tensor, Tensor) {
    fn failing(error: Error) -> (Tensor, Tensor, Tensor) {
        (Tensor::failed(error.clone()), Tensor::failed(error.clone()), Tensor::failed(error))
    }
    fn carried(&self) -> Option<Error> {
        self.0.error().or_else(|| self.1.error()).or_else(|| self.2.error())
    }
}
impl<T> Failing for crate::Result<T> {
    fn failing(error: Error) -> crate::Result<T> {
        Err(error)
    }
    fn carried(&self) -> Option<Error> {
        self.as_ref().err().cloned()
    }
}

/// A function that reduces axes away, and its form that keeps them with size 1: there are two names where PyTorch has a flag.
macro_rules! two_forms {
    ($($(#[$doc:meta])+ $name:ident $keepdim:ident ($($arg:ident: $t:ty),*) -> $out:ty = |$x:ident, $keep:ident| $body:expr;)*) => {
        impl Tensor { $(
            $(#[$doc])+
            #[track_caller]
            pub fn $name(&self $(, $arg: $t)*) -> $out {
                let _call = crate::scope::call(stringify!($name));
                let ($x, $keep) = (self, false);
                $body
            }
            #[doc = concat!("As [`Tensor::", stringify!($name), "`], keeping the axes with size 1.")]
            #[track_caller]
            pub fn $keepdim(&self $(, $arg: $t)*) -> $out {
                let _call = crate::scope::call(stringify!($keepdim));
                let ($x, $keep) = (self, true);
                $body
            }
        )* }
    };
}
pub(super) use two_forms;

/// Builds a composed function: the first error of the inputs, else what `f` gives.
#[track_caller]
pub(crate) fn compose<T: Failing>(op: &'static str, inputs: &[&Tensor], f: impl FnOnce() -> Built<T>) -> T {
    let origin = Origin::here();
    let guard = match begin(op, inputs, origin) {
        Ok(guard) => guard,
        Err(error) => return T::failing(error),
    };
    let built = f();
    drop(guard);
    match built {
        Ok(t) => match t.carried() {
            None => t,
            Some(error) => T::failing(of_call(error, op, inputs, origin)),
        },
        Err(refusal) => T::failing(of_call(refusal.told(op, origin), op, inputs, origin)),
    }
}
/// An error met inside a function, told with what the function was given. One that came in with a tensor stays what it is.
#[cold]
fn of_call(error: Error, op: &'static str, inputs: &[&Tensor], origin: Origin) -> Error {
    let outermost = origin.called == CalledId::default();
    let own = error.op() == scope::called_name(origin.called).unwrap_or(op) && error.location() == origin.at;
    if own && (outermost || error.inputs().is_empty()) { error.given(inputs.iter().map(|t| t.meta().ty())) } else { error }
}
// What is the same for every function is compiled once: there are hundreds of them.
#[inline(never)]
fn begin(op: &'static str, inputs: &[&Tensor], origin: Origin) -> Result<CallGuard, Error> {
    if let Some(error) = inputs.iter().find_map(|t| t.error()) {
        return Err(error);
    }
    // What the ops inside are refused for is asked once: shapes of values that failed would be looked at else.
    if context(|c| c.alive(op)).is_err() {
        return Err(Error::at(op, ErrorKind::ThreadEnding, origin));
    }
    Ok(scope::call_at(op, origin))
}
impl Refusal {
    #[cold]
    fn told(self, op: &'static str, origin: Origin) -> Error {
        match self {
            Refusal::Kind(kind) => Error::at(op, kind, origin),
            Refusal::Error(error) => error,
        }
    }
}
/// As [`compose`], for functions of one tensor, which is handed on.
#[track_caller]
pub(crate) fn compose1<T: Failing>(op: &'static str, x: &Tensor, f: impl FnOnce(&Tensor) -> Built<T>) -> T {
    compose(op, &[x], || f(x))
}
/// A function of an axis on a scalar, which counts as one element along axis 0, as in PyTorch.
pub(crate) fn on_an_axis(x: &Tensor) -> (Tensor, bool) {
    if x.rank() == 0 && x.error().is_none() { (x.reshape([1usize]), true) } else { (x.clone(), false) }
}
/// An argument that is refused.
pub(crate) fn refuse<T>(why: impl Into<String>) -> Built<T> {
    Err(Refusal::Kind(ErrorKind::Argument(why.into())))
}
