//! The emulated machine: put in place once in a process, then told what to do next and asked what it saw.
use crate::driver::clock::CardSpan;
use crate::driver::entry::Export;
use crate::driver::profile::{CardProfile, PROFILES};
use crate::driver::state::{DriverState, EmulatedLaunch, PlantedError};
use crate::driver::{exports, kernels};
use crate::machine::finding::Finding;
use crate::stub::{InstallError, StandIn, stand_in};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// What is emulated, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The card, by its architecture: `sm_70`, `sm_75`, `sm_80`, `sm_90` or `sm_120`.
    pub profile: String,
    /// Bytes of each card's memory; the card's own where none is given.
    pub memory: Option<u64>,
    /// Cards. None: `cuInit` answers `CUDA_ERROR_NO_DEVICE`.
    pub devices: usize,
    /// Draws every order that a program may not rely on.
    pub seed: u64,
    /// Threads of this machine that blocks are spread over.
    pub threads: usize,
    /// Kernels and products are counted and not run.
    pub null: bool,
    /// Launches and work on the virtual clock are noted down.
    pub record: bool,
    /// After an error that stays, a reset of the primary context makes the card work again; else only a new process does.
    pub reset_heals: bool,
    /// cuBLASLt offers no algorithm, or one that fails, as often as the seed says; else all that it offers work.
    pub stubborn: bool,
    /// What goes wrong.
    pub wrong: Vec<EmulatedFault>,
    /// Functions that the stand-ins lack: an old driver's.
    pub missing: Vec<String>,
    /// There is a cuBLASLt.
    pub cublaslt: bool,
    /// There is an NVML.
    pub nvml: bool,
    /// The driver maps memory to addresses.
    pub mapping: bool,
}

/// Makes another text of a module's PTX, or none. It may not call the driver.
pub type TextRewriter = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Something that a card, a driver or a library does wrong, for who tests whether that is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EmulatedFault {
    /// cuBLASLt's epilogues do nothing.
    Epilogue,
    /// A graph does its work at its first launch alone.
    StaleGraph,
    /// Products with TF32 round their inputs to three bits.
    Tf32,
    /// cuBLASLt's products leave out the last of the sums.
    Product,
    /// The matrix unit of a warp gives 0 for one element.
    Matrices,
    /// Addresses are mapped to the memory that was made first.
    Page,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            profile: "sm_90".into(),
            memory: None,
            devices: 1,
            seed: 0,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            null: false,
            record: false,
            reset_heals: true,
            stubborn: false,
            wrong: Vec::new(),
            missing: Vec::new(),
            cublaslt: true,
            nvml: true,
            mapping: true,
        }
    }
}

impl Options {
    /// A machine with one such card, all else as usual.
    pub fn of(profile: &str) -> Options {
        Options { profile: profile.into(), ..Options::default() }
    }
}

/// The emulated machine of this process.
///
/// ```
/// # #[cfg(all(target_os = "linux", target_arch = "x86_64"))] {
/// use adamant_cuda_emulator::{Emulator, Options};
/// let emulator = Emulator::install(Options::of("sm_80"))?;
/// // From here on `cudarc`, or whoever opens `libcuda.so.1`, finds an A100.
/// assert_eq!(emulator.profile().capability, (8, 0));
/// assert!(emulator.findings().is_empty());
/// # }
/// # Ok::<(), adamant_cuda_emulator::InstallError>(())
/// ```
pub struct Emulator {
    state: Mutex<DriverState>,
    exports: Vec<Export>,
}
// SAFETY: what is not Sync in it are addresses of functions of this crate, which any thread may call.
#[allow(unsafe_code, reason = "addresses of functions are raw pointers")]
unsafe impl Sync for Emulator {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "addresses of functions are raw pointers")]
unsafe impl Send for Emulator {}

static EMULATOR: OnceLock<Emulator> = OnceLock::new();

/// The tables, for who is called from C.
pub(crate) fn installed_state() -> Option<&'static Mutex<DriverState>> {
    EMULATOR.get().map(|e| &e.state)
}

