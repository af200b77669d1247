//! Calls that launch kernels.
use crate::driver::code::{Answer, CudaCode};
use crate::driver::entry::calls;
use crate::driver::kernels::KernelLaunch;
use crate::driver::pointer::{Host, InPointer};
use crate::driver::profile::{BLOCK, GRID, THREADS_OF_BLOCK};
use crate::driver::queue::StreamWork;
use crate::driver::state::{DriverState, EmulatedLaunch};
use std::sync::Arc;

/// `CUlaunchConfig`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Configuration {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: u64,
    attributes: InPointer<Attribute>,
    count: u32,
}
/// `CUlaunchAttribute`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Attribute {
    kind: u32,
    padding: u32,
    value: [u32; 16],
}
/// Attributes that change nothing here: none, access window, how to wait, order of clusters, priority, domains, carveout.
const WITHOUT_EFFECT: &[u32] = &[0, 1, 3, 5, 8, 9, 10, 14];
const COOPERATIVE: u32 = 2;
const CLUSTER: u32 = 4;
const SERIALIZATION: u32 = 6;
/// What an array of extra arguments holds: its end, where the parameters are, how many bytes.
const END: u64 = 0;
const BUFFER: u64 = 1;
const BUFFER_BYTES: u64 = 2;

calls! { exports, CudaCode;
    fn cuLaunchKernel(state, function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: u64, parameters: InPointer<u64>, extra: InPointer<u64>) {
        state.launch(function, [grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, stream, parameters, extra, false)
    }
    fn cuLaunchCooperativeKernel(state, function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: u64, parameters: InPointer<u64>) {
        state.launch(function, [grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, stream, parameters, InPointer::null(), true)
    }
    fn cuLaunchKernelEx(state, configuration: InPointer<Configuration>, function: u64, parameters: InPointer<u64>, extra: InPointer<u64>) {
        let asked = configuration.get()?;
        let mut cooperative = false;
        for k in 0..asked.count as usize {
            let attribute = asked.attributes.at(k)?;
            match attribute.kind {
                COOPERATIVE => cooperative = attribute.value[0] != 0,
                // Launches of a stream run one after the other here; a kernel may begin early only where nothing shows it.
                SERIALIZATION => {}
                CLUSTER if attribute.value[..3] == [1, 1, 1] => {}
                CLUSTER => return Err(CudaCode::NOT_SUPPORTED),
                kind if WITHOUT_EFFECT.contains(&kind) => {}
                _ => return Err(CudaCode::INVALID_VALUE),
            }
        }
        state.launch(function, asked.grid, asked.block, asked.shared, asked.stream, parameters, extra, cooperative)
    }
}

impl DriverState {
    fn launch(
        &mut self,
        handle: u64,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        stream: u64,
        parameters: InPointer<u64>,
        extra: InPointer<u64>,
        cooperative: bool,
    ) -> Answer {
        let function = self.function(handle)?;
        let (kernel, loaded, dynamic) = (function.kernel.clone(), function.loaded.clone(), function.dynamic_shared);
        let threads = block.iter().try_fold(1_u32, |a, b| a.checked_mul(*b)).ok_or(CudaCode::INVALID_VALUE)?;
        let most = kernel.max_threads.unwrap_or(THREADS_OF_BLOCK).min(THREADS_OF_BLOCK);
        let fits = |sizes: [u32; 3], most: [u32; 3]| sizes.iter().zip(most).all(|(size, most)| *size > 0 && *size <= most);
        if !fits(grid, GRID) || !fits(block, BLOCK) || threads > most {
            return Err(CudaCode::INVALID_VALUE);
        }
        let own = kernel.shared_bytes;
        if shared > dynamic || shared.saturating_add(own) > self.profile.shared_of_block {
            return Err(CudaCode::INVALID_VALUE);
        }
        if cooperative {
            let resident = self.profile.resident_blocks(threads, shared + own).max(1) * self.profile.processors;
            if grid.iter().map(|g| u64::from(*g)).product::<u64>() > u64::from(resident) {
                return Err(CudaCode::COOPERATIVE_LAUNCH_TOO_LARGE);
            }
        }
        let stream = self.stream(stream)?;
        let bytes = kernel.parameter_bytes;
        let mut packed = vec![0; bytes];
        match (parameters.is_null(), extra.is_null()) {
            (false, false) => return Err(CudaCode::INVALID_VALUE),
            (true, true) if bytes > 0 => return Err(CudaCode::INVALID_VALUE),
            (true, true) => {}
            (false, true) => {
                for (k, parameter) in kernel.parameters.iter().enumerate() {
                    let at = Host::at(parameters.at(k)?);
                    if at.is_null() {
                        return Err(CudaCode::INVALID_VALUE);
                    }
                    let (start, size) = (parameter.offset as usize, parameter.size as usize);
                    if let Some(place) = packed.get_mut(start..start + size) {
                        place.copy_from_slice(&at.read(size));
                    }
                }
            }
            (true, false) => {
                let given = buffer(extra)?;
                // More than the kernel takes, or less: it would read what nobody gave.
                if given.len() != bytes {
                    return Err(CudaCode::INVALID_VALUE);
                }
                packed = given;
            }
        }
        let name = kernel.name.clone();
        self.launched(|| EmulatedLaunch { kernel: name.to_string(), grid, block, shared: shared + own, stream, by_graph: false });
        let launch = KernelLaunch { function: handle, name, loaded, grid, block, shared, own_shared: own, parameters: packed };
        self.enqueue(stream, StreamWork::Launch(Arc::new(launch)))
    }
}

/// Parameters that are given as one piece.
fn buffer(extra: InPointer<u64>) -> Answer<Vec<u8>> {
    let (mut at, mut bytes) = (None, None);
    for k in (0..8).step_by(2) {
        match extra.at(k)? {
            END => break,
            BUFFER => at = Some(Host::at(extra.at(k + 1)?)),
            BUFFER_BYTES => bytes = Some(Host::at(extra.at(k + 1)?)),
            _ => return Err(CudaCode::INVALID_VALUE),
        }
    }
    let (Some(at), Some(bytes)) = (at, bytes) else { return Err(CudaCode::INVALID_VALUE) };
    if at.is_null() || bytes.is_null() {
        return Err(CudaCode::INVALID_VALUE);
    }
    let count: [u8; 8] = bytes.read(8).try_into().map_err(|_| CudaCode::INVALID_VALUE)?;
    Ok(at.read(usize::from_le_bytes(count)))
}
