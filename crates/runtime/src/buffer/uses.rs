//! Which work of an asynchronous device a buffer is still in use by: the piece that wrote it last, and the last one of each
//! queue. Where work is done when the call returns, nothing is ever noted here and nobody asks.
use crate::backend::Event;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The events that somebody waits for: at most one of each queue.
pub type Events = SmallVec<[Event; 3]>;

/// The uses of a buffer. Whoever notes one holds the buffer, and hands it on after that.
#[derive(Default)]
pub struct Uses {
    written: AtomicU64,
    /// by queue
    used: [AtomicU64; 3],
}
impl Uses {
    /// It is read by this work.
    pub fn read_by(&self, event: Event) {
        if !event.is_done() {
            self.used[event.queue() as usize].fetch_max(event.bits(), Relaxed);
        }
    }
    /// It is written by this work.
    pub fn written_by(&self, event: Event) {
        if !event.is_done() {
            self.written.store(event.bits(), Relaxed);
            self.read_by(event);
        }
    }
    /// What wrote it last.
    pub fn written(&self) -> Event {
        Event::from_bits(self.written.load(Relaxed))
    }
    /// What uses it last, by queue.
    pub fn all(&self) -> Events {
        self.used.iter().map(|used| Event::from_bits(used.load(Relaxed))).filter(|event| !event.is_done()).collect()
    }
}
/// One more event to wait for: of each queue, the last is enough.
pub fn also(events: &mut Events, event: Event) {
    if event.is_done() {
        return;
    }
    match events.iter_mut().find(|e| e.queue() == event.queue()) {
        Some(e) => *e = event.max(*e),
        None => events.push(event),
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Queue::{Communication, Compute, Copy};

    #[test]
    fn of_each_queue_the_last_use_stays() {
        let uses = Uses::default();
        assert!(uses.all().is_empty() && uses.written().is_done());
        uses.written_by(Event::new(Copy, 3));
        uses.read_by(Event::new(Compute, 9));
        uses.read_by(Event::new(Compute, 8));
        uses.written_by(Event::DONE);
        assert_eq!(uses.all()[..], [Event::new(Compute, 9), Event::new(Copy, 3)]);
        assert_eq!(uses.written(), Event::new(Copy, 3));
        let mut events = uses.all();
        also(&mut events, Event::new(Compute, 7));
        also(&mut events, Event::new(Communication, 1));
        also(&mut events, Event::DONE);
        assert_eq!(events[..], [Event::new(Compute, 9), Event::new(Copy, 3), Event::new(Communication, 1)]);
    }
}
