//! What the tests of kernels share: the real compiler, found where a program of a user would find it, and a device to launch
//! on. Without the compiler a test says that it was skipped.
#![allow(dead_code, unsafe_code, reason = "each test program uses a part; the compiler is a C library")]
use adamant_cuda_emulator::{
    machine::{Conduct, Finding, Launch, Loaded, Module, Ran, run},
    memory::DeviceMemory,
};
use bytemuck::Pod;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::{
    ffi::{CString, c_char, c_int, c_void},
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock},
};

/// The libraries of NVRTC, its builtins first: it looks those up by name.
struct Nvrtc {
    _builtins: Library,
    library: Library,
}

fn folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(path) = std::env::var_os("ADAMANT_CUDA_PATH") {
        folders.push(PathBuf::from(&path));
        folders.push(Path::new(&path).join("lib"));
    }
    if let Some(environment) = std::env::var_os("VIRTUAL_ENV")
        && let Ok(versions) = std::fs::read_dir(Path::new(&environment).join("lib"))
    {
        folders.extend(versions.flatten().map(|v| v.path().join("site-packages/nvidia/cu13/lib")));
    }
    folders
}
fn open(path: &Path) -> Option<Library> {
    // SAFETY: the compiler's libraries run nothing when opened but their own set-up.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.ok()
}
fn nvrtc() -> Option<&'static Mutex<Nvrtc>> {
    static FOUND: OnceLock<Option<Mutex<Nvrtc>>> = OnceLock::new();
    let find = || {
        folders().iter().find_map(|folder| {
            let _builtins = open(&folder.join("libnvrtc-builtins.so.13.0"))?;
            Some(Mutex::new(Nvrtc { _builtins, library: open(&folder.join("libnvrtc.so.13"))? }))
        })
    };
    FOUND.get_or_init(find).as_ref()
}

/// PTX of a text, or nothing where there is no compiler: then it says so.
pub fn compile(text: &str, options: &[&str]) -> Option<String> {
    let Some(nvrtc) = nvrtc() else {
        eprintln!("skipped: no NVRTC (set ADAMANT_CUDA_PATH, or activate a Python environment with nvidia-cuda-nvrtc)");
        return None;
    };
    let nvrtc = nvrtc.lock().unwrap();
    let library = &nvrtc.library;
    let (text, name) = (CString::new(text).unwrap(), CString::new("k.cu").unwrap());
    let options: Vec<CString> = options.iter().map(|o| CString::new(*o).unwrap()).collect();
    let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
    type Program = *mut c_void;
    // SAFETY: the signatures are those of nvrtc.h, and what is handed over lives until the calls return.
    unsafe {
        let create = library
            .get::<unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, *const c_void, *const c_void) -> c_int>(b"nvrtcCreateProgram")
            .unwrap();
        let run = library.get::<unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int>(b"nvrtcCompileProgram").unwrap();
        let size = |name: &[u8]| *library.get::<unsafe extern "C" fn(Program, *mut usize) -> c_int>(name).unwrap();
        let fetch = |name: &[u8]| *library.get::<unsafe extern "C" fn(Program, *mut u8) -> c_int>(name).unwrap();
        let mut program: Program = std::ptr::null_mut();
        assert_eq!(create(&mut program, text.as_ptr(), name.as_ptr(), 0, std::ptr::null(), std::ptr::null()), 0);
        let code = run(program, pointers.len() as c_int, pointers.as_ptr());
        let get = |size_of: &[u8], content: &[u8]| {
            let mut bytes = 0;
            assert_eq!(size(size_of)(program, &mut bytes), 0);
            let mut text = vec![0u8; bytes];
            assert_eq!(fetch(content)(program, text.as_mut_ptr()), 0);
            text.pop();
            String::from_utf8_lossy(&text).into_owned()
        };
        assert_eq!(code, 0, "NVRTC: {}", get(b"nvrtcGetProgramLogSize", b"nvrtcGetProgramLog"));
        let ptx = get(b"nvrtcGetPTXSize", b"nvrtcGetPTX");
        let destroy = library.get::<unsafe extern "C" fn(*mut Program) -> c_int>(b"nvrtcDestroyProgram").unwrap();
        destroy(&mut program);
        Some(ptx)
    }
}

/// A parameter of a launch.
#[derive(Clone, Copy)]
pub enum Arg {
    P(u64),
    I(i32),
    F(f32),
    L(i64),
    D(f64),
}

pub fn pack(args: &[Arg]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for arg in args {
        let next: Vec<u8> = match arg {
            Arg::P(x) => x.to_le_bytes().into(),
            Arg::I(x) => x.to_le_bytes().into(),
            Arg::F(x) => x.to_le_bytes().into(),
            Arg::L(x) => x.to_le_bytes().into(),
            Arg::D(x) => x.to_le_bytes().into(),
        };
        bytes.resize(bytes.len().next_multiple_of(next.len()), 0);
        bytes.extend(next);
    }
    bytes
}

/// A device with a module.
pub struct Rig {
    pub memory: DeviceMemory,
    pub loaded: Loaded,
    pub conduct: Conduct,
}

impl Rig {
    pub fn new(ptx: &str) -> Rig {
        let memory = DeviceMemory::new(1 << 30);
        let module = Module::parse(ptx).unwrap_or_else(|e| panic!("{e}"));
        let loaded = Loaded::new(module, &memory).unwrap();
        Rig { memory, loaded, conduct: Conduct { seed: 1, ..Conduct::default() } }
    }
    /// The module of a text, where there is a compiler.
    pub fn of(text: &str, options: &[&str]) -> Option<Rig> {
        compile(text, options).map(|ptx| Rig::new(&ptx))
    }
    pub fn upload<T: Pod>(&self, data: &[T]) -> u64 {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let address = self.memory.allocate(bytes.len() as u64).unwrap();
        self.memory.write(address, bytes).unwrap();
        address
    }
    pub fn empty<T: Pod>(&self, count: usize) -> u64 {
        self.memory.allocate((count * size_of::<T>()) as u64).unwrap()
    }
    pub fn download<T: Pod>(&self, address: u64, count: usize) -> Vec<T> {
        let mut bytes = vec![0u8; count * size_of::<T>()];
        self.memory.read(address, &mut bytes).unwrap();
        bytemuck::pod_collect_to_vec(&bytes)
    }
    pub fn launch(&self, kernel: &str, grid: [u32; 3], block: [u32; 3], dynamic_shared: u32, args: &[Arg]) -> Result<Ran, Box<Finding>> {
        let parameters = pack(args);
        run(&self.loaded, &Launch { kernel, grid, block, dynamic_shared, parameters: &parameters }, &self.memory, &self.conduct)
    }
    /// A launch that must end well, of blocks and threads along x.
    pub fn go(&self, kernel: &str, blocks: u32, threads: u32, args: &[Arg]) -> Ran {
        self.launch(kernel, [blocks, 1, 1], [threads, 1, 1], 0, args).unwrap_or_else(|finding| panic!("{finding}"))
    }
}

/// Numbers drawn from a seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    /// From -1 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}
