//! Calls about modules and the kernels in them.
use crate::driver::code::{Answer, CudaCode};
use crate::driver::entry::calls;
use crate::driver::kernels;
use crate::driver::pointer::{Host, InPointer, OutPointer, Text};
use crate::driver::profile::{SHARED_UNASKED, THREADS_OF_BLOCK};
use crate::driver::queue::WaitGoal;
use crate::driver::state::{ContextModule, DriverState, KernelFunction};
use std::collections::HashMap;
use std::ffi::{CString, c_char};

/// Options of loading: where a log of errors goes, and how long it may be.
const ERROR_LOG: u32 = 5;
const ERROR_LOG_BYTES: u32 = 6;
/// Options are numbered up to this.
const LAST_OPTION: u32 = 40;
/// What a kernel's attributes are numbered by.
const MOST_THREADS: u32 = 0;
const OWN_SHARED: u32 = 1;
const CONSTANT: u32 = 2;
const LOCAL: u32 = 3;
const REGISTERS: u32 = 4;
const PTX_VERSION: u32 = 5;
const BINARY_VERSION: u32 = 6;
const CACHED: u32 = 7;
const DYNAMIC_SHARED: u32 = 8;
const CARVEOUT: u32 = 9;
/// Registers of a thread: only the assembler knows; so many fit at any size of a block.
const ASSUMED_REGISTERS: i32 = 32;

