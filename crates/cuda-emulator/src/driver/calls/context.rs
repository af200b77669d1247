//! Calls about contexts: the primary ones, those made, and which of them is whose.
use crate::driver::code::CudaCode;
use crate::driver::entry::calls;
use crate::driver::pointer::OutPointer;
use crate::driver::queue::WaitGoal;
use crate::driver::state::{DriverState, with_contexts};

/// Flags of a context: how the host waits, mapped memory, local memory, and newer ones.
const FLAGS: u32 = 0xff;
/// The API's version that a context answers.
const API_VERSION: u32 = 3020;

calls! { exports, CudaCode;
    fn cuDevicePrimaryCtxRetain(state, context: OutPointer<u64>, device: i32) {
        context.needed()?;
        let number = state.device(device)?;
        let Some(device) = state.devices.get_mut(number) else { return Err(CudaCode::INVALID_DEVICE) };
        device.retained += 1;
        let (handle, flags) = (device.primary, device.flags);
        if !state.contexts.contains_key(&handle) {
            state.open_context(handle, number, flags);
        }
        context.set(handle)
    }
    fn cuDevicePrimaryCtxRelease_v2(state, device: i32) {
        let number = state.device(device)?;
        let Some(device) = state.devices.get_mut(number).filter(|d| d.retained > 0) else { return Err(CudaCode::INVALID_CONTEXT) };
        device.retained -= 1;
        if device.retained == 0 {
            let handle = device.primary;
            state.close_context(handle);
        }
        Ok(())
    }
    fn cuDevicePrimaryCtxReset_v2(state, device: i32) {
        let number = state.device(device)?;
        let Some(device) = state.devices.get(number) else { return Err(CudaCode::INVALID_DEVICE) };
        // "Resetting the primary context does not release it": whoever retained it releases it.
        let handle = device.primary;
        let lost = state.contexts.get(&handle).and_then(|c| c.lost);
        state.refuse_while_capturing()?;
        if let (Some(lost), false) = (lost, state.options.reset_heals) {
            return Err(lost);
        }
        state.close_context(handle);
        Ok(())
    }
    fn cuDevicePrimaryCtxGetState(state, device: i32, flags: OutPointer<u32>, active: OutPointer<i32>) {
        let number = state.device(device)?;
        let Some(device) = state.devices.get(number) else { return Err(CudaCode::INVALID_DEVICE) };
        flags.set(device.flags)?;
        active.set(i32::from(state.contexts.contains_key(&device.primary)))
    }
    fn cuDevicePrimaryCtxSetFlags_v2(state, device: i32, flags: u32) {
        let number = state.device(device)?;
        if flags & !FLAGS != 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        let Some(device) = state.devices.get_mut(number) else { return Err(CudaCode::INVALID_DEVICE) };
        device.flags = flags;
        Ok(())
    }
    fn cuCtxCreate_v4(state, context: OutPointer<u64>, parameters: OutPointer<u64>, flags: u32, device: i32) {
        context.needed()?;
        let number = state.device(device)?;
        if flags & !FLAGS != 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        // Contexts for a part of a card, and for graphics.
        if !parameters.is_null() {
            return Err(CudaCode::NOT_SUPPORTED);
        }
        state.refuse_while_capturing()?;
        let handle = state.handle();
        state.open_context(handle, number, flags);
        with_contexts(|all| all.push(handle));
        context.set(handle)
    }
    fn cuCtxDestroy_v2(state, context: u64) {
        state.ready()?;
        let is_primary = state.devices.iter().any(|d| d.primary == context);
        if is_primary || !state.contexts.contains_key(&context) {
            return Err(CudaCode::INVALID_CONTEXT);
        }
        state.run_until(WaitGoal::Context(context));
        state.close_context(context);
        with_contexts(|all| if all.last() == Some(&context) { all.pop(); });
        Ok(())
    }
    fn cuCtxSetCurrent(state, context: u64) {
        state.ready()?;
        if context != 0 && !state.contexts.contains_key(&context) {
            return Err(CudaCode::INVALID_CONTEXT);
        }
        with_contexts(|all| {
            all.pop();
            if context != 0 {
                all.push(context);
            }
        });
        Ok(())
    }
    fn cuCtxGetCurrent(state, context: OutPointer<u64>) {
        state.ready()?;
        context.set(with_contexts(|all| all.last().copied().unwrap_or(0)))
    }
    fn cuCtxPushCurrent_v2(state, context: u64) {
        state.ready()?;
        if !state.contexts.contains_key(&context) {
            return Err(CudaCode::INVALID_CONTEXT);
        }
        with_contexts(|all| all.push(context));
        Ok(())
    }
    fn cuCtxPopCurrent_v2(state, context: OutPointer<u64>) {
        state.ready()?;
        let popped = with_contexts(Vec::pop).ok_or(CudaCode::INVALID_CONTEXT)?;
        context.set_if_asked(popped);
        Ok(())
    }
    fn cuCtxSynchronize(state) {
        let current = state.current()?;
        state.refuse_capturing_context(current)?;
        state.refuse_while_capturing()?;
        state.wait("cuCtxSynchronize", WaitGoal::Context(current))
    }
    fn cuCtxGetDevice(state, device: OutPointer<i32>) {
        let current = state.current_if_lost()?;
        device.set(state.context(current)?.device as i32)
    }
    fn cuCtxGetApiVersion(state, context: u64, version: OutPointer<u32>) {
        state.ready()?;
        let context = if context == 0 { state.current_if_lost()? } else { context };
        state.context(context)?;
        version.set(API_VERSION)
    }
    fn cuCtxGetFlags(state, flags: OutPointer<u32>) {
        let current = state.current_if_lost()?;
        flags.set(state.context(current)?.flags)
    }
    fn cuCtxGetId(state, context: u64, id: OutPointer<u64>) {
        state.ready()?;
        let context = if context == 0 { state.current_if_lost()? } else { context };
        state.context(context).map_err(|_| CudaCode::CONTEXT_IS_DESTROYED)?;
        id.set(context)
    }
    fn cuCtxGetStreamPriorityRange(state, least: OutPointer<i32>, greatest: OutPointer<i32>) {
        state.current()?;
        least.set_if_asked(LEAST_PRIORITY);
        greatest.set_if_asked(GREATEST_PRIORITY);
        Ok(())
    }
    fn cuCtxGetLimit(state, value: OutPointer<usize>, which: u32) {
        let current = state.current()?;
        let usual = usual_limit(which)?;
        value.set(state.context(current)?.limits.get(&which).copied().unwrap_or(usual))
    }
    fn cuCtxSetLimit(state, which: u32, value: usize) {
        let current = state.current()?;
        usual_limit(which)?;
        if let Some(context) = state.contexts.get_mut(&current) {
            context.limits.insert(which, value);
        }
        Ok(())
    }
    fn cuCtxResetPersistingL2Cache(state) {
        state.current().map(drop)
    }
    fn cuCtxEnablePeerAccess(state, peer: u64, flags: u32) {
        let current = state.current()?;
        if flags != 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        let (mine, theirs) = (state.context(current)?.device, state.context(peer)?.device);
        if mine == theirs {
            return Err(if current == peer { CudaCode::INVALID_CONTEXT } else { CudaCode::PEER_ACCESS_UNSUPPORTED });
        }
        let new = state.contexts.get_mut(&current).is_some_and(|c| c.peers.insert(peer));
        if new { Ok(()) } else { Err(CudaCode::PEER_ACCESS_ALREADY_ENABLED) }
    }
    fn cuCtxDisablePeerAccess(state, peer: u64) {
        let current = state.current()?;
        state.context(peer)?;
        let was = state.contexts.get_mut(&current).is_some_and(|c| c.peers.remove(&peer));
        if was { Ok(()) } else { Err(CudaCode::PEER_ACCESS_NOT_ENABLED) }
    }
}

/// Priorities of streams: lower numbers go first.
pub(super) const LEAST_PRIORITY: i32 = 0;
pub(super) const GREATEST_PRIORITY: i32 = -5;

/// A limit as nobody set it.
fn usual_limit(which: u32) -> Result<usize, CudaCode> {
    match which {
        // Stack, printf's buffer, the heap of kernels, depth and number of launches by kernels, fetches, persisting cache.
        0 => Ok(1024),
        1 | 2 => Ok(8 << 20),
        3 => Ok(2),
        4 => Ok(2048),
        5 => Ok(64),
        6 => Ok(0),
        7..=9 => Err(CudaCode::UNSUPPORTED_LIMIT),
        _ => Err(CudaCode::INVALID_VALUE),
    }
}
impl DriverState {
    /// May work of this context touch memory of that card?
    pub fn may_touch(&self, context: u64, device: usize) -> bool {
        let Ok(this) = self.context(context) else { return false };
        this.device == device || this.peers.iter().any(|p| self.context(*p).is_ok_and(|c| c.device == device))
    }
}
