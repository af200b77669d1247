//! The thread that listens to all other ranks and says that this one is there.
use super::{ControlShared, FAREWELL, cause::FailureCause, liveness::PeerState, silence::BEAT};
use crate::join::{
    Assembled,
    frame::{ControlFrame, FrameBodyReader, FrameKind},
    link::{ControlLink, LinkEnd},
};
use mio::{Events, Poll};
use std::{sync::Arc, time::Instant};

pub(super) struct ControlMonitor {
    pub(super) shared: Arc<ControlShared>,
    poll: Poll,
    links: Vec<Option<ControlLink>>,
}
impl ControlMonitor {
    pub(super) fn new(shared: Arc<ControlShared>, poll: Poll, links: Vec<Option<ControlLink>>) -> ControlMonitor {
        ControlMonitor { shared, poll, links }
    }
    /// Until this rank leaves.
    pub(super) fn run(mut self, early: Vec<(usize, ControlFrame)>) {
        early.into_iter().for_each(|(rank, frame)| self.heard(rank, &frame));
        let mut events = Events::with_capacity(64);
        let mut next_beat = Instant::now();
        // What came before this thread looked raises no event.
        let mut ready: Vec<usize> = (0..self.links.len()).collect();
        loop {
            ready.drain(..).for_each(|rank| self.listen(rank));
            let now = Instant::now();
            if now >= next_beat {
                (0..self.links.len()).for_each(|rank| self.say(rank, FrameKind::Beat, Vec::new()));
                next_beat = now + BEAT;
            }
            let (said, leaves) = self.shared.take();
            let count = said.len();
            for (to, kind, body) in said {
                match to {
                    Some(rank) => self.say(rank, kind, body),
                    None => (0..self.links.len()).for_each(|rank| self.say(rank, kind, body.clone())),
                }
            }
            self.shared.sent(count);
            if leaves {
                return self.leave();
            }
            if let Err(e) = self.poll.poll(&mut events, Some(next_beat.saturating_duration_since(Instant::now())))
                && e.kind() != std::io::ErrorKind::Interrupted
            {
                // Without events nothing is known of anybody.
                (0..self.links.len()).for_each(|rank| self.lose(rank, &format!("sockets cannot be waited for any more: {e}")));
                return;
            }
            ready.extend(events.iter().map(|event| event.token().0).filter(|token| *token < self.links.len()));
        }
    }
    fn say(&mut self, rank: usize, kind: FrameKind, body: Vec<u8>) {
        if let Some(link) = self.links.get_mut(rank).and_then(Option::as_mut) {
            link.say(kind, body);
            if !link.flush() {
                self.listen(rank);
            }
        }
    }
    fn listen(&mut self, rank: usize) {
        let Some(link) = self.links.get_mut(rank).and_then(Option::as_mut) else { return };
        let mut frames = Vec::new();
        let is_open = link.flush();
        let end = link.read(&mut frames);
        frames.iter().for_each(|frame| self.heard(rank, frame));
        match end {
            Ok(()) if is_open => {}
            Ok(()) | Err(LinkEnd::Closed) => self.lose(rank, "its connection closed"),
            Err(LinkEnd::Fault(fault)) => self.lose(rank, &fault.to_string()),
        }
    }
    /// Its state stays if it said goodbye.
    fn lose(&mut self, rank: usize, why: &str) {
        if let Some(mut link) = self.links[rank].take() {
            link.deregister(self.poll.registry());
            self.shared.liveness.set(rank, PeerState::Lost(why.to_owned()));
        }
    }
    fn heard(&mut self, rank: usize, frame: &ControlFrame) {
        match frame.kind {
            FrameKind::Beat => self.shared.liveness.beat(rank),
            FrameKind::Failed => {
                let (group, cause) = FailureCause::decode(&frame.body).unwrap_or((0, FailureCause::Said("no reason".into())));
                self.shared.liveness.fail(group, rank, cause);
            }
            FrameKind::Goodbye => self.shared.liveness.set(rank, PeerState::Left),
            FrameKind::Small => {
                let mut body = FrameBodyReader(&frame.body);
                match body.number() {
                    Some(round) => self.shared.came(rank, round, body.0.to_vec()),
                    None => self.lose(rank, "a frame without a sense"),
                }
            }
            _ => {}
        }
    }
    fn leave(mut self) {
        let until = Instant::now() + FAREWELL;
        (0..self.links.len()).for_each(|rank| self.say(rank, FrameKind::Goodbye, Vec::new()));
        let mut events = Events::with_capacity(64);
        while self.links.iter().flatten().any(ControlLink::has_unsent) && Instant::now() < until {
            if self.poll.poll(&mut events, Some(until.saturating_duration_since(Instant::now()))).is_err() {
                break;
            }
            self.links.iter_mut().flatten().for_each(|link| _ = link.flush());
        }
        // A socket that is closed with something unread breaks the connection, and the goodbye might not be read.
        let mut unread = Vec::new();
        for link in self.links.iter_mut().flatten() {
            link.close_own_side();
            let _ = link.read(&mut unread);
        }
    }
}

/// Starts the thread.
pub(super) fn start(shared: &Arc<ControlShared>, assembled: Assembled) -> std::io::Result<std::thread::JoinHandle<()>> {
    let Assembled { poll, links, early } = assembled;
    let monitor = ControlMonitor::new(shared.clone(), poll, links);
    std::thread::Builder::new().name(format!("adamant-control-{}", shared.rank)).spawn(move || monitor.run(early))
}
