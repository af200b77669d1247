//! A module: what is launched, and what stands in device memory for it.
use super::{
    decode,
    step::{Program, RowConstant},
};
use crate::{
    memory::DeviceMemory,
    ptx::{self, Initial, PtxError, PtxFunction, Source, StateSpace},
};
use std::{collections::HashMap, error::Error, fmt};

/// A parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Where it begins in the launch's parameters.
    pub offset: u32,
    /// Its bytes.
    pub size: u32,
    /// Its alignment.
    pub align: u32,
}

/// What a launch names.
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Bytes of shared memory that it declares.
    pub shared_bytes: u32,
    /// The most threads of a block, if it says.
    pub max_threads: Option<u32>,
    /// Bytes of local memory of a thread.
    pub local_bytes: u32,
    /// Registers of a thread that the text names, of 32 bits: not what a card would need.
    pub registers: u32,
    pub(crate) program: Program,
}

impl Kernel {
    /// Bytes of all parameters.
    pub fn parameter_bytes(&self) -> u32 {
        self.parameters.last().map_or(0, |p| p.offset + p.size)
    }
}

/// A variable of a module in device memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Global {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// The alignment of its address.
    pub align: u64,
    /// Kernels may not write it.
    pub constant: bool,
    initial: Vec<Initial>,
    element: u64,
}

/// A module's text, read and checked.
pub struct Module {
    target: u32,
    kernels: Vec<Kernel>,
    globals: Vec<Global>,
}

impl Module {
    /// Reads a text of PTX.
    ///
    /// # Errors
    /// It is none, or holds something that is unknown here: its line and what it is.
    pub fn parse(text: &str) -> Result<Module, PtxError> {
        let source = ptx::parse(text)?;
        let mut kernels = Vec::new();
        for function in source.functions.iter().filter(|f| f.kernel) {
            kernels.push(kernel(&source, function)?);
        }
        let in_memory = source.variables.into_iter().filter(|v| matches!(v.space, StateSpace::Global | StateSpace::Const));
        let globals = in_memory
            .map(|v| Global {
                name: v.name,
                bytes: v.bytes.max(1),
                align: v.align,
                constant: v.space == StateSpace::Const,
                initial: v.initial,
                element: v.element,
            })
            .collect();
        Ok(Module { target: source.target, kernels, globals })
    }
    /// The kernel of a name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }
    /// All kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter()
    }
    /// All variables in device memory.
    pub fn globals(&self) -> impl Iterator<Item = &Global> {
        self.globals.iter()
    }
    /// The architecture that the text was made for: 90 for `sm_90a`.
    pub fn target(&self) -> u32 {
        self.target
    }
}

fn kernel(source: &Source, function: &PtxFunction) -> Result<Kernel, PtxError> {
    let program = decode::program(source, function)?;
    let (mut parameters, mut at) = (Vec::new(), 0u64);
    for parameter in function.parameters.iter().filter_map(|k| function.variables.get(*k)) {
        let offset = at.next_multiple_of(parameter.align);
        at = offset + parameter.bytes;
        parameters.push(Parameter { offset: offset as u32, size: parameter.bytes as u32, align: parameter.align as u32 });
    }
    let registers = function.registers.iter().map(|t| t.bits().div_ceil(32) as u32).sum();
    Ok(Kernel {
        name: function.name.clone(),
        parameters,
        shared_bytes: program.shared,
        max_threads: function.max_threads,
        local_bytes: program.local,
        registers,
        program,
    })
}

/// Why a module could not be put into device memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// There is no memory for its variables.
    OutOfMemory,
    /// A variable begins as the address of something that is not there.
    NoSuchName(String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::OutOfMemory => write!(f, "no device memory for the module's variables"),
            LoadError::NoSuchName(name) => write!(f, "a variable of the module begins as the address of `{name}`, which is not in device memory"),
        }
    }
}

impl Error for LoadError {}

/// A module whose variables stand in device memory.
pub struct Loaded {
    module: Module,
    places: HashMap<String, (u64, u64)>,
}

