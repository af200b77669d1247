//! What wgpu tells about a device between calls: it was lost, or an earlier call was in error. wgpu reports both to
//! handlers, of which the one it brings along panics; here they are kept until the next call of ours returns them.
use adamant_runtime::ErrorKind;
use parking_lot::Mutex;
use std::sync::Arc;

/// The state of one device.
#[derive(Default)]
pub(crate) struct Health(Mutex<KnownHealth>);
#[derive(Default)]
struct KnownHealth {
    lost: Option<String>,
    error: Option<ErrorKind>,
}
impl Health {
    /// Installs the handlers.
    pub fn watch(device: &wgpu::Device) -> Arc<Health> {
        let health = Arc::new(Health::default());
        let of_errors = health.clone();
        device.on_uncaptured_error(Arc::new(move |e: wgpu::Error| {
            of_errors.0.lock().error.get_or_insert_with(|| kind_of(&e));
        }));
        let of_loss = health.clone();
        device.set_device_lost_callback(move |reason, text| of_loss.lose(&format!("{reason:?}: {text}")));
        health
    }
    /// From now on every call fails.
    pub fn lose(&self, why: &str) {
        self.0.lock().lost.get_or_insert_with(|| why.trim_end_matches([':', ' ', '.']).to_string());
    }
    /// What happened since the last call: a loss for ever, an error once.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> Result<(), ErrorKind> {
        let mut known = self.0.lock();
        if let Some(why) = &known.lost {
            return Err(ErrorKind::DeviceLost(why.clone()));
        }
        known.error.take().map_or(Ok(()), Err)
    }
    /// The loss, if the device was lost.
    pub fn lost(&self) -> Option<ErrorKind> {
        self.0.lock().lost.clone().map(ErrorKind::DeviceLost)
    }
    /// The state after a call that says it failed.
    pub fn after(&self, what: &str) -> ErrorKind {
        self.check().err().unwrap_or_else(|| ErrorKind::DeviceLost(what.into()))
    }
}
/// An error of wgpu as one of ours. A refused call is a bug of this crate: what users ask for is checked before.
pub(crate) fn kind_of(e: &wgpu::Error) -> ErrorKind {
    match e {
        wgpu::Error::OutOfMemory { .. } => ErrorKind::OutOfMemory { asked: 0, in_use: 0, cap: None },
        other => ErrorKind::Internal(format!("wgpu refused a call: {other}")),
    }
}
/// Runs calls and returns the error that they made.
///
/// # Errors
/// That.
pub(crate) fn scoped<R>(device: &wgpu::Device, f: impl FnOnce() -> R) -> Result<R, ErrorKind> {
    let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
    let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
    let result = f();
    let refused = pollster::block_on(validation.pop());
    let short = pollster::block_on(memory.pop());
    refused.or(short).map_or(Ok(result), |e| Err(kind_of(&e)))
}
