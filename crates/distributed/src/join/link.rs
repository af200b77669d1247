//! One connection: bytes that are to go, and what came, in frames. Must not know what frames mean.
use super::frame::{ControlFrame, FRAME_CAP, FrameFault, FrameKind, FrameReader, HANDSHAKE_CAP};
use mio::{Interest, Registry, Token, net::TcpStream};
use std::io::{ErrorKind::Interrupted, ErrorKind::WouldBlock, Read, Write};

/// Bytes that a peer may leave unread before its connection counts as broken. Frames are few and small.
const MOST_UNSENT: usize = 4 << 20;

/// A connection with another rank, or with who says to be one.
pub(crate) struct ControlLink {
    stream: TcpStream,
    reader: FrameReader,
    unsent: Vec<u8>,
    said: u64,
    epoch: u64,
}
/// How a connection ended.
#[derive(Debug)]
pub(crate) enum LinkEnd {
    /// the other side closed it, or is gone
    Closed,
    /// what came was no frame
    Fault(FrameFault),
}
impl ControlLink {
    pub(crate) fn new(stream: TcpStream, epoch: u64) -> ControlLink {
        // Without it a heartbeat may wait for the answer to the one before.
        let _ = stream.set_nodelay(true);
        ControlLink { stream, reader: FrameReader::new(HANDSHAKE_CAP), unsent: Vec::new(), said: 0, epoch }
    }
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> std::io::Result<()> {
        registry.register(&mut self.stream, token, Interest::READABLE | Interest::WRITABLE)
    }
    pub(crate) fn deregister(&mut self, registry: &Registry) {
        // One that was never registered has nothing to be taken back.
        let _ = registry.deregister(&mut self.stream);
    }
    /// The other side has proved who it is: larger frames may come.
    pub(crate) fn trust(&mut self) {
        self.reader.raise_cap(FRAME_CAP);
    }
    /// Did the connection come about? None while it is on its way.
    pub(crate) fn is_connected(&self) -> Option<bool> {
        match (self.stream.take_error(), self.stream.peer_addr()) {
            (Ok(None), Ok(_)) => Some(true),
            (Ok(None), Err(e)) if e.kind() == std::io::ErrorKind::NotConnected => None,
            _ => Some(false),
        }
    }
    pub(crate) fn peer(&self) -> Option<std::net::SocketAddr> {
        self.stream.peer_addr().ok()
    }
    /// Puts a frame behind those that are to go.
    pub(crate) fn say(&mut self, kind: FrameKind, body: Vec<u8>) {
        let frame = ControlFrame { kind, epoch: self.epoch, number: self.said, body };
        self.said += 1;
        self.unsent.extend_from_slice(&frame.encode());
    }
    /// Sends what can be sent now. `false`: the connection is over.
    pub(crate) fn flush(&mut self) -> bool {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => return false,
                Ok(n) => drop(self.unsent.drain(..n)),
                Err(e) if e.kind() == Interrupted => {}
                Err(e) if matches!(e.kind(), WouldBlock | std::io::ErrorKind::NotConnected) => return self.unsent.len() <= MOST_UNSENT,
                Err(_) => return false,
            }
        }
        true
    }
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }
    /// Reads what there is, into frames; how the connection ended, if it did. Frames before the end come too.
    pub(crate) fn read(&mut self, frames: &mut Vec<ControlFrame>) -> Result<(), LinkEnd> {
        let mut buffer = [0; 2048];
        loop {
            let n = match self.stream.read(&mut buffer) {
                Ok(0) => return Err(LinkEnd::Closed),
                Ok(n) => n,
                Err(e) if e.kind() == Interrupted => continue,
                Err(e) if matches!(e.kind(), WouldBlock | std::io::ErrorKind::NotConnected) => return Ok(()),
                Err(_) => return Err(LinkEnd::Closed),
            };
            self.reader.push(&buffer[..n]);
            while let Some(frame) = self.reader.next_frame().map_err(LinkEnd::Fault)? {
                frames.push(frame);
            }
        }
    }
    /// Nothing more will be said.
    pub(crate) fn close_own_side(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }
}
