//! What travels on a control connection: frames.
//!
//! ```text
//! magic 4 | version 2 | kind 2 | epoch 8 | number 8 | length 4 | CRC-32 4 | body
//! ```
//!
//! All numbers are little-endian. The check is over everything but itself. A frame's number is how many the sender sent before on this
//! connection. What does not read as a frame ends its connection; no body is larger than the cap, which is small until the other side
//! has proved who it is, and nothing is allocated for a length that was only announced.
use std::fmt;

const MAGIC: [u8; 4] = *b"adm\x1d";
/// Of the frames and of what is said in them. Ranks of two versions refuse each other.
pub const VERSION: u16 = 1;
/// The bytes before the body.
pub const HEADER: usize = 32;
/// The largest body before the handshake is done.
pub const HANDSHAKE_CAP: usize = 1 << 10;
/// The largest body afterwards.
pub const FRAME_CAP: usize = 1 << 16;
static CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);

macro_rules! kinds {
    ($($kind:ident = $number:literal $doc:literal,)*) => {
        /// What a frame says.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum FrameKind { $(#[doc = $doc] $kind = $number,)* }
        impl FrameKind {
            /// All there are.
            pub const ALL: &[FrameKind] = &[$(FrameKind::$kind),*];
            fn of(number: u16) -> Option<FrameKind> {
                FrameKind::ALL.iter().copied().find(|kind| *kind as u16 == number)
            }
        }
    };
}
kinds! {
    Hello = 1 "who calls, and a nonce",
    Challenge = 2 "the answer's proof, and its nonce",
    Proof = 3 "the caller's proof",
    Welcome = 4 "the caller is who it says",
    Refused = 5 "it does not come in, and why",
    Roster = 6 "where everybody can be reached",
    Ready = 7 "all connections of a rank are there",
    Go = 8 "those of all ranks are",
    Beat = 9 "still there",
    Failed = 10 "a group has ended, and why",
    Goodbye = 11 "this rank leaves on purpose",
    Small = 12 "a few bytes for everybody",
}

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControlFrame {
    /// what it says
    pub kind: FrameKind,
    /// the sender's start of the job
    pub epoch: u64,
    /// how many frames went before it
    pub number: u64,
    /// the rest
    pub body: Vec<u8>,
}
/// Why bytes are no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameFault {
    /// they begin otherwise
    Magic,
    /// another version's, which is told
    Version(u16),
    /// an unknown kind
    Kind(u16),
    /// a body beyond the cap
    Length(u32),
    /// they changed on the way
    Check,
    /// another number than was to come
    Number(u64),
}
impl fmt::Display for FrameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameFault::Magic => f.write_str("what came is no frame of a rank"),
            FrameFault::Version(version) => write!(f, "it speaks version {version} of the control protocol, this rank {VERSION}"),
            FrameFault::Kind(kind) => write!(f, "a frame of unknown kind {kind}"),
            FrameFault::Length(length) => write!(f, "a frame of {length} bytes, more than may come"),
            FrameFault::Check => f.write_str("a frame whose check is wrong"),
            FrameFault::Number(number) => write!(f, "frame {number} out of turn"),
        }
    }
}

impl ControlFrame {
    /// Its bytes. A body beyond [`FRAME_CAP`] is cut there; who builds one looks before.
    pub fn encode(&self) -> Vec<u8> {
        let body = &self.body[..self.body.len().min(FRAME_CAP)];
        let mut bytes = Vec::with_capacity(HEADER + body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.kind as u16).to_le_bytes());
        bytes.extend_from_slice(&self.epoch.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        let check = check(&bytes, body);
        bytes.extend_from_slice(&check.to_le_bytes());
        bytes.extend_from_slice(body);
        bytes
    }
}
fn check(head: &[u8], body: &[u8]) -> u32 {
    let mut digest = CRC.digest();
    digest.update(head);
    digest.update(body);
    digest.finalize()
}

/// Cuts what comes into frames.
pub struct FrameReader {
    buffer: Vec<u8>,
    cap: usize,
    next: u64,
}
impl FrameReader {
    /// For a connection on which nothing has come. It never holds more than one frame of `cap` bytes and what was pushed last.
    pub fn new(cap: usize) -> FrameReader {
        FrameReader { buffer: Vec::new(), cap, next: 0 }
    }
    /// Takes larger frames from now on.
    pub fn raise_cap(&mut self, cap: usize) {
        self.cap = cap;
    }
    /// What came, to be followed by [`FrameReader::next_frame`] until there is none.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }
    /// The bytes that wait for the rest of their frame.
    pub fn held(&self) -> usize {
        self.buffer.len()
    }
    /// The next whole frame, if it is there.
    ///
    /// # Errors
    /// Bytes that are no frame, as soon as that can be seen. The connection is of no use any more.
    pub fn next_frame(&mut self) -> Result<Option<ControlFrame>, FrameFault> {
        let begun = self.buffer.len().min(MAGIC.len());
        if self.buffer[..begun] != MAGIC[..begun] {
            return Err(FrameFault::Magic);
        }
        let Some(head) = self.buffer.first_chunk::<HEADER>() else { return Ok(None) };
        let short = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let (version, length) = (short(4), word(24));
        if version != VERSION {
            return Err(FrameFault::Version(version));
        }
        if length as usize > self.cap {
            return Err(FrameFault::Length(length));
        }
        let end = HEADER + length as usize;
        let Some(body) = self.buffer.get(HEADER..end) else { return Ok(None) };
        if check(&head[..HEADER - 4], body) != word(28) {
            return Err(FrameFault::Check);
        }
        let kind = FrameKind::of(short(6)).ok_or(FrameFault::Kind(short(6)))?;
        let (epoch, number) = (long(8), long(16));
        if number != self.next {
            return Err(FrameFault::Number(number));
        }
        self.next += 1;
        let frame = ControlFrame { kind, epoch, number, body: body.to_vec() };
        self.buffer.drain(..end);
        Ok(Some(frame))
    }
}

/// Numbers and texts one behind the other.
#[derive(Default)]
pub struct FrameBody(pub Vec<u8>);
impl FrameBody {
    pub(crate) fn number(mut self, n: u64) -> FrameBody {
        self.0.extend_from_slice(&n.to_le_bytes());
        self
    }
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> FrameBody {
        self.0.extend_from_slice(bytes);
        self
    }
    /// A text, cut where a frame could not take it.
    pub(crate) fn text(self, text: &str) -> FrameBody {
        const LONGEST: usize = 4096;
        let text = text.get(..text.floor_char_boundary(LONGEST)).unwrap_or(text);
        self.number(text.len() as u64).bytes(text.as_bytes())
    }
}
/// Reads them again: none where the body ends too early.
pub struct FrameBodyReader<'b>(pub &'b [u8]);
impl<'b> FrameBodyReader<'b> {
    pub(crate) fn bytes(&mut self, n: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }
    pub(crate) fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
    pub(crate) fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        Some(String::from_utf8_lossy(self.bytes(length)?).into_owned())
    }
}
