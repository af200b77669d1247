//! The way in: what every call from C goes through before it does anything of its own.
//!
//! A call is counted, may be planted to fail, holds the one lock of all tables, and answers a number whatever happens: a
//! panic in here is a finding and `CUDA_ERROR_UNKNOWN`, never an unwinding through C.
use super::code::{Answer, CudaCode};
use super::perform::IN_CALLBACK;
use super::state::{DriverState, with_contexts};
use crate::emulator::installed_state;
use crate::machine::finding::FindingKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// An exported function: its name, how wide its arguments are, where it is, how often it was called.
#[derive(Clone, Copy)]
pub(crate) struct Export {
    pub name: &'static str,
    pub arguments: &'static [usize],
    pub function: *const std::ffi::c_void,
    pub calls: &'static AtomicU64,
}

/// Answers of a library: numbers, among them those for what has no other.
pub(crate) trait CallStatus {
    fn of(number: u32) -> Self;
    fn number(&self) -> u32;
    /// The emulator failed.
    fn unknown() -> Self;
    /// A function of the host's, called by a stream, calls.
    fn forbidden() -> Self;
    /// Nothing is installed.
    fn absent() -> Self;
}
impl CallStatus for CudaCode {
    fn of(number: u32) -> CudaCode {
        CudaCode(number)
    }
    fn number(&self) -> u32 {
        self.0
    }
    fn unknown() -> CudaCode {
        CudaCode::UNKNOWN
    }
    fn forbidden() -> CudaCode {
        CudaCode::NOT_PERMITTED
    }
    fn absent() -> CudaCode {
        CudaCode::NOT_INITIALIZED
    }
}

/// Runs the body of a call and gives its number.
pub(crate) fn call<S: CallStatus>(name: &'static str, calls: &AtomicU64, body: impl FnOnce(&mut DriverState) -> Result<(), S>) -> u32 {
    let answer = if IN_CALLBACK.get() {
        Err(S::forbidden())
    } else {
        installed_state().map_or_else(|| Err(S::absent()), |state| called(&mut state.lock(), name, calls, body))
    };
    answer.err().map_or(0, |status| status.number())
}
/// The same with the tables in hand.
fn called<S: CallStatus>(
    state: &mut DriverState,
    name: &'static str,
    calls: &AtomicU64,
    body: impl FnOnce(&mut DriverState) -> Result<(), S>,
) -> Result<(), S> {
    calls.fetch_add(1, Ordering::Relaxed);
    state.clock.called();
    if let Some(planted) = state.planted_for(name) {
        return Err(S::of(planted));
    }
    catch_unwind(AssertUnwindSafe(|| body(state))).unwrap_or_else(|panic| {
        let why = panic.downcast_ref::<&str>().map(|s| (*s).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
        state.find_of_call(FindingKind::EmulatorFailed, name, why.unwrap_or_default(), None);
        Err(S::unknown())
    })
}

impl DriverState {
    /// The error that was planted for this call, if its turn has come.
    pub fn planted_for(&mut self, name: &str) -> Option<u32> {
        if self.planted.is_empty() {
            return None;
        }
        for planted in self.planted.iter_mut().filter(|p| p.call == name) {
            planted.left = planted.left.saturating_sub(1);
        }
        let k = self.planted.iter().position(|p| p.call == name && p.left == 0)?;
        let code = self.planted.swap_remove(k).code;
        let current = with_contexts(|all| all.last().copied());
        if let Some(current) = current.filter(|_| CudaCode(code).stays() && name.starts_with("cu") && !name.starts_with("cublas")) {
            self.lose(current, CudaCode(code));
        }
        Some(code)
    }
    /// An answer that does not depend on whether the driver was initialised.
    pub fn always(&self) -> Answer {
        Ok(())
    }
}

/// Functions that C calls, each with its body over the tables, and a table of them all.
macro_rules! calls {
    ($table:ident, $status:ty; $($(#[$meta:meta])* fn $name:ident($state:ident $(, $argument:ident: $kind:ty)* $(,)?) $body:block)*) => {
        $(
            $(#[$meta])*
            #[allow(non_snake_case, unused_variables, clippy::needless_return)]
            unsafe extern "C" fn $name($($argument: $kind),*) -> u32 {
                $crate::driver::entry::call(stringify!($name), &counts::$name, move |$state| -> Result<(), $status> { $body })
            }
        )*
        #[allow(non_upper_case_globals)]
        mod counts {
            $(pub(super) static $name: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);)*
        }
        /// The functions of this file.
        pub(crate) fn $table() -> Vec<$crate::driver::entry::Export> {
            vec![$($crate::driver::entry::Export {
                name: stringify!($name),
                arguments: &[$(std::mem::size_of::<$kind>()),*],
                function: $name as *const std::ffi::c_void,
                calls: &counts::$name,
            }),*]
        }
    };
}
pub(crate) use calls;
