//! How two ranks prove to each other that both know the token: frames in, frames out. Must not know of sockets or clocks.
//!
//! ```text
//! caller                                                   who answers
//!   Hello      claim, nonce c, proof("hello", claim, c)  ->  a wrong proof: Refused, without a reason
//!              claim', nonce a, proof("answer", ..., c, a)  <-  Challenge
//!   Proof      proof("caller", ..., c, a)                ->  a wrong one: Refused, without a reason
//!              <-  Welcome, or Refused with a reason: who is told has proved that it belongs to the user
//! ```
//!
//! A proof is a keyed BLAKE3 hash over its step, both claims and the nonces, which are new each time: what was recorded proves nothing
//! later. The first proof can be repeated and shows no more than that somebody once knew the token: it lets the ranks that belong to
//! the job pass those who only connect. A claim is who somebody says to be: rank, size, epoch, and whom it means to reach.
use super::{
    frame::{ControlFrame, FrameBody, FrameBodyReader, FrameFault, FrameKind, VERSION},
    token::{JoinKey, random},
};
use crate::ErrorKind;
use std::fmt;

/// Who somebody says to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RankClaim {
    /// the rank
    pub rank: u64,
    /// how many ranks there are
    pub size: u64,
    /// the start of the job
    pub epoch: u64,
    /// its process, as its host counts them; 0 where that is not told
    pub process: u64,
}
impl RankClaim {
    fn write(&self, body: FrameBody) -> FrameBody {
        body.number(self.rank).number(self.size).number(self.epoch).number(self.process)
    }
    fn read(body: &mut FrameBodyReader<'_>) -> Option<RankClaim> {
        Some(RankClaim { rank: body.number()?, size: body.number()?, epoch: body.number()?, process: body.number()? })
    }
}
/// Why a rank does not come in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JoinRefusal {
    /// it did not prove that it knows the token; nothing else is told
    Token,
    /// it speaks another version, this one's is told
    Version(u16),
    /// it belongs to another start of the job than this one
    Epoch(u64),
    /// it counts other than so many ranks
    Size(u64),
    /// that rank has joined already
    Taken,
    /// what it said had no sense here
    Garbled,
}
impl fmt::Display for JoinRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinRefusal::Token => f.write_str("refused: the token is another one"),
            JoinRefusal::Version(version) => write!(f, "refused: version {version} of the control protocol is spoken there, {VERSION} here"),
            JoinRefusal::Epoch(epoch) => write!(f, "refused: the job's epoch there is {epoch}"),
            JoinRefusal::Size(size) => write!(f, "refused: {size} ranks are expected there"),
            JoinRefusal::Taken => f.write_str("refused: that rank has joined already"),
            JoinRefusal::Garbled => f.write_str("refused: what was said had no sense"),
        }
    }
}
impl JoinRefusal {
    /// As a frame's body.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, told) = match *self {
            JoinRefusal::Token => (1, 0),
            JoinRefusal::Version(version) => (2, u64::from(version)),
            JoinRefusal::Epoch(epoch) => (3, epoch),
            JoinRefusal::Size(size) => (4, size),
            JoinRefusal::Taken => (5, 0),
            JoinRefusal::Garbled => (6, 0),
        };
        FrameBody::default().number(kind).number(told).0
    }
    fn read(body: &[u8]) -> JoinRefusal {
        let mut body = FrameBodyReader(body);
        match (body.number(), body.number().unwrap_or(0)) {
            (Some(1), _) => JoinRefusal::Token,
            (Some(2), version) => JoinRefusal::Version(version as u16),
            (Some(3), epoch) => JoinRefusal::Epoch(epoch),
            (Some(4), size) => JoinRefusal::Size(size),
            (Some(5), _) => JoinRefusal::Taken,
            _ => JoinRefusal::Garbled,
        }
    }
}
impl From<FrameFault> for JoinRefusal {
    fn from(fault: FrameFault) -> JoinRefusal {
        match fault {
            FrameFault::Version(_) => JoinRefusal::Version(VERSION),
            _ => JoinRefusal::Garbled,
        }
    }
}
type Nonce = [u8; 32];
/// Everything that a proof is about.
fn transcript(caller: &RankClaim, to: u64, address: &str, answer: Option<&RankClaim>, nonces: &[&Nonce]) -> Vec<u8> {
    let mut said = caller.write(FrameBody::default().number(u64::from(VERSION))).number(to).text(address);
    if let Some(answer) = answer {
        said = answer.write(said);
    }
    nonces.iter().fold(said, |said, nonce| said.bytes(*nonce)).0
}