impl Emulator {
    /// Stands in for CUDA's libraries in this process, from now on. Where that was done before, the emulator of then is
    /// given as it is; `reset` makes it another machine.
    ///
    /// # Errors
    /// The profile is unknown, or libraries cannot be stood in for here.
    pub fn install(options: Options) -> Result<&'static Emulator, InstallError> {
        static INSTALLING: Mutex<()> = Mutex::new(());
        let _one_at_a_time = INSTALLING.lock();
        if let Some(installed) = EMULATOR.get() {
            return Ok(installed);
        }
        let profile = profile_named(&options.profile)?;
        let functions = |all: &[Export]| all.iter().filter(|e| !options.missing.iter().any(|m| m == e.name)).map(|e| (e.name, e.function)).collect();
        let driver = exports();
        let mut libraries = vec![StandIn { sonames: &["libcuda.so.1", "libcuda.so"], functions: functions(&driver) }];
        let mut all = driver;
        if options.cublaslt {
            let exports = crate::library::cublaslt_exports();
            libraries.push(StandIn { sonames: &["libcublasLt.so.13", "libcublasLt.so"], functions: functions(&exports) });
            all.extend(exports);
        }
        if options.nvml {
            let exports = crate::library::nvml_exports();
            libraries.push(StandIn { sonames: &["libnvidia-ml.so.1", "libnvidia-ml.so"], functions: functions(&exports) });
            all.extend(exports);
        }
        stand_in(&libraries)?;
        Ok(EMULATOR.get_or_init(|| Emulator { state: Mutex::new(DriverState::new(options, profile)), exports: all }))
    }
    /// The emulator of this process, if there is one.
    pub fn installed() -> Option<&'static Emulator> {
        EMULATOR.get()
    }
    /// Makes it another machine whose driver nobody has called: handles, memory, findings, counts and plans are gone. Which
    /// libraries and functions there are stays as it was installed.
    ///
    /// # Errors
    /// The profile is unknown: nothing changes.
    pub fn reset(&self, options: Options) -> Result<(), InstallError> {
        let profile = profile_named(&options.profile)?;
        *self.state.lock() = DriverState::new(options, profile);
        for export in &self.exports {
            export.calls.store(0, Ordering::Relaxed);
        }
        Ok(())
    }
    /// What is emulated, and how.
    pub fn options(&self) -> Options {
        self.state.lock().options.clone()
    }
    /// The card.
    pub fn profile(&self) -> &'static CardProfile {
        self.state.lock().profile
    }
    /// Orders are drawn from this from now on.
    pub fn set_seed(&self, seed: u64) {
        let mut state = self.state.lock();
        state.options.seed = seed;
        state.random = crate::driver::state::DriverRandom::new(seed);
    }
    /// Each card has so many bytes from now on; what is allocated stays.
    pub fn set_memory_limit(&self, bytes: u64) {
        let state = self.state.lock();
        for device in &state.devices {
            device.memory.set_limit(bytes);
        }
    }
    /// Kernels and products are counted and not run, or run again.
    pub fn set_null(&self, null: bool) {
        self.state.lock().options.null = null;
    }
    /// Launches and spans are noted down from now on, or no more.
    pub fn set_record(&self, record: bool) {
        self.state.lock().options.record = record;
    }
    /// Whether a reset of the primary context makes a card work again after an error that stays.
    pub fn set_reset_heals(&self, heals: bool) {
        self.state.lock().options.reset_heals = heals;
    }
    /// Whether cuBLASLt sometimes offers nothing, or what fails.
    pub fn set_stubborn(&self, stubborn: bool) {
        self.state.lock().options.stubborn = stubborn;
    }
    /// What goes wrong from now on, and nothing else.
    pub fn set_wrong(&self, wrong: &[EmulatedFault]) {
        self.state.lock().options.wrong = wrong.to_vec();
    }
    /// The call number `nth` from now on of the function `call`, the next being 1, answers `code` and does nothing. An answer
    /// that stays makes the context answer it from then on.
    pub fn plant(&self, call: &str, nth: u64, code: u32) {
        self.state.lock().planted.push(PlantedError { call: call.into(), left: nth.max(1), code });
    }
    /// From now on what is loaded as a module's text is what `rewrite` makes of it, and the text itself where that is nothing; for
    /// who plants faults into kernels. Nothing: texts are loaded as they are.
    pub fn set_rewriter(&self, rewrite: Option<TextRewriter>) {
        self.state.lock().rewriter = rewrite;
    }
    /// The kernel number `nth` that runs from now on, the next being 1, fails with `code`: whoever waits is told.
    pub fn plant_in_kernel(&self, nth: u64, code: u32) {
        self.plant(kernels::RUN, nth, code);
    }
    /// Takes what was found since the last time.
    pub fn findings(&self) -> Vec<Finding> {
        std::mem::take(&mut self.state.lock().findings)
    }
    /// Takes the launches that were noted down since the last time.
    pub fn launches(&self) -> Vec<EmulatedLaunch> {
        std::mem::take(&mut self.state.lock().launches)
    }
    /// Takes the names of the calls in which the host waited since the last time.
    pub fn waits(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.state.lock().waits)
    }
    /// Takes the work that was done on the virtual clock since the last time, where it is noted down.
    pub fn spans(&self) -> Vec<CardSpan> {
        std::mem::take(&mut self.state.lock().spans)
    }
    /// The host's time on the virtual clock, in nanoseconds.
    pub fn clock(&self) -> f64 {
        self.state.lock().clock.host
    }
    /// How often each function was called since the last reset; those that never were are left out.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.exports.iter().map(|e| (e.name, e.calls.load(Ordering::Relaxed))).filter(|(_, count)| *count > 0).collect()
    }
    /// The functions of `libcuda`, `libcublasLt` and `libnvidia-ml` that there are, each with the bytes of its arguments.
    pub fn functions(&self) -> Vec<(&'static str, &'static [usize])> {
        self.exports.iter().map(|e| (e.name, e.arguments)).collect()
    }
    /// Bytes that are allocated on a card.
    pub fn memory_in_use(&self, device: usize) -> u64 {
        self.state.lock().devices.get(device).map_or(0, |d| d.memory.in_use())
    }
}

impl DriverState {
    /// Is this to go wrong?
    pub(crate) fn goes_wrong(&self, what: EmulatedFault) -> bool {
        self.options.wrong.contains(&what)
    }
}
fn profile_named(name: &str) -> Result<&'static CardProfile, InstallError> {
    CardProfile::named(name).ok_or_else(|| InstallError::UnknownProfile(name.into(), PROFILES.iter().map(|p| p.name).collect()))
}
