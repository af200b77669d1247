//! Texts to machine code, by NVRTC: for the card's own architecture, or as PTX, which the driver translates, where the card is
//! newer than the compiler or takes no machine code. What was compiled is kept on disk under a hash of all that it depends on.
#![allow(unsafe_code)]
use crate::disk::KernelDisk;
use adamant_runtime::ErrorKind;
use cudarc::nvrtc::sys::{self, nvrtcResult};
use std::{
    ffi::CString,
    ptr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// What a text is compiled to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Image {
    /// machine code for one architecture
    Code,
    /// the driver's language, with a zero at its end
    Ptx,
}
/// What the compiler makes of a text, for tools that look at it.
pub struct CompiledImage {
    /// machine code as an ELF file, or PTX with a zero at its end
    pub image: Vec<u8>,
    /// what the compiler said: of machine code the registers, the memory and the spills of each function
    pub log: String,
}
/// The compiler for one card.
pub(crate) struct Compiler {
    /// the architecture of what is compiled, ten times major and minor
    arch: i32,
    version: (i32, i32),
    /// the card takes no machine code of this compiler
    wants_ptx: AtomicBool,
    /// nothing is compiled, and kernels do nothing
    is_idle: AtomicBool,
    disk: Option<KernelDisk>,
}
fn told(call: &str, code: nvrtcResult) -> Result<(), ErrorKind> {
    if code == nvrtcResult::NVRTC_SUCCESS { Ok(()) } else { Err(ErrorKind::Internal(format!("{call} says {code:?}"))) }
}
/// A program of the compiler, given back when it is dropped.
struct Program(sys::nvrtcProgram);
impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: it was made by `nvrtcCreateProgram` and is given back once.
        unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
    }
}
impl Compiler {
    /// The compiler for a card of an architecture, ten times major and minor.
    ///
    /// # Errors
    /// A card that the compiler knows nothing of and is older than all it knows.
    pub fn new(card: i32, disk: Option<KernelDisk>) -> Result<Compiler, ErrorKind> {
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: both are written.
        told("nvrtcVersion", unsafe { sys::nvrtcVersion(&mut major, &mut minor) })?;
        // SAFETY: it writes where it is told to.
        told("nvrtcGetNumSupportedArchs", unsafe { sys::nvrtcGetNumSupportedArchs(&mut count) })?;
        let mut known = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: as many are written as it said there are.
        told("nvrtcGetSupportedArchs", unsafe { sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) })?;
        let best = known.iter().copied().filter(|a| *a <= card).max();
        let arch = best.ok_or_else(|| {
            ErrorKind::DeviceAbsent(format!("NVRTC {major}.{minor} compiles for no card as old as this one, of compute capability {}.{}", card / 10, card % 10))
        })?;
        Ok(Compiler { arch, version: (major, minor), wants_ptx: AtomicBool::new(!known.contains(&card)), is_idle: AtomicBool::new(false), disk })
    }
    /// Where what was compiled is kept.
    pub fn disk(&self) -> Option<&KernelDisk> {
        self.disk.as_ref()
    }
    /// Its version, for people.
    pub fn described(&self) -> String {
        let how = if self.wants_ptx.load(Relaxed) { "PTX" } else { "machine code" };
        format!("NVRTC {}.{}, {how} of sm_{}", self.version.0, self.version.1, self.arch)
    }
    pub fn kind(&self) -> Image {
        if self.wants_ptx.load(Relaxed) { Image::Ptx } else { Image::Code }
    }
    /// The card refused machine code: from now on it is given PTX.
    pub fn fall_back(&self) {
        self.wants_ptx.store(true, Relaxed);
    }
    /// From now on nothing is compiled: kernels do nothing.
    pub fn idle(&self) {
        self.is_idle.store(true, Relaxed);
    }
    /// Compiles a text.
    ///
    /// # Errors
    /// It is no CUDA C++: the compiler's words.
    pub fn compile(&self, text: &str) -> Result<Vec<u8>, ErrorKind> {
        if self.is_idle.load(Relaxed) {
            return Ok(idle_kernels(text));
        }
        let kind = self.kind();
        let arguments = self.arguments(kind);
        let key = format!("{}.{}\0{}\0{text}", self.version.0, self.version.1, arguments.join(" "));
        if let Some(found) = self.disk.as_ref().and_then(|d| d.read(&key)) {
            return Ok(found);
        }
        let made = translate(text, &arguments, kind)?.image;
        if let Some(disk) = &self.disk {
            disk.keep(&key, &made);
        }
        Ok(made)
    }
    fn arguments(&self, kind: Image) -> Vec<String> {
        arguments(&format!("{}_{}", if kind == Image::Code { "sm" } else { "compute" }, self.arch))
    }
}
/// PTX of kernels that take what those of a text take, and do nothing.
fn idle_kernels(text: &str) -> Vec<u8> {
    let mut ptx = String::from(".version 7.0\n.target sm_75\n.address_size 64\n");
    for rest in text.split("void kernel_").skip(1) {
        let Some((name, parameters)) = rest.split_once(") {").and_then(|(signature, _)| signature.split_once('(')) else { continue };
        let parameters: Vec<String> = (0..parameters.split(',').count()).map(|k| format!(".param .u64 a{k}")).collect();
        ptx += &format!(".visible .entry kernel_{name}({})\n{{\nret;\n}}\n", parameters.join(", "));
    }
    ptx.push('\0');
    ptx.into_bytes()
}
/// What the compiler is told for an architecture, `sm_90` for machine code or `compute_90` for PTX.
fn arguments(architecture: &str) -> Vec<String> {
    // Products and sums are rounded one by one: fused = op by op.
    let others = ["--fmad=false", "--device-as-default-execution-space", "--std=c++17", "--disable-warnings", "--no-cache"];
    std::iter::once(format!("--gpu-architecture={architecture}")).chain(others.map(String::from)).collect()
}
/// Compiles a text for any architecture by the options of every kernel, and keeps what the compiler says.
///
/// # Errors
/// It is no CUDA C++, or there is no such architecture: the compiler's words.
pub(crate) fn compile_for(text: &str, architecture: &str) -> Result<CompiledImage, ErrorKind> {
    let kind = if architecture.starts_with("compute") { Image::Ptx } else { Image::Code };
    let mut arguments = arguments(architecture);
    if kind == Image::Code {
        arguments.push("--ptxas-options=-v".into());
    }
    translate(text, &arguments, kind)
}
fn translate(text: &str, arguments: &[String], kind: Image) -> Result<CompiledImage, ErrorKind> {
    let zero_ended = |s: &str| CString::new(s).map_err(|_| ErrorKind::Internal("a zero inside a text for the compiler".into()));
    let source = zero_ended(text)?;
    let arguments: Vec<CString> = arguments.iter().map(|a| zero_ended(a)).collect::<Result<_, _>>()?;
    let pointers: Vec<_> = arguments.iter().map(|a| a.as_ptr()).collect();
    let mut program = Program(ptr::null_mut());
    // SAFETY: the source ends in a zero and outlives the program; there are no headers.
    told("nvrtcCreateProgram", unsafe { sys::nvrtcCreateProgram(&mut program.0, source.as_ptr(), c"adamant.cu".as_ptr(), 0, ptr::null(), ptr::null()) })?;
    // SAFETY: as many arguments as it is told.
    let compiled = unsafe { sys::nvrtcCompileProgram(program.0, pointers.len() as i32, pointers.as_ptr()) };
    if compiled != nvrtcResult::NVRTC_SUCCESS {
        let log = log(&program).unwrap_or_default();
        return Err(ErrorKind::Internal(format!("NVRTC says {compiled:?}: {log}\nin the kernel\n{text}")));
    }
    let mut size = 0;
    let mut made;
    if kind == Image::Code {
        // SAFETY: it writes where it is told to.
        told("nvrtcGetCUBINSize", unsafe { sys::nvrtcGetCUBINSize(program.0, &mut size) })?;
        made = vec![0u8; size];
        // SAFETY: as many bytes are written as it said there are.
        told("nvrtcGetCUBIN", unsafe { sys::nvrtcGetCUBIN(program.0, made.as_mut_ptr().cast()) })?;
    } else {
        // SAFETY: it writes where it is told to.
        told("nvrtcGetPTXSize", unsafe { sys::nvrtcGetPTXSize(program.0, &mut size) })?;
        made = vec![0u8; size];
        // SAFETY: as many bytes are written as it said there are, the last of them zero.
        told("nvrtcGetPTX", unsafe { sys::nvrtcGetPTX(program.0, made.as_mut_ptr().cast()) })?;
        made.push(0);
    }
    Ok(CompiledImage { image: made, log: log(&program)? })
}
fn log(program: &Program) -> Result<String, ErrorKind> {
    let mut size = 0;
    // SAFETY: it writes where it is told to.
    told("nvrtcGetProgramLogSize", unsafe { sys::nvrtcGetProgramLogSize(program.0, &mut size) })?;
    let mut bytes = vec![0u8; size];
    // SAFETY: as many bytes are written as it said there are.
    told("nvrtcGetProgramLog", unsafe { sys::nvrtcGetProgramLog(program.0, bytes.as_mut_ptr().cast()) })?;
    Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_kernel_takes_what_the_kernel_takes() {
        let text =
            "static void kernel() {} extern \"C\" __global__ void kernel_1(const uint32_t *const words, const uint32_t *const gate, void *const buffer0) {
    if (gate) return; }
extern \"C\" __global__ void kernel_2(const uint32_t *const words) { }";
        let ptx = String::from_utf8(idle_kernels(text)).unwrap_or_default();
        assert!(ptx.contains(".entry kernel_1(.param .u64 a0, .param .u64 a1, .param .u64 a2)") && ptx.contains(".entry kernel_2(.param .u64 a0)"), "{ptx}");
        assert_eq!((ptx.matches(".entry").count(), ptx.ends_with('\0')), (2, true));
    }
}
