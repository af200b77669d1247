//! Kernels: images become code, launches become runs of the machine, and what it finds becomes an answer.
use super::clock::{CardEngine, executing};
use super::code::{Answer, CudaCode};
use super::order::{Range, WorkNow};
use super::pointer::Host;
use super::profile::CardProfile;
use super::state::DriverState;
use crate::emulator::EmulatedFault;
use crate::machine::finding::FindingKind;
use crate::machine::{Conduct, Launch, LoadError, Loaded, Module, Parameter, next_serial, run_unordered, touched};
use crate::memory::DeviceMemory;
use std::sync::Arc;

/// The newest PTX that a driver for CUDA 13.0 takes, times ten.
const PTX_VERSION: u32 = 90;
/// How images of machine code begin: an ELF file, a bundle of several.
const ELF: [u8; 4] = [0x7f, b'E', b'L', b'F'];
const BUNDLE: [u8; 4] = [0x50, 0xed, 0x55, 0xba];
/// Fewer warps than this are done before another thread of the host has begun.
const WARPS_FOR_A_THREAD: usize = 64;
/// The longest text that is looked at.
const LONGEST: usize = 1 << 30;

/// A launch that is yet to run.
pub(crate) struct KernelLaunch {
    /// The function's handle.
    pub function: u64,
    pub name: Arc<str>,
    pub loaded: Arc<LoadedCode>,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    /// What the kernel declares on top.
    pub own_shared: u32,
    pub parameters: Vec<u8>,
}
/// What the driver has to know of a kernel.
pub(crate) struct KernelFacts {
    pub name: Arc<str>,
    pub parameters: Vec<Parameter>,
    pub parameter_bytes: usize,
    pub shared_bytes: u32,
    pub local_bytes: u32,
    pub max_threads: Option<u32>,
}
/// A module's code with the places of its variables, and the memory that holds them.
pub(crate) struct LoadedCode {
    loaded: Loaded,
    memory: Arc<DeviceMemory>,
}

impl LoadedCode {
    /// A variable's address and bytes.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.loaded.global(name)
    }
}
impl Drop for LoadedCode {
    fn drop(&mut self) {
        self.loaded.unload(&self.memory);
    }
}

/// The text of an image; machine code is refused.
pub(crate) fn text_of(image: Host) -> Result<String, (CudaCode, String)> {
    if image.is_null() {
        return Err((CudaCode::INVALID_VALUE, String::new()));
    }
    let head = image.read(4);
    if head == ELF || head == BUNDLE {
        return Err((CudaCode::NO_BINARY_FOR_GPU, "the emulator runs PTX; this is machine code for a card".into()));
    }
    image.text(LONGEST).ok_or_else(|| (CudaCode::INVALID_IMAGE, "the image is no text".into()))
}
/// The architecture that a text is for, and whether it is for that one alone.
pub(crate) fn target_of(text: &str) -> Option<(u32, char)> {
    let target = text.lines().find_map(|l| l.trim().strip_prefix(".target"))?.trim();
    let number: String = target.strip_prefix("sm_")?.chars().take_while(char::is_ascii_digit).collect();
    let behind = target.strip_prefix("sm_")?.chars().nth(number.len());
    Some((number.parse().ok()?, behind.filter(|c| matches!(c, 'a' | 'f')).unwrap_or(' ')))
}
/// Refuses texts that a card or a driver is too old for.
pub(crate) fn check_target(text: &str, profile: &CardProfile) -> Result<(), (CudaCode, String)> {
    let invalid = |what: &str| (CudaCode::INVALID_PTX, format!("the text names no {what}"));
    let version = text.lines().find_map(|l| l.trim().strip_prefix(".version")).ok_or_else(|| invalid("version"))?;
    let mut parts = version.trim().split('.').map(|p| p.trim().parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor))) = (parts.next(), parts.next()) else { return Err(invalid("version")) };
    if 10 * major + minor > PTX_VERSION {
        return Err((CudaCode::UNSUPPORTED_PTX_VERSION, format!("PTX {major}.{minor} is newer than the driver's 9.0")));
    }
    let (target, only) = target_of(text).ok_or_else(|| invalid("target"))?;
    let mine = profile.architecture();
    let runs = match only {
        'a' => target == mine,
        'f' => target / 10 == mine / 10 && target <= mine,
        _ => target <= mine,
    };
    if runs { Ok(()) } else { Err((CudaCode::NO_BINARY_FOR_GPU, format!("a text for sm_{target}{only} does not run on {}", profile.name))) }
}
/// Reads a text and places its variables.
pub(crate) fn load(text: &str, memory: &Arc<DeviceMemory>) -> Result<Arc<LoadedCode>, (CudaCode, String)> {
    let module = Module::parse(text).map_err(|why| (CudaCode::INVALID_PTX, why.to_string()))?;
    let loaded = Loaded::new(module, memory).map_err(|why| match why {
        LoadError::OutOfMemory => (CudaCode::OUT_OF_MEMORY, why.to_string()),
        LoadError::NoSuchName(_) => (CudaCode::INVALID_PTX, why.to_string()),
    })?;
    Ok(Arc::new(LoadedCode { loaded, memory: memory.clone() }))
}
/// The kernels of a module.
pub(crate) fn kernels_of(code: &LoadedCode) -> Vec<Arc<KernelFacts>> {
    let facts = |k: &crate::machine::Kernel| KernelFacts {
        name: k.name.as_str().into(),
        parameters: k.parameters.clone(),
        parameter_bytes: k.parameter_bytes() as usize,
        shared_bytes: k.shared_bytes,
        local_bytes: k.local_bytes,
        max_threads: k.max_threads,
    };
    code.loaded.module().kernels().map(|k| Arc::new(facts(k))).collect()
}
/// What the driver answers where the machine found this.
fn answer_for(kind: FindingKind) -> CudaCode {
    match kind {
        FindingKind::Misaligned => CudaCode::MISALIGNED_ADDRESS,
        FindingKind::OutOfBounds | FindingKind::UseAfterFree | FindingKind::WriteToConstant => CudaCode::ILLEGAL_ADDRESS,
        FindingKind::Hung => CudaCode::LAUNCH_TIMEOUT,
        _ => CudaCode::LAUNCH_FAILED,
    }
}

