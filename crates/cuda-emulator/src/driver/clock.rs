//! Time that is computed: the host's calls take a fixed time each, copies and kernels what their sizes say.
//!
//! It says what overlaps and what waits, not how fast a card is: the same program on any machine gives the same times.
use super::profile::CardProfile;

/// What does a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CardEngine {
    /// Kernels, products, copies within the device.
    Compute,
    /// Copies to the device.
    Up,
    /// Copies from the device.
    Down,
    /// Functions of the host's, and what takes no time.
    Host,
}
/// A piece of work on the virtual clock.
#[derive(Debug, Clone, PartialEq)]
pub struct CardSpan {
    /// A kernel's name, or that of the call.
    pub what: String,
    /// What did it.
    pub engine: CardEngine,
    /// The stream's handle.
    pub stream: u64,
    /// Nanoseconds since the emulator began.
    pub start: f64,
    /// Nanoseconds since the emulator began.
    pub end: f64,
}

/// A call of the driver's takes the host this long, ns.
const CALL: f64 = 500.0;
/// A copy and a kernel take this long where they do nothing, ns.
const COPY: f64 = 1_500.0;
const KERNEL: f64 = 2_500.0;
/// Instructions of a warp that a multiprocessor does in a clock.
const ISSUED: f64 = 2.0;
/// Multiply-adds that a multiprocessor's tensor cores do in a clock.
const PRODUCT: f64 = 512.0;

/// The host's time, and when each engine is free.
#[derive(Debug, Clone, Default)]
pub(crate) struct VirtualClock {
    pub host: f64,
    compute: f64,
    up: f64,
    down: f64,
}

impl VirtualClock {
    /// The host called.
    pub fn called(&mut self) {
        self.host += CALL;
    }
    /// The host waited until then.
    pub fn waited(&mut self, until: f64) {
        self.host = self.host.max(until);
    }
    /// An engine does work that may begin at `ready` and takes `duration`: when it begins and ends.
    pub fn run(&mut self, engine: CardEngine, ready: f64, duration: f64) -> (f64, f64) {
        let free = match engine {
            CardEngine::Compute => &mut self.compute,
            CardEngine::Up => &mut self.up,
            CardEngine::Down => &mut self.down,
            CardEngine::Host => return (ready, ready + duration),
        };
        let start = ready.max(*free);
        *free = start + duration;
        (start, *free)
    }
}

/// How long bytes take over the way to the host.
pub(crate) fn crossing(profile: &CardProfile, bytes: u64) -> f64 {
    COPY + bytes as f64 / profile.rates.1 * 1e9
}
/// How long bytes take to be read and written within the device.
pub(crate) fn moving(profile: &CardProfile, bytes: u64) -> f64 {
    KERNEL + 2.0 * bytes as f64 / profile.rates.0 * 1e9
}
/// How long a kernel takes: its instructions, or what it reads and writes.
pub(crate) fn executing(profile: &CardProfile, instructions: u64, bytes: u64) -> f64 {
    let a_second = f64::from(profile.processors) * f64::from(profile.clocks.0) * 1e3 * ISSUED;
    KERNEL + (instructions as f64 / a_second).max(bytes as f64 / profile.rates.0) * 1e9
}
/// How long a product's multiply-adds take.
pub(crate) fn multiplying(profile: &CardProfile, products: f64) -> f64 {
    let a_second = f64::from(profile.processors) * f64::from(profile.clocks.0) * 1e3 * PRODUCT;
    KERNEL + products / a_second * 1e9
}