impl Loaded {
    /// Puts a module's variables into memory, as they begin.
    ///
    /// # Errors
    /// There is no memory for them, or one begins as an address that there is not: nothing stays allocated.
    pub fn new(module: Module, memory: &DeviceMemory) -> Result<Loaded, LoadError> {
        let mut loaded = Loaded { module, places: HashMap::new() };
        let done = loaded.place(memory);
        if done.is_err() {
            loaded.unload(memory);
        }
        done.map(|()| loaded)
    }
    fn place(&mut self, memory: &DeviceMemory) -> Result<(), LoadError> {
        for global in &self.module.globals {
            let address = if global.constant { memory.allocate_constant(global.bytes) } else { memory.allocate(global.bytes) };
            self.places.insert(global.name.clone(), (address.ok_or(LoadError::OutOfMemory)?, global.bytes));
        }
        for global in &self.module.globals {
            let mut bytes = vec![0u8; global.bytes as usize];
            let element = (global.element as usize).clamp(1, 8);
            for (k, initial) in global.initial.iter().enumerate() {
                let value = match initial {
                    Initial::Bits(bits) => *bits,
                    Initial::Address(name, offset) => self.global(name).ok_or_else(|| LoadError::NoSuchName(name.clone()))?.0.wrapping_add(*offset as u64),
                };
                if let Some(place) = bytes.get_mut(k * element..(k + 1) * element) {
                    place.copy_from_slice(&value.to_le_bytes()[..element]);
                }
            }
            if let Some((address, _)) = self.global(&global.name) {
                memory.write(address, &bytes).map_err(|_| LoadError::OutOfMemory)?;
            }
        }
        Ok(())
    }
    /// The module.
    pub fn module(&self) -> &Module {
        &self.module
    }
    /// Where a variable stands, and its bytes.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.places.get(name).copied()
    }
    /// Frees the variables' memory; the module is not launched any more.
    pub fn unload(&self, memory: &DeviceMemory) {
        for (address, _) in self.places.values() {
            // What is gone already is no concern here.
            let _ = memory.free(*address);
        }
    }
    /// The constants of a kernel's program: row, bits, and whether they are of 64 bits.
    pub(crate) fn constants(&self, program: &Program) -> Vec<(u32, u64, bool)> {
        let value = |constant: &RowConstant| match constant {
            RowConstant::Word(bits) => (u64::from(*bits), false),
            RowConstant::Wide(bits) => (*bits, true),
            RowConstant::Address(name, offset) => (self.global(name).map_or(0, |(address, _)| address.wrapping_add(*offset as u64)), true),
        };
        let each = |(constant, row): &(RowConstant, u32)| {
            let (bits, wide) = value(constant);
            (*row, bits, wide)
        };
        program.constants.iter().map(each).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_begins_as() {
        fn shared<T: Send + Sync>(value: T) -> T {
            value
        }
        let text = ".version 8.7 .target sm_90a, texmode_independent .address_size 64
            .global .align 4 .b8 bytes[8] = {1, 2, 255};
            .const .align 8 .u64 there = generic(bytes)+4;
            .global .align 4 .f32 pi[2] = {0f40490FDB, -1};
            .visible .entry k(.param .u32 a, .param .align 8 .b8 b[12], .param .u64 c) .maxntid 32, 2, 2 {
                .shared .align 16 .b8 s[20]; .local .align 8 .b8 l[24]; .reg .b32 %r<3>; .reg .b64 %d<2>;
                ret; }";
        let module = shared(Module::parse(text).unwrap());
        assert_eq!(module.target(), 90);
        let kernel = module.kernel("k").unwrap();
        let places: Vec<(u32, u32, u32)> = kernel.parameters.iter().map(|p| (p.offset, p.size, p.align)).collect();
        assert_eq!(places, [(0, 4, 4), (8, 12, 8), (24, 8, 8)]);
        assert_eq!((kernel.parameter_bytes(), kernel.shared_bytes, kernel.local_bytes, kernel.max_threads), (32, 20, 24, Some(128)));
        assert_eq!(kernel.registers, 7);
        let memory = shared(DeviceMemory::new(1 << 20));
        let loaded = shared(Loaded::new(module, &memory).unwrap());
        let ((bytes, 8), (there, 8), (pi, 8)) = (loaded.global("bytes").unwrap(), loaded.global("there").unwrap(), loaded.global("pi").unwrap()) else {
            panic!("sizes");
        };
        let read = |address| {
            let mut bytes = [0u8; 8];
            memory.read(address, &mut bytes).unwrap();
            bytes
        };
        assert_eq!(read(bytes), [1, 2, 255, 0, 0, 0, 0, 0]);
        assert_eq!(u64::from_le_bytes(read(there)), bytes + 4);
        assert_eq!(read(pi), [0xdb, 0x0f, 0x49, 0x40, 255, 255, 255, 255]);
        loaded.unload(&memory);
        assert_eq!(memory.in_use(), 0);
        let none = |text: &str, memory: &DeviceMemory| Loaded::new(Module::parse(text).unwrap(), memory).err();
        let missing = ".version 8.7 .target sm_90 .global .u64 a = nowhere;";
        assert_eq!(none(missing, &memory), Some(LoadError::NoSuchName("nowhere".into())));
        assert_eq!(none(text, &DeviceMemory::new(10)), Some(LoadError::OutOfMemory));
        assert_eq!(memory.in_use(), 0);
    }
}