impl DriverState {
    /// Runs a kernel.
    pub fn perform_launch(&mut self, launch: &KernelLaunch, present: &WorkNow, ready: f64, _by_graph: bool) -> Answer<(CardEngine, f64, f64)> {
        if let Some(planted) = self.planted_for(RUN) {
            return Err(CudaCode(planted));
        }
        let context = self.streams.get(&present.stamp.stream).map_or(0, |s| s.context);
        let memory = self.card(context)?.memory.clone();
        let blocks = launch.grid.iter().map(|g| *g as usize).product::<usize>();
        let warps = blocks.saturating_mul(launch.block.iter().product::<u32>().div_ceil(32) as usize);
        let threads = self.options.threads.min(warps / WARPS_FOR_A_THREAD).max(1);
        let wrong_matrices = self.goes_wrong(EmulatedFault::Matrices);
        let conduct = Conduct { seed: self.random.next(), threads, wrong_matrices, ..Conduct::default() };
        let asked = Launch { kernel: &launch.name, grid: launch.grid, block: launch.block, dynamic_shared: launch.shared, parameters: &launch.parameters };
        let first = next_serial();
        let unordered = std::mem::take(&mut self.unordered);
        match run_unordered(&launch.loaded.loaded, &asked, &memory, &conduct, &unordered.launches) {
            Ok(ran) => {
                let mine = [(first, next_serial())];
                let met = |((from, bytes, wrote), _): &&(Range, Arc<str>)| touched(&memory, *from, *bytes, &mine, *wrote).is_some();
                if let Some(((from, ..), other)) = unordered.ranges.iter().find(met) {
                    let note = format!("it touches what `{other}` of another stream touched, and no event orders the two");
                    self.find_of_call(FindingKind::MissingEvent, &launch.name, note, Some(*from));
                }
                let (start, end) = self.clock.run(CardEngine::Compute, ready, executing(self.profile, ran.instructions, ran.global_bytes));
                Ok((CardEngine::Compute, start, end))
            }
            Err(mut finding) => {
                if finding.kind == FindingKind::MissingEvent {
                    finding.note = format!("no event orders it with `{}` of another stream", unordered.names.join("`, `"));
                }
                let code = answer_for(finding.kind);
                self.find(*finding);
                Err(code)
            }
        }
    }
}
/// What an error is planted for that comes when a kernel runs, not when it is asked for.
pub(crate) const RUN: &str = "kernel";