/// The side that connects.
pub struct HandshakeCaller {
    key: JoinKey,
    claim: RankClaim,
    to: u64,
    address: String,
    nonce: Nonce,
    has_proved: bool,
}
/// What a caller does next.
#[derive(PartialEq, Eq, Debug)]
pub enum CallerStep {
    /// says this, of this kind
    Say(FrameKind, Vec<u8>),
    /// has come in
    In,
}
impl HandshakeCaller {
    /// Calls rank `to`; `address` is where the caller itself can be reached. Gives the body of its Hello.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn new(key: JoinKey, claim: RankClaim, to: usize, address: String) -> Result<(HandshakeCaller, Vec<u8>), ErrorKind> {
        let caller = HandshakeCaller { key, claim, to: to as u64, address, nonce: random()?, has_proved: false };
        let proof = caller.key.proof("hello", &transcript(&caller.claim, caller.to, &caller.address, None, &[&caller.nonce]));
        let hello = caller.claim.write(FrameBody::default()).number(caller.to).text(&caller.address).bytes(&caller.nonce).bytes(proof.as_bytes());
        Ok((caller, hello.0))
    }
    /// Has the other side proved that it knows the token?
    pub fn has_met(&self) -> bool {
        self.has_proved
    }
    /// What follows from a frame.
    ///
    /// # Errors
    /// Why it does not come in, or is not answered by a rank.
    pub fn hear(&mut self, frame: &ControlFrame) -> Result<CallerStep, JoinRefusal> {
        match frame.kind {
            FrameKind::Challenge if !self.has_proved => {
                let mut body = FrameBodyReader(&frame.body);
                let (Some(answer), Some(nonce), Some(proof)) = (RankClaim::read(&mut body), body.array::<32>(), body.array::<32>()) else {
                    return Err(JoinRefusal::Garbled);
                };
                let said = transcript(&self.claim, self.to, &self.address, Some(&answer), &[&self.nonce, &nonce]);
                if self.key.proof("answer", &said) != blake3::Hash::from_bytes(proof) || answer.rank != self.to {
                    return Err(JoinRefusal::Token);
                }
                self.has_proved = true;
                Ok(CallerStep::Say(FrameKind::Proof, self.key.proof("caller", &said).as_bytes().to_vec()))
            }
            FrameKind::Welcome if self.has_proved => Ok(CallerStep::In),
            FrameKind::Refused => Err(JoinRefusal::read(&frame.body)),
            _ => Err(JoinRefusal::Garbled),
        }
    }
}

/// The side that listens.
pub struct HandshakeAnswerer {
    key: JoinKey,
    claim: RankClaim,
    heard: Option<(RankClaim, String, Vec<u8>)>,
}
/// What who answers does next.
#[derive(PartialEq, Eq, Debug)]
pub enum AnswerStep {
    /// says this, of this kind
    Say(FrameKind, Vec<u8>),
    /// knows who called, and where it can be reached; whether it may come in is for the listener to say
    Known(RankClaim, String),
}
impl HandshakeAnswerer {
    /// Answers as who it says to be.
    pub fn new(key: JoinKey, claim: RankClaim) -> HandshakeAnswerer {
        HandshakeAnswerer { key, claim, heard: None }
    }
    /// Who the caller says to be, if its first proof held.
    pub fn heard(&self) -> Option<&RankClaim> {
        self.heard.as_ref().map(|(claim, ..)| claim)
    }
    /// What follows from a frame.
    ///
    /// # Errors
    /// Why the caller does not come in.
    pub fn hear(&mut self, frame: &ControlFrame) -> Result<AnswerStep, JoinRefusal> {
        match (frame.kind, self.heard.take()) {
            (FrameKind::Hello, None) => {
                let mut body = FrameBodyReader(&frame.body);
                let (Some(caller), Some(to), Some(address)) = (RankClaim::read(&mut body), body.number(), body.text()) else {
                    return Err(JoinRefusal::Garbled);
                };
                let (Some(nonce), Some(proof)) = (body.array::<32>(), body.array::<32>()) else { return Err(JoinRefusal::Garbled) };
                if self.key.proof("hello", &transcript(&caller, to, &address, None, &[&nonce])) != blake3::Hash::from_bytes(proof) || to != self.claim.rank {
                    return Err(JoinRefusal::Token);
                }
                let own: Nonce = random().map_err(|_| JoinRefusal::Garbled)?;
                let said = transcript(&caller, to, &address, Some(&self.claim), &[&nonce, &own]);
                let answer = self.claim.write(FrameBody::default()).bytes(&own).bytes(self.key.proof("answer", &said).as_bytes());
                self.heard = Some((caller, address, said));
                Ok(AnswerStep::Say(FrameKind::Challenge, answer.0))
            }
            (FrameKind::Proof, Some((caller, address, said))) => {
                let proof: [u8; 32] = frame.body.as_slice().try_into().map_err(|_| JoinRefusal::Garbled)?;
                if self.key.proof("caller", &said) != blake3::Hash::from_bytes(proof) {
                    return Err(JoinRefusal::Token);
                }
                Ok(AnswerStep::Known(caller, address))
            }
            _ => Err(JoinRefusal::Garbled),
        }
    }
}
