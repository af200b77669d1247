//! The functions of an opened MPI library, with the types of its binary interface.
//!
//! A handle is an integer in one ABI and a pointer in the others, so the functions are typed by it ([`Functions`]); what is above sees handles
//! as words (`usize`) through [`MpiFunctions`]. Every function returns MPI's error as text. Who may call which, and when, is
//! said in [`crate::wire`].
use crate::abi::{AbiTable, MpiAbi, Predefined};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::{
    ffi::{OsStr, c_char, c_int, c_void},
    ptr,
};

/// A handle as the ABI passes it.
trait AbiHandle: Copy + 'static {
    fn from_word(word: usize) -> Self;
    fn word(self) -> usize;
}
impl AbiHandle for c_int {
    fn from_word(word: usize) -> c_int {
        word as c_int
    }
    fn word(self) -> usize {
        self as u32 as usize
    }
}
impl AbiHandle for *mut c_void {
    fn from_word(word: usize) -> *mut c_void {
        ptr::with_exposed_provenance_mut(word)
    }
    fn word(self) -> usize {
        self.expose_provenance()
    }
}
/// `MPI_Status`, as large as the largest.
#[repr(C, align(8))]
struct StatusWords([c_int; 16]);

macro_rules! functions {
    ($($field:ident = $symbol:literal($($arg:ty),*);)*) => {
        struct Functions<H> {
            $($field: unsafe extern "C" fn($($arg),*) -> c_int,)*
        }
        impl<H: AbiHandle> Functions<H> {
            /// All of them, or the names of those that are missing.
            fn load(library: &Library) -> Result<Functions<H>, Vec<&'static str>> {
                let mut missing = Vec::new();
                $(
                    // SAFETY: the type is the one that the standard gives the function of this name, with handles as this ABI has them; the
                    // library is never closed.
                    let $field = unsafe { library.get::<unsafe extern "C" fn($($arg),*) -> c_int>($symbol) };
                    if $field.is_err() {
                        missing.push($symbol);
                    }
                )*
                match ($($field,)*) {
                    ($(Ok($field),)*) => Ok(Functions { $($field: *$field,)* }),
                    _ => Err(missing),
                }
            }
        }
    };
}
functions! {
    init_thread = "MPI_Init_thread"(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    initialized = "MPI_Initialized"(*mut c_int);
    finalized = "MPI_Finalized"(*mut c_int);
    finalize = "MPI_Finalize"();
    query_thread = "MPI_Query_thread"(*mut c_int);
    error_string = "MPI_Error_string"(c_int, *mut c_char, *mut c_int);
    comm_size = "MPI_Comm_size"(H, *mut c_int);
    comm_rank = "MPI_Comm_rank"(H, *mut c_int);
    comm_set_errhandler = "MPI_Comm_set_errhandler"(H, H);
    comm_idup = "MPI_Comm_idup"(H, *mut H, *mut H);
    comm_split = "MPI_Comm_split"(H, c_int, c_int, *mut H);
    isend = "MPI_Isend"(*const c_void, c_int, H, c_int, c_int, H, *mut H);
    irecv = "MPI_Irecv"(*mut c_void, c_int, H, c_int, c_int, H, *mut H);
    recv = "MPI_Recv"(*mut c_void, c_int, H, c_int, c_int, H, *mut StatusWords);
    iprobe = "MPI_Iprobe"(c_int, c_int, H, *mut c_int, *mut StatusWords);
    test = "MPI_Test"(*mut H, *mut c_int, *mut StatusWords);
    cancel = "MPI_Cancel"(*mut H);
    allreduce = "MPI_Allreduce"(*const c_void, *mut c_void, c_int, H, H, H);
    iallreduce = "MPI_Iallreduce"(*const c_void, *mut c_void, c_int, H, H, H, *mut H);
    barrier = "MPI_Barrier"(H);
}

/// A request of MPI, of which one part of this crate is the owner.
#[derive(Debug)]
pub(crate) struct MpiRequest(usize);
/// The text that MPI gives an error.
pub(crate) type MpiResult<T> = Result<T, String>;
/// The functions, with handles as words.
///
/// # Safety
/// Of all: MPI is initialised and not finalised (but for `initialized` and `init`), no other thread is in a function of it, and
/// handles are live ones of this library.
#[allow(clippy::missing_safety_doc, reason = "said above, once for all")]
pub(crate) trait MpiFunctions: Send + Sync {
    fn table(&self) -> &'static AbiTable;
    /// The word of a handle that is there from the start.
    fn predefined(&self, handle: Predefined) -> usize;
    /// Was MPI initialised by somebody, and was it ended?
    unsafe fn state(&self) -> (bool, bool);
    /// Asks for a level of threads; gives the one that there is.
    unsafe fn init(&self, level: i32) -> MpiResult<i32>;
    unsafe fn thread_level(&self) -> MpiResult<i32>;
    unsafe fn finalize(&self) -> MpiResult<()>;
    unsafe fn rank_and_size(&self, comm: usize) -> MpiResult<(usize, usize)>;
    unsafe fn errors_return(&self, comm: usize) -> MpiResult<()>;
    /// The new communicator is written to `made`, as wide as a word, when the request is done.
    unsafe fn begin_dup(&self, comm: usize, made: *mut usize) -> MpiResult<MpiRequest>;
    /// The communicator that was written there.
    unsafe fn dup_made(&self, made: *const usize) -> usize;
    /// Waits for all ranks of the communicator.
    unsafe fn split(&self, comm: usize, member: Option<usize>) -> MpiResult<usize>;
    /// `bytes` are read until the request is done.
    unsafe fn begin_send(&self, bytes: *const u8, n: usize, to: usize, tag: i32, comm: usize) -> MpiResult<MpiRequest>;
    /// `bytes` are written until the request is done.
    unsafe fn begin_receive(&self, bytes: *mut u8, n: usize, from: usize, tag: i32, comm: usize) -> MpiResult<MpiRequest>;
    /// A message that is there: who sent it, after it was read.
    unsafe fn take(&self, bytes: &mut [u8], tag: i32, comm: usize) -> MpiResult<Option<usize>>;
    /// Is it done? Then the request is no more.
    unsafe fn is_done(&self, request: &mut MpiRequest) -> MpiResult<bool>;
    unsafe fn cancel(&self, request: &mut MpiRequest);
    /// `own` is read and `sum` written until the request is done.
    unsafe fn begin_sum(&self, own: *const u8, sum: *mut u8, elements: usize, dtype: usize, comm: usize) -> MpiResult<MpiRequest>;
    /// The same, waited for inside MPI.
    unsafe fn sum(&self, own: *const u8, sum: *mut u8, elements: usize, dtype: usize, comm: usize) -> MpiResult<()>;
    unsafe fn barrier(&self, comm: usize) -> MpiResult<()>;
}

/// The functions with their handles, and the library that they are of.
struct LoadedMpi<H> {
    functions: Functions<H>,
    library: Library,
    table: &'static AbiTable,
}
/// An opened library, before it is known to be of use.
pub(crate) struct OpenedLibrary {
    library: Library,
    /// what it tells of itself
    pub(crate) told: String,
}
impl OpenedLibrary {
    /// Opens it, so that the plugins which it opens find its symbols.
    ///
    /// # Errors
    /// The loader's text.
    pub(crate) fn open(name: Option<&OsStr>) -> Result<OpenedLibrary, String> {
        let library = match name {
            None => Library::this(),
            // SAFETY: what a library runs when it is opened, an MPI library runs in every program that is linked to it.
            Some(name) => unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) }
                .map_err(|e| std::error::Error::source(&e).map_or(e.to_string(), ToString::to_string))?,
        };
        // SAFETY: the standard's type; it may be called before MPI is initialised (MPI 3.1, section 8.7).
        let version = unsafe { library.get::<unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int>("MPI_Get_library_version") };
        let version = version.map_err(|_| "it has no MPI_Get_library_version".to_string())?;
        // As long as the longest that an ABI allows (the standard's: 8192).
        let (mut text, mut n) = (vec![0u8; 8192 + 1], 0);
        // SAFETY: `text` is as long as any library writes.
        unsafe { version(text.as_mut_ptr().cast(), &mut n) };
        text.truncate(usize::try_from(n).unwrap_or(0).min(8192));
        let told = String::from_utf8_lossy(&text).trim_end_matches('\0').to_string();
        Ok(OpenedLibrary { library, told })
    }
    /// Its functions.
    ///
    /// # Errors
    /// It has none of the three ABIs, or lacks functions.
    pub(crate) fn functions(self) -> Result<Box<dyn MpiFunctions>, String> {
        // SAFETY: the standard's type (MPI 5.0, section 20.2); it may be called before MPI is initialised.
        let version = unsafe { self.library.get::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>("MPI_Abi_get_version") };
        let version = version.ok().map(|version| {
            let (mut major, mut minor) = (-1, -1);
            // SAFETY: both are written.
            unsafe { version(&mut major, &mut minor) };
            major
        });
        let world = address(&self.library, "ompi_mpi_comm_world");
        match MpiAbi::of(version, world.is_some(), &self.told)? {
            MpiAbi::Mpich => loaded::<c_int>(self.library, MpiAbi::Mpich),
            abi => loaded::<*mut c_void>(self.library, abi),
        }
    }
}
fn address(library: &Library, symbol: &str) -> Option<usize> {
    // SAFETY: only the address is taken.
    unsafe { library.get::<*mut c_void>(symbol) }.ok().map(|found| found.as_raw_ptr().expose_provenance())
}
fn loaded<H: AbiHandle>(library: Library, abi: MpiAbi) -> Result<Box<dyn MpiFunctions>, String>
where
    LoadedMpi<H>: MpiFunctions,
{
    let functions = Functions::<H>::load(&library).map_err(|missing| format!("it lacks {}", missing.join(", ")))?;
    let table = abi.table();
    let needed = [table.world, table.errors_return, table.sum, table.byte].into_iter().chain(table.numbers);
    for handle in needed {
        if let Predefined::Symbol(symbol) = handle
            && address(&library, symbol).is_none()
        {
            return Err(format!("it lacks {symbol}"));
        }
    }
    Ok(Box::new(LoadedMpi { functions, library, table }))
}

