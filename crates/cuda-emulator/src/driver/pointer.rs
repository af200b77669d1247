//! What C hands over: places to write answers to, arrays and texts to read. Each is looked at for null, and nothing else
//! can be known of it; all that follows a caller's pointer stands here.
use super::code::{Answer, CudaCode};
use std::ffi::{CStr, c_char, c_void};

/// A place of the caller's that an answer is written to.
///
/// A value of it exists only as the argument of a call from C, whose caller promises that it is null or that a `T` may be
/// written there.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct OutPointer<T>(*mut T);

impl<T: Copy> OutPointer<T> {
    /// Refuses null.
    pub fn needed(self) -> Answer<OutPointer<T>> {
        if self.0.is_null() { Err(CudaCode::INVALID_VALUE) } else { Ok(self) }
    }
    /// Writes, or refuses null.
    pub fn set(self, value: T) -> Answer {
        self.needed()?;
        // SAFETY: it is not null, and the caller promises a place for a `T`; it need not be aligned.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }
    /// Writes where the caller wants to know.
    pub fn set_if_asked(self, value: T) {
        let _ = self.set(value);
    }
    /// What stands there, for arguments that are read and written.
    pub fn get(self) -> Answer<T> {
        self.needed()?;
        // SAFETY: it is not null, and the caller promises a `T` there.
        Ok(unsafe { self.0.read_unaligned() })
    }
    /// Writes as many values as fit; null is refused unless none do.
    pub fn fill(self, capacity: usize, values: &[T]) -> Answer {
        if capacity.min(values.len()) > 0 {
            self.needed()?;
        }
        for (k, value) in values.iter().take(capacity).enumerate() {
            // SAFETY: the caller promises space for `capacity` values.
            unsafe { self.0.add(k).write_unaligned(*value) };
        }
        Ok(())
    }
    /// The place number `k` of an array.
    pub fn moved(self, k: usize) -> OutPointer<T> {
        OutPointer(self.0.wrapping_add(k))
    }
    /// The same place, for an answer of another kind.
    pub fn cast<U>(self) -> OutPointer<U> {
        OutPointer(self.0.cast())
    }
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}
impl OutPointer<c_char> {
    /// Writes a text, cut to the capacity, and the zero behind it.
    pub fn text(self, text: &str, capacity: i32) -> Answer {
        let capacity = usize::try_from(capacity).ok().filter(|r| *r > 0).ok_or(CudaCode::INVALID_VALUE)?;
        let bytes: Vec<c_char> = text.bytes().take(capacity - 1).chain([0]).map(|b| b as c_char).collect();
        self.fill(capacity, &bytes)
    }
}

/// Something of the caller's that is read.
///
/// A value of it exists only as the argument of a call from C, whose caller promises that it is null or points to a `T`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct InPointer<T>(*const T);

impl<T: Copy> InPointer<T> {
    /// Reads, or refuses null.
    pub fn get(self) -> Answer<T> {
        self.at(0)
    }
    /// The value number `k`, or refuses null.
    pub fn at(self, k: usize) -> Answer<T> {
        if self.0.is_null() {
            return Err(CudaCode::INVALID_VALUE);
        }
        // SAFETY: it is not null, and the caller promises that many values.
        Ok(unsafe { self.0.add(k).read_unaligned() })
    }
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
    pub fn null() -> InPointer<T> {
        InPointer(std::ptr::null())
    }
}

/// A text of the caller's that ends with zero.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// A copy, or refuses null and what is not UTF-8.
    pub fn get(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(CudaCode::INVALID_VALUE);
        }
        // SAFETY: it is not null, and the caller promises a zero behind the text.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| CudaCode::INVALID_VALUE)
    }
}

/// Memory of the host's, by its address: a copy reads or writes it when it runs.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Host(*mut c_void);

// SAFETY: it is an address; who reads or writes there has the caller's promise that the memory lives until the work is done.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Host {
    /// The memory at an address of an allocation that is alive.
    pub fn at(address: u64) -> Host {
        Host(std::ptr::with_exposed_provenance_mut(address as usize))
    }
    pub fn address(self) -> u64 {
        self.0.expose_provenance() as u64
    }
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
    /// A copy of its bytes.
    pub fn read(self, bytes: usize) -> Vec<u8> {
        let mut copy = vec![0; bytes];
        if !self.is_null() {
            // SAFETY: the caller promises that many bytes until the work that reads them is done.
            unsafe { std::ptr::copy(self.0.cast::<u8>(), copy.as_mut_ptr(), bytes) };
        }
        copy
    }
    /// The text there up to its zero; none where it is not UTF-8 or longer.
    pub fn text(self, longest: usize) -> Option<String> {
        if self.is_null() {
            return None;
        }
        // SAFETY: it is not null, and the caller promises a zero behind the text.
        let text = unsafe { CStr::from_ptr(self.0.cast()) };
        text.to_str().ok().filter(|t| t.len() <= longest).map(str::to_owned)
    }
    /// Writes to it.
    pub fn write(self, from: &[u8]) {
        if !self.is_null() {
            // SAFETY: the caller promises space for that many bytes until the work that writes them is done.
            unsafe { std::ptr::copy(from.as_ptr(), self.0.cast::<u8>(), from.len()) };
        }
    }
}

/// A function of the caller's that a stream calls with a word of the caller's.
#[derive(Clone, Copy)]
pub(crate) struct HostCall {
    pub function: unsafe extern "C" fn(*mut c_void),
    pub word: Host,
}

impl HostCall {
    /// Calls it.
    pub fn call(self) {
        // SAFETY: the caller promises a function that may be called from any thread with its word.
        unsafe { (self.function)(self.word.0) };
    }
}
