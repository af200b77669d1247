//! When the passes of a turn began and ended, by events of the device's own clock.
use crate::{
    driver::{self, EventHandle, StreamHandle},
    opened::Opened,
};
use adamant_runtime::ErrorKind;
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// The times of the passes of one turn, as the device tells them: one pass ends where the next begins.
pub(crate) struct TurnTimes {
    opened: Arc<Opened>,
    bounds: Vec<EventHandle>,
}
impl TurnTimes {
    /// For so many passes.
    ///
    /// # Errors
    /// A lost device.
    pub fn new(opened: &Arc<Opened>, passes: usize) -> Result<TurnTimes, ErrorKind> {
        let mut times = TurnTimes { opened: opened.clone(), bounds: Vec::with_capacity(passes + 1) };
        for _ in 0..=passes {
            times.bounds.push(opened.context.call(|| driver::event(true))?);
        }
        Ok(times)
    }
    /// Records the bounds of passes that lie before launch number `at`.
    pub fn before(&self, passes: &[usize], at: usize, stream: StreamHandle) -> Result<(), ErrorKind> {
        let bounds = passes.iter().zip(&self.bounds).filter(|(begin, _)| **begin == at);
        bounds.map(|(_, event)| *event).try_for_each(|event| self.opened.context.call(|| driver::record(event, stream)))
    }
    /// When each pass began and ended, since the first began; waits for the last.
    ///
    /// # Errors
    /// A lost device.
    pub fn read(&self) -> Result<Vec<[Duration; 2]>, ErrorKind> {
        let [first, .., last] = self.bounds[..] else { return Ok(Vec::new()) };
        let context = &self.opened.context;
        self.opened.counts.waits.fetch_add(1, Relaxed);
        context.call(|| driver::wait_until(last))?;
        let since = |event: EventHandle| context.call(|| driver::between(first, event)).map(|ms| Duration::from_secs_f64(f64::from(ms.max(0.0)) / 1e3));
        let bounds: Vec<Duration> = self.bounds.iter().map(|e| since(*e)).collect::<Result<_, _>>()?;
        Ok(bounds.windows(2).map(|w| [w[0], w[1].max(w[0])]).collect())
    }
}
impl Drop for TurnTimes {
    fn drop(&mut self) {
        for event in self.bounds.drain(..) {
            let _ = self.opened.context.call(|| driver::destroy_event(event));
        }
    }
}