/// At most as many as MPI can count.
fn count(n: usize) -> MpiResult<c_int> {
    c_int::try_from(n).map_err(|_| format!("{n} are more than MPI counts in one message"))
}
impl<H: AbiHandle> LoadedMpi<H> {
    fn result(&self, code: c_int) -> MpiResult<()> {
        if code == 0 {
            return Ok(());
        }
        let (mut text, mut n) = ([0u8; 1024], 0);
        // SAFETY: as long as the longest that an ABI allows (512); MPI lets it be called at any time after it was initialised.
        unsafe { (self.functions.error_string)(code, text.as_mut_ptr().cast(), &mut n) };
        let text = String::from_utf8_lossy(&text[..usize::try_from(n).unwrap_or(0).min(1024)]).to_string();
        Err(format!("MPI error {code}: {}", text.trim_end_matches('\0').replace('\n', "; ")))
    }
    fn byte(&self) -> H {
        H::from_word(self.predefined(self.table.byte))
    }
}
// Of each block: what the trait asks of its callers is what the function called asks, the pointers given it are to
// locals of the right type or the caller's.
impl<H: AbiHandle> MpiFunctions for LoadedMpi<H>
where
    LoadedMpi<H>: Send + Sync,
{
    fn table(&self) -> &'static AbiTable {
        self.table
    }
    fn predefined(&self, handle: Predefined) -> usize {
        match handle {
            Predefined::Value(word) => word,
            // Looked for when the library was loaded, so it is there.
            Predefined::Symbol(symbol) => address(&self.library, symbol).unwrap_or(0),
        }
    }
    unsafe fn state(&self) -> (bool, bool) {
        let (mut initialized, mut finalized) = (0, 0);
        // SAFETY: as said above.
        unsafe { (self.functions.initialized)(&mut initialized) };
        // SAFETY: as said above.
        unsafe { (self.functions.finalized)(&mut finalized) };
        (initialized != 0, finalized != 0)
    }
    unsafe fn init(&self, level: i32) -> MpiResult<i32> {
        let mut provided = 0;
        // SAFETY: as said above.
        let code = unsafe { (self.functions.init_thread)(ptr::null_mut(), ptr::null_mut(), level, &mut provided) };
        self.result(code).map(|()| provided)
    }
    unsafe fn thread_level(&self) -> MpiResult<i32> {
        let mut level = 0;
        // SAFETY: as said above.
        self.result(unsafe { (self.functions.query_thread)(&mut level) }).map(|()| level)
    }
    unsafe fn finalize(&self) -> MpiResult<()> {
        // SAFETY: as said above.
        match unsafe { (self.functions.finalize)() } {
            0 => Ok(()),
            code => Err(format!("MPI error {code}")),
        }
    }
    unsafe fn rank_and_size(&self, comm: usize) -> MpiResult<(usize, usize)> {
        let (mut rank, mut size, comm) = (0, 0, H::from_word(comm));
        // SAFETY: as said above.
        self.result(unsafe { (self.functions.comm_rank)(comm, &mut rank) })?;
        // SAFETY: as said above.
        self.result(unsafe { (self.functions.comm_size)(comm, &mut size) })?;
        usize::try_from(rank).ok().zip(usize::try_from(size).ok()).ok_or_else(|| format!("MPI says rank {rank} of {size}"))
    }
    unsafe fn errors_return(&self, comm: usize) -> MpiResult<()> {
        let handler = H::from_word(self.predefined(self.table.errors_return));
        // SAFETY: as said above.
        self.result(unsafe { (self.functions.comm_set_errhandler)(H::from_word(comm), handler) })
    }
    unsafe fn begin_dup(&self, comm: usize, made: *mut usize) -> MpiResult<MpiRequest> {
        let mut request = H::from_word(0);
        // SAFETY: as said above.
        let code = unsafe { (self.functions.comm_idup)(H::from_word(comm), made.cast(), &mut request) };
        self.result(code).map(|()| MpiRequest(request.word()))
    }
    unsafe fn dup_made(&self, made: *const usize) -> usize {
        // SAFETY: as said above.
        unsafe { made.cast::<H>().read() }.word()
    }
    unsafe fn split(&self, comm: usize, member: Option<usize>) -> MpiResult<usize> {
        let (colour, key) = member.map_or(Ok((self.table.undefined, 0)), |place| count(place).map(|place| (0, place)))?;
        let mut made = H::from_word(0);
        // SAFETY: as said above.
        let code = unsafe { (self.functions.comm_split)(H::from_word(comm), colour, key, &mut made) };
        self.result(code).map(|()| made.word())
    }
    unsafe fn begin_send(&self, bytes: *const u8, n: usize, to: usize, tag: i32, comm: usize) -> MpiResult<MpiRequest> {
        let mut request = H::from_word(0);
        // SAFETY: as said above.
        let code = unsafe { (self.functions.isend)(bytes.cast(), count(n)?, self.byte(), count(to)?, tag, H::from_word(comm), &mut request) };
        self.result(code).map(|()| MpiRequest(request.word()))
    }
    unsafe fn begin_receive(&self, bytes: *mut u8, n: usize, from: usize, tag: i32, comm: usize) -> MpiResult<MpiRequest> {
        let mut request = H::from_word(0);
        // SAFETY: as said above.
        let code = unsafe { (self.functions.irecv)(bytes.cast(), count(n)?, self.byte(), count(from)?, tag, H::from_word(comm), &mut request) };
        self.result(code).map(|()| MpiRequest(request.word()))
    }
    unsafe fn take(&self, bytes: &mut [u8], tag: i32, comm: usize) -> MpiResult<Option<usize>> {
        let (mut flag, mut status, comm) = (0, StatusWords([0; 16]), H::from_word(comm));
        // SAFETY: as said above.
        self.result(unsafe { (self.functions.iprobe)(self.table.any_source, tag, comm, &mut flag, &mut status) })?;
        if flag == 0 {
            return Ok(None);
        }
        let from = status.0[self.table.source_at];
        // SAFETY: as said above.
        self.result(unsafe { (self.functions.recv)(bytes.as_mut_ptr().cast(), count(bytes.len())?, self.byte(), from, tag, comm, &mut status) })?;
        usize::try_from(from).map(Some).map_err(|_| format!("a message of rank {from}"))
    }
    unsafe fn is_done(&self, request: &mut MpiRequest) -> MpiResult<bool> {
        let (mut flag, mut status, mut handle) = (0, StatusWords([0; 16]), H::from_word(request.0));
        // SAFETY: as said above.
        let code = unsafe { (self.functions.test)(&mut handle, &mut flag, &mut status) };
        request.0 = handle.word();
        self.result(code).map(|()| flag != 0)
    }
    unsafe fn cancel(&self, request: &mut MpiRequest) {
        let mut handle = H::from_word(request.0);
        // SAFETY: as said above.
        unsafe { (self.functions.cancel)(&mut handle) };
    }
    unsafe fn begin_sum(&self, own: *const u8, sum: *mut u8, elements: usize, dtype: usize, comm: usize) -> MpiResult<MpiRequest> {
        let (mut request, op) = (H::from_word(0), H::from_word(self.predefined(self.table.sum)));
        let (n, dtype, comm) = (count(elements)?, H::from_word(dtype), H::from_word(comm));
        // SAFETY: as said above.
        let code = unsafe { (self.functions.iallreduce)(own.cast(), sum.cast(), n, dtype, op, comm, &mut request) };
        self.result(code).map(|()| MpiRequest(request.word()))
    }
    unsafe fn sum(&self, own: *const u8, sum: *mut u8, elements: usize, dtype: usize, comm: usize) -> MpiResult<()> {
        let op = H::from_word(self.predefined(self.table.sum));
        let (n, dtype, comm) = (count(elements)?, H::from_word(dtype), H::from_word(comm));
        // SAFETY: as said above.
        self.result(unsafe { (self.functions.allreduce)(own.cast(), sum.cast(), n, dtype, op, comm) })
    }
    unsafe fn barrier(&self, comm: usize) -> MpiResult<()> {
        // SAFETY: as said above.
        self.result(unsafe { (self.functions.barrier)(H::from_word(comm)) })
    }
}