calls! { exports, CudaCode;
    fn cuModuleLoadData(state, module: OutPointer<u64>, image: Host) {
        state.load(module, image).map_err(|(code, _)| code)
    }
    fn cuModuleLoadDataEx(state, module: OutPointer<u64>, image: Host, count: u32, options: InPointer<u32>, values: OutPointer<u64>) {
        let given: Answer<Vec<u32>> = (0..count as usize).map(|k| options.at(k)).collect();
        let given = given?;
        if given.iter().any(|o| *o >= LAST_OPTION) {
            return Err(CudaCode::INVALID_VALUE);
        }
        state.load(module, image).map_err(|(code, why)| {
            let value = |which: u32| given.iter().position(|o| *o == which).and_then(|k| values.moved(k).get().ok());
            if let (Some(log), Some(capacity)) = (value(ERROR_LOG), value(ERROR_LOG_BYTES)) {
                let capacity = (capacity as u32).saturating_sub(1) as usize;
                let text: Vec<u8> = why.bytes().take(capacity).chain([0]).collect();
                if capacity > 0 {
                    Host::at(log).write(&text);
                }
            }
            code
        })
    }
    fn cuModuleUnload(state, module: u64) {
        let current = state.current()?;
        state.refuse_while_capturing()?;
        let known = state.modules.get(&module).ok_or(CudaCode::INVALID_HANDLE)?;
        if known.context != current {
            return Err(CudaCode::INVALID_HANDLE);
        }
        // What is under way may run its code.
        state.run_until(WaitGoal::Context(current));
        state.modules.remove(&module);
        state.functions.retain(|_, f| f.module != module);
        state.current().map(drop)
    }
    fn cuModuleGetFunction(state, function: OutPointer<u64>, module: u64, name: Text) {
        function.needed()?;
        let name = name.get()?;
        let current = state.current()?;
        let known = state.modules.get(&module).filter(|m| m.context == current).ok_or(CudaCode::INVALID_HANDLE)?;
        function.set(*known.functions.get(&name).ok_or(CudaCode::NOT_FOUND)?)
    }
    fn cuModuleGetFunctionCount(state, count: OutPointer<u32>, module: u64) {
        state.current()?;
        count.set(state.modules.get(&module).ok_or(CudaCode::INVALID_HANDLE)?.functions.len() as u32)
    }
    fn cuModuleGetGlobal_v2(state, address: OutPointer<u64>, bytes: OutPointer<usize>, module: u64, name: Text) {
        let name = name.get()?;
        state.current()?;
        let known = state.modules.get(&module).ok_or(CudaCode::INVALID_HANDLE)?;
        let (at, length) = known.loaded.global(&name).ok_or(CudaCode::NOT_FOUND)?;
        address.set_if_asked(at);
        bytes.set_if_asked(length as usize);
        Ok(())
    }
    fn cuModuleGetLoadingMode(state, mode: OutPointer<u32>) {
        state.ready()?;
        // Eager: what does not load is told when it is loaded.
        mode.set(1)
    }
    fn cuFuncGetAttribute(state, value: OutPointer<i32>, attribute: u32, function: u64) {
        value.needed()?;
        let architecture = state.profile.architecture();
        let function = state.function(function)?;
        value.set(match attribute {
            MOST_THREADS => function.kernel.max_threads.unwrap_or(THREADS_OF_BLOCK).min(THREADS_OF_BLOCK) as i32,
            OWN_SHARED => function.kernel.shared_bytes as i32,
            LOCAL => function.kernel.local_bytes as i32,
            REGISTERS => ASSUMED_REGISTERS,
            PTX_VERSION => function.target as i32,
            BINARY_VERSION => architecture as i32,
            DYNAMIC_SHARED => function.dynamic_shared as i32,
            CARVEOUT => function.carveout,
            CONSTANT | CACHED | 10..=15 => 0,
            _ => return Err(CudaCode::INVALID_VALUE),
        })
    }
    fn cuFuncSetAttribute(state, function: u64, attribute: u32, value: i32) {
        let most = state.profile.shared_of_block;
        let own = state.function(function)?.kernel.shared_bytes;
        let Some(function) = state.functions.get_mut(&function) else { return Err(CudaCode::INVALID_HANDLE) };
        match attribute {
            DYNAMIC_SHARED => {
                let asked = u32::try_from(value).map_err(|_| CudaCode::INVALID_VALUE)?;
                if asked.saturating_add(own) > most {
                    return Err(CudaCode::INVALID_VALUE);
                }
                function.dynamic_shared = asked;
            }
            CARVEOUT if (-1..=100).contains(&value) => function.carveout = value,
            _ => return Err(CudaCode::INVALID_VALUE),
        }
        Ok(())
    }
    fn cuFuncSetCacheConfig(state, function: u64, config: u32) {
        state.function(function)?;
        if config <= 3 { Ok(()) } else { Err(CudaCode::INVALID_VALUE) }
    }
    fn cuFuncGetModule(state, module: OutPointer<u64>, function: u64) {
        module.set(state.function(function)?.module)
    }
    fn cuFuncGetName(state, name: OutPointer<*const c_char>, function: u64) {
        name.set(state.function(function)?.name.as_ptr())
    }
    fn cuFuncLoad(state, function: u64) {
        state.function(function).map(drop)
    }
    fn cuFuncIsLoaded(state, loaded: OutPointer<u32>, function: u64) {
        state.function(function)?;
        loaded.set(1)
    }
    fn cuFuncGetParamInfo(state, function: u64, number: usize, offset: OutPointer<usize>, bytes: OutPointer<usize>) {
        let parameter = state.function(function)?.kernel.parameters.get(number).ok_or(CudaCode::INVALID_VALUE)?;
        let (at, size) = (parameter.offset as usize, parameter.size as usize);
        offset.set(at)?;
        bytes.set_if_asked(size);
        Ok(())
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(state, blocks: OutPointer<i32>, function: u64, threads: i32, dynamic: usize) {
        blocks.set(state.resident(function, threads, dynamic)?)
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(state, blocks: OutPointer<i32>, function: u64, threads: i32, dynamic: usize, flags: u32) {
        if flags > 1 {
            return Err(CudaCode::INVALID_VALUE);
        }
        blocks.set(state.resident(function, threads, dynamic)?)
    }
    fn cuOccupancyAvailableDynamicSMemPerBlock(state, bytes: OutPointer<usize>, function: u64, blocks: i32, threads: i32) {
        state.function(function)?;
        if blocks < 1 || !(1..=THREADS_OF_BLOCK as i32).contains(&threads) {
            return Err(CudaCode::INVALID_VALUE);
        }
        let reserved = if state.profile.capability.0 >= 8 { 1024 } else { 0 };
        let of_block = (state.profile.shared_of_processor / blocks as u32).saturating_sub(reserved);
        let own = state.function(function)?.kernel.shared_bytes;
        bytes.set(of_block.min(state.profile.shared_of_block).saturating_sub(own) as usize)
    }
}

impl DriverState {
    /// A kernel of the current context.
    pub fn function(&self, handle: u64) -> Answer<&KernelFunction> {
        let current = self.current()?;
        self.functions.get(&handle).filter(|f| f.context == current).ok_or(CudaCode::INVALID_HANDLE)
    }
    fn resident(&self, function: u64, threads: i32, dynamic: usize) -> Answer<i32> {
        let function = self.function(function)?;
        let threads = u32::try_from(threads).ok().filter(|t| *t > 0).ok_or(CudaCode::INVALID_VALUE)?;
        let own = u64::from(function.kernel.shared_bytes) + dynamic as u64;
        let most = function.kernel.max_threads.unwrap_or(THREADS_OF_BLOCK).min(THREADS_OF_BLOCK);
        if threads > most || own > u64::from(self.profile.shared_of_block) {
            return Ok(0);
        }
        Ok(self.profile.resident_blocks(threads, own as u32) as i32)
    }
    /// Loads an image; what is wrong with it in words, where something is.
    fn load(&mut self, module: OutPointer<u64>, image: Host) -> Result<(), (CudaCode, String)> {
        let plain = |code: CudaCode| (code, String::new());
        module.needed().map_err(plain)?;
        let current = self.current().map_err(plain)?;
        self.refuse_while_capturing().map_err(plain)?;
        let text = kernels::text_of(image)?;
        let text = self.rewriter.as_ref().and_then(|rewrite| rewrite(&text)).unwrap_or(text);
        kernels::check_target(&text, self.profile)?;
        let memory = self.memory().map_err(plain)?;
        let loaded = kernels::load(&text, &memory).map_err(|(code, why)| {
            self.find_of_call(crate::machine::finding::FindingKind::BadParameter, "cuModuleLoadData", why.clone(), None);
            (code, why)
        })?;
        let handle = self.handle();
        let target = kernels::target_of(&text).map_or(0, |(number, _)| number);
        let mut functions = HashMap::new();
        for kernel in kernels::kernels_of(&loaded) {
            let function = self.handle();
            let name = CString::new(&*kernel.name).unwrap_or_default();
            functions.insert(kernel.name.to_string(), function);
            let dynamic_shared = SHARED_UNASKED.saturating_sub(kernel.shared_bytes);
            let loaded = loaded.clone();
            self.functions.insert(function, KernelFunction { module: handle, context: current, kernel, name, loaded, dynamic_shared, carveout: -1, target });
        }
        self.modules.insert(handle, ContextModule { context: current, loaded, functions });
        module.set(handle).map_err(plain)
    }
}
